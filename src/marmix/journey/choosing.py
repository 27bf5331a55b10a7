"""Which model: a few candidates, each with the missingness modelled and ignored, cross-validated on a sample of the rows."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from marmix.classifiers import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.classifiers.candidates import models_missingness
from marmix.journey.progress import Step

Array = NDArray[np.float64]

SAMPLE = 20_000  # rows that are enough to tell candidates apart

COMMON, OWN = "Gaussian classes, common covariance", "Gaussian classes, own covariances"
LOGISTIC, QUADRATIC = "logistic regression", "quadratic logistic regression"
MODELLED, IGNORED = "missingness modelled", "missingness ignored"

# features up to which a covariance matrix, and all products of two features, are worth a try
_MOST = {COMMON: 200, OWN: 50, QUADRATIC: 25}


class Choice(NamedTuple):
    """The candidate that was picked, and the comparison."""

    name: str
    estimator: BaseEstimator
    scaled: bool  # whether it wants standardised features
    cv: MARClassifierCV


def measure_of(n_classes: int) -> str:
    """The measure of uncertainty: the squared margin for two classes, the entropy, which is smooth, for more."""
    return "margin" if n_classes == 2 else "entropy"


def candidates(
    kind: str, n_classes: int, n_rows: int, n_features: int, categories: bool, mechanism: Mapping[str, Any]
) -> dict[str, BaseEstimator]:
    """Candidates by name: of the `kind` asked for, and of those whose parameters the rows can feed.

    Categories are not Gaussian, so "auto" leaves the mixtures out where there are some; and with "mixture" the one with common
    covariances is always tried.
    """
    models: dict[str, BaseEstimator] = {}
    if kind == "mixture" or (kind == "auto" and not categories and n_features <= _MOST[COMMON]):
        models[COMMON] = MARGaussianMixture(covariance_type="tied")
        if n_features <= _MOST[OWN]:
            models[OWN] = MARGaussianMixture(covariance_type="full")
    if kind in ("auto", "logistic"):
        models[LOGISTIC] = MARLogisticRegression()
        products = 1 + n_features + n_features * (n_features + 1) // 2
        if n_features <= _MOST[QUADRATIC] and n_rows >= 5 * products * (n_classes - 1) and not categories:
            models[QUADRATIC] = MARLogisticRegression(degree=2)
    grid: dict[str, BaseEstimator] = {}
    for name, model in models.items():
        own = model.get_params() | dict(mechanism)
        grid[f"{name}, {MODELLED}"] = type(model)(**own)
        grid[f"{name}, {IGNORED}"] = type(model)(**own | {"mechanism_weight": 0.0})
    return grid


def sample(z: NDArray[np.integer[Any]], seed: int, size: int = SAMPLE) -> NDArray[np.intp]:
    """Rows to compare models on, and to show: all if they are few, else the same share of every class and of the unlabelled."""
    if len(z) <= size:
        return np.arange(len(z))
    rng = np.random.default_rng(seed)
    parts = []
    for code in np.unique(z):
        own = np.flatnonzero(z == code)
        parts.append(rng.choice(own, min(len(own), max(2, round(size * len(own) / len(z)))), replace=False))
    return np.sort(np.concatenate(parts))


def choose(
    grid: Mapping[str, BaseEstimator], X: Array, z: NDArray[np.integer[Any]], *, folds: int, seed: int, step: Step
) -> Choice:
    """Cross-validate the candidates and pick the one of the lowest log-loss, corrected for the rows without label."""
    cv = MARClassifierCV(estimators=grid, method="pick", cv=folds, random_state=seed)
    cv._fitted_one = step  # type: ignore[method-assign, assignment]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is noted is kept in notes_
        cv.fit(X, z)
    name = max(cv.weights_, key=lambda name: cv.weights_[name])
    if cv.held_out_proba_ is None:  # nothing to compare by
        name = next((name for name in cv.estimators_ if models_missingness(cv.estimators_[name])), name)
    return Choice(name, grid[name], isinstance(grid[name], MARLogisticRegression), cv)
