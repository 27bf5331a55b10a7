"""The integrals that the theory is made of, replicate by replicate, in the free coordinates of the classes.

information   of a row about the parameters, for each way in which labels are missing
bend          D, how the risk bends with the parameters, see `boundary`
error         of the Bayes rule
"""

import warnings
from functools import cached_property

import numpy as np

from marmix.arrays import Array
from marmix.fitting import Objective, Sample
from marmix.inference.coordinates import Coordinates
from marmix.inference.curvature import expected_outer, size_of_mechanism
from marmix.inference.information import inverse
from marmix.inference.tables import listed
from marmix.mechanism import Mechanism
from marmix.notes import BoundaryWarning
from marmix.theory.boundary import BayesRule
from marmix.theory.description import Description
from marmix.theory.rules import SHIFTS, Rule, lattice, mean_over, shifted_points

REGIMES = ("complete", "mcar", "modelled", "ignored", "unlabelled")

_STEPS = {1: (1 / 32, 1.0), 2: (1 / 8, 1 / 512)}  # of the lattices of nodes and of lines, in standard deviations
_LEVELS = 3  # with one or two features: steps are halved at most twice
_NODES, _LINES = 1024, 256  # with more features: points of a replicate at first; there are lines along every axis
_MOST_NODES = 2**20  # in all


class Integrals:
    """Integrals over the features of a row, at one level of precision.

    Parameters
    ----------
    description : Description
    level : int
        Every level halves the steps of lattices, or takes four times as many points.
    random_state : int
        For the shifts of the points.
    """

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
        known = self.description
        mu, covariance = known.turned
        root = np.linalg.cholesky(covariance)
        pi = np.exp(known.theta.log_pi)
        return [
            known.objective(
                np.concatenate([m + rule.nodes @ r.T for m, r in zip(mu, root, strict=True)]),
                np.concatenate([p * rule.weights for p in pi]),
            )
            for rule in self._rules(known.d, self._steps[0], _NODES, 0)
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
        _tell(coordinates.held)
        return coordinates

    @cached_property
    def _pull(self) -> Array:
        return self._coordinates.pull(self._size)

    @property
    def _size(self) -> int:
        model = self.description.model
        return len(model.owner) * model.structure.detailed().n_features()

    def _outer(self, mechanism: Mechanism | None, modelled: bool, rate: float, pull: Array) -> Array:
        theta = self.description.theta
        return np.array(
            [pull @ expected_outer(one, theta, mechanism, modelled, rate) @ pull.T for one in self.objectives]
        )

    @cached_property
    def complete(self) -> Array:
        """Information of a labelled row, (R, P, P)."""
        return self._outer(None, False, 0.0, self._pull)

    @cached_property
    def unlabelled(self) -> Array:
        """Information of an unlabelled row."""
        return self._outer(None, False, 1.0, self._pull)

    def ignored(self, mechanism: Mechanism) -> Array:
        """Information of a row whose label is missing by the mechanism, without that of its being missing."""
        return self._outer(mechanism, False, 0.0, self._pull)

    def modelled(self, mechanism: Mechanism) -> Array:
        """Information about the classes, then the mechanism, of a row whose label is missing by it."""
        coordinates = Coordinates(self.objectives[0], self.description.theta, mechanism)
        _tell([what for what in coordinates.held if what not in self._coordinates.held])
        return self._outer(mechanism, True, 0.0, coordinates.pull(self._size + size_of_mechanism(mechanism)))

    def samples(self, mechanism: Mechanism) -> list[Sample]:
        """The nodes of every replicate as the mechanism sees them."""
        theta = self.description.theta
        return [one.driver_sample(theta, mechanism, one.engine.n_rows) for one in self.objectives]

    def missing(self, mechanism: Mechanism, samples: list[Sample]) -> Array:
        """The share of rows without label, (R,)."""
        return np.array([mechanism.missing_proba_of(one.drivers) @ np.asarray(one.weight) for one in samples])


def _tell(held: list[str]) -> None:
    if held:
        warnings.warn(
            f"The model has {listed(held)}: at a limit this theory does not hold, so that is taken as known.",
            BoundaryWarning,
            stacklevel=3,
        )


def coefficient(bend: Array, information: Array) -> float:
    """``tr(D V)``, V the block of the inverse information that belongs to the classes; infinite where it is singular."""
    n = len(bend)
    variance, blind = inverse(information)
    lost = blind[:n] / np.maximum(np.linalg.norm(blind, axis=0), 1e-300)
    if np.einsum("im,ij,jm->", lost, bend, lost) > 1e-8 * np.trace(bend):
        return np.inf
    return float(np.sum(bend * variance[:n, :n]))


class Coefficients:
    """Coefficients of the excess risk by regime, at one level of precision; all take the shares of the replicates."""

    def __init__(self, integrals: Integrals, mechanism: Mechanism | None, rate: float | None):
        self.integrals, self.mechanism, self._rate = integrals, mechanism, rate

    @cached_property
    def _missing(self) -> Array:
        assert self.mechanism is not None
        return self.integrals.missing(self.mechanism, self.integrals.samples(self.mechanism))

    @cached_property
    def _ignored(self) -> Array:
        assert self.mechanism is not None
        return self.integrals.ignored(self.mechanism)

    @cached_property
    def _modelled(self) -> Array:
        assert self.mechanism is not None
        return self.integrals.modelled(self.mechanism)

    def rate(self, share: Array) -> float:
        """The share of labels that are missing."""
        return float(mean_over(share, self._missing)) if self._rate is None else self._rate

    def information(self, regime: str, share: Array) -> Array:
        """What a row says of the parameters."""
        have = self.integrals
        if regime == "modelled":
            return mean_over(share, self._modelled)
        if regime == "ignored":
            return mean_over(share, self._ignored)
        if regime == "complete":
            return mean_over(share, have.complete)
        if regime == "unlabelled":
            return mean_over(share, have.unlabelled)
        missing = self.rate(share)
        return (1.0 - missing) * mean_over(share, have.complete) + missing * mean_over(share, have.unlabelled)

    def of(self, regime: str, share: Array) -> float:
        """The coefficient of the excess risk."""
        return coefficient(mean_over(share, self.integrals.bend), self.information(regime, share))

    def relabelled(self, fraction: float, share: Array) -> float:
        """The coefficient where the mechanism is ignored and this fraction of the missing labels is found out.

        The information is linear in the probability of a missing label.
        """
        ignored = self.information("ignored", share)
        mixed = ignored + fraction * (self.information("complete", share) - ignored)
        return coefficient(mean_over(share, self.integrals.bend), mixed)
