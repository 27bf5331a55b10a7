"""From rows to findings: the choice of a model, and what is said of it."""

import json
import warnings
from dataclasses import replace
from html import unescape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.app import analyse, models, wording
from marmix.app.facts import all_scores, candidate_rows, comparison, rival, score_facts
from marmix.app.findings import MissingnessFacts
from marmix.app.models import Predicted, sampled, sets_of
from marmix.app.survey import Rows
from marmix.app.wording import note_cautions
from marmix.cli import main
from marmix.core.notes import Note
from marmix.datasets import make_mar_mixture
from marmix.evaluation import conformal_sets
from marmix.evaluation.forests import flexible_missing_proba
from marmix.selection.comparison import REFITTED, Gain
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
        command = ["fit", str(tmp_path / "trees.csv"), "--label", "kind", "--out", str(out), "--quiet"]
        code = main([*command, *options])
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8")) if code in (0, 3) else {}
        return code, summary, capsys.readouterr().err

    return run


def warned(summary):
    return " ".join(f"{caution['text']} {caution['advice']}" for caution in summary["cautions"])


def test_where_every_row_has_a_label_there_is_nothing_to_compare(fit):
    frame, truth = rows()
    _, summary, _ = fit(frame.assign(kind=truth), "--classes", "elm", "oak")
    assert summary["comparison"]["better"] is None
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
    assert summary["comparison"]["better"] is None
    assert summary["scoreboard"] == []
    assert summary["verdict"]["state"] == "do not use"
    assert summary["verdict"]["wrong"]["value"] is None
    assert "labelled 'oak'" in summary["verdict"]["reasons"][0]


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


def test_what_a_linear_function_explains_as_well_is_said_without_a_p_value(monkeypatch):
    tested = MissingnessFacts(True, 1e-6, "likelihood ratio test", "Hard rows lose their labels.")
    monkeypatch.setattr("marmix.app.facts.missingness_facts", lambda *args: tested)
    case = SimpleNamespace(model=None, tests=None, comparison=SimpleNamespace(notes=[Note("no-support", {})]))
    shown = analyse._missingness(case)
    assert (shown.informative, shown.p_value, shown.test) == (None, None, "")
    assert wording.missingness(shown) == shown.sentence


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
    assert f"Missing labels: {words}." in unescape((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    command = ["evaluate", str(tmp_path / "out" / "model.marmix"), str(tmp_path / "trees.csv"), "--label", "kind"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert f"Missing labels: {words}." in printed
    assert "given None" in printed


def test_an_average_of_models_without_parameters_imputes_and_has_a_report(fit, tmp_path, monkeypatch, capsys):
    def grid(*arguments):
        pair = {"covariance_type": "tied", "n_components": 2, "n_init": 1, "random_state": 0}
        return {f"{weight:g}": MARGaussianMixture(**pair, mechanism_weight=weight) for weight in (0.0, 1.0)}

    monkeypatch.setattr("marmix.app.analyse.candidates_of", grid)
    code, summary, _ = fit(rows()[0])
    assert code == 0
    assert summary["statistical"] is None
    assert summary["estimates"] == []
    assert summary["missingness"]["informative"] is None
    assert summary["labels"]["imputed"] == summary["labels"]["missing"]
    command = ["report", str(tmp_path / "out" / "model.marmix"), str(tmp_path / "trees.csv"), "--json", "--quiet"]
    assert main([*command, "--out", str(tmp_path / "page.html")]) == 0
    again = json.loads(capsys.readouterr().out)
    for part in ("model", "missingness", "comparison", "scoreboard"):
        assert again[part] == summary[part]


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
    assert result["comparison"]["better"] is not None
    data = frame[["x0", "x1"]], frame["kind"].replace("", None)
    alone = MARClassifierCV(estimators={"m": MARGaussianMixture(link="logit")}).fit(*data)
    assert result["scoreboard"][0]["claimed_log_loss"] == pytest.approx(alone.score_.plain)


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


def test_sets_of_rows_without_a_label_rest_on_trees_that_did_not_see_them():
    rng = np.random.default_rng(0)
    X, p = rng.normal(size=(300, 2)), rng.uniform(0.1, 0.9, 300)
    codes = np.where(rng.random(300) < 1 / (1 + np.exp(-X[:, 0])), -1, rng.random(300) < p).astype(np.int32)
    proba, lost, every = np.column_stack([1 - p, p]), codes < 0, np.ones(300, dtype=bool)
    table = Rows(X, every, codes, np.array(["oak", "elm"]), None, {})
    _, sets = sets_of(0.8, sampled(table, 0), proba, table, Predicted(proba, p, codes, p))
    q, _ = flexible_missing_proba(X, lost)
    want = conformal_sets(codes, proba, q, proba[lost], q[lost], classes=[0, 1], coverage=0.8).sum(axis=1)
    assert (sets.single, sets.mean_size) == (np.sum(want == 1), want.mean())


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
    facts = summary["labels"]["sets"]
    assert facts["single"] == sum(len(sets[i]) == 1 for i in imputed)
    assert facts["mean_size"] == pytest.approx(np.mean([len(sets[i]) for i in imputed]))
    complete = frame.assign(kind=truth)
    code, _, error = fit(complete, "--model", "mixture", "--sets", "0.9", "--force", "--classes", "elm", "oak")
    assert code == 1
    assert "--sets is for rows without a label" in error


@pytest.fixture(scope="module")
def rows_compared():
    """Rows, a comparison of candidates with and without the mechanism, and the settings of the comparison."""
    drawn = make_mar_mixture(200, rate=0.5, at_least=5, random_state=0)
    sample = models.Sample(np.arange(200), drawn.data, drawn.target, drawn.target, drawn.target < 0)
    ways = {"mechanism": 1.0, "ignored": 0.0}
    grid = {
        f"{name}, {way}": kind(mechanism_weight=weight, link="logit", n_init=1)
        for name, kind in (("logistic", MARLogisticRegression), ("mixture", MARGaussianMixture))
        for way, weight in ways.items()
    }
    grid["two"] = MARGaussianMixture(covariance_type="tied", n_components=2, n_init=1, link="logit", random_state=0)
    cv = MARClassifierCV(estimators=grid, cv=2, rivals=True, random_state=0)
    return drawn, cv, models.compared(cv, sample, lambda *_: None)


@pytest.mark.parametrize(("gain", "use"), [(-3.0, "ignored"), (-0.1, "ignored"), (0.1, "mechanism")])
def test_parameters_are_of_a_model_that_ignores_the_missingness_where_that_scores_better(rows_compared, gain, use):
    it = replace(rows_compared[2], comparison=Gain(0.5, 0.5, gain, 1.0))
    losses = dict(zip(it.results["candidate"].tolist(), it.results["log_loss"], strict=True))
    name = models.statistical(it)
    assert name.endswith(use)
    assert losses[name] == min(losses[key] for key in it.estimators if key.endswith(use))


def test_the_average_leaves_out_candidates_without_weight_but_keeps_the_one_whose_parameters_are_reported(
    rows_compared, tmp_path
):
    drawn, cv, it = rows_compared
    shown, other, *rest = sorted(it.estimators, key=lambda name: name != models.statistical(it))
    weights = {shown: 0.0, other: 1.0} | dict.fromkeys(rest, 0.0)
    average = models.averaged(cv, replace(it, weights=weights), drawn.data, drawn.target, lambda *_: None)
    assert average.weights_ == {shown: 0.0, other: 1.0}
    expected = it.estimators[other].predict_proba(drawn.data)
    np.testing.assert_array_equal(average.predict_proba(drawn.data), expected)
    model = models.Model(average, average.estimators_[shown], np.array(["elm", "oak"]))
    marmix.save(model.named(), tmp_path / "model.marmix")
    loaded = marmix.load(tmp_path / "model.marmix")
    assert loaded.classes_.tolist() == ["elm", "oak"]
    assert loaded.rival_comparison_ == it.rival_comparison
    np.testing.assert_array_equal(loaded.predict_proba(drawn.data), expected)


def test_after_a_comparison_on_a_sample_the_main_candidates_are_fitted_to_all_rows(fit, tmp_path, monkeypatch):
    monkeypatch.setattr("marmix.app.models.SAMPLE", 300)
    frame, _ = rows(600)
    _, summary, _ = fit(frame, "--prevalence", "oak=0.4")
    model = marmix.load(tmp_path / "out" / "model.marmix")
    weights = model[-1].weights_
    heaviest = sorted(weights, key=lambda name: -weights[name])[:REFITTED]
    sizes = {name: round(pipeline[-1].model_.total_weight) for name, pipeline in model[-1].estimators_.items()}
    shown = models.statistical(model[-1].selection_)
    assert {name for name, size in sizes.items() if size == 600} == {*heaviest, shown}
    assert {size for name, size in sizes.items() if name not in (*heaviest, shown)} <= {300}
    expected = model.predict_proba(frame)
    written = pd.read_csv(tmp_path / "out" / "imputed.csv")[["marmix_p_elm", "marmix_p_oak"]]
    np.testing.assert_allclose(written, expected, atol=1e-6)
    oak = np.where(frame["kind"] == "", expected[:, 1], frame["kind"] == "oak")
    assert oak.mean() == pytest.approx(0.4, abs=1e-10 if set(sizes.values()) == {600} else 0.01)
    imputed = sum(facts["imputed"] for facts in summary["labels"]["classes"])
    assert imputed == summary["labels"]["imputed"] == (frame["kind"] == "").sum()


def test_estimated_losses_below_zero_are_shown_as_zero_and_candidates_listed_by_weight(rows_compared):
    drawn, cv, it = rows_compared
    names = it.results["candidate"].tolist()
    losses = np.array([-0.02 if name == names[0] else 0.5 + i for i, name in enumerate(names)])
    it = replace(
        it,
        comparison=Gain(-0.02, -0.03, -0.01, 0.02),
        rival_comparison=Gain(-0.02, 0.4, 0.42, 0.02),
        results=it.results | {"log_loss": losses},
    )
    facts = comparison(it, True)
    assert (facts.ours, facts.theirs, facts.gain) == (0.0, 0.0, -0.01)
    assert rival(it).ours == 0.0
    average = models.averaged(cv, it, drawn.data, drawn.target, lambda *_: None)
    candidates = candidate_rows(it, models.Model(average, None, np.arange(2)))
    assert min(row["log_loss"] for row in candidates) == 0.0
    assert [row["weight"] for row in candidates] == sorted((row["weight"] for row in candidates), reverse=True)
    uncertain = Gain(0.8, 0.5, -0.3, 12.0)
    it = replace(it, comparison=uncertain, rival_comparison=uncertain)
    assert comparison(it, True).better is rival(it).better is None


@pytest.mark.parametrize(("gain", "better"), [(0.1, True), (0.01, False), (-0.1, False)])
def test_the_average_is_better_than_the_best_rival_if_the_gain_is_clear(rows_compared, gain, better):
    it = replace(rows_compared[2], rival_comparison=Gain(0.4 - gain, 0.4, gain, 0.02), notes=[])
    facts = rival(it)
    assert (facts.better, facts.theirs, facts.gain) == (better, 0.4, gain)
    assert facts.name in facts.sentence
    assert f"{gain:.3f}" in facts.sentence
