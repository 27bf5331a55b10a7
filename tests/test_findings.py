"""Findings of a report: figures that agree with each other, and the verdict they lead to."""

import html
import itertools
import json
import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import MARClassifierCV, MARKernelClassifier, MARLogisticRegression
from marmix.app.cautions import Grounds, cautions, verdict
from marmix.app.findings import Caution, Interval
from marmix.datasets import make_mar_mixture
from marmix.selection import comparison

pytestmark = [pytest.mark.usefixtures("quick_figures"), pytest.mark.filterwarnings("ignore")]

ENOUGH = {"elm": 40, "oak": 60}
GOOD = Grounds(ENOUGH, 100, wrong=Interval(8.0, 4.0, 14.0), better=0.99, frequent="elm", log_loss=0.2)
DOUBT = Caution("caution", "Labels are missing on one side.", "See what would follow.")


@pytest.mark.parametrize(
    ("changes", "use", "first"),
    [
        ({}, "use", "About 8 (4 to 14) of the 100"),
        ({"labelled": ENOUGH | {"oak": 19}}, "care", "About 8 (4 to 14) of the 100"),
        ({"labelled": ENOUGH | {"oak": 4}}, "no", "Only 4 rows are labelled 'oak'"),
        ({"labelled": {"elm": 1, "oak": 19}}, "no", "Only 1 row is labelled 'elm'"),
        ({"scored": False}, "no", "could not be checked"),
        ({"converged": False}, "no", "did not converge"),
        ({"wrong": Interval()}, "no", "How many of the 100 imputed labels are wrong cannot be told"),
        ({"wrong": Interval(40.0, 10.0, 61.0)}, "care", "About 40 (10 to 61) of the 100"),
        ({"wrong": Interval(21.0, 10.0, 30.0)}, "care", "About 21 (10 to 30) of the 100"),
        ({"better": 0.7}, "no", "hardly better than calling every row 'elm'"),
        ({"better": 0.8}, "care", "About 8"),
        ({"log_loss": 0.8, "guessing": 0.7}, "no", "0.800, is worse"),
        ({"doubts": [DOUBT]}, "care", "About 8"),
        ({"no_chance": 0.3}, "care", "About 8"),
        ({"no_chance": 0.3, "doubts": [DOUBT]}, "no", "30 % of the rows have hardly a chance"),
        ({"rival": "random forest"}, "care", "About 8"),
        ({"enriched": "oak", "enrichment": 0.25}, "care", "About 8"),
        ({"labelled": ENOUGH | {"oak": 5}, "better": 0.5}, "no", "Only 5 rows are labelled 'oak'"),
    ],
)
def test_the_worst_caution_decides_the_verdict_and_few_labels_come_first(changes, use, first):
    grounds = GOOD._replace(**changes)
    facts = cautions(grounds, [Caution("note", "Column 'x' is empty in 2 rows.")])
    answer = verdict(facts, grounds.wrong, grounds.imputed)
    assert answer.use == use
    assert first in answer.reasons[0]
    assert len(answer.reasons) <= 3
    assert all(caution.advice for caution in facts if caution.level != "note")
    assert facts[-1].level == "note"
    few = [i for i, caution in enumerate(facts) if "labelled '" in caution.text]
    assert few == [0] * len(few)
    levels = [("serious", "caution", "note").index(caution.level) for caution in facts[len(few) :]]
    assert levels == sorted(levels)


def test_a_class_that_no_row_is_imputed_as_is_named_and_an_enriched_one_has_no_second_share():
    (fact,) = cautions(GOOD._replace(better=0.5, absent="oak"))
    assert "No row is imputed as 'oak'." in fact.text
    (fact,) = cautions(GOOD._replace(enriched="oak", enrichment=0.25))
    assert re.findall(r"[\d.]+ %", fact.text) == ["25 %"]
    assert "--prevalence" in fact.advice


def test_nothing_is_said_about_imputed_labels_where_there_are_none():
    assert cautions(Grounds(ENOUGH, 0, scored=False)) == []


@cache
def random_file(seed):
    """A random file: rows, labels (None where missing), and a small average fitted to them."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 5))
    drawn = make_mar_mixture(
        int(rng.integers(100, 180)), n_classes=K, rate=float(rng.uniform(0.3, 0.7)), at_least=8, random_state=seed
    )
    names = np.array([f"class {k}" for k in range(K)] + [None], dtype=object)
    X, y = pd.DataFrame(drawn.data, columns=["a", "b"]), pd.Series(names[drawn.target], name="kind")
    grid = {f"weight {weight:g}": MARLogisticRegression(mechanism_weight=weight) for weight in (0.0, 1.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return X, y, MARClassifierCV(estimators=grid, cv=2, random_state=seed).fit(X, y)


def intervals(values):
    """Every estimate with its ends, wherever it is."""
    if isinstance(values, dict):
        if {"value", "low", "high"} <= values.keys():
            yield values["value"], values["low"], values["high"]
        values = values.values()
    if not isinstance(values, (str, bytes)) and hasattr(values, "__iter__"):
        for value in values:
            yield from intervals(value)


def check_identities(summary):
    """The figures of a summary agree with each other."""
    labels, classes = summary["labels"], summary["labels"]["classes"]
    for value, low, high in intervals([labels, summary["scores"], summary["scoreboard"]]):
        assert (value is None) is (low is None) is (high is None)
        assert value is None or 0 <= low <= value <= high
    for name in ("precision", "recall", "share"):
        assert all(facts[name]["high"] is None or facts[name]["high"] <= 1 for facts in classes)
    assert all(score["high"] <= 1 for score in summary["scores"] if score["name"] in ("accuracy", "AUC"))
    assert sum(facts["imputed"] for facts in classes) == labels["imputed"]
    assert sum(facts["given"] for facts in classes) == labels["given"]
    wrong, table = labels["certainty"]["wrong"], np.array(summary["confusion"])
    np.testing.assert_allclose(table.sum(axis=0), [facts["imputed"] for facts in classes])
    assert (table >= 0).all()
    assert wrong["value"] == pytest.approx(table.sum() - np.trace(table))
    assert wrong["high"] <= labels["imputed"]
    for k, facts in enumerate(classes):
        if facts["precision"]["value"] is not None:
            assert facts["precision"]["value"] * facts["imputed"] == pytest.approx(table[k, k])
        if facts["recall"]["value"] is not None:
            assert facts["recall"]["value"] * table[k].sum() == pytest.approx(table[k, k])
    if None not in (shares := [facts["share"]["value"] for facts in classes]):
        assert sum(shares) == pytest.approx(1.0)
    accuracy = next(score for score in summary["scores"] if score["name"] == "accuracy")
    ours = summary["scoreboard"][0]
    assert ours["ours"]
    assert not any(row["ours"] for row in summary["scoreboard"][1:])
    assert ours["wrong"] == wrong
    assert ours["accuracy"] == {key: accuracy[key] for key in ("value", "low", "high")}
    assert ours["claimed_accuracy"] == accuracy["plain"]
    right = labels["imputed"] - wrong["value"] + accuracy["plain"] * labels["given"]
    assert accuracy["value"] * (labels["imputed"] + labels["given"]) == pytest.approx(right)
    loss = next(score for score in summary["scores"] if score["name"] == "log-loss")
    assert ours["log_loss"] == {key: loss[key] for key in ("value", "low", "high")}
    assert summary["rival"]["log_loss"] == pytest.approx(loss["value"])
    assert summary["rival"]["rival"] == pytest.approx(
        min(row["log_loss"]["value"] for row in summary["scoreboard"][1:])
    )
    what_if = summary["sensitivity"]
    zero = what_if["odds_ratio"].index(1.0)
    share = next(facts["share"] for facts in classes if facts["name"] == what_if["label"])
    assert what_if["share"][zero] == pytest.approx(share["value"])
    assert what_if["wrong"][zero] * labels["imputed"] == pytest.approx(wrong["value"])
    assert what_if["wrong_interval"][zero][1] * labels["imputed"] == pytest.approx(wrong["high"])
    assert what_if["changed"][zero] == 0
    today = wrong["value"] / labels["imputed"]
    needed = summary["labels_needed"]
    assert [row["error"] for row in needed] == [error for error in (0.1, 0.05, 0.02, 0.01) if error < today]
    counts = [row["labels"] for row in needed]
    assert counts == sorted(counts)
    assert all(0 < n <= labels["imputed"] for n in counts)


def check_page(summary, page, text):
    """The page and the text say what the summary says."""
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
    for one in [*summary["verdict"]["reasons"], *(caution["text"] for caution in summary["cautions"])]:
        assert " ".join(one.split()) in words
    flat = " ".join(text.split())
    wrong = "{value:,.0f} ({low:,.0f} to {high:,.0f})".format(**summary["labels"]["certainty"]["wrong"])
    assert f"marmix {wrong}" in flat
    advice = {caution["text"]: f" -> {caution['advice']}" for caution in summary["cautions"] if caution["advice"]}
    for reason in summary["verdict"]["reasons"]:
        assert flat.count(" ".join(f"{reason}{advice.get(reason, '')}".split())) == 1
    assert ("P(label missing) is" in flat) is (summary["missingness"]["informative"] is True)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    for entry in data["thresholds"]:
        recall = entry["recall"]
        assert recall[0] == 1
        assert all(a >= b for a, b in itertools.pairwise(recall))
        assert all(0 <= value <= 1 for key in ("precision", "accuracy") for value in entry[key] if value is not None)
    classes = summary["labels"]["classes"]
    if len(classes) == 2 and None in (classes[1]["precision"]["value"], classes[1]["recall"]["value"]):
        assert data["thresholds"] == []
    elif len(classes) == 2:
        (entry,) = data["thresholds"]
        assert entry["unlabelled"]["above"][50] == classes[1]["imputed"]
        for key in ("precision", "recall"):
            assert entry[key][50] == pytest.approx(classes[1][key]["value"])
        right = 1 - summary["labels"]["certainty"]["wrong"]["value"] / summary["labels"]["imputed"]
        assert entry["accuracy"][50] == pytest.approx(right)


@pytest.fixture(scope="module")
def reports(few_candidates):
    """Reports on random files, without figures; the first is given by data frames, the others by arrays."""

    def report(seed):
        X, y, model = random_file(seed)
        return marmix.report(model, X if seed == 0 else X.to_numpy(), y)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("marmix.app.analyse.figures", lambda subject: ([], {}))
        yield report


@pytest.fixture(scope="module")
def first(reports):
    """The first of these reports."""
    return reports(0)


def test_the_figures_of_random_files_agree_with_each_other(reports, first, long):
    for result in [first, *(reports(seed) for seed in range(1, 40 if long else 3))]:
        summary = result.findings.as_dict()
        if summary["confusion"] is None:
            assert summary["verdict"]["use"] == "no"
            continue
        check_identities(summary)
        check_page(summary, result.html, str(result))


def test_numbers_of_a_sample_are_scaled_to_the_file(reports, monkeypatch):
    monkeypatch.setattr("marmix.app.models.SAMPLE", 80)
    summary = reports(1).findings.as_dict()
    assert "sample of 80 rows" in summary["scored_on"]
    classes, table = summary["labels"]["classes"], np.array(summary["confusion"])
    np.testing.assert_allclose(table.sum(axis=0), [facts["imputed"] for facts in classes])
    wrong = summary["labels"]["certainty"]["wrong"]
    assert wrong["value"] == pytest.approx(table.sum() - np.trace(table))
    assert wrong["low"] <= wrong["value"] <= wrong["high"] <= summary["labels"]["imputed"]
    assert sum(facts["share"]["value"] for facts in classes) == pytest.approx(1.0)


def test_a_report_on_the_rows_of_the_fit_fits_no_candidate_again(reports, monkeypatch):
    X, y, _ = random_file(0)
    table = X.assign(place=np.where(X["a"] > X["a"].median(), "hill", None), a=X["a"].where(X["b"] < X["b"].median()))
    grid = {"modelled": MARLogisticRegression(), "ignored": MARLogisticRegression(link=None)}
    fits, fit_one = [], comparison.fit_one
    monkeypatch.setattr(comparison, "fit_one", lambda *args: fits.append(args[0][-1]) or fit_one(*args))
    findings = []
    for rivals in (False, True):
        model = MARClassifierCV(estimators=grid, cv=2, rivals=rivals).fit(table, y)
        fits.clear()
        findings.append(marmix.report(model, table, y).findings.as_dict())
        assert bool(fits) is not rivals
        assert not any(isinstance(estimator, MARLogisticRegression) for estimator in fits)
    assert findings[0] == findings[1]


def test_a_report_in_memory_is_a_frame_in_a_notebook_and_a_summary_in_a_terminal(first, tmp_path):
    first.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == first.html
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" .*></iframe>', first._repr_html_())
    assert html.unescape(frame[1]) == first.html
    assert (first.findings.data.label, first.findings.data.features) == ("kind", ["a", "b"])
    title = {"use": "Use these labels once audited.", "care": "Use with care.", "no": "Do not use these labels."}
    assert str(first).splitlines()[0] == title[first.findings.verdict.use]


def test_where_no_label_is_missing_the_accuracy_has_the_interval_of_its_score(reports):
    X, y, model = random_file(0)
    labelled = y.notna()
    result = marmix.report(model, X[labelled], y[labelled])
    right = next(score for score in result.findings.scores if score.name == "accuracy")
    assert right.value == pytest.approx(right.plain)
    assert right.low < right.value < right.high
    (ours,) = result.findings.scoreboard
    assert ours.accuracy == Interval(right.value, right.low, right.high)
    assert ours.wrong == Interval()
    assert "none imputed" in str(result)
    assert "none imputed" in result.html


def test_a_model_that_cannot_be_reported_is_refused_by_its_name():
    X, y, model = random_file(0)
    kernel = MARKernelClassifier(C=1.0, gamma=1.0, mechanism_weight=1.0, n_landmarks=10).fit(X, y)
    with pytest.raises(ValueError, match="not MARKernelClassifier"):
        marmix.report(kernel, X, y)
    with pytest.raises(ValueError, match="no other step comes before MARClassifierCV"):
        marmix.report(make_pipeline(StandardScaler().fit(X), model), X, y)


def test_rows_and_labels_of_a_report_must_match():
    X, y, model = random_file(0)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        marmix.report(model, X, y[:-1])
    with pytest.raises(ValueError, match="not fitted"):
        marmix.report(MARClassifierCV(), X, y)


def test_the_missingness_is_checked_along_held_out_probabilities(monkeypatch):
    """In-sample probabilities of a fit with many parameters are surer where it saw the label."""
    checked = []
    monkeypatch.setattr("marmix.app.analyse.figures", lambda subject: ([], {}))
    monkeypatch.setattr("marmix.app.facts.misfit", lambda proba, *others: checked.append(proba) or [])
    monkeypatch.setattr("marmix.selection.comparison.doubts", lambda *rows: [])
    X, y, model = random_file(0)
    marmix.report(model, X, y)
    np.testing.assert_allclose(checked[0], model.held_out_proba_)
    assert np.abs(checked[0] - model.predict_proba(X.to_numpy())).max() > 1e-3
