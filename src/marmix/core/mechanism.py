"""The missingness mechanism: the probability that a label is missing, as a function of the classifier's uncertainty.

    eta_j = alpha_0 + alpha_1 u_j + gamma . v_j,    q_j = a + (1 - a) g(eta_j; shape),
    L_miss = sum_j  m_j log q_j + (1 - m_j) log(1 - q_j)

with covariates v if labels are also missing for other reasons. u and v together are the *drivers* (1 + L, n) of the mechanism.

Labels that are missing because of the label itself (not at random) have a *label term* delta_k in eta. Then q differs by class,

    eta_jk = alpha_0 + alpha_1 u_j + gamma . v_j + delta_k,
    L_miss = sum_j  (1 - m_j) log(1 - q_{j z_j}) + m_j log sum_k tau_jk q_jk

and the label of an unlabelled row has the probabilities r_jk, proportional to tau_jk q_jk. The drivers then end with the log
probabilities (K, n) of the classes: log tau, or 0 for the class of a labelled row and minus infinity for the others.

`Mechanism` needs only scores (log posteriors up to a constant per row) and the missing indicator, so it can be combined with
any classifier, such as gradient boosting or a neural network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marmix.core.arrays import (
    LARGEST,
    Array,
    Bools,
    along_rows,
    detached,
    in_double,
    in_precision_of,
    like,
    namespace,
    on_device,
    on_host,
    quiet,
    to_host,
    total,
)
from marmix.core.charts import MechanismChart, maximise
from marmix.core.links import FREE, LINKS, Hazard, eta_at, hazard, log_missing, odds_against
from marmix.core.measures import Measure, MeasureLike, Posterior, as_measure, log_tau, posterior

_BLOCK = 65536  # rows whose information is computed at once
# Twice the rise of L_miss per row that no step of Fisher scoring is made for.
_NO_GAIN = 1e-8


class MissingnessTerms(NamedTuple):
    """Log-likelihood of each row's missing indicator, with its derivatives in the row's scores."""

    loglik: Array  # (n,)
    gradient: Array  # (n, K)
    curvature: Array  # (n, K, K)


class MechanismSums(NamedTuple):
    """Log-likelihood and gradients of a block; the gradient in the scores is per row, the rest are sums."""

    loglik: float
    gradient: Array  # (K, n), with respect to the scores
    alpha: Array  # (2 + L,), followed by those of free label terms
    shape: float
    share: float


class _Terms(NamedTuple):
    """L_miss of rows and its score."""

    loglik: float
    eta_slope: Array  # (n,), derivative in a constant added to eta
    score: tuple[Array, float, float]  # in (alpha, free label terms), shape and share
    proba: Array | None = None  # (K, unlabelled rows), probabilities r of the missing labels, if there is a label term


@dataclass(frozen=True)
class Mechanism:
    r"""Probability of a missing label as a function of a classifier's uncertainty, for classifiers of any kind.

    .. math::

        q = a + (1 - a) \left[ 1 - (1 + \lambda e^\eta)^{-1 / \lambda} \right], \qquad
        \eta = \alpha_0 + \alpha_1 u + \gamma \cdot v + \delta_y

    with the uncertainty u of the class probabilities, covariates v, a shape lambda (1 is the logit link) and a share a of labels
    missing completely at random. All but alpha is optional. The methods take scores: log posteriors, up to a constant per row.

    Parameters
    ----------
    measure : str or callable
        The measure u; `MARGaussianMixture` lists them. A callable takes the log posteriors (n, K) and returns u (n,), or u and
        its partial derivatives (n, K).
    alpha : tuple of floats
        Intercept and slope of eta, then the slopes of covariates if there are any.
    shape : float
        Aranda-Ordaz shape lambda >= 0: 0 is complementary log-log, 1 is logit.
    share : float
        Share a of labels missing completely at random, in [0, 1).
    free_shape, free_share : bool
        Whether `profile` estimates the shape and the share.
    label : tuple of floats
        The label term delta_k of each class, added to eta; empty if missingness depends on the features alone.
    free_label : bool
        Whether the label terms are estimated; that of the first class is then 0.

    See Also
    --------
    marmix.objectives.MissingnessObjective : the same as an objective for LightGBM and XGBoost.
    marmix.torch.MissingnessLoss : the same as a loss for neural networks.
    marmix.datasets.hide_labels : hide labels of any data by such a mechanism.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import Mechanism
    >>> scores = np.array([[0.0, 4.0], [0.1, 0.0], [3.0, 0.0], [0.0, 0.3]])
    >>> mechanism = Mechanism(alpha=(1.0, -3.0))
    >>> mechanism.missing_proba(scores).round(3)    # large for uncertain rows
    array([0.143, 0.73 , 0.189, 0.718])

    Estimate it from which labels are missing:

    >>> missing = [0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1]
    >>> estimate = Mechanism.from_link("logit").profile(np.tile(scores, (3, 1)), missing)
    >>> bool(estimate.alpha[1] < 0)
    True
    """

    measure: MeasureLike = "margin"
    alpha: tuple[float, ...] = (0.0, 0.0)
    shape: float = 1.0
    share: float = 0.0
    free_shape: bool = False
    free_share: bool = False
    label: tuple[float, ...] = ()
    free_label: bool = False

    def __post_init__(self) -> None:
        as_measure(self.measure)  # raises for unknown names
        if self.shape < 0.0 or np.isinf(self.shape):
            raise ValueError(f"shape={self.shape!r}: the Aranda-Ordaz shape is a finite number >= 0.")
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"share={self.share!r} must lie in [0, 1).")
        if self.label and (len(self.label) < 2 or not np.isfinite(self.label).all()):
            raise ValueError(f"label={self.label!r} must be one finite number per class, or empty.")
        if self.free_label and (not self.label or self.label[0] != 0.0):
            raise ValueError("free_label=True needs a label term for every class, that of the first class being 0.")

    @classmethod
    def from_link(
        cls,
        link: str = FREE.name,
        shape: float | None = None,
        measure: MeasureLike = "margin",
        mcar_share: bool = False,
        covariates: int = 0,
        label: tuple[float, ...] = (),
        free_label: bool = False,
    ) -> "Mechanism":
        """A mechanism to be fitted, from the options of the estimators.

        Parameters
        ----------
        link : {"aranda-ordaz", "logit", "cloglog"}, default="aranda-ordaz"
            How q depends on eta; "aranda-ordaz" has a shape to estimate.
        shape : float or None, default=None
            Fixed shape of the Aranda-Ordaz link.
        measure : str or callable, default="margin"
            The measure u.
        mcar_share : bool, default=False
            Whether to estimate a share of labels missing completely at random.
        covariates : int, default=0
            Number of covariates v.
        label : tuple of floats, default=()
            The label term of each class.
        free_label : bool, default=False
            Whether the label terms are estimated.

        Returns
        -------
        Mechanism
            With alpha zero; `profile` estimates it.
        """
        if link not in LINKS:
            raise ValueError(f"link={link!r} is not one of {', '.join(map(repr, LINKS))} or None.")
        fixed = LINKS[link].shape
        if shape is not None:
            if fixed is not None and shape != fixed:
                raise ValueError(
                    f"link={link!r} has shape {fixed:g}; for shape={shape:g} use link={FREE.name!r}, or leave shape=None."
                )
            fixed = float(shape)
        return cls(
            measure=measure,
            alpha=(0.0,) * (2 + covariates),
            shape=1.0 if fixed is None else fixed,
            share=0.05 if mcar_share else 0.0,
            free_shape=fixed is None,
            free_share=bool(mcar_share),
            label=label,
            free_label=free_label,
        )

    # For any classifier: scores have shape (n, K). torch and CuPy arrays give arrays of the same library, device and
    # dtype, computed in double precision; everything else gives NumPy arrays.

    def uncertainty(self, scores: ArrayLike) -> Array:
        """The uncertainty u of every row.

        Parameters
        ----------
        scores : array of shape (n, K)
            Log posteriors, up to a constant per row.

        Returns
        -------
        array of shape (n,)
            In the units of the measure.
        """
        s = _checked_scores(scores)
        return in_precision_of(s, self._measured_rows(s))

    def missing_proba(self, scores: ArrayLike, covariates: ArrayLike | None = None) -> Array:
        """The probability q that a row's label is missing.

        Parameters
        ----------
        scores : array of shape (n, K)
            Log posteriors, up to a constant per row.
        covariates : array of shape (n, L), optional
            Covariates of the mechanism, if it has any.

        Returns
        -------
        array of shape (n,)
            torch and CuPy scores give an array of the same library, device and dtype.
        """
        s = _checked_scores(scores)
        if self.label and len(self.label) != s.shape[1]:
            raise ValueError(f"the label term has {len(self.label)} classes, but scores has {s.shape[1]}.")
        with quiet():
            p = posterior(_class_major(s))
            drivers = self.drivers(p, self._checked_covariates(covariates, s))
        return in_precision_of(s, self.missing_proba_of(drivers))

    def _measured_rows(self, s: Array) -> Array:
        """The uncertainty of rows with scores (n, K), in double precision."""
        with quiet():
            return self.measured(posterior(_class_major(s))).value

    def _checked_covariates(self, covariates: ArrayLike | None, s: Array) -> Array | None:
        """Covariates (L, n) in double precision, on the device of the scores; None if there are none."""
        expected = (s.shape[0], len(self.alpha) - 2)
        v = None if covariates is None else in_double(_beside(covariates, s))
        shape = (s.shape[0], 0) if v is None else tuple(v.shape)
        if shape != expected:
            raise ValueError(f"covariates must have shape {expected}, as alpha has slopes for them; got {shape}.")
        return None if v is None else v.T

    def terms(
        self,
        scores: ArrayLike,
        missing: ArrayLike,
        covariates: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> MissingnessTerms:
        r"""Log-likelihood of each row's missing indicator, its gradient and curvature with respect to the scores s.

        .. math::

            l = m \log q + (1 - m) \log (1 - q), \qquad
            E \left[ \frac{\partial l}{\partial s} \frac{\partial l}{\partial s}^T \right] =
            \frac{(\partial q / \partial \eta)^2}{q (1 - q)} \frac{\partial \eta}{\partial s} \frac{\partial \eta}{\partial s}^T

        The curvature is the expected one: positive semi-definite, so that Newton boosting and Fisher scoring can use it (or its
        diagonal). The observed second derivative may be indefinite.

        Parameters
        ----------
        scores : array of shape (n, K)
            Log posteriors, up to a constant per row.
        missing : array of shape (n,)
            1 or True where the label is missing.
        covariates : array of shape (n, L), optional
            Covariates of the mechanism, if it has any.
        sample_weight : array of shape (n,), optional
            Factor of each row's log-likelihood, gradient and curvature.

        Returns
        -------
        MissingnessTerms
            `loglik` (n,), `gradient` (n, K) and `curvature` (n, K, K). torch and CuPy scores give arrays of the same library,
            device and dtype, computed in double precision.
        """
        self.require_no_label_term("terms")
        s = _checked_scores(scores)
        m, v = _indicator(missing, s), self._checked_covariates(covariates, s)
        w = None if sample_weight is None else _checked_weight(sample_weight, s)
        with quiet():
            u, d_eta = self.measured(posterior(_class_major(s)))
            d_eta *= self.alpha[1]
            loglik, slope, information = self.indicator_terms(self.eta(drivers_of(u, v)), m, w)
            curvature = (information * d_eta).T[:, :, None] * d_eta.T[:, None, :]
        return MissingnessTerms(*(in_precision_of(s, part) for part in (loglik, (slope * d_eta).T, curvature)))

    def indicator_terms(self, eta: Array, m: Bools, weight: Array | None) -> tuple[Array, Array, Array]:
        """Each row's log-likelihood, its slope in eta, and the expected information about eta."""
        xp = namespace(eta)
        h = hazard(eta, self.shape)
        n = h.n + self.extra if self.share else h.n
        log_q, _, slope = log_missing(eta, n, h.slope, self.extra)
        loglik, eta_slope = xp.where(m, log_q, -n), xp.where(m, slope, -h.slope)
        information = slope * h.slope  # (d log q / d eta) (-d log(1-q) / d eta) = q'^2 / (q (1-q))
        if weight is None:
            return loglik, eta_slope, information
        return loglik * weight, eta_slope * weight, information * weight

    def profile(
        self,
        scores: ArrayLike,
        missing: ArrayLike,
        sample_weight: ArrayLike | None = None,
        covariates: ArrayLike | None = None,
    ) -> "Mechanism":
        """Estimate alpha, and the shape and share if they are free, by maximum likelihood for given scores.

        Parameters
        ----------
        scores : array of shape (n, K)
            Log posteriors, up to a constant per row.
        missing : array of shape (n,)
            1 or True where the label is missing.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        covariates : array of shape (n, L), optional
            Covariates of the mechanism, if it has any.

        Returns
        -------
        Mechanism
            With the estimates.
        """
        self.require_no_label_term("profile")
        s = _checked_scores(scores)
        m = to_host(_indicator(missing, s))
        drivers = to_host(drivers_of(self._measured_rows(s), self._checked_covariates(covariates, s)))
        w = np.ones(len(m)) if sample_weight is None else to_host(_checked_weight(sample_weight, s))
        rate = float(w @ m / w.sum())
        if not 0.0 < rate < 1.0:
            raise ValueError("missing is the same for every row: there is no mechanism to estimate.")
        order = np.argsort(m, kind="stable")
        drivers, w, labelled = drivers[:, order], w[order], int(np.sum(~m))
        starts = [self.starting(rate)]
        if self.free_shape:  # the shape's profile may have several maxima
            starts = [replace(self, shape=shape).starting(rate) for shape in (0.0, 1.0, 10.0)]
        fits = [start.profile_of(drivers, labelled, w) for start in starts]
        return max(fits, key=lambda mechanism: mechanism.loglik_of(drivers, labelled, w))

    def require_no_label_term(self, what: str) -> None:
        """Raise if the mechanism has a label term, which `what` cannot use: it sees only which labels are missing."""
        if self.label:
            raise ValueError(f"{what} cannot use a label term (delta): use a mechanism or a fit without one.")

    # For fits: class-major blocks with the labelled rows first.

    @property
    def n_free_labels(self) -> int:
        """Number of label terms to estimate."""
        return len(self.label) - 1 if self.free_label else 0

    def drivers(self, p: Posterior, covariates: Array | None, cuts: Sequence[int] = ()) -> Array:
        """The drivers of a block; with a label term, rows ``cuts[k]:cuts[k + 1]`` are known to be of class k (modulo K)."""
        return self._drivers(self.measured(p).value, p, covariates, cuts)

    def _drivers(self, u: Array, p: Posterior, covariates: Array | None, cuts: Sequence[int]) -> Array:
        drivers = drivers_of(u, covariates)
        if not self.label:
            return drivers
        log_class = log_tau(p)
        if cuts:
            log_class[:, : cuts[-1]] = -np.inf
        for k, (a, b) in enumerate(pairwise(cuts)):
            log_class[k % log_class.shape[0], a:b] = 0.0
        return namespace(u).concat([drivers, log_class])

    @property
    def measured(self) -> Measure:
        """The measure of uncertainty, a function of a `Posterior`."""
        return as_measure(self.measure)

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
        """q for rows with these drivers; with a label term, its mean over the classes."""
        xp = namespace(drivers)
        with quiet():
            if not self.label:
                return -xp.expm1(-hazard(self.eta(drivers), self.shape).n - self.extra)
            return xp.sum(xp.exp(drivers[len(self.alpha) - 1 :, :]) * self.missing_proba_by_class(drivers), axis=0)

    def missing_proba_by_class(self, drivers: Array) -> Array:
        """q (K, n) for rows with these drivers if they are of each class, with a label term."""
        with quiet():
            return -namespace(drivers).expm1(-hazard(self._eta_by_class(drivers), self.shape).n - self.extra)

    def _eta_by_class(self, drivers: Array) -> Array:
        """The linear predictor (K, n) of each class, with a label term."""
        delta = like(np.array(self.label), drivers)
        return self.eta(drivers)[None, :] + delta[:, None]

    def unlabelled(self, p: Posterior, covariates: Array | None) -> Posterior:
        """Probabilities of the labels of rows that are known to be unlabelled: the posteriors, unless there is a label term."""
        if not self.label:
            return p
        eta = self._eta_by_class(self.drivers(p, covariates))
        with quiet():
            h = hazard(eta, self.shape)
            log_q = log_missing(eta, h.n + self.extra, h.slope, self.extra)[0]
            return posterior(p.scores + log_q)

    def block(
        self,
        p: Posterior,
        covariates: Array | None,
        labelled: int,
        weight: Array | None = None,
        cuts: Sequence[int] = (),
    ) -> MechanismSums:
        """Log-likelihood and gradients of a block whose first `labelled` labels were not missing; `cuts` as in `Block`."""
        u, gradient = self.measured(p)
        terms = self._terms(self._drivers(u, p, covariates, cuts), labelled, weight)
        gradient *= self.alpha[1] * terms.eta_slope
        if terms.proba is not None:
            excess = terms.proba - p.tau[:, labelled:]
            excess[:, : max(cuts[-1] - labelled, 0)] = 0.0  # asked rows, whose class is known
            gradient[:, labelled:] += excess if weight is None else excess * weight[labelled:]
        return MechanismSums(terms.loglik, gradient, *terms.score)

    def _terms(self, drivers: Array, labelled: int, weight: Array | None) -> _Terms:
        """L_miss of rows with these drivers, labelled rows first."""
        if self.label:
            return self._label_terms(drivers, labelled, weight)
        loglik, hazard_slope, eta_slope, h = self._rows(drivers, labelled, weight)
        return _Terms(loglik, eta_slope, self._score(drivers, hazard_slope, eta_slope, h))

    def _label_terms(self, drivers: Array, labelled: int, weight: Array | None) -> _Terms:
        """L_miss with a label term: the classes of labelled rows are known, those of other rows have probabilities."""
        xp, known = namespace(drivers), slice(0, labelled)
        w = xp.ones_like(drivers[0, :]) if weight is None else weight
        slopes, log_class = drivers[: len(self.alpha) - 1, :], drivers[len(self.alpha) - 1 :, :]
        given, eta_by_class = xp.exp(log_class[:, known]), self._eta_by_class(drivers[:, labelled:])
        eta = self.eta(drivers[:, known]) + like(np.array(self.label), drivers) @ given
        h = hazard(eta, self.shape, self.free_shape)
        missing = hazard(eta_by_class, self.shape, self.free_shape)
        log_q, against, slope = log_missing(eta_by_class, missing.n + self.extra, missing.slope, self.extra)
        joint = log_class[:, labelled:] + log_q
        top = xp.max(joint, axis=0) if joint.shape[1] else joint[0, :]
        proba = xp.exp(joint - top)
        norm = xp.sum(proba, axis=0)
        proba = proba / norm
        loglik = total((top + xp.log(norm)) * w[labelled:]) - total((h.n + self.extra) * w[known])
        by_class = proba * slope * w[labelled:]
        given_slope = -h.slope * w[known]
        eta_slope = xp.concat([given_slope, xp.sum(by_class, axis=0)])
        parts = [_by_alpha(slopes, eta_slope)]
        if self.free_label:
            parts.append((total(given * given_slope, axis=1) + total(by_class, axis=1))[1:])
        hazard_slope = proba * against * w[labelled:]
        shape = share = 0.0
        if h.shape_slope is not None and missing.shape_slope is not None:
            shape = total(hazard_slope * missing.shape_slope) - total(h.shape_slope * w[known])
        if self.free_share:
            share = (total(hazard_slope) - total(w[known])) / (1.0 - self.share)
        return _Terms(loglik, eta_slope, (xp.concat(parts), shape, share), proba)

    def _rows(self, drivers: Array, labelled: int, weight: Array | None) -> tuple[float, Array, Array, Hazard]:
        eta = self.eta(drivers)
        h = hazard(eta, self.shape, self.free_shape)
        n = h.n + self.extra if self.share else h.n
        log_q, against, slope = log_missing(eta[labelled:], n[labelled:], h.slope[labelled:], self.extra)
        xp = namespace(eta)
        hazard_slope, eta_slope = xp.empty_like(eta), xp.empty_like(eta)
        hazard_slope[:labelled], hazard_slope[labelled:] = -1.0, against
        eta_slope[:labelled], eta_slope[labelled:] = -h.slope[:labelled], slope
        if weight is None:
            return total(log_q) - total(n[:labelled]), hazard_slope, eta_slope, h
        hazard_slope *= weight
        eta_slope *= weight
        value = total(log_q * weight[labelled:]) - total(n[:labelled] * weight[:labelled])
        return value, hazard_slope, eta_slope, h

    def _score(self, drivers: Array, hazard_slope: Array, eta_slope: Array, h: Hazard) -> tuple[Array, float, float]:
        shape = 0.0 if h.shape_slope is None else total(hazard_slope * h.shape_slope)
        share = total(hazard_slope) / (1.0 - self.share) if self.free_share else 0.0
        return _by_alpha(drivers, eta_slope), shape, share

    def starting(self, rate: float) -> "Mechanism":
        """The mechanism with slope zero and this rate of missing labels."""
        rate = (rate - self.share) / (1.0 - self.share)
        level = eta_at(-np.log1p(-min(max(rate, 1e-3), 1.0 - 1e-9)), self.shape)
        return replace(self, alpha=(level, *[0.0] * (len(self.alpha) - 1)))

    def profile_of(self, drivers: Array, labelled: int, weight: Array | None = None) -> "Mechanism":
        """Maximise L_miss for given drivers, labelled rows first, starting from this mechanism."""

        def evaluate(mechanism: Mechanism) -> tuple[float, Array, float, float]:
            with quiet():
                terms = mechanism._terms(drivers, labelled, weight)
                return terms.loglik, *terms.score

        total = float(drivers.shape[1] if weight is None else weight.sum())
        with quiet():
            return maximise(self, lambda mechanism: MechanismChart(mechanism, drivers, weight), evaluate, total)[0]

    def moved(self, alpha: Array) -> "Mechanism":
        """The same mechanism with another alpha."""
        return replace(self, alpha=tuple(alpha.tolist()))

    def loglik_of(self, drivers: Array, labelled: int, weight: Array | None) -> float:
        """L_miss of rows with these drivers, labelled rows first."""
        with quiet():
            return (
                self._terms(drivers, labelled, weight).loglik
                if self.label
                else self._rows(drivers, labelled, weight)[0]
            )

    def information(self, drivers: Array, weight: Array) -> tuple[Array, Array]:
        """Expected information of (alpha, free label terms, shape, share), and the mean drivers weighted by it.

        A row's information about its hazard ``n`` is ``1 / expm1(n)``. With a label term it is averaged over the row's classes,
        as if the labels were known.
        """
        slopes = len(self.alpha) - 1
        information = np.zeros((len(self.alpha) + self.n_free_labels + 2,) * 2)
        with quiet():
            for start in range(0, drivers.shape[1], _BLOCK):
                part = slice(start, start + _BLOCK)
                information += self._information(drivers[:, part], weight[part])
        if information[0, 0] > 1e-300:
            return information, information[0, 1 : 1 + slopes] / information[0, 0]
        return information, drivers[:slopes] @ weight / weight.sum()

    def _hazard_slopes(self, h: Hazard, drivers: Array, of_class: int | None = None) -> Array:
        """Slopes of hazards in (alpha, free label terms, shape, share)."""
        by_label = np.zeros((self.n_free_labels, len(h.n)))
        if of_class:
            by_label[of_class - 1 : of_class] = h.slope
        by_share = np.full_like(h.n, 1.0 / (1.0 - self.share))
        return np.vstack([h.slope, h.slope * drivers, by_label, np.asarray(h.shape_slope), by_share])

    def _information(self, drivers: Array, weight: Array) -> Array:
        """Information of (alpha, free label terms, shape, share), summed over a block of rows."""
        if not self.label:
            h = hazard(self.eta(drivers), self.shape, True)
            return self._squares(self._hazard_slopes(h, drivers), h.n, weight)
        slopes, proba = drivers[: len(self.alpha) - 1], np.exp(drivers[len(self.alpha) - 1 :])
        hazards = [hazard(eta, self.shape, True) for eta in self._eta_by_class(drivers)]
        squares = (
            self._squares(self._hazard_slopes(h, slopes, k), h.n, weight * proba[k]) for k, h in enumerate(hazards)
        )
        return np.sum(list(squares), axis=0)

    def _squares(self, slopes: Array, n: Array, weight: Array) -> Array:
        """Information of hazards ``n`` with slopes (p, n) in the parameters, summed over rows."""
        weighted = slopes * np.sqrt(odds_against(n + self.extra) * weight)
        weighted[~np.isfinite(weighted)] = 0.0
        weighted = np.clip(weighted, -LARGEST, LARGEST)  # that about the share has no bound as the hazard vanishes
        return weighted @ weighted.T

    def scored(self, drivers: Array, labelled: int, weight: Array) -> "Mechanism":
        """One step of Fisher scoring in alpha, halved until L_miss increases; stays moderate if there is no maximum."""
        size = len(self.alpha)
        with quiet():
            terms = self._terms(drivers, labelled, weight)
            score, information = terms.score[0][:size], self.information(drivers, weight)[0][:size, :size]
        step = np.linalg.lstsq(information, score, rcond=1e-10)[0]
        if score @ step < _NO_GAIN * weight.sum():
            return self
        for _ in range(20):
            moved = self.moved(np.array(self.alpha) + step)
            if moved.loglik_of(drivers, labelled, weight) > terms.loglik:
                return moved
            step = 0.5 * step
        return self


def _by_alpha(drivers: Array, eta_slope: Array) -> Array:
    """The score in alpha from the slopes of rows in eta."""
    xp = namespace(eta_slope)
    slopes = along_rows(drivers, eta_slope[None, :])
    return xp.concat([xp.reshape(total(eta_slope), (1,)), xp.reshape(slopes, (drivers.shape[0],))])


def drivers_of(u: Array, covariates: Array | None) -> Array:
    """Stack the uncertainty (n,) and the covariates (L, n)."""
    if covariates is None or not covariates.shape[0]:
        return u[None, :]
    return namespace(u).concat([u[None, :], covariates])


def _checked_scores(scores: Any) -> Array:
    """Scores (n, K) as a NumPy array, or as they are on their device."""
    s = detached(scores) if on_device(scores) else np.asarray(scores)
    if s.ndim != 2 or s.shape[1] < 2:
        raise ValueError(f"scores must have shape (n, K) with K >= 2 classes, not {tuple(s.shape)}.")
    return s


def _class_major(s: Any) -> Array:
    """Scores (n, K) as an array (K, n) in double precision."""
    if on_host(s):
        return np.ascontiguousarray(s.T, dtype=float)
    return in_double(s.T)


def _beside(values: Any, s: Any) -> Any:
    """Values as an array of the library and device of the scores, in their own dtype."""
    if on_host(s):
        return to_host(values) if on_device(values) else np.asarray(values)
    return values if on_device(values) else namespace(s).asarray(np.asarray(values), device=s.device)


def _checked_weight(weight: Any, s: Array) -> Array:
    w = in_double(_beside(weight, s))
    if tuple(w.shape) != (s.shape[0],):
        raise ValueError(f"sample_weight must be {s.shape[0]} values, one per row of scores, not {tuple(w.shape)}.")
    return w


def _indicator(missing: Any, s: Array) -> Bools:
    """The missing indicator as an array of booleans, on the device of the scores."""
    m = _beside(missing, s)
    xp = namespace(m)
    flags = m if m.dtype == xp.bool else m == 1
    if tuple(m.shape) != (s.shape[0],) or not (flags is m or bool(xp.all(flags | (m == 0)))):
        raise ValueError(f"missing must be {s.shape[0]} values 0/1 or False/True, one per row of scores.")
    return flags
