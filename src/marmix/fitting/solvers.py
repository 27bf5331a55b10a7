"""What the solvers share: the fit that they return, and the mechanism's part."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from marmix.arrays import Array
from marmix.fitting.objective import Objective
from marmix.likelihood import Sums
from marmix.mechanism import Mechanism
from marmix.mechanism.charts import SHAPE_MAX, MechanismChart, maximise

Report = Callable[[int, float], None]

# Rows that suffice to scale the mechanism's coordinates.
_CHART_ROWS = 4096
# Shapes that are tried when a maximum is reached, and the rows on which they are; more where a pass costs far more than that.
_SCAN_SHAPES, _SCAN_ROWS, _MANY_ROWS = (0.0, 1.0, 4.0, SHAPE_MAX), 512, 30_000


class Fit(NamedTuple):
    """A maximum, or how far a solver came; `objective` and `trace` are of ``L_ig + t L_miss`` less any penalty."""

    theta: Any
    mechanism: Mechanism | None
    objective: float
    trace: list[float]
    converged: bool
    reason: str
    sums: Sums | None = None  # at the maximum, where the solver had them


def unheard(iteration: int, objective: float) -> None:
    """The report of a maximise that only prepares another."""


def per_row(fall: float, gradient: Array, total: float) -> tuple[float, Array]:
    """Value and gradient to be minimised; a place where the likelihood is not finite is only very bad."""
    if np.isfinite(fall) and np.isfinite(gradient).all():
        return fall / total, -gradient / total
    return 1e10, np.zeros_like(gradient)


def mechanism_chart(objective: Objective, theta: Any, mechanism: Mechanism) -> MechanismChart:
    """Coordinates of the mechanism, scaled by its information in a sample of the rows."""
    sample = objective.sample(theta, mechanism, _CHART_ROWS)
    return MechanismChart(mechanism, sample.drivers, sample.weight)


def better_shape(
    objective: Objective, theta: Any, mechanism: Mechanism, beyond: float
) -> tuple[Mechanism, Sums] | None:
    """A mechanism of quite another shape whose objective is `beyond` this: the shape's profile can have two tops."""
    many = objective.engine.n_rows > _MANY_ROWS
    drivers, labelled, weight = objective.sample(theta, mechanism, 16 * _SCAN_ROWS if many else _SCAN_ROWS)
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
    sums = objective.sums(theta, best)
    return (best, sums) if objective.value(theta, sums) > beyond else None


def fit_mechanism(objective: Objective, theta: Any, mechanism: Mechanism) -> tuple[Mechanism, float]:
    """Maximise L_miss over the mechanism, theta fixed (CM-step 2); the maximum comes with it."""
    per_t = 1.0 / objective.tempering if objective.tempering else 1.0

    def evaluate(here: Mechanism) -> tuple[float, Array, float, float]:
        sums = objective.sums(theta, here, ignorable=False)
        return sums.missing, per_t * sums.alpha, per_t * sums.shape, per_t * sums.share

    total = objective.engine.total_weight
    return maximise(mechanism, lambda here: mechanism_chart(objective, theta, here), evaluate, total)
