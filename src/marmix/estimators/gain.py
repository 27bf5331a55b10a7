"""What modelling the missingness has brought: the difference of two losses on the same rows."""

from typing import NamedTuple

import numpy as np

from marmix.arrays import Array


class Gain(NamedTuple):
    """The estimated log-loss with and without modelling the missingness."""

    with_it: float
    without: float
    gain: float
    stderr: float

    @classmethod
    def of(cls, losses: Array, without: Array, weight: Array) -> "Gain":
        """From the losses of the same rows, multiplied by their weights, and the weights."""
        total = weight.sum()
        gain = (without - losses).sum() / total
        error = np.sqrt(np.sum((without - losses - gain * weight) ** 2)) / total
        return cls(float(losses.sum() / total), float(without.sum() / total), float(gain), float(error))

    @property
    def clear(self) -> bool:
        """Whether the gain is more than two standard errors."""
        return self.gain > 2.0 * self.stderr

    def sentence(self) -> str:
        """Did it help? In words."""
        difference = f"(difference {self.gain:.4f}, standard error {self.stderr:.4f})"
        if self.clear:
            return (
                f"Modelling the missingness lowered the estimated log-loss from {self.without:.3f} to {self.with_it:.3f} "
                f"{difference}."
            )
        if -self.gain > 2.0 * self.stderr:
            return (
                f"Modelling the missingness raised the estimated log-loss from {self.without:.3f} to {self.with_it:.3f} "
                f"{difference}: it is better ignored here."
            )
        return (
            f"No evidence that modelling the missingness helps here: estimated log-loss {self.with_it:.3f} with it, "
            f"{self.without:.3f} without {difference}."
        )
