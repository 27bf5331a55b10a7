"""The column of labels, some of them missing, as classes and their numbers, a batch at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.batches import arrow
from marmix.tables.cells import MISSING_CELLS, as_text, listed, plain, shown

MISSING_LABELS = (*MISSING_CELLS, "-1", "-1.0")
MOST_CLASSES = 100
_ALMOST_ALL = 0.8  # of the labels distinct, and more than _FEW of them: names of rows, or measurements
_FEW = 10
_MISSING = -1
_SUSPECT = (
    *(
        "na",
        "n/a",
        "#n/a",
        "nan",
        "null",
        "nil",
        "none",
        "<na>",
        "nat",
        "missing",
        "unknown",
        "undefined",
        "unlabelled",
    ),
    *(
        "unlabeled",
        "no label",
        "not labelled",
        "not labeled",
        "-",
        "--",
        ".",
        "??",
        "???",
        "-9",
        "-99",
        "-999",
        "-9999",
    ),
)  # texts that may mean a missing label, and are not taken so unasked
_ROW_BY_ROW = "looks like an identifier or a number, not a class. Name the column of classes with --label."


class LabelColumn:
    """Labels as they come, batch by batch; then classes, and the number of each row's class.

    A label is the text of its cell without blanks around it; a whole number of a typed column is written without a point.
    It is missing where the cell is null, NaN or blank, or holds NA, N/A, #N/A, NaN, nan, null, NULL, None, <NA>, NaT, ?,
    -1 or -1.0, or a text of `missing`.

    Parameters
    ----------
    name : str
        Of the column, for messages.
    missing : iterable of str, default=()
        Further texts that mean a missing label.
    classes : sequence or None, default=None
        The classes of a model, if labels are for it: others are refused then.

    Attributes
    ----------
    rows : int
        So far.
    n_missing : int
        Of these, those whose label is missing. It may be 0, which is for the caller to judge.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from marmix.tables import LabelColumn
    >>> labels = LabelColumn("stage")
    >>> labels.add(pa.array(["2", " 10", "NA"]))
    >>> labels.add(pa.array(["", "2"]))
    >>> labels.classes, labels.codes, labels.n_missing
    (array([ 2, 10]), array([ 0,  1, -1, -1,  0], dtype=int32), 2)
    """

    def __init__(self, name: str, missing: Iterable[str] = (), classes: Sequence[Any] | NDArray[Any] | None = None):
        self.name = name
        self.markers = {*MISSING_LABELS, *(str(text).strip() for text in missing)}
        self.known = None if classes is None else np.asarray(classes)
        self.rows = self.n_missing = 0
        self._numbers = {} if self.known is None else {str(text): k for k, text in enumerate(self.known)}
        self._parts: list[NDArray[np.int32]] = []
        self._marks: Counter[str] = Counter()

    def add(self, column: Any) -> None:
        """Take the labels of the next rows, an Arrow array."""
        pa = arrow()
        if pa.types.is_nested(column.type):
            raise ValueError(f"label column {shown(self.name)} holds {column.type}: labels are text or whole numbers.")
        encoded = plain(column).dictionary_encode()
        texts = [text.strip() for text in as_text(encoded.dictionary).to_pylist()]
        indices = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        numbers = np.full(len(texts) + 1, _MISSING, np.int32)
        for i, text in enumerate(texts):
            if text not in self.markers:
                numbers[i] = self._number(text, i, indices)
        codes = numbers[indices]
        counts = np.bincount(indices, minlength=len(numbers)).tolist()
        for text, count, number in zip([*texts, ""], counts, numbers.tolist(), strict=True):
            if number == _MISSING and count:
                self._marks[text] += count
        self.rows += len(codes)
        self.n_missing += int((codes == _MISSING).sum())
        self._parts.append(codes)

    def _number(self, text: str, i: int, indices: NDArray[Any]) -> int:
        row = self.rows + int(np.argmax(indices == i)) + 1
        where = f"label column {shown(self.name)} holds {shown(text)} in data row {row}"
        if "\0" in text:
            raise ValueError(f"{where}, which has a NUL character: labels are plain text or whole numbers.")
        if self.known is not None and text not in self._numbers:
            raise ValueError(
                f"{where}, which is not a class of the model: its classes are {listed(self.known)}. Correct it, or give "
                f"--missing {shown(text)} if it means a missing label."
            )
        number = self._numbers.setdefault(text, len(self._numbers))
        if number == MOST_CLASSES and self.known is None:
            some = listed(self._numbers, 3)
            raise ValueError(
                f"label column {shown(self.name)} has more than {MOST_CLASSES} different labels ({some}): it {_ROW_BY_ROW}"
            )
        return number

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, sorted; integers if every label is written as one, else text.

        Raises
        ------
        ValueError
            If there are fewer than two, or almost as many as labels.
        """
        if self.known is not None:
            return self.known
        found = list(self._numbers)
        if len(found) < 2:
            what = f"one class only, {shown(found[0])}" if found else "no label at all"
            raise ValueError(
                f"label column {shown(self.name)} has {what}: two classes need labels. {self._marked()}"
                "If the classes are in another column, name it with --label."
            )
        given = self.rows - self.n_missing
        if len(found) > max(_FEW, _ALMOST_ALL * given):
            raise ValueError(
                f"label column {shown(self.name)} has {len(found)} different labels in {given} labelled rows "
                f"({listed(found, 3)}): it {_ROW_BY_ROW}"
            )
        if all(map(_is_plain_integer, found)):
            return np.array(sorted(map(int, found)), np.int64)
        return np.array(sorted(found))

    def notes(self) -> list[str]:
        """What was taken for a class or for a missing label, where somebody may have meant it otherwise."""
        found = []
        if len(self._marks) > 1:
            parts = ", ".join(
                f"{shown(text) if text else 'empty'} ({count:,})" for text, count in sorted(self._marks.items())
            )
            found.append(f"Missing labels are written in several ways: {parts}. All count as missing.")
        alike: dict[Any, list[str]] = {}
        for text in sorted(self._numbers):
            alike.setdefault(_meaning(text), []).append(text)
            if " ".join(text.split()).casefold() in _SUSPECT:
                found.append(
                    f"The label {shown(text)} counts as a class: give --missing={shown(text)} if it means no label."
                )
        for texts in alike.values():
            if len(texts) > 1:
                found.append(
                    f"The labels {listed(sorted(texts))} count as different classes: correct them if they are not."
                )
        return found

    def _marked(self) -> str:
        """That -1 does not count, where somebody may think it does."""
        return "Cells that are empty, NA, ? or -1 count as missing labels. " if self.n_missing else ""

    @property
    def codes(self) -> NDArray[np.int32]:
        """For each row the place of its class among `classes`, -1 where the label is missing."""
        codes = np.concatenate(self._parts) if self._parts else np.empty(0, np.int32)
        self._parts = [codes]
        if self.known is not None:
            return codes.copy()
        place = {str(label): k for k, label in enumerate(self.classes)}
        return np.array([*(place[text] for text in self._numbers), _MISSING], np.int32)[codes]


def _meaning(text: str) -> Any:
    """What people may read: the same for labels that differ by case, by blanks, or in how a number is written."""
    try:
        return float(text)
    except ValueError:
        return " ".join(text.split()).casefold()


def _is_plain_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(text)) == text
