"""Arrays in files: read where they are, a run of rows at a time, and written as they come."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# An array in a file stays there if it is larger than this; else it is read into memory, which is faster.
LEFT_IN_FILE = 2**26


def opened(array: Any, name: str = "X") -> Any:
    """What was given, or the array in the `.npy` file whose path was given, as a read-only memory map."""
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
    """Whether an array is in a file and so large that it is left there."""
    return isinstance(array, np.memmap) and array.nbytes > LEFT_IN_FILE


def release(array: NDArray[Any]) -> None:
    """Let go of the pages of a memory-mapped array that were read: the file keeps them, the process need not.

    A copy-on-write map is left alone, since its pages may hold what the file does not.
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
    """Where results go: a new array, the user's own, or a new `.npy` file, which appears only when it is whole.

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
        if path.exists():
            raise FileExistsError(f"out={os.fspath(path)!r} exists: remove it, or give another path.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"out={os.fspath(path)!r}: there is no folder {os.fspath(path.parent)!r}.")
        if dtype.hasobject:
            raise ValueError(
                "out= cannot be a file for labels that are Python objects: name the classes as text or numbers."
            )
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            written = np.lib.format.open_memmap(unfinished, mode="w+", dtype=dtype, shape=shape)
            yield written
            written.flush()
            os.replace(unfinished, path)
        except BaseException:
            with suppress(FileNotFoundError):
                unfinished.unlink()
            raise
    else:
        rule = "same_kind" if dtype.kind == "f" else "safe"  # a label must not be cut
        fits = isinstance(out, np.ndarray) and out.shape == shape and np.can_cast(dtype, out.dtype, rule)  # type: ignore[arg-type]
        if not fits or not out.flags.writeable:
            raise ValueError(
                f"out must be None, a path that ends in .npy, or a writeable NumPy array of shape {shape} that can hold {dtype}."
            )
        yield out


def result(out: Any, written: NDArray[Any]) -> NDArray[Any]:
    """What the user gets of a finished `output`: a file's array is opened anew, to be read."""
    return np.load(out, mmap_mode="r") if isinstance(out, str | os.PathLike) else written
