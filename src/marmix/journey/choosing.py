"""Which model: a few candidates, each with the missingness modelled and ignored, cross-validated on a sample of the rows."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from marmix.arrays import Array
from marmix.estimators import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.estimators.candidates import models_missingness
from marmix.journey.progress import Step
from marmix.mechanism.measures import MEASURES

SAMPLE = 20_000  # rows that are enough to tell candidates apart

COMMON, OWN = "Gaussian classes, common covariance", "Gaussian classes, own covariances"
LOGISTIC, QUADRATIC = "logistic regression", "quadratic logistic regression"
MODELLED, IGNORED = "missingness modelled", "missingness ignored"

# features up to which a covariance matrix, and all products of two features, are worth a try
_MOST = {COMMON: 200, OWN: 50, QUADRATIC: 25}
_ROWS = 5  # for each of them at least; of labelled rows for a product


class Compared(MARClassifierCV):
    """A cross-validation of candidates that tells how far it is, and keeps what each said of rows it had not seen."""

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
    """The candidate that was picked, and the comparison."""

    name: str
    estimator: BaseEstimator
    scaled: bool  # whether it wants standardised features
    cv: MARClassifierCV


def measure_of(n_classes: int) -> str:
    """The measure of uncertainty: the squared margin where it is smooth, which is for two classes, otherwise the entropy."""
    return "entropy" if MEASURES["margin"].has_kinks(n_classes) else "margin"


def candidates(
    kind: str,
    n_classes: int,
    n_rows: int,
    n_labelled: int,
    n_features: int,
    categories: bool,
    mechanism: Mapping[str, Any],
) -> dict[str, BaseEstimator]:
    """Candidates by name: of the `kind` asked for, and of those whose parameters the rows can feed.

    Categories are not Gaussian, so "auto" leaves the mixtures out where there are some; and with "mixture" the one with common
    covariances is always tried.
    """
    models: dict[str, BaseEstimator] = {}
    fed = kind == "auto" and not categories and n_features <= min(_MOST[COMMON], n_rows // _ROWS)
    if kind == "mixture" or fed:
        models[COMMON] = MARGaussianMixture(covariance_type="tied")
        if n_features <= min(_MOST[OWN], n_rows // (_ROWS * n_classes)):
            models[OWN] = MARGaussianMixture(covariance_type="full")
    if kind in ("auto", "logistic"):
        models[LOGISTIC] = MARLogisticRegression()
        products = 1 + n_features + n_features * (n_features + 1) // 2
        if n_features <= _MOST[QUADRATIC] and n_labelled >= _ROWS * products * (n_classes - 1) and not categories:
            models[QUADRATIC] = MARLogisticRegression(degree=2)
    grid: dict[str, BaseEstimator] = {}
    for name, model in models.items():
        own = model.get_params() | dict(mechanism)
        if n_labelled == n_rows:  # there is no missingness
            grid[name] = type(model)(**own)
            continue
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
    """Cross-validate the candidates and take one by its log-loss, corrected for the rows without label.

    Of those that model the missingness it is the best, unless the best that ignores it is better by more than two standard
    errors. The estimated losses are noisy where few hard rows have labels, and the lower of two says little.
    """
    cv = Compared(estimators=grid, method="pick", cv=folds, random_state=seed)
    cv.step = step
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is noted is kept in notes_
        cv.fit(X, z)
    name = _taken(cv)
    cv.take(name)
    return Choice(name, grid[name], isinstance(grid[name], MARLogisticRegression), cv)


def _taken(cv: MARClassifierCV) -> str:
    """The candidate to fit; the first that models the missingness where there is nothing to compare by."""
    gain = cv.comparison_
    ignore = gain is not None and gain.gain < -2.0 * gain.stderr
    names = [name for name, own in cv.estimators_.items() if models_missingness(own) is not ignore] or [*cv.estimators_]
    if cv.held_out_proba_ is None:
        return names[0]
    losses = dict(zip(cv.results_["candidate"].tolist(), cv.results_["log_loss"].tolist(), strict=True))
    return min(names, key=lambda name: losses[name])
