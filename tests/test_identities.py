"""Identities of the likelihood."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import FLOOR, Problem, mechanism_of
from scipy.stats import multivariate_normal

import marmix.engines
from marmix import MARGaussianMixture, Mechanism
from marmix.core.covariance import STRUCTURES, structure
from marmix.core.frames import Frame
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.engines import NumpyEngine
from marmix.fitting import Objective

LABELS = [0, 1, 2, -1, -1, -1, 0, 1, -1, 2, -1, -1, 0, 0, 1]
COUNTS = [1, 2, 1]
MODELS = [*sorted(STRUCTURES), "student full", "student tied"]


def flat(sums):
    """All sums as one vector."""
    second = [] if sums.moments.second is None else sums.moments.second.ravel()
    parts = [
        [sums.ignorable, sums.missing],
        sums.moments.by_component.ravel(),
        second,
        sums.alpha,
        [sums.shape, sums.share],
    ]
    return np.concatenate(parts)


def sums_of(problem, X=None, z=None, weight=None, **kwargs):
    """The problem's sums with other rows."""
    X = problem.X if X is None else X
    z = problem.z if z is None else z
    engine = NumpyEngine(X, z, weight, problem.model.n_classes, problem.engine.frame)
    return flat(Objective(engine, problem.model).sums(problem.theta, problem.mechanism, **kwargs))


@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_log_likelihood_is_the_paper_s_formula(covariance_type):
    mechanism = mechanism_of("with share", "entropy")
    problem = Problem(covariance_type, mechanism, LABELS, COUNTS, seed=4)
    frame, theta = problem.engine.frame, problem.theta
    covariances = problem.model.structure.covariances(theta.chol, frame.unwhitener)
    means = theta.mu @ frame.unwhitener.T + frame.centre
    d = means.shape[1]
    log_joint = np.empty((len(LABELS), 4))
    for c in range(4):
        matrix = {
            "full": lambda c=c: covariances[c],
            "tied": lambda: covariances,
            "diag": lambda c=c: np.diag(covariances[c]),
            "spherical": lambda c=c: covariances[c] * np.eye(d),
        }[covariance_type]()
        log_joint[:, c] = theta.log_pi[c] + multivariate_normal(means[c], matrix).logpdf(problem.X)
    by_class = np.column_stack([log_joint[:, 0], np.logaddexp(log_joint[:, 1], log_joint[:, 2]), log_joint[:, 3]])
    log_norm = np.logaddexp.reduce(by_class, axis=1)
    tau = np.exp(by_class - log_norm[:, None])
    entropy = -(tau * np.log(tau)).sum(axis=1)
    eta = mechanism.alpha[0] + mechanism.alpha[1] * entropy
    q = mechanism.share + (1 - mechanism.share) * (1 - (1 + mechanism.shape * np.exp(eta)) ** (-1 / mechanism.shape))
    z = np.array(LABELS)
    ignorable = np.where(z < 0, log_norm, by_class[np.arange(len(z)), z]).sum()
    missing = np.where(z < 0, np.log(q), np.log(1 - q)).sum()
    sums = problem.objective.sums(theta, mechanism)
    assert sums.ignorable + len(z) * frame.log_det == pytest.approx(ignorable, rel=1e-10)
    assert sums.missing == pytest.approx(missing, rel=1e-10)


@pytest.mark.parametrize("covariance_type", MODELS)
@given(repeats=st.lists(st.integers(0, 3), min_size=len(LABELS), max_size=len(LABELS)).filter(lambda r: sum(r) > 0))
def test_a_row_of_weight_two_equals_the_row_twice(covariance_type, repeats):
    problem = Problem(covariance_type, mechanism_of("aranda-ordaz"), LABELS, COUNTS)
    weight = np.array(repeats, dtype=float)
    rows = np.repeat(np.arange(len(LABELS)), repeats)
    weighted = sums_of(problem, weight=weight)
    repeated = sums_of(problem, problem.X[rows], problem.z[rows])
    np.testing.assert_allclose(weighted, repeated, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("covariance_type", MODELS)
@pytest.mark.parametrize("size", [1, 3, 7, 44])
def test_the_size_of_the_blocks_does_not_matter(monkeypatch, covariance_type, size):
    problem = Problem(covariance_type, mechanism_of("with share"), LABELS * 3, COUNTS, weighted=True)
    one_block = sums_of(problem, weight=problem.weight)
    monkeypatch.setattr(marmix.engines.host, "block_rows", lambda width: size)
    monkeypatch.setattr(marmix.engines.host, "_SORTED_ROWS", size)
    np.testing.assert_allclose(sums_of(problem, weight=problem.weight), one_block, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("covariance_type", MODELS)
def test_without_slope_the_mechanism_is_a_coin_and_theta_does_not_depend_on_it(covariance_type):
    problem = Problem(covariance_type, Mechanism("entropy").starting(0.3), LABELS, COUNTS)
    both = problem.objective.sums(problem.theta, problem.mechanism)
    alone = problem.objective.sums(problem.theta, None)
    assert both.ignorable == alone.ignorable
    np.testing.assert_array_equal(both.moments.by_component, alone.moments.by_component)
    n_missing = sum(label < 0 for label in LABELS)
    expected = n_missing * np.log(0.3) + (len(LABELS) - n_missing) * np.log(0.7)
    assert both.missing == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_moments_of_both_terms_add(covariance_type):
    problem = Problem(covariance_type, mechanism_of("aranda-ordaz"), LABELS, COUNTS)
    both = sums_of(problem)
    mechanism_only = sums_of(problem, ignorable=False)
    ignorable_only = problem.objective.sums(problem.theta, None)
    ignorable_only = flat(ignorable_only._replace(alpha=np.zeros(2)))
    np.testing.assert_allclose(both, mechanism_only + ignorable_only, rtol=1e-12, atol=1e-12)


def test_covariance_structures_nest():
    # spherical = diag with equal entries = full with diagonal matrices = tied with equal matrices
    rng = np.random.default_rng(0)
    d, labels = 3, np.array(LABELS * 2)
    X = rng.normal(size=(len(labels), d))
    mechanism = mechanism_of("aranda-ordaz", "log-entropy")
    log_pi, mu = np.log([0.2, 0.5, 0.3]), rng.normal(size=(3, d))
    factors = {
        "spherical": np.full(3, 1.3),
        "diag": np.full((3, d), 1.3),
        "full": np.array([1.3 * np.eye(d)] * 3),
        "tied": 1.3 * np.eye(d),
    }
    sums_by_name = {}
    for name, chol in factors.items():
        model = GaussianScores(structure(name, d), [1, 1, 1], FLOOR)
        engine = NumpyEngine(X, labels, None, model.n_classes, Frame(np.zeros(d), np.eye(d)))
        sums = Objective(engine, model).sums(Gaussians(log_pi, mu, chol), mechanism)
        sums_by_name[name] = [sums.ignorable, sums.missing, *sums.moments.by_component[:, : 1 + d].ravel(), *sums.alpha]
    for name in ("spherical", "diag", "tied"):
        np.testing.assert_allclose(sums_by_name[name], sums_by_name["full"], rtol=1e-11, atol=1e-11)


def test_a_component_split_into_two_halves_changes_nothing():
    problem = Problem("full", mechanism_of("aranda-ordaz"), LABELS, [1, 1, 1])
    unsplit = problem.objective.sums(problem.theta, problem.mechanism)
    theta = problem.theta
    twice = [0, 0, 1, 2]
    log_pi = theta.log_pi[twice] + np.log([0.4, 0.6, 1.0, 1.0])
    model = GaussianScores(problem.model.structure, [2, 1, 1], FLOOR)
    split = Objective(problem.engine, model).sums(
        Gaussians(log_pi, theta.mu[twice], theta.chol[twice]), problem.mechanism
    )
    assert split.ignorable == pytest.approx(unsplit.ignorable, rel=1e-12)
    assert split.missing == pytest.approx(unsplit.missing, rel=1e-12)
    moments = split.moments.by_component
    np.testing.assert_allclose(moments[0] + moments[1], unsplit.moments.by_component[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(moments[0] / 0.4, moments[1] / 0.6, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
def test_a_sample_has_the_weight_of_all_rows(covariance_type):
    labels = np.repeat([0, 1, -1], [300, 40, 2000])
    problem = Problem(covariance_type, mechanism_of("aranda-ordaz"), labels, [1, 1])
    sample = problem.engine.thinned(500)
    assert sample.x.shape[1] < 600
    assert sample.weight.sum() == pytest.approx(problem.engine.total_weight, rel=1e-12)
    ends = [*sample.cuts, sample.x.shape[1]]
    for k, count in enumerate([300, 40, 2000]):
        assert sample.weight[ends[k] : ends[k + 1]].sum() == pytest.approx(count, rel=1e-12)
    everything = problem.objective.thinned(len(labels))
    np.testing.assert_allclose(
        flat(everything.sums(problem.theta, problem.mechanism)),
        flat(problem.objective.sums(problem.theta, problem.mechanism)),
        rtol=1e-10,
        atol=1e-10,
    )


def partly_labelled(seed=0, n=150, d=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, d)) + 1.7 * np.eye(3, d)[y]
    return X, np.where(rng.uniform(size=n) < 0.5, -1, y)


@pytest.mark.parametrize("covariance_type", sorted(STRUCTURES))
@settings(max_examples=6)
@given(seed=st.integers(0, 1000), power=st.integers(-8, 8))
def test_affine_maps_leave_posteriors_alone_and_shift_the_log_likelihood(covariance_type, seed, power):
    rng = np.random.default_rng(seed)
    X, y = partly_labelled()
    d = X.shape[1]
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    scales = 10.0 ** rng.uniform(-abs(power), abs(power), size=d)
    matrix = {
        "full": rng.normal(size=(d, d)) @ np.diag(scales) if abs(power) < 3 else np.diag(scales),
        "tied": rng.normal(size=(d, d)) @ np.diag(scales) if abs(power) < 3 else np.diag(scales),
        "diag": np.diag(scales),
        "spherical": 10.0**power * rotation,
    }[covariance_type]
    options = {"covariance_type": covariance_type, "link": "logit", "measure": "entropy", "tol": 1e-12}
    if covariance_type != "diag":  # one structure with several starts is enough
        options["n_init"] = 1
    plain = MARGaussianMixture(**options).fit(X, y)
    moved = MARGaussianMixture(**options).fit((X + 5) @ matrix.T, y)
    np.testing.assert_allclose(moved.predict_proba((X + 5) @ matrix.T), plain.predict_proba(X), atol=1e-5, rtol=0.0)
    shift = -len(X) * np.linalg.slogdet(matrix)[1]
    assert moved.loglik_ == pytest.approx(plain.loglik_ + shift, abs=1e-6 * len(X))
    np.testing.assert_allclose(moved.alpha_, plain.alpha_, rtol=1e-3, atol=1e-3)


def test_pivots_never_pass_the_floor_in_the_optimiser_s_coordinates():
    problem = Problem("full", None, LABELS, COUNTS)
    vector = np.minimum(np.full(problem.chart.size, 1e3), problem.chart.upper)
    vector[~np.isfinite(problem.chart.upper)] = 0.0
    pivots = problem.model.structure.pivots(problem.chart.theta(vector).chol)
    np.testing.assert_allclose(pivots, FLOOR, rtol=1e-9)
