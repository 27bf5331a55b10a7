"""Preparation: the same features from every kind of table, and what cannot be a feature refused with its place."""

import datetime as dt
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from marmix import MARLogisticRegression
from marmix.tables import Counts, LabelColumn, Preparation, as_text
from marmix.tables.cells import as_numbers
from marmix.tables.preparation import Median

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

FINITE = st.floats(allow_nan=False, allow_infinity=False)
REAL = st.floats(-1e150, 1e150)  # larger numbers are refused
COLUMNS = {
    "real": st.none() | REAL,
    "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
    "flag": st.none() | st.booleans(),
    "word": st.none() | st.sampled_from(["b", "a", "c d", "ü", "x=1"]),
}


@st.composite
def tables(draw):
    """Typed columns, of which the first rows keep each from being constant."""
    n = draw(st.integers(1, 12))
    first = {"real": [0.5, -1.5], "whole": [1, 2], "flag": [True, False], "word": ["b", "a"]}
    kinds = {"real": pa.float64(), "whole": pa.int64(), "flag": pa.bool_(), "word": pa.string()}
    more = {name: draw(st.lists(cells, min_size=n, max_size=n)) for name, cells in COLUMNS.items()}
    return pa.table({name: pa.array(first[name] + more[name], kinds[name]) for name in COLUMNS})


def through_parquet(table):
    file = io.BytesIO()
    pq.write_table(table, file)
    return pq.read_table(io.BytesIO(file.getvalue()))


KINDS = {
    "text": lambda table: pa.table({name: as_text(table[name]) for name in table.column_names}),
    "batches": lambda table: pa.Table.from_batches(table.to_batches(max_chunksize=3)),
    "pandas": lambda table: table.to_pandas(),
    "pandas categories": lambda table: table.to_pandas().astype({"word": "category"}),
    "pandas nullable": lambda table: table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
    "polars": pl.from_arrow,
    "polars categories": lambda table: pl.from_arrow(table).cast({"word": pl.Categorical}),
    "parquet": through_parquet,
    "dict": lambda table: {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names},
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
}
EXACT = ["text", "batches", "polars", "polars categories", "parquet", "record batch", "pandas nullable"]


@given(tables(), st.sampled_from(["median", "drop"]))
def test_the_same_data_give_the_same_features_whatever_they_are_stored_in(table, impute):
    fitted = Preparation(impute=impute).fit(table)
    matrix, counts = fitted.transform_counted(table)
    for kind in EXACT:
        other = Preparation(impute=impute).fit(KINDS[kind](table))
        assert other.columns_ == fitted.columns_, kind
        features, kind_counts = fitted.transform_counted(KINDS[kind](table))
        assert features.tobytes() == matrix.tobytes(), kind
        assert kind_counts == counts, kind


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_these_features(kind):
    table = pa.table(
        {
            "real": [0.5, None, 2.5, 1.0],
            "whole": pa.array([1, 2, None, 4]),
            "flag": [True, None, False, True],
            "word": ["b", "a", None, "b"],
        }
    )
    fitted = Preparation().fit(KINDS[kind](table))
    assert fitted.get_feature_names_out().tolist() == ["real", "whole", "flag", "word=b"]
    expected = [[0.5, 1, 1, 1], [1.0, 2, 1, 0], [2.5, 2, 0, 1], [1.0, 4, 1, 1]]
    np.testing.assert_array_equal(fitted.transform(KINDS[kind](table)), expected)
    assert [column["kind"] for column in fitted.columns_] == ["number", "number", "boolean", "category"]
    assert [column["fill"] for column in fitted.columns_] == [1.0, 2.0, "true", "b"]
    assert [column["missing"] for column in fitted.columns_] == [1, 1, 1, 1]


@given(tables(), st.integers(0, 14))
def test_batches_do_not_matter(table, cut):
    whole = Preparation().fit(table)
    parts = [batch for part in (table[:cut], table[cut:]) for batch in part.to_batches()]
    split = Preparation().fit_batches(lambda: iter(parts))
    assert split.columns_ == whole.columns_
    assert (split.n_rows_, split.feature_names_in_) == (whole.n_rows_, whole.feature_names_in_)
    matrix, counts = whole.transform_counted(table)
    starts = np.cumsum([0, *(batch.num_rows for batch in parts[:-1])]).tolist()
    blocks, block_counts = zip(*map(split.transform_counted, parts, starts), strict=True)
    assert np.concatenate(blocks).tobytes() == matrix.tobytes()
    assert sum(block_counts, Counts.none()) == counts


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, -1.0]), min_size=1, max_size=200
    ),
    st.integers(1, 60),
)
def test_a_median_of_pieces_is_that_of_all(values, size):
    median = Median()
    for _ in range(2):
        for a in range(0, len(values), size):
            median.add(np.array(values[a : a + size]))
        median.finish()
        if median.value is not None:
            break
    with np.errstate(over="ignore"):
        expected = np.median(values)
    assert median.value == expected or math.isinf(expected)


@pytest.mark.parametrize("draw", ["normal", "few values", "mostly one", "sorted", "two far apart"])
@pytest.mark.parametrize("n", [20_000, 20_001])
def test_a_median_of_many_values_is_exact_and_keeps_few_of_them(draw, n):
    rng = np.random.default_rng(0)
    values = {
        "normal": rng.normal(size=n),
        "few values": rng.integers(0, 5, n).astype(float),
        "mostly one": np.where(rng.random(n) < 0.7, 3.0, rng.normal(size=n)),
        "sorted": np.sort(rng.normal(size=n)),
        "two far apart": np.repeat([1.0, 1e300], [n // 2, n - n // 2]),
    }[draw]
    median, kept = Median(), 0
    for _ in range(2):
        assert median.value is None
        for part in np.array_split(values, 7):
            median.add(part)
        kept = sum(map(len, median._inside))
        median.finish()
    assert median.value == np.median(values)
    assert kept < 0.13 * n


def test_a_bracket_that_misses_is_widened():
    median = Median()
    values = np.random.default_rng(0).normal(size=20_000)
    median.add(values)
    median.finish()
    median._low, median._high = 2.0, 3.0
    for _ in range(2):
        assert median.value is None
        median.add(values)
        median.finish()
    assert median.value == np.median(values)


CELLS = st.one_of(
    st.from_regex(r"\A[+-]?[0-9]{0,5}\.?[0-9]{0,20}([eE][+-]?[0-9]{1,3})?\Z"),
    st.text("0123456789+-.eEinfatyNAx_, \t?", max_size=8),
    REAL.map(repr),
    st.integers().map(str),
)


@given(st.lists(CELLS, min_size=1, max_size=8))
def test_text_is_a_number_where_python_says_so(cells):
    numbers = as_numbers(pa.array(cells))
    for i, cell in enumerate(cells):
        try:
            value = float(cell) if "_" not in cell else None
        except ValueError:
            value = None
        if numbers.missing[i]:
            assert cell.strip() in ("", "NA", "NaN", "nan", "?") or cell.strip() == "N/A"
        elif value is None or math.isnan(value):
            assert numbers.odd[i]
            assert math.isnan(numbers.values[i])
        else:
            assert not numbers.odd[i]
            assert numbers.values[i] == value
            assert math.copysign(1, numbers.values[i]) == math.copysign(1, value)


def test_numbers_beyond_a_float_are_the_nearest_ones():
    numbers = as_numbers(pa.array(["9007199254740993", "1e-400", "0.1000000000000000055511151231257827"]))
    assert numbers.values.tolist() == [9007199254740992.0, 0.0, 0.1]
    assert as_numbers(pa.array([9007199254740993, 2**62 + 1])).values.tolist() == [float(2**53), float(2**62)]


def fit(**columns):
    return Preparation().fit(columns)


def test_minus_one_is_a_number_and_markers_are_missing():
    fitted = fit(a=["-1", "NA", "3", "?", " ", "null", "None", "N/A", "NaN"])
    assert fitted.columns_ == [{"name": "a", "kind": "number", "levels": [], "fill": 1.0, "missing": 7}]


def test_truth_is_read_however_it_is_capitalised_and_as_a_number_later():
    fitted = fit(a=["True", "FALSE", "true", ""])
    assert fitted.columns_ == [
        {"name": "a", "kind": "boolean", "levels": ["false", "true"], "fill": "true", "missing": 1}
    ]
    np.testing.assert_array_equal(fitted.transform({"a": ["TRUE", "False", "1", "0.0"]}), [[1], [0], [1], [0]])
    np.testing.assert_array_equal(fitted.transform({"a": [1, 0]}), [[1], [0]])


def test_columns_that_say_nothing_are_left_out_with_a_note():
    fitted = fit(a=["1", "2"], b=["x", "x "], c=["", "NA"], d=[3.0, 3.0], e=[True, True])
    assert fitted.get_feature_names_out().tolist() == fitted.features_in() == ["a"]
    assert fitted.feature_names_in_ == ["a", "b", "c", "d", "e"]
    assert fitted.notes_ == [
        "Column 'b' has the same value, 'x', in every row and was left out.",
        "Column 'c' has no value and was left out.",
        "Column 'd' has the same value, '3', in every row and was left out.",
        "Column 'e' has the same value, 'true', in every row and was left out.",
    ]
    np.testing.assert_array_equal(fitted.transform({"a": ["5"]}), [[5]])
    with pytest.raises(ValueError, match=r"no column can be used as a feature\. Column 'b' has the same value"):
        fit(b=["x", "x"])


REFUSED = {
    "a typing error": (
        [*"123456789", "abc"],
        "'age' holds 'abc' in data row 10, and numbers in 9 of 10 cells.*--exclude",
    ),
    "decimal comma": (
        ["1,5", "2", "3,25"],
        r"'age' holds '1,5' in data row 1: write numbers with a decimal point .*--decimal",
    ),
    "infinity": (["1", "inf", "2"], "'age' holds 'inf' in data row 2, which is infinite"),
    "typed infinity": ([1.0, -math.inf], "'age' holds '-inf' in data row 2, which is infinite"),
    "overflow": (["1", "1e999"], "'age' holds '1e999' in data row 2, which is infinite"),
    "many words": (
        [f"w{i}" for i in range(21)],
        "more than 20 different values .'w0', 'w1', 'w2', .*--exclude, or with --id",
    ),
    "dates": ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], r"'age' holds dates or times \(date32.*days since"),
    "times": ([dt.datetime(2020, 1, 1), None], r"'age' holds dates or times \(timestamp"),
    "dates as text": (["2020-01-01", "NA", "2021-01-01"], "'age' holds dates or times .'2020-01-01'"),
    "days as text": (["31.12.2020", "1/2/20"], "'age' holds dates or times .'31.12.2020'"),
    "lists": ([[1], [2, 3]], "'age' holds list.*each part a column of its own"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_feature_is_refused_with_its_place_and_advice(case):
    cells, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        fit(age=pa.array(cells))


def test_rows_are_counted_over_batches():
    parts = [pa.record_batch({"a": ["1"] * 9}), pa.record_batch({"a": ["2", "x"]})]
    with pytest.raises(ValueError, match="'x' in data row 11"):
        Preparation().fit_batches(lambda: iter(parts))


def test_a_column_with_fewer_numbers_is_one_of_categories():
    fitted = fit(a=["1", "2", "3", "x", "1", "x"])
    assert fitted.columns_[0]["levels"] == ["1", "2", "3", "x"]
    assert fitted.columns_[0]["fill"] == "1"


def test_twenty_levels_are_allowed_and_more_on_request():
    cells = [f"w{i}" for i in range(30)]
    assert len(fit(a=cells[:20]).get_feature_names_out()) == 19
    assert len(Preparation(max_levels=30).fit({"a": cells}).get_feature_names_out()) == 29


def test_an_unseen_level_is_missing_and_is_counted():
    fitted = fit(a=["u", "v", "u"], x=[1.0, 2.0, 4.0])
    later = {"x": ["1", "", "3", "4"], "a": ["u", "w", "", "z"], "more": [0, 0, 0, 0]}
    matrix, counts = fitted.transform_counted(later)
    np.testing.assert_array_equal(matrix, [[0, 1], [0, 2], [0, 3], [0, 4]])
    assert counts == Counts(2, {"a": 1}, {"a": 2}, {"a": "w"}, blank=(1,))
    assert counts.notes() == [
        "Column 'a' is empty in 1 row.",
        "Column 'a' holds values that the model was not fitted with, such as 'w', in 2 rows; they count as missing.",
        "Data row 2 has no feature at all: no label is imputed there, and a given label is left out of the fit.",
    ]
    dropped = Preparation(impute="drop").fit({"a": ["u", "v", "u"], "x": [1.0, 2.0, 4.0]})
    np.testing.assert_array_equal(dropped.transform(later), [[0, 1], [np.nan, np.nan], [np.nan, 3], [np.nan, 4]])
    assert [column["fill"] for column in dropped.columns_] == [None, None]


def test_transform_refuses_a_wrong_cell_with_its_row():
    fitted = fit(a=[1.0, 2.0])
    for cell, message in (
        ("x", "where the model was fitted with numbers"),
        ("1,5", "decimal point"),
        ("inf", "infinite"),
    ):
        with pytest.raises(ValueError, match=rf"'a' holds '{cell}' in data row 102.*{message}"):
            fitted.transform_counted({"a": ["1", cell]}, first_row=100)
    with pytest.raises(ValueError, match="dates or times"):
        fitted.transform({"a": [dt.date(2020, 1, 1)]})


def test_columns_that_are_not_there_are_told_with_the_nearest_names():
    with pytest.raises(ValueError, match=r"no column 'wieght'\. Did you mean 'weight'"):
        Preparation(features=["wieght"]).fit({"weight": [1, 2]})
    with pytest.raises(ValueError, match=r"no column 'weight', 'age'\. Did you mean 'Weight'"):
        fit(weight=[1, 2], age=[3, 4]).transform({"Weight": [1, 2], "b": [1, 2]})


def test_features_choose_columns_and_their_order():
    fitted = Preparation(features=["c", "a"]).fit({"a": [1, 2], "b": ["x", "y"], "c": [3, 4]})
    np.testing.assert_array_equal(fitted.transform({"a": [1], "c": [9]}), [[9, 1]])
    for wrong, message in (([], "no column is left"), (["a", "a"], "each column once"), ("a", "each column once")):
        with pytest.raises(ValueError, match=message):
            Preparation(features=wrong).fit({"a": [1, 2]})


def test_wrong_parameters_and_empty_tables_are_refused():
    with pytest.raises(ValueError, match="impute='mean' is not one of 'median', 'drop'"):
        Preparation(impute="mean").fit({"a": [1, 2]})
    with pytest.raises(ValueError, match="no rows"):
        fit(a=pa.array([], pa.float64()))


def test_what_was_fitted_is_plain_and_enough_to_transform():
    table = {"a": ["1", "", "3"], "b": ["x", "y", "x"], "c": [True, False, None]}
    fitted = Preparation().fit(table)
    again = Preparation(**fitted.get_params())
    for name, value in vars(fitted).items():
        if name.endswith("_"):
            setattr(again, name, json.loads(json.dumps(value)))
    assert again.transform(table).tobytes() == fitted.transform(table).tobytes()


@pytest.mark.parametrize(
    "column",
    [
        {"name": "a", "kind": "date", "levels": [], "fill": None},
        {"name": 1, "kind": "number", "levels": [], "fill": None},
        {"name": "a", "kind": "number", "levels": [], "fill": math.inf},
        {"name": "a", "kind": "number", "levels": ["x"], "fill": 1.0},
        {"name": "a", "kind": "category", "levels": ["x"], "fill": "x"},
        {"name": "a", "kind": "category", "levels": ["x", "y"], "fill": "z"},
        {"name": "a", "kind": "category", "levels": ["x", 1], "fill": "x"},
        {"name": "a", "kind": "boolean", "levels": ["no", "yes"], "fill": None},
        "a",
    ],
)
def test_columns_that_no_fit_leaves_are_refused(column):
    fitted = fit(a=[1, 2])
    fitted.columns_ = [column]
    with pytest.raises(ValueError, match="fit again"):
        fitted.get_feature_names_out()


def test_it_is_a_transformer_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    table = pd.DataFrame({"x": x + rng.normal(size=200), "group": np.where(rng.random(200) < 0.5, "a", "b")})
    y = np.where(rng.random(200) < 0.3, -1, (x > 0).astype(int))
    preparation = Preparation(impute="drop", max_levels=5)
    assert clone(preparation).get_params() == {
        "features": None,
        "impute": "drop",
        "max_levels": 5,
        "missing_cells": None,
    }
    pipeline = make_pipeline(Preparation(), MARLogisticRegression(link="logit")).fit(table, y)
    by_hand = np.column_stack([table["x"], table["group"] == "b"]).astype(float)
    direct = MARLogisticRegression(link="logit").fit(by_hand, y)
    assert pipeline.predict_proba(table).tobytes() == direct.predict_proba(by_hand).tobytes()


def test_a_numpy_array_is_a_table_of_numbers():
    X = np.random.default_rng(0).normal(size=(10, 3))
    assert Preparation().fit_transform(X).tobytes() == X.tobytes()


def test_only_columns_whose_medians_are_not_known_make_a_second_reading_necessary(monkeypatch):
    def times(rows, **options):
        read = 0

        def batches():
            nonlocal read
            read += 1
            return iter([pa.record_batch({"a": np.arange(rows, dtype=float), "b": ["x", "y"] * (rows // 2)})])

        Preparation(**options).fit_batches(batches)
        return read

    assert (times(1000), times(10_000)) == (1, 1)
    monkeypatch.setattr("marmix.tables.preparation._KEPT", 0)
    assert (times(1000), times(10_000), times(10_000, impute="drop"), times(10_000, features=["b"])) == (1, 2, 1, 1)


def test_labels_are_surveyed_with_the_columns_in_one_reading():
    parts = [pa.record_batch({"x": ["1", "2"], "y": ["b", ""]}), pa.record_batch({"x": ["4", ""], "y": ["a", "b"]})]
    readings = []

    def batches():
        readings.append(parts)
        return iter(parts)

    labels = LabelColumn("y")
    fitted = Preparation().fit_batches(batches, labels)
    assert len(readings) == 1
    assert (labels.classes.tolist(), labels.codes.tolist(), labels.rows) == (["a", "b"], [1, -1, 0, 1], fitted.n_rows_)
    alone = Preparation(features=["x"]).fit_batches(lambda: iter(parts))
    assert (fitted.columns_, fitted.feature_names_in_) == (alone.columns_, ["x"])
    with pytest.raises(ValueError, match="no column 'y'"):
        Preparation(features=["x", "y"]).fit_batches(batches, LabelColumn("y"))


@pytest.mark.parametrize("typed", [False, True])
def test_cells_named_as_missing_count_as_empty_ones_in_fit_and_transform(typed):
    empty = {"x": [1.0, None, 4.0, 9.0, None], "c": ["u", "v", None, "v", "u"], "n": [3, 5, None, 7, 11]}
    coded = {"x": ["1", "<5", "4", "9", " n.d. "], "c": ["u", "v", "<5", "v", "u"], "n": [3, 5, -99, 7, 11]}
    if not typed:
        coded["n"] = [str(number) for number in coded["n"]]
    plain, marked = Preparation(), Preparation(missing_cells=["<5", "n.d.", "-99.0"])
    np.testing.assert_array_equal(marked.fit_transform(coded), plain.fit_transform(empty))
    assert marked.columns_ == plain.columns_
    with pytest.raises(ValueError, match="'<5'"):
        Preparation().fit({"x": [*coded["x"][:4], "7.5", "8"]})
    for wrong in ("<5", [5]):
        with pytest.raises(ValueError, match="must be a list of texts"):
            Preparation(missing_cells=wrong).fit(empty)
