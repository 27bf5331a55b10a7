"""Labels as users write them, some of them missing: which are, which classes there are, and the number of each row's class."""

import numbers
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from marmix.arrays import namespace, on_device, to_host
from marmix.streams import release

MISSING = -1  # in the numbers of labels; users may write it too

# Texts for "no value", and who takes them for it. An array has None, NaN, NA and -1 for missing labels, never a text.
_MADE_BY_PYTHON = ("NaN", "nan", "None", "<NA>", "NaT")  # by str() of a missing value
MISSING_CELLS = ("", "NA", "N/A", "#N/A", "null", "NULL", "?", *_MADE_BY_PYTHON)  # data files: features and labels
MISSING_LABELS = (*MISSING_CELLS, "-1", "-1.0")  # data files: labels; --missing adds to them
MISSING_FIELDS = (
    *("n/a", "#NA", "#N/A N/A", "-NaN", "-nan", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"),
    *MISSING_CELLS,
)  # CSV files of to_memmap
REFUSED_TEXTS = (*_MADE_BY_PYTHON, "-1")  # arrays and typed tables: refused as a class, unless it is named
DOUBTFUL_TEXTS = {
    *(text.casefold() for text in MISSING_CELLS if text.strip("?")),
    *("nil", "missing", "unknown", "undefined", "unlabelled", "unlabeled", "no label", "not labelled", "not labeled"),
    *("-", "--", ".", "??", "???", "-9", "-99", "-999", "-9999"),
}  # data files: classes, but with a note; compared in lower case

_PART = 2**20  # labels of a long array that are read together


class Labels:
    """Labels that come in batches: which of them are missing, the classes, and the number of each row's class.

    All labels go through this class. An array comes in one batch, or in several if it is long; the column of a file comes in
    batches (`marmix.tables.LabelColumn`, `marmix.io.to_memmap`). Sources differ in `read` alone.

    Parameters
    ----------
    where : str, default="y"
        What holds the labels, for messages.
    classes : array-like or None, default=None
        The classes that labels may have, in the order of their numbers; another label is refused. By default the labels found,
        sorted.
    most : int or None, default=None
        Number of classes from which on more are refused.

    Attributes
    ----------
    known : array or None
        The classes that were given.
    rows, n_missing : int
        So far; `n_missing` of the rows have no label.
    found : set of int
        Numbers of the labels that rows have.
    """

    text_advice = (
        "write missing labels as None or NaN (in an object array), or name the text in classes= if it is a class"
    )

    def __init__(self, where: str = "y", classes: Any = None, *, most: int | None = None):
        self.where, self.most = where, most
        self.known = None if classes is None else _as_classes(classes)
        self.rows = self.n_missing = 0
        self._numbers = {} if self.known is None else {label: k for k, label in enumerate(self.known.tolist())}
        self.found: set[int] = set()
        self._kind: Any = None
        self._dtype: np.dtype[Any] | None = None

    def add(self, y: Any) -> NDArray[np.integer]:
        """Numbers of the labels of the next rows, an array: -1 where missing, else in the order in which labels came."""
        known, given = known_labels(y, np.empty(0) if self.known is None else self.known)
        try:
            distinct = np.unique(given)
        except TypeError:
            raise ValueError(self._mixed({type(label) for label in given.tolist()})) from None
        if len(given):
            check_classification_targets(given)
        places = np.full(len(known), MISSING, dtype=np.intp)
        places[known] = np.searchsorted(distinct, given)
        return self.add_distinct(distinct, places)

    def add_distinct(self, distinct: NDArray[Any] | Sequence[Any], places: NDArray[np.integer]) -> NDArray[np.integer]:
        """`add` of rows whose label is ``distinct[place]``, or missing where the place is -1."""
        if isinstance(distinct, np.ndarray):
            if len(distinct):
                self._dtype = distinct.dtype if self._dtype is None else np.result_type(self._dtype, distinct.dtype)
            distinct = distinct.tolist()
        counts = np.bincount(places + 1, minlength=len(distinct) + 1).tolist()
        numbers = [MISSING] * (len(distinct) + 1)
        for i, (value, count) in enumerate(zip(distinct, counts[1:], strict=True)):
            if count:
                numbers[i] = self._number(value, count, lambda i=i: self.rows + int(np.argmax(places == i)))  # type: ignore[misc]
        self.found.update(number for number in numbers if number != MISSING)
        codes: NDArray[np.integer] = np.array(numbers, np.int8 if len(self._numbers) < 2**7 else np.int32)[places]
        self.rows += len(codes)
        self.n_missing += int(np.count_nonzero(codes == MISSING))
        return codes

    def read(self, value: Any, count: int, first: Callable[[], int]) -> Any:
        """The label that a value stands for, None if it is missing; `count` rows have it, `first` tells the first one."""
        if _is_missing(value) or (_is_minus_one(value) and value not in self._numbers):
            return None
        if isinstance(value, str) and value in REFUSED_TEXTS and value not in self._numbers:
            raise ValueError(
                f"{self.where} holds the text {value!r}, which looks like a missing label turned into text: {self.text_advice}."
            )
        return value

    def _number(self, value: Any, count: int, first: Callable[[], int]) -> int:
        label = self.read(value, count, first)
        if label is None:
            return MISSING
        number: int | None = self._numbers.get(label)
        if self.known is not None:
            if number is None:
                raise ValueError(self.stranger(label, first))
            return number
        kind = next((kind for kind in (bool, str, numbers.Real) if isinstance(label, kind)), type(label))
        self._kind = self._kind or (kind, type(label))
        if kind is not self._kind[0]:
            raise ValueError(self._mixed({self._kind[1], type(label)}))
        if number is None:
            number = self._numbers[label] = len(self._numbers)
            if number == self.most:
                raise ValueError(self.too_many())
        return number

    def stranger(self, label: Any, first: Callable[[], int]) -> str:
        """The message about a label that is none of the given classes."""
        classes = [] if self.known is None else self.known.tolist()
        return f"{self.where} holds the label {label!r}, which is not among the classes {classes}."

    def too_many(self) -> str:
        """The message about more than `most` classes."""
        return f"{self.where} has more than {self.most:,} classes: does it name rows?"

    def _mixed(self, kinds: set[type]) -> str:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        return f"{self.where} mixes labels of types {names}: use one type for all classes."

    def names(self) -> list[Any]:
        """The labels found, in the order in which they came; None for one that turns out to be missing."""
        return list(self._numbers)

    def sorted_names(self) -> list[Any]:
        """The classes found, sorted."""
        try:
            return sorted({name for name in self.names() if name is not None})
        except TypeError:
            raise ValueError(self._mixed({type(name) for name in self.names()})) from None

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, in the order of their numbers."""
        return np.array(self.sorted_names(), dtype=self._dtype) if self.known is None else self.known

    def numbered(self, codes: NDArray[np.integer], kind: Any = None) -> NDArray[np.integer]:
        """What `add` returned as numbers of the classes, which are final when all labels were added."""
        places = self._places
        kind = kind or (np.int8 if len(places) < 2**7 else np.int64)
        order = [places.get(name, MISSING) for name in self.names()] if self.known is None else range(len(self.known))
        return np.array([*order, MISSING], kind)[codes]

    @property
    def _places(self) -> dict[Any, int]:
        names = self.sorted_names() if self.known is None else self.known.tolist()
        return {name: k for k, name in enumerate(names)}

    def check_classes(self) -> None:
        """Refuse fewer than two classes, and given classes that no row has."""
        if not self.found:
            raise ValueError(
                f"{self.where} has no label at all: at least two classes must have labels. (To find groups without labels, "
                "see sklearn.mixture.GaussianMixture.)"
            )
        for label, number in self._numbers.items():
            if number not in self.found:
                raise ValueError(
                    f"class {label!r} is in classes= but no row of {self.where} has that label: label at least one row of "
                    "it, or leave it out of classes=."
                )
        if len(self.found) < 2:
            raise ValueError(
                f"{self.where} has one class only, {next(iter(self._numbers))!r}: at least two classes must have labels. "
                "(-1 marks a missing label; if it is a class of yours, name the classes in classes=.)"
            )


def encode_labels(y: Any, classes: Any = None) -> tuple[Any, NDArray[Any]]:
    """Return integers ``z``, -1 where a label is missing, and the classes that they number.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: integers, floats, strings, booleans or categories. ``None``, ``NaN``, ``pandas.NA`` and a polars null are
        missing; so is -1, unless `classes` names it as a class. Numbers may be on a device, and `z` is there then.
    classes : array-like or None
        The classes that `y` may hold, in the order of the results' columns. By default those found in `y`, sorted.

    Returns
    -------
    z : integer array of shape (n,)
    classes : array of shape (K,)
    """
    labels = Labels("y", classes)
    finish = _added(y, labels)
    labels.check_classes()
    if classes is None:
        _check_categories(_declared_categories(y), labels.classes)
    return finish(), labels.classes


def number_labels(y: Any, classes: NDArray[Any]) -> Any:
    """Return integers ``z``, -1 where a label is missing, of labels among known classes, of which some may have no row."""
    return _added(y, Labels("y", classes))()


def found_labels(y: Any, classes: Any = None) -> NDArray[Any]:
    """Return the distinct labels of some rows, of which there may be none."""
    labels = Labels("y", classes)
    labels.add(y)
    return labels.classes[sorted(labels.found)]


def choose_classes(found: Sequence[NDArray[Any]], classes: Any, declared: list[Any] | None = None) -> NDArray[Any]:
    """Return the classes of a fit from the `found_labels` of parts of its rows, as `encode_labels` does from all of them."""
    labels = Labels("y", classes)
    for part in found:
        labels.add_distinct(part, np.arange(len(part)))
    labels.check_classes()
    if classes is None:
        _check_categories(declared, labels.classes)
    return labels.classes


def known_labels(y: Any, classes: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which rows of `y` have a label, and these labels."""
    values, missing = _values_and_missing(y)
    if MISSING not in classes.tolist():
        if values.dtype.kind in "iuf":
            missing = missing | (values == MISSING)
        elif values.dtype == object:
            missing = missing | np.fromiter(map(_is_minus_one, values), bool, len(values))
    return ~missing, _plain(values[~missing])


def _added(y: Any, labels: Labels) -> Callable[[], Any]:
    """Add all labels; return a function that gives the numbers of their classes."""
    if on_device(y):
        return _added_device(y, labels)
    if not _plain_and_long(y):
        codes = labels.add(y)
        return lambda: labels.numbered(codes)
    parts = [_released(y[a : a + _PART], labels) for a in range(0, len(y), _PART)]

    def finish() -> NDArray[np.integer]:
        z = np.empty(len(y), dtype=labels.numbered(parts[0][:0]).dtype)
        for i, part in enumerate(parts):
            z[i * _PART : i * _PART + len(part)] = labels.numbered(part)
        return z

    return finish


def _released(y: NDArray[Any], labels: Labels) -> NDArray[np.integer]:
    """Add a part of an array that may be in a file, whose pages are then released."""
    codes = labels.add(y)
    release(y)
    return codes


def _plain_and_long(y: Any) -> bool:
    """Whether labels are read in parts: a long array of numbers, which may be in a file."""
    plain = isinstance(y, np.ndarray) and not isinstance(y, np.ma.MaskedArray)
    return plain and y.ndim == 1 and y.dtype.kind in "iuf" and len(y) > _PART


def _added_device(y: Any, labels: Labels) -> Callable[[], Any]:
    """Add numbers on a device by their distinct values, which come to the host; the numbers of classes stay there."""
    xp = namespace(y)
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
    given = y[~xp.isnan(y)] if xp.isdtype(y.dtype, "real floating") else y
    distinct = to_host(xp.unique_values(given))
    codes = labels.add(distinct)

    def finish() -> Any:
        numbers = labels.numbered(codes)
        z = xp.full_like(y, MISSING, dtype=getattr(xp, numbers.dtype.name))
        for value, number in zip(distinct.tolist(), numbers.tolist(), strict=True):
            z = xp.where(y == value, xp.asarray(number, dtype=z.dtype, device=y.device), z)
        return z

    return finish


def _values_and_missing(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels as a one-dimensional array, and where they are missing for what they are: None, NaN, null."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None: give the labels, -1 where missing.")
    missing = None
    if isinstance(y, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(y)
        y = y.data
    elif hasattr(y, "isna"):  # pandas
        missing = np.asarray(y.isna())
    elif hasattr(y, "is_null"):  # polars
        missing = y.is_null().to_numpy()
    values = _as_array(y)
    if values.ndim == 2 and values.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,).",
            DataConversionWarning,
            stacklevel=6,
        )
        values = values.ravel()
        missing = None if missing is None else missing.ravel()
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
    if missing is None:
        missing = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        missing = missing | np.isnan(values)
    elif values.dtype == object:
        missing = missing | np.fromiter(map(_is_missing, values), bool, len(values))
    return values, missing


def _as_array(y: Any) -> NDArray[Any]:
    """Return y as an array; of objects where NumPy would make floats of integers beside a null, or text of NaN beside text."""
    if isinstance(y, list | tuple):
        return np.asarray(y, dtype=object if {str} < set(map(type, y)) else None)
    dtype = getattr(y, "dtype", None)
    values = np.asarray(y)
    if hasattr(dtype, "categories") or (values.dtype.kind == "f" and "int" in str(dtype).lower()):
        return np.array(list(y), dtype=object)
    return values


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Number) and value != value


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_) and float(value) == MISSING


def _plain(given: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are all of one simple type, e.g. booleans that stood beside None, as an array of that type."""
    if given.dtype != object or not len(given):
        return given
    kinds = {type(value) for value in given.tolist()}
    if len(kinds) == 1 and issubclass(next(iter(kinds)), bool | int | float | np.generic):
        return np.array(given.tolist())
    return given


def _as_classes(classes: Any) -> NDArray[Any]:
    named = _plain(np.asarray(classes))
    if named.ndim != 1 or len(set(named.tolist())) != len(named):
        raise ValueError(f"classes={classes!r}: name each class once, in a list.")
    return named


def _declared_categories(y: Any) -> list[Any] | None:
    dtype = getattr(y, "dtype", None)
    categories = getattr(dtype, "categories", None)
    return None if categories is None or not hasattr(y, "isna") else list(categories)


def _check_categories(declared: list[Any] | None, found: NDArray[Any]) -> None:
    """Refuse a declared category that no row has."""
    unused = [name for name in declared or () if name not in set(found.tolist()) and not _is_minus_one(name)]
    if unused:
        raise ValueError(
            f"y declares the category {unused[0]!r}, but no row has that label. Remove it "
            "(pandas: y.cat.remove_unused_categories()) or name the classes to fit in classes=."
        )
