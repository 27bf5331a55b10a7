"""`FittedModel`: a fitted classifier as one immutable value."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from marmix.core.arrays import AnyArray, Array, namespace, to_host
from marmix.core.frames import Frame
from marmix.core.likelihood import ScoreModel
from marmix.core.measures import Posterior, as_measure, posterior
from marmix.core.mechanism import Mechanism
from marmix.core.moments import GroupMoments
from marmix.core.notes import Note, sentence


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A score model with its parameters, the mechanism, and facts about the fit.

    Parameters
    ----------
    score_model : ScoreModel
        Computes class scores from rows.
    theta : object
        The parameters of the score model, in the axes of the fit.
    frame : Frame
        The axes of the fit.
    measure : str or callable
        The measure of uncertainty, also if the mechanism is ignored.
    mechanism : Mechanism or None
        The mechanism in the user's axes; None if it is ignored. An intercept of minus infinity means that no label was missing.
    columns : list of int
        Features that enter the mechanism besides the uncertainty.
    tempering : float
        The weight of the mechanism in the fit.
    classes : array of shape (K,)
    n_features : int
    features : array of str, or None
        Names of the features, if they have any.
    moments : GroupMoments
        Weights, means and scatter of the training rows by class, which identify these rows.
    loglik_ignorable, loglik_missing : float
        The two parts of the log-likelihood.
    trace : array
        The objective after each iteration.
    converged : bool
    n_iter, n_passes : int
    notes : list of Note
    entropy : float or None
        Total entropy of the imputed labels; None if it was not computed.
    preparation : Preparation or None
        What makes features of the columns of a frame; None if rows are features as they come.
    """

    score_model: ScoreModel
    theta: Any
    frame: Frame
    measure: Any
    mechanism: Mechanism | None
    columns: list[int]
    tempering: float
    classes: AnyArray
    n_features: int
    features: AnyArray | None
    moments: GroupMoments
    loglik_ignorable: float
    loglik_missing: float
    trace: Array
    converged: bool
    n_iter: int
    n_passes: int
    notes: list[Note]
    entropy: float | None = None
    preparation: Any = None

    # For a block of rows (n, d) in the user's axes.

    def scores(self, X: Any) -> Array:
        """Class scores, (K, n); an error if a row is so far from those of the fit that they overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.score_model.scores(self.theta, self.frame.enter(X))
        xp = namespace(scores)
        finite = xp.isfinite(scores)
        if not bool(xp.all(finite)):
            self._refuse(to_host(X)[int(np.argmin(to_host(xp.all(finite, axis=0))))])
        return scores

    def _refuse(self, row: Array) -> NoReturn:
        """Raise an error that names the most unusual feature of a row."""
        mean, covariance = self.moments.overall()
        variance = covariance if covariance.ndim == 1 else np.diag(covariance)
        scale = np.sqrt(np.where(variance > 0.0, variance, 1.0))
        i = int(np.argmax(np.abs(row / scale - mean / scale)))
        raise ValueError(
            f"A row is too far from those of the fit to have probabilities: column {self.column_names[i]!r} has {row[i]:.3g}, "
            f"and had a mean of {mean[i]:.3g} and a standard deviation of {scale[i]:.3g}. Check it, or rescale and fit again."
        )

    def posterior(self, X: Any) -> Posterior:
        """Posterior class probabilities."""
        return posterior(self.scores(X))

    def unlabelled_posterior(self, X: Any) -> Posterior:
        """Class probabilities of rows that are known to be unlabelled, which differ from `posterior` if there is a label term."""
        p = self.posterior(X)
        return p if self.mechanism is None else self.mechanism.unlabelled(p, self._covariates(X))

    def _covariates(self, X: Any) -> Any:
        """Features (L, n) that enter the mechanism; None if there are none."""
        return namespace(X).concat([X[:, i : i + 1].T for i in self.columns]) if self.columns else None

    def uncertainty(self, X: Any) -> Array:
        """The uncertainty u of each row, (n,)."""
        return as_measure(self.measure)(self.posterior(X)).value

    def missing_proba(self, X: Any) -> Array:
        """The probability q that the label of each row is missing, (n,)."""
        if self.mechanism is None:
            raise ValueError("this model was fitted with link=None: fit it again with a link.")
        if not self.has_mechanism:
            return 0.0 * X[:, 0]
        return self.mechanism.missing_proba_of(self.mechanism.drivers(self.posterior(X), self._covariates(X)))

    @property
    def has_mechanism(self) -> bool:
        """Whether a mechanism was fitted, that is, some labels were missing."""
        return self.mechanism is not None and bool(np.isfinite(self.mechanism.alpha[0]))

    @property
    def has_label_term(self) -> bool:
        """Whether missingness depends on the label itself."""
        return self.mechanism is not None and bool(self.mechanism.label)

    @property
    def loglik(self) -> float:
        """The log-likelihood."""
        return self.loglik_ignorable + self.loglik_missing

    @cached_property
    def total_weight(self) -> float:
        """Total weight of the training rows."""
        return float(self.moments.weight.sum())

    @property
    def missing_weight(self) -> float:
        """Total weight of the unlabelled training rows."""
        return float(self.moments.weight[-1])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters, including those of the mechanism."""
        n = int(self.score_model.chart(self.theta).n_free)
        if self.mechanism is not None and self.has_mechanism:
            n += len(self.mechanism.alpha) + self.mechanism.free_shape + self.mechanism.free_share
            n += self.mechanism.n_free_labels
        return n

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients in which rows are differentiated: rows and columns of the sums behind information matrices."""
        row = self.frame.enter(np.zeros((1, self.n_features)))
        return len(self.score_model.owner) * self.score_model.derivatives(self.theta, row).slopes.shape[-2]

    @property
    def column_names(self) -> list[str]:
        """Names of the features; x0, x1, ... if they have none."""
        return column_names(self.features, self.n_features)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The parameters of the score model in the user's axes, by name."""
        return self.score_model.user_values(self.theta, self.frame)

    @property
    def sentences(self) -> list[str]:
        """The notes as sentences."""
        return [sentence(note, self.classes, self.column_names) for note in self.notes]

    def renamed(self, classes: AnyArray | None = None, features: AnyArray | None = None) -> "FittedModel":
        """The same model with other names, for features as they are; by default classes 0, 1, ... and unnamed features."""
        classes = np.arange(len(self.classes)) if classes is None else classes
        return replace(self, classes=classes, features=features, preparation=None)


def column_names(features: AnyArray | None, n_features: int) -> list[str]:
    """Names of the features; x0, x1, ... if they have none."""
    return [f"x{i}" for i in range(n_features)] if features is None else [str(name) for name in features]
