"""Data for the tests, and the settings they run under: short by default, thorough with ``--long``."""

import io
import itertools
import json
import os
import random
import time
import warnings
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import NamedTuple

# scikit-learn's check of array-API input looks for this, and is skipped without it. (The filter for BoundaryWarning in
# pyproject.toml imports marmix, and scipy with it, before this line; scikit-learn asks the environment when it is used.)
os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import pytest
import threadpoolctl
from hypothesis import HealthCheck, settings
from packaged import ROOT, built, installed
from quick import small_fits, undrawn_figures

from marmix import BoundaryWarning
from marmix.cli import main
from marmix.engines import HostRows

# On a server the examples are always the same, so that a run says something of the change and not of chance.
# Neither deadlines nor the check that examples are made fast: no test depends on how busy the machine is.
SLOW_MACHINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}
settings.register_profile("server", derandomize=True, max_examples=10, **SLOW_MACHINE)
settings.register_profile("here", max_examples=10, **SLOW_MACHINE)
settings.register_profile("long", max_examples=10_000, **SLOW_MACHINE)

# Data are small here: threads of BLAS would only wait for each other, above all under pytest-xdist.
_ONE_THREAD = threadpoolctl.threadpool_limits(1)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also the tests marked long, long fuzzing, 10,000 examples")


def pytest_configure(config):
    config.addinivalue_line("markers", "posix_only(what): needs this, which Windows does not have")
    name = "long" if config.getoption("--long") else "server" if os.environ.get("CI") else "here"
    settings.load_profile(name)


def pytest_runtest_setup(item):
    marker = item.get_closest_marker("posix_only")
    if marker and os.name != "posix":
        pytest.skip(f"POSIX only: {marker.args[0]}")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long"):
        return
    left_out = {item for item in items if item.get_closest_marker("long")}
    products = {}
    for item in items:
        if item.get_closest_marker("pairs"):
            products.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in products.values():
        left_out.update(set(cases) - _covering(cases))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _covering(cases):
    """Cases among which any two values of two parameters meet, by greedy choice."""
    values = {case: [(name, repr(value)) for name, value in sorted(case.callspec.params.items())] for case in cases}
    pairs = {case: set(itertools.combinations(values[case], 2)) for case in cases}
    chosen, missing = set(), set().union(*pairs.values())
    while missing:
        best = max(cases, key=lambda case: len(pairs[case] & missing))
        chosen.add(best)
        missing -= pairs[best]
    return chosen


@pytest.fixture(scope="session")
def long(pytestconfig):
    """Whether the run is a long one."""
    return pytestconfig.getoption("--long")


@pytest.fixture
def seeds(long):
    """Seeds of random cases: `seeds(n)` are 0 to n - 1, with ``--long`` new ones for a minute, which are printed."""

    def by_time(n):
        end = time.monotonic() + 60
        for seed in itertools.count(random.SystemRandom().randrange(2**32)):
            if time.monotonic() > end:
                return
            print(f"seed {seed}")
            yield seed

    return by_time if long else range


@pytest.fixture(scope="session", autouse=True)
def few_candidates(long):
    """Fits of `marmix fit` are small; with --long they are as they are for users."""
    if long:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        small_fits(patch)
        yield


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory, few_candidates):
    """The folder that ``marmix demo`` wrote, its figures drawn, and what it printed as JSON."""
    folder, printed = tmp_path_factory.mktemp("demonstration") / "out", io.StringIO()
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        assert main(["demo", "--out", str(folder), "--json"]) == 0
    return SimpleNamespace(folder=folder, printed=json.loads(printed.getvalue()))


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """The wheel and the sdist of this checkout."""
    return built(ROOT, tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="session")
def clean_python(packages, tmp_path_factory):
    """Runs the Python of an environment that has the wheel, and otherwise the packages of this one."""
    return installed(packages.wheel, tmp_path_factory.mktemp("clean"))


@pytest.fixture(scope="module")
def rows_as_given():
    """Rows in memory are not sorted before a fit, as those elsewhere are not, so that fits agree up to rounding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostRows, "most_sorted", 0)
        yield


@pytest.fixture(scope="module")
def quick_figures():
    """Figures are made but not drawn: their files hold one pixel."""
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        undrawn_figures(patch)
        yield


class Partly(NamedTuple):
    """Rows, their labels as a user has them (-1 where missing), and the labels nobody sees."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray

    @property
    def missing(self):
        return self.y == -1


def _softmax(scores):
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def textbook_missing_proba(u, alpha, shape):
    """q as the textbook writes it, where that does not overflow."""
    growth = np.exp(alpha[0] + alpha[1] * u)
    return 1 - np.exp(-growth) if shape == 0 else 1 - (1 + shape * growth) ** (-1 / shape)


def _simulate(n=300, classes=2, d=2, seed=0, alpha=(1.0, -4.0), shape=1.0, distance=2.0, spreads=None):
    """Gaussian classes on a circle, `distance` apart; labels lost by the Aranda-Ordaz mechanism of the squared margin.

    Class k has covariance ``spreads[k] * I``; the first rows have their label, so that every class has a few.
    """
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(classes) / classes
    means = np.zeros((classes, d))
    means[:, 0] = np.cos(angle)
    if d > 1:
        means[:, 1] = np.sin(angle)
    means *= distance / (2 * np.sin(np.pi / classes))
    spreads = np.linspace(1.0, 1.5, classes) if spreads is None else np.asarray(spreads)
    truth = rng.permutation(np.arange(n) % classes)
    X = means[truth] + rng.normal(size=(n, d)) * np.sqrt(spreads[truth])[:, None]
    squared = ((X[:, None, :] - means) ** 2).sum(axis=2)
    tau = np.sort(_softmax(-0.5 * squared / spreads - 0.5 * d * np.log(spreads)), axis=1)
    q = textbook_missing_proba((tau[:, -1] - tau[:, -2]) ** 2, alpha, shape)
    missing = rng.random(n) < q
    for k in range(classes):
        missing[np.flatnonzero(truth == k)[: d + 2]] = False
    return Partly(X, np.where(missing, -1, truth), truth)


@pytest.fixture(scope="session")
def simulate():
    """The simulator, see `_simulate`."""
    return _simulate


@pytest.fixture(scope="session")
def two():
    """Two classes in the plane."""
    return _simulate()


@pytest.fixture(scope="session")
def three():
    """Three classes in the plane."""
    return _simulate(classes=3, distance=3.0, seed=1)
