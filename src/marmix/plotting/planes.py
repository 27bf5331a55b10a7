"""One or two coordinates of rows with many features, and the class scores there.

The coordinates are features, or discriminant directions of the fit. Those of a mixture are the eigenvectors of ``W^-1 B``, with
W the mean covariance within the classes and B the covariance of their means: along them the classes are furthest apart relative
to their spread. Those of a logistic regression, which has no means, are the directions along which its scores vary most over the
rows: eigenvectors of the mean of ``(ds/dx)' (ds/dx)`` in units of the rows' covariance.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from marmix.core.arrays import Array
from marmix.core.linear import LinearScores
from marmix.core.model import FittedModel
from marmix.plotting.drawing import figure_text

Scores = Callable[[Array], Array]  # from points (n, m) to scores (K, n)

SLOPES_OF = 200  # rows at which the slopes of the scores are computed
_MOST_VALUES = 100_000  # of the features of these rows
_MOST_LIFTED = 4_000_000  # values of points in the plane whose scores are computed together
NOTHING = 1e-9  # relative to the largest eigenvalue: below it, a direction does not separate the classes


class Components(NamedTuple):
    """Gaussian or Student-t components: weights (C,), means (C, m), covariances or scale matrices (C, m, m), classes (C,)."""

    weights: Array
    means: Array
    covariances: Array
    owner: NDArray[np.integer]
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
        scores = np.empty((len(self.weights), len(points)))
        for c, (mean, covariance, dof) in enumerate(zip(self.means, self.covariances, self.dof, strict=True)):
            factor = np.linalg.cholesky(covariance)
            z = np.linalg.solve(factor, (points - mean).T)
            squared = np.sum(z * z, axis=0)
            constant = np.log(self.weights[c]) - np.log(np.diag(factor)).sum() - 0.5 * len(mean) * np.log(2.0 * np.pi)
            if np.isinf(dof):
                scores[c] = constant - 0.5 * squared
            else:
                constant += gammaln(0.5 * (dof + len(mean))) - gammaln(0.5 * dof) - 0.5 * len(mean) * np.log(0.5 * dof)
                scores[c] = constant - 0.5 * (dof + len(mean)) * np.log1p(squared / dof)
        return np.array([logsumexp(scores[self.owner == k], axis=0) for k in range(self.owner.max() + 1)])

    def by_class(self) -> tuple[Array, Array, Array]:
        """Priors (K,), means (K, m) and covariances (K, m, m) of the classes."""
        member = (self.owner == np.arange(self.owner.max() + 1)[:, None]) * self.weights
        prior = member.sum(axis=1)
        share = member / prior[:, None]
        means = share @ self.means
        apart = self.means - means[self.owner]
        around = self.covariances + np.einsum("ci,cj->cij", apart, apart)
        return prior, means, np.einsum("kc,cij->kij", share, around)


class Plane(NamedTuple):
    """One or two coordinates ``matrix (x - origin)`` of a row x, and their axis labels."""

    matrix: Array  # (m, d)
    origin: Array  # (d,)
    words: list[str]

    def points(self, rows: Array) -> Array:
        """Coordinates (n, m) of rows."""
        return (rows - self.origin) @ self.matrix.T


def chosen_plane(model: FittedModel, names: list[str], features: Any, rows: Array) -> Plane:
    """The requested features; by default all if there are at most two, otherwise two discriminant directions."""
    d = len(names)
    if features is not None or d <= 2:
        columns = list(range(d)) if features is None else _columns(features, names)
        return Plane(np.eye(d)[columns], np.zeros(d), [figure_text(names[i]) for i in columns])
    return _of_mixture(model, names) if model.score_model.joint else _of_scores(model, names, rows)


def _columns(features: Any, names: list[str]) -> list[int]:
    """Positions of one or two features given by name or position."""
    places: dict[Any, int] = {name: i for i, name in enumerate(names)} | {i: i for i in range(len(names))}
    columns = [places.get(feature, -1) for feature in ([features] if isinstance(features, str) else features)]
    if -1 in columns or len(set(columns)) != len(columns) or len(columns) not in (1, 2):
        raise ValueError(
            f"features={features!r} must be one or two of the columns {', '.join(names[:20])}, by name or by position."
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


def _of_mixture(model: FittedModel, names: list[str]) -> Plane:
    prior, means, covariances = Components.of(model).by_class()
    within = np.einsum("k,kij->ij", prior, covariances)
    centre = prior @ means
    root, inverse = _roots(within)
    apart = (means - centre) @ inverse.T
    spread = inverse @ covariances @ inverse.T - np.eye(len(within))
    unlike = np.einsum("k,kij,kjl->il", prior, spread, spread)
    return _plane(
        np.einsum("k,ki,kj->ij", prior, apart, apart),
        unlike if np.trace(unlike) > NOTHING * len(within) else None,
        (root, inverse),
        centre,
        np.column_stack([root, (np.sqrt(prior)[:, None] * (means - centre)).T]),
        names,
    )


def _of_scores(model: FittedModel, names: list[str], rows: Array) -> Plane:
    root, inverse = _roots_of(rows)
    scores: Any = model.score_model
    if type(scores) is LinearScores and scores.degree == 1:
        slopes = np.concatenate([np.zeros((int(scores.vectors == 1), len(names))), model.values["coef"]])[:, None, :]
    else:
        slopes = _slopes(model, rows)
    slopes = slopes - slopes.mean(axis=0)  # a constant added to all scores of a row has no effect
    turned = (slopes @ root).reshape(-1, root.shape[1])
    outer = turned.T @ turned / slopes.shape[1]
    return _plane(outer, None, (root, inverse), rows.mean(axis=0), root, names)


def _slopes(model: FittedModel, rows: Array) -> Array:
    """Slopes (K, m, d) of the scores at a few of the rows, by differences."""
    d = rows.shape[1]
    few = rows[np.unique(np.linspace(0, len(rows) - 1, min(SLOPES_OF, max(10, _MOST_VALUES // d))).astype(int))]
    steps = 1e-3 * rows.std(axis=0, ddof=1)
    slopes = np.zeros((len(model.classes), len(few), d))
    for i in np.flatnonzero(steps):
        up, down = few.copy(), few.copy()
        up[:, i] += steps[i]
        down[:, i] -= steps[i]
        slopes[:, :, i] = (model.scores(up) - model.scores(down)) / (2.0 * steps[i])
    return slopes


def _plane(
    separation: Array,
    unlike: Array | None,
    roots: tuple[Array, Array],
    centre: Array,
    whole: Array,
    names: list[str],
) -> Plane:
    """The two directions of most separation; if only one separates the classes, the second is orthogonal to it.

    `whole` times its transpose is the covariance of all rows.
    """
    root, inverse = roots
    values, vectors = np.linalg.eigh(separation)
    first, second = vectors[:, -1], vectors[:, -2]
    words = ["first discriminant direction", "second discriminant direction"]
    if values[-2] <= NOTHING * values[-1]:
        sd = np.sqrt(np.sum(whole * whole, axis=1))
        scaled = root / np.where(sd > 0.0, sd, 1.0)[:, None]
        across = scaled.T @ scaled if unlike is None else unlike
        outside = np.eye(len(first)) - np.outer(first, first)
        second = np.linalg.eigh(outside @ across @ outside)[1][:, -1]
        words[1] = "orthogonal direction in which the features vary most"
        if unlike is not None:
            words[1] = "orthogonal direction in which the spreads differ most"
    matrix = np.array([first, second]) @ inverse
    matrix *= np.sign(matrix[range(2), np.abs(matrix).argmax(axis=1)])[:, None]
    return Plane(matrix, centre, [f"{w}\n{_mostly(row, whole, names)}" for w, row in zip(words, matrix, strict=True)])


def _mostly(direction: Array, whole: Array, names: list[str]) -> str:
    """The two features that correlate most with a direction, in words."""
    sd = np.sqrt(np.sum(whole * whole, axis=1))
    loading = np.abs(whole @ (direction @ whole)) / np.where(sd > 0.0, sd, 1.0)
    return f"(mostly {', '.join(figure_text(names[i]) for i in np.argsort(-loading, kind='stable')[:2])})"


def _roots_of(rows: Array) -> tuple[Array, Array]:
    """The roots of the covariance of rows, with as many columns as there are rows if these are fewer than features."""
    n, d = rows.shape
    if n > d:
        return _roots(np.atleast_2d(np.cov(rows, rowvar=False)))
    apart = (rows - rows.mean(axis=0)) / np.sqrt(max(n - 1, 1))
    sd = np.sqrt(np.sum(apart * apart, axis=0))
    scale = np.where(sd > 0.0, sd, 1.0)
    _, sizes, vectors = np.linalg.svd(apart / scale, full_matrices=False)
    kept = sizes > 1e-5 * sizes[0]
    root = scale[:, None] * vectors.T * np.where(kept, sizes, 0.0)
    return root, vectors / np.where(kept, sizes, np.inf)[:, None] / scale


def _roots(covariance: Array) -> tuple[Array, Array]:
    """R with ``R R' = covariance``, and its pseudo-inverse."""
    sd = np.sqrt(np.diag(covariance))
    scale = np.where(sd > 0.0, sd, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > 1e-10 * values[-1]
    root = scale[:, None] * vectors * np.sqrt(np.where(kept, values, 0.0))
    inverse = (vectors / np.sqrt(np.where(kept, values, np.inf))).T / scale
    return root, inverse
