"""The way from a file to a decision: what it chooses, what it warns of, and in which words."""

import json
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import MARGaussianMixture
from marmix.cli import main
from marmix.datasets import make_mar_mixture
from marmix.estimators.candidates import default_candidates
from marmix.estimators.choice import Gain
from marmix.journey import choosing
from marmix.journey.findings import all_scores, candidate_rows, comparison, score_facts
from marmix.notes import Note
from marmix.report.notes import plain_notes

pytestmark = pytest.mark.usefixtures("quick_figures")


def rows(n=200, **options):
    """Simulated rows as a frame with the classes "elm" and "oak" in the column "kind"."""
    drawn = make_mar_mixture(n, **{"rate": 0.5, "at_least": 5, "random_state": 0} | options)
    frame = pd.DataFrame(drawn.data.round(4), columns=[f"x{j}" for j in range(drawn.data.shape[1])])
    names = np.array(["elm", "oak", "ash", "fir", ""], dtype=object)
    return frame.assign(kind=names[drawn.target]), names[drawn.target_true]


@pytest.fixture
def fit(tmp_path, capsys):
    """Fit a frame by the program: the exit code, the summary, and what was said of an error."""

    def run(frame, *options):
        frame.to_csv(tmp_path / "trees.csv", index=False)
        out = tmp_path / "out"
        code = main(["fit", str(tmp_path / "trees.csv"), "--label", "kind", "--out", str(out), "--quiet", *options])
        told = capsys.readouterr().err
        summary = json.loads((out / "summary.json").read_text()) if code != 1 else {}
        return code, summary, told

    return run


def said(summary):
    return " ".join(summary["warnings"])


def test_labels_lost_on_one_side_are_warned_of(fit):
    frame, _ = rows(600, rate=0.4, side=1)
    _, summary, _ = fit(frame)
    assert "on one side of the boundary" in said(summary)
    assert "corrected scores" in said(summary)


def test_labels_lost_as_the_model_says_are_not_warned_of(fit):
    frame, _ = rows(600)
    _, summary, _ = fit(frame)
    assert summary["warnings"] == []


def test_missingness_is_ignored_only_where_that_is_clearly_better(monkeypatch):
    drawn = make_mar_mixture(200, rate=0.5, at_least=5, random_state=0)
    grid = default_candidates(2, 200, 2, kind="logistic", categories=True, brief=True)
    taken = {}
    for gain in (-3.0, -1.0, 1.0):
        monkeypatch.setattr(Gain, "of", classmethod(lambda cls, *given, gain=gain: cls(0.5, 0.5, gain, 1.0)))
        choice = choosing.choose(grid, drawn.data, drawn.target, folds=2, seed=0, step=lambda share: None)
        taken[gain] = choice.name
        own = choice.cv._known(choice.name, choice.cv.held_out_proba_, drawn.data, drawn.target)
        lost = drawn.target < 0  # of the labelled rows nobody else knows what was said
        np.testing.assert_array_equal(choice.cv.held_out_proba_[lost], own[lost])
        assert choice.cv.weights_[choice.name] == 1.0
    assert "ignored" in taken[-3.0]
    assert "mechanism" in taken[-1.0]
    assert "mechanism" in taken[1.0]


def test_candidates_are_those_that_the_rows_can_feed():
    def names(*size, **options):
        return {name.rsplit(", ", 1)[0] for name in default_candidates(2, *size, brief=True, **options)}

    linear, quadratic, tied, full = "logistic, C=1", "quadratic logistic, C=1", "mixture, tied", "mixture, full"
    assert names(1000, 2) == {linear, quadratic, tied, full}
    assert names(1000, 2, categories=True) == {linear}
    assert names(500, 60) == {linear, tied}
    assert names(40, 60) == {linear}
    assert names(40, 60, kind="mixture") == {tied}


def test_where_every_row_has_a_label_there_is_nothing_to_compare(fit):
    frame, truth = rows()
    _, summary, _ = fit(frame.assign(kind=truth))
    assert summary["comparison"]["helped"] is None
    assert summary["comparison"]["sentence"] == "Nothing to compare: no label is missing."
    assert "missingness" not in summary["model"]["name"]


def test_a_class_with_a_single_label_is_told_of_once_and_in_plain_words(fit):
    frame, truth = rows()
    first = np.flatnonzero(truth == "oak")[0]
    frame.loc[(frame["kind"] == "oak") & (frame.index != first), "kind"] = ""
    frame.loc[first, "kind"] = "oak"
    _, summary, _ = fit(frame)
    assert summary["comparison"]["helped"] is None
    assert summary["scores"] == []
    assert "could not be compared" not in said(summary)
    assert "single labelled row" in said(summary)


def test_notes_name_the_columns_and_the_classes_of_the_file(fit):
    frame, _ = rows()
    frame = pd.DataFrame(
        {"name": range(200), "height": frame["x0"], "width": frame["x1"], "twice": 2 * frame["x0"]}
    ).join(frame["kind"])
    _, summary, _ = fit(frame, "--model", "mixture", "--id", "name")
    assert "'height', 'twice'" in said(summary)
    assert "--exclude" in said(summary)
    assert "sklearn" not in said(summary)
    collapsed = Note("collapsed", {"classes": [1], "floor": 1e-6})
    assert "'oak'" in plain_notes([collapsed], ["x"], np.array(["elm", "oak"]))[0]


@pytest.mark.parametrize("impute", ["median", "drop"])
def test_rows_that_all_have_a_gap_are_refused_in_words_of_the_file(fit, impute):
    frame, _ = rows()
    for j in range(2):
        frame.loc[j::2, f"x{j}"] = np.nan
    code, summary, told = fit(frame, "--impute-features", impute)
    if impute == "median":
        assert code == 0
        assert summary["data"]["incomplete_rows"] == 200
    else:
        assert code == 1
        assert "every row has a missing feature" in told
        assert "--impute-features median" in told


def test_a_class_whose_rows_all_have_a_gap_is_refused_by_name(fit):
    frame, _ = rows()
    frame.loc[frame["kind"] == "oak", "x0"] = np.nan
    code, _, told = fit(frame, "--impute-features", "drop")
    assert code == 1
    assert "every labelled row of class 'oak' has a missing feature" in told


def test_columns_that_the_file_has_already_are_refused_before_the_work(fit, monkeypatch):
    frame, _ = rows()
    monkeypatch.setattr("marmix.journey.fit.choose", None)  # is not reached
    code, _, told = fit(frame.assign(marmix_p_oak=1))
    assert code == 1
    assert "marmix_p_oak" in told
    assert "--prefix" in told


def test_a_column_is_not_both_an_id_and_a_feature(fit):
    code, _, told = fit(rows()[0], "--id", "x0", "--features", "x0", "x1")
    assert code == 1
    assert "--id" in told


def test_a_class_that_was_thought_impossible_costs_much_but_no_score_is_lost():
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


def test_estimated_losses_below_zero_are_shown_as_zero():
    class Compared:
        classes_ = np.arange(2)
        comparison_ = Gain(-0.02, -0.03, -0.01, 0.02)
        held_out_proba_ = np.ones((2, 2)) / 2
        results_ = {  # noqa: RUF012
            "candidate": np.array(["a"]),
            "log_loss": np.array([-0.02]),
            "accuracy": np.array([1.01]),
        }

    found = comparison(Compared, np.array([0, -1]))
    assert (found.with_it, found.without, found.gain) == (0.0, 0.0, -0.01)
    assert "-0.02" not in found.sentence
    (row,) = candidate_rows(Compared)
    assert (row["log_loss"], row["accuracy"]) == (0.0, 1.0)
    Compared.comparison_ = Gain(0.8, 0.5, -0.3, 12.0)
    assert comparison(Compared, np.array([0, -1])).helped is None
    assert "cannot be told" in comparison(Compared, np.array([0, -1])).sentence


def test_a_model_worse_than_guessing_is_warned_of(fit):
    frame, _ = rows(300)
    third = np.select([frame["x0"] > 0, frame["x0"] > -1], ["u", "v"], "w")
    _, summary, _ = fit(frame.assign(x0=third, x1=np.where(frame["x1"] > 0, "p", "q")), "--model", "mixture")
    assert next(score["value"] for score in summary["scores"] if score["name"] == "log-loss") > np.log(2)
    assert "worse than that of a guess" in said(summary)


@pytest.mark.parametrize(
    ("numbers", "advice"),
    [
        (2.0**60 + 1e4 * np.arange(200), "--id"),
        (1e200 * np.arange(200), "other units"),
        (1e-200 * np.arange(200), "other units"),
    ],
)
def test_numbers_that_arithmetic_cannot_tell_apart_are_refused_by_name(fit, numbers, advice):
    code, _, told = fit(rows()[0].assign(code=[f"{number:.17g}" for number in numbers]))
    assert code == 1
    assert "'code'" in told
    assert advice in told


def test_labels_that_may_be_meant_otherwise_are_told_of(fit):
    frame, _ = rows()
    kinds = frame["kind"].replace({"oak": "Unknown"})
    kinds[kinds == ""] = np.where(np.arange((kinds == "").sum()) % 2, "", "-1")
    _, summary, _ = fit(frame.assign(kind=kinds))
    assert "The label 'Unknown' counts as a class" in said(summary)
    assert "written in several ways: empty (" in said(summary)


@pytest.fixture
def from_python(tmp_path):
    """A folder with rows, and a model of them that was saved from Python."""
    frame, _ = rows()
    frame.to_csv(tmp_path / "trees.csv", index=False)
    given = frame[["x0", "x1"]], frame["kind"].replace("", None)
    marmix.save(MARGaussianMixture(link="logit").fit(*given), tmp_path / "m")
    marmix.save(make_pipeline(StandardScaler(), MARGaussianMixture(link="logit")).fit(*given), tmp_path / "p")
    return tmp_path, frame


@pytest.mark.parametrize("name", ["m", "p"])
def test_a_model_saved_from_python_serves_without_a_word(from_python, name, capsys):
    folder, frame = from_python
    out = folder / "predicted.csv"
    assert main(["predict", str(folder / name), str(folder / "trees.csv"), "--out", str(out), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    expected = marmix.load(folder / name).predict_proba(frame[["x0", "x1"]])
    np.testing.assert_allclose(pd.read_csv(out)[["marmix_p_elm", "marmix_p_oak"]], expected, atol=1e-6)


@pytest.mark.parametrize("command", [["evaluate"], ["report", "--out", "page.html"]])
def test_a_feature_is_no_label(from_python, command, capsys):
    folder, _ = from_python
    assert main([*command, str(folder / "m"), str(folder / "trees.csv"), "--label", "x0"]) == 1
    assert "--label names 'x0'" in capsys.readouterr().err


def test_too_few_rows_to_simulate_are_told_of_in_words_of_the_program(tmp_path, capsys):
    assert main(["simulate", "--rows", "3", "--classes", "5", "--out", str(tmp_path / "rows.csv")]) == 1
    assert "more --rows" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_for_the_figures_is_told_of_before_the_work(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("marmix.journey.fit.open_table", None)  # is not reached
    code, _, told = fit(rows()[0])
    assert code == 1
    assert "pip install 'marmix[" in told
