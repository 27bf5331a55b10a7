"""The evidence of held-out rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from marmix.core.mechanism import Mechanism
from marmix.selection.evidence import LEAST, MISSING, PRIOR_ROWS, Q_MAX, Evidence, linear_predictor
from marmix.selection.held_out import whole_row_folds


def problem(n=400, K=2, seed=0, candidates=4):
    """Class probabilities of several candidates, the first of them the truth, which also drives the missingness."""
    rng = np.random.default_rng(seed)
    scores = 1.5 * rng.normal(size=(n, K))
    noise = rng.normal(size=(candidates, n, K)) * np.arange(candidates)[:, None, None]
    logits = scores + noise
    probas = np.exp(logits - np.logaddexp.reduce(logits, axis=2)[..., None])
    y = (rng.uniform(size=n)[:, None] > np.cumsum(probas[0], axis=1)).sum(axis=1).clip(max=K - 1)
    entropy = -(probas[0] * np.log(probas[0])).sum(axis=1)
    z = np.where(rng.uniform(size=n) < expit(-2 + 5 * entropy / np.log(K)), -1, y)
    return probas, z, rng


def entropy_of(p):
    return -(p * np.log(p)).sum(axis=1)


@pytest.mark.parametrize("K", [2, 4])
def test_losses_are_those_of_labels_and_of_a_logistic_regression_on_the_entropy(K):
    from statsmodels.api import Logit

    probas, z, rng = problem(K=K)
    v = rng.normal(size=len(z))
    label, missing = Evidence(z, None, v).losses(probas[0])
    rows = np.flatnonzero(z >= 0)
    assert label == pytest.approx(-np.log(probas[0][rows, z[rows]]).mean())
    design = np.column_stack([np.ones(len(z)), entropy_of(probas[0]), v])
    assert missing == pytest.approx(-Logit(z < 0, design).fit(disp=0).llf / len(z), abs=1e-8)


def test_uncertainty_that_is_lower_where_labels_are_missing_is_no_evidence():
    probas, z, rng = problem()
    v = rng.normal(size=len(z))
    swapped = np.where(z < 0, 0, -1)
    evidence, alone = Evidence(swapped, None, v), Evidence(swapped, None, v)
    uniform = np.full_like(probas[0], 0.5)
    assert evidence.mechanism(probas[0]).alpha[1] == 0.0
    assert evidence.losses(probas[0])[1] == pytest.approx(alone.losses(uniform)[1], abs=1e-8)
    assert evidence.gain(probas[0]) == pytest.approx(0.0, abs=1e-6)


def test_weights_are_the_optimum_of_what_they_maximise():
    from statsmodels.api import GLM, families

    probas, z, rng = problem(n=200, K=3)
    counts, v = rng.uniform(0.5, 2.0, size=200), rng.normal(size=200)
    average = Evidence(z, counts, v).average(probas)
    w = counts * len(z) / counts.sum()
    rows = np.flatnonzero(z >= 0)
    share = MISSING * w[rows].sum() / len(z)
    design = np.column_stack([np.ones(len(z)), entropy_of(probas.mean(axis=0)), v])
    q = GLM(1 * (z < 0), design, families.Binomial(), freq_weights=w).fit().predict()
    represented = w[rows] / (1.0 - np.minimum(q[rows], Q_MAX))
    represented *= w[rows].sum() / represented.sum()

    def negative(vector):
        pi = np.exp(vector[:4]) / np.exp(vector[:4]).sum()
        p = np.einsum("c,cnk->nk", pi, probas)
        eta = vector[4] + vector[5] * entropy_of(p) + vector[6] * v
        missing = w @ ((z < 0) * eta - np.logaddexp(0.0, eta))
        return -(represented @ np.log(p[rows, z[rows]]) + share * missing + PRIOR_ROWS / 4 * np.log(pi).sum())

    best = minimize(negative, np.concatenate([np.zeros(4), [0.0, 1.0, 0.0]]), tol=1e-12)
    weights = np.exp(best.x[:4]) / np.exp(best.x[:4]).sum()
    weights[weights < LEAST] = 0.0
    np.testing.assert_allclose(average, weights / weights.sum(), atol=2e-3)


@given(seed=st.integers(0, 1000), K=st.integers(2, 4))
def test_neither_the_order_of_rows_nor_of_classes_nor_of_candidates_matters(seed, K):
    probas, z, rng = problem(n=120, K=K, seed=seed)
    v = rng.normal(size=120)
    rows, classes, names = rng.permutation(120), rng.permutation(K), rng.permutation(4)
    plain = Evidence(z, None, v).average(probas)
    codes = np.where(z < 0, -1, np.argsort(classes)[z])
    moved = Evidence(codes[rows], None, v[rows]).average(probas[names][:, rows][:, :, classes])
    np.testing.assert_allclose(moved, plain[names], atol=0.02)


def test_the_truth_gets_more_weight_with_the_missing_indicators_than_with_the_labels_alone():
    probas, z, _ = problem(n=600, candidates=3, seed=3)
    both = Evidence(z).average(probas)
    rows = z >= 0
    labels = Evidence(z[rows]).average(probas[:, rows])
    assert both[0] > labels[0]


def test_a_weight_of_two_counts_as_two_rows():
    probas, z, rng = problem(n=150)
    twice = rng.uniform(size=150) < 0.3
    repeated = np.concatenate([np.arange(150), np.flatnonzero(twice)])
    weighted = Evidence(z, np.where(twice, 2.0, 1.0)).losses(probas[1])
    np.testing.assert_allclose(weighted, Evidence(z[repeated]).losses(probas[1][repeated]), rtol=1e-6)


def test_missing_proba_is_that_of_the_mechanism():
    probas, z, rng = problem()
    v = rng.normal(size=len(z))
    evidence = Evidence(z, None, v)
    mechanism = evidence.mechanism(probas[0])
    q = evidence.missing_proba(probas[0], mechanism)
    kind = Mechanism(measure="entropy", alpha=mechanism.alpha)
    np.testing.assert_allclose(q, kind.missing_proba(np.log(probas[0]), v[:, None]), rtol=1e-8)
    assert q.mean() == pytest.approx(np.mean(z < 0), abs=1e-6)


def test_rows_that_all_have_labels_are_judged_by_these():
    probas, z, _ = problem()
    rows = z >= 0
    evidence = Evidence(z[rows])
    assert evidence.losses(probas[0][rows])[1] == 0.0
    assert evidence.gain(probas[0][rows]) == 0.0
    assert evidence.mechanism(probas[0]) is None


def test_the_linear_predictor_finds_the_feature_that_drives_the_missingness_and_no_other():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3)) * [1.0, 10.0, 0.1] + [0.0, 100.0, 0.0]
    m = rng.uniform(size=800) < expit(2 * (X[:, 1] - 100.0) / 10.0)
    z = np.where(m, -1, 0)
    folds = whole_row_folds(z, 5, 0)
    v = linear_predictor(X, m, None, folds)
    assert np.corrcoef(v, X[:, 1])[0, 1] > 0.97
    at_random = np.where(rng.uniform(size=800) < 0.5, -1, 0)
    assert np.abs(linear_predictor(X, at_random < 0, None, whole_row_folds(at_random, 5, 0))).std() < 0.1
    holes = X.copy()
    holes[::7, 0] = np.nan  # a missing value counts as the mean
    assert np.corrcoef(linear_predictor(holes, m, None, folds), v)[0, 1] > 0.99
    assert linear_predictor(X, np.zeros(800, dtype=int), None, folds) is None


def test_labels_that_were_all_asked_for_count_alike():
    probas, z, rng = problem(n=600)
    missing, known = z < 0, np.where(z < 0, rng.integers(2, size=600), z)
    plain, asked = Evidence(known), Evidence(known, missing=missing)
    p = asked._sorted(probas[0])
    np.testing.assert_allclose(asked._represented(p, asked.mechanism(probas[0])), plain.counts)


def test_a_candidate_that_hardly_adds_anything_has_no_weight():
    probas, z, rng = problem(n=6000)
    noise = rng.dirichlet([0.3, 0.3], size=6000)
    weights = Evidence(z).average(np.concatenate([probas[:1], noise[None]]))
    np.testing.assert_array_equal(weights, [1.0, 0.0])


def test_missing_labels_without_weight_leave_the_labelled_rows_as_they_are():
    probas, z, _ = problem(n=200)
    evidence = Evidence(z, 1.0 * (z >= 0))
    p = evidence._sorted(probas[0])
    represented = evidence._represented(p, evidence.mechanism(probas[0]))
    np.testing.assert_allclose(represented, evidence.counts[: evidence.labelled])
