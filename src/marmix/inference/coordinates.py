"""All parameters as one vector of free coordinates around a fit, and the user's parameters as a function of it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from marmix.charts import SHAPE_MAX, SHARE_MAX, MechanismChart
from marmix.engines import NumpyEngine
from marmix.likelihood import Sums
from marmix.missingness import Mechanism

Array = NDArray[np.float64]

_CHART_ROWS = 4096  # rows that suffice to scale the mechanism's coordinates
# Steps of fourth-order differences, exact to rounding: of theta's coordinates, and of the mechanism's, whose curvature is strong
# where the shape is large.
_STEP, _STEP_OF_MECHANISM = 1e-3, 2e-6


class Coordinates:
    """Coordinates of the score model and of the mechanism, one after the other; zero is the fit.

    Directions that change nothing (a common factor of the weights, a vector added to all coefficients) are left out.

    Parameters
    ----------
    engine : NumpyEngine
    theta, mechanism
        The fit.
    hold : bool
        Whether what the fit left at a limit stays there: a shape of 0 or infinity, a share of 0, a variance at its floor. `held`
        names them.
    hold_shape : bool
        Whether the shape stays where it is.
    """

    def __init__(
        self,
        engine: NumpyEngine,
        theta: Any,
        mechanism: Mechanism | None,
        hold: bool = True,
        hold_shape: bool = False,
    ):
        self.engine, self.theta, self.mechanism = engine, theta, mechanism
        self.chart = engine.model.chart(theta)
        self.about: MechanismChart | None = None
        if mechanism is not None:
            sample = engine.sample(theta, mechanism, _CHART_ROWS)
            self.about = MechanismChart(mechanism, sample.drivers, sample.weight)
        self.held: list[str] = []
        upper = self.chart.upper
        directions = self.chart.directions
        own = np.eye(0 if self.about is None else self.about.size)
        if hold:
            limited = self.chart.limited(upper < 1e-6)
            if limited.any():
                self.held.append("a variance at the limit set by reg_covar")
                directions = directions[:, ~np.any(directions[limited] != 0.0, axis=0)]
            own = own[:, ~self._limited_mechanism(hold_shape)]
        self.basis: Array = block_diag(directions, own)
        self.n_theta = directions.shape[1]
        self.size = self.basis.shape[1]

    def _limited_mechanism(self, hold_shape: bool) -> NDArray[np.bool_]:
        """Which coordinates of the mechanism are at a limit, or held for another reason."""
        known = self.mechanism
        if known is None or self.about is None:
            return np.zeros(0, dtype=bool)
        limited = [False] * (1 + self.about.n_slopes)
        if known.free_shape:
            at_limit = known.shape < 1e-6 or known.shape > 0.999 * SHAPE_MAX
            limited.append(at_limit or hold_shape)
            if at_limit:
                self.held.append("shape at 0" if known.shape < 1.0 else "shape at infinity")
            elif hold_shape:
                self.held.append(f"shape at {known.shape:.3g}, which these data do not determine")
        if known.free_share:
            limited.append(known.share < 1e-8 or known.share > 0.999 * SHARE_MAX)
            if limited[-1]:
                self.held.append("share at 0" if known.share < 0.5 else "share at 1")
        return np.array(limited)

    def error_of_shape(self, covariance: Array, blind: Array) -> float:
        """Standard error of shape / (1 + shape) under a covariance of the coordinates; 0 where the shape is not free.

        It is infinite where the shape takes part in a direction that the data say nothing of.
        """
        if self.about is None or self.mechanism is None or not self.mechanism.free_shape:
            return 0.0
        row = self.basis[self.chart.size + 1 + self.about.n_slopes]
        if (np.abs(row @ blind) > 1e-4).any():
            return np.inf
        return float(self.about.scale_of_shape * np.sqrt(max(row @ covariance @ row, 0.0)))

    def _parts(self, vector: Array) -> tuple[Array, Array]:
        full = self.basis @ vector
        return full[: self.chart.size], full[self.chart.size :]

    def at(self, vector: Array) -> tuple[Any, Mechanism | None]:
        """The parameters at these coordinates."""
        part, rest = self._parts(vector)
        return self.chart.theta(part), None if self.about is None else self.about.mechanism(rest)

    @property
    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Bounds of the coordinates, for scipy: those of a free shape and a free share."""
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * self.size
        if self.about is not None:
            for i, row in enumerate(self.basis[self.chart.size :]):
                where = np.flatnonzero(row)
                if len(where):
                    bounds[where[0]] = self.about.bounds[i]
        return bounds

    def value_and_gradient(self, vector: Array) -> tuple[float, Array]:
        """The objective and its gradient at these coordinates: one pass."""
        theta, mechanism = self.at(vector)
        sums = self.engine.sums(theta, mechanism)
        return self.engine.objective(theta, sums), self.gradient(vector, theta, sums)

    def gradient(self, vector: Array, theta: Any, sums: Sums) -> Array:
        """Gradient of the objective from the sums of a pass."""
        part, rest = self._parts(vector)
        full = self.chart.gradient(part, theta, sums.moments)
        if self.about is not None:
            full = np.concatenate([full, self.about.gradient(rest, sums.alpha, sums.shape, sums.share)])
        return self.basis.T @ full

    def pulled(self, vector: Array, gradient: Array) -> Array:
        """A gradient in (W, kappa), see `curvature`, as one in the coordinates."""
        part, rest = self._parts(vector)
        size = 0 if self.about is None else self.about.n_slopes + 3
        by_component = gradient[: len(gradient) - size].reshape(len(self.engine.model.owner), -1)
        full = self.chart.gradient(part, self.chart.theta(part), self.engine.model.pooled(by_component))
        if self.about is not None:
            kappa = gradient[len(gradient) - size :]
            full = np.concatenate([full, self.about.gradient(rest, kappa[:-2], float(kappa[-2]), float(kappa[-1]))])
        return self.basis.T @ full

    def pull(self, length: int) -> Array:
        """The Jacobian (P, length) with which gradients in (W, kappa) become gradients in the coordinates, at the fit."""
        origin, zero = np.zeros(self.size), np.zeros(length)
        at_zero = self.pulled(origin, zero)  # of the penalty
        return np.column_stack([self.pulled(origin, unit) - at_zero for unit in np.eye(length)])

    def bend(self, gradient: Array) -> Array:
        """Derivatives of `pulled` in the coordinates for a fixed gradient: what the curved coordinates (and the penalty) add."""
        return self.jacobian(lambda vector: self.pulled(vector, gradient))

    def jacobian(self, function: Callable[[Array], Array]) -> Array:
        """Derivatives (m, P) of a function of the coordinates at the fit, by fourth-order central differences."""
        columns = []
        for unit, step in zip(np.eye(self.size), self._steps, strict=True):
            near = function(step * unit) - function(-step * unit)
            far = function(2.0 * step * unit) - function(-2.0 * step * unit)
            columns.append((8.0 * near - far) / (12.0 * step))
        return np.column_stack(columns)

    @cached_property
    def _steps(self) -> Array:
        """Steps of differences, which stay within the bounds."""
        room = [min([-a for a in (low,) if a is not None] + [b for b in (high,) if b is not None] + [np.inf])
                for low, high in self.bounds]  # fmt: skip
        steps = np.where(np.arange(self.size) < self.n_theta, _STEP, _STEP_OF_MECHANISM)
        return np.minimum(steps, np.maximum(0.25 * np.array(room), 1e-9))
