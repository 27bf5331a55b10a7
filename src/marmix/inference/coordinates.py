"""All parameters of a fit as one vector of free coordinates around it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from marmix.core.arrays import Array, Bools
from marmix.core.charts import LABEL_MAX, SHAPE_MAX, SHARE_MAX, MechanismChart
from marmix.core.likelihood import Sums
from marmix.core.mechanism import Mechanism
from marmix.fitting import Objective

_CHART_ROWS = 4096  # enough rows to scale the mechanism's coordinates
# Steps of central differences, exact to about nine digits: for theta's coordinates, which have unit information, and for the
# mechanism's, whose curvature is strong if the shape is large.
_STEP, _STEP_OF_MECHANISM = 3e-5, 2e-6


class Coordinates:
    """Coordinates of the score model followed by those of the mechanism; zero is the fit.

    Directions that change nothing (a common factor of the weights, a vector added to all coefficients) are left out.
    Parameters at a limit are held: a shape of 0 or infinity, a share of 0, a variance at its floor, infinite degrees of
    freedom; `held` names them.
    `hold_shape` holds the shape at its estimate.
    """

    def __init__(self, objective: Objective, theta: Any, mechanism: Mechanism | None, hold_shape: bool = False):
        self.objective, self.theta, self.mechanism = objective, theta, mechanism
        self.chart = objective.model.chart(theta)
        self.mechanism_chart: MechanismChart | None = None
        if mechanism is not None:
            sample = objective.driver_sample(theta, mechanism, _CHART_ROWS)
            self.mechanism_chart = MechanismChart(mechanism, sample.drivers, sample.weight)
        self.held: list[str] = []
        self.shape_held = False
        directions = self.chart.directions
        lower, at_top = self.chart.lower, self.chart.upper < 1e-6
        at_bottom, tails = lower > -_STEP, np.isfinite(lower)  # only tails of t distributions have lower limits
        limited = self.chart.limited(at_top | at_bottom)
        if limited.any():
            limits = {
                "a variance at the limit set by reg_covar": limited & ~tails,
                "infinite degrees of freedom": at_bottom,
                "degrees of freedom at 1": at_top & tails,
            }
            self.held += [words for words, where in limits.items() if where.any()]
            directions = directions[:, ~np.any(directions[limited] != 0.0, axis=0)]
        free = ~self._limited_mechanism(hold_shape)
        self.basis: Array = block_diag(directions, np.eye(len(free))[:, free])
        self.n_theta = directions.shape[1]
        self.size = self.basis.shape[1]

    def _limited_mechanism(self, hold_shape: bool) -> Bools:
        """Which coordinates of the mechanism are at a limit or held."""
        mechanism = self.mechanism
        if mechanism is None or self.mechanism_chart is None:
            return np.zeros(0, dtype=bool)
        limited = [False] * (1 + self.mechanism_chart.n_slopes)
        if mechanism.free_label:
            limited += [abs(delta) > 0.999 * LABEL_MAX for delta in mechanism.label[1:]]
            if any(limited):
                self.held.append("a label term at its limit")
        if mechanism.free_shape:
            at_limit = mechanism.shape < 1e-6 or mechanism.shape > 0.999 * SHAPE_MAX
            limited.append(at_limit or hold_shape)
            self.shape_held = limited[-1]
            if at_limit:
                self.held.append("shape at 0" if mechanism.shape < 1.0 else "shape at infinity")
            elif hold_shape:
                self.held.append(f"shape at {mechanism.shape:.3g}, which these data do not determine")
        if mechanism.free_share:
            limited.append(mechanism.share < 1e-8 or mechanism.share > 0.999 * SHARE_MAX)
            if limited[-1]:
                self.held.append("share at 0" if mechanism.share < 0.5 else "share at 1")
        return np.array(limited)

    def error_of_shape(self, covariance: Array, blind: Array) -> float:
        """Standard error of shape / (1 + shape): 0 if the shape is not free, infinite if the data do not determine it."""
        if self.mechanism_chart is None or self.mechanism is None or not self.mechanism.free_shape:
            return 0.0
        row = self.basis[self.chart.size + 1 + self.mechanism_chart.n_slopes + self.mechanism_chart.n_labels]
        if (np.abs(row @ blind) > 1e-4).any():
            return np.inf
        return float(self.mechanism_chart.scale_of_shape * np.sqrt(max(row @ covariance @ row, 0.0)))

    def _parts(self, vector: Array) -> tuple[Array, Array]:
        full = self.basis @ vector
        return full[: self.chart.size], full[self.chart.size :]

    def at(self, vector: Array) -> tuple[Any, Mechanism | None]:
        """The parameters at these coordinates."""
        part, rest = self._parts(vector)
        return self.chart.theta(part), None if self.mechanism_chart is None else self.mechanism_chart.mechanism(rest)

    @property
    def bounds(self) -> Array:
        """Bounds (size, 2) of the coordinates: of degrees of freedom, free label terms, a free shape and a free share."""
        bounds = np.tile([-np.inf, np.inf], (self.size, 1))
        lower, upper = self.chart.lower, self.chart.upper
        for tail in np.flatnonzero(np.isfinite(lower)):
            for column in np.flatnonzero(self.basis[tail]):
                bounds[column] = lower[tail], upper[tail]
        if self.mechanism_chart is not None:
            for i, row in enumerate(self.basis[self.chart.size :]):
                columns = np.flatnonzero(row)
                if len(columns):
                    bounds[columns[0]] = self.mechanism_chart.bounds[i]
        return bounds

    def gradient(self, vector: Array, theta: Any, sums: Sums) -> Array:
        """Gradient of the objective from the sums of a pass."""
        part, rest = self._parts(vector)
        full = self.chart.gradient(part, theta, sums.moments)
        if self.mechanism_chart is not None:
            full = np.concatenate([full, self.mechanism_chart.gradient(rest, sums.alpha, sums.shape, sums.share)])
        return self.basis.T @ full

    @property
    def _size_of_kappa(self) -> int:
        return 0 if self.mechanism_chart is None else self.mechanism_chart.n_slopes + self.mechanism_chart.n_labels + 3

    def _by_theta(self, part: Array, gradient: Array) -> Array:
        """The gradient in the chart's coordinates, from one in W."""
        model = self.objective.model
        moments = model.pooled(gradient.reshape(len(model.owner), -1))
        return self.chart.gradient(part, self.chart.theta(part), moments)

    def _by_mechanism(self, rest: Array, kappa: Array) -> Array:
        """The gradient in the mechanism chart's coordinates, from one in kappa."""
        if self.mechanism_chart is None:
            return np.empty(0)
        return self.mechanism_chart.gradient(rest, kappa[:-2], float(kappa[-2]), float(kappa[-1]))

    def pull(self, length: int) -> Array:
        """The Jacobian (P, length) that maps gradients in (W, kappa) to gradients in the coordinates, at the fit."""
        origin, kappa = (
            np.zeros(self.chart.size),
            np.zeros(0 if self.mechanism_chart is None else self.mechanism_chart.size),
        )
        by_penalty = self._by_theta(origin, np.zeros(length - self._size_of_kappa))
        theta = [self._by_theta(origin, unit) - by_penalty for unit in np.eye(length - self._size_of_kappa)]
        mechanism = [self._by_mechanism(kappa, unit) for unit in np.eye(self._size_of_kappa)]
        blocks = [np.column_stack(theta)] + ([np.column_stack(mechanism)] if mechanism else [])
        return self.basis.T @ block_diag(*blocks)

    def bend(self, gradient: Array) -> Array:
        """What the curvature of the coordinates (and the penalty) adds to the Hessian, for a fixed gradient in (W, kappa).

        Block-diagonal, as the charts of theta and of the mechanism do not depend on each other.
        """
        cut, size, n = len(gradient) - self._size_of_kappa, self.chart.size, self.n_theta
        first, rest = self.basis[:size, :n], self.basis[size:, n:]
        theta = _differences(lambda v: first.T @ self._by_theta(first @ v, gradient[:cut]), self._steps[:n], n)
        mechanism = _differences(lambda v: rest.T @ self._by_mechanism(rest @ v, gradient[cut:]), self._steps[n:], 0)
        return block_diag(theta, mechanism)

    def jacobian(self, function: Callable[[Array], Array]) -> Array:
        """Derivatives (m, P) of a function of the coordinates at the fit."""
        return _differences(function, self._steps, self.n_theta)

    @cached_property
    def _steps(self) -> Array:
        """Steps of differences that stay within the bounds."""
        low, high = self.bounds.T
        steps = np.where(np.arange(self.size) < self.n_theta, _STEP, _STEP_OF_MECHANISM)
        return np.minimum(steps, np.maximum(0.25 * np.minimum(-low, high), 1e-9))


def _differences(function: Callable[[Array], Array], steps: Array, plain: int) -> Array:
    """Derivatives (m, P) at the origin by central differences, of fourth order after the first `plain` coordinates."""
    columns = []
    for i, (unit, h) in enumerate(zip(np.eye(len(steps)), steps, strict=True)):
        column = (function(h * unit) - function(-h * unit)) / (2.0 * h)
        if i >= plain:
            far = (function(2.0 * h * unit) - function(-2.0 * h * unit)) / (4.0 * h)
            column = (4.0 * column - far) / 3.0
        columns.append(column)
    return np.column_stack(columns) if columns else np.empty((0, 0))
