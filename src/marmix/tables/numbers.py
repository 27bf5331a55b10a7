"""Columns of any type as numbers: what is one, what is missing, and what is neither."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.batches import arrow
from marmix.tables.cells import MISSING_CELLS, as_text, plain

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_INFINITY = r"(?i)^[+-]?inf(inity)?$"
_COMMA = r"^[+-]?[0-9.]*,[0-9.,]*([eE][+-]?[0-9]+)?$"


class Numbers(NamedTuple):
    """Of a column: the numbers, NaN where there is none; the missing cells; those that are neither."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    odd: NDArray[np.bool_]


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type has only numbers. Decimals do not count: as text they are read more exactly."""
    types = arrow().types
    return types.is_integer(kind) or types.is_floating(kind)


def trimmed(column: Any) -> Any:
    """Cells as text, without blanks around it."""
    return arrow(".compute").utf8_trim_whitespace(as_text(column))


def missing_cells(text: Any) -> NDArray[np.bool_]:
    """Which trimmed cells mean that there is no value."""
    pa, pc = arrow(), arrow(".compute")
    return np.asarray(pc.is_in(text, value_set=pa.array(MISSING_CELLS)).to_numpy(zero_copy_only=False))


def matching(text: Any, pattern: str) -> NDArray[np.bool_]:
    """Which cells a regular expression fits."""
    return np.asarray(arrow(".compute").match_substring_regex(text, pattern).to_numpy(zero_copy_only=False))


def with_comma(text: Any) -> NDArray[np.bool_]:
    """Which trimmed cells are numbers with a comma in them."""
    return matching(text, _COMMA)


def as_numbers(column: Any) -> Numbers:
    """A column as numbers; text as Python's `float` reads it, but for underscores and the digits of other scripts."""
    pa = arrow()
    column = plain(column)
    numeric = is_numeric(column.type)
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) if numeric else _finite(column)
    if values is not None:
        return Numbers(values, np.isnan(values), np.zeros(len(values), dtype=bool))
    text = trimmed(column)
    missing = missing_cells(text)
    values = _finite(text.filter(pa.array(~missing)))
    if values is None:
        return _one_by_one(text, missing)
    all_values = np.full(len(text), np.nan)
    all_values[~missing] = values
    return Numbers(all_values, missing, np.zeros(len(text), dtype=bool))


def _finite(column: Any) -> NDArray[np.float64] | None:
    """Text as finite numbers, or None if it is not all such; pyarrow would also read words such as -NAN."""
    pa = arrow()
    if column.type != pa.string() or column.null_count:
        return None
    try:
        values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None
    return values if np.isfinite(values).all() else None


def _one_by_one(text: Any, missing: NDArray[np.bool_]) -> Numbers:
    """The numbers of a column that has other things, too."""
    number = (matching(text, _NUMBER) | matching(text, _INFINITY)) & ~missing
    values = np.full(len(text), np.nan)
    values[number] = [float(cell) for cell in text.filter(arrow().array(number)).to_pylist()]
    return Numbers(values, missing, ~number & ~missing)
