"""Is a model a fair judge of itself? Its own estimate of its scores, one that rests on random forests, and the truth.

Simulated rows whose true labels are known. For the cross-validated average of `MARClassifierCV`: the estimated log-loss and
accuracy less the true ones of the held-out probabilities, with the root mean square and the share of files within two standard
errors, (a) with the q and the posteriors of the average itself, (b) with those of random forests . Then the
conformal sets of 90 %: the share of unlabelled rows whose set holds the true class, with the standard error over files, and the
mean number of classes in a set; for comparison the coverage without weights, as if labels were missing completely at random.

    python benchmarks/judge.py [--files 10]
"""

import argparse
import warnings

import numpy as np

from marmix import MARClassifierCV
from marmix.datasets import make_mar_mixture
from marmix.evaluation import accuracy, conformal_sets, flexible, log_loss

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
COVERAGE = 0.9


def one(seed, **setting):
    """Errors of the scores and their coverage, and coverage and size of the sets, for one file."""
    rows = make_mar_mixture(at_least=5, random_state=seed, **setting)
    X, z, truth = rows.data, rows.target, rows.target_true
    cv = MARClassifierCV().fit(X, z)
    p, classes, lost = np.maximum(cv.held_out_proba_, 1e-300), cv.classes_, z < 0
    forests = flexible(X, z)
    out = []
    for metric in (log_loss, accuracy):
        true = metric(truth, p, np.zeros(len(z)), classes=classes).value
        for q, tau in ((cv.missing_proba_, cv.posterior_), (forests.missing_proba, forests.posterior)):
            score = metric(z, p, q, classes=classes, posterior=tau)
            out += [score.value - true, abs(score.value - true) <= 2.0 * score.stderr]
    q = forests.missing_proba
    for weights in (q, np.full(len(z), lost.mean())):
        sets = conformal_sets(z, p, weights, p[lost], weights[lost], classes=classes, coverage=COVERAGE)
        out += [sets[np.arange(lost.sum()), truth[lost]].mean(), sets.sum(axis=1).mean()]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| files | log-loss, own | log-loss, forests | accuracy, own | accuracy, forests | sets | classes | unweighted |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, setting in SETTINGS.items():
        table = np.array([one(seed, **setting) for seed in range(args.files)], dtype=float)
        cells = [
            f"{table[:, k].mean():+.3f}, {np.sqrt(np.mean(table[:, k] ** 2)):.3f}, {table[:, k + 1].mean():.0%}"
            for k in (0, 2, 4, 6)
        ]
        held, size, plain, _ = table[:, 8:].T
        sets = (
            f"{held.mean():.3f} ± {held.std(ddof=1) / np.sqrt(len(held)):.3f} | {size.mean():.2f} | {plain.mean():.3f}"
        )
        print(f"| {name} | {' | '.join(cells)} | {sets} |", flush=True)


if __name__ == "__main__":
    main()
