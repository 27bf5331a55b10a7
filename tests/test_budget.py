"""The work of the default analysis is bounded: candidates, information matrices, simulations and draws."""

import sys
import tracemalloc

import numpy as np
import pytest

from marmix import MARClassifierCV, MARGaussianMixture, MARKernelClassifier, MARLogisticRegression, MARStudentMixture
from marmix.app.facts import parameter_tests
from marmix.app.models import Model
from marmix.inference.fitted import too_many_parameters
from marmix.inference.hypotheses import HypothesisTest
from marmix.selection.average import TOO_MANY
from marmix.selection.candidates import crowded, default_candidates, default_rivals, fit_one

pytestmark = pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")


def rows(n, d, classes, seed=0):
    """Gaussian rows of classes two apart, half of the labels missing; every class has labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = rng.normal(size=(n, d))
    X[:, 0] += 2.0 * y
    return X, np.where((rng.uniform(size=n) < 0.5) & (np.arange(n) >= 3 * classes), -1, y)


def settings(grid):
    return {name: model.get_params() for name, model in grid.items()}


def test_with_fewer_labels_than_coefficients_the_slow_candidates_are_fewer_and_stop_earlier():
    assert crowded(12, 40, 360)
    assert not crowded(12, 40, 500)
    light, full = (settings(default_candidates(12, 800, 40, n_labelled=labels)) for labels in (360, 720))
    assert set(full) == set(light)
    for name, params in light.items():
        changed = {key for key, value in params.items() if full[name][key] != value}
        modelled = name.startswith("logistic") and "ignored" not in name
        assert changed == ({"max_iter"} if modelled else {"max_estimators"} if "boosting" in name else set())
        assert 12 * params.get("max_estimators", 0) <= 1500
    assert len(default_candidates(2, 100, 3000, n_labelled=60)) < len(default_candidates(2, 100, 300, n_labelled=60))
    rival = default_rivals(12, light=True)["gradient boosting"].get_params()
    assert rival.get("max_estimators", 125) == 125


@pytest.mark.parametrize(
    "estimator",
    [
        MARGaussianMixture(covariance_type="full", n_init=1, max_iter=1),
        MARGaussianMixture(covariance_type="tied", n_components=2, n_init=1, max_iter=1),
        MARStudentMixture(covariance_type="tied", dof="by_class", n_init=1, max_iter=1),
        MARLogisticRegression(max_iter=1),
        MARKernelClassifier(C=1.0, gamma=1.0, mechanism_weight=0.0, cv=None, n_landmarks=5, max_iter=1),
    ],
    ids=lambda estimator: f"{type(estimator).__name__}-{getattr(estimator, 'covariance_type', '')}",
)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_number_of_parameters_is_that_of_the_directions(estimator, classes):
    X, y = rows(60, 2, classes)
    model = estimator.fit(X, y).model_
    chart = model.score_model.chart(model.theta)
    assert chart.n_free == chart.directions.shape[1]


@pytest.fixture(scope="module")
def wide():
    """A fitted tied mixture with 10 + 210 parameters of the features, and its 120 rows."""
    X, y = rows(120, 20, 2)
    return MARGaussianMixture(covariance_type="tied", link="logit", n_init=1).fit(X, y), X, y


@pytest.fixture
def no_matrices(monkeypatch):
    """Information matrices are refused."""

    def refuse(*args):
        raise AssertionError("an information matrix was computed")

    monkeypatch.setattr("marmix.inference.fitted.Information", refuse)


def test_more_parameters_than_rows_have_no_intervals_and_cost_no_matrix(wide, no_matrices):
    estimator, X, y = wide
    reason = too_many_parameters(estimator.model_)
    assert f"{estimator.model_.n_parameters} parameters" in reason
    assert "120" in reason
    tracemalloc.start()
    result = parameter_tests(Model(None, [estimator], np.arange(2)), X, y, [f"x{j}" for j in range(20)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reason in result.reason
    assert peak < 4 * X.nbytes


def test_enough_rows_have_intervals():
    X, y = rows(120, 2, 2)
    assert too_many_parameters(MARGaussianMixture(covariance_type="full", n_init=1).fit(X, y).model_) is None


def test_coefficients_are_counted_before_the_matrices_are_made(monkeypatch):
    X, y = rows(120, 3, 2)
    model = MARGaussianMixture(covariance_type="tied", n_init=1).fit(X, y).model_
    assert model.n_coefficients == 2 * (1 + 3 + 6)
    monkeypatch.setattr("marmix.inference.fitted._MOST_COEFFICIENTS", 19)
    assert "too many" in too_many_parameters(model)


def test_draws_of_candidates_with_too_many_parameters_are_those_of_their_calibration(wide, no_matrices):
    estimator, X, y = wide
    cv = MARClassifierCV(estimators={"mixture": estimator}, cv=2).fit(X, y)
    result = cv.sensitivity(X, y, n_draws=20)
    assert result.notes == [TOO_MANY.format("only the calibration")]
    cv.held_out_proba_ = None  # as of a saved average
    assert cv.sensitivity(X, y, n_draws=20).notes == [TOO_MANY.format("nothing")]


def test_a_simulated_p_value_at_its_floor_is_only_known_to_be_smaller():
    def test_of(p_value, simulated):
        return HypothesisTest("?", 9.0, "parametric bootstrap", p_value, "", {"simulated": np.array(simulated)})

    floor = test_of(0.02, [1.0] * 49)
    assert floor.at_floor
    assert "p < 0.02\n" in str(floor)
    above = test_of(0.04, [1.0] * 48 + [10.0])
    assert not above.at_floor
    assert "p = 0.040\n" in str(above)
    asymptotic = test_of(0.0002, [])
    assert not asymptotic.at_floor
    assert "p < 0.001\n" in str(asymptotic)


CANDIDATES = {
    "one": MARLogisticRegression(link=None),
    "two": MARLogisticRegression(C=0.1, link=None),
    "mixture": MARGaussianMixture(link=None),
    "modelled": MARLogisticRegression(n_init=1, max_iter=20),
}


@pytest.fixture
def clock(monkeypatch):
    """A clock that every fit advances by one second."""
    now = [0.0]

    def timed(*args):
        now[0] += 1.0
        return fit_one(*args)

    monkeypatch.setattr("marmix.selection.comparison.monotonic", lambda: now[0])
    monkeypatch.setattr("marmix.selection.comparison.fit_one", timed)
    return now


@pytest.mark.parametrize(
    ("limit", "finished"),
    [(0.5, {"one"}), (9.4, {"one", "modelled", "mixture"}), (14.0, set(CANDIDATES))],
)
@pytest.mark.filterwarnings("ignore:Left out for lack of time")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_candidates_that_are_not_finished_in_time_are_left_out_and_named(clock, limit, finished):
    X, y = rows(40, 2, 2)
    clf = MARClassifierCV(estimators=CANDIDATES, cv=2, time_limit=limit).fit(X, y)
    assert set(clf.estimators_) == set(clf.weights_) == finished
    notes = [note for note in clf.notes_ if "lack of time" in note]
    assert bool(notes) == (finished != set(CANDIDATES))
    assert all(name in notes[0] for name in set(CANDIDATES) - finished)
    clock[0] = 0.0
    free = MARClassifierCV(estimators={name: CANDIDATES[name] for name in clf.estimators_}, cv=2).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), free.predict_proba(X))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("bar", [True, False])
def test_progress_is_said_on_standard_error_and_once_unless_asked_for(bar, monkeypatch, capsys, caplog):
    X, y = rows(40, 2, 2)
    if not bar:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    one = {"one": CANDIDATES["one"]}
    MARClassifierCV(estimators=one, cv=2, verbose=1).fit(X, y)
    out, err = capsys.readouterr()
    assert not out
    assert ("100%" if bar else "90%") in err
    MARClassifierCV(estimators=one, cv=2).fit(X, y)
    assert not caplog.records
    monkeypatch.setattr("marmix.selection.progress.QUIET", -1.0)
    MARClassifierCV(estimators=one, cv=2).fit(X, y)
    assert [record.name for record in caplog.records] == ["marmix"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore:Left out")
def test_if_the_first_candidate_fails_another_is_fitted_whatever_the_time(clock):
    X, y = rows(40, 2, 2)
    failing = {"bad": MARLogisticRegression(mechanism_features=[0], link="logit", shape=-1.0), **CANDIDATES}
    clf = MARClassifierCV(estimators=failing, cv=2, time_limit=1e-9).fit(X, y)
    assert len(clf.estimators_) == 1
