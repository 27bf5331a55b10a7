"""`TraceDisplay`: the convergence of a fit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marmix.core.arrays import Array
from marmix.plotting.base import Display
from marmix.plotting.drawing import BLUE, RED, paper_colour
from marmix.plotting.fits import single_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 60  # iterations up to which each has a marker


@dataclass(kw_only=True, eq=False, repr=False)
class TraceDisplay(Display):
    """The log-likelihood after every iteration of a fit.

    Parameters
    ----------
    trace : array of shape (t,)
        The objective at the start and after every iteration.
    converged : bool
        Whether the fit converged. If not, `note_` says what to do.
    objective : str, default="log-likelihood"
        Its name: the log-likelihood, possibly tempered or penalised.

    See Also
    --------
    ProfileDisplay : The log-likelihood along one parameter.
    MixtureDisplay : The fit itself.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import TraceDisplay
    >>> rows = make_mar_mixture(300, random_state=0)
    >>> clf = MARGaussianMixture(covariance_type="tied").fit(rows.data, rows.target)
    >>> display = TraceDisplay.from_estimator(clf)
    >>> display.converged, bool(display.trace[-1] > display.trace[0])
    (True, True)
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    trace: Array
    converged: bool
    objective: str = "log-likelihood"

    def __post_init__(self) -> None:
        if not self.converged:
            self.note_ = "The fit did not converge: raise max_iter."

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None) -> "TraceDisplay":
        """Draw the trace of a fit.

        Parameters
        ----------
        estimator : fitted MARGaussianMixture or MARLogisticRegression
            Or a pipeline that ends in one.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.

        Returns
        -------
        TraceDisplay
            The display, drawn.
        """
        model = single_model(estimator, cls.__name__)
        changes = []
        if model.mechanism_ is not None and model.model_.tempering != 1.0:
            changes.append("tempered")
        if np.isfinite(getattr(model.model_.score_model, "C", np.inf)):
            changes.append("penalised")
        objective = " ".join([", ".join(changes), "log-likelihood"]).strip()
        return cls(trace=np.asarray(model.trace_), converged=bool(model.converged_), objective=objective).plot(ax)

    def _draw(self, ax: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator

        iterations = np.arange(len(self.trace))
        marker = "o" if len(self.trace) <= FEW else None
        ax.plot(iterations, self.trace, color=paper_colour(BLUE), marker=marker, markersize=3)
        state = "converged" if self.converged else "stopped before convergence"
        last = (float(iterations[-1]), float(self.trace[-1]))
        ax.plot(*last, "o", color=paper_colour(BLUE if self.converged else RED), markersize=5)
        ax.annotate(
            f"{state} at {self.trace[-1]:,.1f}",
            last,
            xytext=(-4, -10),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize="small",
        )
        ax.set(xlabel="iteration", ylabel=self.objective)
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        ax.ticklabel_format(axis="y", useOffset=False, style="plain")
        ax.margins(x=0.04, y=0.08)
