"""The report as one HTML page, without other files or network access."""

import base64
import re
import struct
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from marmix.app import wording
from marmix.app.figures import TITLES
from marmix.app.findings import Contents, Figure, Findings, Interval, RowTable, Thresholds, finite
from marmix.inference.sensitivity import times
from marmix.inference.tables import number
from marmix.plotting.predictions import CURVES_TOGETHER
from marmix.tables.cells import counted

SECTIONS = {  # a template each, and its short title
    "verdict": "Verdict",
    "warnings": "Warnings",
    "classes": "Classes",
    "rows": "Rows to label",
    "missingness": "Missing labels",
    "trust": "Trust",
    "threshold": "Threshold",
    "shapes": "Shapes",
    "sensitivity": "What if",
    "models": "Models",
    "reproduce": "Reproduce",
}
NAME, SENTENCE = 60, 1200  # characters shown of a name or a cell, and of other text
PAGE = 25  # rows shown at a time
WIDE = 900  # pixels of a picture that spans the page
EXACT = 2**53  # larger integers are not exact in JavaScript
SHORT_NAME = 16  # characters of the names of classes whose tables stand side by side
MANY_CLASSES = 30  # classes listed unfolded, and with a confusion matrix
MATRIX = 12  # classes whose confusion matrix is unfolded
CONFUSIONS = 12  # most frequent confusions listed
SHADES = 5  # of the cells of the matrix
CUTS, ONE_CUT = (0.1, 0.25, 0.5, 0.75, 0.9), (0.5,)  # thresholds in the table, for few and for many classes
ODDS = (0.25, 0.5, 2.0, 4.0)  # odds ratios in the table

# Not allowed in HTML: control characters, lone surrogates, non-characters.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LONG_DECIMAL = re.compile(r"[-+]?(?=.{9})\d*\.\d*(e[-+]?\d{1,2})?", re.ASCII | re.IGNORECASE)
_MECHANISM = re.compile(r"alpha_[01]|shape|share|alpha\[.*")  # names of parameters
Cell = str | int | float | None


def report_html(contents: Contents) -> str:
    """A report as one HTML file.

    It opens offline, in light and dark mode, on a phone and on paper. Its Content-Security-Policy allows embedded pictures and,
    by their hashes, one style sheet and one script. Every value from the data is escaped, and shortened if long.
    """
    findings, labels = contents.findings, contents.findings.labels
    reasons = findings.verdict.reasons if findings.verdict else []
    others = [one for one in findings.cautions if one.text not in reasons]
    facts, estimates = labels.classes, findings.estimates
    order = sorted(facts, key=lambda one: -(one.given + one.imputed)) if len(facts) > MANY_CLASSES else facts
    return str(
        environment()
        .get_template("page.html")
        .render(
            contents=contents,
            findings=findings,
            labels=labels,
            sections={key: link for key, link in SECTIONS.items() if key != "warnings" or others},
            advice={one.text: one.advice for one in findings.cautions},
            warned=[one for one in others if one.level != "note"],
            notes=[one for one in others if one.level == "note"],
            decimals=wording.decimals_of(findings.scoreboard),
            classes=(order[:MANY_CLASSES], order[MANY_CLASSES:]),
            short_names=max((len(one.name) for one in facts), default=0) <= SHORT_NAME,
            matrix=_matrix(findings),
            confusions=_confusions(findings),
            figures={drawing.key: _picture(drawing) for drawing in contents.figures},
            many_curves=len(facts) > CURVES_TOGETHER,
            cuts=_few(contents.thresholds),
            rows=_texts(contents.next_rows, contents.next_rows.rows[:PAGE]),
            odds=_odds(findings),
            mechanism=[one for one in estimates if _MECHANISM.fullmatch(one.name)],
            parameters=[one for one in estimates if not _MECHANISM.fullmatch(one.name)],
            data=script_data(contents),
        )
    )


@cache
def environment() -> Any:
    """The templates, with the filters that they use; every value is made readable and escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    def shown(value: Any, limit: int | None = SENTENCE) -> Any:
        return readable(value, limit) if isinstance(value, str) and not isinstance(value, Markup) else value

    def named(text: str) -> Any:
        return Markup(f"<bdi>{escape(readable(text, NAME)) or '(empty)'}</bdi>")

    environment = Environment(
        loader=PackageLoader("marmix.app"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {
        "short": lambda value: readable(str(value), NAME),
        "whole": lambda text: Markup(escape(readable(text, None))),
        "name": named,
        "count": "{:,}".format,
        "value": _value,
        "counted": counted,
        **{name: getattr(wording, name) for name in ("percent", "share_of", "loss", "figure", "estimate")},
    }
    css, js = (
        files("marmix.app").joinpath("templates", name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    environment.globals |= {
        "css": Markup(css),
        "js": Markup(js),
        "policy": policy(css, js),
        "words": wording,
        "titles": TITLES,
        "page_size": PAGE,
        "matrix_size": MATRIX,
        "many_classes": MANY_CLASSES,
    }
    return environment


def policy(css: str, js: str, images: str = "data:") -> str:
    """The Content-Security-Policy that allows only this style sheet and this script."""
    style, script = (base64.b64encode(sha256(text.encode()).digest()).decode() for text in (css, js))
    return (
        f"default-src 'none'; img-src {images}; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def readable(text: str, limit: int | None = SENTENCE) -> str:
    """Text from the data, with invalid characters replaced, shortened to `limit` characters."""
    printable = _UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
    return printable if limit is None or len(printable) <= limit else printable[: limit - 1].rstrip() + "…"


def _value(value: Any) -> str:
    """A setting or score of a candidate."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return wording.loss(value) if value is None or isinstance(value, float) else readable(str(value), NAME)


class MatrixCell(NamedTuple):
    """A cell of the confusion matrix: its text, and a class of the style sheet."""

    text: str
    shade: str


def _stated(findings: Findings) -> list[list[float | None]]:
    """The confusion matrix, with None where precision or recall cannot be stated."""
    facts = findings.labels.classes
    return [
        [
            None if true.recall.value is None or called.precision.value is None else value
            for called, value in zip(facts, row, strict=True)
        ]
        for true, row in zip(facts, findings.confusion or [], strict=False)
    ]


def _matrix(findings: Findings) -> list[tuple[str, list[MatrixCell]]]:
    """Expected numbers of imputed labels by true and imputed class, coloured by their share of the imputed class."""
    facts = findings.labels.classes
    if not findings.labels.imputed or len(facts) > MANY_CLASSES:
        return []

    def cell(value: float | None, i: int, j: int) -> MatrixCell:
        if value is None:
            return MatrixCell(wording.DASH, "")
        shade = min(SHADES, int(value / max(facts[j].imputed, 1) * SHADES) + 1)
        return MatrixCell(_expected(value), f"{'right' if i == j else 'wrong'}-{shade}" if value >= 0.5 else "")

    return [
        (facts[i].name, [cell(value, i, j) for j, value in enumerate(row)]) for i, row in enumerate(_stated(findings))
    ]


def _confusions(findings: Findings) -> list[tuple[str, str, str, str]]:
    """The most frequent confusions: true class, imputed class, expected rows, and their share of those imputed so."""
    facts = findings.labels.classes
    pairs = [
        (value, true, called)
        for true, row in zip(facts, _stated(findings), strict=False)
        for called, value in zip(facts, row, strict=True)
        if true is not called and value is not None and value >= 0.5
    ]
    return [
        (true.name, called.name, _expected(value), wording.percent(min(value / max(called.imputed, 1), 1.0)))
        for value, true, called in sorted(pairs, key=lambda pair: -pair[0])[:CONFUSIONS]
    ]


def _expected(value: float) -> str:
    """An expected number of rows, empty if it rounds to none."""
    return f"{int(value + 0.5):,}" if value >= 0.5 else ""


def _picture(drawing: Figure) -> dict[str, Any]:
    """A figure with its size from the PNG header, so that the page does not move while it loads."""
    width, height = struct.unpack(">II", drawing.light[16:24])
    light, dark = (f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in (drawing.light, drawing.dark))
    caption = drawing.caption.replace(" %", f"{wording.SPACE}%")
    return {"title": drawing.title, "caption": caption, "light": light, "dark": dark} | {
        "width": width,
        "height": height,
        "wide": width > WIDE,
    }


def _few(entries: Sequence[Thresholds]) -> list[tuple[str, list[str]]]:
    """A few thresholds for each class, for paper and browsers without JavaScript."""
    table = []
    for entry in entries:
        for i in sorted({wording.nearest(entry.at, cut) for cut in (CUTS if len(entries) <= 4 else ONE_CUT)}):
            scores = [wording.percent(values[i], 1) for values in (entry.precision, entry.recall, entry.accuracy)]
            unlabelled = f"{entry.unlabelled_above[i]:,} of {entry.unlabelled:,}"
            together = f"{entry.all_above[i]:,} of {entry.all:,}"
            table.append((entry.positive, [wording.percent(entry.at[i]), *scores, unlabelled, together]))
    return table


def _odds(findings: Findings) -> list[tuple[str, list[Interval]]]:
    """What follows at a few odds ratios: the share of the class, and the shares of labels that are wrong and that change."""
    facts = findings.sensitivity
    if facts is None:
        return []
    columns = (
        (facts.share, facts.share_interval),
        (facts.wrong, facts.wrong_interval),
        (facts.changed, facts.changed_interval),
    )
    return [
        (f"{times(facts.odds_ratio[i])} as likely", [Interval(values[i], *ends[i]) for values, ends in columns])
        for i in sorted({wording.nearest(facts.odds_ratio, odds) for odds in ODDS})
        if facts.odds_ratio[i] != 1.0
    ]


def cell_text(cell: Cell, is_number: bool = False) -> str:
    """A cell as text; decimals, and long decimals written as text, are rounded to about four digits."""
    if cell is None or (isinstance(cell, float) and not abs(cell) < float("inf")):
        return ""
    if is_number and isinstance(cell, str) and _LONG_DECIMAL.fullmatch(cell.strip()):
        cell = float(cell)
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < EXACT else number(cell)
    return readable(str(cell), NAME)


def _texts(table: RowTable, rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """Rows of the table as they are shown."""
    return [[cell_text(*cell) for cell in zip(row, table.numeric, strict=True)] for row in rows]


def script_data(contents: Contents) -> dict[str, Any]:
    """The data for the script: thresholds, and rows with their texts."""
    rows = contents.next_rows
    exact = [[_exact(cell) for cell in row] for row in rows.rows]
    return {
        "thresholds": finite(
            [
                {
                    "positive": readable(entry.positive, NAME),
                    "at": entry.at,
                    "precision": entry.precision,
                    "recall": entry.recall,
                    "accuracy": entry.accuracy,
                    "unlabelled": {"above": entry.unlabelled_above, "of": entry.unlabelled},
                    "all": {"above": entry.all_above, "of": entry.all},
                }
                for entry in contents.thresholds
            ]
        ),
        "table": {
            "columns": rows.columns,
            "numeric": rows.numeric,
            "label": rows.label,
            "uncertainty": rows.uncertainty,
            "rows": exact,
            "shown": _texts(rows, exact),
            "page": PAGE,
        },
    }


def _exact(cell: Cell) -> Cell:
    """A cell that JSON and JavaScript represent exactly."""
    if isinstance(cell, float) and not abs(cell) < float("inf"):
        return None
    return str(cell) if isinstance(cell, int) and abs(cell) >= EXACT else cell
