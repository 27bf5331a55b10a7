"""Candidates of `MARClassifierCV`: the default grid, their fits, and the weights of their average."""

import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from marmix.arrays import Array
from marmix.estimators.logistic import MARLogisticRegression
from marmix.estimators.mixture import MARGaussianMixture
from marmix.notes import BoundaryWarning

# Prior for equal weights, in labelled rows. In trials on the settings of benchmarks/quality.py with other seeds, larger values
# gained a little on average, and smaller ones lost a little less in the worst cases.
PRIOR_ROWS = 2.0

# Limits for trying a tied or a full covariance: features, and rows per feature (and class).
_MOST_TIED, _MOST_FULL, _ROWS = 200, 50, 5

DEFAULT: Mapping[str, Any] = {}  # the estimators' own defaults
IGNORING: Mapping[str, Any] = {"link": None}


def default_candidates(
    n_classes: int,
    n_rows: int,
    n_features: int,
    *,
    kind: str = "auto",
    categories: bool = False,
    brief: bool = False,
    mechanism: Mapping[str, Any] = DEFAULT,
    ignoring: Mapping[str, Any] = IGNORING,
) -> dict[str, BaseEstimator]:
    """Default grid: logistic regressions and mixtures, with the mechanism modelled, tempered and ignored.

    Squares and products, covariance matrices and several Gaussians per class are included if there are enough rows.

    Parameters
    ----------
    kind : {"auto", "logistic", "mixture"}
        Which models. With "mixture" a tied mixture is always included.
    categories : bool
        Whether some features are categorical, hence not Gaussian.
    brief : bool
        Whether to keep one candidate of each model, with the mechanism modelled and ignored.
    mechanism, ignoring : mappings
        Settings of candidates that model the mechanism, and of those that ignore it.
    """
    grid: dict[str, BaseEstimator] = {}
    numeric = not categories
    if kind in ("auto", "logistic"):
        for C in (1.0,) if brief else (0.1, 1.0, 10.0):
            grid[f"logistic, C={C:g}, ignored"] = MARLogisticRegression(C=C, **ignoring)
        for C in (1.0,) if brief else (1.0, 10.0):
            grid[f"logistic, C={C:g}, mechanism"] = MARLogisticRegression(C=C, **mechanism)
        if not brief:
            grid["logistic, C=1, tempered"] = MARLogisticRegression(C=1.0, mechanism_weight=0.3, **mechanism)
        products = 1 + n_features + n_features * (n_features + 1) // 2
        if numeric and n_rows >= products * (n_classes - 1):
            grid["quadratic logistic, C=1, ignored"] = MARLogisticRegression(degree=2, **ignoring)
            grid["quadratic logistic, C=1, mechanism"] = MARLogisticRegression(degree=2, n_init=1, **mechanism)
    dense = numeric and n_features <= min(_MOST_TIED, n_rows // _ROWS)
    if kind == "mixture" or (kind == "auto" and dense):
        grid["mixture, tied, ignored"] = MARGaussianMixture(covariance_type="tied", **ignoring)
        grid["mixture, tied, mechanism"] = MARGaussianMixture(covariance_type="tied", **mechanism)
        if n_features <= min(_MOST_FULL, n_rows // (_ROWS * n_classes)):
            grid["mixture, full, mechanism"] = MARGaussianMixture(covariance_type="full", **mechanism)
            if brief:
                grid["mixture, full, ignored"] = MARGaussianMixture(covariance_type="full", **ignoring)
        if not brief:
            pair: dict[str, Any] = {"covariance_type": "tied", "n_components": 2, "random_state": 0}
            grid["mixture of 2, tied, mechanism"] = MARGaussianMixture(**pair, **mechanism)
        if n_rows >= 2000 and not brief:
            several: dict[str, Any] = {"covariance_type": "full", "n_components": 4, "random_state": 0}
            grid["mixture of 4, full, mechanism"] = MARGaussianMixture(**several, **mechanism)
            grid["mixture of 4, full, ignored"] = MARGaussianMixture(**several, **ignoring)
    return grid


def stack(chances: Array, row_weight: Array, counts: Array | None = None, prior_rows: float = PRIOR_ROWS) -> Array:
    """Weights pi that maximise ``sum_j c_j w_j log(pi . p_j)`` for held-out probabilities p (C, n) of the given labels.

    A Dirichlet prior for equal weights counts as `prior_rows` rows; w is scaled to sum to its effective number of rows. The
    objective is concave and maximised by EM.
    """
    candidates = len(chances)
    c = np.ones_like(row_weight) if counts is None else counts
    w = c * row_weight * (c @ row_weight) / (c @ row_weight**2)
    share = prior_rows / candidates
    p = np.maximum(chances, 1e-300)
    weights = np.full(candidates, 1.0 / candidates)
    for _ in range(1000):
        responsibility = weights[:, None] * p / (weights @ p)
        new = (responsibility @ w + share) / (w.sum() + prior_rows)
        if np.abs(new - weights).max() < 1e-8:
            break
        weights = new
    return weights / weights.sum()


class Outcome(NamedTuple):
    """Result of fitting a candidate; `estimator` is None if it failed with the message `error`."""

    estimator: Any
    proba: Array | None  # of the test rows
    error: str
    seconds: float


def fit_one(
    pipeline: Pipeline, X: NDArray[Any], z: NDArray[Any], weight: Array | None, test: NDArray[np.intp] | None
) -> Outcome:
    """Fit to all rows except the test rows, and predict those."""
    start = time.perf_counter()
    keep = np.ones(len(z), dtype=bool)
    if test is not None:
        # weight the remaining labelled rows up to all of them, so that the share of unlabelled rows stays the same
        keep[test] = False
        labelled = z >= 0
        counts = np.ones(len(z)) if weight is None else weight
        weight = np.where(labelled, counts[labelled].sum() / counts[labelled & keep].sum(), 1.0) * counts
    fitted = clone(pipeline)
    steps = [name for name, step in fitted.steps if has_fit_parameter(step, "sample_weight")]
    weights = {} if weight is None else {f"{step}__sample_weight": weight[keep] for step in steps}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundaryWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.fit(X[keep], z[keep], **weights)
        proba = None if test is None else fitted.predict_proba(X[test])
    except (ValueError, np.linalg.LinAlgError) as error:
        return Outcome(None, None, str(error), time.perf_counter() - start)
    return Outcome(fitted, proba, "", time.perf_counter() - start)


def held_out(
    fits: dict[tuple[str, int], Outcome], name: str, folds: list[NDArray[np.intp]], n: int, classes: int
) -> Array:
    """Held-out probabilities (n, K) of a candidate; 1 / K for rows that were not tested and in folds that failed."""
    proba = np.full((n, classes), 1.0 / classes)
    for fold, test in enumerate(folds):
        fold_proba = fits[name, fold].proba
        if fold_proba is not None:
            proba[test] = fold_proba
    return proba


def knows_missingness(pipeline: Pipeline) -> bool:
    """Whether the last step has a mechanism."""
    return hasattr(pipeline[-1], "missing_proba")


def models_missingness(pipeline: Pipeline) -> bool:
    """Whether the last step has a mechanism that influences the class probabilities."""
    return knows_missingness(pipeline) and pipeline[-1].get_params().get("mechanism_weight", 1.0) != 0.0
