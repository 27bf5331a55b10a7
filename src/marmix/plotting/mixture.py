"""`MixtureDisplay`: the fitted classes, the rows and the decision boundary."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import f
from sklearn.utils import check_random_state

from marmix.core.arrays import AnyArray, Array, Bools, Ints
from marmix.plotting.drawing import GREY, MARKERS, Display, class_colours, class_label, ink, legend_below
from marmix.plotting.fits import feature_names, numbered, rows_at, single_model, transformed
from marmix.plotting.planes import Components, chosen_plane, scores_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
Codes = Ints

ACROSS = 240  # grid points along an axis
COLOURED = 6  # classes with a colour and a marker of their own
LEVEL = 0.95  # share of a component's rows within its ellipse


class Ellipse(NamedTuple):
    """The outline of a component.

    Attributes
    ----------
    label : object
        Class of the component.
    points : array of shape (n, 2)
        Points on the ellipse.
    """

    label: Any
    points: Array


@dataclass(kw_only=True, eq=False, repr=False)
class MixtureDisplay(Display):
    """Classes, rows and the decision boundary, in two coordinates.

    The coordinates are features or, if there are more than two, the two directions along which the scores of the classes
    vary most. Labelled rows are filled; the others are hollow and have the label that the fit imputes.
    Ellipses hold 95 % of a component's rows.
    At the boundary the two most probable classes are equally probable given the coordinates. For a logistic regression
    there are no ellipses; the other coordinates are at their means given those drawn.
    The six classes with the most rows have colours, and any others are grey.

    Parameters
    ----------
    points : array of shape (m, 2)
        Coordinates of the drawn rows.
    codes : integer array of shape (m,)
        Their class numbers, given or imputed.
    given : boolean array of shape (m,)
        Whether the label was given.
    classes : array of shape (K,)
        The classes.
    names : list of str
        Names of the coordinates.
    grid : list of arrays
        Values along each coordinate.
    scores : array of shape (K, ny, nx)
        At the grid points: log of prior times density (mixture), or log posteriors up to a constant.
    ellipses : list of Ellipse
        Outlines of the components, each with its class (`label`) and `points` (n, 2).
    note_ : str, default=""
        A remark for readers.

    See Also
    --------
    UncertaintyDisplay : The uncertainty of labelled and unlabelled rows.
    MissingnessDisplay : P(label missing) against the uncertainty.
    marmix.MARGaussianMixture : The model that is drawn.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.plotting import MixtureDisplay
    >>> rows = make_mar_mixture(300, random_state=0)
    >>> clf = MARGaussianMixture(covariance_type="tied").fit(rows.data, rows.target)
    >>> display = MixtureDisplay.from_estimator(clf, rows.data, rows.target)
    >>> display.names, int(display.given.sum()), len(display.ellipses)
    (['x0', 'x1'], 85, 2)
    >>> import matplotlib.pyplot as plt
    >>> plt.close(display.figure_)
    """

    points: Array
    codes: Codes
    given: Bools
    classes: AnyArray
    names: list[str]
    grid: list[Array]
    scores: Array
    ellipses: list[Ellipse]
    note_: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        features: Any = None,
        max_points: int = 2000,
        random_state: Any = 0,
        ax: "Axes | None" = None,
    ) -> "MixtureDisplay":
        """Choose the coordinates, and draw the display.

        Parameters
        ----------
        estimator : fitted MARGaussianMixture, MARStudentMixture or MARLogisticRegression
            Or a pipeline that ends in one; the coordinates are then those of the transformed rows.
        X : array-like or table of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, K)
            Labels, missing where -1, NaN, None or pandas.NA; or votes.
        features : list of two column names or positions, or None, default=None
            By default both features if there are two, otherwise two directions that separate the classes.
        max_points : int, default=2000
            Most rows to draw; of a larger table a random sample.
        random_state : int, RandomState instance or None, default=0
            Seed for sampling these rows.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.

        Returns
        -------
        MixtureDisplay
            The display, drawn.
        """
        model = single_model(estimator, cls.__name__)
        z = numbered(y, model.classes_)
        places = np.arange(len(z))
        if len(z) > max_points:
            places = np.sort(check_random_state(random_state).choice(len(z), max_points, replace=False))
        rows = transformed(estimator, rows_at(X, places))
        imputed = np.asarray(model.predict_log_proba(rows)).argmax(axis=1)
        rows, given = np.asarray(rows, dtype=float), z[places] >= 0
        codes = np.where(given, z[places], imputed)
        plane = chosen_plane(model.model_, feature_names(estimator), features, rows, codes)
        scores_at, components = scores_on(model.model_, plane, rows)
        points = plane.points(rows)
        grid = [_axis(values) for values in points.T]
        nodes = np.column_stack([axis.ravel() for axis in np.meshgrid(*grid)])
        return cls(
            points=points,
            codes=codes,
            given=given,
            classes=model.classes_,
            names=plane.words,
            grid=grid,
            scores=scores_at(nodes).reshape(-1, ACROSS, ACROSS),
            ellipses=[] if components is None else _ellipses(components, model.classes_),
            note_=f"The figure shows {len(places):,} of {len(z):,} rows." if len(places) < len(z) else "",
        ).plot(ax)

    def _draw(self, ax: "Axes") -> None:
        from matplotlib.colors import to_rgb

        largest = np.argsort(-np.bincount(self.codes, minlength=len(self.classes)), kind="stable")[:COLOURED]
        looks = [(GREY, ".")] * len(self.classes)
        for k, colour, marker in zip(np.sort(largest), class_colours(len(largest)), MARKERS, strict=False):
            looks[k] = (colour, marker)
        x, y = self.grid
        shades = np.array([to_rgb(colour) for colour, _ in looks])[self.scores.argmax(axis=0)]
        corners = (x[0], x[-1], y[0], y[-1])
        ax.imshow(shades, origin="lower", extent=corners, aspect="auto", alpha=0.1, interpolation="nearest", zorder=0)
        for k, (colour, marker) in enumerate(looks):
            for given in (False, True):
                at = (self.codes == k) & (self.given == given)
                fill: dict[str, Any] = {"facecolors": colour if given else "none", "linewidths": 0.0 if given else 0.6}
                look: dict[str, Any] = {"marker": marker, "edgecolors": colour, "zorder": 1.5 + given / 10}
                ax.scatter(self.points[at, 0], self.points[at, 1], s=9.0, alpha=0.8, **look, **fill)
        for label, outline in self.ellipses:
            ax.plot(*outline.T, color=looks[self.classes.tolist().index(label)][0], linewidth=1.5)
        for k in range(1, 2) if len(looks) == 2 else range(len(looks)):
            lead = self.scores[k] - np.delete(self.scores, k, axis=0).max(axis=0)
            if lead.min() < 0.0 < lead.max():
                ax.contour(x, y, lead, [0.0], colors=[ink()], linewidths=1.1)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xlabel=self.names[0], ylabel=self.names[1])
        self._legend(ax, looks)

    def _legend(self, ax: "Axes", looks: list[tuple[str, str]]) -> None:
        from matplotlib.lines import Line2D

        def spot(words: str, marker: str, colour: str, **look: Any) -> Line2D:
            return Line2D([], [], linestyle="", markersize=4.5, marker=marker, color=colour, label=words, **look)

        pairs = zip(self.classes.tolist(), looks, strict=True)
        entries: list[Any] = [spot(class_label(name), m, colour) for name, (colour, m) in pairs if colour != GREY]
        if len(looks) > COLOURED:
            entries.append(spot("other classes", ".", GREY))
        if self.given.any():
            entries.append(spot("filled: label given", "o", ink(), markeredgewidth=0))
        if not self.given.all():
            entries.append(spot("hollow: label imputed", "o", ink(), markerfacecolor="none"))
        entries.append(Line2D([], [], color=ink(), linewidth=1.1, label="decision boundary"))
        if self.ellipses:
            group = "a component's rows" if len(self.ellipses) > len(self.classes) else "the class"
            entries.append(Line2D([], [], color=GREY, linewidth=1.5, label=f"{100 * LEVEL:.0f} % of {group}"))
        legend_below(ax, 2, 12.0 * self.names[0].count("\n"), handles=entries)


def _axis(values: Array) -> Array:
    """Grid values along a coordinate, covering all but the most extreme rows."""
    low, high = np.quantile(values, [0.002, 0.998])
    room = 0.12 * (high - low) or 0.5
    return np.linspace(low - room, high + room, ACROSS)


def _ellipses(components: Components, classes: AnyArray) -> list[Ellipse]:
    """Ellipses on which ``(x - mean)' covariance^-1 (x - mean)`` is the quantile of its distribution.

    That is twice an F distribution; of a Gaussian, with infinite degrees of freedom, a chi-square.
    """
    turn = np.linspace(0.0, 2.0 * np.pi, 181)
    circle = np.array([np.cos(turn), np.sin(turn)])
    squared = 2.0 * f.ppf(LEVEL, 2, np.minimum(components.dof, 1e9))
    names = classes.tolist()
    return [
        Ellipse(names[k], mean + np.sqrt(square) * (np.linalg.cholesky(covariance) @ circle).T)
        for k, mean, covariance, square in zip(
            components.owner, components.means, components.covariances, squared, strict=True
        )
    ]
