"""Multiple imputation of labels, and Rubin's rules."""

import numpy as np
import pandas as pd
import pytest
from problems import PAPER
from scipy.special import expit
from scipy.stats import t as student

from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.inference.imputation import Imputations, multiple_imputations, pool

pytestmark = pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")


def fitted_of(clf, X, y, weight=None):
    """The `Fitted` of a fit to these rows."""
    return clf.fit(X, y, weight).inference(X, y, weight).fitted


def class_mean(x, label):
    """An analysis: the mean of x in a class, and its variance."""

    def analysis(labels):
        members = x[labels == label]
        return members.mean(), members.var(ddof=1) / len(members)

    return analysis


# Rubin's rules.


def test_rubin_s_rules_worked_out_by_hand():
    """Estimates 1, 2, 3 with variance 1/2: B = 1, T = 1/2 + 4/3 = 11/6, lambda = 8/11, df = 2 (11/8)^2."""
    answer = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    np.testing.assert_allclose(answer.params, [2.0])
    np.testing.assert_allclose(answer.bse, [np.sqrt(11 / 6)])
    np.testing.assert_allclose(answer.cov_params(), [[11 / 6]])
    np.testing.assert_allclose(answer.df, [121 / 32])
    np.testing.assert_allclose(answer.fmi, [(8 / 3 + 2 / (121 / 32 + 3)) / (11 / 3)])
    half = student.ppf(0.975, 121 / 32) * np.sqrt(11 / 6)
    np.testing.assert_allclose(answer.conf_int(), [[2 - half, 2 + half]])
    np.testing.assert_allclose(answer.pvalues, [2 * student.sf(2 / np.sqrt(11 / 6), 121 / 32)])
    few = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], dfcom=10)  # df of the observed rows: 11/13 * 10 * 3/11 = 30/13
    np.testing.assert_allclose(few.df, [1 / (32 / 121 + 13 / 30)])
    np.testing.assert_allclose(few.fmi, answer.fmi)
    assert few.conf_int()[0, 1] > answer.conf_int()[0, 1]
    np.testing.assert_allclose(pool([1, 2, 3], [0.5] * 3, dfcom=1e12).df, answer.df)


def test_equal_imputations_give_the_result_of_complete_data():
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    answer = pool([[1.0, -1.0]] * 5, [covariance] * 5)
    np.testing.assert_allclose(answer.cov_params(), covariance)
    np.testing.assert_array_equal(answer.fmi, [0.0, 0.0])
    np.testing.assert_array_equal(answer.df, [np.inf, np.inf])
    half = 1.959963984540054 * np.sqrt([2.0, 1.0])
    np.testing.assert_allclose(answer.conf_int(), np.array([[1.0], [-1.0]]) + np.outer(half, [-1.0, 1.0]))
    few = pool([[1.0, -1.0]] * 5, [covariance] * 5, dfcom=20)
    np.testing.assert_array_equal(few.fmi, [0.0, 0.0])
    np.testing.assert_allclose(few.df, [20 * 21 / 23] * 2)


def test_pooling_commutes_with_linear_maps_and_permutations():
    rng = np.random.default_rng(0)
    estimates, roots = rng.normal(size=(6, 3)), rng.normal(size=(6, 3, 3))
    covariances = roots @ np.swapaxes(roots, 1, 2)
    answer, A = pool(estimates, covariances), rng.normal(size=(2, 3))
    mapped = pool(estimates @ A.T, A @ covariances @ A.T)
    np.testing.assert_allclose(mapped.params, A @ answer.params)
    np.testing.assert_allclose(mapped.cov_params(), A @ answer.cov_params() @ A.T)
    order = rng.permutation(6)
    np.testing.assert_allclose(pool(estimates[order], covariances[order]).df, answer.df)
    single = [pool(estimates[:, i], covariances[:, i, i]) for i in range(3)]
    np.testing.assert_allclose(np.concatenate([pooled.fmi for pooled in single]), answer.fmi)
    np.testing.assert_allclose(np.concatenate([pooled.conf_int() for pooled in single]), answer.conf_int())


# Imputed labels.


def variety(two, three):
    """Fits of several kinds, each with its rows."""
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(two.y))
    names = np.array(["ash", "birch", "oak"], dtype=object)
    frame = pd.DataFrame(three.X, columns=["width", "height"])
    text = pd.Series(np.where(three.y < 0, None, names[three.y]))
    Mixture, Logistic = MARGaussianMixture, MARLogisticRegression
    return {
        "shape at its limit": (Mixture(**PAPER), two.X, two.y),
        "covariates": (Mixture(link="logit", mechanism_features=["height"]), frame, text),
        "weights": (Mixture(covariance_type="tied", mechanism_weight=0.5), two.X, two.y, weight),
        "components": (Mixture(link="logit", n_components=2, random_state=0), two.X, two.y),
        "logistic of three": (Logistic(link="logit", mechanism_features=["width"]), frame, text),
        "logistic": (Logistic(link=None), two.X, two.y),
    }


KINDS = ["shape at its limit", "covariates", "weights", "components", "logistic of three", "logistic"]


@pytest.mark.parametrize("kind", KINDS)
def test_given_labels_stay_and_missing_ones_follow_their_posteriors(two, three, kind):
    """Over m draws the share of a class in a row is its mean probability, within five standard errors."""
    clf, X, y, *weight = variety(two, three)[kind]
    m = 400
    imputations = multiple_imputations(fitted_of(clf, X, y, *weight), m, random_state=0)
    missing = np.asarray(pd.isna(y) | (y == -1))
    given = np.asarray(y)[~missing]
    np.testing.assert_array_equal(imputations.imputed, missing)
    assert (imputations.labels[:, ~missing] == given).all()
    np.testing.assert_array_equal(imputations.proba[~missing], clf.classes_ == given[:, None])
    np.testing.assert_allclose(imputations.proba.sum(axis=1), 1.0)
    drawn = (imputations.labels[:, :, None] == clf.classes_).mean(axis=0)
    error = np.sqrt(imputations.proba * (1.0 - imputations.proba) / m)
    np.testing.assert_array_less(np.abs(drawn - imputations.proba), 5.0 * error + 3.0 / m)
    # parameters are drawn around the fit
    assert np.abs(imputations.proba[missing] - clf.predict_proba(X)[missing]).mean() < 0.1


def test_posteriors_spread_as_the_delta_method_says():
    """One feature, labelled rows alone: the log-odds of a row are normal, so its mean probability is that of a normal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = np.where(np.arange(200) < 60, (rng.uniform(size=200) < expit(X[:, 0])).astype(int), -1)
    fitted = fitted_of(MARLogisticRegression(C=np.inf, link=None), X, y)
    covariance = fitted.covariance_of(fitted.jacobian, "sandwich")
    rows = np.column_stack([np.ones(140), X[60:, 0]])
    mean, variance = rows @ fitted.values, np.einsum("ni,ij,nj->n", rows, covariance, rows)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    tau = expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes)
    expected = tau @ weights / weights.sum()
    error = np.sqrt(np.maximum(tau**2 @ weights / weights.sum() - expected**2, 0.0) / 4000)
    proba = multiple_imputations(fitted, 4000, random_state=1).proba[60:, 1]
    np.testing.assert_array_less(np.abs(proba - expected), 5.0 * error)
    assert (np.abs(expit(mean) - expected) > 10.0 * error).any()  # unlike with fixed parameters


def test_rows_keep_their_places_and_those_of_weight_zero_are_left_out(two):
    weight = np.ones(len(two.y))
    weight[::7] = 0.0
    kept = np.flatnonzero(weight)
    clf = MARGaussianMixture(link="logit")
    some = multiple_imputations(fitted_of(clf, two.X, two.y, weight), 5, random_state=0)
    np.testing.assert_array_equal(some.rows, kept)
    given = two.y[kept] >= 0
    assert (some.labels[:, given] == two.y[kept][given]).all()
    complete = multiple_imputations(fitted_of(clf, two.X, two.y), 5, random_state=0)
    np.testing.assert_array_equal(complete.rows, np.arange(len(two.y)))


def test_imputations_are_a_sequence_reproducible_by_seed(two):
    fitted = fitted_of(MARGaussianMixture(link="logit"), two.X, two.y)
    imputations = multiple_imputations(fitted, 6, random_state=3)
    assert len(imputations) == 6
    np.testing.assert_array_equal(np.array(list(imputations)), imputations.labels)
    np.testing.assert_array_equal(imputations[-1], imputations.labels[5])
    np.testing.assert_array_equal(multiple_imputations(fitted, 2, random_state=3).labels, imputations.labels[:2])
    assert len({labels.tobytes() for labels in imputations}) == 6
    rng = np.random.default_rng(3)
    first, second = (multiple_imputations(fitted, 2, random_state=rng).labels for _ in range(2))
    assert (first != second).any()


@pytest.mark.long
def test_pooled_intervals_cover_only_if_parameters_are_drawn(long):
    """Many data sets, 80 % of labels missing: 95 % within three standard errors of a binomial share."""
    covered, careless, repeats = 0, 0, 400 if long else 200
    grid = np.linspace(-8.0, 8.0, 4001)
    density = np.exp(-0.5 * grid**2)
    truth = np.sum(grid * expit(1.5 * grid) * density) / np.sum(expit(1.5 * grid) * density)
    for repeat in range(repeats):
        rng = np.random.default_rng([2024, repeat])
        X = rng.normal(size=(300, 1))
        tau = expit(1.5 * X[:, 0])
        y = (rng.uniform(size=300) < tau).astype(int)
        y[rng.uniform(size=300) < expit(2.0 - 2.0 * (2.0 * tau - 1.0) ** 2)] = -1
        clf = MARLogisticRegression(C=np.inf, link=None)
        imputations = multiple_imputations(fitted_of(clf, X, y), 20, random_state=rng)
        analysis = class_mean(X[:, 0], 1)
        low, high = imputations.pool(analysis).conf_int()[0]
        covered += low < truth < high
        at_the_fit = np.where(y < 0, rng.uniform(size=(20, 300)) < clf.predict_proba(X)[:, 1], y)
        low, high = Imputations(at_the_fit, imputations.proba, y < 0).pool(analysis).conf_int()[0]
        careless += low < truth < high
    assert abs(covered / repeats - 0.95) < 3 * np.sqrt(0.95 * 0.05 / repeats)
    assert careless / repeats < 0.88
