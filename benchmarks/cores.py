"""One value-and-gradient pass with one thread and with all that a fit would use, on the same rows; both give the same bits.

python benchmarks/cores.py [--rows 1000000] [--repeats 7]
"""

import argparse
import time

import numpy as np
from peers import simulated

from marmix import Mechanism
from marmix.covariance import structure
from marmix.engines import NumpyEngine
from marmix.moments import group_moments
from marmix.scores import GaussianScores
from marmix.start import frame_of, labelled_start
from marmix.workers import available, one_thread


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    n, threads = int(args.rows), available()
    mechanism = Mechanism(alpha=(1.0, -3.0), shape=0.7, free_shape=True)
    print(f"{n:,} rows, medians of {args.repeats} interleaved passes\n")
    print(f"| features | classes | one thread, ns/row | {threads} threads, ns/row | times as fast | same bits |")
    print("|---|---|---|---|---|---|")
    for d, classes in ((4, 2), (4, 5), (10, 2), (20, 2), (20, 5)):
        X, z = simulated(n, d, classes)
        moments = group_moments(X, z, None, classes)
        model = GaussianScores(structure("full", d), [1] * classes, 1e-6)
        frame = frame_of(model, *moments.overall(), moments.labelled, singular=False)
        theta = labelled_start(model, frame, moments.labelled)
        engine = NumpyEngine(X, z, None, frame, model)
        times, sums = {1: [], threads: []}, {}
        with one_thread():
            for _ in range(args.repeats + 1):
                for workers, seconds in times.items():
                    engine.workers = workers
                    begin = time.perf_counter()
                    sums[workers] = engine.sums(theta, mechanism)
                    seconds.append(time.perf_counter() - begin)
        one, all_of_them = (float(np.median(times[workers][1:])) / n * 1e9 for workers in (1, threads))
        same = all(np.array_equal(sums[w].moments.by_component, sums[1].moments.by_component) for w in times)
        row = [d, classes, f"{one:.0f}", f"{all_of_them:.0f}", f"{one / all_of_them:.2f}", "yes" if same else "NO"]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
