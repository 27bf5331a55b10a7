"""`marmix report` and `marmix.report`: the report of a fitted model on the rows of a file, or in memory."""

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from marmix.app.findings import Findings
from marmix.app.page import report_html
from marmix.app.summary import summary_lines
from marmix.core.arrays import Array
from marmix.core.labels import has_votes, label_shares, missing_texts, most_voted
from marmix.estimators import MARGaussianMixture, MARLogisticRegression
from marmix.estimators.base import numbered
from marmix.evaluation.prior import prior_of
from marmix.evaluation.pseudo_labels import UncertainPosterior
from marmix.journey.choosing import Model, compare, scaled_rows, select, statistical
from marmix.journey.findings import Analysis, SampledRows, TestedRows, held_out, inference_of, sample_rows
from marmix.journey.progress import Progress, Step
from marmix.journey.rows import FileRows, read_rows, require_libraries
from marmix.journey.saved import Saved, check_label, label_names, open_model, parts_of
from marmix.journey.scoring import Tally, scored_batches
from marmix.outputs import Output, one_file
from marmix.selection.average import MARClassifierCV
from marmix.selection.candidates import knows_missingness
from marmix.selection.comparison import Q_MAX
from marmix.tables.labels import LabelColumn, label_columns
from marmix.tables.preparation import table_batches
from marmix.tables.reading import DataFile, check_columns, open_table


def report_file(
    model: Path,
    data: Path,
    out: Path,
    *,
    progress: Progress,
    label: str | None = None,
    votes: Sequence[str] = (),
    shares: Sequence[str] = (),
    id: str | None = None,
    missing: Sequence[str] = (),
    seed: int = 0,
    force: bool = False,
    reading: Mapping[str, Any] | None = None,
    command: str = "marmix report",
) -> Findings:
    """Write the report of a saved model; on the rows of its fit, candidates are cross-validated again."""
    require_libraries()
    saved, source = open_model(model), open_table(data, **(reading or {}))
    progress.say(source.path, source.assumed)
    _check_model(saved, model)
    label, votes, shares = label_names(saved, label, votes, shares)
    saved.fact("folds")
    id = id or (saved.fact("id") if saved.fact("id") in source.names else None)
    labels = label_columns(label, votes, shares, [*saved.fact("missing"), *missing], saved.classifier.classes_)
    for name in labels.columns:
        check_label(name, saved.preparation)
    check_columns([*labels.columns, *([id] if id else [])], source.names, str(data))
    with Output(out.parent, (out.name,), force=force, sources=[model, data]) as output:
        page, findings = _page(saved, source, labels, id, seed, command, output.scratch, progress)
        output.path(out.name).write_bytes(page.encode())
    return findings


def _page(
    saved: Saved,
    source: DataFile,
    labels: LabelColumn,
    id: str | None,
    seed: int,
    command: str,
    scratch: Path,
    progress: Progress,
) -> tuple[str, Findings]:
    """The page and what it says; when this returns no file in the scratch folder is mapped, as Windows could not remove it."""
    with progress.phase("reading the rows") as step:
        for batch in source.batches(labels.columns):
            labels.add_batch(batch)
        rows = read_rows(source, saved.preparation, labels, scratch, step)
    fitted = _model(saved, rows, scratch)
    analysis = _analysis(saved, fitted, source, rows, labels.name, id, seed, progress)
    with progress.phase("writing the report"):
        sweep = analysis.sweep()
        findings = analysis.findings([], command, seed, sweep)
        return report_html(analysis.contents(findings, sweep)), findings


@dataclass(frozen=True, repr=False)
class Report:
    """A report, which a notebook shows as a page, and a terminal as a summary.

    Attributes
    ----------
    findings : Findings
        The verdict, counts, estimates and cautions as plain values; `findings.as_dict()` is what `summary.json` holds.
    html : str
        The page, which needs no other file.
    """

    findings: Findings
    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        with one_file(path, force=True) as part:
            part.write_bytes(self.html.encode())

    def _repr_html_(self) -> str:
        """A frame, so that the styles of the page and of the notebook do not mix."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts allow-downloads" title="marmix report" '
            'style="width: 100%; height: 80vh; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return "\n".join(summary_lines(self.findings))


class TableInMemory(NamedTuple):
    """A table as record batches, read like a file."""

    pieces: list[Any]

    def batches(self, columns: Sequence[str] | None = None, step: Step | None = None) -> Iterator[Any]:
        """The record batches."""
        return iter(self.pieces)


def report_rows(model: Any, X: Any, y: Any) -> Report:
    """The report of a fitted model on rows in memory; on the rows of its fit, candidates are cross-validated again."""
    require_libraries()
    check_is_fitted(model)
    saved = parts_of(model, {})
    _check_model(saved, "the model")
    classes = saved.classifier.classes_
    if not hasattr(X, "columns") or not all(isinstance(name, str) for name in X.columns):  # an array
        X = dict(zip(saved.preparation.feature_names_in_, np.asarray(X, dtype=float).T, strict=True))
    source = TableInMemory(list(table_batches(X)))
    features, counts = saved.preparation.transform_counted(X)
    shares, complete = label_shares(y, classes), np.asarray(~np.isnan(features).any(axis=1))
    if len(shares) != len(features):
        raise ValueError(f"X and y have inconsistent numbers of samples: {len(features)} and {len(shares)}.")
    codes = most_voted(shares).astype(np.int32)
    marks = {} if has_votes(y) else missing_texts(y, classes)
    rows = FileRows(features[complete], complete, codes, classes, counts, marks, shares if has_votes(y) else None)
    fitted = _model(saved, rows, Path())
    seed = getattr(saved.classifier, "random_state", 0)
    saved.about.update({"folds": getattr(saved.classifier, "cv", 5)})
    name = str(getattr(y, "name", None) or "y")
    analysis = _analysis(saved, fitted, source, rows, name, None, seed, Progress(quiet=True))
    sweep = analysis.sweep()
    findings = analysis.findings([], "marmix.report(model, X, y)", seed, sweep)
    return Report(findings, report_html(analysis.contents(findings, sweep)))


def _check_model(saved: Saved, path: Path | str) -> None:
    single = isinstance(saved.classifier, (MARGaussianMixture, MARLogisticRegression))
    scaled_only = len(saved.between) <= single and all(isinstance(step, StandardScaler) for step in saved.between)
    name, any_model = type(saved.classifier).__name__, "'marmix evaluate' scores any model."
    if not (single or isinstance(saved.classifier, MARClassifierCV)):
        raise ValueError(
            f"{path}: a report needs a MARClassifierCV, a mixture or a MARLogisticRegression, not {name}. {any_model}"
        )
    if not scaled_only:
        steps = "only a StandardScaler" if single else "no other step"
        raise ValueError(f"{path}: a report needs a pipeline in which {steps} comes before {name}. {any_model}")
    members = [saved.classifier] if single else _members(saved.classifier)
    if not any(getattr(member, "mechanism_", None) is not None for member in members):
        raise ValueError(
            f"{path} was fitted with link=None, but a report needs a model of the missingness: set a link."
        )


def _members(average: MARClassifierCV) -> list[Any]:
    """The candidates of positive weight that have a mechanism."""
    members = [average.estimators_[name] for name, weight in average.weights_.items() if weight > 0.0]
    return [pipeline[-1] for pipeline in members if knows_missingness(pipeline)]


def _model(saved: Saved, rows: FileRows, scratch: Path) -> Model:
    """The saved classifier with numbered classes, and the rows that it takes."""
    if isinstance(saved.classifier, MARClassifierCV):
        classifier = copy(saved.classifier)
        classifier.prior = prior_of(classifier.prior, classifier.classes_)
        classifier.classes_ = np.arange(len(rows.classes))
        name = statistical(classifier)
        shown = None if name is None else classifier.estimators_[name]
    else:
        steps = [("scaler", step) for step in saved.between]
        classifier = shown = Pipeline([*steps, ("classifier", numbered(saved.classifier))])
    axes = rows.X if shown is None or len(shown) == 1 else scaled_rows(shown[:-1], rows.X, scratch)
    return Model(classifier, shown, rows.classes, rows.X, axes)


def _analysis(
    saved: Saved,
    model: Model,
    source: DataFile | TableInMemory,
    rows: FileRows,
    label: str,
    id: str | None,
    seed: int,
    progress: Progress,
) -> Analysis:
    z = rows.z
    sample = sample_rows(rows, saved.preparation, seed)
    same = _is_of_fit(model, rows.labels)
    features = [str(name) for name in saved.preparation.feature_names_in_]
    tally = Tally(rows.classes, sample.places, id, features, float(np.mean(rows.z < 0)))
    with progress.phase("predicting") as step:
        result = (
            inference_of(model, rows.labels)
            if same
            else "No intervals were computed: these are not the rows the model was fitted to."
        )
        for batch in scored_batches(source, rows, model.X, model.classifier, step):
            tally.add(batch, batch.given(rows))
    cv = None
    if same:
        with progress.phase("comparing models") as step:
            options: dict[str, Any] = {"folds": saved.about.get("folds", 5), "seed": seed, "step": step}
            cv = _comparison(model.classifier, sample.X, sample.labels, options)
    return Analysis(
        source=source if isinstance(source, DataFile) else None,
        label=label,
        id=id,
        preparation=saved.preparation,
        rows=rows,
        z=z,
        model=model,
        cv=cv,
        result=result,
        tested=held_out(cv, sample.labels, len(rows.X)) if cv else _other_rows(tally, sample),
        sample=sample,
        tally=tally,
    )


def _is_of_fit(model: Model, labels: NDArray[Any]) -> bool:
    """Whether the rows are those of the fit, judged by a candidate that was fitted to all of them."""
    if model.statistical is not None:
        return bool(model.statistical[-1].fitted_to(model.axes, labels))
    pipeline = max(model.candidates.values(), key=lambda candidate: candidate[-1].model_.total_weight)
    return bool(pipeline[-1].fitted_to(pipeline[:-1].transform(model.X), labels))


def _comparison(classifier: Any, X: Array, labels: NDArray[Any], options: Mapping[str, Any]) -> MARClassifierCV:
    """The candidates of an average, cross-validated again; a single model, with missingness modelled and ignored."""
    if isinstance(classifier, MARClassifierCV):
        grid = {name: clone(pipeline) for name, pipeline in classifier.estimators_.items()}
        return compare(dict(classifier.estimators or {}) | grid, X, labels, prior=classifier.prior, **options)
    estimator = clone(classifier[-1])
    other = clone(estimator).set_params(mechanism_weight=0.0 if estimator.mechanism_weight > 0.0 else 1.0)
    cv = compare({"": estimator, "other": other}, X, labels, method="pick", **options)
    select(cv, "")
    return cv


def _other_rows(tally: Tally, sample: SampledRows) -> TestedRows | None:
    """Predictions of rows that the model was not fitted to; None if none is labelled."""
    labelled = int(np.sum(sample.z >= 0))
    if not labelled:
        return None
    where = f"{labelled:,} labelled rows of this file, which the model was not fitted to"
    if labelled == len(sample.z):
        return TestedRows(sample.labels, tally.proba, None, None, where)
    shares = label_shares(sample.labels, np.arange(tally.proba.shape[1]))
    doubt = UncertainPosterior.of(tally.proba, shares, tally.missing)
    return TestedRows(sample.labels, tally.proba, np.minimum(tally.missing, Q_MAX), doubt, where)
