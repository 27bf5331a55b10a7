"""Compares the settings that `MARGaussianMixture()` and `MARLogisticRegression()` could have by default.

Every combination of covariance structure, link and measure is fitted to the settings of `benchmarks/quality.py`, on seeds that
its tables do not use (0 to 9), and scored on fresh rows. The defaults are the combination with the lowest mean log-loss that
is also defined for any number of classes.

    python benchmarks/defaults.py [--size small|full] [--jobs 2] [--only TEXT ...]

prints the mean held-out log-loss of each combination over all settings, over those with two and with more classes, and the
largest difference to the best combination of a setting.
"""

import argparse
import warnings
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from quality import scaled, scores, settings

from marmix import MARGaussianMixture, MARLogisticRegression

LINKS, MEASURES = ("logit", "aranda-ordaz"), ("margin", "entropy", "gini")


def candidates():
    """The combinations, by name."""
    out = {}
    for kind, link, measure in product(("tied", "full"), LINKS, MEASURES):
        estimator = MARGaussianMixture(covariance_type=kind, link=link, measure=measure)
        out[f"mixture, {kind}, {link}, {measure}"] = estimator
    for link, measure in product(LINKS, MEASURES):
        out[f"logistic, {link}, {measure}"] = scaled(MARLogisticRegression(link=link, measure=measure))
    return out


def replicate(name, make, seed):
    """The log-loss of each combination on one replicate of a setting."""
    warnings.simplefilter("ignore")
    X, _, partial, fresh, truth, _ = make(seed)
    losses = []
    for estimator in candidates().values():
        proba = estimator.fit(X, partial).predict_proba(fresh)
        losses.append(scores(truth, proba)[0])
    return name, len(np.unique(truth)), losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[""], help="settings whose name contains one of these texts")
    arguments = parser.parse_args()
    replicates = {"small": 5, "full": 10}[arguments.size]
    jobs = [
        (name, make, seed)
        for name, (make, share) in settings(arguments.size, arguments.only).items()
        for seed in range(max(1, int(replicates * share)))
    ]
    results = Parallel(n_jobs=arguments.jobs)(delayed(replicate)(*job) for job in jobs)
    names = list(dict.fromkeys(name for name, _, _ in results))
    means = np.array([np.mean([losses for other, _, losses in results if other == name], axis=0) for name in names])
    classes = np.array([next(K for other, K, _ in results if other == name) for name in names])
    print(f"{len(jobs)} replicates of {len(names)} settings\n")
    print("| combination | all settings | two classes | more classes | largest loss to the best |")
    print("|---|---|---|---|---|")
    labels = list(candidates())
    for family in ("mixture", "logistic"):
        members = [i for i, label in enumerate(labels) if label.startswith(family)]
        behind = means[:, members] - means[:, members].min(axis=1, keepdims=True)
        for place, i in enumerate(members):
            parts = means[:, i].mean(), means[classes == 2, i].mean(), means[classes > 2, i].mean()
            print(f"| {labels[i]} | {' | '.join(f'{part:.4f}' for part in parts)} | {behind[:, place].max():.3f} |")


if __name__ == "__main__":
    main()
