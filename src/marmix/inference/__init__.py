"""Statistical inference for a fit: standard errors, intervals, tests, bootstrap, multiple imputation, criteria."""

import warnings
from typing import Any

from marmix.inference.criteria import Criteria, compare, counted_weight
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


def __getattr__(name: str) -> Any:
    """Return what 0.1 called by another name, with a warning."""
    if name == "Counts":
        warnings.warn(
            "marmix.inference.Counts is now marmix.inference.Criteria; the old name will be removed in marmix 0.4.",
            FutureWarning,
            stacklevel=2,
        )
        return Criteria
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
