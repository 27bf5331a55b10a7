"""`marmix evaluate`: scores of a saved model on the labelled rows of a file."""

import argparse
from pathlib import Path
from typing import Any

from marmix.commands.arguments import add_command, add_labels, add_reading, add_shared, reading_options
from marmix.commands.words import print_json
from marmix.journey import Progress, evaluate_file


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "evaluate",
        evaluate,
        about="score a saved model on the labelled rows of a file",
        description="Compare the predictions of a saved model with the labels of a file. If some labels are missing, the scores "
        "are also corrected for that: labelled rows stand for similar rows without a label.",
        examples="  marmix evaluate results/model.marmix test.csv --label type\n"
        "  marmix evaluate results/model.marmix test.csv --label type --json\n",
    )
    add_shared(parser, "model", "data")
    add_labels(parser, "label column; some labels may be missing (default: as in the fit)", required=False)
    add_shared(parser, "--missing")
    add_reading(parser)
    add_shared(parser, "--json", "--quiet")


def evaluate(options: argparse.Namespace) -> int:
    """Score the model and print a table."""
    evaluation = evaluate_file(
        Path(options.model),
        Path(options.data),
        options.label,
        votes=options.votes,
        shares=options.shares,
        progress=Progress(options.quiet),
        missing=options.missing,
        reading=reading_options(options),
    )
    if options.json:
        print_json(evaluation.as_dict())
    else:
        print(evaluation.table().as_text())
    return 0
