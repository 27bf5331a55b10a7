"""Figures: lines with their 95 % bands, and differences with their intervals; distinct in grey too."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from paper import methods
from paper.summaries import Mean

# Okabe and Ito's palette
BLUE, SKY, ORANGE, RED = "#0072B2", "#56B4E9", "#E69F00", "#D55E00"
GREEN, PINK, GREY, BLACK = "#009E73", "#CC79A7", "#8C8C8C", "#000000"
STYLE: Any = {
    **dict.fromkeys(("font.size", "axes.titlesize"), 8.0),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "lines.markersize": 3.0,
    "savefig.dpi": 180,
}
LINES = {  # colour, and dashes and marker, of methods
    methods.BAYES: (GREY, ":"),
    methods.EVERY_LABEL: (GREY, "-"),
    methods.ECM_AO: (BLUE, "-o"),
    methods.DEFINED: (BLUE, "-o"),
    methods.ECM_LOGIT: (SKY, "--s"),
    methods.IGNORED: (SKY, ":v"),
    methods.SCRIPT: (SKY, ":v"),
    methods.LOGISTIC: (ORANGE, "--^"),
    methods.SWAPPED: (GREY, ":x"),
    methods.LOGISTIC_CV: (RED, "-.D"),
    methods.MAR_LOGISTIC: (GREEN, "-P"),
    methods.MAR_QUADRATIC: (GREEN, "--P"),
    methods.MAR_TIED: (PINK, "-X"),
    methods.MAR_EIGHT: (SKY, "-s"),
    methods.BOOSTING: (BLACK, ":*"),
    methods.AVERAGE: (BLACK, "-h"),
}
OTHERS = ((BLUE, "-o"), (ORANGE, "--s"), (GREEN, "-.^"), (PINK, ":D"), (RED, "-v"), (BLACK, "--P"))


def panels(width, height, rows=1, columns=1, **options):
    """A figure (size in inches) and an array of its axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def lines(plots, xlabel, ylabel=""):
    """A panel for each title, with a line (x, y) for each name; means have a band of their 95 % intervals."""
    figure, axes = panels(3.5, 0.8 + 2.1 * len(plots), len(plots), sharex=True)
    for ax, (title, named) in zip(axes.flat, plots.items(), strict=True):
        bands = []
        for i, (name, (x, y)) in enumerate(named.items()):
            colour, form = LINES.get(name, OTHERS[i % len(OTHERS)])
            if isinstance(y[0], Mean):
                y, low, high, _ = np.transpose(y)
                bands.append((x, low, high, colour))
            ax.plot(x, y, form, color=colour, markevery=1 + len(x) // 20, label=name)
        limits = ax.get_ylim()  # of the lines only: a wide band may leave the frame
        for x, low, high, colour in bands:
            ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.set(title=title, ylabel=ylabel, ylim=limits)
    axes.flat[-1].set_xlabel(xlabel)
    legend(figure, axes)
    return figure, axes


def legend(figure, axes):
    """A legend below all panels, with every name once."""
    named = {}
    for ax in axes.flat:
        named |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    columns = 1 if max(map(len, named)) > 20 else 2
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)


def differences(names, groups, xlabel):
    """Differences with their intervals: a row for each name, a marker for each group."""
    figure, axes = panels(3.5, 0.11 * len(names) * max(2, len(groups)) + 1.5)
    ax = axes[0, 0]
    for j, (group, means) in enumerate(groups.items()):
        colour, form = OTHERS[j % len(OTHERS)]
        y = np.arange(len(names)) + 0.7 * ((j + 0.5) / len(groups) - 0.5)
        x, half = [m.mean for m in means], [m.half for m in means]
        ax.errorbar(x, y, xerr=half, fmt=form[-1], color=colour, elinewidth=0.9, label=group)
        if max(map(abs, x)) > 0.15:  # a few would squeeze all others
            ax.set_xscale("symlog", linthresh=0.05, linscale=1.5)
            ax.set_xticks([-0.05, 0.0, 0.05, 0.5], ["-.05", "0", ".05", ".5"])
    ax.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(xlabel)
    legend(figure, axes)
    return figure
