"""The commands: each declares its options, calls one function, and prints what it returns."""

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields
from fractions import Fraction
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple, NoReturn, TypeVar

from sklearn.pipeline import Pipeline

from marmix import persistence
from marmix.app import audit, demo, fit, saved
from marmix.app.diagnosing import diagnose_file
from marmix.app.findings import Findings, finite
from marmix.app.survey import Options
from marmix.app.wording import WIDTH, summary_lines, verdict_lines
from marmix.selection.candidates import KINDS
from marmix.terminal import Progress

LARGEST_SEED = 2**32 - 1  # of NumPy


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples, and whose errors take two lines.

    Parameters
    ----------
    usage : str
        What is typed after the name of the program or command.
    description : str
        Paragraphs, separated by blank lines.
    examples : sequence of pairs
        What a command line does, and the command line.
    ending : str
        A paragraph below.
    """

    def __init__(
        self, *, usage: str, description: str, examples: Sequence[tuple[str, str]], ending: str = "", **kwargs: Any
    ):
        self.examples = tuple(examples)
        self.commands: dict[str, Parser] = {}
        lines = [f"  {words}\n    {command}" for words, command in self.examples]
        super().__init__(
            usage=f"%(prog)s {usage}",
            description="\n\n".join(fill(paragraph, WIDTH) for paragraph in description.split("\n\n")),
            epilog="\n".join(["examples:", *lines, *([f"\n{fill(ending, WIDTH)}"] if ending else [])]),
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=28, width=WIDTH),
            add_help=False,
            **kwargs,
        )
        self.color = False  # what the program prints has no control characters

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        self.exit(2, f"{self.prog}: {message}\nSee {self.prog} --help.\n")


def between(low: float, high: float, what: str, kind: Callable[[str], float] = float) -> Callable[[str], Any]:
    """A converter to numbers between two others."""

    def convert(text: str) -> float:
        try:
            value = kind(text)
        except (ValueError, ZeroDivisionError):
            value = math.nan
        if not low < value < high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return convert


def whole(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A converter to integers of at least `least` and at most `most`."""
    return between(least - 1, most + 1, f"a whole number from {least} to {most}", int)


def of_hundred(text: str) -> float:
    """A number, which may be in percent."""
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)


share = between(0.0, 1.0, "a number between 0 and 1, such as 0.05 or 5%", of_hundred)
odds = between(
    1e-20, 1e20, "an odds ratio: a positive number, or a fraction such as 1/2", lambda text: float(Fraction(text))
)


def class_share(text: str) -> tuple[str, float]:
    """A class and its share, from CLASS=SHARE."""
    name, _, value = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not CLASS=SHARE, such as malignant=0.03")
    return name, share(value)


def log_odds(text: str) -> float:
    """The logarithm of an odds ratio."""
    return math.log(odds(text))


LABEL_OPTIONS = ("--label", "--votes", "--shares")  # of which one may be given
_FLAG: dict[str, Any] = {"action": "store_true"}
_REPEATED: dict[str, Any] = {"action": "append", "default": []}
_SEVERAL: dict[str, Any] = {"nargs": "+", "default": []}
_EXTENDED: dict[str, Any] = _SEVERAL | {"action": "extend"}

# All options of the commands that work on files; what a command says otherwise stands with the command.
OPTIONS: dict[str, dict[str, Any]] = {
    "model": {"type": Path, "metavar": "MODEL", "help": "model.marmix, as 'marmix fit' or marmix.save wrote it"},
    "data": {"type": Path, "metavar": "DATA", "help": "file with the columns of the fit"},
    "--label": {"metavar": "COLUMN", "help": "label column (default: as in the fit)"},
    "--votes": _SEVERAL | {"metavar": "COL", "help": "or: label columns, one for each annotator"},
    "--shares": _SEVERAL | {"metavar": "COL", "help": "or: columns of votes, one named after each class"},
    "--id": {"metavar": "COLUMN", "help": "column that identifies the rows"},
    "--join": {"type": Path, "metavar": "FILE", "help": "file with more columns of the rows, found by --id"},
    "--features": {"nargs": "+", "metavar": "COL", "help": "feature columns (default: all others)"},
    "--exclude": _EXTENDED | {"metavar": "COL", "help": "columns to leave out"},
    "--missing": _EXTENDED | {"metavar": "TEXT", "help": "labels that mean missing, besides empty, NA, -1, ?"},
    "--missing-cells": _EXTENDED | {"metavar": "T"} | {"help": "feature cells that mean missing, such as 999"},
    "--impute-features": {"choices": ("median", "drop"), "default": "median", "metavar": "HOW"}
    | {"help": "median, or drop: no label where a feature is missing"},
    "--classes": _SEVERAL | {"metavar": "C", "help": "all classes, if one is named None or -1"},
    "--keep": _REPEATED | {"metavar": "COLUMN", "help": "use a column that looks like an identifier or a leak"},
    "--model": {"choices": KINDS, "default": "auto", "metavar": "KIND"}
    | {"help": f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"},
    "--prevalence": _REPEATED
    | {"type": class_share, "metavar": "CLASS=SHARE", "help": "known share of a class among all rows: yes=0.03"},
    "--sets": {"type": share, "metavar": "SHARE"} | {"help": "add sets; this share of them holds the true class"},
    "--accept": {"type": share, "metavar": "SHARE"}
    | {"help": "share of wrong labels that you accept (10%%, or as before)"},
    "--time-limit": {"type": between(0.0, math.inf, "a number of seconds"), "metavar": "SECONDS"}
    | {"help": "most seconds for comparing models"},
    "--seed": {"type": whole(0, LARGEST_SEED), "default": 0, "metavar": "N"}
    | {"help": "of the random numbers (default: %(default)s)"},
    "--score": {"metavar": "COLUMN", "help": "judge this column instead of a model"},
    "--threshold": {"type": float, "metavar": "X", "help": "with --score: the test is positive from this score on"},
    "--class": {"dest": "varied", "metavar": "NAME", "help": "class to vary (default: the rarest)"},
    "--odds": {"nargs": "+", "type": log_odds, "metavar": "RATIO"}
    | {"help": "factor of the odds that its rows lose their label (default: nine from 1/4 to 4)"},
    "--plot": {"type": Path, "metavar": "FILE", "help": "figure to write: .png, .svg or .pdf"},
    "shell": {},
    "results": {"type": Path, "metavar": "DIR", "help": "folder that 'marmix fit' wrote"},
    "--rows": {"type": whole(1), "metavar": "N", "help": "rows to draw (default: 30)"},
    "--half-width": {"type": share, "metavar": "SHARE"}
    | {"help": "or: as many as give the share of wrong labels to +/- this, such as 0.05"},
    "--hardest": _FLAG | {"help": "the rows most worth labelling, not drawn by chance"},
    "--labels": {
        "type": Path,
        "metavar": "FILE",
        "help": "audit-labels.csv, the filled audit.csv or an export: learn from it",
    },
    "--show": {"nargs": "+", "default": [], "metavar": "COL", "help": "columns of text or of paths of images to show"},
    "--as": {"dest": "tool", "choices": ("label-studio", "prodigy"), "metavar": "TOOL"}
    | {"help": "write the rows as tasks for label-studio or prodigy too"},
    "--out": {"type": Path, "metavar": "FILE"},
    "--force": _FLAG | {"help": "replace existing files"},
    "--escape-formulas": _FLAG | {"help": "put an apostrophe before formulas of a spreadsheet"},
    "--encoding": {"metavar": "NAME", "help": "of a text file (default: UTF-8, UTF-16 or cp1252)"},
    "--delimiter": {"metavar": "CHARACTER", "help": "such as ';' or tab (default: as in the file)"},
    "--decimal": {"choices": (".", ","), "metavar": "MARK", "help": "'.' or ',' (default: as in the file)"},
    "--header-row": {"type": whole(1), "metavar": "N"} | {"help": "line of the names, from 1 (default: below titles)"},
    "--sheet": {"metavar": "SHEET", "help": "name or number (default: the first)"},
    "--json": _FLAG | {"help": "print the result as JSON"},
    "--quiet": _FLAG | {"help": "print no progress and no summary"},
    "--debug": _FLAG | {"help": "show the Python traceback of an error"},
    "--help": {"action": "help", "help": "show this page and exit"},
}
READING = ("--encoding", "--delimiter", "--decimal", "--header-row", "--sheet")


class Command(NamedTuple):
    """A command: the function that runs it, its help page and its options, each with what differs from `OPTIONS`."""

    run: Callable[[argparse.Namespace], int]
    about: str
    usage: str
    description: str
    examples: Sequence[tuple[str, str]]
    options: Mapping[str, dict[str, Any]]
    rare: Sequence[str] = ()
    label_required: bool = False

    def add_to(self, commands: Any, name: str) -> None:
        """Add the command to the parser of the program."""
        parser: Parser = commands.add_parser(
            name,
            help=self.about,
            usage=self.usage,
            description=f"{self.about[0].upper()}{self.about[1:]}.\n\n{self.description}",
            examples=self.examples,
        )
        parser.set_defaults(run=self.run)
        main, rare = (parser.add_argument_group(title) for title in ("arguments", "rare options"))
        labels = main.add_mutually_exclusive_group(required=self.label_required)
        for option, changes in self.options.items():
            names = ("-h", option) if option == "--help" else (option,)
            (labels if option in LABEL_OPTIONS else main).add_argument(*names, **OPTIONS[option] | changes)
        for option in self.rare:
            rare.add_argument(option, **OPTIONS[option])


NOT_CONVERGED = 3
SHELLS = ("bash", "zsh", "tcsh")
Record = TypeVar("Record")


def record_of(kind: type[Record], options: argparse.Namespace) -> Record:
    """A dataclass from the arguments of the same names; reading options go together."""
    values = vars(options) | {"command": ["marmix", *options.arguments]}
    values["reading"] = {name: values.get(name) for name in (option[2:].replace("-", "_") for option in READING)}
    if "prevalence" in values:
        values["prevalence"] = dict(options.prevalence)
    values = {name: value for name, value in values.items() if value is not None or name != "accept"}
    return kind(**{field.name: values[field.name] for field in fields(kind) if field.name in values})  # type: ignore[arg-type]


def print_json(values: Any) -> None:
    """Print plain values as JSON, in ASCII unless standard output is Unicode."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(values, ensure_ascii=not unicode, allow_nan=False, indent=2))


def print_findings(options: argparse.Namespace, findings: Findings, ending: str) -> None:
    """Print the findings as --json and --quiet ask for."""
    if options.json:
        print_json(findings.as_dict())
    elif not options.quiet:
        print("\n".join(summary_lines(findings)), ending, sep="\n\n")


def run_fit(options: argparse.Namespace) -> int:
    """Fit, write the files, and print a summary."""
    findings = fit.fit_file(record_of(Options, options), Progress(options.quiet))
    print_findings(options, findings, f"Written to {options.out}: {', '.join(fit.FILES)}")
    if not findings.model.converged:
        print("marmix fit: the fit did not converge; the files were written, see the report.", file=sys.stderr)
        return NOT_CONVERGED
    return 0


def run_predict(options: argparse.Namespace) -> int:
    """Predict, write the rows, and print counts."""
    counts = saved.predict_file(record_of(saved.Request, options), Progress(options.quiet))
    if not options.quiet:
        classes = ", ".join(f"{count:,} {name}" for name, count in counts.labels.items())
        unfilled = f"; {counts.unfilled:,} without a prediction" if counts.unfilled else ""
        total = f"{counts.rows:,} rows: {classes}{unfilled}".replace("\n", "\\n")
        lines = [total, *(f"  note: {note}" for note in counts.notes)]
        print("\n".join(lines), file=sys.stderr if options.out is None else sys.stdout)
    return 0


def run_evaluate(options: argparse.Namespace) -> int:
    """Score the model, or with --score a column of the file, and print a table."""
    if options.score is not None:
        if options.data is not None:
            raise ValueError("with --score no model is needed: name the file alone.")
        request, names = record_of(saved.Request, options), options.features
        diagnosis, about = diagnose_file(
            options.model, request, options.score, names, options.threshold, Progress(options.quiet)
        )
        print_json(finite(diagnosis.as_dict())) if options.json else print(f"{about}\n\n{diagnosis}")
        return 0
    if options.data is None:
        raise ValueError("name a model and a file, or with --score the file alone.")
    for name, value in (("threshold", options.threshold), ("features", options.features), ("class", options.varied)):
        if value is not None:
            raise ValueError(f"--{name} goes with --score COLUMN, not with a model: leave it out.")
    evaluation = saved.evaluate_file(record_of(saved.Request, options), Progress(options.quiet))
    if options.json:
        print_json(evaluation.as_dict())
    else:
        print(evaluation.table().as_text())
    return 0


def run_report(options: argparse.Namespace) -> int:
    """Write the report and print a summary."""
    findings = saved.report_file(record_of(saved.Request, options), Progress(options.quiet))
    print_findings(options, findings, f"Written: {options.out}")
    return 0


def run_sensitivity(options: argparse.Namespace) -> int:
    """Run the analysis, write the figure, and print a table."""
    result = saved.sensitivity_file(record_of(saved.Request, options), Progress(options.quiet))
    if options.json:
        print_json(result.as_dict())
    else:
        print(result.table().as_text())
        if options.plot and not options.quiet:
            print(f"\nWritten: {options.plot}")
    return 0


def run_audit(options: argparse.Namespace) -> int:
    """Draw rows to label, or record their labels, and print what comes next or what they say."""
    request = record_of(audit.Request, options)
    if request.labels is None:
        n, name = audit.draw_file(request, Progress(options.quiet))
        if not options.quiet:
            file, tasks = (
                options.results / name,
                "".join(f", or import {name}{kind}" for kind in audit.TASKS[request.tool][:1]),
            )
            labels = audit.command(options.results, "--labels", "export.json" if tasks else "audit-labels.csv")
            save = "" if tasks else " Save the answers as audit-labels.csv, as the page does."
            print(f"{n:,} rows wait for a label: open {file}.html, or fill in {name}.csv{tasks}.{save} Then: {labels}")
        return 0
    done = audit.record_file(request, Progress(options.quiet))
    if options.json:
        print_json(done.as_dict())
    elif not options.quiet:
        print("\n".join(verdict_lines(done.verdict)))
        print(f"\nWritten to {options.results / audit.DONE}: {', '.join(fit.FILES)}")
    return 0


def run_info(options: argparse.Namespace) -> int:
    """Describe the model."""
    header = persistence.describe(options.model)
    if options.json:
        print_json(header)
        return 0
    model = persistence.load(options.model)
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    about = {name: value for name, value in header["about"].items() if isinstance(value, str)}
    annotators = header["about"].get("votes") or header["about"].get("shares")
    facts = {
        "model": about.get("name", type(steps[-1]).__name__),
        "steps": " > ".join(type(step).__name__ for step in steps),
        "classes": ", ".join(map(str, header["classes"])),
        "columns": ", ".join(f"{feature['name']} ({feature['dtype']})" for feature in header["features"]),
        "label": about.get("label"),
        "votes": ", ".join(map(str, annotators)) if isinstance(annotators, list) else None,
        "written by": f"marmix {header['written_by']['marmix']}, format {header['format_version']}",
    }
    print(options.model.name)
    for name, text in facts.items():
        if text:
            print(fill(f"{name:<11} {text}", WIDTH, initial_indent="  ", subsequent_indent=" " * 14))
    last = copy(getattr(steps[-1], "estimator", steps[-1]))  # that was audited
    if len(steps) > 1 and not hasattr(last, "feature_names_in_"):
        last.feature_names_in_ = model[:-1].get_feature_names_out()
    print(f"\n{last.summary()}")
    return 0


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo and print a summary."""
    done = demo.walk(options.out, options.seed, Progress(options.quiet), options.force)
    if options.json:
        print_json(done.as_dict())
    elif not options.quiet:
        print("\n".join(done.lines()))
    return 0 if done.findings.model.converged else NOT_CONVERGED


def run_completion(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise ImportError("shell completion needs shtab: pip install 'marmix[cli]'") from None
    print(shtab.complete(options.parser, options.shell))
    return 0


_SAVED: dict[str, dict[str, Any]] = {"model": {}, "data": {}}
_LABELS: dict[str, dict[str, Any]] = {"--label": {}, "--votes": {}, "--shares": {}, "--missing": {}}
_END: dict[str, dict[str, Any]] = {"--quiet": {}, "--help": {}}
_RARE = (*READING, "--debug")

COMMANDS = {
    "demo": Command(
        run_demo,
        "try marmix on real data, from missing labels to an audit",
        "[options]",
        "Write mammographic masses to a CSV file, in which the label is missing where the radiologist was undecided; run "
        "'marmix fit' on it; audit 20 rows with the biopsies; and compare what was said with what is true. The demo needs no "
        "files and no network, and takes less than half a minute.",
        [("The whole demo:", "marmix demo")],
        {"--out": {"metavar": "DIR", "help": "folder to write to (default: marmix-demo, or marmix-demo-2, ...)"}}
        | {"--force": {}, "--seed": {}, "--json": {}, **_END},
        ["--debug"],
    ),
    "fit": Command(
        run_fit,
        "impute missing labels of a file; write a model and a report",
        "DATA --label COLUMN --out DIR [options]",
        "Read a CSV, TSV, Parquet, Feather or Excel file, or an export of Label Studio or Prodigy, in which some rows have no "
        "label. Models that take into account why labels are missing and models that ignore it are averaged, weighted by "
        "cross-validation. The folder DIR gets imputed.csv, model.marmix, report.html and summary.json.",
        [
            (
                "Impute the labels that are missing in the column 'type':",
                "marmix fit cells.csv --label type --out results",
            ),
            (
                "Choose the features, and name the column that identifies a row:",
                "marmix fit patients.csv --label state --id name --features age bmi --out few",
            ),
            (
                "Learn from the votes of three annotators:",
                "marmix fit scans.csv --votes reader1 reader2 reader3 --out scans",
            ),
        ],
        {
            "data": {"help": "file: .csv, .tsv, .parquet, .feather, .xlsx, .json or .jsonl"},
            "--label": {"help": "label column; some labels are missing"},
            "--votes": {},
            "--shares": {},
            "--out": {"metavar": "DIR", "required": True, "help": "folder to write to"},
            **{
                option: {}
                for option in ("--id", "--features", "--exclude", "--missing", "--accept", "--force", "--json")
            },
            **_END,
        },
        [
            *(
                "--model",
                "--seed",
                "--time-limit",
                "--prevalence",
                "--sets",
                "--classes",
                "--keep",
                "--join",
                "--missing-cells",
            ),
            *("--impute-features", "--escape-formulas", *_RARE),
        ],
        label_required=True,
    ),
    "audit": Command(
        run_audit,
        "label a few rows, and learn how many imputed labels are wrong",
        "DIR [--rows N | --labels FILE] [options]",
        "Nothing in a file shows for certain that labels are missing because of the label. Someone who labels a few of the rows, "
        "drawn by chance, sees it. This command draws them from the folder of a fit and writes audit.html, a page on which to "
        "label them, and audit.csv for a spreadsheet. With --labels it learns from the answers, and writes imputed labels, "
        "model, report and summary to the folder 'audited' in DIR.",
        [
            ("Draw 30 rows:", "marmix audit results --rows 30"),
            ("Learn from their labels:", "marmix audit results --labels audit-labels.csv"),
            ("Draw the hardest rows instead, to improve the model:", "marmix audit results --rows 20 --hardest"),
        ],
        {
            option: {}
            for option in (
                "results",
                "--rows",
                "--half-width",
                "--labels",
                "--accept",
                "--hardest",
                "--show",
                "--as",
                "--seed",
            )
        }
        | {"--force": {}, "--json": {}, **_END},
        ["--escape-formulas", *_RARE],
    ),
    "predict": Command(
        run_predict,
        "predict labels and probabilities for the rows of a file",
        "MODEL DATA [--out FILE] [options]",
        "Apply a saved model to a file, and write its columns unchanged plus the predicted label, the probability of each class, "
        "the uncertainty and the probability of a missing label. Rows that cannot be predicted because a feature is missing get "
        "empty cells. Without --out, the rows go to standard output and messages to standard error.",
        [
            ("Predict the rows of new.csv:", "marmix predict results/model.marmix new.csv --out predicted.csv"),
            ("Print the rows, for a pipe or to look at:", "marmix predict results/model.marmix new.csv"),
        ],
        {**_SAVED, "--out": {"help": "CSV file to write (default: standard output)"}, "--force": {}, **_END},
        ["--escape-formulas", *_RARE],
    ),
    "info": Command(
        run_info,
        "describe a saved model: classes, features, settings, versions",
        "MODEL [options]",
        "Read a model file, check its sizes, checksums and types, and describe the model.",
        [
            ("Describe a model:", "marmix info results/model.marmix"),
            ("Print the header of the file as JSON:", "marmix info results/model.marmix --json"),
        ],
        {"model": {}, "--json": {}, "--help": {}},
        ["--debug"],
    ),
    "evaluate": Command(
        run_evaluate,
        "score a saved model, or any test, when some rows of a file have no label",
        "MODEL DATA [--label COLUMN] | DATA --label COLUMN --score COLUMN [options]",
        "Compare the predictions of a saved model with the labels of a file, and print the confusion matrix and a table of "
        "scores with standard errors.\n\nIf some labels are missing, corrected scores come first: in them, rows without a label "
        "are scored by the model's probabilities, adjusted to the labels of similar rows. Scores on the file of the fit are too "
        "good, and the output says so.\n\nWith --score, a column of the file is judged, a test or the score of another "
        "program: sensitivity, specificity, predictive values, likelihood ratios and AUC for all rows, beside those of labelled "
        "rows. Labels must be missing because of the score alone, or of it and of --features.",
        [
            (
                "Score a model on rows that it has not seen:",
                "marmix evaluate results/model.marmix test.csv --label type",
            ),
            ("The same for other programs:", "marmix evaluate results/model.marmix test.csv --label type --json"),
            (
                "How good is a test, if mostly positive ones were followed up?",
                "marmix evaluate patients.csv --label disease --score test",
            ),
        ],
        {
            "model": {"help": "model.marmix, as 'marmix fit' or marmix.save wrote it; with --score the file of data"},
            "data": {"nargs": "?", "help": "file with the columns of the fit"},
            **_LABELS,
            "--score": {},
            "--threshold": {},
            "--features": {"help": "with --score: columns that may have decided who got a label"},
            "--class": {"help": "with --score: the class that the test looks for (default: the second of two)"},
            "--json": {},
            **_END,
        },
        _RARE,
    ),
    "sensitivity": Command(
        run_sensitivity,
        "show what follows if labels are missing because of the label",
        "MODEL DATA [--class NAME] [options]",
        "No data can show by themselves whether, among rows that look alike, those of one class lose their labels more often. "
        "This command shows what would follow: the share of the class, the imputed labels that would be wrong or change, each "
        "with its 95 % interval, and where conclusions change.\n\nPass the file of the fit; on other files the intervals do not "
        "include the uncertainty of the model.",
        [
            ("Vary the rarest class:", "marmix sensitivity results/model.marmix cells.csv"),
            (
                "Say that the odds of losing the label are twice as high for tumours:",
                "marmix sensitivity results/model.marmix cells.csv --class tumour --odds 2",
            ),
            ("Draw it too:", "marmix sensitivity results/model.marmix cells.csv --plot what-if.png"),
        ],
        {
            **_SAVED,
            **_LABELS,
            "--class": {},
            "--odds": {},
            "--plot": {},
            "--force": {},
            "--seed": {},
            "--json": {},
            **_END,
        },
        _RARE,
    ),
    "report": Command(
        run_report,
        "write a report of a saved model on the rows of a file",
        "MODEL DATA --out FILE [options]",
        "Write the HTML report of a saved model, on the file of the fit or on another file with the same columns. The model is "
        "not fitted again; on the file of the fit, the cross-validation is repeated.",
        [
            ("Write the report of a fit again:", "marmix report results/model.marmix cells.csv --out report.html"),
            (
                "Report on another file with labels:",
                "marmix report results/model.marmix test.csv --label type --out test.html",
            ),
        ],
        {**_SAVED, "--out": {"required": True, "help": "HTML file to write"}, **_LABELS}
        | {"--id": {}, "--accept": {}, "--force": {}, "--seed": {}, "--json": {}, **_END},
        _RARE,
    ),
    "completion": Command(
        run_completion,
        "print a script for shell completion",
        "SHELL",
        "The script lets your shell complete the commands and options of marmix with the tab key. This needs the package shtab: "
        "pip install 'marmix[cli]'.",
        [
            ("For bash, add this line to ~/.bashrc:", 'eval "$(marmix completion bash)"'),
            ("For zsh, with ~/.zfunc in $fpath, type once:", "marmix completion zsh > ~/.zfunc/_marmix"),
        ],
        {"shell": {"choices": SHELLS, "metavar": "SHELL", "help": "your shell: bash, zsh or tcsh"}, "--help": {}},
        ["--debug"],
    ),
}
