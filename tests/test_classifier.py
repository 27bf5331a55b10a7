"""The classifier as a maximum-likelihood estimator: what it maximises, that it does, and what that does not depend on."""

import itertools

import numpy as np
import pytest
from conftest import textbook_missing_proba
from problems import PAPER
from scipy.special import logsumexp, xlogy
from scipy.stats import multivariate_normal

from marmix import MARGaussianMixture
from marmix.core.covariance import STRUCTURES
from marmix.core.measures import MEASURES

COVARIANCE_TYPES = list(STRUCTURES)
NAMES = [name for name, measure in MEASURES.items() if measure.only_classes is None]
LINKS = ["aranda-ordaz", "logit", "cloglog"]


def whole_covariances(fitted):
    """The covariance matrix of each component."""
    d, given = fitted.means_.shape[1], fitted.covariances_
    return {
        "full": lambda: given,
        "tied": lambda: [given] * len(fitted.means_),
        "diag": lambda: [np.diag(v) for v in given],
        "spherical": lambda: [v * np.eye(d) for v in given],
    }[fitted.covariance_type]()


def class_log_joints(fitted, X):
    """log P(class, x) by scipy, (n, K)."""
    parts = zip(fitted.weights_, fitted.means_, whole_covariances(fitted), strict=True)
    components = np.stack([np.log(w) + multivariate_normal(m, c).logpdf(X) for w, m, c in parts], axis=1)
    members = fitted.component_classes_[:, None] == fitted.classes_
    return np.stack([logsumexp(components[:, of], axis=1) for of in members.T], axis=1)


def textbook_measure(tau, uncertainty):
    ordered = np.sort(tau, axis=1)
    entropy = -xlogy(tau, tau).sum(axis=1)
    return {
        "margin": (ordered[:, -1] - ordered[:, -2]) ** 2,
        "discriminant": np.log(ordered[:, -1] / ordered[:, -2]) ** 2,
        "entropy": entropy,
        "log-entropy": np.log(entropy),
        "gini": 1 - (tau**2).sum(axis=1),
    }[uncertainty]


def textbook_logliks(fitted, X, y, weight=None):
    """L_ig and L_miss, row by row as the paper writes them."""
    log_joints = class_log_joints(fitted, X)
    log_marginal = logsumexp(log_joints, axis=1)
    missing = y == -1
    labelled = log_joints[np.arange(len(X)), np.where(missing, 0, np.searchsorted(fitted.classes_, y))]
    ignorable = np.where(missing, log_marginal, labelled)
    u = textbook_measure(np.exp(log_joints - log_marginal[:, None]), fitted.get_params()["measure"])
    q = fitted.share_ + (1 - fitted.share_) * textbook_missing_proba(u, fitted.alpha_, fitted.shape_)
    mechanism = np.where(missing, np.log(q), np.log1p(-q))
    weight = np.ones(len(X)) if weight is None else weight
    return weight @ ignorable, weight @ mechanism


# What is maximised


@pytest.mark.parametrize("uncertainty", NAMES)
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_loglik_is_the_textbook_likelihood_of_the_fitted_parameters(covariance_type, uncertainty, three):
    fitted = MARGaussianMixture(covariance_type=covariance_type, measure=uncertainty).fit(three.X, three.y)
    ignorable, missing = textbook_logliks(fitted, three.X, three.y)
    assert fitted.loglik_ignorable_ == pytest.approx(ignorable, rel=1e-10)
    assert fitted.loglik_missing_ == pytest.approx(missing, rel=1e-8)
    assert fitted.loglik_ == fitted.loglik_ignorable_ + fitted.loglik_missing_


@pytest.mark.parametrize("link", LINKS)
def test_loglik_is_the_textbook_likelihood_with_components_share_and_weights(link, three):
    weight = np.random.default_rng(2).uniform(0.5, 2.0, size=len(three.y))
    fitted = MARGaussianMixture(n_components={0: 2, 2: 3}, link=link, mcar_share=True, random_state=0, max_iter=30)
    fitted.fit(three.X, three.y, sample_weight=weight)
    ignorable, missing = textbook_logliks(fitted, three.X, three.y, weight)
    assert fitted.loglik_ignorable_ == pytest.approx(ignorable, rel=1e-10)
    assert fitted.loglik_missing_ == pytest.approx(missing, rel=1e-8)


@pytest.mark.parametrize("n_components", [1, 2, {0: 1, 1: 3, 2: 2}])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_posteriors_are_bayes_rule_of_the_fitted_parameters(covariance_type, n_components, three):
    options = {"covariance_type": covariance_type, "n_components": n_components, "random_state": 0, "max_iter": 30}
    fitted = MARGaussianMixture(measure="margin", **options).fit(three.X, three.y)
    counts = [n_components] * 3 if isinstance(n_components, int) else [n_components[k] for k in range(3)]
    np.testing.assert_array_equal(fitted.component_classes_, np.repeat([0, 1, 2], counts))
    sums = [fitted.weights_[fitted.component_classes_ == k].sum() for k in range(3)]
    np.testing.assert_allclose(fitted.class_prior_, sums, rtol=1e-13)
    log_joints = class_log_joints(fitted, three.X)
    expected = log_joints - logsumexp(log_joints, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_log_proba(three.X), expected, rtol=1e-8, atol=1e-10)
    u = textbook_measure(np.exp(expected), "margin")
    np.testing.assert_allclose(fitted.uncertainty(three.X), u, atol=1e-8)


# That it is maximised


def both_solvers(data, **options):
    return [MARGaussianMixture(solver=solver, **options).fit(data.X, data.y) for solver in ("lbfgs", "ecm")]


@pytest.mark.pairs
@pytest.mark.parametrize(("link", "uncertainty"), [*itertools.product(LINKS, NAMES), (None, "margin")])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_both_solvers_reach_one_maximum_for_two_classes(covariance_type, uncertainty, link, two):
    lbfgs, ecm = both_solvers(two, covariance_type=covariance_type, measure=uncertainty, link=link)
    assert lbfgs.converged_
    assert ecm.converged_
    assert lbfgs.loglik_ == pytest.approx(ecm.loglik_, abs=1e-6 * len(two.y))
    np.testing.assert_allclose(lbfgs.predict_proba(two.X), ecm.predict_proba(two.X), atol=5e-3)


@pytest.mark.parametrize("link", ["aranda-ordaz", "logit", None])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_every_ecm_step_rises(covariance_type, link, three):
    fitted = MARGaussianMixture(covariance_type=covariance_type, link=link, solver="ecm").fit(three.X, three.y)
    assert (np.diff(fitted.trace_) > 0).all()
    assert len(fitted.trace_) == fitted.n_iter_ + 1
    assert fitted.trace_[-1] == pytest.approx(fitted.loglik_, rel=1e-12)


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_the_trace_of_lbfgs_ends_at_the_maximum(covariance_type, three):
    fitted = MARGaussianMixture(covariance_type=covariance_type, n_init=1).fit(three.X, three.y)
    assert fitted.trace_[-1] == pytest.approx(fitted.loglik_, rel=1e-10)
    assert fitted.loglik_ >= fitted.trace_.max() - 1e-8


@pytest.mark.parametrize("uncertainty", ["margin", "entropy"])
def test_no_step_away_from_the_maximum_rises(uncertainty, two):
    """By the textbook likelihood: steps of a hundredth in every parameter, both ways."""
    fitted = MARGaussianMixture(covariance_type="full", measure=uncertainty, link="logit", tol=1e-12).fit(two.X, two.y)
    top = sum(textbook_logliks(fitted, two.X, two.y))
    for name in ("means_", "covariances_", "alpha_"):
        at = getattr(fitted, name)
        for place in np.ndindex(at.shape):
            for step in (-0.01, 0.01):
                away = at.copy()
                away[place] += step
                if name == "covariances_":
                    away[(place[0], *place[:0:-1])] = away[place]
                setattr(fitted, name, away)
                assert sum(textbook_logliks(fitted, two.X, two.y)) < top, (name, place, step)
        setattr(fitted, name, at)
    weights = fitted.weights_
    for step in (-0.01, 0.01):
        fitted.weights_ = weights + np.array([step, -step])
        assert sum(textbook_logliks(fitted, two.X, two.y)) < top, ("weights_", step)


# Where it starts


@pytest.mark.parametrize("solver", ["lbfgs", "ecm"])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_a_warm_start_from_the_maximum_stays_there(covariance_type, solver, three):
    clf = MARGaussianMixture(covariance_type=covariance_type, measure="entropy", solver=solver, warm_start=True)
    cold = clf.fit(three.X, three.y).n_iter_
    top, proba = clf.loglik_, clf.predict_proba(three.X)
    clf.fit(three.X, three.y)
    assert clf.converged_
    assert clf.n_iter_ <= 4 < cold
    assert clf.trace_[0] == pytest.approx(top, rel=1e-10)
    assert clf.loglik_ == pytest.approx(top, abs=1e-6 * len(three.y))
    np.testing.assert_allclose(clf.predict_proba(three.X), proba, atol=1e-3)


@pytest.mark.parametrize(
    ("covariance_type", "n_components"), [*((name, 1) for name in COVARIANCE_TYPES), ("tied", {0: 2, 2: 3})]
)
def test_a_warm_start_has_all_values_of_the_fit(covariance_type, n_components, three):
    options = {"covariance_type": covariance_type, "n_components": n_components, "measure": "gini"}
    clf = MARGaussianMixture(**options, mcar_share=True, random_state=0, warm_start=True).fit(three.X, three.y)
    first = clf.loglik_
    again = clf.fit(three.X, three.y)
    assert again.trace_[0] == pytest.approx(first, rel=1e-10)
    assert again.loglik_ >= first - 1e-9
    assert again.loglik_ == pytest.approx(first, abs=1e-6 * len(three.y))


def test_more_starts_are_never_worse(simulate):
    data = simulate(n=120, classes=3, distance=1.5, seed=8)
    logliks = [
        MARGaussianMixture(covariance_type="full", n_init=n, random_state=0).fit(data.X, data.y).loglik_
        for n in (1, 2, 4, 8)
    ]
    assert (np.diff(logliks) >= 0).all()
    assert logliks[-1] > logliks[0] + 0.1, "these data have several maxima, and a restart should find a better one"


# What it does not depend on


def test_gini_and_margin_are_one_model_for_two_classes(two):
    """gini = (1 - margin) / 2."""
    gini, margin = (MARGaussianMixture(measure=measure).fit(two.X, two.y) for measure in ("gini", "margin"))
    assert gini.loglik_ == pytest.approx(margin.loglik_, abs=1e-6)
    np.testing.assert_allclose(gini.predict_proba(two.X), margin.predict_proba(two.X), atol=1e-4)
    np.testing.assert_allclose(gini.missing_proba(two.X), margin.missing_proba(two.X), atol=1e-4)
    np.testing.assert_allclose(gini.alpha_, [margin.alpha_.sum(), -2 * margin.alpha_[1]], atol=2e-3)


@pytest.mark.parametrize(("shape", "link"), [(1.0, "logit"), (0.0, "cloglog")])
@pytest.mark.parametrize("solver", ["lbfgs", "ecm"])
def test_a_fixed_shape_is_the_link_of_that_name(shape, link, solver, two):
    fixed = MARGaussianMixture(link="aranda-ordaz", shape=shape, solver=solver).fit(two.X, two.y)
    named = MARGaussianMixture(link=link, solver=solver).fit(two.X, two.y)
    assert fixed.loglik_ == named.loglik_
    assert fixed.shape_ == named.shape_ == shape
    np.testing.assert_array_equal(fixed.predict_proba(two.X), named.predict_proba(two.X))
    np.testing.assert_array_equal(fixed.missing_proba(two.X), named.missing_proba(two.X))


@pytest.mark.parametrize("link", LINKS)
def test_a_free_share_is_never_worse(link, simulate):
    data = simulate(n=200, seed=0)
    without = MARGaussianMixture(link=link).fit(data.X, data.y)
    with_share = MARGaussianMixture(link=link, mcar_share=True).fit(data.X, data.y)
    assert with_share.loglik_ >= without.loglik_ - 1e-6
    assert 0 <= with_share.share_ < 1
    assert without.share_ == 0.0


# What it finds


@pytest.mark.parametrize(("shape", "alpha"), [(0.5, (1.0, -4.0)), (3.0, (3.0, -8.0))])
def test_parameters_are_recovered_from_many_rows(shape, alpha, simulate):
    """Within four standard errors: those of complete data for the classes, those of known posteriors for the mechanism.

    Both are a little too small, since labels are missing and posteriors are estimated.
    """
    n, spreads = 20_000, np.array([1.0, 1.5])
    data = simulate(n=n, seed=11, alpha=alpha, shape=shape, spreads=spreads)
    fitted = MARGaussianMixture(**PAPER).fit(data.X, data.y)
    assert fitted.converged_
    true_means = np.array([[1.0, 0.0], [-1.0, 0.0]])
    own = n / 2
    assert (np.abs(fitted.means_ - true_means) < 4 * np.sqrt(spreads / own)[:, None]).all()
    true_covariances = spreads[:, None, None] * np.eye(2)
    error = np.sqrt((true_covariances**2 + spreads[:, None, None] ** 2) / own)
    assert (np.abs(fitted.covariances_ - true_covariances) < 4 * error).all()
    np.testing.assert_allclose(fitted.weights_, 0.5, atol=4 * np.sqrt(0.25 / n))

    squared = ((data.X[:, None, :] - true_means) ** 2).sum(axis=2)
    log_joints = -0.5 * squared / spreads - np.log(spreads)
    u = textbook_measure(np.exp(log_joints - logsumexp(log_joints, axis=1, keepdims=True)), "margin")
    truth, step = np.array([*alpha, shape]), 1e-5

    def q(at):
        return textbook_missing_proba(u, at[:2], at[2])

    slopes = np.stack([(q(truth + step * e) - q(truth - step * e)) / (2 * step) for e in np.eye(3)])
    information = slopes / (q(truth) * (1 - q(truth))) @ slopes.T
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert (errors < [0.5, 1.0, 1.5]).all(), "the mechanism should be identified for this test to mean something"
    assert (np.abs([*fitted.alpha_, fitted.shape_] - truth) < 4 * errors).all()


# What it says


def test_the_decision_function_of_two_classes_is_the_log_odds_of_the_second(two):
    fitted = MARGaussianMixture(link="logit").fit(two.X, two.y)
    decision, log_proba = fitted.decision_function(two.X), fitted.predict_log_proba(two.X)
    np.testing.assert_allclose(decision, log_proba[:, 1] - log_proba[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(fitted.classes_[(decision > 0).astype(int)], fitted.predict(two.X))
