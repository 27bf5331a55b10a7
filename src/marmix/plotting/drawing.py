"""The look of figures: style, colour-blind safe colours, names and legends."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

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
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
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
PAPER, INK = "#16181D", "#E6E6E6"  # of dark figures
DARK: dict[Any, Any] = {
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
LONGEST_NAME = 32
PANELS_ACROSS, MOST_PANELS = 6, 30  # small panels in a row of a figure, and in a figure
PANEL_NAME = 20  # characters above a small panel


def require_matplotlib() -> None:
    """Raise an ImportError that says how to install matplotlib if it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'marmix[plot]'") from None


def styled(dark: bool = False) -> Any:
    """A context manager that sets the style of figures, for light or dark pages."""
    require_matplotlib()
    from matplotlib import rc_context

    return rc_context(STYLE | DARK if dark else STYLE)


def canvas(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple["Figure", Any]:
    """A figure (size in inches) and its axes, without opening a window."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def ink() -> Any:
    """The text colour of the current style."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def paper_colour(colour: str) -> str:
    """A colour of the palette for the current style: lighter on dark paper."""
    from matplotlib.colors import to_hex, to_rgb

    if sum(to_rgb(ink())) < 1.5:
        return colour
    red, green, blue = (0.7 * part + 0.3 for part in to_rgb(colour))
    return to_hex((red, green, blue))


def class_colours(n: int) -> list[str]:
    """A colour for each of n classes, from the palette or, if there are more, a colour map."""
    palette = [BLUE, RED, GREEN, PINK, ORANGE, SKY]
    if n <= len(palette):
        return [paper_colour(colour) for colour in palette[:n]]
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps["turbo"](np.linspace(0.05, 0.95, n))]


def figure_text(text: object) -> str:
    """Text from the data as matplotlib shows it: no mathtext, no invisible characters, at most 32 characters."""
    words = " ".join("".join(sign if sign.isprintable() else " " * sign.isspace() for sign in str(text)).split())
    if len(words) > LONGEST_NAME:
        words = words[: LONGEST_NAME - 1] + "…"
    return words.replace("$", r"\$")


def class_label(name: object) -> str:
    """The legend entry of a class."""
    return f"class {figure_text(name)}"


def panel_grid(n: int) -> tuple[int, int]:
    """Rows and columns of n small panels."""
    rows = -(-n // PANELS_ACROSS)
    return rows, -(-n // rows)


def panel_size(n: int) -> tuple[float, float]:
    """Width and height, in inches, of a figure of n small panels with a legend."""
    rows, columns = panel_grid(n)
    return max(1.65 * columns + 0.4, 4.4), 1.75 * rows + 0.7


def panels(ax: "Axes", names: Sequence[object], across: str, up: str) -> tuple[list["Axes"], "Axes"]:
    """Small panels with common axes in the place of `ax`, one for each name, and axes below them for a legend."""
    from matplotlib.gridspec import GridSpec, GridSpecFromSubplotSpec

    rows, columns = panel_grid(len(names))
    place, figure = ax.get_subplotspec(), cast(Any, ax.figure)
    shape: dict[str, Any] = {"nrows": rows + 1, "ncols": columns, "height_ratios": [1.0] * rows + [0.01]}
    if place is None:
        box = ax.get_position()
        sides = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
        grid: Any = GridSpec(figure=figure, **shape, **sides)
    else:
        grid = GridSpecFromSubplotSpec(subplot_spec=place, **shape)
    ax.set_axis_off()
    small: list[Axes] = []
    for i, name in enumerate(names):
        first = small[0] if small else None
        panel = figure.add_subplot(grid[i // columns, i % columns], sharex=first, sharey=first)
        panel.set_title(f"\u2018{_panel_name(name)}\u2019", fontsize="medium")
        panel.tick_params(labelleft=i % columns == 0, labelbottom=i + columns >= len(names))
        if i % columns == 0:
            panel.set_ylabel(up)
        if i + columns >= len(names):
            panel.set_xlabel(across)
        small.append(panel)
    below = figure.add_subplot(grid[rows, :])
    below.set_axis_off()
    return small, below


def panel_legend(ax: "Axes", below: "Axes", **options: Any) -> None:
    """Draw the legend of the panels in the place of `ax`, in as many columns as fit."""
    width = ax.get_window_extent().width / ax.figure.dpi
    below.legend(loc="center", ncols=max(1, min(4, int(width / 1.9))), **options)


def _panel_name(name: object) -> str:
    """The name of a class above a small panel: its beginning and its end if it is long."""
    words = str(name)
    half = PANEL_NAME // 2
    return figure_text(words if len(words) <= PANEL_NAME else f"{words[:half]}\u2026{words[-half:]}")


def legend_below(ax: "Axes", columns: int = 2, further: float = 0.0, **options: Any) -> None:
    """Draw a legend below the label of the x axis, `further` points lower if the label has several lines."""
    from matplotlib.transforms import ScaledTranslation

    under = ax.transAxes + ScaledTranslation(0.0, -(30.0 + further) / 72.0, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=under,
        borderaxespad=0.0,
        ncols=columns,
        **options,
    )
