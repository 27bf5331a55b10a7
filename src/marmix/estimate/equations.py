"""Estimating equations: means by group, and generalised linear regression."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from marmix.core.arrays import Array
from marmix.estimate.designs import Design

_SINGULAR = 1e10  # condition number of a matrix that determines nothing


class Family(NamedTuple):
    """The mean and its slope as functions of the linear predictor, and what the exponential of a coefficient is."""

    mean: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    exp: str
    least: float
    most: float


FAMILIES = {
    "logistic": Family(expit, lambda eta: expit(eta) * expit(-eta), "odds ratio", 0.0, 1.0),
    "linear": Family(lambda eta: eta, np.ones_like, "", -np.inf, np.inf),
    "poisson": Family(np.exp, np.exp, "rate ratio", 0.0, np.inf),
}


def means(design: Design, f: Array, groups: Array) -> tuple[Array, Array]:
    """Means (G,) of f (n, K) in groups (n, G) of zeros and ones, and their influences (n, K, G)."""
    size = groups.sum(axis=0)
    values = groups.T @ (design.pseudo_labels * f).sum(axis=1) / size
    return values, (f[:, :, None] - values) * (groups / size)[:, None, :]


def regress(design: Design, family: Family, Z: Array, response: Array) -> tuple[Array, Array]:
    r"""Coefficients (p,) and their influences (n, K, p), of regressors Z (n, 1 or K, p) and responses (n, 1 or K) by class.

    From the solution of :math:`\sum_i w_i \psi_i = 0` over the labelled rows, one Newton step towards that of
    :math:`\sum_{ik} r_{ik} \psi_{ik} = 0` with :math:`\psi = z (y - \mu)`: it has the same distribution in large samples, and
    exists where the second equation, whose weights may be negative, has no solution.
    """
    n, K = design.tau.shape
    Z, response = np.broadcast_to(Z, (n, K, Z.shape[2])), np.broadcast_to(response, (n, K))
    scale = np.sqrt((Z**2).mean(axis=(0, 1)))
    if not scale.all():
        raise ValueError("a covariate is zero in all rows: leave it out.")
    Z, beta, known = Z / scale, np.zeros(Z.shape[2]), design.known

    def equation(b: Array, r: Array) -> tuple[Array, Array, Array]:
        eta = Z @ b
        residual = response - family.mean(eta)
        return (
            np.einsum("nk,nkp->p", r * residual, Z),
            np.einsum("nk,nkp,nkq->pq", known * family.slope(eta), Z, Z),
            residual,
        )

    for r, most in ((design.weight[:, None] * design.labels, 100), (design.pseudo_labels, 1)):
        for _ in range(most):
            score, slope, _ = equation(beta, r)
            if not np.linalg.cond(slope) < _SINGULAR:
                raise ValueError(
                    "the labels do not determine the coefficients: use fewer covariates, or join rare groups."
                )
            step = np.linalg.solve(slope, score)
            while most > 1 and np.abs(step).max() > 1e-10 and _norm(equation(beta + step, r)[0]) > _norm(score):
                step *= 0.5
            beta = beta + step
            if np.abs(step).max() < 1e-10:
                break
    _, slope, residual = equation(beta, design.pseudo_labels)
    g = (residual[:, :, None] * Z) @ np.linalg.inv(slope)
    return beta / scale, g / scale


def _norm(score: Array) -> float:
    return float(np.linalg.norm(score))
