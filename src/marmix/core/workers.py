"""Number of available cores, and work shared among threads with results in a fixed order."""

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, cached_property
from multiprocessing import current_process
from threading import Lock, RLock, get_ident
from typing import Any

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


_INSIDE: dict[object, int] = {}  # who has entered `one_thread` and not left it, and in which thread
_LIMIT: list[Any] = []
_LOCK = RLock()  # a signal handler may fork in the middle of a change


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with many small steps, more threads only wait for each other.

    It may be nested and entered by several threads; the limit is lifted when the last one leaves.
    """
    entry = object()
    with _LOCK:
        if not _LIMIT:
            _LIMIT.append(_threads().limit(limits=1, user_api="blas"))
        _INSIDE[entry] = get_ident()
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE.pop(entry, None)
            _lift()


def _lift() -> None:
    """Lift the limit if nobody is inside."""
    if _LIMIT and not _INSIDE:
        _LIMIT.pop().restore_original_limits()


def _forked() -> None:
    """Forget the threads that a forked process does not have."""
    for entry in [entry for entry, thread in _INSIDE.items() if thread != get_ident()]:
        del _INSIDE[entry]
    _lift()
    _LOCK.release()
    if sys.version_info < (3, 12):  # where a cached property of a class is locked while it is computed
        for value in gc.get_objects():
            if type(value) is cached_property:
                value.lock = RLock()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    # A lock that another thread held at the fork would stay locked in the new process, as would those inside BLAS.
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_forked)


def available() -> int:
    """Number of threads that a fit may use.

    The cores of this process, limited by `OMP_NUM_THREADS`, threadpoolctl and joblib's `parallel_config`. Inside a worker of
    joblib, Dask or multiprocessing it is one.
    """
    backend, n_jobs = joblib.parallel.get_active_backend()
    if current_process().daemon or backend.nesting_level:  # a worker, which has its share of the cores already
        return 1
    limits = [int(joblib.effective_n_jobs(-1))]
    if n_jobs is not None and n_jobs > 0:
        limits.append(int(n_jobs))
    openmp = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if openmp.isdecimal() and int(openmp) > 0:
        limits.append(int(openmp))
    if not _LIMIT:
        blas = [library["num_threads"] for library in _threads().info() if library["user_api"] == "blas"]
        limits += [max(blas)] if blas else []
    return max(1, min(limits))


def ordered(start: Callable[[], Callable[[Any], Any]], items: Sequence[Any], workers: int = 1) -> list[Any]:
    """Map a function over items in threads; results are in the order of the items.

    `start` is called once by each worker and returns the worker's function, which may have working memory of its own.
    """
    workers = min(workers, len(items))
    if workers <= 1:
        with one_thread(), np.errstate(all="ignore"):
            function = start()
            return [function(item) for item in items]
    results: dict[int, Any] = {}
    remaining: Iterator[tuple[int, Any]] = iter(enumerate(items))
    lock = Lock()

    def work() -> None:
        nonlocal remaining
        with np.errstate(all="ignore"):
            function = start()
            while True:
                with lock:
                    index, item = next(remaining, (-1, None))
                if index < 0:
                    return
                try:
                    results[index] = function(item)
                except BaseException:
                    with lock:
                        remaining = iter(())  # stop the other workers
                    raise

    with one_thread(), ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(work) for _ in range(workers)]:
            future.result()
    return [results[index] for index in range(len(items))]
