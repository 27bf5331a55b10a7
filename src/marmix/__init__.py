"""Classification when labels are missing for a reason."""

from marmix.classifiers import MARGaussianMixture
from marmix.missingness import Mechanism
from marmix.notes import BoundaryWarning

__version__ = "0.1.0"

__all__ = ["BoundaryWarning", "MARGaussianMixture", "Mechanism", "__version__"]
