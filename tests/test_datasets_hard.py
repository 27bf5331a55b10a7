"""The data sets whose hard rows lose their labels: which rows these are, and how many."""

import numpy as np
import pytest

from marmix.datasets import hard, load_odd_digits, load_tumours


@pytest.mark.parametrize(("load", "rows"), [(load_tumours, hard.tumours), (load_odd_digits, hard.digits)])
def test_labels_are_hidden_at_the_stated_rate_and_the_harder_the_likelier(load, rows):
    bunch = load(seed=3)
    assert bunch.missing_proba.mean() == pytest.approx(hard.RATE)
    assert (np.diff(bunch.missing_proba[np.argsort(rows().difficulty)]) >= 0).all()
    np.testing.assert_array_equal(bunch.target, np.where(rows().hidden(3), -1, bunch.target_true))
    assert (load(seed=4).target != bunch.target).any()


def test_what_a_user_does_to_the_rows_leaves_the_next_load_alone():
    bunch = load_tumours()
    first = bunch.data.copy()
    bunch.data[:] = 0.0
    bunch.target_true[:] = 7
    np.testing.assert_array_equal(load_tumours().data, first)
    assert set(load_tumours().target_true.tolist()) == {0, 1}


def test_a_frame_holds_the_features_by_name_and_the_target():
    pytest.importorskip("pandas")
    bunch = load_tumours(as_frame=True)
    assert list(bunch.frame) == [*bunch.feature_names, "target"]
    assert bunch.frame["target"].eq(-1).sum() == load_tumours().missing.sum()
