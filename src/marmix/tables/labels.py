"""The column of labels of a table, a batch at a time."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.labels import DOUBTFUL_TEXTS, MISSING, MISSING_FIELDS, MISSING_LABELS, Labels
from marmix.tables.cells import NUMBER, WHOLE, arrow, as_text, listed, plain, shown

MOST_CLASSES = 100
MOST_CONVERTED = 100_000  # classes of `to_memmap`
_ALMOST_ALL = 0.8  # of the labels distinct, and more than _FEW of them: names of rows, or measurements
_FEW = 10
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as Python writes it
_ROW_BY_ROW = "looks like an identifier or a number, not a class. Name the column of classes with --label."


def _distinct(column: Any) -> tuple[Any, NDArray[np.intp]]:
    """Return the distinct values of a column that are not null, and the place of each row's value, -1 where it is null."""
    encoded = plain(column).dictionary_encode()
    return encoded.dictionary, encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.intp)


class LabelColumn(Labels):
    """Labels of a data file as they come, batch by batch; then classes, and the number of each row's class.

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
    >>> _ = labels.add(pa.array(["2", " 10", "NA"]))
    >>> _ = labels.add(pa.array(["", "2"]))
    >>> labels.classes, labels.codes, labels.n_missing
    (array([ 2, 10]), array([ 0,  1, -1, -1,  0], dtype=int32), 2)
    """

    def __init__(self, name: str, missing: Iterable[str] = (), classes: Sequence[Any] | NDArray[Any] | None = None):
        super().__init__(f"label column {shown(name)}", classes, most=MOST_CLASSES)
        self.name = name
        self.markers = {*MISSING_LABELS, *(str(text).strip() for text in missing)}
        self._numbers = {str(label): k for label, k in self._numbers.items()}
        self._parts: list[NDArray[np.integer]] = []
        self._marks: Counter[str] = Counter()

    def add(self, column: Any) -> NDArray[np.integer]:
        """Take the labels of the next rows, an Arrow array."""
        if arrow().types.is_nested(column.type):
            raise ValueError(f"{self.where} holds {column.type}: labels are text or whole numbers.")
        values, places = _distinct(column)
        nulls = int(np.count_nonzero(places == MISSING))
        if nulls:
            self._marks[""] += nulls
        self._parts.append(self.add_distinct([text.strip() for text in as_text(values).to_pylist()], places))
        return self._parts[-1]

    def read(self, value: str, count: int, first: Callable[[], int]) -> str | None:
        if value in self.markers:
            self._marks[value] += count
            return None
        if "\0" in value:
            raise ValueError(
                f"{self.where} holds {shown(value)} in data row {first() + 1}, which has a NUL character: labels are plain text "
                "or whole numbers."
            )
        return value

    def stranger(self, label: str, first: Callable[[], int]) -> str:
        return (
            f"{self.where} holds {shown(label)} in data row {first() + 1}, which is not among the classes {listed(self.classes)} "
            f"of the model. Correct it, or give --missing {shown(label)} if it means a missing label."
        )

    def too_many(self) -> str:
        some = listed(self._numbers, 3)
        return f"{self.where} has more than {self.most} different labels ({some}): it {_ROW_BY_ROW}"

    def names(self) -> list[Any]:
        """The labels found, in the order in which they came: integers if every one is written as such, else text."""
        texts = list(self._numbers)
        return list(map(int, texts)) if all(map(_INTEGER.fullmatch, texts)) else texts

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
        texts, given = list(self._numbers), self.rows - self.n_missing
        if len(texts) < 2:
            what = f"one class only, {shown(texts[0])}" if texts else "no label at all"
            markers = "Cells that are empty, NA, ? or -1 count as missing labels. " if self.n_missing else ""
            raise ValueError(
                f"{self.where} has {what}: at least two classes must have labels. {markers}"
                "If the classes are in another column, name it with --label."
            )
        if len(texts) > max(_FEW, _ALMOST_ALL * given):
            raise ValueError(
                f"{self.where} has {len(texts)} different labels in {given} labelled rows ({listed(texts, 3)}): it {_ROW_BY_ROW}"
            )
        return super().classes

    @property
    def codes(self) -> NDArray[np.int32]:
        """For each row the place of its class among `classes`, -1 where the label is missing."""
        _ = self.classes
        self._parts = [np.concatenate([*self._parts, np.empty(0, np.int8)])]
        return self.numbered(self._parts[0], np.int32).astype(np.int32, copy=False)

    def notes(self) -> list[str]:
        """What was taken for a class or for a missing label, where somebody may have meant it otherwise."""
        notes = []
        if len(self._marks) > 1:
            parts = ", ".join(
                f"{shown(text) if text else 'empty'} ({count:,})" for text, count in sorted(self._marks.items())
            )
            notes.append(f"Missing labels are written in several ways: {parts}. All count as missing.")
        alike: dict[Any, list[str]] = {}
        for text in sorted(self._numbers):
            alike.setdefault(_meaning(text), []).append(text)
            if " ".join(text.split()).casefold() in DOUBTFUL_TEXTS:
                notes.append(
                    f"The label {shown(text)} counts as a class: give --missing={shown(text)} if it means no label."
                )
        for texts in alike.values():
            if len(texts) > 1:
                notes.append(
                    f"The labels {listed(sorted(texts))} count as different classes: correct them if they are not."
                )
        return notes


def _meaning(text: str) -> Any:
    """What people may read: the same for labels that differ by case, by blanks, or in how a number is written."""
    try:
        return float(text)
    except ValueError:
        return " ".join(text.split()).casefold()


class ConvertedLabels(Labels):
    """The labels of `to_memmap`: integers, strings or booleans, of the type that the table has, or that all its texts look like.

    Parameters
    ----------
    name : str
        Of the column.
    source : str
        Name of the table, for messages.
    text : bool
        Whether the table is a text file, which has no types.
    """

    text_advice = "write missing labels as null"

    def __init__(self, name: str, source: str, text: bool):
        super().__init__(f"{source}: the label {name!r}", most=MOST_CONVERTED)
        self.name, self.text = name, text

    def add(self, column: Any) -> NDArray[np.integer]:
        """Numbers of the labels of the next rows, an Arrow array, in the order in which labels came."""
        if arrow().types.is_nested(column.type):
            raise ValueError(f"{self.where} holds {column.type}: labels are integers, strings or booleans.")
        values, places = _distinct(column)
        return self.add_distinct(values.to_pylist(), places)

    def read(self, value: Any, count: int, first: Callable[[], int]) -> Any:
        if self.text:
            return None if value in MISSING_FIELDS else value
        if isinstance(value, float) and value.is_integer():  # an integer that stood beside NaN
            value = int(value)
        label = super().read(value, count, first)
        if label is not None and not isinstance(label, int | str):
            raise ValueError(f"{self.where} holds {label!r}: labels are integers, strings or booleans.")
        return label

    def names(self) -> list[Any]:
        """The labels found, in the order in which they came; those of a text file as the type that all of them look like."""
        names = super().names()
        if not self.text:
            return names
        if names and all(map(NUMBER.fullmatch, names)):
            whole = [WHOLE.fullmatch(name) for name in names]
            if not all(whole):
                raise ValueError(
                    f"{self.where} holds {names[whole.index(None)]}: labels are whole numbers, or strings."
                )
            numbers = [int(match[1]) for match in whole if match]
            return [None if number == MISSING else number for number in numbers]
        if {name.lower() for name in names} <= {"true", "false"}:
            return [name.lower() == "true" for name in names]
        return [None if name == str(MISSING) else name for name in names]
