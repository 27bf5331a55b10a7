"""Structures without correlations: a variance for every feature, or one for all."""

import numpy as np

from marmix.arrays import Array, multiply_into, namespace
from marmix.scores.covariance.base import LOG_2PI, Moments, Structure


class Diag(Structure):
    """Independent features within a component; ``L`` is kept as its diagonal (C, d)."""

    name = "diag"
    products = "squares"

    def n_features(self) -> int:
        return 1 + 2 * self.d

    def fill_quadratic(self, phi: Array) -> None:
        x = phi[1 : 1 + self.d, :]
        multiply_into(phi[1 + self.d :, :], x, x)

    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        precision = chol**2
        constant = log_pi - 0.5 * self.d * LOG_2PI + np.log(chol).sum(axis=1) - 0.5 * (precision * mu**2).sum(axis=1)
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

    # Coordinates: log L, in which a complete-data row carries information 2 times the component's weight.

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
        scale = np.broadcast_to(chol.reshape(components, -1), (components, self.d))
        return np.eye(self.d) / scale[:, :, None]

    def pivots(self, chol: Array) -> Array:
        return chol**-2.0

    def whitener(self, covariance: Array) -> Array:
        return np.diag(1.0 / np.sqrt(np.diag(covariance)))

    def covariances(self, chol: Array, unwhitener: Array) -> Array:
        return (np.diag(unwhitener) / chol) ** 2

    def entries(self, features: list[str]) -> list[tuple[str, str]]:
        return [(feature, "") for feature in features]

    def distinct(self, covariances: Array) -> Array:
        return covariances

    def factor(self, covariances: Array, floor: float) -> Array:
        return 1.0 / np.sqrt(np.maximum(covariances, floor))

    def positive(self, covariances: Array) -> bool:
        return bool((covariances > 0.0).all())

    def rebase(self, covariances: Array, whitener: Array) -> Array:
        return covariances * np.diag(whitener) ** 2

    def project(self, covariances: Array, weights: Array) -> Array:
        return np.einsum("cii->ci", covariances).copy()


class Spherical(Diag):
    """One variance a component, the same in all directions; ``L`` is kept as a number each (C,)."""

    name = "spherical"
    products = ""

    def n_features(self) -> int:
        return 2 + self.d

    def fill_quadratic(self, phi: Array) -> None:
        x = phi[1 : 1 + self.d, :]
        phi[1 + self.d, :] = namespace(phi).sum(x * x, axis=0)

    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        precision = chol**2
        constant = log_pi - self.d * (0.5 * LOG_2PI - np.log(chol)) - 0.5 * precision * (mu**2).sum(axis=1)
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
        return np.eye(self.d) / np.sqrt(np.trace(covariance) / self.d)

    def covariances(self, chol: Array, unwhitener: Array) -> Array:
        return (unwhitener[0, 0] / chol) ** 2

    def entries(self, features: list[str]) -> list[tuple[str, str]]:
        return [("", "")]

    def rebase(self, covariances: Array, whitener: Array) -> Array:
        return covariances * whitener[0, 0] ** 2

    def project(self, covariances: Array, weights: Array) -> Array:
        return np.einsum("cii->c", covariances) / self.d
