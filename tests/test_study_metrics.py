"""Scores of the study: against the textbook's formulas, and as the paper's scripts compute them."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn import metrics as reference
from sklearn.linear_model import LogisticRegression

from marmix import MARClassifierCV, MARGaussianMixture
from marmix.datasets import make_mar_mixture
from marmix.study import comparison, methods, metrics


def probabilities(n=400, classes=2, seed=0):
    """Class probabilities with some skill, and labels drawn from them; no two rows alike."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.8), size=n)
    truth = (rng.uniform(size=n)[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    softened = 0.6 * p + 0.4 * rng.dirichlet(np.ones(classes), size=n)
    return truth, softened


def auc_by_pairs(positive, p):
    """How often a positive row is ranked above a negative one; ties count half."""
    gap = p[positive][:, None] - p[~positive]
    return np.mean((gap > 0) + 0.5 * (gap == 0))


# Scores.


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_the_textbook(classes):
    truth, p = probabilities(classes=classes)
    found = metrics.scores(truth, p)
    rows, hot = np.arange(len(truth)), np.eye(classes)[truth]
    assert found["log_loss"] == pytest.approx(-np.log(p[rows, truth]).mean(), rel=1e-12)
    brier = ((p - hot) ** 2).sum(axis=1).mean()
    assert found["brier"] == pytest.approx(brier / 2 if classes == 2 else brier, rel=1e-12)
    assert found["accuracy"] == np.mean(p.argmax(axis=1) == truth)
    each = [auc_by_pairs(truth == k, p[:, k]) for k in range(classes)]
    assert found["auc"] == pytest.approx(np.mean(each), rel=1e-12)


def test_the_brier_score_of_two_classes_is_that_of_one_probability():
    truth, p = probabilities()
    assert metrics.scores(truth, p)["brier"] == pytest.approx(np.mean((p[:, 1] - truth) ** 2), rel=1e-12)


def test_the_calibration_error_is_the_mean_distance_in_ten_equal_groups():
    truth, p = probabilities(n=500)
    groups = np.split(np.argsort(p.max(axis=1)), 10)
    right = p.argmax(axis=1) == truth
    expected = np.mean([abs(right[g].mean() - p.max(axis=1)[g].mean()) for g in groups])
    assert metrics.scores(truth, p)["calibration"] == pytest.approx(expected, rel=1e-9)


def test_rows_of_probability_zero_leave_the_log_loss_finite():
    truth, p = np.array([0, 1, 1, 0]), np.array([[1.0, 0.0], [1.0, 0.0], [0.3, 0.7], [0.8, 0.2]])
    given = p.copy()
    one = 1e-6 / (1 + 1e-6)  # as clipped and normalised
    expected = -np.mean(np.log([1 - one, one, 0.7, 0.8]))
    assert metrics.scores(truth, p)["log_loss"] == pytest.approx(expected, rel=1e-9)
    np.testing.assert_array_equal(p, given)


def test_relabelling_the_classes_changes_no_score():
    truth, p = probabilities()
    ours, theirs = metrics.scores(truth, p), metrics.scores(1 - truth, p[:, ::-1])
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_the_threshold_of_the_published_scores_has_the_largest_youden_index():
    truth, p = probabilities()
    positive, p = truth == 1, p[:, 1]
    found = metrics.published_scores(positive, p)

    def youden(said):
        return said[positive].mean() - said[~positive].mean()

    largest = max((p >= threshold for threshold in p), key=youden)
    assert found["recall"] == pytest.approx(largest[positive].mean(), rel=1e-12)
    assert found["precision"] == pytest.approx(positive[largest].mean(), rel=1e-12)
    assert found["f1"] == pytest.approx(2 / (1 / found["recall"] + 1 / found["precision"]), rel=1e-12)
    assert found["auc"] == pytest.approx(auc_by_pairs(positive, p), rel=1e-12)
    assert found["log_loss"] == pytest.approx(-np.log(np.where(positive, p, 1 - p)).mean(), rel=1e-12)
    assert found["brier"] == pytest.approx(np.mean((p - positive) ** 2), rel=1e-12)


def test_with_classes_swapped_the_published_auc_stays_and_everything_else_is_of_the_complement():
    truth, p = probabilities()
    positive, p = truth == 1, np.round(p[:, 1], 6)
    right, swapped = metrics.published_scores(positive, p), metrics.published_scores(positive, 1 - p)
    assert swapped["auc"] == pytest.approx(right["auc"], rel=1e-12)
    assert swapped["log_loss"] == pytest.approx(-np.log(np.where(positive, 1 - p, p)).mean(), rel=1e-9)
    assert swapped["brier"] == pytest.approx(np.mean((1 - p - positive) ** 2), rel=1e-9)
    n, hits = positive.sum(), right["recall"] * positive.sum()
    said = hits / right["precision"]
    assert swapped["recall"] == pytest.approx(1 - right["recall"], rel=1e-9)
    assert swapped["precision"] == pytest.approx((n - hits) / (len(p) - said), rel=1e-9)
    assert swapped["log_loss"] > right["log_loss"]


def test_scores_at_thresholds_are_scikit_learns():
    truth, p = probabilities()
    positive, p = truth == 1, p[:, 1]
    thresholds = np.array([0.1, 0.3, 0.5, 0.7])
    found = metrics.at_thresholds(positive, p, thresholds)
    for name in ("precision", "recall", "accuracy"):
        score = getattr(reference, f"{name}_score")
        np.testing.assert_allclose(found[name], [score(positive, p > t) for t in thresholds], rtol=1e-12)


def test_where_no_row_is_said_to_be_positive_there_is_no_precision():
    found = metrics.at_thresholds(np.array([True, False]), np.array([0.2, 0.1]), np.array([0.15, 0.5]))
    np.testing.assert_array_equal(found["precision"], [1.0, np.nan])
    assert found["recall"] == [1.0, 0.0]
    assert found["accuracy"] == [1.0, 0.5]


def test_the_roc_curve_is_counted():
    rng = np.random.default_rng(0)
    positive = np.repeat([True, False], 50)  # 50 negative rows: every rate of `FALSE_POSITIVES` is reached exactly
    p = rng.permutation(100) / 100 + 0.2 * positive + 1e-4 * rng.uniform(size=100)
    found = metrics.roc(positive, p)
    negatives = np.sort(p[~positive])[::-1]
    for j, rate in enumerate(metrics.FALSE_POSITIVES):
        assert rate == pytest.approx(j / 50)
        below = negatives[j] if j < 50 else -np.inf  # j negative rows lie above it
        # the curve steps up at this rate, from the rows above the j-th negative row to those above the next one
        above = negatives[j - 1] if j else np.inf
        assert np.mean(p[positive] > above) - 1e-12 <= found[j] <= np.mean(p[positive] > below) + 1e-12
    assert found[-1] == 1.0
    assert (np.diff(found) >= 0).all()


def test_the_auc_tells_rows_apart_whose_probabilities_are_1_to_all_digits():
    truth = np.array([0, 1, 0, 1, 1])
    log_odds = np.array([40.0, 50.0, 45.0, 60.0, -1.0])
    p = 1 / (1 + np.exp(-log_odds))
    assert (p[:4] == 1.0).all()
    proba = np.column_stack([1 - p, p])
    found = metrics.scores(truth, proba, log_odds)
    assert found["auc"] == auc_by_pairs(truth == 1, log_odds) == 4 / 6
    alone = metrics.scores(truth, proba)
    assert alone["auc"] == auc_by_pairs(truth == 1, p) == 2 / 6
    assert {name: found[name] for name in found if name != "auc"} == {n: alone[n] for n in alone if n != "auc"}


def test_probabilities_are_bounded_in_the_log_loss_alone():
    truth, p = np.array([1, 0, 1, 0]), np.array([1e-9, 3e-7, 0.4, 0.2])
    found = metrics.scores(truth, np.column_stack([1 - p, p]))
    assert found["brier"] == pytest.approx(np.mean((p - truth) ** 2), rel=1e-14)
    bounded = np.maximum(p, metrics.SMALLEST)
    bounded = bounded / (1 - p + bounded)
    expected = -np.mean(np.where(truth == 1, np.log(bounded), np.log1p(-bounded)))
    assert found["log_loss"] == pytest.approx(expected, rel=1e-12)
    assert found["log_loss"] < -np.log(metrics.SMALLEST)


def test_a_probability_that_is_above_1_by_rounding_is_1():
    truth, p = probabilities()
    p[0] = [0.0, np.nextafter(1.0, 2.0)]
    one = p.copy()
    one[0] = [0.0, 1.0]
    assert metrics.scores(truth, p) == pytest.approx(metrics.scores(truth, one), rel=1e-12)


def test_a_method_is_ranked_by_its_log_odds_or_else_by_its_probability():
    data = make_mar_mixture(200, rate=0.5, random_state=0)
    X = np.array([[40.0, 0.0], [30.0, 0.0], [-0.1, 0.3], [0.2, 0.0]])
    for model in (MARGaussianMixture(covariance_type="tied", link="logit"), LogisticRegression()):
        known = data.target >= 0
        rows = slice(None) if isinstance(model, MARGaussianMixture) else known
        fit = model.fit(data.data[rows], data.target[rows])
        p, ranked = fit.predict_proba(X), methods.ranking(fit, X)
        assert ranked[0] > ranked[1]
        np.testing.assert_allclose(ranked[2:], np.log(p[2:, 1] / p[2:, 0]), rtol=1e-9)

    class Without:
        def predict_proba(self, X):
            return np.column_stack([1 - X[:, 0], X[:, 0]])

    assert not hasattr(MARClassifierCV(), "decision_function")
    values = np.array([[0.25], [0.75]])
    np.testing.assert_array_equal(methods.ranking(Without(), values), [0.25, 0.75])
    assert methods.assessed(Without(), values, np.array([1, 0]))["auc"] == 0.0


def test_the_published_scores_say_whether_the_direction_was_turned():
    truth, p = probabilities()
    positive, p = truth == 1, p[:, 1]
    assert metrics.published_scores(positive, p)["turned"] == 0.0
    assert metrics.published_scores(positive, 1 - p)["turned"] == 1.0
    assert metrics.published_scores(~positive, p)["turned"] == 1.0
    level = np.full(len(p), 0.5)
    assert metrics.published_scores(positive, level)["turned"] == 0.0
    assert metrics.published_scores(positive, level)["auc"] == 0.5


def test_methods_that_fail_or_do_not_converge_are_counted_in_words():
    failed = [[], [methods.QDA], [methods.QDA], []]
    unfinished = [[methods.ECM_AO], [], [methods.ECM_AO, methods.LOGISTIC], [methods.ECM_AO]]
    assert methods.troubles(failed, unfinished) == [
        f"{methods.QDA} could not be fitted in 2 of 4 fits.",
        f"{methods.LOGISTIC} did not converge in 1 of 4 fits.",
        f"{methods.ECM_AO} did not converge in 3 of 4 fits.",
    ]
    assert methods.troubles([[], []], [[], []]) == []


# What the simulations draw and score.


def test_the_same_seeds_give_the_same_rows_and_at_a_higher_rate_more_labels_are_missing():
    seeds = np.array([3, 4])
    samples = [comparison.draw(seeds, "gaussian", True, 300, rate, 0.5) for rate in (0.5, 0.7, 0.9)]
    for (train, fresh), (more, again) in pairwise(samples):
        np.testing.assert_array_equal(train.data, more.data)
        np.testing.assert_array_equal(train.target_true, more.target_true)
        np.testing.assert_array_equal(fresh.data, again.data)
        assert set(np.flatnonzero(train.target < 0)) < set(np.flatnonzero(more.target < 0))
    assert train.margin.max() <= 0.6
    assert comparison.draw(seeds, "gaussian", False, 300, 0.5, 0.5)[0].margin.max() > 0.9


def test_a_replicate_scores_every_method_on_the_same_fresh_rows(monkeypatch):
    quick = (methods.EVERY_LABEL, methods.LOGISTIC, methods.LOGISTIC_CV, methods.ECM_AO, methods.ECM_LOGIT)
    monkeypatch.setattr(comparison, "COMPARED", quick)
    monkeypatch.setattr(comparison, "WITH_ROC", (methods.BAYES, methods.ECM_AO, methods.LOGISTIC))
    value = comparison.replicate(np.random.default_rng(0), "gaussian", truncated=False)
    assert set(value["scores"]) == {methods.BAYES, *quick}
    for name, curve in value["roc"].items():  # the curve of the AUC, the right way round
        area = np.mean((np.array(curve[1:]) + curve[:-1]) / 2)
        assert area == pytest.approx(value["scores"][name]["auc"], abs=0.005)
    assert value["scores"][methods.BAYES]["log_loss"] == min(s["log_loss"] for s in value["scores"].values())
    swapped, right = (value["published"][name] for name in (methods.SWAPPED, methods.LOGISTIC))
    assert (swapped["turned"], right["turned"]) == (1.0, 0.0)
    assert swapped["auc"] == pytest.approx(right["auc"], rel=1e-12)
    assert swapped["brier"] > right["brier"]
