"""to_memmap: any table becomes the same files, bit for bit, or nothing at all; open_memmap: files that belong together."""

import gzip
import json
import os
import subprocess
import sys
import tracemalloc
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from marmix import MARGaussianMixture
from marmix.io import open_memmap, to_memmap
from marmix.tables import reading

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
ds = pytest.importorskip("pyarrow.dataset")
feather = pytest.importorskip("pyarrow.feather")
ipc = pytest.importorskip("pyarrow.ipc")
pq = pytest.importorskip("pyarrow.parquet")


convert = partial(to_memmap, progress=False)


def frame(n=1000, seed=0):
    """Numbers of several types, the hard ones first, and labels of each kind."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n)})
    table.loc[:4, "a"] = [5e-324, -0.0, 1.7976931348623157e308, 0.1, 2 / 3]
    table["b"] = rng.integers(-(2**62), 2**62, n)
    table["of three.words"] = rng.random(n) < 0.5
    table["d"] = rng.normal(size=n).astype(np.float32)
    table["number"] = rng.choice([-1, 3, 10, 7], n)
    table["word"] = rng.choice(np.array(["b", "ü", "a b", None], dtype=object), n)
    return table


FEATURES = ["a", "b", "of three.words", "d"]


def as_folder(table, path):
    path.mkdir()
    cuts = [0, 100, 100, 700, len(table)]
    for i, (a, b) in enumerate(pairwise(cuts)):
        table.iloc[a:b].reset_index(drop=True).to_parquet(path / f"part-{i}.parquet")
    (path / "_SUCCESS").write_bytes(b"")
    (path / "_metadata.parquet").write_bytes(b"not a table")
    return path


def as_hive(table, path):
    for i, (a, b) in enumerate([(0, 300), (300, len(table))]):
        folder = path / f"day={i}" / "place=here%20now"
        folder.mkdir(parents=True)
        table.iloc[a:b].to_parquet(folder / "part.parquet", index=False)
    return path


def as_ipc(table, path, stream=False):
    arrow = pa.Table.from_pandas(table)
    with (ipc.new_stream if stream else ipc.new_file)(path, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=300)
    return path


def as_csv(table, path, **options):
    """All digits, also of the single floats, of which pandas writes those that single floats need."""
    single = [name for name in table if table[name].dtype == np.float32]
    table.astype(dict.fromkeys(single, np.float64)).to_csv(path, index=False, **options)


def written(function, ending, **options):
    def write(table, path):
        path = path.with_suffix(ending)
        function(table, path, **options)
        return path

    return write


EMPTY_IS_NULL = csv.ConvertOptions(strings_can_be_null=True)
SOURCES = {
    "parquet": written(pd.DataFrame.to_parquet, ".parquet", row_group_size=300),
    "folder": as_folder,
    "csv": written(as_csv, ".csv"),
    "csv.gz": written(as_csv, ".csv.gz"),
    "TSV.GZ": written(as_csv, ".TSV.GZ", sep="\t", compression="gzip"),
    "tsv": written(as_csv, ".tsv", sep="\t"),
    "arrow": written(as_ipc, ".arrow"),
    "arrow stream": written(as_ipc, ".arrow", stream=True),
    "feather": written(pd.DataFrame.to_feather, ".feather"),
    "path as text": lambda table, path: str(SOURCES["parquet"](table, path)),
    "Table": lambda table, path: pa.Table.from_pandas(table),
    "RecordBatch": lambda table, path: pa.RecordBatch.from_pandas(table),
    "RecordBatchReader": lambda table, path: pa.Table.from_pandas(table).to_reader(max_chunksize=300),
    "CSV reader": lambda table, path: csv.open_csv(SOURCES["csv"](table, path), convert_options=EMPTY_IS_NULL),
    "Dataset": lambda table, path: ds.dataset(as_folder(table, path), exclude_invalid_files=True),
    "Dataset of CSV": lambda table, path: ds.dataset(
        SOURCES["csv"](table, path), format=ds.CsvFileFormat(convert_options=EMPTY_IS_NULL)
    ),
    "DataFrame": lambda table, path: table,
    "DataFrames": lambda table, path: (table.iloc[a : a + 300] for a in range(0, len(table), 300)),
    "list of Tables": lambda table, path: [pa.Table.from_pandas(table.iloc[a : a + 300]) for a in (0, 300, 600, 900)],
}


@pytest.mark.filterwarnings("ignore:.*Missing labels")
@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_gives_the_same_bits_and_labels(kind, tmp_path):
    table = frame()
    source = SOURCES[kind](table, tmp_path / "source")
    result = convert(source, tmp_path / "rows.npy", columns=FEATURES, label="number", classes=[3, 7, 10])
    assert isinstance(result.X, np.memmap)
    assert result.X.flags.c_contiguous
    assert not result.X.flags.writeable
    assert result.X.tobytes() == table[FEATURES].to_numpy(dtype=np.float64).tobytes()
    assert result.classes.tolist() == [3, 7, 10]
    assert result.y.dtype == np.int8
    np.testing.assert_array_equal(result.y, table["number"].map({-1: -1, 3: 0, 7: 1, 10: 2}))
    assert (result.columns, result.rows, result.dropped) == (FEATURES, len(table), 0)
    words = convert(SOURCES[kind](table, tmp_path / "words"), tmp_path / "words.npy", columns=["d"], label="word")
    assert words.classes.tolist() == ["a b", "b", "ü"]
    names = np.append(words.classes.astype(object), None)[words.y]
    assert names.tolist() == [None if pd.isna(word) else word for word in table["word"]]


@pytest.mark.parametrize("kind", ["String", "Categorical"])
def test_polars_frames_are_tables(kind, tmp_path):
    pl = pytest.importorskip("polars")
    kind = getattr(pl, kind)
    source = pl.DataFrame({"a": [1, None, 3], "y": pl.Series(["u", "v", None], dtype=kind)})
    result = convert([source, source], tmp_path / "rows.npy", label="y", missing="nan")
    np.testing.assert_array_equal(result.X[:, 0], [1, np.nan, 3] * 2)
    assert (result.y.tolist(), result.classes.tolist()) == ([0, 1, -1] * 2, ["u", "v"])


def test_arrays_are_tables_whose_columns_are_x0_x1(tmp_path):
    X = np.random.default_rng(0).normal(size=(500, 3))
    whole = convert(np.asfortranarray(X), tmp_path / "whole.npy")
    parts = convert((X[a : a + 130] for a in range(0, 500, 130)), tmp_path / "parts.npy")
    some = convert(X[::2], tmp_path / "some.npy", columns=["x2", "x0"])
    assert whole.X.tobytes() == parts.X.tobytes() == X.tobytes()
    assert whole.columns == ["x0", "x1", "x2"]
    assert some.X.tobytes() == X[::2, [2, 0]].tobytes()
    assert whole.y is whole.classes is None
    assert {path.name for path in tmp_path.glob("whole*")} == {"whole.npy", "whole.npy.json"}


def test_masked_values_of_an_array_are_missing(tmp_path):
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], [[False, False], [False, True]])
    result = convert([masked], tmp_path / "rows.npy", missing="nan")
    np.testing.assert_array_equal(result.X, [[1, 2], [3, np.nan]])


def test_columns_are_in_the_order_asked_for_and_all_but_the_label_without_asking(tmp_path):
    table = frame(50)[["d", "number", "a", "b"]]
    source = SOURCES["parquet"](table, tmp_path / "source")
    all_of_them = convert(source, tmp_path / "all.npy", label="number")
    assert all_of_them.columns == ["d", "a", "b"]
    some = convert(source, tmp_path / "some.npy", columns=("b", "d"))
    assert some.X.tobytes() == table[["b", "d"]].to_numpy(dtype=np.float64).tobytes()


def test_an_index_that_pandas_stored_is_no_feature(tmp_path):
    table = frame(50)[["a", "d"]].iloc[[4, 1, 7]]
    for name, source in {"parquet": tmp_path / "s.parquet", "feather": tmp_path / "s.feather"}.items():
        if name == "parquet":
            table.to_parquet(source)
            assert "__index_level_0__" in pq.read_schema(source).names
        else:
            feather.write_feather(pa.Table.from_pandas(table), source)
        assert convert(source, tmp_path / f"{name}.npy").columns == ["a", "d"]
    frames = [table.reset_index(drop=True), table]
    assert convert(frames, tmp_path / "frames.npy").columns == ["a", "d"]


def test_hive_partitions_are_columns(tmp_path):
    table = frame(500)
    source = as_hive(table, tmp_path / "source")
    result = convert(source, tmp_path / "rows.npy", columns=["d", "day"], label="place")
    np.testing.assert_array_equal(result.X[:, 0], table["d"])
    np.testing.assert_array_equal(result.X[:, 1], np.arange(500) >= 300)
    assert result.classes.tolist() == ["here now"]


def test_a_filtered_dataset_has_the_rows_of_its_filter(tmp_path):
    table = frame()
    source = ds.dataset(SOURCES["parquet"](table, tmp_path / "source")).filter(ds.field("d") > 0)
    result = convert(source, tmp_path / "rows.npy", columns=["d", "a"], label="number")
    assert result.X.tobytes() == table.loc[table["d"] > 0, ["d", "a"]].to_numpy(dtype=np.float64).tobytes()


def test_a_dataset_of_some_row_groups_has_their_rows(tmp_path):
    table = frame()
    whole = ds.dataset(SOURCES["parquet"](table, tmp_path / "source"))
    (file,) = whole.get_fragments()
    groups = [file.subset(row_group_ids=[3, 1])]
    source = ds.FileSystemDataset(groups, whole.schema, whole.format, whole.filesystem)
    result = convert(source, tmp_path / "rows.npy", columns=["d"])
    np.testing.assert_array_equal(result.X[:, 0], source.to_table()["d"])
    assert result.rows == 400


def test_a_dataset_with_a_schema_of_its_own_has_the_types_of_that(tmp_path):
    table = pd.DataFrame({"a": [1.0, 2.0], "y": [1, 10]})
    table.to_parquet(tmp_path / "s.parquet")
    schema = pa.schema({"y": pa.string(), "a": pa.float64(), "not there": pa.float64()})
    source = ds.dataset(tmp_path / "s.parquet", schema=schema)
    result = convert(source, tmp_path / "rows.npy", columns=["a", "not there"], label="y", missing="nan")
    assert result.classes.tolist() == [1, 10]
    np.testing.assert_array_equal(result.X, [[1, np.nan], [2, np.nan]])


@pytest.mark.parametrize("kind", ["parquet", "csv", "DataFrames"])
def test_float32_is_rounded_once(kind, tmp_path):
    table = frame()[["b", "d", "of three.words"]]
    source = SOURCES[kind](table, tmp_path / "source")
    result = convert(source, tmp_path / "rows.npy", dtype="float32")
    assert result.X.dtype == np.float32
    expected = np.column_stack([table[name].to_numpy().astype(np.float32) for name in table])
    if kind == "csv":  # there all numbers are float64 before
        expected = table.to_numpy(dtype=np.float64).astype(np.float32)
    assert result.X.tobytes() == expected.tobytes()


def test_decimals_and_half_floats_are_numbers(tmp_path):
    table = pa.table({"a": pa.array(["1.25", "-3.50"]).cast(pa.decimal128(5, 2)), "b": np.array([0.5, 2], np.float16)})
    np.testing.assert_array_equal(convert(table, tmp_path / "rows.npy").X, [[1.25, 0.5], [-3.5, 2.0]])


def test_the_number_of_rows_need_not_be_known(tmp_path, monkeypatch):
    """The header has room for it, whatever the number of its digits."""
    X = np.arange(12345.0)[:, None]
    monkeypatch.setattr(reading, "_BLOCK", 64)
    result = convert((X[a : a + 1000] for a in range(0, 12345, 1000)), tmp_path / "rows.npy")
    np.testing.assert_array_equal(result.X, X)
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), X)


@pytest.mark.filterwarnings("ignore:.*Missing labels")
def test_types_of_a_csv_file_are_those_of_all_its_rows(tmp_path):
    """Integers, then fractions; numbers as labels, then words: far apart, so that the beginning does not tell."""
    n = 300_000
    source = tmp_path / "long.csv"
    lines = [f"{i},{i % 2}" for i in range(n)] + ["0.5,word", "-0.25,-1", "1e3,"]
    source.write_text("a,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
    assert source.stat().st_size > 2 * reading.READ
    result = convert(source, tmp_path / "rows.npy", label="y")
    np.testing.assert_array_equal(result.X[:, 0], [*range(n), 0.5, -0.25, 1000.0])
    assert result.classes.tolist() == ["0", "1", "word"]
    assert result.y[-5:].tolist() == [0, 1, 2, -1, -1]


def test_line_breaks_between_quotes_are_no_ends_of_rows(tmp_path):
    source = tmp_path / "remarks.csv"
    lines = [f'{i},"remark\nof {"many words " * 20}","a\nb"' for i in range(10_000)]
    source.write_text("a,remark,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
    result = convert(source, tmp_path / "rows.npy", columns=["a"], label="y")
    np.testing.assert_array_equal(result.X[:, 0], np.arange(10_000))
    assert result.classes.tolist() == ["a\nb"]


# Labels.


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (pa.array([4, -1, 2, None], pa.int16()), [2, 4]),
        (pa.array([4.0, -1.0, 2.0, np.nan]), [2, 4]),
        (pa.array(["4", "-1", "2", ""]), [2, 4]),
        (pa.array(["b", None, "a", None], pa.large_string()), ["a", "b"]),
        (pa.DictionaryArray.from_arrays([0, 1, 2, None], ["b", None, "a"]), ["a", "b"]),
        (pa.array([True, None, False, None]), ["false", "true"]),
    ],
)
def test_labels_are_numbered_in_the_order_of_their_names(labels, classes, tmp_path):
    result = convert(pa.table({"y": labels, "a": [0, 1, 2, 3]}), tmp_path / "rows.npy", label="y")
    assert result.classes.tolist() == classes
    assert result.classes.dtype == np.unique(classes).dtype
    assert result.y.tolist() == [1, -1, 0, -1]


def test_texts_that_counted_as_missing_are_said_unless_they_are_named_as_classes(tmp_path):
    source = tmp_path / "s.csv"
    source.write_text("a,y\n1,b\n1,None\n1,a\n1,-1\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="'y': Missing labels: 'None' in 1 row."):
        assert convert(source, tmp_path / "missing.npy", label="y").y.tolist() == [1, -1, 0, -1]
    named = convert(source, tmp_path / "class.npy", label="y", classes=["None", "a", "b"])
    assert named.y.tolist() == [2, 0, 1, -1]
    with pytest.raises(ValueError, match="'b' in data row 1, which is not among the classes 'a', 'None'"):
        convert(source, tmp_path / "refused.npy", label="y", classes=["a", "None"])


def test_categories_without_a_row_are_no_classes(tmp_path):
    places = pa.array([*range(0, 128, 2), None], pa.int8())  # no room in int8 for another category
    labels = pa.DictionaryArray.from_arrays(places, [f"c{i:03}" for i in range(128)])
    result = convert(pa.table({"a": range(65), "y": labels}), tmp_path / "rows.npy", label="y")
    assert result.classes.tolist() == [f"c{i:03}" for i in range(0, 128, 2)]
    assert result.y.tolist() == [*range(64), -1]


def test_labels_that_nan_made_floats_in_some_parts_are_the_integers_of_the_others(tmp_path):
    parts = [
        pd.DataFrame({"a": [1.0, 2.0], "y": [None, None]}),
        pd.DataFrame({"a": [1.0, 2.0], "y": [5, 3]}),
        pd.DataFrame({"a": [1.0, 2.0], "y": [np.nan, 5.0]}),
    ]
    result = convert(parts, tmp_path / "rows.npy", label="y")
    assert (result.y.tolist(), result.classes.tolist()) == ([-1, -1, 1, 0, -1, 1], [3, 5])


@pytest.mark.parametrize(("classes", "kind"), [(127, np.int8), (128, np.int16), (40_000, np.int32)])
def test_codes_are_the_smallest_integers_that_hold_them(classes, kind, tmp_path):
    y = np.random.default_rng(0).permutation(np.arange(classes) * 3)
    result = convert({"t": pa.table({"a": y, "y": y})}.values(), tmp_path / "rows.npy", label="y")
    assert result.y.dtype == kind
    np.testing.assert_array_equal(result.classes[result.y], y)


def test_a_label_with_a_value_for_each_row_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("marmix.io._MOST_CLASSES", 100)
    table = pa.table({"a": range(101), "y": range(101)})
    assert convert(table[:100], tmp_path / "rows.npy", label="y").classes.tolist() == [*range(100)]
    with pytest.raises(ValueError, match="more than 100 different labels"):
        convert(table, tmp_path / "more.npy", label="y")


# Missing features.


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow", "DataFrames"])
def test_a_missing_feature_is_refused_written_as_nan_or_its_row_left_out(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK", 1000)  # the row is counted over blocks and files
    table = frame()[["a", "d", "word"]]
    table["c"] = pd.array(np.arange(1000), dtype="Int64")
    table.loc[[432, 900], "d"] = np.nan
    table.loc[432, "word"] = "only here"
    table.loc[700, "c"] = pd.NA

    def converted(name, **options):
        source = SOURCES[kind](table, tmp_path / name)
        return convert(source, tmp_path / f"{name}.npy", columns=["a", "c", "d"], label="word", **options)

    with pytest.raises(ValueError, match=r"misses a feature in column 'd', first in row 432: .*missing='drop'"):
        converted("refused")
    features = table[["a", "c", "d"]].to_numpy(dtype=np.float64, na_value=np.nan)
    with_nan = converted("nan", missing="nan")
    np.testing.assert_array_equal(with_nan.X, features)
    assert (with_nan.rows, with_nan.dropped) == (1000, 0)
    without = converted("drop", missing="drop")
    np.testing.assert_array_equal(without.X, features[~np.isnan(features).any(axis=1)])
    assert (without.rows, without.dropped) == (997, 3)
    assert without.classes.tolist() == ["a b", "b", "ü"]
    assert open_memmap(tmp_path / "drop.npy").dropped == 3


@pytest.mark.parametrize("missing", ["raise", "nan", "drop"])
def test_infinity_is_not_missing(missing, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK", 8)
    table = pa.table({"a": [1.0, None, -np.inf]})
    message = "misses .* first in row 1" if missing == "raise" else "infinity.*, first in row 2"
    with pytest.raises(ValueError, match=message):
        convert(table, tmp_path / "rows.npy", missing=missing)
    with pytest.raises(ValueError, match="too large for float32, in column 'a', first in row 1"):
        convert(pa.table({"a": [1.0, 1e39]}), tmp_path / "rows.npy", dtype="float32")


# Refusals.

TABLE = {"a": [1.0, 2.0], "b": [1, 2], "city": ["u", "v"], "y": [0, 1]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "z"}, "has no columns 'z'; its columns are 'a', 'b', 'city', 'y'"),
        ({"columns": ["a", "q"]}, "has no columns 'q'"),
        ({"columns": ["a", "a"]}, "at least one feature, each once"),
        ({"columns": []}, "at least one feature"),
        ({"columns": ["a", "y"], "label": "y"}, "not the label"),
        ({"columns": "a"}, "must be a list of names"),
        ({"label": "y"}, "column 'city' holds string, not numbers. One-hot encode"),
        ({"columns": ["a"], "dtype": "float16"}, "dtype='float16' is not one of 'float64', 'float32'"),
        ({"columns": ["a"], "missing": "mean"}, "missing='mean' is not one of"),
    ],
)
def test_what_cannot_be_converted_is_said(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        convert(pa.table(TABLE), tmp_path / "rows.npy", **options)
    assert not list(tmp_path.iterdir())


def test_categories_and_dates_are_no_features(tmp_path):
    for values in (pa.array(["u", "v"]).dictionary_encode(), pa.array([0, 1], pa.timestamp("s"))):
        with pytest.raises(ValueError, match=r"column 'b' holds .*columns= names the features"):
            convert(pa.table({"a": [1.0, 2.0], "b": values}), tmp_path / "rows.npy")


CSV_ERRORS = {
    "a,b\n1,2\n3,x\n": r"s\.csv: column 'b' holds 'x' in row 1, not a number\. One-hot encode",
    "a,b\n1,2\n3\n": r"s\.csv: data row 2 has 1 cell, where the header has 2",
    "a,b\n1,2\n3,\n": r"s\.csv misses a feature in column 'b', first in row 1",
    "a,a\n1,2\n": "has 2 columns 'a'",
    ",a\n0,2\n": r"column without a name.*columns=",
    "1,2\n3,4\n": r"numbers in its first line: .*header=None",
    "1.5,2,g\n3,4,h\n": r"numbers in its first line: .*header=None",
    "a;b\n1,234;2\n": r"s\.csv: '1,234' in data row 1 of column 'a' may .*decimal=",
    "a,b\n": "but no rows",
    "": r"s\.csv is empty",
}


@pytest.mark.parametrize("text", CSV_ERRORS)
def test_what_is_wrong_with_a_csv_file_is_said_with_its_place(text, tmp_path):
    (tmp_path / "s.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=CSV_ERRORS[text]):
        convert(tmp_path / "s.csv", tmp_path / "rows.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]


def test_columns_of_a_csv_file_may_be_numbered(tmp_path):
    X = np.random.default_rng(0).integers(-100, 100, (20, 3)) / 8
    pd.DataFrame(X).to_csv(tmp_path / "s.csv", index=False)
    result = convert(tmp_path / "s.csv", tmp_path / "rows.npy", columns=["2", "0"])
    assert result.X.tobytes() == X[:, [2, 0]].tobytes()
    frames = pd.read_csv(tmp_path / "s.csv", header=None, skiprows=1, chunksize=7)
    assert convert(frames, tmp_path / "frames.npy").X.tobytes() == X.tobytes()


def test_a_number_that_does_not_parse_is_found_far_down(tmp_path):
    lines = [f"{i},{i}.5" for i in range(200_000)] + ["7,abc"] + ["1,1"] * 1000
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(("a,b\n" + "\n".join(lines)).encode(), 1))
    with pytest.raises(ValueError, match="column 'b' holds 'abc' in row 200000"):
        convert(tmp_path / "s.csv.gz", tmp_path / "rows.npy")


def test_files_that_break_off_are_refused(tmp_path):
    for kind, ending in (("csv.gz", ".csv.gz"), ("parquet", ".parquet"), ("feather", ".feather"), ("arrow", ".arrow")):
        whole = SOURCES[kind](frame(), tmp_path / "whole").read_bytes()
        for length in (0, len(whole) // 2, len(whole) - 10):
            short = (tmp_path / "short").with_suffix(ending)
            short.write_bytes(whole[:length])
            with pytest.raises((ValueError, OSError), match=rf"short\{ending}"):
                convert(short, tmp_path / "rows.npy", columns=["a"])
    assert not list(tmp_path.glob("rows*"))


def test_files_of_a_folder_have_the_same_columns(tmp_path):
    folder = as_folder(frame()[["a", "d"]], tmp_path / "source")
    frame(10)[["a", "b"]].to_parquet(folder / "part-9.parquet")
    with pytest.raises(ValueError, match=r"part-9\.parquet: column 'b' is in some parts of the table only"):
        convert(folder, tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="column 'b' is in some parts"):
        convert([frame(10)[["a"]], frame(10)[["a", "b"]]], tmp_path / "rows.npy")


def test_sources_that_are_no_tables_are_refused(tmp_path):
    (tmp_path / "rows.txt").write_text("a\n1\n", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    for source, kind, message in (
        (tmp_path / "nowhere.csv", FileNotFoundError, r"nowhere\.csv is not there"),
        (tmp_path / "rows.txt", ValueError, r"should end in \.parquet"),
        (tmp_path / "empty", ValueError, r"no file that ends in \.parquet"),
        (3.5, TypeError, "cannot read float as a table"),
        ([[1.0, 2.0]], TypeError, "cannot read list as a table"),
        (np.arange(3.0), TypeError, "ndarray of 1 dimensions as a table, which has 2"),
        (pd.Series([1.0]), TypeError, "cannot read Series"),
        (iter([]), ValueError, "has no row"),
    ):
        with pytest.raises(kind, match=message):
            convert(source, tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="has no row without a missing feature"):
        convert(pa.table({"a": [None, np.nan]}), tmp_path / "rows.npy", missing="drop")
    with pytest.raises(ValueError, match=r"must be a file name that ends in \.npy"):
        convert(frame(), tmp_path / "rows")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*: make it first"):
        convert(frame(), tmp_path / "new" / "rows.npy")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'marmix\[io\]'"):
        convert(np.ones((2, 2)), tmp_path / "rows.npy")


# Files: all or nothing.


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def broken(error):
    yield frame(100)[["a", "d", "word"]]
    raise error


@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyboardInterrupt(), ValueError("odd")])
def test_an_error_on_the_way_leaves_everything_as_it_was(error, tmp_path):
    for existing in (False, True):
        if existing:
            convert(frame(20)[["a", "word"]], tmp_path / "rows.npy", label="word")
        before = contents(tmp_path)
        with pytest.raises(type(error)) as caught:
            convert(broken(error), tmp_path / "rows.npy", label="word", overwrite=True)
        assert caught.value is error
        assert contents(tmp_path) == before


@pytest.mark.parametrize("last", range(-1, 6))
def test_files_of_two_conversions_are_never_taken_for_one(last, tmp_path, monkeypatch):
    """The disk is lost while files are moved: the old table is there, or none; what was replaced is not deleted.

    Before the moves, one more file is put in place: their list.
    """
    target, done = tmp_path / "rows.npy", []
    convert(frame(20)[["a", "word"]], target, label="word")
    before = contents(tmp_path)

    def some(function):
        def move(source, destination):
            if len(done) == 1 + last:
                raise OSError("disk gone")
            done.append(function(source, destination))

        return move

    for name in ("replace", "link", "rename"):
        monkeypatch.setattr(os, name, some(getattr(os, name)))
    with pytest.raises(OSError, match="disk gone"):
        convert(frame(20)[["d", "number"]], target, label="number", overwrite=True)
    if last > 0:
        with pytest.raises(FileNotFoundError, match=r"rows\.npy\.json is not there: convert"):
            open_memmap(target)
        kept = {path.name: path.read_bytes() for path in tmp_path.glob(".marmix-*/old/*")}
        assert kept | {name: before[name] for name in before.keys() - kept.keys()} == before
        assert len(kept) == min(last, 3)
    else:
        assert contents(tmp_path) == before


def test_files_that_exist_are_replaced_only_where_that_is_asked_for(tmp_path):
    target = tmp_path / "rows.npy"
    convert(frame(20)[["a", "word"]], target, label="word")
    before = contents(tmp_path)
    for name in before:
        for other in before.keys() - {name}:
            (tmp_path / other).unlink()
        with pytest.raises(FileExistsError, match=rf"{name} exists: .*overwrite=True"):
            convert(frame(30)[["d"]], target)
        for other, content in before.items():
            (tmp_path / other).write_bytes(content)
    assert contents(tmp_path) == before
    result = convert(frame(30)[["d"]], target, overwrite=True)
    assert (result.X.shape, result.y) == ((30, 1), None)
    assert contents(tmp_path).keys() == {"rows.npy", "rows.npy.json"}  # no labels of other rows
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(FileExistsError, match="exists"):
        convert(frame(30)[["d"]], tmp_path / "folder.npy", overwrite=True)


def test_what_was_written_is_found_again(tmp_path):
    written = convert(frame(), tmp_path / "rows.npy", columns=FEATURES, label="word")
    result = open_memmap(str(tmp_path / "rows.npy"))
    for ours, theirs in zip(written, result, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert isinstance(result.X, np.memmap)
    assert isinstance(result.y, np.memmap)
    assert json.loads((tmp_path / "rows.npy.json").read_text(encoding="utf-8")) == {
        "columns": FEATURES,
        "label": "word",
        "classes": ["a b", "b", "ü"],
        "rows": 1000,
        "dropped": 0,
        "dtype": "float64",
        "source": "DataFrame",
    }


def test_files_that_do_not_belong_together_are_not_opened(tmp_path):
    def write(name, n, dtype="float64", columns=("b", "d")):
        convert(frame(n), tmp_path / name, columns=columns, label="word", dtype=dtype)

    write("rows.npy", 100)
    write("longer.npy", 101)
    write("single.npy", 100, "float32")
    write("narrow.npy", 100, columns=["d"])
    good = contents(tmp_path)
    for name, other in (
        ("rows.npy", good["longer.npy"]),
        ("rows.npy", good["single.npy"]),
        ("rows.npy", good["narrow.npy"]),
        ("rows.labels.npy", good["longer.labels.npy"]),
        ("rows.npy", good["rows.npy"][:-1]),
        ("rows.npy", b""),
        ("rows.npy.json", b"{}"),
        ("rows.npy.json", b"[1"),
        ("rows.npy.json", good["rows.npy.json"].replace(b"float64", b"floaty")),
    ):
        (tmp_path / name).write_bytes(other)
        with pytest.raises(ValueError, match=rf"{name} .*[Cc]onvert the table again"):
            open_memmap(tmp_path / "rows.npy")
        (tmp_path / name).write_bytes(good[name])
    assert open_memmap(tmp_path / "rows.npy").rows == 100
    for name in ("rows.npy", "rows.labels.npy", "rows.npy.json"):
        (tmp_path / name).unlink()
        with pytest.raises(FileNotFoundError, match=rf"{name} is not there: convert"):
            open_memmap(tmp_path / "rows.npy")
        (tmp_path / name).write_bytes(good[name])


# Use.


def test_a_mixture_fitted_to_the_map_is_the_one_fitted_to_the_rows(two, tmp_path):
    table = pd.DataFrame(two.X, columns=["u", "v"]).assign(y=np.array(["yes", "no", None], dtype=object)[two.y])
    result = convert(table, tmp_path / "rows.npy", label="y")
    assert result.classes.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(result.y, np.array([1, 0, -1])[two.y])
    of_map, of_rows = (MARGaussianMixture(link="logit").fit(X, result.y) for X in (result.X, two.X))
    np.testing.assert_array_equal(of_map.means_, of_rows.means_)
    np.testing.assert_array_equal(of_map.alpha_, of_rows.alpha_)


@pytest.mark.parametrize("kind", ["parquet", "csv", "DataFrames"])
def test_progress_goes_to_standard_error_on_request(kind, tmp_path, capsys, monkeypatch):
    table = frame()[["a", "d"]]
    convert(SOURCES[kind](table, tmp_path / "quiet"), tmp_path / "quiet.npy")
    assert capsys.readouterr() == ("", "")
    pytest.importorskip("tqdm")
    to_memmap(SOURCES[kind](table, tmp_path / "loud"), tmp_path / "loud.npy")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert {"parquet": "100%", "csv": "100%", "DataFrames": "1.00krow"}[kind] in shown.err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    to_memmap(SOURCES[kind](table, tmp_path / "without"), tmp_path / "without.npy")
    assert capsys.readouterr() == ("", "")


def large_table(kind, n, folder):
    """A table of ten columns and labels, written so that its parts are as large as can be."""
    if kind == "frames":
        names = list("abcdefghij")
        parts = (np.random.default_rng(i).normal(size=(n // 100, 10)) for i in range(100))
        return (pd.DataFrame(part, columns=names).assign(y=1) for part in parts)
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.normal(size=n) for name in "abcdefghij"} | {"y": rng.integers(0, 3, n)})
    source = folder / {"one row group": "s.parquet", "one record batch": "s.arrow", "csv": "s.csv"}[kind]
    if kind == "one row group":
        pq.write_table(table, source, row_group_size=n, compression="none", use_dictionary=False, data_page_size=2**14)
    elif kind == "csv":
        csv.write_csv(table, source)
    else:
        with ipc.new_file(source, table.schema) as writer:
            writer.write_table(table)
    return source


@pytest.mark.parametrize("kind", ["one row group", "one record batch", "csv", "frames"])
def test_a_table_of_many_blocks_needs_the_memory_of_a_few(kind, tmp_path, monkeypatch):
    """What Python and pyarrow allocate; pages of files are not among it."""
    monkeypatch.setattr(reading, "_BLOCK", 2**18)
    monkeypatch.setattr(reading, "READ", 2**16)
    n = 100_000 if kind == "csv" else 300_000
    source = large_table(kind, n, tmp_path)
    pool = pa.proxy_memory_pool(pa.system_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        rows = convert(source, tmp_path / "rows.npy", label="y").rows
        peak = pool.max_memory() + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert rows == n
    assert peak < 8e6  # of some 20


MEASURED = """
import sys, pyarrow.csv, pyarrow.dataset, pyarrow.ipc, pyarrow.parquet
from pathlib import Path
from marmix.io import to_memmap
from test_io import large_table

def megabytes(what):
    return int(Path("/proc/self/status").read_text().split(what + ":")[1].split()[0]) / 1024

before = megabytes("VmRSS")
source = large_table("frames", 5_000_000, None) if sys.argv[1] == "frames" else sys.argv[1]
rows = to_memmap(source, sys.argv[2], label="y", progress=False).rows
print(rows, megabytes("VmHWM") - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("kind", ["one row group", "one record batch", "csv", "frames"])
def test_a_large_table_needs_little_memory(kind, tmp_path):
    """400 MB, pages of files and all."""
    n = 2_000_000 if kind == "csv" else 5_000_000
    source = "frames" if kind == "frames" else large_table(kind, n, tmp_path)
    command, paths = [sys.executable, "-c", MEASURED, source, tmp_path / "rows.npy"], [*sys.path, Path(__file__).parent]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, encoding="utf-8")
    for path in tmp_path.iterdir():
        path.unlink()
    rows, megabytes = done.stdout.split()
    assert int(rows) == n
    assert float(megabytes) < 200
