"""Arguments shared by several commands."""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any, NoReturn

LARGEST_SEED = 2**32 - 1  # of NumPy
_WIDTH = 80  # of help pages
EXITS = {0: "success", 1: "error; the message says what is wrong and what to do", 2: "wrong arguments"}


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples, exit codes and related commands, and whose errors take two lines.

    Parameters
    ----------
    usage : str
        What is typed after the name of the program or command.
    description : str
        Paragraphs, separated by blank lines.
    examples : sequence of pairs
        What a command line does, and the command line.
    exits : mapping
        Exit codes and what they mean, where it is not as in `EXITS`.
    also : sequence of str
        Related commands.
    """

    def __init__(
        self,
        *,
        usage: str,
        description: str,
        examples: Sequence[tuple[str, str]],
        exits: Mapping[int, str],
        also: Sequence[str] = (),
        **kwargs: Any,
    ):
        self.examples, self.exits, self.also = tuple(examples), EXITS | dict(exits), tuple(also)
        self.commands: dict[str, Parser] = {}
        super().__init__(
            usage=f"%(prog)s {usage}",
            description="\n\n".join(fill(paragraph, _WIDTH) for paragraph in description.split("\n\n")),
            epilog="\n\n".join(self._sections()),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            **kwargs,
        )
        self.color = False  # what the program prints has no control characters

    def _sections(self) -> Iterator[str]:
        yield "examples:\n" + "\n".join(f"  {words}\n    {command}" for words, command in self.examples)
        exits = [fill(f"  {code:<5}{words}", _WIDTH, subsequent_indent=" " * 7) for code, words in self.exits.items()]
        yield "exit codes:\n" + "\n".join(exits)
        if self.also:
            yield "see also:\n  " + ", ".join(f"marmix {name}" for name in self.also)

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        self.exit(2, f"{self.prog}: {message}\nSee {self.prog} --help.\n")


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    about: str,
    description: str,
    exits: Mapping[int, str] | None = None,
    **page: Any,
) -> Parser:
    """Add a command; its help begins with `about`, and `page` has further arguments of `Parser`."""
    summary = f"{about[0].upper()}{about[1:]}."
    parser: Parser = commands.add_parser(
        name, help=about, description=f"{summary}\n\n{description}", exits=exits or {}, **page
    )
    parser.set_defaults(run=run)
    return parser


def at_least(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A converter to integers of at least `least` and at most `most`."""

    def convert(text: str) -> int:
        value = int(text[:100]) if text.isascii() and text.isdecimal() else -1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text[:100]!r} is not a whole number of at least {least}"
                + (f" and at most {most}" if value > most else "")
            )
        return value

    return convert


def share(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def text(value: str) -> str:
    """Text that can be written to a file."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{value!a} is not text in the encoding of this terminal") from None
    return value


def finite(text: str) -> float:
    """A number that is not infinite or NaN."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def place(text: str) -> str:
    """A path that is not empty."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a path: name a file or folder, or '.' for this folder")
    return text


SHARED: dict[str, dict[str, Any]] = {
    "model": {"type": place, "metavar": "MODEL", "help": "a model.marmix file, written by 'marmix fit' or marmix.save"},
    "data": {"type": place, "metavar": "DATA", "help": "a file with the feature columns used in the fit"},
    "--missing": {
        "type": text,
        "action": "append",
        "default": [],
        "metavar": "VALUE",
        "help": "treat this value of the label column as a missing label too; may be repeated. Empty, NA, NaN, null, None, ? and "
        "-1 count as missing unless they are classes; the output says which texts counted",
    },
    "--force": {"action": "store_true", "help": "replace existing files"},
    "--prefix": {"type": text, "default": "marmix_", "help": "prefix of the added columns (default: %(default)s)"},
    "--escape-formulas": {
        "action": "store_true",
        "help": "put an apostrophe before cells that a spreadsheet would run as a formula: =, +, - or @ comes first, also after "
        "blanks or in full width (default: copy such cells unchanged)",
    },
    "--seed": {
        "type": at_least(0, LARGEST_SEED),
        "default": 0,
        "metavar": "N",
        "help": "seed of the random numbers (default: %(default)s)",
    },
    "--json": {"action": "store_true", "help": "print the result as JSON, for use by other programs"},
    "--quiet": {
        "action": "store_true",
        "help": "print no progress and no summary; errors and questions are still printed",
    },
    "--debug": {"action": "store_true", "help": "show the Python traceback of an error"},
    "--help": {"action": "help", "help": "show this page and exit"},
}


def add_shared(group: Any, *names: str) -> None:
    """Add arguments that several commands have to a group."""
    for name in names:
        group.add_argument(*(("-h", name) if name == "--help" else (name,)), **SHARED[name])


def add_labels(group: Any, words: str, required: bool = True) -> None:
    """Add the options that name the columns of the labels, of which one may be given."""
    one_of = group.add_mutually_exclusive_group(required=required)
    one_of.add_argument("--label", metavar="COLUMN", help=words)
    one_of.add_argument(
        "--votes",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="in place of --label: a label column for each annotator. A row counts once, with the shares of its votes; it has no "
        "label if nobody voted",
    )
    one_of.add_argument(
        "--shares",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="in place of --label: a column of votes or probabilities for each class, named after it; blank or 0 in all of them "
        "if the label is missing",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading a data file."""
    group = parser.add_argument_group("reading the file")
    group.add_argument(
        "--encoding", metavar="NAME", help="encoding of a text file (default: UTF-8 or UTF-16, otherwise cp1252)"
    )
    group.add_argument(
        "--delimiter",
        metavar="CHARACTER",
        help="delimiter of a text file, such as ';' or tab (default: found in the file)",
    )
    group.add_argument(
        "--decimal",
        choices=(".", ","),
        metavar="MARK",
        help="decimal mark of numbers in text, '.' or ',' (default: found in the file)",
    )
    group.add_argument(
        "--header-row",
        type=at_least(1),
        metavar="N",
        help="line of a text file or row of an Excel sheet with the column names, from 1 (default: the first below blank lines "
        "and titles)",
    )
    group.add_argument("--sheet", help="sheet of an Excel file, by name or number from 1 (default: the first)")


def reading_options(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `open_table`."""
    return {name: getattr(options, name) for name in ("encoding", "delimiter", "decimal", "header_row", "sheet")}
