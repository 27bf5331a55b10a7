"""Intervals for probabilities, labels and the missingness curve.

All by the delta method, on the log-odds scale for probabilities and the log hazard scale for the missingness.
"""

from collections.abc import Iterator
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp
from scipy.stats import norm

from marmix.core.arrays import AnyArray, Array, Bools, Ints, quiet
from marmix.core.links import hazard
from marmix.core.mechanism import Mechanism
from marmix.engines import block_rows
from marmix.inference.fitted import Fitted


class Curve(NamedTuple):
    """P(label missing) against the uncertainty, with a pointwise band.

    Attributes
    ----------
    u : array
        Values of the uncertainty.
    q, lower, upper : arrays
        The probability there, and its interval.

    See Also
    --------
    marmix.Inference : its method `missingness_curve` returns it.
    marmix.plotting.MissingnessDisplay : a picture of it.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :3], rows.target    # -1 where the label is missing
    >>> result = MARGaussianMixture().fit(X, y).inference(X, y)
    >>> curve = result.missingness_curve([0.0, 0.69])    # certain, and a toss-up
    >>> curve.q.round(2)
    array([0.5 , 0.94])
    """

    u: Array
    q: Array
    lower: Array
    upper: Array


class ImputedLabels(NamedTuple):
    """Imputed labels of the unlabelled rows, and their uncertainty.

    Attributes
    ----------
    row : array of int
        Positions of the unlabelled rows.
    label : array
        The most probable class of each.
    probability, lower, upper : arrays
        Its posterior, and the interval of that.
    settled : array of bool
        Whether only this label is credible as the most probable one.

    See Also
    --------
    marmix.Inference : its method `imputed_labels` returns it.
    marmix.estimate : shares, means and regressions of all rows.
    marmix.evaluation.conformal_sets : sets of labels with a stated coverage, whether or not the model is right.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :3], rows.target    # -1 where the label is missing
    >>> result = MARGaussianMixture().fit(X, y).inference(X, y)
    >>> imputed = result.imputed_labels()
    >>> len(imputed.row), round(float(imputed.settled.mean()), 2)
    (375, 0.9)
    """

    row: Ints
    label: AnyArray
    probability: Array
    lower: Array
    upper: Array
    settled: Bools


def check_level(alpha: float) -> float:
    """The complement of a confidence level, checked."""
    if not isinstance(alpha, Real) or not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha={alpha!r} must lie between 0 and 1: intervals have level 1 - alpha.")
    return float(alpha)


def check_count(name: str, value: Any, least: int) -> int:
    """A whole number of at least `least`, checked."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}={value!r} must be a whole number, at least {least}.")
    return int(value)


def _score_rows(fitted: Fitted, X: AnyArray) -> Iterator[tuple[slice, Array, Array]]:
    """Blocks of rows: their slice, scores (K, n), and derivatives (K, P, n) of the scores in theta's coordinates."""
    model, size = fitted.objective.model, fitted.coordinates.n_theta
    classes = len(fitted.classes)
    step = block_rows(classes * size)
    for start in range(0, len(X), step):
        part = slice(start, min(start + step, len(X)))
        scores, share, phi, _ = model.derivatives(fitted.theta, fitted.objective.engine.frame.enter(X[part]))
        p, n = phi.shape[-2:]
        slopes = np.zeros((classes, size, n))
        for c, k in enumerate(model.owner):
            by_component = phi if phi.ndim == 2 else phi[c]
            slope = fitted.information.pull[:size, c * p : (c + 1) * p] @ by_component
            slopes[k] += slope if share is None else share[c] * slope
        yield part, scores, slopes


def _errors(slopes: Array, covariance: Array, blind: Array) -> Array:
    """Standard errors of quantities with derivatives (P, n); infinite where the data do not determine them."""
    errors = np.sqrt(np.maximum(np.einsum("pn,pq,qn->n", slopes, covariance, slopes, optimize=True), 0.0))
    if blind.shape[1]:
        undetermined = np.abs(blind.T @ slopes).max(axis=0) > 1e-4 * np.linalg.norm(slopes, axis=0)
        errors[undetermined] = np.inf
    return errors


def _theta_covariance(fitted: Fitted, kind: str) -> tuple[Array, Array]:
    """The covariance of theta's coordinates, and the directions that the data do not determine."""
    size = fitted.coordinates.n_theta
    covariance, blind = fitted.information.covariance(kind)
    return covariance[:size, :size], blind[:size]


def proba_interval(fitted: Fitted, X: AnyArray, kind: str, alpha: float) -> tuple[Array, Array]:
    """Limits (n, K) of the posterior probabilities."""
    covariance, z = _theta_covariance(fitted, kind), float(norm.isf(alpha / 2.0))
    lower, upper = (np.empty((len(X), len(fitted.classes))) for _ in range(2))
    for part, scores, slopes in _score_rows(fitted, X):
        for k in range(len(scores)):
            rest = np.delete(scores, k, axis=0)
            level = logsumexp(rest, axis=0)
            weights = np.exp(rest - level)
            odds = scores[k] - level
            error = _errors(slopes[k] - np.einsum("kn,kpn->pn", weights, np.delete(slopes, k, axis=0)), *covariance)
            lower[part, k], upper[part, k] = expit(odds - z * error), expit(odds + z * error)
    return lower, upper


def credible_labels(fitted: Fitted, X: AnyArray, kind: str, alpha: float) -> Bools:
    """Which classes (n, K) may be the most probable one, at level 1 - alpha for each pair of classes."""
    covariance, z = _theta_covariance(fitted, kind), float(norm.isf(alpha / 2.0))
    out = np.ones((len(X), len(fitted.classes)), dtype=bool)
    for part, scores, slopes in _score_rows(fitted, X):
        best, columns = scores.argmax(axis=0), np.arange(scores.shape[1])
        leading = slopes[best, :, columns].T
        for k in range(len(scores)):
            error = _errors(leading - slopes[k], *covariance)
            out[part, k] = (best == k) | (scores[best, columns] - scores[k] < z * error)
    return out


def imputed_labels(fitted: Fitted, kind: str, alpha: float) -> ImputedLabels:
    """Imputed labels of the unlabelled rows."""
    if fitted.mechanism is not None:
        fitted.mechanism.require_no_label_term("imputed_labels")
    rows = np.flatnonzero(fitted.z < 0)
    if not len(rows):
        none = np.empty(0)
        return ImputedLabels(fitted.kept[rows], fitted.classes[:0], none, none, none, np.empty(0, dtype=bool))
    X = fitted.X[rows]
    lower, upper = proba_interval(fitted, X, kind, alpha)
    proba = fitted.estimator.predict_proba(X)
    label = proba.argmax(axis=1)
    settled = credible_labels(fitted, X, kind, alpha).sum(axis=1) == 1
    at = np.arange(len(rows)), label
    return ImputedLabels(fitted.kept[rows], fitted.classes[label], proba[at], lower[at], upper[at], settled)


def missingness_curve(fitted: Fitted, u: Any, kind: str, alpha: float) -> Curve:
    """q against the uncertainty, covariates at their means."""
    mechanism = fitted.require_mechanism("the missingness curve")
    mechanism.require_no_label_term("the missingness curve")
    if u is None:
        observed = fitted.estimator.uncertainty(fitted.X)
        u = np.linspace(observed.min(), observed.max(), 100)
    grid = np.atleast_1d(np.asarray(u, dtype=float))
    drivers = np.zeros((len(mechanism.alpha) - 1, len(grid)))
    drivers[0] = grid

    def log_hazard(theta: Any, mechanism: Mechanism | None) -> Array:
        assert mechanism is not None
        with quiet():
            return np.log(hazard(mechanism.eta(drivers), mechanism.shape).n + mechanism.extra)

    level = log_hazard(fitted.theta, fitted.mechanism)
    error = np.sqrt(np.maximum(np.diag(fitted.covariance_of(fitted.jacobian_of(log_hazard), kind)), 0.0))
    z = float(norm.isf(alpha / 2.0))
    q, lower, upper = (-np.expm1(-np.exp(level + side * z * error)) for side in (0.0, -1.0, 1.0))
    return Curve(grid, q, lower, upper)
