"""`missingness_check`: observed and fitted rates of missing labels along a variable."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from marmix.core.arrays import Array, unmasked
from marmix.evaluation.folds import labelled_rows


class MissingnessCheck(NamedTuple):
    """Observed and fitted rates of missing labels in bins of rows, from `missingness_check`.

    Print it for a table.

    Attributes
    ----------
    by : array of shape (b,)
        Mean of the sorting variable in each bin.
    n : integer array of shape (b,)
        Number of rows in each bin.
    observed, fitted : arrays of shape (b,)
        Share of missing labels in each bin, and the mean of the fitted probabilities.
    z : array of shape (b,)
        Their difference in standard errors.
    p_value : float
        P-value of the hypothesis that there is no difference.

    See Also
    --------
    marmix.evaluation.missingness_check : Compute it.

    Examples
    --------
    A mechanism that is the same for all rows misses that the rows with a large value lose their labels:

    >>> from marmix.evaluation import missingness_check
    >>> y, by = ["a"] * 40 + [None] * 40, range(80)
    >>> print(missingness_check(y, [0.5] * 80, by, n_bins=2))
          by     n  observed  fitted      z
      19.500    40     0.000   0.500   -6.3
      59.500    40     1.000   0.500   +6.3
    p-value of no difference: 4.2e-18
    """

    by: Array
    n: NDArray[np.integer]
    observed: Array
    fitted: Array
    z: Array
    p_value: float

    def __str__(self) -> str:
        lines = ["      by     n  observed  fitted      z"]
        for row in zip(self.by, self.n, self.observed, self.fitted, self.z, strict=True):
            lines.append("{:8.3f} {:5d} {:9.3f} {:7.3f} {:+6.1f}".format(*row))
        return "\n".join([*lines, f"p-value of no difference: {self.p_value:.2g}"])


def missingness_check(
    y: Any, missing_proba: ArrayLike, by: ArrayLike, n_bins: int = 10, *, classes: ArrayLike | None = None
) -> MissingnessCheck:
    r"""Compare observed with fitted rates of missing labels along a variable, to check a mechanism.

    Sorted by the probability of a class, the bins show labels that are missing on one side of the boundary only; sorted
    by a feature, they show a feature that the mechanism lacks. In bin b,

    .. math::

        z_b = \frac{\sum_{j \in b} (m_j - q_j)}{\sqrt{\sum_{j \in b} q_j (1 - q_j)}},

    and the sum of the squares is compared with a chi-square distribution with one degree of freedom per bin, which is
    conservative if q was fitted to the same rows.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, K)
        Labels, missing where -1, NaN, None or pandas.NA; or votes, zero or NaN in all columns where missing.
    missing_proba : array-like of shape (n,)
        q of each row.
    by : array-like of shape (n,)
        The variable to sort the rows by.
    n_bins : int, default=10
        Number of bins of about equal size.
    classes : array-like or None, default=None
        All classes. Needed only if one of them is -1 or a text that otherwise means a missing label, such as "None".

    Returns
    -------
    MissingnessCheck
        Prints as a table, and has `by`, `n`, `observed`, `fitted`, `z` and `p_value`.

    Raises
    ------
    ValueError
        If shapes do not agree, a probability does not lie between 0 and 1, or `by` is not finite.

    See Also
    --------
    marmix.plotting.MissingnessDisplay : Observed and fitted rates by uncertainty, as a figure.
    marmix.Mechanism : The mechanisms that can be fitted.

    Examples
    --------
    Here labels are lost towards class 1, but the fitted mechanism is symmetric. Along the probability of class 1 the
    check finds it out:

    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.evaluation import missingness_check
    >>> rows = make_mar_mixture(600, measure="signed-margin", rate=0.3, random_state=0)
    >>> clf = MARLogisticRegression().fit(rows.data, rows.target)
    >>> by = clf.predict_proba(rows.data)[:, 1]
    >>> check = missingness_check(rows.target, clf.missing_proba(rows.data), by, n_bins=4)
    >>> for p, observed, fitted in zip(check.by, check.observed, check.fitted):
    ...     print(f"P(class 1) about {p:.1f}: {observed:.2f} missing, {fitted:.2f} fitted")
    P(class 1) about 0.2: 0.01 missing, 0.17 fitted
    P(class 1) about 0.6: 0.06 missing, 0.04 fitted
    P(class 1) about 0.8: 0.43 missing, 0.30 fitted
    P(class 1) about 1.0: 0.79 missing, 0.78 fitted
    >>> check.p_value < 0.001
    True
    """
    labelled, _ = labelled_rows(y, classes)
    q, at = (np.asarray(unmasked(values), dtype=float) for values in (missing_proba, by))
    if q.shape != labelled.shape or at.shape != labelled.shape:
        raise ValueError(f"missing_proba and by must have shape {labelled.shape}; got {q.shape} and {at.shape}.")
    if not ((q >= 0.0) & (q <= 1.0)).all():
        raise ValueError("missing_proba must lie between 0 and 1.")
    if not np.isfinite(at).all():
        raise ValueError("by must be finite: leave out the rows where it is missing.")
    bins = [rows for rows in np.array_split(np.argsort(at, kind="stable"), n_bins) if len(rows)]
    observed, fitted = (np.array([values[rows].mean() for rows in bins]) for values in (~labelled, q))
    n = np.array([len(rows) for rows in bins])
    spread = np.sqrt([np.sum(q[rows] * (1.0 - q[rows])) for rows in bins]) / n
    z = (observed - fitted) / np.maximum(spread, 1e-12)
    means = np.array([at[rows].mean() for rows in bins])
    return MissingnessCheck(means, n, observed, fitted, z, float(chi2.sf(np.sum(z**2), len(bins))))
