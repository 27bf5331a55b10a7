"""How time and memory of a fit grow with the rows: a `.npy` file of ten features, labels in another, all cores.

The complete model: full covariances, Aranda-Ordaz, shape estimated. Each fit has its own process; memory is the peak of the
resident set above that of the interpreter with marmix loaded (Linux). The figure goes to `--figure`.

    python benchmarks/growth.py [--repeats 3] [--figure docs/performance/growth.png] [--folder FOLDER]
    python benchmarks/growth.py --rows 200000000 --repeats 1      a file of 16 GB
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RUN = r"""
import json, re, sys, time, warnings
import numpy as np
from marmix import MARGaussianMixture
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
MARGaussianMixture().fit(rng.normal(size=(3000, 3)), rng.integers(-1, 2, size=3000))  # load what is loaded lazily
def status(name):
    return int(re.search(name + r":\s+(\d+) kB", open("/proc/self/status").read())[1]) / 1024
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
begin = time.perf_counter()
fit = MARGaussianMixture(covariance_type="full", link="aranda-ordaz", measure="margin").fit(sys.argv[1], sys.argv[2])
seconds = time.perf_counter() - begin
grown = status("VmHWM") - before
print(json.dumps([seconds, grown, fit.n_passes_, bool(fit.converged_)]))
"""


def write(folder, n, d=10, seed=0):
    """Paths of features and labels: two normal classes, labels missing with logit 2.5 - 4 margin."""
    paths = folder / "X.npy", folder / "y.npy"
    X = np.lib.format.open_memmap(paths[0], mode="w+", dtype=np.float64, shape=(n, d))
    labels = np.lib.format.open_memmap(paths[1], mode="w+", dtype=np.int8, shape=(n,))
    rng = np.random.default_rng(seed)
    for a in range(0, n, 10**6):
        m = min(10**6, n - a)
        y = rng.integers(2, size=m)
        x = rng.normal(size=(m, d))
        x[:, 0] += 2.0 * y - 1.0
        missing = rng.uniform(size=m) < 1.0 / (1.0 + np.exp(4.0 * np.tanh(x[:, 0]) ** 2 - 2.5))
        X[a : a + m], labels[a : a + m] = x, np.where(missing, -1, y)
    return paths


def measured(paths, repeats):
    """Median seconds, largest growth of memory in MB, passes, whether all converged."""
    command = [sys.executable, "-c", RUN, *map(str, paths)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout)
        for _ in range(repeats)
    ]
    seconds, grown, passes, converged = zip(*runs, strict=True)
    return float(np.median(seconds)), max(grown), passes[0], all(converged)


def draw(path, found):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n, seconds, grown = (np.array(column, dtype=float) for column in zip(*[row[:3] for row in found], strict=True))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.loglog(n, seconds, "o-", color="#1f5f8b", label="marmix, whole fit")
    left.loglog(n, seconds[0] * n / n[0], "--", color="0.6", label="proportional to the rows")
    left.set(xlabel="rows", ylabel="seconds")
    left.legend(frameon=False)
    right.semilogx(n, grown, "o-", color="#1f5f8b", label="peak memory of the fit")
    right.semilogx(n, n * 80 / 2**20, "--", color="0.6", label="size of the file")
    right.set(xlabel="rows", ylabel="MB", ylim=(0, 1.15 * n[-1] * 80 / 2**20))
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5, 3e5, 1e6, 3e6, 1e7])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--figure", type=Path, default=None, help="where to draw it; needs the extra plot")
    parser.add_argument("--folder", type=Path, default=None, help="where the files are written, and removed")
    args = parser.parse_args()
    print(
        "| rows | file, MB | fit, s | ns/row | full passes | converged | peak memory, MB |\n|---|---|---|---|---|---|---|"
    )
    found = []
    for n in map(int, args.rows):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            seconds, grown, passes, converged = measured(write(Path(folder), n), args.repeats)
        found.append((n, seconds, grown))
        row = [
            f"{n:,}",
            f"{n * 80 / 2**20:.0f}",
            f"{seconds:.2f}",
            f"{seconds / n * 1e9:.0f}",
            passes,
            converged,
            f"{grown:.0f}",
        ]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
    if args.figure is not None:
        draw(args.figure, found)


if __name__ == "__main__":
    main()
