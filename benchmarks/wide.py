"""Fits of wide data: few rows for their features, many of the columns one-hot.

CPU seconds on one thread, against a peer of scikit-learn on the same rows in the same run. The peer of a Student-t mixture is a
Gaussian mixture. One-hot rows have 12 numeric columns and seven categories of seven levels, standardised, so that columns depend
on each other. With 20 rows and 60 features, and with more, the data do not determine a covariance matrix.

    python benchmarks/wide.py
"""

import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from marmix import MARGaussianMixture, MARLogisticRegression, MARStudentMixture


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


PEERS = {
    "logistic": LogisticRegression(),
    "tied": GaussianMixture(2, covariance_type="tied"),
    "full": GaussianMixture(2, covariance_type="full"),
    "diag": GaussianMixture(2, covariance_type="diag"),
}


def cases():
    """Names, rows, models by name of their peers."""
    logistic = {"logistic": MARLogisticRegression()}
    mixtures = {kind: MARGaussianMixture(covariance_type=kind) for kind in ("tied", "full", "diag")}
    student = {"tied": MARStudentMixture()}
    yield "one-hot", one_hot(600, np.random.default_rng(0)), [{kind: mixtures[kind]} for kind in ("full", "tied")]
    yield "numeric", numeric(1000, 200, np.random.default_rng(1)), [logistic, {"tied": mixtures["tied"]}, student]
    models = [logistic, *({kind: mixtures[kind]} for kind in mixtures), student]
    yield "numeric", numeric(20, 60, np.random.default_rng(2)), models
    yield "numeric", numeric(100, 3000, np.random.default_rng(3)), [logistic, {"diag": mixtures["diag"]}]
    yield "numeric", numeric(500, 20_000, np.random.default_rng(4)), [logistic]


def main():
    warnings.simplefilter("ignore")
    print("| data | rows | model | seconds | passes | converged | peer | its seconds | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for name, (X, y), models in cases():
            for kind, model in (item for one in models for item in one.items()):
                peer, labelled = clone(PEERS[kind]), y >= 0
                begin = time.process_time()
                model.fit(X, y)
                middle = time.process_time()
                peer.fit(*((X[labelled], y[labelled]) if kind == "logistic" else (X,)))
                ours, theirs = middle - begin, time.process_time() - middle
                words = type(model).__name__ + ("" if kind == "logistic" else f", {kind}")
                cells = [name, f"{len(X)} x {X.shape[1]}", words, f"{ours:.2f}", model.n_passes_, model.converged_]
                cells += [type(peer).__name__, f"{theirs:.3f}", f"{ours / theirs:.1f}"]
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
