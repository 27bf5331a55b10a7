"""Numbers and findings in plain words, as HTML."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from marmix.inference.sensitivity import times
from marmix.inference.tables import listed, number, p_sign
from marmix.pages.contents import (
    Comparison,
    Contender,
    Estimate,
    Interval,
    LabelFacts,
    LabelsNeeded,
    MissingnessFacts,
    RivalFacts,
    SensitivityFacts,
    SetFacts,
    StatisticalFacts,
    Verdict,
)
from marmix.pages.markup import name, quoted
from marmix.pages.summary import VERDICTS

DASH = "\u2013"
MINUS = "\u2212"
SPACE = "\u00a0"  # between a number and its unit
ODDS = "\u201cLikely\u201d is in terms of odds. <code>marmix sensitivity</code> does the same for other classes and odds ratios."
UNCERTAINTY = (
    "Uncertainty runs from 0, where the class is certain, to 1, where all classes are equally probable (the entropy of the class "
    "probabilities, divided by its largest value)."
)
CLASSES = (
    "Precision: how many of the labels imputed as a class are right. Recall: how many of the unlabelled rows of a class are "
    f"imputed as it. All are estimates, with 95{SPACE}% intervals in brackets."
)
CLAIMS = (
    "Estimates count every row, those without a label by probabilities that are checked against the given labels. The claims are "
    "what the labelled rows alone say, each predicted by a model fitted without it: too good if hard rows have lost their labels."
)
SLOPE = (
    "The missingness curve has an intercept, alpha_0, and a slope, alpha_1, which measures how strongly missing labels depend on "
    "the uncertainty of the class. A slope of 0 means no dependence."
)


def count(value: int) -> str:
    """A count with thousands separators."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """'1 row', '2,000 rows'."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def percent(share: float | None, decimals: int = 0) -> str:
    """A share in percent; only exact shares are shown as 0 % or 100 %."""
    if share is None or share != share:
        return DASH
    step = 0.01 * 10.0**-decimals
    if 0.0 < share < step / 2:
        return f"&lt;{SPACE}{percent(step, decimals)}"
    if 1.0 - step / 2 < share < 1.0:
        return f"&gt;{SPACE}{percent(1.0 - step, decimals)}"
    return f"{100.0 * share:.{decimals}f}{SPACE}%"


def share_of(part: int, total: int) -> str:
    """A part of a total, in percent."""
    return percent(part / total if total else None)


def figure(value: float | None) -> str:
    """A number with about four digits and a true minus sign, or a dash."""
    if value is None or value != value:
        return DASH
    text = number(abs(value))
    integer, dot, decimals = text.partition(".")
    text = f"{int(integer):,}{dot}{decimals}" if integer.isdigit() else text
    return f"{MINUS}{text}" if value < 0.0 else text


def share_interval(facts: Interval, decimals: int = 0, otherwise: str = "too few labels") -> str:
    """A share with its interval, as in '87 % (80 to 92)'; a dash and a word where there is no number."""
    return _interval(facts, partial(percent, decimals=decimals), lambda end: f"{100.0 * end:.{decimals}f}", otherwise)


def whole(value: float) -> str:
    """A number without decimals."""
    return f"{value:,.0f}"


def count_interval(facts: Interval, otherwise: str = "too few labels") -> str:
    """A number of rows with its interval."""
    return _interval(facts, whole, whole, otherwise)


def loss_interval(facts: Interval) -> str:
    """A log-loss with its interval."""
    return _interval(facts, loss, loss)


def _interval(
    facts: Interval, text: Callable[[float], str], end: Callable[[float], str], otherwise: str = "too few labels"
) -> str:
    if facts.value is None:
        return f'{DASH} <span class="quiet">{otherwise}</span>'
    if facts.low is None or facts.high is None:
        return text(facts.value)
    return f'{text(facts.value)} <span class="ends">({end(facts.low)} to {end(facts.high)})</span>'


def loss(value: float | None, decimals: int = 3) -> str:
    """A score with three decimals, or a dash."""
    return DASH if value is None or value != value else f"{value:.{decimals}f}".replace("-", MINUS)


def verdict_title(verdict: Verdict | None, labels: LabelFacts) -> str:
    """The verdict in a few words."""
    if verdict is None:
        return "No label is missing" if labels.missing == 0 else "No verdict"
    return VERDICTS[verdict.use]


def decimals_of(scoreboard: Sequence[Contender]) -> int:
    """Decimals of the accuracies in percent: one if an interval is narrow."""
    widths = [
        c.accuracy.high - c.accuracy.low
        for c in scoreboard
        if c.accuracy.low is not None and c.accuracy.high is not None
    ]
    return int(min(widths, default=1.0) < 0.1)


def chance(missingness: MissingnessFacts) -> str:
    """The p-value as a frequency."""
    p = missingness.p_value
    if p is None:
        return ""
    if p < 0.001 or missingness.at_floor:
        often = f"fewer than 1 in {count(round(1.0 / max(p, 0.001)))} data sets"
    elif p < 0.095:
        often = f"about 1 in {count(round(1.0 / p))} data sets"
    else:
        often = f"about {round(100.0 * p)} in 100 data sets"
    sign = f"p {p_sign(p, missingness.at_floor)}".replace("<", "&lt;").replace(" ", SPACE)
    return (
        f"If missing labels had nothing to do with difficulty, {often} would show at least as strong a link ({sign})."
    )


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


def help_words(comparison: Comparison) -> str:
    """Whether modelling the missingness helped, and by how much."""
    if comparison.helped is None or comparison.gain is None:
        return comparison.sentence
    return f"{help_verdict(comparison)}: {_gain(comparison, 'than with missing labels ignored')}."


def rival_words(rival: RivalFacts) -> str:
    """Whether the classifier is better than the best of the usual ones, and by how much."""
    if rival.better is None or rival.gain is None:
        return rival.sentence
    return f"{rival_verdict(rival)}: {_gain(rival, f'than that of {rival.name}, the best of the others')}."


def _gain(facts: Comparison | RivalFacts, than: str) -> str:
    """A difference in log-loss with its interval."""
    gain = facts.gain or 0.0
    low, high = (facts.low, facts.high) if gain >= 0.0 else (facts.high, facts.low)
    sign = 1.0 if gain >= 0.0 else -1.0
    decimals = 3 if abs(gain) >= 0.01 else 4 if abs(gain) >= 0.001 else 5
    bracket = "" if low is None or high is None else f" ({loss(sign * low, decimals)} to {loss(sign * high, decimals)})"
    return f"the log-loss is {'lower' if gain >= 0.0 else 'higher'} by {loss(abs(gain), decimals)}{bracket} {than}"


def sensitivity_lead(facts: SensitivityFacts | None) -> str:
    """What follows if rows of the class are twice as likely to lose their labels."""
    if facts is None:
        return "No label is missing, or too few are given to say."
    twice = nearest(facts.odds_ratio, 2.0)
    label, likely = quoted(facts.label), f"{times(facts.odds_ratio[twice])} as likely"
    return (
        "The data cannot show whether, among rows that look alike, those of one class lose their labels more often. If "
        f"{label} were {likely} to lose its label as the other classes, {percent(facts.share[twice])} of all rows would be "
        f"{label}, and {percent(facts.changed[twice])} of the imputed labels would change."
    )


def independent(score: Mapping[str, float]) -> str:
    """The independent log-loss of the average, and what it is."""
    value, error = (loss(score.get(f"independent_log_loss{end}")) for end in ("", "_stderr"))
    return (
        f"The independent log-loss, {value} \u00b1 {error} for the average, is estimated by random forests of the labels and of "
        "the missing labels in place of the models themselves, so that no model is its own judge. It is noisier, and too "
        "optimistic where hard rows have no labels at all."
    )


def sets(facts: SetFacts) -> str:
    """How many labels are settled by conformal sets."""
    return (
        f"If labels are missing at random given the features, about {percent(facts.coverage)} of the sets hold the true class: "
        f"{count(facts.single)} have a single class, and the mean size is {facts.mean_size:.2f}."
    )


def help_verdict(comparison: Comparison) -> str:
    """A few words on whether modelling the missingness helped."""
    return _answer(comparison.helped, comparison, "No, it made things worse", "No clear gain")


def rival_verdict(rival: RivalFacts) -> str:
    """A few words on whether the classifier is better than the usual ones."""
    return _answer(rival.better, rival, "No, it is worse", "No clear difference")


def _answer(better: bool | None, facts: Comparison | RivalFacts, worse: str, unclear: str) -> str:
    if better is None:
        return "Not compared" if facts.gain is None else "Cannot be told"
    if better:
        return "Yes"
    return worse if facts.high is not None and facts.high < 0.0 else unclear


def informative_verdict(missingness: MissingnessFacts) -> str:
    """A few words on whether missingness is informative."""
    if missingness.informative and missingness.doubts:
        return "Doubtful"
    return {True: "Yes", False: "No clear sign", None: "Not tested"}[missingness.informative]


def nearest(values: Sequence[float], target: float) -> int:
    """The position of the value nearest to the target."""
    return min(range(len(values)), key=lambda i: abs(values[i] - target))


def rows_lead(shown: int, of: int) -> str:
    """How many rows the table holds."""
    if shown == 0:
        return "No row is missing a label."
    which = f"All {count(of)} rows" if shown >= of else f"{count(shown)} of the {count(of)} rows"
    return f"{which} without a label, the most uncertain first. Labelling the first ones helps the model most."


def labels_needed(entries: Sequence[LabelsNeeded]) -> str:
    """How many labels bring the share of wrong labels to given levels."""
    if not entries:
        return ""
    first, *others = (f"to {percent(entry.error)}, label about {count(entry.labels)}" for entry in entries)
    rest = "".join(f"; {step}" for step in others)
    return f"To bring the share of imputed labels that are expected to be wrong {first} of these rows{rest}."


def estimates_lead(estimates: Sequence[Estimate]) -> str:
    """How many parameters there are, and whether they have intervals."""
    if not estimates:
        return "There are no parameters to show."
    sized = sum(estimate.low is not None for estimate in estimates)
    lead = f"The model has {counted(len(estimates), 'parameter')}"
    if sized == 0:
        return f"{lead}; intervals could not be computed for this fit."
    which = "Each has a" if sized == len(estimates) else f"For {count(sized)} of them there is a"
    return f"{lead}. {which} 95{SPACE}% confidence interval: a range of values that are compatible with the data."


def is_mechanism(estimate: Estimate) -> bool:
    """Whether a parameter belongs to the missingness curve, by its name."""
    return estimate.name in ("alpha_0", "alpha_1", "shape", "share") or estimate.name.startswith("alpha[")


def convergence(model: StatisticalFacts) -> str:
    """How the fit ended."""
    iterations = counted(model.iterations, "iteration")
    if model.converged:
        return f"The fit converged after {iterations}; its log-likelihood is {figure(model.loglik)}."
    return f"The fit did not converge in {iterations}: do not rely on these numbers."


def statistical_words(model: StatisticalFacts) -> str:
    """How the model whose parameters are shown relates to the average that predicts."""
    share = f"has the weight {model.weight:.2f} in the average" if model.weight > 0.0 else "is not in the average"
    return (
        f"This is a candidate whose parameters can be interpreted. It {share}: labels, probabilities and scores on this page are "
        "those of the average, parameters and tests those of this model."
    )


def features_words(features: Sequence[str]) -> str:
    """The first features by name, and how many more."""
    names = [name(feature) for feature in features[:12]]
    return listed(names) if len(features) <= 12 else f"{', '.join(names)} and {count(len(features) - 12)} more"
