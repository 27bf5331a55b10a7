"""Which model: the default candidates, with the missingness modelled and ignored, cross-validated on a sample of the rows."""

import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from marmix.arrays import Array
from marmix.estimators import MARClassifierCV
from marmix.estimators.candidates import models_missingness
from marmix.journey.progress import Step
from marmix.journey.rows import BLOCK
from marmix.streams import release

SAMPLE = 20_000  # rows that are enough to tell candidates apart

# Parts of a candidate's name, in plain words.
_WORDS = {
    "logistic": "logistic regression",
    "quadratic logistic": "quadratic logistic regression",
    "mixture": "Gaussian classes",
    "tied": "common covariance",
    "full": "own covariances",
    "C=1": "",
    "mechanism": "missingness modelled",
    "ignored": "missingness ignored",
}


def plain_name(candidate: str) -> str:
    """The name of a candidate in plain words."""
    parts = (_WORDS.get(part, part) for part in candidate.split(", "))
    return ", ".join(part for part in parts if part)


class Compared(MARClassifierCV):
    """A cross-validation of candidates that reports its progress, and keeps their predictions of rows they had not seen."""

    step: Step

    def _fitted_one(self, share: float) -> None:
        self.step(share)

    def _weigh(
        self, X: Array, z: NDArray[Any], weight: Array | None, held: dict[str, Array], folds: list[NDArray[np.intp]]
    ) -> None:
        super()._weigh(X, z, weight, held, folds)
        self._unseen = {name: self._known(name, held[name], X, z) for name in self.estimators_} if folds else {}

    def take(self, name: str) -> None:
        """Make one candidate the whole average."""
        self.weights_ = {other: float(other == name) for other in self.weights_}
        self.results_["weight"] = np.array(list(self.weights_.values()))
        if self._unseen:
            self.held_out_proba_ = self._unseen[name]
        self._unseen = {}


class Choice(NamedTuple):
    """The candidate that was picked, fitted to the rows of the comparison, and the comparison."""

    name: str
    pipeline: Pipeline
    cv: MARClassifierCV


def sample(z: NDArray[np.integer[Any]], seed: int, size: int = SAMPLE) -> NDArray[np.intp]:
    """Rows to compare models on, and to show: all if they are few, else the same share of every class and of the unlabelled."""
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
    """Cross-validate the candidates and pick one by its log-loss, corrected for the rows without a label.

    The best of those that model the missingness is picked, unless the best that ignores it is better by more than two standard
    errors: where few hard rows have labels the estimated losses are noisy, and the lower of two says little.
    """
    cv = Compared(estimators=grid, method="pick", cv=folds, random_state=seed)
    cv.step = step
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the notes go into the report
        cv.fit(X, z)
    name = _best(cv)
    cv.take(name)
    return Choice(name, cv.estimators_[name], cv)


def _best(cv: MARClassifierCV) -> str:
    """The candidate to use; the first that models the missingness where there is nothing to compare by."""
    gain = cv.comparison_
    ignore = gain is not None and gain.gain < -2.0 * gain.stderr
    names = [name for name, est in cv.estimators_.items() if models_missingness(est) is not ignore] or [*cv.estimators_]
    if cv.held_out_proba_ is None:
        return names[0]
    losses = dict(zip(cv.results_["candidate"].tolist(), cv.results_["log_loss"].tolist(), strict=True))
    return min(names, key=lambda name: losses[name])


class Model(NamedTuple):
    """A fitted model of the rows of a file; its estimator knows the classes as 0, 1, ..., and takes X, which may be scaled."""

    estimator: Any
    scaler: StandardScaler | None
    classes: NDArray[Any]
    X: Any

    def named(self, features: list[str] | None = None) -> Any:
        """The estimator with the names of the classes, and of the features where given."""
        other = copy(self.estimator)
        names = None if features is None else np.array(features, dtype=object)
        other.model_ = self.estimator.model_.renamed(self.classes, names)
        vars(other).pop("transduction_", None)
        return other


def fitted_model(choice: Choice, X: Any, z: Any, classes: NDArray[Any]) -> Model:
    """The chosen model of all rows: fitted again only where it was chosen on a sample. X is standardised in place."""
    *before, (_, estimator) = choice.pipeline.steps
    scaler = before[0][1] if before else None
    if len(X) == len(choice.cv.missing_proba_):
        if scaler is not None:
            X[:] = scaler.transform(X)
        return Model(estimator, scaler, classes, X)
    if scaler is not None:
        scaler = StandardScaler()
        for start in range(0, len(X), BLOCK):
            scaler.partial_fit(X[start : start + BLOCK])
            release(X)
        scale_rows(scaler, X)
    estimator = clone(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes_ and converged_ say the same, and go into the report
        estimator.fit(X, z)
    return Model(estimator, scaler, classes, X)


def scale_rows(scaler: StandardScaler, X: Any) -> None:
    """Standardise rows in place, block by block."""
    for start in range(0, len(X), BLOCK):
        X[start : start + BLOCK] = scaler.transform(X[start : start + BLOCK])
        release(X)
