"""The bootstrap: resamples, standard errors and failures."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from problems import PAPER

from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.inference import bootstrap as module
from marmix.inference.bootstrap import Bootstrap, bootstrap, values_of
from marmix.inference.simulation import seed_sequence, simulate

pytestmark = pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")


def fitted_of(clf, X, y, weight=None):
    """The `Fitted` of a fit to these rows."""
    return clf.fit(X, y, weight).inference(X, y, weight).fitted


@pytest.fixture(scope="module")
def mixture(two):
    return fitted_of(MARGaussianMixture(link="logit"), two.X, two.y)


def variety(two, three):
    """Fits of every kind, each with its rows."""
    weight = np.random.default_rng(0).integers(1, 3, size=len(two.y)).astype(float)
    names = np.array(["ash", "birch", "oak"], dtype=object)
    frame = pd.DataFrame(three.X, columns=["width", "height"])
    text = pd.Series(np.where(three.y < 0, None, names[three.y]))
    Mixture, Logistic = MARGaussianMixture, MARLogisticRegression
    return {
        "full": (Mixture(**PAPER), two.X, two.y),
        "diag": (Mixture(covariance_type="diag", mechanism_weight=0.5), two.X, two.y),
        "names": (Mixture(link="logit", mechanism_features=["height"]), frame, text),
        "components": (Mixture(link="logit", n_components={0: 2}, random_state=0), two.X, two.y),
        "share": (Mixture(link="logit", mcar_share=True), two.X, two.y),
        "ignored": (Mixture(covariance_type="spherical", link=None), two.X, two.y),
        "weights": (Mixture(link="logit"), two.X, two.y, weight),
        "logistic of three": (Logistic(link="logit", mechanism_features=["width"]), frame, text),
        "logistic of squares": (Logistic(degree=2, link=None), two.X, two.y),
    }


KINDS = [
    "full",
    "diag",
    "names",
    "components",
    "share",
    "ignored",
    "weights",
    "logistic of three",
    "logistic of squares",
]


# Resamples.


@pytest.mark.parametrize("kind", KINDS)
def test_the_named_parameters_of_an_estimator_are_those_of_its_inference(two, three, kind):
    fitted = fitted_of(*variety(two, three)[kind])
    np.testing.assert_allclose(values_of(fitted, fitted.estimator), fitted.values, rtol=1e-10, atol=1e-12)


def test_a_resample_is_the_fit_to_the_drawn_rows(two):
    exact = MARGaussianMixture(link="logit", tol=1e-14)
    fitted = fitted_of(exact, two.X, two.y)
    answer = bootstrap(fitted, 3, random_state=5)
    for estimate, seed in zip(answer.estimates, seed_sequence(5).spawn(3), strict=True):
        drawn = np.random.default_rng(seed).integers(len(two.y), size=len(two.y))
        from_scratch = exact.fit(two.X[drawn], two.y[drawn])
        np.testing.assert_allclose(estimate, values_of(fitted, from_scratch), rtol=1e-6, atol=1e-6)


def test_weights_count_rows(mixture):
    """As many draws as the weights sum to, in proportion to them: mean w, variance w (1 - w / sum)."""
    weight = np.array([1.0, 2.0, 4.0, 0.5, 0.25])
    data = SimpleNamespace(X=np.zeros((5, 1)), z=np.zeros(5, dtype=int), weight=weight, copied=False)
    rng = np.random.default_rng(0)
    drawn = np.array([module._weights(data, rng) for _ in range(20_000)])
    np.testing.assert_allclose(drawn.sum(axis=1), weight.sum(), rtol=1e-12)
    scale = weight.sum() / 8  # eight draws stand for a weight of 7.75
    variance = scale * weight * (1 - weight / weight.sum())
    np.testing.assert_allclose(drawn.mean(axis=0), weight, atol=5 * np.sqrt(variance.max() / 20_000))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.08)


# The statistic.


def test_a_statistic_sees_the_names_of_classes_and_features(two, three):
    clf, X, y = variety(two, three)["names"]
    fitted, columns = fitted_of(clf, X, y), []

    def statistic(estimator):
        columns.append(estimator.model_.column_names)
        assert (estimator.transduction_[y.notna()] == y[y.notna()]).all()
        return estimator.means_

    answer = bootstrap(fitted, 4, statistic=statistic, random_state=0)
    assert columns == [["width", "height"]] * 5
    assert answer.names[:2] == ["statistic[0, 0]", "statistic[0, 1]"]
    np.testing.assert_array_equal(answer.estimates, bootstrap(fitted, 4, random_state=0).estimates[:, 3:9])


# Failures.


def test_resamples_without_a_label_of_a_class_or_an_end_are_left_out_and_counted(two):
    y = two.y.copy()
    y[np.flatnonzero(y == 1)[2:]] = -1
    few = np.flatnonzero(y == 1)
    fitted = fitted_of(MARGaussianMixture(covariance_type="tied", link=None), two.X, y)
    missing = 0
    for seed in seed_sequence(0).spawn(60):
        missing += not np.isin(few, np.random.default_rng(seed).integers(len(y), size=len(y))).any()
    answer = bootstrap(fitted, 60, random_state=0)
    assert 0 < missing == answer.n_failed == 60 - len(answer.estimates)
    stopped = fitted_of(MARGaussianMixture(link="logit", max_iter=1), two.X, two.y)
    with pytest.raises(ValueError, match="10 of 10 resamples failed"):
        bootstrap(stopped, 10, random_state=0)


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
    answer = bootstrap(result.fitted, resamples, random_state=0)
    np.testing.assert_array_less(np.abs(np.log(answer.bse / result.bse)), 4 / np.sqrt(2 * resamples))
    np.testing.assert_array_less(np.abs(answer.bias), 0.3 * result.bse)


# Simulated rows.


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


# Intervals.


def test_intervals_of_known_estimates():
    estimates = np.column_stack([np.arange(1.0, 1000.0), np.arange(999.0, 0.0, -1.0) ** 2])
    answer = Bootstrap(np.random.default_rng(0).permutation(estimates), ["a", "b"], np.array([510.0, 3e5]))
    np.testing.assert_allclose(answer.conf_int(), [[25.0, 975.0], [25.0**2, 975.0**2]])
    np.testing.assert_allclose(answer.conf_int(0.1)[0], [50.0, 950.0])
    sd = np.sqrt(1000 * 999 / 12)  # of 1, ..., 999, with divisor 998
    np.testing.assert_allclose(answer.bse[0], sd)
    np.testing.assert_allclose(answer.bias[0], 500.0 - 510.0)
    np.testing.assert_allclose(answer.cov_params(), np.cov(estimates.T))
    frame = answer.summary(0.1).frame()
    np.testing.assert_allclose(frame.loc["a"], [510.0, sd, -10.0, 50.0, 950.0])
    assert list(frame.columns) == ["estimate", "std err", "bias", "[5%", "95%]"]
