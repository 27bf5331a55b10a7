"""The best maximum over several starts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, along_rows, like
from marmix.fitting import SOLVERS, Fit, Objective, fit_mechanism, lbfgs, no_report, starts
from marmix.likelihood import Block
from marmix.mechanism import Mechanism
from marmix.moments import GroupMoments
from marmix.scores.gaussian import Gaussians, GaussianScores
from marmix.scores.linear import LinearScores
from marmix.workers import one_thread

# Rows used to scale the coordinates of a logistic fit.
_CALIBRATION_ROWS = 4096
# Number of coefficients up to which a fit ends with Newton steps.
_NEWTON_SIZE = 500
# Tolerance of L-BFGS before Newton steps.
_NEAR_TOL = 1e-10


def silent(line: str) -> None:
    """Ignore a line of progress."""


class Search(NamedTuple):
    """Options of the search for the maximum."""

    rng: np.random.RandomState
    values: dict[str, Any]  # user's starting values by name, for the first start
    solver: str = "lbfgs"  # a key of `SOLVERS`
    n_init: int = 1  # number of starts; all but the first are perturbed
    max_iter: int = 1000
    tol: float = 1e-8
    kmeans: bool = False  # whether to start from k-means instead of the labelled rows
    classes: Sequence[Any] = ()  # for error messages
    empty: NDArray[np.bool_] | None = None  # axes of the fit that are zero in all rows, if there are any
    say: Callable[[str], None] = silent  # called with a line of progress for each start
    say_more: Callable[[str], None] = silent  # and for each iteration
    exact: bool = True  # whether a concave objective is maximised from the origin up to rounding, whatever `tol`


def fit_mixture(objective: Objective, labelled: GroupMoments, mechanism: Mechanism | None, search: Search) -> Fit:
    """The best maximum from all starts.

    Parameters
    ----------
    labelled : GroupMoments
        Moments of the labelled rows, in the user's axes.
    mechanism : Mechanism or None
        The mechanism to fit; None to omit it.
    """
    model: GaussianScores = objective.model  # type: ignore[assignment]
    if objective.engine.labelled == objective.engine.n_rows and model.single:
        return _closed_form(objective, model, labelled)

    def all_starts() -> Iterator[tuple[Gaussians, dict[str, Any]]]:
        for i in range(search.n_init):
            values = search.values if i == 0 else {}
            theta = _mixture_start(objective, labelled, search._replace(values=values), perturbed=i > 0)
            yield (theta if search.empty is None else starts.at_floor(theta, search.empty, model.floor)), values

    return _best_fit(objective, all_starts(), mechanism, search)


def fit_logistic(objective: Objective, mechanism: Mechanism | None, search: Search) -> Fit:
    """The best maximum from all starts: the fit to the labelled rows, and perturbed versions of it.

    Without a mechanism the objective is concave, and its maximum is found up to rounding.
    """
    model: LinearScores = objective.model  # type: ignore[assignment]
    engine, rng = objective.engine, search.rng
    sample = objective if engine.n_rows <= _CALIBRATION_ROWS else objective.thinned(_CALIBRATION_ROWS)
    model.calibrate(sample.total(_information) / sample.engine.total_weight, engine.total_weight)
    origin = np.zeros((model.vectors, model.n_features()))
    given = search.values.get("coefficients")
    start = origin if given is None else model.from_user(given)

    def report(iteration: int, value: float) -> None:
        search.say_more(f"  iteration {iteration}: objective {value:.6f}")

    if mechanism is None or not objective.tempering:
        # with a penalty there is a maximum, near which Newton steps converge; otherwise L-BFGS goes on as long as it can
        newton = np.isfinite(model.C) and origin.size <= _NEWTON_SIZE
        theta = origin if search.exact else start
        for tol in [_NEAR_TOL, 1e-16] if newton else [1e-16 if search.exact else search.tol]:
            with one_thread():
                fit = lbfgs(objective, theta, None, max_iter=search.max_iter, tol=tol, report=report)
            with np.errstate(all="ignore"):
                theta, at_maximum = _newton(objective, model, fit.theta)
            if at_maximum:
                break
        fit = fit._replace(theta=theta, converged=fit.converged or at_maximum, sums=None)
        return _with_mechanism(objective, fit, mechanism)

    from_labels = origin
    if given is None or search.n_init > 1:
        with one_thread():
            fit = lbfgs(objective, origin, None, max_iter=search.max_iter, tol=search.tol, report=no_report)
        from_labels = fit.theta

    def all_starts() -> Iterator[tuple[Array, dict[str, Any]]]:
        yield (from_labels if given is None else start), search.values
        for _ in range(search.n_init - 1):
            shrunk = rng.uniform(0.3, 1.0) * from_labels
            size = np.sqrt(np.mean(from_labels[:, 1:] ** 2))
            yield shrunk + 0.3 * size * rng.normal(size=shrunk.shape), {}

    fit = _best_fit(objective, all_starts(), mechanism, search)
    if model.vectors > 1:  # a vector added to all changes no posterior: let them sum to zero, as in scikit-learn
        fit = fit._replace(theta=fit.theta - fit.theta.mean(axis=0))
    return fit


def _newton(objective: Objective, model: LinearScores, theta: Array) -> tuple[Array, bool]:
    """Newton steps near the maximum of the labelled rows' log-likelihood, for the last digits of the coefficients.

    Returns the coefficients, and whether the last step was small enough for convergence.
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
            return theta, False  # not near a maximum; without a penalty, separable classes have none
        theta = theta + step
    return theta, bool(size < 1e-8)


def _information(block: Block, model: LinearScores) -> Any:
    phi = model.features(block.x)
    return along_rows(phi if block.weight is None else phi * block.weight, phi)


def _hessian(block: Block, model: LinearScores, theta: Array) -> Any:
    labelled = block.cuts[-1]
    x, weight = block.x[:, :labelled], None if block.weight is None else block.weight[:labelled]
    return model.hessian(like(theta, x), model.features(x), weight)


def _best_fit(
    objective: Objective,
    all_starts: Iterable[tuple[Any, dict[str, Any]]],
    mechanism: Mechanism | None,
    search: Search,
) -> Fit:
    """The best of the maxima from these starts (parameters, and starting values of the mechanism)."""
    offset, limits = objective.offset, {"max_iter": search.max_iter, "tol": search.tol}

    def report(iteration: int, value: float) -> None:
        search.say_more(f"  iteration {iteration}: log-likelihood {value + offset:.6f}")

    best: Fit | None = None
    with one_thread(), np.errstate(all="ignore"):
        for i, (theta, values) in enumerate(all_starts, start=1):
            # a mechanism of weight 0 is fitted afterwards, with theta fixed
            for start in _mechanism_starts(objective, theta, mechanism if objective.tempering else None, values):
                fit = SOLVERS[search.solver](objective, theta, start, **limits, report=report)
                search.say(
                    f"start {i} of {search.n_init}: log-likelihood {fit.objective + offset:.6f} after {len(fit.trace) - 1} "
                    f"iterations{'' if fit.converged else ', not converged'}"
                )
                if best is None or fit.objective > best.objective:
                    best = fit
        assert best is not None
        return best if objective.tempering else _with_mechanism(objective, best, mechanism)


def _with_mechanism(objective: Objective, fit: Fit, mechanism: Mechanism | None) -> Fit:
    """Add a mechanism to a fit, with the other parameters fixed."""
    if mechanism is None:
        return fit
    with np.errstate(all="ignore"):
        start = starts.mechanism_start(objective, fit.theta, mechanism, {})
        return fit._replace(mechanism=fit_mechanism(objective.untempered(), fit.theta, start)[0], sums=None)


def _closed_form(objective: Objective, model: GaussianScores, labelled: GroupMoments) -> Fit:
    """LDA or QDA estimates by one M-step, if every row is labelled and each class has one component."""
    start = starts.labelled_start(model, objective.engine.frame, labelled)
    theta = model.m_step(objective.sums(start, None).moments)
    sums = objective.sums(theta, None)
    return Fit(theta, None, sums.ignorable, [sums.ignorable], True, "closed form", sums)


def _mixture_start(objective: Objective, labelled: GroupMoments, search: Search, perturbed: bool) -> Gaussians:
    engine, rng = objective.engine, search.rng
    model: GaussianScores = objective.model  # type: ignore[assignment]
    if search.kmeans:
        theta = starts.kmeans_start(engine, model, rng)
    else:
        single = GaussianScores(model.structure, [1] * len(model.counts), model.floor)
        theta = starts.labelled_start(single, engine.frame, labelled, rng if perturbed else None)
        if not model.single and {"weights", "means", "covariances"} <= set(search.values):
            chol = theta.chol[model.owner] if model.structure.by_component else theta.chol
            theta = Gaussians(theta.log_pi[model.owner], theta.mu[model.owner], chol)
        elif not model.single:
            theta = starts.split_start(engine, model, single, theta, rng, search.classes)
    return starts.user_start(model, engine.frame, theta, search.values)


def _mechanism_starts(
    objective: Objective, theta: Any, mechanism: Mechanism | None, values: dict[str, Any]
) -> list[Mechanism | None]:
    """Starting mechanisms, which can lead to different maxima.

    A free share starts both above zero and at zero; free label terms start at zero and at their best values for `theta`.
    """
    if mechanism is None:
        return [None]
    mechanisms: list[Mechanism | None] = [starts.mechanism_start(objective, theta, mechanism, values)]
    if mechanism.free_share and "share" not in values:
        mechanisms.append(starts.mechanism_start(objective, theta, mechanism, values | {"share": 0.0}))
    if mechanism.free_label and "delta" not in values:
        mechanisms.append(starts.label_start(objective, theta, mechanisms[0]))  # type: ignore[arg-type]
    return mechanisms
