"""Gaussian classes, specified by their parameters or taken from a fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from marmix.core.arrays import Array
from marmix.core.covariance import structure
from marmix.core.frames import Covariates, Frame
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.core.mechanism import Mechanism
from marmix.core.model import FittedModel
from marmix.core.student import StudentScores
from marmix.engines import NumpyEngine
from marmix.fitting import Objective

_NO_FLOOR = float(np.finfo(float).tiny)


class GaussianClasses:
    """Gaussian classes with given parameters, the ones that `MARGaussianMixture` estimates.

    The functions of `marmix.theory` take it in place of a fitted model, to plan a study before there are data.

    Parameters
    ----------
    weights : array-like of shape (C,)
        Probabilities of the components, which sum to one.
    means : array-like of shape (C, d)
        Means of the components.
    covariances : array-like
        In scikit-learn's shapes: (C, d, d) if "full", (d, d) if "tied", (C, d) if "diag", (C,) if "spherical".
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        The structure that a fit would assume: with "tied", a common covariance, classes are easier to estimate.
    component_classes : array-like of shape (C,) or None, default=None
        The class of each component. By default every component is a class.
    mechanism_features : sequence of int or None, default=None
        Features that enter eta besides the uncertainty, in the order of the mechanism's further slopes alpha.

    Raises
    ------
    ValueError
        If shapes do not agree, weights do not sum to one, or a covariance is not symmetric and positive definite.

    See Also
    --------
    bayes_error : The smallest possible error rate of such classes.
    label_budget : What modelling the mechanism is worth.
    marmix.datasets.make_mar_mixture : Draw rows from such classes.

    Examples
    --------
    Two classes whose means are two standard deviations apart:

    >>> from marmix.theory import GaussianClasses, bayes_error
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> round(bayes_error(classes).value, 6)
    0.158655
    """

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        covariances: ArrayLike,
        covariance_type: str = "full",
        component_classes: ArrayLike | None = None,
        mechanism_features: Sequence[int] | None = None,
    ):
        self.weights, self.means = _numbers("weights", weights), _numbers("means", means)
        self.covariances, self.covariance_type = _numbers("covariances", covariances), covariance_type
        if self.weights.ndim != 1 or len(self.weights) < 2 or not (self.weights > 0.0).all():
            raise ValueError(f"weights must be two or more positive probabilities; got {weights!r}.")
        if abs(self.weights.sum() - 1.0) > 1e-8:
            raise ValueError(f"weights sum to {self.weights.sum():.10g}, not to 1: divide them by their sum.")
        n = len(self.weights)
        if self.means.ndim != 2 or len(self.means) != n or self.means.shape[1] < 1:
            raise ValueError(f"means must have shape ({n}, d), one row per component; got {self.means.shape}.")
        d = self.means.shape[1]
        kind = structure(covariance_type, d)
        identity = kind.factor(kind.project(np.tile(np.eye(d), (n, 1, 1)), self.weights), _NO_FLOOR)
        shape = kind.covariances(identity, np.eye(d)).shape
        if self.covariances.shape != shape:
            raise ValueError(
                f"covariances must have shape {shape} with covariance_type={covariance_type!r}; got {self.covariances.shape}."
            )
        if not kind.positive(self.covariances):
            raise ValueError("covariances must be positive definite.")
        symmetric = kind.covariances(kind.factor(self.covariances, _NO_FLOOR), np.eye(d))  # from one triangle
        if not np.allclose(symmetric, self.covariances, rtol=1e-6, atol=1e-8 * float(np.abs(symmetric).max())):
            raise ValueError("covariances must be symmetric.")
        owner = np.arange(n) if component_classes is None else np.asarray(component_classes)
        if owner.shape != (n,) or len(np.unique(owner)) < 2:
            raise ValueError(
                f"component_classes must give the class of each of the {n} components, with two or more classes."
            )
        self.component_classes: NDArray[Any] = owner
        self.mechanism_features = [] if mechanism_features is None else [int(i) for i in mechanism_features]
        if not all(0 <= i < d for i in self.mechanism_features):
            raise ValueError(f"mechanism_features={mechanism_features!r} must be indices of the {d} features.")


@dataclass(frozen=True)
class Description:
    """Classes in the axes of a fit."""

    model: GaussianScores
    theta: Gaussians
    frame: Frame
    columns: list[int]  # features that enter the mechanism
    mechanism: Mechanism | None  # the fitted one

    @property
    def d(self) -> int:
        """Number of features."""
        return self.theta.mu.shape[1]

    @cached_property
    def axes(self) -> Array:
        """A rotation of the axes of the fit, (d, d), after which the first axes separate the means."""
        pi, mu = np.exp(self.theta.log_pi), self.theta.mu
        return np.linalg.svd(np.sqrt(pi)[:, None] * (mu - pi @ mu))[2]

    @cached_property
    def turned(self) -> tuple[Array, Array]:
        """Means (C, d) and covariances (C, d, d) of the components in these axes."""
        spread = self.axes @ self.model.structure.spread(self.theta.chol, len(self.theta.mu))
        return self.theta.mu @ self.axes.T, spread @ np.swapaxes(spread, 1, 2)

    def objective(self, x: Array, weight: Array) -> Objective:
        """The objective of nodes (n, d) in these axes as unlabelled rows."""
        X = x @ self.axes @ self.frame.unwhitener.T + self.frame.centre
        engine = NumpyEngine(X, np.full(len(x), -1), weight, self.model.n_classes, self.frame, self.covariates)
        return Objective(engine, self.model)

    @property
    def covariates(self) -> Covariates:
        """The features that enter the mechanism, standardised."""
        pi, mu = np.exp(self.theta.log_pi), self.theta.mu
        spread = self.model.structure.spread(self.theta.chol, len(mu))
        within = np.einsum("c,cij,ckj->ik", pi, spread, spread)
        between = np.einsum("c,ci,cj->ij", pi, mu - pi @ mu, mu - pi @ mu)
        covariance = self.frame.unwhitener @ (within + between) @ self.frame.unwhitener.T
        mean = self.frame.unwhitener @ (pi @ mu) + self.frame.centre
        return Covariates.standardised(self.columns, mean, np.diag(covariance))

    def entered(self, mechanism: Mechanism | None) -> Mechanism:
        """The given mechanism, or the fitted one, in the axes of its covariates; raises if it does not suit these classes."""
        mechanism = self.mechanism if mechanism is None else mechanism
        if mechanism is None:
            raise ValueError("mechanism is None and the model has none: pass a marmix.Mechanism.")
        if not isinstance(mechanism, Mechanism):
            raise ValueError(f"mechanism must be a marmix.Mechanism; got {type(mechanism).__name__}.")
        mechanism.require_no_label_term("the theory of missing labels")
        alpha = np.array(mechanism.alpha, dtype=float)
        if not np.isfinite(alpha).all():
            raise ValueError(
                "the mechanism's alpha is not finite, so no label or every label is missing: pass another one."
            )
        if len(alpha) != 2 + len(self.columns):
            raise ValueError(
                f"the mechanism's alpha has {len(alpha)} entries and must have {2 + len(self.columns)}: intercept, slope of the "
                f"uncertainty, and one for each of the {len(self.columns)} mechanism_features of the model."
            )
        return mechanism.moved(self.covariates.alpha_from_user(alpha))


def described(model: Any) -> Description:
    """The description of `GaussianClasses` or of a fitted `MARGaussianMixture`."""
    if isinstance(model, GaussianClasses):
        return _whitened(model)
    if hasattr(model, "get_params"):
        check_is_fitted(model)
    fitted = getattr(model, "model_", None)
    if not isinstance(fitted, FittedModel) or not isinstance(fitted.score_model, GaussianScores):
        raise ValueError(
            f"{type(model).__name__} has no model of the features: pass a fitted MARGaussianMixture, or GaussianClasses."
        )
    if isinstance(fitted.score_model, StudentScores):
        raise ValueError(
            "the theory is for Gaussian classes: pass a fitted MARGaussianMixture, or GaussianClasses with the means and "
            "covariances of the MARStudentMixture as an approximation."
        )
    return Description(fitted.score_model, fitted.theta, fitted.frame, fitted.columns, fitted.mechanism)


def _whitened(classes: GaussianClasses) -> Description:
    """The classes in axes in which the pooled covariance is the identity."""
    names, owner = np.unique(classes.component_classes, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    pi, means, covariances = classes.weights[order], classes.means[order], classes.covariances
    kind = structure(classes.covariance_type, means.shape[1])
    if kind.by_component:
        covariances = covariances[order]
    spread = kind.spread(kind.factor(covariances, _NO_FLOOR), len(pi))
    frame = Frame(pi @ means, kind.whitener(np.einsum("c,cij,ckj->ik", pi, spread, spread)))
    chol = kind.factor(kind.rebase(covariances, frame.whitener), _NO_FLOOR)
    counts = np.bincount(owner, minlength=len(names)).tolist()
    theta = Gaussians(np.log(pi / pi.sum()), (means - frame.centre) @ frame.whitener.T, chol)
    return Description(GaussianScores(kind, counts, _NO_FLOOR), theta, frame, classes.mechanism_features, None)


def _numbers(name: str, values: ArrayLike) -> Array:
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers; got {values!r}.") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite.")
    return array
