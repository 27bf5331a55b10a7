"""Conversion of the models that can be saved to plain values, and back with every field checked.

Classes are looked up by name in a table: nothing in a file is imported, called or evaluated.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from string import Formatter
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from marmix.core.arrays import LARGEST
from marmix.core.covariance import STRUCTURES, structure
from marmix.core.frames import Frame, KernelFrame, UserAxes
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.core.likelihood import ScoreModel
from marmix.core.linear import KernelScores, LinearScores
from marmix.core.measures import MEASURES
from marmix.core.mechanism import Mechanism
from marmix.core.model import FittedModel
from marmix.core.moments import GroupMoments
from marmix.core.notes import SENTENCES, Note
from marmix.core.student import DOFS, TAIL_MAX, TAIL_MIN, Students, StudentScores
from marmix.core.trees import Trees, TreeScores
from marmix.estimators import (
    LabelledRows,
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
    WithUnlabelled,
)
from marmix.estimators.choice import Gain, Overlap
from marmix.estimators.validation import check_parameters
from marmix.evaluation import Score
from marmix.evaluation.prior import prior_of
from marmix.persistence.fields import Fields
from marmix.persistence.format import ContainerError, Encoder

# Results for the training rows: they would grow with the rows, which may be private.
OF_ROWS = ("transduction_", "held_out_proba_", "missing_proba_", "reference_proba_", "posterior_", "tested_")

CAN_BE_SAVED = (
    "MARGaussianMixture, MARStudentMixture, MARLogisticRegression, MARKernelClassifier, MARBoostingClassifier, "
    "MARClassifierCV, and pipelines that end in one of them after StandardScaler or marmix.tables.preparation.Preparation"
)

_CLASSIFIERS = (
    MARGaussianMixture,
    MARStudentMixture,
    MARLogisticRegression,
    MARKernelClassifier,
    MARBoostingClassifier,
    MARClassifierCV,
)
_FACTORS = {"full": "Cdd", "tied": "dd", "diag": "Cd", "spherical": "C"}  # covariance factors: C components, d features
_ROUNDING = 1e-6  # relative tolerance for values in a file that follow from others
_MOST = float(np.finfo(float).max)
_MOST_SCORE = 1e200  # of a row like those of the fit: scores of rows far from these are then finite, too
_MOST_STEP = 1e15  # in the axes of the fit, of a standard deviation of the rows
_SETTINGS: dict[str, tuple[Any, ...]] = {  # types of parameters that only a further fit uses; None is allowed
    **dict.fromkeys(("n_jobs", "random_state"), (int, np.integer)),
    **dict.fromkeys(
        ("verbose", "warm_start", "copy", "with_mean", "with_std", "rivals"), (bool, int, np.bool_, np.integer)
    ),
    **dict.fromkeys(("classes", "mechanism_features", "features"), (list, tuple, np.ndarray)),
    **dict.fromkeys(("categorical_features",), (str, list, tuple, np.ndarray)),
    **dict.fromkeys(("n_components",), (int, np.integer, dict)),
    **dict.fromkeys(("prior",), (dict, list, tuple, np.ndarray)),
    **dict.fromkeys(("cv",), (int, np.integer, list, tuple)),
    **dict.fromkeys(("estimators",), (dict,)),
}


# Estimators and pipelines


def state_of(estimator: Any, fitted: bool = True) -> dict[str, Any]:
    """An estimator as plain values; `fitted` is False for an unfitted parameter of another estimator."""
    name = type(estimator).__name__
    if type(estimator) is Pipeline:
        return {"class": name, "steps": _steps(estimator, fitted), "verbose": estimator.verbose}
    if not _is_preparation(estimator) and (name not in KINDS or KINDS[name][0] is not type(estimator)):
        raise ValueError(f"{type(estimator).__module__}.{name} cannot be saved: {_other_advice(estimator)}")
    parameters = estimator.get_params(deep=False)
    if callable(parameters.get("measure")):
        raise ValueError(
            f"the measure of this {name} is a function, and code cannot be saved: fit with a measure that has a name."
        )
    if isinstance(parameters.get("estimators"), Mapping):
        parameters["estimators"] = {key: state_of(est, False) for key, est in parameters["estimators"].items()}
    for key, value in parameters.items():
        if _SETTINGS.get(key, ())[-3:] == (list, tuple, np.ndarray) and _is_sequence(value):
            parameters[key] = list(value)
    state: dict[str, Any] = {"class": name, "parameters": parameters}
    if not fitted:
        return state
    attributes = {key: value for key, value in sorted(vars(estimator).items()) if key not in {*parameters, *OF_ROWS}}
    if name in SCORES:
        check_is_fitted(estimator)
        if unknown := set(attributes) - {"model_"}:
            raise ValueError(
                f"this {name} cannot be saved: it has the attribute {min(unknown)!r}, which is not marmix's. Delete it first."
            )
        return state | {"fitted": _model_state(estimator.model_, SCORES[name])}
    if "estimators_" in attributes:
        attributes["estimators_"] = {key: state_of(est) for key, est in attributes["estimators_"].items()}
        attributes["notes_"] = [note._asdict() for note in attributes.pop("note_records_")]
    return state | {"fitted": {key: _plain(value) for key, value in attributes.items()}}


def _is_sequence(value: Any) -> bool:
    """Whether a value has an order and is no type that the format has, such as a range or an Index of pandas."""
    ordered = hasattr(value, "__getitem__") and hasattr(value, "__len__") and hasattr(value, "__iter__")
    return ordered and not isinstance(value, str | bytes | list | tuple | Mapping | np.ndarray)


def _other_advice(estimator: Any) -> str:
    """What to do with an estimator that cannot be saved: save the one inside that predicts the same, if that can be."""
    name = "best_estimator_" if "best_estimator_" in vars(estimator) else "estimator_"
    inner = vars(estimator).get(name)
    last = inner.steps[-1][1] if type(inner) is Pipeline else inner
    if type(last) in _CLASSIFIERS and (
        name == "best_estimator_" or isinstance(estimator, LabelledRows | WithUnlabelled)
    ):
        return f"save its {name}, which predicts the same."
    if isinstance(estimator, LabelledRows | WithUnlabelled):
        return f"it holds a {type(estimator.estimator).__name__}, and {CAN_BE_SAVED} can. Use joblib or skops."
    return f"{CAN_BE_SAVED} can."


def _plain(value: Any) -> Any:
    if isinstance(value, Score):
        return asdict(value)
    return value._asdict() if isinstance(value, Gain | Overlap) else value


def _steps(pipeline: Pipeline, fitted: bool) -> list[Any]:
    *first, (_, last) = pipeline.steps
    wrong = [step for _, step in first if type(step) is not StandardScaler and not _is_preparation(step)]
    if wrong or type(last) not in _CLASSIFIERS:
        step = wrong[0] if wrong else last
        raise ValueError(f"a pipeline with {type(step).__name__} as a step cannot be saved: {CAN_BE_SAVED} can.")
    if pipeline.memory is not None or getattr(pipeline, "transform_input", None) is not None:
        raise ValueError("a pipeline with memory= or transform_input= cannot be saved: set_params(memory=None) first.")
    return [[name, state_of(step, fitted)] for name, step in pipeline.steps]


def _is_preparation(step: Any) -> bool:
    return type(step).__name__ == "Preparation" and type(step).__module__ == "marmix.tables.preparation"


def estimator_of(state: Any, fitted: bool = True, depth: int = 0) -> Any:
    """The estimator that a state describes, with every field checked."""
    if depth > 4:
        raise ContainerError("the file nests models too deeply.")
    fields = Fields(state, "the model")
    name = fields.text("class")
    fields.where = name[:50]
    if name == "Pipeline":
        return _pipeline(fields, fitted, depth)
    kind = _preparation() if name == "Preparation" else KINDS.get(name)
    if kind is None:
        raise ContainerError(f"the file holds a {name[:50]!r}, which this version of marmix does not know.")
    parameters = fields.anything("parameters")
    if not isinstance(parameters, dict):
        raise fields.refuse("parameters", "a list of parameters by name")
    if "uncertainty" in parameters:  # its name in files of 0.2
        parameters["measure"] = parameters.pop("uncertainty")
    cls, restore = kind
    names = cls().get_params(deep=False)
    unknown = [key for key in parameters if key not in names]
    if unknown:
        raise ContainerError(
            f"{name} has the parameter {str(unknown[0])[:50]!r} in the file, which this version of marmix does not know: upgrade."
        )
    if isinstance(candidates := parameters.get("estimators"), dict):
        parameters["estimators"] = {key: estimator_of(value, False, depth + 1) for key, value in candidates.items()}
    for key, value in parameters.items():
        if key in _SETTINGS and value is not None and not isinstance(value, _SETTINGS[key]):
            raise fields.refuse(key, "a parameter of its type")
    estimator = cls(**parameters)
    if fitted:
        restore(estimator, fields.part("fitted"))
    fields.finish()
    return estimator


def input_of(model: Any) -> dict[str, Any]:
    """Summary of a model in the file header: its class, the classes it predicts, and the features it takes."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    first, last = steps[0], steps[-1]
    names = getattr(first, "feature_names_in_", [f"x{i}" for i in range(first.n_features_in_)])
    features = [(str(name), "float64") for name in names]
    if _is_preparation(first):
        features = [(column["name"], column["kind"]) for column in first.columns_]
    return {
        "class": type(model).__name__,
        "classes": Encoder().encode(last.classes_.tolist()),
        "features": [{"name": name, "dtype": kind} for name, kind in features],
    }


def _pipeline(fields: Fields, fitted: bool, depth: int) -> Pipeline:
    listed, steps = fields.anything("steps"), list[tuple[str, Any]]()
    if not isinstance(listed, list) or not 0 < len(listed) <= 20:
        raise fields.refuse("steps", "a list of steps")
    for entry in listed:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
            raise fields.refuse("steps", "a list of names and steps")
        steps.append((entry[0], estimator_of(entry[1], fitted, depth + 1)))
    names, objects = [name for name, _ in steps], [step for _, step in steps]
    *first, last = map(type, objects)
    if (
        last not in _CLASSIFIERS
        or any(step in (*_CLASSIFIERS, Pipeline) for step in first)
        or any(map(_is_preparation, objects[1:]))
    ):
        raise fields.refuse("steps", "a list of transformers that ends in a classifier")
    if fitted and any(len(a.get_feature_names_out()) != b.n_features_in_ for a, b in pairwise(objects)):
        raise fields.refuse("steps", "a list of steps whose numbers of features agree")
    pipeline = Pipeline(steps, verbose=fields.flag("verbose"))
    pipeline._validate_names(names)
    fields.finish()
    return pipeline


def _restore_features(estimator: Any, fitted: Fields) -> int:
    """Set the number of features, and their names if any."""
    estimator.n_features_in_, names = _read_features(fitted)
    if names is not None:
        estimator.feature_names_in_ = names
    return int(estimator.n_features_in_)


def _restore_scaler(scaler: StandardScaler, fitted: Fields) -> None:
    d = _restore_features(scaler, fitted)
    present = {"mean_": scaler.with_mean or scaler.with_std, "var_": scaler.with_std, "scale_": scaler.with_std}
    limits = {"var_": {"least": 0.0, "most": _MOST}, "scale_": {"least": 1.0 / LARGEST}}
    for name, is_present in present.items():
        value = fitted.floats(name, d, **limits.get(name, {})) if is_present else fitted.anything(name)
        if not is_present and value is not None:
            raise fitted.refuse(name, "null")
        setattr(scaler, name, value)
    if scaler.with_std:  # the scale of a constant column is one
        follows = np.isclose(scaler.scale_, np.sqrt(scaler.var_), rtol=_ROUNDING, atol=0.0) | (scaler.scale_ == 1.0)
        if not follows.all():
            raise fitted.refuse("scale_", "the square root of var_")
    seen = scaler.n_samples_seen_ = fitted.anything("n_samples_seen_")
    number = isinstance(seen, int | float | np.number) and not isinstance(seen, bool)
    counts = isinstance(seen, np.ndarray) and seen.shape == (d,) and seen.dtype.kind in "iuf"
    if not (number or counts) or not np.all((np.asarray(seen) >= 0) & (np.asarray(seen) <= LARGEST)):
        raise fitted.refuse("n_samples_seen_", "a number of rows")
    if fitted.has("_sklearn_output_config"):
        config = fitted.part("_sklearn_output_config")
        scaler.set_output(transform=config.text("transform", ("default", "pandas", "polars")))
        config.finish()
    fitted.finish()


def _restore_cv(estimator: MARClassifierCV, fitted: Fields) -> None:
    if estimator.method not in ("average", "pick"):
        raise fitted.refuse("method", "'average' or 'pick'")
    d = _restore_features(estimator, fitted)
    estimator.classes_ = fitted.labels("classes_")
    prior_of(estimator.prior, estimator.classes_)
    candidates, weights = fitted.anything("estimators_"), fitted.anything("weights_")
    if not isinstance(candidates, dict) or not isinstance(weights, dict) or list(candidates) != list(weights):
        raise fitted.refuse("weights_", "a weight for each candidate")
    shares = list(weights.values())
    if not all(isinstance(share, float) and 0.0 <= share <= 1.0 for share in shares) or abs(sum(shares) - 1.0) > 1e-6:
        raise fitted.refuse("weights_", "weights that sum to one")
    if not all(isinstance(name, str) for name in candidates):
        raise fitted.refuse("estimators_", "candidates by name")
    estimator.estimators_ = {name: estimator_of(state, depth=1) for name, state in candidates.items()}
    estimator.weights_ = weights
    numbers = np.arange(len(estimator.classes_))
    for pipeline in estimator.estimators_.values():
        if type(pipeline) is not Pipeline or pipeline[0].n_features_in_ != d:
            raise fitted.refuse("estimators_", f"pipelines for {d} features")
        if not np.array_equal(pipeline[-1].classes_, numbers):
            raise fitted.refuse("estimators_", f"fitted to {len(numbers)} classes")
    estimator.note_records_, estimator.verdict_ = _read_notes(fitted, len(numbers), d), fitted.text("verdict_")
    score, comparison = _numbers(fitted, "score_", Score), _numbers(fitted, "comparison_", Gain)
    estimator.score_, estimator.comparison_ = score, comparison
    estimator.results_ = _results(fitted, weights)
    if fitted.has("rival_comparison_"):
        estimator.rival_comparison_ = _numbers(fitted, "rival_comparison_", Gain)
    # files of earlier versions have neither
    estimator.independent_score_ = (
        _numbers(fitted, "independent_score_", Score) if fitted.has("independent_score_") else None
    )
    estimator.overlap_ = _numbers(fitted, "overlap_", Overlap) if fitted.has("overlap_") else None
    estimator.prior_offset_ = None
    if fitted.has("prior_offset_") and (offsets := fitted.anything("prior_offset_")) is not None:
        fields = Fields(offsets, f"{fitted.where}, prior_offset_")
        estimator.prior_offset_ = {name: fields.floats(name, len(numbers)) for name in weights}
        fields.finish()
    fitted.finish()


def _numbers(fitted: Fields, name: str, kind: Any) -> Any:
    """An object of named numbers, or None. Files of earlier versions lack some numbers, which have defaults."""
    value = fitted.anything(name)
    if value is None:
        return None
    fields = Fields(value, f"{fitted.where}, {name}")
    least = {
        "stderr": 0.0,
        "plain_stderr": 0.0,
        "n_effective": 0.0,
        "n_labelled": 0,
        "n_truncated": 0,
        "no_chance": 0.0,
    }
    later = {"least", "most", "no_chance"} if kind in (Score, Gain) else set()
    names = [field for field in kind.__annotations__ if field not in later or fields.has(field)]
    numbers = kind(**{field: fields.number(field) for field in names})
    fields.finish()
    for field in names:
        if getattr(numbers, field) < least.get(field, -np.inf):
            raise fields.refuse(field, "a number from 0 on")
    return numbers


def _results(fitted: Fields, weights: dict[str, float]) -> dict[str, Any]:
    """The table of candidates, which may list more than there are in the average."""
    table = fitted.anything("results_")
    kinds = {"candidate": "U", "mechanism": "b", "rival": "b"}
    if (
        not isinstance(table, dict)
        or not {"candidate", "mechanism", "weight"} <= set(table)
        or not all(isinstance(column, np.ndarray) and column.ndim == 1 for column in table.values())
        or len({len(column) for column in table.values()}) > 1
        or any(column.dtype.kind != kinds.get(name, "f") for name, column in table.items())
        or not set(weights) <= set(table["candidate"].tolist())
        or any(
            abs(weights.get(name, 0.0) - weight) > _ROUNDING
            for name, weight in zip(table["candidate"].tolist(), table["weight"].tolist(), strict=True)
        )
    ):
        raise fitted.refuse("results_", f"a table with the {len(weights)} candidates and their weights")
    return dict(table)


def _restore_preparation(step: Any, fitted: Fields) -> None:
    if step.impute not in ("median", "drop"):
        raise fitted.refuse("impute", "'median' or 'drop'")
    step.n_features_in_, step.n_rows_ = fitted.whole("n_features_in_", 1), fitted.whole("n_rows_", 1)
    step.notes_, step.feature_names_in_ = fitted.texts("notes_"), fitted.texts("feature_names_in_")
    step.columns_ = fitted.anything("columns_")
    names = step.features_in()  # checks the columns
    for column in step.columns_:
        fields = Fields(column, f"{fitted.where}, columns_")
        for name in ("name", "kind", "levels"):
            fields.anything(name)
        fill = fields.number("fill", -LARGEST) if column["fill"].__class__ in (int, float) else fields.anything("fill")
        if (fill is None) != (step.impute == "drop") or len(set(column["levels"])) < len(column["levels"]):
            raise fitted.refuse("columns_", "a list of columns with different levels and what fills their gaps")
        fields.whole("missing", 0, step.n_rows_)
        fields.finish()
    chosen = set(step.feature_names_in_)
    if (
        len(step.feature_names_in_) != step.n_features_in_
        or len(chosen) < step.n_features_in_
        or not set(names) <= chosen
    ):
        raise fitted.refuse("columns_", "among the features")
    if len(set(names)) < len(names):
        raise fitted.refuse("columns_", "a list of different columns")
    fitted.finish()


def _preparation() -> tuple[Any, Callable[[Any, Fields], None]]:
    from marmix.tables.preparation import Preparation

    return Preparation, _restore_preparation


# Fitted models


class ScoreFormat(NamedTuple):
    """How a score model and its parameters are written, and read for K classes and d axes of the fit."""

    type: type[Any]
    write: Callable[[Any, Any], dict[str, Any]]
    read: Callable[[Fields, int, int], tuple[ScoreModel, Any]]


def _model_state(model: FittedModel, scores: ScoreFormat) -> dict[str, Any]:
    """A fitted model as plain values."""
    if not isinstance(model.score_model, scores.type):
        raise ValueError(f"a {model.score_model.words} cannot be saved.")
    state = {
        "n_features_in_": model.n_features,
        "classes_": model.classes,
        "_frame": {name: _frame_value(model.frame, name) for name in _FRAME[type(model.frame)]},
        "_measure": model.measure,
        "_columns": list(model.columns),
        "mechanism_": _mechanism_state(model.mechanism),
        "_tempering": model.tempering,
        "_fingerprint": model.moments._asdict(),
        "_entropy": model.entropy,
        "loglik_ignorable_": model.loglik_ignorable,
        "loglik_missing_": model.loglik_missing,
        "trace_": model.trace,
        "converged_": model.converged,
        "n_iter_": model.n_iter,
        "n_passes_": model.n_passes,
        "notes_": [note._asdict() for note in model.notes],
        **scores.write(model.score_model, model.theta),
        **_derived(model),
    }
    return state if model.features is None else state | {"feature_names_in_": model.features}


def _restore_model(estimator: Any, fitted: Fields) -> None:
    """Set the `model_` of an estimator."""
    check_parameters(estimator.get_params())
    d, features = _read_features(fitted)
    classes = fitted.labels("classes_")
    K = len(classes)
    scores = SCORES[type(estimator).__name__]
    frame = _read_frame(fitted.part("_frame"), d, scores.type)
    measure = fitted.text("_measure", MEASURES)
    columns = fitted.wholes("_columns", 0, d - 1)
    if len(set(columns)) < len(columns):
        raise fitted.refuse("_columns", "a list of different columns")
    score_model, theta = scores.read(fitted, K, frame.size)
    entropy = fitted.anything("_entropy")
    if entropy is not None and not (isinstance(entropy, float) and 0.0 <= entropy <= LARGEST):
        raise fitted.refuse("_entropy", "a number from 0 on or null")
    rows = fitted.part("_fingerprint")
    moments = _read_moments(rows, K, d, only_squares=rows.ndim("scatter") != 3)
    model = FittedModel(
        score_model=score_model,
        theta=theta,
        frame=frame,
        measure=measure,
        mechanism=_mechanism(fitted, measure, 2 + len(columns), K),
        columns=columns,
        tempering=fitted.number("_tempering", 0.0, 1.0),
        classes=classes,
        n_features=d,
        features=features,
        moments=moments,
        loglik_ignorable=fitted.number("loglik_ignorable_", -LARGEST),
        loglik_missing=fitted.number("loglik_missing_", -LARGEST),
        trace=fitted.floats("trace_", -1, most=np.nan),
        converged=fitted.flag("converged_"),
        n_iter=fitted.whole("n_iter_"),
        n_passes=fitted.whole("n_passes_"),
        notes=_read_notes(fitted, K, d),
        entropy=entropy,
    )
    _check_derived(fitted, model)
    fitted.finish()
    _check_axes(fitted, model)
    _check_predictions(model)
    estimator.model_ = model


def _frame_value(frame: Frame, name: str) -> Any:
    """A value of a frame; a diagonal whitener as its diagonal, as wide data would make a very large matrix."""
    return frame.factors if name == "whitener" and frame.factors is not None else getattr(frame, name)


def _read_moments(rows: Fields, K: int, d: int, only_squares: bool) -> GroupMoments:
    """The moments of the rows of each class and of the unlabelled ones, such as rows can have."""
    weight, mean = rows.floats("weight", K + 1, least=0.0), rows.floats("mean", K + 1, d)
    scatter = rows.floats("scatter", *((K + 1, d) if only_squares else (K + 1, d, d)), least=-_MOST, most=_MOST)
    rows.finish()
    if not (weight[:-1] > 0.0).all():
        raise rows.refuse("weight", "positive for each class")
    squares = scatter if only_squares else np.einsum("gii->gi", scatter)
    size = np.sqrt(np.maximum(squares, 0.0)) + _ROUNDING * np.sqrt(weight)[:, None] * np.abs(mean)  # and rounding
    sound = (squares >= -(size**2)).all() and not mean[weight == 0.0].any() and not scatter[weight == 0.0].any()
    if sound and not only_squares:
        limits = (1.0 + _ROUNDING) * size[:, :, None] * size[:, None, :]
        sound = (np.abs(scatter) <= limits).all()
        sound = sound and (np.abs(scatter - np.swapaxes(scatter, 1, 2)) <= 1e-3 * limits).all()
    if not sound:
        raise rows.refuse("scatter", "sums of squares and products about the means")
    return GroupMoments(weight, mean, scatter)


def _check_axes(fitted: Fields, model: FittedModel) -> None:
    """Raise ContainerError if the axes of the fit are not those of rows with such moments."""
    mean, covariance = model.moments.overall()
    variance = covariance if covariance.ndim == 1 else np.diag(covariance)
    if not np.isfinite(variance).all():
        raise fitted.refuse("_fingerprint", "about rows of finite variance")
    frame = model.frame
    if isinstance(frame, KernelFrame):  # which a warm start keeps, for other rows too
        return
    if (np.abs(frame.centre - mean) > _ROUNDING * (np.abs(mean) + np.sqrt(variance))).any():
        raise fitted.refuse("_frame", "centred at the mean of the rows")
    if isinstance(frame, UserAxes) or not variance.any():
        return
    step = float(np.abs(frame.enter((mean + np.sqrt(variance))[None, :])).max())
    if not 1.0 / _MOST_STEP <= step <= _MOST_STEP:
        raise fitted.refuse("_frame", "on the scale of the rows")


def _read_frame(fields: Fields, d: int, kind: type) -> Frame:
    """The axes of a fit to d features, of the kind that the score model takes."""
    centre = fields.floats("centre", d)
    if kind is not KernelScores:
        if kind is TreeScores:
            fields.finish()
            return UserAxes(centre)
        whitener = fields.floats("whitener", *((d,) if fields.ndim("whitener") == 1 else (d, d)))
        fields.finish()
        return Frame(centre, whitener)
    scale, landmarks = fields.floats("scale", d, least=1.0 / LARGEST), fields.floats("landmarks", -1, d)
    gamma, root = fields.number("gamma", 1.0 / LARGEST), fields.floats("root", -1, len(landmarks))
    fields.finish()
    if not 0 < len(root) <= len(landmarks):
        raise fields.refuse("root", "a matrix with at most as many rows as there are landmarks")
    return KernelFrame(centre, scale, landmarks, gamma, root)


def _derived(model: FittedModel) -> dict[str, Any]:
    """Values that follow from the rest of a fitted model, for other programs that read the file."""
    mechanism = model.mechanism
    values = {f"{name}_": value for name, value in model.values.items()}
    if isinstance(model.score_model, GaussianScores):
        values["component_classes_"] = model.classes[model.score_model.owner]
    return values | {
        "loglik_": model.loglik,
        "alpha_": None if mechanism is None else np.array(mechanism.alpha),
        "shape_": None if mechanism is None else mechanism.shape,
        "share_": None if mechanism is None else mechanism.share,
        "_total_weight": model.total_weight,
        "_missing_weight": model.missing_weight,
    }


def _check_derived(fitted: Fields, model: FittedModel) -> None:
    """Raise ContainerError if the derived values in a file are not those of its model."""
    may_be_infinite = {"alpha_", "shape_"}  # of a mechanism without missing labels
    if isinstance(model.score_model, StudentScores):
        may_be_infinite |= {"dof_", "covariances_"}
    for name, expected in _derived(model).items():
        value = fitted.anything(name)
        if expected is None or name == "component_classes_":
            agrees = type(value) is type(expected) and np.array_equal(value, expected)
        else:
            double = isinstance(value, float) or getattr(value, "dtype", None) == np.float64
            agrees = double and np.shape(value) == np.shape(expected)
            agrees = agrees and np.allclose(value, expected, rtol=_ROUNDING, atol=1e-300, equal_nan=True)
            agrees = agrees and bool(np.isfinite(value).all() or name in may_be_infinite)
        if not agrees:
            raise fitted.refuse(name, "what follows from the rest of the model")


def _read_features(fitted: Fields) -> tuple[int, Any]:
    """The number of features, and their names or None."""
    d = int(fitted.whole("n_features_in_", 1, 2**20))
    return d, fitted.names("feature_names_in_", d) if fitted.has("feature_names_in_") else None


def _mechanism_state(mechanism: Mechanism | None) -> dict[str, Any] | None:
    if mechanism is None:
        return None
    names = ("shape", "share", "free_shape", "free_share")
    state = {"uncertainty": mechanism.measure, "alpha": list(mechanism.alpha)} | {
        name: getattr(mechanism, name) for name in names
    }
    return state | {"label": list(mechanism.label), "free_label": mechanism.free_label} if mechanism.label else state


def _mechanism(fitted: Fields, measure: str, size: int, classes: int) -> Mechanism | None:
    value = fitted.anything("mechanism_")
    if value is None:
        return None
    fields = Fields(value, f"{fitted.where}, mechanism_")
    alpha = fields.anything("alpha")
    if not isinstance(alpha, list) or len(alpha) != size or not all(isinstance(slope, float) for slope in alpha):
        raise fields.refuse("alpha", f"a list of {size} numbers")
    if not (np.abs(alpha[int(alpha[0] == -np.inf) :]) <= LARGEST).all():
        raise fields.refuse("alpha", f"a list of numbers up to {LARGEST:g}")
    shape, share = fields.number("shape"), fields.number("share", 0.0)
    if not (0.0 <= shape <= LARGEST or (np.isnan(shape) and alpha[0] == -np.inf)):
        raise fields.refuse("shape", f"a number from 0 to {LARGEST:g}")
    if not share < 1.0:
        raise fields.refuse("share", "below 1")
    if fields.text("uncertainty", MEASURES) != measure:
        raise fields.refuse("uncertainty", f"{measure!r}, the measure of the model")
    mechanism = Mechanism(measure, tuple(alpha), shape, share, fields.flag("free_shape"), fields.flag("free_share"))
    if fields.has("label"):  # files without a label term do not mention it
        label, free = fields.anything("label"), fields.flag("free_label")
        sound = isinstance(label, list) and len(label) == classes and all(isinstance(delta, float) for delta in label)
        if not sound or not (np.abs(label) <= LARGEST).all() or (free and label[0] != 0.0):
            raise fields.refuse("label", f"a list of {classes} finite numbers, the first one 0 if they were estimated")
        mechanism = replace(mechanism, label=tuple(label), free_label=free)
    fields.finish()
    return mechanism


def _read_notes(fitted: Fields, K: int, d: int) -> list[Note]:
    """The notes; version 0.1 wrote their sentences only."""
    notes, values = [], fitted.anything("notes_")
    if not isinstance(values, list):
        raise fitted.refuse("notes_", "a list of notes")
    for value in values:
        if isinstance(value, str):
            notes.append(Note("text", {"text": value}))
            continue
        fields = Fields(value, f"{fitted.where}, notes_")
        note = Note(fields.text("code", SENTENCES), fields.anything("values"))
        fields.finish()
        details = Fields(note.values, f"{fitted.where}, notes_")
        for name in {name for _, name, _, _ in Formatter().parse(SENTENCES[note.code]) if name}:
            if name in ("classes", "columns"):
                details.wholes(name, 0, {"classes": K, "columns": d}[name] - 1)
            elif not isinstance(details.anything(name), str | int | float):
                raise fitted.refuse("notes_", "a list of notes with numbers and text")
        details.finish()
        try:
            SENTENCES[note.code].format(**note.values)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError):
            raise fitted.refuse("notes_", "a list of notes with their values") from None
        notes.append(note)
    return notes


def _check_predictions(model: FittedModel) -> None:
    """Raise ContainerError if the model gives no probabilities for rows like those of its fit."""
    mean, covariance = model.moments.overall()
    sd = np.sqrt(covariance if covariance.ndim == 1 else np.diag(covariance))
    means = model.moments.mean[model.moments.weight > 0.0]
    steps = np.array([-3.0, -1.0, 1.0, 3.0])[:, None] * sd
    with np.errstate(all="ignore"):
        rows = np.vstack([model.frame.centre, means, mean + steps, mean + steps * (-1.0) ** np.arange(len(sd))])
        try:
            sound = bool(
                (np.abs(model.scores(rows)) <= _MOST_SCORE).all() and np.isfinite(model.uncertainty(rows)).all()
            )
            if sound and model.has_mechanism:
                q = model.missing_proba_by_class(rows)
                sound = bool(((q >= 0.0) & (q <= 1.0)).all())
        except ValueError:
            sound = False
    if not sound:
        raise ContainerError("the parameters in the file give no probabilities: they are damaged or made up.")


def _gaussian_state(model: GaussianScores, theta: Gaussians | Students) -> dict[str, Any]:
    return {
        "_covariance_type": model.structure.name,
        "_model": {"counts": model.counts, "floor": model.floor},
        "_theta": theta._asdict(),
    }


def _gaussian_model(fitted: Fields, K: int, d: int) -> tuple[ScoreModel, Any]:
    fields, parameters = fitted.part("_model"), fitted.part("_theta")
    model, theta = _read_mixture(fitted, fields, parameters, K, d)
    fields.finish()
    parameters.finish()
    return model, theta


def _read_mixture(
    fitted: Fields, fields: Fields, parameters: Fields, K: int, d: int
) -> tuple[GaussianScores, Gaussians]:
    """The part of a mixture that Gaussian and Student-t components share."""
    kind = fitted.text("_covariance_type", STRUCTURES)
    counts, floor = fields.wholes("counts", 1, 2**20), fields.number("floor", 0.0, 1.0)
    mu = parameters.floats("mu", -1, d)
    C = len(mu)
    if len(counts) != K or sum(counts) != C:
        raise fitted.refuse("_model", f"about {K} classes and {C} components")
    shape = [{"C": C, "d": d}[side] for side in _FACTORS[kind]]
    log_pi, chol = parameters.floats("log_pi", C, most=_ROUNDING), parameters.floats("chol", *shape)
    if abs(np.exp(log_pi).sum() - 1.0) > _ROUNDING:
        raise parameters.refuse("log_pi", "logarithms of weights that sum to one")
    pivots = np.einsum("...ii->...i", chol) if kind in ("full", "tied") else chol
    above = np.triu(chol, 1) if kind in ("full", "tied") else np.zeros(1)
    if (pivots < 1.0 / LARGEST).any() or np.abs(above).max() > _ROUNDING * np.abs(chol).max():
        raise parameters.refuse("chol", "lower triangular with a positive diagonal")
    theta = Gaussians(log_pi, mu, chol)
    return GaussianScores(structure(kind, d), counts, floor), theta


def _student_state(model: StudentScores, theta: Students) -> dict[str, Any]:
    state = _gaussian_state(model, theta)
    dof = model.dof if isinstance(model.dof, str) else float(model.dof)
    return state | {"_model": state["_model"] | {"dof": dof}}


def _student_model(fitted: Fields, K: int, d: int) -> tuple[ScoreModel, Any]:
    fields, parameters = fitted.part("_model"), fitted.part("_theta")
    gaussian, theta = _read_mixture(fitted, fields, parameters, K, d)
    dof, tail = fields.anything("dof"), parameters.floats("tail", len(theta.mu))
    if not (isinstance(dof, str) and dof in DOFS) and not (isinstance(dof, float) and dof >= 1.0):
        raise fields.refuse("dof", "'common', 'by_class' or a number from 1 on")
    model = StudentScores(gaussian.structure, gaussian.counts, gaussian.floor, dof)
    shared = all(len(np.unique(tail[model.groups == group])) == 1 for group in np.unique(model.groups))
    if not shared or not ((tail >= TAIL_MIN) & (tail <= TAIL_MAX)).all():
        raise parameters.refuse("tail", f"numbers from {TAIL_MIN:g} to {TAIL_MAX:g}, the same where dof is shared")
    fields.finish()
    parameters.finish()
    return model, model.with_tail(theta, tail)


def _linear_state(model: LinearScores, theta: Any) -> dict[str, Any]:
    names = ("degree", "C", "centre", "scale", "information")
    return {"_model": {name: getattr(model, name) for name in names}, "_theta": theta}


def _linear_model(fitted: Fields, K: int, d: int) -> tuple[ScoreModel, Any]:
    fields = fitted.part("_model")
    degree, C = fields.whole("degree", 1, 2), fields.number("C")
    if not C > 0.0:
        raise fields.refuse("C", "positive")
    p, V = 1 + d + (d * (d + 1) // 2 if degree == 2 else 0), 1 if K == 2 else K
    information = _read_information(fields, p)
    centre, scale = fields.floats("centre", d), fields.floats("scale", d, least=1.0 / LARGEST)
    fields.finish()
    model = LinearScores(d, K, degree, C, centre, scale)
    model.information = information
    return model, fitted.floats("_theta", V, p)


def _read_information(fields: Fields, size: int) -> Any:
    """The mean of ``phi phi'``, a matrix of moments, or its diagonal."""
    if fields.ndim("information") == 1:
        return fields.floats("information", size, least=1.0 / LARGEST, most=_MOST)
    matrix = fields.floats("information", size, size, least=-_MOST, most=_MOST)
    root = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    slack = _ROUNDING * (1.0 + np.outer(root, root))
    if (np.abs(matrix - matrix.T) > slack).any() or (np.abs(matrix) > np.outer(root, root) + slack).any():
        raise fields.refuse("information", "a matrix of moments")
    return matrix


def _kernel_state(model: KernelScores, theta: Any) -> dict[str, Any]:
    return {"_model": {"C": model.C, "information": model.information}, "_theta": theta}


def _kernel_model(fitted: Fields, K: int, size: int) -> tuple[ScoreModel, Any]:
    fields = fitted.part("_model")
    C, information = fields.number("C"), _read_information(fields, 1 + size)
    if not C > 0.0:
        raise fields.refuse("C", "positive")
    fields.finish()
    model = KernelScores(size, K, C)
    model.information = information
    return model, fitted.floats("_theta", model.vectors, 1 + size)


def _tree_state(model: TreeScores, theta: Trees) -> dict[str, Any]:
    columns = sorted(model.categories)
    values = [np.asarray(model.categories[i]).tolist() for i in columns]
    return {"_model": {"columns": columns, "categories": values}, "_theta": theta._asdict()}


def _tree_model(fitted: Fields, K: int, d: int) -> tuple[ScoreModel, Any]:
    fields = fitted.part("_model")
    columns, listed = fields.wholes("columns", 0, d - 1), fields.anything("categories")
    if len(set(columns)) < len(columns) or not isinstance(listed, list) or len(listed) != len(columns):
        raise fields.refuse("categories", "a list of categories for each of the columns")
    for values in listed:
        sound = isinstance(values, list) and all(isinstance(value, str | int | float) for value in values)
        if not sound or len(set(values)) < len(values):
            raise fields.refuse("categories", "lists of different texts or numbers")
    fields.finish()
    model = TreeScores(d, K, dict(zip(columns, listed, strict=True)))
    arrays = fitted.part("_theta")
    S = len(threshold := arrays.floats("threshold", -1, least=-_MOST, most=_MOST))
    trees = Trees(
        baseline=arrays.floats("baseline", model.vectors),
        roots=arrays.array("roots", np.int32, -1),
        feature=arrays.array("feature", np.int32, S),
        threshold=threshold,
        default_left=arrays.array("default_left", np.bool_, S),
        left=arrays.array("left", np.int32, S),
        right=arrays.array("right", np.int32, S),
        value=arrays.floats("value", -1),
        gain=arrays.floats("gain", S, least=0.0),
        first_code=arrays.array("first_code", np.int32, S + 1),
        codes=arrays.array("codes", np.int32, -1),
        categorical=arrays.array("categorical", np.bool_, S),
    )
    arrays.finish()
    if wrong := _tree_fault(trees, d, model.vectors):
        raise fitted.refuse("_theta", wrong)
    return cast(Any, model), trees


def _tree_fault(trees: Trees, d: int, vectors: int) -> str | None:
    """What arrays of trees should be but are not; None if they can be evaluated."""
    S, L, roots = len(trees.feature), len(trees.value), trees.roots.astype(np.int64)
    if not len(roots) or len(roots) % vectors:
        return f"a multiple of {vectors} trees"
    starts = roots[roots >= 0]
    if not np.array_equal(starts[:1], [0][:S]) or (np.diff(starts) <= 0).any() or (starts >= S).any():
        return "trees one after the other"
    if ((trees.feature < 0) | (trees.feature >= d)).any():
        return f"splits on {d} features"
    children = np.concatenate([trees.left, trees.right]).astype(np.int64)
    parents, ends = np.tile(np.arange(S), 2), np.append(starts[1:], S)
    inner = children >= 0
    end = ends[np.searchsorted(starts, parents[inner], side="right") - 1] if S else parents[inner]
    if ((children[inner] <= parents[inner]) | (children[inner] >= end)).any():
        return "splits that come after their parents"
    if not np.array_equal(np.sort(np.concatenate([children[inner], starts])), np.arange(S)):
        return "splits that have one parent each"
    leaves = np.concatenate([children[~inner], roots[roots < 0]])
    if not np.array_equal(np.sort(-1 - leaves), np.arange(L)):
        return "leaves that have one parent each"
    counts = np.diff(trees.first_code.astype(np.int64))
    if (
        trees.first_code[0] != 0
        or trees.first_code[-1] != len(trees.codes)
        or ((counts > 0) != trees.categorical).any()
    ):
        return "categorical splits with their categories"
    return "categories from 0 on" if (counts < 0).any() or (trees.codes < 0).any() else None


_FRAME: dict[type, tuple[str, ...]] = {
    Frame: ("centre", "whitener"),
    KernelFrame: ("centre", "scale", "landmarks", "gamma", "root"),
    UserAxes: ("centre",),
}
SCORES = {
    "MARBoostingClassifier": ScoreFormat(TreeScores, _tree_state, _tree_model),
    "MARKernelClassifier": ScoreFormat(KernelScores, _kernel_state, _kernel_model),
    "MARGaussianMixture": ScoreFormat(GaussianScores, _gaussian_state, _gaussian_model),
    "MARStudentMixture": ScoreFormat(StudentScores, _student_state, _student_model),
    "MARLogisticRegression": ScoreFormat(LinearScores, _linear_state, _linear_model),
}
KINDS: dict[str, tuple[Any, Callable[[Any, Fields], None]]] = {
    "MARBoostingClassifier": (MARBoostingClassifier, _restore_model),
    "MARGaussianMixture": (MARGaussianMixture, _restore_model),
    "MARStudentMixture": (MARStudentMixture, _restore_model),
    "MARKernelClassifier": (MARKernelClassifier, _restore_model),
    "MARLogisticRegression": (MARLogisticRegression, _restore_model),
    "MARClassifierCV": (MARClassifierCV, _restore_cv),
    "StandardScaler": (StandardScaler, _restore_scaler),
}
