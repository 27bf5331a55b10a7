"""Findings as a summary in text, for the terminal and for notebooks."""

from textwrap import fill

from marmix.app.findings import Findings
from marmix.app.wording import SPACE, estimate, percent, verdict_title
from marmix.inference.tables import p_sign

WIDTH = 80
_CAUTIONS, _CLASSES = 5, 6  # shown; the others are in the report


def summary_lines(findings: Findings) -> list[str]:
    """The verdict and its reasons, the scoreboard, then the other findings and cautions, in about twenty lines."""
    labels, data = findings.labels, findings.data
    advice = {caution.text: caution.advice for caution in findings.cautions}
    reasons = [] if findings.verdict is None else findings.verdict.reasons
    lines = [] if findings.verdict is None else [f"{verdict_title(findings)}."]
    for text in reasons:
        lines += [_fact("-", text, 2), *([_fact("  ->", advice[text], 5)] if advice.get(text) else [])]
    texts = labels.missing_in_words().removeprefix("Missing labels: ").removesuffix(".")
    head = f"{data.file}: {data.rows:,} rows, {labels.missing:,} without a label in '{data.label}'"
    lines += [""] * bool(lines) + [(head + f" ({texts})" * bool(texts)).replace("\n", "\\n")]
    facts = [] if labels.votes is None else [("votes", labels.votes.sentence())]
    facts += [
        ("imputed", _imputed(findings)),
        ("model", findings.model.name),
        ("informative?", _informative(findings)),
        ("did it help?", findings.comparison.sentence),
    ]
    others = [caution for caution in findings.cautions if caution.text not in reasons]
    facts += [(caution.level, f"{caution.text} {caution.advice}".strip()) for caution in others[:_CAUTIONS]]
    if len(others) > _CAUTIONS:
        facts.append(("", f"and {len(others) - _CAUTIONS} more, in the report"))
    return lines + [_fact(name, text) for name, text in facts] + _scoreboard(findings)


def _scoreboard(findings: Findings) -> list[str]:
    """Wrong labels and accuracy of the classifiers, and the accuracy claimed by the labelled rows alone."""
    if not findings.scoreboard:
        return []
    missing = "too few labels" if findings.labels.imputed else "none imputed"
    rows = [("", "wrong labels", "accuracy", "claimed")]
    for row in findings.scoreboard:
        wrong, right = estimate(row.wrong, "count", 0, missing), estimate(row.accuracy, "share", 1)
        rows.append((row.name, " ".join(wrong), " ".join(right), percent(row.claimed_accuracy, 1)))
    return ["", *(f"  {a:<21}{b:<24}{c:<24}{d}".rstrip().replace(SPACE, " ") for a, b, c, d in rows)]


def _imputed(findings: Findings) -> str:
    labels = findings.labels
    parts = [f"{facts.imputed:,} {facts.name!r}" for facts in labels.classes[:_CLASSES]]
    parts += ["..."] * (len(labels.classes) > _CLASSES)
    unfilled = f"; {labels.unfilled:,} not, because features are missing" if labels.unfilled else ""
    return f"{labels.imputed:,} ({', '.join(parts)}){unfilled}"


def _informative(findings: Findings) -> str:
    facts = findings.missingness
    p = "" if facts.p_value is None else f" ({facts.test}, p {p_sign(facts.p_value, facts.at_floor)})"
    ends = ""
    if facts.informative and facts.toss_up is not None and facts.certain is not None:
        ends = (
            f" P(label missing) is {facts.toss_up:.2f} if all classes are equally probable, {facts.certain:.2f} if the class is "
            "certain."
        )
    word = {True: "doubtful. " if facts.doubts else "yes. ", False: "no. ", None: ""}[facts.informative]
    return word + facts.sentence.removesuffix(".") + p + "." + ends


def _fact(name: str, text: str, width: int = 14) -> str:
    return fill(
        f"{name:<{width}}{text}",
        WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * (width + 2),
        break_long_words=False,
    )
