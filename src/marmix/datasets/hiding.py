"""Labels lost by a mechanism of our choice: for experiments in which the truth is known."""

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.utils import Bunch, check_random_state

from marmix.arrays import Array
from marmix.labels import MISSING, encode_labels, known_labels, number_labels
from marmix.mechanism import Mechanism
from marmix.mechanism.measures import as_measure

Booleans = NDArray[np.bool_]

_DRAWS = 1000  # of which one must leave `at_least` labels in every class
_FARTHEST = 1e15  # no intercept beyond this is tried: its last digit would be worth a tenth


def hide_labels(
    y: Any,
    posterior: Any = None,
    link: str | None = "logit",
    shape: float | None = None,
    slope: float | None = None,
    rate: float = 0.7,
    *,
    uncertainty: str | Callable[..., object] = "margin",
    side: Any = None,
    classes: Any = None,
    at_least: int = 0,
    random_state: Any = None,
    return_y: bool = False,
) -> Any:
    """Lose labels, those of hard rows first: a partly labelled data set of which everything is known.

    With u_j the uncertainty of row j, a measure of its posterior, its label is lost with probability

        q_j = 1 - (1 + shape e^eta_j)^(-1 / shape),    eta_j = alpha_0 + slope u_j,

    the Aranda-Ordaz link; alpha_0 is solved so that the mean of q over the labelled rows is `rate`.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: numbers, strings, booleans, a pandas Series. Some may be missing already (-1, None, NaN): they stay so, and
        their rows do not count in `rate`.
    posterior : array-like of shape (n, K), or None
        Class probabilities of every row, the true ones or those of any classifier, best cross-fitted. Columns are in
        the order of the sorted labels, or of `classes`. None is enough if `link` is None or `rate` is 0.
    link : {"logit", "cloglog", "aranda-ordaz"} or None, default="logit"
        Shape 1, shape 0, or the `shape` that is given. None loses labels completely at random: q = rate in every row,
        whatever `slope` and `uncertainty`.
    shape : float or None, default=None
        Shape lambda >= 0 of link="aranda-ordaz".
    slope : float or None, default=None
        Slope of eta in the uncertainty. A number is taken as given, sign included. None stands for a slope with which hard
        rows clearly lose their labels first: *negative* for measures that are large where the class is clear, *positive* for
        those that are large where it is unclear.

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
        Mean of q, at least 0 and less than 1; the share that is really lost varies about it. With 0 no label is lost.
    uncertainty : str or callable, default="margin"
        The measure u, see `Mechanism`. "signed-margin" loses labels towards one of two classes.
    side : label or None, default=None
        A class: only rows whose most probable class this is can lose their labels, q = 0 in the others. `rate` is still the
        mean over all labelled rows, so it must be less than the share of those rows.
    classes : array-like or None, default=None
        All classes in the order of the columns of `posterior`, where this is not the sorted order, or where not every class
        occurs in `y`.
    at_least : int, default=0
        Labels that every class must keep. The draw is repeated until it is so, up to 1000 times.
    random_state : int >= 0, Generator, RandomState or None, default=None
        One uniform number is drawn for each row, in order, and the label is lost where it is below q: with the same int a
        higher rate loses the same labels and more (unless `at_least` had draws repeated).
    return_y : bool, default=False
        Return `target` alone.

    Returns
    -------
    Bunch
        - `target`: y without the lost labels. Integers have -1 there, floats NaN, all else None; a Series stays one.
        - `target_true`: all labels that y has, written likewise.
        - `missing`: where `target` is missing, (n,).
        - `missing_proba`: q, (n,); of rows that had no label, the q they would have had.
        - `mechanism`: the `Mechanism` behind q (on the `side` that loses labels, if one was named); None if link=None or
          rate=0.
        - `rate`: as asked for.
        - `DESCR`: a sentence.

    Notes
    -----
    Posteriors of exactly 0 and 1 are welcome. Measures see zeros as 2.2e-308, the least normal number, which gives them their
    limits to all digits. Two have none that is finite where a single class has all the probability: there the log-entropy
    is -inf and the discriminant inf, hence q is 0 or 1 by the sign of the slope.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix.datasets import hide_labels
    >>> tau = np.linspace(0.0, 1.0, 9)
    >>> hidden = hide_labels(list("aaaabbbbb"), np.column_stack([1 - tau, tau]), rate=0.5, random_state=0)
    >>> hidden.target.tolist()
    ['a', 'a', None, None, None, 'b', None, 'b', 'b']
    >>> hidden.missing_proba.round(2)
    array([0.02, 0.24, 0.67, 0.86, 0.9 , 0.86, 0.67, 0.24, 0.02])
    """
    if not (isinstance(rate, numbers.Real) and 0.0 <= rate < 1.0):
        raise ValueError(f"rate={rate!r} must be at least 0 and less than 1.")
    if slope is not None and not (isinstance(slope, numbers.Real) and np.isfinite(float(slope))):
        raise ValueError(f"slope={slope!r} must be a finite number, or None for the measure's default.")
    if not (isinstance(at_least, numbers.Integral) and at_least >= 0):
        raise ValueError(f"at_least={at_least!r} must be an integer >= 0.")
    z, named = _encoded(y, classes)
    mechanism, q = None, np.full(len(z), float(rate))
    if link is None and (shape is not None or side is not None):
        raise ValueError("link=None loses labels everywhere alike: it takes neither shape nor side.")
    if posterior is not None or (link is not None and rate > 0.0):
        tau = _checked_posterior(posterior, len(z), named)
    if link is not None:
        options = _options(link, shape, uncertainty)
        steepness = _slope(slope, uncertainty)
        column = _column(side, named)
        if rate > 0.0:
            exposed = np.full(len(z), True) if column is None else tau.argmax(axis=1) == column
            u = _measured(options, tau, steepness)
            mechanism, q = _at_rate(options, u, steepness, float(rate), exposed, z >= 0)
    lost = _lost(z, named, q, int(at_least), generator(random_state))
    known, labels = known_labels(y, np.empty(0))
    target = _written(y, known, labels, lost)
    if return_y:
        return target
    return Bunch(
        target=target,
        target_true=_written(y, known, labels, np.zeros_like(lost)),
        missing=lost | (z < 0),
        missing_proba=q,
        mechanism=mechanism,
        rate=float(rate),
        DESCR=_description(mechanism, side, float(rate), int(np.sum(lost & known)), int(known.sum())),
    )


def generator(random_state: Any) -> np.random.Generator:
    """A Generator as it is; of an int or None a fresh one; of a RandomState one that moves it on."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        if random_state is None or isinstance(random_state, numbers.Integral):
            return np.random.default_rng(None if random_state is None else int(random_state))
        old = check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state={random_state!r} must be an integer >= 0, a numpy Generator or RandomState, or None."
        ) from None
    return np.random.default_rng(old.randint(2**31 - 1, size=4))


# Input.


def _encoded(y: Any, classes: Any) -> tuple[NDArray[np.integer[Any]], NDArray[Any]]:
    """Integers of the labels, -1 where missing, and the classes; those of `classes` need not all occur."""
    if classes is None:
        return encode_labels(y)
    named = np.asarray(classes)
    if named.ndim != 1 or len(named) < 2 or len(set(named.tolist())) != len(named):
        raise ValueError(f"classes={classes!r}: name each class once, two or more, in a list.")
    if MISSING in named.tolist():
        raise ValueError("classes: -1 marks a missing label here and cannot be a class: rename it.")
    known, labels = known_labels(y, named)
    if not known.any():
        raise ValueError("y has no label at all: there is none to hide.")
    unknown = [label for label in labels.tolist() if label not in set(named.tolist())]
    if unknown:
        raise ValueError(f"y holds the label {unknown[0]!r}, which is not in classes={named.tolist()}.")
    return number_labels(y, named), named


def _checked_posterior(posterior: Any, n: int, named: NDArray[Any]) -> Array:
    if posterior is None:
        raise ValueError(
            "posterior is needed: class probabilities (n, K) of every row. Only link=None, labels lost completely at "
            "random, does without."
        )
    tau = np.asarray(posterior, dtype=float)
    if tau.shape != (n, len(named)):
        raise ValueError(
            f"posterior has shape {tau.shape}; for {n} labels of the classes {named.tolist()} it must have shape "
            f"{(n, len(named))}. (Name all classes in classes= if y lacks one.)"
        )
    if not (tau >= 0.0).all():
        raise ValueError("posterior holds negative numbers or NaN: give class probabilities, not scores.")
    if not (np.abs(tau.sum(axis=1) - 1.0) <= 1e-6).all():
        raise ValueError("posterior: the probabilities of every row must sum to one (to 1e-6).")
    return tau


def _options(link: str, shape: float | None, uncertainty: str | Callable[..., object]) -> Mechanism:
    """The mechanism without its alpha."""
    options = Mechanism.from_link(link, shape, uncertainty)
    if options.free_shape:
        raise ValueError(f"link={link!r} needs a shape to lose labels by: give shape=2.0, say, or link='logit'.")
    return options


def _slope(slope: float | None, uncertainty: str | Callable[..., object]) -> float:
    """The slope given, or else the measure's default."""
    default = as_measure(uncertainty).slope if slope is None else float(slope)
    if default is None:
        raise ValueError(
            "slope is needed with a callable uncertainty. Hard rows lose their labels first with a negative slope if the measure "
            "is large where the class is clear, with a positive one if it is large where the class is unclear."
        )
    return default


def _column(side: Any, named: NDArray[Any]) -> int | None:
    """The number of the class whose rows alone can lose their labels; None for all rows."""
    if side is None:
        return None
    if side not in named.tolist():
        raise ValueError(f"side={side!r} is not one of the classes {named.tolist()}.")
    return named.tolist().index(side)


# The mechanism.


def _measured(options: Mechanism, tau: Array, slope: float) -> Array:
    """The uncertainty of every row; zeros where the slope makes it irrelevant."""
    with np.errstate(all="ignore"):
        u = options.measure(np.log(np.maximum(tau, np.finfo(float).tiny)))
    limit = options.measured.at_certainty(tau.shape[1])
    if limit is not None and np.isinf(limit):
        u[(tau > 0.0).sum(axis=1) == 1] = limit
    return u if slope != 0.0 else np.zeros_like(u)


def _at_rate(
    options: Mechanism, u: Array, slope: float, rate: float, exposed: Booleans, at_risk: Booleans
) -> tuple[Mechanism, Array]:
    """The mechanism whose q has this mean over the rows at risk, and q."""

    def q(level: float) -> tuple[Mechanism, Array]:
        mechanism = options.moved(np.array([level, slope]))
        return mechanism, np.where(exposed, mechanism.missing_proba_of(u[None]), 0.0)

    def excess(level: float) -> float:
        return float(q(level)[1][at_risk].mean()) - rate

    with np.errstate(invalid="ignore"):
        least, most = (float(np.mean((exposed & rows)[at_risk])) for rows in (slope * u == np.inf, slope * u > -np.inf))
    if not least < rate < most:
        raise ValueError(
            f"rate={rate:g} cannot be reached: the largest rate is {most:.4g}, the share of rows that can lose their labels"
            + (f" (the smallest is {least:.4g})." if least else ".")
        )
    reach = 1.0
    while reach < _FARTHEST and not excess(-reach) <= 0.0 <= excess(reach):
        reach *= 2.0
    level = np.nan
    if reach < _FARTHEST:
        level = float(brentq(excess, -reach, reach, xtol=1e-12, maxiter=1000))
    if not abs(excess(level)) <= 1e-6:
        raise ValueError(f"no alpha_0 gives rate={rate:g}: slope={slope:g} or shape={options.shape:g} is too extreme.")
    return q(level)


def _lost(
    z: NDArray[np.integer[Any]], named: NDArray[Any], q: Array, at_least: int, rng: np.random.Generator
) -> Booleans:
    """Which labels are lost."""
    known = z >= 0
    given = np.bincount(z[known], minlength=len(named))
    if (given < at_least).any():
        k = int(given.argmin())
        raise ValueError(f"at_least={at_least}: class {named.tolist()[k]!r} has {given[k]} labels to begin with.")
    for _ in range(_DRAWS):
        lost = rng.random(len(q)) < q
        left = np.bincount(z[known & ~lost], minlength=len(named))
        if (left >= at_least).all():
            return lost
    raise ValueError(
        f"{_DRAWS} draws left fewer than at_least={at_least} labels in some class: class {named.tolist()[int(left.argmin())]!r} "
        "keeps too few at this rate. Lower rate or at_least."
    )


# Output.


def _written(y: Any, known: Booleans, labels: NDArray[Any], lost: Booleans) -> Any:
    """The labels without the lost ones, as the user writes labels."""
    if hasattr(y, "iloc") and y.ndim == 1:
        return _series(y, ~known | lost)
    kind = labels.dtype.kind
    blank: NDArray[Any] = np.full(len(known), None, dtype=object)
    if kind in "iu":
        blank = np.full(len(known), MISSING, dtype=labels.dtype if kind == "i" else np.int64)
    elif kind == "f":
        blank = np.full(len(known), np.nan, dtype=labels.dtype)
    blank[known & ~lost] = labels[~lost[known]]
    return blank


def _series(y: Any, missing: Booleans) -> Any:
    """A pandas Series without these labels; its dtype stays where it has room for what is missing."""
    if isinstance(y.dtype, np.dtype):
        if y.dtype.kind == "i":
            return y.mask(missing, MISSING)
        if y.dtype.kind == "u":
            return y.astype(np.int64).mask(missing, MISSING)
        if y.dtype.kind in "bO":
            return y.astype(object).mask(missing, None)
    return y.mask(missing)


def _description(mechanism: Mechanism | None, side: Any, rate: float, lost: int, given: int) -> str:
    if rate == 0.0:
        return "No label was lost."
    count = f"{lost} of {given} labels were lost ({100 * rate:.4g} % in the mean)"
    if mechanism is None:
        return f"{count}, completely at random."
    where = "" if side is None else f", only where {side!r} is the most probable class"
    return (
        f"{count}, by an Aranda-Ordaz link (shape {mechanism.shape:g}) of the uncertainty {mechanism.measured.name!r} with "
        f"alpha = ({mechanism.alpha[0]:.4g}, {mechanism.alpha[1]:.4g}){where}."
    )
