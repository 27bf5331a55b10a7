"""`marmix fit`: from a file to imputed labels, a model and a report."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from marmix import persistence
from marmix.app.findings import Caution, Findings
from marmix.app.page import report_html
from marmix.evaluation.prior import prior_of, unlabelled_counts
from marmix.journey.choosing import average_model, compare
from marmix.journey.findings import Analysis, held_out, inference_of, sample_rows
from marmix.journey.progress import Progress, Step, part
from marmix.journey.rows import check_classes, read_rows, require_libraries
from marmix.journey.scoring import Sets, Tally, added_names, scored_batches
from marmix.journey.survey import Doubtful, Survey, survey
from marmix.outputs import Output
from marmix.selection.candidates import KINDS, default_candidates
from marmix.tables.cells import counted
from marmix.tables.preparation import Preparation
from marmix.tables.reading import DataFile, check_columns, open_table
from marmix.tables.writing import RowWriter, check_added
from marmix.terminal import command_line

MODELS = KINDS
SIMULATING = "samples simulated for a p-value"
FILES = ("imputed.csv", "model.marmix", "report.html", "summary.json")


@dataclass(frozen=True)
class FitOptions:
    """The arguments of `marmix fit`; see `marmix fit --help`."""

    data: Path
    label: str | None
    out: Path
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    id: str | None = None
    model: str = "auto"
    link: str = "logit"
    missing: Sequence[str] = ()
    impute_features: str = "median"
    missing_cells: Sequence[str] = ()  # texts that mean a missing feature
    folds: int = 5
    seed: int = 0
    force: bool = False
    prefix: str = "marmix_"
    escape_formulas: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = ("marmix", "fit")
    votes: Sequence[str] = ()
    shares: Sequence[str] = ()
    sets: float | None = None  # coverage of the conformal sets, if any
    keep: Sequence[str] = ()  # columns that the survey should not doubt
    thorough: bool = False
    prevalence: Mapping[str, float] = field(default_factory=dict)  # known shares of classes
    classes: Sequence[str] = ()  # all classes, if they are named
    time_limit: float | None = None  # seconds for the comparison of the candidates

    @property
    def label_columns(self) -> list[str]:
        """The columns of the labels."""
        return list(self.votes or self.shares or ([] if self.label is None else [self.label]))

    def added(self, classes: Any) -> list[str]:
        """Names of the columns that are added for these classes."""
        return added_names(self.prefix, classes, source=True, sets=bool(self.sets))

    def columns(self, names: Sequence[str], index: Sequence[str] = ()) -> list[str]:
        """The features: those asked for, or all columns but the labels, the id, a pandas index and the excluded ones."""
        requested = list(dict.fromkeys(self.features or ()))
        labels, option_name = self.label_columns, "--votes" if self.votes else "--shares" if self.shares else "--label"
        for option, columns in (
            (option_name, labels),
            ("--id", [self.id] if self.id else []),
            ("--features", requested),
            ("--exclude", self.exclude),
        ):
            check_columns(columns, names, f"{option}: {self.data}")
        check_added(names, self.added([]))
        for label in labels:
            if label in requested:
                raise ValueError(f"--features includes the label column {label!r}: remove it there.")
            if labels.count(label) > 1:
                raise ValueError(f"{option_name} names the column {label!r} twice.")
        if self.id in requested:
            raise ValueError(f"--features includes the --id column {self.id!r}: remove it from one of them.")
        if self.id in labels:
            raise ValueError(f"--id and {option_name} name the same column, {self.id!r}: name two different columns.")
        features = requested or [name for name in names if name not in (*labels, self.id, *index)]
        features = [name for name in features if name not in self.exclude]
        if not features:
            raise ValueError("no feature column is left: name some with --features, or exclude fewer.")
        return features


def fit_file(
    options: FitOptions, progress: Progress, agree: Callable[[Survey], bool] = lambda survey: False
) -> Findings:
    """Read a file, compare and average candidates, impute labels, and write all four files or none.

    The file is read three times: to survey its columns, to read the features, and to write the rows with their labels. If the
    survey leaves questions, `agree` says whether to go on with its remedies; if not, `Doubtful` is raised.
    """
    require_libraries()
    source = open_table(options.data, **options.reading)
    progress.say(source.path, source.assumed)
    with Output(options.out, FILES, force=options.force, sources=[source.path]) as output:
        with progress.phase("surveying the columns") as step:
            surveyed = survey(source, options, step)
        if surveyed.fatal or (surveyed.questions and not agree(surveyed)):
            raise Doubtful(surveyed)
        return _write_files(output, source, surveyed, progress)


def _write_files(output: Output, source: DataFile, surveyed: Survey, progress: Progress) -> Findings:
    """Fit and write; when this returns no file in the scratch folder is mapped, as Windows could not remove it."""
    options = surveyed.remedied()
    analysis = _analysis(options, source, surveyed, output.scratch, progress)
    with progress.phase("writing the rows") as step:
        cautions = _write_rows(output, source, analysis, options, step)
    with progress.phase("writing the report") as step:
        step(0.0, "sensitivity analysis")
        sweep = analysis.sweep()
        step(0.3, "tests and intervals")
        tests = part(step, 0.3, 0.6)
        cautions += surveyed.cautions()
        findings = analysis.findings(
            cautions, command_line(options.command), options.seed, sweep, lambda share: tests(share, SIMULATING)
        )
        step(0.6, "drawing the figures")
        contents = analysis.contents(findings, sweep)
        step(0.9, "writing the page and the model")
        output.path("report.html").write_bytes(report_html(contents).encode())
        summary = json.dumps(findings.as_dict(), ensure_ascii=False, indent=2)
        # bytes of file names that are not UTF-8 become escapes
        output.path("summary.json").write_bytes(f"{summary}\n".encode(errors="backslashreplace"))
        pipeline = Pipeline([("preparation", analysis.preparation), ("classifier", analysis.model.named())])
        persistence.save(pipeline, output.path("model.marmix"), about=_about(options, analysis.name))
    return findings


def candidates_of(
    kind: str,
    link: str,
    preparation: Preparation,
    n_classes: int,
    n_rows: int,
    n_features: int,
    n_labelled: int,
    thorough: bool = False,
) -> dict[str, Any]:
    """The default candidates for the rows of a file."""
    return default_candidates(
        n_classes,
        n_rows,
        n_features,
        n_labelled=n_labelled,
        kind=kind,
        categories=any(column["kind"] != "number" for column in preparation.columns_),
        link=link,
        thorough=thorough,
    )


def without_mechanism(grid: dict[str, Any]) -> dict[str, Any]:
    """Candidates that differ in more than the mechanism, for rows that all have a label."""
    distinct: dict[str, str] = {}
    for name, model in grid.items():
        settings = {key: value for key, value in model.get_params().items() if key not in ("link", "mechanism_weight")}
        if model.get_params()["mechanism_weight"] != 0.0:
            distinct.setdefault(f"{type(model).__name__} {settings}", name)
    return {name: grid[name] for name in distinct.values()}


def _analysis(options: FitOptions, source: DataFile, surveyed: Survey, scratch: Any, progress: Progress) -> Analysis:
    """Read the rows, compare the candidates and fit their average."""
    preparation, labels = surveyed.prepared(source.batches)
    progress.say(source.path, preparation.notes_)
    prior = prior_of(options.prevalence or None, labels.classes.astype(str))
    check_added(source.names, options.added(labels.classes))
    with progress.phase("reading the rows") as step:
        rows = read_rows(source, preparation, labels, scratch, step)
    check_classes(rows)
    if prior is not None:
        unlabelled_counts(prior, rows.labels, rows.classes)  # raises if the labels contradict the shares
    z = rows.z
    if options.sets is not None and not (z < 0).any():
        raise ValueError("--sets is for rows without a label, and there are none.")
    sample = sample_rows(rows, preparation, options.seed)
    n_labelled = int(np.sum(sample.z >= 0))
    n_rows, n_features = sample.X.shape
    sizes = len(rows.classes), n_rows, n_features, n_labelled
    grid = candidates_of(options.model, options.link, preparation, *sizes, options.thorough)
    if not (z < 0).any():
        grid = without_mechanism(grid)
    limit = options.time_limit
    with progress.phase("comparing models" + ("" if limit is None else f" for at most {limit:g} s")) as step:
        how: dict[str, Any] = {"folds": options.folds, "seed": options.seed, "prior": prior, "time_limit": limit}
        cv = compare(grid, sample.X, sample.labels, step=step, **how)
    with progress.phase("fitting") as step:
        model = average_model(cv, rows.X, rows.labels, rows.classes, scratch, step)
        step(0.9, "standard errors")
        result = inference_of(model, rows.labels)
    return Analysis(
        source=source,
        label=labels.name,
        id=options.id,
        preparation=preparation,
        rows=rows,
        z=z,
        model=model,
        cv=cv,
        result=result,
        tested=held_out(cv, sample.labels, len(rows.X)),
        sample=sample,
        tally=Tally(rows.classes, sample.places, options.id, preparation.feature_names_in_, float(np.mean(rows.z < 0))),
        sets=None if options.sets is None else Sets.of(options.sets, sample.X, sample.labels, cv.held_out_proba_),
        thorough=options.thorough,
    )


def _write_rows(output: Output, source: DataFile, analysis: Analysis, options: FitOptions, step: Step) -> list[Caution]:
    """Write every row with its given or imputed label, and tally them; returns cautions."""
    rows, model = analysis.rows, analysis.model
    texts = model.classes.astype(str)
    names, sets = options.added(model.classes), analysis.sets
    how: dict[str, Any] = {"escape_formulas": options.escape_formulas, "dialect": source.dialect}
    with RowWriter(output.path("imputed.csv"), source.names, names, **how) as writer:
        for batch in scored_batches(source, rows, model.X, model.classifier, step):
            codes = batch.given(rows)
            column = [] if sets is None else [sets.column(batch, texts, codes)]
            writer.write(batch.batch, [*batch.added(texts, codes), *column])
            analysis.tally.add(batch, codes)
    if not writer.formulas or options.escape_formulas:
        return []
    text = f"{counted(writer.formulas, 'cell')} of imputed.csv may run as a formula in a spreadsheet; they were copied unchanged."
    return [Caution("note", text, "--escape-formulas makes them plain text.")]


def _about(options: FitOptions, name: str) -> dict[str, Any]:
    """Facts about the fit that `marmix report` and `marmix info` read from the model file."""
    return {
        "name": name,
        "label": options.label,
        **{name: list(columns) for name, columns in (("votes", options.votes), ("shares", options.shares)) if columns},
        "id": options.id,
        "missing": list(options.missing),
        "model": options.model,
        "link": options.link,
        "folds": options.folds,
        "seed": options.seed,
    }
