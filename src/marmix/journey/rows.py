"""The rows of a data file as numbers: in memory, or in a file of their own where they are many."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.journey.progress import Step
from marmix.streams import release
from marmix.tables.labels import LabelColumn
from marmix.tables.preparation import Counts, Preparation
from marmix.tables.reading import DataFile

_BLOCK = 65_536  # rows
IN_MEMORY = 2**26  # bytes of features from which they are kept in a file


class Rows(NamedTuple):
    """Features and labels of the rows that have all features, and which these are."""

    X: Any  # (m, d)
    complete: NDArray[np.bool_]  # (n,)
    codes: NDArray[np.int32]  # (n,), -1 where a label is missing
    classes: NDArray[Any]
    counts: Counts

    @property
    def z(self) -> NDArray[np.int32]:
        """Codes of the complete rows."""
        return self.codes[self.complete]


def read_rows(source: DataFile, preparation: Preparation, labels: LabelColumn, scratch: Path, step: Step) -> Rows:
    """Read the features and the labels; rows are counted first where the file does not say how many there are."""
    n_rows = source.rows or sum(batch.num_rows for batch in source.batches([labels.name]))
    width = len(preparation.get_feature_names_out())
    if 8 * n_rows * width > IN_MEMORY:
        X: Any = np.lib.format.open_memmap(scratch / "features.npy", "w+", np.float64, (n_rows, width))
    else:
        X = np.empty((n_rows, width))
    complete = np.zeros(n_rows, dtype=bool)
    seen = kept = 0
    counts = Counts.none()
    columns = [*preparation.features_in(), labels.name]
    for batch in source.batches(columns, step):
        block, own = preparation.transform_counted(batch, seen)
        counts += own
        whole = ~np.isnan(block).any(axis=1)
        complete[seen : seen + len(block)] = whole
        X[kept : kept + int(whole.sum())] = block[whole]
        labels.add(batch.column(labels.name))
        release(X)
        seen, kept = seen + len(block), kept + int(whole.sum())
    return Rows(X[:kept], complete, labels.codes, labels.classes, counts)


def taken(X: Any, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Some of the rows, `places` ascending, without holding the pages of all of them."""
    out = np.empty((len(places), X.shape[1]))
    for start in range(0, len(X), _BLOCK):
        inside = slice(*np.searchsorted(places, [start, start + _BLOCK]))
        out[inside] = X[places[inside]]
        release(X)
    return out
