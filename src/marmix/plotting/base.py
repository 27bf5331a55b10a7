"""The base class of the displays: where they draw."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Self

from marmix.plotting.drawing import styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        return self._plotted(ax, self._draw)

    def _plotted(self, ax: "Axes | None", draw: Callable[["Axes"], None]) -> Self:
        with styled() if ax is None else nullcontext():
            axes = _new_axes(*self._size) if ax is None else ax
            draw(axes)
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
