"""The directive `command-line`: every command and option of the program, written from its own parser."""

import argparse
import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from marmix.cli import parser_of_all
from marmix.commands.arguments import Parser


class CommandLine(SphinxDirective):
    """A section for the program, and one for each of its commands."""

    def run(self) -> list[nodes.Node]:
        """Write the sections as reStructuredText, and read them."""
        return self.parse_text_to_nodes("\n".join(_lines(parser_of_all())), allow_section_headings=True)


def _lines(parser: Parser) -> Iterator[str]:
    yield from ["", parser.prog, "~" * len(parser.prog), "", f".. program:: {parser.prog}", ""]
    yield from [_escaped(parser.description or ""), ""]
    yield from [".. code-block:: none", "", f"   {(parser.usage or '') % {'prog': parser.prog}}", ""]
    for name, inner in parser.commands.items():
        yield from [f"`{parser.prog} {name}`_", f"   {_escaped((inner.description or '').partition(chr(10))[0])}", ""]
    for group in parser._action_groups:
        yield from _group(parser, group)
    yield from [".. rubric:: examples", ""]
    for words, command in parser.examples:
        yield from [_escaped(words), "", ".. code-block:: none", "", f"   {command}", ""]
    yield from [".. rubric:: exit codes", ""]
    yield from [f"| **{code}** {_escaped(words)}" for code, words in parser.exits.items()]
    if parser.also:
        yield from ["", ".. rubric:: see also", "", ", ".join(f"`marmix {name}`_" for name in parser.also), ""]
    for inner in parser.commands.values():
        yield from _lines(inner)


def _group(parser: Parser, group: argparse._ArgumentGroup) -> Iterator[str]:
    """The arguments of a group."""
    shown = [] if group.title == "commands" else [a for a in group._group_actions if a.help != argparse.SUPPRESS]
    if shown:
        yield from [f".. rubric:: {group.title}", ""]
    for action in shown:
        yield from [f".. option:: {_spelling(parser, action)}", "", f"   {_escaped(_help(parser, action))}", ""]


def _spelling(parser: Parser, action: argparse.Action) -> str:
    return parser._get_formatter()._format_action_invocation(action)


def _help(parser: Parser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _escaped(text: str) -> str:
    """Text whose punctuation is not markup; options are literals, which keeps their dashes."""
    return re.sub(r"(?<!\S)(--[a-z-]+)", r"``\1``", re.sub(r"([*`|_\\])", r"\\\1", text))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
