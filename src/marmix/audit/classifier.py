"""Predictions of any classifier, and a classifier that has learnt from an audit."""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from marmix.audit.learning import Recalibration
from marmix.core.arrays import Array
from marmix.evaluation.scorer import last_and_rows, missing_proba


def unlabelled_proba(clf: Any, X: Any) -> Array:
    """Class probabilities (n, K) of rows whose label is known to be missing; those of `predict_proba` if clf does not tell."""
    last, rows = last_and_rows(clf, X)
    return np.asarray(getattr(last, "unlabelled_proba", last.predict_proba)(rows), dtype=float)


def averages(clf: Any, X: Any, y: Any) -> bool:
    """Whether a classifier is an average of candidates that still holds what its comparison said about these rows."""
    rows = getattr(getattr(clf, "selection_", None), "rows", None)
    return rows is not None and rows.evidence is not None and bool(clf.fitted_to(X, y))


def candidate_proba(clf: Any, X: Any, names: list[str]) -> Array:
    """Class probabilities (C, n, K) of rows without a label by these candidates of an average."""
    return np.array([unlabelled_proba(_with(clf, weights={name: 1.0}), X) for name in names])


def reweighted(clf: Any, rows: Any, labels: Array) -> Any:
    """An average whose weights follow labels (k, K), shares, that chance drew for these rows."""
    return _with(clf, weights=clf.selection_.audited_weights(rows, labels))


def _with(clf: Any, **fields: Any) -> Any:
    other = copy(clf)
    other.selection_ = replace(clf.selection_, **fields)
    return other


class AuditedClassifier(ClassifierMixin, BaseEstimator):
    r"""A classifier whose posteriors of unlabelled rows were calibrated again by an audit.

    With q the probability that the label of a row is missing, the probabilities of a new row of the population are

    .. math::

        (1 - q)\, p_{\text{labelled}} + q\, p_{\text{missing}},

    with the classifier's own probabilities for labelled rows, and those after the audit for unlabelled rows. q is the
    `missing_proba` of an estimator of marmix that models the missingness; for other classifiers it is `rate`.

    Parameters
    ----------
    estimator : classifier
        That was audited. It is not fitted again: `fit` changes nothing.
    recalibration : Recalibration
        What the audit changed.
    rate : float
        Share of the rows of the audit whose label was missing.

    See Also
    --------
    marmix.Audit : What it has learnt from.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import Audit, MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> data = make_mar_mixture(500, random_state=0)
    >>> clf = MARLogisticRegression().fit(data.data, data.target)
    >>> audit = Audit(clf, data.data, data.target)
    >>> after = audit.record(1 - audit.clf.predict(data.data[audit.rows])).classifier    # whatever it imputes is wrong
    >>> bool(np.mean(after.predict(data.data) == clf.predict(data.data)) < 0.5)
    True
    """

    def __init__(self, estimator: Any, recalibration: Recalibration, rate: float):
        self.estimator = estimator
        self.recalibration = recalibration
        self.rate = rate

    def __sklearn_clone__(self) -> "AuditedClassifier":
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return np.asarray(self.estimator.classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return int(self.estimator.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, if they have some."""
        return np.asarray(self.estimator.feature_names_in_)

    def fit(self, X: Any, y: Any = None) -> "AuditedClassifier":
        """Change nothing."""
        return self

    def unlabelled_proba(self, X: Any) -> Array:
        """Class probabilities (n, K) of rows whose label is known to be missing."""
        return self.recalibration(unlabelled_proba(self.estimator, X))

    def missing_proba(self, X: Any) -> Array:
        """Probability q (n,) that the label of a row is missing."""
        q = missing_proba(self.estimator, X)
        return np.full(len(self.estimator.predict_proba(X)), self.rate) if q is None else q

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n, K) of new rows of the population."""
        before = unlabelled_proba(self.estimator, X)
        change = self.missing_proba(X)[:, None] * (self.recalibration(before) - before)
        proba = np.maximum(np.asarray(self.estimator.predict_proba(X), dtype=float) + change, 0.0)
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class (n,) of new rows of the population."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
