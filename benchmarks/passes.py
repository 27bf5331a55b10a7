"""Passes over all rows that a fit takes from the default start, and how far below the top it stops.

The complete model: full covariances, Aranda-Ordaz, shape estimated. The top is that of a second fit, from the first one's end
with a tolerance of 1e-12 a row and no samples of the rows on the way.
The margin of more than two classes has kinks, the entropy has none.

    python benchmarks/passes.py [--rows 1000000]
"""

import argparse
import time
import warnings
from unittest import mock

from peers import simulated

from marmix import MARGaussianMixture
from marmix.fitting import quasi_newton


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    args = parser.parse_args()
    n = int(args.rows)
    warnings.simplefilter("ignore")
    print(f"{n:,} rows; tol=1e-8 asks for {1e-8 * n:g} units of the log-likelihood or less below the top\n")
    print("| features | classes | measure | parameters | full passes | fit, s | converged | below the top | shape |")
    print("|---|---|---|---|---|---|---|---|---|")
    settings = [(4, 2, "margin"), (10, 2, "margin"), (20, 2, "margin")]
    settings += [(d, 5, measure) for d in (4, 20) for measure in ("margin", "entropy")]
    for d, classes, measure in settings:
        X, y = simulated(n, d, classes)
        begin = time.perf_counter()
        fit = MARGaussianMixture(covariance_type="full", link="aranda-ordaz", measure=measure, warm_start=True).fit(
            X, y
        )
        seconds = time.perf_counter() - begin
        passes, loglik, shape, converged = fit.n_passes_, fit.loglik_, fit.shape_, fit.converged_
        with mock.patch.object(quasi_newton, "_stages", return_value=[]):
            above = fit.set_params(tol=1e-12, max_iter=60).fit(X, y).loglik_ - loglik
        size = fit.model_.score_model.chart(fit.model_.theta).size + 3
        row = [d, classes, measure, size, passes, f"{seconds:.1f}", converged, f"{above:.4f}", f"{shape:.3f}"]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
