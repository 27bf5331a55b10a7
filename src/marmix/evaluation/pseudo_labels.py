"""Pseudo-labels: the weight of every class in a row of partially labelled data.

    weighted       r_jk = w_j 1{y_j = k} of labelled rows,                          w_j = 1 / (1 - q_j)
    doubly robust  r_jk = tau_jk + (1 - m_j) w_j (1{y_j = k} - tau_jk) of all rows
    imputed        r_jk = 1{y_j = k} of labelled rows, tau_jk of unlabelled rows (doubly robust with w_j = 1)

See `marmix.evaluation` for what they estimate and why weights are truncated, and `UncertainPosterior` for how wrong tau may be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, softmax

from marmix.core.arrays import Array, unmasked
from marmix.evaluation.prior import class_offsets, tilted

# How far the posteriors of unlabelled rows may be off before labels are seen: standard deviation of a coefficient of
# `UncertainPosterior`. Posteriors that are off by one standard deviation in one direction cost DOUBT^2 / 2 in log-loss per row.
# On the settings of benchmarks/honesty.py, seeds from 1000, intervals cover less than 90 % with 0.06 where every hard row lacks
# its label; up to 0.2 they only grow wider.
DOUBT = 0.1

# Where little information is left per row, as of a rare class, a standard deviation is at most so long: that of the factor of
# log p and of the log-odds of a class, and that of the share of the way to another classifier's probabilities.
_MOST, _MOST_OTHERS = 0.5, 2.0

# Standard deviation of the half-normal multiple of the change towards labels drawn by class. On 19 simulated files with 20 to 60
# labels drawn by class, seeds from 1000, the multiple that fitted the hidden labels best was 0.1 to 2.8, half of them below 0.85,
# which is the median of this distribution.
_BY_CLASS = 1.25

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
    """Posteriors of the labels of unlabelled rows, and how far they may be off.

    Held-out class probabilities p may be wrong in hard rows, of which few have a label: too sharp or too flat, shifted towards
    a class, or wrong where others that they are compared with are right. So the posteriors are

        tau_k  proportional to  p_k exp(sum_i c_i d_ik),

    with the directions ``d = log p``, the indicator of each class, and ``log p - log p'`` for each of the others p'. Directions
    are scaled to one unit of Fisher information per unlabelled row, within limits. The prior of every c_i is normal around 0 with
    standard deviation `DOUBT` (for the classes, of which two make one contrast, divided by the square root of two). The labels
    speak through their likelihood: each labelled row with the weight ``q / (1 - q)`` with which it stands for unlabelled rows,
    and all together for as many rows as their effective number n (see `representation`). Where no labelled row resembles the
    unlabelled ones, the prior is all there is.

    Labelled rows cannot tell how the fit errs in other rows. A fit to n labels is off by a variance of about 1/n in each
    direction of unit information, and by ``1/n_k + 1/(n - n_k)`` in the log-odds of a class with n_k of them. These are added
    to the variances of the coefficients of log p, of the most probable class where it is class k, and of class k.

    Labels may also have been drawn by class, for example as many of a rare class as of others. Then the shares of the classes
    in unlabelled rows follow from p and the labels by the EM algorithm for a change of class shares. Unless these shares are more
    even than those of the labels, the posteriors may move towards them: by a half-normal multiple of the change in log-odds.

    If the shares of the classes in all rows are known (`prior`), the log-odds of the classes are instead such that the labels and
    the posteriors of unlabelled rows have these shares, with any coefficients.

    Attributes
    ----------
    proba : array of shape (n, K)
        p.
    directions : array of shape (J, n, K)
        Scaled directions, without those of the classes.
    classes : array of shape (K,)
        Scales of the directions of the classes.
    coefficients : array of shape (J + 2 K,)
        The most probable c: of the directions, of the classes, and of the most probable class where it is class k.
    steps : array of shape (J + 2 K, J + 2 K)
        Principal axes of the posterior distribution of c, each as long as its standard deviation.
    by_class : array of shape (K,) or None
        Change in the log-odds of the classes if labels were drawn by class, one standard deviation long; None if the shares of
        the classes speak against it or are known.
    weights : array of shape (n,)
        Weights of the rows, zero for labelled ones.
    totals : array of shape (K,) or None
        Weight of the unlabelled rows of each class, if known.
    """

    proba: Array
    directions: Array
    classes: Array
    coefficients: Array
    steps: Array
    by_class: Array | None
    weights: Array
    totals: Array | None

    @classmethod
    def of(
        cls,
        proba: Array,
        indicator: Array,
        q: Array,
        others: Sequence[Array] = (),
        counts: Array | None = None,
        prior: Array | None = None,
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
        prior : array of shape (K,) or None
            Shares of the classes in all rows, if known.
        """
        proba, *others = (checked_proba(p, indicator.shape) for p in (proba, *others))
        labelled, counts = np.asarray(indicator.any(axis=1)), np.ones(len(q)) if counts is None else counts
        log_p = np.log(np.maximum(proba, TINY))
        directions = np.array([log_p, *(log_p - np.log(np.maximum(other, TINY)) for other in others)])
        J, K = len(directions), proba.shape[1]
        sd = np.repeat([DOUBT, DOUBT / np.sqrt(2.0)], [J, K])
        most = np.array([_MOST, *[_MOST_OTHERS] * len(others), *[_MOST] * K])
        weights = np.where(labelled, 0.0, counts)
        p, d, shares = proba[~labelled], directions[:, ~labelled], weights[~labelled] / max(weights.sum(), TINY)
        information = ((d**2 * p).sum(axis=2) - (d * p).sum(axis=2) ** 2) @ shares
        information = np.concatenate([information, shares @ (p * (1.0 - p))])
        scale = 1.0 / np.sqrt(np.maximum(information, (sd / most) ** 2))
        directions *= scale[:J, None, None]
        weight, _ = representation(q, labelled, counts)
        coefficients, covariance = _most_probable(
            log_p[labelled], directions[:, labelled], scale[J:], indicator[labelled], weight, sd
        )
        errors = _errors_of_fit(p, shares, weight @ indicator[labelled], information[0], scale)
        variances, axes = np.linalg.eigh(np.pad(covariance, (0, K)) + np.diag(errors))
        steps = (axes * np.sqrt(np.maximum(variances, 0.0))).T
        given = counts @ indicator
        totals = None if prior is None else np.maximum(prior * counts.sum() - given, 0.0)
        result = cls(proba, directions, scale[J:], np.pad(coefficients, (0, K)), steps, None, weights, totals)
        if prior is None and not labelled.all():
            result = replace(result, by_class=_drawn_by_class(result.central[~labelled], weights[~labelled], given))
        return result

    def at(self, coefficients: Array) -> Array:
        """The posteriors (n, K) with these coefficients."""
        J, K = len(self.directions), len(self.classes)
        log_p = np.log(np.maximum(self.proba, TINY))
        scores = _shifted(log_p, self.directions, self.classes, coefficients[: J + K])
        top = self.proba.argmax(axis=1)
        scores[np.arange(len(top)), top] += coefficients[J + K :][top]
        tau: Array = softmax(scores, axis=1)
        if self.totals is not None:
            rows = self.weights > 0.0
            tau = tilted(tau, class_offsets(tau[rows], self.totals, self.weights[rows]))
        return tau

    @property
    def central(self) -> Array:
        """The posteriors (n, K) with the most probable coefficients."""
        return self.at(self.coefficients)

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        """For each principal axis, the posteriors one standard deviation to either side."""
        for step in self.steps:
            yield self.at(self.coefficients + step), self.at(self.coefficients - step)

    @property
    def drawn_by_class(self) -> Array | None:
        """The posteriors (n, K) one standard deviation towards labels drawn by class, if any."""
        return None if self.by_class is None else tilted(self.central, self.by_class)

    def draw(self, rng: np.random.Generator) -> Array:
        """The posteriors (n, K) with coefficients drawn from their distribution."""
        tau = self.at(self.coefficients + rng.standard_normal(len(self.steps)) @ self.steps)
        return tau if self.by_class is None else tilted(tau, abs(rng.standard_normal()) * self.by_class)

    def truths(self, rows: NDArray[np.bool_], n_draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
        """Draw classes of some rows: coefficients from their distribution, then a class of each row."""
        log_p = np.log(np.maximum(self.proba[rows].T, TINY)).astype(np.float32, order="C")  # single precision will do
        directions = np.ascontiguousarray(self.directions[:, rows].transpose(0, 2, 1), dtype=np.float32)
        (J, K, n), flat = directions.shape, directions.reshape(len(directions), -1)
        top, column, shift = self.proba[rows].argmax(axis=1), np.arange(n), None
        weights = self.weights[rows]
        totals = None if self.totals is None else self.totals * (weights.sum() / self.weights.sum())
        for _ in range(n_draws):
            c = self.coefficients + rng.standard_normal(len(self.steps)) @ self.steps
            offsets = c[J : J + K] * self.classes
            if self.by_class is not None:
                offsets = offsets + abs(rng.standard_normal()) * self.by_class
            scores = log_p + (c[:J].astype(np.float32) @ flat).reshape(K, n)
            scores += offsets.astype(np.float32)[:, None]
            scores[top, column] += c[J + K :].astype(np.float32)[top]
            scores -= scores.max(axis=0)
            tau = np.exp(scores, out=scores)
            if totals is not None:
                shift = class_offsets(tau.T, totals, weights, shift, tolerance=1e-4)
                tau *= np.exp(shift).astype(np.float32)[:, None]
            below = np.cumsum(tau, axis=0, out=tau)
            level = rng.random(n, dtype=np.float32) * below[-1]
            yield np.asarray((below[:-1] <= level).sum(axis=0), dtype=np.intp)


def _errors_of_fit(p: Array, shares: Array, labels: Array, information: float, scale: Array) -> Array:
    """Variances (J + 2 K) of the coefficients of a fit to this many labels (K,) of each class."""
    K, n = len(labels), max(float(labels.sum()), 1.0)
    errors = np.zeros(len(scale) + K)
    errors[0] = min(1.0, 1.0 / (n * max(information, TINY))) / scale[0] ** 2
    several = np.maximum([labels, n - labels], 0.5)
    errors[len(scale) - K : len(scale)] = np.sum(1.0 / several, axis=0) / scale[-K:] ** 2
    most = p.max(axis=1)
    called = np.bincount(p.argmax(axis=1), weights=shares * most * (1.0 - most), minlength=K)
    errors[len(scale) :] = np.minimum(1.0, 1.0 / (n * np.maximum(called, TINY)))
    return errors


def _drawn_by_class(tau: Array, weights: Array, given: Array) -> Array | None:
    """Change in the log-odds of unlabelled rows if labels were drawn by class.

    None if the classes are then more evenly shared. The shares of the classes in all rows maximise the likelihood of
    the features, by the EM algorithm.
    """
    start = (given + 0.5) / (given + 0.5).sum()
    ratio, total = np.ones(len(given)), given.sum() + weights.sum()
    for _ in range(200):
        before = ratio
        ratio = (given + ratio * (tau.T @ (weights / (tau @ ratio)))) / (total * start)
        if np.abs(ratio - before).max() < 1e-4:
            break
    if entr(start * ratio).sum() >= entr(start).sum():
        return None
    return np.asarray(_BY_CLASS * np.log(np.maximum(ratio, TINY)))


def _shifted(log_p: Array, directions: Array, classes: Array, coefficients: Array) -> Array:
    """``log p + sum_i c_i d_i`` (n, K), up to a constant of each row."""
    J = len(directions)
    return np.asarray(log_p + np.tensordot(coefficients[:J], directions, 1) + coefficients[J:] * classes)


def _most_probable(
    log_p: Array, directions: Array, classes: Array, indicator: Array, weight: Array, sd: Array
) -> tuple[Array, Array]:
    """The most probable coefficients, by Newton's method, and the inverse Hessian there."""
    J, labels = len(directions), weight[:, None] * indicator

    def value(c: Array) -> float:
        tau = softmax(_shifted(log_p, directions, classes, c), axis=1)
        return float(np.sum(labels * np.log(np.maximum(tau, 1e-300))) - 0.5 * np.sum((c / sd) ** 2))

    def curvature(c: Array) -> tuple[Array, Array]:
        tau = softmax(_shifted(log_p, directions, classes, c), axis=1)
        weighted = weight[:, None] * tau
        residual = labels - weighted
        gradient = np.concatenate([(directions * residual).sum(axis=(1, 2)), classes * residual.sum(axis=0)])
        mean = (directions * tau).sum(axis=2)  # (J, rows)
        hessian = np.diag(1.0 / sd**2)
        hessian[:J, :J] += np.einsum("ink,jnk,nk->ij", directions, directions, weighted) - (mean * weight) @ mean.T
        hessian[J:, J:] += (np.diag(weighted.sum(axis=0)) - tau.T @ weighted) * np.outer(classes, classes)
        across = (np.einsum("ink,nk->ik", directions, weighted) - mean @ weighted) * classes
        hessian[:J, J:] += across
        hessian[J:, :J] += across.T
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
