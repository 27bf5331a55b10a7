"""Checks of the estimators' parameters."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any

from numpy.typing import NDArray

from marmix.core.covariance import STRUCTURES
from marmix.core.mechanism import Mechanism
from marmix.core.student import DOFS
from marmix.fitting import SOLVERS

MOST_DENSE_FEATURES, MOST_FEATURES = 2000, 5000
# Number of features above which covariance matrices need more rows than features: with fewer they are not determined.
_MOST_SINGULAR = 500
# Number of features above which squares and products are too many.
_MOST_SQUARED = 100
STARTS = ("labelled", "kmeans")
_MECHANISM_VALUES = ("alpha", "delta", "shape", "share")
_START_VALUES = ("weights", "means", "covariances", *_MECHANISM_VALUES)
_STUDENT_START_VALUES = ("weights", "means", "scales", "dof", *_MECHANISM_VALUES)


def check_parameters(params: Mapping[str, Any]) -> None:
    """Raise ValueError for parameters that cannot be used."""
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
        names: tuple[str, ...] = _START_VALUES
        if "dof" in params:
            names = _STUDENT_START_VALUES
            if not isinstance(params["dof"], str) or params["dof"] not in DOFS:
                wanted = "'common', 'by_class' or a number from 1 on"
                _number(params, "dof", Real, lambda v: v >= 1, wanted)
            if params["solver"] == "ecm":
                raise ValueError(
                    "solver='ecm' is for Gaussian mixtures: use solver='lbfgs', which estimates dof as well."
                )
        init = params["init"]
        if not isinstance(init, Mapping):
            _one_of(params, "init", STARTS, " or a dict of starting values")
        elif unknown := [key for key in init if key not in names]:
            raise ValueError(f"init has the key {unknown[0]!r}; starting values are {', '.join(names)}.")
    elif "gamma" in params:
        _number(params, "C", Real, lambda v: v > 0, "'auto' or a positive number", "auto")
        _number(params, "gamma", Real, lambda v: 0 < v < float("inf"), "'auto' or a positive number", "auto")
        _number(params, "n_landmarks", Integral, lambda v: v >= 1, "a whole number, at least 1")
        if params["cv"] is None and "auto" in (params["C"], params["gamma"], params["mechanism_weight"]):
            raise ValueError("cv=None holds no rows out: give numbers for C, gamma and mechanism_weight with it.")
    elif "num_leaves" in params:
        _check_trees(params)
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
        Mechanism.from_link(measure=params["measure"])  # estimator.uncertainty(X) works without a mechanism
    else:
        Mechanism.from_link(params["link"], params["shape"], params["measure"], params["mcar_share"])
    _number(params, "mechanism_weight", Real, lambda v: 0 <= v <= 1, "'auto' or a number between 0 and 1", "auto")
    if params.get("delta") is not None:
        _check_delta(params)
    if "num_leaves" in params:
        return
    if "n_init" in params:
        _number(params, "n_init", Integral, lambda v: v >= 1, "'auto' or a whole number, at least 1", "auto")
    _number(params, "max_iter", Integral, lambda v: v >= 1, "a whole number, at least 1")
    if params["precision"] not in ("double", "single"):
        raise ValueError(f"precision={params['precision']!r} must be 'double' or 'single'.")
    _number(params, "tol", Real, lambda v: 0 < v < 1, "a number between 0 and 1")


def _check_delta(params: Mapping[str, Any]) -> None:
    """Raise ValueError for a label term that cannot be used; its classes are checked by `label_terms`."""
    delta = params["delta"]
    if isinstance(delta, Mapping):
        for name, value in delta.items():
            if not isinstance(value, Real) or isinstance(value, bool) or not isfinite(value):
                raise ValueError(f"delta has {value!r} for class {name!r}: give a finite number, the shift of eta.")
    elif not isinstance(delta, str) or delta != "estimate":
        raise ValueError(
            f"delta={delta!r} must be None, 'estimate', or a dict of numbers by class, such as {{1: 0.7}}."
        )
    if params["link"] is None:
        raise ValueError("link=None ignores the mechanism: leave delta=None with it, or give a link.")
    if params["mechanism_weight"] == "auto":
        raise ValueError(
            "mechanism_weight='auto' compares weights by held-out labels, which a label term makes unrepresentative: "
            "give a number with delta."
        )


def label_terms(delta: Any, classes: NDArray[Any]) -> tuple[float, ...]:
    """The label term of each class, zeros if they are to be estimated; empty if there is none or all are zero."""
    names = classes.tolist()
    if delta is None:
        return ()
    if not isinstance(delta, Mapping):
        return (0.0,) * len(names)
    unknown = [key for key in delta if key not in names]
    if unknown:
        raise ValueError(f"delta names the class {unknown[0]!r}, but the classes are {names}.")
    terms = tuple(float(delta.get(name, 0.0)) for name in names)
    return terms if any(terms) else ()


def _check_trees(params: Mapping[str, Any]) -> None:
    """Raise ValueError for options of boosted trees that cannot be used."""
    share = "a number above 0, at most 1"
    _number(params, "n_estimators", Integral, lambda v: v >= 1, "'auto' or a whole number, at least 1", "auto")
    _number(params, "max_estimators", Integral, lambda v: v >= 1, "a whole number, at least 1")
    _number(params, "learning_rate", Real, lambda v: 0 < v <= 1, share)
    _number(params, "num_leaves", Integral, lambda v: 2 <= v <= 2**17, "a whole number from 2 to 131072")
    _number(params, "max_depth", Integral, lambda v: v != 0, "a whole number other than 0, negative for no limit")
    _number(params, "min_child_samples", Integral, lambda v: v >= 1, "a whole number, at least 1")
    _number(params, "reg_lambda", Real, lambda v: 0 <= v < float("inf"), "a finite number from 0 on")
    _number(params, "subsample", Real, lambda v: 0 < v <= 1, share)
    _number(params, "colsample_bytree", Real, lambda v: 0 < v <= 1, share)
    _number(params, "colsample_bynode", Real, lambda v: 0 < v <= 1, share)
    _number(params, "max_bin", Integral, lambda v: 2 <= v <= 65535, "a whole number from 2 to 65535")
    if params["cv"] is None and "auto" in (params["n_estimators"], params["mechanism_weight"]):
        raise ValueError("cv=None holds no rows out: give numbers for n_estimators and mechanism_weight with it.")
    if params["cv"] is not None and not hasattr(params["cv"], "split") and not isinstance(params["cv"], list | tuple):
        _number(params, "cv", Integral, lambda v: v >= 2, "a whole number, at least 2, a splitter or a list of arrays")
    if params["n_jobs"] is not None:
        _number(params, "n_jobs", Integral, lambda v: v != 0, "None or a whole number other than 0")


def _one_of(params: Mapping[str, Any], name: str, allowed: Sequence[str] | Mapping[str, Any], more: str = "") -> None:
    value = params[name]
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}{more}.")


def _number(
    params: Mapping[str, Any], name: str, kind: type, holds: Callable[[Any], bool], wanted: str, word: str | None = None
) -> None:
    """Raise ValueError unless the value is such a number, or the `word`."""
    value = params[name]
    if isinstance(value, str) and value == word:
        return
    if not isinstance(value, kind) or isinstance(value, bool) or not holds(value):
        raise ValueError(f"{name}={value!r} must be {wanted}.")


def check_width(params: Mapping[str, Any], d: int, n: int | None) -> None:
    """Raise ValueError if there are too many features for matrices of all their pairs.

    n is the number of rows, None if it is not known.
    """
    kind = params.get("covariance_type", "diag")
    if kind in ("full", "tied"):
        if d > MOST_DENSE_FEATURES:
            raise ValueError(
                f"{d} features with covariance_type={kind!r}: a covariance matrix has {d * (d + 1) // 2:,} entries, and "
                f"no more than {MOST_DENSE_FEATURES} features are supported. Use covariance_type='diag', or reduce the features "
                "first, e.g. make_pipeline(PCA(50), MARGaussianMixture())."
            )
        if d > _MOST_SINGULAR and n is not None and n <= d:
            raise ValueError(
                f"{d} features and {n} rows with covariance_type={kind!r}: so few rows do not determine a covariance matrix. Use "
                "covariance_type='diag' or MARLogisticRegression, or reduce the features first, e.g. make_pipeline(PCA(10), ...)."
            )
    if params.get("degree") == 2 and d > _MOST_SQUARED:
        raise ValueError(
            f"{d} features with degree=2: they have {d * (d + 1) // 2:,} squares and products, and no more than {_MOST_SQUARED} "
            "features are supported. Use degree=1 or MARKernelClassifier, or reduce the features first, e.g. "
            "make_pipeline(PCA(20), ...)."
        )
    # with fewer rows than features, logistic regressions are fitted in the space of the rows; kernels see rows only
    few_rows = "C" in params and n is not None and (n < d or "gamma" in params)
    if d > MOST_FEATURES and not few_rows:
        raise ValueError(
            f"{d} features: no more than {MOST_FEATURES} are supported. Reduce them first, e.g. make_pipeline(PCA(50), ...)."
        )


def feature_columns(
    features: Sequence[Any] | None, names: Sequence[str], option: str = "mechanism_features"
) -> list[int]:
    """Indices of columns given by name or index."""
    columns = []
    if isinstance(features, str):
        raise ValueError(f"{option}={features!r} must be a list of column names or indices.")
    for feature in [] if features is None else features:
        if isinstance(feature, str) and feature in names:
            columns.append(list(names).index(feature))
        elif isinstance(feature, Integral) and not isinstance(feature, bool) and 0 <= int(feature) < len(names):
            columns.append(int(feature))
        else:
            raise ValueError(f"{option} has {feature!r}, but the columns are {', '.join(names[:20])}.")
    if len(set(columns)) < len(columns):
        raise ValueError(f"{option}={features!r} names a column twice.")
    return columns


def component_counts(n_components: Any, classes: NDArray[Any]) -> list[int]:
    """Number of components of each class, from a number or a dict by class."""
    if isinstance(n_components, Mapping):
        names = classes.tolist()
        unknown = [key for key in n_components if key not in names]
        if unknown:
            raise ValueError(f"n_components names the class {unknown[0]!r}, but the classes are {names}.")
        counts = [n_components.get(name, 1) for name in names]
    else:
        counts = [n_components] * len(classes)
    for count in counts:
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
            raise ValueError(
                f"n_components={n_components!r}: each class needs a whole number of components, at least 1."
            )
    return [int(count) for count in counts]
