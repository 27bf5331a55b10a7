"""From a file to a decision: the whole way, and its parts, as the command line walks it."""

from marmix.journey.fit import fit_file
from marmix.journey.options import MODELS, FitOptions
from marmix.journey.progress import Progress
from marmix.journey.reporting import report_file
from marmix.journey.saved import evaluate_file, predict_file

__all__ = ["MODELS", "FitOptions", "Progress", "evaluate_file", "fit_file", "predict_file", "report_file"]
