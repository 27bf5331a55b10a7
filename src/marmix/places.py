"""Where rows are: on the host, on a device, on a cluster. The type of the array tells."""

from typing import Any

import numpy as np


def on_device(array: Any) -> bool:
    """Whether this is an array of torch, CuPy or another library of the array API standard than NumPy."""
    if isinstance(array, np.ndarray | np.generic):
        return False
    return hasattr(array, "__array_namespace__") or type(array).__module__.split(".")[0] in ("torch", "cupy")


def on_cluster(array: Any) -> bool:
    """Whether this is a Dask array, dataframe or series."""
    return type(array).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(array, "__dask_graph__")
