"""`CalibrationDisplay`: whether 80 of 100 rows with a predicted probability of 80 % belong to the class."""

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from marmix.core.arrays import Array, Ints
from marmix.plotting.drawing import GREY, rates
from marmix.plotting.predictions import CURVES_TOGETHER, PLAIN, ClassCurvesDisplay, Predictions
from marmix.plotting.rates import even_bins, wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.95  # of the intervals


class CalibrationCurve(NamedTuple):
    """Predicted probabilities and observed rates of one class, in bins of about equally many rows.

    Attributes
    ----------
    predicted : array of shape (b,)
        Mean probability of the rows in each bin, weighted by r.
    observed, lower, upper : arrays of shape (b,)
        Share of the class among them, clipped to [0, 1], and its Wilson interval.
    plain_predicted, plain_observed : arrays
        The same for the labelled rows only, in bins of their own.
    n : integer array of shape (b,)
        Rows in each bin: labelled rows, or all rows if the estimate is doubly robust.
    """

    predicted: Array
    observed: Array
    lower: Array
    upper: Array
    plain_predicted: Array
    plain_observed: Array
    n: Ints


class CalibrationDisplay(ClassCurvesDisplay):
    r"""Predicted probabilities against observed rates, corrected for missing labels.

    If 80 % of the rows with a predicted probability of 80 % belong to the class, the curve is on the diagonal. If a
    single class is drawn, so is its uncorrected curve. The observed rate of class k in a bin is

    .. math::

        s = \frac{\sum_j r_{jk}}{\sum_j r_j}, \qquad r_j = \sum_l r_{jl},

    with the pseudo-labels r_jk of `marmix.evaluation`: weighted labelled rows or, with posteriors, all rows (doubly
    robust). The latter may be negative, so s is clipped to [0, 1].

    Intervals are Wilson's, for the effective number of rows in the bin: ``(sum w)^2 / sum w^2`` over the labelled rows.
    For the doubly robust estimate it is the number expected under the mechanism, ``n^2 / sum w`` over all n rows, so
    that a bin with hardly any label has a wide interval; or ``c (1 - c) / V`` if that is smaller, where ``V = sum (r_k
    - s r)^2 / (sum r)^2`` and c is the centre of the first interval.

    Parameters
    ----------
    curves : dict
        A `CalibrationCurve` for each class drawn against the rest: `predicted`, `observed`, `lower`, `upper`,
        `plain_predicted`, `plain_observed` and `n`, by bin.
    corrected : bool
        Whether q was given. Without it the curves are those of the labelled rows.
    note : str, default=""
        A remark for readers, kept as `note_`.

    See Also
    --------
    RocDisplay : How well the probabilities separate a class from the rest.
    ThresholdDisplay : What follows from calling rows positive above a threshold.
    marmix.evaluation.brier : A score that measures calibration and separation together.

    Examples
    --------
    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import CalibrationDisplay
    >>> rows, new = (make_mar_mixture(600, rate=0.4, random_state=seed) for seed in (0, 1))
    >>> clf = MARLogisticRegression().fit(rows.data, rows.target)
    >>> display = CalibrationDisplay.from_estimator(clf, new.data, new.target, n_bins=4)
    >>> for predicted, observed in zip(display.curves[1].predicted, display.curves[1].observed):
    ...     print(f"predicted {predicted:.2f}, observed {observed:.2f}")
    predicted 0.05, observed 0.04
    predicted 0.24, observed 0.31
    predicted 0.65, observed 0.79
    predicted 0.95, observed 0.93

    Save the figure, or close it:

    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    axes = ("predicted probability of {}", "observed share of {}")

    @classmethod
    def of(cls, predictions: Predictions, positive: Any, *, n_bins: int = 10) -> Self:
        """Compute the display without drawing it."""
        return cls._of(predictions, positive, lambda k: _curve(predictions, k, n_bins))

    def _draw_curve(self, ax: "Axes", curve: CalibrationCurve, colour: str, label: str) -> None:
        if not ax.lines:
            ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="perfect calibration")
        look: dict[str, Any] = {"color": colour, "linewidth": 0.8, "markersize": 3.0}
        rates(ax, curve.predicted, curve.observed, (curve.lower, curve.upper), fmt="o-", label=label, **look)
        if self.corrected and not 1 < len(self.curves) <= CURVES_TOGETHER:
            look |= {"markerfacecolor": "none", "label": PLAIN}
            ax.plot(curve.plain_predicted, curve.plain_observed, "o:", **look)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def _curve(predictions: Predictions, k: int, n_bins: int) -> CalibrationCurve:
    rows = predictions.against_rest(k)
    place = even_bins(rows.p, n_bins)

    def total(values: Array) -> Array:
        return np.bincount(place, weights=values).astype(float)

    r = rows.positive + rows.negative
    weight = total(r)
    share = np.clip(total(rows.positive) / weight, 0.0, 1.0)
    size = weight**2 / total(rows.square)
    if predictions.posterior is not None:
        centre = np.mean(wilson(share, size, 1.0 - LEVEL), axis=0)
        variance = total((rows.positive - share[place] * r) ** 2) / weight**2
        with np.errstate(divide="ignore"):
            size = np.minimum(size, centre * (1.0 - centre) / variance)
    predicted, n = total(r * rows.p) / weight, np.bincount(place)
    if predictions.q is None:
        plain_predicted, plain = predicted, share
    else:
        plain_predicted, plain = _curve(predictions.plain, k, n_bins)[:2]
    return CalibrationCurve(predicted, share, *wilson(share, size, 1.0 - LEVEL), plain_predicted, plain, n)
