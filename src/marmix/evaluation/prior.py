"""Known class shares: offsets of the class scores under which predicted shares agree with them.

    p'_jk  proportional to  p_jk exp(b_k),    sum_j w_j (1{y_j = k} or, without a label, p'_jk)  =  prior_k sum_j w_j

For a logistic regression this is the correction of the intercepts in case-control studies, for a mixture a change of its weights.
A class whose share is not known has the offset of the other such classes, so that their odds in each row stay as they are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from marmix.core.arrays import Array
from marmix.core.labels import label_shares

TINY = 1e-300  # smallest probability whose logarithm is taken


def prior_of(prior: Mapping[Any, float] | ArrayLike | None, classes: NDArray[Any]) -> Array | None:
    """The known shares of the classes as an array, NaN where not known; None if none is known."""
    if prior is None:
        return None
    names = classes.tolist()
    if isinstance(prior, Mapping):
        unknown = [name for name in prior if name not in names]
        if unknown:
            listing = ", ".join(map(repr, names))
            raise ValueError(f"a share is given for {unknown[0]!r}, which is not a class: the classes are {listing}.")
        shares = np.array([prior.get(name, np.nan) for name in names], dtype=float)
    else:
        shares = np.asarray(prior, dtype=float)
        if shares.shape != (len(names),):
            raise ValueError(
                f"prior has shape {shares.shape}: it must have a share for each of the {len(names)} classes."
            )
    known = shares[~np.isnan(shares)]
    wrong = known[(known <= 0.0) | (known >= 1.0)]
    if len(wrong):
        raise ValueError(f"a class has the share {wrong[0]:g}: shares must lie between 0 and 1.")
    total, every = float(known.sum()), len(known) == len(names)
    if abs(total - 1.0) > 1e-6 if every else total >= 1.0:
        raise ValueError(
            f"the given class shares sum to {total:g}: those of all classes must sum to 1, of some to less."
        )
    if not len(known):
        return None
    return shares / total if every else shares


def unlabelled_counts(prior: Array, labels: NDArray[Any], classes: NDArray[Any], counts: Array | None = None) -> Array:
    """The number of unlabelled rows of each class with which all rows have the known shares.

    NaN for a class whose share is not known. `labels` are codes, -1 where missing, or shares of votes.
    """
    indicator = label_shares(labels, np.arange(len(classes)))
    counts = np.ones(len(indicator)) if counts is None else counts
    given, total, unlabelled = counts @ indicator, float(counts.sum()), counts[~indicator.any(axis=1)].sum()
    if not unlabelled:
        raise ValueError("no label is missing, so the class shares follow from the labels: do not give any.")
    expected = prior * total - given
    for name, share, labelled, rest in zip(classes.tolist(), prior, given, expected, strict=True):
        if rest <= 0.0:
            raise ValueError(
                f"{labelled / total:.2%} of the rows have the label {name!r}, so its share cannot be {share:.2%}: it is a share "
                "of all rows, labelled or not."
            )
    if np.isnan(prior).any() and np.nansum(expected) >= unlabelled:
        raise ValueError("the given class shares leave fewer rows for the other classes than have their labels.")
    return np.asarray(expected)


def class_offsets(
    proba: Array,
    expected: Array,
    counts: Array | None = None,
    start: Array | None = None,
    tolerance: float = 1e-12,
) -> Array:
    """The offsets b (K,), of mean zero, with which probabilities (n, K) sum to expected numbers.

    Newton's method for the minimum of the convex ``sum_j w_j logsumexp(log p_j + b) - b . expected``, until the shares of the
    classes are right to within the tolerance.
    """
    proba, counts = np.asarray(proba, dtype=float), np.ones(len(proba)) if counts is None else counts
    log_p, known = np.log(np.maximum(proba, TINY)), ~np.isnan(expected)
    target, n = np.where(known, expected, 0.0), counts.sum()
    free = np.flatnonzero(known)[int(known.all()) :]  # if all are known, the first follows from the others

    def value(b: Array) -> float:
        return float(counts @ np.logaddexp.reduce(log_p + b, axis=1) - b @ target)

    b = np.zeros(proba.shape[1]) if start is None else start
    for _ in range(100):
        tau = tilted(proba, b)
        gradient = (counts @ tau - target)[free]
        if np.abs(gradient).max() < tolerance * n:
            break
        hessian = (np.diag(counts @ tau) - (tau.T * counts) @ tau)[np.ix_(free, free)]
        step, before = np.zeros(len(b)), value(b)
        step[free] = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        step *= min(1.0, 5.0 / np.abs(step).max())
        while value(b + step) > before and np.abs(step).max() > 1e-12:
            step *= 0.5
        b = b + step
    return np.asarray(b - b.mean())


def tilted(proba: Array, offset: Array | None) -> Array:
    """Probabilities (n, K) with these offsets of the class scores: ``p_k e^{b_k}``, renormalised."""
    if offset is None:
        return proba
    return np.asarray(softmax(np.log(np.maximum(proba, TINY)) + offset, axis=1))
