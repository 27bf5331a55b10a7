"""Cells of one column as features, by what the fit found it to hold."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.batches import arrow
from marmix.tables.cells import shown
from marmix.tables.numbers import as_numbers, missing_cells, trimmed, with_comma
from marmix.tables.survey import TRUTHS, comma, infinite, refuse_type

_KINDS = ("number", "boolean", "category")
_TRUTHS = (*TRUTHS, "0", "1", "0.0", "1.0")  # what a later file may hold where the first had booleans


class ColumnFeatures(NamedTuple):
    """Features of a column (rows, width), and which of its cells are missing or of a category that the fit had not seen."""

    features: NDArray[np.float64]
    missing: NDArray[np.bool_]
    unseen: NDArray[np.bool_]


def feature_names(column: dict[str, Any]) -> list[str]:
    """Names of the features of a column."""
    if column["kind"] == "category":
        return [f"{column['name']}={level}" for level in column["levels"][1:]]
    return [column["name"]]


def column_features(column: dict[str, Any], cells: Any, seen: int) -> ColumnFeatures:
    """Features of some rows, what is missing filled in by the column's rule; `seen` rows came before."""
    refuse_type(column["name"], cells.type)
    return _number(column, cells, seen) if column["kind"] == "number" else _one_hot(column, cells)


def _number(column: dict[str, Any], cells: Any, seen: int) -> ColumnFeatures:
    found = as_numbers(cells)
    wrong = found.odd | np.isinf(found.values)
    if wrong.any():
        i = int(np.argmax(wrong))
        name, cell, row = column["name"], str(cells[i].as_py()), seen + i + 1
        if not found.odd[i]:
            raise ValueError(infinite(name, cell, row))
        if with_comma(trimmed(cells.slice(i, 1)))[0]:
            raise ValueError(comma(name, cell, row))
        raise ValueError(
            f"column {shown(name)} holds {shown(cell)} in data row {row}, where the model was fitted with numbers: correct the "
            "cell, or leave it empty if the number is missing."
        )
    fill = np.nan if column["fill"] is None else column["fill"]
    values = np.where(found.missing, fill, found.values)
    return ColumnFeatures(values[:, None], found.missing, np.zeros(len(values), dtype=bool))


def _one_hot(column: dict[str, Any], cells: Any) -> ColumnFeatures:
    pa, pc = arrow(), arrow(".compute")
    levels, boolean = column["levels"], column["kind"] == "boolean"
    text = trimmed(cells)
    missing = missing_cells(text)
    known = pa.array(_TRUTHS if boolean else levels, pa.string())
    places = pc.index_in(pc.utf8_lower(text) if boolean else text, value_set=known)
    places = places.fill_null(-1).to_numpy(zero_copy_only=False)
    unseen = (places < 0) & ~missing
    fill = -1 if column["fill"] is None else levels.index(column["fill"])
    places = np.where(missing | unseen, fill, places % 2 if boolean else places)[:, None]
    return ColumnFeatures(np.where(places < 0, np.nan, places == np.arange(1, len(levels))), missing, unseen)


def is_column(column: Any) -> bool:
    """Whether a value, which may come from a file, describes a column as a fit does."""
    if not isinstance(column, dict) or not isinstance(column.get("name"), str) or column.get("kind") not in _KINDS:
        return False
    levels, fill = column.get("levels"), column.get("fill")
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        return False
    if column["kind"] == "number":
        return not levels and (fill is None or (isinstance(fill, int | float) and bool(np.isfinite(fill))))
    enough = levels == list(TRUTHS) if column["kind"] == "boolean" else len(levels) > 1
    return enough and (fill is None or fill in levels)
