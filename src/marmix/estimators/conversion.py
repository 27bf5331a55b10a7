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

from marmix.model import FittedModel
from marmix.scores.gaussian import GaussianScores
from marmix.scores.linear import LinearScores


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
    fitted = getattr(model, "model_", None)
    if not isinstance(fitted, FittedModel):
        raise ValueError(f"{type(model).__name__} is not a classifier of marmix: there is nothing to convert.")
    if isinstance(fitted.score_model, GaussianScores):
        return _mixture(fitted, fitted.score_model)
    if isinstance(fitted.score_model, LinearScores):
        return _logistic(fitted, fitted.score_model)
    raise ValueError(f"scikit-learn has no counterpart of this model ({fitted.score_model.words}): keep it as it is.")


def _described(converted: Any, model: Any, classes: bool = True) -> Any:
    """Give a new estimator the features, and the classes, of a fitted model or estimator."""
    fitted = isinstance(model, FittedModel)
    if classes:
        converted.classes_ = model.classes if fitted else model.classes_
    converted.n_features_in_ = model.n_features if fitted else model.n_features_in_
    names = model.features if fitted else getattr(model, "feature_names_in_", None)
    if names is not None:
        converted.feature_names_in_ = names
    return converted


def _mixture(model: FittedModel, scores: GaussianScores) -> Any:
    if not scores.single:
        raise ValueError(
            "a class of this mixture has several Gaussians, and no classifier of scikit-learn is that: fit with n_components=1, "
            "or keep the model as it is (marmix.save)."
        )
    kinds = {"tied": _linear, "full": _quadratic, "diag": _naive, "spherical": _naive}
    return kinds[scores.structure.name](model, scores)


def _linear(model: FittedModel, scores: GaussianScores) -> LinearDiscriminantAnalysis:
    converted = _described(LinearDiscriminantAnalysis(solver="lsqr"), model)
    by_class = scores.structure.coefficients(*model.theta)  # of [1, x] in the axes of the fit
    coef = by_class[:, 1:] @ model.frame.whitener
    intercept = by_class[:, 0] - coef @ model.frame.centre
    two = len(model.classes) == 2
    converted.coef_ = coef[1:] - coef[:1] if two else coef
    converted.intercept_ = intercept[1:] - intercept[:1] if two else intercept
    values = model.values
    converted.priors_, converted.means_, converted.covariance_ = (
        values["class_prior"],
        values["means"],
        values["covariances"],
    )
    converted._max_components = min(len(model.classes) - 1, model.n_features)
    return converted


def _quadratic(model: FittedModel, scores: GaussianScores) -> QuadraticDiscriminantAnalysis:
    converted = _described(QuadraticDiscriminantAnalysis(store_covariance=True), model)
    roots = model.frame.unwhitener @ np.swapaxes(np.linalg.inv(model.theta.chol), 1, 2)
    left, singular, _ = np.linalg.svd(roots)  # roots root' = the covariance, and has twice the digits
    converted.priors_, converted.means_ = model.values["class_prior"], model.values["means"]
    converted.covariance_ = list(model.values["covariances"])
    converted.rotations_, converted.scalings_ = list(left), list(singular**2)
    return converted


def _naive(model: FittedModel, scores: GaussianScores) -> GaussianNB:
    converted = _described(GaussianNB(var_smoothing=0.0), model)
    means, covariances = model.values["means"], model.values["covariances"]
    converted.theta_, converted.class_prior_ = means, model.values["class_prior"]
    converted.var_ = np.broadcast_to(covariances.reshape(len(model.classes), -1), means.shape).copy()
    converted.epsilon_, converted.class_count_ = 0.0, model.moments.weight[:-1]
    return converted


def _logistic(model: FittedModel, scores: LinearScores) -> Any:
    converted = LogisticRegression(C=scores.C)
    converted.coef_, converted.intercept_ = model.values["coef"], model.values["intercept"]
    converted.n_iter_ = np.array([model.n_iter], dtype=np.int32)
    if scores.degree == 1:
        return _described(converted, model)
    converted.classes_, converted.n_features_in_ = model.classes, converted.coef_.shape[1]
    products = PolynomialFeatures(scores.degree, include_bias=False).fit(np.zeros((1, model.n_features)))
    steps = [("polynomialfeatures", _described(products, model, False)), ("logisticregression", converted)]
    return Pipeline(steps)


def _pipeline(model: Pipeline) -> Pipeline:
    *first, (name, last) = model.steps
    for i, (_, step) in enumerate(first, start=1):
        if type(step) is not StandardScaler:
            raise ValueError(
                f"the step {type(step).__name__} is not converted, only StandardScaler is: convert the steps after it, "
                f"pipeline[{i}:], and give them its output."
            )
    return Pipeline([*((other, deepcopy(step)) for other, step in first), (name, to_sklearn(last))])


def _chosen(model: Any) -> Pipeline:
    """The candidate that has all the weight; its classes are numbers, and get their names back."""
    used = [name for name, weight in model.weights_.items() if weight == 1.0]
    if not used:
        several = sum(weight > 0.0 for weight in model.weights_.values())
        raise ValueError(
            f"this model averages {several} classifiers, and scikit-learn has no fitted average: fit with method='pick', or "
            "convert one of estimators_."
        )
    converted = to_sklearn(model.estimators_[used[0]])
    _described(converted[0], model, False)
    end = converted
    while isinstance(end, Pipeline):
        end = end[-1]
    end.classes_ = model.classes_
    return converted
