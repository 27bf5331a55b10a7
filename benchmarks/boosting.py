"""What the mechanism costs in boosting: the objective against a round of LightGBM, the whole fit against labels only.

One thread, two classes, ten features, trees of four leaves, 70 % of the labels missing; CPU time, the two interleaved, medians.

    python benchmarks/boosting.py              objective against round, at 1e4, 1e5 and 1e6 rows
    python benchmarks/boosting.py --fit        fit with rounds and weight chosen, against tuned LightGBM on the labelled rows
    python benchmarks/boosting.py --predict    prediction by our trees against LightGBM's, 100 rounds
"""

import argparse
import os
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import lightgbm  # noqa: E402
import numpy as np  # noqa: E402

from marmix import MARBoostingClassifier  # noqa: E402
from marmix.core.trees import TreeScores, trees_of  # noqa: E402
from marmix.objectives import MissingnessObjective  # noqa: E402

PARAMS = {
    "num_leaves": 4,
    "learning_rate": 0.1,
    "num_threads": 1,
    "verbosity": -1,
    "deterministic": True,
    "force_col_wise": True,
    "max_delta_step": 1.0,
}


def simulated(n, d=10, seed=0):
    """A curved boundary, near which labels are missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = 2.0 * X[:, 0] * X[:, 1] + X[:, 2]
    truth = (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)
    y = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(np.abs(score) - 2.0)), -1, truth)
    return X, y, truth


def objective(sizes, rounds):
    print("| rows | round of LightGBM, ms | objective, ms | ratio |\n|---|---|---|---|")
    for n in sizes:
        X, y, truth = simulated(n)
        own = lightgbm.Booster(PARAMS | {"objective": "binary"}, lightgbm.Dataset(X, truth, params=PARAMS))
        loss, seconds = MissingnessObjective(y, label_rounds=0), []
        data = lightgbm.Dataset(X, truth, init_score=loss.init_score, params=PARAMS)
        ours = lightgbm.Booster(PARAMS | {"objective": "none"}, data)

        def timed(scores, data, loss=loss, seconds=seconds):
            begin = time.process_time()
            result = loss.lightgbm(scores, data)
            seconds.append(time.process_time() - begin)
            return result

        theirs = []
        for _ in range(rounds):
            begin = time.process_time()
            own.update()
            theirs.append(time.process_time() - begin)
            ours.update(fobj=timed)
        # of five rounds one profiles the mechanism, so five count together; the first ones warm up
        round_ms, objective_ms = (1e3 * np.median(np.reshape(s[5:], (-1, 5)).mean(axis=1)) for s in (theirs, seconds))
        print(f"| {n:,} | {round_ms:.2f} | {objective_ms:.2f} | {objective_ms / round_ms:.2f} |", flush=True)


def tuned(X, y, leaves):
    """LightGBM on the labelled rows, leaves and rounds by five folds; the number of rounds."""
    labelled = y >= 0
    best = None
    for size in leaves:
        params = PARAMS | {"objective": "binary", "metric": "binary_logloss", "num_leaves": size, "max_delta_step": 0.0}
        data = lightgbm.Dataset(X[labelled], y[labelled], params=params)
        stop = lightgbm.early_stopping(30, verbose=False)
        losses = lightgbm.cv(params, data, 500, nfold=5, seed=0, callbacks=[stop])["valid binary_logloss-mean"]
        if best is None or losses[-1] < best[0]:
            best = losses[-1], len(losses), params
    lightgbm.train(best[2], lightgbm.Dataset(X[labelled], y[labelled]), best[1])
    return best[1]


def fit(sizes):
    print("| rows | labels | ours, s | LightGBM, rounds tuned, s | ratio | rounds and leaves tuned, s | ratio |")
    print("|---|---|---|---|---|---|---|")
    for n in sizes:
        X, y, _ = simulated(n)
        seconds = []
        for run in (
            lambda X=X, y=y: MARBoostingClassifier(n_jobs=1).fit(X, y),
            lambda X=X, y=y: tuned(X, y, (4,)),
            lambda X=X, y=y: tuned(X, y, (4, 8, 16)),
        ):
            begin = time.process_time()
            run()
            seconds.append(time.process_time() - begin)
        a, b, c = seconds
        print(f"| {n:,} | {np.sum(y >= 0):,} | {a:.2f} | {b:.2f} | {a / b:.1f} | {c:.2f} | {a / c:.1f} |", flush=True)


def predict(n=100_000):
    print("| leaves | LightGBM, ns a row and tree | ours | ratio |\n|---|---|---|---|")
    X, _, truth = simulated(n)
    for leaves in (4, 8, 31):
        booster = lightgbm.train(
            PARAMS | {"objective": "binary", "num_leaves": leaves}, lightgbm.Dataset(X, truth), 100
        )
        trees, model, columns = (
            trees_of(booster.dump_model(), np.zeros(1)),
            TreeScores(10, 2),
            np.ascontiguousarray(X.T),
        )
        begin = time.process_time()
        booster.predict(X, raw_score=True)
        theirs = time.process_time() - begin
        begin = time.process_time()
        for start in range(0, n, 2**13):
            model.scores(trees, columns[:, start : start + 2**13])
        ours = time.process_time() - begin
        print(f"| {leaves} | {1e7 * theirs / n:.1f} | {1e7 * ours / n:.1f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=55, help="a multiple of five")
    arguments = parser.parse_args()
    if arguments.fit:
        fit(arguments.rows or [1000, 3000, 10_000])
    elif arguments.predict:
        predict()
    else:
        objective(arguments.rows or [10_000, 100_000, 1_000_000], arguments.rounds)
