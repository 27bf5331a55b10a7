"""Second derivatives of the log-likelihood and outer products of the rows' scores, summed over the rows.

A row's log-likelihood is a function of its scores ``s_j`` and of the mechanism ``kappa = (alpha, delta, shape, share)``. With
``n`` the hazard of a missing label and ``h = dn / d(s, kappa)``, ``L_miss = l(n)`` gives

    gradient        l' h
    curvature       l'' h h' + l' d2n / d(s, kappa)2
    expected outer  h h' / (e^n - 1)

to which ``L_ig`` adds its derivatives in the scores: ``tau`` and ``diag(tau) - tau tau'`` for an unlabelled row if joint, and
so on. With a label term a row has a hazard for each class, and ``L_miss = log sum_k tau_k q_k`` of an unlabelled row, with r the
probabilities of its label and ``a_k`` the gradient of ``log tau_k q_k``, gives

    gradient        g = sum_k r_k a_k
    curvature       sum_k r_k (a_k a_k' + d2 log(tau_k q_k) / d(s, kappa)2) - g g'

The score of component c is linear in features, ``s_c = W_c . phi(x)``, so derivatives in ``(W, kappa)`` are moments of ``phi``
and ``phi phi'``; those of a score that is not linear in W, a Student-t density, are moments of its slopes in W, to which its
second derivatives are added. A tempered mechanism enters the equations of ``W`` with its weight t, those of kappa with weight
one.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import Array, quiet
from marmix.core.likelihood import ScoreModel
from marmix.core.links import hazard, hazard_curvature, odds_against
from marmix.core.measures import Posterior, measure_curvature, posterior
from marmix.core.mechanism import Mechanism, drivers_of
from marmix.engines.rows import block_rows, slices
from marmix.fitting import Objective

_LEAST = 1e-140  # a hazard whose reciprocal can be squared
_CERTAIN = 700.0  # a hazard at which the label is certainly missing, whatever the parameters


class Curvature(NamedTuple):
    """Sums over rows, in (W, kappa); row i of `hessian` holds the derivatives of equation i."""

    gradient: Array
    hessian: Array
    outer: Array


class RowBlock(NamedTuple):
    """Consecutive rows with their posteriors."""

    phi: Array  # (p, n), or (C, p, n): slopes of the components' scores in their coefficients
    posterior: Posterior
    share: Array  # (C, n), of a component in its class
    cuts: list[int]
    weight: Array
    covariates: Array | None
    bend: Any = None  # second derivatives of the components' scores, as in `Derivatives`; None if they are linear

    def slopes(self, component: int) -> Array:
        """Slopes (p, n) of a component's score in its coefficients."""
        return self.phi if self.phi.ndim == 2 else self.phi[component]

    @property
    def labelled(self) -> int:
        """Number of labelled rows; they come first."""
        return self.cuts[-1]

    @property
    def given(self) -> int:
        """Number of rows whose label was not missing; they come first among these."""
        return self.cuts[len(self.posterior.tau)]


class HazardRows(NamedTuple):
    """The hazard of a missing label per row, and its derivatives in (s, kappa)."""

    n: Array
    gradient: Array  # (K + R, n)
    curvature: Array  # (K + R, K + R, n)


def size_of_mechanism(mechanism: Mechanism | None) -> int:
    """Number of entries of kappa: alpha, free label terms, shape, share."""
    return 0 if mechanism is None else len(mechanism.alpha) + mechanism.n_free_labels + 2


def rows_of(objective: Objective, theta: Any) -> Iterator[RowBlock]:
    """The rows of an objective in blocks."""
    model = objective.model
    for block in objective.engine.blocks(2 * model.n_features() + len(model.owner) ** 2):
        scores, share, slopes, bend = model.derivatives(theta, block.x)
        n = block.x.shape[1]
        yield RowBlock(
            slopes,
            posterior(scores),
            np.ones((len(model.owner), n)) if share is None else share,
            block.cuts,
            np.ones(n) if block.weight is None else block.weight,
            block.covariates,
            bend,
        )


def hazard_rows(
    mechanism: Mechanism, rows: RowBlock, with_curvature: bool = True, of_class: int | None = None
) -> HazardRows:
    """The hazard of each row with its derivatives; those in a shape or share that is not free are zero.

    With a label term, the hazard if the rows are of the class `of_class`.
    """
    u, du = mechanism.measured(rows.posterior)
    drivers = drivers_of(u, rows.covariates)
    eta = mechanism.eta(drivers)
    if of_class is not None:
        eta += mechanism.label[of_class]
    h = hazard(eta, mechanism.shape, True)
    assert h.shape_slope is not None
    classes, labels, n = len(du), mechanism.n_free_labels, len(u)
    d_eta = np.vstack([mechanism.alpha[1] * du, np.ones(n), drivers, np.zeros((labels + 2, n))])
    shape, share = len(d_eta) - 2, len(d_eta) - 1
    if of_class and labels:  # the label term of the first class is not free
        d_eta[shape - labels + of_class - 1] = 1.0
    gradient = h.slope * d_eta
    gradient[shape] = h.shape_slope if mechanism.free_shape else 0.0
    gradient[share] = 1.0 / (1.0 - mechanism.share) if mechanism.free_share else 0.0
    curvature = np.empty((0, 0, n))
    if with_curvature:
        second = hazard_curvature(eta, mechanism.shape, h)
        curvature = second.eta * d_eta[:, None] * d_eta[None, :]
        curvature[:classes, :classes] += (
            h.slope * mechanism.alpha[1] * measure_curvature(mechanism.measure, rows.posterior)
        )
        curvature[:classes, classes + 1] += h.slope * du
        curvature[classes + 1, :classes] += h.slope * du
        if mechanism.free_shape:
            curvature[shape] = curvature[:, shape] = second.across * d_eta
            curvature[shape, shape] = second.shape
        if mechanism.free_share:
            curvature[share, share] = 1.0 / (1.0 - mechanism.share) ** 2
    return HazardRows(np.maximum(h.n + mechanism.extra, _LEAST), gradient, curvature)


def _spread(tau: Array) -> Array:
    """``diag(tau) - tau tau'`` of each row."""
    spread = -tau[:, None] * tau[None, :]
    for k, row in enumerate(tau):
        spread[k, k] += row
    return spread


def _label_terms(rows: RowBlock, mechanism: Mechanism) -> tuple[Array, Array]:
    """Gradient (K + R, n) of each row's L_miss with a label term, and its derivatives (K + R, K + R, n)."""
    tau, missing = rows.posterior.tau, slice(rows.labelled, None)
    classes, n = tau.shape
    size = classes + size_of_mechanism(mechanism)
    gradient, hessian = np.zeros((size, n)), np.zeros((size, size, n))
    proba = mechanism.unlabelled(rows.posterior, rows.covariates).tau[:, missing]

    def of_missing(h: HazardRows, part: slice) -> tuple[Array, Array]:
        """Slope and bend of log q."""
        slope, bend = h.gradient[:, part], h.curvature[:, :, part]
        certain = h.n[part] > _CERTAIN
        slope[:, certain], bend[:, :, certain] = 0.0, 0.0
        against = odds_against(h.n[part])
        return against * slope, against * bend - against * (1.0 + against) * slope[:, None] * slope[None, :]

    groups = [slice(a, b) for a, b in pairwise(rows.cuts)]
    for k in range(classes):
        h, given = hazard_rows(mechanism, rows, of_class=k), groups[k]
        gradient[:, given], hessian[:, :, given] = -h.gradient[:, given], -h.curvature[:, :, given]
        for asked in groups[classes + k : classes + k + 1]:
            gradient[:, asked], hessian[:, :, asked] = of_missing(h, asked)
        slope, bend = of_missing(h, missing)
        slope[:classes] -= tau[:, missing]
        slope[k] += 1.0
        gradient[:, missing] += proba[k] * slope
        hessian[:, :, missing] += proba[k] * (bend + slope[:, None] * slope[None, :])
    g = gradient[:, missing]
    hessian[:, :, missing] -= g[:, None] * g[None, :]
    hessian[:classes, :classes, missing] -= _spread(tau[:, missing])
    return gradient, hessian


def _expected_label_outer(rows: RowBlock, model: ScoreModel, mechanism: Mechanism, modelled: bool) -> Array:
    """The expected outer product (K + R, K + R, n) of each row's gradient, with a label term."""
    tau = rows.posterior.tau
    classes, n = tau.shape
    size = classes + (size_of_mechanism(mechanism) if modelled else 0)
    proba = mechanism.unlabelled(rows.posterior, rows.covariates).tau
    outer, missing, q_mean = np.zeros((size, size, n)), np.zeros((size, n)), np.zeros(n)
    for k in range(classes):
        h = hazard_rows(mechanism, rows, with_curvature=False, of_class=k)
        h.gradient[:, h.n > _CERTAIN] = 0.0
        q = -np.expm1(-h.n)
        q_mean += tau[k] * q
        given = -h.gradient if modelled else np.zeros((size, n))
        given[k] += 1.0
        if not model.joint:
            given[:classes] -= tau
        outer += tau[k] * (1.0 - q) * given[:, None] * given[None, :]
        if modelled:
            missing += proba[k] * odds_against(h.n) * h.gradient
            missing[k] += proba[k]
    if not modelled:
        missing[:classes] = tau
    if not model.joint:
        missing[:classes] -= tau
    return outer + q_mean * missing[:, None] * missing[None, :]


def row_terms(rows: RowBlock, model: ScoreModel, mechanism: Mechanism | None, tempering: float) -> tuple[Array, Array]:
    """The equations (K + R, n) of each row, and their derivatives (K + R, K + R, n)."""
    tau, labelled = rows.posterior.tau, rows.labelled
    classes, n = tau.shape
    size = classes + size_of_mechanism(mechanism)
    gradient, hessian = np.zeros((size, n)), np.zeros((size, size, n))
    if mechanism is not None and mechanism.label:
        gradient, hessian = _label_terms(rows, mechanism)
    elif mechanism is not None:
        h = hazard_rows(mechanism, rows)
        given = rows.given
        certain = (np.arange(n) >= given) & (h.n > _CERTAIN)
        h.gradient[:, certain], h.curvature[:, :, certain] = 0.0, 0.0
        slope, bend = np.full(n, -1.0), np.zeros(n)
        against = odds_against(h.n[given:])
        slope[given:], bend[given:] = against, -against * (1.0 + against)
        gradient += slope * h.gradient
        hessian += bend * h.gradient[:, None] * h.gradient[None, :] + slope * h.curvature
    if mechanism is not None:
        gradient[:classes] *= tempering
        hessian[:classes] *= tempering
    sign, part = (1.0, slice(labelled, None)) if model.joint else (-1.0, slice(0, labelled))
    gradient[:classes, part] += sign * tau[:, part]
    hessian[:classes, :classes, part] += sign * _spread(tau[:, part])
    for k, (a, b) in enumerate(pairwise(rows.cuts)):
        gradient[k % classes, a:b] += 1.0
    return gradient, hessian


def summed(rows: RowBlock, model: ScoreModel, gradient: Array, hessian: Array, complete: bool = True) -> Array:
    """Sums over rows of matrices (K + R, K + R, n), as matrices in (W, kappa).

    With `complete` they are second derivatives, to which the score of a class of several components and scores that are not
    linear in W add their own curvature; otherwise outer products.
    """
    share, weight, owner = rows.share, rows.weight, model.owner
    p, components, classes = rows.phi.shape[-2], len(owner), len(rows.posterior.tau)
    total = np.zeros((components * p + len(hessian) - classes,) * 2)
    several = len(np.unique(owner)) < components
    for a in range(components):
        phi = rows.slopes(a)
        for b in range(a, components):
            bend = hessian[owner[a], owner[b]] * share[a] * share[b]
            if complete and several and owner[a] == owner[b]:
                bend = bend + gradient[owner[a]] * share[a] * ((a == b) - share[b])
            block = (phi * (weight * bend)) @ rows.slopes(b).T
            if complete and rows.bend is not None and a == b:
                block += rows.bend(a, weight * gradient[owner[a]] * share[a])
            total[a * p : (a + 1) * p, b * p : (b + 1) * p] = block
            total[b * p : (b + 1) * p, a * p : (a + 1) * p] = block.T
        across = weight * share[a]
        total[a * p : (a + 1) * p, components * p :] = phi @ (across * hessian[owner[a], classes:]).T
        total[components * p :, a * p : (a + 1) * p] = (across * hessian[classes:, owner[a]]) @ phi.T
    total[components * p :, components * p :] = hessian[classes:, classes:] @ weight
    return total


def curvature(objective: Objective, theta: Any, mechanism: Mechanism | None) -> Curvature:
    """Sums over rows of the gradient, its derivatives, and the outer products of the rows' gradients."""
    model, parts = objective.model, []
    with quiet():
        for rows in rows_of(objective, theta):
            gradient, hessian = row_terms(rows, model, mechanism, objective.tempering)
            weights = gradient[model.owner] * rows.share * rows.weight
            linear = rows.phi.ndim == 2
            by_component = weights @ rows.phi.T if linear else np.einsum("cn,cpn->cp", weights, rows.phi)
            total = np.concatenate([by_component.ravel(), gradient[model.n_classes :] @ rows.weight])
            outer = summed(rows, model, gradient, gradient[:, None] * gradient[None, :], complete=False)
            parts.append((total, summed(rows, model, gradient, hessian), outer))
    return Curvature(*(reduce(add, blocks) for blocks in zip(*parts, strict=True)))


def copies_excess(
    objective: Objective, theta: Any, mechanism: Mechanism | None, X: Array, shares: Array, weight: Array
) -> Array:
    """How much the outer products of copies exceed those of their rows, summed, in (W, kappa).

    A row with shares r of votes is K copies of weight r_k, whose scores differ in the label alone: the excess of the row is
    ``diag(r) - r r'`` in the scores of the classes. X are rows (n, d) in the user's axes, with shares (K, n) and weights.
    """
    model = objective.model
    classes, size = len(shares), len(shares) + size_of_mechanism(mechanism)
    total: Any = 0.0
    for part in slices(len(X), block_rows(2 * model.n_features() + len(model.owner) ** 2)):
        scores, share, slopes, _ = model.derivatives(theta, objective.engine.frame.enter(X[part]))
        n = scores.shape[1]
        share = np.ones((len(model.owner), n)) if share is None else share
        rows = RowBlock(slopes, posterior(scores), share, [0] * (classes + 1), weight[part], None)
        outer = np.zeros((size, size, n))
        outer[:classes, :classes] = _spread(shares[:, part])
        total = total + summed(rows, model, np.empty((0, n)), outer, complete=False)
    return np.asarray(total)


def expected_outer(
    objective: Objective, theta: Any, mechanism: Mechanism | None, modelled: bool = True, rate: float | None = None
) -> Array:
    """``sum_j E[g_j g_j' | x_j]`` in (W, kappa), over labels and missingness under the model, given the features.

    ``modelled=False`` leaves L_miss out of the likelihood; labels are still missing by the mechanism. `rate` is the probability
    of a missing label without a mechanism; None conditions on the labels that are missing.
    """
    model, parts = objective.model, []
    with quiet():
        for rows in rows_of(objective, theta):
            tau = rows.posterior.tau
            classes, n = tau.shape
            if mechanism is not None and mechanism.label:
                outer = _expected_label_outer(rows, model, mechanism, modelled)
                parts.append(summed(rows, model, np.empty((0, n)), outer, complete=False))
                continue
            size = classes + (size_of_mechanism(mechanism) if modelled else 0)
            outer = np.zeros((size, size, n))
            q = (np.arange(n) >= rows.labelled) * 1.0 if rate is None else np.full(n, rate)
            if mechanism is not None:
                h = hazard_rows(mechanism, rows, with_curvature=False)
                q = -np.expm1(-h.n)
                h.gradient[:, h.n > _CERTAIN] = 0.0
                if modelled:
                    outer += odds_against(h.n) * h.gradient[:, None] * h.gradient[None, :]
            spread = (1.0 - q) * _spread(tau)
            if model.joint:
                spread += tau[:, None] * tau[None, :]
            outer[:classes, :classes] += spread
            parts.append(summed(rows, model, np.empty((0, n)), outer, complete=False))
    return reduce(add, parts)
