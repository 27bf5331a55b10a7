"""Axes of a fit: linear ones, the user's own, and features of a kernel; and the covariates of the mechanism."""

from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import AnyArray, Array, like, namespace, on_host

# Directions of the landmarks' kernel whose eigenvalue is below this share of the largest are dropped: rounding.
_SMALLEST = 1e-10


class Frame:
    """The axes of the fit: centred and, as far as the covariance structure allows, whitened.

    Quadratic features are formed in these axes only, so that units and correlations of the features cost no digits.

    Parameters
    ----------
    centre : array of shape (d,)
    whitener : array of shape (d, d), or (d,)
        A regular matrix; a diagonal one is stored as its diagonal, `factors`, which is None for others.
    """

    def __init__(self, centre: Array, whitener: Array):
        self.centre, self.size = centre, len(centre)
        factors = whitener if whitener.ndim == 1 else np.diag(whitener).copy()
        diagonal = np.count_nonzero(whitener) == np.count_nonzero(factors) == len(factors)
        self.factors: Array | None = factors if diagonal else None
        if self.factors is not None:
            self.log_det = float(np.log(np.abs(factors)).sum())
        else:
            self._matrices = whitener, np.asarray(np.linalg.inv(whitener), dtype=float)
            self.log_det = float(np.linalg.slogdet(whitener)[1])

    @property
    def whitener(self) -> Array:
        """The matrix (d, d) from the user's axes to those of the fit."""
        return self._matrices[0] if self.factors is None else np.diag(self.factors)

    @property
    def unwhitener(self) -> Array:
        """The inverse of the whitener."""
        return self._matrices[1] if self.factors is None else np.diag(1.0 / self.factors)

    def enter(self, X: AnyArray) -> Array:
        """Rows (n, d) in the user's axes as columns (d, n) in the axes of the fit."""
        if on_host(X):
            if self.factors is not None:
                return np.ascontiguousarray(((X - self.centre) * self.factors).T)
            return np.asarray(self._matrices[0] @ (X - self.centre).T)
        x = X - like(self.centre, X)
        return like(self.whitener, X) @ x.T if self.factors is None else (x * like(self.factors, X)).T


class UserAxes(Frame):
    """The user's own axes, for score models that take columns as they are: values may be missing.

    `centre` is the mean of the rows.
    """

    log_det = 0.0

    def __init__(self, centre: Array):
        self.centre, self.size = centre, len(centre)

    def enter(self, X: AnyArray) -> Array:
        """Rows (n, d) as columns (d, n)."""
        return np.ascontiguousarray(X.T, dtype=float) if on_host(X) else X.T


class Covariates(NamedTuple):
    """Columns of X that enter the mechanism in addition to the uncertainty (often none), and their axes."""

    columns: list[int]
    frame: Frame

    @classmethod
    def standardised(cls, columns: list[int], mean: Array, variance: Array) -> "Covariates":
        """Columns scaled to mean 0 and variance 1, given mean and variance of all features."""
        sd = np.sqrt(variance[columns])
        return cls(columns, Frame(mean[columns], 1.0 / np.where(sd > 0.0, sd, 1.0)))

    def enter(self, X: Any) -> Any:
        """Covariates (L, n) of rows (n, d) in the user's axes; None if there are none."""
        if not self.columns:
            return None
        if on_host(X):
            return self.frame.enter(X[:, self.columns])
        xp = namespace(X)
        return self.frame.enter(xp.take(X, xp.asarray(np.array(self.columns), device=X.device), axis=1))

    def alpha_to_user(self, alpha: Any) -> Array:
        """alpha for the user's columns from alpha for the covariates."""
        alpha = np.array(alpha, dtype=float)
        alpha[2:] = alpha[2:] @ self.frame.whitener
        alpha[0] -= alpha[2:] @ self.frame.centre
        return alpha

    def alpha_from_user(self, alpha: Any) -> Array:
        """alpha for the covariates from alpha for the user's columns."""
        alpha = np.array(alpha, dtype=float)
        alpha[0] += alpha[2:] @ self.frame.centre
        alpha[2:] = alpha[2:] @ self.frame.unwhitener
        return alpha


NO_COVARIATES = Covariates([], Frame(np.empty(0), np.empty(0)))


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
