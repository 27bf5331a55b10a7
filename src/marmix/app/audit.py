"""`marmix audit`: rows to label, from the folder of a fit, and what their labels say about the imputed ones."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from sklearn.pipeline import Pipeline

from marmix import persistence
from marmix.app import saved
from marmix.app.annotations import tasks_of
from marmix.app.findings import finite
from marmix.app.fit import FILES, require_libraries
from marmix.app.models import predicted, with_labels
from marmix.app.page import bars, environment, policy, readable
from marmix.app.reading import Table, read, write_rows
from marmix.app.survey import ASKED, AUDITED, IMPUTED, PREFIX, Rows, folded, own_columns
from marmix.audit import Audit, AuditResult, Estimate
from marmix.core.labels import MISSING_TEXTS, number_labels
from marmix.evaluation.joint import Range
from marmix.evaluation.verdict import ROWS as MORE
from marmix.evaluation.verdict import Verdict, verdict_after
from marmix.outputs import new_files, one_file
from marmix.tables.cells import arrow, as_table, as_text, listed, shown
from marmix.terminal import Progress, command_line

AUDIT, HARDEST = "audit", "hardest"  # files of the rows to label, with .json for the plan, .csv and .html
PLAN = f"{AUDIT}.json"
DONE = "audited"  # folder of the results after the audit
LABEL, NOTE = f"{PREFIX}label", f"{PREFIX}note"  # columns of the download
KEYS = "123456789qwertyiopasdfghjklzxcvbm"  # of the classes; 0, u and n do something else
ROW = f"{PREFIX}row"  # the column of the sheet and of the page's download that says which row a label is of
ROWS = 30  # drawn by default
TASKS = {
    None: (),
    "prodigy": ("-tasks.jsonl",),
    "label-studio": ("-tasks.json", "-tasks.xml"),
}  # files of a labelling tool
_SHOWN = 60  # features on the page
_CROWD = 10  # uncertain rows of which one is asked for, to have different ones
_NONE_LEFT = "every row has a label, or is drawn already."
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg")


@dataclass(frozen=True)
class Request:
    """The arguments of `marmix audit`."""

    results: Path
    rows: int | None = None
    half_width: float | None = None
    hardest: bool = False
    labels: Path | None = None
    accept: float | None = None  # share of wrong labels; by default that of the plan, at first of the fit
    show: Sequence[str] = ()
    tool: str | None = None
    seed: int = 0
    force: bool = False
    escape_formulas: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)


class Folder(NamedTuple):
    """A folder of `marmix fit`: its model, its rows, and an audit of them."""

    request: Request
    model: saved.Saved
    table: Table
    rows: Rows
    places: NDArray[np.intp]  # of the complete rows in the table

    @property
    def X(self) -> Any:
        """The complete rows as the classifier takes them."""
        return self.model.transformed(self.rows.X)

    @property
    def y(self) -> Any:
        """Their labels."""
        return saved.named_labels(self.rows.labels, self.model.classifier.classes_)

    def path(self, name: str) -> Path:
        """A file of the folder."""
        return self.request.results / name

    def asked(self) -> dict[int, Any]:
        """The hardest rows that were drawn, by their numbers from 1, with their labels; None yet, or "" if nobody can tell."""
        path = self.path(f"{HARDEST}.json")
        labels = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {int(row): label for row, label in labels.items()}

    def audit(self) -> Audit:
        """The plan of the folder."""
        if not self.path(PLAN).exists():
            raise ValueError(f"{self.request.results} has no {PLAN}: draw rows first.")
        audit = Audit.load(self.path(PLAN), self.model.classifier, self.X, self.y)
        audit.accept = self.request.accept or audit.accept
        return audit


def command(results: Path, *words: str) -> str:
    """A command line for this folder."""
    return command_line(["marmix", "audit", str(results), *words])


def opened(request: Request) -> Folder:
    """The model and the rows of a folder."""
    require_libraries()
    files = saved.Request(model=request.results / "model.marmix", data=request.results / "imputed.csv")
    model, table = saved.opened(files, Progress(quiet=True))  # the file is of marmix
    table, source = own_columns(table, *(model.fact(name) for name in ("label", "votes", "shares")))
    rows, _, _ = model.rows(files, table)
    return Folder(request, model, table, replace(rows, source=source), np.flatnonzero(rows.complete))


# Rows to label


def draw_file(request: Request, progress: Progress) -> tuple[int, str]:
    """Draw rows from a folder, and write them as a sheet and as a page; returns how many, and the name of the files."""
    folder = opened(request)
    n, name = ROWS if request.rows is None else request.rows, HARDEST if request.hardest else AUDIT
    answered, widths, drawn = True, [], folder.path(PLAN).exists()
    if request.half_width is not None and (drawn or request.hardest):
        raise ValueError("--half-width is for the first draw by chance: say how many more with --rows.")
    if request.hardest:
        asked = folder.asked()
        answered = None not in asked.values()
        places = hardest(folder, n)
        plan: Any = asked | dict.fromkeys((places + 1).tolist())
    elif drawn:
        plan = folder.audit()
        answered = not len(plan.pending)
        plan.extend(n)
    else:
        clf, seed, accept = folder.model.classifier, request.seed, folder.model.accepted(request.accept)
        plan = Audit(clf, folder.X, folder.y, n, half_width=request.half_width, accept=accept, random_state=seed)
    if isinstance(plan, Audit):
        if not len(plan.pending):
            raise ValueError(_NONE_LEFT)
        places, widths = folder.places[plan.pending], plan.half_widths()[-len(plan.pending) :]
    files = tuple(f"{name}{kind}" for kind in (".json", ".csv", ".html", *TASKS[request.tool]))
    advice = "record their labels with --labels, or draw more rows with --force"
    with new_files(request.results, files, force=request.force or answered, advice=advice) as part:
        if isinstance(plan, Audit):
            plan.save(part / PLAN)
        else:
            (part / files[0]).write_text(json.dumps(plan), encoding="utf-8")
        _write_rows_to_label(folder, part / name, places, widths)
    return len(places), name


def hardest(folder: Folder, n: int) -> NDArray[np.intp]:
    """The rows most worth labelling: uncertain ones, each far from those that come before it."""
    without = np.flatnonzero(folder.rows.z < 0)
    if folder.path(PLAN).exists():
        without = np.setdiff1d(without, folder.audit().rows)
    without = without[~np.isin(folder.places[without] + 1, list(folder.asked()))]
    if not len(without):
        raise ValueError(_NONE_LEFT)
    result = predicted(folder.model.classifier, folder.X, folder.rows.complete)
    doubt = result.uncertainty[folder.places[without]]
    order = np.argsort(-doubt, kind="stable")[: _CROWD * n]
    X = folder.rows.numbers[without[order]]
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    chosen, distance = [0], ((X - X[0]) ** 2).sum(axis=1)
    while len(chosen) < min(n, len(X)):
        distance[chosen[-1]] = -1.0
        chosen.append(int(np.argmax(distance * doubt[order])))
        distance = np.minimum(distance, ((X - X[chosen[-1]]) ** 2).sum(axis=1))
    return np.asarray(folder.places[without[order[chosen]]])


def _write_rows_to_label(folder: Folder, file: Path, places: NDArray[np.intp], widths: list[float]) -> None:
    """Write the sheet and the page of these rows."""
    pa, (request, model, table, *_) = arrow(), folder
    id, features = model.fact("id"), model.preparation.features_in()
    lacking = [name for name in request.show if name not in table.names]
    if lacking:
        raise ValueError(f"--show: {request.results} has no column {listed(lacking)}.")
    front = [id] if id in table.names else []
    left_out = [name for name in model.preparation.feature_names_in_ if name in table.names and name not in features]
    most = model.preparation.max_levels  # free texts have more, and tell people much
    show = [*request.show, *(name for name in left_out if len(table.data[name].unique()) > most)]
    names = list(dict.fromkeys([*front, *show, *(name for name in features if name in table.names)]))
    texts = {name: table.text(name).take(pa.array(places)) for name in names}
    data = pa.table({ROW: (places + 1).astype(str), **{name: texts[name] for name in front}, LABEL: [""] * len(places)})
    for name in names[len(front) :]:
        data = data.append_column(name, texts[name])
    write_rows(
        file.with_suffix(".csv"), replace(table, data=data, verbatim={}), {}, escape_formulas=request.escape_formulas
    )
    numbers, classes = (ROW, [str(place + 1) for place in places]), model.classifier.classes_.astype(str).tolist()
    if request.tool:
        shown_cells = {name: texts[name].to_pylist() for name in names[: _SHOWN + len(show)]}
        for kind, text in tasks_of(request.tool, numbers, shown_cells, LABEL, classes).items():
            file.with_name(f"{file.name}-tasks.{kind}").write_text(text, encoding="utf-8")
    columns, cells = [], []
    for name in names[: _SHOWN + len(show)]:
        values = texts[name].to_pylist()
        kind = "text" if name in show else "feature"
        if kind == "text" and all(value.lower().endswith(_PICTURES) for value in values if value):
            kind, values = "image", [_address(value, request.results) for value in values]
        columns.append((name, kind))
        cells.append(values)
    page = labelling_page(
        f"{table.digest[:16]} {places.tolist()}",
        numbers,
        classes,
        columns,
        list(zip(*cells, strict=True)),
        widths=widths,
        title=f"{request.results.name}: {len(places):,} rows to label",
        command=command(request.results, "--labels", "audit-labels.csv"),
    )
    file.with_suffix(".html").write_text(page, encoding="utf-8")


def _address(path: str, folder: Path) -> str:
    """The address of a picture from a page in a folder; relative paths start where the command runs."""
    return quote(os.path.relpath(path, folder).replace(os.sep, "/")) if path else ""


def labelling_page(
    plan: str,
    ids: tuple[str, Sequence[str]],
    classes: Sequence[str],
    columns: Sequence[tuple[str, str]],
    cells: Sequence[Sequence[str]],
    *,
    widths: Sequence[float] = (),
    title: str = "Rows to label",
    command: str = "marmix audit",
) -> str:
    """A page that shows rows one after the other, and takes a label, or "can't tell", for each by a key.

    It works offline and has no server: answers are kept in the browser under the name `plan`, and downloaded as audit-labels.csv,
    in which the column named by `ids` says which row a line is of. What was imputed is not in it. `columns` have a name and a
    kind: "text", "image" (cells are addresses) or "feature"; `widths` are those of `Audit.half_widths`.
    """
    from markupsafe import Markup

    css, js = (
        files("marmix.app").joinpath("templates", name).read_text(encoding="utf-8")
        for name in ("audit.css", "audit.js")
    )
    name, values = ids
    data = {
        "plan": plan,
        "header": [name, LABEL, NOTE],
        "ids": list(values),
        "classes": list(classes),
        "keys": list(KEYS[: len(classes)]),
        "columns": [{"name": readable(column), "kind": kind} for column, kind in columns],
        "cells": [
            [cell if kind == "image" else readable(cell, None) for cell, (_, kind) in zip(row, columns, strict=True)]
            for row in cells
        ],
        "widths": list(widths),
    }
    page = environment().get_template("audit.html")
    return str(
        page.render(
            title=title,
            command=command,
            data=data,
            css=Markup(css),
            js=Markup(js),
            policy=policy(css, js, "data: 'self' file:"),
        )
    )


@dataclass(frozen=True)
class LabelPage(saved.Page):
    """A page on which someone labels the pending rows of an audit.

    Attributes
    ----------
    html : str
        The page.
    classes : list
        Of the labels.
    """

    html: str = field(repr=False)
    classes: list[Any]

    def answers(self, path: str | os.PathLike[str] = f"{AUDIT}-labels.csv") -> dict[int, Any]:
        """The labels in a download of the page by position, None where nobody can tell: what `Audit.record` takes."""
        return {row - 1: label for row, label in answers_of(read(path), np.array(self.classes)).items()}


def label_page(audit: Audit, X: Any, show: Sequence[str] = ()) -> LabelPage:
    """The pending rows of an audit as a page on which to label them, in a notebook or in a browser.

    Parameters
    ----------
    audit : Audit
    X : array-like of shape (n, d) or table
        The rows, as people know them: a table may have other columns than the features.
    show : sequence of str, default=()
        Columns of text to show in full, such as a report.

    Returns
    -------
    LabelPage
        A notebook shows it; `save(path)` writes it. Its download, audit-labels.csv, is read by `answers(path)`.

    Examples
    --------
    >>> import marmix
    >>> from marmix.datasets import load_mammography
    >>> masses = load_mammography(as_frame=True)
    >>> clf = marmix.MARLogisticRegression().fit(masses.data, masses.target)
    >>> audit = marmix.Audit(clf, masses.data, masses.target, random_state=0)
    >>> page = marmix.label_page(audit, masses.data)    # in a notebook, this shows the page
    >>> page.save("audit.html")    # doctest: +SKIP
    >>> audit.record(page.answers("audit-labels.csv"))    # doctest: +SKIP
    """
    require_libraries()
    pending = audit.pending
    table = as_table(X if hasattr(X, "columns") else np.asarray(X)).take(arrow().array(pending))
    lacking = [name for name in show if name not in table.column_names]
    if lacking:
        raise ValueError(f"show: the rows have no column {listed(lacking)}.")
    names = list(dict.fromkeys([*show, *table.column_names]))[: _SHOWN + len(show)]
    cells = [as_text(table[name]).to_pylist() for name in names]
    numbers, classes = [str(row + 1) for row in pending.tolist()], audit.clf.classes_
    html = labelling_page(
        f"notebook {numbers}",
        (ROW, numbers),
        classes.astype(str).tolist(),
        [(name, "text" if name in show else "feature") for name in names],
        list(zip(*cells, strict=True)),
        widths=audit.half_widths()[-len(pending) :],
        title=f"{len(pending):,} rows to label",
        command="audit.record(page.answers('audit-labels.csv'))",
    )
    return LabelPage(html, classes.tolist())


# Their labels


@dataclass(frozen=True)
class Audited:
    """What the labels of a folder say; `result` is None where only hardest rows are labelled."""

    verdict: Verdict
    result: AuditResult | None
    counts: dict[str, int]  # of labels by source
    changed: int = 0  # imputed labels that learning changed

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        audit: dict[str, Any] = {"counts": self.counts, "changed": self.changed}
        if (one := self.result) is not None:
            names = ("wrong", "accuracy", "remaining", "no_change", "contradicted", "n_audited", "n_missing")
            audit |= {name: getattr(one, name) for name in names}
            audit["classes"] = {str(name): parts for name, parts in one.classes.items()}
        return dict(finite({"verdict": asdict(self.verdict), "audit": audit}))


def record_file(request: Request, progress: Progress) -> Audited:
    """Record the labels in a file, and write imputed labels, model, summary and report to the folder `audited`."""
    assert request.labels is not None
    others = {"rows": request.rows, "half-width": request.half_width, "hardest": request.hardest, "show": request.show}
    if given := [f"--{name}" for name, value in (others | {"as": request.tool}).items() if value]:
        raise ValueError(f"{given[0]} is for drawing rows, not with --labels.")
    folder = opened(request)
    answers = answers_of(read(request.labels, **request.reading), folder.model.classifier.classes_)
    audit = folder.audit() if folder.path(PLAN).exists() else None
    pending = {} if audit is None else {int(folder.places[row]) + 1: int(row) for row in audit.pending}
    asked = folder.asked()
    known = {} if audit is None else {int(folder.places[row]) + 1: label for row, label in audit.recorded.items()}
    known |= {row: None if label == "" else label for row, label in asked.items() if label is not None}
    answers = {row: label for row, label in answers.items() if (row, label) not in known.items()}
    if strange := [row for row in answers if row not in pending and asked.get(row, "") is not None]:
        raise ValueError(f"{request.labels}: row {strange[0]} was not drawn, or its label is recorded already.")
    audited = {pending[row]: label for row, label in answers.items() if row in pending}
    order = list(pending)
    last = max((order.index(row) for row in answers if row in pending), default=0)
    if skipped := [row for row in order[:last] if row not in answers]:
        raise ValueError(
            f"{request.labels}: row {skipped[0]} comes before a label but has none: label it too, or write ?."
        )
    asked |= {row: "" if label is None else label for row, label in answers.items() if row not in pending}
    result = None
    if audit is not None and audited:
        result = audit.record(audited)
    elif audit is not None and audit.recorded:
        result = audit.result()
    with new_files(request.results / DONE, FILES, force=True) as part, progress.phase("writing"):
        done = _write(folder, audit, result, asked, part)
    if audit is not None:
        audit.save(folder.path(PLAN))
    if asked:
        with one_file(folder.path(f"{HARDEST}.json"), force=True) as file:
            file.write_text(json.dumps(asked), encoding="utf-8")
    return done


def answers_of(table: Table, classes: NDArray[Any]) -> dict[int, Any]:
    """The answers in a file by row: a class, or None where nobody can tell; empty cells are no answers."""
    column = "label" if LABEL not in table.names else LABEL  # of Prodigy
    lacking = [name for name in (ROW, column) if name not in table.names]
    if lacking:
        raise ValueError(
            f"{table.path} has no column {listed(lacking)}: use the download of the page, or the filled sheet."
        )
    names = {str(name): name for name in classes.tolist()}
    answers: dict[int, Any] = {}
    for row, text in zip(
        table.text(ROW).to_pylist(), (text.strip() for text in table.text(column).to_pylist()), strict=True
    ):
        if text == "":
            continue
        if not re.fullmatch(r"\d+(\.0+)?", row.strip()):
            raise ValueError(f"{table.path}: {shown(row)} in the column {ROW!r} is not the number of a row.")
        whole = text.removesuffix(".0")  # of spreadsheets and data frames
        text = whole if text not in names and whole in names else text
        near = [name for name in names if folded(name) == folded(text)]
        text = near[0] if text not in (*names, *MISSING_TEXTS) and len(near) == 1 else text
        if text not in names and text not in MISSING_TEXTS:
            what = f"row {row} has the label {shown(text)}, which is none of {listed(list(names))}"
            raise ValueError(f"{table.path}: {what}. Write ? where nobody can tell.")
        number = int(float(row))
        if answers.get(number, names.get(text)) != names.get(text):
            raise ValueError(f"{table.path} has row {number} twice, with different labels: leave one.")
        answers[number] = names.get(text)
    if not answers:
        raise ValueError(f"{table.path} has no label in the column {LABEL!r}.")
    return answers


def _write(
    folder: Folder, audit: Audit | None, result: AuditResult | None, asked: dict[int, Any], part: Path
) -> Audited:
    """Write the four files of the folder after its audit."""
    request, model, table, rows, places = folder
    classes = model.classifier.classes_
    classifier = model.classifier if result is None else result.classifier
    before = predicted(model.classifier, folder.X, rows.complete)
    now = predicted(classifier, folder.X, rows.complete)
    (_, _, code, _), source = with_labels(before, rows)
    without = np.flatnonzero(source[places] == IMPUTED)
    now.proba[places[without]] = classifier.unlabelled_proba(folder.X[without])
    if result is not None:
        code[places] = number_labels(result.transduction, classes)
    told = (
        {} if audit is None else {int(places[row]): label for row, label in audit.recorded.items() if label is not None}
    )
    mended = []  # whether the labels that were asked for would be wrong otherwise
    for kind, labels in ((AUDITED, told), (ASKED, {row - 1: label for row, label in asked.items()})):
        for place, label in labels.items():
            if label not in (None, ""):
                k = classes.tolist().index(label)
                mended += [bool(code[place] != k)] * (place not in told)
                code[place], source[place] = k, kind
    changed = int(np.sum((code != before.code) & (source == IMPUTED)))
    now = now._replace(code=code, uncertainty=entr(now.proba).sum(axis=1) / np.log(len(classes)))
    columns = now.columns(classes.astype(str).tolist(), source=source)
    write_rows(part / "imputed.csv", table, columns, escape_formulas=request.escape_formulas)
    steps = [*((f"step{i}", step) for i, step in enumerate(model.between)), ("classifier", classifier)]
    persistence.save(Pipeline([("preparation", model.preparation), *steps]), part / "model.marmix", about=model.about)
    kinds, numbers = np.unique(source[places], return_counts=True)
    counts = dict(zip(kinds.tolist(), numbers.tolist(), strict=True))
    summary = json.loads(folder.path("summary.json").read_text(encoding="utf-8"))
    left = 0
    if result is not None:
        left = result.n_missing - result.n_labelled - len(mended)
        limits = np.clip(np.subtract(result.remaining, sum(mended)), 0, left).tolist()
        result = replace(result, remaining=Estimate(*limits))
    verdict = _verdict(folder, audit, result, summary["verdict"], left, [changed, counts.get(ASKED, 0)])
    done = Audited(verdict, result, counts, changed)
    text = json.dumps(summary | done.as_dict(), ensure_ascii=False, indent=2)
    (part / "summary.json").write_text(f"{text}\n", encoding="utf-8")
    page = environment().get_template("audited.html")
    values = {"title": f"Audit of {request.results.name}", "done": done, "bars": bars(verdict)}
    (part / "report.html").write_text(page.render(answer=verdict.state.capitalize(), **values), encoding="utf-8")
    return done


def _verdict(
    folder: Folder,
    audit: Audit | None,
    result: AuditResult | None,
    before: dict[str, Any],
    left: int,
    numbers: Sequence[int],
) -> Verdict:
    """The verdict that rests on the audit; without one that of the fit. The numbers are of changed and of asked labels."""
    changed, asked_for = numbers
    asked = [f"{asked_for:,} labels were asked for: a new fit learns from them."] if asked_for else []
    if audit is None or result is None:
        verdict = Verdict(**before | {name: Range(**before[name]) for name in ("wrong", "hidden")})
        return replace(verdict, reasons=[*verdict.reasons, *asked])
    verdict = verdict_after(
        result.wrong,
        result.remaining,
        result.n_missing,
        left,
        labelled=result.n_labelled,
        untold=result.n_audited - result.n_labelled,
        contradicted=result.contradicted,
        classes=result.learnt,
        accept=audit.accept,
        audit=lambda rows: command(folder.request.results, "--rows", str(rows)),
        hardest=command(folder.request.results, "--rows", str(MORE), "--hardest"),
    )
    learnt = [f"Learning from it changed {changed:,} of the other imputed labels."] if result.n_labelled else []
    return replace(verdict, reasons=[*verdict.reasons, *learnt, *asked])
