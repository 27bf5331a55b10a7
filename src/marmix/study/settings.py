"""The settings of the paper's simulations, which its text does not give in full."""

from typing import Any

MAX_MARGIN = 0.6  # only rows whose true margin is at most this are kept
SLOPE = -6.0  # alpha_1 of the mechanism that hides labels
RATE = 0.7  # of the labels are missing
ROWS, SHAPE = 200, 2.0  # of Tables I and II: sample size, and lambda of the mechanism
FRESH = 5000  # rows that nothing was fitted to, on which we score
LEFT = 3  # labels of each class that are left at least, so that every method can be fitted
CUTS = {True: "truncated", False: "not truncated"}

PAPER: dict[str, Any] = {
    "covariance_type": "full",
    "link": "aranda-ordaz",
    "uncertainty": "margin",
}  # the model of the paper
