"""Predictions of a fitted classifier, for rows wherever they are; arrays out are of the kind that came in."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from marmix.arrays import Array, namespace, on_cluster, on_device, on_host, to_host, to_host_or_refuse
from marmix.labels import known_labels
from marmix.mechanism.measures import log_tau
from marmix.model import FittedModel
from marmix.rows import Rows, rows_of
from marmix.streams import open_array


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


def _models_missingness(estimator: "Predictor") -> bool:
    if estimator.link is None:
        raise AttributeError(
            f"link=None ignores the mechanism: fit {type(estimator).__name__} with a link to have one."
        )
    return True


def score_labelled(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Accuracy on the rows whose label is known."""
    check_is_fitted(estimator)
    X, y, sample_weight = open_array(X), open_array(y, "y"), open_array(sample_weight, "sample_weight")
    X, y, sample_weight = to_host_or_refuse("score", X, y, sample_weight)
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


class NotKept:
    """A fitted attribute that is not always kept: why it is not there, and what to do for it.

    Parameters
    ----------
    sign : str
        An attribute that every fitted estimator has.
    reason : str
        The rest of the message after a colon.
    """

    def __init__(self, sign: str, reason: str):
        self.sign, self.reason = sign, reason

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        message = f"{type(estimator).__name__!r} object has no attribute {self.name!r}"
        raise AttributeError(f"{message}: {self.reason}" if self.sign in vars(estimator) else message)


class FromModel:
    """A fitted attribute that is read from the estimator's `FittedModel`; `optional` where the model may have none."""

    def __init__(self, read: Callable[[FittedModel], Any], optional: bool = False):
        self.read, self.optional = read, optional

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        model = vars(estimator).get("model_")
        value = None if model is None else self.read(model)
        if model is None or (self.optional and value is None):
            raise AttributeError(f"{type(estimator).__name__!r} object has no attribute {self.name!r}")
        return value


class Predictor(ClassifierMixin, BaseEstimator):
    """What a fitted classifier says of rows. Not for direct use."""

    uncertainty: Any = SettingAndMethod()
    link: str | None
    model_: FittedModel
    classes_: Any = FromModel(lambda model: model.classes)
    n_features_in_: Any = FromModel(lambda model: model.n_features)
    feature_names_in_: Any = FromModel(lambda model: model.features, optional=True)
    mechanism_: Any = FromModel(lambda model: model.mechanism)
    alpha_: Any = FromModel(lambda model: None if model.mechanism is None else np.array(model.mechanism.alpha))
    shape_: Any = FromModel(lambda model: None if model.mechanism is None else model.mechanism.shape)
    share_: Any = FromModel(lambda model: None if model.mechanism is None else model.mechanism.share)
    loglik_: Any = FromModel(lambda model: model.loglik)
    loglik_ignorable_: Any = FromModel(lambda model: model.loglik_ignorable)
    loglik_missing_: Any = FromModel(lambda model: model.loglik_missing)
    trace_: Any = FromModel(lambda model: model.trace)
    converged_: Any = FromModel(lambda model: model.converged)
    n_iter_: Any = FromModel(lambda model: model.n_iter)
    n_passes_: Any = FromModel(lambda model: model.n_passes)
    notes_: Any = FromModel(lambda model: model.sentences)
    transduction_: Any = NotKept(
        "model_",
        "it is not kept where labels come from a file, nor copied with the estimator where they are on a cluster, nor saved with "
        "the model. impute(X, y) gives it, impute(X, y, out='labels.npy') writes it to a file.",
    )

    def __getstate__(self) -> dict[str, Any]:
        """What is copied or pickled: all but labels on a cluster, which are a graph of all rows; those on a device as NumPy's."""
        state: dict[str, Any] = super().__getstate__()
        labels = state.get("transduction_")
        if on_cluster(labels):
            state = {name: value for name, value in state.items() if name != "transduction_"}
        return state | {"transduction_": to_host(labels)} if on_device(labels) else state

    def _rows_of(self, X: Any) -> Rows:
        """Rows to predict, with the features of the fit; their values are looked at when they are used."""
        check_is_fitted(self)
        return rows_of(X, partial(validate_data, self, reset=False))

    def _map(
        self, X: Any, function: Callable[..., Any], shape: tuple[int, ...] = (), out: Any = None, dtype: Any = float
    ) -> Any:
        """A function of the rows of a block, (n, *shape), block by block."""
        return _over(self.model_, self._rows_of(X), function, shape=shape, out=out, dtype=dtype)

    def predict_log_proba(self, X: Any, *, out: Any = None) -> Array:
        """Logarithms of the posterior class probabilities, (n, K); finite however small. `out` as in `predict_proba`."""
        check_is_fitted(self)
        return self._map(X, lambda x: log_tau(self.model_.posterior(x)).T, (len(self.classes_),), out)

    def predict_proba(self, X: Any, *, out: Any = None) -> Array:
        """Posterior class probabilities by Bayes' rule, (n, K), columns as in `classes_`.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
            Rows on a device or a cluster have their probabilities there.
        out : array or path, optional
            Where to write them, as they come: an array of that shape, or a new `.npy` file, which is returned as a memory map.
        """
        check_is_fitted(self)
        return self._map(X, lambda x: _exp(log_tau(self.model_.posterior(x))).T, (len(self.classes_),), out)

    def predict(self, X: Any, *, out: Any = None) -> NDArray[Any]:
        """The most probable class of each row. `out` as in `predict_proba`."""
        check_is_fitted(self)

        def best(x: Any) -> Any:
            scores = self.model_.scores(x)
            return _named(self.classes_, namespace(scores).argmax(scores, axis=0))

        return self._map(X, best, (), out, self.classes_.dtype)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class where there are two, (n,); else the log posteriors, (n, K)."""
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    @available_if(_models_missingness)
    def missing_proba(self, X: Any, *, out: Any = None) -> Array:
        """The probability q that the label of each row is missing, (n,). `out` as in `predict_proba`."""
        check_is_fitted(self)
        if self.model_.mechanism is None:
            raise ValueError("this estimator was fitted with link=None: fit it again with a link.")
        return self._map(X, self.model_.missing_proba, (), out)

    def _uncertainty_of(self, X: Any) -> Array:
        """The measure u of each row, (n,): what drives the mechanism."""
        check_is_fitted(self)
        return self._map(X, self.model_.measure)

    def impute(self, X: Any, y: Any, *, out: Any = None) -> Any:
        """A label for every row: the given one, or the most probable class where it is missing.

        Parameters
        ----------
        X : array-like of shape (n, d), or the path of a `.npy` file
        y : array-like of shape (n,)
            Labels, some of them missing.
        out : array or path, optional
            Where to write them, as in `predict_proba`.
        """
        check_is_fitted(self)
        rows = self._rows_of(X)
        return self._imputed(self.model_, rows, rows.numbered(y, self.classes_), out)

    @staticmethod
    def _imputed(model: FittedModel, rows: Rows, codes: Any, out: Any = None) -> Any:
        """A label for every row; on a cluster these are a graph, which holds the model and not the estimator."""
        return _over(model, rows, partial(_labels, model), codes, out=out, dtype=model.classes.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows whose label is known; rows of `y` that are missing do not count.

        The labelled rows are not a fair sample when hard rows lose their labels: this score flatters. `marmix.evaluation`
        has scores that do not.
        """
        return score_labelled(self, X, y, sample_weight)


def _exp(values: Any) -> Any:
    return namespace(values).exp(values)


def _over(model: FittedModel, rows: Rows, function: Callable[..., Any], *beside: Any, **options: Any) -> Any:
    """`Rows.map` with what a model knows of the rows."""
    width = model.score_model.values_per_row()
    return rows.map(function, *beside, names=model.column_names, width=width, **options)


def _labels(model: FittedModel, x: Any, codes: Any) -> Any:
    """The labels with these codes, the most probable ones where they are missing."""
    xp = namespace(x)
    best = xp.argmax(model.scores(x), axis=0)
    return _named(model.classes, xp.where(codes < 0, best, xp.astype(codes, xp.int64)))


def _named(classes: NDArray[Any], codes: Any) -> Any:
    """The classes with these numbers, on the device of the numbers if they are numbers themselves."""
    if on_host(codes) or classes.dtype.kind not in "if":
        return classes[np.asarray(codes) if on_host(codes) else to_host(codes)]
    xp = namespace(codes)
    return xp.take(xp.asarray(classes, device=codes.device), codes, axis=0)
