"""The file `model.marmix`: a zip, stored without compression, of JSON and NumPy arrays.

`model.sha256` is the SHA-256 of `model.json`, as `sha256sum` writes it. `model.json` has `format`, `format_version`,
`written_by`, `about` (what the caller passed to `save`), `model`, and `arrays`, the SHA-256 of each member `arrays/NAME.npy`. In
`model`, what is not plain JSON is an object with a `type`: `array` (`name`), `float` (`value`: nan, inf or -inf), `dict`
(`items`: pairs), `strings` and `objects` (`items`).

Files are not trusted: checksums are checked before anything is parsed, no member may be larger than the file, and the contents
are limited to numbers, text, lists, dicts and arrays.
"""

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, BinaryIO

import numpy as np

from marmix.core.arrays import AnyArray
from marmix.persistence.checks import ContainerError

FORMAT_VERSION = (
    4  # 1, of marmix 0.1, had notes as sentences; 2 values that follow from others; 3 a sentence as verdict
)

MOST_TEXT = 2**24  # characters in an array of text, whose items are padded to the longest

_MODEL, _CHECKSUM = "model.json", "model.sha256"
_DAMAGED = "Copy the file again, or save the model again."


def write(file: BinaryIO, header: Mapping[str, Any]) -> None:
    """Write a file; `header["model"]` holds plain values and arrays. The same values give the same bytes."""
    arrays: dict[str, bytes] = {}
    model = encoded(header["model"], "the model", arrays)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in arrays.items()}
    contents = json.dumps({**header, "model": model, "arrays": digests}, allow_nan=False, indent=1).encode() + b"\n"
    members = {_CHECKSUM: _checksum(contents), _MODEL: contents}
    with zipfile.ZipFile(file, "w", allowZip64=False) as archive:
        for name, data in (members | {f"arrays/{name}.npy": data for name, data in arrays.items()}).items():
            info = zipfile.ZipInfo(name)  # dated 1 January 1980
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, data)


def read(file: BinaryIO) -> dict[str, Any]:
    """Return what was passed to `write`; invalid files raise `ContainerError`, or an exception of `zipfile` or NumPy."""
    size = file.seek(0, io.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        if sum(info.file_size for info in archive.infolist()) > size:
            raise ContainerError("its members are larger than the file: load it uncompressed, as marmix wrote it.")
        contents = archive.read(_MODEL)
        if archive.read(_CHECKSUM) != _checksum(contents):
            raise ContainerError(f"{_MODEL} does not have its checksum. {_DAMAGED}")
        header: dict[str, Any] = json.loads(contents)
        if header["format"] != "marmix" or header["format_version"] not in range(1, FORMAT_VERSION + 1):
            raise ContainerError(
                f"it has version {header['format_version']} of the format, written by marmix {header['written_by']['marmix']!r}. "
                f"This version of marmix reads versions up to {FORMAT_VERSION}: upgrade marmix."
            )
        arrays = {
            name: _array(name, archive.read(f"arrays/{name}.npy"), digest) for name, digest in header["arrays"].items()
        }
    return header | {"model": decoded(header["model"], arrays)}


def _checksum(contents: bytes) -> bytes:
    """The checksum of model.json, in the format of the program sha256sum."""
    return f"{hashlib.sha256(contents).hexdigest()}  {_MODEL}\n".encode()


def _array(name: str, data: bytes, digest: Any) -> Any:
    """The array in a member; versions 1 and 2 have its type and shape beside its checksum."""
    if hashlib.sha256(data).hexdigest() != (digest["sha256"] if isinstance(digest, dict) else digest):
        raise ContainerError(f"the array {name!r} does not have its checksum. {_DAMAGED}")
    return np.load(io.BytesIO(data), allow_pickle=False)


def encoded(value: Any, name: str, arrays: dict[str, bytes]) -> Any:
    """Return a value as JSON, and add its arrays to `arrays`; `name` is that of the closest field around it.

    Tuples become lists, NumPy's scalars ordinary numbers, and records (named tuples, dataclasses) dicts of their fields.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"type": "float", "value": str(float(value))}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        if "type" not in value and all(isinstance(key, str) for key in value):
            return {key: encoded(item, key, arrays) for key, item in value.items()}
        return {"type": "dict", "items": encoded(list(map(list, value.items())), name, arrays)}
    if isinstance(value, list | tuple | range):
        return [encoded(item, name, arrays) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
        kind = "strings" if value.dtype.kind == "U" else "objects"
        return {"type": kind, "items": encoded(value.tolist(), name, arrays)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        file, key = io.BytesIO(), f"{len(arrays)}.{re.sub(r'[^A-Za-z0-9_]', '', name)[:50]}"
        np.save(file, value.astype(value.dtype.newbyteorder("<"), copy=False), allow_pickle=False)
        arrays[key] = file.getvalue()
        return {"type": "array", "name": key}
    if hasattr(value, "tolist"):  # scalars of NumPy, and columns of pandas
        return encoded(value.tolist(), name, arrays)
    raise ValueError(
        f"{name} holds a {type(value).__name__}, which cannot be saved: only numbers, text, lists, dicts and arrays can. Change "
        "parameters that predictions do not need with set_params first."
    )


def decoded(value: Any, arrays: Mapping[str, AnyArray]) -> Any:
    """Return the value that JSON stands for; `scalar` and `tuple` are of versions 1 and 2."""
    if isinstance(value, list):
        return [decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "type" not in value:
        return {key: decoded(item, arrays) for key, item in value.items()}
    match value:
        case {"type": "array", "name": name}:
            return arrays[name]
        case {"type": "float" | "scalar", "value": number}:
            return float(number) if isinstance(number, str) else decoded(number, arrays)
        case {"type": "tuple", "items": items}:
            return decoded(items, arrays)
        case {"type": "dict", "items": items}:
            return dict(decoded(items, arrays))
        case {"type": "objects", "items": items}:
            return np.array(decoded(items, arrays), dtype=object)
        case {"type": "strings", "items": items} if all(isinstance(item, str) for item in items):
            if len(items) * max(map(len, items), default=0) <= MOST_TEXT:
                return np.array(items, dtype=str)
    raise ContainerError(f"a value of the type {str(value['type'])[:50]!r} is not valid. {_DAMAGED}")
