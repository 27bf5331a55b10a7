"""Predictions of a fitted classifier, for rows wherever they are; arrays out are of the kind that came in."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from marmix.arrays import (
    Array,
    brought_here,
    detached,
    in_double,
    like,
    namespace,
    on_cluster,
    on_device,
    on_host,
    to_host,
    total,
)
from marmix.labels import known_labels, number_labels
from marmix.mechanism.measures import entropy, log_tau
from marmix.model import FittedModel
from marmix.rows import block_rows
from marmix.rows.checks import check_finite, check_table, refuse_sparse
from marmix.rows.device import device_blocks
from marmix.rows.host import MANY_ROWS
from marmix.streams import in_file, opened, output, release, result
from marmix.workers import available, ordered

Function = Callable[[Any, slice], Any]


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
    X, y, sample_weight = opened(X), opened(y, "y"), opened(sample_weight, "sample_weight")
    X, y, sample_weight = brought_here("score", X, y, sample_weight)
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

    def _checked(self, X: Any) -> Any:
        """Rows to predict, with the features of the fit; their values are looked at when they are used."""
        check_is_fitted(self)
        X = detached(opened(X))
        refuse_sparse(X)
        if on_cluster(X):
            from marmix.rows.cluster import described

            validate_data(self, described(X), skip_check_array=True, reset=False)
            return X
        if in_file(X) or on_device(X):
            check_table(X)
            validate_data(self, X, skip_check_array=True, reset=False)
            return X
        return validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=False)

    def _map(self, X: Any, function: Function, shape: tuple[int, ...] = (), out: Any = None, dtype: Any = float) -> Any:
        """A function of the rows of a block and of their places, (n, *shape), block by block."""
        return self._over(self._checked(X), function, shape, out, dtype)

    def _over(
        self, X: Any, function: Function, shape: tuple[int, ...] = (), out: Any = None, dtype: Any = float
    ) -> Any:
        """`_map` of rows that are checked."""
        if out is not None and (on_device(X) or on_cluster(X)):
            raise ValueError("out= is for rows on the host: what is computed on a device or a cluster stays there.")
        if on_device(X):
            return _device_map(X, function)
        if on_cluster(X):
            from marmix.rows.cluster import predicted

            return predicted(X, lambda block: self._over(np.asarray(block), function, shape, None, dtype), shape, dtype)
        names, size = self.model_.column_names, block_rows(self.model_.score_model.values_per_row())
        blocks = [slice(a, min(a + size, len(X))) for a in range(0, len(X), size)]
        with output(out, (len(X), *shape), dtype) as written:

            def one(rows: slice) -> None:
                x = np.asarray(X[rows], dtype=float)
                check_finite(x, names, rows.start)
                written[rows] = function(x, rows)
                release(X[rows])
                release(written[rows])

            ordered(lambda: one, blocks, available() if len(X) >= MANY_ROWS else 1)
        return result(out, written)

    def _named(self, codes: Any) -> Any:
        """The classes with these numbers, on the device of the numbers if they are numbers themselves."""
        if on_host(codes) or self.classes_.dtype.kind not in "if":
            return self.classes_[np.asarray(codes) if on_host(codes) else to_host(codes)]
        xp = namespace(codes)
        return xp.take(xp.asarray(self.classes_, device=codes.device), codes, axis=0)

    def predict_log_proba(self, X: Any, *, out: Any = None) -> Array:
        """Logarithms of the posterior class probabilities, (n, K); finite however small. `out` as in `predict_proba`."""
        check_is_fitted(self)
        return self._map(X, lambda x, _: log_tau(self.model_.posterior(x)).T, (len(self.classes_),), out)

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
        return self._map(X, lambda x, _: _exp(log_tau(self.model_.posterior(x))).T, (len(self.classes_),), out)

    def predict(self, X: Any, *, out: Any = None) -> NDArray[Any]:
        """The most probable class of each row. `out` as in `predict_proba`."""
        check_is_fitted(self)

        def best(x: Any, _: slice) -> Any:
            scores = self.model_.scores(x)
            return self._named(namespace(scores).argmax(scores, axis=0))

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
        return self._map(X, lambda x, _: self.model_.missing_proba(x), (), out)

    def _uncertainty_of(self, X: Any) -> Array:
        """The measure u of each row, (n,): what drives the mechanism."""
        check_is_fitted(self)
        return self._map(X, lambda x, _: self.model_.measure(x))

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
        X, y = self._checked(X), opened(y, "y")
        if on_cluster(X):
            from marmix.rows.cluster import imputed

            return imputed(self, X, y)
        y = to_host(y) if on_device(y) and not on_device(X) else y
        z = number_labels(y, self.classes_)
        if z.shape[0] != X.shape[0]:
            raise ValueError(f"X and y have inconsistent numbers of samples: {X.shape[0]} and {z.shape[0]}.")
        return self._imputed(X, z, None, out)[0]

    def _imputed(self, X: Any, z: Any, weight: Any, out: Any = None) -> tuple[Any, float]:
        """Labels of all rows, and the entropy of those that were imputed."""
        if on_device(X) and on_host(z):
            z = namespace(X).asarray(z, device=X.device)
        entropies: dict[int, Any] = {}

        def labels(x: Any, rows: slice) -> Any:
            xp, codes = namespace(x), z[rows]
            p = self.model_.posterior(x)
            h = xp.where(codes < 0, entropy(p).value, 0.0)
            entropies[rows.start] = total(h if weight is None else h * like(weight[rows], h))
            return self._named(xp.where(codes < 0, xp.argmax(p.scores, axis=0), xp.astype(codes, xp.int64)))

        found = self._over(X, labels, (), out, self.classes_.dtype)
        return found, float(np.sum([to_host(entropies[start]) for start in sorted(entropies)]))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows whose label is known; rows of `y` that are missing do not count.

        The labelled rows are not a fair sample when hard rows lose their labels: this score flatters. `marmix.evaluation`
        has scores that do not.
        """
        return score_labelled(self, X, y, sample_weight)


def _exp(values: Any) -> Any:
    return namespace(values).exp(values)


def _device_map(X: Any, function: Function) -> Any:
    xp = namespace(X)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("Input X contains NaN or infinity: impute the features first, or drop these rows.")
    parts = [function(in_double(X[rows, :]), rows) for rows in device_blocks(X.shape[0], 4 * X.shape[1])]
    return np.concatenate(parts) if on_host(parts[0]) else xp.concat(parts)
