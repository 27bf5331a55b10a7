"""The report as one HTML page, without other files or network access."""

import base64
from hashlib import sha256
from importlib.resources import files

from marmix.pages import sections
from marmix.pages.contents import Contents
from marmix.pages.markup import SENTENCE, data_block, name, plain
from marmix.pages.wording import counted


def report_html(contents: Contents) -> str:
    """A report as one HTML file.

    It opens offline, in light and dark mode, on a phone and on paper. Its Content-Security-Policy allows embedded pictures and,
    by their hashes, one style sheet and one script. Every value from the data is escaped, and shortened if long.
    """
    css, js = _asset("page.css"), _asset("page.js")
    findings = contents.findings
    everything = [
        sections.verdict(findings),
        sections.warnings(findings),
        sections.classes(findings),
        sections.next_rows(contents),
        sections.missingness(contents),
        sections.trust(contents),
        sections.threshold(contents),
        sections.shapes(contents),
        sections.sensitivity(contents),
        sections.models(findings),
        sections.reproduction(findings),
    ]
    parts = [part for part in everything if part is not None]
    links = "".join(f'<li><a href="#{part.key}">{part.link}</a></li>' for part in parts)
    body = "".join(part.html() for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(css, js)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{plain(contents.title, SENTENCE)}</title><style>{css}</style></head><body>"
        f'<a class="skip" href="#verdict">Skip to the verdict</a>{_header(contents)}'
        f'<nav aria-label="Contents"><ol>{links}</ol></nav><main>{body}</main>{_footer(contents)}'
        f"{data_block('data', sections.script_data(contents))}<script>{js}</script></body></html>\n"
    )


def policy(css: str, js: str) -> str:
    """The Content-Security-Policy that allows only this style sheet and this script."""
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(css)}; script-src {_hash(js)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _asset(file: str) -> str:
    return files("marmix.pages").joinpath(file).read_text(encoding="utf-8")


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
    promise = "This page works offline and sends no data anywhere."
    return f"<footer><p>Made with marmix {plain(version)}. {promise}</p></footer>"
