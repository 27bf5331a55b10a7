"""CSV files: rows as they were read, with columns added to them."""

import csv
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from marmix.tables.cells import arrow, as_text, listed

_DIGITS = 6
_BEGINNINGS = np.isin(np.arange(256), np.frombuffer(b"=+-@\t\r\n", np.uint8))
_HARMLESS = r"^[+-]([0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?)$"  # a number with a sign, or the sign alone


class RowWriter:
    """Rows of a CSV file in UTF-8, written batch by batch.

    Cells of the given columns are written as they were read, typed ones as `as_text` writes them. Numbers that are added have six
    significant digits, and are empty where NaN. Quotation marks are put only where they are needed.

    Parameters
    ----------
    file : path or binary file
        A path is opened when the `with` block begins; a file, such as ``sys.stdout.buffer``, is left open.
    names : sequence of str
        Of the columns of the batches.
    added : sequence of str
        Of the columns that are added. They may not be among `names`.
    escape_formulas : bool, default=False
        Whether to put an apostrophe before cells and names that a spreadsheet would run as a formula.

    Attributes
    ----------
    formulas : int
        Cells and names so far that a spreadsheet would run, were they not escaped.
    rows : int
        Rows so far.

    Raises
    ------
    ValueError
        If a name is there twice.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        names: Sequence[str],
        added: Sequence[str],
        *,
        escape_formulas: bool = False,
    ):
        check_added(names, added)
        self.names, self.added, self.escape_formulas = list(names), list(added), escape_formulas
        self.formulas = self.rows = 0
        self._target = file
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        target = self._target
        self._file: Any = (
            self._closing.enter_context(open(target, "wb")) if isinstance(target, str | os.PathLike) else target
        )
        self._lines([arrow().array([name]) for name in (*self.names, *self.added)])
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
            With the columns `names`.
        added : sequence of arrays
            The columns `added`: floats, or strings.
        """
        cells = [as_text(batch.column(name)) for name in self.names]
        self._lines([*cells, *(_as_cells(values) for _, values in zip(self.added, added, strict=True))])
        self.rows += batch.num_rows

    def _lines(self, columns: list[Any]) -> None:
        for j, column in enumerate(columns):
            which = formulas(column)
            self.formulas += int(which.sum())
            if self.escape_formulas and which.any():
                columns[j] = neutralised(column, which)
        self._file.write(csv_lines(columns))


def formulas(text: Any) -> NDArray[np.bool_]:
    """Which cells of an array of strings begin like a formula: with = + - @, tab or a line end, and are no plain number."""
    pa, pc = arrow(), arrow(".compute")
    begins = _BEGINNINGS[_first_bytes(text)]
    if begins.any():
        harmless = pc.match_substring_regex(text.filter(pa.array(begins)), _HARMLESS)
        begins[begins] = ~harmless.to_numpy(zero_copy_only=False)
    return begins


def neutralised(text: Any, which: NDArray[np.bool_]) -> Any:
    """An array of strings with an apostrophe before these cells."""
    pa, pc = arrow(), arrow(".compute")
    return pc.if_else(pa.array(which), pc.binary_join_element_wise(pa.scalar("'"), text, pa.scalar("")), text)


def _first_bytes(text: Any) -> NDArray[np.uint8]:
    """The first byte of each cell, 0 where it is empty."""
    _, offsets, data = text.buffers()
    first = np.zeros(len(text), np.uint8)
    places = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    begun = places[:-1] < places[1:]
    if begun.any():
        first[begun] = np.frombuffer(data, np.uint8)[places[:-1][begun]]
    return first


def check_added(names: Sequence[str], added: Sequence[str]) -> None:
    """Refuse columns to add that a file has already, or that would have one name."""
    clash = [name for name in added if name in set(names)]
    if clash:
        raise ValueError(f"the file has already {listed(clash)}: give another --prefix for the columns that are added.")
    twice = [name for name, count in Counter([*names, *added]).items() if count > 1]
    if twice:
        raise ValueError(f"two columns would have the name {listed(twice[:1])}: rename the class or the column.")


def _as_cells(values: Any) -> Any:
    """A column that is added, as text."""
    pa = arrow()
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return six_digits(array)
    return as_text(pa.array(array) if array.dtype.kind in "iub" else pa.array(array, pa.string()))


def six_digits(values: NDArray[np.floating[Any]]) -> Any:
    """Numbers as text of six significant digits at most, empty where NaN."""
    pa, pc = arrow(), arrow(".compute")
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        decimals = _DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    plain = (decimals >= 0) & (
        decimals <= 22
    )  # 10**22 is the last power of ten that is a float: the division rounds once
    scale = 10.0 ** np.where(plain, decimals, 0)
    rounded = np.where(plain, np.rint(np.where(plain, values, 0) * scale) / scale, values)
    text = pa.array(rounded).cast(pa.string())
    other = ~plain & np.isfinite(values) & (values != 0)
    if other.any():
        text = pc.replace_with_mask(
            text, pa.array(other), pa.array([f"{value:.{_DIGITS}g}" for value in values[other]])
        )
    return pc.if_else(pa.array(np.isnan(values)), "", text)


def csv_lines(columns: list[Any]) -> bytes:
    """Lines of a CSV file, of columns of text."""
    pa, pc = arrow(), arrow(".compute")
    cells = []
    for column in columns:
        whole = _bytes(column)
        if len(columns) == 1 or any(mark in whole for mark in b'",\r\n'):
            needed = pc.match_substring_regex(column, '[",\r\n]')
            if len(columns) == 1:
                needed = pc.or_(needed, pc.equal(column, ""))  # an empty line would be no row
            mark = pa.scalar('"')
            inner = pc.replace_substring(column, '"', '""')
            column = pc.if_else(needed, pc.binary_join_element_wise(mark, inner, mark, pa.scalar("")), column)
        cells.append(column)
    last = pc.binary_join_element_wise(cells[-1], pa.scalar("\n"), pa.scalar(""))
    return _bytes(pc.binary_join_element_wise(*cells[:-1], last, pa.scalar(",")))


def _bytes(text: Any) -> bytes:
    """All cells of an array of strings, one after the other."""
    _, offsets, data = text.buffers()
    places = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return bytes(memoryview(data)[places[0] : places[-1]]) if data is not None and len(text) else b""


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as a CSV file, numbers with all their digits."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
