"""Findings about a model and the rows of a file, as the plain values of a report."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import file_digest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray

import marmix
from marmix import evaluation
from marmix.arrays import Array
from marmix.displays import ThresholdDisplay
from marmix.displays.predictions import Predictions
from marmix.estimators import MARClassifierCV
from marmix.estimators.choice import TINY
from marmix.estimators.doubts import CODES, doubtful
from marmix.evaluation import Score, missingness_check
from marmix.inference import Inference, parameters_of
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
from marmix.labels import label_shares
from marmix.mechanism.measures import posterior
from marmix.pages.contents import (
    Certainty,
    ClassFacts,
    Comparison,
    Contents,
    DataFacts,
    Estimate,
    Findings,
    LabelFacts,
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
from marmix.pages.figures import Subject, figures
from marmix.pages.notes import SINGLE, plain_notes
from marmix.pseudo_labels import UncertainPosterior
from marmix.sensitivity import Sensitivity
from marmix.tables.preparation import Preparation

RULES = {
    "median": "Missing numbers were replaced by the median of their column, missing categories by the most frequent category.",
    "drop": "Rows with a missing feature were left out of the fit and have no imputed label.",
}
SCALED = "Features were standardised before the fit: coefficients are per standard deviation of the feature."
OTHER_ROWS = "Not compared: these are not the rows the model was fitted to."
BUT = " But checks of the mechanism fail (see the warnings): this estimate may be wrong."
NO_PARAMETERS = "No candidate has parameters to test."

_SCORES = (
    ("log-loss", evaluation.log_loss, "lower"),
    ("Brier score", evaluation.brier, "lower"),
    ("accuracy", evaluation.accuracy, "higher"),
    ("AUC", evaluation.roc_auc, "higher"),
)
_MOST_PARAMETERS = 1500  # above it, no standard errors: they would take too long
_SIMULATE, _RESAMPLES = 5000, 99  # simulate the reference distribution up to so many rows, with so many samples
_FIGURE_ROWS = 100_000  # most rows behind a figure; more would not change it visibly
_MOST_CLASSES = 20  # most classes with a threshold
_DRAWS = 100  # behind the intervals of the sensitivity analysis
_HEAVY = 0.1  # weight from which the notes of a candidate are shown

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


class Analysis(NamedTuple):
    """A model, the rows of a file, and the results that a report is made from."""

    path: Path
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
    assumed: Sequence[str] = ()  # about the file

    def findings(self, warnings: list[str], command: str, seed: int, sweep: Sensitivity | None = None) -> Findings:
        """The findings; `warnings` come before those of the model."""
        return Findings(
            data=self._data_facts(),
            labels=self._label_facts(),
            model=self._model_facts(),
            missingness=missingness_facts(self.model, self.result, self._doubts()),
            comparison=comparison(self.cv, self.z) if self.cv else Comparison.none(OTHER_ROWS),
            rival=rival_facts(self.cv) if self.cv else RivalFacts.none(OTHER_ROWS),
            statistical=self._statistical_facts(),
            scores=score_facts(self.tested.scores()) if self.tested else [],
            scored_on=self.tested.where if self.tested else "",
            estimates=[] if isinstance(self.result, str) else self._estimates(self.result),
            warnings=[*warnings, *self._warnings()],
            reproduction=reproduction(command, self.path, seed),
            sensitivity=None if sweep is None else sensitivity_facts(sweep),
        )

    def sweep(self) -> Sensitivity | None:
        """What follows if labels are missing because of the label, for the rarest class; None if none is missing."""
        X, y = self.sample.X, self.sample.labels
        if not (self.sample.z < 0).any():
            return None
        classifier = self.model.classifier if self.cv is None else self.cv
        if not isinstance(classifier, MARClassifierCV):
            X, classifier = classifier[:-1].transform(X) if len(classifier) > 1 else X, classifier[-1]
            result = classifier.sensitivity(X, y, n_draws=_DRAWS, method="pattern-mixture")
        else:
            result = classifier.sensitivity(X, y, n_draws=_DRAWS)
        return replace(result, classes=self.model.classes, varied=self.model.classes.tolist()[result.place])

    def _doubts(self) -> list[str]:
        """Checks of the mechanism that fail, in words."""
        notes = [] if self.cv is None else [note for note in self.cv.note_records_ if note.code in CODES]
        return plain_notes(notes, self.sample.features, self.model.classes)

    def contents(self, findings: Findings, sweep: Sensitivity | None = None) -> Contents:
        """The contents of the report."""
        places = sample_places(self.z, seed=0, size=_FIGURE_ROWS)
        features = self.sample.features
        subject = Subject(
            classifier=self.model.classifier,
            X=rows_at(self.model.X, places),
            z=self.z[places],
            statistical=self.model.statistical and self.model.statistical[-1],
            axes=None if self.model.axes is None else rows_at(self.model.axes, places),
            inference=None if isinstance(self.result, str) else self.result,
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
            thresholds=[] if self.tested is None else thresholds(self.model.classes, self.tested, self.tally),
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
            file=self.path.name,
            rows=len(self.rows.codes),
            label=self.label,
            id=self.id,
            features=[column["name"] for column in self.preparation.columns_],
            columns=self.sample.features,
            incomplete_rows=incomplete,
            rule=RULES[self.preparation.impute] if incomplete else "No feature is missing.",
            notes=[*self.assumed, *self.preparation.notes_],
        )

    def _label_facts(self) -> LabelFacts:
        codes, tally = self.rows.codes, self.tally
        imputed = int(tally.imputed.sum())
        given = np.bincount(codes[codes >= 0], minlength=len(self.model.classes))
        missing = int(np.sum(codes < 0))
        names = self.model.classes
        return LabelFacts(
            given=int(given.sum()),
            missing=missing,
            imputed=imputed,
            unfilled=missing - imputed,
            classes=[
                ClassFacts(str(name), int(a), int(b)) for name, a, b in zip(names, given, tally.imputed, strict=True)
            ],
            votes=self._vote_facts(),
            certainty=Certainty(
                mean_probability=tally.sum_probability / imputed if imputed else None,
                at_least_90=tally.at_least_90,
                at_least_99=tally.at_least_99,
                expected_errors=imputed - tally.sum_probability if imputed else None,
                sets=self._set_facts(),
            ),
        )

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

    def _warnings(self) -> list[str]:
        """Warnings for users of the results, in plain words."""
        messages, rows = [], self.rows
        weight = self._not_converged()
        if weight > 0.5:
            messages.append(
                "The fit did not converge: do not rely on it. A simpler --model or fewer --features may help."
            )
        elif weight > 0.0:
            messages.append(f"Candidates with a total weight of {weight:.2f} in the average did not converge.")
        if not (rows.codes < 0).any():
            messages.append("No label is missing, so nothing was imputed.")
        messages += rows.notes
        messages += rows.counts.notes()
        if rows.counts.rows:
            share = rows.counts.rows / len(rows.codes)
            messages.append(
                f"{rows.counts.rows:,} rows ({share:.1%}) have a missing feature. {RULES[self.preparation.impute]}"
            )
        model = self.model
        heavy = [model.candidates[name] for name, weight in model.weights.items() if weight >= _HEAVY]
        reported = [model.statistical] if model.statistical else []
        notes = [note for pipeline in (*reported, *heavy) for note in pipeline[-1].model_.notes]
        notes += self.cv.note_records_ if self.cv else []
        messages += plain_notes(notes, self.sample.features, self.model.classes)
        if isinstance(self.result, str):
            messages.append(self.result)
        if not self._doubts():  # which say the same
            messages += misfit_warning(self.tally, self.sample, self.model.classes)
        guess = np.log(len(self.model.classes))
        loss = self.tested.scores()["log-loss"].value if self.tested else 0.0
        if loss > guess:
            messages.append(
                f"The log-loss, {loss:.3f}, is worse than that of giving all classes the same probability, {guess:.3f}: do not "
                "rely on these probabilities. Another --model may do better."
            )
        return messages


def inference_of(model: Model, labels: NDArray[Any]) -> Inference | str:
    """Standard errors and tests for the fit, or a sentence why there are none."""
    if model.statistical is None:
        return NO_PARAMETERS
    estimator = model.statistical[-1]
    if estimator.model_.n_parameters > _MOST_PARAMETERS:
        return f"No intervals were computed: the model has more than {_MOST_PARAMETERS:,} parameters."
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


def missingness_facts(model: Model, result: Inference | str, doubts: Sequence[str] = ()) -> MissingnessFacts:
    """Whether missingness depends on how uncertain the class is, and how often labels are missing at both extremes."""
    if model.statistical is None:
        return MissingnessFacts(None, None, "", f"Not tested. {NO_PARAMETERS}", None, None)
    mechanism = model.statistical[-1].mechanism_
    if not model.statistical[-1].model_.has_mechanism:
        return MissingnessFacts(None, None, "", "No label is missing.", None, None)
    scores = np.zeros((len(model.classes), 2))  # all classes equally probable, and one class certain
    scores[1:, 1] = -700.0
    u = mechanism.measured(posterior(scores)).value
    toss_up, certain = (float(q) for q in mechanism.missing_proba_of(u[None, :]))
    if isinstance(result, str):
        return MissingnessFacts(None, None, "", f"Not tested. {result}", toss_up, certain)
    p_value, test = _informative(result)
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
    return MissingnessFacts(p_value < 0.05, p_value, test, sentence, toss_up, certain, list(doubts))


def _informative(result: Inference) -> tuple[float | None, str]:
    """P-value and name of the test of alpha_1 = 0: the likelihood ratio test unless it is too expensive, else Wald's."""
    fit = result.fitted
    few = fit.n_rows <= _SIMULATE
    free = fit.mechanism is not None and (fit.mechanism.free_shape or fit.mechanism.free_share)
    if few or not free:
        try:
            test = result.test_informative(None if few else False, n_resamples=_RESAMPLES, random_state=0)
            return _number(test.p_value), "likelihood ratio test"
        except ValueError:
            pass  # penalised, or the mechanism has weight zero: no likelihood to compare
    p_value = dict(zip(result.param_names, result.pvalues, strict=True)).get("alpha_1")
    return (None if p_value is None else _number(p_value)), "Wald test with robust standard errors"


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def misfit_warning(tally: Tally, rows: SampledRows, classes: NDArray[Any]) -> list[str]:
    """A warning if, along a probability or a feature, observed and fitted rates of missing labels clearly differ."""
    n_bins = min(10, len(rows.z) // _BIN)
    if n_bins < 2 or not (rows.z < 0).any():
        return []
    q = np.clip(tally.missing, _SURE, 1.0 - _SURE)
    columns = list(enumerate(classes))[len(classes) == 2 :]  # the second class if there are two, else each
    variables = [(f"the probability of {str(name)!r}", tally.proba[:, k]) for k, name in columns]
    variables += [(repr(name), column) for name, column in zip(rows.features, rows.X.T, strict=True)]
    worst, warnings = _LEVEL / len(variables), []
    for name, values in variables:
        check = missingness_check(rows.z, q, values, n_bins)
        i = int(np.abs(check.z).argmax())
        at, observed, fitted = float(check.by[i]), float(check.observed[i]), float(check.fitted[i])
        if check.p_value < worst and abs(observed - fitted) >= _LEAST:
            worst = check.p_value
            warnings = [
                f"Where {name} is about {at:.3g}, {observed:.0%} of the labels are missing, but the model expects {fitted:.0%}: "
                "it does not describe well why labels are missing. Perhaps they are lost on one side of the boundary only. "
                "P(label missing), the corrected scores and the comparison may be wrong."
            ]
    return warnings


def candidate_rows(
    cv: MARClassifierCV, model: Model, any_missing: bool = True
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The candidates by decreasing weight, and the classifiers of the labelled rows alone, the best first."""
    keys = [key for key in cv.results_ if key not in ("weight", "seconds", "rival")]
    rows = [
        dict(zip(keys, values, strict=True))
        for values in zip(*(cv.results_[key].tolist() for key in keys), strict=True)
    ]
    bounds = {"log_loss": (0.0, np.inf), "brier": (0.0, np.inf), "accuracy": (0.0, 1.0), "roc_auc": (0.0, 1.0)}
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
    doubt = gain.clear and doubtful(cv.note_records_)
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
    doubt = gain.clear and doubtful(cv.note_records_)
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


def thresholds(classes: NDArray[Any], tested: TestedRows, tally: Tally) -> list[Thresholds]:
    """Effects of a threshold, for the second class if there are two, otherwise for each of the most frequent classes."""
    predictions = tested.predictions()
    frequent = np.argsort(-tally.all_above[:, 50], kind="stable")[:_MOST_CLASSES]
    results = []
    for k in [1] if len(classes) == 2 else sorted(frequent.tolist()):
        curve = ThresholdDisplay.of(predictions, k)
        results.append(
            Thresholds(
                positive=str(classes[k]),
                at=curve.thresholds.tolist(),
                precision=[_number(value) for value in curve.precision],
                recall=[_number(value) for value in curve.recall],
                accuracy=[_number(value) for value in curve.accuracy],
                unlabelled_above=tally.unlabelled_above[k].tolist(),
                unlabelled=int(tally.unlabelled_above[k, 0]),
                all_above=tally.all_above[k].tolist(),
                all=int(tally.all_above[k, 0]),
            )
        )
    return results


def reproduction(command: str, data: Path, seed: int) -> Reproduction:
    """The command, file hash, versions and seed that reproduce the result."""
    with data.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    versions: dict[str, Any] = {
        "marmix": marmix.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    return Reproduction(command, digest, versions, seed)
