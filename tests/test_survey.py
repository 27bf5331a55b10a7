"""The survey of a file: what is applied and said, what is asked, and the rows that follow."""

import shlex

import numpy as np
import pandas as pd
import pytest

from marmix.app.reading import read
from marmix.app.survey import Doubtful, Options, survey

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


def replaced(values, **cells):
    """Numbers as text, in which `at_3="n.d."` replaces cell 3."""
    return [cells.get(f"at_{i}", str(value)) for i, value in enumerate(values)]


@pytest.fixture
def look(tmp_path):
    """Survey a frame with these options; returns the plan, or what is asked or refused."""

    def run(frame, agree=False, **options):
        path = tmp_path / "trees.csv"
        frame.to_csv(path, index=False)
        given = Options(**{"data": path, "label": "kind", "command": ["marmix", "fit", str(path)]} | options)
        try:
            return survey(read(path), given, lambda doubts: agree)
        except Doubtful as doubtful:
            return doubtful

    return run


def found(result):
    return [(doubt.what, doubt.column, doubt.remedy) for doubt in result.doubts.doubts]


def test_ordinary_columns_raise_no_doubt(look):
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
    for frame in (sound, sound.assign(kind=np.where(HIDDEN, "", np.array(["+", "-"])[TRUTH]))):
        plan = look(frame)
        assert (found(plan), plan.preparation.notes_) == ([], [])
        assert plan.rows.X.shape == (N, len(plan.preparation.get_feature_names_out()))
        assert ((plan.rows.codes < 0) == HIDDEN).all()


IDS = RNG.permutation(900_000)[:N] + 100_000
IDENTITIES = {
    "row numbers from 1": (range(1, N + 1), "row numbers"),
    "row numbers from 0": (range(N), "row numbers"),
    "numbers in order": (range(501, 501 + N), "identifier"),
    "shuffled numbers": (RNG.permutation(N), "identifier"),
    "numbers of six digits": (IDS, "identifier"),
    "texts": ([f"P{i}" for i in IDS], "identifier"),
    "row numbers and a footer": ([*range(1, N), "Total"], "row numbers"),
}


@pytest.mark.parametrize("case", IDENTITIES)
def test_a_column_that_identifies_the_rows_becomes_the_id_without_a_question(case, look):
    cells, what = IDENTITIES[case]
    plan = look(table(column=cells))
    assert found(plan) == [(what, "column", ("--id", "column"))]
    assert (plan.options.id, plan.preparation.features_in()) == ("column", ["x"])
    (note,) = plan.doubts.notes()
    assert "--id column" in note
    assert found(look(table(column=cells), id="column")) == []
    if case not in ("texts", "row numbers and a footer"):
        kept = look(table(column=cells), keep=["column"])
        assert (found(kept), kept.preparation.features_in()) == ([], ["x", "column"])


def test_of_several_one_identifies_the_rows_rather_than_their_numbers(look):
    plan = look(table(nr=range(N), name=[f"P{i}" for i in range(N)], code=[f"Q{i}" for i in range(N)]))
    assert (plan.options.id, list(plan.options.exclude)) == ("name", ["nr", "code"])


@pytest.mark.parametrize(("name", "is_id"), [
    *((name, True) for name in ("patient_id", "PatientID", "sampleid", "Case No.", "MRN")),
    *((name, False) for name in ("uric_acid", "number of cells", "cells per patient", "width")),
])  # fmt: skip
def test_whole_numbers_are_identifiers_if_their_name_says_so_and_most_are_different(name, is_id, look):
    for cells in (RNG.permutation(5000)[:N], np.repeat(RNG.permutation(5000)[: N // 2], 2)):
        assert [doubt[:2] for doubt in found(look(table(**{name: cells})))] == [("identifier", name)] * is_id
    assert found(look(table(**{name: np.arange(N) // 20}))) == []


LEAKS = {
    "known with the label": np.where(HIDDEN, "", X.astype(str)),
    "known without the label": np.where(HIDDEN, WORDS, ""),
    "a copy of the label": np.array(["elm", "oak"])[TRUTH],
    "a constant without it": np.where(HIDDEN, 0.0, RNG.normal(size=N).round(3)),
    **{str(values): np.where(HIDDEN, *np.array(values, dtype=object)) for values in (
        (0, 1), (2.5, -1.0), ("open", "done"), ("True", "False"), ("north", "3"),
    )},
}  # fmt: skip


@pytest.mark.parametrize("case", LEAKS)
def test_a_column_that_knows_the_label_is_asked_about(case, look):
    frame = table(column=LEAKS[case])
    doubtful = look(frame)
    assert isinstance(doubtful, Doubtful)
    assert found(doubtful) == [("leak", "column", ("--exclude", "column"))]
    assert not doubtful.doubts.fatal
    assert "--keep column" in str(doubtful)
    assert look(frame, agree=True).preparation.features_in() == ["x"]
    assert found(look(frame, exclude=["column"])) == []
    assert look(frame, keep=["column"]).preparation.features_in() == ["x", "column"]
    assert look(frame, features=["x", "column"]).preparation.features_in() == ["x", "column"]


def test_a_column_that_often_agrees_with_the_missing_labels_is_no_leak(look):
    column = np.where(HIDDEN, "open", "done")
    column[RNG.permutation(N)[: N // 3]] = "open"
    assert found(look(table(column=column))) == []


@pytest.mark.parametrize("cells", [replaced(np.zeros(N), at_3="1"), replaced(["no"] * N, at_3="yes")])
def test_a_column_of_nearly_one_value_is_mentioned_but_not_asked_about(cells, look):
    plan = look(table(column=cells))
    assert found(plan) == [("one value", "column", None)]


MESSY = {
    "dates": pd.date_range("2020-01-01", periods=N).strftime("%d.%m.%Y"),
    "dates as numbers": pd.date_range("2020-01-01", periods=N).strftime("%Y%m%d"),
    "a decimal comma": replaced(X, at_1="1,5", at_2="2,5"),
    "percent": [f"{i % 7} %" for i in range(N)],
    "times": np.where(np.arange(N) % 2, "08:15", "13:30"),
    "free text": [f"seen on ward {i} with a cough" for i in range(N)],
    "many words": [f"w{i // 2}" for i in range(N)],
    "stray cells": replaced(X, at_3="<5", at_7="n.d.", at_9="12 mg"),
    "infinity": replaced(X, at_3="inf"),
    "numbers too large": 1e200 * X,
    "a row of units": replaced(X, at_0="mg"),
}


@pytest.mark.parametrize("case", MESSY)
def test_what_needs_no_answer_is_not_asked(case, look):
    plan = look(table(column=MESSY[case], more=MESSY[case]))
    assert found(plan) == []
    assert plan.preparation.features_in() == (
        ["x"] if case in ("free text", "many words", "numbers too large") else ["x", "column", "more"]
    )
    assert len(plan.preparation.notes_) == 2


# Labels


def test_named_classes_settle_every_question_about_labels(look):
    kinds = np.where(HIDDEN, "?", np.array(["unknown", "Unknown", "None"])[(np.arange(N) // 3) % 3])
    kinds[1] = "single"
    doubtful = look(table(kind=kinds))
    assert [doubt[::2] for doubt in found(doubtful)] == [
        ("similar labels", None), ("single label", ("--missing", "single")),
    ]  # fmt: skip
    assert doubtful.doubts.fatal
    plan = look(table(kind=kinds), classes=["unknown", "Unknown", "None", "single"])
    assert found(plan) == []
    assert plan.rows.classes.tolist() == ["unknown", "Unknown", "None", "single"]
    assert (((plan.rows.codes < 0) == HIDDEN).all(), dict(plan.rows.marks)) == (True, {"?": HIDDEN.sum()})


def test_a_file_with_all_labels_is_asked_about_once(look):
    frame = table(kind=np.where(HIDDEN, "unknown", LABELS))
    doubtful = look(frame)
    assert found(doubtful) == [("no missing label", "kind", ("--keep", "kind"))]
    assert f"'unknown' ({HIDDEN.sum()})" in str(doubtful)
    assert look(frame, agree=True).doubts.notes() == []  # the findings say it
    for options in ({"keep": ["kind"]}, {"missing": ["unknown"]}, {"classes": ["elm", "oak", "unknown"]}):
        assert found(look(frame, **options)) == []


def test_a_single_label_is_missing_if_there_are_two_other_classes(look):
    kinds = LABELS.copy()
    kinds[1] = "Oak "
    assert isinstance(look(table(kind=kinds)), Doubtful)
    plan = look(table(kind=kinds), agree=True)
    assert found(plan) == [("single label", "kind", ("--missing", "Oak"))]
    assert (plan.rows.classes.tolist(), plan.rows.codes[1]) == (["elm", "oak"], -1)
    two = look(table(kind=np.where((LABELS == "oak") & (np.arange(N) > 1), "", LABELS)))
    assert found(two) == [("single label", "kind", None)]


@pytest.mark.parametrize("column", ["x", "site", "name", "kind"])
def test_a_footer_is_no_row_and_no_class_wherever_its_text_is(column, look):
    frame = table(site=WORDS, y=RNG.random(N), name=[f"P{i}" for i in range(N)])
    footer = pd.DataFrame([dict.fromkeys(frame.columns, "") | {column: "Checked by A. B."}])
    plan = look(pd.concat([frame, footer]))
    assert plan.options.id == "name"
    assert plan.preparation.get_feature_names_out().tolist() == ["x", "site=north", "site=south", "y"]
    assert plan.rows.classes.tolist() == ["elm", "oak"]
    assert (plan.rows.complete.tolist(), plan.rows.counts.blank) == ([True] * N + [False], (N,))
    np.testing.assert_array_equal(plan.rows.X[:, 0], X)


def test_incomplete_rows_are_left_out_if_they_are_not_filled(look):
    frame = table(y=replaced(X, at_3="", at_7=""))
    dropped = look(frame, impute_features="drop").rows
    assert (np.flatnonzero(~dropped.complete).tolist(), dropped.X.shape) == ([3, 7], (N - 2, 2))
    assert (dropped.labels == dropped.codes[dropped.complete]).all()
    assert look(frame).rows.complete.all()
    frame.loc[LABELS == "elm", "y"] = ""
    with pytest.raises(ValueError, match="every labelled row of class 'elm' has a missing feature"):
        look(frame, impute_features="drop", keep=["y"])


# Options and commands

AWKWARD = ["my column", "it's", "-x", "--yes", 'say "hi"', "a\\b", "$HOME"]


def test_the_command_line_names_every_remedy(look):
    kinds = LABELS.copy()
    kinds[1] = "to be determined"
    frame = table(kind=kinds, leak=LEAKS["(0, 1)"])
    for name in AWKWARD:
        frame[name] = [f"{name}{j}" for j in range(N)]
    doubts = look(frame).doubts
    words = shlex.split(doubts.command)
    options = doubts.remedied()
    assert {*options.exclude, options.id} == {*AWKWARD, "leak"}
    assert words[:2] == ["marmix", "fit"]
    assert {word.split("=", 1)[-1] for word in words} >= {*AWKWARD, "leak", "to be determined"}
    assert found(look(frame, exclude=options.exclude, id=options.id, missing=options.missing)) == []


def test_options_go_before_a_double_dash(look, tmp_path):
    plan = look(table(nr=range(N)))
    doubts = type(plan.doubts)(Options(tmp_path, command=["marmix", "--yes", "--", "f.csv"]), plan.doubts.doubts)
    assert doubts.command == "marmix --id nr -- f.csv"


def test_all_that_no_option_settles_is_said_at_once(look):
    doubtful = look(table(nr=range(N), kind=[f"k{i}" for i in range(N)]), keep=["nrr"])
    assert [doubt[0] for doubt in found(doubtful)] == ["label", "row numbers", "keep"]
    alone = look(pd.DataFrame({"nr": range(N), "kind": LABELS}))
    assert [doubt[0] for doubt in found(alone)] == ["row numbers", "features"]
    assert alone.doubts.fatal
    for options, words in (
        ({"features": ["x", "kind"]}, "--features includes the label column"),
        ({"id": "x", "features": ["x"]}, "--features includes the --id column"),
        ({"exclude": ["z"]}, "no column 'z'"),
        ({"exclude": ["x"]}, "no feature column is left"),
    ):
        with pytest.raises(ValueError, match=words):
            look(table(), **options)


def test_what_marmix_added_earlier_is_no_feature_and_its_labels_keep_where_they_are_from(look):
    source = np.array(["given", "audited", "asked", "imputed"])[RNG.integers(0, 4, N)]
    before = table(kind=np.where(source == "given", LABELS, ""))
    after = before.assign(marmix_label=["oak"] * N, marmix_source=source, marmix_p_oak=0.5)
    plan, plain = look(after), look(before)
    assert plan.table.names == plain.table.names
    assert plan.preparation.feature_names_in_ == plain.preparation.feature_names_in_
    texts = np.array([*plan.rows.classes, ""], dtype=object)[plan.rows.codes]
    added = np.isin(source, ["audited", "asked"])
    assert set(texts[added]) == {"oak"}
    assert (plan.rows.codes[source == "imputed"] == -1).all()
    assert (plan.rows.missing == (source != "given")).all()
    assert (plain.rows.missing == (plain.rows.codes < 0)).all()
    by_vote = look(after.assign(other=""), label=None, votes=["kind", "other"])
    assert (by_vote.rows.codes == plan.rows.codes).all()
    assert (by_vote.rows.missing == plan.rows.missing).all()
    shares = {
        name: np.where(source == "given", (name == LABELS).astype(int).astype(str), "") for name in plan.rows.classes
    }
    by_share = look(after.drop(columns="kind").assign(**shares), label=None, shares=list(shares))
    assert (by_share.rows.codes == plan.rows.codes).all()
    assert (by_share.rows.missing == plan.rows.missing).all()
