"""Measures of uncertainty compared: with two classes, where the paper replaces the entropy by the squared margin, and with four.

Labels are hidden by a logit mechanism in one measure at a time, and every measure is fitted to them. The slopes are of about
equal strength.
"""

import time
from collections.abc import Iterable
from itertools import cycle
from typing import Any

import numpy as np

from marmix.core.arrays import Array
from marmix.core.measures import MEASURES, posterior
from marmix.datasets import make_mar_mixture
from marmix.estimators import MARGaussianMixture
from marmix.inference.tables import Table, listed
from marmix.plotting.drawing import BLACK, GREY, canvas
from marmix.study.drawing import STYLES, error_lengths
from marmix.study.metrics import scores
from marmix.study.pages import Block, Claim, Item, Page, Paragraph, Picture, Sheet
from marmix.study.paper import FRESH, MAX_MARGIN, RATE
from marmix.study.pieces import Piece, Plan, Values
from marmix.study.summaries import Mean, clear, difference, mean_of, percent, spread, tally, verdict, within

ALL_LABELS, IGNORED = "every label", "mechanism ignored"
KINDS: dict[str, tuple[int, dict[str, Any]]] = {  # rows, and the classes
    "measures": (200, {}),
    "measures-truncated": (200, {"max_margin": MAX_MARGIN}),
    "four-classes": (400, {"n_classes": 4, "n_features": 5, "separation": 2.5}),
}


def compared() -> list[str]:
    """Names of the measures that hide labels and are fitted."""
    return [name for name, measure in MEASURES.items() if measure.studied]


def fits() -> list[str]:
    """Names of the fits of a replicate: with every label, without a mechanism, and with each measure."""
    return [ALL_LABELS, IGNORED, *compared()]


def pieces_for(plan: Plan, kind: str) -> list[Piece]:
    """Every replicate of a kind; its rows are the same whichever measure hides the labels."""
    return [
        Piece(_key(kind, hidden_by, i), replicate, {"kind": kind, "hidden_by": hidden_by}, f"{kind}/{i}")
        for i in range(plan.replicates(kind))
        for hidden_by in compared()
    ]


def _key(kind: str, hidden_by: str, i: int) -> str:
    return f"{kind}/{hidden_by}/{i}"


def replicate(rng: np.random.Generator, kind: str, hidden_by: str) -> dict[str, Any]:
    """Log-likelihood and scores on fresh rows of tied mixtures with each measure, with none, and with every label."""
    train_seed, fresh_seed = (int(v) for v in rng.integers(2**31, size=2))
    rows, classes = KINDS[kind]
    n_features = classes.get("n_features", 2)
    train = make_mar_mixture(
        rows, measure=hidden_by, rate=RATE, at_least=n_features + 1, random_state=train_seed, **classes
    )
    fresh = make_mar_mixture(FRESH, rate=None, random_state=fresh_seed, **classes)
    results = {}
    for name in fits():
        options: dict[str, Any] = {"measure": name, "link": "logit"} if name in MEASURES else {"link": None}
        labels = train.target_true if name == ALL_LABELS else train.target
        fit = MARGaussianMixture(covariance_type="tied", n_init=1, **options).fit(train.data, labels)
        results[name] = {"loglik": fit.loglik_, "converged": fit.converged_}
        results[name] |= scores(fresh.target_true, fit.predict_proba(fresh.data))
    return results


class MeasureRuns:
    """The replicates of one kind."""

    def __init__(self, plan: Plan, values: Values, kind: str):
        self.kind, self.n = kind, plan.replicates(kind)
        self._values = values

    def of(self, hidden_by: str, fitted: str, metric: str = "log_loss") -> Array:
        """A score of every replicate."""
        return np.array([self._values[_key(self.kind, hidden_by, i)][fitted][metric] for i in range(self.n)])

    def versus(self, hidden_by: str, fitted: str, other: str, metric: str = "log_loss") -> Mean:
        """Paired difference of two fits."""
        return difference(self.of(hidden_by, fitted, metric), self.of(hidden_by, other, metric))

    def sheets(self, title: str) -> list[Sheet]:
        """Log-loss on fresh rows, and loss in log-likelihood, of every measure under every mechanism."""
        names = compared()
        unconverged = {
            name: sum(int(np.sum(~self.of(h, name, "converged").astype(bool))) for h in names) for name in fits()
        }
        notes = [f"Means over {self.n} samples ± half the 95 % interval; differences are paired."]
        notes += [
            f"{name} did not converge in {count} of {self.n * len(names)} fits."
            for name, count in unconverged.items()
            if count
        ]
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
        """Gain of every measure over ignoring the mechanism, by the measure that hid the labels."""
        figure, ax = canvas(3.5, 3.0)
        names = compared()
        styles = [*zip(names, cycle(STYLES), strict=False), (ALL_LABELS, (BLACK, "x"))]
        for j, (name, (colour, marker)) in enumerate(styles):
            means = [self.versus(h, name, IGNORED) for h in names]
            x = np.arange(len(names)) + 0.15 * (j - len(names) / 2)
            y, errors = [m.mean for m in means], error_lengths(means)
            ax.errorbar(x, y, yerr=errors, fmt=marker, color=colour, elinewidth=0.9, markersize=3.5, label=name)
        ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
        ax.set_xticks(range(len(names)), [f"hidden by\n{name}" for name in names])
        ax.set_ylabel("LogLoss minus that of\nignoring the mechanism")
        figure.legend(loc="outside upper center", ncols=3, columnspacing=0.8, handletextpad=0.1)
        caption = (
            "LogLoss on fresh rows of fits with each measure, and with every label, minus that of the fit that "
            f"ignores the mechanism (below zero: better), with 95 % intervals over {self.n} samples."
        )
        return Picture(self.kind, caption, figure)


# Two classes: squared margin or entropy?

TIMES, TIMED_ROWS, ROUNDS = "measures/seconds", 20_000, 15
TWO_CLASS_KINDS = {"measures": "not truncated", "measures-truncated": "truncated"}
RIVALS = ("entropy", "log-entropy")
MARGIN = 0.005  # LogLoss that 'as good' may lose: the intervals must end below it
HARDLY = 2.0  # of log-likelihood, in samples of this size
WORTH = 0.8  # of the time of a fit: what 'significant computational savings' is taken to mean
Seconds = dict[str, dict[str, list[float]]]  # of fits and of measures, by name, round by round


def timings(rng: np.random.Generator) -> Seconds:
    """Seconds of a fit, and of the measure with its gradient alone; the measures take turns in every round."""
    X, y = make_mar_mixture(TIMED_ROWS, rate=RATE, random_state=int(rng.integers(2**31)), return_X_y=True)
    p = posterior(np.ascontiguousarray(rng.normal(scale=3.0, size=(2, 16_384))))
    seconds: Seconds = {what: {name: [] for name in compared()} for what in ("fit", "measure")}
    for _ in range(ROUNDS):
        for name in compared():
            start = time.perf_counter()
            MARGaussianMixture(covariance_type="full", measure=name, link="logit", n_init=1).fit(X, y)
            seconds["fit"][name].append(time.perf_counter() - start)
            measure = MEASURES[name]
            start = time.perf_counter()
            for _ in range(50):
                measure(p)
            seconds["measure"][name].append((time.perf_counter() - start) / 50 / p.tau.shape[1])
    return seconds


def two_class_pieces(plan: Plan) -> list[Piece]:
    """Replicates, truncated or not, and the timings."""
    replicates = [piece for kind in TWO_CLASS_KINDS for piece in pieces_for(plan, kind)]
    return [*replicates, Piece(TIMES, timings, alone=True)]


def two_class_page(plan: Plan, values: Values) -> Page:
    """The squared margin against the entropy: likelihood, log-loss and time."""
    runs = {kind: MeasureRuns(plan, values, kind) for kind in TWO_CLASS_KINDS}
    blocks: list[Block] = [
        Paragraph(
            f"Two Gaussian classes, {KINDS['measures'][0]} rows, {percent(RATE)} of the labels hidden by a logit "
            "mechanism in each measure, fitted with each (tied covariance, logit link); with every margin, and "
            "truncated at 0.6 as in the paper."
        )
    ]
    for kind, words in TWO_CLASS_KINDS.items():
        blocks += [runs[kind].picture(), *runs[kind].sheets(f"Two classes, {words}")]
    seconds: Seconds = values[TIMES]
    blocks.append(_times(seconds))
    claims = [_as_good(runs), _likelihood(runs), _cheaper(seconds)]
    return Page("measures", TWO_CLASSES.title, claims, blocks)


def _as_good(runs: dict[str, MeasureRuns]) -> Claim:
    losses = {
        (kind, hidden_by, rival): runs[kind].versus(hidden_by, "margin", rival)
        for kind in runs
        for hidden_by in ("margin", *RIVALS)
        for rival in RIVALS
    }
    (kind, hidden_by, rival), worst = max(losses.items(), key=lambda item: item[1].mean)
    return Claim(
        "The squared margin is as good as the entropy: negligible loss in performance.",
        within(list(losses.values()), MARGIN),
        f"LogLoss on fresh rows against entropy and log-entropy: {tally(list(losses.values()), -1)} comparisons; at "
        f"worst {worst.sentence(4)} ({TWO_CLASS_KINDS[kind]}, against {rival}, labels hidden by {hidden_by}). "
        f"'As good' is taken as: every interval ends below {MARGIN}.",
    )


def _likelihood(runs: dict[str, MeasureRuns]) -> Claim:
    pairs = [(kind, rival) for kind in runs for rival in RIVALS]
    by_margin = [runs[kind].versus("margin", "margin", rival, "loglik") for kind, rival in pairs]
    by_rival = [runs[kind].versus(rival, "margin", rival, "loglik") for kind, rival in pairs]

    def words(differences: list[Mean]) -> str:
        return ", ".join(
            f"{d.sentence(1)} ({rival}, {TWO_CLASS_KINDS[kind]})"
            for (kind, rival), d in zip(pairs, differences, strict=True)
        )

    return Claim(
        "Beyond the paper: does the likelihood tell the squared margin from the entropy?",
        "hardly" if all(abs(d.mean) + d.half < HARDLY for d in (*by_margin, *by_rival)) else "in places",
        "Log-likelihood of the margin minus that of the other, where the margin hid the labels: "
        f"{words(by_margin)}; where the other did: {words(by_rival)}. "
        f"'Hardly' is taken as less than {HARDLY:g} everywhere.",
    )


def _cheaper(seconds: Seconds) -> Claim:
    def ratios(times: dict[str, list[float]]) -> dict[str, Mean]:
        """Time with the margin over that with each rival, round by round."""
        return {rival: mean_of(np.array(times["margin"]) / np.array(times[rival])) for rival in RIVALS}

    fit, measure = ratios(seconds["fit"]), ratios(seconds["measure"])
    return Claim(
        "The squared margin brings significant computational savings.",
        within(list(fit.values()), WORTH),
        "A whole fit takes "
        + " and ".join(f"{d.text(2)} of the time with the {rival}" for rival, d in fit.items())
        + ", the measure and its gradient alone "
        + " and ".join(d.text(2) for d in measure.values())
        + f". 'Significant' is taken as below {WORTH} for the fit.",
        f"Means of {ROUNDS} ratios of interleaved runs on {TIMED_ROWS:,} rows, with no other piece of the study running. Timings "
        "vary from run to run.",
    )


def _times(seconds: Seconds) -> Sheet:
    medians = {name: [float(np.median(seconds[what][name])) for what in ("fit", "measure")] for name in compared()}
    table = Table(
        f"Time, medians of {ROUNDS} rounds",
        [f"whole fit, {TIMED_ROWS:,} rows (ms)", "measure and gradient (ns a row)"],
        list(medians),
        [[f"{1e3 * fit:.1f}", f"{1e9 * measure:.1f}"] for fit, measure in medians.values()],
        notes=["Timings are the only numbers of the study that differ from run to run."],
    )
    records = [
        {"measure": name, "fit_seconds": fit, "measure_seconds_a_row": measure}
        for name, (fit, measure) in medians.items()
    ]
    return Sheet("measures-seconds", table, records)


TWO_CLASSES = Item(
    "measures", "Squared margin or entropy? Likelihood, LogLoss and time", two_class_pieces, two_class_page
)

# Four classes, beyond the paper.


def four_class_page(plan: Plan, values: Values) -> Page:
    """The measures with more than two classes."""
    runs = MeasureRuns(plan, values, "four-classes")
    rows, classes = KINDS["four-classes"]
    blocks: list[Block] = [
        Paragraph(
            f"Four Gaussian classes in five dimensions ({classes['separation']} apart), {rows} rows, "
            f"{percent(RATE)} of the labels hidden by each measure in turn, fitted with each (tied covariance, "
            "logit link)."
        ),
        runs.picture(),
        *runs.sheets("Four classes"),
    ]
    return Page("four-classes", FOUR_CLASSES.title, _four_class_claims(runs), blocks)


def _four_class_claims(runs: MeasureRuns) -> list[Claim]:
    names = compared()
    losses = {name: np.mean([runs.of(h, name) for h in names], axis=0) for name in names}
    best, *others = sorted(names, key=lambda name: float(np.mean(losses[name])))
    behind = {name: difference(losses[name], losses[best]) for name in others}
    near = [name for name, sign in zip(behind, clear(list(behind.values())), strict=True) if sign == 0]
    full = [
        runs.versus(h, name, "margin")
        for name in names
        if not MEASURES[name].kinked
        for h in names
        if h not in (name, "margin")
    ]
    gains = [runs.versus(h, name, IGNORED) for h in names for name in names]
    return [
        Claim(
            "Open in the paper: which uncertainty for more than two classes?",
            listed([best, *near], "or"),
            f"Mean LogLoss over the {len(names)} mechanisms is smallest with {best}; the others minus it: "
            + ", ".join(f"{name} {d.sentence(4)}" for name, d in behind.items())
            + ".",
        ),
        Claim(
            "Measures that use all posteriors beat the margin of the two largest.",
            verdict(full, -1),
            f"LogLoss minus that with the margin, where neither hid the labels: {spread(full, 4)}; {tally(full, -1)} "
            "comparisons.",
        ),
        Claim(
            "Modelling the mechanism pays even with another measure than the true one.",
            verdict(gains, -1),
            f"LogLoss minus that of ignoring it: {spread(gains)}; {tally(gains, -1)} combinations of the measure that "
            "hid and the measure fitted.",
        ),
    ]


FOUR_CLASSES = Item(
    "four-classes",
    "Beyond the paper: four classes, which uncertainty?",
    lambda plan: pieces_for(plan, "four-classes"),
    four_class_page,
)
