"""The simulations of Tables I and II: pieces, the scores that come back, and the tables' three parts."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.datasets import make_mar_mixture
from marmix.inference.tables import Table
from marmix.study import methods
from marmix.study.blocks import Sheet
from marmix.study.methods import LOGISTIC_CV, REFERENCES
from marmix.study.metrics import METRICS, PUBLISHED, published_scores, roc, scores
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.summaries import Mean, difference, mean_of, percent

Array = NDArray[np.float64]

MAX_MARGIN = 0.6  # the paper keeps only rows whose true margin is at most this
ROWS, FRESH, RATE, SLOPE, SHAPE = 200, 5000, 0.7, -6.0, 2.0
LEFT = 3  # labels of each class that are left at least, so that every method can be fitted
COMPARED = (
    methods.EVERY_LABEL,
    methods.LOGISTIC,
    methods.LOGISTIC_CV,
    methods.LDA,
    methods.QDA,
    methods.SELF_TRAINING,
    methods.IGNORED,
    methods.ECM_AO,
    methods.ECM_LOGIT,
    methods.MAR_TIED,
    methods.MAR_LOGISTIC,
    methods.AVERAGE,
)
SWAPPED = "logistic, classes swapped"
ON_TRAINING_ROWS = (methods.ECM_AO, methods.ECM_LOGIT, methods.LOGISTIC)
WITH_ROC = (
    methods.BAYES,
    methods.ECM_AO,
    methods.ECM_LOGIT,
    methods.LOGISTIC,
    methods.LOGISTIC_CV,
    methods.MAR_LOGISTIC,
)


def pieces(plan: Plan, distributions: Sequence[str]) -> list[Piece]:
    """Every replicate of these distributions, truncated and not."""
    return [
        Piece(key_of(name, truncated, i), replicate, {"distribution": name, "truncated": truncated})
        for i in range(plan.replicates("comparison"))
        for name in distributions
        for truncated in (True, False)
    ]


def key_of(distribution: str, truncated: bool, i: int) -> str:
    """The name of a replicate."""
    return f"comparison/{distribution}/{'truncated' if truncated else 'untruncated'}/{i}"


def draw(
    seeds: NDArray[np.int64], distribution: str, truncated: bool, rows: int, rate: float, shape: float
) -> tuple[Any, Any]:
    """A sample whose labels are hidden by the paper's mechanism, and fresh rows from the same distribution.

    The same two seeds give the same rows at every rate, and at a higher rate the same labels are missing and more.
    """
    common: dict[str, Any] = {"distribution": distribution, "max_margin": MAX_MARGIN if truncated else None}
    train = make_mar_mixture(
        rows,
        link="aranda-ordaz",
        shape=shape,
        slope=SLOPE,
        rate=rate,
        at_least=LEFT,
        random_state=int(seeds[0]),
        **common,
    )
    return train, make_mar_mixture(FRESH, rate=None, random_state=int(seeds[1]), **common)


def replicate(rng: np.random.Generator, distribution: str, truncated: bool) -> dict[str, Any]:
    """Every method on one sample: scores on fresh rows, and the paper's scores on the training rows."""
    train, fresh = draw(rng.integers(2**31, size=2), distribution, truncated, ROWS, RATE, SHAPE)
    seed = int(rng.integers(2**31))
    estimators, failed, unfinished = methods.fitted(COMPARED, train.data, train.target, train.target_true, seed)
    probabilities = {methods.BAYES: fresh.posterior}
    probabilities |= {name: estimator.predict_proba(fresh.data) for name, estimator in estimators.items()}
    first, seen = fresh.target_true == 0, train.target_true == 0
    published = {
        name: published_scores(seen, estimators[name].predict_proba(train.data)[:, 0]) for name in ON_TRAINING_ROWS
    }
    published[SWAPPED] = published_scores(seen, estimators[methods.LOGISTIC].predict_proba(train.data)[:, 1])
    return {
        "scores": {name: scores(fresh.target_true, p) for name, p in probabilities.items()},
        "roc": {name: roc(first, probabilities[name][:, 0]) for name in WITH_ROC},
        "published": published,
        "failed": failed,
        "unfinished": unfinished,
        "rate": float(np.mean(train.target < 0)),
    }


class Setting:
    """All replicates of one distribution, truncated or not."""

    def __init__(self, plan: Plan, found: Found, distribution: str, truncated: bool):
        self.distribution, self.truncated = distribution, truncated
        self.values = [found[key_of(distribution, truncated, i)] for i in range(plan.replicates("comparison"))]

    @property
    def name(self) -> str:
        """As it is called in tables."""
        return f"{self.distribution.capitalize()}, {'truncated' if self.truncated else 'not truncated'}"

    @cached_property
    def methods(self) -> list[str]:
        """References first, then in the order of `COMPARED`."""
        return [methods.BAYES, *COMPARED]

    def of(self, method: str, metric: str, part: str = "scores") -> Array:
        """A score of every replicate; NaN where the method could not be fitted."""
        return np.array([value[part].get(method, {}).get(metric, np.nan) for value in self.values])

    def mean(self, method: str, metric: str, part: str = "scores") -> Mean:
        """Its mean."""
        return mean_of(self.of(method, metric, part))

    def versus(self, method: str, other: str, metric: str) -> Mean:
        """The paired difference of two methods on fresh rows."""
        return difference(self.of(method, metric), self.of(other, metric))

    def best(self) -> str:
        """The fair method with the smallest mean log-loss."""
        return min(
            (m for m in self.methods if m not in REFERENCES),
            key=lambda m: np.nan_to_num(self.mean(m, "log_loss").mean, nan=np.inf),
        )

    def troubles(self) -> list[str]:
        """How often methods failed or did not converge, in words."""
        out = []
        for what, words in (("failed", "could not be fitted"), ("unfinished", "did not converge")):
            for method in self.methods:
                count = sum(method in value[what] for value in self.values)
                if count:
                    out.append(f"{method} {words} in {count} of {len(self.values)} samples.")
        return out


def honest_sheet(setting: Setting, stem: str) -> Sheet:
    """Scores of every method on fresh rows, with paired differences to cross-validated logistic regression."""
    best = setting.best()
    rows, records = [], []
    for method in setting.methods:
        means = {metric: setting.mean(method, metric) for metric in METRICS}
        versus = setting.versus(method, LOGISTIC_CV, "log_loss")
        rows.append(
            [*(mean.text() for mean in means.values()), "" if method == LOGISTIC_CV else versus.text(signed=True)]
        )
        for metric, mean in means.items():
            paired = setting.versus(method, LOGISTIC_CV, metric)
            records.append(
                {"setting": setting.name, "method": method, "metric": metric, "replicates": mean.n, "mean": mean.mean}
                | {"low": mean.low, "high": mean.high, "difference": paired.mean}
                | {"difference_low": paired.low, "difference_high": paired.high}
            )
    table = Table(
        f"{setting.name}: {ROWS} rows, {percent(RATE)} of the labels missing, scored on {FRESH:,} fresh rows",
        [*(heading for heading, _ in METRICS.values()), f"LogLoss, difference to '{LOGISTIC_CV}'"],
        setting.methods,
        rows,
        notes=[
            f"Means over {len(setting.values)} samples ± half the 95 % interval; differences are paired.",
            f"Smallest mean LogLoss of the methods that one could really use: {best}. {REFERENCES[0]} and "
            f"{REFERENCES[1]} know what was hidden.",
            *setting.troubles(),
        ],
    )
    return Sheet(stem, table, records)


def published_sheet(
    stem: str, title: str, figures: dict[tuple[Setting, str], dict[str, float]], metrics: Sequence[str]
) -> Sheet:
    """Published figures beside the mean and the spread of single samples under the same settings."""
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


def outside(sheet: Sheet) -> list[str]:
    """Published figures that lie outside the spread of our samples."""
    return [
        f"{r['distribution'].capitalize()} {r['method']} {PUBLISHED[r['metric']]} ({r['published']:.3f}, ours "
        f"{r['low']:.3f} to {r['high']:.3f})"
        for r in sheet.records
        if not r["low"] <= r["published"] <= r["high"]
    ]
