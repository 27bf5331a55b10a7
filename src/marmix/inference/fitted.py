"""A fit together with the rows that it was fitted to: what inference is about."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.engines import Frame, NumpyEngine
from marmix.inference.coordinates import Coordinates
from marmix.inference.information import Information
from marmix.inference.parameters import Parameters
from marmix.missingness import Mechanism

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Fitted:
    """A fit and its rows.

    Parameters
    ----------
    engine : NumpyEngine
        The rows, in the axes of the fit.
    theta, mechanism
        The fit; the mechanism in the axes of its covariates, None where there is none.
    parameters : Parameters
        The user's parameters.
    classes : array
        Names of the classes.
    features : list of str
        Names of the features.
    covariates : Frame and list of columns, or None
    estimator : MARClassifier
        The fitted estimator, with classes named 0, 1, ...: to be fitted again to other rows.
    X, z, weight : arrays
        The rows, labels -1 where missing.
    loglik : float
        The maximised log-likelihood on the user's scale.
    """

    engine: NumpyEngine
    theta: Any
    mechanism: Mechanism | None
    parameters: Parameters
    classes: NDArray[Any]
    features: list[str]
    covariates: tuple[Frame, list[int]] | None
    estimator: Any
    X: NDArray[Any]
    z: NDArray[Any]
    weight: Array | None
    loglik: float

    @cached_property
    def information(self) -> Information:
        """What the rows say of the parameters."""
        return Information(self.engine, self.theta, self.mechanism)

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
        if blind.shape[1]:
            size = np.linalg.norm(derivatives, axis=1) + 1e-300
            direction = blind / np.linalg.norm(blind, axis=0)
            lost = np.abs(derivatives @ direction).max(axis=1) > 1e-4 * size
            out[lost], out[:, lost] = np.nan, np.nan
        return out

    @property
    def full_likelihood(self) -> bool:
        """Whether the fit maximised a likelihood, neither tempered nor penalised."""
        return (self.engine.tempering == 1.0 or self.mechanism is None) and not self.information.penalty.any()

    def refit(self, X: NDArray[Any], z: NDArray[Any], weight: Array | None = None, **params: Any) -> Any:
        """The estimator fitted to other rows, starting from this fit; `params` are changed first."""
        other = copy(self.estimator)
        other.set_params(warm_start=True, **params)
        return other.fit(X, z, sample_weight=weight)
