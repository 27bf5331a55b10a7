"""Why labels are missing: the mechanism P(label missing | x) = q(u(x)), a link of the classifier's own uncertainty.

    eta_j = alpha_0 + alpha_1 u_j,    q_j = a + (1 - a) g(eta_j; shape),
    L_miss = sum_j  m_j log q_j + (1 - m_j) log(1 - q_j)

`Mechanism` needs only scores (log posteriors up to a constant per row) and the missing indicator, so it can be attached to
any classifier that has them: our own, gradient boosting, a neural network.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from marmix.links import LINK_SHAPES, Hazard, eta_at, hazard, log_missing, odds_against, stretch
from marmix.uncertainty import MEASURES, Measured, Posterior, measure_function, posterior

Array = NDArray[np.float64]

# Beyond this shape the curve is its limit, q = 1 - exp(-max(0, eta / shape)), to within what any sample can tell.
SHAPE_MAX = 100.0
# A share that leaves no room for the rest of the mechanism is not a mechanism.
SHARE_MAX = 0.999
# The scale of a shape or share that the data do not identify: a tenth of its range (the shape's is [0, 1), see below).
_UNIDENTIFIED = 0.1


class MissingnessTerms(NamedTuple):
    """The mechanism's log-likelihood of every row, with its derivatives in the row's scores."""

    loglik: Array  # (n,)
    gradient: Array  # (n, K)
    curvature: Array  # (n, K, K)


class MechanismSums(NamedTuple):
    """What a block of rows says of the mechanism; the scores' gradient is per row, the rest is summed."""

    loglik: float
    gradient: Array  # (K, n), with respect to the scores
    alpha: Array  # (2,)
    shape: float
    share: float


@dataclass(frozen=True)
class Mechanism:
    """P(label missing) as a link of the classifier's uncertainty.

    Parameters
    ----------
    uncertainty : {"margin", "entropy", "log-entropy", "gini", "discriminant"} or callable
        The measure u of a row's posteriors. A callable takes the log posteriors (n, K) and returns u (n,), or u and its
        partial derivatives (n, K).
    alpha : tuple of two floats
        Intercept and slope of eta.
    shape : float
        Aranda-Ordaz shape lambda >= 0: 0 is complementary log-log, 1 is logit.
    share : float
        Share a of labels missing completely at random, in [0, 1).
    free_shape, free_share : bool
        Whether `profile` estimates the shape and the share.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import Mechanism
    >>> scores = np.array([[0.0, 4.0], [0.1, 0.0], [3.0, 0.0], [0.0, 0.3]])
    >>> mechanism = Mechanism(alpha=(1.0, -3.0))
    >>> mechanism.missing_proba(scores).round(3)
    array([0.154, 0.73 , 0.187, 0.718])
    """

    uncertainty: str | Callable[..., object] = "margin"
    alpha: tuple[float, float] = (0.0, 0.0)
    shape: float = 1.0
    share: float = 0.0
    free_shape: bool = False
    free_share: bool = False

    @classmethod
    def from_link(
        cls,
        link: str = "aranda-ordaz",
        shape: float | None = None,
        uncertainty: str | Callable[..., object] = "margin",
        mcar_share: bool = False,
    ) -> "Mechanism":
        """A mechanism to be fitted, from the options of the estimators; bad ones are named."""
        if link not in LINK_SHAPES:
            raise ValueError(f"link={link!r} is not one of {', '.join(map(repr, LINK_SHAPES))} or None.")
        if not callable(uncertainty) and uncertainty not in MEASURES:
            raise ValueError(f"uncertainty={uncertainty!r} is not a callable nor one of {', '.join(MEASURES)}.")
        fixed = LINK_SHAPES[link]
        if shape is not None:
            if fixed is not None and shape != fixed:
                raise ValueError(
                    f"link={link!r} has shape {fixed:g}; for shape={shape:g} use link='aranda-ordaz', "
                    "or leave shape=None."
                )
            if not (np.isfinite(shape) and shape >= 0):
                raise ValueError(f"shape={shape!r}: the Aranda-Ordaz shape is a finite number >= 0, or None.")
            fixed = float(shape)
        return cls(
            uncertainty=uncertainty,
            shape=1.0 if fixed is None else fixed,
            share=0.05 if mcar_share else 0.0,
            free_shape=fixed is None,
            free_share=bool(mcar_share),
        )

    # What users of other classifiers call: scores are (n, K).

    def measure(self, scores: ArrayLike) -> Array:
        """The uncertainty u of every row."""
        return self.measured(_class_major_posterior(scores)).value

    def missing_proba(self, scores: ArrayLike) -> Array:
        """q, the probability that the label of a row is missing."""
        return self.missing_proba_of(self.measure(scores))

    def terms(self, scores: ArrayLike, missing: ArrayLike) -> MissingnessTerms:
        """Log-likelihood of each row's missing indicator, its gradient and curvature with respect to the scores.

        The curvature is the expected one, ``E[g g'] = q'^2 / (q (1 - q)) d eta d eta'`` with ``g`` the gradient: positive
        semi-definite, so Newton boosting and Fisher scoring may use it (or its diagonal) as it is. The observed
        second derivative need not be of one sign.
        """
        p = _class_major_posterior(scores)
        m = _indicator(missing, p.tau.shape[1])
        measured = self.measured(p)
        with np.errstate(all="ignore"):
            eta = self.eta(measured.value)
            h = hazard(eta, self.shape)
            n = h.n + self._extra
            log_q, _, slope = log_missing(eta, n, h.slope, self._extra)
            loglik = np.where(m, log_q, -n)
            gradient = np.where(m, slope, -h.slope) * self.alpha[1] * measured.gradient
            information = slope * h.slope  # (d log q / d eta) (-d log(1-q) / d eta) = q'^2 / (q (1-q))
        d_eta = self.alpha[1] * measured.gradient
        curvature = np.einsum("n,kn,ln->nkl", information, d_eta, d_eta)
        return MissingnessTerms(loglik, np.ascontiguousarray(gradient.T), curvature)

    def profile(self, scores: ArrayLike, missing: ArrayLike, sample_weight: ArrayLike | None = None) -> "Mechanism":
        """The mechanism that maximises L_miss over alpha, and the shape and share if they are free, for given scores."""
        u = self.measure(scores)
        m = _indicator(missing, len(u))
        w = np.ones(len(u)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        rate = float(w @ m / w.sum())
        if not 0.0 < rate < 1.0:
            raise ValueError("missing is the same for every row: there is no mechanism to estimate.")
        order = np.argsort(m, kind="stable")
        starts = [self.starting(rate)]
        if self.free_shape:  # the shape's profile may have several maxima
            starts = [replace(self, shape=shape).starting(rate) for shape in (0.0, 1.0, 10.0)]
        found = [start.profile_of(u[order], int(np.sum(~m)), w[order]) for start in starts]
        return max(found, key=lambda mechanism: float(w @ mechanism.terms(scores, m).loglik))

    # What the engines call: class-major blocks whose labelled rows come first.

    @cached_property
    def measured(self) -> Callable[[Posterior], Measured]:
        """The measure as a function of posteriors."""
        return measure_function(self.uncertainty)

    @property
    def _extra(self) -> float:
        return float(-np.log1p(-self.share)) if self.share else 0.0

    def eta(self, u: Array) -> Array:
        """The linear predictor."""
        return self.alpha[0] + self.alpha[1] * u

    def missing_proba_of(self, u: Array) -> Array:
        """q of rows with uncertainty u."""
        with np.errstate(all="ignore"):
            return -np.expm1(-hazard(self.eta(u), self.shape).n - self._extra)

    def block(self, p: Posterior, labelled: int, weight: Array | None = None) -> MechanismSums:
        """Log-likelihood and gradients of a block whose first `labelled` rows have their label."""
        u, gradient = self.measured(p)
        loglik, hazard_slope, eta_slope, h = self._rows(u, labelled, weight)
        gradient *= self.alpha[1] * eta_slope
        alpha, shape, share = self._score(u, hazard_slope, eta_slope, h)
        return MechanismSums(loglik, gradient, alpha, shape, share)

    def _rows(self, u: Array, labelled: int, weight: Array | None) -> tuple[float, Array, Array, Hazard]:
        eta = self.eta(u)
        h = hazard(eta, self.shape, self.free_shape)
        n = h.n + self._extra if self.share else h.n
        log_q, against, slope = log_missing(eta[labelled:], n[labelled:], h.slope[labelled:], self._extra)
        hazard_slope, eta_slope = np.empty_like(u), np.empty_like(u)
        hazard_slope[:labelled], hazard_slope[labelled:] = -1.0, against
        np.negative(h.slope[:labelled], out=eta_slope[:labelled])
        eta_slope[labelled:] = slope
        if weight is None:
            return float(log_q.sum() - n[:labelled].sum()), hazard_slope, eta_slope, h
        hazard_slope *= weight
        eta_slope *= weight
        return float(log_q @ weight[labelled:] - n[:labelled] @ weight[:labelled]), hazard_slope, eta_slope, h

    def _score(self, u: Array, hazard_slope: Array, eta_slope: Array, h: Hazard) -> tuple[Array, float, float]:
        alpha = np.array([eta_slope.sum(), eta_slope @ u])
        shape = 0.0 if h.shape_slope is None else float(hazard_slope @ h.shape_slope)
        share = float(hazard_slope.sum() / (1.0 - self.share)) if self.free_share else 0.0
        return alpha, shape, share

    # Fitting the mechanism to given uncertainties.

    def starting(self, rate: float) -> "Mechanism":
        """The mechanism without slope that loses labels at this rate."""
        rate = (rate - self.share) / (1.0 - self.share)
        return replace(self, alpha=(eta_at(-np.log1p(-min(max(rate, 1e-3), 1.0 - 1e-9)), self.shape), 0.0))

    def profile_of(self, u: Array, labelled: int, weight: Array | None = None) -> "Mechanism":
        """Maximise L_miss from here for given uncertainties, the labelled rows first."""

        def evaluate(here: Mechanism) -> tuple[float, Array, float, float]:
            with np.errstate(all="ignore"):
                loglik, hazard_slope, eta_slope, h = here._rows(u, labelled, weight)
                return loglik, *here._score(u, hazard_slope, eta_slope, h)

        total = float(len(u) if weight is None else weight.sum())
        return climb(self, lambda here: MechanismChart(here, u, weight), evaluate, total)[0]

    def information(self, u: Array, weight: Array) -> tuple[Array, float]:
        """Expected information of (alpha_0, alpha_1, shape, share), and the mean uncertainty of the rows that carry it.

        The hazard ``n`` of a row carries ``1 / expm1(n)`` of it.
        """
        with np.errstate(all="ignore"):
            h = hazard(self.eta(u), self.shape, True)
            root = np.sqrt(odds_against(h.n + self._extra) * weight)
            jacobian = np.array(
                [h.slope, h.slope * u, np.asarray(h.shape_slope), np.full_like(u, 1.0 / (1.0 - self.share))]
            )
            weighted = jacobian * root
        weighted[~np.isfinite(weighted)] = 0.0
        information = weighted @ weighted.T
        centre = information[0, 1] / information[0, 0] if information[0, 0] > 1e-300 else weight @ u / weight.sum()
        return information, float(centre)

    def scored(self, u: Array, labelled: int, weight: Array) -> "Mechanism":
        """One step of Fisher scoring in alpha: a rough fit that stays moderate where the likelihood has no maximum."""
        with np.errstate(all="ignore"):
            _, hazard_slope, eta_slope, h = self._rows(u, labelled, weight)
            score = self._score(u, hazard_slope, eta_slope, h)[0]
        about = self.information(u, weight)[0][:2, :2]
        step = np.linalg.lstsq(about, score, rcond=1e-10)[0]
        return replace(self, alpha=(self.alpha[0] + float(step[0]), self.alpha[1] + float(step[1])))


class MechanismChart:
    """Free coordinates of a mechanism around a reference, scaled by its information there.

    alpha is carried by the hazard at the mean uncertainty and its relative slope there, ``b_0 = log n(ubar)`` and
    ``b_1 = d log n / du``, whose meaning does not change with the shape (alpha itself grows with it without limit). The shape is
    carried by ``shape / (1 + shape)``, so that infinity is near. Then moving the shape or the share takes (b_0, b_1) along
    such that the likelihood stays put to second order. Only the shape and the share are bounded, each by its own
    coordinate.
    """

    def __init__(self, reference: Mechanism, u: Array, weight: Array | None):
        w = np.ones_like(u) if weight is None else weight
        information, self.centre = reference.information(u, w)
        self.reference = reference
        self._free = [i for i, free in ((2, reference.free_shape), (3, reference.free_share)) if free]
        self.size = 2 + len(self._free)
        with np.errstate(all="ignore"):
            h = hazard(reference.eta(np.array([self.centre])), reference.shape)
        n, slope = np.clip(float(h.n[0]), 1e-300, 1e300), float(h.slope[0])
        self._at = np.array(
            [np.log(n), reference.alpha[1] * slope / n, reference.shape / (1.0 + reference.shape), reference.share]
        )
        jacobian = self._jacobian(self._at)
        information = jacobian.T @ (information / w.sum()) @ jacobian
        values, vectors = np.linalg.eigh(information[:2, :2])
        values = np.maximum(values, 1e-8 * values[1] + 1e-12)
        self._to_level = vectors / np.sqrt(values)
        across = information[:2, self._free]
        self._shear = self._to_level @ (self._to_level.T @ across)
        left = np.diag(information)[self._free] - np.einsum("ij,ij->j", across, self._shear)
        self._scale = 1.0 / np.sqrt(np.maximum(left, _UNIDENTIFIED**2))

    @property
    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Bounds of the coordinates, for scipy."""
        at, upper = self._at[self._free], np.array([0.0, 0.0, SHAPE_MAX / (1.0 + SHAPE_MAX), SHARE_MAX])[self._free]
        low, high = -at / self._scale, np.maximum(upper - at, 0.0) / self._scale
        return [(None, None), (None, None), *zip(low.tolist(), high.tolist(), strict=True)]

    def _place(self, vector: Array) -> Array:
        """(b_0, b_1, shape / (1 + shape), share) at these coordinates."""
        place = self._at.copy()
        moved = self._scale * vector[2:]
        place[self._free] += moved
        place[:2] += self._to_level @ vector[:2] - self._shear @ moved
        place[2] = 0.0 if place[2] < 1e-15 else place[2]  # the bound, up to rounding
        place[3] = max(place[3], 0.0)
        return place

    def mechanism(self, vector: Array) -> Mechanism:
        """The mechanism at these coordinates."""
        b_0, b_1, rho, share = self._place(vector)
        shape = self.reference.shape if 2 not in self._free else float(rho / (1.0 - rho))
        n = np.exp(b_0)
        slope = b_1 * stretch(shape * n)[0]
        return replace(
            self.reference, alpha=(float(eta_at(n, shape) - slope * self.centre), float(slope)), shape=shape,
            share=float(share),
        )  # fmt: skip

    def _jacobian(self, place: Array) -> Array:
        """d(alpha_0, alpha_1, shape, share) / d(place)."""
        b_0, b_1, rho, _ = place
        shape = rho / (1.0 - rho)
        n = np.exp(b_0)
        ratio, growth = stretch(shape * n)
        with np.errstate(all="ignore"):
            h = hazard(np.array([eta_at(n, shape)]), shape, with_shape_slope=True)
            eta_by_shape = -(h.shape_slope / h.slope)[0]  # type: ignore[operator]
        jacobian = np.zeros((4, 4))
        jacobian[1, :3] = b_1 * growth * shape * n, ratio, b_1 * growth * n
        jacobian[0, :3] = -self.centre * jacobian[1, :3] + [ratio, 0.0, eta_by_shape]
        jacobian[:3, 2] *= (1.0 + shape) ** 2
        jacobian[2, 2] = (1.0 + shape) ** 2
        jacobian[3, 3] = 1.0
        return jacobian

    def gradient(self, vector: Array, alpha: Array, shape: float, share: float) -> Array:
        """Chain rule from the score in (alpha, shape, share) to the coordinates."""
        by_place = np.array([*alpha, shape, share]) @ self._jacobian(self._place(vector))
        own = by_place[self._free] - self._shear.T @ by_place[:2]
        return np.concatenate([self._to_level.T @ by_place[:2], self._scale * own])


def climb(
    mechanism: Mechanism,
    chart_of: Callable[[Mechanism], MechanismChart],
    evaluate: Callable[[Mechanism], tuple[float, Array, float, float]],
    total: float,
) -> tuple[Mechanism, float]:
    """The nearest maximum of L_miss, by quasi-Newton in a chart that is renewed until the maximum stays put.

    `evaluate` gives L_miss and its score in alpha, shape and share; `total` is the weight of all rows.
    """
    reached = evaluate(mechanism)[0]
    for _ in range(10):
        chart = chart_of(mechanism)

        def negative(vector: Array, chart: MechanismChart = chart, base: float = reached) -> tuple[float, Array]:
            loglik, *score = evaluate(chart.mechanism(vector))
            gradient = -chart.gradient(vector, *score) / total  # type: ignore[arg-type]
            if not (np.isfinite(loglik) and np.isfinite(gradient).all()):
                return 1e10, np.zeros_like(gradient)
            return (base - loglik) / total, gradient

        found = minimize(
            negative, np.zeros(chart.size), jac=True, method="L-BFGS-B", bounds=chart.bounds,
            options={"ftol": 1e-12, "gtol": 1e-8, "maxiter": 100},
        )  # fmt: skip
        if found.fun >= 0.0:
            break
        mechanism, reached = chart.mechanism(found.x), reached - found.fun * total
        if found.fun > -1e-10:
            break
    return mechanism, reached


def _class_major_posterior(scores: ArrayLike) -> Posterior:
    s = np.asarray(scores, dtype=float)
    if s.ndim != 2 or s.shape[1] < 2:
        raise ValueError(f"scores must have shape (n, K) with K >= 2 classes, not {s.shape}.")
    return posterior(np.ascontiguousarray(s.T))


def _indicator(missing: ArrayLike, n: int) -> NDArray[np.bool_]:
    m = np.asarray(missing)
    if m.shape != (n,) or not np.isin(m, (0, 1)).all():
        raise ValueError(f"missing must be {n} values 0/1 or False/True, one per row of scores.")
    return m.astype(bool)
