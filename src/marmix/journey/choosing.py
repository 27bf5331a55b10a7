"""Choice of a model by cross-validation on a sample of the rows, and its fit to all rows."""

import warnings
from collections.abc import Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from marmix.arrays import Array
from marmix.estimators import MARClassifierCV, MARGaussianMixture
from marmix.estimators.candidates import models_missingness
from marmix.journey.progress import Step
from marmix.journey.rows import BLOCK
from marmix.streams import release

SAMPLE = 20_000  # rows for comparing candidates

_COVARIANCES = {"tied": "one covariance for all classes", "full": "one covariance per class"}


def model_in_words(estimator: Any, any_missing: bool = True) -> str:
    """The model of an estimator in plain words, and whether it uses the missingness where labels are missing."""
    settings = estimator.get_params()
    if isinstance(estimator, MARGaussianMixture):
        kind = settings["covariance_type"]
        words = ["Gaussian classes", _COVARIANCES.get(kind, f"{kind} covariances")]
    else:
        kind = "kernel " if "gamma" in settings else "quadratic " if settings["degree"] == 2 else ""
        words = [f"{kind}logistic regression"]
    if any_missing:
        words.append(f"missingness {'modelled' if settings['mechanism_weight'] != 0.0 else 'ignored'}")
    return ", ".join(words)


class Compared(MARClassifierCV):
    """Cross-validation of candidates that reports progress and keeps the held-out predictions of each."""

    step: Step
    held_out_probas: Mapping[str, Array] = MappingProxyType({})

    def _fitted_one(self, share: float) -> None:
        self.step(share)

    def _predicted(self, proba: dict[str, Array]) -> None:
        self.held_out_probas = proba

    def select(self, name: str) -> None:
        """Give one candidate all the weight."""
        self.weights_ = {key: float(key == name) for key in self.weights_}
        self.results_["weight"] = np.array(list(self.weights_.values()))
        if self.held_out_probas:
            self.held_out_proba_ = self.held_out_probas[name]
        self.held_out_probas = {}


class Choice(NamedTuple):
    """The selected candidate, fitted to the rows of the comparison, and the comparison itself."""

    name: str
    pipeline: Pipeline
    cv: MARClassifierCV


def sample_places(z: NDArray[np.integer[Any]], seed: int, size: int = SAMPLE) -> NDArray[np.intp]:
    """Positions of about `size` rows, or of all if there are fewer, stratified by class with the unlabelled as one more."""
    if len(z) <= size:
        return np.arange(len(z))
    rng = np.random.default_rng(seed)
    parts = []
    for code in np.unique(z):
        members = np.flatnonzero(z == code)
        parts.append(rng.choice(members, min(len(members), max(2, round(size * len(members) / len(z)))), replace=False))
    return np.sort(np.concatenate(parts))


def choose(
    grid: Mapping[str, BaseEstimator], X: Array, z: NDArray[np.integer[Any]], *, folds: int, seed: int, step: Step
) -> Choice:
    """Cross-validate the candidates and select one by its log-loss, corrected for missing labels.

    The best candidate that models the missingness is selected unless ignoring the missingness is better by more than two
    standard errors: estimated losses are noisy when few hard rows have labels.
    """
    cv = Compared(estimators=grid, method="pick", cv=folds, random_state=seed)
    cv.step = step
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes go into the report
        cv.fit(X, z)
    name = _best(cv)
    cv.select(name)
    return Choice(name, cv.estimators_[name], cv)


def _best(cv: MARClassifierCV) -> str:
    """The name of the candidate to use; the first that models the missingness if there are no held-out scores."""
    gain = cv.comparison_
    ignore = gain is not None and gain.gain < -2.0 * gain.stderr
    names = [name for name, est in cv.estimators_.items() if models_missingness(est) is not ignore] or [*cv.estimators_]
    if cv.held_out_proba_ is None:
        return names[0]
    losses = dict(zip(cv.results_["candidate"].tolist(), cv.results_["log_loss"].tolist(), strict=True))
    return min(names, key=lambda name: losses[name])


class Model(NamedTuple):
    """A fitted model and the rows X it takes, which may be scaled; its estimator numbers the classes 0, 1, ..."""

    estimator: Any
    scaler: StandardScaler | None
    classes: NDArray[Any]
    X: Any

    def named(self, features: list[str] | None = None) -> Any:
        """A copy of the estimator with the names of the classes and, if given, of the features."""
        estimator = copy(self.estimator)
        names = None if features is None else np.array(features, dtype=object)
        estimator.model_ = estimator.model_.renamed(self.classes, names)
        vars(estimator).pop("transduction_", None)
        return estimator


def fitted_model(choice: Choice, X: Any, z: Any, classes: NDArray[Any]) -> Model:
    """The chosen model for all rows, refitted if it was chosen on a sample. X is standardised in place."""
    *scalers, (_, estimator) = choice.pipeline.steps
    scaler = scalers[0][1] if scalers else None
    refit = len(X) > len(choice.cv.missing_proba_)
    if scaler is not None:
        if refit:
            scaler = StandardScaler()
            for start in range(0, len(X), BLOCK):
                scaler.partial_fit(X[start : start + BLOCK])
                release(X)
        scale_rows(scaler, X)
    if refit:
        estimator = clone(estimator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # notes_ and converged_ go into the report
            estimator.fit(X, z)
    return Model(estimator, scaler, classes, X)


def scale_rows(scaler: StandardScaler, X: Any) -> None:
    """Standardise rows in place, block by block."""
    for start in range(0, len(X), BLOCK):
        X[start : start + BLOCK] = scaler.transform(X[start : start + BLOCK])
        release(X)
