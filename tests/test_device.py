"""Rows in torch, CuPy and array-api-strict arrays: the same results as NumPy, without reading values on the device during a pass.

Torch on CUDA and CuPy are tested where they are available.
"""

import pickle
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from problems import Problem, mechanism_of, rows_of

from marmix import MARGaussianMixture, MARLogisticRegression, MARStudentMixture
from marmix.core.arrays import like, to_host
from marmix.core.likelihood import block_sums
from marmix.core.links import hazard, log_missing
from marmix.core.measures import MEASURES, posterior
from marmix.engines.device import DeviceRows
from marmix.fitting import Objective

pytestmark = pytest.mark.usefixtures("rows_as_given")

LABELS = [0, 0, 1, 1, 2, -1, -1, -1, 0, 2, -1] * 4


KINDS = ["strict", "torch"]
KINDS += ["cuda"] * Path("/proc/driver/nvidia").exists() + ["cupy"] * (find_spec("cupy") is not None)


@pytest.fixture(params=KINDS)
def there(request):
    """A function that copies a NumPy array to a device."""
    if request.param == "strict":
        return pytest.importorskip("array_api_strict").asarray
    pytest.importorskip("array_api_compat")
    if request.param == "cupy":
        return pytest.importorskip("cupy").asarray
    torch = pytest.importorskip("torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    torch.set_num_threads(1)  # arrays are small: threads would only wait for each other
    return lambda array: torch.asarray(array, device="cuda" if request.param == "cuda" else "cpu")


def objective_there(problem, there):
    p = problem
    weight = None if p.weight is None else there(p.weight)
    rows = DeviceRows(there(p.X)).with_labels(there(p.z), weight, classes=np.arange(p.model.n_classes))
    return Objective(rows.engine(p.engine.frame), p.model)


# The mathematics.


@pytest.mark.parametrize("shape", [0.0, 0.004, 1.0, 100.0])
def test_the_link_is_exact_in_the_far_tails(there, shape):
    eta = np.concatenate([np.linspace(-800, 800, 401), np.linspace(-3, 3, 61), [-690.1, -345.1, 690.1, 0.0]])
    with np.errstate(all="ignore"):
        here = hazard(eta, shape, True)
        h = hazard(there(eta), shape, True)
        for mine, other in zip(here, h, strict=True):
            np.testing.assert_allclose(to_host(other), mine, rtol=1e-12, atol=1e-320)
        for extra in (0.0, 0.1):
            mine = log_missing(eta, here.n + extra, here.slope, extra)
            other = log_missing(there(eta), h.n + extra, h.slope, extra)
            for a, b in zip(mine, other, strict=True):
                np.testing.assert_allclose(to_host(b), a, rtol=1e-12, atol=1e-320)


def test_a_label_term_gives_the_same_sums(there):
    mechanism = replace(mechanism_of("with share", "entropy"), label=(0.0, 0.8, -0.5), free_label=True)
    problem = Problem("full", mechanism, LABELS, [1, 1, 1], weighted=True)
    here = problem.objective.sums(problem.theta, mechanism)
    sums = objective_there(problem, there).sums(problem.theta, mechanism)
    np.testing.assert_allclose(sums.moments.by_component, here.moments.by_component, atol=1e-11)
    np.testing.assert_allclose([sums.missing, *sums.alpha, sums.shape, sums.share],
                               [here.missing, *here.alpha, here.shape, here.share], rtol=1e-10)  # fmt: skip
    fit = MARGaussianMixture(delta={1: 1.0}, n_init=1).fit(problem.X, problem.z)
    labels = MARGaussianMixture(delta={1: 1.0}, n_init=1).fit(there(problem.X), there(problem.z)).transduction_
    assert np.array_equal(to_host(labels), fit.transduction_)


@pytest.mark.parametrize("measure", sorted(MEASURES))
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_measures_are_those_of_the_host_with_ties_and_certainty(there, measure, classes):
    if not MEASURES[measure].admits(classes):
        pytest.skip("not defined for this number of classes")
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(classes, 60)) * np.repeat([1.0, 30.0, 700.0], 20)
    scores[:, :3] = 0.0
    scores[0, 3:6] = scores[1, 3:6] = 5.0
    with np.errstate(all="ignore"):
        mine = MEASURES[measure](posterior(scores))
        other = MEASURES[measure](posterior(there(scores)))
    np.testing.assert_allclose(to_host(other.value), mine.value, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(to_host(other.gradient), mine.gradient, rtol=1e-11, atol=1e-300)


@pytest.mark.pairs
@pytest.mark.parametrize(
    "covariance_type", ["full", "tied", "diag", "spherical", "wide", "student full", "student tied", "student wide"]
)
@pytest.mark.parametrize("link", ["logit", "cloglog", "near cloglog", "with share"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_the_host(there, covariance_type, link, weighted):
    wide = covariance_type.endswith("wide")
    kind = covariance_type.replace("wide", "full")
    p = Problem(kind, mechanism_of(link), LABELS, [1, 2, 1], weighted=weighted, wide=wide)
    objective = objective_there(p, there)
    for options in ({}, {"ignorable": False}):
        mine, other = (o.sums(p.theta, p.mechanism, **options) for o in (p.objective, objective))
        np.testing.assert_allclose(other.moments.by_component, mine.moments.by_component, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(other.alpha, mine.alpha, rtol=1e-11, atol=1e-12)
        for name in ("ignorable", "missing", "shape", "share"):
            assert getattr(other, name) == pytest.approx(getattr(mine, name), rel=1e-11, abs=1e-11)
    mine, other = (o.sums(p.theta, None) for o in (p.objective, objective))
    assert other.ignorable == pytest.approx(mine.ignorable, rel=1e-12)
    np.testing.assert_allclose(other.moments.by_component, mine.moments.by_component, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("measure", [name for name, measure in MEASURES.items() if measure.only_classes is None])
@pytest.mark.parametrize("covariance_type", ["full", "wide", "student tied"])
def test_no_value_on_the_device_is_read_during_a_pass(monkeypatch, measure, covariance_type):
    strict = pytest.importorskip("array_api_strict")
    wide = covariance_type == "wide"
    p = Problem("full" if wide else covariance_type, mechanism_of("with share", measure), LABELS, [1, 1, 1], wide=wide)
    engine = objective_there(p, strict.asarray).engine
    prepared = like(p.model.prepare(p.theta), engine.x)

    def read(self):
        raise AssertionError("the host asked for a value of the device")

    kind = type(engine.x)
    for name in ("__bool__", "__float__", "__int__", "__index__", "__array__"):
        monkeypatch.setattr(kind, name, read, raising=False)
    engine.total_there(block_sums, p.model, prepared, p.mechanism, width=1)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_cuda_does_not_wait_inside_a_pass():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    p = Problem("full", mechanism_of("with share"), LABELS, [1, 1, 1])
    fused = pytest.importorskip("marmix.engines.fused")
    engine = objective_there(p, lambda array: torch.asarray(array, device="cuda")).engine
    prepared = torch.asarray(p.model.prepare(p.theta), device="cuda")
    kernels = block_sums, fused.fused_sums
    for kernel in kernels:
        engine.total_there(kernel, p.model, prepared, p.mechanism, width=1)
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        for kernel in kernels:
            engine.total_there(kernel, p.model, prepared, p.mechanism, width=1)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_several_blocks_give_the_sums_of_one(monkeypatch, there):
    p = Problem("full", mechanism_of("with share"), LABELS * 300, [1, 1, 1], weighted=True)
    one = objective_there(p, there).sums(p.theta, p.mechanism)
    monkeypatch.setattr("marmix.engines.device._BLOCK_VALUES", 1)
    objective = objective_there(p, there)
    assert len(objective.map(lambda block, model: block.cuts)) > 2
    several = objective.sums(p.theta, p.mechanism)
    np.testing.assert_allclose(several.moments.by_component, one.moments.by_component, rtol=1e-11, atol=1e-9)
    assert several.missing == pytest.approx(one.missing, rel=1e-12)


# Fits and predictions.


@pytest.mark.pairs
@pytest.mark.parametrize(
    "estimator",
    [
        MARGaussianMixture(covariance_type="full", link="logit", measure="margin"),
        MARGaussianMixture(covariance_type="tied", measure="entropy", link="logit", mechanism_features=[1]),
        MARGaussianMixture(covariance_type="diag", n_components=2, link="logit", random_state=0, max_iter=20),
        MARStudentMixture(covariance_type="full", dof="by_class", max_iter=20),
        MARLogisticRegression(degree=2, link="logit", n_init=1),
        MARLogisticRegression(link=None),
        MARGaussianMixture(covariance_type="full", link="logit", solver="ecm", max_iter=3),
    ],
)
@pytest.mark.parametrize("classes", [3])
@pytest.mark.filterwarnings("ignore:The fit did not converge")
def test_a_fit_on_a_device_is_the_fit_on_the_host(there, estimator, classes):
    X, y = rows_of(9000, classes=classes)
    weight = np.random.default_rng(2).integers(0, 3, size=len(y)).astype(float)
    mine = estimator.fit(X, y, sample_weight=weight)
    loglik, transduction, probabilities = mine.loglik_, mine.transduction_, mine.predict_proba(X)
    icl, uncertainty = mine.icl(), mine.uncertainty(X)
    fit = estimator.fit(there(X), there(y), sample_weight=there(weight))
    assert fit.loglik_ == pytest.approx(loglik, rel=1e-10)
    assert fit.icl() == pytest.approx(icl, rel=1e-8)
    given = there(X)
    for result, expected in (
        (fit.predict_proba(given), probabilities),
        (fit.uncertainty(given), uncertainty),
        (fit.transduction_, transduction),
        (fit.predict(given), mine.classes_[probabilities.argmax(axis=1)]),
    ):
        assert type(result) is type(given)
        assert result.device == given.device
        np.testing.assert_allclose(to_host(result), expected, atol=1e-5)
    np.testing.assert_allclose(fit.predict_proba(X), probabilities, atol=1e-5)  # and the host may go on with it


def test_labels_may_be_words_on_the_host(there):
    X, y = rows_of(3000)
    words = np.where(y < 0, None, np.where(y == 1, "pulsar", "noise"))
    mine = MARGaussianMixture(link="logit").fit(X, words)
    fit = MARGaussianMixture(link="logit").fit(there(X), words)
    np.testing.assert_array_equal(fit.transduction_, mine.transduction_)
    np.testing.assert_array_equal(fit.predict(there(X)), mine.predict(X))


def test_votes_are_those_of_the_host(there):
    X, y = rows_of(2000)
    counts = (y[:, None] == np.arange(2)) * 2 + (y >= 0)[:, None] * (np.arange(2000) % 2 == 0)[:, None]
    weight = np.where(np.arange(2000) % 7 == 0, 0.0, 1.0)
    mine = MARGaussianMixture().fit(X, counts, weight)
    fit = MARGaussianMixture().fit(there(X), there(counts), there(weight))
    np.testing.assert_allclose(fit.means_, mine.means_, rtol=1e-6)
    assert fit.loglik_ == pytest.approx(mine.loglik_, rel=1e-9)
    np.testing.assert_array_equal(to_host(fit.transduction_), mine.transduction_)
    np.testing.assert_array_equal(to_host(fit.impute(there(X), counts)), mine.transduction_)


def test_float32_rows_are_computed_in_double(there):
    X, y = rows_of(20_000)
    X = X.astype(np.float32)
    options = {"link": "logit", "covariance_type": "tied"}
    mine = MARGaussianMixture(**options).fit(X, y)
    double = MARGaussianMixture(**options).fit(there(X), there(y))
    np.testing.assert_allclose(double.means_, mine.means_, rtol=1e-9)


def test_bad_rows_are_refused(there):
    X, y = rows_of(300)
    fit = MARGaussianMixture(link="logit").fit(there(X), there(y))
    bad = X.copy()
    bad[5, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN in column 'x1' \(first in row 5\): only labels may be missing"):
        MARGaussianMixture().fit(there(bad), there(y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples: 300 and 299"):
        MARGaussianMixture().fit(there(X), there(y[1:]))
    with pytest.raises(ValueError, match="weights must be >= 0"):
        MARGaussianMixture().fit(there(X), there(y), sample_weight=there(np.full(300, -1.0)))
    with pytest.raises(ValueError, match="no labelled row of positive sample_weight"):
        MARGaussianMixture().fit(there(X), there(y), sample_weight=there(np.where(y == 1, 0.0, 1.0)))
    with pytest.raises(ValueError, match="out= is for rows on the host"):
        fit.predict_proba(there(X), out=np.empty((300, 2)))
    with pytest.raises(ValueError, match="label 7, which is not among the classes"):
        fit.impute(there(X), there(np.where(y == 1, 7, y)))
    for value, words in ((np.nan, "NaN"), (np.inf, "infinity"), (1e160, r"1e\+160")):
        bad[5, 1] = value
        with pytest.raises(ValueError, match=rf"{words} in column 'x1' \(first in row 5\)"):
            fit.predict(there(bad))
    for weight, word in ((np.full(300, np.nan), "NaN"), (np.zeros(300), "zero"), (np.ones((300, 1)), "shape")):
        with pytest.raises(ValueError, match=word):
            MARGaussianMixture().fit(there(X), there(y), sample_weight=there(weight))


def test_a_fitted_estimator_is_pickled_without_its_device(there):
    X, y = rows_of(600)
    fit = MARGaussianMixture(link="logit").fit(there(X), there(y))
    other = pickle.loads(pickle.dumps(fit))
    assert isinstance(other.transduction_, np.ndarray)
    np.testing.assert_array_equal(other.transduction_, to_host(fit.transduction_))


def test_rows_that_torch_would_differentiate_are_taken_as_they_are():
    torch = pytest.importorskip("torch")
    X, y = rows_of(600)
    rows = torch.asarray(X).requires_grad_()
    fit = MARGaussianMixture(link="logit").fit(rows, y)
    assert not fit.predict_proba(rows).requires_grad
