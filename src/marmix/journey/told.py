"""The rows of a file, batch by batch, with what a model says of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.journey.answers import Answers, answers, missing_proba_of
from marmix.journey.progress import Step
from marmix.report.contents import RowTable
from marmix.streams import release
from marmix.tables.cells import as_text
from marmix.tables.reading import DataFile

GIVEN, IMPUTED = "given", "imputed"
_MOST_COLUMNS = 6  # columns of the file that the table of the report shows


class Told(NamedTuple):
    """A batch of rows, and the answers for those that have all features; NaN for the others."""

    batch: Any
    start: int
    whole: NDArray[np.bool_]
    proba: Array
    found: Answers

    def added(self, texts: NDArray[Any], codes: NDArray[np.integer[Any]] | None = None) -> list[NDArray[Any]]:
        """The columns that are added to the file; `codes` are those of given labels, None writes predictions for all rows."""
        predicted = np.where(self.whole, self.found.code, -1)
        code = predicted if codes is None else np.where(codes >= 0, codes, predicted)
        label = np.array([*texts.tolist(), ""], dtype=object)[code]
        source = [] if codes is None else [np.where(codes >= 0, GIVEN, np.where(self.whole, IMPUTED, ""))]
        return [label, *source, *self.proba.T, self.found.uncertainty, self.found.missing]


def told(batch: Any, start: int, whole: NDArray[np.bool_], block: Array, classifier: Any) -> Told:
    """The answers of a classifier for the rows of a batch; `block` has the features of those that have all of them."""
    n, K = len(whole), len(classifier.classes_)
    proba, found = np.full((n, K), np.nan), Answers.none(n)
    if len(block):
        proba[whole] = classifier.predict_proba(block)
        found.put(whole, answers(proba[whole], missing_proba_of(classifier, block)))
    return Told(batch, start, whole, proba, found)


def all_told(source: DataFile, complete: NDArray[np.bool_], X: Any, classifier: Any, step: Step) -> Iterator[Told]:
    """Every row of the file that X, the features of the complete rows, was read from."""
    seen = kept = 0
    for batch in source.batches(step=step):
        whole = complete[seen : seen + batch.num_rows]
        block = np.asarray(X[kept : kept + int(whole.sum())], dtype=float)
        yield told(batch, seen, whole, block, classifier)
        release(X)
        seen, kept = seen + batch.num_rows, kept + len(block)


def added_names(prefix: str, classes: NDArray[Any], *, source: bool) -> list[str]:
    """Names of the columns that are added."""
    first = ["label", "source"] if source else ["label"]
    return [f"{prefix}{name}" for name in (*first, *(f"p_{name}" for name in classes), "uncertainty", "missing_proba")]


class NextRows:
    """The rows most worth labelling, gathered as they pass by.

    Parameters
    ----------
    places : array
        Their places in the file, in the order of the table.
    id : str or None
        Column that names rows.
    features : list of str
        Columns of the file to show; the first few are.
    texts : array of str
        The classes.
    """

    def __init__(self, places: NDArray[np.intp], id: str | None, features: list[str], texts: NDArray[Any]):
        self.places, self.texts = places, texts.tolist()
        self.shown = ([] if id is None else [id]) + [name for name in features if name != id]
        self.shown, self.named = self.shown[:_MOST_COLUMNS], int(id is not None)
        self._found: dict[int, list[Any]] = {}

    def take(self, rows: Told) -> None:
        """Gather those that are in a batch."""
        inside = (self.places >= rows.start) & (self.places < rows.start + rows.batch.num_rows)
        for place in self.places[inside].tolist():
            i = place - rows.start
            cells = [as_text(rows.batch.column(name).slice(i, 1))[0].as_py() for name in self.shown]
            numbers = [f"{float(column[i]):.3f}" for column in rows.found[1:]]
            self._found[place] = [
                place + 1,
                *cells[: self.named],
                self.texts[rows.found.code[i]],
                *numbers,
                *cells[self.named :],
            ]

    def table(self, of: int) -> RowTable:
        """The table, of that many rows without label."""
        rows = [self._found[place] for place in self.places.tolist()]
        answers = ["imputed label", "probability", "uncertainty", "P(missing)"]
        columns = ["row", *self.shown[: self.named], *answers, *self.shown[self.named :]]
        numeric = [_all_numbers([row[j] for row in rows]) for j in range(len(columns))]
        return RowTable(columns, numeric, rows, of, label=self.named + 1, uncertainty=self.named + 3)


def _all_numbers(cells: list[Any]) -> bool:
    """Whether a column holds numbers only, as such or as text, and can be sorted by them."""
    try:
        return all(np.isfinite(float(cell)) for cell in cells if str(cell).strip())
    except ValueError:
        return False
