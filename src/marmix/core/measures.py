"""Measures u(tau) of the classifier's uncertainty about a row.

Arrays are class-major: ``scores`` has shape (K, n), one column per row of the data. A measure is a function of the posterior
probabilities ``tau = softmax(scores)``, so its gradient with respect to the scores sums to zero over the classes.

`MEASURES` has one record for each measure, which fits, figures and reports use: a new measure is one more record. Below,
``tau_(1) >= tau_(2) >= ...`` are the ordered posteriors of a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from marmix.core.arrays import Array, Bools, like, namespace, on_host, replaced, to_host


class Posterior(NamedTuple):
    """Posteriors of a block in a form that keeps its digits near 0 and near 1."""

    scores: Array
    top: Array  # largest score of a row
    second: Array  # second largest
    rest: Array  # sum of exp(score - top) over the other classes
    tau: Array

    def log_norm(self, rows: slice = slice(None)) -> Array:
        """The logsumexp of the scores of these rows."""
        return self.top[rows] + namespace(self.rest).log1p(self.rest[rows])


def posterior(scores: Array) -> Posterior:
    """Softmax and its normaliser, accurate for posteriors from 1e-300 to 1 - 1e-300.

    ``rest`` is summed without the leading class: ``1 - tau_(1) = rest / (1 + rest)`` keeps its digits where
    ``1 - tau_(1)`` would be rounded to zero.
    """
    xp, classes = namespace(scores), scores.shape[0]
    top = xp.maximum(scores[0, :], scores[1, :])
    second = xp.minimum(scores[0, :], scores[1, :])
    for k in range(2, classes):
        row = scores[k, :]
        second = xp.maximum(second, xp.minimum(top, row))
        top = xp.maximum(top, row)
    tau = xp.exp(scores - top)
    if classes == 2:
        rest = tau[0, :] * tau[1, :]  # one of them is exp(0) = 1
    else:
        rest = xp.sum(xp.where(scores < top, tau, 0.0), axis=0)
        rest += xp.round(xp.sum(tau, axis=0) - 1.0 - rest)  # classes that tie with the leading one
    tau *= 1.0 / (1.0 + rest)
    return Posterior(scores, top, second, rest, tau)


class Measured(NamedTuple):
    """Values (n,) of a measure, and their gradient (K, n) with respect to the scores."""

    value: Array
    gradient: Array


@dataclass(frozen=True)
class Measure:
    """A measure of uncertainty, to be called with a `Posterior`, and its properties."""

    name: str  # value of the option `measure`
    function: Callable[[Posterior], Measured]
    words: str  # description for reports
    grows: Literal["clear", "unclear", "second class"] | None  # where the measure is large; None if unknown
    range: Callable[[int], tuple[float, float]]  # smallest and largest value, by the number of classes
    axis: str = (
        "uncertainty ({words})"  # axis label; may use {words}, {low}, {high} and the names {first}, {last} of classes
    )
    slope: float | None = (
        None  # with which `hide_labels` mainly hides labels of hard rows, or those of the second class
    )
    kinked: bool = (
        False  # whether it uses only the two leading classes, so that with three or more its gradient has jumps
    )
    only_classes: int | None = None  # the number of classes it is defined for; None for any
    fused: bool = False  # whether the kernels of `marmix.engines.fused` implement it

    def __call__(self, p: Posterior) -> Measured:
        """Values and gradients for a block of posteriors."""
        classes = p.tau.shape[0]
        if not self.admits(classes):
            names = " or ".join(repr(name) for name, measure in MEASURES.items() if measure.admits(classes))
            raise ValueError(
                f"measure={self.name!r} is defined for {self.only_classes} classes only, not {classes}: use {names}."
            )
        return self.function(p)

    def admits(self, classes: int) -> bool:
        """Whether the measure is defined for this number of classes."""
        return self.only_classes in (None, classes)

    def has_kinks(self, classes: int) -> bool:
        """Whether the gradient has jumps for this number of classes."""
        return self.kinked and classes > 2

    def at_certainty(self, classes: int) -> float | None:
        """The value if one class has probability one; None if it depends on the class or is unknown."""
        low, high = self.range(classes)
        return {"clear": high, "unclear": low}.get(self.grows or "")


def margin(p: Posterior) -> Measured:
    """Squared margin ``delta^2``, ``delta = tau_(1) - tau_(2)``; ``tanh(|s_1 - s_2| / 2)`` with two classes."""
    tau, xp = p.tau, namespace(p.tau)
    if tau.shape[0] == 2:
        delta = xp.tanh(0.5 * (p.scores[0, :] - p.scores[1, :]))  # signed, as the gradient needs the sign
        gradient = xp.empty_like(tau)
        gradient[0, :] = tau[0, :] * tau[1, :]
        gradient[0, :] *= 4.0 * delta
        gradient[1, :] = -gradient[0, :]
        return Measured(delta * delta, gradient)
    # delta = tau_(1) - tau_(2) and 1 - delta, neither as a difference of two numbers near 1
    gap, norm = p.second - p.top, 1.0 + p.rest
    delta, short = -xp.expm1(gap) / norm, (p.rest + xp.exp(gap)) / norm
    leads, follows = _leaders(p)
    gradient = xp.where(leads, short, xp.where(follows, -1.0 - delta, -delta))
    gradient *= tau
    gradient *= 2.0 * delta
    return Measured(delta * delta, gradient)


def discriminant(p: Posterior) -> Measured:
    """Squared log-odds of the two leading classes, ``(log tau_(1) - log tau_(2))^2``."""
    xp, gap = namespace(p.tau), p.top - p.second
    leads, follows = _leaders(p)
    return Measured(gap * gap, xp.where(leads, 2.0 * gap, xp.where(follows, -2.0 * gap, 0.0)))


def signed_margin(p: Posterior) -> Measured:
    """``tau_2 - tau_1 = tanh((s_2 - s_1) / 2)`` of two classes."""
    xp = namespace(p.tau)
    slope = 2.0 * p.tau[0, :] * p.tau[1, :]
    return Measured(xp.tanh(0.5 * (p.scores[1, :] - p.scores[0, :])), xp.stack([-slope, slope]))


def entropy(p: Posterior) -> Measured:
    """Shannon entropy; ``dH/ds_k = H (p_k - tau_k)`` with ``p_k = -tau_k log tau_k / H``."""
    log_h, share = _log_entropy_and_shares(p)
    value = namespace(log_h).exp(log_h)
    return Measured(value, value * (share - p.tau))


def log_entropy(p: Posterior) -> Measured:
    """Logarithm of the entropy, finite for all scores; ``d log H / ds_k = p_k - tau_k``."""
    log_h, share = _log_entropy_and_shares(p)
    return Measured(log_h, share - p.tau)


def gini(p: Posterior) -> Measured:
    """Gini impurity ``sum_k tau_k (1 - tau_k)``; ``du/ds_k = 2 tau_k (sum_l tau_l^2 - tau_k)``."""
    tau, xp = p.tau, namespace(p.tau)
    complement = xp.where(p.scores == p.top, p.rest / (1.0 + p.rest), 1.0 - tau)  # 1 - tau
    value = xp.sum(tau * complement, axis=0)
    return Measured(value, 2.0 * tau * (complement - value))


MeasureLike = str | Callable[..., object]  # a name, or a function of log posteriors

# fmt: off
MEASURES = {measure.name: measure for measure in (
    Measure("margin", margin, "squared margin", "clear", lambda classes: (0.0, 1.0),
            "uncertainty ({words}): 0 = toss-up, 1 = certain",
            slope=-6.0, kinked=True, fused=True),
    Measure("entropy", entropy, "entropy", "unclear", lambda classes: (0.0, float(np.log(classes))),
            "uncertainty ({words}): 0 = certain, {high:.2f} = toss-up",
            slope=4.0, fused=True),
    Measure("log-entropy", log_entropy, "log of the entropy", "unclear",
            lambda classes: (-np.inf, float(np.log(np.log(classes)))),
            "uncertainty ({words}): the higher, the less certain",
            slope=2.0),
    Measure("gini", gini, "gini", "unclear", lambda classes: (0.0, 1.0 - 1.0 / classes),
            "uncertainty ({words}): 0 = certain, {high:.2f} = toss-up",
            slope=8.0, fused=True),
    Measure("discriminant", discriminant, "squared log-odds", "clear", lambda classes: (0.0, np.inf),
            "uncertainty ({words}): 0 = toss-up, the higher, the more certain",
            slope=-0.5, kinked=True),
    Measure("signed-margin", signed_margin, "signed margin", "second class", lambda classes: (-1.0, 1.0),
            "{words}: -1 = surely {first}, 1 = surely {last}",
            slope=3.0, only_classes=2),
)}
# fmt: on


def as_measure(measure: MeasureLike, argument: str = "measure") -> Measure:
    """The measure of that name, or a measure made from a user's callable; `argument` is the option in error messages.

    The callable takes ``log_tau`` of shape (n, K) and returns ``u`` of shape (n,), or the pair ``(u, du)`` with ``du`` of
    shape (n, K) the partial derivatives with respect to ``log_tau``. Without ``du``, central differences are used.
    """
    if isinstance(measure, Measure):
        return measure
    if callable(measure):
        return Measure(
            getattr(measure, "__name__", "callable"),
            partial(_user_measure, measure),
            words=getattr(measure, "__name__", "your own"),
            grows=None,
            range=lambda classes: (-np.inf, np.inf),
        )
    if measure not in MEASURES:
        raise ValueError(f"{argument}={measure!r} is not a callable nor one of {', '.join(MEASURES)}.")
    return MEASURES[measure]


def log_tau(p: Posterior) -> Array:
    """Log posteriors (K, n), accurate near 0 and near 1."""
    out = p.scores - p.top
    out -= namespace(out).log1p(p.rest)
    return out


def _leaders(p: Posterior) -> tuple[Bools, Bools]:
    """Masks of the leading and the second class of each row; ties go to the first classes."""
    leads, follows = p.scores == p.top, p.scores == p.second
    if on_host(leads) and np.count_nonzero(leads) + np.count_nonzero(follows) == 2 * leads.shape[1]:
        return leads, follows
    leads = _first(leads)
    return leads, _first(follows & ~leads)


def _first(mask: Bools) -> Bools:
    """Keep the first true class of each row, in place."""
    before = mask[0, :]
    for k in range(1, mask.shape[0]):
        mask[k, :] &= ~before
        before = before | mask[k, :]
    return mask


def _log_entropy_and_shares(p: Posterior) -> tuple[Array, Array]:
    """``log H`` and ``p_k = -tau_k log tau_k / H``, computed in logarithms.

    The leading term is ``-log tau_(1) = log1p(rest)``; where ``rest`` underflows, its logarithm comes from the scores.
    """
    xp = namespace(p.scores)
    log_posterior = log_tau(p)
    with np.errstate(divide="ignore"):
        log_surprise = xp.log(-log_posterior)  # -inf where log tau_(1) underflowed
    certain = p.rest < 1e-290

    def among_certain() -> Array:
        leads, _ = _leaders(p)
        others = xp.exp(xp.where(leads, p.second, p.scores) - p.second)
        log_rest = p.second - p.top + xp.log(xp.sum(others, axis=0) - 1.0)
        return xp.where(leads, log_rest, log_surprise)

    log_surprise = replaced(log_surprise, certain, among_certain)
    terms = log_posterior + log_surprise
    top = xp.max(terms, axis=0)
    share = xp.exp(terms - top)
    total = xp.sum(share, axis=0)
    share /= total
    return top + xp.log(total), share


# Steps in the scores for second derivatives: near eps^(1/3); larger for measures with kinks, because kinks add to the curvature
# of a sum over rows, and a step must cross some of them.
_STEP, _STEP_OVER_KINKS = 2e-5, 0.1


def measure_curvature(measure: MeasureLike, p: Posterior) -> Array:
    """Second derivatives (K, K, n) of a measure in the scores, by central differences of its gradient.

    With two classes one step is enough, because a constant added to all scores changes nothing.
    """
    measure, classes = as_measure(measure), len(p.scores)
    step = _STEP_OVER_KINKS if measure.has_kinks(classes) else _STEP
    curvature = np.zeros((classes, classes, p.scores.shape[1]))
    for k in range(classes if classes > 2 else 1):
        up, down = p.scores.copy(), p.scores.copy()
        up[k] += step
        down[k] -= step
        curvature[k] = (measure(posterior(up)).gradient - measure(posterior(down)).gradient) / (2.0 * step)
    if classes == 2:
        curvature[1] = -curvature[0]
    else:
        curvature -= curvature.mean(axis=0)
    return 0.5 * (curvature + np.swapaxes(curvature, 0, 1))


def _user_measure(function: Callable[..., object], p: Posterior) -> Measured:
    if not on_host(p.scores):  # users' functions take NumPy arrays
        value, gradient = _user_measure(function, posterior(to_host(p.scores)))
        return Measured(like(value, p.scores), like(gradient, p.scores))
    at = np.ascontiguousarray(log_tau(p).T)
    result = function(at)
    value = np.asarray(result[0] if isinstance(result, tuple) else result, dtype=float)
    if value.shape != at.shape[:1]:
        raise ValueError(
            f"measure: the callable returned shape {value.shape} for {len(at)} rows; it must be {at.shape[:1]}."
        )
    if isinstance(result, tuple):
        partial = np.asarray(result[1], dtype=float)
        if partial.shape != at.shape:
            raise ValueError(
                f"measure: the callable's gradient has shape {partial.shape}; it must match log_tau, {at.shape}."
            )
    else:
        partial = _central_differences(function, at)
    if not (np.isfinite(value).all() and np.isfinite(partial).all()):
        raise ValueError("measure: the callable returned NaN or infinity; it must be finite for every posterior.")
    return Measured(value, partial.T - p.tau * partial.sum(axis=1))


def _central_differences(function: Callable[..., object], at: Array) -> Array:
    partial = np.empty_like(at)
    for k in range(at.shape[1]):
        step = 1e-5 * np.maximum(1.0, np.abs(at[:, k]))  # near eps^(1/3)
        up, down = at.copy(), at.copy()
        up[:, k] += step
        down[:, k] -= step
        partial[:, k] = (np.asarray(function(up)) - np.asarray(function(down))) / (up[:, k] - down[:, k])
    return partial
