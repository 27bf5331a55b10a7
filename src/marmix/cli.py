"""The program `marmix`: parse, run, and say in a line or two what went wrong."""

import argparse
import os
import sys
from collections.abc import Sequence

from marmix import __version__
from marmix.commands import ALL
from marmix.commands.arguments import Parser

EXAMPLES = """\
examples:
  marmix demo                                      the whole way on data that come with marmix
  marmix fit cells.csv --label type --out results  impute the missing labels of your own file
  marmix predict results/model.marmix new.csv      labels and probabilities for other rows
  marmix fit --help                                all options of a command, with examples

exit codes: 0 done; 1 it could not be done (the message says why); 2 wrong arguments; 3 done, but the fit did not converge;
130 interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the value is the exit code, see `marmix --help`."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = parser_of_all()
    options = parser.parse_args(given, argparse.Namespace(arguments=given, parser=parser))
    try:
        return int(options.run(options))
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(f"marmix {options.command}: interrupted", file=sys.stderr)
        return 130
    except (OSError, ValueError, ImportError, MemoryError) as error:
        return _failed(options, str(error) or "there is not enough memory for this.", error)
    except Exception as error:
        return _failed(
            options, f"unexpected {type(error).__name__}: {error} (--debug shows where; please report it)", error
        )


def _failed(options: argparse.Namespace, message: str, error: Exception) -> int:
    if options.debug:
        raise error
    print(f"marmix {options.command}: {message}", file=sys.stderr)
    return 1


def parser_of_all() -> argparse.ArgumentParser:
    """The parser of the program, with all commands."""
    parser = Parser(
        prog="marmix",
        description="Classification when labels are missing for a reason.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"marmix {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for command in ALL:
        command.add(commands)
    return parser
