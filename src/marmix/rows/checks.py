"""Checks of rows, labels and weights. Every refusal names the column or class, and says what to do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight

from marmix.arrays import Array
from marmix.streams import release

_CHUNK = 65536  # rows looked at together


def refuse_sparse(X: Any) -> None:
    """Refuse sparse matrices, with what to do instead."""
    if issparse(X) or "sparse" in str(getattr(X, "layout", "")):
        raise TypeError(
            f"Sparse data was passed, a matrix of shape {tuple(X.shape)}, but marmix needs dense rows: means and covariances are "
            "dense. Reduce the columns first, e.g. make_pipeline(TruncatedSVD(50), MARGaussianMixture()), or use X.toarray() if "
            "it fits in memory."
        )


def check_table(X: Any) -> None:
    """Refuse what is no table of numbers, among arrays that are not brought into memory."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have shape (rows, features).")
    if isinstance(X.shape[0], int) and X.shape[0] == 0:  # of a Dask frame the length is not known
        raise ValueError(f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")
    dtype = getattr(X, "dtype", None)  # a frame has one for every column
    if getattr(dtype, "kind", "c" if "complex" in str(dtype) else "f") not in "fiub":
        raise ValueError(f"X has the type {dtype}: features must be real numbers.")


def check_finite(X: NDArray[np.floating], names: Sequence[str], first: int = 0) -> None:
    """Refuse missing and infinite features, naming the first such column; `first` is the number of the first row."""
    for start in range(0, len(X), _CHUNK):
        chunk = X[start : start + _CHUNK]
        finite = np.isfinite(chunk)
        if finite.all():
            continue
        column = int(np.flatnonzero(~finite.all(axis=0))[0])
        row = start + int(np.flatnonzero(~finite[:, column])[0])
        what = "NaN" if np.isnan(X[row, column]) else "infinity"
        raise ValueError(
            f"Input X contains {what} in column {names[column]!r} (first in row {first + row}): only labels may be missing. "
            "Impute the features first (sklearn.impute.SimpleImputer in a pipeline) or drop these rows."
        )


def file_weights(
    X: NDArray[Any], z: NDArray[np.integer], sample_weight: Any, classes: NDArray[Any]
) -> NDArray[Any] | None:
    """Weights of rows that stay in a file, checked; they may be in a file too."""
    if sample_weight is None:
        return None
    weight = sample_weight if isinstance(sample_weight, np.ndarray) else np.asarray(sample_weight, dtype=float)
    if weight.shape != (len(X),):
        raise ValueError(f"sample_weight must have shape ({len(X)},), one weight a row; got {weight.shape}.")
    left = np.zeros(len(classes), dtype=bool)
    for start in range(0, len(X), _CHUNK):
        w, own = np.asarray(weight[start : start + _CHUNK]), z[start : start + _CHUNK]
        if not np.isfinite(w).all():
            raise ValueError("Input sample_weight contains NaN or infinity.")
        refuse_negative(w)
        if len(classes):
            left[np.unique(own[(w > 0) & (own >= 0)])] = True
        release(weight[start : start + _CHUNK])
    check_weighted_classes(classes, left)
    return weight


def check_lengths(X: Any, beside: Any, name: str = "y") -> None:
    """Refuse rows and labels, or weights, of different numbers."""
    if X.shape[0] != beside.shape[0]:
        raise ValueError(f"X and {name} have inconsistent numbers of samples: {X.shape[0]} and {beside.shape[0]}.")


def refuse_negative(weight: NDArray[Any]) -> None:
    """Refuse negative weights."""
    if (weight < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`: weights must be >= 0.")


def check_weighted_classes(classes: NDArray[Any], left: NDArray[np.bool_]) -> None:
    """Refuse a class of whose labelled rows none has weight."""
    for name, is_left in zip(classes.tolist(), left.tolist(), strict=True):
        if not is_left:
            raise ValueError(
                f"class {name!r} has no labelled row of positive sample_weight: give one a weight, or drop the class."
            )


def weighted_rows(
    X: NDArray[np.floating], z: NDArray[np.integer], sample_weight: Any, classes: NDArray[Any]
) -> tuple[NDArray[np.floating], NDArray[np.integer], Array | None]:
    """Rows that count: those of positive weight, all of them where no weights are given."""
    if sample_weight is None:
        return X, z, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    refuse_negative(weight)
    counts = weight > 0
    if not counts.all():
        X, z, weight = X[counts], z[counts], weight[counts]
    left = np.zeros(len(classes), dtype=bool)
    if len(classes):
        left[np.unique(z[z >= 0])] = True
    check_weighted_classes(classes, left)
    return X, z, weight
