"""Distributions of simulated classes: default parameters, how rows are drawn, and exact log densities."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from marmix.core.arrays import Array

SEPARATION = 2.0  # distance of neighbouring classes, as in the paper


class Law(NamedTuple):
    """Distribution of the features of one class: a multivariate law of scipy, or a univariate one of each feature."""

    law: Any
    features: int
    joint: bool

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw rows (n, d)."""
        size = n if self.joint else (n, self.features)
        return np.asarray(self.law.rvs(size=size, random_state=rng)).reshape(n, self.features)

    def log_density(self, X: Array) -> Array:
        """Log density of every row, (n,)."""
        density = np.asarray(self.law.logpdf(X))
        return density.reshape(len(X)) if self.joint else density.sum(axis=1)


class Family(NamedTuple):
    """A family of distributions."""

    law: Callable[..., Any]  # of scipy, from the parameters of a class
    defaults: Callable[[int, int, float], dict[str, Any]]  # (classes, features, separation) -> parameters
    matrices: str | None = None  # the parameter that is a matrix for each class; the features are then not independent


def laws_of(distribution: str, classes: int, features: int, parameters: Mapping[str, Any]) -> list[Law]:
    """The law of each class of a family of `FAMILIES`; `parameters` override its defaults."""
    if distribution not in FAMILIES:
        raise ValueError(f"distribution={distribution!r} is not one of {', '.join(map(repr, FAMILIES))}.")
    family, overrides = FAMILIES[distribution], dict(parameters)
    defaults = family.defaults(classes, features, overrides.pop("separation", SEPARATION))
    unknown = [name for name in overrides if name not in defaults]
    if unknown:
        raise ValueError(
            f"parameters: {distribution!r} has no {unknown[0]!r}; it has {', '.join(map(repr, defaults))}."
        )
    by_class = []
    for name, value in (defaults | overrides).items():
        shape = () if name == "df" else (features, features) if name == family.matrices else (features,)
        array = np.asarray(value, dtype=float)
        if not np.isfinite(array).all():
            raise ValueError(f"parameters: {name} holds NaN or infinity.")
        by_class.append(np.broadcast_to(array, (classes, *shape)))
    joint = family.matrices is not None
    return [Law(family.law(*values), features, joint) for values in zip(*by_class, strict=True)]


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


def _beta(classes: int, features: int, separation: float) -> dict[str, Any]:
    a = 3.0 + 2.0 * ((np.arange(classes)[:, None] + np.arange(features)) % classes)
    return {"a": a, "b": 2.0 * classes + 4.0 - a}


FAMILIES = {
    "gaussian": Family(
        stats.multivariate_normal,
        lambda K, d, apart: {"means": places(K, d, apart), "covariances": np.eye(d)},
        "covariances",
    ),
    "student": Family(
        stats.multivariate_t,
        lambda K, d, apart: {"means": places(K, d, apart), "scales": np.eye(d), "df": 4.0},
        "scales",
    ),
    "laplace": Family(
        stats.laplace,
        lambda K, d, apart: {"locations": places(K, d, apart), "scales": np.r_[1.0, np.full(d - 1, 0.8)]},
    ),
    "gamma": Family(
        lambda shapes, scales: stats.gamma(shapes, scale=scales),
        lambda K, d, apart: {"shapes": np.tile(3.0 + 2.0 * np.arange(K)[:, None], d), "scales": 1.0},
    ),
    "beta": Family(stats.beta, _beta),
}
