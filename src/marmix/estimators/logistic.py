"""`MARLogisticRegression`: class probabilities without a model of the features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from marmix.core.arrays import LARGEST
from marmix.core.frames import Frame
from marmix.core.linear import LinearScores
from marmix.core.measures import MeasureLike
from marmix.core.notes import Note
from marmix.estimators.base import FromModel, MARClassifier, Training
from marmix.fitting.restarts import Search, fit_logistic, runs_off, silent


@dataclass(kw_only=True, eq=False, repr=False)
class MARLogisticRegression(MARClassifier):
    r"""Logistic regression for partially labelled data whose labels are missing for a reason.

    The log-odds of the classes are linear in the features, and the label of a row is missing with probability q:

    .. math::

        P(y = k \mid x) \propto e^{b_k + w_k \cdot x}, \qquad
        q = \frac{1}{1 + e^{-\eta}}, \quad \eta = \alpha_0 + \alpha_1 u(x),

    where u(x) is the entropy of ``P(y | x)``. Each row, labelled or not, contributes the likelihood of its label being given or
    missing, so that unlabelled rows help to locate the decision boundary without a model of the features. With ``link=None`` this
    is :class:`sklearn.linear_model.LogisticRegression` on the labelled rows.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty :math:`|w|^2 / (2 C)`, as in scikit-learn; np.inf for none. Intercepts are not penalised.
        Standardise the features first if their units differ.
    degree : {1, 2}, default=1
        2 adds squares and products of the features, in the order of scikit-learn's `PolynomialFeatures`.
    link : {"logit", "aranda-ordaz", "cloglog"} or None, default="logit"
        How q depends on eta; see `MARGaussianMixture`. None ignores the mechanism.
    shape : float or None, default=None
        Fixed shape >= 0 of the Aranda-Ordaz link: 0 is cloglog, 1 is logit. None estimates it.
    measure : str or callable, default="entropy"
        The measure u, such as "entropy" or "margin"; see `MARGaussianMixture`.
    mcar_share : bool, default=False
        Whether to estimate a share of labels missing completely at random.
    mechanism_weight : float or "auto", default=1.0
        Weight of the missingness in the likelihood of the coefficients, from 0 to 1. With 0 the coefficients are fitted to the
        labelled rows, and the mechanism afterwards; values in between suit a mechanism that is only roughly right. "auto" chooses
        among 0, 0.1, 0.3 and 1 by the likelihood of held-out rows: their labels, and whether these are missing.
    mechanism_features : list of column names or indices, or None, default=None
        Features that enter eta besides u, each with a slope in `alpha_`.
    delta : dict, "estimate" or None, default=None
        A label term, for labels that go missing because of the label itself (not at random):
        :math:`\eta = \alpha_0 + \alpha_1 u(x) + \delta_k` in class k. A dict maps classes to numbers, 0 for others: with the
        logit link, ``delta={"ill": 0.7}`` doubles the odds that the label of an ill case is missing, at equal u. "estimate"
        estimates them, that of the first class being 0; this relies on the linearity of the log-odds, so prefer a few fixed
        values.
    classes : array-like or None, default=None
        The classes, in the order of `classes_`; by default the sorted labels in y.
    n_init : int or "auto", default="auto"
        Number of starts, of which the best maximum is kept. The first is the fit to the labelled rows; others start from smaller,
        slightly rotated coefficients, as the likelihood can have several maxima. "auto" makes two; four if degree=2 and there
        are fewer than five labels per coefficient. If the labelled rows are separable and C is above 1, the fit with C = 1
        is one more start. If the maxima differ, `notes_` says by how much: the estimates are then not unique.
    warm_start : bool, default=False
        Start from the previous fit of this estimator.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-8
        Stop when the expected further increase of the objective per row is below this.
    random_state : int, RandomState instance or None, default=0
        For starts after the first.
    verbose : int, default=0
        1 reports each start.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    coef_, intercept_ : arrays of shape (1, p) and (1,) for two classes, else (K, p) and (K,)
        As in scikit-learn's `LogisticRegression`; p includes squares and products.
    alpha_ : array of shape (2 + len(mechanism_features),) or None
        Intercept and slopes of the mechanism; None if link=None.
    shape_, share_ : float or None
        Aranda-Ordaz shape and MCAR share.
    delta_ : array of shape (K,) or None
        The label term of each class, zeros without one; None if link=None.
    mechanism_weight_ : float
        The given or chosen weight.
    mechanism_ : Mechanism or None
        The fitted mechanism.
    transduction_ : array of shape (n,)
        Labels of the training rows, the missing ones imputed.
    loglik_, loglik_ignorable_, loglik_missing_ : float
        The log-likelihood given the features, without the penalty, and its two parts: labels and missingness.
    converged_ : bool
        Whether the fit converged.
    n_iter_, n_passes_ : int
        Iterations, and passes over the data.
    trace_ : array
        The objective after each iteration: the log-likelihood, its missingness part times `mechanism_weight`, minus the penalty.
    model_ : FittedModel
        The fitted model as one immutable value, from which the other attributes are read.
    notes_ : list of str
        Warnings of the fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if X had names.
    preparation_ : Preparation or None
        What makes features of the columns of a frame; None if X was numbers.

    See Also
    --------
    MARKernelClassifier : boundaries of any form.
    MARGaussianMixture : a model of the features too.
    MARClassifierCV : the average of these and other candidates, weighted by held-out rows.
    Inference : standard errors, intervals and tests of a fit.

    Examples
    --------
    Only the first feature matters, and labels are missing near the boundary, where it is 0.

    >>> import numpy as np
    >>> from marmix import MARLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = (rng.uniform(size=500) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(int)
    >>> y_partial = np.where(rng.uniform(size=500) < np.exp(-X[:, 0] ** 2), -1, y)
    >>> clf = MARLogisticRegression().fit(X, y_partial)
    >>> bool(abs(clf.coef_[0, 0]) > 5 * abs(clf.coef_[0, 1]))
    True
    >>> near, far = clf.missing_proba([[0.0, 0.0], [3.0, 0.0]])
    >>> bool(near > 0.8 and far < 0.2)
    True
    """

    _only_squares = True
    coef_ = FromModel()
    intercept_ = FromModel()

    C: float = 1.0
    degree: int = 1
    link: str | None = "logit"
    shape: float | None = None
    measure: MeasureLike = "entropy"
    mcar_share: bool = False
    mechanism_weight: float | str = 1.0
    mechanism_features: Sequence[Any] | None = None
    delta: Mapping[Any, float] | str | None = None
    classes: ArrayLike | None = None
    n_init: int | str = "auto"
    warm_start: bool = False
    max_iter: int = 1000
    tol: float = 1e-8
    random_state: Any = 0
    verbose: int = 0

    def _fit(self, training: Training) -> None:
        scale = training.scale
        model = LinearScores(len(scale), len(training.rows.classes), self.degree, float(self.C), training.mean, scale)
        if not model.largest_penalty / float(training.rows.moments.weight.sum()) <= LARGEST**2:
            column = int(scale.argmin())
            raise ValueError(
                f"column {training.names[column]!r} has a standard deviation of {scale[column]:.0e}, too small to compute with "
                f"for degree={self.degree} and C={self.C:g}. Rescale the column."
            )
        frame = Frame(training.mean, 1.0 / scale)
        objective = training.objective(frame, model, self._weight(training))
        search = Search(
            check_random_state(self.random_state),
            self._starting_values(training, self._previous_fit(model) if self.warm_start else {}),
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            say=print if self.verbose else silent,
        )
        fit = fit_logistic(objective, self._mechanism(training), search)
        without_maximum = np.isinf(self.C) and runs_off(objective, fit.theta, fit.mechanism)
        self._finish(fit, objective, training, [Note("run-off")] if without_maximum else [])

    def _previous_fit(self, model: LinearScores) -> dict[str, Any]:
        """Starting values from the previous fit, if there is one."""
        if not hasattr(self, "model_"):
            return {}
        if self.coef_.shape != (model.vectors, model.n_features() - 1):
            raise ValueError("warm_start=True: classes, degree and features must be those of the previous fit.")
        return {"coefficients": np.column_stack([self.intercept_, self.coef_])} | self._previous_mechanism()
