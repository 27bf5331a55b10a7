"""Rows on a Dask cluster: parameters are sent to the workers, which hold the rows, and sums are sent back.

Each worker has a `Holder`, a Dask actor, with the rows of some partitions in the axes of the fit. A pass is one small message to
each holder and one reply, whatever the task graph behind the rows. `Holders` is the client's side: it calls all holders, sorts
their results by partition, so that they do not depend on which worker has which rows, and recomputes the partitions of lost
workers from their graph. Without a `distributed.Client` the partitions are loaded into one holder in this process.
"""

import pickle
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial, reduce
from itertools import count
from operator import add
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from marmix.core.arrays import AnyArray, Array, Ints, on_cluster, unmasked
from marmix.core.files import open_array
from marmix.core.frames import NO_COVARIATES, Covariates, Frame
from marmix.core.labels import asked_labels, choose_classes, found_labels, has_votes, number_labels
from marmix.core.likelihood import Block
from marmix.core.moments import GroupMoments, group_moments, merged
from marmix.core.workers import available, ordered
from marmix.engines.checks import check_finite, check_lengths, check_weighted_classes, check_weights
from marmix.engines.host import MANY_ROWS, HostRows, NumpyEngine
from marmix.engines.rows import Engine, Rows, encoded, slices

# Small partitions are joined up to this many rows times the square of the features: about the work of one block.
_JOINED = 2**16
# Rows whose moments are computed together.
_CHUNK = 2**15
# Seconds between checks of whether a worker that does not reply has died.
_POLL = 1.0
# How often the rows of lost workers are recomputed during one call.
_ATTEMPTS = 10
Calls = list[tuple[str, tuple[Any, ...]]]  # method names with their arguments


class Shared(NamedTuple):
    """Key of a value that was sent to the holders before."""

    key: int


class Shard:
    """Rows of one partition or of several small adjacent ones: loaded, then with encoded labels, then in the axes of a fit."""

    def __init__(self, loaded: list[tuple[Any, ...]], threads: int, spaces: list[list[Array]]):
        self._loaded, self._threads, self._spaces, self.empty = loaded, threads, spaces, False
        self._shared: dict[int, Any] = {}

    def labels(self, classes: Any) -> list[tuple[AnyArray, Counter[str]]]:
        """Distinct labels, among `classes` if they are named, and texts that counted as missing."""
        return [found_labels(y, classes) for _, y, *_ in self._loaded]

    def number(self, coded: bool, classes: AnyArray) -> int:
        """Encode labels that are not `coded` yet, and drop rows of weight zero; return the number of rows."""
        parts = zip(*(_weighted(part, coded, classes) for part in self._loaded), strict=True)
        X, z, weight, asked = (part[0] if len(part) == 1 or part[0] is None else np.concatenate(part) for part in parts)
        self._rows, self._n_classes, self._asked, self.empty = (X, z, weight), len(classes), asked, not len(z)
        del self._loaded
        return len(z)

    def moments(self) -> GroupMoments:
        """Moments of each class and of the unlabelled rows."""
        X, z, weight = self._rows
        return merged(
            group_moments(X[rows], z[rows], None if weight is None else weight[rows], self._n_classes)
            for rows in slices(len(z), _CHUNK)
        )

    def any_asked(self) -> bool:
        """Whether the label of some row was missing and then asked for."""
        return self._asked is not None and bool(self._asked.any())

    def error(self, names: list[str], first: int) -> str | None:
        """Error message about features that are not finite; row numbers count from `first`."""
        try:
            check_finite(self._rows[0], names, first)
        except ValueError as error:
            return str(error)
        return None

    def enter(self, frame: Frame, covariates: Covariates) -> tuple[Ints, Array]:
        """Transform the rows to the axes of a fit; return the number and weight of the rows of each group."""
        X, z, weight = self._rows
        groups = self._n_classes
        if self._asked is not None:
            z, groups = np.where(self._asked, z.astype(np.int64) + groups, z), 2 * groups
        self._engine = NumpyEngine(X, z, weight, groups, frame, covariates, self._threads)
        self._engine.spaces, self._engine.shares_spaces = self._spaces, True
        del self._rows, self._asked
        return self._engine.counts, self._engine.group_weight

    def share(self, key: int, value: Any) -> None:
        """Store a value for the arguments of later calls."""
        self._shared[key] = value

    def total(self, function: Callable[..., Any], width: int, *args: Any) -> Any:
        """Sum of a function over all blocks."""
        return self._engine.total(function, *self._values(args), width=width)

    def map(self, function: Callable[..., Any], width: int, *args: Any) -> list[Any]:
        """Results of a function for all blocks."""
        return self._engine.map(function, *self._values(args), width=width)

    def _values(self, args: tuple[Any, ...]) -> list[Any]:
        return [self._shared[value.key] if isinstance(value, Shared) else value for value in args]

    def select(self, places: list[Ints]) -> tuple[Array, Array | None, Array | None]:
        """Selected rows, given by their positions in each group."""
        return self._engine.select(places)


def _weighted(loaded: tuple[Any, ...], coded: bool, classes: AnyArray) -> tuple[Any, ...]:
    """Rows of positive weight, with encoded labels, and whether these were asked for; None if nothing is known of that."""
    X, y, weight, missing = loaded
    z, asked = y if coded else number_labels(y, classes), None
    if missing is not None:
        asked = asked_labels(missing, z)
        asked = np.zeros(len(z), dtype=bool) if asked is None else asked
    if weight is None:
        return X, z, None, asked
    weight = np.asarray(weight, dtype=float)
    check_weights(weight)
    if weight.all():
        return X, z, weight, asked
    return X[weight > 0], z[weight > 0], weight[weight > 0], None if asked is None else asked[weight > 0]


class Holder:
    """The shards of a worker, processed by `threads` threads; by default as many as the Dask worker has."""

    def __init__(self, shards: list[int], loaded: Sequence[Any], threads: int | None = None):
        if threads is None:
            from distributed import get_worker

            threads = int(get_worker().state.nthreads)
        self._threads, inner = threads, max(1, threads // len(shards))
        self._spaces: list[list[Array]] = []  # working memory of idle threads
        self._shards = {i: Shard(parts, inner, self._spaces) for i, parts in zip(shards, loaded, strict=True)}

    def perform_pickled(self, message: bytes) -> bytes:
        """`perform` on pickled arguments and results, which are sent faster than many small arrays."""
        return pickle.dumps(self.perform(*pickle.loads(message)))

    def perform(self, calls: Calls, arguments: dict[int, Any]) -> dict[int, Any]:
        """Call methods of all shards that have rows; return the results of the last call by shard.

        The last call gets the shard's entry of `arguments`, if there is one, as a further argument.
        """

        def perform_on(i: int) -> Any:
            result = None
            for j, (method, args) in enumerate(calls, start=1):
                last = (arguments[i],) if j == len(calls) and i in arguments else ()
                result = None if self._shards[i].empty else getattr(self._shards[i], method)(*args, *last)
            return result

        results = ordered(lambda: perform_on, list(self._shards), self._threads)
        return {i: result for i, result in zip(self._shards, results, strict=True) if result is not None}


class _WorkerLostError(Exception):
    """A worker has died or does not reply."""


class _Handle:
    """A holder on the client's side: the future of an actor, or a `Holder` in this process."""

    def __init__(self, shards: list[int], future: Any, holder: Holder | None = None):
        self.shards, self._future, self._holder = shards, future, holder
        self._actor: Any = None
        self.steps = 0  # number of steps that its rows have gone through

    def send(self, calls: Calls, arguments: dict[int, Any]) -> Callable[[], dict[int, Any]]:
        """Send calls, and return a function that waits for the results."""
        holder = self._holder
        if holder is not None:
            return lambda: holder.perform(calls, arguments)
        import cloudpickle  # type: ignore[import-untyped]

        try:
            self._actor = self._actor or self._future.result()
            reply = self._actor.perform_pickled(cloudpickle.dumps((calls, arguments)))
        except RuntimeError:  # Dask knows that the actor's worker has died
            reply = None
        return lambda: self._wait(reply)

    def _wait(self, reply: Any) -> dict[int, Any]:
        while reply is not None:
            done = reply.done()
            try:
                results: dict[int, Any] = pickle.loads(reply.result(timeout=None if done else _POLL))
                return results
            except TimeoutError:
                if done or self._future.status != "finished":
                    break
            except OSError:
                break
        raise _WorkerLostError


def joined(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Group adjacent partitions so that each group has at most `most` rows or is a single partition."""
    groups: list[list[int]] = []
    rows = 0
    for i, length in enumerate(lengths):
        if not groups or (length and rows + length > most):
            groups.append([])
            rows = 0
        groups[-1].append(i)
        rows += length
    return groups


class Holders:
    """The holders of all partitions.

    Parameters
    ----------
    parts : list of Delayed
        Features, labels and weights of each partition.
    most : int
        Number of rows up to which adjacent partitions are joined to a shard.
    """

    def __init__(self, parts: list[Any], most: int):
        from dask.base import get_scheduler

        self._parts, self._most = parts, most
        self._shards: list[list[int]] = []  # the partitions of each
        self._client: Any = getattr(get_scheduler(), "__self__", None)  # type: ignore[no-untyped-call]
        self._steps: Calls = []  # calls that changed the rows, repeated for rows that are recomputed
        self.lengths: dict[int, int] = {}
        self._actors: list[Any] = []
        if self._client is not None:
            # free the rows with this object, in whichever thread it is deleted
            cancel: Any = self._client.loop.add_callback, self._client.cancel
            weakref.finalize(self, *cancel, self._actors, asynchronous=True).atexit = False  # type: ignore[call-arg, misc]
        self._handles = self._load(list(range(len(parts))))

    def call(
        self, method: str, *args: Any, arguments: dict[int, Any] | None = None, step: bool = False
    ) -> dict[int, Any]:
        """Call a method of all shards; return the results of those that have rows, in order.

        Parameters
        ----------
        arguments : dict or None
            A last argument for each shard.
        step : bool
            Whether the method changes the rows.
        """
        results: dict[int, Any] = {}
        pending = self._handles
        for _ in range(_ATTEMPTS):
            replies = []
            for handle in pending:
                selected = {i: arguments[i] for i in handle.shards if i in arguments} if arguments else {}
                replies.append(handle.send([*self._steps[handle.steps :], (method, args)], selected))
            dead = []
            for handle, reply in zip(pending, replies, strict=True):
                try:
                    results |= reply()
                    handle.steps = len(self._steps) + step
                except _WorkerLostError:
                    dead.append(handle)
            if not dead:
                self._steps += [(method, args)] * step
                return dict(sorted(results.items()))
            alive = [handle for handle in self._handles if handle not in dead]
            pending = self._load(sorted(i for handle in dead for shard in handle.shards for i in self._shards[shard]))
            self._handles = alive + pending
        raise RuntimeError(f"Workers were lost {_ATTEMPTS} times in one pass over the rows: see their logs.")

    def _load(self, indices: list[int]) -> list[_Handle]:
        """Compute partitions and create holders for them."""
        parts, client = [self._parts[i] for i in indices], self._client
        if client is None:
            from dask.base import compute

            loaded = dict(zip(indices, compute(*parts), strict=True))  # type: ignore[no-untyped-call]
            shards = self._shards_of({i: _length(part) for i, part in loaded.items()})
            rows = [[loaded[i] for i in self._shards[shard]] for shard in shards]
            return [_Handle(shards, None, Holder(shards, rows, available()))]
        from distributed import wait

        # no optimisation per call, so that tasks keep their keys and workers can reuse results that they still have
        loaded = dict(zip(indices, client.compute(parts, optimize_graph=False), strict=True))
        lengths = client.gather(client.map(_length, list(loaded.values())))
        assigned = self._assigned(loaded, self._shards_of(dict(zip(indices, lengths, strict=True))))
        actors = []
        for address, shards in assigned.items():
            rows = [[loaded[i] for i in self._shards[shard]] for shard in shards]
            actors.append(client.submit(Holder, shards, rows, workers=[address], allow_other_workers=True, actor=True))
        self._actors += actors
        wait(actors)  # type: ignore[no-untyped-call]
        return [_Handle(*pair) for pair in zip(assigned.values(), actors, strict=True)]

    def _shards_of(self, lengths: dict[int, int]) -> list[int]:
        """The shards of partitions with these lengths."""
        if not self.lengths:
            self.lengths, self._shards = lengths, joined(list(lengths.values()), self._most)
        return [i for i, partitions in enumerate(self._shards) if partitions[0] in lengths]

    def _assigned(self, loaded: dict[int, Any], shards: list[int]) -> dict[str, list[int]]:
        """Shards by worker: where the rows are, as long as no worker gets more than its share."""
        self._client.wait_for_workers(1)
        threads: dict[str, int] = self._client.nthreads()
        homes = self._client.who_has(list(loaded.values()))
        share = sum(self.lengths[i] for i in loaded) / sum(threads.values())
        load, assigned = dict.fromkeys(threads, 0.0), dict[str, list[int]]()
        for shard in shards:
            rows = sum(self.lengths[i] for i in self._shards[shard])
            home = homes.get(loaded[max(self._shards[shard], key=lambda i: self.lengths[i])].key, ())
            near = [a for a in home if a in load and load[a] + rows / 2 <= share * threads[a]]
            address = near[0] if near else min(load, key=lambda a: load[a] / threads[a])
            load[address] += rows
            assigned.setdefault(address, []).append(shard)
        return assigned


def _length(loaded: tuple[Any, ...]) -> int:
    return len(loaded[0])


class ClusterEngine(Engine):
    """Rows on the workers of a cluster, with encoded labels."""

    def __init__(self, holders: Holders, frame: Frame, covariates: Covariates):
        super().__init__(frame, covariates)
        self._holders, self._keys = holders, count()
        entered = holders.call("enter", frame, covariates, step=True)
        self._shards = list(entered)
        self._counts, weights = (list(values) for values in zip(*entered.values(), strict=True))
        self.counts, self.group_weight = np.sum(self._counts, axis=0), np.sum(weights, axis=0)

    def shared(self, value: Any) -> Shared:
        key = Shared(next(self._keys))
        self._holders.call("share", key.key, value, step=True)
        return key

    def map(self, function: Callable[..., Any], *args: Any, width: int) -> list[Any]:
        return [part for parts in self._holders.call("map", function, width, *args).values() for part in parts]

    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        return reduce(add, self._holders.call("total", function, width, *args).values())

    def select(self, places: list[Ints]) -> tuple[Array, Array | None, Array | None]:
        stop = np.cumsum(self._counts, axis=0)
        first = stop - self._counts
        split = [np.split(group, np.searchsorted(group, stop[:-1, k])) for k, group in enumerate(places)]
        by_shard = {i: [split[k][j] - first[j, k] for k in range(len(places))] for j, i in enumerate(self._shards)}
        parts = list(self._holders.call("select", arguments=by_shard).values())
        ends = [np.cumsum([0, *map(len, by_shard[i])]) for i in self._shards]
        groups = [(j, slice(*ends[j][k : k + 2])) for k in range(len(places)) for j in range(len(parts))]

        def sorted_rows(item: int) -> Any:
            if parts[0][item] is None:
                return None
            return np.concatenate([parts[j][item][..., columns] for j, columns in groups], axis=-1)

        return sorted_rows(0), sorted_rows(1), sorted_rows(2)

    def engine_of(self, block: Block) -> NumpyEngine:
        workers = available() if block.x.shape[1] >= MANY_ROWS else 1
        return NumpyEngine.of_block(block, self.frame, self.covariates, workers)


class ClusterRows(Rows):
    """Rows of a Dask collection; with labels they are on the workers as long as this object or its engine."""

    def __init__(self, X: Any):
        super().__init__(X)
        self._x, self._lengths = _partitions(X)
        self._holders: Holders | None = None

    def _add_labels(self, y: Any, sample_weight: Any, missing: Any, named: Any, classes: Any) -> None:
        _refuse_votes(y)
        self._coded = not on_cluster(y)
        values, all_classes = encoded(y, named, classes)[:2] if self._coded else (y, classes)
        labels = _aligned(self.X, self._lengths, values, "y")
        beside = [
            [None] * len(labels) if values is None else _aligned(self.X, self._lengths, values, name)
            for name, values in (("sample_weight", sample_weight), ("missing", missing))
        ]
        self._parts = [_delayed(_loaded)(*part) for part in zip(self._x, labels, *beside, strict=True)]
        holders = self._load()
        if all_classes is None:
            distinct = [part for parts in holders.call("labels", named).values() for part in parts]
            all_classes, self.missing_texts = choose_classes(distinct, named)
        self.classes = all_classes
        self.codes = labels if self._coded else [_delayed(number_labels)(part, all_classes) for part in labels]
        self._encode(holders)
        self.asked = True if missing is not None and any(holders.call("any_asked").values()) else None
        if classes is None:
            check_weighted_classes(self.classes, self.moments.weight[:-1] > 0.0)

    def numbered(self, y: Any, classes: AnyArray) -> list[Any]:
        y = open_array(y, "y")
        _refuse_votes(y)
        if not on_cluster(y):
            return _aligned(self.X, self._lengths, encoded(y, None, classes)[0], "y")
        return [_delayed(number_labels)(part, classes) for part in _aligned(self.X, self._lengths, y, "y")]

    def _map(self, function: Any, beside: Any, names: list[str], width: int, shape: Any, dtype: Any, out: Any) -> Any:
        options = {"names": names, "width": width, "shape": shape, "dtype": dtype, "allow_nan": self.allow_nan}
        mapped = _delayed(partial(_mapped, function, options), pure=False, traverse=False)
        return _stacked([mapped(*values) for values in zip(self._x, *beside, strict=True)], self._lengths, shape, dtype)

    def _load(self) -> Holders:
        holders = Holders(self._parts, max(1, _JOINED // self.X.shape[1] ** 2))
        self._lengths = list(holders.lengths.values())
        return holders

    def _encode(self, holders: Holders) -> None:
        self._holders, self._counts = holders, holders.call("number", self._coded, self.classes, step=True)
        if not any(self._counts.values()):
            raise ValueError("X has no row of positive weight: there is nothing to fit.")

    def _encoded_holders(self) -> Holders:
        """Holders of rows with encoded labels, loaded again if an engine has taken them over."""
        if self._holders is None:
            self._encode(self._load())
        assert self._holders is not None
        return self._holders

    @cached_property
    def moments(self) -> GroupMoments:  # type: ignore[override]
        return merged(self._encoded_holders().call("moments").values())

    def check_values(self, names: list[str]) -> None:
        first = np.cumsum([0, *self._counts.values()]).tolist()
        for message in self._encoded_holders().call("error", names, arguments=dict(enumerate(first))).values():
            raise ValueError(message)

    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> ClusterEngine:
        holders, self._holders = self._encoded_holders(), None
        return ClusterEngine(holders, frame, covariates)


def _delayed(function: Callable[..., Any], **options: Any) -> Any:
    """A function whose calls are tasks of Dask."""
    from dask.delayed import delayed

    return delayed(function, **options)


def described(X: Any) -> Any:
    """An empty table with the columns of a Dask collection, to check their number and names."""
    if issparse(X._meta):
        raise TypeError(
            "Sparse data was passed, in the blocks of a Dask array, but marmix needs dense rows. "
            "Reduce the columns first, or use X.map_blocks(lambda block: block.toarray())."
        )
    return np.empty((0, X.shape[1])) if hasattr(X, "chunks") else X._meta


def _partitions(collection: Any) -> tuple[list[Any], list[float]]:
    """Delayed partitions of complete rows, and their lengths (NaN if unknown)."""
    if not hasattr(collection, "chunks"):  # a dataframe or series
        parts = list(collection.to_delayed())
        return parts, [np.nan] * len(parts)
    if collection.ndim > 1 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    return list(collection.to_delayed().ravel()), list(collection.chunks[0])


def _aligned(X: Any, lengths: list[float], values: Any, name: str) -> list[Any]:
    """Labels or weights by partition of X: delayed, or arrays if they are local."""
    lengths_known = not np.isnan(lengths).any()
    values = values if on_cluster(values) else np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} should be a 1d array, got {values.ndim} dimensions instead: choose one column.")
    if not on_cluster(values):
        if not lengths_known:
            raise ValueError(
                f"{name} is a local array, but the lengths of X's partitions are unknown: give {name} as a Dask array or series "
                "with the same partitions, or call X.compute_chunk_sizes() first (X.to_dask_array(lengths=True) of a dataframe)."
            )
        check_lengths(X, values, name)
        return np.split(values, np.cumsum(lengths[:-1], dtype=int))
    parts, value_lengths = _partitions(values)
    if lengths_known and not np.isnan(value_lengths).any() and value_lengths != lengths:
        check_lengths(X, values, name)
        parts = _partitions(values.rechunk((tuple(lengths),)))[0]
    if len(parts) != len(lengths):
        raise ValueError(
            f"X has {len(lengths)} partitions and {name} has {len(parts)}, so that rows do not align: take both from the same "
            "dataframe, or call compute_chunk_sizes() of both arrays."
        )
    return parts


def _refuse_votes(y: Any) -> None:
    if has_votes(y):
        raise ValueError(
            "votes, y of shape (n, K), are not supported on a cluster: repeat each row once for every class with votes, with the "
            "share of the votes as its sample_weight."
        )


def _check_aligned(X: Any, **beside: Any) -> None:
    for name, values in beside.items():
        if values is not None and len(values) != len(X):
            raise ValueError(
                f"a partition of X has {len(X)} rows and that of {name} has {len(values)}, so that rows do not align: take both "
                "from the same dataframe, or repartition them alike."
            )


def _loaded(X: Any, y: Any, weight: Any, missing: Any) -> tuple[Any, ...]:
    """A partition in memory, checked."""
    _check_aligned(X, y=y, sample_weight=weight, missing=missing)
    numbers = [np.float64, np.float32]
    X = check_array(unmasked(X), dtype=numbers, ensure_all_finite=False, ensure_min_samples=0, input_name="X")
    return X, y, unmasked(weight), unmasked(missing)


def _mapped(function: Callable[..., Any], options: dict[str, Any], X: Any, *beside: Any) -> Any:
    """`Rows.map` for one partition."""
    options = dict(options)
    for values in beside:
        _check_aligned(X, y=values)
    if not len(X):
        return np.empty((0, *options["shape"]), dtype=options["dtype"])
    rows = HostRows(np.asarray(unmasked(X)))
    rows.allow_nan = options.pop("allow_nan")
    return rows.map(function, *beside, **options)


def _stacked(blocks: list[Any], lengths: Sequence[float], shape: tuple[int, ...], dtype: Any) -> Any:
    """Concatenate delayed blocks to a Dask array."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    name, rest = f"marmix-{uuid4().hex}", (0,) * len(shape)
    graph: Any = {(name, i, *rest): block.key for i, block in enumerate(blocks)}
    layers = HighLevelGraph.from_collections(name, graph, dependencies=blocks)
    chunks = tuple(lengths), *((n,) for n in shape)
    return da.Array(layers, name, chunks, dtype=dtype)  # type: ignore[no-untyped-call]
