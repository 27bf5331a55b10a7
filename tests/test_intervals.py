"""Intervals of probabilities, labels and the missingness curve."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from problems import central_differences
from scipy.special import expit, logit, logsumexp
from scipy.stats import norm
from sklearn.base import clone

from marmix import MARGaussianMixture, MARLogisticRegression

pytestmark = [
    pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

Z = norm.isf(0.025)


def gaussian(**params):
    return MARGaussianMixture(**({"covariance_type": "tied", "link": "logit"} | params))


def logistic(**params):
    return MARLogisticRegression(**({"C": np.inf, "link": "logit"} | params))


ESTIMATORS = {
    "full": gaussian(covariance_type="full"),
    "tied": gaussian(link="cloglog"),
    "diag": gaussian(covariance_type="diag", mechanism_features=[1]),
    "spherical": gaussian(covariance_type="spherical", link="aranda-ordaz"),
    "components": gaussian(covariance_type="diag", n_components=2, random_state=0),
    "share": gaussian(mcar_share=True),
    "logistic": logistic(),
    "squares": logistic(degree=2, link="cloglog"),
    "ignored": logistic(link=None),
}
EVERY = pytest.mark.parametrize("name", ESTIMATORS)


def fitted(name, rows, **settings):
    fit = clone(ESTIMATORS[name]).set_params(**settings).fit(*rows)
    return fit, fit.inference(*rows)


def grid(n=60):
    return np.random.default_rng(5).normal(size=(n, 2)) * 3.0


def odds_of(inference, X):
    """Log-odds of each class against the others as a function of the coordinates, (K n,)."""
    model_fit, objective = inference.fitted, inference.fitted.objective

    def odds(vector):
        scores = objective.model.scores(model_fit.coordinates.at(vector)[0], objective.engine.frame.enter(X))
        return np.array([s - logsumexp(np.delete(scores, k, axis=0), axis=0) for k, s in enumerate(scores)])

    return odds


def numerical_errors(inference, X, function):
    """Standard errors of a function of the coordinates, its derivatives by differences."""
    size = inference.fitted.coordinates.size
    covariance = inference.fitted.information.covariance(inference.cov_type)[0]
    shape = function(np.zeros(size)).shape
    step = 2e-4
    slopes = np.array(
        [
            (8 * (function(e) - function(-e)) - function(2 * e) + function(-2 * e)) / (12 * step)
            for e in step * np.eye(size)
        ]
    )
    slopes = slopes.reshape(size, -1)
    return np.sqrt(np.einsum("pn,pq,qn->n", slopes, covariance, slopes)).reshape(shape)


# Probabilities.


@pytest.mark.pairs
@pytest.mark.parametrize("cov_type", ["sandwich", "observed", "expected"])
@pytest.mark.parametrize("classes", [2, 3])
@EVERY
def test_intervals_agree_with_the_delta_method_by_differences(simulate, name, classes, cov_type):
    rows = simulate(300, classes, distance=3.0)[:2]
    fit = clone(ESTIMATORS[name]).fit(*rows)
    inference, X = fit.inference(*rows, cov_type=cov_type), grid(20)
    lower, upper = inference.predict_proba_interval(X, alpha=0.1)
    odds = odds_of(inference, X)
    error = numerical_errors(inference, X, odds)
    at, half = odds(np.zeros(inference.fitted.coordinates.size)), norm.isf(0.05) * error
    np.testing.assert_allclose(lower.T, expit(at - half), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(upper.T, expit(at + half), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("ours", "theirs"), [("observed", "nonrobust"), ("sandwich", "HC0")])
@pytest.mark.parametrize("degree", [1, 2])
def test_labelled_rows_agree_with_statsmodels(two, ours, theirs, degree):
    def features(X):
        products = [X[:, :1] ** 2, X[:, :1] * X[:, 1:], X[:, 1:] ** 2] if degree == 2 else []
        return np.column_stack([np.ones(len(X)), X, *products])

    fit = logistic(degree=degree).fit(two.X, two.truth)
    lower, upper = fit.inference(two.X, two.truth, cov_type=ours).predict_proba_interval(grid())
    reference = sm.Logit(two.truth, features(two.X)).fit(disp=0, tol=1e-14, cov_type=theirs)
    new = features(grid())
    error = np.sqrt(np.einsum("ni,ij,nj->n", new, reference.cov_params(), new))
    np.testing.assert_allclose(lower[:, 1], expit(new @ reference.params - Z * error), rtol=1e-6)
    np.testing.assert_allclose(upper[:, 1], expit(new @ reference.params + Z * error), rtol=1e-6)


@pytest.mark.parametrize("name", ["tied", "squares"])
def test_four_copies_halve_the_width_and_weights_count_rows(two, name):
    rows, X = (two.X, two.y), grid(20)
    widths = []
    for times in (1, 4):
        many = tuple(np.repeat(part, times, axis=0) for part in rows)
        lower, upper = fitted(name, many, tol=1e-13)[1].predict_proba_interval(X)
        widths.append(logit(upper) - logit(lower))
        weighted = (*rows, np.full(len(two.y), float(times)))
        again = fitted(name, weighted, tol=1e-13)[1].predict_proba_interval(X)
        np.testing.assert_allclose(again, (lower, upper), rtol=1e-5, atol=1e-12)
    inside = np.abs(logit(lower)) < 30.0
    np.testing.assert_allclose(widths[0][inside], 2.0 * widths[1][inside], rtol=1e-4)


@pytest.mark.parametrize("name", ["full", "logistic"])
def test_intervals_follow_class_names_and_are_affine_invariant(three, name):
    X, y, _ = three
    settings = {"tol": 1e-12, "measure": "entropy", "n_init": 1}
    lower, upper = fitted(name, (X, y), **settings)[1].predict_proba_interval(grid())
    named = np.array(["b", "c", "a", None], dtype=object)[y]  # sorted: class 2, 0, 1
    turn, shift = np.array([[1.0, 20.0], [-3.0, 4.0]]), np.array([5.0, -1.0])
    frame, new = (pd.DataFrame(rows @ turn + shift, columns=["p", "q"]) for rows in (X, grid()))
    fit, inference = fitted(name, (frame, pd.Series(named)), **settings)
    mapped = inference.predict_proba_interval(new)
    assert fit.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(mapped[0], lower[:, [2, 0, 1]], rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(mapped[1], upper[:, [2, 0, 1]], rtol=1e-4, atol=1e-9)


def test_an_undetermined_probability_has_the_widest_interval(two):
    # the third column repeats the first: its own effect is not determined
    X = np.column_stack([two.X, two.X[:, 0]])
    inference = logistic(tol=1e-12).fit(X, two.y).inference(X, two.y)
    alone = logistic(tol=1e-12).fit(two.X, two.y).inference(two.X, two.y)
    lower, upper = inference.predict_proba_interval(X)
    np.testing.assert_allclose((lower, upper), alone.predict_proba_interval(two.X), rtol=1e-4)
    np.testing.assert_array_equal(inference.credible_labels(X), alone.credible_labels(two.X))
    alien = np.array([[0.0, 0.0, 5.0]])
    lower, upper = inference.predict_proba_interval(alien)
    assert not (upper - lower < 1.0).any()  # all of [0, 1], or NaN
    assert inference.credible_labels(alien).all()


# Labels.


@EVERY
def test_a_class_is_credible_if_its_score_may_be_the_largest(three, name):
    fit, inference = fitted(name, (three.X, three.y))
    X = grid(200)
    model_fit, objective = inference.fitted, inference.fitted.objective
    best = fit.predict_proba(X).argmax(axis=1)

    def behind(vector):
        scores = objective.model.scores(model_fit.coordinates.at(vector)[0], objective.engine.frame.enter(X))
        return scores[best, np.arange(len(X))] - scores

    gap = behind(np.zeros(model_fit.coordinates.size)) / np.maximum(numerical_errors(inference, X, behind), 1e-300)
    sure = np.abs(gap - Z) > 1e-4
    credible = inference.credible_labels(X)
    np.testing.assert_array_equal(credible[sure.T], (gap < Z).T[sure.T])
    assert {1, 2} <= set(credible.sum(axis=1))
    assert (credible <= inference.credible_labels(X, alpha=0.001)).all()


@pytest.mark.parametrize("name", ["tied", "components", "logistic"])
def test_imputed_labels_are_those_of_the_unlabelled_rows(two, name):
    names = np.array(["no", "yes", None], dtype=object)
    weight = np.random.default_rng(0).integers(0, 3, size=len(two.y)).astype(float)
    rows = (two.X, names[two.y], weight)
    fit, inference = fitted(name, rows)
    imputed = inference.imputed_labels(alpha=0.2)
    np.testing.assert_array_equal(imputed.row, np.flatnonzero(two.missing & (weight > 0)))
    np.testing.assert_array_equal(imputed.label, fit.transduction_[imputed.row])
    unlabelled = two.X[imputed.row]
    np.testing.assert_allclose(imputed.probability, fit.predict_proba(unlabelled).max(axis=1), rtol=1e-12)
    at = np.arange(len(unlabelled)), fit.predict_proba(unlabelled).argmax(axis=1)
    lower, upper = inference.predict_proba_interval(unlabelled, alpha=0.2)
    np.testing.assert_allclose((imputed.lower, imputed.upper), (lower[at], upper[at]), rtol=1e-12)
    np.testing.assert_array_equal(imputed.settled, inference.credible_labels(unlabelled, 0.2).sum(axis=1) == 1)


# The missingness curve.


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"link": "cloglog"},
        {"link": "aranda-ordaz"},
        {"mcar_share": True},
        {"mechanism_features": [1]},
        {"link": "aranda-ordaz", "shape": 3.0, "mechanism_features": [1, 0], "measure": "entropy"},
    ],
    ids=str,
)
@pytest.mark.parametrize("make", [gaussian, logistic])
def test_the_curve_and_its_band_follow_from_the_parameters(simulate, make, params):
    X, y, _ = simulate(3000, alpha=(2.0, -5.0), shape=2.0)
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 3, size=len(y)).astype(float)
    if "mcar_share" in params:
        y = np.where(rng.uniform(size=len(y)) < 0.2, -1, y)
    fit = make(**params).fit(X, y, weight)
    inference = fit.inference(X, y, weight)
    grid_of_u = np.linspace(0.05, 0.65, 7)
    curve = inference.missingness_curve(grid_of_u, alpha=0.1)
    names = inference.param_names
    first = names.index("alpha_0")
    covariates = [X[:, i] @ weight / weight.sum() for i in params.get("mechanism_features") or []]
    assert np.isfinite(inference.bse[first:]).all()

    def log_hazard(values, u):
        mechanism = dict(zip(names[first:], values, strict=True))
        shape = mechanism.get("shape", fit.shape_)
        eta = values[0] + values[1] * u + np.dot(values[2 : 2 + len(covariates)], covariates)
        n = np.exp(eta) if shape == 0 else np.logaddexp(0.0, eta + np.log(shape)) / shape
        return np.log(n - np.log1p(-mechanism.get("share", 0.0)))

    for u, q, lower, upper in zip(*curve, strict=True):
        values = inference.params[first:]
        slope = central_differences(lambda v, u=u: log_hazard(v, u), values, 1e-3 * np.abs(values))
        half = norm.isf(0.05) * np.sqrt(slope @ inference.cov_params()[first:, first:] @ slope)
        expected = [-np.expm1(-np.exp(log_hazard(values, u) + side * half)) for side in (0.0, -1.0, 1.0)]
        np.testing.assert_allclose([q, lower, upper], expected, rtol=1e-4)
        assert lower < q < upper


def test_a_curve_needs_a_mechanism_and_a_number_or_a_list(two):
    with pytest.raises(ValueError, match="needs a fitted mechanism"):
        gaussian(link=None).fit(two.X, two.y).inference(two.X, two.y).missingness_curve()
    inference = gaussian().fit(two.X, two.y).inference(two.X, two.y)
    assert inference.missingness_curve(0.5).q == pytest.approx(inference.missingness_curve([0.5]).q)
