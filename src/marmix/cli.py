"""The program `marmix`: parse, run, and say in a line or two what went wrong."""

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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
130 interrupted, 143 ended from outside
"""


class Ended(BaseException):
    """A signal asked the program to end; the value is its number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the value is the exit code, see `marmix --help`."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    _print_all_characters()
    parser = parser_of_all()
    options = parser.parse_args(given, argparse.Namespace(arguments=given, parser=parser))
    try:
        with _asked_to_end():
            code = int(options.run(options))
        if sys.stdout is not None:  # as it is where the caller has closed it
            sys.stdout.flush()  # what cannot be written is an error
        return code
    except Ended as ended:
        return 128 + int(str(ended))
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(f"marmix {options.command}: interrupted", file=sys.stderr)
        return 130
    except (OSError, ValueError, ImportError, MemoryError) as error:
        return _failed(options, _told(error), error)
    except Exception as error:
        return _failed(
            options, f"unexpected {type(error).__name__}: {error} (--debug shows where; please report it)", error
        )


def _print_all_characters() -> None:
    """Let a terminal or a pipe that cannot show a character show its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _asked_to_end() -> Iterator[None]:
    """Signals that end a program as an exception, so that nothing half written is left."""

    def end(number: int, frame: Any) -> None:
        raise Ended(number)

    asked = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    try:
        # one that is ignored, as by nohup, stays so
        before = {number: signal.signal(number, end) for number in asked if signal.getsignal(number) is signal.SIG_DFL}
    except ValueError:  # not the main thread, which alone hears of signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(error: Exception) -> str:
    """What went wrong, in words."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{error.strerror}: make room, or write to another place with --out."
    if isinstance(error, OSError) and error.errno == errno.ENOENT and error.filename is not None:
        return f"{error.filename} is not there. Check the name and the folder."
    if isinstance(error, OSError) and error.strerror:  # of the system, not of ours
        return error.strerror + ("" if error.filename is None else f": {error.filename}")
    return str(error) or "there is not enough memory for this."


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
