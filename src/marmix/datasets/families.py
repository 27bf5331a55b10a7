"""Classes to draw rows from: their laws, of which the log densities are exact, and where they stand by default."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import stats

from marmix.arrays import Array

SEPARATION = 2.0  # of neighbouring classes, the paper's


class Law(Protocol):
    """How the features of one class are distributed."""

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Rows (n, d)."""

    def log_density(self, X: Array) -> Array:
        """The log density of every row, (n,)."""


class Joint(NamedTuple):
    """A law of scipy over all features at once; scipy drops axes of length one, which are put back."""

    law: Any
    features: int

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.asarray(self.law.rvs(size=n, random_state=rng)).reshape(n, self.features)

    def log_density(self, X: Array) -> Array:
        return np.asarray(self.law.logpdf(X)).reshape(len(X))


class Independent(NamedTuple):
    """Independent features, each with a law of its own: scipy's, with one parameter a feature."""

    law: Any
    features: int

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.asarray(self.law.rvs(size=(n, self.features), random_state=rng))

    def log_density(self, X: Array) -> Array:
        return np.asarray(self.law.logpdf(X).sum(axis=1))


class Family(NamedTuple):
    """A kind of classes: its parameters' defaults, and the laws that parameters stand for."""

    defaults: Callable[[int, int, float], dict[str, Any]]  # of the numbers of classes and features, and the separation
    laws: Callable[[int, int, dict[str, Any]], list[Law]]  # of the numbers of classes and features, and the parameters
    places: str | None  # the parameter that the separation decides


def family_name(distribution: str) -> str:
    """The family's name in `FAMILIES`, of that or another name that it has."""
    name = OTHER_NAMES.get(distribution, distribution) if isinstance(distribution, str) else ""
    if name not in FAMILIES:
        also = {name: f" (or {other!r})" for other, name in OTHER_NAMES.items()}
        known = ", ".join(f"{name!r}{also.get(name, '')}" for name in FAMILIES)
        raise ValueError(f"distribution={distribution!r} is not one of {known}.")
    return name


def laws_of(
    distribution: str, classes: int, features: int, parameters: Mapping[str, Any] | None, separation: float
) -> list[Law]:
    """The law of each class, by the family's name in `FAMILIES`; `parameters` stand in for the defaults that they name."""
    family = FAMILIES[distribution]
    if not (np.isfinite(separation) and separation > 0.0):
        raise ValueError(f"separation={separation!r} must be a positive number.")
    given = dict(parameters or {})
    if separation != SEPARATION and (family.places is None or family.places in given):
        known = "has no" if family.places is None else f"is given its {family.places}, and takes no"
        raise ValueError(
            f"distribution={distribution!r} {known} separation: leave it out and say by parameters= where classes lie."
        )
    defaults = family.defaults(classes, features, separation)
    unknown = [name for name in given if name not in defaults]
    if unknown:
        raise ValueError(
            f"parameters: {distribution!r} has no {unknown[0]!r}; it has {', '.join(map(repr, defaults))}."
        )
    return family.laws(classes, features, defaults | given)


# Where classes stand.


def places(classes: int, features: int, separation: float) -> Array:
    """Centres (K, d), neighbours `separation` apart.

    The corners of a regular simplex around the origin while there is room for one, K <= d + 1; two classes are then at
    ``-separation / 2`` and ``separation / 2`` on the first axis. More classes stand on a circle in the first two features, or
    on a line if there is only one.
    """
    centres = np.zeros((classes, features))
    if classes <= features + 1:
        for k in range(1, classes):  # corner k goes above the middle of the earlier ones, on an axis of its own
            height = separation * np.sqrt((k + 1) / (2 * k))
            centres[:k, k - 1] = -height / (k + 1)
            centres[k, k - 1] = height * k / (k + 1)
    elif features == 1:
        centres[:, 0] = separation * (np.arange(classes) - 0.5 * (classes - 1))
    else:
        angle = 2.0 * np.pi * np.arange(classes) / classes
        radius = 0.5 * separation / np.sin(np.pi / classes)
        centres[:, :2] = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return centres


# The families.


def _gaussian_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    return {"means": places(classes, features, separation), "covariances": np.eye(features)}


def _gaussian(classes: int, features: int, given: dict[str, Any]) -> list[Law]:
    means = _table("means", given["means"], classes, features)
    covariances = _matrices("covariances", given["covariances"], classes, features)
    pairs = zip(means, covariances, strict=True)
    return [Joint(stats.multivariate_normal(mean, covariance), features) for mean, covariance in pairs]


def _student_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    return {"means": places(classes, features, separation), "scales": np.eye(features), "df": 4.0}


def _student(classes: int, features: int, given: dict[str, Any]) -> list[Law]:
    means = _table("means", given["means"], classes, features)
    scales = _matrices("scales", given["scales"], classes, features)
    df = _table("df", given["df"], 1, 1, positive=True).item()
    return [Joint(stats.multivariate_t(m, s, df=df), features) for m, s in zip(means, scales, strict=True)]


def _laplace_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    scales = np.full(features, 0.8)
    scales[0] = 1.0
    return {"locations": places(classes, features, separation), "scales": scales}


def _laplace(classes: int, features: int, given: dict[str, Any]) -> list[Law]:
    locations = _table("locations", given["locations"], classes, features)
    scales = _table("scales", given["scales"], classes, features, positive=True)
    return [Independent(stats.laplace(at, scale), features) for at, scale in zip(locations, scales, strict=True)]


def _gamma_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    return {"shapes": np.repeat(3.0 + 2.0 * np.arange(classes)[:, None], features, axis=1), "scales": 1.0}


def _gamma(classes: int, features: int, given: dict[str, Any]) -> list[Law]:
    shapes = _table("shapes", given["shapes"], classes, features, positive=True)
    scales = _table("scales", given["scales"], classes, features, positive=True)
    pairs = zip(shapes, scales, strict=True)
    return [Independent(stats.gamma(shape, scale=scale), features) for shape, scale in pairs]


def _beta_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    a = 3.0 + 2.0 * ((np.arange(classes)[:, None] + np.arange(features)) % classes)
    return {"a": a, "b": 2.0 * classes + 4.0 - a}


def _beta(classes: int, features: int, given: dict[str, Any]) -> list[Law]:
    a = _table("a", given["a"], classes, features, positive=True)
    b = _table("b", given["b"], classes, features, positive=True)
    return [Independent(stats.beta(*pair), features) for pair in zip(a, b, strict=True)]


FAMILIES = {
    "gaussian": Family(_gaussian_defaults, _gaussian, "means"),
    "student": Family(_student_defaults, _student, "means"),
    "laplace": Family(_laplace_defaults, _laplace, "locations"),
    "gamma": Family(_gamma_defaults, _gamma, None),
    "beta": Family(_beta_defaults, _beta, None),
}
OTHER_NAMES = {"normal": "gaussian", "t": "student"}


# Checks of parameters.


def _table(name: str, value: Any, classes: int, features: int, positive: bool = False) -> Array:
    """A number for each class and feature, (K, d); one row may stand for all classes, and one number for all."""
    given = _numbers(name, value)
    try:
        table = np.broadcast_to(given, (classes, features))
    except ValueError:
        raise ValueError(
            f"parameters: {name} has shape {given.shape}, which does not fit n_classes={classes} and "
            f"n_features={features}."
        ) from None
    if positive and not (table > 0.0).all():
        raise ValueError(f"parameters: {name} must be positive.")
    return table


def _matrices(name: str, value: Any, classes: int, features: int) -> Array:
    """A covariance matrix for each class, (K, d, d); one may stand for all."""
    given = _numbers(name, value)
    if given.shape not in ((features, features), (classes, features, features)):
        raise ValueError(
            f"parameters: {name} has shape {given.shape}; it must be {(features, features)}, one matrix for all classes, "
            f"or {(classes, features, features)}."
        )
    matrices = np.broadcast_to(given, (classes, features, features))
    symmetric = np.allclose(matrices, np.swapaxes(matrices, 1, 2), rtol=1e-10, atol=0.0)
    if not (symmetric and (np.linalg.eigvalsh(matrices) > 0.0).all()):
        raise ValueError(f"parameters: {name} must be symmetric and positive definite.")
    return matrices


def _numbers(name: str, value: Any) -> Array:
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"parameters: {name} must be numbers, all rows of one length.") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"parameters: {name} holds NaN or infinity.")
    return numbers
