"""What the estimators share: validation in, prediction and fitted attributes out."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from marmix.arrays import Array
from marmix.estimators.prediction import Predictor
from marmix.estimators.validation import check_width, feature_columns
from marmix.fitting import Fit, Objective
from marmix.inference import Fingerprint
from marmix.likelihood import ScoreModel
from marmix.mechanism import Mechanism
from marmix.mechanism.charts import SHAPE_MAX
from marmix.notes import BoundaryWarning, mechanism_notes
from marmix.rows import Covariates, Frame, Rows, rows_of


class Training(NamedTuple):
    """Validated rows, and what a first look at them has shown."""

    rows: Rows
    names: list[str]
    mean: Array
    covariance: Array
    covariates: Covariates

    def objective(self, frame: Frame, model: ScoreModel, tempering: float) -> Objective:
        """What a fit of the model in these axes maximises."""
        return Objective(self.rows.engine(frame, self.covariates), model, tempering)


class MARClassifier(Predictor):
    """Base of the estimators: everything but the score model. Not for direct use."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator, as scikit-learn's `get_params`."""
        return super().get_params(deep) | {"uncertainty": vars(self)["uncertainty"]}

    # Into the fit.

    def _validated(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> Training:
        """The rows, checked; `reset` is False where they are those of the previous fit."""
        rows = rows_of(X, partial(validate_data, self, reset=reset)).with_labels(
            y,
            sample_weight,
            named=self.classes,
            classes=None if reset else self.classes_,
            single=self.precision == "single",
        )
        self.classes_ = rows.classes
        check_width(self.n_features_in_, self.get_params().get("covariance_type", "diag"))
        names = self._column_names()
        mean, covariance = rows.moments.overall()
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            rows.check_finite(names)
        columns = feature_columns(self.mechanism_features, names) if reset else self._columns
        covariates = Covariates.standardised([] if self.link is None else columns, mean, covariance)
        return Training(rows, names, mean, covariance, covariates)

    def _mechanism(self, training: Training) -> Mechanism | None:
        """The mechanism to be fitted, None where there is none to fit."""
        if self.link is None or not training.rows.any_missing:
            return None
        covariates = len(training.covariates.columns)
        return Mechanism.from_link(self.link, self.shape, vars(self)["uncertainty"], self.mcar_share, covariates)

    def _starting_values(self, training: Training, values: Mapping[str, Any]) -> dict[str, Any]:
        """The user's starting values, alpha moved to the axes of the covariates."""
        if "alpha" in values and training.covariates.columns:
            alpha = np.array(values["alpha"])
            if alpha.shape == (2 + len(training.covariates.columns),) and alpha.dtype.kind in "if":
                return dict(values) | {"alpha": training.covariates.alpha_from_user(alpha)}
        return dict(values)

    def _previous_mechanism(self) -> dict[str, Any]:
        """Starting values of the mechanism from the previous fit."""
        if self.link is None or self.alpha_ is None or not np.isfinite(self.alpha_).all():
            return {}
        options = Mechanism.from_link(self.link, self.shape)
        if not options.free_shape and options.shape != self.shape_:
            return {}  # alpha of one shape means nothing at another
        return {"alpha": self.alpha_, "shape": min(float(self.shape_ or 0.0), SHAPE_MAX), "share": self.share_}

    # Out of the fit.

    def _set_fitted(self, fit: Fit, objective: Objective, training: Training) -> None:
        """Attributes that all estimators have."""
        engine, offset = objective.engine, objective.offset
        self._model, self._frame, self._theta = objective.model, engine.frame, fit.theta
        sums = objective.sums(fit.theta, fit.mechanism) if fit.sums is None else fit.sums
        self._measure = vars(self)["uncertainty"]
        self._columns = training.covariates.columns
        self.mechanism_ = fit.mechanism
        if fit.mechanism is not None:
            self.mechanism_ = fit.mechanism.moved(training.covariates.alpha_to_user(fit.mechanism.alpha))
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
        self.n_passes_ = objective.passes[0]
        self._fingerprint = Fingerprint(training.rows.moments)
        self._total_weight = engine.total_weight
        self._entropy = None if training.rows.labels_in_file else objective.entropy(fit.theta)
        self._tempering = objective.tempering

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

    def _set_transduction(self, training: Training) -> None:
        """Impute the labels, and let the rows go."""
        rows = training.rows
        self._missing_weight = float(rows.moments.weight[-1])
        self.__dict__.pop("transduction_", None)
        if not rows.labels_in_file:
            self.transduction_ = self._imputed(rows, rows.codes)
        rows.release()
