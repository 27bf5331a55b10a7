"""`SensitivityDisplay`: what follows if labels are missing because of the label."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from marmix.inference.sensitivity import Sensitivity
from marmix.plotting.drawing import BLUE, GREY, ORANGE, RED, Display, band, figure_text, legend_below, paper_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICKS = {0.1: "1/10", 0.125: "1/8", 0.25: "1/4", 0.5: "1/2", 1.0: "1", 2.0: "2", 4.0: "4", 8.0: "8", 10.0: "10"}


@dataclass(kw_only=True, eq=False, repr=False)
class SensitivityDisplay(Display):
    """What follows if rows of a class lose their labels more, or less, often than others that look alike.

    The curves are the share of the class, and the imputed labels that would be wrong or would change.

    The x axis is the odds ratio: how many times as likely rows of the class are to lose their label as other rows that
    look alike. Bands are 95 % intervals.

    Parameters
    ----------
    sensitivity : Sensitivity
        The analysis, as returned by `clf.sensitivity(X, y)`.

    See Also
    --------
    marmix.MARLogisticRegression.sensitivity : The analysis.
    MissingnessDisplay : The mechanism that the analysis varies.

    Examples
    --------
    What if rows of class 1 are twice, or half, as likely to lose their labels as rows of class 0 that look alike?

    >>> import numpy as np
    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import SensitivityDisplay
    >>> rows = make_mar_mixture(300, measure="entropy", random_state=0)
    >>> clf = MARLogisticRegression(measure="entropy").fit(rows.data, rows.target)
    >>> result = clf.sensitivity(rows.data, rows.target, delta=np.log([0.5, 1.0, 2.0]), label=1)
    >>> for odds, share in zip(result.odds_ratio, result.share):
    ...     print(f"odds ratio {odds:.1f}: {share:.0%} of all rows are of class 1")
    odds ratio 0.5: 45% of all rows are of class 1
    odds ratio 1.0: 51% of all rows are of class 1
    odds ratio 2.0: 57% of all rows are of class 1
    >>> display = SensitivityDisplay.from_sensitivity(result)
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    sensitivity: Sensitivity
    _size: ClassVar[tuple[float, float]] = (5.2, 4.0)

    @classmethod
    def from_sensitivity(cls, sensitivity: Sensitivity, *, ax: "Axes | None" = None) -> "SensitivityDisplay":
        """Draw an analysis that was computed before, by `clf.sensitivity(X, y)`.

        Parameters
        ----------
        sensitivity : Sensitivity
            The analysis, with two or more values of delta.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.

        Returns
        -------
        SensitivityDisplay
            The display, drawn.

        """
        return cls(sensitivity=sensitivity).plot(ax)

    def _draw(self, ax: "Axes") -> None:
        result, name = self.sensitivity, figure_text(self.sensitivity.varied)
        odds, scale = result.odds_ratio, 100.0 / max(result.n_unlabelled, 1e-300)
        top = 1.0
        for values, interval, words, colour, line in (
            (100.0 * result.share, 100.0 * result.share_interval, f"all rows that are {name}", BLUE, "o-"),
            (100.0 * result.error, 100.0 * result.error_interval, "imputed labels that would be wrong", RED, "s--"),
            (scale * result.flips, scale * result.flips_interval, "imputed labels that would change", ORANGE, "^-."),
        ):
            ax.plot(odds, values, line, color=paper_colour(colour), markersize=3, label=words)
            band(ax, odds, interval[:, 0], interval[:, 1], colour)
            top = max(top, 1.3 * float(np.max(interval)))
        ax.set_xscale("log")
        ax.set_xticks(list(TICKS), list(TICKS.values()))
        ax.set_xticks([], minor=True)
        ax.axvline(1.0, color=GREY, linewidth=0.8)
        ax.set(xlim=(odds[0] / 1.1, odds[-1] * 1.1), ylim=(0.0, top), ylabel="%")
        ax.set_xlabel(f"how many times as likely {name} is to lose its label\nas another class in rows that look alike")
        place = ax.get_xaxis_transform()
        ax.text(1.0, 1.01, "as the model assumes", transform=place, ha="center", color=GREY, fontsize="x-small")
        legend_below(ax, columns=1, further=10.0)
