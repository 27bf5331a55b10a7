"""The rows of a data file as numbers, in memory or, if large, in a memory-mapped file."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.core.arrays import LARGEST, LEAST_SPREAD, Array
from marmix.core.files import release
from marmix.journey.progress import Step
from marmix.tables.cells import shown
from marmix.tables.labels import LabelColumn
from marmix.tables.preparation import Counts, Preparation
from marmix.tables.reading import DataFile

BLOCK = 65_536  # rows processed together
_ADVICE = "--impute-features median keeps such rows; --exclude drops a column that is often empty."
IN_MEMORY = 2**26  # bytes of features above which they go into a file


class FileRows(NamedTuple):
    """Features of the complete rows, labels of all rows, and which rows are complete."""

    X: Any  # (m, d)
    complete: NDArray[np.bool_]  # (n,)
    codes: NDArray[np.int32]  # (n,), -1 where a label is missing
    classes: NDArray[Any]
    counts: Counts
    marks: Mapping[str, int]  # texts that counted as missing labels, and how many rows have each
    shares: Array | None = None  # (n, K), of the votes of all rows; None if each has one label

    @property
    def z(self) -> NDArray[np.int32]:
        """Labels of the complete rows."""
        return self.codes[self.complete]

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of the complete rows as estimators take them: codes, or shares of votes."""
        return self.z if self.shares is None else self.shares[self.complete]


def read_rows(
    source: DataFile,
    preparation: Preparation,
    labels: LabelColumn,
    scratch: Path,
    step: Step,
) -> FileRows:
    """Read the features of all rows; `labels` have been read before."""
    n_rows = labels.rows
    width = len(preparation.get_feature_names_out())
    shares = labels.shares
    # rows with several votes are copied in memory
    X = empty_rows(scratch / "features.npy", n_rows, width) if shares is None else np.empty((n_rows, width))
    complete = np.zeros(n_rows, dtype=bool)
    start = kept = 0
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    counts = Counts.none()
    for batch in source.batches(preparation.features_in(), step):
        block, gaps = preparation.transform_counted(batch, start)
        counts += gaps
        filled = complete_rows(block, gaps, start)
        complete[start : start + len(filled)] = filled
        block = block[filled]
        X[kept : kept + len(block)] = block
        if len(block):
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        release(X)
        start, kept = start + len(filled), kept + len(block)
    if not complete.any():
        raise ValueError(f"every row has a missing feature, so none is left. {_ADVICE}")
    _check_ranges(preparation.get_feature_names_out(), low, high)
    return FileRows(X[:kept], complete, labels.codes, labels.classes, counts, labels.marks, shares)


def complete_rows(block: Array, counts: Counts, start: int) -> NDArray[np.bool_]:
    """Mask of the rows with all features, of which at least one is in the file; `start` rows come before them."""
    complete = np.asarray(~np.isnan(block).any(axis=1))
    complete[[place - start for place in counts.blank]] = False
    return complete


def empty_rows(path: Path, n_rows: int, width: int) -> Any:
    """An array for rows: in memory or, if large, in a new file."""
    if 8 * n_rows * width <= IN_MEMORY:
        return np.empty((n_rows, width))
    return np.lib.format.open_memmap(path, "w+", np.float64, (n_rows, width))


def _check_ranges(names: NDArray[Any], lowest: Array, highest: Array) -> None:
    """Refuse columns whose squares overflow, or whose numbers differ in their last digits only."""
    for name, low, high in zip(names, lowest.tolist(), highest.tolist(), strict=True):
        problem = range_problem(name, low, high)
        if problem:
            raise ValueError(f"{problem}, or exclude the column with --exclude (--id if it identifies the rows).")


def range_problem(name: str, low: float, high: float) -> str:
    """Why numbers between these ends cannot be fitted, and what to do; empty if they can."""
    largest, spread = max(abs(low), abs(high)), high - low
    if largest > LARGEST or 0.0 < spread < 1.0 / LARGEST:
        return f"column {shown(name)} has numbers from {low:.3g} to {high:.3g}: use other units"
    if 0.0 < spread < LEAST_SPREAD * largest:
        return (
            f"column {shown(name)} has numbers from {low:.17g} to {high:.17g}, which differ only in their last digits: "
            f"subtract {low:.17g}"
        )
    return ""


def check_classes(rows: FileRows) -> None:
    """Raise ValueError if no labelled row of some class is complete."""
    numbers = np.arange(len(rows.classes))
    labelled = np.isin(numbers, rows.z) if rows.shares is None else rows.labels.any(axis=0)
    if not labelled.all():
        name = shown(rows.classes[~labelled][0])
        raise ValueError(f"every labelled row of class {name} has a missing feature, so none is left. {_ADVICE}")


def rows_at(X: Any, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Copy the rows at ascending `places`, without keeping the whole file in memory."""
    out = np.empty((len(places), X.shape[1]))
    for start in range(0, len(X), BLOCK):
        inside = slice(*np.searchsorted(places, [start, start + BLOCK]))
        out[inside] = X[places[inside]]
        release(X)
    return out


def require_libraries() -> None:
    """Fail early if an optional package is not installed."""
    missing = [name for name in ("pyarrow", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ImportError(f"this command needs {' and '.join(missing)}: pip install 'marmix[cli]'")
