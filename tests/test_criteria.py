"""AIC, BIC and ICL agree with their formulas, and the table that compares fits by them."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import multivariate_normal
from sklearn.base import clone

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression, compare
from marmix.core.covariance import STRUCTURES

pytestmark = [
    pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

KINDS = list(STRUCTURES)


def gaussian(**params):
    return MARGaussianMixture(**({"covariance_type": "tied", "link": "logit"} | params))


def logistic(**params):
    return MARLogisticRegression(**({"C": np.inf, "link": "logit"} | params))


def hand_entropy(fit, X, y, weight=None):
    tau = fit.predict_proba(X[y == -1])
    h = -np.sum(np.where(tau > 0, tau * np.log(np.maximum(tau, 1e-300)), 0.0), axis=1)
    return h.sum() if weight is None else h @ weight[y == -1]


def hand_loglik(fit, X, y, weight=None):
    """The log-likelihood from the fitted attributes, as in the paper."""
    if hasattr(fit, "means_"):
        cov = fit.covariances_
        cov = {"full": lambda: cov, "tied": lambda: [cov] * len(fit.weights_), "diag": lambda: [np.diag(c) for c in cov],
               "spherical": lambda: [c * np.eye(X.shape[1]) for c in cov]}[fit.covariance_type]()  # fmt: skip
        parts = [w * multivariate_normal(m, c).pdf(X) for w, m, c in zip(fit.weights_, fit.means_, cov, strict=True)]
        density = np.array([np.sum([p for p, k in zip(parts, fit.component_classes_, strict=True) if k == name], axis=0)
                            for name in fit.classes_])  # fmt: skip
        labelled, unlabelled = np.log(density), np.log(density.sum(axis=0))
    else:
        labelled, unlabelled = fit.predict_log_proba(X).T, np.zeros(len(X))
    rows = np.where(y == -1, unlabelled, np.take_along_axis(labelled, np.maximum(y, 0)[None], axis=0)[0])
    if fit.link is not None:
        q = fit.missing_proba(X)
        rows = rows + np.log(np.where(y == -1, q, 1.0 - q))
    return rows.sum() if weight is None else rows @ weight


# Counting.


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("counts", [1, {0: 3}])
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_of_a_mixture_are_counted_as_by_hand(simulate, kind, counts, classes):
    X, y, _ = simulate(400, classes, d=3, distance=3.0)
    components = sum(counts.values()) + classes - len(counts) if isinstance(counts, dict) else counts * classes
    fit = gaussian(covariance_type=kind, n_components=counts, max_iter=5, random_state=0).fit(X, y)
    a_matrix = {"full": 6, "tied": 6, "diag": 3, "spherical": 1}[kind]
    count = components - 1 + 3 * components + a_matrix * (1 if kind == "tied" else components)
    assert (fit.aic() + 2 * fit.loglik_) / 2 == pytest.approx(count + 2, abs=1e-6)
    assert (fit.bic() + 2 * fit.loglik_) / np.log(400) == pytest.approx(count + 2, abs=1e-6)


@pytest.mark.parametrize(("classes", "degree", "count"), [(2, 1, 4), (3, 1, 8), (2, 2, 10), (3, 2, 20)])
def test_coefficients_are_counted_once_for_each_class_but_one(simulate, classes, degree, count):
    X, y, _ = simulate(400, classes, d=3, distance=3.0)
    fit = logistic(degree=degree, max_iter=5).fit(X, y)
    assert (fit.aic() + 2 * fit.loglik_) / 2 == pytest.approx(count + 2, abs=1e-6)


@pytest.mark.parametrize(
    ("params", "count"),
    [
        ({"link": None}, 0),
        ({"link": "cloglog"}, 2),
        ({"link": "aranda-ordaz"}, 3),
        ({"link": "aranda-ordaz", "shape": 0.5}, 2),
        ({"mcar_share": True}, 3),
        ({"mechanism_features": [1]}, 3),
        ({"link": "aranda-ordaz", "mcar_share": True, "mechanism_features": [0, 1]}, 6),
    ],
)
def test_the_mechanism_counts_its_free_parameters(two, params, count):
    for estimator, rest in ((gaussian(**params), 8), (logistic(**params), 3)):
        fit = estimator.fit(two.X, two.y)
        assert (fit.aic() + 2 * fit.loglik_) / 2 == pytest.approx(rest + count, abs=1e-6)


# Values.


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [
        *(gaussian(covariance_type=kind) for kind in KINDS),
        gaussian(n_components={1: 2}, random_state=0, link="aranda-ordaz", mcar_share=True),
        logistic(link="cloglog", mechanism_features=[1]),
        logistic(degree=2, link=None),
    ],
    ids=[*KINDS, "components", "covariate", "squares"],
)
def test_criteria_agree_with_formulas(simulate, estimator, weighted):
    X, y, _ = simulate(300)
    w = np.random.default_rng(0).integers(1, 4, size=len(X)).astype(float) if weighted else None
    fit = clone(estimator).fit(X, y, w)
    p = (fit.aic() + 2 * fit.loglik_) / 2
    # a logistic regression without mechanism uses the labelled rows only
    counted = y >= 0 if hasattr(fit, "coef_") and fit.link is None else y >= -1
    n, loglik = (counted if w is None else w[counted]).sum(), hand_loglik(fit, X, y, w)
    assert fit.aic() == pytest.approx(2 * p - 2 * loglik, rel=1e-9)
    assert fit.bic() == pytest.approx(p * np.log(n) - 2 * loglik, rel=1e-9)
    assert fit.icl() == pytest.approx(p * np.log(n) - 2 * loglik + 2 * hand_entropy(fit, X, y, w), rel=1e-9)


def test_labelled_rows_agree_with_statsmodels(two):
    fit = logistic().fit(two.X, two.truth)
    reference = sm.Logit(two.truth, sm.add_constant(two.X)).fit(disp=0)
    assert fit.aic() == pytest.approx(reference.aic, rel=1e-9)
    assert fit.bic() == fit.icl() == pytest.approx(reference.bic, rel=1e-9)


# The table.


@pytest.mark.parametrize("by", ["aic", "icl"])
def test_the_table_holds_the_fits_numbers_sorted_by_the_criterion(two, by):
    fits = {kind: gaussian(covariance_type=kind).fit(two.X, two.y) for kind in KINDS}
    table = compare(*fits.values(), names=list(fits), by=by).frame()
    assert sorted(table.index) == sorted(KINDS)
    for kind, fit in fits.items():
        row = table.loc[kind]
        assert row["log-likelihood"] == pytest.approx(fit.loglik_, rel=1e-12)
        assert [row["AIC"], row["BIC"], row["ICL"]] == pytest.approx([fit.aic(), fit.bic(), fit.icl()], rel=1e-12)
    assert table[by.upper()].is_monotonic_increasing
    differences = table[f"{by.upper()} - best"].to_numpy()
    assert differences[0] == 0.0
    np.testing.assert_allclose(differences, table[by.upper()] - table[by.upper()].min(), atol=1e-9)
    weights = np.exp(-differences / 2) / np.exp(-differences / 2).sum()
    np.testing.assert_allclose(table["weight"], weights, rtol=1e-9)
    assert table["weight"].sum() == pytest.approx(1.0, abs=1e-12)


def changed(X, y, how):
    rng = np.random.default_rng(0)
    X, y = X.copy(), y.copy()
    if how == "another row":
        X[5] += 1e-3
    elif how == "a feature more":
        X = np.column_stack([X, rng.normal(size=len(X))])
    elif how == "a label less":
        y[np.flatnonzero(y >= 0)[3]] = -1
    elif how == "another label":
        i = np.flatnonzero(y >= 0)[3]
        y[i] = 1 - y[i]
    elif how == "a column shuffled within classes":
        for k in (-1, 0, 1):
            members = np.flatnonzero(y == k)
            X[members, 1] = X[rng.permutation(members), 1]
    return X, y


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize(
    "how",
    ["another row", "a feature more", "a label less", "another label", "a column shuffled within classes"],
)
def test_fits_of_other_rows_are_refused_in_any_unit(two, how, unit):
    X, y = unit * (two.X - two.X.mean(axis=0)), two.y
    order = np.random.default_rng(0).permutation(len(y))
    first = gaussian().fit(X, y)
    compare(first, gaussian().fit(X[order], y[order]))
    changed_X, labels = changed(X / unit, y, how)
    with pytest.raises(ValueError, match="different rows"):
        compare(first, gaussian().fit(unit * changed_X, labels))


def test_incomparable_fits_raise(two):
    fit = gaussian().fit(two.X, two.y)
    for fits, options, message in (
        ([fit, logistic().fit(two.X, two.y)], {}, "likelihood of a mixture"),
        ([fit, MARClassifierCV()], {}, "takes fitted"),
        ([fit, fit], {"by": "loglik"}, "by='loglik'"),
        ([fit, gaussian(mechanism_weight=0.5).fit(two.X, two.y)], {}, "mechanism_weight below 1"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(*fits, **options)


@pytest.mark.parametrize("weighted", [False, True])
def test_an_ignored_mechanism_is_completed_by_a_constant_rate(two, weighted):
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(two.y)) if weighted else np.ones(len(two.y))
    ignoring, fit = (gaussian(link=link).fit(two.X, two.y, weight) for link in (None, "logit"))
    table = compare(ignoring, fit, names=["1", "2"]).frame()
    missing, total = weight[two.missing].sum(), weight.sum()
    loglik = ignoring.loglik_ + missing * np.log(missing / total) + (total - missing) * np.log(1 - missing / total)
    assert table.loc["1", "log-likelihood"] == pytest.approx(loglik, rel=1e-10)
    assert table.loc["1", "parameters"] == 9
    assert table.loc["1", "BIC"] == pytest.approx(9 * np.log(total) - 2 * loglik, rel=1e-10)
    # fits that all ignore the mechanism are not completed
    both = compare(ignoring, gaussian(link=None, covariance_type="full").fit(two.X, two.y, weight), names="ab").frame()
    assert both.loc["a", "log-likelihood"] == pytest.approx(ignoring.loglik_, rel=1e-12)
