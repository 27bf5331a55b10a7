"""`MARGaussianMixture`: class densities are Gaussian mixtures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from marmix.core.covariance import STRUCTURES, structure
from marmix.core.gaussian import GaussianScores
from marmix.core.measures import MeasureLike
from marmix.core.notes import Note, covariance_notes
from marmix.estimators.base import FromModel, MARClassifier, Training
from marmix.estimators.validation import component_counts
from marmix.fitting import starts
from marmix.fitting.restarts import Search, fit_mixture, silent

# Least tolerance if rows are no more than features: covariances collapse to reg_covar, and further digits mean nothing.
_SINGULAR_TOL = 1e-4


@dataclass(kw_only=True, eq=False, repr=False)
class MARGaussianMixture(MARClassifier):
    r"""Gaussian mixture classifier for partially labelled data whose labels are missing for a reason.

    Each class is a Gaussian (or a mixture of a few), and the label of a row is missing with probability q:

    .. math::

        P(y = k \mid x) \propto \pi_k N(x; \mu_k, \Sigma_k), \qquad
        q = \frac{1}{1 + e^{-\eta}}, \quad \eta = \alpha_0 + \alpha_1 u(x),

    where u(x) is the entropy of the posteriors ``P(y | x)``: if hard rows are labelled less often, the missing labels say where
    the decision boundary lies. All parameters are estimated together by maximum likelihood, from the labelled and the unlabelled
    rows.

    The defaults are the settings that predict best over twenty settings (docs/evidence.md). The model of the paper is
    ``MARGaussianMixture(covariance_type="full", link="aranda-ordaz", measure="margin")``.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}, default="tied"
        As in :class:`sklearn.mixture.GaussianMixture`. "tied", one covariance matrix for all components, gives linear boundaries
        and has few parameters; "full", one per component, gives quadratic boundaries and needs many labels.
    n_components : int or dict, default=1
        Gaussians per class, for classes that are not Gaussian; a dict maps classes to numbers.
    link : {"logit", "aranda-ordaz", "cloglog"} or None, default="logit"
        How q depends on eta. "aranda-ordaz", :math:`q = 1 - (1 + \lambda e^\eta)^{-1 / \lambda}`, has a shape lambda to estimate
        and contains the other two. None ignores the mechanism: a semi-supervised mixture.
    shape : float or None, default=None
        Fixed shape >= 0 of the Aranda-Ordaz link: 0 is cloglog, 1 is logit. None estimates it. Small samples hardly identify the
        shape; predictions are barely affected, and a warning is issued if it reaches a limit.
    measure : str or callable, default="entropy"
        The measure u. "entropy", "log-entropy" and "gini" use all posteriors and are large for hard rows, so that alpha_1 > 0 if
        these lose their labels. "margin", the squared difference of the two largest posteriors, and "discriminant", their squared
        log-odds, are large for easy rows: alpha_1 < 0. "signed-margin" is for two classes and labels missing on one side of the
        boundary (alpha_1 > 0: the side of the second class). A callable takes log posteriors (n, K) and returns u (n,),
        optionally with its partial derivatives (n, K).
    mcar_share : bool, default=False
        Whether to estimate a share a of labels missing completely at random, :math:`q = a + (1 - a) g(\eta)` where g is the link.
        With an estimated shape it is identified in large samples only.
    mechanism_weight : float or "auto", default=1.0
        Weight of the missingness in the likelihood of the classes, from 0 to 1. With 0 the classes are fitted as if the mechanism
        were ignored, and the mechanism afterwards; values in between suit a mechanism that is only roughly right. "auto" chooses
        among 0, 0.1, 0.3 and 1 by the likelihood of held-out rows: their labels, and whether these are missing.
    mechanism_features : list of column names or indices, or None, default=None
        Features that enter eta besides u, each with a slope in `alpha_`.
    delta : dict, "estimate" or None, default=None
        A label term, for labels that go missing because of the label itself (not at random):
        :math:`\eta = \alpha_0 + \alpha_1 u(x) + \delta_k` in class k. A dict maps classes to numbers, 0 for others: with the
        logit link, ``delta={"ill": 0.7}`` doubles the odds that the label of an ill case is missing, at equal u. "estimate"
        estimates them, that of the first class being 0; this relies on the Gaussian shape of the classes, so prefer a few fixed
        values.
    classes : array-like or None, default=None
        The classes, in the order of `classes_`; by default the sorted labels in y. Naming them makes a class without labels an
        error, and allows -1 as a class.
    solver : {"lbfgs", "ecm"}, default="lbfgs"
        Both reach the same maximum; "lbfgs" needs far fewer passes over the data. "ecm" is the paper's algorithm, which
        increases the likelihood in every step.
    init : {"labelled", "kmeans"}, default="labelled"
        Starting values: moments of the labelled rows, with covariances shrunk towards the pooled one; or k-means on all
        rows, with clusters matched to the labels (the paper's choice).
    n_init : int or "auto", default="auto"
        Number of starts, of which the best maximum is kept; starts after the first are perturbed at random. The likelihood can
        have several maxima if labels are few: "auto" makes 16 starts if there are fewer than two labels per parameter (and at
        most 500 parameters), gives up the worse half of them twice after a few iterations, and follows four to the end;
        otherwise one start, unless ``init="kmeans"``, which is then tried beside the labelled rows. If the maxima differ,
        `notes_` says by how much. A warm start is the only start of "auto".
    warm_start : bool, default=False
        Start from the previous fit of this estimator.
    reg_covar : float, default=1e-6
        Lower limit of the variance of a component in any direction, as a fraction of the pooled within-class variance (more
        precisely, of the residual variance of a feature given the later ones). It has no effect unless a covariance collapses.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-8
        Stop when the expected further increase of the log-likelihood per row is below this. It is at least 1e-4 if a full or
        tied covariance has no more rows than features: the maximum then depends on `reg_covar`, and is flat.
    random_state : int, RandomState instance or None, default=None
        For k-means and restarts. With ``n_init="auto"`` None means 0, so that a fit can be repeated.
    verbose : int, default=0
        1 reports each start.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    weights_, means_, covariances_ : arrays
        Of the components, in the shapes of :class:`sklearn.mixture.GaussianMixture`.
    component_classes_ : array of shape (C,)
        The class of each component.
    class_prior_ : array of shape (K,)
        Class probabilities: sums of `weights_`.
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
        The maximised log-likelihood and its two parts: features and labels, and missingness.
    converged_ : bool
        Whether the fit converged.
    n_iter_, n_passes_ : int
        Iterations, and passes over the data.
    trace_ : array
        The objective after each iteration: the log-likelihood with its missingness part times `mechanism_weight`.
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
    MARStudentMixture : the same with heavier tails.
    MARLogisticRegression : linear log-odds, without a model of the features.
    MARClassifierCV : the average of these and other candidates, weighted by held-out rows.
    Inference : standard errors, intervals and tests of a fit.
    marmix.plotting.MixtureDisplay : a picture of a fit.

    Notes
    -----
    The log-likelihood that is maximised has a part for features and labels, and one for the missing indicators m:

    .. math::

        L_{ig} &= \sum_{\text{labelled}} \log \pi_y f_y(x) + \sum_{\text{unlabelled}} \log \sum_k \pi_k f_k(x) \\
        L_{miss} &= \sum_{\text{all}} m \log q + (1 - m) \log (1 - q)

    Examples
    --------
    The rows are real tumours of which the hard cases have no label. Modelling why they have none imputes more of them correctly
    than a mixture that ignores it.

    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y, missing = rows.data[:, :3], rows.target, rows.missing
    >>> clf = MARGaussianMixture().fit(X, y)
    >>> round(float(clf.alpha_[1]), 1)    # uncertain rows lose their labels
    4.0
    >>> round(float((clf.transduction_ == rows.target_true)[missing].mean()), 2)
    0.87
    >>> ignorable = MARGaussianMixture(link=None).fit(X, y)
    >>> round(float((ignorable.transduction_ == rows.target_true)[missing].mean()), 2)
    0.84
    """

    weights_ = FromModel()
    means_ = FromModel()
    covariances_ = FromModel()
    class_prior_ = FromModel()
    component_classes_ = FromModel(lambda model: model.classes[model.score_model.owner])

    covariance_type: str = "tied"
    n_components: int | Mapping[Any, int] = 1
    link: str | None = "logit"
    shape: float | None = None
    measure: MeasureLike = "entropy"
    mcar_share: bool = False
    mechanism_weight: float | str = 1.0
    mechanism_features: Sequence[Any] | None = None
    delta: Mapping[Any, float] | str | None = None
    classes: ArrayLike | None = None
    solver: str = "lbfgs"
    init: str = "labelled"
    n_init: int | str = "auto"
    warm_start: bool = False
    reg_covar: float = 1e-6
    max_iter: int = 1000
    tol: float = 1e-8
    random_state: Any = None
    verbose: int = 0

    def _fit(self, training: Training) -> None:
        counts = component_counts(self.n_components, training.rows.classes)
        values = self._previous_fit(training, counts) if self.warm_start else {}
        starts.check_columns(training.mean, training.covariance, training.names)
        dense = not self._only_squares
        dependent = starts.dependent_columns(training.covariance) if dense else []
        model = self._score_model(len(training.mean), counts)
        labelled = training.rows.moments.labelled
        weight = self._weight(training)
        frame = starts.frame_of(model, training.mean, training.covariance, labelled, bool(dependent))
        objective = training.objective(frame, model, weight)
        search = Search(
            check_random_state(0 if self.random_state is None and self.n_init == "auto" else self.random_state),
            self._starting_values(training, values),
            self.solver,
            self.n_init,
            self.max_iter,
            max(self.tol, _SINGULAR_TOL) if dense and objective.engine.n_rows <= len(training.mean) else self.tol,
            self.init == "kmeans",
            training.rows.classes.tolist(),
            say=print if self.verbose else silent,
            empty=starts.empty_axes(frame, training.covariance) if dependent else None,
        )
        fit = self._search(objective, labelled, self._mechanism(training), search)
        notes = list(covariance_notes(dependent, model.structure.pivots(fit.theta.chol), model.owner, self.reg_covar))
        self._finish(fit, objective, training, notes + self._tail_notes(model, fit.theta))

    @property
    def _only_squares(self) -> bool:  # type: ignore[override]
        return not STRUCTURES[self.covariance_type].dense

    _search = staticmethod(fit_mixture)

    def _score_model(self, d: int, counts: list[int]) -> GaussianScores:
        """The score model to fit, for d features and these numbers of components."""
        return GaussianScores(structure(self.covariance_type, d), counts, self.reg_covar)

    def _tail_notes(self, model: Any, theta: Any) -> list[Note]:
        """Notes on the tails of the components: none for Gaussians."""
        return []

    def _previous_fit(self, training: Training, counts: list[int]) -> dict[str, Any]:
        """Starting values from the previous fit, if there is one."""
        if not hasattr(self, "model_"):
            return {}
        model, scores = self.model_, cast(GaussianScores, self.model_.score_model)
        same = np.array_equal(np.repeat(training.rows.classes, counts), self.component_classes_)
        same = same and model.n_features == len(training.names)
        if not (same and scores.structure.name == self.covariance_type):
            raise ValueError(
                "warm_start=True: classes, n_components, covariance_type and features must be those of the previous fit."
            )
        names = [name for name in ("weights", "means", scores.scales, "dof") if name in model.values]
        return {name: model.values[name] for name in names} | self._previous_mechanism()
