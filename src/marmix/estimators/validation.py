"""Checks of the estimators' parameters."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple

from marmix.core.arrays import AnyArray
from marmix.core.covariance import STRUCTURES
from marmix.core.mechanism import Mechanism
from marmix.fitting import SOLVERS
from marmix.inference.sensitivity import deltas_of

MOST_DENSE_FEATURES, MOST_FEATURES = 2000, 5000
# Number of features above which covariance matrices need more rows than features: with fewer they are not determined.
_MOST_SINGULAR = 500
# Number of features above which squares and products are too many.
_MOST_SQUARED = 100


class Rule(NamedTuple):
    """The numbers that a parameter may have; a `word` may stand for one."""

    kind: type
    holds: Callable[[Any], bool]
    wanted: str
    word: str | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError unless the value is such a number, or the word."""
        if isinstance(value, str) and value == self.word:
            return
        if not isinstance(value, self.kind) or isinstance(value, bool) or not self.holds(value):
            raise ValueError(f"{name}={value!r} must be {self.wanted}.")


_POSITIVE_OR_AUTO = Rule(Real, lambda v: 0 < v < float("inf"), "'auto' or a positive number", "auto")
_SHARE = Rule(Real, lambda v: 0 < v <= 1, "a number above 0, at most 1")
_COUNT = Rule(Integral, lambda v: v >= 1, "a whole number, at least 1")
_COUNT_OR_AUTO = Rule(Integral, lambda v: v >= 1, "'auto' or a whole number, at least 1", "auto")
_RULES: dict[str, Rule] = {
    "C": Rule(Real, lambda v: v > 0, "a positive number, np.inf for no penalty"),
    "mechanism_weight": Rule(Real, lambda v: 0 <= v <= 1, "'auto' or a number between 0 and 1", "auto"),
    "reg_covar": Rule(Real, lambda v: 0 < v < 1, "a number between 0 and 1, a fraction of the pooled variance"),
    "gamma": _POSITIVE_OR_AUTO,
    "n_landmarks": _COUNT,
    "n_init": _COUNT_OR_AUTO,
    "max_iter": _COUNT,
    "tol": Rule(Real, lambda v: 0 < v < 1, "a number between 0 and 1"),
    "n_estimators": _COUNT_OR_AUTO,
    "max_estimators": _COUNT,
    "learning_rate": _SHARE,
    "num_leaves": Rule(Integral, lambda v: 2 <= v <= 2**17, "a whole number from 2 to 131072"),
    "min_child_samples": _COUNT,
    "reg_lambda": Rule(Real, lambda v: 0 <= v < float("inf"), "a finite number from 0 on"),
    **dict.fromkeys(("subsample", "colsample_bytree", "colsample_bynode"), _SHARE),
}
_CHOICES: dict[str, Sequence[Any]] = {
    "covariance_type": tuple(STRUCTURES),
    "solver": tuple(SOLVERS),
    "init": ("labelled", "kmeans"),
    "degree": (1, 2),
}


def check_parameters(params: Mapping[str, Any], rules: Mapping[str, Rule] = MappingProxyType({})) -> None:
    """Raise ValueError for parameters that cannot be used; `rules` are those in which an estimator differs from others."""
    for name, value in params.items():
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, _CHOICES[name]))}.")
        if name in _RULES:
            rules.get(name, _RULES[name]).check(name, value)
    if params["shape"] is not None:
        Rule(Real, lambda v: 0 <= v < float("inf"), "None or a finite number >= 0").check("shape", params["shape"])
    if params["link"] is None:
        if params["shape"] is not None or params["mcar_share"] or params["mechanism_features"]:
            raise ValueError(
                "link=None ignores the mechanism: leave shape=None, mcar_share=False and mechanism_features=None with it."
            )
        Mechanism.from_link(measure=params["measure"])  # estimator.uncertainty(X) works without a mechanism
    else:
        Mechanism.from_link(params["link"], params["shape"], params["measure"], params["mcar_share"])
    if params.get("delta") is not None:
        _check_delta(params)


def check_chosen(params: Mapping[str, Any], *names: str) -> None:
    """Raise ValueError if no rows are to be held out, but one of these parameters is "auto"."""
    if params["cv"] is None and "auto" in [params[name] for name in names]:
        *first, last = names
        raise ValueError(f"cv=None holds no rows out: give numbers for {', '.join(first)} and {last} with it.")


def _check_delta(params: Mapping[str, Any]) -> None:
    """Raise ValueError for a label term that cannot be used; its classes are checked by `label_terms`."""
    delta = params["delta"]
    if not isinstance(delta, Mapping) and delta != "estimate":
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


def label_terms(delta: Any, classes: AnyArray) -> tuple[float, ...]:
    """The label term of each class, zeros if they are to be estimated; empty if there is none or all are zero."""
    if delta is None:
        return ()
    if not isinstance(delta, Mapping):
        return (0.0,) * len(classes)
    terms = tuple(deltas_of(delta, classes).tolist())
    return terms if any(terms) else ()


def check_width(params: Mapping[str, Any], d: int, n: int | None) -> None:
    """Raise ValueError if there are too many features for matrices of all their pairs.

    n is the number of rows, None if it is not known.
    """
    kind = params.get("covariance_type")
    if kind is not None and STRUCTURES[kind].dense:
        if d > MOST_DENSE_FEATURES:
            raise ValueError(
                f"{d} features with covariance_type={kind!r}: no more than {MOST_DENSE_FEATURES} are supported. Use "
                "covariance_type='diag', or reduce the features first, e.g. make_pipeline(PCA(50), MARGaussianMixture())."
            )
        if d > _MOST_SINGULAR and n is not None and n <= d:
            raise ValueError(
                f"{d} features and {n} rows with covariance_type={kind!r}: so few rows do not determine a covariance matrix. Use "
                "covariance_type='diag' or MARLogisticRegression, or reduce the features first, e.g. make_pipeline(PCA(10), ...)."
            )
    if params.get("degree") == 2 and d > _MOST_SQUARED:
        raise ValueError(
            f"{d} features with degree=2: no more than {_MOST_SQUARED} are supported. Use degree=1 or MARKernelClassifier, or "
            "reduce the features first, e.g. make_pipeline(PCA(20), ...)."
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


def component_counts(n_components: Any, classes: AnyArray) -> list[int]:
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
