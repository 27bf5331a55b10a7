"""`marmix fit`: from a file to imputed labels, a model, a report."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from marmix.commands.arguments import (
    add_command,
    add_missing,
    add_output,
    add_reading,
    at_least_two,
    reading_options,
    seed,
)
from marmix.commands.words import print_json, summary_lines
from marmix.journey import MODELS, FitOptions, Progress, fit_file
from marmix.mechanism.links import LINKS

NOT_CONVERGED = 3


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "fit",
        fit,
        about="impute the missing labels of a file, and write a model and a report",
        description="Read a CSV, TSV, Parquet, Feather or Excel file in which some rows have no label, compare models with the "
        "missingness modelled and ignored, fit the best one (missingness is ignored only where that is clearly better), and "
        "write to the folder OUT: imputed.csv (the file with a label, "
        "its probability and uncertainty for every row), model.marmix, report.html and summary.json. Exit code 3 means that all "
        "was written but the fit did not converge.",
        examples="  marmix fit cells.csv --label type --out results\n"
        "  marmix fit cells.csv --label type --id cell --features area perimeter texture --out results\n"
        "  marmix fit survey.parquet --label class --missing unknown --model logistic --out results --json\n",
    )
    parser.add_argument("data", metavar="DATA", help="the file: .csv, .tsv, .parquet, .feather or .xlsx")
    parser.add_argument("--label", required=True, metavar="COLUMN", help="column of the labels, some of them missing")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write to")
    parser.add_argument("--features", nargs="+", metavar="COLUMN", help="columns to learn from (default: all others)")
    parser.add_argument("--exclude", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    parser.add_argument("--id", metavar="COLUMN", help="column that names the rows; not a feature")
    parser.add_argument("--model", choices=MODELS, default="auto", help="kind of model (default auto: compare them)")
    parser.add_argument("--link", choices=tuple(LINKS), default="logit", help="of the missingness (default logit)")
    add_missing(parser)
    parser.add_argument(
        "--impute-features",
        choices=("median", "drop"),
        default="median",
        help="rows with a missing feature: fill in the median (the most frequent category), or leave such rows out of the fit "
        "and without an imputed label (default median)",
    )
    parser.add_argument("--folds", type=at_least_two, default=5, help="of the cross-validation (default 5)")
    parser.add_argument("--seed", type=seed, default=0, help="of everything random (default 0)")
    parser.add_argument("--force", action="store_true", help="replace files that are there already")
    parser.add_argument("--prefix", default="marmix_", help="of the columns that are added (default marmix_)")
    parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="put an apostrophe before cells that a spreadsheet would run as a formula (=, +, -, @); without it they "
        "stay as they are",
    )
    add_reading(parser)
    add_output(parser)


def fit(options: argparse.Namespace) -> int:
    """Fit, write, and say what was found."""
    wanted = FitOptions(
        data=Path(options.data),
        label=options.label,
        out=Path(options.out),
        features=options.features,
        exclude=options.exclude,
        id=options.id,
        model=options.model,
        link=options.link,
        missing=options.missing,
        impute_features=options.impute_features,
        folds=options.folds,
        seed=options.seed,
        force=options.force,
        prefix=options.prefix,
        escape_formulas=options.escape_formulas,
        reading=reading_options(options),
        command="marmix " + shlex.join(options.arguments),
    )
    findings = fit_file(wanted, Progress(options.quiet))
    if options.json:
        print_json(findings.as_dict())
    elif not options.quiet:
        print("\n".join(summary_lines(findings)))
        print(f"\nWritten to {wanted.out}: imputed.csv, model.marmix, summary.json, report.html")
    if not findings.model.converged:
        print(
            "marmix fit: the fit did not converge; its results are written, and the report says more.", file=sys.stderr
        )
        return NOT_CONVERGED
    return 0
