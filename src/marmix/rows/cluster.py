"""Rows on a Dask cluster: each worker holds its partitions, parameters go to it and sums come back.

On every worker lives a `Holder`, a Dask actor, with the rows of some partitions in the axes of the fit. A pass is one small
message to each holder and one back, whatever the graph behind the rows, and sums are added in the order of the partitions: the
result does not depend on which worker has which. A worker that is lost takes no result with it; its partitions are computed again
from the graph, elsewhere.

Without a `distributed.Client` Dask's own scheduler computes the partitions into this process, and one holder has them all.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial, reduce
from itertools import count
from operator import add
from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.delayed import delayed
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_array

from marmix.arrays import Array, on_cluster
from marmix.labels import choose_classes, number_labels
from marmix.likelihood import Block
from marmix.moments import GroupMoments, merged
from marmix.rows import NO_COVARIATES, Covariates, Engine, Frame, NumpyEngine
from marmix.rows.checks import check_lengths, check_weighted_classes
from marmix.rows.engine import Rows, encoded, refuse_out
from marmix.rows.holders import Crew, Shared
from marmix.rows.host import MANY_ROWS, HostRows
from marmix.streams import opened
from marmix.workers import available

# Partitions are joined up to so many rows, times the square of the features: as much work as a block costs anyway.
_JOINED = 2**16


class ClusterEngine(Engine):
    """Rows that the workers of a cluster hold, numbered by a `Crew`."""

    def __init__(self, crew: Crew, frame: Frame, covariates: Covariates):
        super().__init__(frame, covariates)
        self._crew, self._keys = crew, count()
        entered = crew.call("enter", frame, covariates, step=True)
        self._runs = list(entered)
        self._counts, weights = (list(values) for values in zip(*entered.values(), strict=True))
        self.counts, self.group_weight = np.sum(self._counts, axis=0), np.sum(weights, axis=0)

    def shared(self, value: Any) -> Shared:
        key = Shared(next(self._keys))
        self._crew.call("share", key.key, value, step=True)
        return key

    def map(self, function: Callable[..., Any], *args: Any, width: int) -> list[Any]:
        return [part for parts in self._crew.call("map", function, width, *args).values() for part in parts]

    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        return reduce(add, self._crew.call("total", function, width, *args).values())

    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        """Rows by their places, which ascend."""
        ends = np.cumsum(self._counts, axis=0)
        first = ends - self._counts
        split = [np.split(group, np.searchsorted(group, ends[:-1, k])) for k, group in enumerate(places)]
        by_run = {i: [split[k][j] - first[j, k] for k in range(len(places))] for j, i in enumerate(self._runs)}
        parts = list(self._crew.call("select", own=by_run).values())
        at = [np.cumsum([0, *map(len, by_run[i])]) for i in self._runs]
        runs = [(j, slice(*at[j][k : k + 2])) for k in range(len(places)) for j in range(len(parts))]

        def sorted_rows(item: int) -> Any:
            if parts[0][item] is None:
                return None
            return np.concatenate([parts[j][item][..., run] for j, run in runs], axis=-1)

        return sorted_rows(0), sorted_rows(1), sorted_rows(2)

    def holding(self, block: Block) -> NumpyEngine:
        workers = available() if block.x.shape[1] >= MANY_ROWS else 1
        return NumpyEngine.of_block(block, self.frame, self.covariates, workers)

    def release(self) -> None:
        """Let the rows go, before nothing refers to them."""
        self._crew.release()


class ClusterRows(Rows):
    """Rows of a Dask collection.

    With labels they are on the workers until `release`, the end of a fit, or until nothing refers to them any more.
    """

    def __init__(self, X: Any):
        super().__init__(X)
        self._x, self._lengths = _partitions(X)
        self._crew: Crew | None = None
        self._engine: ClusterEngine | None = None

    def with_labels(
        self, y: Any, sample_weight: Any = None, *, named: Any = None, classes: Any = None, single: bool = False
    ) -> "ClusterRows":
        y, sample_weight = opened(y, "y"), opened(sample_weight, "sample_weight")
        self._coded = not on_cluster(y)
        values, known = encoded(y, named, classes) if self._coded else (y, classes)
        labels = _beside(self.X, self._lengths, values, "y")
        weight = [None] * len(labels)
        if sample_weight is not None:
            weight = _beside(self.X, self._lengths, sample_weight, "sample_weight")
        self._parts = [delayed(_loaded)(*part) for part in zip(self._x, labels, weight, strict=True)]
        crew = self._held()
        if known is None:
            labels_found = [part for parts in crew.call("labels", named).values() for part in parts]
            known = choose_classes(labels_found, named, _declared_categories(y))
        self.classes = known
        self.codes = labels if self._coded else [delayed(number_labels)(part, known) for part in labels]
        self._number(crew)
        if classes is None:
            check_weighted_classes(self.classes, self.moments.weight[:-1] > 0.0)
        return self

    def numbered(self, y: Any, classes: NDArray[Any]) -> list[Any]:
        y = opened(y, "y")
        if not on_cluster(y):
            return _beside(self.X, self._lengths, encoded(y, None, classes)[0], "y")
        return [delayed(number_labels)(part, classes) for part in _beside(self.X, self._lengths, y, "y")]

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
        options = {"names": names, "width": width, "shape": shape, "dtype": dtype}
        shared = delayed(partial(_mapped, function, options), pure=False, traverse=False)
        parts = [shared(*values) for values in zip(self._x, *beside, strict=True)]
        return _stacked(parts, self._lengths, shape, dtype)

    def _held(self) -> Crew:
        """Holders of the rows, as they were loaded."""
        crew = Crew(self._parts, max(1, _JOINED // self.X.shape[1] ** 2))
        self._lengths = list(crew.lengths.values())
        return crew

    def _number(self, crew: Crew) -> None:
        """Have the labels numbered."""
        self._crew, self._counted = crew, crew.call("number", self._coded, self.classes, step=True)
        if not any(self._counted.values()):
            raise ValueError("X has no row of positive weight: there is nothing to fit.")

    def _numbered_crew(self) -> Crew:
        """Holders of numbered rows, which are computed anew where an engine has taken them."""
        if self._crew is None:
            self._number(self._held())
        assert self._crew is not None
        return self._crew

    @cached_property
    def moments(self) -> GroupMoments:  # type: ignore[override]
        return merged(self._numbered_crew().call("moments").values())

    def check_finite(self, names: list[str]) -> None:
        first = np.cumsum([0, *self._counted.values()]).tolist()
        for message in self._numbered_crew().call("wrong", names, own=dict(enumerate(first))).values():
            raise ValueError(message)
        raise ValueError("Input X has values so large that their squares overflow: rescale the features.")

    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> ClusterEngine:
        crew, self._crew = self._numbered_crew(), None
        self._engine = ClusterEngine(crew, frame, covariates)
        return self._engine

    def release(self) -> None:
        if self._engine is not None:
            self._engine.release()
            self._engine = None


# From collections to partitions, and back.


def described(X: Any) -> Any:
    """An empty table on the host with the features of a collection, for checks of their number and names."""
    if issparse(X._meta):
        raise TypeError(
            "Sparse data was passed, in the blocks of a Dask array, but marmix needs dense rows: covariances are dense. "
            "Reduce the columns first, or use X.map_blocks(lambda block: block.toarray())."
        )
    return np.empty((0, X.shape[1])) if isinstance(X, da.Array) else X._meta


def _partitions(collection: Any) -> tuple[list[Any], list[float]]:
    """Partitions of whole rows, delayed, and their lengths, NaN where these are unknown."""
    if not isinstance(collection, da.Array):
        parts = list(collection.to_delayed())
        return parts, [np.nan] * len(parts)
    if collection.ndim > 1 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})  # type: ignore[no-untyped-call]
    return list(collection.to_delayed().ravel()), list(collection.chunks[0])


def _beside(X: Any, lengths: list[float], values: Any, name: str) -> list[Any]:
    """Labels or weights of each partition of X: delayed, or as they are if they are local."""
    known = not np.isnan(lengths).any()
    values = values if on_cluster(values) else np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} should be a 1d array, got {values.ndim} dimensions instead: choose one column.")
    if not on_cluster(values):
        if not known:
            raise ValueError(
                f"{name} is a local array, but the lengths of X's partitions are unknown: give {name} as a Dask array or series "
                "with the same partitions, or call X.compute_chunk_sizes() first (X.to_dask_array(lengths=True) of a dataframe)."
            )
        check_lengths(X, values, name)
        return np.split(values, np.cumsum(lengths[:-1], dtype=int))
    parts, own = _partitions(values)
    if known and not np.isnan(own).any() and own != lengths:
        check_lengths(X, values, name)
        parts = _partitions(values.rechunk((tuple(lengths),)))[0]
    if len(parts) != len(lengths):
        raise ValueError(
            f"X has {len(lengths)} partitions and {name} has {len(parts)}, so that rows do not align: take both from the same "
            "dataframe, or call compute_chunk_sizes() of both arrays."
        )
    return parts


def _declared_categories(y: Any) -> list[Any] | None:
    """The categories of a series, where they are known before its rows are."""
    categories = getattr(getattr(y._meta, "dtype", None), "categories", None)
    return None if categories is None or not y.cat.known else list(categories)


def _check_aligned(X: Any, **beside: Any) -> None:
    for name, values in beside.items():
        if values is not None and len(values) != len(X):
            raise ValueError(
                f"a partition of X has {len(X)} rows and that of {name} has {len(values)}, so that rows do not align: take both "
                "from the same dataframe, or repartition them alike."
            )


def _loaded(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """A partition in memory."""
    _check_aligned(X, y=y, sample_weight=weight)
    numbers = [np.float64, np.float32]
    return check_array(X, dtype=numbers, ensure_all_finite=False, ensure_min_samples=0, input_name="X"), y, weight


def _mapped(function: Callable[..., Any], options: dict[str, Any], X: Any, *beside: Any) -> Any:
    """`Rows.map` of a partition."""
    for values in beside:
        _check_aligned(X, y=values)
    if not len(X):
        return np.empty((0, *options["shape"]), dtype=options["dtype"])
    return HostRows(np.asarray(X)).map(function, *beside, **options)


def _stacked(blocks: list[Any], lengths: Sequence[float], shape: tuple[int, ...], dtype: Any) -> Any:
    """Delayed blocks as one Dask array."""
    name, rest = f"marmix-{uuid4().hex}", (0,) * len(shape)
    graph: Any = {(name, i, *rest): block.key for i, block in enumerate(blocks)}
    layers = HighLevelGraph.from_collections(name, graph, dependencies=blocks)
    chunks = tuple(lengths), *((n,) for n in shape)
    return da.Array(layers, name, chunks, dtype=dtype)  # type: ignore[no-untyped-call]
