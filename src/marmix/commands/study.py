"""`marmix study`: tables and figures of the paper."""

import argparse
import sys
from pathlib import Path
from typing import Any

from joblib import cpu_count

from marmix.commands.arguments import SHARED, add_command, add_shared, at_least, place
from marmix.study import ITEMS, SIZES, run


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "study",
        study,
        about="compute the tables and figures of the paper",
        usage="[NAME ...] [options]",
        description="Compute tables and figures of the paper (as published, corrected, and on fresh rows with intervals), and "
        "further studies.\n\nFinished parts are kept in the folder, so that an interrupted run continues where it stopped. Apart "
        "from timings, the results do not depend on --jobs.",
        examples=[
            ("List what can be computed:", "marmix study list"),
            ("Compute a table and a figure:", "marmix study table-1 fig-roc --out paper"),
            ("Compute another study with two processes:", "marmix study measures --jobs 2 --out paper"),
        ],
        exits={1: "error, or items were left out because their data were not available; the message says why"},
        also=("simulate",),
    )
    items = parser.add_argument_group("what to compute")
    items.add_argument(
        "names",
        nargs="*",
        default=["list"],
        metavar="NAME",
        help="items to compute, or 'all'; 'list' lists them (default: list)",
    )
    items.add_argument(
        "--size",
        choices=SIZES,
        default="small",
        help="a few replicates (minutes), or all of them (default: %(default)s)",
    )
    items.add_argument("--seed", **SHARED["--seed"] | {"type": at_least(0)})
    items.add_argument(
        "--jobs", type=at_least(1), default=cpu_count(), metavar="N", help="processes (default: one per core)"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out",
        type=place,
        default="marmix-study",
        metavar="DIR",
        help="folder to write to (default: %(default)s)",
    )
    general = parser.add_argument_group("general")
    general.add_argument("--quiet", action="store_true", help="print only the path of the page")
    add_shared(general, "--debug", "--help")


def study(options: argparse.Namespace) -> int:
    """Compute the items and print their claims."""
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
