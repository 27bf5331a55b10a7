"""How a table is written: encoding, delimiter, decimal mark and line of the column names, found in its first rows."""

import codecs
import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from marmix.core.labels import MISSING_TEXTS
from marmix.tables.cells import NUMBER, WHOLE, shown
from marmix.tables.delimited import BLOCK, Text, pieces

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_IN_A_SHELL = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
ROWS = 200  # in which the delimiter and the column names are looked for
_NUMERIC = 0.8  # share of numbers from which a column says how numbers are written
_NOT_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"
_TWO_BYTES = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DOUBTFUL = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")  # 1,234 and 1.234: a fraction or a thousand
_MARK = re.compile(r"[.,][0-9]|[0-9][.,]")
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
    """The dialect of a file, its column names, and what was assumed."""

    dialect: Dialect
    names: list[str]
    assumed: list[str]
    start: int  # bytes of the text before the rows
    blank: int  # empty columns after the named ones


class Row(NamedTuple):
    """A row of a text file or sheet, with the number of its first line and the place in the text where it ends."""

    line: int
    cells: Sequence[str]
    end: int = 0


def sniff(
    path: Path,
    usual: str | None,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    header_row: int | None = None,
    decoded: bool = True,
    advice: str = "",
) -> Sniffed:
    """Find out how a text file is written, as far as it is not given.

    The delimiter and the column names come from the first block, the encoding from all bytes. The decimal mark comes from the
    first block as well, or from later ones if that leaves it in doubt. `usual` is the delimiter that the name of the file
    promises; `advice` replaces that on options of the program. Text that is not to be `decoded` stays as it is unless in UTF-16,
    as columns that are not needed may be in any encoding.
    """
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal mark {shown(decimal)} is neither a point nor a comma: give '.' or ','.")
    codec, bom = _encoding(path, encoding)
    assumed = []
    if encoding is None and codec != "utf-8":
        assumed.append(_encoding_in_words(codec))
    with closing(_blocks(path, codec if decoded or codec.startswith("utf-16") else None)) as blocks:
        text = next(blocks, "")
        if not text.strip():
            raise ValueError(f"{path} is empty: it needs a line of column names, and rows.")
        mark = _delimiter(text, usual) if delimiter is None else _one_character(delimiter)
        if mark is None:
            raise ValueError(f"the delimiter of {path} is not known: {advice or 'give --delimiter.'}")
        if delimiter is None and mark != usual:
            assumed.append(f"Columns are separated by {DELIMITERS[mark]}; --delimiter names another mark.")
        rows = list(islice(_rows(text, mark), ROWS))
        if not any(row.cells for row in rows):
            raise ValueError(f"{path}: the column names in its first line cannot be read.")
        place = header_place(rows, header_row, str(path))
        header, names = rows[place], list(rows[place].cells)
        if header_row is None:
            assumed += titles_in_words(rows, place, "line")
        _check_header(path, names, advice)
        body = text[header.end :]
        if not body.strip("\r\n"):
            raise ValueError(f"{path} has column names, {shown(mark.join(names))}, but no rows.")
        blank = _blank_columns([row.cells for row in rows[place:] if row.cells])
        if blank:
            assumed.append("Columns at the end without a name and cells were left out.")
        if decimal is None:
            decimal, sentences = _decimal(chain([body], blocks), names, mark, path, advice)
            assumed += sentences
    newline = "\r\n" if text[: header.end].endswith("\r\n") else "\n"
    start = len(text[: header.end].encode(errors="surrogateescape"))
    return Sniffed(
        Dialect(codec, mark, decimal, header.line, bom, newline), names[: len(names) - blank], assumed, start, blank
    )


# Encoding


def _encoding(path: Path, given: str | None) -> tuple[str, bool]:
    """The encoding of a file, and whether it has a byte order mark."""
    with open(path, "rb") as file:
        parts = pieces(path, file)
        first = next(parts, b"")
        two_bytes = next((name for mark, name in _TWO_BYTES.items() if first.startswith(mark)), None)
        bom = first.startswith(codecs.BOM_UTF8)
        if given is None:
            return (two_bytes, True) if two_bytes else (_one_byte(chain([first], parts), bom), bom)
    try:
        name = codecs.lookup(given).name
    except LookupError:
        return given, False  # refused where the text is read
    if name == "utf-16":
        return two_bytes or f"utf-16-{sys.byteorder[0]}e", two_bytes is not None
    if name in ("utf-8", "utf-8-sig"):
        return "utf-8", bom
    return name, name == two_bytes


def _one_byte(parts: Iterable[bytes], bom: bool) -> str:
    """UTF-8, or an encoding of Western Europe for bytes that are not UTF-8; damaged UTF-8 is refused where it is read."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    right = wrong = 0  # characters beyond ASCII, as UTF-8
    windows = True
    for part in chain(parts, [b""]):
        if part and part.isascii() and not decoder.getstate()[0]:
            continue
        try:
            letters = decoder.decode(part, not part)
        except UnicodeDecodeError:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            letters = decoder.decode(part) or "\ufffd"
        damaged = letters.count("\ufffd") if decoder.errors == "replace" else 0
        wrong += damaged
        right += len(letters) - len(letters.encode("ascii", "ignore")) - damaged
        windows = windows and not any(byte in part for byte in _NOT_IN_CP1252)
    if bom or not wrong or right > wrong:
        return "utf-8"
    return "cp1252" if windows else "latin-1"


def _encoding_in_words(codec: str) -> str:
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


def _blocks(path: Path, encoding: str | None) -> Generator[str, None, None]:
    """The text of a file in blocks of whole lines; bytes that are not decoded become surrogates."""
    with Text(path, encoding) as source:
        rest = b""
        while block := source.read(BLOCK):
            end = block.rfind(b"\n") + 1 if len(block) == BLOCK else len(block)
            yield (rest + block[: end or len(block)]).decode(errors="surrogateescape")
            rest = block[end:] if end else b""
        if rest:
            yield rest.decode(errors="surrogateescape")


def _rows(text: str, delimiter: str) -> Iterator[Row]:
    """Rows of a text, also empty ones, up to one that cannot be parsed."""
    lines = list(io.StringIO(text, newline=""))
    ends = [0, *accumulate(map(len, lines))]
    reader, line = csv.reader(lines, delimiter=delimiter), 0
    try:
        for cells in reader:
            yield Row(line + 1, cells, ends[reader.line_num])
            line = reader.line_num
    except csv.Error:
        return


def _delimiter(text: str, usual: str | None) -> str | None:
    """The delimiter that gives most rows the same number of cells, and cells without other delimiters; else the usual one."""
    scores = {}
    for mark in DELIMITERS:
        rows = [row.cells for row in islice(_rows(text, mark), ROWS) if row.cells] if mark in text else []
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


def _blank_columns(rows: Sequence[Sequence[str]]) -> int:
    """Number of empty columns at the end: rows may end in delimiters."""
    width = len(rows[0])
    filled = max((j for row in rows for j, cell in enumerate(row, 1) if cell.strip()), default=0)
    return width - filled if 0 < filled < width and all(len(row) == width for row in rows) else 0


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


def _check_header(path: Path, names: list[str], advice: str) -> None:
    if not any(name.strip() for name in names):
        raise ValueError(f"{path} is empty: it needs a line of column names, and rows.")
    if len(names) == 1:
        for other, written in _IN_A_SHELL.items():
            if other in names[0]:
                raise ValueError(
                    f"{path} has one column only, {shown(names[0])}: {advice or f'give --delimiter {written}.'}"
                )
    if headless([name.replace(",", ".") for name in names]):
        advice = advice or "add a line with the names of the columns above it."
        raise ValueError(f"{path} has numbers in its first line: {advice}")


def headless(names: Sequence[str]) -> bool:
    """Whether a row of names is data: it has fractions, or only numbers that do not count 0, 1, 2, ..."""
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    counting = [str(j) for j in range(len(numbers))]
    return not all(map(WHOLE.fullmatch, numbers)) or list(names) == numbers != counting


# Decimal mark


class Cell(NamedTuple):
    """A cell that shows how numbers are written: its text, column and data row."""

    text: str
    column: str
    row: int

    def __str__(self) -> str:
        return f"{shown(self.text)} in data row {self.row} of column {shown(self.column)}"


def _number(cell: str) -> str | None:
    """The decimal mark of a trimmed cell, "" if it is a whole number, None if it is no number."""
    if NUMBER.fullmatch(cell.replace(",", ".", 1)):
        return "," if "," in cell else "." if "." in cell else ""
    return next((mark for mark, pattern in _GROUPED.items() if pattern.fullmatch(cell)), None)


def marks_of(name: str, column: Sequence[str], seen: int = 0) -> tuple[dict[str, Cell], dict[str, Cell]]:
    """By decimal mark, the first cells that can only be fractions, and the first that may also be thousands.

    There are none in a column with other text in more than a fifth of its cells. `seen` rows of the table are above these.
    """
    counts = Counter(map(str.strip, column))
    numbers = {cell: _number(cell) for cell in counts if cell not in MISSING_TEXTS}
    filled = sum(counts[cell] for cell in numbers)
    if sum(counts[cell] for cell, mark in numbers.items() if mark is not None) < _NUMERIC * filled:
        return {}, {}
    certain: dict[str, Cell] = {}
    doubtful: dict[str, Cell] = {}
    for cell, mark in numbers.items():
        marks = doubtful if _DOUBTFUL.fullmatch(cell) else certain
        if mark and mark not in marks:
            marks[mark] = Cell(cell, name, seen + 1 + list(map(str.strip, column)).index(cell))
    return certain, doubtful


def _decimal(
    blocks: Iterable[str], names: Sequence[str], delimiter: str, path: Path, advice: str
) -> tuple[str, list[str]]:
    """The decimal mark of a text file, whose rows come in blocks, and what was assumed."""
    certain: dict[str, Cell] = {}
    doubtful: dict[str, Cell] = {}
    seen = 0
    for block in blocks:
        if delimiter != ";" and ('"' not in block if delimiter == "," else "," not in block):
            break  # no cell has a comma
        if not ("." in block or "," in block) or not _MARK.search(block):
            seen += block.count("\n")
            continue
        rows = [row.cells for row in _rows(block, delimiter) if row.cells]
        for name, column in zip(names, zip_longest(*rows, fillvalue=""), strict=False):
            marks, doubts = marks_of(name, column, seen)
            certain, doubtful = (marks if len(marks) == 2 else marks | certain), doubts | doubtful
        if certain or (delimiter != ";" and not doubtful):
            break
        seen += len(rows)
    if len(certain) == 2:
        if delimiter == ",":
            return ".", []  # a column with commas is refused if it is used
        advice = advice or "name the mark with --decimal, and leave out columns with the other by --exclude."
        raise ValueError(
            f"{path} has decimal commas, {certain[',']}, and decimal points, {certain['.']}: write all numbers alike, or {advice}"
        )
    if not certain and (doubtful if delimiter == ";" else "," in doubtful and delimiter != ","):
        cell = doubtful.get(",") or doubtful["."]
        advice = advice or "say which mark is the decimal one by --decimal , or --decimal ."
        raise ValueError(f"{path}: {cell} may have three decimals or a thousands separator: {advice}")
    if not certain and delimiter == ";":
        return ",", ["No number has decimals; added ones get a decimal comma. --decimal . is for a point."]
    return (",", ["Numbers have a decimal comma; --decimal . says otherwise."]) if "," in certain else (".", [])
