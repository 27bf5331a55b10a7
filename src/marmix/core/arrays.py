"""Operations that are spelled differently for NumPy, torch and CuPy arrays.

The mathematics is written once, in the Python array API standard. NumPy is checked first, as the most common case. No branch
depends on a value on a device, because the host would have to wait for it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AnyArray = NDArray[Any]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]

_ON_HOST = (np.ndarray, np.generic)
LARGEST = 1e150  # number of a feature: its square, and sums of many squares, do not overflow
LEAST_SPREAD = 1e-11  # of the numbers of a feature, as a share of the largest: less is lost to rounding

# Rows in one batched matrix product on a device.
_RUN = 4096


def quiet() -> np.errstate:
    """A context without NumPy's warnings of overflow and NaN, where the limits are known or the results are checked."""
    return np.errstate(all="ignore")


def namespace(array: Any) -> Any:
    """The array API namespace of an array."""
    if isinstance(array, _ON_HOST):
        return np
    if hasattr(array, "__array_namespace__") and not type(array).__module__.startswith("cupy"):
        return array.__array_namespace__()
    try:
        from array_api_compat import array_namespace
    except ImportError:
        raise ImportError(
            f"arrays of type {type(array).__module__}.{type(array).__name__} need the package array-api-compat: "
            "pip install 'marmix[gpu]'."
        ) from None
    return array_namespace(array)


def on_host(array: Any) -> bool:
    """Whether this is a NumPy array, so that code may branch on its values."""
    return isinstance(array, _ON_HOST)


def detached(array: Any) -> Any:
    """The array, detached from torch's autograd graph if it is part of one."""
    return array.detach() if getattr(array, "requires_grad", False) else array


def to_host(array: Any) -> AnyArray:
    """The values as a NumPy array."""
    if hasattr(array, "get"):  # CuPy
        return np.asarray(array.get())
    if hasattr(array, "detach"):  # torch
        return np.asarray(array.detach().cpu().numpy())
    return np.asarray(array)


def like(values: Any, array: Any) -> Any:
    """Values as an array of the same type, dtype and device as `array`; of a tuple, each of its values."""
    if isinstance(values, tuple):
        return tuple(like(value, array) for value in values)
    if on_host(array):
        return np.asarray(values, dtype=array.dtype)
    if not on_host(values):
        return in_precision_of(array, values)
    return namespace(array).asarray(np.ascontiguousarray(values), dtype=array.dtype, device=array.device)


def in_double(array: Any) -> Any:
    """The values in double precision."""
    if on_host(array):
        return np.asarray(array, dtype=float)
    xp = namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def in_precision_of(array: Any, values: Any) -> Any:
    """The values in the precision of `array`."""
    if on_host(array) or values.dtype == array.dtype:
        return values
    return namespace(array).astype(values, array.dtype)


def with_constant(x: Any, rows: int) -> Any:
    """An array (rows, n) like columns x (d, n), with ones, then x, then rows without values."""
    shape = rows, x.shape[1]
    out = np.empty(shape) if on_host(x) else namespace(x).empty(shape, dtype=x.dtype, device=x.device)
    out[0, :], out[1 : 1 + x.shape[0], :] = 1.0, x
    return out


def total(values: Any, axis: int | None = None) -> Any:
    """Sum of the entries, or along an axis."""
    return values.sum(axis=axis) if on_host(values) else namespace(values).sum(values, axis=axis)


def along_rows(a: Any, b: Any) -> Any:
    """``a b'``: the sum over data rows, which are the columns of a and b.

    On a device it is split into batches, because one long thin product is slow there.
    """
    if on_host(a):
        return a @ b.T
    xp, n = namespace(a), a.shape[1]
    runs, rest = divmod(n, _RUN)
    parts = []
    if runs:
        left = xp.permute_dims(xp.reshape(a[:, : runs * _RUN], (a.shape[0], runs, _RUN)), (1, 0, 2))
        right = xp.permute_dims(xp.reshape(b[:, : runs * _RUN], (b.shape[0], runs, _RUN)), (1, 2, 0))
        parts.append(xp.sum(left @ right, axis=0))
    if rest or not runs:
        parts.append(a[:, runs * _RUN :] @ b[:, runs * _RUN :].T)
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def replaced(usual: Any, where: Any, instead: Callable[[], Any]) -> Any:
    """`usual` with `instead()` at the entries `where`; on the host computed only if there are any."""
    if on_host(usual):
        return np.where(where, instead(), usual) if where.any() else usual
    return namespace(usual).where(where, instead(), usual)


def multiply_into(out: Any, a: Any, b: Any) -> None:
    """``out = a b``, in place on the host."""
    if on_host(out):
        np.multiply(a, b, out=out)
    else:
        out[...] = a * b


def unmasked(array: Any) -> Any:
    """The array with NaN in place of masked entries."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    return np.ma.filled(array.astype(float), np.nan) if np.ma.is_masked(array) else array.data


def select_rows(X: Any, places: Ints) -> Any:
    """Rows of an array, a table, a sparse matrix or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    if hasattr(X, "column_names"):  # of pyarrow
        return X.take(places)
    if hasattr(X, "tocsr"):
        return X.tocsr()[places]
    return (X if hasattr(X, "shape") else np.asarray(X))[places]


def on_device(array: Any) -> bool:
    """Whether this is a torch or CuPy array (or array-api-strict, which stands in for them in tests)."""
    return type(array).__module__.split(".")[0] in ("torch", "cupy", "array_api_strict") and hasattr(array, "shape")


def on_cluster(array: Any) -> bool:
    """Whether this is a Dask array, dataframe or series."""
    return type(array).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(array, "__dask_graph__")


def to_host_or_refuse(what: str, *arrays: Any) -> list[Any]:
    """Copy device arrays to the host for `what`; refuse Dask collections, which may not fit there."""
    if any(on_cluster(array) for array in arrays):
        raise TypeError(
            f"{what} needs the rows on one machine: compute() them if they fit in memory, or write them to a .npy file and pass "
            "its path. Fits of one estimator, predictions and criteria work on the cluster."
        )
    return [to_host(array) if on_device(array) else array for array in arrays]
