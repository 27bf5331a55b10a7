"""The simulations of Tables I and II: their pieces, the scores, and the tables and figure that both pages show."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.core.arrays import Array
from marmix.datasets import make_mar_mixture
from marmix.estimators import MARGaussianMixture
from marmix.inference.tables import Table
from marmix.plotting.drawing import canvas
from marmix.study import methods
from marmix.study.drawing import differences
from marmix.study.methods import (
    BAYES,
    ECM_AO,
    ECM_LOGIT,
    EVERY_LABEL,
    LOGISTIC,
    LOGISTIC_CV,
    PAPER,
    REFERENCES,
    SWAPPED,
)
from marmix.study.metrics import METRICS, PUBLISHED, SMALLEST, published_scores, roc, scores
from marmix.study.pages import Picture, Sheet
from marmix.study.paper import CUTS, FRESH, LEFT, MAX_MARGIN, RATE, ROWS, SHAPE, SLOPE
from marmix.study.pieces import Piece, Plan, Values
from marmix.study.summaries import Mean, difference, mean_of, percent

DISTRIBUTIONS = ("gaussian", "gamma", "beta", "laplace")
COMPARED = (
    EVERY_LABEL,
    LOGISTIC,
    LOGISTIC_CV,
    methods.LDA,
    methods.QDA,
    methods.SELF_TRAINING,
    methods.IGNORED,
    ECM_AO,
    ECM_LOGIT,
    methods.MAR_TIED,
    methods.MAR_LOGISTIC,
    methods.AVERAGE,
)
APART = 0.01  # difference in log-likelihood beyond which two fits are at different maxima
ON_TRAINING_ROWS = (ECM_AO, ECM_LOGIT, LOGISTIC)
WITH_ROC = (BAYES, ECM_AO, ECM_LOGIT, LOGISTIC, LOGISTIC_CV, methods.MAR_LOGISTIC)


def pieces(plan: Plan, distributions: Sequence[str]) -> list[Piece]:
    """All replicates of these distributions, truncated and not."""
    return [
        Piece(_key(name, cut, i), replicate, {"distribution": name, "truncated": cut})
        for i in range(plan.replicates("comparison"))
        for name in distributions
        for cut in CUTS
    ]


def _key(distribution: str, truncated: bool, i: int) -> str:
    return f"comparison/{distribution}/{'truncated' if truncated else 'untruncated'}/{i}"


def draw(
    seeds: NDArray[np.int64], distribution: str, truncated: bool, rows: int, rate: float, shape: float
) -> tuple[Any, Any]:
    """A sample with labels hidden by the paper's mechanism, and fresh rows from the same distribution.

    The same two seeds give the same rows at every rate; a higher rate hides the same labels and more.
    """
    common: dict[str, Any] = {"distribution": distribution, "max_margin": MAX_MARGIN if truncated else None}
    hiding: dict[str, Any] = {"link": "aranda-ordaz", "shape": shape, "slope": SLOPE, "rate": rate, "at_least": LEFT}
    train = make_mar_mixture(rows, random_state=int(seeds[0]), **hiding, **common)
    return train, make_mar_mixture(FRESH, rate=None, random_state=int(seeds[1]), **common)


def replicate(rng: np.random.Generator, distribution: str, truncated: bool) -> dict[str, Any]:
    """Scores of every method on fresh rows, and the paper's scores on the training rows, for one sample."""
    train, fresh = draw(rng.integers(2**31, size=2), distribution, truncated, ROWS, RATE, SHAPE)
    seed = int(rng.integers(2**31))
    estimators, failed, unfinished = methods.fitted(COMPARED, train.data, train.target, train.target_true, seed)
    positive = train.target_true == 0
    published = {
        name: published_scores(positive, estimators[name].predict_proba(train.data)[:, 0]) for name in ON_TRAINING_ROWS
    }
    published[SWAPPED] = published_scores(positive, estimators[LOGISTIC].predict_proba(train.data)[:, 1])
    rankings = {name: methods.ranking(estimators[name], fresh.data) for name in WITH_ROC if name != BAYES}
    rankings[BAYES] = fresh.posterior[:, 1]
    bayes = {BAYES: scores(fresh.target_true, fresh.posterior)}
    return {
        "scores": bayes | {n: methods.assessed(e, fresh.data, fresh.target_true) for n, e in estimators.items()},
        "roc": {name: roc(fresh.target_true == 0, -ranking) for name, ranking in rankings.items()},
        "published": published,
        "failed": failed,
        "unfinished": unfinished,
    }


def solver_pieces(plan: Plan, distributions: Sequence[str]) -> list[Piece]:
    """The paper's algorithm, and the solver used for all samples, on some of the truncated samples."""
    return [
        Piece(f"solvers/{name}/{i}", both_solvers, {"distribution": name}, _key(name, True, i))
        for i in range(plan.replicates("solvers"))
        for name in distributions
    ]


def both_solvers(rng: np.random.Generator, distribution: str) -> dict[str, dict[str, float]]:
    """Log-likelihood, and log-loss on fresh rows, of ECM-AO by ECM and by L-BFGS from the same k-means start."""
    train, fresh = draw(rng.integers(2**31, size=2), distribution, True, ROWS, RATE, SHAPE)
    seed = int(rng.integers(2**31))
    results = {}
    for solver in ("ecm", "lbfgs"):
        fit = MARGaussianMixture(**PAPER, init="kmeans", solver=solver, random_state=seed).fit(train.data, train.target)
        log_loss = methods.assessed(fit, fresh.data, fresh.target_true)["log_loss"]
        results[solver] = {"loglik": fit.loglik_, "log_loss": log_loss}
    return results


def solvers_compared(plan: Plan, values: Values, distributions: Sequence[str]) -> str:
    """How often the two solvers reach different maxima, in words."""
    fits = [values[f"solvers/{name}/{i}"] for name in distributions for i in range(plan.replicates("solvers"))]
    rise = np.array([fit["ecm"]["loglik"] - fit["lbfgs"]["loglik"] for fit in fits])
    loss = mean_of([fit["ecm"]["log_loss"] - fit["lbfgs"]["log_loss"] for fit in fits])
    return (
        "Our samples are fitted by L-BFGS from the k-means start. Both it and ECM were run on "
        f"{len(fits)} of them: ECM ended at a log-likelihood higher by more than {APART} in "
        f"{np.sum(rise > APART)}, lower in {np.sum(rise < -APART)}, and changed the LogLoss on fresh rows by "
        f"{loss.sentence()} on average."
    )


class ComparisonRuns:
    """All replicates of one distribution, truncated or not."""

    methods = (BAYES, *COMPARED)

    def __init__(self, plan: Plan, values: Values, distribution: str, truncated: bool):
        self.distribution, self.truncated = distribution, truncated
        self.values = [values[_key(distribution, truncated, i)] for i in range(plan.replicates("comparison"))]

    @property
    def name(self) -> str:
        """Name of the setting in tables."""
        return f"{self.distribution.capitalize()}, {CUTS[self.truncated]}"

    def of(self, method: str, metric: str, part: str = "scores") -> Array:
        """A score of every replicate; NaN if the method could not be fitted."""
        return np.array([np.nan if method in value["failed"] else value[part][method][metric] for value in self.values])

    def mean(self, method: str, metric: str, part: str = "scores") -> Mean:
        """Mean of a score."""
        return mean_of(self.of(method, metric, part))

    def versus(self, method: str, other: str, metric: str, part: str = "scores") -> Mean:
        """Paired difference of two methods."""
        return difference(self.of(method, metric, part), self.of(other, metric, part))

    def best(self) -> str:
        """The method with the smallest mean log-loss among those that see only what was left."""
        candidates = [m for m in self.methods if m not in REFERENCES]
        return min(candidates, key=lambda m: np.nan_to_num(self.mean(m, "log_loss").mean, nan=np.inf))

    def troubles(self) -> list[str]:
        """Notes on how often methods failed or did not converge."""
        return methods.troubles([v["failed"] for v in self.values], [v["unfinished"] for v in self.values])


def honest_sheet(setting: ComparisonRuns, stem: str) -> Sheet:
    """Scores of every method on fresh rows, with paired differences from cross-validated logistic regression."""
    rows, records = [], []
    for method in setting.methods:
        means = {metric: setting.mean(method, metric) for metric in METRICS}
        paired = {metric: setting.versus(method, LOGISTIC_CV, metric) for metric in METRICS}
        last = "" if method == LOGISTIC_CV else paired["log_loss"].sentence()
        rows.append([*(mean.text() for mean in means.values()), last])
        records += [
            {"method": method, "metric": metric}
            | means[metric]._asdict()
            | {f"difference_{name}": value for name, value in paired[metric]._asdict().items() if name != "n"}
            for metric in METRICS
        ]
    table = Table(
        f"{setting.name}: {ROWS} rows, {percent(RATE)} of the labels missing, scored on {FRESH:,} fresh rows",
        [*METRICS.values(), f"LogLoss minus that of '{LOGISTIC_CV}'"],
        list(setting.methods),
        rows,
        notes=[
            f"Means over {len(setting.values)} samples ± half the 95 % interval; differences are paired. "
            f"Probabilities count as at least {SMALLEST:g} in the LogLoss.",
            f"Smallest mean LogLoss of the methods that can be used in practice: {setting.best()}. '{BAYES}' and "
            f"'{EVERY_LABEL}' know what was hidden.",
            *setting.troubles(),
        ],
    )
    return Sheet(stem, table, records)


def published_sheet(
    stem: str, title: str, figures: dict[tuple[ComparisonRuns, str], dict[str, float]], metrics: Sequence[str]
) -> Sheet:
    """Published figures beside the mean and the spread over samples of the same settings."""
    rows: list[list[Any]] = []
    index: list[str] = []
    records: list[dict[str, Any]] = []
    for (setting, method), published in figures.items():
        ours = {metric: setting.of(method, metric, "published") for metric in metrics}
        spread = {metric: np.quantile(values, [0.025, 0.975]) for metric, values in ours.items()}
        name = f"{setting.distribution.capitalize()}, {method}"
        index += [f"{name}: published", f"{name}: ours, mean", f"{name}: ours, single samples"]
        rows.append([f"{published[metric]:.3f}" for metric in metrics])
        rows.append([f"{values.mean():.3f}" for values in ours.values()])
        rows.append([f"{low:.2f} to {high:.2f}" for low, high in spread.values()])
        records += [
            {"distribution": setting.distribution, "method": method, "metric": metric, "published": published[metric]}
            | {"ours": float(ours[metric].mean()), "low": float(spread[metric][0]), "high": float(spread[metric][1])}
            | {"samples": len(ours[metric])}
            for metric in metrics
        ]
    notes = [
        f"Ours: {records[0]['samples']} samples drawn and scored as the paper's scripts do, on the training rows; "
        "single samples: their 2.5 and 97.5 % points."
    ]
    return Sheet(stem, Table(title, [PUBLISHED[metric] for metric in metrics], index, rows, notes=notes), records)


def outside(sheet: Sheet) -> str:
    """How many published figures lie outside the spread of our samples; empty with fewer than 40 samples."""
    if sheet.records[0]["samples"] < 40:
        return ""
    apart = [r for r in sheet.records if not r["low"] <= r["published"] <= r["high"]]
    names = "; ".join(f"{r['distribution'].capitalize()} {r['method']} {PUBLISHED[r['metric']]}" for r in apart)
    return (
        f"{len(apart)} of {len(sheet.records)} published figures lie outside the central 95 % of our samples"
        + (f" ({names})" if apart else "")
        + f"; by chance one would expect {0.05 * len(sheet.records):.1f}."
    )


def corrected_sheet(
    stem: str, title: str, settings: Sequence[ComparisonRuns], shown: Iterable[str], metrics: Sequence[str]
) -> Sheet:
    """The paper's scores on training rows with the classes of logistic regression not swapped."""
    rows, index, records = [], [], []
    for setting in settings:
        for name in shown:
            means = {m: setting.mean(name, m, "published") for m in metrics}
            index.append(f"{setting.distribution.capitalize()}, {name}")
            rows.append([mean.text() for mean in means.values()])
            records += [
                {"distribution": setting.distribution, "method": name, "metric": m} | mean._asdict()
                for m, mean in means.items()
            ]
    notes = [
        f"Means over {len(settings[0].values)} samples ± half the 95 % interval. Still scored on the training rows."
    ]
    return Sheet(stem, Table(title, [PUBLISHED[m] for m in metrics], index, rows, notes=notes), records)


def differences_sheet(
    stem: str, title: str, settings: Sequence[ComparisonRuns], pairs: dict[str, tuple[str, str, str]]
) -> Sheet:
    """Paired differences on fresh rows behind the claims: settings by pairs (method, other, metric)."""
    means = {(s.name, column): s.versus(*pair) for s in settings for column, pair in pairs.items()}
    table = Table(
        title,
        list(pairs),
        [s.name for s in settings],
        [[means[s.name, column].sentence() for column in pairs] for s in settings],
        notes=[f"On fresh rows, paired, over {len(settings[0].values)} samples ± half the 95 % interval."],
    )
    records = [
        {"setting": name, "method": pairs[column][0], "minus": pairs[column][1], "metric": pairs[column][2]}
        | mean._asdict()
        for (name, column), mean in means.items()
    ]
    return Sheet(stem, table, records)


def difference_figure(settings: list[ComparisonRuns], stem: str) -> Picture:
    """Difference in log-loss between every method and cross-validated logistic regression."""
    names = [name for name in COMPARED if name != LOGISTIC_CV]
    figure, axes = canvas(3.5, 0.26 * len(names) + 1.5)
    groups = {s.name: [s.versus(name, LOGISTIC_CV, "log_loss") for name in names] for s in settings}
    differences(axes, names, groups)
    # a few large differences would squeeze all others
    symlog = max(abs(mean.mean) for means in groups.values() for mean in means) > 0.15
    if symlog:
        axes.set_xscale("symlog", linthresh=0.05, linscale=1.5)
        axes.set_xticks([-0.05, 0.0, 0.05, 0.5], ["-.05", "0", ".05", ".5"])
        axes.minorticks_off()
    figure.supxlabel(f"LogLoss minus that of '{LOGISTIC_CV}'\n(left is better)", fontsize=7.5)
    figure.legend(loc="outside upper center", ncols=1 if len(settings) > 2 else 2, columnspacing=1.0)
    caption = (
        f"LogLoss on fresh rows, paired difference from '{LOGISTIC_CV}' with 95 % intervals over "
        f"{len(settings[0].values)} samples. "
        + "; ".join(f"{s.name}: {s.best()} has the smallest" for s in settings)
        + f". '{EVERY_LABEL}' knows what was hidden."
        + " The scale is linear up to ±0.05 and logarithmic beyond." * symlog
    )
    return Picture(stem, caption, figure)
