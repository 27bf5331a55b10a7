"""The Aranda-Ordaz link, written as a hazard.

With ``n = -log(1 - q)`` the cumulative hazard of losing the label,

    n(eta) = log(1 + shape e^eta) / shape,        n(eta) = e^eta at shape 0,

which is the paper's ``q = 1 - (1 + shape e^eta)^(-1/shape)``: complementary log-log at shape 0, logit at shape 1, smooth in
between. Hazards of independent causes add, so a share ``a`` of labels missing completely at random,
``q = a + (1 - a) g(eta)``, only adds the constant ``-log(1 - a)`` to ``n``.

The log-likelihood of a row depends on ``n`` alone, and none of these forms loses digits for eta in [-800, 800]:

    label missing:  log q       = -log1p(1 / expm1(n)),   d/dn = 1 / expm1(n)
    label given:    log(1 - q)  = -n,                     d/dn = -1
"""

from dataclasses import dataclass
from math import exp, expm1, log
from typing import NamedTuple

import numpy as np

from marmix.core.arrays import Array, namespace, on_host, replaced


@dataclass(frozen=True)
class Link:
    """A link function: a named fixed shape, or the Aranda-Ordaz link of any shape."""

    name: str  # value of the option `link`
    shape: float | None  # None if the shape is given separately or estimated
    words: str  # description for reports


FREE = Link("aranda-ordaz", None, "Aranda-Ordaz")
LINKS = {link.name: link for link in (FREE, Link("logit", 1.0, "logit"), Link("cloglog", 0.0, "complementary log-log"))}


def link_of_shape(shape: float) -> Link:
    """The link with this fixed shape, or the Aranda-Ordaz link if there is none."""
    return next((link for link in LINKS.values() if link.shape == shape), FREE)


# Between these exp is finite and normal; outside, the limits are exact in double precision.
_FAR_DOWN, _FAR_UP = -690.0, 690.0
_LARGEST = float(np.finfo(float).max)

# For smaller shapes dn/dshape would lose digits as 1/shape; it is summed as a series in shape e^eta instead.
_SMALL_SHAPE, _SMALL_PRODUCT = 0.01, 0.05
_SERIES = [(-1) ** (i + 1) * (i + 1) / (i + 2) for i in range(14)]  # remainder below 0.05^14
_SERIES_SLOPE = [-i * term for i, term in enumerate(_SERIES)][1:]


class Hazard(NamedTuple):
    """``n`` with its derivatives ``slope = dn/deta`` and, if requested, ``shape_slope = dn/dshape``."""

    n: Array
    slope: Array
    shape_slope: Array | None


def hazard(eta: Array, shape: float, with_shape_slope: bool = False) -> Hazard:
    """Cumulative hazard of a missing label and its derivatives."""
    xp = namespace(eta)
    growth = xp.exp(eta)
    product = shape * growth
    log1p_product = xp.log1p(product)
    highest = _FAR_UP if shape <= 1.0 else _FAR_UP - log(shape)
    if shape and on_host(eta) and eta.size and eta.min() >= _FAR_DOWN / 2 and eta.max() <= highest:  # no extreme row
        slope = growth / (1.0 + product)
        shape_slope = _shape_slope(growth, product, log1p_product, shape) if with_shape_slope else None
        return Hazard(log1p_product / shape, slope, shape_slope)
    far = eta > highest
    if shape == 0:
        n = slope = growth
    else:
        slope = growth / (1.0 + product)
        log1p_product = replaced(log1p_product, far, lambda: eta + log(shape))  # log1p(e^y) is y from y = 40 on
        n = replaced(log1p_product / shape, eta < _FAR_DOWN / 2, lambda: growth)  # where the product would underflow
        product = replaced(product, far, lambda: xp.clip(product, max=_LARGEST))
    slope = replaced(slope, far, lambda: xp.clip(1.0 / (shape + xp.exp(-eta)), max=_LARGEST))
    return Hazard(n, slope, _shape_slope(growth, product, log1p_product, shape) if with_shape_slope else None)


def _shape_slope(growth: Array, product: Array, log1p_product: Array, shape: float) -> Array:
    """``dn/dshape = -(log1p(x) - x / (1 + x)) / shape^2`` with ``x = shape e^eta``; ``-e^(2 eta) / 2`` at shape 0."""
    if shape > _SMALL_SHAPE:
        return (product / (1.0 + product) - log1p_product) / shape**2
    xp = namespace(product)
    if shape == 0.0:
        return xp.clip(_SERIES[0] * growth**2, min=-_LARGEST)
    small = product < _SMALL_PRODUCT
    series = _polynomial(_SERIES, xp.where(small, product, 0.0)) * growth**2
    series = replaced(series, ~small, lambda: (product / (1.0 + product) - log1p_product) / shape**2)
    return xp.clip(series, min=-_LARGEST)


def _polynomial(coefficients: list[float], x: Array) -> Array:
    """``sum_i c_i x^i`` by Horner's rule."""
    value = coefficients[-1] + 0.0 * x
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


class HazardCurvature(NamedTuple):
    """Second derivatives of ``n``."""

    eta: Array  # d2n / deta2
    across: Array  # d2n / deta dshape
    shape: Array  # d2n / dshape2


def hazard_curvature(eta: Array, shape: float, h: Hazard) -> HazardCurvature:
    """Second derivatives of the hazard `h`, which must have its shape slope.

    With ``x = shape e^eta``: ``n'' = slope / (1 + x)``, ``d slope / dshape = -slope^2`` and, as ``dn/dshape`` is ``-e^(2 eta)``
    times a function of x, ``d2n/dshape2 = -(slope^2 + 2 dn/dshape) / shape``, or a series in x where that would lose digits.
    """
    assert h.shape_slope is not None
    growth = np.exp(np.minimum(eta, _FAR_UP))
    product = shape * growth
    small = product < _SMALL_PRODUCT
    series = -_polynomial(_SERIES_SLOPE, np.where(small, product, 0.0)) * growth**3
    if shape > 0.0:
        series = np.where(small, series, -(h.slope**2 + 2.0 * h.shape_slope) / shape)
    return HazardCurvature(h.slope / (1.0 + product), -(h.slope**2), series)


def odds_against(n: Array) -> Array:
    """``1 / expm1(n) = (1 - q) / q``: the slope of ``log q`` in the hazard."""
    return 1.0 / namespace(n).expm1(n)


def log_missing(eta: Array, n: Array, slope: Array, extra: float) -> tuple[Array, Array, Array]:
    """``log q`` of unlabelled rows, and its slopes in the hazard and in eta.

    ``n`` is the total hazard and ``extra`` its part for labels missing completely at random. If that is zero, ``log q`` tends
    to ``eta`` for small eta.
    """
    xp = namespace(n)
    against = odds_against(n)
    log_q = -xp.log1p(against)
    eta_slope = against * slope
    if extra == 0.0 and not (on_host(eta) and eta.size and eta.min() >= _FAR_DOWN):
        far = eta < _FAR_DOWN
        log_q = replaced(log_q, far, lambda: eta)
        eta_slope = replaced(eta_slope, far, lambda: xp.ones_like(eta))
        against = replaced(against, far, lambda: xp.clip(against, max=_LARGEST))
    return log_q, against, eta_slope


def eta_at(n: float, shape: float) -> float:
    """The inverse link: eta with hazard n, ``log(expm1(shape n) / shape)``."""
    t = shape * n
    return log(n) if t < 1e-300 else t + log(-expm1(-t)) - log(shape)


def stretch(t: float) -> tuple[float, float]:
    """``t / (1 - e^-t)``, the ratio of ``d eta`` to ``d log n`` at ``t = shape n``, and its derivative."""
    if t < 1e-4:
        return 1.0 + t / 2.0 + t * t / 12.0, 0.5 + t / 6.0
    decay = -expm1(-t)
    return t / decay, (decay - t * exp(-t)) / decay**2
