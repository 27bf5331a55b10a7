"""The survey of a file: what is applied and said, what is refused, and the rows that follow."""

import numpy as np
import pandas as pd
import pytest

from marmix.app.reading import read
from marmix.app.survey import Options, survey

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
    """Survey a frame with these options."""

    def run(frame, **options):
        path = tmp_path / "trees.csv"
        frame.to_csv(path, index=False)
        return survey(read(path), Options(**{"data": path, "label": "kind"} | options))

    return run


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
        assert (plan.notes, plan.preparation.notes_) == ([], [])
        assert plan.rows.X.shape == (N, len(plan.preparation.get_feature_names_out()))
        assert ((plan.rows.codes < 0) == HIDDEN).all()


IDS = RNG.permutation(900_000)[:N] + 100_000
IDENTITIES = {
    "row numbers from 1": range(1, N + 1),
    "row numbers from 0": range(N),
    "numbers in order": range(501, 501 + N),
    "shuffled numbers": RNG.permutation(N),
    "numbers of six digits": IDS,
    "texts": [f"P{i}" for i in IDS],
    "row numbers and a footer": [*range(1, N), "Total"],
}


@pytest.mark.parametrize("case", IDENTITIES)
def test_a_column_that_identifies_the_rows_becomes_the_id_and_it_is_said(case, look):
    cells = IDENTITIES[case]
    plan = look(table(column=cells))
    assert (plan.options.id, plan.preparation.features_in()) == ("column", ["x"])
    (note,) = plan.notes
    assert "taken as the id" in note
    assert "--keep column" in note
    assert look(table(column=cells), id="column").notes == []
    if case not in ("texts", "row numbers and a footer"):
        kept = look(table(column=cells), keep=["column"])
        assert (kept.notes, kept.preparation.features_in()) == ([], ["x", "column"])


def test_of_several_one_identifies_the_rows_rather_than_their_numbers(look):
    plan = look(table(nr=range(N), name=[f"P{i}" for i in range(N)], code=[f"Q{i}" for i in range(N)]))
    assert (plan.options.id, plan.preparation.features_in(), len(plan.notes)) == ("name", ["x"], 3)


@pytest.mark.parametrize(("name", "is_id"), [
    *((name, True) for name in ("patient_id", "PatientID", "sampleid", "Case No.", "MRN")),
    *((name, False) for name in ("uric_acid", "number of cells", "cells per patient", "width")),
])  # fmt: skip
def test_whole_numbers_are_identifiers_if_their_name_says_so_and_most_are_different(name, is_id, look):
    for cells in (RNG.permutation(5000)[:N], np.repeat(RNG.permutation(5000)[: N // 2], 2)):
        assert (look(table(**{name: cells})).options.id == name) is is_id
    assert look(table(**{name: np.arange(N) // 20})).notes == []


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
def test_a_column_that_knows_the_label_is_no_feature_unless_it_is_named(case, look):
    frame = table(column=LEAKS[case])
    plan = look(frame)
    assert plan.preparation.features_in() == ["x"]
    (note,) = plan.notes
    assert "--keep column" in note
    assert look(frame, exclude=["column"]).notes == []
    for options in ({"keep": ["column"]}, {"features": ["x", "column"]}):
        assert look(frame, **options).preparation.features_in() == ["x", "column"]


def test_a_feature_that_separates_the_classes_is_no_copy_of_the_label(look):
    assert look(table(column=np.array(["small", "large"])[TRUTH])).notes == []


def test_a_column_that_often_agrees_with_the_missing_labels_is_no_leak(look):
    column = np.where(HIDDEN, "open", "done")
    column[RNG.permutation(N)[: N // 3]] = "open"
    assert look(table(column=column)).notes == []


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
def test_what_needs_no_answer_is_a_feature_or_is_left_out(case, look):
    plan = look(table(column=MESSY[case], more=MESSY[case]))
    assert plan.notes == []
    assert plan.preparation.features_in() == (
        ["x"] if case in ("free text", "many words", "numbers too large") else ["x", "column", "more"]
    )
    assert len(plan.preparation.notes_) == 2


# Labels


def test_named_classes_settle_every_question_about_labels(look):
    kinds = np.where(HIDDEN, "?", np.array(["unknown", "Unknown", "None"])[(np.arange(N) // 3) % 3])
    kinds[1] = "single"
    with pytest.raises(ValueError, match=r"'Unknown \(\d+\)', 'unknown \(\d+\)' of .* differ in case .* --classes"):
        look(table(kind=kinds))
    plan = look(table(kind=kinds), classes=["unknown", "Unknown", "None", "single"])
    assert plan.notes == []
    assert plan.rows.classes.tolist() == ["unknown", "Unknown", "None", "single"]
    assert (((plan.rows.codes < 0) == HIDDEN).all(), dict(plan.rows.marks)) == (True, {"?": HIDDEN.sum()})


def test_every_text_that_became_a_class_is_named_with_its_labels(look):
    kinds = np.where(HIDDEN, "", LABELS)
    kinds[np.flatnonzero(~HIDDEN)[:3]] = "unknown"
    (note,) = look(table(kind=kinds)).rows.classes_note()
    assert "'unknown' 3" in note
    assert look(table(kind=np.where(HIDDEN, "", TRUTH.astype(str)))).rows.classes_note() == []


def test_a_file_with_all_labels_is_refused_unless_its_classes_are_named(look):
    frame = table(kind=np.where(HIDDEN, "unknown", LABELS))
    with pytest.raises(ValueError, match=rf"no label is missing .*unknown \({HIDDEN.sum()}\).*--missing"):
        look(frame)
    for options in ({"missing": ["unknown"]}, {"classes": ["elm", "oak", "unknown"]}):
        assert look(frame, **options).notes == []


def test_a_single_label_is_missing_if_there_are_two_other_classes(look):
    kinds = LABELS.copy()
    kinds[1] = "Oak "
    plan = look(table(kind=kinds))
    assert "'Oak'" in plan.notes[0]
    assert (plan.rows.classes.tolist(), plan.rows.codes[1]) == (["elm", "oak"], -1)
    two = look(table(kind=np.where((LABELS == "oak") & (np.arange(N) > 1), "", LABELS)))
    assert (two.notes, two.rows.classes.tolist()) == ([], ["elm", "oak"])


@pytest.mark.parametrize("column", ["x", "site", "name"])
def test_a_footer_is_no_row_and_no_class_wherever_its_text_is(column, look):
    frame = table(site=WORDS, y=RNG.random(N), name=[f"P{i}" for i in range(N)])
    footer = pd.DataFrame([dict.fromkeys(frame.columns, "") | {column: "Checked by A. B."}])
    plan = look(pd.concat([frame, footer]))
    assert plan.options.id == "name"
    assert plan.preparation.encoded_names().tolist() == ["x", "site=north", "site=south", "y"]
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


# Options


def test_what_cannot_be_fitted_is_refused_with_the_option_that_helps(look):
    for frame, options, words in (
        (table(kind=[f"k{i}" for i in range(N)]), {}, "different labels"),
        (pd.DataFrame({"nr": range(N), "kind": LABELS}), {}, "no column would be left .*numbers the rows"),
        (table(), {"features": ["x", "kind"]}, "'kind' is named twice"),
        (table(), {"id": "x", "features": ["x"]}, "'x' is named twice"),
        (table(), {"exclude": ["z"]}, "no column 'z'"),
        (table(), {"keep": ["z"]}, "--keep: .* no column 'z'"),
        (table(), {"exclude": ["x"]}, "no feature column is left"),
    ):
        with pytest.raises(ValueError, match=words):
            look(frame, **options)


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
