"""The sensitivity analysis: exact identities of the tilt, intervals, tipping points, and every estimator."""

import numpy as np
import pytest
from scipy.special import expit, logit

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.evaluation.prior import tilted
from marmix.inference.sensitivity import DELTAS, Sweep, calibration_draws, pattern_mixture, sensitivity, swept

pytestmark = pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")


def rows(n=300, K=2, seed=0):
    """Gaussian rows of K classes, half of the labels missing completely at random."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    X = rng.normal(size=(n, 2)) + 1.5 * np.eye(K)[y][:, :2]
    return X, np.where(rng.uniform(size=n) < 0.5, -1, y)


@pytest.fixture(scope="module")
def fit():
    X, y = rows()
    return MARLogisticRegression(link="logit").fit(X, y), X, y


def swept_of(proba, k, delta, given=(20.0, 30.0, 10.0), **options):
    K = proba.shape[1]
    names = np.array(list("abc")[:K])
    values = swept(delta)
    log_proba, weight = pattern_mixture(proba, k, values), options.pop("weight", np.ones(len(proba)))
    sweep = Sweep(log_proba, np.array(given[:K]), k, values, names, weight, proba.argmax(axis=1))
    return sensitivity(sweep, n_draws=20, **options)


def probabilities(n=200, K=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n)


# The tilt.


def test_a_tilt_is_the_odds_ratio_of_a_logit_selection_model():
    """P(y | x, missing) / P(y | x, labelled) is proportional to the odds of q_k, so its log odds ratio is delta."""
    p, eta, delta = probabilities(K=2), np.linspace(-3, 3, 200), 0.7
    q = expit(eta[:, None] + np.array([0.0, delta]))  # of both classes
    labelled = p * (1 - q) / (p * (1 - q)).sum(axis=1, keepdims=True)
    missing = p * q / (p * q).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tilted(labelled, np.array([0.0, delta])), missing, rtol=1e-12)


def test_at_zero_nothing_changes():
    p = probabilities()
    answer = swept_of(p, 2, [0.3])
    np.testing.assert_array_equal(answer.delta, [0.0, 0.3])
    np.testing.assert_allclose(answer.shares[0], (np.array([20.0, 30.0, 10.0]) + p.sum(axis=0)) / 260.0)
    np.testing.assert_allclose(answer.error[0], 1.0 - p.max(axis=1).mean())
    assert answer.flips[0] == 0.0
    np.testing.assert_array_equal(answer.flips_interval[0], [0.0, 0.0])


def test_by_hand():
    """A row of log odds x belongs to b with probability expit(x + delta), and flips where x + delta changes its sign."""
    x = np.array([-2.0, -0.5, 1.0])
    p = np.column_stack([expit(-x), expit(x)])
    answer = swept_of(p, 1, [1.0], given=(1.0, 0.0))
    np.testing.assert_allclose(answer.share[1], expit(x + 1.0).sum() / 4.0)
    np.testing.assert_allclose(answer.error[1], np.mean([expit(-1.0), expit(0.5), expit(-2.0)]))
    assert answer.flips[1] == 1.0


def test_the_share_of_the_class_rises_with_delta_and_so_do_its_limits():
    answer = swept_of(probabilities(), 0, None)
    assert (np.diff(answer.share) > 0.0).all()
    assert (np.diff(answer.share_interval, axis=0) >= 0.0).all()
    away = np.abs(np.arange(len(DELTAS)) - len(DELTAS) // 2)
    assert (np.diff(answer.flips[away.argsort(kind="stable")][::2]) >= 0.0).all()
    for values, interval in ((answer.share, answer.share_interval), (answer.error, answer.error_interval)):
        assert ((interval[:, 0] <= values) & (values <= interval[:, 1])).all()


def test_a_row_of_weight_two_counts_as_two_rows():
    p = probabilities(n=40)
    once = swept_of(np.repeat(p, 2, axis=0), 1, [1.0])
    twice = swept_of(p, 1, [1.0], weight=np.full(40, 2.0))
    np.testing.assert_allclose(once.shares, twice.shares)
    np.testing.assert_allclose(once.error, twice.error)
    np.testing.assert_allclose(once.flips, twice.flips)


# Tipping points.


def test_tipping_points_are_where_the_conclusion_changes():
    """All rows have log odds -1 of b: they flip at delta 1."""
    p = np.tile([expit(1.0), expit(-1.0)], (100, 1))
    answer = swept_of(p, 1, [-2.0, 2.0], given=(0.0, 0.0))
    assert answer.tipping["flips"] == (None, pytest.approx(1.0, abs=1e-6))
    assert answer.tipping["largest"] == (None, pytest.approx(1.0, abs=1e-6))
    low, high = answer.share_interval[1]
    expected = [logit(limit) + 1.0 for limit in (low, high)]
    np.testing.assert_allclose(answer.tipping["share"], expected, atol=1e-6)


# Intervals.


def test_draws_of_the_fit_widen_the_intervals():
    p = np.tile([0.6, 0.4], (400, 1))

    def draw(rng):
        return tilted(p, np.array([0.0, 0.5 * rng.normal()]))

    labels_only, with_fit = (swept_of(p, 1, [1.0], draw=value) for value in (None, draw))
    width = [np.diff(answer.share_interval, axis=1) for answer in (labels_only, with_fit)]
    assert (width[1] > 2.0 * width[0]).all()


def test_calibration_draws_have_the_spread_of_a_bootstrap():
    """For rows that all have p = 1/2, log odds b are estimated from n labels: their standard error is 2 / sqrt(n)."""
    n, rng = 400, np.random.default_rng(0)
    z = np.repeat([0, 1], n // 2)
    draw = calibration_draws(np.full((n, 2), 0.5), z, np.full((1, 2), 0.5))
    drawn = np.array([logit(draw(rng)[0, 1]) for _ in range(400)])
    assert np.std(drawn) == pytest.approx(2.0 / np.sqrt(n), rel=0.15)
    assert abs(np.mean(drawn)) < 0.03


# Estimators.


def test_other_rows_have_intervals_of_the_labels_alone_and_say_so(fit):
    clf, X, y = fit
    assert clf.sensitivity(X, y, [1.0], n_draws=2).notes == []
    assert "not the rows of the fit" in " ".join(clf.sensitivity(X[1:], y[1:], [1.0], n_draws=2).notes)


def test_the_average_draws_from_its_candidates():
    X, y = rows()
    grid = {"linear": MARLogisticRegression(link="logit"), "classes": MARGaussianMixture(link="logit")}
    clf = MARClassifierCV(estimators=grid, cv=2).fit(X, y)
    answer = clf.sensitivity(X, y, [1.0], n_draws=50)
    np.testing.assert_allclose(
        answer.shares[0] * len(y), np.bincount(y[y >= 0]) + clf.predict_proba(X)[y < 0].sum(axis=0), rtol=1e-10
    )
    assert answer.notes == []
    one = MARClassifierCV(estimators={"linear": grid["linear"]}, cv=2).fit(X, y)
    scaled = one.estimators_["linear"][:-1].transform(X)
    expected = one.estimators_["linear"][-1].sensitivity(scaled, y, [1.0])
    np.testing.assert_allclose(one.sensitivity(X, y, [1.0]).shares, expected.shares, rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": "no such class"}, "is not one of the classes"),
        ({"delta": [np.inf]}, "between -50 and 50"),
        ({"method": "guess"}, "selection"),
    ],
)
def test_refused(fit, options, words):
    clf, X, y = fit
    with pytest.raises(ValueError, match=words):
        clf.sensitivity(X, y, **options)


# Mixtures are fitted again with the label term.


def mixture_rows(q, n=400, seed=1):
    """Two Gaussian classes whose labels are missing with the probabilities q of the classes, and the true classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2)) + 2.0 * y[:, None]
    return X, np.where(rng.uniform(size=n) < np.array(q)[y], -1, y), y


def test_a_mixture_is_fitted_again_and_finds_the_share_at_the_true_odds_ratio():
    X, z, y = mixture_rows((0.3, 0.85))
    delta = logit(0.85) - logit(0.3)
    clf = MARGaussianMixture(covariance_type="tied", link="logit").fit(X, z)
    answer = clf.sensitivity(X, z, [0.5 * delta, delta], label=1)
    assert answer.method == "selection"
    again = MARGaussianMixture(covariance_type="tied", link="logit", delta={1: delta}).fit(X, z)
    proba = again.model_.unlabelled_posterior(X[z < 0]).tau.T
    expected = (np.bincount(z[z >= 0], minlength=2) + proba.sum(axis=0)) / len(z)
    np.testing.assert_allclose(answer.shares[-1], expected, atol=1e-4)
    assert abs(answer.share[-1] - np.mean(y == 1)) < 0.05 < abs(answer.share[0] - np.mean(y == 1))


def test_selection_is_for_models_with_a_mechanism(fit):
    _, X, y = fit
    with pytest.raises(ValueError, match="mechanism is modelled"):
        MARLogisticRegression(link=None).fit(X, y).sensitivity(X, y, method="selection")
    assert MARGaussianMixture(link=None).fit(X, y).sensitivity(X, y, [1.0], n_draws=2).method == "pattern-mixture"
