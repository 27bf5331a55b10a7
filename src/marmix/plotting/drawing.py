"""What all displays share: where they draw, style, colour-blind safe colours, bands, small panels, names and legends."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Self

from marmix.core.arrays import Array

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
    """A colour for each of n classes, at most six."""
    return [paper_colour(colour) for colour in (BLUE, RED, GREEN, PINK, ORANGE, SKY)[:n]]


def figure_text(text: object) -> str:
    """Text from the data as matplotlib shows it: no mathtext, no invisible characters, at most 32 characters."""
    words = " ".join("".join(sign if sign.isprintable() else " " * sign.isspace() for sign in str(text)).split())
    if len(words) > LONGEST_NAME:
        words = words[: LONGEST_NAME - 1] + "…"
    return words.replace("$", r"\$")


def class_label(name: object) -> str:
    """The legend entry of a class."""
    return f"class {figure_text(name)}"


def band(ax: "Axes", x: Array, lower: Array, upper: Array, colour: str, label: str | None = None) -> None:
    """Shade what lies between two curves."""
    ax.fill_between(x, lower, upper, color=paper_colour(colour), alpha=0.2, linewidth=0, label=label)


def rates(ax: "Axes", x: Array, rate: Array, interval: tuple[Array, Array], fmt: str = "o", **look: Any) -> None:
    """Points at observed rates, with their intervals as bars."""
    spread = [(rate - interval[0]).clip(min=0.0), (interval[1] - rate).clip(min=0.0)]
    ax.errorbar(x, rate, yerr=spread, fmt=fmt, elinewidth=0.9, **look)


def panel_size(n: int) -> tuple[float, float]:
    """Width and height, in inches, of a figure of n small panels with a legend."""
    rows, columns = _panel_grid(n)
    return max(1.65 * columns + 0.4, 4.4), 1.6 * rows + 0.9


def panels(ax: "Axes", names: Sequence[object], across: str, up: str) -> list["Axes"]:
    """Small panels with common axes inside `ax`, one for each name."""
    rows, columns = _panel_grid(len(names))
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel(across, labelpad=16)
    ax.set_ylabel(up, labelpad=26)
    ax.spines[:].set_visible(False)
    small: list[Axes] = []
    for i, name in enumerate(names):
        row, column = divmod(i, columns)
        place = (column / columns, 1.0 - (row + 1) / rows, 0.88 / columns, 0.8 / rows)
        first = small[0] if small else None
        panel = ax.inset_axes(place, sharex=first, sharey=first)
        panel.set_title(_panel_name(name), fontsize="medium", pad=3.0)
        panel.tick_params(labelleft=column == 0, labelbottom=i + columns >= len(names), labelsize="small")
        small.append(panel)
    return small


def _panel_grid(n: int) -> tuple[int, int]:
    rows = -(-n // PANELS_ACROSS)
    return rows, -(-n // rows)


def _panel_name(name: object) -> str:
    """The name of a class above a small panel: its beginning and its end if it is long."""
    words = str(name)
    half = PANEL_NAME // 2
    return figure_text(words if len(words) <= PANEL_NAME else f"{words[:half]}\u2026{words[-half:]}")


def legend_below(ax: "Axes", columns: int = 2, further: float = 0.0, **options: Any) -> None:
    """Draw a legend below the label of the x axis, `further` points lower if the label has several lines."""
    from matplotlib.transforms import ScaledTranslation

    under = ax.transAxes + ScaledTranslation(0.0, -(30.0 + further) / 72.0, ax.figure.dpi_scale_trans)
    place: dict[str, Any] = {"bbox_to_anchor": (0.5, 0.0), "bbox_transform": under, "borderaxespad": 0.0}
    ax.legend(loc="upper center", ncols=columns, **place, **options)


class Display:
    """Base class of the displays. Not for direct use.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.
    note_ : str
        A remark for readers of the figure; usually empty.
    """

    ax_: "Axes"
    figure_: Any
    note_: str = ""
    _size: ClassVar[tuple[float, float]] = (4.6, 3.8)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw in. By default a new pyplot figure in the style of the library.

        Returns
        -------
        self
            With `ax_` and `figure_` set.
        """
        with styled() if ax is None else nullcontext():
            axes = _new_axes(*self._size) if ax is None else ax
            self._draw(axes)
        self.ax_, self.figure_ = axes, axes.figure
        return self

    def _draw(self, ax: "Axes") -> None:
        raise NotImplementedError


def _new_axes(width: float, height: float) -> "Axes":
    from matplotlib import pyplot as plt
    from matplotlib import rcParams

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.tick_params(labelsize=rcParams["xtick.labelsize"])  # ticks are created later, outside this style
    return ax
