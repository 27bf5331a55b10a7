"""A fitted classifier at a glance: what it was fitted to, what it found, what to know; as text, and below the HTML diagram."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from marmix.arrays import Array
from marmix.inference.tables import Table, listed, number
from marmix.mechanism.links import FREE, link_of_shape
from marmix.scores.gaussian import GaussianScores

_FEATURES, _CLASSES, _CANDIDATES, _LETTERS = 8, 6, 20, 24  # that a table shows, and letters of a name
_CLEAR = 0.99  # a posterior that is called clear

_STYLE = (
    ".marmix-summary {margin-top: 0.8em; overflow-x: auto} .marmix-summary table {border-collapse: collapse; margin: 0 0 0.8em} "
    ".marmix-summary th, .marmix-summary td {padding: 0.1em 1.2em 0.1em 0; text-align: left; vertical-align: top} "
    ".marmix-summary th {font-weight: normal; opacity: 0.75} .marmix-summary thead th {text-align: right}"
)


class Described:
    """An estimator with a summary, which its HTML shows below scikit-learn's diagram. Not for direct use."""

    _last_fitted = ""  # what a fit sets last: a fit that failed half-way has no summary

    def summary(self) -> Table:
        """What was fitted and found, as a table: print it, or see it in a notebook.

        Returns
        -------
        Table
            With `as_text`, `as_html`, `as_markdown` and `frame`.
        """
        check_is_fitted(self)
        return _of_choice(self) if hasattr(self, "results_") else _of_fit(self)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._html_below()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        output: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in output:
            output["text/html"] += self._html_below()
        return output

    def _html_below(self) -> str:
        if self._last_fitted not in vars(self):
            return ""
        return f"<style>{_STYLE}</style><div class='marmix-summary'>{self.summary().as_html()}</div>"


# A mixture or a logistic regression


def _of_fit(fit: Any) -> Table:
    total, lost = fit._total_weight, fit._missing_weight
    facts = [
        ("rows", f"{_count(total)}, of which {_count(total - lost)} have a label and {_count(lost)} do not"),
        ("features", _features_of(fit)),
        ("model", _model_of(fit)),
        ("missingness", _mechanism_of(fit)),
        ("log-likelihood", _loglik_of(fit)),
        ("fit", f"{_ending(fit)}, {fit.n_iter_:,} iterations, {fit.n_passes_:,} passes over the rows"),
    ]
    names, values, notes = _means_of(fit) if isinstance(fit._model, GaussianScores) else _coefficients_of(fit)
    if len(names) > _CLASSES:
        notes.append(f"{_CLASSES} of {len(names)} columns are shown.")
    title = f"{type(fit).__name__}, {len(fit.classes_)} classes"
    index, rows = [name for name, _ in values], [row[:_CLASSES] for _, row in values]
    return Table(title, names[:_CLASSES], index, rows, facts, [_in_words(fit), *notes, *fit.notes_])


def _count(weight: float) -> str:
    return f"{weight:,.0f}" if abs(weight - round(weight)) < 1e-6 else f"{weight:,.1f}"


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _features_of(fit: Any) -> str:
    names = [_short(name) for name in getattr(fit, "feature_names_in_", [])]
    if not names:
        return f"{fit.n_features_in_:,}"
    shown = listed(names) if len(names) <= 5 else f"{', '.join(names[:4])}, ..."
    return f"{len(names):,}: {shown}"


def _model_of(fit: Any) -> str:
    model = fit._model
    if isinstance(model, GaussianScores):
        counts = model.counts
        several = "one Gaussian a class" if model.single else f"{sum(counts)} Gaussians for {len(counts)} classes"
        return f"Gaussian mixture, {fit._covariance_type} covariance, {several}"
    penalty = "no penalty" if np.isinf(model.C) else f"C = {model.C:g}"
    return f"logistic regression, {'linear' if model.degree == 1 else 'with squares and products'}, {penalty}"


def _mechanism_of(fit: Any) -> str:
    known = fit.mechanism_
    if known is None:
        return "ignored"
    if not np.isfinite(known.alpha[0]):
        return "no label is missing"
    named = link_of_shape(known.shape)
    if known.free_shape:
        link = f"{FREE.words} link of shape {number(known.shape)}"
    else:
        link = f"{named.name} link" if named is not FREE else f"{FREE.words} link, shape {number(known.shape)} given"
    slopes = ", ".join(number(a) for a in known.alpha)
    tempered = "" if fit._tempering == 1.0 else f", weight {number(fit._tempering)} in the fit"
    return f"{known.measured.name}, {link}, alpha {slopes}{tempered}"


def _loglik_of(fit: Any) -> str:
    if fit.mechanism_ is None or not np.isfinite(fit.mechanism_.alpha[0]):
        return f"{fit.loglik_:,.2f}"
    first = "features and labels" if fit._model.joint else "labels"
    return f"{fit.loglik_:,.2f} ({first} {fit.loglik_ignorable_:,.2f}, missingness {fit.loglik_missing_:,.2f})"


def _ending(fit: Any) -> str:
    return "converged" if fit.converged_ else "DID NOT CONVERGE"


def _in_words(fit: Any) -> str:
    """The mechanism as a sentence: how often a label is missing at a toss-up, and where the class is clear."""
    known, K = fit.mechanism_, len(fit.classes_)
    if known is None:
        return "Why labels are missing was not modelled (link=None)."
    if not np.isfinite(known.alpha[0]):
        return "No label was missing, so there is no mechanism."
    clear = np.full((K, K), np.log((1.0 - _CLEAR) / (K - 1)))
    np.fill_diagonal(clear, np.log(_CLEAR))
    covariates = np.tile(fit._fingerprint.moments.overall()[0][fit._columns], (K + 1, 1))
    q = known.missing_proba(np.vstack([np.zeros(K), clear]), covariates if fit._columns else None)
    sure = f"{q[1]:.2f} where one class has probability {_CLEAR:g}"
    if known.measured.grows == "second class":
        sure = " and ".join(
            f"{q[1 + k]:.2f} where {_short(fit.classes_[k])} has probability {_CLEAR:g}" for k in (0, 1)
        )
    at = " (other features of the mechanism at their means)" if fit._columns else ""
    return f"A label is missing with probability {q[0]:.2f} at a toss-up between the classes, {sure}{at}."


Columns = tuple[list[str], list[tuple[str, list[Any]]], list[str]]  # their names, rows with their names, and notes


def _means_of(fit: Any) -> Columns:
    """Weights, labels and means of the components."""
    features = [_short(name) for name in fit._column_names()]
    sd = np.sqrt(np.diag(fit._fingerprint.moments.overall()[1]))
    shown = _largest(np.ptp(fit.means_, axis=0) / np.where(sd > 0.0, sd, 1.0))
    notes = []
    if len(shown) < len(features):
        differ = f"Means of {len(shown)} of {len(features)} features are shown"
        notes.append(f"{differ}, where the classes differ most; means_ has all.")
    owners, labels = fit._model.owner, fit._fingerprint.moments.weight[:-1]
    first = np.concatenate([[0], np.cumsum(fit._model.counts)])[owners]
    places = 1 + np.arange(len(owners)) - first
    numbered = [f" #{place}" * (not fit._model.single) for place in places]
    names = [_short(fit.classes_[k]) + place for k, place in zip(owners, numbered, strict=True)]
    values: list[tuple[str, list[Any]]] = [
        ("prior", [f"{weight:.3f}" for weight in fit.weights_]),
        ("labels", [_count(labels[k]) if place == 1 else None for k, place in zip(owners, places, strict=True)]),
    ]
    return names, values + [(f"mean {features[i]}", fit.means_[:, i].tolist()) for i in shown], notes


def _coefficients_of(fit: Any) -> Columns:
    """Labels of the classes, and the coefficients of their log-odds."""
    features = [_short(name) for name in fit._column_names()]
    terms, labels = _terms(features, fit._model.degree), fit._fingerprint.moments.weight[:-1]
    shown = _largest(np.abs(fit._theta[:, 1:]).max(axis=0))
    names, notes = [_short(name) for name in fit.classes_], []
    if len(shown) < len(terms):
        largest = f"{len(shown)} of {len(terms)} coefficients are shown"
        notes.append(f"{largest}, the largest for standardised features; coef_ has all.")
    blank = [None] * (len(names) - len(fit.coef_))
    if blank:
        notes.append(f"Coefficients are log-odds of {names[1]} against {names[0]}.")
    values: list[tuple[str, list[Any]]] = [
        ("labels", [_count(label) for label in labels]),
        ("intercept", [*blank, *fit.intercept_.tolist()]),
    ]
    return names, values + [(terms[i], [*blank, *fit.coef_[:, i].tolist()]) for i in shown], notes


def _largest(sizes: Array) -> NDArray[np.intp]:
    """Places of the few largest, in their order; all if they are few."""
    return np.sort(np.argsort(-sizes, kind="stable")[:_FEATURES])


def _terms(features: list[str], degree: int) -> list[str]:
    """Names of features, and of their squares and products."""
    if degree == 1:
        return features
    return features + [
        f"{a}^2" if i == j else f"{a} {features[j]}" for i, a in enumerate(features) for j in range(i, len(features))
    ]


# A choice among candidates


def _of_choice(choice: Any) -> Table:
    results, score = choice.results_, choice.score_
    order = np.argsort(-results["weight"], kind="stable")
    columns = {
        "weight": 3,
        "mechanism": 0,
        "log_loss": 3,
        "log_loss_stderr": 3,
        "brier": 3,
        "accuracy": 3,
        "roc_auc": 3,
    }
    kept = [name for name in columns if name in results]
    words = {"log_loss": "log-loss", "log_loss_stderr": "std. error", "brier": "Brier", "roc_auc": "AUC"}
    table = [[results[name][i].item() for name in kept] for i in order]
    what = "one picked from" if choice.method == "pick" else "average of"
    facts = [
        ("classes", _shown(choice.classes_)),
        ("features", _features_of(choice)),
        ("candidates", f"{what} {len(order)}"),
    ]
    if score is not None:
        plain = f"{score.plain:.3f} over the {score.n_labelled:,} labelled rows as they are"
        facts.append(("log-loss", f"{score.value:.3f}, standard error {score.stderr:.3f} ({plain})"))
    notes = [choice.verdict_, *(note for note in choice.notes_ if note != choice.verdict_)]
    if score is not None:
        notes.append("Scores are cross-validated, and estimates for all rows, those without a label too.")
    if len(order) > _CANDIDATES:
        notes.append(f"The {_CANDIDATES} candidates of largest weight are shown, of {len(order)}.")
    return Table(
        f"MARClassifierCV, {len(choice.classes_)} classes",
        [words.get(name, name) for name in kept],
        [str(results["candidate"][i]) for i in order[:_CANDIDATES]],
        table[:_CANDIDATES],
        facts,
        notes,
        {words.get(name, name): columns[name] for name in kept},
    )


def _shown(classes: NDArray[Any]) -> str:
    names = [_short(name) for name in classes.tolist()]
    return listed(names) if len(names) <= _CLASSES else f"{', '.join(names[:_CLASSES])}, ... ({len(names)} in all)"
