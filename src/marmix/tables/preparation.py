"""`Preparation`: the columns of a table as features; `Encoder`: gaps and categories for models that take only numbers."""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from marmix.core.arrays import LARGEST, LEAST_SPREAD, Array, on_cluster
from marmix.core.labels import MISSING_TEXTS
from marmix.tables.cells import (
    TRUTHS,
    arrow,
    as_days,
    as_numbers,
    as_table,
    counted,
    is_numeric,
    listed,
    matching,
    missing_cells,
    plain,
    shown,
    trimmed,
    truths,
)

_KINDS = ("number", "boolean", "category", "date")
_PARTS = ("days", "month", "weekday")  # of a date
_MOSTLY = 0.8  # share of numbers or dates from which other cells are mistakes rather than categories
_LEAST_DATES = 20  # numbers such as 20240131, from which on they are dates
_ERROR = r"^(#(DIV/0|REF|VALUE|NUM|NULL|SPILL|CALC|FIELD|BLOCKED|CONNECT|BUSY|UNKNOWN)!|#NAME\?|Err:[0-9]{3})$"  # of spreadsheets
_NAMED = 10  # columns with empty cells in a note
_SPARSE, _STRAY_ROWS = 3, 10  # most filled cells of a title or footer, and most such rows


@dataclass(frozen=True)
class Counts:
    r"""Counts of the missing cells in a table.

    Attributes
    ----------
    rows : int
        Number of rows with a missing feature, except blank ones.
    missing : dict
        Number of missing cells by column, except in blank rows.
    unseen : dict
        Number of cells that the fit cannot have held, by column, except in blank rows: a category not seen there, or no
        number or date in a column of these. They count as missing.
    examples : dict
        The first such cell by column.
    kinds : dict
        The kind of the column of each example.
    blank : tuple of int
        Positions, from 0, of the rows without a single feature, such as a footer. `marmix fit` leaves such rows out,
        and no command predicts a label for them.

    See Also
    --------
    Preparation.transform_counted : Returns the features and these counts.

    Examples
    --------
    >>> from marmix.tables import Preparation
    >>> preparation = Preparation().fit({"age": ["41", "30", "35"], "group": ["b", "a", "b"]})
    >>> _, counts = preparation.transform_counted({"age": ["NA", "52"], "group": ["a", "c"]})
    >>> print(*counts.notes(), sep="\n")
    Column 'group' holds values that the model was not fitted with, such as 'c', in 1 row; they count as missing.
    Empty cells: 'age' 1.
    """

    rows: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    blank: tuple[int, ...] = ()

    def notes(self) -> list[str]:
        """Return the counts as sentences.

        Returns
        -------
        list of str
            One for each column with unseen cells, one for all missing cells, and one for blank rows.
        """
        words = {"number": "that are not numbers", "date": "that are not dates"}
        most = sorted(self.missing.items(), key=lambda item: -item[1])
        empty = ", ".join(f"{shown(name)} {count:,}" for name, count in most[:_NAMED])
        more = f" and {len(most) - _NAMED:,} other columns" * (len(most) > _NAMED)
        return [
            *(
                f"Column {shown(name)} holds values {words.get(self.kinds.get(name, ''), 'that the model was not fitted with')}, "
                f"such as {shown(self.examples[name])}, in {counted(count, 'row')}; they count as missing."
                for name, count in self.unseen.items()
            ),
            *([f"Empty cells: {empty}{more}."] if most else []),
            *([blank_rows(self.blank)] if self.blank else []),
        ]


def blank_rows(places: Sequence[int]) -> str:
    """A sentence about rows without a single feature, at these positions from 0."""
    numbers = ", ".join(f"{place + 1:,}" for place in places[:10]) + (", ..." if len(places) > 10 else "")
    words = f"Data row {numbers} has" if len(places) == 1 else f"{len(places):,} data rows ({numbers}) have"
    return f"{words} no feature at all: no label is imputed there, and a given label is left out of the fit."


@dataclass(frozen=True)
class Column:
    """What the cells of a column are.

    Attributes
    ----------
    name : str
    entry : dict or None
        The column as an entry of `Preparation.columns_`; None if it is left out.
    why : {"", "constant", "empty", "text", "type", "range"}
        Why it is left out.
    values : array of shape (n,)
        Numbers, days, or codes of the `levels`; NaN in missing cells.
    missing, odd : mask of shape (n,)
        Cells that are missing, and those that hold no number in a column of numbers, or no date in one of dates.
    levels : list of str
        Different texts, in sorted order, of a column of text.
    notes : list of str
        What is unusual about it, in sentences.
    """

    name: str
    entry: dict[str, Any] | None
    why: str
    values: Array
    missing: NDArray[np.bool_]
    odd: NDArray[np.bool_]
    levels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The kind of the column: that of its entry, or "text" or "number" by its cells."""
        return str(self.entry["kind"]) if self.entry else "text" if self.levels else "number"

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Mask of the cells with a value that can be used."""
        return ~(self.missing | self.odd)


class Preparation(TransformerMixin, BaseEstimator):
    """Transformer of table columns to features: numbers, dates as numbers, categories one-hot without their first level.

    Estimators fit one themselves to a frame that has other columns than numbers, and hold it as `preparation_`.

    The kind of a column follows from its cells as text, not from how they are stored, so that the same data give the
    same features from CSV, pandas, polars or Parquet. Only one that is stored as categories always is one of categories.

    - **Missing** are null, NaN, blank cells, and the texts NA, N/A, #N/A, NaN, nan, null, NULL, None, <NA>, NaT and ?. -1 is a
      number.
    - A **boolean** column has true and false in all other cells, which become 1 and 0.
    - A **number** column has numbers in at least 80 % of them, also with thousands separators, decimal commas, or a
      percent or currency sign, which is dropped. The others count as missing.
    - A **date** column has dates or times in at least 80 % of them. It becomes the days since 1970-01-01, with the time
      of day as a fraction, the month (1 to 12) and the day of the week (Monday is 1), as far as these vary.
    - Any other is a **category** column if it has at most `max_levels` different texts, compared without surrounding
      whitespace. Each level except the first in sorted order becomes a feature of zeros and ones.
    - Columns of more texts, of nested values, with a single value or none, and of numbers too large to compute with are
      left out.
    - A row that holds nothing but a text or two that occur in no other row, such as a footer, is treated as empty.

    `notes_` says what was left out, and which cells count as missing.

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
    encode : bool, default=True
        Whether missing cells are filled, or mark their row, and categories become zeros and ones. Otherwise missing cells are
        NaN, and categories are codes of their levels, of which one that is stored as such may have any number: for
        `MARBoostingClassifier`, and for an `Encoder` of the other models.

    Attributes
    ----------
    columns_ : list of dict
        The columns in use: "name", "kind" ("number", "boolean", "category" or "date"), "levels" (sorted, or the parts of
        a date), "fill" (the number, day or level filled in, or None), "missing" (number of missing cells); for numbers
        "comma" if 1,234 is a fraction, and for dates their "format".
    notes_ : list of str
        What is unusual about the columns, in sentences.
    n_rows_ : int
        Number of rows of the fit.
    feature_names_in_ : list of str
        All columns considered.
    n_features_in_ : int
        Their number.

    See Also
    --------
    marmix.save : Save a pipeline of a `Preparation` and a classifier, as `marmix fit` does.

    Notes
    -----
    In `transform`, a cell that is no number in a column of numbers, or a category not seen in the fit, is treated as
    missing; `transform_counted` counts these. A row without any feature is filled like any other; the program predicts no
    label for it, and `transform_counted` says where such rows are.

    Examples
    --------
    >>> from marmix.tables import Preparation
    >>> table = {"age": ["41", "NA", "35"], "group": ["b", "a", "b"], "seen": ["1.2.2024", "5.2.2024", "9.2.2024"]}
    >>> preparation = Preparation().fit(table)
    >>> preparation.get_feature_names_out().tolist()
    ['age', 'group=b', 'seen (days)', 'seen (weekday)']
    >>> preparation.transform(table).tolist()
    [[41.0, 1.0, 19754.0, 4.0], [38.0, 0.0, 19758.0, 1.0], [35.0, 1.0, 19762.0, 5.0]]

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
        encode: bool = True,
    ):
        self.features = features
        self.impute = impute
        self.max_levels = max_levels
        self.missing_cells = missing_cells
        self.encode = encode

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
            If there are no rows, or no column can be used.
        """
        return self.fit_columns(self.examine(X))

    def examine(self, X: Any) -> dict[str, Column]:
        """Find out what the cells of each column are; the features of `fit`, which `fit_columns` keeps.

        Parameters
        ----------
        X : table
            As for `fit`.

        Returns
        -------
        dict of Column
            By name.
        """
        table = as_table(X)
        if self.impute not in ("median", "drop"):
            raise ValueError(f"impute={self.impute!r} is not one of 'median', 'drop'.")
        chosen = table.column_names if self.features is None else list(self.features)
        if not chosen:
            raise ValueError("no column is left as a feature: choose at least one.")
        if isinstance(self.features, str) or len(set(chosen)) < len(chosen):
            raise ValueError(f"features={self.features!r} must be a list that names each column once.")
        check_columns(chosen, table.column_names, "the table")
        if not table.num_rows:
            raise ValueError("the table has no rows.")
        stored = {name: arrow().types.is_dictionary(table[name].type) for name in chosen}
        columns = {name: self._examined(name, table[name], stored[name]) for name in chosen}
        strays = _stray_rows(columns)
        if not len(strays):
            return columns
        kept = np.ones(table.num_rows, dtype=bool)
        kept[strays] = False
        mask = arrow().array(kept)
        cells = {name: arrow(".compute").if_else(mask, plain(table[name]), None) for name in chosen}
        return {name: self._examined(name, cells[name], stored[name]) for name in chosen}

    def fit_columns(self, columns: Mapping[str, Column]) -> Self:
        """Keep these columns.

        Parameters
        ----------
        columns : dict of Column
            From `examine`; some may have been taken away.

        Returns
        -------
        self
            The fitted transformer.
        """
        used = [column.entry for column in columns.values() if column.entry is not None]
        notes = [
            note for column in sorted(columns.values(), key=lambda column: bool(column.entry)) for note in column.notes
        ]
        if not used:
            raise ValueError(f"no column can be used as a feature. {' '.join(notes[:1])}")
        self.columns_ = used
        self.notes_ = notes
        self.n_rows_ = len(next(iter(columns.values())).missing)
        self.feature_names_in_ = list(columns)
        self.n_features_in_ = len(columns)
        return self

    def _markers(self) -> tuple[str, ...]:
        """The trimmed texts that mean a missing value, checked as they may come from a file."""
        texts = [] if self.missing_cells is None else self.missing_cells
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"missing_cells={texts!r} must be a list of texts.")
        return (*MISSING_TEXTS, *map(str.strip, texts))

    def transform(self, X: Any) -> Array:
        """Return the features of each row.

        Parameters
        ----------
        X : table
            As for `fit`. The columns may be in any order; others are ignored.

        Returns
        -------
        array of shape (rows, features)
            Missing cells are filled, or NaN with impute="drop" or encode=False.

        Raises
        ------
        ValueError
            If a column is not there.
        """
        return self.transform_counted(X)[0]

    def transform_counted(self, X: Any) -> tuple[Array, Counts]:
        """Return the features of each row, and the counts of missing cells.

        Parameters
        ----------
        X : table
            As for `transform`.

        Returns
        -------
        features : array of shape (rows, features)
            As from `transform`.
        counts : Counts
            Missing cells, cells that the fit cannot have held, and blank rows.
        """
        columns, table, markers = self._columns(), as_table(X), self._markers()
        check_columns([column["name"] for column in columns], table.column_names, "the table")
        incomplete, blank = np.zeros(table.num_rows, dtype=bool), np.ones(table.num_rows, dtype=bool)
        X, end, masks = np.empty((len(self.get_feature_names_out()), table.num_rows)), 0, {}
        for column in columns:
            name, levels = column["name"], column["levels"]
            values, missing, odd = _values_in(column, table[name], markers)
            if self.encode and column["fill"] is not None:
                fill = levels.index(column["fill"]) if isinstance(column["fill"], str) else column["fill"]
                values = np.where(missing | odd, fill, values)
            block = _features_of(column, values)
            block = one_hot(block, [len(levels)]) if self.encode and column["kind"] == "category" else block
            start, end = end, end + block.shape[1]
            X[start:end] = block.T
            incomplete |= missing | odd
            blank &= missing | odd
            masks[name] = missing, odd
        gaps, unseen = ({name: int((both[i] & ~blank).sum()) for name, both in masks.items()} for i in (0, 1))
        examples = {
            name: trimmed(table[name].slice(int(np.argmax(masks[name][1] & ~blank)), 1))[0].as_py()
            for name, count in unseen.items()
            if count
        }
        return X.T, Counts(
            int((incomplete & ~blank).sum()),
            {name: count for name, count in gaps.items() if count},
            {name: count for name, count in unseen.items() if count},
            examples,
            {column["name"]: column["kind"] for column in columns if column["name"] in examples},
            tuple(np.flatnonzero(blank).tolist()),
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features: the column, ``column=level``, or ``column (month)`` and so on.

        Parameters
        ----------
        input_features : object
            Ignored; here for compatibility with scikit-learn.

        Returns
        -------
        array of str
            One name for each feature.
        """
        return self._names(len) if self.encode else self._names(lambda levels: 0)

    def encoded_names(self, max_levels: int = 20) -> NDArray[Any]:
        """Return the names of the features after an `Encoder`.

        Parameters
        ----------
        max_levels : int, default=20
            As of the encoder.

        Returns
        -------
        array of str
            One name for each feature.
        """
        most = np.inf if self.encode else max_levels
        return self._names(lambda levels: len(levels) if len(levels) <= most else 1)

    def _names(self, count: Callable[[list[str]], int]) -> NDArray[Any]:
        """Names of the features; of a category for levels from the second to this count, or the column if it is 0."""
        names: list[str] = []
        for column in self._columns():
            name, kind, levels = column["name"], column["kind"], column["levels"]
            if kind == "category" and count(levels):
                names += [f"{name}={level}" for level in levels[1 : count(levels)]]
            else:
                names += [f"{name} ({part})" for part in levels] if kind == "date" else [name]
        return np.array(names, dtype=object)

    def levels(self) -> list[int]:
        """Return the number of levels of each feature that is a code, 0 for numbers, as `Encoder` takes them.

        Returns
        -------
        list of int
            One number for each feature.
        """
        if self.encode:
            return [0] * len(self.get_feature_names_out())
        return [
            len(column["levels"]) if column["kind"] == "category" else 0
            for column in self._columns()
            for _ in (column["levels"] if column["kind"] == "date" else [""])
        ]

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

    def _examined(self, name: str, cells: Any, stored: bool) -> Column:
        """What the cells of a column are; `stored` says whether they are stored as categories."""
        cells = plain(cells)
        if arrow().types.is_nested(cells.type):
            none = np.asarray(cells.is_null().to_numpy(zero_copy_only=False))
            note = f"Column {shown(name)} holds {str(cells.type)[:60]} and was left out: give each part a column of its own."
            return Column(name, None, "type", np.full(len(cells), np.nan), none, ~none, notes=[note])
        median = self.impute == "median"
        markers = self._markers()
        numbers = as_numbers(cells, markers)
        filled = len(cells) - int(numbers.missing.sum())
        if not filled:
            note = f"Column {shown(name)} has no value and was left out."
            return Column(name, None, "empty", *numbers[:3], notes=[note])
        if not stored and (is_numeric(cells.type) or filled - int(numbers.odd.sum()) >= _MOSTLY * filled):
            dates = _calendar(numbers.values)
            if dates is None:
                return _number_column(name, cells, numbers, median)
            return _date_column(name, cells, dates, numbers.missing, "%Y%m%d", [], median)
        text = trimmed(cells)
        lowered = truths(text)
        if not stored and (numbers.missing | (lowered >= 0)).all():
            return _text_column(name, lowered.astype(float), numbers.missing, list(TRUTHS), "boolean", median)
        days = None if stored else as_days(cells)
        if days is not None and np.isfinite(days.values[~numbers.missing]).sum() >= _MOSTLY * filled:
            return _date_column(name, cells, days.values, numbers.missing, days.format, days.others, median)
        missing = numbers.missing | matching(text, _ERROR)
        encoded = arrow(".compute").if_else(arrow().array(missing), None, text).dictionary_encode()
        levels = sorted(encoded.dictionary.to_pylist())
        if len(levels) > self.max_levels and (self.encode or not stored):
            return _left_out_text(name, encoded, missing, self.max_levels)
        place = {level: float(k) for k, level in enumerate(levels)}
        order = np.array([*(place[level] for level in encoded.dictionary.to_pylist()), np.nan])
        codes = encoded.indices.fill_null(len(levels)).to_numpy(zero_copy_only=False)
        column = _text_column(name, order[codes], missing, levels, "category", median)
        errors = int(missing.sum()) - int(numbers.missing.sum())
        if errors:
            column.notes.append(
                f"Column {shown(name)} holds errors of a spreadsheet, such as #REF!, which count as missing."
            )
        return column


def preparation_of(X: Any, encode: bool) -> Preparation | None:
    """A preparation fitted to a frame; None for an array or a frame of numbers, unless a missing one is to be filled.

    Columns that it leaves out are warned of.
    """
    if not hasattr(X, "columns") or not (hasattr(X, "iloc") or hasattr(X, "__arrow_c_stream__")) or on_cluster(X):
        return None
    if all(map(_is_number, getattr(X, "dtypes", [None]))):  # pyarrow has no `dtypes`
        numbers = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False) if encode else np.empty(0)
        if not np.isnan(numbers).any():
            return None
    preparation = Preparation(encode=encode)
    columns = preparation.examine(X)
    preparation.fit_columns(columns)
    if left_out := [column.notes[-1] for column in columns.values() if column.entry is None]:
        warnings.warn(" ".join(left_out), UserWarning, stacklevel=7 - encode)  # where `fit` is called
    return preparation


def _is_number(kind: Any) -> bool:
    """Whether this is the type of a column of numbers, or of true and false, in pandas or polars."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return getattr(kind, "kind", "O") in "biuf"


def check_columns(columns: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raise ValueError if a table does not have these columns."""
    present = set(names)
    missing = [name for name in columns if name not in present]
    if missing:
        near = [match for name in missing for match in get_close_matches(name, names, 1, 0.65)]
        hint = f"Did you mean {listed(near)}?" if near else f"Its columns are {listed(names, 20)}."
        raise ValueError(f"{where} has no column {listed(missing)}. {hint}")


# Kinds of columns


def _entry(name: str, kind: str, levels: list[str], fill: Any, missing: NDArray[np.bool_]) -> dict[str, Any]:
    return {"name": name, "kind": kind, "levels": levels, "fill": fill, "missing": int(missing.sum())}


def _constant(name: str, value: str, missing: NDArray[np.bool_]) -> str:
    where = "filled cell" if missing.any() else "row"
    return f"Column {shown(name)} has the same value, {shown(value)}, in every {where} and was left out."


def _strays(name: str, cells: Any, odd: NDArray[np.bool_], what: str) -> list[str]:
    """A sentence about the cells of a column that are none of `what`."""
    places = np.flatnonzero(odd)
    if not len(places):
        return []
    texts = trimmed(plain(cells).take(arrow().array(places[:3]))).to_pylist()
    some = ", ".join(f"{shown(text)} in data row {place + 1}" for text, place in zip(texts, places, strict=False))
    more = f" and {len(places) - 3:,} more" if len(places) > 3 else ""
    words = f"is not a {what} and counts" if len(places) == 1 else f"are not {what}s and count"
    return [f"Column {shown(name)} holds {some}{more}, which {words} as missing."]


def _number_column(name: str, cells: Any, numbers: Any, median: bool) -> Column:
    values, missing, odd, formatted, comma = numbers
    filled = values[~np.isnan(values)]
    notes = _strays(name, cells, odd, "number" if not is_numeric(cells.type) else "finite number")
    if formatted.any():
        place = int(np.argmax(formatted))
        text = trimmed(cells.slice(place, 1))[0].as_py()
        notes.append(f"Column {shown(name)} holds numbers such as {shown(text)}, read as {values[place]:.15g}.")
    low, high = filled.min(initial=np.inf), filled.max(initial=-np.inf)
    problem = range_problem(low, high)
    if not low < high or problem:
        note = (
            f"Column {shown(name)} {problem} and was left out."
            if problem
            else _constant(name, f"{low:.15g}", missing | odd)
        )
        return Column(name, None, "range" if problem else "constant", values, missing, odd, notes=[*notes, note])
    entry = _entry(name, "number", [], float(np.median(filled)) if median else None, missing | odd)
    return Column(name, entry | ({"comma": True} if comma else {}), "", values, missing, odd, notes=notes)


def _date_column(
    name: str, cells: Any, days: Array, missing: NDArray[np.bool_], form: str, others: list[str], median: bool
) -> Column:
    odd = np.isnan(days) & ~missing
    notes = _strays(name, cells, odd, "date")
    filled = days[~np.isnan(days)]
    parts = _date_parts(filled)
    varying = [part for part, values in zip(_PARTS, parts, strict=True) if values.min() < values.max()]
    if not varying:
        text = trimmed(cells.slice(int(np.argmax(~(missing | odd))), 1))[0].as_py()
        return Column(name, None, "constant", days, missing, odd, notes=[*notes, _constant(name, text, missing | odd)])
    doubt = f" ({form} rather than {others[0]})" if others else ""
    notes.append(f"Column {shown(name)} holds dates or times{doubt}, read as {', '.join(varying)}.")
    entry = _entry(name, "date", varying, float(np.median(filled)) if median else None, missing | odd)
    return Column(name, entry | {"format": form}, "", days, missing, odd, notes=notes)


def _text_column(
    name: str, codes: Array, missing: NDArray[np.bool_], levels: list[str], kind: str, median: bool
) -> Column:
    codes = np.where(missing, np.nan, codes)
    counts = np.bincount(codes[~missing].astype(np.intp), minlength=len(levels))
    odd = np.zeros(len(codes), dtype=bool)
    if (counts > 0).sum() < 2:
        note = _constant(name, levels[int(counts.argmax())], missing)
        return Column(name, None, "constant", codes, missing, odd, levels, [note])
    fill = levels[int(counts.argmax())] if median else None
    return Column(name, _entry(name, kind, levels, fill, missing), "", codes, missing, odd, levels)


def _left_out_text(name: str, encoded: Any, missing: NDArray[np.bool_], most: int) -> Column:
    codes = encoded.indices.cast(arrow().float64()).to_numpy(zero_copy_only=False)
    texts = encoded.dictionary.to_pylist()
    note = f"Column {shown(name)} has more than {most} different texts ({listed(texts, 3)}) and was left out."
    return Column(name, None, "text", codes, missing, np.zeros(len(missing), dtype=bool), texts, [note])


def range_problem(low: float, high: float) -> str:
    """Why numbers between these ends cannot be computed with; empty if they can."""
    largest, spread = max(abs(low), abs(high)), high - low
    if not low < high:
        return ""
    if largest > LARGEST or spread < 1.0 / LARGEST:
        return f"has numbers from {low:.3g} to {high:.3g}, which need other units,"
    if spread < LEAST_SPREAD * largest:
        return f"has numbers from {low:.17g} to {high:.17g}, which differ only in their last digits,"
    return ""


def _calendar(values: Array) -> Array | None:
    """Numbers such as 20240131 as days; None if some are no dates."""
    x = values[~np.isnan(values)]
    if len(x) < _LEAST_DATES or x.min() < 19_000_101 or x.max() > 21_000_000 or x.min() == x.max():
        return None
    month, day = x // 100 % 100, x % 100
    if not ((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (x % 1 == 0)).all():
        return None
    return _of_calendar(values)


def _of_calendar(values: Array) -> Array:
    """Days since 1970-01-01 of numbers such as 20240131."""
    known = ~np.isnan(values)
    x = values[known].astype(np.int64)
    months = ((x // 10_000 - 1970) * 12 + x // 100 % 100 - 1).astype("datetime64[M]")
    days = np.full(len(values), np.nan)
    days[known] = months.astype("datetime64[D]").astype(np.int64) + x % 100 - 1
    return days


def _date_parts(days: Array) -> tuple[Array, Array, Array]:
    """Days, month and day of the week; NaN stays."""
    known = np.isfinite(days)
    whole = np.floor(np.where(known, days, 0.0)).astype(np.int64)
    month = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1
    weekday = (whole + 3) % 7 + 1
    return days, np.where(known, month, np.nan), np.where(known, weekday, np.nan)


def _stray_rows(columns: Mapping[str, Column]) -> NDArray[np.intp]:
    """Rows such as titles and footers, whose few cells hold texts that occur in no other row."""
    n = len(next(iter(columns.values())).missing)
    filled = np.zeros(n, dtype=np.int32)
    for column in columns.values():
        filled += ~column.missing
    rows = np.flatnonzero((filled > 0) & (filled <= min(_SPARSE, len(columns) - 1)))
    if not 0 < len(rows) <= 100 * _STRAY_ROWS:
        return rows[:0]
    stray = np.ones(len(rows), dtype=bool)
    for column in columns.values():
        here = ~column.missing[rows]
        if column.levels and len(columns) > 2:
            codes = column.values[rows[here]]
            inside, outside = Counter(codes.tolist()), np.bincount(column.values[~column.missing].astype(np.intp))
            fine = np.array([outside[int(code)] == inside[code] for code in codes.tolist()], dtype=bool)
        else:
            fine = column.odd[rows[here]]
        stray[here] &= fine
    strays = rows[stray]
    return strays if 0 < len(strays) <= _STRAY_ROWS <= n else rows[:0]


# Features


def _values_in(
    column: dict[str, Any], cells: Any, markers: Sequence[str]
) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Numbers, days or codes of the levels in a column, NaN where missing, and masks of missing and of odd cells."""
    kind = column["kind"]
    if arrow().types.is_nested(plain(cells).type):
        raise ValueError(
            f"column {shown(column['name'])} holds {str(cells.type)[:60]}: give each part a column of its own."
        )
    if kind in ("number", "date"):
        values, missing, odd, _, _ = as_numbers(cells, markers, bool(column.get("comma")))
        odd = odd | (np.abs(values) > LARGEST)
        if kind == "date":
            numeric = is_numeric(plain(cells).type) or column["format"] == "%Y%m%d"
            values = _of_calendar(values) if numeric else as_days(cells, column["format"]).values
            odd = np.isnan(values) & ~missing
        gaps = missing | odd
        return np.where(gaps, np.nan, values) if gaps.any() else values, missing, odd
    text, levels = trimmed(cells), column["levels"]
    missing = missing_cells(text, markers) | matching(text, _ERROR)
    codes = truths(text)
    if kind == "category":
        index = arrow(".compute").index_in(text, value_set=arrow().array(levels, arrow().string()))
        codes = index.fill_null(-1).to_numpy(zero_copy_only=False)
    odd = (codes < 0) & ~missing
    return np.where(missing | odd, np.nan, codes), missing, odd


def _features_of(column: dict[str, Any], values: Array) -> Array:
    """The features (n, width) of a column with these values; those of a category are its codes."""
    if column["kind"] != "date":
        return values[:, None]
    parts = dict(zip(_PARTS, _date_parts(values), strict=True))
    return np.column_stack([parts[part] for part in column["levels"]])


def is_column(column: Any) -> bool:
    """Whether a value, possibly from a file, is an entry of `columns_`."""
    if not isinstance(column, dict) or not isinstance(column.get("name"), str) or column.get("kind") not in _KINDS:
        return False
    levels, fill, kind = column.get("levels"), column.get("fill"), column["kind"]
    if "fill" not in column or not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        return False
    if kind in ("number", "date"):
        known = not levels if kind == "number" else bool(levels) and set(levels) <= set(_PARTS)
        sound = isinstance(column.get("format", ""), str) and (kind == "number" or "format" in column)
        return known and sound and (fill is None or (isinstance(fill, int | float) and bool(np.isfinite(fill))))
    enough = levels == list(TRUTHS) if kind == "boolean" else len(levels) > 1
    return enough and (fill is None or fill in levels)


# Features of models that take neither gaps nor categories


class Encoder(TransformerMixin, BaseEstimator):
    """Transformer of numbers and codes of categories, NaN where missing, to features without missing values.

    A missing number becomes the median of its column, a missing code the most frequent one. A category becomes a feature of zeros
    and ones for each level but the first, unless it has too many.

    Parameters
    ----------
    levels : list of int or None, default=None
        Number of levels of each column whose codes are 0, 1, ..., and 0 for a column of numbers; None if all are numbers.
    max_levels : int, default=20
        Most levels of a category that becomes features. Those of more are for trees, which split on codes.

    Attributes
    ----------
    fill_ : array of shape (d,)
        What replaces a missing value of each column; 0 if the fit saw no other.
    n_features_in_ : int
        Number of columns d.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix.tables import Encoder
    >>> X = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, 2.0], [5.0, np.nan]])
    >>> Encoder(levels=[0, 3]).fit_transform(X).tolist()
    [[1.0, 0.0, 1.0], [3.0, 0.0, 0.0], [3.0, 0.0, 1.0], [5.0, 0.0, 1.0]]
    """

    def __init__(self, levels: Sequence[int] | None = None, max_levels: int = 20):
        self.levels = levels
        self.max_levels = max_levels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Determine what replaces missing values.

        Parameters
        ----------
        X : array of shape (n, d)
            Numbers, codes and NaN.
        y : object
            Ignored; here for compatibility with scikit-learn.

        Returns
        -------
        self
        """
        X = self._checked(X, reset=True)
        fill = np.zeros(X.shape[1])
        for j, levels in enumerate(self.levels or [0] * X.shape[1]):
            x = X[~np.isnan(X[:, j]), j]
            if len(x):
                fill[j] = np.bincount(x.astype(np.intp)).argmax() if levels else np.median(x)
        self.fill_ = fill
        return self

    def transform(self, X: Any) -> Array:
        """Fill missing values and encode categories.

        Parameters
        ----------
        X : array of shape (n, d)
            As for `fit`.

        Returns
        -------
        array of shape (n, features)
            Finite numbers.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        levels = [count if count <= self.max_levels else 1 for count in self.levels or ()]
        gaps = np.isnan(X)
        return one_hot(np.where(gaps, self.fill_, X) if gaps.any() else X, levels)

    def _checked(self, X: Any, reset: bool) -> Array:
        X = np.asarray(validate_data(self, X, reset=reset, dtype=float, ensure_all_finite="allow-nan"))
        if self.levels is not None and len(self.levels) != X.shape[1]:
            raise ValueError(f"levels has {len(self.levels)} numbers for {X.shape[1]} columns.")
        return X


def encoder_of(X: Array, levels: Sequence[int] | None) -> Encoder | None:
    """An encoder fitted to X; None for an array of numbers, of which none is missing. Columns of tables have `levels`."""
    return None if levels is None and not np.isnan(X).any() else Encoder(levels).fit(X)


def numbers_of(X: Array, encoder: Encoder | None) -> Array:
    """X as features without missing values and categories."""
    return X if encoder is None else encoder.transform(X)


def one_hot(X: Array, levels: Sequence[int]) -> Array:
    """Columns of numbers as they are (0 levels), and codes as zeros and ones for each level but the first; NaN stays."""
    if not any(levels):
        return X
    places = [(j, level) for j, count in enumerate(levels) for level in (range(1, count) if count else (0,))]
    columns, level = X[:, [j for j, _ in places]], np.array([level for _, level in places], dtype=int)
    hot = level > 0
    columns[:, hot] = np.where(np.isnan(columns[:, hot]), np.nan, columns[:, hot] == level[hot])
    return columns
