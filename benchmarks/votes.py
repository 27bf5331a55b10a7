"""What keeping the votes of annotators is worth, compared with "majority or missing".

Rows have four features and two classes, like the lesions of the gastro data: Gaussian classes with a common covariance. Means,
covariance and shares are those of the data by true label if `MARMIX_DATA` (or `MARMIX_SHARED`, its `data` folder) holds
`gastro.csv`, otherwise a stand-in with a similar error rate. Seven annotators vote on every row. A row keeps a label only if at
least six of them agree; hard rows split the votes, so their labels go missing. Four fits of the same model are compared with
the truth on fresh rows:

    ignored     majority or missing, missingness ignored
    modelled    majority or missing, missingness modelled
    votes       all votes kept, y of shape (n, 2)
    complete    the true labels of all rows, which nobody has

The annotators vote
    calibrated  by the posterior of the row: votes are independent draws from it
    noisy       with their own bias and skill, and all misjudge a row in the same direction
    decisive    twice as sure as the posterior is
    informed    with knowledge of the truth beyond the features; unclear rows are still harder

    python benchmarks/votes.py [--replicates 200] [--seed 0] [--stand-in]
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np

from marmix import MARGaussianMixture
from paper.datasets import load_gastro

ANNOTATORS, NEEDED, FRESH = 7, 6, 20_000
WAYS = ("calibrated", "noisy", "decisive", "informed")


def moments(stand_in):
    """Means, covariance and share of the second class."""
    folders = [Path(os.environ["MARMIX_DATA"])] if "MARMIX_DATA" in os.environ else []
    folders += [Path(os.environ["MARMIX_SHARED"]) / "data"] if "MARMIX_SHARED" in os.environ else []
    folders = [folder for folder in folders if (folder / "gastro.csv").exists()]
    if folders and not stand_in:
        data = load_gastro(data_home=folders[0])
        z = data.target_true
        means = np.array([data.data[z == k].mean(axis=0) for k in (0, 1)])
        centred = data.data - means[z]
        return means, centred.T @ centred / len(z), float(z.mean())
    return np.array([[0.0] * 4, [1.1] * 4]), np.eye(4), 0.7


def drawn(n, rng, law):
    """Features, true classes and log-odds of the second class."""
    means, covariance, share = law
    z = (rng.uniform(size=n) < share).astype(int)
    X = means[z] + rng.normal(size=(n, 4)) @ np.linalg.cholesky(covariance).T
    direction = np.linalg.solve(covariance, means[1] - means[0])
    return X, z, np.log(share / (1.0 - share)) + (X - means.mean(axis=0)) @ direction


def votes_of(way, z, log_odds, rng):
    """Counts of the votes for each class, (n, 2)."""
    eta = np.tile(log_odds[:, None], (1, ANNOTATORS))
    if way == "noisy":
        eta = rng.uniform(0.6, 1.2, size=ANNOTATORS) * (eta + rng.normal(size=(len(z), 1)))
        eta = eta + 0.5 * rng.normal(size=ANNOTATORS)
    elif way == "decisive":
        eta = 2.0 * eta
    second = 1.0 / (1.0 + np.exp(-eta))
    if way == "informed":
        right = 0.5 + 0.5 * np.abs(2.0 * second - 1.0) ** 0.5
        second = np.where(z[:, None] == 1, right, 1.0 - right)
    count = (rng.uniform(size=second.shape) < second).sum(axis=1)
    return np.column_stack([ANNOTATORS - count, count])


def one(n, way, law, seed):
    """Log-loss and accuracy of each fit, (4, 2), and the shares of missing and of wrong labels; None if a fit is refused."""
    rng = np.random.default_rng([seed, n, WAYS.index(way)])
    X, z, log_odds = drawn(n, rng, law)
    counts = votes_of(way, z, log_odds, rng)
    partial = np.where(counts.max(axis=1) >= NEEDED, counts.argmax(axis=1), -1)
    fresh, truth, _ = drawn(FRESH, rng, law)
    scores = []
    for y, link in ((partial, None), (partial, "logit"), (counts, "logit"), (z, "logit")):
        try:
            proba = MARGaussianMixture(link=link).fit(X, y).predict_proba(fresh)
        except ValueError:  # fewer than two classes are left
            return None
        loss = -np.log(np.maximum(proba[np.arange(FRESH), truth], 1e-300)).mean()
        scores.append([loss, np.mean(proba.argmax(axis=1) == truth)])
    labelled = partial >= 0
    return np.array(scores), np.mean(~labelled), np.mean(partial[labelled] != z[labelled])


def with_error(values, digits=3):
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, nargs="+", default=[76, 300])
    parser.add_argument("--stand-in", action="store_true", help="use the stand-in even if the gastro data are there")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    law = moments(args.stand_in)
    titles = ("ignored", "modelled", "votes", "complete")
    print(
        f"| rows, annotators | missing | wrong | {' | '.join(titles)} | votes less modelled |\n|---|---|---|---|---|---|---|---|"
    )
    against = []
    for n in args.rows:
        for way in WAYS:
            results = [one(n, way, law, args.seed + i) for i in range(args.replicates)]
            kept = [result for result in results if result is not None]
            scores = np.array([result[0] for result in kept])
            missing, wrong = (np.mean([result[i] for result in kept]) for i in (1, 2))
            for i, score in enumerate(("log-loss", "accuracy")):
                cells = " | ".join(with_error(scores[:, k, i]) for k in range(4))
                difference = scores[:, 2, i] - scores[:, 1, i]
                print(
                    f"| {n}, {way}, {score} | {missing:.0%} | {wrong:.1%} | {cells} | {with_error(difference, 4)} |",
                    flush=True,
                )
                worse = difference.mean() * (1 if i == 0 else -1)
                if worse > 0.0:
                    against.append(f"{n} rows, {way} annotators: {score} {with_error(difference, 4)}")
            if len(kept) < len(results):
                print(f"{len(results) - len(kept)} replicates left out: a class had no label.")
    print(
        "\nWhere keeping the votes is worse than modelling majority or missing:", *(against or ["nowhere"]), sep="\n  "
    )


if __name__ == "__main__":
    main()
