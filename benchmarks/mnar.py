"""Labels that go missing because of the label itself: what a label term repairs, what it costs, and how it compares.

    python benchmarks/mnar.py mechanisms [--replicates 40]
    python benchmarks/mnar.py literature [--replicates 40]
    python benchmarks/mnar.py coverage --replicates 60

`mechanisms` simulates two classes in two dimensions, 1000 rows, whose labels are missing by the class alone, by the classifier's
uncertainty alone, by both, or completely at random; the classes are Gaussian, or Laplace so that the mixture is wrong. Four fits
of each model: ignoring the mechanism, a mechanism without a label term, delta estimated, and delta fixed at the truth.

`literature` compares estimates of P(label given | class), log-losses and tests with two methods for labels that are missing by
the class alone, on such data and on data that are not:

    Rosset et al. (2004)     method of moments: labelled rows weighted by 1 / P(label given | class) have the mean features of all
                             rows; logistic regression with these weights
    Sportisse et al. (2023)  maximum likelihood with a softmax classifier, sum log(phi_y p_y) + sum log(sum_k (1 - phi_k) p_k);
                             logistic regression weighted by 1 / phi_y; likelihood-ratio test of equal phi

`coverage` counts how often 95 % intervals of an estimated delta hold the truth, and how often `test_label_term` rejects at 5 %,
for two Gaussian or Laplace classes.

The bias is that of the last class, whose labels are missing most often; RMSE is over the classes. Means over replicates, standard
errors in brackets.
"""

import argparse
import warnings

import numpy as np
from scipy.optimize import lsq_linear, minimize
from scipy.special import expit, log_softmax, logsumexp, softmax
from scipy.stats import chi2
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.core.workers import one_thread

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
    picked = np.maximum(proba[np.arange(len(y)), y], 1e-300)
    return [-np.log(picked).mean(), np.mean(proba.argmax(axis=1) != y)]


def mean_and_error(values):
    """The mean as text, with its standard error."""
    values = np.asarray(values, dtype=float)
    return f"{values.mean():.3f} ({values.std(ddof=1) / np.sqrt(len(values)):.3f})"


def mechanisms(replicates, first_seed):
    """Print what each fit makes of each mechanism."""
    settings = {
        "by the class (delta 1.5)": ((-0.5, 0.0), 1.5),
        "by uncertainty (slope 4)": ((-1.5, 4.0), 0.0),
        "by both": ((-1.5, 3.0), 1.5),
        "at random": ((0.0, 0.0), 0.0),
    }
    fits = {"ignored": {"link": None}, "no label term": {}, "estimated": {"delta": "estimate"}, "true delta": None}
    for kind in ("Gaussian", "Laplace"):
        for name, (alpha, delta) in settings.items():
            results = {}
            for seed in range(first_seed, first_seed + replicates):
                rng = np.random.default_rng(seed)
                X, y, u = classes(1000, rng, kind)
                fresh, truth, _ = classes(FRESH, rng, kind)
                z = hidden(y, u, alpha, (0.0, delta), rng)
                lost = z < 0
                for estimator in (MARGaussianMixture, MARLogisticRegression):
                    for fit, options in fits.items():
                        options = {"delta": {1: delta}} if options is None else options
                        clf = estimator(**options).fit(X, z)
                        imputed = clf.model_.unlabelled_posterior(X[lost]).tau.T
                        row = scores(imputed, y[lost])
                        row += [np.mean(1.0 - imputed.max(axis=1)), *scores(clf.predict_proba(fresh), truth)]
                        row.append(np.nan if clf.delta_ is None else clf.delta_[1])
                        results.setdefault((estimator.__name__, fit), []).append(row)
            print(f"\n{kind} classes, labels missing {name}")
            print(f"{'':32}{'imputed labels':>16}{'':32}{'population':>16}")
            head = ("log-loss", "error", "error said", "log-loss", "error", "delta")
            print(f"{'':32}" + "".join(f"{word:>16}" for word in head))
            for (estimator, fit), rows in results.items():
                values = [mean_and_error(column) for column in np.array(rows).T]
                values[-1] = "" if fit == "ignored" else values[-1]
                print(f"{estimator[3:]:20}{fit:>12}" + "".join(f"{value:>16}" for value in values))


# The literature.


def rosset(X, z, K):
    """P(label given | class) by moments, which are linear in its inverse: means of 1 and of the standardised features."""
    g = np.column_stack([np.ones(len(X)), StandardScaler().fit_transform(X)])
    members = (z[:, None] == np.arange(K)) * 1.0
    A, b = g.T @ members / len(X), g.mean(axis=0)
    weight = np.eye(len(b))
    for _ in range(2):  # the second step weights the moments by their covariance
        inverse = lsq_linear(weight @ A, weight @ b, (1.0, 1e3)).x
        residual = (members @ inverse)[:, None] * g - g
        values, vectors = np.linalg.eigh(residual.T @ residual / len(X))
        weight = (vectors / np.sqrt(np.maximum(values, 1e-6 * values[-1]))).T
    return 1.0 / inverse


def sportisse(X, z, K, equal=False):
    """phi and the maximised log-likelihood with a softmax classifier; `equal` for the hypothesis of equal phi."""
    x = np.column_stack([np.ones(len(X)), X])
    lost, given, label = z < 0, z >= 0, z[z >= 0]
    n = len(label)

    def negative(vector):
        beta = np.vstack([np.zeros(x.shape[1]), vector[: (K - 1) * x.shape[1]].reshape(K - 1, -1)])
        level = vector[(K - 1) * x.shape[1] :]
        eta = np.full(K, level[0]) if equal else level
        log_p = log_softmax(x @ beta.T, axis=1)
        log_phi, log_rest = -np.logaddexp(0.0, -eta), -np.logaddexp(0.0, eta)
        joint = log_p[lost] + log_rest
        value = log_p[given, label].sum() + log_phi[label].sum() + logsumexp(joint, axis=1).sum()
        r = softmax(joint, axis=1)
        G = np.zeros_like(log_p)
        G[given] = np.eye(K)[label] - np.exp(log_p[given])
        G[lost] = r - np.exp(log_p[lost])
        by_eta = np.bincount(label, minlength=K) * np.exp(log_rest) - r.sum(axis=0) * np.exp(log_phi)
        by_level = np.array([by_eta.sum()]) if equal else by_eta
        return -value, -np.concatenate([(G.T @ x)[1:].ravel(), by_level])

    share = np.log(n / (len(z) - n))
    best = None
    for spread in (0.0, 1.0) if not equal else (0.0,):
        level = share + spread * (np.log(np.bincount(label, minlength=K) / n * K) if not equal else 0.0)
        start = np.concatenate([np.zeros((K - 1) * x.shape[1]), np.broadcast_to(level, 1 if equal else K)])
        result = minimize(negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
        best = result if best is None or result.fun < best.fun else best
    eta = best.x[(K - 1) * x.shape[1] :]
    return expit(np.broadcast_to(eta, K)), -best.fun


def weighted_logistic(X, z, phi):
    """Logistic regression on the labelled rows, weighted by 1 / phi of their class to the number of all rows."""
    given = z >= 0
    weight = 1.0 / phi[z[given]]
    weight *= len(z) / weight.sum()
    return LogisticRegression(C=1.0, max_iter=2000).fit(X[given], z[given], sample_weight=weight)


def implied_phi(clf, X, z):
    """P(label given | class) of the rows according to a fit."""
    given = np.bincount(z[z >= 0], minlength=len(clf.classes_))
    return given / (given + clf.model_.unlabelled_posterior(X[z < 0]).tau.sum(axis=1))


def self_masked(name, rng):
    """Training rows, labels with -1 where missing, true phi, and rows of the population."""
    if name.startswith("Gaussian"):
        X, y, u = classes(1000, rng, "Gaussian")
        fresh, truth, _ = classes(FRESH, rng, "Gaussian")
        delta = {"Gaussian, unequal phi": 1.7, "Gaussian, slightly unequal phi": 0.5}.get(name, 0.0)
        alpha = (-1.5, 4.0) if name == "Gaussian, by uncertainty" else (-0.5 * delta, 0.0)
        z = hidden(y, u, alpha, (0.0, delta), rng)
    else:
        if name == "digits":
            X, y = load_digits(return_X_y=True)
            X = PCA(15, random_state=0).fit_transform(StandardScaler().fit_transform(X))
            phi = np.repeat([0.8, 0.3], 5)
        else:
            X, y = make_classification(
                4000,
                8,
                n_informative=5,
                n_redundant=0,
                n_classes=3,
                n_clusters_per_class=1,
                class_sep=1.0,
                random_state=7,
            )
            phi = np.array([0.8, 0.4, 0.2])
        order = rng.permutation(len(y))
        train, test = order[: min(1000, len(y) // 2)], order[min(1000, len(y) // 2) :]
        X = StandardScaler().fit_transform(X)
        fresh, truth, X, y = X[test], y[test], X[train], y[train]
        z = np.where(rng.uniform(size=len(y)) < phi[y], y, -1)
    true = np.array([np.mean(z[y == k] >= 0) for k in range(y.max() + 1)])  # of these rows
    return X, z, y, true, fresh, truth


def literature(replicates, first_seed):
    """Print estimates, scores and tests on self-masked data, and on data that are not."""
    names = [f"Gaussian, {phi}" for phi in ("unequal phi", "slightly unequal phi", "equal phi", "by uncertainty")]
    names += ["make_classification", "digits"]
    for name in names:
        results, rejected, limits = {}, {}, {}
        for seed in range(first_seed, first_seed + replicates):
            X, z, y, true, fresh, truth = self_masked(name, np.random.default_rng(seed))
            K, lost = len(true), z < 0

            def add(method, phi, proba, imputed, results=results, true=true, truth=truth, y=y, lost=lost):
                errors = [(phi - true)[-1], np.sqrt(np.mean((phi - true) ** 2))]
                results.setdefault(method, []).append([*errors, *scores(proba, truth), *scores(imputed, y[lost])])

            phi, free = sportisse(X, z, K)
            flat = sportisse(X, z, K, equal=True)[1]
            rejected.setdefault("Sportisse et al.", []).append(chi2.sf(2.0 * (free - flat), K - 1) < 0.05)
            moments = rosset(X, z, K)
            for method, estimate in (("Rosset et al.", moments), ("Sportisse et al.", phi)):
                clf = weighted_logistic(X, z, estimate)
                shifted = clf.predict_proba(X[lost]) * (1.0 - estimate)  # P(class | unlabelled)
                shifted = shifted / np.maximum(shifted.sum(axis=1, keepdims=True), 1e-300)
                add(method, estimate, clf.predict_proba(fresh), shifted)
            for method, estimator in (("mixture", MARGaussianMixture), ("logistic", MARLogisticRegression)):
                for delta in (None, "estimate"):
                    clf = estimator(delta=delta).fit(X, z)
                    imputed = clf.model_.unlabelled_posterior(X[lost]).tau.T
                    label = f"{method}, {'no label term' if delta is None else 'delta estimated'}"
                    add(label, implied_phi(clf, X, z), clf.predict_proba(fresh), imputed)
                    if delta is not None:
                        at_limit = any(note.code == "label-limit" for note in clf.model_.notes)
                        limits.setdefault(method, []).append((at_limit, scores(imputed, y[lost])[0]))
                if K <= 3:
                    options = {} if estimator is MARGaussianMixture else {"C": np.inf}
                    test = estimator(**options).fit(X, z).inference(X, z).test_label_term()
                    rejected.setdefault(f"{method}, test_label_term", []).append(test.p_value < 0.05)
        print(f"\n{name}: {len(X)} rows, {K} classes")
        print(f"{'':28}{'phi':>14}{'':18}{'population':>16}{'':16}{'imputed labels':>16}")
        head = ("bias (last)", "RMSE", "log-loss", "error", "log-loss", "error")
        print(f"{'':28}" + "".join(f"{word:>16}" for word in head))
        for method, rows in results.items():
            print(f"{method:28}" + "".join(f"{mean_and_error(column):>16}" for column in np.array(rows).T))
        shares = ", ".join(f"{method} {mean_and_error(share)}" for method, share in rejected.items())
        print(f"share of tests that reject at 5 %: {shares}")
        for method, fits in limits.items():
            rest = mean_and_error([loss for at_limit, loss in fits if not at_limit])
            warned = mean_and_error([at_limit for at_limit, _ in fits])
            print(
                f"{method}: share of fits that warn of a label term at its limit {warned}; log-loss of the others {rest}"
            )


def coverage(replicates, first_seed):
    """Print the coverage of intervals of an estimated delta, and the share of tests that reject delta = 0."""
    settings = {
        "by the class (delta 1.5)": ((-0.5, 0.0), 1.5),
        "by both (delta 1.5)": ((-1.5, 3.0), 1.5),
        "by uncertainty": ((-1.5, 4.0), 0.0),
        "at random": ((0.0, 0.0), 0.0),
    }
    print(f"{'':44}{'':12}{'intervals hold':>16}{'tests reject':>16}{'delta at limit':>16}")
    for kind in ("Gaussian", "Laplace"):
        for name, (alpha, delta) in settings.items():
            for model in ("mixture", "logistic"):
                rows = []
                for seed in range(first_seed, first_seed + replicates):
                    rng = np.random.default_rng(seed)
                    X, y, u = classes(1000, rng, kind)
                    z = hidden(y, u, alpha, (0.0, delta), rng)
                    options = {"delta": "estimate"} | ({} if model == "mixture" else {"C": np.inf})
                    clf = (MARGaussianMixture if model == "mixture" else MARLogisticRegression)(**options).fit(X, z)
                    result = clf.inference(X, z)
                    low, high = result.conf_int()[result.param_names.index("delta[1]")]
                    rows.append([low < delta < high, result.test_label_term().p_value < 0.05, abs(clf.delta_[1]) > 9.9])
                values = "".join(f"{mean_and_error(column):>16}" for column in np.array(rows).T)
                print(f"{kind + ', ' + name:44}{model:12}{values}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["mechanisms", "literature", "coverage"])
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first replicate")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with one_thread():
        parts = {"mechanisms": mechanisms, "literature": literature, "coverage": coverage}
        parts[options.part](options.replicates, options.seed)


if __name__ == "__main__":
    main()
