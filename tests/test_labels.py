"""Labels: every way of writing them gives the same fit, and errors name the label or class."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression, save
from marmix.core.labels import (
    MISSING_CELLS,
    MISSING_LABELS,
    choose_classes,
    encode_labels,
    found_labels,
    known_labels,
    label_shares,
    looks_like_class,
    missing_texts,
    number_labels,
    votes,
)
from marmix.datasets import hide_labels
from marmix.evaluation import PartialLabelKFold
from marmix.io import to_memmap
from marmix.journey import Progress, evaluate_file
from marmix.tables import LabelColumn, Preparation, open_table

try:
    import pandas as pd
except ImportError:
    pd = None
try:
    import pyarrow as pa
except ImportError:
    pa = None
try:
    import polars as pl
except ImportError:
    pl = None


def written(data, value_of, missing):
    """The labels as a list, each as `value_of` writes it."""
    return [missing if is_missing else value_of(int(k)) for k, is_missing in zip(data.truth, data.missing, strict=True)]


def letter(k):
    return "ab"[k]


def fitted(data, y, **options):
    return MARGaussianMixture(link="logit", **options).fit(data.X, y)


# Each: how to write y, and the classes that should come of it (which tells their type as well).
WAYS = {
    "ints, -1": (lambda d: d.y, [0, 1]),
    "list of ints, -1": (lambda d: d.y.tolist(), [0, 1]),
    "floats, NaN": (lambda d: np.where(d.missing, np.nan, d.truth), [0.0, 1.0]),
    "floats, -1": (lambda d: d.y.astype(float), [0.0, 1.0]),
    "list of ints, None": (lambda d: written(d, int, None), [0, 1]),
    "objects, None": (lambda d: np.array(written(d, int, None), dtype=object), [0, 1]),
    "objects, -1": (lambda d: np.array(written(d, int, -1), dtype=object), [0, 1]),
    "list of strings, None": (lambda d: written(d, letter, None), ["a", "b"]),
    "list of strings, NaN": (lambda d: written(d, letter, np.nan), ["a", "b"]),
    "list of strings, -1": (lambda d: written(d, letter, -1), ["a", "b"]),
    "object strings, NaN": (lambda d: np.array(written(d, letter, np.nan), dtype=object), ["a", "b"]),
    "object strings, -1": (lambda d: np.array(written(d, letter, -1), dtype=object), ["a", "b"]),
    "list of bools, None": (lambda d: written(d, bool, None), [False, True]),
    "pandas floats, NaN": (lambda d: pd.Series(written(d, float, np.nan)), [0.0, 1.0]),
    "pandas Int64, NA": (lambda d: pd.Series(written(d, int, pd.NA), dtype="Int64"), [0, 1]),
    "pandas Int64, -1": (lambda d: pd.Series(written(d, int, -1), dtype="Int64"), [0, 1]),
    "pandas Int64 array, NA": (lambda d: pd.array(written(d, int, pd.NA), dtype="Int64"), [0, 1]),
    "pandas Float64, NA": (lambda d: pd.Series(written(d, float, pd.NA), dtype="Float64"), [0.0, 1.0]),
    "pandas boolean, NA": (lambda d: pd.Series(written(d, bool, pd.NA), dtype="boolean"), [False, True]),
    "pandas string, NA": (lambda d: pd.Series(written(d, letter, pd.NA), dtype="string"), ["a", "b"]),
    "pandas strings, None": (lambda d: pd.Series(written(d, letter, None)), ["a", "b"]),
    "pandas Index, None": (lambda d: pd.Index(written(d, letter, None)), ["a", "b"]),
    "pandas category, NaN": (lambda d: pd.Series(written(d, letter, np.nan), dtype="category"), ["a", "b"]),
    "pandas int category, NaN": (lambda d: pd.Series(written(d, int, np.nan), dtype="category"), [0, 1]),
    "pandas int category, -1": (lambda d: pd.Series(written(d, int, -1), dtype="category"), [0, 1]),
    "pandas Categorical, NaN": (lambda d: pd.Categorical(written(d, letter, np.nan)), ["a", "b"]),
    "pyarrow strings, null": (lambda d: pa.array(written(d, letter, None)), ["a", "b"]),
    "pyarrow chunks, null": (lambda d: pa.chunked_array([written(d, letter, None)]), ["a", "b"]),
    "pyarrow dictionary, null": (lambda d: pa.array(written(d, letter, None)).dictionary_encode(), ["a", "b"]),
    "pyarrow ints, null": (lambda d: pa.array(written(d, int, None)), [0, 1]),
    "pyarrow bools, null": (lambda d: pa.array(written(d, bool, None)), [False, True]),
    "pandas Arrow strings, null": (
        lambda d: pd.Series(written(d, letter, None), dtype=pd.ArrowDtype(pa.string())),
        ["a", "b"],
    ),
    "pandas Arrow ints, null": (lambda d: pd.Series(written(d, int, None), dtype=pd.ArrowDtype(pa.int64())), [0, 1]),
    "polars ints, null": (lambda d: pl.Series(written(d, int, None)), [0, 1]),
    "polars ints, -1": (lambda d: pl.Series(written(d, int, -1)), [0, 1]),
    "polars floats, NaN": (lambda d: pl.Series(written(d, float, np.nan)), [0.0, 1.0]),
    "polars strings, null": (lambda d: pl.Series(written(d, letter, None)), ["a", "b"]),
    "polars bools, null": (lambda d: pl.Series(written(d, bool, None)), [False, True]),
    "polars categories, null": (lambda d: pl.Series(written(d, letter, None), dtype=pl.Categorical), ["a", "b"]),
    "polars enum, null": (lambda d: pl.Series(written(d, letter, None), dtype=pl.Enum(["a", "b"])), ["a", "b"]),
}


def need(way):
    """Skip what is written with a package that is not here."""
    for package in {way.split()[0], "pyarrow" if "Arrow" in way else ""} & {"pandas", "polars", "pyarrow"}:
        pytest.importorskip(package)


@pytest.fixture(scope="module")
def plain(two):
    return fitted(two, two.y)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_y_gives_the_plain_fit_and_classes_of_its_type(way, two, plain):
    need(way)
    write, expected = WAYS[way]
    y = write(two)
    clf = fitted(two, y)
    assert [(type(c), c) for c in clf.classes_.tolist()] == [(type(c), c) for c in expected]
    assert clf.predict(two.X).dtype == clf.transduction_.dtype == clf.classes_.dtype
    assert clf.loglik_ == plain.loglik_
    np.testing.assert_array_equal(clf.predict_proba(two.X), plain.predict_proba(two.X))
    np.testing.assert_array_equal(clf.transduction_, np.take(clf.classes_, plain.transduction_))
    assert clf.score(two.X, y) == plain.score(two.X, two.y)


def test_large_integers_beside_a_null_stay_apart(two):
    need("polars")
    beyond_floats = 2**53
    y = pl.Series(written(two, lambda k: beyond_floats + k, None))
    assert fitted(two, y, max_iter=1).classes_.tolist() == [beyond_floats, beyond_floats + 1]


def test_a_column_of_labels_is_taken_with_a_warning(two, plain):
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        clf = fitted(two, two.y[:, None])
    assert clf.loglik_ == plain.loglik_


def test_unlabelled_rows_of_a_fit_are_those_written_as_missing(two, plain):
    """A fit that took a missing label for a class, or dropped the rows, would not find this share of missing labels."""
    assert np.mean(plain.missing_proba(two.X)) == pytest.approx(np.mean(two.missing), abs=1e-4)


# Order of the classes


def test_given_labels_are_kept_and_missing_ones_are_the_most_probable_class(three):
    clf = fitted(three, three.y)
    np.testing.assert_array_equal(clf.transduction_[~three.missing], three.truth[~three.missing])
    most_probable = clf.classes_[clf.predict_proba(three.X).argmax(axis=1)]
    np.testing.assert_array_equal(clf.transduction_[three.missing], most_probable[three.missing])
    assert (clf.transduction_ != most_probable).any(), "some given label should differ from the predicted one"


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 2, 0]])
def test_named_classes_keep_their_order_in_the_columns(order, three):
    plain = fitted(three, three.y)
    clf = fitted(three, three.y, classes=order)
    assert clf.classes_.tolist() == order
    np.testing.assert_allclose(clf.predict_proba(three.X), plain.predict_proba(three.X)[:, order], atol=1e-4)
    np.testing.assert_allclose(clf.class_prior_, plain.class_prior_[order], atol=1e-4)
    np.testing.assert_array_equal(clf.predict(three.X), plain.predict(three.X))
    np.testing.assert_array_equal(clf.transduction_, plain.transduction_)


def test_minus_one_is_a_class_where_it_is_named(two, plain):
    sign = np.where(two.truth == 1, 1.0, -1.0)
    clf = fitted(two, np.where(two.missing, np.nan, sign), classes=[-1, 1])
    assert clf.classes_.tolist() == [-1, 1]
    assert clf.loglik_ == plain.loglik_
    np.testing.assert_array_equal(clf.transduction_, np.where(plain.transduction_ == 1, 1, -1))
    assert clf.score(two.X, sign) == accuracy_score(two.truth, plain.predict(two.X))
    objects = written(two, lambda k: (-1, 1)[k], None)
    assert fitted(two, objects, classes=[-1, 1]).loglik_ == plain.loglik_


# One encoder


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float32])
def test_a_long_array_is_read_in_parts_with_the_same_result(monkeypatch, kind):
    y = np.random.default_rng(0).choice([-1, 9, 3, 7], 1000).astype(kind)
    y[:300] = np.where(y[:300] == 3, -1, y[:300])  # a class that comes late, and is the first in order
    z, classes = encode_labels(y)
    monkeypatch.setattr("marmix.core.labels._PART", 64)
    in_parts, same = encode_labels(y)
    assert (classes.tolist(), classes.dtype, z.dtype) == ([3, 7, 9], kind, np.int8)
    assert (same.tolist(), same.dtype, in_parts.dtype) == ([3, 7, 9], kind, np.int8)
    np.testing.assert_array_equal(in_parts, z)
    np.testing.assert_array_equal(z, np.select([y == 3, y == 7, y == 9], [0, 1, 2], -1))
    np.testing.assert_array_equal(number_labels(y, np.array([9, 7, 3])), np.where(z < 0, -1, 2 - z))


@pytest.mark.parametrize("classes", [None, ["b", "c", "a"]])
def test_labels_of_parts_give_the_classes_of_the_whole(classes):
    parts = [np.array(part, dtype=object) for part in (["b", None], [None, None], ["c", "a"], ["b", "b"])]
    labels = [found_labels(part, classes) for part in parts]
    assert [sorted(part.tolist()) for part, _ in labels] == [["b"], [], ["a", "c"], ["b"]]
    together = encode_labels(np.concatenate(parts), classes)
    np.testing.assert_array_equal(choose_classes(labels, classes)[0], together[1])
    np.testing.assert_array_equal(np.concatenate([number_labels(part, together[1]) for part in parts]), together[0])


@pytest.mark.parametrize("names", [["b", "a", None, "c"], [3, 10, None, -1, 2], [True, None, False]])
def test_an_array_a_column_and_a_table_have_the_same_classes(names, tmp_path):
    pytest.importorskip("pyarrow")
    names = names * 3
    z, classes = encode_labels(np.array(names, dtype=object))
    column = LabelColumn("y", ["-1"])
    column.add(pa.array(names))
    table = to_memmap(pa.table({"x": range(len(names)), "y": names}), tmp_path / "x.npy", label="y", progress=False)
    assert table.classes.tolist() == classes.tolist()
    assert column.classes.astype(str).tolist() == [str(name).lower() for name in classes.tolist()]
    np.testing.assert_array_equal(table.y, z)
    np.testing.assert_array_equal(column.codes, z)


# Texts for missing labels


@pytest.mark.parametrize("text", MISSING_CELLS)
def test_a_text_for_missing_is_missing_in_every_file(text, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "rows.csv").write_text(f"x,y\n1,0\n{text},1\n2,{text}\n3,1\n", encoding="utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = to_memmap(tmp_path / "rows.csv", tmp_path / "x.npy", label="y", missing="nan", progress=False)
    assert [repr(text) in str(warning.message) for warning in caught] == [True] * bool(text)
    source = open_table(tmp_path / "rows.csv")
    labels = LabelColumn("y")
    prepared = Preparation(impute="drop").fit_batches(source.batches, labels)
    features = np.concatenate([prepared.transform(batch) for batch in source.batches()])
    np.testing.assert_array_equal(features[:, 0], [1, np.nan, 2, 3])
    np.testing.assert_array_equal(table.X[:, 0], [1, np.nan, 2, 3])
    assert labels.codes.tolist() == table.y.tolist() == [0, 1, -1, 1]


@pytest.mark.filterwarnings("ignore:.*Missing labels")
@pytest.mark.parametrize("text", [*MISSING_LABELS, "  ", " NA ", "-1.00", "-1,0", "-01"])
def test_every_door_takes_the_same_texts_as_missing(text, tmp_path):
    pytest.importorskip("pyarrow")
    y = ["big elm", text, "oak", text, None, "oak", "big elm"]
    z, named = np.array([0, -1, 1, -1, -1, 1, 0]), ["big elm", "oak"]  # so that no text may be a class
    for way in (list, lambda y: np.array(y, dtype=object), pa.array):
        assert encode_labels(way(y), named)[0].tolist() == z.tolist()
        assert known_labels(way(y), np.array(named))[0].tolist() == (z >= 0).tolist()
    column = LabelColumn("y", classes=named)
    column.add(pa.array(y))
    table = pa.table({"x": range(len(y)), "y": y})
    converted = to_memmap(table, tmp_path / "x.npy", label="y", classes=named, progress=False)
    assert column.codes.tolist() == converted.y.tolist() == z.tolist()
    assert missing_texts(y) == {text.strip(): 2}
    assert column.marks == {text.strip(): 2} | {"": 1 + 2 * (not text.strip())}
    assert votes([[label, None] for label in y], named)[0].sum(axis=1).tolist() == (z >= 0).tolist()
    assert label_shares(y, named).any(axis=1).tolist() == (z >= 0).tolist()
    assert hide_labels(y, link=None, rate=0.0, classes=named).missing.tolist() == (z < 0).tolist()
    (_, first), (_, second) = PartialLabelKFold(2, classes=named).split(y, y)
    assert sorted([*first, *second]) == np.flatnonzero(z >= 0).tolist()


@pytest.mark.parametrize("text", [text for text in MISSING_LABELS if text] + ["", " ", "-1.00"])
def test_a_text_that_is_named_is_a_class_at_every_door(text, tmp_path):
    pytest.importorskip("pyarrow")
    y, named = [text, "oak", None, "oak", text], [text, "oak"]
    assert encode_labels(y, named)[0].tolist() == [0, 1, -1, 1, 0]
    assert missing_texts(y, named) == {}
    assert votes([[label] for label in y], named)[0].tolist() == label_shares(y, named).astype(int).tolist()
    table = pa.table({"x": range(5), "y": y})
    assert to_memmap(table, tmp_path / "x.npy", label="y", classes=named, progress=False).y.tolist() == [0, 1, -1, 1, 0]
    if text.strip():
        column = LabelColumn("y", classes=named)
        column.add(pa.array(y))
        assert column.codes.tolist() == [0, 1, -1, 1, 0]


LIKE_CLASSES = {
    "None": ["Mild Severe", "low high", "Yes No", "1+ 2+ 3+"],
    "none": ["mild severe"],
    "-1": ["0 1", "0.5 1.5"],
    "-1.0": ["0.0 1.0"],
    "-1.00": ["0.00 1.00"],
    "NA": ["EU SA", "EMEA APAC LATAM", "AF AS EU OC SA", "BW ZA ZM ZW"],
    "null": ["weak strong"],
    "NULL": ["WEAK STRONG"],
}
LIKE_MISSING = {
    "None": ["0 1", "True False", ""],
    "-1": ["elm oak"],
    "NA": [
        *("benign malignant", "YES NO", "M F", "0 1", "ALIVE DEAD", "CASE CTRL", "HIGH LOW", "ALL AML", "LUAD LUSC"),
        *("AF SR", "AA AG GG", "CR PR SD PD", "NY CA TX WA"),
    ],
    "null": ["Weak Strong"],
    "NULL": ["weak strong"],
} | {text: ["EU SA", "mild severe", "0 1"] for text in ("?", "N/A", "nan", "NaN", "<NA>", "NaT")}


def test_a_text_is_doubtful_where_it_fits_the_other_labels():
    for expected, cases in ((True, LIKE_CLASSES), (False, LIKE_MISSING)):
        for text, columns in cases.items():
            assert [looks_like_class(text, others.split()) for others in columns] == [expected] * len(columns), text
    assert not looks_like_class("null", ["weak", "strong"], alone=False)


@pytest.mark.parametrize(
    ("text", "others"), [(text, others) for text in LIKE_CLASSES if text != "none" for others in LIKE_CLASSES[text]]
)
def test_a_text_that_may_be_a_class_is_refused_at_every_door_with_both_ways_out(text, others, tmp_path):
    pytest.importorskip("pyarrow")
    y = [text, *others.split()] * 3
    doors = [
        lambda: encode_labels(y),
        lambda: votes([[label, None] for label in y]),
        lambda: hide_labels(y, link=None, rate=0.1),
        lambda: list(PartialLabelKFold(2).split(y, y)),
        lambda: choose_classes([found_labels(y[:1]), found_labels(y[1:])], None),
    ]
    for door in doors:
        with pytest.raises(ValueError, match=rf"{text}.*with it.*{text}.*without it") as refused:
            door()
    named = str(refused.value)
    assert all(label in named for label in others.split())
    column = LabelColumn("y")
    column.add(pa.array(y))
    with pytest.raises(ValueError, match=rf"{text}.*missing=.*classes="):
        _ = column.classes


CELLS = st.sampled_from(
    [*MISSING_LABELS, None, "0", "1", "2.5", "EU", "SA", "mild", "Mild", "True", "none", "unknown", "9", "x y", "+"]
)


@pytest.mark.filterwarnings("ignore:Counted as a class")
@pytest.mark.filterwarnings("ignore:Missing labels")
@given(st.lists(CELLS, min_size=2, max_size=12), st.permutations(range(12)))
def test_arrays_and_columns_agree_on_every_list_of_texts_in_any_order(cells, order):
    pytest.importorskip("pyarrow")
    cells = cells * 2

    def by_array(y):
        z, classes = encode_labels(y)
        return [None if code < 0 else classes[code] for code in z]

    def by_column(y):
        column = LabelColumn("y")
        column.add(pa.array(y, pa.string()))
        return [None if code < 0 else str(column.classes[code]) for code in column.codes]

    def outcome(way, y):
        try:
            return way(y)
        except ValueError as error:
            return "may be a class" in str(error)

    expected = outcome(by_array, cells)
    assert outcome(by_column, cells) == expected
    places = [i for i in order if i < len(cells)] + list(range(12, len(cells)))
    moved = outcome(by_array, [cells[i] for i in places])
    assert moved == (expected if isinstance(expected, bool) else [expected[i] for i in places])


@pytest.mark.parametrize("kind", [MARGaussianMixture, MARLogisticRegression, MARClassifierCV])
def test_a_fit_says_which_texts_counted_as_missing_and_how_often(kind, two, plain):
    y = np.array(written(two, letter, "NA"), dtype=object)
    blank = np.flatnonzero(two.missing)[:3]
    y[blank] = ""
    one = {"estimators": {"one": MARGaussianMixture()}, "cv": 2, "rivals": False}
    estimator = kind(**one if kind is MARClassifierCV else {})
    n = int(two.missing.sum()) - 3
    with pytest.warns(UserWarning, match=f"^Missing labels: 'NA' in {n} rows, empty in 3"):
        fit = estimator.fit(two.X, y)
    assert [note for note in fit.notes_ if note.startswith(f"Missing labels: 'NA' in {n} rows, empty in 3.")]
    assert fit.classes_.tolist() == ["a", "b"]
    if kind is MARGaussianMixture:
        np.testing.assert_array_equal(fit.score(two.X, y), plain.score(two.X, two.y))


DOUBTFUL = ["unknown", "none", "na", "Null", "missing", "nil", "-", "#DIV/0!", "#VALUE!", "Err:502"]


@pytest.mark.parametrize("text", DOUBTFUL)
def test_a_label_that_may_mean_missing_is_a_class_with_a_warning_unless_named(text):
    y = ["elm", "oak", text]
    with pytest.warns(UserWarning, match=f"may mean a missing label: '{text}'. Replace it by None"):
        _, classes = encode_labels(y)
    assert encode_labels(y, classes)[0].tolist() == np.argsort(np.argsort(y)).tolist()


@pytest.mark.parametrize("kind", [MARGaussianMixture, MARLogisticRegression])
def test_a_fit_notes_labels_that_may_mean_missing(kind, two):
    y = np.array(written(two, letter, "unknown"), dtype=object)
    with pytest.warns(UserWarning, match="'unknown'"):
        notes = kind(max_iter=5, link=None).fit(two.X, y).notes_
    named = kind(max_iter=5, link=None, classes=["a", "b", "unknown"]).fit(two.X, y).notes_
    assert [sum("may mean a missing label: 'unknown'" in note for note in some) for some in (notes, named)] == [1, 0]


# Types of labels and classes


@pytest.mark.parametrize("classes", [{0, 1}, frozenset([0, 1]), {0: "a", 1: "b"}, np.array({0, 1})])
def test_classes_without_an_order_are_refused(classes, two):
    with pytest.raises(ValueError, match="give the classes in a list"):
        fitted(two, two.y, classes=classes)
    with pytest.raises(ValueError, match="give the classes in a list"):
        label_shares(two.y, classes)


@pytest.mark.parametrize(
    ("classes", "message"), [([0, "1"], "mixes types"), ([0, None], "missing value"), ([True, 0], "mixes types")]
)
def test_classes_are_of_one_type_and_none_is_missing(classes, message, two):
    with pytest.raises(ValueError, match=message):
        fitted(two, two.y, classes=classes)


@pytest.mark.parametrize(
    "y", [[0, 1.0, 1, None], np.array([0, 1.0, 1, None], dtype=object), [0.0, True + 0, 1, np.nan]]
)
def test_integers_and_floats_that_are_equal_are_one_class_of_numbers(y):
    z, classes = encode_labels(y)
    assert (z.tolist(), classes.tolist(), classes.dtype.kind) == ([0, 1, 1, -1], [0.0, 1.0], "f")


@pytest.mark.parametrize("y", [[0, True, 1], np.array([0, True, 1, None], dtype=object), [False, 1.0, True]])
def test_truth_values_among_numbers_are_refused(y):
    with pytest.raises(ValueError, match="mixes labels of types bool"):
        encode_labels(y)


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("names", [[0.0, 1.0], [False, True], [-1.0, 1.0], ["None", "Mild"]])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_model_from_python_scores_a_file_as_it_scores_the_same_labels(names, ending, two, tmp_path):
    for package in ("pandas", "pyarrow"):
        pytest.importorskip(package)
    rows = pd.DataFrame(two.X, columns=["u", "v"])
    y = pd.Series(written(two, lambda k: names[k], None), dtype=float if isinstance(names[0], float) else object)
    model = MARGaussianMixture(link="logit", classes=names, max_iter=2).fit(rows, y)
    save(model, tmp_path / "model.marmix")
    getattr(rows.assign(y=y), f"to_{ending}")(tmp_path / f"rows.{ending}", index=False)
    scored = evaluate_file(tmp_path / "model.marmix", tmp_path / f"rows.{ending}", "y", progress=Progress(quiet=True))
    assert scored.labelled == (~two.missing).sum()
    assert np.trace(scored.confusion) / scored.labelled == pytest.approx(model.score(rows, y), abs=1e-12)


# Refusals


def some_objects(two, **replaced):
    return np.array(
        [replaced.get(f"at_{i}", value) for i, value in enumerate(written(two, letter, None))], dtype=object
    )


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        pytest.param(lambda d: None, {}, "requires y to be passed, but the target y is None", id="no y"),
        pytest.param(lambda d: np.full(len(d.y), -1), {}, "y has no label at all", id="all -1"),
        pytest.param(lambda d: np.full(len(d.y), np.nan), {}, "y has no label at all", id="all NaN"),
        pytest.param(lambda d: [None] * len(d.y), {}, "y has no label at all", id="all None"),
        pytest.param(lambda d: np.where(d.missing, -1, 7), {}, "one class only, 7", id="one class"),
        pytest.param(lambda d: np.where(d.truth == 1, 1, -1), {}, r"one class only, 1.*classes=", id="-1 and 1"),
        pytest.param(lambda d: d.y, {"classes": [0, 1, 2]}, "class 2 is in classes= but no row", id="never labelled"),
        pytest.param(
            lambda d: np.where(np.arange(len(d.y)) == 3, 5, d.y), {"classes": [0, 1]},
            r"y holds the label 5, which is not among the classes \[0, 1\]", id="not in classes",
        ),
        pytest.param(lambda d: d.y, {"classes": [0, 1, 1]}, r"classes=\[0, 1, 1\]: name each class once", id="twice"),
        pytest.param(lambda d: some_objects(d, at_0=1), {}, "mixes labels of types int, str", id="mixed objects"),
        pytest.param(lambda d: some_objects(d, at_0=1).tolist(), {}, "mixes labels of types int, str", id="mixed list"),
        pytest.param(lambda d: np.where(d.missing, np.inf, d.truth), {}, "y contains infinity", id="infinite"),
        pytest.param(lambda d: d.X[:, 0], {}, "Unknown label type: continuous", id="continuous"),
        pytest.param(
            lambda d: np.where(d.missing, np.nan, d.X[:, 0]), {}, "Unknown label type: continuous",
            id="continuous and NaN",
        ),
        pytest.param(lambda d: np.c_[d.y, d.y], {}, r"negative number of votes.*marmix\.votes", id="two columns"),
        pytest.param(lambda d: 1, {}, r"1d array.*shape \(\)", id="a number"),
        pytest.param(lambda d: d.y[:-1], {}, "inconsistent numbers of samples: 300 and 299", id="too short"),
    ],
)  # fmt: skip
def test_labels_that_no_fit_could_use_are_refused_by_name(write, options, message, two):
    with pytest.raises(ValueError, match=message):
        fitted(two, write(two), **options)


def test_a_category_that_no_row_has_is_refused_by_name(two):
    need("pandas")
    y = pd.Series(pd.Categorical(written(two, letter, None), categories=["a", "b", "c"]))
    with pytest.raises(ValueError, match=r"declares the category 'c'.*remove_unused_categories"):
        fitted(two, y)
    assert fitted(two, y.cat.remove_unused_categories(), max_iter=1).classes_.tolist() == ["a", "b"]


# Scores


def test_score_is_the_accuracy_on_labelled_rows(two, plain):
    labelled = ~two.missing
    assert plain.score(two.X, two.y) == accuracy_score(two.y[labelled], plain.predict(two.X)[labelled])
    assert plain.score(two.X, two.truth) == accuracy_score(two.truth, plain.predict(two.X))
    assert plain.score(two.X, two.y) > plain.score(two.X, two.truth), "hard rows lost their labels"


def test_score_does_not_ask_what_is_predicted_for_unlabelled_rows(two, plain):
    changed = two.X.copy()
    changed[two.missing] = -changed[two.missing]
    assert plain.score(changed, two.y) == plain.score(two.X, two.y)


def test_score_takes_weights_of_all_rows(two, plain):
    weight = np.arange(1.0, 1.0 + len(two.y))
    rows = ~two.missing
    expected = accuracy_score(two.y[rows], plain.predict(two.X)[rows], sample_weight=weight[rows])
    assert plain.score(two.X, two.y, sample_weight=weight) == expected
    assert expected != plain.score(two.X, two.y)


def test_score_refuses_labels_and_weights_that_it_cannot_use(two, plain):
    with pytest.raises(ValueError, match="every label in y is missing"):
        plain.score(two.X, np.full(len(two.y), -1))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples.*300.*299"):
        plain.score(two.X, two.y[:-1])
    with pytest.raises(ValueError, match="sample_weight"):
        plain.score(two.X, two.y, sample_weight=np.ones(3))
