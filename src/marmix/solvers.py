"""Solvers: maximise L_full over the mixture and the mechanism. They see parameters and `Sums`, never a row.

``lbfgs``
    All parameters at once, by a limited-memory quasi-Newton method with bounds.
``ecm``
    Section S4 of the paper. The E-step finds responsibilities; their moments are all that the complete-data terms need.
    CM-step 1 maximises ``Q_1(theta) = sum r_jk log{pi_k N(x_j; k)} + L_miss(theta; alpha, shape)`` with the uncertainties
    recomputed from theta, CM-step 2 maximises L_miss over (alpha, shape, share). Each step can only raise L_full.

Both stop when the rise still to come is below `tol` per row.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from marmix.charts import SHAPE_MAX, MechanismChart, climb
from marmix.covariance import Moments
from marmix.engines import NumpyEngine
from marmix.likelihood import Sums
from marmix.missingness import Mechanism
from marmix.scores import GaussianChart, Gaussians, GaussianScores

Array = NDArray[np.float64]
Report = Callable[[int, float], None]

# Rows that suffice to scale the mechanism's coordinates.
_CHART_ROWS = 4096
# Rows on which a climb over many rows begins; at least so many a parameter.
_FEW_ROWS, _FEW_ROWS_PER_PARAMETER = 2000, 20
# Corrections kept by L-BFGS: about as many as there are iterations, since passes cost more than corrections do.
_MEMORY = 30
# A gradient this small, in coordinates of unit information, is worth less than tol (its square over twice the curvature).
_GRADIENT = 0.01
# Shapes that are tried when a maximum is reached, and the rows on which they are.
_SCAN_SHAPES, _SCAN_ROWS = (0.0, 1.0, 4.0, SHAPE_MAX), 512
# Iterations of L-BFGS before its coordinates are renewed, and fresh starts before its failure to settle is reported.
_ROUND_ITERATIONS, _ROUNDS = 100, 10


class Fit(NamedTuple):
    """A maximum, or how far a solver came; `objective` and `trace` are of ``L_ig + t L_miss`` less any penalty."""

    theta: Any
    mechanism: Mechanism | None
    objective: float
    trace: list[float]
    converged: bool
    reason: str
    n_passes: int


class _Counted:
    """The engine with its passes counted."""

    def __init__(self, engine: NumpyEngine):
        self.engine, self.passes = engine, 0

    def sums(self, theta: Any, mechanism: Mechanism | None, ignorable: bool = True) -> Sums:
        self.passes += 1
        return self.engine.sums(theta, mechanism, ignorable)

    def objective(self, theta: Any, mechanism: Mechanism | None) -> float:
        return self.engine.objective(theta, self.sums(theta, mechanism))


def _mechanism_chart(engine: NumpyEngine, theta: Any, mechanism: Mechanism) -> MechanismChart:
    sample = engine.sample(theta, mechanism, _CHART_ROWS)
    return MechanismChart(mechanism, sample.drivers, sample.weight)


def _maximise(
    negative: Callable[[Array], tuple[float, Array]],
    bounds: list[tuple[float | None, float | None]],
    tol: float,
    max_iter: int,
    callback: Callable[[OptimizeResult], None] | None = None,
    reach: float = 1.0,
) -> OptimizeResult:
    """L-BFGS-B from the origin; values are per row and relative to the start, so `ftol` is absolute.

    `reach` is about how far away the top is: the method's first step has length one, so it is given units of that size.
    """

    def scaled(w: Array) -> tuple[float, Array]:
        value, gradient = negative(reach * w)
        return value, reach * gradient

    limits = [(None if a is None else a / reach, None if b is None else b / reach) for a, b in bounds]
    found = minimize(
        scaled, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=limits, callback=callback,
        options={"maxcor": _MEMORY, "ftol": 0.1 * tol, "gtol": reach * _GRADIENT * np.sqrt(tol), "maxiter": max_iter,
                 "maxfun": 20 * max_iter, "maxls": 40},
    )  # fmt: skip
    found.x, found.jac = reach * found.x, found.jac / reach
    return found


def _per_row(fall: float, gradient: Array, total: float) -> tuple[float, Array]:
    """Value and gradient to be minimised; a place where the likelihood is not finite is only very bad."""
    if np.isfinite(fall) and np.isfinite(gradient).all():
        return fall / total, -gradient / total
    return 1e10, np.zeros_like(gradient)


def lbfgs(
    engine: NumpyEngine,
    theta: Any,
    mechanism: Mechanism | None,
    *,
    max_iter: int,
    tol: float,
    report: Report,
    look_around: bool = True,
) -> Fit:
    """Maximise over all parameters at once, from `theta` and `mechanism`.

    With many rows the climb begins on a few of them, so that full passes only finish it. At the top quite other shapes are
    tried, once, unless `look_around` is False.
    """
    size, reach = engine.model.chart(theta).size, 1.0
    few = max(_FEW_ROWS, _FEW_ROWS_PER_PARAMETER * size)
    if engine.x.shape[1] >= 4 * few:
        theta, mechanism, *_ = lbfgs(
            engine.thinned(few),
            theta,
            mechanism,
            max_iter=max_iter,
            tol=max(tol, 1e-6),
            report=unheard,
            look_around=False,
        )
        reach = float(np.sqrt(size / few))  # the error of estimates from so few rows
    rows, total = _Counted(engine), engine.total_weight
    reached = rows.objective(theta, mechanism)
    trace = [reached]
    converged, reason, iterations = False, "the surface is too rough for the method to settle", 0
    for _ in range(_ROUNDS + max_iter // _ROUND_ITERATIONS):
        most = min(max_iter - iterations, _ROUND_ITERATIONS)
        theta, mechanism, objective, found, slope = _lbfgs_round(
            rows, theta, mechanism, reached, most, tol, trace, report, reach
        )
        gain, reached, iterations = (objective - reached) / total, objective, iterations + found.nit
        at_top = bool(slope <= 30 * _GRADIENT * np.sqrt(tol))
        if at_top or gain < tol:
            # Where the gradient is not small, only a regular stop of the method counts as a maximum.
            converged, reason = at_top or bool(found.success), str(found.message).lower()
            if not look_around or mechanism is None or not mechanism.free_shape:
                break
            look_around = False
            other = _better_shape(rows, theta, mechanism, reached + tol * total)
            if other is None:
                break
            mechanism, reached = other
            converged = False
        if iterations >= max_iter:
            reason = f"max_iter={max_iter} iterations were used up"
            break
        # A small step may come from a poor model of the surface as well: the method starts afresh from here.
    return Fit(theta, mechanism, reached, trace, converged, reason, rows.passes)


def unheard(iteration: int, objective: float) -> None:
    """The report of a climb that only prepares another."""


def _better_shape(rows: _Counted, theta: Any, mechanism: Mechanism, beyond: float) -> tuple[Mechanism, float] | None:
    """A mechanism of quite another shape whose objective is `beyond` this: the shape's profile can have two tops."""
    drivers, labelled, weight = rows.engine.sample(theta, mechanism, _SCAN_ROWS)
    w = np.ones(drivers.shape[1]) if weight is None else weight
    chart = MechanismChart(mechanism, drivers, weight)
    best, best_loglik = mechanism, mechanism.loglik_of(drivers, labelled, w) + 1e-9 * w.sum()
    for shape in _SCAN_SHAPES:
        other = chart.with_shape(shape)
        for _ in range(2):
            other = other.scored(drivers, labelled, w)
        loglik = other.loglik_of(drivers, labelled, w)
        if loglik > best_loglik:
            best, best_loglik = other, loglik
    if best is mechanism:
        return None
    objective = rows.objective(theta, best)
    return (best, objective) if objective > beyond else None


def _lbfgs_round(
    rows: _Counted,
    theta: Any,
    mechanism: Mechanism | None,
    base: float,
    max_iter: int,
    tol: float,
    trace: list[float],
    report: Report,
    reach: float,
) -> tuple[Any, Mechanism | None, float, OptimizeResult, float]:
    """One run of L-BFGS-B in charts around the given parameters, where the objective is `base`.

    Returns the new parameters, their objective, scipy's result and the largest free entry of the gradient.
    """
    engine, total = rows.engine, rows.engine.total_weight
    chart = engine.model.chart(theta)
    about = None if mechanism is None else _mechanism_chart(engine, theta, mechanism)
    bounds: list[tuple[float | None, float | None]] = [(None, limit) for limit in chart.upper]
    bounds += [] if about is None else about.bounds

    def negative(vector: Array) -> tuple[float, Array]:
        part, rest = vector[: chart.size], vector[chart.size :]
        here = chart.theta(part)
        sums = rows.sums(here, None if about is None else about.mechanism(rest))
        gradient = chart.gradient(part, here, sums.moments)
        if about is not None:
            gradient = np.concatenate([gradient, about.gradient(rest, sums.alpha, sums.shape, sums.share)])
        return _per_row(base - engine.objective(here, sums), gradient, total)

    def note(intermediate_result: OptimizeResult) -> None:
        trace.append(base - intermediate_result.fun * total)
        report(len(trace) - 1, trace[-1])

    found = _maximise(negative, bounds, tol, max_iter, note, reach)
    slope = _projected(found, bounds)
    if found.fun >= 0.0:
        return theta, mechanism, base, found, slope
    theta = chart.theta(found.x[: chart.size])
    mechanism = None if about is None else about.mechanism(found.x[chart.size :])
    return theta, mechanism, base - found.fun * total, found, slope


def _projected(found: OptimizeResult, bounds: list[tuple[float | None, float | None]]) -> float:
    """Largest entry of the gradient that does not push against a bound."""
    low = np.array([-np.inf if a is None else a for a, _ in bounds])
    high = np.array([np.inf if b is None else b for _, b in bounds])
    return float(np.abs(np.clip(found.x - found.jac, low, high) - found.x).max())


def ecm(
    engine: NumpyEngine,
    theta: Gaussians,
    mechanism: Mechanism | None,
    *,
    max_iter: int,
    tol: float,
    report: Report,
) -> Fit:
    """Expectation-conditional-maximisation from `theta` and `mechanism`; plain EM if there is no mechanism."""
    rows, total, t = _Counted(engine), engine.total_weight, engine.tempering
    model: GaussianScores = engine.model  # type: ignore[assignment]
    e_step = rows.sums(theta, None)
    missing = 0.0 if mechanism is None else rows.sums(theta, mechanism, ignorable=False).missing
    trace = [e_step.ignorable + t * missing]
    used_up = f"max_iter={max_iter} iterations were used up"
    converged, reason, looked_around = False, used_up, False
    for iteration in range(1, max_iter + 1):
        new_mechanism = mechanism
        if mechanism is None:
            new_theta = model.m_step(e_step.moments)
        else:
            new_theta = _cm_step_1(rows, model, theta, mechanism, e_step.moments, tol)
            new_mechanism, missing = fit_mechanism(rows, new_theta, mechanism)
        e_step = rows.sums(new_theta, None)
        objective = e_step.ignorable + t * missing
        if not objective > trace[-1]:
            # Rounding: nothing is left to gain, and the step is not taken.
            converged, reason = objective > trace[-1] - tol * total, "no step raises the log-likelihood"
            break
        theta, mechanism = new_theta, new_mechanism
        trace.append(objective)
        report(iteration, objective)
        if _still_to_come(trace) < tol * total:
            converged, reason = True, "the rise still to come is below tol"
            other = None
            if not looked_around and mechanism is not None and mechanism.free_shape:
                looked_around, other = True, _better_shape(rows, theta, mechanism, trace[-1] + tol * total)
            if other is None:
                break
            mechanism, converged, reason = other[0], False, used_up
            trace.append(other[1])
    return Fit(theta, mechanism, trace[-1], trace, converged, reason, rows.passes)


def _still_to_come(trace: list[float]) -> float:
    """Aitken's estimate of the rise left in a sequence whose steps shrink geometrically."""
    if len(trace) < 4:
        return np.inf
    before, last = trace[-2] - trace[-3], trace[-1] - trace[-2]
    return np.inf if last >= before else last * last / (before - last) if last > 0.0 else 0.0


def _cm_step_1(
    rows: _Counted,
    model: GaussianScores,
    theta: Gaussians,
    mechanism: Mechanism,
    responsibilities: Moments,
    tol: float,
) -> Gaussians:
    """Maximise Q_1 over theta, the uncertainties recomputed with it, the mechanism fixed."""
    total, t = rows.engine.total_weight, rows.engine.tempering
    chart = GaussianChart(model, theta)
    base = model.complete_loglik(theta, responsibilities) + t * rows.sums(theta, mechanism, ignorable=False).missing

    def negative(vector: Array) -> tuple[float, Array]:
        here = chart.theta(vector)
        sums = rows.sums(here, mechanism, ignorable=False)
        value = model.complete_loglik(here, responsibilities) + t * sums.missing
        gradient = chart.gradient(vector, here, responsibilities + sums.moments)
        return _per_row(base - value, gradient, total)

    found = _maximise(negative, [(None, limit) for limit in chart.upper], 0.01 * tol, 100)
    return chart.theta(found.x) if found.fun < 0.0 else theta


def fit_mechanism(rows: _Counted | NumpyEngine, theta: Any, mechanism: Mechanism) -> tuple[Mechanism, float]:
    """Maximise L_miss over the mechanism, theta fixed (CM-step 2); the maximum comes with it."""
    engine = rows.engine if isinstance(rows, _Counted) else rows
    per_t = 1.0 / engine.tempering if engine.tempering else 1.0

    def evaluate(here: Mechanism) -> tuple[float, Array, float, float]:
        sums = rows.sums(theta, here, ignorable=False)
        return sums.missing, per_t * sums.alpha, per_t * sums.shape, per_t * sums.share

    return climb(mechanism, lambda here: _mechanism_chart(engine, theta, here), evaluate, engine.total_weight)


SOLVERS: dict[str, Callable[..., Fit]] = {"lbfgs": lbfgs, "ecm": ecm}
