"""Classification when labels are missing for a reason."""

from os import PathLike
from typing import TYPE_CHECKING, Any

from marmix.audit import Audit
from marmix.core.labels import votes
from marmix.core.mechanism import Mechanism
from marmix.core.notes import BoundaryWarning
from marmix.estimators import (
    LabelledRows,
    MARBoostingClassifier,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
    WithUnlabelled,
)
from marmix.inference import Inference, compare, pool
from marmix.inference.sensitivity import Sensitivity
from marmix.persistence import load, save
from marmix.selection.average import MARClassifierCV

if TYPE_CHECKING:
    from marmix.journey.reporting import Report

__version__ = "0.2.0"

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
    "load",
    "pool",
    "report",
    "save",
    "votes",
]


def report(model: Any, X: Any, y: Any, path: str | PathLike[str] | None = None) -> "Report":
    """The report of a fitted model as a page: verdict, scoreboard, cautions, figures, and the rows most worth labelling.

    Parameters
    ----------
    model : MARClassifierCV, MARGaussianMixture, MARStudentMixture or MARLogisticRegression
        Fitted; or a pipeline of a `marmix.tables.Preparation` or a `StandardScaler` that ends in one.
    X : array-like of shape (n, d) or table
        The rows of its fit, on which the candidates are cross-validated again, or others.
    y : array-like of shape (n,)
        Their labels, some of them missing.
    path : path or None, default=None
        HTML file to write.

    Returns
    -------
    Report
        A notebook shows it as a page, `print` as a summary. It has `save(path)` and the `findings` as plain values.

    See Also
    --------
    MARClassifierCV : the estimator to report on.

    Examples
    --------
    >>> import marmix
    >>> from marmix.datasets import load_tumours
    >>> X, y = load_tumours(return_X_y=True)
    >>> clf = marmix.MARClassifierCV().fit(X, y)    # doctest: +SKIP
    >>> marmix.report(clf, X, y, "report.html")    # doctest: +SKIP
    """
    from marmix.journey.reporting import report_rows

    result = report_rows(model, X, y)
    if path is not None:
        result.save(path)
    return result
