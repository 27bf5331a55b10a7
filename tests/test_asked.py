"""Labels that were asked for: they count as labels, and their rows as rows whose label had been missing."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.core.covariance import structure
from marmix.core.gaussian import GaussianScores
from marmix.core.likelihood import Block, block_sums
from marmix.core.linear import LinearScores
from marmix.core.mechanism import Mechanism
from marmix.objectives import MissingnessObjective
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


def mechanisms():
    common = {"alpha": (-0.5, 1.5), "measure": "entropy"}
    return [Mechanism(**common), Mechanism(**common, label=(0.0, 0.8), free_label=True, share=0.1, free_share=True)]


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("joint", [True, False])
def test_gradients_agree_with_differences(joint, mechanism):
    rng = np.random.default_rng(3)
    x, weight = rng.normal(size=(2, 30)), rng.uniform(0.5, 2.0, size=30)
    block = Block(x, [0, 6, 12, 16, 21], weight)
    model = (
        GaussianScores(structure("full", 2), [1, 1], 1e-6)
        if joint
        else LinearScores(2, 2, 1, 1.0, np.zeros(2), np.ones(2))
    )
    W = rng.normal(size=(2, 6 if joint else 3))

    class Raw:  # scores that are linear in coefficients, so that the moments are the gradient
        def __getattr__(self, name):
            return getattr(model, name)

        def block_scores(self, prepared, phi):
            return prepared @ phi, None

        def block_moments(self, g, share, phi):
            return g @ phi.T

    def loglik(vector):
        moved = mechanism.moved(vector[:2])
        sums = block_sums(block, Raw(), vector[2:].reshape(W.shape), moved)
        return sums.ignorable + sums.missing

    at = np.concatenate([mechanism.alpha, W.ravel()])
    sums = block_sums(block, Raw(), W, mechanism)
    gradient = np.concatenate([sums.alpha[:2], sums.moments.by_component.ravel()])
    np.testing.assert_allclose(gradient, approx_fprime(at, loglik, 1e-6), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["mixture", "label term", "estimated term", "student", "logistic"])
def test_second_derivatives_are_those_of_the_likelihood(kind):
    X, y, missing, _ = drawn(400)
    result = fitted(kind, X, y, None, missing, tol=1e-12).inference(X, y, missing=missing)
    coordinates, objective = result.fitted.coordinates, result.fitted.objective

    def value(vector):
        theta, mechanism = coordinates.at(vector)
        return objective.value(theta, objective.sums(theta, mechanism))

    steps = 1e-3 * np.eye(coordinates.size)
    corners = [[value(a + b) - value(a - b) - value(b - a) + value(-a - b) for a in steps] for b in steps]
    numeric = np.array(corners) / -4e-6
    np.testing.assert_allclose(result.fitted.information.bread, numeric, atol=1e-3 * np.abs(numeric).max())
    assert np.isfinite(result.bse).all()
    drawn_again = result.bootstrap(5, random_state=0)
    assert np.isfinite(drawn_again.estimates).all()


@pytest.mark.parametrize("kind", ["mixture", "logistic", "kernel", "boosting", "average"])
def test_asking_for_labels_by_chance_leaves_the_mechanism_as_it_was(kind):
    X, y, missing, before = drawn(3000, seed=5)
    asked, plain, forgetful = fitted(kind, X, y, None, missing), fitted(kind, X, before), fitted(kind, X, y)

    def rates(clf):
        at_boundary = np.abs(X.sum(axis=1) - 1.5) < 0.5
        return clf.missing_proba(X)[at_boundary].mean()

    assert rates(asked) == pytest.approx(rates(plain), abs=0.05)
    assert rates(forgetful) < rates(plain) - 0.15


@pytest.mark.parametrize("kind", ["mixture", "label term", "logistic", "share"])
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


def test_the_loss_of_boosting_has_the_gradient_of_its_value():
    for classes in (2, 3):
        rng = np.random.default_rng(classes)
        z = rng.integers(classes, size=40)
        missing = rng.random(40) < 0.6
        y = np.where(missing & (rng.random(40) < 0.5), -1, z)
        scores = rng.normal(size=40 if classes == 2 else (40, classes))
        objective = MissingnessObjective(y, mechanism_weight=0.5, missing=missing, classes=range(classes))
        objective.mechanism = objective.mechanism.moved(np.array([-1.0, 2.0]))

        def value(flat, objective=objective, shape=scores.shape):
            losses = objective.losses(flat.reshape(shape))
            return losses.labels + 0.5 * losses.missing

        gradient, _ = objective.terms(scores)
        np.testing.assert_allclose(gradient.ravel(), approx_fprime(scores.ravel(), value, 1e-6), atol=1e-4)


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
    np.testing.assert_array_equal(
        loss.profile(logits, torch.tensor(y), missing=torch.tensor(missing)).alpha,
        MissingnessLoss().profile(logits, torch.tensor(np.where(missing, -1, y))).alpha,
    )


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
