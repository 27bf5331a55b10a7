"""Coverage and length of 95 % intervals for answers from partially labelled rows.

**Simulated.** Three features, two classes, posteriors logistic in the features. About 60 % of the labels are missing: where
rows are hard, because of a feature, or because of the label (more of the first class). The posteriors are good (the true ones),
bad (twice as sharp, shifted and noisy) or misspecified (functions of other features). For each file: the share of a class, the
difference between two groups, and a coefficient of a linear and of a logistic regression. Columns:

- *marmix*: `marmix.estimate` with the posteriors as source,
- *audit of 20, 50*: the same from an audit of so many rows without a label,
- *ppi_py*: prediction-powered inference (PPI++) by the formulas of ppi_py 0.2.3, for which labels must be missing at random,
- *labelled*: labelled rows alone, *weighted*: the same with the weights 1 / (1 - q) of marmix,
- *imputed*: the most probable label in place of the missing one, and *Rubin*: 10 draws of labels from the posteriors, pooled.

Coverage is of the population's value; marmix claims it where labels are not missing because of the label, audits everywhere. A
method that gives no interval does not cover. Lengths are medians, relative to those of *weighted*, or for audits to those of an
audit of as many rows with posteriors of one half.

**Tests**: a score and a binary test of a disease of a fifth of the rows, verified by their result, by the score and a feature,
or by the disease, for which only the audit claims to hold.

**Real**: prevalence and odds ratio of ten years of age on the mammograms that radiologists left undecided, from
`MARLogisticRegression` with and without 50 audited biopsies; the share of planets by size of the candidate in the data of NASA's
Kepler mission (with `MARMIX_SHARED`). The truth is known.

    python benchmarks/estimate.py [--draws 500] [--rows 300 1000] [--hidden REASON ...] [--only simulated|tests|real]
"""

import os
from pathlib import Path

import numpy as np
from common import tables
from scipy.special import expit
from scipy.stats import norm
from scipy.stats import t as student

from marmix import Audit, MARLogisticRegression, diagnose, estimate
from marmix.datasets import load_mammography
from marmix.estimate.designs import Design, design_of
from marmix.estimate.equations import FAMILIES, means, regress
from marmix.estimate.results import answer

REASONS = ("hardness", "a feature", "the label")
ANSWERS = ("share", "difference", "linear", "logistic")
Z = norm.ppf(0.975)


class Says:
    """A classifier that gives these posteriors."""

    classes_ = np.array([0, 1])

    def __init__(self, proba):
        self.proba = proba

    def predict_proba(self, X):
        return self.proba


def population(n, why, posteriors, rng):
    """Features, true labels, which are missing, and posteriors."""
    X = rng.standard_normal((n, 3))
    X[:, 2] = X[:, 2] > 0
    eta = X @ [1.5, 0.7, 0.5] - 0.5
    y = (rng.random(n) < expit(eta)).astype(int)
    chance = {
        "hardness": expit(1.2 * np.abs(eta) - 2.2),
        "a feature": expit(X[:, 1] + 0.5 * X[:, 2] - 0.9),
        "the label": expit(1.5 * y - 1.4),
    }[why]
    odds = {
        "good": eta,
        "bad": 2.0 * eta + 1.0 + rng.standard_normal(n),
        "misspecified": 0.2 + X[:, 1] + 0.3 * X[:, 0] ** 2,
    }[posteriors]
    return X, y, rng.random(n) >= chance, np.column_stack([expit(-odds), expit(odds)])


def of_labels(X, y, weight=None, inflation=1.0):
    """Answers from labels alone as estimates and standard errors, with weights of the rows."""
    n = len(y)
    weight = np.ones(n) if weight is None else weight * n / weight.sum()
    labels = weight[:, None] * np.eye(2)[y]
    design = Design(
        "", "", np.arange(2), labels, np.zeros((n, 2)), np.ones(n), np.zeros((0, n, 2)), inflation=inflation
    )
    return of_design(design, X)


def of_design(design, X):
    """Answers as (estimate, low, high, variance)."""
    f, covariates = np.tile([0.0, 1.0], (len(X), 1)), np.column_stack([np.ones(len(X)), X[:, 2], X[:, 0]])[:, None]
    found = {"share": means(design, f, np.ones((len(X), 1)))}
    for name, family, p in (("difference", "linear", 2), ("linear", "linear", 3), ("logistic", "logistic", 3)):
        value, g = regress(design, FAMILIES[family], covariates[:, :, :p], f)
        found[name] = value[-1:], g[:, :, -1:]
    return {
        name: (one.value, *one.interval, one.stderr**2)
        for name, (value, g) in found.items()
        for one in [answer(design, "", [""], value, g, ["logit" if name == "share" else ""])]
    }


def ppi(X, y, missing, proba):
    """PPI++ intervals by the formulas of ppi_py (`ppi_mean_ci`, `ppi_ols_ci`, `ppi_logistic_ci`), lambda for the coordinate."""
    Y, lab = y[~missing].astype(float), ~missing
    f, n, N = proba[:, 1], int(lab.sum()), int(missing.sum())

    def tuned(labelled, predicted, unlabelled):
        """Estimate and variance of the mean of `labelled`, given predictions of it in both parts."""
        both = np.concatenate([predicted, unlabelled])
        lam = np.cov(labelled, predicted)[0, 1] / ((1 + n / N) * both.var(ddof=1))
        lam = np.clip(lam, 0.0, 1.0)
        centre = lam * unlabelled.mean() + np.mean(labelled - lam * predicted)
        return centre, lam**2 * unlabelled.var() / len(unlabelled) + np.var(labelled - lam * predicted) / len(labelled)

    found = {"share": tuned(Y, f[lab], f[missing])}
    parts = []
    for group in (1, 0):
        a, b = X[lab, 2] == group, X[missing, 2] == group
        parts.append(tuned(Y[a], f[lab][a], f[missing][b]))
    found["difference"] = parts[0][0] - parts[1][0], parts[0][1] + parts[1][1]
    W = np.column_stack([np.ones(len(X)), X[:, 0], X[:, 2]])
    for name in ("linear", "logistic"):
        family = FAMILIES[name]
        beta = np.zeros(3)

        def influences(b, family=family):
            """On the coefficient, of the labels, and of the predictions in both parts."""
            g = W @ np.linalg.inv((W * family.slope(W @ b)[:, None]).T @ W / len(W))[1]
            mu = family.mean(W @ b)
            return g[lab] * (mu[lab] - Y), g[lab] * (mu[lab] - f[lab]), g[missing] * (mu[missing] - f[missing])

        for lam in (1.0, None):  # the tuned lambda is found at the solution with lambda = 1
            if lam is None:
                own, seen, unseen = influences(beta)
                both = np.concatenate([seen, unseen])
                lam = np.clip(np.cov(own, seen)[0, 1] / ((1 + n / N) * both.var(ddof=1)), 0.0, 1.0)
            for _ in range(50):
                mu, slope = family.mean(W @ beta), family.slope(W @ beta)
                score = (
                    W[lab].T @ (mu[lab] - Y - lam * (mu[lab] - f[lab])) / n
                    + lam * W[missing].T @ (mu[missing] - f[missing]) / N
                )
                hessian = (1 - lam) * (W[lab] * slope[lab, None]).T @ W[lab] / n
                hessian = hessian + lam * (W[missing] * slope[missing, None]).T @ W[missing] / N
                move = np.linalg.solve(hessian, score)
                beta = beta - np.clip(move, -1, 1)
                if np.abs(move).max() < 1e-8:
                    break
        own, seen, unseen = influences(beta)
        variance = lam**2 * unseen.var() / N + np.var(own - lam * seen) / n
        found[name] = beta[1], variance
    return {name: (a, a - Z * v**0.5, a + Z * v**0.5, v) for name, (a, v) in found.items()}


def rubin(X, y, missing, proba, rng, m=10):
    """Labels drawn from the posteriors as they are, pooled by Rubin's rules."""
    draws = [of_labels(X, np.where(missing, rng.random(len(y)) < proba[:, 1], y).astype(int)) for _ in range(m)]
    found = {}
    for name in ANSWERS:
        value, within = np.mean([[one[name][0], one[name][3]] for one in draws], axis=0)
        between = (1 + 1 / m) * np.var([one[name][0] for one in draws], ddof=1)
        total = within + between
        half = student.ppf(0.975, (m - 1) * (total / between) ** 2) * total**0.5
        found[name] = value, value - half, value + half
    return found


def from_marmix(source, X, y):
    found = {
        "share": estimate.share(source, X, y),
        "difference": estimate.difference(source, X, y, X[:, 2]),
    }
    for family in ("linear", "logistic"):
        full = estimate.regression(source, X, y, [0, 2], family)
        found[family] = full
    return {
        name: (one.values[-1], *one.limits[-1]) if name in ("share", "difference") else (one.values[1], *one.limits[1])
        for name, one in found.items()
    }


def one_file(n, why, posteriors, seed):
    """Intervals by method and answer, of one simulated file."""
    rng = np.random.default_rng([seed, n])
    X, truth, missing, proba = population(n, why, posteriors, rng)
    y = np.where(missing, -1, truth)
    design = design_of(proba, X, y)
    methods = {
        "marmix": lambda: of_design(design, X),
        "weighted": lambda: of_labels(X[~missing], truth[~missing], design.weight[~missing], design.inflation),
        "labelled": lambda: of_labels(X[~missing], truth[~missing]),
        "imputed": lambda: of_labels(X, np.where(missing, proba.argmax(axis=1), truth)),
        "Rubin": lambda: rubin(X, truth, missing, proba, rng),
        "ppi_py": lambda: ppi(X, truth, missing, proba),
    }
    for k in (20, 50):
        audit = Audit(Says(proba), X, y, k, random_state=seed)
        result = audit.record(truth[audit.rows])
        methods[f"audit of {k}"] = lambda result=result: from_marmix(result, X, y)
        equal = Audit(Says(np.full_like(proba, 0.5)), X, y, k, random_state=seed)
        blind = equal.record(truth[equal.rows])
        blind.drawn.proba[missing] = 0.5
        methods[f"blind {k}"] = lambda blind=blind: from_marmix(blind, X, y)
    found = {}
    for name, method in methods.items():
        try:
            found[name] = method()
        except (ValueError, np.linalg.LinAlgError):
            found[name] = dict.fromkeys(ANSWERS, (np.nan,) * 3)
    return found


def truths():
    """The population's answers, from two million rows and their true posteriors."""
    X, *_ = population(2_000_000, "hardness", "good", np.random.default_rng(2**31))
    tau = expit(X @ [1.5, 0.7, 0.5] - 0.5)
    W = np.column_stack([np.ones(len(X)), X[:, 0], X[:, 2]])
    found = {"share": tau.mean(), "difference": tau[X[:, 2] == 1].mean() - tau[X[:, 2] == 0].mean()}
    for name in ("linear", "logistic"):
        family, beta = FAMILIES[name], np.zeros(3)
        for _ in range(15):
            beta = beta + np.linalg.solve(
                (W * family.slope(W @ beta)[:, None]).T @ W, W.T @ (tau - family.mean(W @ beta))
            )
        found[name] = beta[1]
    return found


def simulate(report, n_rows, n_draws, reasons):
    """The tables of answers."""
    truth = truths()
    names = ["marmix", "audit of 20", "audit of 50", "ppi_py", "labelled", "weighted", "imputed", "Rubin"]
    keys = {"rows": "d", "missing because of": "", "posteriors": "", "answer": ""}
    covers = report.table(
        "estimate, coverage", keys | dict.fromkeys(names, ".3f"), keys=4, heading="Coverage of 95 % intervals"
    )
    rows = []
    for n in n_rows:
        for why in reasons:
            for posteriors in ("good", "bad", "misspecified"):
                files = [one_file(n, why, posteriors, 1000 + seed) for seed in range(n_draws)]
                for name in ANSWERS:
                    ends = {method: np.array([file[method][name] for file in files]) for method in files[0]}
                    right = {m: (e[:, 1] <= truth[name]) & (truth[name] <= e[:, 2]) for m, e in ends.items()}
                    length = {m: np.nanmedian(e[:, 2] - e[:, 1]) for m, e in ends.items()}
                    covers.add(n, why, posteriors, name, *(tables.mean(right[method]) for method in names))
                    relative = [length["marmix"] / length["weighted"]]
                    relative += [length[f"audit of {k}"] / length[f"blind {k}"] for k in (20, 50)]
                    relative += [length[method] / length["weighted"] for method in names[3:]]
                    rows.append((n, why, posteriors, name, *relative))
    lengths = report.table(
        "estimate, lengths",
        keys | dict.fromkeys(names, ".2f"),
        keys=4,
        within=0.1,
        heading="Relative lengths (medians)",
    )
    for row in rows:
        lengths.add(*row)


def tests(report, n_rows, n_draws):
    """The table of a test whose positives are verified more often."""
    columns = {"rows": "d", "verified by": "", "quantity": ""}
    names = ["marmix", "labelled", "audit of 50"]
    table = report.table(
        "estimate, tests",
        columns | dict.fromkeys(names, ".3f") | {"length": ".3f", "length, labelled": ".3f"},
        keys=3,
        heading="A test: coverage, and median lengths",
    )
    for n in n_rows:
        for by in ("a binary test", "a score and a feature", "the label"):
            found = {name: [] for name in ("sensitivity", "specificity", "AUC")}
            for seed in range(n_draws):
                rng = np.random.default_rng([2000 + seed, n])
                x, score, truth = sample_of_test(n, rng)
                positive = (score >= 1.0).astype(float)
                chance = {
                    "a binary test": np.where(positive == 1, 0.8, 0.15),
                    "a score and a feature": expit(score + x - 1.5),
                    "the label": np.where(truth == 1, 0.6, 0.2),
                }[by]
                y = np.where(rng.random(n) < chance, truth, -1)
                test, more = (
                    (positive, {}) if by != "a score and a feature" else (score, {"X": x[:, None], "threshold": 1.0})
                )
                result = diagnose(test, y, **more)
                audit = Audit(Says(np.column_stack([expit(1 - score), expit(score - 1)])), x[:, None], y, 50)
                audited = diagnose(test, y, source=audit.record(truth[audit.rows]), **{"X": x[:, None]} | more)
                for name in found:
                    i, want = result.corrected.names.index(name), TRUE_TEST[test is score][name]
                    ends = result.corrected.limits[i], result.naive.limits[i], audited.corrected.limits[i]
                    found[name].append([*(a <= want <= b for a, b in ends), np.ptp(ends[0]), np.ptp(ends[1])])
            for name, cells in found.items():
                cells = np.array(cells, dtype=float)
                table.add(n, by, name, *map(tables.mean, cells[:, :3].T), *np.median(cells[:, 3:], axis=0))


def sample_of_test(n, rng):
    """A feature, a score and the truth of a disease of a fifth of the rows."""
    truth = (rng.random(n) < 0.2).astype(int)
    x = rng.standard_normal(n) + 0.5 * truth
    return x, rng.standard_normal(n) + 2.0 * truth, truth


_RATES = {"sensitivity": norm.sf(-1.0), "specificity": norm.cdf(1.0)}
TRUE_TEST = {
    True: _RATES | {"AUC": norm.cdf(2.0 / np.sqrt(2.0))},
    False: _RATES | {"AUC": 0.5 * sum(_RATES.values())},
}


def real(report, n_draws):
    """Files whose labels are really missing."""
    masses = load_mammography()
    X, y, truth = masses.data, masses.target, masses.target_true
    decades = X * [0.1, 1.0, 1.0, 1.0]
    clf = MARLogisticRegression().fit(X, y)
    table = report.table(
        "estimate, mammograms",
        {
            "answer": "",
            "source": "",
            "estimate": ".3f",
            "low": ".3f",
            "high": ".3f",
            "with all biopsies": ".3f",
            "covers": ".2f",
        },
        keys=2,
        heading="Mammograms",
    )
    all_labels = np.eye(2)[truth]
    sources = {"labelled rows": None, "no audit": clf}
    results = []
    for seed in range(n_draws):
        audit = Audit(clf, X, y, 50, random_state=seed)
        results.append(audit.record(truth[audit.rows]))
    for name, of in (
        ("prevalence", lambda source, X, y, **more: estimate.share(source, X, y, **more)),
        ("odds ratio, ten years", lambda source, X, y: estimate.regression(source, X, y, decades[:, :1])),
    ):
        change = np.exp if name != "prevalence" else float
        want = change(of(all_labels, X, truth).values[-1])
        for source, clf_or_none in sources.items():
            known = y >= 0
            if clf_or_none is None:
                one = (
                    of(all_labels[known], X[known], y[known])
                    if name == "prevalence"
                    else estimate.regression(all_labels[known], X[known], y[known], decades[known, :1])
                )
            else:
                one = of(clf, X, y)
            low, high = map(change, one.limits[-1])
            table.add(name, source, change(one.values[-1]), low, high, want, float(low <= want <= high))
        ends = [of(result, X, y) for result in results]
        limits = np.array([[change(value) for value in (one.values[-1], *one.limits[-1])] for one in ends])
        hits = tables.mean((limits[:, 1] <= want) & (want <= limits[:, 2]))
        table.add(name, f"50 audited, mean of {n_draws} draws", *limits.mean(axis=0), want, hits)
    folder = Path(os.environ.get("MARMIX_SHARED", "")) / "data" / "real"
    if not folder.is_dir():
        return
    import pandas as pd

    planets = pd.read_csv(folder / "koi_2013.csv")
    planets = planets[planets["truth"].notna()].reset_index(drop=True)
    X = planets.drop(columns=["kepoi_name", "label", "truth"])
    skewed = [column for column in X if X[column].min() > 0 and X[column].max() > 20 * X[column].median()]
    X[skewed] = np.log(X[skewed])
    X = X.fillna(X.median())
    X = (X - X.mean()) / X.std()
    y = planets["label"].astype(object).where(planets["label"].notna(), None).to_numpy()
    truth = planets["truth"].to_numpy(dtype=object)
    radius = planets["koi_prad"].to_numpy()
    size = np.select([radius < 2, radius < 6], ["1 below 2 Earth radii", "2 from 2 to 6"], "3 from 6")
    clf = MARLogisticRegression().fit(X, y)
    of = next(name for name in clf.classes_ if "FALSE" not in str(name).upper())
    table = report.table(
        "estimate, planets",
        {
            "size": "",
            "truth": ".3f",
            "labelled rows": ".3f",
            "no audit": ".3f",
            "50 audited": ".3f",
            "low": ".3f",
            "high": ".3f",
        },
        heading=f"Share of {of} among candidates, by size",
    )
    audit = Audit(clf, X, y, 50)
    result = audit.record(truth[audit.rows])
    for name in np.unique(size):
        inside = (size == name).astype(float)
        shares = []
        for source in (clf, result):
            one = estimate.regression(source, X, y, np.column_stack([inside]), "linear", of=of)
            shares.append(one.values.sum())
        one = estimate.regression(
            result, X, y, np.column_stack([1.0 - inside]), "linear", of=of
        )  # its intercept is the share
        known = (inside == 1) & np.array([label is not None for label in y])
        table.add(name, np.mean(truth[inside == 1] == of), np.mean(y[known] == of), *shares, *one.limits[0])


def main():
    """Run everything, and print the tables."""
    parser = tables.parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=500, metavar="N", help="files of each kind")
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000], metavar="N", help="rows of a file")
    parser.add_argument("--hidden", nargs="+", default=REASONS, choices=REASONS, help="why labels are missing")
    parser.add_argument("--only", choices=("simulated", "tests", "real"), help="one part of it")
    args = parser.parse_args()
    report = tables.Report()
    if args.only in (None, "simulated"):
        simulate(report, args.rows, args.draws, args.hidden)
    if args.only in (None, "tests"):
        tests(report, args.rows, args.draws)
    if args.only in (None, "real"):
        real(report, min(args.draws, 200))
    report.write(args.json)


if __name__ == "__main__":
    main()
