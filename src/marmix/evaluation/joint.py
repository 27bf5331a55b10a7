"""`JointTable`: estimated numbers of rows by true and predicted class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from marmix.core.arrays import Array
from marmix.evaluation.pseudo_labels import UncertainPosterior, checked_proba

THRESHOLDS = np.arange(101) / 100.0  # a row of probability 0.35 reaches 0.35, unlike with linspace
_DRAWN = 240_000_000  # entries of posteriors computed at most, for at least _FEWEST draws
_FEWEST = 100
_SAYS_NOTHING = 0.6  # an interval wider than this share of the range is not reported

Part = Literal["all", "labelled", "unlabelled"]


class Range(NamedTuple):
    """An estimate and its interval; None if there is nothing to divide by, or it is too wide."""

    value: float | None
    low: float | None
    high: float | None


class Above(NamedTuple):
    """Numbers of rows at or above every one of `THRESHOLDS` that are of a class, and that are not."""

    right: Array
    wrong: Array

    @classmethod
    def of(cls, p: Array, right: Array, wrong: Array) -> "Above":
        """From probabilities of the class, and how often each row counts as the class and as the rest."""
        return cls(at_or_above(p, right), at_or_above(p, wrong))

    @property
    def precision(self) -> Array:
        """Share of the rows at or above that are of the class; NaN if there is no row."""
        return _share(self.right, self.right + self.wrong)

    @property
    def recall(self) -> Array:
        """Share of the rows of the class that are at or above; NaN if there is no such row."""
        return _share(self.right, self.right[:1])

    @property
    def accuracy(self) -> Array:
        """Share of all rows that are of the class and at or above, or neither; NaN if there is no row."""
        return _share(self.right + self.wrong[:1] - self.wrong, self.right[:1] + self.wrong[:1])


@dataclass(frozen=True)
class JointTable:
    """Estimated numbers of rows by true and predicted class, with random draws.

    All figures about predictions follow from it. A labelled row counts by its label, an unlabelled one by its
    posterior. In a draw, the posteriors have coefficients from their distribution (see `UncertainPosterior`) and
    every unlabelled row has a class drawn from them: a draw is what the file may look like once every label is known.
    Intervals are quantiles of the draws, widened to contain the estimate where they do not. So every figure lies in
    its range, figures agree with each other, and an interval is one for the rows of this file, not for a population.

    Attributes
    ----------
    tables : array of shape (1 + n_draws, 2, K, K)
        The central table, then the draws: of labelled rows ``[:, 0]`` and of unlabelled rows ``[:, 1]``, by true class, by
        predicted class.
    above : list of K pairs of `Above`
        For each class, labelled and unlabelled rows by threshold, of the central table.
    """

    tables: Array
    above: Sequence[tuple[Above, Above]]

    @classmethod
    def of(
        cls, shares: Array, proba: Array, posterior: UncertainPosterior | None, *, n_draws: int = 400, seed: int = 0
    ) -> "JointTable":
        """Estimate the table.

        Parameters
        ----------
        shares : array of shape (n, K)
            One at the label of a row, or the shares of its votes; zero where missing.
        proba : array of shape (n, K)
            Probabilities of the classifier; the predicted class is the most probable one.
        posterior : UncertainPosterior or None
            Posteriors of the same rows; None if every row has a label.
        n_draws : int
            Number of draws; fewer, but at least 100, for large data.
        seed : int
        """
        proba, (n, K) = checked_proba(proba, shares.shape), shares.shape
        labelled = np.asarray(shares.any(axis=1))
        unlabelled = ~labelled
        if posterior is None and unlabelled.any():
            raise ValueError("posterior is None, but rows have no label: pass posteriors for them.")
        predicted = proba.argmax(axis=1)
        n_draws = min(n_draws, max(_FEWEST, _DRAWN // max(1, n * K)))
        r = np.array(shares, dtype=float)
        tables = np.zeros((1 + n_draws, 2, K, K))
        if posterior is not None and unlabelled.any():
            r[unlabelled] = posterior.central[unlabelled]
            column = predicted[unlabelled]
            for table, truth in zip(
                tables[1:, 1], posterior.truths(unlabelled, n_draws, np.random.default_rng(seed)), strict=True
            ):
                table[:] = np.bincount(truth * K + column, minlength=K * K).reshape(K, K)
        for i, part in enumerate((labelled, unlabelled)):
            for k in range(K):
                tables[0, i, k] = np.bincount(predicted[part], weights=r[part, k], minlength=K)
        tables[:, 0] = tables[0, 0]
        total = r.sum(axis=1)
        above = [
            tuple(Above.of(proba[part, k], r[part, k], total[part] - r[part, k]) for part in (labelled, unlabelled))
            for k in range(K)
        ]
        return cls(tables, above)  # type: ignore[arg-type]

    def accuracy(self, rows: Part = "all", level: float = 0.95) -> Range:
        """Share of the rows whose predicted class is right."""
        tables = {"all": self.tables.sum(axis=1), "labelled": self.tables[:, 0], "unlabelled": self.tables[:, 1]}[rows]
        return _range(np.trace(tables, axis1=1, axis2=2), tables.sum(axis=(1, 2)), level)

    def wrong(self, level: float = 0.95) -> Range:
        """Number of unlabelled rows whose predicted class is wrong."""
        n, (value, low, high) = self.tables[0, 1].sum(), self.accuracy("unlabelled", level)
        return Range(*(None if share is None else float(n * (1.0 - share)) for share in (value, high, low)))

    def precision(self, level: float = 0.95) -> list[Range]:
        """By class, the share of the unlabelled rows predicted as this class that belong to it."""
        return self._right_of(self.tables[:, 1].sum(axis=1), level)

    def recall(self, level: float = 0.95) -> list[Range]:
        """By class, the share of the unlabelled rows of this class that are predicted as it."""
        return self._right_of(self.tables[:, 1].sum(axis=2), level)

    def shares(self, level: float = 0.95) -> list[Range]:
        """The share of each class among all rows."""
        totals = self.tables.sum(axis=(1, 3))
        return [_range(column, totals.sum(axis=1), level) for column in totals.T]

    def confusion(self) -> Array:
        """Expected numbers of unlabelled rows by true class, by predicted class."""
        return self.tables[0, 1]

    def thresholds(self, k: int, rows: Part = "all") -> Above:
        """Expected numbers of rows of class k, and of others, at or above each threshold of P(k)."""
        labelled, unlabelled = self.above[k]
        if rows == "all":
            return Above(labelled.right + unlabelled.right, labelled.wrong + unlabelled.wrong)
        return labelled if rows == "labelled" else unlabelled

    def _right_of(self, totals: Array, level: float) -> list[Range]:
        """By class, rightly predicted unlabelled rows as a share of `totals` (1 + n_draws, K)."""
        right = np.diagonal(self.tables[:, 1], axis1=1, axis2=2)
        return [_range(*columns, level) for columns in zip(right.T, totals.T, strict=True)]


def at_or_above(p: Array, weight: Array) -> Array:
    """Total weight of the rows at or above every one of `THRESHOLDS`."""
    place = np.searchsorted(THRESHOLDS, p, side="right") - 1  # the highest threshold that the row reaches
    weights: Array = np.bincount(place, weights=weight, minlength=len(THRESHOLDS)).astype(float)
    return np.cumsum(weights[::-1])[::-1]


def _range(part: Array, total: Array, level: float) -> Range:
    """The first share, and quantiles of the others; draws with nothing to divide by do not count."""
    defined = total > 0.0
    if not defined[0] or np.mean(defined) < level:
        return Range(None, None, None)
    shares = np.clip(part[defined] / total[defined], 0.0, 1.0)
    value, draws = shares[0], shares[1:]
    low, high = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level]) if len(draws) else (value, value)
    if high - low > _SAYS_NOTHING:
        return Range(None, None, None)
    return Range(float(value), float(min(low, value)), float(max(high, value)))


def _share(part: Array, total: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0.0, np.clip(part / total, 0.0, 1.0), np.nan)
