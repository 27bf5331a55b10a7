"""Which rows a person is asked to label: a random sample without replacement within strata of the predicted class."""

import numpy as np
from numpy.typing import NDArray

FEWEST, MOST = 8, 4  # rows that every stratum gets at least; strata

Places = NDArray[np.intp]


def strata_of(predicted: Places, n_classes: int, n: int) -> Places:
    """The stratum of each class: its own, the two smallest merged while one gets too few of n rows. -1 if never predicted."""
    sizes = np.bincount(predicted, minlength=n_classes)
    groups = [[k] for k in np.flatnonzero(sizes)]
    while True:
        groups.sort(key=lambda group: (-sizes[group].sum(), group))
        allocated = _next([int(sizes[group].sum()) for group in groups], np.zeros(len(groups), dtype=int), n)
        if len(groups) == 1 or (len(groups) <= MOST and np.bincount(allocated, minlength=len(groups)).min() >= FEWEST):
            break
        groups[-2:] = [sorted(groups[-2] + groups[-1])]
    stratum = np.full(n_classes, -1)
    for number, group in enumerate(groups):
        stratum[group] = number
    return stratum


def draw(strata: Places, drawn: Places, n: int, rng: np.random.Generator) -> Places:
    """Return n more rows, in the order in which to label them, at random from those of each stratum that are not drawn yet.

    The j-th row of stratum h, of N_h rows, comes at (j - 1/2) / N_h, so however many rows are labelled, strata have rows in
    proportion to their sizes.
    """
    sizes, before = np.bincount(strata), np.bincount(strata[drawn], minlength=strata.max() + 1)
    left = np.ones(len(strata), dtype=bool)
    left[drawn] = False
    queues = [iter(rng.permutation(np.flatnonzero(left & (strata == h))).tolist()) for h in range(len(sizes))]
    return np.array([next(queues[h]) for h in _next(sizes, before, n)], dtype=np.intp)


def _next(sizes: list[int] | NDArray[np.int_], drawn: NDArray[np.int_], n: int) -> Places:
    """The strata of the next n rows."""
    ends = [min(size, before + n) for size, before in zip(sizes, drawn, strict=True)]
    strata = np.repeat(np.arange(len(ends)), np.subtract(ends, drawn))
    times = [(np.arange(a, b) + 0.5) / size for a, b, size in zip(drawn, ends, sizes, strict=True)]
    return strata[np.argsort(np.concatenate(times), kind="stable")[:n]]
