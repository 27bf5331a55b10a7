"""Predictions for the rows of a table: columns to add, conformal sets, thresholds, and the rows most worth labelling."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from marmix.app.findings import RowTable, SetFacts, Thresholds
from marmix.app.models import Sample, Step
from marmix.app.survey import GIVEN, IMPUTED, PREFIX, Rows
from marmix.core.arrays import Array
from marmix.core.labels import most_voted
from marmix.evaluation.conformal import conformal_sets
from marmix.evaluation.forests import flexible_missing_proba
from marmix.evaluation.joint import THRESHOLDS, JointTable, at_or_above
from marmix.plotting.fits import missing_proba
from marmix.tables.cells import as_text

NEXT_ROWS = 500  # listed rows most worth labelling
_BLOCK = 65_536  # rows predicted together
_NAME = 24  # characters of a class in a reason
_RARELY = 0.5  # chance of a label, in averages, below which it is called rare
_MOST_COLUMNS = 6  # columns of the file shown with the rows most worth labelling
_MOST_CLASSES = 20  # most classes with a threshold


class Predicted(NamedTuple):
    """Predictions for the rows of a table; NaN and -1 for rows with a missing feature.

    The uncertainty is the normalised entropy of the class probabilities, ``H(tau) / log K``: 0 if the class is certain, 1 if
    all classes are equally probable.
    """

    proba: Array  # (n, K)
    missing: Array  # (n,), P(label missing); NaN if the classifier has no mechanism
    code: NDArray[np.intp]  # (n,), the most probable class
    uncertainty: Array  # (n,)

    def columns(self, classes: Sequence[str], source: NDArray[Any] | None = None) -> dict[str, NDArray[Any]]:
        """The columns to add to a table, with where its labels are from."""
        return {
            f"{PREFIX}label": np.array([*classes, ""], dtype=object)[self.code],
            **({} if source is None else {f"{PREFIX}source": source}),
            **{f"{PREFIX}p_{name}": p for name, p in zip(classes, self.proba.T, strict=True)},
            f"{PREFIX}uncertainty": self.uncertainty,
            f"{PREFIX}missing_proba": self.missing,
        }


def predicted(classifier: Any, X: Array, complete: NDArray[np.bool_], step: Step = lambda *_: None) -> Predicted:
    """Predict the rows of a table, of which those that are complete have the features X."""
    n, K, places = len(complete), len(classifier.classes_), np.flatnonzero(complete)
    proba, missing, code = np.full((n, K), np.nan), np.full(n, np.nan), np.full(n, -1)
    for start in range(0, len(X), _BLOCK):
        step(start / len(X), "predicting")
        inside, block = places[start : start + _BLOCK], X[start : start + _BLOCK]
        proba[inside] = classifier.predict_proba(block)
        if (q := missing_proba(classifier, block)) is not None:
            missing[inside] = q
    code[complete] = proba[complete].argmax(axis=1)
    return Predicted(proba, missing, code, entr(proba).sum(axis=1) / np.log(K))


def given_codes(rows: Rows, proba: Array) -> NDArray[np.integer[Any]]:
    """Codes of the given labels, -1 where missing; of votes the most voted class, the most probable one of tied classes."""
    return rows.codes if rows.shares is None else most_voted(rows.shares, proba)


def with_labels(predictions: Predicted, rows: Rows) -> tuple[Predicted, NDArray[Any]]:
    """The predictions with the labels that are given in place of predicted ones, and where the label of each row is from."""
    given = given_codes(rows, predictions.proba)
    imputed = np.where(predictions.code >= 0, IMPUTED, "")
    source = np.where(given >= 0, GIVEN if rows.source is None else rows.source, imputed)
    return predictions._replace(code=np.where(given >= 0, given, predictions.code)), source


def sets_of(
    coverage: float, sample: Sample, held_out: Array | None, rows: Rows, predictions: Predicted
) -> tuple[NDArray[Any], SetFacts]:
    """The classes of each row as text, the most probable first, such that a share of the sets holds the true one.

    They are calibrated on a sample with held-out probabilities; a given label is its own set.
    """
    if held_out is None:
        raise ValueError("--sets needs at least two labelled rows of every class.")
    without = np.asarray(sample.labels < 0 if sample.labels.ndim == 1 else ~sample.labels.any(axis=1))
    missing, forest = flexible_missing_proba(sample.X, without)
    classes, codes = rows.classes.astype(str), given_codes(rows, predictions.proba)
    texts = np.array([*classes.tolist(), ""], dtype=object)[codes]
    unlabelled = codes[rows.complete] < 0
    places = np.flatnonzero(rows.complete)[unlabelled]
    proba = predictions.proba[places]
    q = np.minimum(forest.predict_proba(rows.X[unlabelled])[:, 1], 1.0 - 1.0 / len(missing))
    inside = conformal_sets(
        sample.labels, held_out, missing, proba, q, classes=np.arange(len(classes)), coverage=coverage
    )
    for place, order, members in zip(places, np.argsort(-proba, axis=1, kind="stable"), inside, strict=True):
        texts[place] = " | ".join(classes[order[members[order]]])
    sizes = inside.sum(axis=1)
    return texts, SetFacts(coverage, int(np.sum(sizes == 1)), float(sizes.mean()))


def thresholds(predictions: Predicted, rows: Rows, joint: JointTable, imputed: bool) -> list[Thresholds]:
    """Effects of a threshold, for the second class if there are two, otherwise for each of the most frequent classes.

    Classes whose precision or recall is too uncertain for a number are left out.
    """
    proba = predictions.proba[rows.complete]
    unlabelled = given_codes(rows, predictions.proba)[rows.complete] < 0
    above = [at_or_above(column, np.ones(len(column))).astype(int) for column in proba.T]
    half = np.array([counts[THRESHOLDS == 0.5][0] for counts in above])
    frequent = np.argsort(-half, kind="stable")[:_MOST_CLASSES]
    shown = [1] if len(above) == 2 else sorted(frequent.tolist())
    if imputed:
        precision, recall = joint.precision(), joint.recall()
        shown = [k for k in shown if precision[k].value is not None and recall[k].value is not None]
    results = []
    for k in shown:
        scores, column = joint.thresholds(k, "unlabelled" if imputed else "all"), proba[unlabelled, k]
        results.append(
            Thresholds(
                positive=str(rows.classes[k]),
                at=THRESHOLDS.tolist(),
                precision=_numbers(scores.precision),
                recall=_numbers(scores.recall),
                accuracy=_numbers(scores.accuracy),
                unlabelled_above=at_or_above(column, np.ones(len(column))).astype(int).tolist(),
                unlabelled=len(column),
                all_above=above[k].tolist(),
                all=len(proba),
            )
        )
    return results


def _numbers(values: Array) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def next_rows(data: Any, id: str | None, features: Sequence[str], predictions: Predicted, rows: Rows) -> RowTable:
    """The rows most worth labelling, the most uncertain first, with the id and the first features of an Arrow table."""
    unlabelled = np.flatnonzero(rows.complete & (given_codes(rows, predictions.proba) < 0))
    order = np.argsort(-predictions.uncertainty[unlabelled], kind="stable")[:NEXT_ROWS]
    places, rate = unlabelled[order], float(np.mean(rows.z < 0))
    columns, named = [*([] if id is None else [id]), *(name for name in features if name != id)], int(id is not None)
    columns, classes = columns[:_MOST_COLUMNS], rows.classes.astype(str).tolist()
    cells = [as_text(data.column(name).take(places)).to_pylist() for name in columns]
    proba, missing = predictions.proba[places], predictions.missing[places]
    answers: list[list[Any]] = [
        [classes[code] for code in predictions.code[places]],
        [why_uncertain(classes, p, q, rate) for p, q in zip(proba, missing, strict=True)],
        [f"{value:.3f}" for value in predictions.uncertainty[places]],
        [f"{value:.3f}" for value in missing],
    ]
    table = [(places + 1).tolist(), *cells[:named], *answers, *cells[named:]]
    names = ["row", *columns[:named], "imputed label", "why", "uncertainty", "P(missing)", *columns[named:]]
    lines = [list(line) for line in zip(*table, strict=True)]
    return RowTable(names, [_all_numbers(column) for column in table], lines, len(unlabelled), named + 1, named + 3)


def why_uncertain(classes: Sequence[str], proba: Array, missing: float, rate: float) -> str:
    """Why a row is worth labelling: the classes it may belong to, and whether its label is missing far more often than others.

    `missing` is P(label missing) of the row, `rate` that of all rows.
    """
    order = np.argsort(-proba, kind="stable")[:3]
    near = [k for k in order if proba[k] >= 0.5 * proba[order[0]]]
    names = [f"{_short(classes[k])!r} ({100.0 * proba[k]:.0f} %)" for k in (near if len(near) > 1 else order[:2])]
    words = f"{', '.join(names[:-1])} or {names[-1]}" if len(near) > 1 else f"{names[0]}, maybe {names[1]}"
    return f"{words}; rarely labelled" if 1.0 - missing < _RARELY * (1.0 - rate) else words


def _short(name: str) -> str:
    """The beginning and the end of a long name."""
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}\u2026{name[-_NAME // 2 :]}"


def _all_numbers(cells: Sequence[Any]) -> bool:
    """Whether all cells of a column are numbers or their text, so that it sorts numerically."""
    try:
        return all(np.isfinite(float(cell)) for cell in cells if str(cell).strip())
    except ValueError:
        return False
