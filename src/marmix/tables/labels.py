"""Label columns of tables, read in batches."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.core.arrays import Array
from marmix.core.labels import (
    MISSING,
    MISSING_CELLS,
    MISSING_LABELS,
    Labels,
    as_classes,
    check_marks,
    class_like,
    is_minus_one,
    looks_like_class,
    looks_missing,
    missing_in_words,
    most_voted,
    vote_shares,
)
from marmix.tables.cells import NUMBER, TRUTHS, WHOLE, arrow, as_numbers, as_text, listed, plain, shown, trimmed

MOST_CLASSES = 100
MOST_CONVERTED = 100_000  # classes of `to_memmap`
_ALMOST_ALL, _FEW = 0.8, 10  # more distinct labels than this share and this number: identifiers or measurements
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as written by Python
_ROW_BY_ROW = "looks like an identifier or a number, not a class. Choose the column of classes with"


def _distinct(column: Any) -> tuple[Any, NDArray[np.intp]]:
    """Return the distinct values of a column, and the index of each row's value, -1 for null."""
    encoded = plain(column).dictionary_encode()
    return encoded.dictionary, encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.intp)


class LabelColumn(Labels):
    """Encoder of the label column of a data file that is read in batches.

    A label is the text of its cell without surrounding whitespace; whole numbers of a typed column are written without
    a point. Null, blank cells, the texts of `marmix.core.labels.MISSING_LABELS` (NA, N/A, nan, null, None, ?, -1 and so on)
    and those of `missing` are missing labels, except for texts that are named in `classes` or `keep`.

    Parameters
    ----------
    name : str
        Name of the column.
    missing : iterable of str, default=()
        Further texts that mean a missing label.
    classes : sequence or None, default=None
        The classes; other labels are an error. A text matches a number or truth value of the same meaning: "1.0"
        matches 1, and "true" matches True.
    keep : iterable of str, default=()
        Texts that are classes although they usually mean a missing label.
    fitted : bool, default=True
        Whether `classes` are those of a fitted model, some of which may have no label here.

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

    If "NA" is a class of its own, name it:

    >>> labels = LabelColumn("element", keep=["NA"])
    >>> _ = labels.add(pa.array(["NA", "K", ""]))
    >>> labels.classes.tolist(), labels.codes.tolist()
    (['K', 'NA'], [1, 0, -1])
    """

    option = "--label"  # of the program, which names the column
    unit = "row"  # what has a label
    shares: Array | None = None  # of the classes in the votes of each row; None if each has one label

    def __init__(
        self,
        name: str,
        missing: Iterable[str] = (),
        classes: Sequence[Any] | NDArray[Any] | None = None,
        *,
        keep: Iterable[str] = (),
        fitted: bool = True,
    ):
        super().__init__(f"label column {shown(name)}", classes, most=MOST_CLASSES)
        self.name, self.columns, self.fitted = name, [name], fitted
        self._said_missing = {str(text).strip() for text in missing}
        self._meanings = {_class_meaning(name): str(name) for name in self._numbers if not isinstance(name, str)}
        self._numbers = {str(label): k for label, k in self._numbers.items()}
        self.markers = {text for text in MISSING_LABELS if text not in keep and self._class_of(text) is None}
        self.markers |= self._said_missing
        self._keep = set(keep)
        for text in sorted(self._said_missing & self._numbers.keys()):
            whose = "of the model" if fitted else "of --classes"
            raise ValueError(
                f"--missing names {shown(text)}, which is among the classes {listed(self._numbers)} {whose}: leave it out there."
            )
        self._parts: list[NDArray[np.integer]] = []
        self.counts: Counter[str] = Counter()

    def add(self, column: Any) -> NDArray[np.integer]:
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
        if arrow().types.is_nested(column.type):
            raise ValueError(f"{self.where} holds {column.type}: labels are text or whole numbers.")
        values, places = _distinct(column)
        nulls = int(np.count_nonzero(places == MISSING))
        if nulls:
            self.marks[""] += nulls
        self._parts.append(self.add_distinct([text.strip() for text in as_text(values).to_pylist()], places))
        return self._parts[-1]

    def add_batch(self, batch: Any) -> NDArray[np.integer]:
        """Add the labels of the next rows, from a record batch.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Rows with the label column.

        Returns
        -------
        integer array of shape (n,)
            Codes of the labels, as from `add`.
        """
        return self.add(batch.column(self.name))

    def read(self, value: str, count: int, first: Callable[[], int]) -> str | None:
        """Return the label that a text means, or None if it is missing, and count it.

        Parameters
        ----------
        value : str
            The text, without surrounding whitespace.
        count : int
            Number of rows with this text.
        first : callable
            Returns the position of the first of them.

        Returns
        -------
        str or None
            The label.
        """
        if is_minus_one(value) and "-1" in self.markers and value not in self._keep and not self._class_of(value):
            self.markers.add(value)
            self._said_missing |= {value} if "-1" in self._said_missing else set()
        if value in self.markers:
            self.marks[value] += count
            return None
        value = self._class_of(value) or value
        if "\0" in value:
            raise ValueError(
                f"{self.where} holds {shown(value)} in data row {first() + 1}, which has a NUL character: labels must be plain "
                "text or whole numbers."
            )
        self.counts[value] += count
        return value

    def _class_of(self, text: str) -> str | None:
        """The allowed class that a text means, as text; None if there is none."""
        return text if text in self._numbers else self._meanings.get(_class_meaning(text))

    def part(self, text: str) -> str:
        """Return in words how many of the rows hold a text, for example "3 of 100 rows".

        Parameters
        ----------
        text : str
            A label, or a text that counted as missing.

        Returns
        -------
        str
            With several label columns, cells are counted instead of rows.
        """
        count, total = self.marks[text] or self.counts[text], self.rows * len(self.columns)
        return f"{count:,} of {total:,} {self.unit}s"

    @property
    def n_missing(self) -> int:
        """Number of rows without a label so far; with several label columns, of cells."""
        return self.marks.total()

    def doubtful(self) -> list[str]:
        """Return the labels that probably mean a missing label, such as "unknown"; none if the classes were given.

        Returns
        -------
        list of str
            Labels, which still count as classes; `discard` counts them as missing.
        """
        return [text for text in self.texts() if looks_missing(text, self.texts())] if self.known is None else []

    def ambiguous(self) -> list[str]:
        """Return the texts that may mean a missing label as well as a class.

        Returns
        -------
        list of str
            Texts that counted as missing or as labels.
        """
        others = [text for text in self.texts() if text not in self.doubtful()]
        return [*self._class_like(), *(text for text in self.doubtful() if looks_like_class(text, others))]

    def _class_like(self) -> list[str]:
        """The texts that counted as missing, although nobody said so and they may be classes."""
        marks = [] if self.known is not None else [text for text in self.marks if text not in self._said_missing]
        return class_like(marks, self.texts())

    def discard(self, texts: Iterable[str]) -> None:
        """Count labels that were added as missing from now on.

        Parameters
        ----------
        texts : iterable of str
            The labels.
        """
        texts = list(texts)
        self._said_missing.update(str(text).strip() for text in texts)
        for text in {str(text).strip() for text in texts} - self.markers:
            self.markers.add(text)
            count = self.counts.pop(text, 0)
            if count:
                self.marks[text] += count

    def numbers_of(self, texts: Iterable[str]) -> set[int]:
        """Return the codes that `add_batch` returns for labels.

        Parameters
        ----------
        texts : iterable of str
            Labels that were added.

        Returns
        -------
        set of int
            Their codes; empty with several label columns.
        """
        return {self._numbers[text] for text in texts} if self.columns == [self.name] else set()

    def texts(self) -> list[str]:
        """Return the labels as text, in order of first appearance.

        Returns
        -------
        list of str
            Without the texts that mean a missing label.
        """
        return [text for text in self._numbers if text not in self.markers]

    def stranger(self, labels: Sequence[str], row: int) -> str:
        """Return the error message for labels that are not among the given classes.

        Parameters
        ----------
        labels : sequence of str
            The labels, in the order of their rows.
        row : int
            Position of the first of them, from 0.

        Returns
        -------
        str
            What is wrong, and what to do.
        """
        others = f" and {listed(labels[1:])}" if len(labels) > 1 else ""
        whose = "of the model. Correct it" if self.fitted else "of --classes. Correct it, name it there"
        return (
            f"{self.where} holds {shown(labels[0])} in data row {row + 1}{others}, which {'are' if others else 'is'} not among "
            f"the classes {listed(self._numbers)} {whose}, or give --missing {shown(labels[0])} if it means a missing label."
        )

    def too_many(self) -> str:
        """Return the error message for more labels than a column of classes has.

        Returns
        -------
        str
            What is wrong, and what to do.
        """
        some = listed(self._numbers, 3)
        return f"{self.where} has more than {self.most} different labels ({some}): it {_ROW_BY_ROW} {self.option}."

    def names(self) -> list[Any]:
        """Return the labels in order of first appearance.

        Returns
        -------
        list
            Integers if all labels are written as such, otherwise text; None for a discarded label.
        """
        whole = all(map(_INTEGER.fullmatch, self.texts()))
        return [None if text in self.markers else int(text) if whole else text for text in self._numbers]

    @property
    def classes(self) -> NDArray[Any]:
        """The sorted classes: integers if all labels are written as such, otherwise text.

        Raises
        ------
        ValueError
            If there are fewer than two, or almost as many as labelled rows, or if a text may be a class or mean a
            missing label.
        """
        if self.known is not None:
            absent = [] if self.fitted else [name for name in self._numbers if not self.counts[name]]
            if absent:
                raise ValueError(
                    f"{self.where} has no label {shown(absent[0])}, which --classes names: remove it there, or label a row of it."
                )
            return self.known
        for text in self._class_like():
            raise ValueError(
                f"{self.where} holds {shown(text)}, which may be a class or mean a missing label: give it in missing= "
                "(--missing) if it is missing, or name all classes in classes= (--classes)."
            )
        texts, n_labels = self.texts(), len(self.columns) * self.rows - self.n_missing
        if len(texts) < 2:
            what = f"one class only, {shown(texts[0])}" if texts else "no label at all"
            markers = " ".join([*self.notes(), ""])
            raise ValueError(
                f"{self.where} has {what}: at least two classes must have labels. {markers}"
                f"If the classes are in another column, choose it with {self.option}."
            )
        if len(texts) > max(_FEW, _ALMOST_ALL * n_labels):
            raise ValueError(
                f"{self.where} has {len(texts)} different labels in {n_labels} labelled rows ({listed(texts, 3)}): it "
                f"{_ROW_BY_ROW} {self.option}."
            )
        return super().classes

    @property
    def codes(self) -> NDArray[np.int32]:
        """Index of each row's class in `classes`, -1 if the label is missing; an integer array."""
        _ = self.classes
        self._parts = [np.concatenate([*self._parts, np.empty(0, np.int8)])]
        return self.numbered(self._parts[0], np.int32).astype(np.int32, copy=False)

    def notes(self) -> list[str]:
        """Return a note that says which texts counted as missing labels, and how often.

        Returns
        -------
        list of str
            One sentence, or none if no label is missing.
        """
        return [missing_in_words(self.marks, self.unit)] if self.marks else []

    def alike(self) -> list[list[str]]:
        """Return groups of labels that differ only in case, whitespace or the notation of a number.

        Returns
        -------
        list of lists of str
            Such as ``[["Benign", "benign"]]``.
        """
        meanings: dict[Any, list[str]] = {}
        for text in sorted(self.texts()):
            meanings.setdefault(_meaning(text), []).append(text)
        return [texts for texts in meanings.values() if len(texts) > 1]


class VoteColumns(LabelColumn):
    """Encoder of columns that each hold the labels of one annotator; a blank cell is no vote."""

    option, unit = "--votes", "cell"

    def __init__(self, names: Sequence[str], missing: Iterable[str] = (), classes: Any = None, **options: Any):
        super().__init__(", ".join(names), missing, classes, **options)
        self.columns = list(names)
        self._by_column: list[list[NDArray[np.integer]]] = [[] for _ in names]

    def add_batch(self, batch: Any) -> NDArray[np.integer]:
        start = self.rows
        for name, parts in zip(self.columns, self._by_column, strict=True):
            self.rows, self.where = start, f"vote column {shown(name)}"
            parts.append(self.add(batch.column(name)))
        self.where = f"the vote columns {listed(self.columns)}"
        return np.max([parts[-1] for parts in self._by_column], axis=0)

    @property
    def shares(self) -> Array:  # type: ignore[override]
        """Shares (n, K) of the classes in the votes of each row, zero if there are none."""
        counts = np.zeros((self.rows, len(self.classes)))
        for parts in self._by_column:
            z = self.numbered(np.concatenate(parts), np.int32)
            counts[np.flatnonzero(z >= 0), z[z >= 0]] += 1.0
        return vote_shares(counts, self.classes, fitted=True)[0]

    @property
    def codes(self) -> NDArray[np.int32]:
        """Index of the most voted class of each row, the first one if several are tied, -1 if there are no votes."""
        return most_voted(self.shares).astype(np.int32)


class ShareColumns(LabelColumn):
    """Columns of counts or probabilities, named after the classes; blank or zero in all of them if the label is missing."""

    option, unit = "--shares", "cell"

    def __init__(self, names: Sequence[str], missing: Iterable[str] = (), classes: Any = None, **options: Any):
        super().__init__(", ".join(names), missing, classes, **options)
        self.columns, self.where = list(names), f"the columns {listed(names)}"
        if len(self.columns) < 2:
            raise ValueError("--shares needs a column for each class, at least two.")
        texts = [name.strip() for name in names]
        self._names = list(map(int, texts)) if all(map(_INTEGER.fullmatch, texts)) else texts
        self._blank = [*MISSING_CELLS, *(str(text).strip() for text in missing)]
        self._values: list[Array] = []

    def add_batch(self, batch: Any) -> NDArray[np.integer]:
        parts = []
        for name in self.columns:
            numbers = as_numbers(batch.column(name), self._blank)
            bad = numbers.odd | np.isinf(numbers.values) | (numbers.values < 0.0)
            if bad.any():
                place = int(np.argmax(bad))
                cell = as_text(batch.column(name).slice(place, 1))[0].as_py()
                raise ValueError(
                    f"column {shown(name)} of --shares holds {shown(cell)} in data row {self.rows + place + 1}: write counts or "
                    "probabilities. If columns hold the labels of annotators, use --votes."
                )
            parts.append(numbers.values)
            self.marks.update(trimmed(plain(batch.column(name)).filter(arrow().array(numbers.missing))).to_pylist())
        values = np.column_stack(parts)
        gaps = np.isnan(values)
        partly = gaps.any(axis=1) & ~gaps.all(axis=1)
        if partly.any():
            raise ValueError(
                f"data row {self.rows + int(np.argmax(partly)) + 1} has some of the columns of --shares blank but not all: write "
                "0 for no votes, and leave all of them blank if the label is missing."
            )
        self.rows += len(values)
        self._values.append(values)
        return np.where(np.nan_to_num(values).any(axis=1), 0, MISSING)

    @property
    def classes(self) -> NDArray[Any]:
        return np.array(self._names) if self.known is None else self.known

    @property
    def shares(self) -> Array:  # type: ignore[override]
        """Shares (n, K) of the classes, zero if the label is missing."""
        values = np.concatenate(self._values)
        if self.known is not None:
            names = list(map(str, self._names))
            if sorted(names) != sorted(map(str, self.known.tolist())):
                whose = "the classes of the model are" if self.fitted else "--classes names"
                raise ValueError(f"--shares names {listed(names)}, but {whose} {listed(self.known)}.")
            values = values[:, [names.index(str(name)) for name in self.known.tolist()]]
        return vote_shares(values, self.classes, fitted=self.known is not None and self.fitted)[0]

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
    **options: Any,
) -> LabelColumn:
    """The encoder of a label column, of the columns of annotators, or of columns of shares: whichever is named."""
    if votes:
        return VoteColumns(votes, missing, classes, **options)
    if shares:
        return ShareColumns(shares, missing, classes, **options)
    assert label is not None
    return LabelColumn(label, missing, classes, **options)


def named_classes(texts: Sequence[str], missing: Iterable[str] = ()) -> list[Any] | None:
    """Classes as the user names them in a command: integers if all are written as such; None if there are none."""
    names = [text.strip() for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"--classes names {shown(name)} twice.")
        if name in {text.strip() for text in missing}:
            raise ValueError(f"--classes and --missing both name {shown(name)}: is it a class, or a missing label?")
    if len(names) == 1 or "" in names:
        raise ValueError("--classes needs the names of all classes, at least two.")
    return list(map(int, names)) if names and all(map(_INTEGER.fullmatch, names)) else names or None


def _class_meaning(label: Any) -> Any:
    """A key that is equal for texts, numbers and truth values that mean the same class; text means itself."""
    if isinstance(label, bool | np.bool_):
        return Decimal(int(label))
    text = str(label).strip()
    if isinstance(label, str) and text.casefold() in TRUTHS:
        return Decimal(TRUTHS.index(text.casefold()))
    return Decimal(text) if NUMBER.fullmatch(text) else text


def _meaning(text: str) -> Any:
    """A key that is equal for labels that differ only in case, whitespace or the notation of a number."""
    try:
        return float(text)
    except ValueError:
        return " ".join(text.split()).casefold()


class ConvertedLabels(Labels):
    """Encoder of the labels of `to_memmap`: integers, strings or booleans.

    `source` names the table in messages; `text` says that it is a text file, whose labels get the type that all of them fit.
    """

    def __init__(self, name: str, source: str, text: bool, classes: Any = None):
        super().__init__(f"{source}: the label {name!r}", most=MOST_CONVERTED)
        self.name, self.text = name, text
        self.named = [] if classes is None else as_classes(classes).tolist()

    def add(self, column: Any) -> NDArray[np.integer]:
        """Encode the labels of the next rows, an Arrow array, in order of first appearance."""
        if arrow().types.is_nested(column.type):
            raise ValueError(f"{self.where} holds {column.type}: labels are integers, strings or booleans.")
        values, places = _distinct(column)
        return self.add_distinct(values.to_pylist(), places)

    def read(self, value: Any, count: int, first: Callable[[], int]) -> Any:
        if isinstance(value, float) and value.is_integer():  # an integer in a column with NaN
            value = int(value)
        named = value in self.named or (self.text and value.strip() in map(str, self.named))
        named = named or (self.text and MISSING in self.named and is_minus_one(value.strip()))
        label = value if named else super().read(value, count, first)
        if label is not None and not isinstance(label, int | str):
            raise ValueError(f"{self.where} holds {label!r}: labels are integers, strings or booleans.")
        return label

    def names(self) -> list[Any]:
        """The labels in order of first appearance; those of a text file in the type that fits all of them."""
        names = super().names()
        if not self.text:
            return names
        if names and all(map(NUMBER.fullmatch, names)):
            matches = [WHOLE.fullmatch(name) for name in names]
            if not all(matches):
                raise ValueError(
                    f"{self.where} holds {names[matches.index(None)]}: labels are whole numbers or strings."
                )
            whole = [int(match[1]) for match in matches if match]
            return [None if number == MISSING and MISSING not in self.named else number for number in whole]
        if {name.lower() for name in names} <= {"true", "false"}:
            return [name.lower() == "true" for name in names]
        return names

    def sorted_names(self) -> list[Any]:
        """The sorted labels, or the named classes."""
        names = super().sorted_names()
        strange = [name for name in names if name not in self.named]
        if self.named and strange:
            raise ValueError(f"{self.where} holds {strange[0]!r}, which is not among the classes {self.named}.")
        return self.named or names

    def check_marks(self) -> None:
        """Raise ValueError if a text for missing labels may be a class, and warn of those that counted as missing."""
        texts = {text: count for text, count in self.marks.items() if text or not self.text}
        if not self.named:
            check_marks(texts, self.sorted_names(), self.where)
        if texts:
            warnings.warn(f"{self.where}: {missing_in_words(texts)}", UserWarning, stacklevel=4)
