"""The Student-t mixture as a score model: ``s_jk = log sum_{c in k} pi_c t_d(x_j; mu_c, Sigma_c, nu_c)``.

With ``D`` the squared distance of a row in the scale matrix Sigma of a component,

    log t_d = c(nu) - d/2 log 2 pi - 1/2 log |Sigma| - (nu + d) / 2 log(1 + D / nu),
    c(nu) = log Gamma((nu + d) / 2) - log Gamma(nu / 2) - d/2 log(nu / 2).

Only ``D`` needs the covariance structure. Rows far out count less: ``d log t / d(-D/2) = w = (nu + d) / (nu + D)``, so moments of
``G w`` take the place of those of ``G`` in the quadratic term, while log pi and log |Sigma| keep ``G``. Degrees of freedom are
stored as ``tail = 1 / nu``, in which the likelihood is smooth up to the Gaussian limit, tail 0, and has information there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.special import digamma, gammaln

from marmix.core.arrays import AnyArray, Array, namespace, on_host, quiet, replaced, total
from marmix.core.covariance import Derivatives, Moments, Structure
from marmix.core.covariance import structure as structure_of
from marmix.core.gaussian import GaussianChart, Gaussians, GaussianScores

# Range of 1 / nu. At the lower limit the log density is that of a Gaussian to 12 digits; the upper one is a Cauchy distribution.
TAIL_MIN, TAIL_MAX = 1e-12, 1.0
DOFS = ("common", "by_class")

_LOG_2PI = float(np.log(2.0 * np.pi))
# Up to this tail, rows with D / nu below _SMALL use a series for the slope in the tail, which would lose its digits.
_SERIES_TAIL, _SMALL = 1e-3, 1e-2
_SERIES = [(-1.0) ** k * (k - 1) / k for k in range(2, 9)]
# Stirling's series: log Gamma(z) = (z - 1/2) log z - z + log(2 pi) / 2 + sum_k _STIRLING[k] z^-k, for tails up to _STIRLING_TAIL.
_STIRLING, _STIRLING_TAIL = np.array([0, 1 / 12, 0, -1 / 360, 0, 1 / 1260, 0, -1 / 1680, 0, 1 / 1188]), 1.0 / 30.0
_LOG1P = np.array([(-1.0) ** (k + 1) / (k + 2) for k in range(24)])  # (log(1 + x) - x) / x^2 for small x


class Students(NamedTuple):
    """Parameters of the mixture in the axes of the fit: those of the Gaussians, and ``tail = 1 / nu`` of each component."""

    log_pi: Array
    mu: Array
    chol: Array
    tail: Array


def log_constant(tail: Array, d: int) -> tuple[Array, Array]:
    """``c(nu)``, which is zero in the Gaussian limit, and its derivative in ``tail = 1 / nu``."""
    a, x = 0.5 * d, d * tail
    with quiet():
        nu = 1.0 / tail
        direct = gammaln(0.5 * nu + a) - gammaln(0.5 * nu) - a * np.log(0.5 * nu)
        direct_slope = -0.5 * nu * (nu * (digamma(0.5 * nu + a) - digamma(0.5 * nu)) - d)
        f = np.where(x < 0.1, polyval(x, _LOG1P), (np.log1p(x) - x) / (x * x))
    near, far = 2.0 * tail, 2.0 * tail / (1.0 + x)
    slopes = _STIRLING[1:] * np.arange(1, len(_STIRLING))
    value = a * x * f + (a - 0.5) * np.log1p(x) + polyval(far, _STIRLING) - polyval(near, _STIRLING)
    slope = d * (-a * (1.0 / (1.0 + x) + f) + (a - 0.5) / (1.0 + x))
    slope += 2.0 * (polyval(far, slopes) / (1.0 + x) ** 2 - polyval(near, slopes))
    series = tail < _STIRLING_TAIL
    return np.where(series, value, direct), np.where(series, slope, direct_slope)


class StudentScores(GaussianScores):
    """The Student-t mixture as a score model.

    Parameters
    ----------
    structure : Structure
        Structure of the scale matrices.
    counts : sequence of int
        Number of components of each class; components are ordered by class.
    floor : float
        Smallest residual variance of a component, in the axes of the fit.
    dof : "common", "by_class" or float
        Whether the degrees of freedom are estimated, for all classes or for each, or their given value.
    """

    scales = "scales"
    nouns = "Student-t", "scale matrix", "t distribution"

    def __init__(self, structure: Structure, counts: list[int], floor: float, dof: str | float = "common"):
        super().__init__(structure.unshared(), counts, floor)
        self.dof = dof if isinstance(dof, str) else float(dof)
        self.groups: AnyArray = np.zeros_like(self.owner) if dof == "common" else self.owner  # that share a dof
        self.n_tails = len(np.unique(self.groups)) if isinstance(dof, str) else 0

    def gaussian(self) -> GaussianScores:
        """The Gaussian mixture of the same structure."""
        gaussian = GaussianScores(structure_of(self.structure.name, self.structure.d), self.counts, self.floor)
        gaussian.scales = self.scales  # the name in starting values
        return gaussian

    def with_tail(self, theta: Gaussians, tail: Array | float) -> Students:
        """Parameters of a Gaussian mixture with this ``1 / nu``, within its range."""
        tails = np.broadcast_to(np.clip(tail, TAIL_MIN, TAIL_MAX), (len(self.owner),))
        return Students(*theta[:3], tails.copy())

    def user_values(self, theta: Any, frame: Any) -> dict[str, Any]:
        """Weights, means, scale matrices and degrees of freedom of the components, their covariances, and class priors."""
        values = super().user_values(theta, frame)
        scales, tail = values["covariances"], theta.tail
        if self.dof != "by_class":
            tail = tail[0]
        elif not self.structure.by_component:
            tail = tail[:, None, None]
        else:
            tail = tail.reshape(-1, *[1] * (scales.ndim - 1))
        covariances = np.where(tail < 0.5, scales / np.where(tail < 0.5, 1.0 - 2.0 * tail, 1.0), np.inf)
        by_class = theta.tail[[members.start for members in self._slices]]
        dof = np.where(by_class < 2.0 * TAIL_MIN, np.inf, 1.0 / by_class)
        return values | {"scales": scales, "covariances": covariances, "dof": dof}

    def prepare(self, theta: Any) -> Any:
        d = self.structure.d
        log_det = -0.5 * d * np.log(self.structure.pivots(theta.chol)).mean(axis=1)
        constant, slope = log_constant(theta.tail, d)
        centred = np.broadcast_to(0.5 * d * _LOG_2PI - log_det, theta.log_pi.shape)
        quadratic = self.structure.prepare(centred, theta.mu, theta.chol)
        return quadratic, (theta.log_pi - centred + constant)[:, None], slope[:, None], theta.tail[:, None]

    def block_scores(self, prepared: Any, phi: Array) -> tuple[Array, Any]:
        quadratic, constant, constant_slope, tail = prepared
        xp = namespace(phi)
        y = self.structure.scores(quadratic, phi)  # -D / 2
        y *= -2.0 * tail
        log = xp.log1p(y)
        scores, share = self.by_class(constant - (0.5 / tail + 0.5 * self.structure.d) * log)
        return scores, (share, y, log, constant_slope, tail)

    def block_moments(self, g: Array, share: Any, phi: Array) -> Array:
        """Moments of ``G w``, then the sums of G and of its products with the slopes in the tails, as one vector."""
        share, y, log, constant_slope, tail = share
        g, xp, d = self.by_component(g, share), namespace(g), self.structure.d
        inverse = 1.0 / (1.0 + y)
        y_inverse = y * inverse
        g0 = total(g, axis=1)
        slope = (0.5 / tail**2)[:, 0] * total(g * _bend(log, y, y_inverse, tail), axis=1)
        slope = slope - (0.5 * d / tail)[:, 0] * total(g * y_inverse, axis=1) + constant_slope[:, 0] * g0
        inverse *= g
        inverse *= 1.0 + d * tail
        return xp.concat([xp.reshape(self.structure.moments(inverse, phi), (-1,)), g0, slope])

    def gathered(self, moments: Array) -> Moments:
        components = len(self.owner)
        weighted, extra = moments[: -2 * components], moments[-2 * components :].reshape(2, components)
        rows = components + (0 if self.structure.by_component else self.structure.d)
        by_component, second = self.structure.gathered(weighted.reshape(rows, -1))
        return Moments(np.concatenate([by_component, extra.T], axis=1), second)

    def derivatives(self, theta: Any, x: Array) -> Derivatives:
        """Coefficients of a component are those of ``-D/2``, the constant, and the tail."""
        phi, d = self.detailed_features(x), self.structure.d
        scores, rest = self.block_scores(self.prepare(theta), phi[: self.n_features()])
        share, y, log, constant_slope, tail = rest
        inverse, weight = 1.0 / (1.0 + y), 1.0 + d * tail
        bend = _bend(log, y, y * inverse, tail)
        by_tail = 0.5 * bend / tail**2 - 0.5 * d * y * inverse / tail + constant_slope
        by_both = d * inverse - weight * y * inverse**2 / tail
        step = 1e-3 * (theta.tail + 0.01)
        far, near = (
            log_constant(theta.tail + h * step, d)[1] - log_constant(theta.tail - h * step, d)[1] for h in (2.0, 1.0)
        )
        by_tail_twice = (0.5 * (y * inverse) ** 2 - bend) / tail**3 + 0.5 * d * (y * inverse / tail) ** 2
        by_tail_twice += ((8.0 * near - far) / (12.0 * step))[:, None]
        slopes = np.stack(
            [np.vstack([w * phi, np.ones_like(w), t]) for w, t in zip(weight * inverse, by_tail, strict=True)]
        )

        def second(component: int, weights: Array) -> Array:
            p, total = len(phi), np.zeros((len(phi) + 2, len(phi) + 2))
            c, g = component, weights
            total[:p, :p] = (phi * (g * 2.0 * tail[c] * weight[c] * inverse[c] ** 2)) @ phi.T
            total[:p, -1] = total[-1, :p] = phi @ (g * by_both[c])
            total[-1, -1] = g @ by_tail_twice[c]
            return total

        return Derivatives(scores, share, slopes, second)

    def pooled(self, by_component: Array) -> Moments:
        pooled = self.structure.pooled(by_component[:, :-2])
        return Moments(np.concatenate([pooled.by_component, by_component[:, -2:]], axis=1), pooled.second)

    def centred(self, theta: Any, moments: Moments) -> Moments:
        """Moments for the Gaussian gradient: the weight ``1 - w`` of a row goes to the mean, where only its sum matters."""
        weighted = moments.by_component[:, :-2]
        rest = moments.by_component[:, -2] - weighted[:, 0]
        at_mean = self.structure.pooled(rest[:, None] * self.structure.detailed().features(theta.mu.T).T)
        return Moments(weighted, moments.second) + at_mean

    def chart(self, theta: Any) -> "StudentChart":
        return StudentChart(self, theta)


def _bend(log: Array, y: Array, y_inverse: Array, tail: Array) -> Array:
    """``log(1 + y) - y / (1 + y)``, by its series where it would lose digits that a small tail needs."""

    def series() -> Any:
        terms = _SERIES[-1] + 0.0 * y
        for coefficient in reversed(_SERIES[:-1]):
            terms = coefficient + y * terms
        return y * y * terms

    usual = log - y_inverse
    if on_host(y) and not (tail < _SERIES_TAIL).any():
        return usual
    return replaced(usual, (y < _SMALL) & (tail < _SERIES_TAIL), series)


class StudentChart(GaussianChart):
    """Free coordinates of the mixture around a reference: those of `GaussianChart`, then the tails that are estimated."""

    def __init__(self, model: StudentScores, reference: Any):
        super().__init__(model, reference)
        self.student, d = model, self._d
        self._members = (model.groups == np.arange(model.n_tails)[:, None]) * 1.0  # (tails, C)
        self._tail = reference.tail[self._members.argmax(axis=1)] if model.n_tails else np.empty(0)
        # about the information of a row, d (d + 2) / 2 in the Gaussian limit
        information = 0.5 * d * (d + 2) / (1.0 + (d + 4) * self._tail) ** 2
        self._tail_scale = 1.0 / np.sqrt(information * (self._members @ self._pi))
        self.size += model.n_tails

    @property
    def upper(self) -> Array:
        """Upper bounds of the coordinates."""
        upper = super().upper
        upper[self._cuts[2] :] = (TAIL_MAX - self._tail) / self._tail_scale
        return upper

    @property
    def lower(self) -> Array:
        """Lower bounds of the coordinates."""
        lower = super().lower
        lower[self._cuts[2] :] = (TAIL_MIN - self._tail) / self._tail_scale
        return lower

    def theta(self, vector: Array) -> Any:
        """The parameters at these coordinates."""
        tail = self.reference.tail  # type: ignore[attr-defined]
        if self.student.n_tails:
            tail = (self._tail + vector[self._cuts[2] :] * self._tail_scale) @ self._members
        return self.student.with_tail(super().theta(vector), tail)

    def gradient(self, vector: Array, theta: Any, moments: Moments) -> Array:
        """Gradient in the coordinates from the moments of G."""
        gaussian = super().gradient(vector, theta, self.student.centred(theta, moments))
        by_tail = self._members @ moments.by_component[:, -1] * self._tail_scale
        return np.concatenate([gaussian, by_tail])
