"""A saved model on the rows of a file: `marmix predict`, `evaluate`, `sensitivity` and `report`, and `marmix.report`."""

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import escape
from numbers import Real
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from marmix import persistence
from marmix.app import facts
from marmix.app.analyse import FOLDS, Analysis, Case, Source, analysis_of, part
from marmix.app.findings import Findings, ScoreFacts, finite
from marmix.app.fit import require_libraries
from marmix.app.models import Model, Predicted, Sample, Step, compared, given_codes, predicted, sampled, statistical
from marmix.app.page import report_html
from marmix.app.reading import Table, read, write_rows
from marmix.app.survey import Rows, complete_rows, labels_of, rows_of
from marmix.app.wording import WIDTH, summary_lines
from marmix.audit.classifier import AuditedClassifier
from marmix.core.labels import has_votes, label_shares, missing_texts, most_voted
from marmix.estimators.base import numbered
from marmix.estimators.boosting import MARBoostingClassifier
from marmix.estimators.logistic import MARLogisticRegression
from marmix.estimators.mixture import MARGaussianMixture
from marmix.evaluation.prior import prior_of
from marmix.evaluation.pseudo_labels import UncertainPosterior
from marmix.evaluation.verdict import ACCEPT
from marmix.inference.sensitivity import Sensitivity
from marmix.inference.tables import Table as TextTable
from marmix.outputs import one_file
from marmix.plotting import SensitivityDisplay
from marmix.plotting.drawing import canvas, styled
from marmix.selection.average import MARClassifierCV
from marmix.selection.candidates import knows_missingness
from marmix.selection.comparison import Comparison, digest_of
from marmix.selection.evidence import Q_MAX
from marmix.tables import Encoder
from marmix.tables.cells import as_table, counted, shown
from marmix.tables.preparation import Preparation, encoder_of
from marmix.terminal import Progress, command_line

FIGURES = ("png", "svg", "pdf")
_SEEN = (
    "These are the rows of the fit, and scores on rows that a model has seen are too good: see the report of the fit for those "
    "of held-out rows, or use another file."
)
_CORRECTED = (
    "Corrected for missing labels, if they are missing only because rows are hard: rows without a label are scored by the "
    "model's own probabilities, adjusted to the labels of similar rows."
)


@dataclass(frozen=True)
class Request:
    """The arguments of the commands that take a saved model and a file."""

    model: Path
    data: Path
    out: Path | None = None
    label: str | None = None
    votes: Sequence[str] = ()
    shares: Sequence[str] = ()
    id: str | None = None
    missing: Sequence[str] = ()
    seed: int = 0
    accept: float | None = None  # share of wrong labels; by default that of the fit
    force: bool = False
    escape_formulas: bool = False
    varied: str | None = None  # the class that a sensitivity analysis varies
    odds: Sequence[float] | None = None  # logarithms of its odds ratios
    plot: Path | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = ("marmix",)


class Saved(NamedTuple):
    """A model from a file: preparation of the columns, steps in between, classifier, and facts about the fit."""

    preparation: Preparation
    between: list[Any]
    classifier: Any
    about: Mapping[str, Any]

    def fact(self, name: str) -> Any:
        """The column, or for votes, shares and missing the texts, that `marmix fit` stored under this name in the model file."""
        several, value = name in ("votes", "shares", "missing"), self.about.get(name)
        if several:
            return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
        return value if isinstance(value, str) else None

    def accepted(self, asked: float | None) -> float:
        """The share of wrong labels that is accepted: as asked for, or as in the fit."""
        return asked or float(self.about.get("accept", ACCEPT))

    def transformed(self, X: NDArray[Any]) -> NDArray[Any]:
        """Features as the classifier takes them."""
        for step in self.between if len(X) else []:
            X = step.transform(X)
        return X

    def rows(self, request: Request, table: Table) -> tuple[Rows, str, list[str]]:
        """The rows of a table with their labels, in the columns of the fit unless named; their name, and notes."""
        label, votes, shares = request.label, request.votes, request.shares
        if not (label or votes or shares):
            label, votes, shares = self.fact("label"), self.fact("votes"), self.fact("shares")
        if not (label or votes or shares):
            raise ValueError("--label is required: the model file does not name the label column.")
        for name in (*votes, *shares, *([label] if label else [])):
            if name in self.preparation.features_in():
                raise ValueError(
                    f"--label names {shown(name)}, which is a feature of the model: name the column of the labels."
                )
        missing = [*self.fact("missing"), *request.missing]
        labels = labels_of(table, label, votes, shares, missing, self.classifier.classes_)
        rows = rows_of(table, self.preparation, labels)
        return rows, labels.name, [*labels.notes(), *rows.counts.notes()]


def opened(request: Request, progress: Progress) -> tuple[Saved, Table]:
    """The model and the table of a request; a model saved from Python without a preparation takes numeric columns by name."""
    model = persistence.load(request.model)
    first = model.steps[0][1] if isinstance(model, Pipeline) else model
    if not isinstance(first, Preparation) and getattr(first, "feature_names_in_", None) is None:
        raise ValueError(
            f"{request.model} was saved without column names: fit it to a data frame, or load it in Python with marmix.load."
        )
    table = read(request.data, **request.reading)
    progress.say(table.path, table.notes)
    return parts_of(model, dict(persistence.describe(request.model)["about"] or {})), table


def parts_of(model: Any, about: Mapping[str, Any]) -> Saved:
    """The parts of a model; one without column names takes the columns x0, x1, ..."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    held = getattr(steps[0], "preparation_", None)
    if isinstance(steps[0], Preparation):
        preparation, steps = steps[0], steps[1:]
    elif held is not None:
        preparation, steps = held, [_nameless(steps[0])]
    else:
        names = getattr(steps[0], "feature_names_in_", [f"x{j}" for j in range(steps[0].n_features_in_)])
        preparation = _numbers([str(name) for name in names], _takes_gaps(steps[-1]))
        steps = [_nameless(step) for step in steps]
    return Saved(preparation, steps[:-1], steps[-1], about)


def _takes_gaps(classifier: Any) -> bool:
    """Whether a classifier of numbers takes rows with missing ones."""
    candidates = getattr(classifier, "estimators_", {"": [classifier]}).values()
    return all(isinstance(steps[0], Encoder) or isinstance(steps[-1], MARBoostingClassifier) for steps in candidates)


def _numbers(names: list[str], gaps: bool) -> Preparation:
    """A preparation that passes numeric columns through, with or without missing numbers."""
    preparation = Preparation(features=names, impute="median" if gaps else "drop", encode=False)
    preparation.columns_ = [
        {"name": name, "kind": "number", "levels": [], "fill": None, "missing": 0} for name in names
    ]
    preparation.notes_, preparation.n_rows_ = [], 0
    preparation.feature_names_in_, preparation.n_features_in_ = names, len(names)
    return preparation


def _nameless(step: Any) -> Any:
    """A copy of a fitted estimator that takes arrays without column names."""
    nameless = copy(step)
    if hasattr(nameless, "model_"):
        nameless.model_ = nameless.model_.renamed(nameless.classes_)
    elif hasattr(nameless, "selection_"):
        nameless.selection_ = replace(nameless.selection_, features=None, preparation=None)
    vars(nameless).pop("feature_names_in_", None)
    return nameless


# predict


class Predictions(NamedTuple):
    """Counts of predicted labels, and notes."""

    rows: int
    labels: dict[str, int]
    unfilled: int  # rows without a prediction, as a feature is missing
    notes: list[str]


def predict_file(request: Request, progress: Progress) -> Predictions:
    """Write the rows of a file with predictions, to a file or standard output; returns counts."""
    saved, table = opened(request, progress)
    texts = saved.classifier.classes_.astype(str).tolist()
    X, counts = saved.preparation.transform_counted(table.data)
    complete = complete_rows(X, counts, saved.preparation)
    with progress.phase("predicting") as step:
        result = predicted(saved.classifier, saved.transformed(X[complete]), complete, step)
    columns, escaped = result.columns(texts), request.escape_formulas
    sources = [request.model, request.data]
    out = _standard_output(table) if request.out is None else one_file(request.out, request.force, sources=sources)
    with out as target:
        formulas = write_rows(target, table, columns, escape_formulas=escaped)
    notes = counts.notes()
    if formulas and not escaped:
        cells = counted(formulas, "cell")
        notes.append(f"{cells} may run as a formula in a spreadsheet; --escape-formulas makes them plain text.")
    labels = np.bincount(result.code[complete], minlength=len(texts)).tolist()
    return Predictions(len(complete), dict(zip(texts, labels, strict=True)), int(np.sum(~complete)), notes)


@contextmanager
def _standard_output(table: Table) -> Iterator[Any]:
    """Standard output for rows, raw unless it is a terminal."""
    if sys.stdout is None:
        raise OSError("standard output is closed: name a file with --out.")
    if not sys.stdout.isatty():
        yield sys.stdout.buffer
    else:
        yield (rows := io.BytesIO())
        text = rows.getvalue().decode(table.dialect.encoding, "backslashreplace")
        print(text.replace("\r\n", "\n"), end="")


# evaluate


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on the labelled rows of a file."""

    file: str
    rows: int
    labelled: int
    scores: list[ScoreFacts]
    corrected: bool  # whether the scores are corrected for missing labels
    classes: list[str]
    confusion: list[list[int]]  # given labels by predicted ones
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(finite(vars(self) | {"scores": [vars(score) for score in self.scores]}))

    def table(self) -> TextTable:
        """The scores as a table of text."""
        columns = ["corrected", "std err", "labelled rows"] if self.corrected else ["value", "std err"]
        rows = [[score.value, score.stderr, score.plain][: len(columns)] for score in self.scores]
        facts = [("rows", f"{self.rows:,}"), ("with a label", f"{self.labelled:,}")]
        for name, counts in zip(self.classes, self.confusion, strict=True):
            parts = ", ".join(f"{n:,} {predicted}" for predicted, n in zip(self.classes, counts, strict=True) if n)
            facts.append((f"given {name}", f"predicted {parts}" if parts else "none"))
        names = [f"{score.name} ({score.better} is better)" for score in self.scores]
        return TextTable(f"Scores on {self.file}", columns, names, rows, facts, self.notes, dict.fromkeys(columns, 4))


def evaluate_file(request: Request, progress: Progress) -> Evaluation:
    """Score a saved model on the labelled rows of a file."""
    saved, table = opened(request, progress)
    rows, name, notes = saved.rows(request, table)
    z, given, classes = rows.z, rows.labels, saved.classifier.classes_
    if not (z >= 0).any():
        raise ValueError(
            f"{request.data} has no complete row with a label in {name!r}: scores need some. Check the column and --missing."
        )
    X = saved.transformed(rows.X)
    with progress.phase("predicting") as step:
        result = predicted(saved.classifier, X, rows.complete, step)
    p, q, labelled = result.proba[rows.complete], result.missing[rows.complete], z >= 0
    if _is_fitted_to(saved.classifier, X, given):
        notes.append(_SEEN)
    corrected = not labelled.all() and not np.isnan(q).any()
    if corrected:
        notes.append(_CORRECTED)
        doubt = UncertainPosterior.of(p, label_shares(given, np.arange(len(classes))))
        scores = facts.all_scores(given, p, np.minimum(q, Q_MAX), doubt)
    else:
        scores = facts.all_scores(given, p, None)
        notes.append(
            "No label is missing here, so the scores need no correction."
            if labelled.all()
            else "The model does not estimate how labels go missing: the scores are those of the labelled rows only."
        )
    codes = given_codes(rows, result.proba)[rows.complete]
    confusion = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(confusion, (codes[labelled], p[labelled].argmax(axis=1)), 1)
    names = [str(name) for name in classes]
    n, scored = int(labelled.sum()), facts.score_facts(scores)
    return Evaluation(table.path.name, len(rows.complete), n, scored, corrected, names, confusion.tolist(), notes)


def _is_fitted_to(classifier: Any, X: NDArray[Any], labels: NDArray[Any]) -> bool:
    """Whether rows with these codes or shares are those of the fit, judged by the model that was fitted to most rows."""
    classifier = classifier.estimator if isinstance(classifier, AuditedClassifier) else classifier
    fits = [
        fit for fit in getattr(classifier, "estimators_", {"": [classifier]}).values() if hasattr(fit[-1], "fitted_to")
    ]
    fit = max(fits, key=lambda fit: fit[-1].model_.total_weight, default=None)
    if fit is None:
        return False
    for _, step in getattr(fit, "steps", [])[:-1]:
        X = step.transform(X)
    try:
        return bool(fit[-1].fitted_to(X, named_labels(labels, fit[-1].classes_)))
    except ValueError:  # labels that could not be fitted
        return False


def named_labels(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """The classes of codes, None where -1; votes as they are."""
    return labels if labels.ndim == 2 else np.array([*classes.tolist(), None], dtype=object)[labels]


# sensitivity


def sensitivity_file(request: Request, progress: Progress) -> Sensitivity:
    """The sensitivity analysis of a saved model on the rows of a file, with a figure if `plot` names one."""
    saved, table = opened(request, progress)
    classifier, plot = saved.classifier, request.plot
    if not hasattr(classifier, "sensitivity"):
        raise ValueError(f"{request.model} holds a {type(classifier).__name__}, which has no sensitivity analysis.")
    names = {str(name): name for name in classifier.classes_.tolist()}
    if request.varied is not None and request.varied not in names:
        raise ValueError(f"--class {request.varied!r} is not one of the classes {', '.join(names)}.")
    kind = "" if plot is None else plot.suffix.lstrip(".").lower() or "png"
    if kind and kind not in FIGURES:
        raise ValueError(f"--plot {plot}: the name should end in {', '.join(f'.{name}' for name in FIGURES)}.")
    rows, name, notes = saved.rows(request, table)
    if not (rows.z < 0).any():
        raise ValueError(f"{request.data} has no row without a label in {name!r}: there is nothing to vary.")
    sources = [request.model, request.data]
    with nullcontext() if plot is None else one_file(plot, request.force, sources=sources) as target:
        with progress.phase("varying the odds"):
            result: Sensitivity = classifier.sensitivity(
                saved.transformed(rows.X),
                named_labels(rows.labels, classifier.classes_),
                request.odds,
                None if request.varied is None else names[request.varied],
                random_state=request.seed,
            )
        result.notes.extend(notes)
        if target is not None:
            with styled(), target.open("wb") as file:
                figure, ax = canvas(6.4, 4.6)
                SensitivityDisplay.from_sensitivity(result, ax=ax)
                figure.savefig(file, format=kind)
    return result


# report


def report_file(request: Request, progress: Progress) -> Findings:
    """Write the report of a saved model; on the rows of its fit, candidates are cross-validated again."""
    require_libraries()
    assert request.out is not None
    with one_file(request.out, request.force, sources=[request.model, request.data]) as target:
        saved, table = opened(request, progress)
        check_model(saved, request.model)
        rows, label, _ = saved.rows(request, table)
        stored = saved.fact("id")
        id = request.id or (stored if stored in table.names else None)
        source = Source(
            file=table.path.name,
            label=label,
            id=id,
            notes=[*table.notes, *saved.preparation.notes_],
            digest=table.digest,
            command=command_line(request.command),
            seed=request.seed,
            audit=lambda n: command_line(["marmix", "audit", str(request.model.parent), "--rows", str(n)]),
            accept=saved.accepted(request.accept),
        )
        with progress.phase("analysing") as step:
            analysis = analyse_saved(saved, rows, source, step)
        target.write_bytes(report_html(analysis.contents()).encode())
    return analysis.findings


class Page:
    """A page, which needs no other file; a notebook shows it in a frame, so that its styles and the notebook's do not mix."""

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        with one_file(path, force=True) as file:
            file.write_bytes(self.html.encode())

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts allow-downloads" title="marmix" '
            'style="width: 100%; height: 80vh; border: 0"></iframe>'
        )


@dataclass(frozen=True, repr=False)
class Report(Page):
    """A report, which a notebook shows as a page, and a terminal as a summary.

    Attributes
    ----------
    findings : Findings
        The verdict, counts, estimates and cautions as plain values; `findings.as_dict()` is what `summary.json` holds.
    html : str
        The page.
    """

    findings: Findings
    html: str

    def __repr__(self) -> str:
        notes = [fill(note, WIDTH) for note in self.findings.data.notes]
        return "\n".join([*summary_lines(self.findings), *[""] * bool(notes), *notes])


def report(model: Any, X: Any, y: Any, path: str | os.PathLike[str] | None = None, accept: float = ACCEPT) -> Report:
    """The report of a fitted model as a page: how many imputed labels are wrong, if what, and what to do next.

    Parameters
    ----------
    model : MARClassifierCV, MARGaussianMixture, MARStudentMixture or MARLogisticRegression
        Fitted, to an array or a table; or a pipeline of a `marmix.tables.Preparation` or a `StandardScaler` that ends in one.
    X : array-like of shape (n, d) or table
        The rows of its fit, or others. Of those of a `MARClassifierCV` only the usual classifiers are fitted, for comparison, and
        nothing with ``rivals=True``; a single or loaded model is cross-validated again.
    y : array-like of shape (n,)
        Their labels, some of them missing.
    path : path or None, default=None
        HTML file to write.
    accept : float, default=0.1
        Share of wrong labels that you accept.

    Returns
    -------
    Report
        A notebook shows it as a page, `print` as a summary. It has `save(path)` and the `findings` as plain values.

    See Also
    --------
    MARClassifierCV : the estimator to report on.

    Examples
    --------
    >>> import marmix
    >>> from marmix.datasets import load_tumours
    >>> X, y = load_tumours(return_X_y=True)
    >>> clf = marmix.MARClassifierCV().fit(X, y)    # doctest: +SKIP
    >>> marmix.report(clf, X, y, "report.html")    # doctest: +SKIP
    """
    require_libraries()
    check_scalar(accept, "accept", Real, min_val=0.0, max_val=1.0, include_boundaries="neither")
    check_is_fitted(model)
    saved = parts_of(model, {})
    check_model(saved, "the model")
    classes = saved.classifier.classes_
    if not hasattr(X, "columns") or not all(isinstance(name, str) for name in getattr(X, "column_names", X.columns)):
        X = dict(zip(saved.preparation.feature_names_in_, np.asarray(X, dtype=float).T, strict=True))
    data = as_table(X)
    features, counts = saved.preparation.transform_counted(data)
    shares, complete = label_shares(y, classes), complete_rows(features, counts, saved.preparation)
    if len(shares) != len(features):
        raise ValueError(f"X and y have inconsistent numbers of samples: {len(features)} and {len(shares)}.")
    codes, votes = most_voted(shares).astype(np.int32), has_votes(y)
    marks = {} if votes else missing_texts(y, classes)
    used = features[complete]
    encoder = encoder_of(used, saved.preparation.levels())
    rows = Rows(used, complete, codes, classes, counts, marks, shares if votes else None, encoder=encoder)
    source = Source(
        file="data in memory",
        label=str(getattr(y, "name", None) or "y"),
        id=None,
        notes=saved.preparation.notes_,
        digest=sha256(np.ascontiguousarray(rows.X).tobytes() + codes.tobytes()).hexdigest(),
        command="marmix.report(model, X, y)",
        seed=getattr(saved.classifier, "random_state", 0),
        accept=accept,
    )
    analysis = analyse_saved(saved, rows, source)
    result = Report(analysis.findings, report_html(analysis.contents()))
    if path is not None:
        result.save(path)
    return result


def check_model(saved: Saved, path: Path | str) -> None:
    """Refuse a model that no report can be made of."""
    single = isinstance(saved.classifier, (MARGaussianMixture, MARLogisticRegression))
    scaled_only = len(saved.between) <= single and all(isinstance(step, StandardScaler) for step in saved.between)
    name, any_model = type(saved.classifier).__name__, "'marmix evaluate' scores any model."
    if not (single or isinstance(saved.classifier, MARClassifierCV)):
        raise ValueError(
            f"{path}: a report needs a MARClassifierCV, a mixture or a MARLogisticRegression, not {name}. {any_model}"
        )
    if not scaled_only:
        steps = "only a StandardScaler" if single else "no other step"
        advice = "Fit it to the frame itself: it prepares gaps and categories."
        raise ValueError(f"{path}: a report needs a pipeline in which {steps} comes before {name}. {advice}")
    members = [saved.classifier] if single else _members(saved.classifier)
    if not any(getattr(member, "mechanism_", None) is not None for member in members):
        raise ValueError(
            f"{path} was fitted with link=None, but a report needs a model of the missingness: set a link."
        )


def _members(average: MARClassifierCV) -> list[Any]:
    """The candidates of positive weight that have a mechanism."""
    members = [average.estimators_[name] for name, weight in average.weights_.items() if weight > 0.0]
    return [pipeline[-1] for pipeline in members if knows_missingness(pipeline)]


def analyse_saved(saved: Saved, rows: Rows, source: Source, step: Step = lambda *_: None) -> Analysis:
    """The analysis of a fitted model; on the rows of its fit, the candidates are cross-validated again."""
    model, prior = _model(saved, rows.classes)
    predictions = predicted(model.classifier, rows.X, rows.complete, part(step, 0.0, 0.1))
    sample, comparison = sampled(rows, source.seed), None
    tests = facts.ParameterTests(facts.NOT_OF_FIT)
    tested = _other_rows(predictions, rows, sample)
    if _is_fitted_to(saved.classifier, saved.transformed(rows.X), rows.labels):
        tests = facts.parameter_tests(model, rows.X, rows.labels, saved.preparation.encoded_names().tolist())
        comparison = _compared_again(model.classifier, sample, source.seed, prior, part(step, 0.1, 0.9))
        tested = facts.held_out(comparison, sample.labels, len(rows.X))
    case = Case(
        source=source,
        preparation=saved.preparation,
        rows=rows,
        model=model,
        comparison=comparison,
        prior=prior if comparison else None,
        sample=sample,
        predictions=predictions,
        tested=tested,
        tests=tests,
    )
    return analysis_of(case)


def _model(saved: Saved, classes: NDArray[Any]) -> tuple[Model, Any]:
    """The saved classifier with numbered classes, and the known shares of the classes."""
    if not isinstance(saved.classifier, MARClassifierCV):
        steps = [("scaler", step) for step in saved.between]
        pipeline = Pipeline([*steps, ("classifier", numbered(saved.classifier))])
        return Model(pipeline, pipeline, classes), None
    classifier, prior = copy(saved.classifier), prior_of(saved.classifier.prior, saved.classifier.classes_)
    classifier.selection_ = replace(classifier.selection_, classes=np.arange(len(classes)))
    name = statistical(classifier.selection_)
    return Model(classifier, None if name is None else classifier.estimators_[name], classes), prior


def _compared_again(classifier: Any, sample: Sample, seed: int, prior: Any, step: Step) -> Comparison:
    """What the fit of an average has kept of these rows, with rivals, or its candidates cross-validated again.

    A single model is cross-validated with missingness modelled and ignored.
    """
    if isinstance(classifier, MARClassifierCV):
        kept: Comparison = classifier.selection_
        same = kept.rows is not None and kept.rows.digest == digest_of(sample.X, sample.labels)
        if same and kept.rivals:
            return kept
        grid = {name: clone(pipeline) for name, pipeline in classifier.estimators_.items()}
        grid = dict(classifier.estimators or {}) | grid
        cv = MARClassifierCV(estimators=grid, cv=classifier.cv, rivals=True, prior=prior, random_state=seed)
        return compared(cv, sample, step, kept if same and prior is None else None)
    estimator = clone(classifier[-1])
    other = clone(estimator).set_params(mechanism_weight=0.0 if estimator.mechanism_weight > 0.0 else 1.0)
    cv = MARClassifierCV(
        estimators={"": estimator, "other": other}, method="pick", cv=FOLDS, rivals=True, random_state=seed
    )
    it = compared(cv, sample, step)
    assert it.rows is not None
    proba = it.rows.probas.get("") if it.rows.held_out_proba is not None else None
    return replace(it, weights={"": 1.0, "other": 0.0}, rows=it.rows._replace(held_out_proba=proba))


def _other_rows(predictions: Predicted, rows: Rows, sample: Sample) -> facts.TestedRows | None:
    """Predictions of rows that the model was not fitted to; None if none is labelled."""
    labelled = int(np.sum(sample.z >= 0))
    if not labelled:
        return None
    proba, missing = (values[rows.complete][sample.places] for values in (predictions.proba, predictions.missing))
    where = f"{labelled:,} labelled rows of this file, which the model was not fitted to"
    if labelled == len(sample.z):
        return facts.TestedRows(sample.labels, proba, None, None, where)
    doubt = UncertainPosterior.of(proba, label_shares(sample.labels, np.arange(proba.shape[1])))
    return facts.TestedRows(sample.labels, proba, np.minimum(missing, Q_MAX), doubt, where)
