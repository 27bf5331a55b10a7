"""How long `MARClassifierCV()` takes, against a cross-validated random forest of the labelled rows.

Simulated rows of several shapes, labels of hard rows hidden (a forest's out-of-fold entropy decides what is hard). The peer is
scikit-learn's random forest: three folds and a fit, as a user would look at it first.

    python benchmarks/choice.py [--rows 600 3000]
"""

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from marmix import MARClassifierCV

SHAPES = ((3000, 57, 2, 0.7), (600, 61, 2, 0.7), (720, 40, 12, 0.5), (20_000, 10, 2, 0.7))


def rows(n, d, classes, rate):
    X, y = make_classification(
        n, d, n_informative=min(d, 15) // 2 + 3, n_classes=classes, class_sep=1.5, flip_y=0.1, random_state=0
    )
    forest = RandomForestClassifier(100, min_samples_leaf=2, random_state=0)
    p = np.maximum(cross_val_predict(forest, X, y, cv=3, method="predict_proba"), 1e-9)
    hard = -6.0 * (p * np.log(p)).sum(axis=1) / np.log(classes)
    level = brentq(lambda a: expit(a + hard).mean() - rate, -50, 50)
    missing = np.random.default_rng(0).uniform(size=n) < expit(level + hard)
    for k in range(classes):
        missing[np.flatnonzero(y == k)[:3]] = False
    return X, np.where(missing, -1, y)


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [shape[0] for shape in SHAPES]
    parser.add_argument("--rows", type=int, nargs="+", choices=sizes, default=sizes, help="shapes with these numbers")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| rows | features | classes | labels | MARClassifierCV, s | random forest, s | ratio |\n|---|---|---|---|---|---|---|"
    )
    for n, d, classes, rate in (shape for shape in SHAPES if shape[0] in args.rows):
        X, y = rows(n, d, classes, rate)
        labelled = y >= 0
        forest = RandomForestClassifier(random_state=0)

        def peer(X=X[labelled], y=y[labelled], forest=forest):
            cross_val_predict(forest, X, y, cv=3, method="predict_proba")
            forest.fit(X, y)

        theirs, ours = seconds(peer), seconds(lambda X=X, y=y: MARClassifierCV().fit(X, y))
        print(
            f"| {n:,} | {d} | {classes} | {labelled.sum():,} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
