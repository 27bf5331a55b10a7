"""`marmix demo`: a complete example on real data."""

import argparse
from pathlib import Path
from typing import Any

from marmix.commands.arguments import add_command, add_shared, at_least
from marmix.commands.words import print_json
from marmix.demo.comparison import report
from marmix.demo.walk import DATA, fresh_folder, walk
from marmix.journey import Progress
from marmix.pages.summary import summary_lines


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        demo,
        about="a complete example on real data, from missing labels to a report",
        description="Write scikit-learn's breast-cancer data to a CSV file with about 70 % of the labels hidden, mostly those of "
        "hard cases; run 'marmix fit' on it; and count how many imputed labels are right. It needs no files and no network, and "
        "takes a few seconds. With --compare, classifiers are scored on held-out rows of random splits instead.",
        examples="  marmix demo\n  marmix demo --out my-demo\n  marmix demo --compare --splits 50\n",
    )
    parser.add_argument("--out", metavar="DIR", help="folder to write to (default: marmix-demo, or marmix-demo-2, ...)")
    parser.add_argument("--compare", action="store_true", help="compare classifiers on held-out rows; writes no files")
    parser.add_argument("--splits", type=at_least(2), default=20, help="number of splits for --compare (default 20)")
    add_shared(parser, "--force", "--seed", "--json", "--quiet")


def demo(options: argparse.Namespace) -> int:
    """Run the demo and print a summary."""
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
        print("Breast-cancer data of scikit-learn, with about 70 % of the labels hidden, mostly those of hard cases.\n")
        print("\n".join(summary_lines(done.findings)))
        print(
            f"\nHere the true labels are known: {done.right:,} of {labels.imputed:,} imputed labels are right ({share:.1%})."
        )
        print(f"To run the fit yourself: marmix fit {folder / DATA} --label diagnosis --id patient --out results\n")
        print(f"Report: {folder / 'report.html'}")
    return 0 if done.findings.model.converged else 3
