"""Rows on the host, in memory or in a file."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np

from marmix.core.arrays import AnyArray, Array, Bools, Ints, quiet, to_host_or_refuse
from marmix.core.files import in_file, open_array, release, write_array
from marmix.core.frames import NO_COVARIATES, Covariates, Frame
from marmix.core.labels import asked_labels, copies_of
from marmix.core.likelihood import Block
from marmix.core.moments import GroupMoments, group_moments, merged
from marmix.core.workers import available, one_thread, ordered
from marmix.engines.checks import (
    check_finite,
    check_lengths,
    checked_weights,
    file_weights,
    weighted_rows,
)
from marmix.engines.rows import Engine, Rows, block_rows, encoded, group_sizes, slices, sorted_slice

# Number of rows from which several threads are used.
MANY_ROWS = 2**16
# Most rows in memory that a fit puts in an order of its own: with more, the sort and the copy would take long.
MOST_SORTED = 2**15
# Rows transformed together, summed to moments together, and counted together.
_SORTED_ROWS, _MOMENT_ROWS, _COUNTED_ROWS = 2**13, 2**15, 2**16
# Blocks whose results are in memory at the same time.
_BATCH = 256
# Most threads: more only wait for the interpreter lock, but with many features matrix products release it.
_MOST_THREADS, _MOST_THREADS_WIDE, _WIDE = 4, 8, 16


class HostEngine(Engine):
    """Rows whose blocks are distributed over `workers` threads."""

    def __init__(self, frame: Frame, covariates: Covariates, workers: int):
        super().__init__(frame, covariates)
        self.workers = min(workers, _MOST_THREADS_WIDE if frame.size >= _WIDE else _MOST_THREADS)
        self.spaces: list[list[Any]] = []  # working memory of idle workers
        self.shares_spaces = False  # whether other engines use the same memory

    @property
    @abstractmethod
    def _extent(self) -> int:
        """Number of rows to iterate over."""

    @abstractmethod
    def _block(self, rows: slice) -> Block:
        """Rows sorted by class, in the axes of the fit."""

    def _mapped(self, function: Callable[..., Any], args: tuple[Any, ...], blocks: list[slice]) -> list[Any]:
        used: list[list[Any]] = []
        only = not self.shares_spaces and len(blocks) == 1 and blocks[0] == slice(0, self._extent)

        def start() -> Callable[[slice], Any]:
            try:
                space = self.spaces.pop()
            except IndexError:
                space = []
            used.append(space)
            return lambda rows: function(self._block(rows)._replace(space=space, only=only), *args)

        try:
            return ordered(start, blocks, self.workers)
        finally:
            self.spaces += used

    def map(self, function: Callable[..., Any], *args: Any, width: int) -> list[Any]:
        return self._mapped(function, args, slices(self._extent, block_rows(width)))

    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        blocks, sums = slices(self._extent, block_rows(width)), list[Any]()
        for a in range(0, len(blocks), _BATCH):
            sums = [reduce(add, sums + self._mapped(function, args, blocks[a : a + _BATCH]))]
        return sums[0]

    def blocks(self, width: int) -> Iterator[Block]:
        return map(self._block, slices(self._extent, block_rows(width)))

    def engine_of(self, block: Block) -> "NumpyEngine":
        return NumpyEngine.of_block(block, self.frame, self.covariates, self.workers)


class NumpyEngine(HostEngine):
    """Rows of a NumPy array (n, d): one sorted, feature-major copy in the axes of the fit.

    `z` has the class of each row, -1 if missing; `workers` is the number of threads.
    """

    x: Array
    cuts: Ints
    weight: Array | None
    v: Array | None

    def __init__(
        self,
        X: AnyArray,
        z: Ints,
        weight: Array | None,
        n_classes: int,
        frame: Frame,
        covariates: Covariates = NO_COVARIATES,
        workers: int = 1,
    ):
        super().__init__(frame, covariates, workers)
        order = np.argsort(np.where(z < 0, n_classes, z), kind="stable")  # by class, unlabelled rows last
        self.cuts = np.concatenate([[0], np.cumsum(np.bincount(z[z >= 0], minlength=n_classes))])
        self.x = np.empty((frame.size, len(z)))
        self.weight = None if weight is None else np.asarray(weight[order], dtype=float)
        self.v = np.empty((len(covariates.columns), len(z))) if covariates.columns else None

        def enter(rows: slice) -> None:
            part = X[order[rows]]
            self.x[:, rows] = frame.enter(part)
            if self.v is not None:
                self.v[:, rows] = covariates.enter(part)

        ordered(lambda: enter, slices(len(z), _SORTED_ROWS), self.workers)
        self.counts, self.group_weight = group_sizes(self.x, self.cuts, self.weight)

    @classmethod
    def of_block(cls, block: Block, frame: Frame, covariates: Covariates, workers: int = 1) -> "NumpyEngine":
        """An engine for rows that are already sorted and in the axes of the fit."""
        self = cls.__new__(cls)
        HostEngine.__init__(self, frame, covariates, workers)
        self.x, self.cuts, self.weight, self.v = block.x, np.array(block.cuts), block.weight, block.covariates
        self.counts, self.group_weight = group_sizes(self.x, self.cuts, self.weight)
        return self

    @cached_property
    def _whole(self) -> Block:
        return Block(self.x, self.cuts.tolist(), self.weight, self.v, space=[], only=True)

    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        if self.shares_spaces or self._extent > block_rows(width):
            return super().total(function, *args, width=width)
        with one_thread(), quiet():
            return function(self._whole, *args)

    @property
    def _extent(self) -> int:
        return self.x.shape[1]

    def _block(self, rows: slice) -> Block:
        return sorted_slice(self.x, self.cuts, self.weight, self.v, rows)

    def select(self, places: list[Ints]) -> tuple[Array, Array | None, Array | None]:
        columns = np.concatenate([a + group for a, group in zip(self.cuts, places, strict=True)])
        weight = None if self.weight is None else self.weight[columns]
        return self.x[:, columns], weight, None if self.v is None else self.v[:, columns]


def sorted_block(
    X: AnyArray,
    z: Ints,
    weight: Array | None,
    n_classes: int,
    frame: Frame,
    covariates: Covariates,
) -> Block:
    """Rows (n, d) of the user as a block: sorted by class, unlabelled rows last, in the axes of the fit."""
    order = np.argsort(z, kind="stable")
    unlabelled = int(np.sum(z < 0))
    order = np.concatenate([order[unlabelled:], order[:unlabelled]])
    X = X[order]
    cuts = [0, *np.cumsum(np.bincount(z[z >= 0], minlength=n_classes)).tolist()]
    return Block(frame.enter(X), cuts, None if weight is None else weight[order], covariates.enter(X))


def row_order(X: AnyArray, z: AnyArray, weight: Array | None = None) -> Ints:
    """Positions of rows sorted by their features, then by labels (or shares of votes) and weights.

    The same rows are then in the same order however they were given, and stay so if a scaler's rounding differs.
    """
    order, group = np.arange(len(z)), np.zeros(len(z), dtype=int)
    tied = np.arange(len(z))  # places in `order` of rows that are equal to a neighbour in all keys so far
    for i, key in enumerate(chain(X.T, z.T if z.ndim == 2 else [z], [] if weight is None else [weight])):
        values = key[order[tied]]
        within = np.lexsort((values, group[tied])) if i else np.argsort(values, kind="stable")
        order[tied], values = order[tied[within]], values[within]
        before, after = values[:-1], values[1:]
        same = (before == after) | ((before != before) & (after != after))  # NaN is equal to NaN
        same &= group[tied[:-1]] == group[tied[1:]]
        group[tied] = np.maximum.accumulate(np.where(np.append(True, ~same), tied, 0))
        tied = tied[np.append(same, False) | np.append(False, same)]
        if not len(tied):
            break
    return order


class FileEngine(HostEngine):
    """Rows of an array of any numeric dtype, usually a memory map: each pass reads, sorts and transforms them block by block.

    Arguments are those of `NumpyEngine`; rows of weight zero are ignored.
    """

    def __init__(
        self,
        X: AnyArray,
        z: Ints,
        weight: AnyArray | None,
        n_classes: int,
        frame: Frame,
        covariates: Covariates = NO_COVARIATES,
        workers: int = 1,
    ):
        super().__init__(frame, covariates, workers)
        self.X, self.z, self.weight, self.n_classes = X, z, weight, n_classes

        def count(rows: slice) -> tuple[AnyArray, Array]:
            group = np.where(z[rows] < 0, n_classes, z[rows])
            w = None if weight is None else np.asarray(weight[rows], dtype=float)
            counted = group if w is None else group[w > 0]
            return np.bincount(counted, minlength=n_classes + 1), np.bincount(group, w, n_classes + 1).astype(float)

        by_chunk = ordered(lambda: count, slices(len(z), _COUNTED_ROWS), workers)
        self._counts = np.array([counts for counts, _ in by_chunk])
        self.counts = self._counts.sum(axis=0)
        self.group_weight = np.sum([weights for _, weights in by_chunk], axis=0)

    @property
    def _extent(self) -> int:
        return len(self.z)

    def _block(self, rows: slice) -> Block:
        X, z = np.array(self.X[rows], dtype=float), self.z[rows]
        release(self.X[rows])
        w = None
        if self.weight is not None:
            w = np.array(self.weight[rows], dtype=float)
            release(self.weight[rows])
            if not w.all():
                X, z, w = X[w > 0], z[w > 0], w[w > 0]
        return sorted_block(X, z, w, self.n_classes, self.frame, self.covariates)

    def select(self, places: list[Ints]) -> tuple[Array, Array | None, Array | None]:
        first = np.cumsum(self._counts, axis=0) - self._counts  # rows of each group before a chunk
        x, weight, covariates = [], [], []
        for k, group in enumerate(places):
            chunk = np.searchsorted(first[:, k] + self._counts[:, k], group, side="right")
            for c in np.unique(chunk).tolist():
                rows = slice(c * _COUNTED_ROWS, (c + 1) * _COUNTED_ROWS)
                X, w = self._read(rows, k, group[chunk == c] - first[c, k])
                x.append(self.frame.enter(X))
                if w is not None:
                    weight.append(w)
                if self.covariates.columns:
                    covariates.append(self.covariates.enter(X))
        return (
            np.concatenate(x, axis=1),
            np.concatenate(weight) if weight else None,
            np.concatenate(covariates, axis=1) if covariates else None,
        )

    def _read(self, rows: slice, group: int, places: Ints) -> tuple[Array, Array | None]:
        """Rows and weights of one group in a chunk, by their positions in the group."""
        wanted, w = self.z[rows] == (group if group < self.n_classes else -1), None
        if self.weight is not None:
            w = np.array(self.weight[rows], dtype=float)
            release(self.weight[rows])
            wanted = wanted & (w > 0)
        selected = np.flatnonzero(wanted)[places]
        X = np.array(self.X[rows][selected], dtype=float)
        release(self.X[rows])
        return X, None if w is None else w[selected]


class HostRows(Rows):
    """Rows in memory or in a file.

    Attributes
    ----------
    counted, labels, weight, kept : arrays
        The rows of positive weight, their codes, their weights (None if unweighted) and their positions (None if these are all
        rows, in order). A row with votes for several classes is there once for each of them. Rows to be fitted are in
        `row_order`, so that no result depends on the order in which they were given, unless they are more than `most_sorted`.
        For rows in a file, all rows as they are, whatever their weight.
    """

    takes_out = True
    most_sorted = MOST_SORTED

    counted: AnyArray
    labels: Ints
    weight: Array | None
    kept: Ints | None

    @property
    def in_file(self) -> bool:
        """Whether the rows stay in a file."""
        return in_file(self.X)

    @cached_property
    def workers(self) -> int:
        """Number of threads."""
        return available() if len(self.X) >= MANY_ROWS else 1

    def _add_labels(self, y: Any, sample_weight: Any, missing: Any, named: Any, classes: Any) -> None:
        y, sample_weight, missing = to_host_or_refuse("the fit", y, sample_weight, missing)
        self.codes, self.classes, self.shares = encoded(y, named, classes)
        check_lengths(self.X, self.codes)
        self.asked = asked_labels(missing, self.codes)
        to_check = self.classes if classes is None else self.classes[:0]
        copies = None if self.shares is None else copies_of(self.shares)
        if copies is not None and len(copies.rows) > len(self.codes):
            if self.in_file:
                raise ValueError(
                    "rows with votes for several classes must be in memory, and X is in a file: pass np.array(X), or write each "
                    "row once for every class with votes, with the share of the votes as its sample_weight."
                )
            weight = copies.share
            if sample_weight is not None:
                weight = weight * checked_weights(self.X, sample_weight)[copies.rows]
            self.kept = copies.rows[weight > 0.0]
            self.counted, self.labels, self.weight = weighted_rows(self.X[copies.rows], copies.z, weight, to_check)
        elif self.in_file:
            self.labels_in_file = isinstance(y, np.memmap)
            self.weight = file_weights(self.X, self.codes, sample_weight, to_check)
            self.counted, self.labels, self.kept = self.X, self.codes, None
        else:
            self.counted, self.labels, self.weight = weighted_rows(self.X, self.codes, sample_weight, to_check)
            all_count = len(self.counted) == len(self.X)
            self.kept = None if all_count else np.flatnonzero(np.asarray(sample_weight) > 0)
        if classes is None and not self.in_file and len(self.labels) <= self.most_sorted:
            order = row_order(self.counted, self.groups, self.weight)
            if (order[1:] < order[:-1]).any():
                self.counted, self.labels = self.counted[order], self.labels[order]
                self.weight = None if self.weight is None else self.weight[order]
                self.kept = order if self.kept is None else self.kept[order]

    @property
    def missing(self) -> Bools:
        """Whether the label of each row in `counted` was missing."""
        return (self.labels < 0) | (self.groups >= len(self.classes))

    @property
    def groups(self) -> Ints:
        """The labels, larger by the number of classes where they were asked for."""
        if self.asked is None:
            return self.labels
        asked = self.asked if self.kept is None else self.asked[self.kept]
        return np.where(asked, self.labels.astype(np.int64) + len(self.classes), self.labels)

    def numbered(self, y: Any, classes: AnyArray) -> AnyArray:
        codes, _, shares = encoded(to_host_or_refuse("impute", open_array(y, "y"))[0], None, classes)
        check_lengths(self.X, codes)
        return codes if shares is None else shares

    def _map(self, function: Any, beside: Any, names: list[str], width: int, shape: Any, dtype: Any, out: Any) -> Any:
        X = self.X

        def fill(results: AnyArray) -> None:
            def fill_slice(rows: slice) -> None:
                x = np.asarray(X[rows], dtype=float)
                check_finite(x, names, rows.start, self.allow_nan)
                results[rows] = function(x, *(values[rows] for values in beside))
                release(X[rows])
                release(results[rows])

            ordered(lambda: fill_slice, slices(len(X), block_rows(width)), self.workers)

        return write_array(fill, out, (len(X), *shape), dtype)

    @cached_property
    def moments(self) -> GroupMoments:  # type: ignore[override]
        def part(rows: slice) -> GroupMoments:
            weight = None if self.weight is None else self.weight[rows]
            moments = group_moments(self.counted[rows], self.labels[rows], weight, len(self.classes), self.only_squares)
            release(self.counted[rows])
            if weight is not None:
                release(weight)
            return moments

        chunks = slices(len(self.labels), _MOMENT_ROWS)
        batches = (ordered(lambda: part, chunks[a : a + _BATCH], self.workers) for a in range(0, len(chunks), _BATCH))
        return merged(chain.from_iterable(batches))

    def check_values(self, names: list[str]) -> None:
        places = None if self.kept is None else np.unique(self.kept)  # in the order of the user
        check_finite(self.X if places is None else self.X[places], names, allow_nan=self.allow_nan, places=places)

    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> Engine:
        kind = FileEngine if self.in_file else NumpyEngine
        n_groups = len(self.classes) * (1 + (self.asked is not None))
        return kind(self.counted, self.groups, self.weight, n_groups, frame, covariates, self.workers)
