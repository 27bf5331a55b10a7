"""Pages of the study: their parts, and how they are written as CSV, Markdown, HTML and figures."""

import base64
import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marmix.inference.tables import Table
from marmix.outputs import write_whole
from marmix.study.pieces import Piece, Plan, Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper (or a question beside it) and the evidence on it.

    Attributes
    ----------
    sentence : str
        The claim.
    verdict : str
        "holds", "in part", "mixed", "mostly not", "does not hold", "not reproduced", "undecided", or an answer to a question.
    evidence : str
        The numbers, in a sentence or two.
    details : str
        Further numbers, shown on the item's own page only.
    """

    sentence: str
    verdict: str
    evidence: str
    details: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading within a page."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True)
class Sheet:
    """A table to read, and its numbers in full precision for `stem`.csv, one record a row."""

    stem: str
    table: Table
    records: list[dict[str, Any]]


@dataclass(frozen=True)
class Picture:
    """A figure for `stem`.png and `stem`.svg, with a caption that describes it in words."""

    stem: str
    caption: str
    figure: "Figure"


Block = Heading | Paragraph | Sheet | Picture


@dataclass(frozen=True)
class Page:
    """The results of an item: claims with their verdicts, then tables, figures and text."""

    name: str
    title: str
    claims: list[Claim]
    blocks: Sequence[Block] = ()


@dataclass(frozen=True)
class Item:
    """An item of the study.

    Attributes
    ----------
    name, title : str
    pieces : callable
        Plan -> the pieces that it needs.
    page : callable
        Plan and values of the pieces -> `Page`.
    magic : bool
        Whether it needs the MAGIC data.
    """

    name: str
    title: str
    pieces: Callable[[Plan], Sequence[Piece]]
    page: Callable[[Plan, Values], Page]
    magic: bool = False


TITLE = "The paper, checked"
PAPER = "Semi-Supervised Mixture Models under the Concept of Missing at Random with Margin Confidence and Aranda-Ordaz Function"
CHECKED = (
    "Its tables and figures are computed three times: as published, with scores on the rows that the models were fitted "
    "to; again with the logistic baseline the right way round, because the published scores have its two classes swapped; "
    "and on fresh rows, over many samples with 95 % intervals and against stronger baselines. Claims that begin with "
    "'Beyond the paper' answer questions that it leaves open."
)
TIMES = "All items take about an hour at the full size and about three minutes at the small size, on two cores."
READING = (
    "± is half the length of a 95 % interval over replicates. 'Clearly' better or worse means at the 5 % level, with "
    "Holm's correction for the number of comparisons. A claim about differences holds where all of them are clear in its "
    "direction; it holds in part where some are and none is clear in the opposite direction; it is mixed (or mostly not "
    "so) where some are clear each way; it does not hold where only the opposite is clear; and it is undecided otherwise. "
    "If a claim needs a margin, the margin is given beside it. For LogLoss, Brier score and calibration error smaller is "
    "better; for AUC and accuracy larger is better."
)
VERDICT_CLASSES = {
    "holds": "holds",
    **dict.fromkeys(("in part", "mixed", "undecided"), "partly"),
    **dict.fromkeys(("mostly not", "does not hold", "not reproduced"), "fails"),
}  # CSS classes


# Files of an item.


def write_item(page: Page, command: str, folder: Path) -> None:
    """Write an item's Markdown, a CSV file for each table, and a PNG and an SVG file for each figure."""
    for block in page.blocks:
        if isinstance(block, Sheet):
            write_whole(folder / f"{block.stem}.csv", as_csv(block))
        elif isinstance(block, Picture):
            for ending in ("png", "svg"):
                # neither date nor version of the program, so that the same numbers give the same file
                metadata = {"Date": None, "Creator": None} if ending == "svg" else {"Software": None}
                buffer = io.BytesIO()
                block.figure.savefig(buffer, format=ending, metadata=metadata)
                write_whole(folder / f"{block.stem}.{ending}", buffer.getvalue())
    write_whole(folder / f"{page.name}.md", as_markdown(page, command))


def as_csv(sheet: Sheet) -> str:
    """The records of a sheet as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(sheet.records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(sheet.records)
    return text.getvalue()


def as_markdown(page: Page, command: str) -> str:
    """A page as Markdown: its claims, then its blocks."""
    details = [f"- {claim.sentence} {claim.details}" for claim in page.claims if claim.details]
    parts = [f"# {page.title}", f"`{command}`", claims_table([page]), "\n".join(details)]
    parts += [_block_markdown(block) for block in page.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def _block_markdown(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {text}"
        case Paragraph(text):
            return text
        case Sheet(stem, table):
            return f"{table.as_markdown()}\n\n[{stem}.csv]({stem}.csv)"
        case Picture(stem, caption):
            return f"![{caption}]({stem}.png)\n\n*{caption}*"


def claims_table(pages: Sequence[Page]) -> str:
    """The claims of all pages as a Markdown table."""
    lines = ["| claim | verdict | what the numbers say |", "|---|---|---|"]
    for page in pages:
        for claim in page.claims:
            cells = (claim.sentence, f"**{claim.verdict}**", claim.evidence)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


# The index of all items.


def index_markdown(pages: Sequence[Page], left_out: dict[str, str], command: str, facts: str) -> str:
    """An introduction, all claims with their verdicts, and links to the items."""
    lines = [
        f"# {TITLE}",
        f"marmix started from a paper: J. Liao and Z. Lyu, *{PAPER}*. This page says which of its claims hold. {CHECKED}",
        "One command computes the numbers and writes this page:",
        f"`{command}`",
        f"{facts} {TIMES}",
        *_left_out_lines(left_out),
        "## Verdicts",
        verdict_counts([claim for page in pages for claim in page.claims]),
        READING,
        claims_table(pages),
        "## Tables and figures",
        "\n".join(f"- [{page.title}]({page.name}.md)" for page in pages),
    ]
    return "\n\n".join(lines) + "\n"


def verdict_counts(claims: Sequence[Claim]) -> str:
    """A sentence that counts the claims by verdict, from those that hold to those that do not."""
    counts = Counter(claim.verdict for claim in claims)
    parts = [f"{verdict} ({counts[verdict]})" for verdict in VERDICT_CLASSES if counts[verdict]]
    answers = sum(count for verdict, count in counts.items() if verdict not in VERDICT_CLASSES)
    parts += [f"questions answered ({answers})"] * bool(answers)
    return f"{len(claims)} claims: {', '.join(parts)}."


def _left_out_lines(left_out: dict[str, str]) -> list[str]:
    return [f"Left out: {name}. {reason}" for name, reason in left_out.items()]


def index_html(pages: Sequence[Page], left_out: dict[str, str], command: str, facts: str) -> str:
    """All pages in one self-contained HTML file that makes no network requests."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    links = "".join(f'<li><a href="#{page.name}">{escape(page.title)}</a></li>' for page in pages)
    missing = "".join(f"<p><strong>{escape(text)}</strong></p>" for text in _left_out_lines(left_out))
    body = "".join(_page_html(page) for page in pages)
    css = files("marmix.study").joinpath("page.css").read_text(encoding="utf-8")
    claims = [claim for page in pages for claim in page.claims]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{TITLE}</title><style>{css}</style></head><body><h1>{TITLE}</h1>"
        f"<p>marmix started from a paper: J. Liao and Z. Lyu, <em>{PAPER}</em>. This page says which of its claims hold. "
        f"{escape(CHECKED)}</p><p>{escape(facts)} {TIMES} Made by <code>{escape(command)}</code></p>{missing}"
        f"<h2>Verdicts</h2><p>{verdict_counts(claims)}</p><p>{escape(READING)}</p>{_claims_html(claims)}"
        f"<nav><h2>Items</h2><ul>{links}</ul></nav>{body}</body></html>\n"
    )


def _claims_html(claims: Sequence[Claim]) -> str:
    rows = "".join(
        f"<tr><td>{escape(c.sentence)}</td>"
        f"<td class='verdict {VERDICT_CLASSES.get(c.verdict, '')}'>{escape(c.verdict)}</td>"
        f"<td>{escape(c.evidence)}</td></tr>"
        for c in claims
    )
    head = "<thead><tr><th>claim</th><th>verdict</th><th>what the numbers say</th></tr></thead>"
    return f"<div class='wide'><table class='claims'>{head}<tbody>{rows}</tbody></table></div>"


def _page_html(page: Page) -> str:
    blocks = "".join(_block_html(block) for block in page.blocks)
    more = [f"<li>{escape(claim.sentence)} {escape(claim.details)}</li>" for claim in page.claims if claim.details]
    details = f"<details><summary>More numbers behind these</summary><ul>{''.join(more)}</ul></details>" if more else ""
    return (
        f'<section id="{page.name}"><h2>{escape(page.title)}</h2>{_claims_html(page.claims)}{details}{blocks}</section>'
    )


def _block_html(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h3>{escape(text)}</h3>"
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Sheet(_, table):
            return f"<div class='wide'>{table.as_html()}</div>"
        case Picture(_, caption, figure):
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=160)
            data = base64.b64encode(buffer.getvalue()).decode()
            image = f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
            return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"
