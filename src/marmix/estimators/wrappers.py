"""Wrappers: `LabelledRows` leaves unlabelled rows out of a fit, `WithUnlabelled` brings them in."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length

from marmix.core.arrays import Array, select_rows
from marmix.core.labels import MISSING, as_classes, encode_labels, known_labels
from marmix.estimators.base import score_labelled
from marmix.evaluation.scorer import checked_classes, missing_proba_of


def _has_mechanism(wrapper: Any) -> bool:
    estimator = vars(wrapper).get("estimator_", wrapper.estimator)
    return hasattr(estimator[-1] if isinstance(estimator, Pipeline) else estimator, "missing_proba")


class _Wrapper(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier with the methods and fitted attributes of another one that it holds."""

    estimator: Any
    estimator_: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "fit" in name:  # fit_transform and partial_fit would see all rows
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(vars(self).get("estimator_", vars(self).get("estimator")), name)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows."""
        return score_labelled(self, X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = get_tags(self.estimator)
        tags.array_api_support = False
        return tags


class LabelledRows(_Wrapper):
    """Fits any classifier to the labelled rows only.

    It is the fair rival of an estimator that learns from unlabelled rows too. ``fit(X, y)`` leaves out the rows whose
    label is missing, and fits a clone of `estimator` to the others. A classifier of another library would learn -1 as
    a class. So would a transformer that looks at the labels, such as `SelectKBest`: around one, this is a step of a
    pipeline that ends in an estimator of marmix.

    Parameters
    ----------
    estimator : classifier or transformer
        Of scikit-learn, or with its API.
    classes : array-like or None, default=None
        The classes, if a label such as -1 is a class and not missing; other labels are then an error. The columns of
        `predict_proba` are as in `classes_`.

    Attributes
    ----------
    estimator_ : classifier or transformer
        Fitted to the labelled rows. Its methods and attributes, such as `predict_proba`, `transform`, `classes_` and `coef_`,
        are also those of the wrapper.

    See Also
    --------
    WithUnlabelled : the other direction, for tools that take no missing labels.
    marmix.evaluation.log_loss : a score that is fair to both.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import LabelledRows
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X = np.array([[0.0], [1.0], [0.5], [5.0], [6.0], [5.5]])
    >>> clf = LabelledRows(KNeighborsClassifier(1)).fit(X, [0, 0, -1, 1, 1, -1])
    >>> clf.classes_
    array([0, 1])
    >>> clf.predict(X)
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(self, estimator: Any, *, classes: Any = None):
        self.estimator = estimator
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LabelledRows":
        """Fit a clone of `estimator` to the labelled rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Anything that `estimator` takes and whose rows can be chosen.
        y : array-like of shape (n,)
            Labels, missing where -1, NaN, None or pandas.NA.
        sample_weight : array-like of shape (n,) or None
            For the `fit` of `estimator`.

        Returns
        -------
        self
        """
        z, classes = encode_labels(y, self.classes)
        check_consistent_length(X, z, sample_weight)
        labelled = np.flatnonzero(z >= 0)
        weight = {} if sample_weight is None else {"sample_weight": select_rows(sample_weight, labelled)}
        self.estimator_ = clone(self.estimator).fit(select_rows(X, labelled), classes[z[labelled]], **weight)
        return self


class WithUnlabelled(_Wrapper):
    """Fits an estimator to unlabelled rows too, inside a tool that takes labelled rows only.

    ``fit(X, y)`` takes labelled rows, appends `X_unlabelled`, and fits a clone of `estimator` to all of them. So tools of
    scikit-learn that would take a missing label for a class, such as `CalibratedClassifierCV`, `StackingClassifier` and
    `cross_val_predict`, can be used on the labelled rows, with their folds, and scikit-learn's scorers.

    Parameters
    ----------
    estimator : classifier
        One of marmix, or another that takes missing labels. Preprocessing goes inside, because steps before this one do not
        transform `X_unlabelled`: a pipeline that ends in such a classifier.
    X_unlabelled : array-like of shape (m, d)
        Rows without a label. They are in every fit; every `clone` copies them.

    Attributes
    ----------
    estimator_ : classifier
        Fitted to all rows. Its methods and attributes, such as `predict_proba`, `classes_` and `coef_`, are also those of the
        wrapper.

    See Also
    --------
    LabelledRows : the other direction, for classifiers that take no missing labels.
    marmix.evaluation.PartialLabelKFold : folds of partially labelled rows, for tools that take them.

    Notes
    -----
    An unlabelled row has the mean of the weights in `sample_weight`. In k folds the fits have relatively more unlabelled rows
    than the data, by a factor of up to k / (k - 1), as with `marmix.evaluation.PartialLabelKFold`. If labels of hard rows are
    missing, scores on labelled rows are those of easy rows; the scorers of `marmix.evaluation` correct for it here too.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARGaussianMixture, WithUnlabelled
    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0.0, 1.0, (100, 2)), rng.normal(2.0, 1.0, (100, 2))])
    >>> y = np.where(rng.random(200) < 0.5, -1, np.repeat([0, 1], 100))
    >>> labelled = y != -1
    >>> clf = WithUnlabelled(MARGaussianMixture(link=None), X[~labelled])
    >>> calibrated = CalibratedClassifierCV(clf, cv=3).fit(X[labelled], y[labelled])
    >>> calibrated.classes_
    array([0, 1])
    """

    def __init__(self, estimator: Any, X_unlabelled: Any):
        self.estimator = estimator
        self.X_unlabelled = X_unlabelled

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "WithUnlabelled":
        """Fit a clone of `estimator` to the labelled rows and `X_unlabelled`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Labelled rows.
        y : array-like of shape (n,)
            Their labels; none is missing.
        sample_weight : array-like of shape (n,) or None
            Weights of the labelled rows. Unlabelled rows have their mean.

        Returns
        -------
        self
        """
        last = self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator
        named = getattr(last, "classes", None)
        named = np.empty(0) if named is None else as_classes(named)
        labelled, labels = known_labels(y, named)
        if not labelled.all():
            raise ValueError(
                f"{np.count_nonzero(~labelled)} labels in y are missing: pass WithUnlabelled the labelled rows, "
                "fit(X[labelled], y[labelled]), and the others as X_unlabelled."
            )
        missing: Any = np.full(len(self.X_unlabelled), MISSING)
        if labels.dtype.kind not in "iuf" or MISSING in named:
            labels, missing = labels.astype(object), np.full(len(missing), None)
        weight = {}
        if sample_weight is not None:
            weight["sample_weight"] = np.append(sample_weight, np.full(len(missing), np.mean(sample_weight)))
        rows, labels = _stacked(X, self.X_unlabelled), np.concatenate([labels, missing])
        fitted = clone(self.estimator).fit(rows, labels, **weight)
        checked_classes(fitted)
        self.estimator_ = fitted
        return self

    @available_if(_has_mechanism)
    def missing_proba(self, X: Any) -> Array:
        """The probability that the label of each row is missing, (n,)."""
        return missing_proba_of(self.estimator_, X)


def _stacked(X: Any, others: Any) -> Any:
    """Rows of two arrays or two tables, one after the other; columns of tables are found by name."""
    if not hasattr(X, "columns"):
        return np.concatenate([np.asarray(X), np.asarray(others)])
    if hasattr(X, "column_names"):
        from pyarrow import concat_tables

        return concat_tables([X, others.select(X.column_names)])
    others = others[list(X.columns)]
    if hasattr(X, "vstack"):
        return X.vstack(others)  # polars
    from pandas import concat

    return concat([X, others], ignore_index=True)
