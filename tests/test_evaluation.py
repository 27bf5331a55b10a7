"""Scores that estimate the loss on the whole population, and splits that test on labelled rows only."""

import dataclasses

import numpy as np
import pytest
from sklearn import metrics
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import LabelledRows, MARLogisticRegression, evaluation
from marmix.core.labels import label_shares
from marmix.evaluation import PartialLabelKFold, StratifiedPartialLabelKFold, population_scorer
from marmix.evaluation.pseudo_labels import UncertainPosterior

SCORES = {name: function for name, (function, _) in evaluation.scorer.SCORES.items()}


def uncertain(proba, z, other=None, **kwargs):
    """`UncertainPosterior` from labels that are -1 where missing, of a classifier or of its average with another."""
    if other is not None:
        kwargs |= {"members": [proba, other], "shares": [0.6, 0.4]}
        proba = 0.6 * proba + 0.4 * other
    return UncertainPosterior.of(proba, label_shares(z, np.arange(proba.shape[1])), **kwargs)


def population(n, rng):
    """Rows, labels, true posteriors and missing probabilities, which are high for hard rows."""
    y = rng.integers(2, size=n)
    x = rng.normal(size=n) + 2.0 * y - 1.0
    tau = 1 / (1 + np.exp(-2 * x))
    q = 1 / (1 + np.exp(-2.2 + 3.0 * (2 * tau - 1) ** 2))
    return x, y, np.column_stack([1 - tau, tau]), q


def classifier(x):
    """Probabilities of a fixed classifier, neither optimal nor calibrated."""
    p = 1 / (1 + np.exp(-1.3 * x - 0.3))
    return np.column_stack([1 - p, p])


PLAIN = {
    "log_loss": lambda y, p, w=None: metrics.log_loss(y, p, sample_weight=w),
    "brier": lambda y, p, w=None: np.average((p[:, 1] - y) ** 2, weights=w),
    "accuracy": lambda y, p, w=None: metrics.accuracy_score(y, p.argmax(axis=1), sample_weight=w),
    "roc_auc": lambda y, p, w=None: metrics.roc_auc_score(y, p[:, 1], sample_weight=w),
}


@pytest.mark.parametrize("name", sorted(SCORES))
def test_weighted_and_plain_scores_agree_with_scikit_learn(name):
    x, y, _, q = population(800, np.random.default_rng(1))
    p, labelled = classifier(x), np.random.default_rng(2).uniform(size=800) > q
    score = SCORES[name](np.where(labelled, y, -1), p, q, classes=[0, 1])
    assert score.value == pytest.approx(PLAIN[name](y[labelled], p[labelled], 1 / (1 - q[labelled])), rel=1e-12)
    assert score.plain == pytest.approx(PLAIN[name](y[labelled], p[labelled]), rel=1e-12)
    whole = SCORES[name](y, p, np.zeros(800), classes=[0, 1])
    assert (whole.value, whole.stderr) == pytest.approx((whole.plain, whole.plain_stderr), rel=1e-12)
    assert whole.n_effective == pytest.approx(whole.n_labelled) == 800


def test_three_classes_are_scored_one_vs_rest():
    rng = np.random.default_rng(0)
    y, p = rng.integers(3, size=300), rng.dirichlet(np.ones(3), size=300)
    p[np.arange(300), y] += 0.5
    p /= p.sum(axis=1, keepdims=True)
    score = evaluation.roc_auc(y, p, np.zeros(300), classes=[0, 1, 2])
    assert score.value == pytest.approx(metrics.roc_auc_score(y, p, multi_class="ovr"), rel=1e-12)
    brier = evaluation.brier(y, p, np.zeros(300), classes=[0, 1, 2]).value
    assert brier == pytest.approx(np.mean(((p - np.eye(3)[y]) ** 2).sum(axis=1)), rel=1e-12)


CASES = [("roc_auc", None), *(("log_loss", wrong) for wrong in (None, "q", "posterior"))]


@pytest.mark.parametrize(("name", "wrong"), CASES)
def test_scores_are_unbiased_for_the_population_and_doubly_robust_ones_if_q_or_the_posterior_is_right(name, wrong):
    rng = np.random.default_rng(5)
    x, y, _, _ = population(400_000, rng)
    truth = PLAIN[name](y, classifier(x))
    scores = []
    for _ in range(200):
        x, y, tau, q = population(1000, rng)
        y = np.where(rng.uniform(size=1000) < q, -1, y)
        q = np.full(1000, 0.6) if wrong == "q" else q
        tau = np.full((1000, 2), 0.5) if wrong == "posterior" else tau
        options = [{"posterior": tau}, *([{}] if wrong is None else [])]
        scores.append([SCORES[name](y, classifier(x), q, classes=[0, 1], **kwargs) for kwargs in options])
    for column in zip(*scores, strict=True):
        values, errors, plain = np.array([(score.value, score.stderr, score.plain) for score in column]).T
        assert abs(values.mean() - truth) < 3 * values.std() / np.sqrt(200)
        assert abs(plain.mean() - truth) > 10 * plain.std() / np.sqrt(200)
        if wrong is None:
            assert errors.mean() == pytest.approx(values.std(), rel=0.1)


def test_huge_weights_are_truncated_and_counted():
    n = 400
    q = np.zeros(n)
    q[0] = 1 - 1e-9
    proba = np.full((n, 2), 0.5)
    proba[0] = [0.999, 0.001]
    y = np.ones(n, dtype=int)
    score = evaluation.log_loss(y, proba, q, classes=[0, 1])
    assert score.n_truncated == 1
    assert score.n_effective > 100  # without truncation, row 0 alone would count
    assert score.value == pytest.approx((20 * -np.log(0.001) + 399 * np.log(2)) / 419, rel=1e-6)


@pytest.mark.parametrize("splitter", [PartialLabelKFold, StratifiedPartialLabelKFold])
@pytest.mark.parametrize("missing", [-1, None, np.nan])
def test_only_labelled_rows_are_tested_and_unlabelled_ones_always_train(splitter, missing):
    rng = np.random.default_rng(0)
    labelled = rng.uniform(size=60) < 0.4
    labels = rng.integers(2, size=60)
    y = np.array([label if is_known else missing for label, is_known in zip(labels, labelled, strict=True)])
    tested = []
    for train, test in splitter(4, shuffle=True, random_state=0).split(np.zeros((60, 1)), y):
        assert labelled[test].all()
        assert set(np.flatnonzero(~labelled)) <= set(train)
        assert not set(train) & set(test)
        assert len(train) + len(test) == 60
        tested += test.tolist()
    assert sorted(tested) == np.flatnonzero(labelled).tolist()


def test_stratified_folds_keep_the_shares_of_the_classes():
    y = np.array([0] * 20 + [1] * 8 + [-1] * 40)
    for _, test in StratifiedPartialLabelKFold(4).split(y[:, None], y):
        assert np.bincount(y[test]).tolist() == [5, 2]


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
@pytest.mark.parametrize("name", ["brier", "roc_auc"])
def test_a_scorer_is_the_score_with_q_of_the_estimator_or_of_another(name):
    rng = np.random.default_rng(0)
    x, y, _, q = population(200, rng)
    X, y = x[:, None], np.where(rng.uniform(size=200) < q, -1, y)
    fit, labelled = MARLogisticRegression(C=np.inf).fit(X, y), LabelledRows(GaussianNB()).fit(X, y)
    pipeline = make_pipeline(StandardScaler(), MARLogisticRegression(C=np.inf)).fit(X, y)
    sign = -1 if name in ("log_loss", "brier") else 1
    for estimator, missingness in (
        (fit, None),
        (labelled, fit),
        (labelled, fit.missing_proba),
        (labelled, pipeline),
        (pipeline, None),
    ):
        score = SCORES[name](y, estimator.predict_proba(X), fit.missing_proba(X), classes=[0, 1]).value
        assert population_scorer(name, missingness)(estimator, X, y) == pytest.approx(sign * score, rel=1e-5)
    with pytest.raises(ValueError, match="GaussianNB has learnt missing labels as a class"):
        population_scorer(name, fit)(GaussianNB().fit(X, y), X, y)


def test_missingness_check_rejects_wrong_mechanisms_only():
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(200):
        _, y, tau, q = population(500, rng)
        y_partial = np.where(rng.uniform(size=500) < q, -1, y)
        p_values.append(evaluation.missingness_check(y_partial, q, tau[:, 1]).p_value)
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.04)
    one_sided = np.where(rng.uniform(size=500) < tau[:, 1], -1, y)
    check = evaluation.missingness_check(one_sided, np.full(500, np.mean(one_sided < 0)), tau[:, 1])
    assert check.p_value < 1e-10
    assert check.z[0] < -3 < 3 < check.z[-1]
    np.testing.assert_allclose(check.n @ check.observed, np.sum(one_sided < 0))


@pytest.mark.parametrize("row", [0, 1])
def test_a_possible_class_of_probability_zero_has_infinite_loss(row):
    y, q = np.array([0, -1, 1, 0]), np.full(4, 0.5)
    tau = np.column_stack([[0.7, 0.6, 0.3, 0.8], [0.3, 0.4, 0.7, 0.2]])
    proba = tau.copy()
    proba[row] = [1.0, 0.0]  # in the first row, labelled 0, the pseudo-label of class 1 is negative
    assert evaluation.log_loss(y, proba, q, classes=[0, 1], posterior=tau).value == np.inf
    assert evaluation.log_loss(y, proba, q, classes=[0, 1], posterior=proba).value < 1.0


def uncertain_rows(n=300, n_classes=3, seed=0, overlap=True):
    """Labels (-1 where missing), probabilities that are too sharp, another classifier's, q, and the true posteriors."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=1.5, size=(n, n_classes))
    tau = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=row) for row in tau])
    q = 0.2 + 0.6 * (tau.max(axis=1) < 0.7) if overlap else np.where(tau.max(axis=1) < 0.7, 0.999, 0.01)
    sharp = tau**1.6 / (tau**1.6).sum(axis=1, keepdims=True)
    other = 0.7 * tau + 0.3 * tau[:, [*range(1, n_classes), 0]]
    return np.where(rng.uniform(size=n) < q, -1, y), sharp, other, q, tau


@pytest.mark.parametrize("name", ["log_loss", "brier", "accuracy", "roc_auc"])
def test_intervals_contain_the_score_and_lie_in_its_range(name):
    for n_classes in (2, 3):
        z, p, other, q, _ = uncertain_rows(60, n_classes)
        sure = np.where(z[:, None] < 0, p, np.eye(n_classes)[z] * 0.999 + 0.001 / n_classes)
        for proba in (p, sure):
            for posterior in (None, uncertain(p, z, other)):
                score = getattr(evaluation, name)(z, proba, q, classes=range(n_classes), posterior=posterior)
                low, high = score.interval
                assert 0.0 <= low <= score.value <= high <= score.most
                assert max(high - score.value, score.value - low) <= 1.5 * 1.959964 * score.stderr * (1 + 1e-9)
                if 0.0 < score.value < score.most:  # symmetric for the log, or the log-odds
                    error = 0.1 * min(score.value, score.most - score.value)
                    ends = np.insert(dataclasses.replace(score, stderr=error).interval, 1, score.value)
                    scale = np.log(ends) if np.isinf(score.most) else np.log(ends / (score.most - ends))
                    slope = 1 / score.value + (0.0 if np.isinf(score.most) else 1 / (score.most - score.value))
                    np.testing.assert_allclose(np.diff(scale), 1.959964 * error * slope)
    impossible = evaluation.log_loss(z, np.eye(3)[np.maximum(z, 0) * 0], q, classes=range(3))
    assert impossible.interval == (0.0, np.inf)


@pytest.mark.parametrize("name", ["log_loss", "brier", "accuracy", "roc_auc"])
def test_the_error_includes_that_of_the_posteriors_unless_every_row_is_labelled(name):
    z, p, other, q, _ = uncertain_rows()
    posterior = uncertain(p, z, other)
    score = getattr(evaluation, name)(z, p, q, classes=range(3), posterior=posterior)
    taken_as_known = getattr(evaluation, name)(z, p, q, classes=range(3), posterior=posterior.central)
    assert score.stderr > 1.05 * taken_as_known.stderr
    z[z < 0] = 1
    every = uncertain(p, z, other)
    score = getattr(evaluation, name)(z, p, np.zeros(len(z)), classes=range(3), posterior=every)
    assert (score.value, score.stderr) == pytest.approx((score.plain, score.plain_stderr))


def test_errors_do_not_depend_on_the_order_of_rows_or_classes():
    z, p, other, q, _ = uncertain_rows()
    rows, turned = np.random.default_rng(1).permutation(len(z)), np.array([2, 0, 1])
    codes = np.where(z < 0, -1, np.argsort(turned)[z])
    results = []
    for labels, columns, order in ((z, slice(None), slice(None)), (z, slice(None), rows), (codes, turned, slice(None))):
        proba, rival = p[order][:, columns], other[order][:, columns]
        posterior = uncertain(proba, labels[order], rival)
        score = evaluation.log_loss(labels[order], proba, q[order], classes=range(3), posterior=posterior)
        results.append((score.value, score.stderr))
    assert results[1] == pytest.approx(results[0], rel=1e-9)
    assert results[2] == pytest.approx(results[0], rel=1e-9)


def test_calibrations_have_the_covariance_of_as_many_labels_like_the_unlabelled_rows():
    z, p, _, _, _ = uncertain_rows(80)
    counts = np.random.default_rng(2).uniform(0.5, 2.0, size=len(z))
    posterior, lost, h = uncertain(p, z, counts=counts), z < 0, 1e-5

    def log_tau(c):
        tau = p[lost] ** np.exp(c[0]) * np.exp(c[1:])
        return np.log(tau / tau.sum(axis=1, keepdims=True))

    slopes = np.array([(log_tau(h * unit) - log_tau(-h * unit)) / (2 * h) for unit in np.eye(4)])
    of_row = np.einsum("nk,ink,jnk->nij", p[lost], slopes, slopes)
    information = counts[~lost].sum() * np.average(of_row, axis=0, weights=counts[lost])
    np.testing.assert_allclose(posterior.steps.T @ posterior.steps, np.linalg.inv(information + np.eye(4)), atol=1e-8)


def test_draws_are_as_far_off_as_the_pairs_say():
    z, p, other, _, _ = uncertain_rows(1000)
    posterior, lost, rng = uncertain(p, z, other), z < 0, np.random.default_rng(0)

    def figures(tau):
        return np.append(tau[lost].mean(axis=0), tau[lost].max(axis=1).mean())

    variance = sum(((figures(above) - figures(below)) / 2) ** 2 for above, below in posterior.pairs())
    drawn = np.array([figures(posterior.draw(rng)) for _ in range(400)])
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(variance), rtol=0.25)
    np.testing.assert_allclose(drawn.mean(axis=0), figures(posterior.central), atol=0.5 * np.sqrt(variance.max()))


def test_an_average_of_one_is_only_as_uncertain_as_its_calibration():
    z, p, _, _, _ = uncertain_rows()
    one = UncertainPosterior.of(p, label_shares(z, np.arange(3)), members=[p], shares=[1.0])
    (above, below), *rest = one.pairs()
    np.testing.assert_allclose(above, below)
    np.testing.assert_array_equal(rest, list(uncertain(p, z).pairs()))


def test_a_rare_class_stays_rare():
    z, p, _, _, _ = uncertain_rows(2000)
    p[:, 2] *= 1e-9
    p /= p.sum(axis=1, keepdims=True)
    for pair in uncertain(p, np.where(z == 2, -1, z)).pairs():
        for tau in pair:
            assert tau[:, 2].mean() < 1e-5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_known_shares_of_the_classes_hold_in_the_centre_and_at_every_step(n_classes):
    z, p, other, _, _ = uncertain_rows(120, n_classes)
    shares = label_shares(z, np.arange(n_classes))
    given, rest = shares.mean(axis=0), np.mean(z < 0)
    for prior in (
        given + rest * np.arange(1, n_classes + 1) / sum(range(n_classes + 1)),
        given + rest * np.eye(n_classes)[0],
    ):
        posterior = uncertain(p, z, other, prior=prior)
        for tau in (posterior.central, *(tau for pair in posterior.pairs() for tau in pair)):
            imputed = np.where(z[:, None] < 0, tau, shares)
            np.testing.assert_allclose(imputed.mean(axis=0), prior, atol=1e-9)
