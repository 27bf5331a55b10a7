"""Labels that were asked for: they count as labels, and their rows as rows whose label had been missing."""

import numpy as np
import pytest
from sklearn.base import clone

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.selection.evidence import Evidence

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LIKELIHOODS = {
    "mixture": MARGaussianMixture(n_init=1),
    "label term": MARGaussianMixture(delta={1: 0.7}, n_init=1),
    "estimated term": MARGaussianMixture(delta="estimate", n_init=1, covariance_type="full"),
    "two components": MARGaussianMixture(n_components=2, n_init=1, random_state=0),
    "student": MARStudentMixture(n_init=1),
    "logistic": MARLogisticRegression(n_init=1),
    "share": MARLogisticRegression(link="aranda-ordaz", mcar_share=True, mechanism_features=[1], n_init=1),
    "kernel": MARKernelClassifier(C=1.0, gamma=0.5, mechanism_weight=0.3, n_landmarks=20, cv=None),
}
TWO = {"mixture": MARGaussianMixture(n_init=1), "ignored": MARLogisticRegression(link=None)}
ESTIMATORS = LIKELIHOODS | {
    "boosting": MARBoostingClassifier(n_estimators=15, mechanism_weight=0.1, n_jobs=1, extra_trees=False),
    "chosen kernel": MARKernelClassifier(C=1.0, gamma=0.5, n_landmarks=10, cv=2),
    "chosen weight": MARLogisticRegression(mechanism_weight="auto", n_init=1),
    "chosen boosting": MARBoostingClassifier(max_estimators=10, n_jobs=1, cv=2),
    "average": MARClassifierCV(estimators=TWO, cv=2),
}


def drawn(n, seed=0, asked=0.4):
    """Rows of two overlapping classes: X, the labels with some asked for, whose label was missing, and the labels before."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2)) + 1.5 * z[:, None]
    p = 1.0 / (1.0 + np.exp(-1.5 * (X.sum(axis=1) - 1.5)))
    u = -p * np.log(p) - (1.0 - p) * np.log1p(-p)
    missing = rng.random(n) < 1.0 / (1.0 + np.exp(3.0 - 6.0 * u))
    known = ~missing | (rng.random(n) < asked)
    return X, np.where(known, z, -1), missing, np.where(missing, -1, z)


def fitted(kind, X, y, *rows, **changed):
    return clone(ESTIMATORS[kind]).set_params(**changed).fit(X, y, *rows)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_saying_what_is_missing_changes_no_bit_where_y_says_it_too(kind):
    X, _, missing, y = drawn(120)
    plain, said = fitted(kind, X, y), fitted(kind, X, y, None, missing)
    np.testing.assert_array_equal(plain.predict_proba(X), said.predict_proba(X))
    np.testing.assert_array_equal(plain.missing_proba(X), said.missing_proba(X))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_label_that_is_missing_now_was_missing(kind):
    X, y, missing, _ = drawn(60)
    with pytest.raises(ValueError, match="missing in y, but missing says"):
        fitted(kind, X, y, None, np.zeros(len(y), dtype=bool))
    with pytest.raises(ValueError, match="missing must have shape"):
        fitted(kind, X, y, None, missing[:-1])


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_a_row_of_weight_two_is_the_row_twice(kind):
    X, y, missing, _ = drawn(150)
    weight = 1.0 + (np.arange(150) % 3 == 0)
    rows = np.repeat(np.arange(150), weight.astype(int))
    weighted, repeated = fitted(kind, X, y, weight, missing), fitted(kind, X[rows], y[rows], None, missing[rows])
    assert weighted.loglik_ == pytest.approx(repeated.loglik_, rel=1e-6)
    if kind != "two components":  # whose starts are k-means of the rows
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("kind", ["mixture", "student", "logistic", "share", "kernel", "boosting"])
def test_both_parts_of_the_likelihood_see_an_asked_row(kind):
    X, y, missing, _ = drawn(200)
    clf = fitted(kind, X, y, None, missing)
    q, proba, known = clf.missing_proba(X), clf.predict_log_proba(X), y >= 0
    indicators = np.where(missing, np.log(q), np.log1p(-q)).sum()
    assert clf.loglik_missing_ == pytest.approx(indicators, rel=1e-8)
    if not clf.model_.score_model.joint:
        assert clf.loglik_ignorable_ == pytest.approx(proba[known, y[known]].sum(), rel=1e-8)


@pytest.mark.parametrize("kind", ["mixture", "label term", "estimated term", "student", "logistic"])
def test_second_derivatives_are_those_of_the_likelihood(kind):
    X, y, missing, _ = drawn(400)
    result = fitted(kind, X, y, None, missing, tol=1e-12).inference(X, y, missing=missing)
    coordinates, objective = result.fitted.coordinates, result.fitted.objective

    def value(vector):
        theta, mechanism = coordinates.at(vector)
        return objective.value(theta, objective.sums(theta, mechanism))

    steps = 1e-3 * np.eye(coordinates.size)
    np.testing.assert_allclose([value(step) - value(-step) for step in steps], 0.0, atol=1e-4)
    corners = [[value(a + b) - value(a - b) - value(b - a) + value(-a - b) for a in steps] for b in steps]
    numeric = np.array(corners) / -4e-6
    np.testing.assert_allclose(result.fitted.information.bread, numeric, atol=1e-3 * np.abs(numeric).max())
    assert np.isfinite(result.bse).all()
    assert np.isfinite(result.bootstrap(2, random_state=0).estimates).all()


@pytest.mark.parametrize("kind", ["mixture", "logistic", "kernel", "boosting", "average"])
def test_asking_for_labels_by_chance_leaves_the_mechanism_as_it_was(kind):
    X, y, missing, before = drawn(3000, seed=5)
    asked, plain, forgetful = fitted(kind, X, y, None, missing), fitted(kind, X, before), fitted(kind, X, y)

    def rates(clf):
        at_boundary = np.abs(X.sum(axis=1) - 1.5) < 0.5
        return clf.missing_proba(X)[at_boundary].mean()

    assert rates(asked) == pytest.approx(rates(plain), abs=0.05)
    assert rates(forgetful) < rates(plain) - 0.15


@pytest.mark.parametrize("kind", ["mixture", "share"])
def test_rows_elsewhere_give_the_same_fit(kind, tmp_path):
    torch = pytest.importorskip("torch")
    da = pytest.importorskip("dask.array")
    X, y, missing, _ = drawn(300)
    here = fitted(kind, X, y, None, missing)
    np.save(tmp_path / "X.npy", X)
    chunks = [da.from_array(part, chunks=100) for part in (X, y, missing)]
    others = [
        fitted(kind, tmp_path / "X.npy", y, None, missing),
        fitted(kind, torch.tensor(X), torch.tensor(y), None, torch.tensor(missing)),
        fitted(kind, da.from_array(X, chunks=(100, 2)), chunks[1], None, chunks[2]),
    ]
    for other in others:
        assert other.loglik_ == pytest.approx(here.loglik_, rel=1e-7)
        np.testing.assert_allclose(other.predict_proba(X), here.predict_proba(X), atol=1e-3)


def test_votes_of_asked_rows_count_as_copies():
    X, y, missing, _ = drawn(200)
    votes = np.where(y[:, None] >= 0, 0.8 * np.eye(2)[y] + 0.1, 0.0)
    votes = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1.0)
    copies = np.repeat(np.arange(200), np.where(y >= 0, 2, 1))
    z = np.concatenate([[0, 1] if label >= 0 else [-1] for label in y])
    share = np.where(z >= 0, votes[copies, z], 1.0)
    by_votes = fitted("mixture", X, votes, None, missing)
    by_copies = fitted("mixture", X[copies], z, share, missing[copies])
    assert by_votes.loglik_ == pytest.approx(by_copies.loglik_, rel=1e-9)


def test_the_loss_of_a_network_has_both_parts():
    torch = pytest.importorskip("torch")
    from marmix.torch import MissingnessLoss

    X, y, missing, _ = drawn(50)
    logits = torch.tensor(np.column_stack([np.zeros(50), X[:, 0]]))
    loss = MissingnessLoss(missing_rate=0.5, mechanism_weight=0.3)
    value = float(loss(logits, torch.tensor(y), missing=torch.tensor(missing)).detach())
    log_tau, q, known = torch.log_softmax(logits, 1).numpy(), loss.missing_proba(logits).detach().numpy(), y >= 0
    labels = -log_tau[known, y[known]].sum()
    assert value == pytest.approx((labels - 0.3 * np.log(np.where(missing, q, 1.0 - q)).sum()) / 50)


def test_evidence_takes_labels_from_asked_rows_and_indicators_from_all():
    X, y, missing, before = drawn(200)
    p = 1.0 / (1.0 + np.exp(-(X.sum(axis=1) - 1.5)))
    proba = np.column_stack([1.0 - p, p])
    labels, indicators = Evidence(y, missing=missing).losses(proba)
    known = y >= 0
    assert labels == pytest.approx(-np.log(proba[known, y[known]]).mean())
    assert indicators == pytest.approx(Evidence(before).losses(proba)[1])


def test_scores_of_an_average_take_asked_labels_as_they_are():
    X, y, missing, _ = drawn(300)
    clf = fitted("average", X, y, None, missing)
    assert clf.score_.n_labelled == np.sum(y >= 0)
    np.testing.assert_array_equal(clf.transduction_[y >= 0], y[y >= 0])
    assert clf.missing_proba_[missing].mean() > clf.missing_proba_[~missing].mean()
