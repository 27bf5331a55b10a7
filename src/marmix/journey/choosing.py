"""Comparison of candidates on a sample of the rows, and their average for all rows."""

import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from marmix.core.arrays import Array
from marmix.core.files import release
from marmix.core.labels import most_voted
from marmix.estimators import MARGaussianMixture, MARLogisticRegression, MARStudentMixture
from marmix.evaluation.prior import class_offsets, prior_of, unlabelled_counts
from marmix.journey.progress import Step
from marmix.journey.rows import BLOCK, empty_rows
from marmix.selection import comparison
from marmix.selection.average import MARClassifierCV
from marmix.selection.candidates import models_missingness

SAMPLE = 20_000  # rows for comparing candidates
LEAST, LEAST_OF_SAMPLE = 0.001, 0.02  # candidates of a smaller weight are left out of the average

# After a comparison on a sample, the few candidates of the largest weights are fitted again to all rows, unless a pass over the
# rows would make too many values. The others keep their fits to the sample.
REFITTED, _MOST_VALUES = 4, 200_000_000
_SHIFTED = 200_000  # most rows behind the offsets for known class shares

KINDS = {
    "MARGaussianMixture": "Gaussian classes",
    "MARStudentMixture": "Student-t classes",
    "MARLogisticRegression": "logistic regression",
    "MARKernelClassifier": "kernel logistic regression",
    "MARBoostingClassifier": "boosted trees",
}


def model_in_words(estimator: Any, any_missing: bool = True) -> str:
    """A fitted model in plain words and, where labels are missing, whether it uses the missingness."""
    words = str(estimator.model_.score_model.words)
    return f"{words}, missingness {missingness_in_words(estimator)}" if any_missing else words


def missingness_in_words(estimator: Any) -> str:
    """Whether a fitted model uses the missingness."""
    weight = 0.0 if estimator.model_.mechanism is None else estimator.model_.tempering
    return {0.0: "ignored", 1.0: "modelled"}.get(weight, f"modelled with weight {weight:g}")


def average_in_words(average: MARClassifierCV, any_missing: bool = True) -> str:
    """The kinds of models in an average with their total weights; the model itself if one has all the weight."""
    members = {name: weight for name, weight in average.weights_.items() if weight > 0.0}
    if len(members) == 1:
        return model_in_words(average.estimators_[next(iter(members))][-1], any_missing)
    shares: dict[str, float] = {}
    for name, weight in members.items():
        kind = type(average.estimators_[name][-1]).__name__
        shares[KINDS.get(kind, kind)] = shares.get(KINDS.get(kind, kind), 0.0) + weight
    parts = sorted(shares.items(), key=lambda item: -item[1])
    return f"average of {len(members)} models: {', '.join(f'{kind} {share:.2f}' for kind, share in parts)}"


def sample_places(z: NDArray[np.integer[Any]], seed: int, size: int) -> NDArray[np.intp]:
    """Positions of about `size` rows, or of all if there are fewer, stratified by class with the unlabelled as one more."""
    if len(z) <= size:
        return np.arange(len(z))
    rng = np.random.default_rng(seed)
    parts = []
    for code in np.unique(z):
        members = np.flatnonzero(z == code)
        parts.append(rng.choice(members, min(len(members), max(2, round(size * len(members) / len(z)))), replace=False))
    return np.sort(np.concatenate(parts))


def compare(
    grid: Mapping[str, BaseEstimator] | None,
    X: Array,
    labels: NDArray[Any],
    *,
    folds: int,
    seed: int,
    step: Step,
    method: str = "average",
    prior: Any = None,
    time_limit: float | None = None,
) -> MARClassifierCV:
    """Cross-validate the candidates (by default those of `MARClassifierCV`) and the usual classifiers of labelled rows.

    `labels` are codes, -1 where missing, or shares of votes; `prior` holds known shares of the classes, NaN where unknown.
    """
    options: dict[str, Any] = {"cv": folds, "random_state": seed, "rivals": True, "prior": prior}
    cv = MARClassifierCV(estimators=grid, method=method, time_limit=time_limit, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes go into the report
        cv.selection_ = comparison.compare(cv, X, labels, report=step)
    return cv


def select(cv: MARClassifierCV, name: str) -> None:
    """Give one candidate all the weight."""
    weights, rows = {key: float(key == name) for key in cv.weights_}, cv.selection_.rows
    if rows is not None and rows.probas:
        rows = rows._replace(held_out_proba=rows.probas[name])
    cv.selection_ = replace(cv.selection_, weights=weights, rows=rows)


def statistical(cv: MARClassifierCV) -> str | None:
    """The name of the best candidate with parameters to interpret; None if there is none.

    These are logistic regressions and mixtures with one component per class, fitted by likelihood. It is one that models the
    missingness unless ignoring the missingness scores better.
    """
    gain = cv.comparison_
    ignore = gain is not None and gain.gain < 0.0
    names = [name for name, pipeline in cv.estimators_.items() if _has_parameters(pipeline[-1])]
    names = [name for name in names if models_missingness(cv.estimators_[name]) is not ignore] or names
    if "log_loss" not in cv.results_:
        return names[0] if names else None
    losses = dict(zip(cv.results_["candidate"].tolist(), cv.results_["log_loss"].tolist(), strict=True))
    return min(names, key=lambda name: losses[name], default=None)


def _has_parameters(estimator: Any) -> bool:
    settings = estimator.get_params()
    return (
        type(estimator) in (MARGaussianMixture, MARStudentMixture, MARLogisticRegression)
        and settings["link"] is not None
        and settings["mechanism_weight"] in (0.0, 1.0)
        and settings.get("n_components", 1) == 1
    )


class Model(NamedTuple):
    """A fitted classifier, the rows it takes, and the model whose parameters are reported; classes are numbered 0, 1, ..."""

    classifier: Any  # MARClassifierCV or, if one was saved, a pipeline with a single model
    statistical: Pipeline | None
    classes: NDArray[Any]
    X: Any
    axes: Any  # the rows as the last step of `statistical` takes them

    @property
    def candidates(self) -> dict[str, Pipeline]:
        """The models that predict."""
        return self.classifier.estimators_ if self.averages else {"": self.classifier}

    @property
    def weights(self) -> dict[str, float]:
        """Their weights."""
        return self.classifier.weights_ if self.averages else {"": 1.0}

    @property
    def averages(self) -> bool:
        """Whether the classifier is an average."""
        return isinstance(self.classifier, MARClassifierCV)

    def named(self) -> Any:
        """The average with the names of the classes, without results for the training rows."""
        average = copy(self.classifier)
        average.selection_ = replace(average.selection_, classes=self.classes)
        return average

    def named_statistical(self, features: list[str]) -> Pipeline:
        """The model with parameters, with the names of classes and features."""
        assert self.statistical is not None
        *steps, (_, estimator) = self.statistical.steps
        names, estimator = np.array(features, dtype=object), copy(estimator)
        estimator.model_ = estimator.model_.renamed(self.classes, None if steps else names)
        if not steps:
            return Pipeline([("classifier", estimator)])
        scaler = copy(steps[0][1])
        scaler.feature_names_in_ = names
        return Pipeline([("scaler", scaler), ("classifier", estimator)])


def average_model(cv: MARClassifierCV, X: Any, labels: Any, classes: NDArray[Any], folder: Path, step: Step) -> Model:
    """The average for all rows; its main candidates are fitted again if they were compared on a sample."""
    leading = statistical(cv)
    least = min(least_weight(len(X), len(cv.missing_proba_)), max(cv.weights_.values()))
    weights = {name: weight if weight >= least else 0.0 for name, weight in cv.weights_.items()}
    total = sum(weights.values())
    weights = {name: weight / total for name, weight in weights.items() if weight > 0.0 or name == leading}
    offsets = cv.prior_offset_ and {name: cv.prior_offset_[name] for name in weights}
    shares = np.array([weights.get(name, 0.0) for name in cv.results_["candidate"].tolist()])
    table = {key: column for key, column in cv.results_.items() if key != "seconds"}  # the same file in every run
    average = MARClassifierCV(**cv.get_params(deep=False))
    average.selection_ = replace(
        cv.selection_,
        weights=weights,
        estimators={name: cv.estimators_[name] for name in weights},
        prior_offset=offsets,
        results=table | {"weight": shares},
        rivals=None,
        rows=None,
    )
    axes = None
    if len(X) > len(cv.missing_proba_):
        scaler = scaler_of(X)
        axes = scaled_rows(scaler, X, folder)
        names = refitted(average, leading, len(X))
        for done, name in enumerate(names):
            step(done / len(names), name)
            average.estimators_[name] = _refit(average.estimators_[name], X, labels, scaler, axes)
            if offsets is not None:
                offsets[name] = _prior_offset(average, name, X, labels)
    chosen = None if leading is None else average.estimators_[leading]
    if chosen is not None and axes is None:
        axes = chosen[:-1].transform(X)
    return Model(average, chosen, classes, X, axes)


def _prior_offset(average: MARClassifierCV, name: str, X: Any, labels: NDArray[Any]) -> Array:
    """The offsets of a refitted candidate for the known class shares, from at most so many rows."""
    z = labels if labels.ndim == 1 else most_voted(labels)
    places = sample_places(z, seed=0, size=_SHIFTED)
    prior = prior_of(average.prior, average.classes_)
    assert prior is not None
    expected = unlabelled_counts(prior, labels[places], average.classes_)
    proba = average.estimators_[name].predict_proba(X[places[z[places] < 0]])
    return class_offsets(proba, expected)


def least_weight(n_rows: int, n_compared: int) -> float:
    """The weight below which candidates are left out: larger if there are many rows to score."""
    return LEAST_OF_SAMPLE if n_rows > n_compared else LEAST


def refitted(average: MARClassifierCV, leading: str | None, n_rows: int) -> list[str]:
    """The candidates to fit to all rows: a few of the largest weights, and the one whose parameters are reported."""
    order = sorted(average.weights_, key=lambda name: -average.weights_[name])
    largest = [
        name
        for name in order[:REFITTED]
        if n_rows * average.estimators_[name][-1].model_.score_model.values_per_row() <= _MOST_VALUES
    ]
    return [name for name in order if name in largest or name == leading]


def _refit(pipeline: Pipeline, X: Any, labels: Any, scaler: StandardScaler, scaled: Any) -> Pipeline:
    """The candidate fitted to all rows, with the settings that it chose by itself on the sample."""
    *steps, (last, fitted) = pipeline.steps
    parameters = fitted.get_params(deep=False)
    settings = {
        name: getattr(fitted, f"{name}_")
        for name, value in parameters.items()
        if isinstance(value, str) and value == "auto" and hasattr(fitted, f"{name}_")
    }
    if "cv" in parameters:  # nothing is left to choose
        settings["cv"] = None
    estimator = clone(fitted).set_params(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes and convergence go into the report
        if [type(step) for _, step in steps] == [StandardScaler]:
            estimator.fit(scaled, labels)
            return Pipeline([(steps[0][0], scaler), (last, estimator)])
        refit = clone(pipeline)
        refit.steps[-1] = (last, estimator)
        return refit.fit(X, labels)


def scaler_of(X: Any) -> StandardScaler:
    """A scaler fitted block by block."""
    scaler = StandardScaler()
    for start in range(0, len(X), BLOCK):
        scaler.partial_fit(X[start : start + BLOCK])
        release(X)
    return scaler


def scaled_rows(scaler: Any, X: Any, folder: Path) -> Any:
    """A standardised copy of the rows, in a file of the folder if they are in a file."""
    scaled = empty_rows(folder / "scaled.npy", *X.shape) if isinstance(X, np.memmap) else np.empty(X.shape)
    for start in range(0, len(X), BLOCK):
        scaled[start : start + BLOCK] = scaler.transform(X[start : start + BLOCK])
        release(X)
        release(scaled)
    return scaled
