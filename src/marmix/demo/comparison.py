"""The comparison of `marmix demo`: labels of real data hidden, hard cases first, and scores on held-out rows."""

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

# Chosen by what the columns measure, not by how they score: one column for each property of the cells. Perimeter and area
# repeat the radius; concavity and concave points nearly repeat compactness, and are zero in some rows. Logarithms, because
# all six are positive and skewed to the right and the mixture assumes Gaussian classes.
COLUMNS = ("radius", "texture", "smoothness", "compactness", "symmetry", "fractal dimension")
# "tied" gives the mixture linear boundaries, like logistic regression, so that the two differ in their use of unlabelled
# rows and not in flexibility; with some 85 labels, "full" would have twice the covariances to estimate.
COVARIANCE = "tied"
RATE = 0.7  # share of training labels hidden
STEEPNESS = 6.0  # log-odds of hiding, from the easiest to the hardest row
HARD = 1 / 3  # the hardest third of the training rows is called hard

LABELLED, ALL_LABELS = "logistic, labelled rows", "logistic, every label"
LOGISTIC, MECHANISM, IGNORED = "logistic, mechanism", "mixture, mechanism", "mixture, mechanism ignored"
FULL = "mixture, mechanism, full"  # the paper's model, which has too many parameters here
PAPER = {"covariance_type": "full", "link": "aranda-ordaz", "uncertainty": "margin", "n_init": 1}
MODELS = (ALL_LABELS, LABELLED, LOGISTIC, MECHANISM, IGNORED, FULL)
METRICS = ("log-loss", "Brier", "accuracy", "AUC")
SMALLER_IS_BETTER = ("log-loss", "Brier")


class Data(NamedTuple):
    """Features, true classes (1 = malignant), difficulty of each row (0 to 1), and the probability that its label is hidden."""

    X: Array
    y: NDArray[np.integer]
    difficulty: Array
    hide: Array


class Split(NamedTuple):
    """A random half for training, some of its labels hidden (-1), and the other half for scoring."""

    X: Array
    y: NDArray[np.integer]
    y_true: NDArray[np.integer]
    hard: NDArray[np.bool_]
    X_held: Array
    y_held: NDArray[np.integer]


def load() -> Data:
    """The breast-cancer data of scikit-learn, and the probabilities with which labels are hidden."""
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
    """Fit the mixture to all training rows; boundary warnings are silenced, since `notes_` has them too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        return MARGaussianMixture(**{"covariance_type": COVARIANCE, **settings}).fit(part.X, part.y)


def fit_logistic(part: Split) -> Pipeline:
    """Fit logistic regression with the mechanism to all training rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        return make_pipeline(StandardScaler(), MARLogisticRegression()).fit(part.X, part.y)


def missing_at(fit: MARGaussianMixture) -> Array:
    """Fitted probabilities of a missing label at a toss-up between the classes and where the class is certain."""
    assert fit.mechanism_ is not None
    return fit.mechanism_.missing_proba(np.array([[0.0, 0.0], [0.0, -700.0]]))


def scores(part: Split) -> Array:
    """Metrics of all models on the held-out rows, (models, metrics)."""
    labelled = part.y >= 0
    models = {
        ALL_LABELS: make_pipeline(StandardScaler(), LogisticRegression()).fit(part.X, part.y_true),
        LABELLED: make_pipeline(StandardScaler(), LogisticRegression()).fit(part.X[labelled], part.y[labelled]),
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


def difference(table: Array, model: str, other: str, metric: str) -> tuple[float, float]:
    """Mean paired difference of two models over the splits, and half its 95 % interval."""
    column = METRICS.index(metric)
    values = table[:, MODELS.index(model), column] - table[:, MODELS.index(other), column]
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(half)


def verdict(table: Array, model: str, other: str) -> str:
    """In which metrics `model` is better or worse than `other` by the 95 % interval, in words."""
    metrics: dict[str, list[str]] = {"better in": [], "worse in": [], "no clear difference in": []}
    for metric in METRICS:
        mean, half = difference(table, model, other, metric)
        rises, falls = mean > half, mean < -half
        better, worse = (falls, rises) if metric in SMALLER_IS_BETTER else (rises, falls)
        metrics["better in" if better else "worse in" if worse else "no clear difference in"].append(metric)
    return "; ".join(f"{what} {', '.join(names)}" for what, names in metrics.items() if names) + "."


def one_fit(part: Split) -> list[str]:
    """The labels hidden in one split, and the fit with the mechanism, as lines to print."""
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
    """The comparison as lines to print."""
    data = load()
    table = all_scores(data, splits, seed)
    means = dict(zip(MODELS, table.mean(axis=0), strict=True))
    others = [name for name in MODELS if name != LABELLED]
    paired = {name: [difference(table, name, LABELLED, metric) for metric in METRICS] for name in others}
    return [
        f"Breast-cancer data of scikit-learn, {len(data.y)} rows. Features: logs of mean",
        f"{', '.join(COLUMNS)}.",
        f"Half of the rows train, half are held out. {RATE:.0%} of the training labels are hidden, hard cases first:",
        "those that a random forest, cross-fitted on the same features, is unsure of (not a model of our family).",
        f"The mixture has one Gaussian a class and covariance_type={COVARIANCE!r}: linear boundaries, like the logistic;",
        "'full' in the last row, with twice the covariances to estimate, from one start.",
        "",
        *one_fit(split(data, seed)),
        "",
        f"Held-out rows, mean over {splits} random splits (log-loss and Brier: smaller is better)",
        *_lines({name: [f"{value:.3f}" for value in row] for name, row in means.items()}, 10),
        "",
        f"Paired difference to '{LABELLED}' +/- half the 95 % interval",
        *_lines({name: [f"{mean:+z.3f} +/- {half:.3f}" for mean, half in row] for name, row in paired.items()}, 18),
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


def _lines(rows: dict[str, list[str]], cell: int) -> list[str]:
    """A table of the metrics by model, with cells of this width."""
    width = max(map(len, MODELS))
    return [
        f"  {name:{width}}" + "".join(f"{text:>{cell}}" for text in row) for name, row in ({"": METRICS} | rows).items()
    ]
