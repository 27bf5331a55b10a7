"""How well the squared margin stands in for the entropy and its logarithm: the paper's approximation figure.

With two classes and margin m, ``H = -(1+m)/2 log((1+m)/2) - (1-m)/2 log((1-m)/2)``, and to second order around m = 0

    H = log 2 - m^2 / 2,        log H = log log 2 - m^2 / (2 log 2).
"""

import numpy as np
from scipy.special import xlogy

from marmix.arrays import Array
from marmix.datasets import make_mar_mixture
from marmix.displays.drawing import BLUE, GREY, ORANGE, canvas
from marmix.inference.tables import Table
from marmix.study.blocks import Block, Claim, Item, Page, Picture, Sheet
from marmix.study.comparison import DISTRIBUTIONS
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.summaries import FAILS, HOLDS, MIXED, PARTLY, percent

LINE = 0.36
BELOW, COUNTED = "approximation/below-the-line", 50_000
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
    """How many rows lie below the line."""
    return [Piece(BELOW, below_the_line)]


def below_the_line(rng: np.random.Generator) -> dict[str, float]:
    """The share of rows with a squared margin of at most 0.36, by distribution, without truncation."""
    return {
        name: float(
            np.mean(make_mar_mixture(COUNTED, distribution=name, rate=None, random_state=rng).margin ** 2 <= LINE)
        )
        for name in DISTRIBUTIONS
    }


def page(plan: Plan, found: Found) -> Page:
    """The figure, with the errors that the paper does not give."""
    squared = np.linspace(0.0, 0.999, 1000)
    blocks: list[Block] = [_picture(squared), _sheet(squared), _shares_sheet(found[BELOW])]
    return Page("fig-approximation", ITEM.title, _claims(squared, found[BELOW]), blocks)


def _claims(squared: Array, shares: dict[str, float]) -> list[Claim]:
    below, beyond = largest_errors(squared, True), largest_errors(squared, False)
    close = [share < CLOSE for _, _, share in below.values()]
    majority = [share > 0.5 for share in shares.values()]
    return [
        Claim(
            f"The squared margin closely matches the (log-)entropy below m² = {LINE} (approximation figure).",
            HOLDS if all(close) else PARTLY if any(close) else FAILS,
            f"Largest error below the line: {below['entropy'][0]:.4f} for the entropy, "
            f"{percent(below['entropy'][2], 1)} of its fall there; {below['log-entropy'][0]:.4f} for its logarithm, "
            f"{percent(below['log-entropy'][2], 1)}. 'Closely' is taken as under {percent(CLOSE)}.",
            f"Beyond the line the errors reach {beyond['entropy'][0]:.3f} (at m² = {beyond['entropy'][1]:.3f}) and "
            f"{beyond['log-entropy'][0]:.2f} (at {beyond['log-entropy'][1]:.3f}).",
        ),
        Claim(
            f"m² of at most {LINE} covers the majority of observations in practice.",
            HOLDS if all(majority) else MIXED if any(majority) else FAILS,
            "In the paper's simulations without truncation it covers "
            + ", ".join(f"{percent(share)} ({name.capitalize()})" for name, share in shares.items())
            + " of the rows.",
        ),
    ]


def _picture(squared: Array) -> Picture:
    figure, axes = canvas(3.5, 4.6, 2, 1, sharex=True)
    for ax, (name, (exact, taylor)) in zip(axes, curves(squared).items(), strict=True):
        ax.plot(squared, exact, color=BLUE, label="exact")
        ax.plot(squared, taylor, color=ORANGE, linestyle="--", label="second-order Taylor")
        ax.axvline(LINE, color=GREY, linewidth=0.9, linestyle=":", label=f"m² = {LINE}")
        ax.set_ylabel("entropy (nats)" if name == "entropy" else "log of the entropy")
    axes[1].set_xlabel("squared margin m²")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, columnspacing=1.0)
    caption = (
        "Entropy (above) and its logarithm (below) of two classes against the squared margin, with the "
        f"second-order approximation and the paper's line at m² = {LINE} (posterior probabilities 0.2 and 0.8)."
    )
    return Picture("fig-approximation", caption, figure)


def _sheet(squared: Array) -> Sheet:
    below, beyond = largest_errors(squared, True), largest_errors(squared, False)
    rows = [
        [
            f"{below[n][0]:.4f}",
            f"{below[n][1]:.2f}",
            percent(below[n][2], 1),
            f"{beyond[n][0]:.3f}",
            f"{beyond[n][1]:.3f}",
        ]
        for n in below
    ]
    table = Table(
        "Largest error of the second-order approximation",
        [
            f"m² up to {LINE}",
            "reached at m²",
            "share of the curve's fall there",
            "beyond, m² up to 0.999",
            "reached at m²",
        ],
        list(below),
        rows,
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
    return Sheet("fig-approximation", table, records)


def _shares_sheet(shares: dict[str, float]) -> Sheet:
    table = Table(
        f"Rows with m² of at most {LINE}, without truncation",
        ["share"],
        [name.capitalize() for name in shares],
        [[percent(share, 1)] for share in shares.values()],
        notes=[f"{COUNTED:,} rows of each of the paper's distributions."],
    )
    return Sheet("fig-approximation-shares", table, [{"distribution": n, "share": s} for n, s in shares.items()])


ITEM = Item("fig-approximation", "Entropy against the squared margin", pieces, page)
