"""`MARClassifierCV`: cross-validated averaging of candidate models."""

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import zip_longest
from numbers import Integral, Real
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from marmix.core.arrays import Array, to_host_or_refuse, unmasked
from marmix.core.files import open_array
from marmix.core.labels import (
    copies_of,
    encode_labels,
    has_votes,
    label_shares,
    missing_texts,
    missing_texts_notes,
    most_voted,
    vote_shares,
)
from marmix.core.notes import Note, all_labelled_notes, sentence
from marmix.engines import row_order
from marmix.engines.checks import check_finite, check_results, checked_weights, in_floats, refuse_sparse
from marmix.estimators.base import MARClassifier, NotKept, replace_fit, score_labelled, sensitivity_of
from marmix.estimators.boosting import MARBoostingClassifier
from marmix.estimators.candidates import (
    Outcome,
    boosting_installed,
    cross_validates,
    crowded,
    default_candidates,
    default_rivals,
    fit_one,
    knows_missingness,
    models_missingness,
)
from marmix.estimators.conversion import to_sklearn
from marmix.estimators.doubts import BUT, doubtful, doubts
from marmix.estimators.summary import Described
from marmix.estimators.validation import feature_columns
from marmix.evaluation import scores as evaluation
from marmix.evaluation.conformal import conformal_sets
from marmix.evaluation.forests import flexible_missing_proba
from marmix.evaluation.prior import class_offsets, prior_of, tilted, unlabelled_counts
from marmix.evaluation.pseudo_labels import NO_CHANCE, UncertainPosterior, representation
from marmix.inference.fitted import too_many_parameters
from marmix.inference.sensitivity import Draw, Sensitivity, calibration_draws
from marmix.selection.evidence import Evidence, linear_predictor
from marmix.selection.held_out import folds_of_copies, whole_row_folds

# Upper limit of the estimated q in the weights 1 / (1 - q). On ten data sets of benchmarks/real.py, seed 1000, weights up to 5
# gave scores closer to the truth than weights up to 20, and than weights of 1.
Q_MAX = 0.8
TINY = 1e-300  # lower limit of probabilities in the log-loss

# Log-likelihood of the missing indicators that the uncertainty must add to a linear function of the features; with less there is
# a note that nothing speaks for a mechanism that depends on how hard rows are.
_LEAST_GAIN = 4.0

_WEIGHING = 0.1  # share of the work that is left after all fits, in reports of progress

_LIGHT = 0.05  # weight of candidates below which a sensitivity analysis takes their parameters as given

_DOUBT = 1e-3  # share of equal probabilities in those of rivals

# Share of rows with practically no chance of a label above which comparisons are declined. In benchmarks/honesty.py it is
# nearly 0 under the usual mechanism, and 0.6 where every hard row lacks its label.
MOST_WITHOUT_CHANCE = 0.2

TOO_MANY = (
    "Of candidates with too many parameters for the rows, the intervals include {} of the uncertainty of the fit."
)

_NOT_KEPT = (
    "it describes the training rows, and is not saved with the model. Use predict or missing_proba for any rows."
)


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
        error = evaluation.QUANTILE * self.stderr
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


class MARClassifierCV(Described, ClassifierMixin, BaseEstimator):
    r"""Average of candidate classifiers, weighted by the evidence of held-out rows: the recommended start.

    .. math::

        P(y = k \mid x) = \sum_c w_c \, P_c(y = k \mid x), \qquad w_c \ge 0, \quad \sum_c w_c = 1

    Each candidate c predicts rows that were held out whole. Their labels alone are those of easy rows; but whether a label is
    missing is known of every row. The class probabilities of the candidates are averaged with the weights under which the average
    explains both best: the held-out labels, and by its uncertainty the missing indicators. Missingness that a linear function
    of the features explains does not count. Unlabelled rows are scored by the posteriors of the average, as some hard rows may
    hardly ever be labelled, and standard errors include how far these may be off.

    Parameters
    ----------
    estimators : dict or None, default=None
        Candidates by name: `MARGaussianMixture`, `MARStudentMixture`, `MARLogisticRegression`, `MARKernelClassifier`,
        `MARBoostingClassifier`, or a pipeline that ends in one. Another classifier of scikit-learn is fitted to the labelled
        rows. The default is a grid of all these, with the mechanism modelled, tempered and ignored; boosting only if LightGBM is
        installed (the extra `boost`). Features are standardised before candidates that are not pipelines. Candidates see the
        classes as 0, 1, ... in the order of `classes_`, and columns by number; `delta`, `n_components` and `mechanism_features`
        may name them.
    method : {"average", "pick"}, default="average"
        "pick" keeps only the candidate with the most evidence for it. On most data the average does better.
    cv : int, splitter or iterable of splits, default=5
        Number of folds, dealt from the rows of each class and from the unlabelled rows, or splits as in scikit-learn. Rows that
        no split tests are no evidence, and are scored as unlabelled.
    rivals : bool, default=False
        Whether to cross-validate logistic regression, a random forest and gradient boosting of the labelled rows too, for
        comparison in `results_`; they have no part in the average. Their probabilities are mixed with a thousandth of equal ones.
    classes : array-like or None, default=None
        The classes, in the order of `classes_`; by default the sorted labels in y.
    prior : dict, array-like or None, default=None
        Known shares of the classes among all rows, by class, or in the order of `classes_` with NaN where unknown. Rows count
        with their label, or with their probabilities if it is missing. It is a correction after the fits, not part of their
        likelihoods: the log-odds of each candidate are shifted by one constant per class, the same for classes of unknown share,
        until its shares agree. Candidates are weighted by what they predict without it; everything else is computed with it, for
        rivals too. The shares are right among the rows of the fit, those with a label included: unlabelled rows have what the
        labels leave over. Where many rows of a class were labelled on purpose, it is rarer among the unlabelled rows than among
        all, and `predict_proba` is too low for it in new rows of the same population; with few labels the difference is
        negligible. Signs that labels are missing because of the label are not looked for, as this corrects for them.
    time_limit : float or None, default=None
        Seconds after which no further fit is started; None for no limit. Candidates of every kind, with and without the
        mechanism, come first. Those that were not finished are left out, and `notes_` names them. The first candidate is always
        fitted. Unless the limit is reached it changes nothing.
    n_jobs : int or None, default=None
        Number of processes for the fits, as in joblib.
    random_state : int, RandomState instance or None, default=0
        For the folds.
    verbose : int, default=0
        1 reports progress.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    estimators_ : dict
        The candidates, fitted to all rows.
    weights_ : dict
        Their weights in the average.
    prior_offset_ : dict or None
        The constants (K,) that `prior` adds to the log-odds of each candidate; None if no share is known.
    results_ : dict of arrays
        One entry per candidate and rival, ready for ``pandas.DataFrame(results_)``: "candidate", "rival", "mechanism" (whether it
        models the missingness), "weight"; "log_loss" with "log_loss_stderr", "brier", "accuracy" and "roc_auc" for the
        population, as `score_`; "plain_log_loss" of the labelled rows alone; "missing_log_loss" of the missing indicators given
        the uncertainty; "seconds".
    score_ : Score or None
        Cross-validated log-loss of the average (or the pick) for the population, with its 95 % `interval`. Unlabelled rows are
        scored by the posteriors of the held-out average, adjusted to the labels of similar rows. The standard error includes how
        far these may be off (see `posterior_`), and the sampling of the rows.
    comparison_ : Gain or None
        That log-loss with (`with_it`) and `without` the candidates that model the missingness, the difference `gain`, its
        `stderr` and 95 % `interval`. For method="pick", the best candidate of each kind. None if all candidates, or none, model
        it.
    rival_comparison_ : Gain or None
        The same for the average and the best rival.
    independent_score_ : Score or None
        The log-loss of the average as in `score_`, but with q from a random forest (`marmix.evaluation.flexible`) and the
        mean of the rivals as posterior, so that the average is not its own judge; "independent_log_loss" in `results_`
        is that of each candidate and rival. Needs ``rivals=True``.
    overlap_ : Overlap or None
        How well labelled rows represent the unlabelled ones: the share `no_chance` of rows with practically no chance of a label,
        and the effective number `n_effective` of labelled rows that stand for the unlabelled ones.
    verdict_ : str
        The comparison as a sentence: does modelling the missingness help? It is declined if more than a fifth of the rows have
        practically no chance of a label.
    held_out_proba_ : array of shape (n, K) or None
        Class probabilities of the training rows: held out for tested rows, otherwise from the fits to all rows. None if a
        class has a single labelled row.
    tested_ : array of bool, shape (n,)
        Whether each training row was held out.
    missing_proba_ : array of shape (n,)
        Probability of a missing label of each training row, used to correct the scores: from the uncertainty of the held-out
        average and the linear function of the features.
    reference_proba_ : array of shape (n, K) or None
        Such probabilities of the average, for either `method`.
    posterior_ : UncertainPosterior or None
        The posteriors of the scores, `reference_proba_` adjusted to the labels, and how far they may be off. The functions of
        `marmix.evaluation` take it as `posterior`.
    transduction_ : array of shape (n,)
        Labels of the training rows, the missing ones imputed.
    notes_ : list of str
        Warnings of the fit.
    note_records_ : list of (code, values)
        The same for programs.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if X had names.

    See Also
    --------
    MARGaussianMixture, MARLogisticRegression, MARKernelClassifier, MARBoostingClassifier : the candidates.
    report : the verdict, the scores and the rows most worth labelling, as a page.
    marmix.evaluation.log_loss : the score of `score_`, for any probabilities.

    Examples
    --------
    The default candidates take seconds to minutes; two take less.

    >>> from marmix import MARClassifierCV, MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :3], rows.target    # -1 where the label is missing
    >>> candidates = {"modelled": MARGaussianMixture(), "ignored": MARGaussianMixture(link=None)}
    >>> clf = MARClassifierCV(estimators=candidates, cv=3).fit(X, y)
    >>> clf.predict_proba(X[:1]).shape
    (1, 2)
    >>> max(clf.weights_, key=clf.weights_.get)    # the candidate with most evidence for it
    'modelled'
    >>> clf.verdict_.split(" (")[0]
    'Modelling the missingness lowered the estimated log-loss from 0.308 to 0.214'
    """

    score_: evaluation.Score | None
    independent_score_: evaluation.Score | None
    note_records_: list[Note]
    comparison_: Gain | None
    rival_comparison_: Gain | None
    overlap_: Overlap | None
    prior_offset_: dict[str, Array] | None
    transduction_: Any = NotKept("verdict_", _NOT_KEPT)
    held_out_proba_: Any = NotKept("verdict_", _NOT_KEPT)
    missing_proba_: Any = NotKept("verdict_", _NOT_KEPT)
    reference_proba_: Any = NotKept("verdict_", _NOT_KEPT)
    tested_: Any = NotKept("verdict_", _NOT_KEPT)
    posterior_: Any = NotKept("verdict_", _NOT_KEPT)

    def __init__(
        self,
        *,
        estimators: Mapping[str, BaseEstimator] | None = None,
        method: str = "average",
        cv: Any = 5,
        rivals: bool = False,
        classes: ArrayLike | None = None,
        prior: Mapping[Any, float] | ArrayLike | None = None,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        self.estimators = estimators
        self.method = method
        self.cv = cv
        self.rivals = rivals
        self.classes = classes
        self.prior = prior
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MARClassifierCV":
        """Fit and cross-validate the candidates, and weight them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features. Rows on a device are copied to the host; rows on a cluster are not supported.
        y : array-like of shape (n,) or (n, K)
            Labels; -1, NaN, None or pandas.NA if missing. With a column for each class, votes or probabilities, zero or NaN in
            all columns if missing: a row counts as copies of every class, weighted by the shares of its votes.
        sample_weight : array-like of shape (n,) or None
            Weights of the rows in the fits, in the average and in `comparison_`, but not in `results_` and `score_`.

        Returns
        -------
        self
        """
        fitted = type(self).__new__(type(self))  # so that a fit that fails leaves this estimator as it was
        fitted.__dict__.update({name: value for name, value in vars(self).items() if not name.endswith("_")})
        fitted._fit(X, y, sample_weight)
        records, said = (
            zip(fitted.note_records_, fitted.notes_, strict=True),
            ("prior", "missing-texts"),
        )
        if notes := [note for record, note in records if record.code not in said]:
            warnings.warn(" ".join(notes), UserWarning, stacklevel=2)
        replace_fit(self, vars(fitted))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        if self.method not in ("average", "pick"):
            raise ValueError(f"method={self.method!r} is not 'average' or 'pick'.")
        limit = self.time_limit
        if limit is not None and (not isinstance(limit, Real) or isinstance(limit, bool) or not limit > 0.0):
            raise ValueError(f"time_limit={limit!r} must be None or a positive number of seconds.")
        seconds = np.inf if limit is None else float(limit)
        deadline = monotonic() + seconds
        y, sample_weight = to_host_or_refuse(
            "MARClassifierCV", open_array(y, "y"), open_array(sample_weight, "sample_weight")
        )
        X = self._checked(X, reset=True)
        shares = None
        if has_votes(y):
            shares, self.classes_ = vote_shares(y, self.classes)
            z = most_voted(shares)
        else:
            z, self.classes_ = encode_labels(y, self.classes)
        if len(z) != len(X):
            raise ValueError(f"X and y have inconsistent numbers of samples: {len(X)} and {len(z)}.")
        weight = None if sample_weight is None else checked_weights(X, unmasked(sample_weight))
        prior = prior_of(self.prior, self.classes_)
        expected = None
        if prior is not None:
            expected = unlabelled_counts(prior, z if shares is None else shares, self.classes_, weight)
        grid = self._grid(X, z)
        light = crowded(len(self.classes_), X.shape[1], int(np.sum(z >= 0)))
        rivals = self._pipelines(default_rivals(len(self.classes_), X.shape[1], light) if self.rivals else {})
        if same := set(grid) & set(rivals):
            raise ValueError(f"the candidate {min(same)!r} has the name of a rival: rename it.")
        grid |= rivals
        folds = self._folds(X, z, shares, weight)
        self.tested_ = np.isin(np.arange(len(z)), np.concatenate([*folds, np.empty(0, dtype=np.intp)]))
        settings = {name: pipeline[-1].cv for name, pipeline in grid.items() if folds and cross_validates(pipeline)}
        for name in settings:
            grid[name][-1].set_params(cv=folds)
        order = _order(grid, rivals)
        jobs = [  # fold -1: all rows
            (name, fold) for name in order for fold in (-1, *(() if cross_validates(grid[name]) else range(len(folds))))
        ]
        fits: dict[str, dict[int, Outcome]] = {name: {} for name in grid}
        started: list[tuple[str, int]] = []

        def in_time() -> Iterator[Any]:
            for name, fold in jobs:
                first = next((one for one in order if not (-1 in fits[one] and fits[one][-1].error)), None)
                if name == first or monotonic() < deadline:
                    started.append((name, fold))
                    yield delayed(fit_one)(grid[name], X, z, weight, None if fold < 0 else folds[fold], shares)

        outcomes = Parallel(n_jobs=self.n_jobs, verbose=10 * bool(self.verbose), return_as="generator")(in_time())
        # a candidate that holds rows out itself fits as often as the others
        work = np.cumsum([1.0 + len(folds) * cross_validates(grid[name]) for name, _ in jobs])
        self._doing(0.0, jobs[0][0])
        for done, outcome in enumerate(outcomes, start=1):
            name, fold = started[done - 1]
            fits[name][fold] = (
                outcome if fold < 0 else outcome._replace(estimator=None)
            )  # many features take much memory
            following = jobs[done][0] if done < len(jobs) else "weights of the candidates"
            self._doing(float((1.0 - _WEIGHING) * work[done - 1] / work[-1]), following)
        self.note_records_ = all_labelled_notes(bool((z < 0).any()), self.classes)
        self.note_records_ += [] if prior is None else [_prior_note(prior)]
        if shares is None:
            self.note_records_ += missing_texts_notes(missing_texts(y, self.classes))
        late = [name for name in grid if any(job not in started for job in jobs if job[0] == name)]
        if late:
            self.note_records_.append(Note("time-limit", {"candidates": ", ".join(map(repr, late)), "limit": seconds}))
        grid = {name: pipeline for name, pipeline in grid.items() if name not in late}
        fits = {name: fits[name] for name in grid}
        for name in grid:
            errors = {fold: fit.error for fold, fit in fits[name].items() if fit.error}
            if -1 in errors:
                self.note_records_.append(Note("left-out", {"candidate": name, "error": errors[-1]}))
            elif errors:
                error, failed = next(iter(errors.values())), len(errors)
                self.note_records_.append(
                    Note("failed-folds", {"candidate": name, "failed": failed, "folds": len(folds), "error": error})
                )
        fits = {name: outcomes for name, outcomes in fits.items() if not outcomes[-1].error}
        self.estimators_ = {name: fit[-1].estimator for name, fit in fits.items() if name not in rivals}
        if not self.estimators_:
            why = next(note.values["error"] for note in self.note_records_ if note.code == "left-out")
            raise ValueError(f"no candidate could be fitted: {why}")
        if self.estimators is None and not boosting_installed():
            self.note_records_.append(Note("no-boosting"))
        probas = {name: _held_out(fits[name], X, folds, len(self.classes_)) for name in fits}
        for name in rivals.keys() & probas.keys():  # a forest is often certain, and an infinite loss would tell nothing
            probas[name] = hedged(probas[name])
        self._fitted_rivals({name: fits[name][-1].estimator for name in rivals if name in probas})
        for name in settings.keys() & self.estimators_.keys():
            self.estimators_[name][-1].set_params(cv=settings[name])
        self.prior_offset_ = None
        if expected is not None:
            self.prior_offset_ = {name: self._offset(name, X, z, expected, weight) for name in self.estimators_}
        self._weigh(X, z, shares, weight, probas, folds, expected)
        self.results_["seconds"] = np.array([sum(fit.seconds for fit in fits[name].values()) for name in fits])
        self.transduction_ = self.classes_[z]
        possible = (z < 0)[:, None] if shares is None else shares == shares.max(axis=1, keepdims=True)
        open_rows = possible.sum(axis=1) > (shares is not None)  # without a label, or with tied votes
        if open_rows.any():
            voted = possible[open_rows] & (z >= 0)[open_rows, None]
            proba = self._average("unlabelled_proba", X[open_rows])
            if voted.any():
                proba = np.where(voted.any(axis=1)[:, None], self._average("predict_proba", X[open_rows]), proba)
            proba = np.where(possible[open_rows], proba, -1.0)
            self.transduction_[open_rows] = self.classes_[proba.argmax(axis=1)]

    @property
    def notes_(self) -> list[str]:
        """Warnings of the fit."""
        if "note_records_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'notes_'")
        return [sentence(note, self.classes_, self._names()) for note in self.note_records_]

    def _doing(self, share: float, what: str) -> None:
        """Called before each fit, and before the weighing, with the share of the work that is done; for subclasses."""

    def _predicted(self, proba: dict[str, Array]) -> None:
        """Called with the held-out probabilities of each candidate and rival; subclasses may keep them."""

    def _fitted_rivals(self, rivals: dict[str, Pipeline]) -> None:
        """Called with the rivals, fitted to all labelled rows; subclasses may keep them."""

    def _grid(self, X: NDArray[Any], z: NDArray[Any]) -> dict[str, Pipeline]:
        """The candidates as pipelines."""
        grid = self.estimators
        if grid is None:
            grid = default_candidates(len(self.classes_), *X.shape, n_labelled=int(np.sum(z >= 0)))
        if not grid:
            raise ValueError("estimators is empty: name at least one candidate.")
        return self._pipelines(grid)

    def _pipelines(self, grid: Mapping[str, BaseEstimator]) -> dict[str, Pipeline]:
        """Clones of the classifiers, with a scaler in front unless they are pipelines."""
        pipelines = {}
        for name, estimator in grid.items():
            candidate = clone(estimator)
            if not isinstance(candidate, Pipeline):
                settings = candidate.get_params(deep=False)
                if settings.get("mechanism_features"):
                    columns = feature_columns(settings["mechanism_features"], self._names())
                    candidate.set_params(mechanism_features=columns)
                codes = {label: code for code, label in enumerate(self.classes_.tolist())}
                for option in ("delta", "n_components"):
                    by_class = settings.get(option)
                    if isinstance(by_class, Mapping) and by_class.keys() <= codes.keys():
                        candidate.set_params(**{option: {codes[label]: value for label, value in by_class.items()}})
                candidate = make_pipeline(StandardScaler(), candidate)
            pipelines[name] = candidate
        return pipelines

    def _offset(self, name: str, X: Any, z: NDArray[Any], expected: Array, weight: Array | None) -> Array:
        """What to add to the log-odds of a candidate for these expected numbers of unlabelled rows by class."""
        rows, pipeline = z < 0, self.estimators_[name]
        proba = _values(pipeline, "unlabelled_proba", X[rows])
        return class_offsets(proba, expected, None if weight is None else weight[rows])

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _folds(
        self, X: NDArray[Any], z: NDArray[Any], shares: Array | None, weight: Array | None
    ) -> list[NDArray[np.intp]]:
        """Test rows of each fold; no folds if a class has a single labelled row, or row with votes."""
        if not isinstance(self.cv, Integral):
            folds = [test for _, test in check_cv(self.cv).split(X, z)]
            if len(np.unique(tested := np.concatenate(folds))) < len(tested):
                raise ValueError("cv tests a row twice: use splits whose test sets do not overlap.")
            return folds
        order = row_order(X, z if shares is None else shares, weight)  # so that the order of the rows does not matter
        if shares is None:
            tests = [] if np.bincount(z[z >= 0]).min() < 2 else whole_row_folds(z[order], self.cv, self.random_state)
            return [np.sort(order[test]) for test in tests]
        rows, codes, share = copies_of(shares[order])
        if np.bincount(codes[codes >= 0]).min() < 2:
            return []
        tests = folds_of_copies(lambda z: whole_row_folds(z, self.cv, self.random_state), codes, share, rows)
        return [np.unique(order[rows[test]]) for test in tests]

    def _weigh(
        self,
        X: NDArray[Any],
        z: NDArray[Any],
        shares: Array | None,
        weight: Array | None,
        probas: dict[str, Array],
        folds: list[Any],
        expected: Array | None,
    ) -> None:
        """Set the weights, `results_` and the comparison from the held-out probabilities."""
        names = list(self.estimators_)
        rivals = [name for name in probas if name not in self.estimators_]
        models = [models_missingness(self.estimators_[name]) for name in names] + [False] * len(rivals)
        self.results_ = {
            "candidate": np.array(names + rivals),
            "rival": np.array([False] * len(names) + [True] * len(rivals)),
            "mechanism": np.array(models),
        }
        counts = np.ones(len(z)) if weight is None else weight
        if folds and (z[np.concatenate(folds)] >= 0).any():
            held_out = np.array([probas[name] for name in names + rivals])
            weights = self._compare(X, z, shares, counts, held_out, folds, expected)
        else:
            self.note_records_.append(Note("single-label"))
            weights = np.full(len(names), 1.0 / len(names))
            self.missing_proba_ = self._missing_rate(X, z, counts)
            self.score_ = self.comparison_ = self.held_out_proba_ = self.reference_proba_ = None
            self.rival_comparison_ = self.independent_score_ = self.overlap_ = self.posterior_ = None
            self.verdict_ = self.notes_[-1]
        self.weights_ = dict(zip(names, weights.tolist(), strict=True))
        self.results_["weight"] = np.concatenate([weights, np.zeros(len(rivals))])

    def _compare(
        self,
        X: NDArray[Any],
        z: NDArray[Any],
        shares: Array | None,
        counts: Array,
        probas: Array,
        folds: list[NDArray[np.intp]],
        expected: Array | None,
    ) -> Array:
        """Return the weights; set scores and comparison, with untested rows as unlabelled."""
        tested = np.sort(np.concatenate(folds))
        untested = np.ones(len(z), dtype=bool)
        untested[tested] = False
        candidates = ~self.results_["rival"]
        models = self.results_["mechanism"][candidates]
        held = probas[candidates]
        v = None if (z[tested] >= 0).all() else linear_predictor(X, z, counts, folds)
        labels = z if shares is None else shares
        evidence = Evidence(labels[tested], counts[tested], None if v is None else v[tested])
        losses = [evidence.losses(p[tested]) for p in probas]
        average, mechanism = evidence.average(held[:, tested])
        tau = self.reference_proba_ = np.einsum("c,cnk->nk", average, held)
        if mechanism is not None and models.any() and evidence.gain(tau[tested]) < _LEAST_GAIN:
            self.note_records_.append(Note("no-support"))
        if mechanism is not None and expected is None:  # known shares correct for what these checks look for
            self.note_records_ += doubts(X[tested], z[tested], tau[tested], counts[tested])
        everywhere = mechanism is not None and not untested.any()
        missing = np.empty(len(z)) if everywhere else self._missing_rate(X, z, counts)
        if mechanism is not None:
            missing[tested] = evidence.missing_proba(tau[tested], evidence.mechanism(tau[tested]))
        self.missing_proba_ = np.minimum(missing, Q_MAX)
        known = None
        if expected is not None:
            rows = z < 0
            probas = np.array([tilted(p, class_offsets(p[rows], expected, counts[rows])) for p in probas])
            held = probas[candidates]
            tau = self.reference_proba_ = np.einsum("c,cnk->nk", average, held)
            known = counts @ np.where(rows[:, None], tau, label_shares(labels, np.arange(tau.shape[1]))) / counts.sum()
        self._predicted(dict(zip(self.results_["candidate"].tolist(), probas, strict=True)))
        share = np.sum(z[tested] >= 0) / np.sum(z >= 0)
        q, not_tested = (1.0 - (1.0 - rate) * share for rate in (self.missing_proba_, missing))
        indicator = (z[:, None] == np.arange(tau.shape[1])).astype(float) if shares is None else shares.copy()
        indicator[untested] = 0.0
        z = np.where(untested, -1, z)
        weights = average
        against = np.array([sum(loss) for loss, is_candidate in zip(losses, candidates, strict=True) if is_candidate])
        if self.method == "pick":
            weights = np.eye(len(held))[against.argmin()]
        pool = self.held_out_proba_ = np.einsum("c,cnk->nk", weights, held)
        compared, without = models.any() and not models.all(), np.zeros(len(held))
        with_it = average
        if compared and self.method == "pick":
            with_it, without = (
                np.eye(len(held))[np.where(kind, against, np.inf).argmin()] for kind in (models, ~models)
            )
        elif compared:
            without[~models] = evidence.average(held[~models][:, tested]).weights
        ours, theirs = (np.einsum("c,cnk->nk", pi, held) for pi in (with_it, without))
        others = [*([theirs] if compared else []), *([pool] if self.method == "pick" else []), *probas[~candidates]]
        self.posterior_ = UncertainPosterior.of(tau, indicator, not_tested, others, counts, known)
        n_effective = representation(not_tested, z >= 0, counts)[1] if (z < 0).any() else float(np.sum(z >= 0))
        no_chance = float(counts @ (missing >= NO_CHANCE) / counts.sum())
        self.overlap_ = Overlap(no_chance, n_effective, int(np.sum(z >= 0)))
        central = self.posterior_.central
        scores = [self._scores_of(indicator, p, central) for p in probas]
        self.results_ |= {key: np.array([row[key] for row in scores]) for key in scores[0]}
        estimates = [evaluation.mean_of(-np.log(np.maximum(p, TINY))) for p in probas]
        errors = evaluation.imputed_estimates(estimates, indicator, q, self.posterior_)
        self.results_["log_loss_stderr"] = np.array([error for _, error in errors])
        self.results_["missing_log_loss"] = np.array([loss[1] for loss in losses])
        self.score_ = self._log_loss(indicator, pool, q, self.posterior_)
        self.comparison_ = self.rival_comparison_ = self.independent_score_ = None
        if not candidates.all():
            self._judge(X, indicator, probas, probas[~candidates].mean(axis=0), pool)
            best = np.where(candidates, np.inf, self.results_["log_loss"]).argmin()
            self.rival_comparison_ = self._gain(indicator, q, counts, pool, probas[best])
        if compared:
            self.comparison_ = self._gain(indicator, q, counts, ours, theirs)
            but = BUT if self.comparison_.clear and doubtful(self.note_records_) else ""
            self.verdict_ = self.comparison_.sentence() + but
        else:
            self.verdict_ = f"Nothing to compare: {'every' if models.all() else 'no'} candidate models the missingness."
        return weights

    def _gain(self, indicator: Array, q: Array, counts: Array, ours: Array, theirs: Array) -> Gain:
        """The log-losses of two held-out probabilities (n, K), and their difference with its standard error."""
        assert self.overlap_ is not None
        losses = [-np.log(np.maximum(p, TINY)) for p in (ours, theirs)]
        estimates = [evaluation.mean_of(loss, counts) for loss in (*losses, losses[1] - losses[0])]
        (with_it, _), (without, _), gain = evaluation.imputed_estimates(estimates, indicator, q, self.posterior_)
        return Gain(with_it, without, *gain, self.overlap_.no_chance)

    def _judge(self, X: NDArray[Any], indicator: Array, probas: Array, tau: Array, pool: Array) -> None:
        """Score all candidates and the average with q from a random forest and the posteriors of the rivals."""
        missing = np.asarray(~indicator.any(axis=1))
        q = flexible_missing_proba(X, missing)[0] if missing.any() else np.zeros(len(indicator))
        scores = [self._log_loss(indicator, p, q, tau) for p in (*probas, pool)]
        self.independent_score_ = scores.pop()
        self.results_["independent_log_loss"] = np.array([score.value for score in scores])
        self.results_["independent_log_loss_stderr"] = np.array([score.stderr for score in scores])

    def _missing_rate(self, X: NDArray[Any], z: NDArray[Any], counts: Array) -> Array:
        """The mean q of each row over the candidates with a mechanism; the overall rate if there is none."""
        models = [est for est in self.estimators_.values() if knows_missingness(est)]
        if not models or not (z < 0).any():
            return np.full(len(z), min(float(counts @ (z < 0) / counts.sum()), Q_MAX))
        return np.minimum(np.mean([est[-1].missing_proba(est[:-1].transform(X)) for est in models], axis=0), Q_MAX)

    def _log_loss(self, indicator: Array, proba: Array, q: Array, posterior: Any) -> evaluation.Score:
        numbers = np.arange(len(self.classes_))
        return evaluation.log_loss(indicator, np.maximum(proba, TINY), q, classes=numbers, posterior=posterior)

    def _scores_of(self, indicator: Array, proba: Array, central: Array) -> dict[str, float]:
        """The scores with imputed labels, which are doubly robust ones with a weight of one."""
        q, numbers = np.zeros(len(indicator)), np.arange(len(self.classes_))
        kwargs: dict[str, Any] = {"classes": numbers, "posterior": central}
        loss = self._log_loss(indicator, proba, q, central)
        return {
            "log_loss": loss.value,
            "log_loss_stderr": loss.stderr,
            "plain_log_loss": loss.plain,
            "brier": evaluation.brier(indicator, proba, q, **kwargs).value,
            "accuracy": evaluation.accuracy(indicator, proba, q, **kwargs).value,
            "roc_auc": evaluation.roc_auc(indicator, proba, q, **kwargs).value,
        }

    def _checked(self, X: Any, reset: bool = False) -> NDArray[Any]:
        """X as a finite array on the host; `reset` in a fit."""
        if not reset:
            check_is_fitted(self)
        (X,) = to_host_or_refuse("MARClassifierCV", unmasked(open_array(X)))
        refuse_sparse(X)
        X = in_floats(X, partial(validate_data, self, reset=reset))
        check_finite(X, self._names())
        return X

    def _average(self, method: str, X: NDArray[Any]) -> Array:
        """The weighted mean of a method of the candidates; `predict_proba` of those without `unlabelled_proba`."""
        parts = [
            (weight, name)
            for name, weight in self.weights_.items()
            if weight > 0.0 and (method != "missing_proba" or knows_missingness(self.estimators_[name]))
        ]
        total = sum(weight for weight, _ in parts)
        offsets = {} if method == "missing_proba" else self.prior_offset_ or {}
        values = (
            weight / total * tilted(_values(self.estimators_[name], method, X), offsets.get(name))
            for weight, name in parts
        )
        return np.asarray(sum(values))

    def predict_proba(self, X: Any) -> Array:
        """Weighted average of the candidates' class probabilities, (n, K).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n, K)
            With columns as in `classes_`.
        """
        return self._average("predict_proba", self._checked(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, (n,).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n,)
            Classes, as in `classes_`.
        """
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def missing_proba(self, X: Any) -> Array:
        """Probability that the label of each row is missing, averaged over the candidates with a mechanism, (n,).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n,)
            The probabilities, whether or not the label of a row is missing.
        """
        check_is_fitted(self)
        if not any(knows_missingness(self.estimators_[name]) for name, weight in self.weights_.items() if weight > 0):
            raise ValueError(
                "no candidate of positive weight models the missingness: add one with a link to estimators."
            )
        return self._average("missing_proba", self._checked(X))

    def imputed_sets(self, X: Any, y: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Sets of classes for the training rows that hold the true class of an unlabelled row with a stated probability.

        Conformal sets (`marmix.evaluation.conformal_sets`) from the held-out probabilities, calibrated on the labelled rows and
        weighted by ``q / (1 - q)`` as unlabelled rows are harder. q is estimated by a random forest
        (`marmix.evaluation.flexible`), so the coverage does not depend on the mechanism being right, only on labels
        being missing at random given the features.

        Parameters
        ----------
        X, y
            The rows of the fit.
        coverage : float, default=0.9
            Share of the unlabelled rows whose set holds the true class.

        Returns
        -------
        array of bool, shape (n, K)
            Whether each class of `classes_` is in the set; a labelled row's set is its label, or the classes with votes.
        """
        X = self._checked(X)
        (y,) = to_host_or_refuse("imputed_sets", open_array(y, "y"))
        shares, proba = label_shares(y, self.classes_), self.held_out_proba_
        if proba is None:
            raise ValueError("a class has a single labelled row, so no row was held out: sets need at least two.")
        if not len(X) == len(shares) == len(proba):
            raise ValueError(f"X and y are not the rows of the fit, of which there were {len(proba)}: pass those.")
        sets, missing = shares > 0.0, np.asarray(~shares.any(axis=1))
        if missing.any():
            q, _ = flexible_missing_proba(X, missing)
            held_out = np.where(self.tested_[:, None], shares, 0.0)
            sets[missing] = conformal_sets(
                held_out, proba, q, proba[missing], q[missing], classes=np.arange(shares.shape[1]), coverage=coverage
            )
        return sets

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows; `score_` also accounts for the unlabelled ones.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        y : array-like of shape (n,) or (n, K)
            Labels, some of them missing. Of votes the share that agrees counts.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
            Share of the labelled rows that are predicted correctly.
        """
        return score_labelled(self, X, y, sample_weight)

    def sensitivity(
        self,
        X: Any,
        y: Any,
        delta: ArrayLike | None = None,
        label: Any = None,
        *,
        threshold: float | None = None,
        n_draws: int = 200,
        random_state: int = 0,
        sample_weight: Any = None,
    ) -> Sensitivity:
        """What if labels are missing because of the label itself? A sweep over how strongly.

        The averaged probabilities of the unlabelled rows are tilted by e^delta ("pattern-mixture"). Every draw behind the
        intervals takes one candidate, with its weight as the probability, then its parameters from their estimated distribution
        (of boosted trees, and of models with more parameters than rows or very many: their calibration on held-out rows; of
        candidates with a weight below 0.05, as fitted), then the missing labels. So the intervals include how far the
        candidates differ, but not the uncertainty of their weights. On other rows than those of the fit they do not include
        that of the parameters.

        Parameters
        ----------
        X, y, sample_weight
            The rows of the fit.
        delta, label, threshold, n_draws, random_state
            As in `MARGaussianMixture.sensitivity`.

        Returns
        -------
        Sensitivity
        """
        options: dict[str, Any] = {"threshold": threshold, "n_draws": n_draws, "random_state": random_state}
        return sensitivity_of(self, X, y, delta, label, sample_weight, **options)

    def unlabelled_proba(self, X: Any) -> Array:
        """Class probabilities of rows whose label is known to be missing, (n, K); see `MARGaussianMixture.unlabelled_proba`."""
        return self._average("unlabelled_proba", self._checked(X))

    def _posterior_draws(self, X: Any, y: Any, sample_weight: Any, proba: Array) -> tuple[Draw, list[str]]:
        """Draws of the posteriors (n, K) of the unlabelled rows, and a list to which they add notes."""
        X, shares = self._checked(X), label_shares(y, self.classes_)
        labels = shares if has_votes(y) else most_voted(shares)  # of the classes as the candidates see them
        rows = np.asarray(~shares.any(axis=1))
        if sample_weight is not None:
            rows &= np.asarray(sample_weight) > 0.0
        names = [name for name, weight in self.weights_.items() if weight > 0.0]
        members, offsets = [self.estimators_[name] for name in names], self.prior_offset_ or {}
        chances = np.array([self.weights_[name] for name in names])
        draws: dict[int, Draw] = {}
        notes: list[str] = []
        light = chances < _LIGHT * chances.sum()

        def draw(rng: np.random.Generator) -> Array:
            c = int(rng.choice(len(members), p=chances / chances.sum()))
            if c not in draws:
                x = members[c][:-1].transform(X)
                draws[c], remarks = self._draws_of(members[c][-1], x, labels, sample_weight, rows, bool(light[c]))
                notes.extend(remark for remark in remarks if remark not in notes)
            return tilted(draws[c](rng), offsets.get(names[c]))

        return draw, notes

    def _draws_of(
        self, estimator: Any, X: Any, y: NDArray[Any], sample_weight: Any, rows: NDArray[np.bool_], fixed: bool
    ) -> tuple[Draw, list[str]]:
        """Draws of a candidate's posteriors of unlabelled rows, always the same if `fixed` or not of marmix, and notes."""
        proba = getattr(estimator, "unlabelled_proba", estimator.predict_proba)(X[rows])
        if fixed:
            return lambda rng: proba, []
        draw: Draw | None = None
        notes = ["The intervals do not include the uncertainty of candidates that are not of marmix."]
        if _has_too_many_parameters(estimator) and estimator.fitted_to(X, y, sample_weight):
            held_out = vars(self).get("held_out_proba_")
            notes = [TOO_MANY.format("only the calibration" if held_out is not None else "nothing")]
            if held_out is not None:
                z = most_voted(y) if y.ndim == 2 else y
                tested = (z >= 0) & self.tested_
                draw = calibration_draws(held_out[tested], z[tested], proba)
        elif isinstance(estimator, MARClassifier):
            try:
                draw, notes = estimator._posterior_draws(X, y, sample_weight, proba)
            except ValueError as error:
                notes = [f"The intervals do not include the uncertainty of the parameters of one candidate: {error}"]
        return (lambda rng: proba) if draw is None else draw, notes

    def to_sklearn(self) -> Pipeline:
        """An equivalent fitted pipeline of scikit-learn's own estimators; see `MARGaussianMixture.to_sklearn`.

        Only if one candidate has all the weight, as with method="pick".
        """
        return to_sklearn(self)


def _order(grid: Mapping[str, Pipeline], rivals: Mapping[str, Any]) -> list[str]:
    """The candidates in the order in which they are fitted: first one of each kind, with and without the mechanism."""
    groups: dict[Any, list[str]] = {}
    for name, pipeline in grid.items():
        groups.setdefault((name in rivals, type(pipeline[-1]), models_missingness(pipeline)), []).append(name)
    return [name for names in zip_longest(*groups.values()) for name in names if name is not None]


def _has_too_many_parameters(estimator: Any) -> bool:
    """Whether the parameters of a candidate are too many to draw them; trees have none."""
    has_parameters = isinstance(estimator, MARClassifier) and not isinstance(estimator, MARBoostingClassifier)
    return has_parameters and too_many_parameters(estimator.model_) is not None


def hedged(proba: Array) -> Array:
    """The probabilities of a rival, mixed with a little of equal ones."""
    return (1.0 - _DOUBT) * proba + _DOUBT / proba.shape[1]


def _values(pipeline: Pipeline, method: str, X: NDArray[Any]) -> Array:
    """A method of a candidate's last step; `predict_proba` if it does not have it."""
    last = pipeline[-1]
    name = method if hasattr(last, method) else "predict_proba"
    values = np.asarray(getattr(last, name)(pipeline[:-1].transform(X)))
    check_results(values, 0)
    return values


def _prior_note(prior: Array) -> Note:
    """The note that class shares were taken as given."""
    known = np.flatnonzero(~np.isnan(prior))
    shares = ", ".join(f"{100.0 * share:.3g} %" for share in prior[known])
    return Note("prior", {"classes": known.tolist(), "shares": shares})


def _held_out(fits: dict[int, Outcome], X: NDArray[Any], folds: list[NDArray[np.intp]], n_classes: int) -> Array:
    """Probabilities (n, K) of a candidate: held out in tested rows, 1 / K in folds that failed, else of the fit to all rows."""
    everything = fits[-1]
    if everything.proba is not None:
        return np.where(np.isnan(everything.proba), everything.estimator.predict_proba(X), everything.proba)
    untested = np.delete(np.arange(len(X)), np.concatenate([*folds, np.empty(0, dtype=np.intp)]))
    proba = np.full((len(X), n_classes), 1.0 / n_classes)
    if len(untested):
        proba[untested] = everything.estimator.predict_proba(X[untested])
    for fold, test in enumerate(folds):
        fold_proba = fits[fold].proba
        if fold_proba is not None:
            proba[test] = fold_proba
    return proba
