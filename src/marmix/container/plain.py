"""Values as JSON, and back: a short list of types, each written in one way.

Numbers, text, lists and dicts with text as keys are themselves. Everything else is an object with a key "type", and arrays are
members of the file that the JSON names.
"""

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.container.format import DTYPES, ContainerError

_DEEPEST = 30  # lists and dicts in each other
_MOST_OBJECTS = 2**18  # of them in all: an empty one takes three bytes of JSON, and a hundred of memory
_LARGEST = 2**63  # of integers
_TEXT_BYTES, _TEXT_GROWTH = 2**20, 100  # of arrays of text: this many, and this many for each byte of JSON
_SPECIAL = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)


class Encoder:
    """Turns values into JSON, and collects the arrays among them by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}

    def encode(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """The value as JSON; `path` says where it stands, for names of arrays and for refusals."""
        if len(path) > _DEEPEST:
            raise ValueError(f"{'.'.join(path[:3])}... holds lists in lists too deep to be saved.")
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, np.generic) and not isinstance(value, str):
            if value.dtype.name not in DTYPES:
                raise _refused(value, path)
            return {"type": "scalar", "dtype": value.dtype.name, "value": self.encode(value.item(), path)}
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and type(value) in (str, np.str_):
            return str(value)
        if type(value) is int and abs(value) < _LARGEST:
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"type": "float", "value": str(value)}
        if type(value) is list:
            return [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"type": "tuple", "items": self.encode(list(value), path)}
        if type(value) is dict:
            return self._dict(value, path)
        raise _refused(value, path)

    def _dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> Any:
        if "type" not in value and all(type(key) is str for key in value):
            return {
                key: self.encode(item, (*path, key if _NAME.fullmatch(key) else str(i)))
                for i, (key, item) in enumerate(value.items())
            }
        return {"type": "dict", "items": self.encode([[key, item] for key, item in value.items()], path)}

    def _array(self, value: NDArray[Any], path: tuple[str, ...]) -> Any:
        if value.dtype.kind in "UO" and value.ndim == 1:
            items = [self.encode(item, (*path, str(i))) for i, item in enumerate(value.tolist())]
            if value.dtype.kind == "O":
                return {"type": "objects", "items": items}
            return {"type": "strings", "width": value.dtype.itemsize // 4, "items": items}
        if type(value) not in (np.ndarray, np.memmap) or value.dtype.name not in DTYPES or not 0 < value.ndim <= 4:
            raise _refused(value, path)
        name = ".".join(path)
        if len(name) > 140 or name in self.arrays:
            name = f"{name[:120]}.{len(self.arrays)}"
        self.arrays[name] = value
        return {"type": "array", "name": name}


def _refused(value: Any, path: tuple[str, ...]) -> ValueError:
    where = path[-1] if path else "the model"
    for part in path:
        where = part if not part.isdigit() else where
    kind = type(value)
    what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {kind.__module__}.{kind.__qualname__}"
    return ValueError(
        f"{where} holds {what.replace('a builtins.', 'a ')}, which cannot be saved: a file holds numbers, text, lists, dicts and "
        "arrays of them. Where it is a parameter that predictions do not need, set_params can change it first."
    )


def parse(text: bytes) -> Any:
    """JSON without repeated keys, numbers that overflow, or what is no JSON; anything else is refused."""
    if text.count(b"[") + text.count(b"{") > _MOST_OBJECTS:
        raise ContainerError(
            f"model.json has more than {_MOST_OBJECTS:,} lists and objects, more than a saved model has."
        )
    try:
        value = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_float=_finite,
            parse_int=_whole,
            parse_constant=_constant,
        )
        json.dumps(value, ensure_ascii=False).encode(
            "utf-8"
        )  # fails for lone halves of characters, which cannot be printed
        return value
    except (ValueError, RecursionError) as error:
        raise ContainerError(f"model.json cannot be read: {_short(error)}") from None


def written(value: Any) -> bytes:
    """Values that are JSON already as the bytes of model.json: always the same for the same values."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=1).encode("ascii") + b"\n"


def _short(error: BaseException) -> str:
    return "lists in lists too deep." if isinstance(error, RecursionError) else str(error)[:200]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("an object has a key twice.")
    return out


def _finite(text: str) -> float:
    value = float(text)
    if not np.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large.")
    return value


def _whole(text: str) -> int:
    if len(text) > 20 or abs(int(text)) >= _LARGEST:
        raise ValueError(f"the number {text[:20]}... is too large.")
    return int(text)


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON.")


class Decoder:
    """Turns JSON into values again; every array is used once.

    Parameters
    ----------
    arrays : dict
        By name; they are taken out as they are used.
    json_bytes : int
        Size of the JSON, which bounds what arrays of text may take.
    """

    def __init__(self, arrays: dict[str, NDArray[Any]], json_bytes: int):
        self._arrays = dict(arrays)
        self._text_left = _TEXT_BYTES + _TEXT_GROWTH * json_bytes

    def decode(self, value: Any, depth: int = 0) -> Any:
        """The value that was encoded."""
        if depth > 2 * _DEEPEST:
            raise ContainerError("model.json has lists in lists too deep.")
        if isinstance(value, list):
            return [self.decode(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        if "type" not in value:
            return {key: self.decode(item, depth + 1) for key, item in value.items()}
        kind, fields = value["type"], set(value) - {"type"}
        if not isinstance(kind, str) or kind not in _FIELDS or fields != _FIELDS[kind]:
            raise ContainerError(f"model.json holds a value of unknown type {str(kind)[:50]!r}.")
        return getattr(self, f"_{kind}")(value, depth)

    def finish(self) -> None:
        """Refuse arrays that nothing used."""
        if self._arrays:
            raise ContainerError(f"the array {next(iter(self._arrays))!r} belongs to nothing in model.json.")

    def _array(self, value: dict[str, Any], depth: int) -> NDArray[Any]:
        name = value["name"]
        if not isinstance(name, str) or name not in self._arrays:
            raise ContainerError(f"model.json uses the array {str(name)[:50]!r}, which is not there or is used twice.")
        return self._arrays.pop(name)

    def _float(self, value: dict[str, Any], depth: int) -> float:
        text = value["value"]
        if not isinstance(text, str) or text not in _SPECIAL:
            raise ContainerError("model.json holds a special number other than nan, inf and -inf.")
        return _SPECIAL[text]

    def _scalar(self, value: dict[str, Any], depth: int) -> Any:
        dtype, number = value["dtype"], self.decode(value["value"], depth + 1)
        kinds = {"b": (bool,), "i": (int,), "u": (int,), "f": (float,)}
        if not isinstance(dtype, str) or dtype not in DTYPES or type(number) not in kinds[np.dtype(dtype).kind]:
            raise ContainerError("model.json holds a number that is not of its type.")
        try:
            return np.dtype(dtype).type(number)
        except (OverflowError, ValueError):
            raise ContainerError(f"model.json holds a number too large for {dtype}.") from None

    def _items(self, value: dict[str, Any], depth: int) -> list[Any]:
        if not isinstance(value["items"], list):
            raise ContainerError("model.json lists items that are no list.")
        return [self.decode(item, depth + 1) for item in value["items"]]

    def _tuple(self, value: dict[str, Any], depth: int) -> tuple[Any, ...]:
        return tuple(self._items(value, depth))

    def _dict(self, value: dict[str, Any], depth: int) -> dict[Any, Any]:
        items, out = self._items(value, depth), dict[Any, Any]()
        for pair in items:
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str | int | float | np.generic):
                raise ContainerError("model.json holds a dict whose keys are not numbers or text.")
            out[pair[0]] = pair[1]
        if len(out) < len(items):
            raise ContainerError("model.json holds a dict that has a key twice.")
        return out

    def _objects(self, value: dict[str, Any], depth: int) -> NDArray[Any]:
        items = self._items(value, depth)
        if not all(item is None or isinstance(item, str | int | float | np.generic) for item in items):
            raise ContainerError("model.json holds an array of things that are not numbers or text.")
        out = np.empty(len(items), dtype=object)
        out[:] = items
        return out

    def _strings(self, value: dict[str, Any], depth: int) -> NDArray[Any]:
        items, width = self._items(value, depth), value["width"]
        fits = type(width) is int and all(isinstance(item, str) and len(item) <= width for item in items)
        if not fits or width < 1:
            raise ContainerError("model.json holds an array of text that is not text, or wider than it says.")
        self._text_left -= 4 * width * len(items)
        if width > self._text_left or self._text_left < 0:
            raise ContainerError("an array of text is far wider than the text in it.")
        return np.array(items, dtype=f"<U{width}")


_FIELDS = {
    "array": {"name"},
    "float": {"value"},
    "scalar": {"dtype", "value"},
    "tuple": {"items"},
    "dict": {"items"},
    "objects": {"items"},
    "strings": {"items", "width"},
}
