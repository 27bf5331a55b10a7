"""`ThresholdDisplay`: precision, recall and accuracy by threshold."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from marmix.core.arrays import Array, Ints
from marmix.plotting.drawing import BLUE, GREEN, GREY, ORANGE, figure_text, legend_below, paper_colour
from marmix.plotting.predictions import PredictionDisplay, Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


THRESHOLDS = np.arange(101) / 100.0  # a row of probability 0.35 reaches 0.35, unlike with linspace


def at_or_above(p: Array, weight: Array) -> Array:
    """Total weight of the rows at or above every one of `THRESHOLDS`."""
    place = np.searchsorted(THRESHOLDS, p, side="right") - 1  # the highest threshold that the row reaches
    weights: Array = np.bincount(place, weights=weight, minlength=len(THRESHOLDS)).astype(float)
    return np.cumsum(weights[::-1])[::-1]


def _share(part: Array, total: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0.0, np.clip(part / total, 0.0, 1.0), np.nan)


@dataclass(kw_only=True, eq=False, repr=False)
class ThresholdDisplay(PredictionDisplay):
    r"""Precision, recall and accuracy when every row with P(positive) at or above a threshold is called positive.

    All three are estimates for the population, with the pseudo-labels r_k of `marmix.evaluation`: weighted labelled
    rows or, with posteriors, all rows (doubly robust). With r their sum over the classes, a = 1 for rows called
    positive and a = 0 for others, and sums over rows,

    .. math::

        \text{precision} = \frac{\sum a\, r_k}{\sum a\, r}, \quad \text{recall} = \frac{\sum a\, r_k}{\sum r_k}, \quad
        \text{accuracy} = \frac{\sum a\, r_k + (1 - a) (r - r_k)}{\sum r}.

    Doubly robust r_k may be negative: the results are clipped to [0, 1], and recall may rise here and there. With
    ``missing_proba=0``, r_k is the label of a labelled row and the posterior of an unlabelled one:
    recall then never rises.

    Parameters
    ----------
    thresholds : array of shape (101,)
        0, 0.01, ..., 1.
    precision, recall, accuracy : arrays of shape (101,)
        NaN where the denominator is not positive.
    above : integer array of shape (101,)
        How many of all rows, labelled or not, are called positive.
    n : int
        Number of rows.
    positive : object
        The positive class.
    note_ : str, default=""
        A remark for readers.

    See Also
    --------
    RocDisplay : True against false positives, whatever the threshold.
    CalibrationDisplay : Whether the probabilities can be taken at their word.
    marmix.evaluation.accuracy : Accuracy of the most probable class, with a standard error.

    Examples
    --------
    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import ThresholdDisplay
    >>> rows = make_mar_mixture(600, rate=0.4, random_state=0)
    >>> clf = MARLogisticRegression().fit(rows.data, rows.target)
    >>> display = ThresholdDisplay.from_estimator(clf, rows.data, rows.target, positive=1)
    >>> for at in (30, 50, 70):
    ...     precision, recall = display.precision[at], display.recall[at]
    ...     print(f"threshold {display.thresholds[at]:.1f}: precision {precision:.2f}, recall {recall:.2f}")
    threshold 0.3: precision 0.79, recall 0.87
    threshold 0.5: precision 0.87, recall 0.81
    threshold 0.7: precision 0.95, recall 0.70
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    thresholds: Array
    precision: Array
    recall: Array
    accuracy: Array
    above: Ints
    n: int
    positive: Any
    note_: str = ""

    @classmethod
    def of(cls, predictions: Predictions, positive: Any) -> Self:
        """Compute the display without drawing it."""
        columns = predictions.columns(positive)
        if len(columns) > 1:
            raise ValueError(
                f"positive= must name the class whose probability is thresholded, one of {predictions.classes.tolist()}."
            )
        k = columns[0]
        rows = predictions.against_rest(k)
        right, wrong = at_or_above(rows.p, rows.positive), at_or_above(rows.p, rows.negative)
        return cls(
            thresholds=THRESHOLDS.copy(),
            precision=_share(right, right + wrong),
            recall=_share(right, right[:1]),
            accuracy=_share(right + wrong[:1] - wrong, right[:1] + wrong[:1]),
            above=at_or_above(predictions.proba[:, k], np.ones(len(predictions.proba))).astype(np.int64),
            n=len(predictions.proba),
            positive=predictions.classes.tolist()[k],
            note_=predictions.note,
        )

    def _draw(self, ax: "Axes") -> None:
        name = figure_text(self.positive)
        for values, words, colour, dashes in (
            (self.precision, f"precision: share of rows called {name} that are {name}", BLUE, "-"),
            (self.recall, f"recall: share of {name} rows that are called {name}", ORANGE, "--"),
            (self.accuracy, "accuracy: share of all rows called correctly", GREEN, "-."),
            (self.above / self.n, f"share of rows called {name}", GREY, ":"),
        ):
            ax.plot(self.thresholds, 100.0 * values, color=paper_colour(colour), linestyle=dashes, label=words)
        ax.set(xlabel=f"threshold: called {name} at or above this probability", ylabel="share, %")
        ax.set(xlim=(0, 1), ylim=(-2, 102))
        legend_below(ax, columns=1)
