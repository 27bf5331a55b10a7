"""Checks of rows and weights; error messages name the column or class and say what to do."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from marmix.core.arrays import LARGEST, AnyArray, Array, Bools, Ints
from marmix.core.files import release

_CHUNK = 65536  # rows checked together


def refuse_sparse(X: Any) -> None:
    """Raise an error for sparse matrices."""
    if issparse(X) or "sparse" in str(getattr(X, "layout", "")):
        raise TypeError(
            f"Sparse data was passed, a matrix of shape {tuple(X.shape)}, but marmix needs dense rows. Reduce the columns, e.g. "
            "make_pipeline(TruncatedSVD(50), MARGaussianMixture()), or use X.toarray() if it fits in memory."
        )


def check_table(X: Any) -> None:
    """Check the shape of an array that is not read into memory."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have shape (rows, features).")
    if isinstance(X.shape[0], int) and X.shape[0] == 0:  # the length of a Dask dataframe is unknown
        raise ValueError(f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")


def in_floats(X: Any, validate: Callable[..., Any]) -> AnyArray:
    """Rows in memory as floats, converted by scikit-learn's `validate_data`; dates are refused."""
    types: list[Any] = list(X.dtypes) if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]
    for name, kind in zip(getattr(X, "columns", ["X"]), types, strict=True):
        if getattr(kind, "kind", "") in ("m", "M") or str(kind).startswith(("Date", "Duration", "Time")):
            raise ValueError(
                f"column {name!r} holds dates or times: turn them into numbers, such as days since an event."
            )
    rows: AnyArray = validate(X, dtype=[np.float64, np.float32], ensure_all_finite=False)
    return rows


def check_finite(
    X: AnyArray, names: Sequence[str], first: int = 0, allow_nan: bool = False, places: Any = None
) -> None:
    """Raise an error that names the first column with NaN (unless allowed), infinity or a number beyond `LARGEST`.

    Row numbers count from `first`; `places` are the row numbers themselves, if the rows are not consecutive.
    """
    for start in range(0, len(X), _CHUNK):
        x = X[start : start + _CHUNK]
        if not x.size or (x.min() >= -LARGEST and x.max() <= LARGEST):  # NaN fails both
            continue
        with np.errstate(invalid="ignore"):
            usable = np.abs(x) <= LARGEST
        if allow_nan:
            usable |= np.isnan(x)
        if usable.all():
            continue
        column = int(np.flatnonzero(~usable.all(axis=0))[0])
        place = int(np.flatnonzero(~usable[:, column])[0])
        value = x[place, column]
        row = first + start + place if places is None else int(places[start + place])
        where = f"in column {names[column]!r} (first in row {row})"
        if np.isfinite(value):
            raise ValueError(
                f"Input X contains {value:.3g} {where}: numbers beyond {LARGEST:g} overflow when they are squared. "
                "Check it, or rescale the column."
            )
        if allow_nan:
            raise ValueError(f"Input X contains infinity {where}: write NaN if it is missing.")
        raise ValueError(
            f"Input X contains {'NaN' if np.isnan(value) else 'infinity'} {where}: only labels may be missing. "
            "Impute the features first (sklearn.impute.SimpleImputer in a pipeline) or drop these rows."
        )


def check_results(values: AnyArray, first: int) -> None:
    """Raise an error that names the first row for which a model computed NaN; row numbers count from `first`."""
    if values.dtype.kind == "f" and np.isnan(values).any():
        row = int(np.isnan(values).reshape(len(values), -1).any(axis=1).argmax())
        raise ValueError(f"The model gives no number for row {first + row}: check its features, or fit again.")


def check_lengths(X: Any, values: Any, name: str = "y") -> None:
    """Check that there are as many labels or weights as rows."""
    if X.shape[0] != values.shape[0]:
        raise ValueError(f"X and {name} have inconsistent numbers of samples: {X.shape[0]} and {values.shape[0]}.")


def check_weights(weight: AnyArray) -> None:
    """Check that weights are finite and not negative."""
    if not np.isfinite(weight).all():
        raise ValueError("Input sample_weight contains NaN or infinity.")
    if (weight < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`: weights must be >= 0.")


def check_weighted_classes(classes: AnyArray, weighted: Bools) -> None:
    """Check that every class has a labelled row of positive weight."""
    for name, has_weight in zip(classes.tolist(), weighted.tolist(), strict=True):
        if not has_weight:
            raise ValueError(
                f"class {name!r} has no labelled row of positive sample_weight: give one a weight, or drop the class."
            )


def file_weights(X: AnyArray, z: Ints, sample_weight: Any, classes: AnyArray) -> AnyArray | None:
    """Checked weights of rows that stay in a file; the weights may be in a file too."""
    if sample_weight is None:
        return None
    weight = sample_weight if isinstance(sample_weight, np.ndarray) else np.asarray(sample_weight, dtype=float)
    check_lengths(X, weight, "sample_weight")
    codes = np.arange(len(classes))
    weighted = np.zeros(len(classes), dtype=bool)
    for start in range(0, len(X), _CHUNK):
        w = np.asarray(weight[start : start + _CHUNK])
        check_weights(w)
        weighted |= np.isin(codes, z[start : start + _CHUNK][w > 0])
        release(weight[start : start + _CHUNK])
    check_weighted_classes(classes, weighted)
    return weight


def checked_weights(X: Any, sample_weight: Any) -> Array:
    """Checked weights of rows in memory."""
    weight = np.asarray(1.0 if sample_weight is None else sample_weight, dtype=float)
    if weight.ndim == 0:
        weight = np.full(X.shape[0], float(weight))
    if weight.shape != (X.shape[0],):
        raise ValueError(f"sample_weight must have shape ({X.shape[0]},), one weight a row; got {weight.shape}.")
    check_weights(weight)
    if not weight.any():
        raise ValueError("every sample_weight is zero: give some rows a positive weight.")
    return weight


def weighted_rows(X: AnyArray, z: Ints, sample_weight: Any, classes: AnyArray) -> tuple[AnyArray, Ints, Array | None]:
    """Rows of positive weight with their labels and weights; all rows if there are no weights."""
    if sample_weight is None:
        return X, z, None
    weight = checked_weights(X, sample_weight)
    counts = weight > 0
    if not counts.all():
        X, z, weight = X[counts], z[counts], weight[counts]
    check_weighted_classes(classes, np.isin(np.arange(len(classes)), z))
    return X, z, weight
