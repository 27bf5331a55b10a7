"""Passes and a whole fit on an NVIDIA card, against the floor that its memory and its arithmetic set.

A pass is the log-likelihood and its gradient, Aranda-Ordaz with the shape free, full covariances, 70 % of the labels missing, in
double precision. The floor is the larger of two times: the bytes of X once over the card's measured memory bandwidth, and the
operations of scores, moments and link over its measured rate. Needs torch with CUDA, and Triton for the fused kernel.

    python benchmarks/device.py [--rows 10000000] [--fit-rows 100000000]
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
import torch

from marmix import MARGaussianMixture, Mechanism
from marmix.core.arrays import like
from marmix.core.covariance import structure
from marmix.core.gaussian import GaussianScores
from marmix.core.likelihood import block_sums
from marmix.engines.device import DeviceRows
from marmix.fitting import Objective
from marmix.fitting.starts import frame_of, labelled_start

# Operations of exp, log, log1p, expm1 and tanh in double precision, roughly; a row has one exp a class and seven more.
_FUNCTION, _FUNCTIONS = 40, 7


def timed(function, repeats=10):
    """Median milliseconds by events on the card, after two calls that warm up."""
    times = []
    for i in range(repeats + 2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        if i > 1:
            times.append(begin.elapsed_time(end))
    return float(np.median(times))


def ceilings():
    """Bytes a second that a copy moves, and double-precision operations a second of a product of matrices."""
    a = torch.randn(2**29, dtype=torch.float64, device="cuda")
    bandwidth = 2 * a.nbytes / timed(a.clone) * 1e3
    del a
    m = torch.randn(8192, 8192, dtype=torch.float64, device="cuda")
    matrices = 2 * 8192**3 / timed(lambda: m @ m, 3) * 1e3
    return bandwidth, matrices


def floor(d, classes, bandwidth, rate):
    """Nanoseconds a row that no pass can go below."""
    p = 1 + d + d * (d + 1) // 2
    operations = d * (d + 1) // 2 + 4 * classes * p + _FUNCTION * (classes + _FUNCTIONS)
    return max(8 * d / bandwidth, operations / rate) * 1e9


def simulated(n, d, classes, seed=0):
    """Gaussian classes two standard deviations from the origin; the label of a hard row is missing more often, 70 % in all."""
    generator = torch.Generator("cuda").manual_seed(seed)
    y = torch.randint(classes, (n,), device="cuda", generator=generator)
    X = torch.randn((n, d), dtype=torch.float64, device="cuda", generator=generator)
    X[torch.arange(n, device="cuda"), y % d] += 2.0
    top = torch.topk(X[:, :classes] * 2.0, 2, dim=1).values
    margin = torch.tanh(0.5 * (top[:, 0] - top[:, 1])) ** 2
    lost = torch.rand(n, dtype=torch.float64, device="cuda", generator=generator) < torch.sigmoid(2.5 - 3.5 * margin)
    return X, torch.where(lost, -1, y).to(torch.int8)


def objective_of(X, z, classes):
    """Rows and starting values as a fit has them."""
    rows = DeviceRows(X).with_labels(z)
    model = GaussianScores(structure("full", X.shape[1]), [1] * classes, 1e-6)
    frame = frame_of(model, *rows.moments.overall(), rows.moments.labelled, singular=False)
    return Objective(rows.engine(frame), model), labelled_start(model, frame, rows.moments.labelled)


def passes(n, bandwidth, rate):
    print(f"\n{n:,} rows, one pass, medians of 10\n")
    print("| features | classes | marmix, ns/row | plain torch, ns/row | ratio | floor, ns/row | times the floor |")
    print("|---|---|---|---|---|---|---|")
    mechanism = Mechanism(alpha=(2.0, -3.0), shape=0.7, free_shape=True)
    for d, classes in ((4, 2), (4, 5), (10, 2), (20, 2), (20, 5)):
        objective, theta = objective_of(*simulated(n, d, classes), classes)
        engine, model = objective.engine, objective.model
        plain = partial(engine.total_there, block_sums, model, width=model.values_per_row())
        prepared = like(model.prepare(theta), engine.place)

        ours = timed(partial(objective.sums, theta, mechanism)) * 1e6 / n
        eager = timed(partial(plain, prepared, mechanism), 3) * 1e6 / n
        least = floor(d, classes, bandwidth, rate)
        row = [d, classes, f"{ours:.3f}", f"{eager:.3f}", f"{ours / eager:.2f}", f"{least:.3f}", f"{ours / least:.1f}"]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
        del objective, engine, plain
        torch.cuda.empty_cache()


def whole_fit(n, d=10):
    print(
        f"\nA whole fit of {n:,} x {d} rows, two classes, full covariances, shape estimated; the rows are on the card\n"
    )
    print(
        "| precision | first fit, s | second fit, s | full passes | shape (true 1) | alpha (true 2.5, -3.5) | converged |"
    )
    print("|---|---|---|---|---|---|---|")
    X, y = simulated(n, d, 2)
    for precision in ("double", "single"):
        seconds = []
        for _ in range(2):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            fit = MARGaussianMixture(
                covariance_type="full", link="aranda-ordaz", measure="margin", precision=precision
            ).fit(X, y)
            torch.cuda.synchronize()
            seconds.append(f"{time.perf_counter() - begin:.2f}")
        alpha = ", ".join(f"{a:.4f}" for a in fit.alpha_)
        row = [precision, *seconds, fit.n_passes_, f"{fit.shape_:.4f}", alpha, fit.converged_]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--fit-rows", type=float, default=1e8)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bandwidth, rate = ceilings()
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}: a copy moves {bandwidth / 1e12:.2f} TB/s, a product of"
    )
    print(f"matrices in double precision runs at {rate / 1e12:.1f} TFLOP/s")
    passes(int(args.rows), bandwidth, rate)
    whole_fit(int(args.fit_rows))


if __name__ == "__main__":
    main()
