"""The likelihood of a block of rows, through their scores alone.

With ``s_jk = log pi_k + log f_k(x_j)`` and ``m_j = 1`` where the label is missing, the joint log-likelihood is

    L_ig   = sum_j (1 - m_j) s_{j z_j} + m_j log sum_k exp(s_jk)          eq. (1)-(3) of the paper
    L_miss = sum_j m_j log q_j + (1 - m_j) log(1 - q_j)
    L_full = L_ig + L_miss

and all that the parameters need of the rows is ``G_jk = d L / d s_jk``:

    from L_ig      1{k = z_j} on labelled rows, tau_jk on the others: the responsibilities
    from L_miss    (d L_miss / d eta_j) alpha_1 (d u_j / d s_jk)

summed up as moments ``sum_j G_jk phi(x_j)``. Rows come sorted, the labelled ones first and by class, so that every case
above is a slice.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.covariance import Moments
from marmix.missingness import Mechanism
from marmix.scores import GaussianScores
from marmix.uncertainty import posterior

Array = NDArray[np.float64]


class Sums(NamedTuple):
    """What the rows say of the parameters; sums over blocks add."""

    ignorable: float
    missing: float
    moments: Moments
    alpha: Array
    shape: float
    share: float

    @property
    def loglik(self) -> float:
        """L_full."""
        return self.ignorable + self.missing

    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        return Sums(
            self.ignorable + other.ignorable,
            self.missing + other.missing,
            self.moments + other.moments,
            self.alpha + other.alpha,
            self.shape + other.shape,
            self.share + other.share,
        )


class Block(NamedTuple):
    """Features of a run of sorted rows: class k holds the columns ``cuts[k]:cuts[k + 1]``, the unlabelled follow."""

    phi: Array
    cuts: list[int]
    weight: Array | None


def block_sums(
    block: Block, model: GaussianScores, prepared: Array, mechanism: Mechanism | None, ignorable: bool = True
) -> Sums:
    """Log-likelihood, moments of G and score of the mechanism, of one block.

    Parameters
    ----------
    prepared : array
        The score model's parameters, from its structure's `prepare`.
    mechanism : Mechanism or None
        None leaves L_miss out.
    ignorable : bool
        False leaves L_ig out.
    """
    phi, cuts, weight = block
    labelled = cuts[-1]
    scores, share = model.class_scores(model.structure.scores(prepared, phi))
    p = posterior(scores)
    value, about_alpha, about_shape, about_share = 0.0, np.zeros(2), 0.0, 0.0
    if mechanism is None:
        g = np.zeros_like(scores)
    else:
        value, g, about_alpha, about_shape, about_share = mechanism.block(p, labelled, weight)
    loglik = 0.0
    if ignorable:
        own = [(k, slice(a, b)) for k, (a, b) in enumerate(pairwise(cuts)) if b > a]
        if weight is None:
            g[:, labelled:] += p.tau[:, labelled:]
            loglik += p.log_norm[labelled:].sum()
            for k, rows in own:
                g[k, rows] += 1.0
                loglik += scores[k, rows].sum()
        else:
            g[:, labelled:] += p.tau[:, labelled:] * weight[labelled:]
            loglik += float(p.log_norm[labelled:] @ weight[labelled:])
            for k, rows in own:
                g[k, rows] += weight[rows]
                loglik += float(scores[k, rows] @ weight[rows])
    moments = model.structure.moments(model.component_weights(g, share), phi)
    return Sums(float(loglik), value, Moments(moments), about_alpha, about_shape, about_share)
