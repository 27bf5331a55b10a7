"""What a column holds: numbers, categories, or nothing that a model can use."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.batches import arrow
from marmix.tables.cells import listed, shown
from marmix.tables.numbers import Numbers, as_numbers, is_numeric, trimmed, with_comma

TRUTHS = ("false", "true")
_MOSTLY = 0.8  # of the cells are numbers: then the others are mistakes rather than categories
_DATE = r"^([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4})([T ].*)?$"
_LEAVE_OUT = "leave the column out with --exclude"


class Survey:
    """What was seen of a column.

    Parameters
    ----------
    name : str
    max_levels : int
        Different texts up to which a column is one of categories.

    Attributes
    ----------
    rows, missing : int
    """

    def __init__(self, name: str, max_levels: int):
        self.name, self.max_levels = name, max_levels
        self.rows = self.missing = 0
        self._numbers = self._commas = 0
        self._low, self._high = np.inf, -np.inf
        self._odd: tuple[str, int] | None = None
        self._comma: tuple[str, int] | None = None
        self._infinite: tuple[str, int] | None = None
        self._levels: Counter[str] = Counter()

    def add(self, column: Any) -> Numbers:
        """Look at the cells of the next rows."""
        refuse_type(self.name, column.type)
        found = as_numbers(column)
        given = found.values[~(found.missing | found.odd)]
        if self._infinite is None and np.isinf(given).any():
            self._infinite = self._first(column, np.isinf(found.values))
        if len(given):
            self._low, self._high = min(self._low, given.min()), max(self._high, given.max())
        if not is_numeric(column.type) and (found.odd.any() or not self._many):
            self._add_texts(column, found)
        self._numbers += len(given)
        self.missing += int(found.missing.sum())
        self.rows += len(column)
        return found

    def _add_texts(self, column: Any, found: Numbers) -> None:
        pa, pc = arrow(), arrow(".compute")
        text = trimmed(column)
        if found.odd.any():
            self._odd = self._odd or self._first(text, found.odd)
            commas = with_comma(text) & found.odd
            self._commas += int(commas.sum())
            if commas.any():
                self._comma = self._comma or self._first(text, commas)
        if not self._many:
            for entry in pc.value_counts(text.filter(pa.array(~found.missing))).to_pylist():
                self._levels[entry["values"]] += entry["counts"]
                if self._many:
                    return

    def _first(self, column: Any, where: NDArray[np.bool_]) -> tuple[str, int]:
        i = int(np.argmax(where))
        return str(column[i].as_py()), self.rows + i + 1

    @property
    def _many(self) -> bool:
        return len(self._levels) > self.max_levels

    def column(self) -> dict[str, Any] | str:
        """The column as `Preparation` keeps it, or why it is left out; what cannot be used is refused."""
        given, name = self.rows - self.missing, shown(self.name)
        if not given:
            return f"Column {name} has no value and was left out."
        found: dict[str, Any] = {
            "name": self.name,
            "kind": "number",
            "levels": [],
            "fill": None,
            "missing": self.missing,
        }
        if self._numbers == given:
            if self._infinite:
                raise ValueError(infinite(self.name, *self._infinite))
            return found if self._low < self._high else self._constant(f"{self._low:.15g}")
        truths = Counter[str]()
        for level, count in self._levels.items():
            truths[level.lower()] += count
        levels = truths if not self._many and set(truths) <= set(TRUTHS) else self._levels
        if levels is self._levels:
            self._refuse_texts(given)
        if len(levels) == 1:
            return self._constant(next(iter(levels)))
        kind = "boolean" if levels is truths else "category"
        most = min(levels, key=lambda level: (-levels[level], level))
        return found | {"kind": kind, "levels": sorted(levels), "fill": most}

    def _constant(self, value: str) -> str:
        return f"Column {shown(self.name)} has the same value, {shown(value)}, in every row and was left out."

    def _refuse_texts(self, given: int) -> None:
        """Refuse text that is no category."""
        name = shown(self.name)
        if self._comma and self._numbers + self._commas >= _MOSTLY * given:
            raise ValueError(comma(self.name, *self._comma))
        if self._odd and self._numbers >= _MOSTLY * given:
            cell, row = self._odd
            raise ValueError(
                f"column {name} holds {shown(cell)} in data row {row}, and numbers in {self._numbers:,} of {given:,} cells. "
                f"Correct the cell, or leave it empty if the number is missing, or {_LEAVE_OUT}."
            )
        pa, pc = arrow(), arrow(".compute")
        if pc.all(pc.match_substring_regex(pa.array(list(self._levels)), _DATE)).as_py():
            raise ValueError(dates(self.name, listed(self._levels, 1)))
        if self._many:
            raise ValueError(
                f"column {name} has more than {self.max_levels} different values ({listed(self._levels, 3)}), which are not "
                f"numbers: {_LEAVE_OUT}, or with --id if it names the rows."
            )


def refuse_type(name: str, kind: Any) -> None:
    """Refuse what can be neither a number nor a category."""
    types = arrow().types
    if types.is_nested(kind):
        what = str(kind)[:60]
        raise ValueError(f"column {shown(name)} holds {what}: give each part a column of its own, or {_LEAVE_OUT}.")
    if types.is_temporal(kind):
        raise ValueError(dates(name, str(kind)))


def dates(name: str, what: str) -> str:
    """Why dates are refused."""
    return (
        f"column {shown(name)} holds dates or times ({what}): turn them into a number, such as days since an event, "
        f"or {_LEAVE_OUT}."
    )


def comma(name: str, cell: str, row: int) -> str:
    """Why a number with a comma is refused."""
    return (
        f"column {shown(name)} holds {shown(cell)} in data row {row}: write numbers with a decimal point, and nothing between "
        "thousands."
    )


def infinite(name: str, cell: str, row: int) -> str:
    """Why an infinite number is refused."""
    return (
        f"column {shown(name)} holds {shown(cell)} in data row {row}, which is infinite: give a number, or leave the cell "
        "empty if it is missing."
    )
