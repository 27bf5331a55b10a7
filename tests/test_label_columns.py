"""The labels of a file: which are missing, which classes there are, and what cannot be a column of classes."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.app.reading import Table
from marmix.app.survey import Coder, labels_of
from marmix.core.labels import MISSING_LABELS

pa = pytest.importorskip("pyarrow")


def labels(cells, **options):
    return labels_of(Table(Path("rows.csv"), pa.table({"y": cells})), "y", **options)


@pytest.mark.parametrize("label", ["none", "-2", "0", "-1.5", "n", "unknown"])
def test_what_only_resembles_a_text_for_missing_is_a_label_unless_it_is_named(label):
    assert (labels(["a", label, "b"]).codes >= 0).all()
    found = labels(["a", label, "b", "NA"], missing=[label])
    assert found.codes.tolist() == [0, -1, 1, -1]
    assert found.marks == {label: 1, "NA": 1}


@pytest.mark.parametrize("columns", [{"label": "a"}, {"label": None, "votes": ["a", "b"]}])
def test_a_text_is_not_a_class_and_missing_at_once(columns):
    table = Table(Path("rows.csv"), pa.table({"a": ["some"], "b": ["some"]}))
    with pytest.raises(ValueError, match="--missing names 'None', which is among the classes 'None', 'some'"):
        labels_of(table, **columns, missing=["None"], classes=["None", "some"])


def test_labels_are_compared_without_blanks_around_them():
    found = labels(["a", " a", "a\t", "b c"])
    assert (found.classes.tolist(), found.codes.tolist()) == (["a", "b c"], [0, 0, 0, 1])


def test_classes_are_integers_only_where_every_label_is_written_as_one():
    assert labels(["10", "2", "-3", ""]).classes.tolist() == [-3, 2, 10]
    for odd in ("02", "2.0", "+2", "x", "1e3", "9" * 19, "٣"):
        assert labels(["10", odd]).classes.tolist() == sorted(["10", odd])


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
    found = labels(array)
    assert (found.classes.tolist(), found.codes.tolist()) == (classes, codes)


WORDS = st.lists(st.sampled_from(["a", "b", "c", "1", " a", "", "NA", "-1", "?"]), min_size=1, max_size=30)


@given(WORDS, st.integers(0, 30))
def test_codes_say_which_class_each_row_has_however_rows_are_split(words, cut):
    words = ["a", "b", *words]
    found, coder = labels(words), Coder("y")
    names = ["" if code < 0 else found.classes[code] for code in found.codes]
    assert names == ["" if word.strip() in MISSING_LABELS else word.strip() for word in words]
    codes = np.concatenate([coder.add(pa.array(part, pa.string())) for part in (words[:cut], words[cut:])])
    assert coder.classes.tolist() == found.classes.tolist()
    assert coder.numbered(codes).tolist() == found.codes.tolist()
    assert coder.marks == found.marks


@pytest.mark.parametrize(
    ("cells", "classes", "message"),
    [
        (["1", "-1", "1"], None, r"'y' has one class only, '1'.*'-1' in 1 row.*--classes"),
        (["", "NA"], None, "'y' has no label at all"),
        ([*(str(i / 7) for i in range(12)), "0.0", ""], None, "12 different labels in 13 labelled rows"),
        (["a", "b"], ["a", "b", "c"], "no label 'c', which --classes names"),
    ],
)
def test_what_cannot_be_fitted_is_refused_by_check(cells, classes, message):
    with pytest.raises(ValueError, match=message):
        labels(cells, classes=classes).check()


def test_a_column_of_identifiers_is_refused_as_it_is_read():
    with pytest.raises(ValueError, match=r"more than 100 different labels .*'0', '1', '2', "):
        labels([str(i) for i in range(101)])
    labels(["", *(str(i) for i in range(100))] * 2).check()
    labels(["", *(str(i) for i in range(10))]).check()
    with pytest.raises(ValueError, match="labels are text or whole numbers"):
        labels(pa.array([[1], [2]]))


def test_what_counted_as_missing_is_said():
    found = labels(["1", "2", "-1", None, "-1", "no", "1", "2"], missing=["no"])
    assert found.notes() == ["Missing labels: '-1' in 2 rows, 'no' in 1, empty in 1."]
    assert labels(["oak", "elm", "oak"]).notes() == []


MEANINGS = {
    "other order": (["b", "a", "c"], ["a", "b", "NA", "a"]),
    "a text for missing": (["None", "b"], ["b", "None", "NA", "b"]),
    "floats from integers": ([0.0, 1.0], pa.array([1, 0, None, 1])),
    "floats from text": ([0.0, 1.0], ["1", "0.0", "", "1.00"]),
    "integers from text of floats": ([0, 1], ["1.0", "0.0", "", "1"]),
    "truth values from text": ([False, True], ["True", "FALSE", "NA", "true"]),
    "truth values from numbers": ([False, True], pa.array([1, 0, None, 1])),
    "minus one": ([-1.0, 1.0], pa.array([1, -1, None, 1])),
    "large integers": ([2**60, 2**60 + 1], pa.array([2**60 + 1, 2**60, None, 2**60 + 1])),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_labels_for_classes_of_any_type_are_found_by_their_meaning(case):
    classes, cells = MEANINGS[case]
    assert labels(cells, classes=np.array(classes)).codes.tolist() == [1, 0, -1, 1]


def test_labels_that_are_not_among_the_classes_are_refused_with_their_row():
    with pytest.raises(ValueError, match=r"'d' in data row 4.* 'b', 'a': .*--missing 'd'"):
        labels(["a", "b", "a", "d"], classes=["b", "a"])
