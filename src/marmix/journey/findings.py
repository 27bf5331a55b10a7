"""What was found about a model and the rows of a file, as the plain values of a report."""

import platform
from collections.abc import Mapping
from copy import copy
from hashlib import file_digest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

import marmix
from marmix import evaluation
from marmix.arrays import Array
from marmix.displays import ThresholdDisplay
from marmix.displays.predictions import Predictions
from marmix.estimators import MARClassifierCV
from marmix.estimators.choice import TINY
from marmix.evaluation import Score, missingness_check
from marmix.inference import Inference, parameters_of
from marmix.journey.choosing import Choice, Model, plain_name, sample
from marmix.journey.rows import FileRows, rows_at
from marmix.journey.scoring import Tally
from marmix.mechanism.measures import posterior
from marmix.report.contents import (
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
    ScoreFacts,
    Thresholds,
)
from marmix.report.figures import Subject, figures
from marmix.report.notes import plain_notes
from marmix.tables.preparation import Preparation

RULES = {
    "median": "Missing numbers were replaced by the median of their column, missing categories by the most frequent one.",
    "drop": "Rows with a missing feature were left out of the fit, and got no label.",
}
SCALED = "Features were standardised before the fit: a coefficient is for one standard deviation of its feature."
OTHER_ROWS = "Not compared: these are not the rows of the fit."
SINGLE = "a class has a single labelled row, which cannot be both learned from and predicted."

_SCORES = (
    ("log-loss", evaluation.log_loss, "lower", np.inf),
    ("Brier score", evaluation.brier, "lower", np.inf),
    ("accuracy", evaluation.accuracy, "higher", 1.0),
    ("AUC", evaluation.roc_auc, "higher", 1.0),
)
_MOST_PARAMETERS = 1500  # with more, standard errors cost more than they tell
_SIMULATE, _RESAMPLES = 5000, 99  # rows up to which a reference distribution is simulated, and by how many samples
_FIGURE_ROWS = 100_000  # of which rates and distributions are drawn: their errors are thinner than a line then
_MOST_CLASSES = 20  # for which thresholds are shown

# Of the checks of the missingness: the level of all together, the least difference of rates that matters, the fewest rows of a
# bin, and how near to 0 or 1 a rate is taken to be when differences are judged.
_LEVEL, _LEAST, _BIN, _SURE = 0.01, 0.2, 50, 0.01


class Tested(NamedTuple):
    """Rows that were predicted without being trained on: labels (-1 where missing), probabilities, P(label missing)."""

    z: NDArray[np.integer[Any]]
    proba: Array
    missing: Array | None
    posterior: Array | None  # what the doubly robust scores lean on
    where: str  # in words

    def predictions(self) -> Predictions:
        """The same for displays."""
        return Predictions.of(self.z, self.proba, self.missing, np.arange(self.proba.shape[1]), self.posterior)

    def scores(self) -> Mapping[str, Score]:
        """Every score, corrected for the rows without a label."""
        return all_scores(self.z, self.proba, self.missing, self.posterior)


class Sampled(NamedTuple):
    """A sample of the rows in their own units: for the comparison, for checks and for the figure of the classes."""

    X: Array
    z: NDArray[np.integer[Any]]
    features: list[str]
    places: NDArray[np.intp]  # among all complete rows


def sampled(rows: FileRows, z: NDArray[np.integer[Any]], preparation: Preparation, seed: int) -> Sampled:
    """A sample of complete rows, before they are standardised."""
    places = sample(z, seed)
    names = [str(name) for name in preparation.get_feature_names_out()]
    return Sampled(rows_at(rows.X, places), z[places], names, places)


class Story(NamedTuple):
    """All that is known of a model and of the rows of a file."""

    path: Path
    label: str
    id: str | None
    preparation: Preparation
    rows: FileRows
    z: NDArray[np.integer[Any]]  # labels of the complete rows
    name: str  # of the model, in words
    model: Model
    choice: Choice | None  # None where the rows are not those of the fit
    result: Inference | str  # or why there is none
    tested: Tested | None
    sampled: Sampled
    tally: Tally

    def findings(self, warnings: list[str], command: str, seed: int) -> Findings:
        """What was found; `warnings` go before those of the model."""
        compared = Comparison(None, OTHER_ROWS, None, None, None, None)
        return Findings(
            data=self._data_facts(),
            labels=self._label_facts(),
            model=self._model_facts(),
            missingness=missingness_facts(self.model, self.result),
            comparison=comparison(self.choice.cv, self.z) if self.choice else compared,
            scores=score_facts(self.tested.scores()) if self.tested else [],
            scored_on=self.tested.where if self.tested else "",
            estimates=[] if isinstance(self.result, str) else self._estimates(self.result),
            warnings=[*warnings, *self._warnings()],
            reproduction=reproduction(command, self.path, seed),
        )

    def contents(self, findings: Findings) -> Contents:
        """The report: findings, figures, thresholds, and the rows most worth labelling."""
        places = sample(self.z, seed=0, size=_FIGURE_ROWS)
        subject = Subject(
            classifier=self.model.estimator,
            X=rows_at(self.model.X, places),
            z=self.z[places],
            inference=None if isinstance(self.result, str) else self.result,
            shown=self._with_names(),
            rows=self.sampled.X,
            labels=np.array([*self.model.classes.tolist(), None], dtype=object)[self.sampled.z],
            tested=self.tested and self.tested.predictions(),
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

    def _with_names(self) -> Any:
        """The classifier for rows in their own units, with the names of the features for the axes of a figure."""
        features = self.sampled.features
        if self.model.scaler is None:
            return self.model.named(features)
        scaler = copy(self.model.scaler)
        scaler.feature_names_in_ = np.array(features, dtype=object)
        return Pipeline([("scaler", scaler), ("classifier", self.model.named())])

    def _data_facts(self) -> DataFacts:
        incomplete = self.rows.counts.rows
        return DataFacts(
            file=self.path.name,
            rows=len(self.rows.codes),
            label=self.label,
            id=self.id,
            features=[column["name"] for column in self.preparation.columns_],
            columns=self.sampled.features,
            incomplete_rows=incomplete,
            rule=RULES[self.preparation.impute] if incomplete else "No feature is missing.",
            notes=list(self.preparation.notes_),
        )

    def _label_facts(self) -> LabelFacts:
        """How many labels were given, missing and imputed."""
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
            certainty=Certainty(
                mean_probability=tally.sum_probability / imputed if imputed else None,
                at_least_90=tally.at_least_90,
                at_least_99=tally.at_least_99,
                expected_errors=imputed - tally.sum_probability if imputed else None,
            ),
        )

    def _model_facts(self) -> ModelFacts:
        """The model, its settings that differ from the defaults, and how the fit went."""
        estimator = self.model.estimator
        defaults = type(estimator)().get_params()
        return ModelFacts(
            name=self.name,
            kind=type(estimator).__name__,
            parameters={key: value for key, value in estimator.get_params().items() if value != defaults[key]},
            converged=bool(estimator.converged_),
            loglik=float(estimator.loglik_),
            iterations=int(estimator.n_iter_),
            passes=int(estimator.n_passes_),
            candidates=candidate_rows(self.choice.cv) if self.choice else [],
            units=SCALED if self.model.scaler else "",
        )

    def _estimates(self, result: Inference) -> list[Estimate]:
        """Parameters with 95 % intervals, the mechanism's first."""
        fit = result.fitted
        names = parameters_of(self.model.named(self.sampled.features).model_, fit.mechanism, fit.covariates).names
        low, high = result.conf_int().T
        estimates = [
            Estimate(name, float(value), *(_number(x) for x in ends))
            for name, value, *ends in zip(names, result.params, result.bse, low, high, strict=True)
        ]
        of_classes = sum(kind not in ("alpha", "shape", "share") for kind in fit.parameters.kinds)
        return estimates[of_classes:] + estimates[:of_classes]

    def _warnings(self) -> list[str]:
        """What should be known before the results are used, in plain words."""
        messages, rows = [], self.rows
        if not self.model.estimator.converged_:
            messages.append(
                "The fit did not converge: do not rely on it. A simpler model, or fewer features, may help."
            )
        if not (rows.codes < 0).any():
            messages.append("No label is missing: nothing was imputed.")
        messages += rows.notes
        messages += rows.counts.notes()
        if rows.counts.rows:
            share = rows.counts.rows / len(rows.codes)
            messages.append(
                f"{rows.counts.rows:,} rows ({share:.1%}) have a missing feature. {RULES[self.preparation.impute]}"
            )
        notes = [*self.model.estimator.model_.notes, *(self.choice.cv.note_records_ if self.choice else [])]
        messages += plain_notes(notes, self.sampled.features, self.model.classes)
        if isinstance(self.result, str):
            messages.append(self.result)
        doubt = misfit(self.tally, self.sampled, self.model.classes)
        if doubt is not None:
            messages.append(doubt.sentence())
        chance = np.log(len(self.model.classes))
        loss = self.tested.scores()["log-loss"].value if self.tested else 0.0
        if loss > chance:
            messages.append(
                f"The log-loss, {loss:.3f}, is worse than that of a guess that all classes are equally probable, "
                f"{chance:.3f}: do not rely on these probabilities. Another --model may do better."
            )
        return messages


def inference_of(model: Model, z: NDArray[np.integer[Any]]) -> Inference | str:
    """Inference about the fit, or why there is none."""
    if model.estimator.model_.n_parameters > _MOST_PARAMETERS:
        return f"The model has more than {_MOST_PARAMETERS} parameters: no intervals were computed."
    try:
        result: Inference = model.estimator.inference(model.X, z)
    except ValueError as error:
        return f"No intervals: {error}"
    return result


def missingness_facts(model: Model, result: Inference | str) -> MissingnessFacts:
    """Whether labels go missing by how uncertain the classifier is, and how often at both ends."""
    mechanism = model.estimator.mechanism_
    if not model.estimator.model_.has_mechanism:
        return MissingnessFacts(None, None, "", "No label is missing.", None, None)
    scores = np.zeros((len(model.classes), 2))  # a toss-up between all classes, and one that is certain
    scores[1:, 1] = -700.0
    u = mechanism.measured(posterior(scores)).value
    toss_up, certain = (float(q) for q in mechanism.missing_proba_of(u[None, :]))
    if isinstance(result, str):
        return MissingnessFacts(None, None, "", f"It was not tested. {result}", toss_up, certain)
    p_value, test = _informative(result)
    if p_value is None:
        sentence = "It could not be tested: the data do not determine the slope."
        return MissingnessFacts(None, None, test, sentence, toss_up, certain)
    less = "less" if certain <= toss_up else "more"
    sentence = f"Labels are missing {less} often where the class is clear."
    if p_value >= 0.05:
        sentence = "There is no evidence that labels are missing more or less often where the class is clear."
    return MissingnessFacts(p_value < 0.05, p_value, test, sentence, toss_up, certain)


def _informative(result: Inference) -> tuple[float | None, str]:
    """The p-value of alpha_1 = 0: of the likelihood ratio where there is one at a bearable price, else Wald's."""
    fit = result.fitted
    few = fit.n_rows <= _SIMULATE
    free = fit.mechanism is not None and (fit.mechanism.free_shape or fit.mechanism.free_share)
    if few or not free:
        try:
            test = result.test_informative(None if few else False, n_resamples=_RESAMPLES, random_state=0)
            return _number(test.p_value), "likelihood ratio test"
        except ValueError:
            pass  # a penalty, or a mechanism of weight zero: there is no likelihood to compare
    p_value = dict(zip(result.param_names, result.pvalues, strict=True)).get("alpha_1")
    return (None if p_value is None else _number(p_value)), "Wald test with robust standard errors"


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


class Misfit(NamedTuple):
    """Where the rate of missing labels is farthest from what the model says: near the value `at` of a variable."""

    by: str
    at: float
    observed: float
    fitted: float

    def sentence(self) -> str:
        """The difference, and what follows."""
        return (
            f"Where {self.by} is about {self.at:.3g}, {self.observed:.0%} of the labels are missing, and the model of the "
            f"missingness says {self.fitted:.0%}: it does not tell well why labels are missing, perhaps because they are lost "
            "on one side of the boundary. P(label missing), the corrected scores and the comparison may be wrong."
        )


def misfit(tally: Tally, rows: Sampled, classes: NDArray[Any]) -> Misfit | None:
    """The worst place, if it is worse than chance and more than a trifle, in a sample of the rows."""
    n_bins = min(10, len(rows.z) // _BIN)
    if n_bins < 2 or not (rows.z < 0).any():
        return None
    q = np.clip(tally.missing, _SURE, 1.0 - _SURE)
    columns = list(enumerate(classes))[len(classes) == 2 :]  # the second class if there are two, else each
    along = [(f"the probability of {str(name)!r}", tally.proba[:, k]) for k, name in columns]
    along += [(repr(name), column) for name, column in zip(rows.features, rows.X.T, strict=True)]
    worst: tuple[float, Misfit] | None = None
    for by, values in along:
        check = missingness_check(rows.z, q, values, n_bins)
        i = int(np.abs(check.z).argmax())
        here = Misfit(by, float(check.by[i]), float(check.observed[i]), float(check.fitted[i]))
        clear = check.p_value < _LEVEL / len(along) and abs(here.observed - here.fitted) >= _LEAST
        if clear and (worst is None or check.p_value < worst[0]):
            worst = check.p_value, here
    return None if worst is None else worst[1]


def candidate_rows(cv: MARClassifierCV) -> list[dict[str, Any]]:
    """The table of the comparison, best first."""
    keys = [key for key in cv.results_ if key not in ("weight", "seconds")]
    rows = [
        dict(zip(keys, values, strict=True))
        for values in zip(*(cv.results_[key].tolist() for key in keys), strict=True)
    ]
    bounds = {"log_loss": (0.0, np.inf), "brier": (0.0, np.inf), "accuracy": (0.0, 1.0), "roc_auc": (0.0, 1.0)}
    for row in rows:
        row["candidate"] = plain_name(row["candidate"])
        row |= {key: float(np.clip(row[key], *ends)) for key, ends in bounds.items() if key in row}
    return sorted(rows, key=lambda row: row.get("log_loss", 0.0))


def comparison(cv: MARClassifierCV, z: NDArray[np.integer[Any]]) -> Comparison:
    """Whether modelling the missingness helped; an estimated loss may be negative, and is shown as 0 then."""
    if cv.held_out_proba_ is None:
        return Comparison(None, f"Nothing to compare: {SINGLE}", None, None, None, None)
    gain = cv.comparison_
    if gain is None or not (z < 0).any():
        why = cv.verdict_ if (z < 0).any() else "Nothing to compare: no label is missing."
        return Comparison(None, why, None, None, None, None)
    if gain.stderr > np.log(len(cv.classes_)):  # as much as there is to know
        why = "It cannot be told: with so few labels in a class the log-losses are estimated with very large errors."
        return Comparison(None, why, None, None, None, None)
    gain = gain._replace(with_it=max(gain.with_it, 0.0), without=max(gain.without, 0.0))
    return Comparison(gain.clear, gain.sentence(), gain.with_it, gain.without, gain.gain, gain.stderr)


def held_out(cv: MARClassifierCV, z: NDArray[np.integer[Any]], n_rows: int) -> Tested | None:
    """The held-out predictions of a cross-validation of rows z; None where a class has too few labels for one."""
    if cv.held_out_proba_ is None:
        return None
    part = "" if len(z) == n_rows else f" in a random sample of {len(z):,} rows"
    where = f"{np.sum(z >= 0):,} labelled rows{part}, each predicted by a model that was fitted without it"
    return Tested(z, cv.held_out_proba_, cv.missing_proba_, cv.reference_proba_, where)


def all_scores(
    z: NDArray[np.integer[Any]], proba: Array, missing: Array | None, posterior: Array | None = None
) -> Mapping[str, Score]:
    """Every score of the labelled rows, corrected for the others; without P(label missing) as they are."""
    q, numbers = np.zeros(len(z)) if missing is None else missing, np.arange(proba.shape[1])
    every = np.unique(z[z >= 0]).size == len(numbers)  # an area needs labelled rows of every class
    proba = np.maximum(proba, TINY)  # a class that was thought impossible costs much, and not without end
    return {
        name: score(z, proba, q, classes=numbers, posterior=posterior)
        for name, score, *_ in _SCORES
        if every or name != "AUC"
    }


def score_facts(scores: Mapping[str, Score]) -> list[ScoreFacts]:
    """Scores as the report shows them; corrected estimates may leave the range of a score, and are put at its end."""
    return [
        ScoreFacts(name, float(np.clip(scores[name].value, 0.0, most)), scores[name].stderr, scores[name].plain, better)
        for name, _, better, most in _SCORES
        if name in scores
    ]


def thresholds(classes: NDArray[Any], tested: Tested, tally: Tally) -> list[Thresholds]:
    """What a threshold on the probability would do: of the second class if there are two, else of the most frequent ones."""
    predictions = tested.predictions()
    often = np.argsort(-tally.all_above[:, 50], kind="stable")[:_MOST_CLASSES]
    out = []
    for k in [1] if len(classes) == 2 else sorted(often.tolist()):
        curve = ThresholdDisplay.of(predictions, k)
        out.append(
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
    return out


def reproduction(command: str, data: Path, seed: int) -> Reproduction:
    """How to make the same again."""
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
