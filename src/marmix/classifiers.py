"""The scikit-learn estimators: validate, encode, delegate."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from marmix import start
from marmix.covariance import structure
from marmix.engines import NumpyEngine, block_rows
from marmix.fitting import fit_mixture
from marmix.labels import encode_labels, known_labels
from marmix.missingness import Mechanism
from marmix.notes import BoundaryWarning, covariance_notes, mechanism_notes
from marmix.scores import GaussianScores
from marmix.solvers import Fit
from marmix.uncertainty import Posterior, log_tau, measure_function, posterior
from marmix.validation import check_finite, check_parameters, component_counts, weighted_rows

Array = NDArray[np.float64]


class _SettingAndMethod:
    """A parameter and a method of the same name, which the paper's word "uncertainty" wants to be.

    Setting it sets the parameter, which `get_params` returns; reading it from an estimator gives the method.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, estimator: BaseEstimator, value: object) -> None:
        vars(estimator)[self.name] = value

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        return self if estimator is None else estimator._uncertainty_of


def _silent(line: str) -> None:
    """Take a line of progress and say nothing."""


def _models_missingness(estimator: "MARGaussianMixture") -> bool:
    if estimator.link is None:
        raise AttributeError(
            f"link=None ignores the mechanism: fit {type(estimator).__name__} with a link to have one."
        )
    return True


class MARGaussianMixture(ClassifierMixin, BaseEstimator):
    """Gaussian mixture classifier that knows why labels are missing.

    Each class k is a Gaussian (or a mixture of a few), and the label of a row is missing with probability

        q = 1 - (1 + shape e^eta)^(-1 / shape),    eta = alpha_0 + alpha_1 u,

    where u measures how sure the classifier itself is of the row. Labels that are missing where the classes are hard to
    tell apart then say where the boundary is. All parameters are found together by maximum likelihood from the
    labelled and the unlabelled rows; missing labels are imputed by Bayes' rule.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Each component its own covariance matrix, one for all, diagonal ones, or one variance each. "full" assumes least
        and gives quadratic boundaries; prefer "tied" (linear boundaries, far fewer parameters) when labels are few.
    n_components : int or dict, default=1
        Gaussian components per class; a dict maps classes to numbers. One is the model of the paper; several describe
        classes that are not Gaussian.
    link : {"aranda-ordaz", "logit", "cloglog"} or None, default="aranda-ordaz"
        How the missing probability depends on eta. The default contains the other two. None ignores the mechanism.
    shape : float or None, default=None
        The shape lambda >= 0 of the Aranda-Ordaz link: 0 is cloglog, 1 is logit. None estimates it; in small samples it is
        hardly identified, which harms neither posteriors nor imputed labels, and a warning says so when it runs to a limit.
    uncertainty : {"margin", "entropy", "log-entropy", "gini", "discriminant"} or callable, default="margin"
        The measure u. "margin" is the squared difference of the two largest posteriors, "discriminant" the square of
        their log-odds (both large where the class is clear, so alpha_1 < 0 if hard rows lose their labels); "entropy", its
        logarithm, and "gini" use all posteriors (large where it is unclear, alpha_1 > 0). With more than two classes
        "entropy" and "gini" are the safer choice: they are smooth, and a third likely class counts. A callable takes log
        posteriors (n, K) and returns u (n,), or u and its partial derivatives (n, K).
    mcar_share : bool, default=False
        Whether to estimate a share a of labels missing completely at random besides, q = a + (1 - a) g(eta). Off by
        default: with a free shape it is identified in large samples only.
    classes : array-like or None, default=None
        The classes, in the order wanted in `classes_`. By default those found in y, sorted. Naming them makes a class
        without labels an error, and lets -1 be a class.
    solver : {"lbfgs", "ecm"}, default="lbfgs"
        Both reach the same maximum; "lbfgs" takes far fewer passes over the data. "ecm" is the paper's algorithm, whose
        every step raises the likelihood.
    init : {"labelled", "kmeans"} or dict, default="labelled"
        Starting values: moments of the labelled rows, covariances shrunk to the pooled one so that a class with few
        labels starts regular; k-means on all rows, clusters matched to the labels (the paper's); or your own, a dict
        with any of "weights", "means", "covariances", "alpha", "shape", "share" as in the fitted attributes.
    n_init : int, default=1
        Number of starts; the best maximum is kept. The first is the plain one, later ones are shaken. The likelihood can
        have several maxima: raise this when labels are few.
    warm_start : bool, default=False
        Start from the previous fit of this estimator.
    reg_covar : float, default=1e-6
        No component may have, in any direction, less than this fraction of the pooled within-class variance (precisely:
        residual variances of a feature given later ones). Being relative it means the same in all units, and being a
        limit it changes nothing unless a covariance collapses.
    max_iter : int, default=1000
        Most iterations of the solver.
    tol : float, default=1e-8
        Stop when the rise of the log-likelihood still to come is estimated below this, per row.
    random_state : int, RandomState instance or None, default=None
        For k-means and restarts. A default fit uses no random numbers.
    verbose : int, default=0
        1 reports each start, 2 each iteration.

    Attributes
    ----------
    classes_ : array of shape (K,)
    weights_, means_, covariances_ : arrays
        Of the components, in the shapes of :class:`sklearn.mixture.GaussianMixture`.
    component_classes_ : array of shape (C,)
        The class that each component belongs to.
    class_prior_ : array of shape (K,)
        Class probabilities: sums of `weights_`.
    alpha_ : array of shape (2,) or None
        Intercept and slope of the mechanism; None where link=None.
    shape_, share_ : float or None
        Aranda-Ordaz shape and MCAR share.
    mechanism_ : Mechanism or None
        The fitted mechanism.
    transduction_ : array of shape (n,)
        A label for every training row: the given one, or the imputed one.
    loglik_, loglik_ignorable_, loglik_missing_ : float
        The maximised log-likelihood, and its two parts.
    converged_ : bool
    n_iter_ : int
    n_passes_ : int
        Passes over the data.
    trace_ : array
        The log-likelihood after every iteration.
    notes_ : list of str
        What the fit warned of, in words.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARGaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=400)
    >>> X = rng.normal(size=(400, 2)) + np.where(y == 1, 1.0, -1.0)[:, None]
    >>> y_partial = np.where(np.abs(X.sum(axis=1)) < 2.5, -1, y)    # hard rows are not labelled
    >>> clf = MARGaussianMixture(link="logit").fit(X, y_partial)
    >>> bool(clf.alpha_[1] < 0)                                      # the clearer, the more often labelled
    True
    >>> float(np.mean(clf.transduction_ == y) > 0.9)
    1.0
    """

    uncertainty: Any = _SettingAndMethod()

    def __init__(
        self,
        *,
        covariance_type: str = "full",
        n_components: int | Mapping[Any, int] = 1,
        link: str | None = "aranda-ordaz",
        shape: float | None = None,
        uncertainty: str | Callable[..., object] = "margin",
        mcar_share: bool = False,
        classes: ArrayLike | None = None,
        solver: str = "lbfgs",
        init: str | Mapping[str, Any] = "labelled",
        n_init: int = 1,
        warm_start: bool = False,
        reg_covar: float = 1e-6,
        max_iter: int = 1000,
        tol: float = 1e-8,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.covariance_type = covariance_type
        self.n_components = n_components
        self.link = link
        self.shape = shape
        self.uncertainty = uncertainty
        self.mcar_share = mcar_share
        self.classes = classes
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.warm_start = warm_start
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator, as scikit-learn's `get_params`."""
        return super().get_params(deep) | {"uncertainty": vars(self)["uncertainty"]}

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MARGaussianMixture":
        """Fit the classes and the mechanism to partly labelled rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features: numpy, pandas or polars. No value may be missing.
        y : array-like of shape (n,)
            Labels; -1, NaN, None or pandas.NA where missing.
        sample_weight : array-like of shape (n,) or None
            A row of weight two counts as two rows.

        Returns
        -------
        self
        """
        check_parameters(self.get_params())
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False)
        names = self._column_names()
        check_finite(X, names)
        z, classes = encode_labels(y, self.classes)
        if len(z) != len(X):
            raise ValueError(f"X and y have inconsistent numbers of samples: {len(X)} and {len(z)}.")
        counts = component_counts(self.n_components, classes)
        counted, labels, weight = weighted_rows(X, z, sample_weight, classes)
        model = GaussianScores(structure(self.covariance_type, X.shape[1]), counts)
        previous = self._previous_fit(classes, counts) if self.warm_start else {}
        mean, covariance = start.overall_moments(counted, weight)
        start.check_columns(mean, covariance, names)
        dependent = start.dependent_columns(covariance, names) if self.covariance_type in ("full", "tied") else None
        labelled = start.class_moments(counted, labels, weight, len(classes))
        frame = start.frame_of(model, mean, covariance, labelled, dependent is not None)
        engine = NumpyEngine(counted, labels, weight, frame, model)
        self.classes_ = classes
        fit = fit_mixture(
            engine,
            labelled,
            self._mechanism() if (z < 0).any() else None,
            solver=self.solver,
            init=previous or self.init,
            n_init=self.n_init,
            floor=self.reg_covar,
            max_iter=self.max_iter,
            tol=self.tol,
            rng=check_random_state(self.random_state),
            say=print if self.verbose else _silent,
            say_more=print if self.verbose > 1 else _silent,
        )
        self._set_fitted(fit, engine)
        del engine
        self._warn(fit, dependent)
        self.transduction_ = classes[z]
        for rows in self._blocks(len(X)):
            imputed = z[rows] < 0
            if imputed.any():
                self.transduction_[rows][imputed] = classes[self._scores(X[rows][imputed]).argmax(axis=0)]
        return self

    def _mechanism(self) -> Mechanism | None:
        """The mechanism to be fitted."""
        if self.link is None:
            return None
        return Mechanism.from_link(self.link, self.shape, vars(self)["uncertainty"], self.mcar_share)

    def _set_fitted(self, fit: Fit, engine: NumpyEngine) -> None:
        frame, model = engine.frame, engine.model
        offset = engine.total_weight * frame.log_det
        sums = engine.sums(fit.theta, fit.mechanism)
        self._model, self._frame, self._theta = model, frame, fit.theta
        self.weights_ = np.exp(fit.theta.log_pi)
        self.means_ = fit.theta.mu @ frame.unwhitener.T + frame.centre
        self.covariances_ = model.structure.covariances(fit.theta.chol, frame.unwhitener)
        self.component_classes_ = self.classes_[model.owner]
        self.class_prior_ = np.bincount(model.owner, weights=self.weights_)
        self.mechanism_ = fit.mechanism
        if fit.mechanism is None and self.link is not None:
            # every row labelled: the maximum of the mechanism is that no label is ever missing
            self.mechanism_ = Mechanism(uncertainty=vars(self)["uncertainty"], alpha=(-np.inf, 0.0), shape=np.nan)
        known = self.mechanism_
        self.alpha_ = None if known is None else np.array(known.alpha)
        self.shape_ = None if known is None else known.shape
        self.share_ = None if known is None else known.share
        self.loglik_ignorable_ = sums.ignorable + offset
        self.loglik_missing_ = sums.missing
        self.loglik_ = self.loglik_ignorable_ + self.loglik_missing_
        self.trace_ = np.array(fit.trace) + offset
        self.converged_ = fit.converged
        self.n_iter_ = max(len(fit.trace) - 1, 1)
        self.n_passes_ = fit.n_passes
        self._total_weight = engine.total_weight

    def _warn(self, fit: Fit, dependent: str | None) -> None:
        if not fit.converged:
            warnings.warn(
                f"The fit did not converge: {fit.reason}. Raise max_iter, try n_init, or simplify the model "
                "(covariance_type='tied', a fixed shape).",
                ConvergenceWarning,
                stacklevel=3,
            )
        pivots = self._model.structure.pivots(self._theta.chol)
        self.notes_ = [
            *mechanism_notes(self.mechanism_, self.loglik_missing_ / self._total_weight),
            *covariance_notes(dependent, pivots, self.component_classes_.tolist(), self.reg_covar),
        ]
        if self.notes_:
            warnings.warn(" ".join(self.notes_), BoundaryWarning, stacklevel=3)

    def _previous_fit(self, classes: NDArray[Any], counts: list[int]) -> dict[str, Any]:
        """Starting values from the previous fit, where there is one."""
        if not hasattr(self, "_model"):
            return {}
        same = self._model.counts == counts and np.array_equal(self.classes_, classes)
        if not same or self.means_.shape[1] != self.n_features_in_:
            raise ValueError("warm_start=True: classes, n_components and features must be those of the previous fit.")
        values: dict[str, Any] = {"weights": self.weights_, "means": self.means_, "covariances": self.covariances_}
        if self.alpha_ is not None and np.isfinite(self.alpha_).all():
            values |= {"alpha": self.alpha_, "shape": self.shape_, "share": self.share_}
        return values

    def _column_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _blocks(self, n: int) -> list[slice]:
        size = block_rows(self._model.structure.n_features())
        return [slice(a, min(a + size, n)) for a in range(0, n, size)]

    def _scores(self, X: NDArray[np.floating[Any]]) -> Array:
        """Class scores (K, n) of a block of rows."""
        return self._model.scores(self._theta, self._frame.enter(X))

    def _map(self, X: Any, function: Callable[[Posterior], Array], *shape: int) -> Array:
        """A function of the posteriors of each row, block by block."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=False)
        check_finite(X, self._column_names())
        out = np.empty((len(X), *shape))
        with np.errstate(all="ignore"):
            for rows in self._blocks(len(X)):
                out[rows] = function(posterior(self._scores(X[rows]))).T
        return out

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the posterior class probabilities, (n, K); finite however small."""
        check_is_fitted(self)
        return self._map(X, log_tau, len(self.classes_))

    def predict_proba(self, X: Any) -> Array:
        """Posterior class probabilities by Bayes' rule, (n, K), columns as in `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class where there are two, (n,); else the log posteriors, (n, K)."""
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    @available_if(_models_missingness)
    def missing_proba(self, X: Any) -> Array:
        """The probability q that the label of each row is missing, (n,)."""
        check_is_fitted(self)
        known = self.mechanism_
        assert known is not None
        if not np.isfinite(known.alpha[0]):
            return 0.0 * self._uncertainty_of(X)
        return self._map(X, lambda p: known.missing_proba_of(known.measured(p).value))

    def _uncertainty_of(self, X: Any) -> Array:
        """The measure u of each row, (n,): what drives the mechanism."""
        return self._map(X, lambda p: measure_function(vars(self)["uncertainty"])(p).value)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on the rows whose label is known; rows of `y` that are missing do not count.

        The labelled rows are not a fair sample when hard rows lose their labels: this score flatters.
        """
        check_is_fitted(self)
        known, labels = known_labels(y, self.classes_)
        if not known.any():
            raise ValueError("score needs labelled rows, and every label in y is missing.")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(labels, self.predict(X)[known], sample_weight=weight))
