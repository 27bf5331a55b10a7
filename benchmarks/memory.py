"""Peak memory of a fit beside the user's own array, in a process of its own.

python benchmarks/memory.py [--rows 4000000] [--features 8]
"""

import argparse
import json
import subprocess
import sys

MEASURE = """
import json, resource, sys, warnings
import numpy as np
from marmix import MARGaussianMixture
n, d = int(sys.argv[1]), int(sys.argv[2])
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = np.empty((n, d))
for a in range(0, n, 100_000):
    X[a : a + 100_000] = rng.normal(size=X[a : a + 100_000].shape)
y = rng.integers(-1, 2, size=n, dtype=np.int8)
MARGaussianMixture().fit(X[:2000], y[:2000])  # load what is loaded lazily
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
paper = {"covariance_type": "full", "link": "aranda-ordaz", "measure": "margin"}
MARGaussianMixture(max_iter=3, **paper | json.loads(sys.argv[3])).fit(X, y)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"X": X.nbytes / 2**20, "beside": after - before}))
"""


def beside(n, d, **options):
    """Megabytes of X, and megabytes at the peak of a fit beside X."""
    command = [sys.executable, "-c", MEASURE, str(n), str(d), json.dumps(options)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout)
    return answer["X"], answer["beside"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--features", type=int, default=8)
    args = parser.parse_args()
    print("| rows | X, MB | peak beside X, MB | copies of X | beyond one copy, MB |")
    print("|---|---|---|---|---|")
    for n in (args.rows // 4, args.rows // 2, args.rows):
        x, extra = beside(n, args.features)
        print(f"| {n:,} | {x:.0f} | {extra:.0f} | {extra / x:.2f} | {extra - x:.0f} |", flush=True)


if __name__ == "__main__":
    main()
