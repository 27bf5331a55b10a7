"""Weights, means and scatter matrices of the rows of each class."""

from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import Array, quiet


class GroupMoments(NamedTuple):
    """Moments of each class, and last of the unlabelled rows; those of disjoint sets of rows can be added."""

    weight: Array  # (G,)
    mean: Array  # (G, d), zero for an empty group
    scatter: Array  # (G, d, d): sums of squares and products about the mean; or (G, d), of squares only

    def __add__(self, other: "GroupMoments") -> "GroupMoments":  # type: ignore[override]
        """Moments of both sets of rows, by the formula of Chan, Golub and LeVeque."""
        weight = self.weight + other.weight
        with quiet():
            share = np.divide(other.weight, weight, out=np.zeros_like(weight), where=weight > 0.0)
            gap = other.mean - self.mean
            mean = self.mean + share[:, None] * gap
            between = (share * self.weight)[:, None] * gap
            between = between * gap if self.scatter.ndim == 2 else between[:, :, None] * gap[:, None, :]
            return GroupMoments(weight, mean, self.scatter + other.scatter + between)

    @property
    def labelled(self) -> "GroupMoments":
        """Moments of the classes, without the unlabelled rows."""
        return GroupMoments(*(part[:-1] for part in self))

    @property
    def squares(self) -> "GroupMoments":
        """The same moments without products of different features."""
        if self.scatter.ndim == 2:
            return self
        return self._replace(scatter=np.einsum("gii->gi", self.scatter).copy())

    def same(self, other: "GroupMoments") -> bool:
        """Whether both are equal up to rounding, as for the same rows in any order."""
        if self.mean.shape != other.mean.shape:
            return False
        if self.scatter.ndim != other.scatter.ndim:
            return self.squares.same(other.squares)
        only_squares = self.scatter.ndim == 2
        size = np.sqrt(self.scatter if only_squares else np.einsum("gii->gi", self.scatter))  # of each column
        weight = np.abs(self.weight - other.weight) <= 1e-9 * self.weight
        largest = np.sqrt(self.weight)[:, None] * np.abs(self.mean) + size
        mean = np.sqrt(self.weight)[:, None] * np.abs(self.mean - other.mean) <= 1e-9 * largest
        scale = largest**2 if only_squares else largest[:, :, None] * largest[:, None, :]
        scatter = np.abs(self.scatter - other.scatter) <= 1e-9 * scale
        return bool(weight.all() and mean.all() and scatter.all())

    @property
    def variance(self) -> Array:
        """Variances (d,) of the features in all rows."""
        return self.squares.overall()[1]

    def overall(self) -> tuple[Array, Array]:
        """Mean and covariance (or variances) of all rows."""
        pooled = merged(GroupMoments(*(part[k : k + 1] for part in self)) for k in range(len(self.weight)))
        return pooled.mean[0], pooled.scatter[0] / pooled.weight[0]


def group_moments(X: Any, z: Any, weight: Any, classes: int, only_squares: bool = False) -> GroupMoments:
    """Moments of rows (n, d) in memory; `z` is -1 where the label is missing."""
    X = np.asarray(X, dtype=float)
    d = X.shape[1]
    scatter = np.zeros((classes + 1, d) if only_squares else (classes + 1, d, d))
    out = GroupMoments(np.zeros(classes + 1), np.zeros((classes + 1, d)), scatter)
    for k in range(classes + 1):
        rows = np.flatnonzero(z == (k if k < classes else -1))
        if not len(rows):
            continue
        x = X[rows]
        w = None if weight is None else np.asarray(weight[rows], dtype=float)
        out.weight[k] = len(rows) if w is None else w.sum()
        if out.weight[k] <= 0.0:
            continue
        out.mean[k] = x.mean(axis=0) if w is None else w @ x / out.weight[k]
        x -= out.mean[k]
        if only_squares:
            out.scatter[k] = (x * x).sum(axis=0) if w is None else w @ (x * x)
        else:
            out.scatter[k] = x.T @ x if w is None else (x.T * w) @ x
    return out


def merged(parts: Iterable[GroupMoments]) -> GroupMoments:
    """Sum of moments, added in order."""
    return reduce(GroupMoments.__add__, parts)
