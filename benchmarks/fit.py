"""A whole fit of the Aranda-Ordaz model (shape estimated, full covariances) against GaussianMixture(2).fit.

The same rows, scikit-learn's defaults, interleaved, medians. The MAGIC rows are used where `MARMIX_SHARED` (its `data` folder)
or `MARMIX_DATA` holds `magic04.data`; their labels are hidden by the cross-fitted posterior of gradient boosting.

    python benchmarks/fit.py [--repeats 15] [--threads N]
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

from marmix import MARGaussianMixture


def hide(y, posterior, rate, rng):
    """Labels without those lost: the closer the two posteriors, the likelier (logit in the squared margin, slope -6)."""
    margin = (2.0 * posterior - 1.0) ** 2

    def q(level):
        return 1.0 / (1.0 + np.exp(6.0 * margin - level))

    level = brentq(lambda at: q(at).mean() - rate, -50.0, 50.0)
    return np.where(rng.uniform(size=len(y)) < q(level), -1, y)


def simulated(n, d, seed=0):
    """Two Gaussians with means two standard deviations apart, 70 % of the labels missing, hard rows first."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2.0 * y - 1.0
    return X, hide(y, 1.0 / (1.0 + np.exp(-2.0 * X[:, 0])), 0.7, rng)


def data_file(name):
    """Where that file is: in `MARMIX_SHARED`'s data folder or `MARMIX_DATA`; None where it is in neither."""
    folders = [Path(os.environ["MARMIX_SHARED"]) / "data"] if "MARMIX_SHARED" in os.environ else []
    folders += [Path(os.environ["MARMIX_DATA"])] if "MARMIX_DATA" in os.environ else []
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def magic(columns=(8, 0, 6, 2)):
    """Rows of the MAGIC telescope (fAlpha, fLength, fM3Long, fSize), or None where the file is not at hand."""
    file = data_file("magic04.data")
    if file is None:
        return None
    table = np.loadtxt(file, delimiter=",", dtype=str)
    X, y = table[:, list(columns)].astype(float), (table[:, 10] == "g").astype(int)
    posterior = cross_val_predict(HistGradientBoostingClassifier(random_state=0), X, y, method="predict_proba")
    return X, hide(y, posterior[:, 1], 0.7, np.random.default_rng(0))


def compare(name, X, y, repeats):
    ours, theirs = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        clf = MARGaussianMixture().fit(X, y)
        middle = time.perf_counter()
        mixture = GaussianMixture(2).fit(X)
        ours.append(middle - begin)
        theirs.append(time.perf_counter() - middle)
    a, b = np.median(ours) * 1e3, np.median(theirs) * 1e3
    row = [name, f"{len(X):,} x {X.shape[1]}", f"{a:.1f}", clf.n_passes_, f"{b:.1f}", mixture.n_iter_, f"{a / b:.2f}"]
    print("| " + " | ".join(map(str, row)) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, help="threads of the linear algebra and of k-means")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"medians of {args.repeats} interleaved runs, {args.threads} thread(s)\n")
    print("| data | rows | marmix, ms | full passes | GaussianMixture(2), ms | its iterations | ratio |")
    print("|---|---|---|---|---|---|---|")
    rows = magic()
    with threadpool_limits(args.threads):
        compare("two Gaussians", *simulated(200, 2), args.repeats)
        compare("two Gaussians", *simulated(19_020, 4), args.repeats)
        compare("two Gaussians", *simulated(1_000_000, 4), max(3, args.repeats // 5))
        if rows is None:
            print("\nMAGIC left out: set MARMIX_DATA to the folder of magic04.data.")
            return
        X, y = rows
        compare("MAGIC, its own units", X, y, args.repeats)
        compare("MAGIC, standardised", (X - X.mean(axis=0)) / X.std(axis=0), y, args.repeats)


if __name__ == "__main__":
    main()
