"""Rows in memory, in files, on devices and on clusters, and functions mapped over them in blocks."""

from collections.abc import Callable
from typing import Any

from marmix.arrays import detached, on_cluster, on_device, unmasked
from marmix.rows.checks import check_table, in_floats, refuse_sparse
from marmix.rows.device import DeviceRows
from marmix.rows.engine import NO_COVARIATES, Covariates, Engine, Frame, Rows, UserAxes, block_rows
from marmix.rows.host import FileEngine, HostRows, NumpyEngine, row_order
from marmix.rows.kernel import KernelFrame
from marmix.streams import in_file, open_array

__all__ = [
    "NO_COVARIATES",
    "Covariates",
    "DeviceRows",
    "Engine",
    "FileEngine",
    "Frame",
    "HostRows",
    "KernelFrame",
    "NumpyEngine",
    "Rows",
    "UserAxes",
    "block_rows",
    "row_order",
    "rows_of",
]


def rows_of(X: Any, validate: Callable[..., Any], fit: bool = False) -> Rows:
    """The `Rows` for an array-like or the path of a `.npy` file, chosen by where the data are.

    `validate` is scikit-learn's `validate_data` for an estimator: it checks the number and names of the features. `fit` is
    whether a model is to be fitted to the rows.
    """
    X = unmasked(detached(open_array(X)))
    refuse_sparse(X)
    if on_cluster(X):
        from marmix.rows.cluster import ClusterRows, described

        check_table(X)
        validate(described(X), skip_check_array=True)
        return ClusterRows(X)
    if in_file(X) or on_device(X):
        check_table(X)
        validate(X, skip_check_array=True)
        return DeviceRows(X) if on_device(X) else HostRows(X)
    return HostRows(in_floats(X, validate, fit))
