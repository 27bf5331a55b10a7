"""marmix and other tools for partially labelled data, on the same rows.

    pip install --no-deps cleanlab stepmix pulearn termcolor tqdm
    apt-get install r-base-core r-cran-mclust        # or install.packages("mclust") in R
    python benchmarks/tools.py --size small
    python benchmarks/tools.py --size full --out tools.jsonl

Tools that are not installed are left out, with a line that says so. `gmmsslm` is not run: its model is fitted by marmix.

**Rows.** tau denotes the true posteriors of simulated rows (two Gaussian classes, 4 features, centres 2 apart, 600 rows and
4000 fresh ones), and of real rows out-of-fold probabilities of a random forest that saw all labels.

- tumours, digits: `load_tumours`, `load_odd_digits`: 70 % of the labels hidden, hard rows first;
- MAGIC: 1500 rows of `magic04.data` (a local file: set MARMIX_DATA to its folder) and 4000 fresh ones, hidden likewise;
- boundary: Gaussian classes, 70 % hidden by `hide_labels`, hard rows first;
- random: Gaussian classes, 90 % hidden at random;
- moons: two half circles with noise 0.2 (`make_moons`), 95 % hidden at random;
- one-sided: Gaussian classes, 70 % hidden, the more so the more probable class 1 is (`measure="signed-margin"`);
- by class: Gaussian classes; 50 % of the labels of class 0 are hidden at random and 90 % of those of class 1;
- noise: Gaussian classes, 70 % hidden at random, and a fifth of the labels that are left are wrong;
- positives: Gaussian classes 4 apart, as Elkan and Noto's estimate needs classes that hardly overlap; only class 1 has labels,
  at random, with probability 0.4.

**Tools.** Every tool sees the same standardised features. Where a tool wraps a classifier, it has two lines: logistic regression
(C by cross-validation) and gradient boosting (`HistGradientBoostingClassifier`, rounds by cross-validation), tuned on the
labelled rows.

- labelled rows only: these two classifiers themselves, and a support vector machine with an RBF kernel (C and gamma by
  cross-validated AUC, probabilities by Platt's method);
- self-training: `SelfTrainingClassifier`, its default threshold;
- label propagation, label spreading: the kernel (5, 10 or 20 neighbours, or RBF with gamma 0.1/d, 1/d or 10/d) with the lowest
  log-loss of labelled rows, held out in 5 folds;
- weighting: labelled rows weighted by 1/(1 - q), at most 20; q, the probability of a missing label, is that of the same kind of
  classifier for the missing indicator, out of fold; "marmix's q" takes `missing_proba_` of marmix instead;
- cleanlab: `CleanLearning`, which removes labelled rows that look mislabelled; "marmix, then cleanlab" removes the label issues
  that `find_label_issues` sees in marmix's held-out probabilities, and fits marmix again;
- PU learning: `pulearn.ElkanotoPuClassifier`, class 1 positive, everything else unlabelled, a fifth of the rows held out; only in
  the settings for which it is made (by class, positives). Unlabelled rows get Elkan and Noto's probability of an unlabelled row,
  (1 - c)/c g/(1 - g) with g the probability of a label, fresh rows g/c;
- marmix, label term (by class): `MARGaussianMixture(delta="estimate")`, with the probabilities of unlabelled rows likewise;
- StepMix: Gaussian features and the label as an outcome that may be missing; diagonal, tied or full covariances and 2, 3, 4 or
  6 latent classes by BIC;
- mclust: `MclustSSC`, one Gaussian a class, covariances by BIC;
- gmmsslm's model: `MARGaussianMixture` with full covariances and `measure="log-entropy"`, or tied covariances and
  `measure="discriminant"`, by BIC.

The mixtures (StepMix, mclust, gmmsslm's model) get the digits as 8 principal components.

**Measures.** Log-loss and accuracy on the hidden labels, and on fresh rows where there are any. All probabilities are mixed with
a thousandth of equal ones, as some tools say 0. Means over seeds and standard errors; differences to marmix are paired.
Seconds are of one thread, tuning included (and the start of R), as a multiple of marmix's on the same rows, median over seeds and
settings.

Published tables use seeds from 0; anything that is tuned is tuned with `--first 1000`. Small takes five minutes on one core.
"""

import subprocess
import tempfile
import time
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import NamedTuple

import numpy as np
from common import rivals, tables
from common import rows as sources
from scipy import stats
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from marmix import MARClassifierCV, MARGaussianMixture
from marmix.datasets import hide_labels, load_odd_digits, load_tumours, make_mar_mixture

OURS = "marmix"
BASES = {"logistic": "logistic", "boosting": "HistGradientBoosting"}
KEYS = ("setting", "seed", "tool")
COMPONENTS, MANY = (
    8,
    20,
)  # principal components that mixtures see of more than so many features; 16 were worse, seed 1000
LARGEST_WEIGHT = 20.0


class Rows(NamedTuple):
    """Features, labels with -1 where missing and true labels of the rows of a fit, and the same of fresh rows, if any."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    fresh: np.ndarray
    fresh_truth: np.ndarray


# rows


def rows_of(X, y, truth):
    """Rows with standardised features; those beyond the labels are fresh, and columns that do not vary are left out."""
    n = len(y)
    varying = X[:n].std(axis=0) > 0.0
    X = StandardScaler().fit(X[:n, varying]).transform(X[:, varying])
    return Rows(X[:n], y, truth[:n], X[n:], truth[n:])


def bundled(load, seed):
    """Rows of one of marmix's own data sets."""
    bunch = load(random_state=seed)
    return rows_of(bunch.data, bunch.target, bunch.target_true)


def magic(seed):
    """Rows of MAGIC, hard ones unlabelled."""
    X, gamma = sources.telescope()
    order = np.random.default_rng(seed).permutation(len(gamma))[:5500]
    X, y = X[order], 1 - gamma[order]
    forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
    tau = cross_val_predict(forest, X[:1500], y[:1500], cv=5, method="predict_proba")
    return rows_of(X, hide_labels(y[:1500], tau, random_state=seed).target, y)


def gaussian(hide, seed, separation=2.0):
    """Two Gaussian classes; `hide(y, tau, rng)` returns the labels that are left."""
    bunch = make_mar_mixture(
        4600, n_features=4, distribution=("gaussian", {"separation": separation}), rate=0.0, random_state=seed
    )
    y = bunch.target_true
    return rows_of(bunch.data, hide(y[:600], bunch.posterior[:600], np.random.default_rng(seed)), y)


def moons(seed):
    """Two half circles, 95 % of the labels hidden at random."""
    X, y = make_moons(4600, noise=0.2, random_state=seed)
    return rows_of(X, hide_labels(y[:600], link=None, rate=0.95, at_least=2, random_state=seed).target, y)


def boundary(y, tau, rng, **options):
    return hide_labels(y, tau, random_state=rng, **options).target


def at_random(y, tau, rng):
    return hide_labels(y, link=None, rate=0.9, at_least=5, random_state=rng).target


def by_class(y, tau, rng):
    return np.where(rng.random(len(y)) < np.where(y == 1, 0.9, 0.5), -1, y)


def noisy(y, tau, rng):
    """Labels missing at random, a fifth of the others wrong."""
    wrong = np.where(rng.random(len(y)) < 0.2, 1 - y, y)
    return np.where(rng.random(len(y)) < 0.7, -1, wrong)


def positives(y, tau, rng):
    return np.where((y == 1) & (rng.random(len(y)) < 0.4), 1, -1)


SETTINGS = {
    "tumours": partial(bundled, load_tumours),
    "digits": partial(bundled, load_odd_digits),
    "MAGIC": magic,
    "boundary": partial(gaussian, boundary),
    "random": partial(gaussian, at_random),
    "moons": moons,
    "one-sided": partial(gaussian, partial(boundary, measure="signed-margin")),
    "by class": partial(gaussian, by_class),
    "noise": partial(gaussian, noisy),
    "positives": partial(gaussian, positives, separation=4.0),
}
SIZES = {"small": (("tumours", "boundary", "random", "by class", "positives"), 2), "full": (tuple(SETTINGS), 10)}


# tools: functions of the rows and of what is shared between tools. They return a function from features to probabilities, or two,
# for unlabelled rows of the fit and for fresh rows


class Shared:
    """What several tools use, computed once, with the seconds that it took."""

    def __init__(self, rows):
        self.rows, self.parts, self.seconds = rows, {}, {}

    def part(self, name, compute):
        if name not in self.parts:
            begin = time.perf_counter()
            self.parts[name] = compute()
            self.seconds[name] = time.perf_counter() - begin
        return self.parts[name]

    def base(self, kind):
        """A new classifier of this kind, tuned on the labelled rows."""
        rows, method = self.rows, BASES[kind]
        labelled = rows.y >= 0
        settings, _ = self.part(kind, lambda: rivals.tune(method, rows.X[labelled], rows.y[labelled]))
        return rivals.build(method, settings)

    def ours(self):
        """`MARClassifierCV`, fitted."""
        return self.part(OURS, lambda: MARClassifierCV().fit(self.rows.X, self.rows.y))


def fit_weighted(model, X, y, weight):
    """Fit a pipeline or a classifier with weights."""
    name = f"{model.steps[-1][0]}__sample_weight" if hasattr(model, "steps") else "sample_weight"
    return model.fit(X, y, **{name: weight})


def marmix_alone(rows, shared):
    return shared.ours().predict_proba


def with_label_term(rows, shared):
    clf = MARGaussianMixture(delta="estimate").fit(rows.X, rows.y)
    return lambda X: clf.model_.unlabelled_posterior(X).tau.T, clf.predict_proba


def labelled_only(kind, rows, shared):
    labelled = rows.y >= 0
    return shared.base(kind).fit(rows.X[labelled], rows.y[labelled]).predict_proba


def kernel_machine(rows, shared):
    """A support vector machine on the labelled rows; C and gamma by cross-validated AUC."""
    X, y, d = rows.X[rows.y >= 0], rows.y[rows.y >= 0], rows.X.shape[1]
    folds = rivals.folds_of(y)
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.1 / d, 0.3 / d, 1.0 / d, 3.0 / d]}
    search = GridSearchCV(SVC(), grid, scoring="roc_auc", cv=folds, refit=False).fit(X, y)
    return CalibratedClassifierCV(SVC(**search.best_params_), cv=folds, ensemble=False).fit(X, y).predict_proba


def self_training(kind, rows, shared):
    return SelfTrainingClassifier(shared.base(kind)).fit(rows.X, rows.y).predict_proba


def graph(family, rows, shared):
    """Label propagation or spreading, its kernel chosen by held-out labels."""
    d, labelled = rows.X.shape[1], np.flatnonzero(rows.y >= 0)
    kernels = [{"kernel": "knn", "n_neighbors": k} for k in (5, 10, 20)]
    kernels += [{"kernel": "rbf", "gamma": gamma / d} for gamma in (0.1, 1.0, 10.0)]
    folds, losses = rivals.folds_of(rows.y[labelled]), []
    for kernel in kernels:
        held_out = np.empty((len(labelled), 2))
        for _, test in folds.split(labelled, rows.y[labelled]):
            y = rows.y.copy()
            y[labelled[test]] = -1
            held_out[test] = proper(family(**kernel).fit(rows.X, y).label_distributions_[labelled[test]])
        losses.append(tables.log_losses(rows.y[labelled], held_out).mean())
    return family(**kernels[int(np.argmin(losses))]).fit(rows.X, rows.y).predict_proba


def weighting(kind, rows, shared):
    missing = rows.y < 0
    model = rivals.build(BASES[kind], {} if kind == "logistic" else {"max_iter": 50})
    q = cross_val_predict(model, rows.X, missing, cv=5, method="predict_proba")[:, 1]
    return weighted_fit(rows, shared.base(kind), q)


def weighting_by_marmix(kind, rows, shared):
    return weighted_fit(rows, shared.base(kind), shared.ours().missing_proba_)


def weighted_fit(rows, model, q):
    """Predictions of a model whose labelled rows have the weights 1/(1 - q)."""
    labelled = rows.y >= 0
    weight = 1.0 / np.maximum(1.0 - q[labelled], 1.0 / LARGEST_WEIGHT)
    return fit_weighted(model, rows.X[labelled], rows.y[labelled], weight / weight.mean()).predict_proba


def cleanlab_of(kind, rows, shared):
    from cleanlab.classification import CleanLearning

    labelled = rows.y >= 0
    learner = CleanLearning(shared.base(kind), seed=0, find_label_issues_kwargs={"n_jobs": 1})
    return learner.fit(rows.X[labelled], rows.y[labelled]).predict_proba


def marmix_then_cleanlab(rows, shared):
    from cleanlab.filter import find_label_issues

    labelled = np.flatnonzero(rows.y >= 0)
    issues = find_label_issues(rows.y[labelled], shared.ours().held_out_proba_[labelled], n_jobs=1)
    y = rows.y.copy()
    y[labelled[issues]] = -1
    return MARClassifierCV().fit(rows.X, y).predict_proba


def tuned_on_positives(kind, rows, shared):
    """A classifier of whether a row is a labelled positive."""
    y = (rows.y == 1).astype(int)
    settings, _ = shared.part(f"{kind}, positives", lambda: rivals.tune(BASES[kind], rows.X, y))
    return rivals.build(BASES[kind], settings), y


def positive_unlabelled(kind, rows, shared):
    from pulearn import ElkanotoPuClassifier

    base, y = tuned_on_positives(kind, rows, shared)
    model = ElkanotoPuClassifier(base, hold_out_ratio=0.2, random_state=0).fit(rows.X, y)

    def of_unlabelled(X):
        g = np.minimum(model.estimator.predict_proba(X)[:, 1], 1.0 - 1e-9)
        one = np.clip((1.0 - model.c) / model.c * g / (1.0 - g), 0.0, 1.0)
        return np.column_stack([1.0 - one, one])

    def of_any(X):
        one = np.clip(model.estimator.predict_proba(X)[:, 1] / model.c, 0.0, 1.0)
        return np.column_stack([1.0 - one, one])

    return of_unlabelled, of_any


def unlabelled_as_negative(kind, rows, shared):
    base, y = tuned_on_positives(kind, rows, shared)
    return base.fit(rows.X, y).predict_proba


def all_labels(kind, rows, shared):
    settings, _ = rivals.tune(BASES[kind], rows.X, rows.truth)
    return rivals.build(BASES[kind], settings).fit(rows.X, rows.truth).predict_proba


def reduced(rows):
    """The function that takes features to what mixtures see: principal components if there are many features."""
    return PCA(COMPONENTS).fit(rows.X).transform if rows.X.shape[1] > MANY else lambda X: X


def stepmix(rows, shared):
    from stepmix.stepmix import StepMix

    reduce = reduced(rows)
    X, y = reduce(rows.X), np.where(rows.y < 0, np.nan, rows.y)[:, None]
    best = None
    for covariance in ("gaussian_diag", "gaussian_tied", "gaussian_full"):
        for classes in (2, 3, 4, 6):
            model = StepMix(
                classes,
                measurement=covariance,
                structural="binary_nan",
                init_params="kmeans",
                n_init=2,
                abs_tol=1e-5,
                random_state=0,
                progress_bar=0,
            ).fit(X, y)
            bic = model.bic(X, y)
            if best is None or bic < best[0]:
                best = bic, model
    model = best[1]

    def proba(X):
        one = np.asarray(model.predict_proba_Y(reduce(X)))[:, -1]
        return np.column_stack([1.0 - one, one])

    return proba


MCLUST = """
suppressMessages(library(mclust))
folder <- commandArgs(TRUE)[1]
X <- as.matrix(read.csv(file.path(folder, "X.csv"), header = FALSE))
label <- scan(file.path(folder, "y.csv"), quiet = TRUE)
label[label < 0] <- NA
model <- MclustSSC(X, label, verbose = FALSE)
new <- as.matrix(read.csv(file.path(folder, "new.csv"), header = FALSE))
write.table(predict(model, new)$z, file.path(folder, "z.csv"), sep = ",", row.names = FALSE, col.names = FALSE)
"""


def mclust(rows, shared):
    """`MclustSSC` through files in a temporary folder."""
    reduce = reduced(rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fit.R").write_text(MCLUST, encoding="utf-8")
        np.savetxt(folder / "X.csv", reduce(rows.X), delimiter=",")
        np.savetxt(folder / "y.csv", rows.y, fmt="%d")
        everything = np.vstack([rows.X, rows.fresh])
        np.savetxt(folder / "new.csv", reduce(everything), delimiter=",")
        subprocess.run(["Rscript", folder / "fit.R", folder], check=True, capture_output=True, encoding="utf-8")
        z = np.loadtxt(folder / "z.csv", delimiter=",")
    return lambda X: z[: len(rows.X)], lambda X: z[len(rows.X) :]


def gmmsslm_model(rows, shared):
    reduce = reduced(rows)
    X = reduce(rows.X)
    models = [
        MARGaussianMixture(covariance_type=covariance, measure=uncertainty, link="logit").fit(X, rows.y)
        for covariance, uncertainty in (("full", "log-entropy"), ("tied", "discriminant"))
    ]
    model = min(models, key=lambda model: model.bic())
    return lambda X: model.predict_proba(reduce(X))


class Tool(NamedTuple):
    """A line of the tables: its function, what it shares, where it is run (everywhere but in "positives" if empty)."""

    fit: object
    shares: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    package: str = ""


def wrapping(name, fit, shares=("{}",), **kwargs):
    """The lines of a tool that wraps a classifier."""
    return {
        f"{name}, {kind}": Tool(partial(fit, kind), tuple(part.format(kind) for part in shares), **kwargs)
        for kind in BASES
    }


TOOLS = {
    OURS: Tool(marmix_alone, (OURS,)),
    "marmix, label term": Tool(with_label_term, settings=("by class",)),
    **wrapping("labelled rows only", labelled_only),
    "labelled rows only, kernel SVM": Tool(kernel_machine),
    **wrapping("self-training", self_training),
    "label propagation": Tool(partial(graph, LabelPropagation)),
    "label spreading": Tool(partial(graph, LabelSpreading)),
    **wrapping("weighting", weighting),
    **wrapping("weighting, marmix's q", weighting_by_marmix, ("{}", OURS)),
    **wrapping("cleanlab", cleanlab_of, package="cleanlab"),
    "marmix, then cleanlab": Tool(marmix_then_cleanlab, (OURS,), ("noise",), "cleanlab"),
    **wrapping(
        "PU learning", positive_unlabelled, ("{}, positives",), settings=("by class", "positives"), package="pulearn"
    ),
    **wrapping("unlabelled as negative", unlabelled_as_negative, ("{}, positives",), settings=("positives",)),
    "all labels, logistic": Tool(partial(all_labels, "logistic"), settings=("positives",)),
    "StepMix": Tool(stepmix, package="stepmix"),
    "mclust": Tool(mclust, package="mclust"),
    "gmmsslm's model": Tool(gmmsslm_model),
}


def installed(package):
    """Whether a package of Python, or mclust of R, can be used."""
    if package != "mclust":
        return not package or find_spec(package) is not None
    return (
        bool(which("Rscript"))
        and not subprocess.run(["Rscript", "-e", "library(mclust)"], capture_output=True).returncode
    )


# measures


def proper(proba):
    """Probabilities in [0, 1] that sum to one, mixed with a thousandth of equal ones."""
    proba = np.clip(np.nan_to_num(np.asarray(proba, dtype=float), nan=0.0), 0.0, 1.0)
    total = proba.sum(axis=1, keepdims=True)
    proba = np.divide(proba, total, out=np.full_like(proba, 1.0 / proba.shape[1]), where=total > 0.0)
    return 0.999 * proba + 0.001 / proba.shape[1]


def scores(y, proba, name=""):
    """Log-loss and accuracy."""
    losses, right = tables.log_losses(y, proba), proba.argmax(axis=1) == y
    return {f"{name}log_loss": float(losses.mean()), f"{name}accuracy": float(right.mean())} if len(y) else {}


def measured(tool, rows, shared):
    """Log-loss and accuracy on hidden labels and on fresh rows, and seconds."""
    hidden, before = rows.y < 0, set(shared.seconds)
    begin = time.perf_counter()
    predict = tool.fit(rows, shared)
    of_unlabelled, of_any = predict if isinstance(predict, tuple) else (predict, predict)
    proba = proper(of_unlabelled(rows.X))[hidden]
    seconds = time.perf_counter() - begin + sum(shared.seconds[name] for name in before.intersection(tool.shares))
    fresh = proper(of_any(rows.fresh)) if len(rows.fresh) else np.empty((0, 2))
    return scores(rows.truth[hidden], proba) | scores(rows.fresh_truth, fresh, "fresh_") | {"seconds": seconds}


def compute(path, settings, seeds, tools):
    """Run what is not there yet; a seed of a setting runs all its tools in turn."""
    done = tables.read_lines(path, KEYS)
    for seed in seeds:
        for setting in settings:
            asked = [name for name in tools if setting in (TOOLS[name].settings or set(SETTINGS) - {"positives"})]
            lacking = [name for name in asked if (setting, seed, name) not in done]
            if not lacking:
                continue
            rows = SETTINGS[setting](seed)
            shared, records = Shared(rows), []
            for name in lacking:
                records.append({"setting": setting, "seed": seed, "tool": name})
                with warnings.catch_warnings(), threadpool_limits(1):
                    warnings.simplefilter("ignore")
                    try:
                        records[-1] |= measured(TOOLS[name], rows, shared)
                    except (ValueError, subprocess.CalledProcessError, np.linalg.LinAlgError) as error:
                        records[-1]["error"] = str(getattr(error, "stderr", None) or error).splitlines()[-1][:200]
            tables.append_lines(path, records)
            print(f"{setting}, seed {seed}: {len(lacking)} fits", flush=True)


# tables


class Results:
    """Records of one run, and the paired figures of its tables."""

    def __init__(self, records):
        self.records = records
        self.settings = [s for s in SETTINGS if any(key[0] == s for key in records)]
        self.tools = [t for t in TOOLS if any(key[2] == t for key in records)]

    def values(self, setting, tool, measure):
        """Values by seed."""
        return {
            seed: record[measure]
            for (s, seed, t), record in self.records.items()
            if s == setting and t == tool and measure in record
        }

    def differences(self, setting, tool, measure):
        """Differences to marmix, one for each seed."""
        ours = self.values(setting, OURS, measure)
        return np.array([v - ours[seed] for seed, v in self.values(setting, tool, measure).items() if seed in ours])

    def mean(self, setting, tool, measure, paired=False):
        """Mean over seeds and its standard error, of the values or of their differences to marmix."""
        if paired:
            return tables.mean(self.differences(setting, tool, measure))
        return tables.mean(list(self.values(setting, tool, measure).values()))

    def ratio(self, tool):
        """Median of its seconds as a multiple of marmix's."""
        ratios = []
        for setting in self.settings:
            ours, values = self.values(setting, OURS, "seconds"), self.values(setting, tool, "seconds")
            ratios += [value / ours[seed] for seed, value in values.items() if seed in ours]
        return np.median(ratios) if ratios else np.nan

    def side(self, setting, tool):
        """The sign of the difference in log-loss to marmix, 0 if its 95 % interval contains zero."""
        differences = self.differences(setting, tool, "log_loss")
        mean, error = tables.mean(differences)
        clear = len(differences) > 1 and abs(mean) > stats.t.ppf(0.975, len(differences) - 1) * error
        return int(np.sign(mean)) if clear else 0


def print_matrix(report, results, title, measure, form, scale=1.0, best=min):
    """A line for each tool, a column for each setting: marmix's mean, and the differences of the others to it."""
    settings = [s for s in results.settings if s != "positives" and results.values(s, OURS, measure)]
    tools = [t for t in results.tools if any(results.values(s, t, measure) for s in settings)]
    winners = {}
    for s in settings:
        means = {t: results.mean(s, t, measure).value for t in tools if results.values(s, t, measure)}
        winners[s] = best(means, key=means.get)
    table = report.table(
        title, {"tool": "", **dict.fromkeys(settings, f"+{form}"), "seconds": ".2g"}, ignored=["seconds"]
    )
    for tool in tools:
        means = [results.mean(s, tool, measure, paired=tool != OURS) for s in settings]
        cells = [tables.Mean(scale * mean, scale * error) for mean, error in means]
        bold = [s for s in settings if winners[s] == tool]
        table.add(tool, *cells, results.ratio(tool), bold=bold, unsigned=tool == OURS)


def print_tables(report, results, left_out):
    """All tables."""
    seeds = {s: len({seed for name, seed, _ in results.records if name == s}) for s in results.settings}
    counts = "Seeds: " + ", ".join(f"{s} {n}" for s, n in seeds.items()) + "."
    report.say(counts + (f" Left out, as not installed: {', '.join(left_out)}." if left_out else ""), "")
    title = "Log-loss on the hidden labels"
    words = "marmix: mean ± standard error over seeds. Others: difference to marmix on the same rows; a minus sign is better."
    report.say(f"### {title}", "", words, "The lowest mean of a column is bold. Seconds are a multiple of marmix's.")
    print_matrix(report, results, title, "log_loss", ".3f")
    title = "Hidden labels that are right, in percentage points"
    report.say("", f"### {title}", "", "A plus sign is better than marmix; the highest mean of a column is bold.")
    print_matrix(report, results, title, "accuracy", ".1f", 100.0, max)
    report.say("", "### Log-loss on fresh rows")
    print_matrix(report, results, "Log-loss on fresh rows", "fresh_log_loss", ".3f")
    if "positives" in results.settings:
        print_positives(report, results)
    print_verdicts(report, results)
    errors = {(s, t): r["error"] for (s, _, t), r in results.records.items() if "error" in r}
    report.say("", *(f"- {s}, {t} failed: {error}" for (s, t), error in errors.items()))


def print_positives(report, results):
    """What tools make of rows of which only positives have labels."""
    report.say("", "### Only positives have labels", "", "marmix refuses such rows: it needs labels of two classes.")
    names = {"log_loss": "log-loss, hidden labels", "accuracy": "right, hidden labels"}
    names |= {"fresh_log_loss": "log-loss, fresh rows", "fresh_accuracy": "right, fresh rows"}
    table = report.table("Only positives have labels", {"tool": "", **dict.fromkeys(names.values(), ".3f")})
    for tool in (t for t in results.tools if results.values("positives", t, "log_loss")):
        table.add(tool, *(results.mean("positives", tool, m) for m in names))


def print_verdicts(report, results):
    """Which tools are clearly better or worse than marmix."""
    words = "Log-loss on the hidden labels; Student's 95 % interval of the difference to marmix does not contain zero."
    report.say("", "### Who is clearly better or worse", "", words)
    table = report.table("verdicts", {"setting": "", "better than marmix": "", "worse than marmix": "", "of": ""})
    for s in (s for s in results.settings if s != "positives"):
        others = [t for t in results.tools if t != OURS and results.values(s, t, "log_loss")]
        better, worse = ([t for t in others if results.side(s, t) == sign] for sign in (-1, 1))
        table.add(s, "; ".join(better) or "none", len(worse), len(others))


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--out", type=Path, help="results, which a later run continues; by default not kept")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS))
    parser.add_argument("--seeds", type=int, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed: 1000 to tune, 0 for the tables")
    args = parser.parse_args()
    settings, n_seeds = SIZES[args.size]
    settings, n_seeds = args.settings or settings, args.seeds or n_seeds
    seeds = range(args.first, args.first + n_seeds)
    left_out = sorted(package for package in {tool.package for tool in TOOLS.values()} if not installed(package))
    if sources.telescope() is None:
        settings = [s for s in settings if s != "MAGIC"]
    with tempfile.TemporaryDirectory() as folder:
        path = args.out or Path(folder) / "tools.jsonl"
        compute(path, settings, seeds, [name for name, tool in TOOLS.items() if tool.package not in left_out])
        records = tables.read_lines(path, KEYS)
    results = Results({key: record for key, record in records.items() if key[0] in settings and key[1] in seeds})
    report = tables.Report()
    print_tables(report, results, left_out)
    report.write(args.json)


if __name__ == "__main__":
    main()
