"""What keeping the votes of annotators is worth, compared with "majority or missing".

Rows have four features and two classes, like the lesions of the gastro data: Gaussian classes with a common covariance. Means,
covariance and shares are those of the data by true label if the folder `MARMIX_DATA` holds `gastro.csv`, otherwise a stand-in
with a similar error rate. Seven annotators vote on every row. A row keeps a label only if at least six of them agree; hard rows
split the votes, so their labels go missing. Four fits of the same model are compared with the truth on fresh rows:

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

takes two minutes on one core. Replicates in which a class has no label are left out.
"""

import warnings

import numpy as np
from common import rows, tables

from marmix import MARGaussianMixture

ANNOTATORS, NEEDED, FRESH = 7, 6, 20_000
WAYS = ("calibrated", "noisy", "decisive", "informed")


def moments(stand_in):
    """Means, covariance and share of the second class."""
    data = None if stand_in else rows.lesions()
    if data is None:
        return np.array([[0.0] * 4, [1.1] * 4]), np.eye(4), 0.7
    z = data.target_true
    means = np.array([data.data[z == k].mean(axis=0) for k in (0, 1)])
    centred = data.data - means[z]
    return means, centred.T @ centred / len(z), float(z.mean())


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
        scores.append([tables.log_losses(truth, proba, 1e-300).mean(), np.mean(proba.argmax(axis=1) == truth)])
    labelled = partial >= 0
    return np.array(scores), np.mean(~labelled), np.mean(partial[labelled] != z[labelled])


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, nargs="+", default=[76, 300])
    parser.add_argument("--stand-in", action="store_true", help="use the stand-in even if the gastro data are there")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    law, report = moments(args.stand_in), tables.Report()
    columns = {
        "rows, annotators": "",
        "fits": "",
        "missing": ".0%",
        "wrong": ".1%",
        "ignored": ".3f",
        "modelled": ".3f",
    }
    columns |= {"votes": ".3f", "complete": ".3f", "votes less modelled": ".4f"}
    table = report.table("votes", columns)
    for n in args.rows:
        for way in WAYS:
            results = [one(n, way, law, args.seed + i) for i in range(args.replicates)]
            fits = [result for result in results if result is not None]
            scores = np.array([result[0] for result in fits])
            shares = [np.mean([result[i] for result in fits]) for i in (1, 2)]
            for i, score in enumerate(("log-loss", "accuracy")):
                cells = [tables.mean(scores[:, k, i]) for k in range(4)]
                difference = tables.mean(scores[:, 2, i] - scores[:, 1, i])
                table.add(f"{n}, {way}, {score}", len(fits), *shares, *cells, difference)
    report.write(args.json)


if __name__ == "__main__":
    main()
