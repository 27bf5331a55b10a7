"""Arguments that several commands have."""

import argparse
from collections.abc import Callable
from textwrap import fill
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that says in two lines what is wrong, and where to read on."""

    def error(self, message: str) -> NoReturn:
        """End the program."""
        self.exit(2, f"{self.prog}: {message}\nSee {self.prog} --help.\n")


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], *, about: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """A command with its help, its examples and the options that all have."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=fill(description, 96),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show where in the program an error arose")
    parser.set_defaults(run=run)
    return parser


def add_output(parser: argparse.ArgumentParser) -> None:
    """How the command speaks."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON, for other programs")
    parser.add_argument("--quiet", action="store_true", help="no progress bars, and as little text as can be")


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How a data file is read."""
    group = parser.add_argument_group("reading the file")
    group.add_argument("--encoding", default="utf-8", help="of a CSV or TSV file (default utf-8)")
    group.add_argument("--delimiter", help="between the cells of a CSV file (default: comma; tab in a TSV file)")
    group.add_argument("--sheet", help="of an Excel file (default: the first)")


def add_missing(parser: argparse.ArgumentParser) -> None:
    """What stands for a missing label."""
    parser.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="VALUE",
        help="another value of the label column that means 'no label'; may be repeated. Empty, NA, NaN, null, None, ? and -1 "
        "always do",
    )


def reading_options(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `open_table`."""
    return {"encoding": options.encoding, "delimiter": options.delimiter, "sheet": options.sheet}


def at_least_one(text: str) -> int:
    """A whole number from 1."""
    return _whole(text, 1)


def at_least_two(text: str) -> int:
    """A whole number from 2."""
    return _whole(text, 2)


def seed(text: str) -> int:
    """A whole number from 0."""
    return _whole(text, 0)


def share(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def _whole(text: str, least: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)
