"""Flexible estimates of q and of the posteriors: no row has a say in its own."""

import numpy as np
import pytest

from marmix.datasets import make_mar_mixture
from marmix.evaluation import flexible, log_loss


@pytest.fixture(scope="module")
def rows():
    return make_mar_mixture(400, rate=0.5, random_state=3, at_least=20)


@pytest.fixture(scope="module")
def judged(rows):
    return flexible(rows.data, rows.target)


def test_a_row_has_no_say_in_its_own_values(rows, judged):
    labelled = np.flatnonzero(rows.target >= 0)[:5]
    y = rows.target.copy()
    y[labelled[0]] = 1 - y[labelled[0]]
    other = flexible(rows.data, y)
    np.testing.assert_array_equal(other.posterior[labelled[0]], judged.posterior[labelled[0]])
    y = rows.target.copy()
    y[labelled[1]] = -1
    hidden = flexible(rows.data, y)
    assert hidden.missing_proba[labelled[1]] == judged.missing_proba[labelled[1]]
    assert (hidden.missing_proba != judged.missing_proba).any()


def test_values_are_near_those_that_made_the_data(rows, judged):
    assert np.corrcoef(judged.missing_proba, rows.missing_proba)[0, 1] > 0.7
    assert ((judged.missing_proba >= 0.0) & (judged.missing_proba < 1.0)).all()
    np.testing.assert_allclose(judged.posterior.sum(axis=1), 1.0)
    proba = np.clip(judged.posterior, 0.05, 0.95)
    truth = log_loss(rows.target_true, proba, np.zeros(400), classes=[0, 1]).value
    score = log_loss(rows.target, proba, judged.missing_proba, classes=[0, 1], posterior=judged.posterior)
    assert abs(score.value - truth) < 3.0 * score.stderr
    assert abs(score.plain - truth) > abs(score.value - truth)


def test_names_of_classes_do_not_matter(rows, judged):
    names = np.array(["zebra", "ant"])
    y = np.where(rows.target < 0, None, names[rows.target])
    other = flexible(rows.data, y, classes=names)
    np.testing.assert_array_equal(other.posterior, judged.posterior)
    assert other.classes.tolist() == ["zebra", "ant"]


def test_missing_features_are_allowed_and_complete_labels_refused(rows):
    X = rows.data[:60].copy()
    X[::7, 0] = np.nan
    assert np.isfinite(flexible(X, rows.target[:60]).missing_proba).all()
    with pytest.raises(ValueError, match="no missingness"):
        flexible(X, rows.target_true[:60])
    with pytest.raises(ValueError, match="inconsistent"):
        flexible(X, rows.target[:50])
