"""What a report says, before it is written: plain values, the same that `summary.json` keeps."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class DataFacts:
    """The rows that were read."""

    file: str
    rows: int
    label: str
    id: str | None
    features: list[str]  # columns of the file
    columns: list[str]  # of the model: the same, one-hot ones unfolded
    incomplete_rows: int  # rows in which a feature is missing
    rule: str  # what was done with them, in words
    notes: list[str]


@dataclass(frozen=True)
class ClassFacts:
    """One class: labels given and imputed."""

    name: str
    given: int
    imputed: int


@dataclass(frozen=True)
class Certainty:
    """How sure the imputed labels are."""

    mean_probability: float | None  # of the imputed label; None where nothing was imputed
    at_least_90: int  # imputed labels whose probability is at least 0.90
    at_least_99: int
    expected_errors: float | None  # the sum of 1 - probability


@dataclass(frozen=True)
class LabelFacts:
    """Labels given, missing, imputed."""

    given: int
    missing: int
    imputed: int
    unfilled: int  # missing, and not imputed because features are missing
    classes: list[ClassFacts]
    certainty: Certainty


@dataclass(frozen=True)
class ModelFacts:
    """The model that was fitted."""

    name: str  # in words: "mixture, tied, mechanism"
    kind: str  # the class: "MARGaussianMixture"
    parameters: dict[str, Any]  # that differ from the defaults
    converged: bool
    loglik: float
    iterations: int
    passes: int
    candidates: list[dict[str, Any]]  # rows of the comparison: candidate, mechanism, log_loss, log_loss_stderr, ...
    units: str = ""  # in which the parameters are, in a sentence; empty: those of the file


@dataclass(frozen=True)
class MissingnessFacts:
    """Whether hard rows lose their labels more often."""

    informative: bool | None  # None where it could not be tested
    p_value: float | None
    test: str  # name of the test
    sentence: str
    toss_up: float | None  # P(label missing) at a toss-up between the classes
    certain: float | None  # and where the class is certain


@dataclass(frozen=True)
class Comparison:
    """Whether modelling the missingness helped, on the log-loss corrected for the rows without label."""

    helped: bool | None  # None where it could not be compared
    sentence: str
    with_it: float | None
    without: float | None
    gain: float | None
    stderr: float | None


@dataclass(frozen=True)
class ScoreFacts:
    """One score: for the whole population, and plain over the labelled rows."""

    name: str  # "log-loss", "Brier score", "accuracy", "AUC"
    value: float
    stderr: float
    plain: float
    better: str  # "lower" or "higher"


@dataclass(frozen=True)
class Estimate:
    """A parameter with its 95 % interval; None where it has none."""

    name: str
    value: float
    stderr: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Reproduction:
    """How to make the same again."""

    command: str
    sha256: str  # of the data file
    versions: dict[str, str]
    seed: int


@dataclass(frozen=True)
class Findings:
    """All that `summary.json` keeps."""

    data: DataFacts
    labels: LabelFacts
    model: ModelFacts
    missingness: MissingnessFacts
    comparison: Comparison
    scores: list[ScoreFacts]
    scored_on: str  # in words: on what the scores were computed
    estimates: list[Estimate]
    warnings: list[str]
    reproduction: Reproduction

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite is None."""
        return {"format": 1} | finite(asdict(self))


@dataclass(frozen=True)
class Figure:
    """A figure as it is shown: in a light and in a dark page."""

    key: str  # "missingness", "uncertainty", "classes", "calibration", "roc"
    title: str
    caption: str  # what to see in it, for people who are not statisticians
    light: bytes  # PNG
    dark: bytes


@dataclass(frozen=True)
class Thresholds:
    """For one class against the rest, what a threshold on its probability would do: arrays over `at`."""

    positive: str
    at: list[float]  # 0, 0.01, ..., 1
    precision: list[float | None]
    recall: list[float | None]
    accuracy: list[float | None]
    unlabelled_above: list[int]  # rows without label with a probability at or above
    unlabelled: int  # rows without label
    all_above: list[int]
    all: int


@dataclass(frozen=True)
class RowTable:
    """The rows most worth labelling next, most uncertain first."""

    columns: list[str]
    numeric: list[bool]  # which columns sort as numbers
    rows: list[list[str | int | float | None]]
    of: int  # rows without label in all
    label: int | None = None  # the place of the column of imputed labels
    uncertainty: int | None = None  # and of the uncertainty, larger where less is known


@dataclass(frozen=True)
class Contents:
    """A report: findings, figures, thresholds, rows."""

    title: str
    findings: Findings
    figures: list[Figure]
    thresholds: list[Thresholds]  # one with two classes, one for each class with more
    next_rows: RowTable
    notes: dict[str, str] = field(default_factory=dict)  # by the key of a figure left out: why


def finite(value: Any) -> Any:
    """The same value with numbers that JSON has not, nan and infinities, as None."""
    if isinstance(value, dict):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
