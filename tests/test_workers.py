"""Threads: results do not depend on their number, and limits set by users are respected."""

import threading

import joblib
import numpy as np
import pytest
from problems import rows_of
from threadpoolctl import threadpool_info, threadpool_limits

import marmix.engines.host
from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.core.workers import available, one_thread, ordered


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(workers):
    def start():
        def square(item):
            if item == 0 and workers > 1:
                assert last.wait(60)  # the first result comes after all others
            if item == 19:
                last.set()
            return item * item

        return square

    last = threading.Event()
    assert ordered(start, range(20), workers) == [i * i for i in range(20)]


def test_every_worker_has_its_own_space_and_no_more_than_asked_for():
    spaces = []

    def start():
        space = []
        spaces.append(space)
        return space.append

    ordered(start, range(40), 3)
    assert len(spaces) <= 3
    assert sorted(item for space in spaces for item in space) == list(range(40))


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_in_a_worker_is_raised(workers):
    def start():
        return lambda item: 1 // (item - 5)

    with pytest.raises(ZeroDivisionError):
        ordered(start, range(10), workers)


@pytest.mark.parametrize("estimator", [MARGaussianMixture(max_iter=3), MARLogisticRegression(n_init=1, max_iter=3)])
@pytest.mark.filterwarnings("ignore:The fit did not converge")
def test_neither_workers_nor_threads_of_the_linear_algebra_change_a_bit(monkeypatch, estimator):
    X, y = rows_of(70_000)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    fits = []
    for workers, threads in ((1, 1), (2, 2), (3, 1)):
        monkeypatch.setattr(marmix.engines.host, "available", lambda workers=workers: workers)
        with threadpool_limits(threads, user_api="blas"):
            fit = estimator.fit(X, y, sample_weight=weight)
            fits.append(np.concatenate([fit.alpha_, [fit.loglik_], fit.trace_, fit.predict_proba(X)[:, 0]]))
    np.testing.assert_array_equal(fits[1], fits[0])
    np.testing.assert_array_equal(fits[2], fits[0])


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_the_linear_algebra_has_one_thread_until_the_last_leaves_and_then_as_many_as_before():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        assert set(blas_threads()) == {1}
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_limits_of_threadpoolctl_and_joblib_are_respected(monkeypatch):
    monkeypatch.setattr(joblib, "effective_n_jobs", lambda n_jobs: 8)
    with threadpool_limits(8, user_api="blas"):
        assert available() == 8
        with threadpool_limits(2):
            assert available() == 2
        with joblib.parallel_config(n_jobs=4):
            assert available() == 4
        assert joblib.Parallel(2, prefer="threads")(joblib.delayed(available)() for _ in range(2)) == [1, 1]
