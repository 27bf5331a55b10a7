"""Choice of settings by rows that are held out whole, that is, with their label or the fact that it is missing."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state


def whole_row_folds(z: NDArray[np.integer], cv: Any, random_state: Any = 0) -> list[NDArray[np.intp]]:
    """Test rows of each fold, labelled and unlabelled ones, ascending; no folds if nothing can be held out.

    Parameters
    ----------
    z : array of shape (n,)
        Codes of the classes, -1 where the label is missing.
    cv : int, iterable of test-row index arrays or of (train, test) pairs, or a scikit-learn splitter
        A number of folds deals the rows of each class, and the unlabelled ones as one more class, to the folds in turn.
        A group with a single row is never held out, so that every training part has labels of every class.
    random_state : int, RandomState instance or None
        For the order in which the rows are dealt.
    """
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv={cv} must be at least 2.")
        return _dealt(z, int(cv), check_random_state(random_state))
    splits = cv.split(z, z) if hasattr(cv, "get_n_splits") else cv
    if isinstance(splits, str) or not isinstance(splits, Iterable):
        raise ValueError(f"cv={cv!r} must be a number of folds, a list of arrays of test rows, or a splitter.")
    folds = [np.asarray(split[1] if isinstance(split, tuple) else split) for split in splits]
    for test in folds:
        if test.ndim != 1 or test.dtype.kind not in "iu" or not ((test >= 0) & (test < len(z))).all():
            raise ValueError(f"cv must have arrays of row numbers from 0 to {len(z) - 1}.")
    if len(np.unique(tested := np.concatenate([*folds, np.empty(0, dtype=int)]))) < len(tested):
        raise ValueError("cv tests a row twice: use splits whose test sets do not overlap.")
    for test in folds:
        if len(np.unique(np.delete(z, test))) < len(np.unique(z)):
            raise ValueError(
                "cv has a fold without training rows of some class, or without unlabelled ones: use fewer folds."
            )
    return [np.sort(test).astype(np.intp) for test in folds if len(test)]


def _dealt(z: NDArray[np.integer], cv: int, rng: np.random.RandomState) -> list[NDArray[np.intp]]:
    fold, first = np.full(len(z), -1), 0
    for group in np.unique(z):
        rows = rng.permutation(np.flatnonzero(z == group))
        if len(rows) > 1:
            fold[rows] = (first + np.arange(len(rows))) % cv
            first += len(rows)
    return [test for k in range(cv) if len(test := np.flatnonzero(fold == k))]
