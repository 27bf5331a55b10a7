"""The whole way on real rows: a file whose hard rows have lost their labels, fitted; and the truth to check it by."""

import csv
import os
import shlex
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer

from marmix.demo.comparison import COLUMNS, load
from marmix.journey import FILES, FitOptions, Progress, fit_file
from marmix.outputs import Output
from marmix.report.contents import Findings
from marmix.tables.reading import open_table

DATA, TRUTH = "breast-cancer.csv", "truth.csv"
LABEL, ID = "diagnosis", "patient"
CLASSES = ("benign", "malignant")


class Walk(NamedTuple):
    """What was found, where it is written, and how many imputed labels are right."""

    findings: Findings
    folder: Path
    right: int


def walk(folder: Path, seed: int, progress: Progress, force: bool = False) -> Walk:
    """Write the data with hidden labels, fit them, and compare what was imputed with the truth; all of it appears or nothing."""
    command = ["fit", str(folder / DATA), "--label", LABEL, "--id", ID, "--seed", str(seed), "--out", str(folder)]
    with Output(folder, (DATA, TRUTH, *FILES), force=force) as output:
        truth = write_data(output.path(DATA), output.path(TRUTH), seed)
        options = FitOptions(
            data=output.path(DATA),
            label=LABEL,
            id=ID,
            out=output.scratch / "fit",
            seed=seed,
            command=f"marmix {shlex.join(command)}",
        )
        findings = fit_file(options, progress)
        for name in FILES:
            os.replace(options.out / name, output.path(name))
    right = 0
    for batch in open_table(folder / "imputed.csv").batches([ID, "marmix_source", "marmix_label"]):
        for row in batch.to_pylist():
            right += row["marmix_source"] == "imputed" and truth[row[ID]] == row["marmix_label"]
    return Walk(findings, folder, right)


def write_data(path: Path, truth_path: Path, seed: int) -> dict[str, str]:
    """The breast-cancer data of scikit-learn as CSV, about 70 % of the labels hidden, hard rows first; and the truth."""
    bunch = load_breast_cancer()
    names = bunch.feature_names.tolist()
    X = bunch.data[:, [names.index(f"mean {column}") for column in COLUMNS]]
    data = load()
    hidden = np.random.default_rng(seed).random(len(data.y)) < data.hide
    truth = {f"P{i + 1:03d}": CLASSES[y] for i, y in enumerate(data.y.tolist())}
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([ID, *COLUMNS, LABEL])
        for (patient, label), x, lost in zip(truth.items(), X.tolist(), hidden, strict=True):
            rows.writerow([patient, *x, "" if lost else label])
    with truth_path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([(ID, LABEL), *truth.items()])
    return truth


def fresh_folder(name: str = "marmix-demo") -> Path:
    """A folder that is not there yet: the name, or the name and a number."""
    folder, number = Path(name), 2
    while folder.exists():
        folder, number = Path(f"{name}-{number}"), number + 1
    return folder
