"""The classifiers compared: the paper's, its baseline, stronger baselines, and ours."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from marmix.core.arrays import Array
from marmix.estimators import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.study.metrics import scores

Labels = NDArray[np.int64]

# the model of the paper
PAPER: dict[str, Any] = {"covariance_type": "full", "link": "aranda-ordaz", "measure": "margin", "n_init": 1}

BAYES, EVERY_LABEL = "Bayes rule", "logistic, every label"
REFERENCES = (BAYES, EVERY_LABEL)
ECM_AO, ECM_LOGIT, IGNORED = "ECM-AO", "ECM-logit", "mixture, mechanism ignored"
LOGISTIC, LOGISTIC_CV, SWAPPED = "logistic", "logistic, C by CV", "logistic, classes swapped"
LDA, QDA, SELF_TRAINING, BOOSTING = "LDA", "QDA", "self-training", "gradient boosting"
MAR_LOGISTIC, MAR_QUADRATIC = "MARLogisticRegression", "MARLogisticRegression, degree 2"
MAR_TIED, MAR_EIGHT, IGNORED_EIGHT = (
    "MARGaussianMixture, tied",
    "MARGaussianMixture, 8 a class",
    "8 a class, mechanism ignored",
)
AVERAGE = "MARClassifierCV"


@dataclass(frozen=True)
class Method:
    """A classifier, and its rows: "partial" (all rows, some without label), "labelled", or "complete" (all labels)."""

    make: Callable[[Labels, int], Any]
    rows: str = "partial"


def _scaled(estimator: Any) -> Any:
    return make_pipeline(StandardScaler(), estimator)


def _plain_logistic(y: Labels, seed: int) -> Any:
    return LogisticRegression(C=np.inf, max_iter=10_000)


def _logistic_cv(y: Labels, seed: int) -> Any:
    folds = StratifiedKFold(max(2, min(5, int(np.bincount(y).min()))), shuffle=True, random_state=seed)
    grid = {"logisticregression__C": np.logspace(-2, 2, 9)}
    return GridSearchCV(_scaled(LogisticRegression(max_iter=2000)), grid, cv=folds, scoring="neg_log_loss")


METHODS: dict[str, Method] = {
    EVERY_LABEL: Method(lambda y, seed: _scaled(LogisticRegression(max_iter=2000)), "complete"),
    LOGISTIC: Method(_plain_logistic, "labelled"),
    LOGISTIC_CV: Method(_logistic_cv, "labelled"),
    LDA: Method(lambda y, seed: LinearDiscriminantAnalysis(), "labelled"),
    QDA: Method(lambda y, seed: QuadraticDiscriminantAnalysis(reg_param=0.01), "labelled"),
    BOOSTING: Method(lambda y, seed: HistGradientBoostingClassifier(random_state=seed), "labelled"),
    SELF_TRAINING: Method(lambda y, seed: _scaled(SelfTrainingClassifier(LogisticRegression(max_iter=2000)))),
    IGNORED: Method(lambda y, seed: MARGaussianMixture(**PAPER | {"link": None}, init="kmeans", random_state=seed)),
    ECM_AO: Method(lambda y, seed: MARGaussianMixture(**PAPER, init="kmeans", random_state=seed)),
    ECM_LOGIT: Method(
        lambda y, seed: MARGaussianMixture(**PAPER | {"link": "logit"}, init="kmeans", random_state=seed)
    ),
    MAR_TIED: Method(
        lambda y, seed: MARGaussianMixture(covariance_type="tied", link="logit", measure="margin", n_init=1)
    ),
    MAR_LOGISTIC: Method(lambda y, seed: _scaled(MARLogisticRegression(link="logit", measure="margin"))),
    MAR_QUADRATIC: Method(lambda y, seed: _scaled(MARLogisticRegression(link="logit", measure="margin", degree=2))),
    MAR_EIGHT: Method(
        lambda y, seed: MARGaussianMixture(**PAPER | {"link": "logit"}, n_components=8, random_state=seed)
    ),
    IGNORED_EIGHT: Method(
        lambda y, seed: MARGaussianMixture(**PAPER | {"link": None}, n_components=8, random_state=seed)
    ),
    AVERAGE: Method(lambda y, seed: MARClassifierCV(random_state=seed)),
}


def ranking(estimator: Any, X: Array) -> Array:
    """Log-odds of the second class, or its probability if the estimator has no `decision_function`."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X))
    return np.asarray(estimator.predict_proba(X)[:, 1])


def assessed(estimator: Any, X: Array, truth: Labels) -> dict[str, float]:
    """Scores of a two-class estimator on these rows."""
    return scores(truth, estimator.predict_proba(X), ranking(estimator, X))


def fitted(
    names: Iterable[str], X: Array, partial: Labels, truth: Labels, seed: int
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Fit the named methods.

    Returns
    -------
    estimators : dict
    failed : list of str
        Methods that could not be fitted, for instance QDA with too few rows of a class.
    unfinished : list of str
        Methods whose solver did not converge.
    """
    labelled = partial >= 0
    rows = {"partial": (X, partial), "labelled": (X[labelled], partial[labelled]), "complete": (X, truth)}
    estimators, failed, unfinished = {}, [], []
    for name in names:
        method = METHODS[name]
        features, labels = rows[method.rows]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                estimators[name] = method.make(partial[labelled], seed).fit(features, labels)
            except np.linalg.LinAlgError:
                failed.append(name)
        if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
            unfinished.append(name)
    return estimators, failed, unfinished


def troubles(failed: list[list[str]], unfinished: list[list[str]]) -> list[str]:
    """Notes on how often methods failed or did not converge, from one list of names for each sample."""
    notes = []
    for lists, words in ((failed, "could not be fitted"), (unfinished, "did not converge")):
        for name in METHODS:
            count = sum(name in names for names in lists)
            if count:
                notes.append(f"{name} {words} in {count} of {len(lists)} fits.")
    return notes
