"""LabelColumn: which labels are missing, which classes there are, and what cannot be a column of classes."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.core.labels import MISSING_LABELS, encode_labels
from marmix.tables import LabelColumn
from marmix.tables.labels import label_columns

pa = pytest.importorskip("pyarrow")


def column(*batches, **options):
    labels = LabelColumn("y", **options)
    for batch in batches:
        labels.add(batch if isinstance(batch, pa.Array) else pa.array(batch))
    return labels


@pytest.mark.parametrize("marker", [*MISSING_LABELS, " ", " NA ", "\t?"])
def test_every_marker_is_a_missing_label(marker):
    labels = column(["a", marker, "b"], missing=[marker])
    assert labels.codes.tolist() == [0, -1, 1]
    assert (labels.rows, labels.n_missing) == (3, 1)


@pytest.mark.parametrize("label", ["none", "-2", "0", "-1.5", "n", "unknown"])
def test_what_only_resembles_a_marker_is_a_label(label):
    assert column(["a", label]).n_missing == 0


@pytest.mark.parametrize("columns", [{"label": "y"}, {"votes": ["a", "b"]}])
def test_a_text_is_not_a_class_and_missing_at_once(columns):
    names = {"label": None, "votes": None, "shares": None} | columns
    with pytest.raises(
        ValueError, match="--missing names 'None', which is among the classes 'None', 'some' of the model"
    ):
        label_columns(**names, missing=["None"], classes=["None", "some"])


def test_further_markers_add_to_the_usual_ones():
    labels = column(["a", "unknown", "NA", "b", "99"], missing=["unknown", "99"])
    assert labels.codes.tolist() == [0, -1, -1, 1, -1]
    assert column(pa.array([1.0, 99.0, 2.0]), missing=["99"]).codes.tolist() == [0, -1, 1]


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
    "decimals": (
        pa.array([Decimal("3.00"), None, Decimal("-1.00"), Decimal("7.50")]),
        ["3.00", "7.50"],
        [0, -1, -1, 1],
    ),
    "booleans": (pa.array([True, None, False]), ["false", "true"], [1, -1, 0]),
    "dictionary": (pa.array(["u", None, "v"]).dictionary_encode(), ["u", "v"], [0, -1, 1]),
    "large text": (pa.array(["u", "NA", "v"], pa.large_string()), ["u", "v"], [0, -1, 1]),
    "dates": (pa.array([dt.date(2020, 1, 2), None, dt.date(2019, 1, 1)]), ["2019-01-01", "2020-01-02"], [1, -1, 0]),
}


@pytest.mark.parametrize("kind", TYPED)
def test_typed_columns_have_the_labels_that_they_would_have_as_text(kind):
    array, classes, codes = TYPED[kind]
    labels = column(array, missing=["-1"])
    assert labels.classes.tolist() == classes
    assert labels.codes.tolist() == codes
    assert labels.codes.dtype == np.int32


WORDS = st.lists(st.sampled_from(["a", "b", "c", "1", " a", "", "NA", "-1", "?"]), min_size=1, max_size=30)


@given(WORDS, st.integers(0, 30))
def test_batches_do_not_matter(words, cut):
    whole, parts = column(["a", "b", *words]), column(["a", "b", *words][:cut], ["a", "b", *words][cut:])
    assert whole.classes.tolist() == parts.classes.tolist()
    assert whole.codes.tolist() == parts.codes.tolist()
    assert whole.n_missing == parts.n_missing == (whole.codes == -1).sum()


@given(WORDS)
def test_codes_say_which_class_each_row_has(words):
    labels = column(["a", "b", *words])
    names = ["" if code < 0 else labels.classes[code] for code in labels.codes]
    assert names == ["" if word.strip() in MISSING_LABELS else word.strip() for word in ["a", "b", *words]]


def test_classes_can_be_given_to_an_estimator_as_they_are():
    labels = column(["b", "a", "NA", "a"])
    z, classes = encode_labels(np.append(labels.classes.astype(object), None)[labels.codes])
    assert z.tolist() == labels.codes.tolist()
    assert classes.tolist() == labels.classes.tolist()


def test_no_missing_label_is_a_fact_and_not_an_error():
    assert column(["a", "b"]).n_missing == 0


def test_fewer_than_two_classes_are_refused_with_what_was_found():
    with pytest.raises(ValueError, match=r"'y' has one class only, '1'.*'-1' in 1 row"):
        _ = column(["1", "-1", "1"], missing=["-1"]).classes
    with pytest.raises(ValueError, match=r"'y' has one class only, 'a': (?!.*Missing labels).*--label"):
        _ = column(["a", "a"]).codes
    with pytest.raises(ValueError, match=r"'y' has no label at all"):
        _ = column(["", "NA"]).classes


def test_a_column_of_identifiers_or_measurements_is_refused():
    with pytest.raises(ValueError, match=r"more than 100 different labels .*'0', '1', '2', "):
        column([str(i) for i in range(101)])
    with pytest.raises(ValueError, match=r"12 different labels in 13 labelled rows"):
        _ = column([*(str(i / 7) for i in range(12)), "0.0", ""]).classes
    assert len(column([str(i) for i in range(100)] * 2).classes) == 100
    assert len(column([str(i) for i in range(10)]).classes) == 10


def test_labels_for_a_model_are_its_classes_or_refused():
    assert column(["b", "NA", "a"], classes=["b", "a", "c"]).codes.tolist() == [0, -1, 1]
    assert column(["10", ""], classes=np.array([2, 10])).codes.tolist() == [1, -1]
    with pytest.raises(ValueError, match=r"'d' in data row 4.* 'b', 'a' .*--missing 'd'"):
        column(["a", "b"], ["a", "d"], classes=["b", "a"])


def test_nested_labels_are_refused():
    with pytest.raises(ValueError, match="labels are text or whole numbers"):
        column(pa.array([[1], [2]]))


def test_labels_that_numpy_would_cut_are_refused():
    with pytest.raises(ValueError, match=r"'y' holds .* in data row 2, which has a NUL character"):
        column(["a", "b\0"])


def test_labels_that_differ_in_writing_only_are_found_and_stay_different():
    labels = column(["Oak", "oak", "big  elm", "big elm", "7", "007", "ash"])
    assert len(labels.classes) == 7
    assert labels.alike() == [["007", "7"], ["Oak", "oak"], ["big  elm", "big elm"]]


def test_what_counted_as_missing_is_said_over_all_batches():
    labels = column(["1", "2", "-1", None], ["-1", "no", "1", "2"], missing=["no", "-1"])
    assert labels.notes() == ["Missing labels: '-1' in 2 rows, 'no' in 1, empty in 1."]
    assert column(["oak", "elm", "oak"]).notes() == []


# Classes of a model, or named


TYPED_CLASSES = {
    "floats from integers": ([0.0, 1.0], pa.array([1, 0, None, 1]), [1, 0, -1, 1]),
    "floats from floats": ([0.5, 1.0], pa.array([1.0, 0.5, None, 1.0]), [1, 0, -1, 1]),
    "floats from text": ([0.0, 1.0], pa.array(["1", "0.0", "", "1.00"]), [1, 0, -1, 1]),
    "integers from text of floats": ([0, 1], pa.array(["1.0", "0.0", "", "1"]), [1, 0, -1, 1]),
    "truth values": ([False, True], pa.array([True, False, None, True]), [1, 0, -1, 1]),
    "truth values from text": ([False, True], pa.array(["True", "FALSE", "NA", "true"]), [1, 0, -1, 1]),
    "truth values from numbers": ([False, True], pa.array([1, 0, None, 1]), [1, 0, -1, 1]),
    "minus one": ([-1.0, 1.0], pa.array([1, -1, None, 1]), [1, 0, -1, 1]),
    "large integers": ([2**60, 2**60 + 1], pa.array([2**60 + 1, 2**60, None, 2**60 + 1]), [1, 0, -1, 1]),
}


@pytest.mark.parametrize("case", TYPED_CLASSES)
def test_labels_for_classes_of_any_type_are_found_by_their_meaning(case):
    classes, array, codes = TYPED_CLASSES[case]
    assert column(array, classes=np.array(classes)).codes.tolist() == codes


def test_text_classes_are_themselves_and_no_numbers():
    with pytest.raises(ValueError, match="'1' in data row 1"):
        column(["1"], classes=["1.0", "x"])
    with pytest.raises(ValueError, match="'b' in data row 2 and 'c', which are not among the classes 'a', 'd'"):
        column(["a", "b", "c", "b"], classes=["a", "d"])


def test_a_named_class_needs_a_label_at_the_fit_but_not_later():
    assert column(["a", "b"], classes=["a", "b", "c"]).codes.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"no label 'c', which --classes names"):
        _ = column(["a", "b"], classes=["a", "b", "c"], fitted=False).codes
    assert column(["b", "None", "a"], classes=["None", "b", "a"], fitted=False).codes.tolist() == [1, 0, 2]


def test_a_kept_text_is_a_class():
    assert column(["Mild", "None", "Severe", "NA"], keep=["None"]).classes.tolist() == ["Mild", "None", "Severe"]
