"""MAGIC gamma telescope: the pieces of its two comparisons, and the scatterplot matrix.

Which labels the paper hid, and by which posterior, is not published. Here they are hidden by an Aranda-Ordaz mechanism (lambda
0.7, alpha_1 = -6) in the squared margin of two posteriors: that of cross-fitted gradient boosting, about as good as one can be,
and that of one Gaussian a class fitted to every label, the paper's own model of the classes.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from marmix.classifiers import MARGaussianMixture
from marmix.datasets import hide_labels, load_magic
from marmix.inference.tables import Table
from marmix.study import methods
from marmix.study.blocks import Block, Claim, Item, Page, Picture, Sheet
from marmix.study.comparison import SLOPE
from marmix.study.drawing import BLUE, LINES, ORANGE, canvas
from marmix.study.metrics import at_thresholds, scores
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.summaries import FAILS, HOLDS, Mean, difference

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

COLUMNS = {"fAlpha": "degrees", "fLength": "mm", "fM3Long": "mm", "fSize": "log10 photons"}
CLASSES = ("gamma", "hadron")
RATES = (0.5, 0.6, 0.7, 0.8, 0.9)
HIDERS = {"boosting": "gradient boosting", "gaussian": "one Gaussian a class"}
SHAPE, TRAINING = 0.7, 2 / 3
ENOUGH = 3  # splits for a method to be ranked
THRESHOLDS = np.round(np.arange(0.30, 0.701, 0.05), 2)
SCRIPT, DEFINED = "ECM-AO, as its script computes", "ECM-AO, as the paper defines it"
SWAPPED = "logistic, classes swapped"
BASELINES = (methods.LOGISTIC, methods.LOGISTIC_CV, methods.LDA, methods.QDA, methods.SELF_TRAINING, methods.BOOSTING)
OURS = (methods.MAR_LOGISTIC, methods.MAR_QUADRATIC, methods.IGNORED_EIGHT, methods.MAR_EIGHT)
WHERE = {"training": "training rows (as published)", "held": "rows held out (honest)"}
STYLES = LINES | {DEFINED: LINES[methods.ECM_AO], SCRIPT: LINES[methods.IGNORED]}
SHOWN = (SCRIPT, DEFINED, SWAPPED, *BASELINES, *OURS, methods.AVERAGE)


@lru_cache(maxsize=1)
def rows() -> tuple[Array, Labels]:
    """The four features, standardised, and the labels (0 = gamma)."""
    X, y = load_magic(columns=list(COLUMNS), return_X_y=True)
    return StandardScaler().fit_transform(X), np.asarray(y)


@lru_cache(maxsize=2)
def hiding_posterior(hider: str) -> Array:
    """The posterior (n, 2) by whose margin labels are hidden."""
    X, y = rows()
    if hider == "boosting":
        return cross_val_predict(HistGradientBoostingClassifier(random_state=0), X, y, method="predict_proba")
    return QuadraticDiscriminantAnalysis().fit(X, y).predict_proba(X)


def pieces(plan: Plan, rates: tuple[float, ...] = RATES) -> list[Piece]:
    """Every replicate at these rates; the average of candidates, which takes longest, in pieces of its own."""
    out = []
    for i in range(plan.replicates("magic")):  # replicates outermost, so that every setting grows together
        for hider in HIDERS:
            for rate in rates:
                options = {"hider": hider, "rate": rate}
                source = f"magic/{i}"  # the same split at every rate, for every hider
                out.append(Piece(_key(hider, rate, i), replicate, options | {"average": False}, source))
                if i < plan.replicates("magic-average") and (plan.size == "full" or hider == "boosting"):
                    out.append(Piece(f"{_key(hider, rate, i)}/average", replicate, options | {"average": True}, source))
    return out


def _key(hider: str, rate: float, i: int) -> str:
    return f"magic/{hider}/{rate:.1f}/{i}"


def replicate(rng: np.random.Generator, hider: str, rate: float, average: bool) -> dict[str, Any]:
    """Methods fitted to two thirds of the rows; scores on these and on the others."""
    X, y = rows()
    order = rng.permutation(len(y))
    train, held = np.split(order, [round(TRAINING * len(y))])
    hide_seed, seed = (int(v) for v in rng.integers(2**31, size=2))
    partial = hide_labels(
        y[train],
        hiding_posterior(hider)[train],
        "aranda-ordaz",
        SHAPE,
        SLOPE,
        rate,
        random_state=hide_seed,
        return_y=True,
    )
    names = (methods.AVERAGE,) if average else (*BASELINES, *OURS)
    estimators, failed, unfinished = methods.fitted(names, X[train], partial, y[train], seed)
    if not average:
        for name, options in ((SCRIPT, {"link": None}), (DEFINED, {"shape": SHAPE})):
            fit = MARGaussianMixture(init="kmeans", random_state=seed, **options).fit(X[train], partial)
            estimators[name] = fit
            unfinished += [] if fit.converged_ else [name]
    out: dict[str, Any] = {"failed": failed, "unfinished": unfinished}
    for where, chosen in (("training", train), ("held", held)):
        out[where] = {}
        for name, estimator in estimators.items():
            p = estimator.predict_proba(X[chosen])
            out[where][name] = _scores(y[chosen], p)
            if name == methods.LOGISTIC:
                out[where][SWAPPED] = _scores(y[chosen], p[:, ::-1])
    return out


def _scores(y: Labels, p: Array) -> dict[str, Any]:
    """Scores of probabilities; accuracy, precision and recall at every threshold."""
    return scores(y, p) | at_thresholds(y == 0, p[:, 0], THRESHOLDS)


class MagicRuns:
    """The replicates, by hider and rate."""

    def __init__(self, plan: Plan, found: Found):
        self.n = plan.replicates("magic")
        self._found = found

    def of(self, hider: str, rate: float, method: str, metric: str, where: str = "held") -> Array:
        """A score of every split; NaN where there is none."""
        return np.array(
            [np.nan if value is None else value for value in self._values(hider, rate, method, metric, where)]
        )

    def at_thresholds(self, hider: str, rate: float, method: str, metric: str, where: str = "held") -> Array:
        """A score (splits, thresholds); NaN where there is none."""
        none = [np.nan] * len(THRESHOLDS)
        values = self._values(hider, rate, method, metric, where)
        return np.array([none if value is None else value for value in values], dtype=float)

    def accuracy(self, hider: str, rate: float, method: str, where: str = "held") -> Array:
        """Accuracy of every split at the threshold one half."""
        return self.at_thresholds(hider, rate, method, "accuracy", where)[:, THRESHOLDS == 0.5].ravel()

    def _values(self, hider: str, rate: float, method: str, metric: str, where: str) -> list[Any]:
        ending = "/average" if method == methods.AVERAGE else ""
        split = [self._found.get(_key(hider, rate, i) + ending, {}) for i in range(self.n)]
        return [value.get(where, {}).get(method, {}).get(metric) for value in split]

    def methods(self, hider: str, rate: float) -> list[str]:
        """Those that were fitted at least once."""
        return [m for m in SHOWN if np.isfinite(self.of(hider, rate, m, "auc")).any()]

    def best(self, hider: str, rate: float) -> dict[str, Mean]:
        """Methods by AUC, on the splits that all of them saw: paired differences to the highest mean, itself first.

        Methods that saw very few are left out.
        """
        names = [m for m in self.methods(hider, rate) if m != SWAPPED]
        auc = {name: self.of(hider, rate, name, "auc") for name in names}
        few = min(ENOUGH, self.n)
        auc = {name: values for name, values in auc.items() if np.isfinite(values).sum() >= few}
        common = np.all([np.isfinite(values) for values in auc.values()], axis=0)
        auc = {name: values[common] for name, values in auc.items()}
        order = sorted(auc, key=lambda name: -float(np.mean(auc[name])))
        return {name: difference(auc[name], auc[order[0]]) for name in order}

    def troubles(self, hider: str) -> list[str]:
        """How often fits failed or did not converge."""
        pieces = [value for key, value in self._found.items() if key.startswith(f"magic/{hider}/")]
        out = []
        for what, words in (("failed", "could not be fitted"), ("unfinished", "did not converge")):
            for name in SHOWN:
                count = sum(name in value[what] for value in pieces)
                if count:
                    out.append(f"{name} {words} in {count} runs at any proportion.")
        return out


def by_hider(differences: dict[str, Mean]) -> str:
    """Differences, each with what hid the labels."""
    return ", ".join(f"{d.sentence()} (labels hidden by {HIDERS[h]})" for h, d in differences.items())


def pairs_pieces(plan: Plan) -> list[Piece]:
    """How far a linear boundary gets, with every label."""
    return [Piece("magic-pairs/boundaries", boundaries)]


def boundaries(rng: np.random.Generator) -> dict[str, float]:
    """Cross-fitted AUC of a linear, a quadratic and a free boundary."""
    X, y = rows()
    linear = cross_val_predict(LogisticRegression(), X, y, method="predict_proba")
    quadratic = cross_val_predict(QuadraticDiscriminantAnalysis(), X, y, method="predict_proba")
    free = hiding_posterior("boosting")
    found = {"logistic regression": linear, "one Gaussian a class": quadratic, "gradient boosting": free}
    return {name: float(roc_auc_score(y, p[:, 1])) for name, p in found.items()}


def pairs_page(plan: Plan, found: Found) -> Page:
    """The scatterplot matrix."""
    data = load_magic(columns=list(COLUMNS))
    X, y = data.data, data.target
    shown = np.random.default_rng(plan.seed).permutation(len(y))[:2500]
    figure, axes = canvas(6.4, 6.2, 4, 4, sharex="col")
    limits = [np.quantile(X[:, j], [0.002, 0.998]) for j in range(4)]
    for i, (row_name, row_unit) in enumerate(COLUMNS.items()):
        for j, (name, unit) in enumerate(COLUMNS.items()):
            ax = axes[i, j]
            if j > i:
                ax.set_axis_off()
                continue
            for k, colour in ((0, BLUE), (1, ORANGE)):
                if i == j:
                    edges = np.linspace(limits[j][0], limits[j][1], 41)
                    ax.hist(
                        X[y == k, j],
                        edges,
                        density=True,
                        histtype="step",
                        color=colour,
                        linewidth=1.1,
                        label=CLASSES[k],
                    )
                    ax.set_yticks([])
                else:
                    chosen = shown[y[shown] == k]
                    ax.scatter(
                        X[chosen, j], X[chosen, i], s=2.0, color=colour, alpha=0.35, linewidths=0, rasterized=True
                    )
                    ax.set_ylim(*limits[i])
            ax.set_xlim(*limits[j])
            ax.set_xlabel(f"{name} ({unit})" if i == 3 else "")
            ax.set_ylabel(f"{row_name} ({row_unit})" if j == 0 and i else "density" if i == j else "")
            if 0 < j < i:
                ax.set_yticklabels([])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[0, 2].legend(handles, labels, loc="upper center", fontsize=9)
    figure.align_ylabels()
    auc = found["magic-pairs/boundaries"]
    gap = auc["gradient boosting"] - auc["logistic regression"]
    claim = Claim(
        "The MAGIC classes overlap, and a linear boundary is not enough (scatterplot matrix).",
        HOLDS if gap > 0.02 and auc["gradient boosting"] < 0.95 else FAILS,
        "With every label, cross-fitted, the four features give an AUC of "
        + ", ".join(f"{value:.3f} by {name}" for name, value in auc.items())
        + ".",
    )
    caption = (
        f"The four features of the paper, 2500 of {len(y):,} events in the scatterplots (outermost 0.2 % on each "
        "side not shown), all of them in the histograms."
    )
    table = Table(
        "How far boundaries get with every label", ["AUC, 5-fold"], list(auc), [[f"{v:.3f}"] for v in auc.values()]
    )
    records = [{"boundary": name, "auc": value} for name, value in auc.items()]
    blocks: list[Block] = [Picture("magic-pairs", caption, figure), Sheet("magic-pairs", table, records)]
    return Page("magic-pairs", PAIRS_ITEM.title, [claim], blocks)


PAIRS_ITEM = Item("magic-pairs", "MAGIC: scatterplot matrix of four features", pairs_pieces, pairs_page, magic=True)
