"""Partially labelled targets: which labels are missing, the classes, and the code of each row's class.

A label is missing if it is -1, NaN, None, pandas.NA or null, or one of the texts `MISSING_LABELS`, unless it is named as a class.

Labels may also be votes: an array (n, K) of counts or probabilities, zero or NaN in all columns where the label is missing. A row
counts once, with the shares ``r_jk = v_jk / sum_l v_jl`` of its votes: its likelihood is that of K copies with these weights.
"""

import numbers
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from marmix.core.arrays import AnyArray, Array, Bools, Ints, namespace, on_device, to_host, unmasked
from marmix.core.files import release
from marmix.core.notes import Note, sentence

MISSING = -1  # code of a missing label; users may write it too

# The texts that pandas.read_csv takes for missing values, and "?". Blanks around them do not matter; upper and lower case do.
MISSING_TEXTS = (
    *("", "NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "<NA>", "NULL", "null", "None", "?"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"),
)
MISSING_LABELS = (*MISSING_TEXTS, "-1", "-1.0")  # unless named as classes

_PART = 2**20  # labels read at a time from a long array


# Labels


def encode_labels(y: Any, classes: Any = None) -> tuple[Any, AnyArray]:
    """Return the class codes ``z`` of the labels, -1 if missing, and the classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: integers, floats, strings, booleans or categories, some of them missing. If numbers are on a device, so is `z`.
    classes : array-like or None
        The allowed classes, in the order of their codes. By default the sorted labels in `y`.

    Returns
    -------
    z : integer array of shape (n,)
    classes : array of shape (K,)
    """
    names, _ = choose_classes([found_labels(part, classes) for part in _parts(y)], classes)
    return number_labels(y, names), names


def number_labels(y: Any, classes: Any) -> Any:
    """Return the class codes of labels among given classes, -1 if missing."""
    names = as_classes(classes)
    if not on_device(y):
        return np.concatenate([_numbered(part, names) for part in _parts(y)])
    xp, (distinct,) = namespace(y), _parts(y)
    codes = _numbered(distinct, names)
    z = xp.full_like(y, MISSING, dtype=getattr(xp, codes.dtype.name))
    for value, code in zip(distinct.tolist(), codes.tolist(), strict=True):
        z = xp.where(y == value, xp.asarray(code, dtype=z.dtype, device=y.device), z)
    return z


def found_labels(y: Any, classes: Any = None) -> tuple[AnyArray, Counter[str]]:
    """Return the sorted distinct labels of some rows, possibly none, and the texts that counted as missing."""
    _, labels, marks = _read(y, classes)
    if len(labels):
        check_classification_targets(labels)
    return np.unique(labels), marks


def choose_classes(
    parts: Sequence[tuple[AnyArray, Counter[str]]], classes: Any = None
) -> tuple[AnyArray, Counter[str]]:
    """Return the classes, and the texts that counted as missing, from the `found_labels` of all parts of the rows.

    Raises ValueError if there are fewer than two classes, a label that is not among the allowed classes, or a class without a
    label. Warns of texts that counted as missing.
    """
    marks = sum((marks for _, marks in parts), Counter[str]())
    labels = np.unique(np.concatenate([labels for labels, _ in parts if len(labels)] or [np.empty(0)]))
    names = labels if classes is None else as_classes(classes)
    if not len(labels):
        raise ValueError(
            f"y has no label at all: label rows of at least two classes. {missing_in_words(marks)} (To find groups without "
            "labels, see sklearn.mixture.GaussianMixture.)"
        )
    _check_known(labels, names)
    absent = [name for name in names.tolist() if name not in set(labels.tolist())]
    if absent:
        raise ValueError(
            f"class {absent[0]!r} is in classes= but no row of y has that label: label a row of it, or remove it from classes=."
        )
    if len(labels) < 2:
        texts = ", ".join(map(repr, marks)) or "-1"
        raise ValueError(
            f"y has one class only, {labels.tolist()[0]!r}: label rows of at least two classes. ({texts} means a missing label; "
            "if it is a class, name all classes in classes=.)"
        )
    for note in missing_texts_notes(marks):
        warnings.warn(sentence(note, names, ()), UserWarning, stacklevel=4)
    return names, marks


def known_labels(y: Any, classes: Any = None) -> tuple[Bools, AnyArray]:
    """Return a mask of the labelled rows, and their labels."""
    return _read(y, classes)[:2]


def missing_texts(y: Any, classes: Any = None) -> Counter[str]:
    """Return the texts of y that count as missing labels, and how many rows have each."""
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
        return Counter()
    return _read(y, classes)[2]


def missing_texts_notes(marks: Mapping[str, int]) -> list[Note]:
    """A note on the texts that counted as missing labels, if there are any."""
    return [Note("missing-texts", {"text": missing_in_words(marks)})] if marks else []


def missing_in_words(marks: Mapping[str, int], unit: str = "row") -> str:
    """Which texts counted as missing labels, and how often: "Missing labels: 'NA' in 400 rows, empty in 3."; or nothing."""
    parts = [
        f"{repr(text) if text else 'empty'} in {count:,}"
        for text, count in sorted(marks.items(), key=lambda item: (item[0] == "", item))
    ]
    if not parts:
        return ""
    parts[0] += f" {unit}" if parts[0].endswith(" in 1") else f" {unit}s"
    return f"Missing labels: {', '.join(parts)}."


def as_classes(classes: Any) -> AnyArray:
    """Classes named by the user, as an array."""
    values = _as_array(classes)
    if values.ndim != 1 or len(set(values.tolist())) != len(values):
        raise ValueError(f"classes={classes!r}: name each class once, in a list.")
    if any(map(is_null, values.tolist())):
        raise ValueError(f"classes={classes!r} names a missing value: leave it out.")
    return _of_one_type(values)


def _numbered(y: Any, classes: AnyArray) -> Ints:
    """Class codes of the labels, -1 if missing; int8 for few classes."""
    labelled, labels = known_labels(y, classes)
    distinct, places = np.unique(labels, return_inverse=True)
    _check_known(distinct, classes)
    code = {name: k for k, name in enumerate(classes.tolist())}
    z: AnyArray = np.full(len(labelled), MISSING, dtype=np.int8 if len(classes) < 2**7 else np.int64)
    z[labelled] = np.array([code[label] for label in distinct.tolist()], dtype=z.dtype)[places]
    return z


def _check_known(labels: AnyArray, classes: AnyArray) -> None:
    """Raise ValueError if a label is not among the classes."""
    names = set(classes.tolist())
    strange = [label for label in labels.tolist() if label not in names]
    if strange:
        which = ", ".join(map(repr, strange[:5]))
        what = f"the label {which}, which is" if len(strange) == 1 else f"the labels {which}, which are"
        raise ValueError(f"y holds {what} not among the classes {classes.tolist()}.")


def _parts(y: Any) -> Iterator[Any]:
    """The labels in parts: slices of a long array of numbers, or the distinct numbers on a device, as a host array."""
    if on_device(y):
        xp = namespace(y)
        if y.ndim != 1:
            raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
        yield to_host(xp.unique_values(y[~xp.isnan(y)] if xp.isdtype(y.dtype, "real floating") else y))
    elif type(y) in (np.ndarray, np.memmap) and y.ndim == 1 and y.dtype.kind in "iuf" and len(y) > _PART:
        for start in range(0, len(y), _PART):
            yield y[start : start + _PART]
            release(y[start : start + _PART])  # pages of an array in a file
    else:
        yield y


def _read(y: Any, classes: Any) -> tuple[Bools, AnyArray, Counter[str]]:
    """Return a mask of the labelled rows, their labels, and the texts that count as missing."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None: pass the labels, -1 if missing.")
    values = _as_array(y)
    missing = np.zeros(values.shape, dtype=bool) | _nulls(y)
    if values.ndim != 1:
        values, missing = column_or_1d(values, warn=True), missing.ravel()
    names = set() if classes is None else set(as_classes(classes).tolist())
    marks = Counter[str]()
    if values.dtype.kind in "OU":
        cells = values.tolist()
        marked = {cell for cell in set(cells) if _means_missing(cell, names)}
        missing |= np.array([cell in marked for cell in cells], dtype=bool)
        marks.update(cell.strip() for cell in cells if isinstance(cell, str) and cell in marked)
    elif values.dtype.kind in "iuf":
        missing |= np.isnan(values)
        if MISSING not in names:
            missing |= values == MISSING
    labels = _of_one_type(values[~missing])
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
    return ~missing, labels, marks


def _nulls(y: Any) -> Any:
    """Mask of the entries that are masked, or null in a table; False if there is no such thing."""
    isna = getattr(y, "isna", None) or getattr(y, "is_null", None)  # of pandas; of polars and Arrow
    return np.asarray(isna()) if isna else np.ma.getmask(y)


def _means_missing(value: Any, classes: set[Any]) -> bool:
    """Whether a label is missing: None, NaN or null, or -1 or one of the texts if it is not among the classes."""
    if isinstance(value, str):
        text = value.strip()
        return text in MISSING_LABELS and not classes & {text, value}
    return is_null(value) or (value == MISSING and MISSING not in classes)


def _as_array(y: Any) -> AnyArray:
    """Return y as an array, of objects if NumPy would make floats of integers beside nulls, or join types that differ."""
    if isinstance(y, list | tuple):
        return np.asarray(y, dtype=None if all(isinstance(label, str) for label in y) else object)
    if isinstance(y, np.ma.MaskedArray):
        return np.asarray(y.data)
    if hasattr(y, "to_pylist"):  # Arrow
        return np.array(y.to_pylist(), dtype=object)
    dtype = getattr(y, "dtype", None)
    values = np.asarray(y)
    if hasattr(dtype, "categories") or (values.dtype.kind == "f" and "int" in str(dtype).lower()):
        return np.array(list(y), dtype=object)
    return values.astype(object) if values.dtype.kind == "T" else values


def is_null(value: Any) -> bool:
    """Whether a value is None, NaN or pandas.NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Number) and value != value


def _of_one_type(labels: AnyArray) -> AnyArray:
    """Labels that are objects as an array of their type if all are numbers or all are booleans."""
    if labels.dtype != object or not all(isinstance(label, numbers.Real | np.bool_) for label in labels):
        return labels
    return np.array(labels.tolist())


# Votes


class Copies(NamedTuple):
    """Rows repeated once for each class that they have votes for; unlabelled rows once."""

    rows: Ints  # ascending
    z: Ints  # code of the class, -1 if missing
    share: Array


def has_votes(y: Any) -> bool:
    """Whether y has two or more columns, that is, holds votes; one column is taken as labels."""
    if isinstance(y, list | tuple):
        return bool(y) and isinstance(y[0], list | tuple | np.ndarray) and len(y[0]) > 1
    shape: Any = getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] > 1


def vote_shares(y: Any, classes: Any = None, *, fitted: bool = False) -> tuple[Array, AnyArray]:
    """Return the shares (n, K) of the classes in each row's votes, zero if the label is missing, and the classes.

    Parameters
    ----------
    y : array-like of shape (n, K)
        Counts of votes, or probabilities; a row of zeros or of NaN is missing.
    classes : array-like or None
        The classes. Columns of a table are found by name, those of an array are in this order. By default the names of the
        columns of a table, otherwise 0, 1, ...
    fitted : bool
        Whether these are the classes of a fit, so that some may have no votes here.
    """
    values, columns = _vote_table(y)
    known = as_classes(classes if classes is not None else columns or range(values.shape[1]))
    names = known.tolist()
    if values.shape[1] != len(names) or set(columns or names) != set(names):
        which = f"the columns {columns}" if columns else f"{values.shape[1]} columns of votes"
        raise ValueError(f"y has {which}, but the classes are {names}: y needs one column of votes for each class.")
    if columns:
        values = values[:, [columns.index(name) for name in names]]
    given = ~np.isnan(values).all(axis=1)
    bad = given & ~(np.isfinite(values) & (values >= 0.0)).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"row {row} of y has the votes {values[row].tolist()}: write counts or probabilities >= 0, and zeros or NaN in all "
            "columns if the label is missing. If each column has the labels of one annotator, use marmix.votes(y)."
        )
    values = np.nan_to_num(values)
    largest = values.max(axis=1, initial=0.0, keepdims=True)
    shares = values / np.where(largest > 0.0, largest, 1.0)  # exactly one if there is a single class
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    voted = shares.any(axis=0)
    if not (fitted or voted.all()):
        raise ValueError(
            f"class {known[~voted].tolist()[0]!r} has no vote in any row of y: remove its column, or label a row of it."
        )
    return shares, known


def _vote_table(y: Any) -> tuple[Array, list[Any] | None]:
    """Votes as an array of numbers, and the names of the columns; None if they have none, or only their numbers."""
    columns = list(getattr(y, "columns", []))
    try:
        if hasattr(y, "iloc"):  # pandas
            y = y.to_numpy(dtype=float, na_value=np.nan)
        values = np.asarray(to_host(y) if on_device(y) else unmasked(y), dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            "y has several columns that are not all numbers: votes are counts or probabilities, one column for each class. "
            "If each column has the labels of one annotator, use marmix.votes(y)."
        ) from None
    if values.ndim != 2:
        raise ValueError(
            f"y should be a 1d array of labels or a 2d array of votes, got an array of shape {values.shape}."
        )
    return values, None if columns == list(range(len(columns))) else columns


def most_voted(shares: Array, proba: Array | None = None) -> Ints:
    """Code of the class with the most votes in each row, -1 if there are none.

    Ties go to the class with the larger probability (n, K), or to the first.
    """
    if proba is None:
        codes = shares.argmax(axis=1)
    else:
        tied = shares == shares.max(axis=1, keepdims=True)
        codes = np.where(tied, np.nan_to_num(proba, nan=0.0), -1.0).argmax(axis=1)
    return np.where(shares.any(axis=1), codes, MISSING)


def asked_labels(missing: Any, codes: Any) -> Any:
    """Rows whose label was missing but is known now, as an array of bool; None if there are none.

    Parameters
    ----------
    missing : array-like of shape (n,) or None
        Whether the label of each row was missing when the data came; by default where the code is negative.
    codes : array of shape (n,)
    """
    if missing is None:
        return None
    flags = np.asarray(to_host(missing) if on_device(missing) else missing)
    known = to_host(codes) >= 0
    if flags.shape != known.shape or not np.isin(flags, (0, 1)).all():
        raise ValueError(f"missing must have shape {known.shape} and say True or False for each row.")
    flags = flags.astype(bool)
    if not (flags | known).all():
        row = int((~(flags | known)).argmax())
        raise ValueError(f"the label of row {row} is missing in y, but missing says that it was not: write True there.")
    asked = flags & known
    return asked if asked.any() else None


def copies_of(shares: Array) -> Copies:
    """Rows repeated once for each class with a positive share."""
    missing = np.asarray(~shares.any(axis=1))
    rows, z = np.nonzero(np.column_stack([shares, missing]))
    share = np.where(missing[rows], 1.0, shares[rows, np.minimum(z, shares.shape[1] - 1)])
    return Copies(rows, np.where(missing[rows], MISSING, z), share)


def label_shares(y: Any, classes: Any) -> Array:
    """Shares (n, K) of the classes in each row's label: those of its votes, or one at its label; zero if it is missing."""
    if has_votes(y):
        return vote_shares(y, classes, fitted=True)[0]
    z = to_host(number_labels(y, classes))
    shares = np.zeros((len(z), len(as_classes(classes))))
    shares[np.flatnonzero(z >= 0), z[z >= 0]] = 1.0
    return shares


def votes(labels: Any, classes: ArrayLike | None = None) -> tuple[NDArray[np.int64], AnyArray]:
    """Count the votes of annotators: from a column of labels for each annotator to a column of counts for each class.

    Parameters
    ----------
    labels : table or array-like of shape (n, annotators)
        The label that each annotator gave each row; missing where -1, NaN, None, pandas.NA or a text such as "NA" or "".
    classes : array-like of shape (K,) or None
        The classes, in the order of the columns of the result; by default the sorted labels.

    Returns
    -------
    counts : integer array of shape (n, K)
        Number of votes for each class; pass it as `y`. A row without votes has no label.
    classes : array of shape (K,)
        Pass it to an estimator as `classes`.

    See Also
    --------
    MARClassifierCV : takes the counts as `y`, as all estimators do.

    Examples
    --------
    >>> import marmix
    >>> counts, classes = marmix.votes([["cat", "dog", "cat"], ["dog", None, None], [None, None, None]])
    >>> counts
    array([[2, 1],
           [0, 1],
           [0, 0]])
    >>> print(classes)
    ['cat' 'dog']
    """
    if hasattr(labels, "columns"):
        columns = [labels[name] for name in labels.columns]
    else:
        table = np.asarray(labels, dtype=object if isinstance(labels, list | tuple) else None)
        if table.ndim != 2:
            raise ValueError(f"labels must have shape (rows, annotators), got {table.shape}.")
        columns = list(table.T)
    names, _ = choose_classes([found_labels(column, classes) for column in columns], classes)
    counts = np.sum([label_shares(column, names) for column in columns], axis=0)
    return counts.astype(np.int64), names
