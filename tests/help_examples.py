"""The examples of every help page, and small files to run them on."""

import re
import shlex
from pathlib import Path

import pandas as pd

from marmix.cli import parser_of_all
from marmix.datasets import make_mar_mixture


def parsers():
    """The parser of the program and those of its commands, in the order of `marmix --help`."""
    parser = parser_of_all()
    return [parser, *parser.commands.values()]


def examples():
    """Every command line under `examples:`, once; after `prepare` they run in one folder and in this order.

    The first fit writes the model that later ones read.
    """
    lines = dict.fromkeys(command for parser in parsers() for _, command in parser.examples)
    return sorted(lines, key=lambda line: not line.startswith("marmix fit"))


def expensive(line):
    """Whether an example takes a minute or more: `demo` compares many classifiers."""
    return line.startswith("marmix demo")


def words(line):
    """The arguments of the marmix command in a line of a shell, for `marmix.cli.main`."""
    return shlex.split(re.search(r"marmix [^>)]+", line)[0])[1:]


def prepare(folder):
    """Write the files that the examples read: a hundred rows each, of two features and two classes."""
    folder = Path(folder)

    def rows(seed, classes, features=("area", "texture"), missing=""):
        drawn = make_mar_mixture(100, rate=0.4, at_least=10, random_state=seed)
        truth = pd.Series(drawn.target_true).map(dict(enumerate(classes)))
        return pd.DataFrame(drawn.data.round(3), columns=features), truth.where(drawn.target >= 0, missing), truth

    cells, labels, _ = rows(1, ("normal", "tumour"))
    cells.assign(type=labels).to_csv(folder / "cells.csv", index=False)
    new, _, truth = rows(2, ("normal", "tumour"))
    new.to_csv(folder / "new.csv", index=False)
    new.assign(type=truth).to_csv(folder / "test.csv", index=False)
    patients, labels, _ = rows(3, ("ill", "well"), ("age", "bmi"))
    patients.assign(name=[f"patient {i}" for i in patients.index], state=labels).to_csv(
        folder / "patients.csv", index=False
    )
    survey, labels, _ = rows(4, ("left", "right"), missing="unknown")
    survey.assign(**{"class": labels}).to_parquet(folder / "survey.parquet")
    claims, labels, _ = rows(5, ("no", "yes"))
    honest = (labels != "yes") | (labels == "yes").cumsum().le(5)  # all but five labelled 'yes'
    claims.assign(fraud=labels)[honest].to_csv(folder / "claims.csv", index=False)
    scans, labels, truth = rows(6, ("healthy", "ill"))
    votes = {f"reader{i}": truth.where((labels != "") & (labels.index % 4 != i), "") for i in (1, 2, 3)}
    scans.assign(**votes).to_csv(folder / "scans.csv", index=False)
