"""The report of a saved model on the rows of a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from marmix.estimators import MARGaussianMixture, MARLogisticRegression
from marmix.estimators.choice import Q_MAX
from marmix.journey.answers import BLOCK, all_answers, missing_proba_of
from marmix.journey.choosing import IGNORED, MODELLED, candidates, choose, measure_of, sample
from marmix.journey.contents import Shown, Tested, contents, most_worth_labelling
from marmix.journey.modelling import Model, inference_of
from marmix.journey.options import MODELS
from marmix.journey.progress import Progress
from marmix.journey.rows import Rows, read_rows, require_libraries, taken
from marmix.journey.saved import Saved, check_label, open_model
from marmix.journey.story import Story, held_out
from marmix.journey.told import NextRows, all_told
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
            rows = read_rows(source, saved.preparation, labels, output.scratch, step)
        story = _story(saved, source, rows, label, id, seed, progress)
        texts = rows.classes.astype(str)
        places = np.flatnonzero(rows.complete)[most_worth_labelling(story.found, rows.z)]
        next_rows = NextRows(places, id, [str(name) for name in saved.preparation.feature_names_in_], texts)
        with progress.phase("writing the report") as step:
            for batch in all_told(source, rows.complete, story.model.X, story.model.numbered, step):
                next_rows.take(batch)
            findings = story.findings([], command, seed)
            page = contents(
                findings,
                story.model,
                rows.z,
                story.result,
                story.tested,
                story.shown,
                story.above,
                next_rows.table(int(np.sum(rows.z < 0))),
            )
            output.path(out.name).write_text(report_html(page), encoding="utf-8")
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
    saved: Saved, source: DataFile, rows: Rows, label: str, id: str | None, seed: int, progress: Progress
) -> Story:
    drawn = sample(rows.z, seed)
    names = [str(name) for name in saved.preparation.get_feature_names_out()]
    shown = Shown(taken(rows.X, drawn), rows.z[drawn], names, drawn)
    scaler = saved.between[0] if saved.between else None
    if scaler is not None:
        for start in range(0, len(rows.X), BLOCK):
            rows.X[start : start + BLOCK] = scaler.transform(rows.X[start : start + BLOCK])
    model = Model(saved.classifier._numbered(), saved.classifier, scaler, rows.X)
    same = model.numbered.fitted_to(model.X, rows.z)
    with progress.phase("looking at the model") as step:
        result = inference_of(model, rows.z) if same else "No intervals: these are not the rows of the fit."
        step(0.5)
        found, above = all_answers(model.numbered, model.X, rows.z)
    choice = None
    if same:
        with progress.phase("comparing models") as step:
            choice = choose(
                _grid(saved, rows), shown.rows, shown.z, folds=saved.about.get("folds", 5), seed=seed, step=step
            )
    tested = held_out(choice.cv, shown.z, len(rows.X)) if choice else _as_it_stands(model, shown.z, drawn)
    return Story(
        path=source.path,
        label=label,
        id=id,
        preparation=saved.preparation,
        rows=rows,
        name=saved.about.get("name", type(saved.classifier).__name__),
        model=model,
        choice=choice,
        result=result,
        found=found,
        above=above,
        tested=tested,
        shown=shown,
    )


def _grid(saved: Saved, rows: Rows) -> dict[str, Any]:
    """The candidates of the fit; for a model that was saved from Python, itself with the missingness modelled and ignored."""
    about = saved.about
    mechanism = {"link": about.get("link"), "uncertainty": measure_of(len(rows.classes))}
    categories = any(column["kind"] != "number" for column in saved.preparation.columns_)
    if about.get("model") in MODELS:
        size = len(rows.X), int(np.sum(rows.z >= 0)), rows.X.shape[1]
        return dict(candidates(about["model"], len(rows.classes), *size, categories, mechanism))
    own = clone(saved.classifier._numbered())
    return {
        f"{type(own).__name__}, {MODELLED}": own,
        f"the same, {IGNORED}": clone(own).set_params(mechanism_weight=0.0),
    }


def _as_it_stands(model: Model, z: NDArray[np.integer[Any]], drawn: NDArray[np.intp]) -> Tested | None:
    """Predictions of rows that the model was not fitted to."""
    known = int(np.sum(z >= 0))
    if not known:
        return None
    X = taken(model.X, drawn)
    proba = model.numbered.predict_proba(X)
    lost = bool((z < 0).any())
    missing = np.minimum(missing_proba_of(model.numbered, X), Q_MAX) if lost else None
    where = f"{known:,} labelled rows of this file, which are not those of the fit"
    return Tested(z, proba, missing, proba if lost else None, where)
