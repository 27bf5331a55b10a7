"""Labels hidden by a chosen mechanism, for experiments in which the truth is known."""

from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.utils import Bunch

from marmix.core.arrays import AnyArray, Array, Bools, Ints, quiet, unmasked
from marmix.core.labels import MISSING, encode_labels, known_labels, number_labels
from marmix.core.links import FREE
from marmix.core.measures import MeasureLike, as_measure
from marmix.core.mechanism import Mechanism
from marmix.evaluation.pseudo_labels import checked_proba
from marmix.inference.simulation import seed_sequence

_DRAWS = 1000  # attempts to leave `at_least` labels in every class
_LARGEST_LEVEL = 1e15  # of |alpha_0|: beyond it the spacing of floats exceeds 0.1


def hide_labels(
    y: Any,
    posterior: Any = None,
    link: str | float | None = "logit",
    slope: float | None = None,
    rate: float = 0.7,
    *,
    measure: MeasureLike = "margin",
    at_least: int = 0,
    random_state: Any = None,
) -> Bunch:
    r"""Hide labels by a known mechanism, by default those of hard rows first.

    The label of row j is hidden with probability

    .. math::

        q_j = 1 - \left( 1 + \lambda e^{\eta_j} \right)^{-1 / \lambda}, \qquad \eta_j = \alpha_0 + \alpha_1 u_j,

    where u_j is the uncertainty of the row, a measure of its posterior, lambda is the shape of the Aranda-Ordaz `link`
    and alpha_1 is the `slope`. The intercept alpha_0 is solved for so that the mean of q over the labelled rows is
    `rate`.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: numbers, strings, booleans, a pandas Series. Labels that are missing already (-1, None, NaN) stay
        missing, and their rows do not count in `rate`.
    posterior : array-like of shape (n, K) or None, default=None
        Class probabilities of every row: the true ones, or those of any classifier, preferably cross-fitted. Columns
        are in the order of the sorted labels; labels 0, 1, ... are numbers of columns, and need not all occur. May be
        None if `link` is None or `rate` is 0.
    link : {"logit", "cloglog"}, float or None, default="logit"
        Shape 1, shape 0, or another shape lambda >= 0. None hides labels completely at random: q = rate in every row,
        whatever `slope` and `measure`.
    slope : float or None, default=None
        Slope of eta in the uncertainty. None is a default with which labels of hard rows are clearly hidden first:
        *negative* for measures that are large where the class is clear, *positive* for those that are large where it is
        unclear.

        ===================  ==============================
        ``"margin"``         -6
        ``"entropy"``        4
        ``"log-entropy"``    2
        ``"gini"``           8
        ``"discriminant"``   -0.5
        ``"signed-margin"``  3, towards the second class
        a callable           none: give a number
        ===================  ==============================

    rate : float, default=0.7
        Mean of q, at least 0 and less than 1; the share that is actually hidden varies around it.
    measure : str or callable, default="margin"
        The measure u, see `Mechanism`. "signed-margin" hides labels towards one of two classes; a callable of the log posteriors
        that is 100 in some rows, with a negative slope, spares them.
    at_least : int, default=0
        Number of labels that every class must keep. The draw is repeated until it does, up to 1000 times.
    random_state : int >= 0, Generator, RandomState or None, default=None
        One uniform number is drawn for each row, in order, and the label is hidden if it is below q: with the same int
        a higher rate hides the same labels and more (unless draws were repeated for `at_least`).

    Returns
    -------
    Bunch
        - `target`: y without the hidden labels: -1 for integers, NaN for floats, else None; a Series stays a Series.
        - `target_true`: all labels of y, in the same form.
        - `missing`: whether `target` is missing, (n,).
        - `missing_proba`: q, (n,), also of rows that had no label.
        - `mechanism`: the `Mechanism` behind q; None if link=None or rate=0.
        - `rate`: as given.
        - `DESCR`: a sentence.

    Raises
    ------
    ValueError
        If an argument cannot be used, or if no draw leaves `at_least` labels in every class.

    See Also
    --------
    make_mar_mixture : Simulated rows with labels hidden in this way.
    load_tumours, load_odd_digits : Real rows whose hard labels are hidden.
    marmix.Mechanism : The mechanism, with its measures and links.

    Notes
    -----
    Posteriors may be exactly 0 and 1. Measures replace zeros by the smallest normal number, 2.2e-308, which gives their
    limits to all digits. Two measures are infinite where a single class has all the probability: the log-entropy is
    -inf there and the discriminant inf, so q is 0 or 1 depending on the sign of the slope.

    Examples
    --------
    Labels of rows with a posterior near one half are mostly lost:

    >>> import numpy as np
    >>> from marmix.datasets import hide_labels
    >>> tau = np.linspace(0.0, 1.0, 9)
    >>> hidden = hide_labels(list("aaaabbbbb"), np.column_stack([1 - tau, tau]), rate=0.5, random_state=0)
    >>> hidden.target.tolist()
    ['a', 'a', None, None, None, 'b', None, 'b', 'b']
    >>> hidden.missing_proba.round(2)
    array([0.02, 0.24, 0.67, 0.86, 0.9 , 0.86, 0.67, 0.24, 0.02])

    For data of your own, take the posteriors of a classifier that was cross-fitted to all labels:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_predict
    >>> X, y = load_iris(return_X_y=True)
    >>> proba = cross_val_predict(LogisticRegression(max_iter=1000), X, y, method="predict_proba")
    >>> target = hide_labels(y, proba, rate=0.4, random_state=0).target
    >>> [int(((target == -1) & (y == k)).sum()) for k in range(3)]
    [7, 28, 21]

    The first species is easily told from the others, and keeps most of its labels.
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"rate={rate!r} must be at least 0 and less than 1.")
    z, names = _encoded(y, posterior)
    mechanism, q = None, np.full(len(z), float(rate))
    if posterior is not None or (link is not None and rate > 0.0):
        tau = _checked_posterior(posterior, len(z), names)
    if link is not None:
        name, shape = (link, None) if isinstance(link, str) else (FREE.name, float(link))
        model = Mechanism.from_link(name, shape, measure)
        if model.free_shape:
            raise ValueError(f"link={link!r} needs a shape: give a number as link, such as 2.0.")
        steepness = as_measure(measure).slope if slope is None else float(slope)
        if steepness is None:
            raise ValueError(
                "slope is needed with a callable measure. To hide labels of hard rows first, give a negative slope if the "
                "measure is large where the class is clear, otherwise a positive one."
            )
        if rate > 0.0:
            mechanism, q = _at_rate(model, _measured(model, tau, steepness), steepness, float(rate), z >= 0)
    hidden = _draw_hidden(z, names, q, int(at_least), generator(random_state))
    labelled, labels = known_labels(y, names)
    target = _without(y, labelled, labels, hidden)
    return Bunch(
        target=target,
        target_true=_without(y, labelled, labels, np.zeros_like(hidden)),
        missing=hidden | (z < 0),
        missing_proba=q,
        mechanism=mechanism,
        rate=float(rate),
        DESCR=_description(mechanism, float(rate), int(np.sum(hidden & labelled)), int(labelled.sum())),
    )


def generator(random_state: Any) -> np.random.Generator:
    """A Generator unchanged; a new one from an int or None; one seeded by draws from a RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_sequence(random_state))


# Input.


def _encoded(y: Any, posterior: Any) -> tuple[Ints, AnyArray]:
    """Labels as integers, -1 where missing, and the classes: all columns of the posterior if labels are their numbers."""
    labels = known_labels(y, np.empty(0))[1]
    columns = np.arange(1 if posterior is None else np.shape(posterior)[-1])
    if len(columns) > 1 and labels.dtype.kind in "iu" and len(labels) and np.isin(labels, columns).all():
        return number_labels(y, columns), columns
    return encode_labels(y)


def _checked_posterior(posterior: Any, n: int, names: AnyArray) -> Array:
    if posterior is None:
        raise ValueError("posterior is needed: class probabilities (n, K) of every row. Only link=None works without.")
    tau = np.asarray(unmasked(posterior), dtype=float)
    if tau.shape != (n, len(names)):
        raise ValueError(
            f"posterior has shape {tau.shape}; for {n} labels of the classes {names.tolist()} it must have shape "
            f"{(n, len(names))}."
        )
    return checked_proba(tau, tau.shape, "posterior")


# The mechanism.


def _measured(model: Mechanism, tau: Array, slope: float) -> Array:
    """The uncertainty of every row, or zeros if the slope is zero."""
    with quiet():
        u = model.uncertainty(np.log(np.maximum(tau, np.finfo(float).tiny)))
    limit = model.measured.at_certainty(tau.shape[1])
    if limit is not None and np.isinf(limit):
        u[(tau > 0.0).sum(axis=1) == 1] = limit
    return u if slope != 0.0 else np.zeros_like(u)


def _at_rate(model: Mechanism, u: Array, slope: float, rate: float, at_risk: Bools) -> tuple[Mechanism, Array]:
    """The mechanism whose q averages to `rate` over the rows at risk, and q."""

    def q(level: float) -> tuple[Mechanism, Array]:
        mechanism = model.moved(np.array([level, slope]))
        return mechanism, mechanism.missing_proba_of(u[None])

    def excess(level: float) -> float:
        return float(q(level)[1][at_risk].mean()) - rate

    with np.errstate(invalid="ignore"):
        least, most = (float(np.mean(rows[at_risk])) for rows in (slope * u == np.inf, slope * u > -np.inf))
    if not least < rate < most:
        raise ValueError(f"rate={rate:g} cannot be reached, only rates between {least:.4g} and {most:.4g}.")
    reach = 1.0
    while reach < _LARGEST_LEVEL and not excess(-reach) <= 0.0 <= excess(reach):
        reach *= 2.0
    level = np.nan
    if reach < _LARGEST_LEVEL:
        level = float(brentq(excess, -reach, reach, xtol=1e-12, maxiter=1000))
    if not abs(excess(level)) <= 1e-6:
        raise ValueError(f"no alpha_0 gives rate={rate:g}: slope={slope:g} or shape={model.shape:g} is too extreme.")
    return q(level)


def _draw_hidden(z: Ints, names: AnyArray, q: Array, at_least: int, rng: np.random.Generator) -> Bools:
    """Rows whose uniform number is below q, drawn until every class keeps `at_least` labels."""
    labelled = z >= 0
    for _ in range(_DRAWS):
        hidden = rng.random(len(q)) < q
        counts = np.bincount(z[labelled & ~hidden], minlength=len(names))
        if (counts >= at_least).all():
            return hidden
    raise ValueError(
        f"class {names.tolist()[int(counts.argmin())]!r} keeps fewer than at_least={at_least} labels in all of {_DRAWS} draws. "
        "Lower rate or at_least."
    )


# Output.


def _without(y: Any, labelled: Bools, labels: AnyArray, hidden: Bools) -> Any:
    """The labels without the hidden ones, in the form of y; `labels` are those of the labelled rows."""
    series, kind = hasattr(y, "iloc") and y.ndim == 1, labels.dtype.kind
    if series and not isinstance(y.dtype, np.dtype):  # of pandas, with a missing value of its own
        return y.mask(~labelled | hidden)
    target: AnyArray = np.full(len(labelled), None, dtype=object)
    if kind in "iu":
        target = np.full(len(labelled), MISSING, dtype=labels.dtype if kind == "i" else np.int64)
    elif kind == "f":
        target = np.full(len(labelled), np.nan, dtype=labels.dtype)
    target[labelled & ~hidden] = labels[~hidden[labelled]]
    return type(y)(target, index=y.index, name=y.name) if series else target


def _description(mechanism: Mechanism | None, rate: float, hidden: int, labels: int) -> str:
    if rate == 0.0:
        return "No label was hidden."
    count = f"{hidden} of {labels} labels were hidden ({100 * rate:.4g} % on average)"
    if mechanism is None:
        return f"{count}, completely at random."
    return (
        f"{count}, by an Aranda-Ordaz link (shape {mechanism.shape:g}) of the uncertainty {mechanism.measured.name!r} with "
        f"alpha = ({mechanism.alpha[0]:.4g}, {mechanism.alpha[1]:.4g})."
    )
