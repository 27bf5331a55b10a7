"""`RocDisplay`: how well the probabilities separate one class from the rest."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.optimize import isotonic_regression

from marmix.core.arrays import Array
from marmix.evaluation import roc_auc
from marmix.plotting.drawing import GREY, ORANGE, legend_below, paper_colour
from marmix.plotting.predictions import CURVES_TOGETHER, PLAIN, AgainstRest, ClassCurvesDisplay, Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN = 2000  # most points of a drawn curve


class RocCurve(NamedTuple):
    """False and true positive rates of one class against the rest, and the area below the curve.

    Attributes
    ----------
    false_positives, true_positives : arrays of shape (p,)
        The curve, corrected for missing labels.
    area, stderr : float
        The area, and its standard error.
    plain_false_positives, plain_true_positives : arrays
        The curve of the labelled rows.
    plain_area : float
        Its area.
    """

    false_positives: Array
    true_positives: Array
    area: float
    stderr: float  # of the area
    plain_false_positives: Array
    plain_true_positives: Array
    plain_area: float


class RocDisplay(ClassCurvesDisplay):
    r"""ROC curves, corrected for missing labels and uncorrected.

    With the pseudo-labels r_k of `marmix.evaluation`, which weight the labelled rows or, with posteriors, count all
    rows (doubly robust), and their sum r over the classes, the true and false positive rates at a threshold t are

    .. math::

        \frac{\sum_{p \ge t} r_k}{\sum r_k} \quad \text{and} \quad \frac{\sum_{p \ge t} (r - r_k)}{\sum (r - r_k)}.

    Doubly robust r_k may be negative. The area is that of the raw curve; the drawn rates are the nearest ones by least
    squares that never fall and lie in [0, 1].

    Parameters
    ----------
    curves : dict
        A `RocCurve` for each class drawn against the rest: `false_positives`, `true_positives`, `area`, `stderr`, and
        the same of the labelled rows in `plain_false_positives`, `plain_true_positives` and `plain_area`. Areas are
        those of `marmix.evaluation.roc_auc`.
    corrected : bool
        Whether q was given. Without it the curves are those of the labelled rows.
    note : str, default=""
        A remark for readers, kept as `note_`.

    See Also
    --------
    marmix.evaluation.roc_auc : The area alone.
    CalibrationDisplay : Whether the probabilities themselves are right.
    ThresholdDisplay : Precision, recall and accuracy at every threshold.

    Examples
    --------
    The labelled rows are easy to separate. The correction is for the rows that lost their labels:

    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import RocDisplay
    >>> rows = make_mar_mixture(600, rate=0.4, random_state=0)
    >>> clf = MARLogisticRegression().fit(rows.data, rows.target)
    >>> display = RocDisplay.from_estimator(clf, rows.data, rows.target)
    >>> curve = display.curves[1]
    >>> print(f"labelled rows: {curve.plain_area:.2f}, all rows: {curve.area:.2f} ± {curve.stderr:.2f}")
    labelled rows: 0.96, all rows: 0.92 ± 0.01

    Several classifiers can be drawn in the same axes:

    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> _ = display.plot(ax, name="logistic regression", color="tab:blue")
    >>> plt.close("all")
    """

    @classmethod
    def _drawn(cls, predictions: Predictions, positive: Any, ax: "Axes | None", **options: Any) -> Self:
        return cls._of(predictions, positive, lambda k: _curve(predictions, k)).plot(ax, **options)

    def plot(self, ax: "Axes | None" = None, *, name: str | None = None, **line: Any) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw in. By default a new pyplot figure in the style of the library.
        name : str or None, default=None
            Draw only the curves, labelled with this name, to compare several classifiers in the same axes. Legend and
            axis labels are then up to you.
        **line
            Properties of matplotlib lines, for the curves.

        Returns
        -------
        self
            With `ax_` and `figure_` set.
        """
        return self._plotted(ax, lambda axes: self._draw(axes, name, **line))

    def _draw(self, ax: "Axes", name: str | None = None, **line: Any) -> None:
        if name is not None:
            for curve in self.curves.values():
                ax.plot(*_thinned(curve.false_positives, curve.true_positives), label=name, **line)
            return
        if len(self.curves) > CURVES_TOGETHER:
            self._panels(ax, "false positives", "true positives")
            return
        single = len(self.curves) == 1
        for curve, colour, words in self._looks():
            label = f"{words}: area {_within(curve.area):.3f}"
            plain = f": area {_within(curve.plain_area):.3f}" if single else None
            self._draw_curve(ax, curve, colour, label, plain, line)
        ax.set(xlabel="false positives: share of the other rows called so")
        ax.set(ylabel=f"true positives: share of {self._class_words()} called so")
        legend_below(ax, columns=1)

    def _draw_curve(
        self,
        ax: "Axes",
        curve: RocCurve,
        colour: str,
        label: str,
        plain: str | None = "",
        line: Mapping[str, Any] | None = None,
    ) -> None:
        """Draw a curve and its uncorrected one; the uncorrected ones of several classes share a legend entry."""
        if not ax.lines:
            ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="guessing: area 0.5")
        ax.plot(
            *_thinned(curve.false_positives, curve.true_positives),
            **({"color": colour, "label": label} | dict(line or {})),
        )
        if self.corrected:
            points = _thinned(curve.plain_false_positives, curve.plain_true_positives)
            last = curve is list(self.curves.values())[-1]
            words = f"{PLAIN}{plain}" if plain is not None else PLAIN if last else None
            ax.plot(*points, ":", color=colour if plain != "" else paper_colour(ORANGE), linewidth=1.0, label=words)
        if plain == "":  # a small panel
            ax.annotate(f"area {_within(curve.area):.2f}", (0.95, 0.08), ha="right", fontsize="small")
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))


def _within(area: float) -> float:
    """An area as stated: corrected estimates may lie slightly outside [0, 1]."""
    return min(max(area, 0.0), 1.0)


def _curve(predictions: Predictions, k: int) -> RocCurve:
    label, name = predictions.label_against_rest(k), predictions.classes.tolist()[k]
    if not label.any(axis=0).all():
        raise ValueError(f"class {name!r} against the rest: a ROC curve needs labelled rows of both.")
    rows = predictions.against_rest(k)
    if not (rows.positive.sum() > 0.0 and rows.negative.sum() > 0.0):
        raise ValueError(
            f"class {name!r} against the rest: the corrected number of rows of one of them is not positive. There are too few "
            "labels for a ROC curve with posterior=."
        )
    p = predictions.proba[:, k]
    score = roc_auc(
        label,
        np.column_stack([1.0 - p, p]),
        np.zeros(len(p)) if predictions.q is None else predictions.q,
        classes=[0, 1],
        posterior=predictions.posterior_against_rest(k),
    )
    plain = _drawn_rates(predictions.plain.against_rest(k))
    return RocCurve(*_drawn_rates(rows), score.value, score.stderr, *plain, score.plain)


def cumulative_counts(rows: AgainstRest) -> tuple[Array, Array]:
    """Negatives and positives at or above each distinct probability, from the highest down; the first entry is 0."""
    _, place = np.unique(-rows.p, return_inverse=True)
    negative, positive = (
        np.concatenate([[0.0], np.cumsum(np.bincount(place, weights=r))]) for r in (rows.negative, rows.positive)
    )
    return negative, positive


def _drawn_rates(rows: AgainstRest) -> tuple[Array, Array]:
    """False and true positive rates, without points on a straight line between others (as in scikit-learn)."""
    false, true = map(_monotone, cumulative_counts(rows))
    corner = np.ones(len(true), dtype=bool)
    corner[2:-1] = (np.diff(false[1:], 2) != 0.0) | (np.diff(true[1:], 2) != 0.0)
    return false[corner] / false[-1], true[corner] / true[-1]


def _monotone(counts: Array) -> Array:
    """The nearest counts that never fall, between 0 and the total."""
    if (np.diff(counts) >= 0.0).all():
        return counts
    return np.clip(isotonic_regression(counts).x, 0.0, counts[-1])


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    chosen = np.unique(np.linspace(0, len(x) - 1, DRAWN).astype(int)) if len(x) > DRAWN else slice(None)
    return x[chosen], y[chosen]
