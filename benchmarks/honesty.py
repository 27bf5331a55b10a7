"""Is `marmix fit` as right as it says? Simulated files whose truth is known, and what the summary says of them.

For every setting: wrong imputed labels over those expected, of all and of those called at least 90 % sure; for accuracy and
log-loss the estimate less the truth, which is that of the saved model on 20,000 fresh rows with their true posteriors, and the
share of files whose 95 % interval covers the truth; the accuracy of the labelled rows as they are, less the truth; the share of
files whose missingness is called informative.

With --fast, `MARClassifierCV` is fitted to the rows instead, without files, tests and a report. Then the intervals of the Brier
score, the AUC and both comparisons are checked too: the gain of the average over that of the candidates that ignore the
mechanism, and over the best usual classifier of the labelled rows, all fitted to all rows and compared on the fresh rows. "rmse"
is the root mean square error of an estimate, "±" the mean half width of its interval; "clear" and "wrong" are the shares of the
two comparisons that claim a difference, and that claim one of the wrong sign; "declined" is the share of files with too many rows
without a chance of a label.

    python benchmarks/honesty.py [--files 20] [--fast] [--first 0] [--settings Gamma steep]
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from marmix import MARClassifierCV, evaluation, load
from marmix.datasets import make_mar_mixture
from marmix.estimators.candidates import default_rivals, models_missingness
from marmix.estimators.evidence import Evidence, linear_predictor
from marmix.estimators.held_out import whole_row_folds
from marmix.journey import FitOptions, Progress, fit_file
from marmix.tables import open_table
from marmix.tables.writing import write_table

SETTINGS = {
    "Gaussian, 300 rows, 50 % missing": {"n_samples": 300, "rate": 0.5},
    "Gaussian, 1000 rows, 70 % missing": {"n_samples": 1000, "rate": 0.7},
    "Student, 1000 rows, 70 % missing": {"n_samples": 1000, "rate": 0.7, "distribution": "student"},
    "Laplace, 4 features, 1000 rows, 70 % missing": {
        "n_samples": 1000, "rate": 0.7, "distribution": "laplace", "n_features": 4,
    },
    "Gamma, 1000 rows, 70 % missing": {"n_samples": 1000, "rate": 0.7, "distribution": "gamma"},
    "Gaussian, 3 classes, 1000 rows, 70 % missing": {"n_samples": 1000, "rate": 0.7, "n_classes": 3},
    "Gaussian, 500 rows, 60 % missing completely at random": {"n_samples": 500, "rate": 0.6, "link": None},
    "Gaussian, steep: every hard row lacks its label": {"n_samples": 1000, "rate": 0.7, "slope": -60.0},
    "Gamma, steep: every hard row lacks its label": {
        "n_samples": 1000, "rate": 0.7, "distribution": "gamma", "slope": -60.0,
    },
}  # fmt: skip
FRESH = 20_000
LOSSES = ("log-loss", "Brier score", "accuracy", "AUC", "gain over ignoring it", "gain over best rival")


def rows_of(seed, setting):
    """Rows with missing labels, and fresh rows of the same population."""
    rows = make_mar_mixture(at_least=5, random_state=seed, **setting)
    same = {key: value for key, value in setting.items() if key in ("distribution", "n_features", "n_classes")}
    return rows, make_mar_mixture(FRESH, random_state=seed + 10_000, **same)


def scores_of(proba, tau):
    """The four scores of probabilities under true posteriors."""
    kwargs = {"missing_proba": np.zeros(len(tau)), "classes": range(tau.shape[1]), "posterior": tau}
    y = np.r_[np.arange(tau.shape[1]), np.full(len(tau) - tau.shape[1], -1)]  # the scores want labels; a few do no harm
    functions = (evaluation.log_loss, evaluation.brier, evaluation.accuracy, evaluation.roc_auc)
    return [function(y, np.maximum(proba, 1e-300), **kwargs).value for function in functions]


def imputed(proba, rows):
    """Wrong labels and those expected to be wrong, of all imputed labels and of those at least 90 % sure."""
    lost = rows.target < 0
    wrong, doubt = proba.argmax(axis=1)[lost] != rows.target_true[lost], 1.0 - proba.max(axis=1)[lost]
    sure = doubt <= 0.1
    return [wrong.sum(), doubt.sum(), wrong[sure].sum(), doubt[sure].sum()]


def of_file(folder, seed, setting):
    """What the summary of one file says, and what is true."""
    rows, fresh = rows_of(seed, setting)
    columns = {f"x{i}": rows.data[:, i].tolist() for i in range(rows.data.shape[1])}
    write_table(folder / "rows.csv", columns | {"label": ["" if z < 0 else z for z in rows.target.tolist()]})
    options = FitOptions(data=folder / "rows.csv", label="label", out=folder / "out", force=True)
    findings = fit_file(options, Progress(quiet=True))
    written = [row for batch in open_table(folder / "out" / "imputed.csv").batches() for row in batch.to_pylist()]
    proba = np.array([[float(row[key]) for key in row if key.startswith("marmix_p_")] for row in written])
    model = load(folder / "out" / "model.marmix")
    truth = scores_of(model.predict_proba({f"x{i}": x for i, x in enumerate(fresh.data.T)}), fresh.posterior)
    out, scores = imputed(proba, rows), {score.name: score for score in findings.scores}
    for name in ("accuracy", "log-loss"):
        score, true = scores[name], truth[LOSSES.index(name)]
        out += [score.value - true, score.low <= true <= score.high]
    return [*out, scores["accuracy"].plain - truth[2], bool(findings.missingness.informative)]


class Kept(MARClassifierCV):
    """Keeps the held-out probabilities of the candidates."""

    def _predicted(self, proba):
        self.kept = proba


def of_rows(seed, setting):
    """What `MARClassifierCV` says of the rows, and what is true: for each estimate the error, covered, and its claim."""
    rows, fresh = rows_of(seed, setting)
    X, z, K = rows.data, rows.target, rows.posterior.shape[1]
    clf = Kept(rivals=True).fit(X, z)
    folds = whole_row_folds(z, clf.cv, clf.random_state)
    ignoring = [name for name, pipeline in clf.estimators_.items() if not models_missingness(pipeline)]
    evidence = Evidence(z, None, linear_predictor(X, z, None, folds))
    weights = evidence.average(np.array([clf.kept[name] for name in ignoring])).weights
    without = sum(
        weight * clf.estimators_[name].predict_proba(fresh.data) for weight, name in zip(weights, ignoring, strict=True)
    )
    losses = np.where(clf.results_["rival"], clf.results_["log_loss"], np.inf)
    scaler = StandardScaler().fit(X)
    rival = clone(default_rivals()[str(clf.results_["candidate"][losses.argmin()])])
    rival.fit(scaler.transform(X)[z >= 0], z[z >= 0])
    ours = scores_of(clf.predict_proba(fresh.data), fresh.posterior)
    p = rival.predict_proba(scaler.transform(fresh.data))
    others = without, 0.999 * p + 0.001 / K
    truth = [*ours, *(scores_of(p, fresh.posterior)[0] - ours[0] for p in others)]
    kwargs = {"missing_proba": clf.missing_proba_, "classes": range(K), "posterior": clf.posterior_}
    functions = (evaluation.log_loss, evaluation.brier, evaluation.accuracy, evaluation.roc_auc)
    scores = [function(z, np.maximum(clf.held_out_proba_, 1e-300), **kwargs) for function in functions]
    out = imputed(clf.predict_proba(X), rows)
    for score, true in zip(scores, truth, strict=False):
        out += [
            score.value - true,
            score.interval[0] <= true <= score.interval[1],
            score.interval[1] - score.interval[0],
        ]
    gains = (clf.comparison_, clf.rival_comparison_)
    for gain, true in zip(gains, truth[4:], strict=True):
        out += [gain.gain - true, gain.interval[0] <= true <= gain.interval[1], gain.interval[1] - gain.interval[0]]
    claims = [
        (gain.clear or gain.clear_loss, gain.gain * true < 0) for gain, true in zip(gains, truth[4:], strict=True)
    ]
    clear, wrong = sum(claim for claim, _ in claims) / 2, sum(claim and opposite for claim, opposite in claims) / 2
    return [*out, clear, wrong, gains[0].declined]


def share(values):
    """A share and its binomial standard error."""
    mean = values.mean()
    return f"{mean:.2f} ± {np.sqrt(mean * (1 - mean) / len(values)):.2f}"


def print_files(settings, seeds):
    """The table of whole files."""
    head = [
        "files",
        "wrong/expected",
        "sure ones",
        "accuracy",
        "covered",
        "log-loss",
        "covered",
        "plain accuracy",
        "informative",
    ]
    print(f"| {' | '.join(head)} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, setting in settings.items():
        with tempfile.TemporaryDirectory() as folder:
            table = np.array([of_file(Path(folder), seed, setting) for seed in seeds], dtype=float)
        wrong, expected, sure, sure_expected = table[:, :4].sum(axis=0)
        accuracy, _, loss, _, plain, informative = table[:, 4:].mean(axis=0)
        cells = [name, f"{wrong / expected:.2f}", f"{sure / sure_expected:.2f}" if sure_expected else ""]
        cells += [f"{accuracy:+.3f}", share(table[:, 5]), f"{loss:+.3f}", share(table[:, 7]), f"{plain:+.3f}"]
        print(f"| {' | '.join(cells)} | {informative:.2f} |", flush=True)


def print_rows(settings, seeds):
    """The tables of fits to rows in memory: coverage, then root mean square errors and mean half widths of the intervals."""
    print(f"| covered | {' | '.join(LOSSES)} | clear | wrong | declined | wrong/expected | sure ones |")
    print("|" + "---|" * (len(LOSSES) + 6))
    tables = {}
    for name, setting in settings.items():
        table = tables[name] = np.array([of_rows(seed, setting) for seed in seeds], dtype=float)
        wrong, expected, sure, sure_expected = table[:, :4].sum(axis=0)
        cells = [share(table[:, 5 + 3 * i]) for i in range(len(LOSSES))]
        cells += [f"{value:.2f}" for value in table[:, -3:].mean(axis=0)]
        cells += [f"{wrong / expected:.2f}", f"{sure / sure_expected:.2f}" if sure_expected else ""]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    table = np.concatenate(list(tables.values()))
    print(f"| all | {' | '.join(share(table[:, 5 + 3 * i]) for i in range(len(LOSSES)))} | | | | | |")
    print(f"\n| rmse (±) | {' | '.join(LOSSES)} |")
    print("|" + "---|" * (len(LOSSES) + 1))
    for name, table in tables.items():
        errors, widths = np.sqrt(np.mean(table[:, 4:-3:3] ** 2, axis=0)), table[:, 6:-3:3].mean(axis=0) / 2
        cells = [f"{error:.3f} ({width:.3f})" for error, width in zip(errors, widths, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first file")
    parser.add_argument("--fast", action="store_true", help="fit MARClassifierCV to the rows, without files")
    parser.add_argument("--settings", nargs="+", default=[""], help="settings whose names contain one of these texts")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    settings = {name: value for name, value in SETTINGS.items() if any(text in name for text in args.settings)}
    start, seeds = time.perf_counter(), range(args.first, args.first + args.files)
    (print_rows if args.fast else print_files)(settings, seeds)
    print(f"{args.files} files a setting, {time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
