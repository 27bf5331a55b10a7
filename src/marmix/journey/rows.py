"""The rows of a data file as numbers: in memory, or in a file of their own where they are many."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.journey.progress import Step
from marmix.streams import release
from marmix.tables.cells import shown
from marmix.tables.labels import LabelColumn
from marmix.tables.preparation import Counts, Preparation
from marmix.tables.reading import DataFile

BLOCK = 65_536  # rows that are looked at together
IN_MEMORY = 2**26  # bytes of features from which they are kept in a file
_LARGEST = 1e150
_DIGITS = 1e-11  # a spread that is less, as a share of the largest number, is lost in a computer's arithmetic


class FileRows(NamedTuple):
    """Features and labels of the rows that have all features, and which these are."""

    X: Any  # (m, d)
    complete: NDArray[np.bool_]  # (n,)
    codes: NDArray[np.int32]  # (n,), -1 where a label is missing
    classes: NDArray[Any]
    counts: Counts
    notes: list[str]  # about the labels

    @property
    def z(self) -> NDArray[np.int32]:
        """Codes of the complete rows."""
        return self.codes[self.complete]


def read_rows(
    source: DataFile,
    preparation: Preparation,
    labels: LabelColumn,
    scratch: Path,
    step: Step,
) -> FileRows:
    """Read the features of all rows; their labels were read before, and tell how many rows there are."""
    n_rows = labels.rows
    width = len(preparation.get_feature_names_out())
    if 8 * n_rows * width > IN_MEMORY:
        X: Any = np.lib.format.open_memmap(scratch / "features.npy", "w+", np.float64, (n_rows, width))
    else:
        X = np.empty((n_rows, width))
    complete = np.zeros(n_rows, dtype=bool)
    seen = kept = 0
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    counts = Counts.none()
    for batch in source.batches(preparation.features_in(), step):
        block, own = preparation.transform_counted(batch, seen)
        counts += own
        whole = np.asarray(~np.isnan(block).any(axis=1))
        complete[seen : seen + len(whole)] = whole
        block = block[whole]
        X[kept : kept + len(block)] = block
        if len(block):
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        release(X)
        seen, kept = seen + len(whole), kept + len(block)
    _check_complete(complete, labels)
    _check_ranges(preparation.get_feature_names_out(), low, high)
    return FileRows(X[:kept], complete, labels.codes, labels.classes, counts, labels.notes())


def _check_ranges(names: NDArray[Any], lowest: Array, highest: Array) -> None:
    """Refuse numbers whose squares leave the range of numbers, and those that differ in their last digits only."""
    for name, low, high in zip(names, lowest.tolist(), highest.tolist(), strict=True):
        largest, spread = max(abs(low), abs(high)), high - low
        if largest > _LARGEST or 0.0 < spread < 1.0 / _LARGEST:
            raise ValueError(f"column {shown(name)} has numbers from {low:.3g} to {high:.3g}: give it in other units.")
        if 0.0 < spread < _DIGITS * largest:
            raise ValueError(
                f"column {shown(name)} has numbers from {low:.17g} to {high:.17g}, which differ in their last digits only: "
                f"subtract {low:.17g}, or leave the column out with --exclude, or with --id if it names the rows."
            )


def _check_complete(complete: NDArray[np.bool_], labels: LabelColumn) -> None:
    """Refuse rows of which those with all features say nothing, or nothing of a class."""
    advice = "--impute-features median keeps such rows, and --exclude leaves out a column that is often empty."
    if not complete.any():
        raise ValueError(f"every row has a missing feature, so none is left. {advice}")
    lost = np.setdiff1d(labels.codes[labels.codes >= 0], labels.codes[complete])
    if len(lost) and labels.known is None:
        name = shown(labels.classes[lost[0]])
        raise ValueError(f"every labelled row of class {name} has a missing feature, so none is left. {advice}")


def rows_at(X: Any, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Some of the rows, `places` ascending, without holding the pages of all of them."""
    out = np.empty((len(places), X.shape[1]))
    for start in range(0, len(X), BLOCK):
        inside = slice(*np.searchsorted(places, [start, start + BLOCK]))
        out[inside] = X[places[inside]]
        release(X)
    return out


def require_libraries() -> None:
    """Refuse before the work, not after it, where a library that files and reports need is not there."""
    lost = [name for name in ("pyarrow", "matplotlib") if find_spec(name) is None]
    if lost:
        raise ImportError(f"this needs {' and '.join(lost)}: pip install 'marmix[cli]'")
