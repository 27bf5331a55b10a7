"""The measures of uncertainty: values, gradients, symmetries and limits."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from marmix.core.measures import MEASURES, as_measure, log_tau, posterior

mp.mp.dps = 50
MEASURE = pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))


def admitted(measure, most=6):
    """Numbers of classes for which the measure is defined."""
    return [classes for classes in range(2, most + 1) if measure.admits(classes)]


def drawn_scores(data, measure, rows, largest):
    shape = data.draw(st.tuples(st.sampled_from(admitted(measure)), st.just(rows)))
    return data.draw(arrays(float, shape, elements=st.floats(-largest, largest)))


@pytest.mark.parametrize("name", ["margin", "discriminant", "gini", "entropy", "log-entropy"])
@pytest.mark.parametrize(
    "scores",
    [
        [0.3, -0.2],
        [-1.0, 4.0],
        [0.0, 690.78],  # posterior 1 - 1e-300
        [900.0, -50.0],
        [0.5, 0.1, -0.4],
        [40.0, 0.0, -3.0],
        [0.0, 1.0, 2.0, 3.0, -2.5],
        [-700.0, 0.0, -690.0, -699.0],
    ],
)
def test_values_and_gradients_agree_with_fifty_digits(name, scores):
    with mp.workdps(1600), np.errstate(all="ignore"):
        result = MEASURES[name](posterior(np.array(scores)[:, None]))
        e = [mp.exp(mp.mpf(s)) for s in scores]
        total = mp.fsum(e)
        tau = [x / total for x in e]
        order = sorted(range(len(tau)), key=lambda k: -tau[k])
        delta = tau[order[0]] - tau[order[1]]
        sign = [1 if k == order[0] else -1 if k == order[1] else 0 for k in range(len(tau))]
        entropy = -mp.fsum(t * mp.log(t) for t in tau)
        squares = mp.fsum(t**2 for t in tau)
        gap = mp.log(tau[order[0]]) - mp.log(tau[order[1]])
        value, gradient = {
            "margin": (delta**2, [2 * delta * t * (s - delta) for t, s in zip(tau, sign, strict=True)]),
            "discriminant": (gap**2, [2 * gap * s for s in sign]),
            "gini": (1 - squares, [2 * t * (squares - t) for t in tau]),
            "entropy": (entropy, [-t * (mp.log(t) + entropy) for t in tau]),
            "log-entropy": (mp.log(entropy), [-t * (mp.log(t) + entropy) / entropy for t in tau]),
        }[name]
        assert np.isfinite(result.value).all()
        assert np.isfinite(result.gradient).all()
        assert abs(mp.mpf(float(result.value[0])) - value) <= 1e-13 * abs(value) + mp.mpf(10) ** -307
        for k, truth in enumerate(gradient):
            # relative to the largest entry: the gradient sums to zero, so entries may cancel
            scale = max(abs(g) for g in gradient)
            assert abs(mp.mpf(float(result.gradient[k, 0])) - truth) <= 1e-12 * scale + mp.mpf(10) ** -300


@MEASURE
@given(data=st.data())
def test_gradients_agree_with_central_differences(measure, data):
    scores = drawn_scores(data, measure, rows=3, largest=8)
    if measure.has_kinks(len(scores)) and np.diff(np.sort(scores, axis=0)[-3:], axis=0).min() < 1e-3:
        return  # the gradient jumps where the second class changes
    result = measure(posterior(scores))
    step = 1e-6
    for k in range(len(scores)):
        up, down = scores.copy(), scores.copy()
        up[k] += step
        down[k] -= step
        difference = (measure(posterior(up)).value - measure(posterior(down)).value) / (up[k] - down[k])
        scale = np.abs(result.gradient).max() + np.abs(result.value).max()
        np.testing.assert_allclose(result.gradient[k], difference, atol=1e-9 * max(1.0, scale), rtol=1e-6)


@MEASURE
@given(data=st.data(), shift=st.floats(-1e3, 1e3))
def test_a_constant_added_to_all_scores_changes_nothing(measure, data, shift):
    scores = drawn_scores(data, measure, rows=4, largest=50)
    a, b = measure(posterior(scores)), measure(posterior(scores + shift))
    np.testing.assert_allclose(a.value, b.value, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.gradient.sum(axis=0), 0.0, atol=1e-12 * (1.0 + np.abs(a.gradient).max()))


@MEASURE
@given(data=st.data(), seed=st.integers(0, 100))
def test_permuting_the_classes_permutes_the_gradient(measure, data, seed):
    scores = drawn_scores(data, measure, rows=5, largest=20)
    order = np.random.default_rng(seed).permutation(len(scores))
    a, b = measure(posterior(scores)), measure(posterior(scores[order]))
    swapped = measure.grows == "second class" and order[0] == 1
    sign = -1.0 if swapped else 1.0
    np.testing.assert_allclose(sign * a.value, b.value, rtol=1e-12, atol=1e-300)
    distinct = np.diff(np.sort(scores, axis=0), axis=0).min(axis=0) > 0  # ties go to the first class
    np.testing.assert_allclose(sign * a.gradient[order][:, distinct], b.gradient[:, distinct], rtol=1e-10, atol=1e-12)


@MEASURE
@given(data=st.data())
def test_values_lie_in_the_range(measure, data):
    scores = drawn_scores(data, measure, rows=5, largest=600)
    low, high = measure.range(len(scores))
    with np.errstate(all="ignore"):
        value = measure(posterior(scores)).value
    assert np.isfinite(value).all()
    assert (value >= low - 1e-15 * abs(low)).all()
    assert (value <= high + 1e-14 * abs(high)).all()


@MEASURE
def test_a_toss_up_and_a_certain_class_are_at_the_ends_of_the_range(measure):
    for classes in admitted(measure):
        low, high = measure.range(classes)
        scores = np.zeros((classes, 1 + classes))
        scores[:, 1:] = 700.0 * np.eye(classes)
        with np.errstate(all="ignore"):
            value, gradient = measure(posterior(scores))
        toss_up = {"clear": low, "unclear": high, "second class": 0.5 * (low + high)}[measure.grows]
        certain = (
            np.array([low, high])
            if measure.grows == "second class"
            else np.full(classes, measure.at_certainty(classes))
        )
        assert value[0] == pytest.approx(toss_up, rel=1e-14)
        assert (measure.at_certainty(classes) is None) == (measure.grows == "second class")
        finite = np.isfinite(certain)
        np.testing.assert_allclose(value[1:][finite], certain[finite], rtol=1e-15, atol=1e-290)
        np.testing.assert_array_less(500.0, np.abs(value[1:][~finite]))
        np.testing.assert_array_equal(np.sign(value[1:][~finite]), np.sign(certain[~finite]))
        if measure.grows != "second class":
            np.testing.assert_allclose(gradient[:, 0], 0.0, atol=1e-15)  # by symmetry


@given(scores=arrays(float, (2, 6), elements=st.floats(-30, 30)))
def test_for_two_classes_gini_is_half_of_one_minus_margin(scores):
    p = posterior(scores)
    np.testing.assert_allclose(MEASURES["gini"](p).value, (1 - MEASURES["margin"](p).value) / 2, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(MEASURES["gini"](p).gradient, -MEASURES["margin"](p).gradient / 2, rtol=1e-9, atol=1e-15)


@given(scores=arrays(float, st.tuples(st.integers(2, 6), st.just(4)), elements=st.floats(-700, 700)))
def test_posteriors_are_the_softmax_and_sum_to_one(scores):
    p = posterior(scores)
    np.testing.assert_allclose(p.tau.sum(axis=0), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(log_tau(p)), p.tau, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(p.log_norm(), np.logaddexp.reduce(scores, axis=0), rtol=1e-14, atol=1e-13)


def test_the_smallest_doubt_keeps_its_digits():
    p = posterior(np.array([[0.0], [300.0], [299.0 - 400.0]]))
    assert log_tau(p)[1, 0] == pytest.approx(-np.exp(-300.0), rel=1e-13)


@pytest.mark.parametrize("with_gradient", [True, False])
def test_a_callable_gives_the_same_as_the_built_in_of_that_formula(with_gradient):
    def gini(log_posterior):
        tau = np.exp(log_posterior)
        value = 1 - (tau**2).sum(axis=1)
        return (value, -2 * tau**2) if with_gradient else value

    p = posterior(np.random.default_rng(0).normal(size=(4, 50)) * 3)
    mine, built_in = as_measure(gini)(p), MEASURES["gini"](p)
    np.testing.assert_allclose(mine.value, built_in.value, rtol=1e-12)
    np.testing.assert_allclose(mine.gradient, built_in.gradient, atol=1e-14 if with_gradient else 1e-9)


@pytest.mark.parametrize("result", [np.zeros(3), (np.zeros(5), np.zeros((5, 7)))])
def test_a_callable_of_the_wrong_shape_is_refused(result):
    with pytest.raises(ValueError, match="measure: the callable"):
        as_measure(lambda log_posterior: result)(posterior(np.zeros((3, 5))))
