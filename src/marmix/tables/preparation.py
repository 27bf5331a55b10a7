"""`Preparation`: the columns of a table as numeric features."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from marmix.tables.cells import (
    TRUTHS,
    Numbers,
    arrow,
    as_numbers,
    counted,
    decimal_mark,
    is_numeric,
    listed,
    missing_cells,
    shown,
    trimmed,
    truths,
    with_other_mark,
)
from marmix.tables.labels import LabelColumn
from marmix.tables.reading import check_columns, naming, record_batches

_KINDS = ("number", "boolean", "category")
_MOSTLY = 0.8  # share of numbers from which other cells are mistakes rather than categories
_DATE = r"^([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4})([T ].*)?$"
_LEAVE_OUT = "leave the column out with --exclude"
_FEWEST = 2**13  # numbers kept per column for its median, at least
_KEPT = 2**22  # numbers kept of all columns together


@dataclass(frozen=True)
class Counts:
    """Counts of the missing cells in a table; those of parts of a table can be added.

    Attributes
    ----------
    rows : int
        Rows with a missing feature.
    missing : dict
        Missing cells by column.
    unseen : dict
        Cells with a category not seen in the fit, by column; they are treated as missing.
    examples : dict
        The first such category by column.
    """

    rows: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    @classmethod
    def none(cls) -> Self:
        """Counts of no rows."""
        return cls()

    def __add__(self, other: "Counts") -> "Counts":
        def total(ours: dict[str, int], theirs: dict[str, int]) -> dict[str, int]:
            return ours | {name: ours.get(name, 0) + count for name, count in theirs.items()}

        missing, unseen = total(self.missing, other.missing), total(self.unseen, other.unseen)
        return Counts(self.rows + other.rows, missing, unseen, other.examples | self.examples)

    def notes(self) -> list[str]:
        """The counts as sentences."""
        return [
            f"Column {shown(name)} is empty in {counted(count, 'row')}." for name, count in self.missing.items()
        ] + [
            f"Column {shown(name)} holds values that the model was not fitted with, such as {shown(self.examples[name])}, "
            f"in {counted(count, 'row')}; they count as missing."
            for name, count in self.unseen.items()
        ]


class Preparation(TransformerMixin, BaseEstimator):
    """Transformer of table columns to features: numbers as they are, categories one-hot without their first level.

    The kind of a column follows from its cells as text, not from how they are stored, so that the same data give the same
    features from CSV, pandas, polars or Parquet.

    - **Missing** are null, NaN, blank cells, and the texts NA, N/A, #N/A, NaN, nan, null, NULL, None, <NA>, NaT and ?. -1 is a
      number.
    - A **number** column has numbers in all other cells, a **boolean** column true and false, which become 1 and 0.
    - Any other is a **category** column if it has at most `max_levels` different texts, compared without surrounding whitespace.
      Each level except the first in sorted order becomes a feature of zeros and ones.
    - Errors: dates and times; numbers in at least 80 % of the cells, but not in all; numbers with a comma, unless `open_table`
      found decimal commas; infinity; more than `max_levels` texts.
    - Columns with a single value, or none, are left out, with a note.

    Parameters
    ----------
    features : list of str or None, default=None
        Columns to use, in this order; all by default.
    impute : {"median", "drop"}, default="median"
        "median" fills missing cells with the median or the most frequent category. "drop" leaves NaN in every feature of the
        column, for the caller to drop the row.
    max_levels : int, default=20

    Attributes
    ----------
    columns_ : list of dict
        The columns in use: "name", "kind" ("number", "boolean" or "category"), "levels" (sorted), "fill" (the number or level
        filled in, or None), "missing" (number of missing cells).
    notes_ : list of str
        Which columns were left out, and why.
    n_rows_ : int
        Rows of the fit.
    feature_names_in_ : list of str
        All columns considered.
    n_features_in_ : int

    Notes
    -----
    In `transform`, a category not seen in the fit is treated as missing; `transform_counted` counts them. A cell that is not a
    number in a number column is an error.

    Examples
    --------
    >>> from marmix.tables import Preparation
    >>> table = {"age": ["41", "NA", "35"], "group": ["b", "a", "b"]}
    >>> preparation = Preparation().fit(table)
    >>> preparation.get_feature_names_out().tolist(), preparation.transform(table).tolist()
    (['age', 'group=b'], [[41.0, 1.0], [38.0, 0.0], [35.0, 1.0]])
    """

    def __init__(self, features: Sequence[str] | None = None, impute: str = "median", max_levels: int = 20):
        self.features = features
        self.impute = impute
        self.max_levels = max_levels

    def fit(self, X: Any, y: Any = None) -> Self:
        """Determine the kind of each column.

        Parameters
        ----------
        X : table
            A pandas or polars frame, a pyarrow Table or RecordBatch, a dict of arrays, or a NumPy array.
        y : ignored
        """
        return self.fit_batches(lambda: _batches(X))

    def fit_batches(self, batches: Callable[[], Iterable[Any]], labels: LabelColumn | None = None) -> Self:
        """Fit to a table that comes in record batches.

        The batches are read once, and a second time for exact medians if the table has more than 4 million numbers and 8192 rows;
        about a twelfth of the numbers is then held in memory.

        Parameters
        ----------
        batches : callable
            Returns an iterator of the record batches, from the first on.
        labels : LabelColumn or None, default=None
            Label column to add in the same reading; it is not used as a feature.
        """
        if self.impute not in ("median", "drop"):
            raise ValueError(f"impute={self.impute!r} is not one of 'median', 'drop'.")
        surveys: dict[str, Survey] = {}
        medians: dict[str, Median] = {}
        rows = 0
        for batch in batches():
            if not surveys:
                names = [name for name in batch.schema.names if labels is None or name not in labels.columns]
                surveys = {name: Survey(name, self.max_levels) for name in self._chosen(names)}
                most = max(_FEWEST, _KEPT // len(surveys))
                medians = {name: Median(most) for name in surveys} if self.impute == "median" else {}
            rows += batch.num_rows
            if labels is not None:
                labels.add_batch(batch)
            for name, survey in surveys.items():
                cells = survey.add(batch.column(name))
                if name in medians:
                    medians[name].add(cells.values[np.isfinite(cells.values)])
        if not rows:
            raise ValueError("the table has no rows.")
        columns = {name: survey.column() for name, survey in surveys.items()}
        used = [column for column in columns.values() if isinstance(column, dict)]
        notes = [column for column in columns.values() if isinstance(column, str)]
        if not used:
            raise ValueError(f"no column can be used as a feature. {notes[0]}")
        numbers = [column["name"] for column in used if column["kind"] == "number"]
        _find_medians({name: medians[name] for name in numbers if medians}, batches)
        for column in used:
            if self.impute == "drop":
                column["fill"] = None
            elif column["kind"] == "number":
                column["fill"] = medians[column["name"]].value
        self.columns_ = used
        self.notes_ = notes
        self.n_rows_ = rows
        self.feature_names_in_ = list(surveys)
        self.n_features_in_ = len(surveys)
        return self

    def _chosen(self, names: Sequence[str]) -> list[str]:
        chosen = list(names) if self.features is None else list(self.features)
        if not chosen:
            raise ValueError("no column is left as a feature: choose at least one.")
        if isinstance(self.features, str) or len(set(chosen)) < len(chosen):
            raise ValueError(f"features={self.features!r} must be a list that names each column once.")
        check_columns(chosen, names, "the table")
        return chosen

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The features of each row.

        Parameters
        ----------
        X : table
            As for `fit`. The columns may be in any order; others are ignored.

        Returns
        -------
        array of shape (rows, features)
        """
        return self.transform_counted(X)[0]

    def transform_counted(self, X: Any, first_row: int = 0) -> tuple[NDArray[np.float64], Counts]:
        """The features of each row, and the counts of missing cells.

        Parameters
        ----------
        X : table
        first_row : int, default=0
            Number of rows of the table before these, for messages.

        Returns
        -------
        array of shape (rows, features)
        Counts
        """
        columns = self._columns()
        blocks, counts = [np.empty((0, len(self.get_feature_names_out())))], Counts()
        for batch in _batches(X):
            check_columns([column["name"] for column in columns], batch.schema.names, "the table")
            block, block_counts = self._block(batch, columns, first_row)
            blocks.append(block)
            counts += block_counts
            first_row += batch.num_rows
        return np.concatenate(blocks) if len(blocks) != 2 else blocks[1], counts

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features: the column, or ``column=level``."""
        names: list[str] = []
        for column in self._columns():
            name, levels = column["name"], column["levels"][1:]
            names += [f"{name}={level}" for level in levels] if column["kind"] == "category" else [name]
        return np.array(names, dtype=object)

    def features_in(self) -> list[str]:
        """Names of the columns needed by `transform`."""
        return [column["name"] for column in self._columns()]

    def _columns(self) -> list[dict[str, Any]]:
        """The columns in use, checked as they may come from a file."""
        check_is_fitted(self, "columns_")
        columns = self.columns_
        if not isinstance(columns, list) or not columns or not all(map(is_column, columns)):
            raise ValueError("columns_ is not as set by fit: fit again.")
        return columns

    def _block(self, batch: Any, columns: list[dict[str, Any]], seen: int) -> tuple[NDArray[np.float64], Counts]:
        parts, incomplete = [], np.zeros(batch.num_rows, dtype=bool)
        counts = Counts()
        for column in columns:
            name, cells = column["name"], batch.column(column["name"])
            refuse_type(name, cells.type)
            features = _number(column, cells, seen) if column["kind"] == "number" else _one_hot(column, cells)
            parts.append(features.values)
            incomplete |= features.missing | features.unseen
            if features.missing.any():
                counts.missing[name] = int(features.missing.sum())
            if features.unseen.any():
                counts.unseen[name] = int(features.unseen.sum())
                counts.examples[name] = trimmed(cells)[int(np.argmax(features.unseen))].as_py()
        return np.column_stack(parts), counts + Counts(int(incomplete.sum()))


def _batches(X: Any) -> Iterator[Any]:
    """Record batches of a table."""
    pa = arrow()
    with naming("the table"):
        if isinstance(X, Mapping):
            yield pa.RecordBatch.from_pydict({name: pa.array(values, from_pandas=True) for name, values in X.items()})
        else:
            yield from record_batches(X)


# Kinds of columns


class Survey:
    """Summary of the cells of a column that comes in batches, from which its kind follows."""

    def __init__(self, name: str, max_levels: int):
        self.name, self.max_levels = name, max_levels
        self.rows = self.missing = 0
        self._numbers = self._commas = 0
        self._low, self._high = np.inf, -np.inf
        self._odd: tuple[str, int] | None = None
        self._comma: tuple[str, int, str] | None = None
        self._infinite: tuple[str, int] | None = None
        self._levels: Counter[str] = Counter()

    def add(self, column: Any) -> Numbers:
        """Add the cells of the next rows, and return them as numbers."""
        refuse_type(self.name, column.type)
        numbers = as_numbers(column)
        values = numbers.values[~(numbers.missing | numbers.odd)]
        if self._infinite is None and np.isinf(values).any():
            self._infinite = self._first(column, np.isinf(numbers.values))
        if len(values):
            self._low, self._high = min(self._low, values.min()), max(self._high, values.max())
        if not is_numeric(column.type) and (numbers.odd.any() or not self._many):
            self._add_texts(column, numbers)
        self._numbers += len(values)
        self.missing += int(numbers.missing.sum())
        self.rows += len(column)
        return numbers

    def _add_texts(self, column: Any, numbers: Numbers) -> None:
        pa, pc = arrow(), arrow(".compute")
        text = trimmed(column)
        if numbers.odd.any():
            self._odd = self._odd or self._first(text, numbers.odd)
            commas = with_other_mark(column) & numbers.odd
            self._commas += int(commas.sum())
            if commas.any():
                self._comma = self._comma or (*self._first(text, commas), decimal_mark(column))
        if not self._many:
            for entry in pc.value_counts(text.filter(pa.array(~numbers.missing))).to_pylist():
                self._levels[entry["values"]] += entry["counts"]
                if self._many:
                    return

    def _first(self, column: Any, where: NDArray[np.bool_]) -> tuple[str, int]:
        i = int(np.argmax(where))
        return str(column[i].as_py()), self.rows + i + 1

    @property
    def _many(self) -> bool:
        return len(self._levels) > self.max_levels

    def column(self) -> dict[str, Any] | str:
        """The column as an entry of `columns_`, or a note on why it is left out; ValueError if it cannot be used."""
        filled = self.rows - self.missing
        if not filled:
            return f"Column {shown(self.name)} has no value and was left out."
        column: dict[str, Any] = {
            "name": self.name,
            "kind": "number",
            "levels": [],
            "fill": None,
            "missing": self.missing,
        }
        if self._numbers == filled:
            if self._infinite:
                raise ValueError(infinite(self.name, *self._infinite))
            return column if self._low < self._high else self._constant(f"{self._low:.15g}")
        lowered = Counter[str]()
        for level, count in self._levels.items():
            lowered[level.lower()] += count
        levels = lowered if not self._many and set(lowered) <= set(TRUTHS) else self._levels
        if levels is self._levels:
            self._refuse_texts(filled)
        if len(levels) == 1:
            return self._constant(next(iter(levels)))
        kind = "boolean" if levels is lowered else "category"
        most = min(levels, key=lambda level: (-levels[level], level))
        return column | {"kind": kind, "levels": sorted(levels), "fill": most}

    def _constant(self, value: str) -> str:
        return f"Column {shown(self.name)} has the same value, {shown(value)}, in every row and was left out."

    def _refuse_texts(self, filled: int) -> None:
        """Raise ValueError for text that is not a category."""
        name = shown(self.name)
        if self._comma and self._numbers + self._commas >= _MOSTLY * filled:
            raise ValueError(comma(self.name, *self._comma))
        if self._odd and self._numbers >= _MOSTLY * filled:
            cell, row = self._odd
            raise ValueError(
                f"column {name} holds {shown(cell)} in data row {row}, and numbers in {self._numbers:,} of {filled:,} cells. "
                f"Correct the cell, or leave it empty if the number is missing, or {_LEAVE_OUT}."
            )
        pa, pc = arrow(), arrow(".compute")
        if pc.all(pc.match_substring_regex(pa.array(list(self._levels)), _DATE)).as_py():
            raise ValueError(dates(self.name, listed(self._levels, 1)))
        if self._many:
            raise ValueError(
                f"column {name} has more than {self.max_levels} different values ({listed(self._levels, 3)}), which are not "
                f"numbers: {_LEAVE_OUT}, or with --id if it names the rows."
            )


def refuse_type(name: str, kind: Any) -> None:
    """Raise ValueError for types that are neither numbers nor categories."""
    types = arrow().types
    if types.is_nested(kind):
        raise ValueError(
            f"column {shown(name)} holds {str(kind)[:60]}: give each part a column of its own, or {_LEAVE_OUT}."
        )
    if types.is_temporal(kind):
        raise ValueError(dates(name, str(kind)))


def dates(name: str, what: str) -> str:
    """Message for dates."""
    return (
        f"column {shown(name)} holds dates or times ({what}): turn them into a number, such as days since an event, "
        f"or {_LEAVE_OUT}."
    )


def comma(name: str, cell: str, row: int, mark: str) -> str:
    """Message for a number with another decimal mark, or with thousands separators."""
    return (
        f"column {shown(name)} holds {shown(cell)} in data row {row}: write numbers with a decimal "
        f"{'point' if mark == '.' else 'comma'} and without thousands separators, or name another mark with --decimal."
    )


def infinite(name: str, cell: str, row: int) -> str:
    """Message for an infinite number."""
    return (
        f"column {shown(name)} holds {shown(cell)} in data row {row}, which is infinite: give a number, or leave the cell "
        "empty if it is missing."
    )


class Median:
    """Exact median of values that come in batches, once or twice.

    In the first pass up to `most` values are kept. If there are more, they are a random sample, which brackets the median within
    five standard errors; in a second pass values below the bracket are counted and those inside are kept, a twelfth at most.
    `value` is the median, None until it is known.
    """

    def __init__(self, most: int = _FEWEST) -> None:
        self.value: float | None = None
        self._most, self._kept = most, 0
        self._random = np.random.default_rng(0)
        self._share = 1.0  # sampled share of the values
        self._sample: list[NDArray[np.float64]] = []  # random numbers, and the values
        self._low, self._high = math.nan, math.nan
        self._start_pass()

    def _start_pass(self) -> None:
        self._count = self._below = self._at_low = self._at_high = 0
        self._inside: list[NDArray[np.float64]] = []

    def add(self, values: NDArray[np.float64]) -> None:
        """Add a batch of values without NaN."""
        self._count += len(values)
        if not math.isnan(self._low):
            self._below += int((values < self._low).sum())
            self._at_low += int((values == self._low).sum())
            self._at_high += int((values == self._high).sum()) if self._high > self._low else 0
            self._inside.append(values[(values > self._low) & (values < self._high)])
            return
        drawn = np.vstack([self._random.random(len(values)), values])
        self._sample.append(drawn[:, drawn[0] < self._share])
        self._kept += self._sample[-1].shape[1]
        while self._kept > self._most:
            self._share /= 2
            self._sample = [sample[:, sample[0] < self._share] for sample in self._sample]
            self._kept = sum(sample.shape[1] for sample in self._sample)

    def finish(self) -> None:
        """End a pass: set `value`, or bracket the median if another pass is needed."""
        if not self._count:
            return
        ranks = ((self._count - 1) // 2, self._count // 2)
        if math.isnan(self._low):
            kept = np.sort(np.hstack(self._sample)[1])
            self._sample = []
            if self._share < 1.0:
                width = 2.5 / math.sqrt(len(kept))
                self._low, self._high = (float(kept[round(len(kept) * (0.5 + way * width))]) for way in (-1, 1))
                self._start_pass()
                return
            middle = [float(kept[rank]) for rank in ranks]
        else:
            inside = np.sort(np.concatenate(self._inside))
            ends = np.cumsum([self._below, self._at_low, len(inside), self._at_high])
            if ranks[0] < ends[0] or ranks[1] >= ends[3]:  # one in a million times
                self._low, self._high = -math.inf, math.inf
                self._start_pass()
                return
            middle = [
                self._low if rank < ends[1] else self._high if rank >= ends[2] else float(inside[rank - ends[1]])
                for rank in ranks
            ]
        self.value = middle[0] / 2 + middle[1] / 2


def _find_medians(medians: Mapping[str, Median], batches: Callable[[], Iterable[Any]]) -> None:
    """Finish the medians, reading again for those that need it."""
    for median in medians.values():
        median.finish()
    while unknown := {name: median for name, median in medians.items() if median.value is None}:
        for batch in batches():
            for name, median in unknown.items():
                values = as_numbers(batch.column(name)).values
                median.add(values[~np.isnan(values)])
        for median in unknown.values():
            median.finish()


# Features


class ColumnFeatures(NamedTuple):
    """Features of a column (rows, width), and masks of missing cells and of unseen categories."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    unseen: NDArray[np.bool_]


def _number(column: dict[str, Any], cells: Any, seen: int) -> ColumnFeatures:
    numbers = as_numbers(cells)
    wrong = numbers.odd | np.isinf(numbers.values)
    if wrong.any():
        i = int(np.argmax(wrong))
        name, cell, row = column["name"], str(cells[i].as_py()), seen + i + 1
        if not numbers.odd[i]:
            raise ValueError(infinite(name, cell, row))
        if with_other_mark(cells.slice(i, 1))[0]:
            raise ValueError(comma(name, cell, row, decimal_mark(cells)))
        raise ValueError(
            f"column {shown(name)} holds {shown(cell)} in data row {row}, where the model was fitted with numbers: correct the "
            "cell, or leave it empty if the number is missing."
        )
    fill = np.nan if column["fill"] is None else column["fill"]
    values = np.where(numbers.missing, fill, numbers.values)
    return ColumnFeatures(values[:, None], numbers.missing, np.zeros(len(values), dtype=bool))


def _one_hot(column: dict[str, Any], cells: Any) -> ColumnFeatures:
    pa, pc = arrow(), arrow(".compute")
    levels, boolean = column["levels"], column["kind"] == "boolean"
    text = trimmed(cells)
    missing = missing_cells(text)
    if boolean:
        places = truths(text)
    else:
        places = pc.index_in(text, value_set=pa.array(levels, pa.string())).fill_null(-1).to_numpy(zero_copy_only=False)
    unseen = (places < 0) & ~missing
    fill = -1 if column["fill"] is None else levels.index(column["fill"])
    places = np.where(missing | unseen, fill, places)[:, None]
    return ColumnFeatures(np.where(places < 0, np.nan, places == np.arange(1, len(levels))), missing, unseen)


def is_column(column: Any) -> bool:
    """Whether a value, possibly from a file, is an entry of `columns_`."""
    if not isinstance(column, dict) or not isinstance(column.get("name"), str) or column.get("kind") not in _KINDS:
        return False
    levels, fill = column.get("levels"), column.get("fill")
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        return False
    if column["kind"] == "number":
        return not levels and (fill is None or (isinstance(fill, int | float) and bool(np.isfinite(fill))))
    enough = levels == list(TRUTHS) if column["kind"] == "boolean" else len(levels) > 1
    return enough and (fill is None or fill in levels)
