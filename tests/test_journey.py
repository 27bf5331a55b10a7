"""From a file to results: the choice of a model, warnings and refusals."""

import json
import re
import sys
import warnings
from copy import copy
from dataclasses import replace
from html import escape

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.app.cautions import note_cautions
from marmix.cli import main
from marmix.core.notes import Note
from marmix.datasets import make_mar_mixture
from marmix.journey import choosing
from marmix.journey.findings import all_scores, candidate_rows, comparison, rival_facts, score_facts
from marmix.selection.candidates import default_candidates
from marmix.selection.comparison import Gain
from marmix.tables.preparation import Preparation

pytestmark = pytest.mark.usefixtures("quick_figures")


def rows(n=200, **options):
    """Simulated rows as a frame with the classes "elm" and "oak" in the column "kind"."""
    drawn = make_mar_mixture(n, **{"rate": 0.5, "at_least": 5, "random_state": 0} | options)
    frame = pd.DataFrame(drawn.data.round(4), columns=[f"x{j}" for j in range(drawn.data.shape[1])])
    names = np.array(["elm", "oak", "ash", "fir", ""], dtype=object)
    return frame.assign(kind=names[drawn.target]), names[drawn.target_true]


@pytest.fixture
def fit(tmp_path, capsys):
    """Fit a frame with the program: exit code, summary, and standard error."""

    def run(frame, *options):
        frame.to_csv(tmp_path / "trees.csv", index=False)
        out = tmp_path / "out"
        command = ["fit", str(tmp_path / "trees.csv"), "--label", "kind", "--out", str(out), "--quiet", "--folds", "2"]
        code = main([*command, *options])
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8")) if code in (0, 3) else {}
        return code, summary, capsys.readouterr().err

    return run


def warned(summary):
    return " ".join(f"{caution['text']} {caution['advice']}" for caution in summary["cautions"])


@pytest.mark.parametrize(("options", "one_sided"), [({}, False), ({"rate": 0.55, "measure": "signed-margin"}, True)])
def test_a_warning_says_if_labels_are_missing_on_one_side_of_the_boundary(fit, options, one_sided):
    _, summary, _ = fit(rows(600, **options)[0], "--model", "mixture")
    assert ("on one side of the boundary" in warned(summary)) is bool(summary["missingness"]["doubts"]) is one_sided
    assert summary["missingness"]["doubts"] == [
        fact["text"] for fact in summary["cautions"] if "sensitivity" in fact["advice"]
    ]
    assert summary["comparison"]["helped"] is not True or not one_sided


def test_parameters_are_of_a_model_that_ignores_the_missingness_where_that_scores_better():
    drawn = make_mar_mixture(200, rate=0.5, at_least=5, random_state=0)
    mechanism = {"link": "logit"}
    ignoring = mechanism | {"mechanism_weight": 0.0}
    grid = {
        name: model
        for kind in ("logistic", "mixture")
        for name, model in default_candidates(2, 200, 2, kind=kind, mechanism=mechanism, ignoring=ignoring).items()
    }
    cv = choosing.compare(grid, drawn.data, drawn.target, folds=2, seed=0, step=lambda *share: None)
    losses = dict(zip(cv.results_["candidate"].tolist(), cv.results_["log_loss"], strict=True))
    for gain, use in ((-3.0, "ignored"), (-0.1, "ignored"), (0.1, "mechanism")):
        cv.selection_ = replace(cv.selection_, comparison=Gain(0.5, 0.5, gain, 1.0))
        name = choosing.statistical(cv)
        assert name.endswith(use)
        assert "mixture of" not in name
        parametric = [key for key in losses if "logistic, " in key or "mixture, " in key]
        others = [key for key in parametric if key.endswith(use)]
        assert losses[name] == min(losses[key] for key in others)


def test_the_average_leaves_out_candidates_without_weight_but_keeps_the_one_whose_parameters_are_reported(tmp_path):
    drawn = make_mar_mixture(200, rate=0.5, at_least=5, random_state=0)
    grid = {f"C={C:g}": MARLogisticRegression(C=C) for C in (0.1, 1.0, 10.0)}
    cv = choosing.compare(grid, drawn.data, drawn.target, folds=2, seed=0, step=lambda *share: None)
    shown, one, other = sorted(grid, key=lambda name: name != choosing.statistical(cv))
    weights = {name: {shown: 0.0005, one: 0.0006, other: 0.9989}[name] for name in grid}
    cv.selection_ = replace(cv.selection_, weights=weights)
    model = choosing.average_model(cv, drawn.data, drawn.target, np.arange(2), tmp_path, lambda *share: None)
    assert model.weights == {shown: 0.0, other: 1.0}
    assert model.statistical is model.candidates[shown]
    expected = cv.estimators_[other].predict_proba(drawn.data)
    np.testing.assert_array_equal(model.classifier.predict_proba(drawn.data), expected)


def test_after_a_comparison_on_a_sample_the_main_candidates_are_fitted_to_all_rows(fit, tmp_path, monkeypatch):
    monkeypatch.setattr("marmix.journey.findings.SAMPLE", 300)
    frame, _ = rows(600)
    _, summary, _ = fit(frame, "--prevalence", "oak=0.4")
    model = marmix.load(tmp_path / "out" / "model.marmix")
    weights = model[-1].weights_
    heaviest = sorted(weights, key=lambda name: -weights[name])[: choosing.REFITTED]
    sizes = {name: round(pipeline[-1].model_.total_weight) for name, pipeline in model[-1].estimators_.items()}
    shown = choosing.statistical(model[-1])
    assert {name for name, size in sizes.items() if size == 600} == {*heaviest, shown}
    assert {size for name, size in sizes.items() if name not in (*heaviest, shown)} == {300}
    assert "sample of 300 rows" in summary["model"]["rule"]
    expected = model.predict_proba(frame)
    written = pd.read_csv(tmp_path / "out" / "imputed.csv")[["marmix_p_elm", "marmix_p_oak"]]
    np.testing.assert_allclose(written, expected, atol=1e-6)
    oak = np.where(frame["kind"] == "", expected[:, 1], frame["kind"] == "oak")
    assert oak.mean() == pytest.approx(0.4, abs=1e-10 if set(sizes.values()) == {600} else 0.01)
    assert "Class shares were taken as given: 40 % for 'oak'" in warned(summary)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["oak=0.4", "birch=0.1"], "'birch', which is not a class: the classes are 'elm', 'oak'"),
        (["oak=0.4", "oak=0.5"], "the share of 'oak' twice"),
        (["oak=0.01"], r"of the rows have the label 'oak', so its share cannot be 1.00%"),
    ],
)
def test_shares_that_cannot_be_are_refused_before_the_fit(fit, options, message, monkeypatch):
    monkeypatch.setattr("marmix.journey.fit.compare", None)
    code, _, error = fit(rows()[0], *(word for share in options for word in ("--prevalence", share)))
    assert code == 1
    assert re.search(message, error)


def test_a_candidate_that_chose_its_settings_on_the_sample_keeps_them_for_all_rows():
    class Choosing(ClassifierMixin, BaseEstimator):
        def __init__(self, C="auto", cv=5):
            self.C, self.cv = C, cv

        def fit(self, X, y):
            self.settings_, self.X_ = (self.C, self.cv), X
            return self

    X = np.random.default_rng(0).normal(size=(50, 2))
    scaler, fitted = StandardScaler().fit(X), Choosing()
    fitted.C_ = 0.25
    again = choosing._refit(make_pipeline(scaler, fitted), X, np.arange(50) % 2, scaler, scaler.transform(X))
    assert again[-1].settings_ == (0.25, None)
    np.testing.assert_array_equal(again[-1].X_, scaler.transform(X))
    assert again[0] is scaler


def test_a_fit_with_the_whole_grid_averages_many_kinds_of_models(fit, monkeypatch):
    monkeypatch.setattr("marmix.journey.fit.default_candidates", default_candidates)
    frame, _ = rows(100)
    _, summary, _ = fit(frame)
    names = " ".join(candidate["candidate"] for candidate in summary["model"]["candidates"])
    assert sum(kind in names for kind in ("logistic", "mixture", "kernel", "trees")) >= 3


def test_candidates_are_those_that_the_rows_can_feed():
    def kinds(*size, **options):
        return {name.split(", ")[0] for name in default_candidates(2, *size, **options)}

    trees, smooth = {"boosting", "plain boosting"}, {"logistic", "kernel"}
    mixtures = {"mixture", "mixture of 2", "Student mixture"}
    assert kinds(1000, 2) == {"quadratic logistic"} | mixtures | smooth | trees
    assert kinds(1000, 2, categories=True) == smooth | trees
    assert kinds(500, 60) == mixtures | smooth | trees
    assert not any("full" in name for name in default_candidates(2, 500, 60))
    assert kinds(40, 60) == smooth | trees
    assert kinds(40, 60, kind="mixture") == mixtures


def test_where_every_row_has_a_label_there_is_nothing_to_compare(fit):
    frame, truth = rows()
    _, summary, _ = fit(frame.assign(kind=truth), "--keep", "kind")
    assert summary["comparison"]["helped"] is None
    assert "no label is missing" in summary["comparison"]["sentence"]
    assert "missingness" not in summary["model"]["name"] + summary["statistical"]["name"]
    assert len({row["candidate"] for row in summary["model"]["candidates"]}) == len(summary["model"]["candidates"])
    assert sum(row["weight"] for row in summary["model"]["candidates"]) == pytest.approx(1.0)


def test_a_class_with_a_single_label_is_reported_once_and_not_scored(fit):
    frame, truth = rows()
    first = np.flatnonzero(truth == "oak")[0]
    frame.loc[(frame["kind"] == "oak") & (frame.index != first), "kind"] = ""
    frame.loc[first, "kind"] = "oak"
    _, summary, _ = fit(frame)
    assert summary["comparison"]["helped"] is None
    assert summary["scores"] == []
    assert summary["verdict"]["use"] == "no"
    assert warned(summary).count("could not be checked") == 1
    assert "Only 1 row is labelled 'oak'" in summary["cautions"][0]["text"]


def test_notes_name_the_columns_and_the_classes_of_the_file(fit):
    frame, _ = rows()
    frame = pd.DataFrame(
        {"name": range(200), "height": frame["x0"], "width": frame["x1"], "twice": 2 * frame["x0"]}
    ).join(frame["kind"])
    _, summary, _ = fit(frame, "--model", "mixture", "--id", "name")
    assert "'height', 'twice'" in warned(summary)
    assert "--exclude" in warned(summary)
    assert "sklearn" not in warned(summary)
    collapsed = Note("collapsed", {"classes": [1], "floor": 1e-6})
    assert "'oak'" in note_cautions([collapsed], ["x"], np.array(["elm", "oak"]))[0].text


@pytest.mark.parametrize("impute", ["median", "drop"])
def test_rows_that_all_have_a_gap_are_refused_in_words_of_the_file(fit, impute):
    frame, _ = rows()
    for j in range(2):
        frame.loc[j::2, f"x{j}"] = np.nan
    code, summary, error = fit(frame, "--impute-features", impute)
    if impute == "median":
        assert code == 0
        assert summary["data"]["incomplete_rows"] == 200
    else:
        assert code == 1
        assert "--impute-features median" in error


def test_a_class_whose_rows_all_have_a_gap_is_refused_by_name(fit):
    frame, _ = rows()
    frame.loc[frame["kind"] == "oak", "x0"] = np.nan
    code, _, error = fit(frame, "--impute-features", "drop")
    assert code == 1
    assert "class 'oak'" in error


def test_columns_that_the_file_has_already_are_refused_before_the_fit(fit, monkeypatch):
    frame, _ = rows()
    monkeypatch.setattr("marmix.journey.fit.compare", None)  # is not reached
    code, _, error = fit(frame.assign(marmix_p_oak=1))
    assert code == 1
    assert "marmix_p_oak" in error
    assert "--prefix" in error


def test_a_column_is_not_both_an_id_and_a_feature(fit):
    code, _, error = fit(rows()[0], "--id", "x0", "--features", "x0", "x1")
    assert code == 1
    assert "--id" in error


def test_an_impossible_class_has_a_large_finite_loss_and_all_scores():
    z = np.array([0, 1, 1, -1])
    proba = np.array([[1.0, 0.0], [1.0, 0.0], [0.2, 0.8], [1.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = score_facts(all_scores(z, proba, np.full(4, 0.5), proba))
    assert [score.name for score in scores] == ["log-loss", "Brier score", "accuracy", "AUC"]
    assert scores[0].value > 100


def test_no_score_leaves_its_range():
    rng = np.random.default_rng(0)
    z = np.array([0] * 20 + [1] * 20 + [-1] * 60)
    proba = np.where(np.arange(100)[:, None] % 40 < 20, [1 - 1e-90, 1e-90], [1e-90, 1 - 1e-90])
    lean = rng.dirichlet([1, 1], 100)
    raw = all_scores(z, proba, np.full(100, 0.9), lean)
    shown = {score.name: score.value for score in score_facts(raw)}
    assert any(not 0 <= score.value <= 1 for name, score in raw.items() if name != "log-loss")  # the estimates do
    assert shown["log-loss"] >= 0
    assert 0 <= shown["accuracy"] <= 1
    assert 0 <= shown["AUC"] <= 1


@pytest.fixture(scope="module")
def comparison_of_two():
    """A comparison of two candidates and two rivals, and its rows."""
    drawn = make_mar_mixture(100, rate=0.5, at_least=5, random_state=0)
    grid = {"a": MARGaussianMixture(link="logit"), "b": MARLogisticRegression()}
    return choosing.compare(grid, drawn.data, drawn.target, folds=2, seed=0, step=lambda *share: None), drawn.data


@pytest.fixture
def compared(comparison_of_two):
    """That comparison with made-up results, and the average."""
    cv, X = copy(comparison_of_two[0]), comparison_of_two[1]
    results = {
        "candidate": np.array(["a", "b", "forest", "boosting"]),
        "rival": np.array([False, False, True, True]),
        "mechanism": np.array([True, True, False, False]),
        "log_loss": np.array([-0.02, 0.5, 0.6, 0.4]),
        "weight": np.array([0.3, 0.7, 0.0, 0.0]),
    }
    made_up = {"weights": {"a": 0.3, "b": 0.7}, "results": results, "comparison": Gain(-0.02, -0.03, -0.01, 0.02)}
    cv.selection_ = replace(cv.selection_, rival_comparison=Gain(-0.02, 0.4, 0.42, 0.02), **made_up)
    return cv, choosing.Model(cv, cv.estimators_["a"], np.arange(2), X, None)


def test_estimated_losses_below_zero_are_shown_as_zero(compared):
    cv, model = compared
    facts = comparison(cv, np.array([0, -1]))
    assert (facts.with_it, facts.without, facts.gain) == (0.0, 0.0, -0.01)
    assert "-0.02" not in facts.sentence
    candidates, _ = candidate_rows(cv, model)
    assert candidates[1]["log_loss"] == 0.0
    assert rival_facts(cv).log_loss == 0.0
    unclear = Gain(0.8, 0.5, -0.3, 12.0)
    cv.selection_ = replace(cv.selection_, comparison=unclear, rival_comparison=unclear)
    assert comparison(cv, np.array([0, -1])).helped is None
    assert rival_facts(cv).better is None


def test_candidates_are_listed_by_weight_and_rivals_by_loss(compared):
    candidates, rivals = candidate_rows(*compared)
    assert [row["weight"] for row in candidates] == [0.7, 0.3]
    assert [row["candidate"].split(",")[0] for row in candidates] == ["logistic regression", "Gaussian mixture"]
    assert [row["candidate"] for row in rivals] == ["boosting", "forest"]


def test_a_saved_average_keeps_the_table_of_candidates_and_rivals(compared, tmp_path):
    cv, model = compared
    average = choosing.average_model(
        cv, model.X, cv.transduction_, np.array(["elm", "oak"]), tmp_path, lambda *share: None
    )
    marmix.save(average.named(), tmp_path / "model.marmix")
    loaded = marmix.load(tmp_path / "model.marmix")
    assert type(loaded) is MARClassifierCV
    assert loaded.rival_comparison_ == cv.rival_comparison_
    assert loaded.classes_.tolist() == ["elm", "oak"]
    for key, column in cv.results_.items():
        np.testing.assert_array_equal(loaded.results_[key], column)
    np.testing.assert_array_equal(loaded.predict_proba(model.X), average.classifier.predict_proba(model.X))


@pytest.mark.parametrize(("gain", "better"), [(0.1, True), (0.01, False), (-0.1, False)])
def test_the_average_is_better_than_the_best_rival_if_the_gain_is_clear(compared, gain, better):
    cv, _ = compared
    cv.selection_ = replace(cv.selection_, rival_comparison=Gain(0.4 - gain, 0.4, gain, 0.02))
    facts = rival_facts(cv)
    assert (facts.better, facts.name, facts.rival, facts.gain) == (better, "boosting", 0.4, gain)
    assert f"{gain:.4f}" in facts.sentence
    assert "boosting" in facts.sentence
    assert ("higher than" in facts.sentence) == (gain == -0.1)


def test_a_model_worse_than_guessing_has_a_warning(fit):
    frame, _ = rows(300)
    third = np.select([frame["x0"] > 0, frame["x0"] > -1], ["u", "v"], "w")
    _, summary, _ = fit(frame.assign(x0=third, x1=np.where(frame["x1"] > 0, "p", "q")), "--model", "mixture")
    loss = next(score["value"] for score in summary["scores"] if score["name"] == "log-loss")
    assert loss > np.log(2)
    assert f"{loss:.3f}, is worse" in warned(summary)


@pytest.mark.parametrize(
    ("numbers", "advice"),
    [
        (2.0**60 + 1e4 * np.arange(200), "--id"),
        (1e200 * np.arange(200), "other units"),
        (1e-200 * np.arange(200), "other units"),
    ],
)
def test_numbers_beyond_floating_point_are_refused_by_name(fit, numbers, advice):
    code, _, error = fit(rows()[0].assign(code=[f"{number:.17g}" for number in numbers]))
    assert code == 2
    assert "'code'" in error
    assert advice in error


def test_a_class_may_have_a_name_for_missing_and_what_counted_as_missing_is_said(fit, tmp_path, capsys):
    frame, _ = rows()
    kinds = frame["kind"].replace({"oak": "None"})
    kinds[kinds == ""] = np.where(np.arange((kinds == "").sum()) % 2, "", "NA")
    code, summary, _ = fit(frame.assign(kind=kinds), "--classes", "None", "elm")
    counts = kinds.value_counts()
    assert code == 0
    given = {facts["name"]: facts["given"] for facts in summary["labels"]["classes"]}
    assert list(given.items()) == [("None", counts["None"]), ("elm", counts["elm"])]
    assert summary["labels"]["missing_texts"] == {"": counts[""], "NA": counts["NA"]}
    words = f"'NA' in {counts['NA']} rows, empty in {counts['']}"
    assert f"Missing labels: {escape(words)}." in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    command = ["evaluate", str(tmp_path / "out" / "model.marmix"), str(tmp_path / "trees.csv"), "--label", "kind"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert f"Missing labels: {words}." in printed
    assert "given None" in printed


def test_an_average_of_models_without_parameters_imputes_and_has_a_report(fit, tmp_path, monkeypatch, capsys):
    def grid(*arguments):
        pair = {"covariance_type": "tied", "n_components": 2, "n_init": 1, "random_state": 0}
        return {f"{weight:g}": MARGaussianMixture(**pair, mechanism_weight=weight) for weight in (0.0, 1.0)}

    monkeypatch.setattr("marmix.journey.fit.candidates_of", grid)
    code, summary, _ = fit(rows()[0])
    assert code == 0
    assert summary["statistical"] is None
    assert summary["estimates"] == []
    assert summary["missingness"]["informative"] is None
    assert summary["labels"]["imputed"] == summary["labels"]["missing"]
    command = ["report", str(tmp_path / "out" / "model.marmix"), str(tmp_path / "trees.csv"), "--json", "--quiet"]
    assert main([*command, "--out", str(tmp_path / "page.html")]) == 0
    again = json.loads(capsys.readouterr().out)
    for part in ("model", "missingness", "comparison", "scores"):
        assert again[part] == summary[part]


def test_a_note_says_how_to_add_boosting():
    (note,) = note_cautions([Note("no-boosting")], ["x"], np.array(["elm", "oak"]))
    assert "pip install 'marmix[boost]'" in note.text


@pytest.fixture(scope="module")
def from_python(tmp_path_factory):
    """A folder with rows, and models of them that were saved from Python."""
    tmp_path = tmp_path_factory.mktemp("python")
    frame, _ = rows()
    frame.to_csv(tmp_path / "trees.csv", index=False)
    data = frame[["x0", "x1"]], frame["kind"].replace("", None)
    marmix.save(MARGaussianMixture(link="logit").fit(*data), tmp_path / "m")
    marmix.save(make_pipeline(StandardScaler(), MARGaussianMixture(link="logit")).fit(*data), tmp_path / "p")
    earlier = make_pipeline(Preparation(features=["x0", "x1"]), StandardScaler(), MARGaussianMixture(link="logit"))
    about = {
        "name": "one model",
        "label": "kind",
        "id": None,
        "missing": [],
        "model": "auto",
        "link": "logit",
        "folds": 5,
    }
    marmix.save(earlier.fit(*data), tmp_path / "e", about=about)  # as `marmix fit` wrote it before it averaged
    return tmp_path, frame


@pytest.mark.parametrize("name", ["m", "p", "e"])
def test_a_model_saved_from_python_predicts_without_warnings(from_python, name, capsys):
    folder, frame = from_python
    out = folder / "predicted.csv"
    assert (
        main(["predict", str(folder / name), str(folder / "trees.csv"), "--out", str(out), "--force", "--quiet"]) == 0
    )
    assert capsys.readouterr().err == ""
    expected = marmix.load(folder / name).predict_proba(frame[["x0", "x1"]])
    np.testing.assert_allclose(pd.read_csv(out)[["marmix_p_elm", "marmix_p_oak"]], expected, atol=1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param("m", marks=pytest.mark.long), "p", pytest.param("e", marks=pytest.mark.long)]
)
def test_a_single_model_is_reported_with_its_own_scores_and_compared_with_ignoring_the_missingness(
    from_python, name, capsys
):
    folder, frame = from_python
    command = ["report", str(folder / name), str(folder / "trees.csv"), "--label", "kind", "--json", "--quiet"]
    assert main([*command, "--force", "--out", str(folder / "page.html")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["model"]["kind"] == result["statistical"]["kind"] == "MARGaussianMixture"
    assert result["model"]["name"] == result["statistical"]["name"]
    assert [row["weight"] for row in result["model"]["candidates"]] == [1.0, 0.0]
    assert [row["mechanism"] for row in result["model"]["candidates"]] == [True, False]
    assert result["comparison"]["helped"] is not None
    data = frame[["x0", "x1"]], frame["kind"].replace("", None)
    alone = MARClassifierCV(estimators={"m": MARGaussianMixture(link="logit")}).fit(*data)
    assert result["scores"][0]["plain"] == pytest.approx(alone.score_.plain)


def test_an_average_saved_from_python_has_a_report_of_its_candidates(from_python, capsys):
    folder, frame = from_python
    grid = {"a": MARGaussianMixture(link="logit"), "b": MARLogisticRegression()}
    average = MARClassifierCV(estimators=grid).fit(frame[["x0", "x1"]], frame["kind"].replace("", None))
    marmix.save(average, folder / "a")
    command = ["report", str(folder / "a"), str(folder / "trees.csv"), "--label", "kind", "--json", "--quiet"]
    assert main([*command, "--force", "--out", str(folder / "page.html")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["model"]["kind"] == "MARClassifierCV"
    weights = sorted((row["weight"] for row in result["model"]["candidates"]), reverse=True)
    assert weights == pytest.approx(sorted(average.weights_.values(), reverse=True))


@pytest.mark.parametrize("command", [["evaluate"], ["report", "--out", "page.html"]])
def test_a_feature_is_no_label(from_python, command, capsys):
    folder, _ = from_python
    assert main([*command, str(folder / "m"), str(folder / "trees.csv"), "--label", "x0"]) == 1
    error = capsys.readouterr().err
    assert "--label" in error
    assert "'x0'" in error


def test_a_missing_package_is_reported_before_the_fit(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("marmix.journey.fit.open_table", None)  # is not reached
    code, _, error = fit(rows()[0])
    assert code == 1
    assert "pip install 'marmix[" in error


def test_sets_hold_the_given_label_or_the_true_class_of_most_rows(fit, tmp_path):
    frame, truth = rows(300)
    code, summary, _ = fit(frame, "--model", "mixture", "--sets", "0.9")
    assert code == 0
    written = pd.read_csv(tmp_path / "out" / "imputed.csv")
    assert written.columns[-1] == "marmix_set"
    given = written["marmix_source"] == "given"
    assert (written["marmix_set"][given] == written["marmix_label"][given]).all()
    sets = written["marmix_set"].str.split(" | ", regex=False)
    imputed = np.flatnonzero(~given)
    assert all(sets[i][0] == written["marmix_label"][i] for i in imputed)
    assert np.mean([np.asarray(truth)[i] in sets[i] for i in imputed]) > 0.8
    facts = summary["labels"]["certainty"]["sets"]
    assert facts["single"] == sum(len(sets[i]) == 1 for i in imputed)
    assert facts["mean_size"] == pytest.approx(np.mean([len(sets[i]) for i in imputed]))
    complete = frame.assign(kind=truth)
    code, _, error = fit(complete, "--model", "mixture", "--sets", "0.9", "--force", "--keep", "kind")
    assert code == 1
    assert "--sets is for rows without a label" in error
