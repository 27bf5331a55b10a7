"""`RocDisplay`: how well one class is told from the rest, for the whole population and over the labelled rows."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from marmix.arrays import Array
from marmix.displays.base import Display
from marmix.displays.drawing import BLUE, GREY, class_colours, class_words, legend_below, plain, seen
from marmix.displays.predictions import PLAIN, Predictions, Rest
from marmix.evaluation import roc_auc

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN = 2000  # most points of a curve on paper


class RocCurve(NamedTuple):
    """Rates of false and true positives, and the area below; plain ones are over the labelled rows as they are."""

    false_positives: Array
    true_positives: Array
    area: float
    stderr: float  # of the area
    plain_false_positives: Array
    plain_true_positives: Array
    plain_area: float


class RocDisplay(Display):
    """ROC curves: corrected for the rows without label, and plain.

    A row counts ``r_k`` times as one of class k and ``r - r_k`` times as one of the rest. Without posterior the labelled rows
    alone count, ``r = w = 1 / (1 - q)`` each and ``r_k = w 1{y = k}``. With a model's posteriors tau all rows count once,
    ``r_k = tau_k + (1 - m) w (1{y = k} - tau_k)``, m = 1 where the label is missing: the doubly robust estimate of
    `marmix.evaluation`. At every threshold t,

        true positives  = sum of r_k where p >= t / sum r_k,
        false positives = sum of r - r_k where p >= t / sum of r - r_k.

    The r_k of the doubly robust estimate may be negative. The area is that of the curve as it is; what is drawn are the rates
    that never fall and lie in [0, 1] which are nearest to it by least squares.

    Parameters
    ----------
    curves : dict
        A `RocCurve` of each class that is drawn against the rest. Areas are those of `marmix.evaluation.roc_auc`.
    corrected : bool
        Whether q was known. Without it the curves are those of the labelled rows.
    note : str

    Attributes
    ----------
    note_ : str
    ax_, figure_ : matplotlib Axes and Figure
    """

    _size = (4.4, 4.4)

    def __init__(self, *, curves: dict[Any, RocCurve], corrected: bool, note: str = ""):
        self.curves = curves
        self.corrected = corrected
        self.note_ = note

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, positive: Any = None, ax: "Axes | None" = None, **options: Any
    ) -> "RocDisplay":
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
        ax : matplotlib Axes or None
        **options
            Of `plot`.
        """
        return cls._of(Predictions.by(estimator, X, y), positive).plot(ax, **options)

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
        **options: Any,
    ) -> "RocDisplay":
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
        **options
            Of `plot`.
        """
        return cls._of(Predictions.of(y, proba, missing_proba, classes, posterior), positive).plot(ax, **options)

    @classmethod
    def _of(cls, given: Predictions, positive: Any) -> "RocDisplay":
        names = given.classes.tolist()
        curves = {names[k]: _curve(given, k) for k in given.columns(positive)}
        return cls(curves=curves, corrected=given.q is not None, note=given.note)

    def plot(self, ax: "Axes | None" = None, *, name: str | None = None, **line: Any) -> "RocDisplay":
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw. None opens a figure by pyplot, in the style of the library.
        name : str or None
            With a name the curves alone are drawn under it, for axes that hold those of other classifiers too; legend and words
            of the axes are left to you.
        **line
            Of the curves: properties of matplotlib's lines.

        Returns
        -------
        self
        """
        return self._plotted(ax, lambda axes: self._draw(axes, name, **line))

    def _draw(self, ax: "Axes", name: str | None = None, **line: Any) -> None:
        if name is not None:
            for curve in self.curves.values():
                ax.plot(*_thinned(curve.false_positives, curve.true_positives), label=name, **line)
            return
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="guessing: area 0.5")
        single = len(self.curves) == 1
        colours = [seen(BLUE)] if single else class_colours(len(self.curves))
        for (key, curve), colour in zip(self.curves.items(), colours, strict=True):
            main = ("corrected for missing labels" if self.corrected else PLAIN) if single else class_words(key)
            label = f"{main}: area {curve.area:.3f} ± {1.96 * curve.stderr:.3f}"
            drawn = {"color": colour, "label": label} | line
            ax.plot(*_thinned(curve.false_positives, curve.true_positives), **drawn)
            if self.corrected:
                words = f"{PLAIN}: area {curve.plain_area:.3f}" if single else None
                points = _thinned(curve.plain_false_positives, curve.plain_true_positives)
                ax.plot(*points, ":", color=colour, linewidth=1.0, label=words)
        if self.corrected and not single:
            ax.plot([], [], ":", color=GREY, label=PLAIN)
        which = f"class {plain(next(iter(self.curves)))}" if single else "the class"
        ax.set(
            xlabel=f"of rows that are not of {which}, share called so", ylabel=f"of rows of {which}, share called so"
        )
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        legend_below(ax, columns=1)


def _curve(given: Predictions, k: int) -> RocCurve:
    known, name = given.z >= 0, given.classes.tolist()[k]
    own = given.z == k
    if own[known].all() or not own.any():
        raise ValueError(f"class {name!r} against the rest: a ROC curve needs labelled rows of both.")
    rows = given.against_rest(k)
    if not (rows.positive.sum() > 0.0 and rows.negative.sum() > 0.0):
        raise ValueError(
            f"class {name!r} against the rest: the corrected number of rows of one of them is not positive. There are too few "
            "labels for a ROC curve with posterior=."
        )
    p = given.proba[:, k]
    score = roc_auc(
        np.where(known, own, -1),
        np.column_stack([1.0 - p, p]),
        np.zeros(len(p)) if given.q is None else given.q,
        classes=[0, 1],
        posterior=given.posterior_against_rest(k),
    )
    bare = _drawn_rates(given.plain.against_rest(k))
    return RocCurve(*_drawn_rates(rows), score.value, score.stderr, *bare, score.plain)


def called(rows: Rest) -> tuple[Array, Array]:
    """Negatives and positives at or above every probability, from the highest on, after none at all."""
    _, place = np.unique(-rows.p, return_inverse=True)
    negative, positive = (
        np.concatenate([[0.0], np.cumsum(np.bincount(place, weights=r))]) for r in (rows.negative, rows.positive)
    )
    return negative, positive


def _drawn_rates(rows: Rest) -> tuple[Array, Array]:
    """False and true positives at the points that scikit-learn keeps: none on a straight line between others."""
    false, true = map(_rising, called(rows))
    corner = np.ones(len(true), dtype=bool)
    corner[2:-1] = (np.diff(false[1:], 2) != 0.0) | (np.diff(true[1:], 2) != 0.0)
    return false[corner] / false[-1], true[corner] / true[-1]


def _rising(counts: Array) -> Array:
    """The nearest counts that never fall and lie between nothing and all."""
    if (np.diff(counts) >= 0.0).all():
        return counts
    return np.clip(isotonic_regression(counts).x, 0.0, counts[-1])


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    chosen = np.unique(np.linspace(0, len(x) - 1, DRAWN).astype(int)) if len(x) > DRAWN else slice(None)
    return x[chosen], y[chosen]
