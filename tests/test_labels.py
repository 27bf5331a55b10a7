"""Labels: every way of writing them gives the same codes, the texts for missing are the same everywhere, and scores."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.app.reading import Table
from marmix.app.survey import labels_of
from marmix.core.labels import (
    MISSING_LABELS,
    encode_labels,
    known_labels,
    label_shares,
    missing_texts,
    number_labels,
    votes,
)
from marmix.datasets import hide_labels
from marmix.evaluation import PartialLabelKFold, accuracy, population_scorer
from marmix.io import to_memmap

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

TRUTH, GONE = np.array([1, 0, 0, 1, 1]), np.array([False, True, False, False, True])
Z = np.where(GONE, -1, TRUTH)


def written(value_of, missing, truth=TRUTH, gone=GONE):
    """The labels as a list, each as `value_of` writes it."""
    return [missing if is_gone else value_of(int(k)) for k, is_gone in zip(truth, gone, strict=True)]


def letter(k):
    return "ab"[k]


# Each: y, and the classes that should come of it, which tell their type as well.
NUMBERS, FLOATS, LETTERS, TRUTHS = [0, 1], [0.0, 1.0], ["a", "b"], [False, True]
WAYS = {
    "ints": (Z, NUMBERS),
    "floats, NaN": (np.where(GONE, np.nan, TRUTH), FLOATS),
    "masked": (np.ma.array(TRUTH, mask=GONE), NUMBERS),
    "list of ints, None": (written(int, None), NUMBERS),
    "list of strings, None": (written(letter, None), LETTERS),
    "object strings, -1": (np.array(written(letter, -1), dtype=object), LETTERS),
    "list of bools, None": (written(bool, None), TRUTHS),
    "pandas Int64, NA": (pd.Series(written(int, pd.NA), dtype="Int64"), NUMBERS),
    "pandas boolean, NA": (pd.Series(written(bool, pd.NA), dtype="boolean"), TRUTHS),
    "pandas string, NA": (pd.Series(written(letter, pd.NA), dtype="string"), LETTERS),
    "pandas category, NaN": (pd.Series(written(letter, np.nan), dtype="category"), LETTERS),
    "pandas Categorical, unused": (pd.Categorical(written(letter, np.nan), categories=["a", "b", "c"]), LETTERS),
    "pyarrow chunks, null": (pa.chunked_array([written(letter, None)]), LETTERS),
    "pyarrow dictionary, null": (pa.array(written(letter, None)).dictionary_encode(), LETTERS),
    "polars ints, null": (pl.Series(written(int, None)), NUMBERS),
    "polars strings, null": (pl.Series(written(letter, None)), LETTERS),
    "large ints beside a null": (pl.Series(written(lambda k: 2**53 + k, None)), [2**53, 2**53 + 1]),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_y_has_the_same_codes_and_classes_of_its_type(way):
    y, expected = WAYS[way]
    z, classes = encode_labels(y)
    assert z.tolist() == Z.tolist()
    assert [(type(c), c) for c in classes.tolist()] == [(type(c), c) for c in expected]
    np.testing.assert_array_equal(number_labels(y, classes), Z)
    np.testing.assert_array_equal(known_labels(y)[0], ~GONE)
    np.testing.assert_array_equal(label_shares(y, expected), (Z[:, None] == [0, 1]).astype(float))


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert encode_labels(TRUTH[:, None])[0].tolist() == TRUTH.tolist()


@pytest.fixture(scope="module")
def plain(two):
    return MARGaussianMixture(link="logit").fit(two.X, two.y)


# Classes


def test_given_labels_are_kept_and_missing_ones_are_the_most_probable_class(three):
    clf = MARGaussianMixture(link="logit").fit(three.X, three.y)
    np.testing.assert_array_equal(clf.transduction_[~three.missing], three.truth[~three.missing])
    most_probable = clf.classes_[clf.predict_proba(three.X).argmax(axis=1)]
    np.testing.assert_array_equal(clf.transduction_[three.missing], most_probable[three.missing])
    assert (clf.transduction_ != most_probable).any(), "some given label should differ from the predicted one"


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 2, 0]])
def test_named_classes_keep_their_order_in_the_columns(order, three):
    plain = MARGaussianMixture(link="logit").fit(three.X, three.y)
    clf = MARGaussianMixture(link="logit", classes=order).fit(three.X, three.y)
    assert clf.classes_.tolist() == order
    np.testing.assert_allclose(clf.predict_proba(three.X), plain.predict_proba(three.X)[:, order], atol=1e-4)
    np.testing.assert_allclose(clf.class_prior_, plain.class_prior_[order], atol=1e-4)
    np.testing.assert_array_equal(clf.transduction_, plain.transduction_)


def test_minus_one_is_a_class_where_it_is_named(two, plain):
    sign = np.where(two.truth == 1, 1.0, -1.0)
    clf = MARGaussianMixture(link="logit", classes=[-1, 1]).fit(two.X, np.where(two.missing, np.nan, sign))
    assert clf.classes_.tolist() == [-1, 1]
    assert clf.loglik_ == plain.loglik_
    np.testing.assert_array_equal(clf.transduction_, np.where(plain.transduction_ == 1, 1, -1))
    assert clf.score(two.X, sign) == accuracy_score(two.truth, plain.predict(two.X))


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


# Texts for missing labels


@pytest.mark.filterwarnings("ignore:.*Missing labels")
@pytest.mark.parametrize("text", ["", "NA", "None", "-1.0", " NA "])
def test_every_door_takes_the_same_texts_as_missing_unless_they_are_named(text, tmp_path):
    y, names, z = ["elm", text, "oak", text, None, "oak", "elm"], ["elm", "oak"], [0, -1, 1, -1, -1, 1, 0]
    for way in (list, lambda y: np.array(y, dtype=object), pa.array):
        assert encode_labels(way(y))[0].tolist() == z
        assert known_labels(way(y))[0].tolist() == [code >= 0 for code in z]
    table = pa.table({"x": range(len(y)), "y": y})
    column = labels_of(Table(tmp_path, table), "y")
    converted = to_memmap(table, tmp_path / "x.npy", label="y")
    assert column.codes.tolist() == converted.y.tolist() == z
    assert missing_texts(y) == {text.strip(): 2}
    assert column.marks == {text.strip(): 2} | {"": 1 + 2 * (not text.strip())}
    assert votes([[label, None] for label in y])[0].sum(axis=1).tolist() == [code >= 0 for code in z]
    assert label_shares(y, names).any(axis=1).tolist() == [code >= 0 for code in z]
    assert hide_labels(y, link=None, rate=0.0).missing.tolist() == [code < 0 for code in z]
    (_, first), (_, second) = PartialLabelKFold(2).split(y, y)
    assert sorted([*first, *second]) == np.flatnonzero(np.array(z) >= 0).tolist()

    names, z = [text, *names], [1, 0, 2, 0, -1, 2, 1]
    assert encode_labels(y, names)[0].tolist() == z
    assert missing_texts(y, names) == {}
    assert votes([[label] for label in y], names)[0].tolist() == label_shares(y, names).astype(int).tolist()
    if text.strip() == text:
        assert labels_of(Table(tmp_path, table), "y", classes=names).codes.tolist() == z


CELLS = st.sampled_from([*MISSING_LABELS, None, "0", "1", "2.5", "mild", "True", "none", "unknown", "9", "x y", "+"])


@pytest.mark.filterwarnings("ignore:Missing labels")
@settings(max_examples=30)
@given(st.lists(CELLS, max_size=12), st.permutations(range(14)))
def test_arrays_and_columns_agree_on_every_list_of_texts_in_any_order(cells, order):
    cells = ["a", "b", *cells]

    def by_array(y):
        z, classes = encode_labels(y)
        return [None if code < 0 else classes[code] for code in z]

    column = labels_of(Table(Path("rows.csv"), pa.table({"y": pa.array(cells, pa.string())})), "y")
    expected = by_array(cells)
    assert [None if code < 0 else str(column.classes[code]) for code in column.codes] == expected
    assert missing_texts(cells) + missing_texts([""] * cells.count(None)) == column.marks
    places = [i for i in order if i < len(cells)]
    assert by_array([cells[i] for i in places]) == [expected[i] for i in places]


@pytest.mark.parametrize("kind", [MARGaussianMixture, MARLogisticRegression, MARClassifierCV])
def test_a_fit_says_which_texts_counted_as_missing_and_how_often(kind, two, plain):
    y = np.array(written(letter, "NA", two.truth, two.missing), dtype=object)
    y[np.flatnonzero(two.missing)[:3]] = ""
    one = {"estimators": {"one": MARGaussianMixture()}, "cv": 2, "rivals": False}
    estimator = kind(**one if kind is MARClassifierCV else {})
    said = f"Missing labels: 'NA' in {two.missing.sum() - 3} rows, empty in 3."
    with pytest.warns(UserWarning, match=said):
        fit = estimator.fit(two.X, y)
    assert [note for note in fit.notes_ if note.startswith(said)]
    assert fit.classes_.tolist() == ["a", "b"]


# Types of labels and classes


@pytest.mark.parametrize("y", [[0, 1.0, 1, None], np.array([0, 1.0, 1, None], dtype=object), [0.0, 1, 1, np.nan]])
def test_integers_and_floats_that_are_equal_are_one_class_of_numbers(y):
    z, classes = encode_labels(y)
    assert (z.tolist(), classes.tolist(), classes.dtype.kind) == ([0, 1, 1, -1], [0.0, 1.0], "f")


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        (None, None, "requires y to be passed, but the target y is None"),
        ([-1, -1], None, "y has no label at all"),
        ([np.nan, np.nan], None, "y has no label at all"),
        ([7, -1, 7], None, "one class only, 7.*-1 means a missing label"),
        (["a", "NA", "a"], None, "one class only, 'a'.*'NA' means a missing label"),
        ([0, 1, -1], [0, 1, 2], "class 2 is in classes= but no row"),
        ([0, 1, 5], [0, 1], r"y holds the label 5, which is not among the classes \[0, 1\]"),
        ([0, 1, 5, 7], [0, 1], r"the labels 5, 7, which are not among"),
        (["1", "2"], [1, 2], "'1', '2', which are not among"),
        ([0, 1], [0, 1, 1], r"classes=\[0, 1, 1\]: name each class once"),
        ([0, 1], {0, 1}, "in a list"),
        ([0, 1], {0: "a", 1: "b"}, "in a list"),
        ([0, 1], [0, None], "missing value"),
        (["a", 1, None], None, "not supported between"),
        (np.array(["a", 1, None], dtype=object), None, "not supported between"),
        ([0.0, 1.0, np.inf], None, "y contains infinity"),
        ([0.1, 0.7, np.nan], None, "Unknown label type: continuous"),
        (1, None, r"1d array.*shape \(\)"),
    ],
)
def test_labels_that_no_fit_could_use_are_refused_by_name(y, classes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        encode_labels(y, classes)


# Scores


def test_score_with_missing_labels_is_that_of_all_rows(two, plain):
    clf = plain
    expected = accuracy(two.y, clf.predict_proba(two.X), clf.missing_proba(two.X), classes=clf.classes_).value
    average = MARClassifierCV(estimators={"": MARGaussianMixture()}, cv=2).fit(two.X, two.y)
    assert clf.score(two.X, two.y) == pytest.approx(expected) == population_scorer("accuracy")(clf, two.X, two.y)
    assert average.score(two.X, two.y) == pytest.approx(expected, rel=1e-3)
    assert clf.score(two.X, two.truth) == accuracy_score(two.truth, clf.predict(two.X))


def test_score_without_a_mechanism_is_the_weighted_accuracy_on_labelled_rows(two):
    plain = MARGaussianMixture(link=None).fit(two.X, two.y)
    rows, weight = ~two.missing, np.arange(1.0, 1.0 + len(two.y))
    predicted = plain.predict(two.X)
    assert plain.score(two.X, two.y) == accuracy_score(two.y[rows], predicted[rows])
    assert plain.score(two.X, two.truth) == accuracy_score(two.truth, predicted)
    expected = accuracy_score(two.y[rows], predicted[rows], sample_weight=weight[rows])
    assert plain.score(two.X, two.y, sample_weight=weight) == expected
    with pytest.raises(ValueError, match="every label in y is missing"):
        plain.score(two.X, np.full(len(two.y), -1))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples.*300.*299"):
        plain.score(two.X, two.y[:-1])
