"""`compare`: candidates fitted and cross-validated, their weights, and what held-out rows say about them.

The result is one frozen value, a `Comparison`; `MARClassifierCV` validates its parameters, holds this value and predicts with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from itertools import zip_longest
from numbers import Integral, Real
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix.core.arrays import Array, to_host_or_refuse, unmasked
from marmix.core.files import open_array
from marmix.core.labels import asked_labels, copies_of, label_shares, missing_texts, missing_texts_notes
from marmix.core.model import column_names
from marmix.core.notes import Note, all_labelled_notes, sentence
from marmix.engines import row_order
from marmix.engines.checks import check_finite, check_lengths, check_results, checked_weights, in_floats, refuse_sparse
from marmix.engines.rows import encoded
from marmix.estimators.base import entered
from marmix.estimators.boosting import MARBoostingClassifier
from marmix.estimators.validation import Rule, feature_columns
from marmix.evaluation.joint import JointTable
from marmix.evaluation.prior import class_offsets, prior_of, tilted, unlabelled_counts
from marmix.evaluation.pseudo_labels import NO_CHANCE, UncertainPosterior, representation
from marmix.evaluation.scorer import last_and_rows
from marmix.evaluation.scores import QUANTILE, Score, accuracy, brier, imputed_estimates, log_loss, mean_of, roc_auc
from marmix.evaluation.verdict import Grounds, Verdict, verdict
from marmix.selection.candidates import (
    Outcome,
    boosting_installed,
    cross_validates,
    crowded,
    default_candidates,
    default_rivals,
    fit_one,
    knows_missingness,
    models_missingness,
    settled,
)
from marmix.selection.evidence import Q_MAX, Evidence, linear_predictor
from marmix.selection.held_out import folds_of_copies, sample_places, whole_row_folds
from marmix.tables.preparation import Encoder, Preparation, encoder_of, numbers_of

TINY = 1e-300  # lower limit of probabilities in the log-loss

# Log-likelihood of the missing indicators that the uncertainty must add to a linear function of the features; with less there is
# a note that nothing speaks for a mechanism that depends on how hard rows are.
_LEAST_GAIN = 4.0

# Audited rows that the weights before an audit count as. In 98 audits of 20 rows on data of benchmarks/real.py, seed 1000, the
# log-loss of the other rows fell by .004, at worst it rose by .011; with 0 it fell by .006, and rose by .040.
AUDIT_PRIOR = 20.0

# Rows on which candidates are compared if there are twice as many or more. The few of the largest weights are then fitted to all
# rows, unless a pass over these would make too many values; the others keep their fits to the sample.
SAMPLE, REFITTED, _MOST_VALUES = 20_000, 4, 200_000_000

_WEIGHING = 0.1  # share of the time that is left after all fits
_DOUBT = 1e-3  # share of equal probabilities in those of rivals

# Share of rows with practically no chance of a label above which comparisons are declined. In benchmarks/honesty.py it is
# nearly 0 under the usual mechanism, and 0.6 where every hard row lacks its label.
MOST_WITHOUT_CHANCE = 0.2


class Gain(NamedTuple):
    """The estimated log-loss with and without modelling the missingness.

    `stderr` includes how far the posteriors of unlabelled rows may be off. `no_chance` is the share of rows with practically no
    chance of a label (see `Overlap`): if it is large, the comparison is declined.
    """

    with_it: float
    without: float
    gain: float
    stderr: float
    no_chance: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the gain."""
        error = QUANTILE * self.stderr
        return self.gain - error, self.gain + error

    @property
    def declined(self) -> bool:
        """Whether too many rows have practically no chance of a label for a verdict."""
        return self.no_chance > MOST_WITHOUT_CHANCE

    @property
    def clear(self) -> bool:
        """Whether the interval of the gain lies above 0, and the comparison is not declined."""
        return not self.declined and self.interval[0] > 0.0

    @property
    def clear_loss(self) -> bool:
        """Whether the interval of the gain lies below 0, and the comparison is not declined."""
        return not self.declined and self.interval[1] < 0.0

    @property
    def difference(self) -> str:
        """The gain and its interval in words."""
        low, high = self.interval
        return f"difference {self.gain:.4f}, 95 % interval {low:.4f} to {high:.4f}"

    @property
    def no_overlap(self) -> str:
        """Why the comparison is declined, in words."""
        return f"{100.0 * self.no_chance:.0f} % of the rows have practically no chance of a label"

    def sentence(self) -> str:
        """The comparison as a sentence."""
        change = f"from {self.without:.3f} to {self.with_it:.3f} ({self.difference})"
        levels = f"estimated log-loss {self.with_it:.3f} with it, {self.without:.3f} without ({self.difference})"
        if self.declined:
            return f"Whether modelling the missingness helps cannot be told: {self.no_overlap}; {levels}."
        if self.clear:
            return f"Modelling the missingness lowered the estimated log-loss {change}."
        if self.clear_loss:
            return f"Modelling the missingness raised the estimated log-loss {change}: it is better ignored here."
        return f"No evidence that modelling the missingness helps here: {levels}."


class Overlap(NamedTuple):
    """How well labelled rows represent the unlabelled ones."""

    no_chance: float  # share of rows whose label is missing with a probability of at least 0.99
    n_effective: float  # effective number of labelled rows that stand for the unlabelled ones, with weights q / (1 - q)
    n_labelled: int


class OfRows(NamedTuple):
    """What a comparison says about each of its rows: attributes of `MARClassifierCV`, which are not saved."""

    tested: NDArray[np.bool_]
    missing_proba: Array
    held_out_proba: Array | None = None
    reference_proba: Array | None = None
    posterior: UncertainPosterior | None = None
    transduction: Any = None
    labels: Any = None  # codes, -1 where missing, or shares of votes
    digest: str = ""  # of X and these labels, see `digest_of`
    probas: Mapping[str, Array] = {}  # held-out class probabilities (n, K) of each candidate and rival
    evidence: Callable[[Any], Evidence] | None = None  # of other labels of the rows; None if nothing was averaged


@dataclass(frozen=True)
class Comparison:
    """Candidates that were fitted and compared by held-out rows.

    The fields are attributes of `MARClassifierCV`, which describes them, except `notes`, the records behind its `notes_`,
    `rivals`, the rivals by name, fitted to the labelled rows, and `rows`, which is None for a comparison from a file; the verdict
    is then `kept_verdict`.
    """

    n_features: int
    features: NDArray[Any] | None
    classes: NDArray[Any]
    preparation: Preparation | None
    estimators: dict[str, Pipeline]
    weights: dict[str, float]
    prior_offset: dict[str, Array] | None
    results: dict[str, NDArray[Any]]
    score: Score | None
    comparison: Gain | None
    rival_comparison: Gain | None
    overlap: Overlap | None
    notes: list[Note]
    rivals: Mapping[str, Pipeline] | None = None
    rows: OfRows | None = None
    kept_verdict: Verdict | None = None

    @property
    def sentences(self) -> list[str]:
        """The notes as sentences."""
        return [sentence(note, self.classes, column_names(self.features, self.n_features)) for note in self.notes]

    @cached_property
    def verdict(self) -> Verdict | None:
        """Whether to use the imputed labels of the rows of the fit."""
        return self.kept_verdict if self.rows is None else _verdict(self, self.rows)

    @cached_property
    def joint(self) -> JointTable | None:
        """Numbers of the rows of the fit by true and imputed class: how many imputed labels are wrong, if what.

        None if nothing was held out or the comparison is from a file. Unlabelled rows count as certain of their imputed label.
        """
        rows = self.rows
        if rows is None or rows.posterior is None or rows.held_out_proba is None:
            return None
        every = np.arange(len(self.classes))
        shares, imputed = label_shares(rows.labels, every), label_shares(rows.transduction, self.classes)
        proba = np.where(shares.any(axis=1, keepdims=True), rows.held_out_proba, imputed)
        return JointTable.of(shares, proba, rows.posterior)

    def audited_weights(self, rows: NDArray[np.intp], labels: Array) -> dict[str, float]:
        """Weights that count labels (k, K), shares, of rows that chance drew from those without one.

        Such labels are the only ones that represent the hard rows. With k of them the weights are those of the most evidence, and
        the former ones count as `AUDIT_PRIOR` rows.
        """
        assert self.rows is not None
        assert self.rows.evidence is not None
        shares, old = label_shares(self.rows.labels, np.arange(len(self.classes))), np.array([*self.weights.values()])
        shares[rows] = labels
        k = int(labels.any(axis=1).sum())
        new = self.rows.evidence(shares).average(np.array([self.rows.probas[name] for name in self.weights]))
        return dict(zip(self.weights, ((k * new + AUDIT_PRIOR * old) / (k + AUDIT_PRIOR)).tolist(), strict=True))

    def average(self, method: str, X: NDArray[Any]) -> Array:
        """The weighted mean of a method of the candidates; `predict_proba` of those without it."""
        members = {name: (self.estimators[name], weight) for name, weight in self.weights.items() if weight > 0.0}
        offsets = self.prior_offset or {}
        if method == "missing_proba":
            members, offsets = {name: it for name, it in members.items() if knows_missingness(it[0])}, {}
        total = sum(weight for _, weight in members.values())
        values = (
            weight / total * tilted(values_of(pipeline, method, X), offsets.get(name))
            for name, (pipeline, weight) in members.items()
        )
        return np.asarray(sum(values))


class Training(NamedTuple):
    """Validated training rows on the host; `z` has the most voted classes if there are `shares` of votes."""

    X: NDArray[Any]
    z: NDArray[Any]
    shares: Array | None
    weight: Array | None
    classes: NDArray[Any]
    features: NDArray[Any] | None
    asked: NDArray[np.bool_] | None  # whose label was missing and then asked for; None if there are no such rows
    preparation: Preparation | None  # of the columns of a frame
    encoder: Encoder | None  # for X with missing values or codes of categories, which only boosted trees take

    def rows(self, places: NDArray[np.intp]) -> "Training":
        """These rows."""
        parts = {name: getattr(self, name) for name in ("X", "z", "shares", "weight", "asked")}
        taken: dict[str, Any] = {name: None if part is None else part[places] for name, part in parts.items()}
        return self._replace(**taken)

    @property
    def numbers(self) -> Array:
        """X as features without missing values and categories."""
        return numbers_of(self.X, self.encoder)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whose label was missing when the data came."""
        return self.z < 0 if self.asked is None else (self.z < 0) | self.asked

    @property
    def labels(self) -> NDArray[Any]:
        """Shares of votes, or codes."""
        return self.z if self.shares is None else self.shares

    @property
    def indicator(self) -> Array:
        """One at the label of a row, or the shares of its votes; zero if it is missing."""
        return label_shares(self.z, np.arange(len(self.classes))) if self.shares is None else self.shares.copy()

    @property
    def counts(self) -> Array:
        """The weights, one by default."""
        return np.ones(len(self.z)) if self.weight is None else self.weight


def compare(
    settings: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    missing: Any = None,
    report: Callable[[float, str], object] = lambda *_: None,
    levels: Sequence[int] | None = None,
    kept: Comparison | None = None,
) -> Comparison:
    """Fit the candidates of an unfitted `MARClassifierCV`, predict held-out rows with them, and weight and score them.

    The settings are not changed, and no warnings are issued: the notes of the result have what `MARClassifierCV.fit` warns of.

    Parameters
    ----------
    settings : MARClassifierCV
        Its parameters say what is compared and how.
    X, y, sample_weight, missing
        As in `MARClassifierCV.fit`.
    report : callable
        Called before each fit, and before the weighing, with the share of the work that is done and what comes next.
    levels : list of int or None
        Number of levels of each column of an array that holds codes of categories, 0 for numbers; see `Encoder`.
    kept : Comparison or None
        Of the same rows without rivals and `prior`: its candidates are not fitted again.

    Returns
    -------
    Comparison
        Weights, fits, scores and, in `rows`, the held-out probabilities.
    """
    seconds = _seconds(settings)
    deadline = monotonic() + (1.0 - _WEIGHING) * seconds
    training, notes = _validated(settings, X, y, sample_weight, missing, levels)
    expected = None
    if (prior := prior_of(settings.prior, training.classes)) is not None:
        expected = unlabelled_counts(prior, training.labels, training.classes, training.weight)
        notes.append(_prior_note(prior))
    candidates, rivals = _pipelines(settings, training)
    if kept is not None:
        candidates = {}
    places = np.arange(len(training.z))
    if len(places) >= 2 * SAMPLE and isinstance(settings.cv, Integral):
        places = sample_places(training.z, 0, SAMPLE)
    sample = training.rows(places)
    folds = _folds(settings, sample)
    outcomes = _outcomes(settings, sample, (candidates, rivals), folds, deadline, report)
    late = [name for name in (*candidates, *rivals) if outcomes[name] is None]
    if late:
        notes.append(Note("time-limit", {"candidates": ", ".join(map(repr, late)), "limit": seconds}))
    fits: dict[str, dict[int, Outcome]] = {}
    for name in (*candidates, *rivals):
        fit = outcomes[name] or {}
        errors = [one.error for fold, one in sorted(fit.items()) if one.error]
        if errors and fit[-1].error:
            notes.append(Note("left-out", {"candidate": name, "error": errors[0]}))
        elif fit:
            fits[name] = fit
            values = {"candidate": name, "failed": len(errors), "folds": len(folds)}
            notes += [Note("failed-folds", values | {"error": errors[0]})] if errors else []
    estimators = {name: fit[-1].estimator for name, fit in fits.items() if name in candidates}
    probas = {name: _held_out(fit, sample, folds) for name, fit in fits.items()}
    if len(places) < len(training.z):
        folds = [places[test] for test in folds]
        for name, held_out in probas.items():
            probas[name] = fits[name][-1].estimator.predict_proba(training.X)
            probas[name][places] = held_out
    if kept is not None and kept.rows is not None:
        estimators, probas = kept.estimators, {name: kept.rows.probas[name] for name in kept.estimators} | probas
    if not estimators:
        why = next(note.values["error"] for note in notes if note.code == "left-out")
        raise ValueError(f"no candidate could be fitted: {why}")
    if settings.estimators is None and not boosting_installed():
        notes.append(Note("no-boosting"))
    for name in rivals.keys() & probas.keys():  # a forest is often certain, and an infinite loss would tell nothing
        probas[name] = hedged(probas[name])
    result = _judged(settings.method, training, estimators, probas, folds, expected, notes)
    if kept is None:
        result.results["seconds"] = np.array([sum(one.seconds for one in fit.values()) for fit in fits.values()])
    if len(places) < len(training.z) and kept is None:
        missing = None if training.asked is None else training.missing
        rest = (training.X, training.z, training.weight, None, training.shares, missing)
        for name in refitted(estimators, result.weights, len(training.z)):
            report(1.0 - _WEIGHING, f"{name}, all rows")
            if monotonic() < deadline:
                estimators[name] = fit_one(settled(estimators[name]), *rest).estimator or estimators[name]
    if expected is not None:
        unlabelled = training.rows(np.flatnonzero(training.z < 0))
        result = replace(result, prior_offset=offsets_of(estimators, unlabelled.X, expected, unlabelled.counts))
    assert result.rows is not None
    digest, imputed = digest_of(training.X, training.labels), _transduction(result, training)
    rows = result.rows._replace(transduction=imputed, labels=training.labels, digest=digest)
    return replace(result, rivals={name: fits[name][-1].estimator for name in rivals if name in fits}, rows=rows)


def _verdict(it: Comparison, rows: OfRows) -> Verdict | None:
    """Whether to use the imputed labels of the rows of the fit; None if there are none."""
    names, shares = it.classes.astype(str).tolist(), label_shares(rows.labels, np.arange(len(it.classes)))
    imputed = label_shares(rows.transduction, it.classes)[~shares.any(axis=1)].sum(axis=0)
    if not imputed.any():
        return None
    rival = it.rival_comparison
    unconverged = sum(w for name, w in it.weights.items() if not getattr(it.estimators[name][-1], "converged_", True))
    grounds = Grounds(
        given=dict(zip(names, shares.sum(axis=0).tolist(), strict=True)),
        imputed=dict(zip(names, imputed.tolist(), strict=True)),
        audit="marmix.Audit(clf, X, y, n={})".format,
        log_loss=0.0 if it.score is None else it.score.value,
        converged=unconverged <= 0.5,
        rival="a classifier of `results_`" if rival is not None and rival.clear_loss else "",
    )
    return verdict(grounds if it.joint is None else grounds.with_table(it.joint))


def offsets_of(
    estimators: Mapping[str, Pipeline], X: NDArray[Any], expected: Array, counts: Array | None = None
) -> dict[str, Array]:
    """The constants that give each candidate the expected numbers of classes in unlabelled rows."""
    return {
        name: class_offsets(values_of(pipeline, "unlabelled_proba", X), expected, counts)
        for name, pipeline in estimators.items()
    }


def refitted(
    estimators: Mapping[str, Pipeline], weights: Mapping[str, float], n_rows: int, leading: str | None = None
) -> list[str]:
    """The candidates to fit to all rows after a comparison on a sample: a few of the largest weights, and the leading one."""
    order = sorted(weights, key=lambda name: -weights[name])
    values = {name: getattr(estimators[name][-1], "model_", None) for name in order[:REFITTED]}
    largest = [
        name
        for name, model in values.items()
        if model is None or n_rows * model.score_model.values_per_row() <= _MOST_VALUES
    ]
    return [name for name in order if name in largest or name == leading]


def digest_of(X: Array, labels: NDArray[Any]) -> str:
    """A checksum of rows and of their codes or shares."""
    return sha256(np.ascontiguousarray(X, float).tobytes() + np.ascontiguousarray(labels, float).tobytes()).hexdigest()


def _seconds(settings: Any) -> float:
    """The time limit, once the parameters are checked."""
    if settings.method not in ("average", "pick"):
        raise ValueError(f"method={settings.method!r} is not 'average' or 'pick'.")
    if settings.time_limit is None:
        return np.inf
    Rule(Real, lambda v: v > 0, "None or a positive number of seconds").check("time_limit", settings.time_limit)
    return float(settings.time_limit)


def _validated(
    settings: Any, X: Any, y: Any, sample_weight: Any, missing: Any, levels: Sequence[int] | None
) -> tuple[Training, list[Note]]:
    """Checked rows, and notes on their labels."""
    y, sample_weight, missing = to_host_or_refuse(
        "MARClassifierCV", open_array(y, "y"), open_array(sample_weight, "sample_weight"), missing
    )
    checked = clone(settings)  # so that a fit that fails leaves the estimator as it was
    X = host_rows(checked, X)
    z, classes, shares = encoded(y, settings.classes, None)
    check_lengths(X, z)
    weight = None if sample_weight is None else checked_weights(X, unmasked(sample_weight))
    asked = asked_labels(unmasked(missing), z)
    notes = all_labelled_notes(asked is not None or bool((z < 0).any()), settings.classes)
    notes += missing_texts_notes({} if shares is not None else missing_texts(y, settings.classes))
    preparation = checked.preparation_
    encoder = encoder_of(X, levels if preparation is None else preparation.levels())
    names = getattr(checked, "feature_names_in_", None)
    return Training(X, z, shares, weight, classes, names, asked, preparation, encoder), notes


def host_rows(estimator: Any, X: Any, held: Comparison | None = None) -> NDArray[Any]:
    """X as an array on the host, NaN where a value is missing; `held` is the comparison, except in a fit."""
    (X,) = to_host_or_refuse("MARClassifierCV", unmasked(open_array(X)))
    refuse_sparse(X)
    X = in_floats(*entered(X, estimator, encode=False, held=held))
    names = getattr(estimator, "feature_names_in_", None) if held is None else held.features
    check_finite(X, column_names(names, X.shape[1]), allow_nan=True)
    return X


def _prior_note(prior: Array) -> Note:
    """The note that class shares were taken as given."""
    known = np.flatnonzero(~np.isnan(prior))
    shares = ", ".join(f"{100.0 * share:.3g} %" for share in prior[known])
    return Note("prior", {"classes": known.tolist(), "shares": shares})


# Fits


def _pipelines(settings: Any, training: Training) -> tuple[dict[str, Pipeline], dict[str, Pipeline]]:
    """Candidates and rivals: clones of the classifiers, with a scaler in front unless they are pipelines."""
    K, (n, d), labelled = len(training.classes), training.numbers.shape, int(np.sum(training.z >= 0))
    grid = settings.estimators
    if grid is None:
        categories = training.encoder is not None and any(training.encoder.levels or ())
        constant = bool((np.ptp(training.numbers, axis=0) == 0.0).any())
        grid = default_candidates(K, n, d, n_labelled=labelled, categories=categories or constant)
        if training.weight is not None:  # which labels that spread do not take
            grid.pop("label spreading", None)
    if not grid:
        raise ValueError("estimators is empty: name at least one candidate.")
    rivals = default_rivals(K, d, crowded(K, d, labelled)) if settings.rivals else {}
    if same := set(grid) & set(rivals):
        raise ValueError(f"the candidate {min(same)!r} has the name of a rival: rename it.")
    candidates, others = (
        {name: _pipeline(estimator, training) for name, estimator in part.items()} for part in (grid, rivals)
    )
    return candidates, others


def _pipeline(estimator: BaseEstimator, training: Training) -> Pipeline:
    """A clone of a candidate that sees numbered classes and columns, after an encoder unless it takes X as it is."""
    candidate, encoder, preparation = clone(estimator), training.encoder, training.preparation
    levels = [] if encoder is None else list(encoder.levels or ())
    native = isinstance(candidate, MARBoostingClassifier)
    first = [] if native or encoder is None else [clone(encoder)]
    if isinstance(candidate, Pipeline):
        return make_pipeline(*first, *(step for _, step in candidate.steps)) if first else candidate
    settings = candidate.get_params(deep=False)
    if settings.get("mechanism_features"):
        names = column_names(training.features, training.X.shape[1])
        if preparation is not None:
            names = names if native else preparation.encoded_names().tolist()
        candidate.set_params(mechanism_features=feature_columns(settings["mechanism_features"], names))
    codes = {label: code for code, label in enumerate(training.classes.tolist())}
    for option in ("delta", "n_components"):
        by_class = settings.get(option)
        if isinstance(by_class, Mapping) and by_class.keys() <= codes.keys():
            candidate.set_params(**{option: {codes[label]: value for label, value in by_class.items()}})
    if native and any(levels):
        candidate.set_params(categorical_features=np.flatnonzero(levels).tolist())
        return make_pipeline(StandardScaler(with_mean=False, with_std=False), candidate)  # codes stay codes
    return make_pipeline(*first, StandardScaler(), candidate)


def _folds(settings: Any, training: Training) -> list[NDArray[np.intp]]:
    """Test rows of each fold; no folds if a class has a single labelled row, or row with votes."""
    X, z, shares, weight, *_ = training
    cv: Any = settings.cv
    seed = settings.random_state
    if not isinstance(cv, Integral):
        return whole_row_folds(z, cv)
    order = row_order(X, training.labels, weight)  # so that the order of the rows does not matter
    rows, codes, share = (np.arange(len(z)), z[order], None) if shares is None else copies_of(shares[order])
    if np.bincount(codes[codes >= 0]).min() < 2:
        return []
    return [np.unique(order[rows[test]]) for test in folds_of_copies(codes, share, rows, int(cv), seed)]


def _outcomes(
    settings: Any,
    training: Training,
    grids: tuple[dict[str, Pipeline], dict[str, Pipeline]],
    folds: list[NDArray[np.intp]],
    deadline: float,
    report: Callable[[float, str], object],
) -> dict[str, dict[int, Outcome] | None]:
    """Outcomes of each candidate and rival by fold, -1 for all rows; None if there was no time for all of them."""
    grid, order = grids[0] | grids[1], _order(*grids)
    own = {name: grid[name][-1].cv for name in order if folds and cross_validates(grid[name])}
    for name in own:
        grid[name][-1].set_params(cv=folds)
    jobs = [
        (name, fold) for name in order for fold in (-1, *(() if cross_validates(grid[name]) else range(len(folds))))
    ]
    fits: dict[str, dict[int, Outcome]] = {name: {} for name in grid}
    started: list[tuple[str, int]] = []
    X, z, shares, weight, *_ = training
    missing = None if training.asked is None else training.missing

    def in_time() -> Iterator[Any]:
        for name, fold in jobs:
            first = next((one for one in order if not (-1 in fits[one] and fits[one][-1].error)), None)
            if name == first or monotonic() < deadline:
                started.append((name, fold))
                yield delayed(fit_one)(grid[name], X, z, weight, None if fold < 0 else folds[fold], shares, missing)

    outcomes = Parallel(n_jobs=settings.n_jobs, return_as="generator")(in_time())
    # a candidate that holds rows out itself fits as often as the others
    work = np.cumsum([1.0 + len(folds) * cross_validates(grid[name]) for name, _ in jobs])
    report(0.0, jobs[0][0])
    for done, outcome in enumerate(outcomes, start=1):
        name, fold = started[done - 1]
        if fold < 0 and name in own and outcome.estimator is not None:
            outcome.estimator[-1].set_params(cv=own[name])
        # with many features the fits of the folds take much memory
        fits[name][fold] = outcome if fold < 0 else outcome._replace(estimator=None)
        following = jobs[done][0] if done < len(jobs) else "weights of the candidates"
        report(float((1.0 - _WEIGHING) * work[done - 1] / work[-1]), following)
    late = {name for name, fold in jobs if (name, fold) not in started}
    return {name: None if name in late else fits[name] for name in grid}


def _order(candidates: Mapping[str, Pipeline], rivals: Mapping[str, Pipeline]) -> list[str]:
    """The candidates in the order in which they are fitted: first one of each kind, with and without the mechanism."""
    groups: dict[Any, list[str]] = {}
    for name, pipeline in (candidates | rivals).items():  # type: ignore[operator]
        groups.setdefault((name in rivals, type(pipeline[-1]), models_missingness(pipeline)), []).append(name)
    return [name for names in zip_longest(*groups.values()) for name in names if name is not None]


def _held_out(fits: dict[int, Outcome], training: Training, folds: list[NDArray[np.intp]]) -> Array:
    """Probabilities (n, K) of a candidate: held out in tested rows, 1 / K in folds that failed, else of the fit to all rows."""
    everything, X = fits[-1], training.X
    if everything.proba is not None:
        return np.where(np.isnan(everything.proba), everything.estimator.predict_proba(X), everything.proba)
    untested = np.delete(np.arange(len(X)), np.concatenate([*folds, np.empty(0, dtype=np.intp)]))
    proba = np.full((len(X), len(training.classes)), 1.0 / len(training.classes))
    if len(untested):
        proba[untested] = everything.estimator.predict_proba(X[untested])
    for fold, test in enumerate(folds):
        if (held_out := fits[fold].proba) is not None:
            proba[test] = held_out
    return proba


def hedged(proba: Array) -> Array:
    """The probabilities of a rival, mixed with a little of equal ones."""
    return (1.0 - _DOUBT) * proba + _DOUBT / proba.shape[1]


def values_of(pipeline: Pipeline, method: str, X: NDArray[Any]) -> Array:
    """A method of a candidate's last step; `predict_proba` if it does not have it."""
    last, rows = last_and_rows(pipeline, X)
    values = np.asarray(getattr(last, method if hasattr(last, method) else "predict_proba")(rows))
    check_results(values, 0)
    return values


# Weights and scores


class _Weighed(NamedTuple):
    """Weights of candidates, and the evidence behind them."""

    average: Array  # under which the average has the most evidence
    evidence_of: Callable[[Any], Evidence]  # given labels
    evidence: Evidence
    losses: Array  # of each candidate and rival: of labels, and of missing indicators
    missing: Array  # (n,), probability of a missing label
    notes: list[Note]

    def best(self, among: NDArray[np.bool_]) -> Array:
        """All weight on the candidate of these with the most evidence."""
        against = self.losses[: len(among)].sum(axis=1)
        return np.eye(len(among))[np.where(among, against, np.inf).argmin()]

    def without(self, models: NDArray[np.bool_], held: Array) -> Array:
        """Weights of the average of the candidates without a mechanism."""
        weights = np.zeros(len(models))
        weights[~models] = self.evidence.average(held[~models])
        return weights


def _weighed(
    training: Training,
    estimators: Mapping[str, Pipeline],
    probas: Array,
    folds: list[NDArray[np.intp]],
) -> _Weighed:
    """Weights from held-out probabilities of candidates and, after them, rivals."""
    X, z, counts, tested = training.numbers, training.z, training.counts, np.sort(np.concatenate(folds))
    v, m = linear_predictor(X, training.missing, counts, folds), training.missing
    evidence_of = partial(Evidence, counts=counts, v=v, tested=tested, missing=m)
    evidence = evidence_of(training.labels)
    average = evidence.average(probas[: len(estimators)])
    tau, notes = np.einsum("c,cnk->nk", average, probas[: len(estimators)]), list[Note]()
    mechanism, missing = evidence.mechanism(tau), np.empty(len(z))
    if mechanism is None or len(tested) < len(z):
        missing = _missing_rate(training, estimators)
    if mechanism is not None:
        missing[tested] = evidence.missing_proba(tau, mechanism)[tested]
        if any(map(models_missingness, estimators.values())) and evidence.gain(tau) < _LEAST_GAIN:
            notes.append(Note("no-support"))
    losses = np.array([evidence.losses(proba) for proba in probas])
    return _Weighed(average, evidence_of, evidence, losses, missing, notes)


def _missing_rate(training: Training, estimators: Mapping[str, Pipeline]) -> Array:
    """The mean q of each row over the candidates with a mechanism; the overall rate if there is none."""
    models, missing = [pipeline for pipeline in estimators.values() if knows_missingness(pipeline)], training.missing
    if not models or not missing.any():
        rate = float(training.counts @ missing / training.counts.sum())
        return np.full(len(missing), min(rate, Q_MAX))
    return np.minimum(np.mean([values_of(pipeline, "missing_proba", training.X) for pipeline in models], axis=0), Q_MAX)


class _Judge(NamedTuple):
    """What held-out probabilities are scored with: labels of tested rows (n, K), q, weights and posteriors of the rows."""

    indicator: Array
    q: Array
    counts: Array
    posterior: UncertainPosterior
    overlap: Overlap

    def scores(self, probas: Array) -> dict[str, Array]:
        """Scores of each with imputed labels, which are doubly robust ones with a weight of one."""
        n, K = self.indicator.shape
        options: dict[str, Any] = {"classes": np.arange(K), "posterior": self.posterior.central}
        of = {
            score.__name__: [score(self.indicator, p, np.zeros(n), **options) for p in np.maximum(probas, TINY)]
            for score in (log_loss, brier, accuracy, roc_auc)
        }
        estimates = [mean_of(-np.log(np.maximum(p, TINY))) for p in probas]
        errors = [error for _, error in imputed_estimates(estimates, self.indicator, self.q, self.posterior)]
        columns = {name: [score.value for score in scores] for name, scores in of.items()}
        plain = [score.plain for score in of["log_loss"]]
        table = {"log_loss": columns.pop("log_loss"), "log_loss_stderr": errors, "plain_log_loss": plain} | columns
        return {name: np.array(column) for name, column in table.items()}

    def gain(self, ours: Array, theirs: Array) -> Gain:
        """The log-losses of two held-out probabilities (n, K), and their difference with its standard error."""
        losses = [-np.log(np.maximum(p, TINY)) for p in (ours, theirs)]
        estimates = [mean_of(loss, self.counts) for loss in (*losses, losses[1] - losses[0])]
        (ours_, _), (theirs_, _), gain = imputed_estimates(estimates, self.indicator, self.q, self.posterior)
        return Gain(ours_, theirs_, *gain, self.overlap.no_chance)

    def log_loss(self, proba: Array) -> Score:
        """The log-loss for the population."""
        classes = np.arange(proba.shape[1])
        return log_loss(self.indicator, np.maximum(proba, TINY), self.q, classes=classes, posterior=self.posterior)


def _judge(
    training: Training, tested: NDArray[np.bool_], members: Array, shares: Array, missing: Array, tilt: bool
) -> _Judge:
    """Posteriors and weights for scores, with untested rows as unlabelled; `tilt` if tau agrees with known class shares."""
    counts, labelled, indicator, known = training.counts, training.z >= 0, training.indicator, None
    tau = np.einsum("c,cnk->nk", shares, members)
    if tilt:
        known = counts @ np.where(labelled[:, None], indicator, tau) / counts.sum()
    seen = labelled & tested
    indicator[~tested] = 0.0
    share = np.sum(seen) / np.sum(labelled)
    # a label that was asked for is known for sure, and represents one unlabelled row
    asked = np.zeros(len(labelled), dtype=bool) if training.asked is None else training.asked
    q = 1.0 - (1.0 - np.where(asked, 0.0, np.minimum(missing, Q_MAX))) * share
    not_tested = 1.0 - (1.0 - np.where(asked, 0.5, missing)) * share
    used = shares > 0.0
    posterior = UncertainPosterior.of(tau, indicator, counts, known, members[used], shares[used])
    n_effective = float(np.sum(seen)) if seen.all() else representation(not_tested, seen, counts)[1]
    no_chance = float(counts @ (missing >= NO_CHANCE) / counts.sum())
    return _Judge(indicator, q, counts, posterior, Overlap(no_chance, n_effective, int(np.sum(seen))))


def _judged(
    method: str,
    training: Training,
    estimators: dict[str, Pipeline],
    by_name: dict[str, Array],
    folds: list[NDArray[np.intp]],
    expected: Array | None,
    notes: list[Note],
) -> Comparison:
    """The comparison, from held-out probabilities of candidates and, after them, rivals."""
    X, z, counts, C = training.X, training.z, training.counts, len(estimators)
    tested, without = np.sort(np.concatenate([*folds, np.empty(0, dtype=np.intp)])), z < 0
    is_tested = np.isin(np.arange(len(z)), tested)
    models = np.array([models_missingness(pipeline) for pipeline in estimators.values()])
    rivals = len(by_name) - C
    results: dict[str, Any] = {
        "candidate": np.array([*by_name]),
        "rival": np.repeat([False, True], [C, rivals]),
        "mechanism": np.append(models, np.zeros(rivals, dtype=bool)),
    }
    fields: dict[str, Any] = dict.fromkeys(("score", "comparison", "rival_comparison", "overlap"))
    fields |= {"n_features": X.shape[1], "features": training.features, "classes": training.classes}
    fields |= {"preparation": training.preparation}
    fields |= {"estimators": estimators, "prior_offset": None, "results": results, "notes": notes}
    if not (z[tested] >= 0).any():
        notes.append(Note("single-label"))
        results["weight"] = np.append(np.full(C, 1.0 / C), np.zeros(rivals))
        fields["weights"] = dict.fromkeys(estimators, 1.0 / C)
        return Comparison(**fields, rows=OfRows(is_tested, _missing_rate(training, estimators)))
    probas = np.array([*by_name.values()])
    weighed = _weighed(training, estimators, probas, folds)
    notes += weighed.notes
    if expected is not None:
        probas = np.array([tilted(p, class_offsets(p[without], expected, counts[without])) for p in probas])

    def mixed(weights: Array) -> Array:
        return np.einsum("c,cnk->nk", weights, probas[:C])

    pick, pair = method == "pick", None
    weights = weighed.best(np.ones(C, dtype=bool)) if pick else weighed.average
    if models.any() and not models.all():
        with_it = weighed.best(models) if pick else weights
        without_it = weighed.best(~models) if pick else weighed.without(models, probas[:C])
        pair = [mixed(with_it), mixed(without_it)]
    tau, pool = mixed(weighed.average), mixed(weights)
    judge = _judge(training, is_tested, probas[:C], weighed.average, weighed.missing, expected is not None)
    results |= judge.scores(probas) | {"missing_log_loss": weighed.losses[:, 1]}
    fields |= {"score": judge.log_loss(pool), "overlap": judge.overlap}
    if rivals:
        fields["rival_comparison"] = judge.gain(pool, probas[C + results["log_loss"][C:].argmin()])
    results["weight"] = np.append(weights, np.zeros(rivals))
    fields["weights"] = dict(zip(estimators, weights.tolist(), strict=True))
    if pair is not None:
        fields["comparison"] = judge.gain(*pair)
    held_out = dict(zip(by_name, probas, strict=True))
    missing_proba = np.minimum(weighed.missing, Q_MAX)
    evidence = None if pick else weighed.evidence_of
    rows = OfRows(is_tested, missing_proba, pool, tau, judge.posterior, probas=held_out, evidence=evidence)
    return Comparison(**fields, rows=rows)


def _transduction(result: Comparison, training: Training) -> NDArray[Any]:
    """Labels of the rows: missing ones imputed by the average, which also decides between classes with as many votes."""
    z, shares = training.z, training.shares
    labels = training.classes[z]
    possible = (z < 0)[:, None] if shares is None else shares == shares.max(axis=1, keepdims=True)
    open_rows = possible.sum(axis=1) > (shares is not None)  # without a label, or with tied votes
    if open_rows.any():
        X, tied = training.X[open_rows], (z >= 0)[open_rows, None]
        proba = result.average("unlabelled_proba", X)
        if tied.any():
            proba = np.where(tied, result.average("predict_proba", X), proba)
        proba = np.where(possible[open_rows], proba, -1.0)
        labels[open_rows] = training.classes[proba.argmax(axis=1)]
    return labels
