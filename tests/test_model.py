"""`FittedModel`: the slot that any score model fits in, and what refits and refusals leave of it."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from sklearn.base import clone

from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.core.measures import as_measure, posterior
from marmix.core.notes import Note
from marmix.plotting import MissingnessDisplay, MixtureDisplay, UncertaintyDisplay

ESTIMATORS = [MARGaussianMixture(covariance_type="tied", link="logit"), MARLogisticRegression(link="logit")]


class Prototypes:
    """A score model that is neither Gaussian nor linear: minus the distance to one point of each class."""

    joint = False
    words = "nearest prototype"

    def __init__(self, n_classes):
        self.n_classes, self.owner = n_classes, np.arange(n_classes)

    def values_per_row(self):
        return self.n_classes

    def scores(self, theta, x):
        return -np.sqrt(((x[None] - theta[:, :, None]) ** 2).sum(axis=1))

    def user_values(self, theta, frame):
        return {"prototypes": theta @ frame.unwhitener.T + frame.centre}


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def clf(request, two):
    return clone(request.param).fit(two.X, two.y)


def test_another_score_model_serves_all_users_of_a_fitted_model(clf, two):
    theta = np.array([[-1.0, 0.0], [1.0, 0.5]])
    clf.model_ = replace(clf.model_, score_model=Prototypes(2), theta=theta)
    x = clf.model_.frame.enter(two.X)
    distance = np.sqrt(((x.T[:, None] - theta) ** 2).sum(axis=2))
    odds = distance[:, 0] - distance[:, 1]
    np.testing.assert_allclose(clf.predict_proba(two.X)[:, 1], 1 / (1 + np.exp(-odds)), rtol=1e-12)
    np.testing.assert_allclose(clf.decision_function(two.X), odds, rtol=1e-9, atol=1e-12)
    u = as_measure(clf.model_.measure)(posterior(-distance.T)).value
    np.testing.assert_allclose(clf.uncertainty(two.X), u, rtol=1e-9)
    alpha = clf.alpha_
    np.testing.assert_allclose(clf.missing_proba(two.X), 1 / (1 + np.exp(-alpha[0] - alpha[1] * u)), rtol=1e-9)
    given = two.y >= 0
    imputed = clf.impute(two.X, two.y)
    np.testing.assert_array_equal(imputed[given], two.y[given])
    np.testing.assert_array_equal(imputed[~given], (odds[~given] > 0).astype(int))
    assert "nearest prototype" in clf.summary().as_text()
    for display in (UncertaintyDisplay, MissingnessDisplay, MixtureDisplay):
        display.from_estimator(clf, two.X, two.y).figure_.clear()
    with pytest.raises(ValueError, match="nearest prototype"):
        clf.to_sklearn()


def test_a_fitted_model_cannot_be_changed(clf):
    with pytest.raises(FrozenInstanceError):
        clf.model_.converged = False


def test_a_refused_refit_leaves_the_fit_as_it_was(clf, two):
    before, labels = clf.model_, clf.transduction_
    answers = clf.predict_proba(two.X)
    other = np.where(two.y >= 0, two.y + 5, -1)
    refused = [
        (two.X[:, :1] * np.nan, other, "NaN"),
        (two.X[:, [0, 1, 1]], np.full(len(two.y), -1), "label"),
        (two.X[:, [0, 1, 1]], np.where(two.y >= 0, 7, -1), "class"),
        (two.X[:-1, [0, 1, 1]], other, "inconsistent"),
        (1e200 * two.X[:, [0, 1, 1]], other, "overflow"),
    ]
    for X, y, reason in refused:
        with pytest.raises(ValueError, match=reason):
            clf.fit(X, y)
    assert clf.model_ is before
    assert clf.transduction_ is labels
    assert clf.n_features_in_ == 2
    np.testing.assert_array_equal(clf.classes_, [0, 1])
    np.testing.assert_array_equal(clf.predict_proba(two.X), answers)


def test_other_names_change_names_alone(clf, two):
    names, columns = np.array(["no", "yes"]), np.array(["length", "width"], dtype=object)
    noted = replace(
        clf.model_, notes=[Note("collapsed", {"classes": [1], "floor": 1e-6}), Note("dependent", {"columns": [0, 1]})]
    )
    model = noted.renamed(names, columns)
    assert "'yes'" in model.sentences[0]
    assert "'length', 'width'" in model.sentences[1]
    np.testing.assert_array_equal(model.scores(two.X), clf.model_.scores(two.X))
    assert model.renamed().column_names == ["x0", "x1"]
    np.testing.assert_array_equal(model.renamed().classes, [0, 1])
