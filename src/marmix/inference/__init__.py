"""How sure are we, and did the missingness matter: standard errors, intervals, tests, bootstrap, multiple imputation."""

from marmix.inference.criteria import Counts, Fingerprint, compare
from marmix.inference.fitted import Fitted
from marmix.inference.imputation import Imputations, pool
from marmix.inference.parameters import Parameters, logistic_parameters, mechanism_parameters, mixture_parameters
from marmix.inference.results import Inference

__all__ = [
    "Counts",
    "Fingerprint",
    "Fitted",
    "Imputations",
    "Inference",
    "Parameters",
    "compare",
    "logistic_parameters",
    "mechanism_parameters",
    "mixture_parameters",
    "pool",
]
