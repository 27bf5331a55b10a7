"""The bootstrap: resamples, standard errors, failures, and the alignment of components."""

from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from problems import PAPER
from scipy.special import expit

from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.core.gaussian import Gaussians
from marmix.inference import bootstrap as module
from marmix.inference.bootstrap import NO_LABEL, NOT_CONVERGED, Bootstrap, align, bootstrap, values_of
from marmix.inference.simulation import seed_sequence, simulate

pytestmark = pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")


def fitted_of(clf, X, y, weight=None):
    """The `Fitted` of a fit to these rows."""
    return clf.fit(X, y, weight).inference(X, y, weight)._fitted


def logistic_rows(n=1000, d=2, seed=0):
    """Rows of a logistic model; about half of the labels are missing by a logit mechanism of the margin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    tau = expit(X @ np.linspace(2.0, -1.0, d) + 0.3)
    y = (rng.uniform(size=n) < tau).astype(int)
    return X, np.where(rng.uniform(size=n) < expit(1.5 - 4.0 * (2.0 * tau - 1.0) ** 2), -1, y)


@pytest.fixture(scope="module")
def mixture(two):
    return fitted_of(MARGaussianMixture(link="logit"), two.X, two.y)


@pytest.fixture(scope="module")
def logistic():
    return fitted_of(MARLogisticRegression(link="logit", C=np.inf), *logistic_rows())


def variety(simulate):
    """Fits of every kind, each with its rows."""
    two, three = simulate(), simulate(classes=3, distance=3.0, seed=1)
    weight = np.random.default_rng(0).integers(1, 3, size=len(two.y)).astype(float)
    names = np.array(["ash", "birch", "oak"], dtype=object)
    frame = pd.DataFrame(three.X, columns=["width", "height"])
    text = pd.Series(np.where(three.y < 0, None, names[three.y]))
    Mixture, Logistic = MARGaussianMixture, MARLogisticRegression
    return {
        "full": (Mixture(**PAPER), two.X, two.y),
        "tied": (Mixture(covariance_type="tied", link="logit"), two.X, two.y),
        "diag": (Mixture(covariance_type="diag", link="logit"), two.X, two.y),
        "spherical": (Mixture(covariance_type="spherical", link="logit"), two.X, two.y),
        "names": (Mixture(link="logit"), frame, text),
        "covariates": (Mixture(link="logit", mechanism_features=["height"]), frame, text),
        "components": (Mixture(link="logit", n_components={0: 2}, random_state=0), two.X, two.y),
        "share": (Mixture(link="logit", mcar_share=True), two.X, two.y),
        "ignored": (Mixture(link=None), two.X, two.y),
        "tempered": (Mixture(link="logit", mechanism_weight=0.5), two.X, two.y),
        "all labelled": (Mixture(), two.X, two.truth),
        "weights": (Mixture(link="logit"), two.X, two.y, weight),
        "logistic": (Logistic(link="logit"), two.X, two.y),
        "logistic of three": (Logistic(link="logit", mechanism_features=["width"]), frame, text),
        "logistic of squares": (Logistic(degree=2, link="logit"), two.X, two.y),
        "logistic ignored": (Logistic(link=None), two.X, two.y),
    }


KINDS = [
    "full", "tied", "diag", "spherical", "names", "covariates", "components", "share", "ignored", "tempered", "all labelled",
    "weights", "logistic", "logistic of three", "logistic of squares", "logistic ignored",
]  # fmt: skip


# Resamples.


@pytest.mark.parametrize("kind", KINDS)
def test_the_named_parameters_of_an_estimator_are_those_of_its_inference(simulate, kind):
    fitted = fitted_of(*variety(simulate)[kind])
    np.testing.assert_allclose(values_of(fitted, fitted.estimator), fitted.values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("full", "components", "share")])
def test_every_kind_of_fit_has_resamples_within_six_standard_errors(simulate, kind):
    clf, X, y, *weight = variety(simulate)[kind]
    result = clf.fit(X, y, *weight).inference(X, y, *weight)
    answer = bootstrap(result._fitted, 8, random_state=0)
    away = (answer.estimates - answer.params) / np.asarray(result.bse)
    assert answer.names == result.param_names
    assert answer.n_failed == 0
    assert 0.5 < np.abs(away).max() < 6.0


def test_a_resample_is_the_fit_to_the_drawn_rows(two):
    exact = MARGaussianMixture(link="logit", tol=1e-14)
    fitted = fitted_of(exact, two.X, two.y)
    answer = bootstrap(fitted, 3, random_state=5)
    for estimate, seed in zip(answer.estimates, seed_sequence(5).spawn(3), strict=True):
        drawn = np.random.default_rng(seed).integers(len(two.y), size=len(two.y))
        from_scratch = exact.fit(two.X[drawn], two.y[drawn])
        np.testing.assert_allclose(estimate, values_of(fitted, from_scratch), rtol=1e-6, atol=1e-6)


def test_generators_are_reproducible_and_advance(mixture):
    def draws(make):
        rng = make()
        return [bootstrap(mixture, 2, random_state=rng).estimates for _ in range(2)]

    for make in (lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)):
        (first, second), (again, _) = draws(make), draws(make)
        np.testing.assert_array_equal(first, again)
        assert not np.isclose(first, second).any()
    assert not np.isclose(bootstrap(mixture, 2).estimates, bootstrap(mixture, 2).estimates).any()


def test_weights_count_rows(mixture):
    """As many draws as the weights sum to, in proportion to them: mean w, variance w (1 - w / sum)."""
    weight = np.array([1.0, 2.0, 4.0, 0.5, 0.25])
    data = SimpleNamespace(X=np.zeros((5, 1)), z=np.zeros(5, dtype=int), weight=weight, copied=False)
    rng = np.random.default_rng(0)
    drawn = np.array([module._rows(data, "nonparametric", rng)[2] for _ in range(20_000)])
    np.testing.assert_allclose(drawn.sum(axis=1), weight.sum(), rtol=1e-12)
    scale = weight.sum() / 8  # eight draws stand for a weight of 7.75
    variance = scale * weight * (1 - weight / weight.sum())
    np.testing.assert_allclose(drawn.mean(axis=0), weight, atol=5 * np.sqrt(variance.max() / 20_000))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.08)


# The statistic.


def test_a_statistic_of_the_parameters_is_their_bootstrap(mixture):
    all_parameters = bootstrap(mixture, 6, random_state=0)
    means = bootstrap(mixture, 6, statistic=lambda clf: clf.means_, random_state=0)
    assert means.names == ["statistic[0, 0]", "statistic[0, 1]", "statistic[1, 0]", "statistic[1, 1]"]
    np.testing.assert_array_equal(means.estimates, all_parameters.estimates[:, 2:6])
    np.testing.assert_allclose(means.params, all_parameters.params[2:6], rtol=1e-12)
    assert bootstrap(mixture, 2, statistic=lambda clf: clf.loglik_).names == ["statistic"]


def test_a_statistic_sees_the_names_of_classes_and_features(simulate):
    clf, X, y = variety(simulate)["names"]
    fitted = fitted_of(clf, X, y)
    calls = []

    def statistic(estimator):
        calls.append((list(estimator.classes_), list(estimator.component_classes_), set(estimator.transduction_)))
        assert (estimator.transduction_[y.notna()] == y[y.notna()]).all()
        return estimator.predict_proba(X[:5])[:, 1]  # a warning of sklearn fails the test if features have no names

    answer = bootstrap(fitted, 3, statistic=statistic, random_state=0)
    assert calls == [(["ash", "birch", "oak"], ["ash", "birch", "oak"], {"ash", "birch", "oak"})] * 4
    np.testing.assert_allclose(answer.params, clf.predict_proba(X[:5])[:, 1], rtol=1e-12)


# Failures.


def test_resamples_without_a_label_of_a_class_are_counted(two):
    y = two.y.copy()
    y[np.flatnonzero(y == 1)[2:]] = -1
    few = np.flatnonzero(y == 1)
    fitted = fitted_of(MARGaussianMixture(covariance_type="tied", link=None), two.X, y)
    missing = 0
    for seed in seed_sequence(0).spawn(60):
        missing += not np.isin(few, np.random.default_rng(seed).integers(len(y), size=len(y))).any()
    with pytest.warns(UserWarning, match="label more rows of the rarest class"):
        answer = bootstrap(fitted, 60, random_state=0)
    assert 0 < missing == answer.failures[NO_LABEL]
    assert answer.n_failed + len(answer.estimates) == 60
    text = answer.summary().as_text()
    assert f"60, of which {answer.n_failed} failed" in text
    assert NO_LABEL in " ".join(text.split())


def test_more_failures_than_half_are_an_error(three):
    y = np.where(np.isin(np.arange(len(three.y)), [np.flatnonzero(three.y == k)[0] for k in range(3)]), three.y, -1)
    fitted = fitted_of(MARGaussianMixture(covariance_type="tied", link=None), three.X, y)
    with pytest.raises(ValueError, match=rf"of 40 resamples failed: {NO_LABEL} .* label more rows"):
        bootstrap(fitted, 40, random_state=0)


def test_running_out_of_iterations_is_a_failure(two):
    fitted = fitted_of(MARGaussianMixture(link="logit", max_iter=1), two.X, two.y)
    with pytest.raises(ValueError, match=rf"{NOT_CONVERGED} \(10\).*raise max_iter"):
        bootstrap(fitted, 10, random_state=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "bayesian"}, "kind='bayesian'"),
        ({"n_resamples": 1}, "n_resamples=1"),
        ({"n_resamples": 9.5}, "n_resamples=9.5"),
    ],
)
def test_bad_options_raise(mixture, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(mixture, **options)


# Components.


def two_humps(n=400):
    """Each class has two humps of different weights; a third of the labels are missing."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 2
    hump = rng.uniform(size=n) < 0.3
    X = rng.normal(size=(n, 2)) * np.where(hump, 0.5, 1.0)[:, None]
    X += np.column_stack([np.where(truth == 1, 4.0, -4.0), np.where(hump, 4.0, 0.0)])
    return X, np.where(rng.uniform(size=n) < 1 / 3, -1, truth)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical", "tied"])
def test_aligning_undoes_a_permutation_within_classes(covariance_type):
    X, y = two_humps()
    clf = MARGaussianMixture(covariance_type=covariance_type, link="logit", n_components=2, random_state=0)
    fitted = fitted_of(clf, X, y)
    order, permuted = np.array([1, 0, 3, 2]), copy(fitted.estimator)
    log_pi, mu, chol = permuted.model_.theta
    theta = Gaussians(log_pi[order], mu[order], chol if covariance_type == "tied" else chol[order])
    permuted.model_ = replace(permuted.model_, theta=theta)
    assert not np.allclose(values_of(fitted, permuted), fitted.values)
    proba = permuted.predict_proba(X)
    align(fitted.estimator, permuted)
    np.testing.assert_array_equal(values_of(fitted, permuted), values_of(fitted, fitted.estimator))
    np.testing.assert_allclose(permuted.predict_proba(X), proba, rtol=1e-12)


def test_components_that_differ_only_in_spread_are_aligned():
    rng = np.random.default_rng(1)
    wide = rng.uniform(size=600) < 0.5
    truth = np.arange(600) % 2
    X = rng.normal(size=(600, 2)) * np.where(wide, 3.0, 0.5)[:, None] + 12.0 * truth[:, None]
    clf = MARGaussianMixture(covariance_type="spherical", link=None, n_components=2, random_state=0)
    fitted = fitted_of(clf, X, truth)
    first, swapped = fitted.estimator, copy(fitted.estimator)
    theta = first.model_.theta
    mu = np.vstack([np.tile(theta.mu[:2].mean(axis=0), (2, 1)), theta.mu[2:]])
    first.model_ = replace(first.model_, theta=Gaussians(theta.log_pi, mu, theta.chol))
    swapped.model_ = replace(first.model_, theta=Gaussians(np.full(4, np.log(0.25)), mu, theta.chol[[1, 0, 2, 3]]))
    align(first, swapped)
    np.testing.assert_array_equal(swapped.covariances_, first.covariances_)


# Standard errors.


@pytest.fixture
def resamples(long):
    """A standard deviation of B draws has relative error 1 / sqrt(2 B)."""
    return 200 if long else 100


@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.long), True])
def test_standard_errors_of_a_mixture_are_near_the_sandwich(simulate, weighted, resamples):
    data = simulate(n=1000, seed=3)
    weight = np.random.default_rng(0).integers(1, 4, size=1000).astype(float) if weighted else None
    result = MARGaussianMixture(link="logit").fit(data.X, data.y, weight).inference(data.X, data.y, weight)
    answer = bootstrap(result._fitted, resamples, random_state=0)
    np.testing.assert_array_less(np.abs(np.log(answer.bse / result.bse)), 4 / np.sqrt(2 * resamples))
    np.testing.assert_array_less(np.abs(answer.bias), 0.3 * result.bse)


# The parametric bootstrap.


def test_parametric_rows_of_a_logistic_regression_keep_their_features(logistic):
    X, z, weight = module._rows(logistic, "parametric", np.random.default_rng(0))
    np.testing.assert_array_equal(X, logistic.X)
    assert weight is None
    assert 0.1 < np.mean((z < 0) != (logistic.z < 0)) < 0.6
    X, y = logistic_rows()
    ignored = fitted_of(MARLogisticRegression(link=None), X, y)
    _, z, _ = module._rows(ignored, "parametric", np.random.default_rng(0))
    np.testing.assert_array_equal(z < 0, y < 0)
    assert 0.05 < np.mean(z[y >= 0] != y[y >= 0]) < 0.5


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_simulated_rows_of_a_mixture_have_its_moments(three, covariance_type):
    n = 60_000
    clf = MARGaussianMixture(covariance_type=covariance_type, link="logit").fit(three.X, three.y)
    X, z = simulate(clf, np.zeros((n, 2)), np.random.default_rng(0), missing=0.0)
    for k, (weight, mean) in enumerate(zip(clf.weights_, clf.means_, strict=True)):
        members = X[z == k]
        covariance = clf.covariances_ if covariance_type == "tied" else clf.covariances_[k]
        covariance = covariance if covariance_type in ("full", "tied") else np.eye(2) * covariance
        assert abs(len(members) / n - weight) < 5 * np.sqrt(weight / n)
        np.testing.assert_allclose(members.mean(axis=0), mean, atol=5 * np.sqrt(covariance.max() / len(members)))
        np.testing.assert_allclose(np.cov(members.T), covariance, atol=5 * covariance.max() * np.sqrt(2 / len(members)))
    X, z = simulate(clf, np.zeros((n, 2)), np.random.default_rng(1))
    assert abs(np.mean(z < 0) - clf.missing_proba(X).mean()) < 5 * 0.5 / np.sqrt(n)


def test_the_parametric_bootstrap_needs_a_model_of_all_it_draws(two):
    weighted = fitted_of(MARGaussianMixture(link="logit"), two.X, two.y, np.ones(len(two.y)))
    with pytest.raises(ValueError, match="sample_weight"):
        bootstrap(weighted, 4, kind="parametric")
    ignored = fitted_of(MARGaussianMixture(link=None), two.X, two.y)
    with pytest.raises(ValueError, match="link=None"):
        bootstrap(ignored, 4, kind="parametric")
    complete = fitted_of(MARGaussianMixture(link=None), two.X, two.truth)
    assert bootstrap(complete, 4, kind="parametric", random_state=0).n_failed == 0


# Intervals and notes.


def test_intervals_of_known_estimates():
    estimates = np.column_stack([np.arange(1.0, 1000.0), np.arange(999.0, 0.0, -1.0) ** 2])
    answer = Bootstrap(
        np.random.default_rng(0).permutation(estimates), ["a", "b"], np.array([510.0, 3e5]), "nonparametric"
    )
    np.testing.assert_allclose(answer.conf_int(), [[25.0, 975.0], [25.0**2, 975.0**2]])
    np.testing.assert_allclose(answer.conf_int(0.1)[0], [50.0, 950.0])
    sd = np.sqrt(1000 * 999 / 12)  # of 1, ..., 999, with divisor 998
    np.testing.assert_allclose(answer.bse[0], sd)
    np.testing.assert_allclose(answer.bias[0], 500.0 - 510.0)
    low, high = 520.0 - 1.959963984540054 * sd, 520.0 + 1.959963984540054 * sd
    np.testing.assert_allclose(answer.conf_int(method="normal")[0], [low, high])
    np.testing.assert_allclose(answer.cov_params(), np.cov(estimates.T))
    frame = answer.summary(0.1).frame()
    np.testing.assert_allclose(frame.loc["a"], [510.0, sd, -10.0, 50.0, 950.0])
    assert list(frame.columns) == ["estimate", "std err", "bias", "[5%", "95%]"]
