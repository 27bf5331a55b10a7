"""Profile-likelihood intervals agree with refits, another optimiser, tests and their sentences."""

from copy import copy

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import chi2, norm

from marmix import MARGaussianMixture, MARLogisticRegression

pytestmark = [
    pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

DROP = chi2.isf(0.05, 1) / 2  # 1.92
CLOSE = 0.01  # of the log-likelihood: a quarter of a percent of the root


def gaussian(**params):
    return MARGaussianMixture(
        **({"covariance_type": "tied", "link": "logit", "measure": "margin", "tol": 1e-11} | params)
    )


def logistic(**params):
    return MARLogisticRegression(**({"C": np.inf, "link": "logit", "measure": "margin", "tol": 1e-11} | params))


def more(*seeds):
    """Seeds for long runs only."""
    return [pytest.param(seed, marks=pytest.mark.long) for seed in seeds]


BOTH = pytest.mark.parametrize("make", [gaussian, logistic])


# Slopes, by an independent likelihood and optimiser: two normals with a common variance.


def line(n, seed, alpha, shape):
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    x = rng.normal(size=n) + 2.0 * truth
    growth = np.exp(alpha[0] + alpha[1] * np.tanh(x - 1.0) ** 2)
    q = 1 - np.exp(-growth) if shape == 0 else 1 - (1 + shape * growth) ** (-1 / shape)
    return x, np.where(rng.uniform(size=n) < q, -1, truth)


def negative_loglik(v, x, y, slope, shape):
    log_odds, first, second, log_sd, level = v[:5]
    shape = np.exp(v[5]) if shape is None else shape
    scores = np.array(
        [
            norm.logpdf(x, first, np.exp(log_sd)) - np.logaddexp(0.0, log_odds),
            norm.logpdf(x, second, np.exp(log_sd)) - np.logaddexp(0.0, -log_odds),
        ]
    )
    eta = level + slope * np.tanh((scores[1] - scores[0]) / 2) ** 2
    n = np.exp(eta) if shape == 0 else np.logaddexp(0.0, eta + np.log(shape)) / shape
    missing = logsumexp(scores, axis=0) + np.log(-np.expm1(-n))
    return -np.sum(np.where(y < 0, missing, np.where(y == 1, scores[1], scores[0]) - n))


def highest(fit, x, y, slope, shape):
    start = [np.log(fit.weights_[1] / fit.weights_[0]), *fit.means_.ravel(), 0.5 * np.log(fit.covariances_[0, 0])]
    best = np.inf
    steeper = slope / fit.alpha_[1]
    level = fit.alpha_[0] * steeper
    for extra in ([0.0], [np.log(max(fit.shape_, 1.0) * steeper)]) if shape is None else ([],):
        result = minimize(negative_loglik, [*start, level, *extra], args=(x, y, slope, shape), method="BFGS")
        best = min(best, result.fun)
    return -best


@pytest.mark.parametrize("seed", [2, *more(0, 1)])
@pytest.mark.parametrize(("link", "shape"), [("logit", 1.0), ("cloglog", 0.0), ("aranda-ordaz", None)])
def test_limits_of_a_slope_agree_with_another_optimiser(link, shape, seed):
    x, y = line(250, seed, (1.0, -3.0), 1.0)
    fit = gaussian(link=link).fit(x[:, None], y)
    result = fit.inference(x[:, None], y).profile("alpha_1")
    assert result.estimate == pytest.approx(fit.alpha_[1])
    assert result.lower < result.estimate < result.upper < 0.0
    for end in (result.lower, result.upper):
        # if a steeper slope with a larger shape fits as well, the interval contains every slope
        slope = end if np.isfinite(end) else 4.0 * result.estimate
        drop = fit.loglik_ - highest(fit, x, y, slope, shape)
        assert drop == pytest.approx(DROP, abs=CLOSE) if np.isfinite(end) else drop < DROP


# Any parameter: at the level of the p-value of a hypothesis the interval ends at the hypothesis.


@pytest.mark.parametrize(
    ("params", "name", "null", "value"),
    [
        ({}, "alpha_1", None, 0.0),
        ({"link": "cloglog"}, "alpha_1", None, 0.0),
        ({"mechanism_features": [1]}, "alpha_1", None, 0.0),
        ({"mechanism_features": [1]}, "alpha[x1]", {"mechanism_features": None}, 0.0),
        ({"mechanism_features": [1, 0]}, "alpha[x0]", {"mechanism_features": [1]}, 0.0),
        ({"link": "aranda-ordaz"}, "shape", {"link": "logit"}, 1.0),
        ({"link": "aranda-ordaz", "mechanism_features": [0]}, "shape", {"link": "logit"}, 1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.pairs
@BOTH
def test_at_the_level_of_a_p_value_the_interval_ends_at_the_hypothesis(
    simulate, make, classes, params, name, null, value
):
    X, y, _ = simulate(400, classes, distance=3.0, alpha=(0.5, -1.5), seed=3)
    X = X * [1.0, 50.0]
    weight = np.random.default_rng(0).integers(1, 3, size=len(y)).astype(float)
    settings = {"measure": "entropy", **({} if make is logistic else {"covariance_type": "diag"})}
    fit = make(**settings, **params).fit(X, y, weight)
    inference = fit.inference(X, y, weight)
    if null is None:
        statistic = inference.test_informative(bootstrap=False).statistic
    else:
        statistic = 2 * (fit.loglik_ - make(**settings, **(params | null)).fit(X, y, weight).loglik_)
    result = inference.profile(name, alpha=float(chi2.sf(statistic, 1)))
    end = result.lower if value < result.estimate else result.upper
    assert np.sqrt(statistic) > 0.1
    slack = 2e-3 * abs(result.estimate - value) / np.sqrt(statistic)  # limits are precise to 1e-3 of the root
    assert end == pytest.approx(value, abs=2.0 * slack + (0.01 if name == "shape" else 1e-4 * abs(result.estimate)))


# The shape, against fits with a fixed shape.


def check_shape(fit, rows, result):
    for end in (result.lower, result.upper):
        shape = min(float(end), 100.0)
        tries = [
            copy(fit).set_params(warm_start=True, shape=shape).fit(*rows),
            copy(fit).set_params(warm_start=False, shape=shape).fit(*rows),
        ]
        drop = fit.loglik_ - max(refit.loglik_ for refit in tries)
        if 0.0 < end < np.inf:
            assert drop == pytest.approx(DROP, abs=CLOSE)
        else:
            assert drop < DROP + CLOSE


@pytest.mark.parametrize("seed", [3, *more(9, 13, 18, 29)])
@BOTH
def test_limits_of_the_shape_agree_with_refits(simulate, make, seed):
    # the true link is cloglog: some fits have their maximum at large shapes, and cloglog is hardly worse
    rows = simulate(300, alpha=(0.5, -2.0), shape=0.0, seed=seed)[:2]
    fit = make(link="aranda-ordaz").fit(*rows)
    check_shape(fit, rows, fit.inference(*rows).profile("shape"))


# The share.


def test_limits_of_the_share_agree_with_refits_at_that_share(simulate):
    X, y, _ = simulate(1000, alpha=(2.0, -8.0))
    rng = np.random.default_rng(0)
    y = np.where(rng.uniform(size=len(y)) < 0.15, -1, y)
    fit = gaussian(mcar_share=True).fit(X, y)
    result = fit.inference(X, y).profile("share")
    assert 0.0 < result.lower < result.estimate < result.upper < 1.0
    inference = fit.inference(X, y).fitted
    coordinates, objective = inference.coordinates, inference.objective
    for end in (result.lower, result.upper):

        def negative(vector, end=end):
            theta, mechanism = coordinates.at(vector)
            at = type(mechanism)(mechanism.measure, mechanism.alpha, mechanism.shape, end)
            sums = objective.sums(theta, at)
            return -(sums.ignorable + sums.missing)

        start = np.zeros(coordinates.size)
        drop = minimize(negative, start, method="BFGS").fun + objective.value(
            inference.theta, objective.sums(inference.theta, inference.mechanism)
        )
        assert drop == pytest.approx(DROP, abs=CLOSE)
    none = gaussian().fit(X, y)
    assert 2 * (fit.loglik_ - none.loglik_) > 2 * DROP  # the interval excludes 0


def test_a_share_that_may_be_zero_has_an_interval_from_zero(simulate):
    rows = simulate(600, seed=1)[:2]
    result = gaussian(mcar_share=True).fit(*rows).inference(*rows).profile("share")
    assert result.lower == 0.0
    assert 0.0 < result.upper < 1.0


# Limits and invariances.


@pytest.mark.parametrize("make", [gaussian, pytest.param(logistic, marks=pytest.mark.long)])
def test_the_interval_is_wald_s_in_a_large_sample(simulate, make):
    X, y, _ = simulate(40_000, spreads=[1.0, 1.0])
    fit = make(link="aranda-ordaz", mechanism_features=[1]).fit(X, y)
    inference = fit.inference(X, y, cov_type="observed")
    for name in ("alpha_1", "alpha[x1]", "shape"):
        result, i = inference.profile(name), inference.param_names.index(name)
        half = norm.isf(0.025) * inference.bse[i]
        np.testing.assert_allclose((result.lower, result.upper), inference.params[i] + [-half, half], atol=0.08 * half)


@pytest.mark.parametrize("name", ["alpha_1", "alpha[x1]", "shape"])
def test_units_origin_and_names_of_the_classes_do_not_matter(simulate, name):
    X, y, _ = simulate(500, alpha=(1.0, -4.0), shape=2.0, seed=8)
    moved = X * [1e-6, 300.0] + [5.0, -2.0]
    swapped = np.where(y < 0, None, np.array(["z", "a"], dtype=object)[np.maximum(y, 0)])
    settings = {"link": "aranda-ordaz", "mechanism_features": [1]}
    first = gaussian(**settings).fit(X, y).inference(X, y).profile(name, alpha=0.3)
    second = gaussian(**settings).fit(moved, swapped).inference(moved, swapped).profile(name, alpha=0.3)
    unit = 300.0 if name == "alpha[x1]" else 1.0
    width = first.upper - first.lower
    assert np.isfinite(width)
    np.testing.assert_allclose(
        np.array([second.estimate, second.lower, second.upper]) * unit,
        [first.estimate, first.lower, first.upper],
        atol=0.003 * width,
    )


# Errors and limits.


def test_parameters_without_a_profile_raise(two):
    X, y, truth = two

    def profile(estimator, name="alpha_1", labels=y, **kwargs):
        return estimator.fit(X, labels).inference(X, labels).profile(name, **kwargs)

    for name in ("alpha_0", "mean[0, x0]", "share"):
        with pytest.raises(ValueError, match="no profile likelihood of"):
            profile(gaussian(), name)
    with pytest.raises(ValueError, match=r"C=np\.inf"):
        profile(logistic(C=1.0))
    with pytest.raises(ValueError, match="mechanism_weight=1"):
        profile(gaussian(mechanism_weight=0.5))
    with pytest.raises(ValueError, match="needs a fitted mechanism"):
        profile(gaussian(), labels=truth)
    with pytest.raises(ValueError, match="alpha="):
        profile(gaussian(), alpha=95)


@pytest.mark.parametrize("link", [pytest.param("logit", marks=pytest.mark.long), "cloglog", "aranda-ordaz"])
def test_the_slope_has_no_lower_limit_if_the_uncertainty_separates_missing_labels(two, link):
    u = gaussian(link=None).fit(two.X, two.truth).uncertainty(two.X)
    y = np.where(u < np.median(u), -1, two.truth)
    result = gaussian(link=link).fit(two.X, y).inference(two.X, y).profile("alpha_1")
    assert result.lower == -np.inf
    assert -np.inf < result.upper < 0.0
