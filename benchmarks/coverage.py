"""Do intervals cover, and do tests keep their level? Simulations at n = 1000.

    python benchmarks/coverage.py [--replicates 1000] [--jobs 2]
    python benchmarks/coverage.py --small [--replicates 200]

The second prints figures for 200 rows, described at `small`. The first (20 minutes on two cores) prints the coverage
of 95 % Wald and profile intervals where the model is right, that of sandwich intervals for the pseudo-true parameters (those of a
fit to a million rows) where it is wrong, and sizes of the tests at 5 %. Classes are bivariate normals with unit covariances
and means (-1, 0), (1, 0), (0, 1.7). Labels go missing by the squared margin (2 classes, logit, alpha = 2, -4) or the entropy
(3 classes, logit, alpha = -1.5, 3). Where the model is wrong, classes are the paper's Laplace (mixture) or Gamma laws (logistic)
and the link has shape 2.
"""

import os
import warnings
from functools import partial

import numpy as np
from common import tables
from joblib import Parallel, delayed
from scipy.special import log_softmax
from scipy.stats import gamma, laplace

from marmix import Inference, MARGaussianMixture, MARLogisticRegression
from marmix.inference.hypotheses import informative

N, SMALL, LEVEL, PSEUDO_TRUE_ROWS = 1000, 200, 0.05, 1_000_000
MEANS = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.7]])
ALPHA = {2: (2.0, -4.0), 3: (-1.5, 3.0)}
MEASURE = {2: "margin", 3: "entropy"}
KINDS = ("sandwich", "observed", "expected")
MODELS = {"mixture": MARGaussianMixture, "logistic": MARLogisticRegression}


def uncertainty(log_tau):
    tau = np.exp(log_tau)
    return (tau[:, 0] - tau[:, 1]) ** 2 if tau.shape[1] == 2 else -np.sum(tau * log_tau, axis=1)


def hidden(y, eta, shape, rng):
    """Labels, lost with the Aranda-Ordaz probability."""
    n = np.exp(eta) if shape == 0 else np.log1p(shape * np.exp(eta)) / shape
    return np.where(rng.uniform(size=len(y)) < -np.expm1(-n), -1, y)


def normal_rows(k, rng, n=N, alpha=None, shape=1.0):
    """Rows of k normal classes."""
    y = rng.integers(k, size=n)
    X = rng.normal(size=(n, 2)) + MEANS[y]
    log_tau = log_softmax(-0.5 * ((X[:, None] - MEANS[:k]) ** 2).sum(axis=2), axis=1)
    a, b = ALPHA[k] if alpha is None else alpha
    return X, hidden(y, a + b * uncertainty(log_tau), shape, rng)


def wrong_rows(model, rng, n=N):
    """Two classes that are not the model's, labels lost by a link that is not the fitted one."""
    if model == "mixture":
        laws = [[laplace(-1, 1), laplace(0, 0.8)], [laplace(1, 1), laplace(0, 0.8)]]
    else:
        laws = [[gamma(3), gamma(3)], [gamma(5), gamma(5)]]
    y = rng.integers(2, size=n)
    X = np.column_stack([np.where(y == 0, *(law[j].rvs(size=n, random_state=rng) for law in laws)) for j in (0, 1)])
    log_tau = log_softmax(np.column_stack([law[0].logpdf(X[:, 0]) + law[1].logpdf(X[:, 1]) for law in laws]), axis=1)
    return X, hidden(y, 2.0 - 4.0 * uncertainty(log_tau), 2.0, rng)


def fitted(model, k, X, z, link="logit"):
    options = {"C": np.inf} if model == "logistic" else {"covariance_type": "full"}
    return MODELS[model](link=link, measure=MEASURE[k], **options).fit(X, z)


def truth(model, k):
    """True parameters by name."""
    names, classes = {}, range(k)
    if model == "mixture":
        for c in classes:
            names |= {f"weight[{c}]": 1 / k, f"mean[{c}, x0]": MEANS[c, 0], f"mean[{c}, x1]": MEANS[c, 1]}
            names |= {f"var[{c}, x0]": 1.0, f"cov[{c}, x0, x1]": 0.0, f"var[{c}, x1]": 1.0}
    else:
        b = -0.5 * (MEANS[:k] ** 2).sum(axis=1)
        if k == 2:
            names |= {"const": b[1] - b[0], "x0": MEANS[1, 0] - MEANS[0, 0], "x1": MEANS[1, 1] - MEANS[0, 1]}
        else:
            for c in classes:
                w = MEANS[c] - MEANS[:k].mean(axis=0)
                names |= {f"const[{c}]": b[c] - b.mean(), f"x0[{c}]": w[0], f"x1[{c}]": w[1]}
    return names | {"alpha_0": ALPHA[k][0], "alpha_1": ALPHA[k][1], "shape": 1.0}


def right(model, k, seed):
    """Whether each interval holds the truth: Wald of three kinds, and profile of the slope, with shape known and free."""
    X, z = normal_rows(k, np.random.default_rng([1, k, seed]))
    true, out = truth(model, k), {}
    result = fitted(model, k, X, z).inference(X, z)
    for kind in KINDS:
        out |= held(result, kind, true, kind)
    found = result.profile("alpha_1")
    out["profile", "alpha_1"] = found.lower <= true["alpha_1"] <= found.upper
    if k == 2:
        result = fitted(model, k, X, z, "aranda-ordaz").inference(X, z)
        out |= held(result, "sandwich", true, "sandwich, shape free")
        for name in ("alpha_1", "shape"):
            found = result.profile(name)
            out["profile, shape free", name] = found.lower <= true[name] <= found.upper
    return out


def held(result, kind, true, title):
    """Whether each Wald interval holds the truth; NaN where the inference declines to give one."""
    values = np.array([true[name] for name in result.param_names])
    limits = Inference(result.fitted, kind).conf_int(LEVEL)
    hits = np.where(np.isnan(limits[:, 0]), np.nan, (limits[:, 0] <= values) & (values <= limits[:, 1]))
    return {(title, name): hit for name, hit in zip(result.param_names, hits, strict=True)}


def wrong(model, seed, pseudo):
    X, z = wrong_rows(model, np.random.default_rng([2, seed]))
    result = fitted(model, 2, X, z).inference(X, z)
    true = dict(zip(result.param_names, pseudo, strict=True))
    return held(result, "sandwich", true, "sandwich") | held(result, "observed", true, "observed")


def sizes(model, k, seed):
    """p-values where the hypothesis holds, and (statistic, simulated statistic) pairs where it is simulated."""
    out = {}
    X, z = normal_rows(k, np.random.default_rng([3, k, seed]), alpha=(0.0, 0.0))
    result = fitted(model, k, X, z).inference(X, z)
    out["informative, logit"] = result.test_informative(bootstrap=False).p_value
    out["missing completely at random"] = result.test_mcar().p_value
    if k == 2:
        free = fitted(model, k, X, z, "aranda-ordaz").inference(X, z)
        test = informative(free.fitted, bootstrap=True, n_resamples=1, random_state=seed)
        out["informative, Aranda-Ordaz, bootstrap"] = (test.statistic, *test.details["simulated"])
    X, z = normal_rows(k, np.random.default_rng([4, k, seed]))
    result = fitted(model, k, X, z).inference(X, z)
    out["mechanism is right (Hausman)"] = result.test_mechanism().p_value
    return out


def small(report, replicates):
    """Coverage of the profile intervals of alpha_1 at n = 200, full covariances."""
    table = report.table("small", {"alpha_1, n = 200": "", "fits": "", "covered, %": ".1f"}, within=0.05)
    for k in (2, 3):
        hits = []
        for seed in range(replicates):
            X, z = normal_rows(k, np.random.default_rng([7, k, seed]), n=SMALL)
            if min(np.sum(z == c) for c in range(k)) < 3:
                continue
            found = fitted("mixture", k, X, z).inference(X, z).profile("alpha_1")
            hits.append(found.lower <= ALPHA[k][1] <= found.upper)
        table.add(f"{k} classes", len(hits), percent(hits))


def quietly(task, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task(*args)


def repeated(jobs, replicates, task, *args, **kwargs):
    """Results of all seeds as lists by key."""
    done = Parallel(jobs)(delayed(quietly)(partial(task, **kwargs), *args, seed) for seed in range(replicates))
    return {key: [part[key] for part in done] for key in done[0]}


def percent(hits):
    """The percentage of hits and its standard error."""
    hits = np.asarray(hits, dtype=float)
    share, n = 100.0 * np.nanmean(hits), np.sum(np.isfinite(hits))
    return tables.Mean(share, np.sqrt(share * (100.0 - share) / n))


def print_coverage(report, heading, results):
    """The mean coverage of the parameters, with the lowest and the highest."""
    columns = {"model": "", "intervals": "", "mean": ".1f", "lowest": "", "highest": "", "without interval, %": ".0f"}
    table = report.table(heading, columns, keys=2, heading=f"## {heading}", within=0.03)
    for title, hits in results.items():
        for kind in dict.fromkeys(key[0] for key in hits):
            shares = {name: percent(values).value for (of, name), values in hits.items() if of == kind}
            declined = max(100.0 * np.mean(np.isnan(values)) for (of, _), values in hits.items() if of == kind)
            if len(shares) <= 2:
                for name, value in shares.items():
                    table.add(title, f"{kind}, {name}", value, "", "", declined)
            else:
                ends = [
                    f"{shares[name]:.1f} ({name})"
                    for name in (min(shares, key=shares.get), max(shares, key=shares.get))
                ]
                table.add(title, kind, np.mean(list(shares.values())), *ends, declined)


def print_sizes(report, heading, results):
    """Percentages of rejections; pairs are observed and simulated statistics (the warp-speed method)."""
    table = report.table(heading, {"test": "", **dict.fromkeys(results, ".1f")}, heading=f"## {heading}")
    for name in dict.fromkeys(name for found in results.values() for name in found):
        cells = []
        for values in (found.get(name) for found in results.values()):
            if values is None:
                cells.append(None)
            elif isinstance(values[0], tuple):
                observed, simulated = np.array([pair for pair in values if len(pair) == 2]).T
                cells.append(percent(observed > np.quantile(simulated, 1 - LEVEL)))
            else:
                cells.append(percent(np.array(values) < LEVEL))
        table.add(name, *cells)
    report.say("", "The size of the bootstrap test is that of one simulated sample a replicate, all of them pooled.")


def large(report, args):
    """Coverage and sizes at n = 1000."""
    holds, levels, astray = {}, {}, {}
    for model in MODELS:
        for k in (2, 3):
            title = f"{model}, {k} classes"
            holds[title] = repeated(args.jobs, args.replicates, right, model, k)
            levels[title] = repeated(args.jobs, args.replicates, sizes, model, k)
        X, z = wrong_rows(model, np.random.default_rng(0), PSEUDO_TRUE_ROWS)
        pseudo = quietly(fitted, model, 2, X, z).inference(X, z).params
        astray[model] = repeated(args.jobs, args.replicates, wrong, model, pseudo=pseudo)
    error = 100.0 * np.sqrt(0.05 * 0.95 / args.replicates)
    report.say(
        f"{args.replicates} replicates of n = {N} rows; a percentage near 95 or 5 has a standard error of {error:.1f}."
    )
    print_coverage(report, "Where the model is right: % of 95 % intervals that hold the truth", holds)
    print_coverage(report, "Where the model is wrong: % of 95 % intervals that hold the pseudo-true parameter", astray)
    print_sizes(report, "Sizes of the tests: % rejected at 5 % where the hypothesis holds", levels)


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    report = tables.Report()
    if args.small:
        warnings.simplefilter("ignore")
        small(report, args.replicates)
    else:
        large(report, args)
    report.write(args.json)


if __name__ == "__main__":
    main()
