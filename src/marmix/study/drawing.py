"""How figures look: sizes, colours that everybody can tell apart, line styles that survive grey printing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marmix.study import methods
from marmix.study.summaries import Mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette
BLUE, SKY, ORANGE, RED, GREEN, PINK, GREY, BLACK = (
    "#0072B2",
    "#56B4E9",
    "#E69F00",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#8C8C8C",
    "#000000",
)
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
STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "savefig.dpi": 180,
    "svg.hashsalt": "marmix",
}


def styled() -> Any:
    """The context in which figures are drawn and saved."""
    from matplotlib import rc_context

    return rc_context(STYLE)


def canvas(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple["Figure", Any]:
    """A figure (inches) and its axes; no window is opened."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def curve(axes: "Axes", x: Sequence[float], means: Sequence[Mean], name: str, style: dict[str, Any]) -> None:
    """A line of means with its band of 95 % intervals."""
    axes.plot(x, [m.mean for m in means], **style, markersize=3, label=name)
    axes.fill_between(
        x, [m.low for m in means], [m.high for m in means], color=style["color"], alpha=0.15, linewidth=0, zorder=0
    )


def fit_to_lines(axes: "Axes", lines: Sequence[Sequence[Mean]]) -> None:
    """Limits of y by the means alone: a wide band may leave the frame."""
    means = [mean.mean for line in lines for mean in line if np.isfinite(mean.mean)]
    room = 0.08 * (max(means) - min(means)) + 1e-3
    axes.set_ylim(min(means) - room, max(means) + room)


def differences(axes: "Axes", names: Sequence[str], groups: dict[str, list[Mean]]) -> None:
    """Differences with their intervals: a line of points for every name, a marker for every group."""
    styles = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D"), (RED, "v"), (BLACK, "P"))
    shift = 0.7 / max(1, len(groups))
    for j, (group, means) in enumerate(groups.items()):
        colour, marker = styles[j]
        y = [i + (j - (len(groups) - 1) / 2) * shift for i in range(len(names))]
        axes.errorbar(
            [m.mean for m in means],
            y,
            xerr=[[m.mean - m.low for m in means], [m.high - m.mean for m in means]],
            fmt=marker,
            color=colour,
            markersize=3.5,
            elinewidth=0.9,
            label=group,
        )
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
