"""Predictions for the rows of a table: columns to add, and conformal sets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from marmix.app.findings import SetFacts
from marmix.app.models import Sample, Step
from marmix.app.survey import GIVEN, IMPUTED, PREFIX, Rows
from marmix.core.arrays import Array
from marmix.core.labels import most_voted
from marmix.evaluation.conformal import conformal_sets
from marmix.evaluation.forests import flexible_missing_proba
from marmix.plotting.fits import missing_proba

_BLOCK = 65_536  # rows predicted together


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
    source = np.array(["", IMPUTED], dtype=object)[(predictions.code >= 0).astype(int)]
    source[given >= 0] = GIVEN if rows.source is None else rows.source[given >= 0]
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
