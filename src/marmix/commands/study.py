"""`marmix study`: the tables and figures of the paper."""

import argparse
import sys
from pathlib import Path
from typing import Any

from joblib import cpu_count

from marmix.commands.arguments import add_command, at_least_one, seed
from marmix.study import ITEMS, SIZES, run


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "study",
        study,
        about="the paper's tables and figures: as published, corrected, and on fresh rows with intervals",
        description="Compute tables and figures of the paper, and studies beyond it. Finished pieces are kept in the folder and "
        "not computed again, so a run that was stopped goes on where it was. The results do not depend on --jobs, timings apart. "
        "The exit code is 1 where items are left out because their data could not be had; the others are made all the same.",
        examples="  marmix study list\n"
        "  marmix study table-1 fig-roc --out results\n"
        "  marmix study all --size full --out results --jobs 8\n",
    )
    parser.add_argument("names", nargs="*", default=["list"], metavar="NAME", help="items, or 'all'; 'list' names them")
    parser.add_argument(
        "--size", choices=SIZES, default="small", help="a few replicates in minutes, or all of them (default small)"
    )
    parser.add_argument("--out", default="marmix-study", help="folder to write to (default marmix-study)")
    parser.add_argument("--seed", type=seed, default=0, help="seed (default 0)")
    parser.add_argument("--jobs", type=at_least_one, default=cpu_count(), help="processes (default: one for each core)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, and only the path of the page")


def study(options: argparse.Namespace) -> int:
    """Compute the items and say what they found."""
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
