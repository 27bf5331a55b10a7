"""What was found, in plain values: labels, certainty, scores, the comparison."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix import evaluation
from marmix.arrays import Array
from marmix.estimators import MARClassifierCV
from marmix.estimators.choice import TINY
from marmix.evaluation import Score
from marmix.journey.answers import Answers
from marmix.report.contents import Certainty, ClassFacts, Comparison, LabelFacts, ModelFacts, ScoreFacts

SINGLE = "a class has a single labelled row, which cannot be both learned from and predicted."
_SCORES = (
    ("log-loss", evaluation.log_loss, "lower", np.inf),
    ("Brier score", evaluation.brier, "lower", np.inf),
    ("accuracy", evaluation.accuracy, "higher", 1.0),
    ("AUC", evaluation.roc_auc, "higher", 1.0),
)


def label_facts(
    z: NDArray[np.integer[Any]], found: Answers, classes: NDArray[Any], dropped: NDArray[np.integer[Any]]
) -> LabelFacts:
    """How many labels were given, missing and imputed; `dropped` are the codes of rows with missing features."""
    lost = z < 0
    imputed = np.bincount(found.code[lost], minlength=len(classes))
    given = np.bincount(z[~lost], minlength=len(classes)) + np.bincount(dropped[dropped >= 0], minlength=len(classes))
    unfilled = int(np.sum(dropped < 0))
    p = found.probability[lost]
    certainty = Certainty(
        mean_probability=float(p.mean()) if len(p) else None,
        at_least_90=int(np.sum(p >= 0.90)),
        at_least_99=int(np.sum(p >= 0.99)),
        expected_errors=float(np.sum(1.0 - p)) if len(p) else None,
    )
    return LabelFacts(
        given=int(given.sum()),
        missing=int(lost.sum()) + unfilled,
        imputed=int(lost.sum()),
        unfilled=unfilled,
        classes=[ClassFacts(str(name), int(a), int(b)) for name, a, b in zip(classes, given, imputed, strict=True)],
        certainty=certainty,
    )


def model_facts(name: str, estimator: Any, candidates: list[dict[str, Any]], units: str) -> ModelFacts:
    """The model, its settings that differ from the defaults, and how the fit went."""
    defaults = type(estimator)().get_params()
    own = {key: value for key, value in estimator.get_params().items() if value != defaults[key]}
    return ModelFacts(
        name=name,
        kind=type(estimator).__name__,
        parameters=own,
        converged=bool(estimator.converged_),
        loglik=float(estimator.loglik_),
        iterations=int(estimator.n_iter_),
        passes=int(estimator.n_passes_),
        candidates=candidates,
        units=units,
    )


def candidate_rows(cv: MARClassifierCV) -> list[dict[str, Any]]:
    """The table of the comparison, best first."""
    keys = [key for key in cv.results_ if key not in ("weight", "seconds")]
    rows = [
        dict(zip(keys, values, strict=True))
        for values in zip(*(cv.results_[key].tolist() for key in keys), strict=True)
    ]
    bounds = {"log_loss": (0.0, np.inf), "brier": (0.0, np.inf), "accuracy": (0.0, 1.0), "roc_auc": (0.0, 1.0)}
    for row in rows:
        row |= {key: float(np.clip(row[key], *ends)) for key, ends in bounds.items() if key in row}
    return sorted(rows, key=lambda row: row.get("log_loss", 0.0))


def comparison(cv: MARClassifierCV, z: NDArray[np.integer[Any]]) -> Comparison:
    """Whether modelling the missingness helped, of rows z; estimates of a loss may be negative, and are shown as 0 then."""
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


def all_scores(
    z: NDArray[np.integer[Any]], proba: Array, missing: Array | None, posterior: Array | None = None
) -> Mapping[str, Score]:
    """Every score of the rows whose label is known, corrected for the others; without P(label missing) as they are."""
    q, numbers = np.zeros(len(z)) if missing is None else missing, np.arange(proba.shape[1])
    every = np.unique(z[z >= 0]).size == len(numbers)  # an area needs labelled rows of every class
    proba = np.maximum(proba, TINY)  # a class that was thought impossible costs much, and not without end
    return {
        name: score(z, proba, q, classes=numbers, posterior=posterior)
        for name, score, *_ in _SCORES
        if every or name != "AUC"
    }


def score_facts(scores: Mapping[str, Score]) -> list[ScoreFacts]:
    """Scores as the report shows them; estimates that are corrected may leave the range of a score, and are put at its end."""
    return [
        ScoreFacts(name, float(np.clip(scores[name].value, 0.0, most)), scores[name].stderr, scores[name].plain, better)
        for name, _, better, most in _SCORES
        if name in scores
    ]
