"""Labels that go missing because of the label itself: what a label term repairs, and what it costs.

    python benchmarks/mnar.py mechanisms [--replicates 40]
    python benchmarks/mnar.py coverage --replicates 60

`mechanisms` simulates two classes in two dimensions, 1000 rows, whose labels are missing by the class alone, by the classifier's
uncertainty alone, by both, or completely at random; the classes are Gaussian, or Laplace so that the mixture is wrong. Four fits
of each model: ignoring the mechanism, a mechanism without a label term, delta estimated, and delta fixed at the truth.

`coverage` counts how often 95 % intervals of an estimated delta hold the truth, and how often `test_label_term` rejects at 5 %,
for two Gaussian or Laplace classes.

Means over replicates with standard errors. Forty replicates take two minutes on one core, those of `coverage` four.
"""

import warnings

import numpy as np
from common import tables
from scipy.special import expit, log_softmax
from threadpoolctl import threadpool_limits

from marmix import MARGaussianMixture, MARLogisticRegression

FRESH = 10_000  # rows of the population, for scores
PRIOR, GAP = np.array([0.6, 0.4]), 2.0


def log_joint(X, kind):
    """Log joint densities of the two simulated classes, up to a constant."""
    centred = X[:, None, :] - np.array([[0.0, 0.0], [GAP, 0.0]])
    power = -0.5 * centred**2 if kind == "Gaussian" else -np.sqrt(2.0) * np.abs(centred)
    return np.log(PRIOR) + power.sum(axis=2)


def classes(n, rng, kind):
    """Rows of two classes, and the entropy of their true posteriors."""
    y = (rng.uniform(size=n) < PRIOR[1]).astype(int)
    noise = rng.normal(size=(n, 2)) if kind == "Gaussian" else rng.laplace(size=(n, 2)) / np.sqrt(2.0)
    X = noise + GAP * np.column_stack([y, np.zeros(n)])
    log_tau = log_softmax(log_joint(X, kind), axis=1)
    return X, y, -np.sum(np.exp(log_tau) * log_tau, axis=1)


def hidden(y, u, alpha, delta, rng):
    """Labels with -1 where they are missing, by eta = alpha_0 + alpha_1 u + delta_y."""
    q = expit(alpha[0] + alpha[1] * u + np.asarray(delta)[y])
    return np.where(rng.uniform(size=len(y)) < q, -1, y)


def scores(proba, y):
    """Log-loss and error rate."""
    return [tables.log_losses(y, proba, 1e-300).mean(), np.mean(proba.argmax(axis=1) != y)]


def imputed(clf, X):
    """Class probabilities of rows that are known to lack their label."""
    return clf.model_.unlabelled_posterior(X).tau.T


MECHANISMS = {  # alpha, delta
    "by the class (delta 1.5)": ((-0.5, 0.0), 1.5),
    "by uncertainty": ((-1.5, 4.0), 0.0),
    "by both (delta 1.5)": ((-1.5, 3.0), 1.5),
    "at random": ((0.0, 0.0), 0.0),
}
MODELS = {"mixture": MARGaussianMixture, "logistic": MARLogisticRegression}


def mechanisms(report, seeds):
    """What each fit makes of each mechanism."""
    columns = {
        "classes": "",
        "labels missing": "",
        "model": "",
        "mechanism": "",
        "imputed: log-loss": ".3f",
        "error": ".3f",
    }
    columns |= dict.fromkeys(("error said", "population: log-loss", "its error", "delta"), ".3f")
    table = report.table("mechanisms", columns, keys=4)
    for kind in ("Gaussian", "Laplace"):
        for name, (alpha, delta) in MECHANISMS.items():
            fits = {"ignored": {"link": None}, "no label term": {}, "estimated": {"delta": "estimate"}}
            fits["true delta"] = {"delta": {1: delta}}
            results = {}
            for rng in map(np.random.default_rng, seeds):
                X, y, u = classes(1000, rng, kind)
                fresh, truth, _ = classes(FRESH, rng, kind)
                z = hidden(y, u, alpha, (0.0, delta), rng)
                for model, estimator in MODELS.items():
                    for fit, options in fits.items():
                        clf = estimator(**options).fit(X, z)
                        proba = imputed(clf, X[z < 0])
                        row = [*scores(proba, y[z < 0]), np.mean(1.0 - proba.max(axis=1))]
                        row += [
                            *scores(clf.predict_proba(fresh), truth),
                            np.nan if clf.delta_ is None else clf.delta_[1],
                        ]
                        results.setdefault((model, fit), []).append(row)
            for (model, fit), values in results.items():
                table.add(kind, name, model, fit, *map(tables.mean, np.transpose(values)))


def coverage(report, seeds):
    """The coverage of intervals of an estimated delta, and the share of tests that reject delta = 0."""
    columns = {"classes": "", "labels missing": "", "model": "", "intervals hold": ".3f", "tests reject": ".3f"}
    table = report.table("coverage", columns | {"delta at limit": ".3f"}, keys=3)
    for kind in ("Gaussian", "Laplace"):
        for name, (alpha, delta) in MECHANISMS.items():
            for model, estimator in MODELS.items():
                options = {"delta": "estimate"} | ({} if model == "mixture" else {"C": np.inf})
                values = []
                for rng in map(np.random.default_rng, seeds):
                    X, y, u = classes(1000, rng, kind)
                    z = hidden(y, u, alpha, (0.0, delta), rng)
                    clf = estimator(**options).fit(X, z)
                    result = clf.inference(X, z)
                    low, high = result.conf_int()[result.param_names.index("delta[1]")]
                    rejects = result.test_label_term().p_value < 0.05
                    values.append([low < delta < high, rejects, abs(clf.delta_[1]) > 9.9])
                table.add(kind, name, model, *map(tables.mean, np.transpose(values)))


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("part", choices=["mechanisms", "coverage"])
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first replicate")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    report, parts = tables.Report(), {"mechanisms": mechanisms, "coverage": coverage}
    with threadpool_limits(1):
        parts[args.part](report, range(args.seed, args.seed + args.replicates))
    report.write(args.json)


if __name__ == "__main__":
    main()
