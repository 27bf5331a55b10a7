"""The missingness mechanism: measures of uncertainty, link functions, `Mechanism`."""

from marmix.mechanism.mechanism import Mechanism, MissingnessTerms, drivers_of

__all__ = ["Mechanism", "MissingnessTerms", "drivers_of"]
