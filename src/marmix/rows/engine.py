"""What every engine answers: it holds the rows, maps the block function over them and adds. The optimiser never sees a row."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, like, on_host
from marmix.likelihood import ScoreModel, Sums
from marmix.mechanism import Mechanism, drivers_of
from marmix.mechanism.measures import posterior
from marmix.scores.covariance import Moments

# Enough rows that a call of NumPy takes longer than threads need to take turns, in arrays that a shared cache still holds
# (benchmarks/cores.py).
_BLOCK_BYTES, _FEWEST_ROWS, _MOST_ROWS = 2**24, 1024, 32768


def block_rows(values: int) -> int:
    """Rows of a block of which so many values each are held together."""
    return int(min(max(_BLOCK_BYTES // (8 * values), _FEWEST_ROWS), _MOST_ROWS))


class Frame:
    """The axes of the fit: centred and, as far as the covariance structure allows, whitened.

    Quadratic features are formed in these axes only, so neither the units of the features nor their correlations cost
    digits.
    """

    def __init__(self, centre: Array, whitener: Array):
        self.centre, self.whitener = centre, whitener
        scale = np.diag(whitener)
        if (
            np.count_nonzero(whitener) == np.count_nonzero(scale) == len(scale)
        ):  # a regular diagonal matrix, which may be large
            self.unwhitener: Array = np.diag(1.0 / scale)
            self.log_det = float(np.log(np.abs(scale)).sum())
        else:
            self.unwhitener = np.asarray(np.linalg.inv(whitener), dtype=float)
            self.log_det = float(np.linalg.slogdet(whitener)[1])

    def enter(self, X: NDArray[np.floating]) -> Array:
        """Rows (n, d) of the user as columns (d, n) of the fit."""
        if on_host(X):
            return np.asarray(self.whitener @ (X - self.centre).T)
        return like(self.whitener, X) @ (X - like(self.centre, X)).T


Covariates = tuple[Frame, list[int]]  # columns of X that drive the mechanism, and the axes in which they do


class Piece(NamedTuple):
    """A run of rows in the axes of the fit: class k holds the columns ``cuts[k]:cuts[k + 1]``, the unlabelled follow."""

    x: Array
    cuts: list[int]
    weight: Array | None
    covariates: Array | None


class Sample(NamedTuple):
    """Some rows as the mechanism sees them, the labelled ones first."""

    drivers: Array
    labelled: int
    weight: Array | None


class Setting(NamedTuple):
    """What an engine knows besides the rows.

    Parameters
    ----------
    frame : Frame
    model : ScoreModel
    covariates : Frame and list of columns, or None
    tempering : float
        Weight of L_miss in the objective.
    """

    frame: Frame
    model: ScoreModel
    covariates: Covariates | None = None
    tempering: float = 1.0


class Engine(ABC):
    """The rows of a fit, in its axes.

    Attributes
    ----------
    counts : array of shape (K + 1,)
        Rows of each class, then rows without label.
    group_weight : array of shape (K + 1,)
        Their weights.
    resolution : float
        The smallest rise of the log-likelihood per row that rounding leaves visible, where that is not far below any tolerance.
    """

    counts: NDArray[np.integer]
    group_weight: Array
    second: Array | None
    resolution = 0.0

    def __init__(self, setting: Setting):
        self.setting = setting
        self.frame, self.model, self.tempering = setting.frame, setting.model, setting.tempering
        self.passes = [0]  # over all rows so far; copies of the engine count together

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.counts.sum())

    @property
    def labelled(self) -> int:
        """How many of them have a label."""
        return int(self.counts[:-1].sum())

    @property
    def total_weight(self) -> float:
        """The weight of all rows."""
        return float(self.group_weight.sum())

    @abstractmethod
    def parts(self, theta: Any, mechanism: Mechanism | None, ignorable: bool) -> list[Sums]:
        """Sums over runs of rows, of NumPy arrays, in an order that is always the same."""

    @abstractmethod
    def mapped(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(piece, *args)`` of every run of rows, in their order; array results as NumPy arrays."""

    @abstractmethod
    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        """Features (d, m), weights and covariates of some rows of every group, by their place in it, as NumPy arrays."""

    def pieces(self, size: int) -> Iterator[Piece]:
        """Runs of at most `size` rows as NumPy arrays, for what needs every row on the host."""
        raise TypeError(f"{type(self).__name__} does not bring all rows to one place.")

    @abstractmethod
    def alone(self) -> "Engine":
        """The same rows, the mechanism not tempered."""

    def second_moment(self) -> Array | None:
        """Moments of the quadratic term that the classes share, where they share one."""
        if self.model.second_moment(np.empty((len(self.frame.centre), 0)), None) is None:
            return None
        found: Array = np.sum(self.mapped(_second_moment, self.model), axis=0)
        return found

    def sums(self, theta: Any, mechanism: Mechanism | None, ignorable: bool = True) -> Sums:
        """The likelihood's terms at these parameters, summed over all rows."""
        self.passes[0] += 1
        total: Sums = reduce(add, self.parts(theta, mechanism, ignorable))
        moments = Moments(self.model.gathered(total.moments.by_component))
        value = float(total.ignorable)
        if self.second is not None:
            second = self.second if ignorable else np.zeros_like(self.second)
            value += self.model.shared_term(theta, second)
            moments = Moments(moments.by_component, second)
        return Sums(value, float(total.missing), moments, total.alpha, float(total.shape), float(total.share))

    def objective(self, theta: Any, sums: Sums) -> float:
        """What a fit maximises: ``L_ig + t L_miss`` less the model's penalty."""
        return sums.ignorable + self.tempering * sums.missing - self.model.penalty(theta)

    def thinned(self, rows: int) -> "Engine":
        """About that many rows, evenly spread over every class and the unlabelled, weighted to stand for all of them.

        A class keeps up to 50 of its labelled rows however few they are.
        """
        n, places = self.n_rows, []
        for count in self.counts.tolist():
            take = max(-(-count * rows // n), min(count, 50))
            places.append(np.arange(take) * count // max(take, 1))
        x, weight, covariates = self.select(places)
        weight = np.ones(x.shape[1]) if weight is None else weight
        ends = np.cumsum([len(own) for own in places])
        for k, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if b > a:
                weight[a:b] *= self.group_weight[k] / weight[a:b].sum()
        return self.holding(x, np.array([0, *ends[:-1]]), weight, covariates)

    @abstractmethod
    def holding(self, x: Array, cuts: NDArray[np.integer], weight: Array, covariates: Array | None) -> "Engine":
        """An engine of these few rows, sorted and in the axes of the fit."""

    def sample(self, theta: Any, mechanism: Mechanism, most: int) -> Sample:
        """Drivers of at most about `most` rows, evenly spread over the sorted ones."""
        few = self if self.n_rows <= most else self.thinned(most)
        parts = few.mapped(_uncertainties, self.model, theta, mechanism)
        runs = [(part, slice(0, part.labelled)) for part in parts] + [
            (part, slice(part.labelled, None)) for part in parts
        ]
        drivers = np.concatenate([part.drivers[:, own] for part, own in runs], axis=1)
        if parts[0].weight is None:
            return Sample(drivers, few.labelled, None)
        return Sample(drivers, few.labelled, np.concatenate([part.weight[own] for part, own in runs]))


def _second_moment(piece: Piece, model: ScoreModel) -> Any:
    return model.second_moment(piece.x, piece.weight)


def _uncertainties(piece: Piece, model: ScoreModel, theta: Any, mechanism: Mechanism) -> Sample:
    u = mechanism.measured(posterior(model.scores(theta, piece.x))).value
    return Sample(drivers_of(u, piece.covariates), piece.cuts[-1], piece.weight)
