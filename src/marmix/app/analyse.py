"""`analyse`: from the rows of a table to findings, as plain values; it prints nothing and writes no files."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray

import marmix
from marmix.app import facts
from marmix.app.findings import (
    Caution,
    ClassFacts,
    Comparison,
    Contender,
    Contents,
    DataFacts,
    Findings,
    LabelFacts,
    MissingnessFacts,
    ModelFacts,
    Reproduction,
    SetFacts,
    VoteFacts,
)
from marmix.app.models import (
    Model,
    Predicted,
    Sample,
    Step,
    averaged,
    candidates_of,
    compared,
    given_codes,
    predicted,
    sampled,
    sets_of,
    statistical,
    with_labels,
)
from marmix.app.page import Subject, figures
from marmix.app.reading import Table
from marmix.app.survey import PREFIX, Plan, Rows
from marmix.app.wording import LEVELS, note_cautions
from marmix.core.arrays import Array
from marmix.core.labels import label_shares
from marmix.evaluation.joint import JointTable, Range
from marmix.evaluation.prior import class_offsets, prior_of, tilted, unlabelled_counts
from marmix.evaluation.verdict import ACCEPT, UNKNOWN, Grounds, Verdict, verdict
from marmix.selection.average import MARClassifierCV
from marmix.selection.comparison import Comparison as Compared
from marmix.selection.comparison import hedged
from marmix.selection.held_out import sample_places
from marmix.tables.preparation import Preparation
from marmix.terminal import command_line

RULES = {
    "median": "Trees take missing values as they are. For other models, a missing number is the median of its column, a missing "
    "category the most frequent one.",
    "drop": "Rows with a missing feature were left out of the fit and have no imputed label.",
}
OTHER_ROWS = "Not compared: these are not the rows the model was fitted to."
ALL_LABELLED = "No label is missing, so nothing was imputed."
FOLDS = 5
_FIGURE_ROWS = 100_000  # most rows behind a figure; more would not change it visibly
_HEAVY = 0.1  # weight from which the notes of a candidate are shown
_UNCONVERGED = 0.05  # weight from which candidates that did not converge are mentioned


class Source(NamedTuple):
    """Where rows are from: their table, what it is called, and how the analysis is repeated."""

    file: str
    label: str
    id: str | None
    notes: Sequence[str]
    digest: str  # sha256
    command: str
    seed: int
    audit: Callable[[int], str] = "marmix.Audit(clf, X, y, n={})".format  # how to draw so many rows for an audit
    accept: float = ACCEPT  # share of wrong labels


@dataclass(frozen=True)
class Analysis:
    """What `analyse` finds: the findings, what the figures show, the fitted classifier, and columns to add to the rows."""

    findings: Findings
    subject: Subject  # of the figures
    classifier: Any
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)

    def contents(self) -> Contents:
        """The contents of the page, with the figures drawn."""
        drawn, left_out = figures(self.subject)
        title = f"Labels of {self.findings.data.file}"
        return Contents(title, self.findings, drawn, left_out)


@dataclass(frozen=True, eq=False)
class Case:
    """Rows, a classifier of them, and what held-out rows say about it."""

    source: Source
    preparation: Preparation
    rows: Rows
    model: Model
    comparison: Compared | None  # of the candidates; None if these are not the rows of the fit
    prior: Array | None  # known shares of the classes
    sample: Sample
    predictions: Predicted
    tested: facts.TestedRows | None
    tests: facts.ParameterTests
    sets: SetFacts | None = None

    @cached_property
    def shares(self) -> Array:
        """Shares of the classes in the label of each row of the sample, zero where missing."""
        return label_shares(self.sample.labels, np.arange(len(self.model.classes)))

    @cached_property
    def labelled(self) -> NDArray[np.bool_]:
        """Which rows of the sample have a label."""
        return np.asarray(self.shares.any(axis=1))

    @cached_property
    def proba(self) -> Array:
        """Probabilities of the sample."""
        return self.predictions.proba[self.rows.complete][self.sample.places]

    @cached_property
    def without(self) -> NDArray[np.bool_]:
        """Which rows of the table have an imputed label."""
        return np.asarray(self.rows.complete & (given_codes(self.rows, self.predictions.proba) < 0))

    @cached_property
    def imputed(self) -> NDArray[np.int64]:
        """Imputed labels of each class."""
        return np.bincount(self.predictions.code[self.without], minlength=len(self.model.classes))

    @cached_property
    def given(self) -> Array:
        """Given labels of each class among the complete rows, or shares of them."""
        return label_shares(self.rows.labels, np.arange(len(self.model.classes))).sum(axis=0)

    @cached_property
    def joint(self) -> JointTable | None:
        """The table behind every figure about imputed labels; None if there is nothing to say about them.

        Labelled rows count with their held-out predictions, the others with those written to the file. Numbers of a sample are
        scaled to those of the file.
        """
        if self.tested is None:
            return None
        joint = self.joint_of(np.where(self.labelled[:, None], self.tested.proba, self.proba), self.imputed)
        return joint if joint.wrong().value is not None or not self.imputed.any() else None

    def joint_of(self, proba: Array, imputed: NDArray[Any] | None = None) -> JointTable:
        """The table of predictions of the sample, scaled to the file; `imputed` labels of each class, if known."""
        assert self.tested is not None
        joint = JointTable.of(self.shares, proba, self.tested.posterior)
        if len(self.sample.z) == len(self.rows.X):
            return joint
        column = joint.tables[0, 1].sum(axis=0)
        return joint.scaled(
            self.given, self.imputed.sum() * column / max(column.sum(), 1.0) if imputed is None else imputed
        )

    @property
    def features(self) -> list[str]:
        """Names of the features of the model."""
        return self.preparation.encoded_names().tolist()

    @property
    def any_missing(self) -> bool:
        """Whether some complete row has no label."""
        return bool((self.rows.z < 0).any())


def analyse(table: Table, plan: Plan, step: Step = lambda *_: None) -> Analysis:
    """Compare the candidates, impute labels by their average, and find out how right these are.

    `step` is called with the finished share of the work, and what is done next.
    """
    options, rows = plan.options, plan.rows
    prior = prior_of(options.prevalence or None, rows.classes.astype(str))
    if prior is not None:
        unlabelled_counts(prior, rows.labels, rows.classes)  # raises if the labels contradict the shares
    if options.sets is not None and not (rows.z < 0).any():
        raise ValueError("--sets is for rows without a label, and there are none.")
    sample = sampled(rows, options.seed)
    categories = any(column["kind"] in ("category", "boolean") for column in plan.preparation.columns_)
    cv = MARClassifierCV(
        estimators=candidates_of(options.model, sample, len(rows.classes), categories),
        cv=FOLDS,
        rivals=True,
        prior=prior,
        time_limit=options.time_limit,
        random_state=options.seed,
    )
    comparison = compared(cv, sample, part(step, 0.0, 0.8))
    average = averaged(cv, comparison, rows.X, rows.labels, part(step, 0.8, 0.9), rows.missing)
    leading = statistical(comparison)
    model = Model(average, None if leading is None else average.estimators_[leading], rows.classes)
    step(0.9, "tests and intervals")
    tests = facts.parameter_tests(model, rows.X, rows.labels, plan.preparation.encoded_names().tolist(), rows.missing)
    predictions = predicted(average, rows.X, rows.complete, part(step, 0.92, 0.94))
    labelled, source = with_labels(predictions, rows)
    columns = labelled.columns(rows.classes.astype(str).tolist(), source)
    tested, sets = facts.held_out(comparison, sample.labels, len(rows.X)), None
    if options.sets is not None:
        texts, sets = sets_of(options.sets, sample, None if tested is None else tested.proba, rows, predictions)
        columns[f"{PREFIX}set"] = texts
    case = Case(
        source=Source(
            file=table.path.name,
            label=", ".join(options.label_columns),
            id=options.id,
            notes=[*table.notes, *plan.preparation.notes_],
            digest=table.digest,
            command=command_line(options.command),
            seed=options.seed,
            audit=lambda rows: command_line(["marmix", "audit", str(options.out), "--rows", str(rows)]),
            accept=options.accept,
        ),
        preparation=plan.preparation,
        rows=rows,
        model=model,
        comparison=comparison,
        prior=prior,
        sample=sample,
        predictions=predictions,
        tested=tested,
        tests=tests,
        sets=sets,
    )
    analysis = analysis_of(case, [Caution("note", text) for text in plan.notes])
    average.selection_ = replace(average.selection_, kept_verdict=analysis.findings.verdict)
    return replace(analysis, classifier=model.named(), columns=columns)


def part(step: Step, start: float, end: float) -> Step:
    """The step of a part of the work that takes it from one share to another."""
    return lambda share, doing: step(start + (end - start) * min(share, 1.0), doing)


def analysis_of(case: Case, others: Sequence[Caution] = ()) -> Analysis:
    """The analysis of a case; `others` are cautions about the data."""
    it, board = case.comparison, _scoreboard(case)
    rival = facts.rival(it) if it else Comparison(None, OTHER_ROWS)
    findings = Findings(
        data=_data_facts(case),
        labels=_label_facts(case),
        model=_model_facts(case),
        missingness=_missingness(case),
        comparison=facts.comparison(it, case.any_missing) if it else Comparison(None, OTHER_ROWS),
        rival=rival,
        statistical=facts.statistical_facts(case.model, case.any_missing),
        estimates=list(case.tests.estimates),
        reproduction=_reproduction(case.source),
        verdict=_verdict(case, board, rival) if case.imputed.any() else None,
        cautions=sorted([*others, *_notes(case)], key=lambda one: LEVELS.index(one.level)),
        scored_on=case.tested.where if case.tested else "",
        scoreboard=board,
        confusion=None if case.joint is None or not case.imputed.any() else case.joint.confusion().tolist(),
    )
    places = sample_places(case.rows.z, seed=0, size=_FIGURE_ROWS)
    subject = Subject(
        case.model.classifier, case.rows.X[places], case.rows.z[places], case.tested and case.tested.predictions()
    )
    return Analysis(findings, subject, case.model.classifier)


def _data_facts(case: Case) -> DataFacts:
    incomplete, source = case.rows.counts.rows, case.source
    return DataFacts(
        file=source.file,
        rows=len(case.rows.codes),
        label=source.label,
        id=source.id,
        features=[column["name"] for column in case.preparation.columns_],
        columns=case.features,
        incomplete_rows=incomplete,
        rule=RULES[case.preparation.impute] if incomplete else "No feature is missing.",
        notes=list(source.notes),
    )


def _reproduction(source: Source) -> Reproduction:
    versions = {
        "marmix": marmix.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    return Reproduction(source.command, source.digest, versions, source.seed)


def _label_facts(case: Case) -> LabelFacts:
    """Given, missing and imputed labels, and how right the imputed ones are."""
    codes, K, joint = case.rows.codes, len(case.model.classes), case.joint
    given, imputed = np.bincount(codes[codes >= 0], minlength=K), int(case.imputed.sum())
    columns = [[UNKNOWN] * K] * 3 if joint is None else [joint.precision(), joint.recall(), joint.shares()]
    missing, shares = int(np.sum(codes < 0)), case.rows.shares
    votes = None
    if shares is not None:
        voted, largest = shares.any(axis=1), shares.max(axis=1)
        divided, undecided = (int(np.sum(voted & which)) for which in (largest < 1.0, largest <= 0.5))
        votes = VoteFacts(rows=int(voted.sum()), divided=divided, without_majority=undecided)
    return LabelFacts(
        given=int(given.sum()),
        missing=missing,
        imputed=imputed,
        unfilled=missing - imputed,
        classes=[
            ClassFacts(str(name), int(a), int(b), *ranges)
            for name, a, b, *ranges in zip(case.model.classes, given, case.imputed, *columns, strict=True)
        ],
        sets=case.sets,
        votes=votes,
        missing_texts=dict(case.rows.marks),
    )


def _model_facts(case: Case) -> ModelFacts:
    model, it = case.model, case.comparison
    return ModelFacts(
        name=model.words(case.any_missing),
        kind=type(model.classifier if model.averages else model.classifier[-1]).__name__,
        converged=model.unconverged <= 0.5,
        candidates=facts.candidate_rows(it, model, case.any_missing) if it else [],
        rule=facts.rule(it, model, len(case.rows.X), len(case.sample.z)) if it and model.averages else "",
    )


def _missingness(case: Case) -> MissingnessFacts:
    result = facts.missingness_facts(case.model, case.tests)
    notes = () if case.comparison is None else case.comparison.notes
    if result.informative and any(note.code == "no-support" for note in notes):
        return replace(result, informative=None, p_value=None, test="", sentence=facts.LINEAR)
    return result


def _scoreboard(case: Case) -> list[Contender]:
    """Our average, and usual classifiers of the labelled rows: held out for these, fitted to all of them for the others."""
    if case.tested is None or case.joint is None:
        return []
    contenders = [_contender(case, "marmix", case.joint, case.tested.proba)]
    it = case.comparison
    if it is None or it.rows is None or it.rivals is None:
        return contenders
    for name, pipeline in it.rivals.items():
        held_out, everywhere = it.rows.probas[name], hedged(pipeline.predict_proba(case.sample.X))
        if case.prior is not None:
            unlabelled = unlabelled_counts(case.prior, case.sample.labels, case.model.classes)
            everywhere = tilted(everywhere, class_offsets(everywhere[~case.labelled], unlabelled))
        joint = case.joint_of(np.where(case.labelled[:, None], held_out, everywhere))
        contenders.append(_contender(case, name, joint, held_out))
    return contenders


def _contender(case: Case, name: str, joint: JointTable, held_out: Array) -> Contender:
    assert case.tested is not None
    scores = {score.name: score for score in facts.score_facts(case.tested._replace(proba=held_out).scores())}
    loss, right = scores["log-loss"], scores["accuracy"].plain
    return Contender(
        name=name,
        ours=joint is case.joint,
        wrong=joint.wrong(),
        claimed_wrong=float((1.0 - right) * case.imputed.sum()),
        claimed_accuracy=right,
        log_loss=Range(loss.value, loss.low, loss.high),
        claimed_log_loss=loss.plain,
    )


def _verdict(case: Case, board: Sequence[Contender], rival: Comparison) -> Verdict:
    """The verdict without an audit."""
    names, joint = [str(name) for name in case.model.classes], case.joint
    loss = board[0].log_loss.value if board else None
    grounds = Grounds(
        given=dict(zip(names, case.given.tolist(), strict=True)),
        imputed=dict(zip(names, case.imputed.tolist(), strict=True)),
        audit=case.source.audit,
        log_loss=loss or 0.0,
        converged=case.model.unconverged <= 0.5,
        rival=rival.name if rival.high is not None and rival.high < 0.0 else "",
        accept=case.source.accept,
    )
    return verdict(grounds if joint is None else grounds.with_table(joint))


def _notes(case: Case) -> list[Caution]:
    """Other cautions about the fit and the rows."""
    texts, rows, model = list[str](), case.rows, case.model
    if _UNCONVERGED <= model.unconverged <= 0.5:
        texts.append(f"Candidates with a total weight of {model.unconverged:.2f} in the average did not converge.")
    if not (rows.codes < 0).any():
        texts.append(ALL_LABELLED)
    texts += rows.counts.notes()
    if rows.counts.rows:
        share = rows.counts.rows / len(rows.codes)
        texts.append(
            f"{rows.counts.rows:,} rows ({share:.1%}) have a missing feature. {RULES[case.preparation.impute]}"
        )
    if case.tests.reason:
        texts.append(case.tests.reason)
    heavy = [model.candidates[name] for name, weight in model.weights.items() if weight >= _HEAVY]
    reported = [model.statistical] if model.statistical else []
    models = [pipeline[-1].model_ for pipeline in (*reported, *heavy) if hasattr(pipeline[-1], "model_")]
    notes = [note for fitted in models for note in fitted.notes]
    notes += case.comparison.notes if case.comparison else []
    return [
        *note_cautions(notes, case.features, model.classes),
        *(Caution("note", text) for text in texts),
    ]
