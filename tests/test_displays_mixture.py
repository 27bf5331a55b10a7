"""The display of a fit: directions, ellipses, densities and boundaries against what defines them."""

import matplotlib
import numpy as np
import pytest
from matplotlib.contour import ContourSet
from scipy.stats import chi2, multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from marmix import BoundaryWarning, MARGaussianMixture, MARLogisticRegression
from marmix.plotting import MixtureDisplay
from marmix.plotting.drawing import GREY, canvas

matplotlib.use("Agg")

MIXTURES = pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])


def shown(fit, X, y, **options):
    return MixtureDisplay.from_estimator(fit, X, y, ax=canvas(4, 4)[1], **options)


def labelled_fit(data, **options):
    """A fit to all labels: that of discriminant analysis."""
    with pytest.warns(BoundaryWarning, match="Every row has a label"):
        return MARGaussianMixture(**options).fit(data.X, data.truth)


# Directions.


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_directions_of_a_tied_fit_to_all_labels_are_those_of_lda(classes, simulate):
    data = simulate(300, classes=classes, d=5, distance=3.0)
    found = shown(labelled_fit(data, covariance_type="tied"), data.X, data.truth)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(data.X, data.truth)
    for i in range(min(classes - 1, 2)):
        assert abs(np.corrcoef(found.points[:, i], data.X @ lda.scalings_[:, i])[0, 1]) == pytest.approx(1.0, abs=1e-8)


def test_coordinates_are_uncorrelated_and_have_unit_variance(simulate):
    data = simulate(300, classes=2, d=4)
    found = shown(MARGaussianMixture(covariance_type="full").fit(data.X, data.y), data.X, data.y)
    np.testing.assert_allclose(np.cov(found.points.T), np.eye(2), atol=1e-9)


def test_a_logistic_regression_is_drawn_along_its_coefficients(simulate):
    data = simulate(300, d=4)
    fit = MARLogisticRegression(link="logit").fit(data.X, data.y)
    found = shown(fit, data.X, data.y)
    assert abs(np.corrcoef(found.points[:, 0], fit.decision_function(data.X))[0, 1]) == pytest.approx(1.0, abs=1e-8)
    odds = found.scores[1] - found.scores[0]
    np.testing.assert_allclose(
        odds, np.broadcast_to(odds[:1], odds.shape), atol=1e-6
    )  # every row is on the side of its own prediction
    assert not found.ellipses


# Ellipses.


@MIXTURES
def test_points_of_an_ellipse_satisfy_its_equation(covariance_type, simulate):
    data = simulate(250, classes=3, distance=3.0)
    fit = MARGaussianMixture(covariance_type=covariance_type, link="logit").fit(data.X, data.y)
    found = shown(fit, data.X, data.y)
    full = {
        "full": fit.covariances_,
        "tied": [fit.covariances_] * 3,
        "diag": [np.diag(row) for row in fit.covariances_] if covariance_type == "diag" else None,
        "spherical": [v * np.eye(2) for v in fit.covariances_] if covariance_type == "spherical" else None,
    }[covariance_type]
    for (label, points), mean, covariance in zip(found.ellipses, fit.means_, full, strict=True):
        apart = points - mean
        distance = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(covariance), apart)
        np.testing.assert_allclose(distance, chi2.ppf(0.95, 2), rtol=1e-8)
        assert fit.predict(points.mean(axis=0)[None, :])[0] == label


def test_every_component_has_an_ellipse_of_the_colour_of_its_class(simulate):
    data = simulate(250, distance=3.0)
    fit = MARGaussianMixture(link="logit", n_components={0: 2, 1: 1}, random_state=0).fit(data.X, data.y)
    found = shown(fit, data.X, data.y)
    assert [label for label, _ in found.ellipses] == fit.component_classes_.tolist() == [0, 0, 1]
    outlines = found.ax_.lines[:3]
    assert outlines[0].get_color() == outlines[1].get_color() != outlines[2].get_color()


# Boundaries.


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["full", "tied", "logistic", "quadratic"])
def test_on_the_boundary_the_two_largest_posteriors_are_equal(kind, classes, simulate):
    data = simulate(300, classes=classes, distance=2.5)
    fit = {
        "full": MARGaussianMixture(covariance_type="full"),
        "tied": MARGaussianMixture(covariance_type="tied", link="logit"),
        "logistic": MARLogisticRegression(link="logit"),
        "quadratic": MARLogisticRegression(link="logit", degree=2),
    }[kind].fit(data.X, data.y)
    found = shown(fit, data.X, data.y)
    lines = [c.get_paths() for c in found.ax_.collections if isinstance(c, ContourSet)]
    at = np.vstack([path.vertices for paths in lines for path in paths])
    largest = np.sort(fit.predict_proba(at), axis=1)
    assert len(at) > 100
    assert np.quantile(largest[:, -1] - largest[:, -2], 0.98) < 1e-3  # but for the corner where three meet
    assert np.max(largest[:, -1] - largest[:, -2]) < 0.02


def test_scores_on_the_grid_are_those_of_the_fit(simulate):
    data = simulate(250, classes=3, distance=2.5)
    fit = MARGaussianMixture(covariance_type="full").fit(data.X, data.y)
    found = shown(fit, data.X, data.y)
    i, j = 17, 201
    at = np.array([found.grid[0][j], found.grid[1][i]])
    density = [multivariate_normal(m, c).pdf(at) for m, c in zip(fit.means_, fit.covariances_, strict=True)]
    np.testing.assert_allclose(np.exp(found.scores[:, i, j]), fit.weights_ * density, rtol=1e-9)


def test_two_of_many_features_show_what_these_two_alone_say(simulate):
    data = simulate(300, classes=2, d=4)
    fit = MARGaussianMixture(covariance_type="full").fit(data.X, data.y)
    found = shown(fit, data.X, data.y, features=["x2", 0])
    np.testing.assert_array_equal(found.points, data.X[:, [2, 0]])
    assert found.names == ["x2", "x0"]
    at = np.array([found.grid[0][40], found.grid[1][99]])
    pair = np.ix_([2, 0], [2, 0])
    density = [
        multivariate_normal(m[[2, 0]], c[pair]).pdf(at) for m, c in zip(fit.means_, fit.covariances_, strict=True)
    ]
    np.testing.assert_allclose(np.exp(found.scores[:, 99, 40]), fit.weights_ * density, rtol=1e-9)


@pytest.mark.parametrize("features", [["x9", 0], [0, 0], [0]])
def test_features_that_cannot_be_drawn_are_refused(features, simulate):
    data = simulate(200, d=4)
    fit = MARGaussianMixture(covariance_type="tied", link="logit").fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"features=.* x0, x1, x2, x3"):
        shown(fit, data.X, data.y, features=features)


# Rows.


def test_given_labels_are_filled_and_imputed_ones_hollow(simulate):
    data = simulate(300)
    fit = MARGaussianMixture(link="logit").fit(data.X, data.y)
    found = shown(fit, data.X, data.y)
    np.testing.assert_array_equal(found.given, data.y >= 0)
    np.testing.assert_array_equal(fit.classes_[found.codes], fit.transduction_)
    dots = [c for c in found.ax_.collections if not isinstance(c, ContourSet)]
    drawn = {(len(c.get_offsets()), len(c.get_facecolors()) > 0) for c in dots}
    expected = {(int(((fit.transduction_ == k) & (found.given == g)).sum()), g) for k in (0, 1) for g in (False, True)}
    assert drawn == expected


def test_of_very_many_rows_a_sample_is_drawn_with_a_note(simulate):
    data = simulate(3000)
    fit = MARGaussianMixture(covariance_type="tied", link="logit").fit(data.X, data.y)
    found = shown(fit, data.X, data.y, max_points=400)
    assert len(found.points) == 400
    assert "400 of 3,000 rows" in found.note_
    again = shown(fit, data.X, data.y, max_points=400)
    np.testing.assert_array_equal(again.points, found.points)


def test_of_more_than_six_classes_the_smallest_are_grey(simulate):
    X, y, _ = simulate(280, classes=7, distance=4.0, seed=2)
    found = shown(MARGaussianMixture(covariance_type="tied", link=None).fit(X, y), X, y)
    colours = [line.get_color() for line in found.ax_.lines[:7]]
    assert len(set(colours)) == 7
    counts = np.bincount(found.codes)
    assert counts[colours.index(GREY)] == counts.min()
