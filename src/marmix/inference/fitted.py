"""A fitted model together with its training rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from marmix.core.arrays import AnyArray, Array, Bools, Ints
from marmix.core.frames import Covariates
from marmix.core.linear import KernelScores
from marmix.core.mechanism import Mechanism
from marmix.core.model import FittedModel
from marmix.fitting import Objective
from marmix.inference.coordinates import Coordinates
from marmix.inference.curvature import copies_excess
from marmix.inference.information import KINDS, Information
from marmix.inference.parameters import Parameters, parameters_of

# Rows per parameter, and labelled rows per class, below which large-sample approximations are not trusted.
_FEW_ROWS, _FEW_LABELS = 10, 10

# Most coefficients (see `FittedModel.n_coefficients`) for which information matrices are computed unasked: about ten matrices of
# their square are in memory at once, 300 MB.
_MOST_COEFFICIENTS = 2000


def too_many_parameters(model: FittedModel) -> str | None:
    """Why the information matrices of a fit are not worth their cost, as text; None if they are, or do not exist."""
    if not hasattr(model.score_model, "derivatives"):
        return None
    determined = isinstance(model.score_model, KernelScores)  # by the penalty, however few rows there are
    if not determined and (n := model.n_parameters) > model.total_weight:
        return f"the model has {n:,} parameters, more than there are rows ({model.total_weight:,.0f})"
    if model.n_coefficients > _MOST_COEFFICIENTS:
        return "the model has too many parameters"
    return None


@dataclass(frozen=True)
class Fitted:
    """A fitted model and its training rows: those of positive weight, labels -1 where missing.

    A row with votes for several classes is there once for each of them, weighted by its share of the votes.
    """

    model: FittedModel
    objective: Objective  # of the fit, over the rows in its axes
    mechanism: Mechanism | None  # in the axes of its covariates
    covariates: Covariates
    estimator: Any  # with classes 0, 1, ... and unnamed features, for refitting to other rows
    X: AnyArray
    z: AnyArray
    weight: Array | None
    kept: Ints  # positions of these rows among the user's `n_rows` rows
    n_rows: int
    checked: Callable[[Any], AnyArray]  # validates rows to predict, as the estimator does
    shares: Array | None = None  # (n_rows, K), of the votes of the user's rows; None if each has one label
    missing: Bools | None = None  # whose label was missing when the data came; None if where it is now

    @property
    def theta(self) -> Any:
        """Parameters of the score model, in the axes of the fit."""
        return self.model.theta

    @property
    def classes(self) -> AnyArray:
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

    @property
    def rows(self) -> tuple[Any, ...]:
        """The rows as a fit takes them."""
        return self.X, self.z, self.weight, self.missing

    @property
    def was_missing(self) -> Bools:
        """Whose label was missing when the data came."""
        return self.z < 0 if self.missing is None else self.missing

    @cached_property
    def row_weights(self) -> Array:
        """The weight of every row, one by default."""
        return np.ones(len(self.z)) if self.weight is None else self.weight

    @property
    def copied(self) -> bool:
        """Whether some row is there several times, as it has votes for several classes."""
        return self.shares is not None and len(self.distinct[0]) < len(self.kept)

    @cached_property
    def distinct(self) -> tuple[Ints, Ints]:
        """The first copy of each row, and for every copy the index of its row among these."""
        _, first, row = np.unique(self.kept, return_index=True, return_inverse=True)
        return first, row

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters on the user's scale: names, kinds and a function for their values."""
        return parameters_of(self.model, self.mechanism, self.covariates)

    @cached_property
    def information(self) -> Information:
        """Information matrices of the fit."""
        excess = None
        if self.copied:
            assert self.shares is not None
            if self.mechanism is not None:
                self.mechanism.require_no_label_term("inference from votes")
            first, row = self.distinct
            shares = self.shares[self.kept[first]]
            divided = np.flatnonzero(shares.max(axis=1) < 1.0)
            weight: Any = np.bincount(row, self.row_weights)[divided]
            X = self.X[first[divided]]
            excess = copies_excess(self.objective, self.theta, self.mechanism, X, shares[divided].T, weight)
        return Information(self.objective, self.theta, self.mechanism, excess)

    @property
    def coordinates(self) -> Coordinates:
        """The coordinates of the information matrices."""
        return self.information.coordinates

    @cached_property
    def values(self) -> Array:
        """Estimates on the user's scale."""
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
        """Covariance, by the delta method, of quantities with these derivatives (m, P).

        Entries are NaN for quantities that the data do not determine.
        """
        covariance, blind = self.information.covariance(kind)
        out = derivatives @ covariance @ derivatives.T
        if kind == "sandwich":  # a variance that only rounding makes negative
            np.fill_diagonal(out, np.maximum(np.diag(out), 0.0))
        if blind.shape[1]:
            size = np.linalg.norm(derivatives, axis=1) + 1e-300
            direction = blind / np.linalg.norm(blind, axis=0)
            undetermined = np.abs(derivatives @ direction).max(axis=1) > 1e-4 * size
            out[undetermined], out[:, undetermined] = np.nan, np.nan
        return out

    @property
    def tempered(self) -> bool:
        """Whether the mechanism has a weight other than one."""
        return self.mechanism is not None and self.objective.tempering != 1.0

    @property
    def full_likelihood(self) -> bool:
        """Whether the fit maximises a likelihood that is neither tempered nor penalised."""
        return not self.tempered and not self.information.penalty.any()

    @property
    def kernel(self) -> bool:
        """Whether this is a kernel logistic regression, whose penalty belongs to the model."""
        return isinstance(self.model.score_model, KernelScores)

    @property
    def described(self) -> str:
        """The model's main settings, as text."""
        if self.objective.model.joint:
            return f"{self.estimator}"
        several = "coefficients of the classes sum to zero"
        return f"{self.estimator}, {f'log-odds of {self.classes[1]}' if len(self.classes) == 2 else several}"

    @cached_property
    def few_rows(self) -> str | None:
        """What is scarce, as text, if rows or labels are too few for large-sample approximations."""
        w, size = self.row_weights, self.coordinates.size
        if w.sum() < _FEW_ROWS * size:
            return f"{w.sum():.0f} rows for {size} parameters"
        labels = np.array([w[self.z == k].sum() for k in range(len(self.classes))])
        if labels.min() < _FEW_LABELS:
            return f"{labels.min():.0f} labelled rows of class {self.classes[labels.argmin()]}"
        if not self.objective.model.joint and labels.sum() < _FEW_ROWS * self.coordinates.n_theta:
            return f"{labels.sum():.0f} labelled rows for {self.coordinates.n_theta} coefficients"
        return None

    def require_mechanism(self, what: str) -> Mechanism:
        """Return the mechanism, or raise if the fit has none."""
        if self.mechanism is None:
            raise ValueError(f"{what} needs a fitted mechanism: fit with a link, to partially labelled rows.")
        return self.mechanism

    def require_likelihood(self, what: str) -> None:
        """Raise unless the fit maximises the full, unpenalised likelihood."""
        if self.kernel:
            raise ValueError(f"{what} needs a fit without penalty, such as MARLogisticRegression with C=np.inf.")
        if self.information.penalty.any():
            raise ValueError(f"{what} needs a fit without penalty: fit with C=np.inf.")
        if not self.full_likelihood:
            raise ValueError(f"{what} needs the full likelihood: fit with mechanism_weight=1.")

    def require_covariance(self, kind: str) -> None:
        """Raise if this fit has no covariance matrix of that type."""
        if kind not in KINDS:
            raise ValueError(f"cov_type={kind!r} is not one of {', '.join(map(repr, KINDS))}.")
        if kind != "sandwich" and self.tempered:
            raise ValueError(
                f"cov_type={kind!r} needs the full likelihood, but mechanism_weight={self.objective.tempering:g}: "
                "use cov_type='sandwich'."
            )
