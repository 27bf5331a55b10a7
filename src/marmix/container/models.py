"""Models that can be saved, as plain values, and back.

A class is found by its name in a table here: nothing is imported, called or evaluated because a file says so.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from marmix.container.fields import Fields
from marmix.container.fits import GAUSSIAN, LINEAR, ScoreFormat, read_features, read_notes, restore_fit, state_of_fit
from marmix.container.format import ContainerError, Encoder
from marmix.estimators import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.estimators.choice import Gain
from marmix.evaluation import Score

# Answers about the rows of the fit: they would grow with the rows, and rows may be private.
OF_ROWS = ("transduction_", "held_out_proba_", "missing_proba_", "reference_proba_")

CAN_BE_SAVED = (
    "MARGaussianMixture, MARLogisticRegression, MARClassifierCV, and pipelines that end in one of them after StandardScaler or "
    "marmix.tables.preparation.Preparation"
)

_ENDS = (MARGaussianMixture, MARLogisticRegression, MARClassifierCV)


class Kind(NamedTuple):
    """A class whose objects can be saved, what restores its fitted attributes, and the format of its score model if any."""

    type: Any
    restore: Callable[[Any, Fields], None]
    scores: ScoreFormat | None = None


def state_of(estimator: Any, fitted: bool = True) -> dict[str, Any]:
    """An estimator as plain values; `fitted` is False for one that is a parameter of another."""
    kind = type(estimator)
    name = kind.__name__
    if kind is Pipeline:
        return {"class": name, "steps": _steps(estimator, fitted), "verbose": estimator.verbose}
    if not _is_preparation(estimator) and (name not in KINDS or KINDS[name].type is not kind):
        raise ValueError(f"{kind.__module__}.{name} cannot be saved: {CAN_BE_SAVED} can.")
    parameters = estimator.get_params(deep=False)
    if callable(parameters.get("uncertainty")):
        raise ValueError(
            f"the uncertainty of this {name} is a function of your own, and code cannot be saved: fit with one of the "
            "measures that have a name, or keep the code and fit again."
        )
    scores = None if _is_preparation(estimator) else KINDS[name].scores
    state: dict[str, Any] = {"class": name, "parameters": parameters}
    if scores is not None:
        if not fitted:
            return state
        check_is_fitted(estimator)
        unknown = set(vars(estimator)) - {*parameters, *OF_ROWS, "model_"}
        if unknown:
            raise ValueError(
                f"this {name} cannot be saved: it has the attribute {min(unknown)!r}, which is not marmix's."
            )
        return state | {"fitted": state_of_fit(estimator.model_, scores)}
    own = {key: value for key, value in sorted(vars(estimator).items()) if key not in {*parameters, *OF_ROWS}}
    if isinstance(parameters.get("estimators"), Mapping):
        parameters["estimators"] = {key: state_of(est, False) for key, est in parameters["estimators"].items()}
    if not fitted:
        return state
    if "estimators_" in own:
        own["estimators_"] = {key: state_of(est) for key, est in own["estimators_"].items()}
        own["notes_"] = [note._asdict() for note in own.pop("note_records_")]
    return state | {"fitted": {key: _plain(value) for key, value in own.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Score):
        return asdict(value)
    return value._asdict() if isinstance(value, Gain) else value


def _steps(pipeline: Pipeline, fitted: bool) -> list[Any]:
    *first, (_, last) = pipeline.steps
    wrong = [step for _, step in first if type(step) is not StandardScaler and not _is_preparation(step)]
    if wrong or type(last) not in _ENDS:
        step = wrong[0] if wrong else last
        raise ValueError(f"a pipeline with {type(step).__name__} as a step cannot be saved: {CAN_BE_SAVED} can.")
    if pipeline.memory is not None or getattr(pipeline, "transform_input", None) is not None:
        raise ValueError("a pipeline with memory= or transform_input= cannot be saved: set_params(memory=None) first.")
    return [[name, state_of(step, fitted)] for name, step in pipeline.steps]


def _is_preparation(step: Any) -> bool:
    return type(step).__name__ == "Preparation" and type(step).__module__ == "marmix.tables.preparation"


def estimator_of(state: Any, fitted: bool = True, depth: int = 0) -> Any:
    """The estimator that a state describes, every field of it checked."""
    if depth > 4:
        raise ContainerError("the file has models in models too deep.")
    about = Fields(state, "the model")
    name = about.text("class")
    about.where = name[:50]
    if name == "Pipeline":
        return _pipeline(about, fitted, depth)
    kind = _preparation() if name == "Preparation" else KINDS.get(name)
    if kind is None:
        raise ContainerError(f"the file holds a {name[:50]!r}, which this version of marmix does not know.")
    parameters = about.anything("parameters")
    if not isinstance(parameters, dict):
        raise about.refuse("parameters", "a list of parameters by name")
    known = kind.type().get_params(deep=False)
    unknown = [key for key in parameters if key not in known]
    if unknown:
        raise ContainerError(
            f"{name} has the parameter {str(unknown[0])[:50]!r} in the file, which this version of marmix does not know: upgrade."
        )
    if isinstance(parameters.get("estimators"), dict):
        own = parameters["estimators"]
        parameters["estimators"] = {key: estimator_of(value, False, depth + 1) for key, value in own.items()}
    estimator = kind.type(**parameters)
    if fitted:
        kind.restore(estimator, about.part("fitted"))
    about.finish()
    return estimator


def input_of(model: Any) -> dict[str, Any]:
    """What a reader of the file wants to know first: the class, the classes it tells apart, and the features it takes."""
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


def width_of(step: Any) -> int:
    """How many columns a fitted transformer gives."""
    return len(step.get_feature_names_out())


def _pipeline(about: Fields, fitted: bool, depth: int) -> Pipeline:
    listed, steps = about.anything("steps"), list[tuple[str, Any]]()
    if not isinstance(listed, list) or not 0 < len(listed) <= 20:
        raise about.refuse("steps", "a list of steps")
    for entry in listed:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
            raise about.refuse("steps", "a list of names and steps")
        steps.append((entry[0], estimator_of(entry[1], fitted, depth + 1)))
    names, objects = [name for name, _ in steps], [step for _, step in steps]
    if any(type(step) in _ENDS or type(step) is Pipeline for step in objects[:-1]) or type(objects[-1]) not in _ENDS:
        raise about.refuse("steps", "a list of transformers that ends in a classifier")
    if fitted and any(width_of(a) != b.n_features_in_ for a, b in pairwise(objects)):
        raise about.refuse("steps", "a list of steps whose numbers of features agree")
    pipeline = Pipeline(steps, verbose=about.flag("verbose"))
    pipeline._validate_names(names)
    about.finish()
    return pipeline


def _restore_features(estimator: Any, fitted: Fields) -> int:
    """Set the number of features, and their names if they have any."""
    estimator.n_features_in_, names = read_features(fitted)
    if names is not None:
        estimator.feature_names_in_ = names
    return int(estimator.n_features_in_)


def _fit_reader(scores: ScoreFormat) -> Callable[[Any, Fields], None]:
    return lambda estimator, fitted: restore_fit(estimator, fitted, scores)


def _restore_scaler(scaler: StandardScaler, fitted: Fields) -> None:
    d = _restore_features(scaler, fitted)
    kept = {"mean_": scaler.with_mean or scaler.with_std, "var_": scaler.with_std, "scale_": scaler.with_std}
    for name, there in kept.items():
        value = fitted.floats(name, d) if there else fitted.anything(name)
        if not there and value is not None:
            raise fitted.refuse(name, "null")
        setattr(scaler, name, value)
    if scaler.scale_ is not None and not (scaler.scale_ > 0.0).all():
        raise fitted.refuse("scale_", "positive")
    scaler.n_samples_seen_ = fitted.anything("n_samples_seen_")
    if not isinstance(scaler.n_samples_seen_, int | float | np.generic | np.ndarray):
        raise fitted.refuse("n_samples_seen_", "a number")
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
    candidates, weights = fitted.anything("estimators_"), fitted.anything("weights_")
    if not isinstance(candidates, dict) or not isinstance(weights, dict) or list(candidates) != list(weights):
        raise fitted.refuse("weights_", "a weight for each candidate")
    shares = list(weights.values())
    if not all(isinstance(share, float) and 0.0 <= share <= 1.0 for share in shares) or abs(sum(shares) - 1.0) > 1e-6:
        raise fitted.refuse("weights_", "weights that sum to one")
    estimator.estimators_ = {name: estimator_of(state, depth=1) for name, state in candidates.items()}
    estimator.weights_ = weights
    numbers = np.arange(len(estimator.classes_))
    for pipeline in estimator.estimators_.values():
        if type(pipeline) is not Pipeline or pipeline[0].n_features_in_ != d:
            raise fitted.refuse("estimators_", f"pipelines for {d} features")
        if not np.array_equal(pipeline[-1].classes_, numbers):
            raise fitted.refuse("estimators_", f"fitted to {len(numbers)} classes")
    estimator.note_records_, estimator.verdict_ = read_notes(fitted, len(numbers), d), fitted.text("verdict_")
    score, comparison = _numbers(fitted, "score_", Score), _numbers(fitted, "comparison_", Gain)
    estimator.score_, estimator.comparison_ = score, comparison
    estimator.results_ = _results(fitted, len(weights))
    fitted.finish()


def _numbers(fitted: Fields, name: str, kind: Any) -> Any:
    """An object that is a few named numbers, or None."""
    value = fitted.anything(name)
    if value is None:
        return None
    about = Fields(value, f"{fitted.where}, {name}")
    found = kind(**{field: about.number(field) for field in kind.__annotations__})
    about.finish()
    return found


def _results(fitted: Fields, size: int) -> dict[str, Any]:
    """The table of candidates: their names, whether they model the missingness, and numbers."""
    table = fitted.anything("results_")
    kinds = {"candidate": "U", "mechanism": "b"}
    if (
        not isinstance(table, dict)
        or not {*kinds, "weight"} <= set(table)
        or not all(isinstance(column, np.ndarray) and column.shape == (size,) for column in table.values())
        or any(column.dtype.kind != kinds.get(name, "f") for name, column in table.items())
    ):
        raise fitted.refuse("results_", f"a table of {size} candidates")
    return dict(table)


def _restore_preparation(step: Any, fitted: Fields) -> None:
    step.n_features_in_, step.n_rows_ = fitted.whole("n_features_in_", 1), fitted.whole("n_rows_", 1)
    step.notes_, step.feature_names_in_ = fitted.texts("notes_"), fitted.texts("feature_names_in_")
    step.columns_ = fitted.anything("columns_")
    names = step.features_in()  # looks at the columns itself
    if len(step.feature_names_in_) != step.n_features_in_ or not set(names) <= set(step.feature_names_in_):
        raise fitted.refuse("columns_", "among the features")
    if len(set(names)) < len(names) or step.impute not in ("median", "drop"):
        raise fitted.refuse("columns_", "a list of different columns")
    fitted.finish()


def _preparation() -> Kind:
    from marmix.tables.preparation import Preparation

    return Kind(Preparation, _restore_preparation)


KINDS = {
    "MARGaussianMixture": Kind(MARGaussianMixture, _fit_reader(GAUSSIAN), GAUSSIAN),
    "MARLogisticRegression": Kind(MARLogisticRegression, _fit_reader(LINEAR), LINEAR),
    "MARClassifierCV": Kind(MARClassifierCV, _restore_cv),
    "StandardScaler": Kind(StandardScaler, _restore_scaler),
}
