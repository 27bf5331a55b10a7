"""Scores of class probabilities on the whole population, with their standard errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marmix.core.arrays import Array, unmasked
from marmix.core.labels import label_shares
from marmix.evaluation.pseudo_labels import UncertainPosterior, checked_proba, inverse_weights, pseudo_labels

QUANTILE = 1.959964  # of a 95 % interval
Posterior = ArrayLike | UncertainPosterior | None
Estimate = Callable[[Array], tuple[float, Array]]  # from pseudo-labels (n, K) to a value and the influence of every row


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
        q, the probability that the label of each row is missing; 0 where it was missing and has been asked for.
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
    rows = _Rows.of(y, proba, missing_proba, classes, posterior)
    with np.errstate(divide="ignore"):
        losses = -np.log(rows.proba)
    return rows.score(mean_of(losses), np.inf)


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
    rows = _Rows.of(y, proba, missing_proba, classes, posterior)
    losses = (rows.proba**2).sum(axis=1, keepdims=True) - 2.0 * rows.proba + 1.0
    most = 1.0 if losses.shape[1] == 2 else 2.0
    return rows.score(mean_of(losses * (most / 2.0)), most)


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
    rows = _Rows.of(y, proba, missing_proba, classes, posterior)
    hits = np.eye(rows.proba.shape[1])[rows.proba.argmax(axis=1)]
    return rows.score(mean_of(hits), 1.0)


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
    rows = _Rows.of(y, proba, missing_proba, classes, posterior)
    p = rows.proba
    unseen = ~rows.indicator.any(axis=0)
    if unseen.any():
        name = np.asarray(classes).tolist()[int(unseen.argmax())]
        raise ValueError(f"class {name!r} has no labelled row: the ROC curve needs labelled rows of every class.")
    columns = [1] if p.shape[1] == 2 else range(p.shape[1])

    def estimate(r: Array) -> tuple[float, Array]:
        total = r.sum(axis=1)
        areas, influences = [], []
        for k in columns:
            area, positive, negative = weighted_auc(p[:, k], r[:, k], total - r[:, k])
            areas.append(area)
            influences.append(r[:, k] * positive + (total - r[:, k]) * negative)
        return float(np.mean(areas)), np.mean(influences, axis=0)

    return rows.score(estimate, 1.0)


def mean_of(losses: Array, counts: Array | None = None) -> Estimate:
    """The mean of losses (n, K) over pseudo-labels, with weights of the rows."""

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
    """The value of each estimate with imputed labels, and its standard error.

    The error includes how far the posteriors may be off.

    `indicator` (n, K) is one at the label of a row, zero for unlabelled rows.
    """
    labelled = np.asarray(indicator.any(axis=1))[:, None]

    def imputed(tau: Array) -> Array:
        return np.array([estimate(np.where(labelled, indicator, tau))[0] for estimate in estimates])

    values, robust = imputed(posterior.central), pseudo_labels(indicator, q, posterior.central)[0]
    variances = np.array([np.sum(estimate(robust)[1] ** 2) for estimate in estimates])
    if not labelled.all():
        for above, below in posterior.pairs():
            variances += 0.25 * (imputed(above) - imputed(below)) ** 2
    return list(zip(values.tolist(), np.sqrt(variances).tolist(), strict=True))


class _Rows(NamedTuple):
    """What scores are estimated from."""

    proba: Array  # (n, K)
    indicator: Array  # (n, K), one at the label of a row or the shares of its votes
    q: Array  # (n,)
    posterior: Array | UncertainPosterior | None

    @classmethod
    def of(
        cls, y: Any, proba: ArrayLike, missing_proba: ArrayLike, classes: ArrayLike, posterior: Posterior
    ) -> "_Rows":
        """From what users give, checked."""
        indicator = label_shares(y, classes)
        labelled = np.asarray(indicator.any(axis=1))
        p = checked_proba(proba, indicator.shape, rows=labelled if posterior is None else slice(None))
        q = np.asarray(unmasked(missing_proba), dtype=float)
        if q.shape != labelled.shape:
            raise ValueError(f"missing_proba must have shape {labelled.shape}; got {q.shape}.")
        if not labelled.any():
            raise ValueError("every label in y is missing: a score needs labelled rows.")
        if not ((q >= 0.0) & (q <= 1.0)).all():
            raise ValueError("missing_proba must lie between 0 and 1.")
        if not (posterior is None or isinstance(posterior, UncertainPosterior)):
            posterior = checked_proba(posterior, indicator.shape, "posterior")
        return cls(p, indicator, q, posterior)

    def score(self, estimate: Estimate, most: float) -> Score:
        """The score of an estimate, from weighted and from plain pseudo-labels."""
        _, indicator, q, posterior = self
        if isinstance(posterior, UncertainPosterior):
            ((value, stderr),) = imputed_estimates([estimate], indicator, q, posterior)
        else:
            value, stderr = _with_stderr(estimate, pseudo_labels(indicator, q, posterior)[0])
        plain, plain_stderr = _with_stderr(estimate, indicator)
        weight, n_truncated = inverse_weights(q[indicator.any(axis=1)], len(q))
        return Score(
            value=value,
            stderr=stderr,
            plain=plain,
            plain_stderr=plain_stderr,
            n_effective=float(weight.sum() ** 2 / (weight**2).sum()),
            n_labelled=len(weight),
            largest_weight=float(weight.max() / weight.mean()),
            n_truncated=n_truncated,
            most=most,
        )


def _with_stderr(estimate: Estimate, r: Array) -> tuple[float, float]:
    value, influence = estimate(r)
    return value, float(np.sqrt((influence**2).sum()))


def weighted_auc(score: Array, positive: Array, negative: Array) -> tuple[float, Array, Array]:
    """The area under the ROC curve of weighted rows, and the influence of each row as a positive and as a negative one.

    The squared influences sum to DeLong's variance if all weights are one.
    """
    _, rank = np.unique(score, return_inverse=True)
    a, b = (np.bincount(rank, weights=w) for w in (positive, negative))
    below = (np.cumsum(b) - 0.5 * b) / b.sum()  # of negatives, at each distinct score
    above = 1.0 - (np.cumsum(a) - 0.5 * a) / a.sum()  # of positives
    area = float(a @ below / a.sum())
    return area, (below[rank] - area) / a.sum(), (above[rank] - area) / b.sum()
