"""The figures of a report, drawn for light and dark pages."""

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.app.findings import Figure
from marmix.core.arrays import Array
from marmix.inference.sensitivity import Sensitivity
from marmix.plotting import (
    CalibrationDisplay,
    MissingnessDisplay,
    MixtureDisplay,
    RocDisplay,
    SensitivityDisplay,
    UncertaintyDisplay,
)
from marmix.plotting.drawing import MOST_PANELS, canvas, panel_size, styled
from marmix.plotting.predictions import CURVES_TOGETHER, Predictions
from marmix.plotting.uncertainty import UNCERTAINTY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "missingness": "How often labels are missing",
    "uncertainty": "Rows with and without a label",
    "classes": "What do the classes look like?",
    "calibration": "Are labels as often right as they claim?",
    "roc": "How well is each class separated from the others?",
    "sensitivity": "What if labels are missing because of the label?",
}
CAPTIONS = {
    "missingness": "Points show the share of missing labels in groups of rows that are about equally hard to classify, the line "
    "the share that the model expects. If the model fits, the line passes near the points.",
    "uncertainty": "If the labels of hard rows are missing, the rows without a label lie further to the right.",
    "classes": "Filled points are rows with a given label, hollow points rows without one, in the class that is most "
    "probable under the model.",
    "calibration": "Of the labels with a probability of 80 %, about 80 % should be right: the points should lie near the "
    "diagonal.",
    "sensitivity": "To the right, rows of the class lose their labels more often than others that look alike, to the left less "
    "often; in the middle is what the models assume. Bands are 95 % intervals.",
    "roc": "The closer the curve comes to the upper left corner, the better. An area of 1 is perfect; 0.5 is guessing.",
}
CORRECTED = (
    " The uncorrected curve shows the labelled rows only, which is too optimistic if hard rows have no label. The corrected "
    "curve "
)
WEIGHTED = "lets labelled rows stand for similar rows without a label."
ROBUST = "counts all rows: those without a label by the model's probabilities, adjusted by how far these miss the given labels."
NO_PARAMETERS = "None of the candidates has parameters to draw."
UNTESTED = "There were too few labels to test the model on rows it was not fitted to."
_SIZE = {"classes": (6.0, 5.0), "sensitivity": (5.2, 4.4), "calibration": (5.2, 4.4), "roc": (5.2, 4.4)}
_USUAL = (5.2, 3.6)
RIGHT = np.array([False, True])  # whether the most probable class is the true one


class Subject(NamedTuple):
    """The model and rows behind the figures."""

    classifier: Any  # with numbered classes, for X and z
    X: Any
    z: NDArray[np.integer[Any]]
    named: Any | None  # the model with parameters, with named classes and features, for the rows and labels below
    rows: Array
    labels: NDArray[Any]  # None where missing
    tested: Predictions | None  # held-out predictions
    classes: NDArray[Any]
    words: str  # that model in words, if it is not the classifier
    sweep: Sensitivity | None = None


def figures(subject: Subject) -> tuple[list[Figure], dict[str, str]]:
    """The figures, and by key the reasons why others cannot be drawn."""
    K = len(subject.classes)
    displays: dict[str, Callable[[Axes], Any]] = {
        "missingness": lambda ax: MissingnessDisplay.from_estimator(
            subject.classifier, subject.X, subject.z, measure=UNCERTAINTY, ax=ax
        ),
        "uncertainty": lambda ax: UncertaintyDisplay.from_estimator(
            subject.classifier, subject.X, subject.z, measure=UNCERTAINTY, ax=ax
        ),
    }
    if (sweep := subject.sweep) is not None:
        displays["sensitivity"] = lambda ax: SensitivityDisplay.from_sensitivity(sweep, ax=ax)
    left_out: dict[str, str] = {}
    sizes = dict(_SIZE)
    if (tested := subject.tested) is None:
        left_out |= dict.fromkeys(("calibration", "roc"), UNTESTED)
    else:
        displays["roc"] = lambda ax: RocDisplay.from_predictions(
            tested.labels, tested.proba, tested.q, classes=subject.classes, posterior=tested.posterior, ax=ax
        )
        displays["calibration"] = lambda ax: CalibrationDisplay.from_predictions(**_most_probable(tested), ax=ax)
        if K > CURVES_TOGETHER:
            sizes["roc"] = panel_size(min(K, MOST_PANELS))
    if subject.named is None:
        left_out["classes"] = NO_PARAMETERS
    else:
        displays["classes"] = lambda ax: MixtureDisplay.from_estimator(
            subject.named, subject.rows, subject.labels, ax=ax
        )
    corrected = CORRECTED + (ROBUST if tested and tested.posterior is not None else WEIGHTED)
    shown = f" The figure shows one of the candidates: {subject.words}." if subject.words else ""
    added = {"roc": corrected, "classes": shown}
    drawn: list[Figure] = []
    for key, display in displays.items():
        try:
            drawn.append(_drawn(key, display, sizes.get(key, _USUAL), added.get(key, "")))
        except ValueError as error:
            left_out[key] = str(error)
    return drawn, left_out


def _most_probable(tested: Predictions) -> dict[str, Any]:
    """Arguments of a display of whether the most probable class is the true one."""
    rows, best = np.arange(len(tested.proba)), tested.proba.argmax(axis=1)
    top = tested.proba[rows, best]
    share = tested.labels[rows, best]
    posterior = None if tested.posterior is None else tested.posterior[rows, best]
    return {
        "y": np.column_stack([tested.labelled - share, share]),
        "proba": np.column_stack([1.0 - top, top]),
        "missing_proba": tested.q,
        "classes": RIGHT,
        "posterior": None if posterior is None else np.column_stack([1.0 - posterior, posterior]),
    }


def _drawn(key: str, display: Callable[["Axes"], Any], size: tuple[float, float], added: str) -> Figure:
    def finish(ax: Any) -> None:
        if key == "calibration":
            ax.set(xlabel="probability of the most probable class", ylabel="share in which it is the true class")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no column names
        with styled():
            figure, ax = canvas(*size)
            drawing = display(ax)
            finish(ax)
            light = _png(figure)
        with styled(dark=True):
            figure, ax = canvas(*size)
            drawing.plot(ax=ax)
            finish(ax)
            dark = _png(figure)
    caption = CAPTIONS[key] + ("" if key == "roc" and not drawing.corrected else added)
    return Figure(key, TITLES[key], f"{caption} {drawing.note_}".strip(), light, dark)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144 if figure.get_figwidth() < 8.0 else 110)  # panels span the page
    return buffer.getvalue()
