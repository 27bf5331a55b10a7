"""How good a test or a classifier is on all rows, when only some have the gold standard."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from marmix.audit.intervals import Estimate
from marmix.core.arrays import Array
from marmix.core.labels import choose_classes, found_labels, label_shares
from marmix.estimate.designs import Design, all_labelled, design_of, doubly_robust, stratified, table
from marmix.estimate.equations import means
from marmix.estimate.results import Answer, answer
from marmix.evaluation.scores import weighted_auc
from marmix.inference.tables import Shown, Table

# Of each quantity the cells whose sum is divided by that of others; cells are tp, fn, fp and tn.
_RATIOS = {
    "prevalence": ((0, 1), (0, 1, 2, 3)),
    "sensitivity": ((0,), (0, 1)),
    "specificity": ((3,), (2, 3)),
    "PPV": ((0,), (0, 2)),
    "NPV": ((3,), (1, 3)),
    "accuracy": ((0, 3), (0, 1, 2, 3)),
}


@dataclass(frozen=True)
class Diagnosis(Shown):
    """What `diagnose` returns. Print it for a table.

    Attributes
    ----------
    corrected : Answer
        For all rows: the area under the ROC curve, AUC; and if the test is binary or has a threshold, prevalence, sensitivity,
        specificity, predictive values PPV and NPV, accuracy, and likelihood ratios LR+ and LR-.
    naive : Answer
        The same for the labelled rows alone.
    fpr, tpr, thresholds : arrays
        The ROC curve of all rows: rates of positive tests among rows without and with the class, at each threshold.

    See Also
    --------
    diagnose : Compute it.

    Examples
    --------
    >>> from marmix import diagnose
    >>> result = diagnose([1] * 5 + [0] * 5, [1, 1, 1, 0, -1, 1, 0, 0, -1, -1])
    >>> round(result["sensitivity"].value, 2)
    0.69
    """

    corrected: Answer
    naive: Answer
    fpr: Array = field(repr=False)
    tpr: Array = field(repr=False)
    thresholds: Array = field(repr=False)

    def __getitem__(self, name: str) -> Estimate:
        """A quantity by name, with its 95 % interval."""
        i = self.corrected.names.index(name)
        return Estimate(float(self.corrected.values[i]), *self.corrected.limits[i].tolist())

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        names, naive = self.corrected.names, self.naive
        quantities = {
            name: self[name]._asdict() | {"naive": float(value)}
            for name, value in zip(names, naive.values, strict=True)
        }
        about = {name: getattr(self.corrected, name) for name in ("n", "n_labelled", "design", "assumption", "notes")}
        return about | {"quantities": quantities}

    def summary(self) -> Table:
        """All quantities as a table."""
        corrected, naive = self.corrected, self.naive
        columns = ["all rows", "[2.5%", "97.5%]", "labelled rows", "[2.5% ", "97.5%] "]
        parts = corrected.values, *corrected.limits.T, naive.values, *naive.limits.T
        rows = [[float(cell) for cell in row] for row in zip(*parts, strict=True)]
        facts = [("rows", f"{corrected.n:,}, {corrected.n_labelled:,} with a label"), ("design", corrected.design)]
        return Table(
            "Diagnostic accuracy", columns, corrected.names, rows, facts, [corrected.assumption, *corrected.notes]
        )


def diagnose(
    score: Any, y: Any, X: Any = None, *, of: Any = None, threshold: float | None = None, source: Any = None
) -> Diagnosis:
    r"""Estimate how good a test, or any classifier, is on all rows, when only some of them have a label.

    Rows with a positive test get the gold standard more often, so among labelled rows a test looks more sensitive and less
    specific than it is. If whether a label is missing depends on a binary test T alone (Begg and Greenes, 1983), with v for
    labelled rows,

    .. math::

        \mathrm{sensitivity} = \frac{P(T = 1)\, P(y = 1 \mid T = 1, v)}{\sum_t P(T = t)\, P(y = 1 \mid T = t, v)}.

    With a score or with X, posteriors and the probability of a label come from cross-fitted logistic regressions on these, and
    the estimates are doubly robust, as those of `marmix.estimate`. With an audit nothing is assumed of why labels are missing.
    If all rows have a label, intervals of rates are those of Clopper and Pearson, and those of rates of 0 or 1 are never shorter.

    Parameters
    ----------
    score : array-like of shape (n,)
        A number for each row, larger where the class is more likely, or the result of a binary test as two numbers or booleans.
    y : array-like of shape (n,)
        The gold standard, missing where -1, NaN, None or pandas.NA.
    X : table or array of shape (n, d), default=None
        What else may have decided which rows got a label.
    of : object, default=None
        The class that the test looks for; by default the second of two.
    threshold : float or None, default=None
        The test is positive at this score or above. Not needed for a binary test; without one, a score has only a ROC curve.
    source : classifier, AuditResult, array of shape (n, K) or None, default=None
        As in `marmix.estimate.share`; it takes X.

    Returns
    -------
    Diagnosis

    See Also
    --------
    marmix.estimate : Shares, means, differences and regressions.
    marmix.evaluation : Scores of class probabilities.

    Examples
    --------
    650 livers were scanned, and 344 of them examined, mostly those with a positive scan (Drum and Christacopoulos, 1972):

    >>> import numpy as np
    >>> from marmix import diagnose
    >>> scan = np.repeat([1, 1, 1, 0, 0, 0], [231, 32, 166, 27, 54, 140])
    >>> liver = np.repeat([1, 0, -1, 1, 0, -1], [231, 32, 166, 27, 54, 140])
    >>> result = diagnose(scan, liver)
    >>> print("{:.2f} ({:.2f} to {:.2f})".format(*result["sensitivity"]))
    0.84 (0.78 to 0.88)
    >>> naive = dict(zip(result.naive.names, result.naive.values))
    >>> print(f"{naive['sensitivity']:.2f}")
    0.90
    """
    test = np.asarray(score)
    if test.ndim != 1 or test.dtype.kind not in "biuf" or not np.isfinite(test).all():
        raise ValueError(
            "score must be a column of finite numbers, or of True and False: code other results as 0 and 1."
        )
    test, values = test.astype(float), np.unique(test)
    if len(values) < 2:
        raise ValueError("score is the same in all rows: there is nothing to learn about it.")
    if len(values) == 2 and threshold is None:
        threshold = float(values[1])
    if source is None:
        design = _of_score(test, threshold if len(values) == 2 else None, X, y, of)
    else:
        if X is None:
            raise ValueError("source needs X: give the features that it takes.")
        design = design_of(source, X, y, test[:, None])
        design = design.binary(_class(design.classes, of))
    if len(design.labels) != len(test):
        raise ValueError(f"{len(test)} scores for {len(design.labels)} labels: one for each row is needed.")
    labelled = design.labelled
    labels = design.labels[labelled]
    if not labels.any(axis=0).all():
        raise ValueError("the labels are all of one class: sensitivity and specificity need some of both.")
    corrected, naive = (
        _answer(d, t, threshold) for d, t in ((design, test), (all_labelled(design.classes, labels), test[labelled]))
    )
    if corrected.limits[corrected.names.index("AUC"), 1] < 0.5:
        note = "Larger scores go with the other class: if that is not meant, name the class that the test looks for."
        corrected = replace(corrected, notes=(*corrected.notes, note))
    return Diagnosis(corrected, naive, *_roc(design, test))


def _of_score(test: Array, binary: float | None, X: Any, y: Any, of: Any) -> Design:
    """The design without a source."""
    classes, _ = choose_classes([found_labels(y)])
    shares, k = label_shares(y, classes), _class(classes, of)
    if len(shares) != len(test):
        raise ValueError(f"{len(test)} scores for {len(shares)} labels: one for each row is needed.")
    labels = np.column_stack([shares.sum(axis=1) - shares[:, k], shares[:, k]])
    if binary is not None and X is None:
        return stratified(np.arange(2), labels, (test >= binary).astype(np.intp))
    return doubly_robust(np.arange(2), labels, table(test[:, None], X))


def _class(classes: NDArray[Any], of: Any) -> int:
    names = classes.tolist()
    if of is None and len(names) != 2:
        raise ValueError(f"of= must name the class that the test looks for, one of {names}.")
    if of is not None and of not in names:
        raise ValueError(f"{of!r} is not one of the classes {names}.")
    return 1 if of is None else names.index(of)


def _answer(design: Design, test: Array, threshold: float | None) -> Answer:
    """All quantities with their influences."""
    n = len(test)
    result: dict[str, tuple[float, Array, str]] = {}
    if threshold is not None:
        positive, label = (test >= threshold)[:, None], np.array([[False, True]])
        cells = [positive & label, ~positive & label, positive & ~label, ~positive & ~label]
        c, influences = zip(*(means(design, cell.astype(float), np.ones((n, 1))) for cell in cells), strict=True)
        for name, (above, below) in _RATIOS.items():
            size = sum(c[i][0] for i in below)
            value = sum(c[i][0] for i in above) / size
            g = (sum(influences[i] for i in above) - value * sum(influences[i] for i in below)) / size
            result[name] = (float(value), g, "logit")
        (sens, g_sens, _), (spec, g_spec, _) = result["sensitivity"], result["specificity"]
        with np.errstate(divide="ignore", invalid="ignore"):
            result["LR+"] = np.divide(sens, 1 - spec), (g_sens + np.divide(sens, 1 - spec) * g_spec) / (1 - spec), "log"
            result["LR-"] = np.divide(1 - sens, spec), -(g_sens + np.divide(1 - sens, spec) * g_spec) / spec, "log"
    r = design.pseudo_labels
    area, positives, negatives = weighted_auc(test, r[:, 1], r[:, 0])
    result["AUC"] = area, np.column_stack([negatives, positives])[:, :, None], "area"
    values, g, scales = zip(*result.values(), strict=True)
    found = answer(design, "Diagnostic accuracy", [*result], np.array(values), np.concatenate(g, axis=2), [*scales])
    limits, complete = dict(zip(found.names, found.limits, strict=True)), design.labelled.all()
    at_bound = {name for name, value in zip(found.names, found.values, strict=True) if min(value, 1.0 - value) < 1e-9}
    if threshold is not None:
        seen = [(design.labels * cell).sum() for cell in cells]
        for name in _RATIOS if complete else at_bound & _RATIOS.keys():
            x, n = (sum(seen[i] for i in part) for part in _RATIOS[name])
            limits[name] = _clopper_pearson(x, n, *(() if complete else limits[name]))
        if at_bound & {"sensitivity", "specificity"}:
            a, b = np.array([limits["sensitivity"], limits["specificity"]])
            with np.errstate(divide="ignore"):
                limits["LR+"], limits["LR-"] = a / (1.0 - b), ((1.0 - a) / b)[::-1]
    if "AUC" in at_bound:  # among n pairs of labelled rows that share none
        n = design.labels.sum(axis=0).min()
        limits["AUC"] = _clopper_pearson(round(area) * n, n, *limits["AUC"])
    return replace(found, limits=np.array([*limits.values()]))


def _clopper_pearson(x: float, n: float, low: float = 1.0, high: float = 0.0) -> Array:
    """The exact interval of x in n, widened to contain other limits."""
    ends = np.fmax([[x, x + 1.0], [n - x + 1.0, n - x]], 1e-9)
    exact = np.where([x == 0.0, x == n], [0.0, 1.0], betaincinv(*ends, [0.025, 0.975]))
    return np.array([min(low, exact[0]), max(high, exact[1])])


def _roc(design: Design, test: Array) -> tuple[Array, Array, Array]:
    """False and true positive rates at each threshold, which pseudo-labels may leave in need of being made monotone."""
    thresholds, place = np.unique(-test, return_inverse=True)
    sums = np.array([np.bincount(place, weights=column) for column in design.pseudo_labels.T]).cumsum(axis=1)
    rates = np.maximum.accumulate(np.clip(sums / sums[:, -1:], 0.0, 1.0), axis=1)
    fpr, tpr = np.column_stack([np.zeros(2), rates])
    return fpr, tpr, np.append(np.inf, -thresholds)
