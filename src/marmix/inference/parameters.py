"""The parameters as users know them: their names, their kinds, and their values for any fit."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from marmix.arrays import Array
from marmix.mechanism import Mechanism
from marmix.rows import Covariates, Frame
from marmix.scores.gaussian import Gaussians, GaussianScores
from marmix.scores.linear import LinearScores

# Parameters of which "equal to zero" is a hypothesis; a weight, a variance or a shape of zero is a limit.
TESTABLE = ("mean", "covariance", "coefficient", "alpha")


Scale = tuple[Callable[[float], float], Callable[[float], float], Callable[[float], float]]

# Scales on which intervals are formed, with their inverses and slopes, where the parameter has a range.
PLAIN: Scale = (float, float, lambda value: 1.0)
_LOG: Scale = (np.log, np.exp, lambda value: 1.0 / value)
_LOG_ODDS: Scale = (logit, expit, lambda value: 1.0 / (value * (1.0 - value)))
SCALES: dict[str, Scale] = {"weight": _LOG_ODDS, "share": _LOG_ODDS, "variance": _LOG, "shape": _LOG}


class Parameters(NamedTuple):
    """Parameters on the user's scale; `values` computes them from those of the fit."""

    names: list[str]
    kinds: list[str]
    values: Callable[[Any, Mechanism | None], Array]


def mixture_parameters(
    model: GaussianScores, frame: Frame, classes: NDArray[Any], features: list[str], mechanism: Parameters
) -> Parameters:
    """Weights, means, covariances (each entry once), then the mechanism's."""
    owners = [str(classes[k]) for k in model.owner]
    if not model.single:
        place = dict.fromkeys(range(len(model.counts)), 0)
        for i, k in enumerate(model.owner.tolist()):
            place[k] += 1
            owners[i] += f"#{place[k]}"
    names = [f"weight[{owner}]" for owner in owners]
    names += [f"mean[{owner}, {feature}]" for owner in owners for feature in features]
    kinds = ["weight"] * len(owners) + ["mean"] * (len(names) - len(owners))
    entries = model.structure.entries(features)
    for owner in owners if model.structure.by_component else [""]:
        for first, second in entries:
            place_of = ", ".join(name for name in (owner, first, second) if name)
            names.append(f"{'cov' if second else 'var'}[{place_of}]")
            kinds.append("covariance" if second else "variance")

    def values(theta: Gaussians, known: Mechanism | None) -> Array:
        means = theta.mu @ frame.unwhitener.T + frame.centre
        covariances = model.structure.distinct(model.structure.covariances(theta.chol, frame.unwhitener))
        return np.concatenate(
            [np.exp(theta.log_pi), means.ravel(), covariances.ravel(), mechanism.values(theta, known)]
        )

    return Parameters(names + mechanism.names, kinds + mechanism.kinds, values)


def logistic_parameters(
    model: LinearScores, classes: NDArray[Any], features: list[str], mechanism: Parameters
) -> Parameters:
    """Intercepts and coefficients, then the mechanism's; more than two classes have a vector each, which sum to zero."""
    terms = ["const", *features]
    if model.degree == 2:
        terms += [
            f"{a}^2" if i == j else f"{a} {features[j]}"
            for i, a in enumerate(features)
            for j in range(i, len(features))
        ]
    names = terms if model.vectors == 1 else [f"{term}[{name}]" for name in classes for term in terms]

    def values(theta: Array, known: Mechanism | None) -> Array:
        return np.concatenate([model.to_user(theta).ravel(), mechanism.values(theta, known)])

    return Parameters(names + mechanism.names, ["coefficient"] * len(names) + mechanism.kinds, values)


def mechanism_parameters(mechanism: Mechanism | None, covariates: Covariates, features: list[str]) -> Parameters:
    """alpha, and shape and share where they were estimated."""
    if mechanism is None:
        return Parameters([], [], lambda theta, known: np.empty(0))
    names = ["alpha_0", "alpha_1", *(f"alpha[{features[i]}]" for i in covariates.columns)]
    kinds = ["alpha"] * len(names)
    names += ["shape"] * mechanism.free_shape + ["share"] * mechanism.free_share
    kinds += ["shape"] * mechanism.free_shape + ["share"] * mechanism.free_share

    def values(theta: Any, known: Mechanism | None) -> Array:
        assert known is not None
        alpha = covariates.alpha_to_user(known.alpha)
        return np.array([*alpha, *[known.shape] * known.free_shape, *[known.share] * known.free_share])

    return Parameters(names, kinds, values)
