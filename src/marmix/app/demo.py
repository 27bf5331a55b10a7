"""`marmix demo`: write a file whose hard rows have no label, fit it, and check the imputed labels against the truth."""

import csv
from pathlib import Path
from typing import NamedTuple

from marmix.app.findings import Findings
from marmix.app.fit import FILES, fit_file
from marmix.app.progress import Progress
from marmix.app.reading import read
from marmix.app.survey import Options
from marmix.datasets.hard import TUMOUR_COLUMNS, tumours
from marmix.outputs import new_files
from marmix.terminal import command_line

DATA, TRUTH = "breast-cancer.csv", "truth.csv"
LABEL, ID = "diagnosis", "patient"
CLASSES = ("benign", "malignant")
ABOUT = "Breast-cancer data of scikit-learn, about 70 % of the labels hidden, mostly those of hard cases."


class Walk(NamedTuple):
    """Findings of the fit, the folder written, and the number of imputed labels that are right."""

    findings: Findings
    folder: Path
    right: int

    def ending(self) -> str:
        """What is known of the truth, and where to go on."""
        imputed = self.findings.labels.imputed
        share = f"{100.0 * self.right / imputed:.1f} %"
        again = ["marmix", "fit", str(self.folder / DATA), "--label", LABEL, "--id", ID, "--out", "results"]
        return (
            f"Here the true labels are known: {self.right:,} of {imputed:,} imputed labels are right ({share}).\n"
            f"To run the fit yourself: {command_line(again)}\nReport: {self.folder / 'report.html'}"
        )


def walk(folder: Path | None, seed: int, progress: Progress, force: bool = False) -> Walk:
    """Write the data with hidden labels, fit them, and compare imputed labels with the truth; write all files or none."""
    folder = folder or fresh_folder()
    command = ["fit", str(folder / DATA), "--label", LABEL, "--id", ID, "--seed", str(seed), "--out", str(folder)]
    with new_files(folder, (DATA, TRUTH, *FILES), force=force) as place:
        truth = write_data(place / DATA, place / TRUTH, seed)
        options = Options(data=place / DATA, label=LABEL, id=ID, out=place, seed=seed, command=["marmix", *command])
        findings = fit_file(options, progress)
        rows = read(place / "imputed.csv").data.select([ID, "marmix_source", "marmix_label"]).to_pylist()
    right = sum(row["marmix_source"] == "imputed" and truth[row[ID]] == row["marmix_label"] for row in rows)
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
