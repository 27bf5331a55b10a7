"""`JointTable`: estimated numbers of rows by true and predicted class."""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.core.arrays import Array
from marmix.evaluation.pseudo_labels import TINY, UncertainPosterior, checked_proba

_DRAWN = 240_000_000  # entries of posteriors computed at most, for at least _FEWEST draws
_FEWEST = 100
ODDS = 3.0  # of losing the label because of the class, in the range for a hidden reason
_SAYS_NOTHING = 0.6  # an interval wider than this share of the range is not reported

Part = Literal["all", "labelled", "unlabelled"]


class Range(NamedTuple):
    """An estimate and its interval; None if there is nothing to divide by, or it is too wide."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class JointTable:
    """Estimated numbers of rows by true and predicted class, with random draws.

    All figures about predictions follow from it. A labelled row counts by its label, an unlabelled one by its
    posterior. In a draw, the posteriors have coefficients from their distribution (see `UncertainPosterior`) and
    every unlabelled row has a class drawn from them: a draw is what the file may look like once every label is known.
    Intervals are quantiles of the draws, widened to contain the estimate where they do not. So every figure lies in
    its range, figures agree with each other, and an interval is one for the rows of this file, not for a population,
    provided that labels are missing only because of the features.

    Attributes
    ----------
    tables : array of shape (1 + n_draws, 2, K, K)
        The central table, then the draws: of labelled rows ``[:, 0]`` and of unlabelled rows ``[:, 1]``, by true class, by
        predicted class.
    tilted : array of shape (2 K, K)
        Expected numbers of wrong unlabelled rows by predicted class, if rows of one class are `ODDS` times as likely to lose
        their label as others that look alike, or `ODDS` times less likely; for each class in turn.
    """

    tables: Array
    tilted: Array

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
        tables, tilted = np.zeros((1 + n_draws, 2, K, K)), np.zeros((2 * K, K))
        if posterior is not None and unlabelled.any():
            r[unlabelled] = posterior.central[unlabelled]
            column = predicted[unlabelled]
            tilted = _tilted(r[unlabelled], column, posterior.totals is not None)
            for table, truth in zip(
                tables[1:, 1], posterior.truths(unlabelled, n_draws, np.random.default_rng(seed)), strict=True
            ):
                table[:] = np.bincount(truth * K + column, minlength=K * K).reshape(K, K)
        for i, part in enumerate((labelled, unlabelled)):
            for k in range(K):
                tables[0, i, k] = np.bincount(predicted[part], weights=r[part, k], minlength=K)
        tables[:, 0] = tables[0, 0]
        return cls(tables, tilted)

    def scaled(self, given: Array, imputed: NDArray[Any]) -> "JointTable":
        """The table of more rows, of which these are a sample: labels of each class, and imputed labels of each class (K,)."""
        tables, column = self.tables.copy(), self.tables[0, 1].sum(axis=0)
        lacking = (column == 0.0) & (imputed > 0)  # a class that no row of the sample is imputed as
        tables[:, 1][..., lacking] = tables[:, 1].sum(axis=2, keepdims=True) / max(column.sum(), 1.0)
        factor = imputed / np.where(lacking, 1.0, np.maximum(column, 1.0))
        tables[:, 1] *= factor
        tables[:, 0] *= (given / np.maximum(tables[0, 0].sum(axis=1), 1.0))[:, None]
        return replace(self, tables=tables, tilted=self.tilted * factor)

    def accuracy(self, rows: Part = "all", level: float = 0.95) -> Range:
        """Share of the rows whose predicted class is right."""
        tables = {"all": self.tables.sum(axis=1), "labelled": self.tables[:, 0], "unlabelled": self.tables[:, 1]}[rows]
        return _range(np.trace(tables, axis1=1, axis2=2), tables.sum(axis=(1, 2)), level)

    def wrong(self, level: float = 0.95) -> Range:
        """Number of unlabelled rows whose predicted class is wrong."""
        n, (value, low, high) = self.tables[0, 1].sum(), self.accuracy("unlabelled", level)
        return Range(*(None if share is None else float(n * (1.0 - share)) for share in (value, high, low)))

    def hidden(self, level: float = 0.95) -> Range:
        """The same, also if the odds that a row loses its label are up to `ODDS` times as high, or as low, in a class.

        Among unlabelled rows the odds of this class are then multiplied by theta, ``P(y = k | x, missing) proportional to
        theta^{1{y = k}} p_k`` with theta from 1 / `ODDS` to `ODDS` (pattern-mixture). The ends of the interval move, as odds of
        being wrong, by as much as the estimate does at the worst class and theta.
        """
        n, (value, low, high) = self.tables[0, 1].sum(), self.wrong(level)
        if value is None or low is None or high is None:
            return Range(None, None, None)
        wrong = np.append(self.tilted.sum(axis=1), value)
        odds = np.maximum(wrong, TINY) / np.maximum(n - wrong, TINY)
        odds /= odds[-1]
        low, high = (
            n * end * theta / (n - end + end * theta) for end, theta in ((low, odds.min()), (high, odds.max()))
        )
        return Range(value, float(low), float(high))

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

    def _right_of(self, totals: Array, level: float) -> list[Range]:
        """By class, rightly predicted unlabelled rows as a share of `totals` (1 + n_draws, K)."""
        right = np.diagonal(self.tables[:, 1], axis1=1, axis2=2)
        return [_range(*columns, level) for columns in zip(right.T, totals.T, strict=True)]


def _tilted(tau: Array, predicted: NDArray[np.intp], known: bool) -> Array:
    """Expected numbers (2 K, K) of wrong rows by predicted class with each class tilted; known class shares undo a tilt."""
    K = tau.shape[1]
    right = tau[np.arange(len(tau)), predicted]
    wrong = []
    for k in range(K):
        for theta in (1.0, 1.0) if known else (ODDS, 1.0 / ODDS):
            chance = right * np.where(predicted == k, theta, 1.0) / (1.0 + (theta - 1.0) * tau[:, k])
            wrong.append(np.bincount(predicted, weights=1.0 - chance, minlength=K))
    return np.array(wrong)


def _range(part: Array, total: Array, level: float) -> Range:
    """The first share, and quantiles of the others; draws with nothing to divide by do not count."""
    defined = total > 0.0
    if not defined[0] or np.mean(defined) < level:
        return Range(None, None, None)
    value, *draws = np.clip(part[defined] / total[defined], 0.0, 1.0)
    low = high = value
    if draws:
        ends = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        low, high = np.clip(value + ends - np.mean(draws), 0.0, 1.0)
    if high - low > _SAYS_NOTHING:
        return Range(None, None, None)
    return Range(float(value), float(min(low, value)), float(max(high, value)))
