"""Logistic regression as a score model: ``s_jk = b_k + w_k . phi(x_j)``.

The likelihood is *conditional* on the features: a labelled row contributes ``s_jz - logsumexp(s_j)``, an unlabelled one only its
missingness. Two classes have one coefficient vector (``s_j1 = 0``), more have one each, and the penalty ``|w|^2 / (2 C)`` is on
the coefficients of the user's features, without intercepts; both as in scikit-learn.
"""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from marmix.core.arrays import AnyArray, Array, Bools, along_rows, like, namespace, quiet
from marmix.core.covariance import Derivatives, Moments, expanded, fill_products
from marmix.core.measures import posterior

# Number of features from which Cholesky replaces eigenvectors, at a tenth of the cost.
_MANY = 500


class LinearScores:
    """Logistic regression as a score model; parameters are coefficients (V, p) of phi, with V = 1 for two classes.

    Parameters
    ----------
    d : int
        Number of features.
    n_classes : int
    degree : {1, 2}
        2 adds squares and products.
    C : float
        Inverse strength of the penalty; infinity for none.
    centre, scale : arrays of shape (d,)
        The axes of the fit are ``(x - centre) / scale``.
    """

    joint = False

    def __init__(self, d: int, n_classes: int, degree: int, C: float, centre: Array, scale: Array):
        self.d, self.n_classes, self.degree, self.C = d, n_classes, degree, C
        self.centre, self.scale = centre, scale
        self.vectors = 1 if n_classes == 2 else n_classes
        self.owner: AnyArray = np.arange(n_classes)[-self.vectors :]
        self._rows, self._cols = np.triu_indices(d if degree == 2 else 0)
        if degree == 2:  # otherwise the maps are simple, and as matrices too large if there are many features
            self._from_user = self._features_of_user(centre, scale)
            self._to_user = self._features_of_user(-centre / scale, 1.0 / scale)  # the inverse
            penalised = self._to_user[:, 1:]
            with np.errstate(over="ignore", invalid="ignore"):  # see `largest_penalty`
                self._penalty_matrix = penalised @ penalised.T / C

    @property
    def words(self) -> str:
        terms = "linear" if self.degree == 1 else "with squares and products"
        return f"logistic regression, {terms}, {'no penalty' if np.isinf(self.C) else f'C = {self.C:g}'}"

    def user_values(self, theta: Array, frame: Any) -> dict[str, Any]:
        """Intercepts and coefficients of the user's features."""
        coefficients = self.to_user(theta)
        return {"intercept": coefficients[:, 0], "coef": coefficients[:, 1:]}

    def terms(self, features: list[str]) -> list[str]:
        """Names of the coefficients: features, then squares and products."""
        if self.degree == 1:
            return features
        return features + [
            f"{a}^2" if i == j else f"{a} {features[j]}"
            for i, a in enumerate(features)
            for j in range(i, len(features))
        ]

    def n_features(self) -> int:
        return 1 + self.d + (len(self._rows) if self.degree == 2 else 0)

    def values_per_row(self) -> int:
        return self.n_features()

    def fill(self, phi: Array) -> None:
        if self.degree == 2:
            fill_products(phi, self.d)

    def features(self, x: Array) -> Array:
        """phi (p, n) of columns x (d, n) in the axes of the fit."""
        return expanded(x, self.n_features(), self.fill)

    def _features_of_user(self, centre: Array, scale: Array) -> Array:
        """R with ``phi(centre + scale x) = R phi(x)``, for degree 2."""
        p, d = self.n_features(), self.d
        R = np.zeros((p, p))
        R[0, 0] = 1.0
        R[1 : 1 + d, 0] = centre
        R[1 : 1 + d, 1 : 1 + d] = np.diag(scale)
        for row, (i, j) in enumerate(zip(self._rows, self._cols, strict=True), start=1 + d):
            R[row, 0] = centre[i] * centre[j]
            R[row, 1 + i] += centre[j] * scale[i]
            R[row, 1 + j] += centre[i] * scale[j]
            R[row, row] = scale[i] * scale[j]
        return R

    def to_user(self, theta: Array) -> Array:
        """Coefficients (V, p) of the user's features, the intercept first."""
        if self.degree == 2:
            return theta @ self._to_user
        slopes = theta[:, 1:] / self.scale
        return np.column_stack([theta[:, 0] - slopes @ self.centre, slopes])

    def from_user(self, coefficients: Array) -> Array:
        """Coefficients in the axes of the fit from those of the user's features."""
        if self.degree == 2:
            return coefficients @ self._from_user
        slopes = coefficients[:, 1:]
        return np.column_stack([coefficients[:, 0] + slopes @ self.centre, slopes * self.scale])

    def prepare(self, theta: Array) -> Array:
        return theta

    def block_scores(self, prepared: Array, phi: Array) -> tuple[Array, None]:
        scores, xp = prepared @ phi, namespace(phi)
        return (xp.concat([xp.zeros_like(scores), scores]) if self.vectors == 1 else scores), None

    def block_moments(self, g: Array, share: None, phi: Array) -> Array:
        return along_rows(g[-self.vectors :, :], phi)

    def gathered(self, moments: Array) -> Moments:
        return Moments(moments)

    def second_moment(self, x: Array, weight: Array | None) -> None:
        return None

    def shared_term(self, theta: Array, second: Array) -> float:
        return 0.0

    def scores(self, theta: Array, x: Array) -> Array:
        phi = self.features(x)
        return self.block_scores(like(theta, phi), phi)[0]

    def derivatives(self, theta: Array, x: Array) -> Derivatives:
        phi = self.features(x)
        return Derivatives(*self.block_scores(theta, phi), phi)

    def pooled(self, by_component: Array) -> Moments:
        return Moments(by_component)

    def penalty(self, theta: Array) -> float:
        """``|w|^2 / (2 C)`` of the user's coefficients."""
        slopes = theta[:, 1:] / self.scale if self.degree == 1 else self.to_user(theta)[:, 1:]
        return float(0.5 / self.C * np.sum(slopes**2))

    def penalty_slope(self, theta: Array) -> Array:
        """Derivative of the penalty, (V, p)."""
        if self.degree == 2:
            return theta @ self.penalty_matrix
        slope = np.zeros_like(theta)
        slope[:, 1:] = theta[:, 1:] / (self.C * self.scale**2)
        return slope

    def hessian(self, theta: Array, phi: Array, weight: Array | None) -> Array:
        """Minus the second derivative of the labelled rows' log-likelihood: ``sum_j (diag(tau) - tau tau') x phi phi'``."""
        xp = namespace(phi)
        tau = posterior(self.block_scores(theta, phi)[0]).tau[-self.vectors :, :]
        w = 1.0 if weight is None else weight

        def block(k: int, m: int) -> Array:
            return along_rows(phi * (w * tau[k, :] * (float(k == m) - tau[m, :])), phi)

        return xp.concat([xp.concat([block(k, m) for m in range(self.vectors)], axis=1) for k in range(self.vectors)])

    @property
    def penalty_matrix(self) -> Array:
        """P with ``penalty = sum of w P w' / 2`` over the coefficient vectors w (p,) in the axes of the fit."""
        return self._penalty_matrix if self.degree == 2 else np.diag([0.0, *(1.0 / (self.C * self.scale**2))])

    @property
    def largest_penalty(self) -> float:
        """The largest diagonal entry of `penalty_matrix`; not finite if features are too small to compute with."""
        with quiet():
            entries = self._penalty_matrix.diagonal() if self.degree == 2 else 1.0 / (self.C * self.scale**2)
        return float(entries.max())

    def calibrate(self, products: Array, total: float) -> None:
        """Scale the coordinates by the information of rows with total weight `total` and mean `products` of ``phi phi'``."""
        self.information = 0.25 * products + self.penalty_matrix / total

    @property
    def information(self) -> Array:
        """Information of a row about one vector, which scales the coordinates: (p, p), or its diagonal (p,) for wide data."""
        return self._information

    @information.setter
    def information(self, information: Array) -> None:
        self._information, self._root = information, _inverse_root(information)

    def chart(self, theta: Array) -> "LinearChart":
        """Free coordinates around these parameters; `calibrate` must be called first."""
        return LinearChart(self, theta, self._root)


class KernelScores(LinearScores):
    """Logistic regression on the features of a `KernelFrame`; the penalty is the squared norm of the functions in its space.

    Parameters
    ----------
    size : int
        Number of features.
    n_classes : int
    C : float
        Inverse strength of the penalty; infinity for none.
    """

    def __init__(self, size: int, n_classes: int, C: float):
        super().__init__(size, n_classes, 1, C, np.zeros(size), np.ones(size))

    @property
    def words(self) -> str:
        penalty = "no penalty" if np.isinf(self.C) else f"C = {self.C:g}"
        return f"kernel logistic regression with {self.d:,} features, {penalty}"

    def user_values(self, theta: Array, frame: Any) -> dict[str, Any]:
        """Intercepts, and coefficients (V, m) of the kernel with the landmarks: ``s = intercept + dual_coef k(x)``."""
        return {"intercept": theta[:, 0], "dual_coef": theta[:, 1:] @ frame.root}


def _inverse_root(information: Array) -> Array:
    """R with ``R R'`` the inverse of the information; its smallest eigenvalues are raised if it is nearly singular.

    The diagonal of a diagonal one.
    """
    if information.ndim == 1:
        return np.asarray(1.0 / np.sqrt(information))
    if len(information) > _MANY:
        try:
            return np.asarray(solve_triangular(np.linalg.cholesky(information), np.eye(len(information)), lower=True).T)
        except np.linalg.LinAlgError:
            pass
    values, vectors = np.linalg.eigh(information)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-10 * values[-1])))


class LinearChart:
    """Free coordinates of the coefficients around a reference, scaled by a root of the inverse information."""

    def __init__(self, model: LinearScores, reference: Array, root: Array):
        self.model, self.reference, self._root = model, reference, root
        self.size = reference.size

    @property
    def n_free(self) -> int:
        """Number of `directions`."""
        vectors, p = self.reference.shape
        return max(vectors - 1, 1) * p

    @property
    def directions(self) -> Array:
        """Orthonormal directions (size, free) that change the model; a vector added to all coefficient vectors does not."""
        vectors, p = self.reference.shape
        across = np.linalg.svd(np.ones((1, vectors)))[2][1:].T if vectors > 1 else np.eye(1)
        return np.kron(across, np.eye(p))

    @property
    def upper(self) -> Array:
        """Upper bounds of the coordinates: none."""
        return np.full(self.size, np.inf)

    @property
    def lower(self) -> Array:
        """Lower bounds of the coordinates: none."""
        return np.full(self.size, -np.inf)

    def limited(self, at_limit: Bools) -> Bools:
        """Coordinates without meaning at a limit: none."""
        return at_limit

    def theta(self, vector: Array) -> Array:
        """The coefficients at these coordinates."""
        steps = vector.reshape(self.reference.shape)
        return self.reference + (steps * self._root if self._root.ndim == 1 else steps @ self._root.T)

    def gradient(self, vector: Array, theta: Array, moments: Moments) -> Array:
        """Gradient in the coordinates of the log-likelihood less the penalty."""
        by_theta = moments.by_component - self.model.penalty_slope(theta)
        return (by_theta * self._root if self._root.ndim == 1 else by_theta @ self._root).ravel()
