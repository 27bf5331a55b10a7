"""Distributions of simulated classes: how rows are drawn, exact log densities, and default parameters."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import stats

from marmix.core.arrays import Array

SEPARATION = 2.0  # distance of neighbouring classes, as in the paper


class Law(Protocol):
    """Distribution of the features of one class."""

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw rows (n, d)."""

    def log_density(self, X: Array) -> Array:
        """Log density of every row, (n,)."""


class Joint(NamedTuple):
    """A multivariate scipy distribution; `reshape` restores the axes of length one that scipy drops."""

    law: Any
    features: int

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.asarray(self.law.rvs(size=n, random_state=rng)).reshape(n, self.features)

    def log_density(self, X: Array) -> Array:
        return np.asarray(self.law.logpdf(X)).reshape(len(X))


class Independent(NamedTuple):
    """Independent features: a univariate scipy distribution with one parameter for each feature."""

    law: Any
    features: int

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.asarray(self.law.rvs(size=(n, self.features), random_state=rng))

    def log_density(self, X: Array) -> Array:
        return np.asarray(self.law.logpdf(X).sum(axis=1))


class Family(NamedTuple):
    """A family of distributions: its default parameters, and the law of each class given parameters."""

    defaults: Callable[[int, int, float], dict[str, Any]]  # (classes, features, separation) -> parameters
    laws: Callable[[int, int, dict[str, Any]], list[Law]]  # (classes, features, parameters) -> laws
    places: str | None  # name of the parameter that `separation` sets


def family_name(distribution: str) -> str:
    """Name in `FAMILIES` of a distribution given by that name or by an alias."""
    name = OTHER_NAMES.get(distribution, distribution) if isinstance(distribution, str) else ""
    if name not in FAMILIES:
        aliases = {name: f" (or {alias!r})" for alias, name in OTHER_NAMES.items()}
        names = ", ".join(f"{name!r}{aliases.get(name, '')}" for name in FAMILIES)
        raise ValueError(f"distribution={distribution!r} is not one of {names}.")
    return name


def laws_of(
    distribution: str, classes: int, features: int, parameters: Mapping[str, Any] | None, separation: float
) -> list[Law]:
    """The law of each class of a family of `FAMILIES`; `parameters` override its defaults."""
    family = FAMILIES[distribution]
    if not (np.isfinite(separation) and separation > 0.0):
        raise ValueError(f"separation={separation!r} must be a positive number.")
    overrides = dict(parameters or {})
    if separation != SEPARATION and (family.places is None or family.places in overrides):
        reason = "has no" if family.places is None else f"is given its {family.places}, and takes no"
        raise ValueError(f"distribution={distribution!r} {reason} separation: drop it, and use parameters= alone.")
    defaults = family.defaults(classes, features, separation)
    unknown = [name for name in overrides if name not in defaults]
    if unknown:
        raise ValueError(
            f"parameters: {distribution!r} has no {unknown[0]!r}; it has {', '.join(map(repr, defaults))}."
        )
    return family.laws(classes, features, defaults | overrides)


# Positions of the classes.


def places(classes: int, features: int, separation: float) -> Array:
    """Centres (K, d) of the classes, with neighbours `separation` apart.

    If K <= d + 1 these are the corners of a regular simplex around the origin; two classes are at ``-separation / 2`` and
    ``separation / 2`` on the first axis. More classes lie on a circle in the first two features, or on a line if d = 1.
    """
    centres = np.zeros((classes, features))
    if classes <= features + 1:
        for k in range(1, classes):  # corner k: above the centre of the earlier ones, on a new axis
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


def _gaussian(classes: int, features: int, parameters: dict[str, Any]) -> list[Law]:
    means = _table("means", parameters["means"], classes, features)
    covariances = _matrices("covariances", parameters["covariances"], classes, features)
    pairs = zip(means, covariances, strict=True)
    return [Joint(stats.multivariate_normal(mean, covariance), features) for mean, covariance in pairs]


def _student_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    return {"means": places(classes, features, separation), "scales": np.eye(features), "df": 4.0}


def _student(classes: int, features: int, parameters: dict[str, Any]) -> list[Law]:
    means = _table("means", parameters["means"], classes, features)
    scales = _matrices("scales", parameters["scales"], classes, features)
    df = _table("df", parameters["df"], 1, 1, positive=True).item()
    return [Joint(stats.multivariate_t(m, s, df=df), features) for m, s in zip(means, scales, strict=True)]


def _laplace_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    scales = np.full(features, 0.8)
    scales[0] = 1.0
    return {"locations": places(classes, features, separation), "scales": scales}


def _laplace(classes: int, features: int, parameters: dict[str, Any]) -> list[Law]:
    locations = _table("locations", parameters["locations"], classes, features)
    scales = _table("scales", parameters["scales"], classes, features, positive=True)
    return [Independent(stats.laplace(at, scale), features) for at, scale in zip(locations, scales, strict=True)]


def _gamma_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    return {"shapes": np.repeat(3.0 + 2.0 * np.arange(classes)[:, None], features, axis=1), "scales": 1.0}


def _gamma(classes: int, features: int, parameters: dict[str, Any]) -> list[Law]:
    shapes = _table("shapes", parameters["shapes"], classes, features, positive=True)
    scales = _table("scales", parameters["scales"], classes, features, positive=True)
    pairs = zip(shapes, scales, strict=True)
    return [Independent(stats.gamma(shape, scale=scale), features) for shape, scale in pairs]


def _beta_defaults(classes: int, features: int, separation: float) -> dict[str, Any]:
    a = 3.0 + 2.0 * ((np.arange(classes)[:, None] + np.arange(features)) % classes)
    return {"a": a, "b": 2.0 * classes + 4.0 - a}


def _beta(classes: int, features: int, parameters: dict[str, Any]) -> list[Law]:
    a = _table("a", parameters["a"], classes, features, positive=True)
    b = _table("b", parameters["b"], classes, features, positive=True)
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
    """A parameter broadcast to (K, d): a number, a row for all classes, or a row for each class."""
    array = _numbers(name, value)
    try:
        table = np.broadcast_to(array, (classes, features))
    except ValueError:
        raise ValueError(
            f"parameters: {name} has shape {array.shape}, which does not fit n_classes={classes} and "
            f"n_features={features}."
        ) from None
    if positive and not (table > 0.0).all():
        raise ValueError(f"parameters: {name} must be positive.")
    return table


def _matrices(name: str, value: Any, classes: int, features: int) -> Array:
    """Covariance matrices (K, d, d), from one for all classes or one for each."""
    array = _numbers(name, value)
    if array.shape not in ((features, features), (classes, features, features)):
        raise ValueError(
            f"parameters: {name} has shape {array.shape}; it must be {(features, features)}, one matrix for all classes, "
            f"or {(classes, features, features)}."
        )
    matrices = np.broadcast_to(array, (classes, features, features))
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
