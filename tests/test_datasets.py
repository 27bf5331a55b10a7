"""Data sets: what is simulated has the laws it claims, what is hidden follows its mechanism, files are what they should be."""

import doctest
import hashlib
import http.server
import io
import itertools
import os
import re
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import textbook_missing_proba
from scipy import stats

from marmix import MARGaussianMixture
from marmix.datasets import files, hide_labels, hiding, load_gastro, load_magic, make_mar_mixture, simulation
from marmix.datasets.families import FAMILIES, OTHER_NAMES, places
from marmix.datasets.hiding import SLOPES
from marmix.uncertainty import MEASURES

try:
    import pandas as pd
except ImportError:
    pd = None

needs_pandas = pytest.mark.skipif(pd is None, reason="pandas is not installed")
DISTRIBUTIONS = ("gaussian", "student", "laplace", "gamma", "beta")


BAD_STATES = [
    (
        {"random_state": given},
        rf"random_state={re.escape(repr(given))} must be an integer >= 0, a numpy Generator or Random",
    )
    for given in (-1, np.int64(-7), "seed", 1.5, [1, 2])
]


def posteriors(n=2000, classes=2, seed=0):
    """Random posteriors, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    tau = rng.dirichlet(np.ones(classes), size=n)
    y = (rng.uniform(size=n)[:, None] > np.cumsum(tau, axis=1)[:, :-1]).sum(axis=1)
    return y, tau


# Hiding.


@pytest.mark.parametrize(
    ("link", "shape", "textbook"), [("logit", None, 1.0), ("cloglog", None, 0.0), ("aranda-ordaz", 2.5, 2.5)]
)
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
def test_labels_are_lost_by_the_textbook_s_link_at_the_rate_asked_for(link, shape, textbook, rate):
    y, tau = posteriors()
    hidden = hide_labels(y, tau, link, shape, -3.0, rate, random_state=1)
    u = (tau[:, 0] - tau[:, 1]) ** 2
    assert hidden.mechanism.alpha[1] == -3.0
    assert hidden.rate == rate
    np.testing.assert_allclose(
        hidden.missing_proba, textbook_missing_proba(u, hidden.mechanism.alpha, textbook), rtol=1e-9
    )
    assert abs(hidden.missing_proba.mean() - rate) < 1e-9
    deviation = hidden.missing.mean() - rate
    assert abs(deviation) < 3.0 * np.sqrt(np.mean(hidden.missing_proba * (1 - hidden.missing_proba)) / len(y))
    np.testing.assert_array_equal(hidden.target, np.where(hidden.missing, -1, y))
    np.testing.assert_array_equal(hidden.target_true, y)


@pytest.mark.parametrize(
    ("uncertainty", "slope"), [(name, slope) for name, slope in SLOPES.items() if name != "signed-margin"]
)
def test_with_the_sign_that_fits_the_measure_hard_rows_lose_their_labels_first(uncertainty, slope):
    y, tau = posteriors()  # of two classes, all measures put rows in the same order
    hardest_first = np.argsort(np.abs(tau[:, 0] - tau[:, 1]))
    there = hide_labels(y, tau, slope=slope, uncertainty=uncertainty).missing_proba[hardest_first]
    back = hide_labels(y, tau, slope=-slope, uncertainty=uncertainty).missing_proba[hardest_first]
    assert (np.diff(there) <= 0.0).all()
    assert (np.diff(back) >= 0.0).all()
    assert there[0] > 0.7 > there[-1]
    assert back[0] < 0.7 < back[-1]


@pytest.mark.parametrize("uncertainty", [name for name in MEASURES if name != "signed-margin"])
@pytest.mark.parametrize("classes", [2, 4])
def test_without_a_slope_hard_rows_clearly_lose_their_labels_first(uncertainty, classes):
    y, tau = posteriors(classes=classes)
    hidden = hide_labels(y, tau, uncertainty=uncertainty, random_state=0)
    made = make_mar_mixture(2000, n_classes=classes, n_features=3, uncertainty=uncertainty, random_state=0)
    for missing, of_class in ((hidden.missing, tau), (made.missing, made.posterior)):
        largest = of_class.max(axis=1)
        assert stats.ttest_ind(largest[missing], largest[~missing], equal_var=False).statistic < -4


def test_without_a_slope_the_signed_margin_loses_labels_towards_the_second_class():
    y, tau = posteriors()
    hidden = hide_labels(y, tau, uncertainty="signed-margin", rate=0.5, random_state=0)
    made = make_mar_mixture(2000, uncertainty="signed-margin", rate=0.5, random_state=0)
    for missing, of_class in ((hidden.missing, tau), (made.missing, made.posterior)):
        towards = of_class[:, 1] > 0.5
        assert missing[towards].mean() > missing[~towards].mean() + 0.3


def test_the_slopes_documented_are_those_in_force():
    y, tau = posteriors(100)
    table = dict(re.findall(r'^ +``"([a-z-]+)"`` +(-?[\d.]+)', hide_labels.__doc__, re.M))
    assert {name: float(slope) for name, slope in table.items()} == SLOPES
    assert SLOPES.keys() == MEASURES.keys()
    for uncertainty, slope in SLOPES.items():
        assert hide_labels(y, tau, uncertainty=uncertainty).mechanism.alpha[1] == slope
        assert make_mar_mixture(100, uncertainty=uncertainty, random_state=0).mechanism.alpha[1] == slope
        # a number is taken as given, also of the other sign
        assert make_mar_mixture(100, uncertainty=uncertainty, slope=-slope, random_state=0).mechanism.alpha[1] == -slope


def test_a_callable_needs_a_slope_unless_none_is_used():
    y, tau = posteriors(100)

    def margin(log_tau):
        return (np.exp(log_tau[:, 0]) - np.exp(log_tau[:, 1])) ** 2

    for call in (lambda **o: hide_labels(y, tau, **o), lambda **o: make_mar_mixture(50, **o)):
        with pytest.raises(ValueError, match="slope is needed with a callable"):
            call(uncertainty=margin)
        assert call(uncertainty=margin, link=None).mechanism is None
    q = hide_labels(y, tau, uncertainty=margin, slope=-6.0).missing_proba
    np.testing.assert_allclose(q, hide_labels(y, tau).missing_proba, rtol=1e-9)


@pytest.mark.parametrize("rate", [0, 0.0, np.float64(0.0)])
@pytest.mark.parametrize("link", ["logit", None])
def test_at_a_rate_of_zero_no_label_is_lost(rate, link):
    y, tau = posteriors(60)
    before = np.arange(60) < 20
    y = np.where(before, -1, y)
    for of_class in (tau, None):
        hidden = hide_labels(y, of_class, link, rate=rate, random_state=0)
        np.testing.assert_array_equal(hidden.target, y)
        np.testing.assert_array_equal(hidden.missing, before)
        np.testing.assert_array_equal(hidden.missing_proba, np.zeros(60))
        assert hidden.mechanism is None
        assert hidden.DESCR == "No label was lost."


def test_generators_move_on_alike_at_every_rate():
    y, tau = posteriors(60)
    after = []
    for rate in (0.0, 0.3, 0.9):
        rng = np.random.default_rng(0)
        hide_labels(y, tau, rate=rate, random_state=rng)
        after.append(rng.random())
    assert after[0] == after[1] == after[2]


def test_the_mechanism_returned_gives_the_probabilities_returned():
    y, tau = posteriors(classes=4)
    hidden = hide_labels(y, tau, "aranda-ordaz", 0.5, 2.0, 0.4, uncertainty="entropy", random_state=0)
    np.testing.assert_allclose(hidden.mechanism.missing_proba(np.log(tau)), hidden.missing_proba, rtol=1e-12)


def test_a_higher_rate_loses_the_same_labels_and_more():
    y, tau = posteriors()
    missing = [hide_labels(y, tau, rate=rate, random_state=3).missing for rate in (0.2, 0.5, 0.8, 0.9)]
    for fewer, more in itertools.pairwise(missing):
        assert (more | ~fewer).all()
        assert more.sum() > fewer.sum()


def test_without_a_link_labels_are_lost_whatever_their_posterior():
    y, tau = posteriors(20_000)
    hidden = hide_labels(y, link=None, rate=0.3, random_state=0)
    assert hidden.mechanism is None
    np.testing.assert_array_equal(hidden.missing_proba, np.full(len(y), 0.3))
    assert abs(hidden.missing.mean() - 0.3) < 3 * np.sqrt(0.21 / len(y))
    table = np.histogram2d(hidden.missing, np.abs(tau[:, 0] - tau[:, 1]), bins=[2, 10])[0]
    assert stats.chi2_contingency(table).pvalue > 0.01
    table = np.histogram2d(
        hide_labels(y, tau, slope=-1.0, rate=0.3, random_state=0).missing, np.abs(tau[:, 0] - tau[:, 1]), bins=[2, 10]
    )[0]
    assert stats.chi2_contingency(table).pvalue < 1e-6  # the same test sees a slope of -1


def test_one_sided_no_label_is_lost_on_the_other_side():
    y, tau = posteriors(classes=3)
    names = np.array(["a", "b", "c"])[y]
    hidden = hide_labels(names, tau, rate=0.2, side="b", random_state=0)
    on_side = tau.argmax(axis=1) == 1
    assert not hidden.missing[~on_side].any()
    assert (hidden.missing_proba[~on_side] == 0.0).all()
    assert abs(hidden.missing_proba.mean() - 0.2) < 1e-9
    assert (hidden.missing_proba[on_side] > 0.0).all()


def test_a_rate_beyond_the_rows_of_one_side_is_refused_with_the_largest_possible():
    y, tau = posteriors()
    share = np.mean(tau[:, 1] > tau[:, 0])
    with pytest.raises(ValueError, match=f"largest rate is {share:.4g}"):
        hide_labels(y, tau, rate=share + 0.01, side=1)
    assert hide_labels(y, tau, rate=share - 0.001, side=1, random_state=0).missing.mean() == pytest.approx(
        share, abs=0.005
    )


def test_the_signed_margin_loses_labels_towards_one_class():
    y, tau = posteriors()
    missing = hide_labels(y, tau, slope=3.0, rate=0.5, uncertainty="signed-margin", random_state=0).missing
    towards = tau[:, 1] > tau[:, 0]
    assert missing[towards].mean() > missing[~towards].mean() + 0.3


def test_a_slope_of_zero_gives_every_row_the_rate():
    y, tau = posteriors(50)
    tau[0] = [1.0, 0.0]
    for uncertainty in ("margin", "log-entropy", "discriminant"):
        q = hide_labels(y, tau, slope=0.0, rate=0.4, uncertainty=uncertainty).missing_proba
        np.testing.assert_allclose(q, 0.4, atol=1e-9)


@pytest.mark.parametrize(
    ("uncertainty", "slope", "certain"),
    [
        ("margin", -6.0, 1.0),
        ("entropy", 4.0, 0.0),
        ("gini", 8.0, 0.0),
        ("signed-margin", 2.0, -1.0),
        ("log-entropy", 2.0, -np.inf),
        ("discriminant", -0.1, np.inf),
    ],
)
def test_a_row_whose_class_is_certain_has_the_limit_of_the_measure(uncertainty, slope, certain):
    y, tau = posteriors(500)
    tau[7] = [1.0, 0.0]
    hidden = hide_labels(y, tau, slope=slope, rate=0.5, uncertainty=uncertainty)
    assert np.isfinite(hidden.missing_proba).all()
    eta = hidden.mechanism.alpha[0] + slope * certain
    assert hidden.missing_proba[7] == pytest.approx(1.0 / (1.0 + np.exp(-eta)), rel=1e-12, abs=1e-300)


def test_certain_rows_bound_the_rate_of_a_measure_without_limit():
    y, tau = posteriors(100)
    tau[:30] = [1.0, 0.0]
    with pytest.raises(ValueError, match=r"largest rate is 0\.7"):
        hide_labels(y, tau, rate=0.75, slope=2.0, uncertainty="log-entropy")
    with pytest.raises(ValueError, match=r"smallest is 0\.3"):
        hide_labels(y, tau, rate=0.25, slope=-2.0, uncertainty="log-entropy")


def test_a_class_without_probability_does_not_disturb_the_others():
    y, tau = posteriors(300)
    third = np.column_stack([tau, np.zeros(300)])
    for uncertainty, slope in (("margin", -6.0), ("entropy", 4.0), ("log-entropy", 1.0), ("gini", 8.0)):
        two = hide_labels(y, tau, slope=slope, uncertainty=uncertainty).missing_proba
        three = hide_labels(y, third, slope=slope, uncertainty=uncertainty, classes=[0, 1, 2]).missing_proba
        np.testing.assert_allclose(three, two, rtol=1e-9)


def test_relabelling_the_classes_loses_the_same_labels():
    y, tau = posteriors(classes=3)
    order = np.array([2, 0, 1])  # class k becomes order[k]
    renamed = np.empty_like(tau)
    renamed[:, order] = tau
    first = hide_labels(y, tau, rate=0.25, side=0, random_state=0)
    second = hide_labels(order[y], renamed, rate=0.25, side=2, random_state=0)
    np.testing.assert_array_equal(first.missing, second.missing)
    third = hide_labels(order[y], tau, rate=0.25, side=2, classes=order, random_state=0)
    np.testing.assert_array_equal(first.missing, third.missing)


def test_labels_that_are_missing_already_stay_so_and_do_not_count():
    y, tau = posteriors(400)
    before = np.zeros(400, dtype=bool)
    before[:150] = True
    some = hide_labels(np.where(before, -1, y), tau, rate=0.4, random_state=0)
    rest = hide_labels(y[150:], tau[150:], rate=0.4)
    np.testing.assert_allclose(some.missing_proba[150:], rest.missing_proba, rtol=1e-9)
    assert some.missing[:150].all()
    assert (some.target[:150] == -1).all()
    np.testing.assert_array_equal(some.target_true, np.where(before, -1, y))


def test_enough_labels_are_left_in_every_class():
    y = np.repeat([0, 1, 2], [200, 200, 6])
    tau = np.tile([0.4, 0.3, 0.3], (406, 1))
    for seed in range(20):
        left = hide_labels(y, tau, rate=0.7, at_least=3, random_state=seed, return_y=True)
        assert np.bincount(left[left >= 0], minlength=3).min() >= 3
    assert min(np.sum(hide_labels(y, tau, rate=0.7, random_state=s, return_y=True) == 2) for s in range(20)) < 3


def test_generators_move_on_and_seeds_do_not():
    y, tau = posteriors(200)

    def missing(random_state):
        return hide_labels(y, tau, random_state=random_state).missing.tolist()

    assert missing(5) == missing(5) == missing(np.int64(5)) == missing(np.random.default_rng(5))
    for moving in (np.random.default_rng(5), np.random.RandomState(5)):
        assert missing(moving) != missing(moving)
    assert missing(np.random.RandomState(5)) == missing(np.random.RandomState(5))
    assert missing(None) != missing(None)


WRITTEN = {
    "integers": ([3, 4] * 20, -1, "i"),
    "unsigned": (np.array([3, 4] * 20, dtype=np.uint8), -1, "i"),
    "floats": ([0.0, 1.0] * 20, np.nan, "f"),
    "text": (["no", "yes"] * 20, None, "O"),
    "array of text": (np.array(["no", "yes"] * 20), None, "O"),
    "booleans": ([False, True] * 20, None, "O"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_missing_labels_are_written_as_their_kind_is(name):
    y, blank, kind = WRITTEN[name]
    tau = np.tile([0.5, 0.5], (40, 1))
    hidden = hide_labels(y, tau, rate=0.5, random_state=0)
    expected = [blank if lost else label for label, lost in zip(list(y), hidden.missing, strict=True)]
    assert hidden.target.dtype.kind == kind
    np.testing.assert_array_equal(hidden.target, np.array(expected, dtype=hidden.target.dtype))
    np.testing.assert_array_equal(hidden.target_true, y)
    features = np.random.default_rng(0).normal(size=(40, 1))
    classes = MARGaussianMixture(link=None).fit(features, hidden.target).classes_
    assert classes.tolist() == sorted(set(y))


@needs_pandas
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64", "bool", "object", "category", "Int64", "str"])
def test_a_series_stays_a_series(dtype):
    y = pd.Series([0, 1] * 20, index=range(100, 140), name="finding").astype(dtype)
    hidden = hide_labels(y, np.tile([0.5, 0.5], (40, 1)), rate=0.5, random_state=0)
    assert hidden.target.name == "finding"
    assert hidden.target.index.equals(y.index)
    blank = hidden.target.isna() | (hidden.target == -1 if dtype in ("int64", "uint8") else False)
    np.testing.assert_array_equal(blank, hidden.missing)
    assert hidden.target[~blank].tolist() == y[~blank].tolist()
    assert y.isna().sum() == 0
    np.testing.assert_array_equal(hide_labels(y.tolist(), link=None, random_state=0).missing_proba, 0.7)


def test_the_description_counts_the_labels_lost():
    y, tau = posteriors(100)
    hidden = hide_labels(y, tau, "aranda-ordaz", 2.0, rate=0.4, side=1, random_state=0)
    assert f"{hidden.missing.sum()} of 100" in hidden.DESCR
    assert "shape 2" in hidden.DESCR
    assert "only where 1" in hidden.DESCR
    assert "completely at random" in hide_labels(y, link=None).DESCR


@pytest.mark.parametrize(
    ("options", "telling"),
    [
        ({"posterior": None}, "posterior is needed"),
        ({"posterior": np.full((10, 3), 1 / 3)}, r"shape \(10, 3\)"),
        ({"posterior": np.full((9, 2), 0.5)}, r"shape \(9, 2\)"),
        ({"posterior": np.full(10, 0.5)}, r"shape \(10,\)"),
        ({"posterior": np.full((10, 2), 0.6)}, "sum to one"),
        ({"posterior": np.tile([1.5, -0.5], (10, 1))}, "negative"),
        ({"posterior": np.full((10, 2), np.nan)}, "NaN"),
        ({"rate": -0.1}, "rate=-0.1 must be at least 0"),
        ({"rate": 1.0}, "rate=1.0 .* less than 1"),
        ({"rate": 0.0, "side": 2}, "side=2"),
        ({"rate": 0.0, "link": "probit"}, "'probit'"),
        ({"rate": 0.0, "posterior": np.full((9, 2), 0.5)}, r"shape \(9, 2\)"),
        ({"rate": "half"}, "rate='half'"),
        ({"slope": np.inf}, "slope"),
        ({"link": "probit"}, "'probit'"),
        ({"link": "aranda-ordaz"}, "shape=2.0"),
        ({"link": "logit", "shape": 2.0}, "aranda-ordaz"),
        ({"link": "aranda-ordaz", "shape": -1.0}, "shape=-1.0"),
        ({"link": None, "shape": 2.0}, "neither shape nor side"),
        ({"link": None, "side": 0}, "neither shape nor side"),
        ({"uncertainty": "variance"}, "'variance'"),
        ({"side": 2}, r"side=2 is not one of the classes \[0, 1\]"),
        ({"classes": [0, 1, 1]}, "each class once"),
        ({"classes": [0, -1]}, "-1 marks a missing label"),
        ({"classes": [0, 5]}, "label 1"),
        ({"y": [-1] * 10, "classes": [0, 1]}, "no label at all"),
        ({"at_least": 6}, "class 0 has 5 labels"),
        ({"at_least": -1}, "at_least=-1"),
        ({"at_least": 5, "rate": 0.99}, "Lower rate or at_least"),
        ({"link": "aranda-ordaz", "shape": 1e300}, "too extreme"),
        *BAD_STATES,
    ],
)
def test_what_cannot_be_hidden_is_refused_in_words(options, telling):
    given = {"y": np.tile([0, 1], 5), "posterior": np.full((10, 2), 0.5)} | options
    with pytest.raises(ValueError, match=telling):
        hide_labels(given.pop("y"), given.pop("posterior"), **given)


# Simulation.

K, D = 3, 2
RNG = np.random.default_rng(8)
MEANS = RNG.normal(size=(K, D))
ROOTS = RNG.normal(size=(K, D, D)) * 0.3 + np.eye(D)
MATRICES = ROOTS @ np.swapaxes(ROOTS, 1, 2)
POSITIVE = RNG.uniform(1.5, 4.0, size=(2, K, D))
GIVEN = {  # parameters, the density of class k, and its mean and variance
    "gaussian": (
        {"means": MEANS, "covariances": MATRICES},
        lambda X, k: stats.multivariate_normal(MEANS[k], MATRICES[k]).pdf(X),
        lambda k: (MEANS[k], np.diag(MATRICES[k])),
    ),
    "student": (
        {"means": MEANS, "scales": MATRICES, "df": 7.0},
        lambda X, k: stats.multivariate_t(MEANS[k], MATRICES[k], df=7.0).pdf(X),
        lambda k: (MEANS[k], np.diag(MATRICES[k]) * 7.0 / 5.0),
    ),
    "laplace": (
        {"locations": MEANS, "scales": POSITIVE[0]},
        lambda X, k: np.prod(np.exp(-np.abs(X - MEANS[k]) / POSITIVE[0, k]) / (2 * POSITIVE[0, k]), axis=1),
        lambda k: (MEANS[k], 2 * POSITIVE[0, k] ** 2),
    ),
    "gamma": (
        {"shapes": POSITIVE[0], "scales": POSITIVE[1]},
        lambda X, k: np.prod(stats.gamma.pdf(X, POSITIVE[0, k], scale=POSITIVE[1, k]), axis=1),
        lambda k: (POSITIVE[0, k] * POSITIVE[1, k], POSITIVE[0, k] * POSITIVE[1, k] ** 2),
    ),
    "beta": (
        {"a": POSITIVE[0], "b": POSITIVE[1]},
        lambda X, k: np.prod(stats.beta.pdf(X, POSITIVE[0, k], POSITIVE[1, k]), axis=1),
        lambda k: stats.beta.stats(POSITIVE[0, k], POSITIVE[1, k], moments="mv"),
    ),
}
PI = np.array([0.5, 0.3, 0.2])


def drawn(distribution, n, **options):
    return make_mar_mixture(
        n,
        distribution=distribution,
        n_classes=K,
        n_features=D,
        weights=PI,
        parameters=GIVEN[distribution][0],
        **options,
    )


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_posteriors_are_those_of_bayes_rule(distribution):
    data = drawn(distribution, 300, random_state=0)
    joint = np.column_stack([PI[k] * GIVEN[distribution][1](data.data, k) for k in range(K)])
    tau = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(data.posterior, tau, rtol=1e-9)
    ordered = np.sort(tau, axis=1)
    np.testing.assert_allclose(data.margin, ordered[:, -1] - ordered[:, -2], atol=1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_rows_have_the_shares_means_and_variances_of_their_classes(distribution):
    n = 40_000
    data = drawn(distribution, n, random_state=0, rate=None)
    shares = np.bincount(data.target_true) / n
    assert (np.abs(shares - PI) < 4 * np.sqrt(PI * (1 - PI) / n)).all()
    for k in range(K):
        X = data.data[data.target_true == k]
        mean, variance = GIVEN[distribution][2](k)
        assert (np.abs(X.mean(axis=0) - mean) < 4 * np.sqrt(variance / len(X))).all()
        squares = (X - mean) ** 2
        assert (np.abs(squares.mean(axis=0) - variance) < 4 * squares.std(axis=0) / np.sqrt(len(X))).all()


def test_posteriors_far_from_the_boundary_keep_their_digits():
    data = make_mar_mixture(50, separation=50.0, rate=None, random_state=0)
    gap = -50.0 * data.data[:, 0]  # log tau_0 - log tau_1
    smaller = np.minimum(data.posterior[:, 0], data.posterior[:, 1])
    assert smaller.max() < 1e-300
    at = np.abs(gap) < 700
    np.testing.assert_allclose(np.log(smaller[at]), -np.abs(gap[at]), rtol=1e-9)


def test_the_defaults_are_those_of_the_paper():
    means, d = np.array([[-1.0, 0.0], [1.0, 0.0]]), 2
    paper = {
        "gaussian": {"means": means, "covariances": np.eye(d)},
        "laplace": {"locations": means, "scales": [1.0, 0.8]},
        "gamma": {"shapes": [[3.0, 3.0], [5.0, 5.0]], "scales": 1.0},
        "beta": {"a": [[3.0, 5.0], [5.0, 3.0]], "b": [[5.0, 3.0], [3.0, 5.0]]},
        "student": {"means": means, "scales": np.eye(d), "df": 4},
    }
    for distribution, parameters in paper.items():
        plain = make_mar_mixture(100, distribution=distribution, random_state=0)
        named = make_mar_mixture(100, distribution=distribution, parameters=parameters, random_state=0)
        np.testing.assert_array_equal(plain.data, named.data)
        np.testing.assert_array_equal(plain.posterior, named.posterior)
    np.testing.assert_array_equal(places(2, 2, 2.0), means)


@pytest.mark.parametrize(("classes", "features"), [(2, 1), (2, 5), (3, 2), (4, 3), (5, 4), (6, 8)])
def test_where_there_is_room_all_classes_are_equally_far_apart(classes, features):
    centres = places(classes, features, 1.7)
    distance = np.linalg.norm(centres[:, None] - centres, axis=2)
    np.testing.assert_allclose(distance[~np.eye(classes, dtype=bool)], 1.7, rtol=1e-12)
    np.testing.assert_allclose(centres.mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize(("classes", "features"), [(3, 1), (5, 1), (5, 3), (7, 2), (12, 4)])
def test_where_there_is_not_the_nearest_classes_are_the_separation_apart(classes, features):
    centres = places(classes, features, 1.7)
    distance = np.linalg.norm(centres[:, None] - centres, axis=2) + 1e9 * np.eye(classes)
    np.testing.assert_allclose(distance.min(axis=1), 1.7, rtol=1e-12)
    np.testing.assert_allclose(centres.mean(axis=0), 0.0, atol=1e-12)
    assert not centres[:, 2:].any()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("classes", "features"), [(5, 3), (3, 1), (2, 4)])
def test_any_number_of_classes_and_features_can_be_drawn_and_their_posteriors_are_calibrated(
    distribution, classes, features
):
    data = make_mar_mixture(
        20_000, distribution=distribution, n_classes=classes, n_features=features, rate=None, random_state=1
    )
    assert data.data.shape == (20_000, features)
    hot = np.eye(classes)[data.target_true]
    tau = data.posterior
    excess = (hot - tau).sum(axis=0) / np.sqrt(
        (tau * (1 - tau)).sum(axis=0)
    )  # standard normal if the posteriors are right
    assert np.abs(excess).max() < 4
    error = ((hot - tau) ** 2).sum() - (tau * (1 - tau)).sum()
    assert abs(error) < 4 * np.sqrt((((hot - tau) ** 2).sum(axis=1) - (tau * (1 - tau)).sum(axis=1)).var() * 20_000)


def test_defaults_of_gamma_and_beta_for_more_classes():
    data = make_mar_mixture(30_000, distribution="gamma", n_classes=4, n_features=1, rate=None, random_state=0)
    means = [data.data[data.target_true == k].mean() for k in range(4)]
    np.testing.assert_allclose(means, [3, 5, 7, 9], atol=0.15)
    data = make_mar_mixture(30_000, distribution="beta", n_classes=3, n_features=4, rate=None, random_state=0)
    a = np.array([[3, 5, 7, 3], [5, 7, 3, 5], [7, 3, 5, 7]])
    means = [data.data[data.target_true == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(means, a / 10, atol=0.01)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_truncation_keeps_only_small_margins_and_leaves_posteriors_right(distribution):
    data = make_mar_mixture(2000, distribution=distribution, max_margin=0.6, rate=None, random_state=0)
    assert len(data.data) == 2000
    assert data.margin.max() <= 0.6
    assert data.margin.max() > 0.55
    tau = data.posterior[:, 1]
    assert abs(np.sum(data.target_true - tau)) < 4 * np.sqrt(np.sum(tau * (1 - tau)))


def test_truncation_that_keeps_nothing_is_refused():
    with pytest.raises(ValueError, match="too far apart"):
        make_mar_mixture(10, separation=60.0, max_margin=0.5)


def test_the_rows_do_not_depend_on_what_is_hidden():
    one = make_mar_mixture(300, random_state=4)
    for options in (
        {"rate": None},
        {"rate": 0.2},
        {"link": None},
        {"side": 1, "rate": 0.3},
        {"uncertainty": "entropy", "slope": 3.0},
        {"at_least": 45},
    ):
        other = make_mar_mixture(300, random_state=4, **options)
        np.testing.assert_array_equal(other.data, one.data)
        np.testing.assert_array_equal(other.target_true, one.target_true)
    assert not np.array_equal(make_mar_mixture(300, random_state=5).data, one.data)


def test_the_labels_of_a_mixture_are_lost_by_its_posterior():
    data = make_mar_mixture(
        3000, n_classes=3, link="aranda-ordaz", shape=2.0, slope=-4.0, rate=0.6, weights=PI, random_state=0
    )
    alpha, shape = data.mechanism.alpha, data.mechanism.shape
    np.testing.assert_allclose(data.missing_proba, textbook_missing_proba(data.margin**2, alpha, shape), rtol=1e-8)
    assert abs(data.missing_proba.mean() - 0.6) < 1e-9
    missing = data.missing
    np.testing.assert_array_equal(missing, data.target == -1)
    assert abs(np.sum(missing - data.missing_proba)) < 4 * np.sqrt(
        np.sum(data.missing_proba * (1 - data.missing_proba))
    )
    np.testing.assert_array_equal(data.target[~missing], data.target_true[~missing])


@pytest.mark.parametrize("rate", [None, 0, 0.0])
def test_a_rate_of_none_or_zero_hides_nothing(rate):
    data = make_mar_mixture(50, rate=rate, random_state=0)
    np.testing.assert_array_equal(data.target, data.target_true)
    np.testing.assert_array_equal(data.missing, np.full(50, False))
    np.testing.assert_array_equal(data.missing_proba, np.zeros(50))
    assert data.mechanism is None
    assert "No label is missing" in data.DESCR
    assert make_mar_mixture(50, rate=rate, uncertainty=lambda log_tau: log_tau[:, 0]).mechanism is None


@pytest.mark.parametrize(("other", "name"), [("normal", "gaussian"), ("t", "student")])
def test_distributions_go_by_their_other_names_too(other, name):
    one, two = (make_mar_mixture(50, distribution=given, random_state=0) for given in (other, name))
    np.testing.assert_array_equal(one.data, two.data)
    np.testing.assert_array_equal(one.target, two.target)
    assert one.DESCR == two.DESCR


def test_an_unknown_distribution_is_told_all_names():
    with pytest.raises(ValueError, match="distribution='cauchy'") as caught:
        make_mar_mixture(distribution="cauchy")
    assert all(repr(name) in str(caught.value) for name in (*FAMILIES, *OTHER_NAMES))


def test_few_rows_may_lack_a_class():
    data = make_mar_mixture(1, n_classes=3, rate=0.5, random_state=0)
    assert data.data.shape == (1, 2)
    assert data.posterior.shape == (1, 3)


def test_a_random_state_of_any_kind_is_taken():
    for kind in (np.random.default_rng, np.random.RandomState):
        one = kind(0)
        first, second = make_mar_mixture(20, random_state=one), make_mar_mixture(20, random_state=one)
        np.testing.assert_array_equal(make_mar_mixture(20, random_state=kind(0)).data, first.data)
        assert not np.array_equal(first.data, second.data)


def test_a_model_fits_what_was_made():
    clf = MARGaussianMixture().fit(*make_mar_mixture(return_X_y=True, random_state=0))
    assert clf.classes_.tolist() == [0, 1]
    X, y = make_mar_mixture(20_000, return_X_y=True, random_state=0)
    clf = MARGaussianMixture(link="logit").fit(X, y)
    np.testing.assert_allclose(clf.means_, [[-1, 0], [1, 0]], atol=0.06)
    assert clf.alpha_[1] == pytest.approx(-6.0, abs=0.6)


@needs_pandas
def test_frames_hold_the_same_rows():
    plain = make_mar_mixture(30, random_state=0)
    framed = make_mar_mixture(30, random_state=0, as_frame=True)
    assert plain.frame is None
    assert framed.frame.columns.tolist() == ["x1", "x2", "target"] == [*plain.feature_names, "target"]
    np.testing.assert_array_equal(framed.data.to_numpy(), plain.data)
    np.testing.assert_array_equal(framed.frame["target"], plain.target)
    assert framed.target.name == "target"
    assert framed.posterior.columns.tolist() == plain.target_names == ["class 0", "class 1"]
    np.testing.assert_array_equal(framed.posterior.to_numpy(), plain.posterior)
    for name in ("target_true", "margin", "missing", "missing_proba"):
        assert isinstance(framed[name], pd.Series)
        assert framed[name].name == name
        assert framed[name].dtype == plain[name].dtype
        np.testing.assert_array_equal(framed[name].to_numpy(), plain[name])
    for name in ("data", "target", "target_true", "posterior", "margin", "missing", "missing_proba"):
        assert framed[name].index.equals(framed.frame.index)
        assert isinstance(plain[name], np.ndarray)
    again = hide_labels(framed.target_true, framed.posterior, rate=0.5, random_state=0)
    np.testing.assert_array_equal(
        again.missing, hide_labels(plain.target_true, plain.posterior, rate=0.5, random_state=0).missing
    )
    X, y = make_mar_mixture(30, random_state=0, as_frame=True, return_X_y=True)
    assert X.equals(framed.data)
    assert y.equals(framed.target)
    assert MARGaussianMixture(link=None).fit(X, y).feature_names_in_.tolist() == ["x1", "x2"]


@pytest.mark.parametrize(
    ("options", "telling"),
    [
        ({"distribution": ["t"]}, r"distribution=\['t'\] is not one of 'gaussian' \(or 'normal'\)"),
        *BAD_STATES,
        ({"n_samples": 0}, "n_samples=0"),
        ({"n_samples": 10.5}, "n_samples=10.5"),
        ({"n_classes": 1}, "n_classes=1"),
        ({"n_features": 0}, "n_features=0"),
        ({"weights": [0.5, 0.6]}, "sum to one"),
        ({"weights": [1.0, 0.0]}, "positive"),
        ({"weights": [0.2, 0.3, 0.5]}, "weights must be 2"),
        ({"parameters": {"mu": 0.0}}, "no 'mu'; it has 'means', 'covariances'"),
        ({"parameters": {"means": np.zeros((3, 2))}}, r"means has shape \(3, 2\)"),
        ({"parameters": {"means": [[1.0, np.nan], [0.0, 0.0]]}}, "means holds NaN"),
        ({"parameters": {"means": "far"}}, "means must be numbers"),
        ({"parameters": {"covariances": [1.0, 1.0]}}, r"covariances has shape \(2,\)"),
        ({"parameters": {"covariances": [[1.0, 2.0], [2.0, 1.0]]}}, "positive definite"),
        ({"parameters": {"covariances": [[1.0, 0.5], [0.0, 1.0]]}}, "symmetric"),
        ({"distribution": "student", "parameters": {"df": 0}}, "df must be positive"),
        ({"distribution": "laplace", "parameters": {"scales": [1.0, -1.0]}}, "scales must be positive"),
        ({"distribution": "gamma", "parameters": {"shapes": 1e-4}}, "edge"),
        ({"distribution": "gamma", "separation": 3.0}, "has no separation"),
        ({"separation": 3.0, "parameters": {"means": [[0.0, 0.0], [1.0, 1.0]]}}, "takes no separation"),
        ({"separation": -1.0}, "separation=-1.0"),
        ({"max_margin": 0.0}, "max_margin=0.0"),
        ({"max_margin": 2.0}, "max_margin=2.0"),
        ({"rate": 1.0}, "rate=1.0"),
        ({"rate": 2.0}, "rate=2.0"),
        ({"side": 2}, "side=2"),
        ({"link": "aranda-ordaz"}, "shape=2.0"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(options, telling):
    with pytest.raises(ValueError, match=telling):
        make_mar_mixture(**({"random_state": 0} | options))


@pytest.mark.parametrize("module", [hiding, simulation])
def test_examples_in_docstrings_print_what_they_show(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


# Files.


@pytest.fixture
def shared(monkeypatch):
    """The folder of the real files, in force as MARMIX_DATA."""
    folder = Path(os.environ.get("MARMIX_SHARED", "/nowhere")) / "data"
    if not (folder / "magic04.data").exists():
        pytest.skip("MARMIX_SHARED does not name a folder with data/magic04.data")
    monkeypatch.setenv("MARMIX_DATA", str(folder))


@pytest.fixture
def fake(monkeypatch):
    """A small file in place of MAGIC's, that no source has."""
    content = b"".join(b"%d.5," % i * 10 + b"gh"[i % 2 : i % 2 + 1] + b"\n" for i in range(6))
    monkeypatch.setattr(files, "MAGIC", files.MAGIC._replace(sha256=hashlib.sha256(content).hexdigest(), addresses=()))
    monkeypatch.setenv("no_proxy", "*")
    return content


class Server(http.server.ThreadingHTTPServer):
    """Serves what is in `pages` and counts who asks."""

    def __init__(self, pages):
        self.pages, self.asked = pages, []
        super().__init__(("127.0.0.1", 0), Handler)

    def address(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        page = self.server.pages.get(self.path.removeprefix("/"))
        self.send_response(200 if page is not None else 404)
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *args):
        pass


@pytest.fixture
def serve(monkeypatch, fake):
    """A function that serves pages on this machine and makes them the sources of MAGIC, in this order."""
    servers = []

    def begin(**pages):
        server = Server(pages)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        addresses = tuple(server.address(name) for name in pages)
        monkeypatch.setattr(files, "MAGIC", files.MAGIC._replace(addresses=addresses))
        return server

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def zipped(content, name="magic04.data"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("magic04.names", "about")
        archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.usefixtures("shared")
def test_magic_is_read_from_the_folder_in_the_environment():
    data = load_magic(download_if_missing=False)
    assert data.data.shape == (19020, 10)
    assert np.bincount(data.target).tolist() == [12332, 6688]
    assert data.target_names == ["gamma", "hadron"]
    assert data.data[0].tolist() == [
        28.7967,
        16.0021,
        2.6449,
        0.3918,
        0.1982,
        27.7004,
        22.011,
        -8.2027,
        40.092,
        81.8828,
    ]
    some = load_magic(columns=["fAlpha", "fLength"])
    np.testing.assert_array_equal(some.data, data.data[:, [8, 0]])
    assert some.feature_names == ["fAlpha", "fLength"]
    assert 0 <= data.data[:, 8].min() < data.data[:, 8].max() <= 90  # degrees


@pytest.mark.usefixtures("shared")
def test_gastro_has_labels_where_endoscopists_agree_and_they_are_right():
    data = load_gastro()
    assert data.data.shape == (76, 4)
    known = data.target >= 0
    assert np.bincount(data.target[known]).tolist() == [4, 31]
    np.testing.assert_array_equal(data.target[known], data.target_true[known])
    assert np.bincount(data.target_true).tolist() == [21, 55]
    np.testing.assert_allclose(data.data.mean(axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose((data.data**2).sum(axis=0), 1.0, rtol=1e-14)
    lines = (Path(os.environ["MARMIX_DATA"]) / "gastro.csv").read_text().splitlines()[1:]
    assert all(f"{float(x):.15g}" == x for line in lines for x in line.split(",")[:4])
    X, y = load_gastro(return_X_y=True)
    np.testing.assert_array_equal(X, data.data)
    np.testing.assert_array_equal(y, data.target)


@pytest.mark.usefixtures("shared")
@needs_pandas
def test_real_data_come_as_frames_too():
    data = load_gastro(as_frame=True)
    assert data.frame.columns.tolist() == [*data.feature_names, "target"]
    assert (data.target == -1).sum() == 41
    assert isinstance(data.target_true, pd.Series)
    assert data.target_true.index.equals(data.frame.index)
    assert data.target_true.tolist() == load_gastro().target_true.tolist()
    X, y = load_magic(columns=["fSize"], as_frame=True, return_X_y=True)
    assert X.columns.tolist() == ["fSize"]
    assert y.name == "target"


def test_unknown_columns_are_refused_before_anything_is_read():
    with pytest.raises(ValueError, match="no 'alpha'; there are fLength"):
        load_magic(columns=["alpha"])
    with pytest.raises(ValueError, match="once"):
        load_magic(columns=["fSize", "fSize"])


def test_the_folder_is_the_one_given_then_the_environment_s_then_the_cache(monkeypatch, tmp_path, fake):
    folders = [tmp_path / name for name in ("given", "environment", "xdg/marmix", "home/.cache/marmix")]

    def where():
        with pytest.raises(OSError, match=r"magic04\.data is not there") as caught:
            load_magic(download_if_missing=False)
        return Path(str(caught.value).split(" is not there")[0]).parent

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("MARMIX_DATA", raising=False)
    assert where() == folders[3]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert where() == folders[2]
    monkeypatch.setenv("MARMIX_DATA", str(folders[1]))
    assert where() == folders[1]
    folders[0].mkdir()
    (folders[0] / "magic04.data").write_bytes(fake)
    assert load_magic(data_home=folders[0]).target.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_file_of_another_content_is_refused_and_left_alone(tmp_path, fake):
    path = tmp_path / "magic04.data"
    path.write_bytes(fake.replace(b"\n", b"\r\n"))
    with pytest.raises(ValueError, match=r"SHA-256.*expected.*Delete it"):
        load_magic(data_home=tmp_path)
    assert path.exists()
    (tmp_path / "gastro.csv").write_text("label,truth\n")
    with pytest.raises(ValueError, match="SHA-256"):
        load_gastro(data_home=tmp_path)


def test_without_file_and_network_the_error_says_what_to_do(monkeypatch, tmp_path, fake, serve):
    serve(nothing=None)
    with pytest.raises(OSError, match="404") as caught:
        load_magic(data_home=tmp_path)
    for telling in (str(tmp_path), "archive.ics.uci.edu/dataset/159", "MARMIX_DATA", "data_home"):
        assert telling in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(files, "MAGIC", files.MAGIC._replace(addresses=("http://127.0.0.1:9/nobody",)))
    with pytest.raises(OSError, match="not downloaded"):
        load_magic(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_gastro_is_never_downloaded_and_its_error_says_what_it_is(tmp_path):
    with pytest.raises(OSError, match="no public address") as caught:
        load_gastro(data_home=tmp_path / "folder")
    rebuilt = "features 294, 441, 472 and 486 of that set, each centred, scaled to unit sum of squares"
    for telling in ("feature_294", "truth", rebuilt, files.GASTRO.sha256, "dataset/408", "MARMIX_DATA"):
        assert telling in str(caught.value)
    assert not (tmp_path / "folder").exists()
    assert "features 294, 441, 472 and 486" in " ".join(files.GASTRO_DESCRIPTION.split())
    assert "sum of squares 1" in " ".join(files.GASTRO_DESCRIPTION.split())


@pytest.mark.parametrize("way", ["zip", "plain", "second source", "zip without the member", "broken zip"])
def test_a_download_is_checked_kept_and_not_repeated(tmp_path, fake, serve, way):
    pages = {
        "zip": {"archive": zipped(fake)},
        "plain": {"file": fake},
        "second source": {"lost": None, "file": fake},
        "zip without the member": {"archive": zipped(fake, "../magic04.data"), "file": fake},
        "broken zip": {"archive": zipped(fake).replace(b"PK\x03\x04", b"PK\x03\x05"), "file": fake},
    }[way]
    server = serve(**pages)
    folder = tmp_path / "new" / "folder"
    data = load_magic(data_home=folder)
    np.testing.assert_array_equal(data.data[:, 3], np.arange(6) + 0.5)
    assert [path.name for path in folder.iterdir()] == ["magic04.data"]
    assert (folder / "magic04.data").read_bytes() == fake
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert len(server.asked) == len(pages)
    load_magic(data_home=folder)
    assert len(server.asked) == len(pages)


def test_a_source_with_another_content_is_refused_and_leaves_nothing(tmp_path, fake, serve):
    serve(archive=zipped(fake + b"more"), file=fake[1:])
    with pytest.raises(OSError, match="another file, by its SHA-256"):
        load_magic(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", [lambda content: content, zipped], ids=["plain", "zip"])
def test_a_download_without_end_is_given_up(monkeypatch, tmp_path, fake, serve, page):
    serve(file=page(fake + b"0" * 10_000))
    monkeypatch.setattr(files, "LARGEST", 5_000)
    with pytest.raises(OSError, match="more than 5,000 bytes"):
        load_magic(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_nothing(monkeypatch, tmp_path, fake, serve):
    serve(file=fake)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        load_magic(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_download_is_tried_where_it_is_not_wanted(tmp_path, fake, serve):
    server = serve(file=fake)
    with pytest.raises(OSError, match="download_if_missing=False"):
        load_magic(data_home=tmp_path, download_if_missing=False)
    assert server.asked == []
