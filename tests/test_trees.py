"""Boosted trees as arrays: the same scores as the library that grew them, and the limits of what a file may hold."""

import numpy as np
import pytest

from marmix.core.trees import TreeScores, trees_of

lightgbm = pytest.importorskip("lightgbm")

PARAMS = {
    "verbosity": -1,
    "num_threads": 1,
    "min_data_in_leaf": 5,
    "min_data_per_group": 5,
    "cat_smooth": 1.0,
    "deterministic": True,
    "force_col_wise": True,
}


def rows(n, seed=0):
    """Rows with missing values in the second column and categories in the last."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 6, n)
    X[rng.uniform(size=n) < 0.2, 1] = np.nan
    X[rng.uniform(size=n) < 0.05, 3] = np.nan
    score = X[:, 0] * X[:, 2] + np.where(np.isnan(X[:, 1]), 1.0, X[:, 1]) + 2 * np.isin(X[:, 3], [1, 4])
    return X, score + rng.normal(size=n)


def grown(classes, leaves, rounds=30):
    X, score = rows(600)
    y = np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)
    objective = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    data = lightgbm.Dataset(X, y, categorical_feature=[3])
    return lightgbm.train(PARAMS | objective | {"num_leaves": leaves}, data, rounds)


BOOSTERS = {(classes, leaves): grown(classes, leaves) for classes in (2, 4) for leaves in (2, 4, 31)}


@pytest.mark.parametrize(("classes", "leaves"), BOOSTERS)
def test_scores_are_those_of_lightgbm_with_missing_values_and_categories(classes, leaves):
    booster = BOOSTERS[classes, leaves]
    trees = trees_of(booster.dump_model(), np.zeros(1 if classes == 2 else classes))
    X, _ = rows(400, seed=1)
    X[:20, 3] = 17.0  # a category that training did not have
    raw = booster.predict(X, raw_score=True)
    expected = np.vstack([np.zeros(len(X)), raw]) if classes == 2 else raw.T
    np.testing.assert_allclose(TreeScores(4, classes).scores(trees, X.T), expected, rtol=0, atol=1e-12)
    assert trees.categorical.any() or leaves == 2


def test_scores_start_at_the_baseline():
    booster = BOOSTERS[4, 4]
    X, _ = rows(50, seed=2)
    baseline = np.array([0.5, -1.0, 2.0, 0.0])
    trees = trees_of(booster.dump_model(), baseline)
    expected = baseline + booster.predict(X, raw_score=True)
    np.testing.assert_allclose(TreeScores(4, 4).scores(trees, X.T).T, expected, rtol=0, atol=1e-12)


def test_a_missing_value_where_training_had_none_goes_with_the_larger_child():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 1, size=(400, 1))  # three quarters are below zero
    y = (x[:, 0] > 0).astype(float)
    booster = lightgbm.train(PARAMS | {"objective": "binary", "num_leaves": 2}, lightgbm.Dataset(x, y), 5)
    trees = trees_of(booster.dump_model(), np.zeros(1))
    scores = TreeScores(1, 2).scores(trees, np.array([[np.nan, -1.0, 0.9]]))[1]
    assert scores[0] == scores[1] != scores[2]


def test_scores_on_torch_are_those_on_numpy():
    torch = pytest.importorskip("torch")
    trees = trees_of(BOOSTERS[4, 4].dump_model(), np.zeros(4))
    X, _ = rows(100, seed=4)
    model = TreeScores(4, 4)
    scores = model.scores(trees, torch.as_tensor(X.T))
    np.testing.assert_array_equal(scores.numpy(), model.scores(trees, X.T))
