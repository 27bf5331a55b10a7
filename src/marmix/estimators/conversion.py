"""Fitted classifiers of scikit-learn that give the same class probabilities: for tools that know those, ONNX among them."""

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.validation import check_is_fitted

from marmix.scores.gaussian import GaussianScores


def to_sklearn(model: Any) -> Any:
    """The classifier of scikit-learn with the same class probabilities, fitted.

    What was learned of the missing labels is in these probabilities; the mechanism itself (`missing_proba`) has no counterpart
    there.

    Parameters
    ----------
    model : fitted estimator
        ==============================================  ===========================================================
        model                                           becomes
        ==============================================  ===========================================================
        `MARGaussianMixture`, tied covariance           `LinearDiscriminantAnalysis`
        `MARGaussianMixture`, full                      `QuadraticDiscriminantAnalysis`
        `MARGaussianMixture`, diag or spherical         `GaussianNB`
        `MARLogisticRegression`                         `LogisticRegression`
        `MARLogisticRegression`, degree 2               a pipeline of `PolynomialFeatures` and `LogisticRegression`
        a pipeline of `StandardScaler` and one of them  the same pipeline, its last step converted
        `MARClassifierCV`, method="pick"                the pipeline that was picked
        ==============================================  ===========================================================

    Raises
    ------
    ValueError
        Where scikit-learn has no such classifier: several Gaussians a class, averages of candidates.

    Notes
    -----
    To ONNX: ``skl2onnx.to_onnx(clf.to_sklearn(), X[:1].astype("float32"))``. All of these go through; of a
    `LinearDiscriminantAnalysis` of two classes skl2onnx (1.20) doubles the log-odds, whoever fitted it: give its `coef_`,
    `intercept_`, `classes_` and `n_features_in_` to a `LogisticRegression` and export that.
    """
    check_is_fitted(model)
    if isinstance(model, Pipeline):
        return _pipeline(model)
    if isinstance(getattr(model, "estimators_", None), dict):
        return _chosen(model)
    if not hasattr(model, "_model") or not hasattr(model, "_theta"):
        raise ValueError(f"{type(model).__name__} is no classifier of marmix: there is nothing to convert.")
    return _mixture(model) if isinstance(model._model, GaussianScores) else _logistic(model)


def _told(found: Any, model: Any, classes: bool = True) -> Any:
    """Give a new estimator the features, and the classes, of the model."""
    if classes:
        found.classes_ = model.classes_
    found.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        found.feature_names_in_ = model.feature_names_in_
    return found


def _mixture(model: Any) -> Any:
    if not model._model.single:
        raise ValueError(
            "a class of this mixture has several Gaussians, and no classifier of scikit-learn is that: fit with n_components=1, "
            "or keep the model as it is (marmix.save)."
        )
    return {"tied": _linear, "full": _quadratic, "diag": _naive, "spherical": _naive}[model._covariance_type](model)


def _linear(model: Any) -> LinearDiscriminantAnalysis:
    found = _told(LinearDiscriminantAnalysis(solver="lsqr"), model)
    by_class = model._model.structure.coefficients(*model._theta)  # of [1, x] in the axes of the fit
    coef = by_class[:, 1:] @ model._frame.whitener
    intercept = by_class[:, 0] - coef @ model._frame.centre
    two = len(model.classes_) == 2
    found.coef_ = coef[1:] - coef[:1] if two else coef
    found.intercept_ = intercept[1:] - intercept[:1] if two else intercept
    found.priors_, found.means_, found.covariance_ = model.class_prior_, model.means_, model.covariances_
    found._max_components = min(len(model.classes_) - 1, model.n_features_in_)
    return found


def _quadratic(model: Any) -> QuadraticDiscriminantAnalysis:
    found = _told(QuadraticDiscriminantAnalysis(store_covariance=True), model)
    roots = model._frame.unwhitener @ np.swapaxes(np.linalg.inv(model._theta.chol), 1, 2)
    left, values, _ = np.linalg.svd(roots)  # roots root' = the covariance, and has twice the digits
    found.priors_, found.means_ = model.class_prior_, model.means_
    found.covariance_, found.rotations_, found.scalings_ = list(model.covariances_), list(left), list(values**2)
    return found


def _naive(model: Any) -> GaussianNB:
    found = _told(GaussianNB(var_smoothing=0.0), model)
    shape = model.means_.shape
    found.theta_, found.class_prior_ = model.means_, model.class_prior_
    found.var_ = np.broadcast_to(model.covariances_.reshape(len(model.classes_), -1), shape).copy()
    found.epsilon_, found.class_count_ = 0.0, model._fingerprint.moments.weight[:-1]
    return found


def _logistic(model: Any) -> Any:
    fitted, degree = LogisticRegression(C=model._model.C), model._model.degree
    fitted.coef_, fitted.intercept_ = model.coef_, model.intercept_
    fitted.n_iter_ = np.array([model.n_iter_], dtype=np.int32)
    if degree == 1:
        return _told(fitted, model)
    fitted.classes_, fitted.n_features_in_ = model.classes_, model.coef_.shape[1]
    products = _told(
        PolynomialFeatures(degree, include_bias=False).fit(np.zeros((1, model.n_features_in_))), model, False
    )
    return Pipeline([("polynomialfeatures", products), ("logisticregression", fitted)])


def _pipeline(model: Pipeline) -> Pipeline:
    *first, (name, last) = model.steps
    for i, (_, step) in enumerate(first, start=1):
        if type(step) is not StandardScaler:
            raise ValueError(
                f"the step {type(step).__name__} is not converted, only StandardScaler is: convert the steps after it, "
                f"pipeline[{i}:], and give them its output."
            )
    return Pipeline([*((own, deepcopy(step)) for own, step in first), (name, to_sklearn(last))])


def _chosen(model: Any) -> Pipeline:
    """The candidate that has all the weight; its classes are numbers, and get their names back."""
    used = [name for name, weight in model.weights_.items() if weight == 1.0]
    if not used:
        several = sum(weight > 0.0 for weight in model.weights_.values())
        raise ValueError(
            f"this model averages {several} classifiers, and scikit-learn has no fitted average: fit with method='pick', or "
            "convert one of estimators_."
        )
    found = to_sklearn(model.estimators_[used[0]])
    _told(found[0], model, False)
    end = found
    while isinstance(end, Pipeline):
        end = end[-1]
    end.classes_ = model.classes_
    return found
