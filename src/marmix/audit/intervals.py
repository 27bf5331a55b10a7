r"""Intervals for the number of rows with an attribute, from a random sample within strata.

In a stratum of N rows, x of the n drawn ones have the attribute. With :math:`X \sim \mathrm{Hypergeometric}(N, m, n)`,

.. math::

    P(W = m) = P(X \ge x \mid m) - P(X \ge x \mid m - 1), \qquad P(V = m) = P(X \le x \mid m) - P(X \le x \mid m + 1),

W is the x-th smallest of n numbers drawn from 1, ..., N, and N - V is the same for the rows without the attribute:

.. math::

    P(W = m) = \binom{m - 1}{x - 1} \binom{N - m}{n - x} \Big/ \binom{N}{n}.

The *melded* interval of the total goes from the 2.5 % quantile of the sum of W over strata to the 97.5 % quantile of that of V.
In one stratum it is the exact one of Clopper and Pearson. In several its coverage is not proved.

The *sequence* is right at every look (Waudby-Smith and Ramdas, 2020). The ratio of prior to posterior at the true numbers is a
martingale, so with uniform priors, the numbers :math:`m_h` with

.. math::

    \prod_h \frac{1}{(n_h + 1)\, P(X_h = x_h \mid m_h)} < \frac{1}{0.05}

contain them at all times with a probability of at least 95 %, and the interval of the total is that of their sums.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from marmix.core.arrays import Array

Counts = NDArray[np.int_]

LEVEL = 0.95
_GRID = 2**17  # numbers of rows that are told apart; of more rows, multiples of a step, on the safe side
_DIGITS = 1e-9
_NOTHING = 1e-15  # probabilities that are left out


class Estimate(NamedTuple):
    """An estimate and its 95 % interval; the value is NaN if no row tells it."""

    value: float
    low: float
    high: float


class Sample(NamedTuple):
    """Arrays over strata: N rows, of which n are drawn; x of these have the attribute, and of u nobody can tell."""

    N: Counts
    n: Counts
    x: Counts
    u: Counts

    @property
    def others(self) -> "Sample":
        """The sample with respect to not having the attribute."""
        return self._replace(x=self.n - self.u - self.x)

    @property
    def expected(self) -> Array:
        """Estimated numbers of rows with the attribute; the rate over strata where a stratum has none to tell."""
        told = self.n - self.u
        rate = np.full(len(told), self.x.sum() / told.sum() if told.any() else np.nan)
        return np.asarray(self.N * np.divide(self.x, told, out=rate, where=told > 0))


def total(sample: Sample, sequence: bool = False) -> Estimate:
    """The number of rows with an attribute. A row of which nobody can tell has it above, and does not below."""
    least = _least_in_sequence if sequence else _least
    value = float(sample.expected.sum())
    return Estimate(value, float(least(sample)), float(sample.N.sum() - least(sample.others)))


def share(sample: Sample, sequence: bool = False) -> Estimate:
    """The share of rows with an attribute, and [0, 1] if there are no rows."""
    N = int(sample.N.sum())
    return Estimate(*(limit / N for limit in total(sample, sequence))) if N else Estimate(np.nan, 0.0, 1.0)


def ratio(part: Sample, rest: Sample, sequence: bool = False) -> Estimate:
    """The rows with an attribute in one sample, as a share of those in both.

    The limits of the sequence are those of the two totals, each at half the error.
    """
    value = float(np.nansum(part.expected)), float(np.nansum(rest.expected))
    low, high = _least_share(part, rest, sequence), 1.0 - _least_share(rest, part, sequence)
    return Estimate(value[0] / sum(value) if sum(value) else np.nan, low, high)


def _least(sample: Sample, error: float = 0.5 * (1.0 - LEVEL)) -> int:
    """The quantile of the sum of W over strata."""
    step = _step(sample)
    place = int(np.searchsorted(np.cumsum(_sum_of(sample, step)), error * (1.0 - _DIGITS)))
    return step * place


def _least_share(part: Sample, rest: Sample, sequence: bool) -> float:
    """The quantile of W / (W + V) with W of `part` and V of `rest`; zero where both are."""
    if sequence:
        error = 0.5 * (1.0 - LEVEL)
        least, most = _least_in_sequence(part, error), int(rest.N.sum()) - _least_in_sequence(rest.others, error)
        return least / (least + most) if least else 0.0
    error, step = 0.5 * (1.0 - LEVEL), max(_step(part), _step(rest))
    p = _sum_of(part, step)
    if p[0] >= error:
        return 0.0
    w = np.flatnonzero(p > _NOTHING)
    at_most = np.append(np.cumsum(_sum_of(rest.others, step)), 0.0)  # the numbers of others; none for a place of -1
    most = -(-int(rest.N.sum()) // step)

    def below(share: float) -> float:
        """P(W / (W + V) <= share), where V >= W (1 - share) / share."""
        places = most - np.ceil(w * (1.0 - share) / share - _DIGITS)
        return float(p[w] @ at_most[np.clip(places, -1, len(at_most) - 2).astype(int)])

    limits = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * sum(limits)
        limits = (middle, limits[1]) if below(middle) < error else (limits[0], middle)
    return limits[0]


def _step(sample: Sample) -> int:
    return max(1, -(-int(sample.N.sum()) // _GRID))


def _sum_of(sample: Sample, step: int) -> Array:
    """Probabilities of the sum of floor(W / step) over strata."""
    parts = [_position(int(N), int(n), int(x), step) for N, n, x in zip(sample.N, sample.n, sample.x, strict=True)]
    if len(parts) == 1:
        return parts[0]
    length = sum(map(len, parts)) - len(parts) + 1
    size = next_fast_len(length, real=True)
    product = np.prod([rfft(part, size) for part in parts], axis=0)
    return np.maximum(irfft(product, size)[:length], 0.0)


@lru_cache(maxsize=16)
def _log_factorials(N: int) -> Array:
    """Of 0, ..., N - 1."""
    return np.asarray(gammaln(np.arange(1.0, N + 1.0)))


@lru_cache(maxsize=64)
def _position(N: int, n: int, x: int, step: int) -> Array:
    """Probabilities of floor(W / step), with W the x-th smallest of n numbers drawn from 1, ..., N; zero if x is."""
    p = np.zeros(N + 1)
    if x == 0:
        p[0] = 1.0
    else:
        log_factorial = _log_factorials(N)
        length = N - n + 1
        log_p = log_factorial[x - 1 : x - 1 + length] - log_factorial[:length]  # choose x - 1 of m - 1
        log_p += log_factorial[n - x : n - x + length][::-1] - log_factorial[:length][::-1]  # n - x of N - m
        p[x : x + length] = np.exp(log_p - log_p.max())
        p /= p.sum()
    return p if step == 1 else np.add.reduceat(p, np.arange(0, N + 1, step))


def _least_in_sequence(sample: Sample, error: float = 1.0 - LEVEL) -> int:
    """The smallest sum of numbers m in the confidence sequence, by its Lagrangian dual, which is never above it."""
    N, n, x, _ = (column.astype(float) for column in sample)
    bound = np.log(error) - np.log1p(n).sum()  # log-likelihoods of the sequence sum to this or more

    def dual(log_price: float) -> float:
        price, low, high = np.exp(log_price), x, N - n + x
        while (low < high).any():  # the log-likelihood is concave: go up while one row more gains more than it costs
            m = np.floor(0.5 * (low + high))
            gain = np.log((m + 1.0) / (m + 1.0 - x)) + np.log(
                np.maximum(N - m - n + x, 1e-300) / np.maximum(N - m, 1.0)
            )
            up = (price * gain > 1.0) & (low < high)
            low, high = np.where(up, m + 1.0, low), np.where(up, high, m)
        return float(low.sum() + price * (bound - _log_likelihood(low, x, n, N).sum()))

    best = minimize_scalar(lambda price: -dual(price), bounds=(-20.0, np.log(N.sum() + 1.0) + 5.0), method="bounded")
    return max(int(x.sum()), int(np.ceil(-best.fun - 1e-6)))


def _log_likelihood(m: Array, x: Array, n: Array, N: Array) -> Array:
    """Log P(X = x) of the hypergeometric distribution."""

    def log_binomial(a: Array, b: Array) -> Array:
        return np.asarray(gammaln(a + 1.0) - gammaln(b + 1.0) - gammaln(a - b + 1.0))

    return log_binomial(m, x) + log_binomial(N - m, n - x) - log_binomial(N, n)
