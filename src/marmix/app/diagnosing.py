"""`marmix evaluate --score`: how good a column of a file is as a test, when some rows have no label. No model is needed."""

from pathlib import Path
from typing import Any

import numpy as np

from marmix.app.reading import read
from marmix.app.saved import Request
from marmix.app.survey import labels_of, rows_of
from marmix.estimate.diagnosis import Diagnosis, diagnose
from marmix.tables import Preparation
from marmix.tables.cells import shown
from marmix.terminal import Progress


def diagnose_file(
    path: Path, request: Request, score: str, features: list[str] | None, threshold: float | None, progress: Progress
) -> tuple[Diagnosis, str]:
    """The diagnosis of the column `score`, and what was done with the columns."""
    if not request.label:
        raise ValueError("--label is required: name the column of the gold standard.")
    table = read(path, **request.reading)
    progress.say(table.path, table.notes)
    labels = labels_of(table, request.label, missing=request.missing)
    names = labels.classes.astype(str).tolist()
    if request.varied is not None and request.varied not in names:
        raise ValueError(f"--class {request.varied!r} is not one of the classes {', '.join(names)}.")
    of = None if request.varied is None else labels.classes[names.index(request.varied)]
    if clash := {score, request.label} & set(features or []) or {score} & {request.label}:
        raise ValueError(f"the column {shown(clash.pop())} is named twice: score, label and --features must differ.")
    preparation = Preparation(features=[score, *(features or [])], impute="drop").fit(table.data)
    places = preparation.get_feature_names_out().tolist()
    of_score = [name for name in places if name == score or name.startswith((f"{score}=", f"{score} ("))]
    if len(of_score) != 1:
        raise ValueError(
            f"the column {shown(score)} is no score: it needs numbers, or two different results of a test."
        )
    rows = rows_of(table, preparation, labels)
    test, others = rows.X[:, places.index(of_score[0])], np.delete(rows.X, places.index(of_score[0]), axis=1)
    y: Any = np.array([*labels.classes.tolist(), None], dtype=object)[rows.z]
    result = diagnose(test, y, others if others.shape[1] else None, of=of, threshold=threshold)
    positive = names[1] if of is None else of
    facts = f"{of_score[0]} as a test for {request.label}={positive}"
    left_out = int(np.sum(~rows.complete))
    return result, facts + (f"; {left_out:,} rows with a missing cell were left out" if left_out else "")
