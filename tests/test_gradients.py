"""Every gradient against central differences."""

import numpy as np
import pytest
from problems import Problem, central_differences, mechanism_of

from marmix.core.charts import MechanismChart
from marmix.core.covariance import STRUCTURES, Moments
from marmix.core.measures import MEASURES as RECORDS
from marmix.core.mechanism import Mechanism

MEASURES = [name for name, measure in RECORDS.items() if measure.only_classes is None]

PATTERNS = {
    "some missing": [0, 1, -1, -1, 0, 1, -1, -1, 1, 0, -1, 0],
    "none missing": [0, 1, 1, 0, 0, 1],
    "all missing": [-1] * 8,
    "one labelled row": [1],
    "one unlabelled row": [-1],
}


def check(problem, seed=1, rtol=1e-6):
    vector = 0.2 * np.random.default_rng(seed).normal(size=problem.size)
    steps = np.full(problem.size, 1e-4)
    if problem.mechanism_chart is not None:
        low, high = np.array(problem.mechanism_chart.bounds[2:], dtype=float).reshape(-1, 2).T
        vector[problem.chart.size + 2 :] = 0.1 * np.clip(
            vector[problem.chart.size + 2 :], low, high
        )  # inside the bounds
        steps[problem.chart.size :] = 2e-6  # a shape of 40 moves by a unit for 6e-4 of its coordinate
    analytic, numeric = problem.gradient(vector), central_differences(problem.loglik, vector, steps)
    assert np.abs(numeric).max() > 1e-3
    np.testing.assert_allclose(analytic, numeric, atol=rtol * np.abs(numeric).max(), rtol=0.0)


@pytest.mark.pairs
@pytest.mark.parametrize("link", ["logit", "cloglog", "aranda-ordaz", "near cloglog", "large shape", "with share"])
@pytest.mark.parametrize("measure", sorted(MEASURES))
@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_gradient_for_every_covariance_measure_and_link(covariance_type, measure, link):
    labels = PATTERNS["some missing"] * 3
    check(Problem(covariance_type, mechanism_of(link, measure), labels, [1, 1]))


@pytest.mark.pairs
@pytest.mark.parametrize("pattern", sorted(PATTERNS))
@pytest.mark.parametrize("measure", [None, *sorted(MEASURES)])
@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_gradient_for_every_label_pattern(covariance_type, measure, pattern):
    mechanism = None if measure is None else mechanism_of("aranda-ordaz", measure)
    check(Problem(covariance_type, mechanism, PATTERNS[pattern], [1, 1]))


@pytest.mark.pairs
@pytest.mark.parametrize("counts", [[1, 1, 1], [1] * 5, [2, 1], [3, 1, 2]])
@pytest.mark.parametrize("measure", sorted(MEASURES))
@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_gradient_for_more_classes_and_components(covariance_type, measure, counts):
    labels = np.random.default_rng(3).integers(-1, len(counts), size=30)
    labels[: len(counts)] = np.arange(len(counts))
    check(Problem(covariance_type, mechanism_of("aranda-ordaz", measure), labels, counts))


@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_gradient_with_weights(covariance_type):
    labels = PATTERNS["some missing"] * 2
    check(Problem(covariance_type, mechanism_of("with share"), labels, [1, 2], weighted=True))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("counts", [[1, 1], [2, 1, 1]])
def test_the_form_for_many_features_is_the_same_function(counts, weighted):
    labels = np.random.default_rng(3).integers(-1, len(counts), size=40)
    narrow, wide = (
        Problem("full", mechanism_of("logit"), labels, counts, d=4, weighted=weighted, wide=wide)
        for wide in (False, True)
    )
    vector = 0.2 * np.random.default_rng(0).normal(size=narrow.size)
    assert wide.loglik(vector) == pytest.approx(narrow.loglik(vector), rel=1e-12)
    np.testing.assert_allclose(wide.gradient(vector), narrow.gradient(vector), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_complete_data_terms_are_linear_in_the_moments_and_have_this_gradient(covariance_type):
    problem = Problem(covariance_type, None, PATTERNS["some missing"] * 3, [1, 2])
    moments = problem.objective.sums(problem.theta, None).moments
    vector = 0.1 * np.random.default_rng(5).normal(size=problem.size)

    def value(at):
        return problem.model.complete_loglik(problem.chart.theta(at), moments)

    analytic = problem.chart.gradient(vector, problem.chart.theta(vector), moments)
    numeric = central_differences(value, vector)
    np.testing.assert_allclose(analytic, numeric, atol=1e-7 * np.abs(numeric).max())
    doubled = Moments(2 * moments.by_component, None if moments.second is None else 2 * moments.second)
    assert problem.model.complete_loglik(problem.theta, doubled) == pytest.approx(
        2 * problem.model.complete_loglik(problem.theta, moments), rel=1e-12
    )


@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_m_step_is_where_the_complete_data_gradient_vanishes(covariance_type):
    problem = Problem(covariance_type, None, PATTERNS["some missing"] * 5, [1, 2])
    moments = problem.objective.sums(problem.theta, None).moments
    problem.model.floor = 1e-12
    best = problem.model.m_step(moments)
    chart = problem.model.chart(best)
    zero = np.zeros(chart.size)
    np.testing.assert_allclose(chart.gradient(zero, chart.theta(zero), moments), 0.0, atol=1e-9)
    assert problem.model.complete_loglik(best, moments) > problem.model.complete_loglik(problem.theta, moments)


@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_m_step_at_the_floor_beats_every_neighbour_above_it(covariance_type):
    problem = Problem(covariance_type, None, PATTERNS["some missing"] * 5, [1, 1])
    moments = problem.objective.sums(problem.theta, None).moments
    problem.model.floor = 1e-12
    free = problem.model.m_step(moments)
    floor = float(np.median(problem.model.structure.pivots(free.chol)))
    problem.model.floor = floor
    best = problem.model.m_step(moments)
    assert problem.model.structure.pivots(best.chol).min() >= floor * (1 - 1e-9)
    chart = problem.model.chart(best)
    value = problem.model.complete_loglik(best, moments)
    rng = np.random.default_rng(0)
    for _ in range(200):
        vector = np.minimum(1e-2 * rng.normal(size=chart.size), chart.upper)
        assert problem.model.complete_loglik(chart.theta(vector), moments) <= value + 1e-12 * abs(value)


@pytest.mark.parametrize("shape", [0.0, 1e-3, 0.5, 1.0, 8.0, 99.0])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_coordinates_of_the_mechanism_return_the_reference_and_have_this_gradient(shape, share):
    u = np.random.default_rng(0).uniform(size=60)
    reference = Mechanism(alpha=(1.2, -2.0), shape=shape, share=share, free_shape=True, free_share=True)
    chart = MechanismChart(reference, u[None], None)
    at_zero = chart.mechanism(np.zeros(chart.size))
    np.testing.assert_allclose(at_zero.alpha, reference.alpha, rtol=1e-9)
    assert at_zero.shape == pytest.approx(shape, rel=1e-9, abs=1e-12)
    assert at_zero.share == pytest.approx(share, abs=1e-15)

    def loglik(vector):
        return chart.mechanism(vector).loglik_of(u[None], 20, None)

    vector = np.array([0.1, -0.2, 0.05, 0.04])
    limits = np.array(chart.bounds[2:], dtype=float)
    vector[2:] = np.clip(vector[2:], limits[:, 0] + 1e-3, limits[:, 1] - 1e-3)
    mechanism = chart.mechanism(vector)
    with np.errstate(all="ignore"):
        _, *slopes = mechanism._rows(u[None], 20, None)
    analytic = chart.gradient(vector, *mechanism._score(u[None], *slopes))
    numeric = central_differences(loglik, vector, 1e-5)
    np.testing.assert_allclose(analytic, numeric, atol=1e-6 * np.abs(numeric).max())
