"""Covariance structures: full, tied, diag, spherical, each a `Structure` in `STRUCTURES`.

A structure stores the Cholesky factor ``L`` of the precision, ``Sigma^-1 = L L'`` with ``L`` lower triangular, in its own compact
shape. It defines features ``phi(x)`` in which the log density is linear, its coefficients, and how moments of ``phi`` become a
gradient or an M-step. Column i of ``L`` is the regression of ``x_i`` on the later features, and ``1 / L_ii^2`` its residual
variance. A floor on these *pivots* therefore bounds the likelihood, is a bound on one coordinate each, and has a closed-form
M-step: the same regressions with the variance raised to the floor.

Moments are those of weights ``G`` (C, n): ``g0 = sum_j G_j``, ``g1 = sum_j G_j x_j``, ``g2 = sum_j G_j x_j x_j'``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from marmix.core.arrays import Array, Bools, along_rows, multiply_into, namespace, total, with_constant

_LOG_2PI = float(np.log(2.0 * np.pi))
_WIDE = 16  # number of features from which WideFull is faster than Full, measured with 2 and 5 classes


class Moments(NamedTuple):
    """Sums over rows of ``G phi``, one row of ``by_component`` for each component.

    If all components share the quadratic term, ``second`` has its moments, which are the same for any G that sums to one over
    the components; otherwise it is None.
    """

    by_component: Array
    second: Array | None = None

    def __add__(self, other: "Moments") -> "Moments":  # type: ignore[override]
        second = self.second if other.second is None else self.second + other.second  # type: ignore[operator]
        return Moments(self.by_component + other.by_component, second)


class Derivatives(NamedTuple):
    """Scores of rows, and their derivatives in the coefficients W (C, p) in which moments are summed."""

    scores: Array  # (K, n)
    share: Array | None  # (C, n), of a component in its class; None if each class has one
    slopes: Array  # (p, n) of the components' scores; (C, p, n) if they differ between the components
    bend: Callable[[int, Array], Array] | None = (
        None  # (component, weights): weighted sum of second derivatives, (p, p)
    )


def expanded(x: Array, n_features: int, fill: Callable[[Array], None]) -> Array:
    """Features phi (p, n) of columns x (d, n): [1, x] and the rows that `fill` computes from them."""
    phi = with_constant(x, n_features)
    fill(phi)
    return phi


def fill_products(phi: Array, d: int) -> None:
    """Compute squares and products of the d features, which follow the constant, in the last rows of phi."""
    row = 1 + d
    for i in range(d):
        multiply_into(phi[row : row + d - i, :], phi[1 + i : 1 + d, :], phi[1 + i, :])
        row += d - i


class Structure(ABC):
    """Interface of the covariance structures, with d features and C components.

    `step_shape`, `move`, `pull` and `step_limits` are about the coordinates of `GaussianChart`.
    """

    name: str  # value of the option `covariance_type`
    shared_quadratic = False
    by_component = (
        True  # whether each component has its own covariance; if not, `moments` of `unshared` end with d rows for all
    )
    dense = False  # whether there are covariances of pairs of features
    products = (
        ""  # of features in the scores, for the fused kernels: "all", "squares", "none"; empty if not implemented there
    )

    def __init__(self, d: int):
        self.d = d

    @abstractmethod
    def n_features(self) -> int:
        """Number of features in phi."""

    def values_per_row(self, components: int) -> int:
        """Number of values per row in the largest array of a pass."""
        return self.n_features()

    def fill_quadratic(self, phi: Array) -> None:
        """Compute the quadratic rows of phi, if there are any, from the first 1 + d, which are [1, x]."""
        return

    def features(self, x: Array) -> Array:
        """The features phi (p, n) of columns x (d, n)."""
        return expanded(x, self.n_features(), self.fill_quadratic)

    def detailed(self) -> "Structure":
        """A structure in whose features each component's score is linear; its first features are those of this one."""
        return self

    def pooled(self, by_component: Array) -> Moments:
        """Moments of this structure from moments of the features of `detailed`."""
        return Moments(by_component)

    @abstractmethod
    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        """W (C, p) with ``W phi(x) = log pi + log N(x; mu, Sigma)``, without a shared quadratic term."""

    def prepare(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        """The parameters in the form that `scores` takes, computed once per pass."""
        return self.coefficients(log_pi, mu, chol)

    def scores(self, prepared: Array, phi: Array) -> Array:
        """Component scores (C, n) of a block."""
        return prepared @ phi

    def moments(self, g: Array, phi: Array) -> Array:
        """Sums of ``G phi`` over a block, in the form that `gathered` takes."""
        return along_rows(g, phi)

    def gathered(self, moments: Array) -> Moments:
        """Moments from the sum of `moments` over blocks."""
        return Moments(moments)

    def unshared(self) -> "Structure":
        """The same covariances, with the whole quadratic term in the scores of each component."""
        return self

    def shared_term(self, chol: Array, second: Array) -> float:
        """Sum over rows of the shared quadratic term."""
        return 0.0

    @abstractmethod
    def gradient(self, mu: Array, chol: Array, moments: Moments) -> tuple[Array, Array]:
        """Gradient of ``sum G (W phi)`` in mu and in the entries of L."""

    @abstractmethod
    def m_step(self, moments: Moments, floor: float) -> tuple[Array, Array]:
        """Means and factors that maximise ``sum G (W phi)`` with pivots of at least `floor`."""

    @abstractmethod
    def step_shape(self, components: int) -> tuple[int, ...]:
        """Shape of the coordinates of L."""

    @abstractmethod
    def move(self, reference: Array, steps: Array, weights: Array) -> Array:
        """L at coordinates `steps` around `reference`."""

    @abstractmethod
    def pull(self, reference: Array, steps: Array, weights: Array, by_chol: Array) -> Array:
        """Gradient in the coordinates from the gradient `by_chol` in L."""

    @abstractmethod
    def step_limits(self, reference: Array, weights: Array, floor: float) -> Array:
        """Largest coordinates at which the pivots are above the floor."""

    def limited_steps(self, at_limit: Bools) -> Bools:
        """Coordinates of L at a limit, and those that have no meaning because of them."""
        return at_limit

    @abstractmethod
    def spread(self, chol: Array, components: int) -> Array:
        """``L^-T`` of each component as a full matrix: standard deviations along the axes of the factor."""

    def deviations(self, chol: Array, components: int) -> Array:
        """`spread`, or its diagonals (C, d) if it is diagonal."""
        return self.spread(chol, components)

    @abstractmethod
    def pivots(self, chol: Array) -> Array:
        """Residual variances ``1 / L_ii^2``, one row for each component (one in all if tied)."""

    @abstractmethod
    def whitener(self, covariance: Array) -> Array:
        """A with ``A covariance A'`` the identity, as far as the structure allows it.

        Given variances (d,), the diagonal of a diagonal A.
        """

    @abstractmethod
    def covariances(self, chol: Array, unwhitener: Array) -> Array:
        """Covariances in the user's axes, in scikit-learn's shapes."""

    @abstractmethod
    def entries(self, features: list[str]) -> list[tuple[str, str]]:
        """Pairs of features for the distinct entries of a covariance; the second is empty for a variance."""

    @abstractmethod
    def distinct(self, covariances: Array) -> Array:
        """The distinct entries of covariances in the user's axes."""

    @abstractmethod
    def rebase(self, covariances: Array, whitener: Array) -> Array:
        """Covariances in the axes of the fit from those in the user's axes."""

    @abstractmethod
    def factor(self, covariances: Array, floor: float) -> Array:
        """L from covariances in scikit-learn's shapes."""

    @abstractmethod
    def project(self, covariances: Array, weights: Array) -> Array:
        """Full matrices (C, d, d), or variances (C, d) if these suffice, in the shape of the structure."""


def precision_factor(covariance: Array, floor: float) -> Array:
    """Lower L with ``L L' = covariance^-1`` and pivots raised to the floor, for a matrix or a stack."""
    flipped = covariance[..., ::-1, ::-1]
    try:
        chol = np.linalg.cholesky(flipped)
    except np.linalg.LinAlgError:  # singular: add the smallest ridge
        chol = np.linalg.cholesky(flipped + floor * np.eye(covariance.shape[-1]))
    upper = chol[..., ::-1, ::-1]
    factor = np.swapaxes(np.linalg.inv(upper), -1, -2)
    pivots = np.einsum("...ii->...i", factor)
    return np.tril(factor * np.minimum(1.0, 1.0 / (np.sqrt(floor) * pivots))[..., None, :])


def _diagonal(matrices: Array) -> Array:
    """Diagonals of a contiguous stack of matrices, as a view."""
    d = matrices.shape[-1]
    return matrices.reshape(*matrices.shape[:-2], d * d)[..., :: d + 1]


def _scatter(g0: Array, g1: Array, g2: Array, mu: Array) -> Array:
    """``sum G (x - mu)(x - mu)'`` of each component."""
    cross = g1[:, :, None] * mu[:, None, :]
    return g2 - cross - np.swapaxes(cross, 1, 2) + g0[:, None, None] * mu[:, :, None] * mu[:, None, :]


class Full(Structure):
    """A covariance matrix for each component."""

    name = "full"
    dense = True
    products = "all"

    def __init__(self, d: int):
        super().__init__(d)
        self._rows, self._cols = np.triu_indices(d)
        self._doubled = np.where(self._rows == self._cols, 1.0, 2.0)
        self._diagonal = np.flatnonzero(self._rows == self._cols)  # positions of the diagonal among the steps
        self._unit_scale = np.where(self._rows == self._cols, np.sqrt(0.5), 1.0)
        self._below = np.tril(np.ones((d, d)))

    def n_features(self) -> int:
        return 1 + self.d + len(self._rows)

    def fill_quadratic(self, phi: Array) -> None:
        fill_products(phi, self.d)

    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        d = self.d
        precision = chol @ np.swapaxes(chol, 1, 2)
        coefficients = np.empty((len(mu), 1 + d + len(self._rows)))
        linear = np.matmul(precision, mu[:, :, None])[:, :, 0]
        coefficients[:, 0] = log_pi - 0.5 * d * _LOG_2PI - 0.5 * (mu * linear).sum(axis=1)
        coefficients[:, 0] += np.log(_diagonal(chol)).sum(axis=1)
        coefficients[:, 1 : 1 + d] = linear
        coefficients[:, 1 + d :] = -0.5 * self._doubled * precision[:, self._rows, self._cols]
        return coefficients

    def _split(self, moments: Moments) -> tuple[Array, Array, Array]:
        m, d = moments.by_component, self.d
        return m[:, 0], m[:, 1 : 1 + d], self._symmetric(m[:, 1 + d :])

    def _symmetric(self, products: Array) -> Array:
        """Symmetric matrices from their distinct entries."""
        matrices = np.empty((*products.shape[:-1], self.d, self.d))
        matrices[..., self._rows, self._cols] = products
        matrices[..., self._cols, self._rows] = products
        return matrices

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

    # Coordinates: L = reference Lambda, with Lambda lower triangular and its diagonal in logs. A labelled row has information 2
    # about a log diagonal entry and 1 about an entry below it, times the component's weight.

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

    def limited_steps(self, at_limit: Bools) -> Bools:
        """A feature at its floor explains no other: the regressions on it are limited with its pivot."""
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

    def rebase(self, covariances: Array, whitener: Array) -> Array:
        return whitener @ covariances @ whitener.T

    def project(self, covariances: Array, weights: Array) -> Array:
        return covariances


class WideFull(Full):
    """`Full` for many features: rows are whitened by each component, without products of features.

    Products of d features are d (d + 1) / 2 numbers per row to write and read; from about 16 features on, two d x d matrix
    products per component cost less.
    """

    def n_features(self) -> int:
        return 1 + self.d

    def fill_quadratic(self, phi: Array) -> None:
        pass  # the quadratic term needs no features

    def values_per_row(self, components: int) -> int:
        return components * self.d

    def detailed(self) -> Full:
        return Full(self.d)

    def prepare(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        """``[log(pi |L|) - d/2 log 2 pi, 0]`` above ``[-L' mu, L']`` for each component."""
        prepared = np.zeros((len(mu), 1 + self.d, 1 + self.d))
        prepared[:, 0, 0] = log_pi - 0.5 * self.d * _LOG_2PI + np.log(np.einsum("cii->ci", chol)).sum(axis=1)
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
        """``[sum_j G_j, sum_j G_j x_j [1, x_j]']`` over a block, flattened for each component."""
        xp, components, d, n = namespace(phi), g.shape[0], self.d, phi.shape[1]
        weighted = xp.reshape(g[:, None, :] * phi[1:, :], (components * d, n))
        g12 = xp.reshape(along_rows(weighted, phi), (components, d * (1 + d)))
        return xp.concat([xp.reshape(total(g, axis=1), (components, 1)), g12], axis=1)

    def gathered(self, moments: Array) -> Moments:
        g12 = moments[:, 1:].reshape(len(moments), self.d, 1 + self.d)
        products = g12[:, :, 1:][:, self._rows, self._cols]
        return Moments(np.concatenate([moments[:, :1], g12[:, :, 0], products], axis=1))


class Tied(Full):
    """One covariance matrix for all components, so that the quadratic term cancels from the posteriors."""

    name = "tied"
    shared_quadratic = True
    by_component = False
    products = "none"

    def n_features(self) -> int:
        return 1 + self.d

    def fill_quadratic(self, phi: Array) -> None:
        pass  # the quadratic term needs no features

    def detailed(self) -> Full:
        return Full(self.d)

    def pooled(self, by_component: Array) -> Moments:
        second = self._symmetric(by_component[:, 1 + self.d :].sum(axis=0))
        return Moments(by_component[:, : 1 + self.d], second)

    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        linear = mu @ chol @ chol.T
        constant = log_pi - 0.5 * self.d * _LOG_2PI - 0.5 * np.einsum("ci,ci->c", mu, linear)
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

    def unshared(self) -> "Tied":
        return WhitenedTied(self.d)


class WhitenedTied(Tied):
    """`Tied` for scores in which the quadratic term does not cancel: rows are whitened once for all components."""

    shared_quadratic = False
    products = ""

    def values_per_row(self, components: int) -> int:
        return components + 2 * self.d

    def prepare(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        """The coefficients of the components above ``[0, L']``."""
        whitening = np.concatenate([np.zeros((self.d, 1)), chol.T], axis=1)
        return np.concatenate([self.coefficients(log_pi, mu, chol), whitening])

    def scores(self, prepared: Array, phi: Array) -> Array:
        products, components = prepared @ phi, prepared.shape[0] - self.d
        white = products[components:, :]
        white *= white
        scores = products[:components, :]
        scores -= 0.5 * namespace(phi).sum(white, axis=0)
        return scores

    def moments(self, g: Array, phi: Array) -> Array:
        """``sum_j G_j [1, x_j]'`` of each component above ``sum_j (sum_c G_jc) x_j [1, x_j]'``."""
        xp = namespace(phi)
        return along_rows(xp.concat([g, xp.sum(g, axis=0) * phi[1:, :]]), phi)

    def gathered(self, moments: Array) -> Moments:
        return Moments(moments[: -self.d], moments[-self.d :, 1:])


class Diag(Structure):
    """Independent features within a component; ``L`` is stored as its diagonal (C, d)."""

    name = "diag"
    products = "squares"

    def n_features(self) -> int:
        return 1 + 2 * self.d

    def fill_quadratic(self, phi: Array) -> None:
        x = phi[1 : 1 + self.d, :]
        multiply_into(phi[1 + self.d :, :], x, x)

    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        precision = chol**2
        constant = log_pi - 0.5 * self.d * _LOG_2PI + np.log(chol).sum(axis=1) - 0.5 * (precision * mu**2).sum(axis=1)
        return np.concatenate([constant[:, None], precision * mu, -0.5 * precision], axis=1)

    def _split(self, moments: Moments, mu: Array | None = None) -> tuple[Array, Array, Array]:
        m, d = moments.by_component, self.d
        g0, g1, g2 = m[:, :1], m[:, 1 : 1 + d], m[:, 1 + d :]
        mu = g1 / g0 if mu is None else mu
        return g0, g1, g2 - 2.0 * mu * g1 + g0 * mu**2

    def gradient(self, mu: Array, chol: Array, moments: Moments) -> tuple[Array, Array]:
        g0, g1, scatter = self._split(moments, mu)
        return chol**2 * (g1 - g0 * mu), g0 / chol - scatter * chol

    def m_step(self, moments: Moments, floor: float) -> tuple[Array, Array]:
        g0, g1, scatter = self._split(moments)
        return g1 / g0, 1.0 / np.sqrt(np.maximum(scatter / g0, floor))

    # Coordinates: log L, about which a labelled row has information 2 times the component's weight.

    def step_shape(self, components: int) -> tuple[int, ...]:
        return (components, self.d)

    def _step_scale(self, weights: Array) -> Array:
        return 1.0 / np.sqrt(2.0 * weights[:, None])

    def move(self, reference: Array, steps: Array, weights: Array) -> Array:
        return reference * np.exp(steps * self._step_scale(weights))

    def pull(self, reference: Array, steps: Array, weights: Array, by_chol: Array) -> Array:
        return by_chol * self.move(reference, steps, weights) * self._step_scale(weights)

    def step_limits(self, reference: Array, weights: Array, floor: float) -> Array:
        return np.maximum(-0.5 * np.log(floor) - np.log(reference), 0.0) / self._step_scale(weights)

    def spread(self, chol: Array, components: int) -> Array:
        return np.eye(self.d) * self.deviations(chol, components)[:, :, None]

    def deviations(self, chol: Array, components: int) -> Array:
        return 1.0 / np.broadcast_to(chol.reshape(components, -1), (components, self.d))

    def pivots(self, chol: Array) -> Array:
        return chol**-2.0

    def whitener(self, covariance: Array) -> Array:
        return 1.0 / np.sqrt(covariance) if covariance.ndim == 1 else np.diag(1.0 / np.sqrt(np.diag(covariance)))

    def covariances(self, chol: Array, unwhitener: Array) -> Array:
        return (np.diag(unwhitener) / chol) ** 2

    def entries(self, features: list[str]) -> list[tuple[str, str]]:
        return [(feature, "") for feature in features]

    def distinct(self, covariances: Array) -> Array:
        return covariances

    def factor(self, covariances: Array, floor: float) -> Array:
        return 1.0 / np.sqrt(np.maximum(covariances, floor))

    def rebase(self, covariances: Array, whitener: Array) -> Array:
        return covariances * np.diag(whitener) ** 2

    def project(self, covariances: Array, weights: Array) -> Array:
        return covariances.copy() if covariances.ndim == 2 else np.einsum("cii->ci", covariances).copy()


class Spherical(Diag):
    """One variance for each component; ``L`` is stored as (C,) numbers."""

    name = "spherical"
    products = ""

    def n_features(self) -> int:
        return 2 + self.d

    def fill_quadratic(self, phi: Array) -> None:
        x = phi[1 : 1 + self.d, :]
        phi[1 + self.d, :] = namespace(phi).sum(x * x, axis=0)

    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        precision = chol**2
        constant = log_pi - self.d * (0.5 * _LOG_2PI - np.log(chol)) - 0.5 * precision * (mu**2).sum(axis=1)
        return np.concatenate([constant[:, None], precision[:, None] * mu, -0.5 * precision[:, None]], axis=1)

    def _split(self, moments: Moments, mu: Array | None = None) -> tuple[Array, Array, Array]:
        m = moments.by_component
        g0, g1, g2 = m[:, 0], m[:, 1:-1], m[:, -1]
        mu = g1 / g0[:, None] if mu is None else mu
        return g0, g1, g2 - 2.0 * (mu * g1).sum(axis=1) + g0 * (mu**2).sum(axis=1)

    def gradient(self, mu: Array, chol: Array, moments: Moments) -> tuple[Array, Array]:
        g0, g1, scatter = self._split(moments, mu)
        return (chol**2)[:, None] * (g1 - g0[:, None] * mu), self.d * g0 / chol - scatter * chol

    def m_step(self, moments: Moments, floor: float) -> tuple[Array, Array]:
        g0, g1, scatter = self._split(moments)
        return g1 / g0[:, None], 1.0 / np.sqrt(np.maximum(scatter / (g0 * self.d), floor))

    def step_shape(self, components: int) -> tuple[int, ...]:
        return (components,)

    def _step_scale(self, weights: Array) -> Array:
        return 1.0 / np.sqrt(2.0 * self.d * weights)

    def pivots(self, chol: Array) -> Array:
        return chol[:, None] ** -2.0

    def whitener(self, covariance: Array) -> Array:
        total = covariance.sum() if covariance.ndim == 1 else np.trace(covariance)
        scale = np.full(self.d, 1.0 / np.sqrt(total / self.d))
        return scale if covariance.ndim == 1 else np.diag(scale)

    def covariances(self, chol: Array, unwhitener: Array) -> Array:
        return (unwhitener[0, 0] / chol) ** 2

    def entries(self, features: list[str]) -> list[tuple[str, str]]:
        return [("", "")]

    def rebase(self, covariances: Array, whitener: Array) -> Array:
        return covariances * whitener[0, 0] ** 2

    def project(self, covariances: Array, weights: Array) -> Array:
        return (covariances.sum(axis=1) if covariances.ndim == 2 else np.einsum("cii->c", covariances)) / self.d


STRUCTURES: dict[str, type[Structure]] = {"full": Full, "tied": Tied, "diag": Diag, "spherical": Spherical}


def structure(covariance_type: str, d: int) -> Structure:
    """The structure of that name for d features."""
    if covariance_type not in STRUCTURES:
        raise ValueError(f"covariance_type={covariance_type!r} is not one of {', '.join(map(repr, STRUCTURES))}.")
    kind = WideFull if covariance_type == "full" and d >= _WIDE else STRUCTURES[covariance_type]
    return kind(d)
