"""Integrals over the features, replicate by replicate, in the free coordinates of the classes.

information   of a row about the parameters, for each labelling regime
bend          D, the curvature of the risk in the parameters, see `boundary`
error         of the Bayes rule
"""

import warnings
from collections.abc import Callable
from functools import cached_property

import numpy as np

from marmix.core.arrays import Array
from marmix.core.mechanism import Mechanism
from marmix.core.notes import BoundaryWarning
from marmix.fitting import Objective, Sample
from marmix.inference.coordinates import Coordinates
from marmix.inference.curvature import expected_outer, size_of_mechanism
from marmix.inference.information import inverse
from marmix.inference.tables import listed
from marmix.theory.boundary import BayesRule
from marmix.theory.description import Description
from marmix.theory.rules import SHIFTS, Computed, Rule, computed, lattice, mean_over, shifted_points

REGIMES = ("complete", "mcar", "modelled", "ignored", "unlabelled")

_STEPS = {1: (1 / 32, 1.0), 2: (1 / 8, 1 / 512)}  # of the lattices of nodes and of lines, in standard deviations
_LEVELS = 3  # with one or two features: steps are halved at most twice
_NODES, _LINES = 1024, 256  # with more features: points of a replicate at level 0; there are lines along every axis
_MOST_NODES = 2**20  # in total


class Integrals:
    """Integrals over the features of a row; every level halves the steps of lattices, or takes four times as many points."""

    def __init__(self, description: Description, level: int, random_state: int):
        self.description = description
        self.random = description.d > 2
        self._level, self._seed = level, random_state

    @property
    def finest(self) -> bool:
        """Whether there is no finer level."""
        if not self.random:
            return self._level + 1 >= _LEVELS
        return 4 ** (self._level + 1) * _NODES * SHIFTS * len(self.description.theta.mu) > _MOST_NODES

    def _rules(self, k: int, step: float, points: int, stream: int) -> list[Rule]:
        if self.random:
            rng = np.random.default_rng([self._seed, self._level, stream])
            return shifted_points(k, points * 4**self._level, rng)
        return lattice(k, step / 2**self._level)

    @property
    def _steps(self) -> tuple[float, float]:
        nodes, lines = _STEPS.get(self.description.d, (0.0, 0.0))
        return nodes, lines if self.description.model.single else 8.0 * lines  # roots by bisection take longer

    @cached_property
    def objectives(self) -> list[Objective]:
        """The nodes of every replicate, from each component in turn, as rows whose weights sum to one."""
        classes = self.description
        mu, covariance = classes.turned
        root = np.linalg.cholesky(covariance)
        pi = np.exp(classes.theta.log_pi)
        return [
            classes.objective(
                np.concatenate([m + rule.nodes @ r.T for m, r in zip(mu, root, strict=True)]),
                np.concatenate([p * rule.weights for p in pi]),
            )
            for rule in self._rules(classes.d, self._steps[0], _NODES, 0)
        ]

    @cached_property
    def error(self) -> Array:
        """The error rate of the Bayes rule, (R,)."""
        boundary = BayesRule(self.description)
        return np.array([boundary.error(rule) for rule in self._lines(0, _NODES)])

    @cached_property
    def bend(self) -> Array:
        """D, (R, P, P)."""
        boundary = BayesRule(self.description)
        by_axis = [self._lines(axis, _LINES) for axis in range(self.description.d)]
        return np.array(
            [self._pull @ boundary.bend(list(rules)) @ self._pull.T for rules in zip(*by_axis, strict=True)]
        )

    def _lines(self, axis: int, points: int) -> list[Rule]:
        return self._rules(self.description.d - 1, self._steps[1], points, 1 + axis)

    @cached_property
    def _coordinates(self) -> Coordinates:
        coordinates = Coordinates(self.objectives[0], self.description.theta, None)
        _warn(coordinates.held)
        return coordinates

    @cached_property
    def _pull(self) -> Array:
        return self._coordinates.pull(self._size)

    @property
    def _size(self) -> int:
        model = self.description.model
        return len(model.owner) * model.structure.detailed().n_features()

    def information(self, regime: str, mechanism: Mechanism | None = None) -> Array:
        """Information of a row, (R, P, P), about the classes; if "modelled", about the mechanism as well."""
        theta, pull = self.description.theta, self._pull
        if regime == "modelled":
            coordinates = Coordinates(self.objectives[0], theta, mechanism)
            _warn([name for name in coordinates.held if name not in self._coordinates.held])
            pull = coordinates.pull(self._size + size_of_mechanism(mechanism))
        elif regime != "ignored":
            mechanism = None
        rate = 1.0 if regime == "unlabelled" else 0.0
        outers = (expected_outer(nodes, theta, mechanism, regime == "modelled", rate) for nodes in self.objectives)
        return np.array([pull @ outer @ pull.T for outer in outers])

    def samples(self, mechanism: Mechanism) -> list[Sample]:
        """The nodes of every replicate as drivers of the mechanism."""
        return [
            nodes.driver_sample(self.description.theta, mechanism, nodes.engine.n_rows) for nodes in self.objectives
        ]

    def missing(self, mechanism: Mechanism, samples: list[Sample]) -> Array:
        """The share of unlabelled rows, (R,)."""
        return np.array([mechanism.missing_proba_of(nodes.drivers) @ np.asarray(nodes.weight) for nodes in samples])


def _warn(held: list[str]) -> None:
    if held:
        warnings.warn(
            f"The model has {listed(held)}: at a limit this theory does not hold, so that is treated as known.",
            BoundaryWarning,
            stacklevel=3,
        )


def coefficient(bend: Array, information: Array) -> float:
    """``tr(D V)``, V the block of the inverse information for the classes; infinite if the information is singular."""
    n = len(bend)
    variance, blind = inverse(information)
    blind = blind[:n] / np.maximum(np.linalg.norm(blind, axis=0), 1e-300)
    if np.einsum("im,ij,jm->", blind, bend, blind) > 1e-8 * np.trace(bend):
        return np.inf
    return float(np.sum(bend * variance[:n, :n]))


class Coefficients:
    """Coefficients of the excess risk by regime at one level of precision, as functions of the replicates' shares."""

    def __init__(self, integrals: Integrals, mechanism: Mechanism | None, rate: float | None):
        self.integrals, self.mechanism, self._rate = integrals, mechanism, rate
        self._information: dict[str, Array] = {}

    @cached_property
    def _missing(self) -> Array:
        assert self.mechanism is not None
        return self.integrals.missing(self.mechanism, self.integrals.samples(self.mechanism))

    def rate(self, share: Array) -> float:
        """The share of missing labels."""
        return float(mean_over(share, self._missing)) if self._rate is None else self._rate

    def information(self, regime: str, share: Array) -> Array:
        """The information of a row."""
        if regime == "mcar":
            missing = self.rate(share)
            return (1.0 - missing) * self.information("complete", share) + missing * self.information(
                "unlabelled", share
            )
        if regime not in self._information:
            self._information[regime] = self.integrals.information(regime, self.mechanism)
        return mean_over(share, self._information[regime])

    def of(self, regime: str, share: Array) -> float:
        """The coefficient of the excess risk."""
        return coefficient(mean_over(share, self.integrals.bend), self.information(regime, share))

    def relabelled(self, fraction: float, share: Array) -> float:
        """The coefficient if the mechanism is ignored and this fraction of the missing labels is obtained.

        The information is linear in the probability of a missing label.
        """
        ignored = self.information("ignored", share)
        mixed = ignored + fraction * (self.information("complete", share) - ignored)
        return coefficient(mean_over(share, self.integrals.bend), mixed)

    def computed(self, function: Callable[[Array], float]) -> Computed:
        """The value of a function of the shares, with its numerical error."""
        return computed(function, self.integrals.random)

    def coefficient(self, regime: str) -> Computed:
        """The coefficient of the excess risk, with its error."""
        return self.computed(lambda share: self.of(regime, share))

    def efficiency(self, regime: str) -> Computed:
        """The coefficient of "complete" divided by that of the regime, with its error."""
        self.require_boundary()
        return self.computed(lambda share: self.of("complete", share) / self.of(regime, share))

    def require_boundary(self) -> None:
        """Raise if the Bayes rule has no boundary."""
        if not self.integrals.bend.any():
            raise ValueError("The same class is the most probable one everywhere: there is no boundary to estimate.")
