"""Rows on a device, or in any array that follows the array API standard: torch, CuPy.

Only the parameters go to the device and only the sums come back, once a pass each; nothing in between waits for the host.
"""

from collections.abc import Callable
from functools import cache, cached_property, reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, like, namespace, ones_beside, to_host
from marmix.likelihood import Block, Sums, block_sums
from marmix.mechanism import Mechanism
from marmix.moments import GroupMoments, merged
from marmix.rows.engine import Engine, Piece, Sample, Setting
from marmix.rows.memory import NumpyEngine
from marmix.scores.covariance import Moments

# Values that a block may take of each array computed from it: enough to fill a large card, small beside its memory.
_BLOCK_VALUES = 2**26
# Up to so many rows the host is as fast.
_HOST_ROWS = 2**15
# What single precision can tell of a log-likelihood per row.
_SINGLE = 1e-6


def device_blocks(n: int, p: int) -> list[slice]:
    """Blocks of n rows with p features each."""
    size = max(4096, _BLOCK_VALUES // p // 4096 * 4096)
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
    covariates : array of shape (L, n) or None
    setting : Setting
    """

    def __init__(self, x: Any, cuts: NDArray[np.integer], weight: Any, covariates: Any, setting: Setting):
        super().__init__(setting)
        self.x, self.cuts, self.weight, self.covariates = x, cuts, weight, covariates
        self.resolution = 0.0 if x.dtype == namespace(x).float64 else _SINGLE
        ends = [*cuts.tolist(), x.shape[1]]
        self.counts = np.diff(ends)
        self.group_weight = self.counts.astype(float)
        if weight is not None:
            xp = namespace(x)
            groups = [xp.sum(weight[a:b], dtype=xp.float64) for a, b in pairwise(ends)]
            self.group_weight = to_host(xp.stack(groups)).astype(float)
        self.second = self.second_moment()

    def _pieces(self) -> list[Piece]:
        out = []
        for rows in device_blocks(self.x.shape[1], self.model.n_features()):
            cuts = np.clip(self.cuts - rows.start, 0, rows.stop - rows.start).tolist()
            weight = None if self.weight is None else self.weight[rows]
            covariates = None if self.covariates is None else self.covariates[:, rows]
            out.append(Piece(self.x[:, rows], cuts, weight, covariates))
        return out

    def parts(self, theta: Any, mechanism: Mechanism | None, ignorable: bool) -> list[Sums]:
        prepared = like(self.model.prepare(theta), self.x)
        return [fetched(self._sums_there(prepared, mechanism, ignorable), self.x)]

    def _sums_there(self, prepared: Any, mechanism: Mechanism | None, ignorable: bool) -> Sums:
        """The sums over all rows, on the device; by the fused kernel where there is one for them."""
        fused = _fused(self.x)
        if fused is not None and fused.supports(self.model, mechanism, self.x):
            with fused.torch.cuda.device(self.x.device):
                found: Sums = fused.fused_sums(
                    self.x, self.cuts.tolist(), self.weight, self.model, prepared, mechanism, ignorable, self.tempering
                )
            return found
        return self.plain_sums(prepared, mechanism, ignorable)

    def plain_sums(self, prepared: Any, mechanism: Mechanism | None, ignorable: bool) -> Sums:
        """The sums over all rows, on the device, by array operations alone."""
        return reduce(add, (self._piece_sums(piece, prepared, mechanism, ignorable) for piece in self._pieces()))

    def _piece_sums(self, piece: Piece, prepared: Any, mechanism: Mechanism | None, ignorable: bool) -> Sums:
        phi = ones_beside(piece.x, self.model.n_features())
        phi[1 : 1 + piece.x.shape[0], :] = piece.x
        self.model.fill(phi)
        block = Block(phi, piece.cuts, piece.weight, piece.covariates)
        return block_sums(block, self.model, prepared, mechanism, ignorable, self.tempering)

    def mapped(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        return [_on_host(function(piece, *args)) for piece in self._pieces()]

    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        xp = namespace(self.x)
        columns = np.concatenate([a + own for a, own in zip(self.cuts, places, strict=True)])
        index = xp.asarray(columns, device=self.x.device)

        def chosen(array: Any) -> Array | None:
            return None if array is None else to_host(xp.take(array, index, axis=-1)).astype(float)

        x = chosen(self.x)
        assert x is not None
        return x, chosen(self.weight), chosen(self.covariates)

    def holding(self, x: Array, cuts: NDArray[np.integer], weight: Array, covariates: Array | None) -> Engine:
        if x.shape[1] <= _HOST_ROWS:
            return NumpyEngine.sorted_rows(self.setting, x, cuts, weight, covariates)
        there = None if covariates is None else like(covariates, self.x)
        return DeviceEngine(like(x, self.x), cuts, like(weight, self.x), there, self.setting)

    def alone(self) -> "DeviceEngine":
        other = DeviceEngine.__new__(DeviceEngine)
        other.__dict__.update(self.__dict__)
        other.tempering = 1.0
        return other


@cache
def _kernels() -> Any:
    try:
        from marmix.rows import fused
    except ImportError:  # no Triton
        return None
    return fused


def _fused(x: Any) -> Any:
    """The fused kernels, where x is on a CUDA device of torch and Triton is installed."""
    return _kernels() if getattr(x, "is_cuda", False) else None


def fetched(sums: Sums, array: Any) -> Sums:
    """Sums on the device `array` is on, brought to the host in one transfer."""
    xp = namespace(array)
    moments = sums.moments.by_component
    parts = [sums.ignorable, sums.missing, sums.shape, sums.share, sums.alpha, moments]
    flat = xp.concat([_flat(part, xp, array) for part in parts])
    values = to_host(flat)
    alpha = len(values) - 4 - int(np.prod(moments.shape))
    by_component = values[4 + alpha :].reshape(tuple(moments.shape))
    return Sums(values[0], values[1], Moments(by_component), values[4 : 4 + alpha], values[2], values[3])


def _flat(part: Any, xp: Any, array: Any) -> Any:
    if isinstance(part, float):
        return xp.full((1,), part, dtype=xp.float64, device=array.device)
    return xp.astype(xp.reshape(part, (-1,)), xp.float64)


def _on_host(answer: Any) -> Any:
    if isinstance(answer, Sample):
        return Sample(_on_host(answer.drivers), answer.labelled, _on_host(answer.weight))
    return answer if answer is None else to_host(answer)


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

    def engine(self, setting: Setting) -> DeviceEngine:
        """The rows in the axes of a fit."""
        xp, n, d = namespace(self.X), self._n, self.X.shape[1]
        place: dict[str, Any] = {"dtype": self._dtype, "device": self.X.device}
        x = xp.empty((d, n), **place)
        v = None if setting.covariates is None else xp.empty((len(setting.covariates[1]), n), **place)
        for rows in device_blocks(n, d):
            X = xp.astype(xp.take(self.X, self._order[rows], axis=0), self._double)
            x[:, rows] = xp.astype(setting.frame.enter(X), self._dtype)
            if setting.covariates is not None and v is not None:
                axes, columns = setting.covariates
                index = xp.asarray(np.array(columns), device=self.X.device)
                v[:, rows] = xp.astype(axes.enter(xp.take(X, index, axis=1)), self._dtype)
        w = None if self.weight is None else xp.astype(xp.take(self.weight, self._order[:n], axis=0), self._dtype)
        return DeviceEngine(x, self.cuts, w, v, setting)
