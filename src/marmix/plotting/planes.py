"""Two coordinates of rows with many features, and the class scores there.

The coordinates are features, or the directions along which the scores of a fit vary most: in units of the rows' covariance,
eigenvectors of the mean of ``sum_k pi_k (ds_k/dx)' (ds_k/dx)``, with scores centred over the classes and pi_k the shares of the
classes. For a Gaussian mixture with tied covariances these are the discriminant directions, eigenvectors of ``W^-1 B``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from marmix.core.arrays import Array, Ints
from marmix.core.model import FittedModel
from marmix.plotting.drawing import figure_text

Scores = Callable[[Array], Array]  # from points (n, 2) to scores (K, n)

SLOPES_OF = 200  # rows at which the slopes of the scores are computed
NOTHING = 1e-5  # relative to the largest slope: below it, a direction does not separate the classes
_STEP = 1e-3  # of differences, in standard deviations
_MOST_VALUES = 100_000  # of the features of the rows at which slopes are computed
_MOST_LIFTED = 4_000_000  # values of points in the plane whose scores are computed together


class Components(NamedTuple):
    """Gaussian or Student-t components: weights (C,), means (C, m), covariances or scale matrices (C, m, m), classes (C,)."""

    weights: Array
    means: Array
    covariances: Array
    owner: Ints
    dof: Array  # (C,), infinite for Gaussians

    @classmethod
    def of(cls, model: FittedModel) -> "Components":
        """The components of a fitted mixture, in the units of the features."""
        scores: Any = model.score_model
        roots = scores.roots(model.theta, model.frame)
        covariances = roots @ np.swapaxes(roots, 1, 2)
        dof = model.values.get("dof", np.full(scores.n_classes, np.inf))[scores.owner]
        return cls(model.values["weights"], model.values["means"], covariances, scores.owner, dof)

    def projected(self, plane: "Plane") -> "Components":
        """The components in the coordinates of a plane."""
        means = (self.means - plane.origin) @ plane.matrix.T
        return self._replace(means=means, covariances=plane.matrix @ self.covariances @ plane.matrix.T)

    def scores(self, points: Array) -> Array:
        """Log of prior times density of each class, (K, n)."""
        each = zip(self.weights, self.means, self.covariances, self.dof, strict=True)
        scores = np.array(
            [np.log(w) + np.atleast_1d(multivariate_t(m, c, dof).logpdf(points)) for w, m, c, dof in each]
        )
        return np.array([logsumexp(scores[self.owner == k], axis=0) for k in range(self.owner.max() + 1)])


class Plane(NamedTuple):
    """Two coordinates ``matrix (x - origin)`` of a row x, and their axis labels."""

    matrix: Array  # (2, d)
    origin: Array  # (d,)
    words: list[str]

    def points(self, rows: Array) -> Array:
        """Coordinates (n, 2) of rows."""
        return (rows - self.origin) @ self.matrix.T


def chosen_plane(model: FittedModel, names: list[str], features: Any, rows: Array, codes: Ints) -> Plane:
    """The requested features; by default both if there are two, otherwise the two directions of most separation."""
    d = len(names)
    if d < 2:
        raise ValueError("this figure needs two features.")
    if features is None and d > 2:
        return _of_scores(model, names, rows, np.bincount(codes, minlength=len(model.classes)) / len(codes))
    columns = list(range(d)) if features is None else _columns(features, names)
    return Plane(np.eye(d)[columns], np.zeros(d), [figure_text(names[i]) for i in columns])


def _columns(features: Any, names: list[str]) -> list[int]:
    """Positions of two features given by name or position."""
    places: dict[Any, int] = {name: i for i, name in enumerate(names)} | {i: i for i in range(len(names))}
    columns = [places.get(feature, -1) for feature in features]
    if -1 in columns or len(set(columns)) != 2:
        raise ValueError(
            f"features={features!r} must be two of the columns {', '.join(names[:20])}, by name or position."
        )
    return columns


def scores_on(model: FittedModel, plane: Plane, rows: Array) -> tuple[Scores, Components | None]:
    """Scores at points of the plane, and the projected components of a mixture.

    A mixture gives the distribution of the coordinates in each class. For a logistic regression the other coordinates are set
    to their linear prediction from those drawn, over these rows.
    """
    if model.score_model.joint:
        components = Components.of(model).projected(plane)
        return components.scores, components
    centre = rows.mean(axis=0)
    apart = rows - centre
    across = apart.T @ (apart @ plane.matrix.T) / max(len(rows) - 1, 1)  # covariances of features and coordinates
    lift = across @ np.linalg.pinv(plane.matrix @ across, hermitian=True)
    through = plane.points(centre[None, :])
    size = max(_MOST_LIFTED // len(centre), 1)

    def scores(points: Array) -> Array:
        parts = [points[a : a + size] for a in range(0, len(points), size)]
        return np.concatenate([model.scores(centre + (part - through) @ lift.T) for part in parts], axis=1)

    return scores, None


def _of_scores(model: FittedModel, names: list[str], rows: Array, shares: Array) -> Plane:
    """The two directions along which the scores vary most; if there is only one, the second is orthogonal to it."""
    n, d = rows.shape
    centre, sd = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    scale = np.where(sd > 0.0, sd, 1.0)
    _, sizes, vectors = np.linalg.svd((rows - centre) / scale / np.sqrt(n - 1), full_matrices=False)
    kept = sizes > NOTHING * sizes[0]
    correlated = vectors[kept].T * sizes[kept]  # its product with its transpose is the matrix of correlations
    root, inverse = scale[:, None] * correlated, vectors[kept] / sizes[kept, None] / scale
    at = rows[np.unique(np.linspace(0, n - 1, min(SLOPES_OF, max(10, _MOST_VALUES // d))).astype(int))]
    slopes = np.array([model.scores(at + step) - model.scores(at - step) for step in _STEP * root.T])  # (r, K, m)
    slopes -= np.einsum("k,rkm->rm", shares, slopes)[:, None, :]
    _, sizes, vectors = np.linalg.svd(
        (slopes * np.sqrt(shares)[:, None]).reshape(len(slopes), -1).T, full_matrices=False
    )
    directions, words = vectors[:2], ["first discriminant direction", "second discriminant direction"]
    if len(sizes) < 2 or sizes[1] <= NOTHING * sizes[0]:
        first = vectors[0]
        second = np.linalg.svd(correlated - np.outer(correlated @ first, first), full_matrices=False)[2][0]
        directions, words[1] = np.array([first, second]), "orthogonal direction of largest variance"
    loading = correlated @ directions.T
    directions *= np.sign(loading[np.abs(loading).argmax(axis=0), range(2)])[:, None]
    for i, order in enumerate(np.argsort(-np.abs(loading), axis=0, kind="stable").T):
        words[i] += f"\n(mostly {', '.join(figure_text(names[j]) for j in order[:2])})"
    return Plane(directions @ inverse, centre, words)
