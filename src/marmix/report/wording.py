"""Numbers and findings in plain words, as HTML: what each section says first, made by rules from the numbers."""

from collections.abc import Sequence

from marmix.inference.tables import listed, number, p_text
from marmix.report.contents import Comparison, Estimate, Findings, LabelFacts, MissingnessFacts, ScoreFacts, Thresholds
from marmix.report.markup import name

DASH = "\u2013"
MINUS = "\u2212"
SPACE = "\u00a0"  # holds a number and its unit together
MANY = 30  # estimates from which on only those of the mechanism are shown at once
HALF = 0.5
SLOPE = (
    "The missingness curve has a height, alpha_0, and a slope, alpha_1: how strongly missing labels depend on how unclear the "
    "class is. A slope of 0 means not at all."
)


def count(value: int) -> str:
    """A count with its thousands apart."""
    return f"{value:,}"


def counted(value: int, one: str) -> str:
    """'1 row', '2,000 rows'."""
    return f"{count(value)} {one}{'' if value == 1 else 's'}"


def percent(share: float | None, decimals: int = 0) -> str:
    """A share in percent; 0 and 100 are said only of what is exactly that."""
    if share is None or share != share:
        return DASH
    step = 0.01 * 10.0**-decimals
    if 0.0 < share < step / 2:
        return f"&lt;{SPACE}{percent(step, decimals)}"
    if 1.0 - step / 2 < share < 1.0:
        return f"&gt;{SPACE}{percent(1.0 - step, decimals)}"
    return f"{100.0 * share:.{decimals}f}{SPACE}%"


def share_of(part: int, whole: int) -> str:
    """A part of a whole, in percent."""
    return percent(part / whole if whole else None)


def figure(value: float | None) -> str:
    """A number of about four digits with a true minus sign, or a dash."""
    if value is None or value != value:
        return DASH
    text = number(abs(value))
    whole, dot, rest = text.partition(".")
    text = f"{int(whole):,}{dot}{rest}" if whole.isdigit() else text
    return f"{MINUS}{text}" if value < 0.0 else text


def found_lead(labels: LabelFacts, rows: int) -> str:
    """How many labels were missing, imputed, and wrong by expectation."""
    if labels.missing == 0:
        return f"None of the {counted(rows, 'row')} is without a label, so nothing had to be imputed."
    missing = f"Of {counted(rows, 'row')}, {count(labels.missing)} ({share_of(labels.missing, rows)}) had no label."
    if labels.imputed == 0:
        return f"{missing} None of them could be imputed."
    which = "all of them" if labels.unfilled == 0 else f"{count(labels.imputed)} of them"
    return f"{missing} The model imputed {which}{_expected(labels)}."


def _expected(labels: LabelFacts) -> str:
    errors = labels.certainty.expected_errors
    if errors is None:
        return ""
    wrong = "none" if errors < HALF else f"about {count(round(errors))}"
    return f", and expects {wrong} of these to be wrong if its probabilities are right"


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
    return f"If missingness had nothing to do with difficulty, {often} would look at least like this ({sign})."


def missingness_lead(missingness: MissingnessFacts) -> str:
    """Which rows lose their labels, and how often."""
    if missingness.informative is None:
        lead = "Whether hard rows lose their labels more often could not be tested"
    elif not missingness.informative:
        lead = "There is no clear sign that the labels of hard rows are missing more often than those of easy ones"
    elif missingness.toss_up is not None and missingness.certain is not None:
        harder = missingness.toss_up > missingness.certain
        lead = (
            f"{'Hard' if harder else 'Easy'} rows lose their labels more often than {'easy' if harder else 'hard'} ones"
        )
    else:
        lead = "Missing labels depend on how hard a row is to classify"
    if missingness.toss_up is None or missingness.certain is None:
        return f"{lead}."
    return (
        f"{lead}: by the fitted curve a label is missing with probability {percent(missingness.toss_up)} where the class is "
        f"a toss-up, and {percent(missingness.certain)} where it is certain."
    )


def uncertainty_lead(labels: LabelFacts) -> str:
    """How many of the imputed labels are clear."""
    if labels.imputed == 0:
        return "No label was imputed."
    clear, unclear = labels.certainty.at_least_90, labels.imputed - labels.certainty.at_least_90
    if unclear == 0:
        return f"Every one of the {count(labels.imputed)} imputed labels has a probability of at least 90{SPACE}%."
    return (
        f"{count(clear)} of the {count(labels.imputed)} imputed labels ({share_of(clear, labels.imputed)}) have a probability "
        f"of at least 90{SPACE}%; the other {count(unclear)} are where an expert helps most."
    )


def classes_lead(labels: LabelFacts) -> str:
    """The largest class, before and after imputation."""
    if not labels.classes or labels.given + labels.imputed == 0:
        return "No class has a label."
    largest = max(labels.classes, key=lambda one: one.given + one.imputed)
    after = share_of(largest.given + largest.imputed, labels.given + labels.imputed)
    before = share_of(largest.given, labels.given)
    if labels.imputed == 0:
        return f"{name(largest.name)} is the largest class, with {before} of the labels."
    return f"With the imputed labels, {name(largest.name)} is the largest class: {after} of all labels, {before} of those given."


def trust_lead(scores: Sequence[ScoreFacts]) -> str:
    """How often the model is right, for rows of all kinds."""
    for score in scores:
        if score.name.lower() == "accuracy":
            error = "" if score.stderr != score.stderr else f", give or take {max(1, round(200.0 * score.stderr))}"
            right = f"about {round(100.0 * score.value)} of 100 labels right{error}"
            return f"Of rows it has not seen, those without a label among them, the model gets {right}."
    return "Where the calibration curve follows the diagonal, a stated probability can be taken at its word."


def correction(scores: Sequence[ScoreFacts]) -> str:
    """Why plain and corrected scores differ, and which way they do here."""
    why = (
        "The plain score looks only at rows whose label is known. If easy rows keep their labels more often, that makes a model "
        "look better than it is. The corrected score lets each labelled row stand for the rows like it that have lost theirs, "
        "and takes the models' own probabilities where hardly any such row has a label."
    )
    gaps = [(s.plain - s.value) * (1.0 if s.better == "higher" else -1.0) / max(s.stderr, 1e-12) for s in scores]
    if all(abs(gap) <= 1.0 for gap in gaps):
        return f"{why} Here the two agree within the standard error."
    if all(gap >= -1.0 for gap in gaps):
        return f"{why} Here the plain scores are too optimistic."
    if all(gap <= 1.0 for gap in gaps):
        return f"{why} Here the plain scores are too pessimistic."
    return f"{why} Here some plain scores are too good and some are not good enough."


def help_verdict(comparison: Comparison) -> str:
    """One or two words on whether modelling the missingness helped."""
    if comparison.helped is None:
        return "Not compared"
    if comparison.helped:
        return "It helped"
    if comparison.gain is not None and comparison.stderr is not None and comparison.gain < -2.0 * comparison.stderr:
        return "It made things worse"
    return "No clear gain"


def informative_verdict(missingness: MissingnessFacts) -> str:
    """One or two words on whether missingness is informative."""
    return {True: "Yes", False: "No clear sign", None: "Not tested"}[missingness.informative]


def threshold_lead(thresholds: Sequence[Thresholds]) -> str:
    """The trade, and where it stands at one half."""
    trade = "A higher threshold makes fewer false alarms and misses more cases."
    for one in thresholds[:1]:
        middle = min(range(len(one.at)), key=lambda i: abs(one.at[i] - HALF))
        precision, recall = one.precision[middle], one.recall[middle]
        if precision is not None and recall is not None:
            return (
                f"{trade} At {percent(one.at[middle])}, {percent(precision)} of the rows called {name(one.positive)} are "
                f"{name(one.positive)}, and {percent(recall)} of the rows that are {name(one.positive)} are found."
            )
    return trade


def rows_lead(shown: int, of: int) -> str:
    """How many rows the table holds."""
    if shown == 0:
        return "There is no row without a label."
    which = f"All {count(of)} rows" if shown >= of else f"The {count(shown)} rows of {count(of)}"
    return f"{which} without a label, the most uncertain first: labels for the first ones teach the model most."


def estimates_lead(estimates: Sequence[Estimate]) -> str:
    """How many numbers were estimated, and whether they have intervals."""
    if not estimates:
        return "This model has no parameters to show."
    sized = sum(estimate.low is not None for estimate in estimates)
    lead = f"The model has {counted(len(estimates), 'parameter')}"
    if sized == 0:
        return f"{lead}; intervals could not be computed for this fit."
    rest = "" if sized == len(estimates) else f" (for {count(sized)} of them)"
    return (
        f"{lead}. The interval{rest} is the range that the data allow for its true value, with 95{SPACE}% confidence."
    )


def is_mechanism(estimate: Estimate) -> bool:
    """Whether a parameter is one of the missingness curve, by its name."""
    return estimate.name in ("alpha_0", "alpha_1", "shape", "share") or estimate.name.startswith("alpha[")


def convergence(findings: Findings) -> str:
    """How the fit ended."""
    model = findings.model
    end = "converged" if model.converged else "did not converge: do not rely on its numbers"
    work = f"after {counted(model.iterations, 'iteration')}"
    return (
        f"The fit {end} {work}; its log-likelihood is {figure(model.loglik)}."
        if model.converged
        else f"The fit {end} ({work})."
    )


def warnings_lead(warnings: Sequence[str]) -> str:
    """How many things to know."""
    many = "One thing" if len(warnings) == 1 else f"{count(len(warnings))} things"
    return f"{many} to know before you rely on these numbers." if warnings else "None."


def features_words(features: Sequence[str]) -> str:
    """The first features by name, and how many more."""
    names = [name(feature) for feature in features[:12]]
    return listed(names) if len(features) <= 12 else f"{', '.join(names)} and {count(len(features) - 12)} more"
