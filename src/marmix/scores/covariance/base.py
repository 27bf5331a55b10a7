"""What every covariance structure answers, and the moments it answers from."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, along_rows, ones_like_columns

LOG_2PI = float(np.log(2.0 * np.pi))


class Moments(NamedTuple):
    """Sums over rows of ``G phi``: one row of ``by_component`` a component.

    Where all components share the quadratic term its moments are ``second``, the same for any G that sums to one over
    the components; None elsewhere.
    """

    by_component: Array
    second: Array | None = None

    def __add__(self, other: "Moments") -> "Moments":  # type: ignore[override]
        second = self.second if other.second is None else self.second + other.second  # type: ignore[operator]
        return Moments(self.by_component + other.by_component, second)


class Structure(ABC):
    """What the rest of the library asks of a covariance structure; d features, C components.

    `move`, `pull` and `step_limits` are about the coordinates of `GaussianChart`.
    """

    name: str  # as in `covariance_type`
    shared_quadratic = False
    by_component = True  # whether every component has a covariance of its own
    products = ""  # of features in the scores, as the fused kernels know them: "all", "squares", "none"; empty where they do not

    def __init__(self, d: int):
        self.d = d

    @abstractmethod
    def n_features(self) -> int:
        """Rows of phi."""

    def values_per_row(self, components: int) -> int:
        """Values of the largest array that a row needs in a pass: phi."""
        return self.n_features()

    def fill_quadratic(self, phi: Array) -> None:
        """Complete phi, whose first 1 + d rows are [1, x], with the quadratic rows, if there are any."""
        return

    def features(self, x: Array) -> Array:
        """The features phi (p, n) of columns x (d, n)."""
        phi = ones_like_columns(x, self.n_features())
        phi[1 : 1 + self.d, :] = x
        self.fill_quadratic(phi)
        return phi

    def detailed(self) -> "Structure":
        """A structure whose features make the score of each component linear by itself; they begin with this one's."""
        return self

    def pooled(self, by_component: Array) -> Moments:
        """Moments of the features of `detailed` as the moments of this structure."""
        return Moments(by_component)

    @abstractmethod
    def coefficients(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        """W with ``W phi(x) = log pi + log N(x; mu, Sigma)``, (C, p), less a shared quadratic term."""

    def prepare(self, log_pi: Array, mu: Array, chol: Array) -> Array:
        """What `scores` wants of the parameters, once a pass."""
        return self.coefficients(log_pi, mu, chol)

    def scores(self, prepared: Array, phi: Array) -> Array:
        """Component scores (C, n) of a block."""
        return prepared @ phi

    def moments(self, g: Array, phi: Array) -> Array:
        """Sums of ``G phi`` over a block, as `gathered` takes them."""
        return along_rows(g, phi)

    def gathered(self, moments: Array) -> Array:
        """Moments (C, p) from the sum over blocks of what `moments` gave."""
        return moments

    def shared_term(self, chol: Array, second: Array) -> float:
        """The sum over rows of the shared quadratic term."""
        return 0.0

    @abstractmethod
    def gradient(self, mu: Array, chol: Array, moments: Moments) -> tuple[Array, Array]:
        """Gradient of ``sum G (W phi)`` in mu and in the entries of L."""

    @abstractmethod
    def m_step(self, moments: Moments, floor: float) -> tuple[Array, Array]:
        """Means and factors that maximise ``sum G (W phi)`` with pivots of at least `floor`."""

    @abstractmethod
    def step_shape(self, components: int) -> tuple[int, ...]:
        """Shape of the coordinates of L."""

    @abstractmethod
    def move(self, reference: Array, steps: Array, weights: Array) -> Array:
        """L at coordinates `steps` around `reference`."""

    @abstractmethod
    def pull(self, reference: Array, steps: Array, weights: Array, by_chol: Array) -> Array:
        """The gradient in L, `by_chol`, as a gradient in the coordinates."""

    @abstractmethod
    def step_limits(self, reference: Array, weights: Array, floor: float) -> Array:
        """Largest coordinates that keep the pivots above the floor."""

    def limited_steps(self, at_limit: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Coordinates of L at a limit, and those that lose their meaning with them."""
        return at_limit

    @abstractmethod
    def spread(self, chol: Array, components: int) -> Array:
        """``L^-T`` of every component as a full matrix: standard deviations along the axes of the factor."""

    @abstractmethod
    def pivots(self, chol: Array) -> Array:
        """Residual variances ``1 / L_ii^2``, one row a component (a single row where tied)."""

    @abstractmethod
    def whitener(self, covariance: Array) -> Array:
        """A with ``A covariance A'`` the identity as far as the structure allows a change of axes."""

    @abstractmethod
    def covariances(self, chol: Array, unwhitener: Array) -> Array:
        """Covariances in the user's axes, in scikit-learn's shapes."""

    @abstractmethod
    def entries(self, features: list[str]) -> list[tuple[str, str]]:
        """Features of the distinct entries of a covariance, in pairs; the second of a variance is empty."""

    @abstractmethod
    def distinct(self, covariances: Array) -> Array:
        """These entries of covariances in the user's axes."""

    @abstractmethod
    def positive(self, covariances: Array) -> bool:
        """Whether covariances in those shapes are positive definite."""

    @abstractmethod
    def rebase(self, covariances: Array, whitener: Array) -> Array:
        """Covariances given in the user's axes, in the fit's axes."""

    @abstractmethod
    def factor(self, covariances: Array, floor: float) -> Array:
        """L from covariances in those shapes."""

    @abstractmethod
    def project(self, covariances: Array, weights: Array) -> Array:
        """Full matrices (C, d, d) brought into the shape of the structure."""
