"""The scikit-learn estimators: validate, encode, delegate."""

from marmix.classifiers.choice import MARClassifierCV
from marmix.classifiers.logistic import MARLogisticRegression
from marmix.classifiers.mixture import MARGaussianMixture

__all__ = ["MARClassifierCV", "MARGaussianMixture", "MARLogisticRegression"]
