"""The file `model.marmix`: a zip of JSON and NumPy arrays, each with its checksum; `docs/container.md` describes it.

Files are not trusted: sizes are checked before anything is read and checksums before anything is parsed, and the contents are
limited to numbers, text, lists, dicts and arrays of numbers.
"""

import hashlib
import io
import json
import math
import re
import zipfile
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from marmix.persistence.fields import ContainerError as ContainerError
from marmix.persistence.fields import Fields

FORMAT_VERSION = 2  # 1, of marmix 0.1, had notes as sentences

MOST_BYTES = 2**31 - 1  # in a file
MOST_MEMBERS = 20_000
MOST_JSON = 2**24  # bytes of model.json
MOST_OBJECTS = 2**18  # lists and objects in model.json: an empty one takes three bytes there and a hundred in memory
DEEPEST = 60  # nested lists and dicts
TEXT_BYTES, TEXT_GROWTH = 2**20, 100  # limit for arrays of text: bytes, and bytes per byte of model.json

MODEL, CHECKSUM = "model.json", "model.sha256"
DTYPES = {"bool", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
_MEMBER = re.compile(r"model\.json|model\.sha256|arrays/[A-Za-z0-9_.-]{1,150}\.npy", re.ASCII)
_VERSION = re.compile(r"[0-9A-Za-z.+_!-]{1,100}", re.ASCII)
_AGAIN = "Copy the file again, or save the model again."


def packed(header: dict[str, Any]) -> dict[str, bytes]:
    """Return the members of a file by name; `header["model"]` holds plain values and arrays."""
    encoder, entries, members = Encoder(), dict[str, Any](), dict[str, bytes]()
    header = header | {"model": encoder.encode(header["model"]), "arrays": entries}
    for name, array in encoder.arrays.items():
        file = io.BytesIO()
        np.save(file, array.astype(array.dtype.newbyteorder("<"), copy=False), allow_pickle=False)
        members[f"arrays/{name}.npy"] = file.getvalue()
        entries[name] = array_entry(array, file.getvalue())
    model = json.dumps(header, allow_nan=False, indent=1).encode("ascii") + b"\n"
    return {CHECKSUM: checksum(model), MODEL: model} | members


def array_entry(array: NDArray[Any], data: bytes) -> dict[str, Any]:
    """Return the entry of an array in model.json."""
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    digest = hashlib.sha256(data).hexdigest()
    return {"dtype": array.dtype.name, "order": order, "shape": list(array.shape), "sha256": digest}


def checksum(model: bytes) -> bytes:
    """Return the checksum of model.json, in the format of the program sha256sum."""
    return f"{hashlib.sha256(model).hexdigest()}  {MODEL}\n".encode("ascii")


def write(file: BinaryIO, members: dict[str, bytes]) -> None:
    """Write a zip file without compression; the same members give the same bytes on every platform."""
    try:
        with zipfile.ZipFile(file, "w", allowZip64=False) as archive:
            for name, data in members.items():
                info = zipfile.ZipInfo(name)  # dated 1 January 1980
                info.create_system, info.create_version, info.extract_version = 3, 10, 10
                info.external_attr = 0o100644 << 16
                archive.writestr(info, data)
    except zipfile.LargeZipFile:
        raise ValueError(
            f"this model needs more than {MOST_BYTES:,} bytes, the most a file may have: use fewer features or candidates."
        ) from None


def read(file: BinaryIO) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the contents of model.json, with the model decoded, and the sizes of the file and its arrays.

    Invalid files raise `ContainerError`, or an exception of `zipfile` or NumPy.
    """
    size = file.seek(0, io.SEEK_END)
    _check_ends(file, size)
    with zipfile.ZipFile(file) as archive:
        _check_members(archive.infolist(), size)
        model = archive.read(MODEL)
        if archive.read(CHECKSUM) != checksum(model):
            raise ContainerError(f"{MODEL} does not have the checksum in {CHECKSUM}. {_AGAIN}")
        header = _parsed(model)
        _check_header(header)
        members = {name: f"arrays/{name}.npy" for name in header["arrays"]}
        if {*members.values(), MODEL, CHECKSUM} != set(archive.namelist()):
            raise ContainerError(f"the file does not hold the arrays that {MODEL} lists. {_AGAIN}")
        arrays = {name: _array(name, archive.read(members[name]), header["arrays"][name]) for name in members}
        sizes = {name: archive.getinfo(members[name]).file_size for name in members}
    decoder = Decoder(arrays, len(model))
    header["model"] = decoder.decode(header["model"])
    if decoder.arrays:
        raise ContainerError(f"the array {next(iter(decoder.arrays))!r} is not used in {MODEL}. {_AGAIN}")
    return header, {"file": size, "arrays": sizes}


def _check_ends(file: BinaryIO, size: int) -> None:
    """Limit the size of the directory, which `zipfile` reads at once; reject ZIP64, comments and trailing bytes."""
    if size > MOST_BYTES:
        raise ContainerError(f"the file has {size:,} bytes, and a saved model has at most {MOST_BYTES:,}.")
    file.seek(0)
    if file.read(4) != b"PK\x03\x04":
        raise ContainerError("this is not a saved model: it does not start like a zip file.")
    file.seek(max(size - 42, 0))
    end = file.read()
    if end[-22:-18] != b"PK\x05\x06" or end.startswith(b"PK\x06\x07"):
        raise ContainerError(f"the file is cut short, or something was added at its end. {_AGAIN}")
    if int.from_bytes(end[-10:-6], "little") > 210 * MOST_MEMBERS:
        raise ContainerError(f"the file lists more members than the {MOST_MEMBERS:,} that a saved model may have.")


def _check_members(infos: list[zipfile.ZipInfo], size: int) -> None:
    """Check names, sizes and compression of the members before any is read."""
    names = {info.filename for info in infos}
    odd = next((name for name in names if not _MEMBER.fullmatch(name)), None)
    if not {MODEL, CHECKSUM} <= names or odd is not None:
        fault = f"holds {odd[:100]!r}" if odd else f"lacks {MODEL} or {CHECKSUM}"
        raise ContainerError(f"this zip file {fault}: it is not a saved model, and may not be safe.")
    for info in infos:
        most = {MODEL: MOST_JSON, CHECKSUM: 100}.get(info.filename, size)
        if info.file_size > most:
            raise ContainerError(f"{info.filename} has {info.file_size:,} bytes, more than the {most:,} it may have.")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise ContainerError(f"{info.filename} is compressed or encrypted: load the file as marmix wrote it.")
    if len(names) < len(infos) or len(infos) > MOST_MEMBERS or sum(info.file_size for info in infos) > size:
        raise ContainerError(f"the file lists a member twice, too many members, or more bytes than it has. {_AGAIN}")


def _parsed(text: bytes) -> Any:
    """Return the value of model.json; repeated keys, infinite numbers and invalid Unicode are errors."""
    if text.count(b"[") + text.count(b"{") > MOST_OBJECTS:
        raise ContainerError(f"{MODEL} has more than {MOST_OBJECTS:,} lists and objects, more than a saved model has.")
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise ContainerError(f"{MODEL} cannot be read: {str(error)[:200]}. {_AGAIN}") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def _check_header(header: Any) -> None:
    fields = Fields(header, MODEL)
    fields.text("format", ("marmix",))
    version, writer = fields.whole("format_version", 1), fields.part("written_by")
    versions = {name: writer.text(name) for name in ("marmix", "numpy", "scikit-learn")}
    for name, text in versions.items():
        if not _VERSION.fullmatch(text):
            raise writer.refuse(name, "a version")
    if version > FORMAT_VERSION:
        raise ContainerError(
            f"the file has version {version} of the format, written by marmix {versions['marmix']}. This version "
            f"of marmix reads versions up to {FORMAT_VERSION}: upgrade marmix."
        )
    for name in ("about", "model", "arrays"):
        fields.part(name)
    for name in ("class", "classes", "features"):  # compared with the model after it is restored
        fields.anything(name)
    for part in (writer, fields):
        part.finish()


def _array(name: str, data: bytes, entry: Any) -> NDArray[Any]:
    """Return an array, checked against its entry in model.json."""
    file = io.BytesIO(data)
    if not isinstance(entry, dict) or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise ContainerError(f"the array {name!r} does not have the checksum in {MODEL}. {_AGAIN}")
    with suppress(ValueError):
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        plain = dtype.name in DTYPES and dtype.byteorder != ">" and len(shape) <= 4 and min(shape, default=0) >= 0
        if version == (1, 0) and plain and file.tell() + math.prod(shape) * dtype.itemsize == len(data):
            values = np.frombuffer(data, dtype, offset=file.tell()) if math.prod(shape) else np.empty(0, dtype)
            array: NDArray[Any] = values.astype(dtype.name).reshape(shape, order="F" if fortran else "C")
            if array_entry(array, data) == entry:
                return array
    raise ContainerError(f"the array {name!r} does not have the type, shape or size that {MODEL} lists. {_AGAIN}")


class Encoder:
    """Encode values as JSON, and collect their arrays by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}

    def encode(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """Return the value as JSON; `path` is its place in the model, for names of arrays and messages."""
        kind = type(value)
        if value is None or kind is bool or (kind is int and abs(value) < 2**63):
            return value
        if kind in (str, np.str_):
            return str(value)
        if kind is float:
            return value if math.isfinite(value) else {"type": "float", "value": str(value)}
        if isinstance(value, np.generic) and value.dtype.name in DTYPES:
            return {"type": "scalar", "dtype": value.dtype.name, "value": self.encode(value.item(), path)}
        if kind is list:
            return [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]
        if kind is tuple:
            return {"type": "tuple", "items": self.encode(list(value), path)}
        if kind is dict and "type" not in value and all(type(key) is str for key in value):
            names = [key if re.fullmatch(r"\w+", key, re.ASCII) else str(i) for i, key in enumerate(value)]
            return {key: self.encode(value[key], (*path, name)) for key, name in zip(value, names, strict=True)}
        if kind is dict:
            return {"type": "dict", "items": self.encode([[key, item] for key, item in value.items()], path)}
        if kind in (np.ndarray, np.memmap) and value.ndim == 1 and value.dtype.kind in "UO":
            width = {"width": value.dtype.itemsize // 4} if value.dtype.kind == "U" else {}
            return {"type": "strings" if width else "objects"} | width | {"items": self.encode(value.tolist(), path)}
        if kind in (np.ndarray, np.memmap) and 0 < value.ndim <= 4 and value.dtype.name in DTYPES:
            name = ".".join(path)
            if len(name) > 140 or name in self.arrays:
                name = f"{name[:120]}.{len(self.arrays)}"
            self.arrays[name] = value
            return {"type": "array", "name": name}
        where = next((part for part in reversed(path) if not part.isdigit()), "the model")
        what = f"array of {value.dtype}" if isinstance(value, np.ndarray) else f"{kind.__module__}.{kind.__qualname__}"
        raise ValueError(
            f"{where} holds a value that cannot be saved ({what.removeprefix('builtins.')}): only numbers, text, lists, dicts "
            "and arrays can. Change parameters that predictions do not need with set_params first."
        )


class Decoder:
    """Decode JSON; `arrays` are removed as they are used, and `json_size` limits the size of arrays of text."""

    def __init__(self, arrays: dict[str, NDArray[Any]], json_size: int):
        self.arrays, self._text_left = arrays, TEXT_BYTES + TEXT_GROWTH * json_size

    def decode(self, value: Any, path: tuple[str, ...] = ("model",)) -> Any:
        """Return the encoded value; `path` is its place in the model, for messages."""
        if len(path) > DEEPEST or (type(value) is int and abs(value) >= 2**63):
            raise _refused(path, "is nested too deeply or too large a number")
        if isinstance(value, list):
            return [self.decode(item, (*path, str(i))) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if "type" not in value:
            return {key: self.decode(item, (*path, key)) for key, item in value.items()}
        fields = {key: self.decode(item, (*path, key)) for key, item in value.items() if key != "type"}
        match value["type"], fields:
            case "array", {"name": str(name)} if len(fields) == 1 and name in self.arrays:
                return self.arrays.pop(name)
            case "float", {"value": "nan" | "inf" | "-inf" as text} if len(fields) == 1:
                return float(text)
            case "scalar", {"dtype": str(dtype), "value": bool() | int() | float() as number} if (
                len(fields) == 2 and dtype in DTYPES
            ):
                scalar = np.array(number).astype(dtype)[()]
                if type(scalar.item()) is type(number) and (isinstance(number, float) or scalar == number):
                    return scalar
            case "tuple", {"items": list(items)} if len(fields) == 1:
                return tuple(items)
            case "dict", {"items": list(items)} if len(fields) == 1:
                pairs = {key: item for key, item in items if _is_plain(key)}
                if len(pairs) == len(items):
                    return pairs
            case "objects", {"items": list(items)} if len(fields) == 1 and all(map(_is_plain, items)):
                objects = np.empty(len(items), dtype=object)
                objects[:] = items
                return objects
            case "strings", {"items": list(items), "width": int(width)} if len(fields) == 2 and width > 0:
                self._text_left -= 4 * width * max(len(items), 1)
                if self._text_left >= 0 and all(isinstance(item, str) and len(item) <= width for item in items):
                    return np.array(items, dtype=f"<U{width}")
        raise _refused(path, f"is not a valid value of type {str(value['type'])[:50]!r}")


def _refused(path: tuple[str, ...], reason: str) -> ContainerError:
    return ContainerError(f"{'.'.join(path[:8])[:200]} in {MODEL} {reason}. {_AGAIN}")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | np.generic)
