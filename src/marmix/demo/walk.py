"""`marmix demo`: write a file whose hard rows have no label, fit it, and check the imputed labels against the truth."""

import csv
import os
from pathlib import Path
from typing import NamedTuple

from marmix.app.findings import Findings
from marmix.datasets.hard import TUMOUR_COLUMNS, tumours
from marmix.journey import FILES, FitOptions, Progress, fit_file
from marmix.outputs import Output
from marmix.tables.reading import open_table

DATA, TRUTH = "breast-cancer.csv", "truth.csv"
LABEL, ID = "diagnosis", "patient"
CLASSES = ("benign", "malignant")


class Walk(NamedTuple):
    """Findings of the fit, the folder written, and the number of imputed labels that are right."""

    findings: Findings
    folder: Path
    right: int


def walk(folder: Path, seed: int, progress: Progress, force: bool = False) -> Walk:
    """Write the data with hidden labels, fit them, and compare imputed labels with the truth; write all files or none."""
    command = ["fit", str(folder / DATA), "--label", LABEL, "--id", ID, "--seed", str(seed), "--out", str(folder)]
    with Output(folder, (DATA, TRUTH, *FILES), force=force) as output:
        truth = write_data(output.path(DATA), output.path(TRUTH), seed)
        options = FitOptions(
            data=output.path(DATA),
            label=LABEL,
            id=ID,
            out=output.scratch / "fit",
            seed=seed,
            command=["marmix", *command],
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
    """Write the breast-cancer data of scikit-learn with about 70 % of the labels hidden, and the truth, which is returned."""
    data = tumours()
    hidden = data.hidden(seed)
    truth = {f"P{i + 1:03d}": CLASSES[y] for i, y in enumerate(data.y.tolist())}
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([ID, *TUMOUR_COLUMNS, LABEL])
        for (patient, label), x, missing in zip(truth.items(), data.X.tolist(), hidden, strict=True):
            rows.writerow([patient, *x, "" if missing else label])
    with truth_path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([(ID, LABEL), *truth.items()])
    return truth


def fresh_folder(name: str = "marmix-demo") -> Path:
    """A folder that does not exist yet: the name, with a number if needed."""
    folder, number = Path(name), 2
    while folder.exists():
        folder, number = Path(f"{name}-{number}"), number + 1
    return folder
