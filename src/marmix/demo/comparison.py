"""The demonstration: labels of real rows hidden, hard cases first, and what is won back on rows held out."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import t as student
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix.arrays import Array
from marmix.estimators import MARGaussianMixture, MARLogisticRegression
from marmix.notes import BoundaryWarning

# Chosen by what the columns measure, not by how they score: one column for each of the cell's properties. Perimeter and
# area repeat the radius. Concavity and concave points come close to repeating compactness, and are zero in some
# rows. The logarithm, because all six are positive and skewed to the right and the mixture wants Gaussian classes.
COLUMNS = ("radius", "texture", "smoothness", "compactness", "symmetry", "fractal dimension")
# "tied" gives the mixture linear boundaries, as logistic regression has, so that the two differ in what they make of the
# unlabelled rows and not in flexibility; and with some 85 labels "full" would have twice the covariances to estimate.
COVARIANCE = "tied"
RATE = 0.7  # of the training labels are hidden
STEEPNESS = 6.0  # log-odds of hiding, from the easiest to the hardest row
HARD = 1 / 3  # the hardest third of the training rows is called hard

LABELLED, ALL_LABELS = "logistic, labelled rows", "logistic, every label"
LOGISTIC, MECHANISM, IGNORED = "logistic, mechanism", "mixture, mechanism", "mixture, mechanism ignored"
FULL = "mixture, mechanism, full"  # the paper's model: shown although, and because, it has too many parameters here
PAPER = {"covariance_type": "full", "link": "aranda-ordaz", "uncertainty": "margin"}
MODELS = (ALL_LABELS, LABELLED, LOGISTIC, MECHANISM, IGNORED, FULL)
METRICS = ("log-loss", "Brier", "accuracy", "AUC")
SMALLER_IS_BETTER = ("log-loss", "Brier")


class Data(NamedTuple):
    """Features, true classes (1 = malignant), how hard each row is (0 to 1), and its probability of losing the label."""

    X: Array
    y: NDArray[np.integer]
    difficulty: Array
    hide: Array


class Split(NamedTuple):
    """One random half for training, some of its labels hidden (-1), and the other half to score on."""

    X: Array
    y: NDArray[np.integer]
    y_true: NDArray[np.integer]
    hard: NDArray[np.bool_]
    X_held: Array
    y_held: NDArray[np.integer]


class Difference(NamedTuple):
    """A mean paired difference between two models with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def load() -> Data:
    """The breast-cancer data that come with scikit-learn, and the probabilities with which labels are hidden."""
    bunch = load_breast_cancer()
    names = bunch.feature_names.tolist()
    X = np.log(bunch.data[:, [names.index(f"mean {column}") for column in COLUMNS]])
    y = 1 - bunch.target
    forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
    tau = cross_val_predict(forest, X, y, cv=5, method="predict_proba")[:, 1]
    difficulty = 1.0 - np.abs(2.0 * tau - 1.0)
    level = brentq(lambda a: np.mean(expit(a + STEEPNESS * difficulty)) - RATE, -50.0, 50.0)
    return Data(X, y, difficulty, expit(level + STEEPNESS * difficulty))


def split(data: Data, seed: int) -> Split:
    """Halve the rows at random and hide training labels, hard cases first."""
    train, held = train_test_split(np.arange(len(data.y)), test_size=0.5, stratify=data.y, random_state=seed)
    hidden = np.random.default_rng(seed).random(len(train)) < data.hide[train]
    hard = data.difficulty[train] > np.quantile(data.difficulty[train], 1.0 - HARD)
    y = data.y[train]
    return Split(data.X[train], np.where(hidden, -1, y), y, hard, data.X[held], data.y[held])


def fit_mixture(part: Split, **settings: Any) -> MARGaussianMixture:
    """The mixture on all training rows, labelled or not; `notes_` says in words what a warning would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        return MARGaussianMixture(**{"covariance_type": COVARIANCE, **settings}).fit(part.X, part.y)


def fit_logistic(part: Split) -> Pipeline:
    """Logistic regression with the mechanism, on all training rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        return make_pipeline(StandardScaler(), MARLogisticRegression()).fit(part.X, part.y)


def missing_at(fit: MARGaussianMixture) -> Array:
    """The fitted probability of a missing label at a toss-up between the classes, and where the class is certain."""
    assert fit.mechanism_ is not None
    return fit.mechanism_.missing_proba(np.array([[0.0, 0.0], [0.0, -700.0]]))


def scores(part: Split) -> Array:
    """Every metric of every model on the held-out rows, in the order of `MODELS` and `METRICS`."""
    known = part.y >= 0
    models = {
        ALL_LABELS: make_pipeline(StandardScaler(), LogisticRegression()).fit(part.X, part.y_true),
        LABELLED: make_pipeline(StandardScaler(), LogisticRegression()).fit(part.X[known], part.y[known]),
        LOGISTIC: fit_logistic(part),
        MECHANISM: fit_mixture(part),
        IGNORED: fit_mixture(part, link=None),
        FULL: fit_mixture(part, **PAPER),
    }
    table = np.empty((len(MODELS), len(METRICS)))
    for row, name in zip(table, MODELS, strict=True):
        tau, y = models[name].predict_proba(part.X_held)[:, 1], part.y_held
        row[:] = log_loss(y, tau), brier_score_loss(y, tau), accuracy_score(y, tau > 0.5), roc_auc_score(y, tau)
    return table


def all_scores(data: Data, splits: int, seed: int) -> Array:
    """`scores` of every split, (splits, models, metrics)."""
    return np.array([scores(split(data, seed + i)) for i in range(splits)])


def difference(table: Array, model: str, other: str, metric: str) -> Difference:
    """How `model` differs from `other` on the same splits."""
    column = METRICS.index(metric)
    values = table[:, MODELS.index(model), column] - table[:, MODELS.index(other), column]
    mean = float(values.mean())
    half = float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Difference(mean, mean - half, mean + half)


def verdict(table: Array, model: str, other: str) -> str:
    """In which metrics `model` beats `other` beyond the 95 % interval, in words."""
    found: dict[str, list[str]] = {"better in": [], "worse in": [], "no clear difference in": []}
    for metric in METRICS:
        d = difference(table, model, other, metric)
        rises, falls = d.low > 0.0, d.high < 0.0
        better, worse = (falls, rises) if metric in SMALLER_IS_BETTER else (rises, falls)
        found["better in" if better else "worse in" if worse else "no clear difference in"].append(metric)
    return "; ".join(f"{what} {', '.join(metrics)}" for what, metrics in found.items() if metrics) + "."


def one_fit(part: Split) -> list[str]:
    """What was hidden in one split, and what the fit with the mechanism found."""
    missing = part.y < 0
    fit = fit_mixture(part)
    right = float(np.mean(fit.transduction_[missing] == part.y_true[missing]))
    lines = [f"One split: {missing.sum()} of {len(missing)} training labels hidden."]
    for name, rows in (("hard", part.hard), ("easy", ~part.hard)):
        lines.append(f"  {name} rows: {(missing & rows).sum()} of {rows.sum()} hidden ({missing[rows].mean():.0%})")
    alpha_0, alpha_1 = np.asarray(fit.alpha_, dtype=float)
    doubtful, certain = missing_at(fit)
    lines += [
        f"  fitted mechanism: alpha = ({alpha_0:.2f}, {alpha_1:.2f}), shape = {fit.shape_:.2f}",
        f"  so a label is missing with probability {doubtful:.2f} at a toss-up, {certain:.2f} where the class is certain",
        f"  imputed labels that are right: {right:.1%} of {missing.sum()}",
    ]
    return lines + [f"  the fit notes: {note}" for note in fit.notes_]


def report(splits: int, seed: int) -> list[str]:
    """The demonstration as lines to print."""
    data = load()
    table = all_scores(data, splits, seed)
    return [
        f"Breast-cancer data of scikit-learn, {len(data.y)} rows. Features: logs of mean",
        f"{', '.join(COLUMNS)}.",
        f"Half of the rows train, half are held out. {RATE:.0%} of the training labels are hidden, hard cases first:",
        "those that a random forest, cross-fitted on the same features, is unsure of (not a model of our family).",
        f"The mixture has one Gaussian a class and covariance_type={COVARIANCE!r}: linear boundaries, like the logistic;",
        "'full' in the last row, with twice the covariances to estimate.",
        "",
        *one_fit(split(data, seed)),
        "",
        f"Held-out rows, mean over {splits} random splits (log-loss and Brier: smaller is better)",
        *_means(table),
        "",
        f"Paired difference to '{LABELLED}' +/- half the 95 % interval",
        *_differences(table),
        "",
        "Logistic regression with the mechanism, against the one on the labelled rows:",
        f"  {verdict(table, LOGISTIC, LABELLED)}",
        "Mixture with the mechanism, against the same mixture that ignores it:",
        f"  {verdict(table, MECHANISM, IGNORED)}",
        "Mixture with the mechanism, against logistic regression on the labelled rows:",
        f"  {verdict(table, MECHANISM, LABELLED)}",
        "",
        f"'{ALL_LABELS}' knows what was hidden: a reference, out of reach in practice.",
        "The intervals are about the choice of split and of hidden labels in these data, not about other data.",
    ]


def _means(table: Array) -> list[str]:
    width = max(map(len, MODELS))
    lines = [f"  {'':{width}}" + "".join(f"{metric:>10}" for metric in METRICS)]
    for name, row in zip(MODELS, table.mean(axis=0), strict=True):
        lines.append(f"  {name:{width}}" + "".join(f"{value:>10.3f}" for value in row))
    return lines


def _differences(table: Array) -> list[str]:
    width = max(map(len, MODELS))
    lines = [f"  {'':{width}}" + "".join(f"{metric:>18}" for metric in METRICS)]
    for name in MODELS:
        if name != LABELLED:
            cells = [difference(table, name, LABELLED, metric) for metric in METRICS]
            lines.append(f"  {name:{width}}" + "".join(f"{d.mean:>+z8.3f} +/- {d.high - d.mean:.3f}" for d in cells))
    return lines
