r"""Posteriors of unlabelled rows, calibrated again by the audited ones.

With p the posteriors of the model and :math:`b_k \sim N(0, s_b^2)`, :math:`a \sim N(0, s_a^2)`, the calibrated ones are

.. math::

    \tau_k \propto p_k^{1 + a} e^{b_k}.

Five such models are averaged by their Laplace evidence: no change, with a prior probability of 1/2, and offsets b with a standard
deviation of 1.5 or 4, each with the slope 1 + a fixed or with :math:`s_a = 0.7`. With two classes the standard deviations are
those of the difference of the offsets, and of 2 a. Rows are drawn by their predictions alone, so the likelihood needs no weights.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from marmix.core.arrays import Array

_OFFSET, _SLOPE = (
    np.array([1.5, 1.5, 4.0, 4.0]),
    np.array([0.0, 0.7, 0.0, 0.7]),
)  # standard deviations in the four models
_SMALLEST = 1e-6  # smallest probability whose logarithm is taken
_FOLDS = 10


@dataclass(frozen=True)
class Recalibration:
    """The averaged models.

    Attributes
    ----------
    weights : array of shape (5,)
        Of no change, then of the other models.
    offsets : array of shape (4, K)
        b of the other models.
    slopes : array of shape (4,)
        Their 1 + a.
    """

    weights: Array
    offsets: Array
    slopes: Array

    def __call__(self, proba: Array) -> Array:
        """The calibrated posteriors (n, K)."""
        log_p = np.ascontiguousarray(_logs(proba).T)
        result = self.weights[0] * proba.T
        for weight, offset, slope in zip(self.weights[1:], self.offsets, self.slopes, strict=True):
            result = result + weight * softmax(slope * log_p + offset[:, None], axis=0)
        return result.T


def parts(k: int) -> NDArray[np.bool_]:
    """The rows (11, k) that are learnt from: all of them, and all but those of each of ten folds."""
    return _folds(k) != np.arange(-1, _FOLDS)[:, None]


def learn(proba: Array, labels: Array) -> tuple[Recalibration, Array]:
    """Learn from posteriors (k, K) and the labels of the same rows, as shares (k, K); zero where nobody can tell.

    The posteriors may be others for each of the `parts`, (11, k, K). Returns the recalibration, and posteriors of the rows, each
    from a recalibration by the nine tenths of the rows without it.
    """
    k, probas = len(labels), np.broadcast_to(proba, (1 + _FOLDS, *labels.shape))
    everything, *learnt = _learnt(probas, labels, parts(k).astype(float))
    return everything, np.array([learnt[f](probas[f + 1, j][None])[0] for j, f in enumerate(_folds(k))])


def _folds(k: int) -> NDArray[np.intp]:
    return np.arange(k) % _FOLDS


class Models(NamedTuple):
    """The four models with standard normal coefficients c: scores are log p + sum_k c_k scale_k e_k + c_a scale_a log p.

    Everything is computed for sets of row weights (F, 1, k) and models (1, 4) at once.
    """

    log_p: Array  # (F, 1, k, K)
    labels: Array  # (k, K)
    counts: Array  # (F, 1, k), weights of the rows
    offset: Array  # (4,), scales
    slope: Array  # (4,)

    def tau(self, c: Array) -> Array:
        """Posteriors (F, 4, k, K) with the coefficients c (F, 4, K + 1)."""
        slopes = 1.0 + self.slope * c[..., -1]
        return np.asarray(
            softmax(slopes[..., None, None] * self.log_p + (self.offset[:, None] * c[..., :-1])[..., None, :], axis=-1)
        )

    def value(self, c: Array) -> Array:
        """Penalised log-likelihoods (F, 4)."""
        loglik = (self.labels * np.log(np.maximum(self.tau(c), 1e-300))).sum(axis=-1)
        return (self.counts * loglik).sum(axis=-1) - 0.5 * (c**2).sum(axis=-1)

    def derivatives(self, c: Array) -> tuple[Array, Array]:
        """Gradients (F, 4, K + 1) and negative Hessians (F, 4, K + 1, K + 1)."""
        tau, told = self.tau(c), self.labels.sum(axis=1)
        residual = self.counts[..., None] * (self.labels - told[:, None] * tau)
        weighted = (self.counts * told)[..., None] * tau
        gradient = np.empty(c.shape)
        gradient[..., :-1] = self.offset[:, None] * residual.sum(axis=-2)
        gradient[..., -1] = self.slope * (residual * self.log_p).sum(axis=(-1, -2))
        K, mean = tau.shape[-1], (tau * self.log_p).sum(axis=-1, keepdims=True)
        hessian = np.zeros((*c.shape, K + 1))
        hessian[..., np.arange(K), np.arange(K)] = weighted.sum(axis=-2)
        hessian[..., :K, :K] -= np.swapaxes(tau, -1, -2) @ weighted
        hessian[..., :K, K] = hessian[..., K, :K] = (weighted * (self.log_p - mean)).sum(axis=-2)
        hessian[..., K, K] = (weighted * (self.log_p - mean) ** 2).sum(axis=(-1, -2))
        scale = np.concatenate([np.repeat(self.offset[:, None], K, axis=1), self.slope[:, None]], axis=1)
        return gradient - c, scale[..., None] * hessian * scale[:, None, :] + np.eye(K + 1)


def _learnt(probas: Array, labels: Array, counts: Array) -> list[Recalibration]:
    """A recalibration for each set of posteriors (F, k, K) and weights (F, k) of the rows."""
    pair = labels.shape[1] == 2
    models = Models(
        _logs(probas)[:, None],
        labels,
        counts[:, None, :],
        _OFFSET / (np.sqrt(2.0) if pair else 1.0),
        _SLOPE / (1.0 + pair),
    )
    c = np.zeros((len(counts), len(_OFFSET), labels.shape[1] + 1))
    for _ in range(100):
        gradient, hessian = models.derivatives(c)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        before = models.value(c)
        for _ in range(30):
            worse = models.value(c + step) < before - 1e-9
            if not worse.any():
                break
            step[worse] *= 0.5
        c = c + step
        if np.abs(step).max() < 1e-8:
            break
    hessian = models.derivatives(c)[1]
    evidence = models.value(c) - 0.5 * np.linalg.slogdet(hessian)[1]
    unchanged = (counts * (labels * models.log_p[:, 0]).sum(axis=-1)).sum(axis=-1) + np.log(len(_OFFSET))
    weights = softmax(np.concatenate([unchanged[:, None], evidence], axis=1), axis=1)
    offsets, slopes = models.offset[:, None] * c[..., :-1], 1.0 + models.slope * c[..., -1]
    return [Recalibration(*values) for values in zip(weights, offsets, slopes, strict=True)]


def _logs(proba: Array) -> Array:
    return np.asarray(np.log(np.maximum(proba, _SMALLEST)))
