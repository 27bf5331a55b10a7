"""The missingness mechanism: the probability that a label is missing, as a function of the classifier's uncertainty.

    eta_j = alpha_0 + alpha_1 u_j + gamma . v_j,    q_j = a + (1 - a) g(eta_j; shape),
    L_miss = sum_j  m_j log q_j + (1 - m_j) log(1 - q_j)

with covariates v if labels are also missing for other reasons. u and v together are the *drivers* (1 + L, n) of the mechanism.

`Mechanism` needs only scores (log posteriors up to a constant per row) and the missing indicator, so it can be combined with
any classifier, such as gradient boosting or a neural network.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marmix.arrays import Array, along_rows, in_double, in_precision_of, namespace, total
from marmix.mechanism.charts import MechanismChart, maximise
from marmix.mechanism.links import FREE, LINKS, Hazard, eta_at, hazard, log_missing, odds_against
from marmix.mechanism.measures import Measure, Posterior, as_measure, posterior


class MissingnessTerms(NamedTuple):
    """Log-likelihood of each row's missing indicator, with its derivatives in the row's scores."""

    loglik: Array  # (n,)
    gradient: Array  # (n, K)
    curvature: Array  # (n, K, K)


class MechanismSums(NamedTuple):
    """Log-likelihood and gradients of a block; the gradient in the scores is per row, the rest are sums."""

    loglik: float
    gradient: Array  # (K, n), with respect to the scores
    alpha: Array  # (2 + L,)
    shape: float
    share: float


@dataclass(frozen=True)
class Mechanism:
    """Probability of a missing label as a function of the classifier's uncertainty.

    Parameters
    ----------
    uncertainty : {"margin", "entropy", "log-entropy", "gini", "discriminant", "signed-margin"} or callable
        The measure u. A callable takes the log posteriors (n, K) and returns u (n,), or u and its partial derivatives (n, K).
    alpha : tuple of floats
        Intercept and slope of eta, then the slopes of covariates if there are any.
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
    array([0.143, 0.73 , 0.189, 0.718])
    """

    uncertainty: str | Callable[..., object] = "margin"
    alpha: tuple[float, ...] = (0.0, 0.0)
    shape: float = 1.0
    share: float = 0.0
    free_shape: bool = False
    free_share: bool = False

    def __post_init__(self) -> None:
        as_measure(self.uncertainty)  # raises for unknown names
        if self.shape < 0.0 or np.isinf(self.shape):
            raise ValueError(f"shape={self.shape!r}: the Aranda-Ordaz shape is a finite number >= 0.")
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"share={self.share!r} must lie in [0, 1).")

    @classmethod
    def from_link(
        cls,
        link: str = FREE.name,
        shape: float | None = None,
        uncertainty: str | Callable[..., object] = "margin",
        mcar_share: bool = False,
        covariates: int = 0,
    ) -> "Mechanism":
        """A mechanism to be fitted, from the options of the estimators."""
        if link not in LINKS:
            raise ValueError(f"link={link!r} is not one of {', '.join(map(repr, LINKS))} or None.")
        fixed = LINKS[link].shape
        if shape is not None:
            if fixed is not None and shape != fixed:
                raise ValueError(
                    f"link={link!r} has shape {fixed:g}; for shape={shape:g} use link={FREE.name!r}, or leave shape=None."
                )
            if not (np.isfinite(shape) and shape >= 0):
                raise ValueError(f"shape={shape!r}: the Aranda-Ordaz shape is a finite number >= 0, or None.")
            fixed = float(shape)
        return cls(
            uncertainty=uncertainty,
            alpha=(0.0,) * (2 + covariates),
            shape=1.0 if fixed is None else fixed,
            share=0.05 if mcar_share else 0.0,
            free_shape=fixed is None,
            free_share=bool(mcar_share),
        )

    # For any classifier: scores have shape (n, K).

    def measure(self, scores: ArrayLike) -> Array:
        """The uncertainty u of every row."""
        return self.measured(_class_major_posterior(scores)).value

    def missing_proba(self, scores: ArrayLike, covariates: ArrayLike | None = None) -> Array:
        """The probability q that a row's label is missing; `covariates` (n, L) if the mechanism has any."""
        return self.missing_proba_of(self._drivers(self.measure(scores), covariates))

    def _drivers(self, u: Array, covariates: ArrayLike | None) -> Array:
        v = np.empty((len(u), 0)) if covariates is None else np.asarray(covariates, dtype=float)
        shape = (len(u), len(self.alpha) - 2)
        if v.shape != shape:
            raise ValueError(f"covariates must have shape {shape}, as alpha has slopes for them; got {v.shape}.")
        return drivers_of(u, v.T)

    def terms(self, scores: ArrayLike, missing: ArrayLike, covariates: ArrayLike | None = None) -> MissingnessTerms:
        """Log-likelihood of each row's missing indicator, its gradient and curvature with respect to the scores.

        The curvature is the expected one, ``E[g g'] = q'^2 / (q (1 - q)) d eta d eta'`` with ``g`` the gradient: positive
        semi-definite, so that Newton boosting and Fisher scoring can use it (or its diagonal). The observed second derivative
        may be indefinite.
        """
        p = _class_major_posterior(scores)
        m = _indicator(missing, p.tau.shape[1])
        measured = self.measured(p)
        with np.errstate(all="ignore"):
            eta = self.eta(self._drivers(measured.value, covariates))
            h = hazard(eta, self.shape)
            n = h.n + self.extra
            log_q, _, slope = log_missing(eta, n, h.slope, self.extra)
            loglik = np.where(m, log_q, -n)
            gradient = np.where(m, slope, -h.slope) * self.alpha[1] * measured.gradient
            information = slope * h.slope  # (d log q / d eta) (-d log(1-q) / d eta) = q'^2 / (q (1-q))
        d_eta = self.alpha[1] * measured.gradient
        curvature = np.einsum("n,kn,ln->nkl", information, d_eta, d_eta)
        return MissingnessTerms(loglik, np.ascontiguousarray(gradient.T), curvature)

    def profile(
        self,
        scores: ArrayLike,
        missing: ArrayLike,
        sample_weight: ArrayLike | None = None,
        covariates: ArrayLike | None = None,
    ) -> "Mechanism":
        """Maximise L_miss over alpha, and over the shape and share if they are free, for given scores."""
        drivers = self._drivers(self.measure(scores), covariates)
        m = _indicator(missing, drivers.shape[1])
        w = np.ones(len(m)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        rate = float(w @ m / w.sum())
        if not 0.0 < rate < 1.0:
            raise ValueError("missing is the same for every row: there is no mechanism to estimate.")
        order = np.argsort(m, kind="stable")
        starts = [self.starting(rate)]
        if self.free_shape:  # the shape's profile may have several maxima
            starts = [replace(self, shape=shape).starting(rate) for shape in (0.0, 1.0, 10.0)]
        fits = [start.profile_of(drivers[:, order], int(np.sum(~m)), w[order]) for start in starts]
        return max(fits, key=lambda mechanism: float(w @ mechanism.terms(scores, m, covariates).loglik))

    # For fits: class-major blocks with the labelled rows first.

    @property
    def measured(self) -> Measure:
        """The measure of uncertainty, a function of a `Posterior`."""
        return as_measure(self.uncertainty)

    @property
    def extra(self) -> float:
        """Hazard of the share of labels missing completely at random."""
        return float(-np.log1p(-self.share)) if self.share else 0.0

    def eta(self, drivers: Array) -> Array:
        """The linear predictor."""
        eta = self.alpha[1] * drivers[0, :]
        eta += self.alpha[0]
        for i, slope in enumerate(self.alpha[2:], start=1):
            eta += slope * drivers[i, :]
        return eta

    def missing_proba_of(self, drivers: Array) -> Array:
        """q for rows with these drivers."""
        with np.errstate(all="ignore"):
            return -namespace(drivers).expm1(-hazard(self.eta(drivers), self.shape).n - self.extra)

    def block(
        self, p: Posterior, covariates: Array | None, labelled: int, weight: Array | None = None
    ) -> MechanismSums:
        """Log-likelihood and gradients of a block whose first `labelled` rows are labelled."""
        u, gradient = self.measured(p)
        drivers = in_double(drivers_of(u, covariates))  # the link is accurate in double precision only
        weight = None if weight is None else in_double(weight)
        loglik, hazard_slope, eta_slope, h = self._rows(drivers, labelled, weight)
        gradient *= in_precision_of(gradient, self.alpha[1] * eta_slope)
        alpha, shape, share = self._score(drivers, hazard_slope, eta_slope, h)
        return MechanismSums(loglik, gradient, alpha, shape, share)

    def _rows(self, drivers: Array, labelled: int, weight: Array | None) -> tuple[float, Array, Array, Hazard]:
        eta = self.eta(drivers)
        h = hazard(eta, self.shape, self.free_shape)
        n = h.n + self.extra if self.share else h.n
        log_q, against, slope = log_missing(eta[labelled:], n[labelled:], h.slope[labelled:], self.extra)
        xp = namespace(eta)
        hazard_slope, eta_slope = xp.empty_like(eta), xp.empty_like(eta)
        hazard_slope[:labelled] = -1.0
        hazard_slope[labelled:] = against
        eta_slope[:labelled] = -h.slope[:labelled]
        eta_slope[labelled:] = slope
        if weight is None:
            return total(log_q) - total(n[:labelled]), hazard_slope, eta_slope, h
        hazard_slope *= weight
        eta_slope *= weight
        value = total(log_q * weight[labelled:]) - total(n[:labelled] * weight[:labelled])
        return value, hazard_slope, eta_slope, h

    def _score(self, drivers: Array, hazard_slope: Array, eta_slope: Array, h: Hazard) -> tuple[Array, float, float]:
        xp = namespace(eta_slope)
        slopes = along_rows(drivers, eta_slope[None, :])
        alpha = xp.concat([xp.reshape(total(eta_slope), (1,)), xp.reshape(slopes, (drivers.shape[0],))])
        shape = 0.0 if h.shape_slope is None else total(hazard_slope * h.shape_slope)
        share = total(hazard_slope) / (1.0 - self.share) if self.free_share else 0.0
        return alpha, shape, share

    def starting(self, rate: float) -> "Mechanism":
        """The mechanism with slope zero and this rate of missing labels."""
        rate = (rate - self.share) / (1.0 - self.share)
        level = eta_at(-np.log1p(-min(max(rate, 1e-3), 1.0 - 1e-9)), self.shape)
        return replace(self, alpha=(level, *[0.0] * (len(self.alpha) - 1)))

    def profile_of(self, drivers: Array, labelled: int, weight: Array | None = None) -> "Mechanism":
        """Maximise L_miss for given drivers, labelled rows first, starting from this mechanism."""

        def evaluate(mechanism: Mechanism) -> tuple[float, Array, float, float]:
            with np.errstate(all="ignore"):
                loglik, hazard_slope, eta_slope, h = mechanism._rows(drivers, labelled, weight)
                return loglik, *mechanism._score(drivers, hazard_slope, eta_slope, h)

        total = float(drivers.shape[1] if weight is None else weight.sum())
        with np.errstate(all="ignore"):
            return maximise(self, lambda mechanism: MechanismChart(mechanism, drivers, weight), evaluate, total)[0]

    def moved(self, alpha: Array) -> "Mechanism":
        """The same mechanism with another alpha."""
        return replace(self, alpha=tuple(alpha.tolist()))

    def loglik_of(self, drivers: Array, labelled: int, weight: Array | None) -> float:
        """L_miss of rows with these drivers, labelled rows first."""
        with np.errstate(all="ignore"):
            return self._rows(drivers, labelled, weight)[0]

    def information(self, drivers: Array, weight: Array) -> tuple[Array, Array]:
        """Expected information of (alpha, shape, share), and the mean drivers weighted by it.

        A row's information about its hazard ``n`` is ``1 / expm1(n)``.
        """
        with np.errstate(all="ignore"):
            h = hazard(self.eta(drivers), self.shape, True)
            by_share = np.full_like(h.n, 1.0 / (1.0 - self.share))
            slopes = np.vstack([h.slope, h.slope * drivers, np.asarray(h.shape_slope), by_share])
            information = self._information(slopes, h.n, weight)
        if information[0, 0] > 1e-300:
            return information, information[0, 1 : 1 + len(drivers)] / information[0, 0]
        return information, drivers @ weight / weight.sum()

    def _information(self, slopes: Array, n: Array, weight: Array) -> Array:
        """Information of hazards ``n`` with slopes (p, n) in the parameters, summed over rows."""
        weighted = slopes * np.sqrt(odds_against(n + self.extra) * weight)
        weighted[~np.isfinite(weighted)] = 0.0
        return weighted @ weighted.T

    def scored(self, drivers: Array, labelled: int, weight: Array) -> "Mechanism":
        """One step of Fisher scoring in alpha, halved until L_miss increases; stays moderate if there is no maximum."""
        with np.errstate(all="ignore"):
            loglik, hazard_slope, eta_slope, h = self._rows(drivers, labelled, weight)
            score = self._score(drivers, hazard_slope, eta_slope, h)[0]
            information = self._information(np.vstack([h.slope, h.slope * drivers]), h.n, weight)
        step = np.linalg.lstsq(information, score, rcond=1e-10)[0]
        for _ in range(20):
            moved = self.moved(np.array(self.alpha) + step)
            if moved.loglik_of(drivers, labelled, weight) > loglik:
                return moved
            step = 0.5 * step
        return self


def drivers_of(u: Array, covariates: Array | None) -> Array:
    """Stack the uncertainty (n,) and the covariates (L, n)."""
    if covariates is None or not covariates.shape[0]:
        return u[None, :]
    return namespace(u).concat([u[None, :], covariates])


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
