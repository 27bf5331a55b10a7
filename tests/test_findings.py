"""Findings of a report: figures that agree with each other."""

import html
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
from marmix.datasets import make_mar_mixture
from marmix.selection import comparison

pytestmark = [pytest.mark.usefixtures("quick_figures"), pytest.mark.filterwarnings("ignore")]


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
    for value, low, high in intervals([labels, summary["verdict"], summary["scoreboard"]]):
        assert (value is None) is (low is None) is (high is None)
        assert value is None or 0 <= low <= value <= high
    for name in ("precision", "recall", "share"):
        assert all(facts[name]["high"] is None or facts[name]["high"] <= 1 for facts in classes)
    assert sum(facts["imputed"] for facts in classes) == labels["imputed"]
    assert sum(facts["given"] for facts in classes) == labels["given"]
    verdict, table = summary["verdict"], np.array(summary["confusion"])
    wrong, hidden = verdict["wrong"], verdict["hidden"]
    np.testing.assert_allclose(table.sum(axis=0), [facts["imputed"] for facts in classes])
    assert (table >= 0).all()
    assert wrong["value"] == pytest.approx(table.sum() - np.trace(table))
    assert hidden["low"] - 1e-9 <= wrong["low"] <= wrong["high"] <= hidden["high"] + 1e-9
    assert hidden["high"] <= labels["imputed"] == verdict["of"]
    for k, facts in enumerate(classes):
        if facts["precision"]["value"] is not None:
            assert facts["precision"]["value"] * facts["imputed"] == pytest.approx(table[k, k])
        if facts["recall"]["value"] is not None:
            assert facts["recall"]["value"] * table[k].sum() == pytest.approx(table[k, k])
    if None not in (shares := [facts["share"]["value"] for facts in classes]):
        assert sum(shares) == pytest.approx(1.0)
    ours = summary["scoreboard"][0]
    assert ours["ours"]
    assert not any(row["ours"] for row in summary["scoreboard"][1:])
    assert ours["wrong"] == wrong
    for row in summary["scoreboard"]:
        assert row["claimed_wrong"] == pytest.approx((1 - row["claimed_accuracy"]) * labels["imputed"])
    assert summary["rival"]["ours"] == pytest.approx(ours["log_loss"]["value"])
    assert summary["rival"]["theirs"] == pytest.approx(
        min(row["log_loss"]["value"] for row in summary["scoreboard"][1:])
    )


def check_page(summary, page, text):
    """The page and the text say what the summary says."""
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
    verdict = summary["verdict"]
    for one in [verdict["sentence"], *verdict["reasons"], *(caution["text"] for caution in summary["cautions"])]:
        assert " ".join(one.split()) in words
    flat = " ".join(text.split())
    wrong = "{value:,.0f} ({low:,.0f} to {high:,.0f})".format(**verdict["wrong"])
    assert f"marmix {wrong}" in flat
    for one in [verdict["sentence"], *verdict["reasons"], verdict["command"]]:
        assert flat.count(" ".join(one.split())) == 1


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
            assert summary["verdict"]["state"] == "do not use"
            continue
        check_identities(summary)
        check_page(summary, result.html, str(result))


def test_numbers_of_a_sample_are_scaled_to_the_file(reports, monkeypatch):
    monkeypatch.setattr("marmix.app.models.SAMPLE", 80)
    summary = reports(1).findings.as_dict()
    assert "sample of 80 rows" in summary["scored_on"]
    classes, table = summary["labels"]["classes"], np.array(summary["confusion"])
    np.testing.assert_allclose(table.sum(axis=0), [facts["imputed"] for facts in classes])
    wrong = summary["verdict"]["wrong"]
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
        findings.append(str(marmix.report(model, table, y)))
        assert bool(fits) is not rivals
        assert not any(isinstance(estimator, MARLogisticRegression) for estimator in fits)
    assert findings[0] == findings[1]


def test_a_report_in_memory_is_a_frame_in_a_notebook_and_a_summary_in_a_terminal(first, tmp_path):
    first.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == first.html
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" .*></iframe>', first._repr_html_())
    assert html.unescape(frame[1]) == first.html
    assert (first.findings.data.label, first.findings.data.features) == ("kind", ["a", "b"])
    assert str(first).splitlines()[0] == first.findings.verdict.state.capitalize()


def test_where_no_label_is_missing_the_accuracy_is_on_the_scoreboard(reports):
    X, y, model = random_file(0)
    labelled = y.notna()
    result = marmix.report(model, X[labelled], y[labelled])
    (ours,) = result.findings.scoreboard
    assert (ours.wrong.value, result.findings.verdict) == (None, None)
    assert f"{100 * ours.claimed_accuracy:.1f} %" in str(result)


def test_a_classifier_has_the_verdict_on_the_rows_of_its_fit_also_once_saved(tmp_path):
    _, y, model = random_file(0)
    it = model.verdict_
    assert it.of == y.isna().sum()
    assert (it.wrong, it.hidden) == (model.selection_.joint.wrong(), model.selection_.joint.hidden())
    marmix.save(model, tmp_path / "model.marmix")
    assert marmix.load(tmp_path / "model.marmix").verdict_ == it


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
