"""Two data sets that come with scikit-learn, whose hard rows lose their labels."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.utils import Bunch

from marmix.core.arrays import Array, Bools, Ints
from marmix.datasets.bunches import delivered

# Chosen by what the columns measure, not by how they score: one column for each property of the cells. Perimeter and area
# repeat the radius; concavity and concave points nearly repeat compactness, and are zero in some rows.
TUMOUR_COLUMNS = ("radius", "texture", "smoothness", "compactness", "symmetry", "fractal dimension")
RATE = 0.7  # share of labels hidden
STEEPNESS = 6.0  # log-odds of hiding, from the easiest to the hardest row

_HIDING = f"""About {RATE:.0%} of the labels are hidden, hard rows first: difficulty is 1 - |2p - 1|, where p is the
out-of-fold probability of class 1 by a random forest that saw all labels (five folds), and the log-odds that a label is hidden
rise by {STEEPNESS:g} from the easiest to the hardest possible row. `target` is -1 where the label is hidden, `target_true` has
all labels, and `missing_proba` is the probability with which a row lost its label.
"""
TUMOURS_DESCRIPTION = f"""Breast cancer: 569 tumours, benign (0) or malignant (1), with most of the diagnoses hidden.

Six mean measurements of cell nuclei in images of a fine needle aspirate, from `sklearn.datasets.load_breast_cancer`.
{_HIDING}"""
DIGITS_DESCRIPTION = f"""Handwritten digits: 1,797 images of 8 x 8 pixels, even (0) or odd (1), with most of the labels hidden.

The images are those of `sklearn.datasets.load_digits`.
{_HIDING}"""


class HardRows(NamedTuple):
    """Features, true classes 0 and 1, difficulty of each row (0 to 1), and the probability that its label is hidden."""

    title: str
    X: Array
    y: Ints
    difficulty: Array
    hide: Array

    @classmethod
    def of(cls, title: str, X: Array, y: Ints, judged: Array) -> "HardRows":
        """Hide labels where a random forest, cross-fitted to all labels and the features `judged`, is unsure."""
        forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
        tau = cross_val_predict(forest, judged, y, cv=5, method="predict_proba")[:, 1]
        difficulty = 1.0 - np.abs(2.0 * tau - 1.0)
        level = brentq(lambda a: np.mean(expit(a + STEEPNESS * difficulty)) - RATE, -50.0, 50.0)
        return cls(title, X, y, difficulty, expit(level + STEEPNESS * difficulty))

    def hidden(self, seed: int) -> Bools:
        """The rows whose label is hidden with this seed."""
        return np.random.default_rng(seed).random(len(self.y)) < self.hide


@cache
def tumours() -> HardRows:
    """The breast-cancer data of scikit-learn, six of its columns; class 1 is malignant."""
    bunch = load_breast_cancer()
    names = bunch.feature_names.tolist()
    X = bunch.data[:, [names.index(f"mean {column}") for column in TUMOUR_COLUMNS]]
    title = f"Breast cancer: {len(X)} tumours, benign or malignant, {X.shape[1]} measurements"
    return HardRows.of(title, X, 1 - bunch.target, np.log(X))


@cache
def digits() -> HardRows:
    """The handwritten digits of scikit-learn; class 1 is odd."""
    X, y = load_digits(return_X_y=True)
    return HardRows.of(f"Handwritten digits: {len(X):,} images of 8 x 8 pixels, even or odd", X, y % 2, X)


def load_tumours(*, random_state: int = 0, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """569 tumours, benign or malignant, with the diagnoses of most hard cases missing.

    The breast-cancer data of scikit-learn, six measurements of cell nuclei. About 70 % of the labels are hidden, preferably
    where a random forest that saw all labels is unsure; the first file of ``marmix demo`` has the same rows. It needs no network.

    Parameters
    ----------
    random_state : int, default=0
        Decides which labels are hidden.
    as_frame : bool, default=False
        Return a DataFrame and Series (needs pandas).
    return_X_y : bool, default=False
        Return ``(data, target)`` alone.

    Returns
    -------
    Bunch
        `data` (569, 6), `target` (0 benign, 1 malignant, -1 missing), `target_true` (all labels), `missing`, `missing_proba`
        (the probability with which a row lost its label), `feature_names`, `target_names`, `frame` (None unless `as_frame`),
        `DESCR`.

    See Also
    --------
    load_odd_digits : Images instead of measurements.
    hide_labels : Hide labels of your own data.

    Examples
    --------
    >>> from marmix.datasets import load_tumours
    >>> tumours = load_tumours()
    >>> print(len(tumours.target), (tumours.target == -1).sum())
    569 375
    """
    bunch = _bunch(tumours(), random_state, list(TUMOUR_COLUMNS), ["benign", "malignant"], TUMOURS_DESCRIPTION)
    return delivered(bunch, as_frame, return_X_y)


def load_odd_digits(*, random_state: int = 0, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """1,797 images of handwritten digits, even or odd, with the labels of most hard cases missing.

    The digits of scikit-learn, 8 x 8 pixels. Labels are hidden as in `load_tumours`. It needs no network.

    Parameters
    ----------
    random_state, as_frame, return_X_y
        As in `load_tumours`.

    Returns
    -------
    Bunch
        As that of `load_tumours`, with `data` (1797, 64) and the classes 0 even, 1 odd.

    See Also
    --------
    load_tumours : Measurements instead of images.
    hide_labels : Hide labels of your own data.

    Examples
    --------
    >>> from marmix.datasets import load_odd_digits
    >>> digits = load_odd_digits(random_state=1)
    >>> digits.data.shape, digits.target_names
    ((1797, 64), ['even', 'odd'])
    """
    names = [f"pixel {row} {column}" for row in range(8) for column in range(8)]
    return delivered(_bunch(digits(), random_state, names, ["even", "odd"], DIGITS_DESCRIPTION), as_frame, return_X_y)


def _bunch(rows: HardRows, seed: int, features: list[str], classes: list[str], description: str) -> Bunch:
    missing = rows.hidden(seed)
    return Bunch(
        data=rows.X.copy(),
        target=np.where(missing, -1, rows.y),
        target_true=rows.y.copy(),
        missing=missing,
        missing_proba=rows.hide.copy(),
        feature_names=features,
        target_names=classes,
        DESCR=description,
    )
