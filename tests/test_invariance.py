"""What may be changed about the data without changing the answers: for every estimator and every default candidate.

Where something is not promised, its test says why: trees draw features by their place and count rows, a penalty has units.
"""

import inspect
import warnings
from functools import cache
from importlib.util import find_spec

import joblib
import numpy as np
import pandas as pd
import pytest
from conftest import _simulate
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone

import marmix
from marmix.engines import row_order
from marmix.estimators.companions import Forest, Spreading
from marmix.selection.candidates import default_candidates

N, CLASSES = 120, 3
X, Y, _ = _simulate(N, CLASSES, distance=3.0, seed=5)
PUBLIC = {
    name: thing
    for name, thing in vars(marmix).items()
    if name in marmix.__all__ and inspect.isclass(thing) and issubclass(thing, BaseEstimator)
    if not issubclass(thing, MetaEstimatorMixin)  # which promise what the estimator inside does
}
FEW = {"n_landmarks": 10, "cv": 2}
SETTINGS = {
    "MARGaussianMixture": {
        "tied": {"covariance_type": "tied"},
        "full": {"covariance_type": "full", "n_init": 2, "random_state": 0},
        "diag": {"covariance_type": "diag", "link": "aranda-ordaz"},
        "spherical": {"covariance_type": "spherical", "n_init": 1},
        "two components": {"covariance_type": "tied", "n_components": 2, "n_init": 1, "random_state": 0},
        "k-means": {"covariance_type": "tied", "init": "kmeans", "n_init": 1, "random_state": 0},
    },
    "MARStudentMixture": {"tied": {"covariance_type": "tied", "n_init": 1}},
    "MARLogisticRegression": {
        "linear": {},
        "quadratic": {"degree": 2},
        "ignoring": {"link": None},
    },
    "MARKernelClassifier": {
        "fixed": {"C": 1.0, "gamma": 0.3, "mechanism_weight": 0.3, "n_landmarks": 10, "cv": None},
        "chosen": {"C": 1.0, "mechanism_weight": 0.3, **FEW},
    },
    "MARBoostingClassifier": {
        "fixed": {"n_estimators": 4, "mechanism_weight": 0.1},
        "chosen": {"max_estimators": 6, "cv": 2, "colsample_bytree": 0.7},
    },
    "MARClassifierCV": {
        "two": {
            "estimators": {
                "logistic": marmix.MARLogisticRegression(n_init=1),
                "mixture": marmix.MARGaussianMixture(covariance_type="tied", n_init=1),
            },
            "cv": 2,
        },
        "of other libraries": {"estimators": {"forest": Forest(), "spread": Spreading()}, "cv": 2},
    },
}
CASES = {
    f"{name}, {which}": cls(**options)
    for name, cls in PUBLIC.items()
    for which, options in SETTINGS.get(name, {}).items()
}
for _name, _candidate in default_candidates(CLASSES, N, X.shape[1]).items():
    if isinstance(_candidate, Forest):  # its rows are put in order before, as in an average
        continue
    _fewer = {"max_estimators": 6, "cv": 2} if "max_estimators" in _candidate.get_params() else FEW
    CASES[f"candidate: {_name}"] = _candidate.set_params(
        **{key: value for key, value in _fewer.items() if key in _candidate.get_params()}
    )
if find_spec("lightgbm") is None:
    CASES = {name: case for name, case in CASES.items() if "oosting" not in name}


def fitted(estimator, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes are not the subject
        return clone(estimator).fit(*data)


@cache
def base(name, **options):
    """The fit to the data as they are."""
    return fitted(clone(CASES[name]).set_params(**options), X, Y)


def strict(estimator):
    """Options with which a solver goes on up to rounding, so that another path to the maximum ends at the same place."""
    return {"tol": 1e-13} if "tol" in estimator.get_params() else {}


def assert_same(fit, other, X_of_other=X, columns=slice(None), atol=1e-6):
    np.testing.assert_allclose(other.predict_proba(X_of_other)[:, columns], fit.predict_proba(X), rtol=0, atol=atol)
    if getattr(fit, "link", None) is not None:
        np.testing.assert_allclose(other.missing_proba(X_of_other), fit.missing_proba(X), rtol=0, atol=atol)


DRAWING = ("two components", "k-means", "of 2, tied, mechanism")  # rows at random
SMOOTH = ["MARGaussianMixture", "MARStudentMixture", "MARLogisticRegression"]


def cases(*kinds, all_of_them=False):
    """The cases of these estimators, by default of all; in the short run one for each, unless all of them are wanted."""
    names = [name for name in CASES if not kinds or type(CASES[name]).__name__ in kinds]
    first = {type(CASES[name]): name for name in reversed(names)}.values()
    marks = {name: [] if all_of_them or name in first else pytest.mark.long for name in names}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks[name]) for name in names])


def test_every_public_estimator_is_here():
    assert set(SETTINGS) == set(PUBLIC), "give settings to the new estimator, and see what of the below it promises"


@cases(all_of_them=True)
def test_the_order_of_the_rows(name):
    order = np.random.default_rng(1).permutation(N)
    fit, other = base(name), fitted(CASES[name], X[order], Y[order])
    assert_same(fit, other, atol=1e-9)
    np.testing.assert_array_equal(other.transduction_, fit.transduction_[order])
    if hasattr(fit, "held_out_proba_"):
        np.testing.assert_allclose(other.held_out_proba_, fit.held_out_proba_[order], rtol=0, atol=1e-9)


@cases()
def test_the_order_of_rows_with_weights_and_of_equal_rows(name):
    rng = np.random.default_rng(2)
    rows = rng.integers(N, size=N + 30)
    values, labels, weight = np.round(X[rows], 1), Y[rows], rng.integers(1, 4, size=len(rows)).astype(float)
    order = rng.permutation(len(rows))
    fit = fitted(CASES[name], values, labels, weight)
    assert_same(fit, fitted(CASES[name], values[order], labels[order], weight[order]), atol=1e-9)


@cases()
@pytest.mark.parametrize(
    "labels",
    [
        np.where(Y < 0, None, Y.astype(object)),
        np.where(Y < 0, np.nan, Y),
        pd.Series(Y, dtype="Int64").where(Y >= 0),
        np.where(Y < 0, None, np.array(["a", "b", "c"], dtype=object)[Y]),
    ],
    ids=["None", "NaN", "NA", "names"],
)
def test_the_coding_of_labels(name, labels):
    assert_same(base(name), fitted(CASES[name], X, labels), atol=0.0)


@cases(*SMOOTH, "MARKernelClassifier", "MARClassifierCV")
def test_the_order_of_the_classes(name):
    """Not of trees, whose random numbers are drawn class by class, nor of starts that are perturbed class by class."""
    single = {"n_init": 1} if "n_init" in CASES[name].get_params() else {}
    options = strict(CASES[name]) | single
    reverse = np.where(Y < 0, -1, CLASSES - 1 - Y)
    other = fitted(clone(CASES[name]).set_params(**options), X, reverse)
    assert_same(base(name, **options), other, columns=slice(None, None, -1))


@cases(*SMOOTH, "MARKernelClassifier")
def test_a_row_of_weight_two_is_the_row_twice(name):
    estimator = clone(CASES[name]).set_params(**strict(CASES[name]))
    if name.endswith(DRAWING) or estimator.get_params().get("cv"):
        pytest.skip("k-means and folds draw rows, whatever their weight")
    weight = np.random.default_rng(3).integers(1, 4, size=N)
    rows = np.repeat(np.arange(N), weight)
    assert_same(fitted(estimator, X, Y, weight.astype(float)), fitted(estimator, X[rows], Y[rows]))


@cases()
def test_a_row_of_weight_zero_is_no_row(name):
    if type(CASES[name]).__name__ == "MARClassifierCV":
        pytest.skip("rows of weight zero are in the folds, and are scored")
    weight = (np.random.default_rng(4).random(N) < 0.9).astype(float)
    kept = weight > 0
    weighted, without = fitted(CASES[name], X, Y, weight), fitted(CASES[name], X[kept], Y[kept], weight[kept])
    assert_same(weighted, without, atol=1e-9)


@cases("MARGaussianMixture", "MARStudentMixture")
def test_the_unit_of_the_weights(name):
    """A penalty has a unit of its own, and so do rounds of boosting; the data of a mixture only have shares."""
    estimator = clone(CASES[name]).set_params(**strict(CASES[name]), n_init=1)
    weight = np.random.default_rng(5).uniform(0.5, 2.0, size=N)
    assert_same(fitted(estimator, X, Y, weight), fitted(estimator, X, Y, 8.0 * weight))


@cases(*SMOOTH)
def test_the_order_of_the_columns(name):
    if name.endswith(DRAWING):
        pytest.skip("k-means draws from rows in the order of the first column")
    options = strict(CASES[name]) | {"n_init": 1}
    other = fitted(clone(CASES[name]).set_params(**options), X[:, ::-1], Y)
    assert_same(base(name, **options), other, X[:, ::-1])


@cases()
def test_the_origin_and_unit_of_the_features(name):
    """Any for models that scale the features; the origin alone for a logistic regression, whose penalty has units."""
    logistic = type(CASES[name]).__name__ == "MARLogisticRegression"
    moved = X + 3.0 if logistic else X * [8.0, 0.25] + 3.0
    if logistic and CASES[name].degree == 2:
        pytest.skip("the origin changes which coefficients are penalised")
    if name.endswith("spherical"):
        moved = 8.0 * X + 3.0  # one unit for all
    if "oosting" in name:
        moved = X * [8.0, 0.25]  # zero has a bin of its own
    options = strict(CASES[name])
    assert_same(base(name, **options), fitted(clone(CASES[name]).set_params(**options), moved, Y), moved)


@cases()
def test_the_number_of_threads(name, monkeypatch):
    monkeypatch.setattr(marmix.engines.host, "MANY_ROWS", 0)
    monkeypatch.setattr(marmix.engines.host, "block_rows", lambda width: 50)
    fits = []
    for threads in (1, 3):
        monkeypatch.setattr(marmix.engines.host, "available", lambda threads=threads: threads)
        estimator = clone(CASES[name])
        if "n_jobs" in estimator.get_params():
            estimator.set_params(n_jobs=threads)
        with joblib.parallel_config("threading"):
            fits.append(fitted(estimator, X, Y))
    assert_same(*fits, atol=0.0)


def test_rows_are_in_the_same_order_however_they_were_given():
    rng = np.random.default_rng(6)
    values = np.where(rng.random((200, 3)) < 0.2, np.nan, rng.integers(3, size=(200, 3)))  # many are equal
    z, weight = rng.integers(-1, 2, size=200), rng.integers(1, 3, size=200).astype(float)
    table = np.column_stack([values, z, weight])
    order = rng.permutation(200)
    sorted_rows = table[row_order(values, z, weight)]
    np.testing.assert_array_equal(table[order][row_order(values[order], z[order], weight[order])], sorted_rows)
    np.testing.assert_array_equal(sorted_rows, table[np.lexsort(table.T[::-1])])
