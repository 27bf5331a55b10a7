"""Planted replicates of the study, with known differences, and the pages made from them."""

from itertools import groupby
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from marmix.plotting.drawing import styled
from marmix.study.pages import Paragraph, Sheet
from marmix.study.pieces import Plan
from marmix.study.running import ITEMS
from marmix.study.summaries import FAILS, HOLDS, UNDECIDED

SMALL = Plan("small")
NOISE = 0.002  # of the paper's method, evenly spread over the replicates
LEVEL = {"auc": 0.7, "log_loss": 0.6, "brier": 0.2, "calibration": 0.05, "accuracy": 0.65}
SMALLER = ("log_loss", "brier", "calibration")  # is better
GAIN = 0.05
# the paper's method ahead, behind, and neither
OUTCOMES = pytest.mark.parametrize(("gain", "word"), [(GAIN, HOLDS), (-GAIN, FAILS), (0.0, UNDECIDED)])


class Place(NamedTuple):
    """The parts of a piece's key, and noise of its replicate that sums to zero over replicates."""

    parts: list[str]
    noise: float


def planted(item, value, size=SMALL):
    """Values by key for the pieces of an item that are replicates."""
    parts = sorted(p.key.split("/") for p in ITEMS[item].pieces(size) if p.key.split("/")[-1].isdecimal())
    values = {}
    for series, group in groupby(parts, lambda p: p[:-1]):
        numbers = sorted(int(p[-1]) for p in group)
        noise = np.linspace(-NOISE, NOISE, len(numbers)) if len(numbers) > 1 else [0.0]
        for i in numbers:
            place = Place([*series, str(i)], float(noise[i]))
            values["/".join(place.parts)] = solved(place) if series[0] == "solvers" else value(place)
    return values


def solved(place):
    """ECM ends higher than L-BFGS in the first replicate, lower in the second, at the same maximum in the others."""
    rise = {0: 0.5, 1: -0.5}.get(int(place.parts[-1]), 0.001)
    return {
        "ecm": {"loglik": -500.0 + rise, "log_loss": 0.62 + place.noise},
        "lbfgs": {"loglik": -500.0, "log_loss": 0.6},
    }


def half(n, overlap=0.0):
    """Half the 95 % interval of a mean over n replicates that differ by the planted noise alone."""
    return stats.t.ppf(0.975, n - 1) * np.std(np.linspace(-NOISE, NOISE, n), ddof=1) * np.sqrt(1 / n + overlap)


def made(item, values, size=SMALL):
    """The page of an item from the values of its pieces."""
    with styled():
        return ITEMS[item].page(size, values)


def better(gain, noise=0.0):
    """Scores that are better by `gain`, whatever the metric's direction."""
    return {m: v + (-gain if m in SMALLER else gain) + noise for m, v in LEVEL.items()}


def sheet(page, stem):
    return next(block for block in page.blocks if isinstance(block, Sheet) and block.stem == stem)


def text_of(page):
    return " ".join(block.text for block in page.blocks if isinstance(block, Paragraph))


def claim_on(page, words):
    """The one claim whose sentence has these words."""
    (claim,) = [claim for claim in page.claims if words in claim.sentence]
    return claim
