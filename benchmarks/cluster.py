"""Overhead of a Dask cluster: one pass by two worker processes on this machine against the same pass in this process.

The rows are few, so that a pass is almost nothing but messages; then many, so that it is almost nothing but work. Estimates of
both fits are compared.

    python benchmarks/cluster.py [--rows 1000000] [--repeats 50]
"""

import argparse
import time
import warnings

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from marmix import MARGaussianMixture, Mechanism
from marmix.core.covariance import structure
from marmix.core.gaussian import GaussianScores
from marmix.engines import HostRows
from marmix.engines.cluster import ClusterRows
from marmix.fitting import Objective
from marmix.fitting.starts import frame_of, labelled_start


def simulated(n, d=4, seed=0):
    """Two normal classes, labels missing with logit 2.5 - 4 margin."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2.0 * y - 1.0
    missing = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(4.0 * np.tanh(X[:, 0]) ** 2 - 2.5))
    return X, np.where(missing, -1, y)


def pass_of(rows):
    """A function that makes one pass at the starting values."""
    model = GaussianScores(structure("full", 4), [1, 1], 1e-6)
    frame = frame_of(model, *rows.moments.overall(), rows.moments.labelled, singular=False)
    objective = Objective(rows.engine(frame), model)
    theta = labelled_start(model, frame, rows.moments.labelled)
    mechanism = Mechanism(alpha=(1.0, -3.0), shape=0.7, free_shape=True)
    return lambda: objective.sums(theta, mechanism)


def milliseconds(function, repeats):
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return float(np.median(times)) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeats", type=int, default=50)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| rows | partitions | a pass here, ms | a pass on two workers, ms | overhead, ms | estimates differ by at most |"
    )
    print("|---|---|---|---|---|---|")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        for n, partitions in ((10_000, 2), (10_000, 20), (int(args.rows), 8)):
            X, y = simulated(n)
            lazy = da.from_array(X, chunks=(-(-n // partitions), 4)), da.from_array(y, chunks=-(-n // partitions))
            here = pass_of(HostRows(X).with_labels(y))
            there = pass_of(ClusterRows(lazy[0]).with_labels(lazy[1]))
            there()
            alone, shared = milliseconds(here, args.repeats), milliseconds(there, args.repeats)
            mine, other = (
                MARGaussianMixture(covariance_type="full", measure="margin").fit(*rows) for rows in ((X, y), lazy)
            )
            apart = np.max(np.abs(other.means_ / mine.means_ - 1.0))
            overhead = f"{shared - alone:.1f}" if n <= 10_000 else f"{shared - alone / 2:.1f} beyond a half"
            row = [f"{n:,}", partitions, f"{alone:.1f}", f"{shared:.1f}", overhead, f"{apart:.0e}"]
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
