"""The logistic sibling: scikit-learn's where the mechanism is ignored, and the mechanism where it is not."""

import numpy as np
import pytest
from problems import central_differences, mechanism_of
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from marmix import MARGaussianMixture, MARLogisticRegression, Mechanism
from marmix.core.charts import MechanismChart
from marmix.core.frames import Covariates, Frame
from marmix.core.linear import LinearScores
from marmix.core.measures import MEASURES
from marmix.engines import NumpyEngine
from marmix.fitting import Objective

pytestmark = pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def simulated(n=600, classes=2, d=3, slope=-4.0, measure="margin", seed=0):
    """Rows from a logistic model whose labels a logit mechanism hides; about 60 % of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    W = 2.0 * rng.normal(size=(classes, d))
    scores = X @ W.T
    y = (rng.uniform(size=(n, 1)) > softmax(scores).cumsum(axis=1)).sum(axis=1)
    q = Mechanism(measure, alpha=(2.5, slope)).missing_proba(scores)
    return X, y, np.where(rng.uniform(size=n) < q, -1, y)


@pytest.mark.pairs
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_without_a_link_it_is_scikit_learn_s_on_the_labelled_rows(classes, degree, C):
    X, _, y = simulated(classes=classes)
    X = X * [1.0, 3.0, 0.5] + [0.0, 5.0, -2.0]
    clf = MARLogisticRegression(C=C, degree=degree, link=None).fit(X, y)
    labelled = y >= 0
    features = PolynomialFeatures(degree, include_bias=False).fit_transform(X[labelled])
    theirs = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(features, y[labelled])
    np.testing.assert_allclose(clf.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(clf.intercept_, theirs.intercept_, atol=3e-6)
    assert clf.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(clf.predict_proba(X[labelled]), theirs.predict_proba(features), atol=1e-6)


def test_weights_are_scikit_learn_s_weights():
    X, _, y = simulated()
    weight = np.random.default_rng(0).uniform(0.0, 3.0, size=len(y))
    clf = MARLogisticRegression(link=None).fit(X, y, sample_weight=weight)
    labelled = y >= 0
    theirs = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(
        X[labelled], y[labelled], sample_weight=weight[labelled]
    )
    np.testing.assert_allclose(clf.coef_, theirs.coef_, atol=1e-6)


@pytest.mark.pairs
@pytest.mark.parametrize("link", ["logit", "cloglog", "aranda-ordaz", "with share"])
@pytest.mark.parametrize("measure", [name for name, measure in MEASURES.items() if measure.only_classes is None])
@pytest.mark.parametrize(("classes", "degree"), [(2, 1), (2, 2), (4, 1), (3, 2)])
@pytest.mark.parametrize("tempering", [1.0, 0.4])
def test_gradient_against_central_differences(classes, degree, measure, link, tempering):
    rng = np.random.default_rng(1)
    n, d = 40, 2
    X, z = rng.normal(size=(n, d)) * 2 + 1, rng.integers(-1, classes, size=n)
    z[:classes] = np.arange(classes)
    mechanism = mechanism_of(link, measure).moved(np.array([*mechanism_of(link, measure).alpha, 0.3]))
    frame = Frame(np.ones(d), np.eye(d) / 2)
    model = LinearScores(d, classes, degree, 0.7, np.ones(d), np.full(d, 2.0))
    covariates = Covariates([1], Frame(np.zeros(1), np.eye(1)))
    engine = NumpyEngine(X, z, rng.uniform(0.5, 2, size=n), classes, frame, covariates)
    objective = Objective(engine, model, tempering)
    phi = model.features(engine.x)
    model.calibrate(phi @ phi.T / engine.n_rows, engine.total_weight)
    theta = 0.5 * rng.normal(size=(model.vectors, model.n_features()))
    chart = model.chart(theta)
    about = MechanismChart(mechanism, *objective.driver_sample(theta, mechanism, 100)[::2])

    def parts(vector):
        here = chart.theta(vector[: chart.size])
        return here, objective.sums(here, about.mechanism(vector[chart.size :]))

    def value(vector):
        return objective.value(*parts(vector))

    vector = 0.05 * rng.normal(size=chart.size + about.size)
    vector[chart.size :] = 0.5 * np.clip(vector[chart.size :], *about.bounds.T)
    here, sums = parts(vector)
    gradient = np.concatenate(
        [
            chart.gradient(vector[: chart.size], here, sums.moments),
            about.gradient(vector[chart.size :], sums.alpha, sums.shape, sums.share),
        ]
    )
    steps = np.r_[np.full(chart.size, 1e-5), np.full(about.size, 1e-6)]
    numeric = central_differences(value, vector, steps)
    np.testing.assert_allclose(gradient, numeric, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("degree", [1, 2])
def test_log_likelihood_is_the_conditional_one(degree):
    X, _, y = simulated(classes=3)
    clf = MARLogisticRegression(link="logit", measure="entropy", degree=degree).fit(X, y)
    features = PolynomialFeatures(degree, include_bias=False).fit_transform(X)
    tau = softmax(clf.intercept_ + features @ clf.coef_.T)
    np.testing.assert_allclose(clf.predict_proba(X), tau, atol=1e-9)
    labelled = y >= 0
    assert clf.loglik_ignorable_ == pytest.approx(np.log(tau[labelled, y[labelled]]).sum(), rel=1e-9)
    entropy = -(tau * np.log(tau)).sum(axis=1)
    q = 1 / (1 + np.exp(-clf.alpha_[0] - clf.alpha_[1] * entropy))
    np.testing.assert_allclose(clf.missing_proba(X), q, atol=1e-9)
    np.testing.assert_allclose(clf.uncertainty(X), entropy, atol=1e-9)
    assert clf.loglik_missing_ == pytest.approx(np.where(labelled, np.log(1 - q), np.log(q)).sum(), rel=1e-9)
    penalty = 0.5 * (clf.coef_**2).sum()
    assert clf.trace_[-1] == pytest.approx(clf.loglik_ - penalty, abs=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_fit_beats_its_neighbours(classes):
    X, _, y = simulated(classes=classes)
    clf = MARLogisticRegression(link="logit", measure="gini", tol=1e-11).fit(X, y)
    labelled = y >= 0

    def objective(intercept, coef, alpha):
        tau = softmax(
            np.column_stack([0 * X[:, 0], intercept + X @ coef[0]]) if classes == 2 else intercept + X @ coef.T
        )
        q = 1 / (1 + np.exp(-alpha[0] - alpha[1] * (1 - (tau**2).sum(axis=1))))
        value = np.log(tau[labelled, y[labelled]]).sum() + np.where(labelled, np.log(1 - q), np.log(q)).sum()
        return value - 0.5 * (coef**2).sum()

    top = objective(clf.intercept_, clf.coef_, clf.alpha_)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(50):
            moved = [part + size * rng.normal(size=part.shape) for part in (clf.intercept_, clf.coef_, clf.alpha_)]
            assert objective(*moved) < top


@pytest.mark.parametrize("estimator", [MARLogisticRegression, MARGaussianMixture])
def test_weight_zero_ignores_the_mechanism_but_still_fits_it(estimator):
    X, _, y = simulated()
    without = estimator(link=None).fit(X, y)
    zero = estimator(measure="margin", mechanism_weight=0.0).fit(X, y)
    np.testing.assert_allclose(zero.predict_proba(X), without.predict_proba(X), atol=1e-9)
    log_proba = without.predict_log_proba(X)
    profile = Mechanism.from_link("logit", measure="margin").profile(log_proba, y < 0)
    np.testing.assert_allclose(zero.alpha_, profile.alpha, rtol=1e-4)


@pytest.mark.parametrize("estimator", [MARLogisticRegression, MARGaussianMixture])
def test_the_weight_trades_one_part_of_the_likelihood_for_the_other(estimator):
    X, _, y = simulated()
    fits = [estimator(link="logit", mechanism_weight=w).fit(X, y) for w in (0.0, 0.1, 0.5, 1.0)]
    ignorable = [fit.loglik_ignorable_ - (0.5 * (fit.coef_**2).sum() if hasattr(fit, "coef_") else 0) for fit in fits]
    missing = [fit.loglik_missing_ for fit in fits]
    assert (np.diff(ignorable) < 1e-4).all()
    assert (np.diff(missing) > -1e-4).all()
    assert missing[-1] > missing[0]


def test_the_mechanism_makes_the_boundary_sharper_when_labels_are_few():
    # averaged over samples the coefficients come closer to the truth in direction than those of the labelled rows
    angles = {"labels": [], "mechanism": []}
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 4))
        truth = np.array([2.5, 0.0, 0.0, 0.0])
        y = (rng.uniform(size=300) < 1 / (1 + np.exp(-X @ truth))).astype(int)
        q = Mechanism(alpha=(4.0, -6.0)).missing_proba(np.column_stack([0 * y, X @ truth]))
        y = np.where(rng.uniform(size=300) < q, -1, y)
        for name, link in (("labels", None), ("mechanism", "logit")):
            w = MARLogisticRegression(link=link).fit(X, y).coef_[0]
            angles[name].append(np.arccos(w[0] / np.linalg.norm(w)))
    assert np.mean(angles["mechanism"]) < 0.8 * np.mean(angles["labels"])


def test_covariates_of_the_mechanism_are_found_and_named_or_numbered():
    rng = np.random.default_rng(0)
    n = 20_000
    X = rng.normal(size=(n, 3)) * [1.0, 1.0, 10.0] + [0.0, 0.0, 50.0]
    scores = np.column_stack([np.zeros(n), 2.0 * X[:, 0]])
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-scores[:, 1]))).astype(int)
    truth = Mechanism("margin", alpha=(-3.0, -2.0, 0.08))
    lost = rng.uniform(size=n) < truth.missing_proba(scores, covariates=X[:, [2]])
    y_partial = np.where(lost, -1, y)
    clf = MARLogisticRegression(measure="margin", mechanism_features=[2]).fit(X, y_partial)
    np.testing.assert_allclose(clf.alpha_, truth.alpha, atol=0.35)
    assert clf.alpha_[2] == pytest.approx(0.08, abs=0.01)
    q = clf.mechanism_.missing_proba(clf.predict_log_proba(X), covariates=X[:, [2]])
    np.testing.assert_allclose(clf.missing_proba(X), q, rtol=1e-9)
    assert clf.missing_proba(X).mean() == pytest.approx(lost.mean(), abs=0.01)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "age"])
    named = MARLogisticRegression(measure="margin", mechanism_features=["age"]).fit(frame, y_partial)
    np.testing.assert_allclose(named.alpha_, clf.alpha_, rtol=1e-9)
    mixture = MARGaussianMixture(measure="margin", mechanism_features=["age"]).fit(frame, y_partial)
    assert mixture.alpha_[2] == pytest.approx(0.08, abs=0.01)


@pytest.mark.parametrize(
    ("features", "message"),
    [(["age"], "'age'"), ([7], "7"), ("x0", "must be a list"), ([0, "x0"], "twice"), ([True], "True")],
)
def test_wrong_covariates_are_named(features, message):
    X, _, y = simulated()
    with pytest.raises(ValueError, match=message):
        MARLogisticRegression(mechanism_features=features).fit(X, y)


def test_a_signed_margin_describes_labels_lost_on_one_side_where_a_margin_cannot():
    rng = np.random.default_rng(0)
    n = 4000
    X = rng.normal(size=(n, 2))
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    one_sided = Mechanism("signed-margin", alpha=(0.0, 3.0))
    lost = rng.uniform(size=n) < one_sided.missing_proba(np.column_stack([0 * y, 2 * X[:, 0]]))
    y_partial = np.where(lost, -1, y)
    signed = MARLogisticRegression(link="logit", measure="signed-margin").fit(X, y_partial)
    symmetric = MARLogisticRegression(link="logit", measure="margin").fit(X, y_partial)
    np.testing.assert_allclose(signed.alpha_, one_sided.alpha, atol=0.3)
    assert signed.loglik_ > symmetric.loglik_ + 100


def test_a_signed_margin_is_for_two_classes():
    X, _, y = simulated(classes=3)
    with pytest.raises(ValueError, match="2 classes"):
        MARLogisticRegression(measure="signed-margin").fit(X, y)


@pytest.mark.parametrize(
    "options", [{"C": 0}, {"C": -1.0}, {"C": "1"}, {"degree": 3}, {"mechanism_weight": 1.5}, {"n_init": 0}]
)
def test_bad_options_are_named(options):
    X, _, y = simulated()
    with pytest.raises(ValueError, match=next(iter(options))):
        MARLogisticRegression(**options).fit(X, y)


def test_units_do_not_matter_without_a_penalty():
    X, _, y = simulated(n=2000)
    scale = np.array([1e-7, 1.0, 1e7])
    a = MARLogisticRegression(C=np.inf, link="logit", tol=1e-11).fit(X, y)
    b = MARLogisticRegression(C=np.inf, link="logit", tol=1e-11).fit(X * scale, y)
    np.testing.assert_allclose(b.coef_ * scale, a.coef_, rtol=1e-3, atol=1e-4)
    assert b.loglik_ == pytest.approx(a.loglik_, abs=1e-4)


def test_constant_columns_get_no_weight():
    X, _, y = simulated()
    clf = MARLogisticRegression(link="logit").fit(np.column_stack([X, np.full(len(X), 4.0)]), y)
    assert clf.coef_[0, 3] == pytest.approx(0.0, abs=1e-8)


def test_warm_start_begins_at_the_top():
    X, _, y = simulated()
    clf = MARLogisticRegression(link="logit", warm_start=True, n_init=1).fit(X, y)
    before = clf.loglik_
    clf.fit(X, y)
    assert clf.n_iter_ <= 3
    assert clf.loglik_ == pytest.approx(before, abs=1e-5)
    with pytest.raises(ValueError, match="warm_start"):
        clf.set_params(degree=2).fit(X, y)


def test_in_a_pipeline_standardised_and_with_strings():
    X, _, y = simulated()
    names = np.where(y < 0, None, np.where(y == 1, "yes", "no"))
    X = StandardScaler().fit_transform(X)
    clf = MARLogisticRegression(link="logit").fit(X, names)
    assert clf.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(clf.transduction_[y >= 0], names[y >= 0])
    np.testing.assert_array_equal(clf.transduction_[y < 0], clf.predict(X)[y < 0])
