"""From rows to a maximum: starts, restarts, and the solver between them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from marmix import start
from marmix.engines import NumpyEngine
from marmix.missingness import Mechanism
from marmix.scores import Gaussians, GaussianScores
from marmix.solvers import SOLVERS, Fit


def fit_mixture(
    engine: NumpyEngine,
    labelled: start.ClassMoments,
    mechanism: Mechanism | None,
    *,
    solver: str,
    init: str | Mapping[str, Any],
    n_init: int,
    floor: float,
    max_iter: int,
    tol: float,
    rng: np.random.RandomState,
    say: Callable[[str], None],
    say_more: Callable[[str], None],
) -> Fit:
    """The best maximum from `n_init` starts; the first from `init` as it is, the others shaken.

    Parameters
    ----------
    labelled : ClassMoments
        Moments of the labelled rows, in the user's axes.
    mechanism : Mechanism or None
        Its options; None to leave the mechanism out.
    init : {"labelled", "kmeans"} or mapping
        A mapping gives starting values by name, what is not in it comes from the labelled rows.
    say, say_more : callable
        Take a line for each start, and for each iteration.
    """
    if engine.labelled == engine.x.shape[1] and engine.model.single:
        return _closed_form(engine, labelled, floor)
    shift = engine.total_weight * engine.frame.log_det

    def report(iteration: int, loglik: float) -> None:
        say_more(f"  iteration {iteration}: log-likelihood {loglik + shift:.6f}")

    best: Fit | None = None
    for i in range(n_init):
        values = dict(init) if i == 0 and isinstance(init, Mapping) else {}
        theta = _mixture_start(engine, labelled, init == "kmeans", values, floor, rng, shaken=i > 0)
        for begin in _mechanism_starts(engine, theta, mechanism, values):
            fit = SOLVERS[solver](engine, theta, begin, floor=floor, max_iter=max_iter, tol=tol, report=report)
            say(
                f"start {i + 1} of {n_init}: log-likelihood {fit.loglik + shift:.6f} after {len(fit.trace) - 1} iterations"
                f"{'' if fit.converged else ', not converged'}"
            )
            if best is None or fit.loglik > best.loglik:
                best = fit
    assert best is not None
    return best


def _closed_form(engine: NumpyEngine, labelled: start.ClassMoments, floor: float) -> Fit:
    """Every row labelled, one component a class: the LDA or QDA estimates, by one M-step."""
    anywhere = start.labelled_start(engine.model, engine.frame, labelled, floor)
    theta = engine.model.m_step(engine.sums(anywhere, None).moments, floor)
    loglik = engine.sums(theta, None).loglik
    return Fit(theta, None, loglik, [loglik], True, "closed form", 2)


def _mixture_start(
    engine: NumpyEngine,
    labelled: start.ClassMoments,
    kmeans: bool,
    values: dict[str, Any],
    floor: float,
    rng: np.random.RandomState,
    shaken: bool,
) -> Gaussians:
    model = engine.model
    if kmeans:
        theta = start.kmeans_start(engine, floor, rng)
    else:
        single = GaussianScores(model.structure, [1] * len(model.counts))
        theta = start.labelled_start(single, engine.frame, labelled, floor, rng if shaken else None)
        if not model.single:
            theta = start.split_start(engine, single, theta, floor, rng)
    return start.user_start(model, engine.frame, theta, values, floor)


def _mechanism_starts(
    engine: NumpyEngine, theta: Gaussians, mechanism: Mechanism | None, values: dict[str, Any]
) -> list[Mechanism | None]:
    """A free share begins both at some of it and at none, for these lead to different tops."""
    if mechanism is None:
        return [None]
    starts: list[Mechanism | None] = [start.mechanism_start(engine, theta, mechanism, values)]
    if mechanism.free_share and "share" not in values:
        starts.append(start.mechanism_start(engine, theta, mechanism, values | {"share": 0.0}))
    return starts
