r"""Estimates of q(x) and P(y | x) by random forests, so that a model need not judge itself.

Scores of partially labelled data rely on :math:`q(x) = P(\text{label missing} \mid x)` and on posteriors
(`marmix.evaluation`). Here both come from random forests, one of the missing indicator and one of the labels, and the
values of each row come from trees that did not see the row (*cross-fitting*). Scores that use them are consistent if
labels are missing at random given the features, whatever the mechanism, as long as rows of every kind have some labels;
their errors are larger than those of a model that is right.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_array

from marmix.core.arrays import Array, unmasked
from marmix.engines.checks import check_finite, in_floats
from marmix.engines.rows import encoded

_TREES = 200
_LEAF, _LABEL_LEAF = 10, 3  # rows in a leaf of a tree: of the missing indicator, of labels
_MOST_ROWS = 5000  # rows that grow a tree
_SINGLE = 1e30  # numbers up to this, and down to its inverse, keep their digits in single precision
_DOUBT = 0.01  # share of equal probabilities in the posteriors: a forest is often certain


class Flexible(NamedTuple):
    """Cross-fitted probabilities of the training rows, as returned by `flexible`.

    Attributes
    ----------
    missing_proba : array of shape (n,)
        Probability that the label of each row is missing.
    posterior : array of shape (n, K)
        Probabilities of the classes.
    classes : array of shape (K,)
        The classes of the columns of `posterior`.
    forest : RandomForestClassifier
        The forest of the missing indicator, for other rows: ``forest.predict_proba(X_new)[:, 1]``.

    See Also
    --------
    flexible : Compute them.

    Examples
    --------
    The forest gives the probability of a missing label for new rows:

    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.evaluation import flexible
    >>> rows = make_mar_mixture(200, random_state=0)
    >>> judge = flexible(rows.data, rows.target)
    >>> judge.posterior.shape, judge.classes
    ((200, 2), array([0, 1]))
    >>> boundary, far = judge.forest.predict_proba([[0.0, 0.0], [3.0, 0.0]])[:, 1]
    >>> bool(boundary > far)
    True
    """

    missing_proba: Array
    posterior: Array
    classes: NDArray[Any]
    forest: RandomForestClassifier


def flexible(X: Any, y: Any, *, classes: Any = None, random_state: Any = 0) -> Flexible:
    """Return random-forest estimates of P(label missing | x) and P(y | x).

    Those of each row come from trees grown without it. Use them in `marmix.evaluation.log_loss` and the other scores,
    for instance to compare classifiers that model the missingness in different ways.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features; missing values are allowed.
    y : array-like of shape (n,) or (n, K)
        Labels, missing where -1, NaN, None or pandas.NA; or votes, of which the forests see the most voted class.
    classes : array-like or None, default=None
        The classes; by default the sorted labels.
    random_state : int, RandomState instance or None, default=0
        Seed of the forests.

    Returns
    -------
    Flexible
        `missing_proba`, `posterior`, `classes` and `forest`.

    Raises
    ------
    ValueError
        If all labels are missing or none is, or if X and y have different numbers of rows.

    See Also
    --------
    marmix.evaluation.log_loss : Scores that use these estimates.
    marmix.evaluation.population_scorer : Takes a fitted model of the missingness for cross-validation.

    Examples
    --------
    Judge a classifier by estimates that do not come from it. These rows are simulated, so the score with the true
    labels is known, the last number:

    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.evaluation import flexible, log_loss
    >>> rows = make_mar_mixture(400, rate=0.4, random_state=0)
    >>> proba = MARLogisticRegression().fit(rows.data, rows.target).predict_proba(rows.data)
    >>> judge = flexible(rows.data, rows.target)
    >>> score = log_loss(
    ...     rows.target, proba, judge.missing_proba, classes=judge.classes, posterior=judge.posterior
    ... )
    >>> print(f"labelled rows: {score.plain:.1f}, all rows: {score.value:.1f}")
    labelled rows: 0.2, all rows: 0.3
    >>> truth = log_loss(rows.target_true, proba, [0.0] * 400, classes=judge.classes)
    >>> print(f"{truth.value:.1f}")
    0.3
    """
    X = in_floats(unmasked(X), partial(check_array, input_name="X"))
    check_finite(X, [f"x{i}" for i in range(X.shape[1])], allow_nan=True)
    z, names, _ = encoded(y, classes, None)
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
    """P(label missing | x) of each row from trees grown without it, and the forest."""
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
    """Probabilities of training rows from trees grown without them; `otherwise` where there is none."""
    proba = np.asarray(forest.oob_decision_function_)
    return np.where(np.isfinite(proba), proba, otherwise)
