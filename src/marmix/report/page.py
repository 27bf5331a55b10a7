"""The whole report in one page that needs no other file and asks nothing of the network."""

import base64
from hashlib import sha256
from importlib.resources import files

from marmix.report import moving, sections
from marmix.report.contents import Contents
from marmix.report.markup import SENTENCE, data_block, name, plain
from marmix.report.wording import counted


def report_html(contents: Contents) -> str:
    """A report as one HTML file.

    It opens offline, in light and in dark, on a phone and on paper. Its Content-Security-Policy allows pictures inside the
    file and the one style and the one script that this function puts there, by their hashes, and nothing else. Every value
    from the data is escaped, and shortened where it is long.

    Parameters
    ----------
    contents : Contents
        Findings, figures, thresholds and rows.

    Returns
    -------
    str
        To be written as UTF-8.
    """
    css, js = _asset("page.css"), _asset("page.js")
    parts = [
        sections.found(contents.findings),
        *sections.drawn(contents),
        moving.threshold(contents),
        moving.next_rows(contents),
        sections.parameters(contents.findings),
        sections.warned(contents.findings),
        sections.reproduced(contents.findings),
    ]
    links = "".join(f'<li><a href="#{part.key}">{part.title}</a></li>' for part in parts)
    body = "".join(part.html() for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(css, js)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{plain(contents.title, SENTENCE)}</title><style>{css}</style></head><body>"
        f'<a class="skip" href="#found">To the findings</a>{_header(contents)}'
        f'<nav aria-label="Contents"><ol>{links}</ol></nav><main>{body}</main>{_footer(contents)}'
        f"{data_block('data', moving.data(contents))}<script>{js}</script></body></html>\n"
    )


def policy(css: str, js: str) -> str:
    """The Content-Security-Policy that allows this style and this script only."""
    return (
        f"default-src 'none'; img-src data:; style-src {_fingerprint(css)}; script-src {_fingerprint(js)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _asset(file: str) -> str:
    return files("marmix.report").joinpath(file).read_text(encoding="utf-8")


def _header(contents: Contents) -> str:
    data = contents.findings.data
    facts = [
        name(data.file),
        counted(data.rows, "row"),
        counted(len(data.features), "feature"),
        f"label column {name(data.label)}",
    ]
    items = "".join(f"<li>{fact}</li>" for fact in facts)
    return f'<header><h1>{plain(contents.title)}</h1><ul class="facts">{items}</ul></header>'


def _footer(contents: Contents) -> str:
    version = contents.findings.reproduction.versions.get("marmix", "")
    promise = "This page works without a network and sends nothing anywhere."
    return f"<footer><p>Made by marmix {plain(version)}. {promise}</p></footer>"
