"""`marmix demo`: the whole way on data that come with the package."""

import argparse
from pathlib import Path
from typing import Any

from marmix.commands.arguments import add_command, add_output, at_least_two, seed
from marmix.commands.words import print_json, summary_lines
from marmix.demo.comparison import report
from marmix.demo.walk import DATA, fresh_folder, walk
from marmix.journey import Progress


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        demo,
        about="the whole way on real data: a file with missing labels, imputed labels, a report",
        description="Write scikit-learn's breast-cancer data as a CSV file in which about 70 % of the labels are hidden, hard "
        "cases first; run 'marmix fit' on it; and tell how many imputed labels are right. Needs no files and no network; takes "
        "some seconds. --compare scores classifiers on held-out rows instead, over many random splits.",
        examples="  marmix demo\n  marmix demo --out here\n  marmix demo --compare --splits 50\n",
    )
    parser.add_argument("--out", metavar="DIR", help="folder to write to (default: marmix-demo, or marmix-demo-2, ...)")
    parser.add_argument("--force", action="store_true", help="replace files that are there already")
    parser.add_argument("--compare", action="store_true", help="compare classifiers on held-out rows; writes nothing")
    parser.add_argument("--splits", type=at_least_two, default=20, help="random splits of --compare (default 20)")
    parser.add_argument("--seed", type=seed, default=0, help="of what is hidden and of the splits (default 0)")
    add_output(parser)


def demo(options: argparse.Namespace) -> int:
    """Walk, and say what was found and where the report is."""
    if options.compare:
        print("\n".join(report(options.splits, options.seed)), flush=True)
        return 0
    folder = fresh_folder() if options.out is None else Path(options.out)
    done = walk(folder, options.seed, Progress(options.quiet), options.force)
    labels = done.findings.labels
    share = done.right / labels.imputed
    if options.json:
        print_json(done.findings.as_dict() | {"right": done.right})
    elif not options.quiet:
        print("Breast-cancer data of scikit-learn. Labels were hidden, those of the hard rows first.\n")
        print("\n".join(summary_lines(done.findings)))
        print(
            f"\nThe truth is known here: {done.right:,} of {labels.imputed:,} imputed labels are right ({share:.1%})."
        )
        print(f"The same by hand: marmix fit {folder / DATA} --label diagnosis --id patient --out results\n")
        print(f"Report: {folder / 'report.html'}")
    return 0 if done.findings.model.converged else 3
