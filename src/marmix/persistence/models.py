"""The models that can be saved, as plain values and back: `SCORES` and `ATTRIBUTES` say what is written and read.

Classes are looked up by name in these tables: nothing in a file is imported, called or evaluated.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from marmix.audit import AuditedClassifier
from marmix.audit.learning import Recalibration
from marmix.core.covariance import STRUCTURES, structure
from marmix.core.frames import Frame, KernelFrame, UserAxes
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.core.linear import KernelScores, LinearScores
from marmix.core.measures import MEASURES
from marmix.core.mechanism import Mechanism
from marmix.core.model import FittedModel
from marmix.core.moments import GroupMoments
from marmix.core.notes import SENTENCES, Note
from marmix.core.student import Students, StudentScores
from marmix.core.trees import Trees, TreeScores
from marmix.estimators import (
    MARBoostingClassifier,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.estimators.companions import Forest, Spreading
from marmix.estimators.validation import MOST_FEATURES
from marmix.evaluation import Score
from marmix.evaluation.joint import Range
from marmix.evaluation.verdict import STATES, Verdict
from marmix.persistence.checks import (
    Check,
    ContainerError,
    Record,
    among,
    array,
    by_name,
    checked,
    each,
    flag,
    floats,
    labels,
    length,
    names,
    number,
    of,
    optional,
    real,
    text,
    whole,
)
from marmix.selection.average import MARClassifierCV
from marmix.selection.comparison import Comparison, Gain, Overlap
from marmix.tables import Encoder, Preparation


class ScoreFormat(NamedTuple):
    """What is saved of a `FittedModel` whose scores are of one kind.

    Shapes are in d features, K classes, C components, s axes of the fit and p coefficients; see `array`.
    """

    frame: Record
    theta: Check
    make: Callable[..., Any]  # the score model with parameters theta, for s axes and K classes, with these fields
    fields: Mapping[str, Check]


def _mixture(kind: Any, theta: Any, size: int, n_classes: int, covariance_type: str, **fields: Any) -> Any:
    counts = fields["counts"]
    if size > MOST_FEATURES or len(counts) != n_classes or sum(counts) != len(theta.mu):
        raise ContainerError("its number of features or components is not that of its means, or too large.")
    return kind(structure(covariance_type, size), **fields)


def _regression(kind: Any, theta: Any, size: int, n_classes: int, information: Any, **fields: Any) -> Any:
    scores = kind(size, n_classes, **fields)
    scores.information = information
    return scores


_AXES = Record(Frame, {"centre": floats("d"), "whitener": floats("dd", "d")})
_KERNEL_AXES: dict[str, Check] = {
    "centre": floats("d"),
    "scale": floats("d"),
    "landmarks": floats("md"),
    "gamma": number,
    "root": floats("sm"),
}
_MIXTURE_FIELDS: dict[str, Check] = {"covariance_type": among(STRUCTURES), "counts": each(whole), "floor": number}
_GAUSSIANS = {"log_pi": floats("C"), "mu": floats("Cd"), "chol": floats()}
_PENALTY: dict[str, Check] = {"C": real, "information": floats("pp", "p")}
_TREES = {
    **dict.fromkeys(("feature", "left", "right"), array("i", "S")),
    **dict.fromkeys(("threshold", "gain"), floats("S")),
    **dict.fromkeys(("default_left", "categorical"), array("b", "S")),
    "baseline": floats("V"),
    "value": floats("L"),
    "roots": array("i", "R"),
    "first_code": array("i", "F"),
    "codes": array("i", "N"),
}

SCORES: dict[type, ScoreFormat] = {
    MARGaussianMixture: ScoreFormat(
        _AXES, Record(Gaussians, _GAUSSIANS), partial(_mixture, GaussianScores), _MIXTURE_FIELDS
    ),
    MARStudentMixture: ScoreFormat(
        _AXES,
        Record(Students, _GAUSSIANS | {"tail": floats("C")}),
        partial(_mixture, StudentScores),
        _MIXTURE_FIELDS | {"dof": of(str, float)},
    ),
    MARLogisticRegression: ScoreFormat(
        _AXES,
        floats("Vp"),
        partial(_regression, LinearScores),
        _PENALTY | {"degree": whole, "centre": floats("d"), "scale": floats("d")},
    ),
    MARKernelClassifier: ScoreFormat(
        Record(KernelFrame, _KERNEL_AXES), floats("Vp"), partial(_regression, KernelScores), _PENALTY
    ),
    MARBoostingClassifier: ScoreFormat(
        Record(UserAxes, {"centre": floats("d")}),
        Record(Trees, _TREES),
        lambda theta, size, n_classes: TreeScores(size, n_classes),
        {},
    ),
}


def _mechanism(alpha: list[float], label: list[float] | None, free_label: bool | None, **fields: Any) -> Mechanism:
    return Mechanism(alpha=tuple(alpha), label=tuple(label or ()), free_label=bool(free_label), **fields)


def _note(value: Any, sizes: dict[str, int]) -> Note:
    """A note; version 1 had its sentence."""
    return Note("text", {"text": value}) if isinstance(value, str) else _NOTE(value, sizes)


def _preparation(state: Any, sizes: dict[str, int]) -> Preparation:
    """A saved preparation of the d features."""
    preparation = estimator_of(state)
    if not isinstance(preparation, Preparation) or len(preparation.get_feature_names_out()) != sizes["d"]:
        raise ValueError("not a preparation of its features")
    return preparation


def _count(value: Any, sizes: dict[str, int]) -> Any:
    """A number or array of NumPy, as scikit-learn has it."""
    return np.asarray(value)[()]


_NOTE = Record(Note, {"code": among(SENTENCES), "values": of(dict)})
_MECHANISM: dict[str, Check] = {
    "measure": among(MEASURES),
    "alpha": each(real),
    "shape": real,
    "share": number,
    "free_shape": flag,
    "free_share": flag,
    "label": optional(each(number)),
    "free_label": optional(flag),
}
_MODEL: dict[str, Check] = {  # of every FittedModel, besides those in its ScoreFormat
    "classes": labels,
    "n_features": length("d"),
    "features": optional(names),
    "measure": among(MEASURES),
    "mechanism": optional(Record(_mechanism, _MECHANISM)),
    "columns": each(whole),
    "tempering": number,
    "moments": Record(GroupMoments, {"weight": floats("G"), "mean": floats("Gd"), "scatter": floats("Gdd", "Gd")}),
    "loglik_ignorable": number,
    "loglik_missing": number,
    "trace": of(np.ndarray),
    "converged": flag,
    "n_iter": whole,
    "n_passes": whole,
    "notes": each(_note),
    "entropy": optional(number),
    "preparation": optional(_preparation),
}


def _verdict(value: Any, sizes: dict[str, int]) -> Verdict | None:
    """A verdict; before version 4 of the format it was a sentence."""
    return None if value is None or isinstance(value, str) else _VERDICT(value, sizes)


def _numbers(kind: type) -> Check:
    """None, or a record of numbers."""
    return optional(lambda value, sizes: kind(**by_name(real)(value, sizes)))


_RANGE = Record(Range, dict.fromkeys(Range._fields, optional(number)))
_VERDICT = Record(
    Verdict,
    {
        "state": among(STATES),
        **dict.fromkeys(("sentence", "next", "command"), text),
        "reasons": each(text),
        "of": whole,
        **dict.fromkeys(("wrong", "hidden"), _RANGE),
        "accept": number,
    },
)
ATTRIBUTES: dict[type, dict[str, Check]] = {  # of estimators that are no FittedModel
    StandardScaler: {
        "n_features_in_": length("d"),
        "feature_names_in_": optional(names),
        **dict.fromkeys(("mean_", "var_", "scale_"), optional(floats("d"))),
        "n_samples_seen_": _count,
    },
    Preparation: {
        "n_features_in_": length("d"),
        "feature_names_in_": each(text),
        "n_rows_": whole,
        "notes_": each(text),
        "columns_": each(of(dict)),
    },
    Encoder: {"n_features_in_": length("d"), "feature_names_in_": optional(names), "fill_": floats("d")},
    Spreading: {
        "n_features_in_": length("d"),
        "classes_": labels,
        "X_": floats("nd"),
        "proba_": floats("nK"),
    },
    Forest: {
        "n_features_in_": length("d"),
        "classes_": labels,
        **dict.fromkeys(("roots_", "depths_"), array("i", "T")),
        "children_": array("i", "PN"),
        "feature_": array("i", "N"),
        "threshold_": floats("N"),
        "proba_": floats("NK"),
    },
    MARClassifierCV: {
        "n_features_in_": length("d"),
        "feature_names_in_": optional(names),
        "preparation_": optional(_preparation),
        "classes_": labels,
        "estimators_": by_name(lambda state, sizes: estimator_of(state)),
        "weights_": by_name(number),
        "prior_offset_": optional(by_name(floats("K"))),
        "results_": by_name(of(np.ndarray)),
        "score_": _numbers(Score),
        **dict.fromkeys(("comparison_", "rival_comparison_"), _numbers(Gain)),
        "overlap_": _numbers(Overlap),
        "verdict_": _verdict,
        "note_records_": each(_note),
    },
}
_AUDITED: dict[str, Check] = {
    "recalibration": Record(Recalibration, {"weights": floats("M"), "offsets": floats("RK"), "slopes": floats("R")}),
    "rate": number,
}
_COMPARISON = {name: name.removesuffix("_") for name in ATTRIBUTES[MARClassifierCV]}  # fields of a `Comparison`
_COMPARISON |= {"n_features_in_": "n_features", "feature_names_in_": "features", "note_records_": "notes"}
_CLASSES: dict[str, type] = {kind.__name__: kind for kind in (*SCORES, *ATTRIBUTES)}


def state_of(estimator: Any, fitted: bool = True) -> dict[str, Any]:
    """An estimator as plain values and arrays; `fitted` is False for an unfitted parameter of another estimator."""
    kind = type(estimator)
    if kind is Pipeline:
        return {"class": "Pipeline", "steps": [[name, state_of(step, fitted)] for name, step in estimator.steps]}
    if kind is AuditedClassifier:
        values = {"recalibration": vars(estimator.recalibration), "rate": estimator.rate}
        return {"class": kind.__name__, "estimator": state_of(estimator.estimator), "fitted": values}
    if kind not in _CLASSES.values():
        raise ValueError(
            f"{kind.__name__} cannot be saved: {', '.join(_CLASSES)} can, and pipelines of them. Frames with gaps and "
            "categories need no step. Of a search save best_estimator_, of wrappers estimator_; use joblib or skops for others."
        )
    parameters = estimator.get_params(deep=False)
    if isinstance(parameters.get("estimators"), Mapping):
        parameters["estimators"] = {name: state_of(est, False) for name, est in parameters["estimators"].items()}
    state = {"class": kind.__name__, "parameters": parameters}
    if not fitted:
        return state
    check_is_fitted(estimator)
    if kind in SCORES:
        values = _model_state(estimator.model_, SCORES[kind])
    elif kind is MARClassifierCV:
        values = {name: getattr(estimator.selection_, field) for name, field in _COMPARISON.items()}
        weights, candidates = values["weights_"], values["estimators_"]
        # spread labels hold all rows, which leave with the file only if the predictions need them
        kept = {
            name for name, weight in weights.items() if weight > 0.0 or not isinstance(candidates[name][-1], Spreading)
        }
        for field in ("weights_", "estimators_", "prior_offset_"):
            values[field] = values[field] and {name: one for name, one in values[field].items() if name in kept}
        values["estimators_"] = {name: state_of(one) for name, one in values["estimators_"].items()}
    else:
        values = {name: getattr(estimator, name) for name in ATTRIBUTES[kind] if hasattr(estimator, name)}
    if values.get(held := "preparation" if kind in SCORES else "preparation_") is not None:
        values[held] = state_of(values[held])
    return state | {"fitted": values}


def estimator_of(state: Any) -> Any:
    """The estimator that a state describes; one without the field "fitted" is not fitted."""
    name = state["class"]
    if name == "Pipeline":
        return _pipeline([(step, estimator_of(inner)) for step, inner in state["steps"]])
    if name == "AuditedClassifier":
        return AuditedClassifier(estimator_of(state["estimator"]), **checked(state["fitted"], _AUDITED, {}))
    if name not in _CLASSES:
        raise ContainerError(f"it holds a {name[:50]!r}, which this version of marmix does not know.")
    kind, parameters = _CLASSES[name], dict(state["parameters"])
    if isinstance(parameters.get("estimators"), dict):
        parameters["estimators"] = {key: estimator_of(inner) for key, inner in parameters["estimators"].items()}
    estimator = kind(**_known_parameters(kind, parameters))
    if "fitted" not in state:
        return estimator
    values = _renamed(kind, state["fitted"])
    if kind in SCORES:
        estimator.model_ = _model_of(values, SCORES[kind])
        return estimator
    attributes = checked(values, ATTRIBUTES[kind], {})
    if kind is MARClassifierCV:
        estimator.selection_ = _comparison({field: attributes[name] for name, field in _COMPARISON.items()})
        return estimator
    for key, value in attributes.items():
        if key in values:
            setattr(estimator, key, value)
    if isinstance(estimator, (Forest, Spreading)) and not _sound(estimator):
        raise ContainerError(f"the arrays of {kind.__name__} do not fit together.")
    return estimator


def _sound(estimator: Any) -> bool:
    """Whether no probability is negative, and trees have nodes that follow their parents and split features that exist."""
    sound = bool((estimator.proba_ >= 0.0).all() and estimator.proba_.any())
    if not isinstance(estimator, Forest):
        return sound
    nodes, children = np.arange(len(estimator.feature_)), estimator.children_
    ranges = (
        (estimator.roots_, len(nodes)),
        (estimator.depths_, len(nodes)),
        (estimator.feature_, estimator.n_features_in_),
    )
    within = all(((values >= 0) & (values < end)).all() for values, end in ranges)
    return sound and within and len(children) == 2 and bool(((children >= nodes) & (children < len(nodes))).all())


def input_of(model: Any) -> dict[str, Any]:
    """The class of a model, the classes it predicts, and the features it takes."""
    first = model[0] if isinstance(model, Pipeline) else model
    first = getattr(first, "preparation_", None) or first
    if isinstance(first, Preparation):
        features = [(column["name"], column["kind"]) for column in first.columns_]
    else:
        numbered = [f"x{i}" for i in range(first.n_features_in_)]
        features = [(str(name), "float64") for name in getattr(first, "feature_names_in_", numbered)]
    return {
        "class": type(model).__name__,
        "classes": model.classes_.tolist(),
        "features": [{"name": name, "dtype": kind} for name, kind in features],
    }


def _pipeline(steps: list[tuple[str, Any]]) -> Pipeline:
    pipeline = Pipeline(steps)
    if len(steps) > 1 and hasattr(pipeline[-1], "feature_names_in_"):  # the classifier was fitted to a frame
        pipeline[:-1].set_output(transform="pandas")
    return pipeline


def _comparison(fields: dict[str, Any]) -> Comparison:
    fields["kept_verdict"] = fields.pop("verdict")
    taken = fields["n_features"], list(range(len(fields["classes"])))
    candidates = fields["estimators"]
    if any((fit.n_features_in_, fit.classes_.tolist()) != taken for fit in candidates.values()):
        raise ContainerError("the features or classes of its candidates do not agree.")
    if list(candidates) != list(fields["weights"]):
        raise ContainerError("'weights_' are not those of its candidates.")
    return Comparison(**fields)


def _model_state(model: FittedModel, scores: ScoreFormat) -> dict[str, Any]:
    return {
        **{name: getattr(model, name) for name in _MODEL},
        "frame": {name: _saved(model.frame, name) for name in scores.frame.fields},
        "score_model": {name: _saved(model.score_model, name) for name in scores.fields},
        "theta": model.theta,
    }


def _saved(part: Any, name: str) -> Any:
    """A field of a frame or a score model."""
    if name == "covariance_type":
        return part.structure.name
    if name == "whitener" and part.factors is not None:  # as a matrix it would be very large for wide data
        return part.factors
    return getattr(part, name)


def _model_of(values: Any, scores: ScoreFormat) -> FittedModel:
    sizes: dict[str, int] = {}
    fields = checked(values, _MODEL | {"frame": scores.frame, "score_model": of(dict), "theta": scores.theta}, sizes)
    settings = checked(fields["score_model"], scores.fields, sizes)
    fields["score_model"] = scores.make(fields["theta"], fields["frame"].size, sizes["K"], **settings)
    model = FittedModel(**fields)
    _probe(model)
    return model


def _probe(model: FittedModel) -> None:
    """Raise an exception if the model gives no probabilities at the means of its classes, or its notes no sentences."""
    rows = model.moments.mean[:-1]
    proba = model.posterior(rows).tau
    missing = 0.0 if model.mechanism is None else model.missing_proba(rows)
    sound = len(proba) == len(model.classes) and np.isfinite(proba).all() and np.isfinite(missing).all()
    if not sound or len(model.sentences) != len(model.notes):
        raise ContainerError("its parameters give no probabilities: they are damaged or made up.")


# Files of earlier versions


def _known_parameters(kind: type, parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the constructor; those of earlier versions that are gone have no effect on a fitted model."""
    if "uncertainty" in parameters:
        parameters["measure"] = parameters.pop("uncertainty")
    known = kind().get_params(deep=False)
    return {name: value for name, value in parameters.items() if name in known}


def _renamed(kind: type, fitted: dict[str, Any]) -> dict[str, Any]:
    """The fitted values under their names since version 3 of the format."""
    if kind is MARClassifierCV and "notes_" in fitted:
        return fitted | {"note_records_": fitted["notes_"]}
    if "_theta" not in fitted:
        return fitted
    renamed = {"n_features_in_": "n_features", "feature_names_in_": "features", "_fingerprint": "moments"}
    values = {renamed.get(name, name.strip("_")): value for name, value in fitted.items()}
    values["score_model"] = settings = {"covariance_type": values.get("covariance_type"), **values["model"]}
    if settings.get("columns"):  # categories of trees, which were no numbers
        categories = dict(zip(settings["columns"], settings["categories"], strict=True))
        values["preparation"] = _of_categories(values["features"].tolist(), categories)
    if values["mechanism"] is not None:
        values["mechanism"] = {"measure": values["measure"], **values["mechanism"]}
    return values


def _of_categories(features: list[str], categories: dict[int, list[Any]]) -> dict[str, Any]:
    """The state of a preparation of numbers and these categories."""
    columns: list[dict[str, Any]] = [
        {"name": name, "kind": "category" if j in categories else "number", "levels": [], "fill": None, "missing": 0}
        | ({"levels": [*map(str, categories[j])]} if j in categories else {})
        for j, name in enumerate(features)
    ]
    fitted = {"columns_": columns, "notes_": [], "n_rows_": 0}
    fitted |= {"feature_names_in_": features, "n_features_in_": len(features)}
    return {"class": "Preparation", "parameters": {"encode": False}, "fitted": fitted}
