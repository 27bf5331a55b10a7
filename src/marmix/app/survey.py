"""The survey of a file before the work: its labels, what its columns are, which are no features, and the rows of the fit."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
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
from marmix.evaluation.verdict import ACCEPT
from marmix.tables.cells import (
    NUMBER,
    TRUTHS,
    arrow,
    as_numbers,
    as_text,
    is_numeric,
    listed,
    plain,
    shown,
    trimmed,
)
from marmix.tables.preparation import Column, Counts, Encoder, Preparation, check_columns, encoder_of, numbers_of
from marmix.terminal import command_line

PREFIX = "marmix_"  # of the columns that are added
GIVEN, AUDITED, ASKED, IMPUTED = "given", "audited", "asked", "imputed"  # where a label is from
_LEAST, _MANY = 10, 20  # fewest cells that can look like row numbers, and like identifiers or a constant
_OFTEN = 0.1  # different numbers per row, from which a column named like an identifier may be one although they repeat
_DIGITS = 6  # of numbers that may be identifiers although nothing but their length says so
_PAIRS = 5.0  # expected number of equal pairs among measurements, from which none at all means identifiers
_TOGETHER = 0.95  # share of rows in which a column is filled as the label is, from which it knows the label
_CLASSES = 5  # named in a question
_PROSE = 4  # mean number of words in free text
_ID = re.compile(  # names of identifiers
    r"(?i:(.*[\W_])?(id|nr|no|number|index|key|mrn)\.?|(patient|subject|sample|case|row|user)id)|.*[a-z]I[dD]"
)
MOST_CLASSES = 100
_ALMOST_ALL, _FEW = 0.8, 10  # more distinct labels than this share and this number: identifiers or measurements
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as written by Python
_ROW_BY_ROW = "it looks like an identifier or a number, not a class. Choose the column of classes."
_MEDIAN = "--impute-features median keeps such rows; --exclude drops a column that is often empty."


@dataclass(frozen=True)
class Options:
    """The arguments of `marmix fit`; see `marmix fit --help`."""

    data: Path
    label: str | None = None
    out: Path = Path()
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    id: str | None = None
    model: str = "auto"
    missing: Sequence[str] = ()
    impute_features: str = "median"
    missing_cells: Sequence[str] = ()  # texts that mean a missing feature
    seed: int = 0
    force: bool = False
    escape_formulas: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = ("marmix", "fit")
    votes: Sequence[str] = ()
    shares: Sequence[str] = ()
    sets: float | None = None  # coverage of the conformal sets, if any
    keep: Sequence[str] = ()  # columns that the survey should not doubt
    prevalence: Mapping[str, float] = field(default_factory=dict)  # known shares of classes
    classes: Sequence[str] = ()  # all classes, if they are named
    join: Path | None = None  # file with more columns, whose rows are found by the id
    time_limit: float | None = None  # seconds for the comparison of the candidates
    accept: float = ACCEPT  # share of wrong labels

    @property
    def label_columns(self) -> list[str]:
        """The columns of the labels."""
        return list(self.votes or self.shares or ([] if self.label is None else [self.label]))

    def columns(self, table: Table) -> list[str]:
        """The features: those asked for, or all columns but the labels, the id, a pandas index and the excluded ones."""
        names, requested, labels = table.names, list(dict.fromkeys(self.features or ())), self.label_columns
        option_name = "--votes" if self.votes else "--shares" if self.shares else "--label"
        ids = [self.id] if self.id else []
        options = {
            option_name: labels,
            "--id": ids,
            "--features": requested,
            "--exclude": self.exclude,
            "--keep": self.keep,
        }
        for option, columns in options.items():
            check_columns(columns, names, f"{option}: {self.data}")
        twice = [name for name, count in Counter([*labels, *ids, *requested]).items() if count > 1]
        if twice:
            raise ValueError(
                f"{shown(twice[0])} is named twice by {option_name}, --id and --features: give each column one meaning."
            )
        features = requested or [name for name in names if name not in (*labels, self.id, *table.index)]
        features = [name for name in features if name not in self.exclude]
        if not features:
            raise ValueError("no feature column is left: name some with --features, or exclude fewer.")
        return features


# The labels


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

    def single(self) -> list[str]:
        """Classes with a single label, if there are two others and the user did not name the classes."""
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.classes))
        few = self.classes[counts == 1] if self.shares is None and np.sum(counts > 1) >= 2 else []
        return [] if self.named else list(map(str, few))

    def check(self) -> None:
        """Raise ValueError if these labels cannot be fitted, or no label is missing and the user did not name the classes."""
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.classes))
        given = counts > 0 if self.shares is None else self.shares.any(axis=0)
        texts, n_labels = self.classes.astype(str).tolist(), int(counts.sum())
        if not given.all():
            raise ValueError(
                f"{self.where} has no label {shown(texts[int(np.argmin(given))])}, which --classes names: remove it there, or "
                "label a row of it."
            )
        if len(texts) < 2:
            what = f"one class only, {shown(texts[0])}" if texts else "no label at all"
            texts = self.notes() if any(filter(None, self.marks)) else []
            advice = [*texts, "If such a text is a class, name all classes with --classes."] if texts else []
            raise ValueError(
                " ".join([f"{self.where} has {what}: at least two must have labels. Choose another column?", *advice])
            )
        if self.named:
            return
        if self.shares is None and len(texts) > max(_FEW, _ALMOST_ALL * n_labels):
            raise ValueError(
                f"{self.where} has {len(texts)} different labels in {n_labels} labelled rows ({listed(texts, 3)}): {_ROW_BY_ROW}"
            )
        alike = Counter(" ".join(text.split()).casefold() for text in texts)
        similar = [text for text in texts if alike[" ".join(text.split()).casefold()] > 1]
        if similar and self.shares is None:
            raise ValueError(
                f"the labels {listed(similar)} of {self.where} differ in case or blanks only: correct the file if they are one "
                "class, or name all classes with --classes."
            )
        if n_labels == len(self.codes):
            some = [f"{text} ({count:,})" for text, count in zip(texts, counts.tolist(), strict=True)]
            raise ValueError(
                f"no label is missing in {self.where}: if one of {listed(some, _CLASSES)} means that there is no label, name it "
                "with --missing; otherwise name all classes with --classes."
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


# The plan


@dataclass(frozen=True)
class Rows:
    """Features of the complete rows, labels of all rows, and which rows are complete."""

    X: Array  # (m, d)
    complete: NDArray[np.bool_]  # (n,)
    codes: NDArray[np.int32]  # (n,), -1 where a label is missing
    classes: NDArray[Any]
    counts: Counts
    marks: Mapping[str, int]  # texts that counted as missing labels, and how many rows have each
    shares: Array | None = None  # (n, K), of the votes of all rows; None if each has one label
    source: NDArray[Any] | None = None  # (n,), where the labels are from; None if all are given
    encoder: Encoder | None = None  # for X with missing values or codes of categories, which only trees take

    @property
    def numbers(self) -> Array:
        """X as features without missing values and categories."""
        return numbers_of(self.X, self.encoder)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which complete rows had no label when the data came."""
        return np.asarray(self.codes < 0 if self.source is None else self.source != GIVEN)[self.complete]

    @property
    def z(self) -> NDArray[np.int32]:
        """Labels of the complete rows."""
        return self.codes[self.complete]

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of the complete rows as estimators take them: codes, or shares of votes."""
        return self.z if self.shares is None else self.shares[self.complete]


@dataclass(frozen=True)
class Plan:
    """What a fit needs of a file.

    Attributes
    ----------
    options : Options
        Those of the user, with what the survey found out.
    preparation : Preparation
        Fitted.
    rows : Rows
    table : Table
        Without the columns that marmix added earlier.
    notes : list of str
        What is no feature or no class, and why, in sentences.
    """

    options: Options
    preparation: Preparation
    rows: Rows
    table: Table
    notes: list[str]


def own_columns(
    table: Table, label: str | None, votes: Sequence[str] = (), shares: Sequence[str] = ()
) -> tuple[Table, NDArray[Any] | None]:
    """A table without the columns that marmix adds, and where its labels are from.

    Labels that were audited or asked for are in the label column then, or the first column of votes, or as 1 and 0 in the columns
    of shares; imputed ones are not.
    """
    label_column, source_column = f"{PREFIX}label", f"{PREFIX}source"
    ours, source = [name for name in table.names if name.startswith(PREFIX)], None
    if not ours:
        return table, None
    data, verbatim = table.data.drop_columns(ours), table.verbatim
    names = list(shares or [name for name in (label, *votes) if name is not None][:1])
    if names and set(names) <= set(data.column_names) and {label_column, source_column} <= set(ours):
        source = np.array(table.text(source_column).to_pylist(), dtype=object)
        now = np.array(table.text(label_column).to_pylist(), dtype=object)
        added = np.isin(source, [AUDITED, ASKED])
        for name in names:
            before = as_text(data[name]) if shares else table.text(name)
            new = np.where(now == name.strip(), "1", "0") if shares else now
            cells = np.where(added, new, np.array(before.to_pylist(), dtype=object))
            data = data.set_column(data.column_names.index(name), name, arrow().array(cells, arrow().string()))
        verbatim = {name: entry for name, entry in verbatim.items() if name not in names}
        source = source if added.any() else None
    note = f"the columns of an earlier fit are left out: {listed(ours, 3)}."
    return replace(table, data=data, verbatim=verbatim, notes=[*table.notes, note]), source


def survey(table: Table, options: Options) -> Plan:
    """Find out what the columns of a table are, and prepare its rows."""
    table, source = own_columns(table, options.label, options.votes, options.shares)
    features, meant = options.columns(table), {*(options.features or ()), *options.keep}
    if table.path.suffix in (".json", ".jsonl"):  # other answers of annotators would be features of a next fit
        others = {*table.index} - {*features, *options.label_columns, options.id}
        table = replace(table, data=table.data.drop_columns([*others]))
    columns = _preparation(options, features).examine(table.data)
    labels, notes = _labels(table, options), []
    if single := labels.single():
        notes.append(
            f"{listed(single)} of {labels.where} has a single label, which counts as missing as no model can be checked with it; "
            "--classes with the names of all classes keeps it."
        )
        options = replace(options, missing=[*options.missing, *single])
        labels = _labels(table, options)
    labels.check()
    unused = {name: text for name, column in columns.items() if name not in meant and (text := _identity(column))}
    if options.id is None and unused:  # rather not row numbers
        options = replace(options, id=min(unused, key=lambda name: "numbers the rows" in unused[name]))
    for name, column in columns.items():
        if name not in meant and name not in unused and column.entry is not None and (text := _leak(column, labels)):
            unused[name] = text
    for name, text in unused.items():
        use = "it identifies the rows" if name == options.id else "it is no feature"
        notes.append(f"Column {shown(name)} {text}: {use}. --keep {command_line([name])} makes it a feature.")
    kept = {name: column for name, column in columns.items() if name not in unused}
    if all(column.entry is None for column in kept.values()):
        why = " ".join([*notes, *(note for column in columns.values() for note in column.notes[-1:])])
        raise ValueError(
            f"no column would be left as a feature: name some with --features or --keep, or --join a file. {why}".rstrip()
        )
    preparation = _preparation(options, list(kept)).fit_columns(kept)
    del columns, kept
    rows = rows_of(table, preparation, labels)
    if not rows.complete.any():
        raise ValueError(f"every row has a missing feature, so none is left. {_MEDIAN}")
    numbers = np.arange(len(rows.classes))
    labelled = np.isin(numbers, rows.z) if rows.shares is None else rows.labels.any(axis=0)
    if not labelled.all():
        name = shown(rows.classes[~labelled][0])
        raise ValueError(f"every labelled row of class {name} has a missing feature, so none is left. {_MEDIAN}")
    gaps = Counter(rows.counts.missing) + Counter(rows.counts.unseen)  # which the notes of the preparation are about
    counts = replace(rows.counts, missing=dict(gaps), unseen={}, examples={})
    return Plan(
        options, preparation, replace(rows, counts=counts, source=source), _shared(table, preparation, rows), notes
    )


def _shared(table: Table, preparation: Preparation, rows: Rows) -> Table:
    """The table, with the features themselves in place of columns that are equal to them, so that these are freed."""
    data, names = table.data, preparation.get_feature_names_out().tolist()
    for column in preparation.columns_ if rows.complete.all() else []:
        name = column["name"]
        if column["kind"] == "number" and not column["missing"] and str(data[name].type) == "double":
            place = data.column_names.index(name)
            data = data.set_column(place, name, arrow().array(rows.X[:, names.index(name)]))
    return replace(table, data=data)


def _preparation(options: Options, features: list[str]) -> Preparation:
    markers = list(options.missing_cells) or None
    return Preparation(features, options.impute_features, missing_cells=markers, encode=False)


def _labels(table: Table, options: Options) -> Labels:
    names = [text.strip() for text in options.classes]
    if names and (len(names) == 1 or "" in names or len(set(names)) < len(names)):
        raise ValueError("--classes needs the names of all classes, at least two, each once.")
    return labels_of(table, options.label, options.votes, options.shares, options.missing, _typed(names) or None)


def rows_of(table: Table, preparation: Preparation, labels: Labels) -> Rows:
    """The rows of a table as features of a fitted preparation, and their labels."""
    X, counts = preparation.transform_counted(table.data)
    complete = complete_rows(X, counts, preparation)
    if not complete.all():
        X = X[complete]
    encoder = encoder_of(X, preparation.levels())
    return Rows(X, complete, labels.codes, labels.classes, counts, labels.marks, labels.shares, encoder=encoder)


def complete_rows(X: Array, counts: Counts, preparation: Preparation) -> NDArray[np.bool_]:
    """Which rows have all features, or at least one if missing ones may be filled."""
    complete = np.asarray(~np.isnan(X).any(axis=1) if preparation.impute == "drop" else np.full(len(X), True))
    complete[list(counts.blank)] = False
    return complete


# Columns that are no features


def _identity(column: Column) -> str:
    """The rest of a sentence if a column numbers or names the rows."""
    named = _ID.fullmatch(column.name) is not None
    x = column.values[column.filled]
    if column.levels:
        many = len(x) >= _LEAST and len(column.levels) >= (0.8 if named else 0.9) * len(x)
        if not many or sum(len(level.split()) for level in column.levels) >= _PROSE * len(column.levels):
            return ""
        return f"has almost only different values ({listed(column.levels, 3)})"
    if column.kind != "number" or len(x) < _LEAST or (x % 1 != 0).any() or np.abs(x).max() >= 2.0**63:
        return ""
    some, distinct = ", ".join(f"{value:.0f}" for value in x[:3]), len(np.unique(x))
    if (np.diff(x) == 1).all() and x[0] in (0, 1):
        return f"numbers the rows ({some}, ...)"
    if distinct < len(x):
        many = distinct > len(x) / 2 or (distinct > _MANY and distinct >= _OFTEN * len(x))
        return (
            f"is called like an identifier and has {distinct:,} different numbers ({some}, ...)"
            if named and many
            else ""
        )
    repeats = len(x) * (len(x) - 1) / 2.0 / (x.max() - x.min() + 1.0)  # expected of measurements
    lengths = {len(f"{end:.0f}") for end in (x.min(), x.max())}
    digits = len(lengths) == 1 and min(lengths) >= _DIGITS and x.min() > 0 and np.mean(x % 10 == 0) <= 0.3
    ordered = (np.diff(x) > 0).all() or (np.diff(x) < 0).all()
    if named or (len(x) >= _MANY and (ordered or repeats >= _PAIRS or digits)):
        return f"looks like an identifier, as its numbers are all different ({some}, ...)"
    return ""


def _leak(column: Column, labels: Labels) -> str:
    """The rest of a sentence if a column repeats the label, or tells by empty cells or its mode whether there is one."""
    labelled, classes = labels.codes >= 0, labels.classes.astype(str).tolist()
    totals = np.bincount(labelled, minlength=2)
    values, counts = np.unique(column.values[column.filled], return_counts=True)
    words = [column.levels[int(value)] if column.levels else f"{value:g}" for value in values[: len(classes) + 1]]
    if sorted(words) == sorted(classes) and totals[1] >= _LEAST and not column.missing[labelled].any():
        codes = np.array([classes.index(word) for word in words])
        if (codes[np.searchsorted(values, column.values[labelled])] == labels.codes[labelled]).all():
            return "repeats the label"
    if totals.min() < _LEAST / 2:
        return ""
    mode = values[counts.argmax()]
    word = shown(column.levels[int(mode)] if column.levels else f"{mode:g}")
    for what, which in (("empty", column.missing), (word, column.values == mode)):
        missing, given = np.bincount(labelled[which], minlength=2) / totals
        if max(missing, given) >= _TOGETHER and min(missing, given) <= 1.0 - _TOGETHER:
            here, there = ("missing", "given") if missing > given else ("given", "missing")
            return (
                f"is {what} where the label is {here} and not where it is {there}, so it tells whether there is a label"
            )
    return ""
