"""Estimates of q(x) and of P(y | x) that rest on no model of marmix, so that a model need not be its own judge.

Scores of partially labelled data lean on ``q(x) = P(label missing | x)`` and on posteriors (`marmix.evaluation`). Here both come
from random forests, of the missing indicator and of the labels, and each row's values from trees that did not see the row
(*cross-fitting*). Scores from these are consistent if labels are missing at random given the features, whatever the mechanism, as
long as rows of every kind have some labels; their errors are larger than those of a model that is right.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_array

from marmix.arrays import Array, unmasked
from marmix.labels import encode_labels, has_votes, most_voted, vote_shares
from marmix.rows.checks import check_finite, in_floats

__all__ = ["Flexible", "flexible"]

_TREES = 200
_LEAF, _LABEL_LEAF = 10, 3  # rows in a leaf of a tree: of the missing indicator, of labels
_MOST_ROWS = 5000  # rows that grow a tree
_SINGLE = 1e30  # numbers up to this, and down to its inverse, keep their digits in single precision
_DOUBT = 0.01  # share of equal probabilities in the posteriors: a forest is often certain


class Flexible(NamedTuple):
    """Cross-fitted probabilities of the training rows, and the forest for other rows."""

    missing_proba: Array  # (n,)
    posterior: Array  # (n, K)
    classes: NDArray[Any]
    forest: RandomForestClassifier  # of the missing indicator


def flexible(X: Any, y: Any, *, classes: Any = None, random_state: Any = 0) -> Flexible:
    """Random-forest estimates of P(label missing | x) and P(y | x), each row's from trees grown without it.

    Use them in `marmix.evaluation.log_loss` and its like, for instance to compare classifiers that model the missingness in
    different ways:

    >>> import numpy as np
    >>> from marmix.evaluation import log_loss
    >>> from marmix.flexible import flexible
    >>> rng = np.random.default_rng(0)
    >>> z = rng.integers(2, size=400)
    >>> X = rng.normal(size=(400, 2)) + np.where(z == 1, 1.0, -1.0)[:, None]
    >>> y = np.where(rng.exponential(2.0, size=400) > np.abs(X.sum(axis=1)), -1, z)
    >>> judge = flexible(X, y)
    >>> proba = np.column_stack([1 - (p := 1 / (1 + np.exp(-2 * X.sum(axis=1)))), p])  # the true posteriors
    >>> score = log_loss(y, proba, judge.missing_proba, classes=judge.classes, posterior=judge.posterior)
    >>> bool(abs(score.value - log_loss(z, proba, 0 * judge.missing_proba, classes=[0, 1]).value) < 2 * score.stderr)
    True

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features; missing values are allowed.
    y : array-like of shape (n,) or (n, K)
        Labels; -1, NaN, None or pandas.NA if missing. Or votes, of which the forests see the most voted class.
    classes : array-like or None
        The classes; by default the sorted labels.
    random_state : int, RandomState instance or None, default=0

    Returns
    -------
    Flexible
    """
    X = in_floats(unmasked(X), partial(check_array, input_name="X"))
    check_finite(X, [f"x{i}" for i in range(X.shape[1])], allow_nan=True)
    if has_votes(y):
        shares, names = vote_shares(y, classes)
        z = most_voted(shares)
    else:
        z, names = encode_labels(y, classes)
    if len(z) != len(X):
        raise ValueError(f"X and y have inconsistent numbers of samples: {len(X)} and {len(z)}.")
    q, forest = flexible_missing_proba(X, z < 0, random_state)
    labelled = np.flatnonzero(z >= 0)
    labels = _forest(len(labelled), _LABEL_LEAF, random_state).fit(X[labelled], z[labelled])
    posterior = np.zeros((len(X), len(names)))
    posterior[:, labels.classes_] = labels.predict_proba(X)
    posterior[np.ix_(labelled, labels.classes_)] = _out_of_bag(labels, posterior[labelled][:, labels.classes_])
    return Flexible(q, (1.0 - _DOUBT) * posterior + _DOUBT / len(names), names, forest)


def flexible_missing_proba(
    X: NDArray[Any], missing: NDArray[np.bool_], random_state: Any = 0
) -> tuple[Array, RandomForestClassifier]:
    """P(label missing | x) of each row from trees grown without it, at most ``1 - 1 / n``, and the forest."""
    if missing.all() or not missing.any():
        raise ValueError("all labels are missing, or none is: there is no missingness to estimate.")
    forest = _forest(len(X), _LEAF, random_state).fit(X, missing)
    q = _out_of_bag(forest, forest.predict_proba(X))[:, 1]
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


def _forest(n: int, leaf: int, random_state: Any) -> RandomForestClassifier:
    return _Forest(
        _TREES,
        min_samples_leaf=leaf,
        max_samples=_MOST_ROWS if n > _MOST_ROWS else None,
        oob_score=True,
        random_state=random_state,
    )


def _out_of_bag(forest: RandomForestClassifier, otherwise: Array) -> Array:
    """Probabilities of each training row from trees grown without it; `otherwise` for a row that all trees saw."""
    proba = np.asarray(forest.oob_decision_function_)
    return np.where(np.isfinite(proba), proba, otherwise)
