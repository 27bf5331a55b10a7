"""How well the squared margin stands in for the entropy and its logarithm: the paper's approximation figure.

With two classes and margin m, ``H = -(1+m)/2 log((1+m)/2) - (1-m)/2 log((1-m)/2)``, and to second order around m = 0

    H = log 2 - m^2 / 2,        log H = log log 2 - m^2 / (2 log 2).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from marmix.inference.tables import Table
from marmix.study.blocks import Claim, Item, Page, Picture, Sheet
from marmix.study.drawing import BLUE, GREY, ORANGE, canvas
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.summaries import FAILS, HOLDS, PARTLY, percent

Array = NDArray[np.float64]

LINE = 0.36
CLOSE = 0.1  # of the fall of the curve below the line: what "closely matches" is taken to mean


def entropy_of(squared: Array) -> Array:
    """Entropy of two classes from the squared margin."""
    m = np.sqrt(squared)
    return -xlogy((1 + m) / 2, (1 + m) / 2) - xlogy((1 - m) / 2, (1 - m) / 2)


def curves(squared: Array) -> dict[str, tuple[Array, Array]]:
    """Exact and approximate curves by name."""
    exact = entropy_of(squared)
    with np.errstate(divide="ignore"):
        return {
            "entropy": (exact, np.log(2) - squared / 2),
            "log-entropy": (np.log(exact), np.log(np.log(2)) - squared / (2 * np.log(2))),
        }


def largest_errors(squared: Array, below: bool) -> dict[str, tuple[float, float, float]]:
    """By name: the largest error on one side of the line, where it is, and its share of the exact curve's fall below."""
    out = {}
    chosen = squared <= LINE if below else squared > LINE
    for name, (exact, taylor) in curves(squared).items():
        error = np.abs(exact - taylor)[chosen]
        at = int(np.argmax(error))
        span = float(np.ptp(exact[squared <= LINE]))
        out[name] = float(error[at]), float(squared[chosen][at]), float(error[at]) / span
    return out


def pieces(plan: Plan) -> list[Piece]:
    """Nothing random."""
    return []


def page(plan: Plan, found: Found) -> Page:
    """The figure, with the errors that the paper does not give."""
    squared = np.linspace(0.0, 0.999, 1000)
    below, beyond = largest_errors(squared, True), largest_errors(squared, False)
    figure, axes = canvas(6.4, 2.8, 1, 2)
    for ax, (name, (exact, taylor)) in zip(axes, curves(squared).items(), strict=True):
        ax.plot(squared, exact, color=BLUE, label="exact")
        ax.plot(squared, taylor, color=ORANGE, linestyle="--", label="second-order Taylor")
        ax.axvline(LINE, color=GREY, linewidth=0.9, linestyle=":", label=f"m² = {LINE}")
        ax.set(xlabel="squared margin m²", ylabel=f"{name} (nats)" if name == "entropy" else "log of the entropy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    rows = [
        [below[n][0], percent(below[n][2], 1), beyond[n][0], beyond[n][1], percent(beyond[n][2])]
        for n in ("entropy", "log-entropy")
    ]
    table = Table(
        "Largest error of the second-order approximation",
        [f"m² up to {LINE}", "share of the curve's fall there", "beyond (m² up to 0.999)", "at m²", "the same share"],
        ["entropy", "log-entropy"],
        rows,
        notes=[
            f"The first error is reached at m² = {LINE} itself. Towards m² = 1 the logarithm of the entropy falls "
            "without bound, a straight line does not."
        ],
    )
    records = [
        {"squared_margin": float(s)}
        | {
            f"{n}_{w}": float(pair[j][i])
            for n, pair in curves(squared).items()
            for j, w in ((0, "exact"), (1, "taylor"))
        }
        for i, s in enumerate(squared)
    ]
    close = [below[n][2] < CLOSE for n in below]
    claim = Claim(
        f"The squared margin closely matches the (log-)entropy below m² = {LINE} (approximation figure).",
        HOLDS if all(close) else PARTLY if any(close) else FAILS,
        f"Largest error below the line: {below['entropy'][0]:.4f} for the entropy, "
        f"{percent(below['entropy'][2], 1)} of its fall there; {below['log-entropy'][0]:.4f} for its logarithm, "
        f"{percent(below['log-entropy'][2], 1)}.",
        f"'Closely' is taken as under {percent(CLOSE)}. Beyond the line the errors reach {beyond['entropy'][0]:.3f} "
        f"and {beyond['log-entropy'][0]:.2f} (at m² = {beyond['log-entropy'][1]:.3f}), and without truncation many "
        "rows lie there.",
    )
    caption = (
        "Entropy (left) and its logarithm (right) of two classes against the squared margin, with the second-order "
        f"approximation and the paper's line at m² = {LINE} (posterior probabilities 0.2 and 0.8)."
    )
    return Page(
        "fig-approximation",
        ITEM.title,
        [claim],
        [Picture("fig-approximation", caption, figure), Sheet("fig-approximation", table, records)],
    )


ITEM = Item("fig-approximation", "Entropy against the squared margin", pieces, page)
