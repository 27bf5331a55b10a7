"""Wide data: more features than rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import marmix
from marmix import MARLogisticRegression
from marmix.core.frames import Frame
from marmix.core.linear import LinearScores
from marmix.core.mechanism import Mechanism
from marmix.engines import NumpyEngine
from marmix.fitting import Fit, Objective, restarts
from marmix.fitting.row_space import RowSpace

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::marmix.BoundaryWarning"
)


def wide(n, d, classes=2, seed=0):
    """Rows with different units, of which the first features tell the classes apart; a third has no label."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = rng.normal(size=(n, d)) + np.where(np.arange(d) < 4, 1.5 * y[:, None], 0.0)
    missing = np.abs(X[:, :4].mean(axis=1) - X[:, :4].mean()) < 0.4
    missing[: 3 * classes] = False
    return X * np.exp(0.5 * rng.normal(size=d)) + rng.normal(size=d), np.where(missing, -1, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{"link": None}, {"mechanism_weight": 0.0, "C": 0.1}], ids=["ignored", "weight 0"])
def test_the_fit_in_the_row_space_is_the_direct_fit(monkeypatch, options, classes):
    X, y = wide(40, 60, classes)
    weight = np.random.default_rng(1).integers(1, 4, size=len(y)).astype(float)
    fit = MARLogisticRegression(**options).fit(X, y, weight)
    monkeypatch.setattr(RowSpace, "helps", staticmethod(lambda objective: False))
    direct = MARLogisticRegression(**options).fit(X, y, weight)
    np.testing.assert_allclose(fit.predict_proba(X), direct.predict_proba(X), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(fit.coef_, direct.coef_, rtol=0.0, atol=1e-12)
    assert fit.loglik_ == pytest.approx(direct.loglik_, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_objective_in_the_row_space_is_that_of_the_features(classes):
    X, z = wide(30, 50, classes)
    scale = X.std(axis=0)
    model = LinearScores(50, classes, 1, 0.3, X.mean(axis=0), scale)
    engine = NumpyEngine(X, z, None, classes, Frame(X.mean(axis=0), 1.0 / scale))
    objective, mechanism = Objective(engine, model, 0.5), Mechanism("entropy", (0.4, 1.2), 1.0)
    space, rng = RowSpace(objective), np.random.default_rng(1)
    small = rng.normal(size=(model.vectors, space.objective.model.n_features()))
    theta = space.leave(small)
    values = [o.value(t, o.sums(t, mechanism)) for o, t in ((space.objective, small), (objective, theta))]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    user = {"coefficients": model.to_user(theta)}
    np.testing.assert_allclose(space.objective.model.from_user(space.enter(user)["coefficients"]), small, atol=1e-12)


@pytest.mark.parametrize("C", [0.5, 50.0])  # with the larger one the labels are separable
def test_the_starts_in_the_row_space_are_those_of_the_direct_fit(monkeypatch, C):
    X, y = wide(24, 30)
    scores = []

    def first(objective, starts, mechanism, search):
        scores.extend(objective.model.scores(theta, objective.engine.x) for theta, _ in starts)
        theta = starts[0][0]
        return Fit(theta, mechanism, 0.0, [0.0], True, "", objective.sums(theta, mechanism))

    monkeypatch.setattr(restarts, "_best_fit", first)
    for helps in (RowSpace.helps, lambda objective: False):
        monkeypatch.setattr(RowSpace, "helps", staticmethod(helps))
        MARLogisticRegression(C=C, n_init=3, tol=1e-12).fit(X, y)
    half = len(scores) // 2
    assert half >= 3
    for in_space, direct in zip(scores[:half], scores[half:], strict=True):
        np.testing.assert_allclose(in_space, direct, atol=1e-5 * np.abs(direct).max())


def test_wide_logistic_regression_agrees_with_scikit_learn():
    X, y = wide(30, 700)
    labelled = y >= 0
    peer = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X[labelled], y[labelled])
    np.testing.assert_allclose(MARLogisticRegression(link=None).fit(X, y).coef_, peer.coef_, atol=1e-7)


def test_a_wide_fit_goes_on_from_a_previous_one():
    X, y = wide(30, 60)
    clf = MARLogisticRegression(n_init=1, warm_start=True).fit(X, y)
    before, passes = clf.trace_[-1], clf.n_passes_
    clf.fit(X, y)
    assert clf.trace_[0] == pytest.approx(before, abs=1e-6)
    assert clf.n_passes_ < passes


def test_coefficients_of_rows_that_are_all_the_same_are_zero():
    X, y = np.ones((6, 9)), np.array([0, 1, 0, 1, -1, -1])
    np.testing.assert_array_equal(MARLogisticRegression(link=None).fit(X, y).coef_, np.zeros((1, 9)))


def test_a_wide_model_is_saved_without_matrices_of_its_features(tmp_path):
    X, y = wide(20, 400)
    clf = MARLogisticRegression(n_init=1, max_iter=50).fit(X, y)
    marmix.save(clf, tmp_path / "wide.marmix")
    assert (tmp_path / "wide.marmix").stat().st_size < 8 * 400**2 / 2
    loaded = marmix.load(tmp_path / "wide.marmix")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert loaded.fitted_to(X, y)
    assert not loaded.fitted_to(X[:, ::-1], y)
    assert loaded.bic() == clf.bic()
