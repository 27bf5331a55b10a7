"""The objective of a fit: ``L_ig + t L_miss`` less the model's penalty, summed over the rows of an engine."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import Array, like, total
from marmix.core.covariance import Moments
from marmix.core.likelihood import Block, ScoreModel, Sums, block_sums
from marmix.core.measures import entropy, posterior
from marmix.core.mechanism import Mechanism
from marmix.engines import Engine


class Sample(NamedTuple):
    """Drivers of the mechanism for a sample of rows, labelled rows first."""

    drivers: Array
    labelled: int
    weight: Array | None


@dataclass(frozen=True)
class Objective:
    """The objective of a fit as a function of the parameters.

    Parameters
    ----------
    engine : Engine
        The rows.
    model : ScoreModel
    tempering : float
        The weight t of L_miss.
    passes : list of one int
        Number of passes over the rows so far.
    """

    engine: Engine
    model: ScoreModel
    tempering: float = 1.0
    passes: list[int] = field(default_factory=lambda: [0])

    @cached_property
    def _shared_model(self) -> Any:
        """The score model as an argument for functions of blocks."""
        return self.engine.shared(self.model)

    @cached_property
    def second(self) -> Array | None:
        """Moments of the quadratic term that the classes share, if they share one."""
        if self.model.second_moment(np.empty((self.engine.frame.size, 0)), None) is None:
            return None
        moments: Array = self.total(_second_moment)
        return moments

    @property
    def offset(self) -> float:
        """Log-likelihood in the user's axes less that in the axes of the fit."""
        return self.engine.total_weight * self.engine.frame.log_det if self.model.joint else 0.0

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Results of ``function(block, model, *args)`` for all blocks, in order."""
        return self.engine.map(function, self._shared_model, *args, width=self.model.values_per_row())

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, model, *args)`` over all blocks."""
        return self.engine.total(function, self._shared_model, *args, width=self.model.values_per_row())

    def sums(self, theta: Any, mechanism: Mechanism | None, ignorable: bool = True) -> Sums:
        """Sums over all rows at these parameters."""
        self.passes[0] += 1
        prepared = like(self.model.prepare(theta), self.engine.place)
        asked = len(self.engine.counts) > self.model.n_classes + 1  # groups that the fused kernel does not know
        kernel = None if asked else _fused_kernel(self.model, mechanism, self.engine.place)
        function, width = (block_sums, self.model.values_per_row()) if kernel is None else (kernel, 1)
        args = self._shared_model, prepared, mechanism, ignorable, self.tempering
        sums: Sums = self.engine.total(function, *args, width=width)
        moments = self.model.gathered(sums.moments.by_component)
        value = float(sums.ignorable)
        if self.second is not None:
            second = self.second if ignorable else np.zeros_like(self.second)
            value += self.model.shared_term(theta, second)
            moments = Moments(moments.by_component, second)
        return Sums(value, float(sums.missing), moments, sums.alpha, float(sums.shape), float(sums.share))

    def value(self, theta: Any, sums: Sums) -> float:
        """The objective from the sums at `theta`."""
        return sums.ignorable + self.tempering * sums.missing - self.model.penalty(theta)

    def entropy(self, theta: Any, mechanism: Mechanism | None = None) -> float:
        """Entropy of the missing labels."""
        return float(self.total(_entropy, theta, mechanism))

    def thinned(self, rows: int) -> "Objective":
        """The objective on a sample of about that many rows, weighted to represent all of them."""
        return Objective(self.engine.thinned(rows), self.model, self.tempering)

    def untempered(self) -> "Objective":
        """The same objective with t = 1."""
        return replace(self, tempering=1.0)

    def driver_sample(self, theta: Any, mechanism: Mechanism, most: int) -> Sample:
        """Drivers of the mechanism for at most about `most` rows, evenly spread over the sorted rows."""
        thinned = self if self.engine.n_rows <= most else self.thinned(most)
        parts = thinned.map(_drivers, theta, mechanism)
        slices = [(part, slice(0, part.labelled)) for part in parts]
        slices += [(part, slice(part.labelled, None)) for part in parts]
        drivers = np.concatenate([part.drivers[:, rows] for part, rows in slices], axis=1)
        weight = None
        if parts[0].weight is not None:
            weight = np.concatenate([part.weight[rows] for part, rows in slices])
        return Sample(drivers, sum(part.labelled for part in parts), weight)


def _second_moment(block: Block, model: ScoreModel) -> Any:
    return model.second_moment(block.x, block.weight)


def _entropy(block: Block, model: ScoreModel, theta: Any, mechanism: Mechanism | None) -> Any:
    labelled = block.cuts[-1]
    p = posterior(model.scores(theta, block.x[:, labelled:]))
    if mechanism is not None:
        p = mechanism.unlabelled(p, None if block.covariates is None else block.covariates[:, labelled:])
    h = entropy(p).value
    return total(h if block.weight is None else h * block.weight[labelled:])


def _drivers(block: Block, model: ScoreModel, theta: Any, mechanism: Mechanism) -> Sample:
    drivers = mechanism.drivers(posterior(model.scores(theta, block.x)), block.covariates, block.cuts)
    return Sample(drivers, block.cuts[model.n_classes], block.weight)


@cache
def _fused() -> Any:
    try:
        from marmix.engines import fused
    except ImportError:  # no Triton
        return None
    return fused


def _fused_kernel(model: ScoreModel, mechanism: Mechanism | None, place: Any) -> Any:
    """The fused kernel for `block_sums`, if there is one for these rows; it cuts the rows into blocks itself."""
    fused = _fused() if getattr(place, "is_cuda", False) else None
    return fused.fused_sums if fused is not None and fused.supports(model, mechanism, place) else None
