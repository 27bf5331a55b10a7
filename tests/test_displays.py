"""Displays: the numbers that they draw are those of independent computations."""

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, entropy
from sklearn import metrics

from marmix import BoundaryWarning, MARGaussianMixture, MARLogisticRegression, evaluation
from marmix.displays import (
    CalibrationDisplay,
    MissingnessDisplay,
    ProfileDisplay,
    RocDisplay,
    ThresholdDisplay,
    TraceDisplay,
    UncertaintyDisplay,
)
from marmix.displays.drawing import canvas
from marmix.displays.rates import even_bins, wilson
from marmix.mechanism.measures import MEASURES

matplotlib.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def two_classes(simulate):
    X, y, _ = simulate(400)
    return MARGaussianMixture(covariance_type="tied", link="logit").fit(X, y), X, y


@pytest.fixture(scope="module")
def three_classes(simulate):
    X, y, _ = simulate(500, classes=3, d=4, distance=2.5, seed=1)
    named = np.where(y < 0, None, y.astype(object))
    fit = MARGaussianMixture(covariance_type="tied", link="logit", uncertainty="entropy").fit(X, named)
    return fit, X, named


# The missingness curve.


def test_observed_rates_are_counted_in_bins_of_the_uncertainty(two_classes):
    fit, X, y = two_classes
    shown = MissingnessDisplay.from_estimator(fit, X, y, n_bins=8)
    u = fit.uncertainty(X)
    edges = np.quantile(u, np.linspace(0, 1, 9))
    for b in range(8):
        own = (u >= edges[b]) & ((u < edges[b + 1]) | (b == 7))
        assert shown.n[b] == own.sum()
        assert shown.at[b] == pytest.approx(u[own].mean())
        assert shown.observed[b] == pytest.approx(np.mean(y[own] == -1))
        interval = binomtest(int((y[own] == -1).sum()), int(own.sum())).proportion_ci(method="wilson")
        assert (shown.observed_lower[b], shown.observed_upper[b]) == pytest.approx(interval)


def test_the_band_is_that_of_the_inference(two_classes):
    fit, X, y = two_classes
    result = fit.inference(X, y)
    shown = MissingnessDisplay.from_estimator(fit, X, y, alpha=0.1)
    curve = result.missingness_curve(shown.u, alpha=0.1)
    np.testing.assert_allclose([shown.q, shown.lower, shown.upper], [curve.q, curve.lower, curve.upper], rtol=1e-10)
    again = MissingnessDisplay.from_estimator(fit, X, y, alpha=0.1, inference=result)
    np.testing.assert_array_equal(again.lower, shown.lower)
    assert shown.note_ == ""


def test_rows_of_another_sample_have_a_curve_without_band_and_a_note(two_classes):
    fit, X, y = two_classes
    shown = MissingnessDisplay.from_estimator(fit, X[:300], y[:300])
    assert shown.lower is None
    assert "no band" in shown.note_
    eta = fit.alpha_[0] + fit.alpha_[1] * shown.u
    np.testing.assert_allclose(shown.q, 1 / (1 + np.exp(-eta)), rtol=1e-12)


def test_covariates_of_the_mechanism_are_at_their_means(two_classes):
    _, X, y = two_classes
    fit = MARGaussianMixture(covariance_type="tied", link="logit", mechanism_features=[1]).fit(X, y)
    with_band = MissingnessDisplay.from_estimator(fit, X, y)
    eta = fit.alpha_[0] + fit.alpha_[1] * with_band.u + fit.alpha_[2] * X[:, 1].mean()
    np.testing.assert_allclose(with_band.q, 1 / (1 + np.exp(-eta)), rtol=1e-6)
    without = MissingnessDisplay.from_estimator(fit, X[1:], y[1:])
    assert without.lower is None
    eta = fit.alpha_[0] + fit.alpha_[1] * without.u + fit.alpha_[2] * X[1:, 1].mean()
    np.testing.assert_allclose(without.q, 1 / (1 + np.exp(-eta)), rtol=1e-10)


def test_a_fit_without_mechanism_is_refused_and_one_without_missing_labels_is_flat(two_classes):
    _, X, y = two_classes
    ignored = MARGaussianMixture(covariance_type="tied", link=None).fit(X, y)
    with pytest.raises(ValueError, match="fit it with a link"):
        MissingnessDisplay.from_estimator(ignored, X, y)
    labelled = y >= 0
    with pytest.warns(BoundaryWarning, match="Every row has a label"):
        full = MARGaussianMixture(covariance_type="tied").fit(X[labelled], y[labelled])
    shown = MissingnessDisplay.from_estimator(full, X[labelled], y[labelled])
    assert not shown.q.any()
    assert not shown.observed.any()
    assert "Every row of the fit was labelled" in shown.note_


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1), min_size=1, max_size=60), st.integers(1, 12))
def test_equal_values_share_a_bin_and_bins_are_in_order(values, n_bins):
    values = np.array(values)
    place, size = even_bins(values, n_bins)
    assert size <= n_bins
    assert set(place) == set(range(size))
    order = np.argsort(values, kind="stable")
    assert (np.diff(place[order]) >= 0).all()
    assert all(len(set(place[values == value])) == 1 for value in values)


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (3, 10), (10, 10)])
def test_the_interval_of_a_rate_is_wilson_s(hits, n):
    found = binomtest(hits, n).proportion_ci(0.9, method="wilson")
    low, high = wilson(np.array([hits / n]), np.array([n]), 0.1)
    assert (low[0], high[0]) == pytest.approx((found.low, found.high), abs=1e-12)


# The uncertainty.


def test_shares_of_the_uncertainty_are_those_of_labelled_and_of_other_rows(three_classes):
    fit, X, y = three_classes
    shown = UncertaintyDisplay.from_estimator(fit, X, y, n_bins=12)
    h = entropy(fit.predict_proba(X), axis=1)
    known = np.array([label is not None for label in y])
    assert shown.edges[[0, -1]] == pytest.approx([0.0, np.log(3)])
    for shares, own in ((shown.labelled, known), (shown.unlabelled, ~known)):
        np.testing.assert_allclose(shares, np.histogram(h[own], shown.edges)[0] / own.sum(), atol=1e-12)
    again = UncertaintyDisplay.from_predictions(y, fit.predict_proba(X), n_bins=12)
    np.testing.assert_allclose(again.unlabelled, shown.unlabelled, atol=1e-12)


def test_every_measure_and_one_of_your_own_can_be_drawn(two_classes):
    fit, X, y = two_classes
    words = set()
    for measure in (*MEASURES, second_largest):
        shown = UncertaintyDisplay.from_estimator(fit, X, y, measure=measure)
        assert shown.labelled.sum() == pytest.approx(1.0)
        words.add(shown.ax_.get_xlabel())
    assert len(words) == len(MEASURES) + 1
    assert "uncertainty (squared margin): 0 = toss-up, 1 = certain" in words
    with pytest.raises(ValueError, match="measure='sure' is not"):
        UncertaintyDisplay.from_estimator(fit, X, y, measure="sure")


def second_largest(log_tau):
    return np.exp(np.sort(log_tau, axis=1)[:, -2])


# Thresholds, calibration, ROC.


def predictions(seed=0, n=300, k=2):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(k), n)
    truth = np.array([rng.choice(k, p=p) for p in proba])
    q = rng.uniform(0.1, 0.9, n)
    return np.where(rng.uniform(size=n) < q, -1, truth), proba, q


def test_precision_recall_and_accuracy_are_those_of_weighted_rows():
    y, proba, q = predictions(k=3)
    shown = ThresholdDisplay.from_predictions(y, proba, q, positive=2)
    known = y >= 0
    w = np.minimum(1 / (1 - q[known]), np.sqrt(known.sum()) * len(y) / known.sum())
    is_it, p = y[known] == 2, proba[known, 2]
    for i in range(0, 101, 7):
        called = p >= shown.thresholds[i]
        if called.any():
            assert shown.precision[i] == pytest.approx(w[called & is_it].sum() / w[called].sum())
        assert shown.recall[i] == pytest.approx(w[called & is_it].sum() / w[is_it].sum())
        assert shown.accuracy[i] == pytest.approx(w[called == is_it].sum() / w.sum())
        assert shown.above[i] == (proba[:, 2] >= shown.thresholds[i]).sum()


def test_without_q_they_are_scikit_learn_s_and_it_is_said():
    y, proba, _ = predictions()
    shown = ThresholdDisplay.from_predictions(y, proba)
    known = y >= 0
    for i in (0, 20, 50, 77):
        called = proba[known, 1] >= shown.thresholds[i]
        assert shown.precision[i] == pytest.approx(metrics.precision_score(y[known], called))
        assert shown.recall[i] == pytest.approx(metrics.recall_score(y[known], called))
        assert shown.accuracy[i] == pytest.approx(metrics.accuracy_score(y[known], called))
    assert "not a fair sample" in shown.note_
    assert ThresholdDisplay.from_predictions(y, proba, np.zeros(len(y))).note_ == ""


@given(st.integers(0, 10_000))
def test_fewer_rows_are_called_positive_the_higher_the_threshold(seed):
    y, proba, q = predictions(seed, n=60)
    shown = ThresholdDisplay.from_predictions(y, np.round(proba, 2), q, classes=[0, 1], ax=canvas(2, 2)[1])
    assert (np.diff(shown.above) <= 0).all()
    assert (np.diff(shown.recall) <= 1e-12).all()
    assert shown.above[0] == 60


def test_a_row_reaches_the_threshold_that_is_written_as_its_probability():
    p = np.array([float(f"0.{k:02d}") for k in range(100)] + [1.0])
    shown = ThresholdDisplay.from_predictions(np.arange(101) % 2, np.column_stack([1 - p, p]), ax=canvas(4, 4)[1])
    np.testing.assert_array_equal(shown.above, np.arange(101, 0, -1))


def test_a_threshold_of_three_classes_must_say_which():
    y, proba, q = predictions(k=3)
    with pytest.raises(ValueError, match=r"positive= must name the class .* one of \[0, 1, 2\]"):
        ThresholdDisplay.from_predictions(y, proba, q)
    with pytest.raises(ValueError, match="positive=7 is not among the classes"):
        RocDisplay.from_predictions(y, proba, q, positive=7)


def test_calibration_compares_weighted_means_in_bins():
    y, proba, q = predictions()
    shown = CalibrationDisplay.from_predictions(y, proba, q, n_bins=5)
    assert list(shown.curves) == [1]
    curve = shown.curves[1]
    known = y >= 0
    p, hit = proba[known, 1], y[known] == 1
    w = np.minimum(1 / (1 - q[known]), np.sqrt(known.sum()) * len(y) / known.sum())
    edges = np.quantile(p, np.linspace(0, 1, 6))
    for b in range(5):
        own = (p >= edges[b]) & ((p < edges[b + 1]) | (b == 4))
        assert curve.n[b] == own.sum()
        assert curve.predicted[b] == pytest.approx(np.average(p[own], weights=w[own]))
        assert curve.observed[b] == pytest.approx(np.average(hit[own], weights=w[own]))
        assert curve.plain_predicted[b] == pytest.approx(p[own].mean())
        assert curve.plain_observed[b] == pytest.approx(hit[own].mean())
        assert curve.lower[b] <= curve.observed[b] <= curve.upper[b]


def test_weighted_intervals_are_wider_than_those_of_as_many_equal_rows():
    y, proba, q = predictions()
    weighted = CalibrationDisplay.from_predictions(y, proba, q, n_bins=4).curves[1]
    low, high = wilson(weighted.observed, weighted.n, 0.05)
    assert (weighted.upper - weighted.lower > high - low).all()


@pytest.mark.parametrize("k", [2, 3])
def test_the_area_below_the_roc_curve_is_that_of_the_evaluation(k):
    y, proba, q = predictions(k=k)
    shown = RocDisplay.from_predictions(y, proba, q)
    assert list(shown.curves) == ([1] if k == 2 else [0, 1, 2])
    for curve in shown.curves.values():
        assert np.trapezoid(curve.true_positives, curve.false_positives) == pytest.approx(curve.area, abs=1e-10)
        plain = np.trapezoid(curve.plain_true_positives, curve.plain_false_positives)
        assert plain == pytest.approx(curve.plain_area, abs=1e-10)
    whole = evaluation.roc_auc(y, proba, q, classes=range(k))
    assert np.mean([curve.area for curve in shown.curves.values()]) == pytest.approx(whole.value, abs=1e-10)
    assert np.mean([curve.plain_area for curve in shown.curves.values()]) == pytest.approx(whole.plain, abs=1e-10)


def test_without_q_the_roc_curve_is_scikit_learn_s():
    y, proba, _ = predictions()
    curve = RocDisplay.from_predictions(y, proba).curves[1]
    known = y >= 0
    false, true, _ = metrics.roc_curve(y[known], proba[known, 1])
    np.testing.assert_array_equal(curve.false_positives, false)
    np.testing.assert_array_equal(curve.true_positives, true)
    assert curve.area == pytest.approx(metrics.roc_auc_score(y[known], proba[known, 1]))


def test_the_first_of_two_classes_may_be_the_positive_one():
    y, proba, q = predictions()
    second = RocDisplay.from_predictions(y, proba, q).curves[1]
    first = RocDisplay.from_predictions(y, proba, q, positive=0).curves[0]
    assert first.area == pytest.approx(second.area)
    above = ThresholdDisplay.from_predictions(y, proba, q, positive=0).above
    np.testing.assert_array_equal(above, [(proba[:, 0] >= t).sum() for t in np.linspace(0, 1, 101)])


def test_predictions_that_do_not_fit_together_are_refused():
    y, proba, q = predictions()
    with pytest.raises(ValueError, match=r"proba must have shape \(300, 2\); got \(300, 1\): name the classes"):
        RocDisplay.from_predictions(y, proba[:, :1], q)
    with pytest.raises(ValueError, match=r"missing_proba must have shape \(300,\)"):
        ThresholdDisplay.from_predictions(y, proba, q[1:])
    with pytest.raises(ValueError, match="proba must lie between 0 and 1"):
        CalibrationDisplay.from_predictions(y, 3 * proba - 1, q)
    with pytest.raises(ValueError, match="every label in y is missing"):
        CalibrationDisplay.from_predictions(np.full(300, -1), proba, q, classes=[0, 1])
    with pytest.raises(ValueError, match="needs labelled rows of both"):
        RocDisplay.from_predictions(np.where(y == 1, -1, y), proba, q, classes=[0, 1])


@pytest.mark.parametrize("kind", [ThresholdDisplay, CalibrationDisplay, RocDisplay])
def test_an_estimator_is_drawn_by_its_own_predictions(kind, two_classes):
    fit, X, y = two_classes
    by, proba = kind.from_estimator(fit, X, y), fit.predict_proba(X)
    of = kind.from_predictions(y, proba, fit.missing_proba(X), posterior=proba)
    if kind is ThresholdDisplay:
        np.testing.assert_array_equal(by.accuracy, of.accuracy)
    else:
        for a, b in zip(by.curves[1], of.curves[1], strict=True):
            np.testing.assert_array_equal(a, b)
    assert by.note_ == ""


# Trace and profile.


def test_the_trace_is_that_of_the_fit(two_classes):
    fit, X, y = two_classes
    shown = TraceDisplay.from_estimator(fit)
    np.testing.assert_array_equal(shown.trace, fit.trace_)
    assert (shown.objective, shown.note_) == ("log-likelihood", "")
    tempered = MARLogisticRegression(mechanism_weight=0.5, link="logit").fit(X, y)
    assert TraceDisplay.from_estimator(tempered).objective == "tempered, penalised log-likelihood"


def test_the_profile_passes_its_line_at_the_ends_of_the_interval(two_classes):
    fit, X, y = two_classes
    shown = ProfileDisplay.from_estimator(fit, X, y, n_points=15)
    found = fit.inference(X, y).profile("alpha_1")
    assert (shown.lower, shown.upper, shown.estimate) == (found.lower, found.upper, found.estimate)
    assert shown.drop == pytest.approx(1.96**2 / 2, abs=1e-3)
    at_ends = np.interp([shown.lower, shown.upper], shown.values, shown.loglik)
    np.testing.assert_allclose(at_ends, -shown.drop, atol=0.05)
    with pytest.raises(ValueError, match="has no curve"):
        ProfileDisplay.from_profile(found)


def test_an_infinite_end_of_the_shape_is_on_the_paper():
    values, loglik = np.array([0.0, 0.5, 1.0, 4.0, np.inf]), np.array([-1.0, -0.2, 0.0, -0.3, -0.9])
    shown = ProfileDisplay(
        name="shape", values=values, loglik=loglik, estimate=1.0, lower=0.0, upper=np.inf, level=0.95
    ).plot()
    np.testing.assert_allclose(shown.ax_.lines[0].get_xdata(), [0.0, 1 / 3, 0.5, 0.8, 1.0])
    assert [tick.get_text() for tick in shown.ax_.get_xticklabels()] == ["0", "0.5", "1", "2", "5", "∞"]
