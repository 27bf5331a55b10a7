"""A saved model, applied to the rows of a file: predictions and scores."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from marmix import container
from marmix.arrays import Array
from marmix.estimators.choice import Q_MAX
from marmix.inference.tables import Table
from marmix.journey.findings import all_scores, score_facts
from marmix.journey.progress import Progress, Step
from marmix.journey.scoring import ScoredBatch, added_names, missing_proba_of
from marmix.outputs import one_file
from marmix.report.contents import ScoreFacts, finite
from marmix.tables.cells import counted, shown
from marmix.tables.labels import LabelColumn
from marmix.tables.preparation import Counts, Preparation
from marmix.tables.reading import DataFile, check_columns, open_table
from marmix.tables.writing import RowWriter


class Saved(NamedTuple):
    """A model from a file: how columns become features, what comes between, the classifier; and what was kept about it."""

    preparation: Preparation
    between: list[Any]
    classifier: Any
    about: dict[str, Any]

    def features(self, batch: Any, start: int) -> tuple[Array, NDArray[np.bool_], Counts]:
        """Features of the rows that have all of them, which rows these are, and what was filled in."""
        block, counts = self.preparation.transform_counted(batch, start)
        whole = np.asarray(~np.isnan(block).any(axis=1))
        block = block[whole]
        if len(block):
            for step in self.between:
                block = step.transform(block)
        return block, whole, counts


def open_model(path: Path) -> Saved:
    """Load a model; one that was saved from Python without a preparation takes columns of numbers by the names of its fit."""
    model = container.load(path)
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    if isinstance(steps[0], Preparation):
        preparation, steps = steps[0], steps[1:]
    else:
        names = getattr(steps[0], "feature_names_in_", None)
        if names is None:
            raise ValueError(
                f"{path} was saved without names of columns: fit it to a data frame, or load it in Python with marmix.load."
            )
        preparation = _numbers([str(name) for name in names])
        steps = [_nameless(step) for step in steps]
    return Saved(preparation, steps[:-1], steps[-1], dict(container.describe(path)["about"] or {}))


def _nameless(step: Any) -> Any:
    """A copy of a fitted estimator that takes arrays without the names of columns."""
    other = copy(step)
    if hasattr(other, "model_"):
        other.model_ = other.model_.renamed(other.classes_)
    vars(other).pop("feature_names_in_", None)
    return other


def check_label(label: str, preparation: Preparation) -> None:
    """Refuse a column that the model learns from as that of the labels."""
    if label in preparation.features_in():
        raise ValueError(
            f"--label names {shown(label)}, a column that the model predicts from: name that of the labels."
        )


def _numbers(names: list[str]) -> Preparation:
    """A preparation that takes columns of numbers as they are."""
    preparation = Preparation(features=names, impute="drop")
    preparation.columns_ = [
        {"name": name, "kind": "number", "levels": [], "fill": None, "missing": 0} for name in names
    ]
    preparation.notes_, preparation.n_rows_ = [], 0
    preparation.feature_names_in_, preparation.n_features_in_ = names, len(names)
    return preparation


def all_predicted(saved: Saved, source: DataFile, step: Step) -> Iterator[tuple[ScoredBatch, Counts]]:
    """Every row of a file with what the model says of it."""
    check_columns(saved.preparation.features_in(), source.names, str(source.path))
    seen = 0
    for batch in source.batches(step=step):
        block, whole, counts = saved.features(batch, seen)
        yield ScoredBatch.of(batch, seen, whole, block, saved.classifier), counts
        seen += batch.num_rows


def predict_file(
    model: Path,
    data: Path,
    out: Path | None,
    *,
    progress: Progress,
    force: bool = False,
    prefix: str = "marmix_",
    escape_formulas: bool = False,
    reading: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the rows of a file with the model's labels, to `out` or to standard output; the value is what was counted."""
    saved, source = open_model(model), open_table(data, **(reading or {}))
    texts = saved.classifier.classes_.astype(str)
    names = added_names(prefix, saved.classifier.classes_, source=False)
    labels: Counter[str] = Counter(dict.fromkeys(texts.tolist(), 0))
    rows, unfilled, counts = 0, 0, Counts.none()
    with (
        nullcontext(_standard_output()) if out is None else one_file(out, force) as target,
        progress.phase("predicting") as step,
        RowWriter(target, source.names, names, escape_formulas=escape_formulas) as writer,
    ):
        for batch, own in all_predicted(saved, source, step):
            writer.write(batch.batch, batch.added(texts))
            labels.update(texts[batch.code[batch.complete]].tolist())
            rows, unfilled, counts = rows + len(batch.complete), unfilled + int(np.sum(~batch.complete)), counts + own
    notes = counts.notes()
    if writer.formulas and not escape_formulas:
        notes.append(
            f"A spreadsheet may run {counted(writer.formulas, 'cell')}; --escape-formulas makes them plain text."
        )
    return {"rows": rows, "labels": dict(labels), "unfilled": unfilled, "notes": notes}


def _standard_output() -> BinaryIO:
    if sys.stdout is None:
        raise OSError("standard output is closed: name a file with --out.")
    return sys.stdout.buffer


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on the labelled rows of a file."""

    file: str
    rows: int
    labelled: int
    scores: list[ScoreFacts]
    corrected: bool  # whether labels are missing, so that corrected scores differ from plain ones
    classes: list[str]
    confusion: list[list[int]]  # given labels by predicted ones
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(finite(vars(self) | {"scores": [vars(score) for score in self.scores]}))

    def table(self) -> Table:
        """The scores as people read them."""
        columns = ["corrected", "std err", "labelled rows"] if self.corrected else ["value", "std err"]
        rows = [
            [score.value, score.stderr, score.plain] if self.corrected else [score.value, score.stderr]
            for score in self.scores
        ]
        facts = [("rows", f"{self.rows:,}"), ("with a label", f"{self.labelled:,}")]
        for name, counts in zip(self.classes, self.confusion, strict=True):
            parts = ", ".join(f"{count:,} {other}" for other, count in zip(self.classes, counts, strict=True) if count)
            facts.append((f"given {name}", f"predicted {parts}" if parts else "none"))
        return Table(
            f"Scores on {self.file}",
            columns,
            [f"{score.name} ({score.better} is better)" for score in self.scores],
            rows,
            facts,
            self.notes,
            dict.fromkeys(columns, 4),
        )


def evaluate_file(
    model: Path,
    data: Path,
    label: str,
    *,
    progress: Progress,
    missing: Sequence[str] = (),
    reading: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Score a saved model on the labelled rows of a file."""
    saved, source = open_model(model), open_table(data, **(reading or {}))
    check_label(label, saved.preparation)
    classes = saved.classifier.classes_
    labels = LabelColumn(label, [*saved.about.get("missing", []), *missing], classes)
    proba, whole, q = [], [], []
    counts = Counts.none()
    with progress.phase("predicting") as step:
        for batch in source.batches([*saved.preparation.features_in(), label], step):
            block, own, more = saved.features(batch, labels.rows)
            labels.add(batch.column(label))
            whole.append(own)
            counts += more
            if len(block):
                proba.append(saved.classifier.predict_proba(block))
                q.append(missing_proba_of(saved.classifier, block))
    complete = np.concatenate(whole)
    z = labels.codes[complete]
    if not (z >= 0).any():
        raise ValueError(
            f"{data} has no row with a label in {label!r} and all features: there is nothing to compare with."
        )
    p, missing_p = np.concatenate(proba), np.concatenate(q)
    lost = bool((z < 0).any())
    notes = counts.notes()
    if lost and np.isnan(missing_p).any():
        notes.append(
            "The model does not say how labels go missing: the scores are those of the labelled rows as they are."
        )
    corrected = lost and not np.isnan(missing_p).any()
    if not lost:
        notes.append("No label is missing here: the scores need no correction.")
    elif corrected:
        notes.append(
            "Corrected for the rows without label: labelled rows count for those like them, and the model's own probabilities "
            "stand in where there are none."
        )
    known = z >= 0
    confusion = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(confusion, (z[known], p[known].argmax(axis=1)), 1)
    return Evaluation(
        file=source.path.name,
        rows=len(complete),
        labelled=int(known.sum()),
        scores=score_facts(
            all_scores(z, p, np.minimum(missing_p, Q_MAX) if corrected else None, p if corrected else None)
        ),
        corrected=corrected,
        classes=[str(name) for name in classes],
        confusion=confusion.tolist(),
        notes=notes,
    )
