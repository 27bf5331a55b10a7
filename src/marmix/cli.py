"""The program `marmix`: parse the arguments, run the command, report errors in a line or two."""

import argparse
import errno
import io
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from marmix import __version__
from marmix.commands import TASKS
from marmix.commands.arguments import Parser, add_shared
from marmix.terminal import VisibleText, loud_interrupts, open_handles, quiet_interrupts

PRINTING = ("evaluate", "sensitivity", "info", "completion")  # commands whose result is what they print


class Terminated(BaseException):
    """A signal asked the program to end; the argument is its number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, see `marmix --help`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = argparse.Namespace(arguments=words, command="", debug=False)
    quiet = loud_interrupts()
    with _harmless_streams():
        try:
            options.parser = parser_of_all()
            options.parser.parse_args(words, options)
            if sys.stdout is None and (getattr(options, "json", False) or options.command in PRINTING):
                raise OSError("standard output is closed, and the result would go there: open it.")
            with _signals_as_exceptions(), _no_foreign_words(options.debug):
                code = int(options.run(options))
            if sys.stdout is not None:
                sys.stdout.flush()  # so that a full disk is reported
            return code
        except Terminated as signalled:
            return 128 + int(str(signalled))
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
        finally:
            if quiet:
                quiet_interrupts()


@contextmanager
def _harmless_streams() -> Iterator[None]:
    """Print characters that the terminal cannot encode, or that would control it, in a form that can be seen."""
    open_handles()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with ExitStack() as streams:
        # a stream that the caller closed is None
        errors = streams.enter_context(open(os.devnull, "w", encoding="utf-8")) if sys.stderr is None else sys.stderr
        streams.enter_context(redirect_stderr(VisibleText(errors, lossy=True)))
        if sys.stdout is not None:
            streams.enter_context(redirect_stdout(VisibleText(sys.stdout)))
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
def _signals_as_exceptions() -> Iterator[None]:
    """Turn SIGTERM, SIGHUP and Ctrl-Break of Windows into an exception, so that half-written files are removed."""

    def end(number: int, frame: Any) -> None:
        raise Terminated(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    try:
        # a signal that is ignored, as under nohup, stays ignored
        before = {
            number: signal.signal(number, end) for number in numbers if signal.getsignal(number) is signal.SIG_DFL
        }
    except ValueError:  # only the main thread can handle signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
        exits={
            2: "wrong arguments, or questions about a file that arguments answer",
            3: "the files were written, but the fit did not converge",
            130: "interrupted",
            143: "terminated by a signal",
        },
    )
    commands = parser.add_subparsers(prog="marmix", dest="command", metavar="command", required=True)
    for task, modules in TASKS.items():
        for command in modules:
            command.add(commands)
        listed = commands._choices_actions[-len(modules) :]
        parser.add_argument_group(task, "\n".join(f"{command.dest:<13}{command.help}" for command in listed))
    general = parser.add_argument_group("general")
    general.add_argument(
        "--version", action="version", version=f"marmix {__version__}", help="show the version of marmix and exit"
    )
    add_shared(general, "--help")
    return parser
