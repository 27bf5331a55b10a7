"""Beyond the paper: the measures of uncertainty with more than two classes."""

import numpy as np

from marmix.inference.tables import listed
from marmix.mechanism.measures import MEASURES
from marmix.study.blocks import Block, Claim, Item, Page, Paragraph
from marmix.study.measures import IGNORED, KINDS, MeasureRuns, compared, pieces_for
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.settings import RATE
from marmix.study.summaries import clear, difference, percent, tally, verdict

KIND = "four-classes"


def pieces(plan: Plan) -> list[Piece]:
    """Four classes, five features."""
    return pieces_for(plan, KIND)


def page(plan: Plan, found: Found) -> Page:
    """The measures with more than two classes."""
    runs = MeasureRuns(plan, found, KIND)
    rows, classes = KINDS[KIND]
    blocks: list[Block] = [
        Paragraph(
            f"Four Gaussian classes in five dimensions ({classes['separation']} apart), {rows} rows, "
            f"{percent(RATE)} of the labels hidden by each measure in turn, fitted with each (tied covariance, "
            "logit link)."
        ),
        runs.picture(),
        *runs.sheets("Four classes"),
    ]
    return Page(KIND, ITEM.title, _claims(runs), blocks)


def _claims(runs: MeasureRuns) -> list[Claim]:
    names = compared()
    every = {name: np.mean([runs.of(h, name) for h in names], axis=0) for name in names}
    order = sorted(names, key=lambda name: float(np.mean(every[name])))
    behind = {name: difference(every[name], every[order[0]]) for name in order[1:]}
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
            listed([order[0], *near], "or"),
            f"Mean LogLoss over the {len(names)} mechanisms is smallest with {order[0]}; the others minus it: "
            + ", ".join(f"{name} {d.sentence(4)}" for name, d in behind.items())
            + ".",
        ),
        Claim(
            "Measures that use all posteriors beat the margin of the two largest.",
            verdict(full, -1),
            f"LogLoss minus that with the margin, where neither hid the labels: {min(d.mean for d in full):+.4f} to "
            f"{max(d.mean for d in full):+.4f}; {tally(full, -1)} comparisons.",
        ),
        Claim(
            "Modelling the mechanism pays even with another measure than the true one.",
            verdict(gains, -1),
            f"LogLoss minus that of ignoring it: {min(d.mean for d in gains):+.3f} to "
            f"{max(d.mean for d in gains):+.3f}; {tally(gains, -1)} combinations of the measure that hid and the "
            "measure fitted.",
        ),
    ]


ITEM = Item(KIND, "Beyond the paper: four classes, which uncertainty?", pieces, page)
