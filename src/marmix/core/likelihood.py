"""The likelihood of a block of rows, through their scores alone.

With scores ``s_jk`` and ``m_j = 1`` where the label is missing, the log-likelihood is ``L_full = L_ig + L_miss`` with

    joint        L_ig = sum_j (1 - m_j) s_{j z_j} + m_j log sum_k exp(s_jk)     eq. (1)-(3) of the paper
    conditional  L_ig = sum_j (1 - m_j) (s_{j z_j} - log sum_k exp(s_jk))       given the features
    both         L_miss = sum_j m_j log q_j + (1 - m_j) log(1 - q_j)
    label term   L_miss = sum_j m_j log sum_k tau_jk q_jk + (1 - m_j) log(1 - q_{j z_j})

and its gradient in the parameters of the scores follows from ``G_jk = d L / d s_jk``:

    from L_ig    the responsibilities: 1{k = z_j} in labelled rows, tau_jk in others; less tau_jk everywhere if conditional
    from L_miss  (d L_miss / d eta_j) alpha_1 (d u_j / d s_jk); with a label term also r_jk - tau_jk in unlabelled rows, with
                 r_jk proportional to tau_jk q_jk

summed to moments ``sum_j G_jk phi(x_j)``. A *tempered* mechanism has a weight below one, ``L_ig + t L_miss``. Rows are sorted,
labelled rows first and by class, so that each of these cases is a slice. Rows whose label was asked for, because it had been
missing, follow, again by class: in L_ig they are labelled, and in L_miss they have m_j = 1 (and their own q_{j z_j}).
"""

from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from marmix.core.arrays import AnyArray, Array, namespace, total, with_constant
from marmix.core.covariance import Derivatives, Moments
from marmix.core.measures import posterior
from marmix.core.mechanism import Mechanism


class ScoreModel(Protocol):
    """Interface of the score models: `GaussianScores`, `StudentScores` and `LinearScores`."""

    joint: bool
    n_classes: int
    owner: AnyArray  # the class of each component

    @property
    def words(self) -> str:
        """Description of the model for reports."""

    def user_values(self, theta: Any, frame: Any) -> dict[str, Any]:
        """The parameters in the user's axes, by name."""

    def n_features(self) -> int:
        """Number of features in phi."""

    def values_per_row(self) -> int:
        """Number of values per row in the largest array of a pass."""

    def fill(self, phi: Array) -> None:
        """Compute the other rows of phi from the first 1 + d, which are [1, x]."""

    def prepare(self, theta: Any) -> Any:
        """The parameters, an array or a tuple of arrays, in the form that `block_scores` takes, computed once per pass."""

    def block_scores(self, prepared: Any, phi: Array) -> tuple[Array, Any]:
        """Class scores (K, n) of a block, and what `block_moments` needs besides: shares of components in their class."""

    def block_moments(self, g: Array, share: Any, phi: Array) -> Array:
        """Moments of G over a block, in the form that `gathered` takes."""

    def gathered(self, moments: Array) -> Moments:
        """Moments from the sum of `block_moments` over blocks."""

    def scores(self, theta: Any, x: Array) -> Array:
        """Class scores (K, n) of columns x (d, n) in the axes of the fit."""

    def derivatives(self, theta: Any, x: Array) -> Derivatives:
        """Scores of columns x (d, n) in the axes of the fit, with their derivatives in coefficients W (C, p)."""

    def pooled(self, by_component: Array) -> Moments:
        """A gradient (C, p) in W, in the form that a chart's gradient takes."""

    def second_moment(self, x: Array, weight: Array | None) -> Array | None:
        """Moments of the quadratic term that all classes share; None if there is none."""

    def shared_term(self, theta: Any, second: Array) -> float:
        """Sum of that term over all rows."""

    def penalty(self, theta: Any) -> float:
        """Penalty subtracted from the log-likelihood."""

    def chart(self, theta: Any) -> Any:
        """Free coordinates around these parameters."""


class Sums(NamedTuple):
    """Log-likelihoods L_ig and L_miss, and moments of G and score of the mechanism for ``L_ig + t L_miss``, summed over rows."""

    ignorable: float
    missing: float
    moments: Moments
    alpha: Array  # followed by the score of free label terms
    shape: float
    share: float

    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))  # type: ignore[operator]


class Block(NamedTuple):
    """Sorted rows in the axes of the fit."""

    x: Array  # (d, n), rows as columns
    cuts: list[
        int
    ]  # columns cuts[k]:cuts[k + 1] are group k: the K classes, asked rows of the K classes if any; then unlabelled
    weight: Array | None = None  # (n,)
    covariates: Array | None = None  # (L, n)
    space: list[Any] | None = None  # memory for `features`, shared by the blocks of a worker
    only: bool = False  # whether no other block uses that memory, so that the features are kept for the next pass

    def features(self, model: ScoreModel) -> Array:
        """The features phi (p, n), valid until the worker's next block."""
        p, (d, n) = model.n_features(), self.x.shape
        if self.space is None:
            phi = with_constant(self.x, p)
        elif self.only and self.space[1:] == [model]:
            return self.space[0]
        elif self.space and self.space[0].shape[0] == p and self.space[0].shape[1] >= n:
            phi = self.space[0][:, :n]
            phi[1 : 1 + d, :] = self.x
        else:
            phi = with_constant(self.x, p)
            self.space[:] = [phi]
        model.fill(phi)
        if self.space is not None:
            self.space[1:] = [model] if self.only else []
        return phi


def block_sums(
    block: Block,
    model: ScoreModel,
    prepared: Any,
    mechanism: Mechanism | None,
    ignorable: bool = True,
    tempering: float = 1.0,
) -> Sums:
    """Log-likelihood, moments of G and score of the mechanism, of one block.

    Parameters
    ----------
    prepared : array or tuple of arrays
        Parameters from the score model's `prepare`.
    mechanism : Mechanism or None
        None to omit L_miss.
    ignorable : bool
        False to omit L_ig.
    tempering : float
        The weight t of L_miss.
    """
    phi, cuts, weight, classes = block.features(model), block.cuts, block.weight, model.n_classes
    labelled = cuts[-1]
    scores, share = model.block_scores(prepared, phi)
    p = posterior(scores)
    xp = namespace(scores)
    missing, alpha, shape_slope, share_slope = 0.0, scores[0, :0], 0.0, 0.0
    if mechanism is None:
        g = xp.zeros_like(scores)
    else:
        missing, g, alpha, shape_slope, share_slope = mechanism.block(p, block.covariates, cuts[classes], weight, cuts)
        if tempering != 1.0:
            g *= tempering
            alpha, shape_slope, share_slope = tempering * alpha, tempering * shape_slope, tempering * share_slope
    loglik = 0.0
    if ignorable:
        # the normaliser is added for unlabelled rows, or subtracted for labelled ones
        sign, columns = (1.0, slice(labelled, None)) if model.joint else (-1.0, slice(0, labelled))
        by_class = [(k % classes, slice(a, b)) for k, (a, b) in enumerate(pairwise(cuts)) if b > a]
        if weight is None:
            if model.joint:
                g[:, columns] += p.tau[:, columns]
            else:
                g[:, columns] -= p.tau[:, columns]
            loglik += sign * total(p.log_norm(columns))
            for k, rows in by_class:
                g[k, rows] += 1.0
                loglik += total(scores[k, rows])
        else:
            g[:, columns] += sign * p.tau[:, columns] * weight[columns]
            loglik += sign * total(p.log_norm(columns) * weight[columns])
            for k, rows in by_class:
                g[k, rows] += weight[rows]
                loglik += total(scores[k, rows] * weight[rows])
    moments = model.block_moments(g, share, phi)
    return Sums(loglik, missing, Moments(moments), alpha, shape_slope, share_slope)
