"""The program `marmix`: one subparser and one function a command."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from joblib import cpu_count

from marmix import __version__
from marmix.demo import report
from marmix.study import ITEMS, SIZES, run

EXAMPLES = """\
examples:
  marmix demo                 hide labels of real data, hard cases first, and compare classifiers
  marmix demo --splits 50     the same over more random splits
  marmix study list           the tables and figures of the paper, and what else there is
  marmix study table-1        one of them: as published, corrected, and on fresh rows
  python -m marmix demo       without the script
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
    _add_study(commands)
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


def _add_study(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "study",
        help="the paper's tables and figures: as published, corrected, and on fresh rows with intervals",
        description="Compute tables and figures of the paper, and studies beyond it. Finished pieces are kept in the folder and "
        "not computed again, so a run that was stopped goes on where it was. The results do not depend on --jobs, timings apart. "
        "The exit code is 1 where items are left out because their data could not be had; the others are made all the same.",
        epilog="examples:\n"
        "  marmix study list\n"
        "  marmix study table-1 fig-roc --out results\n"
        "  marmix study all --size full --out results --jobs 8\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", default=["list"], metavar="NAME", help="items, or 'all'; 'list' names them")
    parser.add_argument(
        "--size", choices=SIZES, default="small", help="a few replicates in minutes, or all of them (default small)"
    )
    parser.add_argument("--out", default="marmix-study", help="folder to write to (default marmix-study)")
    parser.add_argument("--seed", type=_seed, default=0, help="seed (default 0)")
    parser.add_argument(
        "--jobs", type=_at_least_one, default=cpu_count(), help="processes (default: one for each core)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar, and only the path of the page")
    parser.set_defaults(run=_study)


def _study(options: argparse.Namespace) -> int:
    if "list" in options.names:
        width = max(map(len, ITEMS))
        print("\n".join(f"{name:{width}}  {item.title}" for name, item in ITEMS.items()))
        return 0
    pages, left_out = run(
        options.names, options.out, size=options.size, seed=options.seed, jobs=options.jobs, quiet=options.quiet
    )
    if not options.quiet:
        for claim in (claim for page in pages for claim in page.claims):
            print(f"{claim.verdict}: {claim.sentence}")
    for reason in dict.fromkeys(left_out.values()):
        names = ", ".join(name for name, why in left_out.items() if why == reason)
        print(f"marmix study: left out: {names}. {reason}", file=sys.stderr)
    print(Path(options.out) / "index.html", flush=True)
    return 1 if left_out else 0


def _demo(options: argparse.Namespace) -> int:
    print("\n".join(report(options.splits, options.seed)), flush=True)
    return 0


def _at_least_one(text: str) -> int:
    return _whole(text, 1)


def _at_least_two(text: str) -> int:
    return _whole(text, 2)


def _seed(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)
