"""What standard errors cost, and the test of informative missingness on the gastroenterology data.

    python benchmarks/inference.py [--repeats 15] [--resamples 199] [--jobs 2]

The first table is the time of a fit alone and of a fit with inference (sandwich standard errors of all parameters), interleaved,
medians. MAGIC and gastro are used where `MARMIX_SHARED` (its `data` folder), `MARMIX_DATA` or the cache holds `magic04.data`
and `gastro.csv`.
"""

import argparse
import time
import warnings

import numpy as np
from fit import PAPER, data_home, magic, simulated
from threadpoolctl import threadpool_limits

from marmix import MARGaussianMixture, MARLogisticRegression
from paper.datasets import load_gastro


def cost(name, estimator, X, y, repeats):
    alone, together = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        fit = estimator.fit(X, y)
        middle = time.perf_counter()
        result = fit.inference(X, y)
        _ = result.bse
        together.append(time.perf_counter() - begin)
        alone.append(middle - begin)
    a, b = 1e3 * np.median(alone), 1e3 * np.median(together)
    n, d = X.shape
    print(f"| {name} | {n:,} x {d} | {len(result.param_names)} | {a:.1f} | {b:.1f} | {b / a:.2f} |")


def gastro():
    """Features and labels of the gastroenterology data, None where the file is not at hand."""
    try:
        return load_gastro(data_home=data_home("gastro.csv"), return_X_y=True)
    except OSError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--resamples", type=int, default=199)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| model | rows | parameters | fit, ms | fit and inference, ms | ratio |\n|---|---|---|---|---|---|")
    with threadpool_limits(1):
        telescope = magic()
        if telescope is not None:
            cost("mixture, MAGIC", MARGaussianMixture(**PAPER), *telescope, args.repeats)
            cost("mixture, MAGIC, all features", MARGaussianMixture(**PAPER), *magic(None), args.repeats)
            standard = (telescope[0] - telescope[0].mean(axis=0)) / telescope[0].std(axis=0)
            cost(
                "logistic, MAGIC standardised",
                MARLogisticRegression(link="aranda-ordaz", measure="margin"),
                standard,
                telescope[1],
                args.repeats,
            )
        for n, d in ((200, 2), (19_020, 4), (100_000, 10)):
            cost("mixture, two Gaussians", MARGaussianMixture(**PAPER), *simulated(n, d), args.repeats)
    data = gastro()
    if data is None:
        print("\nno gastro.csv: set MARMIX_DATA to its folder")
        return
    for n_init in (1, 10):
        clf = MARGaussianMixture(
            covariance_type="full", link="logit", measure="log-entropy", n_init=n_init, random_state=0
        ).fit(*data)
        test = clf.inference(*data).test_informative(n_resamples=args.resamples, n_jobs=args.jobs, random_state=0)
        print(
            f"\ngastro, n_init={n_init}, log-likelihood {clf.loglik_:.4f}, without {test.details['loglik_null']:.4f}\n{test}"
        )


if __name__ == "__main__":
    main()
