"""Numbers that can be computed with are the same at fit and at predict, and probabilities are probabilities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
    evaluation,
)
from marmix.evaluation import conformal_sets
from marmix.evaluation.forests import flexible_missing_proba
from marmix.evaluation.joint import JointTable
from marmix.evaluation.pseudo_labels import UncertainPosterior
from marmix.plotting import CalibrationDisplay, RocDisplay, ThresholdDisplay

pytestmark = pytest.mark.filterwarnings("ignore")

ESTIMATORS = {
    "mixture": MARGaussianMixture(covariance_type="full", mechanism_features=[1]),
    "label term": MARGaussianMixture(delta={1: 0.7}),
    "student": MARStudentMixture(max_iter=10, n_init=1),
    "logistic": MARLogisticRegression(),
    "quadratic": MARLogisticRegression(degree=2, C=0.1, max_iter=50),
    "kernel": MARKernelClassifier(C=1.0, gamma=0.5, mechanism_weight=0.1, cv=None, n_landmarks=10),
    "boosting": MARBoostingClassifier(n_estimators=3, mechanism_weight=0.03, n_jobs=1),
    "average": MARClassifierCV(estimators={"one": MARLogisticRegression(link=None)}, cv=2),
}
METHODS = {
    name: (lambda clf, X, y, name=name: getattr(clf, name)(X))
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function", "missing_proba", "uncertainty")
} | {
    "impute": lambda clf, X, y: clf.impute(X, y),
    "score": lambda clf, X, y: clf.score(X, y),
    "sensitivity": lambda clf, X, y: clf.sensitivity(X, y, n_draws=2),
    "inference": lambda clf, X, y: clf.inference(X, y),
}
NOT_THERE = [
    ("inference", MARKernelClassifier),
    ("inference", MARBoostingClassifier),
    ("missing_proba", MARClassifierCV),
]


@pytest.fixture(scope="module", params=ESTIMATORS)
def fitted(request, two):
    if request.param == "boosting":
        pytest.importorskip("lightgbm")
    X, y = two.X[:80], two.y[:80]
    return clone(ESTIMATORS[request.param]).fit(X, y), X, y


def with_value(X, value, dtype=float):
    X = np.array(X, dtype=dtype)
    X[17, 1] = value
    return X


def test_numbers_beyond_the_largest_are_refused_by_fit_and_by_every_method(fitted):
    clf, X, y = fitted
    for value in (np.inf, -np.inf, 1.01e150, -1e155, 1e308):
        bad = with_value(X, value)
        with pytest.raises(ValueError, match=r"in column 'x1' \(first in row 17\)"):
            clone(clf).fit(bad, y)
        for name, call in METHODS.items():
            if hasattr(clf, name) and (name, type(clf)) not in NOT_THERE:
                with pytest.raises(ValueError, match=r"in column 'x1' \(first in row 17\)"):
                    call(clf, bad, y)


@pytest.mark.parametrize("power", [-120, -30, 30, 100, 149])
def test_probabilities_are_finite_however_far_a_row_is_or_the_row_is_refused(fitted, power):
    clf, X, _ = fitted
    far = with_value(X, -(10.0**power))
    proba = clf.predict_proba(far)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
    assert ((proba >= 0.0) & (proba <= 1.0)).all()
    np.testing.assert_array_equal(clf.predict(far), clf.classes_[proba.argmax(axis=1)])


def test_masked_is_missing(fitted):
    clf, X, y = fitted
    masked, missing = np.ma.array(X, mask=np.zeros(X.shape, dtype=bool)), with_value(X, np.nan)
    masked[17, 1] = np.ma.masked
    gaps = isinstance(clf, MARBoostingClassifier | MARClassifierCV)
    if gaps:
        again = clone(clf).fit(masked, y)
        np.testing.assert_array_equal(again.predict_proba(X), clone(clf).fit(missing, y).predict_proba(X))
        np.testing.assert_array_equal(again.predict_proba(masked), again.predict_proba(missing))
    for call in () if gaps else (clf.predict_proba, lambda rows: clone(clf).fit(rows, y)):
        with pytest.raises(ValueError, match=r"NaN in column 'x1' \(first in row 17\)"):
            call(masked)
    np.testing.assert_array_equal(clf.predict_proba(np.ma.array(X)), clf.predict_proba(X))
    weight = np.ma.array(np.ones(len(y)), mask=np.arange(len(y)) == 5)
    for call in (clone(clf).fit, clf.score):
        with pytest.raises(ValueError, match="sample_weight"):
            call(X, y, sample_weight=weight)


def test_rows_that_do_not_count_are_skipped_in_row_numbers(two):
    weight = np.ones(len(two.y))
    weight[:10] = 0.0
    with pytest.raises(ValueError, match=r"1e\+160 in column 'x1' \(first in row 17\)"):
        MARGaussianMixture().fit(with_value(two.X, 1e160), two.y, weight)


class NoNumbers(LogisticRegression):
    """A classifier of which a column of NaN comes back."""

    def predict_proba(self, X):
        return super().predict_proba(X) * [1.0, np.nan]


def test_a_candidate_without_probabilities_is_noted_and_never_averaged_in_silence(two):
    X, y = two.X[:80], two.y[:80]
    grid = {"good": MARLogisticRegression(link=None), "bad": NoNumbers()}
    clf = MARClassifierCV(estimators=grid, cv=2, method="pick").fit(X, y)
    assert any("bad" in note and "nan" in note for note in clf.notes_)
    assert np.isfinite(clf.predict_proba(X)).all()
    clf.selection_ = replace(clf.selection_, weights={"good": 0.5, "bad": 0.5})
    with pytest.raises(ValueError, match="no number for row 0"):
        clf.predict(X)


def test_a_forest_does_not_depend_on_units(two):
    X, missing = two.X[:60], two.y[:60] < 0
    base, _ = flexible_missing_proba(X, missing)
    for unit in (2.0**200, 2.0**-200):
        scaled, forest = flexible_missing_proba(unit * X, missing)
        np.testing.assert_allclose(scaled, base, atol=0.02)
        q = forest.predict_proba(np.vstack([unit * X, np.full((1, 2), 1e149)]))
        assert np.isfinite(q).all()


def scored(proba, classes=(0, 1)):
    """Calls that take class probabilities of four rows, one of them unlabelled."""
    y, q, half = np.array([0, 1, 1, -1]), np.full(4, 0.2), np.full((4, 2), 0.5)
    shares = np.eye(2)[[0, 1, 1, 0]] * (y >= 0)[:, None]
    options = {"classes": list(classes), "posterior": half}
    scorers = [evaluation.log_loss, evaluation.brier, evaluation.accuracy, evaluation.roc_auc]
    displays = [CalibrationDisplay, RocDisplay, ThresholdDisplay]
    posterior = UncertainPosterior.of(half, shares)
    return [
        *(lambda score=score: score(y, proba, q, **options) for score in scorers),
        *(lambda score=score: score(y, half, q, classes=list(classes), posterior=proba) for score in scorers),
        lambda: conformal_sets(y, proba, q, half, q, classes=list(classes)),
        lambda: conformal_sets(y, half, q, proba, q, classes=list(classes)),
        lambda: UncertainPosterior.of(proba, shares),
        lambda: UncertainPosterior.of(half, shares, members=[proba], shares=[1.0]),
        lambda: JointTable.of(shares, proba, posterior, n_draws=1),
        *(lambda kind=kind: kind.from_predictions(y, proba, classes=list(classes)) for kind in displays),
    ]


PROBABILITY = st.floats(0.0, 1.0)
WRONG = st.sampled_from([np.nan, np.inf, -np.inf, -0.01, 1.01, 2.0, 1e160])


@given(PROBABILITY, WRONG, st.integers(0, 2), st.booleans())
def test_what_is_no_probability_is_refused_by_everything_that_takes_probabilities(p, wrong, row, masked):
    proba = np.tile([p, 1.0 - p], (4, 1))
    proba[row, 1] = wrong
    if masked:
        proba[row, 1] = 1.0 - p
        proba = np.ma.array(proba, mask=np.arange(8).reshape(4, 2) == 2 * row + 1)
    for call in scored(proba):
        with pytest.raises(ValueError, match=r"(proba|posterior) has"):
            call()


@given(PROBABILITY, st.sampled_from([-1.0, 1.0]), st.floats(2e-6, 0.9), st.integers(0, 2))
def test_rows_that_do_not_sum_to_one_are_refused(p, sign, off, row):
    proba = np.tile([p, 1.0 - p], (4, 1))
    proba[row, 0] += sign * off
    for call in scored(proba):
        with pytest.raises(ValueError, match=r"(proba|posterior) has"):
            call()


def test_probabilities_of_zero_and_one_and_rounding_are_probabilities():
    for proba in (np.eye(2)[[0, 1, 1, 0]], np.eye(2)[[0, 1, 1, 0]] + 1e-12, np.eye(2, dtype=np.float32)[[0, 1, 1, 0]]):
        for call in scored(proba)[:-3]:  # displays would draw
            call()


def test_classes_named_twice_are_refused():
    calls = scored(np.full((4, 2), 0.5), classes=(0, 0))
    for call in calls[:10] + calls[-3:]:
        with pytest.raises(ValueError, match="each class once"):
            call()


def test_unlabelled_rows_without_probabilities_do_not_count_without_posteriors():
    y, q = np.array([0, 1, 1, -1]), np.full(4, 0.2)
    proba = np.full((4, 2), 0.25)
    proba[:, 1] = 0.75
    missing = np.where((y < 0)[:, None], np.nan, proba)
    for score in (evaluation.log_loss, evaluation.brier):
        assert score(y, missing, q, classes=[0, 1]) == score(y, proba, q, classes=[0, 1])
