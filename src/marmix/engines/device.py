"""Rows in torch or CuPy arrays, or any array that follows the array API standard.

A pass sends parameters to the device and copies sums back, once each; nothing in between waits for the host.
"""

from collections.abc import Callable
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np

from marmix.core.arrays import LARGEST, AnyArray, Array, Ints, in_double, like, namespace, on_device, on_host, to_host
from marmix.core.files import open_array
from marmix.core.frames import NO_COVARIATES, Covariates, Frame
from marmix.core.labels import asked_labels, copies_of
from marmix.core.likelihood import Block
from marmix.core.moments import GroupMoments, merged
from marmix.engines.checks import check_finite, check_lengths, check_weighted_classes, checked_weights
from marmix.engines.host import NumpyEngine
from marmix.engines.rows import Engine, Rows, encoded, group_sizes, slices, sorted_slice

# Most values in an array computed from a block: enough to occupy a large card, little compared to its memory.
_BLOCK_VALUES = 2**26
# Number of rows up to which the host is as fast.
_HOST_ROWS = 2**15


def device_blocks(n: int, width: int) -> list[slice]:
    """Blocks of n rows, given the number of values per row in the largest array."""
    return slices(n, max(4096, _BLOCK_VALUES // width // 4096 * 4096))


class DeviceEngine(Engine):
    """Rows of a device array: one sorted, feature-major copy x (d, n) in the axes of the fit, with covariates v (L, n).

    Columns ``cuts[k]:cuts[k + 1]`` are class k; unlabelled rows follow.
    """

    def __init__(self, x: Any, cuts: Ints, weight: Any, v: Any, frame: Frame, covariates: Covariates):
        super().__init__(frame, covariates)
        self.x, self.cuts, self.weight, self.v, self.place = x, cuts, weight, v, x[:, :0]
        self.counts, self.group_weight = group_sizes(x, cuts, weight)

    def _blocks(self, width: int) -> list[Block]:
        blocks = device_blocks(self.x.shape[1], width)
        return [sorted_slice(self.x, self.cuts, self.weight, self.v, rows) for rows in blocks]

    def map(self, function: Callable[..., Any], *args: Any, width: int) -> list[Any]:
        return [fetched(function(block, *args), self.x) for block in self._blocks(width)]

    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        return fetched(self.total_there(function, *args, width=width), self.x)

    def total_there(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        """`total` with the result left on the device."""
        return reduce(add, (function(block, *args) for block in self._blocks(width)))

    def select(self, places: list[Ints]) -> tuple[Array, Array | None, Array | None]:
        xp = namespace(self.x)
        columns = np.concatenate([a + group for a, group in zip(self.cuts, places, strict=True)])
        index = xp.asarray(columns, device=self.x.device)

        def selected(array: Any) -> Any:
            return None if array is None else to_host(xp.take(array, index, axis=-1)).astype(float)

        return selected(self.x), selected(self.weight), selected(self.v)

    def engine_of(self, block: Block) -> Engine:
        if block.x.shape[1] <= _HOST_ROWS:
            return NumpyEngine.of_block(block, self.frame, self.covariates)
        x, w, v = (None if part is None else like(part, self.x) for part in (block.x, block.weight, block.covariates))
        return DeviceEngine(x, np.array(block.cuts), w, v, self.frame, self.covariates)


def fetched(result: Any, array: Any) -> Any:
    """An array or nested tuples of arrays on the device of `array`, copied to the host in one transfer."""
    xp, parts = namespace(array), list[Any]()

    def collect(part: Any) -> None:
        if isinstance(part, tuple):
            for item in part:
                collect(item)
        elif on_device(part):
            parts.append(xp.astype(xp.reshape(part, (-1,)), xp.float64))

    collect(result)
    ends = np.cumsum([part.shape[0] for part in parts[:-1]])
    values = iter(np.split(to_host(xp.concat(parts)), ends) if parts else ())

    def restored(part: Any) -> Any:
        if isinstance(part, tuple):
            return type(part)(*map(restored, part))
        return next(values).reshape(tuple(part.shape)) if on_device(part) else part

    return restored(result)


class DeviceRows(Rows):
    """Rows on a device, with labels and weights on the same device."""

    def _add_labels(self, y: Any, sample_weight: Any, missing: Any, named: Any, classes: Any) -> None:
        xp, X = namespace(self.X), self.X
        codes, self.classes, shares = encoded(y, named, classes)
        self.codes, self.asked = self._moved(codes), asked_labels(missing, codes)
        weight = None if sample_weight is None else _checked_weights(X, sample_weight)
        labels, rows = self.codes, None
        if shares is not None:
            self.shares = self._moved(shares)
            copies = copies_of(shares)
            if len(copies.rows) > len(codes):  # some rows have votes for several classes
                rows, labels, share = (xp.asarray(part, device=X.device) for part in copies)
                weight = share if weight is None else share * xp.take(weight, rows, axis=0)
        n_classes = len(self.classes)
        if self.asked is not None:  # groups of their own
            asked = xp.asarray(self.asked, device=X.device)
            asked = asked if rows is None else xp.take(asked, rows, axis=0)
            labels = xp.where(asked, xp.astype(labels, xp.int64) + n_classes, xp.astype(labels, xp.int64))
            n_classes *= 2
        kind = xp.int8 if n_classes < 126 else xp.int64
        group = xp.where(labels < 0, xp.asarray(n_classes, dtype=kind, device=X.device), xp.astype(labels, kind))
        if weight is not None:  # rows of weight zero come last, and are ignored
            group = xp.where(weight > 0, group, xp.asarray(n_classes + 1, dtype=kind, device=X.device))
        order = xp.argsort(group, stable=True)
        self._order = order if rows is None else xp.take(rows, order, axis=0)
        self._weight = None if weight is None else xp.take(weight, order, axis=0)
        counts = to_host(xp.stack([xp.count_nonzero(group == k) for k in range(n_classes + 1)]))
        self._n = int(counts.sum())
        self.cuts = np.concatenate([[0], np.cumsum(counts[:-1])])
        if classes is None:
            check_weighted_classes(self.classes, self.moments.weight[:-1] > 0.0)

    def _moved(self, labels: Any) -> Any:
        check_lengths(self.X, labels)
        return namespace(self.X).asarray(labels, device=self.X.device)

    def numbered(self, y: Any, classes: AnyArray) -> Any:
        codes, _, shares = encoded(open_array(y, "y"), None, classes)
        return self._moved(codes if shares is None else shares)

    def _map(self, function: Any, beside: Any, names: list[str], width: int, shape: Any, dtype: Any, out: Any) -> Any:
        xp, X = namespace(self.X), self.X
        _check_finite(X, names, self.allow_nan)
        parts = [
            function(in_double(X[rows, :]), *(values[rows, ...] for values in beside))
            for rows in device_blocks(X.shape[0], 4 * X.shape[1])
        ]
        return np.concatenate(parts) if on_host(parts[0]) else xp.concat(parts)

    def _blocks(self) -> list[slice]:
        """Slices of the sorted rows, each within one group."""
        return [
            slice(a + part.start, a + part.stop)
            for a, b in pairwise([*self.cuts.tolist(), self._n])
            for part in device_blocks(b - a, self.X.shape[1])
        ]

    @cached_property
    def moments(self) -> GroupMoments:  # type: ignore[override]
        return merged(self._block_moments(rows) for rows in self._blocks())

    def _block_moments(self, rows: slice) -> GroupMoments:
        xp, d = namespace(self.X), self.X.shape[1]
        order = self._order[rows]
        x = in_double(xp.take(self.X, order, axis=0))
        n = rows.stop - rows.start
        if self._weight is None:
            mean, mass = xp.mean(x, axis=0), xp.full((1,), float(n), dtype=x.dtype, device=x.device)
            x = x - mean
            scatter = x.T @ x
        else:
            w = self._weight[rows]
            mass = xp.reshape(xp.sum(w), (1,))
            mean = (w @ x) / mass
            x = x - mean
            scatter = (x * w[:, None]).T @ x
        values = to_host(xp.concat([mass, mean, xp.reshape(scatter, (d * d,))]))
        classes = len(self.classes)
        out = GroupMoments(np.zeros(classes + 1), np.zeros((classes + 1, d)), np.zeros((classes + 1, d, d)))
        k = int(np.searchsorted(self.cuts, rows.start, side="right")) - 1
        k = classes if k == len(self.cuts) - 1 else k % classes
        out.weight[k] = values[0]
        out.mean[k], out.scatter[k] = values[1 : 1 + d], values[1 + d :].reshape(d, d)
        return out

    def check_values(self, names: list[str]) -> None:
        order = self._order[: self._n]
        _check_finite(namespace(self.X).take(self.X, order, axis=0), names, places=order)

    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> DeviceEngine:
        xp, n, d = namespace(self.X), self._n, frame.size
        place: dict[str, Any] = {"dtype": xp.float64, "device": self.X.device}
        x = xp.empty((d, n), **place)
        v = xp.empty((len(covariates.columns), n), **place) if covariates.columns else None
        for rows in device_blocks(n, d):
            X = in_double(xp.take(self.X, self._order[rows], axis=0))
            x[:, rows] = frame.enter(X)
            if v is not None:
                v[:, rows] = covariates.enter(X)
        w = None if self._weight is None else self._weight[:n]
        return DeviceEngine(x, self.cuts, w, v, frame, covariates)


def _check_finite(X: Any, names: list[str], allow_nan: bool = False, places: Any = None) -> None:
    """`check_finite` for rows on a device, of which only the first bad one is copied to the host."""
    xp = namespace(X)
    usable = xp.abs(X) <= min(LARGEST, float(xp.finfo(X.dtype).max)) if xp.isdtype(X.dtype, "real floating") else X == X
    if allow_nan:
        usable = usable | xp.isnan(X)
    bad = ~xp.all(usable, axis=1)
    if bool(xp.any(bad)):
        row = int(xp.argmax(xp.astype(bad, xp.int64)))
        check_finite(to_host(X[row : row + 1, :]), names, row if places is None else int(places[row]), allow_nan)


def _checked_weights(X: Any, sample_weight: Any) -> Any:
    """Checked weights of rows on a device, in double precision on the same device."""
    weight = checked_weights(X, to_host(sample_weight) if on_device(sample_weight) else sample_weight)
    return like(weight, in_double(X[:0, :]))
