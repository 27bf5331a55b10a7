"""Structures with full matrices: one for every component, or one for all."""

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, along_rows, multiply_into, namespace, total_by_row
from marmix.scores.covariance.base import LOG_2PI, Moments, Structure


def precision_factor(covariance: Array, floor: float) -> Array:
    """Lower L with ``L L' = covariance^-1``, pivots raised to the floor; stacks of matrices are fine."""
    flipped = covariance[..., ::-1, ::-1]
    try:
        chol = np.linalg.cholesky(flipped)
    except np.linalg.LinAlgError:  # singular: the smallest ridge that makes it regular
        chol = np.linalg.cholesky(flipped + floor * np.eye(covariance.shape[-1]))
    upper = chol[..., ::-1, ::-1]
    factor = np.swapaxes(np.linalg.inv(upper), -1, -2)
    pivots = np.einsum("...ii->...i", factor)
    return np.tril(factor * np.minimum(1.0, 1.0 / (np.sqrt(floor) * pivots))[..., None, :])


def _diagonal(matrices: Array) -> Array:
    """The diagonals of a contiguous stack of matrices, as a view."""
    d = matrices.shape[-1]
    return matrices.reshape(*matrices.shape[:-2], d * d)[..., :: d + 1]


def _scatter(g0: Array, g1: Array, g2: Array, mu: Array) -> Array:
    """``sum G (x - mu)(x - mu)'`` of each component."""
    cross = g1[:, :, None] * mu[:, None, :]
    return g2 - cross - np.swapaxes(cross, 1, 2) + g0[:, None, None] * mu[:, :, None] * mu[:, None, :]


class Full(Structure):
    """A covariance matrix of its own for every component."""

    name = "full"
    products = "all"

    def __init__(self, d: int):
        super().__init__(d)
        self._rows, self._cols = np.triu_indices(d)
        self._doubled = np.where(self._rows == self._cols, 1.0, 2.0)
        self._diagonal = np.flatnonzero(self._rows == self._cols)  # their places among the steps
        self._unit_scale = np.where(self._rows == self._cols, np.sqrt(0.5), 1.0)
        self._below = np.tril(np.ones((d, d)))

    def n_features(self) -> int:
        return 1 + self.d + len(self._rows)

    def fill_quadratic(self, phi: Array) -> None:
        d, row = self.d, 1 + self.d
        for i in range(d):
            multiply_into(phi[row : row + d - i, :], phi[1 + i : 1 + d, :], phi[1 + i, :])
            row += d - i

    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        d = self.d
        precision = chol @ np.swapaxes(chol, 1, 2)
        coefficients = np.empty((len(mu), 1 + d + len(self._rows)))
        linear = np.matmul(precision, mu[:, :, None])[:, :, 0]
        coefficients[:, 0] = log_pi - 0.5 * d * LOG_2PI - 0.5 * (mu * linear).sum(axis=1)
        coefficients[:, 0] += np.log(_diagonal(chol)).sum(axis=1)
        coefficients[:, 1 : 1 + d] = linear
        coefficients[:, 1 + d :] = -0.5 * self._doubled * precision[:, self._rows, self._cols]
        return coefficients

    def _split(self, moments: Moments) -> tuple[Array, Array, Array]:
        m, d = moments.by_component, self.d
        g2 = np.empty((len(m), d, d))
        g2[:, self._rows, self._cols] = m[:, 1 + d :]
        g2[:, self._cols, self._rows] = m[:, 1 + d :]
        return m[:, 0], m[:, 1 : 1 + d], g2

    def gradient(self, mu: Array, chol: Array, moments: Moments) -> tuple[Array, Array]:
        g0, g1, g2 = self._split(moments)
        residual = g1 - g0[:, None] * mu
        by_mu = (chol @ (np.swapaxes(chol, 1, 2) @ residual[:, :, None]))[:, :, 0]
        by_chol = _scatter(g0, g1, g2, mu) @ chol
        by_chol *= -self._below
        _diagonal(by_chol)[...] += g0[:, None] / _diagonal(chol)
        return by_mu, by_chol

    def m_step(self, moments: Moments, floor: float) -> tuple[Array, Array]:
        g0, g1, g2 = self._split(moments)
        mu = g1 / g0[:, None]
        return mu, precision_factor(_scatter(g0, g1, g2, mu) / g0[:, None, None], floor)

    # Coordinates: L = reference Lambda, Lambda lower triangular with exponential diagonal. A complete-data row carries
    # information 2 about a log diagonal entry and 1 about one below it, times the component's weight.

    def step_shape(self, components: int) -> tuple[int, ...]:
        return (components, len(self._rows))

    def _step_scale(self, weights: Array) -> Array:
        return self._unit_scale / np.sqrt(weights)[..., None]

    def move(self, reference: Array, steps: Array, weights: Array) -> Array:
        entries = steps * self._step_scale(weights)
        entries[..., self._diagonal] = np.exp(entries[..., self._diagonal])
        lower = np.zeros((*steps.shape[:-1], self.d, self.d))
        lower[..., self._cols, self._rows] = entries
        return reference @ lower

    def pull(self, reference: Array, steps: Array, weights: Array, by_chol: Array) -> Array:
        scale = self._step_scale(weights)
        by_lambda = np.swapaxes(reference, -1, -2) @ by_chol
        entries = by_lambda[..., self._cols, self._rows]
        entries[..., self._diagonal] *= np.exp(steps[..., self._diagonal] * scale[..., self._diagonal])
        return entries * scale

    def step_limits(self, reference: Array, weights: Array, floor: float) -> Array:
        limits = np.full((*reference.shape[:-2], len(self._rows)), np.inf)
        room = -0.5 * np.log(floor) - np.log(np.einsum("...ii->...i", reference))
        limits[..., self._diagonal] = np.maximum(room, 0.0)
        return limits / self._step_scale(weights)

    def limited_steps(self, at_limit: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A feature without variance explains no other one: the regressions on it go with its pivot."""
        return at_limit | at_limit[..., self._diagonal][..., self._cols]

    def spread(self, chol: Array, components: int) -> Array:
        return np.broadcast_to(np.swapaxes(np.linalg.inv(chol), -1, -2), (components, self.d, self.d))

    def pivots(self, chol: Array) -> Array:
        return np.atleast_2d(np.einsum("...ii->...i", chol) ** -2.0)

    def whitener(self, covariance: Array) -> Array:
        return precision_factor(covariance, np.finfo(float).tiny).T

    def covariances(self, chol: Array, unwhitener: Array) -> Array:
        root = unwhitener @ np.swapaxes(np.linalg.inv(chol), -1, -2)
        return root @ np.swapaxes(root, -1, -2)

    def entries(self, features: list[str]) -> list[tuple[str, str]]:
        return [(features[i], "" if i == j else features[j]) for i, j in zip(self._rows, self._cols, strict=True)]

    def distinct(self, covariances: Array) -> Array:
        return covariances[..., self._rows, self._cols]

    def factor(self, covariances: Array, floor: float) -> Array:
        return precision_factor(covariances, floor)

    def positive(self, covariances: Array) -> bool:
        return bool((np.linalg.eigvalsh(covariances) > 0.0).all())

    def rebase(self, covariances: Array, whitener: Array) -> Array:
        return whitener @ covariances @ whitener.T

    def project(self, covariances: Array, weights: Array) -> Array:
        return covariances


class WideFull(Full):
    """`Full` for many features: rows are whitened by each component instead of being expanded into products.

    The products of d features are d (d + 1) / 2 numbers a row to write and read again; from some 16 features on, two
    d x d matrix products a component cost less.
    """

    def n_features(self) -> int:
        return 1 + self.d

    def fill_quadratic(self, phi: Array) -> None:
        """Nothing: the quadratic term needs no features."""

    def values_per_row(self, components: int) -> int:
        """Those of rows whitened by every component."""
        return components * self.d

    def detailed(self) -> Full:
        return Full(self.d)

    def prepare(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        """``[log(pi |L|) - d/2 log 2 pi, 0]`` above ``[-L' mu, L']``, for each component."""
        prepared = np.zeros((len(mu), 1 + self.d, 1 + self.d))
        prepared[:, 0, 0] = log_pi - 0.5 * self.d * LOG_2PI + np.log(np.einsum("cii->ci", chol)).sum(axis=1)
        prepared[:, 1:, 0] = -np.matmul(mu[:, None, :], chol)[:, 0, :]
        prepared[:, 1:, 1:] = np.swapaxes(chol, 1, 2)
        return prepared

    def scores(self, prepared: Array, phi: Array) -> Array:
        xp, components, d, n = namespace(phi), prepared.shape[0], self.d, phi.shape[1]
        white = xp.reshape(prepared[:, 1:, :], (components * d, 1 + d)) @ phi
        white *= white
        distance = xp.sum(xp.reshape(white, (components, d, n)), axis=1)
        distance *= -0.5
        distance += prepared[:, :1, 0]
        return distance

    def moments(self, g: Array, phi: Array) -> Array:
        """``[sum_j G_j, sum_j G_j x_j [1, x_j]']`` of a block, flat for each component."""
        xp, components, d, n = namespace(phi), g.shape[0], self.d, phi.shape[1]
        weighted = xp.reshape(g[:, None, :] * phi[1:, :], (components * d, n))
        g12 = xp.reshape(along_rows(weighted, phi), (components, d * (1 + d)))
        return xp.concat([xp.reshape(total_by_row(g), (components, 1)), g12], axis=1)

    def gathered(self, moments: Array) -> Array:
        g12 = moments[:, 1:].reshape(len(moments), self.d, 1 + self.d)
        return np.concatenate([moments[:, :1], g12[:, :, 0], g12[:, :, 1:][:, self._rows, self._cols]], axis=1)


class Tied(Full):
    """One covariance matrix for all components: the quadratic term cancels from the posteriors."""

    name = "tied"
    shared_quadratic = True
    by_component = False
    products = "none"

    def n_features(self) -> int:
        return 1 + self.d

    def fill_quadratic(self, phi: Array) -> None:
        """Nothing: the quadratic term needs no features."""

    def detailed(self) -> Full:
        return Full(self.d)

    def pooled(self, by_component: Array) -> Moments:
        products = by_component[:, 1 + self.d :].sum(axis=0)
        second = np.empty((self.d, self.d))
        second[self._rows, self._cols] = products
        second[self._cols, self._rows] = products
        return Moments(by_component[:, : 1 + self.d], second)

    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        linear = mu @ chol @ chol.T
        constant = log_pi - 0.5 * self.d * LOG_2PI - 0.5 * np.einsum("ci,ci->c", mu, linear)
        constant += np.log(np.diag(chol)).sum()
        return np.concatenate([constant[:, None], linear], axis=1)

    def shared_term(self, chol: Array, second: Array) -> float:
        return float(-0.5 * np.sum((second @ chol) * chol))

    def _pooled(self, moments: Moments, mu: Array) -> tuple[Array, Array, Array]:
        m = moments.by_component
        g0, g1 = m[:, 0], m[:, 1:]
        cross = g1.T @ mu
        assert moments.second is not None
        return g0, g1, moments.second - cross - cross.T + (mu.T * g0) @ mu

    def gradient(self, mu: Array, chol: Array, moments: Moments) -> tuple[Array, Array]:
        g0, g1, scatter = self._pooled(moments, mu)
        by_mu = (g1 - g0[:, None] * mu) @ chol @ chol.T
        by_chol = scatter @ chol
        by_chol *= -self._below
        _diagonal(by_chol)[...] += g0.sum() / np.diag(chol)
        return by_mu, by_chol

    def m_step(self, moments: Moments, floor: float) -> tuple[Array, Array]:
        mu = moments.by_component[:, 1:] / moments.by_component[:, :1]
        g0, _, scatter = self._pooled(moments, mu)
        return mu, precision_factor(scatter / g0.sum(), floor)

    def step_shape(self, components: int) -> tuple[int, ...]:
        return (len(self._rows),)

    def _step_scale(self, weights: Array) -> Array:
        return self._unit_scale / np.sqrt(weights.sum())

    def project(self, covariances: Array, weights: Array) -> Array:
        return np.einsum("c,cij->ij", weights / weights.sum(), covariances)
