"""The Aranda-Ordaz link against fifty digits for all values of eta and the shape."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.core.links import eta_at, hazard, log_missing, stretch

mp.mp.dps = 50
LARGEST = np.finfo(float).max
SMALLEST = np.finfo(float).tiny
SHAPES = [0.0, 1e-12, 1e-6, 1e-3, 0.0099, 0.0101, 0.3, 1.0, 2.0, 50.0, 1e6, 1e12]
ETAS = [-800.0, -745.5, -700.0, -400.0, -37.5, -5.0, -1e-3, 0.0, 0.7, 4.0, 30.0, 300.0, 690.0, 700.0, 800.0]


def exact(eta, shape):
    """n, dn/deta, dn/dshape, log q, d log q / d eta in fifty digits."""
    with mp.workdps(400):  # differences such as 1 - (1 - q) lose up to 350 digits at eta = -800
        e, a = mp.exp(mp.mpf(eta)), mp.mpf(shape)
        n = mp.log(1 + a * e) / a if a else e
        slope = e / (1 + a * e)
        shape_slope = (a * e / (1 + a * e) - mp.log(1 + a * e)) / a**2 if a else -(e**2) / 2
        q = -mp.expm1(-n)
        return n, slope, shape_slope, mp.log(q), slope / mp.expm1(n)


def agrees(value, truth, rtol):
    """Equal to `rtol`, or both beyond what a double can hold."""
    if abs(truth) > LARGEST:
        return abs(value) >= LARGEST
    if abs(truth) < SMALLEST:
        return abs(value) <= SMALLEST
    return abs(mp.mpf(float(value)) - truth) <= rtol * abs(truth)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eta", ETAS)
def test_link_and_its_slopes_agree_with_fifty_digits(eta, shape):
    n, slope, shape_slope, log_q, log_q_slope = exact(eta, shape)
    at = np.array([eta])
    with np.errstate(all="ignore"):
        h = hazard(at, shape, with_shape_slope=True)
        computed_log_q, _, computed_slope = log_missing(at, h.n, h.slope, 0.0)
    assert agrees(h.n[0], n, 1e-14)
    assert agrees(h.slope[0], slope, 1e-14)
    assert agrees(computed_log_q[0], log_q, 1e-13)
    assert agrees(computed_slope[0], log_q_slope, 1e-13)
    # in the likelihood the shape's slope is multiplied by d loglik / d n, so its error is absolute there
    for against in (mp.mpf(1), 1 / mp.expm1(n)):
        error = abs(mp.mpf(float(h.shape_slope[0])) - shape_slope) * against
        assert error <= 1e-11 * max(1, abs(shape_slope * against)) or abs(shape_slope) > LARGEST


@pytest.mark.parametrize("eta", [-50.0, -3.0, 0.0, 2.0, 6.0])
def test_shape_zero_and_one_are_cloglog_and_logit_exactly(eta):
    at = np.array([eta])
    cloglog = -np.expm1(-np.exp(at))
    logit = 1.0 / (1.0 + np.exp(-at))
    assert -np.expm1(-hazard(at, 0.0).n) == pytest.approx(cloglog, rel=1e-15)
    assert -np.expm1(-hazard(at, 1.0).n) == pytest.approx(logit, rel=1e-15)


@given(eta=st.floats(-30, 30), shape=st.floats(1e-14, 1e-9))
def test_small_shapes_reach_cloglog_smoothly(eta, shape):
    # dn/dshape = -e^(2 eta) / 2 at 0, so the step from 0 is known
    at = np.array([eta])
    step = hazard(at, shape).n - hazard(at, 0.0).n
    expected = -0.5 * shape * np.exp(2 * at)
    assert abs(step - expected) <= 1e-15 * np.exp(at) + np.exp(3 * at) * shape**2


@given(n=st.floats(1e-8, 40), shape=st.one_of(st.just(0.0), st.floats(1e-6, 100)))
def test_eta_at_inverts_the_hazard(n, shape):
    eta = np.array([eta_at(n, shape)])
    with np.errstate(all="ignore"):
        assert hazard(eta, shape).n[0] == pytest.approx(n, rel=1e-9)


@given(t=st.floats(1e-9, 300))
def test_stretch_is_t_over_one_minus_exp_and_its_derivative(t):
    value, slope = stretch(t)
    with mp.workdps(60):
        f = lambda x: x / -mp.expm1(-x)  # noqa: E731 - mpmath wants a function
        assert value == pytest.approx(float(f(mp.mpf(t))), rel=1e-12)
        assert slope == pytest.approx(float(mp.diff(f, mp.mpf(t))), rel=1e-7)
