"""Columns of a table as the features of a model: numbers as they are, categories one-hot."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from marmix.batches import arrow, naming, record_batches
from marmix.tables.cells import counted, shown
from marmix.tables.columns import column_features, feature_names, is_column
from marmix.tables.medians import Median
from marmix.tables.numbers import as_numbers, trimmed
from marmix.tables.reading import check_columns
from marmix.tables.survey import Survey


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

    def fit_batches(self, batches: Callable[[], Iterable[Any]]) -> Self:
        """`fit` on a table that comes in record batches, in little memory.

        The batches are read once, and a second time for the medians of more than 8192 rows, which are exact; about a twelfth
        of the numbers are held in memory then.

        Parameters
        ----------
        batches : callable
            Gives the record batches from the first on, each time it is called.
        """
        if self.impute not in ("median", "drop"):
            raise ValueError(f"impute={self.impute!r} is not one of 'median', 'drop'.")
        surveys: dict[str, Survey] = {}
        medians: dict[str, Median] = {}
        rows = 0
        for batch in batches():
            if not surveys:
                surveys = {name: Survey(name, self.max_levels) for name in self._chosen(batch.schema.names)}
                medians = {name: Median() for name in surveys} if self.impute == "median" else {}
            rows += batch.num_rows
            for name, survey in surveys.items():
                found = survey.add(batch.column(name))
                if name in medians:
                    medians[name].add(found.values[np.isfinite(found.values)])
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
            block, own = self._block(batch, columns, first_row)
            blocks.append(block)
            counts += own
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
            found = column_features(column, cells, seen)
            parts.append(found.features)
            lost |= found.missing | found.unseen
            if found.missing.any():
                counts.missing[name] = int(found.missing.sum())
            if found.unseen.any():
                counts.unseen[name] = int(found.unseen.sum())
                counts.examples[name] = trimmed(cells)[int(np.argmax(found.unseen))].as_py()
        return np.column_stack(parts), counts + Counts(int(lost.sum()))


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


def _batches(X: Any) -> Iterator[Any]:
    """Record batches of a table."""
    pa = arrow()
    with naming("the table"):
        if isinstance(X, Mapping):
            yield pa.RecordBatch.from_pydict({name: pa.array(values, from_pandas=True) for name, values in X.items()})
        else:
            yield from record_batches(X)
