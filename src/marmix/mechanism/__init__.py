"""Why labels are missing: a link of the classifier's own uncertainty."""

from marmix.mechanism.mechanism import Mechanism, MissingnessTerms, drivers_of

__all__ = ["Mechanism", "MissingnessTerms", "drivers_of"]
