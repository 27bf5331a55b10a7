"""`RocDisplay`: how well the probabilities separate one class from the rest."""

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.optimize import isotonic_regression

from marmix.core.arrays import Array
from marmix.evaluation import roc_auc
from marmix.plotting.drawing import GREY
from marmix.plotting.predictions import CURVES_TOGETHER, PLAIN, AgainstRest, ClassCurvesDisplay, Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    stderr: float
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
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    axes = ("false positives: share of the other rows called so", "true positives: share of {} called so")

    @classmethod
    def of(cls, predictions: Predictions, positive: Any) -> Self:
        """Compute the display without drawing it."""
        return cls._of(predictions, positive, lambda k: _curve(predictions, k))

    def _draw_curve(self, ax: "Axes", curve: RocCurve, colour: str, label: str) -> None:
        if not ax.lines:
            ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="guessing: area 0.5")
        many = len(self.curves) > CURVES_TOGETHER
        area, plain = (f"{np.clip(value, 0.0, 1.0):.3f}" for value in (curve.area, curve.plain_area))
        ax.plot(
            curve.false_positives, curve.true_positives, color=colour, label=label if many else f"{label}: area {area}"
        )
        if self.corrected and (many or len(self.curves) == 1):
            words = PLAIN if many else f"{PLAIN}: area {plain}"
            ax.plot(
                curve.plain_false_positives, curve.plain_true_positives, ":", color=colour, linewidth=1.0, label=words
            )
        if many:
            ax.annotate(f"area {area[:4]}", (0.95, 0.08), ha="right", fontsize="small")
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))


def _curve(predictions: Predictions, k: int) -> RocCurve:
    binary, name = predictions.binary(k), predictions.classes.tolist()[k]
    if not binary.labels.any(axis=0).all():
        raise ValueError(f"class {name!r} against the rest: a ROC curve needs labelled rows of both.")
    rows = predictions.against_rest(k)
    if not (rows.positive.sum() > 0.0 and rows.negative.sum() > 0.0):
        raise ValueError(
            f"class {name!r} against the rest: the corrected number of rows of one of them is not positive. There are too few "
            "labels for a ROC curve with posterior=."
        )
    q = np.zeros(len(binary.proba)) if binary.q is None else binary.q
    score = roc_auc(binary.labels, binary.proba, q, classes=[0, 1], posterior=binary.posterior)
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
