"""Checks for reports of skore, against simulated rows whose labels are known."""

import numpy as np
import pytest

pytest.importorskip("skore", reason="needs the extra skore")
import skore
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from marmix.datasets import make_mar_mixture
from marmix.evaluation import accuracy
from marmix.skore import LabelledScore, checks

CODES = ["MAR001", "MAR002", "MAR003"]


def found(classifier, X, y, unlabelled, splitter=5):
    """Sections and explanations of our checks by code."""
    report = skore.evaluate(classifier, X, y, splitter=splitter)
    report.checks.add(checks(unlabelled))
    frame = report.checks.summarize(fast_mode=True).frame().set_index("code").loc[CODES]
    return dict(zip(frame.index, zip(frame.section, frame.explanation, strict=True), strict=True))


@pytest.mark.parametrize("splitter", [5, 0.5])
@pytest.mark.parametrize("words", [False, True])
def test_hard_rows_without_labels_are_found_with_the_score_of_all_rows(splitter, words, monkeypatch):
    rows = make_mar_mixture(3000, rate=0.6, random_state=1)
    X, missing = rows.data, rows.target == -1
    truth = np.array(["elm", "oak"])[rows.target_true] if words else rows.target_true
    scores = []
    monkeypatch.setattr("marmix.skore.accuracy", lambda *a, **k: scores.append(accuracy(*a, **k)) or scores[-1])
    result = found(LogisticRegression(), X[~missing], truth[~missing], X[missing], splitter)
    assert [result[code][0] for code in CODES[:2]] == ["issue", "issue"]
    hits = LogisticRegression().fit(X[~missing], truth[~missing]).predict(X) == truth
    (score,) = scores
    assert score.interval[0] < hits.mean() < score.interval[1] < hits[~missing].mean()


def test_labels_missing_by_chance_alone_pass():
    rows = make_mar_mixture(2000, link=None, rate=0.6, random_state=0)
    X, missing = rows.data, rows.target == -1
    result = found(GaussianNB(), X[~missing], rows.target_true[~missing], X[missing])
    assert {section for section, _ in result.values()} == {"passed"}


def test_a_class_that_is_rarer_among_the_labels_is_a_tip():
    rows = make_mar_mixture(2000, link=None, rate=0.0, random_state=0)
    rng = np.random.default_rng(0)
    missing = rng.uniform(size=2000) < np.where(rows.target_true == 1, 0.8, 0.3)
    X, y = rows.data, np.array(["elm", "oak"])[rows.target_true]
    section, words = found(GaussianNB(), X[~missing], y[~missing], X[missing])["MAR003"]
    assert section == "tip"
    assert (
        f"'oak' has {np.mean(y[~missing] == 'oak'):.0%}" in words
        or f"'elm' has {np.mean(y[~missing] == 'elm'):.0%}" in words
    )


def test_checks_that_cannot_run_say_so():
    rows = make_mar_mixture(200, link=None, rate=0.0, random_state=0)
    for classifier, unlabelled in ((LinearSVC(), rows.data[:5]), (GaussianNB(), rows.data[:0])):
        result = found(classifier, rows.data, rows.target, unlabelled)
        assert {section for section, _ in result.values()} == {"not_applicable"}
    assert isinstance(LabelledScore(rows.data), skore.Check)
