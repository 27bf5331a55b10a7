"""The labels in a file: a column of them, a column for each annotator, or a column of shares for each class."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.app.reading import Table
from marmix.core.arrays import Array
from marmix.core.labels import (
    MISSING,
    MISSING_LABELS,
    MISSING_TEXTS,
    as_classes,
    missing_in_words,
    most_voted,
    vote_shares,
)
from marmix.tables.cells import NUMBER, TRUTHS, arrow, as_numbers, as_text, is_numeric, listed, plain, shown, trimmed

MOST_CLASSES = 100
_ALMOST_ALL, _FEW = 0.8, 10  # more distinct labels than this share and this number: identifiers or measurements
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as written by Python
_ROW_BY_ROW = "it looks like an identifier or a number, not a class. Choose the column of classes."


@dataclass(frozen=True)
class Labels:
    """The labels of all rows.

    Attributes
    ----------
    name : str
        The label column, or several with commas.
    columns : list of str
    where : str
        The columns in a message.
    codes : int array of shape (n,)
        Index of the class of each row, that of the most votes if there are several, -1 if its label is missing.
    classes : array of shape (K,)
        The classes named by the user, or the sorted labels, integers if all of them are written as such.
    shares : array of shape (n, K) or None
        Shares of the classes in the votes of each row; None if each has one label.
    marks : dict
        Texts that counted as missing labels, "" for empty cells, and how many cells have each.
    named : bool
        Whether the user named the classes.
    """

    name: str
    columns: list[str]
    where: str
    codes: NDArray[np.int32]
    classes: NDArray[Any]
    shares: Array | None
    marks: Mapping[str, int]
    named: bool

    def notes(self) -> list[str]:
        """A sentence that says which texts counted as missing labels, and how often; none if no label is missing."""
        unit = "row" if len(self.columns) == 1 else "cell"
        return [missing_in_words(self.marks, unit)] if any(self.marks.values()) else []

    def check(self) -> None:
        """Raise ValueError if a class has no label, there are fewer than two, or almost all labels are different."""
        given = (
            self.shares.any(axis=0) if self.shares is not None else np.isin(np.arange(len(self.classes)), self.codes)
        )
        texts, n_labels = self.classes.astype(str).tolist(), int(np.sum(self.codes >= 0))
        if not given.all():
            raise ValueError(
                f"{self.where} has no label {shown(texts[int(np.argmin(given))])}, which --classes names: remove it there, or "
                "label a row of it."
            )
        if len(texts) < 2:
            what = f"one class only, {shown(texts[0])}" if texts else "no label at all"
            raise ValueError(
                f"{self.where} has {what}: at least two classes must have labels. {' '.join([*self.notes(), ''])}If such a text "
                "is a class, name all classes with --classes; if the classes are in another column, choose it."
            )
        if not self.named and self.shares is None and len(texts) > max(_FEW, _ALMOST_ALL * n_labels):
            raise ValueError(
                f"{self.where} has {len(texts)} different labels in {n_labels} labelled rows ({listed(texts, 3)}): {_ROW_BY_ROW}"
            )


def labels_of(
    table: Table,
    label: str | None,
    votes: Sequence[str] | None = (),
    shares: Sequence[str] | None = (),
    missing: Iterable[str] = (),
    classes: Any = None,
) -> Labels:
    """The labels in a table: those of a column, of the columns of annotators, or of columns of shares.

    A label is the text of its cell without surrounding whitespace; whole numbers of a typed column are written without
    a point. Null, the texts of `marmix.core.labels.MISSING_LABELS` and those of `missing` are missing labels, except for
    texts that are named in `classes`. Raises ValueError for labels that are not among given `classes`.
    """
    if shares:
        return _of_shares(table, list(shares), missing, classes)
    names = list(votes or ([] if label is None else [label]))
    coder = Coder(f"label column {shown(names[0])}", missing, classes)
    parts = []
    for name in names:
        coder.where = f"vote column {shown(name)}" if votes else coder.where
        parts.append(coder.add(_cells(table, name)))
    where = f"the vote columns {listed(names)}" if votes else coder.where
    codes = coder.numbered(np.column_stack(parts))
    counts = None
    if votes:
        counts = np.stack([(codes == k).sum(axis=1) for k in range(len(coder.classes))], axis=1)
        counts = vote_shares(counts, coder.classes, fitted=True)[0]
    given = codes[:, 0] if counts is None else most_voted(counts).astype(np.int32)
    return Labels(", ".join(names), names, where, given, coder.classes, counts, coder.marks, classes is not None)


def _of_shares(table: Table, names: list[str], missing: Iterable[str], classes: Any) -> Labels:
    """Columns of counts or probabilities, named after the classes; blank or zero in all of them if the label is missing."""
    if len(names) < 2:
        raise ValueError("--shares needs a column for each class, at least two.")
    blank = [*MISSING_TEXTS, *(str(text).strip() for text in missing)]
    columns = [as_numbers(table.data[name], blank) for name in names]
    values = np.column_stack([numbers.values for numbers in columns])
    odd = np.column_stack([numbers.odd for numbers in columns]) | (values < 0.0)
    if odd.any():
        row, j = np.argwhere(odd)[0].tolist()
        cell = table.text(names[j], row, 1)[0].as_py()
        raise ValueError(
            f"column {shown(names[j])} of --shares holds {shown(cell)} in data row {row + 1}: write counts or probabilities. If "
            "columns hold the labels of annotators, use --votes."
        )
    gaps = np.isnan(values)
    partly = gaps.any(axis=1) & ~gaps.all(axis=1)
    if partly.any():
        raise ValueError(
            f"data row {int(np.argmax(partly)) + 1} has some of the columns of --shares blank but not all: write 0 for no votes, "
            "and leave all of them blank if the label is missing."
        )
    marks = Counter[str]()
    for name, numbers in zip(names, columns, strict=True):
        marks.update(trimmed(table.text(name).filter(arrow().array(numbers.missing))).to_pylist())
    own = _typed([name.strip() for name in names])
    known = np.array(own) if classes is None else as_classes(classes)
    texts = list(map(str, own))
    if sorted(texts) != sorted(map(str, known.tolist())):
        raise ValueError(f"--shares names {listed(texts)}, but the classes are {listed(known)}.")
    values = values[:, [texts.index(str(name)) for name in known.tolist()]]
    shares = vote_shares(values, known, fitted=classes is not None)[0]
    codes = most_voted(shares).astype(np.int32)
    return Labels(
        ", ".join(names), names, f"the columns {listed(names)}", codes, known, shares, marks, classes is not None
    )


def _cells(table: Table, name: str) -> Any:
    """A label column as it is in the file."""
    column = table.data[name]
    return table.text(name) if is_numeric(column.type) or name in table.verbatim else column


class Coder:
    """Encoder of labels that come in columns or parts of them; see `labels_of`.

    Attributes
    ----------
    marks : Counter
        Texts that counted as missing labels, "" for empty cells, and how many cells have each.
    """

    def __init__(self, where: str, missing: Iterable[str] = (), classes: Any = None, most: int = MOST_CLASSES):
        self.where, self._most = where, most
        self._known = None if classes is None else as_classes(classes)
        names = [] if self._known is None else self._known.tolist()
        self._numbers = {str(label): k for k, label in enumerate(names)}  # of the classes, or in order of appearance
        self._meanings = {_meaning(label): str(label) for label in names if not isinstance(label, str)}
        also = {str(text).strip() for text in missing}
        both = also & self._numbers.keys()
        if both:
            raise ValueError(
                f"--missing names {shown(min(both))}, which is among the classes {listed(self._numbers)}: leave it out there."
            )
        self._missing = {text for text in MISSING_LABELS if self._class_of(text) is None} | also
        self.marks = Counter[str]()

    def add(self, column: Any, start: int = 0) -> NDArray[np.int32]:
        """Codes of labels in order of first appearance, -1 where missing; `start` rows come before them."""
        if arrow().types.is_nested(column.type):
            raise ValueError(f"{self.where} holds {column.type}: labels are text or whole numbers.")
        encoded = plain(column).dictionary_encode()
        places = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.intp)
        nulls, *counts = np.bincount(places + 1, minlength=len(encoded.dictionary) + 1).tolist()
        self.marks[""] += nulls
        codes = []
        for i, (cell, count) in enumerate(zip(as_text(encoded.dictionary).to_pylist(), counts, strict=True)):
            text = cell.strip()
            label = self._class_of(text)
            if label is None and text in self._missing:
                self.marks[text] += count
                codes.append(MISSING)
                continue
            if label is None and self._known is not None:
                raise ValueError(
                    f"{self.where} holds {shown(text)} in data row {start + int(np.argmax(places == i)) + 1}, which is not among "
                    f"the classes {listed(self._numbers)}: correct it, or give --missing {shown(text)} if it means a missing "
                    "label."
                )
            codes.append(self._numbers.setdefault(label or text, len(self._numbers)))
        if len(self._numbers) > self._most and self._known is None:
            some = listed(self._numbers, 3)
            raise ValueError(f"{self.where} has more than {self._most:,} different labels ({some}): {_ROW_BY_ROW}")
        self.marks = +self.marks
        return np.array([*codes, MISSING], dtype=np.int32)[places]

    def _class_of(self, text: str) -> str | None:
        """The class that a text is known to mean, as text; None if there is none."""
        return text if text in self._numbers else self._meanings.get(_meaning(text))

    @property
    def classes(self) -> NDArray[Any]:
        """The classes: those given, or the sorted labels so far."""
        return np.array(sorted(_typed(list(self._numbers)))) if self._known is None else self._known

    def numbered(self, codes: NDArray[np.integer]) -> NDArray[np.int32]:
        """Indices in `classes` for codes from `add`, once all labels are added."""
        place = {str(name): k for k, name in enumerate(self.classes.tolist())}
        return np.array([*(place[text] for text in self._numbers), MISSING], np.int32)[codes]


def named_classes(texts: Sequence[str], missing: Iterable[str] = ()) -> list[Any] | None:
    """Classes as the user names them in a command: integers if all are written as such; None if there are none."""
    names = [text.strip() for text in texts]
    both = {text.strip() for text in missing} & set(names)
    if both:
        raise ValueError(f"--classes and --missing both name {shown(min(both))}: is it a class, or a missing label?")
    if len(names) == 1 or "" in names or len(set(names)) < len(names):
        raise ValueError("--classes needs the names of all classes, at least two, each once.")
    return _typed(names) or None


def _typed(names: list[str]) -> list[Any]:
    """The names as integers if all are written as such."""
    return list(map(int, names)) if all(map(_INTEGER.fullmatch, names)) else names


def _meaning(label: Any) -> Any:
    """A key that is equal for texts, numbers and truth values that mean the same class; text means itself."""
    if isinstance(label, bool | np.bool_):
        return Decimal(int(label))
    text = str(label).strip()
    if isinstance(label, str) and text.casefold() in TRUTHS:
        return Decimal(TRUTHS.index(text.casefold()))
    return Decimal(text) if NUMBER.fullmatch(text) else text
