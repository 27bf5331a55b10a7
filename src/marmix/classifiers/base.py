"""What the estimators share: validation in, prediction and fitted attributes out."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from marmix.charts import SHAPE_MAX
from marmix.engines import Frame, NumpyEngine, block_rows
from marmix.inference import Fingerprint
from marmix.labels import encode_labels, known_labels, number_labels
from marmix.likelihood import ScoreModel
from marmix.missingness import Mechanism, drivers_of
from marmix.notes import BoundaryWarning, mechanism_notes
from marmix.solvers import Fit
from marmix.start import overall_moments
from marmix.uncertainty import Posterior, entropy, log_tau, measure_function, posterior
from marmix.validation import check_finite, feature_columns, weighted_rows

Array = NDArray[np.float64]


class SettingAndMethod:
    """A parameter and a method of the same name, which the paper's word "uncertainty" wants to be.

    Setting it sets the parameter, which `get_params` returns; reading it from an estimator gives the method.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, estimator: BaseEstimator, value: object) -> None:
        vars(estimator)[self.name] = value

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        return self if estimator is None else estimator._uncertainty_of


class Rows(NamedTuple):
    """Validated training data; `X` and `z` are all rows, the others those of positive weight."""

    X: NDArray[Any]
    z: NDArray[Any]
    names: list[str]
    counted: NDArray[Any]
    labels: NDArray[Any]
    weight: Array | None
    mean: Array
    covariance: Array
    covariates: tuple[Frame, list[int]] | None
    kept: NDArray[Any] | None  # the places of these rows, None where they are all rows


def silent(line: str) -> None:
    """Take a line of progress and say nothing."""


def _models_missingness(estimator: "MARClassifier") -> bool:
    if estimator.link is None:
        raise AttributeError(
            f"link=None ignores the mechanism: fit {type(estimator).__name__} with a link to have one."
        )
    return True


def score_labelled(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Accuracy on the rows whose label is known."""
    check_is_fitted(estimator)
    known, labels = known_labels(y, estimator.classes_)
    if not known.any():
        raise ValueError("score needs labelled rows, and every label in y is missing.")
    predicted = estimator.predict(X)
    if len(predicted) != len(known):
        raise ValueError(f"X and y have inconsistent numbers of samples: {len(predicted)} and {len(known)}.")
    weight = None
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=float)
        if weight.shape != known.shape:
            raise ValueError(f"sample_weight must have shape {known.shape}, one weight a row; got {weight.shape}.")
        weight = weight[known]
    return float(accuracy_score(labels, predicted[known], sample_weight=weight))


class MARClassifier(ClassifierMixin, BaseEstimator):
    """Base of the estimators: everything but the score model. Not for direct use."""

    uncertainty: Any = SettingAndMethod()
    link: str | None
    classes_: NDArray[Any]
    _model: ScoreModel

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator, as scikit-learn's `get_params`."""
        return super().get_params(deep) | {"uncertainty": vars(self)["uncertainty"]}

    # Into the fit.

    def _validated(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> Rows:
        """The rows, checked; `reset` is False where they are those of the previous fit."""
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=reset)
        names = self._column_names()
        check_finite(X, names)
        if reset:
            z, self.classes_ = encode_labels(y, self.classes)
        else:
            z = number_labels(y, self.classes_)
        if len(z) != len(X):
            raise ValueError(f"X and y have inconsistent numbers of samples: {len(X)} and {len(z)}.")
        counted, labels, weight = weighted_rows(X, z, sample_weight, self.classes_ if reset else self.classes_[:0])
        mean, covariance = overall_moments(counted, weight)
        covariates = None
        columns = feature_columns(self.mechanism_features, names) if reset else self._columns
        if columns and self.link is not None:
            sd = np.sqrt(np.diag(covariance))[columns]
            covariates = Frame(mean[columns], np.diag(1.0 / np.where(sd > 0.0, sd, 1.0))), columns
        kept = None if len(counted) == len(X) else np.flatnonzero(np.asarray(sample_weight) > 0)
        return Rows(X, z, names, counted, labels, weight, mean, covariance, covariates, kept)

    def _mechanism(self, rows: Rows) -> Mechanism | None:
        """The mechanism to be fitted, None where there is none to fit."""
        if self.link is None or not (rows.labels < 0).any():
            return None
        covariates = 0 if rows.covariates is None else len(rows.covariates[1])
        return Mechanism.from_link(self.link, self.shape, vars(self)["uncertainty"], self.mcar_share, covariates)

    def _starting_values(self, rows: Rows, values: Mapping[str, Any]) -> dict[str, Any]:
        """The user's starting values, alpha moved to the axes of the covariates."""
        out = dict(values)
        if "alpha" in out and rows.covariates is not None:
            frame, columns = rows.covariates
            alpha = np.array(out["alpha"])
            if alpha.shape == (2 + len(columns),) and alpha.dtype.kind in "if":
                alpha = alpha.astype(float)
                alpha[0] += alpha[2:] @ frame.centre
                alpha[2:] = alpha[2:] @ frame.unwhitener
                out["alpha"] = alpha
        return out

    def _previous_mechanism(self) -> dict[str, Any]:
        """Starting values of the mechanism from the previous fit."""
        if self.link is None or self.alpha_ is None or not np.isfinite(self.alpha_).all():
            return {}
        options = Mechanism.from_link(self.link, self.shape)
        if not options.free_shape and options.shape != self.shape_:
            return {}  # alpha of one shape means nothing at another
        return {"alpha": self.alpha_, "shape": min(float(self.shape_ or 0.0), SHAPE_MAX), "share": self.share_}

    # Out of the fit.

    def _set_fitted(self, fit: Fit, engine: NumpyEngine, rows: Rows, offset: float) -> None:
        """Attributes that all estimators have; `offset` brings log-likelihoods to the user's axes."""
        self._model, self._frame, self._theta = engine.model, engine.frame, fit.theta
        sums = engine.sums(fit.theta, fit.mechanism)
        self._measure = vars(self)["uncertainty"]
        self._columns = [] if rows.covariates is None else rows.covariates[1]
        self.mechanism_ = fit.mechanism
        if fit.mechanism is not None and rows.covariates is not None:
            alpha, frame = np.array(fit.mechanism.alpha), rows.covariates[0]
            alpha[2:] = alpha[2:] @ frame.whitener
            alpha[0] -= alpha[2:] @ frame.centre
            self.mechanism_ = fit.mechanism.moved(alpha)
        if fit.mechanism is None and self.link is not None:
            # every row labelled: the maximum of the mechanism is that no label is ever missing
            none_lost = (-np.inf,) + (0.0,) * (1 + len(self._columns))
            options = Mechanism.from_link(self.link, self.shape, self._measure)
            shape = np.nan if options.free_shape else options.shape
            self.mechanism_ = Mechanism(uncertainty=self._measure, alpha=none_lost, shape=shape)
        known = self.mechanism_
        self.alpha_ = None if known is None else np.array(known.alpha)
        self.shape_ = None if known is None else known.shape
        self.share_ = None if known is None else known.share
        self.loglik_ignorable_ = sums.ignorable + offset
        self.loglik_missing_ = sums.missing
        self.loglik_ = self.loglik_ignorable_ + self.loglik_missing_
        self.trace_ = np.array(fit.trace) + offset
        self.converged_ = fit.converged
        self.n_iter_ = max(len(fit.trace) - 1, 1)
        self.n_passes_ = fit.n_passes
        self._total_weight = engine.total_weight
        self._tempering = engine.tempering

    def _warn(self, fit: Fit, notes: list[str]) -> None:
        if not fit.converged:
            warnings.warn(
                f"The fit did not converge: {fit.reason}. Raise max_iter, try n_init, or simplify the model "
                "(fewer parameters, a fixed shape).",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.notes_ = [*mechanism_notes(self.mechanism_, self.loglik_missing_ / self._total_weight), *notes]
        if self.notes_:
            warnings.warn(" ".join(self.notes_), BoundaryWarning, stacklevel=3)

    def _set_transduction(self, rows: Rows) -> None:
        """Impute the labels, and sum the entropy of what is imputed."""
        self.transduction_ = self.classes_[rows.z]
        weight = np.ones(len(rows.X))
        if rows.weight is not None:
            weight = np.zeros(len(rows.X))
            weight[slice(None) if rows.kept is None else rows.kept] = rows.weight
        self._entropy, self._missing_weight = 0.0, float(weight[rows.z < 0].sum())
        for block in self._blocks(len(rows.X)):
            imputed = rows.z[block] < 0
            if imputed.any():
                scores = self._scores(rows.X[block][imputed])
                self.transduction_[block][imputed] = self.classes_[scores.argmax(axis=0)]
                with np.errstate(all="ignore"):
                    self._entropy += float(entropy(posterior(scores)).value @ weight[block][imputed])
        self._fingerprint = Fingerprint.of(rows.counted, rows.labels, rows.weight, len(self.classes_))

    # Prediction.

    def _column_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _blocks(self, n: int) -> list[slice]:
        size = block_rows(self._model.n_features())
        return [slice(a, min(a + size, n)) for a in range(0, n, size)]

    def _scores(self, X: NDArray[np.floating[Any]]) -> Array:
        """Class scores (K, n) of a block of rows."""
        return self._model.scores(self._theta, self._frame.enter(X))

    def _checked(self, X: Any) -> NDArray[Any]:
        """Rows to predict, with the features of the fit."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=False)
        check_finite(X, self._column_names())
        return X

    def _map(self, X: Any, function: Callable[[Posterior, NDArray[Any]], Array], *shape: int) -> Array:
        """A function of the posteriors and features of each row, block by block."""
        X = self._checked(X)
        out = np.empty((len(X), *shape))
        with np.errstate(all="ignore"):
            for rows in self._blocks(len(X)):
                out[rows] = function(posterior(self._scores(X[rows])), X[rows]).T
        return out

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the posterior class probabilities, (n, K); finite however small."""
        check_is_fitted(self)
        return self._map(X, lambda p, _: log_tau(p), len(self.classes_))

    def predict_proba(self, X: Any) -> Array:
        """Posterior class probabilities by Bayes' rule, (n, K), columns as in `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class where there are two, (n,); else the log posteriors, (n, K)."""
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    @available_if(_models_missingness)
    def missing_proba(self, X: Any) -> Array:
        """The probability q that the label of each row is missing, (n,)."""
        check_is_fitted(self)
        known = self.mechanism_
        if known is None:
            raise ValueError("this estimator was fitted with link=None: fit it again with a link.")
        if not np.isfinite(known.alpha[0]):
            return 0.0 * self._uncertainty_of(X)

        def q(p: Posterior, X: NDArray[Any]) -> Array:
            return known.missing_proba_of(drivers_of(known.measured(p).value, X[:, self._columns].T))

        return self._map(X, q)

    def _uncertainty_of(self, X: Any) -> Array:
        """The measure u of each row, (n,): what drives the mechanism."""
        check_is_fitted(self)
        return self._map(X, lambda p, _: measure_function(self._measure)(p).value)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows whose label is known; rows of `y` that are missing do not count.

        The labelled rows are not a fair sample when hard rows lose their labels: this score flatters. `marmix.evaluation`
        has scores that do not.
        """
        return score_labelled(self, X, y, sample_weight)
