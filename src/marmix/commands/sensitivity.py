"""`marmix sensitivity`: what follows if labels are missing because of the label."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from marmix.commands.arguments import (
    add_command,
    add_labels,
    add_reading,
    add_shared,
    at_least,
    finite,
    place,
    reading_options,
    share,
)
from marmix.commands.words import print_json
from marmix.journey import Progress, sensitivity_file


def odds(text: str) -> float:
    """The logarithm of an odds ratio, written as a number or a fraction such as 1/2."""
    top, _, bottom = text.partition("/")
    try:
        value = float(top) / float(bottom or 1.0)
    except (ValueError, ZeroDivisionError):
        value = -1.0
    if not 1e-20 < value < 1e20:
        raise argparse.ArgumentTypeError(f"{text!r} is not an odds ratio: a positive number, or a fraction such as 1/2")
    return float(np.log(value))


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "sensitivity",
        sensitivity,
        about="show what follows if labels are missing because of the label",
        usage="MODEL DATA [--class NAME] [options]",
        description="No data can show by themselves whether, among rows that look alike, those of one class lose their labels "
        "more often. This command shows what would follow: the share of the class, the imputed labels that would be wrong or "
        "change, each with its 95 % interval, and where conclusions change.\n\nPass the file of the fit; on other files the "
        "intervals do not include the uncertainty of the model.",
        examples=[
            ("Vary the rarest class:", "marmix sensitivity results/model.marmix cells.csv"),
            (
                "Say that tumours lose their labels twice as often:",
                "marmix sensitivity results/model.marmix cells.csv --class tumour --odds 2",
            ),
            ("Draw it too:", "marmix sensitivity results/model.marmix cells.csv --plot what-if.png"),
        ],
        also=("fit", "evaluate"),
    )
    columns = parser.add_argument_group("the model, the file and its columns")
    add_shared(columns, "model", "data")
    add_labels(columns, "label column (default: as in the fit)", required=False)
    add_shared(parser.add_argument_group("what counts as missing"), "--missing")
    question = parser.add_argument_group("the question")
    question.add_argument("--class", dest="varied", metavar="NAME", help="class to vary (default: the rarest)")
    sweep = question.add_mutually_exclusive_group()
    sweep.add_argument(
        "--odds",
        nargs="+",
        type=odds,
        metavar="RATIO",
        help="odds ratios: how many times as likely rows of the class are to lose their label as others that look alike "
        "(default: nine from 1/4 to 4)",
    )
    sweep.add_argument(
        "--delta",
        nargs="+",
        type=finite,
        metavar="NUMBER",
        help="in place of --odds: the logarithms of the odds ratios",
    )
    question.add_argument(
        "--threshold", type=share, metavar="SHARE", help="also say where the share of the class crosses this one"
    )
    question.add_argument(
        "--draws", type=at_least(1), default=200, metavar="N", help="draws behind the intervals (default: %(default)s)"
    )
    add_shared(question, "--seed")
    output = parser.add_argument_group("output")
    output.add_argument("--plot", type=place, metavar="FILE", help="write a figure: .png, .svg or .pdf")
    add_shared(output, "--force", "--json")
    add_reading(parser)
    add_shared(parser.add_argument_group("general"), "--quiet", "--debug", "--help")


def sensitivity(options: argparse.Namespace) -> int:
    """Run the analysis, write the figure, and print a table."""
    result = sensitivity_file(
        Path(options.model),
        Path(options.data),
        options.label,
        votes=options.votes,
        shares=options.shares,
        progress=Progress(options.quiet),
        varied=options.varied,
        delta=options.delta or options.odds,
        threshold=options.threshold,
        draws=options.draws,
        plot=None if options.plot is None else Path(options.plot),
        missing=options.missing,
        seed=options.seed,
        force=options.force,
        reading=reading_options(options),
    )
    if options.json:
        print_json(result.as_dict())
    else:
        print(result.table().as_text())
        if options.plot and not options.quiet:
            print(f"\nWritten: {options.plot}")
    return 0
