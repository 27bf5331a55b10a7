"""Beyond the paper: how often the data determine the Aranda-Ordaz shape, and whether estimating it pays."""

import numpy as np
from scipy.stats import binomtest, chi2

from marmix import MARGaussianMixture
from marmix.core.charts import SHAPE_MAX
from paper.datasets import CUTS, RATE, SLOPE, draw
from paper.drawing import GREY, lines
from paper.metrics import scores
from paper.pages import Claim, Picture, Sheet
from paper.summaries import Mean, Samples, below, clear, percent, tally, verdict

SIZES = (200, 1000, 10_000)
SHAPES = (0.0, 1.0, 2.0)
SETTINGS = [(cut, shape, rows) for cut in CUTS for shape in SHAPES for rows in SIZES]
FITS = {
    "free": {"link": "aranda-ordaz"},
    "logit": {"link": "logit"},
    "lower": {"link": "aranda-ordaz", "shape": 0.0},
    "upper": {"link": "aranda-ordaz", "shape": SHAPE_MAX},
}
AT_LIMIT = 0.01  # an estimate below this, or this share below SHAPE_MAX, is at the limit
MARKED = 0.005  # of LogLoss: what 'markedly' is taken to mean
DROP = chi2.ppf(0.95, 1) / 2  # of the log-likelihood, at the end of a 95 % profile interval


def replicate(rng, truncated, shape, rows):
    """Fits with the shape free, and held at logit, at 0 and at its upper limit; `drop` is below the largest likelihood."""
    train, fresh = draw(rng.integers(2**31, size=2), "gaussian", truncated, rows, RATE, shape)
    fits = {
        name: MARGaussianMixture(measure="margin", n_init=1, **options).fit(train.data, train.target)
        for name, options in FITS.items()
    }
    largest = max(fit.loglik_ for fit in fits.values())
    results = {name: {"drop": largest - fit.loglik_, "shape": fit.shape_} for name, fit in fits.items()}
    for name in ("free", "logit"):
        results[name] |= scores(fresh.target_true, fits[name].predict_proba(fresh.data))
    return results | {"free": results["free"] | {"converged": fits["free"].converged_}}


class Shapes(Samples):
    """The samples by truncation, true shape and size."""

    def shares(self, setting):
        """How often the estimate is at a limit, its 95 % interval excludes 0, the upper limit and both, and logit is rejected."""
        estimate = self.of(setting, "free", "shape")
        drop = {name: self.of(setting, name, "drop") > DROP for name in ("lower", "upper", "logit")}
        found = {
            "at_limit": (estimate < AT_LIMIT) | (estimate > (1 - AT_LIMIT) * SHAPE_MAX),
            "excludes_zero": drop["lower"],
            "excludes_limit": drop["upper"],
            "excludes_both": drop["lower"] & drop["upper"],
            "logit_rejected": drop["logit"],
        }
        return {name: float(values.mean()) for name, values in found.items()}

    def determined(self, setting):
        """How often the interval excludes both ends, with Wilson's interval."""
        n, share = len(self.samples[setting]), self.shares(setting)["excludes_both"]
        interval = binomtest(round(n * share), n).proportion_ci(method="wilson")
        return Mean(share, float(interval.low), float(interval.high), n)

    def gain(self, setting):
        """Log-loss on fresh rows, shape estimated minus logit."""
        return self.versus(setting, "free", "logit", "log_loss")


def page(run):
    """How often the shape is identified, how often logit is rejected, and what estimating it gains."""
    n = run.n(10, 200)
    settings = {
        (cut, shape, rows): (f"shape/{CUTS[cut]}/{shape:g}/{rows}", {"truncated": cut, "shape": shape, "rows": rows})
        for cut, shape, rows in SETTINGS
    }
    samples = Shapes(run.samples(replicate, n, settings))
    text = (
        "Two Gaussian classes; labels hidden with lambda = 0 (complementary log-log), 1 (logit) and 2 (the paper's), at 200, "
        "1000 and 10,000 rows."
    )
    return claims(samples), [text, picture(samples, n), sheet(samples, n)]


def claims(samples):
    """Whether the shape is identified, and whether estimating it pays."""
    gains = [samples.gain(setting) for setting in SETTINGS if setting[1] != 1.0]
    marked = below(gains, -MARKED)
    shares = {rows: [samples.determined((cut, 2.0, rows)) for cut in CUTS] for rows in SIZES}
    at_limit = float(np.mean([samples.shares(setting)["at_limit"] for setting in SETTINGS if setting[2] == SIZES[0]]))
    words = "; ".join(
        f"{percent(cut.mean)} (truncated) and {percent(uncut.mean)} (not) of samples of {rows:,} rows"
        for rows, (cut, uncut) in shares.items()
    )
    return [
        Claim(
            "The Aranda-Ordaz shape can be estimated together with the rest ('updated iteratively'), at the paper's 200 rows.",
            verdict(below([-share for share in shares[SIZES[0]]], -0.5)),
            f"With lambda = 2 its 95 % interval leaves out both ends of the range, 0 and 100, in {words}. The claim is taken to "
            "need half of the samples.",
            f"At {SIZES[0]} rows the estimate runs to a limit in {percent(at_limit)} of all samples.",
        ),
        Claim(
            "The Aranda-Ordaz link markedly improves on logit.",
            verdict(marked),
            f"Where the link is not logit, the LogLoss on fresh rows with the shape estimated is {tally(clear(gains, -1))} "
            f"settings than with logit; the largest mean difference is {max((d.mean for d in gains), key=abs):+.4f}.",
            f"'Markedly' is taken as a LogLoss smaller by {MARKED}: the intervals leave that out in {marked.count(-1)} of "
            f"{len(marked)} settings, and lie beyond it in {marked.count(1)}.",
        ),
    ]


def picture(samples, n):
    """Shares of samples against their size."""
    plots = {}
    for cut, words in CUTS.items():
        shares = {shape: [samples.shares((cut, shape, rows)) for rows in SIZES] for shape in SHAPES}
        named = {
            f"logit rejected, lambda = {shape:g}": [s["logit_rejected"] for s in found]
            for shape, found in shares.items()
        }
        named["interval leaves out both ends, lambda = 2"] = [s["excludes_both"] for s in shares[2.0]]
        plots[words] = {name: (SIZES, 100 * np.array(values)) for name, values in named.items()}
    figure, axes = lines(plots, "rows", "share of samples, %")
    for ax in axes.flat:
        ax.axhline(5, color=GREY, linewidth=0.7, linestyle=":")
        ax.set(xscale="log", ylim=(-3, 103))
    caption = (
        "How often a likelihood ratio test at 5 % (dotted) tells the link from logit, and how often the 95 % interval of the "
        f"shape leaves out both 0 and {SHAPE_MAX:g}; {n} samples a point."
    )
    return Picture("shape", caption, figure)


def sheet(samples, n):
    """All shares, by truncation, true shape and size."""
    rows, records = {}, []
    for setting in SETTINGS:
        cut, shape, size = setting
        gain, estimate = samples.gain(setting), float(np.median(samples.of(setting, "free", "shape")))
        shares = samples.shares(setting)
        name = f"{CUTS[cut]}, lambda = {shape:g}, n = {size:,}"
        rows[name] = [f"{estimate:.2f}", *(percent(share) for share in shares.values()), f"{gain:+.4f}"]
        records.append(
            {"setting": CUTS[cut], "true_shape": shape, "rows": size, "median_estimate": estimate, **shares}
            | {"log_loss_difference": gain.mean, "low": gain.low, "high": gain.high}
            | {"mean_likelihood_ratio": 2 * float(samples.of(setting, "logit", "drop").mean())}
            | {"not_converged": int(np.sum(samples.of(setting, "free", "converged") == 0)), "replicates": n}
        )
    return Sheet(
        "shape",
        "The Aranda-Ordaz shape by sample size",
        [
            "median estimate",
            "estimate at a limit",
            *(f"interval leaves out {end}" for end in ("0", f"{SHAPE_MAX:g}", "both")),
            "logit rejected at 5 %",
            "LogLoss, shape estimated minus logit",
        ],
        rows,
        records,
        [
            f"{n} samples each; tied mixture, {percent(RATE)} missing, alpha_1 = {SLOPE:g}. At a limit: below {AT_LIMIT} or at "
            f"the upper end {SHAPE_MAX:g}. lambda = 1 is the logit link itself: its rejections are false ones; with lambda = 0 "
            "an interval should contain 0.",
            f"The 95 % interval leaves an end out where the log-likelihood is lower there by more than {DROP:.2f}, a little "
            "conservative at 0, which is a boundary.",
        ],
    )
