"""The joint table of true and predicted classes: identities between its figures, and intervals that contain the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from marmix.evaluation.joint import JointTable
from marmix.evaluation.pseudo_labels import UncertainPosterior


def random_rows(seed, n, K, rate, sharpness=2.0):
    """Labels (-1 where missing, at least one given), the true ones, probabilities of a classifier, and its posterior."""
    rng = np.random.default_rng(seed)
    scores = sharpness * rng.normal(size=(n, K))
    tau = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    truth = (tau.cumsum(axis=1)[:, :-1] < rng.random((n, 1))).sum(axis=1)
    z = np.where(rng.random(n) < rate, -1, truth)
    z[0] = truth[0]
    shares = (z[:, None] == np.arange(K)).astype(float)
    even = np.full((n, K), 1.0 / K)
    posterior = UncertainPosterior.of(0.8 * tau + 0.2 * even, shares, members=[tau, even], shares=[0.8, 0.2])
    return z, truth, tau, posterior, shares


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 60),
    K=st.integers(2, 5),
    rate=st.sampled_from([0.0, 0.5, 0.97]),
    level=st.sampled_from([0.5, 0.9, 0.95]),
)
def test_all_figures_follow_from_one_nonnegative_table(seed, n, K, rate, level):
    z, _, tau, posterior, shares = random_rows(seed, n, K, rate)
    joint = JointTable.of(shares, tau, posterior, n_draws=30, seed=seed)
    predicted, lost = tau.argmax(axis=1), z < 0
    imputed = np.bincount(predicted[lost], minlength=K)
    assert (joint.tables >= 0.0).all()
    np.testing.assert_array_equal(joint.tables[1:, 1].sum(axis=1), np.tile(imputed, (30, 1)))
    np.testing.assert_allclose(joint.confusion().sum(axis=0), imputed, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(joint.tables.sum(axis=(1, 2, 3)), n, rtol=1e-12)
    labelled = confusion_matrix(z[~lost], predicted[~lost], labels=range(K))
    np.testing.assert_array_equal(joint.tables[:, 0], np.broadcast_to(labelled, (31, K, K)))

    right = np.diagonal(joint.confusion())
    precision, recall, wrong = joint.precision(level), joint.recall(level), joint.wrong(level)
    for k in range(K):
        if precision[k].value is not None:
            assert precision[k].value * imputed[k] == pytest.approx(right[k])
        if recall[k].value is not None:
            assert recall[k].value * joint.confusion()[k].sum() == pytest.approx(right[k])
    accuracy = joint.accuracy("unlabelled", level)
    assert (accuracy.value is None) == (wrong.value is None)
    if wrong.value is not None:
        assert wrong.value == pytest.approx(lost.sum() - right.sum())
        ends = 1.0 - np.array(wrong) / lost.sum()
        np.testing.assert_allclose([accuracy.value, accuracy.high, accuracy.low], ends, atol=1e-12)
        assert 0.0 <= wrong.low <= wrong.value <= wrong.high <= lost.sum()
    parts = [joint.accuracy(rows, level) for rows in ("all", "labelled", "unlabelled")]
    for figure in [*parts, *precision, *recall, *joint.shares(level)]:
        assert (figure.value is None) == (figure.low is None) == (figure.high is None)
        assert figure.value is None or 0.0 <= figure.low <= figure.value <= figure.high <= 1.0
    values = [share.value for share in joint.shares(level)]
    assert None in values or sum(values) == pytest.approx(1.0)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 60), K=st.integers(2, 5), rate=st.sampled_from([0.5, 0.97]))
def test_the_range_for_a_hidden_reason_contains_the_interval_and_what_follows_if_a_class_loses_its_labels(
    seed, n, K, rate
):
    z, _, tau, posterior, shares = random_rows(seed, n, K, rate)
    joint, lost, classes = JointTable.of(shares, tau, posterior, n_draws=50), z < 0, K
    wrong, hidden = joint.wrong(), joint.hidden()
    assert (wrong.value is None) == (hidden.value is None)
    if wrong.value is None:
        return
    assert 0.0 <= hidden.low <= wrong.low + 1e-9
    assert wrong.high - 1e-9 <= hidden.high <= lost.sum() + 1e-9
    central, predicted = posterior.central[lost], tau[lost].argmax(axis=1)
    for k in range(classes):
        for odds in (1 / 3, 0.5, 2.0, 3.0):
            tilted = central * np.where(np.arange(classes) == k, odds, 1.0)
            right = tilted[np.arange(len(tilted)), predicted] / tilted.sum(axis=1)
            assert hidden.low - 1e-6 <= np.sum(1.0 - right) <= hidden.high + 1e-6
    more = joint.scaled(2.0 * joint.tables[0, 0].sum(axis=1), 3.0 * joint.tables[0, 1].sum(axis=0))
    np.testing.assert_allclose(more.hidden(), np.multiply(hidden, 3.0), rtol=1e-9)


@pytest.mark.parametrize("tested", [slice(None), slice(0, None, 2)], ids=["every label", "labels of every other row"])
def test_draws_have_the_shares_that_are_known(tested):
    z, _, tau, _, shares = random_rows(5, 300, 3, 0.7)
    indicator = np.zeros_like(shares)
    indicator[tested] = shares[tested]
    prior = indicator.mean(axis=0) + np.mean(~indicator.any(axis=1)) * np.array([0.1, 0.2, 0.7])
    posterior = UncertainPosterior.of(tau, indicator, prior=prior)
    draws = JointTable.of(shares, tau, posterior, n_draws=100).tables[1:, 1].sum(axis=2) / np.sum(z < 0)
    # ten times the standard error of a mean of 100 draws, if these differ by chance alone
    np.testing.assert_allclose(draws.mean(axis=0), [0.1, 0.2, 0.7], atol=0.5 / np.sqrt(np.sum(z < 0)))
    assert draws.std(axis=0).max() < 1.3 * np.sqrt(0.25 / np.sum(z < 0))


def true_table(z, truth, proba):
    """The table once every label is known, with nothing to estimate."""
    K = proba.shape[1]
    tables = np.zeros((1, 2, K, K))
    np.add.at(tables[0], ((z < 0).astype(int), truth, proba.argmax(axis=1)), 1.0)
    return JointTable(tables, np.zeros((2 * K, K)))


def covered(joint, true, level=0.9):
    """Whether the intervals of the unlabelled rows contain the truth; those that are not reported are left out."""
    ranges = [joint.accuracy("unlabelled", level), joint.wrong(level)]
    truths = [true.accuracy("unlabelled"), true.wrong()]
    for name in ("precision", "recall", "shares"):
        ranges += getattr(joint, name)(level)
        truths += getattr(true, name)()
    return [
        interval.low - 1e-9 <= actual.value <= interval.high + 1e-9
        for interval, actual in zip(ranges, truths, strict=True)
        if interval.value is not None and actual.value is not None
    ]


def nearest_centres(X, z, rows):
    """Posteriors of Gaussian classes with unit variances, centres and shares estimated from some of the rows."""
    count = np.bincount(z[rows])
    centres = np.array([X[rows][z[rows] == k].mean(axis=0) for k in range(len(count))])
    scores = X @ centres.T - 0.5 * (centres**2).sum(axis=1) + np.log(count)
    tau = np.exp(scores - scores.max(axis=1, keepdims=True))
    return tau / tau.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("shares", "labels"), [([0.6, 0.4], 20), ([0.9, 0.1], 60), ([0.5, 0.3, 0.2], 40)])
def test_nine_of_ten_intervals_contain_the_truth_with_few_labels(shares, labels):
    K, results = len(shares), []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        y = rng.choice(K, size=400, p=shares)
        X = rng.normal(size=(400, 3)) + 2.0 * np.eye(3)[y]
        z = np.where(rng.permutation(400) < labels, y, -1)
        if min(np.bincount(z[z >= 0], minlength=K)) < 4:
            continue
        given = np.flatnonzero(z >= 0)
        proba = nearest_centres(X, z, given)
        order = given[np.argsort(z[given], kind="stable")]
        for i in range(4):  # folds with every class
            proba[order[i::4]] = nearest_centres(X, z, np.setdiff1d(order, order[i::4]))[order[i::4]]
        indicator = (z[:, None] == np.arange(K)).astype(float)
        posterior = UncertainPosterior.of(proba, indicator)
        results += covered(JointTable.of(indicator, proba, posterior, n_draws=100), true_table(z, y, proba))
    assert np.mean(results) >= 0.85
