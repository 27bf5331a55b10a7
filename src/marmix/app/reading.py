"""Data files, read once into Arrow tables in memory: how they are written is found in their first rows."""

import codecs
import csv
import gzip
import io
import os
import re
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import file_digest
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.core.labels import MISSING_TEXTS
from marmix.tables.cells import (
    NUMBER,
    WHOLE,
    arrow,
    as_table,
    as_text,
    counted,
    is_numeric,
    listed,
    mask,
    matching,
    missing_cells,
    plain,
    shown,
)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_IN_A_SHELL = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
_ROWS = 200  # in which the delimiter and the column names are looked for
_NUMERIC = 0.8  # share of numbers from which a column says how numbers are written
_NOT_IN_CP1252 = re.compile(b"[\x81\x8d\x8f\x90\x9d]")
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DOUBTFUL = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")  # 1,234 and 1.234: a fraction or a thousand
_THOUSANDS = {
    ",": re.compile(r"[+-]?[0-9]{1,3}((\.[0-9]{3})+,[0-9]*|(\.[0-9]{3}){2,})"),  # 1.234,5 and 1.234.567
    ".": re.compile(r"[+-]?[0-9]{1,3}((,[0-9]{3})+\.[0-9]*|(,[0-9]{3}){2,})"),
}


@dataclass(frozen=True)
class Dialect:
    r"""How a text file is written, and how rows that were read from it are written again.

    Attributes
    ----------
    encoding : str
    delimiter : str
    decimal : {".", ","}
        Decimal mark.
    header_row : int
        Line of the column names, from 1.
    bom : bool
        Whether the file begins with a byte order mark.
    newline : {"\n", "\r\n"}
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    decimal: str = "."
    header_row: int = 1
    bom: bool = False
    newline: str = "\n"


class Sniffed(NamedTuple):
    """The dialect of a file, its column names, the number of lines above the rows, and what was assumed."""

    dialect: Dialect
    names: list[str]
    skipped: int
    assumed: list[str]


class Row(NamedTuple):
    """A row of a text file or sheet, with the numbers of its first and last line."""

    line: int
    cells: Sequence[str]
    end: int = 0


def sniff(
    path: Path,
    text: str,
    usual: str | None,
    delimiter: str | None = None,
    decimal: str | None = None,
    header_row: int | None = None,
) -> Sniffed:
    """Find out from its first rows how a text file is written, as far as it is not given; without its encoding.

    `usual` is the delimiter that the name of the file promises.
    """
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal mark {shown(decimal)} is neither a point nor a comma: give '.' or ','.")
    if not text.strip():
        raise ValueError(f"{path} is empty: it needs a line of column names, and rows.")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(
            f"{path} is not plain text: it has a NUL byte in line {line}. If it is UTF-16, give --encoding utf-16."
        )
    assumed = []
    mark = _delimiter(text, usual) if delimiter is None else _one_character(delimiter)
    if mark is None:
        raise ValueError(f"the delimiter of {path} is not known: give --delimiter.")
    if delimiter is None and mark != usual:
        assumed.append(f"Columns are separated by {DELIMITERS[mark]}; --delimiter names another mark.")
    rows = list(_rows(text, mark))
    if not any(row.cells for row in rows):
        raise ValueError(f"{path}: the column names in its first line cannot be read.")
    place = header_place(rows[:_ROWS], header_row, str(path))
    header = rows[place]
    if header_row is None:
        assumed += titles_in_words(rows, place, "line")
    _check_header(path, header.cells)
    body = [row.cells for row in rows[place + 1 :] if row.cells]
    if not body:
        raise ValueError(f"{path} has column names, {shown(mark.join(header.cells))}, but no rows.")
    if decimal is None:
        decimal, sentences = _decimal(body, header.cells, mark, path)
        assumed += sentences
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    dialect = Dialect(delimiter=mark, decimal=decimal, header_row=header.line, newline=newline)
    return Sniffed(dialect, list(header.cells), header.end, assumed)


def encoding_of(path: Path, head: bytes, given: str | None) -> tuple[str, bool]:
    """The encoding of a text, and whether it has a byte order mark."""
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if given is None:
        if marked:
            return marked, True
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError:
            return "latin-1" if _NOT_IN_CP1252.search(head) else "cp1252", False
        return "utf-8", False
    try:
        name = codecs.lookup(given).name
        "".encode(name)  # a codec of text
    except LookupError:
        raise ValueError(f"there is no encoding {shown(given)}: try utf-8, cp1252, latin-1 or utf-16.") from None
    if name == "utf-16":
        return marked or f"utf-16-{sys.byteorder[0]}e", marked is not None
    if str(marked).startswith("utf-16") and name != marked:
        raise ValueError(f"{path} is text in UTF-16, not in {name}: give --encoding utf-16.")
    return "utf-8" if name == "utf-8-sig" else name, marked is not None


def encoding_in_words(codec: str) -> str:
    """What was assumed about an encoding that is not UTF-8."""
    if codec.startswith("utf-16"):
        return "The file is in UTF-16."
    return f"The file is not in UTF-8 and was read as {codec} (Western European); --encoding names another encoding."


# Delimiter and column names


def _one_character(delimiter: str) -> str:
    r"""A delimiter given by the user; ``\t`` and ``tab`` mean a tab."""
    character = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if len(character) != 1 or not character.isascii() or character in '"\r\n\0':
        raise ValueError(f"delimiter {shown(delimiter)} is not one character such as ',' or ';', nor tab.")
    return character


def _rows(text: str, delimiter: str) -> Iterator[Row]:
    """Rows of a text, also empty ones, up to one that cannot be parsed."""
    reader, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 0
    try:
        for cells in reader:
            yield Row(line + 1, cells, reader.line_num)
            line = reader.line_num
    except csv.Error:
        return


def _delimiter(text: str, usual: str | None) -> str | None:
    """The delimiter that gives most rows the same number of cells, and cells without other delimiters; else the usual one."""
    scores = {}
    for mark in DELIMITERS:
        rows = [row.cells for row in islice(_rows(text, mark), _ROWS) if row.cells] if mark in text else []
        width = _width(rows)
        if width > 1:
            cells = [cell for row in rows for cell in row]
            alike = sum(len(row) == width for row in rows) / len(rows)
            scores[mark] = (alike, sum(map(_is_simple, cells)) / len(cells), mark == usual)
    return max(scores, key=lambda mark: scores[mark], default=usual)


def _width(rows: Sequence[Sequence[str]]) -> int:
    """The most frequent number of cells of the later rows, above one if there is such a row; the largest of several."""
    widths = Counter(len(cells) for cells in rows[len(rows) // 2 :])
    return max(widths, key=lambda width: (width > 1, widths[width], width), default=0)


def _is_simple(cell: str) -> bool:
    """Whether a cell is a number, or text without a delimiter."""
    return not any(mark in cell.replace(", ", " ") for mark in DELIMITERS) or _number(cell) is not None


def header_place(rows: Sequence[Row], given: int | None, where: str, line: str = "line", width: int = 0) -> int:
    """Index of the row of column names: that in the given line, or the first that is no title.

    Titles have another number of cells than the table, or at most half of their cells are filled. Rows are left out as titles
    only if the next one has a different name for every column, and numbers below it. The `width` of the table is by default that
    of most rows.
    """
    if given is not None:
        place = next((place for place, row in enumerate(rows) if row.line == given), None)
        if place is None or not any(cell.strip() for cell in rows[place].cells):
            raise ValueError(f"{where}: {line} {given} is empty, or far below the first: change --header-row.")
        return place
    filled = [place for place, row in enumerate(rows) if row.cells]
    width = width or _width([rows[place].cells for place in filled])
    for i, place in enumerate(filled):
        names = [cell.strip() for cell in rows[place].cells]
        if len(names) == width and 2 * sum(map(bool, names)) > width:
            below = [rows[other].cells for other in filled[i + 1 :]]
            different = all(names[1:]) and len(set(names)) == width and not headless(names)
            if i == 0 or (different and any(map(_is_numeric, zip_longest(*below, fillvalue="")))):
                return place
            break
    return filled[0]


def _is_numeric(column: Sequence[str]) -> bool:
    cells = [cell for cell in map(str.strip, column) if cell not in MISSING_TEXTS]
    return sum(_number(cell) is not None for cell in cells) > _NUMERIC * len(cells)


def titles_in_words(rows: Sequence[Row], place: int, line: str) -> list[str]:
    """What was assumed about titles above the column names, if there are any."""
    titles = (" ".join(filter(None, map(str.strip, row.cells))) for row in rows[:place])
    return [
        f"The column names are in {line} {rows[place].line}; what stands above, {shown(title)}, was left out. --header-row names "
        f"another {line}."
        for title in islice(filter(None, titles), 1)
    ]


def _check_header(path: Path, names: Sequence[str]) -> None:
    if not any(name.strip() for name in names):
        raise ValueError(f"{path} is empty: it needs a line of column names, and rows.")
    if len(names) == 1:
        for other, written in _IN_A_SHELL.items():
            if other in names[0]:
                raise ValueError(f"{path} has one column only, {shown(names[0])}: give --delimiter {written}.")
    if headless([name.replace(",", ".") for name in names]):
        raise ValueError(f"{path} has numbers in its first line: add a line with the names of the columns above it.")


def headless(names: Sequence[str]) -> bool:
    """Whether a row of names is data: it has fractions, or only numbers that do not count 0, 1, 2, ..."""
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    counting = [str(j) for j in range(len(numbers))]
    return not all(map(WHOLE.fullmatch, numbers)) or list(names) == numbers != counting


# Decimal mark


def _number(cell: str) -> str | None:
    """The decimal mark of a trimmed cell, "" if it is a whole number, None if it is no number."""
    if NUMBER.fullmatch(cell.replace(",", ".", 1)):
        return "," if "," in cell else "." if "." in cell else ""
    return next((mark for mark, pattern in _THOUSANDS.items() if pattern.fullmatch(cell)), None)


def _marks_of(name: str, column: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """By decimal mark, the first cells that can only be fractions, and the first that may also be thousands, in words.

    There are none in a column with other text in more than a fifth of its cells.
    """
    filled = [(i, cell) for i, cell in enumerate(map(str.strip, column)) if cell not in MISSING_TEXTS]
    marks = [_number(cell) for _, cell in filled]
    certain: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    if sum(mark is not None for mark in marks) < _NUMERIC * len(marks):
        return certain, doubtful
    for (i, cell), mark in zip(filled, marks, strict=True):
        if mark:
            where = doubtful if _DOUBTFUL.fullmatch(cell) else certain
            where.setdefault(mark, f"{shown(cell)} in data row {i + 1} of column {shown(name)}")
    return certain, doubtful


def _decimal(rows: Sequence[Sequence[str]], names: Sequence[str], delimiter: str, path: Path) -> tuple[str, list[str]]:
    """The decimal mark of a text file, and what was assumed."""
    certain: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    for name, column in zip(names, zip_longest(*rows, fillvalue=""), strict=False):
        marks, doubts = _marks_of(name, column)
        certain, doubtful = (marks if len(marks) == 2 else marks | certain), doubts | doubtful
    if len(certain) == 2:
        if delimiter == ",":
            return ".", []
        raise ValueError(
            f"{path} has decimal commas, {certain[',']}, and decimal points, {certain['.']}: write all numbers alike, or name "
            "the mark with --decimal."
        )
    if not certain and (doubtful if delimiter == ";" else "," in doubtful and delimiter != ","):
        raise ValueError(
            f"{path}: {doubtful.get(',') or doubtful['.']} may have three decimals or a thousands separator: say which mark is "
            "the decimal one by --decimal , or --decimal ."
        )
    if not certain and delimiter == ";":
        return ",", ["No number has decimals; added ones get a decimal comma. --decimal . is for a point."]
    return (",", ["Numbers have a decimal comma; --decimal . says otherwise."]) if "," in certain else (".", [])


_KINDS = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "text", ".parquet": "parquet", ".pq": "parquet"},
    **{".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow", ".xlsx": "excel", ".xlsm": "excel"},
}
_DELIMITERS = {"csv": ",", "tsv": "\t", "text": None}
_FIRST_BYTES = {
    b"PAR1": ("parquet", "a Parquet file", ".parquet"),
    b"ARROW1": ("arrow", "an Arrow file", ".arrow"),
    b"PK\x03\x04": ("excel", "an Excel workbook or a zip archive", ".xlsx"),
    b"\x1f\x8b": ("gzip", "compressed by gzip", ".csv.gz"),
}
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
_HEAD = 2**17  # bytes from which the dialect is found
_BLOCK, _OF_COLUMN = 2**20, 2**12  # bytes parsed at a time, and limit of a row: at least, and of each column
_MOST_ROWS, _HEAD_ROWS = 2**20 + 1, 200  # of a sheet; openpyxl trusts the file
_COMMA = r"^\s*[+-]?([0-9]+,[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?\s*$"  # a number with a decimal comma
_GROUPED = r"^\s*[+-]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]*)?\s*$"  # and with points between thousands
_EXCEPTIONS = 0.05  # most cells of a column of numbers that are kept as text too
_IN_MEMORY = {
    "csv": 2,
    "tsv": 2,
    "text": 2,
    "gzip": 8,
    "parquet": 6,
    "arrow": 3,
    "excel": 12,
}  # times the size of the file


@dataclass(frozen=True)
class Table:
    """A file in memory.

    Attributes
    ----------
    path : Path
    data : pyarrow.Table
        The rows. Numbers of text files are floats if all cells of their column are numbers or empty, and otherwise text
        with a decimal point; other cells are text.
    dialect : Dialect
        How the file is written, and rows that are written again.
    notes : list of str
        What was assumed about the file and is unusual, in sentences; empty for a CSV file in UTF-8 with commas.
    index : list of str
        Columns that pandas stored as an index, or a first column without a name, which are not features.
    digest : str
        SHA-256 of the file, in hexadecimal.
    verbatim : dict
        By column of floats, positions and texts of cells that are written in another way than `as_text` does.
    """

    path: Path
    data: Any
    dialect: Dialect = field(default_factory=Dialect)
    notes: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    digest: str = ""
    verbatim: dict[str, tuple[NDArray[np.intp], Any]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.data.column_names)

    def text(self, name: str, start: int = 0, length: int | None = None) -> Any:
        """The cells of a column as they are in the file, of some rows or all."""
        column = self.data[name].slice(start, length)
        text = _decimal_text(column, self.dialect.decimal) if is_numeric(column.type) else as_text(column)
        if name not in self.verbatim:
            return text
        places, texts = self.verbatim[name]
        first, last = np.searchsorted(places, [start, start + len(text)])
        return _with(text, places[first:last] - start, texts[first:last]) if first < last else text


def _with(text: Any, places: Any, texts: Any) -> Any:
    """Text with other texts at some places."""
    pa, pc = arrow(), arrow(".compute")
    which = np.zeros(len(text), dtype=bool)
    which[places] = True
    return pc.replace_with_mask(text, pa.array(which), texts)


def read(
    path: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    header_row: int | None = None,
    sheet: str | int | None = None,
) -> Table:
    r"""Read a data file, whose format follows from the ending of its name.

    Parameters
    ----------
    path : path
        A text file (``.csv``, ``.tsv``, ``.txt``, also with ``.gz``), Parquet (``.parquet``, ``.pq``), Arrow
        (``.feather``, ``.arrow``, ``.ipc``) or Excel (``.xlsx``).
    encoding : str or None, default=None
        Encoding of a text file. By default UTF-16 if a byte order mark says so, otherwise UTF-8, or if the bytes are
        not UTF-8 cp1252 or latin-1.
    delimiter : str or None, default=None
        Delimiter of a text file. By default the one among comma, semicolon, tab and ``|`` that gives all rows the same
        number of cells.
    decimal : {".", ","} or None, default=None
        Decimal mark of numbers in a text file, or in the text of an Excel sheet. By default the one that the numbers of
        the first rows show.
    header_row : int or None, default=None
        Line of the column names in a text file or row in a sheet, from 1. By default the first one below blank lines
        and titles.
    sheet : str or int or None, default=None
        Sheet of an Excel file: its name or its number from 1, by default the first.

    Returns
    -------
    Table
        All rows.

    Raises
    ------
    OSError
        If the file does not exist or cannot be opened.
    ValueError
        If the file is not a table, or too large for the memory.
    """
    path = Path(path)
    kind = _kind(path)
    for option, value, kinds in (
        ("--encoding", encoding, _DELIMITERS),
        ("--delimiter", delimiter, _DELIMITERS),
        ("--decimal", decimal, (*_DELIMITERS, "excel")),
        ("--header-row", header_row, (*_DELIMITERS, "excel")),
        ("--sheet", sheet, ("excel",)),
    ):
        if value is not None and kind not in kinds:
            raise ValueError(f"{option} has no meaning for {path.name}: leave it out.")
    _check_first_bytes(path, kind)
    _check_size(path, kind)
    with _naming(path):
        if kind in _DELIMITERS:
            table = _text_file(path, _DELIMITERS[kind], encoding, delimiter, decimal, header_row)
        elif kind == "excel":
            table = _sheet(path, sheet, header_row, decimal)
        else:
            table = _typed_file(path, kind)
        with open(path, "rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    arrow().default_memory_pool().release_unused()
    _check_names(table)
    if not table.names[0].strip():
        note = "The first column has no name: it was taken for names of the rows, not for a feature."
        table = replace(table, index=table.names[:1], notes=[*table.notes, note])
    return replace(table, digest=digest)


def _kind(path: Path) -> str:
    """The format of an existing file."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it.")
    if str(path) == "-" or (path.exists() and not path.is_file()):
        name = "standard input" if str(path) == "-" else path
        raise ValueError(f"{name} is not a file: save the data in a file, and name that.")
    if not path.exists():
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        near = get_close_matches(path.name, siblings, 1)
        hint = f"Did you mean {path.parent / near[0]}?" if near else "Check the name and the folder."
        raise FileNotFoundError(f"{path} is not there. {hint}")
    name = path.name.lower()
    kind = _KINDS.get(Path(name.removesuffix(".gz")).suffix)
    if Path(name).suffix == ".xls":
        raise ValueError(f"{path} is in the old Excel format: save it as .xlsx or .csv.")
    if kind is None or (name.endswith(".gz") and kind not in _DELIMITERS):
        raise ValueError(f"{path}: the name should end in {', '.join(_KINDS)}, or .csv.gz: rename or convert the file.")
    return kind


def _check_first_bytes(path: Path, kind: str) -> None:
    """Raise ValueError for an empty file, or one of another format than its name says."""
    with open(path, "rb") as file:
        first = file.read(8)
    if not first:
        raise ValueError(f"{path} is empty.")
    packed = path.suffix.lower() == ".gz"
    for signature, (signed, words, ending) in _FIRST_BYTES.items():
        if first.startswith(signature) and (signed != "gzip" if packed else signed != kind):
            raise ValueError(f"{path} is {words}: if its name should end in {ending}, rename it.")
        if not first.startswith(signature) and signed == ("gzip" if packed else kind) and signed != "arrow":
            old = first.startswith(_OLD_EXCEL)
            advice = "save it without a password as .xlsx" if old else "check what it is, and rename or convert it"
            raise ValueError(f"{path} is not {words}, although its name says so: {advice}.")


def _check_size(path: Path, kind: str) -> None:
    """Raise ValueError for a file that would not fit in memory, as far as the system says how much there is."""
    size = path.stat().st_size * _IN_MEMORY["gzip" if path.suffix.lower() == ".gz" else kind]
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return
    if size > memory:
        raise ValueError(
            f"{path} has {path.stat().st_size / 2**30:.1f} GiB and would need about {size / 2**30:.1f} GiB of memory, where "
            f"there are {memory / 2**30:.1f}: save the columns you need as Parquet, or convert it with marmix.io.to_memmap and "
            "fit in Python."
        )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn errors of pyarrow into ValueErrors of one line that name the file."""
    try:
        yield
    except (arrow().ArrowException, UnicodeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and type(error) is not OSError:
            raise
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} cannot be read: {reason}. Is the file complete?") from None


def _check_names(table: Table) -> None:
    """Raise ValueError for a table without rows, and for missing or repeated column names."""
    names = table.names
    if not names:
        raise ValueError(f"{table.path} has no columns.")
    if not table.data.num_rows:
        raise ValueError(f"{table.path} has column names but no rows.")
    unnamed = [j for j, name in enumerate(names, 1) if not name.strip() and j > 1]
    if unnamed:
        raise ValueError(
            f"{table.path}: column {unnamed[0]} has no name: name every column in the line of column names."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        first, second = [j for j, name in enumerate(names, 1) if name == twice[0]][:2]
        raise ValueError(
            f"{table.path}: columns {first} and {second} are both called {shown(twice[0])}: rename one, or delete it if they are "
            "equal."
        )


def _typed_file(path: Path, kind: str) -> Table:
    pa = arrow()
    with open(path, "rb") as file:  # pyarrow opens no names that are not text in UTF-8
        if kind == "parquet":
            data = arrow(".parquet").ParquetFile(file).read()
        else:
            stream = file.read(6) != b"ARROW1"
            file.seek(0)
            data = (pa.ipc.open_stream if stream else pa.ipc.open_file)(file).read_all()
    data.validate(full=True)
    data = as_table(data)
    stored = (data.schema.pandas_metadata or {}).get("index_columns", [])
    return Table(path, data, index=[name for name in stored if isinstance(name, str)])


# Text files


def _text_file(
    path: Path,
    usual: str | None,
    encoding: str | None,
    delimiter: str | None,
    decimal: str | None,
    header_row: int | None,
) -> Table:
    content = _unpacked(path)
    head = _head(path, content)
    codec, bom = encoding_of(path, head, encoding)
    while True:
        text = codecs.getincrementaldecoder(codec)("replace").decode(head).removeprefix("\ufeff")
        found = sniff(path, text, usual, delimiter, decimal, header_row)
        try:
            if codec != "utf-8":
                content = (path.read_bytes() if content is None else content).decode(codec).encode()
            table = _parsed(path, found, content)
            break
        except UnicodeDecodeError as error:
            wrong: UnicodeDecodeError | None = error
        except arrow().ArrowException:
            wrong = _not_in_utf8(path, content)
            if wrong is None:
                raise
        if encoding is not None or bom or codec != "utf-8":
            other = "cp1252 (Windows), latin-1 or utf-16" if codec == "utf-8" else "utf-8"
            raise ValueError(f"{path} is not text in {codec} ({wrong}): name its encoding, e.g. --encoding {other}.")
        codec, _ = encoding_of(path, path.read_bytes() if content is None else content, None)
    unusual = [encoding_in_words(codec)] if encoding is None and codec != "utf-8" else []
    dialect = replace(found.dialect, encoding=codec, bom=bom)
    return replace(table, dialect=dialect, notes=[*unusual, *found.assumed, *table.notes])


def _unpacked(path: Path) -> bytes | None:
    """The content of a gzipped file, or of one with a name that pyarrow cannot open; None for others."""
    if path.suffix.lower() != ".gz":
        return path.read_bytes() if any("\ud800" <= letter <= "\udfff" for letter in str(path)) else None
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error}): copy or download it again.") from None


def _head(path: Path, content: bytes | None) -> bytes:
    """The first bytes of a file, up to the end of a line."""
    if content is None:
        with open(path, "rb") as file:
            content = file.read(_HEAD + 1)
    head = content[:_HEAD]
    return head[: head.rfind(b"\n") + 1] or head if len(content) > _HEAD else head


def _not_in_utf8(path: Path, content: bytes | None) -> UnicodeDecodeError | None:
    """The error of a text that is not in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open(path, "rb") if content is None else io.BytesIO(content) as file:
        try:
            while part := file.read(_BLOCK):
                decoder.decode(part)
        except UnicodeDecodeError as error:
            return error
    return None


def _batches(path: Path, found: Sniffed, content: bytes | None) -> Iterator[Any]:
    """The rows of a text file in UTF-8 as record batches of text, whose columns are numbered."""
    pa, pacsv, ragged = arrow(), arrow(".csv"), []
    names = [str(j) for j in range(len(found.names))]

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    # with threads, errors do not name the row
    size = max(_BLOCK, _OF_COLUMN * len(names))
    reading = pacsv.ReadOptions(use_threads=False, block_size=size, skip_rows=found.skipped, column_names=names)
    parsing = pacsv.ParseOptions(delimiter=found.dialect.delimiter, newlines_in_values=True, invalid_row_handler=refuse)
    conversion = pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[])
    try:
        with pa.OSFile(str(path)) if content is None else pa.BufferReader(content) as source:
            yield from pacsv.open_csv(source, reading, parsing, conversion)
    except pa.ArrowInvalid:
        if not ragged:
            raise
        row = ragged[0]
        raise ValueError(
            f"{path}: data row {row.number - found.skipped} has {counted(row.actual_columns, 'cell')}, where the header has "
            f"{row.expected_columns}. Add or remove cells, and quote cells that contain the delimiter. Is there a quotation "
            "mark that is not closed? Write quotation marks within a cell twice."
        ) from None


def _parsed(path: Path, found: Sniffed, content: bytes | None) -> Table:
    """The rows of a text file in UTF-8."""
    names = found.names
    columns = [_Column(found.dialect.decimal) for _ in names]
    for batch in _batches(path, found, content):
        for column, cells in zip(columns, batch.columns, strict=True):
            column.add(cells)
    _check_end(path, content, columns[-1].last)
    blank = 0
    while blank < len(names) - 1 and not names[-1 - blank].strip() and columns[-1 - blank].empty:
        blank += 1
    kept = len(names) - blank
    data = arrow().Table.from_arrays([column.array() for column in columns[:kept]], names[:kept])
    verbatim = {name: column.verbatim() for name, column in zip(names[:kept], columns, strict=False)}
    notes = ["Columns at the end without a name and cells were left out."] if blank else []
    verbatim = {name: cells for name, cells in verbatim.items() if len(cells[0])}
    return Table(path, data, found.dialect, notes, verbatim=verbatim)


def text_batches(path: Path) -> Iterator[Any]:
    """The rows of a large text file in UTF-8, as record batches of text with a decimal point in its numbers."""
    kind = _kind(path)
    _check_first_bytes(path, kind)
    content = _unpacked(path)
    with _naming(path):
        text = codecs.getincrementaldecoder("utf-8")().decode(_head(path, content)).removeprefix("\ufeff")
        found = sniff(path, text, _DELIMITERS[kind])
        for batch in _batches(path, found, content):
            columns = [_with_point(column) if found.dialect.decimal == "," else column for column in batch.columns]
            yield arrow().RecordBatch.from_arrays(columns, found.names)


def _check_end(path: Path, content: bytes | None, cell: str) -> None:
    """Raise ValueError if the last cell goes on over lines to the end of the file, without a quotation mark there."""
    if "\n" not in cell and "\r" not in cell:
        return
    if content is None:
        with open(path, "rb") as file:
            file.seek(-min(100, path.stat().st_size), os.SEEK_END)
            content = file.read()
    if not content.rstrip(b"\r\n ").endswith(b'"'):
        raise ValueError(
            f"{path} has a quotation mark that is not closed: see the last cell, which begins with {shown(cell)}. Write "
            "quotation marks within a cell twice."
        )


class _Column:
    """The cells of a column of text, as numbers as long as they can be written back as they were."""

    def __init__(self, decimal: str):
        self._decimal = decimal
        self._chunks: list[Any] = []
        self._verbatim: list[tuple[NDArray[np.intp], Any]] = []
        self._rows, self._numeric, self.empty, self.last = 0, True, True, ""

    def add(self, cells: Any) -> None:
        """Add the cells of the next rows."""
        numbers = _round_trip(cells, self._decimal) if self._numeric else None
        if self._numeric and numbers is None:  # the cells so far as text again
            start = 0
            for i, ((places, texts), chunk) in enumerate(zip(self._verbatim, self._chunks, strict=True)):
                text = _decimal_text(chunk, self._decimal)
                self._chunks[i] = _with(text, places - start, texts) if len(places) else text
                start += len(chunk)
            self._numeric = False
        self.last = cells[-1].as_py() if len(cells) else self.last
        self.empty = self.empty and arrow(".compute").all(arrow(".compute").equal(cells, "")).as_py() is not False
        if numbers is not None:
            self._verbatim.append((numbers[1] + self._rows, numbers[2]))
        self._chunks.append(cells if numbers is None else numbers[0])
        self._rows += len(cells)

    def array(self) -> Any:
        """All cells: floats, or text with a decimal point in its numbers."""
        pa = arrow()
        if not self._numeric:
            self._verbatim = []
            if self._decimal == ",":
                text = plain(pa.chunked_array(self._chunks, pa.string()))
                pointed = _with_point(text)
                places = np.flatnonzero(mask(arrow(".compute").not_equal(text, pointed)))
                self._verbatim, self._chunks = [(places, text.take(pa.array(places)))], [pointed]
        chunks, self._chunks = self._chunks, []
        return pa.concat_arrays([plain(chunk) for chunk in chunks]) if chunks else pa.array([], pa.string())

    def verbatim(self) -> tuple[NDArray[np.intp], Any]:
        """Positions and texts of the cells that are written in another way than `as_text` does."""
        places = [places for places, _ in self._verbatim]
        texts = [plain(text) for _, text in self._verbatim]
        if not places:
            return np.empty(0, np.intp), None
        return np.concatenate(places), arrow().concat_arrays(texts)


def _decimal_text(numbers: Any, decimal: str) -> Any:
    """Numbers as text, with this decimal mark."""
    text = as_text(numbers)
    return text if decimal == "." else arrow(".compute").replace_substring(text, ".", decimal)


def _round_trip(cells: Any, decimal: str) -> tuple[Any, NDArray[np.intp], Any] | None:
    """Text as floats, null where missing, with the places and texts of cells that `_decimal_text` writes differently.

    None if some cells are no numbers, or many would be written differently.
    """
    pa, pc = arrow(), arrow(".compute")
    text = pc.utf8_trim_whitespace(cells)
    text = pc.if_else(pa.array(missing_cells(text)), None, text)
    if decimal == ",":
        if pc.any(pc.match_substring(text, ".")).as_py():
            return None
        text = pc.replace_substring(text, ",", ".")
    try:
        numbers = text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    if pc.all(pc.is_finite(numbers)).as_py() is False:
        return None
    differs = np.flatnonzero(mask(pc.not_equal(_decimal_text(numbers, decimal), cells)))
    if len(differs) > _EXCEPTIONS * len(cells) + 1:
        return None
    return numbers, differs, cells.take(pa.array(differs))


# Excel


def _sheet(path: Path, sheet: str | int | None, header_row: int | None, decimal: str | None) -> Table:
    """The chosen or the first sheet; each column has the type of its cells, or is text if they have several."""
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise ImportError("marmix reads Excel files with openpyxl: pip install 'marmix[cli]'") from None
    with open(path, "rb") as file, warnings.catch_warnings(), redirect_stdout(None):
        warnings.simplefilter("ignore")  # openpyxl warns about unknown styles, and prints
        with _damage(path):
            book = load_workbook(file, read_only=True, data_only=True)
            pages = {page.title: page for page in book.worksheets}
        title = _title(path, list(pages), sheet)
        with _damage(path):
            pages[title].reset_dimensions()  # the file may state them wrongly
            cells = zip(range(1, _MOST_ROWS), pages[title].iter_rows(values_only=True), strict=False)
            rows = [(i, list(row)) for i, row in cells if any(cell is not None for cell in row)]
            book.close()
    others = listed([other for other in pages if other != title])
    notes = (
        [f"The sheet {shown(title)} was read, not {others}; --sheet names another."] if sheet is None and others else []
    )
    if not rows:
        raise ValueError(f"{path}: sheet {shown(title)} is empty. Choose another with --sheet.")
    ends = [max(j for j, cell in enumerate(cells, 1) if cell is not None) for _, cells in rows]
    blank = min(next(j for j, cell in enumerate(cells) if cell is not None) for _, cells in rows)
    texts = [Row(i, _texts(cells[blank:end])) for (i, cells), end in zip(rows[:_HEAD_ROWS], ends, strict=False)]
    place = header_place(
        texts, header_row, f"{path}: sheet {shown(title)}", "row", max(len(row.cells) for row in texts)
    )
    if header_row is None:
        notes += titles_in_words(texts, place, "row")
    names = list(texts[place].cells)
    body = [cells[blank : blank + len(names)] for _, cells in rows[place + 1 :]]
    if not body and others:
        raise ValueError(f"{path}: sheet {shown(title)} has no rows. Choose another with --sheet: {others}.")
    width = blank + len(names)
    long = next((i for i, end in enumerate(ends[place + 1 :], 1) if end > width), 0)
    if long:
        raise ValueError(
            f"{path}: data row {long} has {counted(ends[place + long], 'cell')}, where the row of names has "
            f"{counted(len(names), 'name')} from column {blank + 1} on. Name every column, or choose the row by --header-row."
        )
    columns = list(zip_longest(*body, [None] * len(names)))  # with a blank row, as rows may end early
    arrays = [_array(column[:-1]) for column in columns]
    arrays = [_with_point(array) for array in arrays] if decimal == "," else arrays
    return Table(path, arrow().Table.from_arrays(arrays, names), notes=notes)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Turn errors of openpyxl into ValueErrors; a damaged file can raise anything."""
    try:
        yield
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ValueError(
            f"{path} cannot be read as an Excel workbook ({reason}). Open it in Excel and save it again, or save it as CSV."
        ) from None


def _title(path: Path, titles: list[str], sheet: str | int | None) -> str:
    """The title of the sheet with this title or number, by default of the first."""
    text = str(sheet)
    if not titles:
        raise ValueError(f"{path} has no sheet with cells.")
    if sheet is None:
        return titles[0]
    if text not in titles and text.isascii() and text.isdecimal() and 0 < int(text) <= len(titles):
        return titles[int(text) - 1]
    if text not in titles:
        raise ValueError(f"{path} has no sheet {shown(text)}: its sheets are {listed(titles)}.")
    return text


def _array(values: Sequence[Any]) -> Any:
    """Cells of a column as an array of their type, or of text if they have several; moments at midnight are days."""
    pa, pc = arrow(), arrow(".compute")
    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array(_texts(values), pa.string())
    if pa.types.is_timestamp(array.type):
        days = array.cast(pa.date32(), safe=False)
        return days if pc.all(pc.equal(days.cast(array.type), array)).as_py() else array
    return array


def _texts(values: Sequence[Any]) -> list[str]:
    """Cells of any types as text, each as in a column of its type."""
    return [
        "" if value is None else value if isinstance(value, str) else as_text(_array([value]))[0].as_py()
        for value in values
    ]


def _with_point(array: Any) -> Any:
    """A column of text with a decimal point, and without points between thousands, in its numbers with decimal commas."""
    pa, pc = arrow(), arrow(".compute")
    if array.type != pa.string():
        return array
    grouped = matching(array, _GROUPED)
    bare = pc.replace_substring(array, ".", "") if grouped.any() else array
    return pc.if_else(pa.array(grouped | matching(array, _COMMA)), pc.replace_substring(bare, ",", "."), array)
