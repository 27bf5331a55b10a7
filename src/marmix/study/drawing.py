"""Styles of the study's figures: a line style for each method, distinct in grey too, and means with their intervals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marmix.plotting.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY
from marmix.study import methods
from marmix.study.summaries import Mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES: dict[str, dict[str, Any]] = {
    methods.BAYES: {"color": GREY, "linestyle": ":"},
    methods.EVERY_LABEL: {"color": GREY, "linestyle": "-"},
    methods.ECM_AO: {"color": BLUE, "linestyle": "-", "marker": "o"},
    methods.ECM_LOGIT: {"color": SKY, "linestyle": "--", "marker": "s"},
    methods.IGNORED: {"color": SKY, "linestyle": ":", "marker": "v"},
    methods.LOGISTIC: {"color": ORANGE, "linestyle": "--", "marker": "^"},
    methods.SWAPPED: {"color": GREY, "linestyle": ":", "marker": "x"},
    methods.LOGISTIC_CV: {"color": RED, "linestyle": "-.", "marker": "D"},
    methods.MAR_LOGISTIC: {"color": GREEN, "linestyle": "-", "marker": "P"},
    methods.MAR_QUADRATIC: {"color": GREEN, "linestyle": "--", "marker": "P"},
    methods.MAR_TIED: {"color": PINK, "linestyle": "-", "marker": "X"},
    methods.MAR_EIGHT: {"color": SKY, "linestyle": "-", "marker": "s"},
    methods.IGNORED_EIGHT: {"color": SKY, "linestyle": ":", "marker": "s"},
    methods.BOOSTING: {"color": BLACK, "linestyle": ":", "marker": "*"},
    methods.AVERAGE: {"color": BLACK, "linestyle": "-", "marker": "h"},
}
# colours and markers of groups, in their order
STYLES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D"), (RED, "v"), (BLACK, "P"))


def curve(axes: "Axes", x: Sequence[float], means: Sequence[Mean], name: str, style: dict[str, Any]) -> None:
    """Draw a line of means with a band of 95 % intervals."""
    axes.plot(x, [m.mean for m in means], **style, markersize=3, label=name)
    axes.fill_between(
        x, [m.low for m in means], [m.high for m in means], color=style["color"], alpha=0.15, linewidth=0, zorder=0
    )


def fit_to_lines(axes: "Axes", lines: Sequence[Sequence[Mean]]) -> None:
    """Set the y limits by the means only: a wide band may leave the frame."""
    means = [mean.mean for line in lines for mean in line if np.isfinite(mean.mean)]
    room = 0.08 * (max(means) - min(means)) + 1e-3
    axes.set_ylim(min(means) - room, max(means) + room)


def error_lengths(means: Sequence[Mean]) -> list[list[float]]:
    """Distances from each mean to both ends of its interval, as matplotlib's error bars take them."""
    return [[m.mean - m.low for m in means], [m.high - m.mean for m in means]]


def differences(axes: "Axes", names: Sequence[str], groups: dict[str, list[Mean]]) -> None:
    """Draw differences with their intervals: a row for each name, a marker for each group."""
    shift = 0.7 / max(1, len(groups))
    for j, (group, means) in enumerate(groups.items()):
        colour, marker = STYLES[j]
        y = [i + (j - (len(groups) - 1) / 2) * shift for i in range(len(names))]
        x, errors = [m.mean for m in means], error_lengths(means)
        axes.errorbar(x, y, xerr=errors, fmt=marker, color=colour, elinewidth=0.9, markersize=3.5, label=group)
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
