"""The classifier of a report: candidates compared on a sample of the rows, averaged for all rows, and in words."""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from marmix.app.findings import SetFacts
from marmix.app.survey import GIVEN, IMPUTED, PREFIX, Rows
from marmix.core.arrays import Array
from marmix.core.labels import most_voted
from marmix.estimators.logistic import MARLogisticRegression
from marmix.estimators.mixture import MARGaussianMixture
from marmix.estimators.student import MARStudentMixture
from marmix.evaluation.conformal import conformal_sets
from marmix.evaluation.forests import flexible_missing_proba
from marmix.evaluation.prior import prior_of, unlabelled_counts
from marmix.evaluation.scorer import last_and_rows, missing_proba
from marmix.selection.average import MARClassifierCV
from marmix.selection.candidates import default_candidates, models_missingness, settled
from marmix.selection.comparison import SAMPLE, Comparison, compare, offsets_of, refitted
from marmix.selection.held_out import sample_places
from marmix.tables.preparation import Encoder, numbers_of

Step = Callable[[float, str], object]  # called with the finished share of the work, and what is done next

_BLOCK = 65_536  # rows predicted together
KINDS = {
    "MARGaussianMixture": "Gaussian classes",
    "MARStudentMixture": "Student-t classes",
    "MARLogisticRegression": "logistic regression",
    "MARKernelClassifier": "kernel logistic regression",
    "MARBoostingClassifier": "boosted trees",
    "Spreading": "label spreading",
    "Forest": "forest of extra trees",
}


@dataclass(frozen=True)
class Model:
    """A fitted classifier, and the one of its candidates whose parameters are reported; classes are numbered 0, 1, ..."""

    classifier: Any  # MARClassifierCV or, if one was saved, a pipeline with a single model
    statistical: Pipeline | None
    classes: NDArray[Any]

    @property
    def averages(self) -> bool:
        """Whether the classifier is an average."""
        return isinstance(self.classifier, MARClassifierCV)

    @property
    def candidates(self) -> dict[str, Pipeline]:
        """The models that predict."""
        return self.classifier.estimators_ if self.averages else {"": self.classifier}

    @property
    def weights(self) -> dict[str, float]:
        """Their weights."""
        return self.classifier.weights_ if self.averages else {"": 1.0}

    @property
    def unconverged(self) -> float:
        """Total weight of the candidates that did not converge."""
        return sum(weight for name, weight in self.weights.items() if not self.candidates[name][-1].converged_)

    def axes(self, X: Array) -> Array:
        """The rows as the last step of `statistical` takes them."""
        assert self.statistical is not None
        return np.asarray(last_and_rows(self.statistical, X)[1])

    def named(self) -> Any:
        """The average with the names of the classes."""
        average = copy(self.classifier)
        average.selection_ = replace(average.selection_, classes=self.classes)
        return average

    def words(self, any_missing: bool) -> str:
        """The kinds of models in an average with their total weights; the model itself if one has all the weight."""
        members = {name: weight for name, weight in self.weights.items() if weight > 0.0}
        if len(members) == 1:
            return model_in_words(self.candidates[next(iter(members))][-1], any_missing)
        shares: dict[str, float] = {}
        for name, weight in members.items():
            kind = type(self.candidates[name][-1]).__name__
            shares[KINDS.get(kind, kind)] = shares.get(KINDS.get(kind, kind), 0.0) + weight
        parts = sorted(shares.items(), key=lambda item: -item[1])
        words = [f"{kind} {share:.2f}" for kind, share in parts] if len(parts) > 1 else list(shares)
        return f"average of {len(members)} models: {', '.join(words)}"


def model_in_words(estimator: Any, any_missing: bool = True) -> str:
    """A fitted model in plain words and, where labels are missing, whether it uses the missingness."""
    words = candidate_in_words(estimator)
    return f"{words}, missingness {missingness_in_words(estimator)}" if any_missing else words


def candidate_in_words(estimator: Any) -> str:
    """A fitted model in plain words."""
    kind = type(estimator).__name__
    return str(estimator.model_.score_model.words) if hasattr(estimator, "model_") else KINDS.get(kind, kind)


def rows_of(estimator: Any) -> int | None:
    """Number of rows that a model was fitted to; None if it does not say."""
    return round(estimator.model_.total_weight) if hasattr(estimator, "model_") else None


def missingness_in_words(estimator: Any) -> str:
    """Whether a fitted model uses the missingness."""
    model = getattr(estimator, "model_", None)
    weight = 0.0 if model is None or model.mechanism is None else model.tempering
    return {0.0: "ignored", 1.0: "modelled"}.get(weight, f"modelled with weight {weight:g}")


class Sample(NamedTuple):
    """A sample of complete rows in the units of the file, for the comparison, checks and the figure of the classes."""

    places: NDArray[np.intp]  # among all complete rows
    X: Array
    z: NDArray[np.integer[Any]]
    labels: NDArray[Any]  # z, or shares of votes
    missing: NDArray[np.bool_]  # whose label was missing when the data came
    encoder: Encoder | None = None  # of `Rows`

    @property
    def numbers(self) -> Array:
        """X as features without missing values and categories."""
        return numbers_of(self.X, self.encoder)


def sampled(rows: Rows, seed: int) -> Sample:
    """Sample rows; of rows with votes by the rarest class that has some, so that every class is in the sample."""
    groups, z, labels = rows.z, rows.z, rows.labels
    if labels.ndim == 2:
        rarest = np.where(labels > 0.0, (labels > 0.0).sum(axis=0), np.inf).argmin(axis=1)
        groups = np.where(z < 0, z, rarest)
    places = sample_places(groups, seed, SAMPLE)
    return Sample(places, rows.X[places], z[places], labels[places], rows.missing[places], rows.encoder)


def candidates_of(kind: str, sample: Sample, n_classes: int, categories: bool) -> dict[str, Any]:
    """The default candidates for a sample; those that ignore the missingness still estimate how labels go missing.

    If no label is missing, candidates that differ in the mechanism alone are one.
    """
    grid = default_candidates(
        n_classes,
        *sample.numbers.shape,
        n_labelled=int(np.sum(sample.z >= 0)),
        kind=kind,
        categories=categories,
        link="logit",
    )
    if (sample.z < 0).any():
        return grid
    distinct: dict[str, str] = {}
    for name, model in grid.items():
        settings = model.get_params()
        if settings.pop("mechanism_weight", None) != 0.0:
            settings.pop("link", None)
            distinct.setdefault(f"{type(model).__name__} {settings}", name)
    return {name: grid[name] for name in distinct.values()}


def compared(cv: MARClassifierCV, sample: Sample, step: Step, kept: Comparison | None = None) -> Comparison:
    """Cross-validate candidates, or take those kept, and the usual classifiers of the labelled rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes go into the report
        levels = None if sample.encoder is None else sample.encoder.levels
        return compare(cv, sample.X, sample.labels, missing=sample.missing, report=step, levels=levels, kept=kept)


def statistical(it: Comparison) -> str | None:
    """The name of the best candidate with parameters to interpret; None if there is none.

    These are logistic regressions and mixtures with one component per class, fitted by likelihood. It is one that models the
    missingness unless ignoring the missingness scores better.
    """
    ignore = it.comparison is not None and it.comparison.gain < 0.0
    names = [name for name, pipeline in it.estimators.items() if _has_parameters(pipeline[-1])]
    names = [name for name in names if models_missingness(it.estimators[name]) is not ignore] or names
    if "log_loss" not in it.results:
        return names[0] if names else None
    losses = dict(zip(it.results["candidate"].tolist(), it.results["log_loss"].tolist(), strict=True))
    return min(names, key=lambda name: losses[name], default=None)


def _has_parameters(estimator: Any) -> bool:
    settings = estimator.get_params()
    return (
        type(estimator) in (MARGaussianMixture, MARStudentMixture, MARLogisticRegression)
        and settings["link"] is not None
        and settings["mechanism_weight"] in (0.0, 1.0)
        and settings.get("n_components", 1) == 1
    )


def averaged(
    cv: MARClassifierCV, it: Comparison, X: Array, labels: NDArray[Any], step: Step, missing: Any = None
) -> MARClassifierCV:
    """The average for all rows; its main candidates are fitted again if they were compared on a sample."""
    assert it.rows is not None
    leading, n_compared = statistical(it), len(it.rows.missing_proba)
    weights = {name: weight for name, weight in it.weights.items() if weight > 0.0 or name == leading}
    estimators = {name: it.estimators[name] for name in weights}
    offsets = it.prior_offset and {name: it.prior_offset[name] for name in weights}
    results = {key: column for key, column in it.results.items() if key != "seconds"}  # the same file in every run
    results["weight"] = np.array([weights.get(name, 0.0) for name in results["candidate"].tolist()])
    if len(X) > n_compared:
        names, again = refitted(estimators, weights, len(X), leading), dict[str, Pipeline]()
        start, left = monotonic(), (cv.time_limit or np.inf) - float(it.results["seconds"].sum())
        for done, name in enumerate(names):
            if monotonic() - start > left:  # the others keep their fits to the sample
                break
            step(done / len(names), name)
            again[name] = _refit(estimators[name], X, labels, missing)
        estimators |= again
        if (prior := prior_of(cv.prior, it.classes)) is not None and offsets:
            without = labels < 0 if labels.ndim == 1 else ~labels.any(axis=1)
            offsets |= offsets_of(again, X[without], unlabelled_counts(prior, labels, it.classes))
    average = clone(cv)
    average.selection_ = replace(
        it, weights=weights, estimators=estimators, prior_offset=offsets, results=results, rivals=None, rows=None
    )
    return average


def _refit(pipeline: Pipeline, X: Array, labels: NDArray[Any], missing: Any) -> Pipeline:
    """The candidate fitted to all rows, with the settings that it chose by itself on the sample."""
    refit = settled(pipeline)
    for step in refit[:-1]:
        if isinstance(step, StandardScaler):  # which makes a copy, and the models standardise the rows themselves
            step.set_params(copy=False, with_mean=False, with_std=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes and convergence go into the report
        return refit.fit(X, labels, **{f"{pipeline.steps[-1][0]}__missing": missing})


# Predictions for the rows of a table


class Predicted(NamedTuple):
    """Predictions for the rows of a table; NaN and -1 for rows with a missing feature.

    The uncertainty is the normalised entropy of the class probabilities, ``H(tau) / log K``: 0 if the class is certain, 1 if
    all classes are equally probable.
    """

    proba: Array  # (n, K)
    missing: Array  # (n,), P(label missing); NaN if the classifier has no mechanism
    code: NDArray[np.intp]  # (n,), the most probable class
    uncertainty: Array  # (n,)

    def columns(self, classes: Sequence[str], source: NDArray[Any] | None = None) -> dict[str, NDArray[Any]]:
        """The columns to add to a table, with where its labels are from."""
        return {
            f"{PREFIX}label": np.array([*classes, ""], dtype=object)[self.code],
            **({} if source is None else {f"{PREFIX}source": source}),
            **{f"{PREFIX}p_{name}": p for name, p in zip(classes, self.proba.T, strict=True)},
            f"{PREFIX}uncertainty": self.uncertainty,
            f"{PREFIX}missing_proba": self.missing,
        }


def predicted(classifier: Any, X: Array, complete: NDArray[np.bool_], step: Step = lambda *_: None) -> Predicted:
    """Predict the rows of a table, of which those that are complete have the features X."""
    n, K, places = len(complete), len(classifier.classes_), np.flatnonzero(complete)
    proba, missing, code = np.full((n, K), np.nan), np.full(n, np.nan), np.full(n, -1)
    for start in range(0, len(X), _BLOCK):
        step(start / len(X), "predicting")
        inside, block = places[start : start + _BLOCK], X[start : start + _BLOCK]
        proba[inside] = classifier.predict_proba(block)
        if (q := missing_proba(classifier, block)) is not None:
            missing[inside] = q
    code[complete] = proba[complete].argmax(axis=1)
    return Predicted(proba, missing, code, entr(proba).sum(axis=1) / np.log(K))


def given_codes(rows: Rows, proba: Array) -> NDArray[np.integer[Any]]:
    """Codes of the given labels, -1 where missing; of votes the most voted class, the most probable one of tied classes."""
    return rows.codes if rows.shares is None else most_voted(rows.shares, proba)


def with_labels(predictions: Predicted, rows: Rows) -> tuple[Predicted, NDArray[Any]]:
    """The predictions with the labels that are given in place of predicted ones, and where the label of each row is from."""
    given = given_codes(rows, predictions.proba)
    source = np.array(["", IMPUTED], dtype=object)[(predictions.code >= 0).astype(int)]
    source[given >= 0] = GIVEN if rows.source is None else rows.source[given >= 0]
    return predictions._replace(code=np.where(given >= 0, given, predictions.code)), source


def sets_of(
    coverage: float, sample: Sample, held_out: Array | None, rows: Rows, predictions: Predicted
) -> tuple[NDArray[Any], SetFacts]:
    """The classes of each row as text, the most probable first, such that a share of the sets holds the true one.

    They are calibrated on a sample with held-out probabilities; a given label is its own set.
    """
    if held_out is None:
        raise ValueError("--sets needs at least two labelled rows of every class.")
    without = np.asarray(sample.labels < 0 if sample.labels.ndim == 1 else ~sample.labels.any(axis=1))
    missing, forest = flexible_missing_proba(sample.X, without)
    classes, codes = rows.classes.astype(str), given_codes(rows, predictions.proba)
    texts = np.array([*classes.tolist(), ""], dtype=object)[codes]
    unlabelled = codes[rows.complete] < 0
    places = np.flatnonzero(rows.complete)[unlabelled]
    proba = predictions.proba[places]
    q = np.empty(len(rows.X))
    q[unlabelled] = np.minimum(forest.predict_proba(rows.X[unlabelled])[:, 1], 1.0 - 1.0 / len(missing))
    q[sample.places] = missing  # of trees that did not see the row
    inside = conformal_sets(
        sample.labels, held_out, missing, proba, q[unlabelled], classes=np.arange(len(classes)), coverage=coverage
    )
    for place, order, members in zip(places, np.argsort(-proba, axis=1, kind="stable"), inside, strict=True):
        texts[place] = " | ".join(classes[order[members[order]]])
    sizes = inside.sum(axis=1)
    return texts, SetFacts(coverage, int(np.sum(sizes == 1)), float(sizes.mean()))
