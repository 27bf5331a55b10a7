"""One value-and-gradient pass of the Aranda-Ordaz model against one EM iteration of scikit-learn's GaussianMixture.

One core, one process, the two interleaved, medians. Full covariances, the shape free, 70 % of the labels missing.

    python benchmarks/kernel.py [--rows 1000000] [--repeats 7]
    python benchmarks/kernel.py --forms     the two forms of full covariances, by the number of features
    python benchmarks/kernel.py --student   a pass of the Student-t mixture against one of the Gaussian mixture
"""

import argparse
import os
import time
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # one core, and before NumPy is loaded

import numpy as np  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.mixture import GaussianMixture  # noqa: E402

from marmix import Mechanism  # noqa: E402
from marmix.core.covariance import (  # noqa: E402
    Full,
    WideFull,
    structure,
)
from marmix.core.gaussian import GaussianScores  # noqa: E402
from marmix.core.moments import group_moments  # noqa: E402
from marmix.core.student import StudentScores  # noqa: E402
from marmix.engines import NumpyEngine, block_rows  # noqa: E402
from marmix.fitting import Objective  # noqa: E402
from marmix.fitting.starts import frame_of, labelled_start  # noqa: E402

BARS = {(4, 2): 0.25, (4, 5): 0.25, (20, 2): 0.5, (20, 5): 0.5}


def simulated(n, d, classes, seed=0):
    """Gaussian classes two standard deviations from the origin, 70 % of the labels missing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y % d] += 2.0
    return X, np.where(rng.uniform(size=n) < 0.7, -1, y)


def our_pass(X, z, classes, covariance_type="full", dof=None):
    """A function that makes one pass at the starting values; with t components if degrees of freedom are given."""
    model = GaussianScores(structure(covariance_type, X.shape[1]), [1] * classes, 1e-6)
    moments = group_moments(X, z, None, classes)
    (mean, covariance), labelled = moments.overall(), moments.labelled
    frame = frame_of(model, mean, covariance, labelled, singular=False)
    theta = labelled_start(model, frame, labelled)
    if dof is not None:
        model = StudentScores(model.structure, model.counts, 1e-6)
        theta = model.with_tail(theta, 1.0 / dof)
    objective = Objective(NumpyEngine(X, z, None, classes, frame), model)
    mechanism = Mechanism(alpha=(1.0, -3.0), shape=0.7, free_shape=True)
    return lambda: objective.sums(theta, mechanism)


def their_iteration(X, classes):
    """A function that makes one EM iteration from a fitted state."""
    mixture = GaussianMixture(classes, max_iter=1, init_params="random_from_data", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(X)

    def iteration():
        _, log_responsibilities = mixture._e_step(X)
        mixture._m_step(X, log_responsibilities)

    return iteration


def interleaved(functions, repeats):
    """Median seconds of each function, called in turn."""
    times = [[] for _ in functions]
    for _ in range(repeats):
        for function, seconds in zip(functions, times, strict=True):
            begin = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - begin)
    return [float(np.median(seconds)) for seconds in times]


def forms(rows, repeats):
    """Scores and moments of full covariances in the two forms: products of features, and whitening by each component."""
    print("| features | classes | products, ns/row | whitening, ns/row |\n|---|---|---|---|")
    for d in (4, 8, 12, 16, 20, 30):
        for classes in (2, 5):
            rng = np.random.default_rng(0)
            theta = (
                np.log(np.full(classes, 1 / classes)),
                rng.normal(size=(classes, d)),
                np.array([np.eye(d)] * classes),
            )
            functions = []
            for kind in (Full(d), WideFull(d)):
                size = block_rows(kind.n_features())
                x, g = rng.normal(size=(d, size)), rng.normal(size=(classes, size))
                blocks = max(1, rows // size)
                functions.append(lambda k=kind, t=theta, x=x, g=g, n=blocks: [_block(k, t, x, g) for _ in range(n)])
            times = interleaved(functions, repeats)
            cells = [f"{seconds / (rows // block_rows(k.n_features()) * block_rows(k.n_features())) * 1e9:.0f}"
                     for seconds, k in zip(times, (Full(d), WideFull(d)), strict=True)]  # fmt: skip
            print(f"| {d} | {classes} | {cells[0]} | {cells[1]} |", flush=True)


def student(rows, repeats):
    """A pass of the Student-t mixture against one of the Gaussian mixture."""
    print(f"{rows:,} rows, one core, medians of {repeats} interleaved runs; at most 2 is the aim\n")
    print(
        "| covariances | features | classes | Gaussian, ns/row | Student-t, ns/row | ratio |\n|---|---|---|---|---|---|"
    )
    for kind in ("full", "tied", "diag"):
        for d, classes in BARS:
            X, z = simulated(rows, d, classes)
            times = interleaved([our_pass(X, z, classes, kind, dof) for dof in (None, 5.0)], repeats)
            cells = " | ".join(f"{seconds / rows * 1e9:.0f}" for seconds in times)
            print(f"| {kind} | {d} | {classes} | {cells} | {times[1] / times[0]:.2f} |", flush=True)


def _block(kind, theta, x, g):
    phi = kind.features(x)
    kind.scores(kind.prepare(*theta), phi)
    kind.moments(g, phi)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--forms", action="store_true", help="compare the two forms of full covariances instead")
    parser.add_argument(
        "--student", action="store_true", help="compare the Student-t with the Gaussian mixture instead"
    )
    args = parser.parse_args()
    if args.student:
        student(args.rows, args.repeats)
        return
    if args.forms:
        forms(min(args.rows, 100_000), args.repeats)
        return
    print(f"{args.rows:,} rows, one core, medians of {args.repeats} interleaved runs\n")
    print("| features | classes | marmix pass, ns/row | GaussianMixture EM iteration, ns/row | ratio | bar |")
    print("|---|---|---|---|---|---|")
    for (d, classes), bar in BARS.items():
        X, z = simulated(args.rows, d, classes)
        ours, theirs = interleaved([our_pass(X, z, classes), their_iteration(X, classes)], args.repeats)
        row = [
            d,
            classes,
            f"{ours / args.rows * 1e9:.0f}",
            f"{theirs / args.rows * 1e9:.0f}",
            f"{ours / theirs:.2f}",
            bar,
        ]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
