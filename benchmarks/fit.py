"""A whole fit, with the default settings and with those of the paper, against GaussianMixture(2).fit.

The paper's model has full covariances and an estimated shape of the link.

The same rows, scikit-learn's defaults, interleaved, medians. The MAGIC rows are used where `MARMIX_SHARED` (its `data` folder),
`MARMIX_DATA` or the cache holds `magic04.data`; their labels are hidden by the cross-fitted posterior of gradient boosting.

    python benchmarks/fit.py [--repeats 15] [--threads N]
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

from marmix import MARGaussianMixture
from marmix.datasets import hide_labels
from paper.datasets import load_magic

PAPER = {"covariance_type": "full", "link": "aranda-ordaz", "measure": "margin"}


def simulated(n, d, seed=0):
    """Two Gaussians with means two standard deviations apart, 70 % of the labels missing, hard rows first."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2.0 * y - 1.0
    tau = expit(np.outer(X[:, 0], [-2.0, 2.0]))
    return X, hide_labels(y, tau, rate=0.7, random_state=rng, return_y=True)


def data_home(name):
    """`MARMIX_SHARED`'s data folder if that file is there; else None, the loaders' own choice."""
    folder = Path(os.environ.get("MARMIX_SHARED", "/nowhere")) / "data"
    return folder if (folder / name).exists() else None


def telescope(columns=None):
    """Features and classes (1 = gamma) of MAGIC, or None where the file is not at hand."""
    try:
        X, y = load_magic(
            columns=columns, data_home=data_home("magic04.data"), download_if_missing=False, return_X_y=True
        )
    except OSError:
        return None
    return X, 1 - y


def magic(columns=("fAlpha", "fLength", "fM3Long", "fSize")):
    """Rows of MAGIC with 70 % of the labels hidden, or None where the file is not at hand."""
    rows = telescope(columns)
    if rows is None:
        return None
    X, y = rows
    tau = cross_val_predict(HistGradientBoostingClassifier(random_state=0), X, y, method="predict_proba")
    return X, hide_labels(y, tau, rate=0.7, random_state=0, return_y=True)


def compare(name, X, y, repeats, **settings):
    ours, theirs = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        clf = MARGaussianMixture(**settings).fit(X, y)
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
    print("| model: data | rows | marmix, ms | full passes | GaussianMixture(2), ms | its iterations | ratio |")
    print("|---|---|---|---|---|---|---|")
    rows = magic()
    data = [
        ("two Gaussians", *simulated(200, 2), args.repeats),
        ("two Gaussians", *simulated(19_020, 4), args.repeats),
        ("two Gaussians", *simulated(1_000_000, 4), max(3, args.repeats // 5)),
    ]
    if rows is not None:
        X, y = rows
        data += [
            ("MAGIC, its own units", X, y, args.repeats),
            ("MAGIC, standardised", (X - X.mean(axis=0)) / X.std(axis=0), y, args.repeats),
        ]
    with threadpool_limits(args.threads):
        for model, settings in (("default", {}), ("the paper's", PAPER)):
            for name, *setting in data:
                compare(f"{model}: {name}", *setting, **settings)
    if rows is None:
        print("\nMAGIC left out: set MARMIX_DATA to the folder of magic04.data.")


if __name__ == "__main__":
    main()
