"""What commands are declared with: the parser, the options of all commands, and the types of their values."""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from marmix.selection.candidates import KINDS

LARGEST_SEED = 2**32 - 1  # of NumPy
WIDTH = 80  # of help pages
EXITS = {0: "success", 1: "error", 2: "wrong arguments"}
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


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
            description="\n\n".join(fill(paragraph, WIDTH) for paragraph in description.split("\n\n")),
            epilog="\n\n".join(self._sections()),
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=28, width=WIDTH),
            add_help=False,
            **kwargs,
        )
        self.color = False  # what the program prints has no control characters

    def _sections(self) -> Iterator[str]:
        yield "examples:\n" + "\n".join(f"  {words}\n    {command}" for words, command in self.examples)
        codes = ", ".join(f"{code} {words}" for code, words in self.exits.items())
        yield fill(f"exit codes: {codes}", WIDTH, subsequent_indent="  ")
        if self.also:
            names = ", ".join(f"marmix {name}" for name in self.also)
            yield fill(f"see also: {names}", WIDTH, subsequent_indent="  ")

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        self.exit(2, f"{self.prog}: {message}\nSee {self.prog} --help.\n")


def at_least(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A converter to integers of at least `least` and at most `most`."""

    def convert(text: str) -> int:
        value = int(text[:100]) if text.isascii() and text.isdecimal() else -1
        if not least <= value <= most:
            end = f" and at most {most}" if value > most else ""
            raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a whole number of at least {least}{end}")
        return value

    return convert


def number(text: str) -> float:
    """A number, NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def share(text: str) -> float:
    """A number between 0 and 1."""
    if not 0.0 < number(text) < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return number(text)


def class_share(text: str) -> tuple[str, float]:
    """A class and its share, from CLASS=SHARE."""
    name, _, value = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not CLASS=SHARE, such as malignant=0.03")
    return name, share(value)


def seconds(text: str) -> float:
    """A time in seconds, from a number that may have the unit s, m or h."""
    value = number(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else number(text)
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, such as 90 (seconds), 10m or 2h")
    return value


def log_odds(text: str) -> float:
    """The logarithm of an odds ratio, written as a number or a fraction such as 1/2."""
    top, _, bottom = text.partition("/")
    below = number(bottom or "1")
    value = number(top) / below if below else math.nan
    if not 1e-20 < value < 1e20:
        raise argparse.ArgumentTypeError(f"{text!r} is not an odds ratio: a positive number, or a fraction such as 1/2")
    return math.log(value)


def text(value: str) -> str:
    """Text that can be written to a file."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{value!a} is not text in the encoding of this terminal") from None
    return value


def place(text: str) -> Path:
    """A path that is not empty."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a path: name a file or folder, or '.' for this folder")
    return Path(text)


_LABELS = ("--label", "--votes", "--shares")  # of which one may be given
_FLAG: dict[str, Any] = {"action": "store_true"}
_REPEATED: dict[str, Any] = {"action": "append", "default": []}
_SEVERAL: dict[str, Any] = {"nargs": "+", "default": []}

# All options of the commands that work on files; what a command says otherwise stands with the command.
OPTIONS: dict[str, dict[str, Any]] = {
    "model": {"type": place, "metavar": "MODEL", "help": "model.marmix, as 'marmix fit' or marmix.save wrote it"},
    "data": {"type": place, "metavar": "DATA", "help": "file with the columns of the fit"},
    "--label": {"metavar": "COLUMN", "help": "label column (default: as in the fit)"},
    "--votes": _SEVERAL | {"metavar": "COL", "help": "or: label columns, one for each annotator"},
    "--shares": _SEVERAL | {"metavar": "COL", "help": "or: columns of votes, one named after each class"},
    "--id": {"metavar": "COLUMN", "help": "column that identifies the rows"},
    "--features": {"nargs": "+", "metavar": "COL", "help": "feature columns (default: all others)"},
    "--exclude": {"nargs": "+", "action": "extend", "default": [], "metavar": "COL", "help": "columns to leave out"},
    "--missing": _REPEATED
    | {"type": text, "metavar": "TEXT", "help": "label that means missing, besides empty, NA, -1, ?"},
    "--missing-cells": {"nargs": "+", "action": "extend", "type": text, "default": [], "metavar": "T"}
    | {"help": "feature cells that mean missing, such as 999"},
    "--impute-features": {"choices": ("median", "drop"), "default": "median", "metavar": "HOW"}
    | {"help": "median, or drop: no label where a feature is missing"},
    "--classes": _SEVERAL | {"metavar": "TEXT", "help": "all classes, if one is named None or -1"},
    "--keep": _REPEATED | {"metavar": "COLUMN", "help": "ask nothing about this column"},
    "--yes": _FLAG | {"help": "make the changes that the questions propose"},
    "--model": {"choices": KINDS, "default": "auto", "metavar": "KIND"}
    | {"help": f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"},
    "--prevalence": _REPEATED
    | {"type": class_share, "metavar": "CLASS=SHARE", "help": "known share of a class among all rows: yes=0.03"},
    "--sets": {"type": share, "metavar": "SHARE"} | {"help": "add sets; this share of them holds the true class"},
    "--time-limit": {"type": seconds, "metavar": "TIME"}
    | {"help": "for comparing models, in seconds, or as 10m or 2h"},
    "--seed": {"type": at_least(0, LARGEST_SEED), "default": 0, "metavar": "N"}
    | {"help": "of the random numbers (default: %(default)s)"},
    "--class": {"dest": "varied", "metavar": "NAME", "help": "class to vary (default: the rarest)"},
    "--odds": {"nargs": "+", "type": log_odds, "metavar": "RATIO"}
    | {"help": "how many times as likely its rows lose their label (default: nine from 1/4 to 4)"},
    "--plot": {"type": place, "metavar": "FILE", "help": "figure to write: .png, .svg or .pdf"},
    "shell": {},
    "results": {"type": place, "metavar": "DIR", "help": "folder that 'marmix fit' wrote"},
    "--rows": {"type": at_least(1), "metavar": "N", "help": "rows to draw (default: 30)"},
    "--half-width": {"type": share, "metavar": "SHARE"}
    | {"help": "or: as many as give the share of wrong labels to +/- this, such as 0.05"},
    "--hardest": _FLAG | {"help": "the rows most worth labelling, not drawn by chance"},
    "--labels": {"type": place, "metavar": "FILE", "help": "audit-labels.csv or the filled audit.csv: learn from it"},
    "--show": {"nargs": "+", "default": [], "metavar": "COL", "help": "columns of text or of paths of images to show"},
    "--out": {"type": place, "metavar": "FILE"},
    "--force": _FLAG | {"help": "replace existing files"},
    "--escape-formulas": _FLAG | {"help": "put an apostrophe before formulas of a spreadsheet"},
    "--encoding": {"metavar": "NAME", "help": "of a text file (default: UTF-8, UTF-16 or cp1252)"},
    "--delimiter": {"metavar": "CHARACTER", "help": "such as ';' or tab (default: as in the file)"},
    "--decimal": {"choices": (".", ","), "metavar": "MARK", "help": "'.' or ',' (default: as in the file)"},
    "--header-row": {"type": at_least(1), "metavar": "N"}
    | {"help": "line of the names, from 1 (default: below titles)"},
    "--sheet": {"metavar": "SHEET", "help": "name or number (default: the first)"},
    "--json": _FLAG | {"help": "print the result as JSON"},
    "--quiet": _FLAG | {"help": "print no progress and no summary"},
    "--debug": _FLAG | {"help": "show the Python traceback of an error"},
    "--help": {"action": "help", "help": "show this page and exit"},
}
READING = ("--encoding", "--delimiter", "--decimal", "--header-row", "--sheet")


class Command(NamedTuple):
    """A command: the function that runs it, its help page and its options, each with what differs from `OPTIONS`."""

    run: Callable[[argparse.Namespace], int]
    about: str
    usage: str
    description: str
    examples: Sequence[tuple[str, str]]
    options: Mapping[str, dict[str, Any]]
    rare: Sequence[str] = ()
    label_required: bool = False
    exits: Mapping[int, str] = MappingProxyType({})
    also: Sequence[str] = ()

    def add_to(self, commands: Any, name: str) -> None:
        """Add the command to the parser of the program."""
        parser: Parser = commands.add_parser(
            name,
            help=self.about,
            usage=self.usage,
            description=f"{self.about[0].upper()}{self.about[1:]}.\n\n{self.description}",
            examples=self.examples,
            exits=self.exits,
            also=self.also,
        )
        parser.set_defaults(run=self.run)
        main, rare = (parser.add_argument_group(title) for title in ("arguments", "rare options"))
        labels = main.add_mutually_exclusive_group(required=self.label_required)
        for option, changes in self.options.items():
            names = ("-h", option) if option == "--help" else (option,)
            (labels if option in _LABELS else main).add_argument(*names, **OPTIONS[option] | changes)
        for option in self.rare:
            rare.add_argument(option, **OPTIONS[option])
