"""Sheets of Excel workbooks as Arrow tables."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from datetime import datetime, time
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from marmix.tables.cells import arrow, as_text, counted, listed, shown

_ROWS = 8192  # converted at a time
_MOST_ROWS = 2**20  # of a sheet; openpyxl trusts the file


def read_sheet(path: Path, sheet: str | None) -> Any:
    """The named or the first sheet as an Arrow table.

    Each column has the type of its cells; cells of several types become text.
    """
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise ImportError("marmix reads Excel files with openpyxl: pip install 'marmix[cli]'") from None
    with open(path, "rb") as file, warnings.catch_warnings(), redirect_stdout(None):
        warnings.simplefilter("ignore")  # openpyxl warns about unknown styles, and prints
        try:
            book = load_workbook(file, read_only=True, data_only=True)
            pages = {page.title: page for page in book.worksheets}
        except Exception as error:  # a damaged file can raise anything
            raise ValueError(_damaged(path, error)) from None
        try:
            if not pages:
                raise ValueError(f"{path} has no sheet with cells.")
            title = next(iter(pages)) if sheet is None else sheet
            if title not in pages:
                raise ValueError(f"{path} has no sheet {shown(title)}: its sheets are {listed(pages)}.")
            rows = _rows(path, pages[title])
            head = next(rows, None)
            if head is None:
                raise ValueError(f"{path}: sheet {shown(title)} is empty. Choose another with --sheet.")
            names: list[str] = _texts(head)
            chunks: list[list[Any]] = []
            while block := list(islice(rows, _ROWS)):
                chunks.append([_array(column) for column in _columns(path, names, block, _ROWS * len(chunks))])
        finally:
            book.close()
    return arrow().Table.from_arrays([_joined([chunk[j] for chunk in chunks]) for j in range(len(names))], names)


def _rows(path: Path, page: Any) -> Iterator[tuple[Any, ...]]:
    """Rows that are not empty, without trailing empty cells."""
    try:
        page.reset_dimensions()  # the file may state them wrongly
        for number, row in enumerate(page.iter_rows(values_only=True)):
            if number == _MOST_ROWS:
                raise ValueError("it has more rows than a sheet can have")
            end = max((j for j, cell in enumerate(row, 1) if cell is not None), default=0)
            if end:
                yield row[:end]
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(_damaged(path, error)) from None


def _columns(path: Path, names: list[str], block: list[tuple[Any, ...]], seen: int) -> list[tuple[Any, ...]]:
    columns = list(zip_longest(*block))
    if len(columns) > len(names):
        row = next(i for i, cells in enumerate(block, seen + 1) if len(cells) > len(names))
        raise ValueError(
            f"{path}: data row {row} has {len(block[row - seen - 1]):,} cells, where the first row has "
            f"{counted(len(names), 'name')}. Name every column in the first row."
        )
    return columns + [(None,) * len(block)] * (len(names) - len(columns))


def _array(values: Sequence[Any]) -> Any:
    """Cells of a column as an array of their type, or of text if they have several."""
    pa = arrow()
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {int}:
        fits = all(abs(value) < 2**63 for value in values if value is not None)
        return pa.array(values, pa.int64() if fits else pa.float64())
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    types = {bool: pa.bool_(), str: pa.string(), datetime: pa.timestamp("us"), time: pa.time64("us")}
    if len(kinds) == 1 and kinds <= set(types):
        return pa.array(values, types[kinds.pop()])
    return pa.array(_texts(values), pa.string())


def _texts(values: Sequence[Any]) -> list[str]:
    """Cells of any types as text, each as in a column of its type."""
    texts = [""] * len(values)
    for kind in {type(value) for value in values if value is not None}:
        places = [i for i, value in enumerate(values) if type(value) is kind]
        cells = [values[i] for i in places]
        plain = kind in (bool, int, float, str, datetime, time)
        for i, text in zip(places, as_text(_array(cells)).to_pylist() if plain else map(str, cells), strict=True):
            texts[i] = text
    return texts


def _joined(parts: list[Any]) -> Any:
    """Concatenate parts of a column in a common type; timestamps at midnight become dates."""
    pa, pc = arrow(), arrow(".compute")
    kinds = {part.type for part in parts if not pa.types.is_null(part.type)} or {pa.null()}
    if kinds == {pa.int64(), pa.float64()}:
        kinds = {pa.float64()}
    if len(kinds) > 1:
        return pa.chunked_array([as_text(part) for part in parts], pa.string())
    (kind,) = kinds
    column = pa.chunked_array([part.cast(kind, safe=False) for part in parts], kind)
    if pa.types.is_timestamp(kind):
        days = column.cast(pa.date32(), safe=False)
        if pc.all(pc.equal(days.cast(kind), column), min_count=0).as_py():
            return days
    return column


def _damaged(path: Path, error: Exception) -> str:
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return (
        f"{path} cannot be read as an Excel workbook ({reason}). Open it in Excel and save it again, or save it as CSV."
    )
