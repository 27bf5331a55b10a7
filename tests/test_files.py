"""Rows in files: the same results as in memory, and output files that are complete or absent."""

import tracemalloc

import numpy as np
import pytest
from problems import Problem, mechanism_of, rows_of

import marmix.core.files
from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.core.files import in_file, write_array
from marmix.core.frames import Covariates, Frame
from marmix.engines import FileEngine, NumpyEngine
from marmix.fitting import Objective

pytestmark = pytest.mark.usefixtures("rows_as_given")

LABELS = [0, 0, 1, 1, 2, -1, -1, -1, 0, 2, -1] * 4


@pytest.fixture
def left_there(monkeypatch):
    """Leave arrays in their files, however small they are."""
    monkeypatch.setattr(marmix.core.files, "LEFT_IN_FILE", -1)


def saved(folder, **arrays):
    """Paths of `.npy` files that hold these arrays."""
    paths = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        paths.append(folder / f"{name}.npy")
    return paths


def vector(fit):
    parameters = [fit.means_, fit.covariances_] if hasattr(fit, "means_") else [fit.coef_, fit.intercept_]
    return np.concatenate([part.ravel() for part in parameters] + [fit.alpha_, [fit.loglik_]])


# Engines.


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical", "student tied"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_rows_in_a_file_are_those_over_rows_in_memory(monkeypatch, covariance_type, weighted):
    p = Problem(covariance_type, mechanism_of("with share"), LABELS, [1, 2, 1], weighted=weighted)
    mine = p.objective.sums(p.theta, p.mechanism)
    monkeypatch.setattr("marmix.engines.host.block_rows", lambda width: 7)
    there = FileEngine(p.X, p.z, p.weight, 3, p.engine.frame, workers=2)
    other = Objective(there, p.model).sums(p.theta, p.mechanism)
    np.testing.assert_allclose(other.moments.by_component, mine.moments.by_component, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(other.alpha, mine.alpha, rtol=1e-11)
    assert other.ignorable == pytest.approx(mine.ignorable, rel=1e-12)
    assert other.missing == pytest.approx(mine.missing, rel=1e-12)
    np.testing.assert_array_equal(there.counts, p.engine.counts)
    np.testing.assert_allclose(there.group_weight, p.engine.group_weight)


@pytest.mark.parametrize("rows", [5, 20, 40])
def test_a_thinned_file_has_the_rows_of_a_thinned_array(monkeypatch, rows):
    monkeypatch.setattr("marmix.engines.host._COUNTED_ROWS", 6)
    X, z = rows_of(500)
    axes = Frame(np.zeros(3), np.eye(3)), Covariates([2], Frame(np.ones(1), np.eye(1)))
    weight = np.random.default_rng(3).uniform(0.5, 1.0, size=500)
    mine, there = (kind(X, z, weight, 3, *axes).thinned(rows) for kind in (NumpyEngine, FileEngine))
    np.testing.assert_array_equal(there.x, mine.x)
    np.testing.assert_allclose(there.weight, mine.weight, rtol=1e-14)
    np.testing.assert_array_equal(there.v, mine.v)


def test_rows_of_weight_zero_in_a_file_do_not_count():
    p = Problem("full", mechanism_of("logit"), LABELS, [1, 1, 1])
    weight = np.random.default_rng(0).integers(0, 3, size=len(p.z)).astype(float)
    some = weight > 0
    there = FileEngine(p.X, p.z, weight, 3, p.engine.frame)
    mine = NumpyEngine(p.X[some], p.z[some], weight[some], 3, p.engine.frame)
    assert there.n_rows == mine.n_rows == some.sum()
    in_memory, from_file = (Objective(engine, p.model).sums(p.theta, p.mechanism) for engine in (mine, there))
    assert from_file.missing == pytest.approx(in_memory.missing, rel=1e-12)
    np.testing.assert_array_equal(np.sort(there.thinned(20).x, axis=1), np.sort(mine.thinned(20).x, axis=1))


# Fits.


@pytest.mark.usefixtures("left_there")
@pytest.mark.parametrize(
    "estimator",
    [
        MARGaussianMixture(covariance_type="full", link="logit", measure="margin"),
        MARGaussianMixture(covariance_type="tied", link="logit", measure="entropy", mechanism_features=[1]),
        MARLogisticRegression(link="logit", n_init=1),
        MARLogisticRegression(link=None),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_to_files_is_the_fit_to_arrays(tmp_path, estimator, weighted):
    X, y = rows_of(12_000)
    w = np.random.default_rng(5).integers(0, 3, size=len(y)).astype(float) if weighted else None
    path, labels = saved(tmp_path, X=X, y=y)
    mine = estimator.fit(X, y, sample_weight=w)
    in_memory = vector(mine) if estimator.link else np.append(mine.coef_, mine.loglik_)
    transduction, passes, icl = mine.transduction_, mine.n_passes_, mine.icl()
    there = estimator.fit(path, labels, sample_weight=None if w is None else saved(tmp_path, w=w)[0])
    from_file = vector(there) if estimator.link else np.append(there.coef_, there.loglik_)
    np.testing.assert_allclose(from_file, in_memory, rtol=1e-7)
    assert there.loglik_ == pytest.approx(in_memory[-1], rel=1e-12)
    assert there.n_passes_ == passes or estimator.link is None  # whose last steps are of the size of rounding
    np.testing.assert_array_equal(there.impute(path, labels), transduction)
    assert there.icl() == pytest.approx(icl, rel=1e-9)


@pytest.mark.usefixtures("left_there")
@pytest.mark.parametrize("kind", ["float32", "fortran", "mode c"])
def test_any_memory_map_of_numbers_will_do(tmp_path, kind):
    X, y = rows_of(3000)
    X = np.round(8 * X)
    if kind == "fortran":
        np.save(tmp_path / "X.npy", np.asfortranarray(X))
    else:
        np.save(tmp_path / "X.npy", X.astype(kind) if kind in ("float32", "int64") else X)
    M = np.load(tmp_path / "X.npy", mmap_mode="c" if kind == "mode c" else "r")
    if kind == "mode c":
        M[:, 0] *= -1.0  # in memory only: a page that is let go would lose it
        X = np.array(M)
    assert in_file(M)
    mine, there = (MARGaussianMixture(link="logit").fit(rows, y) for rows in (X, M))
    np.testing.assert_allclose(vector(there), vector(mine), rtol=1e-7)
    np.testing.assert_allclose(there.predict_proba(M), mine.predict_proba(X), rtol=1e-7)
    np.testing.assert_array_equal(there.transduction_, mine.transduction_)  # y is in memory
    if kind == "mode c":
        np.testing.assert_array_equal(M, X)


def test_labels_from_a_file_are_imputed_to_a_file(tmp_path, monkeypatch):
    X, y = rows_of(2000)
    path, labels = saved(tmp_path, X=X, y=y)
    in_memory = MARGaussianMixture(link="logit").fit(path, labels)
    assert in_memory.transduction_.shape == (2000,)  # small files are read
    monkeypatch.setattr(marmix.core.files, "LEFT_IN_FILE", -1)
    fit = MARGaussianMixture(link="logit").fit(path, labels)
    with pytest.raises(AttributeError, match=r"impute\(X, y, out='labels.npy'\)"):
        fit.transduction_  # noqa: B018
    written = fit.impute(path, labels, out=tmp_path / "labels.npy")
    assert isinstance(written, np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), in_memory.transduction_)
    assert fit.icl() == pytest.approx(in_memory.icl(), rel=1e-9)


@pytest.mark.usefixtures("left_there")
def test_a_value_that_is_not_finite_in_a_file_is_named(tmp_path):
    X, y = rows_of(3000)
    X[1234, 2] = np.nan
    path, labels = saved(tmp_path, X=X, y=y)
    with pytest.raises(ValueError, match=r"NaN in column 'x2' \(first in row 1234\)"):
        MARGaussianMixture().fit(path, labels)
    fit = MARGaussianMixture(link="logit").fit(np.delete(X, 1234, axis=0), np.delete(y, 1234))
    with pytest.raises(ValueError, match=r"NaN in column 'x2' \(first in row 1234\)"):
        fit.predict_proba(path, out=tmp_path / "p.npy")
    assert not list(tmp_path.glob("*p.npy*"))


# What is written.


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "predict", "missing_proba"])
def test_predictions_go_where_they_are_sent(tmp_path, method):
    X, y = rows_of(3000)
    fit = MARGaussianMixture(link="logit").fit(X, y)
    plain = getattr(fit, method)(X)
    out = np.empty_like(plain)
    assert getattr(fit, method)(X, out=out) is out
    np.testing.assert_array_equal(out, plain)
    written = getattr(fit, method)(X, out=str(tmp_path / "out.npy"))
    assert isinstance(written, np.memmap)
    np.testing.assert_array_equal(written, plain)


def test_results_are_refused_where_they_would_do_harm(tmp_path):
    X, y = rows_of(300)
    fit = MARGaussianMixture(link="logit").fit(X, y)
    (tmp_path / "old.npy").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match=r"old\.npy exists: remove it"):
        fit.predict_proba(X, out=tmp_path / "old.npy")
    assert (tmp_path / "old.npy").read_text(encoding="utf-8") == "mine"
    with pytest.raises(ValueError, match=r"ends in \.npy"):
        fit.predict_proba(X, out=tmp_path / "out.csv")
    read_only = np.empty((300, 2))
    read_only.flags.writeable = False
    for wrong in (np.empty((300, 3)), np.empty((300, 2), dtype=int), [0.0], read_only):
        with pytest.raises(ValueError, match=r"array of shape \(300, 2\)"):
            fit.predict_proba(X, out=wrong)


def test_an_unfinished_file_is_not_left_behind(tmp_path):
    def interrupted(out):
        out[:5] = 1.0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_array(interrupted, tmp_path / "out.npy", (10,), float)
    assert not list(tmp_path.iterdir())
    written = write_array(lambda out: out.fill(2.0), tmp_path / "out.npy", (3,), float)
    np.testing.assert_array_equal(written, [2.0, 2.0, 2.0])


@pytest.mark.usefixtures("left_there")
def test_a_file_is_fitted_in_a_fraction_of_its_size(tmp_path, monkeypatch):
    """What is allocated; pages of the file are not among it."""
    monkeypatch.setattr("marmix.engines.rows._BLOCK_BYTES", 2**18)
    rng, n = np.random.default_rng(0), 60_000
    y = rng.integers(-1, 2, size=n, dtype=np.int8)
    path, labels = saved(tmp_path, X=rng.normal(size=(n, 20)) + 0.5 * y[:, None], y=y)
    tracemalloc.start()
    fit = MARGaussianMixture(covariance_type="tied", link="logit").fit(path, labels)
    fit.predict_proba(path, out=tmp_path / "p.npy")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * path.stat().st_size
