"""Shares of rows in bins of equally many rows, and Wilson intervals."""

import numpy as np
from scipy.stats import norm

from marmix.core.arrays import Array, Ints


def even_bins(values: Array, n_bins: int) -> Ints:
    """The bin of each row. Bins hold about equally many rows; equal values share a bin."""
    if n_bins < 1:
        raise ValueError(f"n_bins={n_bins!r} must be at least 1.")
    inner = np.unique(np.quantile(values, np.arange(1, n_bins) / n_bins))
    return np.asarray(np.unique(np.searchsorted(inner, values, side="right"), return_inverse=True)[1])


def wilson(rate: Array, n: Array | Ints, alpha: float) -> tuple[Array, Array]:
    """Wilson interval for a rate among n rows; n may be an effective number of weighted rows.

    ``(p + z²/2n ± z sqrt(p (1 - p) / n + z²/4n²)) / (1 + z²/n)``
    """
    z = float(norm.isf(alpha / 2.0))
    centre = (rate + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
    half = z * np.sqrt(rate * (1.0 - rate) / n + (z / (2.0 * n)) ** 2) / (1.0 + z**2 / n)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
