"""Cells of a table as text: how values are written in a CSV file, and which texts mean that there is none."""

import json
from typing import Any

from marmix.batches import arrow

MISSING_CELLS = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT", "?")
_SHOWN = 40  # characters of a value that an error shows


def shown(value: object) -> str:
    """A value of the data for a message: quoted, on one line, and not longer than people read."""
    text = str(value)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def listed(values: Any, most: int = 10) -> str:
    """Some values for a message."""
    values = list(values)
    return ", ".join(map(shown, values[:most])) + (", ..." if len(values) > most else "")


def counted(number: int, thing: str) -> str:
    """A number of things, for a message."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def plain(array: Any) -> Any:
    """An Arrow array without the ways of storing it: no dictionary, no runs, no extension; all text as one type."""
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
    """A column as it is written in a CSV file.

    Integers are plain, floats have the fewest digits that give the same number again (whole ones no point), dates and times are
    as in ISO 8601 with a blank between them, booleans are true and false. Lists and the like are written as JSON, bytes that are
    no text in hexadecimal digits.

    Parameters
    ----------
    array : pyarrow.Array or ChunkedArray

    Returns
    -------
    pyarrow.Array
        Strings, empty where `array` is null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from marmix.tables import as_text
    >>> as_text(pa.array([1.0, 0.1, None])).to_pylist()
    ['1', '0.1', '']
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


def _is_bytes(kind: Any) -> bool:
    types = arrow().types
    known = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return known or str(kind) == "binary_view"


def _one_text(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()
