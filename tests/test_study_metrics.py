"""Scores of the study against textbook formulas and the paper's scripts; means over replicates, Holm's method, verdicts."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference
from sklearn.linear_model import LogisticRegression

from marmix import MARClassifierCV, MARGaussianMixture
from marmix.datasets import make_mar_mixture
from marmix.study import comparison, methods, metrics
from marmix.study.summaries import (
    FAILS,
    HOLDS,
    MIXED,
    MOSTLY_NOT,
    PARTLY,
    UNDECIDED,
    Mean,
    clear,
    difference,
    mean_of,
    percent,
    tally,
    verdict,
    within,
)


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
    scores = metrics.scores(truth, p)
    rows, hot = np.arange(len(truth)), np.eye(classes)[truth]
    assert scores["log_loss"] == pytest.approx(-np.log(p[rows, truth]).mean(), rel=1e-12)
    brier = ((p - hot) ** 2).sum(axis=1).mean()
    assert scores["brier"] == pytest.approx(brier / 2 if classes == 2 else brier, rel=1e-12)
    assert scores["accuracy"] == np.mean(p.argmax(axis=1) == truth)
    areas = [auc_by_pairs(truth == k, p[:, k]) for k in range(classes)]
    assert scores["auc"] == pytest.approx(np.mean(areas), rel=1e-12)


def test_the_calibration_error_is_the_mean_distance_in_ten_equal_groups():
    truth, p = probabilities(n=500)
    groups = np.split(np.argsort(p.max(axis=1)), 10)
    right = p.argmax(axis=1) == truth
    expected = np.mean([abs(right[g].mean() - p.max(axis=1)[g].mean()) for g in groups])
    assert metrics.scores(truth, p)["calibration"] == pytest.approx(expected, rel=1e-9)


def test_relabelling_the_classes_changes_no_score():
    truth, p = probabilities()
    ours, theirs = metrics.scores(truth, p), metrics.scores(1 - truth, p[:, ::-1])
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_the_threshold_of_the_published_scores_has_the_largest_youden_index():
    truth, p = probabilities()
    positive, p = truth == 1, p[:, 1]
    scores = metrics.published_scores(positive, p)

    def youden(predicted):
        return predicted[positive].mean() - predicted[~positive].mean()

    largest = max((p >= threshold for threshold in p), key=youden)
    assert scores["recall"] == pytest.approx(largest[positive].mean(), rel=1e-12)
    assert scores["precision"] == pytest.approx(positive[largest].mean(), rel=1e-12)
    assert scores["f1"] == pytest.approx(2 / (1 / scores["recall"] + 1 / scores["precision"]), rel=1e-12)
    assert scores["auc"] == pytest.approx(auc_by_pairs(positive, p), rel=1e-12)
    assert scores["log_loss"] == pytest.approx(-np.log(np.where(positive, p, 1 - p)).mean(), rel=1e-12)
    assert scores["brier"] == pytest.approx(np.mean((p - positive) ** 2), rel=1e-12)


def test_with_classes_swapped_the_published_auc_stays_and_everything_else_is_of_the_complement():
    truth, p = probabilities()
    positive, p = truth == 1, np.round(p[:, 1], 6)
    right, swapped = metrics.published_scores(positive, p), metrics.published_scores(positive, 1 - p)
    assert swapped["auc"] == pytest.approx(right["auc"], rel=1e-12)
    assert swapped["log_loss"] == pytest.approx(-np.log(np.where(positive, 1 - p, p)).mean(), rel=1e-9)
    assert swapped["brier"] == pytest.approx(np.mean((1 - p - positive) ** 2), rel=1e-9)
    n, hits = positive.sum(), right["recall"] * positive.sum()
    predicted = hits / right["precision"]
    assert swapped["recall"] == pytest.approx(1 - right["recall"], rel=1e-9)
    assert swapped["precision"] == pytest.approx((n - hits) / (len(p) - predicted), rel=1e-9)
    assert swapped["log_loss"] > right["log_loss"]


def test_scores_at_thresholds_are_scikit_learns():
    truth, p = probabilities()
    positive, p = truth == 1, p[:, 1]
    thresholds = np.array([0.1, 0.3, 0.5, 0.7])
    scores = metrics.at_thresholds(positive, p, thresholds)
    for name in ("precision", "recall", "accuracy"):
        score = getattr(reference, f"{name}_score")
        np.testing.assert_allclose(scores[name], [score(positive, p > t) for t in thresholds], rtol=1e-12)


def test_without_predicted_positives_there_is_no_precision():
    scores = metrics.at_thresholds(np.array([True, False]), np.array([0.2, 0.1]), np.array([0.15, 0.5]))
    np.testing.assert_array_equal(scores["precision"], [1.0, np.nan])
    assert scores["recall"] == [1.0, 0.0]
    assert scores["accuracy"] == [1.0, 0.5]


def test_the_roc_curve_is_counted():
    rng = np.random.default_rng(0)
    positive = np.repeat([True, False], 50)  # 50 negative rows: every rate of `FALSE_POSITIVES` is reached exactly
    p = rng.permutation(100) / 100 + 0.2 * positive + 1e-4 * rng.uniform(size=100)
    curve = metrics.roc(positive, p)
    negatives = np.sort(p[~positive])[::-1]
    for j, rate in enumerate(metrics.FALSE_POSITIVES):
        assert rate == pytest.approx(j / 50)
        below = negatives[j] if j < 50 else -np.inf  # j negative rows lie above it
        # the curve steps up at this rate, from the rows above the j-th negative row to those above the next one
        above = negatives[j - 1] if j else np.inf
        assert np.mean(p[positive] > above) - 1e-12 <= curve[j] <= np.mean(p[positive] > below) + 1e-12
    assert curve[-1] == 1.0
    assert (np.diff(curve) >= 0).all()


def test_the_auc_tells_rows_apart_whose_probabilities_are_1_to_all_digits():
    truth = np.array([0, 1, 0, 1, 1])
    log_odds = np.array([40.0, 50.0, 45.0, 60.0, -1.0])
    p = 1 / (1 + np.exp(-log_odds))
    assert (p[:4] == 1.0).all()
    proba = np.column_stack([1 - p, p])
    scores = metrics.scores(truth, proba, log_odds)
    assert scores["auc"] == auc_by_pairs(truth == 1, log_odds) == 4 / 6
    alone = metrics.scores(truth, proba)
    assert alone["auc"] == auc_by_pairs(truth == 1, p) == 2 / 6
    assert scores | {"auc": alone["auc"]} == alone


def test_probabilities_are_bounded_in_the_log_loss_alone():
    truth, p = np.array([1, 0, 1, 0, 1]), np.array([1e-9, 3e-7, 0.4, 0.2, 0.0])
    proba = np.column_stack([1 - p, p])
    given = proba.copy()
    scores = metrics.scores(truth, proba)
    np.testing.assert_array_equal(proba, given)
    assert scores["brier"] == pytest.approx(np.mean((p - truth) ** 2), rel=1e-14)
    bounded = np.maximum(p, metrics.SMALLEST)
    bounded = bounded / (1 - p + bounded)
    expected = -np.mean(np.where(truth == 1, np.log(bounded), np.log1p(-bounded)))
    assert scores["log_loss"] == pytest.approx(expected, rel=1e-12)
    assert scores["log_loss"] < -np.log(metrics.SMALLEST)


def test_a_probability_that_is_above_1_by_rounding_is_1():
    truth, p = probabilities()
    p[0] = [0.0, np.nextafter(1.0, 2.0)]
    assert metrics.scores(truth, p) == pytest.approx(metrics.scores(truth, np.minimum(p, 1.0)), rel=1e-12)


def test_a_method_is_ranked_by_its_log_odds_or_else_by_its_probability():
    data = make_mar_mixture(200, rate=0.5, random_state=0)
    X = np.array([[40.0, 0.0], [30.0, 0.0], [-0.1, 0.3], [0.2, 0.0]])
    for model in (MARGaussianMixture(covariance_type="tied", link="logit"), LogisticRegression()):
        rows = slice(None) if isinstance(model, MARGaussianMixture) else data.target >= 0
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


# Summaries.

NONE = mean_of([])
ONE = mean_of([5.0])  # a single replicate: no interval
UP, DOWN, NOISE = mean_of([1.0, 1.1, 1.2]), mean_of([-1.0, -1.1, -1.2]), mean_of([-1.0, 1.0, 0.5])


def holm(p, level=0.05):
    """Whether areas hypothesis is rejected, as the textbook has it: all of smaller or equal rank must be."""
    ranked = np.sort(p)
    bounds = level / (len(p) - np.arange(len(p)))
    first = next((k for k in range(len(p)) if ranked[k] > bounds[k]), len(p))
    return [value in ranked[:first] for value in p]


def with_p(p, sign=1):
    """A mean over 11 replicates with this p-value."""
    half = stats.t.ppf(0.975, 10) / stats.t.isf(p / 2, 10)
    return Mean(float(sign), sign - half, sign + half, 11)


# Means and intervals.


def test_intervals_are_student_s():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.3, 1.0, size=12), rng.normal(0.0, 1.0, size=12)
    mean = mean_of(a)
    low, high = stats.t.interval(0.95, 11, loc=a.mean(), scale=stats.sem(a))
    assert (mean.mean, mean.low, mean.high, mean.n) == pytest.approx((a.mean(), low, high, 12), rel=1e-12)
    paired = difference(a, b)
    interval = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (paired.low, paired.high) == pytest.approx((interval.low, interval.high), rel=1e-10)
    assert paired.half == pytest.approx((interval.high - interval.low) / 2, rel=1e-10)


def test_the_p_value_is_that_of_the_t_test_and_1_without_an_interval():
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.3, -1.0, 30.0):
        x = rng.normal(shift, 1.0, size=9)
        assert mean_of(x).p == pytest.approx(stats.ttest_1samp(x, 0.0).pvalue, rel=1e-9)
    assert NONE.p == ONE.p == 1.0
    assert mean_of([0.0, 0.0, 0.0]).p == 1.0
    assert mean_of([0.5, 0.5, 0.5]).p == 0.0


def test_splits_that_overlap_have_the_variance_of_nadeau_and_bengio():
    x = np.array([0.81, 0.84, 0.79, 0.80, 0.83])
    mean = mean_of(x, overlap=0.5)  # a third of the rows to test, two thirds to train
    half = stats.t.ppf(0.975, 4) * np.sqrt((1 / 5 + 0.5) * x.var(ddof=1))
    assert (mean.mean, mean.low, mean.high) == pytest.approx((x.mean(), x.mean() - half, x.mean() + half), rel=1e-12)
    statistic = x.mean() / np.sqrt((1 / 5 + 0.5) * x.var(ddof=1))
    assert mean.p == pytest.approx(2 * stats.t.sf(statistic, 4), rel=1e-9)
    assert mean_of(x, overlap=0.0) == mean_of(x)


def test_replicates_without_a_value_are_left_out_of_both_sides():
    a, b = np.array([1.0, np.nan, 3.0, 5.0]), np.array([0.0, 1.0, np.nan, 1.0])
    assert difference(a, b) == mean_of([1.0, 4.0])
    assert mean_of(a) == mean_of([1.0, 3.0, 5.0])
    assert mean_of(a).n == 3


def test_a_mean_takes_one_value_a_replicate():
    with pytest.raises(ValueError, match=r"one value a replicate is needed, not an array of shape \(2, 3\)"):
        mean_of(np.zeros((2, 3)))


def test_one_replicate_has_a_mean_but_no_interval():
    assert (ONE.mean, ONE.n) == (5.0, 1)
    assert np.isnan([ONE.low, ONE.high, ONE.half]).all()
    assert ONE.text() == "5.000"
    assert ONE.sentence(2) == "+5.00"


def test_no_replicate_is_an_empty_cell():
    for none in (NONE, mean_of([np.nan, np.nan])):
        assert none.n == 0
        assert none.text() == none.sentence() == ""


def test_means_are_written_with_half_their_interval():
    mean = Mean(-0.0312, -0.0412, -0.0212, 9)
    assert mean.text() == mean.sentence() == "-0.031 ± 0.010"
    assert mean.text(4) == "-0.0312 ± 0.0100"
    assert Mean(0.5, 0.4, 0.6, 9).text() == "0.500 ± 0.100"
    assert Mean(0.5, 0.4, 0.6, 9).sentence(1) == "+0.5 ± 0.1"
    assert percent(0.725) == "72 %"
    assert percent(0.7251, 1) == "72.5 %"


# Several comparisons.


def test_differences_are_clear_together_where_the_textbook_s_holm_rejects():
    rng = np.random.default_rng(2)
    fewer = 0
    for _ in range(300):
        p = rng.beta(0.3, 3.0, size=rng.integers(1, 9))
        sign = rng.choice([-1, 1], size=len(p))
        expected = [int(s) if rejected else 0 for s, rejected in zip(sign, holm(p), strict=True)]
        signs = clear([with_p(*pair) for pair in zip(p, sign, strict=True)])
        assert signs == expected
        fewer += 0 < sum(map(abs, signs)) < np.sum(p < 0.05)
    assert fewer > 10  # Holm's method rejects fewer than separate t tests


def test_differences_without_an_interval_are_not_clear_and_count_as_comparisons():
    assert clear([]) == []
    assert clear([ONE, NONE]) == [0, 0]
    assert clear([with_p(0.03)]) == [1]
    assert clear([with_p(0.03), ONE]) == [0, 0]
    assert clear([with_p(0.02), ONE]) == [1, 0]


@pytest.mark.parametrize(
    ("differences", "word"),
    [
        ([UP], HOLDS),
        ([UP, UP], HOLDS),
        ([UP, NOISE], PARTLY),
        ([UP, DOWN], MIXED),
        ([UP, NOISE, DOWN], MIXED),
        ([UP, UP, DOWN], MIXED),
        ([UP, DOWN, DOWN], MOSTLY_NOT),
        ([UP, NOISE, DOWN, DOWN], MOSTLY_NOT),
        ([NOISE], UNDECIDED),
        ([NOISE, NOISE], UNDECIDED),
        ([NOISE, DOWN], FAILS),
        ([DOWN, DOWN], FAILS),
        ([ONE], UNDECIDED),
        ([NONE], UNDECIDED),
        ([UP, ONE], PARTLY),
        ([UP, NONE], PARTLY),
        ([DOWN, NONE], FAILS),
    ],
)
def test_a_verdict_follows_the_differences(differences, word):
    assert verdict(differences, 1) == word
    assert verdict(differences[::-1], 1) == word
    assert verdict([Mean(-d.mean, -d.high, -d.low, d.n) for d in differences], -1) == word


def test_the_tally_counts_clear_differences_on_either_side():
    assert tally([UP, UP, NOISE, DOWN, ONE], 1) == "clearly better in 2, clearly worse in 1 of 5"
    assert tally([UP, UP, NOISE, DOWN, ONE], -1) == "clearly better in 1, clearly worse in 2 of 5"


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ([(-0.3, 0.1), (0.0, 0.19)], HOLDS),
        ([(0.0, 0.2)], UNDECIDED),  # ends at the margin itself
        ([(0.1, 0.3)], UNDECIDED),
        ([(0.0, 0.1), (0.1, 0.3)], PARTLY),
        ([(0.0, 0.1), (0.21, 0.3)], MIXED),
        ([(0.1, 0.3), (0.21, 0.3)], FAILS),
        ([(0.21, 0.3)], FAILS),
        ([(np.nan, np.nan)], UNDECIDED),
        ([(np.nan, np.nan), (0.0, 0.1)], PARTLY),
        ([(np.nan, np.nan), (0.3, 0.4)], FAILS),
    ],
)
def test_values_are_within_a_margin_where_their_intervals_end_below_it(ends, word):
    assert within([Mean((low + high) / 2, low, high, 9) for low, high in ends], 0.2) == word
