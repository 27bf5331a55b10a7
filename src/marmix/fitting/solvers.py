"""Code shared by the solvers: the fit that they return, and the fit of the mechanism."""

from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import Array
from marmix.core.charts import SHAPE_MAX, MechanismChart, maximise
from marmix.core.likelihood import Sums
from marmix.core.mechanism import Mechanism
from marmix.fitting.objective import Objective

# Rows used to scale the mechanism's coordinates.
_CHART_ROWS = 1000
# Shapes that are tried at a maximum, and the number of rows for that.
_SCAN_SHAPES, _SCAN_ROWS = (0.0, 1.0, 4.0, SHAPE_MAX), 4000


class Fit(NamedTuple):
    """Result of a solver; `objective` and `trace` are values of ``L_ig + t L_miss`` less any penalty."""

    theta: Any
    mechanism: Mechanism | None
    objective: float
    trace: list[float]
    converged: bool
    reason: str
    sums: Sums | None = None  # at the maximum, if the solver computed them
    maxima: tuple[float, ...] = ()  # values of `objective` reached from all starts that were followed to the end


def per_row(decrease: float, gradient: Array, total: float) -> tuple[float, Array]:
    """Value and gradient to be minimised, per row; a large value where the likelihood is not finite."""
    if np.isfinite(decrease) and np.isfinite(gradient).all():
        return decrease / total, -gradient / total
    return 1e10, np.zeros_like(gradient)


def mechanism_chart(objective: Objective, theta: Any, mechanism: Mechanism) -> MechanismChart:
    """Coordinates of the mechanism, scaled by its information in a sample of rows."""
    sample = objective.driver_sample(theta, mechanism, _CHART_ROWS)
    return MechanismChart(mechanism, sample.drivers, sample.weight)


def better_shape(
    objective: Objective, theta: Any, mechanism: Mechanism, beyond: float
) -> tuple[Mechanism, Sums] | None:
    """A mechanism of a very different shape with an objective above `beyond`: the profile of the shape can have two maxima."""
    drivers, labelled, weight = objective.driver_sample(theta, mechanism, _SCAN_ROWS)
    w = np.ones(drivers.shape[1]) if weight is None else weight
    chart = MechanismChart(mechanism, drivers, weight)
    best, best_loglik = mechanism, mechanism.loglik_of(drivers, labelled, w) + 1e-9 * w.sum()
    for shape in _SCAN_SHAPES:
        candidate = chart.with_shape(shape)
        for _ in range(2):
            candidate = candidate.scored(drivers, labelled, w)
        loglik = candidate.loglik_of(drivers, labelled, w)
        if loglik > best_loglik:
            best, best_loglik = candidate, loglik
    if best is mechanism:
        return None
    sums = objective.sums(theta, best)
    return (best, sums) if objective.value(theta, sums) > beyond else None


def fit_mechanism(objective: Objective, theta: Any, mechanism: Mechanism) -> tuple[Mechanism, float]:
    """Maximise L_miss over the mechanism with theta fixed (CM-step 2); return the mechanism and the maximum."""
    per_t = 1.0 / objective.tempering if objective.tempering else 1.0

    def evaluate(mechanism: Mechanism) -> tuple[float, Array, float, float]:
        sums = objective.sums(theta, mechanism, ignorable=False)
        return sums.missing, per_t * sums.alpha, per_t * sums.shape, per_t * sums.share

    def chart(mechanism: Mechanism) -> MechanismChart:
        return mechanism_chart(objective, theta, mechanism)

    return maximise(mechanism, chart, evaluate, objective.engine.total_weight)
