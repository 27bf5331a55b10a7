"""`KernelFrame`: axes of a fit that are features of a Gaussian kernel, computed from landmarks (Nystroem's method)."""

from typing import Any

import numpy as np

from marmix.arrays import Array, like, namespace, on_host
from marmix.rows.engine import Frame

# Directions of the landmarks' kernel whose eigenvalue is below this share of the largest are dropped: rounding.
_SMALLEST = 1e-10


class KernelFrame(Frame):
    """The axes of a kernel fit: a row enters as features whose inner products approximate ``exp(-gamma |x - x'|^2)``.

    Distances are between standardised rows, ``(x - centre) / scale``. With the kernel matrix M of the landmarks and the kernel
    k(x) between a row and the landmarks, the features are ``root k(x)`` with ``root' root`` the inverse of M. Axes that are not
    linear have no whitener.

    Parameters
    ----------
    centre, scale : arrays of shape (d,)
    landmarks : array of shape (m, d)
        In the user's axes.
    gamma : float
    root : array of shape (size, m) or None
        Computed from the landmarks if None.
    """

    log_det = 0.0  # a conditional likelihood has no density of the features

    def __init__(self, centre: Array, scale: Array, landmarks: Array, gamma: float, root: Array | None = None):
        self.centre, self.scale, self.landmarks, self.gamma = centre, scale, landmarks, gamma
        self._standardised = (landmarks - centre) / scale
        self.root = inverse_root(kernel(self._standardised, self._standardised, gamma)) if root is None else root
        self.size = len(self.root)

    def enter(self, X: Any) -> Any:
        """Rows (n, d) in the user's axes as columns (size, n) in the axes of the fit."""
        X = np.asarray(X, dtype=float) if on_host(X) else X
        x = (X - like(self.centre, X)) / like(self.scale, X)
        return like(self.root, X) @ kernel(like(self._standardised, X), x, self.gamma)


def kernel(a: Any, b: Any, gamma: float) -> Any:
    """Gaussian kernel (m, n) between rows a (m, d) and b (n, d)."""
    squares = squared_distances(a, b)
    if on_host(squares):
        squares *= -gamma
        return np.exp(squares, out=squares)
    return namespace(squares).exp(-gamma * squares)


def squared_distances(a: Any, b: Any) -> Any:
    """Squared distances (m, n) between rows a (m, d) and b (n, d), not below zero."""
    xp = namespace(b)
    squares = -2.0 * (a @ b.T)
    squares += xp.sum(a * a, axis=1)[:, None]
    squares += xp.sum(b * b, axis=1)[None, :]
    if on_host(squares):
        return np.maximum(squares, 0.0, out=squares)
    return xp.where(squares > 0.0, squares, xp.zeros_like(squares))


def inverse_root(matrix: Array) -> Array:
    """R (size, m) with ``R' R`` the inverse of a positive semi-definite matrix, without its null space."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _SMALLEST * values[-1]
    return np.ascontiguousarray((vectors[:, kept] / np.sqrt(values[kept])).T[::-1])
