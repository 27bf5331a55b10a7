"""Whether to use the imputed labels: cautions in words, the most serious first, and the verdict they lead to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from marmix.app.findings import Caution, Interval, Verdict
from marmix.app.wording import wrong_labels
from marmix.core.notes import Note, listed, sentence
from marmix.tables.cells import shown

LEVELS = ("serious", "caution", "note")
FEW, TOO_FEW = 20, 5  # labelled rows of a class
MANY_WRONG = 0.2  # share of the imputed labels
WIDE = 0.5  # interval of that share
LIKELY, UNLIKELY = 0.975, 0.75  # probabilities of being better than one class for every row
NO_CHANCE = 0.2  # share of the rows with practically no chance of a label
FINE = (
    "Every class has enough labels, the checks of the mechanism pass, and no usual classifier is clearly better. Whether labels "
    "are missing because of the label, no check can see: an audit of 30 rows can."
)


class Grounds(NamedTuple):
    """The facts that a verdict rests on."""

    labelled: Mapping[str, int]  # labelled rows of each class
    imputed: int  # labels
    scored: bool = True
    converged: bool = True
    wrong: Interval = Interval()  # number of imputed labels that are wrong
    better: float = 1.0  # probability that more of the imputed labels are right than with `frequent` in every row
    frequent: str = ""  # the most frequent class of the unlabelled rows
    log_loss: float = 0.0
    guessing: float = float("inf")  # the log-loss of equal probabilities
    doubts: Sequence[Caution] = ()  # checks of the mechanism that fail
    no_chance: float = 0.0  # share of the rows with practically no chance of a label
    rival: str = ""  # a usual classifier that is clearly better
    absent: str = ""  # a class that no row is imputed as, though some rows should be


def cautions(grounds: Grounds, others: Sequence[Caution] = ()) -> list[Caution]:
    """Reasons not to rely on the imputed labels, and other cautions: few labels first, then the most serious."""
    facts = [*_about_numbers(grounds), *_about_missingness(grounds)] if grounds.imputed else []
    return few_labels(grounds.labelled) + sorted([*facts, *others], key=lambda caution: LEVELS.index(caution.level))


def verdict(facts: Sequence[Caution], wrong: Interval, imputed: int) -> Verdict:
    """The verdict that the most serious caution leads to, with up to three reasons; `wrong` is a number of labels."""
    reasons = [caution.text for caution in facts if caution.level in LEVELS[:2]]
    if any(caution.level == "serious" for caution in facts):
        return Verdict("no", reasons[:3])
    errors = wrong_labels(wrong, imputed)
    if reasons:
        return Verdict("care", list(dict.fromkeys([errors, *reasons]))[:3])
    return Verdict("use", [errors, FINE])


def few_labels(labelled: Mapping[str, int]) -> list[Caution]:
    """A caution if a class has few labels."""
    few = sorted((n, name) for name, n in labelled.items() if n < FEW)
    if not few:
        return []
    n, name = few[0]
    rows = "row is" if n == 1 else "rows are"
    text = f"Only {n:,} {rows} labelled {shown(name)}" if n else f"No complete row is labelled {shown(name)}"
    if len(few) > 1:
        text += f" ({len(few)} classes have fewer than {FEW} labels)"
    text += ": every number here is uncertain."
    advice = f"Label more rows, at random or from the rows most worth labelling, until every class has at least {FEW}."
    return [Caution("serious" if n < TOO_FEW else "caution", text, advice)]


def _about_numbers(grounds: Grounds) -> list[Caution]:
    """Cautions about the estimated errors."""
    facts, wrong = [], grounds.wrong
    if not grounds.converged:
        facts.append(
            Caution(
                "serious", "The fit did not converge: do not rely on it.", "Try a simpler --model or fewer --features."
            )
        )
    if not grounds.scored:
        facts.append(
            Caution(
                "serious",
                "The imputed labels could not be checked: that takes at least two labelled rows of every class.",
                "Label more rows.",
            )
        )
        return facts
    if wrong.low is None or wrong.high is None:
        text = f"{wrong_labels(wrong, grounds.imputed)} There are too few labels."
        facts.append(Caution("serious", text, "Label more rows, above all those most worth labelling."))
    elif wrong.high - wrong.low > WIDE * grounds.imputed:
        text = "The given labels say little about how many of the imputed ones are wrong."
        facts.append(Caution("caution", text, "Label more rows, above all those most worth labelling."))
    if grounds.better < LIKELY:
        level, sure = ("serious", "are hardly") if grounds.better < UNLIKELY else ("caution", "may not be")
        text = f"The imputed labels {sure} better than calling every row {shown(grounds.frequent)}."
        if grounds.absent:
            text += f" No row is imputed as {shown(grounds.absent)}."
        advice = "Rank the rows by their probability instead of using the labels, or label more rows at random."
        facts.append(Caution(level, text, advice))
    if grounds.log_loss > grounds.guessing:
        text = (
            f"The log-loss, {grounds.log_loss:.3f}, is worse than that of giving all classes the same probability, "
            f"{grounds.guessing:.3f}: do not rely on these probabilities."
        )
        facts.append(Caution("serious", text, "Another --model may do better."))
    if wrong.value is not None and wrong.value > MANY_WRONG * grounds.imputed:
        text = wrong_labels(wrong, grounds.imputed)
        advice = "Keep those of high probability, or have the others labelled: see the rows most worth labelling next."
        facts.append(Caution("caution", text, advice))
    if grounds.rival:
        text = f"A usual classifier of the labelled rows alone, {grounds.rival}, is clearly better here."
        facts.append(Caution("caution", text, f"Use {grounds.rival} instead, or another --model."))
    return facts


def _about_missingness(grounds: Grounds) -> list[Caution]:
    """Cautions about which labels are missing."""
    facts, out_of_reach = list(grounds.doubts), grounds.no_chance > NO_CHANCE
    if out_of_reach:
        level = "serious" if facts else "caution"
        rows = f"{100.0 * grounds.no_chance:.0f} % of the rows"
        text = f"{rows} have hardly a chance of a label: nothing checks their imputed labels."
        facts.append(Caution(level, text, "Label a few such rows: they are among the rows most worth labelling."))
    return facts


# Notes of a fit, in terms of the file: its columns, its classes, and the options of the program.

SINGLE = "a class has only one labelled row, which cannot be used both to fit and to test."
SENSITIVITY = (
    "See what would follow: 'marmix sensitivity' and the section on labels that are missing because of the label."
)
_SHAPE = (
    "note",
    "The data do not determine the shape of the missingness curve, which ran to its limit. Imputed labels are hardly affected.",
    "link='logit' is a simpler choice.",
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
