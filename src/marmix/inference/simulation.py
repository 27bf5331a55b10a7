"""Rows drawn from a fitted model: features (of a mixture), labels, and which labels go missing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from marmix.arrays import Array


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """What independent streams are spawned from: of an int, a Generator, a RandomState, or None for other ones every time.

    An int gives the same streams every time; a Generator or RandomState moves on, so that a second call gives others.
    """
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.SeedSequence(random_state)
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    return np.random.SeedSequence(check_random_state(random_state).randint(2**31 - 1, size=4).tolist())


def draw_labels(proba: Array, rng: np.random.Generator) -> NDArray[np.integer[Any]]:
    """A class for every row of probabilities (n, K)."""
    steps = np.cumsum(proba, axis=1)
    return (rng.uniform(size=len(proba))[:, None] * steps[:, -1:] > steps[:, :-1]).sum(axis=1)


def simulate(
    estimator: Any, X: NDArray[Any], rng: np.random.Generator, missing: Array | float | None = None
) -> tuple[Array, NDArray[np.integer[Any]]]:
    """As many rows as X has, drawn from a fitted estimator; labels 0, 1, ..., -1 where missing.

    A logistic regression says nothing of the features: its rows are X.

    Parameters
    ----------
    missing : float or array of shape (n,), or None
        Probability that a label is missing, instead of the estimator's own mechanism.
    """
    rows = np.asarray(X, dtype=float)
    if estimator._model.joint:
        rows, z = _gaussian_rows(estimator, len(rows), rng)
    else:
        z = draw_labels(estimator.predict_proba(rows), rng)
    if missing is None:
        missing = estimator.missing_proba(rows)
    return rows, np.where(rng.uniform(size=len(rows)) < missing, -1, z)


def _gaussian_rows(estimator: Any, n: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.integer[Any]]]:
    """Features of n rows of a mixture, and their classes."""
    theta, model, frame = estimator._theta, estimator._model, estimator._frame
    components, d = theta.mu.shape
    component = rng.choice(components, size=n, p=np.exp(theta.log_pi))
    x = rng.normal(size=(n, d))
    for c, spread in enumerate(model.structure.spread(theta.chol, components)):
        own = component == c
        x[own] = theta.mu[c] + x[own] @ spread.T
    return x @ frame.unwhitener.T + frame.centre, model.owner[component]
