"""`marmix fit`: from a file to imputed labels, a model and a report."""

import json
from contextlib import suppress
from ctypes import CDLL
from importlib.util import find_spec
from pathlib import Path

from sklearn.pipeline import Pipeline

from marmix import persistence
from marmix.app.analyse import Analysis, analyse
from marmix.app.findings import Caution, Findings
from marmix.app.page import report_html
from marmix.app.reading import Table, joined, read, write_rows
from marmix.app.survey import Options, Plan, survey
from marmix.outputs import new_files
from marmix.selection.comparison import SAMPLE
from marmix.tables.cells import arrow, counted
from marmix.terminal import Progress

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
        release_memory()  # of the columns in whose place are features
        classes = [] if options.classes else plan.rows.classes_note()
        progress.say(table.path, [*classes, *plan.notes, *plan.preparation.notes_])
        n, d = min(len(plan.rows.X), SAMPLE), plan.rows.X.shape[1]
        with progress.phase("fitting", f"models are compared on {n:,} rows with {counted(d, 'feature')}") as step:
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
        "accept": options.accept,
        "missing": list(options.missing),
    }
    pipeline = Pipeline([("preparation", plan.preparation), ("classifier", analysis.classifier)])
    persistence.save(pipeline, folder / "model.marmix", about=about)
    return findings


def release_memory() -> None:
    """Give memory that is not used any more back to the system, as far as it can be asked to take it."""
    arrow().default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # not with glibc
        CDLL(None).malloc_trim(0)


def require_libraries() -> None:
    """Fail early if an optional package is not installed."""
    missing = [name for name in ("pyarrow", "matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        raise ImportError(f"marmix reports need {' and '.join(missing)}: pip install 'marmix[cli]'")
