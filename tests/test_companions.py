"""Candidates that do not know why labels are missing."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading

from marmix import Audit, MARClassifierCV, MARLogisticRegression, load, save
from marmix.app.models import Model
from marmix.estimators.companions import Forest, Spreading
from marmix.persistence.format import ContainerError
from marmix.persistence.models import estimator_of, state_of
from marmix.selection.average import TOO_MANY
from marmix.selection.candidates import fit_one


def rows(n=200, K=3, seed=0):
    """Groups in the plane, and their numbers, of which two thirds are missing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    X = rng.normal(size=(n, 2)) + 3.0 * np.column_stack([np.cos(2 * np.pi * y / K), np.sin(2 * np.pi * y / K)])
    return X, y, np.where(rng.uniform(size=n) < 2 / 3, -1, y)


@pytest.mark.parametrize("K", [2, 3])
def test_a_forest_is_that_of_scikit_learn_with_a_tenth_of_a_tree_for_every_class(K):
    X, y, _ = rows(K=K)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    theirs = ExtraTreesClassifier(100, max_features=None, random_state=0).fit(X, y, weight)
    fresh = rows(seed=2, K=K)[0]
    expected = (100 * theirs.predict_proba(fresh) + 0.1) / (100 + 0.1 * K)
    np.testing.assert_allclose(Forest().fit(X, y, weight).predict_proba(fresh), expected, atol=1e-12)


def test_labels_spread_as_in_scikit_learn_except_for_the_mean_of_all_rows():
    X, _, partial = rows()
    theirs, ours = (
        LabelSpreading(kernel="knn", n_neighbors=5, max_iter=200).fit(X, partial),
        Spreading().fit(X, partial),
    )
    mean = theirs.label_distributions_.mean(axis=0)
    fresh = rows(seed=2)[0]
    expected = (5.0 * theirs.predict_proba(fresh) + 0.01 * mean) / 5.01
    np.testing.assert_allclose(ours.predict_proba(fresh), expected, atol=1e-12)


def test_trees_see_64_of_many_features_at_a_split():
    X, y, _ = rows()
    X = np.hstack([X, np.random.default_rng(1).normal(size=(len(X), 98))])
    theirs = ExtraTreesClassifier(100, max_features=64, random_state=0).fit(X, y)
    expected = (100 * theirs.predict_proba(X) + 0.1) / (100 + 0.1 * 3)
    np.testing.assert_allclose(Forest().fit(X, y).predict_proba(X), expected, atol=1e-12)


def test_held_out_labels_are_spread_to_from_all_other_rows():
    X, _, partial = rows(n=120)
    test = np.arange(0, 120, 4)
    hidden = partial.copy()
    hidden[test] = -1
    expected = Spreading().fit(X, hidden).predict_proba(X[test])
    outcome = fit_one(make_pipeline(Spreading()), X, partial, None, test)
    np.testing.assert_allclose(outcome.proba, expected, atol=1e-12)


def test_where_no_label_reaches_the_classes_are_as_likely_as_elsewhere():
    X, _, partial = rows()
    far = np.random.default_rng(1).normal(size=(20, 2)) + 100.0
    fit = Spreading().fit(np.vstack([X, far]), np.append(partial, np.full(20, -1)))
    np.testing.assert_allclose(fit.predict_proba(far), np.tile(fit.proba_.sum(axis=0) / fit.proba_.sum(), (20, 1)))


def test_an_average_of_them_predicts_the_hidden_labels_and_survives_a_file(tmp_path):
    X, truth, partial = rows(n=300)
    clf = MARClassifierCV(estimators={"forest": Forest(), "spread": Spreading()}, cv=3).fit(X, partial)
    hidden = partial < 0
    assert (clf.predict(X)[hidden] == truth[hidden]).mean() > 0.9
    save(clf, tmp_path / "model.marmix")
    loaded = load(tmp_path / "model.marmix")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert "label spreading" in Model(clf, None, clf.classes_).words(any_missing=True)
    assert clf.sensitivity(X, partial, n_draws=50).notes == [TOO_MANY.format("only the calibration")]


def test_rows_over_which_labels_spread_leave_with_a_file_only_if_predictions_need_them(tmp_path):
    X, _, partial = rows()
    clf = MARClassifierCV(estimators={"on": MARLogisticRegression(), "spread": Spreading()}, cv=2).fit(X, partial)
    clf.selection_ = replace(clf.selection_, weights={"on": 1.0, "spread": 0.0})
    save(clf, tmp_path / "model.marmix")
    loaded = load(tmp_path / "model.marmix")
    assert list(loaded.estimators_) == ["on"]
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [("depths_", 10**9), ("children_", 10**6), ("children_", 0), ("feature_", 7), ("roots_", -1), ("proba_", -1.0)],
)
def test_a_file_of_trees_that_lead_nowhere_is_refused(name, value):
    X, y, _ = rows()
    forest = Forest().fit(X, y)
    state = state_of(forest)
    np.testing.assert_array_equal(estimator_of(state).predict(X), forest.predict(X))
    state["fitted"][name] = np.full_like(state["fitted"][name], value)
    with pytest.raises(ContainerError, match="Forest"):
        estimator_of(state)


def test_candidates_that_an_audit_revives_count_in_what_it_learns():
    X, truth, partial = rows(n=300)
    candidates = {"spread": Spreading(), "forest": Forest(), "on": MARLogisticRegression()}
    clf = MARClassifierCV(estimators=candidates, cv=2).fit(X, partial)
    clf.selection_ = replace(clf.selection_, weights={"spread": 0.0, "forest": 0.0, "on": 1.0})
    audit = Audit(clf, X, partial, n=60)
    result = audit.record(truth[audit.rows])
    assert result.classifier.estimator.weights_["spread"] > 0.0
    other = np.setdiff1d(np.flatnonzero(partial < 0), audit.rows)
    learnt = result.classifier.unlabelled_proba(X)[other]
    np.testing.assert_array_equal(result.transduction[other], clf.classes_[learnt.argmax(axis=1)])


def test_labels_that_spread_take_no_weights_and_are_left_out_of_rows_that_have_some():
    X, _, partial = rows(n=400)
    fits = (MARClassifierCV(cv=2).fit(X, partial, weight) for weight in (None, np.ones(400)))
    assert ["label spreading" in clf.weights_ for clf in fits] == [True, False]
