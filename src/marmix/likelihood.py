"""The likelihood of a block of rows, through their scores alone.

With scores ``s_jk`` and ``m_j = 1`` where the label is missing, the log-likelihood is ``L_full = L_ig + L_miss`` with

    joint        L_ig = sum_j (1 - m_j) s_{j z_j} + m_j log sum_k exp(s_jk)     eq. (1)-(3) of the paper
    conditional  L_ig = sum_j (1 - m_j) (s_{j z_j} - log sum_k exp(s_jk))       given the features
    both         L_miss = sum_j m_j log q_j + (1 - m_j) log(1 - q_j)

and all that the parameters need of the rows is ``G_jk = d L / d s_jk``:

    from L_ig    labelled rows 1{k = z_j}, the others tau_jk: the responsibilities; less tau_jk everywhere if conditional
    from L_miss  (d L_miss / d eta_j) alpha_1 (d u_j / d s_jk)

summed up as moments ``sum_j G_jk phi(x_j)``. A *tempered* mechanism enters with a weight below one, ``L_ig + t L_miss``. Rows
come sorted, the labelled ones first and by class, so that every case above is a slice.
"""

from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, namespace, ones_like_columns, total
from marmix.mechanism import Mechanism
from marmix.mechanism.measures import posterior
from marmix.scores.covariance import Moments


class ScoreModel(Protocol):
    """What the rows ask of a score model; `GaussianScores` and `LinearScores` are two."""

    joint: bool
    n_classes: int
    owner: NDArray[Any]  # the class of each component

    @property
    def words(self) -> str:
        """The model in words."""

    def user_values(self, theta: Any, frame: Any) -> dict[str, Any]:
        """The parameters in the user's axes, by name."""

    def n_features(self) -> int:
        """Rows of phi."""

    def values_per_row(self) -> int:
        """Values of the largest array that a row needs in a pass."""

    def fill(self, phi: Array) -> None:
        """Complete phi, whose first rows are [1, x]."""

    def prepare(self, theta: Any) -> Array:
        """What `block_scores` wants of the parameters."""

    def block_scores(self, prepared: Array, phi: Array) -> tuple[Array, Any]:
        """Class scores, and what `block_moments` wants to know of them."""

    def block_moments(self, g: Array, share: Any, phi: Array) -> Array:
        """Moments of G, as `gathered` takes them."""

    def gathered(self, moments: Array) -> Array:
        """Moments (C, p) from the sum over blocks of what `block_moments` gave."""

    def scores(self, theta: Any, x: Array) -> Array:
        """Class scores of columns x."""

    def detailed_features(self, x: Array) -> Array:
        """Features (p, n) of columns x in which the score of each component is linear; they begin with those of phi."""

    def pooled(self, by_component: Array) -> Moments:
        """Moments (C, p) of these features, as a chart's gradient takes them."""

    def second_moment(self, x: Array, weight: Array | None) -> Array | None:
        """Moments of a term that is common to the classes."""

    def shared_term(self, theta: Any, second: Array) -> float:
        """The sum of that term."""

    def penalty(self, theta: Any) -> float:
        """What is subtracted from the log-likelihood."""

    def chart(self, theta: Any) -> Any:
        """Free coordinates around these parameters."""


class Sums(NamedTuple):
    """What the rows say of the parameters; sums over blocks add.

    The two log-likelihoods are plain; moments and scores are those of ``L_ig + t L_miss``.
    """

    ignorable: float
    missing: float
    moments: Moments
    alpha: Array
    shape: float
    share: float

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
    """A run of sorted rows in the axes of the fit.

    Parameters
    ----------
    x : array of shape (d, n)
        The rows as columns.
    cuts : list of K + 1 int
        Class k holds the columns ``cuts[k]:cuts[k + 1]``; the unlabelled rows follow.
    weight : array of shape (n,) or None
    covariates : array of shape (L, n) or None
    space : list or None
        Memory that the blocks of one worker share, for `features`.
    only : bool
        Whether no other block uses that memory, so that the features may stay there from pass to pass.
    """

    x: Array
    cuts: list[int]
    weight: Array | None = None
    covariates: Array | None = None
    space: list[Any] | None = None
    only: bool = False

    def features(self, model: ScoreModel) -> Array:
        """The features phi (p, n), which the worker's next block may overwrite."""
        p, (d, n) = model.n_features(), self.x.shape
        if self.space is None:
            phi = ones_like_columns(self.x, p)
        else:
            if self.only and self.space[1:] == [model]:
                return self.space[0]
            if not self.space or self.space[0].shape[0] != p or self.space[0].shape[1] < n:
                self.space[:] = [np.ones((p, n))]
            phi = self.space[0][:, :n]
        phi[1 : 1 + d, :] = self.x
        model.fill(phi)
        if self.space is not None:
            self.space[1:] = [model] if self.only else []
        return phi


def block_sums(
    block: Block,
    model: ScoreModel,
    prepared: Array,
    mechanism: Mechanism | None,
    ignorable: bool = True,
    tempering: float = 1.0,
) -> Sums:
    """Log-likelihood, moments of G and score of the mechanism, of one block.

    Parameters
    ----------
    prepared : array
        The score model's parameters, from its `prepare`.
    mechanism : Mechanism or None
        None leaves L_miss out.
    ignorable : bool
        False leaves L_ig out.
    tempering : float
        The weight t of L_miss.
    """
    phi, cuts, weight = block.features(model), block.cuts, block.weight
    labelled = cuts[-1]
    scores, share = model.block_scores(prepared, phi)
    p = posterior(scores)
    xp = namespace(scores)
    value, about_alpha, about_shape, about_share = 0.0, scores[0, :0], 0.0, 0.0
    if mechanism is None:
        g = xp.zeros_like(scores)
    else:
        value, g, about_alpha, about_shape, about_share = mechanism.block(p, block.covariates, labelled, weight)
        if tempering != 1.0:
            g *= tempering
            about_alpha, about_shape, about_share = (
                tempering * about_alpha,
                tempering * about_shape,
                tempering * about_share,
            )
    loglik = 0.0
    if ignorable:
        # the normaliser counts for the unlabelled rows, or against the labelled ones
        sign, these = (1.0, slice(labelled, None)) if model.joint else (-1.0, slice(0, labelled))
        own = [(k, slice(a, b)) for k, (a, b) in enumerate(pairwise(cuts)) if b > a]
        if weight is None:
            if model.joint:
                g[:, these] += p.tau[:, these]
            else:
                g[:, these] -= p.tau[:, these]
            loglik += sign * total(p.log_norm[these])
            for k, rows in own:
                g[k, rows] += 1.0
                loglik += total(scores[k, rows])
        else:
            g[:, these] += sign * p.tau[:, these] * weight[these]
            loglik += sign * total(p.log_norm[these] * weight[these])
            for k, rows in own:
                g[k, rows] += weight[rows]
                loglik += total(scores[k, rows] * weight[rows])
    moments = model.block_moments(g, share, phi)
    return Sums(loglik, value, Moments(moments), about_alpha, about_shape, about_share)
