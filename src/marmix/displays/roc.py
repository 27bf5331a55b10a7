"""`RocDisplay`: how well one class is told from the rest, for the whole population and over the labelled rows."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_curve

from marmix.displays.base import Display
from marmix.displays.drawing import BLUE, GREY, class_colours, class_words, legend_below, plain, seen
from marmix.displays.predictions import PLAIN, Predictions
from marmix.evaluation import roc_auc

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

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

        Rows that the classifier has not seen give an honest picture; those of its fit flatter it a little.

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
        ax : matplotlib Axes or None
        **options
            Of `plot`.
        """
        return cls._of(Predictions.of(y, proba, missing_proba, classes), positive).plot(ax, **options)

    @classmethod
    def _of(cls, given: Predictions, positive: Any) -> "RocDisplay":
        names = given.classes.tolist()
        curves = {names[k]: _curve(given, k) for k in given.columns(positive)}
        return cls(curves=curves, corrected=given.q is not None, note=given.note)

    def _draw(self, ax: "Axes", *, name: str | None = None, **line: Any) -> None:
        """One curve of a given name and line style, as beside those of other classifiers; or all of them, with a legend."""
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
            ax.plot(*_thinned(curve.false_positives, curve.true_positives), color=colour, label=label, **line)
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
    rows = given.against_rest(k)
    if rows.is_positive.all() or not rows.is_positive.any():
        raise ValueError(
            f"class {given.classes.tolist()[k]!r} against the rest: a ROC curve needs labelled rows of both."
        )
    known = given.z >= 0
    p = given.proba[:, k]
    score = roc_auc(
        np.where(known, given.z == k, -1),
        np.column_stack([1.0 - p, p]),
        np.zeros(len(p)) if given.q is None else given.q,
        classes=[0, 1],
    )
    weighted = roc_curve(rows.is_positive, rows.p, sample_weight=rows.weight)
    bare = roc_curve(rows.is_positive, rows.p)
    return RocCurve(weighted[0], weighted[1], score.value, score.stderr, bare[0], bare[1], score.plain)


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    chosen = np.unique(np.linspace(0, len(x) - 1, DRAWN).astype(int)) if len(x) > DRAWN else slice(None)
    return x[chosen], y[chosen]
