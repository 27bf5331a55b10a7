"""The chosen model, fitted to all rows; with the names of the classes, and its parameters with intervals."""

import warnings
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from marmix.inference import Inference, parameters_of
from marmix.journey.answers import BLOCK
from marmix.journey.choosing import Choice
from marmix.mechanism.measures import posterior
from marmix.report.contents import Estimate, MissingnessFacts
from marmix.streams import release

_MOST_PARAMETERS = 1500  # with more, standard errors cost more than they tell
_SIMULATE = 5000  # rows up to which a reference distribution is simulated
_RESAMPLES = 99


class Model(NamedTuple):
    """A fitted model: `numbered` knows the classes as 0, 1, ..., `named` by their names; X is in its units."""

    numbered: Any
    named: Any
    scaler: StandardScaler | None
    X: Any


def fit_model(choice: Choice, X: Any, z: NDArray[np.integer[Any]], classes: NDArray[Any]) -> Model:
    """Fit the chosen model to all rows; X is standardised in place where the model wants it."""
    scaler = standardised(X) if choice.scaled else None
    numbered = clone(choice.estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes_ and converged_ say the same, and go into the report
        numbered.fit(X, z)
    return Model(numbered, named(numbered, classes), scaler, X)


def standardised(X: Any) -> StandardScaler:
    """A scaler fitted to X, which is scaled in place, block by block."""
    scaler = StandardScaler()
    parts = [slice(start, start + BLOCK) for start in range(0, len(X), BLOCK)]
    for part in parts:
        scaler.partial_fit(X[part])
        release(X)
    for part in parts:
        X[part] = scaler.transform(X[part])
        release(X)
    return scaler


def named(numbered: Any, classes: NDArray[Any]) -> Any:
    """A copy of an estimator fitted to numbers of classes that knows the classes by name."""
    other = copy(numbered)
    other.model_ = numbered.model_.renamed(classes)
    vars(other).pop("transduction_", None)
    return other


def inference_of(model: Model, z: NDArray[np.integer[Any]]) -> Inference | str:
    """Inference about the fit, or why there is none."""
    if model.numbered.model_.n_parameters > _MOST_PARAMETERS:
        return f"The model has more than {_MOST_PARAMETERS} parameters: no intervals were computed."
    try:
        return model.numbered.inference(model.X, z)
    except ValueError as error:
        return f"No intervals: {error}"


def estimates(model: Model, result: Inference, features: list[str]) -> list[Estimate]:
    """Parameters with 95 % intervals, the mechanism's first."""
    fitted = result._fitted
    renamed = fitted.model.renamed(model.named.classes_, np.array(features, dtype=object))
    names = parameters_of(renamed, fitted.mechanism, fitted.covariates).names
    of_classes = sum(kind not in ("alpha", "shape", "share") for kind in fitted.parameters.kinds)
    low, high = result.conf_int().T
    found = [
        Estimate(name, float(value), *(_number(x) for x in ends))
        for name, value, *ends in zip(names, result.params, result.bse, low, high, strict=True)
    ]
    return found[of_classes:] + found[:of_classes]


def missingness_facts(model: Model, result: Inference | str) -> MissingnessFacts:
    """Whether labels go missing by how uncertain the classifier is, and how often at both ends."""
    mechanism = model.numbered.mechanism_
    if not np.isfinite(mechanism.alpha[0]):
        return MissingnessFacts(None, None, "", "No label is missing.", None, None)
    toss_up, certain = (float(q) for q in mechanism.missing_proba_of(np.array([_ends(model)])))
    if isinstance(result, str):
        return MissingnessFacts(None, None, "", f"It was not tested. {result}", toss_up, certain)
    p_value, test = _informative(result)
    if p_value is None:
        return MissingnessFacts(
            None, None, test, "It could not be tested: the data do not determine the slope.", toss_up, certain
        )
    less = "less" if certain <= toss_up else "more"
    if p_value < 0.05:
        sentence = f"Labels are missing {less} often where the class is clear."
    else:
        sentence = "There is no evidence that labels are missing more or less often where the class is clear."
    return MissingnessFacts(p_value < 0.05, p_value, test, sentence, toss_up, certain)


def _ends(model: Model) -> list[float]:
    """The model's own measure of uncertainty at a toss-up between all classes, and where one is certain."""
    scores = np.zeros((len(model.named.classes_), 2))
    scores[1:, 1] = -700.0
    return [float(u) for u in model.numbered.mechanism_.measured(posterior(scores)).value]


def _informative(result: Inference) -> tuple[float | None, str]:
    """The p-value of alpha_1 = 0: of the likelihood ratio where there is one at a bearable price, else Wald's."""
    fitted = result._fitted
    few = fitted.n_rows <= _SIMULATE
    free = fitted.mechanism is not None and (fitted.mechanism.free_shape or fitted.mechanism.free_share)
    if few or not free:
        try:
            found = result.test_informative(None if few else False, n_resamples=_RESAMPLES, random_state=0)
            return _number(found.p_value), "likelihood ratio test"
        except ValueError:
            pass  # a penalty, or a mechanism of weight zero: there is no likelihood to compare
    p_value = dict(zip(result.param_names, result.pvalues, strict=True)).get("alpha_1")
    return (None if p_value is None else _number(p_value)), "Wald test with robust standard errors"


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
