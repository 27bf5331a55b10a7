"""Refusals inside scikit-learn: tools that would take a missing label for a class, seen from the estimators that they call.

Many tools of scikit-learn number or sort the labels before they fit, so that -1 or None becomes a class, and an estimator has
no official way to object: the labels that reach it look sound. So an estimator that is called from scikit-learn looks at the
functions that call it (`calls`), up to the first one of another library, and refuses if one of them holds missing labels but
counts every label as a class. A tool that is not on the list of those that work (`WORKING`) counts as one that does not.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import partial, update_wrapper
from inspect import getattr_static, signature
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from marmix.core.labels import as_classes, known_labels

# Modules whose tools pass the labels on as they are, and do not use them otherwise, or score labelled rows only.
WORKING = (
    *("sklearn.base", "sklearn.compose", "sklearn.feature_selection", "sklearn.frozen", "sklearn.inspection"),
    *("sklearn.model_selection", "sklearn.multioutput", "sklearn.pipeline", "sklearn.semi_supervised", "sklearn.utils"),
)
# Exceptions: these need two classes, use labels as features, or transform them.
NOT_WORKING = (
    *("sklearn.model_selection._classification_threshold", "ClassifierChain", "RegressorChain"),
    "TransformedTargetRegressor",
)
SORTING = ("HalvingGridSearchCV", "HalvingRandomSearchCV", "MultiOutputClassifier")  # fail beside None
NUMBERING = ("predict_proba", "predict_log_proba", "decision_function")  # methods of cross_val_predict
WATCHED = ("fit", "predict", *NUMBERING)
PLAIN = ("sklearn", "lightgbm", "xgboost", "catboost")  # libraries whose classifiers take -1 for a class


class Call(NamedTuple):
    """A call of a function of scikit-learn that has not returned."""

    module: str
    name: str
    values: Mapping[str, Any]  # arguments and local variables

    @property
    def tool(self) -> str:
        """The name of the estimator or function that users know."""
        owner = self.values.get("self", self.values.get("ensemble"))
        if owner is not None:
            return type(owner).__name__
        return self.module if self.name.startswith("_") or "<" in self.name else self.name


def calls(frame: FrameType | None) -> Iterator[Call]:
    """The calls of scikit-learn that led to a frame, innermost first, up to the first caller of another library."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("sklearn.", "joblib.")):
            return
        if module.startswith("sklearn."):
            yield _call(module, frame)
        frame = frame.f_back


def _call(module: str, frame: FrameType) -> Call:
    """A frame as a call; the wrappers that validate parameters still have the arguments as the user gave them."""
    values = frame.f_locals
    function = values.get("fit_method", values.get("func"))
    if frame.f_code.co_name != "wrapper" or not callable(function):
        return Call(module, frame.f_code.co_qualname, values)
    first = (values["estimator"],) if "fit_method" in values else ()
    try:
        arguments = signature(function).bind_partial(*first, *values["args"], **values["kwargs"]).arguments
    except (KeyError, TypeError):
        arguments = {}
    return Call(function.__module__, function.__qualname__, arguments)


class InsideScikitLearn:
    """Base class of classifiers that take missing labels, and refuse to be fitted or asked where these count as a class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for name in WATCHED:
            method = getattr_static(cls, name, None)
            if method is not None and not isinstance(method, _Watched):
                setattr(cls, name, _Watched(method))
        super().__init_subclass__(**kwargs)

    def __sklearn_clone__(self) -> Any:
        check_calls(self, sys._getframe(1))
        return super().__sklearn_clone__()  # type: ignore[misc]


class _Watched:
    """A method that checks the callers when it is looked up, which many tools do before they touch the labels."""

    def __init__(self, method: Any):
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is not None:
            check_calls(estimator, sys._getframe(1))
        return self.method.__get__(estimator, owner)


def check_calls(estimator: Any, frame: FrameType | None) -> None:
    """Raise ValueError if a tool of scikit-learn that calls the estimator counts missing labels as a class."""
    stack = list(calls(frame))
    if not stack or any(call.module == "sklearn.utils._available_if" for call in stack):
        return  # in the second case a refusal would be reported as a missing method
    named = getattr(estimator, "classes", None)
    try:
        classes = np.empty(0) if named is None else as_classes(named)
    except ValueError:
        return  # which the fit says itself
    for i, call in enumerate(stack):
        around = (outer.tool for outer in stack[i:] if outer.module == call.module and outer.tool != outer.module)
        refusal = _refusal(call, next(around, call.tool), estimator, classes)
        if refusal is not None:
            raise ValueError(refusal)


def _refusal(call: Call, tool: str, estimator: Any, classes: Any) -> str | None:
    """Why a call of scikit-learn, of a tool of this name, would be misled, and what to do; None if it would not."""
    values, owner = call.values, call.values.get("self")
    y = values.get("y_true", values.get("y"))
    if "test" in values:
        search = values.get("fit_and_score_kwargs", {})
        scorers = values.get("scorer", values.get("scorers", search.get("scorer")))
        complete = not (search and values.get("parameters"))  # a search may still set the link
        of_all_rows = any(getattr(scorer, "missingness", 0) is None for scorer in _members(scorers))
        if of_all_rows and complete and not _has_q(estimator):
            return (
                f"{type(estimator).__name__} has no missing_proba, which scores of the population need. Use a scorer of "
                "scikit-learn with cv=StratifiedPartialLabelKFold(), or population_scorer(..., missingness=...)."
            )
        scorer = next(_plain_scorers(scorers), None)
        if scorer is not None and _has_missing(y, classes, values["test"]):
            return _scorer_words(scorer, estimator)
    if call.module.startswith("sklearn.metrics."):
        scorer = next(_plain_scorers(owner), None) if hasattr(owner, "_score_func") else call.tool
        return _scorer_words(scorer, estimator) if scorer is not None and _has_missing(y, classes) else None
    if call.name == "cross_val_predict":
        numbers = values.get("method") in NUMBERING and _has_missing(y, classes)
        return _tool_words(f"cross_val_predict(method={values['method']!r})", estimator) if numbers else None
    if isinstance(owner, Pipeline):
        name = next((name for _, step in owner.steps[:-1] for name in learners(step)), None)
        return _learner_words(name) if name is not None and _has_missing(y, classes) else None
    sorter = call.tool if call.tool in SORTING else _stratifier(values.get("cv", getattr(owner, "cv", None)))
    if sorter is not None and np.asarray(y).dtype == object and _has_missing(y, classes):
        return f"{sorter} cannot sort missing labels: write the classes as whole numbers, and -1 where missing."
    return _tool_words(tool, estimator) if not _works(call) and _counts_missing(call, classes) else None


def check_unlabelled_rows(frame: FrameType | None) -> None:
    """Raise ValueError if a tool changes the rows, or leaves out classes, before they are joined with unlabelled rows."""
    for call in calls(frame):
        tool = call.values.get("self")
        if "OneVsOne" in call.tool or call.name == "_fit_ovo_binary":
            raise ValueError(
                "OneVsOneClassifier fits two classes at a time, but unlabelled rows are of all classes: fit the estimator to all "
                "classes at once, or use OneVsRestClassifier."
            )
        if isinstance(tool, Pipeline) and any(step not in (None, "passthrough") for _, step in tool.steps[:-1]):
            raise ValueError(
                "WithUnlabelled is a step of a Pipeline, whose other steps do not transform its unlabelled rows: put the "
                "pipeline inside, WithUnlabelled(make_pipeline(...), X_unlabelled)."
            )


def codes_with_minus_one(frame: FrameType | None) -> bool:
    """Whether the labels are codes of `OutputCodeClassifier`, of which -1 is one."""
    return any(call.module == "sklearn.multiclass" for call in calls(frame))


def classes_cross_validated(frame: FrameType | None) -> Any:
    """The classes that are named in the classifier that scikit-learn cross-validates, if so."""
    for call in calls(frame):
        estimator = _estimator_of(call)
        while estimator is not None:
            if isinstance(estimator, Pipeline):
                estimator = estimator.steps[-1][1]
            named = getattr(estimator, "classes", None) if isinstance(estimator, InsideScikitLearn) else None
            if named is not None:
                return named
            estimator = getattr(estimator, "estimator", None)
    return None


def _estimator_of(call: Call) -> Any:
    """The estimator that a tool fits."""
    return call.values.get("estimator", getattr(call.values.get("self"), "estimator", None))


def check_cross_validated(frame: FrameType | None) -> None:
    """Raise ValueError if the classifier that scikit-learn cross-validates would learn missing labels as a class."""
    for call in calls(frame):
        if call.name == "cross_val_predict":
            raise ValueError(
                "cross_val_predict predicts every row once, but these folds test labelled rows only: pass it X[labelled], "
                "y[labelled], and marmix.WithUnlabelled(estimator, X[~labelled])."
            )
        tool = _estimator_of(call)
        for name in learners(tool):
            raise ValueError(_learner_words(name))
        if tool is not None:
            return


def learners(estimator: Any) -> Iterator[str]:
    """Names of the classifiers and transformers in an estimator that learn missing labels as a class."""
    package, *modules = type(estimator).__module__.split(".")
    if isinstance(estimator, InsideScikitLearn) or "semi_supervised" in modules or not hasattr(estimator, "get_params"):
        return
    parameters = estimator.get_params(deep=False)
    members = [parameters.get("estimator")]
    for name in ("estimators", "steps", "transformers", "transformer_list"):
        members += [member[1] for member in parameters.get(name) or ()]
    if any(hasattr(member, "fit") for member in members):
        for member in members:
            yield from learners(member)
    elif package in PLAIN and (
        is_classifier(estimator)
        or get_tags(estimator).target_tags.required
        or "score_func" in parameters  # SelectKBest and its kin
        or "cross_decomposition" in modules
    ):
        yield type(estimator).__name__


def _stratifier(cv: Any) -> str | None:
    """Name of a splitter of scikit-learn that stratifies by the labels."""
    name = type(cv).__name__
    return name if type(cv).__module__ == "sklearn.model_selection._split" and "Stratified" in name else None


def _works(call: Call) -> bool:
    return call.module.startswith(WORKING) and not (call.module in NOT_WORKING or call.tool in NOT_WORKING)


def _counts_missing(call: Call, classes: Any) -> bool:
    """Whether missing labels are among the labels or the classes of a call."""
    owners = (call.values.get("self"), call.values.get("ensemble"))
    labels = (*(call.values.get(name) for name in ("y", "y_true", "classes")), *map(_classes_of, owners))
    return any(_has_missing(values, classes) for values in labels)


def _classes_of(tool: Any) -> Any:
    try:
        return getattr(tool, "classes_", None)
    except Exception:  # a property of an unfitted tool
        return None


def _has_missing(y: Any, classes: Any, rows: Any = None) -> bool:
    """Whether some of these rows have a missing label."""
    if isinstance(y, list | tuple):
        y = np.asarray(y, dtype=object)
    dimensions = len(getattr(y, "shape", ()))
    if dimensions not in (1, 2) or hasattr(y, "tocsr"):
        return False
    columns = list(np.asarray(y).T) if dimensions == 2 else [y]
    labelled = np.all([known_labels(column, classes)[0] for column in columns], axis=0)
    return not (labelled if rows is None else labelled[rows]).all()


def _members(scorer: Any) -> Iterator[Any]:
    """The scorers in a scorer, a dictionary of scorers or a scorer of several metrics."""
    if type(scorer).__module__ == "sklearn.metrics._scorer" and hasattr(scorer, "_scorers"):
        scorer = scorer._scorers
    if isinstance(scorer, dict):
        for member in scorer.values():
            yield from _members(member)
    else:
        yield scorer


def _plain_scorers(scorers: Any) -> Iterator[str]:
    """Names of the metrics of scikit-learn in a scorer, or in several."""
    for scorer in _members(scorers):
        if type(scorer).__module__ == "sklearn.metrics._scorer":
            function: Any = getattr(scorer, "_score_func", None)
            while isinstance(function, partial) or hasattr(function, "__wrapped__"):
                if getattr(function, "__module__", "").startswith("sklearn."):
                    break
                function = function.func if isinstance(function, partial) else function.__wrapped__
            if function is not None and getattr(function, "__module__", "").startswith("sklearn."):
                yield function.__name__


def _has_q(estimator: Any) -> bool:
    return hasattr(estimator, "missing_proba")


def _learner_words(name: str) -> str:
    return (
        f"{name} would learn missing labels as a class: use marmix.LabelledRows({name}(...)) in its place, which is fitted to "
        "the labelled rows."
    )


def _scorer_words(name: str, estimator: Any) -> str:
    other = ", or a scorer of marmix, such as scoring='marmix_accuracy'" if _has_q(estimator) else ""
    return (
        f"{name} of scikit-learn counts missing labels as a class. Use cv=StratifiedPartialLabelKFold(), which scores labelled "
        f"rows only{other}."
    )


def _tool_words(tool: str, estimator: Any) -> str:
    name = type(estimator).__name__
    if name == "LabelledRows":
        return (
            f"{tool} takes missing labels for a class. Pass it X[labelled], y[labelled] and the classifier without LabelledRows, "
            "or put LabelledRows around all of it."
        )
    return (
        f"{tool} takes missing labels for a class. Pass it X[labelled], y[labelled] and, in place of {name}(...), "
        f"marmix.WithUnlabelled({name}(...), X[~labelled])."
    )
