"""Solvers: maximise L_full over the classes and the mechanism. They see parameters and `Sums`, never a row.

Both stop when the rise still to come is below `tol` per row.
"""

from collections.abc import Callable

from marmix.fitting.expectation import ecm
from marmix.fitting.objective import Objective, Sample
from marmix.fitting.quasi_newton import lbfgs
from marmix.fitting.solvers import Fit, Report, fit_mechanism, unheard

__all__ = ["SOLVERS", "Fit", "Objective", "Report", "Sample", "ecm", "fit_mechanism", "lbfgs", "unheard"]

SOLVERS: dict[str, Callable[..., Fit]] = {"lbfgs": lbfgs, "ecm": ecm}
