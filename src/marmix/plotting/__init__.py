"""Figures of fits and predictions in matplotlib, modelled on the displays of scikit-learn.

Each display has `from_estimator`, and some have `from_predictions`; the numbers that are drawn are attributes. A
display draws in `ax` if it is given, otherwise in a new figure. `ax_` and `figure_` are where it drew, and `note_` is a
remark for readers, usually empty. Save a figure with ``display.figure_.savefig("figure.png")``.
"""

from marmix.plotting.calibration import CalibrationDisplay
from marmix.plotting.missingness import MissingnessDisplay
from marmix.plotting.mixture import MixtureDisplay
from marmix.plotting.roc import RocDisplay
from marmix.plotting.sensitivity import SensitivityDisplay
from marmix.plotting.threshold import ThresholdDisplay
from marmix.plotting.uncertainty import UncertaintyDisplay

__all__ = [
    "CalibrationDisplay",
    "MissingnessDisplay",
    "MixtureDisplay",
    "RocDisplay",
    "SensitivityDisplay",
    "ThresholdDisplay",
    "UncertaintyDisplay",
]
