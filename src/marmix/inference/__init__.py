"""Statistical inference for a fit: standard errors, intervals, tests, bootstrap, criteria."""

from marmix.inference.criteria import Criteria, compare
from marmix.inference.fitted import Fitted
from marmix.inference.parameters import Parameters, parameters_of, require_parameters
from marmix.inference.results import Inference

__all__ = [
    "Criteria",
    "Fitted",
    "Inference",
    "Parameters",
    "compare",
    "counted_weight",
    "parameters_of",
    "require_parameters",
]
