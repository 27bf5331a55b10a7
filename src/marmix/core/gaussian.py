"""The Gaussian mixture as a score model: ``s_jk = log sum_{c in k} pi_c N(x_j; mu_c, Sigma_c)``.

A class may have several components; its score is the logsumexp of theirs, and its ``G`` is divided among them by their
responsibilities within the class. Scores are log densities, so the likelihood is *joint* in features and labels.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from marmix.core.arrays import AnyArray, Array, Bools, along_rows, like, namespace
from marmix.core.covariance import Derivatives, Moments, Structure


class Gaussians(NamedTuple):
    """Parameters of the mixture in the axes of the fit; the shape of `chol` depends on the covariance structure."""

    log_pi: Array
    mu: Array
    chol: Array


class GaussianScores:
    """The Gaussian mixture as a score model.

    Parameters
    ----------
    structure : Structure
        The covariance structure.
    counts : sequence of int
        Number of components of each class; components are ordered by class.
    floor : float
        Smallest residual variance of a component, in the axes of the fit.
    """

    joint = True
    scales = "covariances"  # name of the matrices among the user's values
    nouns = "Gaussian", "covariance", "Gaussian"  # for `words`

    def __init__(self, structure: Structure, counts: list[int], floor: float):
        self.structure = structure
        self.counts = list(counts)
        self.floor = floor
        self.n_classes = len(counts)
        self.owner: AnyArray = np.repeat(np.arange(len(counts)), counts)
        self.single = max(counts) == 1
        ends = np.cumsum(counts)
        self._slices = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]

    @property
    def words(self) -> str:
        kind, matrix, component = self.nouns
        components = f"{len(self.owner)} {component}s for {self.n_classes} classes"
        if self.single:
            components = f"one {component} a class"
        return f"{kind} mixture, {self.structure.name} {matrix}, {components}"

    def user_values(self, theta: Gaussians, frame: Any) -> dict[str, Any]:
        """Weights, means and covariances of the components, and class priors, in the user's axes."""
        weights = np.exp(theta.log_pi)
        return {
            "weights": weights,
            "means": theta.mu @ frame.unwhitener.T + frame.centre,
            "covariances": self.structure.covariances(theta.chol, frame.unwhitener),
            "class_prior": np.bincount(self.owner, weights=weights),
        }

    def roots(self, theta: Gaussians, frame: Any) -> Array:
        """R with ``R R'`` the covariance of each component, in the user's axes, (C, d, d)."""
        return frame.unwhitener @ self.structure.spread(theta.chol, len(theta.mu))

    def n_features(self) -> int:
        return self.structure.n_features()

    def values_per_row(self) -> int:
        return self.structure.values_per_row(len(self.owner))

    def fill(self, phi: Array) -> None:
        self.structure.fill_quadratic(phi)

    def prepare(self, theta: Gaussians) -> Array:
        return self.structure.prepare(*theta)

    def block_scores(self, prepared: Array, phi: Array) -> tuple[Array, Array | None]:
        return self.by_class(self.structure.scores(prepared, phi))

    def by_class(self, scores: Array) -> tuple[Array, Array | None]:
        """Scores of the classes from those of the components, and the components' shares if a class has several."""
        if self.single:
            return scores, None
        xp = namespace(scores)
        classes, share = [], []
        for members in self._slices:
            top = xp.max(scores[members, :], axis=0)
            part = xp.exp(scores[members, :] - top)
            total = xp.sum(part, axis=0)
            share.append(part / total)
            classes.append(top + xp.log(total))
        return xp.stack(classes), xp.concat(share)

    def by_component(self, g: Array, share: Array | None) -> Array:
        """G (C, n) of the components from that of the classes."""
        if share is None:
            return g
        return namespace(g).concat([g[k : k + 1, :] * share[members, :] for k, members in enumerate(self._slices)])

    def block_moments(self, g: Array, share: Array | None, phi: Array) -> Array:
        return self.structure.moments(self.by_component(g, share), phi)

    def gathered(self, moments: Array) -> Moments:
        return self.structure.gathered(moments)

    def second_moment(self, x: Array, weight: Array | None) -> Array | None:
        if not self.structure.shared_quadratic:
            return None
        return along_rows(x if weight is None else x * weight, x)

    def shared_term(self, theta: Gaussians, second: Array) -> float:
        return self.structure.shared_term(theta.chol, second)

    def scores(self, theta: Gaussians, x: Array) -> Array:
        phi = self.structure.features(x)
        return self.block_scores(like(self.prepare(theta), phi), phi)[0]

    def detailed_features(self, x: Array) -> Array:
        return self.structure.detailed().features(x)

    def derivatives(self, theta: Any, x: Array) -> Derivatives:
        phi = self.detailed_features(x)
        return Derivatives(*self.block_scores(self.prepare(theta), phi[: self.n_features()]), phi)

    def pooled(self, by_component: Array) -> Moments:
        return self.structure.pooled(by_component)

    def penalty(self, theta: Gaussians) -> float:
        return 0.0

    def complete_loglik(self, theta: Gaussians, moments: Moments) -> float:
        """``sum_j sum_c G_jc log{pi_c N(x_j; c)}``, which is linear in the moments of G."""
        value = float(np.sum(self.structure.coefficients(*theta) * moments.by_component))
        if moments.second is not None:
            value += self.shared_term(theta, moments.second)
        return value

    def m_step(self, moments: Moments) -> Gaussians:
        """The parameters that maximise `complete_loglik` for moments of responsibilities."""
        g0 = moments.by_component[:, 0]
        mu, chol = self.structure.m_step(moments, self.floor)
        return Gaussians(np.log(g0) - np.log(g0.sum()), mu, chol)

    def chart(self, theta: Gaussians) -> "GaussianChart":
        return GaussianChart(self, theta)


class GaussianChart:
    """Free coordinates of the mixture around a reference, in which a labelled row has unit information.

    Steps of means are in standard deviations of the reference and steps of factors relative to the reference, both divided by
    the root of the component's weight. The Hessian at the reference (coordinates 0) is then near the identity, and the path
    of a quasi-Newton method does not depend on units or axes of the features. Only the log pivots are bounded, by the floor on
    residual variances.
    """

    def __init__(self, model: GaussianScores, reference: Gaussians):
        self.model, self.reference = model, reference
        self._pi = np.exp(reference.log_pi)
        self._root = np.sqrt(self._pi)
        self._components, self._d = reference.mu.shape
        spread = model.structure.deviations(reference.chol, self._components)
        self._spread = spread / self._root.reshape(-1, *[1] * (spread.ndim - 1))
        self._step_shape = model.structure.step_shape(self._components)
        self._cuts = np.cumsum([self._components, self._components * self._d, np.prod(self._step_shape)])
        self.size = int(self._cuts[2])

    @property
    def n_free(self) -> int:
        """Number of `directions`."""
        return self.size - 1

    @property
    def directions(self) -> Array:
        """Orthonormal directions (size, free) that change the model; a common factor of the weights does not."""
        across = np.linalg.svd(np.sqrt(self._pi)[None, :])[2][1:].T
        return block_diag(across, np.eye(self.size - self._components))

    @property
    def upper(self) -> Array:
        """Upper bounds of the coordinates."""
        upper = np.full(self.size, np.inf)
        limits = self.model.structure.step_limits(self.reference.chol, self._pi, self.model.floor)
        upper[self._cuts[1] : self._cuts[2]] = limits.ravel()
        return upper

    @property
    def lower(self) -> Array:
        """Lower bounds of the coordinates: none."""
        return np.full(self.size, -np.inf)

    def limited(self, at_limit: Bools) -> Bools:
        """Coordinates at a limit, and those that have no meaning because of them."""
        out, steps = at_limit.copy(), slice(self._cuts[1], self._cuts[2])
        out[steps] = self.model.structure.limited_steps(at_limit[steps].reshape(self._step_shape)).ravel()
        return out

    def _parts(self, vector: Array) -> tuple[Array, Array, Array]:
        a, b, c = self._cuts
        return vector[:a], vector[a:b].reshape(self._components, self._d), vector[b:c].reshape(self._step_shape)

    def theta(self, vector: Array) -> Gaussians:
        """The parameters at these coordinates."""
        logits, means, steps = self._parts(vector)
        log_pi = self.reference.log_pi + logits / self._root
        log_pi = log_pi - log_pi.max()
        log_pi = log_pi - np.log(np.exp(log_pi).sum())
        diagonal = self._spread.ndim == 2
        steps_of_means = self._spread * means if diagonal else np.matmul(self._spread, means[:, :, None])[:, :, 0]
        mu = self.reference.mu + steps_of_means
        return Gaussians(log_pi, mu, self.model.structure.move(self.reference.chol, steps, self._pi))

    def gradient(self, vector: Array, theta: Gaussians, moments: Moments) -> Array:
        """Gradient in the coordinates from the moments of G."""
        steps = self._parts(vector)[2]
        g0 = moments.by_component[:, 0]
        by_mu, by_chol = self.model.structure.gradient(theta.mu, theta.chol, moments)
        by_steps = self.model.structure.pull(self.reference.chol, steps, self._pi, by_chol)
        by_logits = (g0 - np.exp(theta.log_pi) * g0.sum()) / self._root
        diagonal = self._spread.ndim == 2
        by_means = by_mu * self._spread if diagonal else np.matmul(by_mu[:, None, :], self._spread)[:, 0, :]
        return np.concatenate([by_logits, by_means.ravel(), by_steps.ravel()])
