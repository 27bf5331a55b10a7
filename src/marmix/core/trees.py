"""Boosted trees as a score model: class scores are a constant plus sums of the values of leaves.

Trees are flat arrays of ours, whatever library has grown them, and are evaluated without it: a split is one comparison of a
column and one `where`, from the leaves up, so that nothing is gathered. With two classes the score of the first is zero and each
round has one tree; with more, each round has one tree for each class.
"""

from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from marmix.core.arrays import AnyArray, Array, Bools, Ints, like, namespace


class Trees(NamedTuple):
    """Splits and leaves of all trees, one tree after the other.

    A child >= 0 is the number of a split, which comes after its parent; a child < 0 is the leaf ``-1 - child``. Rows go left
    if their value is at most the threshold, or among the categories of a categorical split. A missing value goes left where
    `default_left` says so; in a categorical split, it goes right, as do unseen categories.
    """

    baseline: Array  # (V,): one score for two classes, else one for each class
    roots: Ints  # (rounds * V,): the first split of each tree, or -1 - leaf
    feature: Ints  # (S,)
    threshold: Array  # (S,); unused in categorical splits
    default_left: Bools  # (S,)
    left: Ints  # (S,)
    right: Ints  # (S,)
    value: Array  # (L,): values of the leaves
    gain: Array  # (S,): how much each split reduced the loss
    first_code: Ints  # (S + 1,): categories of split i are codes[first_code[i] : first_code[i + 1]]
    codes: Ints
    categorical: Bools  # (S,)


def no_trees(baseline: Array) -> Trees:
    """Constant scores: one round of trees without a split."""
    return trees_of({"tree_info": [{"tree_structure": {"leaf_value": 0.0}}] * len(baseline)}, baseline)


class TreeScores:
    """Boosted trees as a score model; parameters are `Trees`.

    Parameters
    ----------
    d : int
        Number of features.
    n_classes : int
    """

    joint = False

    def __init__(self, d: int, n_classes: int):
        self.d, self.n_classes = d, n_classes
        self.vectors = 1 if n_classes == 2 else n_classes
        self.owner: AnyArray = np.arange(n_classes)[-self.vectors :]

    @property
    def words(self) -> str:
        return "gradient-boosted tree ensemble"

    def user_values(self, theta: Trees, frame: Any) -> dict[str, Any]:
        """Total gain of the splits on each feature."""
        return {"feature_importances": np.bincount(theta.feature, theta.gain, self.d).astype(float)}

    def n_features(self) -> int:
        return self.d

    def values_per_row(self) -> int:
        return self.d + 2 * self.n_classes

    def chart(self, theta: Trees) -> NoReturn:
        """Raise TypeError: trees have no free coordinates."""
        raise TypeError(
            "boosted trees have no fixed number of parameters, so they have no aic, bic or icl: compare scores on held-out rows "
            "(marmix.evaluation)."
        )

    def scores(self, theta: Trees, x: Array) -> Array:
        """Class scores (K, n) of columns x (d, n)."""
        xp = namespace(x)
        totals = [xp.zeros_like(x[0, :]) + constant for constant in theta.baseline.tolist()]
        leaves = like(theta.value, x)
        splits = list(zip(*(values.tolist() for values in theta[2:7]), theta.categorical.tolist(), strict=True))
        starts = [root for root in theta.roots.tolist() if root >= 0]
        ends = iter([*starts[1:], len(splits)])
        for t, root in enumerate(theta.roots.tolist()):
            values: dict[int, Any] = {}

            def child(number: int, values: dict[int, Any] = values) -> Any:
                return leaves[-1 - number] if number < 0 else values.pop(number)

            for i in reversed(range(root, next(ends) if root >= 0 else root)):
                feature, threshold, default_left, left, right, categorical = splits[i]
                column = x[feature, :]
                if categorical:
                    goes_left = _among(column, theta.codes[theta.first_code[i] : theta.first_code[i + 1]].tolist())
                    values[i] = xp.where(goes_left, child(left), child(right))
                elif default_left:  # comparisons with NaN are false
                    values[i] = xp.where(column > threshold, child(right), child(left))
                else:
                    values[i] = xp.where(column <= threshold, child(left), child(right))
            totals[t % self.vectors] += child(root)
        if self.vectors == 1:
            totals.insert(0, xp.zeros_like(totals[0]))
        return xp.stack(totals)


def _among(column: Any, codes: list[int]) -> Any:
    """Whether each value is one of the codes."""
    mask = column == codes[0]
    for code in codes[1:]:
        mask |= column == code
    return mask


def trees_of(dump: dict[str, Any], baseline: Array) -> Trees:
    """Trees of a LightGBM model, from its `dump_model()`.

    A split on a column without missing values in training sends missing values to the child with more rows, where LightGBM
    would take them for zeros.

    Parameters
    ----------
    dump : dict
    baseline : array of shape (V,)
        Scores before the first tree.
    """
    value = list[float]()
    splits: list[Any] = []  # (feature, threshold, default_left, left, right, gain, codes or None)

    def add(node: dict[str, Any]) -> int:
        if "split_feature" not in node:
            value.append(float(node["leaf_value"]))
            return -len(value)
        number = len(splits)
        splits.append(None)
        left, right = add(node["left_child"]), add(node["right_child"])
        categorical = node["decision_type"] == "=="
        default_left = not categorical and bool(node["default_left"])
        if not categorical and node["missing_type"] == "None":
            default_left = _rows(node["left_child"]) >= _rows(node["right_child"])
        codes = [int(code) for code in node["threshold"].split("||")] if categorical else None
        threshold = 0.0 if categorical else float(node["threshold"])
        splits[number] = node["split_feature"], threshold, default_left, left, right, node["split_gain"], codes
        return number

    roots = [add(tree["tree_structure"]) for tree in dump["tree_info"]]
    columns: list[Any] = list(zip(*splits, strict=True)) or [[]] * 7
    feature, threshold, default_left, left, right, gain, categories = columns
    codes = [split or [] for split in categories]
    whole, real, flag = (partial(np.array, dtype=kind) for kind in (np.int32, float, bool))
    return Trees(
        real(baseline),
        whole(roots),
        whole(feature),
        real(threshold),
        flag(default_left),
        whole(left),
        whole(right),
        real(value),
        real(gain),
        np.cumsum([0, *map(len, codes)], dtype=np.int32),
        whole([code for split in codes for code in split]),
        flag([split is not None for split in categories]),
    )


def _rows(node: dict[str, Any]) -> int:
    """Number of training rows in a split or leaf; a tree of one leaf does not say."""
    return int(node.get("internal_count", node.get("leaf_count", 0)))
