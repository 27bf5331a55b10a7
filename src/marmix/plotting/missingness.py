"""`MissingnessDisplay`: the probability of a missing label by uncertainty, fitted and observed."""

from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.core.arrays import Array
from marmix.core.mechanism import drivers_of
from marmix.inference import Inference
from marmix.inference.fitted import too_many_parameters
from marmix.plotting.base import Display
from marmix.plotting.drawing import BLUE, ink, legend_below, paper_colour
from marmix.plotting.fits import last_step, missing_proba, numbered, single_model, transformed
from marmix.plotting.rates import even_bins, wilson
from marmix.plotting.uncertainty import MeasureLike, log_posteriors, measure_words, measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 100  # of the curve
MANY_ROWS = 200_000  # beyond which the band takes long to compute and is hardly wider than the line


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
    note : str, default=""
        A remark for readers, kept as `note_`.

    See Also
    --------
    UncertaintyDisplay : The uncertainty of labelled and unlabelled rows.
    ProfileDisplay : How well the data determine the slope of the curve.
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
    n: NDArray[np.integer]
    level: float
    measure: MeasureLike
    classes: NDArray[Any]
    note: InitVar[str] = ""

    def __post_init__(self, note: str) -> None:
        self.note_ = note

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        alpha: float = 0.05,
        inference: Inference | None = None,
        measure: MeasureLike | None = None,
        ax: "Axes | None" = None,
    ) -> "MissingnessDisplay":
        """Compute the curve, its band and the observed rates, and draw the display.

        Parameters
        ----------
        estimator : fitted MARGaussianMixture or MARLogisticRegression
            Or a pipeline that ends in one.
        X : array-like or table of shape (n, d)
            Rows. The band needs the rows of the fit.
        y : array-like of shape (n,) or (n, K)
            Labels, missing where -1, NaN, None or pandas.NA; or votes.
        n_bins : int, default=10
            Number of bins for the observed rates.
        alpha : float, default=0.05
            The confidence level is 1 - alpha.
        inference : Inference or None, default=None
            Inference of the fit, if already computed. By default it is computed from X and y, up to 200,000 rows and
            unless there are more parameters than rows.
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
        if measure is not None:
            return cls._binned(estimator, X, y, n_bins, alpha, measure).plot(ax)
        model = single_model(estimator, cls.__name__)
        if model.mechanism_ is None:
            raise ValueError(
                f"{cls.__name__} needs a model of the missingness, but this estimator was fitted with link=None: fit it with a "
                "link."
            )
        rows, z = transformed(estimator, X), numbered(y, model.classes_)
        u = np.asarray(model.uncertainty(rows))
        if len(u) != len(z):
            raise ValueError(f"X and y have inconsistent numbers of samples: {len(u)} and {len(z)}.")
        bins = _Bins.of(u, z, n_bins)
        low, high = wilson(bins.observed, bins.n, alpha)
        grid = np.linspace(u.min(), u.max(), POINTS)
        q, band, note = _curve(model, rows, y, grid, alpha, inference)
        return cls(
            u=grid,
            q=q,
            lower=None if band is None else band[0],
            upper=None if band is None else band[1],
            at=bins.at,
            observed=bins.observed,
            observed_lower=low,
            observed_upper=high,
            n=bins.n,
            level=1.0 - alpha,
            measure=model.mechanism_.measure,
            classes=model.classes_,
            note=note,
        ).plot(ax)

    @classmethod
    def _binned(
        cls, estimator: Any, X: Any, y: Any, n_bins: int, alpha: float, measure: MeasureLike
    ) -> "MissingnessDisplay":
        """Observed and mean fitted rates in bins of a measure."""
        q, classes = missing_proba(estimator, X), last_step(estimator).classes_
        if q is None:
            raise ValueError(f"{cls.__name__} needs a model of the missingness, which this estimator does not have.")
        bins = _Bins.of(measured(measure, log_posteriors(estimator, X)), numbered(y, classes), n_bins)
        low, high = wilson(bins.observed, bins.n, alpha)
        return cls(
            u=bins.at,
            q=bins.mean(q),
            lower=None,
            upper=None,
            at=bins.at,
            observed=bins.observed,
            observed_lower=low,
            observed_upper=high,
            n=bins.n,
            level=1.0 - alpha,
            measure=measure,
            classes=classes,
        )

    def _draw(self, ax: "Axes") -> None:
        percent = f"{100.0 * self.level:g} %"
        if self.lower is not None and self.upper is not None:
            look: dict[str, Any] = {"color": paper_colour(BLUE), "alpha": 0.25, "linewidth": 0}
            ax.fill_between(self.u, self.lower, self.upper, label=f"{percent} band of the fitted curve", **look)
        ax.plot(self.u, self.q, color=paper_colour(BLUE), label="fitted")
        spread = [self.observed - self.observed_lower, self.observed_upper - self.observed]
        ax.errorbar(
            self.at,
            self.observed,
            yerr=np.maximum(spread, 0.0),
            fmt="o",
            color=ink(),
            markersize=3.5,
            elinewidth=0.9,
            label=f"observed in bins of about {np.median(self.n):,.0f} rows, with {percent} intervals",
        )
        ax.set(xlabel=measure_words(self.measure, self.classes), ylabel="P(label missing)", ylim=(-0.02, 1.02))
        legend_below(ax, columns=1)


class _Bins(NamedTuple):
    """Bins of about equally many rows: the bin of each row, rows, mean uncertainty and share of missing labels."""

    place: NDArray[np.intp]
    n: NDArray[np.integer]
    at: Array
    observed: Array

    @classmethod
    def of(cls, u: Array, z: NDArray[np.integer], n_bins: int) -> "_Bins":
        place, size = even_bins(u, n_bins)
        n = np.bincount(place, minlength=size)
        at, observed = (np.bincount(place, weights=values, minlength=size) / n for values in (u, z < 0))
        return cls(place, n, at, observed)

    def mean(self, values: Array) -> Array:
        return np.bincount(self.place, weights=values, minlength=len(self.n)) / self.n


def _curve(
    model: Any, X: Any, y: Any, grid: Array, alpha: float, inference: Inference | None
) -> tuple[Array, tuple[Array, Array] | None, str]:
    """q along the grid, and its band or the reason why there is none."""
    if not np.isfinite(model.alpha_[0]):
        return np.zeros_like(grid), None, "Every row of the fit has a label: there is no missingness to fit."
    means = [float(np.asarray(X)[:, i].mean()) for i in model.model_.columns]
    covariates = np.repeat(np.array(means)[:, None], len(grid), axis=1) if means else None
    drivers = drivers_of(grid, covariates)
    if model.model_.has_label_term:  # q is averaged over the shares of the classes
        shares = np.asarray(model.predict_proba(X)).mean(axis=0)
        drivers = np.vstack([drivers, np.repeat(np.log(shares)[:, None], len(grid), axis=1)])
    q = np.asarray(model.mechanism_.missing_proba_of(drivers))
    if inference is None and len(X) > MANY_ROWS:
        return q, None, f"The curve has no band: with more than {MANY_ROWS:,} rows, it needs inference=."
    if inference is None and (reason := too_many_parameters(model.model_)):
        return q, None, f"The curve has no band: {reason}."
    try:
        result = model.inference(X, y) if inference is None else inference
        curve = result.missingness_curve(grid, alpha)
    except (TypeError, ValueError) as refusal:
        return q, None, f"The curve has no band: {refusal}"
    if not (np.isfinite(curve.lower).all() and np.isfinite(curve.upper).all()):
        return q, None, "The curve has no band: the data do not determine one."
    return curve.q, (curve.lower, curve.upper), ""
