"""`MARBoostingClassifier`: gradient-boosted trees for labels that are missing for a reason."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from marmix.core.arrays import AnyArray, Array, Ints, on_cluster, on_device
from marmix.core.files import open_array, release
from marmix.core.frames import UserAxes
from marmix.core.labels import label_shares, most_voted
from marmix.core.measures import MeasureLike, entropy, log_tau, posterior
from marmix.core.mechanism import Mechanism
from marmix.core.moments import GroupMoments, group_moments, merged
from marmix.core.notes import Note
from marmix.core.trees import Trees, TreeScores, no_trees, trees_of
from marmix.core.workers import available
from marmix.engines import HostRows, Rows
from marmix.engines.rows import slices
from marmix.estimators.base import OTHER_ROWS, FromModel, MARClassifier, NotKept, Training
from marmix.estimators.validation import Rule, check_chosen, feature_columns
from marmix.inference.sensitivity import Draw, calibration_draws
from marmix.objectives import LARGEST_STEP, LossRows, MissingnessObjective, losses, profiled
from marmix.selection.evidence import Evidence, linear_predictor
from marmix.selection.held_out import folds_of_copies, whole_row_folds

WEIGHTS = (0.0, 0.03, 0.1, 0.3)  # among which mechanism_weight="auto" chooses
USUAL_ROUNDS, USUAL_WEIGHT = 5.0, 0.03  # where nothing can be chosen; the first times the learning rate
_LOOK_EVERY = 5  # rounds between looks at the held-out rows
_PATIENCE = 2.0  # rounds without improvement, times the learning rate, after which no further rounds are tried
_IMPROVED = 5e-3  # share of the held-out loss by which it must fall to be an improvement
_MOST_CV_ROWS = 100_000  # rows among which rounds and weight are chosen
_FEW_ROWS = 20_000  # below which one thread is fastest
_MOMENT_ROWS = 2**15
_MOST_CODE = 65_535  # of a category
UNSPREAD = "The intervals of boosted trees include {}."


@dataclass(kw_only=True, eq=False, repr=False)
class MARBoostingClassifier(MARClassifier):
    r"""Gradient-boosted trees for partially labelled data whose labels are missing for a reason.

    Trees are grown by LightGBM (``pip install 'marmix[boost]'``) on the loss

    .. math::

        - \sum_{\text{labelled}} \log P(y \mid x) - w \sum_{\text{all}} \left[ m \log q + (1 - m) \log (1 - q) \right],
        \qquad q = \frac{1}{1 + e^{-\eta}}, \quad \eta = \alpha_0 + \alpha_1 u(x),

    where m says whether the label of a row is missing, q is the probability of that, w is `mechanism_weight`, and u(x) is the
    entropy of ``P(y | x)``. Rows without a label thus say where the classes are hard to tell apart, and boundaries of any
    form can use it. Missing values in X and categorical columns need no preparation. With ``mechanism_weight=0`` this is
    LightGBM on the labelled rows.

    Parameters
    ----------
    link : {"logit", "aranda-ordaz", "cloglog"} or None, default="logit"
        How q depends on eta; see `MARGaussianMixture`. None ignores the mechanism.
    shape : float or None, default=None
        Fixed shape >= 0 of the Aranda-Ordaz link; None estimates it.
    measure : str or callable, default="entropy"
        The measure u, such as "entropy" or "margin"; see `MARGaussianMixture`.
    mcar_share : bool, default=False
        Whether to estimate a share of labels missing completely at random.
    mechanism_weight : "auto" or float, default="auto"
        Weight of the missingness in the loss, from 0 to 1. "auto" searches among 0, 0.03, 0.1 and 0.3 on held-out rows: trees
        need a small weight, as they could fit the missing indicators of any number of rows.
    mechanism_features : list of column names or indices, or None, default=None
        Features without missing values that enter eta besides u, each with a slope in `alpha_`.
    classes : array-like or None, default=None
        The classes, in the order of `classes_`; by default the sorted labels in y.
    n_estimators : "auto" or int, default="auto"
        Number of rounds. "auto" chooses it on held-out rows.
    max_estimators : int, default=500
        The most rounds that "auto" tries.
    learning_rate : float, default=0.2
        Factor of each tree's contribution.
    num_leaves : int, default=4
        Most leaves of a tree.
    min_child_samples : int, default=5
        Fewest rows of a leaf, with or without a label.
    reg_lambda : float, default=1.0
        L2 penalty on the values of leaves.
    subsample, colsample_bytree : float, default=1.0
        Shares of the rows and of the features, drawn at random, that each tree uses.
    colsample_bynode : float, default=0.7
        Share of the features, drawn at random, that each split may use.
    extra_trees : bool, default=True
        Whether a split tries one random threshold per feature instead of all. Trees then follow single rows less: with few labels
        this predicted better on most data sets tried, with and without the mechanism. Draws depend on the order of classes.
    categorical_features : "from_dtype", list of column names or indices, or None, default="from_dtype"
        Categorical columns: those of a frame that hold categories or text, or those listed. Columns of numbers must hold codes
        0, 1, 2, ...
    cv : int, splitter, list of arrays, or None, default=5
        Folds of whole rows, with and without labels, for the choice of rounds and weight: their number, a scikit-learn splitter,
        or the indices of the rows that each fold holds out. Not used if both are given, unless the folds are listed.
    n_jobs : int or None, default=None
        Number of threads. The result does not depend on it.
    random_state : int, RandomState instance or None, default=0
        For folds and draws of rows, features and thresholds.
    verbose : int, default=0
        1 reports the choice of rounds and weight.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    n_estimators_ : int
        Number of rounds.
    mechanism_weight_ : float
        The weight used.
    held_out_proba_ : array of shape (n, K)
        Cross-validated class probabilities of the training rows with this weight and number of rounds; NaN for rows that no
        fold held out. Not saved with the model.
    feature_importances_ : array of shape (n_features_in_,)
        Total gain of the splits on each feature.
    alpha_ : array of shape (2 + len(mechanism_features),) or None
        Intercept and slopes of the mechanism; None if link=None.
    shape_, share_ : float or None
        Aranda-Ordaz shape and MCAR share.
    mechanism_ : Mechanism or None
        The fitted mechanism.
    transduction_ : array of shape (n,)
        Labels of the training rows, the missing ones imputed.
    loglik_, loglik_ignorable_, loglik_missing_ : float
        The log-likelihood of the training rows given the features, and its two parts: labels and missingness.
    trace_ : array
        Minus the held-out loss, every five rounds; the last value for the training rows if nothing was chosen.
    converged_ : bool
        Always True; `n_iter_` and `n_passes_` are the number of rounds.
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
    marmix.objectives.MissingnessObjective : the same loss for LightGBM and XGBoost models of your own.
    MARKernelClassifier : boundaries of any form, with few rows.
    MARClassifierCV : the average of these and other candidates, weighted by held-out rows.

    Notes
    -----
    Features are binned once, so memory holds a byte for each value of X, beside one or two scores for each row and class. Rows in
    a `.npy` file are binned in blocks and never in memory as a whole. Beyond 100,000 rows, rounds and weight are chosen on a
    sample of that size.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = (rng.uniform(size=500) < 1 / (1 + np.exp(-3 * X[:, 0] * X[:, 1]))).astype(int)
    >>> hard = rng.uniform(size=500) < np.exp(-((X[:, 0] * X[:, 1]) ** 2))
    >>> y_partial = np.where(hard, -1, y)
    >>> clf = MARBoostingClassifier(mechanism_weight=0.03, n_estimators=50)
    >>> clf = clf.fit(X, y_partial)
    >>> clf.score(X, y) > 0.7
    True
    """

    _encodes = False
    n_estimators_ = FromModel(lambda model: len(model.theta.roots) // len(model.theta.baseline))
    feature_importances_ = FromModel()
    held_out_proba_ = NotKept(
        "it is not saved with the model, and not computed if n_estimators and mechanism_weight are given and cv is a number.",
    )

    link: str | None = "logit"
    shape: float | None = None
    measure: MeasureLike = "entropy"
    mcar_share: bool = False
    mechanism_weight: float | str = "auto"
    mechanism_features: Sequence[Any] | None = None
    classes: ArrayLike | None = None
    n_estimators: int | str = "auto"
    max_estimators: int = 500
    learning_rate: float = 0.2
    num_leaves: int = 4
    min_child_samples: int = 5
    reg_lambda: float = 1.0
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    colsample_bynode: float = 0.7
    extra_trees: bool = True
    categorical_features: Any = "from_dtype"
    cv: Any = 5
    n_jobs: int | None = None
    random_state: Any = 0
    verbose: int = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # Fitting

    def _check_parameters(self) -> None:
        _lightgbm()
        super()._check_parameters()
        check_chosen(self.get_params(), "n_estimators", "mechanism_weight")
        if self.n_jobs is not None:
            Rule(Integral, lambda v: v != 0, "None or a whole number other than 0").check("n_jobs", self.n_jobs)

    def _fit(self, training: Training) -> None:
        growth = self._growth(_lightgbm(), training)
        choice = self._choice(growth, training)
        trees, scores = growth.grown(choice.weight, choice.rounds)
        mechanism = profiled(growth.mechanism, scores, growth.rows)
        sums, unlabelled = losses(scores, growth.rows, mechanism), growth.rows.z < 0
        held_out = None
        if choice.held_out is not None:
            rows = cast(HostRows, training.rows)
            held_out = np.full((len(rows.X), growth.n_classes), np.nan)
            held_out[slice(None) if rows.kept is None else rows.kept] = np.exp(log_tau(posterior(choice.held_out))).T
        self._hold(
            training,
            mechanism,
            choice.notes,
            held_out,
            score_model=TreeScores(len(training.names), growth.n_classes),
            theta=trees,
            frame=UserAxes(training.mean),
            tempering=float(choice.weight),
            loglik_ignorable=-sums.labels,
            loglik_missing=-sums.missing,
            trace=np.array(choice.trace or [-sums.labels - choice.weight * sums.missing]),
            converged=True,
            n_iter=choice.rounds,
            n_passes=choice.rounds,
            entropy=float(entropy(posterior(scores[:, unlabelled])).value @ growth.rows.counts[unlabelled]),
        )

    def _read(self, X: Any, checked: Any, reset: bool = False) -> Rows:
        """Rows with codes in place of categories, and possibly with missing values."""
        X = open_array(X)
        if reset and (on_device(X) or on_cluster(X)):
            where = "on a cluster" if on_cluster(X) else "on a device"
            raise TypeError(
                f"MARBoostingClassifier grows its trees on the CPU of one machine, and X is {where}: pass a NumPy array, or "
                "write the rows to a .npy file and pass its path. Predictions work wherever the rows are."
            )
        rows: Any = super()._read(X, checked, reset)
        rows.allow_nan, rows.most_sorted = True, sys.maxsize
        return cast(Rows, rows)

    def _check_rows(self, rows: Rows, names: list[str]) -> None:
        """Set moments in which a missing value is the mean of the others."""
        assert isinstance(rows, HostRows)
        rows.moments = _moments(rows, names)

    def _posterior_draws(self, training: tuple[Any, ...], proba: Array) -> tuple[Draw | None, list[str]]:
        if not self.fitted_to(*training[:3]):
            return None, [OTHER_ROWS]
        if "held_out_proba_" not in vars(self):
            return None, [UNSPREAD.format("nothing of the uncertainty of the trees, only the draw of labels")]
        z = most_voted(label_shares(training[1], self.classes_))
        tested = (z >= 0) & ~np.isnan(self.held_out_proba_[:, 0])
        words = "the calibration of the held-out probabilities, but not how trees grown on other rows would differ"
        return calibration_draws(self.held_out_proba_[tested], z[tested], proba), [UNSPREAD.format(words)]

    def _criteria(self) -> Any:
        check_is_fitted(self)
        return self.model_.score_model.chart(self.model_.theta)  # says why there are none

    def _growth(self, lightgbm: Any, training: Training) -> "Growth":
        """What all boosters of this fit share."""
        rows = training.rows
        assert isinstance(rows, HostRows)
        listed, categorical = self.categorical_features, list[int]()
        if isinstance(listed, str) and listed != "from_dtype":
            raise ValueError(
                f"categorical_features={listed!r} must be 'from_dtype', None, or a list of column names or indices."
            )
        if isinstance(listed, str) and training.preparation is not None:
            categorical = np.flatnonzero(training.preparation.levels()).tolist()
        elif listed is not None and not isinstance(listed, str):
            categorical = feature_columns(list(listed), training.names, "categorical_features")
        _check_codes(rows.counted, categorical, training.names)
        n = len(rows.counted)
        threads = int(self.n_jobs) if self.n_jobs is not None and self.n_jobs > 0 else available()
        if self.n_jobs is None and n < _FEW_ROWS:
            threads = 1
        params = {
            "learning_rate": float(self.learning_rate),
            "num_leaves": int(self.num_leaves),
            "min_data_in_leaf": int(self.min_child_samples),
            "min_data_per_group": int(self.min_child_samples),
            "lambda_l2": float(self.reg_lambda),
            "bagging_fraction": float(self.subsample),
            "bagging_freq": int(self.subsample < 1.0),
            "feature_fraction": float(self.colsample_bytree),
            "feature_fraction_bynode": float(self.colsample_bynode),
            "extra_trees": bool(self.extra_trees),
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "boost_from_average": False,
            "metric": "None",
            "deterministic": True,
            "force_col_wise": True,
            "seed": int(check_random_state(self.random_state).randint(2**31 - 1)),
            "num_threads": threads,
            "verbosity": -1,
        }
        return Growth(
            lightgbm=lightgbm,
            params=params,
            X=rows.counted,
            rows=LossRows(
                rows.labels,
                rows.missing,
                None if rows.weight is None else np.asarray(rows.weight, dtype=float),
                _covariates(rows.counted, training),
            ),
            n_classes=len(rows.classes),
            mechanism=self._mechanism(training),
            categorical=categorical,
        )

    def _choice(self, growth: "Growth", training: Training) -> "Choice":
        """Rounds and weight, chosen on held-out rows if they are not given."""
        rows = training.rows
        assert isinstance(rows, HostRows)
        auto = self.n_estimators == "auto"
        weights: tuple[float, ...] = WEIGHTS if self.mechanism_weight == "auto" else (float(self.mechanism_weight),)
        if growth.mechanism is None:
            weights = (0.0,)
        if not auto and len(weights) == 1 and (self.cv is None or isinstance(self.cv, Integral)):
            return Choice(int(self.n_estimators), weights[0])
        if not growth.can_split(growth.full):
            return Choice(1, 0.0)
        notes: list[Note] = []
        labels = np.bincount(growth.rows.z[growth.rows.z >= 0], minlength=growth.n_classes)
        most, fixed = int(self.max_estimators) if auto else int(self.n_estimators), not auto
        if labels.min() < 2 and (auto or len(weights) > 1):
            notes.append(Note("boosting-single-label", {"classes": np.flatnonzero(labels < 2).tolist()}))
            weights = (USUAL_WEIGHT,) if len(weights) > 1 else weights
            most, fixed = min(most, round(USUAL_ROUNDS / self.learning_rate)) if auto else most, True
        folds = self._folds(growth.rows.z, rows)
        against = growth.evidence(folds) if len(weights) > 1 else None

        def tried(weight: float) -> tuple[float, Choice]:
            path = growth.path(folds, weight, most, fixed)
            loss = np.nan if against is None else against(path.held_out)
            if self.verbose:
                words = f"weight {weight:g}: {path.rounds} rounds, held-out loss {loss:.4f}"
                print(f"[MARBoostingClassifier] {words}", file=sys.stderr)
            return loss, path

        path = _smallest(weights, tried)
        rounds = path.rounds
        if not fixed:
            if path.weight > 0.0:  # more rows bear more rounds; labels alone, which are those of easy rows, do not
                trained = len(growth.rows.z) if len(folds) == 1 else sum(map(len, folds))
                rounds = round(rounds / (1.0 - sum(map(len, folds)) / len(folds) / trained))
            if path.rounds == most:
                notes.append(Note("boosting-most-rounds", {"most": most}))
        return path._replace(rounds=rounds, notes=notes)

    def _folds(self, z: Ints, rows: HostRows) -> list[NDArray[np.intp]]:
        """Rows that each fold holds out, as positions among the rows of positive weight."""
        kept = np.arange(len(rows.codes)) if rows.kept is None else rows.kept
        if isinstance(self.cv, Integral):
            return folds_of_copies(z, rows.weight, kept, min(int(self.cv), len(z)), self.random_state, _MOST_CV_ROWS)
        tests = [np.flatnonzero(np.isin(kept, test)) for test in whole_row_folds(rows.codes, self.cv)]
        if not any(map(len, tests)):
            raise ValueError("cv holds no rows out.")
        return [test for test in tests if len(test)]


class Choice(NamedTuple):
    """The number of rounds and the weight of the mechanism, and the evidence for them."""

    rounds: int
    weight: float
    held_out: Array | None = None  # scores (K, n) of held-out rows, NaN for rows in no fold
    trace: Sequence[float] = ()
    notes: Sequence[Note] = ()


def _smallest(weights: tuple[float, ...], tried: Callable[[float], tuple[float, Choice]]) -> Choice:
    """What was tried with the smallest loss, if losses fall and then rise: begin in the middle, then downhill."""
    results: dict[int, tuple[float, Choice]] = {}

    def loss(i: int) -> float:
        if i not in results and 0 <= i < len(weights):
            results[i] = tried(weights[i])
        return results[i][0] if i in results else np.inf

    i = (len(weights) - 1) // 2
    step = 1 if loss(i + 1) < loss(i) else -1
    while loss(i + step) < loss(i):
        i += step
    return results[i][1]


@dataclass(eq=False)
class Growth:
    """Boosters on the rows of one fit, binned once."""

    lightgbm: Any
    params: dict[str, Any]
    X: AnyArray
    rows: LossRows
    n_classes: int
    mechanism: Mechanism | None
    categorical: list[int]

    @property
    def vectors(self) -> int:
        """Number of trees of a round."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def label_rounds(self) -> int:
        """Rounds that use labels only, before the mechanism is estimated."""
        return max(1, round(1.0 / self.params["learning_rate"]))

    def evidence(self, folds: list[NDArray[np.intp]]) -> Callable[[Any], float]:
        """The evidence of the folds against held-out scores (K, n)."""
        tested = np.sort(np.concatenate(folds))
        position = np.full(len(self.rows.z), -1)
        position[tested] = np.arange(len(tested))
        X, rows = np.asarray(self.X[tested], dtype=float), self.rows.take(tested)
        v = linear_predictor(X, rows.missing, rows.weight, [position[fold] for fold in folds])
        evidence = Evidence(rows.z, rows.weight, v, missing=rows.missing)
        return lambda scores: evidence.loss(posterior(scores[:, tested]).tau.T)

    def data(self, rows: Ints | None = None) -> Any:
        """LightGBM's data set of these rows, by default of all."""
        weight = None if rows is None or self.rows.weight is None else self.rows.weight[rows]
        X = self.X if rows is None else self.X[rows]
        label = np.zeros(len(self.X)) if rows is None else self.rows.z[rows]
        options = {"categorical_feature": self.categorical, "params": dict(self.params), "free_raw_data": True}
        return self.lightgbm.Dataset(X, label=label, weight=weight, **options)

    @cached_property
    def full(self) -> Any:
        """All rows, binned once."""
        return self.data().construct()

    def objective(self, rows: Ints | slice, weight: float, rounds: int | None = None) -> MissingnessObjective:
        """The objective of some rows; with a fixed number of rounds at most a third of them use labels only."""
        label_rounds = self.label_rounds if rounds is None else min(self.label_rounds, rounds // 3)
        mechanism = self.mechanism if weight > 0.0 else None
        return MissingnessObjective.of_rows(self.rows.take(rows), self.n_classes, mechanism, weight, label_rounds)

    def run(self, train: Ints, held: Ints, weight: float, rounds: int | None) -> "Run":
        """A booster of these training rows, which also scores held-out rows."""
        if weight == 0.0 and (self.rows.z[train] >= 0).any():
            train = train[self.rows.z[train] >= 0]
        objective = self.objective(train, weight, rounds)
        return Run(self, self.full.subset(train), objective, self.full.subset(held), len(held))

    def path(self, folds: list[NDArray[np.intp]], weight: float, most: int, fixed: bool) -> Choice:
        """Grow all folds side by side, and find the number of rounds with the smallest held-out loss.

        The loss is that of the labels plus `weight` times that of the missing indicators, pooled over the folds. If the number of
        rounds is `fixed`, it is `most`.
        """
        everything = np.concatenate(folds)
        inside = np.zeros(len(self.rows.z), dtype=bool)
        inside[everything] = True
        runs = []
        for fold in folds:
            train = inside.copy() if len(folds) > 1 else np.ones(len(self.rows.z), dtype=bool)
            train[fold] = False
            runs.append(self.run(np.flatnonzero(train), fold, weight, most if fixed else None))
        patience = _PATIENCE / self.params["learning_rate"]
        best, best_rounds, trace = np.inf, 0, list[float]()
        improved, improved_rounds = np.inf, 0
        scores = np.full((self.n_classes, len(self.rows.z)), np.nan)
        for rounds in range(1, most + 1):
            for run in runs:
                run.step()
            idle = all(run.idle for run in runs)
            if not (rounds % _LOOK_EVERY == 0 or rounds == most or idle):
                continue
            if weight > 0.0 and rounds < runs[0].objective.label_rounds + _LOOK_EVERY and rounds < most:
                continue
            held, loss = [run.held_scores() for run in runs], 0.0
            for run, fold, part in zip(runs, folds, held, strict=True):
                sums = losses(part, self.rows.take(fold), run.objective.mechanism)
                loss += sums.labels + weight * sums.missing
            trace.append(-loss)
            if loss < best or fixed:
                best, best_rounds = loss, rounds
                for fold, part in zip(folds, held, strict=True):
                    scores[:, fold] = part
            if loss < (1.0 - _IMPROVED) * improved:
                improved, improved_rounds = loss, rounds
            if (not fixed and rounds - improved_rounds >= patience) or idle:
                break
        return Choice(best_rounds, weight, scores, trace)

    def grown(self, weight: float, rounds: int) -> tuple[Trees, Array]:
        """Trees, and their scores (K, n) of all rows; with weight 0 LightGBM's own fit of the labelled rows.

        Extra trees draw their thresholds from the bins, and are grown on those of all rows, as in the folds.
        """
        labelled = np.flatnonzero(self.rows.z >= 0)
        if (weight > 0.0 or self.params["extra_trees"]) and self.can_split(self.full):
            objective = self.objective(slice(None) if weight > 0.0 else labelled, weight, rounds)
            run = Run(self, self.full if weight > 0.0 else self.full.subset(labelled), objective)
            for _ in range(rounds):
                run.step()
            trees = trees_of(run.booster.dump_model(), objective.baseline)
            return (trees, run.scores()) if weight > 0.0 else self._scored(trees)
        objective = self.objective(labelled, 0.0)
        data = self.data(labelled)
        data.init_score = objective.init_score
        if not self.can_split(data.construct()):
            return self._scored(no_trees(objective.baseline))
        name = "binary" if self.vectors == 1 else "multiclass"
        booster = self.lightgbm.Booster(self.params | {"objective": name, "num_class": self.vectors}, data)
        for _ in range(rounds):
            if booster.update():
                break
        return self._scored(trees_of(booster.dump_model(), objective.baseline))

    def can_split(self, data: Any) -> bool:
        """Whether a feature has two values; LightGBM refuses to grow trees otherwise."""
        return any(data.feature_num_bin(i) > 1 for i in range(self.X.shape[1]))

    def _scored(self, trees: Trees) -> tuple[Trees, Array]:
        return trees, _tree_scores(TreeScores(self.X.shape[1], self.n_classes), trees, self.X)


class Run:
    """A booster with the objective that it minimises, and optionally held-out rows that it scores."""

    def __init__(self, growth: Growth, data: Any, objective: MissingnessObjective, held: Any = None, n_held: int = 0):
        params = growth.params | {"objective": "none", "num_class": growth.vectors}
        if objective.mechanism is not None:
            params["max_delta_step"] = LARGEST_STEP
        self.objective, self._idle_rounds = objective, 0
        data.construct().set_init_score(objective.init_score)
        self.booster = growth.lightgbm.Booster(params, data)
        if held is not None:
            baseline = objective.baseline
            held.construct().set_init_score(
                np.tile(baseline, (n_held, 1)) if len(baseline) > 1 else np.full(n_held, baseline[0])
            )
            self.booster.add_valid(held, "held")

    def step(self) -> None:
        """Grow the trees of one round."""
        self._idle_rounds = self._idle_rounds + 1 if self.booster.update(fobj=self.objective.lightgbm) else 0

    @property
    def idle(self) -> bool:
        """Whether no tree has grown for some rounds, though the mechanism was estimated again."""
        return self._idle_rounds > 2 * _LOOK_EVERY and self.objective.rounds > self.objective.label_rounds + _LOOK_EVERY

    def scores(self) -> Array:
        """Scores (K, n) of the training rows."""
        return self._captured(self.booster.eval_train)

    def held_scores(self) -> Array:
        """Scores (K, n) of the held-out rows."""
        return self._captured(self.booster.eval_valid)

    def _captured(self, evaluate: Callable[..., Any]) -> Array:
        values: list[Array] = []

        def capture(scores: Array, data: Any) -> tuple[str, float, bool]:
            values.append(np.array(scores))
            return "none", 0.0, False

        evaluate(capture)
        return np.vstack([np.zeros_like(values[0]), values[0]]) if values[0].ndim == 1 else values[0].T


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError:
        raise ImportError("MARBoostingClassifier needs LightGBM to grow trees: pip install 'marmix[boost]'.") from None
    except OSError as error:  # one of its libraries is missing
        raise ImportError(
            f"LightGBM is installed but cannot be loaded ({error}). On macOS it needs OpenMP: brew install libomp."
        ) from None
    return lightgbm


def _tree_scores(model: TreeScores, trees: Trees, X: AnyArray) -> Array:
    """Scores (K, n) of rows on the host."""
    out = np.empty((model.n_classes, len(X)))
    for rows in slices(len(X), 2**13):
        out[:, rows] = model.scores(trees, np.ascontiguousarray(np.asarray(X[rows], dtype=float).T))
        release(X[rows])
    return out


def _moments(rows: HostRows, names: list[str]) -> GroupMoments:
    """Moments of each class and of the unlabelled rows, missing values counted as the mean of the others."""
    X, d = rows.counted, rows.counted.shape[1]
    sums, counts = np.zeros(d), np.zeros(d)
    for part in slices(len(X), _MOMENT_ROWS):
        x = np.asarray(X[part], dtype=float)
        if np.isinf(x).any():
            rows.check_values(names)
        sums += np.nansum(x, axis=0)
        counts += np.sum(~np.isnan(x), axis=0)
        release(X[part])
    mean = sums / np.maximum(counts, 1.0)

    def moments(part: slice) -> GroupMoments:
        x = np.array(X[part], dtype=float)
        x = np.where(np.isnan(x), mean, x)
        release(X[part])
        weight = None if rows.weight is None else rows.weight[part]
        return group_moments(x, rows.labels[part], weight, len(rows.classes), only_squares=True)

    return merged(map(moments, slices(len(X), _MOMENT_ROWS)))


def _covariates(X: AnyArray, training: Training) -> Array | None:
    """Covariates (L, n) of the mechanism, None if there are none; they must not be missing."""
    covariates = training.covariates
    if not covariates.columns:
        return None
    values = np.array(X[:, covariates.columns], dtype=float)
    bad = np.flatnonzero(np.isnan(values).any(axis=0))
    if len(bad):
        name = training.names[covariates.columns[int(bad[0])]]
        raise ValueError(
            f"mechanism_features: column {name!r} has missing values; impute them, or leave the column out."
        )
    return covariates.frame.enter(values)


def _check_codes(X: AnyArray, categorical: list[int], names: list[str]) -> None:
    """Raise ValueError if a categorical column holds anything but codes 0, 1, 2, ... and NaN."""
    for i in categorical:
        for part in slices(len(X), _MOMENT_ROWS):
            x = np.asarray(X[part, i], dtype=float)
            x = x[~np.isnan(x)]
            if not ((x >= 0) & (x <= _MOST_CODE) & (x == np.floor(x))).all():
                raise ValueError(
                    f"categorical_features: column {names[i]!r} must hold whole numbers from 0 to {_MOST_CODE}; encode it with "
                    "sklearn.preprocessing.OrdinalEncoder, or use a pandas column of dtype 'category'."
                )
