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
from quick import usual_fits
from test_findings import check_identities, check_page

import marmix
from marmix import MARClassifierCV
from marmix.app.demo import fresh_folder
from marmix.app.fit import FILES
from marmix.app.models import candidates_of
from marmix.cli import main, parser_of_all
from marmix.datasets import make_mar_mixture
from marmix.terminal import Progress

pytestmark = pytest.mark.usefixtures("quick_figures")
LONG = pytest.mark.long  # a further case of the same property, in another process
QUICK = ("--model", "logistic")  # of a fit whose model does not matter
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
EUROPEAN = {"sep": ";", "decimal": ",", "encoding": "utf-16"}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def complaints(stderr):
    """Lines of standard error except progress, which depends on the speed of the machine."""
    return [
        line
        for line in stderr.splitlines()
        if not re.fullmatch(r"[a-z ]+: (\d+%.*, \d+ s|.* are compared on .*)|[^:]+: Classes: .*", line)
    ]


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
    """Two hundred rows with two features, a name each, and labels of which the hard ones are missing."""
    drawn = make_mar_mixture(200, rate=0.5, at_least=5, random_state=3)
    return pd.DataFrame(
        {
            "name": [f"row {i:03d}" for i in range(200)],
            "height": drawn.data[:, 0].round(4),
            "width": drawn.data[:, 1].round(4),
            "kind": np.where(drawn.target < 0, "", np.where(drawn.target == 1, "oak", "elm")),
        }
    )


@pytest.fixture(scope="module")
def fitted(frame, tmp_path_factory, quick_figures):
    """The folder of a fit exactly as users get it, and what the program printed."""
    folder, out, err = tmp_path_factory.mktemp("fit"), io.StringIO(), io.StringIO()
    frame.to_csv(folder / "trees.csv", index=False)
    with contextlib.chdir(folder), redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        usual_fits(patch)
        code = main(["fit", "trees.csv", "--label", "kind", "--id", "name", "--out", "out"])
    assert code == 0, err.getvalue()
    return folder, Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def summary(fitted):
    return json.loads((fitted[0] / "out" / "summary.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def small(frame, tmp_path_factory, quick_figures):
    """The folder of a small fit."""
    folder = tmp_path_factory.mktemp("small")
    frame.to_csv(folder / "trees.csv", index=False)
    with contextlib.chdir(folder):
        assert main(["fit", "trees.csv", "--label", "kind", "--id", "name", "--out", "out", "--quiet", *QUICK]) == 0
    return folder


def cells(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_a_fit_writes_its_four_files_and_prints_a_summary_of_80_columns(fitted):
    folder, done = fitted
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted(FILES)
    assert complaints(done.stderr) == []
    assert "fitting: models are compared on 200 rows" in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) < 50
    assert max(map(len, lines)) <= 80


def test_the_columns_of_the_file_come_through_and_every_row_keeps_its_label_or_gets_the_most_probable_one(fitted):
    folder, _ = fitted
    before, after = cells(folder / "trees.csv"), cells(folder / "out" / "imputed.csv")
    assert [row[:4] for row in after] == before
    assert after[0][4:] == [
        "marmix_label", "marmix_source", "marmix_p_elm", "marmix_p_oak", "marmix_uncertainty", "marmix_missing_proba",
    ]  # fmt: skip
    rows = pd.read_csv(folder / "out" / "imputed.csv", keep_default_na=False)
    given = rows["kind"] != ""
    assert (rows.loc[given, "marmix_label"] == rows.loc[given, "kind"]).all()
    assert (rows["marmix_source"] == np.where(given, "given", "imputed")).all()
    proba = rows[["marmix_p_elm", "marmix_p_oak"]].to_numpy(float)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-5)
    assert (rows.loc[~given, "marmix_label"] == np.array(["elm", "oak"])[proba.argmax(axis=1)][~given]).all()
    p = np.clip(proba, 1e-300, 1)
    np.testing.assert_allclose(rows["marmix_uncertainty"], -(p * np.log(p)).sum(axis=1) / np.log(2), atol=1e-4)


def test_the_saved_model_predicts_the_same_in_python_and_is_the_average_of_the_library(fitted, frame, summary):
    folder, _ = fitted
    model = marmix.load(folder / "out" / "model.marmix")
    rows = pd.read_csv(folder / "out" / "imputed.csv")
    np.testing.assert_allclose(model.predict_proba(frame), rows[["marmix_p_elm", "marmix_p_oak"]], atol=1e-6)
    q = model[-1].missing_proba(model[:-1].transform(frame))
    np.testing.assert_allclose(q, rows["marmix_missing_proba"], atol=1e-6)
    weights = model[-1].weights_
    assert sum(weights.values()) == pytest.approx(1.0)
    shown = [row["weight"] for row in summary["model"]["candidates"] if row["weight"] > 0]
    assert sorted(shown) == sorted(weight for weight in weights.values() if weight > 0)


def test_the_summary_counts_what_the_rows_say(fitted, summary):
    rows = pd.read_csv(fitted[0] / "out" / "imputed.csv", keep_default_na=False)
    missing = rows["kind"] == ""
    assert summary["data"]["rows"] == 200
    assert summary["labels"]["missing"] == summary["labels"]["imputed"] == missing.sum()
    for facts in summary["labels"]["classes"]:
        assert facts["given"] == (rows["kind"] == facts["name"]).sum()
        assert facts["imputed"] == (missing & (rows["marmix_label"] == facts["name"])).sum()
    assert summary["reproduction"]["command"] == "marmix fit trees.csv --label kind --id name --out out"


def test_the_summary_the_terminal_and_the_page_agree(fitted, summary):
    folder, done = fitted
    check_identities(summary)
    check_page(summary, (folder / "out" / "report.html").read_text(encoding="utf-8"), done.stdout)


def test_the_command_of_the_report_makes_the_same_files_again(program, small, tmp_path):
    (tmp_path / "trees.csv").write_bytes((small / "trees.csv").read_bytes())
    before = json.loads((small / "out" / "summary.json").read_text(encoding="utf-8"))
    assert program(*before["reproduction"]["command"].split()[1:], cwd=tmp_path).returncode == 0
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (small / "out" / name).read_bytes()


def test_nothing_is_overwritten_without_force(program, small):
    before = {name: (small / "out" / name).read_bytes() for name in FILES}
    refused = program("fit", "trees.csv", "--label", "kind", "--out", "out", "--seed", "1", cwd=small)
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert {name: (small / "out" / name).read_bytes() for name in FILES} == before
    assert sorted(path.name for path in small.iterdir()) == ["out", "trees.csv"]


def test_force_replaces_also_where_names_are_not_utf8(program, frame, tmp_path):
    data, out = "trees.csv", "out"
    if sys.platform == "linux":
        data, out = os.fsdecode(b"b\xe4ume.csv"), os.fsdecode(b"erg\xe4nzt")
    frame.to_csv(tmp_path / data, index=False)
    (tmp_path / out).mkdir()
    (tmp_path / out / "summary.json").write_text("old", encoding="utf-8")
    (tmp_path / out / "mine.txt").write_text("mine", encoding="utf-8")
    command = ("fit", data, "--label", "kind", "--exclude", "name", "--out", out, "--force", "--quiet")
    assert program(*command, *QUICK, cwd=tmp_path) == (0, "", "")
    assert json.loads((tmp_path / out / "summary.json").read_text(encoding="utf-8"))["data"]["file"] == data
    (tmp_path / out / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / out / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_predictions_of_the_file_are_those_of_the_fit(program, fitted):
    folder, _ = fitted
    done = program("predict", "out/model.marmix", "trees.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    predicted = list(csv.reader(done.stdout.splitlines()))
    imputed = cells(folder / "out" / "imputed.csv")
    assert [row[:4] for row in predicted] == [row[:4] for row in imputed]
    assert [row[5:] for row in predicted[1:]] == [row[6:] for row in imputed[1:]]
    counts = pd.Series([row[4] for row in predicted[1:]]).value_counts()
    assert all(f"{counts[name]} {name}" in done.stderr for name in ("elm", "oak"))


def test_scores_are_those_of_the_predictions(program, small, tmp_path):
    drawn = make_mar_mixture(500, rate=0.5, at_least=5, random_state=4)
    truth = np.where(drawn.target_true == 1, "oak", "elm")
    test = pd.DataFrame({"height": drawn.data[:, 0], "width": drawn.data[:, 1], "truth": truth})
    test.to_csv(tmp_path / "test.csv", index=False)
    done = program("evaluate", small / "out" / "model.marmix", "test.csv", "--label", "truth", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    proba = marmix.load(small / "out" / "model.marmix").predict_proba(test)
    scores = {score["name"]: score["value"] for score in result["scores"]}
    right = np.array(["elm", "oak"])[proba.argmax(axis=1)] == truth
    assert scores["accuracy"] == pytest.approx(right.mean())
    assert scores["log-loss"] == pytest.approx(-np.log(proba[np.arange(500), (truth == "oak").astype(int)]).mean())
    assert np.trace(result["confusion"]) == right.sum()
    assert result["corrected"] is False
    assert not any("rows of the fit" in note for note in result["notes"])


def test_a_european_file_has_the_scores_and_predictions_of_the_plain_one_and_says_what_it_is(
    program, small, frame, tmp_path
):
    model = small / "out" / "model.marmix"
    text = frame.to_csv(index=False, sep=";", decimal=",")
    (tmp_path / "europe.csv").write_bytes(f"Bäume;;;\n\n{text}".encode("cp1252"))
    frame.to_csv(tmp_path / "plain.csv", index=False)
    scores, rows = {}, {}
    for name in ("plain", "europe"):
        done = program("evaluate", model, f"{name}.csv", "--label", "kind", "--json", cwd=tmp_path)
        scores[name] = json.loads(done.stdout) | {"file": ""}
        said = complaints(done.stderr)
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
    result = json.loads(program("evaluate", "out/model.marmix", "trees.csv", "--json", cwd=folder).stdout)
    assert result["corrected"] is True
    assert any("rows of the fit" in note for note in result["notes"])
    scores = {score["name"]: score for score in result["scores"]}
    assert scores["log-loss"]["value"] > scores["log-loss"]["plain"]  # the labelled rows are the easy ones
    text = program("evaluate", "out/model.marmix", "trees.csv", "--label", "kind", cwd=folder).stdout
    assert f"{scores['accuracy']['value']:.4f}" in text


def test_sensitivity_prints_the_sweep_and_draws_it(program, small, frame, tmp_path):
    command = ("sensitivity", "out/model.marmix", "trees.csv")
    done = program(*command, "--odds", "1/2", "2", "--class", "oak", "--json", cwd=small)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["odds_ratio"] == pytest.approx([0.5, 1.0, 2.0])
    assert (result["rows"], result["unlabelled"], result["class"]) == (200, (frame["kind"] == "").sum(), "oak")
    proba = np.array([float(row[-3]) for row in cells(small / "out" / "imputed.csv")[1:]])
    given = frame["kind"].to_numpy()
    expected = ((given == "oak").sum() + proba[given == ""].sum()) / 200
    assert result["shares"][1][1] == pytest.approx(expected, abs=1e-6)
    plot = tmp_path / "what if.svg"
    text = program(*command, "--label", "kind", "--odds", "2", "--plot", plot, cwd=small).stdout
    assert "odds ratio 2 " in text
    assert plot.read_bytes().startswith(b"<svg")


@pytest.mark.parametrize("options", [["--class", "fir"], ["--label", "height"]])
def test_sensitivity_refuses_what_it_cannot_vary(program, small, options):
    done = program("sensitivity", "out/model.marmix", "trees.csv", *options, cwd=small)
    assert done.returncode == 1
    assert options[0] in done.stderr
    assert options[1] in done.stderr


@pytest.mark.parametrize("ratio", ["0", "-1", "half", "1/0", "nan"])
def test_odds_ratios_are_positive(program, small, ratio):
    with pytest.raises(SystemExit):
        program("sensitivity", "out/model.marmix", "trees.csv", f"--odds={ratio}", cwd=small)


def test_the_report_of_a_saved_model_is_that_of_the_fit_and_of_other_rows_says_so(
    program, tmp_path, frame, monkeypatch
):
    monkeypatch.setattr("marmix.app.analyse.FOLDS", 5)  # a report on the rows of a fit uses the folds of its model
    frame.to_csv(tmp_path / "trees.csv", index=False)
    fit = ("fit", "trees.csv", "--label", "kind", "--id", "name", "--out", "out", "--json", *QUICK)
    before = json.loads(program(*fit, cwd=tmp_path).stdout)
    done = program("report", "out/model.marmix", "trees.csv", "--out", "report.html", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for part in ("data", "labels", "model", "missingness", "comparison", "rival", "statistical", "estimates"):
        assert result[part] == before[part], part
    frame.iloc[:150].to_csv(tmp_path / "other.csv", index=False)
    done = program("report", "out/model.marmix", "other.csv", "--out", "r.html", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["estimates"] == []
    assert result["comparison"]["better"] is None
    assert "not fitted to" in result["scored_on"]


def test_info_tells_what_a_model_is(program, small):
    text = program("info", "out/model.marmix", cwd=small).stdout
    assert all(word in text for word in ("elm", "oak", "height", marmix.__version__))
    header = json.loads(program("info", "out/model.marmix", "--json", cwd=small).stdout)
    assert header["about"]["label"] == "kind"


@pytest.mark.parametrize(
    ("kind", "marker"),
    [
        ("csv", "unknown"),
        pytest.param("tsv", "?", marks=LONG),
        pytest.param("parquet", None, marks=LONG),
        pytest.param("feather", "-1", marks=LONG),
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
    features = frame[["height", "width"]]
    model = marmix.load(out / "model.marmix")[-1]
    again = MARClassifierCV(estimators=model.estimators, cv=2).fit(features, frame["kind"].replace("", None))
    np.testing.assert_array_equal(written["marmix_label"], again.transduction_)


def test_rows_with_a_missing_feature_can_be_left_without_an_imputed_label(frame, tmp_path):
    rows = frame.assign(height=frame["height"].astype(object))
    rows.loc[5:14, "height"] = ""
    rows.to_csv(tmp_path / "trees.csv", index=False)
    out = tmp_path / "out"
    command = ["fit", str(tmp_path / "trees.csv"), "--label", "kind", "--id", "name", "--impute-features", "drop"]
    assert main([*command, "--out", str(out), "--quiet", *QUICK]) == 0
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["data"]["incomplete_rows"] == 10
    left = pd.read_csv(out / "imputed.csv", keep_default_na=False)
    assert list(left["name"]) == list(frame["name"])  # in the same order
    gone = left.iloc[5:15]
    assert (gone["marmix_p_oak"] == "").all()
    assert (gone["marmix_label"] == gone["kind"]).all()
    assert (left.drop(index=range(5, 15))["marmix_label"] != "").all()
    assert summary["labels"]["unfilled"] == (gone["kind"] == "").sum()


def test_formulas_are_reported_or_escaped(program, small, frame, tmp_path):
    rows = frame.drop(columns="kind").assign(note=["=cmd()" if i % 2 else "fine" for i in range(200)])
    rows.to_csv(tmp_path / "trees.csv", index=False)
    command = ("predict", small / "out" / "model.marmix", "trees.csv", "--out")
    assert "--escape-formulas" in program(*command, "plain.csv", cwd=tmp_path).stdout
    assert pd.read_csv(tmp_path / "plain.csv")["note"][1] == "=cmd()"
    assert "formula" not in program(*command, "safe.csv", "--escape-formulas", cwd=tmp_path).stdout
    for row in cells(tmp_path / "safe.csv"):
        assert not any(cell.startswith(("=", "@", "+")) for cell in row)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit nowhere.csv --label kind --out out", "nowhere.csv"),
        ("fit trees.csv --label knd --out out", "'kind'"),
        ("fit trees.csv --label kind --features hight --out out", "'height'"),
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
    assert [path.name for path in tmp_path.iterdir()] == ["trees.csv"]


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

    monkeypatch.setattr("marmix.app.analyse.candidates_of", short)
    done = program("fit", "trees.csv", "--label", "kind", "--id", "name", *QUICK, "--out", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["model"]["converged"] is False


def test_the_demo_compares_what_fit_and_audit_say_with_the_biopsies(program, tmp_path, demonstration):
    folder, printed = demonstration.folder, demonstration.printed
    truth = pd.read_csv(folder / "biopsies.csv")["finding"]
    known = pd.read_csv(folder / "mammography.csv")["finding"].notna()
    drawn = pd.read_csv(folder / "audit.csv")["marmix_row"] - 1
    for place, of, name in (
        (folder, ~known, "wrong"),
        (folder / "audited", ~known & ~known.index.isin(drawn), "remaining"),
    ):
        rows = pd.read_csv(place / "imputed.csv")
        assert ((rows["marmix_source"] == "imputed") == of).all()
        assert printed["true"][name] == (rows["marmix_label"] != truth)[of].sum()
        assert (rows["marmix_label"] == truth)[~of].all()
    assert len(drawn) == printed["audited"]["audit"]["n_audited"] == 20
    assert printed["audited"]["verdict"]["wrong"] == printed["audited"]["audit"]["remaining"]
    again = program("demo", "--out", folder, cwd=tmp_path)
    assert again.returncode == 1
    assert "--force" in again.stderr
    (tmp_path / "marmix-demo").mkdir()
    assert fresh_folder() == Path("marmix-demo-2")


@pytest.mark.parametrize("accept", ["5%", "0.05"])
def test_the_accepted_share_of_wrong_labels_is_in_the_verdict_and_in_the_audit(accept, program, small, tmp_path):
    fit = ("fit", small / "trees.csv", "--label", "kind", "--id", "name", "--accept", accept, *QUICK)
    done = program(*fit, "--out", "out", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["verdict"]["accept"] == 0.05
    assert program("audit", "out", "--rows", "10", cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))["accept"] == 0.05


def test_every_command_has_a_help_page_with_examples_that_it_takes():
    parser = parser_of_all()
    lines = parser.commands["fit"].format_help().splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    for one in (parser, *parser.commands.values()):
        assert all(parser_of_all().parse_args(command.split()[1:]).run for _, command in one.examples if "eval" not in command
                   and ">" not in command)  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells_learn_every_command(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in parser_of_all().commands)
    assert "escape-formulas" in script or "escape_formulas" in script


def shell(folder, command):
    """A command line of bash; it runs the program by `marmix`."""
    words = ["bash", "-c", command.replace("marmix", f"{sys.executable} -m marmix", 1)]
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, check=False, encoding="utf-8"
    )


@pytest.mark.posix_only("a shell")
def test_a_closed_pipe_is_no_error(small):
    done = shell(small, "marmix predict out/model.marmix trees.csv --quiet | head -1")
    assert done.stdout.startswith("name,height,width,kind,marmix_label")
    assert done.stderr == ""


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_never_goes_back_and_is_a_line_in_a_terminal_and_lines_elsewhere(monkeypatch, capsys, terminal):
    waits = []

    class Thread:
        """One that does its work when it is waited for."""

        def __init__(self, target, daemon):
            self.target = target

        def start(self):
            pass

        def join(self):
            self.target()

    class Event:
        """One that comes in the third wait."""

        def set(self):
            pass

        def wait(self, seconds):
            waits.append(seconds)
            return len(waits) > 2

    monkeypatch.setattr("marmix.terminal.Thread", Thread)
    monkeypatch.setattr("marmix.terminal.Event", Event)
    monkeypatch.setattr("marmix.terminal.monotonic", lambda: 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with Progress().phase("comparing") as step:
        step(0.2, "C=1\x1b[31m")
        step(0.1)  # it never goes back
    printed = capsys.readouterr().err
    assert waits == [1.0 if terminal else 5.0] * 3
    assert "\x1b" not in printed
    assert (printed.count("\r") > 0) is terminal
    assert printed.count("\n") == (0 if terminal else 2)
    assert "20%" in printed
    with Progress(quiet=True).phase("comparing") as step:
        step(0.2, "C=1")
    assert capsys.readouterr() == ("", "")


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
        assert len(list(tmp_path.iterdir())) == 2  # with a hidden folder
        running.send_signal(getattr(signal, name))
        _, stderr = running.communicate()
    assert running.returncode == code
    assert "Traceback" not in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["trees.csv"]


def test_an_interrupted_fit_leaves_nothing(frame, tmp_path, program, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("marmix.app.analyse.candidates_of", interrupted)
    frame.to_csv(tmp_path / "trees.csv", index=False)
    done = program("fit", "trees.csv", "--label", "kind", "--id", "name", "--out", "out", cwd=tmp_path)
    assert done.returncode == 130
    assert complaints(done.stderr) == ["marmix fit: interrupted"]
    assert [path.name for path in tmp_path.iterdir()] == ["trees.csv"]


def test_characters_that_the_terminal_lacks_are_no_error(monkeypatch):
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert main(["info", "żołądź.marmix"]) == 1
    sys.stderr.flush()
    assert r"\u017co\u0142\u0105d\u017a" in sys.stderr.buffer.getvalue().decode("ascii")


def check_lost_output(done):
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "--out" in done.stderr


def test_a_closed_standard_output_is_reported(program, small, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        check_lost_output(program("predict", "out/model.marmix", "trees.csv", "--quiet", cwd=small))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["predict out/model.marmix trees.csv --quiet", "info out/model.marmix"])
def test_a_full_disk_is_reported_in_one_line(command, program, small):
    full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 - what is left in its buffer cannot be written when it is closed
    with redirect_stdout(full):
        check_lost_output(program(*command.split(), cwd=small))
    with contextlib.suppress(OSError):
        full.close()
