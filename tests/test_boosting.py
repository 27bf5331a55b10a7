"""Boosted trees: the objective that boosting libraries minimise, and the estimator that chooses its rounds and weight."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_files import edit, saved
from sklearn.base import clone
from sklearn.metrics import log_loss

import marmix
from marmix import BoundaryWarning, MARBoostingClassifier, Mechanism
from marmix.core.measures import MEASURES
from marmix.objectives import CURVATURE_FLOOR, LARGEST_SLOPE, MissingnessObjective
from marmix.persistence import ContainerError

lightgbm = pytest.importorskip("lightgbm")

PLAIN = {"extra_trees": False, "colsample_bynode": 1.0}  # no draws, whose order is that of the classes
FIXED = {"n_estimators": 25, "mechanism_weight": 0.1}


def curved(n=600, seed=0, d=3):
    """Two classes whose boundary is a circle; labels near it are mostly missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = 3.0 * (X[:, 0] ** 2 + X[:, 1] ** 2 - 1.5)
    truth = (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)
    missing = rng.uniform(size=n) < 0.95 * np.exp(-((score / 3.0) ** 2))
    return X, np.where(missing, -1, truth), truth


CURVED = curved()


@pytest.fixture(scope="module")
def clf():
    return MARBoostingClassifier(**FIXED).fit(*CURVED[:2])


# The objective


def random_rows(classes, n=24, seed=0):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(-1, classes, n - classes)])
    y[-2:] = -1
    scores = rng.normal(size=(n, classes)) * 2.0
    return y, scores[:, 1] - scores[:, 0] if classes == 2 else scores


def fixed_mechanism(uncertainty, shape, covariates=0):
    grows = MEASURES[uncertainty].grows
    slope = {"clear": -1.5, "unclear": 1.5}.get(grows, 0.7)
    return Mechanism(uncertainty, (0.3, slope, *[0.4] * covariates), shape)


def objective_of(y, mechanism, weight, **options):
    """The objective with this mechanism, as if it had been estimated."""
    objective = MissingnessObjective(y, mechanism, weight, **options)
    objective.mechanism = mechanism
    return objective


SETTINGS = [
    ("entropy", 1.0),
    ("entropy", 0.4),
    ("gini", 1.0),
    ("log-entropy", 0.0),
    ("margin", 1.0),
    ("discriminant", 2.0),
]


@pytest.mark.parametrize(("uncertainty", "shape"), SETTINGS)
@pytest.mark.parametrize("classes", [2, 3, 5])
@given(seed=st.integers(0, 2**16))
def test_the_gradient_is_that_of_the_loss(classes, uncertainty, shape, seed):
    y, scores = random_rows(classes, seed=seed)
    rng = np.random.default_rng(seed)
    options = {"sample_weight": rng.uniform(0.5, 2.0, len(y)), "covariates": rng.normal(size=(len(y), 1))}
    options["missing"] = (y < 0) | (rng.random(len(y)) < 0.3)  # some labels were asked for
    objective = objective_of(y, fixed_mechanism(uncertainty, shape, 1), 0.7, **options)

    def loss(at):
        sums = objective.losses(at)
        return sums.labels + 0.7 * sums.missing

    gradient, _ = objective.terms(scores)
    direction, step = rng.normal(size=scores.shape), 1e-5
    slope = (loss(scores + step * direction) - loss(scores - step * direction)) / (2 * step)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("uncertainty", "shape"), SETTINGS)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_curvature_is_that_of_lightgbm_plus_the_expected_one_of_the_mechanism_and_a_floor(
    classes, uncertainty, shape
):
    y, scores = random_rows(classes)
    mechanism = fixed_mechanism(uncertainty, shape)
    _, curvature = objective_of(y, mechanism, 0.7).terms(scores)
    by_class = np.column_stack([np.zeros(len(y)), scores]) if classes == 2 else scores
    tau = np.exp(by_class - np.logaddexp.reduce(by_class, axis=1, keepdims=True))
    labels = (y >= 0)[:, None] * tau * (1 - tau) * (1.0 if classes == 2 else classes / (classes - 1))
    diagonal = np.einsum("nkk->nk", mechanism.terms(by_class, y < 0).curvature)
    expected = labels + 0.7 * (diagonal + CURVATURE_FLOOR)
    np.testing.assert_allclose(curvature, expected[:, 1] if classes == 2 else expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_multiply(classes):
    y, scores = random_rows(classes)
    mechanism = fixed_mechanism("entropy", 1.0)
    gradient, curvature = objective_of(y, mechanism, 0.5).terms(scores)
    weight = np.random.default_rng(1).uniform(0.0, 3.0, len(y))
    weighted = objective_of(y, mechanism, 0.5, sample_weight=weight).terms(scores)
    factor = weight if classes == 2 else weight[:, None]
    np.testing.assert_allclose(weighted[0], factor * gradient, rtol=1e-12)
    np.testing.assert_allclose(weighted[1], factor * curvature, rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_takes_the_objective(classes, two, three):
    xgboost = pytest.importorskip("xgboost")
    data = two if classes == 2 else three
    objective = MissingnessObjective(data.y, mechanism_weight=0.03)
    rows = xgboost.DMatrix(data.X, base_margin=objective.init_score)
    params = {"max_delta_step": 1.0, "max_depth": 2, "min_child_weight": 1e-3, "base_score": 0.0, "nthread": 1}
    several = {} if classes == 2 else {"num_class": classes}
    booster = xgboost.train(params | several, rows, 20, obj=objective.xgboost)
    scores = booster.predict(rows, output_margin=True)
    assert objective.rounds == 20
    best = scores > 0 if classes == 2 else scores.argmax(axis=1)
    assert np.mean(best == data.truth) > 0.75
    start = objective.losses(objective.init_score)
    end = objective.losses(scores)
    assert end.labels < start.labels


def test_the_slope_stays_within_bounds_and_never_prefers_labels_of_unclear_rows():
    scores = np.linspace(-6, 6, 400)
    clear = np.abs(scores) > 3.0
    y = np.where(clear, (scores > 0).astype(int), -1)
    y[[150, 250]] = 0, 1
    objective = MissingnessObjective(y)
    assert objective.profile(scores).alpha[1] == LARGEST_SLOPE
    opposite = np.where(clear, -1, (scores > 0).astype(int))
    assert MissingnessObjective(opposite).profile(scores).alpha[1] == 0.0
    rate = MissingnessObjective(opposite).profile(scores).missing_proba(np.zeros((1, 2)))[0]
    assert rate == pytest.approx(np.mean(clear), rel=1e-6)


# The estimator


@pytest.mark.parametrize("classes", [2, 3])
def test_weight_zero_is_lightgbm_on_the_labelled_rows(classes, two, three):
    data = two if classes == 2 else three
    fit = MARBoostingClassifier(mechanism_weight=0.0, n_estimators=40, **PLAIN).fit(data.X, data.y)
    X, y = data.X[~data.missing], data.y[~data.missing]
    params = {"learning_rate": 0.2, "num_leaves": 4, "min_data_in_leaf": 5, "lambda_l2": 1.0, "min_data_in_bin": 1}
    same = {
        "verbosity": -1,
        "num_threads": 1,
        "deterministic": True,
        "force_col_wise": True,
        "feature_pre_filter": False,
    }
    name = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    own = lightgbm.train(params | same | name, lightgbm.Dataset(X, y), 40).predict(data.X)
    np.testing.assert_allclose(
        fit.predict_proba(data.X)[:, 1] if classes == 2 else fit.predict_proba(data.X), own, atol=1e-7
    )
    assert fit.mechanism_weight_ == 0.0
    assert fit.n_estimators_ == 40


def test_unlabelled_rows_help_where_difficulty_explains_the_missing_labels():
    X_new, _, y_new = curved(4000, seed=2)
    X, y, _ = curved(400, seed=1)
    with_it, without = (
        log_loss(y_new, MARBoostingClassifier(mechanism_weight=weight, cv=3).fit(X, y).predict_proba(X_new))
        for weight in ("auto", 0.0)
    )
    assert with_it < without - 0.01


def test_choice_of_rounds_and_weight_leaves_its_evidence():
    X, y, _ = CURVED
    fit = MARBoostingClassifier(max_estimators=60, random_state=1).fit(X, y)
    assert fit.mechanism_weight_ in (0.0, 0.03, 0.1, 0.3)
    assert 5 <= fit.n_estimators_ <= 75
    np.testing.assert_allclose(fit.held_out_proba_.sum(axis=1), 1.0, rtol=1e-12)
    labelled = y >= 0
    held = log_loss(y[labelled], fit.held_out_proba_[labelled])
    assert held < np.log(2)
    assert np.abs(fit.held_out_proba_ - fit.predict_proba(X)).max() > 0.01


def test_held_out_probabilities_do_not_see_the_labels_of_their_fold():
    X, y, _ = CURVED
    folds = [np.arange(k, len(y), 3) for k in range(3)]
    fit = MARBoostingClassifier(**FIXED, cv=folds)
    before = fit.fit(X, y).held_out_proba_
    changed = y.copy()
    changed[folds[0]] = np.where(y[folds[0]] >= 0, 1 - y[folds[0]], 0)
    after = fit.fit(X, changed).held_out_proba_
    np.testing.assert_array_equal(before[folds[0]], after[folds[0]])
    assert (before[folds[1]] != after[folds[1]]).any()


def test_folds_may_be_listed_or_come_from_a_splitter_and_may_leave_rows_out():
    from sklearn.model_selection import KFold

    X, y, _ = CURVED
    splitter = KFold(3)
    listed = [test for _, test in splitter.split(X)]
    fits = [MARBoostingClassifier(**FIXED, cv=cv).fit(X, y).held_out_proba_ for cv in (splitter, listed)]
    np.testing.assert_array_equal(*fits)
    some = MARBoostingClassifier(**FIXED, cv=listed[:1]).fit(X, y).held_out_proba_
    assert np.isfinite(some[listed[0]]).all()
    assert np.isnan(some[listed[1]]).all()
    with pytest.raises(ValueError, match="no labelled row"):
        MARBoostingClassifier(**FIXED, cv=[np.arange(len(y))]).fit(X, y)
    fixed = MARBoostingClassifier(**FIXED).fit(X, y)
    with pytest.raises(AttributeError, match="not computed"):
        _ = fixed.held_out_proba_


def test_relabelling_permutes_the_answer(three):
    fit = MARBoostingClassifier(**FIXED, **PLAIN).fit(three.X, three.y)
    names = np.array(["c", "b", "a"])
    y = np.where(three.missing, None, names[three.y])
    renamed = MARBoostingClassifier(**FIXED, **PLAIN).fit(three.X, y)
    assert renamed.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(renamed.predict_proba(three.X)[:, ::-1], fit.predict_proba(three.X), rtol=1e-6)
    np.testing.assert_allclose(renamed.alpha_, fit.alpha_, rtol=1e-6)


def test_an_increasing_transformation_of_a_feature_leaves_the_fit_alone(clf):
    X, y, _ = CURVED
    other = X.copy()
    other[:, 0] = np.sinh(other[:, 0])  # LightGBM has a bin for zero, so the sign must stay
    again = MARBoostingClassifier(**FIXED).fit(other, y)
    np.testing.assert_allclose(again.predict_proba(other), clf.predict_proba(X), rtol=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_weights_scale_the_penalty(weight):
    X, y, _ = CURVED
    settings = {"n_estimators": 20, "mechanism_weight": weight}
    double = MARBoostingClassifier(**settings, reg_lambda=2.0).fit(X, y, sample_weight=np.full(len(y), 2.0))
    once = MARBoostingClassifier(**settings, reg_lambda=1.0).fit(X, y)
    np.testing.assert_allclose(double.predict_proba(X), once.predict_proba(X), rtol=1e-5)
    assert double.loglik_ == pytest.approx(2.0 * once.loglik_, rel=1e-5)


def test_missing_values_and_categories_carry_information():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 600
    gap, letter = rng.uniform(size=n) < 0.4, rng.choice(list("abcdef"), n)
    truth = ((gap ^ np.isin(letter, ["b", "e"])) ^ (rng.uniform(size=n) < 0.05)).astype(int)
    y = np.where(rng.uniform(size=n) < 0.3, -1, truth)
    frame = pandas.DataFrame({"x": np.where(gap, np.nan, rng.normal(size=n)), "letter": pandas.Categorical(letter)})
    fit = MARBoostingClassifier(n_estimators=60, mechanism_weight=0.03).fit(frame, y)
    assert fit.score(frame, truth) > 0.9
    assert fit.feature_names_in_.tolist() == ["x", "letter"]
    codes = np.column_stack([frame["x"], frame["letter"].cat.codes])
    by_index = MARBoostingClassifier(n_estimators=60, mechanism_weight=0.03, categorical_features=[1]).fit(codes, y)
    np.testing.assert_array_equal(by_index.predict_proba(codes), fit.predict_proba(frame))
    text = frame.assign(letter=frame["letter"].astype(object))
    np.testing.assert_array_equal(fit.predict_proba(text), fit.predict_proba(frame))
    unseen = frame.assign(letter=pandas.Categorical(["z"] * n))
    nothing = frame.assign(letter=pandas.Categorical([None] * n, categories=["a"]))
    np.testing.assert_array_equal(fit.predict_proba(unseen), fit.predict_proba(nothing))
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(
        {"x": frame["x"].to_numpy(), "letter": polars.Series(letter.tolist(), dtype=polars.Categorical)}
    )
    np.testing.assert_array_equal(clone(fit).fit(table, y).predict_proba(table), fit.predict_proba(frame))


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 0, 1, 1]])
def test_very_few_labels(labels):
    X, _, _ = curved(60)
    y = np.full(60, -1)
    y[: len(labels)] = labels
    fit = MARBoostingClassifier(cv=2).fit(X, y)
    proba = fit.predict_proba(X)
    assert ((proba > 0) & (proba < 1)).all()
    single = min(labels.count(0), labels.count(1)) < 2
    assert any("single labelled row" in note for note in fit.notes_) == single
    assert fit.held_out_proba_.shape == (60, 2)


@pytest.mark.parametrize("settings", [{"mechanism_weight": 0.0}, {"link": None}, {"cv": 2}])
def test_folds_that_hold_out_all_labels(settings):
    X, _, _ = curved(30)
    y = np.full(30, -1)
    y[:4] = 0, 1, 0, 1
    fit = MARBoostingClassifier(**settings).fit(X, y)
    assert np.isfinite(fit.predict_proba(X)).all()
    assert np.isfinite(fit.held_out_proba_[:10]).all()


def test_separable_classes_and_all_labels():
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 20.0 * truth[:, None]
    y = np.where(np.arange(90) % 4 == 3, -1, truth)
    fit = MARBoostingClassifier(max_estimators=50).fit(X, y)
    assert fit.score(X, truth) == 1.0
    np.testing.assert_array_equal(fit.transduction_, truth)
    with pytest.warns(BoundaryWarning, match="Every row has a label"):
        full = MARBoostingClassifier(n_estimators=20).fit(X, truth)
    np.testing.assert_array_equal(full.missing_proba(X), 0.0)


def test_constant_features_give_the_class_shares():
    y = np.array([0] * 30 + [1] * 10 + [-1] * 20)
    for weight in (0.0, 0.1, "auto"):
        fit = MARBoostingClassifier(mechanism_weight=weight).fit(np.zeros((60, 2)), y)
        np.testing.assert_allclose(fit.predict_proba(np.zeros((1, 2))), [[0.75, 0.25]], rtol=1e-12)
        np.testing.assert_allclose(fit.missing_proba(np.zeros((1, 2))), 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("uncertainty", ["gini", "margin", "log-entropy", "discriminant", "signed-margin"])
def test_every_measure_and_link_can_be_fitted(uncertainty):
    X, y, _ = CURVED
    options = {"link": "aranda-ordaz", "mcar_share": True, "mechanism_features": [2]}
    fit = MARBoostingClassifier(n_estimators=15, mechanism_weight=0.1, measure=uncertainty, **options).fit(X, y)
    q = fit.missing_proba(X)
    assert ((q >= 0) & (q <= 1)).all()
    assert fit.alpha_.shape == (3,)
    assert uncertainty == "signed-margin" or np.corrcoef(q, y < 0)[0, 1] > 0.1  # labels are missing on both sides


def test_rows_in_a_file_are_fitted_as_in_memory(clf, tmp_path, monkeypatch):
    X, y, _ = CURVED
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr("marmix.core.files.LEFT_IN_FILE", 0)
    for weight in (0.1, 0.0):
        settings = {"n_estimators": 25, "mechanism_weight": weight}
        fit = MARBoostingClassifier(**settings).fit(tmp_path / "X.npy", y)
        expected = MARBoostingClassifier(**settings).fit(X, y).predict_proba(X)
        np.testing.assert_array_equal(fit.predict_proba(tmp_path / "X.npy"), expected)


def test_rows_elsewhere_are_predicted_there_and_refused_by_fit(clf):
    torch = pytest.importorskip("torch")
    X, y, _ = CURVED
    on_torch = torch.as_tensor(np.where(X > 1.0, np.nan, X))
    expected = clf.predict_proba(on_torch.numpy())
    np.testing.assert_allclose(clf.predict_proba(on_torch).numpy(), expected, rtol=1e-12)
    with pytest.raises(TypeError, match="NumPy array"):
        clone(clf).fit(on_torch, y)
    dask = pytest.importorskip("dask.array")
    chunks = dask.from_array(X, chunks=(200, 3))
    np.testing.assert_array_equal(clf.predict_proba(chunks).compute(), clf.predict_proba(X))
    with pytest.raises(TypeError, match="on a cluster"):
        clone(clf).fit(chunks, y)


# Saved models


@pytest.fixture(scope="module")
def tabular():
    """A fit of three classes with categories, missing values and mechanism features."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    letter = rng.choice(list("abcd"), 200)
    frame = pandas.DataFrame({"u": rng.normal(size=200), "v": rng.normal(size=200), "w": pandas.Categorical(letter)})
    frame.loc[::9, "u"] = np.nan
    y = np.where(rng.uniform(size=200) < 0.3, -1, np.isin(letter, ["a", "c"]) + (frame["v"] > 0.5).to_numpy())
    return MARBoostingClassifier(**FIXED, mechanism_features=["v"]).fit(frame, y), frame


def test_a_saved_model_predicts_the_same_without_lightgbm(tabular, tmp_path, monkeypatch):
    fit, frame = tabular
    path = saved(fit, tmp_path)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    loaded = marmix.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(frame), fit.predict_proba(frame))
    np.testing.assert_array_equal(loaded.missing_proba(frame), fit.missing_proba(frame))
    np.testing.assert_array_equal(loaded.feature_importances_, fit.feature_importances_)
    assert loaded.summary().as_text() == fit.summary().as_text()
    assert loaded.get_params() == fit.get_params()
    assert saved(loaded, tmp_path).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        *(("left", 0, 0), ("right", -1, 0), ("left", 0, 10**6), ("left", -1, -(10**6))),  # cycles, and no such child
        *(("feature", 0, 3), ("value", 0, np.nan), ("roots", -1, 10**6)),
    ],
)
def test_trees_that_cannot_be_evaluated_are_refused(name, place, value, tabular, tmp_path):
    fit, _ = tabular
    path, values = saved(fit, tmp_path), getattr(fit.model_.theta, name).copy()
    values[place] = value
    for wrong in (values, values[:, None]):
        edit(path, "model", "fitted", "theta", name, wrong)
        with pytest.raises(ContainerError):
            marmix.load(path)
