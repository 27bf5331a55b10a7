"""Covariance structures: full, tied, diag, spherical. The only folder that branches on them.

A structure keeps the Cholesky factor ``L`` of the precision, ``Sigma^-1 = L L'`` with ``L`` lower triangular, in its own compact
shape, and answers a handful of questions: which features ``phi(x)`` make the log density linear, what their
coefficients are, how moments of ``phi`` become a gradient or an M-step. Column i of ``L`` is the regression of ``x_i`` on
the later features, and ``1 / L_ii^2`` its residual variance. Keeping these *pivots* above a floor therefore bounds
the likelihood, is a bound on one coordinate each, and has a closed-form M-step: the same regressions, the variance
raised to the floor.

Moments are those of weights ``G`` (C, n): ``g0 = sum_j G_j``, ``g1 = sum_j G_j x_j``, ``g2 = sum_j G_j x_j x_j'``.
"""

from collections.abc import Callable

from marmix.scores.covariance.base import Moments, Structure
from marmix.scores.covariance.dense import Full, Tied, WideFull
from marmix.scores.covariance.diagonal import Diag, Spherical

__all__ = ["STRUCTURES", "Moments", "Structure", "structure"]

_WIDE = 16  # features from which WideFull is the faster form of Full (benchmarks/kernel.py --forms)

STRUCTURES: dict[str, Callable[[int], Structure]] = {"full": Full, "tied": Tied, "diag": Diag, "spherical": Spherical}


def structure(covariance_type: str, d: int) -> Structure:
    """The structure of that name for d features."""
    if covariance_type not in STRUCTURES:
        raise ValueError(f"covariance_type={covariance_type!r} is not one of {', '.join(map(repr, STRUCTURES))}.")
    kind = WideFull if covariance_type == "full" and d >= _WIDE else STRUCTURES[covariance_type]
    return kind(d)
