"""The directive `command-line`: every command and option of the program, written from its own parser."""

import argparse
import re
from collections.abc import Iterator
from textwrap import dedent, indent

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from marmix.cli import parser_of_all


class CommandLine(SphinxDirective):
    """A section for the program, and one for each of its commands."""

    def run(self) -> list[nodes.Node]:
        """Write the sections as reStructuredText, and read them."""
        return self.parse_text_to_nodes("\n".join(_lines(parser_of_all())), allow_section_headings=True)


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a user may type after a command: arguments, options it must, options it may; the help apart."""
    inner = (argparse._SubParsersAction, argparse._HelpAction)
    own = [a for a in parser._actions if not isinstance(a, inner) and a.help != argparse.SUPPRESS]
    return sorted(own, key=lambda a: (bool(a.option_strings), not a.required))


def _lines(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from ["", parser.prog, "~" * len(parser.prog), "", f".. program:: {parser.prog}", ""]
    if parser.description:
        yield from [_escaped(parser.description), ""]
    yield from [".. code-block:: none", "", indent(_usage(parser), "   "), ""]
    for action in options(parser):
        yield from [f".. option:: {_spelling(action)}", "", f"   {_escaped(_help(parser, action))}", ""]
    if parser.epilog:
        yield from _epilog(parser.epilog)
    for inner in commands(parser).values():
        yield from _lines(inner)


def _usage(parser: argparse.ArgumentParser) -> str:
    """How the command is typed, in short."""
    names = " ".join(_name(a) if not a.option_strings else f"{a.option_strings[-1]} {_name(a)}"
                     for a in options(parser) if a.required or not a.option_strings)  # fmt: skip
    rest = "COMMAND ..." if commands(parser) else "[OPTIONS]"
    return " ".join(word for word in (parser.prog, names, rest) if word)


def _name(action: argparse.Action) -> str:
    if action.metavar is not None:
        return str(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _spelling(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {_name(action)}" + (" ..." if action.nargs in ("+", "*") else "")
    return ", ".join(f"{name}{value}" for name in action.option_strings) or _name(action)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _epilog(text: str) -> Iterator[str]:
    """Examples as they are typed, and other paragraphs as text."""
    for paragraph in text.strip().split("\n\n"):
        heading, _, rest = paragraph.partition("\n")
        if heading == "examples:":
            yield from ["Examples:", "", ".. code-block:: none", "", indent(dedent(rest), "   "), ""]
        else:
            yield from [_escaped(paragraph), ""]


def _escaped(text: str) -> str:
    """Text without markup: what would be read as such stands as it is."""
    return re.sub(r"([*`|_\\])", r"\\\1", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
