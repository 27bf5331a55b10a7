"""All parameters at once, by a limited-memory quasi-Newton method with bounds.

With many rows the climb begins on a few of them, goes on with more, and only ends on all. The maximum of a sample is near that
of all rows, and what is known of the curvature there comes along as a *metric*, the inverse Hessian of the objective per row in
the coordinates of the charts. In coordinates in which that is the identity a full pass is almost a Newton step.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from marmix.arrays import Array
from marmix.fitting.objective import Objective
from marmix.fitting.solvers import Fit, Report, better_shape, mechanism_chart, per_row, unheard
from marmix.likelihood import Sums
from marmix.mechanism import Mechanism

# Rows on which a climb over many rows begins; at least so many a parameter.
_FEW_ROWS, _FEW_ROWS_PER_PARAMETER = 2000, 20
# By how much samples grow, the largest of them as a share of all rows, and whatever their number.
_GROWTH, _LARGEST_SHARE, _MOST_ROWS = 8, 0.25, 2**18
# How closely the maximum of the first sample is found; those of later ones as closely as that of all rows, for passes over them
# are cheap, and a nearly flat direction shows itself late.
_FIRST_TOL = 1e-6
# Iterations on a sample after which its surface is taken to be too rough for more.
_SAMPLE_ITERATIONS = 40
# Corrections kept by L-BFGS: about as many as there are iterations, since passes cost more than corrections do.
_MEMORY = 30
# A gradient this small, in coordinates of unit information, is worth less than tol (its square over twice the curvature).
_GRADIENT = 0.01
# Iterations of L-BFGS before its coordinates are renewed, and fresh starts before its failure to settle is reported.
_ROUND_ITERATIONS, _ROUNDS = 100, 10
# How far the coordinate of a residual variance may move before the coordinates are renewed, since their scale changes with it;
# iterations of L-BFGS before that, which it needs to learn the surface.
_FAR, _LEARNING = 1.0, 5
# Parameters up to which a metric is kept; it is a matrix.
_METRIC_SIZE = 2000
# What measuring it may cost, in full passes; the step of its differences, about the error of estimates from so few rows, so that
# kinks of the margin are met; the least and the largest curvature it may have, so that rounding leaves it a factor.
_HESSIAN_SHARE, _STEP, _FLATTEST, _STEEPEST = 0.7, 5e-2, 1e-4, 1e6


def lbfgs(
    objective: Objective,
    theta: Any,
    mechanism: Mechanism | None,
    *,
    max_iter: int,
    tol: float,
    report: Report,
) -> Fit:
    """Maximise over all parameters at once, from `theta` and `mechanism`; stops when the rise still to come is below `tol` a row.

    At the top quite other shapes are tried, once; on the largest sample where there are samples.
    """
    size = objective.model.chart(theta).size
    stages = _stages(objective.engine.n_rows, size)
    metric, reach, sampled = None, 1.0, objective.thinned(stages[-1]) if stages else objective
    for rows in stages:
        few = sampled if rows == stages[-1] else sampled.thinned(rows)
        first, last = rows == stages[0], rows == stages[-1]
        # so few rows do not tell the shape, and it would run to a limit
        held = first and not last and mechanism is not None and mechanism.free_shape
        begin = replace(mechanism, free_shape=False) if held else mechanism  # type: ignore[type-var]
        enough, most = (max(tol, _FIRST_TOL), max_iter) if first else (tol, min(max_iter, _SAMPLE_ITERATIONS))
        fit, turn = _ascend(few, theta, begin, metric, reach, most, enough, unheard, last)
        theta, reach = fit.theta, float(np.sqrt(size / rows))  # the error of estimates from so many rows
        mechanism = replace(fit.mechanism, free_shape=True) if held else fit.mechanism  # type: ignore[type-var]
        affordable = min(int(_HESSIAN_SHARE * objective.engine.n_rows / (2 * size)), stages[-1])
        if affordable >= stages[0] and (first or (rows == stages[1] and affordable >= 2 * stages[0])):
            metric = _metric_at(few if first else sampled.thinned(affordable), theta, mechanism)
        else:
            metric = None if held else turn.metric()  # what was learned with the shape held says nothing about it
    tol = max(tol, objective.engine.resolution)
    return _ascend(objective, theta, mechanism, metric, reach, max_iter, tol, report, not stages)[0]


def _stages(n: int, size: int) -> list[int]:
    """Numbers of rows on which a climb over n is prepared; none where they are few."""
    few = max(_FEW_ROWS, _FEW_ROWS_PER_PARAMETER * size)
    if n < 4 * few:
        return []
    stages, most = [few], int(min(_LARGEST_SHARE * n, _MOST_ROWS))
    while stages[-1] * _GROWTH <= most:
        stages.append(stages[-1] * _GROWTH)
    return [*stages, most] if most >= 2 * stages[-1] else stages


class _Metric(NamedTuple):
    """The inverse Hessian of minus the objective of a row, in the charts' coordinates.

    `whole` if it was measured in all directions, rather than learned on the way up.
    """

    inverse: Array
    whole: bool


def _metric_at(objective: Objective, theta: Any, mechanism: Mechanism | None) -> _Metric | None:
    """The metric at the top of a sample, by differences of its gradient; None where these are not finite."""
    charts = _Charts(objective, _Place(theta, mechanism, objective.sums(theta, mechanism)))
    ends = np.clip([[-_STEP], [_STEP]], charts.low, charts.high)  # of the step along each coordinate
    rows = []
    for i, (low, high) in enumerate(ends.T):
        below, above = np.zeros((2, charts.size))
        below[i], above[i] = low, high
        slopes = charts.gradient(below, charts.place(below)) - charts.gradient(above, charts.place(above))
        rows.append(slopes / (high - low))
    hessian = np.array(rows) / objective.engine.total_weight
    if not np.isfinite(hessian).all():
        return None
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return _Metric((vectors / np.clip(values, _FLATTEST, _STEEPEST)) @ vectors.T, True)


class _Place(NamedTuple):
    """Parameters, and the sums over rows at them."""

    theta: Any
    mechanism: Mechanism | None
    sums: Sums


def _ascend(
    objective: Objective,
    theta: Any,
    mechanism: Mechanism | None,
    metric: _Metric | None,
    reach: float,
    max_iter: int,
    tol: float,
    report: Report,
    look_around: bool,
) -> tuple[Fit, "_Round"]:
    """Climb in charts that are renewed until the top stays put; the last round, which knows the metric, comes with it."""
    total, staged = objective.engine.total_weight, metric is not None
    place = _Place(theta, mechanism, objective.sums(theta, mechanism))
    reached = objective.value(theta, place.sums)
    trace = [reached]
    converged, reason, iterations = False, "the surface is too rough for the method to settle", 0
    rounds = 0
    while rounds < _ROUNDS + max_iter // _ROUND_ITERATIONS:
        most = min(max_iter - iterations, _ROUND_ITERATIONS)
        turn = _Round(objective, place, metric, reach, tol, trace, report)
        found = turn.run(most)
        place = turn.place
        value = objective.value(place.theta, place.sums)
        gain, reached, iterations = (value - reached) / total, value, iterations + found.nit
        at_top, rounds = turn.at_top(), rounds + (not turn.far)
        if at_top or (gain < tol and not turn.far):
            # Where the gradient is not small, only a regular stop of the method counts as a maximum.
            converged, reason = at_top or bool(found.success), str(found.message).lower()
            if not look_around or place.mechanism is None or not place.mechanism.free_shape:
                break
            look_around = False
            other = better_shape(objective, place.theta, place.mechanism, reached + tol * total)
            if other is None:
                break
            place = _Place(place.theta, *other)
            reached, converged, gain = objective.value(place.theta, place.sums), False, 0.0
        if iterations >= max_iter:
            reason = f"max_iter={max_iter} iterations were used up"
            break
        # A small step may come from a poor model of the surface as well: the method starts afresh from here.
        metric = turn.metric() if staged and gain >= tol else None
    return Fit(place.theta, place.mechanism, reached, trace, converged, reason, place.sums), turn


class _Charts:
    """Coordinates of all parameters around a place."""

    def __init__(self, objective: Objective, place: _Place):
        self.objective = objective
        self.classes = objective.model.chart(place.theta)
        self.mechanism = None if place.mechanism is None else mechanism_chart(objective, place.theta, place.mechanism)
        bounds: list[tuple[float | None, float | None]] = [(None, limit) for limit in self.classes.upper]
        bounds += [] if self.mechanism is None else self.mechanism.bounds
        self.low = np.array([-np.inf if a is None else a for a, _ in bounds])
        self.high = np.array([np.inf if b is None else b for _, b in bounds])
        self.size = len(bounds)

    def place(self, vector: Array) -> _Place:
        """The parameters at these coordinates, and a pass over the rows."""
        theta = self.classes.theta(vector[: self.classes.size])
        mechanism = None if self.mechanism is None else self.mechanism.mechanism(vector[self.classes.size :])
        return _Place(theta, mechanism, self.objective.sums(theta, mechanism))

    def gradient(self, vector: Array, here: _Place) -> Array:
        """The gradient of the objective at these coordinates."""
        own, rest = vector[: self.classes.size], vector[self.classes.size :]
        gradient: Array = self.classes.gradient(own, here.theta, here.sums.moments)
        if self.mechanism is None:
            return gradient
        sums = here.sums
        return np.concatenate([gradient, self.mechanism.gradient(rest, sums.alpha, sums.shape, sums.share)])


class _Round:
    """One run of L-BFGS-B in charts around a place.

    The charts' coordinates are ``v = F y``, in which the metric is the identity; those near a bound stand each for itself.
    Without a metric F is None and stands for the identity, whose products would cost more than a pass over few rows. The
    method's first step has length one, so it is given ``y = unit w`` with the length of the step that is wanted.
    """

    def __init__(
        self,
        objective: Objective,
        place: _Place,
        metric: _Metric | None,
        reach: float,
        tol: float,
        trace: list[float],
        report: Report,
    ):
        self.place, self.tol, self.trace, self.report = place, tol, trace, report
        self._total = objective.engine.total_weight
        self._base = objective.value(place.theta, place.sums)
        self.charts = _Charts(objective, place)
        size, low, high = self.charts.size, self.charts.low, self.charts.high
        self._factor: Array | None = None
        self._unit, self._whole, self._bounds = reach, False, np.array([low, high])
        slope = -self.charts.gradient(np.zeros(size), place) / self._total
        near = np.minimum(-low, high) < 3.0 * reach
        factor = None if metric is None else _factor(metric.inverse, near)
        if metric is not None and factor is not None:
            self._boxed, self._factor, self._whole = near, factor, metric.whole
            slope = factor.T @ slope
            self._unit = float(np.clip(np.linalg.norm(slope[~near]), 1e-8, 1.0))
            scale = np.diag(factor)
            self._bounds = np.where(near, [low / scale, high / scale], [[-np.inf], [np.inf]])
        self._start, self.far = slope, False
        self._pivots = np.flatnonzero(np.isfinite(high[: self.charts.classes.size]))
        self._first = len(trace)
        self._best = 0.0, np.zeros(size), slope, place  # fall, y, gradient there, place

    def _vector(self, y: Array) -> Array | None:
        """The charts' coordinates at y; None where they are beyond a bound."""
        low, high = self.charts.low, self.charts.high
        if self._factor is None:
            return np.clip(y, low, high)
        vector = self._factor @ y
        vector[self._boxed] = np.clip(vector[self._boxed], low[self._boxed], high[self._boxed])
        return None if (vector < low).any() or (vector > high).any() else vector

    def _fall(self, y: Array) -> tuple[float, Array]:
        """What is minimised, and its gradient; both for a row."""
        if not y.any():  # where the round begins everything is known
            return 0.0, self._start
        vector = self._vector(y)
        if vector is None:
            return 1e10, np.zeros_like(y)
        here = self.charts.place(vector)
        fall = self._base - self.charts.objective.value(here.theta, here.sums)
        value, slope = per_row(fall, self.charts.gradient(vector, here), self._total)
        slope = slope if self._factor is None else self._factor.T @ slope
        if value < self._best[0]:
            self._best = value, y.copy(), slope, here
        return value, slope

    def at_top(self) -> bool:
        """Whether the rise still to come, by the gradient at the best place, is below tol."""
        _, y, slope, _ = self._best
        step = np.clip(y - slope, *self._bounds) - y
        if self._whole:
            return bool(0.5 * float(step @ step) < 0.1 * self.tol)
        return bool(np.abs(step).max() <= 30 * _GRADIENT * np.sqrt(self.tol))

    def _note(self, intermediate_result: OptimizeResult) -> None:
        fall = intermediate_result.fun * self._unit**2
        self.trace.append(self._base - fall * self._total)
        self.report(len(self.trace) - 1, self.trace[-1])
        if self._whole and self.at_top():
            raise StopIteration
        if self._factor is None and len(self._pivots) and len(self.trace) - self._first >= _LEARNING:
            self.far = bool(self._unit * np.abs(intermediate_result.x[self._pivots]).max() > _FAR)
            if self.far:
                raise StopIteration

    def run(self, max_iter: int) -> OptimizeResult:
        """The run; `place` is then the best place that it met."""
        unit, tol = self._unit, self.tol

        def scaled(w: Array) -> tuple[float, Array]:
            value, slope = self._fall(unit * w)
            return value / unit**2, slope / unit

        found = minimize(
            scaled, np.zeros(self.charts.size), jac=True, method="L-BFGS-B", bounds=(self._bounds / unit).T, callback=self._note,
            options={"maxcor": _MEMORY, "ftol": 0.1 * tol / unit**2, "gtol": _GRADIENT * np.sqrt(tol) / unit,
                     "maxiter": max_iter, "maxfun": 20 * max_iter, "maxls": 40},
        )  # fmt: skip
        self._steps = unit * found.hess_inv.sk, unit * found.hess_inv.yk
        self.place = self._best[3]
        return found

    def metric(self) -> _Metric | None:
        """The metric with what the run has learned of it, by BFGS updates."""
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
        return _Metric(inverse, self._whole) if np.isfinite(inverse).all() else None


def _factor(metric: Array, boxed: NDArray[np.bool_]) -> Array | None:
    """F with ``F F'`` the metric: of the free coordinates given the boxed ones, and of each boxed one by itself.

    None where rounding has left the metric without one.
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
