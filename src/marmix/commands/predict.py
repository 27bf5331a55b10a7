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
        usage="MODEL DATA [--out FILE] [options]",
        description="Apply a saved model to a file, and write its columns unchanged plus the predicted label, the probability of "
        "each class, the uncertainty and the probability of a missing label.\n\nRows that cannot be predicted because a feature "
        "is missing get empty cells. Without --out, the rows go to standard output and messages to standard error.",
        examples=[
            ("Predict the rows of new.csv:", "marmix predict results/model.marmix new.csv --out predicted.csv"),
            ("Print the rows, for a pipe or to look at:", "marmix predict results/model.marmix new.csv"),
        ],
        also=("fit", "evaluate"),
    )
    add_shared(parser.add_argument_group("the model and the file"), "model", "data")
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=place, metavar="FILE", help="CSV file to write (default: standard output)")
    add_shared(output, "--force", "--prefix", "--escape-formulas")
    output.add_argument("--json", action="store_true", help="print counts of the predictions as JSON; needs --out")
    add_reading(parser)
    add_shared(parser.add_argument_group("general"), "--quiet", "--debug", "--help")


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
