"""Student-t components: their likelihood, its derivatives, the Gaussian limit and the estimator."""

import warnings

import numpy as np
import pytest
from problems import Problem, central_differences, mechanism_of
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import multivariate_t, t

from marmix import BoundaryWarning, MARGaussianMixture, MARStudentMixture, compare
from marmix.core.covariance import STRUCTURES
from marmix.core.gaussian import Gaussians
from marmix.core.measures import log_tau, posterior
from marmix.core.student import TAIL_MIN, log_constant
from marmix.fitting import Objective
from marmix.inference.simulation import simulate
from marmix.plotting.mixture import _ellipses
from marmix.plotting.planes import Components

KINDS = [*sorted(STRUCTURES), "wide"]
LABELS = np.random.default_rng(0).integers(-1, 2, size=60)


def problem(kind, dof="common", tail=0.3, counts=(1, 1), mechanism=None):
    """A likelihood problem with t components."""
    wide, kind = kind == "wide", "full" if kind == "wide" else kind
    return Problem(f"student {kind}", mechanism, LABELS, list(counts), weighted=True, wide=wide, dof=dof, tail=tail)


@pytest.fixture(scope="module")
def heavy():
    """Two classes with t distributions of three degrees of freedom; labels of hard rows are missing."""
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=300)
    X = rng.normal(size=(300, 2)) / np.sqrt(rng.chisquare(3, size=300) / 3)[:, None]
    X[:, 0] += 3.0 * truth
    far = np.abs(X[:, 0] - 1.5)
    return X, np.where((rng.uniform(size=300) < np.exp(-far)) & (np.arange(300) > 20), -1, truth)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(1, 1), (2, 1)])
def test_scores_are_those_of_multivariate_t(kind, counts):
    case = problem(kind, "by_class", counts=counts)
    x, theta = case.engine.frame.enter(case.X), case.theta
    scores = case.model.scores(theta, x)
    spread = case.model.structure.spread(theta.chol, len(theta.mu))
    for k in range(2):
        densities = [
            np.exp(
                theta.log_pi[c] + multivariate_t(theta.mu[c], spread[c] @ spread[c].T, 1 / theta.tail[c]).logpdf(x.T)
            )
            for c in np.flatnonzero(case.model.owner == k)
        ]
        assert np.allclose(scores[k], np.log(np.sum(densities, axis=0)), atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dof", ["common", "by_class", 3.0])
@pytest.mark.parametrize(("tail", "step"), [(0.3, 1e-3), (1e-4, 2e-5)])
@pytest.mark.parametrize("link", [None, "with share"])
@pytest.mark.pairs
def test_gradient_is_that_of_the_likelihood(kind, dof, tail, step, link):
    case = problem(kind, dof, tail, (2, 1), None if link is None else mechanism_of(link, "entropy"))
    gradient = case.gradient(np.zeros(case.size))
    differences = central_differences(case.loglik, np.zeros(case.size), step)
    assert np.allclose(gradient, differences, atol=1e-6 * (1 + np.abs(gradient).max()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_lower_limit_of_the_tail_is_the_gaussian_likelihood(kind):
    case = problem(kind, tail=TAIL_MIN)
    gaussian, theta = Objective(case.engine, case.model.gaussian()), Gaussians(*case.theta[:3])
    sums = case.objective.sums(case.theta, None)
    assert sums.ignorable == pytest.approx(gaussian.sums(theta, None).ignorable, abs=1e-8)
    # the slope of the log density in 1 / nu is (D^2 - 2 d D + d (d - 2)) / 4 there
    spread = case.model.structure.spread(theta.chol, 2)
    x = case.engine.frame.enter(case.X)
    D = np.array(
        [(np.linalg.solve(R, x - mean[:, None]) ** 2).sum(axis=0) for R, mean in zip(spread, theta.mu, strict=True)]
    )
    tau = np.exp(log_tau(posterior(case.model.scores(case.theta, x))).T)
    tau[case.z >= 0] = np.eye(2)[case.z[case.z >= 0]]
    slope = case.weight @ (tau * ((D**2 - 6 * D + 3) / 4).T)
    assert np.allclose(sums.moments.by_component[:, -1], slope, rtol=1e-8)


@pytest.mark.parametrize("d", [1, 4, 20])
def test_constant_of_the_density_across_its_two_formulas(d):
    nu = np.array([1.0, 5.0, 29.9, 30.1, 1000.0])
    value, slope = log_constant(1 / nu, d)
    assert np.allclose(value, gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * np.log(nu / 2), atol=1e-11)
    ends = [log_constant(1 / nu + sign * 1e-4 / nu, d)[0] for sign in (-1, 1)]
    assert np.allclose(slope, (ends[1] - ends[0]) / (2e-4 / nu), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Every row has a label")
def test_all_rows_labelled_gives_the_maximum_of_the_t_likelihood():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2)) / np.sqrt(rng.chisquare(4, size=150) / 4)[:, None]
    X[:75] += [8.0, 0.0]
    y = np.repeat([0, 1], 75)
    fit = MARStudentMixture(covariance_type="full", dof="by_class", tol=1e-12).fit(X, y)

    def negative(v):
        root = np.array([[np.exp(v[2]), 0.0], [v[3], np.exp(v[4])]])
        return -multivariate_t(v[:2], root @ root.T, np.exp(v[5])).logpdf(X[:75]).sum()

    start = [8.0, 0.0, 0.0, 0.0, 0.0, 1.5]
    best = minimize(negative, start, method="BFGS", options={"gtol": 1e-6})
    root = np.array([[np.exp(best.x[2]), 0.0], [best.x[3], np.exp(best.x[4])]])
    assert np.allclose(fit.means_[0], best.x[:2], atol=1e-4)
    assert np.allclose(fit.scales_[0], root @ root.T, atol=1e-3)
    assert fit.dof_[0] == pytest.approx(np.exp(best.x[5]), rel=1e-3)
    other = multivariate_t(fit.means_[1], fit.scales_[1], fit.dof_[1]).logpdf(X[75:]).sum()
    assert fit.loglik_ == pytest.approx(-best.fun + other + 150 * np.log(0.5), abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("full", {}),
        ("tied", {"dof": "by_class", "n_components": {0: 2}}),
        ("diag", {"link": "aranda-ordaz"}),
        ("spherical", {"link": None}),
    ],
)
def test_no_fit_ends_below_the_gaussian_one(two, heavy, kind, options):
    options = {"covariance_type": kind, "random_state": 0} | options
    gaussian = {name: value for name, value in options.items() if name != "dof"}
    for X, y in ((two.X, two.y), heavy):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundaryWarning)
            student, limit = MARStudentMixture(**options).fit(X, y), MARGaussianMixture(**gaussian).fit(X, y)
        assert student.loglik_ > limit.loglik_ - 1e-6


def test_infinite_degrees_of_freedom_are_the_gaussian_fit(two):
    student = MARStudentMixture(dof=np.inf, covariance_type="full").fit(two.X, two.y)
    gaussian = MARGaussianMixture(covariance_type="full").fit(two.X, two.y)
    assert student.loglik_ == pytest.approx(gaussian.loglik_, abs=1e-6)
    assert np.allclose(student.predict_proba(two.X), gaussian.predict_proba(two.X), atol=1e-5)
    assert np.allclose(student.covariances_, gaussian.covariances_, rtol=1e-3)
    assert np.isinf(student.dof_).all()
    assert not student.notes_  # a given value is no limit that was run to


def test_light_tails_have_infinite_degrees_of_freedom_and_a_note():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.uniform(-1.0, 1.0, size=(200, 2)) + y[:, None]
    with pytest.warns(BoundaryWarning, match="MARGaussianMixture is the simpler model"):
        clf = MARStudentMixture().fit(X, y_partial := np.where(rng.uniform(size=200) < 0.4, -1, y))
    assert np.isinf(clf.dof_).all()
    result = clf.inference(X, y_partial)
    place = result.param_names.index("1/dof")
    assert result.params[place] == 0.0
    assert np.isnan(result.bse[place])
    assert any("infinite degrees of freedom" in note for note in result.notes)
    gaussian = MARGaussianMixture().fit(X, y_partial).inference(X, y_partial)
    assert result.bse[-1] == pytest.approx(gaussian.bse[-1], rel=1e-3)


def test_dof_of_several_classes(heavy):
    common, by_class, given = (MARStudentMixture(dof=dof).fit(*heavy) for dof in ("common", "by_class", 5))
    assert common.dof_[0] == common.dof_[1]
    assert by_class.dof_[0] != by_class.dof_[1]
    assert np.array_equal(given.dof_, [5.0, 5.0])
    assert by_class.loglik_ >= common.loglik_ >= given.loglik_
    assert [fit.model_.n_parameters for fit in (given, common, by_class)] == [8 + 2, 8 + 3, 8 + 4]
    assert np.allclose(given.covariances_, given.scales_ * 5 / 3)
    assert by_class.covariances_.shape == (2, 2, 2)


def test_equivariance(heavy):
    X, y = heavy
    A, b = np.array([[2.0, 1.0], [-0.5, 3.0]]), np.array([5.0, -7.0])
    first, second = (MARStudentMixture(covariance_type="full", tol=1e-12).fit(x, y) for x in (X, X @ A.T + b))
    assert np.allclose(second.predict_proba(X @ A.T + b), first.predict_proba(X), atol=1e-5)
    assert second.loglik_ == pytest.approx(first.loglik_ - len(X) * np.log(np.linalg.det(A)), abs=1e-5)
    assert second.dof_ == pytest.approx(first.dof_, rel=1e-4)
    assert np.allclose(second.scales_, A @ first.scales_ @ A.T, rtol=1e-3)


def test_far_rows_are_uncertain(heavy):
    X, y = heavy
    far = np.array([[-1e6, 0.0], [1e6, 0.0]])
    proba = MARStudentMixture(dof=3.0).fit(X, y).predict_proba(far)
    assert (np.abs(proba - 0.5) < 0.2).all()
    assert (MARGaussianMixture().fit(X, y).predict_proba(far).max(axis=1) > 0.999999).all()


def test_a_warm_start_is_no_worse(heavy):
    clf = MARStudentMixture(covariance_type="full", dof="by_class").fit(*heavy)
    first = clf.loglik_
    assert clf.set_params(warm_start=True).fit(*heavy).loglik_ >= first - 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dof": "free"}, "dof='free' must be 'common'"),
        ({"dof": 0.5}, "dof=0.5 must be"),
        ({"dof": True}, "dof=True must be"),
        ({"solver": "ecm"}, "solver='lbfgs'"),
    ],
)
def test_settings_that_are_refused(two, options, message):
    with pytest.raises(ValueError, match=message):
        MARStudentMixture(**options).fit(two.X, two.y)


def test_what_does_not_apply_is_refused(heavy):
    clf = MARStudentMixture().fit(*heavy)
    with pytest.raises(ValueError, match="Student-t classes"):
        clf.to_sklearn()


@pytest.mark.parametrize(
    ("kind", "dof"), [("full", "by_class"), ("tied", "by_class"), ("diag", "common"), ("spherical", 3.0)]
)
def test_observed_information_is_the_derivative_of_the_gradient(heavy, kind, dof):
    X, y = heavy
    clf = MARStudentMixture(covariance_type=kind, dof=dof, n_components={1: 2}, random_state=0).fit(X, y)
    fitted = clf.inference(X, y).fitted
    coordinates, step = fitted.coordinates, 1e-4

    def gradient(vector):
        theta, mechanism = coordinates.at(vector)
        return coordinates.gradient(vector, theta, fitted.objective.sums(theta, mechanism))

    rows = [(gradient(step * unit) - gradient(-step * unit)) / (2 * step) for unit in np.eye(coordinates.size)]
    bread = fitted.information.bread
    assert np.allclose(-np.array(rows), bread, atol=1e-4 * np.abs(bread).max())


def test_inference_reports_the_tails(heavy):
    X, y = heavy
    clf = MARStudentMixture(dof="by_class").fit(X, y)
    result = clf.inference(X, y)
    place = result.param_names.index("1/dof[1]")
    assert result.params[place] == pytest.approx(1 / clf.dof_[1])
    low, high = result.conf_int()[place]
    assert 0.0 <= low < 1 / clf.dof_[1] < high <= 1.0
    assert "scale[x0, x1]" in result.param_names


def test_criteria_compare_it_with_the_gaussian_mixture(heavy):
    table = compare(MARGaussianMixture().fit(*heavy), MARStudentMixture().fit(*heavy))
    assert table.index == ["MARStudentMixture()", "MARGaussianMixture()"]


def test_simulation_uses_the_tails(heavy):
    X, y = heavy
    clf = MARStudentMixture().fit(X, y)
    resampled = clf.inference(X, y).bootstrap(3, random_state=0)
    assert resampled.estimates.shape == (3, len(clf.inference(X, y).params))
    assert (resampled.estimates[:, clf.inference(X, y).param_names.index("1/dof")] < 1.0).all()
    rows, _ = simulate(clf, np.repeat(X, 30, axis=0), np.random.default_rng(0), missing=0.0)
    share = np.mean(np.abs(rows[:, 1] - np.median(rows[:, 1])) > 6.0 * np.sqrt(clf.scales_[1, 1]))
    assert share == pytest.approx(2 * t(clf.dof_[0]).sf(6.0), rel=0.4)  # for a Gaussian it is 2e-9


def test_ellipses_hold_their_share_of_a_t_distribution():
    rng = np.random.default_rng(0)
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    component = Components(np.ones(1), np.zeros((1, 2)), covariance[None], np.zeros(1, dtype=int), np.array([3.0]))
    ((_, points),) = _ellipses(component, np.array(["a"]))
    radius = np.einsum("ni,ij,nj->n", points, np.linalg.inv(covariance), points)
    rows = multivariate_t([0, 0], covariance, 3.0, seed=rng).rvs(100_000)
    squared = np.einsum("ni,ij,nj->n", rows, np.linalg.inv(covariance), rows)
    assert np.ptp(radius) < 1e-9
    assert np.mean(squared < radius[0]) == pytest.approx(0.95, abs=0.003)
    density = multivariate_t([0, 0], covariance, 3.0).logpdf(rows[:5])
    assert np.allclose(component.scores(rows[:5])[0], density)
