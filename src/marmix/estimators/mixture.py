"""The Gaussian mixture classifier."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from marmix.estimators.base import silent
from marmix.estimators.inferential import InferentialClassifier
from marmix.estimators.validation import check_parameters, component_counts
from marmix.fitting import starts
from marmix.fitting.restarts import fit_mixture
from marmix.inference import Parameters, mixture_parameters
from marmix.notes import covariance_notes
from marmix.rows import Frame
from marmix.scores.covariance import structure
from marmix.scores.gaussian import GaussianScores


class MARGaussianMixture(InferentialClassifier):
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
    uncertainty : {"margin", "entropy", "log-entropy", "gini", "discriminant", "signed-margin"} or callable, \
            default="margin"
        The measure u. "margin" is the squared difference of the two largest posteriors, "discriminant" the square of
        their log-odds (both large where the class is clear, so alpha_1 < 0 if hard rows lose their labels); "entropy", its
        logarithm, and "gini" use all posteriors (large where it is unclear, alpha_1 > 0). With more than two classes
        "entropy" and "gini" are the safer choice: they are smooth, and a third likely class counts. "signed-margin" is for two
        classes whose labels are lost on one side of the boundary (alpha_1 > 0: that of the second class). A callable takes log
        posteriors (n, K) and returns u (n,), or u and its partial derivatives (n, K).
    mcar_share : bool, default=False
        Whether to estimate a share a of labels missing completely at random besides, q = a + (1 - a) g(eta). Off by
        default: with a free shape it is identified in large samples only.
    mechanism_weight : float, default=1.0
        1 is the full likelihood; 0 leaves the classes to the labels and features alone, the mechanism is then fitted to what
        they give; numbers in between temper a mechanism that is only roughly right.
    mechanism_features : list of column names or indices, or None, default=None
        Features that enter eta beside the uncertainty, each with a slope in `alpha_`: for labels that are also lost for
        reasons that the features show.
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
    precision : {"double", "single"}, default="double"
        Of the arithmetic on a device (torch, CuPy). Single is faster on cards made for it; the link and all sums stay double,
        and estimates move by a few hundredths of a standard error. Rows on the host are always computed in double.
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
    alpha_ : array of shape (2 + len(mechanism_features),) or None
        Intercept and slopes of the mechanism; None where link=None.
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
        The objective after every iteration: the log-likelihood, its missingness part times `mechanism_weight`.
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

    def __init__(
        self,
        *,
        covariance_type: str = "full",
        n_components: int | Mapping[Any, int] = 1,
        link: str | None = "aranda-ordaz",
        shape: float | None = None,
        uncertainty: str | Callable[..., object] = "margin",
        mcar_share: bool = False,
        mechanism_weight: float = 1.0,
        mechanism_features: Sequence[Any] | None = None,
        classes: ArrayLike | None = None,
        solver: str = "lbfgs",
        init: str | Mapping[str, Any] = "labelled",
        n_init: int = 1,
        warm_start: bool = False,
        reg_covar: float = 1e-6,
        max_iter: int = 1000,
        tol: float = 1e-8,
        random_state: Any = None,
        precision: str = "double",
        verbose: int = 0,
    ):
        self.covariance_type = covariance_type
        self.n_components = n_components
        self.link = link
        self.shape = shape
        self.uncertainty = uncertainty
        self.mcar_share = mcar_share
        self.mechanism_weight = mechanism_weight
        self.mechanism_features = mechanism_features
        self.classes = classes
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.warm_start = warm_start
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.precision = precision
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MARGaussianMixture":
        """Fit the classes and the mechanism to partly labelled rows.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features: NumPy, pandas or polars; a `numpy.memmap`, which stays in its file if it is large; a torch or CuPy array,
            fitted on its device; a Dask array or dataframe, fitted where its workers are. No value may be missing.
        y : array-like of shape (n,)
            Labels; -1, NaN, None or pandas.NA where missing. With Dask rows a Dask array or series.
        sample_weight : array-like of shape (n,) or None
            A row of weight two counts as two rows.

        Returns
        -------
        self
        """
        check_parameters(self.get_params())
        training = self._validated(X, y, sample_weight)
        counts = component_counts(self.n_components, self.classes_)
        values = self._previous_fit(counts) if self.warm_start else {}
        starts.check_columns(training.mean, training.covariance, training.names)
        whole = self.covariance_type in ("full", "tied")
        dependent = starts.dependent_columns(training.covariance, training.names) if whole else None
        model = GaussianScores(structure(self.covariance_type, len(training.mean)), counts, self.reg_covar)
        labelled = training.rows.moments.labelled
        frame = starts.frame_of(model, training.mean, training.covariance, labelled, dependent is not None)
        engine = training.rows.engine(training.setting(frame, model, float(self.mechanism_weight)))
        if not values and isinstance(self.init, Mapping):
            values = dict(self.init)
        fit = fit_mixture(
            engine,
            labelled,
            self._mechanism(training),
            solver=self.solver,
            kmeans=self.init == "kmeans",
            values=self._starting_values(training, values),
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            rng=check_random_state(self.random_state),
            names=self.classes_.tolist(),
            say=print if self.verbose else silent,
            say_more=print if self.verbose > 1 else silent,
            empty=None if dependent is None else starts.empty_axes(frame, training.covariance),
        )
        self._set_fitted(fit, engine, training, engine.total_weight * frame.log_det)
        self._set_mixture(model, frame)
        del engine
        pivots = model.structure.pivots(fit.theta.chol)
        self._warn(fit, list(covariance_notes(dependent, pivots, self.component_classes_.tolist(), self.reg_covar)))
        self._set_transduction(training)
        return self

    def _set_mixture(self, model: GaussianScores, frame: Frame) -> None:
        theta = self._theta
        self._covariance_type = self.covariance_type
        self.weights_ = np.exp(theta.log_pi)
        self.means_ = theta.mu @ frame.unwhitener.T + frame.centre
        self.covariances_ = model.structure.covariances(theta.chol, frame.unwhitener)
        self.component_classes_: NDArray[Any] = self.classes_[model.owner]
        self.class_prior_ = np.bincount(model.owner, weights=self.weights_)

    def _previous_fit(self, counts: list[int]) -> dict[str, Any]:
        """Starting values from the previous fit, where there is one."""
        if not hasattr(self, "component_classes_"):
            return {}
        same = np.array_equal(np.repeat(self.classes_, counts), self.component_classes_)
        same = same and self.means_.shape[1] == self.n_features_in_ and self._covariance_type == self.covariance_type
        if not same:
            raise ValueError(
                "warm_start=True: classes, n_components, covariance_type and features must be those of the previous fit."
            )
        values: dict[str, Any] = {"weights": self.weights_, "means": self.means_, "covariances": self.covariances_}
        return values | self._previous_mechanism()

    def _parameters(self, features: list[str], mechanism: Parameters) -> Parameters:
        """The parameters of the mixture, then those of the mechanism."""
        model: GaussianScores = self._model  # type: ignore[assignment]
        return mixture_parameters(model, self._frame, self.classes_, features, mechanism)

    def _numbered(self) -> "MARGaussianMixture":
        other: MARGaussianMixture = super()._numbered()
        model: GaussianScores = self._model  # type: ignore[assignment]
        other.component_classes_ = model.owner
        other.n_components = dict(enumerate(model.counts))
        return other
