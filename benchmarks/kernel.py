"""How long does one pass over the rows take? Nanoseconds a row, against other packages.

    python benchmarks/kernel.py [gaussian] [--rows 1000000] [--repeats 7]
    python benchmarks/kernel.py student
    python benchmarks/kernel.py boosting [--repeats 10]
    python benchmarks/kernel.py trees
    python benchmarks/kernel.py device [--rows 10000000] [--fit-rows 100000000]

A pass is the log-likelihood and its gradient, Aranda-Ordaz with the shape free, 70 % of the labels missing. One core,
interleaved, medians; about a minute each.

- gaussian: full covariances, against one EM iteration of scikit-learn's `GaussianMixture`;
- student: the Student-t mixture against the Gaussian mixture;
- boosting: the objective of the missingness against a round of LightGBM, two classes, ten features, four leaves, CPU time; of
  five rounds one profiles the mechanism, so five count together;
- trees: prediction by our arrays of trees against LightGBM's, 100 rounds, CPU time;
- device: passes on an NVIDIA card against plain torch and against the floor, the larger of two times: the bytes of X once over
  the measured memory bandwidth, and the operations of scores, moments and link over the measured rate; and a whole fit. Double
  precision. Needs torch with CUDA, and Triton for the fused kernel.
"""

import time
import warnings
from functools import partial

import numpy as np
from common import rows, tables
from common.timing import interleaved
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from marmix import MARGaussianMixture, Mechanism
from marmix.core.arrays import like
from marmix.core.covariance import structure
from marmix.core.gaussian import GaussianScores
from marmix.core.likelihood import block_sums
from marmix.core.student import StudentScores
from marmix.core.trees import TreeScores, trees_of
from marmix.engines import DeviceRows, HostRows
from marmix.fitting import Objective
from marmix.fitting.starts import frame_of, labelled_start
from marmix.objectives import MissingnessObjective

SHAPES = ((4, 2), (4, 5), (20, 2), (20, 5))  # features, classes
MECHANISM = Mechanism(alpha=(1.0, -3.0), shape=0.7, free_shape=True)


def simulated(n, d, classes, seed=0):
    """Gaussian classes two standard deviations from the origin, 70 % of the labels missing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y % d] += 2.0
    return X, np.where(rng.uniform(size=n) < 0.7, -1, y)


def started(labelled_rows, classes, covariance_type="full", dof=None):
    """The objective of these rows and starting values; with t components if degrees of freedom are given."""
    moments, d = labelled_rows.moments, labelled_rows.X.shape[1]
    model = GaussianScores(structure(covariance_type, d), [1] * classes, 1e-6)
    frame = frame_of(model, *moments.overall(), moments.labelled, singular=False)
    theta = labelled_start(model, frame, moments.labelled)
    if dof is not None:
        model = StudentScores(model.structure, model.counts, 1e-6)
        theta = model.with_tail(theta, 1.0 / dof)
    return Objective(labelled_rows.engine(frame), model), theta


def one_pass(X, z, classes, *settings):
    """A function that makes one pass at the starting values."""
    objective, theta = started(HostRows(X).with_labels(z), classes, *settings)
    return lambda: objective.sums(theta, MECHANISM)


def one_iteration(X, classes):
    """A function that makes one EM iteration of scikit-learn's from a fitted state."""
    mixture = GaussianMixture(classes, max_iter=1, init_params="random_from_data", random_state=0).fit(X)
    return lambda: mixture._m_step(X, mixture._e_step(X)[1])  # without the start and the checks of `fit`


def gaussian(report, args):
    """A pass against an EM iteration."""
    columns = {
        "features": "",
        "classes": "",
        "marmix pass, ns/row": ".0f",
        "GaussianMixture EM iteration, ns/row": ".0f",
    }
    table = report.table("gaussian", columns | {"ratio": ".2f"}, keys=2, within=0.5, ignored=list(columns)[2:])
    for d, classes in SHAPES:
        X, z = simulated(args.rows, d, classes)
        times, _ = interleaved([one_pass(X, z, classes), one_iteration(X, classes)], args.repeats)
        table.add(d, classes, *(1e9 * seconds / args.rows for seconds in times), times[0] / times[1])


def student(report, args):
    """A pass of the Student-t mixture against one of the Gaussian mixture."""
    columns = {"covariances": "", "features": "", "classes": "", "Gaussian, ns/row": ".0f", "Student-t, ns/row": ".0f"}
    table = report.table("student", columns | {"ratio": ".2f"}, keys=3, within=0.5, ignored=list(columns)[3:])
    for kind in ("full", "tied", "diag"):
        for d, classes in SHAPES:
            X, z = simulated(args.rows, d, classes)
            times, _ = interleaved([one_pass(X, z, classes, kind, dof) for dof in (None, 5.0)], args.repeats)
            table.add(kind, d, classes, *(1e9 * seconds / args.rows for seconds in times), times[1] / times[0])


# trees


def boosting(report, args):
    """The objective of the missingness against a round of LightGBM."""
    import lightgbm

    columns = {"rows": ",", "round of LightGBM, ms": ".2f", "objective, ms": ".2f"}
    table = report.table("boosting", columns | {"ratio": ".2f"}, within=0.5, ignored=list(columns)[1:])
    for n in (10_000, 100_000, 1_000_000):
        if n > args.rows:
            continue
        X, y, truth = rows.curved(n)
        own = lightgbm.Booster(rows.TREES | {"objective": "binary"}, lightgbm.Dataset(X, truth, params=rows.TREES))
        loss, seconds = MissingnessObjective(y, label_rounds=0), []
        data = lightgbm.Dataset(X, truth, init_score=loss.init_score, params=rows.TREES)
        ours = lightgbm.Booster(rows.TREES | {"objective": "none"}, data)

        def timed(scores, data, loss=loss, seconds=seconds):
            begin = time.process_time()
            result = loss.lightgbm(scores, data)
            seconds.append(time.process_time() - begin)
            return result

        theirs = []
        for _ in range(5 * args.repeats + 5):  # the first ones warm up
            begin = time.process_time()
            own.update()
            theirs.append(time.process_time() - begin)
            ours.update(fobj=timed)
        a, b = (1e3 * np.median(np.reshape(times[5:], (-1, 5)).mean(axis=1)) for times in (theirs, seconds))
        table.add(n, a, b, b / a)


def trees(report, args, n=100_000):
    """Prediction by our arrays of trees against LightGBM's."""
    import lightgbm

    columns = {"leaves": "", "LightGBM, ns a row and tree": ".1f", "ours": ".1f"}
    table = report.table("trees", columns | {"ratio": ".2f"}, within=0.5, ignored=list(columns)[1:])
    X, _, truth = rows.curved(n)
    blocks = [np.ascontiguousarray(X[a : a + 2**13].T) for a in range(0, n, 2**13)]
    for leaves in (4, 8, 31):
        params = rows.TREES | {"objective": "binary", "num_leaves": leaves}
        booster = lightgbm.train(params, lightgbm.Dataset(X, truth), 100)
        grown, model = trees_of(booster.dump_model(), np.zeros(1)), TreeScores(10, 2)
        predictions = [
            lambda booster=booster: booster.predict(X, raw_score=True),
            lambda model=model, grown=grown: [model.scores(grown, block) for block in blocks],
        ]
        (a, b), _ = interleaved(predictions, clock=time.process_time)
        table.add(leaves, 1e7 * a / n, 1e7 * b / n, b / a)


# on a card


def milliseconds(function, repeats=10):
    """Median by events on the card, after two calls that warm up."""
    import torch

    times = []
    for _ in range(repeats + 2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return float(np.median(times[2:]))


def ceilings():
    """Bytes a second that a copy moves, and double-precision operations a second of a product of matrices."""
    import torch

    a = torch.randn(2**29, dtype=torch.float64, device="cuda")
    bandwidth = 2 * a.nbytes / milliseconds(a.clone) * 1e3
    del a
    m = torch.randn(8192, 8192, dtype=torch.float64, device="cuda")
    return bandwidth, 2 * 8192**3 / milliseconds(lambda: m @ m, 3) * 1e3


def floor(d, classes, bandwidth, rate):
    """Nanoseconds a row that no pass can go below; a function such as exp counts 40 operations, and a row has 7 + K of them."""
    p = 1 + d + d * (d + 1) // 2
    operations = d * (d + 1) // 2 + 4 * classes * p + 40 * (classes + 7)
    return max(8 * d / bandwidth, operations / rate) * 1e9


def on_card(n, d, classes, seed=0):
    """Gaussian classes two standard deviations from the origin; the label of a hard row is missing more often, 70 % in all."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    y = torch.randint(classes, (n,), device="cuda", generator=generator)
    X = torch.randn((n, d), dtype=torch.float64, device="cuda", generator=generator)
    X[torch.arange(n, device="cuda"), y % d] += 2.0
    top = torch.topk(X[:, :classes] * 2.0, 2, dim=1).values
    margin = torch.tanh(0.5 * (top[:, 0] - top[:, 1])) ** 2
    lost = torch.rand(n, dtype=torch.float64, device="cuda", generator=generator) < torch.sigmoid(2.5 - 3.5 * margin)
    return X, torch.where(lost, -1, y).to(torch.int8)


def device(report, args):
    """Passes on a card, and a whole fit."""
    import torch

    bandwidth, rate = ceilings()
    report.say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: a copy moves {bandwidth / 1e12:.2f} TB/s,")
    report.say(f"a product of matrices in double precision runs at {rate / 1e12:.1f} TFLOP/s")
    columns = {"features": "", "classes": "", "marmix, ns/row": ".3f", "plain torch, ns/row": ".3f", "ratio": ".2f"}
    columns |= {"floor, ns/row": ".3f", "times the floor": ".1f"}
    table = report.table("passes", columns, keys=2, within=0.5)
    for d, classes in (*SHAPES, (10, 2)):
        X, z = on_card(args.rows, d, classes)
        objective, theta = started(DeviceRows(X).with_labels(z), classes)
        engine, model = objective.engine, objective.model
        prepared = like(model.prepare(theta), engine.place)
        plain = partial(engine.total_there, block_sums, model, prepared, MECHANISM, width=model.values_per_row())
        ours, eager = (1e6 / args.rows * milliseconds(f) for f in (partial(objective.sums, theta, MECHANISM), plain))
        least = floor(d, classes, bandwidth, rate)
        table.add(d, classes, ours, eager, ours / eager, least, ours / least)
        del X, z, objective, engine, plain
        torch.cuda.empty_cache()
    X, y = on_card(args.fit_rows, 10, 2)
    columns = {
        "first fit, s": ".2f",
        "second fit, s": ".2f",
        "full passes": "",
        "shape (true 1)": ".4f",
    }
    columns |= {"alpha_0 (true 2.5)": ".4f", "alpha_1 (true -3.5)": ".4f", "converged": ""}
    table = report.table(f"fits of {args.fit_rows:,} x 10 rows", columns, ignored=["first fit, s", "second fit, s"])
    seconds = []
    for _ in range(2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        settings = {"covariance_type": "full", "link": "aranda-ordaz", "measure": "margin"}
        fit = MARGaussianMixture(**settings).fit(X, y)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    table.add(*seconds, fit.n_passes_, fit.shape_, *fit.alpha_, str(fit.converged_))


def main():
    parser = tables.parser_of(__doc__)
    sections = {"gaussian": gaussian, "student": student, "boosting": boosting, "trees": trees, "device": device}
    parser.add_argument("section", nargs="?", choices=list(sections), default="gaussian")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--fit-rows", type=int, default=100_000_000, help="rows of the whole fit on a card")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    report = tables.Report()
    with threadpool_limits(1):
        sections[args.section](report, args)
    report.write(args.json)


if __name__ == "__main__":
    main()
