"""Where rows are: on the host, on a device, on a cluster. The type of the array tells."""

from typing import Any

from marmix.arrays import to_host


def on_device(array: Any) -> bool:
    """Whether this is an array of torch or CuPy (or array-api-strict, which tries what they may do)."""
    return type(array).__module__.split(".")[0] in ("torch", "cupy", "array_api_strict") and hasattr(array, "shape")


def on_cluster(array: Any) -> bool:
    """Whether this is a Dask array, dataframe or series."""
    return type(array).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(array, "__dask_graph__")


def brought_here(what: str, *arrays: Any) -> list[Any]:
    """Arrays with those of a device brought to the host; those of a cluster are refused, for `what` needs them all."""
    if any(on_cluster(array) for array in arrays):
        raise TypeError(
            f"{what} needs the rows on one machine: compute() them if they fit in memory, or write them to a .npy file and pass "
            "its path. Fits of one estimator, predictions and criteria work on the cluster."
        )
    return [to_host(array) if on_device(array) else array for array in arrays]
