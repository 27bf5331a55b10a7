"""Classification when labels are missing for a reason."""

from typing import TYPE_CHECKING, Any

from marmix import estimate
from marmix.audit import Audit
from marmix.core.labels import votes
from marmix.core.mechanism import Mechanism
from marmix.core.notes import BoundaryWarning
from marmix.estimate.diagnosis import diagnose
from marmix.estimators import (
    LabelledRows,
    MARBoostingClassifier,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
    WithUnlabelled,
)
from marmix.inference import Inference, compare
from marmix.inference.sensitivity import Sensitivity
from marmix.persistence import load, save
from marmix.selection.average import MARClassifierCV

if TYPE_CHECKING:
    from marmix.app.audit import label_page
    from marmix.app.saved import report

__version__ = "0.3.0"

__all__ = [
    "Audit",
    "BoundaryWarning",
    "Inference",
    "LabelledRows",
    "MARBoostingClassifier",
    "MARClassifierCV",
    "MARGaussianMixture",
    "MARKernelClassifier",
    "MARLogisticRegression",
    "MARStudentMixture",
    "Mechanism",
    "Sensitivity",
    "WithUnlabelled",
    "__version__",
    "compare",
    "diagnose",
    "estimate",
    "label_page",
    "load",
    "report",
    "save",
    "votes",
]


def __getattr__(name: str) -> Any:
    """Import `report` and `label_page`, which need the whole program, when they are used."""
    if name == "report":
        from marmix.app.saved import report

        return report
    if name == "label_page":
        from marmix.app.audit import label_page

        return label_page
    raise AttributeError(f"module 'marmix' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
