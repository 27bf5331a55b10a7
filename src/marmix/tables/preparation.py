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

from marmix.core.arrays import LARGEST
from marmix.core.labels import MISSING_TEXTS
from marmix.tables.cells import (
    NUMBER,
    TRUTHS,
    Numbers,
    arrow,
    as_numbers,
    can_be_typed,
    counted,
    decimal_mark,
    is_numeric,
    listed,
    matching,
    missing_cells,
    shown,
    trimmed,
    truths,
    with_other_mark,
)
from marmix.tables.labels import LabelColumn
from marmix.tables.reading import check_columns, naming, record_batches
from marmix.terminal import command_line

_KINDS = ("number", "boolean", "category")
_MOSTLY = 0.8  # share of numbers from which other cells are mistakes rather than categories
_DAY = r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|(19|20)[0-9]{2}[-/][0-9]{1,2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}"
_MONTH = r"[0-9]{1,2}[ .-]+\p{L}{3,9}[ .,-]+[0-9]{2,4}|\p{L}{3,9}[ .]+[0-9]{1,2},? +[0-9]{4}"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]|[0-9]{1,2}:[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?"
_DATE = rf"^(({_DAY}|{_MONTH})([T ].*)?|({_TIME})( ?[aApP][mM])?)$"
_SIGNED = r"^(\p{Sc}\s*[+-]?[0-9][0-9.,]*|[+-]?[0-9][0-9.,]*\s*[%\x{2030}\p{Sc}])$"  # 25 %, and money
_ERROR = r"^(#(DIV/0|REF|VALUE|NUM|NULL|SPILL|CALC|FIELD|BLOCKED|CONNECT|BUSY|UNKNOWN)!|#NAME\?|Err:[0-9]{3})$"  # of spreadsheets
_LEAVE_OUT = "leave the column out with --exclude"
_ODD_CELLS = 20  # kept of each column, for messages
_SPARSE, _SPARSE_ROWS = 3, 1000  # most filled cells of a sparse row, and most such rows kept
_STRAY_ROWS = 10  # most rows taken as titles or footers
_FEWEST = 2**13  # numbers kept per column for its median, at least
_KEPT = 2**22  # numbers kept of all columns together


@dataclass(frozen=True)
class Counts:
    r"""Counts of the missing cells in a table; those of parts of a table can be added.

    Attributes
    ----------
    rows : int
        Number of rows with a missing feature, except blank ones.
    missing : dict
        Number of missing cells by column, except in blank rows.
    unseen : dict
        Number of cells with a category not seen in the fit, by column; they are treated as missing.
    examples : dict
        The first such category by column.
    blank : tuple of int
        Positions, from 0, of the rows without a single feature: all cells are missing or, as in a footer, hold a text
        that was not seen in the fit. `marmix fit` leaves such rows out, and no command predicts a label for them.

    See Also
    --------
    Preparation.transform_counted : Returns the features and these counts.

    Examples
    --------
    >>> from marmix.tables import Preparation
    >>> preparation = Preparation().fit({"age": ["41", "30", "35"], "group": ["b", "a", "b"]})
    >>> _, counts = preparation.transform_counted({"age": ["NA", "52"], "group": ["a", "c"]})
    >>> counts.rows, counts.missing, counts.unseen
    (2, {'age': 1}, {'group': 1})
    >>> print(*counts.notes(), sep="\n")
    Column 'age' is empty in 1 row.
    Column 'group' holds values that the model was not fitted with, such as 'c', in 1 row; they count as missing.
    """

    rows: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    blank: tuple[int, ...] = ()

    @classmethod
    def none(cls) -> Self:
        """Return the counts of no rows, to which others can be added.

        Returns
        -------
        Counts
            All zero.
        """
        return cls()

    def __add__(self, other: "Counts") -> "Counts":
        def total(ours: dict[str, int], theirs: dict[str, int]) -> dict[str, int]:
            return ours | {name: ours.get(name, 0) + count for name, count in theirs.items()}

        missing, unseen = total(self.missing, other.missing), total(self.unseen, other.unseen)
        blank = self.blank + other.blank
        return Counts(self.rows + other.rows, missing, unseen, other.examples | self.examples, blank)

    def notes(self) -> list[str]:
        """Return the counts as sentences.

        Returns
        -------
        list of str
            A sentence for each column with missing cells or unseen categories, and one for blank rows.
        """
        return (
            [f"Column {shown(name)} is empty in {counted(count, 'row')}." for name, count in self.missing.items()]
            + [
                f"Column {shown(name)} holds values that the model was not fitted with, such as {shown(self.examples[name])}, "
                f"in {counted(count, 'row')}; they count as missing."
                for name, count in self.unseen.items()
            ]
            + ([blank_rows([place + 1 for place in self.blank])] if self.blank else [])
        )


def blank_rows(rows: Sequence[int]) -> str:
    """A sentence about rows without a single feature; `rows` are counted from 1."""
    numbers = ", ".join(f"{row:,}" for row in rows[:10]) + (", ..." if len(rows) > 10 else "")
    words = f"Data row {numbers} has" if len(rows) == 1 else f"{len(rows):,} data rows ({numbers}) have"
    return f"{words} no feature at all: no label is imputed there, and a given label is left out of the fit."


class Preparation(TransformerMixin, BaseEstimator):
    """Transformer of table columns to features: numbers as they are, categories one-hot without their first level.

    The kind of a column follows from its cells as text, not from how they are stored, so that the same data give the
    same features from CSV, pandas, polars or Parquet.

    - **Missing** are null, NaN, blank cells, and the texts NA, N/A, #N/A, NaN, nan, null, NULL, None, <NA>, NaT and ?. -1 is a
      number.
    - A **number** column has numbers in all other cells, a **boolean** column true and false, which become 1 and 0.
    - Any other is a **category** column if it has at most `max_levels` different texts, compared without surrounding
      whitespace. Each level except the first in sorted order becomes a feature of zeros and ones.
    - Errors: dates and times; numbers in at least 80 % of the cells, but not in all; numbers with a comma, unless `open_table`
      found decimal commas; infinity; more than `max_levels` texts.
    - Columns with a single value, or none, are left out, with a note.
    - A row that holds nothing but a text or two that occur in no other row, such as a footer, is treated as empty.

    Parameters
    ----------
    features : list of str or None, default=None
        Columns to use, in this order; all by default.
    impute : {"median", "drop"}, default="median"
        "median" fills missing cells with the median or the most frequent category. "drop" leaves NaN in every feature
        of the column, for the caller to drop the row.
    max_levels : int, default=20
        Most different texts of a category column.
    missing_cells : list of str or None, default=None
        Further texts that mean a missing value, in every column; a number such as "-99" also where it is stored as a
        number.

    Attributes
    ----------
    columns_ : list of dict
        The columns in use: "name", "kind" ("number", "boolean" or "category"), "levels" (sorted), "fill" (the number or
        level filled in, or None), "missing" (number of missing cells).
    notes_ : list of str
        Which columns were left out, and why.
    n_rows_ : int
        Number of rows of the fit.
    feature_names_in_ : list of str
        All columns considered.
    n_features_in_ : int
        Their number.

    See Also
    --------
    open_table : Read a data file in batches.
    LabelColumn : Encode the label column.
    marmix.save : Save a pipeline of a `Preparation` and a classifier, as `marmix fit` does.

    Notes
    -----
    In `transform`, a category not seen in the fit is treated as missing; `transform_counted` counts them. A cell that
    is not a number in a number column is an error, unless the row has no feature at all. Such a row is filled like any
    other; the program predicts no label for it, and `transform_counted` says where such rows are.

    Examples
    --------
    >>> from marmix.tables import Preparation
    >>> table = {"age": ["41", "NA", "35"], "group": ["b", "a", "b"]}
    >>> preparation = Preparation().fit(table)
    >>> preparation.get_feature_names_out().tolist(), preparation.transform(table).tolist()
    (['age', 'group=b'], [[41.0, 1.0], [38.0, 0.0], [35.0, 1.0]])

    The missing age was filled with the median. It goes before a classifier in a pipeline, which then takes tables:

    >>> from sklearn.pipeline import make_pipeline
    >>> from marmix import MARLogisticRegression
    >>> table = {"age": ["41", "29", "35", "58", "62", "50"], "group": ["b", "a", "b", "a", "b", "a"]}
    >>> model = make_pipeline(Preparation(), MARLogisticRegression())
    >>> model.fit(table, ["young", "young", None, "old", "old", None]).predict({"age": [33, 60], "group": ["a", "a"]})
    array(['young', 'old'], dtype=object)
    """

    def __init__(
        self,
        features: Sequence[str] | None = None,
        impute: str = "median",
        max_levels: int = 20,
        missing_cells: Sequence[str] | None = None,
    ):
        self.features = features
        self.impute = impute
        self.max_levels = max_levels
        self.missing_cells = missing_cells

    def fit(self, X: Any, y: Any = None) -> Self:
        """Determine the kind of each column, and what fills its missing cells.

        Parameters
        ----------
        X : table
            A pandas or polars frame, a pyarrow Table or RecordBatch, a dict of arrays, or a NumPy array.
        y : object
            Ignored; here for compatibility with scikit-learn.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        ValueError
            If a column cannot be used, with its name, the cell and what to do.
        """
        return self.fit_batches(lambda: table_batches(X))

    def fit_batches(self, batches: Callable[[], Iterable[Any]], labels: LabelColumn | None = None) -> Self:
        """Fit to a table that comes in record batches.

        The batches are read once, and a second time for exact medians if the table has more than 4 million numbers and
        8192 rows; about a twelfth of the numbers is then held in memory.

        Parameters
        ----------
        batches : callable
            Returns an iterator of the record batches, from the first on.
        labels : LabelColumn or None, default=None
            Label column to add in the same reading; it is not used as a feature.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        ValueError
            If there are no rows, or a column cannot be used.
        """
        reading = None
        for batch in batches():
            if reading is None:
                names = [name for name in batch.schema.names if labels is None or name not in labels.columns]
                reading = self.reading(names)
            reading.add(batch)
            if labels is not None:
                labels.add_batch(batch)
        if reading is None:
            raise ValueError("the table has no rows.")
        return self.fit_reading(reading, batches)

    def reading(self, names: Sequence[str]) -> "Reading":
        """Return a `Reading`, to which the batches of a table are added, for `fit_reading`.

        Parameters
        ----------
        names : sequence of str
            Columns of the table; those in `features` are read.

        Returns
        -------
        Reading
            Of no rows yet.
        """
        if self.impute not in ("median", "drop"):
            raise ValueError(f"impute={self.impute!r} is not one of 'median', 'drop'.")
        return Reading(self._chosen(names), self.max_levels, self._markers(), medians=self.impute == "median")

    def _markers(self) -> tuple[str, ...]:
        """The trimmed texts that mean a missing value, checked as they may come from a file."""
        texts = [] if self.missing_cells is None else self.missing_cells
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"missing_cells={texts!r} must be a list of texts.")
        return (*MISSING_TEXTS, *map(str.strip, texts))

    def fit_reading(self, reading: "Reading", batches: Callable[[], Iterable[Any]]) -> Self:
        """Fit to a table that has been read.

        Parameters
        ----------
        reading : Reading
            From `reading`, with all rows added.
        batches : callable
            Returns an iterator of the record batches, which may be read again for exact medians.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        ValueError
            If there are no rows, or a column cannot be used.
        """
        if not reading.rows:
            raise ValueError("the table has no rows.")
        reading.leave_out_strays()
        chosen = list(reading.columns) if self.features is None else list(self.features)
        columns = {name: reading.columns[name].column() for name in chosen}
        used = [column for column in columns.values() if isinstance(column, dict)]
        notes = [column for column in columns.values() if isinstance(column, str)]
        if not used:
            raise ValueError(f"no column can be used as a feature. {notes[0]}")
        medians = reading.medians
        numbers = [column["name"] for column in used if column["kind"] == "number"]
        _find_medians({name: medians[name] for name in numbers if medians}, batches, self._markers())
        for column in used:
            if self.impute == "drop":
                column["fill"] = None
            elif column["kind"] == "number":
                column["fill"] = medians[column["name"]].value
        self.columns_ = used
        self.notes_ = notes
        self.n_rows_ = reading.rows
        self.feature_names_in_ = chosen
        self.n_features_in_ = len(chosen)
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
        """Return the features of each row.

        Parameters
        ----------
        X : table
            As for `fit`. The columns may be in any order; others are ignored.

        Returns
        -------
        array of shape (rows, features)
            Missing cells are filled, or NaN with impute="drop".

        Raises
        ------
        ValueError
            If a column is not there, or a cell of a number column is not a number.
        """
        return self.transform_counted(X)[0]

    def transform_counted(self, X: Any, first_row: int = 0) -> tuple[NDArray[np.float64], Counts]:
        """Return the features of each row, and the counts of missing cells.

        Parameters
        ----------
        X : table
            As for `transform`.
        first_row : int, default=0
            Number of rows of the table before these, for messages.

        Returns
        -------
        features : array of shape (rows, features)
            As from `transform`.
        counts : Counts
            Missing cells, categories not seen in the fit, and blank rows.
        """
        columns = self._columns()
        blocks, counts = [np.empty((0, len(self.get_feature_names_out())))], Counts()
        for batch in table_batches(X):
            check_columns([column["name"] for column in columns], batch.schema.names, "the table")
            block, block_counts = self._block(batch, columns, first_row)
            blocks.append(block)
            counts += block_counts
            first_row += batch.num_rows
        return np.concatenate(blocks) if len(blocks) != 2 else blocks[1], counts

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features: the column, or ``column=level``.

        Parameters
        ----------
        input_features : object
            Ignored; here for compatibility with scikit-learn.

        Returns
        -------
        array of str
            One name for each feature.
        """
        names: list[str] = []
        for column in self._columns():
            name, levels = column["name"], column["levels"][1:]
            names += [f"{name}={level}" for level in levels] if column["kind"] == "category" else [name]
        return np.array(names, dtype=object)

    def features_in(self) -> list[str]:
        """Return the names of the columns needed by `transform`.

        Returns
        -------
        list of str
            Without the columns that were left out.
        """
        return [column["name"] for column in self._columns()]

    def _columns(self) -> list[dict[str, Any]]:
        """The columns in use, checked as they may come from a file."""
        check_is_fitted(self, "columns_")
        columns = self.columns_
        if not isinstance(columns, list) or not columns or not all(map(is_column, columns)):
            raise ValueError("columns_ is not as set by fit: fit again.")
        self._markers()
        return columns

    def _block(self, batch: Any, columns: list[dict[str, Any]], seen: int) -> tuple[NDArray[np.float64], Counts]:
        parts, counts, markers = [], Counts(), self._markers()
        incomplete, blank = np.zeros(batch.num_rows, dtype=bool), np.ones(batch.num_rows, dtype=bool)
        missing: dict[str, NDArray[np.bool_]] = {}
        wrong: list[tuple[str, NDArray[np.bool_]]] = []
        for column in columns:
            name, cells = column["name"], batch.column(column["name"])
            refuse_type(name, cells.type)
            features = (_number if column["kind"] == "number" else _one_hot)(column, cells, markers)
            parts.append(features.values)
            absent = features.missing | features.unseen
            incomplete |= absent
            blank &= absent
            missing[name] = features.missing
            if features.unseen.any() and column["kind"] == "number":
                wrong.append((name, features.unseen))
            elif features.unseen.any():
                counts.unseen[name] = int(features.unseen.sum())
                counts.examples[name] = trimmed(cells)[int(np.argmax(features.unseen))].as_py()
        for name, cells in wrong:
            refused = cells if len(columns) == 1 else cells & ~blank
            if refused.any():
                place = int(np.argmax(refused))
                raise ValueError(_not_a_number(name, batch.column(name).slice(place, 1), seen + place + 1))
        cells_missing = {name: int((mask & ~blank).sum()) for name, mask in missing.items()}
        gaps = {name: count for name, count in cells_missing.items() if count}
        places = tuple((seen + np.flatnonzero(blank)).tolist())
        return np.column_stack(parts), counts + Counts(int((incomplete & ~blank).sum()), gaps, blank=places)


def table_batches(X: Any) -> Iterator[Any]:
    """Record batches of a table."""
    pa = arrow()
    with naming("the table"):
        if isinstance(X, Mapping):
            yield pa.RecordBatch.from_pydict({name: pa.array(values, from_pandas=True) for name, values in X.items()})
        else:
            yield from record_batches(X)


# Kinds of columns


class SparseRow(NamedTuple):
    """A row with few filled cells: its position from 0, and the filled cells, texts by column, None for numbers."""

    place: int
    cells: dict[str, str | None]


class Reading:
    """The first reading of a table that comes in batches: what the cells of each column are.

    Attributes
    ----------
    rows : int
        Rows so far.
    columns : dict
        A `ColumnSurvey` for each column.
    medians : dict
        A `Median` for each column, if asked for.
    sparse : list of SparseRow
        Rows with at most three filled cells; None if there are more than a thousand.
    """

    def __init__(self, names: Sequence[str], max_levels: int, markers: Sequence[str], *, medians: bool):
        self.rows = 0
        self.columns = {name: ColumnSurvey(name, max_levels, markers) for name in names}
        most = max(_FEWEST, _KEPT // max(len(names), 1))
        self.medians = {name: Median(most) for name in names} if medians else {}
        self.sparse: list[SparseRow] | None = []

    def add(self, batch: Any) -> dict[str, Numbers]:
        """Add the next rows, and return their cells as numbers by column."""
        cells = {name: survey.add(batch.column(name)) for name, survey in self.columns.items()}
        for name, median in self.medians.items():
            median.add(cells[name].values[np.isfinite(cells[name].values)])
        if self.sparse is not None:
            filled = np.zeros(batch.num_rows, dtype=np.int64)
            for numbers in cells.values():
                filled += ~numbers.missing
            places = np.flatnonzero(filled <= min(_SPARSE, len(cells) - 1))
            if len(self.sparse) + len(places) > _SPARSE_ROWS:
                self.sparse = None
            else:
                self.sparse += [self._sparse(batch, cells, i) for i in places.tolist()]
        self.rows += batch.num_rows
        return cells

    def _sparse(self, batch: Any, cells: dict[str, Numbers], i: int) -> SparseRow:
        texts = {
            name: trimmed(batch.column(name).slice(i, 1))[0].as_py() if numbers.odd[i] else None
            for name, numbers in cells.items()
            if not numbers.missing[i]
        }
        return SparseRow(self.rows + i, texts)

    def leave_out_strays(self) -> None:
        """Count as missing the cells of titles and footers: rows whose few cells hold texts that occur in no other row."""
        rows = [row for row in self.sparse or () if row.cells and None not in row.cells.values()]
        counts = Counter((name, text) for row in rows for name, text in row.cells.items())
        strays = [row for row in rows if all(self._is_stray(name, text, counts) for name, text in row.cells.items())]
        if 0 < len(strays) <= _STRAY_ROWS <= self.rows:
            for row in strays:
                for name, text in row.cells.items():
                    self.columns[name].leave_out(str(text), row.place)
            self.sparse = [row._replace(cells={}) if row in strays else row for row in self.sparse or ()]

    def _is_stray(self, name: str, text: str | None, counts: Counter[tuple[str, str | None]]) -> bool:
        survey = self.columns[name]
        if survey.mostly_numbers or survey.problem():
            return True
        return len(self.columns) > 2 and survey.count(str(text)) == counts[name, text]


class Problem(NamedTuple):
    """Why a column cannot be a feature, and what to do: "type", "dates", "comma", "sign", "odd", "infinite" or "many"."""

    kind: str
    text: str
    advice: str


class ColumnSurvey:
    """Summary of the cells of a column that comes in batches, from which its kind follows."""

    def __init__(self, name: str, max_levels: int, markers: Sequence[str] = MISSING_TEXTS):
        self.name, self.max_levels, self._markers = name, max_levels, markers
        self.rows = self.missing = 0
        self.low, self.high = np.inf, -np.inf
        self.odd: list[tuple[str, int]] = []  # the first cells that are no numbers, and their rows
        self._type: Problem | None = None
        self._numbers = self._commas = 0
        self._comma: tuple[str, int, str] | None = None
        self._infinite: tuple[str, int] | None = None
        self._error: tuple[str, int] | None = None
        self._levels: Counter[str] = Counter()
        self._batch_texts = self._batch_levels = 0  # texts of the first batch that has some, and different ones

    def add(self, column: Any) -> Numbers:
        """Add the cells of the next rows, and return them as numbers."""
        self._type = self._type or type_problem(self.name, column.type)
        if self._type:
            self.rows += len(column)
            missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
            self.missing += int(missing.sum())
            return Numbers(np.full(len(column), np.nan), missing, ~missing)
        numbers = numbers_of(column, self._markers)
        values = numbers.values[~(numbers.missing | numbers.odd)]
        if self._infinite is None and np.isinf(values).any():
            self._infinite = self._first(column, np.isinf(numbers.values))
        if len(values):
            self.low, self.high = min(self.low, values.min()), max(self.high, values.max())
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
            places = np.flatnonzero(numbers.odd)[: _ODD_CELLS - len(self.odd)].tolist()
            self.odd += [(text[i].as_py(), self.rows + i + 1) for i in places]
            errors = np.zeros(0, dtype=bool) if self._error else matching(text, _ERROR)
            if errors.any():
                self._error = self._first(text, errors)
            commas = with_other_mark(column) & numbers.odd
            self._commas += int(commas.sum())
            if commas.any():
                self._comma = self._comma or (*self._first(text, commas), decimal_mark(column))
        if not self._many:
            entries = pc.value_counts(text.filter(pa.array(~numbers.missing))).to_pylist()
            if not self._batch_texts:
                self._batch_texts, self._batch_levels = int((~numbers.missing).sum()), len(entries)
            for entry in entries:
                self._levels[entry["values"]] += entry["counts"]
                if self._many:
                    return

    def _first(self, column: Any, where: NDArray[np.bool_]) -> tuple[str, int]:
        i = int(np.argmax(where))
        return str(column[i].as_py()), self.rows + i + 1

    @property
    def _many(self) -> bool:
        return len(self._levels) > self.max_levels

    @property
    def filled(self) -> int:
        """Number of cells that are not missing."""
        return self.rows - self.missing

    @property
    def mostly_numbers(self) -> bool:
        """Whether other cells are mistakes rather than categories."""
        return self._numbers >= _MOSTLY * self.filled

    @property
    def distinct_share(self) -> float:
        """Share of different texts among the texts of the first batch."""
        return self._batch_levels / max(self._batch_texts, 1)

    @property
    def levels(self) -> dict[str, int]:
        """Numbers of cells by text; empty if there are more than `max_levels` texts, or only numbers."""
        return {} if self._many or self._numbers == self.filled else dict(self._levels)

    @property
    def some_levels(self) -> list[str]:
        """The first different texts."""
        return list(self._levels)

    @property
    def examples(self) -> str:
        """The first different texts, for a message."""
        return listed(self._levels, 3)

    @property
    def n_odd(self) -> int:
        """Number of cells that are no numbers."""
        return self.filled - self._numbers

    @property
    def nothing(self) -> bool:
        """Whether the column has a single value or none, and is left out."""
        return self.problem() is None and isinstance(self.column(), str)

    def count(self, text: str) -> int:
        """Number of cells with a text; 0 if there are too many texts to count."""
        return 0 if self._many else self._levels[text]

    def leave_out(self, text: str, place: int) -> None:
        """Count the cell of a row as missing."""
        self.missing += 1
        self.odd = [(cell, row) for cell, row in self.odd if row != place + 1]
        self._commas -= bool(self._comma and self._comma[1] == place + 1)
        self._levels -= Counter([text])

    def column(self) -> dict[str, Any] | str:
        """The column as an entry of `columns_`, or a note on why it is left out; ValueError if it cannot be used."""
        problem = self.problem()
        if problem:
            raise ValueError(f"{problem.text}: {problem.advice}.")
        if not self.filled:
            return f"Column {shown(self.name)} has no value and was left out."
        column: dict[str, Any] = {
            "name": self.name,
            "kind": "number",
            "levels": [],
            "fill": None,
            "missing": self.missing,
        }
        if self._numbers == self.filled:
            return column if self.low < self.high else self._constant(f"{self.low:.15g}")
        lowered = self._lowered()
        levels = lowered or self._levels
        if len(levels) == 1:
            return self._constant(next(iter(levels)))
        kind = "boolean" if lowered else "category"
        most = min(levels, key=lambda level: (-levels[level], level))
        return column | {"kind": kind, "levels": sorted(levels), "fill": most}

    def _lowered(self) -> Counter[str]:
        """The levels in lower case if these are true and false, otherwise none."""
        lowered = Counter[str]()
        for level, count in self._levels.items():
            lowered[level.lower()] += count
        return lowered if not self._many and set(lowered) <= set(TRUTHS) else Counter()

    def _constant(self, value: str) -> str:
        where = "filled cell" if self.missing else "row"
        return f"Column {shown(self.name)} has the same value, {shown(value)}, in every {where} and was left out."

    def problem(self) -> Problem | None:
        """Why the column cannot be a feature, if so."""
        if self._type or not self.filled:
            return self._type
        if self._numbers == self.filled:
            return Problem("infinite", *infinite(self.name, *self._infinite)) if self._infinite else None
        if self._lowered():
            return None
        name = shown(self.name)
        pa, pc = arrow(), arrow(".compute")
        dated = pc.sum(pc.match_substring_regex(pa.array(list(self._levels)), _DATE)).as_py()
        signed = pc.sum(pc.match_substring_regex(pa.array(list(self._levels)), _SIGNED)).as_py()
        if not self.mostly_numbers and signed >= _MOSTLY * len(self._levels):
            text = f"column {name} holds numbers with a percent or currency sign ({listed(self._levels, 3)})"
            return Problem("sign", text, f"remove the signs, or {_LEAVE_OUT}")
        if self._error and not self.mostly_numbers:
            text = (
                f"column {name} holds {shown(self._error[0])} in data row {self._error[1]}, an error of a spreadsheet"
            )
            return Problem("odd", text, f"correct the cell, or leave it empty if the value is missing, or {_LEAVE_OUT}")
        if not self.mostly_numbers and dated >= (_MOSTLY if self._many else 1.0) * len(self._levels):
            return Problem("dates", *dates(self.name, listed(self._levels, 1)))
        if self._comma and self._numbers + self._commas >= _MOSTLY * self.filled:
            return Problem("comma", *comma(self.name, *self._comma))
        if self.odd and self.mostly_numbers:
            count = self.filled - self._numbers
            cells = ", ".join(f"{shown(cell)} in data row {row}" for cell, row in self.odd[:5])
            cells += f", and {count - 5:,} more such cells" if count > 5 else ""
            cells += f", and numbers in {self._numbers:,} of {self.filled:,} cells"
            what = "the cell, or leave it" if count == 1 else "the cells, or leave them"
            first = self.odd[0][0]
            option = command_line([f"--missing-cells={first}"] if first.startswith("-") else ["--missing-cells", first])
            way = f" ({option} counts such cells as empty)" if can_be_typed(first) else ""
            advice = f"correct {what} empty if the number is missing{way}, or {_LEAVE_OUT}"
            return Problem("odd", f"column {name} holds {cells}", advice)
        if self._many:
            text = (
                f"column {name} has more than {self.max_levels} different values ({listed(self._levels, 3)}), which are not "
                "numbers"
            )
            return Problem("many", text, f"{_LEAVE_OUT}, or with --id if it names the rows")
        return None


def type_problem(name: str, kind: Any) -> Problem | None:
    """Why a column of this type can neither be numbers nor categories, if so."""
    types = arrow().types
    if types.is_nested(kind):
        return Problem(
            "type",
            f"column {shown(name)} holds {str(kind)[:60]}",
            f"give each part a column of its own, or {_LEAVE_OUT}",
        )
    return Problem("dates", *dates(name, str(kind))) if types.is_temporal(kind) else None


def refuse_type(name: str, kind: Any) -> None:
    """Raise ValueError for types that are neither numbers nor categories."""
    problem = type_problem(name, kind)
    if problem:
        raise ValueError(f"{problem.text}: {problem.advice}.")


def dates(name: str, what: str) -> tuple[str, str]:
    """Message and advice for dates."""
    return (
        f"column {shown(name)} holds dates or times ({what})",
        f"turn them into a number, such as days since an event, or {_LEAVE_OUT}",
    )


def comma(name: str, cell: str, row: int, mark: str) -> tuple[str, str]:
    """Message and advice for a number with another decimal mark, or with thousands separators."""
    advice = (
        f"write numbers with a decimal {'point' if mark == '.' else 'comma'} and without thousands separators, or name another "
        "mark with --decimal"
    )
    return f"column {shown(name)} holds {shown(cell)} in data row {row}", advice


def infinite(name: str, cell: str, row: int) -> tuple[str, str]:
    """Message and advice for an infinite number."""
    advice = "give a number, or leave the cell empty if it is missing"
    return f"column {shown(name)} holds {shown(cell)} in data row {row}, which is infinite", advice


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


def _find_medians(medians: Mapping[str, Median], batches: Callable[[], Iterable[Any]], markers: Sequence[str]) -> None:
    """Finish the medians, reading again for those that need it."""
    for median in medians.values():
        median.finish()
    while unknown := {name: median for name, median in medians.items() if median.value is None}:
        for batch in batches():
            for name, median in unknown.items():
                values = numbers_of(batch.column(name), markers).values
                median.add(values[~np.isnan(values)])
        for median in unknown.values():
            median.finish()


# Features


class ColumnFeatures(NamedTuple):
    """Features of a column (rows, width), and masks of missing cells and of cells that the fit could not have held."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    unseen: NDArray[np.bool_]


def numbers_of(column: Any, markers: Sequence[str]) -> Numbers:
    """A column as numbers; markers of missing cells may be numbers too."""
    numbers = as_numbers(column, markers)
    codes = [float(text) for text in markers if NUMBER.fullmatch(text)]
    if not codes:
        return numbers
    coded = np.isin(numbers.values, codes)
    return Numbers(np.where(coded, np.nan, numbers.values), numbers.missing | coded, numbers.odd)


def _number(column: dict[str, Any], cells: Any, markers: Sequence[str]) -> ColumnFeatures:
    numbers = numbers_of(cells, markers)
    wrong = numbers.odd | (np.abs(numbers.values) > LARGEST)
    fill = np.nan if column["fill"] is None else column["fill"]
    values = np.where(numbers.missing | wrong, fill, numbers.values)
    return ColumnFeatures(values[:, None], numbers.missing, wrong)


def _not_a_number(name: str, cells: Any, row: int) -> str:
    """Message for a cell that is not a number in a number column."""
    cell = str(cells[0].as_py())
    number = as_numbers(cells).values[0]
    if np.isinf(number):
        return ": ".join(infinite(name, cell, row)) + "."
    if np.abs(number) > LARGEST:
        return (
            f"column {shown(name)} holds {shown(cell)} in data row {row}, which is too large to compute with: correct the cell, "
            "or use other units and fit again."
        )
    if with_other_mark(cells)[0]:
        return ": ".join(comma(name, cell, row, decimal_mark(cells))) + "."
    return (
        f"column {shown(name)} holds {shown(cell)} in data row {row}, where the model was fitted with numbers: correct the "
        "cell, or leave it empty if the number is missing."
    )


def _one_hot(column: dict[str, Any], cells: Any, markers: Sequence[str]) -> ColumnFeatures:
    pa, pc = arrow(), arrow(".compute")
    levels, boolean = column["levels"], column["kind"] == "boolean"
    text = trimmed(cells)
    missing = missing_cells(text, markers)
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
    if "fill" not in column or not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        return False
    if column["kind"] == "number":
        return not levels and (fill is None or (isinstance(fill, int | float) and bool(np.isfinite(fill))))
    enough = levels == list(TRUTHS) if column["kind"] == "boolean" else len(levels) > 1
    return enough and (fill is None or fill in levels)
