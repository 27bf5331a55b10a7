"""Pseudo-labels: the weight of every class in a row of partially labelled data.

    weighted       r_jk = w_j 1{y_j = k} of labelled rows,                          w_j = 1 / (1 - q_j)
    doubly robust  r_jk = tau_jk + (1 - m_j) w_j (1{y_j = k} - tau_jk) of all rows
    imputed        r_jk = 1{y_j = k} of labelled rows, tau_jk of unlabelled rows (doubly robust with w_j = 1)

See `marmix.evaluation` for what they estimate and why weights are truncated, and `UncertainPosterior` for how wrong tau may be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marmix.arrays import Array

# How far the posteriors of unlabelled rows may be off before labels are seen: standard deviation of a coefficient of
# `UncertainPosterior`. Posteriors that are off by one standard deviation in one direction cost DOUBT^2 / 2 in log-loss per row.
# On the settings of benchmarks/honesty.py, seeds from 1000, intervals cover less than 90 % with 0.06 where every hard row lacks
# its label; up to 0.2 they only grow wider.
DOUBT = 0.1

# Where little information is left per row, as of a rare class, a standard deviation is at most so long: that of the factor of
# log p and of the log-odds of a class, and that of the share of the way to another classifier's probabilities.
_MOST, _MOST_OTHERS = 0.5, 2.0

NO_CHANCE = 0.99  # a row whose label is missing with at least this probability has practically no chance of one
TINY = 1e-12  # smallest probability in a direction


def pseudo_labels(indicator: Array, q: Array, posterior: Array | None) -> tuple[Array, Array, int]:
    """r of all rows, the weights of the labelled rows, and the number of truncated weights.

    `indicator` (n, K) is one at the label of a row, zero for unlabelled rows. Without a posterior, tau is zero in the doubly
    robust formula.
    """
    labelled = np.asarray(indicator.any(axis=1))
    weight, n_truncated = inverse_weights(q[labelled], len(labelled))
    r = np.zeros(indicator.shape) if posterior is None else posterior.copy()
    r[labelled] += weight[:, None] * (indicator[labelled] - r[labelled])
    return r, weight, n_truncated


def checked_posterior(posterior: ArrayLike, shape: tuple[int, ...]) -> Array:
    """The posteriors as an array, checked."""
    tau = np.asarray(posterior, dtype=float)
    if tau.shape != shape or not np.allclose(tau.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError(f"posterior must have shape {shape} and rows that sum to one.")
    return tau


def inverse_weights(q: Array, n: int) -> tuple[Array, int]:
    """``1 / (1 - q)`` of the labelled among n rows, truncated at `largest_weight`, and the number of truncated weights."""
    with np.errstate(divide="ignore"):
        w = 1.0 / (1.0 - q)
    if not np.isfinite(w).all():
        raise ValueError("missing_proba is 1 for a labelled row: it must be below 1 for every labelled row.")
    limit = largest_weight(len(w), n)
    return np.minimum(w, limit), int((w > limit).sum())


def largest_weight(n_labelled: int, n: int) -> float:
    """The largest weight, ``sqrt(n_labelled) n / n_labelled``."""
    return float(np.sqrt(n_labelled)) * n / n_labelled


def representation(q: Array, labelled: NDArray[np.bool_], counts: Array) -> tuple[Array, float]:
    """Weights of labelled rows that stand for the unlabelled ones, ``q / (1 - q)``, and the effective number of such rows.

    The weights sum to the effective number, ``(sum w)^2 / sum w^2``.
    """
    odds = np.minimum(q[labelled], NO_CHANCE)
    weight = counts[labelled] * odds / (1.0 - odds)
    total = weight.sum()
    if total == 0.0:
        return weight, 0.0
    effective = float(total**2 / (weight**2).sum())
    return weight * (effective / total), effective


@dataclass(frozen=True)
class UncertainPosterior:
    """Posteriors of the labels of unlabelled rows, and how far they may be off.

    Held-out class probabilities p may be wrong in hard rows, of which few have a label: too sharp or too flat, shifted towards
    a class, or wrong where others that they are compared with are right. So the posteriors are

        tau_k  proportional to  p_k exp(sum_i c_i d_ik),

    with the directions ``d = log p``, the indicator of each class, and ``log p - log p'`` for each of the others p'. Directions
    are scaled to one unit of Fisher information per unlabelled row, within limits. The prior of every c_i is normal around 0 with
    standard deviation `DOUBT` (for the classes, of which two make one contrast, divided by the square root of two). The labels
    speak through their likelihood: each labelled row with the weight ``q / (1 - q)`` with which it stands for unlabelled rows,
    and all together for as many rows as their effective number (see `representation`). Where no labelled row resembles the
    unlabelled ones, the prior is all there is.

    Attributes
    ----------
    proba : array of shape (n, K)
        p.
    directions : array of shape (J, n, K)
        Scaled directions, without those of the classes.
    classes : array of shape (K,)
        Scales of the directions of the classes.
    coefficients : array of shape (J + K,)
        The most probable c.
    steps : array of shape (J + K, J + K)
        Principal axes of the posterior distribution of c, each as long as its standard deviation.
    """

    proba: Array
    directions: Array
    classes: Array
    coefficients: Array
    steps: Array

    @classmethod
    def of(
        cls,
        proba: Array,
        indicator: Array,
        q: Array,
        others: Sequence[Array] = (),
        counts: Array | None = None,
    ) -> "UncertainPosterior":
        """From held-out probabilities (n, K), labels and probabilities q of a missing label.

        Parameters
        ----------
        indicator : array of shape (n, K)
            One at the label of a row, or the shares of its votes; zero for unlabelled rows.
        others : arrays of shape (n, K)
            Probabilities that are compared with these.
        counts : array of shape (n,) or None
            Weights of the rows.
        """
        labelled, counts = np.asarray(indicator.any(axis=1)), np.ones(len(q)) if counts is None else counts
        log_p = np.log(np.maximum(proba, TINY))
        directions = np.array([log_p, *(log_p - np.log(np.maximum(other, TINY)) for other in others)])
        shares = counts[~labelled] / max(counts[~labelled].sum(), TINY)
        p = proba[~labelled]
        sd = np.full(len(directions) + proba.shape[1], DOUBT)
        sd[len(directions) :] /= np.sqrt(2.0)
        most = np.full(len(sd), _MOST)
        most[1 : len(directions)] = _MOST_OTHERS
        d = directions[:, ~labelled]
        information = ((d**2 * p).sum(axis=2) - (d * p).sum(axis=2) ** 2) @ shares
        information = np.concatenate([information, shares @ (p * (1.0 - p))])
        scale = 1.0 / np.sqrt(np.maximum(information, (sd / most) ** 2))
        directions *= scale[: len(directions), None, None]
        classes = scale[len(directions) :]
        weight, _ = representation(q, labelled, counts)
        coefficients, covariance = _most_probable(
            log_p[labelled], directions[:, labelled], classes, indicator[labelled], weight, sd
        )
        variances, axes = np.linalg.eigh(covariance)
        return cls(proba, directions, classes, coefficients, (axes * np.sqrt(np.maximum(variances, 0.0))).T)

    def at(self, coefficients: Array) -> Array:
        """The posteriors (n, K) with these coefficients."""
        return _tilted(np.log(np.maximum(self.proba, TINY)), self.directions, self.classes, coefficients)

    @property
    def central(self) -> Array:
        """The posteriors (n, K) with the most probable coefficients."""
        return self.at(self.coefficients)

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        """For each principal axis, the posteriors one standard deviation to both sides of the most probable ones."""
        for step in self.steps:
            yield self.at(self.coefficients + step), self.at(self.coefficients - step)

    def truths(self, rows: NDArray[np.bool_], n_draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
        """Draw classes of some of the rows: coefficients from their distribution, then a class of every row."""
        log_p = np.log(np.maximum(self.proba[rows].T, TINY)).astype(np.float32, order="C")  # single precision will do
        directions = np.ascontiguousarray(self.directions[:, rows].transpose(0, 2, 1), dtype=np.float32)
        dense, flat = len(directions), directions.reshape(len(directions), -1)
        for _ in range(n_draws):
            c = (self.coefficients + rng.standard_normal(len(self.steps)) @ self.steps).astype(np.float32)
            scores = log_p + (c[:dense] @ flat).reshape(log_p.shape)
            scores += (c[dense:] * self.classes.astype(np.float32))[:, None]
            scores -= scores.max(axis=0)
            below = np.cumsum(np.exp(scores, out=scores), axis=0, out=scores)
            level = rng.random(below.shape[1], dtype=np.float32) * below[-1]
            yield np.asarray((below[:-1] <= level).sum(axis=0), dtype=np.intp)


def _tilted(log_p: Array, directions: Array, classes: Array, coefficients: Array) -> Array:
    dense = len(directions)
    scores = log_p + np.tensordot(coefficients[:dense], directions, 1) + coefficients[dense:] * classes
    scores -= scores.max(axis=1, keepdims=True)
    tau = np.exp(scores)
    return np.asarray(tau / tau.sum(axis=1, keepdims=True))


def _most_probable(
    log_p: Array, directions: Array, classes: Array, indicator: Array, weight: Array, sd: Array
) -> tuple[Array, Array]:
    """The most probable coefficients, by Newton's method, and the inverse Hessian there."""
    dense, chosen = len(directions), weight[:, None] * indicator

    def value(c: Array) -> float:
        tau = _tilted(log_p, directions, classes, c)
        return float(np.sum(chosen * np.log(np.maximum(tau, 1e-300))) - 0.5 * np.sum((c / sd) ** 2))

    def curvature(c: Array) -> tuple[Array, Array]:
        tau = weight[:, None] * _tilted(log_p, directions, classes, c)
        residual = chosen - tau
        gradient = np.concatenate([(directions * residual).sum(axis=(1, 2)), classes * residual.sum(axis=0)])
        share = np.divide(tau, weight[:, None], out=np.zeros_like(tau), where=weight[:, None] > 0.0)
        mean = (directions * share).sum(axis=2)  # (J, rows)
        hessian = np.diag(1.0 / sd**2)
        hessian[:dense, :dense] += np.einsum("ink,jnk,nk->ij", directions, directions, tau) - (mean * weight) @ mean.T
        hessian[dense:, dense:] += (np.diag(tau.sum(axis=0)) - share.T @ tau) * np.outer(classes, classes)
        across = (np.einsum("ink,nk->ik", directions, tau) - mean @ tau) * classes
        hessian[:dense, dense:] += across
        hessian[dense:, :dense] += across.T
        return gradient - c / sd**2, hessian

    c = np.zeros(len(sd))
    for _ in range(50):
        gradient, hessian = curvature(c)
        step = np.linalg.solve(hessian, gradient)
        scale, before = 1.0, value(c)
        while value(c + scale * step) < before and scale > 1e-6:
            scale *= 0.5
        c = c + scale * step
        if gradient @ step < 1e-12:
            break
    return c, np.asarray(np.linalg.inv(curvature(c)[1]), dtype=float)
