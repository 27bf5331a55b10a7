"""`Audit`: which rows to label, and what their labels say about the imputed ones."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from marmix.audit.classifier import AuditedClassifier, averages, candidate_proba, reweighted, unlabelled_proba
from marmix.audit.draw import Places, draw, strata_of
from marmix.audit.intervals import Estimate, Sample, ratio, share, total
from marmix.audit.learning import learn, parts
from marmix.core.arrays import Array
from marmix.core.labels import label_shares, most_voted
from marmix.evaluation.verdict import ACCEPT, Verdict, verdict_after

_PLAN = ("rows", "strata", "labels", "probabilities", "seed", "confidence", "classes", "n", "predictions")
_CONTRADICTED = 0.05  # weight of "no change" below which the audit contradicts the model


class ClassEstimates(NamedTuple):
    """Of the rows whose label was missing: of a class, precision and recall of the imputed labels, and its true share."""

    precision: Estimate
    recall: Estimate
    share: Estimate


@dataclass(frozen=True)
class Drawn:
    """The sample behind a result, for other estimates from it (`marmix.estimate`).

    Attributes
    ----------
    classes : array of shape (K,)
        The classes.
    given : array of shape (n, K)
        Labels before the audit, as shares of the classes; zero where there was none.
    strata : array of shape (n,)
        Stratum of the rows whose label was missing, -1 for the others.
    rows : array of shape (k,)
        Positions of the audited rows whose label somebody could tell.
    labels : array of shape (k, K)
        Their labels.
    untold : array of int
        Positions of the audited rows that nobody could tell.
    proba : array of shape (n, K)
        Posteriors after learning; of audited rows, learnt from the others.
    sequence : bool
        Whether intervals must be right at every look.
    """

    classes: NDArray[Any]
    given: Array
    strata: Places
    rows: Places
    labels: Array
    untold: Places
    proba: Array
    sequence: bool


@dataclass(frozen=True)
class AuditResult:
    """What the labels of an audit say, with 95 % intervals.

    Attributes
    ----------
    wrong : Estimate
        Wrong imputed labels among the rows whose label was missing, before the audit.
    accuracy : Estimate
        Share of these imputed labels that are right.
    classes : dict of ClassEstimates
        Precision, recall and share by class, before learning.
    learnt : dict of ClassEstimates
        The same after learning; approximate, as these labels have learnt from the audit.
    no_change : float
        Weight of leaving the model's probabilities as they are, one half before the audit, against an offset of each class or a
        slope. Errors that average out do not lower it.
    contradicted : bool
        Whether this is below 0.05: the audit contradicts the model.
    transduction : array of shape (n,)
        Labels of all rows: given, audited, and otherwise imputed again after learning from the audit.
    remaining : Estimate
        Wrong labels after learning among the rows that still have no label of a person. The interval is approximate: it takes
        errors of the audited rows, held out in ten folds, for those of the final fit.
    classifier : AuditedClassifier
        The classifier after learning.
    n_audited, n_missing : int
        Rows of the audit, and rows whose label was missing.
    verdict : Verdict
        Whether the labels are verified, and what to do next.
    drawn : Drawn
        The sample, from which `marmix.estimate` answers other questions.

    See Also
    --------
    marmix.Audit : The plan.

    Examples
    --------
    >>> from marmix import Audit, MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> data = make_mar_mixture(500, random_state=0)
    >>> clf = MARLogisticRegression().fit(data.data, data.target)
    >>> audit = Audit(clf, data.data, data.target)
    >>> print(audit.record(data.target_true[audit.rows]))    # here, the labels are known
    Audit of 30 of 347 imputed labels, with 95 % intervals
    wrong: 70 (28 to 138)
    accuracy: 80.0 % (60.2 to 91.9)
    class 0: precision 81.2 % (55.6 to 95.0), recall 80.3 % (61.1 to 94.3), share 52.5 % (36.0 to 68.6)
    class 1: precision 78.6 % (50.9 to 94.6), recall 79.5 % (58.6 to 94.1), share 47.5 % (31.4 to 64.0)
    The audit does not contradict the model: the weight of "no change" is 0.85.
    After learning, wrong among the other 317: 64 (22 to 132)
    Not verified: Label the hardest rows and fit again.
    """

    wrong: Estimate
    accuracy: Estimate
    classes: dict[Any, ClassEstimates]
    learnt: dict[Any, ClassEstimates]
    no_change: float
    contradicted: bool
    transduction: NDArray[Any]
    remaining: Estimate
    classifier: AuditedClassifier
    n_audited: int
    n_missing: int
    verdict: Verdict
    drawn: Drawn = field(repr=False)

    @property
    def n_labelled(self) -> int:
        """Rows of the audit whose label somebody could tell."""
        return len(self.drawn.rows)

    def __str__(self) -> str:
        def count(estimate: Estimate) -> str:
            return f"{estimate.value:,.0f} ({estimate.low:,.0f} to {estimate.high:,.0f})".replace("nan", "unknown")

        def percent(estimate: Estimate) -> str:
            value, low, high = (100.0 * number for number in estimate)
            return f"{value:.1f} % ({low:.1f} to {high:.1f})".replace("nan %", "unknown")

        lines = [
            f"Audit of {self.n_audited:,} of {self.n_missing:,} imputed labels, with 95 % intervals",
            f"wrong: {count(self.wrong)}",
            f"accuracy: {percent(self.accuracy)}",
            *(
                f"class {name}: "
                + ", ".join(f"{field} {percent(value)}" for field, value in zip(one._fields, one, strict=True))
                for name, one in self.classes.items()
            ),
            *[
                f"The audit {'contradicts' if self.contradicted else 'does not contradict'} the model: "
                f'the weight of "no change" is {self.no_change:.2g}.'
            ]
            * bool(self.n_labelled),
            f"After learning, wrong among the other {self.n_missing - self.n_labelled:,}: {count(self.remaining)}",
            f"{self.verdict.state.capitalize()}: {self.verdict.doing}",
        ]
        return "\n".join(lines)


class Audit:
    """A plan of rows to label, drawn by chance from those whose label is missing.

    No method sees from the rows alone that labels are missing because of the label. Someone who labels a few of the rows
    without one does, if chance has chosen them: the number of wrong imputed labels then has an interval that holds whatever
    hid the labels, and the model is corrected by what they say.

    A `MARClassifierCV` that still holds what its fit compared is weighted again by the labels of the audit: chance has drawn
    them, so they represent the rows without a label. Its probabilities, or those of any other classifier, are then calibrated.

    Rows are drawn without replacement, in proportion within strata of the imputed class, of which the smallest are merged until
    each has 8 rows. All rows count alike, whatever their weights in the fit.

    Parameters
    ----------
    clf : classifier
        Fitted: of marmix, a pipeline, or any other with `predict_proba` and `classes_`. The imputed label of a row is its most
        probable class.
    X : array-like of shape (n, d)
        Rows as clf takes them.
    y : array-like of shape (n,) or (n, K)
        Their labels, some of them missing; or votes.
    n : int, default=30
        Number of rows to label; all rows without a label if there are fewer.
    half_width : float or None, default=None
        In place of n: half the width of the interval for the share of wrong labels. The number of rows is that which gives it
        if the probabilities of clf are right.
    accept : float, default=0.1
        Share of wrong labels that you accept; see `AuditResult.verdict`.
    confidence : {"fixed", "sequence"}, default="fixed"
        "fixed": intervals for a number of rows that does not depend on their labels, beyond how wide the interval is.
        "sequence": wider ones that are right at every look, even if you stop once you like the result.
    random_state : int, default=0
        Seed of the draw.

    Attributes
    ----------
    rows : array of int
        Positions in X of the rows to label, in the order in which to label them.
    pending : array of int
        Those of them whose label is not recorded yet.
    recorded : dict
        The labels of the others.

    See Also
    --------
    marmix.MARClassifierCV : a classifier to audit.

    Examples
    --------
    >>> from marmix import Audit, MARLogisticRegression
    >>> from marmix.datasets import make_mar_mixture
    >>> data = make_mar_mixture(500, random_state=0)
    >>> clf = MARLogisticRegression().fit(data.data, data.target)
    >>> audit = Audit(clf, data.data, data.target, n=30)
    >>> result = audit.record(data.target_true[audit.rows])    # here, the labels are known
    >>> wrong = int((clf.transduction_ != data.target_true).sum())
    >>> result.wrong.low <= wrong <= result.wrong.high
    True
    >>> result.contradicted
    False
    """

    def __init__(
        self,
        clf: Any,
        X: Any,
        y: Any,
        n: int = 30,
        *,
        half_width: float | None = None,
        accept: float = ACCEPT,
        confidence: Literal["fixed", "sequence"] = "fixed",
        random_state: int = 0,
    ):
        if confidence not in ("fixed", "sequence"):
            raise ValueError(f"confidence={confidence!r} is not 'fixed' or 'sequence'.")
        check_scalar(random_state, "random_state", Integral, min_val=0)
        check_scalar(accept, "accept", Real, min_val=0.0, max_val=1.0, include_boundaries="neither")
        if hasattr(clf, "fit"):
            check_is_fitted(clf)
        self.clf, self.accept, self.confidence, self.random_state = clf, accept, confidence, random_state
        proba, given, self._X, self._y = unlabelled_proba(clf, X), label_shares(y, clf.classes_), X, y
        if proba.shape != given.shape:
            raise ValueError(f"clf gives probabilities of shape {proba.shape}, and y is of shape {given.shape}.")
        self._given, self._codes = given, most_voted(given, proba)
        self._missing = np.flatnonzero(self._codes < 0)
        if not len(self._missing):
            raise ValueError("no label in y is missing: there is nothing to audit.")
        self._proba = proba[self._missing]
        self._predicted = self._proba.argmax(axis=1)
        if half_width is not None:
            n = self._rows_for(half_width)
        check_scalar(n, "n", Integral, min_val=1)
        self._stratum = strata_of(self._predicted, proba.shape[1], n)
        self._drawn = np.empty(0, dtype=np.intp)  # places in _missing
        self._labels = np.empty((0, proba.shape[1]))
        self.extend(n)

    def __repr__(self) -> str:
        return f"Audit of {len(self._missing):,} imputed labels: {len(self._drawn):,} rows drawn, {len(self._labels):,} answered"

    @property
    def rows(self) -> Places:
        """Positions in X of the rows to label, in order."""
        return self._missing[self._drawn]

    @property
    def pending(self) -> Places:
        """Positions of the rows whose label is not recorded yet."""
        return self.rows[len(self._labels) :]

    @property
    def recorded(self) -> dict[int, Any]:
        """The recorded labels by position, None where nobody can tell."""
        names = np.array([*self.clf.classes_.tolist(), None], dtype=object)
        codes = most_voted(self._labels, self._proba[self._drawn[: len(self._labels)]])
        return dict(zip(self.rows.tolist(), names[codes].tolist(), strict=False))

    def extend(self, n: int) -> Self:
        """Draw n more rows by the same plan, as many as there are left; `pending` has them.

        Parameters
        ----------
        n : int
            Number of rows.

        Returns
        -------
        self
        """
        check_scalar(n, "n", Integral, min_val=1)
        n = min(n, len(self._missing) - len(self._drawn))
        rng = np.random.default_rng([self.random_state, len(self._drawn)])
        self._drawn = np.concatenate([self._drawn, draw(self._strata, self._drawn, n, rng)])
        return self

    def record(self, labels: Any) -> AuditResult:
        """Record the labels of the pending rows.

        Parameters
        ----------
        labels : array-like or dict
            The label of each pending row, in their order, None or NaN where nobody can tell. Or a dict from positions to labels:
            rows after the last of them stay pending, and of a row that is left out before it nobody can tell.

        Returns
        -------
        AuditResult
            From all labels that were ever recorded.
        """
        pending = self.pending.tolist()
        if isinstance(labels, Mapping):
            if strange := labels.keys() - set(pending):
                raise ValueError(f"row {min(strange)} is not one of the pending rows of this audit.")
            last = max((pending.index(row) for row in labels), default=-1)
            labels = [labels.get(row) for row in pending[: last + 1]]
        elif len(labels) != len(pending):
            raise ValueError(
                f"{len(labels)} labels for {len(pending)} pending rows: give one for each, None where nobody can tell."
            )
        if not len(labels):
            raise ValueError("there is no label to record: draw more rows with extend(n).")
        self._labels = np.concatenate([self._labels, label_shares(labels, self.clf.classes_)])
        return self.result()

    def result(self) -> AuditResult:
        """The result from the labels that are recorded.

        Returns
        -------
        AuditResult
        """
        if not len(self._labels):
            raise ValueError("no label is recorded yet: record(labels) comes first.")
        audited, labels, sequence = self._drawn[: len(self._labels)], self._labels, self.confidence == "sequence"
        proba, predicted, N = self._proba[audited], self._predicted[audited], len(self._missing)
        truth = most_voted(labels, proba)
        wrong = total(self._sample(truth != predicted), sequence)
        clf, everywhere, of_audited = self._chosen()
        learnt, held_out = learn(of_audited, labels)
        still = self._sample(held_out.argmax(axis=1) != truth)
        after, known, told = total(still, sequence), int(still.x.sum()), truth >= 0
        codes, imputed = self._codes.copy(), learnt(everywhere).argmax(axis=1)
        codes[self._missing] = imputed
        codes[self._missing[audited[told]]] = truth[told]
        no_change, n = float(learn(proba, labels)[0].weights[0]), int(told.sum())
        remaining = Estimate(
            float((still.expected * (1.0 - (still.n - still.u) / still.N)).sum()), after.low - known, after.high - known
        )
        of_imputed = self._by_class(imputed, truth)
        contradicted, accept, more = no_change < _CONTRADICTED, self.accept, "audit.extend({})".format
        after_learning, strata = self._given.copy(), np.full(len(codes), -1)
        after_learning[self._missing], strata[self._missing] = learnt(everywhere), self._strata
        after_learning[self._missing[audited]] = held_out
        return AuditResult(
            wrong=wrong,
            accuracy=Estimate(1.0 - wrong.value / N, 1.0 - wrong.high / N, 1.0 - wrong.low / N),
            classes=self._by_class(self._predicted, truth),
            learnt=of_imputed,
            no_change=no_change,
            contradicted=contradicted,
            transduction=self.clf.classes_[codes],
            remaining=remaining,
            classifier=AuditedClassifier(clf, learnt, N / len(codes)),
            n_audited=len(audited),
            n_missing=N,
            verdict=verdict_after(
                wrong,
                remaining,
                N,
                N - n,
                labelled=n,
                untold=len(audited) - n,
                contradicted=contradicted,
                classes=of_imputed,
                accept=accept,
                audit=more,
            ),
            drawn=Drawn(
                self.clf.classes_,
                self._given,
                strata,
                self._missing[audited[told]],
                labels[told],
                self._missing[audited[~told]],
                after_learning,
                sequence,
            ),
        )

    def _by_class(self, imputed: Places, truth: NDArray[Any]) -> dict[Any, ClassEstimates]:
        """What labels of the audited rows say about the imputed classes of all rows without a label."""
        classes, sequence = {}, self.confidence == "sequence"
        for k, name in enumerate(self.clf.classes_.tolist()):
            called, of_class = imputed == k, truth == k
            right = self._sample(of_class, called)
            classes[name] = ClassEstimates(
                share(right, sequence),
                ratio(right, self._sample(of_class, ~called), sequence),
                share(self._sample(of_class), sequence),
            )
        return classes

    def _chosen(self) -> tuple[Any, Array, Array]:
        """The classifier, its posteriors (N, K) of the rows without a label, and those (k, K) of the audited rows.

        If it is an average that holds its comparison, its weights follow the audited rows; then the last array is (11, k, K),
        with the weights from each of the `parts` of these rows.
        """
        audited, labels = self._drawn[: len(self._labels)], self._labels
        if not averages(self.clf, self._X, self._y):
            return self.clf, self._proba, self._proba[audited]
        clfs = [reweighted(self.clf, self.rows[: len(labels)][part], labels[part]) for part in parts(len(labels))]
        weights = np.array([[*clf.weights_.values()] for clf in clfs])
        used = np.flatnonzero(weights.any(axis=0))  # some had no weight before the audit
        names = [[*self.clf.weights_][place] for place in used]
        weights, candidates = weights[:, used], candidate_proba(self.clf, self._X, names)[:, self._missing]
        everywhere = np.einsum("c,cnk->nk", weights[0], candidates)
        return clfs[0], everywhere, np.einsum("fc,cnk->fnk", weights, candidates[:, audited])

    def half_widths(self) -> list[float]:
        """Half the width of the interval for the share of wrong labels after 1, 2, ... rows if half of them were wrong.

        Intervals are about as wide as this or narrower, whatever the labels.

        Returns
        -------
        list of float
        """
        strata, N = self._strata, len(self._missing)
        sizes, several = np.bincount(strata), strata.max() + 1
        widths = []
        for k in range(1, len(self._drawn) + 1):
            drawn = np.bincount(strata[self._drawn[:k]], minlength=several)
            _, low, high = total(Sample(sizes, drawn, drawn // 2, 0 * drawn), self.confidence == "sequence")
            widths.append(0.5 * (high - low) / N)
        return widths

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan, with the labels that are recorded, as JSON.

        Parameters
        ----------
        path : path
            File to write.
        """
        plan = {
            "marmix": version("marmix"),
            "seed": self.random_state,
            "confidence": self.confidence,
            "accept": self.accept,
            "classes": self.clf.classes_.tolist(),
            "n": len(self._codes),
            "predictions": self._predicted.tolist(),
            "strata": self._stratum.tolist(),
            "rows": self.rows.tolist(),
            "probabilities": self._proba[self._drawn].tolist(),
            "labels": self._labels.tolist(),
        }
        part = Path(f"{path}.part")  # so that labels are never lost half-way
        part.write_text(json.dumps(plan), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: str | PathLike[str], clf: Any, X: Any, y: Any) -> "Audit":
        """Read a plan.

        Parameters
        ----------
        path : path
            File that `save` wrote.
        clf, X, y
            The classifier and the rows of the plan; others are refused.

        Returns
        -------
        Audit
        """
        try:
            plan = json.loads(Path(path).read_text(encoding="utf-8"))
            rows, strata, labels, proba, seed, confidence, *facts = (plan[name] for name in _PLAN)
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is not a whole plan of an audit, as Audit.save writes it.") from None
        accept = plan.get("accept", ACCEPT)
        audit = cls(clf, X, y, 1, accept=accept, confidence=confidence, random_state=seed)
        audit._drawn = np.minimum(np.searchsorted(audit._missing, rows), len(audit._missing) - 1)
        audit._stratum = np.array(strata)
        expected = [audit.rows.tolist(), clf.classes_.tolist(), len(audit._codes), audit._predicted.tolist()]
        if [rows, *facts] != expected or not np.allclose(proba, audit._proba[audit._drawn], rtol=0.0, atol=1e-6):
            raise ValueError(
                f"{path} is the plan of an audit of other rows or of another fit: delete it to draw again."
            )
        audit._labels = np.array(labels).reshape(-1, len(clf.classes_))
        return audit

    @property
    def _strata(self) -> Places:
        return self._stratum[self._predicted]

    def _sample(self, attribute: NDArray[np.bool_], rows: Any = slice(None)) -> Sample:
        """Numbers by stratum of an attribute of the audited rows, among some of the rows without a label."""
        audited, strata = self._drawn[: len(self._labels)], self._strata
        inside = np.zeros(len(strata), dtype=bool)
        inside[rows] = True
        told = self._labels.any(axis=1)

        def count(places: Any) -> NDArray[np.int_]:
            return np.bincount(strata[places], minlength=strata.max() + 1)

        drawn = inside[audited]
        return Sample(
            count(inside),
            count(audited[drawn]),
            count(audited[drawn & told & attribute]),
            count(audited[drawn & ~told]),
        )

    def _rows_for(self, half_width: float) -> int:
        """The number of rows for an interval of this half width, if as many labels are wrong as clf expects."""
        if not half_width > 0.0:
            raise ValueError(f"half_width={half_width} must be positive.")
        N, doubt = len(self._missing), 1.0 - self._proba.max(axis=1)

        def wide(n: int) -> bool:
            strata = strata_of(self._predicted, self._proba.shape[1], n)[self._predicted]
            sizes = np.bincount(strata)
            drawn = np.round(n * sizes / N).astype(int)
            errors = np.round(drawn * np.bincount(strata, weights=doubt) / sizes).astype(int)
            low, high = total(Sample(sizes, drawn, errors, 0 * errors), self.confidence == "sequence")[1:]
            return bool(high - low > 2.0 * half_width * N)

        few, many = 0, 10
        while many < N and wide(many):
            few, many = many, 2 * many
        many = min(many, N)
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if wide(middle) else (few, middle)
        return many
