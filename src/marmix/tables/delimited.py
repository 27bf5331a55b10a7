"""Delimited text files (CSV, TSV), with every cell as text."""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from marmix.tables.cells import NUMBER, WHOLE, arrow, counted, shown

BLOCK = 2**19  # bytes parsed at a time, and limit of a row; pyarrow reads up to 32 blocks ahead
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}  # and how to write them in a shell


class Text(io.RawIOBase):
    """A text file, gzipped if its name ends in ``.gz``, as UTF-8 bytes without a byte order mark.

    With ``encoding=None`` the bytes are not decoded, as columns that are not needed may be in any encoding.
    """

    def __init__(self, path: Path, encoding: str | None):
        self.path, self.encoding = path, encoding
        try:
            io.TextIOWrapper(io.BytesIO(), encoding or "utf-8").close()
            self._decoder = codecs.getincrementaldecoder(encoding or "utf-8")()
        except LookupError:
            raise ValueError(f"there is no encoding {shown(encoding)}: try utf-8, cp1252, latin-1 or utf-16.") from None
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed with this)
        self._bytes = gzip.GzipFile(fileobj=self._file) if path.suffix.lower() == ".gz" else self._file
        self._lines, self._begun, self._ended, self._rest = 1, False, False, b""
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        """Number of bytes read from the file."""
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end of the file."""
        while not self._ended and (size < 0 or len(self._rest) < size):
            self._rest += self._next()
        size = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def _next(self) -> bytes:
        """The next bytes of the file, in UTF-8."""
        try:
            packed = self._bytes.read(BLOCK) or b""
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.path} is not a complete gzip file ({error}): copy or download it again.") from None
        self._ended = not packed
        try:
            piece = packed if self.encoding is None else self._decoder.decode(packed, self._ended).encode()
        except UnicodeError as error:
            raise ValueError(self._wrong_encoding(packed, error)) from None
        if b"\0" in piece:
            line = self._lines + piece.count(b"\n", 0, piece.index(b"\0"))
            raise ValueError(
                f"{self.path} is not plain text: it has a NUL byte in line {line}. If it is UTF-16, give --encoding utf-16."
            )
        if not self._begun and piece:
            piece, self._begun = piece.removeprefix(codecs.BOM_UTF8), True
        self._lines += piece.count(b"\n")
        self.quotes += piece.count(b'"')
        return piece

    def _wrong_encoding(self, packed: bytes, error: UnicodeError) -> str:
        line = self._lines + packed.count(b"\n", 0, getattr(error, "start", 0))
        if not self._begun and packed[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return f"{self.path} is text in UTF-16, not in {self.encoding}: give --encoding utf-16."
        other = "cp1252 (Windows), latin-1 or utf-16" if codecs.lookup(str(self.encoding)).name == "utf-8" else "utf-8"
        return (
            f"{self.path} is not text in {self.encoding}, see line {line}: name its encoding, e.g. --encoding {other}."
        )


def checked_delimiter(delimiter: str | None, path: Path, usual: str | None) -> str:
    r"""The delimiter given by the user (``\t`` and ``tab`` mean a tab), or the usual one for the file."""
    if delimiter is None:
        if usual is None:
            raise ValueError(f"the delimiter of {path} is not known: give --delimiter ',' or --delimiter tab.")
        return usual
    character = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if len(character) != 1 or not character.isascii() or character in '"\r\n\0':
        raise ValueError(f"delimiter {shown(delimiter)} is not one character such as ',' or ';', nor tab.")
    return character


def header(path: Path, encoding: str | None, delimiter: str, advice: str = "") -> list[str]:
    """Return the column names from the first line that is not empty; `advice` replaces that on options of the program."""
    with Text(path, encoding) as source:
        lines = io.StringIO(source.read(BLOCK).decode(errors="ignore"), newline="")
    try:
        names: list[str] = next(filter(None, csv.reader(lines, delimiter=delimiter)), [])
    except csv.Error as error:
        raise ValueError(f"{path}: the column names in its first line cannot be read ({error}).") from None
    if not names or not any(name.strip() for name in names):
        raise ValueError(f"{path} is empty: it needs a line of column names, and rows.")
    if len(names) == 1:
        for other, written in _DELIMITERS.items():
            if other in names[0]:
                raise ValueError(
                    f"{path} has one column only, {shown(names[0])}: {advice or f'give --delimiter {written}.'}"
                )
    if headless(names):
        advice = advice or "add a line with the names of the columns above it."
        raise ValueError(f"{path} has numbers in its first line: {advice}")
    if not lines.read().strip("\r\n"):
        raise ValueError(f"{path} has column names, {shown(delimiter.join(names))}, but no rows.")
    return names


def headless(names: Sequence[str]) -> bool:
    """Whether the first line is data: it has fractions, or only numbers that do not count 0, 1, 2, ..."""
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    counting = [str(j) for j in range(len(numbers))]
    return not all(map(WHOLE.fullmatch, numbers)) or list(names) == numbers != counting


def delimited_batches(
    path: Path,
    encoding: str | None,
    delimiter: str,
    names: list[str],
    wanted: list[str],
    step: Callable[[float], object],
    block: int | None = None,
) -> Generator[Any, None, None]:
    """Yield record batches of the wanted columns, all as text."""
    block = block or BLOCK
    pa, pacsv = arrow(), arrow(".csv")
    size, rows, last = path.stat().st_size, 0, None
    with Text(path, encoding) as source:
        try:
            batches = pacsv.open_csv(
                pa.PythonFile(source, mode="r"),
                pacsv.ReadOptions(use_threads=False, block_size=block),  # with threads, errors do not name the row
                pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pacsv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[],
                    check_utf8=encoding is None,
                    include_columns=wanted if encoding is None else None,
                ),
            )
            if batches.schema.names != (wanted if encoding is None else names):
                raise ValueError(f"{path}: the column names in its first line cannot be read.")
            for batch in batches:
                if batch.num_rows:
                    rows, last = rows + batch.num_rows, batch
                    yield batch.select(wanted)
                    step(min(source.tell() / size, 1.0))
        except pa.ArrowException as error:
            raise ValueError(_message(path, str(error), rows, block)) from None
        if source.quotes % 2 and last is not None and _runs_on(last):
            raise ValueError(
                f"{path} has a quotation mark that is not closed: see data row {rows}. Write quotation marks within a cell twice."
            )


def _message(path: Path, error: str, rows: int, block: int) -> str:
    """Translate an error of pyarrow."""
    ragged = _RAGGED.search(error)
    if ragged:
        row, expected, cells = (int(number) for number in ragged.groups())
        return (
            f"{path}: data row {row - 1} has {counted(cells, 'cell')}, where the header has {expected}. Add or remove cells, "
            "and quote cells that contain the delimiter."
        )
    if "straddl" in error:
        return (
            f"{path}: a row after data row {rows} is longer than {block:,} bytes. Is there a quotation mark that is not closed? "
            "Write quotation marks within a cell twice."
        )
    return f"{path} cannot be read after data row {rows}: {' '.join(error.split())[:200]}"


def _runs_on(batch: Any) -> bool:
    """Whether a cell of the last row contains a line break."""
    return any("\n" in column[-1].as_py() or "\r" in column[-1].as_py() for column in batch.columns)
