"""The whole way on real rows: a file whose hard rows have lost their labels, fitted; and the truth to check it by."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer

from marmix.demo.comparison import COLUMNS, load
from marmix.journey import FitOptions, Progress, fit_file
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
    """Write the data with hidden labels, fit them, and compare what was imputed with the truth."""
    truth = write_data(folder, seed)
    options = FitOptions(
        data=folder / DATA,
        label=LABEL,
        id=ID,
        out=folder,
        seed=seed,
        force=force,
        command=f"marmix fit {folder / DATA} --label {LABEL} --id {ID} --seed {seed} --out {folder}",
    )
    findings = fit_file(options, progress)
    imputed = open_table(folder / "imputed.csv")
    right = 0
    for batch in imputed.batches([ID, "marmix_source", "marmix_label"]):
        for row in batch.to_pylist():
            right += row["marmix_source"] == "imputed" and truth[row[ID]] == row["marmix_label"]
    return Walk(findings, folder, right)


def write_data(folder: Path, seed: int) -> dict[str, str]:
    """The breast-cancer data of scikit-learn as CSV, 70 % of the labels hidden, hard rows first; the truth beside it."""
    bunch = load_breast_cancer()
    names = bunch.feature_names.tolist()
    X = bunch.data[:, [names.index(f"mean {column}") for column in COLUMNS]]
    data = load()
    hidden = np.random.default_rng(seed).random(len(data.y)) < data.hide
    truth = {f"P{i + 1:03d}": CLASSES[y] for i, y in enumerate(data.y.tolist())}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / DATA).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([ID, *COLUMNS, LABEL])
        for (patient, label), x, lost in zip(truth.items(), X.tolist(), hidden, strict=True):
            rows.writerow([patient, *x, "" if lost else label])
    with (folder / TRUTH).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([(ID, LABEL), *truth.items()])
    return truth


def fresh_folder(name: str = "marmix-demo") -> Path:
    """A folder that is not there yet: the name, or the name and a number."""
    folder, number = Path(name), 2
    while folder.exists():
        folder, number = Path(f"{name}-{number}"), number + 1
    return folder
