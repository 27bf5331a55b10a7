"""Fits to many rows need few passes, thanks to samples and their curvature, and reach the maximum of all rows."""

import numpy as np
import pytest
from problems import mechanism_of

import marmix.fitting.quasi_newton as quasi_newton
from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.core.covariance import structure
from marmix.core.gaussian import GaussianScores
from marmix.core.likelihood import block_sums
from marmix.core.moments import group_moments
from marmix.datasets import hide_labels
from marmix.engines import NumpyEngine
from marmix.fitting import Objective
from marmix.fitting.quasi_newton import _factor, _metric_at, _stages
from marmix.fitting.starts import frame_of, labelled_start, mechanism_start


def hidden(n, d, classes, rate=0.7, seed=0):
    """Gaussian classes, hard rows without labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y % d] += 2.0
    tau = np.exp(2.0 * X[:, :classes])
    return X, hide_labels(y, tau / tau.sum(axis=1, keepdims=True), rate=rate, random_state=rng).target


@pytest.mark.parametrize(
    ("estimator", "classes", "most"),
    [
        (MARGaussianMixture(), 2, 10),
        (MARGaussianMixture(link="cloglog"), 3, 20),  # the margin of three classes has kinks, at which passes are lost
        (MARGaussianMixture(covariance_type="tied", measure="entropy"), 3, 10),
        pytest.param(MARGaussianMixture(covariance_type="diag", link="logit"), 2, 10, marks=pytest.mark.long),
        pytest.param(MARGaussianMixture(link=None), 2, 10, marks=pytest.mark.long),
        (MARLogisticRegression(link="logit", n_init=1), 2, 10),
    ],
)
def test_the_maximum_is_that_of_a_climb_on_all_rows_and_takes_few_passes(monkeypatch, estimator, classes, most):
    X, y = hidden(200_000, 4, classes)
    fit = estimator.fit(X, y)
    found, passes = fit.loglik_ - 0.5 * (np.sum(fit.coef_**2) if hasattr(fit, "coef_") else 0.0), fit.n_passes_
    monkeypatch.setattr(quasi_newton, "_stages", lambda n, size: [])
    whole = estimator.set_params(tol=1e-11).fit(X, y)
    top = whole.loglik_ - 0.5 * (np.sum(whole.coef_**2) if hasattr(whole, "coef_") else 0.0)
    estimator.set_params(tol=1e-8)
    assert abs(found - top) < 1e-8 * len(X)
    assert passes <= most
    assert whole.n_passes_ > passes


@pytest.mark.parametrize("n", [10, 7999, 8000, 50_000, 10**6, 10**9])
@pytest.mark.parametrize("size", [5, 33, 1155])
def test_samples_grow_and_stay_a_part_of_the_rows(n, size):
    stages = _stages(n, size)
    assert stages == sorted(set(stages))
    assert all(rows <= 0.25 * n and rows >= 20 * size for rows in stages)
    assert not stages or stages[-1] <= max(2**18, stages[0])


def problem(n=4000):
    X, z = hidden(n, 3, 2)
    moments = group_moments(X, z, None, 2)
    model = GaussianScores(structure("full", 3), [1, 1], 1e-6)
    frame = frame_of(model, *moments.overall(), moments.labelled, singular=False)
    objective = Objective(NumpyEngine(X, z, None, 2, frame), model)
    theta = labelled_start(model, frame, moments.labelled)
    return objective, theta, mechanism_start(objective, theta, mechanism_of("logit"), {})


def test_in_the_metric_of_a_sample_the_curvature_is_near_one_in_every_direction():
    objective, theta, mechanism = problem()
    fit = quasi_newton.lbfgs(objective, theta, mechanism, max_iter=200, tol=1e-12, report=lambda *_: None)
    charts = quasi_newton._Charts(objective, quasi_newton._Point(fit.theta, fit.mechanism, fit.sums))
    steps = 1e-4 * np.eye(charts.size)
    changes = [charts.gradient(-s, charts.point(-s)) - charts.gradient(s, charts.point(s)) for s in steps]
    curvature = np.array(changes) / (2e-4 * objective.engine.total_weight)
    common = np.append(np.exp(0.5 * fit.theta.log_pi), np.zeros(charts.size - 2))  # a common factor of the weights
    across = np.linalg.svd(common[None])[2][1:]
    values, vectors = np.linalg.eigh(across @ _metric_at(objective, fit.theta, fit.mechanism).inverse @ across.T)
    root = across.T @ (vectors * np.sqrt(values))
    eigenvalues = np.linalg.eigvalsh(root.T @ curvature @ root)
    assert eigenvalues.min() > 0.6
    assert eigenvalues.max() < 1.5


@pytest.mark.parametrize("boxed", [[], [1], [0, 3], [0, 1, 2, 3, 4]])
def test_coordinates_carry_the_metric_of_the_free_given_the_boxed(boxed):
    root = np.random.default_rng(0).normal(size=(5, 5))
    metric = root @ root.T + np.eye(5)
    mask = np.isin(np.arange(5), boxed)
    F = _factor(metric, mask)
    free = np.flatnonzero(~mask)
    hessian = np.linalg.inv(metric)
    inner = np.ix_(free, free)
    np.testing.assert_allclose(F[inner].T @ hessian[inner] @ F[inner], np.eye(len(free)), atol=1e-12)
    np.testing.assert_allclose(np.diag(F)[mask], np.sqrt(np.diag(metric))[mask])
    assert not F[np.ix_(free, np.flatnonzero(mask))].any()


def test_a_metric_that_rounding_has_made_indefinite_has_no_factor_and_does_no_harm(monkeypatch):
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(90, 90)))[0]
    metric = (turn * np.r_[np.full(45, 1e4), np.full(45, 1e-20)]) @ turn.T
    assert _factor(metric, np.arange(90) < 3) is None
    X, y = hidden(100_000, 2, 2)
    expected = MARGaussianMixture(link="logit").fit(X, y)
    spoilt = []

    def indefinite(objective, theta, mechanism):
        measured = _metric_at(objective, theta, mechanism)
        values, vectors = np.linalg.eigh(measured.inverse)
        values[:2] *= -1.0
        spoilt.append((vectors * values) @ vectors.T)
        return measured._replace(inverse=spoilt[-1])

    monkeypatch.setattr(quasi_newton, "_metric_at", indefinite)
    fit = MARGaussianMixture(link="logit").fit(X, y)
    assert spoilt
    assert abs(fit.loglik_ - expected.loglik_) < 1e-8 * len(X)


@pytest.mark.parametrize(
    "estimator",
    [
        MARGaussianMixture(link="logit", n_init=3, random_state=0),
        MARGaussianMixture(link="logit", mechanism_weight=0.0),
        MARGaussianMixture(link="logit", mcar_share=True),
        MARGaussianMixture(link="logit", solver="ecm", max_iter=3),
        MARLogisticRegression(link="logit"),
    ],
)
@pytest.mark.filterwarnings("ignore:The fit did not converge")
def test_every_pass_over_all_rows_is_counted(monkeypatch, estimator):
    X, y = hidden(500, 3, 2)
    seen = []
    total = NumpyEngine.total

    def counted(self, function, *args, width):
        seen.append((function, self.n_rows))
        return total(self, function, *args, width=width)

    monkeypatch.setattr(NumpyEngine, "total", counted)
    fit = estimator.fit(X, y)
    assert fit.n_passes_ == seen.count((block_sums, 500))


def test_running_out_of_iterations_on_many_rows_is_said():
    X, y = hidden(20_000, 3, 2)
    with pytest.warns(match="max_iter=1 iterations were used up"):
        fit = MARGaussianMixture(max_iter=1).fit(X, y)
    assert not fit.converged_
