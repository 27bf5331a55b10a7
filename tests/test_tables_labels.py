"""LabelColumn: which labels are missing, which classes there are, and what cannot be a column of classes."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.core.labels import MISSING_LABELS
from marmix.tables import LabelColumn
from marmix.tables.labels import label_columns

pa = pytest.importorskip("pyarrow")


def column(*batches, **options):
    labels = LabelColumn("y", **options)
    for batch in batches:
        labels.add(batch if isinstance(batch, pa.Array) else pa.array(batch))
    return labels


@pytest.mark.parametrize("label", ["none", "-2", "0", "-1.5", "n", "unknown"])
def test_what_only_resembles_a_text_for_missing_is_a_label_unless_it_is_named(label):
    assert column(["a", label, "b"]).n_missing == 0
    labels = column(["a", label, "b", "NA"], missing=[label])
    assert labels.codes.tolist() == [0, -1, 1, -1]
    assert labels.marks == {label: 1, "NA": 1}


def test_whole_numbers_are_named_without_a_point():
    assert column(pa.array([1.0, 99.0, 2.0]), missing=["99"]).codes.tolist() == [0, -1, 1]


@pytest.mark.parametrize("columns", [{"label": "y"}, {"votes": ["a", "b"]}])
def test_a_text_is_not_a_class_and_missing_at_once(columns):
    names = {"label": None, "votes": None, "shares": None} | columns
    with pytest.raises(ValueError, match="--missing names 'None', which is among the classes 'None', 'some'"):
        label_columns(**names, missing=["None"], classes=["None", "some"])


def test_labels_are_compared_without_blanks_around_them():
    labels = column(["a", " a", "a\t", "b c"])
    assert labels.classes.tolist() == ["a", "b c"]
    assert labels.codes.tolist() == [0, 0, 0, 1]


def test_classes_are_integers_only_where_every_label_is_written_as_one():
    assert column(["10", "2", "-3", ""]).classes.tolist() == [-3, 2, 10]
    assert column(["10", "2"]).classes.dtype == np.int64
    for odd in ("02", "2.0", "+2", "x", "1e3", "9" * 19, "٣"):
        assert column(["10", odd]).classes.tolist() == sorted(["10", odd])


TYPED = {
    "integers": (pa.array([3, None, -1, 7]), [3, 7], [0, -1, -1, 1]),
    "whole floats beside NaN": (pa.array([3.0, float("nan"), None, 7.0]), [3, 7], [0, -1, -1, 1]),
    "decimals": (pa.array([Decimal("3.0"), None, Decimal("-1.0"), Decimal("7.5")]), ["3.0", "7.5"], [0, -1, -1, 1]),
    "booleans": (pa.array([True, None, False]), ["false", "true"], [1, -1, 0]),
    "dictionary": (pa.array(["u", None, "v"]).dictionary_encode(), ["u", "v"], [0, -1, 1]),
    "large text": (pa.array(["u", "NA", "v"], pa.large_string()), ["u", "v"], [0, -1, 1]),
    "dates": (pa.array([dt.date(2020, 1, 2), None, dt.date(2019, 1, 1)]), ["2019-01-01", "2020-01-02"], [1, -1, 0]),
}


@pytest.mark.parametrize("kind", TYPED)
def test_typed_columns_have_the_labels_that_they_would_have_as_text(kind):
    array, classes, codes = TYPED[kind]
    labels = column(array)
    assert labels.classes.tolist() == classes
    assert labels.codes.tolist() == codes
    assert labels.codes.dtype == np.int32


WORDS = st.lists(st.sampled_from(["a", "b", "c", "1", " a", "", "NA", "-1", "?"]), min_size=1, max_size=30)


@given(WORDS, st.integers(0, 30))
def test_codes_say_which_class_each_row_has_however_rows_are_split(words, cut):
    words = ["a", "b", *words]
    whole, parts = column(words), column(words[:cut], words[cut:])
    names = ["" if code < 0 else whole.classes[code] for code in whole.codes]
    assert names == ["" if word.strip() in MISSING_LABELS else word.strip() for word in words]
    assert whole.classes.tolist() == parts.classes.tolist()
    assert whole.codes.tolist() == parts.codes.tolist()
    assert whole.marks == parts.marks
    assert whole.n_missing == (whole.codes == -1).sum()


@given(WORDS)
def test_a_discarded_label_is_one_that_was_missing_from_the_start(words):
    words = ["a", "b", *words]
    discarded = column(words)
    discarded.discard(["b", "not there"])
    missing = column(words, missing=["b", "not there"])
    assert discarded.codes.tolist() == missing.codes.tolist()
    assert (discarded.marks, discarded.counts) == (missing.marks, missing.counts)


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (["1", "-1", "1"], None, r"'y' has one class only, '1'.*'-1' in 1 row.*--classes"),
        (["", "NA"], None, "'y' has no label at all"),
        ([*(str(i / 7) for i in range(12)), "0.0", ""], None, "12 different labels in 13 labelled rows"),
        (["a", "b"], ["a", "b", "c"], "no label 'c', which --classes names"),
    ],
)
def test_what_cannot_be_fitted_is_refused_by_check(labels, classes, message):
    with pytest.raises(ValueError, match=message):
        column(labels, classes=classes).check()


def test_a_column_of_identifiers_is_refused_as_it_is_read():
    with pytest.raises(ValueError, match=r"more than 100 different labels .*'0', '1', '2', "):
        column([str(i) for i in range(101)])
    column([str(i) for i in range(100)] * 2).check()
    column([str(i) for i in range(10)]).check()
    with pytest.raises(ValueError, match="labels are text or whole numbers"):
        column(pa.array([[1], [2]]))


def test_what_counted_as_missing_is_said_over_all_batches():
    labels = column(["1", "2", "-1", None], ["-1", "no", "1", "2"], missing=["no"])
    assert labels.notes() == ["Missing labels: '-1' in 2 rows, 'no' in 1, empty in 1."]
    assert column(["oak", "elm", "oak"]).notes() == []


# Classes of a model, or named


TYPED_CLASSES = {
    "other order": (["b", "a", "c"], ["a", "b", "NA", "a"], [1, 0, -1, 1]),
    "a text for missing": (["None", "b"], ["b", "None", "NA", "b"], [1, 0, -1, 1]),
    "floats from integers": ([0.0, 1.0], pa.array([1, 0, None, 1]), [1, 0, -1, 1]),
    "floats from floats": ([0.5, 1.0], pa.array([1.0, 0.5, None, 1.0]), [1, 0, -1, 1]),
    "floats from text": ([0.0, 1.0], ["1", "0.0", "", "1.00"], [1, 0, -1, 1]),
    "integers from text of floats": ([0, 1], ["1.0", "0.0", "", "1"], [1, 0, -1, 1]),
    "truth values": ([False, True], pa.array([True, False, None, True]), [1, 0, -1, 1]),
    "truth values from text": ([False, True], ["True", "FALSE", "NA", "true"], [1, 0, -1, 1]),
    "truth values from numbers": ([False, True], pa.array([1, 0, None, 1]), [1, 0, -1, 1]),
    "minus one": ([-1.0, 1.0], pa.array([1, -1, None, 1]), [1, 0, -1, 1]),
    "large integers": ([2**60, 2**60 + 1], pa.array([2**60 + 1, 2**60, None, 2**60 + 1]), [1, 0, -1, 1]),
}


@pytest.mark.parametrize("case", TYPED_CLASSES)
def test_labels_for_classes_of_any_type_are_found_by_their_meaning(case):
    classes, array, codes = TYPED_CLASSES[case]
    assert column(array, classes=np.array(classes)).codes.tolist() == codes


def test_labels_that_are_not_among_the_classes_are_refused_with_their_row():
    with pytest.raises(ValueError, match=r"'d' in data row 4.* 'b', 'a': .*--missing 'd'"):
        column(["a", "b"], ["a", "d"], classes=["b", "a"])
    with pytest.raises(ValueError, match="'1' in data row 1"):
        column(["1"], classes=["1.0", "x"])
