"""Rows on a device, or in any array that follows the array API standard: torch, CuPy.

Only the parameters go to the device and only the sums come back, once a pass each; nothing in between waits for the host.
"""

from collections.abc import Callable
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, like, namespace, on_device, to_host
from marmix.likelihood import Block
from marmix.moments import GroupMoments, merged
from marmix.rows.engine import NO_COVARIATES, Covariates, Engine, Frame
from marmix.rows.host import NumpyEngine

# Values that a block may take of each array computed from it: enough to fill a large card, small beside its memory.
_BLOCK_VALUES = 2**26
# Up to so many rows the host is as fast.
_HOST_ROWS = 2**15
# What single precision can tell of a log-likelihood per row.
_SINGLE = 1e-6


def device_blocks(n: int, width: int) -> list[slice]:
    """Blocks of n rows, of each of which `width` values are held together."""
    size = max(4096, _BLOCK_VALUES // width // 4096 * 4096)
    return [slice(a, min(a + size, n)) for a in range(0, n, size)]


class DeviceEngine(Engine):
    """Rows of a device array, as one sorted, feature-major copy in the axes of the fit.

    Parameters
    ----------
    x : array of shape (d, n)
        In double precision, or in single where that was asked for.
    cuts : integer array of shape (K + 1,)
        Class k holds the columns ``cuts[k]:cuts[k + 1]``, the unlabelled follow.
    weight : array of shape (n,) or None
    v : array of shape (L, n) or None
        The covariates.
    frame : Frame
    covariates : Covariates
    """

    def __init__(self, x: Any, cuts: NDArray[np.integer], weight: Any, v: Any, frame: Frame, covariates: Covariates):
        super().__init__(frame, covariates)
        self.x, self.cuts, self.weight, self.v, self.place = x, cuts, weight, v, x[:, :0]
        self.resolution = 0.0 if x.dtype == namespace(x).float64 else _SINGLE
        ends = [*cuts.tolist(), x.shape[1]]
        self.counts = np.diff(ends)
        self.group_weight = self.counts.astype(float)
        if weight is not None:
            xp = namespace(x)
            groups = [xp.sum(weight[a:b], dtype=xp.float64) for a, b in pairwise(ends)]
            self.group_weight = to_host(xp.stack(groups)).astype(float)

    def _blocks(self, width: int) -> list[Block]:
        out = []
        for rows in device_blocks(self.x.shape[1], width):
            cuts = np.clip(self.cuts - rows.start, 0, rows.stop - rows.start).tolist()
            weight = None if self.weight is None else self.weight[rows]
            out.append(Block(self.x[:, rows], cuts, weight, None if self.v is None else self.v[:, rows]))
        return out

    def map(self, function: Callable[..., Any], *args: Any, width: int) -> list[Any]:
        return [fetched(function(block, *args), self.x) for block in self._blocks(width)]

    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        return fetched(self.total_there(function, *args, width=width), self.x)

    def total_there(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        """`total` with what it returns left on the device."""
        return reduce(add, (function(block, *args) for block in self._blocks(width)))

    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        xp = namespace(self.x)
        columns = np.concatenate([a + group for a, group in zip(self.cuts, places, strict=True)])
        index = xp.asarray(columns, device=self.x.device)

        def chosen(array: Any) -> Array | None:
            return None if array is None else to_host(xp.take(array, index, axis=-1)).astype(float)

        x = chosen(self.x)
        assert x is not None
        return x, chosen(self.weight), chosen(self.v)

    def holding(self, block: Block) -> Engine:
        if block.x.shape[1] <= _HOST_ROWS:
            return NumpyEngine.of_block(block, self.frame, self.covariates)
        x, w, v = (None if part is None else like(part, self.x) for part in (block.x, block.weight, block.covariates))
        return DeviceEngine(x, np.array(block.cuts), w, v, self.frame, self.covariates)


def fetched(answer: Any, array: Any) -> Any:
    """An array or nested tuples of arrays on the device of `array`, brought to the host in one transfer."""
    xp, parts = namespace(array), list[Any]()

    def collect(part: Any) -> None:
        if isinstance(part, tuple):
            for one in part:
                collect(one)
        elif on_device(part):
            parts.append(xp.astype(xp.reshape(part, (-1,)), xp.float64))

    collect(answer)
    values = (
        iter(np.split(to_host(xp.concat(parts)), np.cumsum([part.shape[0] for part in parts[:-1]])))
        if parts
        else iter(())
    )

    def restored(part: Any) -> Any:
        if isinstance(part, tuple):
            return type(part)(*map(restored, part))
        return next(values).reshape(tuple(part.shape)) if on_device(part) else part

    return restored(answer)


class DeviceRows:
    """Rows of a fit as the user has them on a device.

    Parameters
    ----------
    X : array of shape (n, d)
    z : integer array of shape (n,) on the same device
        Class of each row, -1 where missing.
    weight : array of shape (n,) on the same device, or None
    n_classes : int
    single : bool
        Whether to compute in single precision.
    """

    def __init__(self, X: Any, z: Any, weight: Any, n_classes: int, single: bool):
        xp = namespace(X)
        self.X, self.z, self.weight, self.n_classes = X, z, weight, n_classes
        self._double, self._dtype = xp.float64, xp.float32 if single else xp.float64
        kind = xp.int8 if n_classes < 126 else xp.int64
        group = xp.where(z < 0, xp.asarray(n_classes, dtype=kind, device=X.device), xp.astype(z, kind))
        if weight is not None:  # rows of weight zero come last, and do not count
            group = xp.where(weight > 0, group, xp.asarray(n_classes + 1, dtype=kind, device=X.device))
        self._order = xp.argsort(group, stable=True)
        counts = to_host(xp.stack([xp.count_nonzero(group == k) for k in range(n_classes + 1)]))
        self._n = int(counts.sum())
        self.cuts = np.concatenate([[0], np.cumsum(counts[:-1])])

    def _blocks(self) -> list[slice]:
        """Runs of sorted rows, none of which crosses from one group to the next."""
        ends = [*self.cuts.tolist(), self._n]
        runs = []
        for a, b in pairwise(ends):
            runs += [slice(a + part.start, a + part.stop) for part in device_blocks(b - a, self.X.shape[1])]
        return runs

    @cached_property
    def moments(self) -> GroupMoments:
        """Moments of each class and of the unlabelled."""
        return merged(self._block_moments(rows) for rows in self._blocks())

    def _block_moments(self, rows: slice) -> GroupMoments:
        xp, d = namespace(self.X), self.X.shape[1]
        order = self._order[rows]
        x = xp.astype(xp.take(self.X, order, axis=0), self._double)
        n = rows.stop - rows.start
        if self.weight is None:
            mean, mass = xp.mean(x, axis=0), xp.full((1,), float(n), dtype=self._double, device=x.device)
            x = x - mean
            scatter = x.T @ x
        else:
            w = xp.astype(xp.take(self.weight, order, axis=0), self._double)
            mass = xp.reshape(xp.sum(w), (1,))
            mean = (w @ x) / mass
            x = x - mean
            scatter = (x * w[:, None]).T @ x
        values = to_host(xp.concat([mass, mean, xp.reshape(scatter, (d * d,))]))
        out = GroupMoments(
            np.zeros(self.n_classes + 1), np.zeros((self.n_classes + 1, d)), np.zeros((self.n_classes + 1, d, d))
        )
        k = int(np.searchsorted(self.cuts, rows.start, side="right")) - 1
        out.weight[k] = values[0]
        out.mean[k], out.scatter[k] = values[1 : 1 + d], values[1 + d :].reshape(d, d)
        return out

    @property
    def any_missing(self) -> bool:
        """Whether some row has no label."""
        return bool(self.cuts[-1] < self._n)

    def check_finite(self, names: list[str]) -> None:
        """Refuse features that are not finite, by name."""
        xp = namespace(self.X)
        bad = to_host(xp.any(~xp.isfinite(self.X), axis=0))
        if bad.any():
            raise ValueError(
                f"Input X contains NaN or infinity in column {names[int(np.flatnonzero(bad)[0])]!r}: only labels may be missing. "
                "Impute the features first or drop these rows."
            )
        raise ValueError("Input X has values so large that their squares overflow: rescale the features.")

    def imputed(self, classifier: Any) -> tuple[Any, float]:
        """Labels of all rows, and the entropy of those that the classifier imputed."""
        found: tuple[Any, float] = classifier._imputed(self.X, self.z, self.weight)
        return found

    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> DeviceEngine:
        """The rows in the axes of a fit."""
        xp, n, d = namespace(self.X), self._n, self.X.shape[1]
        place: dict[str, Any] = {"dtype": self._dtype, "device": self.X.device}
        x = xp.empty((d, n), **place)
        v = xp.empty((len(covariates.columns), n), **place) if covariates.columns else None
        for rows in device_blocks(n, d):
            X = xp.astype(xp.take(self.X, self._order[rows], axis=0), self._double)
            x[:, rows] = xp.astype(frame.enter(X), self._dtype)
            if v is not None:
                v[:, rows] = xp.astype(covariates.enter(X), self._dtype)
        w = None if self.weight is None else xp.astype(xp.take(self.weight, self._order[:n], axis=0), self._dtype)
        return DeviceEngine(x, self.cuts, w, v, frame, covariates)
