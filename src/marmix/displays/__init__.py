"""Figures of fits and predictions in matplotlib, modelled on the displays of scikit-learn.

Each display has `from_estimator`, and some have `from_predictions`; the numbers that are drawn are attributes. A
display draws in `ax` if it is given, otherwise in a new figure. `ax_` and `figure_` are where it drew, and `note_` is a
remark for readers, usually empty. Save a figure with ``display.figure_.savefig("figure.png")``.
"""

from marmix.displays.calibration import CalibrationDisplay
from marmix.displays.missingness import MissingnessDisplay
from marmix.displays.mixture import MixtureDisplay
from marmix.displays.profile import ProfileDisplay
from marmix.displays.roc import RocDisplay
from marmix.displays.sensitivity import SensitivityDisplay
from marmix.displays.threshold import ThresholdDisplay
from marmix.displays.trace import TraceDisplay
from marmix.displays.uncertainty import UncertaintyDisplay

__all__ = [
    "CalibrationDisplay",
    "MissingnessDisplay",
    "MixtureDisplay",
    "ProfileDisplay",
    "RocDisplay",
    "SensitivityDisplay",
    "ThresholdDisplay",
    "TraceDisplay",
    "UncertaintyDisplay",
]
