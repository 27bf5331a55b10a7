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
    if is_numeric(column.type):
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        missing = np.isnan(values)
        return Numbers(values, missing, np.zeros(len(values), dtype=bool))
    text = trimmed(column)
    missing = missing_cells(text)
    given = arrow(".compute").if_else(pa.array(missing), None, text)
    try:
        values = given.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return _one_by_one(text, missing)
    if np.isfinite(values[~missing]).all():
        return Numbers(values, missing, np.zeros(len(values), dtype=bool))
    return _one_by_one(text, missing)  # pyarrow also reads words such as -NAN


def _one_by_one(text: Any, missing: NDArray[np.bool_]) -> Numbers:
    """The numbers of a column that has other things, too."""
    number = (matching(text, _NUMBER) | matching(text, _INFINITY)) & ~missing
    values = np.full(len(text), np.nan)
    values[number] = [float(cell) for cell in text.filter(arrow().array(number)).to_pylist()]
    return Numbers(values, missing, ~number & ~missing)
