"""A summary says what was fitted and found, and its HTML stands below scikit-learn's diagram."""

from email.message import Message

import numpy as np
import pytest
from sklearn.base import clone

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.inference.tables import Table


def facts_of(clf):
    return dict(clf.summary().facts)


def column(table, name):
    place = table.columns.index(name)
    return {index: row[place] for index, row in zip(table.index, table.rows, strict=True)}


@pytest.fixture(scope="module")
def clf(two):
    return MARGaussianMixture(covariance_type="full").fit(two.X, two.y)


def test_it_says_how_many_rows_had_a_label(clf, two):
    labelled = int(np.sum(~two.missing))
    assert facts_of(clf)["rows"] == f"300, of which {labelled} have a label and {300 - labelled} do not"
    weighted = clone(clf).fit(two.X, two.y, sample_weight=np.full(300, 2.25))
    assert facts_of(weighted)["rows"].startswith("675, of which")


def test_it_shows_priors_labels_and_means_of_the_classes(clf, two):
    table = clf.summary()
    assert isinstance(table, Table)
    assert table.columns == ["0", "1"]
    for k in range(2):
        shown = column(table, str(k))
        assert shown["prior"] == f"{clf.class_prior_[k]:.3f}"
        assert shown["labels"] == str(int(np.sum(two.y == k)))
        assert [shown["mean x0"], shown["mean x1"]] == clf.means_[k].tolist()


def test_it_shows_coefficients_and_of_which_class(two, three):
    binary = MARLogisticRegression(link="logit").fit(two.X, np.array(["no", "yes", None], dtype=object)[two.y])
    table = binary.summary()
    assert column(table, "yes")["x1"] == binary.coef_[0, 1]
    assert column(table, "yes")["intercept"] == binary.intercept_[0]
    assert column(table, "no")["x1"] is None
    assert "Coefficients are log-odds of yes against no." in table.notes
    several = MARLogisticRegression(link="logit", degree=2).fit(three.X, three.y)
    assert column(several.summary(), "2")["x0 x1"] == several.coef_[2, 3]


def test_the_mechanism_in_words_is_what_missing_proba_says(clf):
    sentence = clf.summary().notes[0]
    toss_up = clf.mechanism_.missing_proba([[0.0, 0.0]])[0]
    clear = clf.mechanism_.missing_proba([[0.0, np.log(99.0)]])[0]
    assert f"probability {toss_up:.2f} at a toss-up" in sentence
    assert f"{clear:.2f} where one class has probability 0.99" in sentence


def test_it_says_where_there_is_no_mechanism(two):
    ignored = MARGaussianMixture(link=None).fit(two.X, two.y)
    assert facts_of(ignored)["missingness"] == "ignored"
    assert "not modelled" in ignored.summary().notes[0]
    with pytest.warns(UserWarning, match="Every row has a label"):
        whole = MARGaussianMixture().fit(two.X, two.truth)
    assert facts_of(whole)["missingness"] == "no label is missing"


@pytest.mark.parametrize("estimator", [MARGaussianMixture(), MARLogisticRegression()], ids=str)
def test_many_features_and_classes_are_shortened_and_no_line_is_a_wall(estimator):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 12
    X = rng.normal(size=(600, 40))
    X[:, 7] += y  # the only feature in which the classes differ
    estimator = clone(estimator).set_params(link=None)
    if isinstance(estimator, MARGaussianMixture):
        estimator.set_params(covariance_type="tied")
    clf = estimator.fit(X, np.array([f"a class with a very long name, number {k}" for k in y], dtype=object))
    table = clf.summary()
    assert len(table.index) <= 12
    assert len(table.columns) == 6
    assert any(name.endswith("x7") for name in table.index)
    assert max(map(len, str(table).splitlines())) <= 200
    assert any("of 40" in note for note in table.notes)
    assert "6 of 12 columns are shown." in table.notes


# A choice


@pytest.fixture(scope="module")
def choice(two):
    grid = {"tied": MARGaussianMixture(covariance_type="tied", link="logit"), "plain": MARLogisticRegression(link=None)}
    return MARClassifierCV(estimators=grid, cv=3).fit(two.X, two.y)


def test_a_choice_lists_candidates_by_weight_and_the_verdict(choice):
    table = choice.summary()
    assert table.index == sorted(choice.weights_, key=choice.weights_.get, reverse=True)
    assert column(table, "weight") == pytest.approx(choice.weights_)
    assert column(table, "mechanism") == {"tied": True, "plain": False}
    assert choice.comparison_.sentence() in table.notes
    assert any(choice.verdict_.sentence in note for note in table.notes)
    assert facts_of(choice)["candidates"] == "average of 2"
    for number in (choice.score_.value, *choice.score_.interval, choice.score_.plain):
        assert f"{number:.3f}" in facts_of(choice)["log-loss"]


def test_the_html_leads_to_the_documentation_where_the_package_names_it(monkeypatch):
    about = Message()
    about["Project-URL"] = "Documentation, https://docs.example"
    monkeypatch.setattr("marmix.estimators.summary.metadata", lambda name: about)
    for estimator in (MARLogisticRegression(), MARClassifierCV()):
        name = type(estimator).__name__
        assert f'href="https://docs.example/api/generated/marmix.{name}.html"' in estimator._repr_html_()
