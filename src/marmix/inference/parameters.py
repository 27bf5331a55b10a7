"""The parameters on the user's scale: names, kinds and values."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import expit, logit

from marmix.core.arrays import Array
from marmix.core.frames import Covariates
from marmix.core.gaussian import GaussianScores
from marmix.core.linear import KernelScores, LinearScores
from marmix.core.mechanism import Mechanism
from marmix.core.model import FittedModel
from marmix.core.student import StudentScores

# Kinds of parameters whose being zero is a hypothesis; a weight, a variance or a shape of zero is a limit.
TESTABLE = ("mean", "covariance", "coefficient", "alpha", "delta")

Scale = tuple[Callable[[float], float], Callable[[float], float], Callable[[float], float]]

# Scales on which intervals of parameters with a limited range are formed, with their inverses and slopes.
PLAIN: Scale = (float, float, lambda value: 1.0)
_LOG: Scale = (np.log, np.exp, lambda value: 1.0 / value)
_LOG_ODDS: Scale = (logit, expit, lambda value: 1.0 / (value * (1.0 - value)))
_UNIT: Scale = (float, lambda value: min(max(value, 0.0), 1.0), lambda value: 1.0)
SCALES: dict[str, Scale] = {
    "weight": _LOG_ODDS,
    "share": _LOG_ODDS,
    "variance": _LOG,
    "shape": _LOG,
    "1/dof": _UNIT,
}


class Parameters(NamedTuple):
    """Parameters on the user's scale; `values` computes them from theta and the mechanism."""

    names: list[str]
    kinds: list[str]
    values: Callable[[Any, Mechanism | None], Array]


def require_parameters(model: FittedModel) -> None:
    """Raise for score models whose parameters have no standard errors."""
    if not isinstance(model.score_model, GaussianScores | LinearScores):
        raise TypeError(f"inference is for mixtures and logistic regressions, not for a {model.score_model.words}.")


def parameters_of(model: FittedModel, mechanism: Mechanism | None, covariates: Covariates) -> Parameters:
    """The parameters of the classes, then those of the mechanism; `mechanism` is in the axes of its `covariates`.

    The coefficients of a kernel logistic regression mean nothing one by one, and only its mechanism has parameters.
    """
    missingness = _mechanism_parameters(mechanism, covariates, model)
    if isinstance(model.score_model, GaussianScores):
        return _mixture_parameters(model, model.score_model, missingness)
    if isinstance(model.score_model, KernelScores):
        return missingness
    require_parameters(model)
    return _logistic_parameters(model, cast(LinearScores, model.score_model), missingness)


def _mixture_parameters(model: FittedModel, scores: GaussianScores, mechanism: Parameters) -> Parameters:
    """Weights, means, distinct entries of the covariances or scale matrices, 1/dof, then the mechanism's parameters."""
    features = model.column_names
    owners = [str(model.classes[k]) for k in scores.owner]
    if not scores.single:
        numbers = [int(np.sum(scores.owner[: i + 1] == k)) for i, k in enumerate(scores.owner)]
        owners = [f"{owner}#{number}" for owner, number in zip(owners, numbers, strict=True)]
    names = [f"weight[{owner}]" for owner in owners]
    names += [f"mean[{owner}, {feature}]" for owner in owners for feature in features]
    kinds = ["weight"] * len(owners) + ["mean"] * (len(names) - len(owners))
    entries, student = scores.structure.entries(features), isinstance(scores, StudentScores)
    for owner in owners if scores.structure.by_component else [""]:
        for first, second in entries:
            entry = ", ".join(name for name in (owner, first, second) if name)
            word = "scale" if student else "cov" if second else "var"
            names.append(f"{word}[{entry}]")
            kinds.append("covariance" if second else "variance")
    tails = _tails(scores)
    names += ["1/dof"] if tails == 1 else [f"1/dof[{name}]" for name in model.classes[:tails]]
    kinds += ["1/dof"] * tails

    def values(theta: Any, fitted: Mechanism | None) -> Array:
        user = scores.user_values(theta, model.frame)
        return np.concatenate([mixture_values(scores, user), mechanism.values(theta, fitted)])

    return Parameters(names + mechanism.names, kinds + mechanism.kinds, values)


def mixture_values(scores: GaussianScores, user: dict[str, Any]) -> Array:
    """The parameters of the classes of a mixture, from its values in the user's axes."""
    matrices = scores.structure.distinct(user[scores.scales])
    parts = [user["weights"], user["means"].ravel(), matrices.ravel()]
    return np.concatenate([*parts, 1.0 / user["dof"][:tails]] if (tails := _tails(scores)) else parts)


def _tails(scores: GaussianScores) -> int:
    """Number of degrees of freedom that are estimated."""
    return scores.n_tails if isinstance(scores, StudentScores) else 0


def _logistic_parameters(model: FittedModel, scores: LinearScores, mechanism: Parameters) -> Parameters:
    """Intercepts and coefficients, then the mechanism's parameters; vectors of more than two classes sum to zero."""
    terms = ["const", *scores.terms(model.column_names)]
    names = terms if scores.vectors == 1 else [f"{term}[{name}]" for name in model.classes for term in terms]

    def values(theta: Array, fitted: Mechanism | None) -> Array:
        return np.concatenate([scores.to_user(theta).ravel(), mechanism.values(theta, fitted)])

    return Parameters(names + mechanism.names, ["coefficient"] * len(names) + mechanism.kinds, values)


def _mechanism_parameters(mechanism: Mechanism | None, covariates: Covariates, model: FittedModel) -> Parameters:
    """alpha, and label terms, shape and share if they are estimated."""
    if mechanism is None:
        return Parameters([], [], lambda theta, fitted: np.empty(0))
    names = ["alpha_0", "alpha_1", *(f"alpha[{model.column_names[i]}]" for i in covariates.columns)]
    labels = [f"delta[{name}]" for name in model.classes[1:]] if mechanism.free_label else []
    free = ["shape"] * mechanism.free_shape + ["share"] * mechanism.free_share

    def values(theta: Any, fitted: Mechanism | None) -> Array:
        assert fitted is not None
        alpha, delta = covariates.alpha_to_user(fitted.alpha), fitted.label[1:] if labels else ()
        return np.array([*alpha, *delta, *(getattr(fitted, name) for name in free)])

    return Parameters(names + labels + free, ["alpha"] * len(names) + ["delta"] * len(labels) + free, values)
