"""`marmix report`: the report of a saved model on a file."""

import argparse
from pathlib import Path
from typing import Any

from marmix.commands.arguments import add_command, add_labels, add_reading, add_shared, place, reading_options
from marmix.commands.words import print_findings
from marmix.journey import Progress, report_file
from marmix.terminal import command_line


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "report",
        report,
        about="write a report of a saved model on the rows of a file",
        usage="MODEL DATA --out FILE [options]",
        description="Write the HTML report of a saved model, on the file of the fit or on another file with the same columns. "
        "The model is not fitted again; on the file of the fit, the cross-validation is repeated.",
        examples=[
            ("Write the report of a fit again:", "marmix report results/model.marmix cells.csv --out report.html"),
            (
                "Report on another file with labels:",
                "marmix report results/model.marmix test.csv --label type --out test.html",
            ),
        ],
        also=("fit", "evaluate"),
    )
    columns = parser.add_argument_group("the model, the file and its columns")
    add_shared(columns, "model", "data")
    add_labels(columns, "label column (default: labels as in the fit)", required=False)
    columns.add_argument("--id", metavar="COLUMN", help="column that identifies the rows (default: as in the fit)")
    add_shared(parser.add_argument_group("what counts as missing"), "--missing")
    add_shared(parser.add_argument_group("the model"), "--seed")
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=place, required=True, metavar="FILE", help="HTML file to write")
    add_shared(output, "--force", "--json")
    add_reading(parser)
    add_shared(parser.add_argument_group("general"), "--quiet", "--debug", "--help")


def report(options: argparse.Namespace) -> int:
    """Write the report and print a summary."""
    findings = report_file(
        Path(options.model),
        Path(options.data),
        Path(options.out),
        progress=Progress(options.quiet),
        label=options.label,
        votes=options.votes,
        shares=options.shares,
        id=options.id,
        missing=options.missing,
        seed=options.seed,
        force=options.force,
        reading=reading_options(options),
        command=command_line(["marmix", *options.arguments]),
    )
    print_findings(options, findings, f"Written: {options.out}")
    return 0
