"""The missing-proportion figure: AUC as more and more labels are missing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.inference.tables import Table
from marmix.study import comparison, methods
from marmix.study.blocks import Block, Claim, Heading, Item, Page, Paragraph, Picture, Sheet
from marmix.study.drawing import LINES, canvas
from marmix.study.methods import ECM_AO, LOGISTIC, LOGISTIC_CV, MAR_LOGISTIC, MAR_TIED
from marmix.study.metrics import scores
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.summaries import Mean, difference, mean_of, percent, verdict

Array = NDArray[np.float64]

RATES = tuple(round(r, 2) for r in np.arange(0.50, 0.951, 0.05))
ROWS, SHAPE = 500, 0.5
SHOWN = (methods.EVERY_LABEL, ECM_AO, methods.IGNORED, LOGISTIC, LOGISTIC_CV, MAR_TIED, MAR_LOGISTIC)
PERCENT = 100 * np.array(RATES)
CUTS = {True: "truncated", False: "not truncated"}


def pieces(plan: Plan) -> list[Piece]:
    """Every rate of every replicate."""
    return [
        Piece(_key(cut, i), replicate, {"truncated": cut}) for i in range(plan.replicates("proportion")) for cut in CUTS
    ]


def _key(cut: bool, i: int) -> str:
    return f"proportion/{CUTS[cut]}/{i}"


def replicate(rng: np.random.Generator, truncated: bool) -> dict[str, Any]:
    """Scores of the methods on training rows and on fresh rows: the same rows at every rate, ever fewer labels."""
    seeds, seed = rng.integers(2**31, size=2), int(rng.integers(2**31))
    out: dict[str, Any] = {}
    for rate in RATES:
        train, fresh = comparison.draw(seeds, "gaussian", truncated, ROWS, rate, SHAPE)
        estimators, failed, unfinished = methods.fitted(SHOWN, train.data, train.target, train.target_true, seed)
        out[f"{rate:.2f}"] = {
            "fresh": {name: scores(fresh.target_true, e.predict_proba(fresh.data)) for name, e in estimators.items()},
            "training": {
                name: scores(train.target_true, e.predict_proba(train.data)) for name, e in estimators.items()
            },
            "unfinished": [*failed, *unfinished],
        }
    return out


class Runs:
    """The replicates by truncation and rate."""

    def __init__(self, plan: Plan, found: Found):
        self.n = plan.replicates("proportion")
        self._values = {cut: [found[_key(cut, i)] for i in range(self.n)] for cut in CUTS}

    def of(self, cut: bool, rate: float, method: str, metric: str, rows: str = "fresh") -> Array:
        """A score of every replicate; NaN where the method could not be fitted."""
        every = [value[f"{rate:.2f}"][rows] for value in self._values[cut]]
        return np.array([value.get(method, {}).get(metric, np.nan) for value in every])

    def curve(self, cut: bool, method: str, metric: str, rows: str = "fresh") -> list[Mean]:
        """Its mean at every rate."""
        return [mean_of(self.of(cut, rate, method, metric, rows)) for rate in RATES]

    def lost(self, cut: bool, method: str, rows: str = "fresh") -> Array:
        """AUC lost between the first and the last rate, on the same rows."""
        return self.of(cut, RATES[0], method, "auc", rows) - self.of(cut, RATES[-1], method, "auc", rows)

    def ahead(self, cut: bool) -> int:
        """At how many rates ECM-AO has a clearly higher AUC than logistic regression."""
        return sum(
            difference(self.of(cut, rate, ECM_AO, "auc"), self.of(cut, rate, LOGISTIC, "auc")).sign > 0
            for rate in RATES
        )

    def unfinished(self) -> list[str]:
        """How often fits failed or did not converge."""
        every = [at["unfinished"] for cut in CUTS for value in self._values[cut] for at in value.values()]
        counts = {name: sum(name in names for names in every) for name in SHOWN}
        return [
            f"{name} could not be fitted, or did not converge, in {count} of {len(every)} fits."
            for name, count in counts.items()
            if count
        ]


def page(plan: Plan, found: Found) -> Page:
    """AUC and log-loss against the rate."""
    runs = Runs(plan, found)
    blocks: list[Block] = [
        Heading("As published"),
        Paragraph(
            f"Gaussian classes, {ROWS} rows of margin at most 0.6, labels hidden with lambda = {SHAPE}, AUC on the "
            "training rows. The paper prints the figure without numbers. AUC does not feel the swapped classes, so "
            "there is nothing to correct."
        ),
        _published_picture(runs),
        Heading("Honest"),
        Paragraph("AUC and LogLoss on fresh rows, with stronger baselines and without the truncation as well."),
        _picture(runs),
        _sheet(runs),
    ]
    return Page("fig-missing-proportion", ITEM.title, [_claim(runs)], blocks)


def _claim(runs: Runs) -> Claim:
    versus = {cut: difference(runs.lost(cut, LOGISTIC), runs.lost(cut, ECM_AO)) for cut in CUTS}

    def lost(method: str, rows: str = "fresh") -> str:
        return ", ".join(f"{runs.lost(cut, method, rows).mean():.3f} ({words})" for cut, words in CUTS.items())

    def loss(method: str) -> str:
        return ", ".join(
            f"{runs.of(cut, RATES[-1], method, 'log_loss').mean():.3f} ({words})" for cut, words in CUTS.items()
        )

    return Claim(
        "ECM-AO keeps its AUC as labels get fewer, logistic regression progressively degrades (missing-proportion figure).",
        verdict([d.sign for d in versus.values()]),
        f"AUC on fresh rows lost between 50 % and 95 % missing: {lost(ECM_AO)} by ECM-AO, {lost(LOGISTIC)} by logistic "
        f"regression; {', '.join(f'{d.sentence()} ({CUTS[cut]})' for cut, d in versus.items())} more by the latter.",
        f"{LOGISTIC_CV} loses {lost(LOGISTIC_CV)}, {MAR_LOGISTIC} {lost(MAR_LOGISTIC)}. On training rows, as "
        f"published: {lost(ECM_AO, 'training')} by ECM-AO, {lost(LOGISTIC, 'training')} by logistic regression. "
        f"ECM-AO has a clearly higher AUC than logistic regression at {runs.ahead(True)} of {len(RATES)} rates on "
        f"truncated rows, at {runs.ahead(False)} without truncation. LogLoss at 95 % missing: ECM-AO "
        f"{loss(ECM_AO)}, logistic regression {loss(LOGISTIC)}, {LOGISTIC_CV} {loss(LOGISTIC_CV)}, {MAR_LOGISTIC} "
        f"{loss(MAR_LOGISTIC)}.",
    )


def _published_picture(runs: Runs) -> Picture:
    figure, ax = canvas(3.5, 2.6)
    for name in (ECM_AO, LOGISTIC):
        curve = runs.curve(True, name, "auc", "training")
        ax.plot(PERCENT, [m.mean for m in curve], **LINES[name], label=name)
        ax.fill_between(
            PERCENT,
            [m.low for m in curve],
            [m.high for m in curve],
            color=LINES[name]["color"],
            alpha=0.15,
            linewidth=0,
        )
    ax.set(xlabel="labels missing, %", ylabel="AUC on the training rows")
    ax.legend(loc="lower left")
    caption = (
        f"AUC on the training rows of truncated samples, as in the paper's figure: means over {runs.n} samples with "
        "95 % bands."
    )
    return Picture("fig-missing-proportion-published", caption, figure)


def _picture(runs: Runs) -> Picture:
    figure, axes = canvas(6.6, 4.6, 2, 2, sharex=True)
    for row, (metric, label) in zip(axes, (("auc", "AUC"), ("log_loss", "LogLoss")), strict=True):
        for ax, (cut, words) in zip(row, CUTS.items(), strict=True):
            for name in SHOWN:
                means = [m.mean for m in runs.curve(cut, name, metric)]
                ax.plot(PERCENT, means, **LINES[name], markersize=3, label=name)
            ax.set(
                title=f"Gaussian, {words}" if metric == "auc" else "", ylabel=f"{label} on fresh rows" if cut else ""
            )
            if metric == "log_loss":
                ax.set(xlabel="labels missing, %", yscale="log")
                low, high = ax.get_ylim()
                ax.set_yticks([tick for tick in (0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5, 8) if low < tick < high])
                ax.yaxis.set_major_formatter("{x:g}")
                ax.minorticks_off()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    caption = (
        "AUC (above) and LogLoss (below, log scale) on fresh rows against the proportion of missing labels; means "
        f"over {runs.n} samples of {ROWS} rows. Left: the paper's truncated rows. Right: not truncated."
    )
    return Picture("fig-missing-proportion", caption, figure)


def _sheet(runs: Runs) -> Sheet:
    records = [
        {"setting": words, "rate": rate, "method": name, "rows": rows, "metric": metric} | mean._asdict()
        for cut, words in CUTS.items()
        for name in SHOWN
        for rows in ("fresh", "training")
        for metric in ("auc", "log_loss", "brier")
        for rate, mean in zip(RATES, runs.curve(cut, name, metric, rows), strict=True)
    ]
    picked = (0.5, 0.7, 0.9, 0.95)
    table = Table(
        "AUC on fresh rows",
        [f"{words}, {percent(rate)}" for words in CUTS.values() for rate in picked],
        list(SHOWN),
        [[mean_of(runs.of(cut, rate, name, "auc")).text() for cut in CUTS for rate in picked] for name in SHOWN],
        notes=[
            f"Means over {runs.n} samples of {ROWS} rows ± half the 95 % interval; hidden with lambda = {SHAPE}. "
            "The CSV has every rate, LogLoss and Brier score, and the scores on training rows.",
            *runs.unfinished(),
        ],
    )
    return Sheet("fig-missing-proportion", table, records)


ITEM = Item("fig-missing-proportion", "AUC against the proportion of missing labels", pieces, page)
