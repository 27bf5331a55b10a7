"""`marmix predict`, `marmix evaluate` and `marmix sensitivity`: a saved model, applied to the rows of a file."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from marmix import persistence
from marmix.app.findings import ScoreFacts, finite
from marmix.core.arrays import Array
from marmix.core.labels import label_shares, most_voted
from marmix.evaluation.pseudo_labels import UncertainPosterior
from marmix.inference.sensitivity import Sensitivity
from marmix.inference.tables import Table
from marmix.journey.findings import all_scores, score_facts
from marmix.journey.progress import Progress
from marmix.journey.rows import IN_MEMORY, complete_rows
from marmix.journey.scoring import ScoredBatch, added_names, missing_proba_of
from marmix.outputs import one_file
from marmix.plotting import SensitivityDisplay
from marmix.plotting.drawing import canvas, styled
from marmix.selection.comparison import Q_MAX
from marmix.tables.cells import counted, shown
from marmix.tables.dialect import Dialect
from marmix.tables.labels import label_columns
from marmix.tables.preparation import Counts, Preparation
from marmix.tables.reading import check_columns, open_table
from marmix.tables.writing import RowWriter
from marmix.terminal import TerminalBytes

FIGURES = ("png", "svg", "pdf")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


_FACTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("label", "id"), ("the name of a column", lambda value: isinstance(value, str))),
    **dict.fromkeys(("votes", "shares", "missing"), ("a list of text", _is_texts)),
    "folds": ("a whole number, at least 2", lambda value: type(value) is int and value >= 2),
}


class Saved(NamedTuple):
    """A model from a file: preparation of the columns, steps in between, classifier, and facts about the fit."""

    preparation: Preparation
    between: list[Any]
    classifier: Any
    about: dict[str, Any]

    def fact(self, name: str) -> Any:
        """What `marmix fit` stored under this name in the model file; ValueError if something else was stored there."""
        value, (words, is_sound) = self.about.get(name), _FACTS[name]
        if value is not None and not is_sound(value):
            raise ValueError(
                f"the model file has {name!r} in its 'about', which is not {words}: save the model again without it."
            )
        return [] if value is None and name in ("votes", "shares", "missing") else value

    def features(self, batch: Any, start: int) -> tuple[Array, NDArray[np.bool_], Counts]:
        """Features of the complete rows, which rows are complete, and counts of missing cells."""
        block, counts = self.preparation.transform_counted(batch, start)
        complete = complete_rows(block, counts, start)
        block = block[complete]
        if len(block):
            for step in self.between:
                block = step.transform(block)
        return block, complete, counts


def open_model(path: Path) -> Saved:
    """Load a model; one saved from Python without a preparation takes numeric columns by name."""
    model = persistence.load(path)
    first = model.steps[0][1] if isinstance(model, Pipeline) else model
    if not isinstance(first, Preparation) and getattr(first, "feature_names_in_", None) is None:
        raise ValueError(
            f"{path} was saved without column names: fit it to a data frame, or load it in Python with marmix.load."
        )
    return parts_of(model, dict(persistence.describe(path)["about"] or {}))


def parts_of(model: Any, about: dict[str, Any]) -> Saved:
    """The parts of a model; one without column names takes the columns x0, x1, ..."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    if isinstance(steps[0], Preparation):
        preparation, steps = steps[0], steps[1:]
    else:
        names = getattr(steps[0], "feature_names_in_", [f"x{j}" for j in range(steps[0].n_features_in_)])
        preparation = _numbers([str(name) for name in names])
        steps = [_nameless(step) for step in steps]
    return Saved(preparation, steps[:-1], steps[-1], about)


def _nameless(step: Any) -> Any:
    """A copy of a fitted estimator that takes arrays without column names."""
    nameless = copy(step)
    if hasattr(nameless, "model_"):
        nameless.model_ = nameless.model_.renamed(nameless.classes_)
    vars(nameless).pop("feature_names_in_", None)
    return nameless


def label_names(saved: Saved, label: str | None, votes: Sequence[str], shares: Sequence[str]) -> tuple[Any, Any, Any]:
    """The columns of the labels: those given, or else those of the fit."""
    if not (label or votes or shares):
        label, votes, shares = saved.fact("label"), saved.fact("votes"), saved.fact("shares")
    if not (label or votes or shares):
        raise ValueError("--label is required: the model file does not name the label column.")
    return label, votes, shares


def check_label(label: str, preparation: Preparation) -> None:
    """Refuse a label column that is a feature of the model."""
    if label in preparation.features_in():
        raise ValueError(
            f"--label names {shown(label)}, which is a feature of the model: name the column of the labels."
        )


def _numbers(names: list[str]) -> Preparation:
    """A preparation that passes numeric columns through."""
    preparation = Preparation(features=names, impute="drop")
    preparation.columns_ = [
        {"name": name, "kind": "number", "levels": [], "fill": None, "missing": 0} for name in names
    ]
    preparation.notes_, preparation.n_rows_ = [], 0
    preparation.feature_names_in_, preparation.n_features_in_ = names, len(names)
    return preparation


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
    """Write the rows of a file with predictions, to `out` or standard output; returns counts."""
    saved, source = open_model(model), open_table(data, **(reading or {}))
    progress.say(source.path, source.assumed)
    texts = saved.classifier.classes_.astype(str)
    names = added_names(prefix, saved.classifier.classes_, source=False)
    check_columns(saved.preparation.features_in(), source.names, str(source.path))
    labels: Counter[str] = Counter(dict.fromkeys(texts.tolist(), 0))
    rows, unfilled, counts = 0, 0, Counts.none()
    with (
        nullcontext(_standard_output(source.dialect))
        if out is None
        else one_file(out, force, sources=[model, data]) as target,
        progress.phase("predicting") as step,
        RowWriter(target, source.names, names, escape_formulas=escape_formulas, dialect=source.dialect) as writer,
    ):
        for batch in source.batches(step=step):
            block, complete, gaps = saved.features(batch, rows)
            scored = ScoredBatch.of(batch, rows, complete, block, saved.classifier)
            writer.write(batch, scored.added(texts))
            labels.update(texts[scored.code[complete]].tolist())
            rows, unfilled, counts = rows + len(complete), unfilled + int(np.sum(~complete)), counts + gaps
    notes = counts.notes()
    if writer.formulas and not escape_formulas:
        notes.append(
            f"{counted(writer.formulas, 'cell')} may run as a formula in a spreadsheet; --escape-formulas makes them plain text."
        )
    return {"rows": rows, "labels": dict(labels), "unfilled": unfilled, "notes": notes}


def _standard_output(dialect: Dialect | None) -> Any:
    """Standard output for rows, raw unless it is a terminal."""
    if sys.stdout is None:
        raise OSError("standard output is closed: name a file with --out.")
    if sys.stdout.isatty():
        return TerminalBytes(sys.stdout, (dialect or Dialect()).encoding)
    return sys.stdout.buffer


def of_fit(classifier: Any, blocks: list[Array], labels: NDArray[Any]) -> bool:
    """Whether rows with these codes or shares are those of the fit, judged by the model that was fitted to most rows."""
    fits = [
        fit for fit in getattr(classifier, "estimators_", {"": [classifier]}).values() if hasattr(fit[-1], "fitted_to")
    ]
    if not fits or sum(map(len, blocks)) != len(labels):
        return False
    fit, X = max(fits, key=lambda fit: fit[-1].model_.total_weight), np.concatenate(blocks)
    if len(X) != fit[-1].model_.total_weight:
        return False
    with suppress(ValueError):  # labels that could not be fitted
        for _, step in getattr(fit, "steps", [])[:-1]:
            X = step.transform(X)
        return bool(fit[-1].fitted_to(X, _labels(labels, fit[-1].classes_) if labels.ndim == 1 else labels))
    return False


def _labels(z: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """The classes of these codes, None where -1."""
    return np.array([*classes.tolist(), None], dtype=object)[z]


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on the labelled rows of a file."""

    file: str
    rows: int
    labelled: int
    scores: list[ScoreFacts]
    corrected: bool  # whether the scores are corrected for missing labels
    classes: list[str]
    confusion: list[list[int]]  # given labels by predicted ones
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(finite(vars(self) | {"scores": [vars(score) for score in self.scores]}))

    def table(self) -> Table:
        """The scores as a table of text."""
        columns = ["corrected", "std err", "labelled rows"] if self.corrected else ["value", "std err"]
        rows = [
            [score.value, score.stderr, score.plain] if self.corrected else [score.value, score.stderr]
            for score in self.scores
        ]
        facts = [("rows", f"{self.rows:,}"), ("with a label", f"{self.labelled:,}")]
        for name, counts in zip(self.classes, self.confusion, strict=True):
            parts = ", ".join(f"{n:,} {predicted}" for predicted, n in zip(self.classes, counts, strict=True) if n)
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
    label: str | None,
    *,
    progress: Progress,
    votes: Sequence[str] = (),
    shares: Sequence[str] = (),
    missing: Sequence[str] = (),
    reading: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Score a saved model on the labelled rows of a file."""
    saved, source = open_model(model), open_table(data, **(reading or {}))
    progress.say(source.path, source.assumed)
    classes = saved.classifier.classes_
    label, votes, shares = label_names(saved, label, votes, shares)
    labels = label_columns(label, votes, shares, [*saved.fact("missing"), *missing], classes)
    for name in labels.columns:
        check_label(name, saved.preparation)
    proba, complete_rows, q, blocks = [], [], [], []
    counts = Counts.none()
    with progress.phase("predicting") as step:
        for batch in source.batches([*saved.preparation.features_in(), *labels.columns], step):
            block, filled, gaps = saved.features(batch, labels.rows)
            labels.add_batch(batch)
            complete_rows.append(filled)
            counts += gaps
            if len(block):
                proba.append(saved.classifier.predict_proba(block))
                q.append(missing_proba_of(saved.classifier, block))
            if labels.rows * block.shape[1] <= IN_MEMORY // 8:
                blocks.append(block)
            else:
                blocks.clear()
    complete = np.concatenate(complete_rows)
    z = labels.codes[complete]
    if not (z >= 0).any():
        raise ValueError(
            f"{data} has no complete row with a label in {labels.name!r}: scores need some. Check the column and --missing."
        )
    p, missing_p = np.concatenate(proba), np.concatenate(q)
    labelled, notes = z >= 0, [*labels.notes(), *counts.notes()]
    if of_fit(saved.classifier, blocks, z if labels.shares is None else labels.shares[complete]):
        notes.append(
            "These are the rows of the fit, and scores on rows that a model has seen are too good: see the report of the fit for "
            "those of held-out rows, or use another file."
        )
    corrected = not labelled.all() and not np.isnan(missing_p).any()
    if corrected:
        notes.append(
            "Corrected for missing labels: rows without a label are scored by the model's own probabilities, adjusted to the "
            "labels of similar rows."
        )
    elif labelled.all():
        notes.append("No label is missing here, so the scores need no correction.")
    else:
        notes.append(
            "The model does not estimate how labels go missing: the scores are those of the labelled rows only."
        )
    given: NDArray[Any] = z
    if labels.shares is not None:
        given = labels.shares[complete]
        z = most_voted(given, p).astype(np.int32)
    confusion = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(confusion, (z[labelled], p[labelled].argmax(axis=1)), 1)
    return Evaluation(
        file=source.path.name,
        rows=len(complete),
        labelled=int(labelled.sum()),
        scores=score_facts(
            all_scores(
                given,
                p,
                np.minimum(missing_p, Q_MAX),
                UncertainPosterior.of(p, label_shares(given, np.arange(len(classes))), missing_p),
            )
            if corrected
            else all_scores(given, p, None)
        ),
        corrected=corrected,
        classes=[str(name) for name in classes],
        confusion=confusion.tolist(),
        notes=notes,
    )


def sensitivity_file(
    model: Path,
    data: Path,
    label: str | None,
    *,
    progress: Progress,
    votes: Sequence[str] = (),
    shares: Sequence[str] = (),
    varied: str | None = None,
    delta: Sequence[float] | None = None,
    threshold: float | None = None,
    draws: int = 200,
    plot: Path | None = None,
    missing: Sequence[str] = (),
    seed: int = 0,
    force: bool = False,
    reading: Mapping[str, Any] | None = None,
) -> Sensitivity:
    """The sensitivity analysis of a saved model on the rows of a file, with a figure if `plot` names one."""
    saved, source = open_model(model), open_table(data, **(reading or {}))
    progress.say(source.path, source.assumed)
    classifier = saved.classifier
    if not hasattr(classifier, "sensitivity"):
        raise ValueError(f"{model} holds a {type(classifier).__name__}, which has no sensitivity analysis.")
    label, votes, shares = label_names(saved, label, votes, shares)
    labels = label_columns(label, votes, shares, [*saved.fact("missing"), *missing], classifier.classes_)
    for name in labels.columns:
        check_label(name, saved.preparation)
    columns = [*saved.preparation.features_in(), *labels.columns]
    check_columns(columns, source.names, str(source.path))
    names = {str(name): name for name in classifier.classes_.tolist()}
    if varied is not None and varied not in names:
        raise ValueError(f"--class {varied!r} is not one of the classes {', '.join(names)}.")
    kind = "" if plot is None else plot.suffix.lstrip(".").lower() or "png"
    if kind and kind not in FIGURES:
        raise ValueError(f"--plot {plot}: the name should end in {', '.join(f'.{name}' for name in FIGURES)}.")
    blocks, complete_rows, counts = [], [], Counts.none()
    with nullcontext() if plot is None else one_file(plot, force, sources=[model, data]) as target:
        with progress.phase("reading the rows") as step:
            for batch in source.batches(columns, step):
                block, filled, gaps = saved.features(batch, labels.rows)
                labels.add_batch(batch)
                blocks.append(block)
                complete_rows.append(filled)
                counts += gaps
        X, complete = np.concatenate(blocks), np.concatenate(complete_rows)
        z = labels.codes[complete]
        if not (z < 0).any():
            raise ValueError(f"{data} has no row without a label in {labels.name!r}: there is nothing to vary.")
        y = _labels(z, classifier.classes_) if labels.shares is None else labels.shares[complete]
        with progress.phase("varying the odds") as step:
            result: Sensitivity = classifier.sensitivity(
                X,
                y,
                delta,
                None if varied is None else names[varied],
                threshold=threshold,
                n_draws=draws,
                random_state=seed,
            )
        result.notes.extend([*labels.notes(), *counts.notes()])
        if target is not None:
            with styled(), target.open("wb") as file:
                figure, ax = canvas(6.4, 4.6)
                SensitivityDisplay.from_sensitivity(result, ax=ax)
                figure.savefig(file, format=kind)
    return result
