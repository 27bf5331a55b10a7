"""The paper's scatter figure: a sample with its hidden labels in grey, and the strip of proportions."""

import numpy as np
from sklearn.utils import Bunch

from marmix.datasets import make_mar_mixture
from marmix.displays.drawing import BLUE, GREY, RED, canvas
from marmix.inference.tables import Table
from marmix.study.blocks import Block, Claim, Item, Page, Picture, Sheet
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.settings import MAX_MARGIN, RATE, SLOPE
from marmix.study.summaries import FAILS, HOLDS, percent

ROWS, SHAPE = 500, 0.5
GROUPS = (("missing", -1, GREY, ".", 10), ("class 1", 0, BLUE, "o", 13), ("class 2", 1, RED, "^", 13))


def pieces(plan: Plan) -> list[Piece]:
    """One sample is drawn when the page is made."""
    return []


def page(plan: Plan, found: Found) -> Page:
    """The sample as the paper draws it, and the same classes without truncation."""
    samples = {
        name: make_mar_mixture(
            ROWS, max_margin=limit, link="aranda-ordaz", shape=SHAPE, slope=SLOPE, rate=RATE, random_state=plan.seed
        )
        for name, limit in (("margins up to 0.6, as in the paper", MAX_MARGIN), ("all margins", None))
    }
    blocks: list[Block] = [_picture(samples), _sheet(samples)]
    return Page("fig-simulation", ITEM.title, [_claim(samples)], blocks)


def _margins(data: Bunch) -> tuple[float, float]:
    """Mean true margins of rows with and without a label."""
    missing = data.target < 0
    return float(data.margin[~missing].mean()), float(data.margin[missing].mean())


def _claim(samples: dict[str, Bunch]) -> Claim:
    margins = {name: _margins(data) for name, data in samples.items()}
    shares = {name: float(np.mean(data.target < 0)) for name, data in samples.items()}
    hard = all(labelled > missing for labelled, missing in margins.values())
    close = all(abs(share - RATE) < 3 * np.sqrt(RATE * (1 - RATE) / ROWS) for share in shares.values())
    return Claim(
        "Labels are hidden near the boundary so that 70 % are missing (simulation figure).",
        HOLDS if hard and close else FAILS,
        "With "
        + "; with ".join(
            f"{name}, {percent(shares[name], 1)} of {ROWS} labels are missing, in rows of mean margin "
            f"{missing:.2f}, against {labelled:.2f} of labelled rows"
            for name, (labelled, missing) in margins.items()
        )
        + ".",
        "The paper does not say that it keeps only rows with a margin of at most 0.6.",
    )


def _picture(samples: dict[str, Bunch]) -> Picture:
    figure, axes = canvas(3.5, 5.4, 2, 2, gridspec_kw={"width_ratios": [8, 1]})
    for i, (name, data) in enumerate(samples.items()):
        scatter, strip = axes[i]
        bottom = 0.0
        for label, code, colour, marker, size in GROUPS:
            chosen = data.target == code
            scatter.scatter(
                *data.data[chosen].T, s=size, color=colour, marker=marker, linewidths=0, alpha=0.8, label=label
            )
            share = float(np.mean(chosen))
            strip.bar([0], [share], bottom=bottom, color=colour, width=1.0)
            strip.text(0, bottom + share / 2, percent(share), ha="center", va="center", fontsize=6.5, color="white")
            bottom += share
        scatter.set(title=name, xlabel="first feature" if i else "", ylabel="second feature")
        strip.set_axis_off()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        f"{ROWS} rows of two Gaussian classes; labels are hidden by an Aranda-Ordaz mechanism (lambda = {SHAPE}, "
        f"alpha_1 = {SLOPE:g}) so that {percent(RATE)} are missing on average. Above: as in the paper, only rows "
        "with a true margin of at most 0.6 are kept. Below: the same classes without that cut. The strips show the "
        "proportions."
    )
    return Picture("fig-simulation", caption, figure)


def _sheet(samples: dict[str, Bunch]) -> Sheet:
    rows, records = [], []
    for name, data in samples.items():
        shares = [percent(float(np.mean(data.target == code)), 1) for _, code, *_ in GROUPS]
        rows.append([*shares, *(f"{margin:.2f}" for margin in _margins(data))])
        columns = (data.data[:, 0], data.data[:, 1], data.target, data.target_true, data.missing_proba)
        names = ("x1", "x2", "label", "label_true", "missing_proba")
        records += [{"sample": name} | dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    table = Table(
        "Proportions, and mean true margins of rows with and without a label",
        [*(label for label, *_ in GROUPS), "mean margin, labelled", "mean margin, missing"],
        list(samples),
        rows,
    )
    return Sheet("fig-simulation", table, records)


ITEM = Item("fig-simulation", "A simulated sample with 70 % of the labels missing", pieces, page)
