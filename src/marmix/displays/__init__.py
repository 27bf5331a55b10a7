"""Displays of fits and predictions in matplotlib, in the manner of scikit-learn's.

Each has `from_estimator`, some have `from_predictions`; what they draw is in their attributes. With `ax` they draw there, without
they open a figure of their own.
"""

from marmix.displays.calibration import CalibrationDisplay
from marmix.displays.missingness import MissingnessDisplay
from marmix.displays.mixture import MixtureDisplay
from marmix.displays.profile import ProfileDisplay
from marmix.displays.roc import RocDisplay
from marmix.displays.threshold import ThresholdDisplay
from marmix.displays.trace import TraceDisplay
from marmix.displays.uncertainty import UncertaintyDisplay

__all__ = [
    "CalibrationDisplay",
    "MissingnessDisplay",
    "MixtureDisplay",
    "ProfileDisplay",
    "RocDisplay",
    "ThresholdDisplay",
    "TraceDisplay",
    "UncertaintyDisplay",
]
