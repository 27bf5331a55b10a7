"""Squared margin or entropy? The paper replaces the one by the other: likelihood, log-loss and time."""

import numpy as np

from marmix.inference.tables import Table
from marmix.study.blocks import Block, Claim, Item, Page, Paragraph, Sheet
from marmix.study.measures import KINDS, ROUNDS, TIMED_ROWS, MeasureRuns, compared, pieces_for, timings
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.settings import RATE
from marmix.study.summaries import Mean, mean_of, percent, tally, within

TIMES = "measures/seconds"
CUTS = {"measures": "not truncated", "measures-truncated": "truncated"}
RIVALS = ("entropy", "log-entropy")
MARGIN = 0.005  # LogLoss that 'as good' may lose: the intervals must end below it
HARDLY = 2.0  # of log-likelihood, in samples of this size
WORTH = 0.8  # of the time of a fit: what 'significant computational savings' is taken to mean


def pieces(plan: Plan) -> list[Piece]:
    """Two classes, truncated or not, and the clock."""
    return [*(piece for kind in CUTS for piece in pieces_for(plan, kind)), Piece(TIMES, timings, alone=True)]


def page(plan: Plan, found: Found) -> Page:
    """The squared margin against the entropy: as good, and cheaper."""
    runs = {kind: MeasureRuns(plan, found, kind) for kind in CUTS}
    blocks: list[Block] = [
        Paragraph(
            f"Two Gaussian classes, {KINDS['measures'][0]} rows, {percent(RATE)} of the labels hidden by a logit "
            "mechanism in each measure, fitted with each (tied covariance, logit link); with every margin, and "
            "truncated at 0.6 as in the paper."
        )
    ]
    for kind, words in CUTS.items():
        blocks += [runs[kind].picture(), *runs[kind].sheets(f"Two classes, {words}")]
    blocks.append(_times(found[TIMES]))
    return Page("measures", ITEM.title, [_as_good(runs), _likelihood(runs), _cheaper(found[TIMES])], blocks)


def _as_good(runs: dict[str, MeasureRuns]) -> Claim:
    losses = {(k, h, r): runs[k].versus(h, "margin", r) for k in CUTS for h in ("margin", *RIVALS) for r in RIVALS}
    worst = max(losses, key=lambda key: losses[key].mean)
    return Claim(
        "The squared margin is as good as the entropy: negligible loss in performance.",
        within(list(losses.values()), MARGIN),
        f"LogLoss on fresh rows against entropy and log-entropy: {tally(list(losses.values()), -1)} comparisons; at "
        f"worst {losses[worst].sentence(4)} ({CUTS[worst[0]]}, against {worst[2]}, labels hidden by {worst[1]}). "
        f"'As good' is taken as: every interval ends below {MARGIN}.",
    )


def _likelihood(runs: dict[str, MeasureRuns]) -> Claim:
    home = {(k, r): runs[k].versus("margin", "margin", r, "loglik") for k in CUTS for r in RIVALS}
    away = {(k, r): runs[k].versus(r, "margin", r, "loglik") for k in CUTS for r in RIVALS}
    return Claim(
        "Beyond the paper: does the likelihood tell the squared margin from the entropy?",
        "hardly" if all(abs(d.mean) + d.half < HARDLY for d in (*home.values(), *away.values())) else "in places",
        "Log-likelihood of the margin minus that of the other, where the margin hid the labels: "
        + ", ".join(f"{d.sentence(1)} ({r}, {CUTS[k]})" for (k, r), d in home.items())
        + "; where the other did: "
        + ", ".join(f"{d.sentence(1)} ({r}, {CUTS[k]})" for (k, r), d in away.items())
        + f". 'Hardly' is taken as less than {HARDLY:g} everywhere.",
    )


def _ratios(seconds: dict[str, dict[str, list[float]]], what: str) -> dict[str, Mean]:
    """Time with the margin over that with each rival, round by round."""
    return {r: mean_of(np.array(seconds[what]["margin"]) / np.array(seconds[what][r])) for r in RIVALS}


def _cheaper(seconds: dict[str, dict[str, list[float]]]) -> Claim:
    fits, alone = _ratios(seconds, "fit"), _ratios(seconds, "measure")
    return Claim(
        "The squared margin brings significant computational savings.",
        within(list(fits.values()), WORTH),
        "A whole fit takes "
        + " and ".join(f"{d.text(2)} of the time with the {r}" for r, d in fits.items())
        + ", the measure and its gradient alone "
        + " and ".join(d.text(2) for d in alone.values())
        + f". 'Significant' is taken as below {WORTH} for the fit.",
        f"Means of {ROUNDS} ratios, interleaved, {TIMED_ROWS:,} rows, nothing else running in the study. Timings "
        "vary from run to run.",
    )


def _times(seconds: dict[str, dict[str, list[float]]]) -> Sheet:
    medians = {what: {name: float(np.median(values)) for name, values in by.items()} for what, by in seconds.items()}
    table = Table(
        f"Time, medians of {ROUNDS} rounds",
        [f"whole fit, {TIMED_ROWS:,} rows (ms)", "measure and gradient (ns a row)"],
        compared(),
        [[f"{1e3 * medians['fit'][n]:.1f}", f"{1e9 * medians['measure'][n]:.1f}"] for n in compared()],
        notes=["Timings are the only numbers of the study that differ from run to run."],
    )
    records = [
        {"measure": n, "fit_seconds": medians["fit"][n], "measure_seconds_a_row": medians["measure"][n]}
        for n in compared()
    ]
    return Sheet("measures-seconds", table, records)


ITEM = Item("measures", "Squared margin or entropy? Likelihood, LogLoss and time", pieces, page)
