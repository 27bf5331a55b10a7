"""make_mar_mixture: rows with exact posteriors, by known laws."""

import numpy as np
import pytest
from conftest import textbook_missing_proba
from scipy import stats

from marmix import MARGaussianMixture
from marmix.datasets import hide_labels, make_mar_mixture
from marmix.datasets.families import FAMILIES, OTHER_NAMES, places

try:
    import pandas as pd
except ImportError:
    pd = None

needs_pandas = pytest.mark.skipif(pd is None, reason="pandas is not installed")
DISTRIBUTIONS = ("gaussian", "student", "laplace", "gamma", "beta")


K, D = 3, 2
RNG = np.random.default_rng(8)
MEANS = RNG.normal(size=(K, D))
ROOTS = RNG.normal(size=(K, D, D)) * 0.3 + np.eye(D)
MATRICES = ROOTS @ np.swapaxes(ROOTS, 1, 2)
POSITIVE = RNG.uniform(1.5, 4.0, size=(2, K, D))
GIVEN = {  # parameters, the density of class k, and its mean and variance
    "gaussian": (
        {"means": MEANS, "covariances": MATRICES},
        lambda X, k: stats.multivariate_normal(MEANS[k], MATRICES[k]).pdf(X),
        lambda k: (MEANS[k], np.diag(MATRICES[k])),
    ),
    "student": (
        {"means": MEANS, "scales": MATRICES, "df": 7.0},
        lambda X, k: stats.multivariate_t(MEANS[k], MATRICES[k], df=7.0).pdf(X),
        lambda k: (MEANS[k], np.diag(MATRICES[k]) * 7.0 / 5.0),
    ),
    "laplace": (
        {"locations": MEANS, "scales": POSITIVE[0]},
        lambda X, k: np.prod(np.exp(-np.abs(X - MEANS[k]) / POSITIVE[0, k]) / (2 * POSITIVE[0, k]), axis=1),
        lambda k: (MEANS[k], 2 * POSITIVE[0, k] ** 2),
    ),
    "gamma": (
        {"shapes": POSITIVE[0], "scales": POSITIVE[1]},
        lambda X, k: np.prod(stats.gamma.pdf(X, POSITIVE[0, k], scale=POSITIVE[1, k]), axis=1),
        lambda k: (POSITIVE[0, k] * POSITIVE[1, k], POSITIVE[0, k] * POSITIVE[1, k] ** 2),
    ),
    "beta": (
        {"a": POSITIVE[0], "b": POSITIVE[1]},
        lambda X, k: np.prod(stats.beta.pdf(X, POSITIVE[0, k], POSITIVE[1, k]), axis=1),
        lambda k: stats.beta.stats(POSITIVE[0, k], POSITIVE[1, k], moments="mv"),
    ),
}
PI = np.array([0.5, 0.3, 0.2])


def drawn(distribution, n, **options):
    options |= {"n_classes": K, "n_features": D, "weights": PI, "parameters": GIVEN[distribution][0]}
    return make_mar_mixture(n, distribution=distribution, **options)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_posteriors_are_those_of_bayes_rule(distribution):
    data = drawn(distribution, 300, random_state=0)
    joint = np.column_stack([PI[k] * GIVEN[distribution][1](data.data, k) for k in range(K)])
    tau = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(data.posterior, tau, rtol=1e-9)
    ordered = np.sort(tau, axis=1)
    np.testing.assert_allclose(data.margin, ordered[:, -1] - ordered[:, -2], atol=1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_rows_have_the_shares_means_and_variances_of_their_classes(distribution):
    n = 40_000
    data = drawn(distribution, n, random_state=0, rate=None)
    shares = np.bincount(data.target_true) / n
    assert (np.abs(shares - PI) < 4 * np.sqrt(PI * (1 - PI) / n)).all()
    for k in range(K):
        X = data.data[data.target_true == k]
        mean, variance = GIVEN[distribution][2](k)
        assert (np.abs(X.mean(axis=0) - mean) < 4 * np.sqrt(variance / len(X))).all()
        squares = (X - mean) ** 2
        assert (np.abs(squares.mean(axis=0) - variance) < 4 * squares.std(axis=0) / np.sqrt(len(X))).all()


def test_posteriors_far_from_the_boundary_keep_their_digits():
    data = make_mar_mixture(50, separation=50.0, rate=None, random_state=0)
    gap = -50.0 * data.data[:, 0]  # log tau_0 - log tau_1
    smaller = np.minimum(data.posterior[:, 0], data.posterior[:, 1])
    assert smaller.max() < 1e-300
    at = np.abs(gap) < 700
    np.testing.assert_allclose(np.log(smaller[at]), -np.abs(gap[at]), rtol=1e-9)


def test_the_defaults_are_those_of_the_paper():
    means, d = np.array([[-1.0, 0.0], [1.0, 0.0]]), 2
    paper = {
        "gaussian": {"means": means, "covariances": np.eye(d)},
        "laplace": {"locations": means, "scales": [1.0, 0.8]},
        "gamma": {"shapes": [[3.0, 3.0], [5.0, 5.0]], "scales": 1.0},
        "beta": {"a": [[3.0, 5.0], [5.0, 3.0]], "b": [[5.0, 3.0], [3.0, 5.0]]},
        "student": {"means": means, "scales": np.eye(d), "df": 4},
    }
    for distribution, parameters in paper.items():
        plain = make_mar_mixture(100, distribution=distribution, random_state=0)
        named = make_mar_mixture(100, distribution=distribution, parameters=parameters, random_state=0)
        np.testing.assert_array_equal(plain.data, named.data)
        np.testing.assert_array_equal(plain.posterior, named.posterior)
    np.testing.assert_array_equal(places(2, 2, 2.0), means)


@pytest.mark.parametrize(
    ("classes", "features"), [(2, 1), (2, 5), (3, 2), (4, 3), (5, 4), (6, 8), (3, 1), (5, 1), (5, 3), (7, 2), (12, 4)]
)
def test_neighbouring_classes_are_the_separation_apart(classes, features):
    centres = places(classes, features, 1.7)
    distance = np.linalg.norm(centres[:, None] - centres, axis=2)
    nearest = np.where(np.eye(classes, dtype=bool), np.inf, distance).min(axis=1)
    np.testing.assert_allclose(nearest, 1.7, rtol=1e-12)
    np.testing.assert_allclose(centres.mean(axis=0), 0.0, atol=1e-12)
    if classes <= features + 1:  # a simplex: all classes are neighbours
        np.testing.assert_allclose(distance[~np.eye(classes, dtype=bool)], 1.7, rtol=1e-12)
    else:
        assert not centres[:, 2:].any()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("classes", "features"), [(5, 3), (3, 1), (2, 4)])
def test_any_number_of_classes_and_features_can_be_drawn_and_their_posteriors_are_calibrated(
    distribution, classes, features
):
    data = make_mar_mixture(
        20_000, distribution=distribution, n_classes=classes, n_features=features, rate=None, random_state=1
    )
    assert data.data.shape == (20_000, features)
    hot = np.eye(classes)[data.target_true]
    tau = data.posterior
    variance = tau * (1 - tau)
    excess = (hot - tau).sum(axis=0) / np.sqrt(variance.sum(axis=0))  # standard normal if the posteriors are right
    assert np.abs(excess).max() < 4
    errors = ((hot - tau) ** 2 - variance).sum(axis=1)
    assert abs(errors.sum()) < 4 * np.sqrt(errors.var() * 20_000)


def test_defaults_of_gamma_and_beta_for_more_classes():
    data = make_mar_mixture(30_000, distribution="gamma", n_classes=4, n_features=1, rate=None, random_state=0)
    means = [data.data[data.target_true == k].mean() for k in range(4)]
    np.testing.assert_allclose(means, [3, 5, 7, 9], atol=0.15)
    data = make_mar_mixture(30_000, distribution="beta", n_classes=3, n_features=4, rate=None, random_state=0)
    a = np.array([[3, 5, 7, 3], [5, 7, 3, 5], [7, 3, 5, 7]])
    means = [data.data[data.target_true == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(means, a / 10, atol=0.01)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_truncation_keeps_only_small_margins_and_leaves_posteriors_right(distribution):
    data = make_mar_mixture(2000, distribution=distribution, max_margin=0.6, rate=None, random_state=0)
    assert len(data.data) == 2000
    assert data.margin.max() <= 0.6
    assert data.margin.max() > 0.55
    tau = data.posterior[:, 1]
    assert abs(np.sum(data.target_true - tau)) < 4 * np.sqrt(np.sum(tau * (1 - tau)))


def test_truncation_that_keeps_nothing_is_refused():
    with pytest.raises(ValueError, match="too far apart"):
        make_mar_mixture(10, separation=60.0, max_margin=0.5)


def test_the_rows_do_not_depend_on_what_is_hidden():
    plain = make_mar_mixture(300, random_state=4)
    for options in (
        {"rate": None},
        {"rate": 0.2},
        {"link": None},
        {"side": 1, "rate": 0.3},
        {"measure": "entropy", "slope": 3.0},
        {"at_least": 45},
    ):
        data = make_mar_mixture(300, random_state=4, **options)
        np.testing.assert_array_equal(data.data, plain.data)
        np.testing.assert_array_equal(data.target_true, plain.target_true)
    assert not np.array_equal(make_mar_mixture(300, random_state=5).data, plain.data)


def test_the_labels_of_a_mixture_are_hidden_by_its_posterior():
    data = make_mar_mixture(
        3000, n_classes=3, link="aranda-ordaz", shape=2.0, slope=-4.0, rate=0.6, weights=PI, random_state=0
    )
    missing, q = data.missing, data.missing_proba
    np.testing.assert_allclose(
        q, textbook_missing_proba(data.margin**2, data.mechanism.alpha, data.mechanism.shape), rtol=1e-8
    )
    assert abs(q.mean() - 0.6) < 1e-9
    np.testing.assert_array_equal(missing, data.target == -1)
    assert abs(np.sum(missing - q)) < 4 * np.sqrt(np.sum(q * (1 - q)))
    np.testing.assert_array_equal(data.target[~missing], data.target_true[~missing])


@pytest.mark.parametrize("rate", [None, 0, 0.0])
def test_a_rate_of_none_or_zero_hides_nothing(rate):
    data = make_mar_mixture(50, rate=rate, random_state=0)
    np.testing.assert_array_equal(data.target, data.target_true)
    np.testing.assert_array_equal(data.missing, np.full(50, False))
    np.testing.assert_array_equal(data.missing_proba, np.zeros(50))
    assert data.mechanism is None
    assert make_mar_mixture(50, rate=rate, measure=lambda log_tau: log_tau[:, 0]).mechanism is None


@pytest.mark.parametrize(("alias", "name"), [("normal", "gaussian"), ("t", "student")])
def test_distributions_have_aliases(alias, name):
    first, second = (make_mar_mixture(50, distribution=distribution, random_state=0) for distribution in (alias, name))
    np.testing.assert_array_equal(first.data, second.data)
    np.testing.assert_array_equal(first.target, second.target)
    assert first.DESCR == second.DESCR


def test_the_message_on_an_unknown_distribution_has_all_names():
    with pytest.raises(ValueError, match="distribution='cauchy'") as caught:
        make_mar_mixture(distribution="cauchy")
    assert all(repr(name) in str(caught.value) for name in (*FAMILIES, *OTHER_NAMES))


def test_few_rows_may_lack_a_class():
    data = make_mar_mixture(1, n_classes=3, rate=0.5, random_state=0)
    assert data.data.shape == (1, 2)
    assert data.posterior.shape == (1, 3)


def test_a_random_state_of_any_kind_is_taken():
    for kind in (np.random.default_rng, np.random.RandomState):
        state = kind(0)
        first, second = make_mar_mixture(20, random_state=state), make_mar_mixture(20, random_state=state)
        np.testing.assert_array_equal(make_mar_mixture(20, random_state=kind(0)).data, first.data)
        assert not np.array_equal(first.data, second.data)


def test_a_model_fits_what_was_made():
    clf = MARGaussianMixture().fit(*make_mar_mixture(return_X_y=True, random_state=0))
    assert clf.classes_.tolist() == [0, 1]
    X, y = make_mar_mixture(20_000, return_X_y=True, random_state=0)
    clf = MARGaussianMixture(measure="margin").fit(X, y)
    np.testing.assert_allclose(clf.means_, [[-1, 0], [1, 0]], atol=0.06)
    assert clf.alpha_[1] == pytest.approx(-6.0, abs=0.6)


@needs_pandas
def test_frames_hold_the_same_rows():
    plain = make_mar_mixture(30, random_state=0)
    framed = make_mar_mixture(30, random_state=0, as_frame=True)
    assert plain.frame is None
    assert framed.frame.columns.tolist() == ["x1", "x2", "target"] == [*plain.feature_names, "target"]
    np.testing.assert_array_equal(framed.data.to_numpy(), plain.data)
    np.testing.assert_array_equal(framed.frame["target"], plain.target)
    assert framed.target.name == "target"
    assert framed.posterior.columns.tolist() == plain.target_names == ["class 0", "class 1"]
    np.testing.assert_array_equal(framed.posterior.to_numpy(), plain.posterior)
    for name in ("target_true", "margin", "missing", "missing_proba"):
        assert isinstance(framed[name], pd.Series)
        assert framed[name].name == name
        assert framed[name].dtype == plain[name].dtype
        np.testing.assert_array_equal(framed[name].to_numpy(), plain[name])
    for name in ("data", "target", "target_true", "posterior", "margin", "missing", "missing_proba"):
        assert framed[name].index.equals(framed.frame.index)
        assert isinstance(plain[name], np.ndarray)
    again = hide_labels(framed.target_true, framed.posterior, rate=0.5, random_state=0)
    np.testing.assert_array_equal(
        again.missing, hide_labels(plain.target_true, plain.posterior, rate=0.5, random_state=0).missing
    )
    X, y = make_mar_mixture(30, random_state=0, as_frame=True, return_X_y=True)
    assert X.equals(framed.data)
    assert y.equals(framed.target)
    assert MARGaussianMixture(link=None).fit(X, y).feature_names_in_.tolist() == ["x1", "x2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distribution": ["t"]}, r"distribution=\['t'\] is not one of 'gaussian' \(or 'normal'\)"),
        ({"n_samples": 0}, "n_samples=0"),
        ({"n_samples": 10.5}, "n_samples=10.5"),
        ({"n_classes": 1}, "n_classes=1"),
        ({"n_features": 0}, "n_features=0"),
        ({"weights": [0.5, 0.6]}, "sum to one"),
        ({"weights": [1.0, 0.0]}, "positive"),
        ({"weights": [0.2, 0.3, 0.5]}, "weights must be 2"),
        ({"parameters": {"mu": 0.0}}, "no 'mu'; it has 'means', 'covariances'"),
        ({"parameters": {"means": np.zeros((3, 2))}}, r"means has shape \(3, 2\)"),
        ({"parameters": {"means": [[1.0, np.nan], [0.0, 0.0]]}}, "means holds NaN"),
        ({"parameters": {"means": "far"}}, "means must be numbers"),
        ({"parameters": {"covariances": [1.0, 1.0]}}, r"covariances has shape \(2,\)"),
        ({"parameters": {"covariances": [[1.0, 2.0], [2.0, 1.0]]}}, "positive definite"),
        ({"parameters": {"covariances": [[1.0, 0.5], [0.0, 1.0]]}}, "symmetric"),
        ({"distribution": "student", "parameters": {"df": 0}}, "df must be positive"),
        ({"distribution": "laplace", "parameters": {"scales": [1.0, -1.0]}}, "scales must be positive"),
        ({"distribution": "gamma", "parameters": {"shapes": 1e-4}}, "edge"),
        ({"distribution": "gamma", "separation": 3.0}, "has no separation"),
        ({"separation": 3.0, "parameters": {"means": [[0.0, 0.0], [1.0, 1.0]]}}, "takes no separation"),
        ({"separation": -1.0}, "separation=-1.0"),
        ({"max_margin": 0.0}, "max_margin=0.0"),
        ({"max_margin": 2.0}, "max_margin=2.0"),
        ({"rate": 1.0}, "rate=1.0"),
        ({"rate": 2.0}, "rate=2.0"),
        ({"side": 2}, "side=2"),
        ({"link": "aranda-ordaz"}, "shape=2.0"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_mar_mixture(**({"random_state": 0} | options))
