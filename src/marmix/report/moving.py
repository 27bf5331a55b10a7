"""The two sections that answer: the threshold slider and the table of rows, and the data of both."""

import re
from typing import Any

from marmix.inference.tables import number
from marmix.report import wording
from marmix.report.contents import Contents, RowTable, Thresholds, finite
from marmix.report.markup import NAME, name, plain, readable, table
from marmix.report.sections import Section
from marmix.report.wording import count, percent

PAGE = 25  # rows shown at a time
EXACT = 2**53  # integers beyond are not exact in JavaScript
_LONG_DECIMAL = re.compile(r"[-+]?(?=.{9})\d*\.\d*(e[-+]?\d{1,2})?", re.ASCII | re.IGNORECASE)

Cell = str | int | float | None


def threshold(contents: Contents) -> Section:
    """A slider over thresholds, and a table of a few for paper and for browsers without script."""
    every = contents.thresholds
    lead = wording.threshold_lead(every)
    if not every:
        why = contents.notes.get("threshold", "There were too few labels to compute what a threshold would do.")
        return Section("threshold", "Choose a threshold", lead, f'<p class="note">{plain(why)}</p>')
    options = "".join(f'<option value="{i}">{plain(one.positive, NAME)}</option>' for i, one in enumerate(every))
    select = f'<label class="field">Class<select id="positive">{options}</select></label>' if len(every) > 1 else ""
    tiles = "".join(
        f'<div class="tile {key}"><dt>{title}</dt><dd id="{key}">{wording.DASH}</dd><dd class="quiet">{words}</dd></div>'
        for key, title, words in (
            ("precision", "Precision", "of the rows at or above it belong to the class"),
            ("recall", "Recall", "of the rows of the class are at or above it"),
            ("accuracy", "Accuracy", "of all rows are on the right side of it"),
        )
    )
    sides = "".join(
        f'<div class="side"><p>{title}</p><div class="bar" aria-hidden="true"><span id="{key}-bar"></span></div>'
        f'<p><span><b id="{key}-above"></b> at or above</span> <span><b id="{key}-below"></b> below</span></p></div>'
        for key, title in (("unlabelled", "Rows without label"), ("all", "All rows"))
    )
    body = (
        f'<div id="slider" class="panel" hidden>{select}'
        '<div class="plot"><svg id="curves" viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true"></svg></div>'
        '<label for="cut" class="cut"><span>Threshold for <bdi id="cut-class"></bdi></span>'
        '<output id="cut-value" for="cut"></output></label>'
        f'<input type="range" id="cut" min="0" max="{len(every[0].at) - 1}" step="1" value="{len(every[0].at) // 2}">'
        f'<dl class="tiles">{tiles}</dl>{sides}<p id="cut-words" class="unseen" role="status" aria-live="polite"></p></div>'
        f'<div class="static">{_few(every)}</div>'
        "<noscript><p class='note'>The slider needs JavaScript; the table shows a few thresholds instead.</p></noscript>"
        '<p class="quiet">All three are for all rows, those without a label too, as far as labels and the model can tell.</p>'
    )
    return Section("threshold", "Choose a threshold", lead, body)


def _few(every: list[Thresholds]) -> str:
    """A few thresholds of each class."""
    wanted = (0.1, 0.25, 0.5, 0.75, 0.9) if len(every) <= 4 else (0.5,)
    rows = []
    for one in every:
        places = sorted({min(range(len(one.at)), key=lambda i: abs(one.at[i] - cut)) for cut in wanted})
        rows += [
            [
                name(one.positive),
                percent(one.at[i]),
                percent(one.precision[i], 1),
                percent(one.recall[i], 1),
                percent(one.accuracy[i], 1),
                f"{count(one.unlabelled_above[i])} of {count(one.unlabelled)}",
                f"{count(one.all_above[i])} of {count(one.all)}",
            ]
            for i in places
        ]
    head = ["Class", "Threshold", "Precision", "Recall", "Accuracy", "Without label, at or above", "All, at or above"]
    return table(head, rows, caption="What a few thresholds would do")


def next_rows(contents: Contents) -> Section:
    """The rows most worth labelling next; the first of them also without script."""
    rows = contents.next_rows
    lead = wording.rows_lead(len(rows.rows), rows.of)
    body = _row_table(rows) if rows.rows else ""
    return Section("rows", "Rows most worth labelling next", lead, body)


def _row_table(table_of: RowTable) -> str:
    head = "".join(
        f'<th scope="col"{_numeric(is_number)} aria-sort="none"><button type="button" data-column="{i}">'
        f"<bdi>{plain(title, NAME) or '(no name)'}</bdi></button></th>"
        for i, (title, is_number) in enumerate(zip(table_of.columns, table_of.numeric, strict=True))
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_numeric(is_number)}>{plain(cell_text(_exact(cell), is_number), NAME)}</td>"
            for cell, is_number in zip(row, table_of.numeric, strict=True)
        )
        + "</tr>"
        for row in table_of.rows[:PAGE]
    )
    by_class = '<label class="field">Imputed label<select id="by-class"><option value="">all</option></select></label>'
    by_doubt = (
        '<label class="field"><span>Uncertainty at least <output id="doubt-value" for="doubt"></output></span>'
        '<input type="range" id="doubt" min="0" max="100" step="1" value="0"></label>'
    )
    return (
        '<div id="tools" class="panel tools" hidden>'
        '<label class="field">Search<input type="search" id="search" autocomplete="off" spellcheck="false"></label>'
        f"{by_class if table_of.label is not None else ''}{by_doubt if table_of.uncertainty is not None else ''}"
        '<button type="button" id="download">Download as CSV</button></div>'
        '<p id="shown" class="quiet" role="status" aria-live="polite"></p>'
        '<div class="scroll" role="region" aria-label="Rows most worth labelling next" tabindex="0">'
        '<table class="rows" id="row-table"><caption class="unseen">Rows most worth labelling next; the buttons of the '
        f"header sort</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<button type="button" id="more" hidden>Show {PAGE} more</button>'
        f"<noscript><p class='note'>These are the first {PAGE}; sorting, search and download need JavaScript.</p></noscript>"
    )


def _numeric(is_number: bool) -> str:
    return ' class="number"' if is_number else ' class="text"'


def cell_text(cell: Cell, is_number: bool = False) -> str:
    """A cell as it is shown: integers and text as they are, other numbers, if long also those in text, with about four digits."""
    if cell is None:
        return ""
    if is_number and isinstance(cell, str) and _LONG_DECIMAL.fullmatch(cell.strip()):
        cell = float(cell)
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < EXACT else number(cell)
    return str(cell)


def data(contents: Contents) -> dict[str, Any]:
    """What the script needs: thresholds, and rows with their texts."""
    rows = contents.next_rows
    exact = [[_exact(cell) for cell in row] for row in rows.rows]
    return {
        "thresholds": finite(
            [
                {
                    "positive": readable(one.positive, NAME),
                    "at": one.at,
                    "precision": one.precision,
                    "recall": one.recall,
                    "accuracy": one.accuracy,
                    "unlabelled": {"above": one.unlabelled_above, "of": one.unlabelled},
                    "all": {"above": one.all_above, "of": one.all},
                }
                for one in contents.thresholds
            ]
        ),
        "table": {
            "columns": rows.columns,
            "numeric": rows.numeric,
            "label": rows.label,
            "uncertainty": rows.uncertainty,
            "rows": exact,
            "shown": [
                [readable(cell_text(*cell), NAME) for cell in zip(row, rows.numeric, strict=True)] for row in exact
            ],
            "page": PAGE,
        },
    }


def _exact(cell: Cell) -> Cell:
    """A cell that JSON and JavaScript keep as it is."""
    if isinstance(cell, float) and not abs(cell) < float("inf"):
        return None
    return str(cell) if isinstance(cell, int) and abs(cell) >= EXACT else cell
