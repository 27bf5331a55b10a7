"""P(label missing | x) by a random forest: no row has a say in its own."""

import numpy as np

from marmix.datasets import make_mar_mixture
from marmix.evaluation.forests import flexible_missing_proba


def test_a_row_has_no_say_in_its_own_probability():
    rows = make_mar_mixture(400, rate=0.5, random_state=3, at_least=20)
    missing = rows.target < 0
    q, _ = flexible_missing_proba(rows.data, missing)
    assert np.corrcoef(q, rows.missing_proba)[0, 1] > 0.7
    flipped = missing.copy()
    flipped[7] = not flipped[7]
    other, _ = flexible_missing_proba(rows.data, flipped)
    assert other[7] == q[7]
    assert (other != q).any()


def test_missing_features_are_allowed():
    rows = make_mar_mixture(60, random_state=3)
    X = rows.data.copy()
    X[::7, 0] = np.nan
    q, _ = flexible_missing_proba(X, rows.target < 0)
    assert ((q >= 0.0) & (q < 1.0)).all()
