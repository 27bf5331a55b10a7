"""The workers of a Dask cluster and the rows they hold: who has what, how they are asked, and what happens when one is lost.

A worker's `Holder` is a Dask actor. `Crew` is the client's side: it asks all holders the same question, gives the answers in
the order of the partitions, and has the partitions of a lost worker computed again from their graph, elsewhere.
"""

import ctypes
import os
import pickle
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
from dask.base import compute, get_scheduler
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.labels import found_labels, number_labels
from marmix.moments import GroupMoments, group_moments, merged
from marmix.rows import Covariates, Frame, NumpyEngine
from marmix.rows.checks import check_finite, refuse_negative
from marmix.workers import available, ordered

# Rows whose moments are taken together.
_CHUNK = 2**15
# Seconds between looks at what does not answer, and those for which a cluster may have no worker.
_LOOK, _PATIENCE = 1.0, 60.0
# How often lost rows are computed again for one question.
_ATTEMPTS = 10
# Where workers share a process they take turns, lest they disagree on the threads of its linear algebra.
_TURN = Lock()
# Names of options of the GNU allocator, from malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

Calls = list[tuple[str, tuple[Any, ...]]]  # names of methods, and their arguments


class Shared(NamedTuple):
    """Stands for a value that the holders have already."""

    key: int


class Run:
    """Rows of a partition, or of small ones in a row: loaded, then numbered, then in the axes of a fit.

    What they were before is let go.
    """

    def __init__(self, loaded: list[tuple[Any, Any, Any]], threads: int, spaces: list[list[Array]]):
        self._loaded, self._threads, self._spaces, self.empty = loaded, threads, spaces, False
        self._shared: dict[int, Any] = {}

    def labels(self, classes: Any) -> list[NDArray[Any]]:
        """The labels found, among `classes` if they are named."""
        return [found_labels(y, classes) for _, y, _ in self._loaded]

    def number(self, coded: bool, classes: NDArray[Any]) -> int:
        """Number labels that are not `coded` yet, and leave rows of weight zero out; how many are left."""
        parts = zip(*(_counted(*part, coded, classes) for part in self._loaded), strict=True)
        X, z, weight = (one[0] if len(one) == 1 or one[0] is None else np.concatenate(one) for one in parts)
        self._rows, self._n_classes, self.empty = (X, z, weight), len(classes), not len(z)
        del self._loaded
        return len(z)

    def moments(self) -> GroupMoments:
        """Moments of each class and of the unlabelled."""
        X, z, weight = self._rows
        runs = [slice(a, a + _CHUNK) for a in range(0, len(z), _CHUNK)]
        weights = [None if weight is None else weight[run] for run in runs]
        return merged(group_moments(X[run], z[run], w, self._n_classes) for run, w in zip(runs, weights, strict=True))

    def wrong(self, names: list[str], first: int) -> str | None:
        """What is wrong with the features; rows number from `first` on."""
        try:
            check_finite(self._rows[0], names, first)
        except ValueError as error:
            return str(error)
        return None

    def enter(self, frame: Frame, covariates: Covariates) -> tuple[NDArray[np.integer], Array]:
        """Bring the rows into the axes of a fit; rows of each group, and their weights."""
        X, z, weight = self._rows
        self._engine = NumpyEngine(X, z, weight, self._n_classes, frame, covariates, self._threads)
        self._engine.spaces, self._engine.own_spaces = self._spaces, False
        del self._rows
        return self._engine.counts, self._engine.group_weight

    def share(self, key: int, value: Any) -> None:
        """Keep a value for the arguments of later calls."""
        self._shared[key] = value

    def total(self, function: Callable[..., Any], width: int, *args: Any) -> Any:
        """The sum of a function over all blocks."""
        return self._engine.total(function, *self._values(args), width=width)

    def map(self, function: Callable[..., Any], width: int, *args: Any) -> list[Any]:
        """A function of every block."""
        return self._engine.map(function, *self._values(args), width=width)

    def _values(self, args: tuple[Any, ...]) -> list[Any]:
        return [self._shared[value.key] if isinstance(value, Shared) else value for value in args]

    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        """Some rows of every group, by their places in it."""
        return self._engine.select(places)


def _counted(X: Any, y: Any, weight: Any, coded: bool, classes: NDArray[Any]) -> tuple[Any, Any, Any]:
    """The rows of positive weight, with numbers of classes."""
    z = y if coded else number_labels(y, classes)
    if weight is None:
        return X, z, None
    weight = np.asarray(weight, dtype=float)
    if not np.isfinite(weight).all():
        raise ValueError("Input sample_weight contains NaN or infinity.")
    refuse_negative(weight)
    return (X, z, weight) if weight.all() else (X[weight > 0], z[weight > 0], weight[weight > 0])


@contextmanager
def _memory_kept() -> Iterator[None]:
    """While it is open, memory that is freed stays with the process.

    Dask has its workers give it back at once, by `MALLOC_TRIM_THRESHOLD_`; a pass would then spend most of its time on asking
    for it again.
    """
    threshold = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    set_by_dask = threshold.isdecimal() and sys.platform == "linux"
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if set_by_dask else None
    if mallopt is None:
        yield
        return
    mallopt(_M_MMAP_THRESHOLD, 2**25)
    mallopt(_M_TRIM_THRESHOLD, 2**26)
    try:
        yield
    finally:
        mallopt(_M_TRIM_THRESHOLD, int(threshold))
        mallopt(_M_MMAP_THRESHOLD, 2**17)


class Holder:
    """The runs of a worker; `threads` share them, by default as many as the Dask worker has."""

    def __init__(self, runs: list[int], loaded: Sequence[Any], threads: int | None = None):
        if threads is None:
            from distributed import get_worker

            threads = int(get_worker().state.nthreads)
        self._threads, inner = threads, max(1, threads // len(runs))
        self._spaces: list[list[Array]] = []  # of the threads that have none to do
        self._runs = {r: Run(parts, inner, self._spaces) for r, parts in zip(runs, loaded, strict=True)}
        self._limited = os.environ.get("OMP_NUM_THREADS") == "1"  # as Dask starts its workers

    def answer(self, question: bytes) -> bytes:
        """`perform` from bytes to bytes, which travel faster than many small arrays."""
        return pickle.dumps(self.perform(*pickle.loads(question)))

    def perform(self, calls: Calls, own: dict[int, Any]) -> dict[int, Any]:
        """Call methods of every run that has rows, the last with an argument of its `own`; what that one returns."""

        def one(r: int) -> Any:
            found = None
            for j, (method, args) in enumerate(calls, start=1):
                last = (own[r],) if j == len(calls) and r in own else ()
                found = None if self._runs[r].empty else getattr(self._runs[r], method)(*args, *last)
            return found

        with nullcontext() if self._limited else _TURN, _memory_kept():
            found = ordered(lambda: one, list(self._runs), self._threads)
        return {r: answer for r, answer in zip(self._runs, found, strict=True) if answer is not None}


class _LostError(Exception):
    """A worker is gone, or does not answer."""


class _Held:
    """A holder as the client sees it: the future of an actor, or an object in this process."""

    def __init__(self, runs: list[int], future: Any, holder: Holder | None = None):
        self.runs, self._future, self._holder = runs, future, holder
        self._actor: Any = None
        self.steps = 0  # how many steps of the crew its rows have gone through

    def ask(self, calls: Calls, own: dict[int, Any]) -> Callable[[], dict[int, Any]]:
        """Send a question; what is returned waits for the answer."""
        holder = self._holder
        if holder is not None:
            return lambda: holder.perform(calls, own)
        try:
            self._actor = self._actor or self._future.result()
            reply = self._actor.answer(cloudpickle.dumps((calls, own)))
        except RuntimeError:  # as Dask calls an actor whose worker is known to be gone
            reply = None
        return lambda: self._wait(reply)

    def _wait(self, reply: Any) -> dict[int, Any]:
        while reply is not None:
            over = reply.done()
            try:
                found: dict[int, Any] = pickle.loads(reply.result(timeout=None if over else _LOOK))
                return found
            except TimeoutError:
                if over or self._future.status != "finished":
                    break
            except OSError:
                break
        raise _LostError


def joined(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Runs of partitions in their order, of one or of as many as together have at most so many rows."""
    runs: list[list[int]] = []
    rows = 0
    for i, length in enumerate(lengths):
        if not runs or (length and rows + length > most):
            runs.append([])
            rows = 0
        runs[-1].append(i)
        rows += length
    return runs


class Crew:
    """The holders of all partitions.

    Parameters
    ----------
    parts : list of Delayed
        Features, labels and weights of each partition.
    most : int
        Rows up to which partitions that follow each other are joined.
    """

    def __init__(self, parts: list[Any], most: int):
        self._parts, self._most = parts, most
        self._runs: list[list[int]] = []  # the partitions of each
        self._client: Any = getattr(get_scheduler(), "__self__", None)  # type: ignore[no-untyped-call]
        self._steps: Calls = []  # what was done to the rows, and is done again to those that were lost
        self.lengths: dict[int, int] = {}
        self._actors: list[Any] = []
        if self._client is not None:
            # rows are let go with the crew, in whatever thread it ends
            cancel: Any = self._client.loop.add_callback, self._client.cancel
            weakref.finalize(self, *cancel, self._actors, asynchronous=True).atexit = False  # type: ignore[call-arg, misc]
        self._holders = self._load(list(range(len(parts))))

    def call(self, method: str, *args: Any, own: dict[int, Any] | None = None, step: bool = False) -> dict[int, Any]:
        """Call a method of every run; what it returns, in their order, but for those without rows.

        Parameters
        ----------
        own : dict or None
            A last argument for each run.
        step : bool
            Whether the method changes the rows.
        """
        found: dict[int, Any] = {}
        asked = self._holders
        for _ in range(_ATTEMPTS):
            answers = []
            for holder in asked:
                theirs = {r: own[r] for r in holder.runs if r in own} if own else {}
                answers.append(holder.ask([*self._steps[holder.steps :], (method, args)], theirs))
            lost = []
            for holder, answer in zip(asked, answers, strict=True):
                try:
                    found |= answer()
                    holder.steps = len(self._steps) + step
                except _LostError:
                    lost.append(holder)
            if not lost:
                self._steps += [(method, args)] * step
                return dict(sorted(found.items()))
            kept = [holder for holder in self._holders if holder not in lost]
            asked = self._load(sorted(i for holder in lost for r in holder.runs for i in self._runs[r]))
            self._holders = kept + asked
        raise RuntimeError(f"Workers were lost {_ATTEMPTS} times in one pass over the rows: their logs may tell why.")

    def release(self) -> None:
        """Let the rows go now."""
        if self._actors:
            self._client.cancel(self._actors)
            self._actors.clear()

    def _load(self, indices: list[int]) -> list[_Held]:
        """Compute partitions, and have them held."""
        parts, client = [self._parts[i] for i in indices], self._client
        if client is None:
            loaded = dict(zip(indices, compute(*parts), strict=True))  # type: ignore[no-untyped-call]
            runs = self._runs_of({i: _length(part) for i, part in loaded.items()})
            held = [[loaded[i] for i in self._runs[r]] for r in runs]
            return [_Held(runs, None, Holder(runs, held, available()))]
        # the graph is optimised once for all of them: tasks that workers may still have keep their meaning
        loaded = dict(zip(indices, client.compute(parts, optimize_graph=False), strict=True))
        lengths = client.gather(self._settled(client.map(_length, list(loaded.values()))))
        assigned = self._assigned(loaded, self._runs_of(dict(zip(indices, lengths, strict=True))))
        made = []
        for address, runs in assigned.items():
            held = [[loaded[i] for i in self._runs[r]] for r in runs]
            made.append(client.submit(Holder, runs, held, workers=[address], allow_other_workers=True, actor=True))
        self._actors += made
        return [_Held(*one) for one in zip(assigned.values(), self._settled(made), strict=True)]

    def _runs_of(self, lengths: dict[int, int]) -> list[int]:
        """The runs of partitions with these lengths, which stay what they are."""
        if not self.lengths:
            self.lengths, self._runs = lengths, joined(list(lengths.values()), self._most)
        for i, length in lengths.items():
            if length != self.lengths[i]:
                raise RuntimeError(
                    f"A lost partition had {length} rows instead of {self.lengths[i]} when it was computed again: "
                    "let X and y come from tasks that always return the same rows, or persist them."
                )
        return [r for r, own in enumerate(self._runs) if own[0] in lengths]

    def _assigned(self, loaded: dict[int, Any], runs: list[int]) -> dict[str, list[int]]:
        """Runs of each worker: those that it has, as long as they are not more than its share of the rows."""
        self._require_worker()
        threads: dict[str, int] = self._client.nthreads()
        homes = self._client.who_has(list(loaded.values()))
        share = sum(self.lengths[i] for i in loaded) / sum(threads.values())
        load, assigned = dict.fromkeys(threads, 0.0), dict[str, list[int]]()
        for r in runs:
            rows = sum(self.lengths[i] for i in self._runs[r])
            home = homes.get(loaded[max(self._runs[r], key=lambda i: self.lengths[i])].key, ())
            near = [a for a in home if a in load and load[a] + rows / 2 <= share * threads[a]]
            address = near[0] if near else min(load, key=lambda a: load[a] / threads[a])
            load[address] += rows
            assigned.setdefault(address, []).append(r)
        return assigned

    def _settled(self, futures: list[Any]) -> list[Any]:
        """These tasks when they are over, as long as there are workers to compute them."""
        from distributed import CancelledError, wait

        while True:
            try:
                wait(futures, timeout=_LOOK)  # type: ignore[no-untyped-call]
                return futures
            except TimeoutError:
                self._require_worker()
            except CancelledError as error:
                raise RuntimeError(
                    "Rows were lost with a worker, and Dask cannot compute them again: data that were scattered are gone. "
                    "Let X and y come from files or from tasks, and fit again."
                ) from error

    def _require_worker(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise RuntimeError(
                f"The cluster has had no worker for {_PATIENCE:g} seconds: start one, and fit again."
            ) from None


def _length(loaded: tuple[Any, Any, Any]) -> int:
    return len(loaded[0])
