"""The missing-proportion figure: AUC against the proportion of missing labels."""

import numpy as np

from paper.datasets import CUTS, RATE, draw
from paper.drawing import lines
from paper.methods import (
    ECM_AO,
    EVERY_LABEL,
    IGNORED,
    LABELLED_ROWS,
    LOGISTIC,
    LOGISTIC_CV,
    MAR_LOGISTIC,
    MAR_TIED,
    fitted,
)
from paper.metrics import METRICS, published_scores
from paper.pages import Claim, Picture, Sheet
from paper.summaries import Samples, below, clear, mean_of, percent, verdict

RATES = tuple(round(float(r), 2) for r in np.arange(0.50, 0.951, 0.05))
ROWS, SHAPE = 500, 0.5
SHOWN = (EVERY_LABEL, ECM_AO, IGNORED, LOGISTIC, LOGISTIC_CV, MAR_TIED, MAR_LOGISTIC)
LARGE, LARGE_SAMPLES, TRUE = (
    50_000,
    20,
    {"intercept": 0.0, "slope of the first feature": 2.0, "slope of the second": 0.0},
)
SLIGHT = 0.05  # bias of a coefficient that does not count
MARGIN = 0.01  # of AUC or LogLoss: what 'keeps' and 'preserves' may lose


def replicate(rng, truncated):
    """Scores on training rows and on fresh rows, the same at every rate, with ever fewer labels."""
    seeds, seed = rng.integers(2**31, size=2), int(rng.integers(2**31))
    results = {}
    for rate in RATES:
        train, fresh = draw(seeds, "gaussian", truncated, ROWS, rate, SHAPE)
        fits = fitted(SHOWN, train.data, train.target, train.target_true, seed)
        p = {name: fit.estimator.predict_proba(train.data)[:, 0] for name, fit in fits.items()}
        results[rate, "fresh"] = {name: fit.scores(fresh.data, fresh.target_true) for name, fit in fits.items()}
        results[rate, "training"] = {
            name: published_scores(train.target_true == 0, values) for name, values in p.items()
        }
    return results


def large_sample(rng):
    """Coefficients of logistic regression from every label and from those left."""
    train, _ = draw(rng.integers(2**31, size=2), "gaussian", False, LARGE, RATE, SHAPE)
    coefficients = {}
    for name, y in {"every label": train.target_true, "labels left": train.target}.items():
        fit = LABELLED_ROWS[LOGISTIC](0, y).fit(train.data[y >= 0], y[y >= 0])
        coefficients[name] = dict(zip(TRUE, (fit.intercept_[0], *fit.coef_[0]), strict=True))
    return coefficients


def page(run):
    """AUC and log-loss against the rate."""
    n = run.n(5, 100)
    values = run.samples(replicate, n, {(cut,): (f"proportion/{CUTS[cut]}", {"truncated": cut}) for cut in CUTS})
    samples = Samples({
        (cut, *at): [value[at] for value in values[(cut,)]] for cut in CUTS for at in values[(cut,)][0]
    })  # fmt: skip
    large = Samples(run.samples(large_sample, LARGE_SAMPLES, {(): ("proportion/large", {})}))
    turned = [percent(samples.mean((True, RATES[-1], "training"), name, "turned").mean) for name in (ECM_AO, LOGISTIC)]

    def picture(stem, rows, metric, names, caption, cuts=CUTS):
        plots = {
            f"Gaussian, {CUTS[cut]}": samples.curves({100 * r: ((cut, r, rows), metric) for r in RATES}, names)
            for cut in cuts
        }
        figure, axes = lines(plots, "labels missing, %", f"{METRICS[metric]} on {rows} rows")
        for ax in axes.flat:
            ax.set_yscale("log" if metric == "log_loss" else "linear")
        return Picture(f"fig-missing-proportion{stem}", caption, figure)

    over = (
        f"against the proportion of missing labels; means over {n} samples of {ROWS} rows with 95 % bands. Above: truncated rows "
        "as in the paper. Below: not truncated."
    )
    alone = f"AUC on the training rows of truncated samples, as in the paper's figure: means over {n} samples with 95 % bands."
    blocks = [
        "## As published",
        f"Gaussian classes, {ROWS} rows of margin at most 0.6, labels hidden with lambda = {SHAPE}, AUC on the training rows in "
        f"whichever direction is above one half: it was turned at 95 % missing in {turned[0]} of samples for ECM-AO and in "
        f"{turned[1]} for logistic regression. The paper prints the figure without numbers.",
        picture("-published", "training", "auc", (ECM_AO, LOGISTIC), alone, [True]),
        "## Honest",
        "AUC and LogLoss on fresh rows, with stronger baselines and without the truncation as well.",
        picture("", "fresh", "auc", SHOWN, f"AUC on fresh rows {over}"),
        picture("-logloss", "fresh", "log_loss", SHOWN, f"LogLoss on fresh rows (log scale) {over}"),
        sheet(samples, n),
        large_sheet(large),
    ]
    return claims(samples, large), blocks


def claims(samples, large):
    """The claims on the figure."""

    def rises(name, metric, rows="fresh"):
        """Change of a score from the first rate to the last, on the same rows."""
        ends = ([samples.of((cut, rate, rows), name, metric) for rate in (RATES[-1], RATES[0])] for cut in CUTS)
        return [mean_of(last - first) for last, first in ends]

    def words(name, metric, rows="fresh"):
        return ", ".join(f"{d:+.3f} ({cut})" for d, cut in zip(rises(name, metric, rows), CUTS.values(), strict=True))

    bias = [mean_of(large.of((), "labels left", name) - truth) for name, truth in TRUE.items()]
    small = below([max(d, -d) for d in bias], SLIGHT)  # of the absolute values
    return [
        Claim(
            "ECM-AO keeps its AUC as labels get fewer (missing-proportion figure).",
            verdict(below([-d for d in rises(ECM_AO, "auc")], MARGIN)),
            f"AUC on fresh rows at 95 % missing minus that at 50 %: {words(ECM_AO, 'auc')}. 'Keeps' is taken as losing less than "
            f"{MARGIN}.",
            f"As published, on training rows: {words(ECM_AO, 'auc', 'training')}.",
        ),
        Claim(
            "Logistic regression progressively degrades (missing-proportion figure).",
            verdict(clear(rises(LOGISTIC, "auc"), -1)),
            f"The same difference for logistic regression: {words(LOGISTIC, 'auc')}; with C by cross-validation: "
            f"{words(LOGISTIC_CV, 'auc')}; with the mechanism ({MAR_LOGISTIC}): {words(MAR_LOGISTIC, 'auc')}.",
        ),
        Claim(
            "ECM-AO preserves calibration as labels get fewer.",
            verdict(below(rises(ECM_AO, "log_loss"), MARGIN)),
            f"LogLoss on fresh rows at 95 % missing minus that at 50 %: {words(ECM_AO, 'log_loss')}; {MAR_LOGISTIC}: "
            f"{words(MAR_LOGISTIC, 'log_loss')}. 'Preserves' is taken as losing less than {MARGIN}.",
        ),
        Claim(
            "Training on the observed labels alone induces selection bias.",
            verdict([-min(small)]),
            f"Logistic regression on {LARGE:,} rows, {percent(RATE)} of the labels missing by the mechanism: intercept and "
            f"slopes minus the true ones (0, 2, 0) are {', '.join(f'{d:+.3f}' for d in bias)}. No bias is taken as less than "
            f"{SLIGHT}.",
            "The mechanism depends on the features alone, so the distribution of the class given the features stays the same: "
            "precision is lost, but there is no bias."
            if min(small) == 1
            else "",
        ),
    ]


def sheet(samples, n):
    """AUC at some rates, and all scores at all rates."""
    records = [
        record
        for cut, words in CUTS.items()
        for rows in ("fresh", "training")
        for record in samples.records(
            {(cut, rate, rows): {"setting": words, "rate": rate, "rows": rows} for rate in RATES},
            SHOWN,
            ("auc", "log_loss", "brier"),
        )
    ]
    columns = {(cut, rate, "fresh"): f"{CUTS[cut]}, {percent(rate)}" for cut in CUTS for rate in (0.5, 0.7, 0.9, 0.95)}
    notes = [
        f"Means over {n} samples of {ROWS} rows ± half the 95 % interval; hidden with lambda = {SHAPE}. The CSV has every rate, "
        "LogLoss and Brier score, and the scores on training rows.",
        *samples.troubles([(cut, rate, "fresh") for cut in CUTS for rate in RATES], SHOWN),
    ]
    rows = {name: [samples.mean(setting, name, "auc") for setting in columns] for name in SHOWN}
    return Sheet("fig-missing-proportion", "AUC on fresh rows", list(columns.values()), rows, records, notes)


def large_sheet(large):
    """Coefficients of logistic regression on many rows."""
    means = {labels: {name: large.mean((), labels, name) for name in TRUE} for labels in ("every label", "labels left")}
    return Sheet(
        "fig-missing-proportion-large",
        f"Logistic regression on {LARGE:,} rows, not truncated",
        list(TRUE),
        {"true": [f"{truth:.1f}" for truth in TRUE.values()], **{k: list(v.values()) for k, v in means.items()}},
        [
            {"labels": labels, "coefficient": name, "true": TRUE[name], **mean._asdict()}
            for labels, by_name in means.items()
            for name, mean in by_name.items()
        ],
        [
            f"Means over {LARGE_SAMPLES} samples ± half the 95 % interval; {percent(RATE)} of the labels missing by the "
            "mechanism."
        ],
    )
