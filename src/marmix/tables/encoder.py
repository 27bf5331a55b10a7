"""`Encoder`: missing values filled and categories one-hot, for models that take only numbers."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from marmix.core.arrays import Array


class Encoder(TransformerMixin, BaseEstimator):
    """Transformer of numbers and codes of categories, NaN where missing, to features without missing values.

    A missing number becomes the median of its column, a missing code the most frequent one. A category becomes a feature of zeros
    and ones for each level but the first, unless it has too many.

    Parameters
    ----------
    levels : list of int or None, default=None
        Number of levels of each column whose codes are 0, 1, ..., and 0 for a column of numbers; None if all are numbers.
    max_levels : int, default=20
        Most levels of a category that becomes features. Those of more are for trees, which split on codes.

    Attributes
    ----------
    fill_ : array of shape (d,)
        What replaces a missing value of each column; 0 if the fit saw no other.
    n_features_in_ : int
        Number of columns d.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix.tables import Encoder
    >>> X = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, 2.0], [5.0, np.nan]])
    >>> Encoder(levels=[0, 3]).fit_transform(X).tolist()
    [[1.0, 0.0, 1.0], [3.0, 0.0, 0.0], [3.0, 0.0, 1.0], [5.0, 0.0, 1.0]]
    """

    def __init__(self, levels: Sequence[int] | None = None, max_levels: int = 20):
        self.levels = levels
        self.max_levels = max_levels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Determine what replaces missing values.

        Parameters
        ----------
        X : array of shape (n, d)
            Numbers, codes and NaN.
        y : object
            Ignored; here for compatibility with scikit-learn.

        Returns
        -------
        self
        """
        X = self._checked(X, reset=True)
        fill = np.zeros(X.shape[1])
        for j, levels in enumerate(self.levels or [0] * X.shape[1]):
            x = X[~np.isnan(X[:, j]), j]
            if len(x):
                fill[j] = np.bincount(x.astype(np.intp)).argmax() if levels else np.median(x)
        self.fill_ = fill
        return self

    def transform(self, X: Any) -> Array:
        """Fill missing values and encode categories.

        Parameters
        ----------
        X : array of shape (n, d)
            As for `fit`.

        Returns
        -------
        array of shape (n, features)
            Finite numbers.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        levels = [count if count <= self.max_levels else 1 for count in self.levels or ()]
        gaps = np.isnan(X)
        return one_hot(np.where(gaps, self.fill_, X) if gaps.any() else X, levels)

    def _checked(self, X: Any, reset: bool) -> Array:
        X = np.asarray(validate_data(self, X, reset=reset, dtype=float, ensure_all_finite="allow-nan"))
        if self.levels is not None and len(self.levels) != X.shape[1]:
            raise ValueError(f"levels has {len(self.levels)} numbers for {X.shape[1]} columns.")
        return X


def encoder_of(X: Array, levels: Sequence[int] | None) -> Encoder | None:
    """An encoder fitted to X; None for an array of numbers, of which none is missing. Columns of tables have `levels`."""
    return None if levels is None and not np.isnan(X).any() else Encoder(levels).fit(X)


def numbers_of(X: Array, encoder: Encoder | None) -> Array:
    """X as features without missing values and categories."""
    return X if encoder is None else encoder.transform(X)


def one_hot(X: Array, levels: Sequence[int]) -> Array:
    """Columns of numbers as they are (0 levels), and codes as zeros and ones for each level but the first; NaN stays."""
    if not any(levels):
        return X
    places = [(j, level) for j, count in enumerate(levels) for level in (range(1, count) if count else (0,))]
    columns, level = X[:, [j for j, _ in places]], np.array([level for _, level in places], dtype=int)
    hot = level > 0
    columns[:, hot] = np.where(np.isnan(columns[:, hot]), np.nan, columns[:, hot] == level[hot])
    return columns
