"""Standard errors of the estimators: closed forms, statsmodels, invariances, limits and output."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import logit
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from marmix import MARGaussianMixture, MARLogisticRegression, Mechanism
from marmix.core.covariance import STRUCTURES

pytestmark = [
    pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

KINDS = list(STRUCTURES)
TYPES = ["sandwich", "observed", "expected"]


def drawn(n=400, classes=2, measure="margin", alpha=(1.0, -3.0), seed=0, df=np.inf, **mechanism):
    """Rows of classes two apart, normal or t with `df` degrees of freedom; partial labels, and all labels."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(classes) / classes
    means = np.column_stack([np.cos(angle), np.sin(angle)]) / np.sin(np.pi / classes)
    truth = rng.permutation(np.arange(n) % classes)
    noise = rng.normal(size=(n, 2)) / (1.0 if np.isinf(df) else np.sqrt(rng.chisquare(df, size=(n, 1)) / df))
    X = means[truth] + noise
    q = Mechanism(measure, alpha=alpha, **mechanism).missing_proba(X @ means.T - 0.5 * (means**2).sum(axis=1))
    return X, np.where(rng.uniform(size=n) < q, -1, truth), truth


def gaussian(**params):
    return MARGaussianMixture(**({"covariance_type": "tied", "link": "logit", "measure": "margin"} | params))


def logistic(**params):
    return MARLogisticRegression(**({"C": np.inf, "link": "logit", "measure": "margin"} | params))


def by_name(inference, values="bse"):
    return dict(zip(inference.param_names, np.asarray(getattr(inference, values)), strict=True))


def assert_same(a, b, rtol=1e-6, of=lambda name: name):
    """Check that parameters and standard errors agree; `of` maps names in `a` to names in `b`."""
    for values in ("params", "bse"):
        first, second = by_name(a, values), by_name(b, values)
        assert sorted(map(of, first)) == sorted(second)
        for name, value in first.items():
            assert value == pytest.approx(second[of(name)], rel=rtol, abs=1e-8), (values, name)


# Labelled rows: closed forms and statsmodels.


@pytest.mark.parametrize(("kind", "d"), [*((kind, 3) for kind in KINDS), ("full", 17)])
def test_standard_errors_of_labelled_normal_classes_have_their_closed_form(kind, d):
    X, _, y = drawn(300, 3)
    more = X[:, :1] + np.random.default_rng(1).normal(size=(300, d - 2))
    X = np.column_stack([X, more]) * np.geomspace(0.1, 10.0, d) + np.linspace(-3.0, 5.0, d)
    result = by_name(gaussian(covariance_type=kind, link=None).fit(X, y).inference(X, y, cov_type="observed"))
    n = len(X)
    residuals = X - np.array([X[y == k].mean(axis=0) for k in range(3)])[y]
    for k in range(3):
        members = residuals if kind == "tied" else residuals[y == k]
        size, count = (y == k).sum(), len(members)
        sigma = members.T @ members / count
        sigma = {"diag": np.diag(np.diag(sigma)), "spherical": np.eye(d) * np.trace(sigma) / d}.get(kind, sigma)
        share, owner = size / n, "" if kind == "tied" else f"{k}, "
        assert result[f"weight[{k}]"] == pytest.approx(np.sqrt(share * (1 - share) / n), rel=1e-6)
        for i in range(d):
            assert result[f"mean[{k}, x{i}]"] == pytest.approx(np.sqrt(sigma[i, i] / size), rel=1e-6)
            if kind == "spherical":
                assert result[f"var[{k}]"] == pytest.approx(np.sqrt(2 / (count * d)) * sigma[0, 0], rel=1e-6)
                continue
            assert result[f"var[{owner}x{i}]"] == pytest.approx(np.sqrt(2 / count) * sigma[i, i], rel=1e-6)
            for j in range(i + 1, d if kind in ("full", "tied") else 0):
                truth = np.sqrt((sigma[i, i] * sigma[j, j] + sigma[i, j] ** 2) / count)
                assert result[f"cov[{owner}x{i}, x{j}]"] == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("observed", "nonrobust"), ("expected", "nonrobust"), ("sandwich", "HC0")]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_of_labelled_rows_agrees_with_statsmodels(classes, ours, theirs):
    X, _, y = drawn(400, classes)
    X = X * [1.0, 30.0] + [5.0, 0.0]
    result = logistic().fit(X, y).inference(X, y, cov_type=ours)
    model = sm.Logit if classes == 2 else sm.MNLogit
    reference = model(y, sm.add_constant(X)).fit(disp=0, method="newton", tol=1e-14, cov_type=theirs)
    against = [[1.0]] if classes == 2 else [[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]
    contrasts = np.kron(against, np.eye(3))
    np.testing.assert_allclose(contrasts @ result.params, np.ravel(reference.params, order="F"), rtol=1e-6)
    errors = np.sqrt(np.diag(contrasts @ result.cov_params() @ contrasts.T))
    np.testing.assert_allclose(errors, np.ravel(reference.bse, order="F"), rtol=1e-6)
    if classes == 2:
        np.testing.assert_allclose(result.tvalues, reference.tvalues, rtol=1e-6)
        np.testing.assert_allclose(result.pvalues, reference.pvalues, rtol=1e-6, atol=1e-300)
        np.testing.assert_allclose(result.conf_int(0.1), reference.conf_int(0.1), rtol=1e-6)
        assert result.llf == pytest.approx(reference.llf, rel=1e-9)
        assert result.nobs == reference.nobs


def test_frequency_weights_agree_with_statsmodels():
    X, _, y = drawn()
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))
    result = logistic().fit(X, y, weight).inference(X, y, weight, cov_type="observed")
    reference = sm.GLM(y, sm.add_constant(X), family=sm.families.Binomial(), freq_weights=weight).fit(tol=1e-14)
    np.testing.assert_allclose(result.bse, reference.bse, rtol=1e-6)
    assert result.nobs == weight.sum()


# The sandwich is the infinitesimal jackknife: sums of squared derivatives of the estimates in the rows' weights.


@pytest.mark.parametrize(
    ("estimator", "measure"),
    [
        (gaussian(), "margin"),
        pytest.param(gaussian(covariance_type="diag", mechanism_weight=0.3), "entropy", marks=pytest.mark.long),
        pytest.param(gaussian(mechanism_weight=0.0, link="cloglog"), "margin", marks=pytest.mark.long),
        (logistic(C=1.0, mechanism_features=[1]), "margin"),
        (logistic(C=1.0, mechanism_weight=0.3, link="cloglog"), "signed-margin"),
    ],
)
def test_the_sandwich_is_the_infinitesimal_jackknife(estimator, measure):
    X, y, _ = drawn(40, seed=1, alpha=(0.5, -1.5))
    fit = clone(estimator).set_params(measure=measure, tol=1e-13).fit(X, y)
    result = fit.inference(X, y)
    size = len(fit.alpha_)
    slopes = []
    for row in 0.02 * np.eye(len(y)):
        up, down = (
            copy(fit).set_params(warm_start=True, n_init=1).fit(X, y, sample_weight=1.0 + sign * row)
            for sign in (1, -1)
        )
        estimates = [
            np.concatenate([np.ravel(f.means_ if hasattr(f, "means_") else f.coef_), f.alpha_]) for f in (up, down)
        ]
        slopes.append((estimates[0] - estimates[1]) / 0.04)
    jackknife = np.sqrt((np.square(slopes - np.mean(slopes, axis=0))).sum(axis=0))
    means = [i for i, name in enumerate(result.param_names) if name.startswith(("mean", "x"))]
    np.testing.assert_allclose(
        result.bse[[*means, *range(len(result.bse) - size, len(result.bse))]], jackknife, rtol=1e-3
    )


def test_mechanism_weight_zero_gives_the_standard_errors_without_a_link():
    X, y, _ = drawn()
    for estimator in (gaussian(tol=1e-13), logistic()):
        alone = clone(estimator).set_params(link=None).fit(X, y).inference(X, y)
        result = clone(estimator).set_params(mechanism_weight=0.0).fit(X, y).inference(X, y)
        assert result.param_names[-2:] == ["alpha_0", "alpha_1"]
        np.testing.assert_allclose(result.bse[:-2], alone.bse, rtol=1e-5)


@pytest.mark.parametrize("cov_type", ["observed", "expected"])
def test_a_tempered_fit_has_only_the_sandwich(cov_type):
    X, y, _ = drawn()
    with pytest.raises(ValueError, match=r"mechanism_weight=0\.3.*cov_type='sandwich'"):
        gaussian(mechanism_weight=0.3).fit(X, y).inference(X, y).cov_params(cov_type)


@pytest.mark.parametrize(
    ("classes", "measure", "alpha", "tolerance"),
    [
        (2, "margin", (1.0, -3.0), 0.02),
        (3, "entropy", (-1.0, 2.0), 0.02),
        pytest.param(3, "margin", (1.0, -3.0), 0.03, marks=pytest.mark.long),
    ],
)
def test_all_covariance_types_agree_in_a_large_sample(classes, measure, alpha, tolerance):
    X, y, _ = drawn(50_000, classes, measure, alpha)
    for estimator in (gaussian(measure=measure), logistic(measure=measure)):
        result = estimator.fit(X, y).inference(X, y)
        sandwich, observed, expected = (np.sqrt(np.diag(result.cov_params(kind))) for kind in TYPES)
        np.testing.assert_allclose(sandwich, observed, rtol=tolerance)
        np.testing.assert_allclose(expected, observed, rtol=tolerance)


# Invariances.


@pytest.mark.parametrize("unit", [1e-8, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_units_and_origin_of_the_features_do_not_matter(kind, unit):
    X, y, _ = drawn()
    scale = unit * (np.ones(2) if kind == "spherical" else np.array([1.0, 7.0]))
    fits = [gaussian(covariance_type=kind, tol=1e-12).fit(rows, y) for rows in (X, X * scale + 3.0 * unit)]
    first, second = fits[0].inference(X, y), fits[1].inference(X * scale + 3.0 * unit, y)
    factors = []
    for name in first.param_names:
        owned = [scale[i] for i in range(2) if f"x{i}" in name] or [scale[0]]
        factors.append(np.prod(owned * 2 if name.startswith("var") else owned) if name[0] in "mvc" else 1.0)
    np.testing.assert_allclose(second.bse / factors, first.bse, rtol=1e-5)


@pytest.mark.parametrize("estimator", [gaussian(tol=1e-12), logistic(tol=1e-12, n_init=1)])
@pytest.mark.parametrize("measure", ["entropy", "margin"])
def test_relabelling_the_classes_permutes_the_answer(estimator, measure):
    X, y, _ = drawn(600, 3, seed=2)  # with seeds 0 and 1 a row is on a kink of the margin, where there is no curvature
    relabelled = np.where(y < 0, -1, (y + 1) % 3)
    first, second = (
        clone(estimator).set_params(measure=measure).fit(X, labels).inference(X, labels) for labels in (y, relabelled)
    )

    def renamed(name):  # the class is last in the names of coefficients, otherwise first
        for k in range(3):
            for place in (f"[{k}]", f"[{k},"):
                if place in name:
                    return name.replace(place, place.replace(str(k), str((k + 1) % 3)))
        return name

    assert_same(first, second, 1e-5, renamed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_weight_two_is_the_row_twice_and_order_does_not_matter(kind):
    X, y, _ = drawn(200, seed=3)
    repeats = np.random.default_rng(0).integers(0, 3, size=200)
    order = np.random.default_rng(1).permutation(repeats.sum())
    for estimator in (gaussian(covariance_type=kind, tol=1e-13), logistic(C=2.0, tol=1e-13, n_init=1)):
        X2, y2 = np.repeat(X, repeats, axis=0)[order], np.repeat(y, repeats)[order]
        for cov_type in TYPES:
            weighted = clone(estimator).fit(X, y, repeats).inference(X, y, repeats, cov_type=cov_type)
            assert_same(weighted, clone(estimator).fit(X2, y2).inference(X2, y2, cov_type=cov_type), 1e-5)


# Limits.


def check_held(result, name, word):
    assert np.isnan(by_name(result)[name])
    assert np.isnan(result.conf_int()[result.param_names.index(name)]).all()
    without = (name, "alpha_0", "alpha_1") if name == "shape" else (name,)
    assert np.isfinite([error for key, error in by_name(result).items() if key not in without]).all()
    assert any(word in note and "held" in note for note in result.notes)


@pytest.mark.parametrize(
    ("options", "mechanism", "name", "word", "simpler"),
    [
        ({"link": "aranda-ordaz"}, {"shape": 0.0, "seed": 2}, "shape", "shape at 0", {"link": "cloglog"}),
        (
            {"link": "aranda-ordaz"},
            {"alpha": (60.0, -100.0), "shape": 30.0},
            "shape",
            "shape at infinity",
            {"link": "aranda-ordaz", "shape": 100.0},
        ),
        ({"mcar_share": True}, {"seed": 1}, "share", "share at 0", {}),
    ],
)
def test_a_parameter_at_a_limit_is_treated_as_known(options, mechanism, name, word, simpler):
    X, y, _ = drawn(600, **mechanism)
    result = gaussian(tol=1e-12, **options).fit(X, y).inference(X, y)
    check_held(result, name, word)
    fixed = gaussian(tol=1e-12, **simpler).fit(X, y).inference(X, y).bse
    if name == "shape":  # alpha depends on it
        assert np.isnan(result.bse[-3:]).all()
        np.testing.assert_allclose(result.bse[:-3], fixed[:-2], rtol=1e-4)
    else:
        np.testing.assert_allclose(result.bse[:-1], fixed, rtol=1e-4)


@pytest.mark.parametrize(
    ("estimator", "seed"),
    [(gaussian(link="aranda-ordaz"), seed) for seed in (0, 21)] + [(logistic(C=1.0, link="aranda-ordaz"), 26)],
)
def test_a_shape_that_the_data_do_not_determine_is_held(estimator, seed):
    # labels are missing completely at random: any shape fits
    X, y, _ = drawn(200, alpha=(0.0, 0.0), seed=seed)
    result = clone(estimator).fit(X, y).inference(X, y)
    check_held(result, "shape", "shape")
    errors = by_name(result)
    assert np.isnan([errors["alpha_0"], errors["alpha_1"]]).all()
    assert np.isfinite([error for name, error in errors.items() if not name.startswith(("alpha", "shape"))]).all()


@pytest.mark.parametrize("link", [None, "logit"])
def test_duplicate_columns_have_no_standard_errors(link):
    X, y, _ = drawn()
    twice = np.column_stack([X, X[:, 0]])
    result = logistic(link=link, tol=1e-13).fit(twice, y).inference(twice, y)
    alone = by_name(logistic(link=link, tol=1e-13).fit(X, y).inference(X, y))
    errors = by_name(result)
    assert np.isnan([errors["x0"], errors["x2"]]).all()
    assert errors["x1"] == pytest.approx(alone["x1"], rel=1e-4)
    assert any("do not determine x0 and x2" in note for note in result.notes)


def test_wrong_rows_and_options_raise():
    X, y, truth = drawn()
    fit = gaussian().fit(X, y)
    swapped = X[::-1].copy()
    for rows, labels, weight in ((X + 0.1, y, None), (swapped, y, None), (X, truth, None), (X[:-1], y[:-1], None),
                                 (X, y, np.full(len(y), 2.0))):  # fmt: skip
        with pytest.raises(ValueError, match="rows"):
            fit.inference(rows, labels, weight)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit.inference(X, y[:-1])
    with pytest.raises(ValueError, match=r"cov_type='robust'.*'sandwich', 'observed', 'expected'"):
        fit.inference(X, y, cov_type="robust")
    with pytest.raises(NotFittedError):
        gaussian().inference(X, y)
    with pytest.raises(ValueError, match="alpha="):
        fit.inference(X, y).conf_int(95.0)


# Output.


def test_intervals_p_values_and_the_summary_follow_from_the_standard_errors():
    X, y, _ = drawn()
    frame, named = pd.DataFrame(X, columns=["<script>", "width"]), np.array(["a & b", "c", None], dtype=object)[y]
    result = gaussian(link="aranda-ordaz", mechanism_features=["width"]).fit(frame, named).inference(frame, named)
    assert {"weight[a & b]", "mean[c, <script>]", "cov[<script>, width]", "alpha[width]"} <= set(result.param_names)
    params, bse, limits, names = result.params, result.bse, result.conf_int(0.2), pd.Series(result.param_names).str
    half = norm.isf(0.1) * bse
    plain = names.startswith(("mean", "cov", "alpha"))
    np.testing.assert_allclose(limits[plain], np.column_stack([params - half, params + half])[plain])
    np.testing.assert_allclose(result.pvalues[plain], 2 * norm.sf(np.abs(params / bse))[plain])
    assert np.isnan(result.pvalues[~plain]).all()
    positive = names.startswith(("var", "shape"))
    ratio = np.exp(half / params)
    np.testing.assert_allclose(limits[positive], np.column_stack([params / ratio, params * ratio])[positive])
    share = names.startswith("weight")
    at = (half / (params * (1 - params)))[share]
    np.testing.assert_allclose(logit(limits[share]) - logit(params[share])[:, None], np.column_stack([-at, at]))
    np.testing.assert_allclose(np.diag(result.cov_params()), bse**2, rtol=1e-12)
    summary = result.summary(0.2)
    table = summary.frame()
    assert list(table.index) == result.param_names
    np.testing.assert_array_equal(table["coef"], params)
    np.testing.assert_array_equal(table.iloc[:, -2:], limits)
    html = summary._repr_html_()
    assert "<script>" not in html
    assert "mean[c, &lt;script&gt;]" in html


def test_fitted_to_recognises_the_training_rows(two):
    clf = MARGaussianMixture(link="logit").fit(two.X, two.y)
    assert clf.fitted_to(two.X, two.y)
    assert clf.fitted_to(two.X[::-1], two.y[::-1])
    assert not clf.fitted_to(two.X[1:], two.y[1:])
    assert not clf.fitted_to(two.X, np.where(two.y == 0, -1, two.y))
