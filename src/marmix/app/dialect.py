"""How a table is written: encoding, delimiter, decimal mark and line of the column names, found in its first rows."""

import codecs
import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from marmix.core.labels import MISSING_TEXTS
from marmix.tables.cells import NUMBER, WHOLE, shown

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_IN_A_SHELL = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
_ROWS = 200  # in which the delimiter and the column names are looked for
_NUMERIC = 0.8  # share of numbers from which a column says how numbers are written
_NOT_IN_CP1252 = re.compile(b"[\x81\x8d\x8f\x90\x9d]")
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DOUBTFUL = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")  # 1,234 and 1.234: a fraction or a thousand
_GROUPED = {
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
    return next((mark for mark, pattern in _GROUPED.items() if pattern.fullmatch(cell)), None)


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
