"""A new measure or link is one record: one made up here works in fits, inference, files, figures and reports."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import mechanism_of

import marmix
from marmix import MARGaussianMixture, MARLogisticRegression, Mechanism
from marmix.cli import main
from marmix.core.links import FREE, LINKS, Link, link_of_shape
from marmix.core.measures import MEASURES, Measure, Measured, measure_curvature, posterior
from marmix.datasets import hide_labels, make_mar_mixture
from marmix.persistence import ContainerError
from marmix.plotting import MissingnessDisplay, UncertaintyDisplay

CLASSIFIERS = [MARGaussianMixture(covariance_type="tied", link="logit"), MARLogisticRegression(link="logit")]
CLASSIFIER = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda classifier: type(classifier).__name__)


def cubes(p):
    """``1 - sum_k tau_k^3`` and its gradient in the scores."""
    total = (p.tau**3).sum(axis=0)
    return Measured(1.0 - total, 3.0 * p.tau * (total - p.tau**2))


def cubes_of_log_posteriors(log_tau):
    """The same as a user's callable."""
    return 1.0 - np.exp(3.0 * log_tau).sum(axis=1), -3.0 * np.exp(3.0 * log_tau)


CUBIC = Measure(
    "cubic",
    cubes,
    words="one minus the cubes",
    grows="unclear",
    range=lambda classes: (0.0, 1.0 - classes**-2.0),
    axis="{words} of {first} to {last}: at most {high:.3f}",
    slope=7.0,
)
HALF = Link("half", 0.5, "half-way")


@pytest.fixture
def cubic(monkeypatch):
    monkeypatch.setitem(MEASURES, CUBIC.name, CUBIC)
    return CUBIC


@pytest.fixture
def half(monkeypatch):
    monkeypatch.setitem(LINKS, HALF.name, HALF)
    return HALF


def named(y, names=("elm", "oak", "ash")):
    return np.array([*names, None], dtype=object)[y]


def fitted(classifier, data, **params):
    return type(classifier)(**classifier.get_params() | params).fit(data.X, data.y)


# A measure.


@CLASSIFIER
@pytest.mark.parametrize("classes", [2, 3])
def test_a_new_measure_is_fitted_as_a_callable_of_its_formula_is(cubic, classifier, classes, simulate):
    data = simulate(classes=classes)
    fit, other = (fitted(classifier, data, measure=u) for u in (cubic.name, cubes_of_log_posteriors))
    assert fit.loglik_ == pytest.approx(other.loglik_, rel=1e-9)
    np.testing.assert_allclose(fit.alpha_, other.alpha_, rtol=1e-5)
    np.testing.assert_allclose(fit.missing_proba(data.X), other.missing_proba(data.X), rtol=1e-5)
    np.testing.assert_allclose(fit.uncertainty(data.X), 1.0 - (fit.predict_proba(data.X) ** 3).sum(axis=1), atol=1e-14)


@CLASSIFIER
def test_a_new_measure_has_standard_errors_and_its_name_in_tables(cubic, classifier, two):
    fits = [fitted(classifier, two, measure=u) for u in (cubic.name, cubes_of_log_posteriors)]
    results = [fit.inference(two.X, two.y) for fit in fits]
    np.testing.assert_allclose(results[0].bse, results[1].bse, rtol=1e-4)
    assert f"{cubic.name}, logit link" in fits[0].summary().as_text()


def test_only_with_three_classes_or_more_is_a_measure_with_kinks_differentiated_by_a_long_step(monkeypatch):
    monkeypatch.setitem(MEASURES, "cubic", replace(CUBIC, kinked=True))
    for classes, least, most in ((2, 0.0, 1e-9), (3, 1e-4, 0.02)):
        p = posterior(np.random.default_rng(0).normal(size=(classes, 4)))
        error = measure_curvature("cubic", p) - measure_curvature(cubes_of_log_posteriors, p)
        assert least <= np.abs(error).max() < most


def test_a_new_measure_hides_labels_with_its_slope(cubic):
    tau = np.linspace(0.0, 1.0, 401)
    hidden = hide_labels(np.arange(401) % 2, np.column_stack([1.0 - tau, tau]), measure=cubic.name, rate=0.5)
    assert hidden.mechanism.alpha[1] == cubic.slope
    assert hidden.missing_proba.argmax() == 200  # the toss-up
    assert repr(cubic.name) in hidden.DESCR
    drawn = make_mar_mixture(50, measure=cubic.name, random_state=0)
    assert drawn.mechanism.alpha[1] == cubic.slope


@pytest.mark.parametrize("low", [0.0, -np.inf])
def test_hiding_takes_an_infinite_end_of_the_range_where_one_class_has_all(monkeypatch, low):
    monkeypatch.setitem(MEASURES, "cubic", replace(CUBIC, range=lambda classes: (low, 1.0)))
    tau = np.linspace(0.0, 1.0, 11)
    hidden = hide_labels(np.arange(11) % 2, np.column_stack([1.0 - tau, tau]), measure="cubic", rate=0.3)
    assert (hidden.missing_proba[[0, -1]] == 0.0).all() == np.isinf(low)
    assert (hidden.missing_proba[1:-1] > 0.0).all()


def test_without_a_default_slope_one_has_to_be_given(monkeypatch):
    monkeypatch.setitem(MEASURES, "cubic", replace(CUBIC, slope=None))
    with pytest.raises(ValueError, match="slope is needed"):
        make_mar_mixture(50, measure="cubic", random_state=0)


def test_a_new_measure_is_drawn_with_its_range_and_label(cubic, two):
    fit = MARGaussianMixture(measure=cubic.name, link="logit").fit(two.X, named(two.y))
    label = "one minus the cubes of elm to oak: at most 0.750"
    shown = UncertaintyDisplay.from_estimator(fit, two.X, named(two.y), measure=cubic.name)
    np.testing.assert_allclose(shown.edges[[0, -1]], cubic.range(2))
    assert shown.ax_.get_xlabel() == label
    shown = MissingnessDisplay.from_estimator(fit, two.X, named(two.y))
    assert shown.ax_.get_xlabel() == label
    eta = fit.alpha_[0] + fit.alpha_[1] * shown.u
    np.testing.assert_allclose(shown.q, 1.0 / (1.0 + np.exp(-eta)), rtol=1e-9)


def test_a_measure_without_limits_is_drawn_where_its_values_are(monkeypatch, two):
    monkeypatch.setitem(MEASURES, "cubic", replace(CUBIC, range=lambda classes: (0.0, np.inf)))
    fit = MARGaussianMixture(measure="cubic", link="logit").fit(two.X, two.y)
    u = fit.uncertainty(two.X)
    shown = UncertaintyDisplay.from_estimator(fit, two.X, two.y, measure="cubic")
    np.testing.assert_allclose(shown.edges[[0, -1]], [u.min(), u.max()])


def test_a_new_measure_for_two_classes_is_refused_for_three_with_those_that_admit_them(monkeypatch, simulate):
    monkeypatch.setitem(MEASURES, "cubic", replace(CUBIC, only_classes=2))
    data = simulate(classes=3)
    with pytest.raises(ValueError, match=r"measure='cubic'.* 2 classes.*'margin'") as refusal:
        MARGaussianMixture(measure="cubic").fit(data.X, data.y)
    assert "signed-margin" not in str(refusal.value)


def test_a_new_measure_that_grows_towards_the_second_class_names_both_sides(monkeypatch, two):
    monkeypatch.setitem(MEASURES, "tilt", replace(MEASURES["signed-margin"], name="tilt"))
    fit = MARLogisticRegression(link="logit", measure="tilt").fit(two.X, named(two.y))
    q = fit.mechanism_.missing_proba(np.log([[0.99, 0.01], [0.01, 0.99]]))
    sentence = fit.summary().notes[0]
    assert f"{q[0]:.2f} where elm has probability 0.99 and {q[1]:.2f} where oak has probability 0.99" in sentence


def test_the_fused_kernel_leaves_a_new_measure_to_the_plain_path(cubic):
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from marmix.core.covariance import structure
    from marmix.core.gaussian import GaussianScores
    from marmix.engines import fused

    model = GaussianScores(structure("full", 2), [1, 1], 1e-6)
    assert not fused.supports(model, mechanism_of("logit", cubic.name))


@CLASSIFIER
def test_a_saved_model_needs_the_measure_it_was_fitted_with(cubic, classifier, two, tmp_path, monkeypatch):
    fit = fitted(classifier, two, measure=cubic.name)
    marmix.save(fit, tmp_path / "model.marmix")
    loaded = marmix.load(tmp_path / "model.marmix")
    np.testing.assert_array_equal(loaded.missing_proba(two.X), fit.missing_proba(two.X))
    assert loaded.mechanism_ == fit.mechanism_
    monkeypatch.delitem(MEASURES, cubic.name)
    with pytest.raises(ContainerError, match="'cubic' is not known"):
        marmix.load(tmp_path / "model.marmix")


def test_a_report_of_a_model_with_a_new_measure(cubic, tmp_path, capsys, quick_figures):
    drawn = make_mar_mixture(200, measure=cubic.name, rate=0.5, at_least=5, random_state=0)
    table = pd.DataFrame(drawn.data, columns=["a", "b"])
    fit = MARGaussianMixture(covariance_type="tied", link="logit", measure=cubic.name)
    marmix.save(fit.fit(table, named(drawn.target)), tmp_path / "model.marmix")
    table.assign(kind=named(drawn.target)).to_csv(tmp_path / "trees.csv", index=False)
    page = tmp_path / "report.html"
    files = [str(tmp_path / "model.marmix"), str(tmp_path / "trees.csv")]
    assert main(["report", *files, "--label", "kind", "--out", str(page), "--json", "--quiet"]) == 0
    missingness = json.loads(capsys.readouterr().out)["missingness"]
    q = 1.0 / (1.0 + np.exp(-fit.alpha_[0] - fit.alpha_[1] * np.array([0.75, 0.0])))
    assert [missingness["toss_up"], missingness["certain"]] == pytest.approx(q.tolist(), rel=1e-9)
    assert f"{100 * q[0]:.0f}\u00a0%" in page.read_text(encoding="utf-8")


# A link.


@CLASSIFIER
def test_a_new_link_is_the_aranda_ordaz_link_of_its_shape(half, classifier, two, tmp_path):
    fit = fitted(classifier, two, link=half.name)
    other = fitted(classifier, two, link=FREE.name, shape=half.shape)
    assert fit.loglik_ == other.loglik_
    np.testing.assert_array_equal(fit.missing_proba(two.X), other.missing_proba(two.X))
    assert "half link" in dict(fit.summary().facts)["missingness"]
    assert "half" in fit.inference(two.X, two.y).summary().as_text()
    marmix.save(fit, tmp_path / "model.marmix")
    assert marmix.load(tmp_path / "model.marmix").get_params()["link"] == half.name


def test_a_new_link_hides_labels(half):
    options = {"rate": 0.4, "random_state": 0}
    drawn = make_mar_mixture(100, link=half.name, **options)
    other = make_mar_mixture(100, link=half.shape, **options)
    np.testing.assert_array_equal(drawn.missing_proba, other.missing_proba)


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")  # the shape is 0
def test_a_new_link_lies_in_an_interval(half, simulate):
    data = simulate(shape=0.0, alpha=(1.5, -3.0))
    free = MARGaussianMixture(covariance_type="tied", link=FREE.name).fit(data.X, data.y)
    result = free.inference(data.X, data.y)
    interval = result.profile("shape")
    assert interval.lower == 0.0
    assert half.shape < interval.upper < LINKS["logit"].shape


# Every link.


@pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
def test_a_link_and_its_shape_name_each_other(link):
    mechanism = Mechanism.from_link(link.name)
    assert mechanism.free_shape == (link.shape is None)
    if link.shape is None:
        assert Mechanism.from_link(link.name, 0.37).shape == 0.37
        return
    assert mechanism.shape == link.shape
    assert link_of_shape(link.shape) is link
    with pytest.raises(ValueError, match=f"link='{link.name}' has shape {link.shape:g}.*'{FREE.name}'"):
        Mechanism.from_link(link.name, link.shape + 0.25)


def test_a_shape_without_a_name_is_of_the_aranda_ordaz_link():
    assert link_of_shape(0.37) is FREE
