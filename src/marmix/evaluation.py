"""Scores and cross-validation when the labelled rows are not a representative sample.

If labels of hard rows are missing, a score over the labelled rows is optimistic. With ``q_j = P(label missing | x_j)`` the loss
on the whole population can still be estimated, for any classifier, from its probabilities ``p_j``:

    weighted       sum over labelled rows of w_j l(y_j, p_j) / sum of w_j,     w_j = 1 / (1 - q_j)
    doubly robust  mean over all rows of  lbar_j + (1 - m_j) w_j (l(y_j, p_j) - lbar_j),
                   lbar_j = sum_k tau_jk l(k, p_j) the expected loss under a model's posterior tau_j

The first is consistent if q is right, the second if q or tau is. Both are sums ``sum_jk r_jk l(k, p_j) / sum_jk r_jk`` over
pseudo-labels r: ``w_j 1{y_j = k}``, and ``tau_jk + (1 - m_j) w_j (1{y_j = k} - tau_jk)``. If y has votes, a column for each
class, ``1{y_j = k}`` is the share of class k in the votes of row j; a row of zeros or NaN is missing. Their standard errors take
q and tau as known, which is far too optimistic where hardly any hard row has a label.

    imputed        mean over all rows of  (1 - m_j) l(y_j, p_j) + m_j lbar_j

with an `UncertainPosterior` as tau has a standard error that says how far tau may be off. Its square is the sum of that of the
doubly robust estimate and of the changes of the estimate as tau moves by one standard deviation along each principal axis, and
towards labels drawn by class.
`MARClassifierCV` scores in this way.

Weights are truncated at ``sqrt(n_labelled)`` times ``n / n_labelled``, which is their mean if q is right (Ionides' rule): the
bias vanishes as rows are added, and the variance stays finite. `Score.n_effective`, ``(sum w)^2 / sum w^2``, is the number of
equally weighted rows with the same variance.
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

from marmix.arrays import Array, unmasked
from marmix.callers import check_cross_validated, classes_cross_validated
from marmix.labels import as_classes, has_votes, known_labels, label_shares, most_voted, vote_shares
from marmix.pseudo_labels import UncertainPosterior, checked_proba, pseudo_labels

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
    """K-fold cross-validation of the labelled rows; unlabelled rows are in every training set and in no test set.

    Training sets therefore have relatively more unlabelled rows than the data, by up to a factor of k / (k - 1), which affects
    estimators that model the features or the missingness; `MARClassifierCV` corrects for it by weights. A classifier that would
    learn missing labels as a class is refused: cross-validate `marmix.LabelledRows` around it.

    Parameters
    ----------
    n_splits : int, default=5
    shuffle : bool, default=False
    random_state : int, RandomState instance or None, default=None
        For shuffling.
    classes : array-like or None, default=None
        All classes, if one of them is -1 or a text that otherwise means a missing label, such as "None". By default those
        named in the estimator of ours that scikit-learn cross-validates, if so.
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
        """Number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Indices of the training rows and of the test rows of each fold."""
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
    """`PartialLabelKFold` that preserves the class proportions of the labelled rows in every fold."""

    _folds = StratifiedKFold


@dataclass(frozen=True)
class Score:
    """An estimate of a score on the whole population.

    Attributes
    ----------
    value, stderr : float
        The estimate and its standard error. That of scores of `MARClassifierCV` includes how far the posteriors of unlabelled
        rows may be off. Otherwise q and the posterior are taken as known: if hardly any hard row is labelled, the doubly robust
        estimate relies on the posterior, whose error is then not included.
    plain, plain_stderr : float
        The unweighted score of the labelled rows.
    n_effective : float
        Number of equally weighted labelled rows with the variance of the weighted estimate.
    n_labelled : int
    largest_weight : float
        The largest weight divided by the mean weight, after truncation.
    n_truncated : int
        Number of truncated weights.
    least, most : float
        Range of the score.
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
        """The 95 % interval: normal for the log of a loss, or for the log-odds of a score with a largest value.

        Near the ends of the range, where that would be too long, each side is at most 1.5 times as long as a normal one.
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
    """Log-loss on the whole population.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, K)
        Labels, missing where -1, NaN, None or pandas.NA; or votes, zero or NaN in all columns where missing.
    proba : array-like of shape (n, K)
        The classifier's probabilities; those of unlabelled rows are used only with `posterior`.
    missing_proba : array-like of shape (n,)
        q, the probability that the label of each row is missing.
    classes : array-like of shape (K,)
        The classes of the columns.
    posterior : array-like of shape (n, K), UncertainPosterior or None
        A model's posteriors of all rows, for the doubly robust estimate. With an `UncertainPosterior` (`posterior_` of
        `MARClassifierCV`), unlabelled rows are scored by its posteriors, and the standard error includes how far they may be off.

    Returns
    -------
    Score
    """
    p = _probabilities(y, proba, classes, posterior)
    with np.errstate(divide="ignore"):
        losses = -np.log(p)
    return _mean_score(losses, y, missing_proba, classes, posterior, np.inf)


def brier(
    y: Any, proba: ArrayLike, missing_proba: ArrayLike, *, classes: ArrayLike, posterior: Posterior = None
) -> Score:
    """Brier score on the whole population, ``sum_k (p_k - 1{y = k})^2``, halved for two classes; see `log_loss`."""
    p = _probabilities(y, proba, classes, posterior)
    losses = (p**2).sum(axis=1, keepdims=True) - 2.0 * p + 1.0
    most = 1.0 if p.shape[1] == 2 else 2.0
    return _mean_score(losses * (most / 2.0), y, missing_proba, classes, posterior, most)


def accuracy(
    y: Any, proba: ArrayLike, missing_proba: ArrayLike, *, classes: ArrayLike, posterior: Posterior = None
) -> Score:
    """Accuracy on the whole population; see `log_loss`."""
    p = _probabilities(y, proba, classes, posterior)
    hits = np.zeros_like(p)
    hits[np.arange(len(p)), p.argmax(axis=1)] = 1.0
    return _mean_score(hits, y, missing_proba, classes, posterior, 1.0)


def roc_auc(
    y: Any, proba: ArrayLike, missing_proba: ArrayLike, *, classes: ArrayLike, posterior: Posterior = None
) -> Score:
    """Area under the ROC curve on the whole population, averaged one-vs-rest for more than two classes; see `log_loss`."""
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
    """A scorer for `cross_val_score` and `GridSearchCV` that estimates the metric on the whole population.

    Once marmix is imported, scikit-learn also knows these scorers by name, with q from the scored estimator itself:
    ``scoring="marmix_neg_log_loss"``, ``"marmix_neg_brier_score"``, ``"marmix_accuracy"`` and ``"marmix_roc_auc"``.

    Parameters
    ----------
    metric : {"log_loss", "brier", "accuracy", "roc_auc"}
        Losses are negated, so that greater is better, as in scikit-learn.
    missingness : object, callable or None
        The source of q: a fitted object with `missing_proba(X)`, a function of X, or None for the scored estimator itself.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``. The estimator needs `predict_proba` and `classes_`, and must not have learnt missing labels
        as a class: `marmix.LabelledRows` fits any classifier to the labelled rows.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARGaussianMixture
    >>> from marmix.evaluation import population_scorer
    >>> X = np.array([[0.0], [1.0], [0.5], [5.0], [6.0], [5.5]])
    >>> y = [0, 0, -1, 1, 1, -1]
    >>> population_scorer("accuracy")(MARGaussianMixture(link="logit").fit(X, y), X, y)
    1.0
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
    """Observed and fitted rates of missing labels in bins of rows; see `missingness_check`."""

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
    """Compare observed with fitted rates of missing labels along a variable, to check a mechanism.

    The probability of a class shows labels missing on one side of the boundary, a feature shows a missing covariate. The sum
    of the squared z is compared with a chi-square with one degree of freedom per bin, which is conservative if q was fitted to
    the same rows.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, K)
        Labels, missing where -1, NaN, None or pandas.NA; or votes, zero or NaN in all columns where missing.
    missing_proba : array-like of shape (n,)
        q of each row.
    by : array-like of shape (n,)
        The variable to sort the rows by.
    n_bins : int
        Number of bins of about equal size.
    classes : array-like or None, default=None
        All classes, if one of them is -1 or a text that otherwise means a missing label, such as "None".

    Returns
    -------
    MissingnessCheck
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
