"""The survey of a file: everything doubtful in one run, and the options that settle it."""

import argparse
import io
import json
import shlex
import sys

import numpy as np
import pandas as pd
import pytest

from marmix.cli import main, parser_of_all
from marmix.commands.fit import fit_options
from marmix.journey.survey import survey
from marmix.tables import DataFile, Preparation, open_table

PARSER = parser_of_all()
N = 60
RNG = np.random.default_rng(0)
TRUTH = np.arange(N) % 2
HIDDEN = np.arange(N) % 3 == 0
LABELS = np.where(HIDDEN, "", np.array(["elm", "oak"])[TRUTH]).astype(object)
X = (RNG.normal(size=N) + 2 * TRUTH).round(3)
WORDS = np.array(["north", "south", "east"])[RNG.integers(0, 3, N)]


def table(**columns):
    """A file as a frame of text: a sound feature, then `columns`, then the labels."""
    return pd.DataFrame({"x": X, **columns, **({} if "kind" in columns else {"kind": LABELS})}).astype(str)


def with_row(frame, **cells):
    """The frame and a last row with these cells."""
    return pd.concat([frame, pd.DataFrame([dict.fromkeys(frame.columns, "") | cells])])


def replaced(values, **cells):
    """Numbers as text, in which `at_3="n.d."` replaces cell 3."""
    return [cells.get(f"at_{i}", str(value)) for i, value in enumerate(values)]


def parsed(words):
    words = list(words)
    return fit_options(PARSER.parse_args(words, argparse.Namespace(arguments=words)))


@pytest.fixture
def look(tmp_path):
    """Survey a frame as `marmix fit` would with these options."""

    def run(frame, *words, sep=","):
        path = tmp_path / "trees.csv"
        frame.to_csv(path, index=False, sep=sep)
        options = parsed(["fit", str(path), "--label", "kind", "--out", "out", *words])
        return survey(open_table(path), options, lambda share: None)

    return run


def test_ordinary_columns_raise_no_question(look):
    sound = table(
        age=RNG.integers(20, 80, N),
        count=RNG.poisson(300, N),
        salary=100 * RNG.permutation(5000)[:N] + 20_000,
        number_of_cells=RNG.permutation(5000)[:N],
        rate=RNG.random(N),
        year=2000 + np.arange(N) // 3,
        rare=np.arange(N) < 3,
        code=RNG.choice([17, 23, 99], N),
        titre=RNG.choice(["1:10", "1:20", "1:40"], N),
        site=WORDS,
        half=np.where(np.arange(N) % 2, "", RNG.random(N).round(3)),
        score=np.sort(RNG.integers(0, 500, N)),
    )
    assert look(sound).doubts == []
    assert look(sound.assign(kind=np.where(HIDDEN, "", np.array(["+", "-"])[TRUTH]))).doubts == []


IDS = RNG.permutation(900_000)[:N] + 100_000
COLUMNS = {
    "row numbers from 1": (range(1, N + 1), "row numbers", "--id"),
    "row numbers from 0": (range(N), "row numbers", "--id"),
    "numbers in order": (range(501, 501 + N), "identifier", "--id"),
    "shuffled numbers": (RNG.permutation(N), "identifier", "--id"),
    "numbers of six digits": (IDS, "identifier", "--id"),
    "texts": ([f"P{i}" for i in IDS], "identifier", "--id"),
    "row numbers and a footer": ([*range(1, N), "Total"], "row numbers", "--id"),
    "dates": (pd.date_range("2020-01-01", periods=N).strftime("%d.%m.%Y"), "dates", "--exclude"),
    "dates with a month": (pd.date_range("2020-01-01", periods=N).strftime("%d %b %Y"), "dates", "--exclude"),
    "dates as numbers": (pd.date_range("2020-01-01", periods=N).strftime("%Y%m%d"), "dates", "--exclude"),
    "another decimal mark": (replaced(X, at_1="1,5", at_2="2,5"), "comma", "--exclude"),
    "times": (np.where(np.arange(N) % 2, "08:15", "13:30"), "dates", "--exclude"),
    "free text": ([f"seen on ward {i} with a cough" for i in range(N)], "free text", "--exclude"),
    "many words": ([f"w{i // 2}" for i in range(N)], "many values", "--exclude"),
    "odd cells": (replaced(X, at_3="<5", at_7="n.d.", at_9="12 mg"), "odd cells", "--exclude"),
    "infinity": (replaced(X, at_3="inf"), "infinite", "--exclude"),
    "known with the label": (np.where(HIDDEN, "", X.astype(str)), "leak", "--exclude"),
    "known without the label": (np.where(HIDDEN, WORDS, ""), "leak", "--exclude"),
    "a copy of the label": (np.array(["elm", "oak"])[TRUTH], "leak", "--exclude"),
    "numbers too large": (1e200 * X, "range", "--exclude"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_doubtful_column_is_named_with_its_remedy_and_the_remedy_settles_it(case, look):
    cells, what, option = COLUMNS[case]
    frame = table(column=cells)
    found = look(frame)
    assert [(doubt.what, doubt.column, doubt.remedy) for doubt in found.doubts] == [
        (what, "column", (option, "column"))
    ]
    assert not found.fatal
    assert look(frame, option, "column").doubts == []
    kept = look(frame, "--keep", "column").questions
    usable = what in ("row numbers", "leak") or case == "dates as numbers" or cells is IDS
    if usable and "footer" not in case:
        assert kept == []
    elif what not in ("identifier", "row numbers"):
        assert [doubt.what for doubt in kept] == [what]


def test_dates_with_points_are_dates_beside_numbers_with_decimal_commas(look):
    frame = table(when=COLUMNS["dates"][0])
    found = look(frame.assign(x=frame["x"].str.replace(".", ",")), sep=";")
    assert [(doubt.what, doubt.remedy) for doubt in found.doubts] == [("dates", ("--exclude", "when"))]


@pytest.mark.parametrize("cells", [replaced(np.zeros(N), at_3="1"), replaced(["no"] * N, at_3="yes")])
def test_a_column_of_nearly_one_value_is_mentioned_but_not_asked_about(cells, look):
    found = look(table(column=cells))
    assert [(doubt.what, doubt.column) for doubt in found.doubts] == [("one value", "column")]
    assert found.questions == []


def test_columns_named_as_features_are_doubtful_only_if_they_cannot_be_used(look):
    frame = table(nr=range(N), leak=COLUMNS["known with the label"][0], odd=COLUMNS["odd cells"][0])
    found = look(frame, "--features", "x", "nr", "leak", "odd")
    assert [doubt.remedy for doubt in found.doubts] == [("--exclude", "odd")]
    assert found.prepared(lambda columns: [])[0].features_in() == ["x", "nr", "leak"]


def test_whole_numbers_that_are_all_different_are_identifiers_if_the_name_says_so(look):
    few = RNG.permutation(5000)[:N]
    for name in ("patient_id", "PatientID", "sampleid", "Case No.", "MRN"):
        assert [(doubt.what, doubt.column) for doubt in look(table(**{name: few})).doubts] == [("identifier", name)]
    for name in ("uric_acid", "number of cells", "cells per patient", "width"):
        assert look(table(**{name: few})).doubts == []


def test_identifiers_that_repeat_are_known_by_their_name_and_their_number(look):
    twice = np.repeat(RNG.permutation(5000)[: N // 2], 2)
    (doubt,) = look(table(patient_id=twice)).doubts
    assert (doubt.what, doubt.remedy, doubt.keep) == ("identifier", ("--id", "patient_id"), "patient_id")
    assert look(table(patient_id=twice), "--keep", "patient_id").doubts == []
    assert look(table(patient_id=twice // 500)).doubts == look(table(width=twice)).doubts == []


def test_odd_cells_are_named_with_their_rows(look):
    (doubt,) = look(table(column=replaced(X, at_3="<5", at_7="n.d."))).doubts
    assert "'<5' in data row 4" in doubt.text
    assert "'n.d.' in data row 8" in doubt.text


def test_a_column_lost_to_a_few_cells_is_a_caution_and_other_remedies_are_notes(look):
    lost = {name: COLUMNS[name][0] for name in ("odd cells", "infinity", "another decimal mark")}
    cautions = look(table(**lost, when=COLUMNS["dates"][0])).cautions()
    assert [(caution.level, bool(caution.advice)) for caution in cautions] == [("caution", True)] * 3 + [
        ("note", False)
    ]


@pytest.mark.parametrize("values", [(0, 1), (1, 0), (2.5, -1.0), ("open", "done"), ("True", "False"), ("north", "3")])
def test_a_column_that_tells_whether_there_is_a_label_is_doubtful(values, look):
    column = np.where(HIDDEN, *np.array(values, dtype=object))
    (doubt,) = look(table(column=column)).doubts
    assert (doubt.what, doubt.remedy, doubt.keep) == ("leak", ("--exclude", "column"), "column")
    assert look(table(column=column), "--keep", "column").doubts == []
    column[RNG.permutation(N)[: N // 3]] = values[0]  # no longer where the label is missing
    assert look(table(column=column)).doubts == []


def test_a_constant_where_the_label_is_missing_is_doubtful_beside_measurements(look):
    (doubt,) = look(table(column=np.where(HIDDEN, 0.0, RNG.normal(size=N).round(3)))).doubts
    assert (doubt.what, doubt.remedy) == ("leak", ("--exclude", "column"))


def test_named_classes_settle_every_question_about_labels(look):
    kinds = np.where(HIDDEN, "?", np.array(["unknown", "Unknown", "None"])[(np.arange(N) // 3) % 3])
    kinds[1] = "single"
    (doubt, single) = look(table(kind=kinds)).doubts
    assert (doubt.what, doubt.remedy, doubt.fatal) == ("similar labels", None, True)
    assert all(f"{label!r} ({np.sum(kinds == label)})" in doubt.text for label in ("unknown", "Unknown"))
    assert (single.what, single.remedy) == ("single label", ("--missing", "single"))
    found = look(table(kind=kinds), "--classes", "unknown", "Unknown", "None", "single")
    assert found.questions == []
    labels = found.prepared(lambda columns: [])[1]
    assert labels.classes.tolist() == ["unknown", "Unknown", "None", "single"]
    assert ((labels.codes < 0).tolist(), dict(labels.marks)) == (HIDDEN.tolist(), {"?": HIDDEN.sum()})


def test_a_file_with_all_labels_is_said_to_have_them_once(look):
    frame = table(kind=np.where(HIDDEN, "unknown", LABELS))
    found = look(frame)
    assert [(doubt.what, doubt.remedy) for doubt in found.doubts] == [("no missing label", ("--keep", "kind"))]
    assert f"'unknown' ({HIDDEN.sum()})" in found.doubts[0].text
    assert found.cautions() == []  # the findings say it
    for words in (["--keep", "kind"], ["--missing", "unknown"], ["--classes", "elm", "oak", "unknown"]):
        assert look(frame, *words).doubts == []


def test_a_single_label_is_missing_if_there_are_two_other_classes(look):
    kinds = LABELS.copy()
    kinds[1] = "Oak "
    found = look(table(kind=kinds))
    assert [(doubt.what, doubt.remedy) for doubt in found.doubts] == [("single label", ("--missing", "Oak"))]
    assert found.prepared(lambda columns: [])[1].classes.tolist() == ["elm", "oak"]
    two_classes = look(table(kind=np.where((LABELS == "oak") & (np.arange(N) > 1), "", LABELS)))
    assert ([doubt.what for doubt in two_classes.doubts], two_classes.questions) == (["single label"], [])


AWKWARD = ["my column", "it's", "-x", "--yes", 'say "hi"', "a\\b", "$HOME"]


def test_the_command_line_parses_back_to_the_remedied_options_and_raises_no_question(look, tmp_path):
    kinds = LABELS.copy()
    kinds[1] = "to be determined"
    frame = table(kind=kinds, drop=WORDS)
    for i, name in enumerate(AWKWARD):
        frame[name] = [f"{name}{i}{j}" for j in range(N)]
    for words in (["--yes", "--exclude", "drop"], ["--seed", "3", "--missing=-", "--id", "drop"]):
        found = look(frame, *words)
        command = shlex.split(found.command)
        assert command[:2] == ["marmix", "fit"]
        assert "--yes" not in command
        remedied = found.remedied()
        assert parsed(command[1:]) == remedied
        assert {*remedied.exclude, remedied.id} == {*AWKWARD, "drop"}
        assert survey(open_table(tmp_path / "trees.csv"), remedied, lambda share: None).doubts == []


def test_options_go_before_a_double_dash(tmp_path):
    path = tmp_path / "trees.csv"
    table(nr=range(N)).to_csv(path, index=False)
    options = parsed(["fit", "--label", "kind", "--out", "out", "--", str(path)])
    found = survey(open_table(path), options, lambda share: None)
    assert parsed(shlex.split(found.command)[1:]) == found.remedied()


def test_all_is_found_in_one_reading_with_what_no_option_settles(look, monkeypatch):
    readings = []
    read = DataFile.batches
    monkeypatch.setattr(DataFile, "batches", lambda *args: readings.append(args) or read(*args))
    frame = table(
        nr=range(N), when="2020-01-01", euro=replaced(X, at_1="1,5", at_2="2,5"), kind=[f"k{i}" for i in range(N)]
    )
    frame["mg"], frame["cm"] = replaced(X, at_0="mg"), replaced(X, at_0="cm")
    found = look(frame, "--keep", "nrr")
    assert len(readings) == 1
    assert [(doubt.what, doubt.fatal) for doubt in found.doubts] == [
        ("label", True), ("row numbers", False), ("dates", False), ("comma", False), ("header", True), ("keep", True),
    ]  # fmt: skip
    assert "'mg', 'cm'" in found.text()
    assert found.text().endswith(" --keep nrr --id nr --exclude when euro")
    sound = look(table(nr=range(N)))
    sound.prepared(lambda columns: readings.append(columns))
    assert len(readings) == 2
    alone = look(pd.DataFrame({"nr": range(N), "kind": LABELS}))
    assert [doubt.what for doubt in alone.doubts] == ["row numbers", "features"]
    assert alone.fatal


@pytest.mark.parametrize("column", ["x", "site", "name", "kind"])
def test_a_footer_is_a_row_without_a_feature_wherever_its_text_is(column, look):
    frame = with_row(
        table(site=WORDS, y=RNG.random(N), name=[f"P{i}" for i in range(N)]), **{column: "Checked by A. B."}
    )
    found = look(frame)
    assert [(doubt.what, doubt.remedy) for doubt in found.doubts] == [
        *([("single label", ("--missing", "Checked by A. B."))] if column == "kind" else []),
        ("identifier", ("--id", "name")),
        ("blank rows", None),
    ]
    assert f"row {N + 1} " in found.doubts[-1].text
    preparation, labels = found.prepared(lambda columns: [])
    assert preparation.get_feature_names_out().tolist() == ["x", "site=north", "site=south", "y"]
    assert labels.classes.tolist() == ["elm", "oak"]
    matrix, counts = preparation.transform_counted(frame)
    assert counts.blank == (N,)
    assert counts.rows == 0
    np.testing.assert_array_equal(matrix[:N, 0], X)


def test_a_text_beside_other_features_is_an_odd_cell_and_no_footer(look):
    frame = table(y=RNG.random(N), z=RNG.random(N))
    frame.loc[5, "y"] = "Checked"
    assert [doubt.what for doubt in look(frame).doubts] == ["odd cells"]
    with pytest.raises(ValueError, match="'Checked' in data row 6"):
        Preparation(features=["x", "y"]).fit(table(y=RNG.random(N))).transform(frame)


# The program


@pytest.fixture
def messy(tmp_path):
    """A file with row numbers, a class with a single label and a footer, and the command to fit it."""
    kinds = np.where(HIDDEN, "?", LABELS)
    kinds[1] = "larch"
    frame = table(nr=range(1, N + 1), y=RNG.random(N).round(3), kind=kinds)
    with_row(frame, nr="Checked by A. B.").to_csv(tmp_path / "trees.csv", index=False)
    command = ["fit", str(tmp_path / "trees.csv"), "--label", "kind", "--out", str(tmp_path / "out"), "--quiet"]
    return tmp_path, [*command, "--model", "logistic", "--folds", "2"]


def test_without_a_terminal_the_questions_end_the_program_with_code_2_and_nothing_is_written(messy, capsys):
    folder, command = messy
    assert main(command) == 2
    error = capsys.readouterr().err
    assert all(words in error for words in ("'larch'", "'nr'", f"row {N + 1} "))
    assert shlex.split(error.splitlines()[-1]) == ["marmix", *command, "--missing", "larch", "--id", "nr"]
    assert [path.name for path in folder.iterdir()] == ["trees.csv"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def answered(text, monkeypatch):
    """Let a terminal give this answer, and stop before the fit; returns a list that gets the options of the fit."""
    begun = []

    def begin(options, *_):
        begun.append(options)
        raise ValueError("stopped here")

    monkeypatch.setattr("marmix.journey.fit._analysis", begin)
    monkeypatch.setattr(sys, "stdin", Terminal(text))
    monkeypatch.setattr(sys, "stderr", Terminal())
    return begun


@pytest.mark.parametrize(
    ("answer", "goes_on"), [("y\n", True), ("Yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_a_terminal_asks_once(answer, goes_on, messy, monkeypatch):
    _, command = messy
    begun = answered(answer, monkeypatch)
    assert main(command) == (1 if goes_on else 2)
    assert sys.stderr.getvalue().count("[y/N]") == sys.stderr.getvalue().count("--missing larch --id nr") == 1
    assert [(list(options.missing), options.id) for options in begun] == [(["larch"], "nr")] * goes_on


@pytest.mark.usefixtures("quick_figures")
def test_yes_applies_the_remedies_and_says_so_everywhere(messy, capsys):
    folder, command = messy
    assert main([*command, "--yes"]) == 0
    error = capsys.readouterr().err
    summary = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))
    said = json.dumps([summary.get("warnings"), summary.get("cautions")])
    for words in ("--missing larch", "--id nr"):
        assert words in error
        assert words in said
    assert f"row {N + 1} " in said
    assert summary["reproduction"]["command"] == shlex.join(["marmix", *command, "--missing", "larch", "--id", "nr"])
    assert (summary["labels"]["imputed"], summary["labels"]["unfilled"]) == (HIDDEN.sum() + 1, 1)
    assert summary["labels"]["missing_texts"] == {"": 1, "?": HIDDEN.sum(), "larch": 1}
    assert f"in {HIDDEN.sum()} rows, &#x27;larch&#x27; in 1, empty in 1." in (folder / "out" / "report.html").read_text(
        encoding="utf-8"
    )
    assert (summary["data"]["id"], summary["data"]["incomplete_rows"]) == ("nr", 0)
    written = pd.read_csv(folder / "out" / "imputed.csv")
    assert written["marmix_label"].isna().tolist() == [False] * N + [True]
    model, data, out = folder / "out" / "model.marmix", folder / "trees.csv", folder / "new.csv"
    assert main(["predict", str(model), str(data), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unfilled"] == 1
    assert pd.read_csv(out)["marmix_label"].isna().tolist() == [False] * N + [True]
