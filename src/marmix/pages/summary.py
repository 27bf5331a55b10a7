"""Findings as a summary in text, for the terminal and for notebooks."""

from textwrap import fill

from marmix.inference.tables import p_sign
from marmix.pages.contents import Contender, Findings, Interval

VERDICTS = {"use": "Use these labels", "care": "Use with care", "no": "Do not use these labels"}
_CAUTIONS = 5  # shown; the others are in the report


def summary_lines(findings: Findings) -> list[str]:
    """The verdict and its reasons, then the findings and cautions, in about fifteen lines."""
    labels, verdict = findings.labels, findings.verdict
    texts = labels.missing_in_words().removeprefix("Missing labels: ").removesuffix(".")
    lines = [
        f"{findings.data.file}: {findings.data.rows:,} rows, {labels.missing:,} without a label in '{findings.data.label}'"
        + (f" ({texts})" if texts else "")
    ]
    lines = [line.replace("\n", "\\n") for line in lines]
    reasons = [] if verdict is None else verdict.reasons
    if verdict is not None:
        advice = {caution.text: caution.advice for caution in findings.cautions}
        advised = [_reason(reason, advice.get(reason, "")) for reason in reasons]
        lines = [f"{VERDICTS[verdict.use]}.", *advised, "", *lines]
    facts = [] if labels.votes is None else [("votes", labels.votes.sentence())]
    facts.append(("imputed", _imputed(findings)))
    if labels.certainty.wrong.value is not None:
        facts.append(("wrong", f"about {_number(labels.certainty.wrong)} of the {labels.imputed:,} imputed labels"))
    for score in findings.scores:
        if score.name == "accuracy":
            right = _share(Interval(score.value, score.low, score.high))
            facts.append((score.name, f"{right} for all rows; {100.0 * score.plain:.1f} % for the labelled rows alone"))
    if findings.scoreboard:
        facts.append(("scoreboard", _line("", "wrong", "accuracy", "claimed by the labelled rows")))
        otherwise = "unknown" if labels.imputed else "none imputed"
        facts += [("", _contender(row, otherwise)) for row in findings.scoreboard]
    facts.append(("model", findings.model.name))
    facts.append(("informative?", _informative(findings)))
    facts.append(("did it help?", findings.comparison.sentence))
    others = [caution for caution in findings.cautions if caution.text not in reasons]
    facts += [(caution.level, f"{caution.text} {caution.advice}".strip()) for caution in others[:_CAUTIONS]]
    if len(others) > _CAUTIONS:
        facts.append(("", f"and {len(others) - _CAUTIONS} more, in the report"))
    return lines + [_fact(name, text) for name, text in facts]


def _share(entry: Interval) -> str:
    """A share in percent with its interval: '87.0 % (80.1 to 92.3)'."""
    if entry.value is None or entry.low is None or entry.high is None:
        return "unknown"
    return f"{100.0 * entry.value:.1f} % ({100.0 * entry.low:.1f} to {100.0 * entry.high:.1f})"


def _number(entry: Interval, otherwise: str = "unknown") -> str:
    """A number of rows with its interval: '65 (50 to 84)'."""
    if entry.value is None or entry.low is None or entry.high is None:
        return otherwise
    return f"{entry.value:,.0f} ({entry.low:,.0f} to {entry.high:,.0f})"


def _contender(row: Contender, otherwise: str) -> str:
    claim = "" if row.claimed_accuracy is None else f"{100.0 * row.claimed_accuracy:.1f} %"
    return _line(row.name, _number(row.wrong, otherwise), _share(row.accuracy), claim)


def _line(name: str, wrong: str, accuracy: str, claim: str) -> str:
    return f"{name:<20}{wrong:<18}{accuracy:<24}{claim}".rstrip()


def _imputed(findings: Findings) -> str:
    labels = findings.labels
    parts = [f"{facts.imputed:,} {facts.name!r}" for facts in labels.classes[:6]] + ["..."] * (len(labels.classes) > 6)
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


def _reason(text: str, advice: str) -> str:
    """A reason of the verdict, and below it what to do."""
    return _fact("-", text, 1) + (f"\n  {_fact('->', advice, 2)}" if advice else "")


def _fact(name: str, text: str, width: int = 13) -> str:
    return fill(f"{name:<{width}} {text}", 108, initial_indent="  ", subsequent_indent=" " * (width + 3))
