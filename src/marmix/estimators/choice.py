"""A choice that is never a bad one: candidates cross-validated on scores that are fair, and averaged."""

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any

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
from marmix.estimators.candidates import (
    default_candidates,
    fit_one,
    held_out,
    knows_missingness,
    models_missingness,
    stack,
)
from marmix.estimators.conversion import to_sklearn
from marmix.estimators.gain import Gain
from marmix.estimators.prediction import NotKept, score_labelled
from marmix.estimators.summary import Described
from marmix.estimators.validation import feature_columns
from marmix.labels import encode_labels
from marmix.notes import Note, sentence
from marmix.pseudo_labels import inverse_weights, pseudo_labels
from marmix.rows.checks import check_finite, refuse_sparse
from marmix.streams import open_array

# No missing probability is taken as larger than this when rows are weighted: q is an estimate itself.
Q_MAX = 0.95
TINY = 1e-300  # the smallest probability whose logarithm is taken

_NOT_KEPT = (
    "it is about the rows of the fit, and is not saved with the model. predict and missing_proba answer for any rows."
)


class MARClassifierCV(Described, ClassifierMixin, BaseEstimator):
    """Average of several classifiers, weighted by cross-validation on scores for the whole population.

    Every candidate is cross-validated on the labelled rows (unlabelled rows always train), and the held-out labels are
    weighted by ``1 / (1 - q)`` so that they stand for the rows that lost theirs (`marmix.evaluation`). The probabilities of
    all candidates are then averaged with the weights under which the average predicts the held-out labels best. Where hardly
    any hard row has a label no weight brings them back, so candidates are scored doubly robustly, with the average as posterior.

    Parameters
    ----------
    estimators : dict or None, default=None
        Candidates by name, each a classifier that takes missing labels (`MARGaussianMixture`, `MARLogisticRegression`, a
        pipeline that ends in one). None is `default_candidates`: logistic and mixture, mechanism on, tempered and off, with one
        link and one measure to keep the fits few; add others here.
        Features are standardised before each that is not a pipeline, so that penalties mean the same in all units.
        Candidates see the classes as 0, 1, ... in the order of `classes_`, and columns by number (`mechanism_features` may
        name them).
    method : {"average", "pick"}, default="average"
        "pick" keeps the candidate with the lowest estimated log-loss alone. Averaging is the default because the estimated
        losses are noisy where few hard rows have labels, and picking pays for that noise.
    cv : int, splitter or iterable of splits, default=5
        Folds of the labelled rows (fewer where a class has fewer labels), or splits as anywhere in scikit-learn; unlabelled
        rows of their test parts are not tested. Labelled rows that no split tests count as rows without label in the scores,
        as if the tested ones were drawn from all of them.
    classes : array-like or None, default=None
        The classes, in the order wanted in `classes_`; by default those found in y, sorted.
    n_jobs : int or None, default=None
        Processes for the fits of candidates and folds, as in joblib.
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
        One entry a candidate: "candidate", "mechanism" (whether it models the missingness), "weight"; "log_loss" with
        "log_loss_stderr", "brier", "accuracy" and "roc_auc" on the whole population, doubly robust; "plain_log_loss" over the
        labelled rows as they are; "seconds". Ready for ``pandas.DataFrame(results_)``.
    score_ : Score or None
        Log-loss of the choice, cross-validated, on the whole population. It is a little too good: the weights saw these rows,
        and q, the mean of what the candidates with a mechanism say, was fitted to them. Its standard error takes q and the
        posteriors as known.
    comparison_ : Gain or None
        That log-loss with (`with_it`) and `without` the candidates that model the missingness, their difference `gain` and
        its `stderr`; of a pick, the best candidate of each kind. None where there is nothing to compare.
    verdict_ : str
        That comparison in words: did modelling the missingness help?
    held_out_proba_ : array of shape (n, K) or None
        Probabilities of the training rows by fits that did not see their labels: cross-validated for the labelled ones that `cv`
        tests, by the fits to all rows for others. None if a class has a single labelled row.
    missing_proba_ : array of shape (n,)
        The probability of a missing label of every training row, by which the scores are corrected.
    reference_proba_ : array of shape (n, K) or None
        Such probabilities of the average, whatever the `method`: the posteriors that the doubly robust scores lean on.
    transduction_ : array of shape (n,)
        A label for every training row: the given one, or the imputed one.
    notes_ : list of str
        What should be known of the choice, in words.
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
        """Fit, cross-validate and weigh the candidates.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows on a device are brought to the host; those of a cluster are refused, for folds are drawn from all of them.
        y : array-like of shape (n,)
            Labels; -1, NaN, None or pandas.NA where missing.
        sample_weight : array-like of shape (n,) or None
            Weights of the rows in the fits, in the average and in `comparison_`; `results_` and `score_` are without them.

        Returns
        -------
        self
        """
        if self.method not in ("average", "pick"):
            raise ValueError(f"method={self.method!r} is not 'average' or 'pick'.")
        X, y, sample_weight = to_host_or_refuse(
            "MARClassifierCV", open_array(X), open_array(y, "y"), open_array(sample_weight, "sample_weight")
        )
        refuse_sparse(X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False)
        check_finite(X, self._names())
        z, self.classes_ = encode_labels(y, self.classes)
        if len(z) != len(X):
            raise ValueError(f"X and y have inconsistent numbers of samples: {len(X)} and {len(z)}.")
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        grid = self._grid(X)
        folds = self._folds(X, z)
        jobs = [(name, fold) for name in grid for fold in range(-1, len(folds))]  # fold -1: all rows
        answers = Parallel(n_jobs=self.n_jobs, verbose=10 * bool(self.verbose), return_as="generator")(
            delayed(fit_one)(grid[name], X, z, weight, None if fold < 0 else folds[fold]) for name, fold in jobs
        )
        found = {}
        for job, answer in zip(jobs, answers, strict=True):
            found[job] = answer
            self._fitted_one(len(found) / len(jobs))
        failed = {name: found[name, -1].error for name in grid if found[name, -1].error}
        if len(failed) == len(grid):
            raise ValueError(f"no candidate could be fitted: {next(iter(failed.values()))}")
        self.estimators_ = {name: found[name, -1].estimator for name in grid if name not in failed}
        self.note_records_ = [Note("left-out", {"candidate": name, "error": error}) for name, error in failed.items()]
        for name in self.estimators_:
            broken = [found[name, fold].error for fold in range(len(folds)) if found[name, fold].error]
            if broken:
                values = {"candidate": name, "failed": len(broken), "folds": len(folds), "error": broken[0]}
                self.note_records_.append(Note("failed-folds", values))
        held = {name: held_out(found, name, folds, len(z), len(self.classes_)) for name in self.estimators_}
        self._weigh(X, z, weight, held, folds)
        if self.notes_:
            warnings.warn(" ".join(self.notes_), UserWarning, stacklevel=2)
        seconds = [sum(found[name, fold].seconds for fold in range(-1, len(folds))) for name in self.estimators_]
        self.results_["seconds"] = np.array(seconds)
        self.transduction_ = self.classes_[z]
        if (z < 0).any():
            self.transduction_[z < 0] = self.classes_[self._average("predict_proba", X[z < 0]).argmax(axis=1)]
        return self

    @property
    def notes_(self) -> list[str]:
        """What should be known of the choice, in words."""
        if "note_records_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'notes_'")
        return [sentence(note, self.classes_, self._names()) for note in self.note_records_]

    def _fitted_one(self, share: float) -> None:
        """Hear that this share of the fits is done; for those who show progress."""

    def _grid(self, X: NDArray[Any]) -> dict[str, Pipeline]:
        grid = self.estimators
        if grid is None:
            grid = default_candidates(len(self.classes_), *X.shape)
        if not grid:
            raise ValueError("estimators is empty: name at least one candidate.")
        pipelines = {}
        for name, estimator in grid.items():
            own = clone(estimator)
            if isinstance(own, Pipeline):
                pipelines[name] = own
                continue
            features = own.get_params().get("mechanism_features")
            if features:
                own.set_params(mechanism_features=feature_columns(features, self._names()))
            pipelines[name] = make_pipeline(StandardScaler(), own)
        return pipelines

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _folds(self, X: NDArray[Any], z: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Labelled test rows of each fold; none where a class has a single labelled row."""
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
        """Weights, table and verdict from the probabilities of held-out rows."""
        names = list(self.estimators_)
        models = np.array([models_missingness(self.estimators_[name]) for name in names])
        counts = np.ones(len(z)) if weight is None else weight
        self.missing_proba_ = self._missing_rate(X, z, counts)
        self.results_ = {"candidate": np.array(names), "mechanism": models}
        if folds:
            weights = self._compared(X, z, counts, held, np.concatenate(folds))
        else:
            self.note_records_.append(Note("single-label"))
            weights = np.full(len(names), 1.0 / len(names))
            self.score_ = self.comparison_ = self.held_out_proba_ = self.reference_proba_ = None
            self.verdict_ = self.notes_[-1]
        self.weights_ = dict(zip(names, weights.tolist(), strict=True))
        self.results_["weight"] = weights

    def _compared(
        self,
        X: NDArray[Any],
        z: NDArray[Any],
        counts: Array,
        held: dict[str, Array],
        tested: NDArray[np.intp],
    ) -> Array:
        """The weights; scores and the comparison on the tested rows, which others without label or test stand beside."""
        if len(np.unique(tested)) < len(tested):
            raise ValueError("cv tests a row twice: its test parts must not overlap.")
        models = self.results_["mechanism"]
        q = 1.0 - (1.0 - self.missing_proba_) * len(tested) / np.sum(z >= 0)  # that a row is not tested
        z = np.where(np.isin(np.arange(len(z)), tested), z, -1)
        proba = np.array([self._known(name, held[name], X, z) for name in self.estimators_])
        average = self._stacked(z, q, counts, proba)
        tau = self.reference_proba_ = np.einsum("c,cnk->nk", average, proba)
        indicator = (z[:, None] == np.arange(tau.shape[1])).astype(float)
        r = counts[:, None] * pseudo_labels(indicator, q, tau)[0]

        def losses(p: Array) -> Array:
            return -np.asarray((r * np.log(np.maximum(p, TINY))).sum(axis=1))

        each = np.array([losses(own) for own in proba])
        weights = np.eye(len(proba))[each.sum(axis=1).argmin()] if self.method == "pick" else average
        scores = [self._scores_of(z, own, q, tau) for own in proba]
        self.results_ |= {key: np.array([row[key] for row in scores]) for key in scores[0]}
        pool = self.held_out_proba_ = np.einsum("c,cnk->nk", weights, proba)
        self.score_ = self._log_loss(z, pool, q, tau)
        if models.all() or not models.any():
            self.comparison_ = None
            which = "every" if models.all() else "no"
            self.verdict_ = f"Nothing to compare: {which} candidate models the missingness."
            return weights
        if self.method == "pick":
            with_it, without = (part[part.sum(axis=1).argmin()] for part in (each[models], each[~models]))
        else:
            ignoring = self._stacked(z, q, counts, proba[~models])
            with_it, without = losses(pool), losses(np.einsum("c,cnk->nk", ignoring, proba[~models]))
        self.comparison_ = Gain.of(with_it, without, r.sum(axis=1))
        self.verdict_ = self.comparison_.sentence()
        return weights

    def _known(self, name: str, held: Array, X: NDArray[Any], z: NDArray[Any]) -> Array:
        """Probabilities of all rows that a candidate said without having seen their labels."""
        return np.where((z >= 0)[:, None], held, self.estimators_[name].predict_proba(X))

    def _stacked(self, z: NDArray[Any], q: Array, counts: Array, proba: Array) -> Array:
        """Weights of candidates under which their average predicts the labels of the tested rows best."""
        at = np.flatnonzero(z >= 0)
        return stack(proba[:, at, z[at]], inverse_weights(q[at], len(z))[0], counts[at])

    def _missing_rate(self, X: NDArray[Any], z: NDArray[Any], counts: Array) -> Array:
        """q of every row: the mean of what the candidates with a mechanism say, the overall rate where there is none."""
        known = [est for est in self.estimators_.values() if knows_missingness(est)]
        if not known or not (z < 0).any():
            return np.full(len(z), min(float(counts @ (z < 0) / counts.sum()), Q_MAX))
        return np.minimum(np.mean([est[-1].missing_proba(est[:-1].transform(X)) for est in known], axis=0), Q_MAX)

    def _log_loss(self, z: NDArray[Any], proba: Array, q: Array, tau: Array) -> evaluation.Score:
        return evaluation.log_loss(z, np.maximum(proba, TINY), q, classes=np.arange(len(self.classes_)), posterior=tau)

    def _scores_of(self, z: NDArray[Any], proba: Array, q: Array, tau: Array) -> dict[str, float]:
        about: dict[str, Any] = {"classes": np.arange(len(self.classes_)), "posterior": tau}
        loss = self._log_loss(z, proba, q, tau)
        return {
            "log_loss": loss.value,
            "log_loss_stderr": loss.stderr,
            "plain_log_loss": loss.plain,
            "brier": evaluation.brier(z, proba, q, **about).value,
            "accuracy": evaluation.accuracy(z, proba, q, **about).value,
            "roc_auc": evaluation.roc_auc(z, proba, q, **about).value,
        }

    def _checked(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        (X,) = to_host_or_refuse("MARClassifierCV", open_array(X))
        refuse_sparse(X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=False)
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
        """The weighted average of the candidates' posteriors, (n, K)."""
        return self._average("predict_proba", self._checked(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def missing_proba(self, X: Any) -> Array:
        """The probability that the label of each row is missing, averaged over the candidates that model it, (n,)."""
        check_is_fitted(self)
        if not any(knows_missingness(self.estimators_[name]) for name, weight in self.weights_.items() if weight > 0):
            raise ValueError("no candidate of positive weight models the missingness.")
        return self._average("missing_proba", self._checked(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows whose label is known; it flatters, see `score_` for a fairer one."""
        return score_labelled(self, X, y, sample_weight)

    def to_sklearn(self) -> Pipeline:
        """The pipeline of scikit-learn's own classifiers that gives the same class probabilities, fitted.

        Only where one candidate has all the weight, as with method="pick"; see `MARGaussianMixture.to_sklearn`.
        """
        return to_sklearn(self)
