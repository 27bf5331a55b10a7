"""Means over replicates with their intervals, paired differences, and the words for them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

HOLDS, FAILS, PARTLY, UNDECIDED = "holds", "does not hold", "in part", "undecided"


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

    @property
    def sign(self) -> int:
        """1 or -1 where the interval leaves zero out, otherwise 0."""
        return int(self.low > 0.0) - int(self.high < 0.0)

    def text(self, decimals: int = 3, signed: bool = False) -> str:
        """For a table: mean +/- half the interval."""
        if not np.isfinite(self.mean):
            return ""
        mean = f"{self.mean:+.{decimals}f}" if signed else f"{self.mean:.{decimals}f}"
        return mean if not np.isfinite(self.half) else f"{mean} ± {self.half:.{decimals}f}"

    def sentence(self, decimals: int = 3) -> str:
        """For a text, with its sign."""
        return self.text(decimals, signed=True)


def mean_of(values: ArrayLike) -> Mean:
    """Mean and interval of the values of replicates, those that are not finite left out."""
    x = np.asarray(values, dtype=float)
    if x.ndim != 1:
        raise ValueError(f"one value a replicate is needed, not an array of shape {x.shape}.")
    x = x[np.isfinite(x)]
    if not len(x):
        return Mean(np.nan, np.nan, np.nan, 0)
    mean = float(x.mean())
    if len(x) < 2:
        return Mean(mean, np.nan, np.nan, 1)
    half = float(student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))
    return Mean(mean, mean - half, mean + half, len(x))


def difference(values: ArrayLike, others: ArrayLike) -> Mean:
    """Mean of the differences on the same replicates."""
    return mean_of(np.asarray(values, dtype=float) - np.asarray(others, dtype=float))


def percent(share: float, decimals: int = 0) -> str:
    """A share as it is printed."""
    return f"{100.0 * share:.{decimals}f} %" if np.isfinite(share) else "(not defined)"


def verdict(signs: Sequence[int]) -> str:
    """Of signs that a claim wants to be positive: holds, does not hold, in part, or undecided."""
    if all(sign > 0 for sign in signs):
        return HOLDS
    if any(sign > 0 for sign in signs):
        return PARTLY
    return FAILS if any(sign < 0 for sign in signs) else UNDECIDED


def compared(d: Mean, smaller_is_better: bool = True) -> str:
    """A difference in a word."""
    if d.sign == 0:
        return "not clearly different"
    return "better" if (d.sign < 0) == smaller_is_better else "worse"
