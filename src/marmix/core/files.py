"""Arrays in `.npy` files, opened as memory maps and written in parts."""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from marmix.core.arrays import AnyArray

# Arrays in files up to this many bytes are read into memory, which is faster.
LEFT_IN_FILE = 2**26


def open_array(array: Any, name: str = "X") -> Any:
    """Return the array, or a read-only memory map of the `.npy` file if a path is given."""
    if not isinstance(array, str | os.PathLike):
        return array
    path = Path(array)
    if path.suffix != ".npy":
        raise ValueError(
            f"{name}={os.fspath(path)!r} is not the path of a .npy file: convert tables (CSV, Parquet, Arrow) once with "
            "marmix.io.to_memmap."
        )
    return np.load(path, mmap_mode="r")


def in_file(array: Any) -> bool:
    """Whether an array is a memory map that is left in its file."""
    return isinstance(array, np.memmap) and array.nbytes > LEFT_IN_FILE


def release(array: AnyArray) -> None:
    """Free the pages of a memory map that have been read.

    Copy-on-write maps are skipped, as their pages may hold changes that are not in the file.
    """
    if getattr(array, "mode", "c") == "c" or not hasattr(mmap, "MADV_DONTNEED") or not array.size:
        return
    pages: Any = array
    while isinstance(pages, np.ndarray):
        pages = pages.base
    if not isinstance(pages, mmap.mmap):
        return
    base = np.frombuffer(pages, dtype=np.uint8).ctypes.data
    low, high = np.lib.array_utils.byte_bounds(array)
    start = (low - base) // mmap.PAGESIZE * mmap.PAGESIZE
    pages.madvise(mmap.MADV_DONTNEED, start, high - base - start)


def write_array(fill: Callable[[AnyArray], None], out: Any, shape: tuple[int, ...], dtype: Any) -> AnyArray:
    """Have `fill(array)` write results to `out`, and return them.

    Parameters
    ----------
    fill : callable
    out : None, array or path
        None for a new array; a path of a new `.npy` file, which appears when it is complete and is returned as a memory map.
    shape, dtype
        Of the results.
    """
    dtype = np.dtype(dtype)
    if isinstance(out, str | os.PathLike):
        path = Path(out)
        if path.suffix != ".npy":
            raise ValueError(
                f"out={os.fspath(out)!r}: results are written to a .npy file; give a path that ends in .npy."
            )
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists: remove it, or give another path.")
        with TemporaryDirectory(dir=path.parent) as folder:
            array = np.lib.format.open_memmap(Path(folder) / path.name, mode="w+", dtype=dtype, shape=shape)
            fill(array)
            array.flush()
            del array  # Windows moves no file that is mapped
            os.replace(Path(folder) / path.name, path)
        return np.load(path, mmap_mode="r")
    if out is None:
        out = np.empty(shape, dtype=dtype)
    else:
        rule = "same_kind" if dtype.kind == "f" else "safe"  # labels must not be truncated
        fits = isinstance(out, np.ndarray) and out.shape == shape and np.can_cast(dtype, out.dtype, rule)  # type: ignore[arg-type]
        if not fits or not out.flags.writeable:
            raise ValueError(
                f"out must be None, a path that ends in .npy, or a writeable NumPy array of shape {shape} that can hold {dtype}."
            )
    fill(out)
    return out
