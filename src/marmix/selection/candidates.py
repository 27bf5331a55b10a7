"""Candidates of `MARClassifierCV`: the default grid, the usual classifiers beside it, and their fits."""

import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from marmix.core.arrays import Array
from marmix.core.labels import copies_of
from marmix.core.notes import BoundaryWarning
from marmix.engines import row_order
from marmix.estimators.base import MARClassifier, chosen_settings
from marmix.estimators.boosting import MARBoostingClassifier
from marmix.estimators.companions import Forest, Spreading
from marmix.estimators.kernel import MARKernelClassifier
from marmix.estimators.logistic import MARLogisticRegression
from marmix.estimators.mixture import MARGaussianMixture
from marmix.evaluation.pseudo_labels import checked_proba
from marmix.tables.preparation import Encoder

# Limits for trying a tied or a full covariance: features; rows per feature; labelled rows of a class per feature.
_MOST_TIED, _MOST_FULL, _ROWS, _LABELS = 200, 50, 5, 3

# Weights of the mechanism. In trials on the data of benchmarks/real.py with other seeds, trees followed the missing indicators
# too closely unless their weight was small.
_SMOOTH, _TREES, _SMALL_TREES = 0.3, 0.1, 0.03
# Fewest rows of a leaf of small trees. With 5 the log-loss was .0002 (.0003) lower on 125 splits, and higher where labels are
# missing for a reason.
_LEAF = 20
# C of kernel candidates: with 100 they were overconfident on rows that are never labelled. One more that ignores the missingness
# raised the log-loss by .002 (.001) on 69 splits of benchmarks/real.py from seed 1000, most where labels are missing at random.
# With 10 or 11 classes they got no weight.
_PENALTY, _MOST_CLASSES = 10.0, 6

# Most iterations of a crowded logistic regression with a mechanism, which climbs slowly and predicts no better for it, and of
# mixtures: where the classes are no Gaussians they took a thousand, for no weight in the average.
_MOST_ITERATIONS, _MOST_OF_MIXTURES = 100, 200
# Number of features above which slow candidates are fewer still, and the number of features that a tree then sees.
_MANY_FEATURES, _FEATURES_OF_TREE = 1000, 300
# Most trees of crowded boosting over all its rounds, and fewest rounds.
_MOST_TREES, _FEWEST_ROUNDS = 1500, 100

# Larger trees in place of small ones, if there are that many labels. On 66 splits of benchmarks/real.py from seed 1000 they
# lowered the log-loss by .006 (.003), by up to .13 with many classes, and raised it by .007 at worst; with 50 labels by .07.
_LARGER: dict[str, Any] = {
    "extra_trees": False,
    "num_leaves": 8,
    "min_child_samples": 10,
    "subsample": 0.7,
    "colsample_bynode": 0.5,
}
_FEW_LABELS = 100
# Most rows of candidates that ignore the mechanism and are slow with many rows. On 125 splits of benchmarks/real.py and of
# digits from seed 1000, a forest lowered the log-loss by .009 (.004), and spread labels by .006 (.002) on 162, with few
# labels not at all.
_FEW_ROWS = 10_000
_PLAIN: Mapping[str, Any] = {"extra_trees": False, "colsample_bynode": 1.0}  # trees as LightGBM grows them by default

KINDS = ("auto", "logistic", "mixture", "kernel", "boosting")


def boosting_installed() -> bool:
    """Whether LightGBM is installed (the extra `boost`) and loads, which on macOS takes a library that pip does not bring."""
    try:
        import lightgbm  # noqa: F401
    except (ImportError, OSError):
        return False
    return True


def crowded(n_classes: int, n_features: int, n_labelled: int) -> bool:
    """Whether a logistic regression has more coefficients than there are labels: fits are then slow, and say little."""
    return n_labelled < (n_classes - 1) * (1 + n_features)


def default_candidates(
    n_classes: int,
    n_rows: int,
    n_features: int,
    *,
    n_labelled: int | None = None,
    kind: str = "auto",
    categories: bool = False,
    link: str | None = None,
) -> dict[str, BaseEstimator]:
    """Default grid: logistic regressions, mixtures, kernels and boosted trees, with the mechanism modelled, tempered and ignored.

    Models are there with and without the missingness, kernels beside other models only with it. Mixtures are included if there
    are enough rows for their covariance matrices, kernels if classes are few, boosting if LightGBM is installed, a forest and
    labels spread over neighbours if rows are few. Where a logistic regression has more coefficients than there are labels, the
    slow candidates stop earlier.

    Parameters
    ----------
    n_labelled : int or None
        Number of labelled rows; None if all rows are.
    kind : {"auto", "logistic", "mixture", "kernel", "boosting"}
        Which models. With "mixture" a tied mixture is always included.
    categories : bool
        Whether some features are categorical or constant, hence not Gaussian.
    link : str or None
        Link of the mechanism, which candidates that ignore it then estimate afterwards; None for their default, and no mechanism.
    """
    grid: dict[str, BaseEstimator] = {}
    mechanism: dict[str, Any] = {} if link is None else {"link": link}
    ignoring: dict[str, Any] = {"link": None} if link is None else {"link": link, "mechanism_weight": 0.0}
    numeric = not categories
    n_labelled = n_rows if n_labelled is None else n_labelled
    light = crowded(n_classes, n_features, n_labelled)
    very_wide = light and n_features > _MANY_FEATURES
    if kind in ("auto", "logistic"):
        slow = very_wide and n_rows > n_features  # with fewer rows they are fitted in the space of the rows
        for C in (1.0,) if slow else (1.0, 10.0):
            grid[f"logistic, C={C:g}, ignored"] = MARLogisticRegression(C=C, **ignoring)
        few: dict[str, Any] = {"max_iter": _MOST_ITERATIONS} if light else {}
        grid["logistic, C=1, mechanism"] = MARLogisticRegression(n_init=1, tol=1e-6, **mechanism, **few)
    if kind == "mixture" or (kind == "auto" and numeric and n_features <= min(_MOST_TIED, n_rows // _ROWS)):
        structures = ["tied"]
        if n_features <= min(_MOST_FULL, n_labelled // (_LABELS * n_classes)):
            structures.append("full")
        for structure in structures:
            start: dict[str, Any] = {"covariance_type": structure, "max_iter": _MOST_OF_MIXTURES}
            start |= {"n_init": 1}  # higher maxima did not predict better
            grid[f"mixture, {structure}, ignored"] = MARGaussianMixture(**start, **ignoring)
            grid[f"mixture, {structure}, mechanism"] = MARGaussianMixture(**start, **mechanism)
    if kind == "kernel" or (kind == "auto" and n_classes <= _MOST_CLASSES):
        if kind == "kernel" or very_wide:
            grid["kernel, ignored"] = MARKernelClassifier(C=_PENALTY, **ignoring)
        if not very_wide:
            grid[f"kernel, weight {_SMOOTH:g}"] = MARKernelClassifier(C=_PENALTY, mechanism_weight=_SMOOTH, **mechanism)
    if kind == "boosting" or (kind == "auto" and boosting_installed()):
        fewer = _fewer_trees(n_classes, n_features) if light else {}
        trees = fewer | (_LARGER if n_labelled >= _FEW_LABELS else {})
        grid["boosting, ignored"] = MARBoostingClassifier(**trees, **ignoring)
        grid[f"boosting, weight {_TREES:g}"] = MARBoostingClassifier(mechanism_weight=_TREES, **trees, **mechanism)
        if not very_wide:
            small = {"mechanism_weight": _SMALL_TREES, "min_child_samples": _LEAF} | fewer | mechanism
            grid[f"boosting, weight {_SMALL_TREES:g}"] = MARBoostingClassifier(**small)
    if kind == "auto" and n_rows <= _FEW_ROWS:
        grid["forest"] = Forest()
        if _FEW_LABELS <= n_labelled < n_rows:
            grid["label spreading"] = Spreading()
    return grid


def _fewer_trees(n_classes: int, n_features: int) -> dict[str, Any]:
    """Settings of crowded boosting, which grows a tree for each class in every round."""
    if n_features > _MANY_FEATURES:
        return {"max_estimators": _FEWEST_ROUNDS, "colsample_bytree": _FEATURES_OF_TREE / n_features}
    return {"max_estimators": min(500, max(_MOST_TREES // n_classes, _FEWEST_ROUNDS))}


def default_rivals(n_classes: int = 2, n_features: int = 1, light: bool = False) -> dict[str, BaseEstimator]:
    """What users would fit to the labelled rows without marmix: logistic regression, a random forest, gradient boosting.

    With `light`, gradient boosting has fewer trees, as in `default_candidates`.
    """
    trees = _fewer_trees(n_classes, n_features) if light else {}
    boosting = MARBoostingClassifier(**_PLAIN, learning_rate=0.1, link=None, **trees)
    return {
        "logistic regression": LogisticRegression(max_iter=500),
        "random forest": RandomForestClassifier(min_samples_leaf=2, random_state=0),
        "gradient boosting": boosting if boosting_installed() else HistGradientBoostingClassifier(random_state=0),
    }


class Outcome(NamedTuple):
    """Result of fitting a candidate; `estimator` is None if it failed with the message `error`."""

    estimator: Any
    proba: Array | None  # of the test rows
    error: str
    seconds: float


def cross_validates(pipeline: Pipeline) -> bool:
    """Whether the last step holds rows out itself and keeps their probabilities, after an encoder and a scaler at most.

    Other steps may look at the labels, so they are fitted anew for every fold.
    """
    return _sees_rows(pipeline) and hasattr(type(pipeline[-1]), "held_out_proba_")


def _sees_rows(pipeline: Pipeline) -> bool:
    """Whether no step but the last may look at labels."""
    return all(type(step) in (Encoder, StandardScaler) for _, step in pipeline.steps[:-1])


def fit_one(
    pipeline: Pipeline,
    X: NDArray[Any],
    z: NDArray[Any],
    weight: Array | None,
    test: NDArray[np.intp] | None,
    shares: Array | None = None,
    missing: NDArray[np.bool_] | None = None,
) -> Outcome:
    """Fit to all rows except the test rows, and predict those; labels that spread over rows do so over test rows too.

    `missing` says whose label was missing at first, if some have one now, for estimators of this library. `shares` (n, K) are
    those of the votes of each row, and z the most voted classes. Classifiers of other libraries see a row once for each class
    with votes, weighted by its share; if they take no weights, once with its most voted class.
    """
    start = time.perf_counter()
    keep = np.ones(len(z), dtype=bool)
    if test is not None and _spreads(pipeline[-1]):
        z = z.copy()
        z[test] = -1
    elif test is not None:
        keep[test] = False
        if (z < 0).any() and (z[test] >= 0).all():
            # only labels are held out: weight the others up, so that the share of unlabelled rows stays the same
            labelled = z >= 0
            counts = np.ones(len(z)) if weight is None else weight
            weight = np.where(labelled, counts[labelled].sum() / counts[labelled & keep].sum(), 1.0) * counts
    if not accepts_missing(pipeline[-1]):
        keep &= z >= 0
    fitted = clone(pipeline)
    rows = np.flatnonzero(keep)
    if not cross_validates(pipeline):  # whose folds are positions of the rows as they are
        given = (z if shares is None else shares)[rows]
        rows = rows[row_order(X[rows], given, None if weight is None else weight[rows])]
    labels, row_weights = z[rows], None if weight is None else weight[rows]
    if shares is not None and takes_votes(pipeline):
        labels = shares[rows]
    elif shares is not None and has_fit_parameter(pipeline[-1], "sample_weight"):
        copies = copies_of(shares[rows])
        rows, labels = rows[copies.rows], copies.z
        row_weights = copies.share if row_weights is None else copies.share * row_weights[copies.rows]
    steps = [name for name, step in fitted.steps if has_fit_parameter(step, "sample_weight")]
    weights: dict[str, Any] = {} if row_weights is None else {f"{step}__sample_weight": row_weights for step in steps}
    if missing is not None and hasattr(type(fitted[-1]), "transduction_"):
        weights[f"{fitted.steps[-1][0]}__missing"] = missing[rows]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundaryWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.fit(X[rows], labels, **weights)
        if test is not None:
            held_out = np.asarray(fitted.predict_proba(X[test]))
            proba: Array | None = checked_proba(held_out, held_out.shape)
        else:
            proba = getattr(fitted[-1], "held_out_proba_", None) if cross_validates(fitted) else None
    except (ValueError, np.linalg.LinAlgError) as error:
        return Outcome(None, None, str(error), time.perf_counter() - start)
    return Outcome(fitted, proba, "", time.perf_counter() - start)


def settled(pipeline: Pipeline) -> Pipeline:
    """An unfitted copy of a fitted pipeline, with the settings that its last step chose by itself."""
    copy = clone(pipeline)
    if isinstance(pipeline[-1], MARClassifier):
        copy[-1].set_params(**chosen_settings(pipeline[-1]))
    return copy


def takes_votes(pipeline: Pipeline) -> bool:
    """Whether the last step is an estimator of this library and the only one to see labels, so that votes can be passed on."""
    return _sees_rows(pipeline) and hasattr(type(pipeline[-1]), "transduction_")


def accepts_missing(estimator: Any) -> bool:
    """Whether a classifier takes missing labels; others are fitted to the labelled rows."""
    return hasattr(type(estimator), "transduction_") or _spreads(estimator)


def _spreads(estimator: Any) -> bool:
    """Whether labels spread over unlabelled rows."""
    return isinstance(estimator, Spreading) or type(estimator).__module__.startswith("sklearn.semi_supervised")


def knows_missingness(pipeline: Pipeline) -> bool:
    """Whether the last step has a mechanism."""
    return hasattr(pipeline[-1], "missing_proba")


def models_missingness(pipeline: Pipeline) -> bool:
    """Whether the last step has a mechanism that influences the class probabilities."""
    return knows_missingness(pipeline) and pipeline[-1].get_params().get("mechanism_weight", 1.0) != 0.0
