"""`marmix predict`: predictions for the rows of a file."""

import argparse
import sys
from pathlib import Path
from typing import Any

from marmix.commands.arguments import add_command, add_reading, add_shared, place, reading_options
from marmix.commands.words import print_json
from marmix.journey import Progress, predict_file


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "predict",
        predict,
        about="predict labels and probabilities for the rows of a file",
        description="Apply a saved model to a file, and write its columns unchanged plus the predicted label, the probability of "
        "each class, the uncertainty and the probability of a missing label. Rows that cannot be predicted because a feature is "
        "missing get empty cells.",
        examples="  marmix predict results/model.marmix new.csv --out predicted.csv\n"
        "  marmix predict results/model.marmix new.csv | head\n",
    )
    add_shared(parser, "model", "data")
    parser.add_argument("--out", type=place, metavar="FILE", help="CSV file to write (default: standard output)")
    add_shared(parser, "--force", "--prefix", "--escape-formulas")
    add_reading(parser)
    add_shared(parser, "--json", "--quiet")


def predict(options: argparse.Namespace) -> int:
    """Predict, write the rows, and print counts."""
    if options.json and options.out is None:
        raise ValueError("--json needs --out: standard output cannot hold both the rows and the summary.")
    counts = predict_file(
        Path(options.model),
        Path(options.data),
        None if options.out is None else Path(options.out),
        progress=Progress(options.quiet),
        force=options.force,
        prefix=options.prefix,
        escape_formulas=options.escape_formulas,
        reading=reading_options(options),
    )
    if options.json:
        print_json(counts)
    elif not options.quiet:
        classes = ", ".join(f"{count:,} {name}" for name, count in counts["labels"].items())
        unfilled = f"; {counts['unfilled']:,} without a prediction" if counts["unfilled"] else ""
        total = f"{counts['rows']:,} rows: {classes}{unfilled}".replace("\n", "\\n")
        lines = [total, *(f"  note: {note}" for note in counts["notes"])]
        print("\n".join(lines), file=sys.stderr if options.out is None else sys.stdout)
    return 0
