"""`marmix report`: the report of a saved model on a file."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from marmix.commands.arguments import add_command, add_missing, add_output, add_reading, reading_options, seed
from marmix.commands.words import print_json, summary_lines
from marmix.journey import Progress, report_file


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "report",
        report,
        about="a report of a saved model on the rows of a file",
        description="Write report.html for a saved model and a file: the one of the fit, or another with the same columns. "
        "Nothing is fitted again but the folds of a cross-validation, if the file is the one of the fit.",
        examples="  marmix report results/model.marmix cells.csv --out report.html\n"
        "  marmix report results/model.marmix other.csv --label type --out other.html --force\n",
    )
    parser.add_argument("model", metavar="MODEL", help="a model.marmix written by 'marmix fit'")
    parser.add_argument("data", metavar="DATA", help="a file with the columns of the fit")
    parser.add_argument("--out", required=True, metavar="FILE", help="page to write")
    parser.add_argument("--label", metavar="COLUMN", help="column of the labels (default: that of the fit)")
    parser.add_argument("--id", metavar="COLUMN", help="column that names the rows (default: that of the fit)")
    add_missing(parser)
    parser.add_argument("--seed", type=seed, default=0, help="of everything random (default 0)")
    parser.add_argument("--force", action="store_true", help="replace the page if it is there already")
    add_reading(parser)
    add_output(parser)


def report(options: argparse.Namespace) -> int:
    """Write the page and say what it says."""
    findings = report_file(
        Path(options.model),
        Path(options.data),
        Path(options.out),
        progress=Progress(options.quiet),
        label=options.label,
        id=options.id,
        missing=options.missing,
        seed=options.seed,
        force=options.force,
        reading=reading_options(options),
        command="marmix " + shlex.join(options.arguments),
    )
    if options.json:
        print_json(findings.as_dict())
    elif not options.quiet:
        print("\n".join(summary_lines(findings)))
        print(f"\nWritten: {options.out}")
    return 0
