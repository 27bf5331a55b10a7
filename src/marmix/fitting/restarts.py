"""From rows to a maximum: starts, restarts, and the solver between them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, along_rows, like
from marmix.fitting import SOLVERS, Fit, fit_mechanism, lbfgs, starts, unheard
from marmix.mechanism import Mechanism
from marmix.moments import GroupMoments
from marmix.rows import Engine, Piece
from marmix.scores.gaussian import Gaussians, GaussianScores
from marmix.scores.linear import LinearScores
from marmix.workers import one_thread

Say = Callable[[str], None]

# Rows that suffice to scale the coordinates of a logistic fit.
_CALIBRATION_ROWS = 4096
# Coefficients up to which the last digits are found by Newton steps.
_NEWTON_SIZE = 500
# Rise still to come, per row, from which Newton steps need no more climbing.
_NEAR_TOL = 1e-10


def fit_mixture(
    engine: Engine,
    labelled: GroupMoments,
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
    empty: NDArray[np.bool_] | None = None,
) -> Fit:
    """The best maximum from `n_init` starts; the first as asked for, the others shaken.

    Parameters
    ----------
    labelled : GroupMoments
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
    empty : array or None
        Axes of the fit that are zero in all rows, where there are any.
    """
    model: GaussianScores = engine.model  # type: ignore[assignment]
    if engine.labelled == engine.n_rows and model.single:
        return _closed_form(engine, model, labelled)

    def begins() -> Iterator[tuple[Gaussians, dict[str, Any]]]:
        for i in range(n_init):
            own = values if i == 0 else {}
            theta = _mixture_start(engine, model, labelled, kmeans, own, rng, names, shaken=i > 0)
            yield (theta if empty is None else starts.at_floor(theta, empty, model.floor)), own

    shift = engine.total_weight * engine.frame.log_det
    return best_fit(engine, begins(), n_init, mechanism, solver, max_iter, tol, shift, say, say_more)


def fit_logistic(
    engine: Engine,
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
    few = engine if engine.n_rows <= _CALIBRATION_ROWS else engine.thinned(_CALIBRATION_ROWS)
    information = np.sum(few.mapped(_information, model), axis=0) / few.total_weight
    model.calibrate(information, engine.total_weight)
    origin = np.zeros((model.vectors, model.n_features()))
    alone = mechanism is None or not engine.tempering

    def heard(iteration: int, objective: float) -> None:
        say_more(f"  iteration {iteration}: objective {objective:.6f}")

    if alone:
        # a penalty makes sure of a top, near which Newton steps find the digits; else the climb goes on while it can
        near = [_NEAR_TOL] if np.isfinite(model.C) and origin.size <= _NEWTON_SIZE else []
        begin = origin
        for enough in [*near, 1e-16]:
            with one_thread():
                fit = lbfgs(engine, begin, None, max_iter=max_iter, tol=enough, report=heard)
            with np.errstate(all="ignore"):
                begin, at_top = _newton(engine, model, fit.theta)
            if at_top:
                break
        fit = fit._replace(theta=begin, converged=fit.converged or at_top, sums=None)
        return _with_mechanism(engine, fit, mechanism)

    with one_thread():
        by_labels = lbfgs(engine, origin, None, max_iter=max_iter, tol=tol, report=unheard)

    def begins() -> Iterator[tuple[Array, dict[str, Any]]]:
        given = values.get("coefficients")
        yield (by_labels.theta if given is None else model.from_user(given)), values
        for _ in range(n_init - 1):
            shrunk = rng.uniform(0.3, 1.0) * by_labels.theta
            size = np.sqrt(np.mean(by_labels.theta[:, 1:] ** 2))
            yield shrunk + 0.3 * size * rng.normal(size=shrunk.shape), {}

    fit = best_fit(engine, begins(), n_init, mechanism, "lbfgs", max_iter, tol, 0.0, say, say_more)
    if model.vectors > 1:  # a vector added to all changes no score: they sum to zero, as those of scikit-learn do
        fit = fit._replace(theta=fit.theta - fit.theta.mean(axis=0))
    return fit


def _newton(engine: Engine, model: LinearScores, theta: Array) -> tuple[Array, bool]:
    """Newton steps at the top of the labelled rows' log-likelihood: the last digits, which its values no longer show.

    Returns the coefficients, and whether the last step shows that they are those of the top.
    """
    if theta.size > _NEWTON_SIZE:
        return theta, False
    size = np.inf
    for _ in range(3):
        hessian = np.kron(np.eye(model.vectors), model.penalty_matrix)
        hessian += np.sum(engine.mapped(_hessian, model, theta), axis=0)
        engine.passes[0] += 1
        gradient = engine.sums(theta, None).moments.by_component - model.penalty_slope(theta)
        step = np.linalg.lstsq(hessian, gradient.ravel(), rcond=1e-13)[0].reshape(theta.shape)
        size = np.abs(step).max() / (1.0 + np.abs(theta).max())
        if not size < 1e-2:
            return theta, False  # not near a top: there is none, as with separable classes and no penalty
        theta = theta + step
    return theta, bool(size < 1e-8)


def _information(piece: Piece, model: LinearScores) -> Any:
    phi = model.features(piece.x)
    return along_rows(phi if piece.weight is None else phi * piece.weight, phi)


def _hessian(piece: Piece, model: LinearScores, theta: Array) -> Any:
    labelled = piece.cuts[-1]
    x, weight = piece.x[:, :labelled], None if piece.weight is None else piece.weight[:labelled]
    return model.hessian(like(theta, x), model.features(x), weight)


def best_fit(
    engine: Engine,
    begins: Iterable[tuple[Any, dict[str, Any]]],
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
        for i, (theta, values) in enumerate(begins, start=1):
            # a mechanism of weight 0 is fitted to what the rest gives, afterwards
            mechanisms = _mechanism_starts(engine, theta, mechanism if engine.tempering else None, values)
            for begin in mechanisms:
                fit = SOLVERS[solver](engine, theta, begin, max_iter=max_iter, tol=tol, report=report)
                say(
                    f"start {i} of {n_starts}: log-likelihood {fit.objective + shift:.6f} after {len(fit.trace) - 1} iterations"
                    f"{'' if fit.converged else ', not converged'}"
                )
                if best is None or fit.objective > best.objective:
                    best = fit
        assert best is not None
        return best if engine.tempering else _with_mechanism(engine, best, mechanism)


def _with_mechanism(engine: Engine, fit: Fit, mechanism: Mechanism | None) -> Fit:
    """The fit with a mechanism fitted to what it gives, which its parameters did not feel."""
    if mechanism is None:
        return fit
    alone = engine.alone()
    with np.errstate(all="ignore"):
        begin = starts.mechanism_start(engine, fit.theta, mechanism, {})
        return fit._replace(mechanism=fit_mechanism(alone, fit.theta, begin)[0], sums=None)


def _closed_form(engine: Engine, model: GaussianScores, labelled: GroupMoments) -> Fit:
    """Every row labelled, one component a class: the LDA or QDA estimates, by one M-step."""
    anywhere = starts.labelled_start(model, engine.frame, labelled)
    theta = model.m_step(engine.sums(anywhere, None).moments)
    sums = engine.sums(theta, None)
    return Fit(theta, None, sums.ignorable, [sums.ignorable], True, "closed form", sums)


def _mixture_start(
    engine: Engine,
    model: GaussianScores,
    labelled: GroupMoments,
    kmeans: bool,
    values: dict[str, Any],
    rng: np.random.RandomState,
    names: list[Any],
    shaken: bool,
) -> Gaussians:
    if kmeans:
        theta = starts.kmeans_start(engine, model, rng)
    else:
        single = GaussianScores(model.structure, [1] * len(model.counts), model.floor)
        theta = starts.labelled_start(single, engine.frame, labelled, rng if shaken else None)
        if not model.single and {"weights", "means", "covariances"} <= set(values):
            own = model.owner if model.structure.by_component else slice(None)
            theta = Gaussians(theta.log_pi[model.owner], theta.mu[model.owner], theta.chol[own])
        elif not model.single:
            theta = starts.split_start(engine, model, single, theta, rng, names)
    return starts.user_start(model, engine.frame, theta, values)


def _mechanism_starts(
    engine: Engine, theta: Any, mechanism: Mechanism | None, values: dict[str, Any]
) -> list[Mechanism | None]:
    """A free share begins both at some of it and at none, for these lead to different tops."""
    if mechanism is None:
        return [None]
    begins: list[Mechanism | None] = [starts.mechanism_start(engine, theta, mechanism, values)]
    if mechanism.free_share and "share" not in values:
        begins.append(starts.mechanism_start(engine, theta, mechanism, values | {"share": 0.0}))
    return begins
