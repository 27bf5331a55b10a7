"""Fits on a Dask cluster equal those of NumPy, wherever the rows are and even if workers die."""

import gc
import os
import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest
from problems import PAPER
from sklearn.base import clone

from marmix import MARGaussianMixture, MARLogisticRegression, MARStudentMixture

pytestmark = pytest.mark.usefixtures("rows_as_given")

pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
cluster = pytest.importorskip("marmix.engines.cluster")

SIZES = (1500, 0, 1, 999, 2500)


def start(n_workers=2):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
    )


@pytest.fixture(scope="module")
def client():
    with start() as local, distributed.Client(local) as client:
        yield client


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Join partitions only up to about 500 rows, so that both workers have some."""
    monkeypatch.setattr(cluster, "_JOINED", 2**12)


@pytest.fixture(scope="module")
def rows(simulate):
    """Three classes; the rows of the last partition have no label."""
    data = simulate(n=sum(SIZES), classes=3, d=3, distance=3.0, seed=2)
    order = np.argsort(data.missing, kind="stable")
    order = np.concatenate([np.random.default_rng(0).permutation(order[:2500]), order[2500:]])
    assert data.missing[order[-SIZES[-1] :]].mean() > 0.5
    return data.X[order], data.y[order]


def lazy(array, sizes=SIZES):
    return da.from_array(array, chunks=(sizes, *([array.shape[1]] if array.ndim > 1 else [])))


def estimates(fit):
    names = ("weights_", "means_", "covariances_", "alpha_", "share_", "loglik_", "_entropy")
    values = {name: np.asarray(getattr(fit, name)) for name in names if getattr(fit, name, None) is not None}
    return values | ({"vectors": np.column_stack([fit.intercept_, fit.coef_])} if hasattr(fit, "coef_") else {})


def agree(fit, other, tolerance=1e-10):
    mine, others = estimates(fit), estimates(other)
    assert mine.keys() == others.keys()
    for name in mine:
        assert mine[name].shape == others[name].shape
        assert np.abs(mine[name] - others[name]).max() <= tolerance * np.abs(others[name]).max(), name


def same_bits(fit, other):
    mine, others = estimates(fit), estimates(other)
    return mine.keys() == others.keys() and all(np.array_equal(mine[name], others[name]) for name in mine)


def actors(client):
    return sum(client.run(lambda dask_worker: len(dask_worker.state.actors)).values())


def gone(client):
    """Wait until there are no actors; return whether that happened within ten minutes."""
    deadline = time.monotonic() + 600.0
    while actors(client):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize(
    "model",
    [
        MARGaussianMixture(**PAPER, mechanism_features=[1]),
        MARStudentMixture(covariance_type="tied", max_iter=5),
        MARLogisticRegression(link="logit"),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:The fit did not converge")
def test_estimates_are_those_of_numpy(client, rows, model):
    X, y = rows
    here, there = clone(model).fit(X, y), clone(model).fit(lazy(X), lazy(y))
    agree(there, here)
    assert np.array_equal(there.transduction_.compute(), here.transduction_)


def test_estimates_from_many_rows_by_way_of_samples_are_those_of_numpy(client, simulate):
    model = MARGaussianMixture(link="logit")
    X, y, _ = simulate(n=40_000, d=2, seed=3)
    here, there = clone(model).fit(X, y), clone(model).fit(lazy(X, (15_000, 5_000, 20_000)), lazy(y, (20_000, 20_000)))
    agree(there, here)
    assert there.n_passes_ == here.n_passes_
    assert there.icl() == pytest.approx(here.icl(), rel=1e-10)


def test_weights_count_rows_and_rows_of_weight_zero_do_not_count(client, rows):
    X, y = rows
    weight = np.random.default_rng(1).integers(3, size=len(y)).astype(float)
    weight[: SIZES[0]] = 0.0  # all rows of the first partition
    here = MARGaussianMixture(link="logit").fit(X, y, weight)
    there = MARGaussianMixture(link="logit").fit(lazy(X), lazy(y), lazy(weight))
    agree(there, here)
    assert np.array_equal(there.transduction_.compute(), here.transduction_)
    agree(MARGaussianMixture(link="logit").fit(lazy(X), y, weight), here)


def test_the_result_does_not_depend_on_where_the_rows_are(client, rows):
    X, y = lazy(rows[0]), lazy(rows[1])
    reference = MARGaussianMixture(link="logit").fit(X, y)
    first = next(iter(client.nthreads()))
    held = client.persist([X, y], workers=[first], allow_other_workers=False)
    assert same_bits(MARGaussianMixture(link="logit").fit(*held), reference)
    with dask.config.set(scheduler="synchronous"):  # no cluster at all
        assert same_bits(MARGaussianMixture(link="logit").fit(X, y), reference)


def test_a_dataframe_brings_names_and_labels_of_any_kind(client, rows):
    X, z = rows
    y = np.array(["ant", "bee", "cat", None], dtype=object)[z]
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    here = MARGaussianMixture(link="logit", mechanism_features=["b"]).fit(frame[["a", "b", "c"]], y)
    table = dd.from_pandas(frame, npartitions=3)
    table = table[table.a > -np.inf]  # lengths are unknown now
    there = MARGaussianMixture(link="logit", mechanism_features=["b"]).fit(table[["a", "b", "c"]], table.y)
    agree(there, here)
    assert there.feature_names_in_.tolist() == ["a", "b", "c"]
    assert there.classes_.tolist() == ["ant", "bee", "cat"]
    assert there.transduction_.compute().tolist() == here.transduction_.tolist()
    assert there.impute(table[["a", "b", "c"]], table.y).compute().tolist() == here.transduction_.tolist()
    assert there.predict(table[["a", "b", "c"]]).compute().tolist() == here.predict(frame[["a", "b", "c"]]).tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        there.predict(table[["a", "c", "b"]])


def test_arrays_of_unknown_lengths_and_of_split_columns_are_fitted(client, rows):
    X, y = rows
    kept = X[:, 0] > 0.0
    here = MARGaussianMixture(link="logit").fit(X[kept], y[kept])
    split = da.from_array(X, chunks=(SIZES, (2, 1)))
    some = split[:, 0] > 0.0
    there = MARGaussianMixture(link="logit").fit(split[some], lazy(y)[some])
    agree(there, here)
    assert np.array_equal(there.transduction_.compute(), here.transduction_)
    assert np.array_equal(there.predict(split[some]).compute(), here.predict(X[kept]))


def test_predictions_are_lazy_and_those_of_numpy(client, rows):
    X, y = rows
    fit = MARGaussianMixture(link="logit").fit(X, y)
    for name in ("predict_proba", "predict_log_proba", "predict", "missing_proba", "uncertainty", "decision_function"):
        predicted = getattr(fit, name)(lazy(X))
        assert predicted.chunks[0] == SIZES
        expected = getattr(fit, name)(X)
        assert predicted.shape == expected.shape
        assert predicted.dtype == expected.dtype
        np.testing.assert_allclose(predicted.compute(), expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(fit.impute(lazy(X), y).compute(), fit.impute(X, y))

    def never(block):
        raise RuntimeError("computed")

    unready = lazy(X).map_blocks(never, dtype=float)
    for predicted in (fit.predict_proba(unready), fit.impute(unready, lazy(y))):
        with pytest.raises(RuntimeError, match="computed"):
            predicted.compute()


@pytest.fixture
def uncollected():
    """Turn off the garbage collector, so that only reference counts free objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_nothing_is_left_on_the_workers(client, rows, uncollected):
    X, y = rows
    fit = MARGaussianMixture(link="logit").fit(lazy(X), lazy(y))
    assert gone(client)
    assert fit.transduction_.shape == (len(y),)
    constant = X.copy()
    constant[:, 2] = 1.0
    with pytest.raises(ValueError, match="column 'x2' is constant"):
        MARGaussianMixture().fit(lazy(constant), lazy(y))
    assert gone(client)


@pytest.fixture
def mortal():
    """A cluster whose workers may be killed."""
    with start() as local, distributed.Client(local) as client:
        yield local, client


@contextmanager
def on_call(number, action):
    """Call `action` at the `number`-th call of the engine's `total`; yield the list of calls."""
    usual, calls = cluster.ClusterEngine.total, []

    def total(self, *args, width):
        calls.append(args)
        if len(calls) == number:
            action()
        return usual(self, *args, width=width)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster.ClusterEngine, "total", total)
        yield calls


def kill_one(client):
    os.kill(next(iter(client.run(os.getpid).values())), getattr(signal, "SIGKILL", signal.SIGTERM))


@pytest.mark.parametrize("held", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_worker_that_dies_changes_no_bit(mortal, rows, held):
    """Rows that were on the cluster are computed again, and workers may come as well as go."""
    local, client = mortal
    X, y = lazy(rows[0]), lazy(rows[1])
    with dask.config.set(scheduler="synchronous"):
        reference = MARGaussianMixture(link="logit").fit(X, y)
    alive = set(client.nthreads())
    if held:
        X, y = client.persist([X, y])
    with on_call(3, lambda: (held and local.scale(3), kill_one(client))) as calls:
        fit = MARGaussianMixture(link="logit").fit(X, y)
    assert len(calls) > 5
    assert len(alive & set(client.nthreads())) == 1
    assert same_bits(fit, reference)
    assert fit.n_passes_ == reference.n_passes_


def test_data_that_cannot_be_fitted_are_refused(client, rows):
    X, y = rows
    fit = MARGaussianMixture(link="logit").fit
    with pytest.raises(ValueError, match="inconsistent numbers of samples: 5000 and 4999"):
        fit(lazy(X), da.from_array(y[1:]))
    known, unknown = lazy(y), lazy(y)[lazy(y) < 7]
    with pytest.raises(ValueError, match="X has 5 partitions and y has 2, so that rows do not align"):
        fit(lazy(X)[known < 7], lazy(y, (2500, 2500))[lazy(y, (2500, 2500)) < 7])
    with pytest.raises(ValueError, match="y is a local array, but the lengths of X's partitions are unknown"):
        fit(lazy(X)[known < 7], y)
    with pytest.raises(ValueError, match="are not supported on a cluster"):
        fit(lazy(X), lazy(X))
    with pytest.raises(ValueError, match="y has no label at all"):
        fit(lazy(X), da.full_like(unknown, -1))
    with pytest.raises(ValueError, match="class 2 has no labelled row of positive sample_weight"):
        fit(lazy(X), known, (known != 2).astype(float))
    bad = X.copy()
    bad[1700, 1], bad[4000, 0] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"NaN in column 'x1' \(first in row 1700\)"):
        fit(lazy(bad), known)
    with pytest.raises(TypeError, match="inference needs the rows on one machine"):
        MARGaussianMixture(link="logit").fit(X, y).inference(lazy(X), known)
