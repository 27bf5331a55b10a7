"""Numbers and findings in plain words, for the page and the terminal alike, and the summary in a terminal."""

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import fill

from marmix.app.findings import (
    Comparison,
    Contender,
    Findings,
    Interval,
    MissingnessFacts,
    RivalFacts,
    SensitivityFacts,
)
from marmix.inference.sensitivity import times
from marmix.inference.tables import number, p_sign

DASH, MINUS, SPACE = "\u2013", "\u2212", "\u00a0"  # the space stands between a number and its unit
VERDICTS = {"use": "Use these labels once audited", "care": "Use with care", "no": "Do not use these labels"}


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


def loss(value: float | None, decimals: int = 3) -> str:
    """A score with three decimals, or a dash."""
    return DASH if value is None or value != value else f"{value:.{decimals}f}".replace("-", MINUS)


def figure(value: float | None) -> str:
    """A number with about four digits and a true minus sign, or a dash."""
    if value is None or value != value:
        return DASH
    text = number(abs(value))
    integer, dot, decimals = text.partition(".")
    text = f"{int(integer):,}{dot}{decimals}" if integer.isdigit() else text
    return f"{MINUS}{text}" if value < 0.0 else text


def estimate(
    entry: Interval, kind: str = "share", decimals: int = 0, otherwise: str = "too few labels"
) -> tuple[str, str]:
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


def decimals_of(scoreboard: Sequence[Contender]) -> int:
    """Decimals of the accuracies in percent: one if an interval is narrow."""
    widths = [end.high - end.low for end in (row.accuracy for row in scoreboard) if None not in (end.low, end.high)]  # type: ignore[operator]
    return int(min(widths, default=1.0) < 0.1)


def wrong_labels(wrong: Interval, imputed: int) -> str:
    """How many of the imputed labels are wrong, as a sentence; `wrong` is a number of labels."""
    if wrong.low is None or wrong.high is None:
        return f"How many of the {imputed:,} imputed labels are wrong cannot be told."
    return f"About {' '.join(estimate(wrong, 'count'))} of the {imputed:,} imputed labels are wrong."


def verdict_title(findings: Findings) -> str:
    """The verdict in a few words."""
    if findings.verdict is None:
        return "No label is missing" if findings.labels.missing == 0 else "No verdict"
    return VERDICTS[findings.verdict.use]


def chance(missingness: MissingnessFacts) -> str:
    """The p-value as a frequency."""
    p = missingness.p_value
    if p is None:
        return ""
    if p < 0.001 or missingness.at_floor:
        often = f"fewer than 1 in {round(1.0 / max(p, 0.001)):,} data sets"
    elif p < 0.095:
        often = f"about 1 in {round(1.0 / p):,} data sets"
    else:
        often = f"about {round(100.0 * p)} in 100 data sets"
    sign = f"p {p_sign(p, missingness.at_floor)}".replace(" ", SPACE)
    return (
        f"If missing labels had nothing to do with difficulty, {often} would show at least as strong a link ({sign})."
    )


def informative(missingness: MissingnessFacts) -> str:
    """A few words on whether missingness is informative."""
    if missingness.informative and missingness.doubts:
        return "Doubtful"
    return {True: "Yes", False: "No clear sign", None: "Not tested"}[missingness.informative]


def missingness_lead(missingness: MissingnessFacts) -> str:
    """Which rows lose their labels."""
    if missingness.informative is None:
        lead = "It could not be tested whether hard rows lose their labels more often"
    elif not missingness.informative:
        lead = "There is no clear sign that hard rows lose their labels more often than easy ones"
    elif missingness.toss_up is not None and missingness.certain is not None:
        rows, others = ("Hard", "easy") if missingness.toss_up > missingness.certain else ("Easy", "hard")
        lead = f"{rows} rows {'seem to ' * bool(missingness.doubts)}lose their labels more often than {others} ones"
    else:
        lead = "Whether a label is missing depends on how hard the row is to classify"
    if missingness.doubts:
        lead += ", but the model of the missingness fails its checks"
    return f"{lead}."


def compared(facts: Comparison | RivalFacts) -> str:
    """Whether a comparison is won, and by how much: modelling the missingness, or the best of the usual classifiers."""
    is_rival = isinstance(facts, RivalFacts)
    better = facts.better if isinstance(facts, RivalFacts) else facts.helped
    if better is None or facts.gain is None:
        return facts.sentence
    if better:
        answer = "Yes"
    elif facts.high is not None and facts.high < 0.0:
        answer = "No, it is worse" if is_rival else "No, it made things worse"
    else:
        answer = "No clear difference" if is_rival else "No clear gain"
    gain = facts.gain
    low, high = (facts.low, facts.high) if gain >= 0.0 else (facts.high, facts.low)
    sign = 1.0 if gain >= 0.0 else -1.0
    decimals = 3 if abs(gain) >= 0.01 else 4 if abs(gain) >= 0.001 else 5
    ends = "" if low is None or high is None else f" ({loss(sign * low, decimals)} to {loss(sign * high, decimals)})"
    than = (
        f"that of {facts.name}, the best of the others"
        if isinstance(facts, RivalFacts)
        else "with missing labels ignored"
    )
    return f"{answer}: the log-loss is {'lower' if gain >= 0.0 else 'higher'} by {loss(abs(gain), decimals)}{ends} than {than}."


def sensitivity_lead(facts: SensitivityFacts) -> str:
    """What follows if rows of the class are twice as likely to lose their labels."""
    twice = nearest(facts.odds_ratio, 2.0)
    label, likely = f"\u2018{facts.label}\u2019", f"{times(facts.odds_ratio[twice])} as likely"
    return (
        "The data cannot show whether, among rows that look alike, those of one class lose their labels more often. If "
        f"{label} were {likely} to lose its label as the other classes, {percent(facts.share[twice])} of all rows would be "
        f"{label}, and {percent(facts.changed[twice])} of the imputed labels would change."
    )


def nearest(values: Sequence[float], target: float) -> int:
    """The position of the value nearest to the target."""
    return min(range(len(values)), key=lambda i: abs(values[i] - target))


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
