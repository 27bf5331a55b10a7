"""`MARClassifierCV`: cross-validated averaging of candidate models."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from marmix.core.arrays import Array, to_host_or_refuse
from marmix.core.files import open_array
from marmix.core.labels import has_votes, label_shares, most_voted
from marmix.engines.rows import encoded
from marmix.estimators.base import (
    FromModel,
    MARClassifier,
    columns_of,
    n_columns,
    replace_fit,
    score_labelled,
    sensitivity_of,
)
from marmix.estimators.boosting import MARBoostingClassifier
from marmix.estimators.conversion import to_sklearn
from marmix.estimators.summary import Described
from marmix.evaluation.conformal import conformal_sets
from marmix.evaluation.forests import flexible_missing_proba
from marmix.evaluation.prior import tilted
from marmix.evaluation.scorer import last_and_rows
from marmix.inference.fitted import too_many_parameters
from marmix.inference.sensitivity import Draw, Sensitivity, calibration_draws
from marmix.selection.candidates import knows_missingness
from marmix.selection.comparison import Comparison, compare, digest_of, host_rows
from marmix.selection.progress import progress

_LIGHT = 0.05  # weight of candidates below which a sensitivity analysis takes their parameters as given

TOO_MANY = "Of candidates without parameters, or with too many for the rows, the intervals include {} of the fit's uncertainty."

OTHER_ROWS = (
    "X and y are not the rows of the fit in their order, or the model was loaded from a file, which keeps none of them.\n"
    "Pass the rows of the fit, or fit again."
)


class FromSelection(FromModel):
    """A fitted attribute read from the estimator's `Comparison`."""

    held = "selection_"


class FromRows(FromSelection):
    """One that describes the training rows."""

    reason = (
        "it describes the training rows, and is not saved with the model. Use predict or missing_proba for any rows."
    )


class MARClassifierCV(Described, ClassifierMixin, BaseEstimator):
    r"""Average of candidate classifiers, weighted by the evidence of held-out rows: the recommended start.

    .. math::

        P(y = k \mid x) = \sum_c w_c \, P_c(y = k \mid x), \qquad w_c \ge 0, \quad \sum_c w_c = 1

    Each candidate c predicts rows that were held out whole. Their labels alone are those of easy rows; but whether a label is
    missing is known of every row. The class probabilities of the candidates are averaged with the weights under which the average
    explains both best: the held-out labels, and by its uncertainty the missing indicators. Missingness that a linear function
    of the features, their squares and absolute values explains does not count. Unlabelled rows are scored by posteriors of the
    average, as some hard rows may hardly ever be labelled, and standard errors include how far these may be off.

    Of 40,000 rows or more, the candidates are compared on a sample of 20,000. Those of the largest weights are then fitted to all
    rows; rows outside the sample count as not tested.

    Parameters
    ----------
    estimators : dict or None, default=None
        Candidates by name: `MARGaussianMixture`, `MARStudentMixture`, `MARLogisticRegression`, `MARKernelClassifier`,
        `MARBoostingClassifier`, or a pipeline that ends in one. Another classifier of scikit-learn is fitted to the labelled
        rows. The default is about a dozen, with the mechanism modelled, tempered and ignored; boosting only if LightGBM is
        installed (the extra `boost`), a forest and labels spread over neighbours only for at most 10,000 rows. Features are
        standardised before candidates that are not pipelines. Candidates see the classes as 0, 1, ... in the order of
        `classes_`, and columns by number; `delta`, `n_components` and `mechanism_features` may name them.
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
        Seconds for the whole fit, the weighing included; None for no limit. No fit is started after nine tenths of them, but one
        that runs is finished. Candidates of every kind, with and without the mechanism, come first. Those that were not finished
        are left out, and `notes_` names them. The first candidate is always fitted. A limit that is not reached changes nothing.
    n_jobs : int or None, default=None
        Number of processes for the fits, as in joblib.
    random_state : int, RandomState instance or None, default=0
        For the folds.
    verbose : int, default=0
        1 shows progress and the time left on standard error. By default a fit of more than ten seconds says so once, through the
        logger "marmix".

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
        `stderr` and 95 % `interval`; `comparison_.sentence()` says it, and declines if more than a fifth of the rows have
        practically no chance of a label. For method="pick", the best candidate of each kind. None if all candidates, or none,
        model it.
    rival_comparison_ : Gain or None
        The same for the average and the best rival.
    overlap_ : Overlap or None
        How well labelled rows represent the unlabelled ones: the share `no_chance` of rows with practically no chance of a label,
        and the effective number `n_effective` of labelled rows that stand for the unlabelled ones.
    verdict_ : Verdict or None
        Whether to use the imputed labels of the rows of the fit: how many are wrong, and if what. Without an audit it is "not
        verified" or "do not use". None if no label was missing.
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
        The posteriors of the scores, `reference_proba_`, and how far they may be off. The functions of
        `marmix.evaluation` take it as `posterior`.
    transduction_ : array of shape (n,)
        Labels of the training rows, the missing ones imputed.
    notes_ : list of str
        Warnings of the fit.
    selection_ : Comparison
        The result of the comparison as one immutable value, from which the other attributes are read.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if X had names.
    preparation_ : Preparation or None
        What makes features of the columns of a frame; None if X was numbers.

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
    >>> clf.comparison_.sentence().split(" (")[0]
    'No evidence that modelling the missingness helps here: estimated log-loss 0.197 with it, 0.246 without'
    >>> clf.verdict_.state
    'not verified'
    """

    selection_: Comparison
    n_features_in_: Any = FromSelection(n_columns)
    feature_names_in_: Any = FromSelection(columns_of, optional=True)
    preparation_: Any = FromSelection("preparation")
    classes_: Any = FromSelection("classes")
    estimators_: Any = FromSelection("estimators")
    weights_: Any = FromSelection("weights")
    prior_offset_: Any = FromSelection("prior_offset")
    results_: Any = FromSelection("results")
    score_: Any = FromSelection("score")
    comparison_: Any = FromSelection("comparison")
    rival_comparison_: Any = FromSelection("rival_comparison")
    overlap_: Any = FromSelection("overlap")
    verdict_: Any = FromSelection("verdict")
    notes_: Any = FromSelection("sentences")
    held_out_proba_: Any = FromRows("rows.held_out_proba")
    tested_: Any = FromRows("rows.tested")
    missing_proba_: Any = FromRows("rows.missing_proba")
    reference_proba_: Any = FromRows("rows.reference_proba")
    posterior_: Any = FromRows("rows.posterior")
    transduction_: Any = FromRows("rows.transduction")

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, missing: Any = None) -> "MARClassifierCV":
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
        missing : array-like of bool, shape (n,), or None
            Whether the label of each row was missing when the data came; by default where y is missing. Say True for rows whose
            labels were asked for since: their labels count, and so does that they had been missing.

        Returns
        -------
        self
        """
        with progress(type(self).__name__, self.verbose) as report:
            selection = compare(self, X, y, sample_weight, missing, report)
        notes = [
            text
            for note, text in zip(selection.notes, selection.sentences, strict=True)
            if note.code not in ("prior", "missing-texts", "no-support")
        ]
        if notes:
            warnings.warn(" ".join(notes), UserWarning, stacklevel=2)
        replace_fit(self, {"selection_": selection})
        return self

    def _checked(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        return host_rows(self, X, self.selection_)

    def _average(self, method: str, X: Any) -> Array:
        X = self._checked(X)
        return self.selection_.average(method, X)

    def fitted_to(self, X: Any, y: Any) -> bool:
        """Whether attributes such as `held_out_proba_` describe these rows.

        Parameters
        ----------
        X, y
            Rows as given to `fit`.

        Returns
        -------
        bool
            True for the rows of the fit in the same order. A model that was loaded from a file describes none.
        """
        X, rows = self._checked(X), self.selection_.rows
        if rows is None:
            return False
        (y,) = to_host_or_refuse("fitted_to", open_array(y, "y"))
        z, _, shares = encoded(y, None, self.classes_)
        return rows.digest == digest_of(X, z if shares is None else shares)

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
        return self._average("predict_proba", X)

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
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def _knows_missingness(self) -> bool:
        """Whether a candidate of positive weight models the missingness; True before a fit."""
        weights = self.weights_ if hasattr(self, "selection_") else {}
        return not weights or any(w > 0.0 and knows_missingness(self.estimators_[name]) for name, w in weights.items())

    @available_if(_knows_missingness)
    def missing_proba(self, X: Any) -> Array:
        """Probability that the label of each row is missing, averaged over the candidates with a mechanism, (n,).

        There only if a candidate of positive weight has one.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n,)
            The probabilities, whether or not the label of a row is missing.
        """
        return self._average("missing_proba", X)

    def imputed_sets(self, X: Any, y: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Sets of classes for the training rows that hold the true class of an unlabelled row with a stated probability.

        Conformal sets (`marmix.evaluation.conformal_sets`) from the held-out probabilities, calibrated on the labelled rows and
        weighted by ``q / (1 - q)`` as unlabelled rows are harder. q is estimated by a random forest, so the coverage does not
        depend on the mechanism being right, only on labels being missing at random given the features.

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
        if not self.fitted_to(X, y):
            raise ValueError(OTHER_ROWS)
        X, (y,) = self._checked(X), to_host_or_refuse("imputed_sets", open_array(y, "y"))
        shares, proba = label_shares(y, self.classes_), self.held_out_proba_
        if proba is None:
            raise ValueError("a class has a single labelled row, so no row was held out: sets need at least two.")
        sets, missing = shares > 0.0, np.asarray(~shares.any(axis=1))
        if missing.any():
            q, _ = flexible_missing_proba(X, missing)
            held_out = np.where(self.tested_[:, None], shares, 0.0)
            sets[missing] = conformal_sets(
                held_out, proba, q, proba[missing], q[missing], classes=np.arange(shares.shape[1]), coverage=coverage
            )
        return sets

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: of all rows if some labels are missing, otherwise of the labelled rows; see `MARGaussianMixture.score`.

        For the rows of the fit it is too good, unlike `score_`, the held-out log-loss.

        Parameters
        ----------
        X, y, sample_weight
            As of `MARGaussianMixture.score`.

        Returns
        -------
        float
            Share of the rows that are predicted correctly.
        """
        return score_labelled(self, X, y, sample_weight, getattr(self, "missing_proba", None))

    def sensitivity(
        self,
        X: Any,
        y: Any,
        delta: ArrayLike | None = None,
        label: Any = None,
        *,
        sample_weight: Any = None,
        missing: Any = None,
        **options: Any,
    ) -> Sensitivity:
        """What if labels are missing because of the label itself? A sweep over how strongly.

        The averaged probabilities of the unlabelled rows are tilted by e^delta ("pattern-mixture"). Every draw behind the
        intervals takes one candidate, with its weight as the probability, then its parameters from their estimated distribution
        (of trees, of labels spread over neighbours, and of models with more parameters than rows or very many: their calibration
        on held-out rows; of candidates with a weight below 0.05, as fitted), then the missing labels. So the intervals include
        how far the candidates differ, but not the uncertainty of their weights. On other rows than those of the fit they do not
        include that of the parameters.

        Parameters
        ----------
        X, y, sample_weight, missing
            The rows of the fit.
        delta, label, **options
            As in `MARGaussianMixture.sensitivity`.

        Returns
        -------
        Sensitivity
        """
        return sensitivity_of(self, (X, y, sample_weight, missing), delta, label, **options)

    def unlabelled_proba(self, X: Any) -> Array:
        """Class probabilities of rows whose label is known to be missing, (n, K); see `MARGaussianMixture.unlabelled_proba`."""
        return self._average("unlabelled_proba", X)

    def _posterior_draws(self, training: tuple[Any, ...], proba: Array) -> tuple[Draw, list[str]]:
        """Draws of the posteriors (n, K) of the unlabelled rows, and a list to which they add notes."""
        X, y, sample_weight, missing = training
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
        held_out = self.held_out_proba_ if self.fitted_to(X, y) else None

        def draw(rng: np.random.Generator) -> Array:
            c = int(rng.choice(len(members), p=chances / chances.sum()))
            if c not in draws:
                last, x = last_and_rows(members[c], X)
                of_candidate = (x, labels, sample_weight, missing)
                draws[c], remarks = self._draws_of(last, of_candidate, rows, held_out, bool(light[c]))
                notes.extend(remark for remark in remarks if remark not in notes)
            return tilted(draws[c](rng), offsets.get(names[c]))

        return draw, notes

    def _draws_of(
        self,
        estimator: Any,
        training: tuple[Any, ...],
        rows: NDArray[np.bool_],
        held_out: Array | None,
        fixed: bool,
    ) -> tuple[Draw, list[str]]:
        """Draws of a candidate's posteriors of unlabelled rows, always the same if `fixed`, and notes."""
        X, y, *_ = training
        proba = getattr(estimator, "unlabelled_proba", estimator.predict_proba)(X[rows])
        if fixed:
            return lambda rng: proba, []
        draw: Draw | None = None
        unknown = not isinstance(estimator, MARClassifier)
        if unknown or (_has_too_many_parameters(estimator) and estimator.fitted_to(*training[:3])):
            notes = [TOO_MANY.format("only the calibration" if held_out is not None else "nothing")]
            if held_out is not None:
                z = most_voted(y) if y.ndim == 2 else y
                tested = (z >= 0) & self.tested_
                draw = calibration_draws(held_out[tested], z[tested], proba)
        else:
            try:
                draw, notes = estimator._posterior_draws(training, proba)
            except ValueError as error:
                notes = [f"The intervals do not include the uncertainty of the parameters of one candidate: {error}"]
        return (lambda rng: proba) if draw is None else draw, notes

    def to_sklearn(self) -> Pipeline:
        """An equivalent fitted pipeline of scikit-learn's own estimators; see `MARGaussianMixture.to_sklearn`.

        Only if one candidate has all the weight, as with method="pick".
        """
        return to_sklearn(self)


def _has_too_many_parameters(estimator: Any) -> bool:
    """Whether the parameters of a candidate are too many to draw them; trees have none."""
    has_parameters = isinstance(estimator, MARClassifier) and not isinstance(estimator, MARBoostingClassifier)
    return has_parameters and too_many_parameters(estimator.model_) is not None
