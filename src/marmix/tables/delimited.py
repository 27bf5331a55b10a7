"""Delimited text files (CSV, TSV), with every cell as text."""

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from marmix.tables.cells import arrow, comma_text, counted, shown

BLOCK = 2**19  # bytes parsed at a time, and limit of a row; pyarrow reads up to 32 blocks ahead
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
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed with this)
        self._pieces = pieces(path, self._file)
        self._lines, self._begun, self._ended, self._rest = 1, False, False, b""
        self.quotes = 0
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
        while not self._ended and (size < 0 or len(self._rest) < size):
            self._rest += self._next()
        size = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def _next(self) -> bytes:
        """The next bytes of the file, in UTF-8."""
        packed = next(self._pieces, b"")
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
) -> Generator[Any, None, None]:
    """Yield record batches of the wanted columns, all as text.

    The rows begin `start` bytes from the beginning, and have `blank` empty cells after the named ones.
    """
    block = block or BLOCK
    pa, pc, pacsv = arrow(), arrow(".compute"), arrow(".csv")
    nameless = [f"\0{j}" for j in range(blank)]
    size, rows, last = path.stat().st_size, 0, None
    with Text(path, encoding, start) as source:
        try:
            batches = pacsv.open_csv(
                pa.PythonFile(source, mode="r"),
                # with threads, errors do not name the row
                pacsv.ReadOptions(use_threads=False, block_size=block, column_names=[*names, *nameless]),
                pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pacsv.ConvertOptions(
                    column_types=dict.fromkeys([*names, *nameless], pa.string()),
                    null_values=[],
                    check_utf8=encoding is None,
                    include_columns=[*wanted, *nameless] if encoding is None else None,
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
                    rows, last = rows + batch.num_rows, batch
                    batch = batch.select(wanted)
                    yield batch if decimal == "." else _with_commas(batch)
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
            f"{path}: data row {row} has {counted(cells, 'cell')}, where the header has {expected}. Add or remove cells, "
            "and quote cells that contain the delimiter."
        )
    if "straddl" in error:
        return (
            f"{path}: a row after data row {rows} is longer than {block:,} bytes. Is there a quotation mark that is not closed? "
            "Write quotation marks within a cell twice."
        )
    return f"{path} cannot be read after data row {rows}: {' '.join(error.split())[:200]}"


def _with_commas(batch: Any) -> Any:
    """The same columns as text whose numbers have a decimal comma."""
    pa, kind = arrow(), comma_text()
    columns = [pa.ExtensionArray.from_storage(kind, column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _runs_on(batch: Any) -> bool:
    """Whether a cell of the last row contains a line break."""
    return any("\n" in column[-1].as_py() or "\r" in column[-1].as_py() for column in batch.columns)
