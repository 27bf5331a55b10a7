"""`marmix fit`: impute the missing labels of a file."""

import argparse
import sys
from pathlib import Path
from typing import Any

from marmix.commands.arguments import (
    add_command,
    add_labels,
    add_reading,
    add_shared,
    at_least,
    place,
    reading_options,
    share,
    text,
)
from marmix.commands.words import print_findings
from marmix.core.links import LINKS
from marmix.journey import FILES, MODELS, Doubtful, FitOptions, Progress, Survey, fit_file

WRONG_ARGUMENTS, NOT_CONVERGED = 2, 3
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def class_share(text: str) -> tuple[str, float]:
    """A class and its share, from CLASS=SHARE."""
    name, _, value = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not CLASS=SHARE, such as malignant=0.03")
    return name, share(value)


def seconds(text: str) -> float:
    """A time in seconds, from a number that may have the unit s, m or h."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit]
    except ValueError:
        value = -1.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, such as 90 (seconds), 10m or 2h")
    return value


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "fit",
        fit,
        about="impute missing labels of a file; write a model and a report",
        usage="DATA --label COLUMN --out DIR [options]",
        description="Read a CSV, TSV, Parquet, Feather or Excel file in which some rows have no label. Models that take into "
        "account why labels are missing and models that ignore it are averaged, weighted by cross-validation. Four files are "
        "written to DIR: imputed.csv (the rows with a label, class probabilities and uncertainty), model.marmix, report.html and "
        "summary.json. The report also compares with usual classifiers of the labelled rows.\n\nIf columns, labels or rows look "
        "doubtful, the doubts are listed before the fit starts, with a command line that settles them. A terminal asks whether "
        "to go on; elsewhere nothing is written unless --yes is given.",
        examples=[
            (
                "Impute the labels that are missing in the column 'type':",
                "marmix fit cells.csv --label type --out results",
            ),
            (
                "Choose the features, and name the column that identifies a row:",
                "marmix fit patients.csv --label state --id name --features age bmi --out few",
            ),
            (
                "Count 'unknown' as a missing label, and print the findings as JSON:",
                "marmix fit survey.parquet --label class --missing unknown --out poll --json",
            ),
            (
                "Say that 10 % of all claims are fraudulent, whatever the labels suggest:",
                "marmix fit claims.csv --label fraud --prevalence yes=0.1 --out claims",
            ),
            (
                "Learn from the votes of three annotators:",
                "marmix fit scans.csv --votes reader1 reader2 reader3 --out scans",
            ),
        ],
        exits={
            2: "wrong arguments, or questions about the file; nothing was written",
            3: "the files were written, but models with most of the weight did not converge",
        },
        also=("predict", "evaluate", "sensitivity", "report", "demo"),
    )
    columns = parser.add_argument_group("the file and its columns")
    columns.add_argument("data", type=place, metavar="DATA", help="data file: .csv, .tsv, .parquet, .feather or .xlsx")
    add_labels(columns, "label column; some labels are missing")
    columns.add_argument("--id", metavar="COLUMN", help="column that identifies the rows; not used as a feature")
    columns.add_argument("--features", nargs="+", metavar="COLUMN", help="feature columns (default: all others)")
    columns.add_argument(
        "--exclude", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns to leave out"
    )
    columns.add_argument(
        "--classes",
        nargs="+",
        default=[],
        metavar="NAME",
        help="all classes, in the order of their columns; other labels are an error. Needed if a class has a name that usually "
        "means a missing label, such as None or -1 (default: all labels, sorted)",
    )
    missing = parser.add_argument_group("what counts as missing")
    add_shared(missing, "--missing")
    missing.add_argument(
        "--missing-cells",
        nargs="+",
        action="extend",
        type=text,
        default=[],
        metavar="TEXT",
        help="treat feature cells with this text or number, such as '<5' or 999, as empty, here and in 'marmix predict'. Empty, "
        "NA, NaN, null, None and ? always count as missing",
    )
    missing.add_argument(
        "--impute-features",
        choices=("median", "drop"),
        default="median",
        help="rows with a missing feature: fill in the median (or most frequent category), or drop such rows from the fit and "
        "impute no label (default: %(default)s)",
    )
    questions = parser.add_argument_group("questions about the file")
    questions.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="ask nothing about this column; may be repeated",
    )
    questions.add_argument(
        "--yes",
        action="store_true",
        help="if the file raises questions, such as a column of identifiers, make the proposed changes and say which",
    )
    model = parser.add_argument_group("the model")
    model.add_argument(
        "--model", choices=MODELS, default="auto", help="kind of model; auto tries all kinds (default: %(default)s)"
    )
    model.add_argument(
        "--link", choices=tuple(LINKS), default="logit", help="link of the missingness model (default: %(default)s)"
    )
    model.add_argument(
        "--folds", type=at_least(2), default=5, metavar="N", help="folds of the cross-validation (default: %(default)s)"
    )
    add_shared(model, "--seed")
    model.add_argument(
        "--thorough",
        action="store_true",
        help="take several times as long: all candidates, however many parameters they have, simulated instead of asymptotic "
        "p-values where the model is fitted by likelihood, more draws behind intervals",
    )
    model.add_argument(
        "--time-limit",
        type=seconds,
        metavar="TIME",
        help="time for comparing models, in seconds, or with a unit as in 10m or 2h; models that are not fitted by then are left "
        "out, and the output names them. Reading and writing take extra time (default: no limit)",
    )
    answer = parser.add_argument_group("the answer")
    answer.add_argument(
        "--prevalence",
        type=class_share,
        action="append",
        default=[],
        metavar="CLASS=SHARE",
        help="the known share of a class among all rows, such as yes=0.03, where the labels given are not a fair sample of the "
        "classes; may be repeated. Probabilities are shifted to agree with it",
    )
    answer.add_argument(
        "--sets",
        type=share,
        metavar="SHARE",
        help="add a column with a set of classes for each row without a label, such that this share of the sets, for instance "
        "0.9, holds the true class",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=place, required=True, metavar="DIR", help="folder to write to")
    add_shared(output, "--force", "--prefix", "--escape-formulas", "--json")
    add_reading(parser)
    add_shared(parser.add_argument_group("general"), "--quiet", "--debug", "--help")


def _shares(pairs: list[tuple[str, float]]) -> dict[str, float]:
    """The shares by class, each of which may be given once."""
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"--prevalence gives the share of {twice[0]!r} twice.")
    return dict(pairs)


def fit_options(options: argparse.Namespace) -> FitOptions:
    """The options of the fit."""
    return FitOptions(
        data=Path(options.data),
        label=options.label,
        votes=options.votes,
        shares=options.shares,
        out=Path(options.out),
        features=options.features,
        exclude=options.exclude,
        id=options.id,
        model=options.model,
        link=options.link,
        missing=options.missing,
        classes=options.classes,
        keep=options.keep,
        impute_features=options.impute_features,
        missing_cells=options.missing_cells,
        folds=options.folds,
        sets=options.sets,
        thorough=options.thorough,
        time_limit=options.time_limit,
        prevalence=_shares(options.prevalence),
        seed=options.seed,
        force=options.force,
        prefix=options.prefix,
        escape_formulas=options.escape_formulas,
        reading=reading_options(options),
        command=["marmix", *options.arguments],
    )


def fit(options: argparse.Namespace) -> int:
    """Fit, write the files, and print a summary."""
    try:
        findings = fit_file(fit_options(options), Progress(options.quiet), lambda survey: _agreed(options, survey))
    except Doubtful as doubtful:
        if doubtful.survey.fatal:
            raise
        # where it asks, the questions have been printed
        print(f"marmix fit: {'nothing was written.' if _asks(options) else doubtful}", file=sys.stderr)
        return WRONG_ARGUMENTS
    print_findings(options, findings, f"Written to {options.out}: {', '.join(FILES)}")
    if not findings.model.converged:
        print("marmix fit: the fit did not converge; the files were written, see the report.", file=sys.stderr)
        return NOT_CONVERGED
    return 0


def _asks(options: argparse.Namespace) -> bool:
    """Whether there is a terminal to ask in."""
    return not options.yes and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _agreed(options: argparse.Namespace, survey: Survey) -> bool:
    """Whether to go on with the remedies of a survey: with --yes, or if the user says so."""
    if options.yes:
        for caution in survey.cautions():
            print(f"marmix fit: {caution.text}", file=sys.stderr)
    elif _asks(options):
        print(f"marmix fit: {survey.text()}\nGo on with these changes? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().casefold() in ("y", "yes")
    return bool(options.yes)
