"""Number of available cores, and work shared among threads with results in a fixed order.

A process that is forked while another thread fits a model has that thread's limits; fork before or after.
"""

from collections import deque
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


_LOCK = Lock()
_LIMITS: list[Any] = []  # the limit that the first of `one_thread` set, once for each that is inside


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with many small steps, more threads only wait for each other.

    It may be nested and entered by several threads; the limit is lifted when the last one leaves.
    """
    with _LOCK:
        _LIMITS.append(_LIMITS[0] if _LIMITS else _threads().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LOCK:
            limit = _LIMITS.pop()
            if not _LIMITS:
                limit.restore_original_limits()


def available() -> int:
    """Number of threads that a fit may use.

    The cores of this process, limited by the threads of BLAS (`OMP_NUM_THREADS`, threadpoolctl) and joblib's
    `parallel_config`. Inside a worker of
    joblib, Dask or multiprocessing it is one.
    """
    backend, n_jobs = joblib.parallel.get_active_backend()
    if current_process().daemon or backend.nesting_level:  # a worker, which has its share of the cores already
        return 1
    limits = [int(joblib.effective_n_jobs(-1))]
    if n_jobs is not None and n_jobs > 0:
        limits.append(int(n_jobs))
    if not _LIMITS:
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
    queue, results = deque(enumerate(items)), [None] * len(items)

    def take() -> tuple[int, Any] | None:
        try:
            return queue.popleft()
        except IndexError:
            return None

    def work() -> None:
        try:
            with np.errstate(all="ignore"):
                function = start()
                while (entry := take()) is not None:
                    results[entry[0]] = function(entry[1])
        finally:
            queue.clear()  # after an error the other workers stop

    with one_thread(), ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(work) for _ in range(workers)]:
            future.result()
    return results
