"""Expectation-conditional-maximisation: Section S4 of the paper.

The E-step computes responsibilities, whose moments suffice for the complete-data terms. CM-step 1 maximises

    Q_1(theta) = sum r_jk log{pi_k N(x_j; k)} + L_miss(theta; alpha, shape)

with the uncertainties recomputed from theta, CM-step 2 maximises L_miss over (alpha, shape, share). No step decreases L_full.
"""

import numpy as np
from scipy.optimize import minimize

from marmix.core.arrays import Array
from marmix.core.covariance import Moments
from marmix.core.gaussian import GaussianChart, Gaussians, GaussianScores
from marmix.core.mechanism import Mechanism
from marmix.fitting.objective import Objective
from marmix.fitting.solvers import Fit, better_shape, fit_mechanism, per_row

# Corrections stored by L-BFGS in CM-step 1.
_MEMORY = 30


def ecm(objective: Objective, theta: Gaussians, mechanism: Mechanism | None, *, max_iter: int, tol: float) -> Fit:
    """Maximise by expectation-conditional-maximisation from `theta` and `mechanism`; by EM if there is no mechanism."""
    total, t = objective.engine.total_weight, objective.tempering
    model: GaussianScores = objective.model  # type: ignore[assignment]
    e_step = objective.sums(theta, None)
    missing = 0.0 if mechanism is None else objective.sums(theta, mechanism, ignorable=False).missing
    trace = [e_step.ignorable + t * missing]
    used_up = f"max_iter={max_iter} iterations were used up"
    converged, reason, shapes_tried = False, used_up, False
    for _ in range(max_iter):
        new_mechanism = mechanism
        if mechanism is None:
            new_theta = model.m_step(e_step.moments)
        else:
            new_theta = _cm_step_1(objective, model, theta, mechanism, e_step.moments, tol)
            new_mechanism, missing = fit_mechanism(objective, new_theta, mechanism)
        e_step = objective.sums(new_theta, None)
        value = e_step.ignorable + t * missing
        if not value > trace[-1]:
            # rounding: no increase is left, and the step is rejected
            converged, reason = value > trace[-1] - tol * total, "no step raises the log-likelihood"
            break
        theta, mechanism = new_theta, new_mechanism
        trace.append(value)
        if _remaining_increase(trace) < tol * total:
            converged, reason = True, "the rise still to come is below tol"
            better = None
            if not shapes_tried and mechanism is not None and mechanism.free_shape:
                shapes_tried, better = True, better_shape(objective, theta, mechanism, trace[-1] + tol * total)
            if better is None:
                break
            mechanism, converged, reason = better[0], False, used_up
            trace.append(objective.value(theta, better[1]))
    return Fit(theta, mechanism, trace[-1], trace, converged, reason)


def _remaining_increase(trace: list[float]) -> float:
    """Aitken's estimate of the remaining increase of a sequence whose steps shrink geometrically."""
    if len(trace) < 4:
        return np.inf
    before, last = trace[-2] - trace[-3], trace[-1] - trace[-2]
    return np.inf if last >= before else last * last / (before - last) if last > 0.0 else 0.0


def _cm_step_1(
    objective: Objective,
    model: GaussianScores,
    theta: Gaussians,
    mechanism: Mechanism,
    responsibilities: Moments,
    tol: float,
) -> Gaussians:
    """Maximise Q_1 over theta with the mechanism fixed."""
    total, t = objective.engine.total_weight, objective.tempering
    chart = GaussianChart(model, theta)
    base = (
        model.complete_loglik(theta, responsibilities) + t * objective.sums(theta, mechanism, ignorable=False).missing
    )

    def negative(vector: Array) -> tuple[float, Array]:
        moved = chart.theta(vector)
        sums = objective.sums(moved, mechanism, ignorable=False)
        value = model.complete_loglik(moved, responsibilities) + t * sums.missing
        gradient = chart.gradient(vector, moved, responsibilities + sums.moments)
        return per_row(base - value, gradient, total)

    result = minimize(
        negative, np.zeros(chart.size), jac=True, method="L-BFGS-B", bounds=[(None, limit) for limit in chart.upper],
        options={"maxcor": _MEMORY, "ftol": 1e-3 * tol, "gtol": 1e-3 * np.sqrt(tol), "maxiter": 100, "maxls": 40},
    )  # fmt: skip
    return chart.theta(result.x) if result.fun < 0.0 else theta
