"""Second derivatives of the likelihood, outer products of the rows' scores, and their coordinates."""

import mpmath as mp
import numpy as np
import pytest
from problems import Problem, mechanism_of

from marmix.core.covariance import STRUCTURES
from marmix.core.frames import Covariates, Frame
from marmix.core.linear import LinearScores
from marmix.core.links import hazard, hazard_curvature
from marmix.core.measures import MEASURES, measure_curvature, posterior
from marmix.core.mechanism import drivers_of
from marmix.engines import NumpyEngine
from marmix.fitting import Objective
from marmix.inference.coordinates import Coordinates
from marmix.inference.curvature import curvature, expected_outer
from marmix.inference.information import inverse

ANY_NUMBER = [name for name, measure in MEASURES.items() if measure.only_classes is None]  # of classes allowed
SMOOTH = [name for name in ANY_NUMBER if not MEASURES[name].kinked]  # for any number of classes
KINKED = [name for name in ANY_NUMBER if MEASURES[name].kinked]  # with three classes or more
LINKS = ["logit", "cloglog", "aranda-ordaz", "near cloglog", "large shape", "with share"]
KINDS = [*sorted(STRUCTURES), "wide"]


def labels_of(classes, n=36, seed=3):
    z = np.random.default_rng(seed).integers(-1, classes, size=n)
    z[:classes] = np.arange(classes)
    return z


def with_slopes(mechanism, covariates):
    slopes = np.linspace(0.3, -0.4, covariates)
    return None if mechanism is None else mechanism.moved(np.array([*mechanism.alpha, *slopes]))


def objective_of(X, z, weight, frame, model, covariates, tempering):
    """The objective of a model on these rows; its engine keeps the arguments in `made_of`."""
    engine = NumpyEngine(X, z, weight, model.n_classes, frame, covariates)
    engine.made_of = X, z, weight, frame, model, covariates, tempering
    return Objective(engine, model, tempering)


def mixture(kind, mechanism, counts=(1, 1), d=2, weighted=False, covariates=0, tempering=1.0, n=36):
    """Objective, theta and mechanism of a random mixture, away from a maximum."""
    wide = kind == "wide"
    problem = Problem(
        "full" if wide else kind, mechanism, labels_of(len(counts), n), list(counts), d=d, weighted=weighted, wide=wide
    )
    columns = Covariates(list(range(covariates)), Frame(np.full(covariates, 3.0), np.eye(covariates) / 2))
    rows = problem.X, problem.z, problem.weight, problem.engine.frame
    return (
        objective_of(*rows, problem.model, columns, tempering),
        problem.theta,
        with_slopes(mechanism, covariates),
    )


def logistic(classes, mechanism, degree=1, C=np.inf, weighted=True, covariates=0, tempering=1.0, n=40):
    """Objective, theta and mechanism of a random logistic regression."""
    rng, d = np.random.default_rng(1), 2
    X, z = rng.normal(size=(n, d)) * 2 + 1, labels_of(classes, n)
    model = LinearScores(d, classes, degree, C, np.ones(d), np.full(d, 2.0))
    columns = Covariates(list(range(covariates)), Frame(np.ones(covariates), np.eye(covariates)))
    weight = rng.uniform(0.5, 2, size=n) if weighted else None
    objective = objective_of(X, z, weight, Frame(np.ones(d), np.eye(d) / 2), model, columns, tempering)
    phi = model.features(objective.engine.x)
    model.calibrate(phi @ phi.T / n, objective.engine.total_weight)
    return objective, 0.5 * rng.normal(size=(model.vectors, model.n_features())), with_slopes(mechanism, covariates)


def objective_with(objective, rows=slice(None), z=None, weight=None, repeats=None):
    """A copy of the objective with other rows, labels or weights."""
    X, old_z, _, *rest = objective.engine.made_of
    X, z = X[rows], (old_z if z is None else z)[rows]
    if repeats is not None:
        X, z = np.repeat(X, repeats, axis=0), np.repeat(z, repeats)
    return objective_of(X, z, weight, *rest)


def pulled(coordinates, vector, gradient):
    """The gradient in the coordinates, from one in (W, kappa)."""
    part, rest = coordinates._parts(vector)
    cut = len(gradient) - coordinates._size_of_kappa
    by_theta, by_mechanism = (
        coordinates._by_theta(part, gradient[:cut]),
        coordinates._by_mechanism(rest, gradient[cut:]),
    )
    return coordinates.basis.T @ np.concatenate([by_theta, by_mechanism])


def equations(coordinates, objective, vector):
    """The equations of a fit, in the coordinates: a tempered mechanism has weight t in those of the classes only."""
    theta, mechanism = coordinates.at(vector)
    sums = objective.sums(theta, mechanism)
    if objective.tempering != 1.0:
        untempered = objective.untempered().sums(theta, mechanism)
        sums = sums._replace(alpha=untempered.alpha, shape=untempered.shape, share=untempered.share)
    return coordinates.gradient(vector, theta, sums)


def differences(function, size, steps):
    columns = []
    for unit, step in zip(np.eye(size), np.broadcast_to(steps, size), strict=True):
        near = function(step * unit) - function(-step * unit)
        far = function(2 * step * unit) - function(-2 * step * unit)
        columns.append((8 * near - far) / (12 * step))
    return np.column_stack(columns)


def steps_of(coordinates):
    steps = np.full(coordinates.size, 2e-4)
    steps[coordinates.n_theta :] = 2e-6  # a shape of 40 changes by one per 6e-4 of its coordinate
    return steps


def check(objective, theta, mechanism, rtol=1e-7):
    """Check gradient and Hessian of `curvature` against differences of the equations of a fit."""
    coordinates = Coordinates(objective, theta, mechanism)
    sums = curvature(objective, theta, mechanism)
    origin, steps = np.zeros(coordinates.size), steps_of(coordinates)
    gradient = equations(coordinates, objective, origin)
    assert np.abs(gradient).max() > 1e-2  # not a maximum: the curvature of the coordinates matters
    result = pulled(coordinates, origin, sums.gradient)
    np.testing.assert_allclose(result, gradient, atol=1e-11 * np.abs(gradient).max(), rtol=0.0)
    pull = coordinates.pull(len(sums.gradient))
    bend = differences(lambda vector: pulled(coordinates, vector, sums.gradient), coordinates.size, steps)
    numeric = differences(lambda vector: equations(coordinates, objective, vector), coordinates.size, steps)
    result = pull @ sums.hessian @ pull.T + bend
    np.testing.assert_allclose(result, numeric, atol=rtol * np.abs(numeric).max(), rtol=0.0)


# Links and measures.


@pytest.mark.parametrize("shape", [0.0, 1e-6, 1e-3, 0.0099, 0.0101, 0.05, 0.3, 1.0, 7.0, 100.0])
def test_curvature_of_the_link_agrees_with_fifty_digits(shape):
    eta = np.linspace(-30.0, 30.0, 121)
    result = hazard_curvature(eta, shape, hazard(eta, shape, True))
    with mp.workdps(120):
        a = mp.mpf(shape)
        for i, value in enumerate(eta.tolist()):
            e = mp.exp(mp.mpf(value))
            slope, n = e / (1 + a * e), mp.log(1 + a * e)
            by_shape = 2 * n / a**3 - 2 * slope / a**2 - slope**2 / a if a else 2 * e**3 / 3
            for entry, truth in zip(result, (slope / (1 + a * e), -(slope**2), by_shape), strict=True):
                assert abs(mp.mpf(float(entry[i])) - truth) <= 1e-12 * abs(truth)


@pytest.mark.parametrize("spread", [1.0, 300.0])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("name", ANY_NUMBER)
def test_curvature_of_a_measure_is_symmetric_and_sums_to_zero_over_the_classes(name, classes, spread):
    p = posterior(spread * np.random.default_rng(1).normal(size=(classes, 50)))
    result = measure_curvature(name, p)
    assert np.isfinite(result).all()
    np.testing.assert_array_equal(result, np.swapaxes(result, 0, 1))
    np.testing.assert_allclose(result.sum(axis=0), 0.0, atol=1e-8)


# Gradient and Hessian against differences of the equations of a fit.


@pytest.mark.pairs
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("measure", list(MEASURES))
@pytest.mark.parametrize("kind", KINDS)
def test_hessian_of_a_mixture_for_every_covariance_measure_and_link(kind, measure, link):
    check(*mixture(kind, mechanism_of(link, measure)))


@pytest.mark.pairs
@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1), (2, 1, 3)])
@pytest.mark.parametrize("measure", [None, *SMOOTH])
@pytest.mark.parametrize("kind", KINDS)
def test_hessian_of_a_mixture_with_more_classes_and_components(kind, measure, counts):
    mechanism = None if measure is None else mechanism_of("with share", measure)
    check(*mixture(kind, mechanism, counts))


@pytest.mark.pairs
@pytest.mark.parametrize("tempering", [1.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_hessian_of_a_mixture_with_weights_covariates_and_tempering(kind, tempering):
    check(*mixture(kind, mechanism_of("with share"), (1, 2), weighted=True, covariates=2, tempering=tempering))


@pytest.mark.pairs
@pytest.mark.parametrize("tempering", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("link", [None, "logit", "cloglog", "with share"])
@pytest.mark.parametrize("C", [np.inf, 0.7])
@pytest.mark.parametrize(("classes", "degree"), [(2, 1), (2, 2), (3, 1), (3, 2)])
def test_hessian_of_a_logistic_regression(classes, degree, C, link, tempering):
    mechanism = None if link is None else mechanism_of(link, "entropy")
    check(*logistic(classes, mechanism, degree, C, covariates=0 if link is None else 1, tempering=tempering))


@pytest.mark.parametrize("measure", KINKED)
def test_hessian_with_kinks_is_that_of_the_smooth_mean_over_many_rows(measure):
    objective, theta, mechanism = mixture("tied", mechanism_of("logit", measure), (1, 1, 1), n=20_000)
    coordinates = Coordinates(objective, theta, mechanism)
    sums = curvature(objective, theta, mechanism)
    pull = coordinates.pull(len(sums.gradient))
    result = pull @ sums.hessian @ pull.T + coordinates.bend(sums.gradient)
    numeric = differences(lambda vector: equations(coordinates, objective, vector), coordinates.size, 0.02)
    np.testing.assert_allclose(result, numeric, atol=0.01 * np.abs(numeric).max(), rtol=0.0)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    "build",
    [lambda m: mixture("full", m, (1, 2)), lambda m: logistic(3, m, 2, C=0.7)],
    ids=["mixture", "logistic"],
)
def test_bend_agrees_with_differences(build, link):
    objective, theta, mechanism = build(mechanism_of(link, "entropy"))
    coordinates, gradient = Coordinates(objective, theta, mechanism), curvature(objective, theta, mechanism).gradient
    numeric = differences(lambda vector: pulled(coordinates, vector, gradient), coordinates.size, steps_of(coordinates))
    np.testing.assert_allclose(coordinates.bend(gradient), numeric, atol=1e-6 * np.abs(numeric).max(), rtol=0.0)


# Outer products.


CASES = {
    "full": lambda t=1.0: mixture("full", mechanism_of("with share"), (1, 2), covariates=1, tempering=t),
    "wide": lambda t=1.0: mixture("wide", mechanism_of("aranda-ordaz", "entropy"), (1, 1, 1), tempering=t),
    "tied": lambda t=1.0: mixture("tied", mechanism_of("logit", "discriminant"), (2, 1), tempering=t),
    "diag": lambda t=1.0: mixture("diag", mechanism_of("cloglog", "gini"), (1, 1), tempering=t),
    "spherical": lambda t=1.0: mixture("spherical", None, (2, 1, 1), tempering=t),
    "logistic": lambda t=1.0: logistic(2, mechanism_of("with share"), weighted=False, covariates=2, tempering=t),
    "three classes": lambda t=1.0: logistic(
        3, mechanism_of("cloglog", "margin"), degree=2, weighted=False, tempering=t
    ),
}


@pytest.mark.parametrize("tempering", [1.0, 0.3])
@pytest.mark.parametrize("case", CASES)
def test_outer_is_the_sum_over_rows_of_the_outer_products_of_their_gradients(case, tempering):
    objective, theta, mechanism = CASES[case](tempering)
    weight = np.random.default_rng(0).uniform(0.5, 3.0, size=objective.engine.n_rows)
    coordinates = Coordinates(objective, theta, mechanism)
    origin, n = np.zeros(coordinates.size), len(weight)
    scores = np.array([equations(coordinates, objective_with(objective, slice(j, j + 1)), origin) for j in range(n)])
    result = curvature(objective_with(objective, weight=weight), theta, mechanism)
    pull = coordinates.pull(len(result.gradient))
    expected = (scores.T * weight) @ scores
    np.testing.assert_allclose(pull @ result.outer @ pull.T, expected, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(pull @ result.gradient, scores.T @ weight, atol=1e-10 * np.abs(expected).max())


def outcomes(objective, theta, mechanism, rate=0.0):
    """An objective for every outcome of all rows, weighted by its probability given the features."""
    engine = objective.engine
    p = posterior(objective.model.scores(theta, engine.x))
    q = np.full(engine.n_rows, rate)
    if mechanism is not None:
        q = mechanism.missing_proba_of(drivers_of(mechanism.measured(p).value, engine.v))
    X = engine.x.T @ engine.frame.unwhitener.T + engine.frame.centre  # in the order of the engine
    for k in range(-1, len(p.tau)):
        probability = q if k < 0 else (1.0 - q) * p.tau[k]
        yield objective_of(X, np.full(len(q), k), probability, *engine.made_of[3:])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("modelled", [True, False])
def test_expected_outer_is_the_mean_over_all_outcomes_of_every_row(case, modelled):
    objective, theta, mechanism = CASES[case]()
    of = mechanism if modelled else None
    truth = sum(curvature(outcome, theta, of).outer for outcome in outcomes(objective, theta, mechanism, 0.4))
    rate = 0.4 if mechanism is None else 0.0
    result = expected_outer(objective, theta, mechanism, modelled, rate)
    np.testing.assert_allclose(result, truth, atol=1e-12 * np.abs(truth).max())


@pytest.mark.parametrize("case", CASES)
def test_the_information_identity_holds_for_every_row(case):
    # given the features, outer products and second derivatives cancel, except for those of the features' density
    objective, theta, mechanism = CASES[case]()
    every = [curvature(outcome, theta, mechanism) for outcome in outcomes(objective, theta, mechanism, 0.4)]
    total = sum(part.hessian + part.outer for part in every)
    if objective.model.joint:
        marginal = curvature(objective_with(objective, z=np.full(objective.engine.n_rows, -1)), theta, None)
        size = len(marginal.gradient)
        total[:size, :size] -= marginal.hessian + marginal.outer
    np.testing.assert_allclose(total, 0.0, atol=1e-11 * np.abs(every[0].outer).max())


@pytest.mark.parametrize("case", CASES)
def test_weights_count_rows_and_blocks_do_not_matter(case, monkeypatch):
    objective, theta, mechanism = CASES[case]()
    repeats = np.random.default_rng(0).integers(1, 4, size=objective.engine.n_rows)
    weighted = objective_with(objective, weight=repeats.astype(float))
    repeated = objective_with(objective, repeats=repeats)
    expected = [*curvature(weighted, theta, mechanism), expected_outer(weighted, theta, mechanism)]
    result = [*curvature(repeated, theta, mechanism), expected_outer(repeated, theta, mechanism)]
    monkeypatch.setattr("marmix.engines.host.block_rows", lambda width: 5)
    blocked = [*curvature(weighted, theta, mechanism), expected_outer(weighted, theta, mechanism)]
    for first, second, third in zip(expected, result, blocked, strict=True):
        np.testing.assert_allclose(second, first, atol=1e-12 * np.abs(first).max())
        np.testing.assert_allclose(third, first, atol=1e-12 * np.abs(first).max())


# Extremes.


@pytest.mark.parametrize("noise", [0.0, 1e-17, 1e-14])
def test_a_direction_without_information_is_blind_despite_rounding(noise):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 50))
    information = root @ root.T
    information[2], information[:, 2] = noise, noise
    result = inverse(information)
    assert result.blind.shape[1] == 1
    assert abs(result.blind[2, 0]) > 0.999 * np.linalg.norm(result.blind)
    rest = np.delete(np.arange(5), 2)
    block = np.ix_(rest, rest)
    np.testing.assert_allclose(result.matrix[block], np.linalg.inv(information[block]), rtol=1e-9)
