"""hide_labels: labels hidden by a chosen mechanism."""

import itertools
import re

import numpy as np
import pytest
from conftest import textbook_missing_proba
from scipy import stats

from marmix import MARGaussianMixture
from marmix.core.measures import MEASURES
from marmix.datasets import hide_labels, make_mar_mixture

try:
    import pandas as pd
except ImportError:
    pd = None

needs_pandas = pytest.mark.skipif(pd is None, reason="pandas is not installed")


def posteriors(n=2000, classes=2, seed=0):
    """Random posteriors, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    tau = rng.dirichlet(np.ones(classes), size=n)
    y = (rng.uniform(size=n)[:, None] > np.cumsum(tau, axis=1)[:, :-1]).sum(axis=1)
    return y, tau


@pytest.mark.parametrize(
    ("link", "shape", "textbook"), [("logit", None, 1.0), ("cloglog", None, 0.0), ("aranda-ordaz", 2.5, 2.5)]
)
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
def test_labels_are_hidden_by_the_textbook_s_link_at_the_rate_asked_for(link, shape, textbook, rate):
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
    "uncertainty", [name for name, measure in MEASURES.items() if measure.grows in ("clear", "unclear")]
)
def test_with_the_sign_that_fits_the_measure_hard_rows_have_their_labels_hidden_first(uncertainty):
    slope = MEASURES[uncertainty].slope
    y, tau = posteriors()  # of two classes, all measures put rows in the same order
    hardest_first = np.argsort(np.abs(tau[:, 0] - tau[:, 1]))
    for sign in (1, -1):
        q = hide_labels(y, tau, slope=sign * slope, measure=uncertainty).missing_proba[hardest_first]
        assert (np.diff(sign * q) <= 0.0).all()
        assert sign * q[0] > sign * 0.7 > sign * q[-1]


@pytest.mark.parametrize("uncertainty", [name for name, measure in MEASURES.items() if measure.only_classes is None])
@pytest.mark.parametrize("classes", [2, 4])
def test_without_a_slope_hard_rows_clearly_have_their_labels_hidden_first(uncertainty, classes):
    y, tau = posteriors(classes=classes)
    hidden = hide_labels(y, tau, measure=uncertainty, random_state=0)
    made = make_mar_mixture(2000, n_classes=classes, n_features=3, measure=uncertainty, random_state=0)
    for missing, of_class in ((hidden.missing, tau), (made.missing, made.posterior)):
        largest = of_class.max(axis=1)
        assert stats.ttest_ind(largest[missing], largest[~missing], equal_var=False).statistic < -4


@pytest.mark.parametrize("slope", [None, 3.0])
def test_the_signed_margin_hides_labels_towards_the_second_class(slope):
    y, tau = posteriors()
    options = {"measure": "signed-margin", "slope": slope, "rate": 0.5, "random_state": 0}
    hidden, made = hide_labels(y, tau, **options), make_mar_mixture(2000, **options)
    for missing, of_class in ((hidden.missing, tau), (made.missing, made.posterior)):
        towards = of_class[:, 1] > 0.5
        assert missing[towards].mean() > missing[~towards].mean() + 0.3


def test_the_slopes_documented_are_those_in_force():
    y, tau = posteriors(100)
    table = dict(re.findall(r'^ +``"([a-z-]+)"`` +(-?[\d.]+)', hide_labels.__doc__, re.M))
    assert {name: float(slope) for name, slope in table.items()} == {m.name: m.slope for m in MEASURES.values()}
    for uncertainty, slope in ((m.name, m.slope) for m in MEASURES.values()):
        assert hide_labels(y, tau, measure=uncertainty).mechanism.alpha[1] == slope
        assert make_mar_mixture(100, measure=uncertainty, random_state=0).mechanism.alpha[1] == slope
        # a number is taken as given, also of the other sign
        assert make_mar_mixture(100, measure=uncertainty, slope=-slope, random_state=0).mechanism.alpha[1] == -slope


def test_a_callable_needs_a_slope_unless_none_is_used():
    y, tau = posteriors(100)

    def margin(log_tau):
        return (np.exp(log_tau[:, 0]) - np.exp(log_tau[:, 1])) ** 2

    for call in (lambda **o: hide_labels(y, tau, **o), lambda **o: make_mar_mixture(50, **o)):
        with pytest.raises(ValueError, match="slope is needed with a callable"):
            call(measure=margin)
        assert call(measure=margin, link=None).mechanism is None
    q = hide_labels(y, tau, measure=margin, slope=-6.0).missing_proba
    np.testing.assert_allclose(q, hide_labels(y, tau).missing_proba, rtol=1e-9)


@pytest.mark.parametrize("rate", [0, 0.0, np.float64(0.0)])
@pytest.mark.parametrize("link", ["logit", None])
def test_at_a_rate_of_zero_no_label_is_hidden(rate, link):
    y, tau = posteriors(60)
    before = np.arange(60) < 20
    y = np.where(before, -1, y)
    for of_class in (tau, None):
        hidden = hide_labels(y, of_class, link, rate=rate, random_state=0)
        np.testing.assert_array_equal(hidden.target, y)
        np.testing.assert_array_equal(hidden.missing, before)
        np.testing.assert_array_equal(hidden.missing_proba, np.zeros(60))
        assert hidden.mechanism is None


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
    hidden = hide_labels(y, tau, "aranda-ordaz", 0.5, 2.0, 0.4, measure="entropy", random_state=0)
    np.testing.assert_allclose(hidden.mechanism.missing_proba(np.log(tau)), hidden.missing_proba, rtol=1e-12)


def test_a_higher_rate_hides_the_same_labels_and_more():
    y, tau = posteriors()
    missing = [hide_labels(y, tau, rate=rate, random_state=3).missing for rate in (0.2, 0.5, 0.8, 0.9)]
    for fewer, more in itertools.pairwise(missing):
        assert (more | ~fewer).all()
        assert more.sum() > fewer.sum()


def test_without_a_link_labels_are_hidden_whatever_their_posterior():
    y, tau = posteriors(20_000)
    hidden = hide_labels(y, link=None, rate=0.3, random_state=0)
    assert hidden.mechanism is None
    np.testing.assert_array_equal(hidden.missing_proba, np.full(len(y), 0.3))
    assert abs(hidden.missing.mean() - 0.3) < 3 * np.sqrt(0.21 / len(y))

    def p_value(missing):
        return stats.chi2_contingency(np.histogram2d(missing, np.abs(tau[:, 0] - tau[:, 1]), bins=[2, 10])[0]).pvalue

    assert p_value(hidden.missing) > 0.01
    sloped = hide_labels(y, tau, slope=-1.0, rate=0.3, random_state=0)
    assert p_value(sloped.missing) < 1e-6  # the same test sees a slope of -1


def test_one_sided_no_label_is_hidden_on_the_other_side():
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


def test_a_slope_of_zero_gives_every_row_the_rate():
    y, tau = posteriors(50)
    tau[0] = [1.0, 0.0]
    for uncertainty in ("margin", "log-entropy", "discriminant"):
        q = hide_labels(y, tau, slope=0.0, rate=0.4, measure=uncertainty).missing_proba
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
    hidden = hide_labels(y, tau, slope=slope, rate=0.5, measure=uncertainty)
    assert np.isfinite(hidden.missing_proba).all()
    eta = hidden.mechanism.alpha[0] + slope * certain
    assert hidden.missing_proba[7] == pytest.approx(1.0 / (1.0 + np.exp(-eta)), rel=1e-12, abs=1e-300)


def test_certain_rows_bound_the_rate_of_a_measure_without_limit():
    y, tau = posteriors(100)
    tau[:30] = [1.0, 0.0]
    with pytest.raises(ValueError, match=r"largest rate is 0\.7"):
        hide_labels(y, tau, rate=0.75, slope=2.0, measure="log-entropy")
    with pytest.raises(ValueError, match=r"smallest is 0\.3"):
        hide_labels(y, tau, rate=0.25, slope=-2.0, measure="log-entropy")


def test_a_class_without_probability_does_not_disturb_the_others():
    y, tau = posteriors(300)
    third = np.column_stack([tau, np.zeros(300)])
    for uncertainty, slope in (("margin", -6.0), ("entropy", 4.0), ("log-entropy", 1.0), ("gini", 8.0)):
        two = hide_labels(y, tau, slope=slope, measure=uncertainty).missing_proba
        three = hide_labels(y, third, slope=slope, measure=uncertainty, classes=[0, 1, 2]).missing_proba
        np.testing.assert_allclose(three, two, rtol=1e-9)


def test_relabelling_the_classes_hides_the_same_labels():
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
    before = np.arange(400) < 150
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
    expected = [blank if missing else label for label, missing in zip(list(y), hidden.missing, strict=True)]
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


def test_the_description_counts_the_hidden_labels():
    y, tau = posteriors(100)
    hidden = hide_labels(y, tau, "aranda-ordaz", 2.0, rate=0.4, side=1, random_state=0)
    assert f"{hidden.missing.sum()} of 100" in hidden.DESCR
    assert "shape 2" in hidden.DESCR
    assert "only where 1" in hidden.DESCR
    assert "completely at random" in hide_labels(y, link=None).DESCR


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"posterior": None}, "posterior is needed"),
        ({"posterior": np.full((10, 3), 1 / 3)}, r"shape \(10, 3\)"),
        ({"posterior": np.full((9, 2), 0.5)}, r"shape \(9, 2\)"),
        ({"posterior": np.full(10, 0.5)}, r"shape \(10,\)"),
        ({"posterior": np.full((10, 2), 0.6)}, "sum to one"),
        ({"posterior": np.tile([1.5, -0.5], (10, 1))}, "posterior has 1.5"),
        ({"posterior": np.full((10, 2), np.nan)}, "posterior has nan"),
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
        ({"measure": "variance"}, "'variance'"),
        ({"side": 2}, r"side=2 is not one of the classes \[0, 1\]"),
        ({"classes": [0, 1, 1]}, "each class once"),
        ({"classes": [0, -1]}, "-1 marks a missing label"),
        ({"classes": [0, 5]}, "label 1"),
        ({"y": [-1] * 10, "classes": [0, 1]}, "no label at all"),
        ({"at_least": 6}, "class 0 has 5 labels"),
        ({"at_least": -1}, "at_least=-1"),
        ({"at_least": 5, "rate": 0.99}, "at_least=5.*rate"),
        ({"link": "aranda-ordaz", "shape": 1e300}, "too extreme"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    arguments = {"y": np.tile([0, 1], 5), "posterior": np.full((10, 2), 0.5)} | options
    with pytest.raises(ValueError, match=message):
        hide_labels(**arguments)


@pytest.mark.parametrize("state", [-1, np.int64(-7), "seed", 1.5, [1, 2]])
def test_a_wrong_random_state_is_refused(state):
    for call in (
        lambda: make_mar_mixture(random_state=state),
        lambda: hide_labels([0, 1], link=None, random_state=state),
    ):
        with pytest.raises(ValueError, match=rf"random_state={re.escape(repr(state))} must be an integer >= 0"):
            call()
