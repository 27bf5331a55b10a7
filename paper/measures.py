"""Measures of uncertainty compared: with two classes, where the paper replaces the entropy by the squared margin, and with four.

Labels are hidden by a logit mechanism in one measure at a time, and every measure is fitted to them. The slopes are of about
equal strength.
"""

import time

import numpy as np

from marmix import MARGaussianMixture
from marmix.core.measures import MEASURES, posterior
from marmix.datasets import make_mar_mixture
from paper.datasets import FRESH, MAX_MARGIN, RATE
from paper.drawing import differences
from paper.metrics import scores
from paper.pages import Claim, Picture, Sheet
from paper.summaries import Samples, below, clear, mean_of, percent, spread, tally, verdict

COMPARED = ("margin", "entropy", "log-entropy", "gini")
EVERY_LABEL, IGNORED = "every label", "mechanism ignored"
KINDS = {  # rows, and the classes
    "measures": (200, {}),
    "measures-truncated": (200, {"max_margin": MAX_MARGIN}),
    "four-classes": (400, {"n_classes": 4, "n_features": 5, "separation": 2.5}),
}


def replicate(rng, kind, hidden_by):
    """Log-likelihood and scores on fresh rows of tied mixtures with each measure, with none, and with every label."""
    train_seed, fresh_seed = (int(v) for v in rng.integers(2**31, size=2))
    rows, classes = KINDS[kind]
    least = classes.get("n_features", 2) + 1
    train = make_mar_mixture(rows, measure=hidden_by, rate=RATE, at_least=least, random_state=train_seed, **classes)
    fresh = make_mar_mixture(FRESH, rate=None, random_state=fresh_seed, **classes)
    results = {}
    for name in (EVERY_LABEL, IGNORED, *COMPARED):
        options = {"measure": name} if name in COMPARED else {"link": None}
        fit = MARGaussianMixture(n_init=1, **options).fit(
            train.data, train.target_true if name == EVERY_LABEL else train.target
        )
        results[name] = {"loglik": fit.loglik_, "converged": fit.converged_}
        results[name] |= scores(fresh.target_true, fit.predict_proba(fresh.data))
    return results


def timings(rng):
    """Seconds of a fit, and of the measure with its gradient alone; the measures take turns in every round."""
    sample = make_mar_mixture(TIMED_ROWS, rate=RATE, random_state=int(rng.integers(2**31)))
    X, y = sample.data, sample.target
    p = posterior(np.ascontiguousarray(rng.normal(scale=3.0, size=(2, 16_384))))
    seconds = {what: {name: [] for name in COMPARED} for what in ("fit", "measure")}
    for _ in range(ROUNDS):
        for name in COMPARED:
            start = time.perf_counter()
            MARGaussianMixture(covariance_type="full", measure=name, n_init=1).fit(X, y)
            middle = time.perf_counter()
            for _ in range(50):
                MEASURES[name](p)
            seconds["fit"][name].append(middle - start)
            seconds["measure"][name].append((time.perf_counter() - middle) / 50 / p.tau.shape[1])
    return seconds


def computed(run, kind):
    """Samples of a kind, by the measure that hides labels; their rows are the same whichever that is."""
    settings = {(by,): (kind, {"kind": kind, "hidden_by": by}) for by in COMPARED}
    return Samples(run.samples(replicate, run.n(5 if kind == "four-classes" else 10, 200), settings))


def shown(kind, title, samples):
    """Log-loss on fresh rows, and loss in log-likelihood, of every measure under every mechanism."""
    settings = {(by,): {"hidden_by": by} for by in COMPARED}
    names, n = (EVERY_LABEL, IGNORED, *COMPARED), len(samples.samples[("margin",)])
    over = f"Means over {n} samples ± half the 95 % interval; differences are paired."
    gains = {
        name: [samples.versus(s, name, IGNORED, "log_loss") for s in settings] for name in (*COMPARED, EVERY_LABEL)
    }
    rows = [f"hidden by {by}" for by in COMPARED]
    caption = (
        "LogLoss on fresh rows of fits with each measure, and with every label, minus that of the fit that ignores the mechanism "
        f"(below zero: better), with 95 % intervals over {n} samples."
    )
    return [
        Picture(
            kind, caption, differences(rows, gains, "LogLoss minus that of ignoring\nthe mechanism (left is better)")
        ),
        Sheet(
            kind,
            f"{title}: LogLoss on {FRESH:,} fresh rows",
            [*(f"fitted with {name}" for name in COMPARED), IGNORED, EVERY_LABEL],
            {
                f"hidden by {s[0]}": [samples.mean(s, name, "log_loss") for name in (*COMPARED, IGNORED, EVERY_LABEL)]
                for s in settings
            },
            samples.records(settings, names, ["log_loss"], "fitted"),
            [over, *samples.troubles(list(settings), names)],
        ),
        Sheet(
            f"{kind}-loglik",
            f"{title}: log-likelihood minus that with the measure that hid the labels",
            [f"fitted with {name}" for name in COMPARED],
            {
                f"hidden by {s[0]}": [
                    "" if name == s[0] else f"{samples.versus(s, name, s[0], 'loglik'):+.2f}" for name in COMPARED
                ]
                for s in settings
            },
            samples.records(settings, COMPARED, ["loglik"], "fitted"),
            [over],
        ),
    ]


# Two classes: squared margin or entropy?

TIMED_ROWS, ROUNDS = 20_000, 15
TWO_CLASSES = {"measures": "not truncated", "measures-truncated": "truncated"}
RIVALS = ("entropy", "log-entropy")
MARGIN = 0.005  # LogLoss that 'as good' may lose: the intervals must end below it
HARDLY = 2.0  # of log-likelihood, in samples of this size
WORTH = 0.8  # of the time of a fit: what 'significant computational savings' is taken to mean


def two_classes(run):
    """The squared margin against the entropy: likelihood, log-loss and time."""
    samples = {kind: computed(run, kind) for kind in TWO_CLASSES}
    seconds = run.once(timings, "measures/seconds")
    blocks = [
        f"Two Gaussian classes, {KINDS['measures'][0]} rows, {percent(RATE)} of the labels hidden by a logit mechanism in each "
        "measure, fitted with each (tied covariance, logit link); with every margin, and truncated at 0.6 as in the paper."
    ]
    for kind, words in TWO_CLASSES.items():
        blocks += shown(kind, f"Two classes, {words}", samples[kind])
    medians = {name: [float(np.median(seconds[what][name])) for what in ("fit", "measure")] for name in COMPARED}
    blocks.append(
        Sheet(
            "measures-seconds",
            f"Time, medians of {ROUNDS} rounds",
            [f"whole fit, {TIMED_ROWS:,} rows (ms)", "measure and gradient (ns a row)"],
            {name: [f"{1e3 * fit:.1f}", f"{1e9 * measure:.1f}"] for name, (fit, measure) in medians.items()},
            [
                {"measure": name, "fit_seconds": fit, "measure_seconds_a_row": measure}
                for name, (fit, measure) in medians.items()
            ],
            ["Timings are the only numbers of the study that differ from run to run."],
        )
    )
    return [as_good(samples), likelihood(samples), cheaper(seconds)], blocks


def as_good(samples):
    """The claim that the margin loses nothing against the entropy."""
    losses = {
        (TWO_CLASSES[kind], f"against {rival}", f"labels hidden by {by}"): samples[kind].versus(
            (by,), "margin", rival, "log_loss"
        )
        for kind in samples
        for by in ("margin", *RIVALS)
        for rival in RIVALS
    }
    means = list(losses.values())
    words, worst = max(losses.items(), key=lambda item: item[1].mean)
    return Claim(
        "The squared margin is as good as the entropy: negligible loss in performance.",
        verdict(below(means, MARGIN)),
        f"LogLoss on fresh rows against entropy and log-entropy: {tally(clear(means, -1))} comparisons; at worst {worst:+.4f} "
        f"({', '.join(words)}). 'As good' is taken as: every interval ends below {MARGIN}.",
    )


def likelihood(samples):
    """Whether the likelihood tells the measures apart."""

    def differences_where(margin_hid):
        return {
            f"{rival}, {words}": samples[kind].versus(("margin" if margin_hid else rival,), "margin", rival, "loglik")
            for kind, words in TWO_CLASSES.items()
            for rival in RIVALS
        }

    home, away = differences_where(True), differences_where(False)
    hardly = all(abs(d.mean) + d.half < HARDLY for d in (*home.values(), *away.values()))
    first, second = (", ".join(f"{d:+.1f} ({words})" for words, d in found.items()) for found in (home, away))
    return Claim(
        "Beyond the paper: does the likelihood tell the squared margin from the entropy?",
        "hardly" if hardly else "in places",
        f"Log-likelihood of the margin minus that of the other, where the margin hid the labels: {first}; where the other did: "
        f"{second}. 'Hardly' is taken as less than {HARDLY:g} everywhere.",
    )


def cheaper(seconds):
    """The claim on computing time, from ratios round by round."""
    fit, measure = (
        {rival: mean_of(np.array(times["margin"]) / np.array(times[rival])) for rival in RIVALS}
        for times in (seconds["fit"], seconds["measure"])
    )
    return Claim(
        "The squared margin brings significant computational savings.",
        verdict(below(list(fit.values()), WORTH)),
        f"A whole fit takes {' and '.join(f'{d:.2f} of the time with the {rival}' for rival, d in fit.items())}, the measure and "
        f"its gradient alone {' and '.join(f'{d:.2f}' for d in measure.values())}. 'Significant' is taken as below {WORTH} for "
        "the fit.",
        f"Means of {ROUNDS} ratios of interleaved runs on {TIMED_ROWS:,} rows, with nothing else of the study running. Timings "
        "vary from run to run.",
    )


# Four classes, beyond the paper.


def four_classes(run):
    """The measures with more than two classes."""
    samples, (rows, classes) = computed(run, "four-classes"), KINDS["four-classes"]
    losses = {name: np.mean([samples.of((by,), name, "log_loss") for by in COMPARED], axis=0) for name in COMPARED}
    best, *others = sorted(COMPARED, key=lambda name: float(np.mean(losses[name])))
    behind = {name: mean_of(losses[name] - losses[best]) for name in others}
    near = [name for name, sign in zip(behind, clear(list(behind.values())), strict=True) if sign == 0]
    full = [
        samples.versus((by,), name, "margin", "log_loss") for name in COMPARED[1:] for by in COMPARED[1:] if by != name
    ]
    gains = [samples.versus((by,), name, IGNORED, "log_loss") for by in COMPARED for name in COMPARED]
    claims = [
        Claim(
            "Open in the paper: which uncertainty for more than two classes?",
            " or ".join([best, *near]),
            f"Mean LogLoss over the {len(COMPARED)} mechanisms is smallest with {best}; the others minus it: "
            f"{', '.join(f'{name} {d:+.4f}' for name, d in behind.items())}.",
        ),
        Claim(
            "Measures that use all posteriors beat the margin of the two largest.",
            verdict(clear(full, -1)),
            f"LogLoss minus that with the margin, where neither hid the labels: {spread(full, '+.4f')}; {tally(clear(full, -1))} "
            "comparisons.",
        ),
        Claim(
            "Modelling the mechanism pays even with another measure than the true one.",
            verdict(clear(gains, -1)),
            f"LogLoss minus that of ignoring it: {spread(gains)}; {tally(clear(gains, -1))} combinations of the measure that hid "
            "and the measure fitted.",
        ),
    ]
    text = (
        f"Four Gaussian classes in five dimensions ({classes['separation']} apart), {rows} rows, {percent(RATE)} of the labels "
        "hidden by each measure in turn, fitted with each (tied covariance, logit link)."
    )
    return claims, [text, *shown("four-classes", "Four classes", samples)]
