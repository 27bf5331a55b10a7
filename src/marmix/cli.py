"""The program `marmix`: one subparser and one function a command."""

import argparse
import os
import sys
from collections.abc import Sequence

from marmix import __version__
from marmix.demo import report

EXAMPLES = """\
examples:
  marmix demo                 hide labels of real data, hard cases first, and compare classifiers
  marmix demo --splits 50     the same over more random splits
  python -m marmix demo       the same without the script
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, or 2 where the arguments are wrong, or 1 where the command fails."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except (OSError, ValueError) as error:
        print(f"marmix {options.command}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="marmix",
        description="Classification when labels are missing for a reason.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"marmix {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    _add_demo(commands)
    return parser


def _add_demo(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "demo",
        help="hide labels of real data, hard cases first, and compare classifiers",
        description="Hide 70 % of the labels of scikit-learn's breast-cancer data, hard cases first, and compare "
        "classifiers on held-out rows. Needs no files and no network; takes some seconds.",
    )
    parser.add_argument("--splits", type=_at_least_two, default=20, help="random splits to average over (default 20)")
    parser.add_argument("--seed", type=_seed, default=0, help="seed of the first split (default 0)")
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> int:
    print("\n".join(report(options.splits, options.seed)), flush=True)
    return 0


def _at_least_two(text: str) -> int:
    return _whole(text, 2)


def _seed(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)
