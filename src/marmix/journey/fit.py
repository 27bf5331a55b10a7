"""From a file to imputed labels, a model, and a report."""

import json
from typing import Any

from sklearn.pipeline import Pipeline

from marmix import container
from marmix.estimators.candidates import default_candidates
from marmix.journey.choosing import Model, choose, fitted_model, plain_name
from marmix.journey.findings import Story, held_out, inference_of, sampled
from marmix.journey.options import FILES, FitOptions
from marmix.journey.progress import Progress, Step
from marmix.journey.rows import read_rows, require_libraries
from marmix.journey.scoring import Tally, added_names, scored_batches
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

    The file is read three times: to survey its columns, for the numbers, and to write it out again with labels.

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
        with progress.phase("writing the rows") as step:
            warnings = _write_rows(output, source, story, options, step)
        with progress.phase("writing the report") as step:
            findings = story.findings(warnings, options.command, options.seed)
            page = story.contents(findings)
            step(0.9)
            output.path("report.html").write_text(report_html(page), encoding="utf-8")
            summary = json.dumps(findings.as_dict(), ensure_ascii=False, indent=2)
            output.path("summary.json").write_text(summary + "\n", encoding="utf-8")
            pipeline = _pipeline(story.preparation, story.model)
            container.save(pipeline, output.path("model.marmix"), about=_about(options, story.name))
    return findings


def candidates_of(
    kind: str, link: str, preparation: Preparation, n_classes: int, n_rows: int, n_features: int
) -> dict[str, Any]:
    """The default candidates for the rows of a file."""
    mechanism = {"link": link}
    return default_candidates(
        n_classes,
        n_rows,
        n_features,
        kind=kind,
        categories=any(column["kind"] != "number" for column in preparation.columns_),
        brief=True,
        mechanism=mechanism,
        ignoring=mechanism | {"mechanism_weight": 0.0},  # which still says how labels go missing
    )


def _story(options: FitOptions, source: DataFile, features: list[str], scratch: Any, progress: Progress) -> Story:
    """Read the rows, choose a model and fit it."""
    with progress.phase("looking at the columns") as step:
        preparation = Preparation(features=features, impute=options.impute_features)
        labels = LabelColumn(options.label, options.missing)
        preparation.fit_batches(lambda: source.batches([*features, options.label], step), labels)
    with progress.phase("reading the rows") as step:
        rows = read_rows(source, preparation, labels, scratch, step)
    check_added(source.names, added_names(options.prefix, rows.classes, source=True))
    z = rows.z
    grid = candidates_of(options.model, options.link, preparation, len(rows.classes), *rows.X.shape)
    if not (z < 0).any():  # there is no missingness to ignore
        grid = {name.removesuffix(", mechanism"): grid[name] for name in grid if name.endswith(", mechanism")}
    chosen_on = sampled(rows, z, preparation, options.seed)
    with progress.phase("comparing models") as step:
        choice = choose(grid, chosen_on.X, chosen_on.z, folds=options.folds, seed=options.seed, step=step)
    with progress.phase("fitting") as step:
        model = fitted_model(choice, rows.X, z, rows.classes)
        step(0.5)
        result = inference_of(model, z)
    return Story(
        path=source.path,
        label=options.label,
        id=options.id,
        preparation=preparation,
        rows=rows,
        z=z,
        name=plain_name(choice.name),
        model=model,
        choice=choice,
        result=result,
        tested=held_out(choice.cv, chosen_on.z, len(rows.X)),
        sampled=chosen_on,
        tally=Tally(rows.classes, chosen_on.places, options.id, features),
    )


def _write_rows(output: Output, source: DataFile, story: Story, options: FitOptions, step: Step) -> list[str]:
    """Write every row of the file with its label, given or imputed, and count them; returns what to be warned of."""
    rows, model = story.rows, story.model
    texts, names = model.classes.astype(str), added_names(options.prefix, model.classes, source=True)
    with RowWriter(output.path("imputed.csv"), source.names, names, escape_formulas=options.escape_formulas) as writer:
        for batch in scored_batches(source, rows, model.X, model.estimator, step):
            codes = rows.codes[batch.start : batch.start + len(batch.complete)]
            writer.write(batch.batch, batch.added(texts, codes))
            story.tally.take(batch, codes)
    if not writer.formulas or options.escape_formulas:
        return []
    return [
        f"A spreadsheet program may run {counted(writer.formulas, 'cell')} of imputed.csv, written as in the file: they begin "
        "like a formula. --escape-formulas makes them plain text."
    ]


def _pipeline(preparation: Preparation, model: Model) -> Pipeline:
    """From the columns of a file to the classes, in one estimator."""
    steps: list[tuple[str, Any]] = [("preparation", preparation)]
    if model.scaler is not None:
        steps.append(("scaler", model.scaler))
    return Pipeline([*steps, ("classifier", model.named())])


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
