"""`ProfileDisplay`: the profile log-likelihood of a parameter of the mechanism."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2

from marmix.core.arrays import Array
from marmix.inference.profile import Profile
from marmix.plotting.base import Display
from marmix.plotting.drawing import BLUE, GREY, figure_text, ink, legend_below, paper_colour
from marmix.plotting.fits import single_model, transformed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHAPES = (0.0, 0.5, 1.0, 2.0, 5.0, np.inf)  # ticks on the axis of the shape, which ends at infinity

WORDS = {
    "alpha_1": "alpha_1: effect of the uncertainty on P(label missing), 0 = none",
    "shape": "shape of the link (0: complementary log-log, 1: logit)",
    "share": "share of the labels that are missing completely at random",
}


@dataclass(kw_only=True, eq=False, repr=False)
class ProfileDisplay(Display):
    """The profile log-likelihood of a parameter relative to its maximum, and the confidence interval it gives.

    Parameters
    ----------
    name : str
        Name of the parameter.
    values, loglik : arrays of shape (p,)
        The curve.
    estimate, lower, upper : float
        The estimate and the interval; an end that the data do not determine is infinite.
    level : float
        Confidence level of the interval.
    sentence : str, default=""
        The interval in words.

    Attributes
    ----------
    drop : float
        Half a chi-square quantile: how far the log-likelihood falls below its maximum at the ends of the interval.

    See Also
    --------
    marmix.Inference.profile : The numbers.
    MissingnessDisplay : The curve whose slope alpha_1 is.

    Examples
    --------
    Zero is far outside the interval of the slope: labels are not missing completely at random.

    >>> import numpy as np
    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import ProfileDisplay
    >>> rows = make_mar_mixture(300, measure="entropy", random_state=0)
    >>> clf = MARLogisticRegression(C=np.inf, measure="entropy").fit(rows.data, rows.target)
    >>> display = ProfileDisplay.from_estimator(clf, rows.data, rows.target, n_points=5)
    >>> print(f"{display.estimate:.1f}, 95 % interval {display.lower:.1f} to {display.upper:.1f}")
    4.2, 95 % interval 2.8 to 5.8
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    name: str
    values: Array
    loglik: Array
    estimate: float
    lower: float
    upper: float
    level: float
    sentence: str = ""

    def __post_init__(self) -> None:
        self.drop = float(chi2.ppf(self.level, 1)) / 2.0

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        name: str = "alpha_1",
        alpha: float = 0.05,
        n_points: int = 25,
        ax: "Axes | None" = None,
    ) -> "ProfileDisplay":
        """Compute the profile of a fit, and draw the display.

        Parameters
        ----------
        estimator : fitted MARGaussianMixture or MARLogisticRegression
            Or a pipeline that ends in one.
        X : array-like or table of shape (n, d)
            The rows of the fit.
        y : array-like of shape (n,) or (n, K)
            Their labels.
        name : str, default="alpha_1"
            A slope of the mechanism, "shape" or "share".
        alpha : float, default=0.05
            The confidence level is 1 - alpha.
        n_points : int, default=25
            Points of the curve; each takes one maximisation.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.

        Returns
        -------
        ProfileDisplay
            The display, drawn.
        """
        result = single_model(estimator, cls.__name__).inference(transformed(estimator, X), y)
        return cls.from_profile(result.profile(name, alpha, n_points), ax=ax)

    @classmethod
    def from_profile(cls, profile: Profile, *, ax: "Axes | None" = None) -> "ProfileDisplay":
        """Draw a profile that was computed before, by `Inference.profile(name, n_points=25)`.

        Parameters
        ----------
        profile : Profile
            The result of `Inference.profile`, with a curve.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.

        Returns
        -------
        ProfileDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the profile has no curve.
        """
        if len(profile.values) < 2:
            raise ValueError("this profile has no curve: compute one with inference.profile(name, n_points=25).")
        return cls(
            name=profile.name,
            values=profile.values,
            loglik=profile.loglik,
            estimate=profile.estimate,
            lower=profile.lower,
            upper=profile.upper,
            level=profile.level,
            sentence=profile.sentence,
        ).plot(ax)

    def _draw(self, ax: "Axes") -> None:
        x = self._on_axis(self.values)
        blue = paper_colour(BLUE)
        ax.plot(x, self.loglik, color=blue, marker="o", markersize=2.5, label="profile log-likelihood")
        ax.axhline(-self.drop, color=GREY, linewidth=0.9, linestyle="--", label="threshold of the interval")
        ends = self._on_axis(np.array([self.lower, self.upper]))
        low, high = np.clip(np.nan_to_num(ends, posinf=x.max(), neginf=x.min()), x.min(), x.max())
        ax.axvspan(low, high, color=blue, alpha=0.12, linewidth=0, label=f"{100.0 * self.level:g} % interval")
        estimate = self._on_axis(np.array([self.estimate]))
        ax.plot(estimate, [0.0], "D", color=ink(), markersize=4.5, label=f"estimate, {self.estimate:.3g}")
        ax.set_ylim(min(1.25 * -self.drop, float(self.loglik.min())) - 0.05, 0.12 * self.drop)
        label = WORDS.get(self.name, f"{figure_text(self.name)}, a slope of the mechanism")
        ax.set(xlabel=label, ylabel="log-likelihood minus its maximum")
        if self.name == "shape":
            ticks = self._on_axis(np.array(SHAPES))
            words = ["∞" if np.isinf(shape) else f"{shape:g}" for shape in SHAPES]
            shown = (ticks >= x.min() - 0.02) & (ticks <= x.max() + 0.02)
            ax.set_xticks(ticks[shown], [word for word, show in zip(words, shown, strict=True) if show])
        legend_below(ax)

    def _on_axis(self, values: Array) -> Array:
        """Positions on the x axis: shape / (1 + shape) for the shape, otherwise the values."""
        if self.name != "shape":
            return values
        return np.where(np.isinf(values), 1.0, values / (1.0 + np.where(np.isinf(values), 0.0, values)))
