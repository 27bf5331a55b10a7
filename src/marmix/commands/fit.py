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
from marmix.commands.words import command_line, print_findings
from marmix.journey import FILES, MODELS, Doubtful, FitOptions, Progress, Survey, fit_file
from marmix.mechanism.links import LINKS
from marmix.tables.cells import shown

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
        about="impute the missing labels of a file; write a model and a report",
        description="Read a CSV, TSV, Parquet, Feather or Excel file in which some rows have no label, and average models that "
        "take into account why labels are missing and models that ignore it, weighted by cross-validation. The report compares "
        "them with usual classifiers of the labelled rows. Four files are written to the folder DIR: imputed.csv (the rows with "
        "a label, class probabilities and uncertainty), model.marmix, report.html and summary.json. If columns, labels or rows "
        "look doubtful, all doubts are listed before the work, with a command line that settles them. Exit code 2: there are "
        "such questions, and nothing was written. Exit code 3: the files were written, but models with most of the weight did "
        "not converge.",
        examples="  marmix fit cells.csv --label type --out results\n"
        "  marmix fit cells.csv --label type --id cell --features area perimeter texture --out results\n"
        "  marmix fit survey.parquet --label class --missing unknown --model logistic --out results --json\n"
        "  marmix fit claims.csv --label fraud --prevalence yes=0.03 --out results\n"
        "  marmix fit scans.csv --votes reader1 reader2 reader3 --out results\n",
    )
    parser.add_argument("data", type=place, metavar="DATA", help="data file: .csv, .tsv, .parquet, .feather or .xlsx")
    add_labels(parser, "label column; some labels are missing")
    parser.add_argument("--out", type=place, required=True, metavar="DIR", help="folder to write to")
    parser.add_argument("--features", nargs="+", metavar="COLUMN", help="feature columns (default: all others)")
    parser.add_argument(
        "--exclude", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns to leave out"
    )
    parser.add_argument("--id", metavar="COLUMN", help="column that identifies the rows; not used as a feature")
    parser.add_argument("--model", choices=MODELS, default="auto", help="kind of model (default auto: all kinds)")
    parser.add_argument(
        "--link", choices=tuple(LINKS), default="logit", help="link of the missingness model (default logit)"
    )
    add_shared(parser, "--missing")
    parser.add_argument(
        "--classes",
        nargs="+",
        default=[],
        metavar="NAME",
        help="all classes, in the order of their columns (default: all labels, sorted); other labels are an error. Needed if a "
        "class has a name that usually means a missing label, such as None or -1",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="ask nothing about this column, or this value of the label column; may be repeated",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="if the file raises questions, such as a column of identifiers or a label 'unknown', make the proposed changes and "
        "say which; a text that may be a class or mean a missing label still needs --classes or --missing. "
        "Without it a terminal asks; elsewhere the program ends with exit code 2, the questions, and a command line that answers "
        "them",
    )
    parser.add_argument(
        "--prevalence",
        type=class_share,
        action="append",
        default=[],
        metavar="CLASS=SHARE",
        help="the known share of a class among all rows, such as yes=0.03, where the labels given are not a fair sample of the "
        "classes; may be repeated. Probabilities are shifted to agree with it",
    )
    parser.add_argument(
        "--impute-features",
        choices=("median", "drop"),
        default="median",
        help="rows with a missing feature: fill in the median (or most frequent category), or drop such rows from the fit and "
        "impute no label (default median)",
    )
    parser.add_argument(
        "--missing-cells",
        nargs="+",
        action="extend",
        type=text,
        default=[],
        metavar="TEXT",
        help="treat feature cells with this text or number, such as '<5' or 999, as empty, here and in 'marmix predict'. Empty, "
        "NA, NaN, null, None and ? always count as missing",
    )
    parser.add_argument(
        "--sets",
        type=share,
        metavar="SHARE",
        help="add a column with a set of classes for each row without a label, such that this share of the sets, for instance "
        "0.9, holds the true class",
    )
    parser.add_argument(
        "--thorough",
        action="store_true",
        help="take several times as long: all candidates, however many parameters they have, simulated instead of asymptotic "
        "p-values where the model is fitted by likelihood, more draws behind intervals",
    )
    parser.add_argument(
        "--time-limit",
        type=seconds,
        metavar="TIME",
        help="time for comparing models, in seconds, or with a unit as in 10m or 2h; models that are not fitted by then are left "
        "out, and the output names them. Reading and writing take their own time (default: no limit)",
    )
    parser.add_argument("--folds", type=at_least(2), default=5, help="folds of the cross-validation (default 5)")
    add_shared(parser, "--seed", "--force", "--prefix", "--escape-formulas")
    add_reading(parser)
    add_shared(parser, "--json", "--quiet")


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
        command=command_line(options),
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


def _agreed(options: argparse.Namespace, survey: Survey) -> bool | FitOptions:
    """Whether to go on with the remedies of a survey: with --yes, or if the user says so; or options with the user's answers."""
    if survey.open:
        return _asks(options) and _answers(survey)
    if options.yes:
        for caution in survey.cautions():
            print(f"marmix fit: {caution.text}", file=sys.stderr)
    elif _asks(options):
        print(f"marmix fit: {survey.text()}\nGo on with these changes? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().casefold() in ("y", "yes")
    return bool(options.yes)


def _answers(survey: Survey) -> bool | FitOptions:
    """The options with the user's answers to the open questions; False if there is none."""
    print(f"marmix fit: {survey.text()}", file=sys.stderr)
    classes = []
    for doubt in survey.open:
        text = "" if doubt.remedy is None else doubt.remedy[1]
        print(f"Is {shown(text)} a class? [y: a class, n: a missing label] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline().strip().casefold()
        if answer not in ("y", "yes", "n", "no"):
            return False
        classes += [text] if answer.startswith("y") else []
    return survey.answered(classes)
