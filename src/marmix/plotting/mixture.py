"""`MixtureDisplay`: the fitted classes, the rows and the decision boundary."""

from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, f
from sklearn.utils import check_random_state

from marmix.core.arrays import Array
from marmix.plotting.base import Display
from marmix.plotting.drawing import (
    BLUE,
    GREY,
    MARKERS,
    MOST_PANELS,
    class_colours,
    class_label,
    ink,
    legend_below,
    panel_legend,
    panel_size,
    panels,
    paper_colour,
)
from marmix.plotting.fits import feature_names, numbered, rows_at, single_model, transformed
from marmix.plotting.planes import Components, Scores, chosen_plane, scores_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
Codes = NDArray[np.integer[Any]]

ACROSS = 240  # grid points along an axis
CLASSES_TOGETHER = 6  # classes in one panel; more classes have a panel each
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

    The coordinates are features or, if there are more than two, the two discriminant directions along which the fitted
    classes are furthest apart. Labelled rows are filled; the others are hollow and have the label that the fit imputes.
    Ellipses hold 95 % of a component's rows; in one coordinate, class densities times class shares are drawn instead.
    At the boundary the two most probable classes are equally probable given the coordinates. For a logistic regression
    there are no ellipses, and class probabilities are drawn in one coordinate; the other coordinates are at their means
    given those drawn. More than six classes have a small panel each, at most the 30 with the most rows.

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
    note : str, default=""
        A remark for readers, kept as `note_`.

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
            By default all features if there are at most two, otherwise two discriminant directions.
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
        plane = chosen_plane(model.model_, feature_names(estimator), features, rows)
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
            codes=np.where(given, z[places], imputed),
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
            note=note,
        ).plot(ax)

    @property
    def _size(self) -> tuple[float, float]:  # type: ignore[override]
        return panel_size(min(len(self.classes), MOST_PANELS)) if len(self.classes) > CLASSES_TOGETHER else (4.8, 4.4)

    def _draw(self, ax: "Axes") -> None:
        if len(self.classes) > CLASSES_TOGETHER:
            self._draw_panels(ax)
            return
        colours = class_colours(len(self.classes))
        if len(self.grid) == 1:
            self._draw_line(ax, colours)
        else:
            self._draw_plane(ax, colours)
        legend_below(ax, 2, 12.0 * self.names[0].count("\n"), **self._legend(colours))

    def _draw_panels(self, ax: "Axes") -> None:
        """Draw each class in a small panel, before all rows."""
        colour, flat = paper_colour(BLUE), len(self.grid) == 1
        places = np.sort(np.argsort(-np.bincount(self.codes, minlength=len(self.classes)), kind="stable")[:MOST_PANELS])
        across, up = ("first", "" if flat else "second") if self.names[0].count("\n") else (*self.names, "")[:2]
        small, below = panels(ax, self.classes[places].tolist(), across, up)
        for panel, k in zip(small, places, strict=True):
            members = self.codes == k
            if flat:
                along, heights = self.grid[0], self._heights()
                panel.plot(along, heights.T, color=GREY, alpha=0.4, linewidth=0.6)
                panel.fill_between(along, heights[k], color=colour, alpha=0.25, linewidth=0)
                panel.plot(along, heights[k], color=colour, linewidth=1.2)
                panel.set(ylim=(0.0, 1.06 * float(heights.max())), yticks=[])
            else:
                panel.plot(*self.points[~members].T, ",", color=GREY, alpha=0.5, zorder=0.5)
                for given in (False, True):
                    look: dict[str, Any] = {"facecolors": colour if given else "none", "linewidths": 0.5}
                    x, y = self.points[members & (self.given == given)].T
                    panel.scatter(x, y, s=5.0, edgecolors=colour, **look)
                for label, outline in self.ellipses:
                    if label == self.classes.tolist()[k]:
                        panel.plot(*outline.T, color=ink(), linewidth=0.9)
                panel.set(ylim=(self.grid[1][0], self.grid[1][-1]))
            panel.set(xlim=(self.grid[0][0], self.grid[0][-1]))
        entries = self._legend([colour], many=True)
        words = "\n".join(" ".join(name.split("\n")) for name in self.names)
        panel_legend(ax, below, title=words if "\n" in self.names[0] else None, title_fontsize="small", **entries)

    def _heights(self) -> Array:
        """Densities or probabilities of the classes along the coordinate."""
        return np.exp(self.scores if self.densities else self.scores - np.logaddexp.reduce(self.scores, axis=0))

    def _draw_plane(self, ax: "Axes", colours: list[str]) -> None:
        from matplotlib.colors import to_rgb

        x, y = self.grid
        shades = np.array([to_rgb(colour) for colour in colours])[self.scores.argmax(axis=0)]
        corners = (x[0], x[-1], y[0], y[-1])
        ax.imshow(shades, origin="lower", extent=corners, aspect="auto", alpha=0.1, interpolation="nearest", zorder=0)
        self._draw_points(ax, self.points[:, 0], self.points[:, 1], colours)
        for label, outline in self.ellipses:
            colour = colours[self.classes.tolist().index(label)]
            ax.plot(*outline.T, color=colour, linewidth=1.5)
        for line in self.boundary:
            ax.plot(*line.T, color=ink(), linewidth=1.1)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xlabel=self.names[0], ylabel=self.names[1])

    def _draw_line(self, ax: "Axes", colours: list[str]) -> None:
        x, heights = self.grid[0], self._heights()
        top = 1.0
        if self.densities:
            bars, edges = np.histogram(self.points[:, 0], 40, (x[0], x[-1]), density=True, weights=self.weights)
            ax.stairs(bars, edges, fill=True, color=GREY, alpha=0.3, linewidth=0, label="all rows")
            top = float(max(heights.max(), bars.max()))
        for height, colour in zip(heights, colours, strict=True):
            ax.plot(x, height, color=colour)
        for at in self.boundary:
            ax.axvline(float(at[0]), color=ink(), linewidth=1.1)
        strip = 0.07 * top
        jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(self.points))
        self._draw_points(ax, self.points[:, 0], -strip * (0.7 + self.codes + jitter), colours)
        ax.set(xlim=(x[0], x[-1]), ylim=(-strip * (len(colours) + 0.4), 1.06 * top), xlabel=self.names[0])
        ax.set_ylabel("density of the class, times its share of all rows" if self.densities else "P(class)")
        ax.set_yticks([tick for tick in ax.get_yticks() if 0.0 <= tick <= 1.06 * top])

    def _draw_points(self, ax: "Axes", x: Array, y: Array, colours: list[str]) -> None:
        size = 12.0 if len(x) <= 500 else 7.0
        for k, colour in enumerate(colours):
            for given in (False, True):
                members = (self.codes == k) & (self.given == given)
                look: dict[str, Any] = {"linewidths": 0} if given else {"facecolors": "none", "linewidths": 0.6}
                look |= {"c": colour} if given else {"edgecolors": colour}
                marker = MARKERS[k % len(MARKERS)]
                ax.scatter(x[members], y[members], s=size, marker=marker, alpha=0.8, zorder=1.5 + given / 10, **look)

    def _legend(self, colours: list[str], many: bool = False) -> dict[str, Any]:
        """Handles and labels; with `many` classes, those of a small panel."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        def spot(**look: Any) -> Line2D:
            return Line2D([], [], linestyle="", markersize=4.5, **look)

        flat = len(self.grid) == 1
        names = [] if many else self.classes.tolist()
        entries: list[tuple[Any, str]] = [
            (spot(color=colour, marker=MARKERS[k % len(MARKERS)]), class_label(name))
            for k, (colour, name) in enumerate(zip(colours, names, strict=False))
        ]
        dot = colours[0] if many else ink()
        if self.given.any() and not (many and flat):
            entries.append((spot(color=dot, marker="o", markeredgewidth=0), "filled: label given"))
        if not self.given.all() and not (many and flat):
            entries.append((spot(color=dot, marker="o", markerfacecolor="none"), "hollow: label imputed"))
        if many:
            others = "other classes" if flat else "rows of other classes"
            entries.append(
                (Line2D([], [], color=GREY, linewidth=0.6) if flat else spot(color=GREY, marker="."), others)
            )
        elif self.boundary:
            entries.append((Line2D([], [], color=ink(), linewidth=1.1), "decision boundary"))
        if self.ellipses:
            group = "a component's rows" if len(self.ellipses) > len(self.classes) else "the class"
            look: dict[str, Any] = {"color": ink(), "linewidth": 0.9} if many else {"color": GREY, "linewidth": 1.5}
            entries.append((Line2D([], [], **look), f"{100 * LEVEL:.0f} % of {group}"))
        if self.densities and flat and not many:
            entries.append((Patch(color=GREY, alpha=0.3, linewidth=0), "all rows"))
        return {"handles": [e[0] for e in entries], "labels": [e[1] for e in entries]}


def _sample(z: Codes, most: int, random_state: Any) -> tuple[NDArray[np.intp], Array]:
    """Positions of at most `most` rows, labelled and unlabelled, and how many rows each stands for."""
    if most < 2:
        raise ValueError(f"max_points={most!r} must be at least 2.")
    labelled, others = np.flatnonzero(z >= 0), np.flatnonzero(z < 0)
    first = min(len(labelled), max(most // 2, most - len(others)))
    rng = check_random_state(random_state)
    places, weights = [], []
    for group, size in ((labelled, first), (others, min(len(others), most - first))):
        places.append(rng.choice(group, size, replace=False))
        weights.append(np.full(size, len(group) / max(size, 1)))
    chosen = np.concatenate(places)
    order = np.argsort(chosen)
    return chosen[order], np.concatenate(weights)[order]


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
    crossings = []
    for i in np.flatnonzero(np.diff(best)):
        a, b = best[i], best[i + 1]

        def lead(at: float, a: int = a, b: int = b) -> float:
            values = scores_at(np.array([[at]]))[:, 0]
            return float(values[a] - values[b])

        crossings.append(np.array([brentq(lead, x[i], x[i + 1])]))
    return crossings


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
