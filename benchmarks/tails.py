"""Errors among labels that a model calls sure, on classes with light and heavy tails.

Simulated files of 1,000 rows, 70 % of the labels missing, hard rows more often. For every family of classes and every model:
wrong imputed labels over the number that the model's own probabilities imply, among labels called at least 90 % and at least 99 %
sure, with standard errors over the files (of the ratio of totals), and the number of such labels per file. Above one is
overconfident.

    python benchmarks/tails.py [--files 20] [--average-files 5] [--first-seed 0]
"""

import argparse
import warnings

import numpy as np

from marmix import MARClassifierCV, MARGaussianMixture, MARStudentMixture
from marmix.datasets import make_mar_mixture

FAMILIES = {
    "Gaussian": {},
    "Student": {"distribution": "student"},
    "Laplace, 4 features": {"distribution": "laplace", "n_features": 4},
    "Gamma": {"distribution": "gamma"},
}
MODELS = {
    "MARGaussianMixture, tied": lambda: MARGaussianMixture(),
    "MARGaussianMixture, full": lambda: MARGaussianMixture(covariance_type="full"),
    "MARStudentMixture, tied": lambda: MARStudentMixture(),
    "MARStudentMixture, full": lambda: MARStudentMixture(covariance_type="full"),
    "MARClassifierCV": lambda: MARClassifierCV(random_state=0),
}
LEVELS = (0.9, 0.99)


def counted(model, rows):
    """Wrong labels, expected wrong labels and number of labels, at each level."""
    proba = model.fit(rows.data, rows.target).predict_proba(rows.data)[rows.target < 0]
    sure, wrong = proba.max(axis=1), proba.argmax(axis=1) != rows.target_true[rows.target < 0]
    return [[wrong[at].sum(), (1.0 - sure[at]).sum(), at.sum()] for at in (sure >= level for level in LEVELS)]


def ratio(wrong, expected):
    """The ratio of the totals and its standard error over files."""
    if not expected.sum():
        return "none"
    value = wrong.sum() / expected.sum()
    error = np.sqrt(((wrong - value * expected) ** 2).sum()) / expected.sum()
    return f"{value:.2f} ± {error:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--average-files", type=int, default=5, help="files for MARClassifierCV, which takes longer")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(MODELS), help="models to fit")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = [f"{100 * level:.0f} % sure{what}" for level in LEVELS for what in (": wrong/said", ", labels a file")]
    print(f"| classes | model | files | {' | '.join(heads)} |\n|---|---|---|{'---|' * len(heads)}")
    for family, setting in FAMILIES.items():
        for name in args.only:
            files = args.average_files if name == "MARClassifierCV" else args.files
            seeds = range(args.first_seed, args.first_seed + files)
            drawn = [make_mar_mixture(1000, rate=0.7, at_least=5, random_state=seed, **setting) for seed in seeds]
            table = np.array([counted(MODELS[name](), rows) for rows in drawn], dtype=float)
            cells = [f"{ratio(*table[:, i, :2].T)} | {table[:, i, 2].mean():.0f}" for i in range(len(LEVELS))]
            print(f"| {family} | {name} | {files} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
