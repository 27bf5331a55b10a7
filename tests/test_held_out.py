"""Choice of settings by rows held out whole."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from marmix.selection.held_out import whole_row_folds

Z = np.repeat([-1, 0, 1, 2], [61, 23, 3, 1])


def test_every_row_is_tested_once_except_those_that_are_alone():
    folds = whole_row_folds(Z, 5)
    assert sorted(np.concatenate(folds)) == [row for row in range(len(Z)) if Z[row] != 2]


def test_folds_have_the_same_share_of_every_class_and_of_unlabelled_rows():
    for test in whole_row_folds(Z, 5):
        counts = [np.sum(Z[test] == k) for k in (-1, 0, 1, 2)]
        assert counts[0] in (12, 13)
        assert counts[1] in (4, 5)
        assert counts[2] in (0, 1)
        assert counts[3] == 0
        assert len(test) in (17, 18)


def test_the_seed_decides_the_folds():
    a, b, c = (np.concatenate(whole_row_folds(Z, 4, seed)) for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_folds_may_be_given():
    folds = whole_row_folds(Z, 3)
    assert all(np.array_equal(a, b) for a, b in zip(folds, whole_row_folds(Z, folds), strict=True))
    pairs = [(np.delete(np.arange(len(Z)), test), test) for test in folds]
    assert all(np.array_equal(a, b) for a, b in zip(folds, whole_row_folds(Z, pairs), strict=True))
    splitter = KFold(3, shuffle=True, random_state=0)
    z = np.tile([-1, 0, 1], 20)
    expected = [test for _, test in splitter.split(z)]
    assert all(np.array_equal(a, b) for a, b in zip(expected, whole_row_folds(z, splitter), strict=True))


@pytest.mark.parametrize(
    ("cv", "complaint"),
    [
        (1, "at least 2"),
        ("five", "number of folds"),
        (3.5, "number of folds"),
        ([[0, 1], [1, 2]], "twice"),
        ([[0, 99]], "row numbers"),
        ([[0.5]], "row numbers"),
        ([[len(Z) - 1]], "leaves no labelled row of some class"),
    ],
)
def test_folds_that_cannot_be_used_are_refused(cv, complaint):
    with pytest.raises(ValueError, match=complaint):
        whole_row_folds(Z, cv)
