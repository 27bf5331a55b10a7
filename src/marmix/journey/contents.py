"""A report from what was found: figures, thresholds, and the rows most worth labelling."""

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from marmix.arrays import Array
from marmix.displays import ThresholdDisplay
from marmix.displays.predictions import Predictions
from marmix.inference import Inference
from marmix.journey.answers import Above, Answers
from marmix.journey.choosing import sample
from marmix.journey.modelling import Model
from marmix.journey.rows import taken
from marmix.report.contents import Contents, Findings, RowTable, Thresholds
from marmix.report.figures import Subject, figures

NEXT_ROWS = 500
_FIGURE_ROWS = 100_000  # of which rates and distributions are drawn: their errors are thinner than a line then
_MOST_CLASSES = 20  # for which thresholds are shown


class Tested(NamedTuple):
    """Rows that were predicted without being trained on: labels (-1 where missing), probabilities, P(label missing)."""

    z: NDArray[np.integer[Any]]
    proba: Array
    missing: Array | None
    posterior: Array | None  # what the doubly robust scores lean on
    where: str  # in words

    def predictions(self) -> Predictions:
        """The same for displays."""
        return Predictions.of(self.z, self.proba, self.missing, np.arange(self.proba.shape[1]), self.posterior)


class Shown(NamedTuple):
    """A sample of the rows in their own units, for the comparison, for checks and for the figure of the classes."""

    rows: Array
    z: NDArray[np.integer[Any]]
    features: list[str]
    places: NDArray[np.intp]  # among all rows of the model


def contents(
    findings: Findings,
    model: Model,
    z: NDArray[np.integer[Any]],
    result: Inference | str,
    tested: Tested | None,
    shown: Shown,
    above: Above,
    next_rows: RowTable,
) -> Contents:
    """All that the page needs."""
    classes = model.named.classes_
    places = sample(z, seed=0, size=_FIGURE_ROWS)
    subject = Subject(
        classifier=model.numbered,
        X=taken(model.X, places),
        z=z[places],
        inference=None if isinstance(result, str) else result,
        shown=_named_features(model, shown.features),
        rows=shown.rows,
        labels=np.array([*classes.tolist(), None], dtype=object)[shown.z],
        tested=tested and tested.predictions(),
    )
    shown_figures, left_out = figures(subject)
    return Contents(
        title=f"Labels of {findings.data.file}",
        findings=findings,
        figures=shown_figures,
        thresholds=[] if tested is None else thresholds(classes, tested, above, int(np.sum(z < 0))),
        next_rows=next_rows,
        notes=left_out,
    )


def _named_features(model: Model, features: list[str]) -> Any:
    """The classifier for rows in their own units, with the names of the features for the axes of a figure."""
    names = np.array(features, dtype=object)
    last = copy(model.named)
    if model.scaler is None:
        last.feature_names_in_ = names
        return last
    scaler = copy(model.scaler)
    scaler.feature_names_in_ = names
    return Pipeline([("scaler", scaler), ("classifier", last)])


def thresholds(classes: NDArray[Any], tested: Tested, above: Above, unlabelled: int) -> list[Thresholds]:
    """What a threshold on the probability of a class would do: of the second of two, of each of the most frequent of more."""
    given = tested.predictions()
    often = np.argsort(-above.all[:, 50], kind="stable")[:_MOST_CLASSES]
    out = []
    for k in [1] if len(classes) == 2 else sorted(often.tolist()):
        known = ThresholdDisplay._of(given, k)
        out.append(
            Thresholds(
                positive=str(classes[k]),
                at=known.thresholds.tolist(),
                precision=_cells(known.precision),
                recall=_cells(known.recall),
                accuracy=_cells(known.accuracy),
                unlabelled_above=above.unlabelled[k].tolist(),
                unlabelled=unlabelled,
                all_above=above.all[k].tolist(),
                all=int(above.all[k, 0]),
            )
        )
    return out


def _cells(values: Array) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def most_worth_labelling(found: Answers, z: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    """Places of the unlabelled rows of the largest uncertainty, the largest first."""
    lost = np.flatnonzero(z < 0)
    order = np.argsort(-found.uncertainty[lost], kind="stable")[:NEXT_ROWS]
    return np.asarray(lost[order])
