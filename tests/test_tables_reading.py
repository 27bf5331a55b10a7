"""open_table: cells as they stand in a file of any kind, again and again; what is no table is refused in words."""

import csv as python_csv
import datetime as dt
import gzip
import io
import json
import re
import subprocess
import sys
import time
import zipfile
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.io import to_memmap
from marmix.tables import as_text, delimited, open_table
from marmix.tables.reading import record_batches

pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
pq = pytest.importorskip("pyarrow.parquet")
openpyxl = pytest.importorskip("openpyxl")


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def cells(path, columns=None, **options):
    """Columns of a file, by their names."""
    columns_read = {}
    for batch in open_table(path, **options).batches(columns):
        for name, column in batch.to_pydict().items():
            columns_read.setdefault(name, []).extend(column)
    return columns_read


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


@given(
    rows=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=12),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_every_cell_of_a_csv_file_is_the_text_that_was_written(tmp_path, rows, delimiter, line_end, mark):
    file = io.StringIO(newline="")
    writer = python_csv.writer(file, delimiter=delimiter, lineterminator=line_end, quoting=python_csv.QUOTE_ALL)
    writer.writerows([("a", "b c", "ü"), *rows])
    path = written(tmp_path, "rows.csv", mark + file.getvalue().encode())
    assert list(zip(*cells(path, delimiter=delimiter).values(), strict=True)) == rows


@pytest.mark.parametrize("kind", [".csv", ".xlsx"])
def test_a_first_column_without_a_name_is_an_index_and_so_said(tmp_path, kind):
    rows = [["", "a", "b"], ["r1", 1, 2], ["r2", 3, 4]]
    path = tmp_path / f"rows{kind}"
    if kind == ".xlsx":
        workbook(path, [[cell or None for cell in row] for row in rows])
    else:
        written(tmp_path, path.name, "\n".join(",".join(map(str, row)) for row in rows))
    table = open_table(path)
    assert (table.names, table.index) == (["", "a", "b"], [""])
    assert any("first column has no name" in sentence for sentence in table.assumed)
    assert cells(path)[""] == ["r1", "r2"]


def rows_of_text(rows, stray, delimiter=",", column=1):
    """Lines of a file in which the cells of a column have an inch mark in front, or in the middle, in the `stray` rows."""
    lines = []
    for i in range(rows):
        cells = [f"{i}", f"{i / 4}", "no" if i % 2 else "yes"]
        if i in stray:
            cells[column] = f'"{cells[column]}' if i == min(stray) else f'{cells[column][:1]}"{cells[column][1:]}'
        lines.append(delimiter.join(cells))
    return lines


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("stray", [(3, 4), (3, 23), (20, 99), (0, 50)])
def test_quotation_marks_that_swallow_rows_are_refused_with_their_line(tmp_path, delimiter, column, stray):
    lines = [delimiter.join("abc"), "", *rows_of_text(100, stray, delimiter, column)]
    path = written(tmp_path, "rows.csv", "\n".join(lines) + "\n")
    words = f"line {stray[0] + 3} .* {stray[1] - stray[0] + 1} rows"
    with pytest.raises(ValueError, match=words):
        cells(path, delimiter=delimiter, decimal=".")
    with pytest.raises(ValueError, match=words):
        to_memmap(path, tmp_path / "rows.npy", columns=["a"] if column else ["b"], progress=False)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_swallowed_rows_are_refused_whatever_ends_a_line_and_where_other_cells_are_blank(tmp_path, end):
    filled = ["a,b,c", *rows_of_text(100, (3, 23))]
    sparse = ["a\tb\tc", *(f"{i}\t{i if i < 9 else ''}\t{'no' if i % 2 else 'yes'}" for i in range(100))]
    sparse[20], sparse[25] = f'"{sparse[20]}', sparse[25].replace("\t", '"\t', 1)
    for lines, words in ((filled, "line 5 .* 21 rows"), (sparse, "line 21 .* 6 rows")):
        path = written(tmp_path, "rows.csv", (end.join(lines) + end).encode())
        with pytest.raises(ValueError, match=words):
            cells(path)
        with pytest.raises(ValueError, match=words):
            to_memmap(path, tmp_path / "rows.npy", columns=["a"], progress=False)


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_text_of_several_lines_is_no_swallowed_row(tmp_path, end):
    lines = ["a,b,c", *(f'{i},"first line, {i}{end}second, with words, and more{end}third",yes' for i in range(50))]
    path = written(tmp_path, "rows.csv", end.join(lines).encode())
    assert len(cells(path)["b"]) == 50


def test_no_cell_of_a_text_file_is_null_or_guessed(tmp_path):
    path = written(tmp_path, "rows.csv", "id,x,when\n007,NA,2020-01-01\n,1.50,\n\n8, y ,true\n")
    table = open_table(path)
    assert (table.kind, table.names, table.size, table.rows) == ("csv", ["id", "x", "when"], path.stat().st_size, None)
    assert cells(path) == {"id": ["007", "", "8"], "x": ["NA", "1.50", " y "], "when": ["2020-01-01", "", "true"]}
    assert {field.type for batch in table.batches() for field in batch.schema} == {pa.string()}


def test_a_file_can_be_read_again_and_in_part_and_in_any_order_of_columns(tmp_path):
    table = open_table(written(tmp_path, "rows.tsv", "a\tb\tc\n1\t2\t3\n"))
    for _ in range(2):
        assert [batch.to_pydict() for batch in table.batches(["c", "a"])] == [{"c": ["3"], "a": ["1"]}]


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="this pyarrow knows no views")
def test_views_of_text_and_bytes_are_read_in_types_that_can_be_filtered(tmp_path):
    text, data = pa.array(["u", None, "a longer text, not inline"]), pa.array([b"1", None, b"more than twelve bytes"])
    views = pa.table({"text": text.cast(pa.string_view()), "data": data.cast(pa.binary_view())})
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, views.schema) as writer:
        writer.write_table(views)
    for batches in (
        open_table(tmp_path / "rows.arrow").batches(),
        record_batches(views),
        record_batches(views.to_batches()[0]),
    ):
        rows = pa.Table.from_batches(batches).filter(pa.array([True, False, True]))
        assert rows.to_pydict() == {"text": text.to_pylist()[::2], "data": data.to_pylist()[::2]}


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8"])
def test_other_encodings_are_read_where_they_are_named(tmp_path, encoding):
    path = written(tmp_path, "rows.csv", "größe,b\r\nçà,é\r\n".encode(encoding))
    assert cells(path, encoding=encoding) == {"größe": ["çà"], "b": ["é"]}


def test_packed_text_is_text(tmp_path):
    path = written(tmp_path, "rows.TSV.gz", gzip.compress(b"a\tb\n1\t2\n"))
    assert cells(path) == {"a": ["1"], "b": ["2"]}


def test_a_tab_may_be_written_as_in_a_shell(tmp_path):
    path = written(tmp_path, "rows.txt", "a\tb\n1\t2\n")
    for delimiter in ("\t", "\\t", "tab"):
        assert cells(path, delimiter=delimiter) == {"a": ["1"], "b": ["2"]}


# In a process of its own, which ends without ceremony: a thread of pyarrow that allocates while tracemalloc stops can crash
# Python 3.11 (https://github.com/python/cpython/issues/128679).
IN_BLOCKS = """
import json, os, sys, tracemalloc
from marmix.tables import open_table, reading
reading.BLOCK = reading.READ = int(sys.argv[2])
table, shares, rows, sizes = open_table(sys.argv[1]), [], [], []
tracemalloc.start()
for batch in table.batches(step=shares.append):
    rows.append(batch.num_rows)
    sizes.append(batch.nbytes)
print(json.dumps([tracemalloc.get_traced_memory()[1], shares, rows, sizes]), flush=True)
os._exit(0)
"""


def test_a_file_of_many_blocks_is_read_in_the_memory_of_a_few_and_progress_is_the_share_read(tmp_path):
    # pyarrow reads up to 32 blocks ahead of the rows that it hands out, how far is up to chance; a block that is read is held
    # twice while it is handed over
    block = 2**16
    line = "123456,abcdefgh,0.123456789\n"
    path = written(tmp_path, "rows.csv", "a,b,c\n" + line * 300_000)
    size = path.stat().st_size
    assert size > 100 * block
    command = [sys.executable, "-c", IN_BLOCKS, path, str(block)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    peak, shares, rows, sizes = json.loads(done.stdout)
    assert max(sizes) < 3 * block
    assert peak < 64 * block < size / 1.9
    assert shares == sorted(shares)
    assert shares[-1] == 1
    handed_out, read = np.cumsum(rows) * len(line), np.multiply(shares[:-1], size)
    assert (handed_out <= read).all()


TYPED = pa.table(
    {
        "whole": [1, None, 3],
        "real": [0.5, float("nan"), None],
        "flag": [True, False, None],
        "word": ["a", None, "ü"],
        "level": pa.array(["u", "v", "u"]).dictionary_encode(),
        "when": [dt.date(2020, 1, 2), None, dt.date(1999, 12, 31)],
    }
)


@pytest.mark.parametrize("ending", [".parquet", ".pq", ".arrow", ".ipc", ".feather"])
def test_typed_files_keep_their_types(tmp_path, ending):
    path = tmp_path / f"rows{ending}"
    if "p" in ending[1:3] and ending != ".ipc":
        pq.write_table(TYPED, path)
    else:
        with ipc.new_file(path, TYPED.schema) as writer:
            writer.write_table(TYPED)
    table = open_table(path)
    (batch,) = table.batches()
    assert batch.schema.equals(TYPED.schema)
    assert pa.Table.from_batches([batch]).drop(["real"]).equals(TYPED.drop(["real"]))
    assert [batch.to_pydict() for batch in table.batches(["word", "whole"])] == [
        {"word": ["a", None, "ü"], "whole": [1, None, 3]}
    ]


def test_the_index_of_a_stored_frame_is_told(tmp_path):
    pd = pytest.importorskip("pandas")
    pd.DataFrame({"a": [1, 2]}, index=pd.Index(["p", "q"], name="who")).to_parquet(tmp_path / "rows.parquet")
    table = open_table(tmp_path / "rows.parquet")
    assert (table.names, table.index, table.rows) == (["a", "who"], ["who"], 2)


def workbook(path, rows, title="first", others=()):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    for other, more in others:
        page = book.create_sheet(other)
        for row in more:
            page.append(row)
    book.save(path)
    return path


def test_cells_of_a_sheet_have_their_own_types(tmp_path):
    rows = [
        ["n", "x", "yes", "day", "time", "word", 2019, "mixed"],
        [1, 0.5, True, dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, 4, 5), "a", 1, 1],
        [None, 2, None, None, None, None, None, "b"],
        [None] * 8,
        [3, None, False, dt.date(2021, 1, 2), dt.datetime(2021, 1, 2), "c", 2.5, True],
    ]
    path = workbook(tmp_path / "rows.xlsx", rows, others=[("second sheet", [["p", "q"], [1, 2]])])
    (batch,) = open_table(path).batches()
    assert batch.schema.names == ["n", "x", "yes", "day", "time", "word", "2019", "mixed"]
    kinds = [str(kind) for kind in batch.schema.types]
    assert kinds == ["int64", "double", "bool", "date32[day]", "timestamp[us]", "string", "double", "string"]
    assert batch.column("n").to_pylist() == [1, None, 3]
    assert batch.column("day").to_pylist() == [dt.date(2020, 1, 2), None, dt.date(2021, 1, 2)]
    assert batch.column("mixed").to_pylist() == ["1", "b", "true"]
    assert cells(path, sheet="second sheet") == {"p": [1], "q": [2]}


def test_a_sheet_of_many_rows_has_one_type_for_each_column(tmp_path):
    n = 9000
    rows = [["a", "b", "c"], *([i, i if i < n - 1 else "end", i if i < n - 1 else 0.5] for i in range(n))]
    table = open_table(workbook(tmp_path / "rows.xlsx", rows))
    result = pa.Table.from_batches(table.batches())
    assert result.schema.types == [pa.int64(), pa.string(), pa.float64()]
    assert result["b"].to_pylist() == [*map(str, range(n - 1)), "end"]
    assert result["c"].to_pylist() == [*range(n - 1), 0.5]
    assert table.rows == n


REFUSED = {
    "nothing": ("rows.csv", b"", "is empty"),
    "blank lines": ("rows.csv", b"\n\r\n\n", "is empty"),
    "no rows": ("rows.csv", b"a,b\n\n", "'a,b', but no rows"),
    "no header": ("rows.csv", b"5.1,3.5,setosa\n4.9,3.0,setosa\n", "numbers in its first line.*names of the columns"),
    "name twice": ("rows.csv", b"a,b,a\n1,2,3\n", "columns 1 and 3 are both called 'a'"),
    "no name": ("rows.csv", b"a,,c\n1,2,3\n", "column 2 has no name"),
    "cell too many": ("rows.csv", b'a,b\n"1\n",2\n\n3,4\n5,6,7\n', "data row 3 has 3 cells, where the header has 2"),
    "cell too few": ("rows.csv", b"a,b\n1,2\n3\n", "data row 2 has 1 cell, where the header has 2"),
    "quotation mark": ("rows.csv", b'a,b\n1,2\n3,"4\n5,6\n', "quotation mark in line 3 is not closed"),
    "long quotation": ("rows.csv", b'a,b\n1,"2\n' + b"3,4\n" * 300_000, "quotation mark that is not closed"),
    "encoding": ("rows.csv", "a,b\nü,é\nö,3\n".encode() + b"\xe9,3\n", "not text in utf-8, see line 4.*--encoding"),
    "utf-16": ("rows.csv", "a,b\n1,2\n".encode("utf-16-le"), "NUL byte in line 1.*--encoding utf-16"),
    "NUL": ("rows.csv", b"a,b\n1,2\n3,\0\n", "NUL byte in line 3"),
    "Parquet as CSV": ("rows.csv", b"PAR1....", r"is a Parquet file: if its name should end in \.parquet"),
    "Excel as CSV": ("rows.csv", b"PK\x03\x04....", "is an Excel workbook"),
    "CSV as Parquet": ("rows.parquet", b"a,b\n1,2\n", "is not a Parquet file"),
    "CSV as Excel": ("rows.xlsx", b"a,b\n1,2\n", "is not an Excel workbook"),
    "CSV as gz": ("rows.csv.gz", b"a,b\n1,2\n", "is not compressed by gzip"),
    "CSV as Arrow": ("rows.arrow", b"a,b\n1,2\n", "cannot be read"),
    "half Parquet": ("rows.parquet", b"PAR1 and no more", "rows.parquet"),
    "half gz": ("rows.csv.gz", gzip.compress(b"a,b\n1,2\n")[:-9], "gzip file"),
    "half Excel": ("rows.xlsx", b"PK\x03\x04 and no more", "cannot be read as an Excel workbook"),
    "old Excel": ("rows.xls", b"\xd0\xcf\x11\xe0....", r"save it as \.xlsx or \.csv"),
    "locked Excel": ("rows.xlsx", b"\xd0\xcf\x11\xe0....", "without a password"),
    "unknown": ("rows.sav", b"a,b\n1,2\n", r"should end in \.csv, .*rename or convert"),
    "txt": ("rows.txt", b"a b\n1 2\n", "give --delimiter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_table_is_refused_with_the_file_and_what_to_do(tmp_path, case):
    name, data, message = REFUSED[case]
    path = written(tmp_path, name, data)
    with pytest.raises((ValueError, OSError), match=message) as error:
        cells(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_ragged_row_far_down_is_named_by_its_number(tmp_path):
    path = written(tmp_path, "rows.csv", "a,b\n" + "1,2\n" * 500_000 + "1\n")
    with pytest.raises(ValueError, match="data row 500001 has 1 cell,"):
        cells(path)


def test_sheets_without_a_table_are_refused(tmp_path):
    path = workbook(tmp_path / "rows.xlsx", [["a", "b"], [1, 2, 3]], others=[("empty", []), ("head", [["a", "b"]])])
    with pytest.raises(ValueError, match="data row 1 has 3 cells, where the row of names has 2 names"):
        open_table(path)
    with pytest.raises(ValueError, match="sheet 'empty' is empty"):
        open_table(path, sheet="empty")
    with pytest.raises(ValueError, match="no rows"):
        open_table(path, sheet="head")
    with pytest.raises(ValueError, match="no sheet 'none': its sheets are 'first', 'empty', 'head'"):
        open_table(path, sheet="none")


def test_a_file_that_is_not_there_is_answered_with_the_nearest_name(tmp_path):
    written(tmp_path, "patients.csv", "a,b\n1,2\n")
    with pytest.raises(FileNotFoundError, match=r"patient\.csv is not there\. Did you mean .*patients\.csv"):
        open_table(tmp_path / "patient.csv")
    with pytest.raises(FileNotFoundError, match="Check the name"):
        open_table(tmp_path / "nowhere" / "x.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        open_table(tmp_path)


def test_a_column_that_is_not_there_is_answered_with_the_nearest_name(tmp_path):
    table = open_table(written(tmp_path, "rows.csv", "weight,height\n1,2\n"))
    with pytest.raises(ValueError, match=r"no column 'wieght'\. Did you mean 'weight'"):
        table.batches(["wieght"])
    with pytest.raises(ValueError, match=r"no column 'zz'\. Its columns are 'weight', 'height'"):
        table.batches(["zz"])


def test_options_without_a_meaning_are_refused(tmp_path):
    pq.write_table(TYPED, tmp_path / "rows.parquet")
    text = written(tmp_path, "rows.csv", "a,b\n1,2\n")
    for path, options in (
        (tmp_path / "rows.parquet", {"encoding": "latin-1"}),
        (tmp_path / "rows.parquet", {"delimiter": ";"}),
        (text, {"sheet": "first"}),
    ):
        with pytest.raises(ValueError, match=r"has no meaning for .*: leave it out"):
            open_table(path, **options)
    with pytest.raises(ValueError, match="delimiter '::' is not one character"):
        open_table(text, delimiter="::")
    for encoding in ("klingon", "hex"):
        with pytest.raises(ValueError, match=f"no encoding '{encoding}'"):
            open_table(text, encoding=encoding)


@given(st.lists(st.floats(allow_nan=False) | st.none(), min_size=1))
def test_text_of_floats_gives_the_same_floats(values):
    texts = as_text(pa.array(values, pa.float64())).to_pylist()
    assert [float(text) if text else None for text in texts] == values
    assert all(len(text) <= len(repr(value)) + 5 for text, value in zip(texts, values, strict=True))


def test_text_of_a_typed_column_is_what_people_write():
    moment = dt.datetime(2020, 1, 2, 3, 4, 5)
    cases = [
        (pa.array([1, None, -(2**62)]), ["1", "", str(-(2**62))]),
        (pa.array([1.0, 0.1, 1e-7, float("nan")]), ["1", "0.1", "1e-7", "nan"]),
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array([dt.date(2020, 1, 2), None]), ["2020-01-02", ""]),
        (pa.array([moment, None]), ["2020-01-02 03:04:05", ""]),
        (pa.array([moment.replace(microsecond=500)]), ["2020-01-02 03:04:05.000500"]),
        (pa.array([dt.time(3, 4)]), ["03:04:00"]),
        (pa.array([dt.timedelta(days=1)]), ["1 day, 0:00:00"]),
        (pa.array(["u", None, "u"]).dictionary_encode(), ["u", "", "u"]),
        (pa.array(["u", None], pa.large_string()), ["u", ""]),
        (pa.array(["u", None], pa.string_view()), ["u", ""]),
        (pa.chunked_array([["u"], ["v"]]), ["u", "v"]),
        (pa.nulls(2), ["", ""]),
        (pa.array([b"u", b"\xff\x00", None]), ["u", "ff00", ""]),
        (pa.array([b"uv", b"\xff\x00"], pa.binary(2)), ["uv", "ff00"]),
        (pa.array([Decimal("1.20")]), ["1.20"]),
        (pa.array([[1, 2], None]), ["[1, 2]", ""]),
        (pa.array([{"a": 1}]), ['{"a": 1}']),
    ]
    for array, texts in cases:
        assert as_text(array).type == pa.string()
        assert as_text(array).to_pylist() == texts


def test_a_workbook_that_says_it_has_rows_without_end_is_refused(tmp_path):
    path = workbook(tmp_path / "rows.xlsx", [["a"], [1]])
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with zipfile.ZipFile(path, "w") as book:
        for name, part in parts.items():
            book.writestr(name, part.replace(b'<row r="2">', b'<row r="999999999999">').replace(b'r="A2"', b'r="A9"'))
    with pytest.raises(ValueError, match="more rows than a sheet can have"):
        open_table(path)


def test_formulas_of_a_sheet_count_with_their_saved_results(tmp_path):
    path = workbook(tmp_path / "rows.xlsx", [["a", "b"], [1, "=A2*2"], [2, "=A3*2"]])
    assert cells(path)["b"] == [None, None]
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name).decode() for name in book.namelist()}
    with zipfile.ZipFile(path, "w") as book:
        for name, text in parts.items():
            book.writestr(name, re.sub(r"(</f>)<v ?/>", r"\1<v>2.5</v>", text))
    assert cells(path)["b"] == [2.5, 2.5]


@pytest.mark.parametrize(("library", "ending"), [("pyarrow", ".csv"), ("openpyxl", ".xlsx")])
def test_a_library_that_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch, library, ending):
    path = written(tmp_path, f"rows{ending}", b"PK\x03\x04" if ending == ".xlsx" else b"a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"{library}: pip install .*'marmix\[cli\]'"):
        open_table(path)


def test_reading_needs_no_memory_for_columns_that_are_not_wanted(tmp_path):
    n = 200_000
    table = pa.table({"a": np.arange(n), "b": np.random.default_rng(0).normal(size=n)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=n)
    batches = list(open_table(tmp_path / "rows.parquet").batches(["a"]))
    assert sum(batch.num_rows for batch in batches) == n
    assert all(batch.schema.names == ["a"] for batch in batches)


def test_nothing_reads_a_file_whose_batches_were_left(tmp_path, monkeypatch):
    """Python aborts if it ends while a thread of pyarrow reads ahead."""
    (tmp_path / "rows.csv").write_text("a,b\n" + "1,2\n" * 1_000_000, encoding="utf-8")
    reading, read = [], delimited.Text._next

    def slow(self):
        reading.append(self)
        time.sleep(0.05)
        try:
            return read(self)
        finally:
            reading.pop()

    table = open_table(tmp_path / "rows.csv")
    monkeypatch.setattr(delimited.Text, "_next", slow)
    batches = table.batches()
    next(batches)
    batches.close()
    assert reading == []
