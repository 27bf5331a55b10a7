"""The report of a saved model on the rows of a file."""

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
from marmix.journey.findings import Story, Tested, held_out, inference_of, sampled
from marmix.journey.fit import candidates_of
from marmix.journey.options import MODELS
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
    """Write the report of a saved model: on the rows of its fit, with a cross-validation; on others, as it stands."""
    require_libraries()
    saved, source = open_model(model), open_table(data, **(reading or {}))
    _check_model(saved, model)
    label = label or saved.about.get("label")
    if label is None:
        raise ValueError("--label is needed: the model does not say which column holds the labels.")
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
        story = _story(saved, source, rows, label, id, seed, progress)
        with progress.phase("writing the report") as step:
            findings = story.findings([], command, seed)
            output.path(out.name).write_text(report_html(story.contents(findings)), encoding="utf-8")
    return findings


def _check_model(saved: Saved, path: Path) -> None:
    own = isinstance(saved.classifier, (MARGaussianMixture, MARLogisticRegression))
    if not own or not all(isinstance(step, StandardScaler) for step in saved.between) or len(saved.between) > 1:
        raise ValueError(
            f"{path} holds {type(saved.classifier).__name__}, of which there is no report: it shows one mixture or logistic "
            "regression. 'marmix evaluate' scores any model."
        )
    if saved.classifier.mechanism_ is None:
        raise ValueError(
            f"{path} was fitted with link=None: a report needs a model of the missingness. Fit it with a link."
        )


def _story(
    saved: Saved, source: DataFile, rows: FileRows, label: str, id: str | None, seed: int, progress: Progress
) -> Story:
    z = rows.z
    drawn = sampled(rows, z, saved.preparation, seed)
    scaler = saved.between[0] if saved.between else None
    if scaler is not None:
        scale_rows(scaler, rows.X)
    model = Model(numbered(saved.classifier), scaler, rows.classes, rows.X)
    same = model.estimator.fitted_to(model.X, z)
    tally = Tally(rows.classes, drawn.places, id, [str(name) for name in saved.preparation.feature_names_in_])
    with progress.phase("looking at the model") as step:
        result = inference_of(model, z) if same else "No intervals: these are not the rows of the fit."
        for batch in scored_batches(source, rows, model.X, model.estimator, step):
            tally.take(batch, rows.codes[batch.start : batch.start + len(batch.complete)])
    choice = None
    if same:
        grid = _grid(saved, rows)
        with progress.phase("comparing models") as step:
            choice = choose(grid, drawn.X, drawn.z, folds=saved.about.get("folds", 5), seed=seed, step=step)
    return Story(
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
        tested=held_out(choice.cv, drawn.z, len(rows.X)) if choice else _as_it_stands(tally, drawn.z),
        sampled=drawn,
        tally=tally,
    )


def _grid(saved: Saved, rows: FileRows) -> dict[str, Any]:
    """The candidates of the fit; for a model that was saved from Python, itself with the missingness modelled and ignored."""
    about = saved.about
    if about.get("model") in MODELS:
        return candidates_of(about["model"], about["link"], saved.preparation, len(rows.classes), *rows.X.shape)
    estimator = clone(numbered(saved.classifier))
    name = type(estimator).__name__
    return {f"{name}, mechanism": estimator, f"{name}, ignored": clone(estimator).set_params(mechanism_weight=0.0)}


def _as_it_stands(tally: Tally, z: NDArray[np.integer[Any]]) -> Tested | None:
    """Predictions of rows that the model was not fitted to."""
    labelled = int(np.sum(z >= 0))
    if not labelled:
        return None
    lost = bool((z < 0).any())
    missing = np.minimum(tally.missing, Q_MAX) if lost else None
    where = f"{labelled:,} labelled rows of this file, which are not those of the fit"
    return Tested(z, tally.proba, missing, tally.proba if lost else None, where)
