"""The label term: labels that go missing because of the label itself."""

from dataclasses import replace

import numpy as np
import pytest
from problems import Problem, central_differences, mechanism_of
from scipy.special import expit, logsumexp

from marmix import MARGaussianMixture, MARLogisticRegression, Mechanism
from marmix.core.charts import LABEL_MAX
from marmix.core.covariance import STRUCTURES
from marmix.core.measures import posterior
from marmix.core.notes import BoundaryWarning
from marmix.inference.draws import posterior_draws
from marmix.objectives import MissingnessObjective
from marmix.persistence import load, save

LABELS = [0, 1, 2, -1, -1, 0, 1, -1, 2, -1, -1, 0] * 2
ESTIMATORS = [MARGaussianMixture, lambda **options: MARLogisticRegression(C=np.inf, n_init=1, **options)]


def with_label(link="with share", free=True, label=(0.0, 0.8, -0.5)):
    return replace(mechanism_of(link, "entropy", slope=1.5), label=label, free_label=free)


def self_masked(n=400, seed=0, delta=1.5, slope=0.0, classes=2):
    """Gaussian classes whose labels are missing with log-odds that grow by delta from class to class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, 2)) + 2.0 * np.eye(classes, 2)[y]
    log_tau = X @ (2.0 * np.eye(classes, 2)).T - 2.0 * np.eye(classes, 2).any(axis=1)
    tau = np.exp(log_tau - logsumexp(log_tau, axis=1, keepdims=True))
    q = expit(-0.5 - slope * np.sum(tau * np.log(tau), axis=1) + delta * y)
    return X, np.where(rng.uniform(size=n) < q, -1, y), y


@pytest.fixture(scope="module")
def masked():
    return self_masked()


# The likelihood.


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("counts", [[1, 1, 1], [2, 1, 1]])
def test_gradient(counts, free):
    problem = Problem("full", with_label(free=free), LABELS, counts, weighted=True)
    vector = np.random.default_rng(1).normal(size=problem.size)
    vector[: problem.chart.size] *= 0.2
    vector[problem.chart.size :] *= 0.01
    numeric = central_differences(problem.loglik, vector, 2e-6)
    np.testing.assert_allclose(problem.gradient(vector), numeric, atol=1e-6 * np.abs(numeric).max())


def test_likelihood_of_a_row():
    """A labelled row has tau_z (1 - q_z), an unlabelled one the sum of tau_k q_k over the classes."""
    problem, mechanism = Problem("full", with_label("aranda-ordaz"), LABELS, [1, 1, 1]), with_label("aranda-ordaz")
    scores = problem.model.scores(problem.theta, problem.engine.frame.enter(problem.X))
    tau = posterior(scores).tau
    eta = (
        mechanism.alpha[0] - mechanism.alpha[1] * np.sum(tau * np.log(tau), axis=0) + np.array(mechanism.label)[:, None]
    )
    q = 1.0 - (1.0 + mechanism.shape * np.exp(eta)) ** (-1.0 / mechanism.shape)
    expected = [
        np.log(np.exp(s) @ p) if k < 0 else s[k] + np.log1p(-p[k])
        for s, p, k in zip(scores.T, q.T, problem.z, strict=True)
    ]
    sums = problem.objective.sums(problem.theta, mechanism)
    assert sums.ignorable + sums.missing == pytest.approx(sum(expected), rel=1e-12)
    np.testing.assert_allclose(mechanism.missing_proba(scores.T), np.sum(tau * q, axis=0), rtol=1e-12)


@pytest.mark.parametrize("link", ["logit", "with share"])
@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_zero_is_no_label_term(covariance_type, link):
    plain = mechanism_of(link, "entropy", slope=1.5)
    zero = replace(plain, label=(0.0, 0.0, 0.0))
    problem = Problem(covariance_type, plain, LABELS, [1, 1, 1], weighted=True)
    for ignorable in (True, False):
        a, b = (problem.objective.sums(problem.theta, mechanism, ignorable) for mechanism in (plain, zero))
        np.testing.assert_allclose(a.ignorable + a.missing, b.ignorable + b.missing, rtol=1e-13)
        np.testing.assert_allclose(a.moments.by_component, b.moments.by_component, atol=1e-12)
        np.testing.assert_allclose([*a.alpha, a.shape, a.share], [*b.alpha, b.shape, b.share], atol=1e-12)


def test_far_tails_are_finite():
    scores = np.array([[0.0, 800.0], [800.0, 0.0], [1.0, 0.0], [0.0, 700.0]]).T
    for level in (-700.0, 700.0):
        mechanism = Mechanism("entropy", (level, 1.0), label=(0.0, 5.0), free_label=True)
        sums = mechanism.block(posterior(scores), None, 0, None, [0, 0, 0])
        assert np.isfinite([sums.loglik, *sums.alpha, *sums.gradient.ravel()]).all()


# Fits.


@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_common_label_term_is_an_intercept(make, masked):
    X, y, _ = masked
    plain, shifted = make(tol=1e-12).fit(X, y), make(delta={0: 0.7, 1: 0.7}, tol=1e-12).fit(X, y)
    assert shifted.loglik_ == pytest.approx(plain.loglik_, abs=1e-7)
    np.testing.assert_allclose(shifted.alpha_ + np.array([0.7, 0.0]), plain.alpha_, atol=1e-3)
    np.testing.assert_allclose(shifted.predict_proba(X), plain.predict_proba(X), atol=1e-4)
    assert np.array_equal(shifted.transduction_, plain.transduction_)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_estimated_label_terms_are_the_best(make, masked):
    X, y, _ = masked
    free = make(delta="estimate").fit(X, y)
    fixed = [make(delta={1: delta}).fit(X, y).loglik_ for delta in (-1.0, 0.0, 1.0, 2.0, free.delta_[1])]
    assert max(fixed[:-1]) < free.loglik_
    assert fixed[-1] == pytest.approx(free.loglik_, abs=1e-4)
    assert free.model_.n_parameters == make().fit(X, y).model_.n_parameters + 1
    assert free.aic() == pytest.approx(2.0 * (free.model_.n_parameters - free.loglik_))


def test_solvers_agree(masked):
    X, y, _ = masked
    fits = [MARGaussianMixture(solver=solver, delta={1: 1.0}).fit(X, y) for solver in ("lbfgs", "ecm")]
    assert fits[0].loglik_ == pytest.approx(fits[1].loglik_, abs=1e-3)
    assert (np.diff(fits[1].trace_) > 0.0).all()


def test_relabelling_permutes_the_answer():
    X, y, _ = self_masked(300, classes=3, delta=0.7)
    names = np.array(["b", "c", "a"])
    fit = MARGaussianMixture(delta={1: 0.5, 2: 1.4}, tol=1e-12).fit(X, y)
    other = MARGaussianMixture(delta={"c": 0.5, "a": 1.4}, tol=1e-12).fit(X, np.where(y < 0, None, names[y]))
    np.testing.assert_allclose(other.delta_, [1.4, 0.0, 0.5])
    assert other.loglik_ == pytest.approx(fit.loglik_, abs=1e-6)
    np.testing.assert_allclose(other.predict_proba(X)[:, [1, 2, 0]], fit.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_odds_of_labelled_and_unlabelled_rows(make, masked):
    """With the logit link, e^delta is the ratio of the odds of a class without and with a label."""
    X, y, _ = masked
    fit = make(delta={1: 1.2}).fit(X, y)
    p = fit.model_.posterior(X)
    q, tau = fit.mechanism_.missing_proba_by_class(fit.mechanism_.drivers(p, None)), p.tau
    missing, given = fit.model_.unlabelled_posterior(X).tau, tau * (1.0 - q)
    np.testing.assert_allclose((missing[1] / missing[0]) / (given[1] / given[0]), np.exp(1.2), rtol=1e-9)
    np.testing.assert_allclose(fit.missing_proba(X), np.sum(tau * q, axis=0), rtol=1e-12)
    expected = np.where(y < 0, missing.argmax(axis=0), y)
    assert np.array_equal(fit.transduction_, expected)
    assert np.array_equal(fit.impute(X, y), expected)
    assert (fit.transduction_ != fit.predict(X))[y < 0].any()


@pytest.mark.parametrize("make", ESTIMATORS)
def test_the_truth_is_estimated(make):
    X, y, truth = self_masked(3000, seed=3, delta=1.2, slope=2.0)
    fit = make(delta="estimate").fit(X, y)
    result = fit.inference(X, y)
    low, high = result.conf_int(0.002)[result.param_names.index("delta[1]")]
    assert low < 1.2 < high < 2.5
    errors = [np.mean((clf.transduction_ != truth)[y < 0]) for clf in (fit, make().fit(X, y))]
    assert errors[0] < errors[1]
    profile = result.profile("delta[1]")
    np.testing.assert_allclose([profile.lower, profile.upper], result.conf_int()[-1], atol=0.1)


def test_a_run_off_is_reported():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    X = rng.normal(size=(120, 1)) + 12.0 * y[:, None]
    partial = np.where((y == 1) & (np.arange(120) % 2 == 0), -1, y)  # labels are missing in one class only
    with pytest.warns(BoundaryWarning, match="label term of class 1 is at its limit"):
        fit = MARGaussianMixture(delta="estimate").fit(X, partial)
    assert fit.delta_[1] == pytest.approx(LABEL_MAX)
    assert "a label term at its limit" in fit.inference(X, partial).notes[0]


def test_starts(masked):
    X, y, _ = masked
    fit = MARGaussianMixture(delta="estimate").fit(X, y)
    warm = MARGaussianMixture(delta={0: -1.0}, warm_start=True).fit(X, y).set_params(delta="estimate").fit(X, y)
    assert warm.loglik_ == pytest.approx(fit.loglik_, abs=1e-4)


@pytest.mark.parametrize("delta", [{"ill": 0.7}, "estimate"])
def test_saved_models(delta, masked, tmp_path):
    X, y, _ = masked
    labels = np.where(y < 0, None, np.array(["healthy", "ill"])[y])
    fit = MARGaussianMixture(delta=delta).fit(X, labels)
    save(fit, tmp_path / "model.marmix")
    copy = load(tmp_path / "model.marmix")
    assert copy.delta == delta
    assert copy.mechanism_ == fit.mechanism_
    assert np.array_equal(copy.impute(X, labels), fit.transduction_)
    assert "label term healthy 0, ill" in fit.summary().as_text().replace("0.000", "0")


# Inference.


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (ESTIMATORS[0], {"delta": {1: 0.8}, "mechanism_features": [0]}),
        (ESTIMATORS[0], {"delta": "estimate", "n_components": {0: 2}, "mcar_share": True, "random_state": 0}),
        (ESTIMATORS[1], {"delta": "estimate"}),
        (ESTIMATORS[1], {"delta": {1: 0.8, 2: -0.5}}),
    ],
)
def test_information_is_minus_the_second_derivative(make, options):
    X, y, _ = self_masked(150, classes=3, delta=0.6, seed=4)
    fitted = make(max_iter=5, **options)
    with pytest.warns():  # five iterations: a point at which the gradient is not zero
        fitted = fitted.fit(X, y).inference(X, y).fitted
    coordinates = fitted.coordinates

    def gradient(vector):
        theta, mechanism = coordinates.at(vector)
        return coordinates.gradient(vector, theta, fitted.objective.sums(theta, mechanism))

    units = 1e-5 * np.eye(coordinates.size)
    numeric = np.column_stack([(gradient(-unit) - gradient(unit)) / 2e-5 for unit in units])
    np.testing.assert_allclose(fitted.information.bread, numeric, atol=1e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("make", ESTIMATORS)
def test_expected_information_is_the_mean_over_labels(make):
    """The expected information is the mean of the outer products over labels and missingness drawn from the fit."""
    X, y, _ = self_masked(4000, delta=0.8, seed=2)
    fit = make(delta={1: 0.8}).fit(X, y)
    result = fit.inference(X, y)
    expected, observed = (result.fitted.information.covariance(kind)[0] for kind in ("expected", "observed"))
    np.testing.assert_allclose(np.sqrt(np.diag(observed) / np.diag(expected)), 1.0, atol=0.1)


def test_likelihood_ratio(masked):
    X, y, _ = masked
    null, free = (MARGaussianMixture(delta=delta).fit(X, y) for delta in (None, "estimate"))
    for fit in (null, free):
        result = fit.inference(X, y).test_label_term()
        assert result.statistic == pytest.approx(2.0 * (free.loglik_ - null.loglik_), abs=1e-4)
        assert result.details["delta"]["1"] == pytest.approx(free.delta_[1], abs=1e-3)
        assert result.p_value < 0.01
        assert "because of the label itself" in result.sentence
        assert "relies on" in result.sentence
    at_random = np.where(np.random.default_rng(1).uniform(size=len(y)) < 0.5, -1, masked[2])
    assert MARGaussianMixture().fit(X, at_random).inference(X, at_random).test_label_term().p_value > 0.05


def test_drawn_labels_use_the_missingness(masked):
    X, y, _ = masked
    for options in ({"delta": {1: 1.0}}, {"delta": "estimate"}):
        fit = MARGaussianMixture(**options).fit(X, y)
        proba = fit.model_.unlabelled_posterior(X[y < 0]).tau
        assert np.array_equal(proba.argmax(axis=0), fit.transduction_[y < 0])
        draw, rng = posterior_draws(fit.inference(X, y).fitted)[0], np.random.default_rng(0)
        drawn = np.mean([draw(rng).mean(axis=0) for _ in range(100)], axis=0)
        np.testing.assert_allclose(drawn, proba.mean(axis=1), atol=0.02)


# What is refused.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": {"ill": 1.0}}, "delta names the class 'ill', but the classes are"),
        ({"delta": {1: np.inf}}, "between -50 and 50"),
        ({"delta": {1: "much"}}, "to float: 'much'"),
        ({"delta": 0.7}, "must be None, 'estimate', or a dict"),
        ({"delta": "free"}, "must be None, 'estimate', or a dict"),
        ({"delta": {1: 1.0}, "link": None}, "leave delta=None"),
        ({"delta": "estimate", "mechanism_weight": "auto"}, "give a number"),
    ],
)
def test_refused_options(options, message, masked):
    X, y, _ = masked
    fit = MARGaussianMixture().fit(X, y)
    before = fit.model_
    with pytest.raises(ValueError, match=message):
        fit.set_params(**options).fit(X, y)
    assert fit.model_ is before


def test_refused_uses(masked):
    X, y, _ = masked
    fit = MARGaussianMixture(delta={1: 1.0}).fit(X, y)
    result, scores = fit.inference(X, y), np.zeros((4, 2))
    refused = [
        lambda: fit.mechanism_.terms(scores, [0, 1, 0, 1]),
        lambda: fit.mechanism_.profile(scores, [0, 1, 0, 1]),
        lambda: MissingnessObjective(y, mechanism=fit.mechanism_),
        result.test_informative,
        result.test_mechanism,
    ]
    for use in refused:
        with pytest.raises(ValueError, match="cannot use a label term"):
            use()
    for label, free in (((1.0,), False), ((0.0, np.nan), False), ((1.0, 0.0), True), ((), True)):
        with pytest.raises(ValueError, match="label"):
            Mechanism(label=label, free_label=free)
