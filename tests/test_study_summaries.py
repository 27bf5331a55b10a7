"""Means over replicates, their intervals, Holm's method, and the words for them."""

import numpy as np
import pytest
from scipy import stats

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

NONE = mean_of([])
ONE = mean_of([5.0])  # a single replicate: no interval
UP, DOWN, NOISE = mean_of([1.0, 1.1, 1.2]), mean_of([-1.0, -1.1, -1.2]), mean_of([-1.0, 1.0, 0.5])


def holm(p, level=0.05):
    """Whether each hypothesis is rejected, as the textbook has it: all of smaller or equal rank must be."""
    ranked = np.sort(p)
    bounds = level / (len(p) - np.arange(len(p)))
    first = next((k for k in range(len(p)) if ranked[k] > bounds[k]), len(p))
    return [value in ranked[:first] for value in p]


def with_p(p, sign=1):
    """A mean over 11 replicates with this p-value."""
    half = stats.t.ppf(0.975, 10) / stats.t.isf(p / 2, 10)
    return Mean(float(sign), sign - half, sign + half, 11)


# Intervals.


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


def test_the_p_value_is_that_of_the_t_test():
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.3, -1.0, 30.0):
        x = rng.normal(shift, 1.0, size=9)
        assert mean_of(x).p == pytest.approx(stats.ttest_1samp(x, 0.0).pvalue, rel=1e-9)


def test_the_p_value_is_that_of_the_interval_and_1_where_there_is_none():
    for p in (1e-12, 0.003, 0.05, 0.4):
        assert with_p(p).p == with_p(p, -1).p == pytest.approx(p, rel=1e-9)
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


def test_one_difference_is_clear_just_where_a_t_test_is_significant():
    x = np.array([0.1, -0.2, 0.4, 0.3, 0.05, -0.1])
    for shift in np.linspace(-0.6, 0.6, 25):
        p = stats.ttest_1samp(x + shift, 0.0).pvalue
        expected = int(np.sign(np.mean(x + shift))) if p < 0.05 else 0
        assert clear([mean_of(x + shift)]) == [expected]


def test_differences_are_clear_together_where_the_textbook_s_holm_rejects():
    rng = np.random.default_rng(2)
    partly = 0
    for _ in range(300):
        p = rng.beta(0.3, 3.0, size=rng.integers(1, 9))
        sign = rng.choice([-1, 1], size=len(p))
        expected = [int(s) if rejected else 0 for s, rejected in zip(sign, holm(p), strict=True)]
        found = clear([with_p(*pair) for pair in zip(p, sign, strict=True)])
        assert found == expected
        partly += 0 < sum(map(abs, found)) < np.sum(p < 0.05)
    assert partly > 10  # Holm's method, and not a t test each, made the difference


def test_after_the_first_that_is_not_clear_none_is():
    # bounds are .05 / 3, .05 / 2 and .05: the second misses its own, and the third, below .05, goes with it
    assert clear([with_p(0.04), with_p(0.01), with_p(0.03, -1)]) == [0, 1, 0]
    assert clear([with_p(0.04), with_p(0.01), with_p(0.02, -1)]) == [1, 1, -1]
    assert clear([]) == []


def test_differences_without_an_interval_are_not_clear_and_count_as_comparisons():
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


def test_what_a_t_test_each_would_call_clear_is_undecided_among_many():
    once = with_p(0.04)
    assert verdict([once], 1) == HOLDS
    assert verdict([once, NOISE], 1) == UNDECIDED


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
