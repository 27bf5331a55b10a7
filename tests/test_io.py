"""to_memmap: any table becomes the same files, bit for bit, or nothing at all; open_memmap: files that belong together."""

import json
import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from marmix import MARGaussianMixture
from marmix import io as conversion
from marmix.io import open_memmap, to_memmap

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
ds = pytest.importorskip("pyarrow.dataset")
ipc = pytest.importorskip("pyarrow.ipc")
pq = pytest.importorskip("pyarrow.parquet")


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
    return path


def as_ipc(table, path):
    arrow = pa.Table.from_pandas(table)
    with ipc.new_file(path, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=300)


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


SOURCES = {
    "parquet": written(pd.DataFrame.to_parquet, ".parquet", row_group_size=300),
    "folder": as_folder,
    "csv": written(as_csv, ".csv"),
    "tsv.gz": written(as_csv, ".tsv.gz", sep="\t", compression="gzip"),
    "semicolons": written(as_csv, ".csv", sep=";", decimal=","),
    "arrow": written(as_ipc, ".arrow"),
    "path as text": lambda table, path: str(SOURCES["parquet"](table, path)),
    "Table": lambda table, path: pa.Table.from_pandas(table),
    "RecordBatch": lambda table, path: pa.RecordBatch.from_pandas(table),
    "RecordBatchReader": lambda table, path: pa.Table.from_pandas(table).to_reader(max_chunksize=300),
    "Dataset": lambda table, path: ds.dataset(as_folder(table, path), exclude_invalid_files=True),
    "DataFrame": lambda table, path: table,
    "DataFrames": lambda table, path: (table.iloc[a : a + 300] for a in range(0, len(table), 300)),
    "list of Tables": lambda table, path: [pa.Table.from_pandas(table.iloc[a : a + 300]) for a in (0, 300, 600, 900)],
}


@pytest.mark.filterwarnings("ignore:.*Missing labels")
@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_gives_the_same_bits_and_labels(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "_BLOCK", 8000)
    table = frame()
    source = SOURCES[kind](table, tmp_path / "source")
    result = to_memmap(source, tmp_path / "rows.npy", columns=FEATURES, label="number", classes=[3, 7, 10])
    assert isinstance(result.X, np.memmap)
    assert result.X.flags.c_contiguous
    assert not result.X.flags.writeable
    assert result.X.tobytes() == table[FEATURES].to_numpy(dtype=np.float64).tobytes()
    assert result.classes.tolist() == [3, 7, 10]
    assert result.y.dtype == np.int8
    np.testing.assert_array_equal(result.y, table["number"].map({-1: -1, 3: 0, 7: 1, 10: 2}))
    assert (result.columns, result.rows, result.dropped) == (FEATURES, len(table), 0)
    words = to_memmap(SOURCES[kind](table, tmp_path / "words"), tmp_path / "words.npy", columns=["d"], label="word")
    assert words.classes.tolist() == ["a b", "b", "ü"]
    names = np.append(words.classes.astype(object), None)[words.y]
    assert names.tolist() == [None if pd.isna(word) else word for word in table["word"]]
    assert set(json.loads((tmp_path / "rows.npy.json").read_text())) >= {"columns", "classes", "rows"}
    for ours, theirs in zip(result, open_memmap(str(tmp_path / "rows.npy")), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_polars_frames_are_tables(tmp_path):
    pl = pytest.importorskip("polars")
    for kind in (pl.String, pl.Categorical):
        source = pl.DataFrame({"a": [1, None, 3], "y": pl.Series(["u", "v", None], dtype=kind)})
        result = to_memmap([source, source], tmp_path / "rows.npy", label="y", missing="nan", overwrite=True)
        np.testing.assert_array_equal(result.X[:, 0], [1, np.nan, 3] * 2)
        assert (result.y.tolist(), result.classes.tolist()) == ([0, 1, -1] * 2, ["u", "v"])


def test_arrays_are_tables_whose_columns_are_x0_x1(tmp_path):
    X = np.random.default_rng(0).normal(size=(500, 3))
    whole = to_memmap(np.asfortranarray(X), tmp_path / "whole.npy")
    parts = to_memmap((X[a : a + 130] for a in range(0, 500, 130)), tmp_path / "parts.npy")
    some = to_memmap(X[::2], tmp_path / "some.npy", columns=["x2", "x0"])
    assert whole.X.tobytes() == parts.X.tobytes() == X.tobytes()
    assert whole.columns == ["x0", "x1", "x2"]
    assert some.X.tobytes() == X[::2, [2, 0]].tobytes()
    assert whole.y is whole.classes is None
    assert {path.name for path in tmp_path.glob("whole*")} == {"whole.npy", "whole.npy.json"}


def test_an_index_that_pandas_stored_is_no_feature_and_partitions_of_a_folder_are(tmp_path):
    table = frame(50)[["a", "d"]].iloc[[4, 1, 7]]
    table.to_parquet(tmp_path / "s.parquet")
    assert to_memmap(tmp_path / "s.parquet", tmp_path / "rows.npy").columns == ["a", "d"]
    for day in (0, 1):
        (tmp_path / "days" / f"day={day}").mkdir(parents=True)
        table.to_parquet(tmp_path / "days" / f"day={day}" / "part.parquet", index=False)
    result = to_memmap(tmp_path / "days", tmp_path / "days.npy", columns=["d", "day"])
    np.testing.assert_array_equal(result.X[:, 1], [0] * 3 + [1] * 3)


@pytest.mark.parametrize("kind", ["parquet", "DataFrames"])
def test_float32_is_rounded_once(kind, tmp_path):
    table = frame()[["b", "d", "of three.words"]]
    result = to_memmap(SOURCES[kind](table, tmp_path / "source"), tmp_path / "rows.npy", dtype="float32")
    assert (
        result.X.tobytes() == np.column_stack([table[name].to_numpy().astype(np.float32) for name in table]).tobytes()
    )


def test_decimals_are_numbers_and_categories_and_dates_are_not(tmp_path):
    table = pa.table({"a": pa.array(["1.25", "-3.50"]).cast(pa.decimal128(5, 2)), "b": np.array([0.5, 2], np.float16)})
    np.testing.assert_array_equal(to_memmap(table, tmp_path / "rows.npy").X, [[1.25, 0.5], [-3.5, 2.0]])
    for values in (pa.array(["u", "v"]).dictionary_encode(), pa.array([0, 1], pa.timestamp("s"))):
        with pytest.raises(ValueError, match=r"column 'b' holds .*columns= names the features"):
            to_memmap(pa.table({"a": [1.0, 2.0], "b": values}), tmp_path / "more.npy")


@pytest.mark.filterwarnings("ignore:.*Missing labels")
def test_types_of_a_csv_file_are_those_of_all_its_rows(tmp_path):
    """Integers, then fractions; numbers as labels, then words: far apart, so that the beginning does not tell."""
    n = 200_000
    lines = [f"{i},{i % 2}" for i in range(n)] + ["0.5,word", "-0.25,-1", "1e3,"]
    (tmp_path / "long.csv").write_text("a,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
    result = to_memmap(tmp_path / "long.csv", tmp_path / "rows.npy", label="y")
    np.testing.assert_array_equal(result.X[:, 0], [*range(n), 0.5, -0.25, 1000.0])
    assert result.classes.tolist() == ["0", "1", "word"]
    assert result.y[-5:].tolist() == [0, 1, 2, -1, -1]


# Labels


def test_texts_that_counted_as_missing_are_said_unless_they_are_named_as_classes(tmp_path):
    source = tmp_path / "s.csv"
    source.write_text("a,y\n1,b\n1,None\n1,a\n1,-1\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="'y': Missing labels: 'None' in 1 row."):
        assert to_memmap(source, tmp_path / "missing.npy", label="y").y.tolist() == [1, -1, 0, -1]
    named = to_memmap(source, tmp_path / "class.npy", label="y", classes=["None", "a", "b"])
    assert named.y.tolist() == [2, 0, 1, -1]
    with pytest.raises(ValueError, match="'b' in data row 1, which is not among the classes 'a', 'None'"):
        to_memmap(source, tmp_path / "refused.npy", label="y", classes=["a", "None"])


@pytest.mark.parametrize(("classes", "kind"), [(127, np.int8), (128, np.int16), (40_000, np.int32)])
def test_codes_are_the_smallest_integers_that_hold_them(classes, kind, tmp_path):
    y = np.random.default_rng(0).permutation(np.arange(classes) * 3)
    result = to_memmap(pa.table({"a": y, "y": y}), tmp_path / "rows.npy", label="y")
    assert result.y.dtype == kind
    np.testing.assert_array_equal(result.classes[result.y], y)


# Missing features


@pytest.mark.parametrize("kind", ["parquet", "csv", "DataFrames"])
def test_a_missing_feature_is_refused_written_as_nan_or_its_row_left_out(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "_BLOCK", 1000)  # the row is counted over blocks and files
    table = frame()[["a", "d", "word"]]
    table["c"] = pd.array(np.arange(1000), dtype="Int64")
    table.loc[[432, 900], "d"] = np.nan
    table.loc[432, "word"] = "only here"
    table.loc[700, "c"] = pd.NA

    def converted(name, **options):
        source = SOURCES[kind](table, tmp_path / name)
        return to_memmap(source, tmp_path / f"{name}.npy", columns=["a", "c", "d"], label="word", **options)

    with pytest.raises(ValueError, match=r"misses a feature in column 'd', first in row 432: .*missing='drop'"):
        converted("refused")
    features = table[["a", "c", "d"]].to_numpy(dtype=np.float64, na_value=np.nan)
    with_nan = converted("nan", missing="nan")
    np.testing.assert_array_equal(with_nan.X, features)
    without = converted("drop", missing="drop")
    np.testing.assert_array_equal(without.X, features[~np.isnan(features).any(axis=1)])
    assert (with_nan.rows, with_nan.dropped, without.rows, without.dropped) == (1000, 0, 997, 3)
    assert without.classes.tolist() == ["a b", "b", "ü"]


@pytest.mark.parametrize("missing", ["raise", "nan", "drop"])
def test_infinity_is_not_missing(missing, tmp_path):
    message = "misses .* first in row 1" if missing == "raise" else "infinity.*, first in row 2"
    with pytest.raises(ValueError, match=message):
        to_memmap(pa.table({"a": [1.0, None, -np.inf]}), tmp_path / "rows.npy", missing=missing)
    with pytest.raises(ValueError, match="too large for float32, in column 'a', first in row 1"):
        to_memmap(pa.table({"a": [1.0, 1e39]}), tmp_path / "rows.npy", dtype="float32")


# Refusals

TABLE = pa.table({"a": [1.0, 2.0], "b": [1, 2], "city": ["u", "v"], "y": [0, 1]})
NOT_CONVERTED = {
    "label": (TABLE, {"label": "z"}, ValueError, "no column 'z'. Its columns are 'a', 'b', 'city', 'y'"),
    "column": (TABLE, {"columns": ["a", "q"]}, ValueError, "no column 'q'"),
    "column twice": (TABLE, {"columns": ["a", "a"]}, ValueError, "at least one feature .*each once"),
    "label as feature": (TABLE, {"columns": ["a", "y"], "label": "y"}, ValueError, "not the label"),
    "a name": (TABLE, {"columns": "a"}, ValueError, "must be a list of names"),
    "text": (
        TABLE,
        {"label": "y"},
        ValueError,
        "column 'city' holds 'u' in row 0, not a finite number. One-hot encode",
    ),
    "missing": (TABLE, {"columns": ["a"], "missing": "mean"}, ValueError, "missing='mean'"),
    "number": (3.5, {}, TypeError, "cannot read float as a table"),
    "nothing": (iter([]), {}, ValueError, "has no row"),
    "no row left": (
        pa.table({"a": [None, np.nan]}),
        {"missing": "drop"},
        ValueError,
        "no row without a missing feature",
    ),
    "other columns": ([TABLE.select(["a"]), TABLE.select(["b"])], {}, ValueError, "no column 'a'"),
}


@pytest.mark.parametrize("case", NOT_CONVERTED)
def test_what_cannot_be_converted_is_said(case, tmp_path):
    source, options, error, message = NOT_CONVERTED[case]
    with pytest.raises(error, match=message):
        to_memmap(source, tmp_path / "rows.npy", **options)
    assert not list(tmp_path.iterdir())


CSV_ERRORS = {
    "a,b\n1,2\n3,x\n": r"column 'b' holds 'x' in row 1, not a finite number\. One-hot encode",
    "a,b\n1,2\n3\n": r"s\.csv: data row 2 has 1 cell, where the header has 2",
    "a,b\n1,2\n3,\n": r"misses a feature in column 'b', first in row 1",
}


@pytest.mark.parametrize("text", CSV_ERRORS)
def test_what_is_wrong_with_a_csv_file_is_said_with_its_place(text, tmp_path):
    (tmp_path / "s.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=CSV_ERRORS[text]):
        to_memmap(tmp_path / "s.csv", tmp_path / "rows.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]


def test_files_that_are_not_there_or_break_off_are_refused(tmp_path):
    for kind, ending in (("tsv.gz", ".tsv.gz"), ("parquet", ".parquet"), ("arrow", ".arrow")):
        whole = SOURCES[kind](frame(), tmp_path / "whole").read_bytes()
        for length in (0, len(whole) // 2, len(whole) - 10):
            short = (tmp_path / "short").with_suffix(ending)
            short.write_bytes(whole[:length])
            with pytest.raises((ValueError, OSError)):
                to_memmap(short, tmp_path / "rows.npy", columns=["a"])
    assert not list(tmp_path.glob("rows*"))
    for source in ("nowhere.csv", "nowhere.parquet"):
        with pytest.raises(FileNotFoundError, match="is not there"):
            to_memmap(tmp_path / source, tmp_path / "rows.npy")
    with pytest.raises(ValueError, match=r"must be a file name that ends in \.npy"):
        to_memmap(TABLE, tmp_path / "rows")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'marmix\[io\]'"):
        to_memmap(np.ones((2, 2)), tmp_path / "rows.npy")


# Files: all or nothing


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyboardInterrupt(), ValueError("odd")])
def test_an_error_on_the_way_leaves_everything_as_it_was(error, tmp_path):
    def broken():
        yield frame(100)[["a", "d", "word"]]
        raise error

    for existing in (False, True):
        if existing:
            to_memmap(frame(20)[["a", "word"]], tmp_path / "rows.npy", label="word")
        before = contents(tmp_path)
        with pytest.raises(type(error)) as caught:
            to_memmap(broken(), tmp_path / "rows.npy", label="word", overwrite=True)
        assert caught.value is error
        assert contents(tmp_path) == before


def test_files_that_exist_are_replaced_only_where_that_is_asked_for(tmp_path):
    target = tmp_path / "rows.npy"
    to_memmap(frame(20)[["a", "word"]], target, label="word")
    before = contents(tmp_path)
    for name in before:
        for other in before.keys() - {name}:
            (tmp_path / other).unlink()
        with pytest.raises(FileExistsError, match=rf"{name} exists: .*overwrite=True"):
            to_memmap(frame(30)[["d"]], target)
        for other, content in before.items():
            (tmp_path / other).write_bytes(content)
    assert contents(tmp_path) == before
    result = to_memmap(frame(30)[["d"]], target, overwrite=True)
    assert (result.X.shape, result.y) == ((30, 1), None)
    assert contents(tmp_path).keys() == {"rows.npy", "rows.npy.json"}  # no labels of other rows


def test_files_that_do_not_belong_together_are_not_opened(tmp_path):
    for name, n, columns in (
        ("rows.npy", 100, ["b", "d"]),
        ("longer.npy", 101, ["b", "d"]),
        ("narrow.npy", 100, ["d"]),
    ):
        to_memmap(frame(n), tmp_path / name, label="word", columns=columns)
    good = contents(tmp_path)
    for name, other in (
        ("rows.npy", good["longer.npy"]),
        ("rows.npy", good["narrow.npy"]),
        ("rows.labels.npy", good["longer.labels.npy"]),
        ("rows.npy", good["rows.npy"][:-1]),
        ("rows.npy.json", b"{}"),
        ("rows.npy.json", b"[1"),
    ):
        (tmp_path / name).write_bytes(other)
        with pytest.raises(ValueError, match=r"[Cc]onvert the table again"):
            open_memmap(tmp_path / "rows.npy")
        (tmp_path / name).write_bytes(good[name])
    for name in ("rows.npy", "rows.labels.npy", "rows.npy.json"):
        (tmp_path / name).unlink()
        with pytest.raises(FileNotFoundError, match=rf"{name} is not there: convert"):
            open_memmap(tmp_path / "rows.npy")
        (tmp_path / name).write_bytes(good[name])


# Use


def test_a_mixture_fitted_to_the_map_is_the_one_fitted_to_the_rows(two, tmp_path):
    table = pd.DataFrame(two.X, columns=["u", "v"]).assign(y=np.array(["yes", "no", None], dtype=object)[two.y])
    result = to_memmap(table, tmp_path / "rows.npy", label="y")
    assert result.classes.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(result.y, np.array([1, 0, -1])[two.y])
    of_map, of_rows = (MARGaussianMixture(link="logit").fit(X, result.y) for X in (result.X, two.X))
    np.testing.assert_array_equal(of_map.means_, of_rows.means_)
    np.testing.assert_array_equal(of_map.alpha_, of_rows.alpha_)


def test_a_table_of_many_blocks_needs_the_memory_of_a_few(tmp_path, monkeypatch):
    """What Python and pyarrow allocate; pages of files are not among it."""
    monkeypatch.setattr(conversion, "_BLOCK", 2**18)
    n = 300_000
    names = list("abcdefghij")
    parts = (np.random.default_rng(i).normal(size=(n // 100, 10)) for i in range(100))
    source = (pd.DataFrame(part, columns=names).assign(y=1) for part in parts)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        rows = to_memmap(source, tmp_path / "rows.npy", label="y").rows
        peak = pool.max_memory() + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert rows == n
    assert peak < 8e6  # of some 24
