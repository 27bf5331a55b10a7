"""Logistic regression with the mechanism: no density model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from marmix.estimators.inferential import InferentialClassifier
from marmix.estimators.prediction import FromModel
from marmix.estimators.validation import check_parameters
from marmix.fitting.restarts import Search, fit_logistic, silent
from marmix.rows import Frame
from marmix.scores.linear import LinearScores


class MARLogisticRegression(InferentialClassifier):
    """Multinomial logistic regression whose likelihood also holds the missingness of every row.

    The labelled rows say ``P(y | x) = softmax(b + w . x)``, as in any logistic regression. Every row, labelled or not, says
    whether its label is missing, with probability

        q = 1 - (1 + shape e^eta)^(-1 / shape),    eta = alpha_0 + alpha_1 u,

    where u measures how sure ``P(y | x)`` is of the row: rows without labels then tell where the boundary runs, without
    any model of how the features are distributed. With ``link=None`` this is
    :class:`sklearn.linear_model.LogisticRegression` on the labelled rows.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty ``|w|^2 / (2 C)``, as in scikit-learn; np.inf for none. Intercepts are not penalised.
        The penalty is on the coefficients of the features as they are given: standardise them first if their units differ.
    degree : {1, 2}, default=1
        2 adds squares and products of the features, in the order of scikit-learn's `PolynomialFeatures`.
    link : {"aranda-ordaz", "logit", "cloglog"} or None, default="logit"
        How the missing probability depends on eta. "aranda-ordaz" contains the other two, and estimates a shape. None ignores
        the mechanism.
    shape : float or None, default=None
        The shape lambda >= 0 of the Aranda-Ordaz link: 0 is cloglog, 1 is logit. None estimates it.
    uncertainty : {"margin", "entropy", "log-entropy", "gini", "discriminant", "signed-margin"} or callable, \
            default="entropy"
        The measure u; see `MARGaussianMixture`.
    mcar_share : bool, default=False
        Whether to estimate a share of labels missing completely at random besides.
    mechanism_weight : float, default=1.0
        1 is the full likelihood; 0 leaves the coefficients to the labelled rows, the mechanism is then fitted to what they
        give; numbers in between temper a mechanism that is only roughly right.
    mechanism_features : list of column names or indices, or None, default=None
        Features that enter eta beside the uncertainty, each with a slope in `alpha_`.
    classes : array-like or None, default=None
        The classes, in the order wanted in `classes_`; by default those found in y, sorted.
    n_init : int, default=2
        Number of starts; the best maximum is kept. The first is the fit to the labelled rows. The mechanism makes the surface
        rough: others start from coefficients that are smaller and turned a little.
    warm_start : bool, default=False
        Start from the previous fit of this estimator.
    max_iter : int, default=1000
        Most iterations of the solver.
    tol : float, default=1e-8
        Stop when the rise of the objective still to come is estimated below this, per row.
    random_state : int, RandomState instance or None, default=0
        For the starts after the first; fixed by default, so that a fit is reproducible.
    precision : {"double", "single"}, default="double"
        Of the arithmetic on a device (torch, CuPy). Single is faster on cards made for it; the link and all sums stay double,
        and estimates move by a few hundredths of a standard error. Rows on the host are always computed in double.
    verbose : int, default=0
        1 reports each start, 2 each iteration.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (1, p) for two classes, else (K, p)
    intercept_ : array of shape (1,) or (K,)
        As in scikit-learn's `LogisticRegression`; p counts squares and products too.
    alpha_ : array of shape (2 + len(mechanism_features),) or None
        Intercept and slopes of the mechanism; None where link=None.
    shape_, share_ : float or None
        Aranda-Ordaz shape and MCAR share.
    mechanism_ : Mechanism or None
        The fitted mechanism.
    transduction_ : array of shape (n,)
        A label for every training row: the given one, or the imputed one.
    loglik_, loglik_ignorable_, loglik_missing_ : float
        The log-likelihood given the features, and its two parts; the penalty is not in them.
    converged_ : bool
    n_iter_ : int
    n_passes_ : int
        Passes over the data.
    trace_ : array
        The objective after every iteration: the log-likelihood, its missingness part times `mechanism_weight`, less the penalty.
    notes_ : list of str
        What the fit warned of, in words.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = (rng.uniform(size=500) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(int)
    >>> y_partial = np.where(rng.uniform(size=500) < np.exp(-X[:, 0] ** 2), -1, y)
    >>> clf = MARLogisticRegression(link="logit").fit(X, y_partial)
    >>> bool(abs(clf.coef_[0, 0]) > 5 * abs(clf.coef_[0, 1]))
    True
    """

    coef_: Any = FromModel(lambda model: model.values["coef"])
    intercept_: Any = FromModel(lambda model: model.values["intercept"])

    def __init__(
        self,
        *,
        C: float = 1.0,
        degree: int = 1,
        link: str | None = "logit",
        shape: float | None = None,
        uncertainty: str | Callable[..., object] = "entropy",
        mcar_share: bool = False,
        mechanism_weight: float = 1.0,
        mechanism_features: Sequence[Any] | None = None,
        classes: ArrayLike | None = None,
        n_init: int = 2,
        warm_start: bool = False,
        max_iter: int = 1000,
        tol: float = 1e-8,
        random_state: Any = 0,
        precision: str = "double",
        verbose: int = 0,
    ):
        self.C = C
        self.degree = degree
        self.link = link
        self.shape = shape
        self.uncertainty = uncertainty
        self.mcar_share = mcar_share
        self.mechanism_weight = mechanism_weight
        self.mechanism_features = mechanism_features
        self.classes = classes
        self.n_init = n_init
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.precision = precision
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MARLogisticRegression":
        """Fit the coefficients and the mechanism to partly labelled rows.

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
        sd = np.sqrt(np.diag(training.covariance))
        scale = np.where(sd > 0.0, sd, 1.0)
        model = LinearScores(len(sd), len(training.rows.classes), self.degree, float(self.C), training.mean, scale)
        frame = Frame(training.mean, np.diag(1.0 / scale))
        objective = training.objective(frame, model, float(self.mechanism_weight))
        search = Search(
            check_random_state(self.random_state),
            self._starting_values(training, self._previous_fit(model) if self.warm_start else {}),
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            say=print if self.verbose else silent,
            say_more=print if self.verbose > 1 else silent,
        )
        fit = fit_logistic(objective, self._mechanism(training), search)
        self._finish(fit, objective, training, [])
        return self

    def _previous_fit(self, model: LinearScores) -> dict[str, Any]:
        """Starting values from the previous fit, where there is one."""
        if not hasattr(self, "model_"):
            return {}
        if self.coef_.shape != (model.vectors, model.n_features() - 1):
            raise ValueError("warm_start=True: classes, degree and features must be those of the previous fit.")
        return {"coefficients": np.column_stack([self.intercept_, self.coef_])} | self._previous_mechanism()
