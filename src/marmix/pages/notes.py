"""Notes of a fit as cautions, in terms of the file: its columns, its classes, and the options of the program."""

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from marmix.core.notes import Note, listed, sentence
from marmix.pages.contents import Caution

SINGLE = "a class has only one labelled row, which cannot be used both to fit and to test."
SENSITIVITY = (
    "See what would follow: 'marmix sensitivity' and the section on labels that are missing because of the label."
)
_SHAPE = (
    "note",
    "The data do not determine the shape of the missingness curve, which ran to its limit. Imputed labels are hardly affected.",
    "--link logit is a simpler choice.",
)

# Level, text and advice by code. Other codes are notes, worded as for users of the estimators; None: nothing to say here.
WORDS: dict[str, tuple[str, str, str] | None] = {
    "all-labelled": None,
    "missing-texts": None,  # the page counts those of its rows
    "dof-infinite": None,
    "single-label": None,
    "dof-lowest": (
        "note",
        "The columns of class {classes} have extremely heavy tails.",
        "Look for gross outliers.",
    ),
    "dependent": (
        "note",
        "Columns {columns} are linearly dependent, or there are fewer rows than columns, so the data do not determine the model.",
        "Drop columns with --exclude.",
    ),
    "collapsed": (
        "caution",
        "The rows of class {classes} do not vary in some direction: there are too few, or duplicates. The probabilities are "
        "overconfident.",
        "Try --model logistic, or drop columns with --exclude.",
    ),
    "shape-zero": _SHAPE,
    "shape-infinite": _SHAPE,
    "separated": (
        "note",
        "The uncertainty predicts perfectly which labels are missing, which can happen with few rows: the steepness of the "
        "missingness curve is not determined.",
        "",
    ),
    "one-sided": (
        "caution",
        "Labels are missing more often where {classes} is probable than the difficulty of the rows explains: they may be lost on "
        "one side of the boundary, or because of the label itself. The imputed labels, the corrected scores and the comparison "
        "may then be wrong.",
        SENSITIVITY,
    ),
    "label-term": (
        "caution",
        "There are signs that labels are missing because of the label itself: rows of {classes} may be {odds:.2g} times as "
        "likely to lose their label as others that look alike. The imputed labels and the scores may then be far off.",
        f"{SENSITIVITY} If you know the share of a class among all rows, give it with --prevalence CLASS=SHARE.",
    ),
    "maxima": (
        "note",
        "With so few labels the model is not determined: other fits are almost as likely, and label some rows otherwise.",
        "Label more rows.",
    ),
    "run-off": (
        "note",
        "The rows with labels are perfectly separable by the columns, so that the coefficients are not determined.",
        "",
    ),
}


def note_cautions(notes: Iterable[Note], features: Sequence[str], classes: NDArray[Any]) -> list[Caution]:
    """The notes as cautions, without duplicates."""
    cautions = (_worded(note, features, classes) for note in notes)
    return list(dict.fromkeys(caution for caution in cautions if caution is not None))


def _worded(note: Note, features: Sequence[str], classes: NDArray[Any]) -> Caution | None:
    if note.code not in WORDS:
        return Caution("note", sentence(note, classes, features))
    words = WORDS[note.code]
    if words is None:
        return None
    values = dict(note.values)
    if "columns" in values:
        values["columns"] = listed([features[i] for i in values["columns"]])
    if "classes" in values:
        values["classes"] = ", ".join(repr(str(classes[k])) for k in values["classes"])
    level, text, advice = words
    return Caution(level, text.format(**values), advice)
