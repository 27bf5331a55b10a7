"""Rows drawn from a fitted model, and estimators refitted to other rows or with other settings."""

import warnings
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from marmix.core.arrays import AnyArray, Array, Ints
from marmix.core.model import FittedModel
from marmix.core.student import StudentScores


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """A SeedSequence to spawn independent streams from.

    An int gives the same streams every time; a Generator or RandomState advances, so a second call gives different ones.
    """
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.SeedSequence(random_state)
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    return np.random.SeedSequence(check_random_state(random_state).randint(2**31 - 1, size=4).tolist())


def draw_labels(proba: Array, rng: np.random.Generator) -> Ints:
    """A class for every row of probabilities (n, K)."""
    steps = np.cumsum(proba, axis=1)
    return (rng.uniform(size=len(proba))[:, None] * steps[:, -1:] > steps[:, :-1]).sum(axis=1)


def simulate(estimator: Any, X: AnyArray, rng: np.random.Generator, missing: Array | float) -> tuple[Array, Ints]:
    """As many rows as X has, drawn from a fitted estimator; labels 0, 1, ..., -1 with probability `missing`.

    A logistic regression does not model the features: its rows are X.
    """
    rows = np.asarray(X, dtype=float)
    if estimator.model_.score_model.joint:
        rows, z = _mixture_rows(estimator.model_, len(rows), rng)
    else:
        z = draw_labels(estimator.predict_proba(rows), rng)
    return rows, np.where(rng.uniform(size=len(rows)) < missing, -1, z)


def _mixture_rows(model: FittedModel, n: int, rng: np.random.Generator) -> tuple[Array, Ints]:
    """Features of n rows of a mixture, and their classes."""
    theta, scores, frame = model.theta, model.score_model, model.frame
    components, d = theta.mu.shape
    component = rng.choice(components, size=n, p=np.exp(theta.log_pi))
    x = rng.normal(size=(n, d))
    if isinstance(scores, StudentScores):
        dof = 1.0 / theta.tail[component]
        x /= np.sqrt(rng.chisquare(dof) / dof)[:, None]
    for c, spread in enumerate(scores.structure.spread(theta.chol, components)):  # type: ignore[attr-defined]
        members = component == c
        x[members] = theta.mu[c] + x[members] @ spread.T
    return x @ frame.unwhitener.T + frame.centre, scores.owner[component]


def refit(
    estimator: Any,
    X: AnyArray,
    z: AnyArray,
    weight: Array | None = None,
    missing: Any = None,
    *,
    warm: bool = True,
    **settings: Any,
) -> Any:
    """A copy of the estimator with these settings, fitted to these rows without warnings.

    `warm` starts from the estimator's own fit, otherwise the fit starts from scratch.
    """
    copied = copy(estimator) if warm else clone(estimator)
    copied.set_params(warm_start=warm, **settings)
    if copied.random_state is None:  # results must not depend on NumPy's global state
        copied.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copied.fit(X, z, weight, missing)
