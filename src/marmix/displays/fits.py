"""Fitted estimators as displays take them: alone, or as the last step of a pipeline."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from marmix.arrays import Array, to_host_or_refuse
from marmix.estimators import MARClassifierCV
from marmix.estimators.inferential import InferentialClassifier
from marmix.labels import number_labels
from marmix.streams import open_array

MOST_MISSING = 1.0 - 1e-9  # a probability of a missing label that leaves a label its weight


def last_step(estimator: Any) -> Any:
    """The classifier itself."""
    check_is_fitted(estimator)
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def transformed(estimator: Any, X: Any) -> Any:
    """Rows as the last step takes them."""
    (X,) = to_host_or_refuse("a display", open_array(X))
    return estimator[:-1].transform(X) if isinstance(estimator, Pipeline) and len(estimator) > 1 else X


def own_model(estimator: Any, display: str) -> Any:
    """The fitted mixture or logistic regression; `display` is of these alone."""
    model = last_step(estimator)
    if isinstance(model, MARClassifierCV):
        raise ValueError(
            f"{display} shows one fit, and MARClassifierCV averages several: fit MARGaussianMixture or "
            "MARLogisticRegression by itself."
        )
    if not isinstance(model, InferentialClassifier):
        raise TypeError(
            f"{display} shows a fitted MARGaussianMixture or MARLogisticRegression, or a pipeline that ends in one; got "
            f"{type(estimator).__name__}."
        )
    return model


def numbered(y: Any, classes: NDArray[Any]) -> NDArray[np.integer]:
    """The numbers of the labels, -1 where one is missing."""
    (y,) = to_host_or_refuse("a display", open_array(y, "y"))
    return np.asarray(number_labels(y, classes))


def rows_at(X: Any, places: NDArray[np.integer]) -> Any:
    """Some of the rows, in a table of the same kind."""
    (X,) = to_host_or_refuse("a display", open_array(X))
    return _safe_indexing(X, places)


def feature_names(estimator: Any) -> list[str]:
    """Names of the columns that the last step was fitted to."""
    model = last_step(estimator)
    if isinstance(estimator, Pipeline) and len(estimator) > 1:
        try:
            return [str(name) for name in estimator[:-1].get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that does not say
            pass
    if hasattr(model, "model_"):
        return list(model.model_.column_names)
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    return [name if isinstance(name, str) else f"x{name}" for name in names]


def missing_proba(estimator: Any, X: Any) -> Array | None:
    """q of each row; None where the estimator has no mechanism."""
    model = last_step(estimator)
    if not hasattr(model, "missing_proba"):
        return None
    try:
        q = model.missing_proba(transformed(estimator, X))
    except ValueError:
        if isinstance(model, MARClassifierCV):  # no candidate of positive weight models the missingness
            return None
        raise
    return np.minimum(np.asarray(q), MOST_MISSING)
