"""Conversion to fitted scikit-learn classifiers with the same class probabilities, for example to export to ONNX."""

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.validation import check_is_fitted

from marmix.core.gaussian import GaussianScores
from marmix.core.linear import KernelScores, LinearScores
from marmix.core.model import FittedModel
from marmix.core.student import StudentScores


def to_sklearn(model: Any) -> Any:
    """Fitted scikit-learn classifier with the same class probabilities.

    The mechanism itself (`missing_proba`) has no counterpart in scikit-learn.

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
        `MARKernelClassifier`                           a pipeline of `StandardScaler`, `Nystroem` and `LogisticRegression`
        a pipeline of `StandardScaler` and one of them  the same pipeline, its last step converted
        `MARClassifierCV`, method="pick"                the pipeline that was picked
        ==============================================  ===========================================================

    Raises
    ------
    ValueError
        If scikit-learn has no such classifier: several Gaussians per class, Student-t classes, averages of candidates.

    Notes
    -----
    Export to ONNX with ``skl2onnx.to_onnx(clf.to_sklearn(), X[:1].astype("float32"))``. Two exceptions: skl2onnx (1.20) doubles
    the log-odds of any `LinearDiscriminantAnalysis` of two classes. Copy its `coef_`, `intercept_`, `classes_` and
    `n_features_in_` to a `LogisticRegression` and export that. And it does not know `Nystroem`.
    """
    check_is_fitted(model)
    if isinstance(model, Pipeline):
        return _pipeline(model)
    if not hasattr(model, "preparation_"):
        raise ValueError(f"to_sklearn converts the estimators of marmix, which {type(model).__name__} is not.")
    if model.preparation_ is not None:
        raise ValueError(
            "scikit-learn has no counterpart of preparation_: fit to the numbers that "
            "Preparation().fit_transform(X) returns."
        )
    if isinstance(getattr(model, "estimators_", None), dict):
        return _chosen(model)
    kinds: Any = ((GaussianScores, _mixture), (KernelScores, _kernel), (LinearScores, _logistic))
    fitted = model.model_
    for kind, convert in kinds:
        if isinstance(fitted.score_model, kind):
            return convert(fitted, fitted.score_model)
    raise ValueError(f"scikit-learn has no counterpart of this model ({fitted.score_model.words}).")


def _described(converted: Any, model: Any, classes: bool = True) -> Any:
    """Set the features, and optionally the classes, of a new estimator from a fitted model or estimator."""
    fitted = isinstance(model, FittedModel)
    if classes:
        converted.classes_ = model.classes if fitted else model.classes_
    converted.n_features_in_ = model.n_features if fitted else model.n_features_in_
    names = model.features if fitted else getattr(model, "feature_names_in_", None)
    if names is not None:
        converted.feature_names_in_ = names
    return converted


def _mixture(model: FittedModel, scores: GaussianScores) -> Any:
    if isinstance(scores, StudentScores):
        raise ValueError(
            "scikit-learn has no classifier with Student-t classes: fit MARGaussianMixture, or save the model with marmix.save."
        )
    if not scores.single:
        raise ValueError(
            "scikit-learn has no classifier with several Gaussians per class: fit with n_components=1, or save the model with "
            "marmix.save."
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
    converted.priors_, converted.means_ = values["class_prior"], values["means"]
    converted.covariance_ = values["covariances"]
    return converted


def _quadratic(model: FittedModel, scores: GaussianScores) -> QuadraticDiscriminantAnalysis:
    converted = _described(QuadraticDiscriminantAnalysis(store_covariance=True), model)
    roots = model.frame.unwhitener @ np.swapaxes(np.linalg.inv(model.theta.chol), 1, 2)
    left, singular, _ = np.linalg.svd(roots)  # root root' is the covariance; its square root keeps twice the digits
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


def _kernel(model: FittedModel, scores: KernelScores) -> Pipeline:
    frame: Any = model.frame
    scaler = _described(StandardScaler(), model, False)
    scaler.mean_, scaler.scale_, scaler.var_ = frame.centre, frame.scale, frame.scale**2
    scaler.n_samples_seen_ = round(model.total_weight)
    m = len(frame.landmarks)
    features = Nystroem(gamma=frame.gamma, n_components=m)
    features.components_, features.normalization_ = (frame.landmarks - frame.centre) / frame.scale, frame.root
    features.component_indices_, features.n_features_in_ = np.arange(m), model.n_features
    converted = LogisticRegression(C=scores.C)
    converted.coef_, converted.intercept_, converted.classes_ = model.theta[:, 1:], model.theta[:, 0], model.classes
    converted.n_iter_, converted.n_features_in_ = np.array([model.n_iter], dtype=np.int32), frame.size
    return Pipeline([("standardscaler", scaler), ("nystroem", features), ("logisticregression", converted)])


def _pipeline(model: Pipeline) -> Pipeline:
    *first, (name, last) = model.steps
    for i, (_, step) in enumerate(first, start=1):
        if type(step) is not StandardScaler:
            raise ValueError(
                f"the step {type(step).__name__} is not converted, only StandardScaler is: convert the steps after it, "
                f"pipeline[{i}:], and give them its output."
            )
    return Pipeline([*((key, deepcopy(step)) for key, step in first), (name, to_sklearn(last))])


def _chosen(model: Any) -> Pipeline:
    """The candidate with all the weight, with the names of the classes."""
    used = [name for name, weight in model.weights_.items() if weight == 1.0]
    if not used:
        several = sum(weight > 0.0 for weight in model.weights_.values())
        raise ValueError(
            f"this model averages {several} classifiers, which scikit-learn cannot: fit with method='pick', or convert one of "
            "estimators_."
        )
    if model.prior_offset_ is not None:
        raise ValueError("a model with known class shares (prior=) cannot be converted: convert one of estimators_.")
    converted = to_sklearn(model.estimators_[used[0]])
    _described(converted[0], model, False)
    end = converted
    while isinstance(end, Pipeline):
        end = end[-1]
    end.classes_ = model.classes_
    return converted
