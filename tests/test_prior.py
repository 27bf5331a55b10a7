"""Known class shares."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression, load, save
from marmix.evaluation.prior import class_offsets, tilted

TWO = {"linear": MARLogisticRegression(link=None), "tied": MARGaussianMixture(covariance_type="tied", link=None)}


def rows(n=240, classes=3, seed=0):
    """Gaussian classes of which each has the same number of labels, however rare it is."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, size=n, p=np.arange(classes, 0, -1) / (classes * (classes + 1) / 2))
    X = rng.normal(size=(n, 2)) + 1.5 * np.eye(classes, 2)[y]
    partial = np.full(n, -1)
    for k in range(classes):
        labelled = np.flatnonzero(y == k)[:12]
        partial[labelled] = k
    return X, y, partial


def shares(clf, X, y, proba=None):
    """Shares of the classes, with the labels given and the probabilities of the other rows."""
    proba = clf.predict_proba(X) if proba is None else proba
    return np.where((y < 0)[:, None], proba, np.eye(len(clf.classes_))[y]).mean(axis=0)


@pytest.fixture(scope="module")
def fitted():
    X, _, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return MARClassifierCV(estimators=TWO, cv=2, prior=[0.6, 0.3, 0.1]).fit(X, y)


def test_the_shares_of_the_rows_are_the_known_ones(fitted):
    X, _, y = rows()
    np.testing.assert_allclose(shares(fitted, X, y), [0.6, 0.3, 0.1], atol=1e-10)
    for proba in (fitted.held_out_proba_, fitted.reference_proba_, fitted.posterior_.central):
        np.testing.assert_allclose(shares(fitted, X, y, proba), [0.6, 0.3, 0.1], atol=1e-10)
    np.testing.assert_array_equal(fitted.transduction_[y < 0], fitted.predict(X)[y < 0])
    assert "60 %, 30 %, 10 % for 0, 1, 2" in fitted.notes_[0]


def test_every_candidate_has_log_odds_shifted_by_constants(fitted):
    X, by_hand = rows()[0], 0.0
    for name, weight in fitted.weights_.items():
        odds = fitted.estimators_[name].predict_proba(X) * np.exp(fitted.prior_offset_[name])
        by_hand += weight * odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(X), by_hand, rtol=1e-10)


def test_the_share_that_is_estimated_anyway_changes_nothing(fitted):
    X, _, y = rows()
    plain = fitted.estimators_["tied"].predict_proba(X)
    prior = shares(fitted, X, y, plain)
    known = MARClassifierCV(estimators={"tied": TWO["tied"]}, cv=2, prior=prior).fit(X, y)
    np.testing.assert_allclose(known.prior_offset_["tied"], 0.0, atol=1e-9)
    np.testing.assert_allclose(known.predict_proba(X), plain, atol=1e-10)


def test_other_classes_keep_their_odds_in_every_row_whatever_the_names_and_the_order_of_the_classes(fitted):
    X, _, y = rows()
    names = np.array(["c", "a", "b", None], dtype=object)
    known = MARClassifierCV(estimators={"tied": TWO["tied"]}, cv=2, prior={"b": 0.1}).fit(X, names[y])
    assert known.classes_.tolist() == ["a", "b", "c"]
    assert "10 % for 'b'" in known.notes_[0]
    plain, proba = fitted.estimators_["tied"].predict_proba(X), known.predict_proba(X)[:, [2, 0, 1]]
    assert shares(fitted, X, y, proba)[2] == pytest.approx(0.1, abs=1e-10)
    np.testing.assert_allclose(proba[:, 0] / proba[:, 1], plain[:, 0] / plain[:, 1], rtol=1e-6)


def test_a_row_of_weight_two_counts_as_two():
    rng = np.random.default_rng(0)
    p, weight = rng.dirichlet(np.ones(3), size=40), rng.integers(1, 4, size=40)
    expected = weight.sum() * np.array([0.2, 0.5, 0.3])
    weighted = class_offsets(p, expected, weight.astype(float))
    np.testing.assert_allclose(weighted, class_offsets(np.repeat(p, weight, axis=0), expected), atol=1e-9)
    np.testing.assert_allclose(weight @ tilted(p, weighted), expected, rtol=1e-10)


@pytest.mark.parametrize("least", [1e-12, 1e-4])
def test_rare_classes_and_certain_rows_have_offsets_too(least):
    p = np.array([[1.0, 0.0], [1.0, 0.0], [1.0 - 1e-9, 1e-9], [0.0, 1.0]])
    expected = np.array([3.0 - least, 1.0 + least])
    np.testing.assert_allclose(tilted(p, class_offsets(p, expected)).sum(axis=0), expected, atol=1e-11)


def test_a_saved_model_has_the_same_probabilities(fitted, tmp_path):
    save(fitted, tmp_path / "known.marmix")
    again = load(tmp_path / "known.marmix")
    X = rows()[0]
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.notes_ == fitted.notes_
    assert clone(again).prior == clone(fitted).prior == [0.6, 0.3, 0.1]


def test_a_sensitivity_analysis_starts_at_the_known_shares(fitted):
    X, _, y = rows()
    sweep = fitted.sensitivity(X, y, [0.0, 0.5], label=2, n_draws=20)
    assert sweep.share[0] == pytest.approx(0.1, abs=1e-10)


def test_enriched_labels_are_corrected():
    """Five of twenty labels are of a class that 3 % of the rows have."""
    rng = np.random.default_rng(0)
    y = np.arange(1500) < 45
    X = rng.normal(size=(1500, 3)) + 1.2 * y[:, None]
    partial = np.full(1500, -1)
    partial[np.r_[:5, 45:60]] = y[np.r_[:5, 45:60]]
    clf = MARClassifierCV(estimators={"linear": TWO["linear"]}, cv=2, prior={1: 0.03}).fit(X, partial)

    def loss(clf):
        proba = clf.predict_proba(X)[:, 1]
        return -np.mean(np.log(np.where(y, proba, 1.0 - proba)))

    base_rate = -(0.03 * np.log(0.03) + 0.97 * np.log(0.97))
    assert loss(clf) < base_rate < loss(clf.estimators_["linear"])
