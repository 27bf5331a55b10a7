"""Pseudo-labels: the weight of every class in a row of partially labelled data.

    weighted       r_jk = w_j 1{y_j = k} of labelled rows,                          w_j = 1 / (1 - q_j)
    doubly robust  r_jk = tau_jk + (1 - m_j) w_j (1{y_j = k} - tau_jk) of all rows
    imputed        r_jk = 1{y_j = k} of labelled rows, tau_jk of unlabelled rows (doubly robust with w_j = 1)

See `marmix.evaluation` for what they estimate and why weights are truncated, and `UncertainPosterior` for how wrong tau may be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from marmix.core.arrays import Array, unmasked
from marmix.evaluation.prior import class_offsets, tilted

NO_CHANCE = 0.99  # a row whose label is missing with at least this probability has practically no chance of one
TINY = 1e-12  # smallest probability in a direction
_ROUNDING = 1e-6  # by which probabilities of a row may miss one in sum


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


def checked_proba(proba: ArrayLike, shape: tuple[int, ...], name: str = "proba", rows: Any = slice(None)) -> Array:
    """Class probabilities as an array; in these rows they must lie in [0, 1] and sum to one."""
    p = np.asarray(unmasked(proba), dtype=float)
    if p.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {p.shape}.")
    used = p[rows]
    outside = ~((used >= -_ROUNDING) & (used <= 1.0 + _ROUNDING))
    if outside.any():
        raise ValueError(f"{name} has {used[outside][0]:g}: give class probabilities, finite and between 0 and 1.")
    sums = used.sum(axis=1)
    if (bad := np.abs(sums - 1.0) > _ROUNDING).any():
        raise ValueError(f"{name} has a row of sum {sums[bad][0]:g}: the probabilities of every row must sum to one.")
    return np.clip(p, 0.0, 1.0)


def inverse_weights(q: Array, n: int) -> tuple[Array, int]:
    """Truncated weights ``1 / (1 - q)`` of the labelled among n rows, and how many are truncated."""
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
    """Weights ``q / (1 - q)`` of labelled rows that stand for unlabelled ones, and their effective number.

    The weights are scaled to sum to the effective number, ``(sum w)^2 / sum w^2``.
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
    """Posteriors of the labels of unlabelled rows, and how far they may be off if labels are missing because of the features.

    The posteriors are held-out probabilities of an average, ``p = sum_c w_c p_c``. They may be off for two reasons, beside the
    chance of the classes themselves.

    *Another average.* The candidates are those that someone thought of. In a Bayesian bootstrap over them, their weights are
    ``w_c g_c``, scaled to sum to one, with standard exponential g_c; the average is then off by a variance of about
    ``sum_c w_c^2 (p_c - p)^2``.

    *Another calibration.* Coefficients estimated from n labels have the variance ``I^-1 / n``, with I the information in a row.
    For the slope a and the intercepts b of a recalibration,

        tau_k  proportional to  p_k^exp(a) exp(b_k),

    I is that of an unlabelled row on average, and (a, b) are normal around 0 with the covariance ``(n I + 1)^-1``; the 1 is a
    standard normal prior, for directions of which n labels say nothing. The centre stays at 0, because labelled rows are easier
    than those without a label, and their calibration is another one.

    If the shares of the classes in all rows are known (`prior`), the log-odds of the classes are in addition such that the labels
    and the posteriors of unlabelled rows have these shares.

    Attributes
    ----------
    proba : array of shape (n, K)
        p.
    members : array of shape (C, n, K)
        p_c.
    shares : array of shape (C,)
        w_c.
    steps : array of shape (1 + K, 1 + K)
        Principal axes of the distribution of (a, b), each as long as its standard deviation.
    weights : array of shape (n,)
        Weights of the rows, zero for labelled ones.
    totals : array of shape (K,) or None
        Weight of the unlabelled rows of each class, if known.
    """

    proba: Array
    members: Array
    shares: Array
    steps: Array
    weights: Array
    totals: Array | None

    @classmethod
    def of(
        cls,
        proba: Array,
        indicator: Array,
        counts: Array | None = None,
        prior: Array | None = None,
        members: Sequence[Array] | Array = (),
        shares: ArrayLike = (),
    ) -> "UncertainPosterior":
        """From held-out probabilities (n, K) and labels.

        Parameters
        ----------
        indicator : array of shape (n, K)
            One at the label of a row, or the shares of its votes; zero for unlabelled rows.
        counts : array of shape (n,) or None
            Weights of the rows.
        prior : array of shape (K,) or None
            Shares of the classes in all rows, if known.
        members, shares : arrays of shape (n, K), array of shape (C,)
            The probabilities that `proba` is the average of, and their weights; none if it is no average.
        """
        proba, *several = (checked_proba(p, indicator.shape) for p in (proba, *members))
        labelled, counts = np.asarray(indicator.any(axis=1)), np.ones(len(proba)) if counts is None else counts
        weights, n, K = np.where(labelled, 0.0, counts), float(counts[labelled].sum()), proba.shape[1]
        rows = n * weights[~labelled] / max(weights.sum(), TINY)
        variances, axes = np.linalg.eigh(_information(proba[~labelled], rows) + np.eye(1 + K))
        totals = None if prior is None else np.maximum(prior * counts.sum() - counts @ indicator, 0.0)
        steps = (axes / np.sqrt(variances)).T
        stack = np.array(several).reshape(len(several), *proba.shape)
        return cls(proba, stack, np.array(shares, dtype=float), steps, weights, totals)

    @cached_property
    def central(self) -> Array:
        """The posteriors (n, K) that are most probable."""
        return self._known(self.proba)

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        """For each way to be off, the posteriors one standard deviation to either side."""
        for share, member in zip(self.shares, self.members, strict=True):
            change = share * (member - self.proba)
            yield self._known(self.proba + change), self._known(self.proba - change)
        for step in self.steps:
            yield self._known(_recalibrated(self.proba, step)), self._known(_recalibrated(self.proba, -step))

    def draw(self, rng: np.random.Generator) -> Array:
        """The posteriors (n, K) drawn from their distribution."""
        return self._known(_recalibrated(self._averaged(self.proba, self.members, rng), self._coefficients(rng)))

    def truths(self, rows: NDArray[np.bool_], n_draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
        """Draw classes of some rows: posteriors from their distribution, then a class of each row."""
        proba, members = self.proba[rows].astype(np.float32), self.members[:, rows].astype(np.float32)
        weights, offset = self.weights[rows], None
        totals = None if self.totals is None else self.totals * (weights.sum() / self.weights.sum())
        for _ in range(n_draws):
            tau = _recalibrated(self._averaged(proba, members, rng), self._coefficients(rng).astype(np.float32))
            if totals is not None:
                offset = class_offsets(tau, totals, weights, offset, tolerance=1e-4)
                tau = tilted(tau, offset)
            below = np.cumsum(tau[:, :-1], axis=1)
            yield np.asarray((below <= rng.random((len(tau), 1), dtype=np.float32)).sum(axis=1), dtype=np.intp)

    def _averaged(self, proba: NDArray[Any], members: NDArray[Any], rng: np.random.Generator) -> Array:
        """p with the weights of the candidates drawn."""
        if not len(members):
            return proba
        shares = self.shares * rng.standard_exponential(len(self.shares))
        return np.asarray(np.tensordot((shares / shares.sum()).astype(members.dtype), members, 1))

    def _coefficients(self, rng: np.random.Generator) -> Array:
        """(a, b), drawn."""
        return np.asarray(rng.standard_normal(len(self.steps)) @ self.steps)

    def _known(self, tau: Array) -> Array:
        """The posteriors with the class shares that are known."""
        if self.totals is None:
            return tau
        rows = self.weights > 0.0
        return tilted(tau, class_offsets(tau[rows], self.totals, self.weights[rows]))


def _recalibrated(proba: Array, coefficients: Array) -> Array:
    """Probabilities proportional to ``p_k^exp(a) exp(b_k)``."""
    scores = np.log(np.maximum(proba, TINY))
    return np.asarray(softmax(np.exp(coefficients[0]) * scores + coefficients[1:], axis=1))


def _information(p: Array, weights: Array) -> Array:
    """Fisher information (1 + K, 1 + K) of rows with these weights about (a, b) at 0."""
    log_p = np.log(np.maximum(p, TINY))
    centred = log_p - (log_p * p).sum(axis=1, keepdims=True)
    slope, across = weights @ (p * centred**2).sum(axis=1), weights @ (p * centred)
    between = np.diag(weights @ p) - (p.T * weights) @ p
    return np.block([[np.array([[slope]]), across[None]], [across[:, None], between]])
