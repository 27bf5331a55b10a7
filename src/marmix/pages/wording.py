"""Numbers and findings in plain words, as HTML: the leads of the sections."""

from collections.abc import Sequence

from marmix.inference.tables import listed, number, p_text
from marmix.pages.contents import (
    Caution,
    Comparison,
    Estimate,
    LabelFacts,
    MissingnessFacts,
    RivalFacts,
    ScoreFacts,
    SensitivityFacts,
    SetFacts,
    StatisticalFacts,
    Thresholds,
)
from marmix.pages.markup import name
from marmix.sensitivity import times

DASH = "\u2013"
MINUS = "\u2212"
SPACE = "\u00a0"  # between a number and its unit
MANY = 30  # parameters above which only those of the mechanism are shown unfolded
HALF = 0.5
ODDS = "\u201cLikely\u201d is in terms of odds. <code>marmix sensitivity</code> does the same for other classes and odds ratios."
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


def overview_lead(labels: LabelFacts, rows: int) -> str:
    """Numbers of missing and imputed labels, and of expected errors."""
    if labels.missing == 0:
        return f"None of the {counted(rows, 'row')} is missing a label, so nothing had to be imputed."
    missing = f"Of {counted(rows, 'row')}, {count(labels.missing)} ({share_of(labels.missing, rows)}) had no label."
    if labels.imputed == 0:
        return f"{missing} None of them could be imputed."
    which = "all of them" if labels.unfilled == 0 else f"{count(labels.imputed)} of them"
    errors = labels.certainty.expected_errors
    wrong = "none" if errors is None or errors < HALF else f"about {count(round(errors))}"
    expected = "" if errors is None else f" If its probabilities are right, {wrong} of these are wrong."
    return f"{missing} The model imputed {which}.{expected}"


def chance(missingness: MissingnessFacts) -> str:
    """The p-value as a frequency."""
    p = missingness.p_value
    if p is None:
        return ""
    if p < 0.001:
        often = "fewer than 1 in 1,000 data sets"
    elif p < 0.095:
        often = f"about 1 in {count(round(1.0 / p))} data sets"
    else:
        often = f"about {round(100.0 * p)} in 100 data sets"
    sign = "p &lt; 0.001" if p < 0.001 else f"p = {p_text(p)}"
    return (
        f"If missing labels had nothing to do with difficulty, {often} would show at least as strong a link ({sign})."
    )


def missingness_lead(missingness: MissingnessFacts) -> str:
    """Which rows lose their labels, and how often."""
    if missingness.informative is None:
        lead = "It could not be tested whether hard rows lose their labels more often"
    elif not missingness.informative:
        lead = "There is no clear sign that hard rows lose their labels more often than easy ones"
    elif missingness.toss_up is not None and missingness.certain is not None:
        harder = missingness.toss_up > missingness.certain
        lead = (
            f"{'Hard' if harder else 'Easy'} rows lose their labels more often than {'easy' if harder else 'hard'} ones"
        )
    else:
        lead = "Whether a label is missing depends on how hard the row is to classify"
    if missingness.doubts:
        lead += ", if the model of the missingness is right: but its checks fail"
    if missingness.toss_up is None or missingness.certain is None:
        return f"{lead}."
    return (
        f"{lead}. According to the fitted curve, {percent(missingness.toss_up)} of the labels are missing where the class is a "
        f"toss-up, and {percent(missingness.certain)} where it is certain."
    )


def uncertainty_lead(labels: LabelFacts) -> str:
    """How many of the imputed labels are probable."""
    if labels.imputed == 0:
        return "No label was imputed."
    clear, unclear = labels.certainty.at_least_90, labels.imputed - labels.certainty.at_least_90
    if unclear == 0:
        return f"All {count(labels.imputed)} imputed labels have a probability of at least 90{SPACE}%."
    return (
        f"{count(clear)} of the {count(labels.imputed)} imputed labels ({share_of(clear, labels.imputed)}) have a probability "
        f"of at least 90{SPACE}%. An expert helps most with the other {count(unclear)}."
    )


def classes_lead(labels: LabelFacts) -> str:
    """The largest class, before and after imputation."""
    if not labels.classes or labels.given + labels.imputed == 0:
        return "No class has a label."
    largest = max(labels.classes, key=lambda facts: facts.given + facts.imputed)
    after = share_of(largest.given + largest.imputed, labels.given + labels.imputed)
    before = share_of(largest.given, labels.given)
    if labels.imputed == 0:
        return f"{name(largest.name)} is the largest class, with {before} of the labels."
    return (
        f"The largest class is {name(largest.name)}, with {after} of all labels when imputed ones are included, and {before} of "
        "the given labels."
    )


def trust_lead(scores: Sequence[ScoreFacts]) -> str:
    """How often the model is right, for rows with and without a label."""
    for score in scores:
        if score.name.lower() == "accuracy":
            low, high = (round(100.0 * end) for end in (score.low, score.high))
            error = "" if score.stderr != score.stderr else f" (between {low} and {high}, with 95 % confidence)"
            right = f"about {round(100.0 * score.value)} of 100 labels right{error}"
            return f"On rows it was not fitted to, with and without a label, the model gets {right}."
    return "Where the calibration curve follows the diagonal, the predicted probabilities can be taken at face value."


def doubts(missingness: MissingnessFacts) -> str:
    """A caution to add to scores if checks of the mechanism fail."""
    if not missingness.doubts:
        return ""
    return " This rests on a model of the missingness whose checks fail: the truth may be far worse."


def sensitivity_lead(facts: SensitivityFacts | None) -> str:
    """What follows if rows of the class are twice as likely to lose their labels."""
    if facts is None:
        return "No label is missing, or too few are given to say."
    twice, now = nearest(facts.odds_ratio, 2.0), nearest(facts.odds_ratio, 1.0)
    label, likely = name(facts.label), f"{times(facts.odds_ratio[twice])} as likely"
    share, wrong = ([percent(values[i], 1) for i in (twice, now)] for values in (facts.share, facts.wrong))
    return (
        "The data cannot show whether, among rows that look alike, those of one class lose their labels more often. If "
        f"{label} were {likely} to lose its label as the other classes, {share[0]} of all rows would be {label} instead of "
        f"{share[1]}, and {wrong[0]} of the imputed labels would be wrong instead of {wrong[1]}."
    )


INDEPENDENT = (
    "The independent log-loss is estimated by random forests of the labels and of the missing labels in place of the models "
    "themselves, so that no model is its own judge. It is noisier, and too optimistic where hard rows have no labels at all."
)


def sets(facts: SetFacts) -> str:
    """How many labels are settled by conformal sets."""
    return (
        f"If labels are missing at random given the features, about {percent(facts.coverage)} of the sets hold the true class: "
        f"{count(facts.single)} have a single class, and the mean size is {facts.mean_size:.2f}."
    )


def correction(scores: Sequence[ScoreFacts]) -> str:
    """Why scores of the labelled rows need a correction, and which way it goes here."""
    why = (
        "Scored on the labelled rows only, a model looks better than it is if easy rows keep their labels more often. The "
        "corrected scores use the models' own probabilities for rows without a label, adjusted to the labels of similar rows; "
        "their intervals include how far these may be off."
    )
    gaps = [(s.plain - s.value) * (1.0 if s.better == "higher" else -1.0) / max(s.stderr, 1e-12) for s in scores]
    if all(abs(gap) <= 1.0 for gap in gaps):
        return f"{why} Here the two agree within the standard error."
    if all(gap >= -1.0 for gap in gaps):
        return f"{why} Here the scores of the labelled rows are too optimistic."
    if all(gap <= 1.0 for gap in gaps):
        return f"{why} Here the scores of the labelled rows are too pessimistic."
    return f"{why} Here some scores of the labelled rows are too optimistic and some too pessimistic."


def help_verdict(comparison: Comparison) -> str:
    """A few words on whether modelling the missingness helped."""
    if comparison.helped is None:
        return "Not compared" if comparison.gain is None else "Cannot be told"
    if comparison.helped:
        return "Yes"
    if comparison.high is not None and comparison.high < 0.0:
        return "No, it made things worse"
    return "No clear gain"


def rival_verdict(rival: RivalFacts) -> str:
    """A few words on whether the classifier is better than the usual ones."""
    if rival.better is None:
        return "Not compared" if rival.gain is None else "Cannot be told"
    if rival.better:
        return "Yes"
    if rival.high is not None and rival.high < 0.0:
        return "No, it is worse"
    return "No clear difference"


def informative_verdict(missingness: MissingnessFacts) -> str:
    """A few words on whether missingness is informative."""
    if missingness.informative and missingness.doubts:
        return "Doubtful"
    return {True: "Yes", False: "No clear sign", None: "Not tested"}[missingness.informative]


def threshold_lead(thresholds: Sequence[Thresholds]) -> str:
    """The trade-off, and the scores at a threshold of one half."""
    trade = "A higher threshold gives fewer false alarms but misses more cases."
    for entry in thresholds[:1]:
        middle, positive = nearest(entry.at, HALF), name(entry.positive)
        precision, recall = entry.precision[middle], entry.recall[middle]
        if precision is not None and recall is not None:
            return (
                f"{trade} At {percent(entry.at[middle])}, {percent(precision)} of the rows called {positive} are indeed "
                f"{positive}, and {percent(recall)} of the {positive} rows are detected."
            )
    return trade


def nearest(values: Sequence[float], target: float) -> int:
    """The position of the value nearest to the target."""
    return min(range(len(values)), key=lambda i: abs(values[i] - target))


def rows_lead(shown: int, of: int) -> str:
    """How many rows the table holds."""
    if shown == 0:
        return "No row is missing a label."
    which = f"All {count(of)} rows" if shown >= of else f"The {count(shown)} rows of {count(of)}"
    return f"{which} without a label, the most uncertain first. Labelling the first ones helps the model most."


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


def warnings_lead(warnings: Sequence[Caution]) -> str:
    """How many warnings there are."""
    return (
        f"Please read {'this' if len(warnings) == 1 else 'these'} before you rely on the results."
        if warnings
        else "None."
    )


def features_words(features: Sequence[str]) -> str:
    """The first features by name, and how many more."""
    names = [name(feature) for feature in features[:12]]
    return listed(names) if len(features) <= 12 else f"{', '.join(names)} and {count(len(features) - 12)} more"
