"""The scikit-learn estimators: validate, encode, delegate."""

from marmix.estimators.boosting import MARBoostingClassifier
from marmix.estimators.kernel import MARKernelClassifier
from marmix.estimators.logistic import MARLogisticRegression
from marmix.estimators.mixture import MARGaussianMixture
from marmix.estimators.student import MARStudentMixture
from marmix.estimators.wrappers import LabelledRows, WithUnlabelled

__all__ = [
    "LabelledRows",
    "MARBoostingClassifier",
    "MARGaussianMixture",
    "MARKernelClassifier",
    "MARLogisticRegression",
    "MARStudentMixture",
    "WithUnlabelled",
]
