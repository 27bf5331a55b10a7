"""`population_scorer`: the scores of `marmix.evaluation` as scorers of scikit-learn."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from marmix.core.arrays import Array
from marmix.core.labels import known_labels
from marmix.evaluation.scores import Score, accuracy, brier, log_loss, roc_auc

# Scores, and their sign if greater is better.
SCORES: dict[str, tuple[Callable[..., Score], int]] = {
    "log_loss": (log_loss, -1),
    "brier": (brier, -1),
    "accuracy": (accuracy, 1),
    "roc_auc": (roc_auc, 1),
}


def population_scorer(metric: str, missingness: Any = None) -> Callable[[Any, Any, Any], float]:
    """Return a scorer for scikit-learn that estimates a metric on the whole population.

    Parameters
    ----------
    metric : {"log_loss", "brier", "accuracy", "roc_auc"}
        The score. Losses are negated, so that greater is better, as in scikit-learn.
    missingness : object, callable or None, default=None
        The source of q: a fitted object with `missing_proba(X)`, a function of X, or None for the scored estimator
        itself.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``. The estimator needs `predict_proba` and `classes_`, and must not have learnt
        missing labels as a class: `marmix.LabelledRows` fits any classifier to the labelled rows.

    Raises
    ------
    ValueError
        If there is no such metric.

    See Also
    --------
    PartialLabelKFold : Folds of the labelled rows, with the unlabelled rows in every training set.
    log_loss, brier, accuracy, roc_auc : The estimates, with their standard errors.
    marmix.LabelledRows : Any classifier, fitted to the labelled rows.

    Examples
    --------
    Score an ordinary classifier by cross-validation, with the missingness from a model of marmix. The score of the
    labelled rows alone would be too good:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from marmix import LabelledRows, MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.evaluation import StratifiedPartialLabelKFold, population_scorer
    >>> rows = make_mar_mixture(1000, rate=0.5, slope=-3, random_state=0)
    >>> X, y = rows.data, rows.target
    >>> missingness = MARLogisticRegression().fit(X, y)
    >>> for scoring in (population_scorer("accuracy", missingness), "accuracy"):
    ...     scores = cross_val_score(
    ...         LabelledRows(LogisticRegression()), X, y, cv=StratifiedPartialLabelKFold(3), scoring=scoring
    ...     )
    ...     print(f"{scores.mean():.2f}")
    0.87
    0.93
    >>> print(f"{LabelledRows(LogisticRegression()).fit(X, y).score(X, rows.target_true):.2f}")
    0.84

    The last number is the accuracy with the true labels of all rows: the corrected score is closer to it.
    """
    if metric not in SCORES:
        raise ValueError(f"metric={metric!r} is not one of {', '.join(SCORES)}.")
    return partial(_population_score, metric, missingness)


def _population_score(metric: str, missingness: Any, estimator: Any, X: Any, y: Any) -> float:
    function, sign = SCORES[metric]
    q = missing_proba_of(estimator if missingness is None else missingness, X)
    return sign * function(y, estimator.predict_proba(X), q, classes=checked_classes(estimator)).value


def checked_classes(estimator: Any) -> Any:
    """The classes of an estimator; an error if a missing label is one of them."""
    named = getattr(estimator[-1] if isinstance(estimator, Pipeline) else estimator, "classes", None)
    if named is None and not known_labels(estimator.classes_, np.empty(0))[0].all():
        name = type(estimator).__name__
        raise ValueError(f"{name} has learnt missing labels as a class: use marmix.LabelledRows({name}(...)).")
    return estimator.classes_


def last_and_rows(estimator: Any, X: Any) -> tuple[Any, Any]:
    """The last step of a pipeline and the rows that it sees; any other estimator, and X."""
    if isinstance(estimator, Pipeline):
        return estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X
    return estimator, X


def missing_proba(estimator: Any, X: Any) -> Array | None:
    """q of each row, so far below one that 1 / (1 - q) is finite; None if the estimator has no mechanism."""
    last, rows = last_and_rows(estimator, X)
    if not hasattr(last, "missing_proba"):
        return None
    return np.minimum(np.asarray(last.missing_proba(rows)), 1.0 - 1e-9)


def missing_proba_of(source: Any, X: Any) -> Array:
    """q from an estimator, from the last step of a pipeline, or from a function."""
    source, X = last_and_rows(source, X)
    if not (callable(source) or hasattr(source, "missing_proba")):
        raise ValueError(f"{type(source).__name__} has no missing_proba: pass population_scorer(..., missingness=clf).")
    return np.asarray(getattr(source, "missing_proba", source)(X))
