"""Data and options at the edge: a finite answer with one plain warning, or a refusal that names the culprit."""

import traceback
import warnings

import numpy as np
import pytest
import scipy.sparse
from problems import PAPER
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from marmix import (
    BoundaryWarning,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.core.covariance import STRUCTURES
from marmix.core.measures import MEASURES

COVARIANCE_TYPES = list(STRUCTURES)
NAMES = [name for name, measure in MEASURES.items() if measure.only_classes is None]


def heard(estimator, X, y, **fit_options):
    """The fitted estimator, and what it warned of by category: at most one warning each, and none but our own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y, **fit_options)
    said = {warning.category: str(warning.message) for warning in caught}
    assert set(said) <= {BoundaryWarning, ConvergenceWarning}, said
    assert len(caught) == len(said), [str(warning.message) for warning in caught]
    assert all(warning.filename == __file__ for warning in caught), "a warning points at the call of fit"
    assert (ConvergenceWarning in said) == (not estimator.converged_)
    notes = zip(estimator.model_.notes, estimator.notes_, strict=True)
    assert said.get(BoundaryWarning, "") == " ".join(text for note, text in notes if note.code != "maxima")
    return estimator, said


def variances(fitted):
    matrices = fitted.covariance_type in ("full", "tied")
    return np.diagonal(fitted.covariances_, axis1=-2, axis2=-1) if matrices else fitted.covariances_


def assert_sound(fitted, X):
    """Every number is finite, and probabilities are."""
    for name in ("weights_", "means_", "covariances_", "loglik_", "loglik_ignorable_", "loglik_missing_", "trace_"):
        assert np.isfinite(getattr(fitted, name)).all(), name
    assert fitted.weights_.sum() == pytest.approx(1.0, abs=1e-12)
    assert (variances(fitted) > 0).all()
    proba = fitted.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert np.isfinite(fitted.predict_log_proba(X)).all()
    if fitted.link is not None:
        q = fitted.missing_proba(X)
        assert ((q >= 0) & (q <= 1)).all()


# Columns


def test_a_constant_column_is_refused_by_name(two):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(two.X, columns=["length", "width"]).assign(country=7.0)
    with pytest.raises(ValueError, match=r"column 'country' is constant"):
        MARGaussianMixture().fit(frame, two.y)


@pytest.mark.parametrize("covariance_type", ["full", "tied"])
@pytest.mark.parametrize("made", [lambda X: X[:, 0], lambda X: X[:, 0] - 3 * X[:, 1] + 7], ids=["copy", "combination"])
def test_a_dependent_column_changes_no_posterior(covariance_type, made, two):
    more = np.c_[two.X, made(two.X)]
    options = {"covariance_type": covariance_type, "link": "logit"}
    fitted, said = heard(MARGaussianMixture(**options), more, two.y)
    assert_sound(fitted, more)
    assert "'x0'" in said[BoundaryWarning]
    assert "'x2' are linearly dependent" in said[BoundaryWarning]
    without = MARGaussianMixture(**options).fit(two.X, two.y)
    np.testing.assert_allclose(fitted.predict_proba(more), without.predict_proba(two.X), atol=1e-4)


def test_a_level_more_of_each_category_changes_no_posterior(two):
    rng = np.random.default_rng(0)
    levels = [rng.integers(5 + 2 * (two.X[:, 0] > 0.5), size=len(two.X)) for _ in range(5)]
    coded = [np.eye(7)[level] for level in levels]
    options = {"covariance_type": "tied", "link": "logit", "tol": 1e-12}
    every = np.hstack([two.X, *coded])
    fitted, _ = heard(MARGaussianMixture(**options), every, two.y)
    fewer = np.hstack([two.X, *(columns[:, 1:] for columns in coded)])
    without = MARGaussianMixture(**options).fit(fewer, two.y)
    assert fitted.converged_
    assert without.converged_
    np.testing.assert_allclose(fitted.predict_proba(every), without.predict_proba(fewer), atol=1e-5)


@pytest.mark.parametrize("covariance_type", ["diag", "spherical"])
def test_a_dependent_column_is_no_matter_where_correlations_are_not_modelled(covariance_type, two):
    more = np.c_[two.X, two.X[:, 0]]
    fitted, said = heard(MARGaussianMixture(covariance_type=covariance_type, link="logit"), more, two.y)
    assert not said
    assert_sound(fitted, more)


@pytest.mark.parametrize("solver", ["lbfgs", "ecm"])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_fewer_rows_than_features_have_a_finite_answer(covariance_type, solver):
    rng = np.random.default_rng(0)
    y = np.array([0, 0, 0, 1, 1, 1, -1, -1])
    X = rng.normal(size=(8, 10)) + np.where(np.arange(8) % 7 > 2, 3.0, 0.0)[:, None]
    options = {"covariance_type": covariance_type, "link": "logit", "solver": solver, "max_iter": 100}
    if solver == "ecm":
        options["n_init"] = 1
    fitted, said = heard(MARGaussianMixture(**options), X, y)
    assert_sound(fitted, X)
    if covariance_type in ("full", "tied"):
        assert "fewer rows than features" in said[BoundaryWarning]
    np.testing.assert_array_equal(fitted.transduction_[:6], y[:6])


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_a_huge_offset_does_not_matter(covariance_type, two):
    options = {"covariance_type": covariance_type, "link": "logit"}
    plain = MARGaussianMixture(**options).fit(two.X, two.y)
    away = MARGaussianMixture(**options).fit(two.X + 1e6, two.y)
    np.testing.assert_allclose(away.predict_proba(two.X + 1e6), plain.predict_proba(two.X), atol=1e-8)
    np.testing.assert_allclose(away.means_ - 1e6, plain.means_, atol=1e-8)
    np.testing.assert_allclose(away.covariances_, plain.covariances_, rtol=1e-8, atol=1e-8)
    assert away.loglik_ == pytest.approx(plain.loglik_, abs=1e-6)


# Rows


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_feature_that_is_not_finite_is_refused_by_column_and_row(value, two):
    X = two.X.copy()
    X[17, 1] = value
    what = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=rf"{what} in column 'x1' \(first in row 17\)"):
        MARGaussianMixture().fit(X, two.y)
    with pytest.raises(ValueError, match=rf"{what} in column 'x1' \(first in row 17\)"):
        MARGaussianMixture(link="logit").fit(two.X, two.y).predict(X)


def test_no_rows_and_no_columns_are_refused(two):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        MARGaussianMixture().fit(two.X[:0], two.y[:0])
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        MARGaussianMixture().fit(two.X[:, :0], two.y)


@pytest.mark.parametrize("link", ["logit", None])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_a_single_labelled_row_in_a_class_is_enough(covariance_type, link, simulate):
    data = simulate(distance=5.0, seed=2)
    y = data.y.copy()
    y[np.flatnonzero(y == 1)[1:]] = -1
    fitted, _ = heard(MARGaussianMixture(covariance_type=covariance_type, link=link), data.X, y)
    assert_sound(fitted, data.X)
    assert fitted.converged_
    if link is None:  # a class that lost its labels as a class is not what the mechanism is about
        assert np.mean(fitted.transduction_ == data.truth) > 0.97


@pytest.mark.parametrize(
    ("seed", "covariance_type"),
    [
        (1, "tied"),
        (2, "spherical"),
        (4, "full"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in ((2, "tied"), (3, "full"), (3, "diag"))),
    ],
)
def test_one_labelled_row_a_class_and_three_more_have_a_finite_answer(seed, covariance_type):
    X = np.random.default_rng(seed).normal(size=(5, 2))
    X[1] += 3.0
    fitted, _ = heard(MARGaussianMixture(covariance_type=covariance_type), X, np.array([0, 1, -1, -1, -1]))
    assert_sound(fitted, X)
    assert fitted.transduction_[:2].tolist() == [0, 1]


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
@pytest.mark.parametrize("solver", ["lbfgs", "ecm"])
def test_a_class_that_is_one_point_is_named(covariance_type, solver):
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=200)
    X = rng.normal(size=(200, 2))
    X[truth == 1] = [4.0, 4.0]
    y = np.where(rng.random(200) < 0.3, -1, truth)
    options = {"covariance_type": covariance_type, "solver": solver, "link": "logit"}
    fitted, said = heard(MARGaussianMixture(**options), X, y)
    assert "covariance of class 1 collapsed to the limit set by reg_covar=1e-06" in said[BoundaryWarning]
    assert_sound(fitted, X)
    np.testing.assert_allclose(fitted.means_[1], 4.0, atol=1e-5)
    np.testing.assert_array_equal(fitted.transduction_, truth)


def test_two_classes_of_one_distribution_have_a_finite_answer():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 2)), rng.integers(2, size=300)
    y[rng.random(300) < 0.5] = -1
    for covariance_type in COVARIANCE_TYPES:
        fitted, _ = heard(MARGaussianMixture(covariance_type=covariance_type), X, y)
        assert_sound(fitted, X)
        assert fitted.converged_


@pytest.mark.parametrize(
    ("covariance_type", "uncertainty"),
    [*((kind, "entropy") for kind in COVARIANCE_TYPES), *(("tied", name) for name in NAMES if name != "entropy")],
)
def test_rows_a_million_deviations_away_have_probabilities(covariance_type, uncertainty, two):
    fitted = MARGaussianMixture(covariance_type=covariance_type, measure=uncertainty, link="logit")
    fitted.fit(two.X, two.y)
    far = 1e6 * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert_sound(fitted, far)
    assert np.isfinite(fitted.uncertainty(far)).all()
    assert np.isfinite(fitted.decision_function(far)).all()


# Weights


@pytest.mark.parametrize("n_components", [1, 2])
def test_unlabelled_rows_without_weight_leave_no_mechanism(n_components, two):
    options = {"n_components": n_components, "random_state": 0}
    weighted, said = heard(
        MARGaussianMixture(**options), two.X, two.y, sample_weight=(~two.missing).astype(float)
    )  # fmt: skip
    assert "Every row has a label" in said[BoundaryWarning]
    np.testing.assert_array_equal(weighted.missing_proba(two.X), 0.0)
    removed = MARGaussianMixture(**options).fit(two.X[~two.missing], two.y[~two.missing])
    assert weighted.loglik_ == pytest.approx(removed.loglik_, rel=1e-12)


def test_weights_that_no_fit_could_use_are_refused(two):
    clf, ones = MARGaussianMixture(), np.ones(len(two.y))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        clf.fit(two.X, two.y, sample_weight=np.where(two.y == 1, -1.0, 1.0))
    with pytest.raises(ValueError, match="class 1 has no labelled row of positive sample_weight"):
        clf.fit(two.X, two.y, sample_weight=np.where(two.y == 1, 0.0, 1.0))
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        clf.fit(two.X, two.y, sample_weight=np.nan * ones)
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(300,\)"):
        clf.fit(two.X, two.y, sample_weight=ones[:3])
    with pytest.raises(ValueError, match="every sample_weight is zero"):
        clf.fit(two.X, two.y, sample_weight=0.0 * ones)


# Every row labelled


def closed_form(X, z, covariance_type):
    """Weights, means and covariances of maximum likelihood, by numpy alone."""
    groups = [X[z == k] for k in np.unique(z)]
    weights = np.array([len(group) for group in groups]) / len(X)
    own = np.array([np.cov(group.T, bias=True) for group in groups])
    shape = {
        "full": own,
        "tied": np.einsum("k,kij->ij", weights, own),
        "diag": np.einsum("kii->ki", own),
        "spherical": np.einsum("kii->k", own) / X.shape[1],
    }
    return weights, np.array([group.mean(axis=0) for group in groups]), shape[covariance_type]


def bayes(X, weights, means, covariances):
    """Posteriors and log-likelihood of the features, by scipy."""
    log_joint = np.stack(
        [
            np.log(w) + multivariate_normal(m, c).logpdf(X)
            for w, m, c in zip(weights, means, covariances, strict=True)
        ],
        axis=1,
    )  # fmt: skip
    return np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True)), log_joint


@pytest.mark.parametrize("link", ["aranda-ordaz", None])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_all_rows_labelled_gives_the_closed_form_estimates(covariance_type, link, three):
    fitted = MARGaussianMixture(covariance_type=covariance_type, link=link)
    fitted, said = heard(fitted, three.X, three.truth)
    weights, means, covariances = closed_form(three.X, three.truth, covariance_type)
    np.testing.assert_allclose(fitted.weights_, weights, rtol=1e-12)
    np.testing.assert_allclose(fitted.class_prior_, weights, rtol=1e-12)
    np.testing.assert_allclose(fitted.means_, means, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(fitted.covariances_, covariances, rtol=1e-10, atol=1e-12)
    whole = {
        "full": covariances,
        "tied": [covariances] * 3,
        "diag": [np.diag(v) for v in covariances] if covariance_type == "diag" else None,
        "spherical": [v * np.eye(2) for v in covariances],
    }[covariance_type]
    proba, log_joint = bayes(three.X, weights, means, whole)
    np.testing.assert_allclose(fitted.predict_proba(three.X), proba, rtol=1e-8)
    assert fitted.loglik_ == pytest.approx(log_joint[np.arange(len(three.X)), three.truth].sum(), rel=1e-10)
    assert fitted.loglik_missing_ == 0.0
    assert fitted.converged_
    assert said[BoundaryWarning].startswith("Every row has a label: there is no mechanism to estimate")
    if link is not None:
        np.testing.assert_array_equal(fitted.missing_proba(three.X), 0.0)
        np.testing.assert_array_equal(fitted.alpha_, [-np.inf, 0.0])


# Limits of the mechanism


@pytest.mark.parametrize(
    "estimator",
    [
        MARGaussianMixture(),
        MARGaussianMixture(solver="ecm"),
        MARStudentMixture(),
        MARLogisticRegression(),
        MARKernelClassifier(C=1.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=10, cv=None),
    ],
)
def test_running_out_of_iterations_is_not_convergence(estimator, two):
    fitted, said = heard(clone(estimator).set_params(max_iter=1), two.X, two.y)
    assert not fitted.converged_
    assert "did not converge: max_iter=1 iterations were used up" in said[ConvergenceWarning]
    assert fitted.n_iter_ == 1
    assert np.isfinite(fitted.predict_log_proba(two.X)).all()


@pytest.mark.parametrize("solver", ["lbfgs", "ecm"])
def test_a_shape_that_runs_to_zero_is_told(solver, two):
    fitted, said = heard(MARGaussianMixture(**PAPER, solver=solver), two.X, two.y)
    assert fitted.shape_ == 0.0
    assert "link='cloglog'" in said[BoundaryWarning]
    assert fitted.converged_
    assert_sound(fitted, two.X)
    fixed, said = heard(MARGaussianMixture(**{**PAPER, "link": "cloglog"}, solver=solver), two.X, two.y)
    assert not said
    assert fixed.loglik_ == pytest.approx(fitted.loglik_, abs=1e-5)


@pytest.mark.parametrize("solver", ["lbfgs", "ecm"])
def test_a_shape_that_runs_to_its_upper_limit_is_told(solver, simulate):
    data = simulate(n=400, alpha=(20.0, -50.0), shape=30.0, seed=1)
    fitted, said = heard(MARGaussianMixture(**PAPER, solver=solver), data.X, data.y)
    assert fitted.shape_ == pytest.approx(100.0, rel=1e-3)
    assert "upper limit, 100" in said[BoundaryWarning]
    assert_sound(fitted, data.X)
    assert fitted.loglik_ > MARGaussianMixture(**{**PAPER, "link": "logit"}, solver=solver).fit(data.X, data.y).loglik_


@pytest.mark.parametrize(
    ("uncertainty", "link"),
    [
        *((name, "logit") for name in NAMES),
        ("margin", "aranda-ordaz"),
        *(pytest.param(name, "aranda-ordaz", marks=pytest.mark.long) for name in NAMES if name != "margin"),
    ],
)
def test_missingness_without_error_has_a_finite_answer_and_a_note(uncertainty, link, simulate):
    data = simulate(seed=5)
    u = MARGaussianMixture(link=None, measure=uncertainty).fit(data.X, data.truth).uncertainty(data.X)
    hard = u < np.quantile(u, 0.3) if MEASURES[uncertainty].grows == "clear" else u > np.quantile(u, 0.7)
    fitted, said = heard(
        MARGaussianMixture(measure=uncertainty, link=link), data.X, np.where(hard, -1, data.truth)
    )  # fmt: skip
    assert "separated" in [note.code for note in fitted.model_.notes]
    assert said[BoundaryWarning]
    assert_sound(fitted, data.X)
    assert np.isfinite(fitted.alpha_).all()
    np.testing.assert_allclose(fitted.missing_proba(data.X), hard, atol=0.1)


@pytest.mark.parametrize("shape", [1e-300, 1e-8, 200.0, 1e5])
def test_a_fixed_shape_may_be_extreme(shape, two):
    fitted, said = heard(MARGaussianMixture(link="aranda-ordaz", shape=shape), two.X, two.y)
    assert fitted.shape_ == shape
    assert_sound(fitted, two.X)
    assert not said


def test_all_notes_come_in_one_warning(two):
    fitted, said = heard(MARGaussianMixture(), np.c_[two.X, two.X[:, 0]], two.truth)
    assert len(fitted.notes_) == 2
    assert "Every row has a label" in said[BoundaryWarning]
    assert "linearly dependent" in said[BoundaryWarning]


# Options


@pytest.mark.parametrize(
    "options",
    [
        *({"link": value} for value in ("probit", 3)),
        *({"shape": value, "link": "aranda-ordaz"} for value in (-1.0, np.inf, np.nan, "1")),
        {"shape": 2.0, "link": "logit"},
        {"shape": 1.0, "link": None},
        {"mcar_share": True, "link": None},
        *({"measure": value} for value in ("doubt", None)),
        {"measure": "doubt", "link": None},
        *({"n_components": value} for value in (0, 1.5, "2", {"z": 2}, {1: 0})),
        *({"n_init": value} for value in (0, 1.5)),
        {"max_iter": 0},
        *({"tol": value} for value in (0, np.nan)),
        *({"reg_covar": value} for value in (0, 1.0)),
        {"solver": "em"},
        *({"covariance_type": value} for value in ("round", ["full"])),
        *({"init": value} for value in ("random", None)),
        {"classes": 3},
    ],
    ids=lambda options: "".join(str(options).split())[:50],
)
def test_an_option_that_no_fit_could_use_is_refused_by_name(options, two):
    with pytest.raises(ValueError, match=next(iter(options))):
        MARGaussianMixture(**options).fit(two.X, two.y)


def test_more_components_than_rows_are_refused_by_class(two):
    few = np.r_[np.flatnonzero(two.truth == 0), np.flatnonzero(two.truth == 1)[:3]]
    with pytest.raises(ValueError, match=r"n_components=4 for.*class 1.*3 rows"):
        MARGaussianMixture(n_components={1: 4}).fit(two.X[few], two.truth[few])


def test_without_a_link_there_is_no_missing_proba_and_the_error_says_what_to_do(two):
    fitted = MARGaussianMixture(link=None).fit(two.X, two.y)
    assert not hasattr(fitted, "missing_proba")
    assert hasattr(MARGaussianMixture(), "missing_proba")
    with pytest.raises(AttributeError) as refusal:
        fitted.missing_proba(two.X)
    shown = "".join(traceback.format_exception(refusal.value))
    assert "link=None ignores the mechanism: fit MARGaussianMixture with a link to have one" in shown
    assert (fitted.alpha_, fitted.shape_, fitted.share_, fitted.mechanism_) == (None, None, None, None)
    assert fitted.loglik_missing_ == 0.0


@pytest.mark.parametrize("kind", ["csr_matrix", "coo_array"])
def test_sparse_rows_are_refused_with_what_to_do(kind):
    X = getattr(scipy.sparse, kind)(np.eye(20))
    y = np.tile([0, 1, -1, 0], 5)
    with pytest.raises(TypeError, match=r"Sparse data .* shape \(20, 20\).*TruncatedSVD.*toarray"):
        MARGaussianMixture().fit(X, y)
    fit = MARGaussianMixture(covariance_type="diag", link=None).fit(
        np.random.default_rng(0).normal(size=(40, 3)), np.tile(y, 2)
    )
    with pytest.raises(TypeError, match="Sparse data"):
        fit.predict(scipy.sparse.csr_matrix(np.ones((2, 3))))


def test_more_features_than_covariance_matrices_can_have_are_refused_with_what_to_do():
    X = np.random.default_rng(0).normal(size=(30, 2001))
    y = np.tile([0, 1, -1], 10)
    for kind in ("full", "tied"):
        with pytest.raises(ValueError, match=r"2001 features.*covariance_type='diag'.*PCA"):
            MARGaussianMixture(covariance_type=kind).fit(X, y)
    assert MARGaussianMixture(covariance_type="diag", link=None, solver="ecm", max_iter=2).fit(X, y).means_.shape == (
        2,
        2001,
    )
