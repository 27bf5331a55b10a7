"""The estimators as scikit-learn wants them, also where labels are missing."""

import inspect
import pickle
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.tables import Preparation

# scikit-learn's checks

STRICT = {"xfail_strict": True} if "xfail_strict" in inspect.signature(parametrize_with_checks).parameters else {}


def must_fail(estimator):
    checks = {"check_classifiers_classes": "-1 marks a missing label, and the check uses it as a class"}
    if isinstance(estimator, MARBoostingClassifier):
        checks["check_sample_weight_equivalence_on_dense_data"] = "folds and leaves are of rows, whatever their weight"
    if isinstance(estimator, MARStudentMixture):
        checks["check_sample_weight_equivalence_on_dense_data"] = "15 rows, and no closed form: seven digits may differ"
    return checks


@parametrize_with_checks(
    [
        MARGaussianMixture(),
        MARLogisticRegression(),
        MARKernelClassifier(C=10.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=30, cv=None),
        MARBoostingClassifier(max_estimators=20),
    ],
    expected_failed_checks=must_fail,
    **STRICT,
)
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    try:
        check(estimator)
    except SkipTest as reason:
        if "SCIPY_ARRAY_API" in str(reason):
            pytest.fail("conftest.py should have set SCIPY_ARRAY_API")
        raise


# The same on partly labelled data

ESTIMATORS = [
    MARGaussianMixture(n_components={1: 2}, random_state=0),
    MARStudentMixture(),
    MARLogisticRegression(),
    MARKernelClassifier(C=10.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=30, cv=None),
    MARBoostingClassifier(n_estimators=10, mechanism_weight=0.1),
    MARClassifierCV(estimators={"a": MARLogisticRegression(), "b": MARLogisticRegression(link=None)}, cv=2),
]
OF_ALL = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)


def assert_same_fit(one, other, X):
    """To the last bit."""
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.missing_proba(X), other.missing_proba(X))


@OF_ALL
def test_a_fit_depends_on_parameters_and_data_alone_and_changes_neither(estimator, two, three):
    X, y, weight = two.X.copy(), two.y.copy(), 1.0 + np.arange(len(two.y)) % 2
    fit = clone(estimator).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(X, two.X)
    np.testing.assert_array_equal(y, two.y)
    np.testing.assert_array_equal(weight, 1.0 + np.arange(len(two.y)) % 2)
    assert repr(fit.get_params()) == repr(estimator.get_params())
    assert_same_fit(clone(estimator).fit(three.X, three.y).fit(X, y, sample_weight=weight), fit, X)
    assert_same_fit(clone(fit).fit(X, y, sample_weight=weight), fit, X)
    assert_same_fit(pickle.loads(pickle.dumps(fit)), fit, X)


@pytest.fixture(scope="module")
def clf(two):
    return MARGaussianMixture().fit(two.X, two.y)


# Containers and types of X


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_are_known_by_name(library, clf, two):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"length": two.X[:, 0], "width": two.X[:, 1]})
    named = MARGaussianMixture().fit(frame, two.y)
    np.testing.assert_allclose(named.predict_proba(frame), clf.predict_proba(two.X), rtol=1e-8)
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict(frame[["width", "length"]])
    pipeline = make_pipeline(StandardScaler(), MARGaussianMixture()).set_output(transform=library).fit(frame, two.y)
    assert pipeline[-1].feature_names_in_.tolist() == ["length", "width"]
    np.testing.assert_allclose(pipeline.predict_proba(frame), clf.predict_proba(two.X), rtol=1e-6)


@pytest.mark.parametrize("given", ["pandas", "polars", "pyarrow"])
def test_prepared_columns_come_out_as_the_frames_asked_for(given):
    columns = {"length": [1.0, None, 3.0, 4.0], "kind": ["ash", "elm", "ash", "elm"]}
    library = pytest.importorskip(given)
    table = library.table(columns) if given == "pyarrow" else library.DataFrame(columns)
    expected = Preparation().fit_transform(table)
    for name in ("pandas", "polars"):
        pytest.importorskip(name)
        prepared = Preparation().set_output(transform=name).fit(table)
        out = prepared.transform(table)
        assert type(out).__module__.startswith(name)
        assert list(out.columns) == prepared.get_feature_names_out().tolist()
        np.testing.assert_array_equal(out.to_numpy(), expected)


def mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.mark.parametrize(
    ("way", "atol"),
    [
        (mapped, 0.0),
        (lambda X, folder: X.astype(int), 0.0),
        (lambda X, folder: np.asfortranarray(X), 1e-9),
        (lambda X, folder: X.astype(np.float32), 1e-5),
    ],
    ids=["in a file", "integers", "by columns", "in single precision"],
)
def test_how_the_rows_are_stored_does_not_matter(way, atol, two, tmp_path):
    rows = np.rint(10 * two.X)
    stored = way(rows, tmp_path)
    answers = [MARGaussianMixture().fit(X, two.y).predict_proba(X) for X in (stored, rows)]
    np.testing.assert_allclose(*answers, rtol=0.0, atol=atol)


def test_a_default_fit_uses_no_random_numbers(two):
    state = np.random.RandomState(3)
    expected = np.random.RandomState(3).uniform()
    MARGaussianMixture(random_state=state).fit(two.X, two.y)
    assert state.uniform() == expected
