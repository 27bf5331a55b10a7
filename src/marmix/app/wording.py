"""Numbers, findings and warnings in plain words, for the page and the terminal alike, and the summary in a terminal."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from textwrap import fill
from typing import Any

from numpy.typing import NDArray

from marmix.app.findings import Caution, Contender, Findings, MissingnessFacts
from marmix.core.notes import Note, listed, sentence
from marmix.evaluation.joint import Range
from marmix.evaluation.verdict import Verdict
from marmix.inference.tables import number, p_sign

DASH, MINUS, SPACE = "\u2013", "\u2212", "\u00a0"  # the space stands between a number and its unit
LEVELS = ("serious", "caution", "note")


def percent(share: float | None, decimals: int = 0) -> str:
    """A share in percent; only exact shares are shown as 0 % or 100 %."""
    if share is None or share != share:
        return DASH
    step = 0.01 * 10.0**-decimals
    if 0.0 < share < step / 2:
        return f"<{SPACE}{percent(step, decimals)}"
    if 1.0 - step / 2 < share < 1.0:
        return f">{SPACE}{percent(1.0 - step, decimals)}"
    return f"{100.0 * share:.{decimals}f}{SPACE}%"


def share_of(part: int, total: int) -> str:
    """A part of a total, in percent."""
    return percent(part / total if total else None)


def loss(value: float | None) -> str:
    """A score with three decimals, or a dash."""
    return DASH if value is None or value != value else f"{value:.3f}".replace("-", MINUS)


def figure(value: float | None) -> str:
    """A number with about four digits and a true minus sign, or a dash."""
    if value is None or value != value:
        return DASH
    text = number(abs(value))
    integer, dot, decimals = text.partition(".")
    text = f"{int(integer):,}{dot}{decimals}" if integer.isdigit() else text
    return f"{MINUS}{text}" if value < 0.0 else text


def estimate(entry: Range, kind: str = "share", decimals: int = 0, otherwise: str = "too uncertain") -> tuple[str, str]:
    """An estimate and its interval, as in '87 %' and '(80 to 92)'; a dash and a reason where there is no number.

    `kind` is "share", "count" or "loss".
    """
    forms: dict[str, tuple[Callable[[float], str], Callable[[float], str]]] = {
        "share": (partial(percent, decimals=decimals), lambda value: f"{100.0 * value:.{decimals}f}"),
        "count": ("{:,.0f}".format, "{:,.0f}".format),
        "loss": (loss, loss),
    }
    text, end = forms[kind]
    if entry.value is None:
        return DASH, otherwise
    if entry.low is None or entry.high is None:
        return text(entry.value), ""
    return text(entry.value), f"({end(entry.low)} to {end(entry.high)})"


def verdict_title(findings: Findings) -> str:
    """The verdict in a few words."""
    if findings.verdict is None:
        return "No label is missing" if findings.labels.missing == 0 else "No label could be imputed"
    return findings.verdict.state.capitalize()


def missingness(it: MissingnessFacts) -> str:
    """Whether hard rows lose their labels more often, with the p-value as a frequency."""
    p = it.p_value
    if p is None or it.informative is None:
        return it.sentence
    often = f"about {round(100.0 * p)} in 100 data sets"
    if p < 0.001:
        often = "fewer than 1 in 1,000 data sets"
    elif p < 0.095:
        often = f"about 1 in {round(1.0 / p):,} data sets"
    sign = f"p {p_sign(p)}".replace(" ", SPACE)
    ends = ""
    if it.informative and it.toss_up is not None:
        ends = f": {percent(it.toss_up)} if all classes are equally probable, {percent(it.certain)} if the class is certain."
    sentence = it.sentence.removesuffix("." * bool(ends))
    return f"{sentence}{ends} If there were no such link, {often} would show one as strong ({sign})."


# Notes of a fit, in terms of the file: its columns, its classes, and the options of the program.

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


# The summary in a terminal.

WIDTH = 80
_COLUMNS = (22, 22, 10, 24)  # of the scoreboard
_CAUTIONS, _CLASSES = 5, 6  # shown; the others are in the report


def summary_lines(findings: Findings) -> list[str]:
    """The verdict and what to do next, the scoreboard, then the other findings and cautions, in about twenty lines."""
    labels, data, verdict = findings.labels, findings.data, findings.verdict
    lines = [verdict_title(findings)] if verdict is None else verdict_lines(verdict)
    texts = labels.missing_in_words().removeprefix("Missing labels: ").removesuffix(".")
    head = f"{data.file}: {data.rows:,} rows, {labels.missing:,} without a label in '{data.label}'"
    lines += ["", (head + f" ({texts})" * bool(texts)).replace("\n", "\\n")]
    facts = [] if labels.votes is None else [("votes", labels.votes.sentence())]
    facts += [("imputed", _imputed(findings)), ("model", findings.model.name)]
    facts += [(one.level, f"{one.text} {one.advice}".strip()) for one in findings.cautions[:_CAUTIONS]]
    if len(findings.cautions) > _CAUTIONS:
        facts.append(("", f"and {len(findings.cautions) - _CAUTIONS} more, in the report"))
    return lines + [_fact(name, text) for name, text in facts] + _scoreboard(findings)


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict, and what to do next."""
    lines = [verdict.state.capitalize(), "", fill(verdict.sentence, WIDTH)]
    lines += [fill(f"- {text}", WIDTH, subsequent_indent="  ") for text in verdict.reasons]
    doing = fill(f"Next: {verdict.next[:1].lower()}{verdict.next[1:]}{':' if verdict.command else '.'}", WIDTH)
    return [*lines, "", doing, *[f"  {verdict.command}"] * bool(verdict.command)]


def scores(row: Contender, imputed: int) -> list[tuple[str, str]]:
    """The cells of a contender on the scoreboard: wrong labels, estimated and claimed, or the accuracy; and the log-loss."""
    claimed = ("\u2013" if row.claimed_wrong is None else f"{row.claimed_wrong:,.0f}", "")
    wrong = [estimate(row.wrong, "count"), claimed] if imputed else [(percent(row.claimed_accuracy, 1), "")]
    return [*wrong, estimate(row.log_loss, "loss")]


def scoreboard_head(imputed: int) -> list[str]:
    """The heads of these columns."""
    return [*(["wrong labels", "claimed"] if imputed else ["accuracy"]), "log-loss"]


def columns_in_words(imputed: int) -> str:
    """What the columns of the scoreboard say."""
    wrong = "Claimed: wrong labels if the rows without a label were like those with one. " if imputed else ""
    return f"{wrong}Log-loss: how wrong the probabilities of all rows are, 0 at best."


def _scoreboard(findings: Findings) -> list[str]:
    imputed = findings.labels.imputed
    rows = [["", *scoreboard_head(imputed)]]
    rows += [[row.name, *(" ".join(cell) for cell in scores(row, imputed))] for row in findings.scoreboard]
    lines = ["  " + "".join(f"{cell:<{width}}" for cell, width in zip(row, _COLUMNS, strict=False)) for row in rows]
    lines += ["", *(f"  {line}" for line in fill(columns_in_words(imputed), WIDTH - 2).splitlines())]
    return ["", *(line.rstrip().replace(SPACE, " ") for line in lines)] if findings.scoreboard else []


def _imputed(findings: Findings) -> str:
    labels = findings.labels
    parts = [f"{facts.imputed:,} {facts.name!r}" for facts in labels.classes[:_CLASSES]]
    parts += ["..."] * (len(labels.classes) > _CLASSES)
    unfilled = f"; {labels.unfilled:,} not, for lack of features" if labels.unfilled else ""
    return f"{labels.imputed:,} ({', '.join(parts)}){unfilled}"


def _fact(name: str, text: str, width: int = 14) -> str:
    return fill(
        f"{name:<{width}}{text}",
        WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * (width + 2),
        break_long_words=False,
    )
