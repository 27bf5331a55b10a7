"""Facts about a model and its rows: estimates as plain values, with the sentences that say them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix import evaluation
from marmix.app.findings import (
    Comparison,
    Estimate,
    MissingnessFacts,
    ScoreFacts,
    StatisticalFacts,
)
from marmix.app.models import Model, candidate_in_words, missingness_in_words, model_in_words, rows_of
from marmix.core.arrays import Array
from marmix.core.labels import label_shares
from marmix.core.measures import posterior
from marmix.evaluation import Score
from marmix.evaluation.pseudo_labels import UncertainPosterior
from marmix.evaluation.verdict import FEW
from marmix.inference import Inference, parameters_of
from marmix.inference.fitted import too_many_parameters
from marmix.plotting.predictions import Predictions
from marmix.selection.comparison import TINY, Gain
from marmix.selection.comparison import Comparison as Compared
from marmix.selection.evidence import LEAST

SCALED = "Features were standardised before the fit: coefficients are per standard deviation of the feature."
LINEAR = (
    "Whether hard rows lose their labels more often cannot be told: the features themselves explain as well which labels "
    "are missing."
)
NOT_OF_FIT = "No intervals were computed: these are not the rows the model was fitted to."
NO_PARAMETERS = "No candidate has parameters to test."
SINGLE = "a class has only one labelled row, which cannot be used both to fit and to test."
TOO_UNCERTAIN = "Too uncertain to say: a class has too few labels to estimate the log-loss."
_TESTABLE = 10  # labelled rows of a class
_MOST_TESTED = 100_000  # most rows of a fit without the uncertainty, which the likelihood ratio test compares
TOO_FEW_LABELS = (
    f"There are too few labels for tests and intervals of parameters: fewer than {FEW}, or than {_TESTABLE} of a class."
)

_SCORES = (
    ("log-loss", evaluation.log_loss, "lower"),
    ("Brier score", evaluation.brier, "lower"),
    ("accuracy", evaluation.accuracy, "higher"),
    ("AUC", evaluation.roc_auc, "higher"),
)


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


def held_out(it: Compared, labels: NDArray[Any], n_rows: int) -> TestedRows | None:
    """The held-out predictions of a comparison of rows with these labels; None if a class has too few for one."""
    if it.rows is None or it.rows.held_out_proba is None:
        return None
    some = "" if len(labels) == n_rows else f" in a random sample of {len(labels):,} rows"
    n_labelled = np.sum(labels >= 0) if labels.ndim == 1 else np.sum(labels.any(axis=1))
    where = f"{n_labelled:,} labelled rows{some}, each predicted by a model fitted without it"
    return TestedRows(labels, it.rows.held_out_proba, it.rows.missing_proba, it.rows.posterior, where)


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


class ParameterTests(NamedTuple):
    """Parameters with intervals, and the test whether missingness depends on the uncertainty; or the reason for none."""

    reason: str = ""
    estimates: Sequence[Estimate] = ()
    p_value: float | None = None
    test: str = ""


def parameter_tests(
    model: Model, X: Array, labels: NDArray[Any], features: Sequence[str], missing: Any = None
) -> ParameterTests:
    """Standard errors and the test for the fit, whose matrices and copies of the rows are not kept."""
    if model.statistical is None:
        return ParameterTests(NO_PARAMETERS)
    counts = label_shares(labels, np.arange(len(model.classes))).sum(axis=0)
    if counts.sum() < FEW or counts.min() < _TESTABLE:
        return ParameterTests(TOO_FEW_LABELS)
    estimator = model.statistical[-1]
    if reason := too_many_parameters(estimator.model_):
        return ParameterTests(f"No intervals were computed: {reason}.")
    try:
        result: Inference = estimator.inference(model.axes(X), labels, missing=missing)
    except ValueError as error:
        return ParameterTests(f"No intervals could be computed: {error}")
    informative = _informative(result, len(labels)) if estimator.model_.has_mechanism else (None, "")
    return ParameterTests("", estimates(model, result, features), *informative)


def missingness_facts(model: Model, tests: ParameterTests) -> MissingnessFacts:
    """Whether missingness depends on how uncertain the class is, and how often labels are missing at both extremes."""
    if model.statistical is None:
        return MissingnessFacts(None, None, "", NO_PARAMETERS)
    mechanism = model.statistical[-1].mechanism_
    if not model.statistical[-1].model_.has_mechanism:
        return MissingnessFacts(None, None, "", "No label is missing.")
    if tests.reason == TOO_FEW_LABELS:
        return MissingnessFacts(None, None, "", tests.reason)
    scores = np.zeros((len(model.classes), 2))  # all classes equally probable, and one class certain
    scores[1:, 1] = -700.0
    u = mechanism.measured(posterior(scores)).value
    toss_up, certain = (float(q) for q in mechanism.missing_proba_of(u[None, :]))
    if tests.reason:
        return MissingnessFacts(None, None, "", tests.reason, toss_up, certain)
    _, _, p_value, test = tests
    if p_value is None:
        sentence = "It could not be tested: the data do not determine the effect."
        return MissingnessFacts(None, None, test, sentence, toss_up, certain)
    sentence = f"Labels are missing {'more' if certain <= toss_up else 'less'} often when the class is unclear."
    if p_value >= 0.05:
        sentence = "There is no evidence that labels are missing more or less often when the class is unclear."
    return MissingnessFacts(p_value < 0.05, p_value, test, sentence, toss_up, certain)


def _informative(result: Inference, n_rows: int) -> tuple[float | None, str]:
    """P-value and name of the test of alpha_1 = 0.

    The likelihood ratio test, which takes another fit; Wald's of many rows, where a chi-square distribution is no reference, and
    where there is no likelihood.
    """
    mechanism = result.fitted.mechanism
    if n_rows <= _MOST_TESTED and (mechanism is None or not (mechanism.free_shape or mechanism.free_share)):
        try:
            test = result.test_informative(False)
            return _number(test.p_value), f"likelihood ratio test, {test.reference}"
        except ValueError:
            pass  # penalised, or the mechanism has weight zero: no likelihood to compare
    kinds = result.fitted.parameters.kinds  # a feature may have the name of a parameter
    alpha = [p for p, kind in zip(result.pvalues, kinds, strict=True) if kind == "alpha"]
    return (_number(alpha[1]) if len(alpha) > 1 else None), "Wald test with robust standard errors"


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def statistical_facts(model: Model, any_missing: bool) -> StatisticalFacts | None:
    """The model whose parameters are reported."""
    if model.statistical is None:
        return None
    estimator = model.statistical[-1]
    defaults = type(estimator)().get_params()
    name = next(key for key, pipeline in model.candidates.items() if pipeline is model.statistical)
    return StatisticalFacts(
        name=model_in_words(estimator, any_missing),
        kind=type(estimator).__name__,
        parameters={key: value for key, value in estimator.get_params().items() if value != defaults[key]},
        converged=bool(estimator.converged_),
        loglik=float(estimator.loglik_),
        iterations=int(estimator.n_iter_),
        passes=int(estimator.n_passes_),
        weight=model.weights[name],
        units=SCALED if any(getattr(step, "with_std", False) for step in model.statistical) else "",
    )


def estimates(model: Model, result: Inference, features: Sequence[str]) -> list[Estimate]:
    """Parameters with 95 % intervals, those of the mechanism first."""
    fit = result.fitted
    assert model.statistical is not None
    fitted = model.statistical[-1].model_.renamed(model.classes, np.array(features, dtype=object))
    names = parameters_of(fitted, fit.mechanism, fit.covariates).names
    low, high = result.conf_int().T
    entries = [
        Estimate(name, kind in ("alpha", "shape", "share"), float(value), *(_number(x) for x in ends))
        for name, kind, value, *ends in zip(
            names, fit.parameters.kinds, result.params, result.bse, low, high, strict=True
        )
    ]
    return sorted(entries, key=lambda one: not one.mechanism)


def candidate_rows(it: Compared, model: Model, any_missing: bool = True) -> list[dict[str, Any]]:
    """The candidates by decreasing weight."""
    # the accuracy of held-out predictions is not that of the labels written, which the scoreboard has
    keys = [key for key in it.results if key not in ("weight", "seconds", "rival", "accuracy")]
    bounds = {"log_loss": (0.0, np.inf), "brier": (0.0, np.inf), "roc_auc": (0.0, 1.0)}
    weights, candidates = model.weights if model.averages else it.weights, []
    for values in zip(*(it.results[key].tolist() for key in keys), strict=True):
        row = dict(zip(keys, values, strict=True))
        name = row["candidate"]
        if name not in it.estimators:  # a usual classifier
            continue
        pipeline = model.candidates.get(name, it.estimators[name])
        row |= {key: float(np.clip(row[key], *ends)) for key, ends in bounds.items() if key in row}
        row |= {
            "candidate": candidate_in_words(pipeline[-1]),
            "missingness": missingness_in_words(pipeline[-1]) if any_missing else "",
            "weight": weights.get(name, 0.0),
            "rows": rows_of(pipeline[-1]),
        }
        candidates.append(row)
    return sorted(candidates, key=lambda row: (-row["weight"], row.get("log_loss", 0.0)))


def rival(it: Compared) -> Comparison:
    """What the classifier gains over the best usual classifier of the labelled rows alone."""
    gain = it.rival_comparison
    if gain is None or "rival" not in it.results:
        return Comparison(None, "Not compared with classifiers of the labelled rows alone.")
    losses = np.where(it.results["rival"], it.results["log_loss"], np.inf)
    name = str(it.results["candidate"][losses.argmin()])
    return _compared(it, gain, f"Compared with {name}, the best of the usual classifiers", name)


def comparison(it: Compared, any_missing: bool) -> Comparison:
    """Whether modelling the missingness helped."""
    if it.rows is None or it.rows.held_out_proba is None:
        return Comparison(None, f"Nothing to compare: {SINGLE}")
    if it.comparison is None or not any_missing:
        why = "all candidates, or none, model the missingness" if any_missing else "no label is missing"
        return Comparison(None, f"Nothing to compare: {why}.")
    return _compared(it, it.comparison, "Compared with candidates that ignore the missingness")


def _compared(it: Compared, gain: Gain, what: str, name: str = "") -> Comparison:
    """A gain in words; negative estimates of a loss are shown as 0."""
    if gain.stderr > np.log(len(it.classes)):  # the log-loss of guessing
        return Comparison(None, TOO_UNCERTAIN, name)
    ours, theirs = max(gain.with_it, 0.0), max(gain.without, 0.0)
    answer = "clearly better" if gain.clear else "worse" if gain.clear_loss else "no clear difference"
    if gain.declined:
        answer = f"it cannot be told, as {gain.no_overlap}"
    change, low, high = (f"{value:.3f}".replace("-0.000", "0.000") for value in (gain.gain, *gain.interval))
    losses = f"{ours:.3f} against {theirs:.3f} (difference {change}, 95 % interval {low} to {high})"
    sentence = f"{what}: {answer}. The estimated log-loss is {losses}."
    better = None if gain.declined else gain.clear
    return Comparison(better, sentence, name, ours, theirs, gain.gain, *gain.interval)


def rule(it: Compared, model: Model, n_rows: int, n_compared: int) -> str:
    """Which candidates are left out of the average, and which rows they are fitted to."""
    sentences, names = [], [name for name, weight in model.weights.items() if weight > 0.0]
    if len(names) < len(it.weights):
        sentences.append(f"Candidates with a weight below {LEAST:g} are left out.")
    if n_rows > n_compared:
        on_all = sum(rows_of(model.candidates[name][-1]) == n_rows for name in names)
        sentences.append(
            f"The candidates were compared on a random sample of {n_compared:,} rows. Then those of the largest weights, and "
            f"the one whose parameters are reported, were fitted to all rows: {on_all} of the {len(names)} in the average."
        )
    return " ".join(sentences)
