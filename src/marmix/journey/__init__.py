"""The work behind the commands: fit, predict, evaluate, sensitivity and report, from files to files."""

from marmix.journey.fit import FILES, MODELS, FitOptions, fit_file
from marmix.journey.progress import Progress
from marmix.journey.reporting import report_file
from marmix.journey.saved import evaluate_file, predict_file, sensitivity_file
from marmix.journey.survey import Doubtful, Survey

__all__ = [
    "FILES",
    "MODELS",
    "Doubtful",
    "FitOptions",
    "Progress",
    "Survey",
    "evaluate_file",
    "fit_file",
    "predict_file",
    "report_file",
    "sensitivity_file",
]
