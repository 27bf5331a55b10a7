"""`ThresholdDisplay`: what a threshold of the probability costs and gains."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marmix.arrays import Array
from marmix.displays.base import Display
from marmix.displays.drawing import BLUE, GREEN, GREY, ORANGE, legend_below, plain, seen
from marmix.displays.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THRESHOLDS = np.arange(101) / 100.0  # a row of probability 0.35 reaches 0.35, which linspace passes by a last digit


class ThresholdDisplay(Display):
    """Precision, recall and accuracy when every row with P(positive) at or above a threshold is called positive.

    Each is for the whole population. A row counts ``r_k`` times as one of the positive class k, and r times in all. Without
    posterior the labelled rows alone count: ``r = w = 1 / (1 - q)`` each, q their probability of a missing label, so that the
    hard rows, whose labels are rare, have their share, and ``r_k = w 1{y = k}``. With a model's posteriors tau all rows count
    once, ``r_k = tau_k + (1 - m) w (1{y = k} - tau_k)``, m = 1 where the label is missing: the doubly robust estimate of
    `marmix.evaluation`. With ``a = 1{p >= threshold}`` and sums over rows,

        precision = sum a r_k / sum a r,    recall = sum a r_k / sum r_k,    accuracy = sum (a r_k + (1 - a) (r - r_k)) / sum r.

    The r_k of the doubly robust estimate may be negative: the results are cut to [0, 1], and recall need not fall everywhere.

    Parameters
    ----------
    thresholds : array of shape (101,)
        0, 0.01, ..., 1.
    precision, recall, accuracy : arrays of shape (101,)
        NaN where the denominator is not positive: precision where no row that counts is called positive, recall where none is.
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

        Rows that the classifier has not seen give an honest picture; those of its fit flatter it a little. Curves are doubly
        robust, its probabilities being the posteriors, where it has a mechanism.

        Parameters
        ----------
        estimator : fitted classifier
        X, y
            Rows and labels, missing where -1, NaN, None or pandas.NA.
        positive : object
            The class that is drawn against the rest; needed where there are more than two, else the second by default.
        ax : matplotlib Axes or None
        """
        return cls.of(Predictions.by(estimator, X, y), positive).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        proba: ArrayLike,
        missing_proba: ArrayLike | None = None,
        *,
        positive: Any = None,
        classes: ArrayLike | None = None,
        posterior: ArrayLike | None = None,
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
        posterior : array-like of shape (n, K) or None
            A model's posteriors of all rows, for the doubly robust estimate; it needs `missing_proba`.
        ax : matplotlib Axes or None
        """
        return cls.of(Predictions.of(y, proba, missing_proba, classes, posterior), positive).plot(ax)

    @classmethod
    def of(cls, given: Predictions, positive: Any) -> "ThresholdDisplay":
        columns = given.columns(positive)
        if len(columns) > 1:
            raise ValueError(
                f"positive= must name the class whose probability is thresholded, one of {given.classes.tolist()}."
            )
        k = columns[0]
        rows = given.against_rest(k)
        right, wrong = at_or_above(rows.p, rows.positive), at_or_above(rows.p, rows.negative)
        return cls(
            thresholds=THRESHOLDS.copy(),
            precision=_share(right, right + wrong),
            recall=_share(right, right[0]),
            accuracy=_share(right + wrong[0] - wrong, right[0] + wrong[0]),
            above=at_or_above(given.proba[:, k], np.ones(len(given.z))).astype(np.int64),
            n=len(given.z),
            positive=given.classes.tolist()[k],
            note=given.note,
        )

    def _draw(self, ax: "Axes") -> None:
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


def _share(part: Array, whole: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0.0, np.clip(part / whole, 0.0, 1.0), np.nan)
