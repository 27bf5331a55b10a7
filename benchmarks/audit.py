"""Coverage and width of the intervals of an audit, and what it repairs.

**Populations** are rows whose label is missing, with a model's probabilities and the truth; each is audited again and again.
Three are real, if `MARMIX_SHARED` names the folder that has them: mammograms that a radiologist left undecided, planet candidates
of NASA, and photographs on which three people disagree. Their model is `MARLogisticRegression` (`--average`: `MARClassifierCV`,
minutes a file). The others are simulated: the model knows the true posteriors, but for what the name says.

**Coverage** is the share of audits whose 95 % interval has the number of wrong labels: melded, of a simple random sample (exact),
after learning (the number among the rows that were not audited), and of prediction-powered inference for the mean of the error
indicator, with the model's own doubt as the prediction (PPI and PPI++ of a simple random sample, as `ppi_mean_ci` of ppi-python
0.2.3 computes them). Half widths are shares of the rows.

**Learning**: accuracy and log-loss on the rows that were not audited, and how often the audit contradicts the model.

**Looks** at 20, 30, ..., 100 rows: how often all intervals are right at once, how often the first one no wider than +/- 10 % is
right, and how much wider the sequence is.

    python benchmarks/audit.py [--draws 1000] [--jobs 2] [--average]
"""

import time
from functools import lru_cache, partial

import numpy as np
from common import tables
from common.rows import unlabelled
from joblib import Parallel, delayed
from scipy.special import log_softmax, softmax
from scipy.stats import norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import Audit, MARClassifierCV, MARLogisticRegression
from marmix.audit.draw import draw, strata_of
from marmix.audit.intervals import Sample, total
from marmix.audit.learning import learn

SIZES = (20, 50, 100)
LOOKS = range(20, 101, 10)
NOTHING = np.empty(0, dtype=int)


# populations


def real(name, average=False):
    """Probabilities and true classes of the rows whose label was missing and whose truth is known, or None without the file."""
    found = unlabelled(name)
    if found is None:
        return None
    X, y, truth = found
    clf = MARClassifierCV() if average else make_pipeline(StandardScaler(), MARLogisticRegression())
    clf.fit(X, y)
    rows = (y < 0) & (truth >= 0)
    return clf.predict_proba(X[rows]), truth[rows]


def simulated(n=2000, K=2, spread=2.0, shares=None, offset=0.0, slope=1.0, only=None, flipped=0.0, seed=0):
    """Rows whose true log-odds are those of the model times `slope`, moved by `offset` for the first class.

    `only(proba)` is the chance that the label of a row is missing, and `flipped` the share of labels that are wrong at random.
    """
    rng = np.random.default_rng(seed)
    scores = spread * rng.standard_normal((40 * n, K)) + np.log(np.ones(K) if shares is None else shares)
    proba = softmax(scores, axis=1)
    rows = np.flatnonzero(rng.random(len(proba)) < (1.0 if only is None else only(proba)))[:n]
    proba = proba[rows]
    tau = softmax(slope * log_softmax(scores[rows], axis=1) + offset * np.eye(K)[0], axis=1)
    truth = (rng.random((len(rows), 1)) > tau.cumsum(axis=1)[:, :-1]).sum(axis=1)
    wrong = rng.random(len(rows)) < flipped
    truth[wrong] = (truth[wrong] + rng.integers(1, K, size=wrong.sum())) % K
    return proba, truth


def hard(proba):
    return 1.0 - (2.0 * proba.max(axis=1) - 1.0) ** 2 if proba.shape[1] == 2 else 1.0 - proba.max(axis=1)


def sure(proba):
    return (proba.max(axis=1) > 0.99).astype(float)


POPULATIONS = {
    "mammograms": partial(real, "mammograms"),
    "planets": partial(real, "planets"),
    "photographs": partial(real, "photographs"),
    "two classes": partial(simulated, seed=1),
    "hard rows": partial(simulated, only=hard, seed=2),
    "because of the label": partial(simulated, only=hard, offset=2.0, seed=3),
    "because of the label, strongly": partial(simulated, offset=4.0, seed=4),
    "too sure": partial(simulated, spread=4.0, slope=0.25, seed=5),
    "3 % wrong": partial(simulated, spread=10.0, seed=6),
    "2 % wrong, all sure": partial(simulated, spread=4.0, only=sure, flipped=0.02, seed=7),
    "0.5 % wrong, all sure": partial(simulated, spread=4.0, only=sure, flipped=0.005, seed=8),
    "nearly all wrong": partial(simulated, spread=4.0, slope=-1.0, seed=9),
    "rare class": partial(simulated, shares=[0.95, 0.05], seed=10),
    "five classes": partial(simulated, K=5, only=hard, seed=11),
    "twelve classes, unequal": partial(simulated, K=12, spread=3.0, shares=1.0 / np.arange(1, 13), seed=12),
    "300 rows": partial(simulated, n=300, seed=13),
}


# intervals


@lru_cache(maxsize=200_000)
def limits(N, n, x, sequence=False):
    """The interval for these counts by stratum."""
    return total(Sample(*map(np.array, (N, n, x, (0,) * len(N)))), sequence)[1:]


def counts(strata, wrong, drawn):
    """Counts by stratum, as tuples."""
    several = strata.max() + 1
    parts = strata, strata[drawn], strata[drawn[wrong[drawn]]]
    return tuple(tuple(np.bincount(part, minlength=several).tolist()) for part in parts)


def ppi(error, doubt, drawn, lam=None):
    """The interval of prediction-powered inference for the number of wrong labels; without lam it is chosen, as in PPI++."""
    e, f, rest = error[drawn].astype(float), doubt[drawn], np.delete(doubt, drawn)
    if lam is None:
        lam = np.clip(np.cov(e, f, bias=True)[0, 1] / (1.0 + len(f) / len(rest)) / doubt.var(ddof=1), 0.0, 1.0)
    centre = lam * rest.mean() + np.mean(e - lam * f)
    half = norm.ppf(0.975) * np.sqrt(lam**2 * rest.var() / len(rest) + np.var(e - lam * f) / len(f))
    return len(error) * (centre - half), len(error) * (centre + half)


def audits(proba, truth, k, n_draws):
    """For each draw of k rows: whether intervals cover, their half widths, and what learning gives."""
    N, K = proba.shape
    predicted, doubt = proba.argmax(axis=1), 1.0 - proba.max(axis=1)
    wrong, strata, found = predicted != truth, strata_of(predicted, K, k)[predicted], []
    for seed in range(n_draws):
        rng = np.random.default_rng([seed, k])
        drawn, plain = draw(strata, NOTHING, k, rng), rng.permutation(N)[:k]
        learnt, held_out = learn(proba[drawn], np.eye(K)[truth[drawn]])
        after = learnt(proba)
        still = after.argmax(axis=1) != truth
        errors = np.zeros(N, dtype=bool)
        errors[drawn] = held_out.argmax(axis=1) != truth[drawn]
        low, high = limits(*counts(strata, errors, drawn))
        others = np.delete(np.arange(N), drawn)
        intervals = {
            "melded": limits(*counts(strata, wrong, drawn)),
            "simple": limits(*counts(np.zeros(N, dtype=int), wrong, plain)),
            "PPI": ppi(wrong, doubt, plain, 1.0),
            "PPI++": ppi(wrong, doubt, plain),
        }
        row = {f"{name} covers": a <= wrong.sum() <= b for name, (a, b) in intervals.items()}
        row |= {f"{name} width": 0.5 * (b - a) / N for name, (a, b) in intervals.items()}
        row["learnt covers"] = low <= still[others].sum() + errors[drawn].sum() <= high
        for name, p in (("before", proba), ("after", after)):
            row[f"accuracy {name}"] = np.mean(p[others].argmax(axis=1) == truth[others])
            row[f"log-loss {name}"] = tables.log_losses(truth[others], p[others]).mean()
        found.append(row | {"contradicted": learnt.weights[0] < 0.05})
    return {name: tables.mean([row[name] for row in found]) for name in found[0]}


def looks(proba, truth, n_draws):
    """How often intervals are right at every look, or where one stops at a width, and how much wider the sequence is."""
    N, K = proba.shape
    predicted = proba.argmax(axis=1)
    wrong, strata = predicted != truth, strata_of(predicted, K, LOOKS[0])[predicted]
    found = []
    for seed in range(n_draws):
        order = draw(strata, NOTHING, LOOKS[-1], np.random.default_rng([seed, 0]))
        seen = [counts(strata, wrong, order[:k]) for k in LOOKS]
        fixed, sequence = (np.array([limits(*one, kind) for one in seen]) for kind in (False, True))
        right = (fixed[:, 0] <= wrong.sum()) & (wrong.sum() <= fixed[:, 1])
        stop = int(np.argmax(np.append(fixed[:-1, 1] - fixed[:-1, 0] <= 0.2 * N, True)))
        always = ((sequence[:, 0] <= wrong.sum()) & (wrong.sum() <= sequence[:, 1])).all()
        wider = np.ptp(sequence[-1]) / np.ptp(fixed[-1])
        found.append((right.all(), right[stop], always, wider))
    return [tables.mean(column) for column in np.transpose(found)]


def seconds(n=10**6):
    """CPU seconds of the draw and of the result with a million rows without a label, in each of two classes."""

    class Says:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return np.column_stack([1.0 - X, X])

    rng = np.random.default_rng(0)
    X = rng.beta(0.4, 0.6, n)
    truth, y = (rng.random(n) < X).astype(int), np.full(n, -1)
    times = [time.process_time()]
    audit = Audit(Says(), X, y)
    times.append(time.process_time())
    audit.record(truth[audit.rows])
    times.append(time.process_time())
    return np.diff(times)


def main():
    """Run everything, and print the tables."""
    parser = tables.parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=1000, metavar="N", help="audits of each population and size")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--average", action="store_true", help="audit MARClassifierCV on the real files")
    args = parser.parse_args()
    report, jobs = tables.Report(), Parallel(n_jobs=args.jobs, backend="multiprocessing")
    real_names = list(POPULATIONS)[:3]
    rows = {name: make(average=args.average) if name in real_names else make() for name, make in POPULATIONS.items()}
    rows = {name: population for name, population in rows.items() if population is not None}
    work = [(name, k) for name in rows for k in SIZES]
    found = dict(zip(work, jobs(delayed(audits)(*rows[name], k, args.draws) for name, k in work), strict=True))
    methods = ["melded", "simple", "PPI", "PPI++"]
    columns = {"population": "", "rows": "d", "wrong": ".3f", "audited": "d"}
    for what, form in (("covers", ".3f"), ("width", ".3f")):
        names = [*methods, *["learnt"] * (what == "covers")]
        table = report.table(
            f"audit, {what}", columns | dict.fromkeys(names, form), keys=4, heading=f"95 % intervals: {what}"
        )
        for (name, k), figures in found.items():
            proba, truth = rows[name]
            share = np.mean(proba.argmax(axis=1) != truth)
            table.add(name, len(truth), share, k, *(figures[f"{method} {what}"] for method in names))
    names = ["accuracy before", "accuracy after", "log-loss before", "log-loss after", "contradicted"]
    table = report.table(
        "audit, learning", {"population": "", "audited": "d"} | dict.fromkeys(names, ".3f"), keys=2, heading="Learning"
    )
    for (name, k), figures in found.items():
        table.add(name, k, *(figures[column] for column in names))
    names = [
        "fixed, at all looks",
        "fixed, first of +/- 10 %",
        "sequence, at all looks",
        "sequence, times as wide at 100",
    ]
    table = report.table("audit, looks", {"population": ""} | dict.fromkeys(names, ".3f"), heading="Looks")
    for name, cells in zip(rows, jobs(delayed(looks)(*rows[name], args.draws // 5) for name in rows), strict=True):
        table.add(name, *cells)
    table = report.table(
        "audit, time",
        {"rows without a label": "d", "draw": ".2f", "result": ".2f"},
        ignored=("draw", "result"),
        heading="CPU seconds",
    )
    table.add(10**6, *seconds())
    report.write(args.json)


if __name__ == "__main__":
    main()
