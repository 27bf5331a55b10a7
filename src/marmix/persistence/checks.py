"""What the fields of a saved model may hold: types, shapes and finite numbers.

A check takes a value and the lengths known so far, and returns the value or raises ValueError.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from marmix.core.arrays import AnyArray

Check = Callable[[Any, dict[str, int]], Any]


class ContainerError(ValueError):
    """The file is not a saved model, or it is damaged, edited, too large or too new.

    `marmix.load` and `marmix.persistence.describe` raise it; the message says what is wrong.
    """


def checked(values: Any, fields: Mapping[str, Check], sizes: dict[str, int]) -> dict[str, Any]:
    """Return these fields of an object in a file; an absent one is None, and others are ignored."""
    if not isinstance(values, dict):
        raise ValueError("not an object with fields")
    result = {}
    for name, check in fields.items():
        try:
            result[name] = check(values.get(name), sizes)
        except ValueError as error:
            raise ContainerError(f"{name!r}: {error}") from error
    return result


@dataclass(frozen=True)
class Record:
    """A check for an object with these fields, which are passed to `make`."""

    make: Callable[..., Any]
    fields: Mapping[str, Check]

    def __call__(self, values: Any, sizes: dict[str, int]) -> Any:
        return self.make(**checked(values, self.fields, sizes))


def of(*types: type) -> Check:
    """Values of one of these types; True and False are not numbers."""

    def check(value: Any, sizes: dict[str, int]) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError(f"not of type {' or '.join(kind.__name__ for kind in types)}")
        return value

    return check


text, flag, real = of(str), of(bool), of(int, float)


def number(value: Any, sizes: dict[str, int]) -> Any:
    """A finite number."""
    if not np.isfinite(real(value, sizes)):
        raise ValueError("not a finite number")
    return value


def whole(value: Any, sizes: dict[str, int]) -> Any:
    """A whole number from 0 on."""
    if of(int)(value, sizes) < 0:
        raise ValueError("a negative number")
    return value


def among(names: Container[str]) -> Check:
    """One of these names."""

    def check(value: Any, sizes: dict[str, int]) -> Any:
        if text(value, sizes) not in names:
            raise ValueError(f"{value[:50]!r} is not known to this version of marmix")
        return value

    return check


def optional(check: Check) -> Check:
    """None, or what passes the check."""
    return lambda value, sizes: None if value is None else check(value, sizes)


def each(check: Check) -> Check:
    """A list whose items pass the check."""
    return lambda value, sizes: [check(item, sizes) for item in of(list)(value, sizes)]


def by_name(check: Check) -> Check:
    """A dict whose values pass the check."""
    return lambda value, sizes: {name: check(item, sizes) for name, item in of(dict)(value, sizes).items()}


def array(kind: str, *shapes: str) -> Check:
    """An array of finite numbers of this kind ("f", "i" or "b") and of one of these shapes, or of any if none is given.

    Each letter of a shape is a length, which is the same wherever the letter occurs in a model.
    """

    def check(value: Any, sizes: dict[str, int]) -> AnyArray:
        if not isinstance(value, np.ndarray) or value.dtype.kind != kind or not np.isfinite(value).all():
            raise ValueError("not an array of finite numbers of its type")
        for shape in shapes:
            known, pairs = dict(sizes), zip(shape, value.shape, strict=False)
            if len(shape) == value.ndim and all(known.setdefault(letter, size) == size for letter, size in pairs):
                sizes.update(known)
                return value
        if shapes:
            raise ValueError(f"an array of shape {value.shape}, which does not fit the others")
        return value

    return check


def floats(*shapes: str) -> Check:
    """An array of finite doubles of one of these shapes."""
    return array("f", *shapes)


def length(letter: str) -> Check:
    """A number from 1 on that is a length in the shapes of arrays."""

    def check(value: Any, sizes: dict[str, int]) -> Any:
        if whole(value, sizes) < 1 or sizes.setdefault(letter, value) != value:
            raise ValueError(f"the length {value} does not fit")
        return value

    return check


def labels(value: Any, sizes: dict[str, int]) -> AnyArray:
    """An array of K different classes, all of them text or all numbers; rows have G = K + 1 groups with the unlabelled ones."""
    items = value.tolist() if isinstance(value, np.ndarray) else []
    alike = all(isinstance(item, str) for item in items) or all(isinstance(item, int | float) for item in items)
    if not alike or len(items) < 2 or len(set(items)) < len(items):
        raise ValueError("not an array of two or more different classes")
    sizes.update(K=len(items), G=len(items) + 1)
    return np.asarray(value)


def names(value: Any, sizes: dict[str, int]) -> AnyArray:
    """An array with the names of the d features."""
    if value.shape != (sizes["d"],) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"not an array of {sizes['d']} names")
    return np.asarray(value)
