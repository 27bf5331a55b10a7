r"""The loss of partially labelled rows as an objective for gradient boosting.

With class scores :math:`s_{jk}`, posteriors :math:`\tau_j = \mathrm{softmax}(s_j)` and :math:`q_j` the probability that
the label of row j is missing (:math:`m_j = 1`),

.. math::

    \text{loss} = - \sum_{j\ \text{labelled}} \log \tau_{j y_j}
    - w \sum_j \left[ m_j \log q_j + (1 - m_j) \log (1 - q_j) \right]

is the conditional likelihood of the labels, plus `mechanism_weight` w times that of the missing indicators. Boosting
libraries need its gradient and the diagonal of its curvature in the scores; both losses share one softmax.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marmix.core.arrays import AnyArray, Array, Bools, Ints, quiet, unmasked
from marmix.core.labels import asked_labels, encode_labels
from marmix.core.links import hazard, log_missing
from marmix.core.measures import log_tau, posterior
from marmix.core.mechanism import Mechanism, drivers_of
from marmix.core.workers import available, ordered
from marmix.engines.checks import check_finite, checked_weights
from marmix.engines.rows import slices

# A leaf of unlabelled rows has next to no curvature where the uncertainty is flat: this much is added to each row, times w.
CURVATURE_FLOOR = 0.02
# Largest slope of the mechanism while trees are grown; trees can separate the missing indicators, and the slope would diverge.
LARGEST_SLOPE = 12.0
# Largest step of a leaf before shrinkage, for `max_delta_step` of LightGBM and XGBoost.
LARGEST_STEP = 1.0
# The mechanism is profiled every so many rounds, on at most so many rows; threads are used from so many rows on.
_PROFILE_EVERY, _PROFILE_ROWS, _MANY_ROWS = 5, 2**11, 2**16
_BLOCK = 2**14  # rows whose arrays fit in a cache


__all__ = ["Losses", "MissingnessObjective"]


class Losses(NamedTuple):
    """The two parts of the loss, each minus a log-likelihood summed over rows.

    Attributes
    ----------
    labels : float
        Loss of the labels.
    missing : float
        Loss of the missing indicators, not multiplied by `mechanism_weight`; 0 without a mechanism.

    See Also
    --------
    MissingnessObjective.losses : Returns them.

    Examples
    --------
    >>> from marmix.objectives import MissingnessObjective
    >>> labels, missing = MissingnessObjective(["a", "b", None, "b"]).losses([-1.0, 2.0, 0.1, 3.0])
    >>> print(f"labels {labels:.3f}, missing indicators {missing:.3f}")
    labels 0.489, missing indicators 2.249
    """

    labels: float
    missing: float


class LossRows(NamedTuple):
    """Rows of a loss: class codes, -1 if unknown; whether the label was missing; weights and covariates (L, n), if any."""

    z: Ints
    missing: Bools
    weight: Array | None = None
    covariates: Array | None = None

    def take(self, rows: Any) -> "LossRows":
        """Some of the rows."""
        w, v = self.weight, self.covariates
        w, v = None if w is None else w[rows], None if v is None else v[:, rows]
        return LossRows(self.z[rows], self.missing[rows], w, v)

    @property
    def counts(self) -> Array:
        """The weights, one by default."""
        return np.ones(len(self.z)) if self.weight is None else self.weight


class MissingnessObjective:
    r"""Loss of labels and missing indicators, with the gradient and curvature that boosting libraries ask for.

    With class scores s_j, posteriors :math:`\tau_j = \mathrm{softmax}(s_j)` and the probability q_j that the label is
    missing (:math:`m_j = 1`), the loss is

    .. math::

        - \sum_{j\ \text{labelled}} \log \tau_{j y_j} - w \sum_j \left[ m_j \log q_j + (1 - m_j) \log (1 - q_j) \right].

    Use one object for one training run: it counts the rounds and re-estimates the mechanism as the scores change.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of the training rows, in their order; missing where -1, NaN, None or pandas.NA.
    mechanism : Mechanism or None, default=None
        Measure, link and what is estimated besides alpha, usually from `Mechanism.from_link`; by default the entropy
        with a logit link.
    mechanism_weight : float, default=0.03
        The weight w of the missing indicators. Trees need a small one.
    classes : array-like or None, default=None
        The classes, in the order of the scores; by default the sorted labels.
    sample_weight : array-like of shape (n,) or None, default=None
        Weights of the rows.
    missing : array-like of bool, shape (n,), or None, default=None
        Whether the label of each row was missing when the data came; by default where y is missing.
    covariates : array-like of shape (n, L) or None, default=None
        Covariates of the mechanism.
    label_rounds : int, default=10
        Rounds that use the labels only, so that the first estimate of the mechanism sees a classifier.

    Attributes
    ----------
    classes : array of shape (K,)
        The classes, in the order of the scores.
    mechanism : Mechanism or None
        The current estimate; None if all labels are missing or none is.
    rounds : int
        Number of rounds so far.
    baseline : array of shape (1,) for two classes, else (K,)
        Scores before the first round: the log odds of the second class among the labels, or the log class shares.

    Raises
    ------
    ValueError
        If y, weights or covariates do not fit together, or the mechanism has a label term.

    See Also
    --------
    marmix.MARBoostingClassifier : Does all this, chooses the settings, and predicts classes.
    marmix.torch.MissingnessLoss : The same loss for networks.

    Examples
    --------
    Train LightGBM on partially labelled rows. Trees start from `init_score`, so `baseline` is added to what they
    predict:

    >>> import lightgbm
    >>> import numpy as np
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.objectives import MissingnessObjective
    >>> rows = make_mar_mixture(1000, random_state=0)
    >>> objective = MissingnessObjective(rows.target)
    >>> params = {"objective": objective.lightgbm, "max_delta_step": 1.0, "num_leaves": 4}
    >>> params |= {"verbose": -1, "num_threads": 1}
    >>> data = lightgbm.Dataset(rows.data, np.zeros(1000), init_score=objective.init_score)
    >>> booster = lightgbm.train(params, data, num_boost_round=40)
    >>> log_odds = booster.predict(rows.data) + objective.baseline
    >>> print(f"{np.mean((log_odds > 0) == rows.target_true):.1f}")
    0.8

    The mechanism was estimated along the way. Its slope is positive: uncertain rows lose their labels.

    >>> print(objective.rounds, objective.mechanism.alpha[1] > 0)
    40 True

    With three or more classes, also pass ``num_class=len(objective.classes)``. The same with XGBoost:

    .. code-block:: python

        data = xgboost.DMatrix(X, base_margin=objective.init_score)
        params = {"max_delta_step": 1.0, "max_depth": 2, "min_child_weight": 1e-3, "base_score": 0.0}
        booster = xgboost.train(params, data, num_boost_round=100, obj=objective.xgboost)
    """

    def __init__(
        self,
        y: Any,
        mechanism: Mechanism | None = None,
        mechanism_weight: float = 0.03,
        *,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        missing: ArrayLike | None = None,
        covariates: ArrayLike | None = None,
        label_rounds: int = 10,
    ):
        z, self.classes = encode_labels(y, classes)
        weight = None if sample_weight is None else checked_weights(z, unmasked(sample_weight))
        v = None if covariates is None else np.asarray(unmasked(covariates), dtype=float)
        if v is not None and (v.ndim != 2 or len(v) != len(z)):
            raise ValueError(f"covariates must have shape ({len(z)}, L), one row for each label; got {v.shape}.")
        if v is not None:
            check_finite(v, [str(i) for i in range(v.shape[1])])
        if mechanism is None:
            mechanism = Mechanism.from_link("logit", measure="entropy", covariates=0 if v is None else v.shape[1])
        mechanism.require_no_label_term("MissingnessObjective")
        if len(mechanism.alpha) != 2 + (0 if v is None else v.shape[1]):
            raise ValueError(
                f"the mechanism has {len(mechanism.alpha) - 2} slopes of covariates: give as many covariates."
            )
        asked = asked_labels(missing, z)
        was_missing = z < 0 if asked is None else (z < 0) | asked
        rows = LossRows(z, was_missing, weight, None if v is None else v.T)
        self._set_up(rows, len(self.classes), mechanism, mechanism_weight, label_rounds)

    @classmethod
    def of_rows(
        cls, rows: LossRows, n_classes: int, mechanism: Mechanism | None, mechanism_weight: float, label_rounds: int
    ) -> "MissingnessObjective":
        """Return the objective for class codes instead of labels, with the classes 0, 1, ...

        Parameters
        ----------
        rows : LossRows
            Codes, missing indicators, weights and covariates.
        n_classes : int
            Number of classes.
        mechanism : Mechanism or None
            As in the class; None means that no label is missing.
        mechanism_weight : float
            As in the class.
        label_rounds : int
            As in the class.

        Returns
        -------
        MissingnessObjective
            For one training run.
        """
        self = object.__new__(cls)
        self.classes = np.arange(n_classes)
        self._set_up(rows, n_classes, mechanism, mechanism_weight, label_rounds)
        return self

    def _set_up(
        self, rows: LossRows, n_classes: int, mechanism: Mechanism | None, mechanism_weight: float, label_rounds: int
    ) -> None:
        self.n_classes, self.vectors = n_classes, 1 if n_classes == 2 else n_classes
        self.mechanism_weight, self.label_rounds, self.rounds = float(mechanism_weight), int(label_rounds), 0
        self._rows, n = rows, len(rows.z)
        # of two classes the sides of the boundary, 0 without a label
        self._labels = np.array([1.0, -1.0, 0.0], dtype=np.float32)[rows.z] if n_classes == 2 else rows.z
        labelled = rows.z >= 0
        counts = np.bincount(rows.z[labelled], None if rows.weight is None else rows.weight[labelled], n_classes)
        shares = np.maximum(counts, 0.5) / np.maximum(counts, 0.5).sum()  # a fold may lack a class
        self.baseline = np.log(shares[1:] / shares[:1]) if n_classes == 2 else np.log(shares)
        if mechanism is not None and (rows.missing.all() or not rows.missing.any()):
            mechanism = None
        rate = float(np.average(rows.missing, weights=rows.weight))
        self.mechanism = None if mechanism is None else mechanism.starting(rate)
        self._estimated = False
        self._workers = min(available(), 4) if n >= _MANY_ROWS else 1
        self._gradient = np.empty((self.vectors, n), dtype=np.float32)  # the precision of the libraries
        self._curvature = np.empty_like(self._gradient)

    @property
    def init_score(self) -> Array:
        """The baseline for every row, an array of shape (n,) for two classes, otherwise (n, K)."""
        n = len(self._rows.z)
        return np.tile(self.baseline, (n, 1)) if self.vectors > 1 else np.full(n, self.baseline[0])

    def __deepcopy__(self, memo: dict[int, Any]) -> "MissingnessObjective":
        return self  # LightGBM copies its parameters: the rounds and the mechanism are those of the user's object

    # For the libraries

    def lightgbm(self, scores: Array, data: Any = None) -> tuple[Array, Array]:
        """Return gradient and curvature for ``lightgbm.train(params={"objective": ...})``, and count a round.

        Parameters
        ----------
        scores : array of shape (n,) for two classes, otherwise (n, K)
            The scores of this round.
        data : lightgbm.Dataset or None, default=None
            Ignored.

        Returns
        -------
        gradient, curvature : arrays of the shape of the scores
            In single precision. They are overwritten in the next round.
        """
        return self._next(scores)

    def xgboost(self, scores: Array, data: Any = None) -> tuple[Array, Array]:
        """Return gradient and curvature for ``xgboost.train(obj=...)``, and count a round.

        Parameters
        ----------
        scores : array of shape (n,) for two classes, otherwise (n, K)
            The scores of this round.
        data : xgboost.DMatrix or None, default=None
            Ignored.

        Returns
        -------
        gradient, curvature : arrays of the shape of the scores
            In single precision.
        """
        gradient, curvature = self._next(scores)
        return np.ascontiguousarray(gradient), np.ascontiguousarray(curvature)

    def _next(self, scores: Array) -> tuple[Any, Any]:
        by_class = self._class_major(scores)
        active = self.mechanism is not None and self.mechanism_weight > 0.0 and self.rounds >= self.label_rounds
        if active and (not self._estimated or (self.rounds - self.label_rounds) % _PROFILE_EVERY == 0):
            self._profile(by_class)
        self.rounds += 1
        self._fill(by_class, active, self._gradient, self._curvature)
        if self.vectors == 1:
            return self._gradient[0], self._curvature[0]
        return self._gradient.T, self._curvature.T

    def _class_major(self, scores: Array) -> Array:
        n = len(self._rows.z)
        expected = (n,) if self.vectors == 1 else (n, self.vectors)
        if scores.shape == (n * self.vectors,) and self.vectors > 1:  # LightGBM's own order
            return scores.reshape(self.vectors, n)
        if scores.shape != expected:
            raise ValueError(
                f"scores have shape {scores.shape}; {n} rows and {self.n_classes} classes need {expected}."
            )
        return scores[None, :] if self.vectors == 1 else scores.T

    def terms(self, scores: ArrayLike) -> tuple[Array, Array]:
        """Return gradient and curvature at given scores under the current mechanism, in double precision.

        It changes nothing, and does not count a round.

        Parameters
        ----------
        scores : array-like of shape (n,) for two classes, otherwise (n, K)
            Log odds of the second class, or scores of all classes.

        Returns
        -------
        gradient, curvature : arrays of the shape of the scores
            Derivatives of the loss of each row, and positive approximations of its second derivatives.
        """
        s = self._class_major(np.asarray(scores, dtype=float))
        gradient, curvature = np.empty(s.shape), np.empty(s.shape)
        self._fill(s, self.mechanism is not None and self.mechanism_weight > 0.0, gradient, curvature)
        return (gradient[0], curvature[0]) if self.vectors == 1 else (gradient.T, curvature.T)

    def losses(self, scores: ArrayLike) -> Losses:
        """Return the two losses at given scores under the current mechanism.

        Parameters
        ----------
        scores : array-like of shape (n,) for two classes, otherwise (n, K)
            Log odds of the second class, or scores of all classes.

        Returns
        -------
        Losses
            `labels` and `missing`, summed over rows.

        Examples
        --------
        >>> from marmix.objectives import MissingnessObjective
        >>> losses = MissingnessObjective(["a", "b", None, "b"]).losses([-1.0, 2.0, 0.1, 3.0])
        >>> print(f"labels {losses.labels:.3f}, missing indicators {losses.missing:.3f}")
        labels 0.489, missing indicators 2.249
        """
        return losses(self._all_scores(self._class_major(np.asarray(scores, dtype=float))), self._rows, self.mechanism)

    def _all_scores(self, by_class: Array) -> Array:
        return np.vstack([np.zeros_like(by_class), by_class]) if self.vectors == 1 else by_class

    def profile(self, scores: ArrayLike) -> Mechanism | None:
        """Estimate the mechanism from the scores of all rows, with a bounded slope, keep it and return it.

        Parameters
        ----------
        scores : array-like of shape (n,) for two classes, otherwise (n, K)
            Log odds of the second class, or scores of all classes.

        Returns
        -------
        Mechanism or None
            The estimate; None if all labels are missing or none is.
        """
        s = self._class_major(np.asarray(scores, dtype=float))
        self.mechanism = profiled(self.mechanism, self._all_scores(s), self._rows)
        return self.mechanism

    def _profile(self, by_class: Array) -> None:
        """Estimate the mechanism from a sample of rows: thoroughly the first time, by one step of Fisher scoring later."""
        assert self.mechanism is not None
        places, labelled = self._sample
        rows, scores = self._rows.take(places), by_class[:, places]
        if self.mechanism.measure == "entropy":
            u = _entropy(scores)
        else:
            u = self.mechanism.measured(posterior(self._all_scores(scores))).value
        drivers, weight = drivers_of(u, rows.covariates), rows.counts
        if self._estimated and not (self.mechanism.free_shape or self.mechanism.free_share):
            self.mechanism = _scored(self.mechanism, drivers, labelled, weight)
        else:
            mechanism = self.mechanism.profile_of(drivers, labelled, weight)
            self.mechanism, self._estimated = bounded(mechanism, drivers, labelled, weight), True

    @cached_property
    def _sample(self) -> tuple[Ints, int]:
        """Rows for the profile, evenly spread, those whose label was not missing first, and the number of these."""
        groups = [np.flatnonzero(~self._rows.missing), np.flatnonzero(self._rows.missing)]
        step = -(-len(self._rows.z) // _PROFILE_ROWS)
        groups = [group[(len(group) - 1) % step // 2 :: step] for group in groups]
        return np.concatenate(groups), len(groups[0])

    # Gradient and curvature, block by block, in the precision of the results

    def _fill(self, scores: Array, active: bool, gradient: AnyArray, curvature: AnyArray) -> None:
        mechanism, n = self.mechanism if active else None, len(self._rows.z)
        kernel = _two_classes if self.vectors == 1 else _many_classes

        def start() -> Callable[[slice], None]:
            space = np.empty((5, self.vectors, min(n, _BLOCK)), dtype=gradient.dtype)  # working memory of a thread

            def fill(part: slice) -> None:
                g, h, work = gradient[:, part], curvature[:, part], space[:, :, : part.stop - part.start]
                rows = self._rows.take(part)
                kernel(scores[:, part], self._labels[part], rows, mechanism, self.mechanism_weight, g, h, work)
                if rows.weight is not None:
                    g *= rows.weight
                    h *= rows.weight

            return fill

        if self._workers > 1:
            ordered(start, slices(n, _BLOCK), self._workers)
            return
        with quiet():
            for _ in map(start(), slices(n, _BLOCK)):
                pass


def _two_classes(
    scores: Array,
    labels: AnyArray,
    rows: LossRows,
    mechanism: Mechanism | None,
    w: float,
    gradient: AnyArray,
    curvature: AnyArray,
    space: AnyArray,
) -> None:
    """Fill in gradient and curvature of two classes in the log odds (1, n) of the second; `space` is working memory.

    `labels` are 1 in the first class, -1 in the second and 0 if missing.
    """
    f, size, lead, u, slope = space[:, 0]
    g, h = gradient[0], curvature[0]
    f[...] = scores[0]
    np.abs(f, out=size)
    np.negative(size, out=g)
    np.exp(g, out=g)
    np.add(g, 1.0, out=lead)
    np.reciprocal(lead, out=lead)  # the larger posterior
    np.multiply(g, lead, out=g)  # the smaller one
    np.multiply(lead, g, out=h)
    if mechanism is not None:
        if mechanism.measure == "entropy":
            np.multiply(size, g, out=u)
            np.log(lead, out=size)
            np.subtract(u, size, out=u)
            np.multiply(f, h, out=slope)
            slope *= -mechanism.alpha[1]
        else:
            value, by_score = mechanism.measured(posterior(np.vstack([np.zeros_like(scores), scores])))
            u[...] = value
            np.multiply(by_score[1], mechanism.alpha[1], out=slope)
    f *= labels  # positive where the other class leads
    np.copyto(g, lead, where=f >= 0.0)  # the posterior of the other class: |tau - 1{z}|
    g *= labels
    h *= labels
    h *= labels
    if mechanism is not None:
        by_eta, information = _by_eta(mechanism, drivers_of(u, rows.covariates), rows.missing)
        by_eta *= slope
        by_eta *= w
        g -= by_eta
        slope *= slope
        information *= slope
        information += CURVATURE_FLOOR
        information *= w
        h += information


def _many_classes(
    scores: Array,
    labels: AnyArray,
    rows: LossRows,
    mechanism: Mechanism | None,
    w: float,
    gradient: AnyArray,
    curvature: AnyArray,
    space: AnyArray,
) -> None:
    """Fill in gradient and curvature of three or more classes in their scores (K, n); `space` is working memory.

    The label part of the curvature has the factor K / (K - 1) of LightGBM's multi-class loss.
    """
    log_posterior, tau, slope = space[:3]
    K = len(scores)
    np.subtract(scores, scores.max(axis=0), out=log_posterior)
    np.exp(log_posterior, out=tau)
    norm = tau.sum(axis=0)
    tau /= norm
    labelled = labels >= 0
    np.multiply(tau, labelled, out=gradient)
    np.subtract(1.0, tau, out=curvature)
    curvature *= gradient
    curvature *= K / (K - 1.0)
    known = np.flatnonzero(labelled)
    gradient[labels[known], known] -= 1.0
    if mechanism is None:
        return
    if mechanism.measure == "entropy":
        log_posterior -= np.log(norm)
        np.multiply(tau, log_posterior, out=slope)
        u = -slope.sum(axis=0)
        np.multiply(tau, u, out=tau)
        slope += tau
        slope *= -mechanism.alpha[1]
    else:
        u, by_score = mechanism.measured(posterior(np.ascontiguousarray(scores)))
        np.multiply(by_score, mechanism.alpha[1], out=slope)
    by_eta, information = _by_eta(mechanism, drivers_of(u, rows.covariates), rows.missing)
    by_eta *= w
    information *= w
    np.multiply(slope, by_eta, out=tau)
    gradient -= tau
    slope *= slope
    slope *= information
    slope += CURVATURE_FLOOR * w
    curvature += slope


def _by_eta(mechanism: Mechanism, drivers: Array, missing: Bools) -> tuple[Array, Array]:
    """Slope of each row's log-likelihood in eta, and its expected square."""
    eta = mechanism.eta(drivers)
    if mechanism.shape == 1.0 and not mechanism.share:  # logit
        np.negative(eta, out=eta)
        q = np.exp(eta, out=eta)
        q += 1.0
        np.reciprocal(q, out=q)
        information = q * q
        np.subtract(q, information, out=information)
        return np.subtract(missing, q, out=q), information
    with quiet():
        eta = np.asarray(eta, dtype=float)
        h = hazard(eta, mechanism.shape)
        _, _, slope = log_missing(eta, h.n + mechanism.extra, h.slope, mechanism.extra)
        return np.where(missing, slope, -h.slope), slope * h.slope


def losses(scores: Array, rows: LossRows, mechanism: Mechanism | None) -> Losses:
    """The losses of labels and of missing indicators at scores (K, n); the second is 0 without a mechanism."""
    known = np.flatnonzero(rows.z >= 0)
    surprise = -log_tau(posterior(scores[:, known]))[rows.z[known], np.arange(len(known))]
    labels = float(surprise.sum() if rows.weight is None else surprise @ rows.weight[known])
    if mechanism is None:
        return Losses(labels, 0.0)
    order, given = _given_first(rows)
    with quiet():
        drivers = drivers_of(_uncertainty(mechanism, scores), rows.covariates)[:, order]
        missing = mechanism.loglik_of(drivers, given, None if rows.weight is None else rows.weight[order])
    return Losses(labels, -float(missing))


def profiled(mechanism: Mechanism | None, scores: Array, rows: LossRows) -> Mechanism | None:
    """The mechanism estimated from the scores (K, n) of all rows, its slope bounded."""
    if mechanism is None or rows.missing.all() or not rows.missing.any():
        return mechanism
    order, given = _given_first(rows)
    with quiet():
        u = _uncertainty(mechanism, scores)
    drivers, w = drivers_of(u, rows.covariates)[:, order], rows.counts
    rate = float(w @ rows.missing / w.sum())
    starts = [mechanism.starting(rate)]
    if mechanism.free_shape:
        starts = [replace(mechanism, shape=shape).starting(rate) for shape in (0.0, 1.0, 10.0)]
    fits = [bounded(start.profile_of(drivers, given, w[order]), drivers, given, w[order]) for start in starts]
    return max(fits, key=lambda fit: fit.loglik_of(drivers, given, w[order]))


def _uncertainty(mechanism: Mechanism, scores: Array) -> Array:
    """The uncertainty of rows with scores (K, n)."""
    parts = slices(scores.shape[1], _BLOCK)
    return np.concatenate([mechanism.measured(posterior(scores[:, part])).value for part in parts])


def _given_first(rows: LossRows) -> tuple[Ints, int]:
    """Rows whose label was not missing, then the others, and the number of the former."""
    return np.argsort(rows.missing, kind="stable"), int(np.sum(~rows.missing))


def bounded(mechanism: Mechanism, drivers: Array, labelled: int, weight: Array) -> Mechanism:
    """The mechanism with its slope within bounds, and the best intercept for it."""
    slope = float(np.clip(mechanism.alpha[1], *_bounds(mechanism)))
    if slope == mechanism.alpha[1]:
        return mechanism
    missing = np.arange(len(weight)) >= labelled
    centre = float(weight @ drivers[0] / weight.sum())
    level = mechanism.starting(float(weight @ missing / weight.sum())).alpha[0] - slope * centre
    for _ in range(30):  # Fisher scoring
        mechanism = mechanism.moved(np.array([level, slope, *mechanism.alpha[2:]]))
        by_eta, information = _by_eta(mechanism, drivers, missing)
        step = float(weight @ by_eta / max(float(weight @ information), 1e-300))
        level += float(np.clip(step, -2.0, 2.0))
        if abs(step) < 1e-8:
            break
    return mechanism


def _scored(mechanism: Mechanism, drivers: Array, labelled: int, weight: Array) -> Mechanism:
    """One step of Fisher scoring in alpha, its slope within bounds."""
    by_eta, information = _by_eta(mechanism, drivers, np.arange(len(weight)) >= labelled)
    columns = np.empty((1 + len(drivers), len(weight)))
    columns[0], columns[1:] = 1.0, drivers
    information *= weight
    by_eta *= weight
    matrix, score, alpha = (columns * information) @ columns.T, columns @ by_eta, np.array(mechanism.alpha)
    matrix.flat[:: len(score) + 1] *= 1.0 + 1e-10
    matrix.flat[:: len(score) + 1] += 1e-300
    step = np.linalg.solve(matrix, score)
    step = np.minimum(np.maximum(step, -2.0), 2.0)
    lowest, highest = _bounds(mechanism)
    slope = min(max(alpha[1] + step[1], lowest), highest)
    if slope != alpha[1] + step[1]:  # the best step of the intercept for this slope
        step[1] = slope - alpha[1]
        step[0] = min(max((score[0] - matrix[0, 1:] @ step[1:]) / matrix[0, 0], -2.0), 2.0)
    return mechanism.moved(alpha + step)


def _bounds(mechanism: Mechanism) -> tuple[float, float]:
    """Smallest and largest slope: at most 12 in size, and never such that unclear rows are labelled more often.

    With few labels that opposite, which trees can also learn to explain, would lead away from the classes.
    """
    grows = mechanism.measured.grows
    return 0.0 if grows == "unclear" else -LARGEST_SLOPE, 0.0 if grows == "clear" else LARGEST_SLOPE


def _entropy(scores: Array) -> Array:
    """Entropy of log odds (1, n) of two classes, or of scores (K, n), to rounding in absolute terms."""
    if len(scores) == 1:
        size = np.abs(scores[0])
        t = np.exp(-size)
        return np.log1p(t) + size * t / (1.0 + t)
    log_posterior = scores - scores.max(axis=0)
    tau = np.exp(log_posterior)
    norm = tau.sum(axis=0)
    return np.log(norm) - np.einsum("kn,kn->n", tau, log_posterior) / norm
