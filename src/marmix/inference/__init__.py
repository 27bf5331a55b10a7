"""Statistical inference for a fit: standard errors, intervals, tests, bootstrap, multiple imputation, criteria."""

from marmix.inference.criteria import Criteria, compare
from marmix.inference.fitted import Fitted
from marmix.inference.imputation import Imputations, pool
from marmix.inference.parameters import Parameters, parameters_of, require_parameters
from marmix.inference.results import Inference

__all__ = [
    "Criteria",
    "Fitted",
    "Imputations",
    "Inference",
    "Parameters",
    "compare",
    "counted_weight",
    "parameters_of",
    "pool",
    "require_parameters",
]
