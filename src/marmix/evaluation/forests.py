"""P(label missing | x) by a random forest, so that a model of the missingness need not judge itself."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from marmix.core.arrays import Array

_TREES = 200
_LEAF = 10  # rows in a leaf of a tree
_MOST_ROWS = 5000  # rows that grow a tree
_SINGLE = 1e30  # numbers up to this, and down to its inverse, keep their digits in single precision


def flexible_missing_proba(
    X: NDArray[Any], missing: NDArray[np.bool_], random_state: Any = 0
) -> tuple[Array, RandomForestClassifier]:
    """P(label missing | x) of each row from trees grown without it, and the forest."""
    if missing.all() or not missing.any():
        raise ValueError("all labels are missing, or none is: there is no missingness to estimate.")
    forest = _Forest(
        _TREES,
        min_samples_leaf=_LEAF,
        max_samples=_MOST_ROWS if len(X) > _MOST_ROWS else None,
        oob_score=True,
        random_state=random_state,
    ).fit(X, missing)
    proba = np.asarray(forest.oob_decision_function_)
    q = np.where(np.isfinite(proba), proba, forest.predict_proba(X))[:, 1]  # a row may be in every tree
    return np.minimum(q, 1.0 - 1.0 / len(X)), forest


class _Forest(RandomForestClassifier):
    """A random forest of features of any size: scikit-learn's trees see them in single precision."""

    def fit(self, X: Array, y: NDArray[Any]) -> "_Forest":
        largest = np.fmax.reduce(np.abs(X), axis=0)
        self.units_ = np.where((largest > _SINGLE) | ((largest > 0.0) & (largest < 1.0 / _SINGLE)), largest, 1.0)
        super().fit(self._in_units(X), y)
        return self

    def predict_proba(self, X: Array) -> Array:
        return np.asarray(super().predict_proba(self._in_units(X)))

    def _in_units(self, X: Array) -> Array:
        return np.clip(X / self.units_, -_SINGLE, _SINGLE)
