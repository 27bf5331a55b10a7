"""Times of functions."""

import time

import numpy as np


def interleaved(functions, repeats=1, clock=time.perf_counter):
    """Median seconds of functions that are called in turn, and what they returned last."""
    times, results = [[] for _ in functions], [None] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            begin = clock()
            results[i] = function()
            times[i].append(clock() - begin)
    return [float(np.median(seconds)) for seconds in times], results
