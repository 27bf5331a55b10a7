"""Files as they are written in Europe: any dialect gives the table of the plain file, and rows are written back as they came."""

import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.io import to_memmap
from marmix.tables import LabelColumn, Preparation, RowWriter, open_table
from marmix.tables.cells import pointed_text
from marmix.tables.delimited import BLOCK

pa = pytest.importorskip("pyarrow")
openpyxl = pytest.importorskip("openpyxl")

NAMES = ["name", "größe", "b", "label"]
BOMS = {"utf-8": b"", "utf-8-sig": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
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


def as_text(rows, delimiter, newline, decimal="."):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=newline)
    writer.writerow(NAMES)
    for name, number, whole, label in rows:
        writer.writerow([name, number.replace(".", decimal), whole, label])
    return file.getvalue()


def columns(table):
    """Cells of a table by column."""
    return pa.Table.from_batches([pa.record_batch({"": []}), *table.batches()][1:]).to_pydict()


def read(path, **options):
    """Column names, features, labels and classes of a file."""
    table = open_table(path, **options)
    preparation, labels = Preparation(["größe", "b"]), LabelColumn("label")
    preparation.fit_batches(lambda: table.batches(["größe", "b", "label"]), labels)
    X = np.concatenate([preparation.transform(batch) for batch in table.batches()])
    return table.names, preparation.get_feature_names_out().tolist(), X.tolist(), labels.codes, labels.classes.tolist()


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
    folder = tmp_path_factory.mktemp("rows")
    rows = [("x", "0.5", "1", "früh"), ("y", "-12.25", "2", "später"), *rows]
    plain, path = folder / "plain.csv", folder / ("rows.csv.gz" if packed else "rows.csv")
    plain.write_bytes(as_text(rows, ",", "\n").encode())
    codec = "utf-8" if encoding == "utf-8-sig" else encoding
    text = as_text(rows, delimiter, newline, decimal)
    data = BOMS.get(encoding, b"") + "".join(f"{line}{newline}" for line in titles).encode(codec) + text.encode(codec)
    path.write_bytes(gzip.compress(data) if packed else data)
    table = open_table(path)
    for a, b in zip(read(path), read(plain), strict=True):
        np.testing.assert_array_equal(a, b)
    dialect = table.dialect
    assert (dialect.delimiter, dialect.decimal, dialect.newline) == (delimiter, decimal, newline)
    assert (dialect.encoding, dialect.bom) == (codec, encoding != codec or encoding.startswith("utf-16"))
    assert dialect.header_row == len(titles) + 1
    # what is unusual is said, nothing else
    unusual = [codec != "utf-8", delimiter != ",", bool(titles), decimal == ","]
    assert len(table.assumed) == sum(unusual)
    # rows come back as they were, with numbers added
    p = np.linspace(0.0, 1.0, len(rows))
    with RowWriter(folder / "imputed.csv", table.names, ["p"], dialect=dialect) as writer:
        for batch in table.batches():
            writer.write(batch, [p])
    lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    numbers = ["p", *(f"{value:.6g}".replace(".", decimal) for value in p)]
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator=newline).writerows(
        [*line, number] for line, number in zip(lines, numbers, strict=True)
    )
    assert (folder / "imputed.csv").read_bytes() == BOMS.get(encoding, b"") + file.getvalue().encode(codec)
    again = open_table(folder / "imputed.csv")
    assert vars(again.dialect) == vars(dialect) | {"header_row": 1}
    for a, b in zip(read(folder / "imputed.csv")[1:], read(plain)[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_plain_file_says_nothing(tmp_path):
    for ending, mark in ((".csv", ","), (".tsv", "\t")):
        path = tmp_path / f"rows{ending}"
        path.write_text("\n" + mark.join("ab") + "\n" + mark.join(["1.234", "x; y"]) + "\n", encoding="utf-8")
        assert open_table(path).assumed == []


def opened(folder, text, **options):
    path = folder / "rows.csv"
    path.write_bytes(text.encode())
    return open_table(path, **options)


@pytest.mark.parametrize(
    ("text", "decimal"),
    [
        ("a;b\n1,234;x\n0,5;y\n", ","),
        ("a;b\n1,234;x\n0,567;y\n", ","),
        ("a;b\n1.234,5;x\n2;y\n", ","),
        ("a;b\n1.234.567;x\n2;y\n", ","),
        ("a;b\n1,234;0.5\n2;1\n", "."),
        ("a;b\n1,234.5;x\n2;y\n", "."),
        ("a;b\n1;x\n2;y\n", ","),
        ("a\tb\n1\tx\n2\ty\n", "."),
        ("a\tb\n1.234\tx\n", "."),
        ('a,b\n"1,5",x\n', ","),
        ('a,b\n"1,5",2.5\n', "."),
        ('a,b\n"1,234",2\n', "."),
        ("a;b\n" + f"{1:100};2\n" * (BLOCK // 100) + "1.5;2\n", "."),
        ("a;b\n" + f"{'1,234':>100};2\n" * (BLOCK // 100) + "1,5;2\n", ","),
    ],
)
def test_the_decimal_mark_follows_from_the_numbers_that_show_it(tmp_path, text, decimal):
    assert opened(tmp_path, text).dialect.decimal == decimal


@pytest.mark.parametrize("text", ["a;b\n1,234;x\n12,500;y\n", "a;b\n1.234;x\n", "a\tb\n1,234\t5\n"])
def test_a_decimal_mark_in_doubt_is_asked_for(tmp_path, text):
    with pytest.raises(ValueError, match=r"'1.234' in data row 1 of column 'a' may have three decimals .*--decimal"):
        opened(tmp_path, text)
    for decimal in ".,":
        assert opened(tmp_path, text, decimal=decimal).dialect.decimal == decimal


def test_both_marks_in_a_file_are_refused_with_their_cells(tmp_path):
    with pytest.raises(
        ValueError, match=r"'1,5' in data row 1 of column 'a', and .* '2\.5' in data row 2 of column 'a'"
    ):
        opened(tmp_path, "a;b\n1,5;x\n2.5;y\n")
    with pytest.raises(
        ValueError, match=r"'1,5' in data row 1 of column 'a', and .* '2\.5' in data row 1 of column 'b'"
    ):
        opened(tmp_path, "a;b\n1,5;2.5\n")
    table = opened(tmp_path, "a;b\n1,5;x\n2.5;y\n3,5;z\n4,5;z\n5,5;z\n", decimal=",")
    with pytest.raises(ValueError, match=r"'a' holds '2\.5' in data row 2: write numbers with a decimal comma"):
        Preparation(["a"]).fit_batches(table.batches)


@pytest.mark.parametrize("cell", ["1.5", ".5", "1.234,5", "1,234,567", "1,234.5", "1.23.456", "1 234,5"])
def test_a_number_of_another_kind_far_down_is_refused_with_its_row(tmp_path, cell):
    n = BLOCK // 100
    table = opened(tmp_path, "a;b\n" + f"{'2,5':>100};\n" * n + f"{cell};\n")
    with pytest.raises(
        ValueError, match=rf"'a' holds '{cell}' in data row {n + 1}: write numbers with a decimal comma"
    ):
        Preparation(["a"]).fit_batches(table.batches)
    preparation = Preparation(["a"]).fit({"a": [1.0, 2.0]})
    with pytest.raises(ValueError, match=rf"'a' holds '{cell}' in data row 1: write"):
        preparation.transform(next(opened(tmp_path, f"a;b\n{cell};\n2,5;\n", decimal=",").batches()))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Export;;;\na;b;c;d\n1;2;3;x\n", "abcd"),
        ("Patient;4711\n\n;;\na;b;c\n1;2;x\n3;4;y\n5;6;z\n", "abc"),
        ("a,b\n1,2\n", "ab"),
        ("title\na,b\nx,y\nu,v\n", ["title"]),  # no numbers below: the first line stays the header
        ("a\n1,2\n3,4\n", "a"),
        ("a,,,\n1,2,3,4\n", ["a", "", "", ""]),
    ],
)
def test_titles_above_the_column_names_are_left_out(tmp_path, text, names):
    if "" in list(names):
        with pytest.raises(ValueError, match="column 2 has no name"):
            opened(tmp_path, text)
    else:
        table = opened(tmp_path, text)
        assert table.names == list(names)
        assert bool(table.assumed) == (names not in ("ab", "a", ["title"]))


def test_empty_columns_at_the_end_are_left_out(tmp_path):
    table = opened(tmp_path, "a;b;;\n1,5;x;;\n2,5;y;;\n")
    assert columns(table) == {"a": ["1,5", "2,5"], "b": ["x", "y"]}
    rows = "1,5;x;;\n" * (BLOCK // 8)
    with pytest.raises(ValueError, match=f"data row {BLOCK // 8 + 1} holds 'z' in a column without a name"):
        columns(opened(tmp_path, f"a;b;;\n{rows}1,5;x;;z\n"))
    with pytest.raises(ValueError, match="column 3 has no name"):
        opened(tmp_path, "a;b;;\n1,5;x;;z\n")


def test_the_line_of_the_column_names_can_be_given(tmp_path):
    table = opened(tmp_path, "x,y\n\na,b\n1,2\n", header_row=3)
    assert columns(table) == {"a": ["1"], "b": ["2"]}
    assert table.assumed == []
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
        ("a,b\n1,2\n3\n", ","),
        ("Report, version 2\na;b\n1,5;x\n2,5;y\n", ";"),
    ],
)
def test_the_delimiter_is_the_one_that_makes_a_table(tmp_path, text, delimiter):
    assert opened(tmp_path, text).dialect.delimiter == delimiter


def test_letters_far_down_decide_the_encoding(tmp_path):
    path = tmp_path / "rows.csv"
    for last, encoding in (("ü".encode(), "utf-8"), (b"\xfc", "cp1252"), (b"\x81", "latin-1")):
        path.write_bytes(b"a,b\n" + b"1,2\n" * (BLOCK // 4) + b"1," + last + b"\n")
        assert open_table(path).dialect.encoding == encoding


def test_a_name_that_the_encoding_lacks_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("a,b\n1,ü\n".encode("cp1252"))
    with (
        pytest.raises(ValueError, match="'Ω' cannot be written in cp1252"),
        RowWriter(tmp_path / "out.csv", ["a", "b"], ["p_Ω"], dialect=open_table(path).dialect),
    ):
        raise AssertionError


def test_numbers_with_a_comma_are_no_formulas_where_the_comma_is_the_mark(tmp_path):
    table = opened(tmp_path, "a;b\n-2,5;=1\n")
    with RowWriter(tmp_path / "out.csv", table.names, [], dialect=table.dialect) as writer:
        for batch in table.batches():
            writer.write(batch, [])
    assert writer.formulas == 1


def test_on_a_page_numbers_have_a_decimal_point(tmp_path):
    (batch,) = opened(tmp_path, "a;b\n1,5;1,5 mg\n;x.y\n").batches()
    texts = {name: pointed_text(batch.column(name)).to_pylist() for name in batch.schema.names}
    assert texts == {"a": ["1.5", ""], "b": ["1,5 mg", "x.y"]}
    assert pointed_text(batch.column("b").slice(1)).to_pylist() == ["x.y"]


def test_to_memmap_reads_semicolons_and_decimal_commas(tmp_path):
    opened(tmp_path, "Titel;;\na;b;y\n1,5;2;u\n3;0,25;v\n")
    table = to_memmap(tmp_path / "rows.csv", tmp_path / "rows.npy", label="y", progress=False)
    assert table.columns == ["a", "b"]
    assert table.X.tolist() == [[1.5, 2.0], [3.0, 0.25]]
    assert table.classes.tolist() == ["u", "v"]


# Excel


def workbook(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        page = book.create_sheet(title)
        for row in rows:
            page.append(row)
    book.save(path)
    return path


TABLE = [["id", "x", "y"], ["p", 1.5, "u"], ["q", 2, "v"]]


def test_a_sheet_is_chosen_by_name_or_number_and_said_if_there_are_others(tmp_path):
    path = workbook(tmp_path / "rows.xlsx", first=TABLE, **{"3": [["a"], [1]], "last": [["b"], [1]]})
    table = open_table(path)
    assert table.names == ["id", "x", "y"]
    assert len(table.assumed) == 1
    assert all(name in table.assumed[0] for name in ("'first'", "'3'", "'last'"))
    names = {sheet: open_table(path, sheet=sheet).names for sheet in ("1", 2, "3", "last")}
    assert names == {"1": ["id", "x", "y"], 2: ["a"], "3": ["a"], "last": ["b"]}
    assert open_table(path, sheet=1).assumed == []
    with pytest.raises(ValueError, match="no sheet '4'"):
        open_table(path, sheet="4")


def test_titles_and_blank_columns_of_a_sheet_are_left_out(tmp_path):
    above = [["Study 7"], [], ["exported", "2024"]]
    for margin in (0, 2):
        rows = [[None] * margin + row for row in [*above, *TABLE]]
        path = workbook(tmp_path / "rows.xlsx", sheet=rows)
        table = open_table(path)
        assert columns(table) == {"id": ["p", "q"], "x": [1.5, 2], "y": ["u", "v"]}
        assert len(table.assumed) == 1
        assert "row 4" in table.assumed[0]
        assert columns(open_table(path, header_row=4)) == columns(table)
    path = workbook(tmp_path / "rows.xlsx", sheet=[[None, *row] for row in TABLE] + [["total", None, 3.5]])
    assert open_table(path).index == [""]


def test_the_names_of_a_sheet_are_found_where_most_rows_end_early(tmp_path):
    rows = [["id", "x", "y"], ["p", 1, "u"], ["q", 2, "v"], *([f"r{i}", i] for i in range(9))]
    for above in ([], [["Study 7"], ["exported", "2024"]]):
        table = open_table(workbook(tmp_path / "rows.xlsx", sheet=[*above, *rows]))
        assert table.names == ["id", "x", "y"]
        assert table.rows == 11


def test_a_merged_cell_is_no_name(tmp_path):
    path = workbook(tmp_path / "rows.xlsx", sheet=[["size", None, "y"], ["mean", "mean", "y"], [1, 2, "u"]])
    with pytest.raises(ValueError, match="column 2 has no name"):
        open_table(path)


def test_text_with_decimal_commas_in_a_sheet_is_read_as_numbers(tmp_path):
    rows = [
        ["x", "note", "big"],
        ["1,5", "1,5 mg", "1,234"],
        [" 2", "a", "2,345"],
        ["NA", "b", "3,456"],
        ["-0,25", "c", ""],
    ]
    path = workbook(tmp_path / "rows.xlsx", sheet=rows)
    table = open_table(path)
    assert columns(table)["x"] == ["1.5", " 2", "NA", "-0.25"]
    assert columns(table)["note"][0] == "1,5 mg"
    assert columns(table)["big"][0] == "1,234"
    assert len(table.assumed) == 1
    assert "'x'" in table.assumed[0]
    with pytest.raises(ValueError, match=r"'big' holds '1,234' in data row 1.*--decimal"):
        Preparation(["big"]).fit_batches(table.batches)
    assert columns(open_table(path, decimal=","))["big"][0] == "1.234"
    assert columns(open_table(path, decimal="."))["x"][0] == "1,5"
