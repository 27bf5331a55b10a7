"""Sheets of Excel workbooks as Arrow tables."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from datetime import datetime, time
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from marmix.tables.cells import arrow, as_text, counted, listed, shown
from marmix.tables.dialect import ROWS, Row, header_place, marks_of, titles_in_words

_ROWS = 8192  # converted at a time
_MOST_ROWS = 2**20  # of a sheet; openpyxl trusts the file
_COMMA = r"^(\s*[+-]?[0-9]*),([0-9]*(?:[eE][+-]?[0-9]+)?\s*)$"  # a number with a decimal comma


def read_sheet(
    path: Path, sheet: str | int | None = None, header_row: int | None = None, decimal: str | None = None
) -> tuple[Any, list[str]]:
    """The chosen or the first sheet as an Arrow table, and what was assumed.

    Each column has the type of its cells; cells of several types become text, and text with decimal commas gets decimal points.
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
            title = _title(path, list(pages), sheet)
            assumed, others = [], listed([other for other in pages if other != title])
            if sheet is None and others:
                assumed.append(f"The sheet {shown(title)} was read, not {others}; --sheet names another.")
            rows = _rows(path, pages[title])
            first = list(islice(rows, ROWS))
            if not first:
                raise ValueError(f"{path}: sheet {shown(title)} is empty. Choose another with --sheet.")
            blank = min(next(j for j, cell in enumerate(cells) if cell is not None) for _, cells in first)
            texts = [Row(number, _texts(cells[blank:])) for number, cells in first]
            width = max(len(row.cells) for row in texts)  # rows end with their last filled cell
            place = header_place(texts, header_row, f"{path}: sheet {shown(title)}", "row", width)
            if header_row is None:
                assumed += titles_in_words(texts, place, "row")
            names = list(texts[place].cells)
            chunks: list[list[Any]] = []
            rows = chain(first[place + 1 :], rows)
            while block := list(islice(rows, _ROWS)):
                chunks.append([_array(column) for column in _columns(path, names, block, _ROWS * len(chunks), blank)])
            if not chunks and others:
                raise ValueError(f"{path}: sheet {shown(title)} has no rows. Choose another with --sheet: {others}.")
        finally:
            book.close()
    columns = [_joined([chunk[j] for chunk in chunks]) for j in range(len(names))]
    commas = [j for j, column in enumerate(columns) if _has_commas(names[j], column, decimal)]
    for j in commas:
        columns[j] = arrow(".compute").replace_substring_regex(columns[j], _COMMA, r"\1.\2")
    if commas and decimal is None:
        assumed.append(
            f"Numbers with a decimal comma were stored as text in {listed([names[j] for j in commas])} and read as numbers; "
            "--decimal . says otherwise."
        )
    return arrow().Table.from_arrays(columns, names), assumed


def _title(path: Path, titles: list[str], sheet: str | int | None) -> str:
    """The title of the sheet with this title or number, by default of the first."""
    if sheet is None:
        return titles[0]
    text = str(sheet)
    if text not in titles and text.isascii() and text.isdecimal() and 0 < int(text) <= len(titles):
        return titles[int(text) - 1]
    if text not in titles:
        raise ValueError(f"{path} has no sheet {shown(text)}: its sheets are {listed(titles)}.")
    return text


def _has_commas(name: str, column: Any, decimal: str | None) -> bool:
    """Whether the numbers of a column are text with decimal commas: so shown by its cells, or given by the user."""
    if decimal == "." or column.type != arrow().string():
        return False
    certain, doubtful = marks_of(name, as_text(column).to_pylist())
    return "," in (certain if decimal is None else certain | doubtful) and "." not in certain


def _rows(path: Path, page: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Rows that are not empty, without trailing empty cells, and their numbers from 1."""
    try:
        page.reset_dimensions()  # the file may state them wrongly
        for number, row in enumerate(page.iter_rows(values_only=True), 1):
            if number > _MOST_ROWS:
                raise ValueError("it has more rows than a sheet can have")
            end = max((j for j, cell in enumerate(row, 1) if cell is not None), default=0)
            if end:
                yield number, row[:end]
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(_damaged(path, error)) from None


def _columns(
    path: Path, names: list[str], block: list[tuple[int, tuple[Any, ...]]], seen: int, blank: int
) -> list[tuple[Any, ...]]:
    """The columns of a block of rows, without the first `blank` ones."""
    for row, (_, cells) in enumerate(block, seen + 1):
        if any(cell is not None for cell in cells[:blank]) or len(cells) > blank + len(names):
            raise ValueError(
                f"{path}: data row {row} has {counted(len(cells), 'cell')}, where the row of names has "
                f"{counted(len(names), 'name')} from column {blank + 1} on. Name every column, or choose the row by --header-row."
            )
    columns = list(zip_longest(*(cells[blank:] for _, cells in block)))
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
