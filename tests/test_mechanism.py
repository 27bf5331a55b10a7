"""`Mechanism`, which can be combined with any classifier."""

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from marmix import Mechanism
from marmix.core.arrays import to_host
from marmix.core.charts import MechanismChart
from marmix.core.measures import MEASURES

NAMES = [name for name, measure in MEASURES.items() if measure.only_classes is None]  # any number of classes
SHAPES = [0.0, 1e-4, 0.5, 1.0, 7.0]


def simulated(mechanism, n=4000, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    scores = 2.0 * rng.normal(size=(n, classes))
    return scores, rng.uniform(size=n) < mechanism.missing_proba(scores)


@pytest.mark.parametrize("share", [0.0, 0.15])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("measure", NAMES)
def test_terms_are_the_bernoulli_likelihood(measure, shape, share):
    mechanism = Mechanism(measure, alpha=(0.4, -0.8), shape=shape, share=share)
    scores = np.random.default_rng(1).normal(size=(6, 3)) * 1.5
    missing = np.array([0, 1, 0, 1, 1, 0])
    terms = mechanism.terms(scores, missing)
    q = mechanism.missing_proba(scores)
    np.testing.assert_allclose(terms.loglik, np.where(missing, np.log(q), np.log1p(-q)), rtol=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.15])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("measure", NAMES)
def test_curvature_is_the_variance_of_the_gradient(measure, shape, share):
    mechanism = Mechanism(measure, alpha=(0.4, -0.8), shape=shape, share=share)
    scores = np.random.default_rng(2).normal(size=(20, 4))
    q = mechanism.missing_proba(scores)[:, None, None]
    missing, labelled = (mechanism.terms(scores, np.full(20, m)).gradient for m in (1, 0))
    variance = q * missing[:, :, None] * missing[:, None, :] + (1 - q) * labelled[:, :, None] * labelled[:, None, :]
    np.testing.assert_allclose(mechanism.terms(scores, np.zeros(20)).curvature, variance, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(q[:, :, 0] * missing + (1 - q[:, :, 0]) * labelled, 0.0, atol=1e-12)  # mean zero


CASES = [(name, classes) for name, measure in MEASURES.items() for classes in (2, 3) if measure.admits(classes)]


def weighted_problem(measure, classes, shape=0.5, n=40):
    rng = np.random.default_rng(3)
    scores, covariates = 1.5 * rng.normal(size=(n, classes)), rng.normal(size=(n, 1))
    mechanism = Mechanism(measure, alpha=(0.4, -0.8, 0.5), shape=shape, share=0.1)
    return mechanism, scores, rng.uniform(size=n) < 0.5, covariates, rng.uniform(0.0, 3.0, size=n)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("measure", "classes"), CASES)
def test_the_gradient_of_weighted_rows_is_that_of_their_log_likelihood(measure, classes, shape):
    mechanism, scores, missing, covariates, weight = weighted_problem(measure, classes, shape)
    gradient = mechanism.terms(scores, missing, covariates, weight).gradient
    step = 1e-5
    for k in range(classes):
        shift = step * np.eye(classes)[k]
        up, down = (mechanism.terms(scores + d, missing, covariates, weight).loglik for d in (shift, -shift))
        np.testing.assert_allclose(gradient[:, k], (up - down) / (2 * step), atol=1e-8 * np.abs(gradient).max() + 1e-9)


def test_tables_and_lists_are_arrays():
    mechanism, scores, missing, covariates, weight = weighted_problem("entropy", 3)
    tables = pd.DataFrame(scores), pd.Series(missing), pd.DataFrame(covariates), pd.Series(weight)
    lists = scores.tolist(), missing.astype(int).tolist(), covariates.tolist(), weight.tolist()
    for arguments in (tables, lists):
        for mine, other in zip(
            mechanism.terms(scores, missing, covariates, weight), mechanism.terms(*arguments), strict=True
        ):
            np.testing.assert_array_equal(other, mine)


def test_a_row_of_weight_two_is_the_row_twice():
    mechanism, scores, missing, covariates, _ = weighted_problem("margin", 3)
    weighted = mechanism.terms(scores, missing, covariates, np.full(len(scores), 2.0))
    twice = (np.concatenate([a, a]) for a in (scores, missing, covariates))
    for double, single in zip(weighted, mechanism.terms(*twice), strict=True):
        np.testing.assert_allclose(double, single.reshape(2, len(scores), *single.shape[1:]).sum(axis=0), rtol=1e-14)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize(("measure", "classes"), CASES)
def test_torch_scores_give_torch_arrays_with_the_same_values(measure, classes, dtype, rtol):
    torch = pytest.importorskip("torch")
    mechanism, scores, missing, covariates, weight = weighted_problem(measure, classes)
    there = torch.asarray(scores, dtype=getattr(torch, dtype))
    options = (torch.asarray(missing), torch.asarray(covariates), torch.asarray(weight))
    here = mechanism.terms(there.double().numpy(), missing, covariates, weight)
    for mine, other in zip(here, mechanism.terms(there, *options), strict=True):
        assert other.dtype == there.dtype
        np.testing.assert_allclose(other.numpy(), mine, rtol=rtol, atol=rtol * np.abs(mine).max())
    for name, arguments in (("uncertainty", ()), ("missing_proba", (covariates,))):
        values = getattr(mechanism, name)(there, *arguments)
        assert values.dtype == there.dtype
        np.testing.assert_allclose(values.numpy(), getattr(mechanism, name)(there.numpy(), *arguments), rtol=rtol)
    profiles = [mechanism.profile(a, missing, weight, covariates).alpha for a in (there, there.numpy())]
    np.testing.assert_allclose(*profiles, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("measure", "classes"), CASES)
def test_terms_need_only_the_array_api_standard(measure, classes):
    strict = pytest.importorskip("array_api_strict")
    mechanism, *arguments = weighted_problem(measure, classes)
    here, there = mechanism.terms(*arguments), mechanism.terms(*map(strict.asarray, arguments))
    for mine, other in zip(here, there, strict=True):
        np.testing.assert_allclose(to_host(other), mine, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("shape", [0.0, 1e-7, 1.0, 30.0])
@pytest.mark.parametrize("eta", [-700.0, -30.0, 0.0, 5.0, 700.0])
def test_extreme_predictors_agree_with_fifty_digits(eta, shape, missing):
    # a margin of 1 - 1e-300 or so: the scores are 690 apart, u = 1, and eta = alpha_0 + alpha_1
    mechanism = Mechanism("margin", alpha=(eta - 3.0, 3.0), shape=shape)
    scores = np.array([[690.0, 0.0]])
    terms = mechanism.terms(scores, [missing])
    with mp.workdps(1500):
        # the same doubles as above: eta as alpha_0 + alpha_1 * u in double precision
        e = mp.exp(mp.mpf(mechanism.alpha[0]) + 3 * mp.tanh(345) ** 2)
        a = mp.mpf(shape)
        n = mp.log(1 + a * e) / a if a else e
        slope = e / (1 + a * e)
        loglik = mp.log(-mp.expm1(-n)) if missing else -n
        by_eta = slope / mp.expm1(n) if missing else -slope
        du = 2 * mp.tanh(345) * (1 - mp.tanh(345) ** 2) / 2
        gradient = by_eta * 3 * du
    assert np.isfinite(terms.loglik[0])
    assert np.isfinite(terms.gradient).all()
    assert float(terms.loglik[0]) == pytest.approx(float(loglik), rel=2e-13)  # eta itself has 700 eps
    if abs(gradient) > 1e-290:
        assert float(terms.gradient[0, 0]) == pytest.approx(float(gradient), rel=2e-12)
        assert float(terms.gradient[0, 1]) == pytest.approx(-float(gradient), rel=2e-12)
    else:
        np.testing.assert_allclose(terms.gradient, 0.0, atol=1e-290)


def test_profile_for_logit_is_logistic_regression_on_the_measure():
    truth = Mechanism("entropy", alpha=(-1.0, 2.0))
    scores, missing = simulated(truth)
    fitted = truth.profile(scores, missing)
    u = truth.uncertainty(scores)[:, None]
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(u, missing)
    np.testing.assert_allclose(fitted.alpha, [reference.intercept_[0], reference.coef_[0, 0]], rtol=1e-4)


@pytest.mark.parametrize("measure", NAMES)
@pytest.mark.parametrize("free", [(False, False), (True, False), (False, True)])
def test_profile_is_a_maximum(measure, free):
    slope = 0.5 * MEASURES[measure].slope
    truth = Mechanism(
        measure, alpha=(0.5, slope), shape=0.8, share=0.1 * free[1], free_shape=free[0], free_share=free[1]
    )
    scores, missing = simulated(truth, 1000)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, size=len(scores))

    def loglik(mechanism):
        return weight @ mechanism.terms(scores, missing).loglik

    best = truth.profile(scores, missing, weight)
    maximum = loglik(best)
    assert maximum >= loglik(truth)
    rng = np.random.default_rng(1)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(8):
            alpha = tuple(np.array(best.alpha) * (1 + size * rng.normal(size=2)))
            shape = max(best.shape * (1 + size * rng.normal()), 0.0) if free[0] else best.shape
            share = min(max(best.share + size * rng.normal(), 0.0), 0.9) if free[1] else 0.0
            assert loglik(Mechanism(measure, alpha=alpha, shape=shape, share=share)) <= maximum + 1e-7


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_that_hardly_ever_lose_their_label_leave_the_coordinates_finite(shape, free):
    drivers = np.linspace(0.0, 0.7, 2000)[None]
    for level in np.geomspace(1.0, 1e5, 11):
        mechanism = Mechanism(alpha=(-level, 1.4 * level), shape=shape, free_share=free)
        chart = MechanismChart(mechanism, drivers, None)
        moved = chart.mechanism(np.full(chart.size, 1e-3))
        assert np.isfinite([*moved.alpha, moved.shape, moved.share]).all()


@given(rate=st.floats(0.01, 0.99), shape=st.sampled_from(SHAPES))
def test_without_slope_the_rate_is_met(rate, shape):
    mechanism = Mechanism(shape=shape).starting(rate)
    assert mechanism.missing_proba(np.random.default_rng(0).normal(size=(5, 3))) == pytest.approx(rate, rel=1e-9)


@given(a=st.floats(0, 0.95), eta=st.floats(-20, 20), shape=st.sampled_from(SHAPES))
def test_a_share_missing_completely_at_random_mixes_the_probabilities(a, eta, shape):
    scores = np.array([[0.0, 0.0]])  # margin 0, so eta = alpha_0
    with_share, without = Mechanism(alpha=(eta, 1.0), shape=shape, share=a), Mechanism(alpha=(eta, 1.0), shape=shape)
    g = without.missing_proba(scores)[0]
    assert with_share.missing_proba(scores)[0] == pytest.approx(a + (1 - a) * g, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "probit"}, "link='probit' is not one of"),
        ({"link": "logit", "shape": 0.5}, "link='logit' has shape 1"),
        ({"shape": -1.0}, "shape=-1.0"),
        ({"shape": np.inf}, "shape=inf"),
        ({"measure": "variance"}, "measure='variance'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Mechanism.from_link(**options)


@pytest.mark.parametrize(
    ("scores", "missing", "message"),
    [
        (np.zeros(3), [0, 1, 0], "scores must have shape"),
        (np.zeros((3, 1)), [0, 1, 0], "K >= 2"),
        (np.zeros((3, 2)), [0, 1], "missing must be 3 values"),
        (np.zeros((3, 2)), [0, 1, 2], "missing must be 3 values"),
        (np.zeros((3, 2)), [1, 1, 1], "same for every row"),
    ],
)
def test_bad_input_is_refused(scores, missing, message):
    with pytest.raises(ValueError, match=message):
        Mechanism().profile(scores, missing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": [0, 1, np.nan]}, "missing must be 3 values"),
        ({"sample_weight": [1.0, 2.0]}, "sample_weight must be 3 values"),
        ({"covariates": np.zeros((3, 1))}, "covariates must have shape"),
    ],
)
def test_bad_arguments_of_terms_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Mechanism().terms(np.zeros((3, 2)), **{"missing": [0, 1, 0], **options})
