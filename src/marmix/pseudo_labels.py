"""Pseudo-labels: how often a row counts as one of each class when only some rows have labels.

    weighted       r_jk = w_j 1{y_j = k} of labelled rows,                          w_j = 1 / (1 - q_j)
    doubly robust  r_jk = tau_jk + (1 - m_j) w_j (1{y_j = k} - tau_jk) of all rows

`marmix.evaluation` says what they estimate, and why weights are cut.
"""

import numpy as np
from numpy.typing import ArrayLike

from marmix.arrays import Array


def pseudo_labels(indicator: Array, q: Array, posterior: Array | None) -> tuple[Array, Array, int]:
    """r of all rows, the weights of the labelled ones, and how many of these were cut.

    `indicator` (n, K) tells the labels, zero where there is none. Without posterior, tau is zero in the doubly robust formula.
    """
    known = np.asarray(indicator.any(axis=1))
    weight, n_truncated = inverse_weights(q[known], len(known))
    r = np.zeros(indicator.shape) if posterior is None else posterior.copy()
    r[known] += weight[:, None] * (indicator[known] - r[known])
    return r, weight, n_truncated


def checked_posterior(posterior: ArrayLike, shape: tuple[int, ...]) -> Array:
    """The user's posteriors as an array of probabilities."""
    tau = np.asarray(posterior, dtype=float)
    if tau.shape != shape or not np.allclose(tau.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError(f"posterior must have shape {shape} and rows that sum to one.")
    return tau


def inverse_weights(q: Array, n: int) -> tuple[Array, int]:
    """``1 / (1 - q)`` of the labelled ones among n rows, cut at sqrt(n_labelled) n / n_labelled; and how many were cut."""
    with np.errstate(divide="ignore"):
        w = 1.0 / (1.0 - q)
    if not np.isfinite(w).all():
        raise ValueError(
            "missing_proba is 1 for a labelled row: it must leave every labelled row a chance of its label."
        )
    limit = largest_weight(len(w), n)
    return np.minimum(w, limit), int((w > limit).sum())


def largest_weight(n_labelled: int, n: int) -> float:
    """Where weights are cut."""
    return float(np.sqrt(n_labelled)) * n / n_labelled
