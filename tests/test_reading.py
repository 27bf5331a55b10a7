"""Reading: files of any kind in memory, cell by cell as they were written; what is no table is refused in words."""

import csv
import datetime as dt
import gzip
import io
import os
import re
import sys
import zipfile
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.app import reading
from marmix.app.reading import read, write_rows
from marmix.tables.cells import as_text

pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
pq = pytest.importorskip("pyarrow.parquet")
openpyxl = pytest.importorskip("openpyxl")


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def opened(folder, text, **options):
    return read(written(folder, "rows.csv", text), **options)


def cells(table):
    """The cells of a table as they are in the file."""
    return {name: table.text(name).to_pylist() for name in table.names}


# Cells

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.one_of(
    st.sampled_from(
        ["1.50", "007", "1e-05", "+3", " 4", "NA", "", "-0", "1,5", "1.5", "inf", "9007199254740993", "1.234,5"]
    ),
    st.floats(allow_nan=False).map(repr),
    st.integers(-999, 999).map(str),
)


@given(
    rows=st.lists(st.tuples(TEXT, NUMBERS, NUMBERS), min_size=1, max_size=40),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    decimal=st.sampled_from(".,"),
    line_end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_every_cell_of_a_csv_file_is_the_text_that_was_written(
    tmp_path_factory, rows, delimiter, decimal, line_end, mark
):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_ALL)
    writer.writerows([("a", "b c", "ü"), *rows])
    path = written(tmp_path_factory.mktemp("rows"), "rows.csv", mark + file.getvalue().encode())
    table = read(path, delimiter=delimiter, decimal=decimal)
    assert list(zip(*cells(table).values(), strict=True)) == rows
    assert table.text("b c", len(rows) // 2, 3).to_pylist() == [row[1] for row in rows][len(rows) // 2 :][:3]


@pytest.mark.parametrize("odd", [None, 1, 2500])
def test_columns_of_numbers_are_floats_and_texts_wherever_their_first_word_is(tmp_path, odd, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK", 4096)
    monkeypatch.setattr(reading, "_OF_COLUMN", 16)
    x = [f"{i / 8},5".replace(".", "") if i % 97 else "NA" for i in range(3000)]
    if odd is not None:
        x[odd] = "word"
    table = opened(tmp_path, "a;x\n" + "".join(f"{i};{cell}\n" for i, cell in enumerate(x)), decimal=",")
    assert str(table.data["x"].type) == ("double" if odd is None else "string")
    assert cells(table) == {"a": [str(i) for i in range(3000)], "x": x}
    numbers = [float("nan") if cell in ("NA", "word") else float(cell.replace(",", ".")) for cell in x]
    read_numbers = reading.as_text(table.data["x"]).to_pylist()
    np.testing.assert_array_equal(
        [float(cell) if cell not in ("", "NA", "word") else np.nan for cell in read_numbers], numbers
    )


NAMES = ["name", "größe", "b", "label"]
BOMS = {"utf-8": b"", "utf-8-sig": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe"}
TITLES = [[], ["Export of study 7"], ["Bericht;Ä;;", "", "erstellt am 1.2.2024, 12:00"]]
ROWS = st.lists(
    st.tuples(
        st.text("abcäöü ,;\t|\"'\n", max_size=5),
        st.floats(-9e5, 9e5).map(lambda x: f"{x:.4f}") | st.just(""),
        st.integers(-999, 999).map(str) | st.just("NA"),
        st.sampled_from(["früh", "später", "?", " früh "]),
    ),
    min_size=2,
    max_size=8,
)


@given(
    rows=ROWS,
    delimiter=st.sampled_from(",;\t|"),
    decimal=st.sampled_from(".,"),
    encoding=st.sampled_from([*BOMS, "cp1252"]),
    newline=st.sampled_from(["\n", "\r\n"]),
    titles=st.sampled_from(TITLES),
    packed=st.booleans(),
)
def test_a_table_in_any_dialect_is_that_of_the_plain_file_and_is_written_in_its_dialect(
    tmp_path_factory, rows, delimiter, decimal, encoding, newline, titles, packed
):
    rows = [("x", "0.5", "1", "früh"), ("y", "-12.25", "2", "später"), *rows]
    file = io.StringIO(newline="")
    lines = [NAMES, *([name, number.replace(".", decimal), *others] for name, number, *others in rows)]
    csv.writer(file, delimiter=delimiter, lineterminator=newline).writerows(lines)
    codec = "utf-8" if encoding == "utf-8-sig" else encoding
    body = "".join(f"{line}{newline}" for line in titles) + file.getvalue()
    data = BOMS.get(encoding, b"") + body.encode(codec)
    folder = tmp_path_factory.mktemp("rows")
    table = read(written(folder, "rows.csv.gz", gzip.compress(data)) if packed else written(folder, "rows.csv", data))
    assert [list(row) for row in zip(*cells(table).values(), strict=True)] == lines[1:]
    values = [float(cell) if cell else None for cell in as_text(table.data["größe"]).to_pylist()]
    assert values == [float(number) if number else None for _, number, *_ in rows]
    dialect = table.dialect
    assert (dialect.delimiter, dialect.decimal, dialect.newline) == (delimiter, decimal, newline)
    assert dialect.encoding == ("utf-16" if encoding.startswith("utf-16") else encoding)
    assert dialect.header_row == len(titles) + 1
    # what is unusual is said, nothing else
    assert len(table.notes) == sum([codec != "utf-8", delimiter != ",", bool(titles), decimal == ","])
    # rows come back as they were, with numbers added
    p = np.linspace(0.0, 1.0, len(rows))
    write_rows(folder / "imputed.csv", table, {"p": p})
    file = io.StringIO(newline="")
    numbers = ["p", *(f"{value:.6g}".replace(".", decimal) for value in p)]
    csv.writer(file, delimiter=delimiter, lineterminator=newline).writerows(
        [*line, number] for line, number in zip(lines, numbers, strict=True)
    )
    assert (folder / "imputed.csv").read_bytes() == BOMS.get(encoding, b"") + file.getvalue().encode(codec)
    assert read(folder / "imputed.csv").dialect == replace(dialect, header_row=1)


def test_a_plain_file_says_nothing(tmp_path):
    for ending, mark in ((".csv", ","), (".tsv", "\t")):
        text = "\n" + mark.join("ab") + "\n" + mark.join(["1.234", "x; y"]) + "\n"
        assert read(written(tmp_path, f"rows{ending}", text)).notes == []


# Dialects


@pytest.mark.parametrize(
    ("text", "decimal"),
    [
        ("a;b\n1,234;x\n0,5;y\n", ","),
        ("a;b\n1.234,5;x\n2;y\n", ","),
        ("a;b\n1.234.567;x\n2;y\n", ","),
        ("a;b\n1,234;0.5\n2;1\n", "."),
        ("a;b\n1,234.5;x\n2;y\n", "."),
        ("a;b\n1;x\n2;y\n", ","),
        ("a\tb\n1\tx\n2\ty\n", "."),
        ("a\tb\n1.234\tx\n", "."),
        ('a,b\n"1,5",x\n', ","),
        ('a,b\n"1,5",2.5\n', "."),
    ],
)
def test_the_decimal_mark_follows_from_the_numbers_that_show_it(tmp_path, text, decimal):
    assert opened(tmp_path, text).dialect.decimal == decimal


@pytest.mark.parametrize("text", ["a;b\n1,234;x\n12,500;y\n", "a;b\n1.234;x\n", "a\tb\n1,234\t5\n"])
def test_a_decimal_mark_in_doubt_is_asked_for(tmp_path, text):
    with pytest.raises(ValueError, match=r"'1.234' may have three decimals .*--decimal"):
        opened(tmp_path, text)
    for decimal in ".,":
        assert opened(tmp_path, text, decimal=decimal).dialect.decimal == decimal


@pytest.mark.parametrize("text", ["a;b\n1,5;x\n2.5;y\n", "a;b\n1,5;2.5\n"])
def test_both_marks_in_a_file_are_refused_with_their_cells(tmp_path, text):
    with pytest.raises(ValueError, match=r"'1,5', and .* '2\.5'"):
        opened(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Export;;;\na;b;c;d\n1;2;3;x\n", "abcd"),
        ("Patient;4711\n\n;;\na;b;c\n1;2;x\n3;4;y\n5;6;z\n", "abc"),
        ("a,b\n1,2\n", "ab"),
        ("a;b;;\n1,5;x;;\n2,5;y;;\n", "ab"),
        ("x\ny\n", "x"),
    ],
)
def test_titles_and_empty_columns_are_left_out(tmp_path, text, names):
    table = opened(tmp_path, text)
    assert table.names == list(names)
    assert any("left out" in note for note in table.notes) == (text[0] in "EP" or ";;" in text)


def test_the_line_of_the_column_names_can_be_given(tmp_path):
    assert cells(opened(tmp_path, "x,y\n\na,b\n1,2\n", header_row=3)) == {"a": ["1"], "b": ["2"]}
    for line in (2, 9):
        with pytest.raises(ValueError, match=rf"line {line} is empty.*--header-row"):
            opened(tmp_path, "x,y\n\na,b\n1,2\n", header_row=line)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("size, mm;weight, kg\n1,5;2,5\n3,5;1,5\n", ";"),
        ("name;x\nMüller,Hans;1,5\nMeier,Eva;2,5\n", ";"),
        ("id,lat;lon,y\n1,3;4,a\n2,5;6,b\n", ","),
        ("id,tags,x\n1,a;b,3\n2,c;d,4\n", ","),
        ("Report, version 2\na;b\n1,5;x\n2,5;y\n", ";"),
    ],
)
def test_the_delimiter_is_the_one_that_makes_a_table(tmp_path, text, delimiter):
    assert opened(tmp_path, text).dialect.delimiter == delimiter


@pytest.mark.parametrize(("last", "encoding"), [("ü".encode(), "utf-8"), (b"\xfc", "cp1252"), (b"\x81", "latin-1")])
def test_letters_far_down_decide_the_encoding(tmp_path, last, encoding):
    path = written(tmp_path, "rows.csv", b"a,b\n" + b"1,2\n" * 200_000 + b"1," + last + b"\n")
    table = read(path)
    assert (table.dialect.encoding, len(table.notes)) == (encoding, encoding != "utf-8")
    assert table.text("b", 200_000).to_pylist() == [last.decode(encoding)]


def test_other_encodings_and_delimiters_are_read_where_they_are_named(tmp_path):
    for encoding in ("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8"):
        path = written(tmp_path, "rows.csv", "größe,b\r\nçà,é\r\n".encode(encoding))
        assert cells(read(path, encoding=encoding)) == {"größe": ["çà"], "b": ["é"]}
    path = written(tmp_path, "rows.txt", "a\tb\n1\t2\n")
    for delimiter in ("\t", "\\t", "tab"):
        assert cells(read(path, delimiter=delimiter)) == {"a": ["1"], "b": ["2"]}


# Files with types

TYPED = pa.table(
    {
        "whole": [1, None, 3],
        "flag": [True, False, None],
        "word": ["a", None, "ü"],
        "level": pa.array(["u", "v", "u"]).dictionary_encode(),
        "when": [dt.date(2020, 1, 2), None, dt.date(1999, 12, 31)],
    }
)


@pytest.mark.parametrize("ending", [".parquet", ".pq", ".arrow", ".ipc", ".feather"])
def test_typed_files_keep_their_types(tmp_path, ending):
    path = tmp_path / f"rows{ending}"
    if ending in (".parquet", ".pq"):
        pq.write_table(TYPED, path)
    else:
        with (ipc.new_stream if ending == ".ipc" else ipc.new_file)(path, TYPED.schema) as writer:
            writer.write_table(TYPED)
    assert read(path).data.equals(TYPED)


@pytest.mark.posix_only("names that are not text")
def test_a_name_that_is_not_text_is_read(tmp_path):
    name = os.fsdecode(b"b\xe4ume")
    assert cells(read(written(tmp_path, f"{name}.csv", "a,b\n1,2\n"))) == {"a": ["1"], "b": ["2"]}
    with open(tmp_path / f"{name}.parquet", "wb") as file:
        pq.write_table(TYPED, file)
    assert read(tmp_path / f"{name}.parquet").data.equals(TYPED)


def test_the_index_of_a_stored_frame_and_a_first_column_without_a_name_are_no_features(tmp_path):
    pd = pytest.importorskip("pandas")
    pd.DataFrame({"a": [1, 2]}, index=pd.Index(["p", "q"], name="who")).to_parquet(tmp_path / "rows.parquet")
    table = read(tmp_path / "rows.parquet")
    assert (table.names, table.index) == (["a", "who"], ["who"])
    sheet = workbook(tmp_path, [[None, "a", "b"], ["r1", 1, 2], ["r2", 3, 4]])
    for path in (written(tmp_path, "rows.csv", ",a,b\nr1,1,2\nr2,3,4\n"), sheet):
        table = read(path)
        assert (table.names, table.index, cells(table)[""]) == (["", "a", "b"], [""], ["r1", "r2"])
        assert any("first column has no name" in note for note in table.notes)


def workbook(folder, rows, **others):
    book = openpyxl.Workbook()
    book.active.title = "first"
    for title, more in {"first": rows, **others}.items():
        page = book["first"] if title == "first" else book.create_sheet(title)
        for row in more:
            page.append(row)
    book.save(folder / "rows.xlsx")
    return folder / "rows.xlsx"


def test_cells_of_a_sheet_have_their_own_types(tmp_path):
    rows = [
        ["n", "x", "yes", "day", "time", "word", 2019, "mixed"],
        [1, 0.5, True, dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, 4, 5), "a", 1, 1],
        [None, 2, None, None, None, None, None, "b"],
        [None] * 8,
        [3, None, False, dt.date(2021, 1, 2), dt.datetime(2021, 1, 2), "c", 2.5, True],
    ]
    data = read(workbook(tmp_path, rows)).data
    kinds = ["int64", "double", "bool", "date32[day]", "timestamp[us]", "string", "double", "string"]
    assert [str(kind) for kind in data.schema.types] == kinds
    assert data.column_names[6] == "2019"
    assert data["day"].to_pylist() == [dt.date(2020, 1, 2), None, dt.date(2021, 1, 2)]
    assert data["mixed"].to_pylist() == ["1", "b", "true"]


def test_a_sheet_is_chosen_by_name_or_number_and_its_table_is_found(tmp_path):
    rows = [["id", "x", "y"], ["p", 1.5, "u"], ["q", 2, "v"], *([f"r{i}", i] for i in range(9))]
    path = workbook(tmp_path, rows, **{"3": [["a"], [1]], "last": [["b"], [1]], "empty": [], "head": [["a"]]})
    table = read(path)
    assert (table.names, table.data.num_rows, len(table.notes)) == (["id", "x", "y"], 11, 1)
    assert all(name in table.notes[0] for name in ("'first'", "'3'", "'last'"))
    names = {sheet: read(path, sheet=sheet).names for sheet in ("1", 2, "3", "last")}
    assert names == {"1": ["id", "x", "y"], 2: ["a"], "3": ["a"], "last": ["b"]}
    for sheet, message in (("9", "no sheet '9': its sheets are 'first'"), ("empty", "no rows"), ("head", "no rows")):
        with pytest.raises(ValueError, match=message):
            read(path, sheet=sheet)
    for margin in (0, 2):
        above = [["Study 7"], [], ["exported", "2024"], *rows]
        table = read(workbook(tmp_path, [[None] * margin + row for row in above]))
        assert (table.names, cells(table)["id"][:2]) == (["id", "x", "y"], ["p", "q"])
        assert "row 4" in table.notes[0]
    for rows, column in (([["a", "b"], [1, 2, 3]], 3), ([["size", None, "y"], ["mean", "mean", "y"], [1, 2, "u"]], 2)):
        with pytest.raises(ValueError, match=f"column {column} has no name"):
            read(workbook(tmp_path, rows))


def test_formulas_of_a_sheet_count_with_their_saved_results(tmp_path):
    path = workbook(tmp_path, [["a", "b"], [1, "=A2*2"], [2, "=A3*2"]])
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name).decode() for name in book.namelist()}
    with zipfile.ZipFile(path, "w") as book:
        for name, text in parts.items():
            book.writestr(name, re.sub(r"(</f>)<v ?/>", r"\1<v>2.5</v>", text))
    assert read(path).data["b"].to_pylist() == [2.5, 2.5]


# Refusals

REFUSED = {
    "nothing": ("rows.csv", b"", "is empty"),
    "blank lines": ("rows.csv", b"\n\r\n\n", "is empty"),
    "no rows": ("rows.csv", b"a,b\n\n", "column names but no rows"),
    "no header": ("rows.csv", b"5.1,3.5,setosa\n4.9,3.0,setosa\n", "numbers in its first line.*names of the columns"),
    "name twice": ("rows.csv", b"a,b,a\n1,2,3\n", "columns 1 and 3 are both called 'a'"),
    "no name": ("rows.csv", b"a,,c\n1,2,3\n", "column 2 has no name"),
    "a cell without a name": ("rows.csv", b"a;b;;\n1,5;x;;z\n", "column 3 has no name"),
    "cell too many": ("rows.csv", b'a,b\n"1\n",2\n\n3,4\n5,6,7\n', "data row 3 has 3 cells, where the header has 2"),
    "cell too few": ("rows.csv", b"a,b\n1,2\n3\n", "data row 2 has 1 cell, where the header has 2"),
    "ragged far down": ("rows.csv", b"a,b\n" + b"1,2\n" * 500_000 + b"1\n", "data row 500001 has 1 cell,"),
    "quotation mark": ("rows.csv", b'a,b\n1,2\n3,"4\n5,6\n', "quotation mark that is not closed"),
    "encoding": ("rows.csv", b"\xef\xbb\xbfa,b\n1,2\n\xe9,3\n", "not text in utf-8.*--encoding"),
    "utf-16": ("rows.csv", "a,b\n1,2\n".encode("utf-16-le"), "NUL bytes.*--encoding utf-16"),
    "NUL": ("rows.csv", b"a,b\n1,2\n3,\0\n", "NUL bytes"),
    "Excel as CSV": ("rows.csv", b"PK\x03\x04\0\0\0", "not plain text.* name it after what it is"),
    "CSV as Parquet": ("rows.parquet", b"a,b\n1,2\n", "cannot be read .*of the kind that its name says"),
    "CSV as Excel": ("rows.xlsx", b"a,b\n1,2\n", "cannot be read .*of the kind that its name says"),
    "CSV as gz": ("rows.csv.gz", b"a,b\n1,2\n", "cannot be read .*gzip"),
    "CSV as Arrow": ("rows.arrow", b"a,b\n1,2\n", "cannot be read"),
    "half Parquet": ("rows.parquet", b"PAR1 and no more", "rows.parquet"),
    "half gz": ("rows.csv.gz", gzip.compress(b"a,b\n1,2\n")[:-9], "cannot be read .*is it complete"),
    "half Excel": ("rows.xlsx", b"PK\x03\x04 and no more", "cannot be read"),
    "unknown": ("rows.sav", b"a,b\n1,2\n", r"should end in \.csv, .*rename or convert"),
    "txt": ("rows.txt", b"a b\n1 2\n", "give --delimiter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_table_is_refused_with_the_file_and_what_to_do(tmp_path, case):
    name, data, message = REFUSED[case]
    path = written(tmp_path, name, data)
    with pytest.raises((ValueError, OSError), match=message) as error:
        read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_does_not_fit_is_refused_with_its_size_and_the_way_that_does(tmp_path, monkeypatch):
    path = written(tmp_path, "rows.csv", "a,b\n" + "1,2\n" * 1000)
    monkeypatch.setattr(reading.os, "sysconf", lambda name: 64)
    with pytest.raises(ValueError, match=r"rows\.csv has .* GiB .*Parquet.*to_memmap"):
        read(path)


def test_a_file_that_is_not_there_is_answered_with_the_nearest_name(tmp_path):
    written(tmp_path, "patients.csv", "a,b\n1,2\n")
    with pytest.raises(FileNotFoundError, match=r"patient\.csv is not there\. Did you mean .*patients\.csv"):
        read(tmp_path / "patient.csv")
    with pytest.raises(FileNotFoundError, match="Check the name"):
        read(tmp_path / "nowhere" / "x.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read(tmp_path)


def test_options_without_a_meaning_are_refused(tmp_path):
    pq.write_table(TYPED, tmp_path / "rows.parquet")
    text = written(tmp_path, "rows.csv", "a,b\n1,2\n")
    for path, options in ((tmp_path / "rows.parquet", {"encoding": "latin-1"}), (text, {"sheet": "first"})):
        with pytest.raises(ValueError, match=r"has no meaning for .*: leave it out"):
            read(path, **options)
    with pytest.raises(ValueError, match="delimiter '::' is not one character"):
        read(text, delimiter="::")
    for encoding in ("klingon", "hex"):
        with pytest.raises(ValueError, match=f"no encoding '{encoding}'"):
            read(text, encoding=encoding)


@pytest.mark.parametrize(("library", "ending"), [("pyarrow", ".csv"), ("openpyxl", ".xlsx")])
def test_a_library_that_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch, library, ending):
    path = written(tmp_path, f"rows{ending}", b"PK\x03\x04" if ending == ".xlsx" else b"a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"{library}: pip install .*'marmix\[cli\]'"):
        read(path)


# Text of typed columns


@given(st.lists(st.floats(allow_nan=False) | st.none(), min_size=1))
def test_text_of_floats_gives_the_same_floats(values):
    texts = as_text(pa.array(values, pa.float64())).to_pylist()
    assert [float(text) if text else None for text in texts] == values


def test_text_of_a_typed_column_is_what_people_write():
    moment = dt.datetime(2020, 1, 2, 3, 4, 5)
    for array, texts in [
        (pa.array([1, None, -(2**62)]), ["1", "", str(-(2**62))]),
        (pa.array([1.0, 0.1, 1e-7, float("nan")]), ["1", "0.1", "1e-7", "nan"]),
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array([dt.date(2020, 1, 2), None]), ["2020-01-02", ""]),
        (pa.array([moment, None]), ["2020-01-02 03:04:05", ""]),
        (pa.array([dt.time(3, 4)]), ["03:04:00"]),
        (pa.array([dt.timedelta(days=1)]), ["1 day, 0:00:00"]),
        (pa.array(["u", None, "u"]).dictionary_encode(), ["u", "", "u"]),
        (pa.array(["u", None], pa.large_string()), ["u", ""]),
        (pa.chunked_array([["u"], ["v"]]), ["u", "v"]),
        (pa.nulls(2), ["", ""]),
        (pa.array([b"u", b"\xff\x00", None]), ["u", "ff00", ""]),
        (pa.array([Decimal("1.20")]), ["1.20"]),
        (pa.array([[1, 2], None]), ["[1, 2]", ""]),
        (pa.array([{"a": 1}]), ['{"a": 1}']),
    ]:
        assert as_text(array).type == pa.string()
        assert as_text(array).to_pylist() == texts
