"""`marmix simulate`: a CSV file of simulated, partially labelled rows."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from marmix.commands.arguments import add_command, add_shared, at_least, place, share
from marmix.commands.words import print_json
from marmix.datasets import make_mar_mixture
from marmix.datasets.families import FAMILIES
from marmix.outputs import one_file
from marmix.tables.writing import write_table


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "simulate",
        simulate,
        about="write a CSV file of simulated rows with missing labels",
        usage="--out FILE [options]",
        description="Simulate rows of several classes, and remove labels: the less certain the class, the more often. For trying "
        "things out, and for teaching.",
        examples=[
            ("A thousand rows of two classes:", "marmix simulate --out rows.csv"),
            (
                "Larger, with the true labels in a column of their own:",
                "marmix simulate --rows 5000 --features 10 --classes 3 --truth --out more.csv",
            ),
        ],
        also=("fit", "study"),
    )
    rows = parser.add_argument_group("the rows")
    number = "number of {} (default: %(default)s)"
    rows.add_argument("--rows", type=at_least(2), default=1000, metavar="N", help=number.format("rows"))
    rows.add_argument("--features", type=at_least(1), default=2, metavar="N", help=number.format("features"))
    rows.add_argument("--classes", type=at_least(2), default=2, metavar="N", help=number.format("classes"))
    families = "distribution of the features in a class (default: %(default)s)"
    rows.add_argument("--distribution", choices=sorted(FAMILIES), default="gaussian", help=families)
    rate = "share of missing labels (default: %(default)s)"
    rows.add_argument("--rate", type=share, default=0.7, metavar="SHARE", help=rate)
    rows.add_argument("--truth", action="store_true", help="add a column 'truth' with the true labels")
    add_shared(rows, "--seed")
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=place, required=True, metavar="FILE", help="CSV file to write")
    add_shared(output, "--force", "--json")
    add_shared(parser.add_argument_group("general"), "--quiet", "--debug", "--help")


def simulate(options: argparse.Namespace) -> int:
    """Simulate and write."""
    with one_file(Path(options.out), options.force) as path:
        missing = write_rows(options, path)
    if options.json:
        print_json({"rows": options.rows, "missing": missing, "file": options.out})
    elif not options.quiet:
        print(f"Written: {options.out} ({options.rows:,} rows, {missing:,} without a label)")
    return 0


def write_rows(options: argparse.Namespace, path: Path) -> int:
    """Write simulated rows to a file; returns the number of missing labels."""
    try:
        drawn = make_mar_mixture(
            options.rows,
            distribution=options.distribution,
            n_classes=options.classes,
            n_features=options.features,
            rate=options.rate,
            at_least=2,
            random_state=options.seed,
        )
    except ValueError as error:
        if "at_least" not in str(error):
            raise
        raise ValueError(
            f"{options.rows:,} rows leave some of the {options.classes} classes with fewer than two labels: use more --rows, "
            "fewer --classes or a lower --rate."
        ) from None
    columns: dict[str, list[Any]] = {f"x{i}": drawn.data[:, i].tolist() for i in range(options.features)}
    columns["label"] = ["" if label < 0 else label for label in drawn.target.tolist()]
    if options.truth:
        columns["truth"] = drawn.target_true.tolist()
    write_table(path, columns)
    return int(np.sum(drawn.target < 0))
