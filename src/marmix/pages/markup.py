"""Pieces of HTML: escaped text, tables, and data for the script."""

import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any

NAME = 60  # characters shown of a name or a cell
SENTENCE = 1200

# Not allowed in HTML: control characters, lone surrogates, non-characters.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def readable(text: str, limit: int | None = SENTENCE) -> str:
    """Text from the data, with invalid characters replaced, shortened to `limit` characters."""
    printable = _UNPRINTABLE.sub("\ufffd", text)
    return printable if limit is None or len(printable) <= limit else printable[: limit - 1].rstrip() + "…"


def plain(text: str, limit: int | None = SENTENCE) -> str:
    """Text from the data, readable and escaped for HTML."""
    return escape(readable(text, limit)).replace("\r", "&#13;")  # which an HTML parser turns into a line feed


def name(text: str) -> str:
    """A name from the data for use in a sentence, with its writing direction isolated."""
    return f"<bdi>{plain(text, NAME) or '(empty)'}</bdi>"


def quoted(text: str) -> str:
    """A name from the data in quotation marks, for use in a sentence."""
    return f"\u2018{name(text)}\u2019"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str,
    words: int = 1,
    kind: str = "figures",
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """A table in a scrolling box; `head` and `rows` are HTML, the first `words` columns hold text.

    `groups` are titles above several columns of the head, with the number of these columns.
    """
    columns = "".join(f'<th scope="col"{_side(i < words)}>{cell}</th>' for i, cell in enumerate(head))
    above = "".join(
        f'<th scope="colgroup" colspan="{n}">{title}</th>' if title else f'<td colspan="{n}"></td>'
        for title, n in groups
    )
    above = above and f'<tr class="groups">{above}</tr>'
    body = "".join("<tr>" + "".join(_cell(cell, i, i < words) for i, cell in enumerate(row)) + "</tr>" for row in rows)
    label = escape(caption)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table class="{kind}">'
        f'<caption class="unseen">{label}</caption><thead>{above}<tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cell(cell: str, place: int, is_text: bool) -> str:
    return f'<th scope="row" class="text">{cell}</th>' if place == 0 else f"<td{_side(is_text)}>{cell}</td>"


def _side(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def data_block(key: str, value: Any) -> str:
    """Data for the script as JSON, escaped so that it cannot end the block or be read as HTML."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII only
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{key}">{text}</script>'
