"""What the estimators share: validation in, prediction and fitted attributes out."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from marmix.arrays import Array, brought_here, detached, in_double, like, namespace, on_cluster, on_device, to_host
from marmix.estimators.prediction import Predictor
from marmix.estimators.validation import check_width, feature_columns
from marmix.fitting import Fit
from marmix.labels import encode_labels, number_labels
from marmix.likelihood import ScoreModel
from marmix.mechanism import Mechanism
from marmix.mechanism.charts import SHAPE_MAX
from marmix.model import FittedModel
from marmix.notes import BoundaryWarning, Note, mechanism_notes
from marmix.rows import Covariates, Engine, Frame, Setting
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
    classes: NDArray[Any]
    features: NDArray[Any] | None  # names of the features, where they have names
    names: list[str]  # the same, or x0, x1, ...
    mean: Array
    covariance: Array
    covariates: Covariates | None

    def setting(self, frame: Frame, model: ScoreModel, tempering: float) -> Setting:
        """What the engine of a fit knows besides the rows."""
        return Setting(frame, model, self.covariates, tempering)


def silent(line: str) -> None:
    """Take a line of progress and say nothing."""


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
        rows = checked._rows(X, y, sample_weight, reset)
        check_width(checked.n_features_in_, self.get_params().get("covariance_type", "diag"))
        features = getattr(checked, "feature_names_in_", None)
        names = (
            [f"x{i}" for i in range(checked.n_features_in_)] if features is None else [str(name) for name in features]
        )
        mean, covariance = rows.moments.overall()
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            rows.check_finite(names)
        columns = feature_columns(self.mechanism_features, names) if reset else self.model_.columns
        covariates = None
        if columns and self.link is not None:
            sd = np.sqrt(np.diag(covariance))[columns]
            covariates = Frame(mean[columns], np.diag(1.0 / np.where(sd > 0.0, sd, 1.0))), columns
        return Training(rows, checked.classes_, features, names, mean, covariance, covariates)

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
            return number_labels(y, self.classes_)
        z, self.classes_ = encode_labels(y, self.classes)
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
        covariates = 0 if training.covariates is None else len(training.covariates[1])
        return Mechanism.from_link(self.link, self.shape, vars(self)["uncertainty"], self.mcar_share, covariates)

    def _starting_values(self, training: Training, values: Mapping[str, Any]) -> dict[str, Any]:
        """The user's starting values, alpha moved to the axes of the covariates."""
        out = dict(values)
        if "alpha" in out and training.covariates is not None:
            frame, columns = training.covariates
            alpha = np.array(out["alpha"])
            if alpha.shape == (2 + len(columns),) and alpha.dtype.kind in "if":
                alpha = alpha.astype(float)
                alpha[0] += alpha[2:] @ frame.centre
                alpha[2:] = alpha[2:] @ frame.unwhitener
                out["alpha"] = alpha
        return out

    def _previous_mechanism(self) -> dict[str, Any]:
        """Starting values of the mechanism from the previous fit."""
        if self.link is None or not self.model_.has_mechanism:
            return {}
        options = Mechanism.from_link(self.link, self.shape)
        if not options.free_shape and options.shape != self.shape_:
            return {}  # alpha of one shape means nothing at another
        return {"alpha": self.alpha_, "shape": min(float(self.shape_ or 0.0), SHAPE_MAX), "share": self.share_}

    # Out of the fit.

    def _finish(self, fit: Fit, engine: Engine, training: Training, offset: float, notes: list[Note]) -> None:
        """Hold the fitted model and the imputed labels, and warn; `offset` brings log-likelihoods to the user's axes."""
        sums = engine.sums(fit.theta, fit.mechanism) if fit.sums is None else fit.sums
        mechanism = self._mechanism_of_user(fit.mechanism, training)
        mechanism_notes_ = mechanism_notes(mechanism, sums.missing / engine.total_weight)
        model = FittedModel(
            score_model=engine.model,
            theta=fit.theta,
            frame=engine.frame,
            uncertainty=vars(self)["uncertainty"],
            mechanism=mechanism,
            columns=[] if training.covariates is None else training.covariates[1],
            tempering=engine.tempering,
            classes=training.classes,
            n_features=len(training.names),
            features=training.features,
            moments=training.rows.moments,
            loglik_ignorable=sums.ignorable + offset,
            loglik_missing=sums.missing,
            trace=np.array(fit.trace) + offset,
            converged=fit.converged,
            n_iter=max(len(fit.trace) - 1, 1),
            n_passes=engine.passes[0],
            notes=[*mechanism_notes_, *notes],
        )
        del engine
        fitted = self._blank()
        fitted.model_ = model
        labels, entropy = training.rows.imputed(fitted)
        self._hold(replace(model, entropy=entropy), labels)
        if not fit.converged:
            warnings.warn(
                f"The fit did not converge: {fit.reason}. Raise max_iter, try n_init, or simplify the model "
                "(fewer parameters, a fixed shape).",
                ConvergenceWarning,
                stacklevel=3,
            )
        if model.notes:
            warnings.warn(" ".join(model.sentences), BoundaryWarning, stacklevel=3)

    def _hold(self, model: FittedModel, labels: Any = None) -> None:
        """Make this the fitted model, and these the labels of its rows where they are kept."""
        self.model_ = model
        self.__dict__.pop("transduction_", None)
        if labels is not None:
            self.transduction_ = labels

    def _mechanism_of_user(self, mechanism: Mechanism | None, training: Training) -> Mechanism | None:
        """The fitted mechanism in the user's axes."""
        if self.link is None:
            return None
        covariates = training.covariates
        if mechanism is None:
            # every row labelled: the maximum of the mechanism is that no label is ever missing
            measure = vars(self)["uncertainty"]
            options = Mechanism.from_link(self.link, self.shape, measure)
            alpha = (-np.inf,) + (0.0,) * (1 + (0 if covariates is None else len(covariates[1])))
            return Mechanism(measure, alpha, np.nan if options.free_shape else options.shape)
        if covariates is None:
            return mechanism
        alpha_user, frame = np.array(mechanism.alpha), covariates[0]
        alpha_user[2:] = alpha_user[2:] @ frame.whitener
        alpha_user[0] -= alpha_user[2:] @ frame.centre
        return mechanism.moved(alpha_user)
