"""Classification when labels are missing for a reason."""

from marmix.container import load, save
from marmix.estimators import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.inference import Inference, compare, pool
from marmix.labels import votes
from marmix.mechanism import Mechanism
from marmix.notes import BoundaryWarning
from marmix.sensitivity import Sensitivity

__version__ = "0.1.0"

__all__ = [
    "BoundaryWarning",
    "Inference",
    "MARBoostingClassifier",
    "MARClassifierCV",
    "MARGaussianMixture",
    "MARKernelClassifier",
    "MARLogisticRegression",
    "MARStudentMixture",
    "Mechanism",
    "Sensitivity",
    "__version__",
    "compare",
    "load",
    "pool",
    "save",
    "votes",
]
