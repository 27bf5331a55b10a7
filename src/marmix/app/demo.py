"""`marmix demo`: labels that are really missing, their fit and an audit, compared with the truth."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.app import audit
from marmix.app.audit import Audited
from marmix.app.findings import Findings
from marmix.app.fit import FILES, fit_file
from marmix.app.reading import read
from marmix.app.survey import IMPUTED, Options
from marmix.app.wording import summary_lines, verdict_lines
from marmix.datasets import load_mammography
from marmix.evaluation.verdict import ROWS, counts
from marmix.outputs import new_files
from marmix.terminal import Progress

DATA, TRUTH, LABELS = "mammography.csv", "biopsies.csv", "audit-labels.csv"
LABEL, ID = "finding", "mass"
ABOUT = (
    "Mammographic masses (Elter and others, 2007): the finding is missing where the\n"
    "radiologist was undecided. Biopsies, which the fit does not see, tell it."
)


class Walk(NamedTuple):
    """What the fit and the audit said, and how many labels are truly wrong."""

    findings: Findings
    audited: Audited
    folder: Path
    wrong: int  # imputed labels before the audit
    remaining: int  # and after it, of the rows that were not audited

    def lines(self) -> list[str]:
        """The walk in words: the fit, the audit, and what is true."""
        before, after = self.findings.verdict, self.audited.verdict
        assert before is not None
        rows = [
            ("wrong labels", "said", "true"),
            (f"of {before.of}, fit alone", counts(before.wrong), f"{self.wrong:,}"),
        ]
        rows += [(f"of {after.of}, audited", counts(after.wrong), f"{self.remaining:,}")]
        return [
            *(ABOUT, "", *summary_lines(self.findings)),
            *("", f"The audit, {ROWS} rows labelled by their biopsies:", "", *verdict_lines(after), ""),
            *(f"  {name:<24}{said:<24}{true}" for name, said, true in rows),
            *("", f"Reports: {self.folder / 'report.html'}, {self.folder / audit.DONE / 'report.html'}"),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        true = {"wrong": self.wrong, "remaining": self.remaining}
        return self.findings.as_dict() | {"audited": self.audited.as_dict(), "true": true}


def walk(folder: Path | None, seed: int, progress: Progress, force: bool = False) -> Walk:
    """Write the data, fit them, audit with the biopsies, and count how many labels are truly wrong."""
    folder = folder or fresh_folder()
    sheets = [f"{audit.AUDIT}.{kind}" for kind in ("json", "csv", "html")]
    with new_files(folder, (DATA, TRUTH, LABELS, *FILES, *sheets), force=force) as place:
        truth = write_data(place)
    (folder / audit.PLAN).unlink(missing_ok=True)  # of an earlier demo
    file = folder / DATA
    command = ["marmix", "fit", str(file), "--label", LABEL, "--id", ID, "--seed", str(seed), "--out", str(folder)]
    options = Options(data=file, label=LABEL, id=ID, out=folder, seed=seed, force=force, command=command)
    findings = fit_file(options, progress)
    quiet = Progress(quiet=True)
    audit.draw_file(audit.Request(folder, rows=ROWS, seed=seed, force=force), quiet)
    rows = np.array(read(folder / f"{audit.AUDIT}.csv").text(audit.ROW).to_pylist(), dtype=int)
    with new_files(folder, [LABELS], force=force) as place:
        _write(place / LABELS, [audit.ROW, audit.LABEL], zip(rows, truth[rows - 1], strict=True))
    done = audit.record_file(audit.Request(folder, labels=folder / LABELS), quiet)
    return Walk(findings, done, folder, *(_wrong(place, truth) for place in (folder, folder / audit.DONE)))


def write_data(place: Path) -> NDArray[Any]:
    """Write the masses, with the findings of decided radiologists, and all biopsies, which are returned."""
    masses = load_mammography()
    names = np.array([*masses.target_names, ""], dtype=object)
    numbers = [f"M{i + 1:03d}" for i in range(len(masses.data))]
    rows = zip(numbers, masses.data.astype(int), names[masses.target], strict=True)
    _write(place / DATA, [ID, *masses.feature_names, LABEL], ([number, *x, label] for number, x, label in rows))
    truth = names[masses.target_true]
    _write(place / TRUTH, [ID, LABEL], zip(numbers, truth, strict=True))
    return truth


def _write(path: Path, header: list[str], rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def _wrong(folder: Path, truth: NDArray[Any]) -> int:
    """Imputed labels in the results that are not those of the biopsies."""
    table = read(folder / "imputed.csv")
    source, label = (np.array(table.text(f"marmix_{name}").to_pylist(), dtype=object) for name in ("source", "label"))
    return int(np.sum((source == IMPUTED) & (label != truth)))


def fresh_folder(name: str = "marmix-demo") -> Path:
    """A folder that does not exist yet: the name, with a number if needed."""
    folder, number = Path(name), 2
    while folder.exists():
        folder, number = Path(f"{name}-{number}"), number + 1
    return folder
