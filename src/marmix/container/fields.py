"""What a file says of a model, field by field: each is of the type and shape that is asked for, or the file is refused."""

from collections.abc import Container
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.container.format import ContainerError


class Fields:
    """The fields of one object of a file; a field that is missing, of another type, or left over is refused.

    Parameters
    ----------
    values : Any
        What should be a dict.
    where : str
        Whose fields these are, for messages.
    """

    def __init__(self, values: Any, where: str):
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise ContainerError(f"{where}: the file has something else than fields.")
        self._values, self.where = dict(values), where

    def refuse(self, name: str, wanted: str) -> ContainerError:
        """What is wrong with a field."""
        return ContainerError(f"{self.where}: the field {name!r} of the file is not {wanted}.")

    def has(self, name: str) -> bool:
        """Whether there is such a field."""
        return name in self._values

    def anything(self, name: str) -> Any:
        """A field of any type."""
        if name not in self._values:
            raise ContainerError(f"{self.where}: the file lacks the field {name!r}.")
        return self._values.pop(name)

    def drop(self, name: str) -> None:
        """Leave a field out, where there is one."""
        self._values.pop(name, None)

    def finish(self) -> None:
        """Refuse what is left."""
        if self._values:
            raise ContainerError(
                f"{self.where}: the file has the field {next(iter(self._values))[:50]!r}, which this version of marmix does not "
                "know. Upgrade marmix, or load it with the version that wrote it."
            )

    def part(self, name: str) -> "Fields":
        """A field that has fields."""
        return Fields(self.anything(name), f"{self.where}, {name}")

    def flag(self, name: str) -> Any:
        """True or False."""
        value = self.anything(name)
        if not isinstance(value, bool | np.bool_):
            raise self.refuse(name, "true or false")
        return value

    def number(self, name: str, least: float = -np.inf) -> Any:
        """A real number, which may be NaN where there is no least one."""
        value = self.anything(name)
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            raise self.refuse(name, "a number")
        if np.isfinite(least) and not (np.isfinite(value) and value >= least):
            raise self.refuse(name, f"a finite number from {least:g} on")
        return value

    def whole(self, name: str, least: int = 0, most: int = 2**53) -> Any:
        """An integer."""
        value = self.anything(name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
            raise self.refuse(name, f"a whole number from {least} on")
        return value

    def text(self, name: str, among: Container[str] | None = None) -> str:
        """Text, where given one of some."""
        value = self.anything(name)
        if not isinstance(value, str) or (among is not None and value not in among):
            raise self.refuse(name, "text that is known here" if among else "text")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of text."""
        value = self.anything(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse(name, "a list of text")
        return value

    def wholes(self, name: str, least: int, most: int) -> list[int]:
        """A list of integers."""
        value = self.anything(name)
        if not isinstance(value, list) or not all(type(item) is int and least <= item <= most for item in value):
            raise self.refuse(name, f"a list of whole numbers from {least} on")
        return value

    def floats(self, name: str, *shape: int, finite: bool = True) -> NDArray[Any]:
        """An array of double precision and of this shape; -1 is any length."""
        value = self.anything(name)
        if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.ndim != len(shape):
            raise self.refuse(name, f"an array of numbers with {len(shape)} dimensions")
        if any(side not in (-1, own) for side, own in zip(shape, value.shape, strict=True)):
            raise self.refuse(name, f"of shape {shape}: it has {value.shape}")
        if finite and not np.isfinite(value).all():
            raise self.refuse(name, "finite")
        return value

    def labels(self, name: str) -> NDArray[Any]:
        """Names of classes: two or more, all different."""
        value = self.anything(name)
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "biufUO" or len(value) < 2:
            raise self.refuse(name, "an array of two or more classes")
        if len(set(value.tolist())) < len(value) or any(item != item or item is None for item in value.tolist()):
            raise self.refuse(name, "an array of different classes")
        return value

    def names(self, name: str, size: int) -> NDArray[Any]:
        """Names of features."""
        value = self.anything(name)
        if not isinstance(value, np.ndarray) or value.dtype != object or value.shape != (size,):
            raise self.refuse(name, f"an array of {size} names")
        if not all(isinstance(item, str) for item in value.tolist()):
            raise self.refuse(name, "an array of text")
        return value
