"""Summaries of fitted classifiers."""

from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from marmix.core.arrays import AnyArray, Array, Ints
from marmix.core.frames import KernelFrame
from marmix.core.gaussian import GaussianScores
from marmix.core.linear import KernelScores, LinearScores
from marmix.core.links import FREE, link_of_shape
from marmix.core.model import FittedModel
from marmix.inference.tables import Table, listed, number

_FEATURES, _CLASSES, _CANDIDATES, _LETTERS = 8, 6, 20, 24  # most that a table shows, and characters of a name
_CLEAR = 0.99  # posterior of an easy row


class Described:
    """Mixin that adds `summary()`, and to scikit-learn's HTML representation a link to the documentation."""

    _doc_link_module = "marmix"

    @property
    def _doc_link_template(self) -> str:
        """The address of the page, if the package has the project URL `Documentation`."""
        try:
            urls = dict(text.split(", ", 1) for text in metadata("marmix").get_all("Project-URL", []))
        except PackageNotFoundError:
            return ""
        return (
            f"{urls['Documentation']}/api/generated/marmix.{{estimator_name}}.html" if "Documentation" in urls else ""
        )

    def summary(self) -> Table:
        """Table of the data, the model and the estimates; print it, or display it in a notebook.

        Returns
        -------
        Table
            With `as_text`, `as_html` and `frame`, a pandas DataFrame.
        """
        check_is_fitted(self)
        return _of_choice(self) if hasattr(self, "results_") else _of_fit(type(self).__name__, self.model_)  # type: ignore[attr-defined]


# A fitted model


def _of_fit(name: str, model: FittedModel) -> Table:
    total, missing = model.total_weight, model.missing_weight
    ending = "converged" if model.converged else "DID NOT CONVERGE"
    facts = [
        ("rows", f"{_count(total)}, of which {_count(total - missing)} have a label and {_count(missing)} do not"),
        ("features", _features(model.features, model.n_features)),
        ("model", _model_of(model)),
        ("missingness", _mechanism_of(model)),
        ("log-likelihood", _loglik_of(model)),
        ("fit", f"{ending}, {model.n_iter:,} iterations, {model.n_passes:,} passes over the rows"),
    ]
    columns, values, notes = _parameters_of(model)
    if len(columns) > _CLASSES:
        notes.append(f"{_CLASSES} of {len(columns)} columns are shown.")
    title = f"{name}, {len(model.classes)} classes"
    index, rows = [row for row, _ in values], [row[:_CLASSES] for _, row in values]
    return Table(title, columns[:_CLASSES], index, rows, facts, [_in_words(model), *notes, *model.sentences])


def _count(weight: float) -> str:
    return f"{weight:,.0f}" if abs(weight - round(weight)) < 1e-6 else f"{weight:,.1f}"


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _features(features: AnyArray | None, n: int) -> str:
    if features is None:
        return f"{n:,}"
    names = [_short(name) for name in features]
    shown = listed(names) if len(names) <= 5 else f"{', '.join(names[:4])}, ..."
    return f"{len(names):,}: {shown}"


def _model_of(model: FittedModel) -> str:
    words, frame = model.score_model.words, model.frame
    if isinstance(frame, KernelFrame):
        words += f", {len(frame.landmarks):,} landmarks, gamma {number(frame.gamma)} for standardised features"
    return words


def _mechanism_of(model: FittedModel) -> str:
    mechanism = model.mechanism
    if mechanism is None:
        return "ignored"
    if not model.has_mechanism:
        return "no label is missing"
    named = link_of_shape(mechanism.shape)
    if mechanism.free_shape:
        link = f"{FREE.words} link of shape {number(mechanism.shape)}"
    else:
        given = f"{FREE.words} link, shape {number(mechanism.shape)} given"
        link = given if named is FREE else f"{named.name} link"
    slopes = ", ".join(number(a) for a in mechanism.alpha)
    tempered = "" if model.tempering == 1.0 else f", weight {number(model.tempering)} in the fit"
    delta = ""
    if mechanism.label:
        terms = [f"{_short(name)} {number(term)}" for name, term in zip(model.classes, mechanism.label, strict=True)]
        delta = f", label term {', '.join(terms[:_CLASSES])}{' (estimated)' if mechanism.free_label else ' (given)'}"
    return f"{mechanism.measured.name}, {link}, alpha {slopes}{delta}{tempered}"


def _loglik_of(model: FittedModel) -> str:
    if not model.has_mechanism:
        return f"{model.loglik:,.2f}"
    first = "features and labels" if model.score_model.joint else "labels"
    return f"{model.loglik:,.2f} ({first} {model.loglik_ignorable:,.2f}, missingness {model.loglik_missing:,.2f})"


def _in_words(model: FittedModel) -> str:
    """The mechanism as a sentence: how often labels are missing for the hardest rows and for easy ones."""
    mechanism, K = model.mechanism, len(model.classes)
    if mechanism is None:
        return "The missingness was not modelled (link=None)."
    if not model.has_mechanism:
        return "No label is missing, so no mechanism was fitted."
    clear = np.full((K, K), np.log((1.0 - _CLEAR) / (K - 1)))
    np.fill_diagonal(clear, np.log(_CLEAR))
    covariates = np.tile(model.moments.overall()[0][model.columns], (K + 1, 1))
    q = mechanism.missing_proba(np.vstack([np.zeros(K), clear]), covariates if model.columns else None)
    sure = f"{q[1]:.2f} where one class has probability {_CLEAR:g}"
    if mechanism.measured.grows == "second class" or mechanism.label:
        sure = " and ".join(
            f"{q[1 + k]:.2f} where {_short(model.classes[k])} has probability {_CLEAR:g}"
            for k in range(min(K, _CLASSES))
        )
    at = " (other features of the mechanism at their means)" if model.columns else ""
    return f"A label is missing with probability {q[0]:.2f} at a toss-up between the classes, {sure}{at}."


Columns = tuple[list[str], list[tuple[str, list[Any]]], list[str]]  # column names, named rows, notes


def _parameters_of(model: FittedModel) -> Columns:
    """Labels of each class, and the parameters of the score model."""
    if isinstance(model.score_model, GaussianScores):
        return _means_of(model, model.score_model)
    if isinstance(model.score_model, LinearScores) and not isinstance(model.score_model, KernelScores):
        return _coefficients_of(model, model.score_model)
    return [_short(name) for name in model.classes], [("labels", [_count(n) for n in model.moments.weight[:-1]])], []


def _means_of(model: FittedModel, scores: GaussianScores) -> Columns:
    """Weights, labels and means of the components."""
    features = [_short(name) for name in model.column_names]
    weights, means = model.values["weights"], model.values["means"]
    sd = np.sqrt(model.moments.variance)
    shown = _largest(np.ptp(means, axis=0) / np.where(sd > 0.0, sd, 1.0))
    notes = []
    if len(shown) < len(features):
        notes.append(
            f"Means of the {len(shown)} of {len(features)} features that differ most are shown; means_ has all."
        )
    owners, labels = scores.owner, model.moments.weight[:-1]
    first = np.concatenate([[0], np.cumsum(scores.counts)])[owners]
    places = 1 + np.arange(len(owners)) - first
    numbered = [f" #{place}" * (not scores.single) for place in places]
    names = [_short(model.classes[k]) + place for k, place in zip(owners, numbered, strict=True)]
    values: list[tuple[str, list[Any]]] = [
        ("prior", [f"{weight:.3f}" for weight in weights]),
        ("labels", [_count(labels[k]) if place == 1 else None for k, place in zip(owners, places, strict=True)]),
    ]
    if "dof" in model.values:
        values.append(("dof", model.values["dof"][owners].tolist()))
    return names, values + [(f"mean {features[i]}", means[:, i].tolist()) for i in shown], notes


def _coefficients_of(model: FittedModel, scores: LinearScores) -> Columns:
    """Labels of each class, and coefficients of the log-odds."""
    terms = scores.terms([_short(name) for name in model.column_names])
    intercept, coef = model.values["intercept"], model.values["coef"]
    shown = _largest(np.abs(model.theta[:, 1:]).max(axis=0))
    names, notes = [_short(name) for name in model.classes], []
    if len(shown) < len(terms):
        notes.append(f"The {len(shown)} of {len(terms)} largest standardised coefficients are shown; coef_ has all.")
    blank = [None] * (len(names) - len(coef))
    if blank:
        notes.append(f"Coefficients are log-odds of {names[1]} against {names[0]}.")
    values: list[tuple[str, list[Any]]] = [
        ("labels", [_count(label) for label in model.moments.weight[:-1]]),
        ("intercept", [*blank, *intercept.tolist()]),
    ]
    return names, values + [(terms[i], [*blank, *coef[:, i].tolist()]) for i in shown], notes


def _largest(sizes: Array) -> Ints:
    """Indices of the largest few, in increasing order."""
    return np.sort(np.argsort(-sizes, kind="stable")[:_FEATURES])


# A choice among candidates


def _of_choice(choice: Any) -> Table:
    results, score = choice.results_, choice.score_
    order = np.argsort(-results["weight"], kind="stable")
    columns = ["weight", "mechanism", "log_loss", "log_loss_stderr", "brier", "accuracy", "roc_auc"]
    kept = [name for name in columns if name in results]
    words = {"log_loss": "log-loss", "log_loss_stderr": "std. error", "brier": "Brier", "roc_auc": "AUC"}
    table = [[results[name][i].item() for name in kept] for i in order]
    what = f"one picked from {len(choice.weights_)}"
    if choice.method == "average":
        what = f"average of {sum(weight > 0.0 for weight in choice.weights_.values())}"
    facts = [
        ("classes", _shown(choice.classes_)),
        ("features", _features(getattr(choice, "feature_names_in_", None), choice.n_features_in_)),
        ("candidates", what),
    ]
    if score is not None:
        plain = f"{score.plain:.3f} over the {score.n_labelled:,} labelled rows alone"
        low, high = score.interval
        facts.append(("log-loss", f"{score.value:.3f}, 95 % interval {low:.3f} to {high:.3f} ({plain})"))
    verdict, gain = choice.verdict_, choice.comparison_
    notes = [] if verdict is None else [f"{verdict.state.capitalize()}. {verdict.sentence}"]
    notes += [*([] if gain is None else [gain.sentence()]), *choice.notes_]
    if score is not None:
        notes.append("Scores are cross-validated estimates for all rows, labelled or not.")
    if len(order) > _CANDIDATES:
        notes.append(f"The {_CANDIDATES} of {len(order)} candidates with the largest weights are shown.")
    return Table(
        f"MARClassifierCV, {len(choice.classes_)} classes",
        [words.get(name, name) for name in kept],
        [str(results["candidate"][i]) for i in order[:_CANDIDATES]],
        table[:_CANDIDATES],
        facts,
        notes,
        {words.get(name, name): 0 if name == "mechanism" else 3 for name in kept},
    )


def _shown(classes: AnyArray) -> str:
    names = [_short(name) for name in classes.tolist()]
    return listed(names) if len(names) <= _CLASSES else f"{', '.join(names[:_CLASSES])}, ... ({len(names)} in all)"
