"""From rows to a maximum: starts, restarts, and the solver between them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, along_rows, like
from marmix.fitting import SOLVERS, Fit, Objective, fit_mechanism, lbfgs, starts, unheard
from marmix.likelihood import Block
from marmix.mechanism import Mechanism
from marmix.moments import GroupMoments
from marmix.scores.gaussian import Gaussians, GaussianScores
from marmix.scores.linear import LinearScores
from marmix.workers import one_thread

# Rows that suffice to scale the coordinates of a logistic fit.
_CALIBRATION_ROWS = 4096
# Coefficients up to which the last digits are found by Newton steps.
_NEWTON_SIZE = 500
# Rise still to come, per row, from which Newton steps need no more climbing.
_NEAR_TOL = 1e-10


def silent(line: str) -> None:
    """Take a line of progress and say nothing."""


class Search(NamedTuple):
    """How the maximum is searched for.

    Parameters
    ----------
    rng : RandomState
    values : dict
        Starting values by name for the first start.
    solver : str
        A key of `SOLVERS`.
    n_init : int
        Starts; the first as asked for, the others shaken.
    max_iter, tol
        Where a solver stops.
    kmeans : bool
        Whether to start from k-means instead of the labelled rows.
    classes : sequence
        The classes, for messages.
    empty : array or None
        Axes of the fit that are zero in all rows, where there are any.
    say, say_more : callable
        Take a line for each start, and for each iteration.
    """

    rng: np.random.RandomState
    values: dict[str, Any]
    solver: str = "lbfgs"
    n_init: int = 1
    max_iter: int = 1000
    tol: float = 1e-8
    kmeans: bool = False
    classes: Sequence[Any] = ()
    empty: NDArray[np.bool_] | None = None
    say: Callable[[str], None] = silent
    say_more: Callable[[str], None] = silent


def fit_mixture(objective: Objective, labelled: GroupMoments, mechanism: Mechanism | None, search: Search) -> Fit:
    """The best maximum from all starts.

    Parameters
    ----------
    labelled : GroupMoments
        Moments of the labelled rows, in the user's axes.
    mechanism : Mechanism or None
        Its options; None to leave the mechanism out.
    """
    model: GaussianScores = objective.model  # type: ignore[assignment]
    if objective.engine.labelled == objective.engine.n_rows and model.single:
        return _closed_form(objective, model, labelled)

    def begins() -> Iterator[tuple[Gaussians, dict[str, Any]]]:
        for i in range(search.n_init):
            this = search if i == 0 else search._replace(values={})
            theta = _mixture_start(objective, labelled, this, shaken=i > 0)
            yield (theta if search.empty is None else starts.at_floor(theta, search.empty, model.floor)), this.values

    return best_fit(objective, begins(), mechanism, search)


def fit_logistic(objective: Objective, mechanism: Mechanism | None, search: Search) -> Fit:
    """The best maximum from all starts: the fit to the labelled rows, and shaken versions of it.

    Without a mechanism the surface has one top, which is then found to rounding.
    """
    model: LinearScores = objective.model  # type: ignore[assignment]
    engine, rng = objective.engine, search.rng
    few = objective if engine.n_rows <= _CALIBRATION_ROWS else objective.thinned(_CALIBRATION_ROWS)
    model.calibrate(few.total(_information) / few.engine.total_weight, engine.total_weight)
    origin = np.zeros((model.vectors, model.n_features()))
    alone = mechanism is None or not objective.tempering

    def heard(iteration: int, value: float) -> None:
        search.say_more(f"  iteration {iteration}: objective {value:.6f}")

    if alone:
        # a penalty makes sure of a top, near which Newton steps find the digits; else the climb goes on while it can
        near = [_NEAR_TOL] if np.isfinite(model.C) and origin.size <= _NEWTON_SIZE else []
        begin = origin
        for enough in [*near, 1e-16]:
            with one_thread():
                fit = lbfgs(objective, begin, None, max_iter=search.max_iter, tol=enough, report=heard)
            with np.errstate(all="ignore"):
                begin, at_top = _newton(objective, model, fit.theta)
            if at_top:
                break
        fit = fit._replace(theta=begin, converged=fit.converged or at_top, sums=None)
        return _with_mechanism(objective, fit, mechanism)

    with one_thread():
        by_labels = lbfgs(objective, origin, None, max_iter=search.max_iter, tol=search.tol, report=unheard)

    def begins() -> Iterator[tuple[Array, dict[str, Any]]]:
        given = search.values.get("coefficients")
        yield (by_labels.theta if given is None else model.from_user(given)), search.values
        for _ in range(search.n_init - 1):
            shrunk = rng.uniform(0.3, 1.0) * by_labels.theta
            size = np.sqrt(np.mean(by_labels.theta[:, 1:] ** 2))
            yield shrunk + 0.3 * size * rng.normal(size=shrunk.shape), {}

    fit = best_fit(objective, begins(), mechanism, search)
    if model.vectors > 1:  # a vector added to all changes no score: they sum to zero, as those of scikit-learn do
        fit = fit._replace(theta=fit.theta - fit.theta.mean(axis=0))
    return fit


def _newton(objective: Objective, model: LinearScores, theta: Array) -> tuple[Array, bool]:
    """Newton steps at the top of the labelled rows' log-likelihood: the last digits, which its values no longer show.

    Returns the coefficients, and whether the last step shows that they are those of the top.
    """
    if theta.size > _NEWTON_SIZE:
        return theta, False
    size = np.inf
    for _ in range(3):
        hessian = np.kron(np.eye(model.vectors), model.penalty_matrix)
        hessian += objective.total(_hessian, theta)
        objective.passes[0] += 1
        gradient = objective.sums(theta, None).moments.by_component - model.penalty_slope(theta)
        step = np.linalg.lstsq(hessian, gradient.ravel(), rcond=1e-13)[0].reshape(theta.shape)
        size = np.abs(step).max() / (1.0 + np.abs(theta).max())
        if not size < 1e-2:
            return theta, False  # not near a top: there is none, as with separable classes and no penalty
        theta = theta + step
    return theta, bool(size < 1e-8)


def _information(block: Block, model: LinearScores) -> Any:
    phi = model.features(block.x)
    return along_rows(phi if block.weight is None else phi * block.weight, phi)


def _hessian(block: Block, model: LinearScores, theta: Array) -> Any:
    labelled = block.cuts[-1]
    x, weight = block.x[:, :labelled], None if block.weight is None else block.weight[:labelled]
    return model.hessian(like(theta, x), model.features(x), weight)


def best_fit(
    objective: Objective,
    begins: Iterable[tuple[Any, dict[str, Any]]],
    mechanism: Mechanism | None,
    search: Search,
) -> Fit:
    """The best of the maxima reached from these starts (parameters, and starting values of the mechanism).

    A fit is many small steps, in which the threads of the linear algebra would only wait for each other: it is given one.
    """
    offset, limits = objective.offset, {"max_iter": search.max_iter, "tol": search.tol}

    def report(iteration: int, value: float) -> None:
        search.say_more(f"  iteration {iteration}: log-likelihood {value + offset:.6f}")

    best: Fit | None = None
    with one_thread(), np.errstate(all="ignore"):
        for i, (theta, values) in enumerate(begins, start=1):
            # a mechanism of weight 0 is fitted to what the rest gives, afterwards
            for begin in _mechanism_starts(objective, theta, mechanism if objective.tempering else None, values):
                fit = SOLVERS[search.solver](objective, theta, begin, **limits, report=report)
                search.say(
                    f"start {i} of {search.n_init}: log-likelihood {fit.objective + offset:.6f} after {len(fit.trace) - 1} "
                    f"iterations{'' if fit.converged else ', not converged'}"
                )
                if best is None or fit.objective > best.objective:
                    best = fit
        assert best is not None
        return best if objective.tempering else _with_mechanism(objective, best, mechanism)


def _with_mechanism(objective: Objective, fit: Fit, mechanism: Mechanism | None) -> Fit:
    """The fit with a mechanism fitted to what it gives, which its parameters did not feel."""
    if mechanism is None:
        return fit
    with np.errstate(all="ignore"):
        begin = starts.mechanism_start(objective, fit.theta, mechanism, {})
        return fit._replace(mechanism=fit_mechanism(objective.alone(), fit.theta, begin)[0], sums=None)


def _closed_form(objective: Objective, model: GaussianScores, labelled: GroupMoments) -> Fit:
    """Every row labelled, one component a class: the LDA or QDA estimates, by one M-step."""
    anywhere = starts.labelled_start(model, objective.engine.frame, labelled)
    theta = model.m_step(objective.sums(anywhere, None).moments)
    sums = objective.sums(theta, None)
    return Fit(theta, None, sums.ignorable, [sums.ignorable], True, "closed form", sums)


def _mixture_start(objective: Objective, labelled: GroupMoments, search: Search, shaken: bool) -> Gaussians:
    engine, rng = objective.engine, search.rng
    model: GaussianScores = objective.model  # type: ignore[assignment]
    if search.kmeans:
        theta = starts.kmeans_start(engine, model, rng)
    else:
        single = GaussianScores(model.structure, [1] * len(model.counts), model.floor)
        theta = starts.labelled_start(single, engine.frame, labelled, rng if shaken else None)
        if not model.single and {"weights", "means", "covariances"} <= set(search.values):
            chol = theta.chol[model.owner] if model.structure.by_component else theta.chol
            theta = Gaussians(theta.log_pi[model.owner], theta.mu[model.owner], chol)
        elif not model.single:
            theta = starts.split_start(engine, model, single, theta, rng, search.classes)
    return starts.user_start(model, engine.frame, theta, search.values)


def _mechanism_starts(
    objective: Objective, theta: Any, mechanism: Mechanism | None, values: dict[str, Any]
) -> list[Mechanism | None]:
    """A free share begins both at some of it and at none, for these lead to different tops."""
    if mechanism is None:
        return [None]
    begins: list[Mechanism | None] = [starts.mechanism_start(objective, theta, mechanism, values)]
    if mechanism.free_share and "share" not in values:
        begins.append(starts.mechanism_start(objective, theta, mechanism, values | {"share": 0.0}))
    return begins
