"""Rows that stay in a file: read, sorted and brought into the axes of the fit block by block, in every pass."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.rows.engine import Piece, Setting
from marmix.rows.memory import HostEngine, sorted_piece
from marmix.streams import release
from marmix.workers import ordered

# Rows looked at together where nothing is computed from them.
_CHUNK = 65536


class FileEngine(HostEngine):
    """Rows of a memory-mapped array, of which only the blocks at hand are in memory.

    Parameters
    ----------
    X : array of shape (n, d)
        Of any numeric type; usually a `numpy.memmap`.
    z : integer array of shape (n,)
        Class of each row, -1 where missing.
    weight : array of shape (n,) or None
        Rows of weight zero do not count.
    setting : Setting
    workers : int
    """

    def __init__(
        self, X: NDArray[Any], z: NDArray[np.integer], weight: NDArray[Any] | None, setting: Setting, workers: int
    ):
        super().__init__(setting, workers)
        self.X, self.z, self.weight = X, z, weight
        chunks, classes = self._slices(_CHUNK), self.model.n_classes

        def count(rows: slice) -> tuple[NDArray[Any], Array]:
            group = np.where(z[rows] < 0, classes, z[rows])
            w = None if weight is None else np.asarray(weight[rows], dtype=float)
            own = group if w is None else group[w > 0]
            return np.bincount(own, minlength=classes + 1), np.bincount(group, w, classes + 1).astype(float)

        by_chunk = ordered(lambda: count, chunks, workers)
        self._counts = np.array([counts for counts, _ in by_chunk])
        self.counts = self._counts.sum(axis=0)
        self.group_weight = np.sum([weights for _, weights in by_chunk], axis=0)
        self.second = self.second_moment()

    @property
    def _extent(self) -> int:
        return len(self.z)

    def piece(self, rows: slice) -> Piece:
        X, z = np.array(self.X[rows], dtype=float), self.z[rows]
        release(self.X[rows])
        w = None
        if self.weight is not None:
            w = np.array(self.weight[rows], dtype=float)
            release(self.weight[rows])
            if not w.all():
                X, z, w = X[w > 0], z[w > 0], w[w > 0]
        return sorted_piece(X, z, w, self.setting)

    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        first = np.cumsum(self._counts, axis=0) - self._counts  # rows of each group before a chunk
        x, weight, covariates = [], [], []
        for k, own in enumerate(places):
            chunk = np.searchsorted(first[:, k] + self._counts[:, k], own, side="right")
            for c in np.unique(chunk).tolist():
                X, w = self._chosen(slice(c * _CHUNK, (c + 1) * _CHUNK), k, own[chunk == c] - first[c, k])
                x.append(self.frame.enter(X))
                if w is not None:
                    weight.append(w)
                if self.setting.covariates is not None:
                    axes, columns = self.setting.covariates
                    covariates.append(axes.enter(X[:, columns]))
        return (
            np.concatenate(x, axis=1),
            np.concatenate(weight) if weight else None,
            np.concatenate(covariates, axis=1) if covariates else None,
        )

    def _chosen(self, rows: slice, group: int, places: NDArray[np.integer]) -> tuple[Array, Array | None]:
        """Rows of one group in a chunk, by their places among those of the group there."""
        wanted, w = self.z[rows] == (group if group < self.model.n_classes else -1), None
        if self.weight is not None:
            w = np.array(self.weight[rows], dtype=float)
            release(self.weight[rows])
            wanted = wanted & (w > 0)
        chosen = np.flatnonzero(wanted)[places]
        X = np.array(self.X[rows][chosen], dtype=float)
        release(self.X[rows])
        return X, None if w is None else w[chosen]
