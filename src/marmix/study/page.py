"""All items in one page."""

import base64
import io
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from marmix.study.blocks import Block, Claim, Heading, Page, Paragraph, Picture, Sheet
from marmix.study.writing import READING, left_out_lines

CLASSES = {"holds": "holds", "does not hold": "fails", "not reproduced": "fails"}
CLASSES |= dict.fromkeys(("in part", "mixed", "undecided"), "partly") | {"mostly not": "fails"}


def index_html(pages: Sequence[Page], left_out: dict[str, str], command: str, facts: str) -> str:
    """All items in one file that needs no other and asks nothing of the network."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    links = "".join(f'<li><a href="#{page.name}">{escape(page.title)}</a></li>' for page in pages)
    missing = "".join(f"<p><strong>{escape(text)}</strong></p>" for text in left_out_lines(left_out))
    body = "".join(_page_html(page) for page in pages)
    css = files("marmix.study").joinpath("page.css").read_text()
    claims = [claim for page in pages for claim in page.claims]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper, reproduced and corrected</title><style>{css}</style></head><body>"
        "<h1>The paper, reproduced and corrected</h1>"
        "<p>J. Liao and Z. Lyu, <em>Semi-Supervised Mixture Models under the Concept of Missing at Random with Margin "
        "Confidence and Aranda-Ordaz Function</em>: its tables and figures as published, with the baseline corrected, and "
        "on fresh rows with intervals.</p>"
        f"<p>{escape(facts)} Made by <code>{escape(command)}</code></p>{missing}"
        f"<h2>What holds</h2><p>{escape(READING)}</p>{_claims_html(claims)}"
        f"<nav><h2>Items</h2><ul>{links}</ul></nav>{body}</body></html>\n"
    )


def _claims_html(claims: Sequence[Claim]) -> str:
    rows = "".join(
        f"<tr><td>{escape(c.sentence)}</td><td class='verdict {CLASSES.get(c.verdict, '')}'>{escape(c.verdict)}</td>"
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
