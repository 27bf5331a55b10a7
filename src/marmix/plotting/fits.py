"""Access to fitted estimators, alone or as the last step of a pipeline."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from marmix.core.arrays import AnyArray, Ints, select_rows, to_host_or_refuse
from marmix.core.files import open_array
from marmix.core.labels import has_votes, most_voted, number_labels, vote_shares
from marmix.estimators.base import MARClassifier
from marmix.evaluation.scorer import last_and_rows


def last_step(estimator: Any) -> Any:
    """The classifier, or the last step of a pipeline."""
    check_is_fitted(estimator)
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def transformed(estimator: Any, X: Any) -> Any:
    """Rows after all steps but the last."""
    (X,) = to_host_or_refuse("a display", open_array(X))
    return last_and_rows(estimator, X)[1]


def single_model(estimator: Any, display: str) -> Any:
    """The fitted mixture or logistic regression; other estimators are refused in the name of `display`."""
    model = last_step(estimator)
    if not isinstance(model, MARClassifier):
        raise TypeError(
            f"{display} shows a single fit, such as MARGaussianMixture, or a pipeline that ends in one; got "
            f"{type(model).__name__}."
        )
    return model


def numbered(y: Any, classes: AnyArray) -> Ints:
    """Labels as class numbers, -1 where missing; the most voted class of votes."""
    (y,) = to_host_or_refuse("a display", open_array(y, "y"))
    if has_votes(y):
        return most_voted(vote_shares(y, classes, fitted=True)[0])
    return np.asarray(number_labels(y, classes))


def rows_at(X: Any, places: Ints) -> Any:
    """Selected rows, in a table of the same kind."""
    (X,) = to_host_or_refuse("a display", open_array(X))
    return select_rows(X, places)


def feature_names(estimator: Any) -> list[str]:
    """Names of the columns seen by the last step."""
    model = last_step(estimator)
    if isinstance(estimator, Pipeline) and len(estimator) > 1:
        try:
            return [str(name) for name in estimator[:-1].get_feature_names_out()]
        except (AttributeError, ValueError):  # a step without feature names
            pass
    if hasattr(model, "model_"):
        return list(model.model_.column_names)
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    return [name if isinstance(name, str) else f"x{name}" for name in names]
