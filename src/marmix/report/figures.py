"""The figures of a report: displays, each drawn for a light and for a dark page."""

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
    UncertaintyDisplay,
)
from marmix.displays.drawing import canvas, styled
from marmix.displays.fits import last_step
from marmix.displays.predictions import Predictions
from marmix.report.contents import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "missingness": "When are labels missing?",
    "uncertainty": "Are the rows without a label the hard ones?",
    "classes": "Where are the classes, and what was imputed?",
    "calibration": "Can the probabilities be trusted?",
    "roc": "How well are the classes told apart?",
}
CAPTIONS = {
    "missingness": "The points are the rates of missing labels that were observed, in groups of rows that are about equally "
    "clear. The line is what the model says, the band its 95 % interval. A line through the points means that the model fits.",
    "uncertainty": "How unclear the class is for rows with a label and for rows without one. If the hard rows are the ones "
    "without a label, their curve lies further to the right.",
    "classes": "Filled points have a given label, hollow ones an imputed label.",
    "calibration": "Of the rows that are given a probability of 80 %, about 80 % should be of that class: the points should "
    "lie on the diagonal.",
    "roc": "The closer the curve comes to the upper left corner, the better. An area of 1 is perfect, 0.5 is guessing.",
}
PLAIN = " Plain: the labelled rows as they are, which flatters where the hard rows have no label."
WEIGHTED = " Corrected: labelled rows count for the rows like them that lost their label."
ROBUST = " Corrected: all rows count, those without label by the model's probabilities; labelled rows put right what these miss."
UNTESTED = "There were too few labels to test the model on rows that it had not seen."
_SIZE = {"missingness": (6.4, 3.8), "uncertainty": (6.4, 3.4), "classes": (6.4, 4.6)}
_SQUARE = (4.4, 4.2)


class Subject(NamedTuple):
    """What the figures are about."""

    classifier: Any  # its classes numbered, for X and z
    X: Any
    z: NDArray[np.integer[Any]]
    inference: Any | None
    shown: Any  # its classes and features named, for the rows below
    rows: Array
    labels: NDArray[Any]  # None where missing
    tested: Predictions | None  # what was said of rows that were not trained on


def figures(subject: Subject) -> tuple[list[Figure], dict[str, str]]:
    """The figures that can be drawn, and why others cannot, by their keys."""
    names = last_step(subject.shown).classes_
    displays: dict[str, Callable[[Axes], Any]] = {
        "missingness": lambda ax: MissingnessDisplay.from_estimator(
            subject.classifier, subject.X, subject.z, inference=subject.inference, ax=ax
        ),
        "uncertainty": lambda ax: UncertaintyDisplay.from_estimator(subject.classifier, subject.X, subject.z, ax=ax),
        "classes": lambda ax: MixtureDisplay.from_estimator(subject.shown, subject.rows, subject.labels, ax=ax),
    }
    if subject.tested is not None:
        y = np.array([*names.tolist(), None], dtype=object)[subject.tested.z]
        told = (y, subject.tested.proba, subject.tested.q)
        options = {"classes": names, "posterior": subject.tested.posterior}
        displays["calibration"] = lambda ax: CalibrationDisplay.from_predictions(*told, **options, ax=ax)
        displays["roc"] = lambda ax: RocDisplay.from_predictions(*told, **options, ax=ax)
    corrected = PLAIN + (ROBUST if subject.tested and subject.tested.posterior is not None else WEIGHTED)
    drawn: list[Figure] = []
    left_out = {} if subject.tested else dict.fromkeys(("calibration", "roc"), UNTESTED)
    for key, display in displays.items():
        try:
            drawn.append(_drawn(key, display, corrected))
        except ValueError as error:
            left_out[key] = str(error)
    return drawn, left_out


def _drawn(key: str, display: Callable[["Axes"], Any], corrected: str) -> Figure:
    size = _SIZE.get(key, _SQUARE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no names of columns
        with styled():
            figure, ax = canvas(*size)
            shown = display(ax)
            light = _png(figure)
        with styled(dark=True):
            figure, ax = canvas(*size)
            shown.plot(ax=ax)
            dark = _png(figure)
    caption = CAPTIONS[key] + (corrected if key in ("calibration", "roc") and not shown.note_ else "")
    return Figure(key, TITLES[key], f"{caption} {shown.note_}".strip(), light, dark)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144)
    return buffer.getvalue()
