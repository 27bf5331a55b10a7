"""What the estimators share: validation in, prediction and fitted attributes out."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from marmix.arrays import Array
from marmix.estimators.prediction import Predictor
from marmix.estimators.validation import check_width, feature_columns
from marmix.fitting import Fit, Objective
from marmix.likelihood import ScoreModel
from marmix.mechanism import Mechanism
from marmix.mechanism.charts import SHAPE_MAX
from marmix.model import FittedModel
from marmix.notes import BoundaryWarning, Note, mechanism_notes
from marmix.rows import Covariates, Frame, Rows, rows_of


class Training(NamedTuple):
    """Validated rows, and what a first look at them has shown."""

    rows: Rows
    features: NDArray[Any] | None  # names of the features, where they have names
    names: list[str]  # the same, or x0, x1, ...
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

    def _blank(self) -> Any:
        """An estimator with the same parameters and no fit.

        Validation writes to it, so that a fit that is refused leaves this estimator as it was.
        """
        other = type(self).__new__(type(self))
        other.__dict__.update(self.get_params(deep=False))
        return other

    def _validated(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> Training:
        """The rows, checked; `reset` is False where they are compared with those of the fit."""
        checked = self._blank() if reset else self
        rows = rows_of(X, partial(validate_data, checked, reset=reset)).with_labels(
            y,
            sample_weight,
            named=self.classes,
            classes=None if reset else self.model_.classes,
            single=self.precision == "single",
        )
        d, features = checked.n_features_in_, getattr(checked, "feature_names_in_", None)
        check_width(d, self.get_params().get("covariance_type", "diag"))
        names = [f"x{i}" for i in range(d)] if features is None else [str(name) for name in features]
        mean, covariance = rows.moments.overall()
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            rows.check_finite(names)
        columns = feature_columns(self.mechanism_features, names) if reset else self.model_.columns
        covariates = Covariates.standardised([] if self.link is None else columns, mean, covariance)
        return Training(rows, features, names, mean, covariance, covariates)

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
        if self.link is None or not self.model_.has_mechanism:
            return {}
        options = Mechanism.from_link(self.link, self.shape)
        if not options.free_shape and options.shape != self.shape_:
            return {}  # alpha of one shape means nothing at another
        return {"alpha": self.alpha_, "shape": min(float(self.shape_ or 0.0), SHAPE_MAX), "share": self.share_}

    # Out of the fit.

    def _finish(self, fit: Fit, objective: Objective, training: Training, notes: list[Note]) -> None:
        """Hold the fitted model and the imputed labels, and warn."""
        rows, offset = training.rows, objective.offset
        sums = objective.sums(fit.theta, fit.mechanism) if fit.sums is None else fit.sums
        mechanism = self._mechanism_of_user(fit.mechanism, training.covariates)
        limits = mechanism_notes(mechanism, sums.missing / objective.engine.total_weight)
        model = FittedModel(
            score_model=objective.model,
            theta=fit.theta,
            frame=objective.engine.frame,
            uncertainty=vars(self)["uncertainty"],
            mechanism=mechanism,
            columns=training.covariates.columns,
            tempering=objective.tempering,
            classes=rows.classes,
            n_features=len(training.names),
            features=training.features,
            moments=rows.moments,
            loglik_ignorable=sums.ignorable + offset,
            loglik_missing=sums.missing,
            trace=np.array(fit.trace) + offset,
            converged=fit.converged,
            n_iter=max(len(fit.trace) - 1, 1),
            n_passes=objective.passes[0],
            notes=[*limits, *notes],
            entropy=None if rows.labels_in_file else objective.entropy(fit.theta),
        )
        del objective
        labels = None if rows.labels_in_file else self._imputed(model, rows, rows.codes)
        rows.release()
        self.model_ = model
        self.__dict__.pop("transduction_", None)
        if labels is not None:
            self.transduction_ = labels
        if not fit.converged:
            warnings.warn(
                f"The fit did not converge: {fit.reason}. Raise max_iter, try n_init, or simplify the model "
                "(fewer parameters, a fixed shape).",
                ConvergenceWarning,
                stacklevel=3,
            )
        if model.notes:
            warnings.warn(" ".join(model.sentences), BoundaryWarning, stacklevel=3)

    def _mechanism_of_user(self, mechanism: Mechanism | None, covariates: Covariates) -> Mechanism | None:
        """The fitted mechanism in the user's axes."""
        if self.link is None:
            return None
        if mechanism is not None:
            return mechanism.moved(covariates.alpha_to_user(mechanism.alpha))
        # every row labelled: the maximum of the mechanism is that no label is ever missing
        measure = vars(self)["uncertainty"]
        options = Mechanism.from_link(self.link, self.shape, measure)
        alpha = (-np.inf,) + (0.0,) * (1 + len(covariates.columns))
        return Mechanism(measure, alpha, np.nan if options.free_shape else options.shape)
