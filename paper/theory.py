"""Theory without data: what a missing label costs, and what modelling the mechanism is worth.

The plug-in rule assigns a row to the class that is most probable under the estimated parameters. By maximum likelihood from n
rows its risk R exceeds the Bayes risk R* by

    E R - R* = c / (2 n) + o(1 / n),      c = tr(D V),

D the curvature of the risk in the parameters and V the inverse information of a row. Missing labels enter through V alone, so
ratios of the coefficients c are ratios of numbers of rows: an analysis with twice the coefficient needs twice the rows.

Let ``S_k = log(pi_k f_k)`` be the scores of the classes and ``d_kl = S_k - S_l``. On the boundary between the two leading
classes k and l, ``d_kl = 0`` and ``g = pi_k f_k = pi_l f_l``, and

    D = sum_{k < l} integral of g (grad d_kl)(grad d_kl)' dirac(d_kl) dx,      grad in the parameters.

With the weights ``(d_i d)^2 / |grad_x d|^2``, which sum to one over the axes i, each axis is integrated along its own lines: a
line parallel to axis i contributes ``g |d_i d| / |grad_x d|^2 (grad d)(grad d)'`` for every point where it crosses the boundary,
which is bounded also where the line is tangent to it. On a line a Gaussian score is a quadratic polynomial, and the boundary is
at its roots. Integrals over lines and rows are trapezoid rules, for one or two features.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp

from marmix import Mechanism
from marmix.core.arrays import Array
from marmix.core.covariance import structure
from marmix.core.frames import Frame
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.engines import NumpyEngine
from marmix.fitting import Objective
from marmix.inference.coordinates import Coordinates
from marmix.inference.curvature import expected_outer, size_of_mechanism

REGIMES = ("complete", "mcar", "modelled", "ignored", "unlabelled")
_STEPS = {1: (1 / 32, 1.0), 2: (1 / 8, 1 / 512)}  # of the rules for rows and for lines, in standard deviations
_REACH = 7.5  # standard deviations beyond which a normal distribution has less than 1e-13 of its mass
_FAR = 1e8  # roots further out come from a leading coefficient that should be zero
_NO_FLOOR = float(np.finfo(float).tiny)


def lattice(k: int, step: float) -> tuple[Array, Array]:
    """Nodes (n, k) and weights of the trapezoid rule for the standard normal distribution in k = 0, 1 or 2 dimensions."""
    reach = int(np.ceil(_REACH / step))
    line = step * np.arange(-reach, reach + 1)
    nodes = np.array(np.meshgrid(*[line] * k)).reshape(k, -1).T if k else np.zeros((1, 0))
    squared = (nodes**2).sum(axis=1)
    near = squared <= _REACH**2
    weights = np.exp(-0.5 * squared[near])
    return nodes[near], weights / weights.sum()


class Lines(NamedTuple):
    """Lines parallel to an axis, with the scores of the classes on each line."""

    origin: Array  # (L, d), zero on that axis
    weight: Array  # (L,)
    log_norm: Array  # (L,), log density of the line
    constant: Array  # (K, L), scores at the origin
    slope: Array  # (K, L), of the scores there
    precision: Array  # (K, 1), along the axis

    def scores(self, t: Array, line: Any = slice(None)) -> Array:
        """Scores of the classes at positions t on these lines."""
        return self.constant[:, line] + t * (self.slope[:, line] - 0.5 * self.precision * t)


class GaussianClasses:
    """Gaussian classes with one or two features, the model that `MARGaussianMixture` estimates.

    Parameters
    ----------
    weights : array-like of shape (K,)
        Probabilities of the classes, which sum to one.
    means : array-like of shape (K, d)
        Means of the classes.
    covariances : array-like
        In scikit-learn's shapes: (K, d, d) if "full", (d, d) if "tied", (K, d) if "diag", (K,) if "spherical".
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        The structure that a fit would assume: with "tied", a common covariance, classes are easier to estimate.
    """

    def __init__(self, weights: ArrayLike, means: ArrayLike, covariances: ArrayLike, covariance_type: str = "full"):
        pi, means, covariances = (np.asarray(a, dtype=float) for a in (weights, means, covariances))
        self.classes, self.d = means.shape
        kind = structure(covariance_type, self.d)
        spread = kind.spread(kind.factor(covariances, _NO_FLOOR), self.classes)
        self.frame = Frame(pi @ means, kind.whitener(np.einsum("k,kij,klj->il", pi, spread, spread)))
        chol = kind.factor(kind.rebase(covariances, self.frame.whitener), _NO_FLOOR)
        self.theta = Gaussians(np.log(pi), (means - self.frame.centre) @ self.frame.whitener.T, chol)
        self.model = GaussianScores(kind, [1] * self.classes, _NO_FLOOR)
        # a rotation after which the first axes separate the means: lines along the others rarely cross the boundary
        self.axes = np.linalg.svd(np.sqrt(pi)[:, None] * self.theta.mu)[2]
        spread = self.axes @ kind.spread(chol, self.classes)
        self.mu, self.covariance = self.theta.mu @ self.axes.T, spread @ np.swapaxes(spread, 1, 2)
        self.precision: Array = np.asarray(np.linalg.inv(self.covariance), dtype=float)

    def rows(self) -> Objective:
        """The nodes of the rule, drawn from each class in turn, as unlabelled rows whose weights sum to one."""
        nodes, weights = lattice(self.d, _STEPS[self.d][0])
        x = np.concatenate(
            [mu + nodes @ np.linalg.cholesky(s).T for mu, s in zip(self.mu, self.covariance, strict=True)]
        )
        X = x @ self.axes @ self.frame.unwhitener.T + self.frame.centre
        weight = np.concatenate([p * weights for p in np.exp(self.theta.log_pi)])
        return Objective(NumpyEngine(X, np.full(len(X), -1), weight, self.classes, self.frame), self.model)

    def lines(self, axis: int) -> Iterator[Lines]:
        """Lines through nodes drawn from every class in turn, weighted by the inverse of the density of the draws."""
        rest = np.delete(np.arange(self.d), axis)
        nodes, weights = lattice(self.d - 1, _STEPS[self.d][1])
        along = self.precision[:, axis, axis, None]
        norm = self.theta.log_pi - 0.5 * np.linalg.slogdet(2.0 * np.pi * self.covariance)[1]
        for k in range(self.classes):
            origin = np.zeros((len(nodes), self.d))
            origin[:, rest] = self.mu[k, rest] + nodes @ np.linalg.cholesky(self.covariance[k][np.ix_(rest, rest)]).T
            away = origin - self.mu[:, None]
            pull = away @ self.precision
            constant = norm[:, None] - 0.5 * np.einsum("kli,kli->kl", away, pull)
            slope = -pull[:, :, axis]
            log_mass = constant + 0.5 * slope**2 / along + 0.5 * np.log(2.0 * np.pi / along)
            weight = np.exp(self.theta.log_pi[k]) * weights
            yield Lines(origin, weight, logsumexp(log_mass, axis=0), constant, slope, along)

    def crossings(self, lines: Lines) -> Iterator[tuple[tuple[int, int], NDArray[np.intp], Array]]:
        """Where lines cross the boundary between each pair of classes: the pair, indices of lines, positions on them."""
        for k, j in combinations(range(self.classes), 2):
            a = -0.5 * (lines.precision[k] - lines.precision[j])
            b, c = lines.slope[k] - lines.slope[j], lines.constant[k] - lines.constant[j]
            with np.errstate(all="ignore"):  # roots without cancellation
                half = -0.5 * (b + np.copysign(np.sqrt(b * b - 4.0 * a * c), b))
                roots = np.array([half / a, c / half])
            root, index = np.nonzero(np.abs(roots) < _FAR)
            t = roots[root, index]
            scores = lines.scores(t, index)
            leads = np.maximum(scores[k], scores[j]) > np.delete(scores, [k, j], axis=0).max(axis=0, initial=-np.inf)
            yield (k, j), index[leads], t[leads]

    def curvature(self) -> Array:
        """D in the coefficients W of the scores (see `marmix.inference.curvature`)."""
        p = self.model.structure.detailed().n_features()
        total = np.zeros((self.classes, p, self.classes, p))
        for axis in range(self.d):
            for lines in self.lines(axis):
                for (k, j), index, t in self.crossings(lines):
                    x = lines.origin[index]
                    x[:, axis] = t
                    gradient = (x - self.mu[j]) @ self.precision[j] - (x - self.mu[k]) @ self.precision[k]
                    joint = np.exp(lines.scores(t, index)[k] - lines.log_norm[index])
                    weight = lines.weight[index] * joint * np.abs(gradient[:, axis]) / (gradient**2).sum(axis=1)
                    phi = self.model.detailed_features(self.axes.T @ x.T)
                    block = (phi * weight) @ phi.T
                    for a, b in product((k, j), (k, j)):
                        total[a, :, b] += block if a == b else -block
        return total.reshape(self.classes * p, -1)


def missing_rate(classes: GaussianClasses, mechanism: Mechanism) -> float:
    """The share of labels that are missing under a mechanism, the mean of q over the population."""
    rows = classes.rows()
    sample = rows.driver_sample(classes.theta, mechanism, rows.engine.n_rows)
    return float(mechanism.missing_proba_of(sample.drivers) @ np.asarray(sample.weight))


def mechanism_at_rate(classes: GaussianClasses, mechanism: Mechanism, rate: float) -> Mechanism:
    """The mechanism with the intercept alpha_0 at which a given share of the labels is missing."""

    def moved(level: float) -> Mechanism:
        return replace(mechanism, alpha=(level, *mechanism.alpha[1:]))

    return moved(brentq(lambda level: missing_rate(classes, moved(level)) - rate, -100.0, 100.0, xtol=1e-12))


def excess_risk(
    classes: GaussianClasses, mechanism: Mechanism | None = None, *, labels: str = "complete", rate: float | None = None
) -> float:
    """The coefficient c of the excess risk of the plug-in rule, ``lim 2 n (E R - R*)``.

    Parameters
    ----------
    classes : GaussianClasses
        The true classes; the analysis assumes their covariance structure.
    mechanism : Mechanism or None, default=None
        The missing-label mechanism. alpha is estimated, and the shape and share if `free_shape` and `free_share` say so.
    labels : {"complete", "mcar", "modelled", "ignored", "unlabelled"}, default="complete"
        Every label known; labels missing completely at random; missing by the mechanism, which is modelled, or ignored
        (valid but less efficient); no label at all (classes are then known up to their names only).
    rate : float or None, default=None
        The share of missing labels if labels="mcar". By default that of the mechanism.

    Returns
    -------
    float
    """
    if labels not in REGIMES:
        raise ValueError(f"labels={labels!r} is not one of {', '.join(map(repr, REGIMES))}.")
    if labels == "mcar" and rate is None:
        assert mechanism is not None, "mcar needs a rate, or a mechanism that has one"
        rate = missing_rate(classes, mechanism)
    modelled = labels == "modelled"
    used = mechanism if labels in ("modelled", "ignored") else None
    rows, theta, bend = classes.rows(), classes.theta, classes.curvature()
    pull = Coordinates(rows, theta, None).pull(len(bend))
    of_rows = Coordinates(rows, theta, used if modelled else None).pull(len(bend) + size_of_mechanism(used) * modelled)

    missing = {"mcar": rate, "unlabelled": 1.0}.get(labels)  # otherwise no label, or by the mechanism
    information = of_rows @ expected_outer(rows, theta, used, modelled, missing or 0.0) @ of_rows.T
    return float(np.sum((pull @ bend @ pull.T) * np.linalg.inv(information)[: len(pull), : len(pull)]))


def unlabelled_efficiency(classes: GaussianClasses) -> float:
    """How many labelled rows an unlabelled row is worth, if all rows are unlabelled."""
    return excess_risk(classes) / excess_risk(classes, labels="unlabelled")
