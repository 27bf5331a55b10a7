"""Pseudo-labels: the weight of every class in a row of partially labelled data.

    weighted       r_jk = w_j 1{y_j = k} of labelled rows,                          w_j = 1 / (1 - q_j)
    doubly robust  r_jk = tau_jk + (1 - m_j) w_j (1{y_j = k} - tau_jk) of all rows

See `marmix.evaluation` for what they estimate, and why weights are truncated.
"""

import numpy as np
from numpy.typing import ArrayLike

from marmix.arrays import Array


def pseudo_labels(indicator: Array, q: Array, posterior: Array | None) -> tuple[Array, Array, int]:
    """r of all rows, the weights of the labelled rows, and the number of truncated weights.

    `indicator` (n, K) is one at the label of a row, zero for unlabelled rows. Without a posterior, tau is zero in the doubly
    robust formula.
    """
    labelled = np.asarray(indicator.any(axis=1))
    weight, n_truncated = inverse_weights(q[labelled], len(labelled))
    r = np.zeros(indicator.shape) if posterior is None else posterior.copy()
    r[labelled] += weight[:, None] * (indicator[labelled] - r[labelled])
    return r, weight, n_truncated


def checked_posterior(posterior: ArrayLike, shape: tuple[int, ...]) -> Array:
    """The posteriors as an array, checked."""
    tau = np.asarray(posterior, dtype=float)
    if tau.shape != shape or not np.allclose(tau.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError(f"posterior must have shape {shape} and rows that sum to one.")
    return tau


def inverse_weights(q: Array, n: int) -> tuple[Array, int]:
    """``1 / (1 - q)`` of the labelled among n rows, truncated at `largest_weight`, and the number of truncated weights."""
    with np.errstate(divide="ignore"):
        w = 1.0 / (1.0 - q)
    if not np.isfinite(w).all():
        raise ValueError("missing_proba is 1 for a labelled row: it must be below 1 for every labelled row.")
    limit = largest_weight(len(w), n)
    return np.minimum(w, limit), int((w > limit).sum())


def largest_weight(n_labelled: int, n: int) -> float:
    """The largest weight, ``sqrt(n_labelled) n / n_labelled``."""
    return float(np.sqrt(n_labelled)) * n / n_labelled
