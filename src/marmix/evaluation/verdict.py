"""Whether to use imputed labels: verified by an audit, not verified, or not to be used."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from marmix.core.arrays import Array
from marmix.evaluation.joint import JointTable, Range

VERIFIED, NOT_VERIFIED, DO_NOT_USE = STATES = ("verified", "not verified", "do not use")
ACCEPT = 0.10  # share of wrong labels that is accepted by default
ROWS = 20  # of a first audit
DIFFERENT = 0.20  # total variation between the classes of given and of imputed labels from which an audit comes first
TOO_FEW, FEW = 5, 20  # labels of a class
UNKNOWN = Range(None, None, None)
_OF_CLASS = "labels {} are right", "rows that are {} are found"  # by precision, by recall


@dataclass(frozen=True, repr=False)
class Verdict:
    """Whether to use imputed labels; as text, the state and its reasons.

    Attributes
    ----------
    state : {"verified", "not verified", "do not use"}
        "verified" after an audit whose upper limit of wrong labels is within the accepted share.
    sentence : str
        How many labels are wrong, and under which condition.
    reasons : list of str
        What else speaks against using them.
    next : str
        What to do.
    command : str
        The command or code that does it, or "".
    of : int
        Number of imputed labels.
    wrong : Range
        How many of them are wrong, with its 95 % interval: after an audit whatever hid the labels, without one if labels are
        missing because of the features. None in place of numbers if the labels say too little.
    hidden : Range
        Without an audit the same, also if for a hidden reason the odds of losing the label are up to three times as high in
        some class (as 70 % is against 44 %).
    accept : float
        The accepted share of wrong labels.

    See Also
    --------
    marmix.MARClassifierCV : has one without an audit, `verdict_`.
    marmix.AuditResult : has one that rests on an audit.
    """

    state: str
    sentence: str
    reasons: list[str]
    next: str
    command: str
    of: int
    wrong: Range
    hidden: Range
    accept: float

    @property
    def doing(self) -> str:
        """What to do, with the command."""
        return f"{self.next}: {self.command}" if self.command else f"{self.next}."

    def __repr__(self) -> str:
        return "\n".join([f"{self.state.capitalize()}. {self.sentence}", *self.reasons, self.doing])


class Grounds(NamedTuple):
    """What a verdict without an audit rests on."""

    given: Mapping[str, float]  # labels of each class
    imputed: Mapping[str, float]
    audit: Callable[[int], str]  # the command that draws so many rows
    wrong: Range = UNKNOWN
    hidden: Range = UNKNOWN
    frequent: str = ""  # the most frequent class of the unlabelled rows
    most: float = 0.0  # their number
    log_loss: float = 0.0
    converged: bool = True
    rival: str = ""  # a usual classifier that is clearly better
    accept: float = ACCEPT
    classes: Sequence[Array] = ()  # shares of the classes among the unlabelled rows, in draws

    def with_table(self, table: JointTable) -> "Grounds":
        """These grounds with the numbers of wrong labels in a table."""
        of_class = table.confusion().sum(axis=1)
        k, draws = int(of_class.argmax()), table.tables[1:, 1].sum(axis=2)
        return self._replace(
            wrong=table.wrong(),
            hidden=table.hidden(),
            classes=[*(draws / draws.sum(axis=1, keepdims=True))],
            frequent=[*self.imputed][k],
            most=float(of_class[k]),
        )


def verdict(it: Grounds) -> Verdict:
    """The verdict without an audit, which is never "verified".

    Parameters
    ----------
    it : Grounds
        Labels, their estimated errors, and what else is known.

    Returns
    -------
    Verdict
    """
    n = round(sum(it.imputed.values()))
    rows, difference = min(ROWS, n), _difference(it)
    problems, reasons = _problems(it, n), [difference] if difference else []
    if it.wrong.low is not None and it.wrong.low > it.accept * n:
        reasons.append(
            f"Even at best, more than the {percent(it.accept)} that you accept are wrong; an audit also corrects labels."
        )
    if (few := _scarce(it, FEW)) and not _scarce(it, TOO_FEW):
        reasons.append(f"{few}: every number here is uncertain.")
    if it.rival:
        reasons.append(f"A usual classifier of the labelled rows alone, {it.rival}, is clearly better here.")
    sentence = f"How many of the {n:,} imputed labels are wrong cannot be told."
    if it.wrong.value is not None:
        sentence = (
            f"If labels are missing only because rows are hard, about {counts(it.wrong)} of the {n:,} imputed labels are wrong. "
            f"If the odds of losing the label are up to three times as high in some class, {it.hidden.low:,.0f} to "
            f"{it.hidden.high:,.0f} are, and with a stronger reason it may be more. Only labelled rows can tell."
        )
    state, doing, command = NOT_VERIFIED, f"Label {rows} rows that chance draws", it.audit(rows)
    if problems:
        state, doing, command = DO_NOT_USE, problems[0][1], ""
        reasons = [*(text for text, _ in problems), *reasons]
    elif difference:
        doing = f"Before anything else, label {rows} rows that chance draws"
    return Verdict(state, sentence, reasons, doing, command, n, it.wrong, it.hidden, it.accept)


def verdict_after(
    before: tuple[float, float, float],
    after: tuple[float, float, float],
    of: int,
    left: int,
    *,
    labelled: int,
    contradicted: bool,
    untold: int = 0,
    classes: Mapping[Any, Any] = MappingProxyType({}),
    accept: float = ACCEPT,
    audit: Callable[[int], str],
    hardest: str = "",
) -> Verdict:
    """The verdict that rests on an audit.

    Parameters
    ----------
    before, after : value, low and high
        Number of wrong labels among all imputed ones before the audit, and after learning from it among those not audited.
    of, left : int
        How many labels these are.
    labelled : int
        Rows of the audit with a label.
    contradicted : bool
        Whether the audit contradicts the model.
    untold : int, default=0
        Rows of the audit that nobody could tell.
    classes : mapping, default={}
        Precision and recall after learning, each with its limits, by class.
    accept : float
        Share of wrong labels that is accepted.
    audit : callable
        The command that draws so many rows.
    hardest : str, default=""
        The command that draws the hardest rows.

    Returns
    -------
    Verdict
        "verified" if the upper limit is accepted, and that of precision and of recall is one half or more in every class; "do
        not use" if the lower limit is not accepted, or if the audit contradicts the model, learning from it did not help, and
        the value is not accepted either; otherwise "not verified".
    """
    value, low, high = after
    limit, drawn = accept * left, f"{labelled:,} rows drawn by chance were labelled."
    if untold:
        drawn = f"{labelled + untold:,} rows were drawn by chance: {labelled:,} labelled, {untold:,} that nobody could tell."
    if not labelled:
        sentence, doing = (
            f"{drawn} So nothing is known about the imputed labels.",
            f"Label {ROWS} more rows that chance draws",
        )
        return Verdict(NOT_VERIFIED, sentence, [], doing, audit(ROWS), left, UNKNOWN, UNKNOWN, accept)
    sentence = "Every row was labelled."
    if left:
        sentence = (
            f"{drawn} After learning from them about {counts(after)[:-1]}, approximately) of the other {left:,} imputed labels "
            f"are wrong, whatever hid them; you accept {limit:,.0f} ({percent(accept)})."
        )
    reasons = [
        f"{'Fewer than half of the' if it.value else 'None of the audited'} {text.format(repr(name))}: {percent(it.value)} "
        f"({100.0 * it.low:.0f} to {100.0 * it.high:.0f}). Do not decide about single rows by these labels."
        for name, one in classes.items()
        for it, text in zip(one, _OF_CLASS, strict=False)
        if left and it.high < 0.5
    ]
    state, doing, command = NOT_VERIFIED, "Label the hardest rows and fit again", hardest
    if high <= limit and not reasons:
        state, doing, command = VERIFIED, "Use these labels", ""
    elif low > limit or (contradicted and value > limit and value * of >= before[0] * left):
        state = DO_NOT_USE
    elif value <= limit < high:
        more = min(max(rows_needed(value / left, accept) - labelled, 10), left)
        doing, command = f"Label about {more:,} more rows that chance draws, to know whether that is so", audit(more)
    elif contradicted and value > limit:
        doing, command = f"Label {min(ROWS, left)} more rows that chance draws", audit(min(ROWS, left))
    reasons.append(
        f"Before, about {counts(before)} of the {of:,} imputed labels were wrong. The audit "
        f"{'contradicts' if contradicted else 'does not contradict'} the probabilities of the model."
    )
    return Verdict(state, sentence, reasons, doing, command, left, Range(*after), UNKNOWN, accept)


def rows_needed(share: float, accept: float) -> int:
    """Rows to audit so that a share of wrong labels has an upper limit (Clopper-Pearson, 97.5 %) that is accepted."""
    k = np.arange(10, 5001, 10)
    x = np.ceil(share * k)
    enough = betaincinv(x + 1, np.maximum(k - x, 1e-9), 0.975) <= accept
    return int(k[enough.argmax()] if enough.any() else k[-1])


def counts(it: tuple[float | None, float | None, float | None]) -> str:
    """A number of labels and its interval, as in "131 (94 to 206)"."""
    return "{:,.0f} ({:,.0f} to {:,.0f})".format(*it)


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100.0 * share:.3g} %"


def _scarce(it: Grounds, enough: int) -> str:
    """The start of a sentence if classes have fewer labels than enough."""
    few = [f"Only {labels:,.0f} rows are labelled {name!r}" for name, labels in it.given.items() if labels < enough]
    return f"{len(few)} classes have fewer than {enough} labels" if few[1:] else "".join(few)


def _difference(it: Grounds) -> str:
    """A sentence if labelled and unlabelled rows are, or may well be, of very different classes."""
    given, imputed = (np.array([*part.values()]) / max(sum(part.values()), 1.0) for part in (it.given, it.imputed))
    draws = np.array([imputed, *it.classes])
    apart = 0.5 * np.abs(draws - given).sum(axis=1)
    if max(apart[0], np.quantile(apart, 0.975)) < DIFFERENT:
        return ""
    k = int(np.abs(draws.mean(axis=0) - given).argmax())
    before, low, high = 100.0 * given[k], *np.quantile(100.0 * draws[:, k], [0.025, 0.975])
    return (
        f"{before:.0f} % of the given labels are {[*it.given][k]!r}; of the others, the model expects {low:.0f} to {high:.0f} %. "
        "So large a difference often means that labels are missing because of the class itself, and then the model is wrong."
    )


def _problems(it: Grounds, n: int) -> list[tuple[str, str]]:
    """Why labels should not be used, and what to do about it, without an audit."""
    wrong, problems = it.wrong, []
    if few := _scarce(it, TOO_FEW):
        problems.append((f"{few}.", f"Label more rows until every class has {FEW} labels"))
    if not it.converged:
        problems.append(("The fit did not converge.", "Try a simpler model or fewer features"))
    if wrong.value is None or wrong.low is None:
        problems.append(("The given labels say too little about the imputed ones.", "Label more rows"))
    elif wrong.low > 0.5 * n:
        problems.append(("Even at best, more than half of the imputed labels are wrong.", "Label more rows"))
    elif wrong.value > max(it.accept * n, n - it.most):
        text = f"Calling every one of these rows {it.frequent!r} would get fewer of them wrong."
        problems.append((text, "Label more rows, or use the probabilities to rank the rows"))
    if it.log_loss > (guessing := np.log(len(it.given))):
        text = f"The log-loss, {it.log_loss:.3f}, is worse than that of equal probabilities, {guessing:.3f}."
        problems.append((text, "Try another model or other features"))
    return problems
