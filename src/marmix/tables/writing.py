"""Writing CSV files: rows as they were read, with added columns."""

import csv
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from marmix.tables.cells import arrow, as_text, listed, shown, text_bytes
from marmix.tables.dialect import Dialect

_DIGITS = 6
_BYTES = np.arange(256)
_STARTS = (_BYTES <= 32) | (_BYTES >= 127) | np.isin(_BYTES, np.frombuffer(b"=+-@", np.uint8))
_STARTS[0] = False
_FORMULA = (  # with all forms of the signs
    r"^([\t\r\n]|[\s\pZ\pC]*[=+\-@"
    "\u207a\u207b\u207c\u208a\u208b\u208c\u2212\u2a75\u2a76\ufb29\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
    "])"
)
_HARMLESS = (
    "^[ \u00a0]*[+\u2212-]([0-9]*[{0}]?[0-9]*([eE][+-]?[0-9]+)?)[ \u00a0]*$"  # a number with a sign, or the sign alone
)


class RowWriter:
    """Writer of a CSV file, a batch of rows at a time: rows as they were read, with added columns.

    Text cells are written as they were read, typed ones by `as_text`. Added numbers have six significant digits, and
    are empty if NaN. Cells are quoted only if necessary. The file begins with the column names, even if titles stand
    above them in the file that the dialect comes from. Use it in a `with` block.

    Parameters
    ----------
    file : path or binary file
        A path is opened on entering the `with` block; a file, such as ``sys.stdout.buffer``, is left open.
    names : sequence of str
        Columns of the batches.
    added : sequence of str
        Columns to add, with names not in `names`; repeated names raise ValueError.
    escape_formulas : bool, default=False
        Whether to put an apostrophe before cells and names that a spreadsheet would run as a formula.
    dialect : Dialect or None, default=None
        How the file is written: the `dialect` of the `DataFile` that the rows come from. By default UTF-8 with commas.

    Attributes
    ----------
    formulas : int
        Number of cells and names so far that a spreadsheet would run, if not escaped.
    rows : int
        Number of rows so far.

    Raises
    ------
    ValueError
        If a name is repeated, or a cell cannot be written in the encoding of the dialect.

    See Also
    --------
    open_table : Read the rows.
    one_file : A path at which the file appears only when it is complete.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> from marmix.tables import RowWriter
    >>> file = io.BytesIO()
    >>> with RowWriter(file, ["age"], ["label", "probability"]) as writer:
    ...     writer.write(pa.RecordBatch.from_pydict({"age": ["41", "35"]}), [["b", "a"], [0.123456789, 1.0]])
    >>> print(file.getvalue().decode(), end="")
    age,label,probability
    41,b,0.123457
    35,a,1
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        names: Sequence[str],
        added: Sequence[str],
        *,
        escape_formulas: bool = False,
        dialect: Dialect | None = None,
    ):
        check_added(names, added)
        self.dialect = dialect or Dialect()
        self.names, self.added, self.escape_formulas = list(names), list(added), escape_formulas
        self.formulas = self.rows = 0
        self._target = file
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        target = self._target
        self._file: Any = target
        if isinstance(target, str | os.PathLike):
            self._file = self._closing.enter_context(open(target, "wb"))
        try:
            if self.dialect.bom:
                self._write("\ufeff".encode())
            self._lines([arrow().array([name]) for name in (*self.names, *self.added)])
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.flush()
        self._closing.close()

    def write(self, batch: Any, added: Sequence[Any]) -> None:
        """Write the rows of a batch.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Rows with the columns `names`.
        added : sequence of arrays
            Values of the added columns, in their order: floats or strings.
        """
        cells = [as_text(batch.column(name)) for name in self.names]
        decimal = self.dialect.decimal
        self._lines([*cells, *(_as_cells(values, decimal) for _, values in zip(self.added, added, strict=True))])
        self.rows += batch.num_rows

    def _lines(self, columns: list[Any]) -> None:
        for j, column in enumerate(columns):
            which = formulas(column, self.dialect.decimal)
            self.formulas += int(which.sum())
            if self.escape_formulas and which.any():
                columns[j] = neutralised(column, which)
        self._write(csv_lines(columns, self.dialect.delimiter, self.dialect.newline))

    def _write(self, lines: bytes) -> None:
        encoding = self.dialect.encoding
        try:
            self._file.write(lines if encoding == "utf-8" else lines.decode().encode(encoding))
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{shown(error.object[error.start : error.end])} cannot be written in {encoding}, the encoding of the data file: "
                "save that in UTF-8."
            ) from None


def formulas(text: Any, decimal: str = ".") -> NDArray[np.bool_]:
    """Mask of the cells that a spreadsheet may run: a tab or line break comes first, or one of = + - @ after blanks.

    The signs may be full-width or otherwise in a form that is normalised to these. Plain numbers are none.
    """
    pa, pc = arrow(), arrow(".compute")
    suspects = _STARTS[_first_bytes(text)]
    if suspects.any():
        cells = text.filter(pa.array(suspects))
        harmless = pc.match_substring_regex(cells, _HARMLESS.format(decimal))
        run = pc.and_not(pc.match_substring_regex(cells, _FORMULA), harmless)
        suspects[suspects] = run.to_numpy(zero_copy_only=False)
    return suspects


def neutralised(text: Any, which: NDArray[np.bool_]) -> Any:
    """Put an apostrophe before these cells."""
    pa, pc = arrow(), arrow(".compute")
    return pc.if_else(pa.array(which), pc.binary_join_element_wise(pa.scalar("'"), text, pa.scalar("")), text)


def _first_bytes(text: Any) -> NDArray[np.uint8]:
    """The first byte of each cell, 0 if it is empty."""
    _, offsets, data = text.buffers()
    first = np.zeros(len(text), np.uint8)
    places = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    filled = places[:-1] < places[1:]
    if filled.any():
        first[filled] = np.frombuffer(data, np.uint8)[places[:-1][filled]]
    return first


def check_added(names: Sequence[str], added: Sequence[str]) -> None:
    """Raise ValueError if added columns exist already or have the same name."""
    clash = [name for name in added if name in set(names)]
    if clash:
        raise ValueError(f"the file has already {listed(clash)}: give another --prefix for the added columns.")
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
    pa, pc = arrow(), arrow(".compute")
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        decimals = _DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    plain = (decimals >= 0) & (decimals <= 22)  # up to 10**22 powers of ten are exact, and the division rounds once
    scale = 10.0 ** np.where(plain, decimals, 0)
    rounded = np.where(plain, np.rint(np.where(plain, values, 0) * scale) / scale, values)
    text = pa.array(rounded).cast(pa.string())
    other = ~plain & np.isfinite(values) & (values != 0)
    if other.any():
        text = pc.replace_with_mask(
            text, pa.array(other), pa.array([f"{value:.{_DIGITS}g}" for value in values[other]])
        )
    return pc.if_else(pa.array(np.isnan(values)), "", text)


def csv_lines(columns: list[Any], delimiter: str = ",", newline: str = "\n") -> bytes:
    """Lines of a CSV file from columns of text, in UTF-8."""
    pa, pc = arrow(), arrow(".compute")
    special = f'"\r\n{delimiter}'
    cells = []
    for column in columns:
        content = bytes(text_bytes(column))
        if len(columns) == 1 or any(mark in content for mark in special.encode()):
            needed = pc.match_substring_regex(column, f"[{re.escape(special)}]")
            if len(columns) == 1:
                needed = pc.or_(needed, pc.equal(column, ""))  # an empty line is not a row
            mark = pa.scalar('"')
            inner = pc.replace_substring(column, '"', '""')
            column = pc.if_else(needed, pc.binary_join_element_wise(mark, inner, mark, pa.scalar("")), column)
        cells.append(column)
    last = pc.binary_join_element_wise(cells[-1], pa.scalar(newline), pa.scalar(""))
    return bytes(text_bytes(pc.binary_join_element_wise(*cells[:-1], last, pa.scalar(delimiter))))


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns to a CSV file, numbers with all digits."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
