"""A fitted classifier at a glance: what it was fitted to, what it found, what to know; as text, and below the HTML diagram."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from marmix.inference.tables import Table, listed, number
from marmix.scores import GaussianScores

Array = NDArray[np.float64]

_FEATURES, _ROWS, _LETTERS = 6, 20, 24  # of a table: columns of features, rows, letters of a name
_CLEAR = 0.99  # a posterior that is called clear


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
        return f"<div style='margin-top: 0.8em; overflow-x: auto'>{self.summary().as_html()}</div>"


# A mixture or a logistic regression


def _of_fit(fit: Any) -> Table:
    rows, lost = fit._total_weight, fit._missing_weight
    facts = [
        ("rows", f"{_count(rows)}, of which {_count(rows - lost)} have a label and {_count(lost)} do not"),
        ("features", _features_of(fit)),
        ("model", _model_of(fit)),
        ("missingness", _mechanism_of(fit)),
        ("log-likelihood", _loglik_of(fit)),
        ("fit", f"{_ending(fit)}, {fit.n_iter_:,} iterations, {fit.n_passes_:,} passes over the rows"),
    ]
    columns, index, table, notes = _classes_of(fit)
    if len(index) > _ROWS:
        notes.append(f"{_ROWS} of {len(index)} rows are shown.")
        index, table = index[:_ROWS], table[:_ROWS]
    title = f"{type(fit).__name__}, {len(fit.classes_)} classes"
    return Table(title, columns, index, table, facts, [_in_words(fit), *notes, *fit.notes_], {"prior": 3, "labels": 0})


def _count(weight: float) -> str:
    return f"{weight:,.0f}" if abs(weight - round(weight)) < 1e-6 else f"{weight:,.1f}"


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _features_of(fit: Any) -> str:
    names = [_short(name) for name in getattr(fit, "feature_names_in_", [])]
    if not names:
        return f"{fit.n_features_in_:,}"
    shown = listed(names) if len(names) <= _FEATURES else f"{', '.join(names[:_FEATURES])}, ..."
    return f"{len(names):,}: {shown}"


def _model_of(fit: Any) -> str:
    model = fit._model
    if isinstance(model, GaussianScores):
        counts = model.counts
        several = "one Gaussian a class" if model.single else f"{sum(counts)} Gaussians for {len(counts)} classes"
        return f"Gaussian mixture, {fit._covariance_type} covariance, {several}"
    penalty = "no penalty" if np.isinf(model.C) else f"C = {number(model.C)}"
    return f"logistic regression, {'features' if model.degree == 1 else 'squares and products too'}, {penalty}"


def _mechanism_of(fit: Any) -> str:
    known = fit.mechanism_
    if known is None:
        return "ignored"
    if not np.isfinite(known.alpha[0]):
        return "no label is missing"
    fixed = {0.0: "cloglog link", 1.0: "logit link"}
    link = f"Aranda-Ordaz link of shape {number(known.shape)}" if known.free_shape else fixed.get(known.shape, "")
    link = link or f"Aranda-Ordaz link, shape {number(known.shape)} given"
    slopes = ", ".join(number(a) for a in known.alpha)
    tempered = "" if fit._tempering == 1.0 else f", weight {number(fit._tempering)} in the fit"
    return f"{known.uncertainty}, {link}, alpha {slopes}{tempered}"


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
    if known.uncertainty == "signed-margin":
        sure = " and ".join(
            f"{q[1 + k]:.2f} where {_short(fit.classes_[k])} has probability {_CLEAR:g}" for k in (0, 1)
        )
    at = " (other features of the mechanism at their means)" if fit._columns else ""
    return f"A label is missing with probability {q[0]:.2f} at a toss-up between the classes, {sure}{at}."


def _classes_of(fit: Any) -> tuple[list[str], list[str], list[list[Any]], list[str]]:
    """Columns, names of rows, rows and notes of the table of classes."""
    features = [_short(name) for name in fit._column_names()]
    labels = fit._fingerprint.moments.weight[:-1]
    if isinstance(fit._model, GaussianScores):
        return _means_of(fit, features, labels)
    theta, user = fit._theta, np.column_stack([fit.intercept_, fit.coef_])
    terms = ["intercept", *_terms(features, fit._model.degree)]
    shown = [0, *(1 + _largest(np.abs(theta[:, 1:]).max(axis=0)))]
    notes = []
    if len(shown) < len(terms):
        notes.append(
            f"{len(shown) - 1} of {len(terms) - 1} coefficients are shown, the largest for standardised features; coef_ has all."
        )
    vectors = user[:, shown].tolist()
    if len(fit.classes_) == 2:
        one, two = (_short(name) for name in fit.classes_)
        notes.append(f"Coefficients are log-odds of {two} against {one}.")
        vectors = [[None] * len(shown), *vectors]
    table = [[float(n), *vector] for n, vector in zip(labels, vectors, strict=True)]
    return ["labels", *(terms[i] for i in shown)], [_short(name) for name in fit.classes_], table, notes


def _means_of(fit: Any, features: list[str], labels: Array) -> tuple[list[str], list[str], list[list[Any]], list[str]]:
    sd = np.sqrt(np.diag(fit._fingerprint.moments.overall()[1]))
    spread = np.ptp(fit.means_, axis=0) / np.where(sd > 0.0, sd, 1.0)
    shown, notes = _largest(spread), []
    if len(shown) < len(features):
        notes.append(
            f"Means of {len(shown)} of {len(features)} features are shown, where the classes differ most; means_ has all."
        )
    index, table, single = [], [], fit._model.single
    for i, (k, mean) in enumerate(zip(fit._model.owner.tolist(), fit.means_, strict=True)):
        place = 1 + i - int(np.sum(fit._model.counts[:k]))
        index.append(_short(fit.classes_[k]) + ("" if single else f" #{place}"))
        table.append([float(fit.weights_[i]), float(labels[k]) if place == 1 else None, *mean[shown].tolist()])
    return ["prior", "labels", *(f"mean {features[i]}" for i in shown)], index, table, notes


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
        notes.append("Scores are cross-validated, and weighted so that labelled rows stand for all rows.")
    if len(order) > _ROWS:
        notes.append(f"The {_ROWS} candidates of largest weight are shown, of {len(order)}.")
    return Table(
        f"MARClassifierCV, {len(choice.classes_)} classes",
        [words.get(name, name) for name in kept],
        [str(results["candidate"][i]) for i in order[:_ROWS]],
        table[:_ROWS],
        facts,
        notes,
        {words.get(name, name): columns[name] for name in kept},
    )


def _shown(classes: NDArray[Any]) -> str:
    names = [_short(name) for name in classes.tolist()]
    return listed(names) if len(names) <= _FEATURES else f"{', '.join(names[:_FEATURES])}, ... ({len(names)} in all)"
