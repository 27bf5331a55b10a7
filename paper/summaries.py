"""Means over samples with their intervals, and the one rule that says whether a claim holds."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from marmix.core.arrays import Array

HOLDS, PARTLY, MIXED, UNDECIDED, MOSTLY_NOT = "holds", "in part", "mixed", "undecided", "mostly not"
FAILS, NOT_REPRODUCED = "does not hold", "not reproduced"  # the latter where the paper's own data are not published


class Mean(NamedTuple):
    """A mean over samples with its 95 % interval by Student's t, which is NaN for fewer than two samples."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2.0

    @property
    def p(self) -> float:
        """p-value of the t test that the mean is zero; 1 if there is no interval."""
        if not np.isfinite(self.half):
            return 1.0
        if self.half == 0.0:
            return float(self.mean == 0.0)
        statistic = abs(self.mean) / self.half * student.ppf(0.975, self.n - 1)
        return float(2.0 * student.sf(statistic, self.n - 1))

    def __neg__(self) -> "Mean":
        return Mean(-self.mean, -self.high, -self.low, self.n)

    def __format__(self, spec: str) -> str:
        """Mean ± half the interval, as in f"{mean:+.3f}"; empty without a mean."""
        if not np.isfinite(self.mean):
            return ""
        digits = spec.lstrip("+") or ".3f"
        mean = format(self.mean, f"{'+' * spec.startswith('+')}z{digits}")
        return mean if np.isnan(self.half) else f"{mean} ± {self.half:{digits}}"


def mean_of(values: ArrayLike, overlap: float = 0.0) -> Mean:
    """Mean and interval of one value a sample, leaving out NaN.

    For random splits of the same rows, `overlap` is the number of test rows divided by that of training rows: the variance
    of the mean is then ``s^2 (1 / n + overlap)`` (Nadeau and Bengio) instead of ``s^2 / n``.
    """
    x = np.asarray(values, dtype=float)
    x = x[~np.isnan(x)]
    n = len(x)
    mean, half = float(x.mean()) if n else np.nan, np.nan
    if n > 1:
        half = float(student.ppf(0.975, n - 1) * x.std(ddof=1) * np.sqrt(1.0 / n + overlap))
    return Mean(mean, mean - half, mean + half, n)


def clear(differences: Sequence[Mean], wanted: int = 1) -> list[int]:
    """1 for differences that have the sign `wanted`, -1 for the opposite, 0 where Holm's method at 5 % finds neither."""
    signs = [0] * len(differences)
    for rank, i in enumerate(sorted(range(len(differences)), key=lambda i: differences[i].p)):
        if differences[i].p > 0.05 / (len(differences) - rank):
            break
        signs[i] = wanted * int(np.sign(differences[i].mean))
    return signs


def below(values: Sequence[Mean], margin: float) -> list[int]:
    """1 for values whose interval lies below the margin, -1 if it lies above, 0 if it contains the margin."""
    return [int(value.high < margin) - int(value.low > margin) for value in values]


def verdict(signs: Sequence[int]) -> str:
    """Whether a claim holds, from its parts: 1 for each that is clearly so, -1 if clearly not so, 0 if open."""
    right, wrong = signs.count(1), signs.count(-1)
    if right == len(signs):
        return HOLDS
    if right:
        return PARTLY if not wrong else MIXED if right >= wrong else MOSTLY_NOT
    return FAILS if wrong else UNDECIDED


def tally(signs: Sequence[int]) -> str:
    """Number of clear differences in either direction, in words."""
    return f"clearly better in {signs.count(1)}, clearly worse in {signs.count(-1)} of {len(signs)}"


def spread(differences: Sequence[Mean], spec: str = "+.3f") -> str:
    """Smallest and largest mean, in words."""
    means = [d.mean for d in differences]
    return f"{min(means):{spec}} to {max(means):{spec}}"


def percent(share: float, decimals: int = 0) -> str:
    """A share in percent, as text."""
    return f"{100.0 * share:.{decimals}f} %"


Setting = tuple[Any, ...]
Sample = Mapping[str, Mapping[Any, Any]]  # values by method and metric


class Samples:
    """Scores of methods in the samples of every setting."""

    def __init__(self, samples: Mapping[Setting, Sequence[Sample]], overlap: float = 0.0):
        self.samples, self.overlap = samples, overlap

    def of(self, setting: Setting, method: str, metric: Any) -> Array:
        """A score of every sample; NaN where the method was not fitted."""
        samples = self.samples[setting]
        return np.array([s[method][metric] if method in s else np.nan for s in samples], dtype=float)

    def over(self, values: ArrayLike) -> Mean:
        """Mean of one value a sample."""
        return mean_of(values, self.overlap)

    def mean(self, setting: Setting, method: str, metric: Any) -> Mean:
        """Mean of a score."""
        return self.over(self.of(setting, method, metric))

    def versus(self, setting: Setting, method: str, other: str, metric: Any) -> Mean:
        """Mean paired difference of two methods."""
        return self.over(self.of(setting, method, metric) - self.of(setting, other, metric))

    def curves(self, points: Mapping[float, tuple[Setting, Any]], methods: Sequence[str]) -> dict[str, Any]:
        """Lines for a figure: a score at every x, which stands for a setting and a metric."""
        return {m: (list(points), [self.mean(s, m, metric) for s, metric in points.values()]) for m in methods}

    def records(
        self,
        settings: Mapping[Setting, Mapping[str, Any]],
        methods: Sequence[str],
        metrics: Sequence[str],
        name: str = "method",
    ) -> list[dict[str, Any]]:
        """Means for a CSV file, with labels of the settings."""
        return [
            {**labels, name: method, "metric": metric, **self.mean(setting, method, metric)._asdict()}
            for setting, labels in settings.items()
            for method in methods
            for metric in metrics
        ]

    def troubles(self, settings: Sequence[Setting], methods: Sequence[str]) -> list[str]:
        """Notes on how often methods could not be fitted or did not converge."""
        notes = []
        for method in methods:
            ended = np.concatenate([self.of(setting, method, "converged") for setting in settings])
            for count, words in (
                (np.isnan(ended).sum(), "could not be fitted"),
                ((ended == 0).sum(), "did not converge"),
            ):
                if count:
                    notes.append(f"{method} {words} in {count} of {len(ended)} fits.")
        return notes
