"""The contents of a report as plain values; `summary.json` holds the findings."""

from dataclasses import asdict, dataclass, field
from typing import Any

from marmix.core.labels import missing_in_words
from marmix.evaluation.joint import Range
from marmix.evaluation.verdict import UNKNOWN, Verdict


@dataclass(frozen=True)
class DataFacts:
    """The data file."""

    file: str
    rows: int
    label: str
    id: str | None
    features: list[str]  # columns of the file
    columns: list[str]  # features of the model, with one-hot columns for categories
    incomplete_rows: int  # rows with a missing feature
    rule: str  # how these are treated, in words
    notes: list[str]


@dataclass(frozen=True)
class ClassFacts:
    """Given and imputed labels of a class, and how right these are if labels are missing because of the features."""

    name: str
    given: int
    imputed: int
    precision: Range = UNKNOWN  # share of the rows imputed as this class that belong to it
    recall: Range = UNKNOWN  # share of the unlabelled rows of this class that are imputed as it
    share: Range = UNKNOWN  # of this class among all rows, labelled or not


@dataclass(frozen=True)
class Caution:
    """A warning, and what to do about it."""

    level: str  # "serious", "caution" or "note"
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Contender:
    """A line of the scoreboard: estimates, and what the labelled rows alone would have claimed."""

    name: str  # "marmix", "logistic regression", "random forest", "boosted trees"
    ours: bool
    wrong: Range  # labels it gets wrong among the rows without a label
    claimed_wrong: float | None  # the same, if these rows were like the labelled ones, held out
    claimed_accuracy: float | None  # of the labelled rows, held out
    log_loss: Range  # of all rows
    claimed_log_loss: float | None


@dataclass(frozen=True)
class SetFacts:
    """Conformal sets of the rows with an imputed label."""

    coverage: float  # share of the sets that hold the true class, if P(label missing) is right
    single: int  # sets of one class
    mean_size: float


@dataclass(frozen=True)
class VoteFacts:
    """Rows with votes in place of a label."""

    rows: int  # with at least one vote
    divided: int  # with votes for several classes
    without_majority: int  # no class has more than half of the votes

    def sentence(self) -> str:
        """The counts in a sentence."""
        return (
            f"{self.rows:,} rows have votes: {self.divided:,} of them for several classes, {self.without_majority:,} without a "
            "majority. A row counts once, with the shares of its votes; its given label is the most voted class."
        )


@dataclass(frozen=True)
class LabelFacts:
    """Counts of given, missing and imputed labels."""

    given: int
    missing: int
    imputed: int
    unfilled: int  # missing and not imputed, because a feature is missing
    classes: list[ClassFacts]
    sets: SetFacts | None = None
    votes: VoteFacts | None = None  # None if each row has one label
    missing_texts: dict[str, int] = field(default_factory=dict)  # texts that counted as missing, "" for empty cells

    def missing_in_words(self) -> str:
        """Which texts counted as missing labels, and how often."""
        return missing_in_words(self.missing_texts, "row" if self.votes is None else "cell")


@dataclass(frozen=True)
class ModelFacts:
    """The classifier that predicts: an average of candidates or, from earlier versions, a single model."""

    name: str  # in words: "average of 5 models: logistic regression 0.61, Gaussian classes 0.39"
    kind: str  # the class: "MARClassifierCV"
    converged: bool  # whether candidates with at least half of the weight converged
    candidates: list[dict[str, Any]]  # candidate, weight, mechanism, log_loss, log_loss_stderr, ..., rows
    rule: str = ""  # how candidates were fitted and left out, in sentences


@dataclass(frozen=True)
class StatisticalFacts:
    """The model whose parameters are reported: the best candidate that has some."""

    name: str  # in words
    kind: str  # the class: "MARGaussianMixture"
    parameters: dict[str, Any]  # those that differ from the defaults
    converged: bool
    loglik: float
    iterations: int
    passes: int
    weight: float  # in the average
    units: str = ""  # of the parameters, in a sentence; empty if those of the file


@dataclass(frozen=True)
class MissingnessFacts:
    """Whether labels of hard rows are missing more often."""

    informative: bool | None  # None if not tested
    p_value: float | None
    test: str  # name of the test
    sentence: str
    toss_up: float | None = None  # P(label missing) if all classes are equally probable
    certain: float | None = None  # P(label missing) if the class is certain


@dataclass(frozen=True)
class Comparison:
    """Log-losses, corrected for missing labels: with a model of the missingness and without, or ours and a usual classifier's."""

    better: bool | None  # None if not compared, or if it cannot be told
    sentence: str
    name: str = ""  # of the usual classifier, the best of them
    ours: float | None = None
    theirs: float | None = None
    gain: float | None = None
    low: float | None = None  # 95 % interval of the gain
    high: float | None = None


@dataclass(frozen=True)
class ScoreFacts:
    """A score, corrected for missing labels and (`plain`) of the labelled rows only."""

    name: str  # "log-loss", "Brier score", "accuracy", "AUC"
    value: float
    stderr: float
    low: float  # 95 % interval
    high: float
    plain: float
    better: str  # "lower" or "higher"


@dataclass(frozen=True)
class Estimate:
    """A parameter with its standard error and 95 % interval, None if not available."""

    name: str
    mechanism: bool  # whether it is one of the missingness
    value: float
    stderr: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Reproduction:
    """What is needed to reproduce the result."""

    command: str
    sha256: str  # of the data file
    versions: dict[str, str]
    seed: int


@dataclass(frozen=True)
class Findings:
    """The contents of `summary.json`."""

    data: DataFacts
    labels: LabelFacts
    model: ModelFacts
    missingness: MissingnessFacts
    comparison: Comparison  # with a model of the missingness and without
    rival: Comparison
    statistical: StatisticalFacts | None
    estimates: list[Estimate]
    reproduction: Reproduction
    verdict: Verdict | None = None  # None if no label was imputed
    cautions: list[Caution] = field(default_factory=list)  # the most serious first
    scored_on: str = ""  # the rows behind the scores, in words
    scoreboard: list[Contender] = field(default_factory=list)  # ours first
    confusion: list[list[float]] | None = None  # expected imputed labels by true class (rows) and imputed class

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with None for NaN and infinities."""
        return {"format": 4} | finite(asdict(self))


@dataclass(frozen=True)
class Figure:
    """A figure, for light and dark pages."""

    key: str  # "missingness" or "calibration"
    title: str
    caption: str  # for readers who are not statisticians
    light: bytes  # PNG
    dark: bytes


@dataclass(frozen=True)
class Contents:
    """The contents of a page."""

    title: str
    findings: Findings
    figures: list[Figure]
    notes: dict[str, str] = field(default_factory=dict)  # why a figure is left out, by its key


def finite(value: Any) -> Any:
    """Plain values, with None for NaN and infinities, which JSON cannot hold."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
