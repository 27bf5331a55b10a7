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
        description="Simulate rows of several classes, and remove labels: the less certain the class, the more often. For trying "
        "things out, and for teaching.",
        examples="  marmix simulate --out rows.csv\n"
        "  marmix simulate --rows 100000 --features 10 --classes 3 --rate 0.8 --truth --out rows.csv\n",
    )
    parser.add_argument("--out", type=place, required=True, metavar="FILE", help="CSV file to write")
    parser.add_argument("--rows", type=at_least(2), default=1000, help="number of rows (default 1000)")
    parser.add_argument("--features", type=at_least(1), default=2, help="number of features (default 2)")
    parser.add_argument("--classes", type=at_least(2), default=2, help="number of classes (default 2)")
    families = "distribution of the features in a class (default gaussian)"
    parser.add_argument("--distribution", choices=sorted(FAMILIES), default="gaussian", help=families)
    parser.add_argument("--rate", type=share, default=0.7, help="share of missing labels (default 0.7)")
    parser.add_argument("--truth", action="store_true", help="add a column 'truth' with the true labels")
    add_shared(parser, "--seed", "--force", "--json", "--quiet")


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
