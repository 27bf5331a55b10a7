"""Which measure of uncertainty? The pieces of the studies with two and with four classes, and their tables.

Labels are hidden by a logit mechanism in one measure and every measure is fitted, so that each plays at home once. The slopes
are of about equal strength.
"""

import time
from collections.abc import Iterable
from itertools import cycle
from typing import Any

import numpy as np

from marmix.arrays import Array
from marmix.datasets import make_mar_mixture
from marmix.displays.drawing import BLACK, GREY, canvas
from marmix.estimators import MARGaussianMixture
from marmix.inference.tables import Table
from marmix.mechanism.measures import MEASURES, posterior
from marmix.study.blocks import Picture, Sheet
from marmix.study.drawing import STYLES
from marmix.study.metrics import scores
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.settings import FRESH, MAX_MARGIN, RATE
from marmix.study.summaries import Mean, difference, mean_of

ALL_LABELS, IGNORED = "every label", "mechanism ignored"
TIMED_ROWS, ROUNDS = 20_000, 15
KINDS: dict[str, tuple[int, dict[str, Any]]] = {  # rows, and the classes
    "measures": (200, {}),
    "measures-truncated": (200, {"max_margin": MAX_MARGIN}),
    "four-classes": (400, {"n_classes": 4, "n_features": 5, "separation": 2.5}),
}


def compared() -> list[str]:
    """The measures that hide labels and are fitted, by name."""
    return [name for name, measure in MEASURES.items() if measure.studied]


def fits() -> list[str]:
    """The fits of a replicate: with every label, without a mechanism, and with every measure."""
    return [ALL_LABELS, IGNORED, *compared()]


def pieces_for(plan: Plan, kind: str) -> list[Piece]:
    """Every replicate, with labels hidden by every measure; the same rows for each."""
    return [
        Piece(_key(kind, hidden_by, i), replicate, {"kind": kind, "hidden_by": hidden_by}, f"{kind}/{i}")
        for i in range(plan.replicates(kind))
        for hidden_by in compared()
    ]


def _key(kind: str, hidden_by: str, i: int) -> str:
    return f"{kind}/{hidden_by}/{i}"


def replicate(rng: np.random.Generator, kind: str, hidden_by: str) -> dict[str, Any]:
    """Log-likelihood and log-loss on fresh rows of a tied mixture with every measure, with none, and with every label."""
    train_seed, fresh_seed = (int(v) for v in rng.integers(2**31, size=2))
    rows, classes = KINDS[kind]
    n_features = classes.get("n_features", 2)
    train = make_mar_mixture(
        rows, uncertainty=hidden_by, rate=RATE, at_least=n_features + 1, random_state=train_seed, **classes
    )
    fresh = make_mar_mixture(FRESH, rate=None, random_state=fresh_seed, **classes)
    out = {}
    for name in fits():
        options: dict[str, Any] = {"uncertainty": name, "link": "logit"} if name in MEASURES else {"link": None}
        labels = train.target_true if name == ALL_LABELS else train.target
        fit = MARGaussianMixture(covariance_type="tied", **options).fit(train.data, labels)
        out[name] = {"loglik": fit.loglik_, "converged": fit.converged_}
        out[name] |= scores(fresh.target_true, fit.predict_proba(fresh.data))
    return out


def timings(rng: np.random.Generator) -> dict[str, dict[str, list[float]]]:
    """Seconds of a whole fit, and of the measure with its gradient alone, interleaved, round by round."""
    X, y = make_mar_mixture(TIMED_ROWS, rate=RATE, random_state=int(rng.integers(2**31)), return_X_y=True)
    scored = posterior(np.ascontiguousarray(rng.normal(scale=3.0, size=(2, 16_384))))
    whole: dict[str, list[float]] = {name: [] for name in compared()}
    alone: dict[str, list[float]] = {name: [] for name in compared()}
    for _ in range(ROUNDS):
        for name in compared():
            begin = time.perf_counter()
            MARGaussianMixture(covariance_type="full", uncertainty=name, link="logit").fit(X, y)
            whole[name].append(time.perf_counter() - begin)
            measure = MEASURES[name]
            begin = time.perf_counter()
            for _ in range(50):
                measure(scored)
            alone[name].append((time.perf_counter() - begin) / 50 / scored.tau.shape[1])
    return {"fit": whole, "measure": alone}


class MeasureRuns:
    """The replicates of one kind."""

    def __init__(self, plan: Plan, found: Found, kind: str):
        self.kind, self.n = kind, plan.replicates(kind)
        self._found = found

    def of(self, hidden_by: str, fitted: str, metric: str = "log_loss") -> Array:
        """A score of every replicate."""
        return np.array([self._found[_key(self.kind, hidden_by, i)][fitted][metric] for i in range(self.n)])

    def versus(self, hidden_by: str, fitted: str, other: str, metric: str = "log_loss") -> Mean:
        """The paired difference of two fits."""
        return difference(self.of(hidden_by, fitted, metric), self.of(hidden_by, other, metric))

    def sheets(self, title: str) -> list[Sheet]:
        """Log-loss on fresh rows, and log-likelihood lost, of every measure under every mechanism."""
        notes = [f"Means over {self.n} samples ± half the 95 % interval; differences are paired.", *self._unfinished()]
        names = compared()
        index = [f"hidden by {name}" for name in names]
        losses = Table(
            f"{title}: LogLoss on {FRESH:,} fresh rows",
            [*(f"fitted with {name}" for name in names), IGNORED, ALL_LABELS],
            index,
            [[mean_of(self.of(h, name)).text() for name in (*names, IGNORED, ALL_LABELS)] for h in names],
            notes=notes,
        )
        likelihoods = Table(
            f"{title}: log-likelihood minus that with the measure that hid the labels",
            [f"fitted with {name}" for name in names],
            index,
            [["" if h == name else self.versus(h, name, h, "loglik").sentence(2) for name in names] for h in names],
            notes=notes[:1],
        )
        return [
            Sheet(self.kind, losses, self._records("log_loss", fits())),
            Sheet(f"{self.kind}-loglik", likelihoods, self._records("loglik", names)),
        ]

    def _records(self, metric: str, names: Iterable[str]) -> list[dict[str, Any]]:
        return [
            {"hidden_by": h, "fitted": name, "metric": metric} | mean_of(self.of(h, name, metric))._asdict()
            for h in compared()
            for name in names
        ]

    def picture(self) -> Picture:
        """What every measure gains over ignoring the mechanism, by the measure that hid the labels."""
        figure, ax = canvas(3.5, 3.0)
        names = compared()
        looks = [*zip(names, cycle(STYLES), strict=False), (ALL_LABELS, (BLACK, "x"))]
        for j, (name, (colour, marker)) in enumerate(looks):
            means = [self.versus(h, name, IGNORED) for h in names]
            x = np.arange(len(names)) + 0.15 * (j - len(names) / 2)
            errors = [[m.mean - m.low for m in means], [m.high - m.mean for m in means]]
            ax.errorbar(
                x,
                [m.mean for m in means],
                yerr=errors,
                fmt=marker,
                color=colour,
                elinewidth=0.9,
                markersize=3.5,
                label=name,
            )
        ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
        ax.set_xticks(range(len(names)), [f"hidden by\n{name}" for name in names])
        ax.set_ylabel("LogLoss minus that of\nignoring the mechanism")
        figure.legend(loc="outside upper center", ncols=3, columnspacing=0.8, handletextpad=0.1)
        caption = (
            "LogLoss on fresh rows of fits with each measure, and with every label, minus that of the fit that "
            f"ignores the mechanism (below zero: better), with 95 % intervals over {self.n} samples."
        )
        return Picture(self.kind, caption, figure)

    def _unfinished(self) -> list[str]:
        hiding = compared()
        counts = {
            name: sum(int(np.sum(~self.of(h, name, "converged").astype(bool))) for h in hiding) for name in fits()
        }
        return [
            f"{name} did not converge in {count} of {self.n * len(hiding)} fits."
            for name, count in counts.items()
            if count
        ]
