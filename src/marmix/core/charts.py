"""Coordinates in which a mechanism is fitted, and the maximisation of L_miss in them."""

from collections.abc import Callable
from dataclasses import replace
from math import exp
from typing import Any

import numpy as np
from scipy.optimize import minimize

from marmix.core.arrays import Array, quiet
from marmix.core.links import eta_at, hazard, stretch

Mechanism = Any  # the class is in mechanism.py, which imports this file

# At larger shapes the curve is indistinguishable from its limit, q = 1 - exp(-max(0, eta / shape)).
SHAPE_MAX = 100.0
# Largest label term that is estimated, on either side: beyond, (almost) all labels of a class are missing, or none.
LABEL_MAX = 10.0
# Largest share of labels missing completely at random, which leaves room for the rest of the mechanism.
SHARE_MAX = 0.999
# Least root information of a row about the shape or share, so that steps stay finite if it is not identified.
_UNIDENTIFIED = 0.1


class MechanismChart:
    """Free coordinates of a mechanism around a reference, scaled by its information there.

    alpha is replaced by the log hazard at the mean uncertainty and its slope there, ``b_0 = log n(ubar)`` and
    ``b_1 = d log n / du`` (and likewise for covariates), whose meaning does not depend on the shape, while alpha grows
    without bound with it. The shape is replaced by ``shape / (1 + shape)``. A step in a label term, the shape or the share
    changes b such that the likelihood stays constant to second order. Only these are bounded, each by its own coordinate.

    Parameters
    ----------
    reference : Mechanism
    drivers : array of shape (1 + L, n)
        Uncertainty, then covariates, and log probabilities of the classes if there is a label term.
    weight : array of shape (n,) or None
    """

    def __init__(self, reference: Mechanism, drivers: Array, weight: Array | None):
        w = np.ones(drivers.shape[1]) if weight is None else weight
        self.reference = reference
        information, self.centre = reference.information(drivers, w)
        self.n_slopes, self.n_labels = len(reference.alpha) - 1, reference.n_free_labels
        level = 1 + self.n_slopes  # number of coordinates for alpha; free label terms, shape and share follow
        self.shape_place = level + self.n_labels
        free = ((self.shape_place, reference.free_shape), (self.shape_place + 1, reference.free_share))
        self._free = [*range(level, self.shape_place), *(i for i, is_free in free if is_free)]
        self.size = level + len(self._free)
        with quiet():
            h = hazard(reference.eta(self.centre[:, None]), reference.shape)
        n, slope = np.clip(float(h.n[0]), 1e-300, 1e300), float(h.slope[0])
        slopes = np.array(reference.alpha[1:]) * slope / n
        labels = reference.label[1:] if self.n_labels else ()
        rho = reference.shape / (1.0 + reference.shape)
        self.place = np.array([np.log(n), *slopes, *labels, rho, reference.share])
        jacobian = self.jacobian_at(self.place)
        information = jacobian.T @ (information / w.sum()) @ jacobian
        values, vectors = np.linalg.eigh(information[:level, :level])
        to_level = vectors / np.sqrt(np.maximum(values, 1e-8 * values[-1] + 1e-12))
        across = information[:level, self._free]
        shear = to_level @ (to_level.T @ across)
        left = np.diag(information)[self._free] - np.einsum("ij,ij->j", across, shear)
        self._scale = 1.0 / np.sqrt(np.maximum(left, _UNIDENTIFIED**2))
        self._axes = np.zeros((len(self.place), self.size))  # of the coordinates in `place`
        self._axes[:level, :level], self._axes[:level, level:] = to_level, -shear * self._scale
        self._axes[self._free, range(level, self.size)] = self._scale

    @property
    def scale_of_shape(self) -> float:
        """Derivative of shape / (1 + shape) with respect to its coordinate, if the shape is free."""
        return float(self._scale[self.n_labels])

    @property
    def bounds(self) -> Array:
        """Lower and upper bounds (size, 2) of the coordinates."""
        level, labels = 1 + self.n_slopes, self.n_labels
        free = np.array(self._free, dtype=int) - level
        lower = np.array([-LABEL_MAX] * labels + [0.0, 0.0])[free]
        upper = np.array([LABEL_MAX] * labels + [SHAPE_MAX / (1.0 + SHAPE_MAX), SHARE_MAX])[free]
        at = self.place[self._free]
        low, high = np.minimum(lower - at, 0.0) / self._scale, np.maximum(upper - at, 0.0) / self._scale
        return np.vstack([np.tile([-np.inf, np.inf], (level, 1)), np.column_stack([low, high])])

    def _place(self, vector: Array) -> Array:
        """(b, free label terms, shape / (1 + shape), share) at these coordinates."""
        level, shape = 1 + self.n_slopes, self.shape_place
        place: Array = self.place + self._axes @ vector
        if self.n_labels:
            place[level:shape] = np.clip(place[level:shape], -LABEL_MAX, LABEL_MAX)
        place[shape] = 0.0 if place[shape] < 1e-15 else place[shape]  # at the bound, up to rounding
        place[shape + 1] = max(place[shape + 1], 0.0)
        return place

    def mechanism(self, vector: Array) -> Mechanism:
        """The mechanism at these coordinates."""
        return self.mechanism_at(self._place(vector))

    def with_shape(self, shape: float) -> Mechanism:
        """The reference with another shape but the same hazard and slope at the centre."""
        place = self.place.copy()
        place[self.shape_place] = shape / (1.0 + shape)
        return self.mechanism_at(place)

    def mechanism_at(self, place: Array) -> Mechanism:
        """The mechanism at ``place = (b, free label terms, shape / (1 + shape), share)``."""
        b_0, *b, rho, share = place
        b, labels = b[: self.n_slopes], b[self.n_slopes :]
        shape = float(rho / (1.0 - rho)) if self.reference.free_shape else self.reference.shape
        n = exp(min(max(b_0, -690.0), 690.0))
        slopes = np.array(b) * stretch(shape * n)[0]
        alpha = (float(eta_at(n, shape) - slopes @ self.centre), *slopes.tolist())
        moved = replace(self.reference, alpha=alpha, shape=shape, share=float(share))
        return replace(moved, label=(0.0, *map(float, labels))) if labels else moved

    def jacobian_at(self, place: Array) -> Array:
        """d(alpha, free label terms, shape, share) / d(place)."""
        k, last = self.n_slopes, self.shape_place
        b_0, b, rho = place[0], place[1 : 1 + k], place[last]
        shape = rho / (1.0 - rho)
        n = exp(min(max(b_0, -690.0), 690.0))
        ratio, growth = stretch(shape * n)
        eta_by_shape = 0.5 * n if shape * n < 1e-4 else (ratio - 1.0) / shape  # d eta / d shape at fixed hazard
        jacobian = np.eye(last + 2)
        jacobian[1 : 1 + k, 0] = b * growth * shape * n
        jacobian[1 : 1 + k, 1 : 1 + k] = ratio * np.eye(k)
        jacobian[1 : 1 + k, last] = b * growth * n
        jacobian[0] = -self.centre @ jacobian[1 : 1 + k]
        jacobian[0, 0] += ratio
        jacobian[0, last] += eta_by_shape
        jacobian[: 1 + k, last] *= (1.0 + shape) ** 2
        jacobian[last, last] = (1.0 + shape) ** 2
        return jacobian

    def gradient(self, vector: Array, alpha: Array, shape: float, share: float) -> Array:
        """Gradient in the coordinates from the score in alpha (and free label terms), shape and share."""
        gradient: Array = np.array([*alpha, shape, share]) @ self.jacobian_at(self._place(vector)) @ self._axes
        return gradient


def maximise(
    mechanism: Mechanism,
    chart_of: Callable[[Mechanism], MechanismChart],
    evaluate: Callable[[Mechanism], tuple[float, Array, float, float]],
    total: float,
) -> tuple[Mechanism, float]:
    """The nearest maximum of L_miss and its value, by L-BFGS-B in charts that are renewed until convergence.

    `evaluate` returns L_miss and its score in alpha (and free label terms), shape and share; `total` is the weight of all rows.
    """
    reached = evaluate(mechanism)[0]
    for _ in range(10):
        chart = chart_of(mechanism)

        def negative(vector: Array, chart: MechanismChart = chart, base: float = reached) -> tuple[float, Array]:
            loglik, *score = evaluate(chart.mechanism(vector))
            gradient = -chart.gradient(vector, *score) / total  # type: ignore[arg-type]
            if not (np.isfinite(loglik) and np.isfinite(gradient).all()):
                return 1e10, np.zeros_like(gradient)
            return (base - loglik) / total, gradient

        result = minimize(
            negative, np.zeros(chart.size), jac=True, method="L-BFGS-B", bounds=chart.bounds,
            options={"ftol": 1e-12, "gtol": 1e-8, "maxiter": 100},
        )  # fmt: skip
        if result.fun >= 0.0:
            break
        mechanism, reached = chart.mechanism(result.x), reached - result.fun * total
        if result.fun > -1e-10:
            break
    return mechanism, reached
