r"""Conformal sets: sets of classes that hold the true one with a stated probability.

Labelled rows are easier than unlabelled ones, so errors on labelled rows cannot simply be carried over. With held-out
probabilities p of the labelled rows i, and :math:`w(x) = q(x) / (1 - q(x))`, which is proportional to the ratio of the
densities of unlabelled and labelled rows, the set of an unlabelled row is

.. math::

    C(x) = \{k : 1 - p_k(x) \le t(x)\},

where t(x) is the quantile, at the level `coverage`, of the distribution with weights :math:`w(x_i)` at :math:`1 -
p_{y_i}(x_i)` and :math:`w(x)` at infinity (Tibshirani, Foygel Barber, Candes and Ramdas, 2019: conformal prediction
under covariate shift). If q is right, a share `coverage` of the sets holds the true class, however wrong the
probabilities are. A row unlike all labelled ones gets all classes. For a row drawn from the whole population, labelled
or not, the weights are :math:`1 / (1 - q)`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marmix.core.arrays import Array, unmasked
from marmix.core.labels import as_classes, label_shares
from marmix.evaluation.pseudo_labels import checked_proba


def conformal_sets(
    y: Any,
    proba: ArrayLike,
    missing_proba: ArrayLike,
    new_proba: ArrayLike,
    new_missing_proba: ArrayLike,
    *,
    classes: ArrayLike,
    coverage: float = 0.9,
    population: bool = False,
) -> NDArray[np.bool_]:
    """Return a set of classes for each new row, calibrated on labelled rows.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, K)
        Labels, missing where -1, NaN, None or pandas.NA; or votes. Unlabelled rows are not used.
    proba : array-like of shape (n, K)
        Probabilities of the classes, from fits that did not see the row.
    missing_proba : array-like of shape (n,)
        Probability that the label of each row is missing.
    new_proba : array-like of shape (m, K)
        Probabilities of the classes for the rows that get sets.
    new_missing_proba : array-like of shape (m,)
        Probability that the label of each of these rows is missing.
    classes : array-like of shape (K,)
        The classes of the columns.
    coverage : float, default=0.9
        Probability that a set holds the true class.
    population : bool, default=False
        Whether the new rows are drawn from the whole population rather than from the unlabelled rows.

    Returns
    -------
    array of bool, shape (m, K)
        Whether a class is in the set; the most probable class always is.

    Raises
    ------
    ValueError
        If every label is missing, `coverage` does not lie between 0 and 1, or arrays do not fit together.

    See Also
    --------
    marmix.MARClassifierCV : Has a method `imputed_sets`, which uses its held-out probabilities.

    Examples
    --------
    Of 20 labelled rows, four were unclear. A new row is called "a" with a probability of 0.6:

    >>> import numpy as np
    >>> from marmix.evaluation import conformal_sets
    >>> y = np.array(["a", "b"] * 10)
    >>> proba = np.where(y[:, None] == ["a", "b"], 0.8, 0.2)
    >>> proba[:4] = 0.5
    >>> q = np.full(20, 0.3)
    >>> conformal_sets(y, proba, q, [[0.6, 0.4]], [0.3], classes=["a", "b"])
    array([[ True, False]])

    A row that would hardly ever be labelled is unlike the rows that the set was calibrated on, and keeps both classes:

    >>> conformal_sets(y, proba, q, [[0.6, 0.4]], [0.9], classes=["a", "b"])
    array([[ True,  True]])
    """
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage={coverage!r} must lie between 0 and 1, for instance 0.9.")
    names = as_classes(classes)
    shares = label_shares(y, names)
    rows, z = np.nonzero(shares)
    if not len(rows):
        raise ValueError("every label in y is missing: sets are calibrated on labelled rows.")
    p = checked_proba(proba, shares.shape, rows=rows)
    new = checked_proba(new_proba, (len(new_proba), len(names)), "new_proba")  # type: ignore[arg-type]
    weight = _weights(missing_proba, len(shares), population)[rows] * shares[rows, z]
    new_weight = _weights(new_missing_proba, len(new), population)
    threshold = _thresholds(1.0 - p[rows, z], weight, new_weight, coverage)
    sets = 1.0 - new <= threshold[:, None]
    sets[np.arange(len(new)), new.argmax(axis=1)] = True
    return sets


def _weights(missing_proba: ArrayLike, n: int, population: bool) -> Array:
    q = np.asarray(unmasked(missing_proba), dtype=float)
    if q.shape != (n,) or not ((q >= 0.0) & (q < 1.0)).all():
        raise ValueError(f"missing_proba must have shape {(n,)} and lie in [0, 1).")
    return (1.0 if population else q) / (1.0 - q)


def _thresholds(scores: Array, weight: Array, new_weight: Array, coverage: float) -> Array:
    """The weighted quantile for each new row, whose own weight is at infinity."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weight[order])
    place = np.searchsorted(below, coverage * (below[-1] + new_weight) * (1.0 - 1e-12))
    return np.append(scores[order], np.inf)[place]
