"""Means over replicates with their intervals, paired differences, and verdicts in words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

HOLDS, PARTLY, MIXED, MOSTLY_NOT = "holds", "in part", "mixed", "mostly not"
FAILS, UNDECIDED = "does not hold", "undecided"


class Mean(NamedTuple):
    """A mean over replicates with its 95 % interval by Student's t, which is NaN for fewer than two replicates."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2.0

    def __neg__(self) -> "Mean":
        return Mean(-self.mean, -self.high, -self.low, self.n)

    @property
    def p(self) -> float:
        """p-value of the t test that the mean is zero; 1 if there is no interval."""
        if not np.isfinite(self.half):
            return 1.0
        if self.half == 0.0:
            return float(self.mean == 0.0)
        statistic = abs(self.mean) / self.half * student.ppf(0.975, self.n - 1)
        return float(2.0 * student.sf(statistic, self.n - 1))

    def text(self, decimals: int = 3, signed: bool = False) -> str:
        """Mean ± half the interval."""
        if not np.isfinite(self.mean):
            return ""
        mean = f"{self.mean:+z.{decimals}f}" if signed else f"{self.mean:z.{decimals}f}"
        return mean if not np.isfinite(self.half) else f"{mean} ± {self.half:.{decimals}f}"

    def sentence(self, decimals: int = 3) -> str:
        """Signed mean ± half the interval."""
        return self.text(decimals, signed=True)


def mean_of(values: ArrayLike, overlap: float = 0.0) -> Mean:
    """Mean and interval of one value a replicate, leaving out values that are not finite.

    For random splits of the same rows, `overlap` is the number of test rows divided by that of training rows: the variance
    of the mean is then ``s^2 (1 / n + overlap)`` (Nadeau and Bengio) instead of ``s^2 / n``.
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 1:
        raise ValueError(f"one value a replicate is needed, not an array of shape {x.shape}.")
    x = x[np.isfinite(x)]
    if not len(x):
        return Mean(np.nan, np.nan, np.nan, 0)
    mean = float(x.mean())
    if len(x) < 2:
        return Mean(mean, np.nan, np.nan, 1)
    half = float(student.ppf(0.975, len(x) - 1) * x.std(ddof=1) * np.sqrt(1.0 / len(x) + overlap))
    return Mean(mean, mean - half, mean + half, len(x))


def difference(values: ArrayLike, others: ArrayLike) -> Mean:
    """Mean of the paired differences."""
    return mean_of(np.asarray(values, dtype=float) - np.asarray(others, dtype=float))


def clear(differences: Sequence[Mean]) -> list[int]:
    """Signs of the differences that are significant at 5 % by Holm's method; 0 for the others."""
    signs = [0] * len(differences)
    order = sorted(range(len(differences)), key=lambda i: differences[i].p)
    for rank, i in enumerate(order):
        if differences[i].p > 0.05 / (len(differences) - rank):
            break
        signs[i] = int(np.sign(differences[i].mean))
    return signs


def verdict(differences: Sequence[Mean], wanted: int) -> str:
    """Verdict on a claim that all differences have the sign `wanted`, 1 or -1."""
    signs = clear(differences)
    right, wrong = signs.count(wanted), signs.count(-wanted)
    if right == len(signs):
        return HOLDS
    if right:
        return PARTLY if not wrong else MIXED if right >= wrong else MOSTLY_NOT
    return FAILS if wrong else UNDECIDED


def tally(differences: Sequence[Mean], wanted: int) -> str:
    """Number of clear differences in either direction, in words."""
    signs = clear(differences)
    right, wrong = signs.count(wanted), signs.count(-wanted)
    return f"clearly better in {right}, clearly worse in {wrong} of {len(signs)}"


def spread(differences: Sequence[Mean], decimals: int = 3) -> str:
    """Smallest and largest mean, in words."""
    means = [d.mean for d in differences]
    return f"{min(means):+.{decimals}f} to {max(means):+.{decimals}f}"


def within(values: Sequence[Mean], margin: float) -> str:
    """Verdict on a claim that all values are at most `margin`: their intervals must end below it."""
    inside = [value.high < margin for value in values]
    outside = [value.low > margin for value in values]
    if all(inside):
        return HOLDS
    if any(outside):
        return MIXED if any(inside) else FAILS
    return PARTLY if any(inside) else UNDECIDED


def percent(share: float, decimals: int = 0) -> str:
    """A share in percent, as text."""
    return f"{100.0 * share:.{decimals}f} %"
