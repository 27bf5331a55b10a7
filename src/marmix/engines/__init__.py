"""Rows in memory, in files, on devices and on clusters, and functions mapped over them in blocks."""

from collections.abc import Callable
from typing import Any

from marmix.core.arrays import detached, on_cluster, on_device, unmasked
from marmix.core.files import in_file, open_array
from marmix.engines.checks import check_table, in_floats, refuse_sparse
from marmix.engines.cluster import ClusterRows, described
from marmix.engines.device import DeviceRows
from marmix.engines.host import FileEngine, HostRows, NumpyEngine, row_order
from marmix.engines.rows import Engine, Rows, block_rows

__all__ = [
    "DeviceRows",
    "Engine",
    "FileEngine",
    "HostRows",
    "NumpyEngine",
    "Rows",
    "block_rows",
    "row_order",
    "rows_of",
]


def rows_of(X: Any, validate: Callable[..., Any]) -> Rows:
    """The `Rows` for an array-like or the path of a `.npy` file, chosen by where the data are.

    `validate` is scikit-learn's `validate_data` for an estimator: it checks the number and names of the features.
    """
    X = unmasked(detached(open_array(X)))
    refuse_sparse(X)
    if on_cluster(X):
        check_table(X)
        validate(described(X), skip_check_array=True)
        return ClusterRows(X)
    if in_file(X) or on_device(X):
        check_table(X)
        validate(X, skip_check_array=True)
        return DeviceRows(X) if on_device(X) else HostRows(X)
    return HostRows(in_floats(X, validate))
