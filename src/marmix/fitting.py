"""From rows to a maximum: starts, restarts, and the solver between them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from copy import copy
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from marmix import start
from marmix.engines import NumpyEngine
from marmix.linear import LinearScores
from marmix.missingness import Mechanism
from marmix.scores import Gaussians, GaussianScores
from marmix.solvers import SOLVERS, Fit, fit_mechanism, lbfgs, unheard

Array = NDArray[np.float64]
Say = Callable[[str], None]

# Rows that suffice to scale the coordinates of a logistic fit.
_CALIBRATION_ROWS = 4096
# Coefficients up to which the last digits are found by Newton steps.
_NEWTON_SIZE = 500


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """While it is open the linear algebra has one thread: many small steps would only wait for more."""
    return _threads().limit(limits=1, user_api="blas")


def fit_mixture(
    engine: NumpyEngine,
    labelled: start.ClassMoments,
    mechanism: Mechanism | None,
    *,
    solver: str,
    kmeans: bool,
    values: dict[str, Any],
    n_init: int,
    max_iter: int,
    tol: float,
    rng: np.random.RandomState,
    names: list[Any],
    say: Say,
    say_more: Say,
) -> Fit:
    """The best maximum from `n_init` starts; the first as asked for, the others shaken.

    Parameters
    ----------
    labelled : ClassMoments
        Moments of the labelled rows, in the user's axes.
    mechanism : Mechanism or None
        Its options; None to leave the mechanism out.
    kmeans : bool
        Whether to start from k-means instead of the labelled rows.
    values : dict
        Starting values by name for the first start.
    names : list
        The classes, for messages.
    say, say_more : callable
        Take a line for each start, and for each iteration.
    """
    model: GaussianScores = engine.model  # type: ignore[assignment]
    if engine.labelled == engine.x.shape[1] and model.single:
        return _closed_form(engine, model, labelled)

    def starts() -> Iterator[tuple[Gaussians, dict[str, Any]]]:
        for i in range(n_init):
            own = values if i == 0 else {}
            yield _mixture_start(engine, model, labelled, kmeans, own, rng, names, shaken=i > 0), own

    shift = engine.total_weight * engine.frame.log_det
    return best_fit(engine, starts(), n_init, mechanism, solver, max_iter, tol, shift, say, say_more)


def fit_logistic(
    engine: NumpyEngine,
    model: LinearScores,
    mechanism: Mechanism | None,
    *,
    values: dict[str, Any],
    n_init: int,
    max_iter: int,
    tol: float,
    rng: np.random.RandomState,
    say: Say,
    say_more: Say,
) -> Fit:
    """The best maximum from `n_init` starts: the fit to the labelled rows, and shaken versions of it.

    Without a mechanism the surface has one top, which is then found to rounding.
    """
    model.calibrate(engine.x[:, :: max(1, engine.x.shape[1] // _CALIBRATION_ROWS)], engine.total_weight)
    origin = np.zeros((model.vectors, model.n_features()))
    alone = mechanism is None or not engine.tempering

    def heard(iteration: int, objective: float) -> None:
        say_more(f"  iteration {iteration}: objective {objective:.6f}")

    with one_thread():
        by_labels = lbfgs(
            engine, origin, None, max_iter=max_iter, tol=1e-16 if alone else tol, report=heard if alone else unheard
        )

    if alone:
        with np.errstate(all="ignore"):
            theta, at_top = _newton(engine, model, by_labels.theta)
        by_labels = by_labels._replace(theta=theta, converged=by_labels.converged or at_top)
        return _with_mechanism(engine, by_labels, mechanism)

    def starts() -> Iterator[tuple[Array, dict[str, Any]]]:
        given = values.get("coefficients")
        yield (by_labels.theta if given is None else model.from_user(given)), values
        for _ in range(n_init - 1):
            shrunk = rng.uniform(0.3, 1.0) * by_labels.theta
            size = np.sqrt(np.mean(by_labels.theta[:, 1:] ** 2))
            yield shrunk + 0.3 * size * rng.normal(size=shrunk.shape), {}

    fit = best_fit(engine, starts(), n_init, mechanism, "lbfgs", max_iter, tol, 0.0, say, say_more)
    if model.vectors > 1:  # a vector added to all changes no score: they sum to zero, as those of scikit-learn do
        fit = fit._replace(theta=fit.theta - fit.theta.mean(axis=0))
    return fit


def _newton(engine: NumpyEngine, model: LinearScores, theta: Array) -> tuple[Array, bool]:
    """Newton steps at the top of the labelled rows' log-likelihood: the last digits, which its values no longer show.

    Returns the coefficients, and whether the last step shows that they are those of the top.
    """
    if theta.size > _NEWTON_SIZE:
        return theta, False
    size = np.inf
    for _ in range(3):
        hessian = np.kron(np.eye(model.vectors), model.penalty_matrix())
        for a in range(0, engine.labelled, _CALIBRATION_ROWS):
            rows = slice(a, min(a + _CALIBRATION_ROWS, engine.labelled))
            weight = None if engine.weight is None else engine.weight[rows]
            hessian += model.hessian(theta, model.features(engine.x[:, rows]), weight)
        gradient = engine.sums(theta, None).moments.by_component - theta @ model.penalty_matrix()
        step = np.linalg.lstsq(hessian, gradient.ravel(), rcond=1e-13)[0].reshape(theta.shape)
        size = np.abs(step).max() / (1.0 + np.abs(theta).max())
        if not size < 1e-2:
            return theta, False  # not near a top: there is none, as with separable classes and no penalty
        theta = theta + step
    return theta, bool(size < 1e-8)


def best_fit(
    engine: NumpyEngine,
    starts: Iterable[tuple[Any, dict[str, Any]]],
    n_starts: int,
    mechanism: Mechanism | None,
    solver: str,
    max_iter: int,
    tol: float,
    shift: float,
    say: Say,
    say_more: Say,
) -> Fit:
    """The best of the maxima reached from these starts (parameters, and starting values of the mechanism).

    A fit is many small steps, in which the threads of the linear algebra would only wait for each other: it is given
    one. `shift` is added to the log-likelihoods that are said.
    """

    def report(iteration: int, objective: float) -> None:
        say_more(f"  iteration {iteration}: log-likelihood {objective + shift:.6f}")

    best: Fit | None = None
    with one_thread(), np.errstate(all="ignore"):
        for i, (theta, values) in enumerate(starts, start=1):
            # a mechanism of weight 0 is fitted to what the rest gives, afterwards
            begins = _mechanism_starts(engine, theta, mechanism if engine.tempering else None, values)
            for begin in begins:
                fit = SOLVERS[solver](engine, theta, begin, max_iter=max_iter, tol=tol, report=report)
                say(
                    f"start {i} of {n_starts}: log-likelihood {fit.objective + shift:.6f} after {len(fit.trace) - 1} iterations"
                    f"{'' if fit.converged else ', not converged'}"
                )
                if best is None or fit.objective > best.objective:
                    best = fit
        assert best is not None
        return best if engine.tempering else _with_mechanism(engine, best, mechanism)


def _with_mechanism(engine: NumpyEngine, fit: Fit, mechanism: Mechanism | None) -> Fit:
    """The fit with a mechanism fitted to what it gives, which its parameters did not feel."""
    if mechanism is None:
        return fit
    alone = copy(engine)
    alone.tempering = 1.0
    with np.errstate(all="ignore"):
        begin = start.mechanism_start(engine, fit.theta, mechanism, {})
        return fit._replace(mechanism=fit_mechanism(alone, fit.theta, begin)[0])


def _closed_form(engine: NumpyEngine, model: GaussianScores, labelled: start.ClassMoments) -> Fit:
    """Every row labelled, one component a class: the LDA or QDA estimates, by one M-step."""
    anywhere = start.labelled_start(model, engine.frame, labelled)
    theta = model.m_step(engine.sums(anywhere, None).moments)
    loglik = engine.sums(theta, None).ignorable
    return Fit(theta, None, loglik, [loglik], True, "closed form", 2)


def _mixture_start(
    engine: NumpyEngine,
    model: GaussianScores,
    labelled: start.ClassMoments,
    kmeans: bool,
    values: dict[str, Any],
    rng: np.random.RandomState,
    names: list[Any],
    shaken: bool,
) -> Gaussians:
    if kmeans:
        theta = start.kmeans_start(engine, model, rng)
    else:
        single = GaussianScores(model.structure, [1] * len(model.counts), model.floor)
        theta = start.labelled_start(single, engine.frame, labelled, rng if shaken else None)
        if not model.single and {"weights", "means", "covariances"} <= set(values):
            own = model.owner if model.structure.by_component else slice(None)
            theta = Gaussians(theta.log_pi[model.owner], theta.mu[model.owner], theta.chol[own])
        elif not model.single:
            theta = start.split_start(engine, model, single, theta, rng, names)
    return start.user_start(model, engine.frame, theta, values)


def _mechanism_starts(
    engine: NumpyEngine, theta: Any, mechanism: Mechanism | None, values: dict[str, Any]
) -> list[Mechanism | None]:
    """A free share begins both at some of it and at none, for these lead to different tops."""
    if mechanism is None:
        return [None]
    starts: list[Mechanism | None] = [start.mechanism_start(engine, theta, mechanism, values)]
    if mechanism.free_share and "share" not in values:
        starts.append(start.mechanism_start(engine, theta, mechanism, values | {"share": 0.0}))
    return starts
