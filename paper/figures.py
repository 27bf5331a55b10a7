"""Two figures of the paper: how well the squared margin approximates the (log-)entropy, and a simulated sample.

With two classes and margin m, ``H = -(1+m)/2 log((1+m)/2) - (1-m)/2 log((1-m)/2)``, and to second order around m = 0

    H = log 2 - m^2 / 2,        log H = log log 2 - m^2 / (2 log 2).
"""

import numpy as np
from scipy.special import entr

from marmix.datasets import make_mar_mixture
from paper.datasets import DISTRIBUTIONS, MAX_MARGIN, RATE, SLOPE
from paper.drawing import BLUE, GREY, RED, legend, lines, panels
from paper.pages import Claim, Picture, Sheet
from paper.summaries import percent, verdict

# The approximation.

LINE = 0.36
COUNTED = 50_000
CLOSE = 0.1  # of the fall of the curve below the line: what "closely matches" is taken to mean


def curves(squared):
    """Exact and approximate entropy and log-entropy of two classes, from the squared margin."""
    m = np.sqrt(squared)
    exact = entr((1 + m) / 2) + entr((1 - m) / 2)
    return {
        "entropy": (exact, np.log(2) - squared / 2),
        "log-entropy": (np.log(exact), np.log(np.log(2)) - squared / (2 * np.log(2))),
    }


def largest_error(squared, exact, taylor):
    """The largest error of an approximation, and the squared margin at which it is reached."""
    error = np.abs(exact - taylor)
    return error.max(), squared[error.argmax()]


def below_the_line(rng):
    """Share of rows with a squared margin of at most 0.36, by distribution, without truncation."""
    margins = {
        name: make_mar_mixture(COUNTED, distribution=name, rate=None, random_state=rng).margin for name in DISTRIBUTIONS
    }
    return {name: float(np.mean(margin**2 <= LINE)) for name, margin in margins.items()}


def approximation(run):
    """The figure, with the errors that the paper does not give."""
    squared = np.linspace(0.0, 0.999, 1000)
    cut = np.searchsorted(squared, LINE, "right")
    plots, columns, falls, rows, words = {}, {"squared_margin": squared}, [], {}, []
    for name, (exact, taylor) in curves(squared).items():
        plots[name] = {"exact": (squared, exact), "second-order Taylor": (squared, taylor)}
        columns |= {f"{name}_exact": exact, f"{name}_taylor": taylor}
        below, at = largest_error(squared[:cut], exact[:cut], taylor[:cut])
        beyond, far = largest_error(squared[cut:], exact[cut:], taylor[cut:])
        falls.append(below / np.ptp(exact[:cut]))
        rows[name] = [f"{below:.4f}", f"{at:.2f}", percent(falls[-1], 1), f"{beyond:.3f}", f"{far:.3f}"]
        words.append(f"{below:.4f} for the {name}, {percent(falls[-1], 1)} of its fall there")
    figure, axes = lines(plots, "squared margin m²", "nats")
    for ax in axes.flat:
        ax.axvline(LINE, color=GREY, linewidth=0.9, linestyle=":")
    shares = run.once(below_the_line, "approximation/below-the-line")
    claims = [
        Claim(
            f"The squared margin closely matches the (log-)entropy below m² = {LINE} (approximation figure).",
            verdict([1 if fall < CLOSE else -1 for fall in falls]),
            f"Largest error below the line: {'; '.join(words)}. 'Closely' is taken as under {percent(CLOSE)}.",
        ),
        Claim(
            f"m² of at most {LINE} covers the majority of observations in practice.",
            verdict([1 if share > 0.5 else -1 for share in shares.values()]),
            "In the paper's simulations without truncation it covers "
            f"{', '.join(f'{percent(share)} ({name.capitalize()})' for name, share in shares.items())} of the rows.",
        ),
    ]
    caption = (
        "Entropy (above) and its logarithm (below) of two classes against the squared margin, with the second-order "
        f"approximation and the paper's line at m² = {LINE} (posterior probabilities 0.2 and 0.8)."
    )
    errors = Sheet(
        "fig-approximation",
        "Largest error of the second-order approximation",
        [
            f"m² up to {LINE}",
            "reached at m²",
            "share of the curve's fall there",
            "beyond, m² up to 0.999",
            "reached at m²",
        ],
        rows,
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    )
    covered = Sheet(
        "fig-approximation-shares",
        f"Rows with m² of at most {LINE}, without truncation",
        ["share"],
        {name.capitalize(): [percent(share, 1)] for name, share in shares.items()},
        [{"distribution": name, "share": share} for name, share in shares.items()],
        [f"{COUNTED:,} rows of each of the paper's distributions."],
    )
    return claims, [Picture("fig-approximation", caption, figure), errors, covered]


# The simulated sample.

ROWS, SHAPE = 500, 0.5
GROUPS = (("missing", -1, GREY, "."), ("class 1", 0, BLUE, "o"), ("class 2", 1, RED, "^"))


def simulation(run):
    """The sample as the paper draws it, and the same classes without truncation."""
    figure, axes = panels(3.5, 5.4, 2)
    signs, words, rows, records = [], [], {}, []
    limits = {"margins up to 0.6, as in the paper": MAX_MARGIN, "all margins": None}
    hiding = {"link": SHAPE, "slope": SLOPE, "rate": RATE}
    for ax, (name, limit) in zip(axes.flat, limits.items(), strict=True):
        data = make_mar_mixture(ROWS, max_margin=limit, random_state=run.seed, **hiding)
        share, missing, labelled = (
            data.missing.mean(),
            data.margin[data.missing].mean(),
            data.margin[~data.missing].mean(),
        )
        near = abs(share - RATE) < 3 * np.sqrt(RATE * (1 - RATE) / ROWS)
        signs.append(1 if labelled > missing and near else -1)
        words.append(
            f"{name}, {percent(share, 1)} of {ROWS} labels are missing, in rows of mean margin {missing:.2f}, against "
            f"{labelled:.2f} of labelled rows"
        )
        rows[name] = []
        for label, code, colour, marker in GROUPS:
            chosen = data.target == code
            ax.scatter(*data.data[chosen].T, s=12, color=colour, marker=marker, linewidths=0, label=label)
            rows[name].append(percent(chosen.mean(), 1))
        ax.set(title=name, xlabel="first feature", ylabel="second feature")
        rows[name] += [f"{labelled:.2f}", f"{missing:.2f}"]
        columns = *data.data.T, data.target, data.target_true, data.missing_proba
        records += [
            dict(zip(("sample", "x1", "x2", "label", "label_true", "missing_proba"), (name, *row), strict=True))
            for row in zip(*columns, strict=True)
        ]
    legend(figure, axes)
    claim = Claim(
        "Labels are hidden near the boundary so that 70 % are missing (simulation figure).",
        verdict([min(signs)]),
        f"With {'; with '.join(words)}.",
        "The paper does not say that it keeps only rows with a margin of at most 0.6.",
    )
    caption = (
        f"{ROWS} rows of two Gaussian classes; labels are hidden by an Aranda-Ordaz mechanism (lambda = {SHAPE}, alpha_1 = "
        f"{SLOPE:g}) so that {percent(RATE)} are missing on average. Above: as in the paper, only rows with a true margin of at "
        "most 0.6 are kept. Below: the same classes without that cut."
    )
    title = "Proportions, and mean true margins of rows with and without a label"
    columns = [*(label for label, *_ in GROUPS), "mean margin, labelled", "mean margin, missing"]
    sheet = Sheet("fig-simulation", title, columns, rows, records)
    return [claim], [Picture("fig-simulation", caption, figure), sheet]
