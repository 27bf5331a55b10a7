"""Posteriors of unlabelled rows at parameters drawn from their distribution."""

import numpy as np
from scipy.special import expit

from marmix import MARLogisticRegression
from marmix.inference.draws import posterior_draws


def test_posteriors_spread_as_the_delta_method_says():
    """One feature, labelled rows alone: the log-odds of a row are normal, so its mean probability is that of a normal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = np.where(np.arange(200) < 60, (rng.uniform(size=200) < expit(X[:, 0])).astype(int), -1)
    fitted = MARLogisticRegression(C=np.inf, link=None).fit(X, y).inference(X, y).fitted
    covariance = fitted.covariance_of(fitted.jacobian, "sandwich")
    rows = np.column_stack([np.ones(140), X[60:, 0]])
    mean, variance = rows @ fitted.values, np.einsum("ni,ij,nj->n", rows, covariance, rows)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    tau = expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes)
    expected = tau @ weights / weights.sum()
    error = np.sqrt(np.maximum(tau**2 @ weights / weights.sum() - expected**2, 0.0) / 4000)
    draw, _ = posterior_draws(fitted)
    rng = np.random.default_rng(1)
    proba = np.mean([draw(rng)[:, 1] for _ in range(4000)], axis=0)
    np.testing.assert_array_less(np.abs(proba - expected), 5.0 * error)
    assert (np.abs(expit(mean) - expected) > 10.0 * error).any()  # unlike with fixed parameters
