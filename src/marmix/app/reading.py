"""Data files: read once into Arrow tables in memory, and their rows written again as they were, with added columns."""

import codecs
import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.app.annotations import read_tasks
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
    shown,
)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_KINDS = {
    **{".csv": "text", ".tsv": "text", ".tab": "text", ".txt": "text", ".parquet": "parquet", ".pq": "parquet"},
    **{".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow", ".xlsx": "excel", ".xlsm": "excel"},
    **dict.fromkeys((".json", ".jsonl"), "json"),
}
_USUAL = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_IN_MEMORY = {"text": 2, "gzip": 8, "parquet": 6, "arrow": 3, "excel": 12, "json": 8}  # times the size of the file
_OPTIONS = {"text": ("encoding", "delimiter", "decimal", "header_row"), "excel": ("decimal", "header_row", "sheet")}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HEAD, _ROWS = 2**17, 200  # characters and rows in which the dialect and the column names are looked for
_BLOCK, _OF_COLUMN = 2**20, 2**12  # bytes parsed at a time: at least, and for each column
_NUMERIC = 0.8  # share of numbers from which a column says how numbers are written
_EXCEPTIONS = 0.05  # most cells of a column of numbers that are kept as text too
_COMMA = r"^\s*[+-]?([0-9]+,[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?\s*$"  # a number with a decimal comma
_GROUPED = r"^\s*[+-]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]*)?\s*$"  # and with points between thousands
_DOUBTFUL = {mark: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}\{mark}[0-9]{{3}}") for mark in ",."}  # a fraction or a thousand
_DECIMAL = {
    mark: re.compile(
        rf"[+-]?([0-9]*|[0-9]{{1,3}}(\{other}[0-9]{{3}})+)\{mark}[0-9]*([eE][+-]?[0-9]+)?|"
        rf"[+-]?[0-9]{{1,3}}(\{other}[0-9]{{3}}){{2,}}"
    )
    for mark, other in (",.", ".,")
}


@dataclass(frozen=True)
class Dialect:
    r"""How a text file is written, and how rows that were read from it are written again.

    Attributes
    ----------
    encoding : str
        With a byte order mark in "utf-8-sig" and "utf-16".
    delimiter : str
    decimal : {".", ","}
        Decimal mark.
    header_row : int
        Line of the column names, from 1.
    newline : {"\n", "\r\n"}
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    decimal: str = "."
    header_row: int = 1
    newline: str = "\n"


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
        Columns that are not features: an index of pandas, a first column without a name, answers of annotators.
    digest : str
        SHA-256 of the file, in hexadecimal.
    verbatim : dict
        By column, positions and texts of cells that are written in another way than `as_text` does.
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
        text = _as_written(self.data[name].slice(start, length), self.dialect.decimal)
        places, texts = self.verbatim.get(name, (np.empty(0, np.intp), None))
        first, last = np.searchsorted(places, [start, start + len(text)])
        return _with(text, places[first:last] - start, texts[first:last]) if first < last else text


def _as_written(column: Any, decimal: str) -> Any:
    """A column as text, with this decimal mark in numbers."""
    text = as_text(column)
    numeric = decimal == "," and is_numeric(column.type)
    return arrow(".compute").replace_substring(text, ".", ",") if numeric else text


def _with(text: Any, places: NDArray[np.intp], texts: Any) -> Any:
    """Text with other texts at some places."""
    which = np.zeros(len(text), dtype=bool)
    which[places] = True
    return arrow(".compute").replace_with_mask(text, arrow().array(which), texts)


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
        (``.feather``, ``.arrow``, ``.ipc``), Excel (``.xlsx``), or an export of Label Studio or Prodigy (``.json``,
        ``.jsonl``).
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
    given = {"encoding": encoding, "delimiter": delimiter, "decimal": decimal, "header_row": header_row, "sheet": sheet}
    for option, value in given.items():
        if value is not None and option not in _OPTIONS.get(kind, ()):
            raise ValueError(f"--{option.replace('_', '-')} has no meaning for {path.name}: leave it out.")
    _check_size(path, kind)
    with _naming(path):
        if kind == "text":
            table = _text_file(path, encoding, delimiter, decimal, header_row)
        else:
            data = path.read_bytes()
            if kind == "excel":
                table = _sheet(path, data, sheet, header_row, decimal)
            else:
                table = _tasks(path, data) if kind == "json" else _typed_file(path, data, kind)
            table = replace(table, digest=sha256(data).hexdigest())
            del data
    arrow().default_memory_pool().release_unused()
    names = table.names
    if not names or not table.data.num_rows:
        raise ValueError(f"{path} has {'column names but no rows' if names else 'no columns'}.")
    for j, name in enumerate(names):
        if j and not name.strip():
            raise ValueError(f"{path}: column {j + 1} has no name: name every column in the line of column names.")
        if names.index(name) < j:
            both = f"columns {names.index(name) + 1} and {j + 1} are both called {shown(name)}"
            raise ValueError(f"{path}: {both}: rename one, or delete it if they are equal.")
    if not names[0].strip():
        note = "The first column has no name: it was taken for names of the rows, not for a feature."
        table = replace(table, index=names[:1], notes=[*table.notes, note])
    return table


def joined(table: Table, other: Table, id: str | None) -> Table:
    """A table with the columns of another one, whose rows are found by an id that both have."""
    if id is None or id not in table.names or id not in other.names:
        raise ValueError(f"--join: name the column that {table.path.name} and {other.path.name} share by --id.")
    places = {key: i for i, key in enumerate(other.text(id).to_pylist())}
    if len(places) < other.data.num_rows:
        raise ValueError(f"--join: {other.path} has several rows with the same {shown(id)}.")
    index = arrow().array([places.get(key) for key in table.text(id).to_pylist()], arrow().int64())
    notes = [*table.notes, *other.notes]
    if index.null_count:
        notes.append(f"{other.path.name} has no row for {counted(index.null_count, 'row')}.")
    data = table.data
    for name in other.names:
        if name not in table.names:
            data = data.append_column(name, other.data[name].take(index))
        elif name != id:
            notes.append(f"Column {shown(name)} of {other.path.name} was left out, as {table.path.name} has one.")
    return replace(table, data=data, notes=notes)


def _kind(path: Path) -> str:
    """The format of an existing file."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it.")
    if not path.exists():
        near = get_close_matches(path.name, os.listdir(path.parent) if path.parent.is_dir() else [], 1)
        hint = f"Did you mean {path.parent / near[0]}?" if near else "Check the name and the folder."
        raise FileNotFoundError(f"{path} is not there. {hint}")
    if not path.is_file():
        raise ValueError(f"{path} is not a file: save the data in a file, and name that.")
    kind = _KINDS.get(_ending(path))
    if kind is None or (kind != "text" and path.suffix.lower() == ".gz"):
        raise ValueError(f"{path}: the name should end in {', '.join(_KINDS)}, or .csv.gz: rename or convert the file.")
    return kind


def _ending(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


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
def _naming(path: Path, any_error: bool = False) -> Iterator[None]:
    """Turn errors of the libraries that read files into ValueErrors of one line that name the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not text in {error.encoding} ({error}): name its encoding, such as --encoding cp1252."
        ) from None
    except Exception as error:
        if isinstance(error, PermissionError) or not (
            any_error or isinstance(error, (arrow().ArrowException, EOFError, OSError, zlib.error))
        ):
            raise
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{path} cannot be read ({reason}): is it complete, and of the kind that its name says?"
        ) from None


def _tasks(path: Path, data: bytes) -> Table:
    columns, answers = read_tasks(path, data)
    return Table(path, arrow().table({name: _array(cells) for name, cells in columns.items()}), index=answers)


def _typed_file(path: Path, data: bytes, kind: str) -> Table:
    pa, buffer = arrow(), arrow().BufferReader(data)
    if kind == "parquet":
        table = arrow(".parquet").ParquetFile(buffer).read()
    else:
        table = (pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream)(buffer).read_all()
    table.validate(full=True)
    table = as_table(table)
    stored = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return Table(path, table, index=[name for name in stored if isinstance(name, str)])


# How a text file is written


class _Hashed(io.FileIO):
    """A file that is hashed as it is read."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.hash = sha256()

    def read(self, size: int | None = -1) -> bytes:
        part = super().read(size) or b""
        self.hash.update(part)
        return part


class TextFile(io.RawIOBase):
    """The bytes of a text file, read once: on the way they are hashed, and decoded to see that they are text.

    Attributes
    ----------
    codec : str
        The given encoding, or that of a byte order mark, or the usual one; UnicodeDecodeError if bytes do not fit.
    head : str
        The first lines.
    quotes : int
        Quotation marks so far.
    """

    def __init__(self, path: Path, given: str | None, usual: str = "utf-8"):
        self._path, self._file, self.head, self.quotes = path, _Hashed(path), "", 0
        self._bytes: Any = gzip.GzipFile(fileobj=self._file) if path.suffix.lower() == ".gz" else self._file
        self._first = self._bytes.read(_HEAD)
        self.codec = given or next((name for mark, name in _MARKS.items() if self._first.startswith(mark)), usual)
        try:
            "".encode(self.codec)
        except LookupError:
            raise ValueError(f"there is no encoding {shown(given)}: try utf-8, cp1252, latin-1 or utf-16.") from None
        self._decode = codecs.getincrementaldecoder(self.codec)().decode
        self.head = self._decoded(self._first)
        if len(self._first) == _HEAD:
            self.head = self.head[: self.head.rfind("\n") + 1] or self.head

    @property
    def digest(self) -> str:
        """SHA-256 of the file up to here, in hexadecimal."""
        return self._file.hash.hexdigest()

    def readable(self) -> bool:
        """True, as pyarrow asks."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most so many of the next bytes."""
        part, self._first = self._first[:size], self._first[size:]
        if not part:
            part = self._bytes.read(size)
            self._decoded(part)
        return part

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _decoded(self, part: bytes) -> str:
        text: str = self._decode(part)
        if "\0" in text:
            what = "it has NUL bytes. If it is UTF-16, give --encoding utf-16"
            raise ValueError(f"{self._path} is not plain text: {what}; otherwise name it after what it is.")
        self.quotes += text.count('"')
        return text


class Row(NamedTuple):
    """A row of a text file or sheet, with the number of its last line."""

    line: int
    cells: Sequence[str]


def sniffed(
    path: Path,
    file: TextFile,
    encoding: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    header_row: int | None = None,
) -> tuple[Dialect, list[str], list[str]]:
    """How a text file is written, judged by its first rows, its column names, and what was assumed."""
    codec, text = file.codec, file.head
    notes, usual = [], _USUAL.get(_ending(path))
    if encoding is None and codec == "utf-16":
        notes.append("The file is in UTF-16.")
    elif encoding is None and not codec.startswith("utf-8"):
        notes.append(
            f"The file is not in UTF-8 and was read as {codec} (Western European); --encoding names another one."
        )
    mark = _delimiter(text, usual) if delimiter is None else {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if mark is None:
        raise ValueError(f"the delimiter of {path} is not known: give --delimiter.")
    if len(mark) != 1 or not mark.isascii() or mark in '"\r\n':
        raise ValueError(f"delimiter {shown(delimiter)} is not one character such as ',' or ';', nor tab.")
    if delimiter is None and mark != usual:
        notes.append(f"Columns are separated by {DELIMITERS[mark]}; --delimiter names another mark.")
    rows = list(_rows(text, mark))
    if not any(cell.strip() for row in rows for cell in row.cells):
        raise ValueError(f"{path} is empty: it needs a line of column names, and rows.")
    place = header_place(rows[:_ROWS], header_row, str(path), "line", _width([row.cells for row in rows[:_ROWS]]))
    header = rows[place]
    if header_row is None:
        notes += titles_in_words(rows, place, "line")
    if _headless([name.replace(",", ".") for name in header.cells]):
        raise ValueError(f"{path} has numbers in its first line: add a line with the names of the columns above it.")
    body = [row.cells for row in rows[place + 1 :] if row.cells]
    if decimal is None:
        decimal, more = _decimal(list(zip_longest(*body, fillvalue="")), mark, path)
        notes += more
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    return Dialect(codec, mark, decimal, header.line, newline), list(header.cells), notes


def _rows(text: str, delimiter: str) -> Iterator[Row]:
    """Rows of a text, also empty ones, up to one that cannot be parsed."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    with suppress(csv.Error):
        yield from (Row(reader.line_num, cells) for cells in reader)


def _delimiter(text: str, usual: str | None) -> str | None:
    """The delimiter that gives most rows the same number of cells, and cells without other delimiters; else the usual one."""
    scores = {}
    for mark in DELIMITERS:
        rows = [row.cells for row, _ in zip(_rows(text, mark), range(_ROWS), strict=False) if row.cells]
        width = _width(rows)
        if width > 1:
            cells = [cell for row in rows for cell in row]
            free = [not any(other in cell.replace(", ", " ") for other in DELIMITERS) for cell in cells]
            simple = [one or _mark(cell) is not None for one, cell in zip(free, cells, strict=True)]
            scores[mark] = (np.mean([len(row) == width for row in rows]), np.mean(simple), mark == usual)
    return max(scores, key=lambda mark: scores[mark], default=usual)


def _width(rows: Sequence[Sequence[str]]) -> int:
    """The most frequent number of cells of the later rows, above one if there is such a row; the largest of several."""
    widths = Counter(len(cells) for cells in rows[len(rows) // 2 :] if cells)
    return max(widths, key=lambda width: (width > 1, widths[width], width), default=0)


def header_place(rows: Sequence[Row], given: int | None, where: str, line: str, width: int) -> int:
    """Index of the row of column names: that in the given line, or the first that is no title.

    Titles have another number of cells than the `width` of the table, or at most half of their cells are filled. Rows are
    left out as titles only if the next one has a different name for every column, none of them a number.
    """
    if given is not None:
        place = next((place for place, row in enumerate(rows) if row.line == given), None)
        if place is None or not any(cell.strip() for cell in rows[place].cells):
            raise ValueError(f"{where}: {line} {given} is empty, or far below the first: change --header-row.")
        return place
    filled = [place for place, row in enumerate(rows) if row.cells]
    for place in filled:
        names = [cell.strip() for cell in rows[place].cells]
        if len(names) == width and 2 * sum(map(bool, names)) > width:
            named = all(names[1:]) and len(set(names)) == width and not any(map(NUMBER.fullmatch, names))
            return place if named else filled[0]
    return filled[0]


def titles_in_words(rows: Sequence[Row], place: int, line: str) -> list[str]:
    """What was assumed about titles above the column names, if there are any."""
    titles = [" ".join(filter(None, map(str.strip, row.cells))) for row in rows[:place]]
    title = next(filter(None, titles), "")
    found = f"The column names are in {line} {rows[place].line}; what stands above, {shown(title)}, was left out."
    return [f"{found} --header-row names another {line}."] if title else []


def _headless(names: Sequence[str]) -> bool:
    """Whether a row of names is data: it has fractions, or only numbers that do not count 0, 1, 2, ..."""
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    counting = [str(j) for j in range(len(numbers))]
    return not all(map(WHOLE.fullmatch, numbers)) or list(names) == numbers != counting


def _mark(cell: str) -> str | None:
    """The decimal mark of a number, "?" before it if it may separate thousands; "" if it is whole, None if it is no number."""
    cell = cell.strip()
    doubtful = next((f"?{mark}" for mark, pattern in _DOUBTFUL.items() if pattern.fullmatch(cell)), None)
    certain = next((mark for mark, pattern in _DECIMAL.items() if pattern.fullmatch(cell) and cell not in ",."), None)
    return doubtful or certain or ("" if NUMBER.fullmatch(cell) else None)


def _decimal(columns: Sequence[Sequence[str]], delimiter: str, path: Path) -> tuple[str, list[str]]:
    """The decimal mark of a text file, and what was assumed; columns of other text do not count."""
    cells: dict[str | None, str] = {}
    for column in columns:
        filled = [cell for cell in column if cell.strip() not in MISSING_TEXTS]
        marks = list(map(_mark, filled))
        if sum(mark is not None for mark in marks) >= _NUMERIC * len(marks):
            cells = dict(zip(reversed(marks), reversed(filled), strict=True)) | cells
    if "," in cells and "." in cells and delimiter != ",":
        both = f"decimal commas, {shown(cells[','])}, and decimal points, {shown(cells['.'])}"
        raise ValueError(f"{path} has {both}: write all numbers alike, or name the mark with --decimal.")
    if "," in cells and "." not in cells:
        return ",", ["Numbers have a decimal comma; --decimal . says otherwise."]
    doubt = "?," if "?," in cells and delimiter != "," else "?." if delimiter == ";" else None
    if "." not in cells and doubt in cells:
        raise ValueError(
            f"{path}: {shown(cells[doubt])} may have three decimals or a thousands separator: say which mark is the decimal one "
            "by --decimal , or --decimal ."
        )
    if "." not in cells and delimiter == ";":
        return ",", ["No number has decimals; added ones get a decimal comma. --decimal . is for a point."]
    return ".", []


# Text files


def _batches(path: Path, file: TextFile, dialect: Dialect, width: int) -> Iterator[Any]:
    """The rows of a text file of so many columns as record batches of text, whose columns are numbered."""
    pa, pacsv, ragged, names = arrow(), arrow(".csv"), [], list(map(str, range(width)))

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    reading = pacsv.ReadOptions(
        use_threads=False,  # with threads, errors do not name the row
        block_size=max(_BLOCK, _OF_COLUMN * len(names)),
        skip_rows=dialect.header_row,
        column_names=names,
        encoding=dialect.encoding.removesuffix("-sig"),
    )
    parsing = pacsv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=refuse)
    conversion = pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[])
    try:
        yield from pacsv.open_csv(file, reading, parsing, conversion)
    except pa.ArrowInvalid:
        if not ragged:
            raise
        row = ragged[0]
        raise ValueError(
            f"{path}: data row {row.number - dialect.header_row} has {counted(row.actual_columns, 'cell')}, where the "
            f"header has {row.expected_columns}. Quote cells that contain the delimiter. Is there a quotation mark that is not "
            "closed? Write quotation marks within a cell twice."
        ) from None


def text_batches(path: Path) -> Iterator[Any]:
    """The rows of a large text file in UTF-8 as record batches of text with a decimal point in its numbers."""
    if _kind(path) != "text":
        raise ValueError(f"{path} is not a text file: read it in parts, and give these.")
    with _naming(path), TextFile(path, None) as file:
        dialect, names, _ = sniffed(path, file)
        for batch in _batches(path, file, dialect, len(names)):
            columns = [_with_point(column) if dialect.decimal == "," else column for column in batch.columns]
            yield arrow().RecordBatch.from_arrays(columns, names)


class _Block(NamedTuple):
    """Some cells of a column: as floats, with places and texts of those that are written differently, or as text."""

    cells: Any
    places: NDArray[np.intp] = np.empty(0, np.intp)
    texts: Any = None

    def text(self, decimal: str) -> Any:
        """The cells as they were."""
        text = _as_written(self.cells, decimal)
        return _with(text, self.places, self.texts) if len(self.places) else text


def _text_file(path: Path, encoding: str | None, *given: Any) -> Table:
    """All rows of a text file, which is read again only if a later part shows that its encoding is another one."""
    wrong: Exception
    for usual in ("utf-8", "cp1252", "latin-1"):
        try:
            with TextFile(path, encoding, usual) as file:
                return _parsed(path, file, *sniffed(path, file, encoding, *given))
        except UnicodeDecodeError as error:
            wrong = error
    raise wrong


def _parsed(path: Path, file: TextFile, dialect: Dialect, names: list[str], notes: list[str]) -> Table:
    decimal, width = dialect.decimal, len(names)
    columns: list[list[_Block]] = [[] for _ in names]
    filled, last = np.zeros(len(names), dtype=bool), ""
    for batch in _batches(path, file, dialect, width):
        for j, cells in enumerate(batch.columns):
            numeric = all(is_numeric(block.cells.type) for block in columns[j][-1:])
            columns[j].append((_round_trip(cells, decimal) if numeric else None) or _Block(cells))
            filled[j] |= arrow(".compute").any(arrow(".compute").not_equal(cells, "")).as_py() is True
        last = batch.columns[-1][-1].as_py()
    if "\n" in last and file.quotes % 2:
        raise ValueError(
            f"{path} has a quotation mark that is not closed: see the last cell, which begins with {shown(last)}. Write "
            "quotation marks within a cell twice."
        )
    while len(names) > 1 and not names[-1].strip() and not filled[len(names) - 1]:
        names = names[:-1]
    if len(names) < width:
        notes.append("Columns at the end without a name and cells were left out.")
    arrays, verbatim = [], {}
    for name, blocks in zip(names, columns, strict=False):
        array, places, texts = _joined(blocks, decimal)
        blocks.clear()
        arrays.append(array)
        if len(places):
            verbatim[name] = places, texts
    return Table(path, arrow().Table.from_arrays(arrays, names), dialect, notes, digest=file.digest, verbatim=verbatim)


def _joined(blocks: list[_Block], decimal: str) -> _Block:
    """A whole column: floats, or text with a decimal point in its numbers."""
    pa = arrow()
    if not blocks:
        return _Block(pa.array([], pa.string()))
    if is_numeric(blocks[-1].cells.type):
        starts = np.cumsum([0, *(len(block.cells) for block in blocks)])
        odd = np.concatenate([start + block.places for start, block in zip(starts, blocks, strict=False)])
        texts = [block.texts for block in blocks if block.texts is not None]
        numbers = pa.concat_arrays([block.cells for block in blocks])
        return _Block(numbers, odd, pa.concat_arrays(texts) if texts else None)
    text = pa.concat_arrays([block.text(decimal) for block in blocks])
    if decimal != ",":
        return _Block(text)
    pointed = _with_point(text)
    places = np.flatnonzero(mask(arrow(".compute").not_equal(text, pointed)))
    return _Block(pointed, places, text.take(pa.array(places)))


def _round_trip(cells: Any, decimal: str) -> _Block | None:
    """Text as floats, null where missing; None if some cells are no numbers, or many would be written differently."""
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
    places = np.flatnonzero(mask(pc.not_equal(_as_written(numbers, decimal), cells)))
    return (
        _Block(numbers, places, cells.take(pa.array(places))) if len(places) <= _EXCEPTIONS * len(cells) + 1 else None
    )


def _with_point(array: Any) -> Any:
    """A column of text with a decimal point, and without points between thousands, in its numbers with decimal commas."""
    pa, pc = arrow(), arrow(".compute")
    if array.type != pa.string():
        return array
    grouped = matching(array, _GROUPED)
    bare = pc.replace_substring(array, ".", "") if grouped.any() else array
    return pc.if_else(pa.array(grouped | matching(array, _COMMA)), pc.replace_substring(bare, ",", "."), array)


# Excel


def _sheet(path: Path, data: bytes, sheet: str | int | None, header_row: int | None, decimal: str | None) -> Table:
    """The chosen or the first sheet; each column has the type of its cells, or is text if they have several."""
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise ImportError("marmix reads Excel files with openpyxl: pip install 'marmix[cli]'") from None
    with warnings.catch_warnings(), redirect_stdout(None):
        warnings.simplefilter("ignore")  # openpyxl warns about unknown styles, and prints
        with _naming(path, any_error=True):
            pages = {
                page.title: page for page in load_workbook(io.BytesIO(data), read_only=True, data_only=True).worksheets
            }
        title = _title(path, list(pages), sheet)
        with _naming(path, any_error=True):
            pages[title].reset_dimensions()  # the file may state them wrongly
            grid = [list(row) for row in pages[title].iter_rows(values_only=True)]
    others = listed([other for other in pages if other != title])
    notes = (
        [f"The sheet {shown(title)} was read, not {others}; --sheet names another."] if sheet is None and others else []
    )
    rows = {i: row for i, row in enumerate(grid, 1) if any(cell is not None for cell in row)}
    start = min((next(j for j, cell in enumerate(row) if cell is not None) for row in rows.values()), default=0)
    head = [Row(i, _texts(row[start:])) for i, row in list(rows.items())[:_ROWS]]
    if len(rows) < 2:
        more = f" Choose another with --sheet: {others}." if others else ""
        raise ValueError(f"{path}: sheet {shown(title)} has no rows.{more}")
    width = max(len(row.cells) for row in head)
    place = header_place(head, header_row, f"{path}: sheet {shown(title)}", "row", width)
    if header_row is None:
        notes += titles_in_words(head, place, "row")
    body = [row[start:] for row in list(rows.values())[place + 1 :]]
    columns = list(zip_longest(head[place].cells, *body))
    while columns and not any(columns[-1]):
        columns.pop()
    names = [column[0] or "" for column in columns]
    arrays = [_array(column[1:]) for column in columns]
    arrays = [_with_point(array) for array in arrays] if decimal == "," else arrays
    return Table(path, arrow().Table.from_arrays(arrays, names), notes=notes)


def _title(path: Path, titles: list[str], sheet: str | int | None) -> str:
    """The title of the sheet with this title or number, by default of the first."""
    text = str(sheet)
    if sheet is not None and text not in titles and not (text.isdecimal() and 0 < int(text) <= len(titles)):
        raise ValueError(f"{path} has no sheet {shown(text)}: its sheets are {listed(titles)}.")
    return text if text in titles else titles[0 if sheet is None else int(text) - 1]


def _array(values: Sequence[Any]) -> Any:
    """Cells of a column as an array of their type, or of text if they have several; moments at midnight are days."""
    pa, pc = arrow(), arrow(".compute")
    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([*_texts(values), *[""] * len(values)][: len(values)], pa.string())
    if pa.types.is_timestamp(array.type):
        days = array.cast(pa.date32(), safe=False)
        return days if pc.all(pc.equal(days.cast(array.type), array)).as_py() else array
    return array


def _texts(values: Sequence[Any]) -> list[str]:
    """Cells of any types as text, each as in a column of its type, without empty ones at the end."""
    texts = [value if isinstance(value, str) else as_text(_array([value]))[0].as_py() for value in values]
    return texts[: max((j for j, text in enumerate(texts, 1) if text), default=0)]


# Rows that are written

_ADDED_ROWS, _DIGITS = 2**14, 6  # rows written at a time, and significant digits of added numbers
_FORMULA = (  # with all forms of the signs
    r"^([\t\r\n]|[\s\pZ\pC]*[=+\-@"
    "\u207a\u207b\u207c\u208a\u208b\u208c\u2212\u2a75\u2a76\ufb29\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
    "])"
)
_HARMLESS = (
    "^[ \u00a0]*[+\u2212-]([0-9]*[{0}]?[0-9]*([eE][+-]?[0-9]+)?)[ \u00a0]*$"  # a number with a sign, or the sign alone
)


def write_rows(
    file: str | os.PathLike[str] | BinaryIO,
    table: Table,
    added: Mapping[str, NDArray[Any]],
    *,
    escape_formulas: bool = False,
) -> int:
    """Write the rows of a table with added columns as CSV, in its dialect.

    Cells of text files are written as they were read, typed ones as text. Added numbers have six significant digits, and
    are empty if NaN. Cells are quoted only if necessary.

    Parameters
    ----------
    file : path or binary file
        A file, such as ``sys.stdout.buffer``, is left open.
    table : Table
        The rows.
    added : mapping
        Columns to add, with new names.
    escape_formulas : bool, default=False
        Whether to put an apostrophe before cells and names that a spreadsheet would run as a formula.

    Returns
    -------
    int
        Number of cells and names that a spreadsheet would run, if not escaped.

    Raises
    ------
    ValueError
        If a name is repeated, or a cell cannot be written in the encoding of the table.
    """
    check_added(table.names, list(added))
    pa, dialect, count = arrow(), table.dialect, 0
    encoder = codecs.getincrementalencoder(dialect.encoding)()
    names = [*table.names, *added]
    with Path(file).open("wb") if isinstance(file, str | os.PathLike) else nullcontext(file) as target:
        for start in (None, *range(0, table.data.num_rows, _ADDED_ROWS)):
            if start is None:
                columns = [pa.array([name]) for name in names]
            else:
                columns = [table.text(name, start, _ADDED_ROWS) for name in table.names]
                columns += [
                    _as_cells(values[start : start + _ADDED_ROWS], dialect.decimal) for values in added.values()
                ]
            for j, column in enumerate(columns):
                which = formulas(column, dialect.decimal)
                count += int(which.sum())
                columns[j] = neutralised(column, which) if escape_formulas and which.any() else column
            try:
                target.write(encoder.encode(csv_lines(columns, dialect.delimiter, dialect.newline)))
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"{shown(error.object[error.start : error.end])} cannot be written in {dialect.encoding}, the encoding of "
                    "the data file: save that in UTF-8."
                ) from None
        target.flush()
    return count


def formulas(text: Any, decimal: str = ".") -> NDArray[np.bool_]:
    """Mask of the cells that a spreadsheet may run: a tab or line break comes first, or one of = + - @ after blanks.

    The signs may be full-width or otherwise in a form that is normalised to these. Plain numbers are none.
    """
    pc = arrow(".compute")
    suspects = mask(pc.match_substring_regex(text, _FORMULA))
    if suspects.any():
        cells = text.filter(arrow().array(suspects))
        suspects[suspects] = ~mask(pc.match_substring_regex(cells, _HARMLESS.format(decimal)))
    return suspects


def neutralised(text: Any, which: NDArray[np.bool_]) -> Any:
    """Put an apostrophe before these cells."""
    pa, pc = arrow(), arrow(".compute")
    return pc.if_else(pa.array(which), pc.binary_join_element_wise(pa.scalar("'"), text, pa.scalar("")), text)


def check_added(names: Sequence[str], added: Sequence[str]) -> None:
    """Raise ValueError if added columns exist already or have the same name."""
    twice = [name for name, count in Counter([*names, *added]).items() if count > 1]
    if twice:
        raise ValueError(f"two columns would have the name {listed(twice[:1])}: rename the class or the column.")


def _as_cells(values: Any, decimal: str) -> Any:
    """An added column as text."""
    pa = arrow()
    array = np.asarray(values)
    if array.dtype.kind == "f":
        numbers = six_digits(array)
        return numbers if decimal == "." else arrow(".compute").replace_substring(numbers, ".", decimal)
    return as_text(pa.array(array) if array.dtype.kind in "iub" else pa.array(array, pa.string()))


def six_digits(values: NDArray[np.floating[Any]]) -> Any:
    """Numbers as text with at most six significant digits, empty if NaN."""
    rounded = [float(f"{value:.{_DIGITS}g}") for value in np.asarray(values, dtype=np.float64).tolist()]
    return arrow(".compute").if_else(np.isnan(rounded), "", as_text(arrow().array(rounded, arrow().float64())))


def csv_lines(columns: list[Any], delimiter: str = ",", newline: str = "\n") -> str:
    """Lines of a CSV file from columns of text."""
    pa, pc = arrow(), arrow(".compute")
    cells = []
    for column in columns:
        needed = pc.match_substring_regex(column, f'["\r\n{re.escape(delimiter)}]')
        if len(columns) == 1:
            needed = pc.or_(needed, pc.equal(column, ""))  # an empty line is not a row
        if pc.any(needed).as_py():
            quote = pa.scalar('"')
            inner = pc.replace_substring(column, '"', '""')
            column = pc.if_else(needed, pc.binary_join_element_wise(quote, inner, quote, pa.scalar("")), column)
        cells.append(column)
    last = pc.binary_join_element_wise(cells[-1], pa.scalar(newline), pa.scalar(""))
    lines = pc.binary_join_element_wise(*cells[:-1], last, pa.scalar(delimiter))
    return "".join(lines.to_pylist())
