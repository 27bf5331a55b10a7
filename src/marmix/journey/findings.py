"""Findings about a model and the rows of a file, as the plain values of a report."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from scipy.special import entr

import marmix
from marmix import evaluation
from marmix.app.cautions import ENRICHED, FEW, SENSITIVITY, SINGLE, Grounds, cautions, note_cautions, verdict
from marmix.app.figures import Subject, figures
from marmix.app.findings import (
    Caution,
    Certainty,
    ClassFacts,
    Comparison,
    Contender,
    Contents,
    DataFacts,
    Estimate,
    Findings,
    Interval,
    LabelFacts,
    LabelsNeeded,
    MissingnessFacts,
    ModelFacts,
    Reproduction,
    RivalFacts,
    ScoreFacts,
    SensitivityFacts,
    SetFacts,
    StatisticalFacts,
    Thresholds,
    VoteFacts,
)
from marmix.core.arrays import Array
from marmix.core.labels import label_shares
from marmix.core.measures import posterior
from marmix.estimators.doubts import CODES, doubtful
from marmix.evaluation import Score, missingness_check
from marmix.evaluation.joint import THRESHOLDS, JointTable, Range
from marmix.evaluation.prior import class_offsets, prior_of, tilted, unlabelled_counts
from marmix.evaluation.pseudo_labels import UncertainPosterior
from marmix.inference import Inference, parameters_of
from marmix.inference.fitted import too_many_parameters
from marmix.inference.sensitivity import Sensitivity, Sweep, pattern_mixture, sensitivity, swept
from marmix.journey.choosing import (
    SAMPLE,
    Model,
    average_in_words,
    least_weight,
    missingness_in_words,
    model_in_words,
    sample_places,
)
from marmix.journey.rows import FileRows, rows_at
from marmix.journey.scoring import Sets, Tally
from marmix.plotting.predictions import Predictions
from marmix.selection.average import MARClassifierCV
from marmix.selection.comparison import TINY, hedged
from marmix.tables.preparation import Preparation
from marmix.tables.reading import DataFile

RULES = {
    "median": "Missing numbers were replaced by the median of their column, missing categories by the most frequent category.",
    "drop": "Rows with a missing feature were left out of the fit and have no imputed label.",
}
SCALED = "Features were standardised before the fit: coefficients are per standard deviation of the feature."
OTHER_ROWS = "Not compared: these are not the rows the model was fitted to."
BUT = " But checks of the mechanism fail (see the warnings): this estimate may be wrong."
LINEAR = "It cannot be told: a linear function of the features explains as well which labels are missing."
NO_PARAMETERS = "No candidate has parameters to test."
_TESTABLE = 10  # labelled rows of a class
TOO_FEW_LABELS = (
    f"There are too few labels for tests and intervals of parameters: fewer than {FEW}, or than {_TESTABLE} of a class."
)

_SCORES = (
    ("log-loss", evaluation.log_loss, "lower"),
    ("Brier score", evaluation.brier, "lower"),
    ("accuracy", evaluation.accuracy, "higher"),
    ("AUC", evaluation.roc_auc, "higher"),
)
_SIMULATE, _RESAMPLES = 5000, 99  # in a thorough analysis, samples behind a p-value, and most rows for that
_FIGURE_ROWS = 100_000  # most rows behind a figure; more would not change it visibly
_MOST_CLASSES = 20  # most classes with a threshold
_DRAWS, _MANY_DRAWS = 100, 400  # behind the intervals of the sensitivity analysis; if thorough
_HEAVY = 0.1  # weight from which the notes of a candidate are shown
_UNCONVERGED = 0.05  # weight from which candidates that did not converge are mentioned
_TARGETS = (0.1, 0.05, 0.02, 0.01)  # shares of wrong labels for which the number of labels needed is given

# Checks of the missingness model: overall significance level, smallest difference of rates worth a warning, fewest rows in a
# bin, and limit of fitted rates near 0 and 1.
_LEVEL, _LEAST, _BIN, _SURE = 0.01, 0.2, 50, 0.01


class TestedRows(NamedTuple):
    """Rows with predictions of a model not fitted to their labels: labels (-1 if missing), probabilities, P(missing).

    Labels may be shares of votes.
    """

    labels: NDArray[Any]
    proba: Array
    missing: Array | None
    posterior: UncertainPosterior | None  # of unlabelled rows
    where: str  # which rows these are, in words

    def predictions(self) -> Predictions:
        """The rows as displays take them, unlabelled rows with their posteriors as in the scores."""
        numbers = np.arange(self.proba.shape[1])
        if self.posterior is None:
            return Predictions.of(self.labels, self.proba, self.missing, numbers)
        return Predictions.of(self.labels, self.proba, np.zeros(len(self.labels)), numbers, self.posterior.central)

    def scores(self) -> Mapping[str, Score]:
        """All scores, corrected for missing labels."""
        return all_scores(self.labels, self.proba, self.missing, self.posterior)


class SampledRows(NamedTuple):
    """A sample of complete rows in the units of the file, for the comparison, checks and the figure of the classes."""

    X: Array
    z: NDArray[np.integer[Any]]
    features: list[str]
    places: NDArray[np.intp]  # among all complete rows
    labels: NDArray[Any]  # z, or shares of votes


def sample_rows(rows: FileRows, preparation: Preparation, seed: int) -> SampledRows:
    """Sample complete rows, before they are standardised."""
    z = groups = rows.z
    if rows.shares is not None:  # by the rarest class that a row has votes for, so that every class is in the sample
        shares = rows.labels
        rarest = np.where(shares > 0.0, (shares > 0.0).sum(axis=0), np.inf).argmin(axis=1)
        groups = np.where(z < 0, z, rarest)
    places = sample_places(groups, seed, SAMPLE)
    names = [str(name) for name in preparation.get_feature_names_out()]
    return SampledRows(rows_at(rows.X, places), z[places], names, places, rows.labels[places])


@dataclass(frozen=True, eq=False)
class Analysis:
    """A model, the rows of a file, and the results that a report is made from."""

    source: DataFile | None  # None for rows in memory
    label: str
    id: str | None
    preparation: Preparation
    rows: FileRows
    z: NDArray[np.integer[Any]]  # labels of the complete rows
    model: Model
    cv: MARClassifierCV | None  # the comparison of the candidates; None if these are not the rows of the fit
    result: Inference | str  # or why there is none
    tested: TestedRows | None
    sample: SampledRows
    tally: Tally
    sets: Sets | None = None
    thorough: bool = False

    def findings(
        self,
        others: list[Caution],
        command: str,
        seed: int,
        sweep: Sensitivity | None = None,
        report: Callable[[float], object] | None = None,
    ) -> Findings:
        """The findings, once every row is tallied; `others` are cautions about the data.

        `report` is called with the share of simulations done.
        """
        labels, scores = self._label_facts(), self._score_facts()
        grounds = self._grounds(labels, scores)
        warnings = cautions(grounds, [*others, *self._notes()])
        return Findings(
            data=self._data_facts(),
            labels=labels,
            model=self._model_facts(),
            missingness=self._missingness_facts(report),
            comparison=comparison(self.cv, self.z) if self.cv else Comparison.none(OTHER_ROWS),
            rival=self._rival_facts(),
            statistical=self._statistical_facts(),
            scores=scores,
            scored_on=self.tested.where if self.tested else "",
            estimates=[] if isinstance(self.result, str) else self._estimates(self.result),
            reproduction=self._reproduction(command, seed),
            sensitivity=None if sweep is None else sensitivity_facts(sweep),
            verdict=verdict(warnings, labels.certainty.wrong, labels.imputed) if labels.imputed else None,
            cautions=warnings,
            scoreboard=self._scoreboard(),
            confusion=None if self.joint is None or not labels.imputed else self.joint.confusion().tolist(),
            labels_needed=self._labels_needed(),
        )

    @cached_property
    def joint(self) -> JointTable | None:
        """The table behind every figure about imputed labels; None if there is nothing to say about them.

        Labelled rows count with their held-out predictions, the others with those written to the file. Numbers of a sample are
        scaled to those of the file.
        """
        if self.tested is None:
            return None
        joint = self._joint(np.where(self._labelled[:, None], self.tested.proba, self.tally.proba))
        tables = joint.tables
        imputed = tables[0, 1].sum(axis=0)
        if not imputed.any():
            return joint
        if len(self.sample.z) < len(self.rows.X):
            lacking = (imputed == 0.0) & (self.tally.imputed > 0)  # a class that no row of the sample is imputed as
            tables[:, 1][..., lacking] = tables[:, 1].sum(axis=2, keepdims=True) / imputed.sum()
            tables[:, 1] *= self.tally.imputed / np.where(lacking, 1.0, np.maximum(imputed, 1.0))
        return joint if joint.wrong().value is not None else None

    def _joint(self, proba: Array) -> JointTable:
        """The table of predictions of the sample, with the labels of the file and as many unlabelled rows."""
        assert self.tested is not None
        joint = JointTable.of(self._shares, proba, self.tested.posterior)
        if len(self.sample.z) < len(self.rows.X):
            given = label_shares(self.rows.labels, np.arange(proba.shape[1])).sum(axis=0)
            joint.tables[:, 0] *= (given / np.maximum(self._shares.sum(axis=0), 1.0))[:, None]
            joint.tables[:, 1] *= self.tally.imputed.sum() / max(joint.tables[0, 1].sum(), 1.0)
        return joint

    @cached_property
    def _shares(self) -> Array:
        """Shares of the classes in the label of each row of the sample, zero where missing."""
        return label_shares(self.sample.labels, np.arange(len(self.model.classes)))

    @property
    def _labelled(self) -> NDArray[np.bool_]:
        return np.asarray(self._shares.any(axis=1))

    def _score_facts(self) -> list[ScoreFacts]:
        """Scores of held-out predictions; the accuracy is that of the joint table, if labels were imputed."""
        if self.tested is None:
            return []
        facts = score_facts(self.tested.scores())
        if not self.tally.imputed.any():
            return facts
        joint = self.joint
        if joint is None:
            return [score for score in facts if score.name != "accuracy"]
        tables = joint.tables.sum(axis=1)
        draws = np.trace(tables, axis1=1, axis2=2) / tables.sum(axis=(1, 2))
        right = interval(joint.accuracy())
        if right.value is None or right.low is None or right.high is None:
            return [score for score in facts if score.name != "accuracy"]
        return [
            replace(score, value=right.value, stderr=float(draws[1:].std()), low=right.low, high=right.high)
            if score.name == "accuracy"
            else score
            for score in facts
        ]

    def _scoreboard(self) -> list[Contender]:
        """Our average, and usual classifiers of the labelled rows: held out for these, fitted to all of them for the others."""
        if self.tested is None or self.joint is None:
            return []
        contenders = [self._contender("marmix", self.joint, self.tested.proba)]
        rows = None if self.cv is None else self.cv.selection_.rows
        for name, pipeline in ((self.cv and self.cv.selection_.rivals) or {}).items():
            assert self.cv is not None
            assert rows is not None
            held_out = rows.probas[name]
            everywhere = hedged(pipeline.predict_proba(self.sample.X))
            if (prior := prior_of(self.cv.prior, np.arange(everywhere.shape[1]))) is not None:
                unlabelled = unlabelled_counts(prior, self.sample.labels, self.model.classes)
                everywhere = tilted(everywhere, class_offsets(everywhere[~self._labelled], unlabelled))
            proba = np.where(self._labelled[:, None], held_out, everywhere)
            contenders.append(self._contender(name, self._joint(proba), held_out))
        return contenders

    def _contender(self, name: str, joint: JointTable, held_out: Array) -> Contender:
        assert self.tested is not None
        scores = {
            key: score_facts({key: value})[0] for key, value in self.tested._replace(proba=held_out).scores().items()
        }
        loss, accuracy = scores["log-loss"], scores["accuracy"]
        right = Interval(accuracy.value, accuracy.low, accuracy.high)
        return Contender(
            name=name,
            ours=joint is self.joint,
            accuracy=interval(joint.accuracy()) if self.tally.imputed.any() else right,
            log_loss=Interval(loss.value, loss.low, loss.high),
            wrong=interval(joint.wrong()),
            claimed_accuracy=accuracy.plain,
            claimed_log_loss=loss.plain,
        )

    def _labels_needed(self) -> list[LabelsNeeded]:
        """How many of the rows most worth labelling to label, so that fewer of the imputed labels are wrong.

        Labelling a row removes its expected error.
        """
        unlabelled = ~self._labelled
        if self.joint is None or self.tested is None or self.tested.posterior is None or not unlabelled.any():
            return []
        proba, (code, counts) = self.tally.proba[unlabelled], self._imputed
        error = 1.0 - self.tested.posterior.central[unlabelled, code]
        order = np.argsort(-entr(proba).sum(axis=1), kind="stable")
        today = np.sum(counts * error)
        left = (today - np.cumsum((counts * error)[order])) / counts.sum()
        labels = np.ceil(np.cumsum(counts[order]) - 1e-9).astype(int)
        return [
            LabelsNeeded(target, int(labels[np.argmax(left <= target)]))
            for target in _TARGETS
            if target < today / counts.sum()
        ]

    def _grounds(self, labels: LabelFacts, scores: list[ScoreFacts]) -> Grounds:
        """What the verdict rests on."""
        names = [str(name) for name in self.model.classes]
        shares = label_shares(self.rows.labels, np.arange(len(names)))
        grounds = Grounds(
            labelled=dict(zip(names, np.sum(shares > 0.0, axis=0).tolist(), strict=True)),
            imputed=labels.imputed,
            scored=self.tested is not None,
            converged=self._not_converged() <= 0.5,
            log_loss=next((score.value for score in scores if score.name == "log-loss"), 0.0),
            guessing=float(np.log(len(names))),
            doubts=self._doubts,
        )
        overlap, rival = getattr(self.cv, "overlap_", None), self._rival_facts()
        grounds = grounds._replace(
            no_chance=0.0 if overlap is None else overlap.no_chance,
            rival=rival.name if rival.better is False and rival.high is not None and rival.high < 0.0 else "",
        )
        if self.joint is None or not labels.imputed:
            return grounds
        tables = self.joint.tables[:, 1]
        frequent = int(tables[0].sum(axis=1).argmax())
        better = np.trace(tables, axis1=1, axis2=2) > tables.sum(axis=2)[:, frequent]
        absent = np.where(
            self.tally.imputed == 0, tables[0].sum(axis=1), 0.0
        )  # rows of classes that none is imputed as
        return grounds._replace(
            wrong=labels.certainty.wrong,
            better=float(better[1:].mean()),
            frequent=names[frequent],
            absent=names[int(absent.argmax())] if absent.max() >= 1.0 else "",
            **self._enrichment(names),
        )

    def _enrichment(self, names: list[str]) -> dict[str, Any]:
        """A class that is far rarer among all rows than among the given labels, if labels were drawn by class."""
        by_class = (
            None if self.tested is None or self.tested.posterior is None else self.tested.posterior.drawn_by_class
        )
        if by_class is None:
            return {}
        given = np.clip(self._shares.sum(axis=0) / self._labelled.sum(), 1e-6, 1.0 - 1e-6)
        share = np.clip(np.where(self._labelled[:, None], self._shares, by_class).mean(axis=0), 1e-6, 1.0 - 1e-6)
        odds = given / (1.0 - given) / (share / (1.0 - share))
        k = int(odds.argmax())
        return {"enriched": names[k], "enrichment": float(given[k])} if odds[k] > ENRICHED else {}

    def _missingness_facts(self, report: Callable[[float], object] | None) -> MissingnessFacts:
        facts = missingness_facts(self.model, self.result, self._doubts, self.thorough, report)
        notes = () if self.cv is None else self.cv.selection_.notes
        if facts.informative and any(note.code == "no-support" for note in notes):
            return replace(facts, informative=None, sentence=LINEAR)
        return facts

    def _rival_facts(self) -> RivalFacts:
        return rival_facts(self.cv) if self.cv else RivalFacts.none(OTHER_ROWS)

    def _reproduction(self, command: str, seed: int) -> Reproduction:
        """The command, hash of the data, versions and seed that reproduce the result."""
        if self.source is None:
            digest = sha256(np.ascontiguousarray(self.rows.X).tobytes() + self.rows.codes.tobytes()).hexdigest()
        else:
            digest = self.source.digest()
        versions: dict[str, Any] = {
            "marmix": marmix.__version__,
            "Python": platform.python_version(),
            "NumPy": np.__version__,
            "SciPy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        }
        return Reproduction(command, digest, versions, seed)

    def sweep(self) -> Sensitivity | None:
        """What follows if labels are missing because of the label, for the rarest class; None if nothing can be said.

        It starts from the joint table: with an odds ratio of one, shares and wrong labels are those of the table.
        """
        joint, unlabelled = self.joint, ~self._labelled
        if joint is None or self.tested is None or self.tested.posterior is None or not unlabelled.any():
            return None
        posterior = self.tested.posterior
        classes, tau = self.model.classes, posterior.central[unlabelled]
        code, counts = self._imputed
        given, delta = label_shares(self.rows.labels, np.arange(len(classes))).sum(axis=0), swept(None)
        k = int((given + counts @ tau).argmin())
        result = sensitivity(
            Sweep(pattern_mixture(tau, k, delta), given, k, delta, classes, counts, code),
            draw=lambda rng: posterior.draw(rng)[unlabelled],
            n_draws=_MANY_DRAWS if self.thorough else _DRAWS,
        )
        zero, wrong = result.at(1.0), np.array(joint.wrong(), dtype=float)
        result.error_interval[zero] = wrong[1:] / counts.sum()
        result.shares_interval[zero] = [
            ends if entry.low is None else (entry.low, entry.high)
            for ends, entry in zip(result.shares_interval[zero], joint.shares(), strict=True)
        ]
        return result

    @property
    def _imputed(self) -> tuple[NDArray[np.integer[Any]], Array]:
        """The imputed labels of the sample, and how many rows of the file each of them stands for."""
        code = self.tally.proba[~self._labelled].argmax(axis=1)
        imputed = self.tally.imputed
        return code, (imputed / np.maximum(np.bincount(code, minlength=len(imputed)), 1))[code]

    @cached_property
    def _doubts(self) -> list[Caution]:
        """Checks of the mechanism that fail; none with known class shares, which correct for what they look for."""
        if self.cv is not None and self.cv.prior is not None:
            return []
        notes = [] if self.cv is None else [note for note in self.cv.selection_.notes if note.code in CODES]
        doubts = note_cautions(notes, self.sample.features, self.model.classes)
        proba = self.tally.proba if self.tested is None else self.tested.proba
        return doubts or misfit(proba, self.tally.missing, self.sample, self.model.classes)

    def contents(self, findings: Findings, sweep: Sensitivity | None = None) -> Contents:
        """The contents of the report."""
        places = sample_places(self.z, seed=0, size=_FIGURE_ROWS)
        features = self.sample.features
        subject = Subject(
            classifier=self.model.classifier,
            X=rows_at(self.model.X, places),
            z=self.z[places],
            named=self.model.named_statistical(features) if self.model.statistical else None,
            rows=self.sample.X,
            labels=np.array([*self.model.classes.tolist(), None], dtype=object)[self.sample.z],
            tested=self.tested and self.tested.predictions(),
            classes=self.model.classes,
            words=findings.statistical.name if findings.statistical and self.model.averages else "",
            sweep=sweep,
        )
        drawn, left_out = figures(subject)
        return Contents(
            title=f"Labels of {findings.data.file}",
            findings=findings,
            figures=drawn,
            thresholds=[] if self.joint is None else thresholds(self.model.classes, self.joint, self.tally),
            next_rows=self.tally.next_rows(),
            notes=left_out,
        )

    @property
    def name(self) -> str:
        """The classifier in words."""
        any_missing = bool((self.z < 0).any())
        if self.model.averages:
            return average_in_words(self.model.classifier, any_missing)
        return model_in_words(self.model.classifier[-1], any_missing)

    def _data_facts(self) -> DataFacts:
        incomplete = self.rows.counts.rows
        return DataFacts(
            file="data in memory" if self.source is None else self.source.path.name,
            rows=len(self.rows.codes),
            label=self.label,
            id=self.id,
            features=[column["name"] for column in self.preparation.columns_],
            columns=self.sample.features,
            incomplete_rows=incomplete,
            rule=RULES[self.preparation.impute] if incomplete else "No feature is missing.",
            notes=[*(self.source.assumed if self.source else ()), *self.preparation.notes_],
        )

    def _label_facts(self) -> LabelFacts:
        codes, tally = self.rows.codes, self.tally
        imputed = int(tally.imputed.sum())
        given = np.bincount(codes[codes >= 0], minlength=len(self.model.classes))
        missing = int(np.sum(codes < 0))
        wrong = Interval() if self.joint is None else interval(self.joint.wrong())
        return LabelFacts(
            given=int(given.sum()),
            missing=missing,
            imputed=imputed,
            unfilled=missing - imputed,
            classes=self._class_facts(given),
            votes=self._vote_facts(),
            missing_texts=dict(self.rows.marks),
            certainty=Certainty(
                at_least_90=tally.at_least_90 if given.sum() >= FEW * len(given) else None,
                wrong=wrong,
                sets=self._set_facts(),
            ),
        )

    def _class_facts(self, given: NDArray[np.integer[Any]]) -> list[ClassFacts]:
        K = len(self.model.classes)
        columns = [[Interval()] * K] * 3
        if self.joint is not None:
            ranges = (self.joint.precision(), self.joint.recall(), self.joint.shares())
            columns = [[interval(entry) for entry in column] for column in ranges]
        return [
            ClassFacts(str(name), int(a), int(b), *intervals)
            for name, a, b, *intervals in zip(self.model.classes, given, self.tally.imputed, *columns, strict=True)
        ]

    def _set_facts(self) -> SetFacts | None:
        if self.sets is None:
            return None
        sizes = np.array(self.sets.sizes)
        return SetFacts(self.sets.coverage, int(np.sum(sizes == 1)), float(sizes.mean()))

    def _vote_facts(self) -> VoteFacts | None:
        shares = self.rows.shares
        if shares is None:
            return None
        voted, largest = shares.any(axis=1), shares.max(axis=1)
        return VoteFacts(
            rows=int(voted.sum()),
            divided=int(np.sum(voted & (largest < 1.0))),
            without_majority=int(np.sum(voted & (largest <= 0.5))),
        )

    def _model_facts(self) -> ModelFacts:
        model, any_missing = self.model, bool((self.z < 0).any())
        candidates, rivals = candidate_rows(self.cv, model, any_missing) if self.cv else ([], [])
        classifier = model.classifier if model.averages else model.classifier[-1]
        return ModelFacts(
            name=self.name,
            kind=type(classifier).__name__,
            converged=self._not_converged() <= 0.5,
            candidates=candidates,
            rivals=rivals,
            rule=self._rule(),
            independent=self._independent(),
        )

    def _independent(self) -> dict[str, float]:
        score = getattr(self.cv, "independent_score_", None)
        if score is None:
            return {}
        return {"independent_log_loss": score.value, "independent_log_loss_stderr": score.stderr}

    def _not_converged(self) -> float:
        """Total weight of the candidates that did not converge."""
        model = self.model
        return sum(weight for name, weight in model.weights.items() if not model.candidates[name][-1].converged_)

    def _rule(self) -> str:
        """Which candidates are left out of the average, and which rows they are fitted to."""
        if not self.model.averages or self.cv is None:
            return ""
        n_rows, n_compared = len(self.rows.X), len(self.sample.z)
        sentences, names = [], [name for name, weight in self.model.weights.items() if weight > 0.0]
        if len(names) < sum(weight > 0.0 for weight in self.cv.weights_.values()):
            sentences.append(f"Candidates with a weight below {least_weight(n_rows, n_compared):g} are left out.")
        if n_rows > n_compared:
            on_all = sum(round(self.model.candidates[name][-1].model_.total_weight) == n_rows for name in names)
            sentences.append(
                f"The candidates were compared on a random sample of {n_compared:,} rows. Then those of the largest weights, and "
                f"the one whose parameters are reported, were fitted to all rows: {on_all} of the {len(names)} in the average."
            )
        return " ".join(sentences)

    def _statistical_facts(self) -> StatisticalFacts | None:
        if self.model.statistical is None:
            return None
        estimator = self.model.statistical[-1]
        defaults = type(estimator)().get_params()
        name = next(key for key, pipeline in self.model.candidates.items() if pipeline is self.model.statistical)
        return StatisticalFacts(
            name=model_in_words(estimator, bool((self.z < 0).any())),
            kind=type(estimator).__name__,
            parameters={key: value for key, value in estimator.get_params().items() if value != defaults[key]},
            converged=bool(estimator.converged_),
            loglik=float(estimator.loglik_),
            iterations=int(estimator.n_iter_),
            passes=int(estimator.n_passes_),
            weight=self.model.weights[name],
            units=SCALED if len(self.model.statistical) > 1 else "",
        )

    def _estimates(self, result: Inference) -> list[Estimate]:
        """Parameters with 95 % intervals, those of the mechanism first."""
        fit = result.fitted
        assert self.model.statistical is not None
        features = np.array(self.sample.features, dtype=object)
        fitted = self.model.statistical[-1].model_.renamed(self.model.classes, features)
        names = parameters_of(fitted, fit.mechanism, fit.covariates).names
        low, high = result.conf_int().T
        estimates = [
            Estimate(name, float(value), *(_number(x) for x in ends))
            for name, value, *ends in zip(names, result.params, result.bse, low, high, strict=True)
        ]
        of_classes = sum(kind not in ("alpha", "shape", "share") for kind in fit.parameters.kinds)
        return estimates[of_classes:] + estimates[:of_classes]

    def _notes(self) -> list[Caution]:
        """Other cautions about the fit and the rows."""
        texts, rows, weight = [], self.rows, self._not_converged()
        if _UNCONVERGED <= weight <= 0.5:
            texts.append(f"Candidates with a total weight of {weight:.2f} in the average did not converge.")
        if not (rows.codes < 0).any():
            texts.append("No label is missing, so nothing was imputed.")
        texts += rows.counts.notes()
        if rows.counts.rows:
            share = rows.counts.rows / len(rows.codes)
            texts.append(
                f"{rows.counts.rows:,} rows ({share:.1%}) have a missing feature. {RULES[self.preparation.impute]}"
            )
        if isinstance(self.result, str):
            texts.append(self.result)
        model = self.model
        heavy = [model.candidates[name] for name, weight in model.weights.items() if weight >= _HEAVY]
        reported = [model.statistical] if model.statistical else []
        notes = [note for pipeline in (*reported, *heavy) for note in pipeline[-1].model_.notes]
        notes += [note for note in self.cv.selection_.notes if note.code not in CODES] if self.cv else []
        cautions = note_cautions(notes, self.sample.features, self.model.classes)
        return [*cautions, *(Caution("note", text) for text in texts)]


def interval(entry: Range) -> Interval:
    """An estimate of the joint table as plain values."""
    return Interval(*entry)


def inference_of(model: Model, labels: NDArray[Any]) -> Inference | str:
    """Standard errors and tests for the fit, or a sentence why there are none."""
    if model.statistical is None:
        return NO_PARAMETERS
    counts = label_shares(labels, np.arange(len(model.classes))).sum(axis=0)
    if counts.sum() < FEW or counts.min() < _TESTABLE:
        return TOO_FEW_LABELS
    estimator = model.statistical[-1]
    if reason := too_many_parameters(estimator.model_):
        return f"No intervals were computed: {reason}."
    try:
        result: Inference = estimator.inference(model.axes, labels)
    except ValueError as error:
        return f"No intervals could be computed: {error}"
    return result


def sensitivity_facts(sweep: Sensitivity) -> SensitivityFacts:
    """The sensitivity analysis as plain values."""
    n = max(sweep.n_unlabelled, 1.0)
    return SensitivityFacts(
        label=str(sweep.varied),
        odds_ratio=sweep.odds_ratio.tolist(),
        share=sweep.share.tolist(),
        share_interval=sweep.share_interval.tolist(),
        wrong=sweep.error.tolist(),
        wrong_interval=sweep.error_interval.tolist(),
        changed=(sweep.flips / n).tolist(),
        changed_interval=(sweep.flips_interval / n).tolist(),
        tipping=sweep.tipping_words(),
        notes=list(sweep.notes),
    )


def missingness_facts(
    model: Model,
    result: Inference | str,
    doubts: Sequence[Caution] = (),
    thorough: bool = False,
    report: Callable[[float], object] | None = None,
) -> MissingnessFacts:
    """Whether missingness depends on how uncertain the class is, and how often labels are missing at both extremes."""
    if model.statistical is None:
        return MissingnessFacts(None, None, "", NO_PARAMETERS, None, None)
    mechanism = model.statistical[-1].mechanism_
    if not model.statistical[-1].model_.has_mechanism:
        return MissingnessFacts(None, None, "", "No label is missing.", None, None)
    if result == TOO_FEW_LABELS:
        return MissingnessFacts(None, None, "", result, None, None)
    scores = np.zeros((len(model.classes), 2))  # all classes equally probable, and one class certain
    scores[1:, 1] = -700.0
    u = mechanism.measured(posterior(scores)).value
    toss_up, certain = (float(q) for q in mechanism.missing_proba_of(u[None, :]))
    if isinstance(result, str):
        return MissingnessFacts(None, None, "", result, toss_up, certain)
    p_value, test, at_floor = _informative(result, thorough, report)
    if p_value is None:
        sentence = "It could not be tested: the data do not determine the effect."
        return MissingnessFacts(None, None, test, sentence, toss_up, certain)
    sentence = f"Labels are missing {'more' if certain <= toss_up else 'less'} often when the class is unclear."
    if p_value < 0.05 and doubts:
        sentence = (
            "Labels seem to depend on how unclear the class is, but checks of the mechanism fail: see the warnings."
        )
    if p_value >= 0.05:
        sentence = "There is no evidence that labels are missing more or less often when the class is unclear."
    texts = [caution.text for caution in doubts]
    return MissingnessFacts(p_value < 0.05, p_value, test, sentence, toss_up, certain, texts, at_floor)


def _informative(
    result: Inference, thorough: bool, report: Callable[[float], object] | None
) -> tuple[float | None, str, bool]:
    """P-value and name of the test of alpha_1 = 0, and whether the p-value is the smallest that a simulation can show.

    The likelihood ratio test, with a simulated reference distribution if `thorough`; Wald's where a chi-square distribution is
    no reference, and where there is no likelihood.
    """
    fit = result.fitted
    simulated = thorough and fit.n_rows <= _SIMULATE
    free = fit.mechanism is not None and (fit.mechanism.free_shape or fit.mechanism.free_share)
    if simulated or not free:
        try:
            test = result.test_informative(None if simulated else False, _RESAMPLES, random_state=0, report=report)
            return _number(test.p_value), f"likelihood ratio test, {test.reference}", test.at_floor
        except ValueError:
            pass  # penalised, or the mechanism has weight zero: no likelihood to compare
    p_value = dict(zip(result.param_names, result.pvalues, strict=True)).get("alpha_1")
    return (None if p_value is None else _number(p_value)), "Wald test with robust standard errors", False


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def misfit(proba: Array, missing: Array, rows: SampledRows, classes: NDArray[Any]) -> list[Caution]:
    """A caution if, along a probability or a feature, observed and fitted rates of missing labels clearly differ.

    Probabilities are held-out ones: a fit with many parameters is surer of the rows whose labels it saw, wherever they are.
    """
    n_bins = min(10, len(rows.z) // _BIN)
    if n_bins < 2 or not (rows.z < 0).any():
        return []
    q = np.clip(missing, _SURE, 1.0 - _SURE)
    columns = list(enumerate(classes))[len(classes) == 2 :]  # the second class if there are two, else each
    variables = [(f"the probability of {str(name)!r}", proba[:, k]) for k, name in columns]
    variables += [(repr(name), column) for name, column in zip(rows.features, rows.X.T, strict=True)]
    worst, cautions = _LEVEL / len(variables), list[Caution]()
    for name, values in variables:
        check = missingness_check(rows.z, q, values, n_bins)
        i = int(np.abs(check.z).argmax())
        at, observed, fitted = float(check.by[i]), float(check.observed[i]), float(check.fitted[i])
        if check.p_value < worst and abs(observed - fitted) >= _LEAST:
            worst = check.p_value
            text = (
                f"Where {name} is about {at:.3g}, {observed:.0%} of the labels are missing, but the model expects {fitted:.0%}: "
                "it does not describe well why labels are missing. Perhaps they are lost on one side of the boundary only. "
                "P(label missing), the corrected scores and the comparison may be wrong."
            )
            cautions = [Caution("caution", text, SENSITIVITY)]
    return cautions


def candidate_rows(
    cv: MARClassifierCV, model: Model, any_missing: bool = True
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The candidates by decreasing weight, and the classifiers of the labelled rows alone, the best first."""
    # the accuracy of held-out predictions is not that of the labels written, which the scoreboard has
    keys = [key for key in cv.results_ if key not in ("weight", "seconds", "rival", "accuracy")]
    rows = [
        dict(zip(keys, values, strict=True))
        for values in zip(*(cv.results_[key].tolist() for key in keys), strict=True)
    ]
    bounds = {"log_loss": (0.0, np.inf), "brier": (0.0, np.inf), "roc_auc": (0.0, 1.0)}
    weights = model.weights if model.averages else cv.weights_
    candidates, rivals = [], []
    for row, is_rival in zip(rows, cv.results_.get("rival", np.zeros(len(rows), bool)).tolist(), strict=True):
        row |= {key: float(np.clip(row[key], *ends)) for key, ends in bounds.items() if key in row}
        if is_rival:
            rivals.append(row)
            continue
        name = row["candidate"]
        pipeline = model.candidates.get(name, cv.estimators_[name])
        row |= {
            "candidate": str(pipeline[-1].model_.score_model.words),
            "missingness": missingness_in_words(pipeline[-1]) if any_missing else "",
            "weight": weights.get(name, 0.0),
            "rows": round(pipeline[-1].model_.total_weight),
        }
        candidates.append(row)
    candidates.sort(key=lambda row: (-row["weight"], row.get("log_loss", 0.0)))
    return candidates, sorted(rivals, key=lambda row: row.get("log_loss", 0.0))


def rival_facts(cv: MARClassifierCV) -> RivalFacts:
    """What the classifier gains over the best classifier of the labelled rows alone."""
    gain = getattr(cv, "rival_comparison_", None)
    if gain is None or "rival" not in cv.results_:
        return RivalFacts.none("Not compared with classifiers of the labelled rows alone.")
    losses = np.where(cv.results_["rival"], cv.results_["log_loss"], np.inf)
    name = str(cv.results_["candidate"][losses.argmin()])
    if gain.stderr > np.log(len(cv.classes_)):  # the log-loss of guessing
        return RivalFacts.none("Too uncertain to say: a class has too few labels to estimate the log-loss.")
    ours, theirs = max(gain.with_it, 0.0), max(gain.without, 0.0)
    difference = f"({gain.difference})"
    what = f"{name}, the best of the usual classifiers fitted to the labelled rows alone"
    if gain.declined:
        sentence = (
            f"Which is better cannot be told: {gain.no_overlap}; the estimated log-loss is {ours:.3f}, and {theirs:.3f} for "
            f"{what} {difference}."
        )
    elif gain.clear:
        sentence = f"The estimated log-loss is {ours:.3f}, and {theirs:.3f} for {what} {difference}."
    elif gain.clear_loss:
        sentence = f"The estimated log-loss, {ours:.3f}, is higher than that of {what}: {theirs:.3f} {difference}."
    else:
        sentence = (
            f"No clear difference: the estimated log-loss is {ours:.3f}, and {theirs:.3f} for {what} {difference}."
        )
    doubt = gain.clear and doubtful(cv.selection_.notes)
    better = None if doubt or gain.declined else gain.clear
    sentence += BUT * doubt
    return RivalFacts(better, sentence, name, ours, theirs, gain.gain, gain.stderr, *gain.interval)


def comparison(cv: MARClassifierCV, z: NDArray[np.integer[Any]]) -> Comparison:
    """Whether modelling the missingness helped; negative estimates of a loss are shown as 0."""
    if cv.held_out_proba_ is None:
        return Comparison.none(f"Nothing to compare: {SINGLE}")
    gain = cv.comparison_
    if gain is None or not (z < 0).any():
        return Comparison.none(cv.verdict_ if (z < 0).any() else "Nothing to compare: no label is missing.")
    if gain.stderr > np.log(len(cv.classes_)):  # the log-loss of guessing
        return Comparison.none("Too uncertain to say: a class has too few labels to estimate the log-loss.")
    gain = gain._replace(with_it=max(gain.with_it, 0.0), without=max(gain.without, 0.0))
    doubt = gain.clear and doubtful(cv.selection_.notes)
    helped = None if doubt or gain.declined else gain.clear
    sentence = gain.sentence() + BUT * doubt
    return Comparison(helped, sentence, gain.with_it, gain.without, gain.gain, gain.stderr, *gain.interval)


def held_out(cv: MARClassifierCV, labels: NDArray[Any], n_rows: int) -> TestedRows | None:
    """The held-out predictions of a cross-validation of rows with these labels; None if a class has too few for one."""
    if cv.held_out_proba_ is None:
        return None
    part = "" if len(labels) == n_rows else f" in a random sample of {len(labels):,} rows"
    n_labelled = np.sum(labels >= 0) if labels.ndim == 1 else np.sum(labels.any(axis=1))
    where = f"{n_labelled:,} labelled rows{part}, each predicted by a model fitted without it"
    return TestedRows(labels, cv.held_out_proba_, cv.missing_proba_, cv.posterior_, where)


def all_scores(
    labels: NDArray[Any], proba: Array, missing: Array | None, posterior: UncertainPosterior | None = None
) -> Mapping[str, Score]:
    """All scores, corrected for missing labels if P(label missing) is given."""
    q, numbers = np.zeros(len(labels)) if missing is None else missing, np.arange(proba.shape[1])
    all_labelled = label_shares(labels, numbers).any(axis=0).all()  # the AUC needs labelled rows of every class
    proba = np.maximum(proba, TINY)  # an impossible class has a large but finite loss
    return {
        name: score(labels, proba, q, classes=numbers, posterior=posterior)
        for name, score, *_ in _SCORES
        if all_labelled or name != "AUC"
    }


def score_facts(scores: Mapping[str, Score]) -> list[ScoreFacts]:
    """Scores for the report; corrected estimates are clipped to the range of the score."""
    return [
        ScoreFacts(
            name,
            float(np.clip(score.value, score.least, score.most)),
            score.stderr,
            *score.interval,
            score.plain,
            better,
        )
        for name, _, better in _SCORES
        if (score := scores.get(name)) is not None
    ]


def thresholds(classes: NDArray[Any], joint: JointTable, tally: Tally) -> list[Thresholds]:
    """Effects of a threshold, for the second class if there are two, otherwise for each of the most frequent classes.

    Classes whose precision or recall is too uncertain for a number are left out.
    """
    frequent = np.argsort(-tally.all_above[:, 50], kind="stable")[:_MOST_CLASSES]
    shown = [1] if len(classes) == 2 else sorted(frequent.tolist())
    if tally.imputed.any():
        precision, recall = joint.precision(), joint.recall()
        shown = [k for k in shown if precision[k].value is not None and recall[k].value is not None]
    results = []
    for k in shown:
        above = joint.thresholds(k, "unlabelled" if tally.imputed.any() else "all")
        results.append(
            Thresholds(
                positive=str(classes[k]),
                at=THRESHOLDS.tolist(),
                precision=[_number(value) for value in above.precision],
                recall=[_number(value) for value in above.recall],
                accuracy=[_number(value) for value in above.accuracy],
                unlabelled_above=tally.unlabelled_above[k].tolist(),
                unlabelled=int(tally.unlabelled_above[k, 0]),
                all_above=tally.all_above[k].tolist(),
                all=int(tally.all_above[k, 0]),
            )
        )
    return results
