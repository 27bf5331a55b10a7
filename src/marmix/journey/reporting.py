"""`marmix report`: the report of a saved model on the rows of a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from marmix.estimators import MARGaussianMixture, MARLogisticRegression
from marmix.estimators.base import numbered
from marmix.estimators.choice import Q_MAX
from marmix.journey.choosing import Model, choose, scale_rows
from marmix.journey.findings import Analysis, TestedRows, held_out, inference_of, sample_rows
from marmix.journey.fit import MODELS, candidates_of
from marmix.journey.progress import Progress
from marmix.journey.rows import FileRows, read_rows, require_libraries
from marmix.journey.saved import Saved, check_label, open_model
from marmix.journey.scoring import Tally, scored_batches
from marmix.outputs import Output
from marmix.report import report_html
from marmix.report.contents import Findings
from marmix.tables.labels import LabelColumn
from marmix.tables.reading import DataFile, check_columns, open_table


def report_file(
    model: Path,
    data: Path,
    out: Path,
    *,
    progress: Progress,
    label: str | None = None,
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
    _check_model(saved, model)
    label = label or saved.about.get("label")
    if label is None:
        raise ValueError("--label is required: the model file does not name the label column.")
    id = id or (saved.about.get("id") if saved.about.get("id") in source.names else None)
    check_label(label, saved.preparation)
    check_columns([label, *([id] if id else [])], source.names, str(data))
    markers = [*saved.about.get("missing", []), *missing]
    with Output(out.parent, (out.name,), force=force) as output:
        with progress.phase("reading the rows") as step:
            labels = LabelColumn(label, markers, saved.classifier.classes_)
            for batch in source.batches([label]):
                labels.add(batch.column(label))
            rows = read_rows(source, saved.preparation, labels, output.scratch, step)
        analysis = _analysis(saved, source, rows, label, id, seed, progress)
        with progress.phase("writing the report") as step:
            findings = analysis.findings([], command, seed)
            output.path(out.name).write_text(report_html(analysis.contents(findings)), encoding="utf-8")
    return findings


def _check_model(saved: Saved, path: Path) -> None:
    scaled_only = len(saved.between) <= 1 and all(isinstance(step, StandardScaler) for step in saved.between)
    if not scaled_only or not isinstance(saved.classifier, (MARGaussianMixture, MARLogisticRegression)):
        raise ValueError(
            f"{path}: a report needs a MARGaussianMixture or MARLogisticRegression after at most a StandardScaler, not "
            f"{type(saved.classifier).__name__} in another pipeline. 'marmix evaluate' scores any model."
        )
    if saved.classifier.mechanism_ is None:
        raise ValueError(
            f"{path} was fitted with link=None, but a report needs a model of the missingness: set a link."
        )


def _analysis(
    saved: Saved, source: DataFile, rows: FileRows, label: str, id: str | None, seed: int, progress: Progress
) -> Analysis:
    z = rows.z
    sample = sample_rows(rows, z, saved.preparation, seed)
    scaler = saved.between[0] if saved.between else None
    if scaler is not None:
        scale_rows(scaler, rows.X)
    model = Model(numbered(saved.classifier), scaler, rows.classes, rows.X)
    same = model.estimator.fitted_to(model.X, z)
    tally = Tally(rows.classes, sample.places, id, [str(name) for name in saved.preparation.feature_names_in_])
    with progress.phase("predicting") as step:
        result = (
            inference_of(model, z)
            if same
            else "No intervals were computed: these are not the rows the model was fitted to."
        )
        for batch in scored_batches(source, rows, model.X, model.estimator, step):
            tally.add(batch, rows.codes[batch.start : batch.start + len(batch.complete)])
    choice = None
    if same:
        grid = _grid(saved, rows)
        with progress.phase("comparing models") as step:
            choice = choose(grid, sample.X, sample.z, folds=saved.about.get("folds", 5), seed=seed, step=step)
    return Analysis(
        path=source.path,
        label=label,
        id=id,
        preparation=saved.preparation,
        rows=rows,
        z=z,
        name=saved.about.get("name", type(saved.classifier).__name__),
        model=model,
        choice=choice,
        result=result,
        tested=held_out(choice.cv, sample.z, len(rows.X)) if choice else _other_rows(tally, sample.z),
        sample=sample,
        tally=tally,
    )


def _grid(saved: Saved, rows: FileRows) -> dict[str, Any]:
    """The candidates of the fit; for a model saved from Python, the model with missingness modelled and ignored."""
    about = saved.about
    if about.get("model") in MODELS:
        return candidates_of(about["model"], about["link"], saved.preparation, len(rows.classes), *rows.X.shape)
    estimator = clone(numbered(saved.classifier))
    name = type(estimator).__name__
    return {f"{name}, mechanism": estimator, f"{name}, ignored": clone(estimator).set_params(mechanism_weight=0.0)}


def _other_rows(tally: Tally, z: NDArray[np.integer[Any]]) -> TestedRows | None:
    """Predictions of rows that the model was not fitted to; None if none is labelled."""
    labelled = int(np.sum(z >= 0))
    if not labelled:
        return None
    where = f"{labelled:,} labelled rows of this file, which the model was not fitted to"
    if labelled == len(z):
        return TestedRows(z, tally.proba, None, None, where)
    return TestedRows(z, tally.proba, np.minimum(tally.missing, Q_MAX), tally.proba, where)
