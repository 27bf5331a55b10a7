"""Small likelihood problems, built below the estimators, for tests of gradients and identities."""

import numpy as np

from marmix.core.charts import MechanismChart
from marmix.core.covariance import WideFull, structure
from marmix.core.frames import Frame
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.core.mechanism import Mechanism
from marmix.core.student import StudentScores
from marmix.engines import NumpyEngine
from marmix.fitting import Objective

FLOOR = 1e-6
PAPER = {"covariance_type": "full", "link": "aranda-ordaz", "measure": "margin"}  # the model of the paper


class Problem:
    """Random rows, parameters and mechanism, with the log-likelihood as a function of the optimiser's coordinates.

    A structure such as "student tied" stands for t components, with degrees of freedom of their own unless `dof` is given, and
    ``1 / nu = tail`` (twice that in the second class, and so on).
    """

    def __init__(
        self, structure_of, mechanism, labels, counts, d=3, seed=0, weighted=False, wide=False, dof="by_class", tail=0.1
    ):
        student, covariance_type = structure_of.startswith("student "), structure_of.removeprefix("student ")
        rng = np.random.default_rng(seed)
        n, components = len(labels), sum(counts)
        kind = WideFull(d) if wide else structure(covariance_type, d)
        self.model = GaussianScores(kind, counts, FLOOR)
        frame = Frame(np.full(d, 3.0), kind.whitener(np.cov(rng.normal(size=(d, 50)) * 2)))
        X = 3.0 + rng.normal(size=(n, d)) @ frame.unwhitener.T
        weight = rng.uniform(0.5, 2.0, size=n) if weighted else None
        self.X, self.z, self.weight = X, np.asarray(labels), weight
        self.engine = NumpyEngine(X, self.z, weight, len(counts), frame)
        self.objective = Objective(self.engine, self.model)
        roots = rng.normal(size=(components, d, d)) * 0.2 + np.eye(d)
        covariances = kind.project(roots @ np.swapaxes(roots, 1, 2), np.ones(components))
        pi = rng.dirichlet(np.full(components, 5.0))
        self.theta = Gaussians(np.log(pi), 0.6 * rng.normal(size=(components, d)), kind.factor(covariances, FLOOR))
        if student:
            self.model = StudentScores(kind, counts, FLOOR, dof)
            self.objective = Objective(self.engine, self.model)
            self.theta = self.model.with_tail(self.theta, tail * (1 + self.model.owner) if dof == "by_class" else tail)
        self.mechanism = mechanism
        self.chart = self.model.chart(self.theta)
        self.mechanism_chart = None
        if mechanism is not None:
            sample = self.objective.driver_sample(self.theta, mechanism, 10_000)
            self.mechanism_chart = MechanismChart(mechanism, sample.drivers, sample.weight)
        self.size = self.chart.size + (0 if self.mechanism_chart is None else self.mechanism_chart.size)

    def sums(self, vector, **kwargs):
        theta = self.chart.theta(vector[: self.chart.size])
        mechanism = None if self.mechanism_chart is None else self.mechanism_chart.mechanism(vector[self.chart.size :])
        return theta, self.objective.sums(theta, mechanism, **kwargs)

    def loglik(self, vector):
        theta, sums = self.sums(vector)
        return self.objective.value(theta, sums)

    def gradient(self, vector):
        theta, sums = self.sums(vector)
        gradient = self.chart.gradient(vector[: self.chart.size], theta, sums.moments)
        if self.mechanism_chart is None:
            return gradient
        by_mechanism = self.mechanism_chart.gradient(vector[self.chart.size :], sums.alpha, sums.shape, sums.share)
        return np.concatenate([gradient, by_mechanism])


def central_differences(function, vector, steps=1e-4):
    """Fourth-order central differences."""
    gradient = np.empty_like(vector)
    for i, step in enumerate(np.broadcast_to(steps, vector.shape)):
        unit = np.zeros_like(vector)
        unit[i] = step
        near = function(vector + unit) - function(vector - unit)
        far = function(vector + 2 * unit) - function(vector - 2 * unit)
        gradient[i] = (8.0 * near - far) / (12.0 * step)
    return gradient


def mechanism_of(link, measure="margin", slope=-2.0):
    """A mechanism with the link's parameters free where the link has any."""
    options = {
        "logit": {"shape": 1.0},
        "cloglog": {"shape": 0.0},
        "aranda-ordaz": {"shape": 0.6, "free_shape": True},
        "near cloglog": {"shape": 0.004, "free_shape": True},
        "large shape": {"shape": 40.0, "free_shape": True},
        "with share": {"shape": 0.6, "free_shape": True, "share": 0.1, "free_share": True},
    }[link]
    slope *= {"margin": 1.0, "discriminant": 0.05}.get(measure, -0.5)
    return Mechanism(measure=measure, alpha=(0.7, slope), **options)


def rows_of(n=6000, d=3, classes=2, seed=0):
    """Rows for the estimators: classes that overlap, labels missing where two features are alike."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y % d] += 2.0
    return X, np.where(rng.uniform(size=n) < np.exp(-np.abs(X[:, 0] - X[:, 1])), -1, y)
