"""The model of gmmsslm, the package that marmix descends from."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp, xlogy
from scipy.stats import multivariate_normal

from marmix import MARGaussianMixture
from marmix.datasets import make_mar_mixture


@pytest.mark.parametrize(("covariance", "uncertainty"), [("full", "log-entropy"), ("tied", "discriminant")])
def test_gmmsslm_fits_one_of_our_likelihoods(covariance, uncertainty):
    """Its formula: logit q = xi_0 + xi_1 log H, or the squared log-odds if two classes have one covariance."""
    rows = make_mar_mixture(150, random_state=0)
    X, y = rows.data, rows.target
    clf = MARGaussianMixture(covariance_type=covariance, measure=uncertainty, link="logit").fit(X, y)
    covariances = np.broadcast_to(clf.covariances_, (2, 2, 2))
    scores = np.column_stack(
        [
            np.log(weight) + multivariate_normal(mean, matrix).logpdf(X)
            for weight, mean, matrix in zip(clf.weights_, clf.means_, covariances, strict=True)
        ]
    )
    missing, total = y < 0, logsumexp(scores, axis=1)
    tau = np.exp(scores - total[:, None])
    u = (scores[:, 0] - scores[:, 1]) ** 2 if covariance == "tied" else np.log(-xlogy(tau, tau).sum(axis=1))
    q = expit(clf.alpha_[0] + clf.alpha_[1] * u)
    ignorable = np.where(missing, total, scores[np.arange(len(y)), np.maximum(y, 0)]).sum()
    full = ignorable + np.where(missing, np.log(q), np.log1p(-q)).sum()
    assert clf.loglik_ == pytest.approx(full, abs=1e-8)
