"""Mixtures of known classes, with exact posteriors and labels lost by a known mechanism."""

import numbers
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from marmix.arrays import Array
from marmix.datasets.bunches import delivered
from marmix.datasets.families import SEPARATION, Law, family_name, laws_of
from marmix.datasets.hiding import generator, hide_labels
from marmix.mechanism.measures import Posterior, margin, posterior

_BATCH = 1_000_000  # rows drawn at once at most; and of as many, one at least must pass `max_margin`


def make_mar_mixture(
    n_samples: int = 200,
    *,
    distribution: str = "gaussian",
    n_classes: int = 2,
    n_features: int = 2,
    weights: ArrayLike | None = None,
    parameters: Mapping[str, Any] | None = None,
    separation: float = SEPARATION,
    max_margin: float | None = None,
    link: str | None = "logit",
    shape: float | None = None,
    slope: float | None = None,
    rate: float | None = 0.7,
    uncertainty: str | Callable[..., object] = "margin",
    side: int | None = None,
    at_least: int = 0,
    random_state: Any = None,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Rows of a mixture of classes, their true posteriors, and labels that went missing by a known mechanism.

    A row's class is k with probability pi_k (`weights`), its features come from that class's law f_k, its true posterior is

        tau_k = pi_k f_k(x) / sum_l pi_l f_l(x),

    and `hide_labels` loses its label with a probability q that depends on tau. The defaults for two classes and two
    features are those of the paper's simulations, whose settings are completed by max_margin=0.6, link="aranda-ordaz" and
    shape=2.

    Parameters
    ----------
    n_samples : int, default=200
    distribution : {"gaussian", "student", "laplace", "gamma", "beta"}, default="gaussian"
        The laws of the classes. Features are independent within a class in the last three. "normal" and "t" are other names
        of the first two.
    n_classes, n_features : int, default=2
        K and d.
    weights : array-like of shape (K,) or None, default=None
        Class probabilities, by default equal.
    parameters : dict or None, default=None
        In place of the defaults, by name:

        ==============  ===================================================================================
        ``"gaussian"``  ``means`` (K, d); ``covariances`` (K, d, d) or (d, d), the identity
        ``"student"``   ``means`` (K, d); ``scales`` (K, d, d) or (d, d), the identity; ``df``, 4
        ``"laplace"``   ``locations`` (K, d); ``scales`` (K, d) or (d,), 1 for the first feature, else 0.8
        ``"gamma"``     ``shapes`` (K, d), 3 + 2k in class k; ``scales`` (K, d) or (d,) or a number, 1
        ``"beta"``      ``a`` (K, d), a_kj = 3 + 2 ((k + j) mod K); ``b`` (K, d), 2K + 4 - a
        ==============  ===================================================================================

    separation : float, default=2.0
        Distance between the centres of neighbouring classes where `parameters` do not give centres ("gaussian", "student",
        "laplace"): a regular simplex around the origin if K <= d + 1, else a circle in the first two features, or a line if
        d = 1.
    max_margin : float or None, default=None
        Keep only rows whose true margin ``tau_(1) - tau_(2)`` is at most this (others are drawn instead). That leaves the
        posterior of a row as it is, but the classes are then truncated laws, with other shares than `weights`.
    link, shape, slope, uncertainty, side, at_least
        The mechanism, see `hide_labels`; `side` is the number of a class. slope=None is the measure's default slope, hard rows
        first.
    rate : float or None, default=0.7
        Mean probability that a label is missing. 0 or None loses no label, whatever the mechanism.
    random_state : int >= 0, Generator, RandomState or None, default=None
        Rows are drawn from one child of the seed and the lost labels from another (a Generator is asked to spawn them): with
        the same int the rows are the same, whatever the mechanism.
    as_frame : bool, default=False
        Return `data` and `posterior` as DataFrames, the latter with `target_names` as its columns, and `target`, `target_true`,
        `margin`, `missing` and `missing_proba` as Series, all with one index (needs pandas).
    return_X_y : bool, default=False
        Return ``(data, target)`` alone.

    Returns
    -------
    Bunch
        - `data`: (n, d).
        - `target`: classes 0, 1, ..., and -1 where missing; `target_true` has them all.
        - `posterior`: (n, K), and `margin`: ``tau_(1) - tau_(2)`` of each row.
        - `missing`: where `target` is missing, (n,).
        - `missing_proba`: q of each row, and `mechanism`: the `Mechanism` behind it, None if link=None or no label is lost.
        - `feature_names`, `target_names`, `frame` (features and target; None unless `as_frame`), `DESCR`.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import make_mar_mixture
    >>> data = make_mar_mixture(1000, random_state=0)
    >>> int((data.target == -1).sum()), round(data.mechanism.alpha[0], 2)
    (704, 4.99)
    >>> clf = MARGaussianMixture(uncertainty="margin").fit(data.data, data.target)
    >>> print(clf.alpha_.round(1))
    [ 5.3 -6.2]
    """
    n, classes, features = (
        _count(name, value, least)
        for name, value, least in (
            ("n_samples", n_samples, 1),
            ("n_classes", n_classes, 2),
            ("n_features", n_features, 1),
        )
    )
    pi = _weights(weights, classes)
    if max_margin is not None and not (isinstance(max_margin, numbers.Real) and 0.0 < max_margin <= 1.0):
        raise ValueError(f"max_margin={max_margin!r} must lie between 0 and 1, or be None to keep every row.")
    family = family_name(distribution)
    laws = laws_of(family, classes, features, parameters, separation)
    for_rows, for_labels = generator(random_state).spawn(2)
    rows = _draw(laws, pi, n, max_margin, for_rows)
    bunch = Bunch(
        data=rows.X,
        target=rows.z.copy(),
        target_true=rows.z,
        posterior=rows.tau,
        margin=rows.margin,
        missing=np.full(n, False),
        missing_proba=np.zeros(n),
        mechanism=None,
        feature_names=[f"x{j + 1}" for j in range(features)],
        target_names=[f"class {k}" for k in range(classes)],
    )
    hidden = "No label is missing."
    if rate is not None and rate != 0.0:
        lost = hide_labels(
            rows.z, rows.tau, link, shape, slope, rate,
            uncertainty=uncertainty, side=side, classes=range(classes), at_least=at_least, random_state=for_labels,
        )  # fmt: skip
        bunch.update({name: lost[name] for name in ("target", "missing", "missing_proba", "mechanism")})
        hidden = lost.DESCR
    bunch.DESCR = (
        f"{n} rows with {features} features of {classes} classes, distribution {family!r}, class probabilities "
        f"{', '.join(f'{p:.4g}' for p in pi)}."
        + (f" Only rows of true margin up to {max_margin:g} were kept." if max_margin is not None else "")
        + f" {hidden}"
    )
    return delivered(bunch, as_frame, return_X_y)


class _Rows(NamedTuple):
    X: Array  # (n, d)
    z: NDArray[np.int64]  # (n,)
    tau: Array  # (n, K)
    margin: Array  # (n,)


def _draw(laws: list[Law], pi: Array, n: int, max_margin: float | None, rng: np.random.Generator) -> _Rows:
    """n rows of the mixture, of those whose margin is small enough."""
    found: list[_Rows] = []
    kept = drawn = 0
    while kept < n:
        # a tenth more than should do, by the share kept so far
        wanted = n if drawn == 0 else int(1.1 * (n - kept) * drawn / max(kept, 1)) + 10
        rows = _batch(laws, pi, min(wanted, _BATCH), rng)
        drawn += len(rows.z)
        if max_margin is not None:
            keep = rows.margin <= max_margin
            rows = _Rows(rows.X[keep], rows.z[keep], rows.tau[keep], rows.margin[keep])
        found.append(rows)
        kept += len(rows.z)
        if drawn >= _BATCH and kept < drawn / _BATCH:
            raise ValueError(
                f"max_margin={max_margin:g} keeps {kept} of {drawn} rows: classes are too far apart for it. Raise "
                "max_margin or bring the classes closer."
            )
    return _Rows(*(np.concatenate(parts)[:n] for parts in zip(*found, strict=True)))


def _batch(laws: list[Law], pi: Array, n: int, rng: np.random.Generator) -> _Rows:
    z = rng.choice(len(pi), size=n, p=pi)
    X: Array | None = None
    for k, law in enumerate(laws):
        own = z == k
        rows = law.draw(int(own.sum()), rng)
        X = np.empty((n, rows.shape[1])) if X is None else X
        X[own] = rows
    assert X is not None
    p = _bayes(laws, pi, X)
    return _Rows(X, z, np.ascontiguousarray(p.tau.T), np.sqrt(margin(p).value))


def _bayes(laws: list[Law], pi: Array, X: Array) -> Posterior:
    """True posteriors by Bayes' rule."""
    with np.errstate(all="ignore"):
        scores = np.array([np.log(weight) + law.log_density(X) for weight, law in zip(pi, laws, strict=True)])
        if not np.isfinite(scores).all():
            raise ValueError(
                "parameters: rows fall on the edge of the features' range, where densities are 0 or infinite; choose larger "
                "shapes."
            )
        return posterior(scores)


def _weights(weights: ArrayLike | None, classes: int) -> Array:
    pi = np.full(classes, 1.0 / classes) if weights is None else np.asarray(weights, dtype=float)
    if pi.shape != (classes,) or not (pi > 0.0).all() or not abs(pi.sum() - 1.0) <= 1e-8:
        raise ValueError(f"weights must be {classes} positive class probabilities that sum to one; got {weights!r}.")
    return pi


def _count(name: str, value: object, least: int) -> int:
    if not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer >= {least}.")
    return int(value)
