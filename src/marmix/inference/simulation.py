"""Rows drawn from a fitted model: features (of a mixture), labels, and which labels go missing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
        theta, model, frame = estimator._theta, estimator._model, estimator._frame
        component = rng.choice(len(theta.mu), size=len(X), p=np.exp(theta.log_pi))
        spread = model.structure.spread(theta.chol, len(theta.mu))
        noise = rng.normal(size=(len(X), theta.mu.shape[1]))
        x = theta.mu[component] + np.einsum("nij,nj->ni", spread[component], noise)
        rows = x @ frame.unwhitener.T + frame.centre
        z = model.owner[component]
    else:
        z = draw_labels(estimator.predict_proba(rows), rng)
    if missing is None:
        missing = estimator.missing_proba(rows)
    return rows, np.where(rng.uniform(size=len(rows)) < missing, -1, z)
