"""The paper: the settings of its simulations, which its text does not give in full, its printed figures, and its data.

J. Liao and Z. Lyu, *Semi-Supervised Mixture Models under the Concept of Missing at Random with Margin Confidence and
Aranda-Ordaz Function*. The rows of `table_1.csv` are those that its published script draws for Table I.
"""

import csv
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from marmix.study.methods import ECM_AO, ECM_LOGIT, SWAPPED
from marmix.study.metrics import PUBLISHED

MAX_MARGIN = 0.6  # rows with a larger true margin are dropped
SLOPE = -6.0  # alpha_1 of the mechanism that hides labels
RATE = 0.7  # share of labels missing
ROWS, SHAPE = 200, 2.0  # Tables I and II: sample size, and lambda of the mechanism
FRESH = 5000  # rows for scoring that no model was fitted to
LEFT = 3  # labels kept in each class, so that every method can be fitted
CUTS = {True: "truncated", False: "not truncated"}


def _row(*values: float) -> dict[str, float]:
    return dict(zip(PUBLISHED, values, strict=False))


TABLE_1 = {
    ECM_AO: _row(0.712, 0.675, 0.233, 0.599, 0.845, 0.701),
    ECM_LOGIT: _row(0.713, 0.673, 0.233, 0.592, 0.897, 0.713),
    SWAPPED: _row(0.705, 0.971, 0.368, 0.143, 0.072, 0.096),
}
TABLE_2 = {
    ("gamma", ECM_AO): _row(0.732, 0.862, 0.244, 0.664, 0.778),
    ("gamma", SWAPPED): _row(0.744, 1.173, 0.431, 0.350, 0.485),
    ("beta", ECM_AO): _row(0.668, 0.683, 0.241, 0.609, 0.857),
    ("beta", SWAPPED): _row(0.689, 1.107, 0.402, 0.257, 0.184),
    ("laplace", ECM_AO): _row(0.696, 0.677, 0.234, 0.670, 0.702),
    ("laplace", SWAPPED): _row(0.686, 1.006, 0.377, 0.365, 0.337),
}


def table_1_data() -> Bunch:
    """The 200 rows behind Table I: data, target (-1 where hidden), target_true; class 0 is the paper's class 1."""
    with files("marmix.study").joinpath("table_1.csv").open(encoding="utf-8") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    target = [int(row["label"]) - 1 if row["label"] else -1 for row in rows]
    return Bunch(
        data=np.array([[float(row["x1"]), float(row["x2"])] for row in rows]),
        target=np.array(target),
        target_true=np.array([int(row["label_true"]) - 1 for row in rows]),
    )
