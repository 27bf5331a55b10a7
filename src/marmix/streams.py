"""Arrays in `.npy` files: opened as memory maps, and written as results come."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.outputs import one_file

# An array in a file stays there if it is larger than this; else it is read into memory, which is faster.
LEFT_IN_FILE = 2**26


def opened(array: Any, name: str = "X") -> Any:
    """Return the array, or a read-only memory map of the `.npy` file if a path is given."""
    if not isinstance(array, str | os.PathLike):
        return array
    path = Path(array)
    if path.suffix != ".npy":
        raise ValueError(
            f"{name}={os.fspath(path)!r}: a path must be that of a .npy file. Convert tables (CSV, Parquet, Arrow) once with "
            "marmix.io.to_memmap."
        )
    if not path.exists():
        raise FileNotFoundError(f"{name}={os.fspath(path)!r}: there is no such file.")
    return np.load(path, mmap_mode="r")


def in_file(array: Any) -> bool:
    """Whether an array is a memory map that is too large to be read into memory."""
    return isinstance(array, np.memmap) and array.nbytes > LEFT_IN_FILE


def release(array: NDArray[Any]) -> None:
    """Release the memory of the pages of a memory map that were read.

    A copy-on-write map is left alone: its pages may hold changes that the file does not have.
    """
    pages = getattr(array, "_mmap", None)
    if pages is None or getattr(array, "mode", "c") == "c" or not hasattr(mmap, "MADV_DONTNEED") or not array.size:
        return
    base = np.frombuffer(pages, dtype=np.uint8).ctypes.data
    low, high = np.lib.array_utils.byte_bounds(array)
    start = (low - base) // mmap.PAGESIZE * mmap.PAGESIZE
    pages.madvise(mmap.MADV_DONTNEED, start, high - base - start)


@contextmanager
def output(out: Any, shape: tuple[int, ...], dtype: Any) -> Iterator[NDArray[Any]]:
    """Yield an array for results: a new one, the user's own, or that of a new `.npy` file, which appears when it is whole.

    Parameters
    ----------
    out : None, array or path
        A path must not exist yet.
    """
    dtype = np.dtype(dtype)
    if out is None:
        yield np.empty(shape, dtype=dtype)
    elif isinstance(out, str | os.PathLike):
        path = Path(out)
        if path.suffix != ".npy":
            raise ValueError(
                f"out={os.fspath(path)!r}: results are written to a .npy file; give a path that ends in .npy."
            )
        if dtype.hasobject:
            raise ValueError(
                "out= cannot be a file for labels that are Python objects: name the classes as text or numbers."
            )
        with one_file(path, advice="remove it, or give another path", pipes=False) as part:
            array = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=shape)
            yield array
            array.flush()
    else:
        rule = "same_kind" if dtype.kind == "f" else "safe"  # a label must not be cut
        fits = isinstance(out, np.ndarray) and out.shape == shape and np.can_cast(dtype, out.dtype, rule)  # type: ignore[arg-type]
        if not fits or not out.flags.writeable:
            raise ValueError(
                f"out must be None, a path that ends in .npy, or a writeable NumPy array of shape {shape} that can hold {dtype}."
            )
        yield out


def result(out: Any, written: NDArray[Any]) -> NDArray[Any]:
    """Return the array of a finished `output`: that of a file is opened again, read-only."""
    return np.load(out, mmap_mode="r") if isinstance(out, str | os.PathLike) else written
