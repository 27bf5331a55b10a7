"""`MARKernelClassifier`: its model, its choices, and the places its rows may be in."""

from copy import copy

import numpy as np
import pytest
from scipy.special import entr, expit
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import marmix.core.files
from marmix import BoundaryWarning, MARGaussianMixture, MARKernelClassifier, MARLogisticRegression
from marmix.selection import held_out
from marmix.selection.held_out import WEIGHTS

FIXED = {"C": 10.0, "gamma": 0.5, "mechanism_weight": 0.3}


def circles(n, classes=2, seed=0, missing="hard"):
    """Rings around the origin whose labels are missing by their entropy ("hard") or at random, and the true labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    radius = np.sqrt((X**2).sum(axis=1))
    edges = np.sqrt(-2 * np.log(1 - np.arange(1, classes) / classes))  # rings of equal probability
    truth = np.searchsorted(edges, radius + 0.2 * rng.normal(size=n))
    distance = np.abs(radius[:, None] - edges).min(axis=1)
    tau = norm.cdf(distance / 0.2)
    q = expit(7.0 * (entr(tau) + entr(1.0 - tau)) - 1.5) if missing == "hard" else np.full(n, 0.6)
    hidden = rng.random(n) < q
    for k in range(classes):
        hidden[np.flatnonzero(truth == k)[:3]] = False
    return X, np.where(hidden, -1, truth), truth


@pytest.fixture(scope="module")
def rings():
    return circles(300)


@pytest.fixture(scope="module")
def fit(rings):
    return MARKernelClassifier(**FIXED, n_landmarks=50).fit(*rings[:2])


CHOOSING = {"n_landmarks": 30, "cv": 2}


@pytest.fixture(scope="module")
def chosen(rings):
    """A fit that chose its settings."""
    return MARKernelClassifier(**CHOOSING).fit(*rings[:2])


# The model


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_without_the_mechanism_it_is_logistic_regression_on_kernel_features(classes, weighted):
    X, y, _ = circles(200, classes)
    weight = np.random.default_rng(0).integers(1, 4, size=len(y)).astype(float) if weighted else None
    clf = MARKernelClassifier(C=3.0, gamma=0.5, mechanism_weight=0.0, n_landmarks=40, cv=None).fit(X, y, weight)
    features = clf.to_sklearn()[:-1]
    labelled = y >= 0
    rival = LogisticRegression(C=3.0, tol=1e-12, max_iter=10_000, solver="newton-cg")
    rival.fit(features.transform(X[labelled]), y[labelled], None if weight is None else weight[labelled])
    np.testing.assert_allclose(clf.predict_proba(X), rival.predict_proba(features.transform(X)), atol=1e-7)


def test_scores_are_sums_of_kernels_at_the_landmarks(fit, rings):
    X = rings[0]
    scale, mean = X.std(axis=0), X.mean(axis=0)
    x, centres = (X - mean) / scale, (fit.landmarks_ - mean) / scale
    kernels = np.exp(-fit.gamma_ * ((x[:, None] - centres) ** 2).sum(axis=2))
    np.testing.assert_allclose(fit.decision_function(X), fit.intercept_ + kernels @ fit.dual_coef_[0], atol=1e-8)
    assert {tuple(row) for row in fit.landmarks_.round(9)} <= {tuple(row) for row in X.round(9)}


def test_it_is_at_a_maximum(rings):
    X, y, _ = rings
    clf = MARKernelClassifier(**FIXED, n_landmarks=30, tol=1e-12, cv=None).fit(X, y)
    features, missing = clf.to_sklearn()[:-1].transform(X), y < 0
    theta = np.append(clf.model_.theta[0], clf.alpha_)

    def objective(theta):
        scores = theta[0] + features @ theta[1:-2]
        log_proba = -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        u = -(np.exp(log_proba) * log_proba).sum(axis=1)
        eta = theta[-2] + theta[-1] * u
        labels = log_proba[~missing, y[~missing]].sum()
        return labels - 0.3 * np.logaddexp(0.0, np.where(missing, -eta, eta)).sum() - theta[1:-2] @ theta[1:-2] / 20.0

    assert objective(theta) == pytest.approx(clf.trace_[-1], rel=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = 1e-3 * rng.normal(size=len(theta))
        slope = (objective(theta + step) - objective(theta - step)) / 2
        assert abs(slope) < 1e-5 * abs(objective(theta))
        assert objective(theta + 10 * step) < objective(theta)


# What must not matter


def test_units_do_not_matter_even_to_the_choices(rings, chosen):
    X, y, _ = rings
    other = MARKernelClassifier(**CHOOSING).fit(X * [1e4, 1e-3] + [7.0, -2.0], y)
    assert (other.C_, other.mechanism_weight_) == (chosen.C_, chosen.mechanism_weight_)
    assert other.gamma_ == pytest.approx(chosen.gamma_, rel=1e-8)
    moved = other.predict_proba(X * [1e4, 1e-3] + [7.0, -2.0])
    np.testing.assert_allclose(moved, chosen.predict_proba(X), atol=1e-4)


# What it is for


def test_it_finds_a_boundary_of_which_hard_labels_are_missing():
    X, y, _ = circles(500, seed=1)
    fresh, _, truth = circles(4000, seed=2)
    losses = {
        weight: log_loss(truth, MARKernelClassifier(mechanism_weight=weight, **CHOOSING).fit(X, y).predict_proba(fresh))
        for weight in (0.0, "auto")
    }
    linear = log_loss(truth, MARLogisticRegression().fit(X, y).predict_proba(fresh))
    assert losses["auto"] < losses[0.0] - 0.005
    assert losses["auto"] < 0.7 * linear


# Choices


def test_chosen_values_are_those_of_a_fit_with_them(rings, chosen):
    X, y, _ = rings
    assert chosen.mechanism_weight_ in WEIGHTS
    fixed = MARKernelClassifier(
        C=chosen.C_, gamma=chosen.gamma_, mechanism_weight=chosen.mechanism_weight_, n_landmarks=30, cv=None
    )
    np.testing.assert_allclose(fixed.fit(X, y).predict_proba(X), chosen.predict_proba(X), atol=1e-6)


def test_held_out_probabilities_do_not_know_the_labels_of_their_fold(rings):
    X, y, truth = rings
    folds = held_out.whole_row_folds(y, 3)
    clf = MARKernelClassifier(**FIXED | {"mechanism_weight": 0.0}, n_landmarks=60, cv=folds)
    swapped = y.copy()
    tested = folds[0][y[folds[0]] >= 0]
    swapped[tested] = 1 - y[tested]
    one, other = (clone(clf).fit(X, labels).held_out_proba_ for labels in (y, swapped))
    np.testing.assert_allclose(other[folds[0]], one[folds[0]], atol=1e-3)
    assert np.abs(other[folds[1]] - one[folds[1]]).max() > 0.05
    assert log_loss(truth, one) < 0.9 * log_loss(truth, np.full(len(y), truth.mean()))


def test_rows_outside_the_sample_have_held_out_probabilities_too(monkeypatch):
    X, y, truth = circles(600, seed=5)
    monkeypatch.setattr(held_out, "MOST_ROWS", 250)
    clf = MARKernelClassifier(**CHOOSING).fit(X, y)
    np.testing.assert_allclose(clf.held_out_proba_.sum(axis=1), 1.0)
    assert np.mean(clf.held_out_proba_.argmax(axis=1) == truth) > 0.85
    assert np.mean(clf.predict(X) == truth) > 0.85


def test_a_fold_may_be_a_list_of_rows_and_other_rows_are_predicted_by_the_fit(rings):
    X, y, _ = rings
    folds = held_out.whole_row_folds(y, 4)[:2]
    clf = MARKernelClassifier(**FIXED, n_landmarks=40, cv=folds).fit(X, y)
    rest = np.delete(np.arange(len(y)), np.concatenate(folds))
    np.testing.assert_allclose(clf.held_out_proba_[rest], clf.predict_proba(X)[rest], atol=1e-12)
    assert np.abs(clf.held_out_proba_ - clf.predict_proba(X))[folds[0]].max() > 1e-3


def test_other_estimators_choose_the_weight_too(rings):
    X, y, _ = rings
    estimator = MARGaussianMixture(covariance_type="full", n_components={"a": 2}, n_init=1)
    y = np.array(["a", "b", None], dtype=object)[y]
    auto = clone(estimator).set_params(mechanism_weight="auto", random_state=0).fit(X, y)
    assert auto.mechanism_weight_ in WEIGHTS
    fixed = clone(estimator).set_params(mechanism_weight=auto.mechanism_weight_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(auto.predict_proba(X), fixed.predict_proba(X))
    assert auto.converged_
    assert fixed.converged_
    assert clone(estimator).set_params(mechanism_weight="auto", link=None).fit(X, y).mechanism_weight_ == 0.0
    assert clone(estimator).fit(X, y).mechanism_weight_ == 1.0


# Difficult data


def test_one_label_of_each_class_is_enough():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, -1])
    clf = MARKernelClassifier().fit(X, y)
    assert clf.predict_proba([[0.0]])[0, 0] > 0.5 > clf.predict_proba([[1.0]])[0, 0]


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
@pytest.mark.parametrize("seed", range(3))
def test_rows_close_together_beside_an_outlier_are_no_problem(seed):
    """The rank of the landmarks' kernel matrix is then a matter of rounding: the fit has the features of its trials."""
    X, y, _ = circles(80, seed=seed)
    X[3] = 1e6, -1e6
    fit = MARKernelClassifier(C=1.0, gamma=X[:, 0].var(), mechanism_weight=0.0, cv=2).fit(X, y)
    np.testing.assert_allclose(fit.held_out_proba_.sum(axis=1), 1.0)


def test_separable_classes_have_finite_coefficients():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 20.0])
    y = np.where(rng.random(120) < 0.5, -1, np.repeat([0, 1], 60))
    clf = MARKernelClassifier(**FIXED, n_landmarks=40, cv=None).fit(X, y)
    assert np.isfinite(clf.dual_coef_).all()
    assert np.array_equal(clf.predict(X), np.repeat([0, 1], 60))


def test_every_label_may_be_there():
    X, _, truth = circles(150, seed=7)
    with pytest.warns(BoundaryWarning, match="fully supervised"):
        clf = MARKernelClassifier(**CHOOSING).fit(X, truth)
    assert clf.mechanism_weight_ == 0.0
    assert np.mean(clf.predict(X) == truth) > 0.85


def test_constant_columns_and_repeated_rows_are_no_problem(rings):
    X, y, _ = rings
    clf = MARKernelClassifier(**FIXED, n_landmarks=400, cv=None).fit(np.column_stack([X.round(), np.ones(len(X))]), y)
    assert len(clf.landmarks_) == len(np.unique(X.round(), axis=0))
    assert np.isfinite(clf.predict_proba(np.column_stack([X, X[:, 0]]))).all()


def test_a_weight_with_which_folds_do_not_settle_is_lowered_in_the_fit_too(rings, monkeypatch):
    X, y, _ = rings
    monkeypatch.setattr("marmix.estimators.kernel._MOST", 1)
    with pytest.warns(BoundaryWarning, match="do not settle in all folds: 0 is used"):
        clf = MARKernelClassifier(**FIXED, n_landmarks=30, cv=2).fit(X, y)
    without = MARKernelClassifier(**FIXED | {"mechanism_weight": 0.0}, n_landmarks=30, cv=2).fit(X, y)
    assert clf.mechanism_weight_ == 0.0
    np.testing.assert_allclose(clf.held_out_proba_, without.held_out_proba_)
    np.testing.assert_allclose(clf.predict_proba(X), without.predict_proba(X), atol=1e-6)


# What a fitted one can do


def test_a_warm_start_keeps_landmarks_and_choices(rings, chosen):
    X, y, _ = rings
    clf = copy(chosen)
    proba, landmarks, choices = clf.predict_proba(X), clf.landmarks_, (clf.C_, clf.gamma_, clf.mechanism_weight_)
    clf.set_params(warm_start=True, random_state=9).fit(X, y)
    assert np.array_equal(clf.landmarks_, landmarks)
    assert (clf.C_, clf.gamma_, clf.mechanism_weight_) == choices
    np.testing.assert_allclose(clf.predict_proba(X), proba, atol=1e-4)
    assert not hasattr(clf, "held_out_proba_")
    with pytest.raises(ValueError, match="must be those of the previous fit"):
        clf.set_params(gamma=9.0).fit(X, y)


def test_inference_is_about_the_mechanism_and_about_probabilities(fit, rings):
    X, y, _ = rings
    result = fit.inference(X, y)
    assert result.param_names == ["alpha_0", "alpha_1"]
    np.testing.assert_allclose(result.params, fit.alpha_)
    assert (np.asarray(result.bse) > 0).all()
    low, high = result.predict_proba_interval(X[:20])
    assert ((low < fit.predict_proba(X[:20])) & (fit.predict_proba(X[:20]) < high)).all()
    with pytest.raises(ValueError, match="needs a fit without penalty"):
        result.test_informative()
    assert result.bootstrap(3, random_state=0).params.shape == (2,)


# Where rows are


@pytest.mark.parametrize("place", ["file", "device", "cluster"])
def test_rows_elsewhere_give_the_same_fit_and_choices(place, tmp_path, monkeypatch, rings, chosen):
    monkeypatch.setattr(marmix.core.files, "LEFT_IN_FILE", -1)
    X, y, _ = rings
    if place == "file":
        np.save(tmp_path / "X.npy", X)
        there, labels = tmp_path / "X.npy", y
    elif place == "device":
        torch = pytest.importorskip("torch")
        pytest.importorskip("array_api_compat")
        there, labels = torch.asarray(X), torch.asarray(y)
    else:
        da = pytest.importorskip("dask.array")
        pytest.importorskip("distributed")
        there, labels = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    fit = MARKernelClassifier(**CHOOSING).fit(there, labels)
    assert (fit.C_, fit.mechanism_weight_) == (chosen.C_, chosen.mechanism_weight_)
    assert fit.gamma_ == pytest.approx(chosen.gamma_, rel=1e-12)
    np.testing.assert_allclose(np.asarray(fit.predict_proba(there)), chosen.predict_proba(X), atol=1e-6)
    if place == "file":
        with pytest.raises(AttributeError, match="not in memory"):
            fit.held_out_proba_  # noqa: B018
