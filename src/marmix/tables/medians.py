"""Exact medians of values that come in pieces, without keeping them."""

import math

import numpy as np
from numpy.typing import NDArray

_SAMPLE = 4096  # the median of this many is within 5 standard errors, 4 % of the ranks, of that of all
_RANKS = 0.04


class Median:
    """The median of values that come in pieces, the same pieces once or twice.

    The first time a random sample is kept, which brackets the median; the second time values below the bracket are counted, and
    those inside are kept: about a twelfth. A few values are kept at once, and no second time is needed.

    Attributes
    ----------
    value : float or None
        The median, once it is known. The mean of the two middle values, of an even number.
    """

    def __init__(self) -> None:
        self.value: float | None = None
        self._random = np.random.default_rng(0)
        self._share = 1.0  # of the values in the sample
        self._sample = np.empty((2, 0))  # of each a random number, and the value
        self._low, self._high = math.nan, math.nan
        self._begin()

    def _begin(self) -> None:
        self._count = self._below = self._at_low = self._at_high = 0
        self._inside: list[NDArray[np.float64]] = []

    def add(self, values: NDArray[np.float64]) -> None:
        """Take a piece, without NaN."""
        self._count += len(values)
        if not math.isnan(self._low):
            self._below += int((values < self._low).sum())
            self._at_low += int((values == self._low).sum())
            self._at_high += int((values == self._high).sum()) if self._high > self._low else 0
            self._inside.append(values[(values > self._low) & (values < self._high)])
            return
        drawn = np.vstack([self._random.random(len(values)), values])
        self._sample = np.hstack([self._sample, drawn[:, drawn[0] < self._share]])
        while self._sample.shape[1] > 2 * _SAMPLE:
            self._share /= 2
            self._sample = self._sample[:, self._sample[0] < self._share]

    def finish(self) -> None:
        """All pieces were added: find the median, or a bracket for it if `value` is None still."""
        if not self._count:
            return
        ranks = ((self._count - 1) // 2, self._count // 2)
        if math.isnan(self._low):
            kept = np.sort(self._sample[1])
            if self._share < 1.0:
                self._low, self._high = (float(kept[round(len(kept) * (0.5 + way * _RANKS))]) for way in (-1, 1))
                self._begin()
                return
            found = [float(kept[rank]) for rank in ranks]
        else:
            inside = np.sort(np.concatenate(self._inside))
            ends = np.cumsum([self._below, self._at_low, len(inside), self._at_high])
            if ranks[0] < ends[0] or ranks[1] >= ends[3]:  # one in a million times
                self._low, self._high = -math.inf, math.inf
                self._begin()
                return
            found = [
                self._low if rank < ends[1] else self._high if rank >= ends[2] else float(inside[rank - ends[1]])
                for rank in ranks
            ]
        self.value = found[0] / 2 + found[1] / 2
