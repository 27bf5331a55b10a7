"""The classifiers compared: the paper's, its baseline, stronger baselines, and ours."""

import warnings
from typing import Any, NamedTuple

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

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from paper.metrics import scores

Labels = NDArray[np.int64]

BAYES, EVERY_LABEL = "Bayes rule", "logistic, every label"  # know what was hidden
ECM_AO, ECM_LOGIT, IGNORED = "ECM-AO", "ECM-logit", "mixture, mechanism ignored"
SCRIPT, DEFINED = "ECM-AO, as its script computes", "ECM-AO, as the paper defines it"
LOGISTIC, LOGISTIC_CV, SWAPPED = "logistic", "logistic, C by CV", "logistic, classes swapped"
LDA, QDA, SELF_TRAINING, BOOSTING = "LDA", "QDA", "self-training", "gradient boosting"
MAR_LOGISTIC, MAR_QUADRATIC = "MARLogisticRegression", "MARLogisticRegression, degree 2"
MAR_TIED, MAR_EIGHT = "MARGaussianMixture, tied", "MARGaussianMixture, 8 a class"
IGNORED_EIGHT, AVERAGE = "8 a class, mechanism ignored", "MARClassifierCV"


def mixture(seed, **options):
    """The model of the paper, unless options say otherwise."""
    paper = {"covariance_type": "full", "link": "aranda-ordaz", "measure": "margin"}
    return MARGaussianMixture(**paper | {"init": "kmeans", "n_init": 1, "random_state": seed} | options)


def _scaled(estimator):
    return make_pipeline(StandardScaler(), estimator)


def _logistic_cv(seed, y):
    folds = StratifiedKFold(max(2, min(5, int(np.bincount(y).min()))), shuffle=True, random_state=seed)
    grid = {"logisticregression__C": np.logspace(-2, 2, 9)}
    return GridSearchCV(_scaled(LogisticRegression(max_iter=2000)), grid, cv=folds, scoring="neg_log_loss")


# Makers, from a seed and the labels that are left; by the rows that the classifiers take.
ALL_LABELS = {
    EVERY_LABEL: lambda seed, y: _scaled(LogisticRegression(max_iter=2000)),
}
LABELLED_ROWS = {
    LOGISTIC: lambda seed, y: LogisticRegression(C=np.inf, max_iter=10_000),
    LOGISTIC_CV: _logistic_cv,
    LDA: lambda seed, y: LinearDiscriminantAnalysis(),
    QDA: lambda seed, y: QuadraticDiscriminantAnalysis(reg_param=0.01),
    BOOSTING: lambda seed, y: HistGradientBoostingClassifier(random_state=seed),
}
ALL_ROWS = {
    SELF_TRAINING: lambda seed, y: _scaled(SelfTrainingClassifier(LogisticRegression(max_iter=2000))),
    IGNORED: lambda seed, y: mixture(seed, link=None),
    ECM_AO: lambda seed, y: mixture(seed),
    ECM_LOGIT: lambda seed, y: mixture(seed, link="logit"),
    SCRIPT: lambda seed, y: mixture(seed, link=None),
    DEFINED: lambda seed, y: mixture(seed, shape=0.7),
    MAR_TIED: lambda seed, y: MARGaussianMixture(covariance_type="tied", measure="margin", n_init=1),
    MAR_LOGISTIC: lambda seed, y: _scaled(MARLogisticRegression(measure="margin")),
    MAR_QUADRATIC: lambda seed, y: _scaled(MARLogisticRegression(measure="margin", degree=2)),
    MAR_EIGHT: lambda seed, y: mixture(seed, link="logit", init="labelled", n_components=8),
    IGNORED_EIGHT: lambda seed, y: mixture(seed, link=None, init="labelled", n_components=8),
    AVERAGE: lambda seed, y: MARClassifierCV(random_state=seed),
}


class Fit(NamedTuple):
    """A fitted classifier, and whether it converged."""

    estimator: Any
    converged: bool

    def ranking(self, X):
        """Log-odds of the second class, or its probability if the estimator has no `decision_function`."""
        if hasattr(self.estimator, "decision_function"):
            return np.asarray(self.estimator.decision_function(X))
        return np.asarray(self.estimator.predict_proba(X)[:, 1])

    def scores(self, X, truth):
        """Scores of a two-class classifier on these rows."""
        return scores(truth, self.estimator.predict_proba(X), self.ranking(X)) | {"converged": self.converged}


def fitted(names, X, partial, truth, seed):
    """The named classifiers, without those that cannot be fitted, for instance QDA to too few rows of a class."""
    left = partial >= 0
    rows = ((ALL_LABELS, X, truth), (LABELLED_ROWS, X[left], partial[left]), (ALL_ROWS, X, partial))
    fits = {}
    for name in names:
        make, features, labels = next((makers[name], x, y) for makers, x, y in rows if name in makers)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                estimator = make(seed, partial[left]).fit(features, labels)
            except np.linalg.LinAlgError:
                continue
        fits[name] = Fit(estimator, not any(issubclass(w.category, ConvergenceWarning) for w in caught))
    return fits
