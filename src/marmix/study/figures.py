"""Two figures of the paper: how well the squared margin approximates the (log-)entropy, and a simulated sample.

With two classes and margin m, ``H = -(1+m)/2 log((1+m)/2) - (1-m)/2 log((1-m)/2)``, and to second order around m = 0

    H = log 2 - m^2 / 2,        log H = log log 2 - m^2 / (2 log 2).
"""

import numpy as np
from scipy.special import xlogy
from sklearn.utils import Bunch

from marmix.core.arrays import Array
from marmix.datasets import make_mar_mixture
from marmix.inference.tables import Table
from marmix.plotting.drawing import BLUE, GREY, ORANGE, RED, canvas
from marmix.study.comparison import DISTRIBUTIONS
from marmix.study.pages import Claim, Item, Page, Picture, Sheet
from marmix.study.paper import MAX_MARGIN, RATE, SLOPE
from marmix.study.pieces import Piece, Plan, Values
from marmix.study.summaries import FAILS, HOLDS, MIXED, PARTLY, percent

# The approximation.

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
    """By name: largest error on one side of the line, its position, and its share of the exact curve's fall below."""
    errors = {}
    chosen = squared <= LINE if below else squared > LINE
    for name, (exact, taylor) in curves(squared).items():
        error = np.abs(exact - taylor)[chosen]
        at = int(np.argmax(error))
        span = float(np.ptp(exact[squared <= LINE]))
        errors[name] = float(error[at]), float(squared[chosen][at]), float(error[at]) / span
    return errors


def below_the_line(rng: np.random.Generator) -> dict[str, float]:
    """Share of rows with a squared margin of at most 0.36, by distribution, without truncation."""
    margins = {
        name: make_mar_mixture(COUNTED, distribution=name, rate=None, random_state=rng).margin for name in DISTRIBUTIONS
    }
    return {name: float(np.mean(margin**2 <= LINE)) for name, margin in margins.items()}


def approximation_page(plan: Plan, values: Values) -> Page:
    """The figure, with the errors that the paper does not give."""
    squared = np.linspace(0.0, 0.999, 1000)
    below, beyond = largest_errors(squared, True), largest_errors(squared, False)
    shares: dict[str, float] = values[BELOW]
    close = [share < CLOSE for _, _, share in below.values()]
    majority = [share > 0.5 for share in shares.values()]
    claims = [
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
    errors = Table(
        "Largest error of the second-order approximation",
        [
            f"m² up to {LINE}",
            "reached at m²",
            "share of the curve's fall there",
            "beyond, m² up to 0.999",
            "reached at m²",
        ],
        list(below),
        [
            [f"{low[0]:.4f}", f"{low[1]:.2f}", percent(low[2], 1), f"{high[0]:.3f}", f"{high[1]:.3f}"]
            for low, high in zip(below.values(), beyond.values(), strict=True)
        ],
    )
    columns = {
        f"{name}_{kind}": curve
        for name, pair in curves(squared).items()
        for kind, curve in zip(("exact", "taylor"), pair, strict=True)
    }
    records = [
        {"squared_margin": float(s)} | {name: float(curve[i]) for name, curve in columns.items()}
        for i, s in enumerate(squared)
    ]
    covered = Table(
        f"Rows with m² of at most {LINE}, without truncation",
        ["share"],
        [name.capitalize() for name in shares],
        [[percent(share, 1)] for share in shares.values()],
        notes=[f"{COUNTED:,} rows of each of the paper's distributions."],
    )
    sheets = [
        Sheet("fig-approximation", errors, records),
        Sheet("fig-approximation-shares", covered, [{"distribution": n, "share": s} for n, s in shares.items()]),
    ]
    return Page("fig-approximation", APPROXIMATION.title, claims, [_curves_picture(squared), *sheets])


def _curves_picture(squared: Array) -> Picture:
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


APPROXIMATION = Item(
    "fig-approximation",
    "Entropy against the squared margin",
    lambda plan: [Piece(BELOW, below_the_line)],
    approximation_page,
)

# The simulated sample.

ROWS, SHAPE = 500, 0.5
GROUPS = (("missing", -1, GREY, ".", 10), ("class 1", 0, BLUE, "o", 13), ("class 2", 1, RED, "^", 13))


def simulation_page(plan: Plan, values: Values) -> Page:
    """The sample as the paper draws it, and the same classes without truncation."""
    samples = {
        name: make_mar_mixture(
            ROWS, max_margin=limit, link="aranda-ordaz", shape=SHAPE, slope=SLOPE, rate=RATE, random_state=plan.seed
        )
        for name, limit in (("margins up to 0.6, as in the paper", MAX_MARGIN), ("all margins", None))
    }
    margins = {
        name: (float(data.margin[~data.missing].mean()), float(data.margin[data.missing].mean()))
        for name, data in samples.items()
    }
    missing_share = {name: float(np.mean(data.missing)) for name, data in samples.items()}
    hard = all(labelled > missing for labelled, missing in margins.values())
    close = all(abs(share - RATE) < 3 * np.sqrt(RATE * (1 - RATE) / ROWS) for share in missing_share.values())
    claim = Claim(
        "Labels are hidden near the boundary so that 70 % are missing (simulation figure).",
        HOLDS if hard and close else FAILS,
        "With "
        + "; with ".join(
            f"{name}, {percent(missing_share[name], 1)} of {ROWS} labels are missing, in rows of mean margin "
            f"{missing:.2f}, against {labelled:.2f} of labelled rows"
            for name, (labelled, missing) in margins.items()
        )
        + ".",
        "The paper does not say that it keeps only rows with a margin of at most 0.6.",
    )
    rows, records = [], []
    for name, data in samples.items():
        shares = [percent(float(np.mean(data.target == code)), 1) for _, code, *_ in GROUPS]
        rows.append([*shares, *(f"{margin:.2f}" for margin in margins[name])])
        columns = (data.data[:, 0], data.data[:, 1], data.target, data.target_true, data.missing_proba)
        names = ("x1", "x2", "label", "label_true", "missing_proba")
        records += [{"sample": name} | dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    table = Table(
        "Proportions, and mean true margins of rows with and without a label",
        [*(label for label, *_ in GROUPS), "mean margin, labelled", "mean margin, missing"],
        list(samples),
        rows,
    )
    sheet = Sheet("fig-simulation", table, records)
    return Page("fig-simulation", SIMULATION.title, [claim], [_samples_picture(samples), sheet])


def _samples_picture(samples: dict[str, Bunch]) -> Picture:
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


SIMULATION = Item(
    "fig-simulation", "A simulated sample with 70 % of the labels missing", lambda plan: [], simulation_page
)
