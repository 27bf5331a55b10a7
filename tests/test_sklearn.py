"""The classifier as scikit-learn wants it, also where labels are missing."""

import inspect
import pickle
from unittest import SkipTest

import numpy as np
import pytest
import sklearn
from problems import PAPER
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from marmix import (
    MARBoostingClassifier,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)

# scikit-learn's checks

VARIANTS = [
    MARGaussianMixture(link=None),
    MARGaussianMixture(**PAPER),
    MARGaussianMixture(covariance_type="diag"),
    MARGaussianMixture(covariance_type="spherical"),
    MARGaussianMixture(solver="ecm"),
    MARLogisticRegression(link=None, degree=2),
    MARLogisticRegression(mechanism_weight="auto"),
    MARKernelClassifier(),
]
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


@pytest.mark.long
@parametrize_with_checks(VARIANTS, expected_failed_checks=must_fail, **STRICT)
def test_scikit_learn_finds_nothing_wrong_with_variants(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(
    [MARStudentMixture(), MARStudentMixture(covariance_type="full", dof="by_class")], expected_failed_checks=must_fail
)
def test_scikit_learn_finds_nothing_wrong_with_student_mixtures(estimator, check):
    check(estimator)


def test_tags_say_classifier_that_needs_labels_and_whole_features():
    tags = get_tags(MARGaussianMixture())
    assert is_classifier(MARGaussianMixture())
    assert tags.target_tags.required
    assert tags.classifier_tags.multi_class
    assert not tags.input_tags.allow_nan
    assert not tags.input_tags.sparse


# The same on partly labelled data


@pytest.fixture(scope="module")
def clf(two):
    return MARGaussianMixture(link="logit").fit(two.X, two.y)


def assert_same_fit(one, other, X):
    """To the last bit."""
    assert one.loglik_ == other.loglik_
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.missing_proba(X), other.missing_proba(X))


def test_a_clone_has_the_parameters_and_nothing_else(clf, two):
    copy = clone(clf)
    assert copy.get_params() == clf.get_params()
    assert not hasattr(copy, "means_")
    with pytest.raises(NotFittedError):
        copy.predict(two.X)
    assert_same_fit(copy.fit(two.X, two.y), clf, two.X)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_pickling_changes_no_answer(covariance_type, two):
    fitted = MARGaussianMixture(covariance_type=covariance_type, n_components={1: 2}, random_state=0).fit(two.X, two.y)
    assert_same_fit(pickle.loads(pickle.dumps(fitted)), fitted, two.X)


def test_fitting_again_forgets_the_first_fit(clf, two, three):
    again = MARGaussianMixture(link="logit").fit(three.X, three.y).fit(two.X, two.y)
    assert_same_fit(again, clf, two.X)


def test_fitting_leaves_data_and_parameters_alone(two):
    X, y, weight = two.X.copy(), two.y.copy(), np.ones(len(two.y))
    estimator = MARGaussianMixture(init={"alpha": [0.0, -1.0]}, n_components={0: 2}, random_state=0)
    before = {name: repr(value) for name, value in estimator.get_params().items()}
    estimator.fit(X, y, sample_weight=weight)
    assert {name: repr(value) for name, value in estimator.get_params().items()} == before
    np.testing.assert_array_equal(X, two.X)
    np.testing.assert_array_equal(y, two.y)
    np.testing.assert_array_equal(weight, 1.0)


def test_a_scaler_before_it_leaves_the_posteriors_alone(clf, two):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(two.X, columns=["length", "width"])
    pipeline = make_pipeline(StandardScaler(), MARGaussianMixture(link="logit")).set_output(transform="pandas")
    pipeline.fit(frame, two.y)
    assert pipeline[-1].feature_names_in_.tolist() == ["length", "width"]
    np.testing.assert_allclose(pipeline.predict_proba(frame), clf.predict_proba(two.X), rtol=1e-6)


FOLDS = StratifiedKFold(3)


def labelled_accuracies(data, estimator):
    scores = []
    for train, test in FOLDS.split(data.X, data.y):
        fitted = clone(estimator).fit(data.X[train], data.y[train])
        labelled = data.y[test] != -1
        scores.append(accuracy_score(data.y[test][labelled], fitted.predict(data.X[test])[labelled]))
    return scores


def test_cross_val_score_counts_labelled_rows_of_each_fold(clf, two):
    np.testing.assert_array_equal(cross_val_score(clf, two.X, two.y, cv=FOLDS), labelled_accuracies(two, clf))


def test_grid_search_picks_the_structure_that_scores_best_on_labelled_rows(clf, two):
    types = ["full", "tied", "spherical"]
    search = GridSearchCV(clf, {"covariance_type": types}, cv=FOLDS, error_score="raise").fit(two.X, two.y)
    means = [np.mean(labelled_accuracies(two, clone(clf).set_params(covariance_type=name))) for name in types]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means, rtol=1e-14)
    assert search.best_params_ == {"covariance_type": types[int(np.argmax(means))]}
    assert_same_fit(search.best_estimator_, clone(clf).set_params(**search.best_params_).fit(two.X, two.y), two.X)


def test_grid_search_over_the_uncertainty(clf, two):
    grid = {"measure": ["entropy", "margin"]}
    search = GridSearchCV(clf, grid, cv=FOLDS, error_score="raise").fit(two.X, two.y)
    for name, score in zip(grid["measure"], search.cv_results_["mean_test_score"], strict=True):
        assert score == np.mean(labelled_accuracies(two, clone(clf).set_params(measure=name)))


# Containers and types of X


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_are_known_by_name(library, clf, two):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"length": two.X[:, 0], "width": two.X[:, 1]})
    named = MARGaussianMixture(link="logit").fit(frame, two.y)
    assert named.feature_names_in_.tolist() == ["length", "width"]
    assert named.loglik_ == pytest.approx(clf.loglik_, rel=1e-12)
    np.testing.assert_allclose(named.predict_proba(frame), clf.predict_proba(two.X), rtol=1e-8)
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict(frame[["width", "length"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert named.predict(two.X).tolist() == clf.predict(two.X).tolist()


def test_single_precision_rows_give_nearly_the_same_answer(clf, two):
    single = MARGaussianMixture(link="logit").fit(two.X.astype(np.float32), two.y)
    assert single.loglik_ == pytest.approx(clf.loglik_, rel=1e-6)
    np.testing.assert_allclose(single.predict_proba(two.X.astype(np.float32)), clf.predict_proba(two.X), atol=1e-5)


def test_integer_features_are_numbers(two):
    counts = np.rint(10 * two.X).astype(int)
    assert_same_fit(
        MARGaussianMixture(link="logit").fit(counts, two.y),
        MARGaussianMixture(link="logit").fit(counts.astype(float), two.y),
        counts.astype(float),
    )


def test_a_read_only_memory_map_is_as_good_as_an_array(clf, two, tmp_path):
    np.save(tmp_path / "X.npy", two.X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert not mapped.flags.writeable
    other = MARGaussianMixture(link="logit").fit(mapped, two.y)
    assert_same_fit(other, clf, two.X)
    np.testing.assert_array_equal(other.predict_proba(mapped), clf.predict_proba(two.X))


def test_the_order_of_the_array_in_memory_does_not_matter(clf, two):
    by_columns = np.asfortranarray(two.X)
    other = MARGaussianMixture(link="logit").fit(by_columns, two.y)
    assert other.loglik_ == pytest.approx(clf.loglik_, rel=1e-12)
    np.testing.assert_allclose(other.predict_proba(by_columns), clf.predict_proba(two.X), rtol=1e-8)


def test_features_of_another_number_are_refused(clf, two):
    with pytest.raises(ValueError, match="3 features, but MARGaussianMixture is expecting 2"):
        clf.predict_proba(np.c_[two.X, two.X[:, 0]])


METHODS = [
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score",
    "missing_proba",
    "uncertainty",
]


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_an_unfitted_estimator_say_so(method, two):
    arguments = (two.X, two.y) if method == "score" else (two.X,)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(MARGaussianMixture(), method)(*arguments)


# A parameter and a method of one name


def test_uncertainty_is_a_parameter_to_scikit_learn_and_a_method_to_users(two):
    estimator = MARGaussianMixture(measure="entropy", link="logit")
    assert estimator.get_params()["measure"] == "entropy"
    estimator.set_params(measure="gini")
    assert estimator.get_params()["measure"] == "gini"
    assert clone(estimator).get_params()["measure"] == "gini"
    estimator.fit(two.X, two.y)
    tau = estimator.predict_proba(two.X)
    np.testing.assert_allclose(estimator.uncertainty(two.X), 1 - (tau**2).sum(axis=1), atol=1e-14)
    assert estimator.get_params()["measure"] == "gini"


def test_text_and_html_show_the_parameter_and_not_the_method(two):
    fitted = MARGaussianMixture(measure="gini", link="cloglog").fit(two.X, two.y)
    assert repr(fitted) == "MARGaussianMixture(link='cloglog', measure='gini')"
    assert repr(MARGaussianMixture(measure="entropy")) == "MARGaussianMixture()"
    html = fitted._repr_html_()
    assert "MARGaussianMixture" in html
    assert "measure=&#x27;gini&#x27;" in html
    assert "bound method" not in html


def test_nested_parameters_reach_the_uncertainty():
    pipeline = make_pipeline(StandardScaler(), MARGaussianMixture())
    pipeline.set_params(margaussianmixture__measure="log-entropy")
    assert pipeline.get_params()["margaussianmixture__measure"] == "log-entropy"


# Weights by metadata routing, and random numbers


def test_weights_are_routed_to_fit_where_it_asks_for_them(two):
    weight = np.random.default_rng(5).integers(1, 4, size=len(two.y)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = MARGaussianMixture(link="logit").set_fit_request(sample_weight=True)
        asking.set_score_request(sample_weight=False)
        estimators = cross_validate(
            asking, two.X, two.y, cv=FOLDS, params={"sample_weight": weight}, return_estimator=True
        )["estimator"]  # fmt: skip
    for (train, _), fitted in zip(FOLDS.split(two.X, two.y), estimators, strict=True):
        direct = MARGaussianMixture(link="logit").fit(two.X[train], two.y[train], sample_weight=weight[train])
        assert fitted.loglik_ == direct.loglik_
        assert fitted.loglik_ != MARGaussianMixture(link="logit").fit(two.X[train], two.y[train]).loglik_


def test_weights_reach_the_last_step_of_a_pipeline(two):
    weight = np.random.default_rng(5).integers(1, 4, size=len(two.y)).astype(float)
    pipeline = make_pipeline(StandardScaler(), MARGaussianMixture(link="logit"))
    pipeline.fit(two.X, two.y, margaussianmixture__sample_weight=weight)
    direct = MARGaussianMixture(link="logit").fit(StandardScaler().fit_transform(two.X), two.y, sample_weight=weight)
    assert pipeline[-1].loglik_ == direct.loglik_


@pytest.mark.parametrize("options", [{"init": "kmeans", "n_init": 3}, {"n_components": 2, "n_init": 3}])
def test_the_same_random_state_gives_the_same_fit(options, three):
    options = {"covariance_type": "tied", "link": "logit", **options}
    one = MARGaussianMixture(**options, random_state=7).fit(three.X, three.y)
    assert_same_fit(MARGaussianMixture(**options, random_state=7).fit(three.X, three.y), one, three.X)
    assert_same_fit(one.fit(three.X, three.y), clone(one).fit(three.X, three.y), three.X)
    state = MARGaussianMixture(**options, random_state=np.random.RandomState(7)).fit(three.X, three.y)
    assert_same_fit(state, one, three.X)


def test_a_default_fit_uses_no_random_numbers(two):
    state = np.random.RandomState(3)
    expected = np.random.RandomState(3).uniform()
    MARGaussianMixture(random_state=state).fit(two.X, two.y)
    assert state.uniform() == expected
