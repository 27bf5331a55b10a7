"""Notes of a fit in terms of the file: its columns, its classes, and the options of the program."""

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from marmix.notes import Note, listed, sentence

SINGLE = "a class has only one labelled row, which cannot be used both to fit and to test."

# Other codes are worded as for users of the estimators; a note with an empty text is dropped.
WORDS = {
    "all-labelled": "",
    "dof-infinite": "",
    "dof-lowest": "The columns of class {classes} have extremely heavy tails: look for gross outliers.",
    "dependent": "Columns {columns} are linearly dependent, or there are fewer rows than columns, so the data do not determine "
    "the model. Drop columns with --exclude.",
    "collapsed": "The rows of class {classes} do not vary in some direction: there are too few, or duplicates. The "
    "probabilities are overconfident. Try --model logistic, or drop columns with --exclude.",
    "shape-zero": "The data do not determine the shape of the missingness curve, which ran to its limit. Imputed labels are "
    "hardly affected; --link logit is a simpler choice.",
    "separated": "The uncertainty predicts perfectly which labels are missing, which can happen with few rows: the steepness of "
    "the missingness curve is not determined.",
    "one-sided": "Labels are missing more often where {classes} is probable than the difficulty of the rows explains: they may "
    "be lost on one side of the boundary, or because of the label itself. The imputed labels, the corrected scores and the "
    "comparison may then be wrong; 'marmix sensitivity' shows what would follow.",
    "label-term": "There are signs that labels are missing because of the label itself: rows of {classes} may be {odds:.2g} "
    "times as likely to lose their label as others that look alike. The imputed labels and the scores may then be far off; "
    "'marmix sensitivity' shows what would follow.",
    "maxima": "With so few labels the model is not determined uniquely: other fits are almost as likely, and label some rows "
    "otherwise.",
    "run-off": "The rows with labels are perfectly separable by the columns, so that the coefficients are not determined.",
    "single-label": f"The model could not be compared or scored: {SINGLE}",
}
WORDS["shape-infinite"] = WORDS["shape-zero"]


def plain_notes(notes: Iterable[Note], features: Sequence[str], classes: NDArray[Any]) -> list[str]:
    """The notes as sentences, without duplicates."""
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
