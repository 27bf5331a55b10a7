"""Checked access to the fields of a saved model."""

from collections.abc import Callable, Container
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from marmix.core.arrays import LARGEST

T = TypeVar("T")
AGAIN = " Save the model again."  # the end of messages about a file


class ContainerError(ValueError):
    """The file is not a saved model, or it is damaged, edited, too large or too new.

    `marmix.load` and `marmix.persistence.describe` raise it; the message says what is wrong.
    """


class Fields:
    """Fields of one object in a file; missing, mistyped and unknown fields raise `ContainerError`.

    `where` names the object in messages.
    """

    def __init__(self, values: Any, where: str):
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise ContainerError(f"{where}: the file has a value where fields are expected.{AGAIN}")
        self._values, self.where = dict(values), where

    def refuse(self, name: str, wanted: str) -> ContainerError:
        """Return the error for a field that is not what is wanted."""
        return ContainerError(f"{self.where}: the field {name!r} of the file is not {wanted}.{AGAIN}")

    def has(self, name: str) -> bool:
        """Return whether the field exists."""
        return name in self._values

    def anything(self, name: str) -> Any:
        """Return a field of any type."""
        if name not in self._values:
            raise ContainerError(f"{self.where}: the file lacks the field {name!r}.{AGAIN}")
        return self._values.pop(name)

    def finish(self) -> None:
        """Raise ContainerError if fields are left that were not read."""
        if self._values:
            raise ContainerError(
                f"{self.where}: the file has the field {next(iter(self._values))[:50]!r}, which this version of marmix does not "
                "know. Upgrade marmix, or load the file with the version that wrote it."
            )

    def part(self, name: str) -> "Fields":
        """Return a field that is an object with fields."""
        return Fields(self.anything(name), f"{self.where}, {name}")

    def _value(self, name: str, wanted: str, kind: type[T], sound: Callable[[Any], Any] = lambda value: True) -> T:
        value = self.anything(name)
        if not isinstance(value, kind) or not sound(value):
            raise self.refuse(name, wanted)
        return value

    def flag(self, name: str) -> Any:
        """Return true or false."""
        return self._value(name, "true or false", bool | np.bool_)  # type: ignore[arg-type]

    def number(self, name: str, least: float = -np.inf, most: float = LARGEST) -> Any:
        """Return a real number; from `least` to `most` if `least` is given, otherwise possibly NaN or infinite."""
        value = self._value(name, "a number", int | float | np.integer | np.floating, _is_not_bool)  # type: ignore[arg-type]
        if least > -np.inf and not least <= value <= most:
            raise self.refuse(name, f"a number from {least:g} to {most:g}")
        return value

    def whole(self, name: str, least: int = 0, most: int = 2**53) -> Any:
        """Return an integer."""
        value = self._value(name, "a whole number", int | np.integer, _is_not_bool)  # type: ignore[arg-type]
        if not least <= value <= most:
            raise self.refuse(name, f"a whole number from {least} to {most}")
        return value

    def text(self, name: str, among: Container[str] | None = None) -> str:
        """Return text, one of `among` if given."""
        wanted = "text" if among is None else "a name that this version of marmix knows"
        return self._value(name, wanted, str, lambda text: among is None or text in among)

    def texts(self, name: str) -> list[str]:
        """Return a list of text."""
        return self._value(name, "a list of text", list, lambda items: all(isinstance(item, str) for item in items))

    def wholes(self, name: str, least: int, most: int) -> list[int]:
        """Return a list of integers."""
        wanted = f"a list of whole numbers from {least} to {most}"
        return self._value(name, wanted, list, lambda items: all(type(n) is int and least <= n <= most for n in items))

    def floats(self, name: str, *shape: int, least: float = -LARGEST, most: float = LARGEST) -> NDArray[Any]:
        """Return an array of doubles of this shape, in which -1 is any length, from `least` to `most`; NaN if `most` is NaN."""
        limits = "" if np.isnan(most) else f" from {least:g} to {most:g}"
        wanted = f"an array of numbers{limits} of shape {shape}"
        value = self._value(name, wanted, np.ndarray, lambda array: array.dtype == float and array.ndim == len(shape))
        fits = all(side in (-1, length) for side, length in zip(shape, value.shape, strict=True))
        if not fits or (limits and not ((value >= least) & (value <= most)).all()):
            raise self.refuse(name, wanted)
        return value

    def ndim(self, name: str) -> int:
        """The number of dimensions of an array, which is not read yet; 0 if it is none."""
        return int(getattr(self._values.get(name), "ndim", 0))

    def array(self, name: str, kind: Any, length: int) -> NDArray[Any]:
        """Return a one-dimensional array of this type and length, in which -1 is any length."""
        wanted = f"an array of {np.dtype(kind).name}" + (f" of length {length}" if length >= 0 else "")
        value = self._value(name, wanted, np.ndarray, lambda array: array.dtype == kind and array.ndim == 1)
        if length not in (-1, len(value)):
            raise self.refuse(name, wanted)
        return value

    def labels(self, name: str) -> NDArray[Any]:
        """Return an array of two or more distinct classes."""
        wanted = "an array of two or more different classes"
        value = self._value(name, wanted, np.ndarray, lambda array: array.ndim == 1 and array.dtype.kind in "biufUO")
        items = value.tolist()
        alike = all(isinstance(item, str) for item in items) or all(isinstance(item, int | float) for item in items)
        if not alike or len(items) < 2 or len(set(items)) < len(items) or any(item != item for item in items):
            raise self.refuse(name, wanted)
        return value

    def names(self, name: str, size: int) -> NDArray[Any]:
        """Return the names of features."""
        value = self._value(name, f"an array of {size} names", np.ndarray, lambda array: array.shape == (size,))
        if value.dtype != object or not all(isinstance(item, str) for item in value.tolist()):
            raise self.refuse(name, "an array of text")
        return value


def _is_not_bool(value: Any) -> bool:
    return type(value) is not bool
