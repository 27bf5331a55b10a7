"""What the estimators share: validation in, prediction and fitted attributes out."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from marmix.arrays import Array, brought_here, detached, in_double, like, namespace, on_cluster, on_device, to_host
from marmix.estimators.prediction import Predictor
from marmix.estimators.validation import check_width, feature_columns
from marmix.fitting import Fit, Objective
from marmix.inference import Fingerprint
from marmix.labels import encode_device_labels, encode_labels, number_device_labels, number_labels
from marmix.likelihood import ScoreModel
from marmix.mechanism import Mechanism
from marmix.mechanism.charts import SHAPE_MAX
from marmix.notes import BoundaryWarning, mechanism_notes
from marmix.rows import Covariates, Frame
from marmix.rows.checks import (
    check_lengths,
    check_table,
    check_weighted_classes,
    file_weights,
    refuse_negative,
    refuse_sparse,
    weighted_rows,
)
from marmix.rows.device import DeviceRows
from marmix.rows.host import HostRows
from marmix.streams import in_file, opened


class Training(NamedTuple):
    """Validated rows, and what a first look at them has shown."""

    rows: Any  # HostRows, DeviceRows or ClusterRows
    names: list[str]
    mean: Array
    covariance: Array
    covariates: Covariates

    def objective(self, frame: Frame, model: ScoreModel, tempering: float) -> Objective:
        """What a fit of the model in these axes maximises."""
        return Objective(self.rows.engine(frame, self.covariates), model, tempering)


def device_weights(X: Any, sample_weight: Any) -> Any:
    """Weights of rows on a device, checked, in double precision beside them."""
    if not on_device(sample_weight):
        sample_weight = like(np.array(sample_weight, dtype=float), in_double(X[:0, :]))
    xp, weight = namespace(sample_weight), in_double(detached(sample_weight))
    if tuple(weight.shape) != (X.shape[0],):
        raise ValueError(f"sample_weight must have shape ({X.shape[0]},), one weight a row; got {tuple(weight.shape)}.")
    low, high = to_host(xp.stack([xp.min(weight), xp.max(weight)]))
    if not np.isfinite([low, high]).all():
        raise ValueError("Input sample_weight contains NaN or infinity.")
    refuse_negative(low)
    if high == 0.0:
        raise ValueError("every sample_weight is zero: no row counts.")
    return weight


class MARClassifier(Predictor):
    """Base of the estimators: everything but the score model. Not for direct use."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator, as scikit-learn's `get_params`."""
        return super().get_params(deep) | {"uncertainty": vars(self)["uncertainty"]}

    # Into the fit.

    def _validated(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> Training:
        """The rows, checked; `reset` is False where they are those of the previous fit."""
        rows = self._rows(X, y, sample_weight, reset)
        check_width(self.n_features_in_, self.get_params().get("covariance_type", "diag"))
        names = self._column_names()
        mean, covariance = rows.moments.overall()
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            rows.check_finite(names)
        columns = feature_columns(self.mechanism_features, names) if reset else self._columns
        covariates = Covariates.standardised([] if self.link is None else columns, mean, covariance)
        return Training(rows, names, mean, covariance, covariates)

    def _rows(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Any:
        """The rows where they are: on the host, on a device or on a cluster."""
        X, y, sample_weight = detached(opened(X)), opened(y, "y"), opened(sample_weight, "sample_weight")
        refuse_sparse(X)
        if on_cluster(X):
            from marmix.rows.cluster import ClusterRows

            return ClusterRows.of(self, X, y, sample_weight, reset)
        if on_device(X):
            return self._device_rows(X, y, sample_weight, reset)
        y, sample_weight = brought_here("the fit", y, sample_weight)
        if in_file(X):
            check_table(X)
            validate_data(self, X, skip_check_array=True, reset=reset)
        else:
            X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=reset)
        z = self._numbers(y, reset)
        check_lengths(X, z)
        named, labels_in_file = self.classes_ if reset else self.classes_[:0], isinstance(y, np.memmap)
        if in_file(X):
            weight = file_weights(X, z, sample_weight, named)
            return HostRows(X, z, X, z, weight, None, len(self.classes_), labels_in_file)
        counted, labels, weight = weighted_rows(X, z, sample_weight, named)
        kept = None if len(counted) == len(X) else np.flatnonzero(np.asarray(sample_weight) > 0)
        return HostRows(X, z, counted, labels, weight, kept, len(self.classes_), False)

    def _numbers(self, y: Any, reset: bool) -> Any:
        """The numbers of the classes, -1 where a label is missing; `reset` finds the classes."""
        if not reset:
            return number_device_labels(y, self.classes_) if on_device(y) else number_labels(y, self.classes_)
        z, self.classes_ = encode_device_labels(y, self.classes) if on_device(y) else encode_labels(y, self.classes)
        return z

    def _device_rows(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> DeviceRows:
        check_table(X)
        validate_data(self, X, skip_check_array=True, reset=reset)
        xp, z = namespace(X), self._numbers(y, reset)
        check_lengths(X, z)
        z = xp.asarray(z, device=X.device)
        weight = None
        if sample_weight is not None:
            weight = device_weights(X, sample_weight)
        rows = DeviceRows(X, z, weight, len(self.classes_), self.precision == "single")
        if reset:
            check_weighted_classes(self.classes_, rows.moments.weight[:-1] > 0.0)
        return rows

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
        """Impute the labels, and sum the entropy of what is imputed."""
        imputed, self._entropy = training.rows.imputed(self)
        self._missing_weight = float(training.rows.moments.weight[-1])
        self.__dict__.pop("transduction_", None)
        if imputed is not None:
            self.transduction_ = imputed
