"""`marmix demo`: a complete example on real data."""

import argparse
import time
from pathlib import Path
from typing import Any

from marmix.app.summary import summary_lines
from marmix.commands.arguments import LARGEST_SEED, add_command, add_shared, at_least, place
from marmix.commands.words import print_json
from marmix.demo.comparison import boards, report
from marmix.demo.walk import DATA, fresh_folder, walk
from marmix.journey import Progress
from marmix.terminal import command_line

SPLITS, MANY = 3, 10


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        demo,
        about="try marmix on real data, from missing labels to a report",
        usage="[options]",
        description="Write scikit-learn's breast-cancer data to a CSV file with about 70 % of the labels hidden, mostly those of "
        "hard cases; run 'marmix fit' on it; and count how many imputed labels are right.\n\nThen hide labels of two real data "
        "sets several times, one where marmix helps and one where it does not, and print a scoreboard with usual classifiers. "
        "The demo needs no files and no network, and takes about a minute on two cores.",
        examples=[
            ("The whole demo:", "marmix demo"),
            ("The fit and its report alone:", "marmix demo --out my-demo --splits 0"),
            ("The scoreboard alone, with smaller standard errors:", "marmix demo --compare --splits 20"),
        ],
        exits={3: "the files were written, but the fit did not converge"},
        also=("fit",),
    )
    board = parser.add_argument_group("the scoreboard")
    board.add_argument("--compare", action="store_true", help="print only the scoreboard, and write no files")
    board.add_argument(
        "--splits",
        type=at_least(0),
        metavar="N",
        help=f"how many times labels are hidden, with seeds from --seed on; 0 for no scoreboard (default: {SPLITS}, with "
        f"--compare {MANY})",
    )
    add_shared(board, "--seed")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out", type=place, metavar="DIR", help="folder to write to (default: marmix-demo, or marmix-demo-2, ...)"
    )
    add_shared(output, "--force", "--json")
    add_shared(parser.add_argument_group("general"), "--quiet", "--debug", "--help")


def demo(options: argparse.Namespace) -> int:
    """Run the demo and print a summary."""
    splits = (MANY if options.compare else SPLITS) if options.splits is None else options.splits
    if splits == 1 or (options.compare and not splits):
        raise ValueError("--splits must be at least 2: standard errors need two.")
    if options.seed + splits - 1 > LARGEST_SEED:
        raise ValueError(
            f"--seed {options.seed} leaves fewer than {splits} seeds up to {LARGEST_SEED}: use a smaller one."
        )
    progress, show = Progress(options.quiet), not (options.json or options.quiet)
    values: dict[str, Any] = {}
    ending, code = "", 0
    if not options.compare:
        folder = fresh_folder() if options.out is None else Path(options.out)
        done = walk(folder, options.seed, progress, options.force)
        code, values = 0 if done.findings.model.converged else 3, done.findings.as_dict() | {"right": done.right}
        imputed = done.findings.labels.imputed
        again = ["marmix", "fit", str(folder / DATA), "--label", "diagnosis", "--id", "patient", "--out", "results"]
        ending = f"To run the fit yourself: {command_line(again)}\nReport: {folder / 'report.html'}"
        if show:
            print("Breast-cancer data of scikit-learn, about 70 % of the labels hidden, mostly those of hard cases.\n")
            print("\n".join(summary_lines(done.findings)))
            share = done.right / imputed
            print(
                f"\nHere the true labels are known: {done.right:,} of {imputed:,} imputed labels are right ({share:.1%}).\n",
                flush=True,
            )
    if splits:
        start = time.monotonic()
        with progress.phase("comparing classifiers") as step:
            results = boards(range(options.seed, options.seed + splits), step)
        values["scoreboard"] = [board.as_dict() for board in results]
        if show:
            print("\n".join(report(results, time.monotonic() - start)), end="\n\n" if ending else "\n")
    if options.json:
        print_json(values)
    elif show and ending:
        print(ending)
    return code
