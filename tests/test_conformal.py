"""Conformal sets hold the true class as often as they say, given the right weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from marmix.evaluation import conformal_sets

CLASSES = np.array(["a", "b", "c"])


def draws(seed, n, steep=1.0):
    """Labelled rows: classes, probabilities in which all values differ, and P(missing)."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([0.7, 1.0, 1.3], size=n)
    z = np.array([rng.choice(3, p=p) for p in proba])
    return z, proba, 1.0 / (1.0 + np.exp(-steep * rng.normal(size=n)))


@given(st.integers(0, 10**6), st.integers(5, 60), st.sampled_from([0.5, 0.8, 0.9]))
def test_every_labelled_row_against_the_others_is_covered_as_often_as_stated(seed, n, coverage):
    z, proba, q = draws(seed, n)
    weight = q / (1.0 - q)
    scores = 1.0 - proba[np.arange(n), z]
    order = np.argsort(scores)
    # the quantile of the weighted scores of all rows, by its definition
    last = order[np.flatnonzero(np.cumsum(weight[order]) >= coverage * weight.sum() * (1.0 - 1e-12))[0]]
    held = 0.0
    for i in range(n):
        others = np.delete(np.arange(n), i)
        sets = conformal_sets(
            CLASSES[z[others]], proba[others], q[others], proba[[i]], q[[i]], classes=CLASSES, coverage=coverage
        )
        inside = sets[0, z[i]]
        assert inside or scores[i] > scores[last]
        held += weight[i] * inside
    assert held >= coverage * weight.sum() * (1.0 - 1e-9)


def test_equal_weights_give_the_usual_quantile():
    z, proba, _ = draws(1, 99)
    q = np.full(99, 0.4)
    new = np.random.default_rng(2).dirichlet([1.0, 1.0, 1.0], size=50)
    sets = conformal_sets(CLASSES[z], proba, q, new, np.full(50, 0.4), classes=CLASSES, coverage=0.9)
    threshold = np.sort(1.0 - proba[np.arange(99), z])[89]  # the 90th of 99 + 1
    expected = 1.0 - new <= threshold
    expected[np.arange(50), new.argmax(axis=1)] = True
    np.testing.assert_array_equal(sets, expected)


def test_sets_grow_with_coverage_and_with_the_weight_of_a_row():
    z, proba, q = draws(3, 80)
    new = np.random.default_rng(4).dirichlet([1.0, 1.0, 1.0], size=40)

    def sets(coverage, new_q):
        return conformal_sets(CLASSES[z], proba, q, new, np.full(40, new_q), classes=CLASSES, coverage=coverage)

    assert (sets(0.7, 0.5) <= sets(0.9, 0.5)).all()
    assert (sets(0.9, 0.5) <= sets(0.9, 0.9)).all()
    assert sets(0.9, 1.0 - 1e-9).all()  # a row unlike any labelled one


def test_order_of_rows_and_classes_does_not_matter():
    z, proba, q = draws(5, 60)
    new = np.random.default_rng(6).dirichlet([1.0, 1.0, 1.0], size=30)
    new_q = np.linspace(0.1, 0.9, 30)
    sets = conformal_sets(CLASSES[z], proba, q, new, new_q, classes=CLASSES)
    rows, columns = np.random.default_rng(7).permutation(60), [2, 0, 1]
    moved = conformal_sets(
        CLASSES[z[rows]], proba[rows][:, columns], q[rows], new[:, columns], new_q, classes=CLASSES[columns]
    )
    np.testing.assert_array_equal(moved, sets[:, columns])


def test_unlabelled_rows_are_not_used():
    z, proba, q = draws(8, 60)
    y = CLASSES[z].astype(object)
    y[::3] = None
    new, new_q = proba[::3], q[::3]
    kept = np.flatnonzero([label is not None for label in y])
    sets = conformal_sets(y, proba, q, new, new_q, classes=CLASSES)
    alone = conformal_sets(y[kept], proba[kept], q[kept], new, new_q, classes=CLASSES)
    np.testing.assert_array_equal(sets, alone)
