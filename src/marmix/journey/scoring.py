"""Predictions for the rows of a file, batch by batch, and a tally of them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from marmix.app.findings import RowTable
from marmix.core.arrays import Array
from marmix.core.files import release
from marmix.core.labels import most_voted
from marmix.evaluation.conformal import conformal_sets
from marmix.evaluation.forests import flexible_missing_proba
from marmix.evaluation.joint import THRESHOLDS, at_or_above
from marmix.journey.progress import Step
from marmix.journey.rows import FileRows
from marmix.plotting.fits import missing_proba
from marmix.tables.cells import pointed_text

GIVEN, IMPUTED = "given", "imputed"
NEXT_ROWS = 500  # listed rows most worth labelling
_NAME, _RARELY = (
    24,
    0.5,
)  # characters of a class in a reason; chance of a label, in averages, below which it is called rare
_MOST_COLUMNS = 6  # columns of the file shown with them


def missing_proba_of(classifier: Any, X: Array) -> Array:
    """P(label missing) of rows; NaN if the classifier has no mechanism."""
    q = missing_proba(classifier, X)
    return np.full(len(X), np.nan) if q is None else q


class ScoredBatch(NamedTuple):
    """A batch of rows with predictions; NaN for rows with a missing feature.

    The uncertainty is the normalised entropy of the class probabilities, ``H(tau) / log K``: 0 if the class is certain, 1 if
    all classes are equally probable.
    """

    batch: Any
    start: int  # position of its first row in the file
    complete: NDArray[np.bool_]  # rows without missing features
    proba: Array
    missing: Array
    code: NDArray[np.intp]  # the most probable class, -1 where incomplete
    probability: Array  # of that class
    uncertainty: Array
    X: Array  # features of the complete rows

    @classmethod
    def of(cls, batch: Any, start: int, complete: NDArray[np.bool_], X: Array, classifier: Any) -> "ScoredBatch":
        """Predict the rows of a batch; `X` holds the features of the complete rows."""
        n = len(complete)
        K = len(classifier.classes_)
        proba, missing, code = np.full((n, K), np.nan), np.full(n, np.nan), np.full(n, -1)
        if len(X):
            proba[complete], missing[complete] = classifier.predict_proba(X), missing_proba_of(classifier, X)
            code[complete] = proba[complete].argmax(axis=1)
        uncertainty = entr(proba).sum(axis=1) / np.log(K)
        return cls(batch, start, complete, proba, missing, code, proba.max(axis=1), uncertainty, X)

    def given(self, rows: FileRows) -> NDArray[np.integer[Any]]:
        """Codes of the given labels, -1 where missing; of votes the most voted class, the most probable one of tied classes."""
        part = slice(self.start, self.start + len(self.complete))
        return rows.codes[part] if rows.shares is None else most_voted(rows.shares[part], self.proba)

    def added(self, classes: NDArray[Any], codes: NDArray[np.integer[Any]] | None = None) -> list[NDArray[Any]]:
        """The columns to add to the file; given labels (`codes`) replace predicted ones."""
        code = self.code if codes is None else np.where(codes >= 0, codes, self.code)
        label = np.array([*classes.tolist(), ""], dtype=object)[code]
        source = [] if codes is None else [np.where(codes >= 0, GIVEN, np.where(self.complete, IMPUTED, ""))]
        return [label, *source, *self.proba.T, self.uncertainty, self.missing]


class Sets(NamedTuple):
    """Conformal sets for the rows without a label, calibrated on the rows of the comparison."""

    coverage: float
    labels: NDArray[Any]  # of the rows of the comparison, or shares of votes
    proba: Array  # their held-out probabilities
    missing: Array  # their P(label missing), from a random forest
    forest: Any
    sizes: list[int]  # classes in each set so far

    @classmethod
    def of(cls, coverage: float, X: Array, labels: NDArray[Any], proba: Array | None) -> "Sets":
        """Calibrate sets on rows X with held-out probabilities."""
        if proba is None:
            raise ValueError("--sets needs at least two labelled rows of every class.")
        missing = np.asarray(labels < 0 if labels.ndim == 1 else ~labels.any(axis=1))
        return cls(coverage, labels, proba, *flexible_missing_proba(X, missing), [])

    def column(self, rows: ScoredBatch, classes: NDArray[Any], codes: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """The set of each row as text, the most probable class first; the given label if there is one."""
        texts = np.array([*classes.tolist(), ""], dtype=object)[codes]
        unlabelled = codes[rows.complete] < 0
        places = np.flatnonzero(rows.complete)[unlabelled]
        if not len(places):
            return texts
        proba = rows.proba[places]
        q = np.minimum(self.forest.predict_proba(rows.X[unlabelled])[:, 1], 1.0 - 1.0 / len(self.missing))
        numbers = np.arange(len(classes))
        sets = conformal_sets(self.labels, self.proba, self.missing, proba, q, classes=numbers, coverage=self.coverage)
        for place, p, inside in zip(places, proba, sets, strict=True):
            members = [k for k in np.argsort(-p, kind="stable") if inside[k]]
            texts[place] = " | ".join(classes[members])
            self.sizes.append(len(members))
        return texts


def scored_batches(source: Any, rows: FileRows, X: Any, classifier: Any, step: Step) -> Iterator[ScoredBatch]:
    """Predict every row of a file; X holds the features of the complete rows."""
    start = kept = 0
    for batch in source.batches(step=step):
        complete = rows.complete[start : start + batch.num_rows]
        block = np.asarray(X[kept : kept + int(complete.sum())], dtype=float)
        yield ScoredBatch.of(batch, start, complete, block, classifier)
        release(X)
        start, kept = start + batch.num_rows, kept + len(block)


def added_names(prefix: str, classes: NDArray[Any], *, source: bool, sets: bool = False) -> list[str]:
    """Names of the added columns."""
    first = ["label", "source"] if source else ["label"]
    last = ["uncertainty", "missing_proba", *(["set"] if sets else [])]
    return [f"{prefix}{name}" for name in (*first, *(f"p_{name}" for name in classes), *last)]


class Tally:
    """Counts of the predictions, batch by batch.

    Parameters
    ----------
    classes : array
    sample : array of int
        Ascending positions, among the complete rows, of rows whose probabilities are kept.
    id : str or None
        Column that identifies the rows.
    features : list of str
        Columns of the file; the first few are shown with the rows most worth labelling.
    rate : float
        Share of the rows whose label is missing.

    Attributes
    ----------
    imputed : array of shape (K,)
        Imputed labels of each class.
    at_least_90 : int
        How many imputed labels have a probability of at least 0.90.
    unlabelled_above, all_above : integer arrays of shape (K, 101)
        Rows without a label, and all rows, whose probability of a class is at or above each threshold.
    proba, missing : arrays
        Probabilities of the sample, and its P(label missing).
    """

    def __init__(
        self, classes: NDArray[Any], sample: NDArray[np.intp], id: str | None, features: list[str], rate: float
    ):
        K, self._rate = len(classes), rate
        self._classes, self._sample, self._n_complete = classes.astype(str).tolist(), sample, 0
        self.imputed = np.zeros(K, np.int64)
        self.at_least_90 = 0
        self.unlabelled_above, self.all_above = (np.zeros((K, len(THRESHOLDS)), np.int64) for _ in range(2))
        self.proba, self.missing = np.full((len(sample), K), np.nan), np.full(len(sample), np.nan)
        columns = ([] if id is None else [id]) + [name for name in features if name != id]
        self._columns, self._named = columns[:_MOST_COLUMNS], int(id is not None)
        self._next: list[tuple[float, int, list[Any]]] = []  # minus the uncertainty, place, cells

    def add(self, rows: ScoredBatch, codes: NDArray[np.integer[Any]]) -> None:
        """Add a batch; `codes` are its given labels."""
        unlabelled = rows.complete & (codes < 0)
        p = rows.probability[unlabelled]
        self.imputed += np.bincount(rows.code[unlabelled], minlength=len(self.imputed))
        self.at_least_90 += int(np.sum(p >= 0.90))
        for counts, members in ((self.unlabelled_above, unlabelled), (self.all_above, rows.complete)):
            for k in range(len(counts)):
                column = rows.proba[members, k]
                counts[k] += at_or_above(column, np.ones(len(column))).astype(np.int64)
        first, self._n_complete = self._n_complete, self._n_complete + int(rows.complete.sum())
        inside = slice(*np.searchsorted(self._sample, [first, self._n_complete]))
        places = self._sample[inside] - first
        self.proba[inside], self.missing[inside] = (
            rows.proba[rows.complete][places],
            rows.missing[rows.complete][places],
        )
        self._add_next(rows, np.flatnonzero(unlabelled))

    def _add_next(self, rows: ScoredBatch, unlabelled: NDArray[np.intp]) -> None:
        """Keep the most uncertain rows so far."""
        uncertainty = rows.uncertainty[unlabelled]
        order = np.argsort(-uncertainty, kind="stable")[:NEXT_ROWS]
        least = -self._next[-1][0] if len(self._next) == NEXT_ROWS else -1.0
        for i in order[uncertainty[order] > least]:
            place = int(unlabelled[i])
            cells = [pointed_text(rows.batch.column(name).slice(place, 1))[0].as_py() for name in self._columns]
            numbers = rows.uncertainty[place], rows.missing[place]
            row = [
                rows.start + place + 1,
                *cells[: self._named],
                self._classes[rows.code[place]],
                why_uncertain(self._classes, rows.proba[place], rows.missing[place], self._rate),
                *(f"{number:.3f}" for number in numbers),
                *cells[self._named :],
            ]
            self._next.append((-float(uncertainty[i]), rows.start + place, row))
        self._next = sorted(self._next, key=lambda entry: entry[:2])[:NEXT_ROWS]

    def next_rows(self) -> RowTable:
        """The rows most worth labelling, the most uncertain first."""
        rows = [row for _, _, row in self._next]
        answers = ["imputed label", "why", "uncertainty", "P(missing)"]
        columns = ["row", *self._columns[: self._named], *answers, *self._columns[self._named :]]
        numeric = [_all_numbers([row[j] for row in rows]) for j in range(len(columns))]
        total = int(self.imputed.sum())
        return RowTable(columns, numeric, rows, total, label=self._named + 1, uncertainty=self._named + 3)


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


def _all_numbers(cells: list[Any]) -> bool:
    """Whether all cells of a column are numbers or their text, so that it sorts numerically."""
    try:
        return all(np.isfinite(float(cell)) for cell in cells if str(cell).strip())
    except ValueError:
        return False
