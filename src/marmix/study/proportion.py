"""The missing-proportion figure: AUC against the proportion of missing labels."""

from typing import Any

import numpy as np

from marmix.core.arrays import Array
from marmix.inference.tables import Table
from marmix.plotting.drawing import canvas
from marmix.study import comparison, methods
from marmix.study.drawing import LINES, curve, fit_to_lines
from marmix.study.methods import ECM_AO, LOGISTIC, LOGISTIC_CV, MAR_LOGISTIC, MAR_TIED
from marmix.study.metrics import published_scores
from marmix.study.pages import Block, Claim, Heading, Item, Page, Paragraph, Picture, Sheet
from marmix.study.paper import CUTS, RATE
from marmix.study.pieces import Piece, Plan, Values
from marmix.study.summaries import FAILS, HOLDS, UNDECIDED, Mean, difference, mean_of, percent, verdict, within

RATES = tuple(round(r, 2) for r in np.arange(0.50, 0.951, 0.05))
ROWS, SHAPE = 500, 0.5
SHOWN = (methods.EVERY_LABEL, ECM_AO, methods.IGNORED, LOGISTIC, LOGISTIC_CV, MAR_TIED, MAR_LOGISTIC)
PERCENT = [100 * rate for rate in RATES]
LARGE, LARGE_SAMPLES, TRUE_COEFFICIENTS = 50_000, 20, (0.0, 2.0, 0.0)
SLIGHT = 0.05  # bias of a coefficient that does not count
MARGIN = 0.01  # of AUC or LogLoss: what 'keeps' and 'preserves' may lose


def pieces(plan: Plan) -> list[Piece]:
    """The replicates, each at every rate, and large samples for the bias of logistic regression."""
    return [
        *(
            Piece(_key(cut, i), replicate, {"truncated": cut})
            for i in range(plan.replicates("proportion"))
            for cut in CUTS
        ),
        *(Piece(f"proportion/large/{i}", large_sample) for i in range(LARGE_SAMPLES)),
    ]


def _key(cut: bool, i: int) -> str:
    return f"proportion/{CUTS[cut]}/{i}"


def large_sample(rng: np.random.Generator) -> dict[str, list[float]]:
    """Coefficients of logistic regression from every label and from those left; the true ones are (0, 2, 0)."""
    train, _ = comparison.draw(rng.integers(2**31, size=2), "gaussian", False, LARGE, RATE, SHAPE)
    coefficients = {}
    for name, y in {"every label": train.target_true, "labels left": train.target}.items():
        rows = y >= 0
        fit = methods.METHODS[LOGISTIC].make(y[rows], 0).fit(train.data[rows], y[rows])
        coefficients[name] = [float(fit.intercept_[0]), *(float(c) for c in fit.coef_[0])]
    return coefficients


def replicate(rng: np.random.Generator, truncated: bool) -> dict[str, Any]:
    """Scores on training rows and on fresh rows, the same at every rate, with ever fewer labels."""
    seeds, seed = rng.integers(2**31, size=2), int(rng.integers(2**31))
    results: dict[str, Any] = {}
    for rate in RATES:
        train, fresh = comparison.draw(seeds, "gaussian", truncated, ROWS, rate, SHAPE)
        estimators, failed, unfinished = methods.fitted(SHOWN, train.data, train.target, train.target_true, seed)
        positive = train.target_true == 0
        results[f"{rate:.2f}"] = {
            "fresh": {n: methods.assessed(e, fresh.data, fresh.target_true) for n, e in estimators.items()},
            "training": {
                n: published_scores(positive, e.predict_proba(train.data)[:, 0]) for n, e in estimators.items()
            },
            "failed": failed,
            "unfinished": unfinished,
        }
    return results


class ProportionRuns:
    """The replicates by truncation and rate."""

    def __init__(self, plan: Plan, values: Values):
        self.n = plan.replicates("proportion")
        self._values = {cut: [values[_key(cut, i)] for i in range(self.n)] for cut in CUTS}
        self.large = [values[f"proportion/large/{i}"] for i in range(LARGE_SAMPLES)]

    def of(self, cut: bool, rate: float, method: str, metric: str, rows: str = "fresh") -> Array:
        """A score of every replicate; NaN if the method could not be fitted."""
        at_rate = [value[f"{rate:.2f}"] for value in self._values[cut]]
        return np.array([np.nan if method in value["failed"] else value[rows][method][metric] for value in at_rate])

    def curve(self, cut: bool, method: str, metric: str, rows: str = "fresh") -> list[Mean]:
        """Mean of a score at every rate."""
        return [mean_of(self.of(cut, rate, method, metric, rows)) for rate in RATES]

    def rise(self, cut: bool, method: str, metric: str, rows: str = "fresh") -> Mean:
        """Change of a score from the first rate to the last, on the same rows."""
        return difference(self.of(cut, RATES[-1], method, metric, rows), self.of(cut, RATES[0], method, metric, rows))

    def turned(self, method: str) -> float:
        """How often the ROC routine reverses the direction on truncated training rows at the last rate."""
        return float(np.nanmean(self.of(True, RATES[-1], method, "turned", "training")))

    def troubles(self) -> list[str]:
        """Notes on how often fits failed or did not converge."""
        fits = [at_rate for cut in CUTS for value in self._values[cut] for at_rate in value.values()]
        return methods.troubles([fit["failed"] for fit in fits], [fit["unfinished"] for fit in fits])


def page(plan: Plan, values: Values) -> Page:
    """AUC and log-loss against the rate."""
    runs = ProportionRuns(plan, values)
    blocks: list[Block] = [
        Heading("As published"),
        Paragraph(
            f"Gaussian classes, {ROWS} rows of margin at most 0.6, labels hidden with lambda = {SHAPE}, AUC on the "
            "training rows in whichever direction is above one half: it was turned at 95 % missing in "
            f"{percent(runs.turned(ECM_AO))} of samples for ECM-AO and in {percent(runs.turned(LOGISTIC))} for "
            "logistic regression. The paper prints the figure without numbers."
        ),
        _published_picture(runs),
        Heading("Honest"),
        Paragraph("AUC and LogLoss on fresh rows, with stronger baselines and without the truncation as well."),
        _picture(runs, "auc", "AUC", "fig-missing-proportion"),
        _picture(runs, "log_loss", "LogLoss", "fig-missing-proportion-logloss"),
        _sheet(runs),
        _large_sheet(runs),
    ]
    return Page("fig-missing-proportion", ITEM.title, _claims(runs), blocks)


def _claims(runs: ProportionRuns) -> list[Claim]:
    def cuts(method: str, metric: str, rows: str = "fresh") -> str:
        return ", ".join(f"{runs.rise(cut, method, metric, rows).sentence()} ({words})" for cut, words in CUTS.items())

    coefficients = np.array([value["labels left"] for value in runs.large])
    bias = [mean_of(column - truth) for column, truth in zip(coefficients.T, TRUE_COEFFICIENTS, strict=True)]
    biased = any(abs(d.mean) - d.half > SLIGHT for d in bias)
    unbiased = all(abs(d.mean) + d.half < SLIGHT for d in bias)
    return [
        Claim(
            "ECM-AO keeps its AUC as labels get fewer (missing-proportion figure).",
            within([-runs.rise(cut, ECM_AO, "auc") for cut in CUTS], MARGIN),
            f"AUC on fresh rows at 95 % missing minus that at 50 %: {cuts(ECM_AO, 'auc')}. 'Keeps' is taken as "
            f"losing less than {MARGIN}.",
            f"As published, on training rows: {cuts(ECM_AO, 'auc', 'training')}.",
        ),
        Claim(
            "Logistic regression progressively degrades (missing-proportion figure).",
            verdict([runs.rise(cut, LOGISTIC, "auc") for cut in CUTS], -1),
            f"The same difference for logistic regression: {cuts(LOGISTIC, 'auc')}; with C by cross-validation: "
            f"{cuts(LOGISTIC_CV, 'auc')}; with the mechanism ({MAR_LOGISTIC}): {cuts(MAR_LOGISTIC, 'auc')}.",
        ),
        Claim(
            "ECM-AO preserves calibration as labels get fewer.",
            within([runs.rise(cut, ECM_AO, "log_loss") for cut in CUTS], MARGIN),
            f"LogLoss on fresh rows at 95 % missing minus that at 50 %: {cuts(ECM_AO, 'log_loss')}; {MAR_LOGISTIC}: "
            f"{cuts(MAR_LOGISTIC, 'log_loss')}. 'Preserves' is taken as losing less than {MARGIN}.",
        ),
        Claim(
            "Training on the observed labels alone induces selection bias.",
            HOLDS if biased else FAILS if unbiased else UNDECIDED,
            f"Logistic regression on {LARGE:,} rows, {percent(RATE)} of the labels missing by the mechanism: "
            f"intercept and slopes minus the true ones (0, 2, 0) are {', '.join(d.sentence() for d in bias)}. No "
            f"bias is taken as less than {SLIGHT}.",
            "The mechanism depends on the features alone, so the distribution of the class given the features "
            "stays the same: precision is lost, but there is no bias."
            if unbiased
            else "",
        ),
    ]


def _published_picture(runs: ProportionRuns) -> Picture:
    figure, ax = canvas(3.5, 2.6)
    for name in (ECM_AO, LOGISTIC):
        curve(ax, PERCENT, runs.curve(True, name, "auc", "training"), name, LINES[name])
    ax.set(xlabel="labels missing, %", ylabel="AUC on the training rows")
    ax.legend(loc="lower left")
    caption = (
        f"AUC on the training rows of truncated samples, as in the paper's figure: means over {runs.n} samples with "
        "95 % bands."
    )
    return Picture("fig-missing-proportion-published", caption, figure)


def _picture(runs: ProportionRuns, metric: str, label: str, stem: str) -> Picture:
    figure, axes = canvas(3.5, 5.4, 2, 1, sharex=True)
    for ax, (cut, words) in zip(axes, CUTS.items(), strict=True):
        lines = {name: runs.curve(cut, name, metric) for name in SHOWN}
        for name, means in lines.items():
            curve(ax, PERCENT, means, name, LINES[name])
        fit_to_lines(ax, list(lines.values()))
        ax.set(title=f"Gaussian, {words}", ylabel=f"{label} on fresh rows")
        if metric == "log_loss":
            ax.set_yscale("log")
            low, high = ax.get_ylim()
            ax.set_yticks([tick for tick in (0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5, 8) if low < tick < high])
            ax.yaxis.set_major_formatter("{x:g}")
            ax.minorticks_off()
    axes[1].set_xlabel("labels missing, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, columnspacing=1.0)
    caption = (
        f"{label} on fresh rows{' (log scale)' if metric == 'log_loss' else ''} against the proportion of missing "
        f"labels; means over {runs.n} samples of {ROWS} rows with 95 % bands. Above: truncated rows as in the "
        "paper. Below: not truncated."
    )
    return Picture(stem, caption, figure)


def _sheet(runs: ProportionRuns) -> Sheet:
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
            *runs.troubles(),
        ],
    )
    return Sheet("fig-missing-proportion", table, records)


def _large_sheet(runs: ProportionRuns) -> Sheet:
    names = ("intercept", "slope of the first feature", "slope of the second")
    values = {
        label: [mean_of(column) for column in np.array([value[label] for value in runs.large]).T]
        for label in ("every label", "labels left")
    }
    table = Table(
        f"Logistic regression on {LARGE:,} rows, not truncated",
        list(names),
        ["true", *values],
        [[f"{truth:.1f}" for truth in TRUE_COEFFICIENTS], *([m.text() for m in means] for means in values.values())],
        notes=[
            f"Means over {LARGE_SAMPLES} samples ± half the 95 % interval; {percent(RATE)} of the labels missing by "
            "the mechanism."
        ],
    )
    records = [
        {"labels": label, "coefficient": name, "true": truth} | mean._asdict()
        for label, means in values.items()
        for name, truth, mean in zip(names, TRUE_COEFFICIENTS, means, strict=True)
    ]
    return Sheet("fig-missing-proportion-large", table, records)


ITEM = Item("fig-missing-proportion", "AUC against the proportion of missing labels", pieces, page)
