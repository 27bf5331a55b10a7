"""Means over replicates with their intervals, paired differences, and the words for them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

HOLDS, FAILS, MIXED, PARTLY, UNDECIDED = "holds", "does not hold", "mixed", "in part", "undecided"
MOSTLY_NOT = "mostly not"


class Mean(NamedTuple):
    """A mean over replicates and its 95 % interval by Student's t; NaN where there are fewer than two."""

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
        """p-value of the hypothesis that the mean is zero; 1 where there is no interval."""
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
        """The same with its sign."""
        return self.text(decimals, signed=True)


def mean_of(values: ArrayLike, overlap: float = 0.0) -> Mean:
    """Mean and interval of the values of replicates, those that are not finite left out.

    `overlap` is for replicates that are random splits of the same rows: the number of test rows over that of training
    rows. The variance of the mean is then ``s^2 (1 / n + overlap)`` (Nadeau and Bengio) instead of ``s^2 / n``.
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
    """Mean of the differences on the same replicates."""
    return mean_of(np.asarray(values, dtype=float) - np.asarray(others, dtype=float))


def clear(differences: Sequence[Mean]) -> list[int]:
    """The signs of differences that are clear together, by Holm's method at 5 %; 0 for the others."""
    signs = [0] * len(differences)
    order = sorted(range(len(differences)), key=lambda i: differences[i].p)
    for rank, i in enumerate(order):
        if differences[i].p > 0.05 / (len(differences) - rank):
            break
        signs[i] = int(np.sign(differences[i].mean))
    return signs


def verdict(differences: Sequence[Mean], wanted: int) -> str:
    """Of a claim that all differences have the sign `wanted`, 1 or -1."""
    signs = clear(differences)
    right, wrong = signs.count(wanted), signs.count(-wanted)
    if right == len(signs):
        return HOLDS
    if right:
        return PARTLY if not wrong else MIXED if right >= wrong else MOSTLY_NOT
    return FAILS if wrong else UNDECIDED


def tally(differences: Sequence[Mean], wanted: int) -> str:
    """How many differences are clear on either side."""
    signs = clear(differences)
    right, wrong = signs.count(wanted), signs.count(-wanted)
    return f"clearly better in {right}, clearly worse in {wrong} of {len(signs)}"


def within(values: Sequence[Mean], margin: float) -> str:
    """Of a claim that all these are at most `margin`: their intervals must end below it."""
    inside = [value.high < margin for value in values]
    outside = [value.low > margin for value in values]
    if all(inside):
        return HOLDS
    if any(outside):
        return MIXED if any(inside) else FAILS
    return PARTLY if any(inside) else UNDECIDED


def percent(share: float, decimals: int = 0) -> str:
    """A share as it is printed."""
    return f"{100.0 * share:.{decimals}f} %"
