"""The program, run as users run it."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from test_findings import check_identities, check_page

import marmix
from marmix import MARClassifierCV
from marmix.cli import main
from marmix.datasets import make_mar_mixture
from marmix.journey import FILES, progress
from marmix.journey.fit import candidates_of

pytestmark = pytest.mark.usefixtures("quick_figures")
LONG = pytest.mark.long  # a further case of the same property, in another process
QUICK = ("--model", "logistic", "--folds", "2")  # of a fit whose model does not matter
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


EUROPEAN = {"sep": ";", "decimal": ",", "encoding": "utf-16"}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def complaints(stderr):
    """Lines of standard error except progress, which depends on the speed of the machine."""
    return [line for line in stderr.splitlines() if not re.fullmatch(r"[a-z ]+: \d+%.*, \d+ s", line)]


@pytest.fixture
def program(capsys, monkeypatch):
    """The program in this process: `program(..., cwd=folder)`."""

    def run(*arguments, cwd):
        monkeypatch.chdir(cwd)
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="module")
def frame():
    """Three hundred rows with two features, a name each, and labels of which the hard ones are missing."""
    drawn = make_mar_mixture(300, rate=0.5, at_least=5, random_state=3)
    return pd.DataFrame(
        {
            "name": [f"row {i:03d}" for i in range(300)],
            "height": drawn.data[:, 0].round(4),
            "width": drawn.data[:, 1].round(4),
            "kind": np.where(drawn.target < 0, "", np.where(drawn.target == 1, "oak", "elm")),
        }
    )


@pytest.fixture(scope="module")
def fitted(frame, tmp_path_factory, quick_figures):
    """The folder of a fit, and what the program printed."""
    folder, out, err = tmp_path_factory.mktemp("fit"), io.StringIO(), io.StringIO()
    frame.to_csv(folder / "trees.csv", index=False)
    with contextlib.chdir(folder), redirect_stdout(out), redirect_stderr(err):
        code = main(["fit", "trees.csv", "--label", "kind", "--id", "name", "--out", "out"])
    assert code == 0, err.getvalue()
    return folder, Done(code, out.getvalue(), err.getvalue())


def cells(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_a_fit_writes_its_four_files_and_prints_a_short_summary(fitted):
    folder, done = fitted
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted(FILES)
    assert complaints(done.stderr) == []
    assert len(done.stdout.splitlines()) < 25
    assert "did it help?" in done.stdout


def test_the_columns_of_the_file_come_through_untouched_and_in_order(fitted):
    folder, _ = fitted
    before, after = cells(folder / "trees.csv"), cells(folder / "out" / "imputed.csv")
    assert [row[:4] for row in after] == before
    assert after[0][4:] == [
        "marmix_label", "marmix_source", "marmix_p_elm", "marmix_p_oak", "marmix_uncertainty", "marmix_missing_proba",
    ]  # fmt: skip


def test_every_row_keeps_its_label_or_gets_the_most_probable_one(fitted):
    rows = pd.read_csv(fitted[0] / "out" / "imputed.csv", keep_default_na=False)
    given = rows["kind"] != ""
    assert (rows.loc[given, "marmix_label"] == rows.loc[given, "kind"]).all()
    assert set(rows.loc[given, "marmix_source"]) == {"given"}
    assert set(rows.loc[~given, "marmix_source"]) == {"imputed"}
    proba = rows[["marmix_p_elm", "marmix_p_oak"]].to_numpy(float)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-5)
    assert (rows.loc[~given, "marmix_label"] == np.array(["elm", "oak"])[proba.argmax(axis=1)][~given]).all()
    p = np.clip(proba, 1e-300, 1)
    np.testing.assert_allclose(rows["marmix_uncertainty"], -(p * np.log(p)).sum(axis=1) / np.log(2), atol=1e-4)


def test_the_saved_model_predicts_the_same_in_python(fitted, frame):
    folder, _ = fitted
    model = marmix.load(folder / "out" / "model.marmix")
    rows = pd.read_csv(folder / "out" / "imputed.csv")
    np.testing.assert_allclose(model.predict_proba(frame), rows[["marmix_p_elm", "marmix_p_oak"]], atol=1e-6)
    q = model[-1].missing_proba(model[:-1].transform(frame))
    np.testing.assert_allclose(q, rows["marmix_missing_proba"], atol=1e-6)
    average, labels = model[-1], frame["kind"].replace("", None)
    assert sum(average.weights_.values()) == pytest.approx(1.0)
    again = MARClassifierCV(estimators=average.estimators, random_state=0).fit(frame[["height", "width"]], labels)
    np.testing.assert_allclose(model.predict_proba(frame), again.predict_proba(frame[["height", "width"]]), atol=1e-2)
    assert average.weights_ == pytest.approx({name: again.weights_[name] for name in average.weights_}, abs=1e-2)


def test_the_report_names_every_model_of_the_average_with_its_weight(fitted):
    folder, done = fitted
    average = marmix.load(folder / "out" / "model.marmix")[-1]
    summary = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    rows = [row for row in summary["model"]["candidates"] if row["weight"] > 0]
    assert sorted(row["weight"] for row in rows) == sorted(weight for weight in average.weights_.values() if weight > 0)
    for row in rows:
        cells = [re.escape(row["candidate"]), row["missingness"], f"{row['weight']:.3f}"]
        assert re.search(r"<[^<>]+><[^<>]+>".join(cells), page)
    words = f"average of {len(rows)} models"
    assert words in summary["model"]["name"]
    assert words in done.stdout
    assert words in page


def test_the_summary_counts_what_the_rows_say(fitted):
    folder, _ = fitted
    summary = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))
    rows = pd.read_csv(folder / "out" / "imputed.csv", keep_default_na=False)
    missing = rows["kind"] == ""
    assert summary["data"]["rows"] == 300
    assert summary["labels"]["missing"] == summary["labels"]["imputed"] == missing.sum()
    for facts in summary["labels"]["classes"]:
        assert facts["given"] == (rows["kind"] == facts["name"]).sum()
        assert facts["imputed"] == (missing & (rows["marmix_label"] == facts["name"])).sum()
    probability = rows[["marmix_p_elm", "marmix_p_oak"]].max(axis=1)[missing]
    assert summary["labels"]["certainty"]["at_least_90"] == (probability >= 0.9).sum()
    assert summary["missingness"]["informative"] is True
    assert summary["missingness"]["toss_up"] > summary["missingness"]["certain"]
    assert summary["model"]["converged"] is True
    assert summary["reproduction"]["command"] == "marmix fit trees.csv --label kind --id name --out out"


def test_the_summary_the_terminal_and_the_page_agree(fitted):
    folder, done = fitted
    summary = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))
    check_identities(summary)
    check_page(summary, (folder / "out" / "report.html").read_text(encoding="utf-8"), done.stdout)


def test_the_command_of_the_report_makes_the_same_files_again(program, fitted, tmp_path):
    folder, _ = fitted
    (tmp_path / "trees.csv").write_bytes((folder / "trees.csv").read_bytes())
    command = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))["reproduction"]["command"]
    assert program(*command.split()[1:], cwd=tmp_path).returncode == 0
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (folder / "out" / name).read_bytes()


def test_nothing_is_overwritten_without_force(program, fitted):
    folder, _ = fitted
    before = {name: (folder / "out" / name).read_bytes() for name in FILES}
    refused = program("fit", "trees.csv", "--label", "kind", "--out", "out", "--seed", "1", cwd=folder)
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert {name: (folder / "out" / name).read_bytes() for name in FILES} == before
    assert sorted(path.name for path in folder.iterdir()) == ["out", "trees.csv"]


def test_force_replaces_also_where_names_are_not_utf8(program, frame, tmp_path):
    data, out = "trees.csv", "out"
    if sys.platform == "linux":
        data, out = os.fsdecode(b"b\xe4ume.csv"), os.fsdecode(b"erg\xe4nzt")
    frame.to_csv(tmp_path / data, index=False)
    (tmp_path / out).mkdir()
    (tmp_path / out / "summary.json").write_text("old", encoding="utf-8")
    (tmp_path / out / "mine.txt").write_text("mine", encoding="utf-8")
    command = ("fit", data, "--label", "kind", "--exclude", "name", "--out", out, "--force", "--quiet")
    done = program(*command, *QUICK, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / out / "summary.json").read_text(encoding="utf-8"))["data"]["file"] == data
    (tmp_path / out / "report.html").read_text(encoding="utf-8")
    scored = program("evaluate", f"{out}/model.marmix", data, "--label", "kind", "--json", cwd=tmp_path)
    assert json.loads(scored.stdout)["file"] == data
    assert (tmp_path / out / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_predictions_of_the_file_are_those_of_the_fit(program, fitted):
    folder, _ = fitted
    done = program("predict", "out/model.marmix", "trees.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    predicted = list(csv.reader(done.stdout.splitlines()))
    imputed = cells(folder / "out" / "imputed.csv")
    assert [row[:4] for row in predicted] == [row[:4] for row in imputed]
    assert predicted[0][4] == "marmix_label"
    assert [row[5:] for row in predicted[1:]] == [row[6:] for row in imputed[1:]]
    assert "300 rows" in done.stderr


def test_predictions_of_a_file_without_labels_go_to_a_file(program, fitted, frame, tmp_path):
    folder, _ = fitted
    frame.drop(columns=["kind", "name"]).to_parquet(tmp_path / "new.parquet")
    done = program("predict", folder / "out" / "model.marmix", "new.parquet", "--out", "p.csv", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    rows = pd.read_csv(tmp_path / "p.csv")
    assert result["rows"] == len(rows) == 300
    assert result["labels"] == rows["marmix_label"].value_counts().to_dict()
    again = program("predict", folder / "out" / "model.marmix", "new.parquet", "--out", "p.csv", cwd=tmp_path)
    assert again.returncode == 1
    assert "--force" in again.stderr


def test_scores_are_those_of_the_predictions(program, fitted, tmp_path):
    folder, _ = fitted
    drawn = make_mar_mixture(500, rate=0.5, at_least=5, random_state=4)
    truth = np.where(drawn.target_true == 1, "oak", "elm")
    test = pd.DataFrame({"height": drawn.data[:, 0], "width": drawn.data[:, 1], "truth": truth})
    test.to_csv(tmp_path / "test.csv", index=False)
    done = program("evaluate", folder / "out" / "model.marmix", "test.csv", "--label", "truth", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    proba = marmix.load(folder / "out" / "model.marmix").predict_proba(test)
    scores = {score["name"]: score["value"] for score in result["scores"]}
    right = np.array(["elm", "oak"])[proba.argmax(axis=1)] == truth
    assert scores["accuracy"] == pytest.approx(right.mean())
    assert scores["log-loss"] == pytest.approx(-np.log(proba[np.arange(500), (truth == "oak").astype(int)]).mean())
    assert np.trace(result["confusion"]) == right.sum()
    assert result["corrected"] is False
    assert not any("rows of the fit" in note for note in result["notes"])


def test_a_european_file_has_the_scores_and_predictions_of_the_plain_one_and_says_what_it_is(
    program, fitted, frame, tmp_path
):
    model = fitted[0] / "out" / "model.marmix"
    text = frame.to_csv(index=False, sep=";", decimal=",")
    (tmp_path / "europe.csv").write_bytes(f"Bäume;;;\n\n{text}".encode("cp1252"))
    frame.to_csv(tmp_path / "plain.csv", index=False)
    scores, rows = {}, {}
    for name in ("plain", "europe"):
        done = program("evaluate", model, f"{name}.csv", "--label", "kind", "--json", cwd=tmp_path)
        scores[name] = json.loads(done.stdout) | {"file": ""}
        said = complaints(done.stderr)
        assert len(said) == (4 if name == "europe" else 0)
        for option, word in (("--encoding", "cp1252"), ("--delimiter", "semicolon"), ("--header-row", "line 3")):
            assert any(option in line and word in line for line in said) is (name == "europe")
        done = program("predict", model, f"{name}.csv", "--out", f"{name}.out.csv", "--quiet", cwd=tmp_path)
        assert done.stderr == ""
        how = {"sep": ";", "decimal": ","} if name == "europe" else {}
        rows[name] = pd.read_csv(tmp_path / f"{name}.out.csv", **how)
    assert scores["plain"] == scores["europe"]
    pd.testing.assert_frame_equal(rows["plain"], rows["europe"])


def test_scores_are_corrected_where_labels_are_missing(program, fitted):
    folder, _ = fitted
    done = program("evaluate", "out/model.marmix", "trees.csv", "--json", cwd=folder)
    result = json.loads(done.stdout)
    assert result["corrected"] is True
    assert any("rows of the fit" in note for note in result["notes"])
    scores = {score["name"]: score for score in result["scores"]}
    assert scores["log-loss"]["value"] > scores["log-loss"]["plain"]  # the labelled rows are the easy ones
    text = program("evaluate", "out/model.marmix", "trees.csv", "--label", "kind", cwd=folder).stdout
    assert "accuracy" in text


def test_sensitivity_prints_the_sweep_and_draws_it(program, fitted, frame, tmp_path):
    folder, _ = fitted
    command = ("sensitivity", "out/model.marmix", "trees.csv", "--draws", "20")
    done = program(*command, "--odds", "1/2", "2", "--class", "oak", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["odds_ratio"] == pytest.approx([0.5, 1.0, 2.0])
    assert (result["rows"], result["unlabelled"], result["class"]) == (300, (frame["kind"] == "").sum(), "oak")
    proba = np.array([float(row[-3]) for row in cells(folder / "out" / "imputed.csv")[1:]])
    assert cells(folder / "out" / "imputed.csv")[0][-3] == "marmix_p_oak"
    given = frame["kind"].to_numpy()
    expected = ((given == "oak").sum() + proba[given == ""].sum()) / 300
    assert result["shares"][1][1] == pytest.approx(expected, abs=1e-6)
    plot = tmp_path / "what if.svg"
    text = program(*command, "--label", "kind", "--delta", "-0.7", "0.7", "--plot", plot, cwd=folder).stdout
    assert "odds ratio 2 " in text
    assert plot.read_bytes().startswith(b"<svg")
    summary = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))["sensitivity"]
    assert summary["odds_ratio"][4] == 1.0
    assert summary["changed"][4] == 0.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--class", "fir"], "--class 'fir' is not one of the classes elm, oak"),
        (["--label", "height"], "--label"),
    ],
)
def test_sensitivity_refuses_what_it_cannot_vary(program, fitted, options, words):
    done = program("sensitivity", "out/model.marmix", "trees.csv", "--draws", "2", *options, cwd=fitted[0])
    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.parametrize("ratio", ["0", "-1", "half", "1/0"])
def test_odds_ratios_are_positive(program, fitted, ratio):
    with pytest.raises(SystemExit):
        program("sensitivity", "out/model.marmix", "trees.csv", f"--odds={ratio}", cwd=fitted[0])


def test_the_report_of_a_saved_model_is_that_of_the_fit(program, fitted, tmp_path):
    folder, _ = fitted
    done = program("report", "out/model.marmix", "trees.csv", "--out", tmp_path / "report.html", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    result, before = json.loads(done.stdout), json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))
    for part in ("data", "labels", "model", "missingness", "comparison", "rival", "statistical", "scores", "estimates"):
        assert result[part] == before[part], part


def test_the_report_of_other_rows_says_that_they_are_others(program, fitted, frame, tmp_path):
    folder, _ = fitted
    frame.iloc[:200].to_csv(tmp_path / "other.csv", index=False)
    done = program("report", folder / "out" / "model.marmix", "other.csv", "--out", "r.html", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["estimates"] == []
    assert result["comparison"]["helped"] is None
    assert "not fitted to" in result["scored_on"]


def test_info_tells_what_a_model_is(program, fitted):
    folder, _ = fitted
    text = program("info", "out/model.marmix", cwd=folder).stdout
    for word in ("elm", "oak", "height", marmix.__version__):
        assert word in text
    header = json.loads(program("info", "out/model.marmix", "--json", cwd=folder).stdout)
    assert header["about"]["label"] == "kind"


@pytest.mark.parametrize(
    ("kind", "marker"),
    [
        ("csv", "unknown"),
        pytest.param("tsv", "?", marks=pytest.mark.long),
        ("parquet", None),
        pytest.param("feather", "-1", marks=pytest.mark.long),
        ("xlsx", ""),
    ],
)
def test_every_kind_of_file_and_every_marker_of_a_missing_label_give_the_same_labels(kind, marker, frame, tmp_path):
    path, out = tmp_path / f"trees.{kind}", tmp_path / "out"
    rows = frame.assign(kind=frame["kind"].replace("", marker))
    how = {"csv": EUROPEAN, "tsv": {"sep": "\t"}}.get(kind, {})
    if how:
        rows.to_csv(path, index=False, **how)
    elif kind == "xlsx":
        rows.to_excel(path, index=False)
    else:
        getattr(rows, f"to_{kind}")(path)
    labels = ["--label", "kind", "--id", "name", *(["--missing", "unknown"] if marker == "unknown" else [])]
    assert main(["fit", str(path), *labels, *QUICK, "--out", str(out), "--quiet"]) == 0
    written = pd.read_csv(out / "imputed.csv", keep_default_na=False, **how)
    pd.testing.assert_frame_equal(written[["height", "width"]], frame[["height", "width"]])
    assert all(written[name].between(0, 1).all() for name in ("marmix_p_elm", "marmix_p_oak"))
    notes = " ".join(json.loads((out / "summary.json").read_text(encoding="utf-8"))["data"]["notes"])
    assert all((word in notes) is (kind == "csv") for word in ("UTF-16", "semicolons", "decimal comma"))
    features = frame[["height", "width"]]
    model = marmix.load(out / "model.marmix")[-1]
    again = MARClassifierCV(estimators=model.estimators, cv=2).fit(features, frame["kind"].replace("", None))
    np.testing.assert_array_equal(written["marmix_label"], again.transduction_)


def test_categories_become_columns_and_missing_features_are_filled_or_dropped(frame, tmp_path):
    rng = np.random.default_rng(0)
    soil = np.where(rng.random(300) < 0.5, "clay", np.where(rng.random(300) < 0.5, "sand", "peat"))
    rows = frame.assign(soil=soil, height=frame["height"].astype(object))
    rows.loc[5:14, "height"] = ""
    rows.to_csv(tmp_path / "trees.csv", index=False)
    base = ["fit", str(tmp_path / "trees.csv"), "--label", "kind", "--id", "name", "--quiet", *QUICK]
    assert main([*base, "--out", str(tmp_path / "median")]) == 0
    assert main([*base, "--impute-features", "drop", "--out", str(tmp_path / "drop")]) == 0
    filled = json.loads((tmp_path / "median" / "summary.json").read_text(encoding="utf-8"))
    assert filled["data"]["columns"] == ["height", "width", "soil=peat", "soil=sand"]
    assert filled["data"]["incomplete_rows"] == 10
    assert "median" in filled["data"]["rule"]
    left = pd.read_csv(tmp_path / "drop" / "imputed.csv", keep_default_na=False)
    assert list(left["name"]) == list(frame["name"])  # in the same order
    gone = left.iloc[5:15]
    assert (gone["marmix_p_oak"] == "").all()
    assert (gone["marmix_label"] == gone["kind"]).all()
    assert (left.drop(index=range(5, 15))["marmix_label"] != "").all()
    dropped = json.loads((tmp_path / "drop" / "summary.json").read_text(encoding="utf-8"))
    assert dropped["labels"]["unfilled"] == (gone["kind"] == "").sum()


def test_formulas_are_reported_or_escaped(frame, tmp_path, capsys):
    rows = frame.assign(
        note=["=cmd()" if i % 2 else "fine" for i in range(300)], kind=frame["kind"].replace("oak", "@oak")
    )
    rows.to_csv(tmp_path / "trees.csv", index=False)
    base = ["fit", str(tmp_path / "trees.csv"), "--label", "kind", "--id", "name", "--exclude", "note", *QUICK]
    assert main([*base, "--out", str(tmp_path / "plain")]) == 0
    assert "--escape-formulas" in capsys.readouterr().out
    kept = pd.read_csv(tmp_path / "plain" / "imputed.csv")
    assert kept["note"][1] == "=cmd()"
    assert main([*base, "--out", str(tmp_path / "safe"), "--escape-formulas", "--quiet"]) == 0
    for row in cells(tmp_path / "safe" / "imputed.csv"):
        assert not any(cell.startswith(("=", "@", "+")) for cell in row)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit nowhere.csv --label kind --out out", "nowhere.csv"),
        ("fit trees.csv --label knd --out out", "'kind'"),
        ("fit trees.csv --label kind --features hight --out out", "'height'"),
        ("fit trees.csv --label height --exclude name --out out", "Label column 'height'"),
        ("fit trees.csv --label kind --exclude name --out trees.csv", "trees.csv"),
        ("predict trees.csv trees.csv", "trees.csv"),
        ("evaluate no.marmix trees.csv --label kind", "no.marmix"),
        ("info trees.csv", "trees.csv"),
    ],
)
def test_errors_take_at_most_two_lines_and_leave_nothing(command, words, frame, tmp_path, program):
    frame.to_csv(tmp_path / "trees.csv", index=False)
    done = program(*command.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert words in done.stderr
    assert len(complaints(done.stderr)) <= 2
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["trees.csv"]


@pytest.mark.parametrize("cell", ["x" * 5000, "5\x1b[31m"])
@pytest.mark.parametrize("columns", [1, 2])
def test_no_option_is_suggested_that_nobody_can_type(program, tmp_path, cell, columns):
    row = ",".join([*[cell] * columns, *["3"] * (2 - columns), "yes"])
    lines = ["a,b,y", row, *(f"{i}.5,{-i}.25,{'no' if i % 2 else 'yes'}" for i in range(40))]
    (tmp_path / "f.csv").write_text("\n".join(lines), encoding="utf-8")
    done = program("fit", "f.csv", "--label", "y", "--out", "out", cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert "ata row 1" in done.stderr
    assert "--missing-cells" not in done.stderr
    assert len(done.stderr) < 1000
    assert "\x1b" not in done.stderr


def test_debug_shows_the_traceback_without_control_characters(program, tmp_path):
    done = program("fit", "nowhere\x1b[31m.csv", "--label", "kind", "--out", "out", "--debug", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert r"nowhere\u001b[31m.csv" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_fit_that_did_not_converge_has_exit_code_3(frame, tmp_path, monkeypatch, program):
    frame.to_csv(tmp_path / "trees.csv", index=False)

    def short(*arguments):
        return {name: model.set_params(max_iter=1) for name, model in candidates_of(*arguments).items()}

    monkeypatch.setattr("marmix.journey.fit.candidates_of", short)
    arguments = ["--label", "kind", "--id", "name", *QUICK, "--out", "out"]
    done = program("fit", "trees.csv", *arguments, cwd=tmp_path)
    assert done.returncode == 3
    assert "did not converge" in done.stderr
    assert json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["model"]["converged"] is False


def test_the_demo_fits_and_names_its_report(program, tmp_path, demonstration):
    (tmp_path / "marmix-demo").mkdir()
    done = program("demo", "--splits", "0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.splitlines()[-1].removeprefix("Report: "))
    assert (tmp_path / report).is_file()
    folder = tmp_path / "marmix-demo-2"
    assert report.parent == Path(folder.name)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    truth = pd.read_csv(folder / "truth.csv")["diagnosis"]
    rows = pd.read_csv(folder / "imputed.csv")
    imputed = rows["marmix_source"] == "imputed"
    right = (rows["marmix_label"] == truth)[imputed].sum()
    assert f"{right} of {summary['labels']['imputed']} imputed labels are right" in done.stdout
    assert demonstration.printed["right"] == right


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells_learn_every_command(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in ("fit", "predict", "evaluate", "sensitivity", "report", "info", "demo"):
        assert command in script
    assert "escape-formulas" in script or "escape_formulas" in script


def shell(folder, command):
    """A command line of bash; it runs the program by `marmix`."""
    words = ["bash", "-c", command.replace("marmix", f"{sys.executable} -m marmix", 1)]
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, check=False, encoding="utf-8"
    )


@pytest.mark.posix_only("a shell")
def test_a_closed_pipe_is_no_error(fitted):
    done = shell(fitted[0], "marmix predict out/model.marmix trees.csv --quiet | head -1")
    assert done.stdout.startswith("name,height,width,kind,marmix_label")
    assert done.stderr == ""


def test_without_a_terminal_progress_is_a_line_every_five_seconds_whatever_is_running(monkeypatch, capsys):
    clocks = []

    class Clock:
        def __init__(self, target, args, daemon):
            clocks.append((target, *args))

        def start(self):
            pass

        join = start

    class Ended(list):
        """An event that comes in the second wait."""

        def wait(self, seconds):
            self.append(seconds)
            step(0.3, "C=10")
            return len(self) > 1

    monkeypatch.setattr(progress, "Thread", Clock)
    monkeypatch.setattr(progress, "monotonic", iter([0.0, 5.0, 10.0]).__next__)
    with progress.Progress().phase("comparing") as step:
        step(0.2, "C=1")
        ((repeat, show, every, _),) = clocks
        show()
        step(0.1)  # it never goes back
        repeat(show, every, ended := Ended())
    assert ended == [5.0] * 2
    assert capsys.readouterr() == ("", "comparing: 20% (C=1), 5 s\ncomparing: 30% (C=10), 10 s\n")


# The program with a fit that never ends; signals have their default handlers even if this process ignores them.
ENDLESS = """
import signal, sys, time
from marmix import MARGaussianMixture
from marmix.cli import main

def endless(model, *rows, **weights):
    print("fitting", flush=True)
    while True:
        time.sleep(0.01)

MARGaussianMixture.fit = endless
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.posix_only("signals")
@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param("SIGINT", 130, marks=LONG), ("SIGTERM", 143), pytest.param("SIGHUP", 129, marks=LONG)],
)
def test_a_terminated_fit_leaves_nothing(name, code, frame, tmp_path):
    frame.to_csv(tmp_path / "trees.csv", index=False)
    command = [sys.executable, "-c", ENDLESS, "fit", "trees.csv", "--label", "kind", "--id", "name", "--out", "out"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, env=ENVIRONMENT, **pipes, encoding="utf-8") as running:
        assert running.stdout.readline() == "fitting\n"
        assert len(list(tmp_path.iterdir())) == 3  # with a hidden folder and its lock
        running.send_signal(getattr(signal, name))
        _, stderr = running.communicate()
    assert running.returncode == code
    assert "Traceback" not in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["trees.csv"]


def test_an_interrupted_fit_leaves_nothing(frame, tmp_path, program, monkeypatch):
    def interrupted(*arguments):
        assert len(list(tmp_path.iterdir())) == 3
        raise KeyboardInterrupt

    monkeypatch.setattr("marmix.journey.fit.candidates_of", interrupted)
    frame.to_csv(tmp_path / "trees.csv", index=False)
    done = program("fit", "trees.csv", "--label", "kind", "--id", "name", "--out", "out", cwd=tmp_path)
    assert done.returncode == 130
    assert complaints(done.stderr) == ["marmix fit: interrupted"]
    assert [path.name for path in tmp_path.iterdir()] == ["trees.csv"]


def test_characters_that_the_terminal_lacks_are_no_error(frame, tmp_path, monkeypatch):
    frame.assign(kind=frame["kind"].replace("oak", "żołądź")).to_csv(tmp_path / "trees.csv", index=False)
    monkeypatch.chdir(tmp_path)

    def plain(*arguments):
        """What the program prints where a terminal knows ASCII alone."""
        for stream in ("stdout", "stderr"):
            monkeypatch.setattr(sys, stream, io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        assert main(arguments) == 0
        sys.stderr.flush()
        assert complaints(sys.stderr.buffer.getvalue().decode("ascii")) == []
        return sys.stdout.buffer.getvalue().decode("ascii")

    fit = ("fit", "trees.csv", "--label", "kind", "--exclude", "name", "--out", "out", *QUICK)
    assert "\\u017co\\u0142\\u0105d\\u017a" in plain(*fit)
    evaluate = ("evaluate", "out/model.marmix", "trees.csv", "--label", "kind", "--json")
    assert json.loads(plain(*evaluate))["classes"] == ["elm", "żołądź"]


def check_lost_output(done):
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "--out" in done.stderr


def test_a_closed_standard_output_is_reported(program, fitted, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        check_lost_output(program("predict", "out/model.marmix", "trees.csv", "--quiet", cwd=fitted[0]))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["predict out/model.marmix trees.csv --quiet", "info out/model.marmix"])
def test_a_full_disk_is_reported_in_one_line(command, program, fitted):
    full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 - what is left in its buffer cannot be written when it is closed
    with redirect_stdout(full):
        check_lost_output(program(*command.split(), cwd=fitted[0]))
    with contextlib.suppress(OSError):
        full.close()


@LONG
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("output", [">&-", "> /dev/full"])
def test_lost_output_is_reported_by_the_process_too(output, fitted):
    check_lost_output(shell(fitted[0], f"marmix predict out/model.marmix trees.csv --quiet {output}"))
