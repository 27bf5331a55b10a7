"""Tests of the mechanism agree with separate fits, statsmodels and simulation."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import chi2
from sklearn.base import clone

from marmix import MARGaussianMixture, MARLogisticRegression, Mechanism

pytestmark = [
    pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def gaussian(**params):
    return MARGaussianMixture(**({"covariance_type": "tied", "link": "logit", "measure": "margin"} | params))


def logistic(**params):
    return MARLogisticRegression(**({"C": np.inf, "link": "logit", "measure": "margin"} | params))


BOTH = pytest.mark.parametrize("make", [gaussian, logistic])


def inference_of(estimator, *rows):
    return clone(estimator).fit(*rows).inference(*rows)


def drawn(n, seed, alpha=(1.0, -3.0), missing=None):
    """Two normal classes two apart; labels missing by the mechanism, or with probabilities `missing(X)`."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2)) + np.array([[-1.0, 0.0], [1.0, 0.0]])[truth]
    scores = np.column_stack([-X[:, 0], X[:, 0]])
    q = Mechanism(alpha=alpha).missing_proba(scores) if missing is None else missing(X)
    return X, np.where(rng.uniform(size=n) < q, -1, truth)


def weights_of(y, seed=0):
    return np.random.default_rng(seed).integers(1, 4, size=len(y)).astype(float)


# Is the missingness informative?


@pytest.mark.pairs
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("params", [{}, {"link": "cloglog", "measure": "entropy"}], ids=str)
@BOTH
def test_the_likelihood_ratio_agrees_with_separate_fits_and_a_constant_rate(simulate, make, params, classes, weighted):
    X, y, _ = simulate(400, classes, distance=3.0, alpha=(0.5, -1.0))
    weight = weights_of(y) if weighted else np.ones(len(y))
    rows = (X, y, weight) if weighted else (X, y)
    result = inference_of(make(tol=1e-11, **params), *rows).test_informative()
    full, null = make(tol=1e-11, **params).fit(*rows), make(link=None, tol=1e-11).fit(*rows)
    missing, total = weight[y < 0].sum(), weight.sum()
    constant = missing * np.log(missing / total) + (total - missing) * np.log(1 - missing / total)
    assert result.statistic == pytest.approx(2 * (full.loglik_ - null.loglik_ - constant), abs=1e-4)
    assert result.p_value == pytest.approx(chi2.sf(result.statistic, 1), rel=1e-9)
    assert result.reference == "chi-square(1)"


@pytest.mark.parametrize(
    ("link", "family"), [("logit", sm.families.links.Logit), ("cloglog", sm.families.links.CLogLog)]
)
@BOTH
def test_covariates_stay_in_the_hypothesis(two, make, link, family):
    X, y, _ = two
    weight = weights_of(y)
    result = inference_of(make(link=link, mechanism_features=[1]), X, y, weight).test_informative()
    by_covariate = sm.GLM((y < 0) * 1.0, sm.add_constant(X[:, 1]), sm.families.Binomial(family()), freq_weights=weight)
    null = by_covariate.fit(tol=1e-12).llf + make(link=None).fit(X, y, weight).loglik_
    full = make(link=link, mechanism_features=[1]).fit(X, y, weight).loglik_
    assert result.statistic == pytest.approx(2 * (full - null), abs=1e-3)


@pytest.mark.long
def test_a_free_shape_uses_the_bootstrap_and_jobs_do_not_matter(simulate):
    rows = simulate(150, alpha=(0.5, -1.0))[:2]
    inference = inference_of(gaussian(link="aranda-ordaz"), *rows)
    first, second = (inference.test_informative(n_resamples=19, n_jobs=n, random_state=7) for n in (1, 2))
    assert "parametric bootstrap, 19 samples" in first.reference
    np.testing.assert_array_equal(first.details["simulated"], second.details["simulated"])


def test_untestable_hypotheses_raise(two):
    X, y, truth = two
    for test in ("test_informative", "test_mechanism"):
        for estimator, labels in ((gaussian(link=None), y), (gaussian(), truth)):
            with pytest.raises(ValueError, match="needs a fitted mechanism"):
                getattr(inference_of(estimator, X, labels), test)()
        with pytest.raises(ValueError, match=r"C=np\.inf"):
            getattr(inference_of(logistic(C=1.0), X, y), test)()
        with pytest.raises(ValueError, match="mechanism_weight=1"):
            getattr(inference_of(gaussian(mechanism_weight=0.5), X, y), test)()
    with pytest.raises(ValueError, match="no label is missing"):
        inference_of(gaussian(), X, truth).test_mcar()
    inference = inference_of(gaussian(link="aranda-ordaz"), X, y, weights_of(y))
    with pytest.raises(ValueError, match="bootstrap=False"):
        inference.test_informative()


def test_a_simulated_p_value_counts_the_samples_beyond(simulate):
    rows = simulate(200, alpha=(1.0, -4.0))[:2]
    result = inference_of(gaussian(), *rows).test_informative(bootstrap=True, n_resamples=19, random_state=0)
    assert result.p_value == (1 + np.sum(result.details["simulated"] >= result.statistic - 1e-9)) / 20


# Missing completely at random.


@pytest.mark.parametrize("weighted", [False, True])
def test_test_mcar_agrees_with_logistic_regression_by_statsmodels(simulate, weighted):
    X, y, _ = simulate(400, 3, d=3, distance=3.0)
    X = X * [1.0, 1e4, 1e-5] + [3.0, 0.0, 1e-4]
    weight = weights_of(y) if weighted else np.ones(len(y))
    result = inference_of(logistic(link=None), X, y, *([weight] if weighted else [])).test_mcar()
    scaled = sm.add_constant((X - X.mean(axis=0)) / X.std(axis=0))
    full, flat = (
        sm.GLM((y < 0) * 1.0, part, sm.families.Binomial(), freq_weights=weight).fit(tol=1e-13)
        for part in (scaled, scaled[:, :1])
    )
    assert result.statistic == pytest.approx(2 * (full.llf - flat.llf), rel=1e-6)
    assert result.p_value == pytest.approx(chi2.sf(result.statistic, 3), rel=1e-9)
    slopes = result.details["slopes_of_standardised_features"]
    np.testing.assert_allclose([slopes[f"x{i}"] for i in range(3)], full.params[1:], rtol=1e-4, atol=1e-6)


# Is the mechanism right?


@BOTH
def test_right_mechanisms_pass_and_wrong_ones_do_not(make):
    right = [inference_of(make(), *drawn(4000, seed)).test_mechanism().p_value for seed in range(3)]
    assert min(right) > 0.01
    one_sided = drawn(4000, 0, missing=lambda X: 1 / (1 + np.exp(-1.5 * X[:, 0])))
    assert inference_of(make(), *one_sided).test_mechanism().p_value < 1e-4
    elsewhere = drawn(4000, 0, missing=lambda X: np.exp(-2.0 * (X[:, 0] - 1.5) ** 2))  # a band next to the boundary
    assert inference_of(make(), *elsewhere).test_mechanism().p_value < 1e-4


@pytest.mark.parametrize("kind", ["full", "tied", "logistic"])
def test_axes_units_and_names_of_classes_do_not_matter(three, kind):
    settings = {"measure": "entropy", "tol": 1e-12, "n_init": 1}
    estimator = logistic(**settings) if kind == "logistic" else gaussian(covariance_type=kind, **settings)
    turned = three.X @ np.array([[1.0, 20.0], [-3.0, 4.0]]) + [5.0, -1.0]
    renamed = np.where(three.y < 0, -1, (three.y + 1) % 3)
    original, changed = inference_of(estimator, three.X, three.y), inference_of(estimator, turned, renamed)
    for answer in (
        lambda result, k: result.test_mechanism(),
        lambda result, k: result.test_informative(bootstrap=False),
        lambda result, k: result.test_mcar(),
    ):
        before, after = answer(original, 0), answer(changed, 1)
        assert before.reference == after.reference
        assert before.statistic == pytest.approx(after.statistic, rel=2e-3)


def test_test_mechanism_is_the_contrast_of_the_two_fits_in_a_large_sample():
    X, y = drawn(40_000, 1, missing=lambda X: 1 / (1 + np.exp(4 * np.tanh(X[:, 0]) ** 2 - 1.0 - 0.3 * X[:, 0])))
    full, alone = (inference_of(logistic(link=link, tol=1e-12), X, y) for link in ("logit", None))
    gap = full.params[:3] - alone.params
    spread = alone.cov_params("observed") - full.cov_params("observed")[:3, :3]
    result = full.test_mechanism()
    assert result.statistic > 30.0
    assert result.statistic == pytest.approx(gap @ np.linalg.solve(spread, gap), rel=0.02)


def test_weights_are_repeated_rows_and_order_does_not_matter(two):
    repeats = np.random.default_rng(0).integers(0, 3, size=len(two.y))
    order = np.random.default_rng(1).permutation(repeats.sum())
    many = np.repeat(two.X, repeats, axis=0)[order], np.repeat(two.y, repeats)[order]
    weighted = inference_of(gaussian(tol=1e-12), two.X, two.y, repeats.astype(float))
    result = inference_of(gaussian(tol=1e-12), *many)
    assert weighted.test_mechanism().statistic == pytest.approx(result.test_mechanism().statistic, rel=1e-4)
