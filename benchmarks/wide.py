"""Fits of wide data: few rows for their features, many of the columns one-hot.

CPU seconds on one thread, against a peer of scikit-learn on the same rows in the same run. The rows of the first two lines
have 12 numeric columns and seven categories of seven levels, one-hot and standardised, so that columns depend on each other.

    python benchmarks/wide.py
"""

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from marmix import MARGaussianMixture, MARLogisticRegression


def partially_labelled(X, y, direction, rng):
    """Standardised features, and labels that are missing more often where the classes overlap."""
    distance = np.abs(direction - np.median(direction))
    missing = rng.random(len(y)) < 1.0 / (1.0 + np.exp(6.0 * distance - 2.2))
    missing[np.concatenate([np.flatnonzero(y == k)[:2] for k in (0, 1)])] = False
    return StandardScaler().fit_transform(X), np.where(missing, -1, y)


def one_hot(n, rng):
    """Numeric columns in which two classes differ, and categories in which they do not."""
    y = rng.integers(2, size=n)
    numbers = rng.normal(size=(n, 12)) + 0.5 * y[:, None]
    categories = [np.eye(7)[rng.integers(7, size=n)] for _ in range(7)]
    return partially_labelled(np.hstack([numbers, *categories]), y, numbers.mean(axis=1), rng)


def numeric(n, d, rng):
    """Two Gaussian classes of d features, four of which differ."""
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, :4] += y[:, None]
    return partially_labelled(X, y, X[:, :4].mean(axis=1), rng)


def main():
    warnings.simplefilter("ignore")
    mixtures = GaussianMixture(2), GaussianMixture(2, covariance_type="tied")
    cases = [
        ("one-hot", one_hot(600, np.random.default_rng(0)), MARGaussianMixture(covariance_type="full"), mixtures[0]),
        ("one-hot", one_hot(600, np.random.default_rng(0)), MARGaussianMixture(), mixtures[1]),
        ("numeric", numeric(1000, 200, np.random.default_rng(1)), MARGaussianMixture(), mixtures[1]),
        ("numeric", numeric(20, 60, np.random.default_rng(2)), MARGaussianMixture(), mixtures[1]),
        ("numeric", numeric(100, 3000, np.random.default_rng(3)), MARLogisticRegression(), LogisticRegression()),
    ]
    print("| data | rows | model | seconds | passes | converged | peer | its seconds |")
    print("|---|---|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for name, (X, y), model, peer in cases:
            begin = time.process_time()
            model.fit(X, y)
            middle = time.process_time()
            labelled = y >= 0
            peer.fit(*((X[labelled], y[labelled]) if isinstance(peer, LogisticRegression) else (X,)))
            end = time.process_time()
            kind = getattr(model, "covariance_type", "logistic")
            cells = [name, f"{len(X)} x {X.shape[1]}", kind, f"{middle - begin:.2f}", model.n_passes_, model.converged_]
            print("| " + " | ".join(map(str, [*cells, type(peer).__name__, f"{end - middle:.2f}"])) + " |", flush=True)


if __name__ == "__main__":
    main()
