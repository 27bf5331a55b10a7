"""The figures of a report, drawn for light and dark pages."""

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.displays import (
    CalibrationDisplay,
    MissingnessDisplay,
    MixtureDisplay,
    RocDisplay,
    SensitivityDisplay,
    UncertaintyDisplay,
)
from marmix.displays.drawing import canvas, styled
from marmix.displays.predictions import Predictions
from marmix.pages.contents import Figure
from marmix.sensitivity import Sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "missingness": "When are labels missing?",
    "uncertainty": "Are rows without a label harder to classify?",
    "classes": "What do the classes look like?",
    "calibration": "Can the probabilities be trusted?",
    "roc": "How well are the classes separated?",
    "sensitivity": "What if labels are missing because of the label?",
}
CAPTIONS = {
    "missingness": "Points show the observed share of missing labels in groups of rows that are about equally hard to classify. "
    "The line shows the share that the model expects, with its 95 % band. If the model fits, the line passes near the points.",
    "uncertainty": "The uncertainty of the class, for rows with and without a label. If the labels of hard rows are missing, the "
    "rows without a label lie further to the right.",
    "classes": "Filled points are rows with a given label, hollow points rows without one, in the class that is most "
    "probable under the model.",
    "calibration": "Among rows with a predicted probability of 80 %, about 80 % should belong to the class: the points should "
    "lie near the diagonal.",
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
_SIZE = {"missingness": (6.4, 3.8), "uncertainty": (6.4, 3.4), "classes": (6.4, 4.6), "sensitivity": (6.4, 4.6)}
_SQUARE = (4.4, 4.2)


class Subject(NamedTuple):
    """The model and rows behind the figures."""

    classifier: Any  # with numbered classes, for X and z
    X: Any
    z: NDArray[np.integer[Any]]
    statistical: Any | None  # the model with parameters, with numbered classes, for `axes` and z
    axes: Any
    inference: Any | None  # of that model
    named: Any | None  # that model with named classes and features, for the rows and labels below
    rows: Array
    labels: NDArray[Any]  # None where missing
    tested: Predictions | None  # held-out predictions
    classes: NDArray[Any]
    words: str  # that model in words, if it is not the classifier
    sweep: Sensitivity | None = None


def figures(subject: Subject) -> tuple[list[Figure], dict[str, str]]:
    """The figures, and by key the reasons why others cannot be drawn."""
    displays: dict[str, Callable[[Axes], Any]] = {
        "missingness": lambda ax: MissingnessDisplay.from_estimator(
            subject.statistical, subject.axes, subject.z, inference=subject.inference, ax=ax
        ),
        "uncertainty": lambda ax: UncertaintyDisplay.from_estimator(subject.classifier, subject.X, subject.z, ax=ax),
        "classes": lambda ax: MixtureDisplay.from_estimator(subject.named, subject.rows, subject.labels, ax=ax),
    }
    if (sweep := subject.sweep) is not None:
        displays["sensitivity"] = lambda ax: SensitivityDisplay.from_sensitivity(sweep, ax=ax)
    left_out = {} if subject.tested else dict.fromkeys(("calibration", "roc"), UNTESTED)
    if subject.statistical is None:
        for key in ("missingness", "classes"):
            del displays[key]
            left_out[key] = NO_PARAMETERS
    if subject.tested is not None:
        y = np.array([*subject.classes.tolist(), None], dtype=object)[subject.tested.z]
        arrays = (y, subject.tested.proba, subject.tested.q)
        options: dict[str, Any] = {"classes": subject.classes, "posterior": subject.tested.posterior}
        displays["calibration"] = lambda ax: CalibrationDisplay.from_predictions(*arrays, **options, ax=ax)
        displays["roc"] = lambda ax: RocDisplay.from_predictions(*arrays, **options, ax=ax)
    corrected = CORRECTED + (ROBUST if subject.tested and subject.tested.posterior is not None else WEIGHTED)
    shown = f" The figure shows one of the candidates: {subject.words}." if subject.words else ""
    added = {"calibration": corrected, "roc": corrected, "missingness": shown, "classes": shown}
    drawn: list[Figure] = []
    for key, display in displays.items():
        try:
            drawn.append(_drawn(key, display, added.get(key, "")))
        except ValueError as error:
            left_out[key] = str(error)
    return drawn, left_out


def _drawn(key: str, display: Callable[["Axes"], Any], added: str) -> Figure:
    size = _SIZE.get(key, _SQUARE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no column names
        with styled():
            figure, ax = canvas(*size)
            drawing = display(ax)
            light = _png(figure)
        with styled(dark=True):
            figure, ax = canvas(*size)
            drawing.plot(ax=ax)
            dark = _png(figure)
    caption = CAPTIONS[key] + ("" if key in ("calibration", "roc") and drawing.note_ else added)
    return Figure(key, TITLES[key], f"{caption} {drawing.note_}".strip(), light, dark)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144)
    return buffer.getvalue()
