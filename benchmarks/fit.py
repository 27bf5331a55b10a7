"""How long does a fit take? Times of whole fits, and of those of other packages on the same rows.

    python benchmarks/fit.py [mixture] [--repeats 15] [--threads 1]
    python benchmarks/fit.py wide
    python benchmarks/fit.py average [--rows 600 3000]
    python benchmarks/fit.py boosting [--rows 1000 3000 10000]

- mixture (a minute): `MARGaussianMixture` with the default settings and with those of the paper (full covariances, estimated
  shape of the link) against scikit-learn's `GaussianMixture(2)`, interleaved, medians. MAGIC is used where `MARMIX_DATA` holds
  `magic04.data`; its labels are hidden by the cross-fitted posterior of gradient boosting.
- wide (20 seconds): few rows for their features, many of the columns one-hot: 12 numeric columns and seven categories of seven
  levels, standardised, so that columns depend on each other. With 20 rows and 60 features, and with more, the data do not
  determine a covariance matrix. CPU seconds on one thread; the peer of a Student-t mixture is a Gaussian mixture.
- average (half a minute): `MARClassifierCV()` on rows whose hard labels are hidden (a forest's out-of-fold entropy says what is
  hard), against a random forest of the labelled rows: three folds and a fit, as a user would look at it first. CPU seconds.
- boosting (10 seconds): `MARBoostingClassifier` with rounds and weight chosen, against LightGBM on the labelled rows with its
  rounds, or its rounds and leaves, chosen by five folds. CPU seconds on one thread, ten features, four leaves.
"""

import time
import warnings

import numpy as np
from common import rows, tables
from common.timing import interleaved
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.datasets import hide_labels

PAPER = {"covariance_type": "full", "link": "aranda-ordaz", "measure": "margin"}


def magic():
    """Four features of MAGIC with 70 % of the labels hidden, in their own units and standardised."""
    X, y = rows.telescope(("fAlpha", "fLength", "fM3Long", "fSize"))
    tau = cross_val_predict(HistGradientBoostingClassifier(random_state=0), X, y, method="predict_proba")
    z = hide_labels(y, tau, rate=0.7, random_state=0).target
    return [("MAGIC, its own units", X, z), ("MAGIC, standardised", (X - X.mean(axis=0)) / X.std(axis=0), z)]


def mixture(report, args):
    """The Gaussian mixture against that of scikit-learn."""
    data = [("two Gaussians", *rows.two_gaussians(n, d)) for n, d in ((200, 2), (19_020, 4), (1_000_000, 4))]
    data += magic() if rows.telescope() else []
    columns = {"model: data": "", "rows": "", "marmix, ms": ".1f", "full passes": "", "GaussianMixture(2), ms": ".1f"}
    columns |= {"its iterations": "", "ratio": ".2f"}
    ignored = ["marmix, ms", "GaussianMixture(2), ms", "its iterations"]
    table = report.table("mixture", columns, keys=2, within=0.5, ignored=ignored)
    with threadpool_limits(args.threads):
        for model, settings in (("default", {}), ("the paper's", PAPER)):
            for name, X, y in data:
                fits = [
                    lambda X=X, y=y, settings=settings: MARGaussianMixture(**settings).fit(X, y),
                    lambda X=X: GaussianMixture(2).fit(X),
                ]
                repeats = args.repeats if len(X) < 100_000 else max(3, args.repeats // 5)
                (a, b), (ours, theirs) = interleaved(fits, repeats)
                size = f"{len(X):,} x {X.shape[1]}"
                table.add(f"{model}: {name}", size, 1e3 * a, ours.n_passes_, 1e3 * b, theirs.n_iter_, a / b)


# wide data


def partially_labelled(X, y, direction, rng):
    """Standardised features, and labels that are missing more often where the classes overlap."""
    distance = np.abs(direction - np.median(direction))
    missing = rng.random(len(y)) < 1.0 / (1.0 + np.exp(6.0 * distance - 2.2))
    missing[np.concatenate([np.flatnonzero(y == k)[:2] for k in (0, 1)])] = False
    return StandardScaler().fit_transform(X), np.where(missing, -1, y)


def one_hot(n, seed):
    """Numeric columns in which two classes differ, and categories in which they do not."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    numbers = rng.normal(size=(n, 12)) + 0.5 * y[:, None]
    categories = [np.eye(7)[rng.integers(7, size=n)] for _ in range(7)]
    return partially_labelled(np.hstack([numbers, *categories]), y, numbers.mean(axis=1), rng)


def numeric(n, d, seed):
    """Two Gaussian classes of d features, four of which differ."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, :4] += y[:, None]
    return partially_labelled(X, y, X[:, :4].mean(axis=1), rng)


LOGISTIC = ("MARLogisticRegression", MARLogisticRegression(), LogisticRegression())
TIED, FULL, DIAG = (
    (f"MARGaussianMixture, {kind}", MARGaussianMixture(covariance_type=kind), GaussianMixture(2, covariance_type=kind))
    for kind in ("tied", "full", "diag")
)
STUDENT = ("MARStudentMixture, tied", MARStudentMixture(), TIED[2])


def wide(report, args):
    """Fits of wide data against scikit-learn's."""
    cases = [("one-hot", one_hot(600, 0), [FULL, TIED]), ("numeric", numeric(1000, 200, 1), [LOGISTIC, TIED, STUDENT])]
    cases += [("numeric", numeric(20, 60, 2), [LOGISTIC, TIED, FULL, DIAG, STUDENT])]
    cases += [("numeric", numeric(100, 3000, 3), [LOGISTIC, DIAG]), ("numeric", numeric(500, 20_000, 4), [LOGISTIC])]
    columns = {"data": "", "rows": "", "model": "", "seconds": ".2f", "passes": "", "converged": "", "peer": ""}
    columns |= {"its seconds": ".3f", "ratio": ".1f"}
    table = report.table("wide", columns, keys=3, within=1.0, ignored=["seconds", "its seconds"])
    with threadpool_limits(1):
        for name, (X, y), models in cases:
            for words, model, peer in models:
                peer, labelled = clone(peer), y >= 0
                theirs = (X[labelled], y[labelled]) if isinstance(peer, LogisticRegression) else (X,)
                fits = [lambda m=model, X=X, y=y: m.fit(X, y), lambda p=peer, rows=theirs: p.fit(*rows)]
                (a, b), _ = interleaved(fits, clock=time.process_time)
                size = f"{len(X)} x {X.shape[1]}"
                cells = [a, model.n_passes_, str(model.converged_), type(peer).__name__, b, a / b]
                table.add(name, size, words, *cells)


# the average of all candidates


SHAPES = ((3000, 57, 2, 0.7), (600, 61, 2, 0.7), (720, 40, 12, 0.5), (20_000, 10, 2, 0.7))


def hard_rows(n, d, classes, rate):
    """Simulated rows, the labels of hard ones hidden."""
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


def average(report, args):
    """`MARClassifierCV` against a random forest in three folds."""
    columns = {"rows": ",", "features": "", "classes": "", "labels": ",", "MARClassifierCV, s": ".1f"}
    columns |= {"random forest, s": ".1f", "ratio": ".1f"}
    table = report.table("average", columns, keys=3, within=0.5, ignored=["MARClassifierCV, s", "random forest, s"])
    for n, d, classes, rate in (shape for shape in SHAPES if not args.rows or shape[0] in args.rows):
        X, y = hard_rows(n, d, classes, rate)
        forest, labelled = RandomForestClassifier(random_state=0), y >= 0

        def peer(X=X[labelled], y=y[labelled], forest=forest):
            cross_val_predict(forest, X, y, cv=3, method="predict_proba")
            forest.fit(X, y)

        with threadpool_limits(1):
            (b, a), _ = interleaved([peer, lambda X=X, y=y: MARClassifierCV().fit(X, y)], clock=time.process_time)
        table.add(n, d, classes, labelled.sum(), a, b, a / b)


# boosting


def tuned(X, y, sizes):
    """LightGBM with leaves and rounds by five folds."""
    import lightgbm

    best = np.inf
    for size in sizes:
        params = rows.TREES | {
            "objective": "binary",
            "metric": "binary_logloss",
            "num_leaves": size,
            "max_delta_step": 0.0,
        }
        stop = lightgbm.early_stopping(30, verbose=False)
        data = lightgbm.Dataset(X, y, params=params)
        losses = lightgbm.cv(params, data, 500, nfold=5, seed=0, callbacks=[stop])["valid binary_logloss-mean"]
        if losses[-1] < best:
            best, rounds, chosen = losses[-1], len(losses), params
    return lightgbm.train(chosen, lightgbm.Dataset(X, y), rounds)


def boosting(report, args):
    """`MARBoostingClassifier` against tuned LightGBM."""
    columns = {"rows": ",", "labels": ",", "ours, s": ".2f", "LightGBM, rounds tuned, s": ".2f", "ratio": ".1f"}
    columns |= {"rounds and leaves tuned, s": ".2f", "ratio ": ".1f"}
    ignored = ["ours, s", "LightGBM, rounds tuned, s", "rounds and leaves tuned, s"]
    table = report.table("boosting", columns, within=0.5, ignored=ignored)
    for n in args.rows or (1000, 3000, 10_000):
        X, y, _ = rows.curved(n)
        known = X[y >= 0], y[y >= 0]
        fits = [lambda X=X, y=y: MARBoostingClassifier(n_jobs=1).fit(X, y)]
        fits += [lambda known=known, sizes=sizes: tuned(*known, sizes) for sizes in ((4,), (4, 8, 16))]
        with threadpool_limits(1):
            (a, b, c), _ = interleaved(fits, clock=time.process_time)
        table.add(n, len(known[1]), a, b, a / b, c, a / c)


def main():
    parser = tables.parser_of(__doc__)
    sections = {"mixture": mixture, "wide": wide, "average": average, "boosting": boosting}
    parser.add_argument("section", nargs="?", choices=list(sections), default="mixture")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, help="threads of the linear algebra and of k-means")
    parser.add_argument("--rows", type=int, nargs="+", help="numbers of rows")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    report = tables.Report()
    sections[args.section](report, args)
    report.write(args.json)


if __name__ == "__main__":
    main()
