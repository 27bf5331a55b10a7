"""Covariance matrices of the estimates, in the coordinates of the fit.

With ``A`` minus the derivative of the equations that the fit solves (the observed information) and ``B`` the sum of
the outer products of the rows' scores,

    observed   A^-1
    expected   E^-1, E the expected information given the features, over labels and missingness under the model
    sandwich   A^-1 B A^-T, which is valid also if the model is misspecified

The copies of a row with votes for several classes are one row: their scores are added before the outer product.

With a penalty P on the coefficients, A and E include it, and the first two become ``A^-1 (A - P) A^-1``.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import Array
from marmix.core.mechanism import Mechanism
from marmix.fitting import Objective
from marmix.inference.coordinates import Coordinates
from marmix.inference.curvature import Curvature, curvature, expected_outer

KINDS = ("sandwich", "observed", "expected")
_SINGULAR = 1e-8  # smallest eigenvalue, relative to the largest, of an identified direction
# Standard error of shape / (1 + shape), which lies between 0 and 1, above which the data do not determine the shape.
_UNIDENTIFIED = 0.5


class Inverse(NamedTuple):
    """The inverse of an information matrix on the directions it identifies, and the unidentified directions (P, m)."""

    matrix: Array
    blind: Array


def inverse(information: Array, symmetric: bool = True) -> Inverse:
    """Invert an information matrix; directions without (or with negative) information are blind.

    In the coordinates a labelled row has unit information, so eigenvalues are comparable. The equations of a tempered
    mechanism are not symmetric.
    """
    if symmetric:
        values, vectors = np.linalg.eigh(0.5 * (information + information.T))
        kept = values > _SINGULAR * max(values[-1], 1e-300)
        return Inverse((vectors[:, kept] / values[kept]) @ vectors[:, kept].T, vectors[:, ~kept])
    left, values, right = np.linalg.svd(information)
    kept = values > _SINGULAR * values[0]
    return Inverse((right[kept].T / values[kept]) @ left[:, kept].T, right[~kept].T)


class Information:
    """Information matrices of a fit, in its coordinates; a shape that the data do not determine is held.

    `excess` is what the outer products of copies of rows exceed those of the rows by (see `copies_excess`), None without copies.
    """

    def __init__(self, objective: Objective, theta: Any, mechanism: Mechanism | None, excess: Array | None = None):
        self.objective, self.theta, self.mechanism, self.excess = objective, theta, mechanism, excess
        self.sums: Curvature = curvature(objective, theta, mechanism)
        self._use(Coordinates(objective, theta, mechanism))
        if self.coordinates.error_of_shape(*self.inverse) > _UNIDENTIFIED:
            self._use(Coordinates(objective, theta, mechanism, hold_shape=True))

    def _use(self, coordinates: Coordinates) -> None:
        self.coordinates = coordinates
        self.pull = coordinates.pull(len(self.sums.gradient))
        for name in ("bread", "inverse"):
            vars(self).pop(name, None)

    @cached_property
    def penalty(self) -> Array:
        """Second derivatives of the penalty."""
        if not self.objective.model.penalty(self.theta):
            return np.zeros((self.coordinates.size, self.coordinates.size))
        return -self.coordinates.bend(np.zeros_like(self.sums.gradient))

    @cached_property
    def bread(self) -> Array:
        """A: minus the derivative of the equations."""
        gradient, hessian, _ = self.sums
        return -(self.pull @ hessian @ self.pull.T + self.coordinates.bend(gradient))

    @cached_property
    def meat(self) -> Array:
        """B: the sum of outer products of the rows' scores, about their mean."""
        score = self.pull @ self.sums.gradient
        outer = self.sums.outer if self.excess is None else self.sums.outer - self.excess
        return self.pull @ outer @ self.pull.T - np.outer(score, score) / self.objective.engine.total_weight

    @cached_property
    def expected(self) -> Array:
        """E: the expected information given the features, with the penalty."""
        outer = expected_outer(self.objective, self.theta, self.mechanism)
        return self.pull @ outer @ self.pull.T + self.penalty

    @cached_property
    def inverse(self) -> Inverse:
        """The inverse of A."""
        return inverse(self.bread, symmetric=self.mechanism is None or self.objective.tempering == 1.0)

    def covariance(self, kind: str) -> tuple[Array, Array]:
        """The covariance matrix of that kind, and the unidentified directions (P, m); a tempered fit has only the sandwich."""
        if kind == "sandwich":
            return self.inverse.matrix @ self.meat @ self.inverse.matrix.T, self.inverse.blind
        information = self.bread if kind == "observed" else self.expected
        matrix, blind = self.inverse if kind == "observed" else inverse(information)
        if not self.penalty.any():
            return matrix, blind
        return matrix @ (information - self.penalty) @ matrix, blind
