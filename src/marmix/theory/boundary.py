"""The Bayes rule along lines: its error rate, and the curvature of the risk in its parameters.

Let ``S_k = log(pi_k f_k)`` be the scores of the classes and ``d_kl = S_k - S_l``. On the boundary between the two leading
classes k and l, ``d_kl = 0`` and ``g = pi_k f_k = pi_l f_l``. Moving the parameters by delta moves the boundary, and the risk
rises by ``1/2 delta' D delta`` with

    D = sum_{k < l} integral of g (grad d_kl)(grad d_kl)' dirac(d_kl) dx,      grad in the parameters.

With the weights ``(d_i d)^2 / |grad_x d|^2``, which sum to one over the axes i, each axis is integrated along its own lines: a
line parallel to axis i contributes

    g |d_i d| / |grad_x d|^2  (grad d)(grad d)'

for every point where it crosses the boundary, which is bounded also where the line is tangent to it. On a line a Gaussian score
is a quadratic polynomial; if each class is one Gaussian the boundary is at its roots, otherwise roots are bracketed and bisected.
Between them the mass of the classes that do not lead, the error of the rule, is a difference of normal distribution functions.

Where two branches of the boundary cross, as between N(0, diag(2, 1)) and N(0, diag(1, 2)), the gradient in x vanishes and D is
infinite: no coefficient of 1 / n exists. Results then have a large error that finer rules do not reduce.
"""

from collections.abc import Iterator
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from marmix.core.arrays import Array
from marmix.theory.description import Description
from marmix.theory.rules import Rule

Index = NDArray[np.integer[Any]]

_LOG_2PI = float(np.log(2.0 * np.pi))
_LINES = 2048  # per block, so that the grids of several components per class stay small
_GRID = np.linspace(-8.0, 8.0, 33)  # of a component, in its standard deviations, where roots are bracketed
_HALVINGS = 36  # of a bracket
_FAR = 1e8  # roots further out come from a leading coefficient that should be zero


class Lines(NamedTuple):
    """Lines parallel to an axis, with the components conditional on each line."""

    origin: Array  # (L, d), zero on that axis
    weight: Array  # (L,)
    log_norm: Array  # (L,), log density of the line
    mass: Array  # (C, L), probabilities of the components given the line
    constant: Array  # (C, L), scores at the origin
    slope: Array  # (C, L), of the scores there
    precision: Array  # (C, 1), along the axis

    def scores(self, t: Array, line: Index | slice = slice(None)) -> Array:
        """Scores of the components at positions t on these lines."""
        return self.constant[:, line] + t * (self.slope[:, line] - 0.5 * self.precision * t)


class BayesRule:
    """The Bayes rule of a mixture, in axes whose first ones separate the means; lines along the others rarely cross it."""

    def __init__(self, description: Description):
        self.model, self.axes = description.model, description.axes
        self.log_pi = description.theta.log_pi
        self.mu, self.covariance = description.turned
        self.components, self.d = self.mu.shape
        self.precision: Array = np.asarray(np.linalg.inv(self.covariance), dtype=float)
        self._constant = self.log_pi - 0.5 * self.d * _LOG_2PI - 0.5 * np.linalg.slogdet(self.covariance)[1]
        self._features = self.model.structure.detailed().n_features()
        self._members = [np.flatnonzero(self.model.owner == k) for k in range(self.model.n_classes)]

    def error(self, rule: Rule) -> float:
        """The error rate of the Bayes rule, by lines along the first axis; the rule has d - 1 dimensions."""
        total = 0.0
        for lines in self._lines(0, rule):
            _, index, t = zip(*self._crossings(lines), strict=True)
            total += self._error(lines, np.concatenate(index), np.concatenate(t))
        return total

    def bend(self, rules: list[Rule]) -> Array:
        """D in the coefficients W (see `marmix.inference.curvature`), by one rule of d - 1 dimensions per axis."""
        size = self.components * self._features
        total = np.zeros((size, size))
        for axis, rule in enumerate(rules):
            for lines in self._lines(axis, rule):
                for pair, index, t in self._crossings(lines):
                    self._add(lines, axis, pair, index, t, total)
        return total

    def _lines(self, axis: int, rule: Rule) -> Iterator[Lines]:
        """Lines through nodes drawn from every component in turn, weighted by the inverse of the density of the draws."""
        rest = np.delete(np.arange(self.d), axis)
        along = self.precision[:, axis, axis, None]
        for c in range(self.components):
            root = np.linalg.cholesky(self.covariance[c][np.ix_(rest, rest)])
            nodes = self.mu[c, rest] + rule.nodes @ root.T
            for start in range(0, len(nodes), _LINES):
                part = slice(start, start + _LINES)
                origin = np.zeros((len(nodes[part]), self.d))
                origin[:, rest] = nodes[part]
                away = origin - self.mu[:, None]
                pull = away @ self.precision
                constant = self._constant[:, None] - 0.5 * np.einsum("cli,cli->cl", away, pull)
                slope = -pull[:, :, axis]
                log_mass = constant + 0.5 * slope**2 / along + 0.5 * (_LOG_2PI - np.log(along))
                weight = np.exp(self.log_pi[c]) * rule.weights[part]
                log_norm = logsumexp(log_mass, axis=0)
                yield Lines(origin, weight, log_norm, np.exp(log_mass - log_norm), constant, slope, along)

    def _by_class(self, scores: Array) -> Array:
        """``pi_k f_k`` of the classes in units of the largest component, from the scores of the components."""
        joint = np.exp(scores - scores.max(axis=0))
        return joint if self.model.single else np.array([joint[members].sum(axis=0) for members in self._members])

    def _crossings(self, lines: Lines) -> Iterator[tuple[tuple[int, int], Index, Array]]:
        """Crossings of the boundary between each pair of classes: the pair, indices of lines, positions on them."""
        grid = None if self.model.single else self._grid(lines)
        for k, j in combinations(range(self.model.n_classes), 2):
            index, t = self._roots(lines, k, j) if grid is None else self._bracketed(lines, grid, k, j)
            by_class = self._by_class(lines.scores(t, index))
            rivals = np.delete(by_class, [k, j], axis=0).max(axis=0, initial=0.0)
            leads = np.maximum(by_class[k], by_class[j]) > rivals
            yield (k, j), index[leads], t[leads]

    def _add(self, lines: Lines, axis: int, pair: tuple[int, int], index: Index, t: Array, total: Array) -> None:
        """Add crossings of the boundary between a pair of classes to D."""
        x = lines.origin[index]
        x[:, axis] = t
        scores = lines.scores(t, index)
        gradient = np.zeros_like(x)
        shares = {}  # of the components in their class, negative in the second class
        for k, sign in zip(pair, (1.0, -1.0), strict=True):
            by_class = logsumexp(scores[self._members[k]], axis=0)
            for c in self._members[k].tolist():
                shares[c] = sign * np.exp(scores[c] - by_class)
                gradient -= shares[c][:, None] * ((x - self.mu[c]) @ self.precision[c])
        steepness = np.einsum("ni,ni->n", gradient, gradient)
        weight = lines.weight[index] * np.exp(by_class - lines.log_norm[index]) * np.abs(gradient[:, axis])
        weight = np.divide(weight, steepness, out=np.zeros_like(weight), where=steepness > 0.0)
        phi = self.model.detailed_features(self.axes.T @ x.T)
        blocks = {c: slice(c * len(phi), (c + 1) * len(phi)) for c in shares}
        if self.model.single:  # one block, with either sign
            block = (phi * weight) @ phi.T
            for a, b in product(pair, pair):
                total[blocks[a], blocks[b]] += block if a == b else -block
        else:
            for a, b in product(shares, shares):
                total[blocks[a], blocks[b]] += (phi * (weight * shares[a] * shares[b])) @ phi.T

    def _roots(self, lines: Lines, k: int, j: int) -> tuple[Index, Array]:
        """Roots of ``d_kl`` if each class is one Gaussian: those of a quadratic, computed without cancellation."""
        a = -0.5 * (lines.precision[k] - lines.precision[j])
        b, c = lines.slope[k] - lines.slope[j], lines.constant[k] - lines.constant[j]
        with np.errstate(all="ignore"):
            half = -0.5 * (b + np.copysign(np.sqrt(b * b - 4.0 * a * c), b))
            t = np.array([half / a, c / half])
        index = np.broadcast_to(np.arange(t.shape[1]), t.shape)
        real = np.abs(t) < _FAR
        return index[real], t[real]

    def _grid(self, lines: Lines) -> tuple[Array, Array]:
        """Positions (G, L), dense where any component has mass, and ``pi_k f_k`` of the classes (K, G, L) there."""
        centre, scale = lines.slope / lines.precision, lines.precision**-0.5
        t = (centre[:, None] + scale[:, None] * _GRID[:, None]).reshape(-1, centre.shape[1])
        t.sort(axis=0)
        scores = lines.constant[:, None] + t * (lines.slope[:, None] - 0.5 * lines.precision[:, None] * t)
        return t, self._by_class(scores)

    def _bracketed(self, lines: Lines, grid: tuple[Array, Array], k: int, j: int) -> tuple[Index, Array]:
        """Roots of ``d_kl`` by bisection, between neighbours on a grid where it changes sign."""
        t, by_class = grid
        positive = by_class[k] > by_class[j]
        cell, index = np.nonzero(positive[1:] != positive[:-1])
        low, high, rising = t[cell, index], t[cell + 1, index], ~positive[cell, index]
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            at = self._by_class(lines.scores(middle, index))
            below = (at[k] > at[j]) != rising
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return index, 0.5 * (low + high)

    def _error(self, lines: Lines, index: Index, t: Array) -> float:
        """The mass of the classes that do not lead, over all lines."""
        n = len(lines.weight)
        order = np.lexsort((t, index))
        index, t = index[order], t[order]
        counts = np.bincount(index, minlength=n)
        cuts = np.full((counts.max(initial=0) + 2, n), np.inf)
        cuts[0] = -np.inf
        cuts[1 + np.arange(len(t)) - np.repeat(np.cumsum(counts) - counts, counts), index] = t
        scale, centre = lines.precision**0.5, lines.slope / lines.precision
        # the leader is evaluated between crossings, near the first or last one, or at the mode of a line without crossings
        fullest, nearby = centre[lines.mass.argmax(axis=0), np.arange(n)], 0.25 / scale.max()
        total = 0.0
        for low, high in pairwise(cuts):
            middle = np.where(np.isfinite(low), low + nearby, np.where(np.isfinite(high), high - nearby, fullest))
            inside = np.isfinite(low) & np.isfinite(high)
            middle[inside] = 0.5 * (low[inside] + high[inside])
            leader = self._by_class(lines.scores(middle)).argmax(axis=0)
            a, b = (low - centre) * scale, (high - centre) * scale
            between = np.where(a > 0.0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
            total += float(np.sum(lines.weight * lines.mass * between * (self.model.owner[:, None] != leader)))
        return total
