"""`MixtureDisplay`: the fitted classes, the rows and the decision boundary."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_softmax
from scipy.stats import chi2, f
from sklearn.utils import check_random_state

from marmix.core.arrays import Array
from marmix.plotting.drawing import GREY, MARKERS, Display, class_colours, class_label, ink, legend_below
from marmix.plotting.fits import feature_names, numbered, rows_at, single_model, transformed
from marmix.plotting.planes import Components, Scores, chosen_plane, scores_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
Codes = NDArray[np.integer[Any]]

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
    """Classes, rows and the decision boundary, in one or two coordinates.

    The coordinates are features or, if there are more than two, the two directions along which the scores of the classes
    vary most. Labelled rows are filled; the others are hollow and have the label that the fit imputes.
    Ellipses hold 95 % of a component's rows; in one coordinate, class densities times class shares are drawn instead.
    At the boundary the two most probable classes are equally probable given the coordinates. For a logistic regression
    there are no ellipses, and class probabilities are drawn in one coordinate; the other coordinates are at their means
    given those drawn. The six classes with the most rows have colours, and any others are grey.

    Parameters
    ----------
    points : array of shape (m, 1) or (m, 2)
        Coordinates of the drawn rows.
    codes : integer array of shape (m,)
        Their class numbers, given or imputed.
    given : boolean array of shape (m,)
        Whether the label was given.
    weights : array of shape (m,)
        How many rows each drawn row stands for.
    classes : array of shape (K,)
        The classes.
    names : list of str
        Names of the coordinates.
    matrix, origin : arrays of shape (1 or 2, d) and (d,)
        The coordinates of a row x are ``matrix @ (x - origin)``.
    grid : list of arrays
        Values along each coordinate.
    scores : array of shape (K, ...)
        At the grid points: log of prior times density (mixture), or log posteriors up to a constant.
    boundary : list of arrays
        Lines (n, 2) between the classes; in one coordinate, points (1,).
    ellipses : list of Ellipse
        Outlines of the components, each with its class (`label`) and `points` (n, 2).
    densities : bool
        Whether the scores are those of densities.
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
    given: NDArray[np.bool_]
    weights: Array
    classes: NDArray[Any]
    names: list[str]
    matrix: Array
    origin: Array
    grid: list[Array]
    scores: Array
    boundary: list[Array]
    ellipses: list[Ellipse]
    densities: bool
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
        features : list of one or two column names or positions, or None, default=None
            By default all features if there are at most two, otherwise two directions that separate the classes.
        max_points : int, default=2000
            Most rows to draw; of a larger table, half labelled and half unlabelled rows where possible.
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
        places, weights = _sample(z, max_points, random_state)
        rows = transformed(estimator, rows_at(X, places))
        imputed = np.asarray(model.predict_log_proba(rows)).argmax(axis=1)
        rows, given = np.asarray(rows, dtype=float), z[places] >= 0
        codes = np.where(given, z[places], imputed)
        plane = chosen_plane(model.model_, feature_names(estimator), features, rows, codes)
        scores_at, components = scores_on(model.model_, plane, rows)
        points = plane.points(rows)
        grid = [_axis(points[:, i]) for i in range(points.shape[1])]
        nodes = np.column_stack([axis.ravel() for axis in np.meshgrid(*grid)])
        scores = scores_at(nodes).reshape(-1, *[len(axis) for axis in reversed(grid)])
        flat = len(grid) == 1
        note = ""
        if len(places) < len(z):
            labelled, others = (f"{(given == g).sum():,} of {((z >= 0) == g).sum():,}" for g in (True, False))
            note = f"The figure shows {labelled} labelled rows and {others} rows without a label."
        return cls(
            points=points,
            codes=codes,
            given=given,
            weights=weights,
            classes=model.classes_,
            names=plane.words,
            matrix=plane.matrix,
            origin=plane.origin,
            grid=grid,
            scores=scores,
            boundary=_crossings(grid[0], scores, scores_at) if flat else _lines(grid, scores),
            ellipses=[] if components is None or flat else _ellipses(components, model.classes_),
            densities=components is not None,
            note_=note,
        ).plot(ax)

    def _draw(self, ax: "Axes") -> None:
        largest = np.argsort(-np.bincount(self.codes, minlength=len(self.classes)), kind="stable")[:COLOURED]
        looks = [(GREY, ".")] * len(self.classes)
        for k, colour, marker in zip(np.sort(largest), class_colours(len(largest)), MARKERS, strict=False):
            looks[k] = (colour, marker)
        (self._draw_line if len(self.grid) == 1 else self._draw_plane)(ax, looks)
        self._legend(ax, looks)

    def _draw_plane(self, ax: "Axes", looks: list[tuple[str, str]]) -> None:
        from matplotlib.colors import to_rgb

        x, y = self.grid
        shades = np.array([to_rgb(colour) for colour, _ in looks])[self.scores.argmax(axis=0)]
        corners = (x[0], x[-1], y[0], y[-1])
        ax.imshow(shades, origin="lower", extent=corners, aspect="auto", alpha=0.1, interpolation="nearest", zorder=0)
        self._draw_points(ax, self.points[:, 0], self.points[:, 1], looks)
        for label, outline in self.ellipses:
            ax.plot(*outline.T, color=looks[self.classes.tolist().index(label)][0], linewidth=1.5)
        for line in self.boundary:
            ax.plot(*line.T, color=ink(), linewidth=1.1)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xlabel=self.names[0], ylabel=self.names[1])

    def _draw_line(self, ax: "Axes", looks: list[tuple[str, str]]) -> None:
        x = self.grid[0]
        heights = np.exp(self.scores if self.densities else log_softmax(self.scores, axis=0))
        top = 1.0
        if self.densities:
            bars, edges = np.histogram(self.points[:, 0], 40, (x[0], x[-1]), density=True, weights=self.weights)
            ax.stairs(bars, edges, fill=True, color=GREY, alpha=0.3, linewidth=0)
            top = float(max(heights.max(), bars.max()))
        for height, (colour, _) in zip(heights, looks, strict=True):
            ax.plot(x, height, color=colour)
        for at in self.boundary:
            ax.axvline(float(at[0]), color=ink(), linewidth=1.1)
        strip = 0.07 * top
        jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(self.points))
        self._draw_points(ax, self.points[:, 0], -strip * (0.7 + self.codes + jitter), looks)
        ax.set(xlim=(x[0], x[-1]), ylim=(-strip * (len(looks) + 0.4), 1.06 * top), xlabel=self.names[0])
        ax.set_ylabel("density of the class, times its share of all rows" if self.densities else "P(class)")
        ax.set_yticks([tick for tick in ax.get_yticks() if 0.0 <= tick <= 1.06 * top])

    def _draw_points(self, ax: "Axes", x: Array, y: Array, looks: list[tuple[str, str]]) -> None:
        for k, (colour, marker) in enumerate(looks):
            for given in (False, True):
                at = (self.codes == k) & (self.given == given)
                fill: dict[str, Any] = {"facecolors": colour if given else "none", "linewidths": 0.0 if given else 0.6}
                ax.scatter(
                    x[at], y[at], s=9.0, marker=marker, edgecolors=colour, alpha=0.8, zorder=1.5 + given / 10, **fill
                )

    def _legend(self, ax: "Axes", looks: list[tuple[str, str]]) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

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
        if self.boundary:
            entries.append(Line2D([], [], color=ink(), linewidth=1.1, label="decision boundary"))
        if self.ellipses:
            group = "a component's rows" if len(self.ellipses) > len(self.classes) else "the class"
            entries.append(Line2D([], [], color=GREY, linewidth=1.5, label=f"{100 * LEVEL:.0f} % of {group}"))
        if self.densities and len(self.grid) == 1:
            entries.append(Patch(color=GREY, alpha=0.3, linewidth=0, label="all rows"))
        legend_below(ax, 2, 12.0 * self.names[0].count("\n"), handles=entries)


def _sample(z: Codes, most: int, random_state: Any) -> tuple[NDArray[np.intp], Array]:
    """Positions of at most `most` rows, labelled and unlabelled, and how many rows each stands for."""
    if most < 2:
        raise ValueError(f"max_points={most!r} must be at least 2.")
    labelled, others = np.flatnonzero(z >= 0), np.flatnonzero(z < 0)
    first = min(len(labelled), max(most // 2, most - len(others)))
    rng, weights = check_random_state(random_state), np.empty(len(z))
    for group, size in ((labelled, first), (others, min(len(others), most - first))):
        weights[group] = 0.0
        weights[rng.choice(group, size, replace=False)] = len(group) / max(size, 1)
    places = np.flatnonzero(weights)
    return places, weights[places]


def _axis(values: Array) -> Array:
    """Grid values along a coordinate, covering all but the most extreme rows."""
    low, high = np.quantile(values, [0.002, 0.998])
    room = 0.12 * (high - low) or 0.5
    return np.linspace(low - room, high + room, ACROSS)


def _lines(grid: list[Array], scores: Array) -> list[Array]:
    """The decision boundary in two coordinates, as lines."""
    from contourpy import contour_generator

    lines: list[Array] = []
    for k in range(1, 2) if len(scores) == 2 else range(len(scores)):
        lead = scores[k] - np.delete(scores, k, axis=0).max(axis=0)
        lines += [np.asarray(line, dtype=float) for line in contour_generator(x=grid[0], y=grid[1], z=lead).lines(0.0)]
    return lines


def _crossings(x: Array, scores: Array, scores_at: Scores) -> list[Array]:
    """The decision boundary in one coordinate, as points."""
    best = scores.argmax(axis=0)

    def lead(at: float, a: int, b: int) -> float:
        values = scores_at(np.array([[at]]))[:, 0]
        return float(values[a] - values[b])

    return [
        np.array([brentq(lead, x[i], x[i + 1], args=(best[i], best[i + 1]))]) for i in np.flatnonzero(np.diff(best))
    ]


def _ellipses(components: Components, classes: NDArray[Any]) -> list[Ellipse]:
    """Ellipses on which ``(x - mean)' covariance^-1 (x - mean)`` is the quantile of its distribution.

    That is chi-square, or twice an F distribution if the component is a t distribution.
    """
    turn = np.linspace(0.0, 2.0 * np.pi, 181)
    circle = np.array([np.cos(turn), np.sin(turn)])
    squared = np.where(np.isinf(components.dof), chi2.ppf(LEVEL, 2), 2.0 * f.ppf(LEVEL, 2, components.dof))
    names = classes.tolist()
    return [
        Ellipse(names[k], mean + np.sqrt(square) * (np.linalg.cholesky(covariance) @ circle).T)
        for k, mean, covariance, square in zip(
            components.owner, components.means, components.covariances, squared, strict=True
        )
    ]
