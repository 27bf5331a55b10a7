"""Starting values and solvers, which maximise L_full over the classes and the mechanism from `Sums` over the rows.

The solvers stop when the estimated remaining increase of the log-likelihood is below `tol` per row.
"""

from collections.abc import Callable

from marmix.fitting.expectation import ecm
from marmix.fitting.objective import Objective, Sample
from marmix.fitting.quasi_newton import lbfgs
from marmix.fitting.solvers import Fit, fit_mechanism

__all__ = ["SOLVERS", "Fit", "Objective", "Sample", "ecm", "fit_mechanism", "lbfgs"]

SOLVERS: dict[str, Callable[..., Fit]] = {"lbfgs": lbfgs, "ecm": ecm}
