"""`marmix predict`: labels and probabilities for the rows of a file."""

import argparse
import sys
from pathlib import Path
from typing import Any

from marmix.commands.arguments import add_command, add_output, add_reading, reading_options
from marmix.commands.words import print_json
from marmix.journey import Progress, predict_file


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "predict",
        predict,
        about="labels and probabilities for the rows of a file",
        description="Apply a saved model to a file: its columns as they are, plus label, probability of every class, uncertainty "
        "and probability of a missing label. Rows that cannot be predicted, for want of features, get empty cells.",
        examples="  marmix predict results/model.marmix new.csv --out predicted.csv\n"
        "  marmix predict results/model.marmix new.csv | head\n",
    )
    parser.add_argument("model", metavar="MODEL", help="a model.marmix, written by 'marmix fit' or marmix.save")
    parser.add_argument("data", metavar="DATA", help="the file: .csv, .tsv, .parquet, .feather or .xlsx")
    parser.add_argument("--out", metavar="FILE", help="file to write (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there already")
    parser.add_argument("--prefix", default="marmix_", help="of the columns that are added (default marmix_)")
    parser.add_argument(
        "--escape-formulas", action="store_true", help="put an apostrophe before cells that a spreadsheet would run"
    )
    add_reading(parser)
    add_output(parser)


def predict(options: argparse.Namespace) -> int:
    """Predict, write, and say how many."""
    if options.json and options.out is None:
        raise ValueError("--json needs --out: standard output cannot hold the rows and the summary.")
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
        # standard output may hold the rows
        out = sys.stderr if options.out is None else sys.stdout
        classes = ", ".join(f"{count:,} {name}" for name, count in counts["labels"].items())
        print(
            f"{counts['rows']:,} rows: {classes}" + (f"; {counts['unfilled']:,} without" if counts["unfilled"] else ""),
            file=out,
        )
        for note in counts["notes"]:
            print(f"  note: {note}", file=out)
    return 0
