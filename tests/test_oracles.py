"""Agreement with maxima that other programs found (`MARMIX_SHARED/oracles`)."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from problems import PAPER

from marmix import MARGaussianMixture

SHARED = os.environ.get("MARMIX_SHARED")
pytestmark = [
    pytest.mark.skipif(SHARED is None, reason="MARMIX_SHARED is not set: the oracles' data are not here"),
    pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning"),
]


def read(name, label):
    with open(Path(SHARED) / name, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    features = [key for key in rows[0] if key.startswith(("x", "feature"))]
    X = np.array([[float(row[key]) for key in features] for row in rows])
    return X, np.array([row[label] or None for row in rows], dtype=object)


SIMULATED, GMMSSLM, GASTRO = "oracles/paper_gauss_n200.csv", "oracles/gmmsslm_n200.csv", "data/gastro.csv"


def one_start(solver):
    """A single start for the slow solver."""
    return {"n_init": 1} if solver == "ecm" else {}


@pytest.mark.parametrize("solver", ["lbfgs", "ecm"])
@pytest.mark.parametrize(
    ("file", "label", "options", "loglik", "alpha"),
    [
        (SIMULATED, "label", {"link": None}, -414.1209, None),
        (SIMULATED, "label", {"link": "logit"}, -530.9761, (1.650, -1.981)),
        (GMMSSLM, "label", {"link": "logit", "measure": "log-entropy"}, -763.1304, (2.336, 2.738)),
        (GASTRO, "label", {"link": None, "n_init": 1}, 290.7067, None),  # further starts find a higher maximum
        (GASTRO, "truth", {}, 260.1875, None),
    ],
)
def test_maximum_log_likelihood_to_the_printed_digits(file, label, options, loglik, alpha, solver):
    options = {**PAPER, **options} | one_start(solver)
    clf = MARGaussianMixture(**options, solver=solver).fit(*read(file, label))
    assert clf.converged_
    assert clf.loglik_ == pytest.approx(loglik, abs=6e-5)
    if alpha is not None:
        # alpha is less exact than the maximum: its error is the root of the log-likelihood's
        closer = MARGaussianMixture(**options, solver=solver, tol=1e-11).fit(*read(file, label))
        np.testing.assert_allclose(closer.alpha_, alpha, atol=6e-4)


@pytest.mark.parametrize("solver", ["lbfgs", "ecm"])
def test_a_supremum_at_shape_zero_is_reached(solver):
    options = PAPER | one_start(solver)
    clf = MARGaussianMixture(**options, solver=solver).fit(*read(SIMULATED, "label"))
    assert clf.loglik_ >= -530.7577 - 5e-5  # the digits printed
    assert clf.shape_ == pytest.approx(0.0, abs=1e-6)
    closer = MARGaussianMixture(**options, solver=solver, tol=1e-11).fit(*read(SIMULATED, "label"))
    np.testing.assert_allclose(closer.alpha_, (0.636, -1.171), atol=6e-4)


def test_the_better_of_several_maxima_is_found():
    clf = MARGaussianMixture(covariance_type="full", link="logit", measure="log-entropy").fit(*read(GASTRO, "label"))
    assert clf.loglik_ >= 244.9527
    np.testing.assert_allclose(clf.alpha_, (1.88, 0.142), atol=0.01)
