"""`ThresholdDisplay`: what a threshold of the probability costs and gains."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marmix.displays.base import Display
from marmix.displays.drawing import BLUE, GREEN, GREY, ORANGE, legend_below, plain, seen
from marmix.displays.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

THRESHOLDS = np.linspace(0.0, 1.0, 101)


class ThresholdDisplay(Display):
    """Precision, recall and accuracy when every row with P(positive) at or above a threshold is called positive.

    Each is for the whole population: labelled rows count ``w = 1 / (1 - q)`` each, q their probability of a missing label,
    so that the hard rows, whose labels are rare, have their share; see `marmix.evaluation`. With ``a = 1{p >= threshold}`` and
    sums over the labelled rows,

        precision = sum w a 1{y = positive} / sum w a,    recall = sum w a 1{y = positive} / sum w 1{y = positive},
        accuracy  = sum w 1{a = 1{y = positive}} / sum w.

    Parameters
    ----------
    thresholds : array of shape (101,)
        0, 0.01, ..., 1.
    precision, recall, accuracy : arrays of shape (101,)
        NaN where they have no meaning: precision where no labelled row is called positive, recall where there is no such row.
    above : integer array of shape (101,)
        How many of all rows, labelled or not, are called positive.
    n : int
        Rows.
    positive : object
        The class.
    note : str

    Attributes
    ----------
    note_ : str
    ax_, figure_ : matplotlib Axes and Figure
    """

    def __init__(
        self,
        *,
        thresholds: Array,
        precision: Array,
        recall: Array,
        accuracy: Array,
        above: NDArray[np.integer],
        n: int,
        positive: Any,
        note: str = "",
    ):
        self.thresholds = thresholds
        self.precision, self.recall, self.accuracy = precision, recall, accuracy
        self.above = above
        self.n = n
        self.positive = positive
        self.note_ = note

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, positive: Any = None, ax: "Axes | None" = None
    ) -> "ThresholdDisplay":
        """Predict rows by a fitted classifier, or a pipeline that ends in one, and draw.

        Rows that the classifier has not seen give an honest picture; those of its fit flatter it a little.

        Parameters
        ----------
        estimator : fitted classifier
        X, y
            Rows and labels, missing where -1, NaN, None or pandas.NA.
        positive : object
            The class that is drawn against the rest; needed where there are more than two, else the second by default.
        ax : matplotlib Axes or None
        """
        return cls._of(Predictions.by(estimator, X, y), positive).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        proba: ArrayLike,
        missing_proba: ArrayLike | None = None,
        *,
        positive: Any = None,
        classes: ArrayLike | None = None,
        ax: "Axes | None" = None,
    ) -> "ThresholdDisplay":
        """The same from the probabilities of a classifier of any kind.

        Parameters
        ----------
        y : array-like of shape (n,)
        proba : array-like of shape (n, K)
        missing_proba : array-like of shape (n,) or None
            q of each row; None leaves the labelled rows as they are, which `note_` says.
        positive : object
        classes : array-like of shape (K,) or None
            The classes of the columns; by default those in y, sorted.
        ax : matplotlib Axes or None
        """
        return cls._of(Predictions.of(y, proba, missing_proba, classes), positive).plot(ax)

    @classmethod
    def _of(cls, given: Predictions, positive: Any) -> "ThresholdDisplay":
        columns = given.columns(positive)
        if len(columns) > 1:
            raise ValueError(
                f"positive= must name the class whose probability is thresholded, one of {given.classes.tolist()}."
            )
        k = columns[0]
        rows = given.against_rest(k)
        right, wrong = (at_or_above(rows.p, rows.weight * own) for own in (rows.is_positive, ~rows.is_positive))
        with np.errstate(invalid="ignore"):
            precision, recall = right / (right + wrong), right / right[0]
        return cls(
            thresholds=THRESHOLDS.copy(),
            precision=precision,
            recall=recall,
            accuracy=(right + wrong[0] - wrong) / (right[0] + wrong[0]),
            above=at_or_above(given.proba[:, k], np.ones(len(given.z))).astype(np.int64),
            n=len(given.z),
            positive=given.classes.tolist()[k],
            note=given.note,
        )

    def _draw(self, ax: "Axes", **options: Any) -> None:
        name = plain(self.positive)
        lines = (
            (self.precision, f"precision: share of rows called {name} that are", BLUE, "-"),
            (self.recall, f"recall: share of rows that are {name} that are called so", ORANGE, "--"),
            (self.accuracy, "accuracy: share of all rows that are called rightly", GREEN, "-."),
            (self.above / self.n, f"share of rows called {name}", GREY, ":"),
        )
        for values, words, colour, dashes in lines:
            ax.plot(self.thresholds, 100.0 * values, color=seen(colour), linestyle=dashes, label=words)
        ax.set(xlabel=f"called {name} if its probability is at least", ylabel="share, %", xlim=(0, 1), ylim=(-2, 102))
        legend_below(ax, columns=1)


def at_or_above(p: Array, weight: Array) -> Array:
    """Total weight of the rows at or above every threshold."""
    place = np.searchsorted(THRESHOLDS, p, side="right") - 1  # the last threshold that the row reaches
    own: Array = np.bincount(place, weights=weight, minlength=len(THRESHOLDS)).astype(float)
    return np.cumsum(own[::-1])[::-1]
