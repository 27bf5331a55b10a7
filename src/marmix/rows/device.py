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

from marmix.arrays import Array, detached, in_double, like, namespace, on_device, on_host, to_host
from marmix.likelihood import Block
from marmix.moments import GroupMoments, merged
from marmix.rows.checks import check_lengths, check_weighted_classes, refuse_negative
from marmix.rows.engine import NO_COVARIATES, Covariates, Engine, Frame, Rows, encoded, refuse_out
from marmix.rows.host import NumpyEngine
from marmix.streams import opened

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


class DeviceRows(Rows):
    """Rows on a device, in the user's array; labels and weights are beside them."""

    def with_labels(
        self, y: Any, sample_weight: Any = None, *, named: Any = None, classes: Any = None, single: bool = False
    ) -> "DeviceRows":
        y, sample_weight = opened(y, "y"), opened(sample_weight, "sample_weight")
        xp, X = namespace(self.X), self.X
        codes, self.classes = encoded(y, named, classes)
        self.codes = self._beside(codes)
        self.weight = None if sample_weight is None else _checked_weights(X, sample_weight)
        self._double, self._dtype = xp.float64, xp.float32 if single else xp.float64
        n_classes = len(self.classes)
        kind = xp.int8 if n_classes < 126 else xp.int64
        group = xp.where(
            self.codes < 0, xp.asarray(n_classes, dtype=kind, device=X.device), xp.astype(self.codes, kind)
        )
        if self.weight is not None:  # rows of weight zero come last, and do not count
            group = xp.where(self.weight > 0, group, xp.asarray(n_classes + 1, dtype=kind, device=X.device))
        self._order = xp.argsort(group, stable=True)
        counts = to_host(xp.stack([xp.count_nonzero(group == k) for k in range(n_classes + 1)]))
        self._n = int(counts.sum())
        self.cuts = np.concatenate([[0], np.cumsum(counts[:-1])])
        if classes is None:
            check_weighted_classes(self.classes, self.moments.weight[:-1] > 0.0)
        return self

    def _beside(self, codes: Any) -> Any:
        check_lengths(self.X, codes)
        return namespace(self.X).asarray(codes, device=self.X.device)

    def numbered(self, y: Any, classes: NDArray[Any]) -> Any:
        return self._beside(encoded(opened(y, "y"), None, classes)[0])

    def map(
        self,
        function: Callable[..., Any],
        *beside: Any,
        names: list[str],
        width: int,
        shape: tuple[int, ...] = (),
        dtype: Any = float,
        out: Any = None,
    ) -> Any:
        refuse_out(out)
        xp, X = namespace(self.X), self.X
        if not bool(xp.all(xp.isfinite(X))):
            raise ValueError("Input X contains NaN or infinity: impute the features first, or drop these rows.")
        parts = [
            function(in_double(X[rows, :]), *(values[rows] for values in beside))
            for rows in device_blocks(X.shape[0], 4 * X.shape[1])
        ]
        return np.concatenate(parts) if on_host(parts[0]) else xp.concat(parts)

    def _blocks(self) -> list[slice]:
        """Runs of sorted rows, none of which crosses from one group to the next."""
        ends = [*self.cuts.tolist(), self._n]
        runs = []
        for a, b in pairwise(ends):
            runs += [slice(a + part.start, a + part.stop) for part in device_blocks(b - a, self.X.shape[1])]
        return runs

    @cached_property
    def moments(self) -> GroupMoments:  # type: ignore[override]
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
        groups = len(self.cuts)
        out = GroupMoments(np.zeros(groups), np.zeros((groups, d)), np.zeros((groups, d, d)))
        k = int(np.searchsorted(self.cuts, rows.start, side="right")) - 1
        out.weight[k] = values[0]
        out.mean[k], out.scatter[k] = values[1 : 1 + d], values[1 + d :].reshape(d, d)
        return out

    def check_finite(self, names: list[str]) -> None:
        xp = namespace(self.X)
        bad = to_host(xp.any(~xp.isfinite(self.X), axis=0))
        if bad.any():
            raise ValueError(
                f"Input X contains NaN or infinity in column {names[int(np.flatnonzero(bad)[0])]!r}: only labels may be missing. "
                "Impute the features first or drop these rows."
            )
        raise ValueError("Input X has values so large that their squares overflow: rescale the features.")

    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> DeviceEngine:
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


def _checked_weights(X: Any, sample_weight: Any) -> Any:
    """Weights of rows on a device, in double precision beside them."""
    if not on_device(sample_weight):
        sample_weight = like(np.array(sample_weight, dtype=float), in_double(X[:0, :]))
    xp, weight = namespace(sample_weight), in_double(detached(sample_weight))
    if tuple(weight.shape) != (X.shape[0],):
        raise ValueError(f"sample_weight must have shape ({X.shape[0]},), one weight a row; got {tuple(weight.shape)}.")
    low, high = to_host(xp.stack([xp.min(weight), xp.max(weight)]))
    if not np.isfinite([low, high]).all():
        raise ValueError("Input sample_weight contains NaN or infinity.")
    refuse_negative(low)
    if high == 0.0:
        raise ValueError("every sample_weight is zero: no row counts.")
    return weight
