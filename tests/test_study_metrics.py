"""Numbers of the study: scores, intervals, the approximation, Table I on its own rows, and tables in Markdown."""

import os
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference

from marmix.inference.tables import Table
from marmix.study import approximation, metrics, table_1
from marmix.study.comparison import SWAPPED
from marmix.study.methods import ECM_AO, ECM_LOGIT, LOGISTIC
from marmix.study.pieces import Piece
from marmix.study.published import TABLE_1, table_1_data
from marmix.study.summaries import (
    FAILS,
    HOLDS,
    PARTLY,
    UNDECIDED,
    Mean,
    compared,
    difference,
    mean_of,
    percent,
    verdict,
)
from marmix.uncertainty import entropy, log_entropy, posterior

SHARED = os.environ.get("MARMIX_SHARED")
needs_shared = pytest.mark.skipif(not SHARED, reason="MARMIX_SHARED names no folder with the paper's rows")


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


# Summaries.


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


def test_a_sign_is_given_just_where_a_t_test_is_significant():
    x = np.array([0.1, -0.2, 0.4, 0.3, 0.05, -0.1])
    for shift in np.linspace(-0.6, 0.6, 25):
        p = stats.ttest_1samp(x + shift, 0.0).pvalue
        expected = int(np.sign(np.mean(x + shift))) if p < 0.05 else 0
        assert mean_of(x + shift).sign == expected


def test_replicates_without_a_value_are_left_out_of_both_sides():
    a, b = np.array([1.0, np.nan, 3.0, 5.0]), np.array([0.0, 1.0, np.nan, 1.0])
    assert difference(a, b) == mean_of([1.0, 4.0])
    assert mean_of(a) == mean_of([1.0, 3.0, 5.0])
    assert mean_of(a).n == 3


def test_one_replicate_has_a_mean_but_no_interval_and_no_sign():
    mean = mean_of([0.25])
    assert (mean.mean, mean.n, mean.sign) == (0.25, 1, 0)
    assert np.isnan([mean.low, mean.high, mean.half]).all()
    assert mean.text() == "0.250"
    assert mean.sentence(2) == "+0.25"


def test_no_replicate_is_an_empty_cell():
    for none in (mean_of([]), mean_of([np.nan, np.nan])):
        assert none.n == 0
        assert none.sign == 0
        assert none.text() == none.sentence() == ""


def test_means_are_written_with_half_their_interval():
    mean = Mean(-0.0312, -0.0412, -0.0212, 9)
    assert mean.text() == mean.sentence() == "-0.031 ± 0.010"
    assert mean.text(4) == "-0.0312 ± 0.0100"
    assert Mean(0.5, 0.4, 0.6, 9).text() == "0.500 ± 0.100"
    assert Mean(0.5, 0.4, 0.6, 9).sentence(1) == "+0.5 ± 0.1"
    assert percent(0.725) == "72 %"
    assert percent(0.7251, 1) == "72.5 %"


@pytest.mark.parametrize(
    ("signs", "word"),
    [
        ([1], HOLDS), ([1, 1], HOLDS), ([1, 0], PARTLY), ([1, -1], PARTLY), ([0, 0], UNDECIDED), ([0], UNDECIDED),
        ([0, -1], FAILS), ([-1, -1], FAILS),
    ],
)  # fmt: skip
def test_a_verdict_follows_the_signs(signs, word):
    assert verdict(signs) == word
    assert verdict(signs[::-1]) == word


def test_a_difference_is_called_better_in_the_metric_s_own_direction():
    lower, higher, noise = mean_of([-1.0, -1.1]), mean_of([1.0, 1.1]), mean_of([-1.0, 1.0])
    assert [compared(d) for d in (lower, higher, noise)] == ["better", "worse", "not clearly different"]
    assert [compared(d, False) for d in (lower, higher, noise)] == ["worse", "better", "not clearly different"]


# The approximation.


def test_entropy_from_the_squared_margin_is_the_library_s():
    squared = np.linspace(0.0, 0.999, 50)
    m = np.sqrt(squared)
    p = posterior(np.log(np.array([(1 + m) / 2, (1 - m) / 2])))
    np.testing.assert_allclose(approximation.entropy_of(squared), entropy(p).value, rtol=1e-10)
    np.testing.assert_allclose(approximation.curves(squared)["log-entropy"][0], log_entropy(p).value, rtol=1e-9)
    assert approximation.entropy_of(np.array([1.0])) == 0.0


def test_errors_of_the_approximation_are_those_at_posteriors_of_a_fifth_and_four_fifths():
    squared = np.linspace(0.0, 0.999, 1000)
    found = approximation.largest_errors(squared, below=True)
    h = -0.8 * np.log(0.8) - 0.2 * np.log(0.2)  # m² = 0.36
    assert found["entropy"][:2] == pytest.approx((np.log(2) - 0.18 - h, 0.36), rel=1e-9)
    assert found["entropy"][2] == pytest.approx((np.log(2) - 0.18 - h) / (np.log(2) - h), rel=1e-9)
    line = np.log(np.log(2)) - 0.36 / (2 * np.log(2))
    assert found["log-entropy"][:2] == pytest.approx((line - np.log(h), 0.36), rel=1e-9)
    assert found["log-entropy"][2] == pytest.approx((line - np.log(h)) / (np.log(np.log(2)) - np.log(h)), rel=1e-9)
    beyond = approximation.largest_errors(squared, below=False)
    assert all(beyond[name][0] > found[name][0] and beyond[name][1] > 0.36 for name in found)


def test_both_approximations_are_of_second_order_in_the_margin():
    m = np.array([0.02, 0.04])
    for exact, taylor in approximation.curves(m**2).values():
        error = np.abs(exact - taylor)
        assert error[1] / error[0] == pytest.approx(16.0, rel=0.01)  # what is left out is of order m⁴


# Table I on the paper's own rows.


@pytest.fixture(scope="module")
def on_the_rows():
    return Piece(table_1.DATA_SET, table_1.on_the_data_set).compute(0)


@pytest.mark.parametrize("method", [ECM_AO, ECM_LOGIT])
def test_the_ecm_rows_of_table_1_come_out_to_the_last_digit_or_one_off(on_the_rows, method):
    for name, printed in TABLE_1[method].items():
        assert abs(on_the_rows["scores"][method][name] - printed) <= 0.001, name


def test_the_logistic_row_of_table_1_is_that_of_swapped_classes_to_the_digit(on_the_rows):
    found = on_the_rows["scores"]
    assert {name: round(found[SWAPPED][name], 3) for name in TABLE_1[SWAPPED]} == TABLE_1[SWAPPED]
    assert found[LOGISTIC]["log_loss"] < found[ECM_AO]["log_loss"] < found[SWAPPED]["log_loss"]


def test_the_rows_of_table_1_are_200_with_70_percent_of_the_labels_hidden():
    data = table_1_data()
    assert data.data.shape == (200, 2)
    known = data.target >= 0
    np.testing.assert_array_equal(data.target[known], data.target_true[known])
    assert set(data.target_true) == {0, 1}
    assert np.mean(~known) == pytest.approx(0.7, abs=0.1)


@needs_shared
def test_the_packaged_rows_are_those_that_the_paper_s_script_draws():
    ours = files("marmix.study").joinpath("table_1.csv").read_bytes()
    assert ours == (Path(SHARED) / "oracles" / "paper_gauss_n200.csv").read_bytes()


# Tables in Markdown.


def test_a_table_in_markdown_reads_back_to_its_cells():
    table = Table(
        "A title", ["P(a|b)", "n"], ["x | y", "z"], [[0.25, None], ["a|b", 3]], [("rows", "200")], ["First.", "Second."]
    )
    text = table.as_markdown()
    assert text.startswith("**A title**\n\n- rows: 200\n\n|")
    assert text.endswith("|\n\n- First.\n- Second.")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[c.strip().replace(r"\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert cells == [["", "P(a|b)", "n"], ["---", "---:", "---:"], ["x | y", "0.2500", ""], ["z", "a|b", "3"]]


def test_a_table_without_facts_and_notes_is_its_title_and_its_cells():
    assert Table("T", ["a"], ["r"], [[1]]).as_markdown() == "**T**\n\n|  | a |\n| --- | ---: |\n| r | 1 |"
