"""How sure are we, and did the missingness matter: standard errors, intervals, tests, bootstrap, multiple imputation."""

from marmix.inference.fitted import Fitted
from marmix.inference.parameters import Parameters, logistic_parameters, mechanism_parameters, mixture_parameters
from marmix.inference.results import Inference

__all__ = ["Fitted", "Inference", "Parameters", "logistic_parameters", "mechanism_parameters", "mixture_parameters"]
