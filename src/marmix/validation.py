"""Checks of what users pass in. Every refusal names the column, class or option, and what to do."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight

from marmix.covariance import STRUCTURES
from marmix.missingness import Mechanism
from marmix.solvers import SOLVERS
from marmix.streams import release

Array = NDArray[np.float64]

_CHUNK = 65536  # rows looked at together
MOST_DENSE_FEATURES, MOST_FEATURES = 2000, 5000
STARTS = ("labelled", "kmeans")
START_VALUES = ("weights", "means", "covariances", "alpha", "shape", "share")


def check_parameters(params: Mapping[str, Any]) -> None:
    """Refuse options that no fit could use."""
    if "covariance_type" in params:
        _one_of(params, "covariance_type", STRUCTURES)
        _one_of(params, "solver", SOLVERS)
        _number(
            params,
            "reg_covar",
            Real,
            lambda v: 0 < v < 1,
            "a number between 0 and 1, a fraction of the pooled variance",
        )
        _check_init(params)
    else:
        _number(params, "C", Real, lambda v: v > 0, "a positive number, np.inf for no penalty")
        if params["degree"] not in (1, 2):
            raise ValueError(f"degree={params['degree']!r} must be 1 or 2.")
    if params["shape"] is not None:
        _number(params, "shape", Real, lambda v: True, "None or a finite number >= 0")
    if params["link"] is None:
        if params["shape"] is not None or params["mcar_share"] or params["mechanism_features"]:
            raise ValueError(
                "link=None ignores the mechanism: leave shape=None, mcar_share=False and mechanism_features=None with it."
            )
        Mechanism.from_link(uncertainty=params["uncertainty"])  # the method of that name works without a mechanism
    else:
        Mechanism.from_link(params["link"], params["shape"], params["uncertainty"], params["mcar_share"])
    _number(params, "mechanism_weight", Real, lambda v: 0 <= v <= 1, "a number between 0 and 1")
    _number(params, "n_init", Integral, lambda v: v >= 1, "a whole number, at least 1")
    _number(params, "max_iter", Integral, lambda v: v >= 1, "a whole number, at least 1")
    if params["precision"] not in ("double", "single"):
        raise ValueError(f"precision={params['precision']!r} must be 'double' or 'single'.")
    _number(params, "tol", Real, lambda v: 0 < v < 1, "a number between 0 and 1")


def _check_init(params: Mapping[str, Any]) -> None:
    init = params["init"]
    if isinstance(init, Mapping):
        unknown = [key for key in init if key not in START_VALUES]
        if unknown:
            raise ValueError(f"init has the key {unknown[0]!r}; starting values are {', '.join(START_VALUES)}.")
    else:
        _one_of(params, "init", STARTS, " or a dict of starting values")


def _one_of(params: Mapping[str, Any], name: str, allowed: Sequence[str] | Mapping[str, Any], more: str = "") -> None:
    value = params[name]
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}{more}.")


def _number(params: Mapping[str, Any], name: str, kind: type, holds: Callable[[Any], bool], wanted: str) -> None:
    value = params[name]
    if not isinstance(value, kind) or isinstance(value, bool) or not holds(value):
        raise ValueError(f"{name}={value!r} must be {wanted}.")


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


def check_width(d: int, covariance_type: str = "diag") -> None:
    """Refuse more features than covariance matrices, or moments, can be afforded for, with what to do instead."""
    if d > MOST_FEATURES:
        raise ValueError(
            f"{d} features: no more than {MOST_FEATURES} are supported. Reduce them first, e.g. make_pipeline(PCA(50), ...)."
        )
    if covariance_type in ("full", "tied") and d > MOST_DENSE_FEATURES:
        raise ValueError(
            f"{d} features with covariance_type={covariance_type!r}: a covariance matrix has {d * (d + 1) // 2:,} entries, and "
            f"no more than {MOST_DENSE_FEATURES} features are supported. Use covariance_type='diag', or reduce the features "
            "first, e.g. make_pipeline(PCA(50), MARGaussianMixture())."
        )


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


def feature_columns(features: Sequence[Any] | None, names: Sequence[str]) -> list[int]:
    """Indices of columns given by name or index."""
    columns = []
    if isinstance(features, str):
        raise ValueError(f"mechanism_features={features!r} must be a list of column names or indices.")
    for feature in [] if features is None else features:
        if isinstance(feature, str) and feature in names:
            columns.append(list(names).index(feature))
        elif isinstance(feature, Integral) and not isinstance(feature, bool) and 0 <= int(feature) < len(names):
            columns.append(int(feature))
        else:
            raise ValueError(f"mechanism_features has {feature!r}, but the columns are {', '.join(names[:20])}.")
    if len(set(columns)) < len(columns):
        raise ValueError(f"mechanism_features={features!r} names a column twice.")
    return columns


def component_counts(n_components: Any, classes: NDArray[Any]) -> list[int]:
    """Components of each class, from a number or a dict by class."""
    if isinstance(n_components, Mapping):
        known = classes.tolist()
        unknown = [key for key in n_components if key not in known]
        if unknown:
            raise ValueError(f"n_components names the class {unknown[0]!r}, but the classes are {known}.")
        counts = [n_components.get(name, 1) for name in known]
    else:
        counts = [n_components] * len(classes)
    for count in counts:
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
            raise ValueError(
                f"n_components={n_components!r}: each class needs a whole number of components, at least 1."
            )
    return [int(count) for count in counts]


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
