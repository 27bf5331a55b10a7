"""A `FittedModel` as plain values, and back, every field checked."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from marmix.container.fields import Fields
from marmix.container.format import ContainerError
from marmix.estimators.validation import check_parameters
from marmix.likelihood import ScoreModel
from marmix.mechanism import Mechanism
from marmix.mechanism.measures import MEASURES
from marmix.model import FittedModel
from marmix.moments import GroupMoments
from marmix.notes import SENTENCES, Note
from marmix.rows import Frame
from marmix.scores.covariance import STRUCTURES, structure
from marmix.scores.gaussian import Gaussians, GaussianScores
from marmix.scores.linear import LinearScores

# Shapes of covariance factors: C components, d features.
_FACTORS = {"full": "Cdd", "tied": "dd", "diag": "Cd", "spherical": "C"}

_ROUNDING = 1e-6  # by which numbers that follow from others may differ from those in a file


class ScoreFormat(NamedTuple):
    """How a type of score model and its parameters are written, and read for K classes and d features."""

    type: type[Any]
    write: Callable[[Any, Any], dict[str, Any]]
    read: Callable[[Fields, int, int], tuple[ScoreModel, Any]]


def state_of_fit(model: FittedModel, scores: ScoreFormat) -> dict[str, Any]:
    """A fitted model as plain values."""
    if not isinstance(model.score_model, scores.type):
        raise ValueError(f"a {model.score_model.words} cannot be saved.")
    state = {
        "n_features_in_": model.n_features,
        "classes_": model.classes,
        "_frame": {"centre": model.frame.centre, "whitener": model.frame.whitener},
        "_measure": model.uncertainty,
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


def restore_fit(estimator: Any, fitted: Fields, scores: ScoreFormat) -> None:
    """Give an estimator the fitted model of a file."""
    check_parameters(estimator.get_params())
    d, features = read_features(fitted)
    classes = fitted.labels("classes_")
    K = len(classes)
    frame = fitted.part("_frame")
    centre, whitener = frame.floats("centre", d), frame.floats("whitener", d, d)
    frame.finish()
    measure = fitted.text("_measure", MEASURES)
    columns = fitted.wholes("_columns", 0, d - 1)
    if len(set(columns)) < len(columns):
        raise fitted.refuse("_columns", "a list of different columns")
    score_model, theta = scores.read(fitted, K, d)
    entropy = fitted.anything("_entropy")
    if entropy is not None and not isinstance(entropy, float):
        raise fitted.refuse("_entropy", "a number or null")
    rows = fitted.part("_fingerprint")
    moments = rows.floats("weight", K + 1), rows.floats("mean", K + 1, d), rows.floats("scatter", K + 1, d, d)
    rows.finish()
    model = FittedModel(
        score_model=score_model,
        theta=theta,
        frame=Frame(centre, whitener),
        uncertainty=measure,
        mechanism=_mechanism(fitted, measure, 2 + len(columns)),
        columns=columns,
        tempering=fitted.number("_tempering", 0.0),
        classes=classes,
        n_features=d,
        features=features,
        moments=GroupMoments(*moments),
        loglik_ignorable=fitted.number("loglik_ignorable_"),
        loglik_missing=fitted.number("loglik_missing_"),
        trace=fitted.floats("trace_", -1, finite=False),
        converged=fitted.flag("converged_"),
        n_iter=fitted.whole("n_iter_"),
        n_passes=fitted.whole("n_passes_"),
        notes=read_notes(fitted, K, d),
        entropy=entropy,
    )
    _check_derived(fitted, model)
    fitted.finish()
    _try(model)
    estimator.model_ = model


def _derived(model: FittedModel) -> dict[str, Any]:
    """What follows from the rest of a fitted model, written for other programs that read the file."""
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
    """Refuse a file whose derived values are not those of its model."""
    for name, expected in _derived(model).items():
        value = fitted.anything(name)
        if expected is None or name == "component_classes_":
            agrees = type(value) is type(expected) and np.array_equal(value, expected)
        else:
            double = isinstance(value, float) or getattr(value, "dtype", None) == np.float64
            agrees = double and np.shape(value) == np.shape(expected)
            agrees = agrees and np.allclose(value, expected, rtol=_ROUNDING, atol=1e-300, equal_nan=True)
        if not agrees:
            raise fitted.refuse(name, "what follows from the rest of the model")


def read_features(fitted: Fields) -> tuple[int, Any]:
    """The number of features, and their names if they have any."""
    d = int(fitted.whole("n_features_in_", 1, 2**20))
    return d, fitted.names("feature_names_in_", d) if fitted.has("feature_names_in_") else None


def _mechanism_state(mechanism: Mechanism | None) -> dict[str, Any] | None:
    if mechanism is None:
        return None
    names = ("uncertainty", "shape", "share", "free_shape", "free_share")
    return {"alpha": list(mechanism.alpha)} | {name: getattr(mechanism, name) for name in names}


def _mechanism(fitted: Fields, measure: str, size: int) -> Mechanism | None:
    value = fitted.anything("mechanism_")
    if value is None:
        return None
    fields = Fields(value, f"{fitted.where}, mechanism_")
    alpha = fields.anything("alpha")
    if not isinstance(alpha, list) or len(alpha) != size or not all(isinstance(slope, float) for slope in alpha):
        raise fields.refuse("alpha", f"a list of {size} numbers")
    if not np.isfinite(alpha[1:]).all() or not (np.isfinite(alpha[0]) or alpha[0] == -np.inf):
        raise fields.refuse("alpha", "finite")
    shape, share = fields.number("shape"), fields.number("share", 0.0)
    if not (0.0 <= shape < np.inf or (np.isnan(shape) and alpha[0] == -np.inf)):
        raise fields.refuse("shape", "a finite number from 0 on")
    if not share < 1.0:
        raise fields.refuse("share", "below 1")
    if fields.text("uncertainty", MEASURES) != measure:
        raise fields.refuse("uncertainty", f"{measure!r}, the measure of the model")
    mechanism = Mechanism(measure, tuple(alpha), shape, share, fields.flag("free_shape"), fields.flag("free_share"))
    fields.finish()
    return mechanism


def read_notes(fitted: Fields, K: int, d: int) -> list[Note]:
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
        for name, most in (("classes", K), ("columns", d)):
            if details.has(name):
                details.wholes(name, 0, most - 1)
        try:
            SENTENCES[note.code].format(**note.values)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError):
            raise fitted.refuse("notes_", "a list of notes with their values") from None
        notes.append(note)
    return notes


def _try(model: FittedModel) -> None:
    """Predict one row, the mean of all: what the file says must give probabilities."""
    row = model.frame.centre[None, :]
    with np.errstate(all="ignore"):
        sound = bool(np.isfinite(model.scores(row)).all() and np.isfinite(model.measure(row)).all())
        if model.has_mechanism:
            sound = sound and bool(0.0 <= model.missing_proba(row)[0] <= 1.0)
    if not sound:
        raise ContainerError("the parameters in the file give no probabilities: they are damaged or made up.")


# Score models.


def _gaussian_state(model: GaussianScores, theta: Gaussians) -> dict[str, Any]:
    return {
        "_covariance_type": model.structure.name,
        "_model": {"counts": model.counts, "floor": model.floor},
        "_theta": theta._asdict(),
    }


def _gaussian_model(fitted: Fields, K: int, d: int) -> tuple[ScoreModel, Any]:
    kind = fitted.text("_covariance_type", STRUCTURES)
    fields = fitted.part("_model")
    counts, floor = fields.wholes("counts", 1, 2**20), fields.number("floor", 0.0)
    fields.finish()
    parameters = fitted.part("_theta")
    mu = parameters.floats("mu", -1, d)
    C = len(mu)
    if len(counts) != K or sum(counts) != C:
        raise fitted.refuse("_model", f"about {K} classes and {C} components")
    shape = [{"C": C, "d": d}[side] for side in _FACTORS[kind]]
    theta = Gaussians(parameters.floats("log_pi", C), mu, parameters.floats("chol", *shape))
    parameters.finish()
    return GaussianScores(structure(kind, d), counts, floor), theta


def _linear_state(model: LinearScores, theta: Any) -> dict[str, Any]:
    names = ("degree", "C", "centre", "scale", "information")
    return {"_model": {name: getattr(model, name) for name in names}, "_theta": theta}


def _linear_model(fitted: Fields, K: int, d: int) -> tuple[ScoreModel, Any]:
    fields = fitted.part("_model")
    degree, C = fields.whole("degree", 1, 2), fields.number("C")
    if not C > 0.0:
        raise fields.refuse("C", "positive")
    p, V = 1 + d + (d * (d + 1) // 2 if degree == 2 else 0), 1 if K == 2 else K
    information = fields.floats("information", p, p)
    centre, scale = fields.floats("centre", d), fields.floats("scale", d)
    fields.finish()
    if not (scale > 0.0).all():
        raise fields.refuse("scale", "positive")
    model = LinearScores(d, K, degree, C, centre, scale)
    model.information = information
    return model, fitted.floats("_theta", V, p)


GAUSSIAN = ScoreFormat(GaussianScores, _gaussian_state, _gaussian_model)
LINEAR = ScoreFormat(LinearScores, _linear_state, _linear_model)
