"""Displays: the numbers that they draw are those of independent computations, and the drawings are readable."""

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, entropy
from sklearn import metrics
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import BoundaryWarning, MARClassifierCV, MARGaussianMixture, MARLogisticRegression, evaluation
from marmix.inference.sensitivity import Sweep, pattern_mixture, sensitivity, swept
from marmix.plotting import (
    CalibrationDisplay,
    MissingnessDisplay,
    MixtureDisplay,
    RocDisplay,
    SensitivityDisplay,
    ThresholdDisplay,
    UncertaintyDisplay,
)
from marmix.plotting.calibration import LEVEL
from marmix.plotting.drawing import canvas, styled
from marmix.plotting.predictions import UNCORRECTED, Predictions
from marmix.plotting.rates import even_bins, wilson
from marmix.plotting.roc import cumulative_counts
from marmix.plotting.uncertainty import UNCERTAINTY

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg

NAMES = np.array(["costs $5 or $6", "_odd", "a class whose name is very long and goes on"], dtype=object)


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
    named = np.where(y < 0, None, NAMES[y])
    fit = MARGaussianMixture(covariance_type="tied", link="logit", measure="entropy").fit(X, named)
    return fit, X, named


def bins(values, n_bins):
    """The rows in each of so many bins of equal size, one after another."""
    edges = np.quantile(values, np.linspace(0, 1, n_bins + 1))
    for b in range(n_bins):
        yield (values >= edges[b]) & ((values < edges[b + 1]) | (b == n_bins - 1))


# The missingness curve.


def test_observed_rates_are_counted_in_bins_of_the_uncertainty(two_classes):
    fit, X, y = two_classes
    shown = MissingnessDisplay.from_estimator(fit, X, y, n_bins=8)
    u = fit.uncertainty(X)
    for b, members in enumerate(bins(u, 8)):
        missing = y[members] == -1
        assert shown.n[b] == len(missing)
        assert shown.at[b] == pytest.approx(u[members].mean())
        assert shown.observed[b] == pytest.approx(missing.mean())
        interval = binomtest(int(missing.sum()), len(missing)).proportion_ci(method="wilson")
        assert (shown.observed_lower[b], shown.observed_upper[b]) == pytest.approx(interval)


def test_the_band_is_that_of_the_inference(two_classes):
    fit, X, y = two_classes
    result = fit.inference(X, y)
    shown = MissingnessDisplay.from_estimator(fit, X, y, alpha=0.1)
    curve = result.missingness_curve(shown.u, alpha=0.1)
    np.testing.assert_allclose([shown.q, shown.lower, shown.upper], [curve.q, curve.lower, curve.upper], rtol=1e-10)
    assert shown.note_ == ""


def test_rows_of_another_sample_have_a_curve_without_band_and_a_note(two_classes):
    _, X, y = two_classes
    fit = MARGaussianMixture(covariance_type="tied", link="logit", mechanism_features=[1]).fit(X, y)
    shown = MissingnessDisplay.from_estimator(fit, X[:300], y[:300])
    assert shown.lower is None
    assert shown.note_
    eta = fit.alpha_[0] + fit.alpha_[1] * shown.u + fit.alpha_[2] * X[:300, 1].mean()
    np.testing.assert_allclose(shown.q, 1 / (1 + np.exp(-eta)), rtol=1e-12)


def test_a_fit_without_mechanism_is_refused_and_one_without_missing_labels_is_flat(two_classes):
    _, X, y = two_classes
    ignored = MARGaussianMixture(covariance_type="tied", link=None).fit(X, y)
    with pytest.raises(ValueError, match="model of the missingness"):
        MissingnessDisplay.from_estimator(ignored, X, y)
    labelled = y >= 0
    with pytest.warns(BoundaryWarning):
        full = MARGaussianMixture(covariance_type="tied").fit(X[labelled], y[labelled])
    shown = MissingnessDisplay.from_estimator(full, X[labelled], y[labelled])
    assert not shown.q.any()
    assert not shown.observed.any()
    assert shown.note_


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1), min_size=1, max_size=60), st.integers(1, 12))
def test_equal_values_share_a_bin_and_bins_are_in_order(values, n_bins):
    values = np.array(values)
    place = even_bins(values, n_bins)
    assert place.max() < n_bins
    assert set(place) == set(range(place.max() + 1))
    order = np.argsort(values, kind="stable")
    assert (np.diff(place[order]) >= 0).all()
    assert all(len(set(place[values == value])) == 1 for value in values)


# The uncertainty.


def test_shares_of_the_uncertainty_are_those_of_labelled_and_of_other_rows(three_classes):
    fit, X, y = three_classes
    shown = UncertaintyDisplay.from_estimator(fit, X, y, n_bins=12)
    h = entropy(fit.predict_proba(X), axis=1)
    labelled = np.array([label is not None for label in y])
    assert shown.edges[[0, -1]] == pytest.approx([0.0, np.log(3)])
    for shares, group in ((shown.labelled, labelled), (shown.unlabelled, ~labelled)):
        np.testing.assert_allclose(shares, np.histogram(h[group], shown.edges)[0] / group.sum(), atol=1e-12)


# Thresholds, calibration, ROC.


def with_posterior(seed=0, n=300, k=2):
    """Labels, probabilities, q, and posteriors that are unrelated to the labels."""
    rng = np.random.default_rng(seed)
    proba, posterior = rng.dirichlet(np.ones(k), (2, n))
    truth = np.array([rng.choice(k, p=p) for p in proba])
    q = rng.uniform(0.1, 0.9, n)
    return np.where(rng.uniform(size=n) < q, -1, truth), proba, q, posterior


def predictions(seed=0, n=300, k=2):
    return with_posterior(seed, n, k)[:3]


def inverse_weights(y, q):
    """1 / (1 - q), limited as in the evaluation."""
    labelled = np.sum(y >= 0)
    return np.minimum(1 / (1 - q), np.sqrt(labelled) * len(y) / labelled)


def test_without_q_they_are_those_of_scikit_learn_with_a_note():
    y, proba, _ = predictions()
    shown = ThresholdDisplay.from_predictions(y, proba)
    truth, p = y[y >= 0], proba[y >= 0, 1]
    for i in (0, 20, 50, 77):
        called = p >= shown.thresholds[i]
        assert shown.precision[i] == pytest.approx(metrics.precision_score(truth, called))
        assert shown.recall[i] == pytest.approx(metrics.recall_score(truth, called))
        assert shown.accuracy[i] == pytest.approx(metrics.accuracy_score(truth, called))
    assert shown.note_ == UNCORRECTED
    assert ThresholdDisplay.from_predictions(y, proba, np.zeros(len(y))).note_ == ""


def test_calibration_compares_weighted_means_in_bins():
    y, proba, q = predictions()
    shown = CalibrationDisplay.from_predictions(y, proba, q, n_bins=5)
    assert list(shown.curves) == [1]
    curve = shown.curves[1]
    labelled = y >= 0
    p, hit, w = proba[labelled, 1], y[labelled] == 1, inverse_weights(y, q)[labelled]
    for b, members in enumerate(bins(p, 5)):
        assert curve.n[b] == members.sum()
        assert curve.predicted[b] == pytest.approx(np.average(p[members], weights=w[members]))
        assert curve.observed[b] == pytest.approx(np.average(hit[members], weights=w[members]))
        assert curve.plain_predicted[b] == pytest.approx(p[members].mean())
        assert curve.plain_observed[b] == pytest.approx(hit[members].mean())
        assert curve.lower[b] <= curve.observed[b] <= curve.upper[b]


@pytest.mark.parametrize("k", [2, 3])
def test_the_area_below_the_roc_curve_is_that_of_the_evaluation(k):
    y, proba, q = predictions(k=k)
    shown = RocDisplay.from_predictions(y, proba, q)
    assert list(shown.curves) == ([1] if k == 2 else [0, 1, 2])
    for curve in shown.curves.values():
        assert np.trapezoid(curve.true_positives, curve.false_positives) == pytest.approx(curve.area, abs=1e-10)
        plain = np.trapezoid(curve.plain_true_positives, curve.plain_false_positives)
        assert plain == pytest.approx(curve.plain_area, abs=1e-10)
    score = evaluation.roc_auc(y, proba, q, classes=range(k))
    assert np.mean([curve.area for curve in shown.curves.values()]) == pytest.approx(score.value, abs=1e-10)
    assert np.mean([curve.plain_area for curve in shown.curves.values()]) == pytest.approx(score.plain, abs=1e-10)


def test_without_q_the_roc_curve_is_scikit_learn_s():
    y, proba, _ = predictions()
    curve = RocDisplay.from_predictions(y, proba).curves[1]
    truth, p = y[y >= 0], proba[y >= 0, 1]
    false, true, _ = metrics.roc_curve(truth, p)
    np.testing.assert_array_equal(curve.false_positives, false)
    np.testing.assert_array_equal(curve.true_positives, true)
    assert curve.area == pytest.approx(metrics.roc_auc_score(truth, p))


def test_predictions_that_do_not_fit_together_are_refused():
    y, proba, q = predictions()
    both = {"classes": [0, 1]}
    for words, kind, *arrays, options in (
        (r"missing_proba .* 300 numbers", ThresholdDisplay, y, proba, q[1:], {}),
        ("every label in y is missing", CalibrationDisplay, np.full(300, -1), proba, q, both),
        ("needs labelled rows of both", RocDisplay, np.where(y == 1, -1, y), proba, q, both),
    ):
        with pytest.raises(ValueError, match=words):
            kind.from_predictions(*arrays, **options)


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


# The doubly robust estimate.


def pseudo_labels(y, q, posterior, k):
    """r_k by its formula, row by row."""
    return np.array(
        [
            tau[k] if label < 0 else tau[k] + weight * ((label == k) - tau[k])
            for label, weight, tau in zip(y, inverse_weights(y, q), posterior, strict=True)
        ]
    )


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
@given(st.integers(0, 10_000))
def test_a_doubly_robust_roc_curve_rises_from_one_corner_to_the_other(seed):
    y, proba, q, posterior = with_posterior(seed, 60)
    assume(set(y) == {-1, 0, 1})
    r = pseudo_labels(y, q, posterior, 1)
    assume(0 < r.sum() < 60)
    curve = RocDisplay.of(Predictions.of(y, proba, q, None, posterior), None).curves[1]
    for rates in (curve.false_positives, curve.true_positives):
        assert (rates[0], rates[-1]) == (0.0, 1.0)
        assert (np.diff(rates) >= 0.0).all()


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
    r, p, weight = pseudo_labels(y, q, posterior, 1), proba[:, 1], inverse_weights(y, q)
    for b, members in enumerate(bins(p, 5)):
        share = np.clip(r[members].mean(), 0, 1)
        assert curve.n[b] == members.sum() == 200
        assert curve.predicted[b] == pytest.approx(p[members].mean())
        assert curve.observed[b] == pytest.approx(share)
        size = 200**2 / weight[members].sum()
        low, high = wilson(share, size, 1 - LEVEL)
        centre, variance = (low + high) / 2, np.sum((r[members] - share) ** 2) / 200**2
        size = min(size, centre * (1 - centre) / variance)
        assert (curve.lower[b], curve.upper[b]) == pytest.approx(wilson(share, size, 1 - LEVEL))
    plain = CalibrationDisplay.from_predictions(y, proba, n_bins=5).curves[1]
    np.testing.assert_allclose(curve.plain_observed, plain.observed)
    np.testing.assert_allclose(curve.plain_predicted, plain.predicted)


def test_intervals_of_doubly_robust_calibration_hold_the_truth_where_hardly_a_row_is_labelled():
    covered, widths = [], []
    for seed in range(60):
        y, q, proba = hard_rows(1000, seed)
        curve = CalibrationDisplay.of(Predictions.of(y, proba, q, None, proba), None).curves[1]
        x = np.log(curve.predicted / (1 - curve.predicted)) / 2.6
        truth = 1 / (1 + np.exp(-2 * x))
        covered.append((curve.lower <= truth) & (truth <= curve.upper))
        widths.append(curve.upper - curve.lower)
    assert (np.mean(covered, axis=0) > 0.865).all()  # 95 less three standard errors of 60 samples
    assert np.mean(widths, axis=0)[4] > 0.5  # there it says that little is known


@settings(max_examples=6)
@given(st.integers(0, 10_000))
def test_with_every_row_labelled_doubly_robust_curves_are_the_plain_ones_whatever_the_posterior(seed):
    _, proba, _, posterior = with_posterior(seed, 80)
    y = (np.random.default_rng(seed + 2).uniform(size=80) < 0.5).astype(int)
    for kind in (ThresholdDisplay, CalibrationDisplay, RocDisplay):
        robust, plain = (
            kind.of(Predictions.of(y, proba, q, None, tau), None)
            for q, tau in ((np.zeros(80), posterior), (None, None))
        )
        if kind is ThresholdDisplay:
            for a, b in zip(*((d.precision, d.recall, d.accuracy) for d in (robust, plain)), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
        elif kind is CalibrationDisplay:
            for a, b in zip(robust.curves[1], plain.curves[1], strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
        else:
            false, true, _ = metrics.roc_curve(y, proba[:, 1], drop_intermediate=False)
            counts = cumulative_counts(Predictions.of(y, proba, np.zeros(80), None, posterior).against_rest(1))
            np.testing.assert_allclose([count / count[-1] for count in counts], [false, true], atol=1e-12)
            curve, area = robust.curves[1], metrics.roc_auc_score(y, proba[:, 1])
            assert curve.area == pytest.approx(area)
            assert np.trapezoid(curve.true_positives, curve.false_positives) == pytest.approx(area)


# On paper.


def every(fit, X, y, positive, ax):
    """A display of every kind in the axes that `ax` gives."""
    yield MissingnessDisplay.from_estimator(fit, X, y, ax=ax())
    yield UncertaintyDisplay.from_estimator(fit, X, y, ax=ax())
    yield MixtureDisplay.from_estimator(fit, X, y, ax=ax())
    yield ThresholdDisplay.from_estimator(fit, X, y, positive=positive, ax=ax())
    yield CalibrationDisplay.from_estimator(fit, X, y, ax=ax())
    yield RocDisplay.from_estimator(fit, X, y, ax=ax())


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_names_are_drawn_as_they_are_and_no_legend_covers_the_data(dark, three_classes):
    fit, X, y = three_classes
    with styled(dark):
        for shown in every(fit, X, y, NAMES[0], lambda: canvas(4.8, 4.8)[1]):
            paper = FigureCanvasAgg(shown.figure_)
            paper.draw()
            renderer = paper.get_renderer()
            legend, axes = shown.ax_.get_legend(), shown.ax_.get_window_extent(renderer)
            assert legend.get_window_extent(renderer).y1 <= shown.ax_.xaxis.label.get_window_extent(renderer).y0 + 1
            assert legend.get_window_extent(renderer).y1 < axes.y0
            assert shown.figure_.bbox.contains(*legend.get_window_extent(renderer).p0)
            if isinstance(shown, MixtureDisplay | RocDisplay | CalibrationDisplay):
                words = "|".join(text.get_text() for text in legend.get_texts())
                assert r"class costs \$5 or \$6" in words
                assert "class _odd" in words
                assert "class a class whose name is very long…" in words


def test_rates_in_bins_of_another_measure_are_those_of_any_classifier_with_a_mechanism(three_classes):
    fit, X, y = three_classes
    shown = MissingnessDisplay.from_estimator(fit, X, y, measure=UNCERTAINTY, n_bins=6)
    u = entropy(fit.predict_proba(X), axis=1) / np.log(3)
    missing, q = np.array([label is None for label in y]), fit.missing_proba(X)
    for b, members in enumerate(bins(u, 6)):
        assert shown.at[b] == pytest.approx(u[members].mean())
        assert shown.observed[b] == pytest.approx(missing[members].mean())
        assert shown.q[b] == pytest.approx(q[members].mean())
    assert shown.lower is None
    histogram = UncertaintyDisplay.from_estimator(fit, X, y, measure=UNCERTAINTY)
    assert (histogram.edges[0], histogram.edges[-1]) == (0.0, 1.0)


def test_without_axes_a_figure_of_pyplot_is_opened_in_the_style_of_the_library(two_classes):
    before = dict(matplotlib.rcParams)
    shown = list(every(*two_classes, 1, lambda: None))
    assert sorted(plt.get_fignums()) == list(range(1, 7))
    assert all(plt.figure(i + 1) is display.figure_ for i, display in enumerate(shown))
    for display in shown:
        display.figure_.canvas.draw()  # as plt.show() would, in the user's style
        assert display.ax_.xaxis.label.get_size() == 8.0
        assert all(tick.label1.get_size() == 7.0 for tick in display.ax_.xaxis.get_major_ticks())
        assert not display.ax_.spines["top"].get_visible()
    assert dict(matplotlib.rcParams) == before


# What they take.


def test_pandas_polars_and_files_give_the_same_display_as_numpy(two_classes, tmp_path):
    fit, X, y = two_classes
    np.save(tmp_path / "rows.npy", X)
    plain = MissingnessDisplay.from_estimator(fit, X, y)
    nan, none = np.where(y < 0, np.nan, y), [None if label < 0 else int(label) for label in y]
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = MARGaussianMixture(covariance_type="tied", link="logit").fit(frame, nan)
    tables = [(named, pl.DataFrame(X, schema=["a", "b"]), pl.Series(none)), (fit, tmp_path / "rows.npy", none)]
    points = MixtureDisplay.from_estimator(fit, X, y, max_points=100).points
    for model, table, labels in tables:
        shown = MissingnessDisplay.from_estimator(model, table, labels)
        np.testing.assert_allclose(shown.observed, plain.observed)
        np.testing.assert_allclose(shown.upper, plain.upper, rtol=1e-6)
        drawn = MixtureDisplay.from_estimator(model, table, labels, max_points=100)
        np.testing.assert_array_equal(drawn.points, points)
        assert drawn.names == (["a", "b"] if model is named else ["x0", "x1"])


def test_a_pipeline_is_drawn_as_its_last_step_on_transformed_rows(two_classes):
    _, X, y = two_classes
    frame = pd.DataFrame(X * [1.0, 100.0], columns=["a", "b"])
    pipe = make_pipeline(StandardScaler(), MARGaussianMixture(covariance_type="tied", link="logit")).fit(frame, y)
    inside = pipe[:-1].transform(frame)
    np.testing.assert_array_equal(
        MissingnessDisplay.from_estimator(pipe, frame, y).upper,
        MissingnessDisplay.from_estimator(pipe[-1], inside, y).upper,
    )
    shown = MixtureDisplay.from_estimator(pipe, frame, y)
    np.testing.assert_array_equal(shown.points, inside)
    assert shown.names == ["a", "b"]


def test_an_average_of_classifiers_has_the_displays_of_its_predictions_alone(two_classes):
    _, X, y = two_classes
    grid = {
        "on": MARGaussianMixture(covariance_type="tied", link="logit"),
        "off": MARLogisticRegression(link=None),
    }
    both = MARClassifierCV(estimators=grid, cv=2).fit(X, y)
    proba = both.predict_proba(X)
    shown = UncertaintyDisplay.from_estimator(both, X, y, n_bins=5)
    np.testing.assert_allclose(
        shown.labelled, np.histogram(entropy(proba[y >= 0], axis=1), shown.edges)[0] / (y >= 0).sum()
    )
    area = RocDisplay.from_estimator(both, X, y).curves[1].area
    score = evaluation.roc_auc(y, proba, both.missing_proba(X), classes=[0, 1], posterior=proba)
    assert area == pytest.approx(score.value)
    for kind in (MissingnessDisplay, MixtureDisplay):
        with pytest.raises(TypeError, match="MARClassifierCV"):
            kind.from_estimator(both, X, y)
    ignoring = MARClassifierCV(estimators={"off": grid["off"]}, cv=2).fit(X, y)
    assert CalibrationDisplay.from_estimator(ignoring, X, y).note_ == UNCORRECTED


def test_sensitivity_display_draws_the_sweep():
    p = np.column_stack([np.linspace(0.9, 0.2, 50), np.linspace(0.1, 0.8, 50)])
    values = swept([-np.log(4.0), np.log(2.0), np.log(4.0)])
    names, given = np.array(["a", "b$"]), np.array([30.0, 5.0])
    imputed = p.argmax(axis=1)
    sweep = sensitivity(Sweep(pattern_mixture(p, 1, values), given, 1, values, names, np.ones(50), imputed), n_draws=20)
    shown = SensitivityDisplay.from_sensitivity(sweep, ax=canvas(4, 4)[1])
    share, wrong, changed, *_ = shown.ax_.lines
    np.testing.assert_allclose(share.get_xdata(), [0.25, 1.0, 2.0, 4.0])
    np.testing.assert_allclose(share.get_ydata(), 100.0 * sweep.share)
    np.testing.assert_allclose(wrong.get_ydata(), 100.0 * sweep.error)
    np.testing.assert_allclose(changed.get_ydata(), 2.0 * sweep.flips)  # of 50 imputed labels, in percent
