"""Do default fits reach the highest maximum that is known, and what do their starts cost? Simulations.

    python benchmarks/maxima.py [--replicates 60]

prints, for each setting, the share of fits that end more than 0.5 below the best of 20 starts (or of all fits to these rows, if
one is higher), for a single start and for the default `n_init="auto"`, each with its standard error; the median shortfall of
the former; the time of a default fit in fits from a single start; and the share of missing labels imputed correctly by both.

- mixture: 3 classes, 5 features, 200 rows, 80 % of the labels missing; full covariances, with the logit and the entropy, and with
  the paper's link and measure.
- k-means: 2 classes of Gamma features, 300 rows, half of the labels missing; the single start is k-means on all rows.
- shape: 2 or 3 classes, 1 to 4 features, 1000 rows; the single start has a free shape from the beginning, and the logit and
  cloglog fits count among those that should not be higher.
- no penalty: logistic regression with C=inf, 2 classes, 5 features, 200 rows, of which the labelled ones are often separable; the
  single start is the fit to the labelled rows.

Sixty replicates take about ten minutes on one core.
"""

import time
import warnings

import numpy as np
from common import tables
from scipy.optimize import brentq
from scipy.special import expit, log_softmax, softmax

from marmix import MARGaussianMixture, MARLogisticRegression

PAPER = {"covariance_type": "full", "link": "aranda-ordaz", "measure": "margin"}
SHORT = 0.5


def entropy(tau):
    return -np.sum(tau * np.log(np.maximum(tau, 1e-300)), axis=1)


def hidden(y, u, slope, share, shape, rng):
    """Labels, of which that share is lost with the Aranda-Ordaz probability of a linear predictor with that slope."""

    def q(level):
        e = np.exp(np.clip(level + slope * u, -50.0, 50.0))
        return -np.expm1(-(e if shape == 0.0 else np.log1p(shape * e) / shape))

    level = brentq(lambda level: q(level).mean() - share, -60.0, 60.0)
    return np.where(rng.uniform(size=len(y)) < q(level), -1, y)


def normal_rows(rng, n, d, classes, spread, slope, share, shape):
    """Normal classes with unit covariances and random means; labels are lost by the margin if the slope is negative."""
    means = spread * rng.normal(size=(classes, d))
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, d)) + means[y]
    tau = softmax(-0.5 * np.sum((X[:, None] - means) ** 2, axis=2), axis=1)
    ordered = np.sort(tau, axis=1)
    u = (ordered[:, -1] - ordered[:, -2]) ** 2 if slope < 0.0 else entropy(tau)
    return X, y, hidden(y, u, slope, share, shape, rng)


def few_labels(rng, by_margin):
    return normal_rows(rng, 200, 5, 3, 0.7, -2.0 if by_margin else 2.0, 0.8, 1.0)


def gamma_rows(rng):
    y = rng.integers(2, size=300)
    X = rng.gamma(np.where(y == 0, 3.0, 5.0)[:, None], size=(300, 2))
    log_density = np.stack([(shape - 1.0) * np.log(X).sum(axis=1) - 2.0 * np.log(g) for shape, g in ((3, 2), (5, 24))])
    return X, y, hidden(y, entropy(np.exp(log_softmax(log_density.T, axis=1))), 3.0, 0.5, 1.0, rng)


def shape_rows(rng):
    shape, share = rng.choice([0.0, 0.5, 1.0, 3.0, 10.0]), rng.uniform(0.2, 0.8)
    options = int(rng.integers(1, 5)), int(rng.integers(2, 4)), rng.uniform(0.5, 2.0), -rng.uniform(0.5, 6.0)
    return normal_rows(rng, 1000, *options, share, shape)


def separable_rows(rng):
    X = rng.normal(size=(200, 5))
    p = expit(X @ [3.0, 1.5, 0.0, 0.0, 0.0])
    y = (rng.uniform(size=200) < p).astype(int)
    return X, y, hidden(y, entropy(np.column_stack([1.0 - p, p])), 5.0, 0.7, 1.0, rng)


def from_labels(X, z):
    """A logistic regression without penalty that starts from the fit to the labelled rows alone."""
    clf = MARLogisticRegression(C=np.inf, link=None).fit(X, z)
    return clf.set_params(link="logit", warm_start=True, n_init=1).fit(X, z)


def mixture(**options):
    return lambda X, z: MARGaussianMixture(**options).fit(X, z)


def logistic(**options):
    return lambda X, z: MARLogisticRegression(C=np.inf, **options).fit(X, z)


MANY = {"n_init": 20, "random_state": 1}
FULL = {"covariance_type": "full"}
# rows, single start, default, further fits
SETTINGS = {
    "mixture, full": (
        lambda rng: few_labels(rng, False), mixture(**FULL, n_init=1), mixture(**FULL), [mixture(**FULL, **MANY)],
    ),
    "mixture, the paper's": (
        lambda rng: few_labels(rng, True), mixture(**PAPER, n_init=1, init={"shape": 1.0}), mixture(**PAPER),
        [mixture(**PAPER, **MANY)],
    ),
    "k-means": (
        gamma_rows, mixture(**FULL, init="kmeans", n_init=1, random_state=0), mixture(**FULL, init="kmeans"),
        [mixture(**FULL, **MANY)],
    ),
    "shape": (
        shape_rows, mixture(**PAPER, n_init=1, init={"shape": 1.0}), mixture(**PAPER),
        [mixture(**PAPER | {"link": link}) for link in ("logit", "cloglog")],
    ),
    "no penalty": (separable_rows, from_labels, logistic(), [logistic(**MANY)]),
}  # fmt: skip


def measured(rows, single, default, others, seed):
    """Shortfalls, seconds and shares of correct imputed labels of the single start and of the default."""
    X, y, z = rows(np.random.default_rng(seed))
    if min(np.sum(z == k) for k in np.unique(y)) < 3:
        return None
    fits, seconds = [], []
    for fit in (single, default):
        began = time.perf_counter()
        fits.append(fit(X, z))
        seconds.append(time.perf_counter() - began)
    best = max(fit.loglik_ for fit in [*fits, *(fit(X, z) for fit in others)])
    correct = [np.mean(fit.transduction_[z < 0] == y[z < 0]) for fit in fits]
    return [best - fit.loglik_ for fit in fits], seconds, correct


def percent(hits):
    """The percentage of hits and its standard error."""
    share = 100.0 * np.mean(hits)
    return tables.Mean(share, np.sqrt(share * (100.0 - share) / len(hits)))


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--replicates", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    report = tables.Report()
    columns = {
        "setting": "",
        "fits": "",
        "single start: % low": ".0f",
        "median shortfall": ".1f",
        "default: % low": ".0f",
    }
    columns |= {"time": ".1f", "correct, single": ".1f", "default": ".1f"}
    table = report.table("maxima", columns, within=0.05, ignored=["time"])
    for name in args.settings:
        results = [measured(*SETTINGS[name], args.seed + i) for i in range(args.replicates)]
        short, seconds, correct = (np.array(part) for part in zip(*(r for r in results if r is not None), strict=True))
        low, n = short > SHORT, len(short)
        median = np.median(short[low[:, 0], 0]) if low[:, 0].any() else np.nan
        change = 100.0 * np.std(correct[:, 1] - correct[:, 0]) / np.sqrt(n)
        ours, theirs = 100.0 * correct.mean(axis=0)[::-1]
        times = np.median(seconds[:, 1] / seconds[:, 0])
        table.add(name, n, percent(low[:, 0]), median, percent(low[:, 1]), times, theirs, tables.Mean(ours, change))
    report.write(args.json)


if __name__ == "__main__":
    main()
