"""A whole fit at a million rows against the nearest fits of other packages, on the same rows, with all cores.

Ours is the complete Aranda-Ordaz model (full covariances, shape estimated, hard rows unlabelled). None of the others has such a
model; what they fit is less: scikit-learn's `GaussianMixture`, pomegranate's `GeneralMixtureModel` of normal distributions and
StepMix's `gaussian_full` model ignore labels and missingness. Their defaults, but for the number of components and full
covariances. Each fit has its own process, which is stopped after `--limit` seconds. pomegranate and StepMix are left out where
they are not installed.

    python benchmarks/peers.py [--rows 1000000] [--repeats 3] [--limit 300]
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from tempfile import TemporaryDirectory

import numpy as np

from marmix.datasets import hide_labels

FITS = {
    "marmix": (
        "from marmix import MARGaussianMixture\n"
        "paper = {'covariance_type': 'full', 'link': 'aranda-ordaz', 'uncertainty': 'margin'}\n"
        "fit = lambda: MARGaussianMixture(**paper).fit(X, y)\nsteps = lambda f: f.n_passes_"
    ),
    "GaussianMixture": (
        "from sklearn.mixture import GaussianMixture\nfit = lambda: GaussianMixture(K).fit(X)\nsteps = lambda f: f.n_iter_"
    ),
    "pomegranate": """
import torch
from pomegranate.distributions import Normal
from pomegranate.gmm import GeneralMixtureModel
rows = torch.from_numpy(X.astype("float32"))
fit = lambda: GeneralMixtureModel([Normal() for _ in range(K)]).fit(rows)
steps = lambda f: "?"
""",
    "stepmix": (
        "from stepmix.stepmix import StepMix\n"
        "fit = lambda: StepMix(K, measurement='gaussian_full', verbose=0, progress_bar=0).fit(X)\nsteps = lambda f: f.n_iter_"
    ),
}
RUN = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
K = int(sys.argv[2])
with np.load(sys.argv[1]) as rows:
    X, y = rows["X"], rows["y"]
{fit}
begin = time.perf_counter()
found = fit()
print(json.dumps([time.perf_counter() - begin, str(steps(found))]))
"""


def simulated(n, d, classes, rate=0.7, seed=0):
    """Gaussian classes with covariances of their own, labels missing at this rate, hard rows first."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    roots = np.eye(d) + 0.2 / np.sqrt(d) * rng.normal(size=(classes, d, d))
    means = 2.0 * np.eye(classes, d)
    X, scores = np.empty((n, d)), np.empty((n, classes))
    for k in range(classes):
        X[y == k] = rng.normal(size=(np.sum(y == k), d)) @ roots[k].T + means[k]
    for k in range(classes):
        white = np.linalg.solve(roots[k], (X - means[k]).T)
        scores[:, k] = -0.5 * np.einsum("ij,ij->j", white, white) - np.linalg.slogdet(roots[k])[1]
    tau = np.exp(scores - scores.max(axis=1, keepdims=True))
    return X, hide_labels(y, tau / tau.sum(axis=1, keepdims=True), rate=rate, random_state=rng, return_y=True)


def seconds(name, path, classes, limit):
    """Seconds of one fit in a process of its own, and its passes or iterations; None where it was stopped."""
    command = [sys.executable, "-c", RUN.format(fit=FITS[name]), path, str(classes)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit + 10.0, encoding="utf-8"
        )  # ten to load the rows
    except subprocess.TimeoutExpired:
        return None, "?"
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1][:60]
    found, steps = json.loads(done.stdout.splitlines()[-1])
    return found, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a fit is stopped")
    args = parser.parse_args()
    others = ["GaussianMixture"] + [name for name in ("pomegranate", "stepmix") if importlib.util.find_spec(name)]
    print(
        f"{int(args.rows):,} rows; seconds are medians of {args.repeats} interleaved fits (of one where it took over 30 s)\n"
    )
    print("| features | classes | marmix, s | full passes | other | its time, s | its iterations | marmix / other |")
    print("|---|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for d, classes in ((4, 2), (4, 5), (20, 2), (20, 5)):
            X, y = simulated(int(args.rows), d, classes)
            path = f"{folder}/rows.npz"
            np.savez(path, X=X, y=y)
            times = {name: [] for name in ["marmix", *others]}
            steps = {}
            for _ in range(args.repeats):
                for name, known in times.items():
                    if not known or (known[0] is not None and known[0] < 30.0):
                        found, steps[name] = seconds(name, path, classes, args.limit)
                        known.append(found)
            ours = float(np.median(times["marmix"]))
            for name in others:
                stopped = times[name][0] is None
                other = args.limit if stopped else float(np.median(times[name]))
                ratio = f"< {ours / other:.3f}" if stopped else f"{ours / other:.2f}"
                row = [d, classes, f"{ours:.2f}", steps["marmix"], name]
                row += [f"> {args.limit:.0f}" if stopped else f"{other:.2f}", steps[name], ratio]
                print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
