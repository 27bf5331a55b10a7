"""Base class of the model estimators: validation, fitted attributes, prediction and inference."""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from marmix.core.arrays import (
    LARGEST,
    AnyArray,
    Array,
    namespace,
    on_cluster,
    on_device,
    on_host,
    to_host,
    to_host_or_refuse,
    unmasked,
)
from marmix.core.charts import LABEL_MAX, SHAPE_MAX
from marmix.core.files import open_array
from marmix.core.frames import Covariates, Frame
from marmix.core.gaussian import GaussianScores
from marmix.core.labels import has_votes, known_labels, label_shares, missing_texts_notes, vote_shares
from marmix.core.likelihood import ScoreModel
from marmix.core.measures import MeasureLike, log_tau
from marmix.core.mechanism import Mechanism
from marmix.core.model import FittedModel, column_names
from marmix.core.notes import BoundaryWarning, Note, all_labelled_notes, maxima_notes, mechanism_notes
from marmix.core.workers import one_thread
from marmix.engines import HostRows, Rows, rows_of
from marmix.engines.checks import check_finite, checked_weights
from marmix.estimators.conversion import to_sklearn
from marmix.estimators.summary import Described
from marmix.estimators.validation import (
    MOST_FEATURES,
    check_parameters,
    check_width,
    component_counts,
    feature_columns,
    label_terms,
)
from marmix.evaluation.pseudo_labels import NO_CHANCE, inverse_weights
from marmix.fitting import Fit, Objective
from marmix.inference import Criteria, Fitted, Inference, require_parameters
from marmix.inference.draws import posterior_draws
from marmix.inference.sensitivity import (
    Draw,
    Sensitivity,
    Sweep,
    class_place,
    pattern_mixture,
    rarest,
    sensitivity,
    swept,
)
from marmix.inference.simulation import refit
from marmix.selection.held_out import Sample, choose_weight, sample_of
from marmix.tables.preparation import preparation_of

_AT_ONCE = 8192  # values in rows that are predicted without blocks and threads
OTHER_ROWS = "These are not the rows of the fit: the intervals do not include its uncertainty, only the draw of labels."
HELD = "Some parameters are at a limit or not determined by the data, and were held at the fit: the intervals are too narrow."


class Training(NamedTuple):
    """Validated training rows, with their feature names and moments."""

    rows: Rows
    features: AnyArray | None  # feature names, None if X has none
    names: list[str]  # the same, or x0, x1, ...
    mean: Array
    covariance: Array  # or the variances (d,), if the score model needs no products of features
    covariates: Covariates
    preparation: Any  # of the columns of a frame, or None

    @property
    def scale(self) -> Array:
        """Standard deviations of the features; one where a feature is constant."""
        sd = np.sqrt(self.covariance if self.covariance.ndim == 1 else np.diag(self.covariance))
        return np.where(sd > 0.0, sd, 1.0)

    @property
    def sample(self) -> Sample:
        """Rows on the host on which settings are chosen, standardised."""
        return sample_of(self.rows, Frame(self.mean, 1.0 / self.scale), self.covariates)

    def objective(self, frame: Frame, model: ScoreModel, tempering: float) -> Objective:
        """Objective of a fit of this model in these axes."""
        return Objective(self.rows.engine(frame, self.covariates), model, tempering)


def _absent(estimator: Any, name: str, reason: str) -> str:
    return f"{type(estimator).__name__!r} object has no attribute {name!r}" + f": {reason}" * bool(reason)


class FromModel:
    """A fitted attribute read from the value that the estimator holds; `optional` if that may not have it.

    By default one of the parameters of the score model, `FittedModel.values`.
    """

    held, reason = "model_", ""

    def __init__(self, read: str | Callable[[Any], Any] | None = None, optional: bool = False):
        self.read: Any = attrgetter(read) if isinstance(read, str) else read
        self.optional = optional

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.read = name, self.read or (lambda model: model.values[name[:-1]])

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        held = vars(estimator).get(self.held)
        with suppress(AttributeError):  # of None, where there is nothing to read from
            value = self.read(held)
            if not (self.optional and value is None):
                return value
        raise AttributeError(_absent(estimator, self.name, self.reason if held else ""))


class NotKept(FromModel):
    """A fitted attribute that may be absent; reading it then raises an error that gives the reason."""

    def __init__(self, reason: str):
        super().__init__(lambda model: None, optional=True)
        self.reason = reason


def n_columns(held: Any) -> int:
    """The number of columns of the rows of a fit."""
    return int(held.n_features if held.preparation is None else held.preparation.n_features_in_)


def columns_of(held: Any) -> Any:
    """The names of the columns of the rows of a fit; None if they have none."""
    if held.preparation is None:
        return held.features
    return np.array(held.preparation.feature_names_in_, dtype=object)


def entered(X: Any, checked: Any, encode: bool, held: Any = None) -> tuple[Any, Callable[..., Any]]:
    """The rows of a frame as features, and the check of their number and names; `held` has the preparation of a fit.

    Without it, in a fit, the attributes of `checked` become those of the features.
    """
    preparation = preparation_of(X, encode) if held is None else held.preparation
    if held is None:
        checked.preparation_ = preparation
    if preparation is None:
        return X, partial(validate_data, checked, reset=held is None)
    X = preparation.transform(X)
    if held is None:
        checked.n_features_in_, checked.feature_names_in_ = X.shape[1], preparation.get_feature_names_out()
    return X, check_array


def _delta_of(model: FittedModel) -> Array:
    assert model.mechanism is not None
    return np.array(model.mechanism.label or (0.0,) * len(model.classes))


def _has_link(estimator: "MARClassifier") -> bool:
    if estimator.link is None:
        raise AttributeError(
            f"link=None ignores the mechanism: fit {type(estimator).__name__} with a link to have one."
        )
    return True


class MARClassifier(Described, ClassifierMixin, BaseEstimator):
    """Base class of the classifiers with a single model: all but the score model."""

    measure: MeasureLike
    link: str | None
    _only_squares = False  # whether the fit needs no products of features
    _encodes = True  # whether the fit needs features without missing values and categories
    model_: FittedModel
    classes_ = FromModel("classes")
    n_features_in_ = FromModel(n_columns)
    feature_names_in_ = FromModel(columns_of, optional=True)
    preparation_ = FromModel("preparation")
    mechanism_ = FromModel("mechanism")
    alpha_ = FromModel(lambda model: None if model.mechanism is None else np.array(model.mechanism.alpha))
    shape_ = FromModel(lambda model: getattr(model.mechanism, "shape", None))
    share_ = FromModel(lambda model: getattr(model.mechanism, "share", None))
    delta_ = FromModel(lambda model: None if model.mechanism is None else _delta_of(model))
    mechanism_weight_ = FromModel("tempering")
    loglik_ = FromModel("loglik")
    loglik_ignorable_ = FromModel("loglik_ignorable")
    loglik_missing_ = FromModel("loglik_missing")
    trace_ = FromModel("trace")
    converged_ = FromModel("converged")
    n_iter_ = FromModel("n_iter")
    n_passes_ = FromModel("n_passes")
    notes_ = FromModel("sentences")
    transduction_ = NotKept(
        "it is not saved with the model, not kept if the labels come from a file, and not copied with an estimator fitted on a "
        "cluster. Use impute(X, y), or impute(X, y, out='labels.npy') to write a file.",
    )

    def __getstate__(self) -> dict[str, Any]:
        """State to copy or pickle, without imputed labels that live on a cluster; those on a device become NumPy arrays."""
        state: dict[str, Any] = super().__getstate__()
        labels = state.get("transduction_")
        if on_cluster(labels):
            state = {name: value for name, value in state.items() if name != "transduction_"}
        return state | {"transduction_": to_host(labels)} if on_device(labels) else state

    # Fitting

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, missing: Any = None) -> Self:
        """Choose what is "auto", and fit the classifier and the mechanism.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features; NaN if missing, in frames and for boosted trees only. NumPy, pandas, polars; a `numpy.memmap` of any size.
            Except for boosted trees also a torch or CuPy array, fitted on its device, or a Dask array or dataframe, fitted on
            its workers; what is "auto" is chosen on the host, by a sample.
        y : array-like of shape (n,) or (n, K)
            Labels; -1, NaN, None or pandas.NA if missing. A Dask array or series if X is one. With a column for each class,
            votes or probabilities, zero or NaN in all columns if missing: a row counts as copies of every class, weighted by
            the shares of its votes.
        sample_weight : array-like of shape (n,) or None
            A row of weight two counts as two rows; in boosted trees, in the loss alone.
        missing : array-like of bool, shape (n,), or None
            Whether the label of each row was missing when the data came; by default where y is missing. Say True for rows whose
            labels were asked for since: their labels count, and so does that they had been missing.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._fit(self._validated(X, y, sample_weight, missing))
        return self

    def _check_parameters(self) -> None:
        """Raise ValueError for parameters that cannot be used."""
        check_parameters(self.get_params())

    def _fit(self, training: Training) -> None:
        """Fit to checked rows."""
        raise NotImplementedError

    def _validated(self, X: Any, y: Any, sample_weight: Any, missing: Any = None, reset: bool = True) -> Training:
        """Checked rows; `reset` is False for rows that must have the features and classes of the fit."""
        checked: Any = type(self)() if reset else self  # a fit that fails leaves this estimator as it was
        rows = self._read(X, checked, reset).with_labels(
            y,
            sample_weight,
            missing,
            named=self.classes,
            classes=None if reset else self.model_.classes,
        )
        rows.only_squares = self._only_squares
        features = getattr(checked, "feature_names_in_", None) if reset else self.model_.features
        names = column_names(features, checked.n_features_in_ if reset else self.model_.n_features)
        self._check_rows(rows, names)
        mean, covariance = rows.moments.overall()
        variance = covariance if covariance.ndim == 1 else np.diag(covariance)
        rows.check_moments(mean, variance, names)
        columns = feature_columns(self.mechanism_features, names) if reset else self.model_.columns
        covariates = Covariates.standardised([] if self.link is None else columns, mean, variance)
        return Training(rows, features, names, mean, covariance, covariates, checked.preparation_)

    def _read(self, X: Any, checked: Any, reset: bool = False) -> Rows:
        """Rows whose features and their number are those of a fitted estimator, or with `reset` become them."""
        return rows_of(*entered(X, checked, self._encodes, None if reset else self.model_))

    def _check_rows(self, rows: Rows, names: list[str]) -> None:
        """Raise ValueError for rows that cannot be fitted."""
        check_width(vars(self), len(names), len(rows.X) if isinstance(rows, HostRows) else None)

    def _mechanism(self, training: Training) -> Mechanism | None:
        """Mechanism to fit; None if it is ignored or no label is missing."""
        delta = vars(self).get("delta")
        label = label_terms(delta, training.rows.classes)  # raises for unknown classes
        if self.link is None or not training.rows.any_missing:
            return None
        covariates = len(training.covariates.columns)
        return Mechanism.from_link(
            self.link, self.shape, self.measure, self.mcar_share, covariates, label, delta == "estimate"
        )

    def _weight(self, training: Training) -> float:
        """The weight of the mechanism, chosen by held-out rows if it is "auto"."""
        if self.mechanism_weight != "auto":
            return float(self.mechanism_weight)
        mechanism = self._mechanism(training)
        if mechanism is None:
            return 0.0
        trial = clone(self).set_params(
            classes=None, mechanism_features=training.covariates.columns or None, warm_start=False, verbose=0
        )
        if "n_components" in trial.get_params():
            trial.n_components = dict(enumerate(component_counts(self.n_components, training.rows.classes)))
        sample = training.sample
        X = sample.x.T * training.scale + training.mean
        weight = choose_weight(trial, X, sample, self.random_state)
        if self.verbose:
            print(f"chosen: weight {weight:g} of the mechanism", file=sys.stderr)
        return weight

    def _starting_values(self, training: Training, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the previous fit, with alpha in the axes of the standardised covariates."""
        columns = training.covariates.columns
        if columns and len(values.get("alpha", ())) == 2 + len(columns):
            return dict(values) | {"alpha": training.covariates.alpha_from_user(values["alpha"])}
        return dict(values)

    def _previous_mechanism(self) -> dict[str, Any]:
        """Starting values of the mechanism from the previous fit."""
        if self.link is None or not self.model_.has_mechanism:
            return {}
        options = Mechanism.from_link(self.link, self.shape)
        if not options.free_shape and options.shape != self.shape_:
            return {}  # alpha depends on the shape
        values = {"alpha": self.alpha_, "shape": min(float(self.shape_ or 0.0), SHAPE_MAX), "share": self.share_}
        if self.get_params().get("delta") == "estimate":  # the first class is the reference
            values["alpha"][0] += self.delta_[0]
            values["delta"] = np.clip(self.delta_ - self.delta_[0], -LABEL_MAX, LABEL_MAX)
        return values

    def _finish(
        self, fit: Fit, objective: Objective, training: Training, notes: list[Note], held_out: Array | None = None
    ) -> None:
        """Hold the result of a solver."""
        sums = objective.sums(fit.theta, fit.mechanism) if fit.sums is None else fit.sums
        if not fit.converged:
            warnings.warn(
                f"The fit did not converge: {fit.reason}. Raise max_iter, try n_init, or simplify the model "
                "(fewer parameters, a fixed shape).",
                ConvergenceWarning,
                stacklevel=4,
            )
        self._hold(
            training,
            fit.mechanism,
            [*notes, *maxima_notes(fit.maxima)],
            held_out,
            5,
            score_model=objective.model,
            theta=fit.theta,
            frame=objective.engine.frame,
            tempering=objective.tempering,
            loglik_ignorable=sums.ignorable + objective.offset,
            loglik_missing=sums.missing,
            trace=np.array(fit.trace) + objective.offset,
            converged=fit.converged,
            n_iter=max(len(fit.trace) - 1, 1),
            n_passes=objective.passes[0],
            entropy=objective.entropy(fit.theta, fit.mechanism),
        )

    def _hold(
        self,
        training: Training,
        mechanism: Mechanism | None,
        notes: Iterable[Note],
        held_out: Array | None,
        stacklevel: int = 4,
        **fields: Any,
    ) -> None:
        """Set the fitted attributes, from these fields of the model and the rows, and warn of its notes."""
        rows, of_user = training.rows, self._mechanism_of_user(mechanism, training.covariates)
        model = FittedModel(
            measure=self.measure,
            mechanism=of_user,
            columns=training.covariates.columns,
            classes=rows.classes,
            n_features=len(training.names),
            features=training.features,
            moments=rows.moments,
            preparation=training.preparation,
            notes=[
                *all_labelled_notes(rows.any_missing, self.classes),
                *mechanism_notes(of_user, fields["loglik_missing"] / float(rows.moments.weight.sum())),
                *notes,
                *missing_texts_notes(rows.missing_texts),
            ],
            **fields,
        )
        attributes: dict[str, Any] = {"model_": model}
        if held_out is not None:
            attributes["held_out_proba_"] = held_out
        if not rows.labels_in_file:
            attributes["transduction_"] = _imputed(model, rows, rows.codes if rows.shares is None else rows.shares)
        coded = zip(model.notes, model.sentences, strict=True)
        if texts := [text for note, text in coded if note.code not in ("maxima", "missing-texts")]:
            warnings.warn(" ".join(texts), BoundaryWarning, stacklevel=stacklevel)
        replace_fit(self, attributes)

    def _mechanism_of_user(self, mechanism: Mechanism | None, covariates: Covariates) -> Mechanism | None:
        """The fitted mechanism, with alpha for the covariates as the user gave them."""
        if self.link is None:
            return None
        if mechanism is not None:
            return mechanism.moved(covariates.alpha_to_user(mechanism.alpha))
        # all rows labelled: the likelihood is largest if no label is ever missing
        measure = self.measure
        options = Mechanism.from_link(self.link, self.shape, measure)
        alpha = (-np.inf,) + (0.0,) * (1 + len(covariates.columns))
        return Mechanism(measure, alpha, np.nan if options.free_shape else options.shape)

    # Prediction: arrays come out in the form of X (NumPy, device or cluster).

    def _map(self, X: Any, function: Callable[..., Any], *, out: Any = None, dtype: Any = float, **options: Any) -> Any:
        """Apply a function to the rows, block by block; `options` as of `Rows.map`."""
        small = type(X) is np.ndarray and X.dtype == float and X.ndim == 2 and 0 < X.size <= _AT_ONCE
        if small and out is None and self.preparation_ is None and np.abs(X).max() <= LARGEST:  # not of NaN
            validate_data(self, X, reset=False, skip_check_array=True)
            return np.ascontiguousarray(function(X), dtype)
        width, names = self.model_.score_model.values_per_row(), self.model_.column_names
        return self._read(X, self).map(function, names=names, width=width, out=out, dtype=dtype, **options)

    def predict_log_proba(self, X: Any, *, out: Any = None) -> Array:
        """Log posterior class probabilities, (n, K), finite however small.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features.
        out : array or path, optional
            Where to write the result, as in `predict_proba`.

        Returns
        -------
        array of shape (n, K)
            With columns as in `classes_`.
        """
        check_is_fitted(self)
        return self._map(X, lambda x: log_tau(self.model_.posterior(x)).T, shape=(len(self.classes_),), out=out)

    def predict_proba(self, X: Any, *, out: Any = None) -> Array:
        """Posterior class probabilities, (n, K), with columns as in `classes_`.

        They are those of the population, labelled or not. With a label term (`delta`) rows that are known to be unlabelled have
        others, which `impute` uses.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            For rows on a device or a cluster, the probabilities are computed and returned there.
        out : array or path, optional
            Where to write the result: an array of that shape, or a new `.npy` file, which is returned as a memory map.

        Returns
        -------
        array of shape (n, K)
            Rows sum to one.
        """
        check_is_fitted(self)
        return self._map(X, lambda x: self.model_.posterior(x).tau.T, shape=(len(self.classes_),), out=out)

    def predict(self, X: Any, *, out: Any = None) -> AnyArray:
        """The most probable class of each row, (n,).

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features.
        out : array or path, optional
            Where to write the result, as in `predict_proba`.

        Returns
        -------
        array of shape (n,)
            Classes, as in `classes_`.
        """
        check_is_fitted(self)

        def best(x: Any) -> Any:
            scores = self.model_.scores(x)
            return _class_names(self.classes_, namespace(scores).argmax(scores, axis=0))

        return self._map(X, best, out=out, dtype=self.classes_.dtype)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class if there are two, (n,); otherwise log posteriors, (n, K).

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features.

        Returns
        -------
        array of shape (n,) or (n, K)
            Positive log-odds mean the second class.
        """
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    @available_if(_has_link)
    def missing_proba(self, X: Any, *, out: Any = None) -> Array:
        r"""The probability q that the label of each row is missing, (n,).

        With a label term it is the mean over the classes, :math:`\sum_k P(y = k \mid x) \, q_k`.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features.
        out : array or path, optional
            Where to write the result, as in `predict_proba`.

        Returns
        -------
        array of shape (n,)
            The fitted probabilities, whether or not the label of a row is missing.
        """
        check_is_fitted(self)
        return self._map(X, self.model_.missing_proba, out=out)

    def uncertainty(self, X: Any) -> Array:
        """The uncertainty u of each row, (n,), by the `measure` that drives the mechanism.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features.

        Returns
        -------
        array of shape (n,)
            As the measure defines it.
        """
        check_is_fitted(self)
        return self._map(X, self.model_.uncertainty)

    def impute(self, X: Any, y: Any, *, out: Any = None) -> Any:
        """A label for every row: the given one, or the most probable class if it is missing.

        With a label term (`delta`) that a label is missing tells something about it, and is taken into account.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features.
        y : array-like of shape (n,) or (n, K)
            Labels, some of them missing. Votes give the most voted class, the most probable one of those if several are tied.
        out : array or path, optional
            Where to write the labels, as in `predict_proba`.

        Returns
        -------
        array of shape (n,)
            Classes, as in `classes_`.
        """
        check_is_fitted(self)
        rows = self._read(X, self)
        return _imputed(self.model_, rows, rows.numbered(y, self.classes_), out)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: of all rows if some labels are missing, otherwise of the labelled rows.

        With missing labels in y, a labelled row counts ``1 / (1 - q)`` times, as in `marmix.evaluation.accuracy`; not with
        link=None, which has no q. Rows that a tool chose by their labels, as some folds do, give the score of easy rows, which is
        too good: use `marmix.evaluation.population_scorer` there.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Features.
        y : array-like of shape (n,) or (n, K)
            Labels, some of them missing. Of votes the share that agrees counts.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
            Share of the rows that are predicted correctly.
        """
        return score_labelled(self, X, y, sample_weight, getattr(self, "missing_proba", None))

    def to_sklearn(self) -> Any:
        """An equivalent fitted scikit-learn classifier, for example to export to ONNX.

        A tied covariance gives `LinearDiscriminantAnalysis`, full `QuadraticDiscriminantAnalysis`, diag and spherical
        `GaussianNB`, a logistic regression `LogisticRegression` (after `PolynomialFeatures` if degree is 2), a kernel logistic
        regression a pipeline of `StandardScaler`, `Nystroem` and `LogisticRegression`. Several Gaussians per class and
        `missing_proba` have no counterpart in scikit-learn.

        Returns
        -------
        classifier
            Fitted, with the same class probabilities.
        """
        return to_sklearn(self)

    # Inference

    def inference(
        self, X: Any, y: Any, sample_weight: Any = None, missing: Any = None, *, cov_type: str = "sandwich"
    ) -> Inference:
        """Standard errors, confidence intervals and tests for this fit.

        Parameters
        ----------
        X, y, sample_weight, missing
            The rows of the fit, which the estimator does not keep. Weights must be counts of rows: survey weights or
            inverse probabilities would give the standard errors of as many rows as they sum to.
        cov_type : {"sandwich", "observed", "expected"}, default="sandwich"
            Estimator of the covariance of the parameters. "sandwich" is valid even if the model is wrong.

        Returns
        -------
        Inference
            With `params`, `bse`, `conf_int()`, `summary()`, tests, intervals and resampling.
        """
        check_is_fitted(self)
        require_parameters(self.model_)
        if self.model_.n_features > MOST_FEATURES:
            raise ValueError(
                f"{self.model_.n_features} features: no standard errors are computed for more than {MOST_FEATURES}. Reduce them "
                "first, e.g. make_pipeline(PCA(20), ...)."
            )
        X, y, sample_weight, missing = to_host_or_refuse("inference", X, y, sample_weight, missing)
        training = self._validated(X, y, sample_weight, missing, reset=False)
        rows = training.rows
        assert isinstance(rows, HostRows)
        if rows.in_file and rows.weight is not None and not np.all(rows.weight):
            raise ValueError("inference on rows in a file needs positive weights: remove the rows of weight zero.")
        if not rows.moments.same(self.model_.moments):
            raise ValueError(
                "X, y and sample_weight are not the rows that this estimator was fitted to: pass those, or fit again."
            )
        objective, mechanism = self._objective(training), self._mechanism_of_fit(training)
        if mechanism is not None:
            missing_part = objective.sums(self.model_.theta, mechanism, ignorable=False).missing
            if not np.isclose(missing_part, self.model_.loglik_missing, rtol=1e-4):
                raise ValueError("the labels of other rows were missing in the fit: pass the same missing= as to fit.")
        fitted = Fitted(
            model=self.model_,
            objective=objective,
            mechanism=mechanism,
            covariates=training.covariates,
            estimator=numbered(self),
            X=rows.counted,
            z=rows.labels,
            weight=rows.weight,
            kept=np.arange(len(rows.X)) if rows.kept is None else rows.kept,
            n_rows=len(rows.X),
            checked=self._checked_values,
            shares=rows.shares,
            missing=None if rows.asked is None else rows.missing,
        )
        with one_thread():
            return Inference(fitted, cov_type)

    def _checked_values(self, X: Any) -> Any:
        """Rows to predict, checked to be finite."""
        X = self._read(X, self).X
        check_finite(X, self.model_.column_names)
        return X

    def fitted_to(self, X: Any, y: Any, sample_weight: Any = None) -> bool:
        """Whether these are the rows of the fit, judged by their moments.

        Parameters
        ----------
        X, y, sample_weight
            Rows as given to `fit`.

        Returns
        -------
        bool
            True for the rows of the fit in any order.
        """
        check_is_fitted(self)
        X, y, sample_weight = to_host_or_refuse("fitted_to", X, y, sample_weight)
        return bool(self._validated(X, y, sample_weight, reset=False).rows.moments.same(self.model_.moments))

    def sensitivity(
        self,
        X: Any,
        y: Any,
        delta: ArrayLike | None = None,
        label: Any = None,
        *,
        sample_weight: Any = None,
        missing: Any = None,
        method: str = "auto",
        **options: Any,
    ) -> Sensitivity:
        """What if labels are missing because of the label itself? A sweep over how strongly.

        Parameters
        ----------
        X, y, sample_weight, missing
            The rows of the fit. On other rows the intervals do not include the uncertainty of the fit.
        delta : array-like or None, default=None
            Logarithms of the odds ratios to sweep: how many times as likely a row of the class is to lose its label as others
            that look alike. The default is nine values for odds ratios from 1/4 to 4.
        label : object or None, default=None
            The class to vary; by default the rarest.
        method : {"auto", "selection", "pattern-mixture"}, default="auto"
            "selection" fits the model again at every delta, with the term delta 1{y = label} in its mechanism;
            "pattern-mixture" keeps the model and tilts the probabilities of the unlabelled rows by e^delta. "auto" is
            "selection" for mixtures whose mechanism is modelled, if these are the rows of the fit.
        **options
            `n_draws` (200): draws behind the intervals, of the parameters from their estimated distribution, as for multiple
            imputation, and of the missing labels given them. `random_state` (0): an int, for the draws.

        Returns
        -------
        Sensitivity
            Print it for a table with the tipping points.
        """
        if method not in ("auto", "selection", "pattern-mixture"):
            raise ValueError(f"method={method!r} is not 'auto', 'selection' or 'pattern-mixture'.")
        return sensitivity_of(self, (X, y, sample_weight, missing), delta, label, method, **options)

    def unlabelled_proba(self, X: Any) -> Array:
        """Class probabilities of rows whose label is known to be missing: those of `predict_proba` unless there is a label term.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n, K)
            With columns as in `classes_`.
        """
        return np.exp(
            self._map(X, lambda x: log_tau(self.model_.unlabelled_posterior(x)).T, shape=(len(self.classes_),))
        )

    def _selection(
        self, training: tuple[Any, ...], k: int, delta: Array, method: str
    ) -> tuple[Array, list[Draw]] | None:
        """Log class probabilities (D, n, K) of the unlabelled rows, with the model fitted again at every delta of class k.

        With draws of the probabilities at every delta. None if the method is "auto" and the model is better kept, or e^delta
        would not be an odds ratio, as with other links than the logit.
        """
        model = self.model_
        possible = "delta" in self.get_params() and model.has_mechanism and model.tempering > 0.0
        mechanism = model.mechanism
        odds = possible and mechanism is not None and mechanism.shape == 1.0 and not mechanism.share
        if method == "auto" and not (odds and model.score_model.joint and self.fitted_to(*training[:3])):
            return None
        if not possible:
            raise ValueError("method='selection' needs a mixture or a logistic regression whose mechanism is modelled.")
        fitted = self.inference(*training).fitted
        rows, base = fitted.rows, dict(enumerate(self.delta_.tolist()))
        unlabelled, zero = fitted.X[fitted.z < 0], int(np.abs(delta).argmin())
        log_proba = np.empty((len(delta), len(unlabelled), len(self.classes_)))
        draws: dict[int, Draw] = {}
        for side in (range(zero, -1, -1), range(zero, len(delta))):  # from fit to fit, away from zero
            fit = fitted.estimator
            for i in side:
                if i != zero:
                    fit = refit(fit, *rows, delta=base | {k: base[k] + float(delta[i])})
                log_proba[i] = log_tau(fit.model_.unlabelled_posterior(unlabelled)).T
                draws[i] = posterior_draws(fit.inference(*rows).fitted)[0]
        return log_proba, [draws[i] for i in range(len(delta))]

    def _posterior_draws(self, training: tuple[Any, ...], proba: Array) -> tuple[Draw | None, list[str]]:
        """Draws of the posteriors `proba` (n, K) of the unlabelled rows with the uncertainty of the fit, and notes on them."""
        if not self.fitted_to(*training[:3]):
            return None, [OTHER_ROWS]
        draw, held = posterior_draws(self.inference(*training).fitted)
        return draw, [HELD] if held else []

    def aic(self) -> float:
        """Akaike's information criterion, ``2 p - 2 loglik`` with p parameters (smaller is better).

        Returns
        -------
        float
            The criterion on the rows of the fit; `compare` puts several fits in a table.
        """
        return self._criteria().aic()

    def bic(self) -> float:
        """Bayesian information criterion, ``p log n - 2 loglik`` with p parameters and n rows (smaller is better).

        Returns
        -------
        float
            The criterion on the rows of the fit; `compare` puts several fits in a table.
        """
        return self._criteria().bic()

    def icl(self) -> float:
        """Integrated classification likelihood: BIC plus twice the entropy of the imputed labels (smaller is better).

        Returns
        -------
        float
            The criterion on the rows of the fit; `compare` puts several fits in a table.
        """
        return self._criteria().icl()

    def _criteria(self) -> Criteria:
        check_is_fitted(self)
        return Criteria.of(self.model_)

    def _objective(self, training: Training) -> Objective:
        """The objective of the fit, over these rows."""
        return training.objective(self.model_.frame, self.model_.score_model, self.model_.tempering)

    def _mechanism_of_fit(self, training: Training) -> Mechanism | None:
        """The fitted mechanism in the axes of the standardised covariates; None if no mechanism was fitted."""
        mechanism = self.model_.mechanism
        if mechanism is None or not self.model_.has_mechanism:
            return None
        return mechanism.moved(training.covariates.alpha_from_user(mechanism.alpha))


def sensitivity_of(
    estimator: Any,
    training: tuple[Any, ...],
    delta: ArrayLike | None,
    label: Any,
    method: str = "pattern-mixture",
    **options: Any,
) -> Sensitivity:
    """The sensitivity analysis of a fitted classifier and its rows (X, y, sample_weight, missing).

    `options` as in `marmix.inference.sensitivity.sensitivity`.
    """
    check_is_fitted(estimator)
    training = tuple(to_host_or_refuse("sensitivity", *map(open_array, training)))
    X, y, sample_weight, _ = training
    values, classes = swept(delta), estimator.classes_
    shares = label_shares(y, classes)
    proba = np.asarray(estimator.unlabelled_proba(X))
    if len(proba) != len(shares):
        raise ValueError(f"X and y have inconsistent numbers of samples: {len(proba)} and {len(shares)}.")
    w = checked_weights(proba, unmasked(sample_weight))
    rows = ~shares.any(axis=1) & (w > 0.0)
    if not rows.any():
        raise ValueError("no label in y is missing: there is nothing to vary.")
    given = w @ shares
    k = rarest(proba[rows], given) if label is None else class_place(label, classes)
    draw, notes = estimator._posterior_draws(training, proba[rows])
    selection = None if method == "pattern-mixture" else estimator._selection(training, k, values, method)
    log_proba, draws = (pattern_mixture(proba[rows], k, values), None) if selection is None else selection
    imputed = log_proba[np.abs(values).argmin()].argmax(axis=1)
    sweep = Sweep(log_proba, given, k, values, classes, w[rows], imputed)
    result = sensitivity(sweep, draw=draw, draws=draws, **options)
    return replace(result, method="pattern-mixture" if draws is None else "selection", notes=list(notes))


def replace_fit(estimator: BaseEstimator, attributes: Mapping[str, Any]) -> None:
    """Replace the fitted attributes of an estimator, whose names end in an underscore: the last step of a fit.

    Whatever is raised before, a warning turned into an error included, leaves the previous fit as it was.
    """
    kept = {name: value for name, value in vars(estimator).items() if not name.endswith("_")}
    estimator.__dict__ = kept | dict(attributes)


def score_labelled(estimator: Any, X: Any, y: Any, sample_weight: Any, missing_proba: Any = None) -> float:
    """Accuracy on the labelled rows; of all rows, with weights 1 / (1 - q), if labels are missing and `missing_proba` gives q."""
    check_is_fitted(estimator)
    X, y, sample_weight = open_array(X), open_array(y, "y"), open_array(sample_weight, "sample_weight")
    X, y, sample_weight = to_host_or_refuse("score", X, y, sample_weight)
    predicted = estimator.predict(X)
    if has_votes(y):
        shares, _ = vote_shares(y, estimator.classes_, fitted=True)
        labelled, agree = np.asarray(shares.any(axis=1)), shares
    else:
        labelled, labels = known_labels(y, estimator.classes_)
        agree = np.zeros((len(labelled), len(estimator.classes_)))
        agree[labelled] = labels[:, None] == estimator.classes_
    if not labelled.any():
        raise ValueError("score needs labelled rows, and every label in y is missing.")
    if len(predicted) != len(labelled):
        raise ValueError(f"X and y have inconsistent numbers of samples: {len(predicted)} and {len(labelled)}.")
    weight = checked_weights(labelled, unmasked(sample_weight))[labelled]
    if not weight.any():
        raise ValueError("score needs labelled rows of positive sample_weight.")
    if missing_proba is not None and not labelled.all():
        q = np.minimum(np.asarray(missing_proba(X))[labelled], NO_CHANCE)
        weight = weight * inverse_weights(q, len(labelled))[0]
    hits = (agree * (predicted[:, None] == estimator.classes_)).sum(axis=1)
    return float(np.average(hits[labelled], weights=weight))


def chosen_settings(estimator: Any) -> dict[str, Any]:
    """Parameters of a fitted estimator that are "auto", at the values that were chosen; nothing is then held out again."""
    params = estimator.get_params(deep=False)
    names = [name for name in ("C", "gamma", "mechanism_weight", "n_estimators") if isinstance(params.get(name), str)]
    return {name: getattr(estimator, f"{name}_") for name in names} | ({"cv": None} if "cv" in params else {})


def numbered(estimator: Any) -> Any:
    """Copy of a fitted estimator with classes 0, 1, ... and unnamed features, for refits to numbered data."""
    renamed, model = copy(estimator), estimator.model_
    renamed.model_ = model.renamed()
    renamed.classes = None
    for name, value in chosen_settings(estimator).items():
        setattr(renamed, name, value)
    if isinstance(vars(estimator).get("delta"), Mapping):
        renamed.delta = dict(enumerate(estimator.delta_.tolist()))
    if model.columns:
        renamed.mechanism_features = model.columns
    if isinstance(model.score_model, GaussianScores):
        renamed.n_components = dict(enumerate(model.score_model.counts))
    return renamed


def _imputed(model: FittedModel, rows: Rows, codes: Any, out: Any = None) -> Any:
    """A label for every row, from codes or shares; on a cluster a task graph, which refers to the model, not to the estimator."""
    width, names = model.score_model.values_per_row(), model.column_names
    return rows.map(partial(_labels, model), codes, names=names, width=width, out=out, dtype=model.classes.dtype)


def _labels(model: FittedModel, x: Any, codes: Any) -> Any:
    """Labels of these codes, the most probable class where a code is negative.

    Shares of votes (n, K) in place of codes give the most voted class, the most probable one of those if several are tied.
    """
    xp, scores = namespace(x), model.scores(x)
    if model.has_label_term:
        missing = codes < 0 if codes.ndim == 1 else xp.max(codes, axis=1) == 0.0
        scores = xp.where(missing, model.unlabelled_posterior(x).scores, scores)
    if codes.ndim == 2:
        tied = xp.max(codes, axis=1) == codes.T
        return _class_names(model.classes, xp.argmax(xp.where(tied, scores, -xp.inf), axis=0))
    best = xp.argmax(scores, axis=0)
    return _class_names(model.classes, xp.where(codes < 0, best, xp.astype(codes, xp.int64)))


def _class_names(classes: AnyArray, codes: Any) -> Any:
    """Classes of these codes, on the device of the codes if the classes are numbers."""
    if on_host(codes) or classes.dtype.kind not in "if":
        return classes[np.asarray(codes) if on_host(codes) else to_host(codes)]
    xp = namespace(codes)
    return xp.take(xp.asarray(classes, device=codes.device), codes, axis=0)
