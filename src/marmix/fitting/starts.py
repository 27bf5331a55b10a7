"""Starting values, and the axes of a fit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from marmix.core.arrays import Array, Bools, Ints
from marmix.core.frames import Frame
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.core.mechanism import Mechanism
from marmix.core.moments import GroupMoments
from marmix.core.notes import listed
from marmix.engines import Engine
from marmix.fitting.objective import Objective

_SAMPLE = 20_000  # rows for k-means
_MECHANISM_ROWS = 1000  # rows for the mechanism's start
_DEPENDENT = 1e-13  # residual share of a feature's variance, per feature, below which it is linearly dependent
_CONSTANT = 1e-13  # standard deviation, relative to the mean, below which a feature is constant up to rounding
_EMPTY = 1e-10  # variance, relative to about one, below which an axis is zero in all rows


def check_columns(mean: Array, covariance: Array, names: Sequence[str]) -> None:
    """Raise an error that names columns that are constant up to rounding, given their covariance or variances."""
    sd = np.sqrt(covariance if covariance.ndim == 1 else np.diag(covariance))
    constant = [name for name, s, m in zip(names, sd, mean, strict=True) if not s > _CONSTANT * abs(m)]
    if constant:
        noun, verb, them = ("column", "is", "it") if len(constant) == 1 else ("columns", "are", "them")
        raise ValueError(
            f"{noun} {listed(constant)} {verb} constant, up to rounding, and cannot help to tell the classes apart. Drop {them} "
            "(for instance with sklearn.feature_selection.VarianceThreshold in a pipeline), or subtract a number near the mean "
            "if the values are far from zero and differ."
        )


def dependent_columns(covariance: Array) -> list[int]:
    """Columns that are linearly dependent, if the covariance matrix is singular; otherwise none."""
    sd = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    return [] if values[0] > _DEPENDENT * len(sd) else np.flatnonzero(np.abs(vectors[:, 0]) > 1e-3).tolist()


def prior_rows(d: int) -> float:
    """Number of rows that the pooled covariance counts as when a class is shrunk to it: enough to be regular."""
    return d + 1.0


def frame_of(model: GaussianScores, mean: Array, covariance: Array, labelled: GroupMoments, singular: bool) -> Frame:
    """Axes in which the pooled within-class covariance of the labelled rows is the identity.

    The pooled covariance is shrunk to that of all rows, and towards its diagonal if that is singular.
    """
    prior = prior_rows(len(mean))
    target = covariance + np.diag(np.diag(covariance)) if singular else covariance
    pooled = (labelled.scatter.sum(axis=0) + prior * target) / (labelled.weight.sum() + prior)
    whitener = model.structure.whitener(pooled)
    return Frame(mean, _sheared(whitener, covariance) if singular else whitener)


def _sheared(whitener: Array, covariance: Array) -> Array:
    """The whitener with each feature that depends on later ones replaced by its residual, which is zero in all rows.

    A shear along later axes changes no pivot, so the model and its floor stay the same, but the variances that are at the floor
    no longer affect the scale of other parameters.
    """
    sd = np.sqrt(np.diag(covariance))
    left = covariance / np.outer(sd, sd)
    correlation, root, whitener = left.copy(), np.zeros_like(left), whitener.copy()
    independent: list[int] = []
    for i in range(len(sd) - 1, -1, -1):
        if left[i, i] > _DEPENDENT * len(sd):
            root[: i + 1, i] = left[: i + 1, i] / np.sqrt(left[i, i])
            left -= np.outer(root[:, i], root[:, i])
            independent.append(i)
        else:
            slopes = cho_solve((root[np.ix_(independent, independent)], True), correlation[independent, i])
            whitener[i, i + 1 :] = 0.0
            whitener[i, independent] = -whitener[i, i] * sd[i] * slopes / sd[independent]
    return whitener


def empty_axes(frame: Frame, covariance: Array) -> Bools:
    """Mask of the axes that are zero in all rows: those of features that depend linearly on later ones."""
    return np.asarray(np.sum((frame.whitener @ covariance) * frame.whitener, axis=1) < _EMPTY)


def at_floor(theta: Gaussians, empty: Bools, floor: float) -> Gaussians:
    """Set the parameters of empty axes to their maximum: mean zero and the smallest residual variance."""
    mu, chol = theta.mu.copy(), theta.chol.copy()
    mu[:, empty] = 0.0
    chol[..., empty, :] = 0.0
    chol[..., :, empty] = 0.0
    chol[..., empty, empty] = floor**-0.5
    return Gaussians(theta.log_pi, mu, chol)


def labelled_start(
    model: GaussianScores, frame: Frame, labelled: GroupMoments, rng: np.random.RandomState | None = None
) -> Gaussians:
    """Moments of the labelled rows with covariances shrunk to the pooled one; one component for each class.

    With `rng` the start is perturbed: means by about the error of a mean of a few rows, covariances by up to a factor of two.
    """
    d = labelled.mean.shape[1]
    prior = prior_rows(d)
    if labelled.scatter.ndim == 2:  # variances suffice
        assert frame.factors is not None
        mu = (labelled.mean - frame.centre) * frame.factors
        covariances = (labelled.scatter * frame.factors**2 + prior) / (labelled.weight + prior)[:, None]
    else:
        mu = (labelled.mean - frame.centre) @ frame.whitener.T
        scatter = frame.whitener @ labelled.scatter @ frame.whitener.T
        covariances = (scatter + prior * np.eye(d)) / (labelled.weight + prior)[:, None, None]
    log_pi = np.log(labelled.weight / labelled.weight.sum())
    if rng is not None:
        mu = mu + 0.5 * rng.normal(size=mu.shape)
        factor = np.exp2(rng.uniform(-1.0, 1.0, size=len(mu)))
        covariances = covariances * factor.reshape(-1, *[1] * (covariances.ndim - 1))
    return _gaussians(model, log_pi, mu, covariances)


def split_start(
    engine: Engine,
    model: GaussianScores,
    single: GaussianScores,
    base: Gaussians,
    rng: np.random.RandomState,
    names: Sequence[Any],
) -> Gaussians:
    """Several components for each class by k-means within its rows; unlabelled rows are assigned by `base`."""
    x, cuts, w, *_ = engine.sample(min(_SAMPLE, engine.n_rows))
    assert w is not None
    assigned = single.scores(base, x).argmax(axis=0)
    for k, (a, b) in enumerate(pairwise(cuts)):
        assigned[a:b] = k % model.n_classes
    cluster = np.zeros(x.shape[1], dtype=int)
    first = np.concatenate([[0], np.cumsum(model.counts)])
    for k, count in enumerate(model.counts):
        rows = np.flatnonzero(assigned == k)
        distinct = len(np.unique(x[:, rows], axis=1).T) if len(rows) < 50 * count else len(rows)
        if distinct < count:
            raise ValueError(
                f"n_components={count} for class {names[k]!r} is too many: it has {len(rows)} rows at the start, "
                f"{distinct} of them distinct. Use fewer components."
            )
        groups = KMeans(count, n_init=3, random_state=rng).fit(x[:, rows].T, sample_weight=w[rows])
        cluster[rows] = first[k] + groups.labels_
    return _cluster_moments(model, x, w, cluster)


def kmeans_start(engine: Engine, model: GaussianScores, rng: np.random.RandomState) -> Gaussians:
    """The paper's start: k-means with ten starts, clusters matched to classes by their labels."""
    x, cuts, w, *_ = engine.sample(min(_SAMPLE, engine.n_rows))
    assert w is not None
    clusters = int(sum(model.counts))
    labels = KMeans(clusters, n_init=10, random_state=rng).fit(x.T, sample_weight=w).labels_
    votes = np.zeros((clusters, len(model.counts)))
    for k, (a, b) in enumerate(pairwise(cuts)):
        votes[:, k % model.n_classes] += np.bincount(labels[a:b], weights=w[a:b], minlength=clusters)
    # one column per component, so that each class gets as many clusters as it has components
    cluster, component = linear_sum_assignment(-votes[:, model.owner])
    renamed = np.empty(clusters, dtype=int)
    renamed[cluster] = component
    return _cluster_moments(model, x, w, renamed[labels])


def _cluster_moments(model: GaussianScores, x: Array, w: Array, cluster: Ints) -> Gaussians:
    components, d = int(sum(model.counts)), len(x)
    weight, mu, covariances = np.zeros(components), np.zeros((components, d)), np.zeros((components, d, d))
    prior = prior_rows(d)
    for c in range(components):
        rows = cluster == c
        weight[c] = w[rows].sum()
        mu[c] = x[:, rows] @ w[rows] / weight[c]
        centred = x[:, rows] - mu[c][:, None]
        covariances[c] = ((centred * w[rows]) @ centred.T + prior * np.eye(d)) / (weight[c] + prior)
    return _gaussians(model, np.log(weight / weight.sum()), mu, covariances)


def _gaussians(model: GaussianScores, log_pi: Array, mu: Array, covariances: Array) -> Gaussians:
    """Parameters from full covariance matrices (C, d, d)."""
    projected = model.structure.project(covariances, np.exp(log_pi))
    return Gaussians(log_pi, mu, model.structure.factor(projected, model.floor))


def previous_start(model: GaussianScores, frame: Frame, values: dict[str, Any]) -> Gaussians:
    """The weights, means and covariances (or scale matrices) of a fit, in the user's axes."""
    mu = (values["means"] - frame.centre) @ frame.whitener.T
    chol = model.structure.factor(model.structure.rebase(values[model.scales], frame.whitener), model.floor)
    return Gaussians(np.log(values["weights"] / values["weights"].sum()), mu, chol)


def mechanism_start(objective: Objective, theta: Any, mechanism: Mechanism, values: dict[str, Any]) -> Mechanism:
    """A mechanism with alpha roughly fitted to the uncertainties at `theta`.

    Given `values` of alpha, delta, shape and share take precedence; the last three only if they are free.
    """
    if "delta" in values and mechanism.free_label:
        mechanism = replace(mechanism, label=tuple(map(float, values["delta"])))
    if "shape" in values and mechanism.free_shape:
        mechanism = replace(mechanism, shape=float(values["shape"]))
    if "share" in values and mechanism.free_share:
        mechanism = replace(mechanism, share=float(values["share"]))
    if len(values.get("alpha", ())) == len(mechanism.alpha):
        return replace(mechanism, alpha=tuple(map(float, values["alpha"])))
    drivers, labelled, weight = objective.driver_sample(theta, mechanism, _MECHANISM_ROWS)
    w = np.ones(drivers.shape[1]) if weight is None else weight
    rate = float(w[labelled:].sum() / w.sum())
    mechanism = mechanism.starting(rate)
    for _ in range(3):
        mechanism = mechanism.scored(drivers, labelled, w)
    return mechanism


def label_start(objective: Objective, theta: Any, mechanism: Mechanism) -> Mechanism:
    """The mechanism with free label terms that fits best at `theta`, in a sample of rows."""
    drivers, labelled, weight = objective.driver_sample(theta, mechanism, _MECHANISM_ROWS)
    return mechanism.profile_of(drivers, labelled, weight)
