"""Notes of a fit in the words of people who have a file: its columns, its classes, the options of the program."""

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from marmix.notes import Note, listed, sentence

# Codes that are not here are worded as for users of the estimators; an empty text says nothing.
WORDS = {
    "all-labelled": "",
    "dependent": "Columns {columns} follow from one another, or there are fewer rows than columns: the data do not determine "
    "the model. Leave columns out with --exclude.",
    "collapsed": "The rows of class {classes} have no spread in some direction: too few rows, or duplicates. The probabilities "
    "are surer than they should be. Try --model logistic, or leave columns out with --exclude.",
    "shape-zero": "The data do not tell how the probability of a missing label bends: its shape ran to a limit. Labels are "
    "hardly affected; --link logit is the simpler choice.",
    "separated": "Whether a label is missing follows from the uncertainty without error, as it may with few rows: how steeply "
    "the probability of a missing label falls is not determined.",
    "single-label": "The model could be neither compared nor scored: a class has a single labelled row, which cannot be both "
    "learned from and predicted.",
}
WORDS["shape-infinite"] = WORDS["shape-zero"]


def plain_notes(notes: Iterable[Note], features: Sequence[str], classes: NDArray[Any]) -> list[str]:
    """The notes as sentences, none of them twice."""
    sentences = (_worded(note, features, classes) for note in notes)
    return list(dict.fromkeys(text for text in sentences if text))


def _worded(note: Note, features: Sequence[str], classes: NDArray[Any]) -> str:
    if note.code not in WORDS:
        return sentence(note, classes, features)
    values = dict(note.values)
    if "columns" in values:
        values["columns"] = listed([features[i] for i in values["columns"]])
    if "classes" in values:
        values["classes"] = ", ".join(repr(str(classes[k])) for k in values["classes"])
    return WORDS[note.code].format(**values)
