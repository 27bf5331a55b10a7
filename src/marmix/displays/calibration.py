"""`CalibrationDisplay`: whether rows given 80 % are of the class in 80 of 100 cases."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marmix.arrays import Array
from marmix.displays.base import Display
from marmix.displays.drawing import BLUE, GREY, MARKERS, class_colours, class_words, legend_below, plain, seen
from marmix.displays.predictions import PLAIN, Predictions, Rest
from marmix.displays.rates import even_bins, wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.95  # of the intervals


class CalibrationCurve(NamedTuple):
    """Predicted probabilities and observed rates of one class, in bins of about equally many of the rows that count."""

    predicted: Array  # mean probability of the rows in the bin, each counted r times
    observed: Array  # share of them that are of the class, cut to [0, 1]
    lower: Array  # Wilson's interval of it, by what the rows are worth
    upper: Array
    plain_predicted: Array  # the labelled rows as they are, in bins of their own
    plain_observed: Array
    n: NDArray[np.integer]  # rows in the bin: labelled ones, or all where the estimate is doubly robust


class CalibrationDisplay(Display):
    """Predicted probabilities against observed rates: corrected for the rows without label, and (of one class) plain.

    The observed rate of class k in a bin is ``s = sum r_k / sum r``. Without posterior the labelled rows alone count,
    ``r = w = 1 / (1 - q)`` each and ``r_k = w 1{y = k}``. With a model's posteriors tau all rows count once,
    ``r_k = tau_k + (1 - m) w (1{y = k} - tau_k)``, m = 1 where the label is missing: the doubly robust estimate of
    `marmix.evaluation`. These r_k may be negative, so s is cut to [0, 1].

    Intervals are Wilson's, of as many rows as the bin is worth: ``(sum w)^2 / sum w^2`` over its labelled rows. Of the doubly
    robust estimate it is ``n^2 / sum w`` over all n of them, the same as the mechanism lets expect it, so that a bin of which
    hardly a row can be labelled has a wide interval though its r_k, mere posteriors, scatter little; or
    ``c (1 - c) / V`` where that is less, ``V = sum (r_k - s r)^2 / (sum r)^2`` and c the centre of the first interval.

    Parameters
    ----------
    curves : dict
        A `CalibrationCurve` of each class that is drawn against the rest.
    corrected : bool
        Whether q was known. Without it the curves are those of the labelled rows.
    note : str

    Attributes
    ----------
    note_ : str
    ax_, figure_ : matplotlib Axes and Figure
    """

    _size = (4.4, 4.4)

    def __init__(self, *, curves: dict[Any, CalibrationCurve], corrected: bool, note: str = ""):
        self.curves = curves
        self.corrected = corrected
        self.note_ = note

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, positive: Any = None, n_bins: int = 10, ax: "Axes | None" = None
    ) -> "CalibrationDisplay":
        """Predict rows by a fitted classifier, or a pipeline that ends in one, and draw.

        Rows that the classifier has not seen give an honest picture; those of its fit flatter it a little. Curves are doubly
        robust, its probabilities being the posteriors, where it has a mechanism.

        Parameters
        ----------
        estimator : fitted classifier
        X, y
            Rows and labels, missing where -1, NaN, None or pandas.NA.
        positive : object
            The class that is drawn against the rest. By default the second of two; of more, each.
        n_bins : int, default=10
            Bins, of about equally many rows, or labelled rows where there is no mechanism.
        ax : matplotlib Axes or None
        """
        return cls._of(Predictions.by(estimator, X, y), positive, n_bins).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        proba: ArrayLike,
        missing_proba: ArrayLike | None = None,
        *,
        positive: Any = None,
        classes: ArrayLike | None = None,
        n_bins: int = 10,
        posterior: ArrayLike | None = None,
        ax: "Axes | None" = None,
    ) -> "CalibrationDisplay":
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
        n_bins : int, default=10
        posterior : array-like of shape (n, K) or None
            A model's posteriors of all rows, for the doubly robust estimate; it needs `missing_proba`.
        ax : matplotlib Axes or None
        """
        return cls._of(Predictions.of(y, proba, missing_proba, classes, posterior), positive, n_bins).plot(ax)

    @classmethod
    def _of(cls, given: Predictions, positive: Any, n_bins: int) -> "CalibrationDisplay":
        names = given.classes.tolist()
        curves = {names[k]: _curve(given, k, n_bins) for k in given.columns(positive)}
        return cls(curves=curves, corrected=given.q is not None, note=given.note)

    def _draw(self, ax: "Axes") -> None:
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="perfect")
        single = len(self.curves) == 1
        colours = [seen(BLUE)] if single else class_colours(len(self.curves))
        for i, (name, curve) in enumerate(self.curves.items()):
            main = ("corrected for missing labels" if self.corrected else PLAIN) if single else class_words(name)
            ax.errorbar(
                curve.predicted,
                curve.observed,
                yerr=np.maximum([curve.observed - curve.lower, curve.upper - curve.observed], 0.0),
                color=colours[i],
                marker=MARKERS[i % len(MARKERS)],
                elinewidth=0.8,
                linewidth=0.8,
                label=main,
            )
            if self.corrected and single:  # of several classes it would be too much to read
                ax.plot(
                    curve.plain_predicted,
                    curve.plain_observed,
                    linestyle=":",
                    color=colours[i],
                    marker=MARKERS[i % len(MARKERS)],
                    markerfacecolor="none",
                    linewidth=0.8,
                    label=PLAIN,
                )
        which = f"class {plain(next(iter(self.curves)))}" if single else "the class"
        ax.set(xlabel=f"predicted probability of {which}", ylabel=f"share that is of {which}")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        legend_below(ax)


def _curve(given: Predictions, k: int, n_bins: int) -> CalibrationCurve:
    rows, labelled = _binned(given.against_rest(k), n_bins), _binned(given.plain.against_rest(k), n_bins)
    worth = rows.worth
    if given.posterior is not None:
        centre = np.mean(wilson(rows.share, worth, 1.0 - LEVEL), axis=0)
        with np.errstate(divide="ignore"):
            worth = np.minimum(worth, centre * (1.0 - centre) / rows.variance)
    return CalibrationCurve(
        rows.p, rows.share, *wilson(rows.share, worth, 1.0 - LEVEL), labelled.p, labelled.share, rows.n
    )


class _Bins(NamedTuple):
    p: Array  # mean probability
    share: Array  # that is of the class
    worth: Array  # in rows of weight one
    variance: Array  # of the share, as the rows in the bin scatter
    n: NDArray[np.integer]


def _binned(rows: Rest, n_bins: int) -> _Bins:
    place, _ = even_bins(rows.p, n_bins)

    def total(values: Array) -> Array:
        return np.bincount(place, weights=values).astype(float)

    r = rows.positive + rows.negative
    size = total(r)
    share = np.clip(total(rows.positive) / size, 0.0, 1.0)
    variance = total((rows.positive - share[place] * r) ** 2) / size**2
    return _Bins(total(r * rows.p) / size, share, size**2 / total(rows.square), variance, np.bincount(place))
