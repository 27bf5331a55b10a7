"""Folds of the labelled rows, for cross-validation with scikit-learn."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import check_consistent_length

from marmix.core.labels import as_classes, has_votes, known_labels, most_voted, vote_shares


def labelled_rows(y: Any, classes: ArrayLike | None = None) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """A mask of the labelled rows, and their labels, or the codes of their most voted classes."""
    if has_votes(y):
        z = most_voted(vote_shares(y, fitted=True)[0])
        return z >= 0, z[z >= 0]
    return known_labels(y, np.empty(0) if classes is None else as_classes(classes))


class PartialLabelKFold(KFold):
    """K-fold cross-validation over the labelled rows.

    Unlabelled rows are in every training set and in no test set. Training sets therefore contain relatively more
    unlabelled rows than the data, by up to a factor of k / (k - 1), which affects estimators that model the features
    or the missingness; `MARClassifierCV` corrects for it by weights. A classifier of another library would learn
    missing labels as a class: wrap it in `marmix.LabelledRows`.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=False
        Whether to shuffle the labelled rows before they are split.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling.
    classes : array-like or None, default=None
        All classes. Needed only if one of them is -1 or a text that otherwise means a missing label, such as "None".

    See Also
    --------
    StratifiedPartialLabelKFold : The same, with equal class proportions in all folds.
    population_scorer : Scores for cross-validation that are corrected for missing labels.
    marmix.MARClassifierCV : Choose and average models by cross-validation over all rows.

    Examples
    --------
    Row 1 has no label: it is in every training set and is never tested.

    >>> from marmix.evaluation import PartialLabelKFold
    >>> X, y = [[0.1], [0.4], [0.9], [1.3], [1.8]], ["a", None, "a", "b", "b"]
    >>> for train, test in PartialLabelKFold(n_splits=2).split(X, y):
    ...     print(train, test)
    [1 3 4] [0 2]
    [0 1 2] [3 4]

    It is used like any other splitter of scikit-learn:

    >>> from sklearn.model_selection import cross_val_score
    >>> from marmix import MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.evaluation import population_scorer
    >>> rows = make_mar_mixture(300, rate=0.4, random_state=0)
    >>> cv, scoring = PartialLabelKFold(3, shuffle=True, random_state=0), population_scorer("accuracy")
    >>> cross_val_score(MARLogisticRegression(), rows.data, rows.target, cv=cv, scoring=scoring).round(2)
    array([0.98, 0.99, 0.99])
    """

    _folds: type[KFold] | type[StratifiedKFold] = KFold

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None, classes: ArrayLike | None = None
    ):
        super().__init__(n_splits, shuffle=shuffle, random_state=random_state)
        self.classes = classes

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the indices of the training rows and of the test rows of each fold.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; only their number is used.
        y : array-like of shape (n,) or (n, K)
            Labels, missing where -1, NaN, None or pandas.NA; or votes, zero or NaN in all columns where missing.
        groups : object
            Ignored; here for compatibility with scikit-learn.

        Yields
        ------
        train, test : arrays of int
            `test` holds labelled rows only; `train` holds all other rows.

        Raises
        ------
        ValueError
            If y is not given, or if there are fewer labelled rows than folds.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} needs y, to know which rows are labelled: pass y.")
        check_consistent_length(X, y)
        is_labelled, labels = labelled_rows(y, self.classes)
        labelled = np.flatnonzero(is_labelled)
        if len(labelled) < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} is more than the {len(labelled)} labelled rows: use fewer folds."
            )
        folds = self._folds(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        for _, test in folds.split(labelled, np.unique(labels, return_inverse=True)[1]):
            yield np.delete(np.arange(len(is_labelled)), labelled[test]), labelled[test]


class StratifiedPartialLabelKFold(PartialLabelKFold):
    """`PartialLabelKFold` that preserves the class proportions of the labelled rows in every fold.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=False
        Whether to shuffle the rows of each class before they are split.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling.
    classes : array-like or None, default=None
        All classes, as in `PartialLabelKFold`.

    See Also
    --------
    PartialLabelKFold : The same without stratification.
    population_scorer : Scores for cross-validation that are corrected for missing labels.

    Examples
    --------
    Every fold tests one row of each class:

    >>> from marmix.evaluation import StratifiedPartialLabelKFold
    >>> y = ["a", "a", "a", None, "b", "b", "b"]
    >>> for train, test in StratifiedPartialLabelKFold(n_splits=3).split(y, y):
    ...     print(test, [y[i] for i in test])
    [0 4] ['a', 'b']
    [1 5] ['a', 'b']
    [2 6] ['a', 'b']
    """

    _folds = StratifiedKFold
