r"""Scores and cross-validation when the labelled rows are not a representative sample.

If the labels of hard rows are missing, a score over the labelled rows is optimistic. Let :math:`q_j` be the probability
that the label of row j is missing, :math:`m_j` be 1 if it is and 0 otherwise, and :math:`w_j = 1 / (1 - q_j)`. The loss
on the whole population can then be estimated for any classifier, from its probabilities :math:`p_j`. The *weighted*
estimate is

.. math::

    \frac{\sum_j (1 - m_j)\, w_j\, l(y_j, p_j)}{\sum_j (1 - m_j)\, w_j},

and the *doubly robust* one, with the posteriors :math:`\tau_j` of a model, is

.. math::

    \frac{1}{n} \sum_j \left[ l^{\tau}_j + (1 - m_j)\, w_j\, (l(y_j, p_j) - l^{\tau}_j) \right], \qquad
    l^{\tau}_j = \sum_k \tau_{jk}\, l(k, p_j).

The first is consistent if q is right, the second if q or tau is. Both are means of the losses l(k, p_j) with weights
r_jk, the *pseudo-labels*

.. math::

    r_{jk} = w_j\, y_{jk} \quad \text{and} \quad r_{jk} = \tau_{jk} + (1 - m_j)\, w_j\, (y_{jk} - \tau_{jk}),

where y_jk is 1 if k is the label of row j, otherwise 0; if y has votes, with a column for each class, it is the share
of class k in the votes for row j, and a row of zeros or NaN has no label. The standard errors of both take q and tau as
known, which is far too optimistic where hardly any hard row has a label.

The *imputed* estimate, which `MARClassifierCV` uses for its scores, is

.. math::

    \frac{1}{n} \sum_j \left[ (1 - m_j)\, l(y_j, p_j) + m_j\, l^{\tau}_j \right].

Its tau is an `UncertainPosterior`, so its standard error says how far tau may be off. The square of this error is the
sum of the squared error of the doubly robust estimate and of the squared changes of the estimate as tau moves by one
standard deviation along each of its principal axes, and towards labels drawn by class.

Weights are truncated at ``sqrt(n_labelled)`` times ``n / n_labelled``, which is their mean if q is right (Ionides'
rule): the bias vanishes as rows are added, and the variance stays finite. `Score.n_effective`, ``(sum w)^2 / sum w^2``,
is the number of equally weighted rows with the same variance.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length

from marmix.callers import check_cross_validated, classes_cross_validated
from marmix.core.arrays import Array, unmasked
from marmix.core.labels import as_classes, has_votes, known_labels, label_shares, most_voted, vote_shares
from marmix.evaluation.pseudo_labels import UncertainPosterior, checked_proba, pseudo_labels

QUANTILE = 1.959964  # of a 95 % interval
Posterior = ArrayLike | UncertainPosterior | None
Estimate = Callable[
    [Array], tuple[float, Array]
]  # from pseudo-labels (n, K) to the value and the influence of every row

__all__ = [
    "PartialLabelKFold",
    "Score",
    "StratifiedPartialLabelKFold",
    "accuracy",
    "brier",
    "log_loss",
    "missingness_check",
    "population_scorer",
    "roc_auc",
]


class PartialLabelKFold:
    """K-fold cross-validation over the labelled rows; unlabelled rows are in every training set and in no test set.

    Training sets therefore contain relatively more unlabelled rows than the data, by up to a factor of k / (k - 1),
    which affects estimators that model the features or the missingness; `MARClassifierCV` corrects for it by weights. A
    classifier that would learn missing labels as a class of its own is refused: wrap it in `marmix.LabelledRows`.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=False
        Whether to shuffle the labelled rows before they are split.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling.
    classes : array-like or None, default=None
        All classes. Needed only if one of them is -1 or a text that otherwise means a missing label, such as "None". By
        default, the `classes` parameter of the marmix estimator that scikit-learn is cross-validating, if it has one.

    See Also
    --------
    StratifiedPartialLabelKFold : The same, with equal class proportions in all folds.
    population_scorer : Scores for cross-validation that are corrected for missing labels.
    marmix.MARClassifierCV : Choose and average models by cross-validation over all rows.

    Examples
    --------
    Row 1 has no label: it is in every training set and is never tested.

    >>> from marmix.evaluation import PartialLabelKFold
    >>> X, y = [[0.1], [0.4], [0.9], [1.3], [1.8]], ["a", None, "a", "b", "b"]
    >>> for train, test in PartialLabelKFold(n_splits=2).split(X, y):
    ...     print(train, test)
    [1 3 4] [0 2]
    [0 1 2] [3 4]

    It is used like any other splitter of scikit-learn:

    >>> from sklearn.model_selection import cross_val_score
    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> rows = make_mar_mixture(300, rate=0.4, random_state=0)
    >>> cv = PartialLabelKFold(3, shuffle=True, random_state=0)
    >>> cross_val_score(MARLogisticRegression(), rows.data, rows.target, cv=cv, scoring="marmix_accuracy").round(2)
    array([0.98, 0.99, 0.99])
    """

    _folds: type[KFold] | type[StratifiedKFold] = KFold

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None, classes: ArrayLike | None = None
    ):
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.classes = classes

    def __repr__(self) -> str:
        names = ("n_splits", "shuffle", "random_state", *(["classes"] if self.classes is not None else []))
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object
            Ignored; here for compatibility with scikit-learn.

        Returns
        -------
        int
            `n_splits`.
        """
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the indices of the training rows and of the test rows of each fold.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; only their number is used.
        y : array-like of shape (n,) or (n, K)
            Labels, missing where -1, NaN, None or pandas.NA; or votes, zero or NaN in all columns where missing.
        groups : object
            Ignored; here for compatibility with scikit-learn.

        Yields
        ------
        train, test : arrays of int
            `test` holds labelled rows only; `train` holds all other rows.

        Raises
        ------
        ValueError
            If y is not given, if there are fewer labelled rows than folds, or if scikit-learn is cross-validating a
            classifier that would learn missing labels as a class.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} needs y, to know which rows are labelled: pass y.")
        check_consistent_length(X, y)
        if has_votes(y):
            labels = most_voted(vote_shares(y, fitted=True)[0])
            is_labelled = labels >= 0
            labels = labels[is_labelled]
        else:
            named = classes_cross_validated(sys._getframe(1)) if self.classes is None else self.classes
            try:
                is_labelled, labels = known_labels(y, np.empty(0) if named is None else as_classes(named))
            except ValueError as error:
                way = f" {type(self).__name__} takes classes= too." if "classes=" in str(error) else ""
                raise ValueError(f"{error}{way}") from None
        labelled = np.flatnonzero(is_labelled)
        if len(labelled) < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} is more than the {len(labelled)} labelled rows: use fewer folds."
            )
        if len(labelled) < len(is_labelled):
            check_cross_validated(sys._getframe(1))
        folds = self._folds(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        codes = np.unique(labels, return_inverse=True)[1]
        for _, test in folds.split(labelled, codes):
            yield np.delete(np.arange(len(is_labelled)), labelled[test]), labelled[test]


class StratifiedPartialLabelKFold(PartialLabelKFold):
    """`PartialLabelKFold` that preserves the class proportions of the labelled rows in every fold.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=False
        Whether to shuffle the rows of each class before they are split.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling.
    classes : array-like or None, default=None
        All classes, as in `PartialLabelKFold`.

    See Also
    --------
    PartialLabelKFold : The same without stratification.
    population_scorer : Scores for cross-validation that are corrected for missing labels.

    Examples
    --------
    Every fold tests one row of each class:

    >>> from marmix.evaluation import StratifiedPartialLabelKFold
    >>> y = ["a", "a", "a", None, "b", "b", "b"]
    >>> for train, test in StratifiedPartialLabelKFold(n_splits=3).split(y, y):
    ...     print(test, [y[i] for i in test])
    [0 4] ['a', 'b']
    [1 5] ['a', 'b']
    [2 6] ['a', 'b']
    """

    _folds = StratifiedKFold


@dataclass(frozen=True)
class Score:
    """A score estimated for the whole population, with its standard error.

    Returned by `log_loss`, `brier`, `accuracy` and `roc_auc`. Printing it shows the estimate and the uncorrected score.

    Attributes
    ----------
    value, stderr : float
        The estimate and its standard error. For scores of `MARClassifierCV`, the standard error includes how far the
        posteriors of unlabelled rows may be off. Otherwise q and the posteriors are taken as known: if hardly any hard
        row is labelled, the doubly robust estimate relies on the posteriors, and their error is then not included.
    plain, plain_stderr : float
        The unweighted score of the labelled rows, and its standard error.
    n_effective : float
        Number of equally weighted labelled rows with the variance of the weighted estimate.
    n_labelled : int
        Number of labelled rows.
    largest_weight : float
        The largest weight divided by the mean weight, after truncation.
    n_truncated : int
        Number of truncated weights.
    least, most : float
        Range of the score.

    See Also
    --------
    log_loss, brier, accuracy, roc_auc : Functions that return a `Score`.

    Examples
    --------
    >>> from marmix.evaluation import accuracy
    >>> y, q = [0, 1, 1, 0, -1, -1], [0.1, 0.1, 0.8, 0.8, 0.5, 0.5]
    >>> proba = [[0.9, 0.1], [0.1, 0.9], [0.6, 0.4], [0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]
    >>> score = accuracy(y, proba, q, classes=[0, 1])
    >>> print(score)
    0.6351 ± 0.2762 (plain 0.7500 ± 0.2165)
    >>> round(score.n_effective, 2)
    3.3
    >>> low, high = score.interval
    >>> print(f"{low:.2f} to {high:.2f}")
    0.14 to 0.95

    Three of four labelled rows are classified correctly. The mistake is a row that had only a chance of one in five of
    being labelled: it stands for five rows, so the estimate for the population is much lower.
    """

    value: float
    stderr: float
    plain: float
    plain_stderr: float
    n_effective: float
    n_labelled: int
    largest_weight: float
    n_truncated: int
    least: float = 0.0
    most: float = np.inf

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval, ``(lower, upper)``.

        It is normal on the log scale for a loss, and on the scale of log-odds for a score with a largest value. Near
        the ends of the range, where this would be too long, each side is at most 1.5 times as long as that of the
        normal interval.
        """
        x, error = self.value - self.least, QUANTILE * self.stderr
        if not (np.isfinite(x) and np.isfinite(error)):
            return self.least, self.most
        if not 0.0 < x < self.most - self.least:  # a doubly robust estimate may lie outside the range
            ends = (x - error, x + error)
        elif np.isinf(self.most):
            ends = (x * np.exp(-error / x), x * np.exp(error / x))
        else:
            odds, width = x / (self.most - self.least - x), self.most - self.least
            step = np.exp(min(error * width / (x * (width - x)), 700.0))
            ends = (width * odds / (odds + step), width * odds / (odds + 1.0 / step))
        low, high = np.clip(ends, x - 1.5 * error, x + 1.5 * error) + self.least
        return float(max(low, self.least)), float(min(high, self.most))

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.stderr:.4f} (plain {self.plain:.4f} ± {self.plain_stderr:.4f})"


def log_loss(
    y: Any, proba: ArrayLike, missing_proba: ArrayLike, *, classes: ArrayLike, posterior: Posterior = None
) -> Score:
    r"""Estimate the log-loss on the whole population from partially labelled rows.

    The loss of a row of class k is :math:`-\log p_k`. With :math:`w_j = 1 / (1 - q_j)`, and m_j = 1 where the label is
    missing, the estimate is a weighted mean over the labelled rows or, if `posterior` gives tau, doubly robust:

    .. math::

        \frac{\sum_j (1 - m_j)\, w_j\, l(y_j, p_j)}{\sum_j (1 - m_j)\, w_j} \quad \text{or} \quad
        \frac{1}{n} \sum_j \left[ l^{\tau}_j + (1 - m_j)\, w_j\, (l(y_j, p_j) - l^{\tau}_j) \right],

    where :math:`l^{\tau}_j = \sum_k \tau_{jk}\, l(k, p_j)`. The page of `marmix.evaluation` says when each is
    consistent.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, K)
        Labels, missing where -1, NaN, None or pandas.NA; or votes, zero or NaN in all columns where missing.
    proba : array-like of shape (n, K)
        The classifier's probabilities; those of unlabelled rows are used only with `posterior`. Use held-out
        probabilities where the classifier may overfit.
    missing_proba : array-like of shape (n,)
        q, the probability that the label of each row is missing.
    classes : array-like of shape (K,)
        The classes of the columns of `proba`.
    posterior : array-like of shape (n, K), UncertainPosterior or None, default=None
        A model's posteriors of all rows, for the doubly robust estimate. With an `UncertainPosterior` (`posterior_` of
        `MARClassifierCV`), unlabelled rows are scored by its posteriors, and the standard error includes how far they
        may be off.

    Returns
    -------
    Score
        The estimate, its standard error, and the uncorrected score of the labelled rows.

    Raises
    ------
    ValueError
        If no row has a label, or if shapes, probabilities or classes do not fit together.

    See Also
    --------
    brier, accuracy, roc_auc : Other scores, with the same arguments.
    population_scorer : The same scores for `cross_val_score` and `GridSearchCV`.
    marmix.evaluation.flexible.flexible : Estimates of `missing_proba` and `posterior` that use no model of marmix.

    Examples
    --------
    The labelled tumours are the easy ones, so their log-loss is far too small:

    >>> import numpy as np
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> from marmix.evaluation import log_loss
    >>> rows = load_tumours()
    >>> X, y = np.log(rows.data), rows.target
    >>> clf = MARGaussianMixture().fit(X, y)
    >>> proba, q = clf.predict_proba(X), clf.missing_proba(X)
    >>> score = log_loss(y, proba, q, classes=clf.classes_, posterior=proba)
    >>> print(f"labelled rows: {score.plain:.2f}, all rows: {score.value:.2f} ± {score.stderr:.2f}")
    labelled rows: 0.08, all rows: 0.20 ± 0.05

    These data come with all labels, so the estimate can be checked:

    >>> print(f"{log_loss(rows.target_true, proba, np.zeros(len(y)), classes=clf.classes_).value:.2f}")
    0.18
    """
    p = _probabilities(y, proba, classes, posterior)
    with np.errstate(divide="ignore"):
        losses = -np.log(p)
    return _mean_score(losses, y, missing_proba, classes, posterior, np.inf)


def brier(
    y: Any, proba: ArrayLike, missing_proba: ArrayLike, *, classes: ArrayLike, posterior: Posterior = None
) -> Score:
    r"""Estimate the Brier score on the whole population from partially labelled rows.

    The loss of a row is

    .. math::

        \sum_k (p_k - y_k)^2,

    where y_k is 1 for the class of the row and 0 for the others. It is halved if there are two classes: the squared
    error of the probability of one of them.

    Parameters
    ----------
    y, proba, missing_proba, classes, posterior
        As in `log_loss`.

    Returns
    -------
    Score
        Smaller is better; from 0 to 1 with two classes, otherwise from 0 to 2.

    See Also
    --------
    log_loss, accuracy, roc_auc : Other scores, with the same arguments.

    Examples
    --------
    >>> from marmix.evaluation import brier
    >>> proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.5, 0.5]]
    >>> score = brier([0, 1, 1, -1], proba, [0.1, 0.5, 0.8, 0.9], classes=[0, 1])
    >>> print(score)
    0.1886 ± 0.0894 (plain 0.1533 ± 0.0865)

    The third row is the worst of the labelled ones. Its label had a chance of one in five of being known, so it counts
    most.
    """
    p = _probabilities(y, proba, classes, posterior)
    losses = (p**2).sum(axis=1, keepdims=True) - 2.0 * p + 1.0
    most = 1.0 if p.shape[1] == 2 else 2.0
    return _mean_score(losses * (most / 2.0), y, missing_proba, classes, posterior, most)


def accuracy(
    y: Any, proba: ArrayLike, missing_proba: ArrayLike, *, classes: ArrayLike, posterior: Posterior = None
) -> Score:
    """Estimate the accuracy on the whole population from partially labelled rows.

    Parameters
    ----------
    y, proba, missing_proba, classes, posterior
        As in `log_loss`. The predicted class of a row is the most probable one, the first of several.

    Returns
    -------
    Score
        Larger is better; from 0 to 1.

    See Also
    --------
    log_loss, brier, roc_auc : Other scores, with the same arguments.
    marmix.plotting.ThresholdDisplay : Accuracy, precision and recall at every threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> from marmix.evaluation import accuracy
    >>> rows = load_tumours()
    >>> X, y = np.log(rows.data), rows.target
    >>> clf = MARGaussianMixture().fit(X, y)
    >>> proba = clf.predict_proba(X)
    >>> score = accuracy(y, proba, clf.missing_proba(X), classes=clf.classes_, posterior=proba)
    >>> print(f"labelled rows: {score.plain:.2f}, all rows: {score.value:.2f} ± {score.stderr:.2f}")
    labelled rows: 0.98, all rows: 0.92 ± 0.04
    >>> print(f"{np.mean(clf.predict(X) == rows.target_true):.2f}")
    0.92

    The last number is the accuracy with the true labels, which are known here.
    """
    p = _probabilities(y, proba, classes, posterior)
    hits = np.zeros_like(p)
    hits[np.arange(len(p)), p.argmax(axis=1)] = 1.0
    return _mean_score(hits, y, missing_proba, classes, posterior, 1.0)


def roc_auc(
    y: Any, proba: ArrayLike, missing_proba: ArrayLike, *, classes: ArrayLike, posterior: Posterior = None
) -> Score:
    """Estimate the area under the ROC curve on the whole population from partially labelled rows.

    The area is the probability that a row of the class has a larger predicted probability than a row of another class,
    ties counting half. With more than two classes it is the mean over the classes, each against the rest.

    Parameters
    ----------
    y, proba, missing_proba, classes, posterior
        As in `log_loss`.

    Returns
    -------
    Score
        Larger is better; 0.5 is guessing, 1 is perfect.

    Raises
    ------
    ValueError
        If a class has no labelled row, or for the reasons given in `log_loss`.

    See Also
    --------
    log_loss, brier, accuracy : Other scores, with the same arguments.
    marmix.plotting.RocDisplay : The curve itself.

    Examples
    --------
    >>> from marmix.evaluation import roc_auc
    >>> proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]]
    >>> print(roc_auc([0, 1, 1, 0, -1], proba, [0.1, 0.2, 0.5, 0.8, 0.4], classes=[0, 1]))
    0.5740 ± 0.2968 (plain 0.7500 ± 0.2500)
    """
    p = _probabilities(y, proba, classes, posterior)
    columns = [1] if p.shape[1] == 2 else list(range(p.shape[1]))
    shares = label_shares(y, classes)
    for k, name in enumerate(np.asarray(classes).tolist()):
        if not shares[:, k].any():
            raise ValueError(f"class {name!r} has no labelled row: the ROC curve needs labelled rows of every class.")

    def estimate(r: Array) -> tuple[float, Array]:
        areas, influence = [], np.zeros(len(p))
        total = r.sum(axis=1)
        for k in columns:
            area, by_row = _weighted_auc(p[:, k], r[:, k], total - r[:, k])
            areas.append(area)
            influence += by_row / len(columns)
        return float(np.mean(areas)), influence

    return _score(estimate, y, missing_proba, classes, posterior, p.shape, 1.0)


SCORES: dict[str, tuple[Callable[..., Score], int]] = {
    "log_loss": (log_loss, -1),
    "brier": (brier, -1),
    "accuracy": (accuracy, 1),
    "roc_auc": (roc_auc, 1),
}
# Names for `scoring=` of scikit-learn, after "marmix_", and the metrics
SCORER_NAMES = {"neg_log_loss": "log_loss", "neg_brier_score": "brier", "accuracy": "accuracy", "roc_auc": "roc_auc"}


@dataclass(frozen=True, repr=False)
class PopulationScorer:
    """A scorer ``scorer(estimator, X, y)`` for scikit-learn; see `population_scorer`."""

    metric: str
    missingness: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        function, sign = SCORES[self.metric]
        try:
            classes = _check_scored(estimator)
            q = missing_proba_of(estimator if self.missingness is None else self.missingness, X)
        except _ScoringError as error:
            # raised, it would become NaN in scikit-learn's cross-validation, and a search would take its first candidate
            if sys._getframe(1).f_globals.get("__name__", "").startswith("sklearn."):
                return error  # type: ignore[return-value]
            raise
        return sign * function(y, estimator.predict_proba(X), q, classes=classes).value

    def __repr__(self) -> str:
        return (
            f"population_scorer({self.metric!r})"
            if self.missingness is None
            else f"population_scorer({self.metric!r}, ...)"
        )


class _ScoringError(ValueError):
    """An estimator that cannot be scored, whatever the rows."""


def population_scorer(metric: str, missingness: Any = None) -> PopulationScorer:
    """Return a scorer for `cross_val_score` and `GridSearchCV` that estimates a metric on the whole population.

    Once marmix is imported, scikit-learn also knows these scorers by name, with q from the scored estimator itself:
    ``scoring="marmix_neg_log_loss"``, ``"marmix_neg_brier_score"``, ``"marmix_accuracy"`` and ``"marmix_roc_auc"``.

    Parameters
    ----------
    metric : {"log_loss", "brier", "accuracy", "roc_auc"}
        The score. Losses are negated, so that greater is better, as in scikit-learn.
    missingness : object, callable or None, default=None
        The source of q: a fitted object with `missing_proba(X)`, a function of X, or None for the scored estimator
        itself.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``. The estimator needs `predict_proba` and `classes_`, and must not have learnt
        missing labels as a class: `marmix.LabelledRows` fits any classifier to the labelled rows.

    Raises
    ------
    ValueError
        If there is no such metric.

    See Also
    --------
    PartialLabelKFold : Folds of the labelled rows, with the unlabelled rows in every training set.
    log_loss, brier, accuracy, roc_auc : The estimates, with their standard errors.
    marmix.LabelledRows : Any classifier, fitted to the labelled rows.

    Examples
    --------
    Score an ordinary classifier by cross-validation, with the missingness from a model of marmix. The score of the
    labelled rows alone would be too good:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from marmix import LabelledRows, MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.evaluation import StratifiedPartialLabelKFold, population_scorer
    >>> rows = make_mar_mixture(1000, rate=0.5, slope=-3, random_state=0)
    >>> X, y = rows.data, rows.target
    >>> missingness = MARLogisticRegression().fit(X, y)
    >>> for scoring in (population_scorer("accuracy", missingness), "accuracy"):
    ...     scores = cross_val_score(
    ...         LabelledRows(LogisticRegression()), X, y, cv=StratifiedPartialLabelKFold(3), scoring=scoring
    ...     )
    ...     print(f"{scores.mean():.2f}")
    0.87
    0.93
    >>> print(f"{LabelledRows(LogisticRegression()).fit(X, y).score(X, rows.target_true):.2f}")
    0.84

    The last number is the accuracy with the true labels of all rows: the corrected score is closer to it.
    """
    if metric not in SCORES:
        raise ValueError(f"metric={metric!r} is not one of {', '.join(SCORES)}.")
    return PopulationScorer(metric, missingness)


def _check_scored(estimator: Any) -> NDArray[Any]:
    """The classes of an estimator that can be scored; otherwise an error."""
    name = type(estimator).__name__
    if not hasattr(estimator, "predict_proba"):
        raise _ScoringError(f"{name} has no predict_proba: scores of the population need class probabilities.")
    classes = np.asarray(estimator.classes_)
    final = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    named = getattr(final, "classes", None)
    missing = ~known_labels(classes, np.empty(0) if named is None else np.asarray(list(named)))[0]
    if missing.any():
        raise _ScoringError(
            f"{name} has learnt missing labels as the class {classes[missing].tolist()[0]!r}: fit it to the labelled rows, with "
            f"marmix.LabelledRows({name}(...))."
        )
    return classes


def missing_proba_of(source: Any, X: Any) -> Array:
    """q from an estimator, from the last step of a pipeline, or from a function."""
    if isinstance(source, Pipeline) and hasattr(source[-1], "missing_proba"):
        return np.asarray(source[-1].missing_proba(source[:-1].transform(X)))
    if hasattr(source, "missing_proba"):
        return np.asarray(source.missing_proba(X))
    if not callable(source):
        raise _ScoringError(
            f"{type(source).__name__} has no missing_proba: name the source of q, population_scorer(..., missingness=clf)."
        )
    return np.asarray(source(X))


def _register_scorers() -> None:
    """Make the scorers known to scikit-learn by name; should it keep its scorers elsewhere one day, it refuses the names."""
    scorers = {f"marmix_{name}": PopulationScorer(metric) for name, metric in SCORER_NAMES.items()}
    getattr(sys.modules.get("sklearn.metrics._scorer"), "_SCORERS", {}).update(scorers)
    modules = [
        module for name, module in list(sys.modules.items()) if name.startswith("sklearn.") and module is not None
    ]
    tools = {id(value): value for module in modules for value in vars(module).values() if callable(value)}
    for tool in tools.values():
        for name in ("_parameter_constraints", "_skl_parameter_constraints"):  # with lists of names, made at import
            constraints = getattr(tool, name, None)
            for constraint in constraints.get("scoring", ()) if isinstance(constraints, dict) else ():
                if isinstance(names := getattr(constraint, "options", None), set):
                    names.update(scorers)


_register_scorers()


class MissingnessCheck(NamedTuple):
    """Observed and fitted rates of missing labels in bins of rows, as returned by `missingness_check`.

    Print it for a table.

    Attributes
    ----------
    by : array of shape (b,)
        Mean of the sorting variable in each bin.
    n : integer array of shape (b,)
        Number of rows in each bin.
    observed, fitted : arrays of shape (b,)
        Share of missing labels in each bin, and the mean of the fitted probabilities.
    z : array of shape (b,)
        Their difference in standard errors.
    p_value : float
        P-value of the hypothesis that there is no difference.

    See Also
    --------
    marmix.evaluation.missingness_check : Compute it.

    Examples
    --------
    A mechanism that is the same for all rows misses that the rows with a large value lose their labels:

    >>> from marmix.evaluation import missingness_check
    >>> y, by = ["a"] * 40 + [None] * 40, range(80)
    >>> print(missingness_check(y, [0.5] * 80, by, n_bins=2))
          by     n  observed  fitted      z
      19.500    40     0.000   0.500   -6.3
      59.500    40     1.000   0.500   +6.3
    p-value of no difference: 4.2e-18
    """

    by: Array  # mean of the sorting variable in each bin
    n: NDArray[np.integer]
    observed: Array
    fitted: Array
    z: Array  # (observed - fitted) in standard errors
    p_value: float

    def __str__(self) -> str:
        lines = ["      by     n  observed  fitted      z"]
        for row in zip(self.by, self.n, self.observed, self.fitted, self.z, strict=True):
            lines.append("{:8.3f} {:5d} {:9.3f} {:7.3f} {:+6.1f}".format(*row))
        return "\n".join([*lines, f"p-value of no difference: {self.p_value:.2g}"])


def missingness_check(
    y: Any, missing_proba: ArrayLike, by: ArrayLike, n_bins: int = 10, *, classes: ArrayLike | None = None
) -> MissingnessCheck:
    r"""Compare observed with fitted rates of missing labels along a variable, to check a mechanism.

    Sorted by the probability of a class, the bins show labels that are missing on one side of the boundary only; sorted
    by a feature, they show a feature that the mechanism lacks. In bin b,

    .. math::

        z_b = \frac{\sum_{j \in b} (m_j - q_j)}{\sqrt{\sum_{j \in b} q_j (1 - q_j)}},

    and the sum of the squares is compared with a chi-square distribution with one degree of freedom per bin, which is
    conservative if q was fitted to the same rows.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, K)
        Labels, missing where -1, NaN, None or pandas.NA; or votes, zero or NaN in all columns where missing.
    missing_proba : array-like of shape (n,)
        q of each row.
    by : array-like of shape (n,)
        The variable to sort the rows by.
    n_bins : int, default=10
        Number of bins of about equal size.
    classes : array-like or None, default=None
        All classes. Needed only if one of them is -1 or a text that otherwise means a missing label, such as "None".

    Returns
    -------
    MissingnessCheck
        Prints as a table, and has `by`, `n`, `observed`, `fitted`, `z` and `p_value`.

    Raises
    ------
    ValueError
        If shapes do not agree, a probability does not lie between 0 and 1, or `by` is not finite.

    See Also
    --------
    marmix.plotting.MissingnessDisplay : Observed and fitted rates by uncertainty, as a figure.
    marmix.Mechanism : The mechanisms that can be fitted.

    Examples
    --------
    Here labels are lost only where class 1 is more probable, but the fitted mechanism is symmetric. Along the
    probability of class 1 the check finds it out:

    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.evaluation import missingness_check
    >>> rows = make_mar_mixture(600, side=1, rate=0.3, random_state=0)
    >>> clf = MARLogisticRegression().fit(rows.data, rows.target)
    >>> by = clf.predict_proba(rows.data)[:, 1]
    >>> check = missingness_check(rows.target, clf.missing_proba(rows.data), by, n_bins=4)
    >>> for p, observed, fitted in zip(check.by, check.observed, check.fitted):
    ...     print(f"P(class 1) about {p:.1f}: {observed:.2f} missing, {fitted:.2f} fitted")
    P(class 1) about 0.0: 0.00 missing, 0.00 fitted
    P(class 1) about 0.2: 0.01 missing, 0.16 fitted
    P(class 1) about 0.5: 0.87 missing, 0.77 fitted
    P(class 1) about 0.8: 0.33 missing, 0.29 fitted
    >>> check.p_value < 0.001
    True
    """
    if has_votes(y):
        labelled = most_voted(vote_shares(y, fitted=True)[0]) >= 0
    else:
        labelled = known_labels(y, np.empty(0) if classes is None else as_classes(classes))[0]
    q, at = (np.asarray(unmasked(values), dtype=float) for values in (missing_proba, by))
    if q.shape != labelled.shape or at.shape != labelled.shape:
        raise ValueError(f"missing_proba and by must have shape {labelled.shape}; got {q.shape} and {at.shape}.")
    if not ((q >= 0.0) & (q <= 1.0)).all():
        raise ValueError("missing_proba must lie between 0 and 1.")
    if not np.isfinite(at).all():
        raise ValueError("by must be finite: leave out the rows where it is missing.")
    bins = [rows for rows in np.array_split(np.argsort(at, kind="stable"), n_bins) if len(rows)]
    observed, fitted = (np.array([values[rows].mean() for rows in bins]) for values in (~labelled, q))
    n = np.array([len(rows) for rows in bins])
    spread = np.sqrt([np.sum(q[rows] * (1.0 - q[rows])) for rows in bins]) / n
    z = (observed - fitted) / np.maximum(spread, 1e-12)
    means = np.array([at[rows].mean() for rows in bins])
    return MissingnessCheck(means, n, observed, fitted, z, float(chi2.sf(np.sum(z**2), len(bins))))


def mean_of(losses: Array, counts: Array | None = None) -> Estimate:
    """The mean of losses (n, K) over pseudo-labels, with weights of the rows, and the influence of every row."""

    def estimate(r: Array) -> tuple[float, Array]:
        if counts is not None:
            r = counts[:, None] * r
        with np.errstate(invalid="ignore"):
            # an infinite loss stays infinite unless its pseudo-label, which may be negative, is zero
            products = np.where(np.isinf(losses), losses, r * losses)
            rows, size = np.where(r != 0.0, products, 0.0).sum(axis=1), r.sum(axis=1)
            value = rows.sum() / size.sum()
            return float(value), (rows - value * size) / size.sum()

    return estimate


def imputed_estimates(
    estimates: Sequence[Estimate], indicator: Array, q: Array, posterior: UncertainPosterior
) -> list[tuple[float, float]]:
    """The value of each estimate with imputed labels, and its standard error with that of the posteriors in it.

    `indicator` (n, K) is one at the label of a row, zero for unlabelled rows.
    """
    labelled = np.asarray(indicator.any(axis=1))[:, None]
    central = posterior.central
    imputed, robust = np.where(labelled, indicator, central), pseudo_labels(indicator, q, central)[0]
    values = [estimate(imputed)[0] for estimate in estimates]
    variances = np.array([np.sum(estimate(robust)[1] ** 2) for estimate in estimates])
    if not labelled.all():
        for pair in posterior.pairs():
            above, below = (
                np.array([estimate(r)[0] for estimate in estimates])
                for r in (np.where(labelled, indicator, tau) for tau in pair)
            )
            variances += 0.25 * (above - below) ** 2
        if (by_class := posterior.drawn_by_class) is not None:
            moved = np.where(labelled, indicator, by_class)
            variances += np.subtract([estimate(moved)[0] for estimate in estimates], values) ** 2
    return list(zip(values, np.sqrt(variances).tolist(), strict=True))


def _probabilities(y: Any, proba: ArrayLike, classes: ArrayLike, posterior: Posterior) -> Array:
    """The probabilities as an array, checked in the rows that count: the labelled ones, or all with a posterior."""
    shares = label_shares(y, as_classes(classes))
    return checked_proba(proba, shares.shape, rows=shares.any(axis=1) if posterior is None else slice(None))


def _mean_score(
    losses: Array, y: Any, missing_proba: ArrayLike, classes: ArrayLike, posterior: Posterior, most: float
) -> Score:
    return _score(mean_of(losses), y, missing_proba, classes, posterior, losses.shape, most)


def _score(
    estimate: Estimate,
    y: Any,
    missing_proba: ArrayLike,
    classes: ArrayLike,
    posterior: Posterior,
    shape: tuple[int, ...],
    most: float,
) -> Score:
    """The score of an estimate (value, influence of every row), from the weighted and from the plain pseudo-labels."""
    names = np.asarray(classes)
    indicator = label_shares(y, names)
    labelled = np.asarray(indicator.any(axis=1))
    n, q = len(labelled), np.asarray(unmasked(missing_proba), dtype=float)
    if q.shape != (n,):
        raise ValueError(f"missing_proba must have shape {(n,)}; got {q.shape}.")
    if not labelled.any():
        raise ValueError("every label in y is missing: a score needs labelled rows.")
    if not ((q >= 0.0) & (q <= 1.0)).all():
        raise ValueError("missing_proba must lie between 0 and 1.")
    given = posterior.proba if isinstance(posterior, UncertainPosterior) else posterior
    tau = None if given is None else checked_proba(given, shape, "posterior")
    r, weight, n_truncated = pseudo_labels(indicator, q, tau)
    if isinstance(posterior, UncertainPosterior):
        ((value, stderr),) = imputed_estimates([estimate], indicator, q, posterior)
    else:
        value, influence = estimate(r)
        stderr = float(np.sqrt((influence**2).sum()))
    plain, plain_influence = estimate(indicator)
    return Score(
        value=value,
        stderr=stderr,
        plain=plain,
        plain_stderr=float(np.sqrt((plain_influence**2).sum())),
        n_effective=float(weight.sum() ** 2 / (weight**2).sum()),
        n_labelled=int(labelled.sum()),
        largest_weight=float(weight.max() / weight.mean()),
        n_truncated=n_truncated,
        least=0.0,
        most=most,
    )


def _weighted_auc(score: Array, positive: Array, negative: Array) -> tuple[float, Array]:
    """P(score of a positive > score of a negative) of weighted rows, ties counting half, and the influence of each row.

    The squared influences sum to DeLong's variance if all weights are one.
    """
    _, rank = np.unique(score, return_inverse=True)
    a, b = (np.bincount(rank, weights=w) for w in (positive, negative))
    below = (np.cumsum(b) - 0.5 * b) / b.sum()  # of negatives, at each distinct score
    above = 1.0 - (np.cumsum(a) - 0.5 * a) / a.sum()  # of positives
    area = float(a @ below / a.sum())
    influence = positive * (below[rank] - area) / a.sum() + negative * (above[rank] - area) / b.sum()
    return area, influence
