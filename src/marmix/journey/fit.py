"""From a file to imputed labels, a model, and a report."""

import json
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from marmix import container
from marmix.journey.answers import all_answers
from marmix.journey.choosing import candidates, choose, measure_of, sample
from marmix.journey.contents import Shown, contents, most_worth_labelling
from marmix.journey.modelling import Model, fit_model, inference_of
from marmix.journey.options import FILES, FitOptions
from marmix.journey.progress import Progress, Step
from marmix.journey.rows import read_rows, require_libraries, taken
from marmix.journey.story import Story, held_out
from marmix.journey.told import NextRows, added_names, all_told
from marmix.outputs import Output
from marmix.report import report_html
from marmix.report.contents import Findings
from marmix.tables.cells import counted
from marmix.tables.labels import LabelColumn
from marmix.tables.preparation import Preparation
from marmix.tables.reading import DataFile, open_table
from marmix.tables.writing import RowWriter, check_added


def fit_file(options: FitOptions, progress: Progress) -> Findings:
    """Read, choose, fit, impute; write the four files, all or none.

    Parameters
    ----------
    options : FitOptions
    progress : Progress

    Returns
    -------
    Findings
        What `summary.json` keeps.
    """
    require_libraries()
    source = open_table(options.data, **options.reading)
    features = options.columns(source.names, source.index)
    with Output(options.out, FILES, force=options.force) as output:
        story = _story(options, source, features, output.scratch, progress)
        model, rows = story.model, story.rows
        with progress.phase("writing the rows") as step:
            next_rows, warnings = _write_rows(output, source, story, options, step)
        with progress.phase("writing the report") as step:
            findings = story.findings(warnings, options.command, options.seed)
            page = contents(
                findings,
                model,
                rows.z,
                story.result,
                story.tested,
                story.shown,
                story.above,
                next_rows.table(int(np.sum(rows.z < 0))),
            )
            step(0.9)
            output.path("report.html").write_text(report_html(page), encoding="utf-8")
            summary = json.dumps(findings.as_dict(), ensure_ascii=False, indent=2)
            output.path("summary.json").write_text(summary + "\n", encoding="utf-8")
            container.save(
                _pipeline(story.preparation, model), output.path("model.marmix"), about=_about(options, story.name)
            )
    return findings


def _story(options: FitOptions, source: DataFile, features: list[str], scratch: Any, progress: Progress) -> Story:
    """Read the rows, choose a model and fit it."""
    with progress.phase("looking at the columns") as step:
        preparation = Preparation(features=features, impute=options.impute_features)
        preparation.fit_batches(lambda: source.batches(features, step))
    with progress.phase("reading the rows") as step:
        labels = LabelColumn(options.label, options.missing)
        rows = read_rows(source, preparation, labels, scratch, step, preparation.n_rows_)
    check_added(source.names, added_names(options.prefix, rows.classes, source=True))
    grid = candidates(
        options.model,
        len(rows.classes),
        len(rows.X),
        int(np.sum(rows.z >= 0)),
        rows.X.shape[1],
        any(column["kind"] != "number" for column in preparation.columns_),
        {"link": options.link, "uncertainty": measure_of(len(rows.classes))},
    )
    drawn = sample(rows.z, options.seed)
    names = [str(name) for name in preparation.get_feature_names_out()]
    shown = Shown(taken(rows.X, drawn), rows.z[drawn], names, drawn)
    with progress.phase("comparing models") as step:
        choice = choose(grid, shown.rows, shown.z, folds=options.folds, seed=options.seed, step=step)
    with progress.phase("fitting") as step:
        model = fit_model(choice, rows.X, rows.z, rows.classes)
        step(0.5)
        result = inference_of(model, rows.z)
        found, above = all_answers(model.numbered, model.X, rows.z)
    return Story(
        path=source.path,
        label=options.label,
        id=options.id,
        preparation=preparation,
        rows=rows,
        name=choice.name,
        model=model,
        choice=choice,
        result=result,
        found=found,
        above=above,
        tested=held_out(choice.cv, shown.z, len(rows.X)),
        shown=shown,
    )


def _write_rows(
    output: Output, source: DataFile, story: Story, options: FitOptions, step: Step
) -> tuple[NextRows, list[str]]:
    """Every row of the file with its label, given or imputed; the rows most worth labelling; and what to be warned of."""
    rows, texts = story.rows, story.rows.classes.astype(str)
    places = np.flatnonzero(rows.complete)[most_worth_labelling(story.found, rows.z)]
    next_rows = NextRows(places, options.id, options.columns(source.names, source.index), texts)
    names = added_names(options.prefix, rows.classes, source=True)
    with RowWriter(output.path("imputed.csv"), source.names, names, escape_formulas=options.escape_formulas) as writer:
        for batch in all_told(source, rows.complete, story.model.X, story.model.numbered, step):
            codes = rows.codes[batch.start : batch.start + len(batch.whole)]
            writer.write(batch.batch, batch.added(texts, codes))
            next_rows.take(batch)
    if not writer.formulas or options.escape_formulas:
        return next_rows, []
    warning = (
        f"A spreadsheet program may run {counted(writer.formulas, 'cell')} of imputed.csv, written as in the file: they begin "
        "like a formula. --escape-formulas makes them plain text."
    )
    return next_rows, [warning]


def _pipeline(preparation: Preparation, model: Model) -> Pipeline:
    """From the columns of a file to the classes, in one estimator."""
    steps: list[tuple[str, Any]] = [("preparation", preparation)]
    if model.scaler is not None:
        steps.append(("scaler", model.scaler))
    return Pipeline([*steps, ("classifier", model.named)])


def _about(options: FitOptions, name: str) -> dict[str, Any]:
    """What `marmix report` and `marmix info` want to know besides the model."""
    return {
        "name": name,
        "label": options.label,
        "id": options.id,
        "missing": list(options.missing),
        "model": options.model,
        "link": options.link,
        "folds": options.folds,
        "seed": options.seed,
    }
