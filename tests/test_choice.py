"""The choice among candidates."""

from dataclasses import replace

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    evaluation,
)
from marmix.engines import row_order
from marmix.persistence import load, save
from marmix.selection.candidates import default_candidates, default_rivals, fit_one, settled
from marmix.selection.comparison import Gain, digest_of
from marmix.selection.held_out import whole_row_folds

pytestmark = pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
SMALL = {
    "on": MARLogisticRegression(link="logit"),
    "off": MARLogisticRegression(link=None),
    "tied": MARGaussianMixture(covariance_type="tied", link="logit"),
}


@parametrize_with_checks(
    [MARClassifierCV(estimators={"on": MARLogisticRegression(link="logit", n_init=1), "off": SMALL["off"]}, cv=2)],
    expected_failed_checks=lambda _: {
        "check_classifiers_classes": "-1 marks a missing label, and the check uses it as a class"
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Every row has a label")
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)


def partly_labelled(n=300, seed=0, gap=1.0):
    """Two Gaussians; the closer to the boundary, the likelier the label is missing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2))
    X[:, 0] += gap * (2 * y - 1)
    lost = rng.uniform(size=n) < 1 / (1 + np.exp(-3 + 5 * np.tanh(gap * X[:, 0]) ** 2))
    return X, y, np.where(lost, -1, y)


@pytest.fixture(scope="module")
def average():
    X, _, y = partly_labelled()
    return MARClassifierCV(estimators=SMALL, cv=3).fit(X, y)


def test_the_average_is_the_weighted_mean_of_its_parts(average):
    X, _, y = partly_labelled()
    clf = average
    assert sum(clf.weights_.values()) == pytest.approx(1.0)
    by_hand = sum(clf.weights_[name] * clf.estimators_[name].predict_proba(X) for name in SMALL)
    np.testing.assert_allclose(clf.predict_proba(X), by_hand, rtol=1e-12)
    np.testing.assert_array_equal(clf.predict(X), by_hand.argmax(axis=1))
    np.testing.assert_array_equal(clf.transduction_[y >= 0], y[y >= 0])
    np.testing.assert_array_equal(clf.transduction_[y < 0], clf.predict(X)[y < 0])


def test_the_table_has_a_row_for_every_candidate(average):
    clf = average
    scores = {"log_loss", "log_loss_stderr", "plain_log_loss", "missing_log_loss", "brier", "accuracy", "roc_auc"}
    assert set(clf.results_) == scores | {"candidate", "rival", "mechanism", "weight", "seconds"}
    assert all(len(column) == 3 for column in clf.results_.values())
    assert clf.results_["mechanism"].tolist() == [True, False, True]
    assert clf.score_.value <= clf.weights_["on"] * clf.results_["log_loss"][0] + sum(
        clf.weights_[name] * loss
        for name, loss in zip(clf.results_["candidate"][1:], clf.results_["log_loss"][1:], strict=True)
    )  # the logarithm is concave: an average loses less than its parts on average
    assert (clf.results_["seconds"] > 0).all()


def test_a_hopeless_candidate_gets_almost_no_weight():
    X, _, y = partly_labelled(n=600)
    rng = np.random.default_rng(0)

    class Hopeless(MARLogisticRegression):
        def fit(self, X, y, sample_weight=None):
            return super().fit(rng.normal(size=X.shape), y, sample_weight)

    candidates = SMALL | {"hopeless": Hopeless(link=None, C=100.0)}
    clf = MARClassifierCV(estimators=candidates, cv=2).fit(X, y)
    assert clf.weights_["hopeless"] < 0.05


def test_the_comparison_says_that_it_helps_where_it_does_and_not_where_it_does_not():
    X, _, y = partly_labelled(n=2000, gap=1.5)
    helped = MARClassifierCV(
        estimators={
            "on": MARGaussianMixture(covariance_type="tied", link="logit"),
            "off": MARLogisticRegression(C=1e-4, link=None),
        }
    ).fit(X, y)
    assert helped.comparison_.sentence().startswith("Modelling the missingness lowered the estimated log-loss from")
    rng = np.random.default_rng(0)
    y_true = (rng.uniform(size=500) < 1 / (1 + np.exp(-3 * X[:500, 0]))).astype(int)
    at_random = np.where(rng.uniform(size=500) < 0.5, -1, y_true)
    not_helped = MARClassifierCV(estimators={"on": SMALL["on"], "off": SMALL["off"]}).fit(X[:500], at_random)
    assert not_helped.comparison_.sentence().startswith("No evidence that modelling the missingness helps here")
    only = MARClassifierCV(estimators={"off": SMALL["off"]}).fit(X, y)
    assert only.comparison_ is None
    assert not hasattr(only, "missing_proba")
    assert helped.missing_proba(X).shape == y.shape


def test_jobs_do_not_change_the_answer(average):
    X, _, y = partly_labelled()
    with parallel_config(backend="threading"):
        two = MARClassifierCV(estimators=SMALL, cv=3, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(average.predict_proba(X), two.predict_proba(X))


def test_a_candidate_that_fails_is_left_out_and_named():
    X, _, y = partly_labelled()
    candidates = SMALL | {"broken": MARGaussianMixture(n_components={"nobody": 2})}
    with pytest.warns(UserWarning, match="Left out 'broken'"):
        clf = MARClassifierCV(estimators=candidates, cv=3).fit(X, y)
    assert "broken" not in clf.weights_
    assert any("broken" in note for note in clf.notes_)
    with pytest.raises(ValueError, match="no candidate could be fitted"):
        MARClassifierCV(estimators={"broken": candidates["broken"]}).fit(X, y)


def test_a_single_labelled_row_of_a_class_leaves_nothing_to_compare():
    X, y_true, _ = partly_labelled()
    y = np.full(len(X), -1)
    y[np.flatnonzero(y_true == 0)[:10]] = 0
    y[np.flatnonzero(y_true == 1)[0]] = 1
    with pytest.warns(UserWarning, match="single labelled row"):
        clf = MARClassifierCV(estimators=SMALL).fit(X, y)
    assert clf.score_ is None
    assert set(clf.weights_.values()) == {1 / 3}
    assert clf.verdict_.state == "do not use"
    assert clf.verdict_.wrong.value is None


def test_the_default_grid_grows_with_the_rows():
    few, many = default_candidates(2, 25, 5), default_candidates(2, 5000, 5)
    assert set(few) < set(many)
    assert any("full" in name for name in many)
    for kind in ("logistic", "mixture", "kernel"):
        assert all(kind in name for name in default_candidates(2, 5000, 5, kind=kind))
    assert not any("mixture" in name for name in default_candidates(2, 5000, 5, categories=True))


def test_labels_are_spread_where_rows_are_few_and_labels_are_not():
    def others(n_rows, n_labelled):
        return {"forest", "label spreading"} & set(default_candidates(2, n_rows, 5, n_labelled=n_labelled))

    assert others(1000, 300) == {"forest", "label spreading"}
    assert others(1000, 50) == others(1000, 1000) == {"forest"}
    assert others(20_000, 6000) == set()


def test_the_comparison_of_a_pick_compares_picks():
    X, _, y = partly_labelled(n=400)
    candidates = {"off": SMALL["off"], "poor": MARLogisticRegression(C=1e-3, link=None), "on": SMALL["on"]}
    clf = MARClassifierCV(estimators=candidates, method="pick").fit(X, y)
    losses = dict(zip(clf.results_["candidate"], clf.results_["log_loss"], strict=True))
    against = clf.results_["plain_log_loss"] + clf.results_["missing_log_loss"]
    assert clf.comparison_.with_it == pytest.approx(losses["on"])
    assert clf.comparison_.without == pytest.approx(losses["off" if against[0] < against[1] else "poor"])
    assert clf.weights_[clf.results_["candidate"][against.argmin()]] == 1.0


@pytest.mark.parametrize(("gain", "word"), [(0.1, "lowered"), (0.0, "No evidence"), (-0.1, "raised")])
def test_the_sentence_follows_the_interval_of_the_difference(gain, word):
    comparison = Gain(0.5, 0.5 + gain, gain, 0.04)
    low, high = comparison.interval
    assert (comparison.clear, comparison.clear_loss) == (low > 0.0, high < 0.0)
    assert word in comparison.sentence()
    assert all(f"{end:.4f}" in comparison.sentence() for end in (gain, low, high))


def test_data_frames_pipelines_and_named_columns_are_welcome():
    pandas = pytest.importorskip("pandas")
    X, _, y = partly_labelled()
    frame = pandas.DataFrame(X, columns=["a", "age"])
    candidates = {
        "pipeline": make_pipeline(StandardScaler(), SMALL["on"]),
        "named": MARLogisticRegression(link="logit", mechanism_features=["age"]),
        "off": SMALL["off"],
    }
    clf = MARClassifierCV(estimators=candidates, cv=3).fit(frame, y)
    assert clf.results_["mechanism"].tolist() == [True, True, False]
    assert clf.estimators_["named"][-1].alpha_.shape == (3,)
    np.testing.assert_array_equal(clf.predict(frame)[y < 0], clf.transduction_[y < 0])


def test_only_tested_rows_count_and_none_twice():
    X, _, y = partly_labelled(n=600)
    labelled = np.flatnonzero(y >= 0)
    half = [(np.setdiff1d(np.arange(len(y)), labelled[::2]), labelled[::2])]
    clf = MARClassifierCV(estimators=SMALL, cv=half).fit(X, y)
    assert clf.score_.n_labelled == len(labelled[::2])
    # a row is tested with half the probability with which it is labelled
    tested = np.where(np.isin(np.arange(len(y)), labelled[::2]), y, -1)
    share = len(labelled[::2]) / len(labelled)
    kwargs = {"classes": [0, 1], "posterior": clf.posterior_}
    score = evaluation.log_loss(tested, clf.held_out_proba_, 1 - (1 - clf.missing_proba_) * share, **kwargs)
    assert (clf.score_.value, clf.score_.stderr) == pytest.approx((score.value, score.stderr))
    with pytest.raises(ValueError, match="twice"):
        MARClassifierCV(estimators=SMALL, cv=half * 2).fit(X, y)


def test_of_many_rows_a_sample_is_compared_and_the_leading_candidates_are_fitted_to_all(monkeypatch):
    monkeypatch.setattr("marmix.selection.comparison.SAMPLE", 300)
    X, _, y = partly_labelled(n=600)
    clf = MARClassifierCV(estimators=SMALL).fit(X, y)
    tested = clf.tested_
    assert 290 <= tested.sum() <= 310
    assert (tested[y >= 0].mean(), tested[y < 0].mean()) == pytest.approx((0.5, 0.5), abs=0.02)
    for name, model in SMALL.items():
        X_, fitted = StandardScaler().fit_transform(X), clf.estimators_[name]
        np.testing.assert_allclose(fitted.predict_proba(X), clone(model).fit(X_, y).predict_proba(X_), atol=1e-6)
        of_sample = make_pipeline(StandardScaler(), clone(model)).fit(X[tested], y[tested])
        other = of_sample.predict_proba(X[~tested])
        np.testing.assert_allclose(clf.selection_.rows.probas[name][~tested], other, atol=1e-6)


def test_fold_fits_see_the_population_as_it_is():
    # labelled rows of the training part are weighted up, so the share of missing labels stays that of all rows
    X, _, y = partly_labelled(n=3000)
    test = np.flatnonzero(y >= 0)[::2]
    without_test = fit_one(make_pipeline(StandardScaler(), SMALL["tied"]), X, y, None, test)
    complete = fit_one(make_pipeline(StandardScaler(), SMALL["tied"]), X, y, None, None)
    fold, everyone = (fit.estimator[-1] for fit in (without_test, complete))
    np.testing.assert_allclose(fold.alpha_, everyone.alpha_, atol=0.5)
    np.testing.assert_allclose(fold.weights_, everyone.weights_, atol=0.03)
    assert fold.missing_proba(X).mean() == pytest.approx(everyone.missing_proba(X).mean(), abs=0.02)


def test_held_out_probabilities_give_the_score_of_the_choice(average):
    X, _, y = partly_labelled()
    clf = average
    for rows in (y == -1, y >= 0):  # labelled or not, a row is held out whole
        assert np.abs(clf.held_out_proba_ - clf.predict_proba(X))[rows].max() > 1e-3
    np.testing.assert_allclose(clf.reference_proba_, clf.held_out_proba_)  # of the average, which was not picked from
    kwargs = {"classes": [0, 1], "posterior": clf.posterior_}
    score = evaluation.log_loss(y, clf.held_out_proba_, clf.missing_proba_, **kwargs)
    assert (score.value, score.stderr) == pytest.approx((clf.score_.value, clf.score_.stderr))
    assert clf.comparison_.with_it == pytest.approx(clf.score_.value)
    assert clf.comparison_.gain == pytest.approx(clf.comparison_.without - clf.comparison_.with_it)


def test_rivals_stand_in_the_table_and_have_no_part_in_the_average(monkeypatch):
    monkeypatch.setattr("marmix.selection.comparison.default_rivals", default_rivals)
    X, _, y = partly_labelled(n=200)
    with_rivals = MARClassifierCV(estimators=SMALL, cv=3, rivals=True).fit(X, y)
    alone = MARClassifierCV(estimators=SMALL, cv=3).fit(X, y)
    assert with_rivals.weights_ == alone.weights_
    results = with_rivals.results_
    assert results["rival"].tolist() == [False] * 3 + [True] * 3
    assert set(results["candidate"][3:]) == {"logistic regression", "random forest", "gradient boosting"}
    assert not results["weight"][results["rival"]].any()
    assert not results["mechanism"][results["rival"]].any()
    assert np.isfinite(results["log_loss"]).all()
    assert with_rivals.rival_comparison_.with_it == pytest.approx(with_rivals.score_.value)
    assert with_rivals.rival_comparison_.without == pytest.approx(results["log_loss"][3:].min())
    assert alone.rival_comparison_ is None
    with pytest.raises(ValueError, match="rename"):
        MARClassifierCV(estimators={"random forest": SMALL["on"]}, rivals=True).fit(X, y)


def test_a_classifier_of_scikit_learn_as_a_candidate_sees_the_labelled_rows_alone():
    from sklearn.linear_model import LogisticRegression

    X, _, y = partly_labelled()
    clf = MARClassifierCV(estimators={"plain": LogisticRegression(), "on": SMALL["on"]}, cv=3).fit(X, y)
    alone = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[y >= 0], y[y >= 0])
    np.testing.assert_allclose(clf.estimators_["plain"].predict_proba(X), alone.predict_proba(X))


def test_candidates_that_hold_rows_out_themselves_are_held_out_by_the_same_folds():
    X, _, y = partly_labelled(n=200)
    kernel = MARKernelClassifier(C=10.0, gamma=0.5, mechanism_weight=0.3, n_landmarks=30, cv=2)
    clf = MARClassifierCV(estimators={"kernel": kernel}, cv=3).fit(X, y)
    order = row_order(X, y)
    folds = [order[test] for test in whole_row_folds(y[order], 3, 0)]
    assert clf.estimators_["kernel"][-1].cv == kernel.cv
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(len(y)))
    for test in folds:
        keep = np.delete(np.arange(len(y)), test)
        refit = make_pipeline(StandardScaler(), clone(kernel).set_params(cv=None)).fit(
            X[keep], y[keep]
        )  # other landmarks, nearly the same function
        np.testing.assert_allclose(clf.held_out_proba_[test], refit.predict_proba(X[test]), atol=0.1)


def test_steps_that_may_see_labels_are_held_out_with_the_candidate():
    X, _, y = partly_labelled(n=120)
    seen = []

    class Watching(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            seen.append(len(X))
            return super().fit(X, y, sample_weight)

    kernel = MARKernelClassifier(C=10.0, gamma=0.5, mechanism_weight=0.3, n_landmarks=20, cv=2)
    MARClassifierCV(estimators={"kernel": make_pipeline(Watching(), kernel)}, cv=3).fit(X, y)
    assert sorted(seen) == [80, 80, 80, 120]


def test_missingness_that_a_feature_explains_is_noted():
    rng = np.random.default_rng(0)
    X, y, _ = partly_labelled(n=600)
    z = np.where(rng.uniform(size=600) < 1 / (1 + np.exp(-3 * X[:, 1])), -1, y)
    clf = MARClassifierCV(estimators=SMALL, cv=3).fit(X, z)
    assert [note.code for note in clf.selection_.notes] == ["no-support"]


def test_without_lightgbm_the_rest_of_the_grid_works_and_a_note_says_what_is_missing(monkeypatch):
    X, _, y = partly_labelled(n=80)
    monkeypatch.setattr("marmix.selection.candidates.boosting_installed", lambda: False)
    monkeypatch.setattr("marmix.selection.comparison.boosting_installed", lambda: False)
    grid = default_candidates(2, 80, 2)
    assert any("kernel" in name for name in grid)
    assert not any("boosting" in name for name in grid)
    monkeypatch.setattr("marmix.selection.comparison.default_candidates", lambda *args, **kwargs: SMALL)
    with pytest.warns(UserWarning, match=r"marmix\[boost\]"):
        MARClassifierCV(cv=2).fit(X, y)


def test_imputed_sets_hold_the_label_of_a_labelled_row_and_the_true_class_of_most_others():
    X, truth, y = partly_labelled(400)
    clf = MARClassifierCV(estimators=SMALL, cv=3).fit(X, y)
    sets = clf.imputed_sets(X, y, coverage=0.9)
    lost = y == -1
    np.testing.assert_array_equal(sets[~lost], y[~lost, None] == [0, 1])
    assert sets[lost, truth[lost]].mean() > 0.85
    assert sets[lost].sum() < 2 * lost.sum()
    assert (sets <= clf.imputed_sets(X, y, coverage=0.99)).all()
    for rows in (slice(None, -1), slice(None, None, -1)):  # other rows, and the rows in another order
        with pytest.raises(ValueError, match="not the rows of the fit"):
            clf.imputed_sets(X[rows], y[rows])


def test_it_tells_the_rows_of_the_fit_in_their_order_from_others(tmp_path):
    X, _, y = partly_labelled(80)
    votes = np.eye(3)[y][:, :2]  # none where y is -1
    for labels in (y, np.array(["no", "yes", None], dtype=object)[y], votes):
        clf = MARClassifierCV(estimators={"off": make_pipeline(SMALL["off"])}, cv=2).fit(X, labels)
        assert clf.fitted_to(X, labels)
        assert not clf.fitted_to(X[::-1], labels[::-1])
        assert not clf.fitted_to(X, labels[::-1])
        assert not clf.fitted_to(X[1:], labels[1:])
        save(clf, tmp_path / "model.marmix", overwrite=True)
        assert not load(tmp_path / "model.marmix").fitted_to(X, labels)


def test_a_refit_keeps_the_settings_of_the_user_and_what_was_chosen():
    X, _, y = partly_labelled(120)
    foreign = make_pipeline(CalibratedClassifierCV(cv=3))
    assert settled(foreign)[-1].cv == 3
    trees = make_pipeline(MARBoostingClassifier(max_estimators=20)).fit(X, y)
    again = settled(trees)[-1]
    assert (again.n_estimators, again.mechanism_weight) == (trees[-1].n_estimators_, trees[-1].mechanism_weight_)
    assert again.cv is None


def test_candidates_may_name_the_classes_of_a_label_term_which_imputed_labels_follow():
    X, _, y = partly_labelled(n=150)
    names = np.array([2, 1, None], dtype=object)[y]
    mixture = MARGaussianMixture(delta={1: 2.0}, n_init=1)
    alone = MARGaussianMixture(delta={1: 2.0}, n_init=1).fit(X, names)
    clf = MARClassifierCV(estimators={"only": mixture}, cv=2).fit(X, names)
    np.testing.assert_array_equal(clf.estimators_["only"][-1].delta_, alone.delta_)
    np.testing.assert_array_equal(clf.transduction_, alone.transduction_)


def test_sets_are_calibrated_on_held_out_rows_alone():
    X, _, y = partly_labelled(n=200)
    half = [(np.arange(100, 200), np.arange(100))]
    clf = MARClassifierCV(estimators={"on": SMALL["on"]}, cv=half).fit(X, y)
    np.testing.assert_array_equal(clf.tested_, np.arange(200) < 100)
    other = y.copy()
    swapped = np.flatnonzero((y >= 0) & ~clf.tested_)
    other[swapped] = 1 - y[swapped]  # labels that no fold tested, seen only by the calibration
    missing, sets = y < 0, clf.imputed_sets(X, y)
    rows = clf.selection_.rows._replace(digest=digest_of(X, other))
    clf.selection_ = replace(clf.selection_, rows=rows)
    np.testing.assert_array_equal(sets[missing], clf.imputed_sets(X, other)[missing])
