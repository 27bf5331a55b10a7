"""The directive ``bad-inputs``: the table of bad inputs that the tests run over."""

import tomllib
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "bad_inputs"


class BadInputs(Directive):
    """A section for each subject, with a table of what is given and what is said."""

    def run(self):
        return [_section(path) for path in sorted(FOLDER.glob("*.toml"))]


def _section(path):
    subject = tomllib.loads(path.read_text("utf-8"))
    section = nodes.section(ids=[f"bad-{path.stem}"])
    section += nodes.title(text=subject["title"])
    section += _table([("given", "for instance", "answer")], [_row(case) for case in subject["case"]])
    return section


def _row(case):
    outcome = f"exit code {case['code']}" if "command" in case else case["error"]
    said = ", ".join(f"“{words}”" for words in case["says"])
    instance = case.get("command") or case["python"].strip()
    return case["given"], _printable(instance), f"{outcome}: {said}"


def _printable(text):
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _table(heads, rows):
    table, group = nodes.table(), nodes.tgroup(cols=3)
    group.extend(nodes.colspec(colwidth=width) for width in (34, 36, 30))
    group += nodes.thead("", *[_line(row) for row in heads])
    group += nodes.tbody("", *[_line(row, code=1) for row in rows])
    table += group
    return table


def _line(cells, code=None):
    line = nodes.row()
    for i, text in enumerate(cells):
        inline = nodes.literal(text=text) if i == code else nodes.Text(text)
        line += nodes.entry("", nodes.paragraph("", "", inline))
    return line


def setup(app):
    """Register the directive."""
    app.add_directive("bad-inputs", BadInputs)
    return {"parallel_read_safe": True}
