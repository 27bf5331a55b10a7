"""One value-and-gradient pass with one thread and with several, on the same rows; all give the same bits.

python benchmarks/cores.py [--rows 1000000] [--repeats 5] [--threads 1 2 4 8 16]
"""

import argparse
import time

import numpy as np
from peers import simulated

from marmix import Mechanism
from marmix.core.covariance import structure
from marmix.core.gaussian import GaussianScores
from marmix.core.moments import group_moments
from marmix.core.workers import available, one_thread
from marmix.engines import NumpyEngine
from marmix.fitting import Objective
from marmix.fitting.starts import frame_of, labelled_start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, available()}))
    args = parser.parse_args()
    n = int(args.rows)
    mechanism = Mechanism(alpha=(1.0, -3.0), shape=0.7, free_shape=True)
    print(f"{n:,} rows, medians of {args.repeats} interleaved passes\n")
    print("| features | classes | " + " | ".join(f"{t} thread(s), ns/row" for t in args.threads) + " | same bits |")
    print("|---|---|" + "---|" * len(args.threads) + "---|")
    for d, classes in ((4, 2), (4, 5), (10, 2), (20, 2), (20, 5)):
        X, z = simulated(n, d, classes)
        moments = group_moments(X, z, None, classes)
        model = GaussianScores(structure("full", d), [1] * classes, 1e-6)
        frame = frame_of(model, *moments.overall(), moments.labelled, singular=False)
        theta = labelled_start(model, frame, moments.labelled)
        objective = Objective(NumpyEngine(X, z, None, classes, frame), model)
        times, sums = {threads: [] for threads in args.threads}, {}
        with one_thread():
            for _ in range(args.repeats + 1):
                for workers, seconds in times.items():
                    objective.engine.workers = workers
                    begin = time.perf_counter()
                    sums[workers] = objective.sums(theta, mechanism)
                    seconds.append(time.perf_counter() - begin)
        first = sums[args.threads[0]].moments.by_component
        same = all(np.array_equal(found.moments.by_component, first) for found in sums.values())
        row = [
            d,
            classes,
            *(f"{np.median(seconds[1:]) / n * 1e9:.0f}" for seconds in times.values()),
            "yes" if same else "NO",
        ]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
