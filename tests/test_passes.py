"""Fits to many rows need few passes, thanks to samples and their curvature, and reach the maximum of all rows."""

import numpy as np
import pytest

import marmix.fitting.quasi_newton as quasi_newton
from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.core.likelihood import block_sums
from marmix.datasets import hide_labels
from marmix.engines import NumpyEngine
from marmix.fitting.quasi_newton import _factor, _stages


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
        (MARLogisticRegression(link="logit", n_init=1), 2, 12),
    ],
)
def test_the_maximum_is_that_of_a_climb_on_all_rows_and_takes_few_passes(monkeypatch, estimator, classes, most):
    X, y = hidden(100_000, 4, classes)
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


def test_a_metric_that_rounding_has_made_indefinite_does_no_harm(monkeypatch):
    X, y = hidden(20_000, 2, 2)
    expected = MARGaussianMixture(link="logit").fit(X, y)
    metric, spoilt = quasi_newton._Round.metric, []

    def indefinite(self):
        measured = metric(self)
        values, vectors = np.linalg.eigh(measured.inverse)
        values[:2] *= -1.0
        spoilt.append((vectors * values) @ vectors.T)
        return measured._replace(inverse=spoilt[-1])

    monkeypatch.setattr(quasi_newton._Round, "metric", indefinite)
    fit = MARGaussianMixture(link="logit").fit(X, y)
    with np.errstate(invalid="ignore"):
        assert _factor(spoilt[0], np.zeros(len(spoilt[0]), dtype=bool)) is None
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
