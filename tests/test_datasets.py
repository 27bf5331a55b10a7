"""Data sets: simulated rows with exact posteriors, labels hidden by a chosen mechanism, and real rows whose hard labels are."""

import itertools
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import textbook_missing_proba
from scipy import stats

from marmix import MARGaussianMixture
from marmix.core.measures import MEASURES
from marmix.datasets import hard, hide_labels, load_mammography, load_odd_digits, load_tumours, make_mar_mixture
from marmix.datasets.families import places

K, D = 3, 2
RNG = np.random.default_rng(8)
PI, MEANS = np.array([0.5, 0.3, 0.2]), RNG.normal(size=(K, D))
ROOTS = RNG.normal(size=(K, D, D)) * 0.3 + np.eye(D)
MATRICES = ROOTS @ np.swapaxes(ROOTS, 1, 2)
A, B = RNG.uniform(1.5, 4.0, size=(2, K, D))
GIVEN = {  # parameters, and the law of class k: of all features, or of each one
    "gaussian": ({"means": MEANS, "covariances": MATRICES}, lambda k: stats.multivariate_normal(MEANS[k], MATRICES[k])),
    "student": (
        {"means": MEANS, "scales": MATRICES, "df": 7.0},
        lambda k: stats.multivariate_t(MEANS[k], MATRICES[k], 7),
    ),
    "laplace": ({"locations": MEANS, "scales": A}, lambda k: stats.laplace(MEANS[k], A[k])),
    "gamma": ({"shapes": A, "scales": B}, lambda k: stats.gamma(A[k], scale=B[k])),
    "beta": ({"a": A, "b": B}, lambda k: stats.beta(A[k], B[k])),
}


# Simulated rows.


@pytest.mark.parametrize("distribution", GIVEN)
def test_rows_have_the_shares_and_laws_of_their_classes_and_posteriors_by_bayes_rule(distribution):
    parameters, law = GIVEN[distribution]
    options = {"n_classes": K, "n_features": D, "weights": PI, "rate": None}
    data = make_mar_mixture(4000, distribution=(distribution, parameters), random_state=0, **options)
    density = np.array([law(k).pdf(data.data) for k in range(K)])
    tau = (density if density.ndim == 2 else density.prod(axis=2)).T * PI
    tau /= tau.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(data.posterior, tau, rtol=1e-9)
    ordered = np.sort(tau, axis=1)
    np.testing.assert_allclose(data.margin, ordered[:, -1] - ordered[:, -2], atol=1e-9)
    assert stats.chisquare(np.bincount(data.target_true), 4000 * PI).pvalue > 1e-4
    for k in range(K):
        drawn = data.data[data.target_true == k]
        again = law(k).rvs(size=4000 if density.ndim == 2 else (4000, D), random_state=1)
        assert min(stats.ks_2samp(a, b).pvalue for a, b in zip(drawn.T, again.T, strict=True)) > 1e-4


@pytest.mark.parametrize("distribution", GIVEN)
@pytest.mark.parametrize(("classes", "features", "limit"), [(5, 3, None), (2, 1, 0.6)])
def test_posteriors_are_calibrated_for_any_number_of_classes_and_with_truncation(
    distribution, classes, features, limit
):
    options = {"n_classes": classes, "n_features": features, "max_margin": limit, "rate": None}
    data = make_mar_mixture(8000, distribution=distribution, random_state=1, **options)
    assert data.data.shape == (8000, features)
    assert data.margin.max() <= (limit or 1.0)
    tau = data.posterior
    excess = (np.eye(classes)[data.target_true] - tau).sum(axis=0) / np.sqrt((tau * (1 - tau)).sum(axis=0))
    assert np.abs(excess).max() < 4  # standard normal


def test_the_defaults_are_those_of_the_paper():
    means = np.array([[-1.0, 0.0], [1.0, 0.0]])
    paper = {
        "gaussian": {"means": means, "covariances": np.eye(2)},
        "laplace": {"locations": means, "scales": [1.0, 0.8]},
        "gamma": {"shapes": [[3.0, 3.0], [5.0, 5.0]], "scales": 1.0},
        "beta": {"a": [[3.0, 5.0], [5.0, 3.0]], "b": [[5.0, 3.0], [3.0, 5.0]]},
    }
    for distribution, parameters in paper.items():
        plain = make_mar_mixture(100, distribution=distribution, random_state=0)
        named = make_mar_mixture(100, distribution=(distribution, parameters), random_state=0)
        np.testing.assert_array_equal(plain.data, named.data)


@pytest.mark.parametrize(("classes", "features"), [(2, 1), (3, 2), (6, 8), (5, 1), (7, 2), (12, 4)])
def test_neighbouring_classes_are_the_separation_apart(classes, features):
    centres = places(classes, features, 1.7)
    distance = np.linalg.norm(centres[:, None] - centres, axis=2) + np.diag([np.inf] * classes)
    np.testing.assert_allclose(distance.min(axis=1), 1.7, rtol=1e-12)
    np.testing.assert_allclose(centres.mean(axis=0), 0.0, atol=1e-12)


def test_the_rows_do_not_depend_on_what_is_hidden():
    plain = make_mar_mixture(300, random_state=4)
    for options in ({"rate": None}, {"rate": 0.2}, {"link": None}, {"measure": "signed-margin"}, {"at_least": 45}):
        data = make_mar_mixture(300, random_state=4, **options)
        np.testing.assert_array_equal(data.data, plain.data)
        np.testing.assert_array_equal(data.target_true, plain.target_true)
    assert not np.array_equal(make_mar_mixture(300, random_state=5).data, plain.data)


def test_a_model_recovers_what_was_made():
    rows = make_mar_mixture(20_000, random_state=0)
    clf = MARGaussianMixture(measure="margin").fit(rows.data, rows.target)
    np.testing.assert_allclose(clf.means_, [[-1, 0], [1, 0]], atol=0.06)
    assert clf.alpha_[1] == pytest.approx(-6.0, abs=0.6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distribution": "cauchy"}, "'cauchy' is not one of 'gaussian'"),
        ({"n_samples": 0}, "n_samples=0"),
        ({"n_classes": 1}, "n_classes=1"),
        ({"weights": [0.5, 0.6]}, "sum to one"),
        ({"distribution": ("gaussian", {"mu": 0.0})}, "no 'mu'; it has 'means', 'covariances'"),
        ({"distribution": ("gamma", {"shapes": 1e-4})}, "edge"),
        ({"max_margin": 2.0}, "max_margin=2.0"),
        ({"rate": 1.0}, "rate=1.0"),
    ],
)
def test_rows_that_cannot_be_made_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_mar_mixture(**({"random_state": 0} | options))


# Hidden labels.


def posteriors(n=2000, classes=2, seed=0):
    """Random posteriors, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    tau = rng.dirichlet(np.ones(classes), size=n)
    return (rng.uniform(size=n)[:, None] > np.cumsum(tau, axis=1)[:, :-1]).sum(axis=1), tau


@pytest.mark.parametrize(("link", "shape"), [("logit", 1.0), ("cloglog", 0.0), (2.5, 2.5)])
@pytest.mark.parametrize("rate", [0.05, 0.95])
def test_labels_are_hidden_by_the_textbook_s_link_at_the_rate_asked_for(link, shape, rate):
    y, tau = posteriors()
    hidden = hide_labels(y, tau, link, -3.0, rate, random_state=1)
    q, u = hidden.missing_proba, (tau[:, 0] - tau[:, 1]) ** 2
    np.testing.assert_allclose(q, textbook_missing_proba(u, hidden.mechanism.alpha, shape), rtol=1e-9)
    np.testing.assert_allclose(q, hidden.mechanism.missing_proba(np.log(tau)), rtol=1e-9)
    assert (hidden.mechanism.alpha[1], q.mean()) == (-3.0, pytest.approx(rate, abs=1e-9))
    assert abs(np.sum(hidden.missing - q)) < 3 * np.sqrt(np.sum(q * (1 - q)))
    np.testing.assert_array_equal(hidden.target, np.where(hidden.missing, -1, y))


@pytest.mark.parametrize("measure", [name for name, m in MEASURES.items() if m.grows in ("clear", "unclear")])
def test_hard_rows_have_their_labels_hidden_first_unless_the_slope_has_the_other_sign(measure):
    y, tau = posteriors()  # of two classes, all measures put rows in the same order
    hardest_first = np.argsort(np.abs(tau[:, 0] - tau[:, 1]))
    slope = hide_labels(y, tau, measure=measure).mechanism.alpha[1]
    assert slope == MEASURES[measure].slope
    for sign in (1, -1):
        q = hide_labels(y, tau, slope=sign * slope, measure=measure).missing_proba[hardest_first]
        assert (np.diff(sign * q) <= 0.0).all()
        assert sign * q[0] > sign * 0.7 > sign * q[-1]


@pytest.mark.parametrize("link", ["logit", None])
def test_at_a_rate_of_zero_no_label_is_hidden_and_those_missing_stay_so(link):
    y, tau = posteriors(60)
    y = np.where(np.arange(60) < 20, -1, y)
    hidden = hide_labels(y, tau, link, rate=0.0, random_state=0)
    np.testing.assert_array_equal(hidden.target, y)
    assert (hidden.mechanism, hidden.missing_proba.max()) == (None, 0.0)
    some, rest = hide_labels(y, tau, link, rate=0.4), hide_labels(y[20:], tau[20:], link, rate=0.4)
    np.testing.assert_allclose(some.missing_proba[20:], rest.missing_proba, rtol=1e-9)
    assert some.missing[:20].all()


def test_a_higher_rate_hides_the_same_labels_and_more():
    y, tau = posteriors()
    missing = [hide_labels(y, tau, rate=rate, random_state=3).missing for rate in (0.2, 0.5, 0.8)]
    for fewer, more in itertools.pairwise(missing):
        assert (more | ~fewer).all()
        assert more.sum() > fewer.sum()


def test_without_a_link_or_a_slope_every_row_has_the_rate():
    y, tau = posteriors(50)
    tau[0] = [1.0, 0.0]
    np.testing.assert_array_equal(hide_labels(y, link=None, rate=0.3).missing_proba, np.full(50, 0.3))
    for measure in ("margin", "log-entropy", "discriminant"):
        q = hide_labels(y, tau, slope=0.0, rate=0.4, measure=measure).missing_proba
        np.testing.assert_allclose(q, 0.4, atol=1e-9)


def test_a_measure_may_spare_the_labels_of_one_side():
    y, tau = posteriors()

    def one_sided(log_tau):
        return np.where(log_tau.argmax(axis=1) == 1, (np.exp(log_tau) ** 2).sum(axis=1), 100.0)

    hidden = hide_labels(y, tau, slope=-6.0, rate=0.2, measure=one_sided, random_state=0)
    np.testing.assert_array_equal(hidden.missing_proba > 1e-9, tau.argmax(axis=1) == 1)
    assert hidden.missing_proba.mean() == pytest.approx(0.2, abs=1e-9)


@pytest.mark.parametrize(
    ("measure", "slope", "certain"),
    [
        ("margin", -6.0, 1.0), ("entropy", 4.0, 0.0), ("gini", 8.0, 0.0), ("signed-margin", 2.0, -1.0),
        ("log-entropy", 2.0, -np.inf), ("discriminant", -0.1, np.inf),
    ],
)  # fmt: skip
def test_a_row_whose_class_is_certain_has_the_limit_of_the_measure(measure, slope, certain):
    y, tau = posteriors(500)
    tau[7] = [1.0, 0.0]
    hidden = hide_labels(y, tau, slope=slope, rate=0.5, measure=measure)
    eta = hidden.mechanism.alpha[0] + slope * certain
    assert hidden.missing_proba[7] == pytest.approx(1.0 / (1.0 + np.exp(-eta)), rel=1e-12, abs=1e-300)
    assert np.isfinite(hidden.missing_proba).all()


@pytest.mark.parametrize(
    ("y", "blank", "kind"),
    [
        ([3, 4] * 20, -1, "i"), (np.array([3, 4] * 20, dtype=np.uint8), -1, "i"), ([0.0, 1.0] * 20, np.nan, "f"),
        (["no", "yes"] * 20, None, "O"), ([False, True] * 20, None, "O"),
    ],
)  # fmt: skip
def test_missing_labels_are_written_as_their_kind_is(y, blank, kind):
    hidden = hide_labels(y, np.tile([0.5, 0.5], (40, 1)), rate=0.5, random_state=0)
    expected = [blank if missing else label for label, missing in zip(list(y), hidden.missing, strict=True)]
    assert hidden.target.dtype.kind == kind
    np.testing.assert_array_equal(hidden.target, np.array(expected, dtype=hidden.target.dtype))


@pytest.mark.parametrize("dtype", ["uint8", "float64", "bool", "category", "Int64"])
def test_a_series_stays_a_series(dtype):
    pd = pytest.importorskip("pandas")
    y = pd.Series([0, 1] * 20, index=range(100, 140), name="finding").astype(dtype)
    hidden = hide_labels(y, np.tile([0.5, 0.5], (40, 1)), rate=0.5, random_state=0)
    assert (hidden.target.name, hidden.target.index.equals(y.index)) == ("finding", True)
    blank = hidden.target.isna() | (hidden.target == -1 if dtype in ("int64", "uint8") else False)
    np.testing.assert_array_equal(blank, hidden.missing)
    assert hidden.target[~blank].tolist() == y[~blank].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"posterior": None}, "posterior is needed"),
        ({"posterior": np.full((9, 2), 0.5)}, r"shape \(9, 2\)"),
        ({"link": "probit"}, "'probit'"),
        ({"measure": lambda log_tau: log_tau[:, 0]}, "slope is needed with a callable"),
        ({"at_least": 5, "rate": 0.99}, "at_least=5.*rate"),
        ({"link": 1e300}, "too extreme"),
    ],
)
def test_labels_that_cannot_be_hidden_are_refused(options, message):
    arguments = {"y": np.tile([0, 1], 5), "posterior": np.full((10, 2), 0.5)} | options
    with pytest.raises(ValueError, match=message):
        hide_labels(**arguments)


# Real rows.


@pytest.mark.parametrize(("load", "rows"), [(load_tumours, hard.tumours), (load_odd_digits, hard.digits)])
def test_labels_of_real_rows_are_hidden_at_the_stated_rate_and_the_harder_the_likelier(load, rows):
    bunch = load(random_state=3)
    assert bunch.missing_proba.mean() == pytest.approx(hard.RATE)
    assert (np.diff(bunch.missing_proba[np.argsort(rows().difficulty)]) >= 0).all()
    np.testing.assert_array_equal(bunch.target, np.where(rows().hidden(3), -1, bunch.target_true))
    assert (load(random_state=4).target != bunch.target).any()
    first = bunch.data.copy()
    bunch.data[:] = 0.0  # what a user does to the rows leaves the next load alone
    np.testing.assert_array_equal(load(random_state=3).data, first)


def test_masses_have_their_biopsy_as_label_where_the_radiologist_was_decided():
    masses = load_mammography()
    assert masses.data.shape == (830, 4)
    np.testing.assert_array_equal(masses.missing, np.isin(masses.birads, [0, 4]))
    np.testing.assert_array_equal(masses.target, np.where(masses.missing, -1, masses.target_true))
    assert [masses.missing.sum(), masses.target_true.sum(), masses.birads.max()] == [473, 403, 6]


@pytest.mark.skipif("MARMIX_SHARED" not in os.environ, reason="needs the shared data")
def test_masses_agree_with_the_original_file():
    pd = pytest.importorskip("pandas")
    original = pd.read_csv(Path(os.environ["MARMIX_SHARED"], "data", "real", "mammographic_birads.csv"))
    masses = load_mammography(as_frame=True)
    codes = {"benign": 0, "malignant": 1}
    features = original[masses.feature_names]
    theirs = features.assign(target=original.label.map(codes).fillna(-1), true=original.truth.map(codes)).dropna()
    ours = masses.frame.assign(true=masses.target_true)
    common = Counter(map(tuple, ours.to_numpy(dtype=float))) & Counter(map(tuple, theirs.to_numpy(dtype=float)))
    assert len(theirs) == 816
    assert common.total() == 815  # one mass has another density there
