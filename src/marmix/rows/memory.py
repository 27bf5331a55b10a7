"""Engines of rows on the host: in memory as a sorted copy, or left where they are."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.likelihood import Block, ScoreModel, Sums, block_sums
from marmix.mechanism import Mechanism
from marmix.rows.engine import Covariates, Engine, Frame, Piece, Setting, block_rows
from marmix.workers import ordered

# Rows that are brought into the axes of the fit together.
_CHUNK = 8192
# Blocks whose results are held together.
_BATCH = 256
# Threads that still gain from each other (benchmarks/cores.py), and the features from which more do.
_MOST_THREADS, _MOST_THREADS_WIDE, _WIDE = 4, 8, 16


class HostEngine(Engine):
    """Rows that are met in blocks, by as many threads as there are workers."""

    def __init__(self, setting: Setting, workers: int):
        super().__init__(setting)
        # beyond so many, threads wait for each other to take turns in Python; matrix products of wide rows let more of them work
        self.workers = min(workers, _MOST_THREADS_WIDE if len(self.frame.centre) >= _WIDE else _MOST_THREADS)
        self._block = block_rows(self.model.values_per_row())
        self._spaces: list[Array] = []

    @property
    @abstractmethod
    def _extent(self) -> int:
        """Rows to be walked over."""

    @abstractmethod
    def piece(self, rows: slice) -> Piece:
        """A run of rows in the axes of the fit, sorted."""

    def _slices(self, size: int) -> list[slice]:
        n = self._extent
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def _block_of(self, rows: slice, space: Array) -> Block:
        x, cuts, weight, covariates = self.piece(rows)
        phi = space[:, : x.shape[1]]
        phi[1 : 1 + len(x)] = x
        self.model.fill(phi)
        return Block(phi, cuts, weight, covariates)

    def parts(self, theta: Any, mechanism: Mechanism | None, ignorable: bool) -> list[Sums]:
        prepared = self.model.prepare(theta)
        used: list[Array] = []

        def start() -> Callable[[slice], Sums]:
            shape = (self.model.n_features(), min(self._block, self._extent))
            space = self._spaces.pop() if self._spaces else np.ones(shape)
            used.append(space)
            return lambda rows: block_sums(
                self._block_of(rows, space), self.model, prepared, mechanism, ignorable, self.tempering
            )

        blocks, total = self._slices(self._block), None
        for a in range(0, len(blocks), _BATCH):  # so that no more than these have their sums at once
            for part in ordered(start, blocks[a : a + _BATCH], self.workers):
                total = part if total is None else total + part
            self._spaces += used
            used.clear()
        assert total is not None
        return [total]

    def mapped(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        return ordered(lambda: lambda rows: function(self.piece(rows), *args), self._slices(self._block), self.workers)

    def pieces(self, size: int) -> Iterator[Piece]:
        return (self.piece(rows) for rows in self._slices(size))

    def alone(self) -> "Engine":
        other = copy(self)
        other.tempering = 1.0
        return other

    def holding(self, x: Array, cuts: NDArray[np.integer], weight: Array, covariates: Array | None) -> "NumpyEngine":
        return NumpyEngine.sorted_rows(self.setting, x, cuts, weight, covariates, self.workers)


class NumpyEngine(HostEngine):
    """Rows of a NumPy array, as one sorted, feature-major copy in the axes of the fit.

    Parameters
    ----------
    X : array of shape (n, d)
    z : integer array of shape (n,)
        Class of each row, -1 where missing.
    weight : array of shape (n,) or None
    frame, model, covariates, tempering
        See `Setting`.
    workers : int
        Threads that share the blocks.
    """

    x: Array
    cuts: NDArray[np.integer]
    weight: Array | None
    covariates: Array | None
    keeps_features = (
        True  # whether the working space is this engine's alone, so that features of an only block may stay in it
    )
    _kept: Array | None = None  # the space that holds them

    def __init__(
        self,
        X: NDArray[np.floating],
        z: NDArray[np.integer],
        weight: Array | None,
        frame: Frame,
        model: ScoreModel,
        covariates: Covariates | None = None,
        tempering: float = 1.0,
        workers: int = 1,
    ):
        super().__init__(Setting(frame, model, covariates, tempering), workers)
        n = len(z)
        self.cuts = np.concatenate([[0], np.cumsum(np.bincount(z[z >= 0], minlength=model.n_classes))])
        self.x = np.empty((X.shape[1], n))
        self.weight = None if weight is None else np.empty(n)
        self.covariates = None if covariates is None else np.empty((len(covariates[1]), n))
        self._fill(X, z, weight)
        self._count()

    @classmethod
    def sorted_rows(
        cls,
        setting: Setting,
        x: Array,
        cuts: NDArray[np.integer],
        weight: Array | None,
        covariates: Array | None,
        workers: int = 1,
    ) -> "NumpyEngine":
        """Columns that are sorted and in the axes of the fit already."""
        self = cls.__new__(cls)
        HostEngine.__init__(self, setting, workers)
        self.x, self.cuts, self.weight, self.covariates = x, cuts, weight, covariates
        self._count()
        return self

    def _count(self) -> None:
        ends = [*self.cuts.tolist(), self.x.shape[1]]
        self.counts = np.diff(ends)
        w = self.weight
        self.group_weight = (
            self.counts.astype(float) if w is None else np.array([w[a:b].sum() for a, b in pairwise(ends)])
        )
        self.second = self.second_moment()

    @property
    def _extent(self) -> int:
        return self.x.shape[1]

    def _block_of(self, rows: slice, space: Array) -> Block:
        if self._kept is space and self.keeps_features:
            _, cuts, weight, covariates = self.piece(rows)
            return Block(space, cuts, weight, covariates)
        block = super()._block_of(rows, space)
        self._kept = space if self._extent == space.shape[1] else None
        return block

    def _fill(self, X: NDArray[np.floating], z: NDArray[np.integer], weight: Array | None) -> None:
        """Sort the rows by class, the unlabelled last, without an index of all of them."""
        place, n = self.cuts.copy(), len(z)
        chunks = [slice(a, min(a + _CHUNK, n)) for a in range(0, n, _CHUNK)]

        def enter(rows: slice) -> Piece:
            return sorted_piece(X[rows], z[rows], None if weight is None else weight[rows], self.setting)

        batch = 64 * self.workers
        for first in range(0, len(chunks), batch):
            for x, cuts, w, v in ordered(lambda: enter, chunks[first : first + batch], self.workers):
                for k, (a, b) in enumerate(zip(cuts, [*cuts[1:], x.shape[1]], strict=True)):
                    to = slice(place[k], place[k] + b - a)
                    self.x[:, to] = x[:, a:b]
                    if v is not None:
                        self.covariates[:, to] = v[:, a:b]  # type: ignore[index]
                    if w is not None:
                        self.weight[to] = w[a:b]  # type: ignore[index]
                    place[k] += b - a

    def piece(self, rows: slice) -> Piece:
        cuts = np.clip(self.cuts - rows.start, 0, rows.stop - rows.start).tolist()
        weight = None if self.weight is None else self.weight[rows]
        return Piece(self.x[:, rows], cuts, weight, None if self.covariates is None else self.covariates[:, rows])

    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        columns = np.concatenate([a + own for a, own in zip(self.cuts, places, strict=True)])
        weight = None if self.weight is None else self.weight[columns]
        return self.x[:, columns], weight, None if self.covariates is None else self.covariates[:, columns]


def sorted_piece(X: NDArray[Any], z: NDArray[np.integer], weight: Array | None, setting: Setting) -> Piece:
    """Rows (n, d) of the user, sorted by class, the unlabelled last, in the axes of the fit."""
    order = np.argsort(z, kind="stable")
    unlabelled = int(np.sum(z < 0))
    order = np.concatenate([order[unlabelled:], order[:unlabelled]])
    X = X[order]
    counts = np.bincount(z[z >= 0], minlength=setting.model.n_classes)
    v = None
    if setting.covariates is not None:
        axes, columns = setting.covariates
        v = axes.enter(X[:, columns])
    return Piece(setting.frame.enter(X), [0, *np.cumsum(counts).tolist()], None if weight is None else weight[order], v)
