"""`marmix fit`: from a file to imputed labels, a model and a report; and `marmix demo`, which does it with known data."""

import csv
import json
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from sklearn.pipeline import Pipeline

from marmix import persistence
from marmix.app.analyse import Analysis, analyse
from marmix.app.findings import Caution, Findings
from marmix.app.models import announced
from marmix.app.page import report_html
from marmix.app.reading import Table, joined, read, write_rows
from marmix.app.survey import Options, Plan, survey
from marmix.datasets.hard import TUMOUR_COLUMNS, tumours
from marmix.outputs import new_files
from marmix.tables.cells import counted
from marmix.terminal import Progress, command_line

FILES = ("imputed.csv", "model.marmix", "report.html", "summary.json")


def fit_file(options: Options, progress: Progress) -> Findings:
    """Read a file, compare and average candidates, impute labels, and write all four files or none."""
    require_libraries()
    with new_files(options.out, FILES, force=options.force, sources=[options.data]) as folder:
        table = read(options.data, **options.reading)
        if options.join is not None:
            table = joined(table, read(options.join), options.id)
        progress.say(table.path, table.notes)
        plan = survey(table, options)
        table = plan.table
        progress.say(table.path, [*plan.notes, *plan.preparation.notes_])
        X = plan.rows.X
        with progress.phase("fitting", announced(plan.options.model, *X.shape)) as step:
            analysis = analyse(table, plan, step)
        with progress.phase("writing"):
            return write(analysis, table, plan, folder)


def write(analysis: Analysis, table: Table, plan: Plan, folder: Path) -> Findings:
    """Write the rows with their labels, the model, the report and the findings."""
    options = plan.options
    formulas = write_rows(folder / "imputed.csv", table, analysis.columns, escape_formulas=options.escape_formulas)
    findings = analysis.findings
    if formulas and not options.escape_formulas:
        text = f"{counted(formulas, 'cell')} of imputed.csv may run as a formula in a spreadsheet; they were copied unchanged."
        findings.cautions.append(Caution("note", text, "--escape-formulas makes them plain text."))
    (folder / "report.html").write_bytes(report_html(analysis.contents()).encode())
    summary = json.dumps(findings.as_dict(), ensure_ascii=False, indent=2)
    # bytes of file names that are not UTF-8 become escapes
    (folder / "summary.json").write_bytes(f"{summary}\n".encode(errors="backslashreplace"))
    about = {
        "name": findings.model.name,
        "label": options.label,
        **{name: list(columns) for name, columns in (("votes", options.votes), ("shares", options.shares)) if columns},
        "id": options.id,
        "missing": list(options.missing),
    }
    pipeline = Pipeline([("preparation", plan.preparation), ("classifier", analysis.classifier)])
    persistence.save(pipeline, folder / "model.marmix", about=about)
    return findings


def require_libraries() -> None:
    """Fail early if an optional package is not installed."""
    missing = [name for name in ("pyarrow", "matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        raise ImportError(f"this command needs {' and '.join(missing)}: pip install 'marmix[cli]'")


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
