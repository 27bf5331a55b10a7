"""`ProfileDisplay`: the profile log-likelihood of a parameter of the mechanism."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2

from marmix.core.arrays import Array
from marmix.inference.profile import Profile
from marmix.plotting.drawing import BLUE, GREY, Display, figure_text, ink, legend_below, paper_colour
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
    profile : Profile
        The profile, with a curve.

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
    >>> slope = display.profile
    >>> print(f"{slope.estimate:.1f}, 95 % interval {slope.lower:.1f} to {slope.upper:.1f}")
    4.2, 95 % interval 2.8 to 5.8
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    profile: Profile

    def __post_init__(self) -> None:
        self.drop = float(chi2.ppf(self.profile.level, 1)) / 2.0

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
        return cls(profile=profile).plot(ax)

    def _draw(self, ax: "Axes") -> None:
        profile = self.profile
        x, ends = self._on_axis(profile.values), self._on_axis(np.array([profile.lower, profile.upper]))
        ax.plot(x, profile.loglik, "o-", color=paper_colour(BLUE), markersize=2.5, label="profile log-likelihood")
        ax.axhline(-self.drop, color=GREY, linewidth=0.9, linestyle="--", label="threshold of the interval")
        low, high = np.clip(ends, x.min(), x.max())
        label = f"{100.0 * profile.level:g} % interval"
        ax.axvspan(low, high, color=paper_colour(BLUE), alpha=0.12, linewidth=0, label=label)
        estimate = self._on_axis(np.array([profile.estimate]))
        ax.plot(estimate, [0.0], "D", color=ink(), markersize=4.5, label=f"estimate, {profile.estimate:.3g}")
        ax.set_ylim(min(1.25 * -self.drop, float(profile.loglik.min())) - 0.05, 0.12 * self.drop)
        label = WORDS.get(profile.name, f"{figure_text(profile.name)}, a slope of the mechanism")
        ax.set(xlabel=label, ylabel="log-likelihood minus its maximum")
        if profile.name == "shape":
            ax.set_xticks(self._on_axis(np.array(SHAPES)), ["∞" if np.isinf(at) else f"{at:g}" for at in SHAPES])
            ax.set_xlim(x.min() - 0.02, x.max() + 0.02)
        legend_below(ax)

    def _on_axis(self, values: Array) -> Array:
        """Positions on the x axis: shape / (1 + shape) for the shape, otherwise the values."""
        return 1.0 - 1.0 / (1.0 + values) if self.profile.name == "shape" else values
