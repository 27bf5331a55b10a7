"""`MARKernelClassifier`: kernel logistic regression, for class boundaries of any form."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product
from numbers import Real
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from marmix.core.arrays import Array, Ints, quiet
from marmix.core.frames import NO_COVARIATES, Frame, KernelFrame, squared_distances
from marmix.core.likelihood import Block
from marmix.core.linear import KernelScores
from marmix.core.measures import MeasureLike, log_tau, posterior
from marmix.core.mechanism import Mechanism
from marmix.core.notes import Note
from marmix.core.workers import one_thread
from marmix.engines import NumpyEngine
from marmix.estimators.base import FromModel, MARClassifier, NotKept, Training, chosen_settings
from marmix.estimators.validation import Rule, check_chosen, check_parameters
from marmix.fitting import Fit, Objective, lbfgs, starts
from marmix.fitting.restarts import Search, fit_logistic, silent
from marmix.selection.held_out import MOST_ROWS, WEIGHTS, Folds, Sample, Trials

# Grids of the choice: gamma in units of one over the median squared distance, and C.
_GAMMAS, _CS = (0.3, 1.0, 3.0), (1.0, 10.0, 100.0)
# Factor by which C goes beyond its grid, once, if the best is at its end.
_BEYOND = 10.0
# Tolerance of fits from which a setting is chosen or a fit starts; most iterations of those to labels alone, and of others. A
# fit that needs more explains the missing indicators by ever larger slopes, and is left out, as are larger weights.
_TOL, _MOST_LABELS, _MOST = 1e-5, 100, 60
# Factor of the tolerance of the fit to all rows if it starts from a fit to the same rows.
_NEAR_TOL = 1e-3


@dataclass(kw_only=True, eq=False, repr=False)
class MARKernelClassifier(MARClassifier):
    r"""Kernel logistic regression for partially labelled data whose labels are missing for a reason.

    The log-odds of the classes are smooth functions of the features, so that class boundaries may have any form:

    .. math::

        P(y = k \mid x) \propto e^{f_k(x)}, \quad f_k(x) = b_k + \sum_i c_{ki} e^{-\gamma |x - x_i|^2}, \qquad
        q = \frac{1}{1 + e^{-\eta}}, \quad \eta = \alpha_0 + \alpha_1 u(x)

    Otherwise this is `MARLogisticRegression`: q is the probability that the label of a row is missing, u(x) the entropy of
    ``P(y | x)``, and each row contributes the likelihood of its label being given or missing, with weight `mechanism_weight`.

    Features are standardised, so that their units do not matter. The kernels are centred at `n_landmarks` training rows
    (Nystroem's method), and the squared norm of the functions is the penalty. What is
    "auto" is chosen on rows that are held out whole, by the likelihood of their labels and of their labels being missing; of
    more than 5000 rows, on a sample of these. Then all rows are fitted.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Inverse strength of the penalty :math:`|f|^2 / (2 C)`. "auto" tries 1, 10 and 100, and 0.1 or 1000 if the best of them is
        at an end.
    gamma : float or "auto", default="auto"
        The kernel's inverse squared width, for standardised features. "auto" tries 0.3, 1 and 3 times the inverse of the median
        squared distance between landmarks.
    n_landmarks : int, default=200
        Number of training rows, drawn at random, at which the kernels are centred; at most all distinct rows. Memory grows with
        this number times the number of rows.
    link : {"logit", "aranda-ordaz", "cloglog"} or None, default="logit"
        How q depends on eta; see `MARGaussianMixture`. None ignores the mechanism.
    shape : float or None, default=None
        Fixed shape >= 0 of the Aranda-Ordaz link: 0 is cloglog, 1 is logit. None estimates it.
    measure : str or callable, default="entropy"
        The measure u, such as "entropy" or "margin"; see `MARGaussianMixture`.
    mcar_share : bool, default=False
        Whether to estimate a share of labels missing completely at random.
    mechanism_weight : float or "auto", default="auto"
        Weight of the missingness in the likelihood of the functions, from 0 to 1. With 0 they are fitted to the labelled rows,
        and the mechanism afterwards. "auto" tries 0, 0.1, 0.3 and 1: functions that can bend may also bend to a mechanism that is
        only roughly right. Where fits to the folds do not settle with the given weight, a smaller one is used.
    mechanism_features : list of column names or indices, or None, default=None
        Features that enter eta besides u, each with a slope in `alpha_`.
    classes : array-like or None, default=None
        The classes, in the order of `classes_`; by default the sorted labels in y.
    cv : int, list of arrays of test rows, splitter or None, default=5
        Folds of the rows, labelled and unlabelled. None if nothing is "auto" and `held_out_proba_` is not needed.
    warm_start : bool, default=False
        Start from the previous fit of this estimator, with its landmarks and chosen settings; no rows are held out.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-8
        Stop when the expected further increase of the objective per row is below this.
    random_state : int, RandomState instance or None, default=0
        For landmarks and folds.
    verbose : int, default=0
        1 reports the choice and the fit.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    C_, gamma_, mechanism_weight_ : float
        The values of the fit.
    landmarks_ : array of shape (m, d)
        Centres of the kernels, in the units of X.
    intercept_, dual_coef_ : arrays of shape (1,) and (1, m) for two classes, else (K,) and (K, m)
        Constants, and coefficients of the kernels in the log-odds of the second class, or in the scores of the classes.
    held_out_proba_ : array of shape (n, K)
        Class probabilities of the training rows, each from a fit that was chosen like this one but did not see the row. For rows
        that no fold tests, from the fit itself. Kept for rows in memory only.
    alpha_ : array of shape (2 + len(mechanism_features),) or None
        Intercept and slopes of the mechanism; None if link=None.
    shape_, share_ : float or None
        Aranda-Ordaz shape and MCAR share.
    mechanism_ : Mechanism or None
        The fitted mechanism.
    transduction_ : array of shape (n,)
        Labels of the training rows, the missing ones imputed.
    loglik_, loglik_ignorable_, loglik_missing_ : float
        The log-likelihood given the features, without the penalty, and its two parts: labels and missingness.
    converged_ : bool
        Whether the fit converged.
    n_iter_, n_passes_ : int
        Iterations, and passes over the data, of the last fit.
    trace_ : array
        The objective after each iteration: the log-likelihood, its missingness part times `mechanism_weight_`, minus the penalty.
    model_ : FittedModel
        The fitted model as one immutable value, from which the other attributes are read.
    notes_ : list of str
        Warnings of the fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if X had names.
    preparation_ : Preparation or None
        What makes features of the columns of a frame; None if X was numbers.

    See Also
    --------
    MARLogisticRegression : linear log-odds, whose coefficients have a meaning.
    MARBoostingClassifier : boundaries of any form, for many rows, missing values and categories.
    MARClassifierCV : the average of these and other candidates, weighted by held-out rows.

    Examples
    --------
    The settings are given here, as it takes longer to choose them.

    >>> import numpy as np
    >>> from marmix import MARKernelClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> distance = np.sum(X**2, axis=1) - 1.4
    >>> y = (rng.uniform(size=500) < 1 / (1 + np.exp(-4 * distance))).astype(int)
    >>> y_partial = np.where(rng.uniform(size=500) < np.exp(-(distance**2)), -1, y)
    >>> clf = MARKernelClassifier(C=10.0, gamma=0.3, mechanism_weight=0.3, cv=None)
    >>> clf = clf.fit(X, y_partial)
    >>> clf.predict([[0.0, 0.0], [2.0, 0.0], [0.0, -2.0]])
    array([0, 1, 1])
    """

    _only_squares = True
    C_ = FromModel("score_model.C")
    gamma_ = FromModel("frame.gamma")
    landmarks_ = FromModel("frame.landmarks")
    intercept_ = FromModel()
    dual_coef_ = FromModel()
    held_out_proba_ = NotKept(
        "it is not saved with the model, and not computed with cv=None, with a warm start, or for rows that are not in memory.",
    )

    C: float | str = "auto"
    gamma: float | str = "auto"
    n_landmarks: int = 200
    link: str | None = "logit"
    shape: float | None = None
    measure: MeasureLike = "entropy"
    mcar_share: bool = False
    mechanism_weight: float | str = "auto"
    mechanism_features: Sequence[Any] | None = None
    classes: ArrayLike | None = None
    cv: Any = 5
    warm_start: bool = False
    max_iter: int = 1000
    tol: float = 1e-8
    random_state: Any = 0
    verbose: int = 0

    def _check_parameters(self) -> None:
        check_parameters(self.get_params(), {"C": Rule(Real, lambda v: v > 0, "'auto' or a positive number", "auto")})
        check_chosen(self.get_params(), "C", "gamma", "mechanism_weight")

    def _fit(self, training: Training) -> None:
        rng = check_random_state(self.random_state)
        mechanism, fits, folds = self._mechanism(training), None, Folds([], None)
        if self.warm_start and hasattr(self, "model_"):
            frame, setting, values = self._previous_fit(training)
        else:
            fits, folds = self._fits(training, mechanism, rng)
            setting = self._chosen(fits)
            reached, start = fits.start(setting)
            if folds.tests or self.mechanism_weight == "auto":
                setting = setting._replace(weight=reached)
            scale, mean = training.scale, training.mean
            root = fits.frame(setting.gamma).root  # one from landmarks in the user's axes may differ in rank: rounding
            frame = KernelFrame(mean, scale, fits.landmarks * scale + mean, setting.gamma, root)
            values = {"coefficients": start.theta}
            if start.mechanism is not None:
                values |= {name: getattr(start.mechanism, name) for name in ("alpha", "shape", "share")}
        model = KernelScores(frame.size, len(training.rows.classes), setting.C)
        objective = training.objective(frame, model, setting.weight)
        # a start this near gains little from the first step on, which would be taken for convergence
        tol = _NEAR_TOL * self.tol if objective.engine.n_rows <= MOST_ROWS else self.tol
        search = Search(
            rng, values, max_iter=self.max_iter, tol=tol, say=print if self.verbose else silent, exact=False
        )

        fit = fit_logistic(objective, mechanism, search)
        held_out, notes = None, list[Note]()
        if fits is not None and fits.sample.missing.any() and setting.weight != self.mechanism_weight != "auto":
            notes.append(Note("lower-weight", {"given": float(self.mechanism_weight), "weight": setting.weight}))
        if fits is not None and folds.by_row is not None:
            thetas = {k: fits.coefficients(setting, k) for k in range(len(folds.tests))} | {-1: fit.theta}
            held_out = _held_out(objective, training, thetas, folds.by_row)
        self._finish(fit, objective, training, notes, held_out)

    def _previous_fit(self, training: Training) -> tuple[KernelFrame, "_Setting", dict[str, Any]]:
        """Axes, settings and starting values of the previous fit."""
        model, frame = self.model_, cast(KernelFrame, self.model_.frame)
        params = self.get_params() | chosen_settings(self)
        setting = _Setting(*(float(params[name]) for name in ("gamma", "C", "mechanism_weight")))
        same = model.n_features == len(training.names) and np.array_equal(model.classes, training.rows.classes)
        if not same or setting.gamma != frame.gamma:
            raise ValueError("warm_start=True: classes, features and gamma must be those of the previous fit.")
        values = self._starting_values(training, self._previous_mechanism())
        return frame, setting, {"coefficients": model.theta} | values

    def _fits(
        self, training: Training, mechanism: Mechanism | None, rng: np.random.RandomState
    ) -> tuple["_Fits", Folds]:
        """A sample with landmarks and folds, on which settings are chosen."""
        sample = training.sample
        distinct = np.unique(sample.x.T, axis=0)  # so that neither the order of the rows nor weights matter
        landmarks = distinct[rng.permutation(len(distinct))[: self.n_landmarks]]
        folds = Folds([], None) if self.cv is None else sample.folds(training.rows, self.cv, rng)
        return _Fits(sample, landmarks, len(training.rows.classes), mechanism, folds.tests), folds

    def _chosen(self, fits: "_Fits") -> "_Setting":
        """The setting of the grid that predicts held-out rows best; the next C too is tried if the best is at an end."""
        gammas: Sequence[Any] = [self.gamma]
        if self.gamma == "auto":
            distances = squared_distances(fits.landmarks, fits.landmarks)[np.triu_indices(len(fits.landmarks), 1)]
            median = np.median(distances[distances > 0.0]) if (distances > 0.0).any() else 1.0
            gammas = [factor / median for factor in _GAMMAS]
        Cs: Sequence[Any] = _CS if self.C == "auto" else [self.C]
        weights: Sequence[Any] = [self.mechanism_weight]
        if self.mechanism_weight == "auto":
            weights = [0.0] if fits.mechanism is None else WEIGHTS
        grid = [_Setting(*map(float, setting)) for setting in product(gammas, Cs, weights)]
        if not fits.folds:
            return grid[len(grid) // 2]

        def beyond(best: _Setting) -> list[_Setting]:
            if self.C != "auto" or best.C not in (min(Cs), max(Cs)):
                return []
            C = best.C * _BEYOND if max(Cs) == best.C else best.C / _BEYOND
            return [
                _Setting(best.gamma, C, float(weight)) for weight in (weights if len(weights) > 1 else [best.weight])
            ]

        trials = Trials(fits.sample, fits.folds, fits.predict)
        best, loss = trials.best(grid, beyond)
        while best.weight > 0.0 and not np.isfinite(loss):  # no fit with this weight settled in all folds
            weight = max(step for step in WEIGHTS if step < best.weight)
            best, loss = trials.best([setting._replace(weight=weight) for setting in grid], beyond)
        if self.verbose:
            words = f"gamma {best.gamma:.4g}, C {best.C:g}, weight {best.weight:g}; held-out loss {loss:.4f}"
            print(f"chosen: {words}", file=sys.stderr)
        return best

    def _criteria(self) -> NoReturn:
        raise TypeError(
            "MARKernelClassifier has no information criteria: its penalty leaves fewer parameters free than there are "
            "coefficients. Compare held-out predictions, as MARClassifierCV does."
        )


def _held_out(objective: Objective, training: Training, thetas: dict[int, Array], by_row: Ints) -> Array:
    """Class probabilities of all rows, with the coefficients for the fold of each row."""
    model, frame, shape = objective.model, objective.engine.frame, (len(training.rows.classes),)

    def proba(x: Array, part: Ints) -> Array:
        features, out = frame.enter(x), np.empty((len(x), *shape))
        for k in np.unique(part).tolist():
            out[part == k] = posterior(model.scores(thetas[k], features[:, part == k])).tau.T
        return out

    return training.rows.map(proba, by_row, names=training.names, width=model.values_per_row(), shape=shape)


class _Setting(NamedTuple):
    gamma: float
    C: float
    weight: float  # of the mechanism


@dataclass(eq=False)
class _Fits:
    """Fits of settings to a sample, and to the training parts of its folds."""

    sample: Sample
    landmarks: Array
    n_classes: int
    mechanism: Mechanism | None
    folds: list[NDArray[np.intp]]

    def __post_init__(self) -> None:
        self._thetas: dict[tuple[_Setting, int], Array] = {}  # by setting and fold; absent if the fit did not settle
        # kept for each gamma, and gamma and C
        self.frame, self._features, self._model = cache(self._frame_of), cache(self._features_of), cache(self._model_of)

    def start(self, setting: _Setting) -> tuple[float, Fit]:
        """Fit to the whole sample: the weight that was reached, that of the setting or the largest below that settled."""
        *_, last = self._path(setting, np.arange(len(self.sample.z)), [setting.weight])
        return last

    def coefficients(self, setting: _Setting, fold: int) -> Array:
        """Coefficients of the fit outside a fold, with the setting's weight or the largest below it whose fit settled."""
        weights = [
            s.weight for s, k in self._thetas if k == fold and s[:2] == setting[:2] and s.weight <= setting.weight
        ]
        return self._thetas[setting._replace(weight=max(weights)), fold]

    def predict(self, settings: list[_Setting], fold: int) -> Iterator[tuple[_Setting, Array]]:
        """Settings whose fit to the rows outside a fold settled, with the log-probabilities of the fold."""
        test = self.folds[fold]
        train = np.delete(np.arange(len(self.sample.z)), test)
        for (gamma, C), group in groupby(settings, lambda setting: setting[:2]):
            weights = [setting.weight for setting in group]
            for weight, fit in self._path(_Setting(gamma, C, 0.0), train, weights):
                setting = _Setting(gamma, C, weight)
                self._thetas[setting, fold] = fit.theta
                scores = self._model(gamma, C).scores(fit.theta, self._features(gamma)[0][:, test])
                yield setting, log_tau(posterior(scores)).T

    def _path(self, setting: _Setting, rows: Ints, weights: list[float]) -> Iterator[tuple[float, Fit]]:
        """Fits to these rows with increasing weights of the mechanism, each starting from the one before.

        The first has weight zero. The path goes through all of `WEIGHTS` below the largest of `weights`, and ends before a fit
        that does not settle.
        """
        sample, model = self.sample, self._model(setting.gamma, setting.C)
        z, x = sample.groups[rows], self._features(setting.gamma)[0][:, rows]
        n_groups = self.n_classes * (1 + bool((sample.groups >= self.n_classes).any()))
        cuts = [0, *np.cumsum(np.bincount(z[z >= 0], minlength=n_groups)).tolist()]
        w = None if sample.weight is None else sample.weight[rows]
        v = None if sample.covariates is None else sample.covariates[:, rows]
        frame = Frame(np.zeros(len(x)), np.ones(len(x)))  # the features are the axes

        def fitted(columns: slice, weight: float, theta: Array, mechanism: Mechanism | None, most: int) -> Fit:
            rest = [None if part is None else part[..., columns] for part in (w, v)]
            engine = NumpyEngine.of_block(Block(x[:, columns], cuts, rest[0], rest[1]), frame, NO_COVARIATES)
            objective = Objective(engine, model, weight)
            if mechanism is not None and mechanism is self.mechanism:
                mechanism = starts.mechanism_start(objective, theta, mechanism, {})
            return lbfgs(objective, theta, mechanism, max_iter=most, tol=_TOL)

        with one_thread(), quiet():
            origin = np.zeros((model.vectors, model.n_features()))
            fit = fitted(slice(cuts[-1]), 0.0, origin, None, _MOST_LABELS)
            yield 0.0, fit
            mechanism = self.mechanism
            for weight in sorted({*(step for step in WEIGHTS if step < max(weights)), *weights} - {0.0}):
                if mechanism is None or not sample.missing[rows].any():
                    return
                fit = fitted(slice(None), weight, fit.theta, mechanism, _MOST)
                if not fit.converged:
                    return
                mechanism = fit.mechanism
                yield weight, fit

    def _frame_of(self, gamma: float) -> KernelFrame:
        d = len(self.sample.x)
        return KernelFrame(np.zeros(d), np.ones(d), self.landmarks, gamma)

    def _features_of(self, gamma: float) -> tuple[Array, Array]:
        """Features (p, m) of the sample, and the mean of ``phi phi'`` with phi = [1, features]."""
        features = self.frame(gamma).enter(self.sample.x.T)
        phi = np.vstack([np.ones(features.shape[1]), features])
        return features, phi @ phi.T / phi.shape[1]

    def _model_of(self, gamma: float, C: float) -> KernelScores:
        features, products = self._features(gamma)
        model = KernelScores(len(features), self.n_classes, C)
        labelled = self.sample.z >= 0
        total = labelled.sum() if self.sample.weight is None else self.sample.weight[labelled].sum()
        model.calibrate(products, float(total))
        return model
