"""Whether to use the imputed labels: cautions from plain facts, the most serious first, and the verdict they lead to."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from marmix.pages.contents import Caution, Interval, Verdict
from marmix.tables.cells import shown

LEVELS = ("serious", "caution", "note")
FEW, TOO_FEW = 20, 5  # labelled rows of a class
MANY_WRONG = 0.2  # share of the imputed labels
WIDE = 0.5  # interval of that share
LIKELY, UNLIKELY = 0.975, 0.75  # probabilities of being better than one class for every row
NO_CHANCE = 0.2  # share of the rows with practically no chance of a label
ENRICHED = 4.0  # odds of a class among the given labels, against those among all rows if labels were drawn by class
FINE = "Every class has enough labels, the checks of the mechanism pass, and no usual classifier is clearly better."


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
    enriched: str = ""  # a class that may be far rarer than among the given labels
    enrichment: float = 0.0  # its share of the given labels


def cautions(grounds: Grounds, others: Sequence[Caution] = ()) -> list[Caution]:
    """Reasons not to rely on the imputed labels, and other cautions: few labels first, then the most serious."""
    facts = [*_about_numbers(grounds), *_about_missingness(grounds)] if grounds.imputed else []
    return few_labels(grounds.labelled) + sorted([*facts, *others], key=lambda caution: LEVELS.index(caution.level))


def verdict(facts: Sequence[Caution], wrong: Interval, imputed: int) -> Verdict:
    """The verdict that the most serious caution leads to, with up to three reasons; `wrong` is a number of labels."""
    reasons = [caution.text for caution in facts if caution.level in LEVELS[:2]]
    if any(caution.level == "serious" for caution in facts):
        return Verdict("no", reasons[:3])
    errors = errors_in_words(wrong, imputed)
    if reasons:
        return Verdict("care", list(dict.fromkeys([errors, *reasons]))[:3])
    return Verdict("use", [errors, FINE])


def errors_in_words(wrong: Interval, imputed: int) -> str:
    """How many of the imputed labels are wrong, as a sentence; `wrong` is a number of labels."""
    if wrong.value is None or wrong.low is None or wrong.high is None:
        return f"How many of the {imputed:,} imputed labels are wrong cannot be told."
    return (
        f"About {wrong.value:,.0f} ({wrong.low:,.0f} to {wrong.high:,.0f}) of the {imputed:,} imputed labels are wrong."
    )


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100.0 * share:.0f} %"


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
        text = f"{errors_in_words(wrong, grounds.imputed)} There are too few labels."
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
        text = errors_in_words(wrong, grounds.imputed)
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
        text = f"{percent(grounds.no_chance)} of the rows have hardly a chance of a label: nothing checks their imputed labels."
        facts.append(Caution(level, text, "Label a few such rows: they are among the rows most worth labelling."))
    if grounds.enriched:
        text = (
            f"{shown(grounds.enriched)} is {percent(grounds.enrichment)} of the given labels, but far rarer among all rows if "
            "such rows were labelled on purpose."
        )
        advice = f"If you know the share of {shown(grounds.enriched)} among all rows, give it with --prevalence."
        facts.append(Caution("caution", text, advice))
    return facts
