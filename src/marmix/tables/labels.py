"""Label columns of tables, read in batches."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from marmix.tables.cells import NUMBER, TRUTHS, arrow, as_numbers, as_text, listed, plain, shown, trimmed

MOST_CLASSES = 100
_ALMOST_ALL, _FEW = 0.8, 10  # more distinct labels than this share and this number: identifiers or measurements
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as written by Python
_ROW_BY_ROW = "it looks like an identifier or a number, not a class. Choose the column of classes."


class LabelColumn:
    """Encoder of the label column of a data file that is read in batches.

    A label is the text of its cell without surrounding whitespace; whole numbers of a typed column are written without
    a point. Null, the texts of `marmix.core.labels.MISSING_LABELS` (blank, NA, N/A, nan, null, None, ?, -1 and so on)
    and those of `missing` are missing labels, except for texts that are named in `classes`.

    Parameters
    ----------
    name : str
        Name of the column.
    missing : iterable of str, default=()
        Further texts that mean a missing label.
    classes : sequence or None, default=None
        The classes; other labels are an error. A text matches a number or truth value of the same meaning: "1.0"
        matches 1, and "true" matches True.
    most : int, default=100
        Maximum number of classes.

    Attributes
    ----------
    rows : int
        Number of rows so far.
    counts : Counter
        Number of rows of each label so far.
    marks : Counter
        Texts that counted as missing labels, "" for empty cells, and how many rows have each.

    See Also
    --------
    open_table : Read the file.
    Preparation.fit_batches : Reads features and labels together.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from marmix.tables import LabelColumn
    >>> labels = LabelColumn("stage")
    >>> _ = labels.add(pa.array(["2", " 10", "NA"]))
    >>> _ = labels.add(pa.array(["", "2"]))
    >>> labels.classes, labels.codes, labels.n_missing
    (array([ 2, 10]), array([ 0,  1, -1, -1,  0], dtype=int32), 2)

    If "NA" is a class, name all classes:

    >>> labels = LabelColumn("element", classes=["K", "NA"])
    >>> _ = labels.add(pa.array(["NA", "K", ""]))
    >>> labels.codes.tolist()
    [1, 0, -1]
    """

    unit = "row"  # what has a label
    shares: Array | None = None  # of the classes in the votes of each row; None if each has one label

    def __init__(
        self,
        name: str,
        missing: Iterable[str] = (),
        classes: Sequence[Any] | NDArray[Any] | None = None,
        *,
        most: int = MOST_CLASSES,
    ):
        self.name, self.columns, self.where = name, [name], f"label column {shown(name)}"
        self.most = most
        self.known = None if classes is None else as_classes(classes)
        names = [] if self.known is None else self.known.tolist()
        self._numbers = {str(label): k for k, label in enumerate(names)}  # of the classes, or in order of appearance
        self._meanings = {_meaning(label): str(label) for label in names if not isinstance(label, str)}
        also = {str(text).strip() for text in missing}
        both = also & self._numbers.keys()
        if both:
            raise ValueError(
                f"--missing names {shown(min(both))}, which is among the classes {listed(self._numbers)}: leave it out there."
            )
        self._missing = {text for text in MISSING_LABELS if self._class_of(text) is None} | also
        self._parts: list[NDArray[np.int32]] = []
        self.rows, self.counts, self.marks = 0, Counter[str](), Counter[str]()

    def add(self, column: Any) -> NDArray[np.int32]:
        """Add the labels of the next rows.

        Parameters
        ----------
        column : pyarrow.Array or ChunkedArray
            Cells of the label column.

        Returns
        -------
        integer array of shape (n,)
            Codes of the labels in order of first appearance, -1 where missing; `codes` has the final ones.

        Raises
        ------
        ValueError
            If there are too many labels, or one that is not among the given classes.
        """
        self._parts.append(self.encode(column))
        return self._parts[-1]

    def add_batch(self, batch: Any) -> NDArray[np.integer]:
        """Add the labels of the next rows, from a record batch; returns codes as `add` does."""
        return self.add(batch.column(self.name))

    def encode(self, column: Any) -> NDArray[np.int32]:
        """Count the labels of the next rows as `add` does, without keeping their codes; `numbered` makes them final."""
        if arrow().types.is_nested(column.type):
            raise ValueError(f"{self.where} holds {column.type}: labels are text or whole numbers.")
        encoded = plain(column).dictionary_encode()
        places = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.intp)
        cells = [text.strip() for text in as_text(encoded.dictionary).to_pylist()]
        nulls, *counts = np.bincount(places + 1, minlength=len(cells) + 1).tolist()
        self.marks += Counter({"": nulls})
        codes = []
        for i, (text, count) in enumerate(zip(cells, counts, strict=True)):
            label = self._class_of(text)
            if label is None and text in self._missing:
                self.marks[text] += count
                codes.append(MISSING)
                continue
            if label is None and self.known is not None:
                raise ValueError(
                    f"{self.where} holds {shown(text)} in data row {self.rows + int(np.argmax(places == i)) + 1}, which is not "
                    f"among the classes {listed(self._numbers)}: correct it, or give --missing {shown(text)} if it means a "
                    "missing label."
                )
            label = label or text
            self.counts[label] += count
            codes.append(self._numbers.setdefault(label, len(self._numbers)))
        if len(self._numbers) > self.most and self.known is None:
            some = listed(self._numbers, 3)
            raise ValueError(f"{self.where} has more than {self.most:,} different labels ({some}): {_ROW_BY_ROW}")
        self.rows += len(places)
        return np.array([*codes, MISSING], dtype=np.int32)[places]

    def _class_of(self, text: str) -> str | None:
        """The class that a text is known to mean, as text; None if there is none."""
        return text if text in self._numbers else self._meanings.get(_meaning(text))

    @property
    def n_missing(self) -> int:
        """Number of rows without a label so far; with several label columns, of cells."""
        return self.marks.total()

    def discard(self, texts: Iterable[str]) -> None:
        """Count labels that were added as missing from now on."""
        for text in {str(text).strip() for text in texts} - self._missing:
            self._missing.add(text)
            self.marks += Counter({text: self.counts.pop(text, 0)})

    def texts(self) -> list[str]:
        """The labels as text, in order of first appearance, without the discarded ones."""
        return [text for text in self._numbers if text not in self._missing]

    @property
    def classes(self) -> NDArray[Any]:
        """The classes: those given, or the sorted labels, integers if all of them are written as such."""
        return np.array(sorted(_typed(self.texts()))) if self.known is None else self.known

    def check(self) -> None:
        """Raise ValueError if a class has no label, there are fewer than two, or almost all labels are different."""
        texts, n_labels = self.texts(), self.counts.total()
        absent = [text for text in texts if not self.counts[text]]
        if absent:
            raise ValueError(
                f"{self.where} has no label {shown(absent[0])}, which --classes names: remove it there, or label a row of it."
            )
        if len(texts) < 2:
            what = f"one class only, {shown(texts[0])}" if texts else "no label at all"
            raise ValueError(
                f"{self.where} has {what}: at least two classes must have labels. {' '.join([*self.notes(), ''])}If such a text "
                "is a class, name all classes with --classes; if the classes are in another column, choose it."
            )
        if self.known is None and len(texts) > max(_FEW, _ALMOST_ALL * n_labels):
            raise ValueError(
                f"{self.where} has {len(texts)} different labels in {n_labels} labelled rows ({listed(texts, 3)}): {_ROW_BY_ROW}"
            )

    def numbered(self, codes: NDArray[np.integer], dtype: Any = np.int32) -> NDArray[Any]:
        """Indices in `classes`, -1 if missing, for codes from `add` or `encode`, once all labels are added."""
        place = {str(name): k for k, name in enumerate(self.classes.tolist())}
        return np.array([*(place.get(text, MISSING) for text in self._numbers), MISSING], dtype)[codes]

    @property
    def codes(self) -> NDArray[np.int32]:
        """Index of each row's class in `classes`, -1 if the label is missing; an integer array."""
        self._parts = [np.concatenate([*self._parts, np.empty(0, np.int32)])]
        return self.numbered(self._parts[0])

    def notes(self) -> list[str]:
        """A sentence that says which texts counted as missing labels, and how often; none if no label is missing."""
        return [missing_in_words(self.marks, self.unit)] if self.marks else []


class VoteColumns(LabelColumn):
    """Encoder of columns that each hold the labels of one annotator; a blank cell is no vote."""

    unit = "cell"

    def __init__(self, names: Sequence[str], missing: Iterable[str] = (), classes: Any = None):
        super().__init__(", ".join(names), missing, classes)
        self.columns = list(names)

    def add_batch(self, batch: Any) -> NDArray[np.integer]:
        start, codes = self.rows, []
        for name in self.columns:
            self.rows, self.where = start, f"vote column {shown(name)}"
            codes.append(self.encode(batch.column(name)))
        self.where = f"the vote columns {listed(self.columns)}"
        self._parts.append(np.column_stack(codes))
        return np.max(codes, axis=0)

    @property
    def shares(self) -> Array:  # type: ignore[override]
        """Shares (n, K) of the classes in the votes of each row, zero if there are none."""
        votes = self.numbered(np.concatenate(self._parts))
        counts = np.stack([(votes == k).sum(axis=1) for k in range(len(self.classes))], axis=1)
        return vote_shares(counts, self.classes, fitted=True)[0]

    @property
    def codes(self) -> NDArray[np.int32]:
        """Index of the most voted class of each row, the first one if several are tied, -1 if there are no votes."""
        return most_voted(self.shares).astype(np.int32)


class ShareColumns(LabelColumn):
    """Columns of counts or probabilities, named after the classes; blank or zero in all of them if the label is missing."""

    unit = "cell"

    def __init__(self, names: Sequence[str], missing: Iterable[str] = (), classes: Any = None):
        super().__init__(", ".join(names), missing, classes)
        if len(names) < 2:
            raise ValueError("--shares needs a column for each class, at least two.")
        self.columns, self.where = list(names), f"the columns {listed(names)}"
        self._names = _typed([name.strip() for name in names])
        self._blank = [*MISSING_TEXTS, *(str(text).strip() for text in missing)]
        self._values: list[Array] = []

    def add_batch(self, batch: Any) -> NDArray[np.integer]:
        columns = [as_numbers(batch.column(name), self._blank) for name in self.columns]
        values = np.column_stack([numbers.values for numbers in columns])
        odd = np.column_stack([numbers.odd for numbers in columns]) | np.isinf(values) | (values < 0.0)
        if odd.any():
            row, column = np.argwhere(odd)[0].tolist()
            cell = as_text(batch.column(self.columns[column]).slice(row, 1))[0].as_py()
            raise ValueError(
                f"column {shown(self.columns[column])} of --shares holds {shown(cell)} in data row {self.rows + row + 1}: write "
                "counts or probabilities. If columns hold the labels of annotators, use --votes."
            )
        gaps = np.isnan(values)
        partly = gaps.any(axis=1) & ~gaps.all(axis=1)
        if partly.any():
            raise ValueError(
                f"data row {self.rows + int(np.argmax(partly)) + 1} has some of the columns of --shares blank but not all: write "
                "0 for no votes, and leave all of them blank if the label is missing."
            )
        for name, numbers in zip(self.columns, columns, strict=True):
            self.marks.update(trimmed(plain(batch.column(name)).filter(arrow().array(numbers.missing))).to_pylist())
        self.rows += len(values)
        self._values.append(values)
        return np.where(np.nan_to_num(values).any(axis=1), 0, MISSING)

    @property
    def classes(self) -> NDArray[Any]:
        return np.array(self._names) if self.known is None else self.known

    def check(self) -> None:
        vote_shares(self.shares, self.classes)  # every class needs a vote

    @property
    def shares(self) -> Array:  # type: ignore[override]
        """Shares (n, K) of the classes, zero if the label is missing."""
        values, names = np.concatenate(self._values), list(map(str, self._names))
        if self.known is not None:
            if sorted(names) != sorted(map(str, self.known.tolist())):
                raise ValueError(f"--shares names {listed(names)}, but the classes are {listed(self.known)}.")
            values = values[:, [names.index(str(name)) for name in self.known.tolist()]]
        return vote_shares(values, self.classes, fitted=True)[0]

    @property
    def codes(self) -> NDArray[np.int32]:
        """Index of the class with the largest share, the first one if several are tied, -1 if the label is missing."""
        return most_voted(self.shares).astype(np.int32)


def label_columns(
    label: str | None,
    votes: Sequence[str] | None,
    shares: Sequence[str] | None,
    missing: Iterable[str] = (),
    classes: Any = None,
) -> LabelColumn:
    """The encoder of a label column, of the columns of annotators, or of columns of shares: whichever is named."""
    if votes:
        return VoteColumns(votes, missing, classes)
    if shares:
        return ShareColumns(shares, missing, classes)
    assert label is not None
    return LabelColumn(label, missing, classes)


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
