"""Cells of a table as text and as numbers."""

import json
import re
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.core.labels import MISSING_TEXTS

NUMBER = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
WHOLE = re.compile(r"\s*([+-]?[0-9]+)(\.0*)?\s*")
TRUTHS = ("false", "true")
_SHOWN = 40  # characters of a value shown in messages
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_INFINITY = r"(?i)^[+-]?inf(inity)?$"
_SPACED = "[0-9]{1,3}([ \u00a0\u202f'\u2019][0-9]{3})+([.,][0-9]*)?"  # 1 234,5 and 1'234.5
_OTHER_MARK = {
    mark: "^[+-]?("
    rf"[0-9]+[{other}][0-9]*|[{other}][0-9]+"
    rf"|[0-9]{{1,3}}([{other}][0-9]{{2,3}})*[{other}][0-9]{{3}}([{mark}][0-9]*)?"  # 1,234.5, and 1,23,456 in India
    rf"|[0-9]{{1,3}}([{mark}][0-9]{{3}})+([{other}][0-9]*|[{mark}][0-9]{{3}})"
    rf"|{_SPACED})([eE][+-]?[0-9]+)?$"
    for mark, other in (".,", ",.")
}


def arrow(module: str = "") -> Any:
    """Import a module of pyarrow, with advice if it is not installed."""
    try:
        return import_module(f"pyarrow{module}")
    except ModuleNotFoundError:
        raise ImportError(
            "marmix reads tables with pyarrow: pip install 'marmix[io]', or 'marmix[cli]' with the program"
        ) from None


def shown(value: object) -> str:
    """A value in quotes, shortened, for a message."""
    text = str(value)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def can_be_typed(text: str) -> bool:
    """Whether a text is short and visible, so that an option with it can be suggested."""
    return len(text) <= _SHOWN and text.isprintable()


def listed(values: Any, most: int = 10) -> str:
    """The first values of a list, for a message."""
    values = list(values)
    return ", ".join(map(shown, values[:most])) + (", ..." if len(values) > most else "")


def counted(number: int, thing: str) -> str:
    """A number and a noun in singular or plural, for a message."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


@cache
def comma_text() -> Any:
    """The type of text columns whose numbers have a decimal comma."""
    base: Any = arrow().ExtensionType

    class CommaText(base):
        def __init__(self) -> None:
            super().__init__(arrow().string(), "marmix.comma_text")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Any:
            return cls()

    return CommaText()


def decimal_mark(column: Any) -> str:
    """The decimal mark of the numbers in a column of text."""
    return "," if column.type == comma_text() else "."


def plain(array: Any) -> Any:
    """An Arrow array without chunks, dictionaries, runs or extensions, and with all text as `string`."""
    pa, pc = arrow(), arrow(".compute")
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return array.cast(pa.string())
    return array


def as_text(array: Any) -> Any:
    """Return a column as text, as it is written to a CSV file.

    Floats have the fewest digits that give the same number again (no point if whole), dates and times follow ISO 8601
    with a space between them, booleans are true and false. Nested values are written as JSON, bytes that are not text
    as hexadecimal.

    Parameters
    ----------
    array : pyarrow.Array or ChunkedArray
        The column, of any type.

    Returns
    -------
    pyarrow.Array
        Strings; empty for null.

    See Also
    --------
    RowWriter : Writes typed cells in this way.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from marmix.tables import as_text
    >>> as_text(pa.array([1.0, 0.1, None])).to_pylist()
    ['1', '0.1', '']
    >>> as_text(pa.array([True, False])).to_pylist()
    ['true', 'false']
    """
    pa, pc = arrow(), arrow(".compute")
    array = plain(array)
    kind = array.type
    if pa.types.is_nested(kind):
        texts = [None if value is None else json.dumps(value, default=str) for value in array.to_pylist()]
        text = pa.array(texts, pa.string())
    elif _is_bytes(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind):
        text = pa.array([None if value is None else _one_text(value) for value in array.to_pylist()], pa.string())
    else:
        text = array.cast(pa.string())
        if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
            text = pc.replace_substring_regex(text, r"\.0+([^0-9]|$)", r"\1")
    return text.fill_null("")


def text_bytes(text: Any) -> memoryview:
    """The cells of an array of strings, concatenated."""
    _, offsets, data = text.buffers()
    places = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return memoryview(data)[places[0] : places[-1]] if data is not None and len(text) else memoryview(b"")


def checksum(column: Any, start: int, before: tuple[int, ...]) -> tuple[int, ...]:
    """Checksums of the values, lengths and missing cells of a column that comes in parts, however it is split.

    `start` cells come before these, with the checksums `before`.
    """
    column = plain(column)
    values, lengths, missing = before
    if column.null_count:
        missing = zlib.crc32((start + np.flatnonzero(column.is_null())).data, missing)
    if is_numeric(column.type):
        cells = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
        return zlib.crc32(np.ascontiguousarray(cells).data, values), lengths, missing
    text = as_text(column)
    _, offsets, _ = text.buffers()
    places = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return zlib.crc32(text_bytes(text), values), zlib.crc32(np.diff(places).data, lengths), missing


def _is_bytes(kind: Any) -> bool:
    types = arrow().types
    plain_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return plain_bytes or str(kind) == "binary_view"


def _one_text(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


class Numbers(NamedTuple):
    """A column as numbers (NaN for other cells), with masks of missing cells and of cells that are no number."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    odd: NDArray[np.bool_]


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is integer or floating; decimals are converted through text, which is more exact."""
    types = arrow().types
    return types.is_integer(kind) or types.is_floating(kind)


def trimmed(column: Any) -> Any:
    """Cells as text without surrounding whitespace."""
    return arrow(".compute").utf8_trim_whitespace(as_text(column))


def missing_cells(text: Any, markers: Sequence[str] = MISSING_TEXTS) -> NDArray[np.bool_]:
    """Mask of the trimmed cells that mean a missing value."""
    pa, pc = arrow(), arrow(".compute")
    return np.asarray(pc.is_in(text, value_set=pa.array(markers)).to_numpy(zero_copy_only=False))


def matching(text: Any, pattern: str) -> NDArray[np.bool_]:
    """Mask of the cells that match a regular expression."""
    return np.asarray(arrow(".compute").match_substring_regex(text, pattern).to_numpy(zero_copy_only=False))


def with_other_mark(column: Any) -> NDArray[np.bool_]:
    """Mask of the cells that are numbers with thousands separators, or with another decimal mark than the column's."""
    return matching(trimmed(column), _OTHER_MARK[decimal_mark(column)])


def truths(text: Any) -> NDArray[np.integer]:
    """1 for trimmed cells that are true (in any case, or 1), 0 for false, -1 for others."""
    pa, pc = arrow(), arrow(".compute")
    places = pc.index_in(pc.utf8_lower(text), value_set=pa.array([*TRUTHS, "0", "1", "0.0", "1.0"]))
    places = places.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(places < 0, -1, places % 2)


def as_numbers(column: Any, markers: Sequence[str] = MISSING_TEXTS) -> Numbers:
    """A column as numbers; text is parsed like Python's `float`, without underscores and non-ASCII digits."""
    pa, mark = arrow(), decimal_mark(column)
    column = plain(column)
    numeric = is_numeric(column.type)
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) if numeric else _finite(column, mark)
    if values is not None:
        return Numbers(values, np.isnan(values), np.zeros(len(values), dtype=bool))
    text = trimmed(column)
    missing = missing_cells(text, markers)
    values = _finite(text.filter(pa.array(~missing)), mark)
    if values is None:
        return _one_by_one(_with_point(text, mark), missing)
    all_values = np.full(len(text), np.nan)
    all_values[~missing] = values
    return Numbers(all_values, missing, np.zeros(len(text), dtype=bool))


def _with_point(text: Any, mark: str) -> Any:
    """Text with a decimal point in place of the decimal mark; a point that is not the mark makes a cell no number."""
    _, offsets, data = text.buffers()
    if mark == "." or data is None:
        return text
    pointed = arrow().py_buffer(data.to_pybytes().translate(bytes.maketrans(b".,", b";.")))
    return arrow().StringArray.from_buffers(len(text), offsets, pointed, None, 0, text.offset)


def pointed_text(column: Any) -> Any:
    """A column as text, with a decimal point in its numbers."""
    text, mark = as_text(column), decimal_mark(column)
    if mark == ".":
        return text
    numbers = ~np.isnan(as_numbers(column).values)
    return arrow(".compute").if_else(arrow().array(numbers), _with_point(text, mark), text)


def _finite(column: Any, mark: str) -> NDArray[np.float64] | None:
    """Text as finite numbers, or None if some cell is not; pyarrow would also accept words such as -NAN."""
    pa = arrow()
    if column.type != pa.string() or column.null_count:
        return None
    try:
        values = np.asarray(_with_point(column, mark).cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None
    return values if np.isfinite(values).all() else None


def _one_by_one(text: Any, missing: NDArray[np.bool_]) -> Numbers:
    """Numbers of a column in which other cells occur too."""
    number = (matching(text, _NUMBER) | matching(text, _INFINITY)) & ~missing
    values = np.full(len(text), np.nan)
    values[number] = [float(cell) for cell in text.filter(arrow().array(number)).to_pylist()]
    return Numbers(values, missing, ~number & ~missing)
