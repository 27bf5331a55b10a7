"""Labels as users give them, some of them missing, and the integers that the fit works with."""

import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from marmix.arrays import namespace, to_host
from marmix.streams import release

TEXT_FOR_MISSING = ("nan", "NaN", "None", "<NA>", "NaT", "-1")
MISSING = -1  # in the integers; users may write it too
_PART = 2**20  # labels looked at together where there are many


def encode_labels(y: Any, classes: Any = None) -> tuple[NDArray[np.integer], NDArray[Any]]:
    """Integers ``z`` (-1 where the label is missing) and the classes that they number.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: integers, floats, strings, booleans or categories. ``None``, ``NaN``, ``pandas.NA`` and a polars null are
        missing; so is -1, unless `classes` names it as a class.
    classes : array-like or None
        The classes that `y` may hold, in the order of the results' columns. By default those found in `y`, sorted.

    Returns
    -------
    z : integer array of shape (n,)
    classes : array of shape (K,)
    """
    declared = _declared_categories(y) if classes is None else None
    if _plain_and_long(y):
        named = choose_classes([_released(y[a : a + _PART], classes) for a in range(0, len(y), _PART)], classes)
        return number_labels(y, named), named
    known, given = known_labels(y, _named(classes))
    named = choose_classes([_distinct(given, classes)], classes, declared)
    return _numbered(known, given, named), named


def found_labels(y: Any, classes: Any = None) -> NDArray[Any]:
    """The distinct labels of some rows, which may be none."""
    return _distinct(known_labels(y, _named(classes))[1], classes)


def _released(y: NDArray[Any], classes: Any) -> NDArray[Any]:
    """The distinct labels of a part of a file, whose pages are then let go."""
    found = found_labels(y, classes)
    release(y)
    return found


def _named(classes: Any) -> NDArray[Any]:
    return np.empty(0) if classes is None else _as_classes(classes)


def _distinct(given: NDArray[Any], classes: Any) -> NDArray[Any]:
    try:
        found = np.unique(given)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in given.tolist()})
        raise ValueError(f"y mixes labels of types {', '.join(kinds)}: use one type for all classes.") from None
    if len(given):
        check_classification_targets(given)
    suspicious = [name for name in found.tolist() if isinstance(name, str) and name in TEXT_FOR_MISSING]
    if suspicious and suspicious[0] not in _named(classes).tolist():
        raise ValueError(
            f"y holds the text {suspicious[0]!r}, which looks like a missing label turned into text: write missing labels as "
            "None or NaN (in an object array), or name the text in classes= if it is a class."
        )
    return found


def choose_classes(found: Sequence[NDArray[Any]], classes: Any, declared: list[Any] | None = None) -> NDArray[Any]:
    """The classes of a fit: those found in parts of the rows, or those that the user names, each of which must be found."""
    some = [part for part in found if len(part)] or list(found[:1])
    every = _distinct(np.concatenate(some), classes) if len(some) > 1 else some[0]
    named = every if classes is None else _as_classes(classes)
    if classes is None and declared is not None:
        unused = [c for c in declared if c not in set(every.tolist()) and not _is_minus_one(c)]
        if unused and len(every):
            raise ValueError(
                f"y declares the category {unused[0]!r}, but no row has that label. Remove it "
                "(pandas: y.cat.remove_unused_categories()) or name the classes to fit in classes=."
            )
    _check_every_class_labelled(named, every)
    return named


def _plain_and_long(y: Any) -> bool:
    """Whether labels are better read in parts: a long array of numbers, which may be in a file."""
    return (
        isinstance(y, np.ndarray)
        and not isinstance(y, np.ma.MaskedArray)
        and y.ndim == 1
        and _numeric(y)
        and len(y) > _PART
    )


def _code_type(classes: int) -> type[np.signedinteger[Any]]:
    return np.int8 if classes < 2**7 else np.int64


def _numbered(known: NDArray[np.bool_], given: NDArray[Any], named: NDArray[Any]) -> NDArray[np.integer]:
    order = np.argsort(named, kind="stable")
    z: NDArray[Any] = np.full(len(known), MISSING, dtype=_code_type(len(named)))
    z[known] = order[np.searchsorted(named[order], given)]
    return z


def known_labels(y: Any, classes: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which rows of `y` have a label, and these labels, for scoring."""
    values, missing = _values_and_missing(y)
    if MISSING not in classes.tolist():
        if _numeric(values):
            missing = missing | (values == MISSING)
        elif values.dtype == object:
            missing = missing | np.fromiter(map(_is_minus_one, values), bool, len(values))
    return ~missing, _plain(values[~missing])


def number_labels(y: Any, classes: NDArray[Any]) -> NDArray[np.integer]:
    """Integers ``z`` (-1 where the label is missing) of labels among known classes, of which some may have no row."""
    if _plain_and_long(y):
        z = np.empty(len(y), dtype=_code_type(len(classes)))
        for a in range(0, len(y), _PART):
            z[a : a + _PART] = number_labels(y[a : a + _PART], classes)
            release(y[a : a + _PART])
        return z
    known, labels = known_labels(y, classes)
    have = set(classes.tolist())
    strangers = [label for label in np.unique(labels).tolist() if label not in have]
    if strangers:
        raise ValueError(
            f"y has the label {strangers[0]!r}, which is not among the classes of the fit, {classes.tolist()}."
        )
    return _numbered(known, labels, classes)


def encode_device_labels(y: Any, classes: Any = None) -> tuple[Any, NDArray[Any]]:
    """`encode_labels` of numbers on a device: the integers stay there, the classes come to the host."""
    xp = namespace(y)
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
    missing = xp.isnan(y) if xp.isdtype(y.dtype, "real floating") else xp.zeros_like(y, dtype=xp.bool)
    if MISSING not in _named(classes).tolist():
        missing = missing | (y == MISSING)
    found = found_labels(to_host(xp.unique_values(y[~missing])), classes)
    named = choose_classes([found], classes)
    return number_device_labels(y, named), named


def number_device_labels(y: Any, classes: NDArray[Any]) -> Any:
    """`number_labels` of numbers on a device."""
    xp = namespace(y)
    z = xp.full_like(y, MISSING, dtype=xp.int8 if len(classes) < 2**7 else xp.int64)
    known = xp.zeros_like(y, dtype=xp.bool)
    for k, name in enumerate(classes.tolist()):
        own = y == name
        z = xp.where(own, xp.asarray(k, dtype=z.dtype, device=y.device), z)
        known = known | own
    missing = xp.isnan(y) if xp.isdtype(y.dtype, "real floating") else xp.zeros_like(known)
    if MISSING not in classes.tolist():
        missing = missing | (y == MISSING)
    strangers = ~(known | missing)
    if bool(xp.any(strangers)):
        stranger = to_host(y[xp.argmax(xp.astype(strangers, xp.int8))]).item()
        raise ValueError(
            f"y has the label {stranger!r}, which is not among the classes of the fit, {classes.tolist()}."
        )
    return z


def _values_and_missing(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The labels as a one-dimensional array, and where they are missing."""
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
            stacklevel=5,
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
    """y as an array, of objects where NumPy would make floats of integers beside a null, or text of a NaN beside text."""
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


def _numeric(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "iuf"


def _plain(given: NDArray[Any]) -> NDArray[Any]:
    """Labels that are all of one simple kind as an array of that kind, e.g. booleans that came beside None."""
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


def _check_every_class_labelled(named: NDArray[Any], found: NDArray[Any]) -> None:
    if not len(found):
        raise ValueError(
            "y has no label at all: a classifier needs at least one labelled row of each class "
            "(to find groups without labels, see sklearn.mixture.GaussianMixture)."
        )
    have = set(found.tolist())
    for name in named.tolist():
        if name not in have:
            raise ValueError(
                f"class {name!r} is in classes= but no row of y has that label: label at least one row of it, "
                "or leave it out of classes=."
            )
    unknown = [name for name in found.tolist() if name not in set(named.tolist())]
    if unknown:
        raise ValueError(f"y holds the label {unknown[0]!r}, which is not in classes={named.tolist()}.")
    if len(named) < 2:
        raise ValueError(
            f"y has one class only, {named.tolist()[0]!r}: at least two classes must have labels. "
            "(-1 marks a missing label; if it is a class of yours, name the classes in classes=.)"
        )
