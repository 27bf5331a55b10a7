"""Delimited text files (CSV, TSV), with every cell as text."""

import codecs
import gzip
import io
import re
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from marmix.tables.cells import NUMBER, arrow, as_numbers, comma_text, counted, shown, text_bytes

BLOCK = 2**19  # bytes parsed at a time, and limit of a row; pyarrow reads up to 32 blocks ahead
_BREAK = re.compile(r"\r\n|\r|\n")  # between lines
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def pieces(path: Path, file: Any) -> Iterator[bytes]:
    """The bytes of an open file, a block at a time, decompressed if its name ends in ``.gz``."""
    source = gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
    try:
        while piece := source.read(BLOCK):
            yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error}): copy or download it again.") from None


class Text(io.RawIOBase):
    """A text file, gzipped if its name ends in ``.gz``, as UTF-8 bytes without a byte order mark and the first `start` bytes.

    With ``encoding=None`` the bytes are not decoded, as columns that are not needed may be in any encoding.
    """

    def __init__(self, path: Path, encoding: str | None, start: int = 0):
        self.path, self.encoding = path, encoding
        try:
            io.TextIOWrapper(io.BytesIO(), encoding or "utf-8").close()
            self._decoder = codecs.getincrementaldecoder(encoding or "utf-8")()
        except LookupError:
            raise ValueError(f"there is no encoding {shown(encoding)}: try utf-8, cp1252, latin-1 or utf-16.") from None
        self._reading = Lock()
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed with this)
        self._pieces = pieces(path, self._file)
        self._lines, self._begun, self._ended, self._rest = 1, False, False, b""
        self.quotes = self.checksum = 0
        self.read(start)
        self.quotes = self._rest.count(b'"')

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
        with self._reading:
            while not self._ended and (size < 0 or len(self._rest) < size):
                self._rest += self._next()
            size = len(self._rest) if size < 0 else size
            piece, self._rest = self._rest[:size], self._rest[size:]
            return piece

    def stop(self, batches: Iterable[Any]) -> None:
        """End the file here and wait for pyarrow, whose thread reads ahead: Python aborts if it ends before such a thread."""
        with self._reading:
            self._ended, self._rest = True, b""
        with suppress(arrow().ArrowException):
            for _ in batches:
                pass
        time.sleep(0.01)  # after an error in the batches, the thread may be about to read
        with self._reading:
            pass

    def _next(self) -> bytes:
        """The next bytes of the file, in UTF-8."""
        packed = next(self._pieces, b"")
        self._ended = not packed
        self.checksum = zlib.crc32(packed, self.checksum)
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


def delimited_batches(
    path: Path,
    encoding: str | None,
    delimiter: str,
    decimal: str,
    start: int,
    names: list[str],
    blank: int,
    wanted: list[str],
    step: Callable[[float], object],
    block: int | None = None,
) -> Generator[Any, None, int]:
    """Yield record batches of the wanted columns, all as text, and return a checksum of the whole file.

    The rows begin `start` bytes from the beginning, and have `blank` empty cells after the named ones.
    """
    block = block or BLOCK
    pa, pc, pacsv = arrow(), arrow(".compute"), arrow(".csv")
    nameless = [f"\0{j}" for j in range(blank)]
    size, rows, last = path.stat().st_size, 0, None
    batches: Any = ()
    with Text(path, encoding, start) as source:
        try:
            batches = pacsv.open_csv(
                pa.PythonFile(source, mode="r"),
                # with threads, errors do not name the row
                pacsv.ReadOptions(use_threads=False, block_size=block, column_names=[*names, *nameless]),
                pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pacsv.ConvertOptions(
                    # bytes that are not decoded are checked only where they are needed
                    column_types={
                        name: pa.string() if encoding or name in {*wanted, *nameless} else pa.binary()
                        for name in (*names, *nameless)
                    },
                    null_values=[],
                    check_utf8=encoding is None,
                ),
            )
            for batch in batches:
                if batch.num_rows:
                    for name in nameless:
                        row = pc.index(pc.equal(batch.column(name), ""), False).as_py()
                        if row >= 0:
                            raise ValueError(
                                f"{path}: data row {rows + row + 1} holds {shown(batch.column(name)[row])} in a column without a "
                                "name. Name every column."
                            )
                    if source.quotes:
                        _refuse_swallowed_rows(path, encoding, delimiter, batch, len(names), rows)
                    rows, last = rows + batch.num_rows, batch
                    batch = batch.select(wanted)
                    yield batch if decimal == "." else _with_commas(batch)
                    step(min(source.tell() / size, 1.0))
        except BaseException as error:
            source.stop(batches)
            if not isinstance(error, pa.ArrowException):
                raise
            raise ValueError(_message(path, str(error), rows, block, source.quotes)) from None
        if source.quotes % 2 and last is not None and _runs_on(last):
            raise ValueError(
                f"{path} has a quotation mark that is not closed: see data row {rows}. Write quotation marks within a cell twice."
            )
        return source.checksum


def _message(path: Path, error: str, rows: int, block: int, quotes: int) -> str:
    """Translate an error of pyarrow."""
    ragged = _RAGGED.search(error)
    if ragged:
        row, expected, cells = (int(number) for number in ragged.groups())
        advice = "Add or remove cells, and quote cells that contain the delimiter."
        if quotes % 2:
            advice = "Is there a quotation mark that is not closed? Write quotation marks within a cell twice."
        return f"{path}: data row {row} has {counted(cells, 'cell')}, where the header has {expected}. {advice}"
    if "straddl" in error:
        return (
            f"{path}: a row after data row {rows} is longer than {block:,} bytes. Is there a quotation mark that is not closed? "
            "Write quotation marks within a cell twice."
        )
    return f"{path} cannot be read after data row {rows}: {' '.join(error.split())[:200]}"


def _refuse_swallowed_rows(path: Path, encoding: str | None, delimiter: str, batch: Any, width: int, rows: int) -> None:
    """Raise ValueError if a cell holds what look like rows, between quotation marks that do not belong together."""
    pa, pc = arrow(), arrow(".compute")
    numeric = None
    for j, column in enumerate(batch.columns[:width]):
        data = bytes(text_bytes(column))
        if b"\n" not in data and b"\r" not in data:
            continue
        for i in pc.indices_nonzero(pc.match_substring_regex(column, r"[\r\n]")).to_pylist():
            cell = column[i].as_py()
            cell = cell if column.type == pa.string() else cell.decode(errors="surrogateescape")
            lines = _swallowed(cell, j, width, delimiter)
            if lines and numeric is None:
                numeric = [_is_numeric(other) for other in batch.columns[:width]]
            if lines and numeric and _is_table(lines, j, numeric):
                line, name = _line(path, encoding, cell), shown(batch.schema.names[j])
                raise ValueError(
                    f"{path}: a quotation mark in line {line} is not closed, or closed too late: the cell of column {name} in "
                    f"data row {rows + i + 1} holds what look like {len(lines)} rows. Remove the mark, or write marks within a "
                    "cell twice."
                )


def _swallowed(cell: str, j: int, width: int, delimiter: str) -> list[list[str]]:
    """The lines of cell j of `width`, split, if they may be the end of a row, whole rows, and the start of a row or nothing."""
    start, *lines, end = _BREAK.split(cell)
    first, last = start.rpartition('"')[2].split(delimiter), end.partition('"')[0].split(delimiter)
    middle = [re.sub('"[^"]*"', "", line).split(delimiter) for line in lines if line.strip()]
    ends = len(first) == width - j and (len(last) == j + 1 or last == [""])
    whole = [cells for cells in middle if len(cells) == width]
    if width < 2 or len(whole) < 0.8 * len(middle) or not (ends or len(middle) > 2):
        return []
    rows = [first, *middle] if last == [""] and j else [first, *middle, last]
    return rows if len(rows) > 1 else []


def _is_table(lines: list[list[str]], j: int, numeric: list[bool]) -> bool:
    """Whether split lines have numbers in the numeric columns; without any of these, whether they look like no prose."""
    width, (first, *others) = len(numeric), lines
    placed = list(zip(range(j, width), first, strict=True)) if len(first) == width - j else []
    for line in others:
        placed += zip(range(width), line, strict=False) if len(line) in (width, j + 1) else []
    cells = [text.strip() for k, text in placed if numeric[k]]
    if any(cells):
        return sum(not text or bool(NUMBER.fullmatch(text)) for text in cells) >= 0.8 * len(cells)
    return not any(text.startswith(" ") for cells in lines for text in cells[1:])


def _is_numeric(column: Any) -> bool:
    """Whether most of the filled cells of a column are numbers."""
    if column.type != arrow().string():
        return False
    numbers = as_numbers(column)
    filled = int((~numbers.missing).sum())
    return filled > 0 and int(numbers.odd.sum()) <= 0.2 * filled


def _line(path: Path, encoding: str | None, cell: str) -> int:
    """The line in which a quoted cell of several lines begins."""
    first = _BREAK.split(cell)[0].replace('"', '""')
    start = re.compile(re.escape(f'"{first}'.encode(errors="surrogateescape")) + rb"[\r\n]")

    def breaks(text: bytes, end: int) -> int:
        return sum(match.start() < end for match in re.finditer(rb"\n|\r(?!\n)", text))

    lines, rest = 1, b""
    with Text(path, encoding) as source:
        while block := source.read(BLOCK):
            text = rest + block
            match = start.search(text)
            if match:
                return lines + breaks(text, match.start())
            lines, rest = lines + breaks(text, len(rest)), block
    return lines


def _with_commas(batch: Any) -> Any:
    """The same columns as text whose numbers have a decimal comma."""
    pa, kind = arrow(), comma_text()
    columns = [pa.ExtensionArray.from_storage(kind, column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _runs_on(batch: Any) -> bool:
    """Whether a cell of the last row contains a line break."""
    cells = (bytes(text_bytes(column.slice(batch.num_rows - 1))) for column in batch.columns)
    return any(b"\n" in cell or b"\r" in cell for cell in cells)
