"""`marmix evaluate`: how good a saved model is on labelled rows of a file."""

import argparse
from pathlib import Path
from typing import Any

from marmix.commands.arguments import add_command, add_missing, add_output, add_reading, reading_options
from marmix.commands.words import print_json
from marmix.journey import Progress, evaluate_file


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "evaluate",
        evaluate,
        about="scores of a saved model on the labelled rows of a file",
        description="Compare a saved model with the labels of a file. Where some labels are missing the scores are also "
        "corrected for that: labelled rows count for the rows like them that lost their label.",
        examples="  marmix evaluate results/model.marmix test.csv --label type\n"
        "  marmix evaluate results/model.marmix test.csv --label type --json\n",
    )
    parser.add_argument("model", metavar="MODEL", help="a model.marmix")
    parser.add_argument("data", metavar="DATA", help="a file with the columns of the fit")
    parser.add_argument("--label", required=True, metavar="COLUMN", help="column of the labels, some may be missing")
    add_missing(parser)
    add_reading(parser)
    add_output(parser)


def evaluate(options: argparse.Namespace) -> int:
    """Score, and print a table."""
    found = evaluate_file(
        Path(options.model),
        Path(options.data),
        options.label,
        progress=Progress(options.quiet),
        missing=options.missing,
        reading=reading_options(options),
    )
    if options.json:
        print_json(found.as_dict())
    else:
        print(found.table().as_text())
    return 0
