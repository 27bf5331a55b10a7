"""The program `marmix`: parse the arguments, run the command, report errors in a line or two."""

import argparse
import errno
import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from marmix import __version__
from marmix.app.commands import COMMANDS, OPTIONS, Parser
from marmix.terminal import VisibleText


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, see `marmix --help`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = argparse.Namespace(arguments=words, command="", debug=False)
    with _harmless_streams():
        try:
            options.parser = parser_of_all()
            _, strange = options.parser.parse_known_args(words, options)
            if strange:
                options.parser.commands[options.command].error(f"unrecognized arguments: {' '.join(strange)}")
            with _signals_as_exits(), _no_foreign_words(options.debug):
                code = int(options.run(options))
            if sys.stdout is not None:
                sys.stdout.flush()  # so that a full disk is reported
            return code
        except BrokenPipeError:  # the reader, for instance `head`, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            print(f"marmix {options.command}: interrupted", file=sys.stderr)
            return 130
        except (OSError, ValueError, ImportError, MemoryError) as error:
            return _failed(options, _message(error), error)
        except Exception as error:
            return _failed(
                options,
                f"unexpected {type(error).__name__}: {error} (--debug shows the traceback; please report it)",
                error,
            )


@contextmanager
def _harmless_streams() -> Iterator[None]:
    """Print characters that the terminal cannot encode, or that would control it, in a form that can be seen."""
    with ExitStack() as streams:
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            if stream is not None:
                streams.enter_context(redirect(VisibleText(stream)))
        yield


@contextmanager
def _no_foreign_words(debug: bool) -> Iterator[None]:
    """Keep quiet about warnings and log messages of libraries, as what matters is in the report; not with --debug."""
    nowhere, log = logging.NullHandler(), logging.getLogger()
    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = lambda *args, **kwargs: None
            log.addHandler(nowhere)
        try:
            yield
        finally:
            log.removeHandler(nowhere)


@contextmanager
def _signals_as_exits() -> Iterator[None]:
    """End the program by SystemExit on SIGTERM and SIGHUP, so that half-written files are removed."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]  # not ignored, as by nohup
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _message(error: Exception) -> str:
    """The error in words, with advice where there is any."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{error.strerror}: free some space, or write elsewhere with --out."
    if isinstance(error, OSError) and error.errno == errno.ENOENT and error.filename is not None:
        return f"{error.filename} does not exist: check the name and the folder."
    if isinstance(error, OSError) and error.strerror:  # raised by the operating system
        return error.strerror + ("" if error.filename is None else f": {error.filename}")
    return str(error) or "not enough memory."


def _failed(options: argparse.Namespace, message: str, error: Exception) -> int:
    if options.debug:
        traceback.print_exception(error)
        return 1
    print(f"marmix {options.command}: {message}", file=sys.stderr)
    return 1


def parser_of_all() -> Parser:
    """The parser of the program with all its commands."""
    parser = Parser(
        prog="marmix",
        usage="COMMAND [options]",
        description="Classification when labels are missing for a reason.\n\nLabels are often missing where the cases are hard. "
        "marmix models the classes together with the reason why labels are missing, and learns from the rows without a label "
        "too. 'marmix COMMAND --help' explains a command and its options.",
        examples=[
            ("See it work on data that come with marmix:", "marmix demo"),
            ("Impute the missing labels of your own file:", "marmix fit cells.csv --label type --out results"),
            ("Labels and probabilities for new rows:", "marmix predict results/model.marmix new.csv"),
        ],
        ending="exit codes: 0 success, 1 error, 2 wrong arguments, 3 files written but the fit did not converge, "
        "130 interrupted, 143 terminated by a signal",
    )
    commands = parser.add_subparsers(prog="marmix", dest="command", metavar="COMMAND", required=True, title="commands")
    for name, command in COMMANDS.items():
        command.add_to(commands, name)
    parser.commands = commands.choices
    general = parser.add_argument_group("general")
    general.add_argument(
        "--version", action="version", version=f"marmix {__version__}", help="show the version of marmix and exit"
    )
    general.add_argument("-h", "--help", **OPTIONS["--help"])
    return parser
