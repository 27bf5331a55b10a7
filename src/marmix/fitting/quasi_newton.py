"""Maximise over all parameters at once by L-BFGS-B.

With many rows the solver starts on a small sample, goes on to larger samples and finishes on all rows. The maximum of a sample is
near that of all rows, and the curvature there is passed on as a *metric*, the inverse Hessian of the objective per row in
the coordinates of the charts. In coordinates in which the metric is the identity, a step on all rows is almost a Newton step.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from marmix.core.arrays import Array, Bools
from marmix.core.likelihood import Sums
from marmix.core.mechanism import Mechanism
from marmix.fitting.objective import Objective
from marmix.fitting.solvers import Fit, better_shape, mechanism_chart, per_row

# Rows of the first sample, in all and per parameter.
_FEW_ROWS, _FEW_ROWS_PER_PARAMETER = 3000, 20
# Growth of the samples, and the size of the largest as a share of all rows and in rows.
_GROWTH, _LARGEST_SHARE, _MOST_ROWS = 8, 0.25, 2**18
# Tolerance on the first sample. Later samples use that of all rows: their passes are cheap, and nearly flat directions converge
# late.
_FIRST_TOL = 1e-6
# Most iterations on a sample; one that needs more has too rough an objective.
_SAMPLE_ITERATIONS = 40
# Corrections stored by L-BFGS: about as many as there are iterations, since passes cost more than corrections.
_MEMORY = 30
# A gradient below this times the root of tol, in coordinates of unit information, is worth less than tol.
_GRADIENT = 0.01
# A fit that took more iterations than this, and than it has coordinates, has nearly flat directions, which it may not have
# followed to the end: it goes on with the measured metric, and this factor of the tolerance.
_MANY_ITERATIONS, _STRICTER = 40, 1e-4
# Iterations of L-BFGS between renewals of the coordinates, and restarts before failure is reported.
_ROUND_ITERATIONS, _ROUNDS = 100, 10
# How far the coordinate of a residual variance may move before the coordinates, whose scale it changes, are renewed; iterations
# of L-BFGS before that is checked.
_FAR, _LEARNING = 1.0, 5
# Most parameters for which a metric, which is a matrix, is stored.
_METRIC_SIZE = 2000
# The step of differences that measure the metric, which crosses kinks of the margin; its least and largest curvature.
_STEP, _FLATTEST, _STEEPEST = 5e-2, 1e-4, 1e6


def lbfgs(objective: Objective, theta: Any, mechanism: Mechanism | None, *, max_iter: int, tol: float) -> Fit:
    """Maximise over all parameters from `theta` and `mechanism`, until the remaining increase is below `tol` per row.

    At the maximum, of the largest sample if there are samples, very different shapes of the link are tried once.
    """
    size = objective.model.chart(theta).size
    n, free_shape = objective.engine.n_rows, mechanism is not None and mechanism.free_shape
    stages = _stages(n, size) or ([n] if free_shape else [])
    metric, reach, sampled = None, 1.0, objective.thinned(stages[-1]) if stages and stages[-1] < n else objective
    for rows in stages:
        sample = sampled if rows == stages[-1] else sampled.thinned(rows)
        first, last = rows == stages[0], rows == stages[-1]
        # the shape is not identified far from the maximum or in few rows, and would run to a limit
        fixed = free_shape and first and (not last or rows == n)
        start = replace(mechanism, free_shape=False) if fixed else mechanism  # type: ignore[type-var]
        sample_tol, most = (max(tol, _FIRST_TOL), max_iter) if first else (tol, min(max_iter, _SAMPLE_ITERATIONS))
        fit, last_round = _ascend(sample, _at(sample, theta, start), metric, reach, most, sample_tol, last)
        theta, reach = fit.theta, float(np.sqrt(size / rows))  # error of estimates from so many rows
        mechanism = replace(fit.mechanism, free_shape=True) if fixed else fit.mechanism  # type: ignore[type-var]
        metric = None if fixed else last_round.metric()  # which knows nothing about a fixed shape
    try_shapes = not stages or stages[-1] == n
    return _ascend(objective, _at(objective, theta, mechanism), metric, reach, max_iter, tol, try_shapes)[0]


def _stages(n: int, size: int) -> list[int]:
    """Sizes of the samples before a fit to n rows; none if n is small."""
    few = max(_FEW_ROWS, _FEW_ROWS_PER_PARAMETER * size)
    if n < 4 * few:
        return []
    stages, most = [few], int(min(_LARGEST_SHARE * n, _MOST_ROWS))
    while stages[-1] * _GROWTH <= most:
        stages.append(stages[-1] * _GROWTH)
    return [*stages, most] if most >= 4 * stages[-1] else stages


class _Metric(NamedTuple):
    """Inverse Hessian of minus the objective per row, in the charts' coordinates."""

    inverse: Array
    complete: bool  # whether it was measured in all directions, instead of by BFGS updates


def _metric_at(objective: Objective, theta: Any, mechanism: Mechanism | None) -> _Metric | None:
    """The metric at a maximum, by differences of its gradient; None if they are not finite."""
    charts = _Charts(objective, _at(objective, theta, mechanism))
    ends = np.clip([[-_STEP], [_STEP]], charts.low, charts.high)  # of the steps
    rows = []
    for i, (low, high) in enumerate(ends.T):
        below, above = np.zeros((2, charts.size))
        below[i], above[i] = low, high
        slopes = charts.gradient(below, charts.point(below)) - charts.gradient(above, charts.point(above))
        rows.append(slopes / (high - low))
    hessian = np.array(rows) / objective.engine.total_weight
    if not np.isfinite(hessian).all():
        return None
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return _Metric((vectors / np.clip(values, _FLATTEST, _STEEPEST)) @ vectors.T, True)


class _Point(NamedTuple):
    """Parameters, and the sums over rows at these parameters."""

    theta: Any
    mechanism: Mechanism | None
    sums: Sums


def _at(objective: Objective, theta: Any, mechanism: Mechanism | None) -> _Point:
    return _Point(theta, mechanism, objective.sums(theta, mechanism))


def _ascend(
    objective: Objective,
    point: _Point,
    metric: _Metric | None,
    reach: float,
    max_iter: int,
    tol: float,
    try_shapes: bool,
) -> tuple[Fit, "_Round"]:
    """Maximise in charts that are renewed until convergence; return the fit and the last round, which has a metric."""
    total, staged = objective.engine.total_weight, metric is not None
    reached = objective.value(point.theta, point.sums)
    trace = [reached]
    converged, reason, iterations, rounds = False, "the surface is too rough for the method to settle", 0, 0
    measured = staged
    while rounds < _ROUNDS + max_iter // _ROUND_ITERATIONS:
        strictly = measured and not staged
        current = _Round(objective, point, metric, reach, _STRICTER * tol if strictly else tol, trace)
        result = current.run(min(max_iter - iterations, _ROUND_ITERATIONS))
        point = current.point
        value = objective.value(point.theta, point.sums)
        gain, reached, iterations = (value - reached) / total, value, iterations + result.nit
        at_maximum, rounds = current.at_maximum(), rounds + (not current.far)
        if at_maximum or (gain < tol and not current.far):
            # if the gradient is not small, only a regular stop of the method counts as convergence; going on more strictly, to
            # the limit of rounding, does not undo it
            converged = at_maximum or bool(result.success) or (strictly and converged)
            reason = str(result.message).lower()
            many = iterations > max(_MANY_ITERATIONS, current.charts.size)
            if many and not measured and iterations < max_iter and current.charts.size <= _METRIC_SIZE:
                metric, measured = _metric_at(objective, point.theta, point.mechanism), True
                if metric is not None:
                    continue
            if not try_shapes or point.mechanism is None or not point.mechanism.free_shape:
                break
            try_shapes = False
            better = better_shape(objective, point.theta, point.mechanism, reached + tol * total)
            if better is None:
                break
            point = _Point(point.theta, *better)
            reached, converged, gain = objective.value(point.theta, point.sums), False, 0.0
        if iterations >= max_iter:
            reason = f"max_iter={max_iter} iterations were used up"
            break
        # a small gain may also be due to a poor metric: restart without one
        metric = current.metric() if staged and gain >= tol else None
    return Fit(point.theta, point.mechanism, reached, trace, converged, reason, point.sums), current


class _Charts:
    """Coordinates of all parameters around a point."""

    def __init__(self, objective: Objective, point: _Point):
        self.objective = objective
        self.classes = objective.model.chart(point.theta)
        self.mechanism = None if point.mechanism is None else mechanism_chart(objective, point.theta, point.mechanism)
        bounds = np.column_stack([self.classes.lower, self.classes.upper])
        if self.mechanism is not None:
            bounds = np.vstack([bounds, self.mechanism.bounds])
        self.low, self.high = np.ascontiguousarray(bounds.T)
        self.size = len(bounds)

    def point(self, vector: Array) -> _Point:
        """Parameters and sums at these coordinates, by a pass over the rows."""
        theta = self.classes.theta(vector[: self.classes.size])
        mechanism = None if self.mechanism is None else self.mechanism.mechanism(vector[self.classes.size :])
        return _Point(theta, mechanism, self.objective.sums(theta, mechanism))

    def gradient(self, vector: Array, point: _Point) -> Array:
        """Gradient of the objective in the coordinates."""
        size, sums = self.classes.size, point.sums
        gradient: Array = self.classes.gradient(vector[:size], point.theta, sums.moments)
        if self.mechanism is None:
            return gradient
        by_mechanism = self.mechanism.gradient(vector[size:], sums.alpha, sums.shape, sums.share)
        return np.concatenate([gradient, by_mechanism])


class _Round:
    """One run of L-BFGS-B in charts around a point.

    The charts' coordinates are ``v = F y``, and in y the metric is the identity; coordinates near a bound are only scaled.
    Without a metric F is the identity, stored as None to save products. The first step of L-BFGS-B has length one, so that it
    works on ``w = y / unit`` with the wanted length as unit.
    """

    def __init__(
        self,
        objective: Objective,
        point: _Point,
        metric: _Metric | None,
        reach: float,
        tol: float,
        trace: list[float],
    ):
        self.point, self.tol, self.trace = point, tol, trace
        self._total = objective.engine.total_weight
        self._base = objective.value(point.theta, point.sums)
        self.charts = _Charts(objective, point)
        size, low, high = self.charts.size, self.charts.low, self.charts.high
        self._factor: Array | None = None
        self._unit, self._complete, self._bounds = reach, False, np.array([low, high])
        slope = -self.charts.gradient(np.zeros(size), point) / self._total
        near = np.minimum(-low, high) < 3.0 * reach
        factor = None if metric is None else _factor(metric.inverse, near)
        if metric is not None and factor is not None:
            self._boxed, self._factor, self._complete = near, factor, metric.complete
            slope = factor.T @ slope
            self._unit = float(np.clip(np.linalg.norm(slope[~near]), 1e-8, 1.0))
            scale = np.diag(factor)
            self._bounds = np.where(near, [low / scale, high / scale], [[-np.inf], [np.inf]])
        self._start, self.far = slope, False
        self._pivots = np.flatnonzero(np.isfinite(high[: self.charts.classes.size]))
        self._first = len(trace)
        self._best = 0.0, np.zeros(size), slope, point  # decrease, y, gradient, point

    def _vector(self, y: Array) -> Array | None:
        """The charts' coordinates at y; None if they are outside the bounds."""
        low, high = self.charts.low, self.charts.high
        if self._factor is None:
            return np.minimum(np.maximum(y, low), high)
        vector = self._factor @ y
        vector[self._boxed] = np.clip(vector[self._boxed], low[self._boxed], high[self._boxed])
        return None if (vector < low).any() or (vector > high).any() else vector

    def _decrease(self, y: Array) -> tuple[float, Array]:
        """Decrease of the objective per row, which is minimised, and its gradient."""
        if not y.any():  # the start, where both are known
            return 0.0, self._start
        vector = self._vector(y)
        if vector is None:
            return 1e10, np.zeros_like(y)
        point = self.charts.point(vector)
        decrease = self._base - self.charts.objective.value(point.theta, point.sums)
        value, slope = per_row(decrease, self.charts.gradient(vector, point), self._total)
        slope = slope if self._factor is None else self._factor.T @ slope
        if value < self._best[0]:
            self._best = value, y.copy(), slope, point
        return value, slope

    def at_maximum(self) -> bool:
        """Whether the remaining increase, estimated from the gradient at the best point, is below tol."""
        _, y, slope, _ = self._best
        step = np.clip(y - slope, *self._bounds) - y
        if self._complete:
            return bool(0.5 * float(step @ step) < 0.1 * self.tol)
        return bool(np.abs(step).max() <= 30 * _GRADIENT * np.sqrt(self.tol))

    def _after_iteration(self, intermediate_result: OptimizeResult) -> None:
        decrease = intermediate_result.fun * self._unit**2
        self.trace.append(self._base - decrease * self._total)
        if self._complete and self.at_maximum():
            raise StopIteration
        if self._factor is None and len(self._pivots) and len(self.trace) - self._first >= _LEARNING:
            self.far = bool(self._unit * np.abs(intermediate_result.x[self._pivots]).max() > _FAR)
            if self.far:
                raise StopIteration

    def run(self, max_iter: int) -> OptimizeResult:
        """Run the solver and set `point` to the best point."""
        unit, tol = self._unit, self.tol

        def scaled(w: Array) -> tuple[float, Array]:
            value, slope = self._decrease(unit * w)
            return value / unit**2, slope / unit

        result = minimize(
            scaled, np.zeros(self.charts.size), jac=True, method="L-BFGS-B", bounds=(self._bounds / unit).T,
            callback=self._after_iteration,
            options={"maxcor": _MEMORY, "ftol": 0.1 * tol / unit**2, "gtol": _GRADIENT * np.sqrt(tol) / unit,
                     "maxiter": max_iter, "maxfun": 20 * max_iter, "maxls": 40},
        )  # fmt: skip
        self._steps = unit * result.hess_inv.sk, unit * result.hess_inv.yk
        self.point = self._best[3]
        return result

    def metric(self) -> _Metric | None:
        """The metric after the BFGS updates of this run."""
        if self.charts.size > _METRIC_SIZE:
            return None
        inverse = np.eye(self.charts.size)
        for s, change in zip(*self._steps, strict=True):
            curvature = float(s @ change)
            if curvature <= 0.0:
                continue
            by = inverse @ change / curvature
            inverse += np.outer(s, s) * ((1.0 + change @ by) / curvature) - np.outer(s, by) - np.outer(by, s)
        if self._factor is not None:
            inverse = self._factor @ inverse @ self._factor.T
        return _Metric(inverse, self._complete) if np.isfinite(inverse).all() else None


def _factor(metric: Array, boxed: Bools) -> Array | None:
    """F with ``F F'`` the metric of the free coordinates given the boxed ones, and of each boxed one alone.

    None if the metric is not positive definite, by rounding.
    """
    free = ~boxed
    out = np.diag(np.sqrt(np.diag(metric)))
    across = metric[np.ix_(free, boxed)]
    try:
        conditional = metric[np.ix_(free, free)] - across @ np.linalg.solve(metric[np.ix_(boxed, boxed)], across.T)
        out[np.ix_(free, free)] = np.linalg.cholesky(conditional)
    except np.linalg.LinAlgError:
        return None
    return out if np.isfinite(out).all() else None
