"""Do intervals cover, and do tests keep their level? Simulations at n = 1000.

    python benchmarks/coverage.py [--replicates 1000] [--jobs 2] [--out DIR]
    python benchmarks/coverage.py --small [--replicates 200]

The second prints figures for 200 rows, described at `small` and `rubin`. The first writes coverage.md and coverage.png (which
needs the extra `plot`): coverage of 95 % Wald and profile intervals where the model is right, of sandwich intervals for the
pseudo-true parameters (those of a fit to a million rows) where it is wrong, sizes
of the tests at 5 %, and power curves. Classes are bivariate normals with unit covariances, means (-1, 0), (1, 0), (0, 1.7).
Labels go missing by the squared margin (2 classes, logit, alpha = 2, -4) or the entropy (3 classes, logit, alpha = -1.5, 3).
Where the model is wrong, classes are the paper's Laplace (mixture) or Gamma laws (logistic) and the link has shape 2.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.special import log_softmax
from scipy.stats import chi2, gamma, laplace

from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.inference.hypotheses import informative
from marmix.inference.profile import _bartlett, _Surface

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


def normal_rows(k, rng, n=N, alpha=None, shape=1.0, one_sided=0.0):
    """Rows of k normal classes; `one_sided` moves the loss of labels to one side of the boundary."""
    y = rng.integers(k, size=n)
    X = rng.normal(size=(n, 2)) + MEANS[y]
    log_tau = log_softmax(-0.5 * ((X[:, None] - MEANS[:k]) ** 2).sum(axis=2), axis=1)
    a, b = ALPHA[k] if alpha is None else alpha
    eta = a + b * uncertainty(log_tau)
    if one_sided:
        eta = eta + one_sided * (np.exp(log_tau[:, 1]) - np.exp(log_tau[:, 0]))
    return X, hidden(y, eta, shape, rng)


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
    limits = result.conf_int(LEVEL, kind)
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
        test = informative(free._fitted, bootstrap=True, n_resamples=1, random_state=seed)
        out["informative, Aranda-Ordaz, bootstrap"] = (test.statistic, *test.details["simulated"])
    X, z = normal_rows(k, np.random.default_rng([4, k, seed]))
    result = fitted(model, k, X, z).inference(X, z)
    out["link is logit"] = result.test_link("logit").p_value
    out["mechanism is right (Hausman)"] = result.test_mechanism().p_value
    check = result.goodness_of_fit()
    out["missingness fits, binned"], out["missingness fits, smoothed"] = check.binned.p_value, check.smooth.p_value
    out["missingness fits, by a feature rounded to integers"] = result.goodness_of_fit(
        by=np.rint(X[:, 1])
    ).smooth.p_value
    a, b = ALPHA[k]
    X, z = normal_rows(k, np.random.default_rng([5, k, seed]), alpha=(a - 0.5, b), shape=0.0)
    out["link is cloglog"] = fitted(model, k, X, z, "cloglog").inference(X, z).test_link("cloglog").p_value
    return out


POWER = {
    "slope (informative?)": (0.0, -0.25, -0.5, -0.75, -1.0, -1.5),
    "shape (logit?)": (0.0, 0.25, 1.0, 2.0, 4.0, 8.0),
    "one-sidedness (mechanism right?)": (0.0, 0.5, 1.0, 1.5, 2.0),
}


def power(model, curve, strength, seed):
    """Whether the tests reject at 5 %."""
    rng = np.random.default_rng([6, list(POWER).index(curve), int(100 * abs(strength)), seed])
    if curve.startswith("slope"):
        X, z = normal_rows(2, rng, alpha=(-0.5 * strength, strength))
        p = {"likelihood ratio": fitted(model, 2, X, z).inference(X, z).test_informative(bootstrap=False).p_value}
    elif curve.startswith("shape"):
        X, z = normal_rows(2, rng, shape=strength)
        p = {"likelihood ratio": fitted(model, 2, X, z).inference(X, z).test_link("logit").p_value}
    else:
        X, z = normal_rows(2, rng, one_sided=strength)
        result = fitted(model, 2, X, z).inference(X, z)
        p = {"Hausman": result.test_mechanism().p_value}
        p["by uncertainty"] = result.goodness_of_fit().smooth.p_value
        p["by class probability"] = result.goodness_of_fit(by="1").smooth.p_value
    return {name: value < LEVEL for name, value in p.items()}


def small(k, replicates, corrected=8, n_resamples=40):
    """Profile intervals of alpha_1 at n = 200, full covariances: coverage, and what Bartlett's correction makes of it.

    The statistic at the truth is a chi-square in large samples, of mean one. Its mean is estimated for the first `corrected` data
    sets, as `profile(..., n_resamples=...)` does, and the coverage of all is that with the average of these factors.
    """
    squares, factors = [], []
    for seed in range(replicates):
        X, z = normal_rows(k, np.random.default_rng([7, k, seed]), n=SMALL)
        if min(np.sum(z == c) for c in range(k)) < 3:
            continue
        inference = fitted("mixture", k, X, z).inference(X, z).fitted
        squares.append(_Surface(inference, 1).root(ALPHA[k][1]) ** 2)
        if len(factors) < corrected:
            factors.append(_bartlett(inference, "alpha_1", n_resamples, None, seed))
    squares, limit = np.array(squares), chi2.isf(LEVEL, 1)
    plain, better = percent(squares < limit), percent(squares < np.mean(factors) * limit)
    errors = [np.sqrt(p * (100.0 - p) / len(squares)) for p in (plain, better)]
    print(
        f"| {k} classes | {len(squares)} | {plain:.1f} ± {errors[0]:.1f} | {squares.mean():.2f} | {np.mean(factors):.2f} | "
        f"{better:.1f} ± {errors[1]:.1f} |",
        flush=True,
    )


def rubin(replicates, m=10):
    """Pooled standard errors of a logistic regression of imputed labels, over the standard deviation of its estimates."""
    estimates, errors = [], []
    for seed in range(replicates):
        X, z = normal_rows(2, np.random.default_rng([8, seed]), n=500)
        design = np.column_stack([np.ones(len(X)), X])

        def analysis(labels, X=X, design=design):
            clf = MARLogisticRegression(C=np.inf, link=None).fit(X, labels)
            p = clf.predict_proba(X)[:, 1]
            covariance = np.linalg.inv(design.T @ (design * (p * (1.0 - p))[:, None]))
            return np.concatenate([clf.intercept_, clf.coef_[0]]), covariance

        pooled = fitted("mixture", 2, X, z).multiple_imputations(X, z, m=m, random_state=seed).pool(analysis)
        estimates.append(pooled.params)
        errors.append(pooled.bse)
    ratio = np.mean(errors, axis=0) / np.std(estimates, axis=0, ddof=1)
    text = ", ".join(f"{r:.2f} ± {r / np.sqrt(2.0 * replicates):.2f}" for r in ratio)
    print(f"Pooled standard errors over standard deviations (intercept, slopes), {replicates} replicates: {text}")


def quietly(task, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task(*args)


def repeated(jobs, replicates, task, *args):
    """Results of all seeds as lists by key."""
    done = Parallel(jobs)(delayed(quietly)(task, *args[:-1], seed, *args[-1]) for seed in range(replicates))
    return {key: [part[key] for part in done] for key in done[0]}


def percent(hits):
    return 100.0 * np.nanmean(hits)


def coverage_table(results):
    lines = ["| model | intervals | mean | lowest | highest |", "|---|---|---|---|---|"]
    for title, found in results.items():
        for kind in dict.fromkeys(key[0] for key in found):
            each = {name: percent(hits) for (of, name), hits in found.items() if of == kind}
            declined = max(np.mean(np.isnan(hits)) for (of, _), hits in found.items() if of == kind)
            low, high = min(each, key=each.get), max(each, key=each.get)
            if len(each) <= 2:
                lines += [f"| {title} | {kind}, {name} | {value:.1f} | | |" for name, value in each.items()]
            else:
                mean = np.mean(list(each.values()))
                given = f" (no interval of alpha and shape in {declined:.0%})" if declined else ""
                lines.append(
                    f"| {title} | {kind}{given} | {mean:.1f} | {each[low]:.1f} ({low}) | {each[high]:.1f} ({high}) |"
                )
    return lines


def size_table(results):
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    lines = ["| test | " + " | ".join(results) + " |", "|---" * (1 + len(results)) + "|"]
    for name in names:
        cells = []
        for found in results.values():
            if name not in found:
                cells.append("")
            elif isinstance(found[name][0], tuple):
                observed, simulated = np.array([pair for pair in found[name] if len(pair) == 2]).T
                cells.append(f"{percent(observed > np.quantile(simulated, 1 - LEVEL)):.1f}")
            else:
                cells.append(f"{percent(np.array(found[name]) < LEVEL):.1f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def figure(path, curves):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(POWER), figsize=(11, 4.3), sharey=True, layout="constrained")
    colours, styles = {"mixture": "#0072B2", "logistic": "#D55E00"}, ["-", "--", ":"]
    for axis, curve in zip(axes, POWER, strict=True):
        tests = list(dict.fromkeys(test for model in MODELS for test in curves[model, curve][0]))
        for model in MODELS:
            for test, style in zip(tests, styles, strict=False):
                values = [percent(point[test]) for point in curves[model, curve]]
                label = model if len(tests) == 1 else f"{model}, {test}"
                axis.plot(POWER[curve], values, style, color=colours[model], marker="o", ms=3, label=label)
        axis.axhline(100 * LEVEL, color="0.6", lw=0.8)
        axis.set_xlabel(curve)
        axis.set_ylim(0, 102)
        axis.legend(
            fontsize=6.5,
            frameon=False,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.17),
            ncols=2,
            handlelength=2.5,
            columnspacing=1.0,
        )
    axes[0].set_ylabel(f"rejected at 5 %, % (n = {N})")
    axes[0].invert_xaxis()
    fig.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("coverage"))
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.small:
        warnings.simplefilter("ignore")
        print("| alpha_1, n = 200 | fits | covered, % | mean statistic | Bartlett's factor | covered with it, % |")
        print("|---|---|---|---|---|---|")
        for k in (2, 3):
            small(k, args.replicates)
        rubin(max(args.replicates // 2, 10))
        return
    began = time.perf_counter()
    settings = [(model, k) for model in MODELS for k in (2, 3)]
    holds, levels = {}, {}
    for model, k in settings:
        title = f"{model}, {k} classes"
        holds[title] = repeated(args.jobs, args.replicates, right, model, k, ())
        levels[title] = repeated(args.jobs, args.replicates, sizes, model, k, ())
        print(f"{title}: {time.perf_counter() - began:.0f} s", flush=True)
    astray = {}
    for model in MODELS:
        X, z = wrong_rows(model, np.random.default_rng(0), PSEUDO_TRUE_ROWS)
        pseudo = quietly(fitted, model, 2, X, z).inference(X, z).params
        astray[model] = repeated(args.jobs, args.replicates, wrong, model, (pseudo,))
    curves = {
        (model, curve): [
            repeated(args.jobs, max(args.replicates // 5, 10), power, model, curve, at, ()) for at in points
        ]
        for model in MODELS
        for curve, points in POWER.items()
    }
    error = 100.0 * np.sqrt(0.05 * 0.95 / args.replicates)
    lines = [
        f"{args.replicates} replicates of n = {N} rows; a percentage near 95 or 5 has a standard error of {error:.1f}.",
        "",
        "## Where the model is right: % of 95 % intervals that hold the truth",
        "",
        *coverage_table(holds),
        "",
        "## Where the model is wrong: % of 95 % intervals that hold the pseudo-true parameter",
        "",
        *coverage_table(astray),
        "",
        "## Sizes of the tests: % rejected at 5 % where the hypothesis holds",
        "",
        *size_table(levels),
        "",
        "The size of the bootstrap test is that of one simulated sample a replicate, all of them pooled (the warp-speed method).",
    ]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "coverage.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        figure(args.out / "coverage.png", curves)
    except ImportError:
        print("no figure: install the extra `plot`")
    print("\n".join(lines))
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
