"""Beyond the paper: how often the data determine the Aranda-Ordaz shape, and whether estimating it pays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2

from marmix.core.arrays import Array
from marmix.core.charts import SHAPE_MAX
from marmix.core.links import link_of_shape
from marmix.estimators import MARGaussianMixture
from marmix.inference.tables import Table
from marmix.plotting.drawing import BLUE, GREEN, GREY, ORANGE, canvas
from marmix.study.comparison import draw
from marmix.study.metrics import scores
from marmix.study.pages import Block, Claim, Item, Page, Paragraph, Picture, Sheet
from marmix.study.paper import CUTS, RATE, SLOPE
from marmix.study.pieces import Piece, Plan, Values
from marmix.study.summaries import FAILS, HOLDS, PARTLY, UNDECIDED, Mean, difference, percent, tally

SIZES = (200, 1000, 10_000)
SHAPES = (0.0, 1.0, 2.0)
Setting = tuple[bool, float, int]  # truncated, true shape, rows
SETTINGS: list[Setting] = [(cut, shape, rows) for cut in CUTS for shape in SHAPES for rows in SIZES]
FITS: dict[str, dict[str, Any]] = {
    "free": {"link": "aranda-ordaz"},
    "logit": {"link": "logit"},
    "lower": {"link": "aranda-ordaz", "shape": 0.0},
    "upper": {"link": "aranda-ordaz", "shape": SHAPE_MAX},
}
AT_LIMIT = 0.01  # an estimate below this, or this share below SHAPE_MAX, is at the limit
MARKED = 0.005  # of LogLoss: what 'markedly' is taken to mean
DROP = chi2.ppf(0.95, 1) / 2  # of the log-likelihood, at the end of a 95 % profile interval


def pieces(plan: Plan) -> list[Piece]:
    """Replicates of every size, shape and truncation."""
    return [
        Piece(_key(*setting, i), replicate, dict(zip(("truncated", "shape", "rows"), setting, strict=True)))
        for i in range(plan.replicates("shape"))
        for setting in SETTINGS
    ]


def _key(cut: bool, shape: float, n: int, i: int) -> str:
    return f"shape/{CUTS[cut]}/{shape:g}/{n}/{i}"


def replicate(rng: np.random.Generator, truncated: bool, shape: float, rows: int) -> dict[str, Any]:
    """Fits with the shape free, and held at logit, at 0 and at its upper limit."""
    train, fresh = draw(rng.integers(2**31, size=2), "gaussian", truncated, rows, RATE, shape)
    fits = {
        name: MARGaussianMixture(covariance_type="tied", measure="margin", n_init=1, **options).fit(
            train.data, train.target
        )
        for name, options in FITS.items()
    }
    free, largest = fits["free"], max(fit.loglik_ for fit in fits.values())
    return {
        "shape": free.shape_,
        "gain": 2 * (largest - fits["logit"].loglik_),
        "below": largest - fits["lower"].loglik_,
        "above": largest - fits["upper"].loglik_,
        "free": scores(fresh.target_true, free.predict_proba(fresh.data)),
        "logit": scores(fresh.target_true, fits["logit"].predict_proba(fresh.data)),
        "converged": free.converged_,
    }


class ShapeRuns:
    """The replicates by truncation, true shape and size."""

    def __init__(self, plan: Plan, values: Values):
        self.n = plan.replicates("shape")
        self._values = values

    def of(self, setting: Setting, *names: str) -> Array:
        """A value of every replicate."""
        values = [self._values[_key(*setting, i)] for i in range(self.n)]
        for name in names:
            values = [value[name] for value in values]
        return np.array(values, dtype=float)

    def excludes(self, setting: Setting) -> dict[str, NDArray[np.bool_]]:
        """Whether the 95 % interval of the shape excludes 0, its upper limit, and both, for every replicate."""
        zero, limit = self.of(setting, "below") > DROP, self.of(setting, "above") > DROP
        return {"excludes_zero": zero, "excludes_limit": limit, "excludes_both": zero & limit}

    def determined(self, setting: Setting) -> Mean:
        """How often the interval excludes both, with Wilson's interval."""
        both = self.excludes(setting)["excludes_both"]
        interval = binomtest(int(both.sum()), self.n).proportion_ci(method="wilson")
        return Mean(float(both.mean()), float(interval.low), float(interval.high), self.n)

    def at_limit(self, setting: Setting) -> float:
        """How often the estimate is at a limit."""
        estimate = self.of(setting, "shape")
        return float(np.mean((estimate < AT_LIMIT) | (estimate > (1 - AT_LIMIT) * SHAPE_MAX)))

    def rejected(self, setting: Setting) -> float:
        """How often the likelihood ratio test at 5 % rejects the logit link."""
        return float(np.mean(self.of(setting, "gain") > 2 * DROP))

    def gain(self, setting: Setting) -> Mean:
        """Log-loss on fresh rows, shape estimated minus logit."""
        return difference(self.of(setting, "free", "log_loss"), self.of(setting, "logit", "log_loss"))


def page(plan: Plan, values: Values) -> Page:
    """How often the shape is identified, how often logit is rejected, and what estimating it gains."""
    runs = ShapeRuns(plan, values)
    blocks: list[Block] = [
        Paragraph(
            f"Two Gaussian classes; labels hidden with lambda = 0 ({link_of_shape(0.0).words}), 1 "
            f"({link_of_shape(1.0).words}) and 2 (the paper's), at 200, 1000 and 10,000 rows."
        ),
        _picture(runs),
        _sheet(runs),
    ]
    return Page("shape", ITEM.title, _claims(runs), blocks)


def _claims(runs: ShapeRuns) -> list[Claim]:
    gains = {setting: runs.gain(setting) for setting in SETTINGS}
    other_link = [setting for setting in SETTINGS if link_of_shape(setting[1]).name != "logit"]
    marked = [gains[setting].high < -MARKED for setting in other_link]
    ruled_out = [gains[setting].low > -MARKED for setting in other_link]
    shares = {rows: [runs.determined((cut, 2.0, rows)) for cut in CUTS] for rows in SIZES}
    few = shares[SIZES[0]]
    at_limit = float(np.mean([runs.at_limit(setting) for setting in SETTINGS if setting[2] == SIZES[0]]))
    return [
        Claim(
            "The Aranda-Ordaz shape can be estimated together with the rest ('updated iteratively'), at the paper's 200 rows.",
            HOLDS if all(m.low > 0.5 for m in few) else FAILS if all(m.high < 0.5 for m in few) else UNDECIDED,
            "With lambda = 2 its 95 % interval leaves out both ends of the range, 0 and 100, in "
            + "; ".join(
                f"{percent(cut.mean)} (truncated) and {percent(uncut.mean)} (not) of samples of {rows:,} rows"
                for rows, (cut, uncut) in shares.items()
            )
            + ". The claim is taken to need half of the samples.",
            f"At {SIZES[0]} rows the estimate runs to a limit in {percent(at_limit)} of all samples.",
        ),
        Claim(
            "The Aranda-Ordaz link markedly improves on logit.",
            HOLDS if all(marked) else PARTLY if any(marked) else FAILS if all(ruled_out) else UNDECIDED,
            "Where the link is not logit, the LogLoss on fresh rows with the shape estimated is "
            f"{tally([gains[s] for s in other_link], -1)} settings than with logit; the largest mean difference is "
            f"{max((gains[s].mean for s in other_link), key=abs):+.4f}.",
            f"'Markedly' is taken as a LogLoss smaller by {MARKED}: the intervals leave that out in "
            f"{sum(ruled_out)} of {len(other_link)} settings, and lie beyond it in {sum(marked)}.",
        ),
    ]


def _picture(runs: ShapeRuns) -> Picture:
    figure, axes = canvas(3.5, 5.0, 2, 1, sharex=True, sharey=True)
    for ax, (cut, words) in zip(axes, CUTS.items(), strict=True):
        for shape, colour, marker in zip(SHAPES, (BLUE, GREY, ORANGE), ("o", "s", "^"), strict=True):
            rejected = [100 * runs.rejected((cut, shape, rows)) for rows in SIZES]
            ax.plot(SIZES, rejected, color=colour, marker=marker, label=f"logit rejected, lambda = {shape:g}")
        both = [100 * runs.determined((cut, 2.0, rows)).mean for rows in SIZES]
        ax.plot(SIZES, both, color=GREEN, linestyle="--", marker="D", label="interval leaves out both ends, lambda = 2")
        ax.axhline(5, color=GREY, linewidth=0.7, linestyle=":")
        ax.set(xscale="log", title=words, ylim=(-3, 103), ylabel="share of samples, %")
        ax.set_xticks(SIZES, [f"{rows:,}" for rows in SIZES])
        ax.minorticks_off()
    axes[1].set_xlabel("rows")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=1)
    caption = (
        "How often a likelihood ratio test at 5 % (dotted) tells the link from logit, and how often the 95 % "
        f"interval of the shape leaves out both 0 and {SHAPE_MAX:g}; {runs.n} samples a point."
    )
    return Picture("shape", caption, figure)


def _sheet(runs: ShapeRuns) -> Sheet:
    index, rows, records = [], [], []
    for setting in SETTINGS:
        cut, shape, size = setting
        gain, estimate = runs.gain(setting), float(np.median(runs.of(setting, "shape")))
        shares = {"at_limit": runs.at_limit(setting)}
        shares |= {name: float(excluded.mean()) for name, excluded in runs.excludes(setting).items()}
        shares["logit_rejected"] = runs.rejected(setting)
        index.append(f"{CUTS[cut]}, lambda = {shape:g}, n = {size:,}")
        rows.append([f"{estimate:.2f}", *(percent(share) for share in shares.values()), gain.text(4, True)])
        records.append(
            {"setting": CUTS[cut], "true_shape": shape, "rows": size, "median_estimate": estimate}
            | shares
            | {"log_loss_difference": gain.mean, "low": gain.low, "high": gain.high}
            | {"mean_likelihood_ratio": float(runs.of(setting, "gain").mean())}
            | {"not_converged": int(np.sum(runs.of(setting, "converged") == 0)), "replicates": runs.n}
        )
    columns = [
        "median estimate",
        "estimate at a limit",
        *(f"interval leaves out {end}" for end in ("0", f"{SHAPE_MAX:g}", "both")),
        "logit rejected at 5 %",
        "LogLoss, shape estimated minus logit",
    ]
    notes = [
        f"{runs.n} samples each; tied mixture, {percent(RATE)} missing, alpha_1 = {SLOPE:g}. At a limit: below "
        f"{AT_LIMIT} or at the upper end {SHAPE_MAX:g}. lambda = 1 is the logit link itself: its rejections are "
        "false ones; with lambda = 0 an interval should contain 0.",
        f"The 95 % interval leaves an end out where the log-likelihood is lower there by more than {DROP:.2f}, a "
        "little conservative at 0, which is a boundary.",
    ]
    return Sheet("shape", Table("The Aranda-Ordaz shape by sample size", columns, index, rows, notes=notes), records)


ITEM = Item("shape", "Beyond the paper: is the Aranda-Ordaz shape identified, and does it pay?", pieces, page)
