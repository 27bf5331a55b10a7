"""The file of a saved model: a zip of stored members, of which every byte is decided by what they hold.

There is one way to write given members, so a file is read by comparing it with what would have been written: no byte can change
without being noticed, and every size is known from the directory at the end before anything is read. `docs/container.md` says
the same at length.
"""

import hashlib
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 2**31 - 1  # of a file
MOST_MEMBERS = 20_000
MOST_JSON = 2**24  # bytes of model.json

MODEL, CHECKSUM = "model.json", "model.sha256"
_CHECKSUM_BYTES = 64 + 2 + len(MODEL) + 1
_ARRAY = re.compile(r"arrays/[A-Za-z0-9_.-]{1,150}\.npy", re.ASCII)

# Little-endian, as .npy files name them.
DTYPES = {
    "bool": "|b1",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "|u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "float32": "<f4",
    "float64": "<f8",
}

_LOCAL, _CENTRAL, _END = struct.Struct("<I5H3I2H"), struct.Struct("<I6H3I5H2I"), struct.Struct("<I4H2IH")
_NEEDED, _UNIX, _DATE, _MODE = 10, 3 << 8 | 10, 1 << 5 | 1, 0o100644 << 16  # version 1.0; 1 January 1980; rw-r--r--


class ContainerError(ValueError):
    """A file that is no saved model, or one that is damaged, changed, too large or too new."""


class Member(NamedTuple):
    """A member of the file: where its header begins, and what the directory says of it."""

    offset: int
    size: int
    crc: int


def _local(name: str, member: Member) -> bytes:
    own = name.encode("ascii")
    sizes = (member.crc, member.size, member.size, len(own), 0)
    return _LOCAL.pack(0x04034B50, _NEEDED, 0, 0, 0, _DATE, *sizes) + own


def _central(name: str, member: Member) -> bytes:
    own = name.encode("ascii")
    sizes = (member.crc, member.size, member.size, len(own), 0, 0, 0, 0)
    return _CENTRAL.pack(0x02014B50, _UNIX, _NEEDED, 0, 0, 0, _DATE, *sizes, _MODE, member.offset) + own


def npy_header(dtype: str, order: str, shape: tuple[int, ...]) -> bytes:
    """The beginning of a `.npy` file, version 1.0: data follow at a multiple of 64 bytes."""
    sides = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '{DTYPES[dtype]}', 'fortran_order': {order == 'F'}, 'shape': ({sides}), }}"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


def array_parts(array: NDArray[Any]) -> list[bytes]:
    """The member of an array: its header and its values."""
    dtype, order = array.dtype.name, _order(array)
    values = array.astype(DTYPES[dtype], copy=False).tobytes(order="F" if order == "F" else "C")
    return [npy_header(dtype, order, array.shape), values]


def array_entry(array: NDArray[Any]) -> dict[str, Any]:
    """What model.json says of an array."""
    digest = hashlib.sha256()
    for part in array_parts(array):
        digest.update(part)
    shape = list(array.shape)
    return {"dtype": array.dtype.name, "order": _order(array), "shape": shape, "sha256": digest.hexdigest()}


def _order(array: NDArray[Any]) -> str:
    """The order of an array in memory; what lies apart is written in C order."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def checksum(model: bytes) -> bytes:
    """The member that protects model.json, as the program sha256sum writes it."""
    return f"{hashlib.sha256(model).hexdigest()}  {MODEL}\n".encode("ascii")


def write(file: BinaryIO, members: Iterable[tuple[str, list[bytes]]]) -> None:
    """Write members, each in parts, one after the other."""
    directory, offset, n = b"", 0, 0
    for name, parts in members:
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        member = Member(offset, sum(map(len, parts)), crc)
        header = _local(name, member)
        offset, n = offset + len(header) + member.size, n + 1
        if offset > MOST_BYTES or n > MOST_MEMBERS:
            raise ValueError(
                f"this model needs more than {MOST_BYTES:,} bytes or {MOST_MEMBERS:,} arrays, which is more than a file holds: "
                "use fewer features (PCA in front of it) or fewer candidates."
            )
        file.write(header)
        for part in parts:
            file.write(part)
        directory += _central(name, member)
    file.write(directory)
    file.write(_END.pack(0x06054B50, 0, 0, n, n, len(directory), offset, 0))


class Archive:
    """A file that is open for reading, its directory checked.

    Parameters
    ----------
    file : binary file
    size : int
        Bytes of the file.
    """

    def __init__(self, file: BinaryIO, size: int):
        self._file = file
        if size > MOST_BYTES:
            raise ContainerError(
                f"the file has {size:,} bytes, and no saved model has more than {MOST_BYTES:,}. It is not one that marmix wrote."
            )
        self.size = size
        self.members = self._directory()
        if list(self.members)[:2] != [CHECKSUM, MODEL]:
            raise ContainerError(
                f"the file does not begin with {CHECKSUM} and {MODEL}: it is a zip file, but no saved model."
            )
        odd = [name for name in list(self.members)[2:] if not _ARRAY.fullmatch(name)]
        if odd:
            raise ContainerError(f"the file holds {odd[0]!r}, which is no part of a saved model. It may not be safe.")

    def _directory(self) -> dict[str, Member]:
        if self.size < _END.size or self._bytes(0, 4) != b"PK\x03\x04":
            raise ContainerError("this is no saved model: it does not begin as one (a zip file) does.")
        start = self.size - _END.size
        *_, n, length, offset, _ = _END.unpack(self._bytes(start, _END.size))
        whole = _END.pack(0x06054B50, 0, 0, n, n, length, offset, 0)
        if self._bytes(start, _END.size) != whole or offset + length != start:
            raise ContainerError(
                "the file is cut short or was changed: its end is not as marmix writes it. Copy or save it again."
            )
        if n > MOST_MEMBERS or length > n * (_CENTRAL.size + 200):
            raise ContainerError(f"the file lists {n:,} members in {length:,} bytes, more than a saved model has.")
        directory, place, end, members = self._bytes(offset, length), 0, 0, dict[str, Member]()
        for _ in range(n):
            if place + _CENTRAL.size > length:
                raise ContainerError(_CHANGED)
            fields = _CENTRAL.unpack_from(directory, place)
            crc, size, letters = fields[7], fields[8], fields[10]
            record = directory[place : place + _CENTRAL.size + letters]
            name, member = record[_CENTRAL.size :].decode("latin-1"), Member(end, size, crc)
            if not name.isascii() or name in members or record != _central(name, member):
                raise ContainerError(_CHANGED)
            members[name] = member
            place += len(record)
            end += _LOCAL.size + len(name) + size
        if place != length or end != offset:
            raise ContainerError(_CHANGED)
        return members

    def _bytes(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        found = self._file.read(length)
        if len(found) < length:
            raise ContainerError("the file is cut short. Copy or save it again.")
        return found

    def _begin(self, name: str) -> Member:
        """Go to where the data of a member begin."""
        member = self.members[name]
        header = _local(name, member)
        if self._bytes(member.offset, len(header)) != header:
            raise ContainerError(_CHANGED)
        return member

    def _read(self, name: str, most: int) -> bytes:
        size = self.members[name].size
        if size > most:
            raise ContainerError(
                f"{name} has {size:,} bytes, more than the {most:,} that are read. It may not be safe to read."
            )
        member = self._begin(name)
        data = self._file.read(size)
        if len(data) < size or zlib.crc32(data) != member.crc:
            raise ContainerError(_CHANGED)
        return data

    def model(self) -> bytes:
        """The bytes of model.json, checked."""
        expected, model = self._read(CHECKSUM, _CHECKSUM_BYTES), self._read(MODEL, MOST_JSON)
        if checksum(model) != expected:
            raise ContainerError(_CHANGED)
        return model

    def arrays(self, entries: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The arrays that model.json lists, each checked; sizes are compared before anything is allocated."""
        if {f"arrays/{name}.npy" for name in entries} != set(self.members) - {MODEL, CHECKSUM}:
            raise ContainerError("the arrays of the file are not those that model.json lists. Save it again.")
        sized = {name: self._sized(name, entry) for name, entry in entries.items()}
        return {name: self._array(name, *sized[name], entries[name]["sha256"]) for name in entries}

    def _sized(self, name: str, entry: Any) -> tuple[bytes, str, str, tuple[int, ...]]:
        if not isinstance(entry, dict) or set(entry) != {"dtype", "order", "shape", "sha256"}:
            raise ContainerError(f"model.json does not describe the array {name!r}.")
        dtype, order, shape = entry["dtype"], entry["order"], entry["shape"]
        whole = isinstance(shape, list) and len(shape) <= 4 and all(type(n) is int and 0 <= n < 2**31 for n in shape)
        if not whole or not isinstance(dtype, str) or dtype not in DTYPES or order not in ("C", "F"):
            raise ContainerError(f"model.json gives the array {name!r} a type or shape that no model has.")
        header, bytes_each, values = npy_header(dtype, order, tuple(shape)), np.dtype(dtype).itemsize, 1
        for side in shape:
            values *= side
        if len(header) + values * bytes_each != self.members[f"arrays/{name}.npy"].size:
            raise ContainerError(f"the array {name!r} has another size than its shape {tuple(shape)} needs.")
        return header, dtype, order, tuple(shape)

    def _array(
        self, name: str, header: bytes, dtype: str, order: str, shape: tuple[int, ...], digest: Any
    ) -> NDArray[Any]:
        member = self._begin(f"arrays/{name}.npy")
        array = np.empty(shape, dtype=np.dtype(DTYPES[dtype]), order="F" if order == "F" else "C")
        found = hashlib.sha256(header)
        crc = zlib.crc32(header)
        same = self._file.read(len(header)) == header
        if same and array.size:
            data = memoryview(array.T if order == "F" else array).cast("B")  # type: ignore[arg-type]
            same = self._file.readinto(data) == len(data)  # type: ignore[attr-defined]
            found.update(data)
            crc = zlib.crc32(data, crc)
            same = same and (dtype != "bool" or bool((array.view(np.uint8) <= 1).all()))
        if not same or found.hexdigest() != digest or crc != member.crc:
            raise ContainerError(f"the array {name!r} is not the one that was saved: {_CHANGED}")
        return array.astype(np.dtype(dtype), copy=False)


_CHANGED = "the file was changed after it was saved, or is damaged. Copy or save it again."
