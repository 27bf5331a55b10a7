"""Moments of classes are those of NumPy, for any division of the rows into parts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.core.moments import group_moments, merged


def rows_of(n=200, d=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)), rng.integers(-1, classes, size=n)


def test_moments_are_weights_means_and_scatters_of_each_class_and_of_the_unlabelled_rows():
    X, z = rows_of()
    moments = group_moments(X, z, None, 3)
    for k, name in enumerate([0, 1, 2, -1]):
        rows = X[z == name]
        assert moments.weight[k] == len(rows)
        np.testing.assert_allclose(moments.mean[k], rows.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(moments.scatter[k], np.cov(rows.T, bias=True) * len(rows), rtol=1e-11, atol=1e-11)
    mean, covariance = moments.overall()
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(covariance, np.cov(X.T, bias=True), rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(moments.labelled.mean, moments.mean[:3])


@given(cuts=st.lists(st.integers(0, 200), max_size=6), offset=st.sampled_from([0.0, 1e3, -1e6]))
def test_however_the_rows_are_cut_the_moments_are_the_same(cuts, offset):
    X, z = rows_of()
    X = X + offset
    weight = np.random.default_rng(1).uniform(0.0, 2.0, size=len(z))
    ends = [0, *sorted(cuts), len(z)]
    parts = merged(group_moments(X[a:b], z[a:b], weight[a:b], 3) for a, b in pairwise(ends))
    complete = group_moments(X, z, weight, 3)
    np.testing.assert_allclose(parts.weight, complete.weight, rtol=1e-12)
    np.testing.assert_allclose(parts.mean, complete.mean, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(parts.scatter, complete.scatter, rtol=1e-7, atol=1e-11 * (1.0 + abs(offset)))


def test_a_row_of_weight_two_is_the_row_twice_and_weight_zero_is_no_row():
    X, z = rows_of()
    repeats = np.random.default_rng(0).integers(0, 3, size=len(z))
    weighted = group_moments(X, z, repeats.astype(float), 3)
    repeated = group_moments(np.repeat(X, repeats, axis=0), np.repeat(z, repeats), None, 3)
    for a, b in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("weight", [None, np.zeros(5)])
def test_a_group_without_rows_is_zero(weight):
    X = np.ones((5, 2))
    moments = group_moments(X, np.zeros(5, dtype=int), weight, 2)
    assert moments.weight[1] == moments.weight[2] == 0.0
    assert not moments.mean[1].any()
    assert not (moments + moments).scatter[2].any()


def test_float32_rows_are_summed_in_double():
    X = np.full((1000, 1), 0.1, dtype=np.float32)
    moments = group_moments(X, np.zeros(1000, dtype=int), None, 1)
    assert moments.mean[0, 0] == pytest.approx(float(np.float32(0.1)), rel=1e-15)
