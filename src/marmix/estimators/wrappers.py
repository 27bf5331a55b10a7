"""Classifiers around classifiers: `LabelledRows` leaves unlabelled rows out of a fit, `WithUnlabelled` brings them in."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, check_consistent_length, check_is_fitted

from marmix.callers import InsideScikitLearn, check_unlabelled_rows, codes_with_minus_one, learners
from marmix.core.arrays import Array, unmasked
from marmix.core.labels import MISSING, as_classes, encode_labels, has_votes, known_labels
from marmix.estimators.base import score_labelled
from marmix.evaluation.scores import missing_proba_of


def _inner_has(method: str) -> Any:
    def check(wrapper: Any) -> bool:
        getattr(vars(wrapper).get("estimator_", wrapper.estimator), method)
        return True

    return available_if(check)


class _Wrapper(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier that holds another one and predicts as it does; subclasses say what it is fitted to."""

    estimator: Any
    estimator_: Any
    _wanted = "a classifier"

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return self._fitted("classes_")

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return self._fitted("n_features_in_")

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, if X had names."""
        return self._fitted("feature_names_in_")

    @property
    def coef_(self) -> Array:
        """Coefficients of the classifier inside, if it has any: for feature selection."""
        return self._fitted("coef_")

    @property
    def feature_importances_(self) -> Array:
        """Importances of the features for the classifier inside, if it has any."""
        return self._fitted("feature_importances_")

    def _fitted(self, name: str) -> Any:
        if "estimator_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet, and has no {name!r}")
        return getattr(self.estimator_, name)

    def _checked(self, X: Any, y: Any) -> None:
        """Refuse what is no estimator, and y that does not have one label for each row of X."""
        transforms = "transformer" in self._wanted and hasattr(self.estimator, "transform")
        if not (is_classifier(self.estimator) or transforms):
            raise ValueError(f"estimator={self.estimator!r} is not {self._wanted}.")
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None: pass the labels, -1 if missing.")
        if has_votes(y):
            raise ValueError(
                f"y has votes, one column for each class, but {type(self).__name__} needs one label for each row."
            )
        check_consistent_length(X, y)

    def _routed(self, sample_weight: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Parameters for the fit of the classifier inside."""
        if sample_weight is not None:
            fit_params = {**fit_params, "sample_weight": sample_weight}
        if _routing_enabled() and fit_params:
            return dict(process_routing(self, "fit", **fit_params).estimator.fit)
        return dict(fit_params)

    @_inner_has("predict")
    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row, (n,), as the fitted estimator predicts it."""
        check_is_fitted(self)
        return self.estimator_.predict(unmasked(X))

    @_inner_has("predict_proba")
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, (n, K), with columns as in `classes_`."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(unmasked(X))

    @_inner_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Array:
        """Log class probabilities, (n, K)."""
        check_is_fitted(self)
        return self.estimator_.predict_log_proba(unmasked(X))

    @_inner_has("decision_function")
    def decision_function(self, X: Any) -> Array:
        """Scores of the classes, (n,) if there are two and (n, K) otherwise."""
        check_is_fitted(self)
        return self.estimator_.decision_function(unmasked(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows."""
        return score_labelled(self, X, y, sample_weight)

    def get_metadata_routing(self) -> MetadataRouter:
        """Which parameters of `fit` go to the classifier inside, as in scikit-learn."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = get_tags(self.estimator) if hasattr(self.estimator, "fit") else super().__sklearn_tags__()
        tags.array_api_support = False
        return tags


class LabelledRows(InsideScikitLearn, _Wrapper):
    """Fits any classifier to the labelled rows only: the fair rival of an estimator that learns from unlabelled ones too.

    ``fit(X, y)`` leaves out the rows whose label is missing, and fits a clone of `estimator` to the others. A classifier of
    another library would learn -1 as a class. So would a transformer that looks at the labels, such as `SelectKBest`: around
    one, this is a step of a pipeline that ends in an estimator of marmix.

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
        Fitted to the labelled rows.
    classes_ : array of shape (K,)
        The classes.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (d,)
        Only if X had feature names and `estimator` keeps them.
    coef_, feature_importances_ : arrays
        Those of `estimator_`, if it has any: for feature selection.

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

    _wanted = "a classifier or a transformer"

    def __init__(self, estimator: Any, *, classes: Any = None):
        self.estimator = estimator
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> "LabelledRows":
        """Fit a clone of `estimator` to the labelled rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Anything that `estimator` takes and whose rows can be chosen.
        y : array-like of shape (n,)
            Labels, missing where -1, NaN, None or pandas.NA.
        sample_weight : array-like of shape (n,) or None
            For the `fit` of `estimator`.
        **fit_params
            The same; of an array of length n the labelled rows are passed.

        Returns
        -------
        self
        """
        X = unmasked(X)
        self._checked(X, y)
        z, classes = encode_labels(y, self.classes)
        labelled = np.flatnonzero(z >= 0)
        rows = X if len(labelled) == len(z) else _safe_indexing(X, labelled)
        params = _check_method_params(X, self._routed(unmasked(sample_weight), fit_params), labelled)
        self.estimator_ = clone(self.estimator).fit(rows, classes[z[labelled]], **params)
        return self

    @_inner_has("transform")
    def transform(self, X: Any) -> Any:
        """The transformed rows, labelled or not."""
        check_is_fitted(self)
        return self.estimator_.transform(unmasked(X))

    @_inner_has("get_feature_names_out")
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the transformed features."""
        check_is_fitted(self)
        return self.estimator_.get_feature_names_out(input_features)


class WithUnlabelled(_Wrapper):
    """Fits an estimator that learns from unlabelled rows inside a tool that takes labelled rows only.

    ``fit(X, y)`` takes labelled rows, appends `X_unlabelled`, and fits a clone of `estimator` to all of them. So tools of
    scikit-learn that would take a missing label for a class, such as `CalibratedClassifierCV`, `StackingClassifier` and
    `cross_val_predict`, can be used on the labelled rows, with their folds, and scikit-learn's scorers.

    Parameters
    ----------
    estimator : classifier
        One of marmix, or another that takes missing labels. Preprocessing goes inside: a pipeline that ends in such a classifier.
    X_unlabelled : array-like of shape (m, d) or None
        Rows without a label. They are in every fit; every `clone` copies them.

    Attributes
    ----------
    estimator_ : classifier
        Fitted to all rows.
    classes_ : array of shape (K,)
        The classes.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (d,)
        Only if both X and `X_unlabelled` had feature names.
    coef_, feature_importances_ : arrays
        Those of `estimator_`, if it has any: for feature selection.

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

    def __sklearn_clone__(self) -> Any:
        check_unlabelled_rows(sys._getframe(1))
        return super().__sklearn_clone__()

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> "WithUnlabelled":
        """Fit a clone of `estimator` to the labelled rows and `X_unlabelled`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Labelled rows.
        y : array-like of shape (n,)
            Their labels; none is missing.
        sample_weight : array-like of shape (n,) or None
            Weights of the labelled rows. Unlabelled rows have their mean.
        **fit_params
            For the `fit` of `estimator`.

        Returns
        -------
        self
        """
        frame = sys._getframe(1)
        check_unlabelled_rows(frame)
        self._checked(X, y)
        estimator = clone(self.estimator)
        last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        if codes_with_minus_one(frame) and getattr(last, "classes", 0) is None:
            last.set_params(classes=np.unique(y))
        named = getattr(last, "classes", None)
        is_labelled, labels = known_labels(y, np.empty(0) if named is None else as_classes(named))
        if not is_labelled.all():
            raise ValueError(
                f"{np.count_nonzero(~is_labelled)} labels in y are missing: pass WithUnlabelled the labelled rows, "
                "fit(X[labelled], y[labelled]), and the others as X_unlabelled."
            )
        params = self._routed(sample_weight, fit_params)
        n_unlabelled = 0 if self.X_unlabelled is None else len(self.X_unlabelled)
        if n_unlabelled:
            for learner in learners(estimator):
                raise ValueError(
                    f"{learner} would learn missing labels as a class: WithUnlabelled is for estimators that take them, such as "
                    "those of marmix."
                )
            X, labels = _joined_rows(X, self.X_unlabelled), _joined_labels(labels, n_unlabelled, named)
            for name, values in params.items():
                if name.endswith("sample_weight") and values is not None:
                    weight = np.asarray(unmasked(values), dtype=float)
                    params[name] = np.concatenate([weight, np.full(n_unlabelled, weight.mean())])
        self.estimator_ = estimator.fit(X, labels, **params)
        return self

    @_inner_has("missing_proba")
    def missing_proba(self, X: Any) -> Array:
        """The probability that the label of each row is missing, (n,)."""
        check_is_fitted(self)
        return missing_proba_of(self.estimator_, X)


def _joined_rows(X: Any, others: Any) -> Any:
    """Rows of two arrays or two tables, one after the other; columns of tables are found by name."""
    if hasattr(X, "columns") and hasattr(others, "columns"):
        absent = [name for name in X.columns if name not in others.columns]
        if absent:
            raise ValueError(f"X_unlabelled has no column {absent[0]!r}, which X has: pass rows with the same columns.")
        if hasattr(X, "vstack"):
            return X.vstack(others[list(X.columns)])  # polars
        from pandas import concat

        return concat([X, others[list(X.columns)]], ignore_index=True)
    rows, more = np.asarray(unmasked(X)), np.asarray(unmasked(others))
    if rows.ndim != 2 or more.ndim != 2 or rows.shape[1] != more.shape[1]:
        raise ValueError(
            f"X has shape {rows.shape} and X_unlabelled {more.shape}: both need the same columns. Tools that choose or add "
            "columns go inside: WithUnlabelled(make_pipeline(...), X_unlabelled)."
        )
    return np.concatenate([rows, more])


def _joined_labels(labels: NDArray[Any], n_missing: int, named: Any) -> NDArray[Any]:
    """The labels, and as many missing ones: -1 among numbers, None otherwise or if -1 is a class."""
    if labels.dtype.kind in "iuf" and (named is None or MISSING not in list(named)):
        kind = np.result_type(labels.dtype, np.int8)
        return np.concatenate([labels.astype(kind), np.full(n_missing, MISSING, dtype=kind)])
    return np.array([*labels.tolist(), *[None] * n_missing], dtype=object)
