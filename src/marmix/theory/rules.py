"""Replicated quadrature rules for the standard normal distribution, and numbers with their error.

With one or two features the nodes are a lattice: the trapezoid rule, whose error falls faster than any power of the step
for smooth integrands. The lattice is the union of four coarser ones, its replicates, whose differences from the whole
bound its error. With more features the replicates are randomly shifted Sobol points, and the error is a standard error.

Integrals are kept replicate by replicate, (R, ...), so that the error of any function of them, ratios and solutions of equations
included, follows from evaluating it on some of the replicates.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from marmix.core.arrays import Array

_REACH = 7.5  # standard deviations beyond which a normal distribution has less than 1e-13 of its mass
_FINEST = 1e-10  # relative error due to rounding and this reach
LATTICES, SHIFTS = 4, 16  # replicates of either kind


class Rule(NamedTuple):
    """Nodes (n, k) and weights (n,), which sum to one."""

    nodes: Array
    weights: Array


class Computed(NamedTuple):
    """A number computed by quadrature, with its numerical error.

    The error is a bound with one or two features, otherwise a standard error. ``float(number)`` is the value, and
    printing shows both.

    Attributes
    ----------
    value : float
        The number.
    error : float
        Its numerical error.

    See Also
    --------
    bayes_error, excess_risk : Functions that return such numbers.

    Examples
    --------
    >>> from marmix.theory import GaussianClasses, bayes_error
    >>> number = bayes_error(GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied"))
    >>> print(f"{float(number):.4f}", number.error < 1e-6)
    0.1587 True
    """

    value: float
    error: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.error:.1g}"


def lattice(k: int, step: float) -> list[Rule]:
    """The trapezoid rule in k = 0, 1 or 2 dimensions, as four coarser rules."""
    reach = int(np.ceil(_REACH / step))
    t = step * np.arange(-reach, reach + 1, dtype=np.float64)
    if k == 0:
        nodes = [np.zeros((1, 0))] * LATTICES
    elif k == 1:
        nodes = [t[r::LATTICES, None] for r in range(LATTICES)]
    else:
        nodes = [np.array(np.meshgrid(t[a::2], t[b::2])).reshape(2, -1).T for a in (0, 1) for b in (0, 1)]
        nodes = [x[(x**2).sum(axis=1) <= _REACH**2] for x in nodes]
    weights = [np.exp(-0.5 * (x**2).sum(axis=1)) for x in nodes]
    return [Rule(x, w / w.sum()) for x, w in zip(nodes, weights, strict=True)]


def shifted_points(k: int, n: int, rng: np.random.Generator) -> list[Rule]:
    """Sobol points shifted at random (modulo one) and folded, a new shift for every replicate; n is a power of two."""
    points = qmc.Sobol(k, scramble=False).random(n)
    folded = (1.0 - np.abs(2.0 * ((points + rng.random(k)) % 1.0) - 1.0) for _ in range(SHIFTS))
    return [Rule(ndtri(np.clip(u, 1e-16, 1.0 - 1e-16)), np.full(n, 1.0 / n)) for u in folded]


def mean_over(share: Array, replicates: Array) -> Array:
    """The mean of replicates (R, ...) weighted by shares (R,)."""
    return np.tensordot(share, replicates, 1)


def computed(function: Callable[[Array], float], random: bool) -> Computed:
    """The value of a function of the shares (R,) with which the replicates enter the integrals, with its error.

    If the replicates are random, the error is the jackknife's, and the value is corrected for its bias; otherwise the error
    is the largest difference between the full rule and a single replicate.
    """
    size = SHIFTS if random else LATTICES
    full = function(np.full(size, 1.0 / size))
    if not np.isfinite(full):
        return Computed(full, np.nan)
    shares = (1.0 - np.eye(size)) / (size - 1.0) if random else np.eye(size)
    parts = np.array([function(share) for share in shares])
    if not np.isfinite(parts).all():
        return Computed(full, np.inf)
    if random:
        value, error = size * full - (size - 1.0) * parts.mean(), np.sqrt((size - 1.0) * parts.var())
    else:
        value, error = full, np.abs(parts - full).max()
    return Computed(float(value), max(float(error), _FINEST * abs(float(value))))
