"""Engines hold the rows, map the block function over them and add. The optimiser never sees a row."""

from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.covariance import Moments
from marmix.likelihood import Block, ScoreModel, Sums, block_sums
from marmix.missingness import Mechanism, drivers_of
from marmix.uncertainty import posterior

Array = NDArray[np.float64]

# Half of a typical L2 cache for phi, the other half for what is computed from it; enough rows to pay for a NumPy call.
_PHI_BYTES, _FEWEST_ROWS, _MOST_ROWS = 2**20, 1024, 8192


def block_rows(p: int) -> int:
    """Rows of a block whose features number p."""
    return int(min(max(_PHI_BYTES // (8 * p), _FEWEST_ROWS), _MOST_ROWS))


class Frame:
    """The axes of the fit: centred and, as far as the covariance structure allows, whitened.

    Quadratic features are formed in these axes only, so neither the units of the features nor their correlations cost
    digits.
    """

    def __init__(self, centre: Array, whitener: Array):
        self.centre, self.whitener = centre, whitener
        self.unwhitener: Array = np.asarray(np.linalg.inv(whitener), dtype=float)
        self.log_det = float(np.linalg.slogdet(whitener)[1])

    def enter(self, X: NDArray[np.floating]) -> Array:
        """Rows (n, d) of the user as columns (d, n) of the fit."""
        return np.asarray(self.whitener @ (X - self.centre).T)


class Sample(NamedTuple):
    """Some rows as the mechanism sees them, the labelled ones first."""

    drivers: Array
    labelled: int
    weight: Array | None


class NumpyEngine:
    """Rows of a NumPy array, as one sorted, feature-major copy in the axes of the fit.

    Parameters
    ----------
    X : array of shape (n, d)
    z : integer array of shape (n,)
        Class of each row, -1 where missing.
    weight : array of shape (n,) or None
    frame : Frame
    model : ScoreModel
    covariates : Frame and list of columns, or None
        Columns of X that drive the mechanism beside the uncertainty, and the axes in which they do.
    tempering : float
        Weight of L_miss in the objective.
    """

    def __init__(
        self,
        X: NDArray[np.floating],
        z: NDArray[np.integer],
        weight: Array | None,
        frame: "Frame",
        model: ScoreModel,
        covariates: tuple["Frame", list[int]] | None = None,
        tempering: float = 1.0,
    ):
        n = len(z)
        self.model, self.frame, self.tempering = model, frame, tempering
        self.cuts = np.concatenate([[0], np.cumsum(np.bincount(z[z >= 0], minlength=model.n_classes))])
        self.total_weight = float(n if weight is None else weight.sum())
        self._block = block_rows(model.n_features())
        self.x = np.empty((X.shape[1], n))
        self.weight = None if weight is None else np.empty(n)
        self.covariates = None if covariates is None else np.empty((len(covariates[1]), n))
        self._fill(X, z, weight, covariates)
        self._phi = np.ones((model.n_features(), min(self._block, n)))
        self.second = model.second_moment(self.x, self.weight)

    def _fill(
        self,
        X: NDArray[np.floating],
        z: NDArray[np.integer],
        weight: Array | None,
        covariates: tuple["Frame", list[int]] | None,
    ) -> None:
        """Sort the rows by class, the unlabelled last, without an index of all of them."""
        place = self.cuts.copy()
        for start in range(0, len(z), _MOST_ROWS):
            rows = slice(start, start + _MOST_ROWS)
            key = z[rows]
            order = np.argsort(key, kind="stable")
            unlabelled = int(np.sum(key < 0))
            order = np.concatenate([order[unlabelled:], order[:unlabelled]])
            sorted_rows = X[rows][order]
            x = self.frame.enter(sorted_rows)
            v = None if covariates is None else covariates[0].enter(sorted_rows[:, covariates[1]])
            w = None if weight is None else weight[rows][order]
            a = 0
            for k, count in enumerate([*np.bincount(key[key >= 0], minlength=len(place) - 1), unlabelled]):
                to = slice(place[k], place[k] + count)
                self.x[:, to] = x[:, a : a + count]
                if v is not None:
                    self.covariates[:, to] = v[:, a : a + count]  # type: ignore[index]
                if w is not None:
                    self.weight[to] = w[a : a + count]  # type: ignore[index]
                place[k] += count
                a += count

    @property
    def labelled(self) -> int:
        """Number of rows with a label; they come first."""
        return int(self.cuts[-1])

    def thinned(self, rows: int) -> "NumpyEngine":
        """About that many rows, evenly spread over every class and the unlabelled, weighted to stand for all of them.

        A class keeps up to 50 of its labelled rows however few they are.
        """
        n = self.x.shape[1]
        ends = [*self.cuts.tolist(), n]
        kept, weights = [], []
        for a, b in pairwise(ends):
            take = max(-(-(b - a) * rows // n), min(b - a, 50))
            own = a + np.arange(take) * (b - a) // max(take, 1)
            w = np.ones(take) if self.weight is None else self.weight[own]
            whole = b - a if self.weight is None else self.weight[a:b].sum()
            kept.append(own)
            weights.append(w * whole / w.sum() if take else w)
        few = copy(self)
        few.x = self.x[:, np.concatenate(kept)]
        few.weight = np.concatenate(weights)
        few.cuts = np.concatenate([[0], np.cumsum([len(own) for own in kept[:-1]])])
        few._phi = np.ones((len(self._phi), min(self._block, few.x.shape[1])))
        few.covariates = None if self.covariates is None else self.covariates[:, np.concatenate(kept)]
        few.second = self.model.second_moment(few.x, few.weight)
        return few

    def _blocks(self) -> list[slice]:
        n, size = self.x.shape[1], self._block
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def block(self, rows: slice) -> Block:
        """The features of a run of rows; the arrays are valid until the next call."""
        phi = self._phi[:, : rows.stop - rows.start]
        phi[1 : 1 + len(self.x)] = self.x[:, rows]
        self.model.fill(phi)
        cuts = np.clip(self.cuts - rows.start, 0, rows.stop - rows.start).tolist()
        weight = None if self.weight is None else self.weight[rows]
        return Block(phi, cuts, weight, None if self.covariates is None else self.covariates[:, rows])

    def sums(self, theta: Any, mechanism: Mechanism | None, ignorable: bool = True) -> Sums:
        """The likelihood's terms at these parameters, summed over all rows."""
        prepared = self.model.prepare(theta)
        with np.errstate(all="ignore"):
            parts = [
                block_sums(self.block(rows), self.model, prepared, mechanism, ignorable, self.tempering)
                for rows in self._blocks()
            ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        if self.second is None:
            return total
        second = self.second if ignorable else np.zeros_like(self.second)
        shared = self.model.shared_term(theta, second)
        return total._replace(ignorable=total.ignorable + shared, moments=Moments(total.moments.by_component, second))

    def objective(self, theta: Any, sums: Sums) -> float:
        """What a fit maximises: ``L_ig + t L_miss`` less the model's penalty."""
        return sums.ignorable + self.tempering * sums.missing - self.model.penalty(theta)

    def sample(self, theta: Any, mechanism: Mechanism, most: int) -> Sample:
        """Drivers of at most about `most` rows, evenly spread over the sorted ones."""
        few = self if self.x.shape[1] <= most else self.thinned(most)
        with np.errstate(all="ignore"):
            u = mechanism.measured(posterior(self.model.scores(theta, few.x))).value
        return Sample(drivers_of(u, few.covariates), few.labelled, few.weight)
