"""Columns of a table as the features of a model: what they hold, and how numbers and categories become features."""

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
    is_numeric,
    listed,
    missing_cells,
    shown,
    trimmed,
    truths,
    with_comma,
)
from marmix.tables.labels import LabelColumn
from marmix.tables.reading import check_columns, naming, record_batches

_KINDS = ("number", "boolean", "category")
_MOSTLY = 0.8  # of the cells are numbers: then the others are mistakes rather than categories
_DATE = r"^([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4})([T ].*)?$"
_LEAVE_OUT = "leave the column out with --exclude"
_FEWEST = 2**13  # numbers of a column that are kept to find its median
_KEPT = 2**22  # numbers of all columns that are kept, if they are more


@dataclass(frozen=True)
class Counts:
    """What `Preparation` had to fill in, or left as NaN; counts of parts of a table add up.

    Attributes
    ----------
    rows : int
        Rows with a missing feature.
    missing : dict
        Missing cells, by column.
    unseen : dict
        Cells with a category that the fit had not seen, by column; they are treated as missing.
    examples : dict
        The first such category, by column.
    """

    rows: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    @classmethod
    def none(cls) -> Self:
        """Nothing yet."""
        return cls()

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.rows + other.rows,
            _added(self.missing, other.missing),
            _added(self.unseen, other.unseen),
            other.examples | self.examples,
        )

    def notes(self) -> list[str]:
        """The counts in plain words."""
        return [
            f"Column {shown(name)} is empty in {counted(count, 'row')}." for name, count in self.missing.items()
        ] + [
            f"Column {shown(name)} holds values that the model was not fitted with, such as {shown(self.examples[name])}, "
            f"in {counted(count, 'row')}; they count as missing."
            for name, count in self.unseen.items()
        ]


def _added(ours: dict[str, int], theirs: dict[str, int]) -> dict[str, int]:
    return ours | {name: ours.get(name, 0) + count for name, count in theirs.items()}


class Preparation(TransformerMixin, BaseEstimator):
    """Columns of a table as features: numbers as they are, categories one-hot without their first level.

    What a column is follows from its cells, as they are or would be written in a CSV file, and not from how they are stored.
    So the same data give the same features from text, pandas, polars or Parquet.

    - **Missing** are null, NaN, blanks, and the texts NA, N/A, #N/A, NaN, nan, null, NULL, None, <NA>, NaT and ?. -1 is a
      number.
    - A **number** column has numbers in all other cells, a **boolean** one true and false, which become 1 and 0.
    - Any other is a **category** column if it has at most `max_levels` different texts, compared without blanks around
      them. Each but the first in sorted order gets a feature that is 1 where it stands.
    - Refused: dates and times; numbers in 80 % of the cells or more, but not in all; numbers with a decimal comma; infinity;
      more than `max_levels` texts.
    - Columns with one value in all rows, or none, are left out, with a note.

    Parameters
    ----------
    features : list of str or None, default=None
        Columns to use, in this order; all by default.
    impute : {"median", "drop"}, default="median"
        What is done where a cell is missing: the median of the column's numbers or its most frequent category are filled in, or
        NaN is left in every feature of the column, for the caller to drop the row.
    max_levels : int, default=20

    Attributes
    ----------
    columns_ : list of dict
        The columns in use: "name", "kind" ("number", "boolean" or "category"), "levels" (sorted), "fill" (what is filled in: a
        number, a level, or None), "missing" (cells of the fit).
    notes_ : list of str
        What was left out, in plain words.
    n_rows_ : int
        Rows of the fit.
    feature_names_in_ : list of str
        All columns that were looked at.
    n_features_in_ : int

    Notes
    -----
    At `transform` a category that the fit had not seen is treated as a missing cell; `transform_counted` tells how many
    there were. A cell that is no number in a number column is an error.

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
        """Find out what the columns hold.

        Parameters
        ----------
        X : table
            A pandas or polars frame, a pyarrow Table or RecordBatch, a dict of arrays, or a NumPy array.
        y : ignored
        """
        return self.fit_batches(lambda: _batches(X))

    def fit_batches(self, batches: Callable[[], Iterable[Any]], labels: LabelColumn | None = None) -> Self:
        """`fit` on a table that comes in record batches, in little memory.

        The batches are read once. Medians are exact: with more than 4 million numbers in the table and 8192 rows the batches are
        read a second time for them, and about a twelfth of the numbers is held in memory.

        Parameters
        ----------
        batches : callable
            Gives the record batches from the first on, each time it is called.
        labels : LabelColumn or None, default=None
            Takes its column of the batches, which is no feature, in the same reading. Its `classes` and `codes` are complete
            afterwards.
        """
        if self.impute not in ("median", "drop"):
            raise ValueError(f"impute={self.impute!r} is not one of 'median', 'drop'.")
        surveys: dict[str, Survey] = {}
        medians: dict[str, Median] = {}
        rows = 0
        for batch in batches():
            if not surveys:
                names = [name for name in batch.schema.names if labels is None or name != labels.name]
                surveys = {name: Survey(name, self.max_levels) for name in self._chosen(names)}
                most = max(_FEWEST, _KEPT // len(surveys))
                medians = {name: Median(most) for name in surveys} if self.impute == "median" else {}
            rows += batch.num_rows
            if labels is not None:
                labels.add(batch.column(labels.name))
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
            raise ValueError("no column is left as a feature: name one at least.")
        if isinstance(self.features, str) or len(set(chosen)) < len(chosen):
            raise ValueError(f"features={self.features!r} must be a list that names each column once.")
        check_columns(chosen, names, "the table")
        return chosen

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The features of every row.

        Parameters
        ----------
        X : table
            As for `fit`. Its columns may be in any order, and others are ignored.

        Returns
        -------
        array of shape (rows, features)
        """
        return self.transform_counted(X)[0]

    def transform_counted(self, X: Any, first_row: int = 0) -> tuple[NDArray[np.float64], Counts]:
        """The features of every row, and what had to be filled in.

        Parameters
        ----------
        X : table
        first_row : int, default=0
            How many rows of the table came before these, for messages.

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
        """Names of the features: the column's, or ``column=level``."""
        return np.array([name for column in self._columns() for name in feature_names(column)], dtype=object)

    def features_in(self) -> list[str]:
        """Names of the columns that `transform` needs."""
        return [column["name"] for column in self._columns()]

    def _columns(self) -> list[dict[str, Any]]:
        """The columns in use, which may have come from a file."""
        check_is_fitted(self, "columns_")
        columns = self.columns_
        if not isinstance(columns, list) or not columns or not all(map(is_column, columns)):
            raise ValueError("columns_ is not a list of columns as fit leaves it: fit again.")
        return columns

    def _block(self, batch: Any, columns: list[dict[str, Any]], seen: int) -> tuple[NDArray[np.float64], Counts]:
        parts, lost = [], np.zeros(batch.num_rows, dtype=bool)
        counts = Counts()
        for column in columns:
            name, cells = column["name"], batch.column(column["name"])
            features = column_features(column, cells, seen)
            parts.append(features.values)
            lost |= features.missing | features.unseen
            if features.missing.any():
                counts.missing[name] = int(features.missing.sum())
            if features.unseen.any():
                counts.unseen[name] = int(features.unseen.sum())
                counts.examples[name] = trimmed(cells)[int(np.argmax(features.unseen))].as_py()
        return np.column_stack(parts), counts + Counts(int(lost.sum()))


def _batches(X: Any) -> Iterator[Any]:
    """Record batches of a table."""
    pa = arrow()
    with naming("the table"):
        if isinstance(X, Mapping):
            yield pa.RecordBatch.from_pydict({name: pa.array(values, from_pandas=True) for name, values in X.items()})
        else:
            yield from record_batches(X)


# What a column holds.


class Survey:
    """What was seen of a column.

    Parameters
    ----------
    name : str
    max_levels : int
        Different texts up to which a column is one of categories.

    Attributes
    ----------
    rows, missing : int
    """

    def __init__(self, name: str, max_levels: int):
        self.name, self.max_levels = name, max_levels
        self.rows = self.missing = 0
        self._numbers = self._commas = 0
        self._low, self._high = np.inf, -np.inf
        self._odd: tuple[str, int] | None = None
        self._comma: tuple[str, int] | None = None
        self._infinite: tuple[str, int] | None = None
        self._levels: Counter[str] = Counter()

    def add(self, column: Any) -> Numbers:
        """Look at the cells of the next rows."""
        refuse_type(self.name, column.type)
        numbers = as_numbers(column)
        given = numbers.values[~(numbers.missing | numbers.odd)]
        if self._infinite is None and np.isinf(given).any():
            self._infinite = self._first(column, np.isinf(numbers.values))
        if len(given):
            self._low, self._high = min(self._low, given.min()), max(self._high, given.max())
        if not is_numeric(column.type) and (numbers.odd.any() or not self._many):
            self._add_texts(column, numbers)
        self._numbers += len(given)
        self.missing += int(numbers.missing.sum())
        self.rows += len(column)
        return numbers

    def _add_texts(self, column: Any, numbers: Numbers) -> None:
        pa, pc = arrow(), arrow(".compute")
        text = trimmed(column)
        if numbers.odd.any():
            self._odd = self._odd or self._first(text, numbers.odd)
            commas = with_comma(text) & numbers.odd
            self._commas += int(commas.sum())
            if commas.any():
                self._comma = self._comma or self._first(text, commas)
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
        """The column as `Preparation` keeps it, or why it is left out; what cannot be used is refused."""
        given, name = self.rows - self.missing, shown(self.name)
        if not given:
            return f"Column {name} has no value and was left out."
        column: dict[str, Any] = {
            "name": self.name,
            "kind": "number",
            "levels": [],
            "fill": None,
            "missing": self.missing,
        }
        if self._numbers == given:
            if self._infinite:
                raise ValueError(infinite(self.name, *self._infinite))
            return column if self._low < self._high else self._constant(f"{self._low:.15g}")
        lowered = Counter[str]()
        for level, count in self._levels.items():
            lowered[level.lower()] += count
        levels = lowered if not self._many and set(lowered) <= set(TRUTHS) else self._levels
        if levels is self._levels:
            self._refuse_texts(given)
        if len(levels) == 1:
            return self._constant(next(iter(levels)))
        kind = "boolean" if levels is lowered else "category"
        most = min(levels, key=lambda level: (-levels[level], level))
        return column | {"kind": kind, "levels": sorted(levels), "fill": most}

    def _constant(self, value: str) -> str:
        return f"Column {shown(self.name)} has the same value, {shown(value)}, in every row and was left out."

    def _refuse_texts(self, given: int) -> None:
        """Refuse text that is no category."""
        name = shown(self.name)
        if self._comma and self._numbers + self._commas >= _MOSTLY * given:
            raise ValueError(comma(self.name, *self._comma))
        if self._odd and self._numbers >= _MOSTLY * given:
            cell, row = self._odd
            raise ValueError(
                f"column {name} holds {shown(cell)} in data row {row}, and numbers in {self._numbers:,} of {given:,} cells. "
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
    """Refuse what can be neither a number nor a category."""
    types = arrow().types
    if types.is_nested(kind):
        what = str(kind)[:60]
        raise ValueError(f"column {shown(name)} holds {what}: give each part a column of its own, or {_LEAVE_OUT}.")
    if types.is_temporal(kind):
        raise ValueError(dates(name, str(kind)))


def dates(name: str, what: str) -> str:
    """Why dates are refused."""
    return (
        f"column {shown(name)} holds dates or times ({what}): turn them into a number, such as days since an event, "
        f"or {_LEAVE_OUT}."
    )


def comma(name: str, cell: str, row: int) -> str:
    """Why a number with a comma is refused."""
    return (
        f"column {shown(name)} holds {shown(cell)} in data row {row}: write numbers with a decimal point, and nothing between "
        "thousands."
    )


def infinite(name: str, cell: str, row: int) -> str:
    """Why an infinite number is refused."""
    return (
        f"column {shown(name)} holds {shown(cell)} in data row {row}, which is infinite: give a number, or leave the cell "
        "empty if it is missing."
    )


class Median:
    """The median of values that come in pieces, the same pieces once or twice.

    The first time all values are kept, or a random sample, which brackets the median by five standard errors. The second time
    values below the bracket are counted, and those inside are kept, a twelfth at most.

    Parameters
    ----------
    most : int, default=8192
        Values that are kept the first time; if there are no more, the median is known at once.

    Attributes
    ----------
    value : float or None
        The median, once it is known. The mean of the two middle values, of an even number.
    """

    def __init__(self, most: int = _FEWEST) -> None:
        self.value: float | None = None
        self._most, self._kept = most, 0
        self._random = np.random.default_rng(0)
        self._share = 1.0  # of the values in the sample
        self._sample: list[NDArray[np.float64]] = []  # random numbers, and the values
        self._low, self._high = math.nan, math.nan
        self._begin()

    def _begin(self) -> None:
        self._count = self._below = self._at_low = self._at_high = 0
        self._inside: list[NDArray[np.float64]] = []

    def add(self, values: NDArray[np.float64]) -> None:
        """Take a piece, without NaN."""
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
        """All pieces were added: find the median, or a bracket for it if `value` is None still."""
        if not self._count:
            return
        ranks = ((self._count - 1) // 2, self._count // 2)
        if math.isnan(self._low):
            kept = np.sort(np.hstack(self._sample)[1])
            self._sample = []
            if self._share < 1.0:
                width = 2.5 / math.sqrt(len(kept))
                self._low, self._high = (float(kept[round(len(kept) * (0.5 + way * width))]) for way in (-1, 1))
                self._begin()
                return
            middle = [float(kept[rank]) for rank in ranks]
        else:
            inside = np.sort(np.concatenate(self._inside))
            ends = np.cumsum([self._below, self._at_low, len(inside), self._at_high])
            if ranks[0] < ends[0] or ranks[1] >= ends[3]:  # one in a million times
                self._low, self._high = -math.inf, math.inf
                self._begin()
                return
            middle = [
                self._low if rank < ends[1] else self._high if rank >= ends[2] else float(inside[rank - ends[1]])
                for rank in ranks
            ]
        self.value = middle[0] / 2 + middle[1] / 2


def _find_medians(medians: Mapping[str, Median], batches: Callable[[], Iterable[Any]]) -> None:
    """Finish the medians, and read again for those that need it."""
    for median in medians.values():
        median.finish()
    while unknown := {name: median for name, median in medians.items() if median.value is None}:
        for batch in batches():
            for name, median in unknown.items():
                values = as_numbers(batch.column(name)).values
                median.add(values[~np.isnan(values)])
        for median in unknown.values():
            median.finish()


# Cells of a column as features.


class ColumnFeatures(NamedTuple):
    """Features of a column (rows, width), and which of its cells are missing or of a category that the fit had not seen."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    unseen: NDArray[np.bool_]


def feature_names(column: dict[str, Any]) -> list[str]:
    """Names of the features of a column."""
    if column["kind"] == "category":
        return [f"{column['name']}={level}" for level in column["levels"][1:]]
    return [column["name"]]


def column_features(column: dict[str, Any], cells: Any, seen: int) -> ColumnFeatures:
    """Features of some rows, what is missing filled in by the column's rule; `seen` rows came before."""
    refuse_type(column["name"], cells.type)
    return _number(column, cells, seen) if column["kind"] == "number" else _one_hot(column, cells)


def _number(column: dict[str, Any], cells: Any, seen: int) -> ColumnFeatures:
    numbers = as_numbers(cells)
    wrong = numbers.odd | np.isinf(numbers.values)
    if wrong.any():
        i = int(np.argmax(wrong))
        name, cell, row = column["name"], str(cells[i].as_py()), seen + i + 1
        if not numbers.odd[i]:
            raise ValueError(infinite(name, cell, row))
        if with_comma(trimmed(cells.slice(i, 1)))[0]:
            raise ValueError(comma(name, cell, row))
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
    """Whether a value, which may come from a file, describes a column as a fit does."""
    if not isinstance(column, dict) or not isinstance(column.get("name"), str) or column.get("kind") not in _KINDS:
        return False
    levels, fill = column.get("levels"), column.get("fill")
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        return False
    if column["kind"] == "number":
        return not levels and (fill is None or (isinstance(fill, int | float) and bool(np.isfinite(fill))))
    enough = levels == list(TRUTHS) if column["kind"] == "boolean" else len(levels) > 1
    return enough and (fill is None or fill in levels)
