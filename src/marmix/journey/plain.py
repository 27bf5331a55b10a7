"""Notes of a fit in the words of people who have a file: its columns, its classes, the options of the program."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from marmix.journey.findings import SINGLE

_NUMBER = re.compile(r"'x(\d+)'")
_COLLAPSED = re.compile(r"The covariance of class ([0-9, ]+) collapsed")
_DEPENDENT = re.compile(r"Columns (.*) are linearly dependent")


def in_plain_words(notes: Iterable[str], features: Sequence[str], classes: NDArray[Any]) -> list[str]:
    """Notes of estimators that know columns and classes by number."""
    said = (_one(note, features, classes) for note in notes)
    return list(dict.fromkeys(note for note in said if note))


def _one(note: str, features: Sequence[str], classes: NDArray[Any]) -> str:
    note = _NUMBER.sub(lambda found: repr(features[int(found[1])]), note)
    if found := _DEPENDENT.match(note):
        return (
            f"Columns {found[1]} follow from one another, or there are fewer rows than columns: the data do not determine the "
            "model. Leave columns out with --exclude."
        )
    if found := _COLLAPSED.match(note):
        names = ", ".join(repr(str(classes[int(code)])) for code in found[1].split(", "))
        return (
            f"The rows of class {names} have no spread in some direction: too few rows, or duplicates. The probabilities are "
            "surer than they should be. Try --model logistic, or leave columns out with --exclude."
        )
    if note.startswith("The shape ran to"):
        return (
            "The data do not tell how the probability of a missing label bends: its shape ran to a limit. Labels are hardly "
            "affected; --link logit is the simpler choice."
        )
    if note.startswith("The uncertainty tells missing from given labels"):
        return (
            "Whether a label is missing follows from the uncertainty without error, as it may with few rows: how steeply the "
            "probability of a missing label falls is not determined."
        )
    if note.startswith("A class has a single labelled row"):
        return f"The model could be neither compared nor scored: {SINGLE}"
    return "" if note.startswith("Every row has a label") else note
