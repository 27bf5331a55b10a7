"""Fits of `MARGaussianMixture` and `MARLogisticRegression` as plain values, and back, checked."""

from typing import Any

import numpy as np

from marmix.container.fields import Fields
from marmix.container.format import ContainerError
from marmix.estimators import MARGaussianMixture, MARLogisticRegression
from marmix.estimators.validation import check_parameters
from marmix.inference import Fingerprint
from marmix.mechanism import Mechanism, drivers_of
from marmix.mechanism.measures import MEASURES, as_measure, posterior
from marmix.moments import GroupMoments
from marmix.rows import Frame
from marmix.scores.covariance import STRUCTURES, structure
from marmix.scores.gaussian import Gaussians, GaussianScores
from marmix.scores.linear import LinearScores

# Shapes of covariances and of their factors: C components, d features.
_COVARIANCES = {"full": "Cdd", "tied": "dd", "diag": "Cd", "spherical": "C"}


def plain_part(value: Any) -> Any:
    """Parts of a fit that are objects, as dicts; anything else is returned as it is."""
    if isinstance(value, Mechanism):
        return {
            "uncertainty": value.uncertainty,
            "alpha": list(value.alpha),
            "shape": value.shape,
            "share": value.share,
            "free_shape": value.free_shape,
            "free_share": value.free_share,
        }
    if isinstance(value, Frame):
        return {"centre": value.centre, "whitener": value.whitener}
    if isinstance(value, GaussianScores):
        return {"counts": value.counts, "floor": value.floor}
    if isinstance(value, LinearScores):
        return {
            "degree": value.degree,
            "C": value.C,
            "centre": value.centre,
            "scale": value.scale,
            "information": value.information,
        }
    if isinstance(value, Gaussians):
        return {"log_pi": value.log_pi, "mu": value.mu, "chol": value.chol}
    if isinstance(value, Fingerprint):
        return value.moments._asdict()
    return value


def restore_mixture(estimator: MARGaussianMixture, fitted: Fields) -> None:
    """Give a mixture the fitted attributes of a file."""
    check_parameters(estimator.get_params())
    K, d = _restore_shared(estimator, fitted)
    kind = fitted.text("_covariance_type", STRUCTURES)
    about = fitted.part("_model")
    counts, floor = about.wholes("counts", 1, 2**20), about.number("floor", 0.0)
    about.finish()
    theta = fitted.part("_theta")
    mu = theta.floats("mu", -1, d)
    C = len(mu)
    if len(counts) != K or sum(counts) != C:
        raise fitted.refuse("_model", f"about {K} classes and {C} components")
    shape = [{"C": C, "d": d}[side] for side in _COVARIANCES[kind]]
    estimator._theta = Gaussians(theta.floats("log_pi", C), mu, theta.floats("chol", *shape))
    theta.finish()
    estimator._model = GaussianScores(structure(kind, d), counts, floor)
    estimator._covariance_type = kind
    estimator.weights_ = fitted.floats("weights_", C)
    estimator.means_ = fitted.floats("means_", C, d)
    estimator.covariances_ = fitted.floats("covariances_", *shape)
    estimator.class_prior_ = fitted.floats("class_prior_", K)
    owners = fitted.anything("component_classes_")
    expected = estimator.classes_[estimator._model.owner]
    if getattr(owners, "dtype", None) != expected.dtype or not np.array_equal(owners, expected):
        raise fitted.refuse("component_classes_", "the classes of the components")
    estimator.component_classes_ = owners
    fitted.finish()
    _try(estimator)


def restore_logistic(estimator: MARLogisticRegression, fitted: Fields) -> None:
    """Give a logistic regression the fitted attributes of a file."""
    check_parameters(estimator.get_params())
    K, d = _restore_shared(estimator, fitted)
    about = fitted.part("_model")
    degree, C = about.whole("degree", 1, 2), about.number("C")
    if not C > 0.0:
        raise about.refuse("C", "positive")
    p, V = 1 + d + (d * (d + 1) // 2 if degree == 2 else 0), 1 if K == 2 else K
    information = about.floats("information", p, p)
    centre, scale = about.floats("centre", d), about.floats("scale", d)
    about.finish()
    if not (scale > 0.0).all():
        raise about.refuse("scale", "positive")
    estimator._theta = fitted.floats("_theta", V, p)
    estimator._model = model = LinearScores(d, K, degree, C, centre, scale)
    model.information = information
    estimator.intercept_ = fitted.floats("intercept_", V)
    estimator.coef_ = fitted.floats("coef_", V, p - 1)
    fitted.finish()
    _try(estimator)


def restore_features(estimator: Any, fitted: Fields) -> int:
    """The number of features, and their names if they have any."""
    estimator.n_features_in_ = fitted.whole("n_features_in_", 1, 2**20)
    if fitted.has("feature_names_in_"):
        estimator.feature_names_in_ = fitted.names("feature_names_in_", estimator.n_features_in_)
    return int(estimator.n_features_in_)


def _restore_shared(estimator: Any, fitted: Fields) -> tuple[int, int]:
    """What both estimators have; numbers of classes and features."""
    d = restore_features(estimator, fitted)
    estimator.classes_ = fitted.labels("classes_")
    K = len(estimator.classes_)
    frame = fitted.part("_frame")
    centre, whitener = frame.floats("centre", d), frame.floats("whitener", d, d)
    frame.finish()
    estimator._frame = Frame(centre, whitener)
    estimator._measure = fitted.text("_measure", MEASURES)
    estimator._columns = fitted.wholes("_columns", 0, d - 1)
    if len(set(estimator._columns)) < len(estimator._columns):
        raise fitted.refuse("_columns", "a list of different columns")
    estimator.mechanism_ = _mechanism(fitted)
    _restore_mechanism(estimator, fitted)
    for name in ("loglik_", "loglik_ignorable_", "loglik_missing_"):
        setattr(estimator, name, fitted.number(name))
    for name in ("_tempering", "_total_weight", "_missing_weight"):
        setattr(estimator, name, fitted.number(name, 0.0))
    estimator.trace_ = fitted.floats("trace_", -1, finite=False)
    estimator.converged_ = fitted.flag("converged_")
    estimator.n_iter_, estimator.n_passes_ = fitted.whole("n_iter_"), fitted.whole("n_passes_")
    estimator.notes_ = fitted.texts("notes_")
    entropy = fitted.anything("_entropy")
    if entropy is not None and not isinstance(entropy, float):
        raise fitted.refuse("_entropy", "a number or null")
    estimator._entropy = entropy
    rows = fitted.part("_fingerprint")
    parts = rows.floats("weight", K + 1), rows.floats("mean", K + 1, d), rows.floats("scatter", K + 1, d, d)
    rows.finish()
    estimator._fingerprint = Fingerprint(GroupMoments(*parts))
    return K, d


def _mechanism(fitted: Fields) -> Mechanism | None:
    value = fitted.anything("mechanism_")
    if value is None:
        return None
    about = Fields(value, f"{fitted.where}, mechanism_")
    alpha = about.anything("alpha")
    if not isinstance(alpha, list) or not all(isinstance(slope, float) for slope in alpha):
        raise about.refuse("alpha", "a list of numbers")
    if not np.isfinite(alpha[1:]).all() or not (alpha and (np.isfinite(alpha[0]) or alpha[0] == -np.inf)):
        raise about.refuse("alpha", "finite")
    mechanism = Mechanism(
        uncertainty=about.text("uncertainty", MEASURES),
        alpha=tuple(alpha),
        shape=about.number("shape"),
        share=about.number("share", 0.0),
        free_shape=about.flag("free_shape"),
        free_share=about.flag("free_share"),
    )
    about.finish()
    return mechanism


def _restore_mechanism(estimator: Any, fitted: Fields) -> None:
    """alpha, shape and share as they stand beside the mechanism, or null where there is none."""
    known = estimator.mechanism_
    if known is None:
        for name in ("alpha_", "shape_", "share_"):
            if fitted.anything(name) is not None:
                raise fitted.refuse(name, "null, though there is no mechanism")
            setattr(estimator, name, None)
        return
    size = 2 + len(estimator._columns)
    if len(known.alpha) != size or known.uncertainty != estimator._measure:
        raise fitted.refuse("mechanism_", f"one of {estimator._measure} with {size} coefficients")
    if np.isnan(known.shape) and np.isfinite(known.alpha[0]):
        raise fitted.refuse("mechanism_", "one with a shape")
    estimator.alpha_ = fitted.floats("alpha_", size, finite=False)
    estimator.shape_, estimator.share_ = fitted.number("shape_"), fitted.number("share_", 0.0)
    beside = [*estimator.alpha_, estimator.shape_, estimator.share_]
    if not np.array_equal(beside, [*known.alpha, known.shape, known.share], equal_nan=True):
        raise fitted.refuse("alpha_", "that of the mechanism")


def _try(estimator: Any) -> None:
    """Predict one row, the mean of all: what the file says must give probabilities."""
    row = estimator._frame.centre[None, :]
    p = posterior(estimator._scores(row))
    u = as_measure(estimator._measure)(p).value
    sound = np.isfinite(p.scores).all() and np.isfinite(u).all()
    known = estimator.mechanism_
    if known is not None and np.isfinite(known.alpha[0]):
        covariates = row[:, estimator._columns].T
        q = known.missing_proba_of(drivers_of(u, covariates))
        sound = sound and 0.0 <= q[0] <= 1.0
    if not sound:
        raise ContainerError("the parameters in the file give no probabilities: they are damaged or made up.")
