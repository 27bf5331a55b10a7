"""Displays on paper: what they take, where they draw, and that names and legends are readable."""

import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import entropy
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression, displays, evaluation
from marmix.displays import (
    CalibrationDisplay,
    MissingnessDisplay,
    MixtureDisplay,
    ProfileDisplay,
    RocDisplay,
    ThresholdDisplay,
    TraceDisplay,
    UncertaintyDisplay,
)
from marmix.displays.drawing import BLUE, canvas, class_colours, class_words, seen, styled

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
    fit = MARGaussianMixture(covariance_type="tied", link="logit", uncertainty="entropy").fit(X, named)
    return fit, X, named


def every(fit, X, y, positive, ax):
    """A display of every kind in the axes that `ax` gives."""
    yield MissingnessDisplay.from_estimator(fit, X, y, ax=ax())
    yield UncertaintyDisplay.from_estimator(fit, X, y, ax=ax())
    yield MixtureDisplay.from_estimator(fit, X, y, ax=ax())
    yield TraceDisplay.from_estimator(fit, ax=ax())
    yield ProfileDisplay.from_estimator(fit, X, y, n_points=3, ax=ax())
    yield ThresholdDisplay.from_estimator(fit, X, y, positive=positive, ax=ax())
    yield CalibrationDisplay.from_estimator(fit, X, y, ax=ax())
    yield RocDisplay.from_estimator(fit, X, y, ax=ax())


@pytest.mark.parametrize("dark", [False, True])
def test_names_are_drawn_as_they_are_and_no_legend_covers_the_data(dark, three_classes):
    fit, X, y = three_classes
    with styled(dark):
        for shown in every(fit, X, y, NAMES[0], lambda: canvas(4.8, 4.8)[1]):
            paper = FigureCanvasAgg(shown.figure_)
            paper.draw()
            renderer = paper.get_renderer()
            legend, axes = shown.ax_.get_legend(), shown.ax_.get_window_extent(renderer)
            if legend is None:
                assert isinstance(shown, TraceDisplay)
                continue
            assert legend.get_window_extent(renderer).y1 <= shown.ax_.xaxis.label.get_window_extent(renderer).y0 + 1
            assert legend.get_window_extent(renderer).y1 < axes.y0
            assert shown.figure_.bbox.contains(*legend.get_window_extent(renderer).p0)
            if isinstance(shown, MixtureDisplay | RocDisplay | CalibrationDisplay):
                words = "|".join(text.get_text() for text in legend.get_texts())
                assert r"class costs \$5 or \$6" in words
                assert "class _odd" in words
                assert "class a class whose name is very long…" in words


def test_given_axes_are_drawn_in_and_the_rest_of_the_figure_is_left_alone(two_classes):
    figure, (left, right) = canvas(8, 4, 1, 2)
    shown = list(every(*two_classes, 1, lambda: left))
    assert all(display.ax_ is left and display.figure_ is figure for display in shown)
    assert not right.has_data()
    assert figure.axes == [left, right]
    assert not plt.get_fignums()


def test_without_axes_a_figure_of_pyplot_is_opened_in_the_style_of_the_library(two_classes):
    before = dict(matplotlib.rcParams)
    shown = list(every(*two_classes, 1, lambda: None))
    assert sorted(plt.get_fignums()) == list(range(1, 9))
    assert all(plt.figure(i + 1) is display.figure_ for i, display in enumerate(shown))
    for display in shown:
        display.figure_.canvas.draw()  # as plt.show() would, in the user's style
        assert display.ax_.xaxis.label.get_size() == 8.0
        assert all(tick.label1.get_size() == 7.0 for tick in display.ax_.xaxis.get_major_ticks())
        assert not display.ax_.spines["top"].get_visible()
    assert dict(matplotlib.rcParams) == before


def test_on_dark_paper_words_are_light_and_colours_lighter(two_classes):
    fit, X, y = two_classes
    assert seen(BLUE) == BLUE == class_colours(2)[0]
    with styled(dark=True):
        assert class_colours(2)[0] == seen(BLUE) != BLUE
        figure, ax = canvas(4, 4)
        MixtureDisplay.from_estimator(fit, X, y, ax=ax)
    lightness = [sum(matplotlib.colors.to_rgb(part)) for part in (ax.xaxis.label.get_color(), figure.get_facecolor())]
    assert lightness[0] > 2.5 > 0.5 > lightness[1]
    assert ax.lines[-1].get_color() == ax.xaxis.label.get_color()  # the boundary


def test_colours_of_many_classes_differ():
    for n in (2, 6, 7, 20):
        assert len(set(class_colours(n))) == n


# What they take.


def test_pandas_polars_and_files_give_the_same_display_as_numpy(two_classes, tmp_path):
    fit, X, y = two_classes
    np.save(tmp_path / "rows.npy", X)
    plain = MissingnessDisplay.from_estimator(fit, X, y)
    nan, none = np.where(y < 0, np.nan, y), [None if label < 0 else int(label) for label in y]
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = MARGaussianMixture(covariance_type="tied", link="logit").fit(frame, nan)
    tables = [
        (named, frame, nan),
        (named, pl.DataFrame(X, schema=["a", "b"]), pl.Series(none)),
        (fit, np.load(tmp_path / "rows.npy", mmap_mode="r"), none),
        (fit, tmp_path / "rows.npy", y),
    ]
    points = MixtureDisplay.from_estimator(fit, X, y, max_points=100).points
    for model, table, labels in tables:
        shown = MissingnessDisplay.from_estimator(model, table, labels)
        np.testing.assert_allclose(shown.observed, plain.observed)
        np.testing.assert_allclose(shown.upper, plain.upper, rtol=1e-6)
        drawn = MixtureDisplay.from_estimator(model, table, labels, max_points=100)
        np.testing.assert_array_equal(drawn.points, points)
        assert drawn.names == (["a", "b"] if model is named else ["x0", "x1"])
    assert MixtureDisplay.from_estimator(named, frame, nan).ax_.get_xlabel() == "a"


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
    np.testing.assert_array_equal(
        ThresholdDisplay.from_estimator(pipe, frame, y).recall,
        ThresholdDisplay.from_estimator(pipe[-1], inside, y).recall,
    )


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
    for kind in (MissingnessDisplay, MixtureDisplay, ProfileDisplay):
        with pytest.raises(ValueError, match="shows one fit"):
            kind.from_estimator(both, X, y)
    with pytest.raises(ValueError, match="shows one fit"):
        TraceDisplay.from_estimator(both)
    ignoring = MARClassifierCV(estimators={"off": grid["off"]}, cv=2).fit(X, y)
    assert "not a fair sample" in CalibrationDisplay.from_estimator(ignoring, X, y).note_


def test_signs_that_cannot_be_seen_are_left_out_of_names():
    assert class_words("left\u202eright\x1b[31m\n here") == "class leftright[31m here"


def test_an_option_that_a_display_does_not_have_is_refused(two_classes):
    for shown in every(*two_classes, 1, lambda: canvas(4, 4)[1]):
        with pytest.raises(TypeError if not isinstance(shown, RocDisplay) else AttributeError, match="colour"):
            shown.plot(canvas(4, 4)[1], colour="red")


def test_a_roc_curve_of_a_name_is_drawn_alone_in_its_line_style(two_classes):
    fit, X, y = two_classes
    ax = canvas(4, 4)[1]
    RocDisplay.from_estimator(fit, X, y, ax=ax, name="ours", color="red")
    assert [(line.get_label(), line.get_color()) for line in ax.lines] == [("ours", "red")]
    shown = RocDisplay.from_estimator(fit, X, y, ax=canvas(4, 4)[1], color="red")
    assert shown.ax_.lines[1].get_color() == "red"


def test_another_kind_of_estimator_is_refused_by_name(two_classes):
    _, X, y = two_classes
    scaler = StandardScaler().fit(X)
    with pytest.raises(TypeError, match=r"MixtureDisplay shows a fitted .* got StandardScaler"):
        MixtureDisplay.from_estimator(scaler, X, y)


def test_every_display_is_public():
    assert sorted(displays.__all__) == [name for name in sorted(vars(displays)) if name.endswith("Display")]


def test_without_matplotlib_the_library_imports_and_a_display_says_what_to_install():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from marmix.displays import RocDisplay\n"
        "try: RocDisplay.from_predictions([0, 1], [[0.9, 0.1], [0.2, 0.8]])\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "figures need matplotlib: pip install 'marmix[plot]'"
