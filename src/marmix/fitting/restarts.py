"""The best maximum over several starts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import Array, Bools, along_rows, like, quiet
from marmix.core.covariance import structure
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.core.likelihood import Block
from marmix.core.linear import LinearScores
from marmix.core.mechanism import Mechanism
from marmix.core.moments import GroupMoments
from marmix.core.student import TAIL_MIN, Students, StudentScores
from marmix.core.workers import one_thread
from marmix.fitting import SOLVERS, Fit, Objective, fit_mechanism, lbfgs, starts
from marmix.fitting.row_space import RowSpace

# Rows used to scale the coordinates of a logistic fit.
_CALIBRATION_ROWS = 4096
# Number of coefficients up to which a fit ends with Newton steps; multiplications for a Hessian up to which it begins with them.
_NEWTON_SIZE, _NEWTON_WORK = 500, 2e7
# Tolerance of L-BFGS before Newton steps.
_NEAR_TOL = 1e-10
# Starting values of 1 / nu of a Student mixture: the Gaussian limit, and heavy tails.
_TAILS = (TAIL_MIN, 0.25)
# With n_init="auto": the number of starts if there are fewer labels per parameter than the second number; the number of these
# starts that are followed to their maxima, and the iterations after which the worse half of the others is given up first.
_STARTS, _VERY_FEW, _FINISHED, _SHORT = 16, 2, 4, 5
# Labels per parameter below which submodels are fitted too, and limits of this and of several starts: of the parameters, and of
# rows times parameters.
_FEW, _MOST_PARAMETERS, _CHEAP = 5, 500, 2_000_000
# Tolerance of submodels.
_ROUGH_TOL = 1e-5
# Starts of a logistic regression with n_init="auto", and with squares and products and few labels, where maxima are many.
_LOGISTIC_STARTS, _QUADRATIC_STARTS = 2, 4
# Loss per labelled row below which classes may be separable; the factor of the coefficients by which that is tested, and the
# decrease of the objective that counts as none.
_SEPARATED, _LARGER, _SAME = 0.01, 1.05, 1e-3


def silent(line: str) -> None:
    """Ignore a line of progress."""


class Search(NamedTuple):
    """Options of the search for the maximum."""

    rng: np.random.RandomState
    values: dict[str, Any]  # of the previous fit, for the first start of a warm start
    solver: str = "lbfgs"  # a key of `SOLVERS`
    n_init: int | str = 1  # number of starts; all but the first are perturbed. "auto": several if labels are few
    max_iter: int = 1000
    tol: float = 1e-8
    kmeans: bool = False  # whether to start from k-means instead of the labelled rows
    classes: Sequence[Any] = ()  # for error messages
    empty: Bools | None = None  # axes of the fit that are zero in all rows, if there are any
    say: Callable[[str], None] = silent  # called with a line of progress for each start
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
    if mechanism is None and objective.engine.labelled == objective.engine.n_rows and model.single:
        return _closed_form(objective, model, labelled)

    auto, by_labels = search.n_init == "auto", search._replace(values={}, kmeans=False)

    def start(search: Search, perturbed: bool) -> Gaussians:
        theta = _mixture_start(objective, labelled, search, perturbed)
        return theta if search.empty is None else starts.at_floor(theta, search.empty, model.floor)

    first = start(search, perturbed=False)
    automatic = auto and not search.values
    several = automatic and _few_labels(objective, first, mechanism, _VERY_FEW)
    n_init = _STARTS if several else 1 if auto else int(search.n_init)
    others = by_labels if auto else search._replace(values={})
    all_starts = [(first, search.values)]
    if auto and search.kmeans:
        all_starts.append((start(by_labels, perturbed=False), {}))
    all_starts += [(start(others, perturbed=True), {}) for _ in range(n_init - 1)]
    if mechanism is not None and mechanism.free_label and not search.values:
        without = replace(mechanism, label=(), free_label=False)
        null = fit_mixture(objective, labelled, without, search._replace(say=silent))
        no_effect = (0.0,) * len(mechanism.label)
        all_starts.append((null.theta, _values_of(null.mechanism) | {"delta": no_effect}))
    fit = _best_fit(objective, all_starts, mechanism, search, halving=several)
    for submodel in _submodels(objective, labelled, fit.mechanism, by_labels) if several else ():
        if submodel.objective > fit.objective:
            with one_thread(), quiet():
                higher = _climb(objective, submodel, search, search.max_iter)
            fit = higher._replace(maxima=(*fit.maxima, higher.objective))
    return fit


def _few_labels(objective: Objective, theta: Any, mechanism: Mechanism | None, least: float) -> bool:
    """Whether there are fewer labels per parameter than `least`, so that there may be several maxima, and fits are cheap."""
    size = objective.model.chart(theta).size + (0 if mechanism is None else len(mechanism.alpha))
    few = objective.engine.labelled < least * size
    return few and size <= _MOST_PARAMETERS and objective.engine.n_rows * size <= _CHEAP


def _submodels(
    objective: Objective, labelled: GroupMoments, mechanism: Mechanism | None, search: Search
) -> Iterator[Fit]:
    """Rough fits of submodels as points of the model: without the mechanism, with tied covariances, with one component a class.

    A free shape is held at that of `mechanism`.
    """
    model: GaussianScores = objective.model  # type: ignore[assignment]
    search = search._replace(n_init=1, tol=max(search.tol, _ROUGH_TOL), say=silent)
    held = None if mechanism is None else replace(mechanism, free_shape=False)

    def point(theta: Gaussians, mechanism: Mechanism | None) -> Fit:
        value = objective.value(theta, objective.sums(theta, mechanism))
        return Fit(theta, mechanism, value, [value], False, "")

    with quiet():
        if mechanism is not None and objective.tempering:
            theta = fit_mixture(objective, labelled, None, search).theta
            yield point(theta, starts.mechanism_start(objective, theta, mechanism, {}))
        smaller = []
        if model.structure.name == "full":
            tied = structure("tied", labelled.mean.shape[1])
            smaller.append(GaussianScores(tied, model.counts, model.floor))
        if not model.single:
            smaller.append(GaussianScores(model.structure, [1] * len(model.counts), model.floor))
        for submodel in smaller:
            fit = fit_mixture(replace(objective, model=submodel), labelled, held, search)
            log_pi, mu, chol = fit.theta
            if len(mu) < len(model.owner):
                log_pi = log_pi[model.owner] - np.log(np.array(model.counts))[model.owner]
                mu, chol = mu[model.owner], chol[model.owner] if model.structure.by_component else chol
            if submodel.structure is not model.structure:
                chol = np.broadcast_to(chol, (len(mu), *chol.shape[-2:])).copy()
            freed = fit.mechanism
            if freed is not None and mechanism is not None:
                freed = replace(freed, free_shape=mechanism.free_shape)
            yield point(Gaussians(log_pi, mu, chol), freed)


def fit_student(objective: Objective, labelled: GroupMoments, mechanism: Mechanism | None, search: Search) -> Fit:
    """The best maximum from the Gaussian fit, in the limit of many degrees of freedom and with heavy tails.

    Unless the degrees of freedom are given, no maximum is below that of the Gaussian mixture.
    """
    model: StudentScores = objective.model  # type: ignore[assignment]
    gaussian = replace(objective, model=model.gaussian())
    fit = fit_mixture(gaussian, labelled, mechanism, search)
    tails: Sequence[Any] = _TAILS if model.n_tails else [1.0 / float(model.dof)]
    values = _values_of(fit.mechanism)
    all_starts: list[tuple[Students, dict[str, Any]]] = [(model.with_tail(fit.theta, tail), values) for tail in tails]
    if "dof" in search.values and model.n_tails:
        tail = 1.0 / search.values["dof"][model.owner]
        if model.dof == "common":
            tail = tail.mean()
        theta = _mixture_start(gaussian, labelled, search, perturbed=False)
        theta = theta if search.empty is None else starts.at_floor(theta, search.empty, model.floor)
        all_starts.append((model.with_tail(theta, tail), search.values))
    return _best_fit(objective, all_starts, mechanism, search)._replace(maxima=fit.maxima)


def _values_of(mechanism: Mechanism | None) -> dict[str, Any]:
    """A fitted mechanism as starting values."""
    if mechanism is None:
        return {}
    return {"alpha": mechanism.alpha, "delta": mechanism.label, "shape": mechanism.shape, "share": mechanism.share}


def fit_logistic(
    objective: Objective, mechanism: Mechanism | None, search: Search, space: RowSpace | None = None
) -> Fit:
    """The best maximum from all starts: the fit to the labelled rows, and perturbed versions of it.

    Without a mechanism the objective is concave, and its maximum is found up to rounding. `space` is given if the objective is
    that of a row space: starts are then those of the original fit.
    """
    if space is None and RowSpace.helps(objective):
        space = RowSpace(objective)
        fit = fit_logistic(space.objective, mechanism, search._replace(values=space.enter(search.values)), space)
        return fit._replace(theta=space.leave(fit.theta), sums=None)
    model: LinearScores = objective.model  # type: ignore[assignment]
    engine, rng = objective.engine, search.rng
    sample = objective if engine.n_rows <= _CALIBRATION_ROWS else objective.thinned(_CALIBRATION_ROWS)
    model.calibrate(sample.total(_information) / sample.engine.total_weight, engine.total_weight)
    origin = np.zeros((model.vectors, model.n_features()))
    given = search.values.get("coefficients")
    start = origin if given is None else model.from_user(given)

    if mechanism is None or not objective.tempering:
        # with a penalty there is a maximum, near which Newton steps converge; otherwise L-BFGS goes on as long as it can
        newton = np.isfinite(model.C) and origin.size <= _NEWTON_SIZE
        theta = origin if search.exact else start
        if newton and engine.labelled * origin.size**2 <= _NEWTON_WORK:
            with one_thread(), np.errstate(all="ignore"):
                theta, _ = _newton(objective, model, theta, most=30)
        for tol in [_NEAR_TOL, 1e-16] if newton else [1e-16 if search.exact else search.tol]:
            with one_thread():
                fit = lbfgs(objective, theta, None, max_iter=search.max_iter, tol=tol)
            with quiet():
                theta, at_maximum = _newton(objective, model, fit.theta)
            if at_maximum:
                break
        fit = fit._replace(theta=theta, converged=fit.converged or at_maximum, sums=None)
        return _with_mechanism(objective, fit, mechanism)

    n_init = _LOGISTIC_STARTS if search.n_init == "auto" else int(search.n_init)
    if search.n_init == "auto" and model.degree == 2 and _few_labels(objective, origin, mechanism, _FEW):
        n_init = _QUADRATIC_STARTS
    all_starts = [(start, search.values)]
    if given is None or n_init > 1:
        with one_thread():
            fit = lbfgs(objective, origin, None, max_iter=search.max_iter, tol=search.tol)
        centre = fit.theta if space is None else space.leave(fit.theta)
        all_starts = [(fit.theta if given is None else start, search.values)]
        if model.C > 1.0 and _separated(objective, fit.objective):  # the labels may have no finite maximum
            penalised = _penalised(objective if space is None else space.original, mechanism, search)
            centre = penalised.theta
            assert penalised.mechanism is not None
            values = {"alpha": penalised.mechanism.alpha, "share": penalised.mechanism.share}
            all_starts.append((centre if space is None else space.project(centre), values))
    for _ in range(n_init - 1):
        size = np.sqrt(np.mean(centre[:, 1:] ** 2))
        perturbed = rng.uniform(0.3, 1.0) * centre + 0.3 * size * rng.normal(size=centre.shape)
        all_starts.append((perturbed if space is None else space.project(perturbed), {}))
    fit = _best_fit(objective, all_starts, mechanism, search)
    if model.vectors > 1:  # a vector added to all changes no posterior: let them sum to zero, as in scikit-learn
        fit = fit._replace(theta=fit.theta - fit.theta.mean(axis=0))
    return fit


def _separated(objective: Objective, loglik_of_labels: float) -> bool:
    """Whether the labelled rows of a logistic regression are almost perfectly predicted."""
    engine = objective.engine
    return loglik_of_labels > -_SEPARATED * engine.labelled * engine.total_weight / engine.n_rows


def _penalised(objective: Objective, mechanism: Mechanism, search: Search) -> Fit:
    """The fit with a penalty of C = 1 on the coefficients in the axes of the fit; a free shape is held at 1."""
    model: LinearScores = objective.model  # type: ignore[assignment]
    scores = LinearScores(model.d, model.n_classes, model.degree, 1.0, np.zeros(model.d), np.ones(model.d))
    search = search._replace(n_init="auto", values={}, say=silent)
    return fit_logistic(replace(objective, model=scores), replace(mechanism, free_shape=False), search)


def runs_off(objective: Objective, theta: Array, mechanism: Mechanism | None) -> bool:
    """Whether a logistic regression has no finite maximum here: larger coefficients, with their mechanism, fit no worse."""
    sums = objective.sums(theta, mechanism)
    if not _separated(objective, sums.ignorable):
        return False
    larger = _LARGER * theta
    with quiet():
        if mechanism is not None and objective.tempering:
            before, after = (
                objective.driver_sample(t, mechanism, _CALIBRATION_ROWS).drivers[0] for t in (theta, larger)
            )
            alpha = np.array(mechanism.alpha)
            alpha[1] *= before.mean() / after.mean()  # the certainty of rows changes by orders of magnitude
            scaled = mechanism.moved(alpha) if np.isfinite(alpha).all() else mechanism
            anew = starts.mechanism_start(objective, larger, mechanism, {})
            fits = [fit_mechanism(objective, larger, start) for start in (scaled, anew)]
            mechanism = max(fits, key=lambda fit: fit[1])[0]
        change = objective.value(larger, objective.sums(larger, mechanism)) - objective.value(theta, sums)
    return bool(change > -_SAME)


def _newton(objective: Objective, model: LinearScores, theta: Array, most: int = 3) -> tuple[Array, bool]:
    """Newton steps to the maximum of the labelled rows' log-likelihood, halved where it falls; three only if it is near.

    Returns the coefficients, and whether the last step was small enough for convergence.
    """
    if theta.size > _NEWTON_SIZE:
        return theta, False
    size, sums = np.inf, objective.sums(theta, None)
    for _ in range(most):
        hessian = np.kron(np.eye(model.vectors), model.penalty_matrix)
        hessian += objective.total(_hessian, theta)
        objective.passes[0] += 1
        gradient = sums.moments.by_component - model.penalty_slope(theta)
        step = np.linalg.lstsq(hessian, gradient.ravel(), rcond=1e-13)[0].reshape(theta.shape)
        size = np.abs(step).max() / (1.0 + np.abs(theta).max())
        if most == 3 and not size < 1e-2:
            return theta, False  # not near a maximum; without a penalty, separable classes have none
        value, after = objective.value(theta, sums), objective.sums(theta + step, None)
        while size > 1e-6 and not objective.value(theta + step, after) > value:
            step, size = step / 2.0, size / 2.0
            after = objective.sums(theta + step, None)
        theta, sums = theta + step, after
        if size < 1e-8:
            break
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
    all_starts: Sequence[tuple[Any, dict[str, Any]]],
    mechanism: Mechanism | None,
    search: Search,
    halving: bool = False,
) -> Fit:
    """The best of the maxima from these starts (parameters, and starting values of the mechanism).

    With `halving` only the better half of many starts goes on after a few iterations, twice as far, and so on.
    """
    # a mechanism of weight 0 is fitted afterwards, with theta fixed
    fitted = mechanism if objective.tempering else None
    with one_thread(), quiet():
        fits = [
            Fit(theta, start, -np.inf, [], False, "")
            for theta, values in all_starts
            for start in _mechanism_starts(objective, theta, fitted, values)
        ]
        iterations = _SHORT
        while halving and len(fits) > _FINISHED:
            fits = [_climb(objective, fit, search, iterations) for fit in fits]
            fits = sorted(fits, key=_objective_of, reverse=True)[: max(len(fits) // 2, _FINISHED)]
            iterations *= 2
        ends = [_climb(objective, fit, search, search.max_iter) for fit in fits]
        for i, fit in enumerate(ends, start=1):
            search.say(
                f"start {i} of {len(ends)}: log-likelihood {fit.objective + objective.offset:.6f} after "
                f"{len(fit.trace) - 1} iterations{'' if fit.converged else ', not converged'}"
            )
        best = max(ends, key=_objective_of)._replace(maxima=tuple(map(_objective_of, ends)))
        return best if objective.tempering else _with_mechanism(objective, best, mechanism)


def _objective_of(fit: Fit) -> float:
    return fit.objective


def _climb(objective: Objective, fit: Fit, search: Search, iterations: int) -> Fit:
    """Continue a fit for at most so many iterations, and `max_iter` in all."""
    used = max(len(fit.trace) - 1, 0)
    if fit.converged or used >= search.max_iter:
        return fit
    most = min(iterations, search.max_iter - used)
    further = SOLVERS[search.solver](objective, fit.theta, fit.mechanism, max_iter=most, tol=search.tol)
    trace = [*fit.trace[:-1], *further.trace]
    used_up = not further.converged and len(trace) > search.max_iter
    reason = f"max_iter={search.max_iter} iterations were used up" if used_up else further.reason
    return further._replace(trace=trace, reason=reason)


def _with_mechanism(objective: Objective, fit: Fit, mechanism: Mechanism | None) -> Fit:
    """Add a mechanism to a fit, with the other parameters fixed."""
    if mechanism is None:
        return fit
    with quiet():
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
    if "means" in search.values:
        return starts.previous_start(model, engine.frame, search.values)
    if search.kmeans:
        return starts.kmeans_start(engine, model, rng)
    single = GaussianScores(model.structure, [1] * len(model.counts), model.floor)
    theta = starts.labelled_start(single, engine.frame, labelled, rng if perturbed else None)
    return theta if model.single else starts.split_start(engine, model, single, theta, rng, search.classes)


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
