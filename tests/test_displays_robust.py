"""Curves of the doubly robust estimate: pseudo-labels of all rows, and the scores of the evaluation."""

import matplotlib
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import metrics

from marmix import MARGaussianMixture, evaluation
from marmix.displays import CalibrationDisplay, RocDisplay, ThresholdDisplay
from marmix.displays.calibration import LEVEL
from marmix.displays.drawing import canvas
from marmix.displays.predictions import Predictions
from marmix.displays.rates import wilson
from marmix.displays.roc import called

matplotlib.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def pseudo_labels(y, q, posterior, k):
    """r_k by its formula, row by row."""
    known = y >= 0
    most = np.sqrt(known.sum()) * len(y) / known.sum()
    return np.array(
        [
            tau[k] if label < 0 else tau[k] + min(1 / (1 - rate), most) * ((label == k) - tau[k])
            for label, rate, tau in zip(y, q, posterior, strict=True)
        ]
    )


def with_posterior(seed=0, n=300, k=2):
    """Labels, probabilities, q, and posteriors that have nothing to do with the labels."""
    rng = np.random.default_rng(seed)
    proba, posterior = rng.dirichlet(np.ones(k), (2, n))
    truth = np.array([rng.choice(k, p=p) for p in proba])
    q = rng.uniform(0.1, 0.9, n)
    return np.where(rng.uniform(size=n) < q, -1, truth), proba, q, posterior


def test_doubly_robust_precision_recall_and_accuracy_are_those_of_pseudo_labels():
    y, proba, q, posterior = with_posterior(k=3)
    shown = ThresholdDisplay.from_predictions(y, proba, q, positive=2, posterior=posterior)
    r, p = pseudo_labels(y, q, posterior, 2), proba[:, 2]
    for i in range(0, 101, 7):
        above = p >= shown.thresholds[i]
        if above.any():
            assert shown.precision[i] == pytest.approx(np.clip(r[above].mean(), 0, 1))
        else:
            assert np.isnan(shown.precision[i])
        assert shown.recall[i] == pytest.approx(np.clip(r[above].sum() / r.sum(), 0, 1), abs=1e-12)
        assert shown.accuracy[i] == pytest.approx(np.clip(np.where(above, r, 1 - r).mean(), 0, 1))
    assert shown.note_ == ""


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_doubly_robust_accuracy_and_areas_are_those_of_the_evaluation(seed, k):
    y, proba, q, posterior = with_posterior(seed, 120, k)
    assume(len(set(y)) == k + 1)
    options = {"classes": range(k), "posterior": posterior}
    shown = RocDisplay.from_predictions(y, proba, q, **options, ax=canvas(2, 2)[1])
    found = evaluation.roc_auc(y, proba, q, **options)
    assert np.mean([curve.area for curve in shown.curves.values()]) == pytest.approx(found.value, abs=1e-10)
    rows = Predictions.of(y, proba, q, range(k), posterior)
    for j, curve in shown.curves.items():
        false, true = called(rows.against_rest(j))
        assert np.trapezoid(true / true[-1], false / false[-1]) == pytest.approx(curve.area, abs=1e-10)
    if k == 2:
        assert shown.curves[1].stderr == pytest.approx(found.stderr, abs=1e-10)
        accuracy = evaluation.accuracy(y, proba, q, **options).value
        at_half = ThresholdDisplay.from_predictions(y, proba, q, **options, ax=canvas(2, 2)[1]).accuracy[50]
        assert at_half == pytest.approx(np.clip(accuracy, 0, 1), abs=1e-12)


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_a_doubly_robust_roc_curve_rises_from_one_corner_to_the_other(seed):
    y, proba, q, posterior = with_posterior(seed, 60)
    assume(set(y) == {-1, 0, 1})
    r = pseudo_labels(y, q, posterior, 1)
    assume(0 < r.sum() < 60)
    curve = RocDisplay.from_predictions(y, proba, q, posterior=posterior, ax=canvas(2, 2)[1]).curves[1]
    for rates in (curve.false_positives, curve.true_positives):
        assert (rates[0], rates[-1]) == (0.0, 1.0)
        assert (np.diff(rates) >= 0.0).all()


def test_the_drawn_doubly_robust_roc_curve_has_nearly_the_area_that_is_said():
    y, q, proba = hard_rows(3000)
    curve = RocDisplay.from_predictions(y, proba, q, posterior=proba).curves[1]
    _, true = called(Predictions.of(y, proba, q, None, proba).against_rest(1))
    assert (np.diff(true) < 0).any()  # as it is, it falls here and there
    assert np.trapezoid(curve.true_positives, curve.false_positives) == pytest.approx(curve.area, abs=1e-3)


def test_pseudo_labels_that_leave_no_row_to_a_class_have_no_roc_curve():
    y = np.array([0, 0, 0, 1])
    proba = np.column_stack([[0.8, 0.7, 0.6, 0.2], [0.2, 0.3, 0.4, 0.8]])
    surely = np.tile([0.0, 1.0], (4, 1))
    with pytest.raises(ValueError, match="corrected number of rows of one of them is not positive"):
        RocDisplay.from_predictions(y, proba, np.array([0.5, 0.5, 0.5, 0.0]), posterior=surely)


def hard_rows(n, seed=0):
    """Rows of two overlapping classes of which the hard ones lose their labels, and probabilities that are too sure."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    x = rng.normal(size=n) + 2.0 * truth - 1.0
    q = 1 / (1 + np.exp(-4.0 + 5.0 * np.tanh(x) ** 2))
    p = 1 / (1 + np.exp(-2.6 * x))
    return np.where(rng.uniform(size=n) < q, -1, truth), q, np.column_stack([1 - p, p])


def test_doubly_robust_calibration_counts_pseudo_labels_in_bins_of_all_rows():
    y, proba, q, posterior = with_posterior(n=1000)
    curve = CalibrationDisplay.from_predictions(y, proba, q, n_bins=5, posterior=posterior).curves[1]
    r, p, known = pseudo_labels(y, q, posterior, 1), proba[:, 1], y >= 0
    edges = np.quantile(p, np.linspace(0, 1, 6))
    weight = np.minimum(1 / (1 - q), np.sqrt(known.sum()) * len(y) / known.sum())
    for b in range(5):
        own = (p >= edges[b]) & ((p < edges[b + 1]) | (b == 4))
        share = np.clip(r[own].mean(), 0, 1)
        assert curve.n[b] == own.sum() == 200
        assert curve.predicted[b] == pytest.approx(p[own].mean())
        assert curve.observed[b] == pytest.approx(share)
        worth = 200**2 / weight[own].sum()
        low, high = wilson(share, worth, 1 - LEVEL)
        centre, variance = (low + high) / 2, np.sum((r[own] - share) ** 2) / 200**2
        worth = min(worth, centre * (1 - centre) / variance)
        assert (curve.lower[b], curve.upper[b]) == pytest.approx(wilson(share, worth, 1 - LEVEL))
    plain = CalibrationDisplay.from_predictions(y, proba, n_bins=5).curves[1]
    np.testing.assert_allclose(curve.plain_observed, plain.observed)
    np.testing.assert_allclose(curve.plain_predicted, plain.predicted)


def test_intervals_of_doubly_robust_calibration_hold_the_truth_where_hardly_a_row_is_labelled():
    held, widths = [], []
    for seed in range(100):
        y, q, proba = hard_rows(1000, seed)
        given = {"posterior": proba, "ax": canvas(2, 2)[1]}
        curve = CalibrationDisplay.from_predictions(y, proba, q, **given).curves[1]
        x = np.log(curve.predicted / (1 - curve.predicted)) / 2.6
        truth = 1 / (1 + np.exp(-2 * x))
        held.append((curve.lower <= truth) & (truth <= curve.upper))
        widths.append(curve.upper - curve.lower)
    assert (np.mean(held, axis=0) > 0.88).all()  # 95 less three standard errors of 100 samples
    assert np.mean(widths, axis=0)[4] > 0.5  # there it says that little is known


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_with_every_row_labelled_doubly_robust_curves_are_the_plain_ones_whatever_the_posterior(seed):
    _, proba, _, posterior = with_posterior(seed, 80)
    y = (np.random.default_rng(seed + 2).uniform(size=80) < 0.5).astype(int)
    for kind in (ThresholdDisplay, CalibrationDisplay, RocDisplay):
        robust, plain = (
            kind.from_predictions(y, proba, *more, ax=canvas(2, 2)[1], posterior=tau)
            for more, tau in (((np.zeros(80),), posterior), ((), None))
        )
        if kind is ThresholdDisplay:
            for a, b in zip(*((d.precision, d.recall, d.accuracy) for d in (robust, plain)), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
        elif kind is CalibrationDisplay:
            for a, b in zip(robust.curves[1], plain.curves[1], strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
        else:
            false, true, _ = metrics.roc_curve(y, proba[:, 1], drop_intermediate=False)
            counts = called(Predictions.of(y, proba, np.zeros(80), None, posterior).against_rest(1))
            np.testing.assert_allclose([own / own[-1] for own in counts], [false, true], atol=1e-12)
            curve, area = robust.curves[1], metrics.roc_auc_score(y, proba[:, 1])
            assert curve.area == pytest.approx(area)
            assert np.trapezoid(curve.true_positives, curve.false_positives) == pytest.approx(area)


def test_posteriors_that_cannot_be_used_are_refused():
    y, proba, q, posterior = with_posterior()
    with pytest.raises(ValueError, match=r"posterior must have shape \(300, 2\) and rows that sum to one"):
        ThresholdDisplay.from_predictions(y, proba, q, posterior=posterior[:, 1])
    with pytest.raises(ValueError, match="rows that sum to one"):
        RocDisplay.from_predictions(y, proba, q, posterior=np.where(y[:, None] < 0, np.nan, posterior))
    with pytest.raises(ValueError, match="together with missing_proba="):
        CalibrationDisplay.from_predictions(y, proba, posterior=posterior)


def test_rows_that_all_have_a_label_are_not_corrected(two):
    clf = MARGaussianMixture(link="logit").fit(two.X, two.y)
    shown = RocDisplay.from_estimator(clf, two.X, two.truth)
    area = metrics.roc_auc_score(two.truth, clf.predict_proba(two.X)[:, 1])
    assert next(iter(shown.curves.values())).area == pytest.approx(area)
