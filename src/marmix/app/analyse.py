"""`analyse`: from the rows of a table to findings, as plain values; it prints nothing and writes no files."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from scipy.special import entr

import marmix
from marmix.app import facts
from marmix.app.cautions import ENRICHED, FEW, Grounds, cautions, note_cautions, verdict
from marmix.app.figures import Subject, figures
from marmix.app.findings import (
    Caution,
    Certainty,
    ClassFacts,
    Comparison,
    Contender,
    Contents,
    DataFacts,
    Findings,
    Interval,
    LabelFacts,
    LabelsNeeded,
    ModelFacts,
    Reproduction,
    RivalFacts,
    RowTable,
    ScoreFacts,
    SetFacts,
    Thresholds,
    VoteFacts,
)
from marmix.app.models import (
    Model,
    Sample,
    Step,
    averaged,
    candidates_of,
    compared,
    sample_places,
    sampled,
    statistical,
)
from marmix.app.predictions import Predicted, given_codes, next_rows, predicted, sets_of, thresholds, with_labels
from marmix.app.reading import Table
from marmix.app.survey import PREFIX, Plan, Rows
from marmix.core.arrays import Array
from marmix.core.labels import label_shares
from marmix.estimators.doubts import CODES
from marmix.evaluation.joint import JointTable
from marmix.evaluation.prior import class_offsets, prior_of, tilted, unlabelled_counts
from marmix.inference.sensitivity import Sensitivity, Sweep, pattern_mixture, sensitivity, swept
from marmix.selection.average import MARClassifierCV
from marmix.selection.comparison import Comparison as Compared
from marmix.selection.comparison import hedged
from marmix.tables.preparation import Preparation
from marmix.terminal import command_line

RULES = {
    "median": "Missing numbers were replaced by the median of their column, missing categories by the most frequent category.",
    "drop": "Rows with a missing feature were left out of the fit and have no imputed label.",
}
OTHER_ROWS = "Not compared: these are not the rows the model was fitted to."
ALL_LABELLED = "No label is missing, so nothing was imputed."
FOLDS = 5
_FIGURE_ROWS = 100_000  # most rows behind a figure; more would not change it visibly
_DRAWS = 100  # behind the intervals of the sensitivity analysis
_HEAVY = 0.1  # weight from which the notes of a candidate are shown
_UNCONVERGED = 0.05  # weight from which candidates that did not converge are mentioned
_TARGETS = (0.1, 0.05, 0.02, 0.01)  # shares of wrong labels for which the number of labels needed is given


class Source(NamedTuple):
    """Where rows are from: their table, what it is called, and how the analysis is repeated."""

    file: str
    label: str
    id: str | None
    data: Any  # Arrow table
    notes: Sequence[str]
    digest: str  # sha256
    command: str
    seed: int


@dataclass(frozen=True)
class Analysis:
    """What `analyse` finds: the findings, what a page shows besides, the fitted classifier, and columns to add to the rows."""

    findings: Findings
    thresholds: list[Thresholds]
    next_rows: RowTable
    subject: Subject  # of the figures
    classifier: Any
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)

    def contents(self) -> Contents:
        """The contents of the page, with the figures drawn."""
        drawn, left_out = figures(self.subject)
        title = f"Labels of {self.findings.data.file}"
        return Contents(title, self.findings, drawn, self.thresholds, self.next_rows, left_out)


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
    def represents(self) -> tuple[NDArray[np.integer[Any]], Array]:
        """The imputed labels of the sample, and how many rows of the table each of them stands for."""
        code = self.proba[~self.labelled].argmax(axis=1)
        return code, (self.imputed / np.maximum(np.bincount(code, minlength=len(self.imputed)), 1))[code]

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
        return names_of(self.preparation)

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
    predictions = predicted(average, rows.X, rows.complete, part(step, 0.9, 0.92))
    labelled, source = with_labels(predictions, rows)
    columns = labelled.columns(rows.classes.astype(str).tolist(), source)
    tested, sets = facts.held_out(comparison, sample.labels, len(rows.X)), None
    if options.sets is not None:
        texts, sets = sets_of(options.sets, sample, None if tested is None else tested.proba, rows, predictions)
        columns[f"{PREFIX}set"] = texts
    step(0.92, "tests and intervals")
    case = Case(
        source=Source(
            file=table.path.name,
            label=", ".join(options.label_columns),
            id=options.id,
            data=table.data,
            notes=[*table.notes, *plan.preparation.notes_],
            digest=table.digest,
            command=command_line(options.command),
            seed=options.seed,
        ),
        preparation=plan.preparation,
        rows=rows,
        model=model,
        comparison=comparison,
        prior=prior,
        sample=sample,
        predictions=predictions,
        tested=tested,
        tests=facts.parameter_tests(model, rows.X, rows.labels, names_of(plan.preparation), rows.missing),
        sets=sets,
    )
    others = [Caution("note", text) for text in plan.notes]
    return replace(analysis_of(case, others), classifier=model.named(), columns=columns)


def names_of(preparation: Preparation) -> list[str]:
    """Names of the features of the model."""
    return [str(name) for name in preparation.get_feature_names_out()]


def part(step: Step, start: float, end: float) -> Step:
    """The step of a part of the work that takes it from one share to another."""
    return lambda share, doing: step(start + (end - start) * min(share, 1.0), doing)


def analysis_of(case: Case, others: Sequence[Caution] = ()) -> Analysis:
    """The analysis of a case; `others` are cautions about the data."""
    doubts = _doubts(case)
    labels, scores = _label_facts(case), _scores(case)
    rival = facts.rival_facts(case.comparison) if case.comparison else RivalFacts(None, OTHER_ROWS)
    grounds = _grounds(case, labels, scores, rival, doubts)
    warnings = cautions(grounds, [*others, *_notes(case)])
    sweep = _sweep(case)
    findings = Findings(
        data=_data_facts(case),
        labels=labels,
        model=_model_facts(case),
        missingness=_missingness(case, doubts),
        comparison=facts.comparison(case.comparison, case.any_missing)
        if case.comparison
        else Comparison(None, OTHER_ROWS),
        rival=rival,
        statistical=facts.statistical_facts(case.model, case.any_missing),
        scores=scores,
        scored_on=case.tested.where if case.tested else "",
        estimates=list(case.tests.estimates),
        reproduction=_reproduction(case.source),
        sensitivity=None if sweep is None else facts.sensitivity_facts(sweep),
        verdict=verdict(warnings, labels.certainty.wrong, labels.imputed) if labels.imputed else None,
        cautions=warnings,
        scoreboard=_scoreboard(case),
        confusion=None if case.joint is None or not labels.imputed else case.joint.confusion().tolist(),
        labels_needed=_labels_needed(case),
    )
    source, joint = case.source, case.joint
    names = [str(name) for name in case.preparation.feature_names_in_]
    return Analysis(
        findings,
        [] if joint is None else thresholds(case.predictions, case.rows, joint, labels.imputed > 0),
        next_rows(source.data, source.id, names, case.predictions, case.rows),
        _subject(case, findings, sweep),
        case.model.classifier,
    )


def _subject(case: Case, findings: Findings, sweep: Sensitivity | None) -> Subject:
    """What the figures draw."""
    model, sample = case.model, case.sample
    places = sample_places(case.rows.z, seed=0, size=_FIGURE_ROWS)
    return Subject(
        classifier=model.classifier,
        X=case.rows.X[places],
        z=case.rows.z[places],
        named=model.named_statistical(case.features) if model.statistical else None,
        rows=sample.X,
        labels=np.array([*model.classes.tolist(), None], dtype=object)[sample.z],
        tested=case.tested and case.tested.predictions(),
        classes=model.classes,
        words=findings.statistical.name if findings.statistical and model.averages else "",
        sweep=sweep,
    )


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
    missing = int(np.sum(codes < 0))
    columns: Any = [[Interval()] * K] * 3
    if joint is not None:
        columns = [[Interval(*one) for one in ranges] for ranges in (joint.precision(), joint.recall(), joint.shares())]
    sure = int(np.sum(case.predictions.proba[case.without].max(axis=1) >= 0.90)) if imputed else 0
    return LabelFacts(
        given=int(given.sum()),
        missing=missing,
        imputed=imputed,
        unfilled=missing - imputed,
        classes=[
            ClassFacts(str(name), int(a), int(b), *intervals)
            for name, a, b, *intervals in zip(case.model.classes, given, case.imputed, *columns, strict=True)
        ],
        votes=_vote_facts(case.rows.shares),
        missing_texts=dict(case.rows.marks),
        certainty=Certainty(
            at_least_90=sure if given.sum() >= FEW * K else None,
            wrong=Interval() if joint is None else Interval(*joint.wrong()),
            sets=case.sets,
        ),
    )


def _vote_facts(shares: Array | None) -> VoteFacts | None:
    if shares is None:
        return None
    voted, largest = shares.any(axis=1), shares.max(axis=1)
    divided, undecided = (int(np.sum(voted & which)) for which in (largest < 1.0, largest <= 0.5))
    return VoteFacts(rows=int(voted.sum()), divided=divided, without_majority=undecided)


def _model_facts(case: Case) -> ModelFacts:
    model, it = case.model, case.comparison
    candidates, rivals = facts.candidate_rows(it, model, case.any_missing) if it else ([], [])
    score = it.independent_score if it else None
    names = ("independent_log_loss", "independent_log_loss_stderr")
    return ModelFacts(
        name=model.words(case.any_missing),
        kind=type(model.classifier if model.averages else model.classifier[-1]).__name__,
        converged=model.unconverged <= 0.5,
        candidates=candidates,
        rivals=rivals,
        rule=facts.rule(it, model, len(case.rows.X), len(case.sample.z)) if it and model.averages else "",
        independent={} if score is None else dict(zip(names, (score.value, score.stderr), strict=True)),
    )


def _missingness(case: Case, doubts: Sequence[Caution]) -> Any:
    result = facts.missingness_facts(case.model, case.tests, doubts)
    notes = () if case.comparison is None else case.comparison.notes
    if result.informative and any(note.code == "no-support" for note in notes):
        return replace(result, informative=None, p_value=None, test="", at_floor=False, sentence=facts.LINEAR)
    return result


def _scores(case: Case) -> list[ScoreFacts]:
    """Scores of held-out predictions; the accuracy is that of the joint table, if labels were imputed."""
    if case.tested is None:
        return []
    scores = facts.score_facts(case.tested.scores())
    if not case.imputed.any():
        return scores
    right = Interval() if case.joint is None else Interval(*case.joint.accuracy())
    if case.joint is None or right.value is None or right.low is None or right.high is None:
        return [score for score in scores if score.name != "accuracy"]
    tables = case.joint.tables.sum(axis=1)
    draws = np.trace(tables, axis1=1, axis2=2) / tables.sum(axis=(1, 2))
    joint: dict[str, Any] = {"value": right.value, "low": right.low, "high": right.high}
    joint["stderr"] = float(draws[1:].std())
    return [replace(score, **joint) if score.name == "accuracy" else score for score in scores]


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
    loss, accuracy = scores["log-loss"], scores["accuracy"]
    right = Interval(accuracy.value, accuracy.low, accuracy.high)
    return Contender(
        name=name,
        ours=joint is case.joint,
        accuracy=Interval(*joint.accuracy()) if case.imputed.any() else right,
        log_loss=Interval(loss.value, loss.low, loss.high),
        wrong=Interval(*joint.wrong()),
        claimed_accuracy=accuracy.plain,
        claimed_log_loss=loss.plain,
    )


def _labels_needed(case: Case) -> list[LabelsNeeded]:
    """How many of the rows most worth labelling to label, so that fewer of the imputed labels are wrong.

    Labelling a row removes its expected error.
    """
    unlabelled = ~case.labelled
    if case.joint is None or case.tested is None or case.tested.posterior is None or not unlabelled.any():
        return []
    proba, (code, counts) = case.proba[unlabelled], case.represents
    error = 1.0 - case.tested.posterior.central[unlabelled, code]
    order = np.argsort(-entr(proba).sum(axis=1), kind="stable")
    today = np.sum(counts * error)
    left = (today - np.cumsum((counts * error)[order])) / counts.sum()
    labels = np.ceil(np.cumsum(counts[order]) - 1e-9).astype(int)
    shares = [target for target in _TARGETS if target < today / counts.sum()]
    return [LabelsNeeded(target, int(labels[np.argmax(left <= target)])) for target in shares]


def _sweep(case: Case) -> Sensitivity | None:
    """What follows if labels are missing because of the label, for the rarest class; None if nothing can be said.

    It starts from the joint table: with an odds ratio of one, shares and wrong labels are those of the table.
    """
    joint, unlabelled = case.joint, ~case.labelled
    if joint is None or case.tested is None or case.tested.posterior is None or not unlabelled.any():
        return None
    posterior, delta = case.tested.posterior, swept(None)
    tau, (code, counts) = posterior.central[unlabelled], case.represents
    k = int((case.given + counts @ tau).argmin())
    result = sensitivity(
        Sweep(pattern_mixture(tau, k, delta), case.given, k, delta, case.model.classes, counts, code),
        draw=lambda rng: posterior.draw(rng)[unlabelled],
        n_draws=_DRAWS,
    )
    zero, wrong = result.at(1.0), np.array(joint.wrong(), dtype=float)
    result.error_interval[zero] = wrong[1:] / counts.sum()
    result.shares_interval[zero] = [
        ends if entry.low is None else (entry.low, entry.high)
        for ends, entry in zip(result.shares_interval[zero], joint.shares(), strict=True)
    ]
    return result


def _doubts(case: Case) -> list[Caution]:
    """Checks of the mechanism that fail; none with known class shares, which correct for what they look for."""
    it, missing = case.comparison, case.predictions.missing[case.rows.complete][case.sample.places]
    if case.prior is not None:
        return []
    notes = [] if it is None else [note for note in it.notes if note.code in CODES]
    doubts = note_cautions(notes, case.features, case.model.classes)
    proba = case.proba if case.tested is None else case.tested.proba
    return doubts or facts.misfit(proba, missing, case.sample, case.features, case.model.classes)


def _grounds(
    case: Case, labels: LabelFacts, scores: Sequence[ScoreFacts], rival: RivalFacts, doubts: Sequence[Caution]
) -> Grounds:
    """What the verdict rests on."""
    names = [str(name) for name in case.model.classes]
    shares = label_shares(case.rows.labels, np.arange(len(names)))
    overlap = case.comparison.overlap if case.comparison else None
    grounds = Grounds(
        labelled=dict(zip(names, np.sum(shares > 0.0, axis=0).tolist(), strict=True)),
        imputed=labels.imputed,
        scored=case.tested is not None,
        converged=case.model.unconverged <= 0.5,
        log_loss=next((score.value for score in scores if score.name == "log-loss"), 0.0),
        guessing=float(np.log(len(names))),
        doubts=doubts,
        no_chance=0.0 if overlap is None else overlap.no_chance,
        rival=rival.name if rival.better is False and rival.high is not None and rival.high < 0.0 else "",
    )
    if case.joint is None or not labels.imputed:
        return grounds
    tables = case.joint.tables[:, 1]
    frequent = int(tables[0].sum(axis=1).argmax())
    better = np.trace(tables, axis1=1, axis2=2) > tables.sum(axis=2)[:, frequent]
    absent = np.where(case.imputed == 0, tables[0].sum(axis=1), 0.0)  # rows of classes that none is imputed as
    return grounds._replace(
        wrong=labels.certainty.wrong,
        better=float(better[1:].mean()),
        frequent=names[frequent],
        absent=names[int(absent.argmax())] if absent.max() >= 1.0 else "",
        **_enrichment(case, names),
    )


def _enrichment(case: Case, names: list[str]) -> dict[str, Any]:
    """A class that is far rarer among all rows than among the given labels, if labels were drawn by class."""
    posterior = case.tested.posterior if case.tested else None
    if posterior is None or posterior.drawn_by_class is None:
        return {}
    drawn = np.where(case.labelled[:, None], case.shares, posterior.drawn_by_class)
    given, share = (
        np.clip(share, 1e-6, 1.0 - 1e-6)
        for share in (case.shares.sum(axis=0) / case.labelled.sum(), drawn.mean(axis=0))
    )
    odds = given / (1.0 - given) / (share / (1.0 - share))
    k = int(odds.argmax())
    return {"enriched": names[k], "enrichment": float(given[k])} if odds[k] > ENRICHED else {}


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
    notes = [note for pipeline in (*reported, *heavy) for note in pipeline[-1].model_.notes]
    notes += [note for note in case.comparison.notes if note.code not in CODES] if case.comparison else []
    return [
        *note_cautions(notes, case.features, model.classes),
        *(Caution("note", text) for text in texts),
    ]
