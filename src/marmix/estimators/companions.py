"""Candidates of `MARClassifierCV` that do not know why labels are missing: labels spread over neighbours, and a forest."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from marmix.core.arrays import Array, Ints

_NEIGHBOURS, _ITERATIONS, _TREES, _FEATURES = 5, 200, 100, 64
_LITTLE, _DOUBT = 0.01, 0.1  # parts of a neighbour and of a tree that keep probabilities from zero


class _Companion(ClassifierMixin, BaseEstimator):
    """Predicts the most probable class."""

    def predict(self, X: Array) -> Any:
        """The most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Spreading(_Companion):
    """scikit-learn's `LabelSpreading` over nearest neighbours; a hundredth of one more is the mean of all rows."""

    converged_ = True

    def fit(self, X: Array, y: Ints) -> "Spreading":
        """Spread the labels; -1 if missing."""
        spread = LabelSpreading(kernel="knn", n_neighbors=_NEIGHBOURS, max_iter=_ITERATIONS).fit(X, y)
        self.classes_, self.n_features_in_ = spread.classes_, spread.n_features_in_
        self.X_, self.proba_ = np.array(X, dtype=float), spread.label_distributions_
        return self

    def predict_proba(self, X: Array) -> Array:
        """Class probabilities, (n, K)."""
        neighbours = NearestNeighbors(n_neighbors=_NEIGHBOURS).fit(self.X_).kneighbors(X, return_distance=False)
        proba = sum(self.proba_[one] for one in neighbours.T) + _LITTLE * self.proba_.mean(axis=0)
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))


class Forest(_Companion):
    """scikit-learn's `ExtraTreesClassifier` with up to 64 features at every split, and a tenth of a tree added to every class.

    Its nodes are arrays, the trees one after the other; a leaf is its own child.
    """

    converged_ = True

    def fit(self, X: Array, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "Forest":
        """Grow the trees."""
        columns = min(np.shape(X)[1], _FEATURES)
        forest = ExtraTreesClassifier(_TREES, max_features=columns, random_state=0).fit(X, y, sample_weight)
        trees = [tree.tree_ for tree in forest.estimators_]
        first = np.cumsum([0, *(tree.node_count for tree in trees)])

        def of_all(name: str) -> Any:
            return np.concatenate([getattr(tree, name) for tree in trees])

        children = np.array([of_all("children_left"), of_all("children_right")])
        self.classes_, self.n_features_in_ = forest.classes_, forest.n_features_in_
        self.roots_, self.depths_ = first[:-1], np.array([tree.max_depth for tree in trees])
        self.children_ = np.where(children < 0, np.arange(first[-1]), children + np.repeat(first[:-1], np.diff(first)))
        self.feature_, self.threshold_ = np.maximum(of_all("feature"), 0), of_all("threshold")
        self.proba_ = of_all("value")[:, 0]
        return self

    def predict_proba(self, X: Array) -> Array:
        """Class probabilities, (n, K)."""
        proba = np.full((len(X), len(self.classes_)), _DOUBT)
        x, rows = np.asarray(X, dtype=np.float32), np.arange(len(X))  # as the trees see them
        for root, depth in zip(self.roots_.tolist(), self.depths_.tolist(), strict=True):
            node = np.full(len(x), root)
            for _ in range(depth):
                node = self.children_[1 * (x[rows, self.feature_[node]] > self.threshold_[node]), node]
            proba += self.proba_[node]
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))
