"""Simulated mixtures of classes, with exact posteriors and labels hidden by a known mechanism."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from marmix.core.arrays import Array, quiet
from marmix.core.measures import margin, posterior
from marmix.datasets.bunches import delivered
from marmix.datasets.families import Law, laws_of
from marmix.datasets.hiding import generator, hide_labels
from marmix.inference.intervals import check_count

_BATCH = 1_000_000  # rows drawn at once, of which at least one must pass `max_margin`


def make_mar_mixture(
    n_samples: int = 200,
    *,
    distribution: str | tuple[str, Mapping[str, Any]] = "gaussian",
    n_classes: int = 2,
    n_features: int = 2,
    weights: ArrayLike | None = None,
    max_margin: float | None = None,
    random_state: Any = None,
    as_frame: bool = False,
    **hiding: Any,
) -> Bunch:
    r"""Draw rows from a mixture of classes, with their true posteriors and labels missing by a known mechanism.

    A row is of class k with probability pi_k (`weights`), its features have the density f_k of that class, its true
    posterior is

    .. math::

        \tau_k(x) = \frac{\pi_k f_k(x)}{\sum_l \pi_l f_l(x)},

    and `hide_labels` hides its label with a probability q that depends on tau. With two classes and two features the
    defaults are those of the paper's simulations, which also use max_margin=0.6 and link=2.0.

    Parameters
    ----------
    n_samples : int, default=200
        Number of rows n.
    distribution : str or (str, dict), default="gaussian"
        Distribution of the classes; in the last three, features are independent within a class. A dictionary overrides
        these parameters by name, or gives the `separation` (default 2.0) of the centres of neighbouring classes in the first
        three: a regular simplex around the origin if K <= d + 1, else a circle in the first two features, or a line if d = 1.

        ==============  ===================================================================================
        ``"gaussian"``  ``means`` (K, d); ``covariances`` (K, d, d) or (d, d), the identity
        ``"student"``   ``means`` (K, d); ``scales`` (K, d, d) or (d, d), the identity; ``df``, 4
        ``"laplace"``   ``locations`` (K, d); ``scales`` (K, d) or (d,), 1 for the first feature, else 0.8
        ``"gamma"``     ``shapes`` (K, d), 3 + 2k in class k; ``scales`` (K, d) or (d,) or a number, 1
        ``"beta"``      ``a`` (K, d), a_kj = 3 + 2 ((k + j) mod K); ``b`` (K, d), 2K + 4 - a
        ==============  ===================================================================================

    n_classes, n_features : int, default=2
        K and d.
    weights : array-like of shape (K,) or None, default=None
        Class probabilities; equal by default.
    max_margin : float or None, default=None
        Keep only rows with a true margin ``tau_(1) - tau_(2)`` of at most this, drawing others instead. The posteriors
        stay the same, but the classes are truncated, with other shares than `weights`.
    random_state : int >= 0, Generator, RandomState or None, default=None
        Rows and hidden labels are drawn from two children of the seed (a Generator spawns them): with the same int the
        rows are the same, whatever the mechanism.
    as_frame : bool, default=False
        Return `data` and `posterior` (with `target_names` as columns) as DataFrames, and `target`, `target_true`,
        `margin`, `missing` and `missing_proba` as Series, all with the same index (needs pandas).
    **hiding
        The mechanism: `link`, `slope`, `rate` (default 0.7), `measure` and `at_least` of
        `hide_labels`. With a rate of 0 or None no label is hidden, whatever the mechanism.

    Returns
    -------
    Bunch
        - `data`: (n, d).
        - `target`: classes 0, 1, ..., and -1 where missing; `target_true`: all classes.
        - `posterior`: (n, K), and `margin`: ``tau_(1) - tau_(2)`` of each row.
        - `missing`: whether `target` is missing, (n,).
        - `missing_proba`: q of each row, and `mechanism`: the `Mechanism` behind it; None if link=None or rate is 0.
        - `feature_names`, `target_names`, `frame` (features and target; None unless `as_frame`), `DESCR`.

    Raises
    ------
    ValueError
        If an argument cannot be used, or if `max_margin` keeps hardly any row.

    See Also
    --------
    hide_labels : The mechanism, for data of your own.
    load_tumours, load_odd_digits : Real rows whose hard labels are hidden.

    Examples
    --------
    The fit recovers the mechanism that hid the labels:

    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import make_mar_mixture
    >>> rows = make_mar_mixture(1000, random_state=0)
    >>> int((rows.target == -1).sum()), [round(a, 1) for a in rows.mechanism.alpha]
    (704, [5.0, -6.0])
    >>> clf = MARGaussianMixture(measure="margin").fit(rows.data, rows.target)
    >>> print(clf.alpha_.round(1))
    [ 5.3 -6.2]

    Labels missing completely at random, in a data frame:

    >>> frame = make_mar_mixture(5, link=None, rate=0.5, random_state=0, as_frame=True).frame
    >>> print(frame.round(2))
         x1    x2  target
    0  1.59 -0.72       1
    1 -0.84  0.82      -1
    2  0.25  1.31       1
    3 -0.19  0.22      -1
    4 -0.03 -0.74       0
    """
    n, classes = check_count("n_samples", n_samples, 1), check_count("n_classes", n_classes, 2)
    features = check_count("n_features", n_features, 1)
    pi = np.full(classes, 1.0 / classes) if weights is None else np.asarray(weights, dtype=float)
    if pi.shape != (classes,) or not (pi > 0.0).all() or not abs(pi.sum() - 1.0) <= 1e-8:
        raise ValueError(f"weights must be {classes} positive class probabilities that sum to one; got {weights!r}.")
    if max_margin is not None and not 0.0 < max_margin <= 1.0:
        raise ValueError(f"max_margin={max_margin!r} must lie between 0 and 1, or be None to keep every row.")
    name, parameters = (distribution, {}) if isinstance(distribution, str) else distribution
    laws = laws_of(name, classes, features, parameters)
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
    missing = "No label is missing."
    if hiding.get("rate", 1.0):
        hidden = hide_labels(rows.z, rows.tau, random_state=for_labels, **hiding)
        bunch.update({name: hidden[name] for name in ("target", "missing", "missing_proba", "mechanism")})
        missing = hidden.DESCR
    bunch.DESCR = (
        f"{n} rows with {features} features of {classes} classes, distribution {name!r}, class probabilities "
        f"{', '.join(f'{p:.4g}' for p in pi)}."
        + (f" Only rows of true margin up to {max_margin:g} were kept." if max_margin is not None else "")
        + f" {missing}"
    )
    return delivered(bunch, as_frame)


class _Rows(NamedTuple):
    X: Array  # (n, d)
    z: NDArray[np.int64]  # (n,)
    tau: Array  # (n, K)
    margin: Array  # (n,)


def _draw(laws: list[Law], pi: Array, n: int, max_margin: float | None, rng: np.random.Generator) -> _Rows:
    """Draw n rows of the mixture with a margin of at most `max_margin`."""
    batches: list[_Rows] = []
    kept = drawn = 0
    while kept < n:
        # a tenth more than expected to suffice, from the share kept so far
        wanted = n if drawn == 0 else int(1.1 * (n - kept) * drawn / max(kept, 1)) + 10
        rows = _batch(laws, pi, min(wanted, _BATCH), rng)
        drawn += len(rows.z)
        if max_margin is not None:
            keep = rows.margin <= max_margin
            rows = _Rows(rows.X[keep], rows.z[keep], rows.tau[keep], rows.margin[keep])
        batches.append(rows)
        kept += len(rows.z)
        if drawn >= _BATCH and kept < drawn / _BATCH:
            raise ValueError(
                f"max_margin={max_margin:g} keeps {kept} of {drawn} rows: the classes are too far apart. Raise max_margin "
                "or bring the classes closer together."
            )
    return _Rows(*(np.concatenate(parts)[:n] for parts in zip(*batches, strict=True)))


def _batch(laws: list[Law], pi: Array, n: int, rng: np.random.Generator) -> _Rows:
    """Draw n rows, with their true posteriors by Bayes' rule."""
    z = rng.choice(len(pi), size=n, p=pi)
    members = [z == k for k in range(len(pi))]
    drawn = [law.draw(int(rows.sum()), rng) for law, rows in zip(laws, members, strict=True)]
    X = np.empty((n, drawn[0].shape[1]))
    for rows, features in zip(members, drawn, strict=True):
        X[rows] = features
    with quiet():
        scores = np.array([np.log(weight) + law.log_density(X) for weight, law in zip(pi, laws, strict=True)])
        if not np.isfinite(scores).all():
            raise ValueError(
                "parameters: rows fall on the edge of the features' range, where densities are 0 or infinite. Choose "
                "larger shapes."
            )
        p = posterior(scores)
    return _Rows(X, z, np.ascontiguousarray(p.tau.T), np.sqrt(margin(p).value))
