"""`MissingnessDisplay`: the probability of a missing label by uncertainty, fitted and observed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from marmix.core.arrays import AnyArray, Array, Ints
from marmix.core.measures import MeasureLike
from marmix.core.mechanism import drivers_of
from marmix.evaluation.scorer import missing_proba
from marmix.inference.fitted import too_many_parameters
from marmix.plotting.drawing import BLUE, Display, band, ink, legend_below, paper_colour, rates
from marmix.plotting.fits import last_step, numbered, single_model, transformed
from marmix.plotting.rates import even_bins, wilson
from marmix.plotting.uncertainty import log_posteriors, measure_words, measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 100  # of the curve


@dataclass(kw_only=True, eq=False, repr=False)
class MissingnessDisplay(Display):
    """P(label missing) against the uncertainty: the fitted curve with its band, and rates observed in bins of rows.

    Parameters
    ----------
    u, q : arrays of shape (p,)
        The fitted curve, with the features of the mechanism at their means; or the mean fitted probability in each bin.
    lower, upper : arrays of shape (p,) or None
        Its pointwise band; if None, `note_` says why.
    at : array of shape (b,)
        Mean uncertainty in each bin. Bins hold about equally many rows.
    observed, observed_lower, observed_upper : arrays of shape (b,)
        Share of missing labels in each bin, and its Wilson interval.
    n : array of shape (b,)
        Number of rows in each bin.
    level : float
        Confidence level of the band and the intervals.
    measure : str or callable
        The measure of uncertainty on the x axis.
    classes : array of shape (K,)
        The classes.
    note_ : str, default=""
        A remark for readers.

    See Also
    --------
    UncertaintyDisplay : The uncertainty of labelled and unlabelled rows.
    marmix.evaluation.missingness_check : The same comparison along any variable, with a p-value.

    Examples
    --------
    If the points are on the curve, the mechanism explains which labels are missing:

    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import MissingnessDisplay
    >>> rows = make_mar_mixture(600, measure="entropy", random_state=0)
    >>> clf = MARLogisticRegression(measure="entropy").fit(rows.data, rows.target)
    >>> display = MissingnessDisplay.from_estimator(clf, rows.data, rows.target, n_bins=4)
    >>> for u, rate in zip(display.at, display.observed):
    ...     print(f"entropy {u:.2f}: {rate:.0%} missing")
    entropy 0.12: 48% missing
    entropy 0.29: 69% missing
    entropy 0.50: 86% missing
    entropy 0.66: 88% missing
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    u: Array
    q: Array
    lower: Array | None
    upper: Array | None
    at: Array
    observed: Array
    observed_lower: Array
    observed_upper: Array
    n: Ints
    level: float
    measure: MeasureLike
    classes: AnyArray
    note_: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        alpha: float = 0.05,
        measure: MeasureLike | None = None,
        ax: "Axes | None" = None,
    ) -> "MissingnessDisplay":
        """Compute the curve, its band and the observed rates, and draw the display.

        Parameters
        ----------
        estimator : fitted MARGaussianMixture or MARLogisticRegression
            Or a pipeline that ends in one.
        X : array-like or table of shape (n, d)
            Rows. The band needs the rows of the fit, and no more parameters than rows.
        y : array-like of shape (n,) or (n, K)
            Labels, missing where -1, NaN, None or pandas.NA; or votes.
        n_bins : int, default=10
            Number of bins for the observed rates.
        alpha : float, default=0.05
            The confidence level is 1 - alpha.
        measure : str, callable or None, default=None
            Measure of uncertainty along the x axis; by default that of the mechanism. With another one, the curve is
            the mean fitted probability of the rows in each bin, without a band; any classifier with `missing_proba` can
            be drawn.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.

        Returns
        -------
        MissingnessDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator has no model of the missingness.
        """
        model = last_step(estimator) if measure is not None else single_model(estimator, cls.__name__)
        rows, z = transformed(estimator, X), numbered(y, model.classes_)
        q = missing_proba(model, rows)
        if q is None:
            raise ValueError(f"{cls.__name__} needs a model of the missingness, which this estimator does not have.")
        u = np.asarray(model.uncertainty(rows)) if measure is None else measured(measure, log_posteriors(estimator, X))
        if len(u) != len(z):
            raise ValueError(f"X and y have inconsistent numbers of samples: {len(u)} and {len(z)}.")
        place = even_bins(u, n_bins)
        n = np.bincount(place)
        at, observed, fitted = (np.bincount(place, weights=values) / n for values in (u, z < 0, q))
        low, high = wilson(observed, n, alpha)
        curve = _Curve(at, fitted)
        if measure is None:
            curve = _curve(model, rows, y, np.linspace(u.min(), u.max(), POINTS), alpha)
        return cls(
            **curve._asdict(),
            at=at,
            observed=observed,
            observed_lower=low,
            observed_upper=high,
            n=n,
            level=1.0 - alpha,
            measure=model.mechanism_.measure if measure is None else measure,
            classes=model.classes_,
        ).plot(ax)

    def _draw(self, ax: "Axes") -> None:
        percent = f"{100.0 * self.level:g} %"
        if self.lower is not None and self.upper is not None:
            band(ax, self.u, self.lower, self.upper, BLUE, f"{percent} band of the fitted curve")
        ax.plot(self.u, self.q, color=paper_colour(BLUE), label="fitted")
        words = f"observed in bins of about {np.median(self.n):,.0f} rows, with {percent} intervals"
        interval = (self.observed_lower, self.observed_upper)
        rates(ax, self.at, self.observed, interval, color=ink(), markersize=3.5, label=words)
        ax.set(xlabel=measure_words(self.measure, self.classes), ylabel="P(label missing)", ylim=(-0.02, 1.02))
        legend_below(ax, columns=1)


class _Curve(NamedTuple):
    u: Array
    q: Array
    lower: Array | None = None
    upper: Array | None = None
    note_: str = ""


def _curve(model: Any, X: Any, y: Any, u: Array, alpha: float) -> _Curve:
    """q at these values of the uncertainty, and its band or the reason why there is none."""
    if not np.isfinite(model.alpha_[0]):
        return _Curve(u, np.zeros_like(u), note_="Every row of the fit has a label: there is no missingness to fit.")
    means = [float(np.asarray(X)[:, i].mean()) for i in model.model_.columns]
    drivers = drivers_of(u, np.repeat(np.array(means)[:, None], len(u), axis=1) if means else None)
    if model.model_.has_label_term:  # q is averaged over the shares of the classes
        shares = np.asarray(model.predict_proba(X)).mean(axis=0)
        drivers = np.vstack([drivers, np.repeat(np.log(shares)[:, None], len(u), axis=1)])
    q = np.asarray(model.mechanism_.missing_proba_of(drivers))
    reason = too_many_parameters(model.model_)
    if not reason:
        try:
            curve = model.inference(X, y).missingness_curve(u, alpha)
            if np.isfinite([curve.lower, curve.upper]).all():
                return _Curve(u, curve.q, curve.lower, curve.upper)
            reason = "the data do not determine one."
        except (TypeError, ValueError) as refusal:
            reason = str(refusal)
    return _Curve(u, q, note_=f"The curve has no band: {reason}")
