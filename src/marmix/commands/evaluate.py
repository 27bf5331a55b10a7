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
        usage="MODEL DATA [--label COLUMN] [options]",
        description="Compare the predictions of a saved model with the labels of a file, and print the confusion matrix and a "
        "table of scores with standard errors.\n\nIf some labels are missing, corrected scores come first: in them, rows without "
        "a label are scored by the model's probabilities, adjusted to the labels of similar rows. Scores on the file of the fit "
        "are too good, and the output says so.",
        examples=[
            (
                "Score a model on rows that it has not seen:",
                "marmix evaluate results/model.marmix test.csv --label type",
            ),
            ("The same for other programs:", "marmix evaluate results/model.marmix test.csv --label type --json"),
        ],
        also=("sensitivity", "report"),
    )
    input = parser.add_argument_group("the model, the file and its columns")
    add_shared(input, "model", "data")
    add_labels(input, "label column; some labels may be missing (default: as in the fit)", required=False)
    add_shared(parser.add_argument_group("what counts as missing"), "--missing")
    add_shared(parser.add_argument_group("output"), "--json")
    add_reading(parser)
    add_shared(parser.add_argument_group("general"), "--quiet", "--debug", "--help")


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
