"""The Gaussian mixture classifier."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from marmix.estimators.base import Training
from marmix.estimators.inferential import InferentialClassifier
from marmix.estimators.prediction import FromModel
from marmix.estimators.validation import check_parameters, component_counts
from marmix.fitting import starts
from marmix.fitting.restarts import Search, fit_mixture, silent
from marmix.notes import covariance_notes
from marmix.scores.covariance import structure
from marmix.scores.gaussian import GaussianScores


class MARGaussianMixture(InferentialClassifier):
    """Gaussian mixture classifier that knows why labels are missing.

    Each class k is a Gaussian (or a mixture of a few), and the label of a row is missing with probability

        q = 1 - (1 + shape e^eta)^(-1 / shape),    eta = alpha_0 + alpha_1 u,

    where u measures how sure the classifier itself is of the row. Labels that are missing where the classes are hard to
    tell apart then say where the boundary is. All parameters are found together by maximum likelihood from the
    labelled and the unlabelled rows; missing labels are imputed by Bayes' rule.

    The defaults are the settings that predict best over the data sets of `benchmarks/defaults.py`. The model of the paper is
    ``MARGaussianMixture(covariance_type="full", link="aranda-ordaz", uncertainty="margin")``.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}, default="tied"
        Each component its own covariance matrix, one for all, diagonal ones, or one variance each. "tied" gives linear boundaries
        and has far fewer parameters than "full", which assumes least, gives quadratic boundaries and needs many labels.
    n_components : int or dict, default=1
        Gaussian components per class; a dict maps classes to numbers. One is the model of the paper; several describe
        classes that are not Gaussian.
    link : {"aranda-ordaz", "logit", "cloglog"} or None, default="logit"
        How the missing probability depends on eta. "aranda-ordaz" contains the other two, and estimates a shape. None ignores
        the mechanism.
    shape : float or None, default=None
        The shape lambda >= 0 of the Aranda-Ordaz link: 0 is cloglog, 1 is logit. None estimates it; in small samples it is
        hardly identified, which harms neither posteriors nor imputed labels, and a warning says so when it runs to a limit.
    uncertainty : {"margin", "entropy", "log-entropy", "gini", "discriminant", "signed-margin"} or callable, \
            default="entropy"
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
    >>> clf = MARGaussianMixture().fit(X, y_partial)
    >>> bool(clf.alpha_[1] > 0)                                      # the less clear, the more often without a label
    True
    >>> float(np.mean(clf.transduction_ == y) > 0.9)
    1.0
    """

    weights_: Any = FromModel(lambda model: model.values["weights"])
    means_: Any = FromModel(lambda model: model.values["means"])
    covariances_: Any = FromModel(lambda model: model.values["covariances"])
    class_prior_: Any = FromModel(lambda model: model.values["class_prior"])
    component_classes_: Any = FromModel(lambda model: model.classes[model.score_model.owner])

    def __init__(
        self,
        *,
        covariance_type: str = "tied",
        n_components: int | Mapping[Any, int] = 1,
        link: str | None = "logit",
        shape: float | None = None,
        uncertainty: str | Callable[..., object] = "entropy",
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
        counts = component_counts(self.n_components, training.rows.classes)
        values = self._previous_fit(training, counts) if self.warm_start else {}
        if not values and isinstance(self.init, Mapping):
            values = dict(self.init)
        starts.check_columns(training.mean, training.covariance, training.names)
        dense = self.covariance_type in ("full", "tied")
        dependent = starts.dependent_columns(training.covariance) if dense else []
        model = GaussianScores(structure(self.covariance_type, len(training.mean)), counts, self.reg_covar)
        labelled = training.rows.moments.labelled
        frame = starts.frame_of(model, training.mean, training.covariance, labelled, bool(dependent))
        objective = training.objective(frame, model, float(self.mechanism_weight))
        search = Search(
            check_random_state(self.random_state),
            self._starting_values(training, values),
            self.solver,
            self.n_init,
            self.max_iter,
            self.tol,
            self.init == "kmeans",
            training.rows.classes.tolist(),
            say=print if self.verbose else silent,
            say_more=print if self.verbose > 1 else silent,
            empty=starts.empty_axes(frame, training.covariance) if dependent else None,
        )
        fit = fit_mixture(objective, labelled, self._mechanism(training), search)
        notes = list(covariance_notes(dependent, model.structure.pivots(fit.theta.chol), model.owner, self.reg_covar))
        self._finish(fit, objective, training, notes)
        return self

    def _previous_fit(self, training: Training, counts: list[int]) -> dict[str, Any]:
        """Starting values from the previous fit, where there is one."""
        if not hasattr(self, "model_"):
            return {}
        model, scores = self.model_, cast(GaussianScores, self.model_.score_model)
        same = np.array_equal(np.repeat(training.rows.classes, counts), self.component_classes_)
        same = same and model.n_features == len(training.names)
        if not (same and scores.structure.name == self.covariance_type):
            raise ValueError(
                "warm_start=True: classes, n_components, covariance_type and features must be those of the previous fit."
            )
        return {name: model.values[name] for name in ("weights", "means", "covariances")} | self._previous_mechanism()
