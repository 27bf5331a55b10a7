"""What a model says of rows: labels, how sure they are, and how probable it is that such a label is missing."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from marmix.arrays import Array
from marmix.displays.fits import missing_proba
from marmix.displays.threshold import THRESHOLDS, at_or_above
from marmix.streams import release

BLOCK = 65_536  # rows that are predicted together


class Answers(NamedTuple):
    """Of every row: the most probable class, its probability, the uncertainty, P(label missing).

    The uncertainty is the entropy of the class probabilities as a share of the largest possible, ``H(tau) / log K``: 0 where the
    class is certain, 1 where all are equally probable.
    """

    code: NDArray[np.int32]
    probability: Array
    uncertainty: Array
    missing: Array

    @classmethod
    def none(cls, n: int) -> "Answers":
        """Places for the answers to n rows, NaN so far."""
        return cls(np.zeros(n, np.int32), np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan))

    def put(self, rows: Any, own: "Answers") -> None:
        """Put the answers for some rows in their places."""
        self.code[rows], self.probability[rows] = own.code, own.probability
        self.uncertainty[rows], self.missing[rows] = own.uncertainty, own.missing


def uncertainty_of(proba: Array) -> Array:
    """Entropy of each row as a share of the largest possible, 0 to 1."""
    return np.asarray(entr(proba).sum(axis=1) / np.log(proba.shape[1]))


def answers(proba: Array, missing: Array) -> Answers:
    """From class probabilities (n, K) and probabilities of a missing label (n,)."""
    code = proba.argmax(axis=1).astype(np.int32)
    return Answers(code, proba[np.arange(len(proba)), code], uncertainty_of(proba), missing)


def missing_proba_of(classifier: Any, X: Array) -> Array:
    """P(label missing) of rows; NaN where the classifier knows nothing of it."""
    q = missing_proba(classifier, X)
    return np.full(len(X), np.nan) if q is None else q


class Above(NamedTuple):
    """For every class (K) and threshold (101): how many rows have at least that probability of it."""

    unlabelled: NDArray[np.int64]
    all: NDArray[np.int64]


def all_answers(classifier: Any, X: Any, z: NDArray[np.integer[Any]]) -> tuple[Answers, Above]:
    """The answers for all rows, block by block, and how their probabilities are spread."""
    n, K = len(X), len(classifier.classes_)
    out = Answers.none(n)
    above = Above(*(np.zeros((K, len(THRESHOLDS)), np.int64) for _ in range(2)))
    for start in range(0, n, BLOCK):
        part = slice(start, start + BLOCK)
        block = np.asarray(X[part], dtype=float)
        proba = classifier.predict_proba(block)
        out.put(part, answers(proba, missing_proba_of(classifier, block)))
        for count, rows in ((above.unlabelled, z[part] < 0), (above.all, slice(None))):
            for k in range(K):
                own = proba[rows, k]
                count[k] += at_or_above(own, np.ones(len(own))).astype(np.int64)
        release(X)
    return out, above
