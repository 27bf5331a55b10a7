"""Tables of results, as text, HTML or a DataFrame."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import fill
from typing import Any

import numpy as np

_DIGITS = 4


@dataclass(frozen=True)
class Table:
    """A table with named rows and columns, facts above and notes below.

    Parameters
    ----------
    title : str
        Shown in the first line.
    columns : list of str
        Names of the columns.
    index : list of str
        Names of the rows.
    rows : list of lists
        Numbers, strings, or None for an empty cell.
    facts : list of (name, value)
        Shown above.
    notes : list of str
        Shown below.
    decimals : dict
        Decimals of columns where four significant digits would not do.

    See Also
    --------
    marmix.compare : returns one; so do the `summary` methods of estimators and of `marmix.Inference`.

    Examples
    --------
    >>> from marmix.inference.tables import Table
    >>> table = Table("Rows", ["count", "share"], ["labelled", "unlabelled"], [[194, 0.341], [375, 0.659]])
    >>> print(table)
    Rows
    -------------------------
                count   share
    labelled      194  0.3410
    unlabelled    375  0.6590
    -------------------------
    >>> table.frame()["count"].sum()
    np.int64(569)
    """

    title: str
    columns: list[str]
    index: list[str]
    rows: list[list[Any]]
    facts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    decimals: dict[str, int] = field(default_factory=dict)

    def as_text(self) -> str:
        """The table as plain text."""
        cells = self._written()
        first = max([len(name) for name in self.index] + [0])
        widths = [max([len(row[i]) for row in cells] + [len(column)]) for i, column in enumerate(self.columns)]
        line = "  ".join([" " * first, *(c.rjust(w) for c, w in zip(self.columns, widths, strict=True))]).rstrip()
        body = [
            "  ".join([name.ljust(first), *(c.rjust(w) for c, w in zip(row, widths, strict=True))]).rstrip()
            for name, row in zip(self.index, cells, strict=True)
        ]
        label = max([len(name) for name, _ in self.facts] + [0])
        facts = [f"{name.ljust(label)}  {value}" for name, value in self.facts]
        rule = "-" * max(len(text) for text in [self.title, line, *facts, *body])
        notes = [fill(note, 100, initial_indent="- ", subsequent_indent="  ") for note in self.notes]
        lines = [self.title, rule, *facts, *([rule] if facts else []), line, *body, rule]
        return "\n".join([*(text.replace("\n", "\\n") for text in lines), *notes])

    def as_html(self) -> str:
        """The table as an HTML fragment, with all values escaped."""
        facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.facts)
        head = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        body = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            + "".join(f"<td style='text-align:right'>{escape(cell)}</td>" for cell in row)
            + "</tr>"
            for name, row in zip(self.index, self._written(), strict=True)
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<div class='marmix-table'><p><strong>{escape(self.title)}</strong></p>"
            + (f"<table>{facts}</table>" if facts else "")
            + f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
            + (f"<ul>{notes}</ul>" if notes else "")
            + "</div>"
        )

    def _written(self) -> list[list[str]]:
        return [
            [written(value, self.decimals.get(column)) for value, column in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]

    def frame(self) -> Any:
        """The table as a pandas DataFrame (install pandas for this)."""
        import pandas as pd

        return pd.DataFrame(self.rows, index=self.index, columns=self.columns)

    def __str__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()


class Shown:
    """Mixin of results that are shown as their `summary`: as text, and as HTML in notebooks."""

    def summary(self) -> Table:
        """The result as a table."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def written(value: Any, decimals: int | None = None) -> str:
    """The text of a cell: four significant digits unless decimals are given, empty for None and NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, float | np.floating):
        return number(float(value)) if decimals is None or np.isinf(value) else f"{value:.{decimals}f}"
    return str(value)


def number(value: float) -> str:
    """A number with about four significant digits, without an exponent if that is short."""
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    size = abs(value)
    if size == 0.0:
        return "0"
    if size < 1e-4 or size >= 1e7:
        return f"{value:.{_DIGITS - 1}e}"
    least = 1 if size < 1e5 else 0
    decimals = int(np.clip(_DIGITS - 1 - np.floor(np.log10(size)), least, 6))
    return f"{value:.{decimals}f}"


def p_text(p: float) -> str:
    """The text of a p-value."""
    return "" if np.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def p_sign(p: float, at_floor: bool = False) -> str:
    """A p-value with its sign, as "= 0.034" or "< 0.01"; `at_floor` if it is the smallest that a simulation can show."""
    text = p_text(p)
    return f"< {p:.2g}" if at_floor else text.replace("<", "< ") if text.startswith("<") else f"= {text}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names joined for a sentence: 'a', 'a and b', 'a, b and c'."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"
