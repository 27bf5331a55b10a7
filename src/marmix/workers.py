"""How many cores there are, and work shared among them in an order that does not depend on how many."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import current_process
from threading import Lock
from typing import Any

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


_OPEN: dict[str, Any] = {"count": 0, "limit": None}
_LOCK = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """While it is open the linear algebra has one thread: many small steps would only wait for more.

    It may be opened inside itself and by several threads; the last to leave gives the threads back.
    """
    with _LOCK:
        if not _OPEN["count"]:
            _OPEN["limit"] = _threads().limit(limits=1, user_api="blas")
        _OPEN["count"] += 1
    try:
        yield
    finally:
        with _LOCK:
            _OPEN["count"] -= 1
            if not _OPEN["count"]:
                _OPEN["limit"].restore_original_limits()


def available() -> int:
    """Threads that a fit may use now.

    As many as there are cores for this process, but no more than `OMP_NUM_THREADS`, a limit set with threadpoolctl or
    joblib's `parallel_config` say, and one inside a worker of joblib, which has its share of the cores already.
    """
    if current_process().daemon:  # a worker of Dask or of multiprocessing, which has its share of the cores already
        return 1
    most = [int(joblib.effective_n_jobs(-1))]
    backend, asked = joblib.parallel.get_active_backend()
    if asked is not None and asked > 0:
        most.append(int(asked))
    if backend.nesting_level:
        most.append(1)
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if limit.isdecimal() and int(limit) > 0:
        most.append(int(limit))
    blas = (
        []
        if _OPEN["count"]
        else [library["num_threads"] for library in _threads().info() if library["user_api"] == "blas"]
    )
    if blas:
        most.append(max(blas))
    return max(1, min(most))


def ordered(start: Callable[[], Callable[[Any], Any]], items: Sequence[Any], workers: int = 1) -> list[Any]:
    """A function of every item, the results in the order of the items whoever computed them.

    Parameters
    ----------
    start : callable
        Called once by every worker; returns its function, with working space of its own.
    """
    workers = min(workers, len(items))
    if workers <= 1:
        with one_thread(), np.errstate(all="ignore"):
            one = start()
            return [one(item) for item in items]
    results: dict[int, Any] = {}
    left: Iterator[tuple[int, Any]] = iter(enumerate(items))
    lock = Lock()

    def work() -> None:
        nonlocal left
        with np.errstate(all="ignore"):
            one = start()
            while True:
                with lock:
                    place, item = next(left, (-1, None))
                if place < 0:
                    return
                try:
                    results[place] = one(item)
                except BaseException:
                    with lock:
                        left = iter(())  # the others need not go on
                    raise

    with one_thread(), ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work) for _ in range(workers)]:
            done.result()
    return [results[place] for place in range(len(items))]
