"""`MARClassifierCV`: cross-validated averaging of candidate models."""

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from marmix import evaluation
from marmix.arrays import Array, to_host_or_refuse
from marmix.estimators.base import NotKept, score_labelled
from marmix.estimators.candidates import (
    default_candidates,
    fit_one,
    held_out,
    knows_missingness,
    models_missingness,
    stack,
)
from marmix.estimators.conversion import to_sklearn
from marmix.estimators.summary import Described
from marmix.estimators.validation import feature_columns
from marmix.labels import encode_labels
from marmix.notes import Note, sentence
from marmix.pseudo_labels import inverse_weights, pseudo_labels
from marmix.rows.checks import check_finite, refuse_sparse
from marmix.streams import open_array

Q_MAX = 0.95  # upper limit of the estimated q in the weights 1 / (1 - q)
TINY = 1e-300  # lower limit of probabilities in the log-loss

_NOT_KEPT = (
    "it describes the training rows, and is not saved with the model. Use predict or missing_proba for any rows."
)


class Gain(NamedTuple):
    """The estimated log-loss with and without modelling the missingness."""

    with_it: float
    without: float
    gain: float
    stderr: float

    @classmethod
    def of(cls, losses: Array, without: Array, weight: Array) -> "Gain":
        """From the weighted losses of the same rows, and their weights."""
        total = weight.sum()
        gain = (without - losses).sum() / total
        error = np.sqrt(np.sum((without - losses - gain * weight) ** 2)) / total
        return cls(float(losses.sum() / total), float(without.sum() / total), float(gain), float(error))

    @property
    def clear(self) -> bool:
        """Whether the gain is more than two standard errors."""
        return self.gain > 2.0 * self.stderr

    def sentence(self) -> str:
        """The comparison as a sentence."""
        difference = f"(difference {self.gain:.4f}, standard error {self.stderr:.4f})"
        change = f"from {self.without:.3f} to {self.with_it:.3f} {difference}"
        if self.clear:
            return f"Modelling the missingness lowered the estimated log-loss {change}."
        if -self.gain > 2.0 * self.stderr:
            return f"Modelling the missingness raised the estimated log-loss {change}: it is better ignored here."
        return (
            f"No evidence that modelling the missingness helps here: estimated log-loss {self.with_it:.3f} with it, "
            f"{self.without:.3f} without {difference}."
        )


class MARClassifierCV(Described, ClassifierMixin, BaseEstimator):
    """Average of candidate classifiers, weighted by cross-validation corrected for the missing labels.

    Each candidate is cross-validated on the labelled rows; unlabelled rows are always used for training. Held-out labels are
    weighted by ``1 / (1 - q)``, so that they represent the unlabelled rows too (see `marmix.evaluation`). The class probabilities
    of the candidates are averaged with the weights under which the average predicts the held-out labels best. Scores of the
    candidates are doubly robust, with the average as posterior, as some hard rows may hardly ever be labelled.

    Parameters
    ----------
    estimators : dict or None, default=None
        Candidates by name, each a classifier that accepts missing labels (`MARGaussianMixture`, `MARLogisticRegression`, or a
        pipeline that ends in one). The default is a grid of logistic regressions and mixtures, with the mechanism modelled,
        tempered and ignored. Features are standardised before candidates that are not pipelines. Candidates see the classes as
        0, 1, ... in the order of `classes_`, and columns by number (`mechanism_features` may name them).
    method : {"average", "pick"}, default="average"
        "pick" keeps only the candidate with the lowest estimated log-loss. Averaging is the default because these estimates are
        noisy if few hard rows are labelled.
    cv : int, splitter or iterable of splits, default=5
        Number of folds of the labelled rows (at most the labels of the smallest class), or splits as in scikit-learn, whose
        unlabelled test rows are ignored. Labelled rows that no split tests are scored as unlabelled.
    classes : array-like or None, default=None
        The classes, in the order of `classes_`; by default the sorted labels in y.
    n_jobs : int or None, default=None
        Number of processes for the fits, as in joblib.
    random_state : int, RandomState instance or None, default=0
        For the folds.
    verbose : int, default=0
        1 reports progress.

    Attributes
    ----------
    classes_ : array of shape (K,)
    estimators_ : dict
        The candidates, fitted to all rows.
    weights_ : dict
        Their weights in the average.
    results_ : dict of arrays
        One entry per candidate, ready for ``pandas.DataFrame(results_)``: "candidate", "mechanism" (whether it models the
        missingness), "weight"; "log_loss" with "log_loss_stderr", "brier", "accuracy" and "roc_auc" for the population, doubly
        robust; "plain_log_loss" of the labelled rows alone; "seconds".
    score_ : Score or None
        Cross-validated log-loss of the average (or the pick) for the population. It is slightly optimistic, as the weights and q
        were fitted to the same rows, and its standard error takes q and the posteriors as given.
    comparison_ : Gain or None
        That log-loss with (`with_it`) and `without` the candidates that model the missingness, the difference `gain` and its
        `stderr`. For method="pick", the best candidate of each kind. None if all candidates, or none, model it.
    verdict_ : str
        The comparison as a sentence: does modelling the missingness help?
    held_out_proba_ : array of shape (n, K) or None
        Class probabilities of the training rows: cross-validated for tested rows, otherwise from the fits to all rows. None if a
        class has a single labelled row.
    missing_proba_ : array of shape (n,)
        Probability of a missing label of each training row, used to correct the scores: the mean over the candidates with a
        mechanism.
    reference_proba_ : array of shape (n, K) or None
        Such probabilities of the average, for either `method`: the posteriors of the doubly robust scores.
    transduction_ : array of shape (n,)
        Labels of the training rows, the missing ones imputed.
    notes_ : list of str
        Warnings of the fit.
    note_records_ : list of (code, values)
        The same for programs.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=300)
    >>> X = rng.normal(size=(300, 2)) + np.where(y == 1, 1.0, -1.0)[:, None]
    >>> y_partial = np.where(rng.exponential(2.0, size=300) > np.abs(X.sum(axis=1)), -1, y)
    >>> clf = MARClassifierCV(cv=3).fit(X, y_partial)
    >>> bool(np.mean(clf.predict(X) == y) > 0.85)
    True
    """

    score_: evaluation.Score | None
    note_records_: list[Note]
    comparison_: Gain | None
    transduction_: Any = NotKept("verdict_", _NOT_KEPT)
    held_out_proba_: Any = NotKept("verdict_", _NOT_KEPT)
    missing_proba_: Any = NotKept("verdict_", _NOT_KEPT)
    reference_proba_: Any = NotKept("verdict_", _NOT_KEPT)

    def __init__(
        self,
        *,
        estimators: Mapping[str, BaseEstimator] | None = None,
        method: str = "average",
        cv: Any = 5,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        self.estimators = estimators
        self.method = method
        self.cv = cv
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MARClassifierCV":
        """Fit and cross-validate the candidates, and weight them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features. Rows on a device are copied to the host; rows on a cluster are not supported.
        y : array-like of shape (n,)
            Labels; -1, NaN, None or pandas.NA if missing.
        sample_weight : array-like of shape (n,) or None
            Weights of the rows in the fits, in the average and in `comparison_`, but not in `results_` and `score_`.

        Returns
        -------
        self
        """
        fitted = type(self).__new__(type(self))  # so that a fit that fails leaves this estimator as it was
        fitted.__dict__.update({name: value for name, value in vars(self).items() if not name.endswith("_")})
        fitted._fit(X, y, sample_weight)
        self.__dict__.update(vars(fitted))
        if self.notes_:
            warnings.warn(" ".join(self.notes_), UserWarning, stacklevel=2)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        if self.method not in ("average", "pick"):
            raise ValueError(f"method={self.method!r} is not 'average' or 'pick'.")
        y, sample_weight = to_host_or_refuse(
            "MARClassifierCV", open_array(y, "y"), open_array(sample_weight, "sample_weight")
        )
        X = self._checked(X, reset=True)
        z, self.classes_ = encode_labels(y, self.classes)
        if len(z) != len(X):
            raise ValueError(f"X and y have inconsistent numbers of samples: {len(X)} and {len(z)}.")
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        grid = self._grid(X)
        folds = self._folds(X, z)
        jobs = [(name, fold) for name in grid for fold in range(-1, len(folds))]  # fold -1: all rows
        outcomes = Parallel(n_jobs=self.n_jobs, verbose=10 * bool(self.verbose), return_as="generator")(
            delayed(fit_one)(grid[name], X, z, weight, None if fold < 0 else folds[fold]) for name, fold in jobs
        )
        fits = {}
        for job, outcome in zip(jobs, outcomes, strict=True):
            fits[job] = outcome
            self._fitted_one(len(fits) / len(jobs))
        failed = {name: fits[name, -1].error for name in grid if fits[name, -1].error}
        if len(failed) == len(grid):
            raise ValueError(f"no candidate could be fitted: {next(iter(failed.values()))}")
        self.estimators_ = {name: fits[name, -1].estimator for name in grid if name not in failed}
        self.note_records_ = [Note("left-out", {"candidate": name, "error": error}) for name, error in failed.items()]
        for name in self.estimators_:
            errors = [fits[name, fold].error for fold in range(len(folds)) if fits[name, fold].error]
            if errors:
                values = {"candidate": name, "failed": len(errors), "folds": len(folds), "error": errors[0]}
                self.note_records_.append(Note("failed-folds", values))
        held = {name: held_out(fits, name, folds, len(z), len(self.classes_)) for name in self.estimators_}
        self._weigh(X, z, weight, held, folds)
        seconds = [sum(fits[name, fold].seconds for fold in range(-1, len(folds))) for name in self.estimators_]
        self.results_["seconds"] = np.array(seconds)
        self.transduction_ = self.classes_[z]
        if (z < 0).any():
            self.transduction_[z < 0] = self.classes_[self._average("predict_proba", X[z < 0]).argmax(axis=1)]

    @property
    def notes_(self) -> list[str]:
        """Warnings of the fit."""
        if "note_records_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'notes_'")
        return [sentence(note, self.classes_, self._names()) for note in self.note_records_]

    def _fitted_one(self, share: float) -> None:
        """Called after each fit with the share of fits that are done; subclasses may show progress."""

    def _predicted(self, proba: dict[str, Array]) -> None:
        """Called with the held-out probabilities of each candidate; subclasses may keep them."""

    def _grid(self, X: NDArray[Any]) -> dict[str, Pipeline]:
        grid = self.estimators
        if grid is None:
            grid = default_candidates(len(self.classes_), *X.shape)
        if not grid:
            raise ValueError("estimators is empty: name at least one candidate.")
        pipelines = {}
        for name, estimator in grid.items():
            candidate = clone(estimator)
            if not isinstance(candidate, Pipeline):
                features = candidate.get_params().get("mechanism_features")
                if features:
                    candidate.set_params(mechanism_features=feature_columns(features, self._names()))
                candidate = make_pipeline(StandardScaler(), candidate)
            pipelines[name] = candidate
        return pipelines

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _folds(self, X: NDArray[Any], z: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Labelled test rows of each fold; no folds if a class has a single labelled row."""
        if not isinstance(self.cv, Integral):
            return [test[z[test] >= 0] for _, test in check_cv(self.cv).split(X, z)]
        fewest = int(np.bincount(z[z >= 0]).min())
        if fewest < 2:
            return []
        splitter = evaluation.StratifiedPartialLabelKFold(
            min(int(self.cv), fewest), shuffle=True, random_state=self.random_state
        )
        return [test for _, test in splitter.split(z, z)]

    def _weigh(
        self, X: NDArray[Any], z: NDArray[Any], weight: Array | None, held: dict[str, Array], folds: list[Any]
    ) -> None:
        """Set the weights, `results_` and the comparison from the held-out probabilities."""
        names = list(self.estimators_)
        models = np.array([models_missingness(self.estimators_[name]) for name in names])
        counts = np.ones(len(z)) if weight is None else weight
        self.missing_proba_ = self._missing_rate(X, z, counts)
        self.results_ = {"candidate": np.array(names), "mechanism": models}
        if folds:
            weights = self._compare(X, z, counts, held, np.concatenate(folds))
        else:
            self.note_records_.append(Note("single-label"))
            weights = np.full(len(names), 1.0 / len(names))
            self.score_ = self.comparison_ = self.held_out_proba_ = self.reference_proba_ = None
            self.verdict_ = self.notes_[-1]
        self.weights_ = dict(zip(names, weights.tolist(), strict=True))
        self.results_["weight"] = weights

    def _compare(
        self, X: NDArray[Any], z: NDArray[Any], counts: Array, held: dict[str, Array], tested: NDArray[np.intp]
    ) -> Array:
        """Return the weights; set scores and comparison, with untested rows as unlabelled."""
        if len(np.unique(tested)) < len(tested):
            raise ValueError("cv tests a row twice: use splits whose test sets do not overlap.")
        models = self.results_["mechanism"]
        q = 1.0 - (1.0 - self.missing_proba_) * len(tested) / np.sum(z >= 0)  # probability that a row is not tested
        z = np.where(np.isin(np.arange(len(z)), tested), z, -1)
        labelled = (z >= 0)[:, None]
        proba = np.array(
            [np.where(labelled, held[name], est.predict_proba(X)) for name, est in self.estimators_.items()]
        )
        self._predicted(dict(zip(self.estimators_, proba, strict=True)))
        average = self._stacked(z, q, counts, proba)
        tau = self.reference_proba_ = np.einsum("c,cnk->nk", average, proba)
        indicator = (z[:, None] == np.arange(tau.shape[1])).astype(float)
        r = counts[:, None] * pseudo_labels(indicator, q, tau)[0]

        def losses_of(p: Array) -> Array:
            return -np.asarray((r * np.log(np.maximum(p, TINY))).sum(axis=1))

        losses = np.array([losses_of(p) for p in proba])
        weights = np.eye(len(proba))[losses.sum(axis=1).argmin()] if self.method == "pick" else average
        scores = [self._scores_of(z, p, q, tau) for p in proba]
        self.results_ |= {key: np.array([row[key] for row in scores]) for key in scores[0]}
        pool = self.held_out_proba_ = np.einsum("c,cnk->nk", weights, proba)
        self.score_ = self._log_loss(z, pool, q, tau)
        if models.all() or not models.any():
            self.comparison_ = None
            self.verdict_ = f"Nothing to compare: {'every' if models.all() else 'no'} candidate models the missingness."
            return weights
        if self.method == "pick":
            with_it, without = (part[part.sum(axis=1).argmin()] for part in (losses[models], losses[~models]))
        else:
            ignoring = self._stacked(z, q, counts, proba[~models])
            with_it, without = losses_of(pool), losses_of(np.einsum("c,cnk->nk", ignoring, proba[~models]))
        self.comparison_ = Gain.of(with_it, without, r.sum(axis=1))
        self.verdict_ = self.comparison_.sentence()
        return weights

    def _stacked(self, z: NDArray[Any], q: Array, counts: Array, proba: Array) -> Array:
        """Weights under which the average of the candidates predicts the tested labels best."""
        at = np.flatnonzero(z >= 0)
        return stack(proba[:, at, z[at]], inverse_weights(q[at], len(z))[0], counts[at])

    def _missing_rate(self, X: NDArray[Any], z: NDArray[Any], counts: Array) -> Array:
        """The mean q of each row over the candidates with a mechanism; the overall rate if there is none."""
        models = [est for est in self.estimators_.values() if knows_missingness(est)]
        if not models or not (z < 0).any():
            return np.full(len(z), min(float(counts @ (z < 0) / counts.sum()), Q_MAX))
        return np.minimum(np.mean([est[-1].missing_proba(est[:-1].transform(X)) for est in models], axis=0), Q_MAX)

    def _log_loss(self, z: NDArray[Any], proba: Array, q: Array, tau: Array) -> evaluation.Score:
        return evaluation.log_loss(z, np.maximum(proba, TINY), q, classes=np.arange(len(self.classes_)), posterior=tau)

    def _scores_of(self, z: NDArray[Any], proba: Array, q: Array, tau: Array) -> dict[str, float]:
        kwargs: dict[str, Any] = {"classes": np.arange(len(self.classes_)), "posterior": tau}
        loss = self._log_loss(z, proba, q, tau)
        return {
            "log_loss": loss.value,
            "log_loss_stderr": loss.stderr,
            "plain_log_loss": loss.plain,
            "brier": evaluation.brier(z, proba, q, **kwargs).value,
            "accuracy": evaluation.accuracy(z, proba, q, **kwargs).value,
            "roc_auc": evaluation.roc_auc(z, proba, q, **kwargs).value,
        }

    def _checked(self, X: Any, reset: bool = False) -> NDArray[Any]:
        """X as a finite array on the host; `reset` in a fit."""
        if not reset:
            check_is_fitted(self)
        (X,) = to_host_or_refuse("MARClassifierCV", open_array(X))
        refuse_sparse(X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=reset)
        check_finite(X, self._names())
        return X

    def _average(self, method: str, X: NDArray[Any]) -> Array:
        parts = [
            (weight, self.estimators_[name])
            for name, weight in self.weights_.items()
            if weight > 0.0 and (method == "predict_proba" or knows_missingness(self.estimators_[name]))
        ]
        total = sum(weight for weight, _ in parts)
        return np.asarray(
            sum(weight / total * getattr(est[-1], method)(est[:-1].transform(X)) for weight, est in parts)
        )

    def predict_proba(self, X: Any) -> Array:
        """Weighted average of the candidates' class probabilities, (n, K)."""
        return self._average("predict_proba", self._checked(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def missing_proba(self, X: Any) -> Array:
        """Probability that the label of each row is missing, averaged over the candidates with a mechanism, (n,)."""
        check_is_fitted(self)
        if not any(knows_missingness(self.estimators_[name]) for name, weight in self.weights_.items() if weight > 0):
            raise ValueError(
                "no candidate of positive weight models the missingness: add one with a link to estimators."
            )
        return self._average("missing_proba", self._checked(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows; `score_` also accounts for the unlabelled ones."""
        return score_labelled(self, X, y, sample_weight)

    def to_sklearn(self) -> Pipeline:
        """An equivalent fitted pipeline of scikit-learn's own estimators; see `MARGaussianMixture.to_sklearn`.

        Only if one candidate has all the weight, as with method="pick".
        """
        return to_sklearn(self)
