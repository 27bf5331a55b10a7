"""The rows of a fit on the host, checked: in memory, or left in the file that they are in."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.moments import GroupMoments, group_moments, merged
from marmix.rows import Engine, FileEngine, NumpyEngine, Setting
from marmix.rows.checks import check_finite
from marmix.streams import in_file, release
from marmix.workers import available, ordered

# Rows looked at together, and rows from which more than one core is asked for.
_CHUNK, MANY_ROWS = 2**15, 2**16
# Chunks whose moments are held together.
_BATCH = 256


@dataclass(frozen=True)
class HostRows:
    """Validated training data.

    Parameters
    ----------
    X, z : arrays
        All rows, and their classes, -1 where missing.
    counted, labels, weight : arrays
        The rows of positive weight; None for weights of one. Rows in a file are all counted, whatever their weight.
    kept : array or None
        The places of these rows, None where they are all rows.
    n_classes : int
    labels_in_file : bool
        Whether the labels came from a file: those imputed then go to a file too, when the user asks for them.
    """

    X: NDArray[Any]
    z: NDArray[Any]
    counted: NDArray[Any]
    labels: NDArray[Any]
    weight: Array | None
    kept: NDArray[Any] | None
    n_classes: int
    labels_in_file: bool = False

    @cached_property
    def workers(self) -> int:
        """Threads that share the work on these rows."""
        return available() if len(self.z) >= MANY_ROWS else 1

    @cached_property
    def moments(self) -> GroupMoments:
        """Moments of each class and of the unlabelled."""

        def look(rows: slice) -> GroupMoments:
            weight = None if self.weight is None else self.weight[rows]
            found = group_moments(self.counted[rows], self.labels[rows], weight, self.n_classes)
            release(self.counted[rows])
            if weight is not None:
                release(weight)
            return found

        n = len(self.labels)
        chunks = [slice(a, min(a + _CHUNK, n)) for a in range(0, n, _CHUNK)]
        batches = (ordered(lambda: look, chunks[a : a + _BATCH], self.workers) for a in range(0, len(chunks), _BATCH))
        return merged(part for batch in batches for part in batch)

    def check_finite(self, names: list[str]) -> None:
        """Refuse features that are not finite, by name."""
        check_finite(self.counted, names)
        raise ValueError("Input X has values so large that their squares overflow: rescale the features.")

    def imputed(self, classifier: Any) -> tuple[NDArray[Any] | None, float | None]:
        """Labels of all rows, and the entropy of those that the classifier imputed; neither where the labels are in a file."""
        if self.labels_in_file:
            return None, None
        weight = self.weight
        if self.kept is not None:
            weight = np.zeros(len(self.X))
            weight[self.kept] = self.weight
        found: tuple[NDArray[Any], float] = classifier._imputed(self.X, self.z, weight)
        return found

    @property
    def any_missing(self) -> bool:
        """Whether some row has no label."""
        return bool(self.moments.weight[-1] > 0.0)

    def engine(self, setting: Setting) -> Engine:
        """The rows in the axes of a fit."""
        if in_file(self.X):
            return FileEngine(self.counted, self.labels, self.weight, setting, self.workers)
        return NumpyEngine(self.counted, self.labels, self.weight, *setting, workers=self.workers)
