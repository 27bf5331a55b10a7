"""Rows as they were read, with added columns, as CSV."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from marmix.app.reading import Table
from marmix.tables.cells import arrow, as_text, listed, mask, shown

_BLOCK = 2**14  # rows written at a time
_DIGITS = 6
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
    with Path(file).open("wb") if isinstance(file, str | os.PathLike) else nullcontext(file) as target:
        if dialect.bom:
            target.write("\ufeff".encode(dialect.encoding))
        for start in range(-1, table.data.num_rows, _BLOCK):
            first, n = (0, _BLOCK - 1) if start < 0 else (start, _BLOCK)
            columns = [table.text(name, first, n) for name in table.names]
            columns += [_as_cells(values[first : first + n], dialect.decimal) for values in added.values()]
            if start < 0:
                names = [*table.names, *added]
                columns = [
                    pa.concat_arrays([pa.array([name]), cells]) for name, cells in zip(names, columns, strict=True)
                ]
            for j, column in enumerate(columns):
                which = formulas(column, dialect.decimal)
                count += int(which.sum())
                columns[j] = neutralised(column, which) if escape_formulas and which.any() else column
            lines = csv_lines(columns, dialect.delimiter, dialect.newline)
            try:
                target.write(lines if dialect.encoding == "utf-8" else lines.decode().encode(dialect.encoding))
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
    clash = [name for name in added if name in set(names)]
    if clash:
        raise ValueError(f"the file has already {listed(clash)}, as marmix names its columns: rename or remove them.")
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
    return "".join(lines.to_pylist()).encode()
