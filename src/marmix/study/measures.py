"""Which measure of uncertainty? Two classes, where the paper replaces the entropy by the squared margin, and four.

Labels are hidden by a logit mechanism in one measure and every measure is fitted, so that each plays at home once. The slopes
are of about equal strength.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.classifiers import MARGaussianMixture
from marmix.datasets import make_mar_mixture
from marmix.inference.tables import Table, listed
from marmix.study.blocks import Block, Claim, Item, Page, Paragraph, Picture, Sheet
from marmix.study.comparison import MAX_MARGIN
from marmix.study.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, canvas
from marmix.study.metrics import scores
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.summaries import FAILS, HOLDS, PARTLY, UNDECIDED, Mean, difference, mean_of, percent, verdict
from marmix.uncertainty import measure_function, posterior

Array = NDArray[np.float64]

SLOPES = {"margin": -6.0, "entropy": 4.0, "log-entropy": 2.0, "gini": 8.0}
ALL_LABELS, IGNORED = "every label", "mechanism ignored"
FITS = (ALL_LABELS, IGNORED, *SLOPES)
FRESH, RATE = 5000, 0.7
TIMED_ROWS, ROUNDS = 20_000, 5
MARGIN = 0.005  # LogLoss that 'as good' may lose: the intervals must end below it
WORTH = 0.8  # of the time of a fit: what 'significant computational savings' is taken to mean
KINDS: dict[str, tuple[int, dict[str, Any]]] = {  # rows, and the classes
    "measures": (200, {}),
    "measures-truncated": (200, {"max_margin": MAX_MARGIN}),
    "four-classes": (400, {"n_classes": 4, "n_features": 5, "separation": 2.5}),
}
STYLES = {
    "margin": (BLUE, "o"),
    "entropy": (ORANGE, "s"),
    "log-entropy": (GREEN, "^"),
    "gini": (PINK, "D"),
    ALL_LABELS: (GREY, "x"),
    IGNORED: (BLACK, "+"),
}


def pieces_for(plan: Plan, kind: str) -> list[Piece]:
    """Every replicate, with labels hidden by every measure; the same rows for each."""
    return [
        Piece(_key(kind, hidden_by, i), replicate, {"kind": kind, "hidden_by": hidden_by}, f"{kind}/{i}")
        for i in range(plan.replicates(kind))
        for hidden_by in SLOPES
    ]


def _key(kind: str, hidden_by: str, i: int) -> str:
    return f"{kind}/{hidden_by}/{i}"


def replicate(rng: np.random.Generator, kind: str, hidden_by: str) -> dict[str, Any]:
    """Log-likelihood and log-loss on fresh rows of a tied mixture with every measure, with none, and with every label."""
    train_seed, fresh_seed = (int(v) for v in rng.integers(2**31, size=2))
    rows, classes = KINDS[kind]
    n_features = classes.get("n_features", 2)
    slope = SLOPES[hidden_by]
    train = make_mar_mixture(
        rows, uncertainty=hidden_by, slope=slope, rate=RATE, at_least=n_features + 1, random_state=train_seed, **classes
    )
    fresh = make_mar_mixture(FRESH, rate=None, random_state=fresh_seed, **classes)
    out = {}
    for name in FITS:
        options: dict[str, Any] = {"uncertainty": name, "link": "logit"} if name in SLOPES else {"link": None}
        labels = train.target_true if name == ALL_LABELS else train.target
        fit = MARGaussianMixture(covariance_type="tied", **options).fit(train.data, labels)
        out[name] = {"loglik": fit.loglik_, "converged": fit.converged_}
        out[name] |= scores(fresh.target_true, fit.predict_proba(fresh.data))
    return out


def timings(rng: np.random.Generator) -> dict[str, Any]:
    """Seconds of a whole fit, and of the measure with its gradient alone, interleaved."""
    X, y = make_mar_mixture(TIMED_ROWS, rate=RATE, random_state=0, return_X_y=True)
    scored = posterior(np.ascontiguousarray(rng.normal(scale=3.0, size=(2, 16_384))))
    fit_seconds: dict[str, list[float]] = {name: [] for name in SLOPES}
    measure_seconds: dict[str, list[float]] = {name: [] for name in SLOPES}
    for _ in range(ROUNDS):
        for name in SLOPES:
            begin = time.perf_counter()
            MARGaussianMixture(uncertainty=name, link="logit").fit(X, y)
            fit_seconds[name].append(time.perf_counter() - begin)
            measure = measure_function(name)
            begin = time.perf_counter()
            for _ in range(50):
                measure(scored)
            measure_seconds[name].append((time.perf_counter() - begin) / 50 / scored.tau.shape[1])
    return {
        "fit": {name: float(np.median(s)) for name, s in fit_seconds.items()},
        "measure": {name: float(np.median(s)) for name, s in measure_seconds.items()},
    }


class Measured:
    """The replicates of one kind."""

    def __init__(self, plan: Plan, found: Found, kind: str):
        self.kind, self.n = kind, plan.replicates(kind)
        self._found = found

    def of(self, hidden_by: str, fitted: str, metric: str = "log_loss") -> Array:
        """A score of every replicate."""
        return np.array([self._found[_key(self.kind, hidden_by, i)][fitted][metric] for i in range(self.n)])

    def recovered(self, hidden_by: str, fitted: str) -> Mean:
        """The share that a measure wins back of what ignoring the mechanism costs on average, against every label."""
        gap = float(np.mean(self.of(hidden_by, IGNORED) - self.of(hidden_by, ALL_LABELS)))
        gain = self.of(hidden_by, IGNORED) - self.of(hidden_by, fitted)
        return mean_of(gain / gap if gap > 0.0 else [])  # too few replicates to see that labels are worth something

    def sheet(self, title: str) -> Sheet:
        """Log-loss and log-likelihood of every measure under every mechanism."""
        rows, records = [], []
        for hidden_by in SLOPES:
            home = self.of(hidden_by, hidden_by, "loglik")
            rows.append(
                [mean_of(self.of(hidden_by, name)).text() for name in FITS]
                + [f"{np.mean(self.of(hidden_by, name, 'loglik') - home):+.1f}" for name in SLOPES]
            )
            for name in FITS:
                mean, share = mean_of(self.of(hidden_by, name)), self.recovered(hidden_by, name)
                loglik = mean_of(self.of(hidden_by, name, "loglik") - home) if name in SLOPES else mean_of([])
                records.append(
                    {"hidden_by": hidden_by, "fitted": name, "log_loss": mean.mean, "low": mean.low, "high": mean.high}
                    | {"recovered": share.mean, "recovered_low": share.low, "recovered_high": share.high}
                    | {"loglik_difference": loglik.mean, "replicates": self.n}
                )
        columns = [f"LogLoss, {name}" for name in FITS] + [f"loglik, {name} minus the true measure" for name in SLOPES]
        notes = [
            f"Means over {self.n} samples ± half the 95 % interval; LogLoss on {FRESH:,} fresh rows, log-likelihood "
            "of the training rows."
        ]
        return Sheet(
            self.kind, Table(title, columns, [f"hidden by {name}" for name in SLOPES], rows, notes=notes), records
        )

    def picture(self) -> Picture:
        """What every measure wins back, by the measure that hid the labels."""
        figure, ax = canvas(5.0, 2.8)
        for j, name in enumerate(SLOPES):
            colour, marker = STYLES[name]
            means = [self.recovered(hidden_by, name) for hidden_by in SLOPES]
            x = np.arange(len(SLOPES)) + 0.16 * (j - 1.5)
            low, high = ([100 * (m.mean - m.low) for m in means], [100 * (m.high - m.mean) for m in means])
            ax.errorbar(
                x,
                [100 * m.mean for m in means],
                yerr=[low, high],
                fmt=marker,
                color=colour,
                elinewidth=0.9,
                label=f"fitted with {name}",
            )
        ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
        ax.axhline(100, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
        ax.set_xticks(range(len(SLOPES)), [f"hidden by\n{name}" for name in SLOPES])
        ax.set_ylabel("lost LogLoss won back, %")
        figure.legend(loc="outside upper center", ncols=4, columnspacing=1.0, handletextpad=0.2)
        caption = (
            "How much of the LogLoss that missing labels cost each measure wins back (0 %: as if the mechanism "
            f"were ignored, dotted 100 %: as with every label), with 95 % intervals over {self.n} samples."
        )
        return Picture(self.kind, caption, figure)

    def unfinished(self) -> list[Block]:
        """A sentence on fits that did not converge, where there are any."""
        counts = {name: sum(int(np.sum(~self.of(h, name, "converged").astype(bool))) for h in SLOPES) for name in FITS}
        some = [f"{name} {count}" for name, count in counts.items() if count]
        return (
            [Paragraph(f"Fits that did not converge, of {self.n * len(SLOPES)} each: {', '.join(some)}.")]
            if some
            else []
        )


TIMES = "measures/seconds"
CUTS = {"measures": "not truncated", "measures-truncated": "truncated"}


def two_pieces(plan: Plan) -> list[Piece]:
    """Two classes, truncated or not, and the clock."""
    return [*(piece for kind in CUTS for piece in pieces_for(plan, kind)), Piece(TIMES, timings)]


def two_page(plan: Plan, found: Found) -> Page:
    """The squared margin against the entropy: as good, and cheaper."""
    runs = {kind: Measured(plan, found, kind) for kind in CUTS}
    blocks: list[Block] = [
        Paragraph(
            f"Two Gaussian classes, {KINDS['measures'][0]} rows, {percent(RATE)} of the labels hidden by a logit "
            "mechanism in each measure, fitted with each (tied covariance, logit link); with every margin, and "
            "truncated at 0.6 as in the paper."
        )
    ]
    for kind, words in CUTS.items():
        blocks += [
            runs[kind].picture(),
            runs[kind].sheet(f"Two classes, {words}: every measure under every mechanism"),
            *runs[kind].unfinished(),
        ]
    blocks.append(_times(found[TIMES]))
    return Page("measures", TWO_ITEM.title, [_as_good(runs), _cheaper(found[TIMES])], blocks)


def _as_good(runs: dict[str, Measured]) -> Claim:
    rivals = ("entropy", "log-entropy")
    losses = {
        (kind, h, r): difference(runs[kind].of(h, "margin"), runs[kind].of(h, r))
        for kind in CUTS
        for h in ("margin", *rivals)
        for r in rivals
    }
    worse = [key for key, d in losses.items() if d.sign > 0]
    largest = max(losses, key=lambda key: losses[key].mean)

    def lost(kind: str, hidden_by: str, fitted: str) -> str:
        loglik = runs[kind].of(hidden_by, hidden_by, "loglik") - runs[kind].of(hidden_by, fitted, "loglik")
        return f"{np.mean(loglik):.2f}"

    return Claim(
        "The squared margin is as good as the entropy.",
        _no_worse(list(losses.values())),
        f"Its LogLoss on fresh rows is clearly larger than that of the (log-)entropy in {len(worse)} and clearly "
        f"smaller in {sum(d.sign < 0 for d in losses.values())} of {len(losses)} comparisons; at worst by "
        f"{losses[largest].sentence(4)} ({CUTS[largest[0]]}, against the {largest[2]}, labels hidden by the "
        f"{largest[1]}).",
        f"'As good' is taken as: every interval ends below {MARGIN}. Differences: "
        + "; ".join(f"{CUTS[k]}, to the {r} where the {h} hid: {d.sentence(4)}" for (k, h, r), d in losses.items())
        + ". Mean log-likelihood lost by fitting the margin where another hid the labels: "
        + ", ".join(f"{h} {lost(k, h, 'margin')} ({CUTS[k]})" for k in CUTS for h in rivals)
        + "; by fitting another where the margin hid them: "
        + ", ".join(f"{r} {lost(k, 'margin', r)} ({CUTS[k]})" for k in CUTS for r in rivals)
        + ".",
    )


def _no_worse(losses: list[Mean]) -> str:
    """Whether every difference is below `MARGIN` with confidence, some are clearly above zero, or neither."""
    if all(d.high < MARGIN for d in losses):
        return HOLDS
    worse = [d.sign > 0 for d in losses]
    return FAILS if all(worse) else PARTLY if any(worse) else UNDECIDED


def _cheaper(seconds: dict[str, dict[str, float]]) -> Claim:
    rivals = ("entropy", "log-entropy")
    cost = {r: seconds["measure"]["margin"] / seconds["measure"][r] for r in rivals}
    fit_cost = {r: seconds["fit"]["margin"] / seconds["fit"][r] for r in rivals}
    cheap = [value < WORTH for value in fit_cost.values()]
    return Claim(
        "The squared margin saves significant computing.",
        HOLDS if all(cheap) else PARTLY if any(cheap) else FAILS,
        "A whole fit takes "
        + " and ".join(f"{fit_cost[r]:.2f} of the time with the {r}" for r in rivals)
        + ", the measure and its gradient alone "
        + " and ".join(f"{cost[r]:.2f}" for r in rivals)
        + ".",
        f"Medians of {ROUNDS} rounds, interleaved, {TIMED_ROWS:,} rows; 'significant' is taken as below {WORTH}. "
        "Timings vary from run to run.",
    )


def _times(seconds: dict[str, dict[str, float]]) -> Sheet:
    times = Table(
        f"Time, medians of {ROUNDS} rounds",
        [f"whole fit, {TIMED_ROWS:,} rows (ms)", "measure and gradient (ns a row)"],
        list(SLOPES),
        [[f"{1e3 * seconds['fit'][n]:.1f}", f"{1e9 * seconds['measure'][n]:.1f}"] for n in SLOPES],
        notes=["Timings are the only numbers of the study that differ from run to run."],
    )
    records = [
        {"measure": n, "fit_seconds": seconds["fit"][n], "measure_seconds_a_row": seconds["measure"][n]} for n in SLOPES
    ]
    return Sheet("measures-seconds", times, records)


TWO_ITEM = Item("measures", "Squared margin or entropy? Likelihood, LogLoss and time", two_pieces, two_page)


def four_pieces(plan: Plan) -> list[Piece]:
    """Four classes, five features."""
    return pieces_for(plan, "four-classes")


def four_page(plan: Plan, found: Found) -> Page:
    """The measures with more than two classes."""
    runs = Measured(plan, found, "four-classes")
    every = {name: np.mean([runs.of(h, name) for h in SLOPES], axis=0) for name in SLOPES}
    order = sorted(SLOPES, key=lambda name: float(np.mean(every[name])))
    behind = {name: difference(every[name], every[order[0]]) for name in order[1:]}
    leaders = [order[0], *(name for name, d in behind.items() if d.sign <= 0)]
    versus = {
        (name, h): difference(runs.of(h, name), runs.of(h, "margin"))
        for name in SLOPES
        for h in SLOPES
        if "margin" not in (name, h) and h != name
    }
    better, worse = (sum(d.sign == sign for d in versus.values()) for sign in (-1, 1))
    won = {name: [runs.recovered(h, name).mean for h in SLOPES] for name in SLOPES}
    rows, classes = KINDS["four-classes"]
    claims = [
        Claim(
            "Open in the paper: which uncertainty for more than two classes?",
            listed(leaders, "or"),
            f"Mean LogLoss over the four mechanisms, smallest with {order[0]}; the others minus it: "
            + ", ".join(f"{name} {d.sentence(4)}" for name, d in behind.items())
            + ".",
            "Lost LogLoss won back on average (at worst) over the four mechanisms: "
            + ", ".join(f"{name} {percent(float(np.mean(v)))} ({percent(min(v))})" for name, v in won.items())
            + ".",
        ),
        Claim(
            "Measures that use all posteriors beat the margin of the two largest.",
            verdict([-d.sign for d in versus.values()]),
            f"Where neither hid the labels, their LogLoss is clearly smaller than with the margin in {better} and "
            f"clearly larger in {worse} of {len(versus)} comparisons.",
            "Differences: "
            + "; ".join(f"{name} where the {h} hid {d.sentence(4)}" for (name, h), d in versus.items())
            + ".",
        ),
    ]
    blocks: list[Block] = [
        Paragraph(
            f"Four Gaussian classes in five dimensions ({classes['separation']} apart), {rows} rows, "
            f"{percent(RATE)} of the labels hidden by each measure in turn, fitted with each (tied covariance, "
            "logit link)."
        ),
        runs.picture(),
        runs.sheet("Four classes: every measure under every mechanism"),
        *runs.unfinished(),
    ]
    return Page("four-classes", FOUR_ITEM.title, claims, blocks)


FOUR_ITEM = Item("four-classes", "Beyond the paper: four classes, which uncertainty?", four_pieces, four_page)
