"""A fit together with the rows that it was fitted to: what inference is about."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.fitting import Objective
from marmix.inference.coordinates import Coordinates
from marmix.inference.information import Information
from marmix.inference.parameters import Parameters, parameters_of
from marmix.mechanism import Mechanism
from marmix.model import FittedModel
from marmix.rows import Covariates, NumpyEngine

# Rows a parameter, and labelled rows of a class, below which large-sample approximations are not trusted alone.
_FEW_ROWS, _FEW_LABELS = 10, 10


@dataclass(frozen=True)
class Fitted:
    """A fitted model and its rows.

    Parameters
    ----------
    model : FittedModel
    objective : Objective
        What was maximised, over the rows in the axes of the fit.
    mechanism : Mechanism or None
        The mechanism in the axes of its covariates; None where there is none.
    covariates : Covariates
    estimator : estimator
        The fitted estimator, with classes 0, 1, ... and features without names: to be fitted again to other rows.
    X, z, weight : arrays
        The rows of positive weight, labels -1 where missing.
    kept : array
        Their places among the user's rows, which are `n_rows`.
    n_rows : int
    checked : callable
        Turns rows to predict into an array, with the estimator's own checks.
    """

    model: FittedModel
    objective: Objective
    mechanism: Mechanism | None
    covariates: Covariates
    estimator: Any
    X: NDArray[Any]
    z: NDArray[Any]
    weight: Array | None
    kept: NDArray[np.integer[Any]]
    n_rows: int
    checked: Callable[[Any], NDArray[Any]]

    @property
    def theta(self) -> Any:
        """The parameters of the score model, in the axes of the fit."""
        return self.model.theta

    @property
    def classes(self) -> NDArray[Any]:
        """Names of the classes."""
        return self.model.classes

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return self.model.column_names

    @property
    def loglik(self) -> float:
        """The maximised log-likelihood."""
        return self.model.loglik

    @cached_property
    def parameters(self) -> Parameters:
        """The user's parameters: names, kinds and values."""
        return parameters_of(self.model, self.mechanism, self.covariates)

    @cached_property
    def information(self) -> Information:
        """What the rows say of the parameters."""
        return Information(self.objective, self.theta, self.mechanism)

    @property
    def coordinates(self) -> Coordinates:
        """The coordinates in which the covariance matrices are."""
        return self.information.coordinates

    @cached_property
    def values(self) -> Array:
        """The user's parameters."""
        return self.parameters.values(self.theta, self.mechanism)

    @cached_property
    def jacobian(self) -> Array:
        """Derivatives of the user's parameters in the coordinates."""
        return self.jacobian_of(self.parameters.values)

    def jacobian_of(self, function: Callable[[Any, Mechanism | None], Array]) -> Array:
        """Derivatives (m, P) of a function of the parameters in the coordinates."""
        coordinates = self.coordinates
        return coordinates.jacobian(lambda vector: function(*coordinates.at(vector)))

    def covariance_of(self, derivatives: Array, kind: str) -> Array:
        """Delta method: the covariance of quantities with these derivatives (m, P).

        A quantity that the data do not determine has NaN.
        """
        covariance, blind = self.information.covariance(kind)
        out = derivatives @ covariance @ derivatives.T
        if kind == "sandwich":  # a variance that only rounding makes negative
            np.fill_diagonal(out, np.maximum(np.diag(out), 0.0))
        if blind.shape[1]:
            size = np.linalg.norm(derivatives, axis=1) + 1e-300
            direction = blind / np.linalg.norm(blind, axis=0)
            lost = np.abs(derivatives @ direction).max(axis=1) > 1e-4 * size
            out[lost], out[:, lost] = np.nan, np.nan
        return out

    @property
    def tempered(self) -> bool:
        """Whether the mechanism entered with another weight than one."""
        return self.mechanism is not None and self.objective.tempering != 1.0

    @property
    def described(self) -> str:
        """The model's settings, in a few words."""
        params = self.estimator.get_params()
        parts = [
            f"{params['covariance_type']} covariance" if "covariance_type" in params else f"degree {params['degree']}"
        ]
        if not self.objective.model.joint:
            several = "coefficients of the classes sum to zero"
            parts.append(f"log-odds of {self.classes[1]}" if len(self.classes) == 2 else several)
        if self.mechanism is None:
            return ", ".join([*parts, "no mechanism"])
        return ", ".join([*parts, str(params["link"]), self.mechanism.measured.name])

    @cached_property
    def few_rows(self) -> str | None:
        """How few the rows or labels are, where they are too few for large-sample approximations."""
        w = np.ones(len(self.z)) if self.weight is None else self.weight
        size = self.coordinates.size
        if w.sum() < _FEW_ROWS * size:
            return f"{w.sum():.0f} rows for {size} parameters"
        labels = np.array([w[self.z == k].sum() for k in range(len(self.classes))])
        if labels.min() < _FEW_LABELS:
            return f"{labels.min():.0f} labelled rows of class {self.classes[labels.argmin()]}"
        if not self.objective.model.joint and labels.sum() < _FEW_ROWS * self.coordinates.n_theta:
            return f"{labels.sum():.0f} labelled rows for {self.coordinates.n_theta} coefficients"
        return None

    def require_memory(self, what: str) -> None:
        """Refuse what needs the rows in one order where they stay in a file."""
        if not isinstance(self.objective.engine, NumpyEngine):
            raise ValueError(f"{what} needs the rows in memory: pass np.array(X), or a sample of the rows.")

    def require_mechanism(self, what: str) -> Mechanism:
        """Refuse what is about the mechanism of a fit that has none."""
        if self.mechanism is None:
            raise ValueError(f"{what} is about the mechanism: fit with a link, to rows of which some have no label.")
        return self.mechanism

    def require_likelihood(self, what: str) -> None:
        """Refuse what needs a maximised likelihood."""
        if self.information.penalty.any():
            raise ValueError(f"{what} needs a fit without penalty: fit with C=np.inf.")
        if not self.full_likelihood:
            raise ValueError(f"{what} needs the full likelihood: fit with mechanism_weight=1.")

    @property
    def full_likelihood(self) -> bool:
        """Whether the fit maximised a likelihood, neither tempered nor penalised."""
        return not self.tempered and not self.information.penalty.any()
