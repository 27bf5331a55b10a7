"""`UncertaintyDisplay`: the uncertainty of rows with and without a label."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marmix.core.arrays import AnyArray, Array
from marmix.core.measures import Measure, Measured, MeasureLike, Posterior, as_measure, entropy, posterior
from marmix.plotting.drawing import BLUE, ORANGE, Display, figure_text, legend_below, paper_colour
from marmix.plotting.fits import last_step, numbered, transformed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _normalised_entropy(p: Posterior) -> Measured:
    value, gradient = entropy(p)
    scale = np.log(len(p.tau))
    return Measured(value / scale, gradient / scale)


# The scale of uncertainty of reports and of the files of the program.
UNCERTAINTY = Measure(
    "normalised entropy",
    _normalised_entropy,
    "normalised entropy",
    "unclear",
    lambda classes: (0.0, 1.0),
    "uncertainty: 0 = certain, 1 = all classes equally probable",
)


def measure_words(measure: MeasureLike, classes: AnyArray) -> str:
    """The axis label of a measure."""
    record = as_measure(measure)
    low, high = record.range(len(classes))
    names = {"words": figure_text(record.words), "first": figure_text(classes[0]), "last": figure_text(classes[-1])}
    return record.axis.format(low=low, high=high, **names)


def log_posteriors(estimator: Any, X: Any) -> Array:
    """Log probabilities (n, K) of the classes."""
    model, rows = last_step(estimator), transformed(estimator, X)
    if hasattr(model, "predict_log_proba"):
        return np.asarray(model.predict_log_proba(rows))
    return np.log(np.maximum(model.predict_proba(rows), np.finfo(float).tiny))


def measured(measure: MeasureLike, log_proba: Array) -> Array:
    """Values (n,) of a measure for log probabilities (n, K)."""
    record = as_measure(measure, "measure")
    return np.asarray(record(posterior(np.ascontiguousarray(log_proba.T))).value)


@dataclass(kw_only=True, eq=False, repr=False)
class UncertaintyDisplay(Display):
    """Distributions of the uncertainty for rows with and without a label.

    If hard rows lose their labels more often, the rows without a label are the more uncertain ones.

    Parameters
    ----------
    edges : array of shape (b + 1,)
        Edges of the bins.
    labelled, unlabelled : arrays of shape (b,)
        Share of the labelled and of the unlabelled rows in each bin. Each sums to one, or to zero if there are no such
        rows.
    n_labelled, n_unlabelled : int
        Number of labelled and of unlabelled rows.
    measure : str or callable
        The measure of uncertainty.
    classes : array of shape (K,)
        The classes.

    See Also
    --------
    MissingnessDisplay : P(label missing) against the uncertainty.
    marmix.Mechanism : The measures of uncertainty.

    Examples
    --------
    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import UncertaintyDisplay
    >>> rows = make_mar_mixture(600, random_state=0)
    >>> clf = MARLogisticRegression().fit(rows.data, rows.target)
    >>> display = UncertaintyDisplay.from_estimator(clf, rows.data, rows.target, n_bins=4)
    >>> print("labelled:  ", display.labelled.round(2))
    labelled:   [0.74 0.21 0.04 0.01]
    >>> print("unlabelled:", display.unlabelled.round(2))
    unlabelled: [0.19 0.21 0.21 0.39]

    The four bins go from certain to uncertain: most labelled rows are in the first.

    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    edges: Array
    labelled: Array
    unlabelled: Array
    n_labelled: int
    n_unlabelled: int
    measure: MeasureLike
    classes: AnyArray

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        measure: MeasureLike = "entropy",
        n_bins: int = 40,
        ax: "Axes | None" = None,
    ) -> "UncertaintyDisplay":
        """Compute the uncertainty of rows with a fitted classifier, and draw the display.

        Parameters
        ----------
        estimator : fitted classifier
            Or a pipeline that ends in one.
        X : array-like or table of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, K)
            Labels, missing where -1, NaN, None or pandas.NA; or votes.
        measure : str or callable, default="entropy"
            The measure of uncertainty, as in `marmix.MARGaussianMixture`.
        n_bins : int, default=40
            Number of bins.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.

        Returns
        -------
        UncertaintyDisplay
            The display, drawn.
        """
        log_proba, classes = log_posteriors(estimator, X), last_step(estimator).classes_
        has_label = numbered(y, classes) >= 0
        u = measured(measure, log_proba)
        low, high = as_measure(measure).range(len(classes))
        if not np.isfinite([low, high]).all():
            low, high = u.min(), u.max()
        edges = np.linspace(low, high, n_bins + 1) if low < high else np.linspace(low - 0.5, low + 0.5, n_bins + 1)
        u = np.clip(u, edges[0], edges[-1])  # rounding may exceed a limit
        groups = [u[has_label], u[~has_label]]
        labelled, unlabelled = (np.histogram(values, edges)[0] / max(len(values), 1) for values in groups)
        return cls(
            edges=edges,
            labelled=labelled,
            unlabelled=unlabelled,
            n_labelled=len(groups[0]),
            n_unlabelled=len(groups[1]),
            measure=measure,
            classes=classes,
        ).plot(ax)

    def _draw(self, ax: "Axes") -> None:
        for shares, n, words, colour, dashes in (
            (self.labelled, self.n_labelled, "labelled rows", paper_colour(BLUE), "-"),
            (self.unlabelled, self.n_unlabelled, "rows without a label", paper_colour(ORANGE), "--"),
        ):
            if n:
                ax.stairs(100.0 * shares, self.edges, fill=True, color=colour, alpha=0.25, linewidth=0)
                ax.stairs(100.0 * shares, self.edges, color=colour, linestyle=dashes, label=f"{words} ({n:,})")
        ax.set(xlabel=measure_words(self.measure, self.classes), ylabel="share of rows, %")
        ax.set(xlim=(self.edges[0], self.edges[-1]), ylim=(0.0, None))
        legend_below(ax)
